"""An export holds everything: imported into an empty database and exported again, it is the same bytes."""

import io
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memorist
from answers import ids
from clock import now
from conftest import HashingEmbedder
from memorist import InvalidInput, Memorist, MemoristError
from memorist.validation import clean
from statements import read_rows


def exported(memory: Memorist, **options: Any) -> bytes:
    file = io.BytesIO()
    memory.transfer.export(file, **options)
    return file.getvalue()


def records(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


def of_type(data: bytes, type: str) -> list[dict[str, Any]]:
    return [record for record in records(data) if record.get("type") == type]


def full_life(memory: Memorist, folder: Path) -> dict[str, str]:
    """A memory in which everything there is has happened at least once."""
    session = memory.sessions.start("api", id="first session", summary="Fixing retries").id
    old = memory.add(
        "Retries are capped at 5", project="api", tags=["decision", "日本"], title="Retries", summary="cap",
        kind="rule", source="ADR-016", metadata={"a": [1, 2.5, None, {"b": "c"}]}, facts=["the cap is 5"],
        session=session, created_at="2026-01-02",
    )  # fmt: skip
    new = memory.add("Retries are capped at 3", project="api", session=session, salience=0)
    third = memory.add("Der Hafen heißt 8080\r\n\u2028 und\ttrotzdem \x1f", on_near_duplicate="off")
    memory.update(new.id, content="Retries are capped at 4", session=session)
    memory.update(new.id, title="Cap", metadata={"x": "y"})
    fact = memory.facts.add(new.id, "the cap is 4", kind="decision", confidence=0.9, subject="cap")
    memory.facts.reinforce(fact.id)
    memory.reinforce(new.id, session=session)
    memory.deemphasize(third.id)
    memory.pin(third.id)
    memory.supersede(old.id, new.id)
    memory.unsupersede(old.id)
    memory.supersede(old.id, new.id)
    memory.links.add(third.id, new.id, "about", confidence=0.25, said_by="anna")
    memory.links.add(third.id, new.id, "about")
    memory.links.remove(third.id, new.id, "about")
    gone = memory.add("To be forgotten", project="api")
    memory.searches.add_feedback(gone.id, False, query="what is there to keep?")
    memory.forget(gone.id)
    memory.search("retries capped", record="reinforce", record_session=session)
    memory.searches.add_feedback(new.id, True)
    memory.search("", record="log")
    memory.lenses.set("decisions", kind="rule", boosts={"tag": {"decision": 1.5}})
    folder.mkdir(exist_ok=True)
    (folder / "guide.md").write_text(
        "---\ntitle: Guide\ntags: [a]\n---\n# Guide\n\nSee [more](more.md).\n\n## Sub\n\nText"
    )
    (folder / "more.md").write_text("# More\n\nThe harbour is called 8080.")
    memory.documents.index(folder, project="api")
    memory.sessions.end(session)
    memory.sessions.add_turn("user", "To be erased", conversation="erased")
    memory.sessions.forget("chat:erased", hard=True)
    return {"old": old.id, "new": new.id, "third": third.id, "gone": gone.id}


@pytest.mark.local_only("it needs the process of the memory, its files or its words")
def test_an_export_imported_into_an_empty_database_and_exported_again_is_the_same_bytes(
    memory: Memorist, tmp_path: Path
) -> None:
    known = full_life(memory, tmp_path / "docs")
    middle = memory.history(known["new"])[0].replaced_at
    memory.transfer.export(tmp_path / "all.jsonl")
    first = (tmp_path / "all.jsonl").read_bytes()
    types = {record.get("type") for record in records(first)}
    assert types == {None, "session", "memory", "relation", "recall", "feedback", "lens", "erased", "document", "end"}

    with memorist.open(tmp_path / "other.db", embedder="none") as other:
        report = other.transfer.import_(tmp_path / "all.jsonl")
        assert (report.format, report.added, report.known, report.sessions) == ("memorist", 6, 0, 1)
        assert exported(other) == first
        assert other.check().problems == ()

        again = other.transfer.import_(tmp_path / "all.jsonl")
        assert (again.added, again.known, again.sessions) == (0, 6, 0)
        assert exported(other) == first

        # And it lives on like the first one.
        for id in known.values():
            assert other.history(id) == memory.history(id)
        for when in (middle, now()):
            for name in ("old", "new", "third"):
                assert other.get(known[name], as_of=when) == memory.get(known[name], as_of=when)
        assert ids(other.search("retries")) == ids(memory.search("retries")) == [known["new"]]
        assert list(other.searches.list()) == list(memory.searches.list())
        assert other.searches.list_feedback() == memory.searches.list_feedback()
        assert other.lenses.list() == memory.lenses.list()
        assert list(other.sessions.list()) == list(memory.sessions.list())
        assert [hit.path for hit in other.documents.search("harbour")] == [str(tmp_path / "docs" / "more.md")]
        assert other.restore(known["gone"]).content == "To be forgotten"
        assert other.documents.index(tmp_path / "docs", project="api").unchanged == 2


def test_vectors_are_left_out_unless_asked_for_and_then_come_back_to_the_bit(
    hashed: Memorist, path: Path, tmp_path: Path
) -> None:
    full_life(hashed, tmp_path / "docs")
    without, with_vectors = exported(hashed), exported(hashed, vectors=True)
    assert b'"vector"' not in without
    assert len(of_type(with_vectors, "model")) == 1
    (tmp_path / "all.jsonl").write_bytes(with_vectors)

    other = tmp_path / "other.db"
    embedder = HashingEmbedder()
    with memorist.open(other, embedder=embedder) as memory:
        memory.transfer.import_(tmp_path / "all.jsonl")
        assert exported(memory, vectors=True) == with_vectors
        assert memory.check().problems == ()
        assert memory.stats().pending == 0
    counted = "select count(*) from {}".format
    for table in ("vectors", "old_vectors"):
        assert read_rows(other, counted(table)) == read_rows(path, counted(table)) != [(0,)]
    # Only what never had one was embedded: the forgotten one waits, as before.
    assert embedder.calls <= 1


def test_an_export_is_of_one_namespace_and_can_be_imported_into_another_of_the_same_file(
    path: Path, tmp_path: Path
) -> None:
    with memorist.open(path, namespace="anna", embedder="none") as anna:
        anna.add("Anna's", id="anna-note")
        anna.transfer.export(tmp_path / "anna.jsonl")
    with memorist.open(path, namespace="ben", embedder="none") as ben:
        ben.add("Ben's")
        assert b"Anna" not in exported(ben)
        assert ben.transfer.import_(tmp_path / "anna.jsonl").added == 1
        ben.update("anna-note", content="Ben's by now")
    with memorist.open(path, namespace="anna", embedder="none") as anna:
        assert anna.get("anna-note").content == "Anna's"


def test_the_export_of_an_empty_memory_is_its_frame(memory: Memorist, tmp_path: Path) -> None:
    assert memory.transfer.export(tmp_path / "none.jsonl") == 0
    assert [set(record) for record in records((tmp_path / "none.jsonl").read_bytes())] == [
        {"memorist", "namespace", "vectors"},
        {"type", "records"},
    ]
    assert memory.transfer.import_(tmp_path / "none.jsonl").added == 0


def test_an_export_sees_one_moment_and_others_go_on_writing(path: Path, memory: Memorist) -> None:
    memory.add_many(f"note {number}" for number in range(1000))

    class Meddling(io.BytesIO):
        def write(self, data: Any, /) -> int:
            if b"note 500" in data:
                with memorist.open(path, embedder="none") as other:
                    other.add_many(f"too late {number}" for number in range(10))
            return super().write(data)

    file = Meddling()
    assert memory.transfer.export(file) == 1000
    assert b"too late" not in file.getvalue()
    assert memory.stats().memories == 1010


def test_progress_is_told_and_the_count_is_that_of_all_records(memory: Memorist, tmp_path: Path) -> None:
    memory.add_many(f"note {number}" for number in range(1234))
    told: list[int] = []

    assert memory.transfer.export(tmp_path / "all.jsonl", progress=told.append) == 1234
    assert told == sorted(told)
    assert told[-1] == 1234


def test_what_is_no_export_is_never_overwritten(memory: Memorist, path: Path, tmp_path: Path) -> None:
    memory.add("safe")
    notes = tmp_path / "notes.txt"
    notes.write_text("dear diary")
    for target in (path, notes, tmp_path):
        with pytest.raises(InvalidInput, match=r"not a Memorist export|is a directory"):
            memory.transfer.export(target)
    assert notes.read_text() == "dear diary"
    assert memory.search("safe")

    memory.transfer.export(tmp_path / "all.jsonl")
    memory.add("more")
    assert memory.transfer.export(tmp_path / "all.jsonl") == 2
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".part"] == []


def test_an_export_that_fails_leaves_what_was_there(memory: Memorist, tmp_path: Path) -> None:
    memory.add("one")
    memory.transfer.export(tmp_path / "all.jsonl")
    before = (tmp_path / "all.jsonl").read_bytes()

    def stop(done: int) -> None:
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        memory.transfer.export(tmp_path / "all.jsonl", progress=stop)

    assert (tmp_path / "all.jsonl").read_bytes() == before
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.local_only("it reads a file of its own machine")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda memory, folder: memory.transfer.export(folder / "x", format="xml"),
        lambda memory, folder: memory.transfer.export(folder / "x", vectors=1),
        lambda memory, folder: memory.transfer.export(folder / "x", format="markdown", vectors=True),
        lambda memory, folder: memory.transfer.export(""),
        lambda memory, folder: memory.transfer.export(None),
        lambda memory, folder: memory.transfer.export(folder / "missing" / "x"),
    ],
)
def test_wrong_arguments_of_an_export_are_refused(
    memory: Memorist, tmp_path: Path, wrong: Callable[[Memorist, Path], object]
) -> None:
    with pytest.raises(InvalidInput):
        wrong(memory, tmp_path)


# Any life


TEXTS = st.text(max_size=60).map(clean).filter(str.strip)
NAMES = st.one_of(st.none(), st.sampled_from(["api", "web", "a b/ç", "日本"]))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            "add add add add update forget restore supersede unsupersede relate unrelate fact reinforce_fact reinforce "
            "deemphasize pin unpin search session end erase index lens".split()
        ),
        st.integers(0, 50),
        st.integers(0, 50),
        TEXTS,
        NAMES,
    ),
    max_size=30,
)


class Life:
    """What can be done with a memory, step by step; what cannot be done is refused, as it should be."""

    def __init__(self, memory: Memorist, folder: Path) -> None:
        self.memory, self.folder = memory, folder
        self.known, self.facts = [memory.add("the first of all").id], [""]
        self.sessions = [memory.sessions.start().id]

    def step(self, what: str, first: int, second: int, text: str, name: str | None) -> None:
        memory, one, other = self.memory, self.known[first % len(self.known)], self.known[second % len(self.known)]
        session = self.sessions[first % len(self.sessions)]
        fields: dict[str, Any] = dict(
            project=name, title=name, tags=[text[:20]], metadata={text: name}, on_near_duplicate="off"
        )
        acts: dict[str, Callable[[], object]] = {
            "add": lambda: self.known.append(memory.add(text, **fields).id),
            "update": lambda: memory.update(one, content=text, summary=name),
            "forget": lambda: memory.forget(one),
            "restore": lambda: memory.restore(one),
            "supersede": lambda: memory.supersede(one, other),
            "unsupersede": lambda: memory.unsupersede(one),
            "relate": lambda: memory.links.add(one, other, name or "about", confidence=first / 50),
            "unrelate": lambda: memory.links.remove(one, other, name or "about"),
            "fact": lambda: self.facts.append(memory.facts.add(one, text, kind=name).id),
            "reinforce_fact": lambda: memory.facts.reinforce(self.facts[second % len(self.facts)]),
            "reinforce": lambda: memory.reinforce(one, first / 50, session=session),
            "deemphasize": lambda: memory.deemphasize(one),
            "pin": lambda: memory.pin(one),
            "unpin": lambda: memory.unpin(one),
            "search": lambda: memory.search(text, record="reinforce", record_session=session),
            "session": lambda: self.sessions.append(memory.sessions.start(name, summary=text).id),
            "end": lambda: memory.sessions.end(session, text),
            "erase": lambda: memory.forget(one, hard=True),
            "index": lambda: self.index(f"{second}.md", f"# {first}\n\n{text}"),
            "lens": lambda: memory.lenses.set(name or "l", kind=text),
        }
        with suppress(MemoristError):
            acts[what]()

    def index(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        self.memory.documents.index(self.folder)


@settings(max_examples=40)
@given(steps=STEPS, vectors=st.booleans())
def test_whatever_a_memory_has_lived_through_its_export_gives_the_same_bytes_again(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], vectors: bool
) -> None:
    folder = tmp_path_factory.mktemp("life")
    with memorist.open(":memory:", embedder=HashingEmbedder() if vectors else "none") as memory:
        life = Life(memory, folder)
        for step in steps:
            life.step(*step)
        memory._resources.recorder.flush()
        memory.transfer.export(folder / "all.jsonl", vectors=vectors)
        first = (folder / "all.jsonl").read_bytes()
    with memorist.open(":memory:", embedder="none") as other:
        other.transfer.import_(folder / "all.jsonl")
        assert exported(other, vectors=vectors) == first
        assert other.check().problems == ()
        other.transfer.import_(folder / "all.jsonl")
        assert exported(other, vectors=vectors) == first


# Markdown


@pytest.mark.local_only("it needs the process of the memory, its files or its words")
def test_a_folder_of_markdown_has_a_file_a_memory_with_its_text_byte_for_byte(memory: Memorist, tmp_path: Path) -> None:
    note = memory.add("First line\r\n\n---\nnot: front matter\n  last ", project="api", title="A: title # with marks")
    memory.add("no project", created_at="2026-02-03T04:05:06Z")
    memory.forget(memory.add("forgotten").id)

    assert memory.transfer.export(tmp_path / "notes", format="markdown") == 2
    files = sorted(file.relative_to(tmp_path / "notes").as_posix() for file in (tmp_path / "notes").rglob("*.md"))
    assert files[0].startswith("2026-02-03-no-project-")
    assert files[1].startswith("api/")
    assert files[1].endswith(f"-a-title-with-marks-{note.short_id}.md")
    data = (tmp_path / "notes" / files[1]).read_bytes()
    assert data.split(b"\n---\n", 1)[1] == note.content.encode()
    assert b'title: "A: title # with marks"' in data


@pytest.mark.local_only("it reads a file of its own machine")
def test_a_folder_of_markdown_gives_back_the_same_memories(memory: Memorist, tmp_path: Path) -> None:
    full_life(memory, tmp_path / "docs")
    memory.transfer.export(tmp_path / "notes", format="markdown")

    with memorist.open(tmp_path / "other.db", embedder="none") as other:
        report = other.transfer.import_(tmp_path / "notes")
        assert (report.format, report.added, report.known, report.skipped) == ("markdown", 3, 0, ())
        same = "content project sector tier kind tags salience source title summary metadata created_at pinned".split()
        for one in memory.list():
            there = other.get(one.id)
            assert [getattr(there, name) for name in same] == [getattr(one, name) for name in same]
            assert [(fact.id, fact.text, fact.kind) for fact in there.facts] == [
                (fact.id, fact.text, fact.kind) for fact in one.facts
            ]
            assert there.valid_until == one.valid_until
        before = exported(other)
        assert other.transfer.import_(tmp_path / "notes").added == 0
        assert exported(other) == before
        other.transfer.export(tmp_path / "again", format="markdown")
        for file in (tmp_path / "notes").rglob("*.md"):
            assert (tmp_path / "again" / file.relative_to(tmp_path / "notes")).read_bytes() == file.read_bytes()


@settings(max_examples=60)
@given(
    texts=st.lists(st.text(max_size=80).map(clean).filter(str.strip), min_size=1, max_size=5, unique=True),
    title=st.one_of(st.none(), TEXTS.map(str.strip).filter(bool)),
    tag=TEXTS.map(str.strip).filter(bool),
)
def test_any_text_survives_a_folder_of_markdown(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], title: str | None, tag: str
) -> None:
    folder = tmp_path_factory.mktemp("markdown")
    with memorist.open(":memory:", embedder="none") as memory:
        for text in texts:
            memory.add(
                text,
                title=title,
                tags=[tag],
                metadata={tag: text},
                project=title,
                facts=[text],
                on_near_duplicate="off",
            )
        memory.transfer.export(folder / "notes", format="markdown")
        with memorist.open(":memory:", embedder="none") as other:
            report = other.transfer.import_(folder / "notes", redact=False)
            assert report.skipped == ()
            for one in memory.list():
                there = other.get(one.id)
                assert (there.content, there.title, there.tags, there.metadata, there.project) == (
                    one.content, one.title, one.tags, one.metadata, one.project,
                )  # fmt: skip
                assert [fact.text for fact in there.facts] == [fact.text for fact in one.facts]


@pytest.mark.local_only("it needs the process of the memory, its files or its words")
def test_memories_whose_files_would_have_the_same_name_get_one_each(memory: Memorist, tmp_path: Path) -> None:
    for number in range(3):
        memory.add(f"text {number}", title="The same", id=f"the{'-' * number}same", created_at="2026-01-01T12:00Z")

    assert memory.transfer.export(tmp_path / "notes", format="markdown") == 3
    assert sorted(file.name for file in (tmp_path / "notes").iterdir()) == [
        "2026-01-01-the-same-the-same-2.md",
        "2026-01-01-the-same-the-same.md",
        "2026-01-01-the-same-thesame.md",
    ]


@pytest.mark.local_only("it reads a file of its own machine")
def test_a_folder_with_something_in_it_is_left_alone(memory: Memorist, tmp_path: Path) -> None:
    memory.add("one")
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "mine.md").write_text("mine")

    with pytest.raises(InvalidInput, match="not an empty folder"):
        memory.transfer.export(folder, format="markdown")

    assert [file.name for file in folder.iterdir()] == ["mine.md"]


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX systems")
def test_an_export_can_be_read_by_its_owner_alone(memory: Memorist, tmp_path: Path) -> None:
    memory.add("the ferry leaves at nine")
    memory.transfer.export(tmp_path / "all.jsonl")

    assert (tmp_path / "all.jsonl").stat().st_mode & 0o777 == 0o600
