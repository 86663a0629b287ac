"""Imports from files: whole or not at all, once however often, and refused by line where they cannot be read."""

import gzip
import io
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import memorist
from answers import texts
from conftest import FailingEmbedder, HashingEmbedder
from memorist import InvalidInput, Memorist
from memorist.engine.transfer import BATCH
from processes import expect, read_line, start_program
from test_export import exported, full_life

kills = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
MANY = 3000


def sample(folder: Path) -> list[bytes]:
    """The lines of an export with one of everything."""
    with memorist.open(":memory:", embedder=HashingEmbedder()) as memory:
        full_life(memory, folder / "docs")
        return exported(memory, vectors=True).split(b"\n")[:-1]


def changed(
    lines: list[bytes], type: str | None, change: Callable[[dict[str, Any]], object]
) -> tuple[list[bytes], int]:
    """The lines with the first record of a type changed, and which line that is."""
    for number, raw in enumerate(lines):
        record = json.loads(raw)
        if record.get("type") == type:
            change(record)
            return [*lines[:number], json.dumps(record).encode(), *lines[number + 1 :]], number + 1
    raise AssertionError(type)


WRONG: dict[str, tuple[str | None, Callable[[dict[str, Any]], object], str]] = {
    "a type nobody knows": ("memory", lambda one: one.update(type="poem"), "is not a type of record"),
    "no type": ("memory", lambda one: one.pop("type"), "is not a type of record"),
    "a field nobody knows": ("memory", lambda one: one.update(mood="good"), "there is no field 'mood'"),
    "a missing field": ("memory", lambda one: one.pop("salience"), "salience is missing"),
    "a null in its place": ("memory", lambda one: one.update(content=None), "content is missing"),
    "a number for a text": ("memory", lambda one: one.update(content=5), "content cannot be 5"),
    "an empty text": ("memory", lambda one: one.update(content=" "), "content cannot be"),
    "half a character": ("memory", lambda one: one.update(content="\ud800"), "content cannot be"),
    "a NUL": ("memory", lambda one: one.update(title="\0"), "title cannot be"),
    "half a character within": ("memory", lambda one: one.update(metadata={"a": ["\udfff"]}), "metadata cannot be"),
    "a text for a list": ("memory", lambda one: one.update(tags="x"), "tags cannot be"),
    "a list of numbers": ("memory", lambda one: one.update(tags=[1]), "tags cannot be"),
    "too much salience": ("memory", lambda one: one.update(salience=1.5), "salience cannot be 1.5"),
    "a salience that is true": ("memory", lambda one: one.update(salience=True), "salience cannot be True"),
    "a sector nobody knows": ("memory", lambda one: one.update(sector="left"), "sector cannot be 'left'"),
    "a time without a zone": ("memory", lambda one: one.update(created_at="2026-01-01T00:00"), "created_at cannot be"),
    "no time": ("memory", lambda one: one.update(created_at="soon"), "created_at cannot be 'soon'"),
    "an id that cannot be one": ("memory", lambda one: one.update(id="a\nb"), "id cannot be 'a\\nb'"),
    "a flag that is none": ("memory", lambda one: one.update(pinned=1), "pinned cannot be 1"),
    "facts that are no list": ("memory", lambda one: one.update(facts={}), "facts must be a list"),
    "a fact that is none": ("memory", lambda one: one.update(facts=["a"]), "a record must be an object"),
    "a fact without a text": ("memory", lambda one: one["facts"][0].pop("text"), "text is missing"),
    "a huge number": ("session", lambda one: one.update(started_at=10**400), "started_at cannot be"),
    "a lens that is none": ("lens", lambda one: one.update(definition={"colour": 1}), "definition cannot be"),
    "a vector that is none": ("memory", lambda one: one["vectors"][0].update(vector="AAAA"), "vector cannot be"),
    "a vector of no length": ("memory", lambda one: one["vectors"][0].update(vector="AAA="), "of unit length"),
    "no base64": ("document", lambda one: one.update(hash="%%%"), "hash cannot be"),
    "a size that is text": ("document", lambda one: one.update(size="big"), "size cannot be 'big'"),
    "a newer format": (None, lambda one: one.update(memorist=2), "upgrade Memorist"),
    "no format": (None, lambda one: one.update(memorist="one"), "not an export of Memorist"),
    "a header with more in it": (None, lambda one: one.update(secret=1), "has a field 'secret'"),
    "lines that are missing": ("end", lambda one: one.update(records=3), "lines are missing"),
}  # fmt: skip


@pytest.mark.local_only("it needs the process of the memory, its files or its words")
@pytest.mark.parametrize("what", WRONG)
def test_a_line_that_cannot_be_read_is_named_and_nothing_is_written(
    memory: Memorist, tmp_path: Path, what: str
) -> None:
    type, change, about = WRONG[what]
    lines, number = changed(sample(tmp_path), type, change)
    file = tmp_path / "all.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")

    with pytest.raises(InvalidInput) as refused:
        memory.transfer.import_(file, format="memorist")

    assert about in str(refused.value)
    assert f"{file}, line {number}" in str(refused.value)
    assert memory.stats().memories == 0


BROKEN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut off within a line": (lambda data: data[: len(data) // 2], "truncated here"),
    "cut off between lines": (lambda data: data[: data.rindex(b'{"type":"end"')], "is truncated"),
    "bytes that are no text": (lambda data: data.replace(b"Retries", b"Retr\xff\xfe", 1), "is not UTF-8"),
    "no JSON": (lambda data: data.replace(b'{"type":"session"', b"type: session", 1), "it is not JSON"),
    "an empty line": (lambda data: data.replace(b'{"type":"session"', b'\n{"type":"session"', 1), "it is not JSON"),
    "a list": (lambda data: data.replace(b'{"type":"session"', b'[]\n{"type":"session"', 1), "not a JSON object"),
    "infinity": (lambda data: data.replace(b'"salience":0.5', b'"salience":Infinity', 1), "Infinity is not a number"),
    "more behind the end": (lambda data: data + b"{}\n", "more after the last line"),
    "brackets without end": (lambda data: data.replace(b'{"type":"session"', b"[" * 100_000, 1), "JSON"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_refused_by_line_and_nothing_is_written(memory: Memorist, tmp_path: Path, what: str) -> None:
    breaks, about = BROKEN[what]
    file = tmp_path / "all.jsonl"
    file.write_bytes(breaks(b"\n".join(sample(tmp_path)) + b"\n"))

    with pytest.raises(InvalidInput, match=r"all\.jsonl.*line \d+") as refused:
        memory.transfer.import_(file)

    assert about in str(refused.value)
    assert memory.stats().memories == 0


REFERENCES: dict[str, tuple[str, Callable[[dict[str, Any]], object], str]] = {
    "a relation of nobody": ("relation", lambda one: one.update(source="nobody-there"), "no memory 'nobody-there'"),
    "a relation with itself": ("relation", lambda one: one.update(source=one["target"]), "related to itself"),
    "a session of nobody": ("memory", lambda one: one["sessions"][0].update(session="x"), "no session 'x'"),
    "the same fact twice": ("memory", lambda one: one.update(facts=one["facts"] * 2), "is there twice"),
    "a vector that is too short": (
        "memory", lambda one: one["vectors"][0].update(vector="ADw="), "has 2 bytes, not 128"),
    "a vector of a model nobody told of": (
        "memory", lambda one: one["vectors"][0].update(model="other"), "no record before it describes the model"),
    "a recall of nobody": (
        "recall", lambda one: one["memories"][0].update(memory="nobody-there"), "no memory 'nobody-there'"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFERENCES)
def test_what_speaks_of_something_that_is_not_there_is_refused_by_line(
    memory: Memorist, tmp_path: Path, what: str
) -> None:
    type, change, about = REFERENCES[what]
    lines, number = changed(sample(tmp_path), type, change)
    (tmp_path / "all.jsonl").write_bytes(b"\n".join(lines) + b"\n")

    with pytest.raises(InvalidInput, match=rf"line {number}.*{about}"):
        memory.transfer.import_(tmp_path / "all.jsonl")

    assert memory.check().problems == ()
    assert memory.stats().memories == 0


@pytest.mark.local_only("it reads a file of its own machine")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda memory, file: memory.transfer.import_(file.parent / "missing"),
        lambda memory, file: memory.transfer.import_(file, format="xml"),
        lambda memory, file: memory.transfer.import_(file.parent, format="mem0"),
        lambda memory, file: memory.transfer.import_(file, project=5),
        lambda memory, file: memory.transfer.import_(file, project="api"),
        lambda memory, file: memory.transfer.import_(file, redact="no"),
        lambda memory, file: memory.transfer.import_(file, tools="no"),
        lambda memory, file: memory.transfer.import_(file, allow=5),
        lambda memory, file: memory.transfer.import_(5),
        lambda memory, file: memory.transfer.import_(""),
        lambda memory, file: memory.transfer.import_(file, format="mem0"),
    ],
)
def test_wrong_arguments_of_an_import_are_refused(
    memory: Memorist, tmp_path: Path, wrong: Callable[[Memorist, Path], object]
) -> None:
    memory.transfer.export(tmp_path / "all.jsonl")

    with pytest.raises(InvalidInput):
        wrong(memory, tmp_path / "all.jsonl")


# What is there already


def test_what_is_there_stays_as_it_is(memory: Memorist, tmp_path: Path) -> None:
    memory.add("as it was", id="the-note")
    memory.transfer.export(tmp_path / "all.jsonl")
    memory.update("the-note", content="as it is")
    memory.forget(memory.add("new").id)

    report = memory.transfer.import_(tmp_path / "all.jsonl")

    assert (report.added, report.known) == (0, 1)
    assert memory.get("the-note").content == "as it is"


def test_the_same_text_under_another_id_is_one_memory_and_takes_what_is_said_of_it(
    memory: Memorist, tmp_path: Path
) -> None:
    with memorist.open(":memory:", embedder="none") as other:
        one, two = other.add("the same text", project="api"), other.add("another")
        other.links.add(two.id, one.id, "about")
        other.search("same text", record="log")
        other.transfer.export(tmp_path / "all.jsonl")
    mine = memory.add("the same text", project="api")

    for _ in range(2):
        memory.transfer.import_(tmp_path / "all.jsonl")
        assert memory.stats().memories == 2
        assert memory.get(mine.id).salience == mine.salience
        (related,) = memory.related(mine.id)
        assert related.memory.id == two.id
        assert [found.id for recall in memory.searches.list() for found in recall.memories] == [mine.id]
    assert memory.check().problems == ()


def test_a_supersession_that_would_make_a_circle_is_skipped_and_reported(memory: Memorist, tmp_path: Path) -> None:
    memory.add("one", id="note-one")
    memory.add("two", id="note-two")
    memory.supersede("note-one", "note-two")
    memory.transfer.export(tmp_path / "all.jsonl")
    memory.unsupersede("note-one")
    memory.supersede("note-two", "note-one")
    lines = (tmp_path / "all.jsonl").read_bytes()
    moved = lines.replace(b'"valid_from":"2', b'"valid_from":"3')
    (tmp_path / "all.jsonl").write_bytes(moved)

    report = memory.transfer.import_(tmp_path / "all.jsonl")

    assert [reason for _, reason in report.skipped] == ["the superseding memory is itself superseded by the other"]
    assert texts(memory.search("one two")) == ["one"]
    assert memory.check().problems == ()


def test_imported_texts_are_found_by_meaning_at_once(tmp_path: Path, path: Path) -> None:
    with memorist.open(":memory:", embedder="none") as memory:
        full_life(memory, tmp_path / "docs")
        memory.add_many(f"note {number}" for number in range(600))
        memory.transfer.export(tmp_path / "all.jsonl")
    steps: list[int] = []
    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        memory.transfer.import_(tmp_path / "all.jsonl", progress=steps.append)
        assert memory.stats().pending == 0
        assert "note 17" in texts(memory.search("note 17", mode="semantic", limit=100))
        assert memory.documents.search("harbour", mode="semantic")[0].path.endswith("more.md")
    assert steps == sorted(steps)


def test_a_model_that_is_away_costs_no_memory(tmp_path: Path, path: Path) -> None:
    with memorist.open(":memory:", embedder="none") as memory:
        memory.add_many(f"note {number}" for number in range(600))
        memory.transfer.export(tmp_path / "all.jsonl")
    embedder = FailingEmbedder()
    with memorist.open(path, embedder=embedder) as memory:
        assert memory.transfer.import_(tmp_path / "all.jsonl").added == 600
        assert memory.stats().pending == 600
        embedder.broken = False
        assert memory.transfer.import_(tmp_path / "all.jsonl").known == 600
        assert memory.stats().pending == 0


IMPORTER = """
    import sys, memorist
    with memorist.open(sys.argv[1], embedder="none") as memory:
        print("ready", flush=True)
        memory.transfer.import_(sys.argv[2], progress=lambda done: print(done, flush=True))
        print("done", flush=True)
"""


@kills
@pytest.mark.parametrize("seed", range(3))
def test_an_import_that_was_killed_is_finished_by_the_next_one(tmp_path: Path, seed: int) -> None:
    with memorist.open(":memory:", embedder="none") as memory:
        full_life(memory, tmp_path / "docs")
        memory.add_many({"content": f"note {number}", "facts": [f"fact {number}"]} for number in range(MANY))
        for one, other in pairwise(memory.list(limit=200)):
            memory.links.add(one.id, other.id, "next")
        memory.transfer.export(tmp_path / "all.jsonl")
    database = tmp_path / "killed.db"
    with start_program(IMPORTER, database, tmp_path / "all.jsonl") as process:
        expect("ready", [process])
        read_line(process)
        time.sleep(random.Random(seed).uniform(0, 0.3))
        process.kill()
        process.wait()

    with memorist.open(database, embedder="none") as memory:
        assert memory.stats().memories > 0
        assert memory.check().problems == ()
        memory.transfer.import_(tmp_path / "all.jsonl")
        assert exported(memory) == (tmp_path / "all.jsonl").read_bytes()
        assert memory.check().problems == ()


# Notes


NOTE = """---
title: Coffee Brewing
type: guide
tags: [coffee, brewing]
permalink: guides/coffee-brewing
status: active
created: 2026-02-03
---

# Coffee Brewing

Some prose about [[Tea Basics|tea]].

## Observations
- [method] Pour over gives more clarity #taste #filter (tried it)
- [method] Water at 96 degrees
- [ ] a task
- [x] another
- [00:11] a time
- [a link](other.md)

```
- [code] is no observation
```
> - [quote] neither

## Relations
- requires [[Grinding]]
- "contrasts with" [[teas/tea]] (in taste)
- pairs_with [[Nothing There]]
"""


@pytest.mark.local_only("it needs the process of the memory, its files or its words")
def test_a_secret_that_a_long_title_or_tag_of_a_note_is_cut_in_is_masked(memory: Memorist, tmp_path: Path) -> None:
    long = "x" * 484 + " ghp_" + ("a1B2c3D4e5F6g7H8" * 3)[:36]
    (tmp_path / "note.md").write_text(f"---\ntitle: {long}\ntags: [{long.replace(' ', '_')}]\n---\nA note")

    memory.transfer.import_(tmp_path, format="markdown")

    (note,) = memory.list()
    assert "ghp_a1" not in f"{note.title} {note.tags}"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "teas").mkdir(parents=True)
    (folder / ".obsidian").mkdir()
    (folder / ".obsidian" / "hidden.md").write_text("not a note")
    (folder / "coffee.md").write_text(NOTE)
    (folder / "Grinding.md").write_text("Grind it just before.\n")
    (folder / "teas" / "tea.md").write_text("---\ntitle: Tea Basics\ntags: tea, leaves\n---\nTea is simple.")
    (folder / "empty.md").write_text("---\ntitle: Empty\n---\n")
    (folder / "broken.md").write_bytes(b"fine\nnot \xff fine")
    (folder / "other.txt").write_text("no note")
    return folder


@pytest.mark.local_only("it needs the process of the memory, its files or its words")
def test_notes_of_basic_memory_become_memories_with_facts_and_relations(memory: Memorist, notes: Path) -> None:
    report = memory.transfer.import_(notes, project="home")

    assert (report.format, report.added, report.known) == ("markdown", 3, 0)
    assert dict(report.skipped) == {
        "broken.md": "line 2 is not UTF-8",
        "empty.md": "content is empty: there is nothing to remember",
    }
    coffee, grinding, tea = (memory.list(source=name)[0] for name in ("coffee.md", "Grinding.md", "teas/tea.md"))
    assert (coffee.title, coffee.kind, coffee.project) == ("Coffee Brewing", "guide", "home")
    assert coffee.tags == ("coffee", "brewing", "taste", "filter")
    assert coffee.created_at.isoformat().startswith("2026-02-0")
    assert coffee.metadata == {"permalink": "guides/coffee-brewing", "status": "active"}
    assert coffee.content.startswith("# Coffee Brewing")
    assert [(fact.kind, fact.text) for fact in coffee.facts] == [
        ("method", "Pour over gives more clarity (tried it)"),
        ("method", "Water at 96 degrees"),
    ]
    assert (grinding.title, grinding.kind, tea.tags) == ("Grinding", "note", ("tea", "leaves"))
    related = [one for one in memory.related(coffee.id) if one.relation]
    linked = {(link.kind, one.memory.id) for one in related for link in (one.relation, *one.further_relations) if link}
    assert linked == {("requires", grinding.id), ("contrasts with", tea.id), ("links_to", tea.id)}


@pytest.mark.local_only("it needs the process of the memory, its files or its words")
def test_a_second_import_of_notes_changes_nothing_and_a_changed_note_comes_in_as_it_is(
    memory: Memorist, notes: Path
) -> None:
    memory.transfer.import_(notes)
    before = exported(memory)

    again = memory.transfer.import_(notes)
    assert (again.added, again.known) == (0, 3)
    assert exported(memory) == before

    memory.forget(memory.list(source="Grinding.md")[0].id)
    assert memory.transfer.import_(notes).added == 0
    (notes / "Grinding.md").write_text("Grind it coarse.")
    assert memory.transfer.import_(notes).added == 1
    assert texts(memory.search("coarse")) == ["Grind it coarse."]


def test_a_single_note_can_be_imported(memory: Memorist, notes: Path) -> None:
    assert memory.transfer.import_(notes / "coffee.md").added == 1
    assert memory.list()[0].source == "coffee.md"


SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def test_secrets_in_notes_and_lists_are_redacted_and_counted_unless_told_otherwise(path: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "token.md").write_text(f"The token is {SECRET}")
    entry = {"memory": f"token {SECRET}", "metadata": {"deep": [SECRET]}}
    (tmp_path / "list.json").write_text(json.dumps([entry]))
    for source, count in (("notes", 1), ("list.json", 2)):
        with memorist.open(":memory:", embedder="none") as memory:
            report = memory.transfer.import_(tmp_path / source)
            assert sum(report.redacted.values()) == count
            assert SECRET.encode() not in exported(memory)
            again = memory.transfer.import_(tmp_path / source)
            assert (again.added, again.known) == (0, 1)
        for options in ({"redact": False}, {"allow": [SECRET]}):
            with memorist.open(":memory:", embedder="none") as memory:
                assert memory.transfer.import_(tmp_path / source, **options).redacted == {}
                assert SECRET.encode() in exported(memory)


@pytest.mark.local_only("it needs the process of the memory, its files or its words")
def test_our_own_export_is_never_redacted(memory: Memorist, tmp_path: Path) -> None:
    memory.add(f"The token is {SECRET}")
    memory.transfer.export(tmp_path / "all.jsonl")

    with memorist.open(":memory:", embedder="none") as other:
        other.transfer.import_(tmp_path / "all.jsonl")
        assert exported(other) == exported(memory)


# mem0


ENTRIES: list[dict[str, Any]] = [
    {
        "id": "3c90c3cc-0d44-4b50-8888-8dd25736052a",
        "memory": "Likes green tea",
        "user_id": "anna",
        "agent_id": None,
        "hash": "abc",
        "metadata": {"mood": "good"},
        "categories": ["food", "preference"],
        "created_at": "2024-07-26T10:29:36.630547-07:00",
        "updated_at": None,
        "score": 0.9,
    },
    {"id": "1", "memory": "Lives in Lisbon"},
    {"text": "Works at night", "id": 7},
    {"data": "Plays chess"},
]


@pytest.mark.parametrize("wrapped", [lambda one: one, lambda one: {"results": one}, lambda one: {"memories": one}])
def test_a_list_of_mem0_becomes_memories(memory: Memorist, tmp_path: Path, wrapped: Callable[[Any], Any]) -> None:
    (tmp_path / "list.json").write_text(json.dumps(wrapped(ENTRIES), indent=1))

    report = memory.transfer.import_(tmp_path / "list.json", project="home")

    assert (report.format, report.added, report.known) == ("mem0", 4, 0)
    tea = memory.get("3c90c3cc-0d44-4b50-8888-8dd25736052a")
    assert (tea.content, tea.tags, tea.project) == ("Likes green tea", ("food", "preference"), "home")
    assert tea.created_at.isoformat() == "2024-07-26T17:29:36.630547+00:00"
    assert tea.metadata == {"mood": "good", "user_id": "anna", "hash": "abc", "score": 0.9}
    by_text = {one.content: one.metadata for one in memory.list()}
    assert by_text["Lives in Lisbon"] == {"mem0_id": "1"}
    assert by_text["Works at night"] == {"mem0_id": 7}
    before = exported(memory)
    again = memory.transfer.import_(tmp_path / "list.json", project="home")
    assert (again.added, again.known) == (0, 4)
    assert exported(memory) == before


@pytest.mark.parametrize(
    ("document", "about"),
    [
        ('[{"memory": "a"}, 5]', "entry 2: it is not a JSON object"),
        ('[{"memory": "a"}, {"id": "b"}]', "entry 2: it has no text"),
        ('[{"memory": "a"}, {"memory": " "}]', "entry 2: content is empty"),
        ('[{"memory": "a", "metadata": 5}]', "entry 1: metadata must be an object"),
        ('[{"memory": "a", "created_at": "whenever"}]', "entry 1: created_at 'whenever' is not a time"),
        ('[{"memory": "a"},\n {"memory": ]', "line 2: it is not JSON"),
        ('{"other": []}', "is not a list of memories"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused_by_entry_and_nothing_is_written(
    memory: Memorist, tmp_path: Path, document: str, about: str
) -> None:
    (tmp_path / "list.json").write_text(document)

    with pytest.raises(InvalidInput, match=about):
        memory.transfer.import_(tmp_path / "list.json", format="mem0")

    assert memory.stats().memories == 0


# Which format it is


def test_what_is_no_list_of_memories_is_imported_as_a_conversation(memory: Memorist, tmp_path: Path) -> None:
    files = {
        "messages.json": '[{"role": "user", "content": "hi"}]',
        "lines.jsonl": '{"speaker": "anna", "text": "ha"}\n{"speaker": "ben", "text": "ho"}\n',
        "chat.json": '{"messages": [{"role": "user", "content": "hello"}], "results": []}',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        memory.transfer.import_(tmp_path / name, project="p", tools=True, allow=["x"])

    assert {(turn.kind, turn.project, turn.source) for turn in memory.list()} == {("turn", "p", name) for name in files}


def test_a_format_that_is_named_is_read_as_such(memory: Memorist, tmp_path: Path) -> None:
    secret = "password = Tr0ub4dor-and-3"
    (tmp_path / "lines.jsonl").write_text(json.dumps({"speaker": "anna", "text": secret}))

    report = memory.transfer.import_(tmp_path / "lines.jsonl", format="jsonl", redact=False)

    assert (report.format, [turn.content for turn in memory.list()]) == ("jsonl", [f"anna: {secret}"])


def test_an_export_is_known_by_its_first_line_whatever_it_is_called(memory: Memorist, tmp_path: Path) -> None:
    memory.add("one")
    memory.transfer.export(tmp_path / "conversation.json")

    assert memory.transfer.import_(tmp_path / "conversation.json").format == "memorist"


def test_many_lines_are_imported_a_batch_at_a_time(path: Path, tmp_path: Path) -> None:
    count = 2 * BATCH + 10
    with memorist.open(":memory:", embedder="none") as memory:
        memory.add_many(f"note {number}" for number in range(count))
        memory.transfer.export(tmp_path / "all.jsonl")
    seen: list[int] = []
    with memorist.open(path, embedder="none") as memory, memorist.open(path, embedder="none") as other:
        memory.transfer.import_(tmp_path / "all.jsonl", progress=lambda done: seen.append(other.stats().memories))
        assert seen == [BATCH, 2 * BATCH, count]
        assert memory.stats().memories == count


PEAK = """
    import sys, memorist
    from pathlib import Path
    with memorist.open(sys.argv[1], embedder="none", synchronous="normal") as memory:
        memory.transfer.import_(sys.argv[2])
    print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of a process")
def test_a_large_file_takes_no_more_memory_than_a_small_one(tmp_path: Path) -> None:
    peaks = []
    for size in (30_000, 120_000):  # the first fills the page cache already
        with memorist.open(":memory:", embedder="none") as memory:
            memory.add_many(f"note {number} {'of many words ' * 10}" for number in range(size))
            memory.transfer.export(tmp_path / f"{size}.jsonl")
        with start_program(PEAK, tmp_path / f"{size}.db", tmp_path / f"{size}.jsonl") as process:
            peaks.append(int(read_line(process)) / 1024)

    assert peaks[1] - peaks[0] < 10  # MB


@pytest.mark.local_only("it reads a file of its own machine")
def test_notes_of_our_own_may_have_come_by_way_of_windows(memory: Memorist, tmp_path: Path) -> None:
    one = memory.add("two\nlines", title="A title")
    memory.transfer.export(tmp_path / "notes", format="markdown")
    (file,) = (tmp_path / "notes").iterdir()
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))

    with memorist.open(":memory:", embedder="none") as other:
        other.transfer.import_(tmp_path / "notes")
        assert (other.get(one.id).content, other.get(one.id).title) == ("two\nlines", "A title")


def test_what_may_not_be_read_is_refused(memory: Memorist, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    memory.transfer.export(file)
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("permissions do not hold for this user")

    with pytest.raises(InvalidInput, match="cannot read"):
        memory.transfer.import_(file)


def test_a_stream_of_bytes_is_imported_as_a_file_is(memory: Memorist, tmp_path: Path) -> None:
    stream = io.BytesIO()
    memory.add("one")
    memory.transfer.export(stream)

    with memorist.open(tmp_path / "new.db", embedder="none") as new:
        assert new.transfer.import_(io.BytesIO(stream.getvalue())).added == 1
        assert texts(new.list()) == ["one"]
        with pytest.raises(InvalidInput, match="open for bytes"):
            new.transfer.import_(io.StringIO("{}"))  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="by its path"):
            new.transfer.import_(7)  # type: ignore[arg-type]


@pytest.mark.local_only("it needs the process of the memory, its files or its words")
def test_what_a_packed_file_says_nothing_about_is_of_the_time_of_that_file(memory: Memorist, tmp_path: Path) -> None:
    file = tmp_path / "talk.json.gz"
    file.write_bytes(gzip.compress(b'[{"role": "user", "content": "hello"}]'))
    os.utime(file, (1_000_000_000, 1_000_000_000))

    memory.transfer.import_(file)

    assert [one.created_at.timestamp() for one in memory.list()] == [1_000_000_000]


def test_nothing_of_a_packed_file_is_left_behind(
    memory: Memorist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for name, content in (("good.json", b'[{"memory": "one"}]'), ("bad.json", b"{")):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))

    assert memory.transfer.import_(tmp_path / "good.json.gz").added == 1
    with pytest.raises(InvalidInput, match=r"bad\.json\.gz"):
        memory.transfer.import_(tmp_path / "bad.json.gz")

    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.local_only("it needs the process of the memory, its files or its words")
def test_exceptions_from_redaction_may_be_an_iterator(memory: Memorist, tmp_path: Path) -> None:
    key = "AKIAQ7XK2M4PLT6WZR5D"
    (tmp_path / "chat.json").write_text(json.dumps([{"role": "user", "content": f"use {key} here"}]))

    memory.transfer.import_(tmp_path / "chat.json", allow=iter([key]))

    assert key in memory.list()[0].content
