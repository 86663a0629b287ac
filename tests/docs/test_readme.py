"""Facts in the README that no other test holds: sizes, names, figures and licences."""

import importlib
import re
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import distribution
from pathlib import Path

import click
import pytest
from packaging.requirements import Requirement

import memorist
from doc_pages import ROOT
from memorist.cli.app import COMMANDS
from memorist.hooks import ACTIONS, BRIEF, RECALL
from memorist.install.clients import CLIENTS

README = (ROOT / "README.md").read_text("utf-8")
SPEED = (ROOT / "docs" / "speed.md").read_text("utf-8")
QUALITY = (ROOT / "docs" / "quality.md").read_text("utf-8")
PACKAGE = ROOT / "src" / "memorist"
MEGABYTE = 1_000_000
# These write, run until they are ended, or answer a program in its own form.
WITHOUT_JSON = set("forget restore lens-remove fact-remove mcp hook models-add models-remove".split())
WITHOUT_JSON |= set("config-set config-unset demo serve ui token".split())


def needed_packages(name: str) -> set[str]:
    """Return the names of a package and of all it needs, without extras, as they are installed here."""
    found: set[str] = set()
    todo = {name}
    while todo:
        found.add(name := todo.pop())
        for requirement in map(Requirement, distribution(name).requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                todo |= {requirement.name} - found
    return found


def installed_size(name: str) -> int:
    files = (Path(str(file.locate())) for file in distribution(name).files or ())
    return sum(file.stat().st_size for file in files if file.is_file())


@pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux; packages differ in size between systems")
def test_the_installed_packages_are_as_many_and_as_large_as_said() -> None:
    said = re.search(r"(\d+) packages, (\d+) MB", SPEED)
    assert said
    needed = needed_packages("memorist")
    own = sum(file.stat().st_size for file in PACKAGE.rglob("*") if file.is_file() and file.suffix != ".pyc")

    size = own + sum(installed_size(name) for name in needed - {"memorist"})

    assert len(needed) == int(said[1])
    assert size / MEGABYTE == pytest.approx(int(said[2]), rel=0.1)
    assert not {"torch", "transformers", "sentence-transformers"} & needed


def test_the_bundled_model_is_as_large_as_said() -> None:
    size = sum(file.stat().st_size for file in (PACKAGE / "embed" / "bundled").iterdir())

    assert f"bundled, {size / MEGABYTE:.0f} MB" in README


def test_every_command_that_reads_has_json() -> None:
    def without_json(name: str, command: click.Command) -> set[str]:
        if isinstance(command, click.Group):
            return set().union(*(without_json(f"{name}-{part}", one) for part, one in command.commands.items()))
        return set() if any("--json" in parameter.opts for parameter in command.params) else {name}

    found = set()
    for name, entry in COMMANDS.items():
        module = importlib.import_module(f"memorist.cli.{entry.module}")
        found |= without_json(name, getattr(module, f"{name}_command"))

    assert found == WITHOUT_JSON


def test_the_clients_are_those_that_can_be_set_up() -> None:
    said = re.search(r"also sets up (.*?)\.\s", README, re.DOTALL)
    assert said
    titles = re.split(r", | and ", " ".join(said[1].split()))

    assert {"Claude Code", *titles} == {client.title for client in CLIENTS.values()}


def test_clients_with_hooks_hear_at_the_start_and_most_before_each_prompt() -> None:
    with_hooks = [client.hooks for client in CLIENTS.values() if client.hooks]
    actions = [{ACTIONS[event] for event in hooks.events} for hooks in with_hooks]

    assert all(BRIEF in each for each in actions)
    assert sum(RECALL in each for each in actions) > len(actions) / 2


def test_last_tuesday_answers_as_things_stood_then(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        long_ago = datetime.now(UTC) - timedelta(days=30)
        old = memory.add("The ferry leaves at nine", created_at=long_ago)
        new = memory.add("The ferry leaves at ten")
        memory.supersede(old.id, new.id)

        assert [hit.memory.id for hit in memory.search("ferry")] == [new.id]
        assert [hit.memory.id for hit in memory.search("ferry", as_of="last tuesday")] == [old.id]


def find_figures(pattern: str, page: str) -> list[float]:
    found = re.search(pattern, page)
    assert found, pattern
    return [float(figure) for figure in found.groups()]


def test_the_figures_are_those_of_the_pages() -> None:
    median, slow = find_figures(r"\| hybrid search, .*\((\d+\.\d) and (\d+\.\d) ms\)", SPEED)
    recall, theirs = find_figures(r"\| LoCoMo, turns, Recall@5 / @10;.*?/ (\.\d+) \| \.\d+ / (\.\d+):", QUALITY)
    (ndcg,) = find_figures(r"\| SciFact, test part, nDCG@10 \| (\.\d+)", QUALITY)
    grep, keyword, vector = find_figures(r"\| SciFact, test \| 300 \| (\.\d+) \| (\.\d+) \| (\.\d+)", QUALITY)
    readme = README.replace(" .", " 0.")

    assert f"{median:.0f} ms at the median, {slow:.0f} ms at the 95th percentile" in readme
    assert f"{100 * recall:.0f} %; {100 * theirs:.0f} % for the dense retriever" in readme
    assert f"{ndcg:.2f}; keyword alone {keyword:.2f}, vectors alone {vector:.2f}, grep {grep:.2f}" in readme


def test_the_licences_are_those_said() -> None:
    licence, notice = ((ROOT / name).read_text("utf-8") for name in ("LICENSE", "NOTICE"))

    assert "Apache License" in licence
    assert "Version 2.0" in licence
    assert "all-MiniLM-L6-v2" in notice
    assert "Licence:  Apache License, Version 2.0" in notice
