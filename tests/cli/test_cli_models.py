"""`memorist models`."""

import json
from pathlib import Path

import pytest
from command_line import CommandLine

from conftest import MODELS

WEIGHTS = MODELS / "reranker" / "src" / "memorist_reranker"


@pytest.fixture
def cli(
    elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """A machine on which no further model is installed."""
    return CommandLine(tmp_path, monkeypatch, capsys)


def installed(cli: CommandLine) -> dict[str, bool]:
    return {model["name"]: model["installed"] for model in json.loads(cli("models", "list", "--json").out)["models"]}


def test_what_is_missing_is_listed_with_how_to_get_it(cli: CommandLine) -> None:
    out = cli("models", "list").out

    assert "local      memorist-embed-v1" in out
    assert "missing: `pip install memorist-reranker` adds it" in out
    assert installed(cli) == {"local": True, "reranker": False}


def test_as_json_every_model_is_told_alike(cli: CommandLine) -> None:
    local, *others = cli("models", "list", "--json").json["models"]

    assert others
    assert all(set(one) == set(local) for one in others)


def test_a_model_is_added_used_and_removed(cli: CommandLine) -> None:
    cli("add", "Backups are kept for thirty days")

    assert cli("models", "add", str(WEIGHTS)).out == "Added reranker.\n"
    assert installed(cli) == {"local": True, "reranker": True}
    found = json.loads(cli("search", "how long are backups kept?", "--profile", "precise", "--explain", "--json").out)
    assert "not reranked" not in found["degraded"]  # there is no model for vectors here
    assert "rerank" in found["results"][0]["trace"]
    assert cli("models", "remove", "reranker").out == "Removed reranker.\n"
    assert installed(cli) == {"local": True, "reranker": False}


def test_the_setting_names_a_folder_of_models(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "reranker").symlink_to(WEIGHTS)
    cli("config", "set", "models", str(tmp_path / "shelf"))

    assert installed(cli) == {"local": True, "reranker": True}


def test_a_folder_without_a_known_model_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"something else")

    cli("models", "add", str(tmp_path)).assert_failed(1, "holds none of the optional models (reranker)")


def test_a_model_that_is_not_there_cannot_be_removed(cli: CommandLine) -> None:
    cli("models", "remove", "reranker").assert_failed(1, "was not added with `memorist models add`")
    cli("models", "remove", "gpt").assert_failed(1, "'gpt' is unknown")


@pytest.mark.parametrize("given", ["many", "0", "2000"])
def test_a_wrong_number_to_rerank_is_refused(cli: CommandLine, given: str) -> None:
    cli("search", "backups", "--rerank", given).assert_failed(1, "rerank")
