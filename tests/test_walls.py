"""
A namespace is a wall: nothing of another one is reachable by any public call, by name or by id.

Every public method is called with names of another namespace, and with names that both have. Whatever comes of it, an
answer or an error, tells nothing that the caller did not say himself, and leaves the other namespace as it was.
"""

import inspect
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from operator import attrgetter
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

import memorist
from answers import show_fields
from conftest import HashingEmbedder
from memorist import ChangedMeanwhile, InvalidInput, Memorist, MemoristError, NotFound
from memorist.arguments import FILTERS, Filter
from memorist.engine.memory import ROOMS
from memorist.file_records import DocumentHit
from memorist.profiles.profile import ProfileOptions
from memorist.records import FACETS
from memorist.search.query import parse_query
from memorist.store.documents import chunk_namespace
from memorist.store.records import Scope
from memorist.views import REVIEW_KINDS

WRITTEN = BytesIO()  # what an export wrote last
MINE, THEIRS = "mine", "beyond"
ALL = 1000

# Words that stand in the other namespace alone, one for each place where a text can be.
SECRETS = dict(
    content="quillfeather", title="velvetmoss", summary="tinderbox", tag="gossamer", source="lanternjaw",
    kind="hollyhock", metadata="brambleton", fact="periwinkle", subject="marzipan", project="thistledown",
    session="candlewick", session_summary="wintergreen", lens="foxglove", lens_tag="larkspur", query="saffronwing",
    old="marrowbone", said_by="copperpot", near="juniperus", fact_kind="elderbloom", file="sagebrush",
    file_name="wrenfield", file_title="moonwort", file_heading="bellwether", file_tag="nettlecap",
    file_matter="hazelnook", file_link="fernhollow", feedback="sorrelwood", note="goldenrod", note_name="buttercup",
)  # fmt: skip


@dataclass
class Names:
    """What there is in a namespace to ask for."""

    id: str
    other: str
    forgotten: str
    superseded: str
    fact: str
    session: str
    project: str
    lens: str
    tag: str
    kind: str
    source: str
    fact_kind: str
    word: str
    text: str
    cursor: str
    folder: str
    file: str
    document: str
    chunk: str
    file_word: str
    file_tag: str
    note: str


def written(folder: Path, words: dict[str, str]) -> Path:
    """A file with a word in every place where a file can have one."""
    file = folder / f"{words['file_name']}.md"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f"""---
title: all about {words["file_title"]}
tags: [{words["file_tag"]}]
owner: {words["file_matter"]}
---
# The {words["file_heading"]}

The harbour opens with {words["file"]} every day, see [more]({words["file_link"]}.md).
""",
        "utf-8",
    )
    return file


def fill(memory: Memorist, marks: dict[str, str], prefix: str, folder: Path) -> Names:
    """
    A life in every table. `marks` are the words of this namespace; the texts and names beside them are the same in all.
    """
    words = {place: marks.get(place, place) for place in SECRETS}
    session = memory.sessions.start(f"{words['project']}", id=f"{prefix}-session-{words['session']}")
    memory.sessions.summarise(session.id, f"all about {words['session_summary']}")
    text = f"the release runs on {words['content']} and nothing else at all"
    kept = memory.add(
        "the release ran on something else before",
        id=f"{prefix}-note-one-{prefix}",
        project=words["project"],
        session=session.id,
        kind=words["kind"],
        tags=[words["tag"]],
        source=words["source"],
        title=words["title"],
        summary=words["summary"],
        metadata={"key": words["metadata"]},
        facts=[
            dict(text=f"it is {words['fact']}", kind=words["fact_kind"], subject=words["subject"], confidence=0.8),
        ],
    )
    memory.update(kept.id, content=f"the release ran on {words['old']}")
    memory.update(kept.id, content=text)
    other = memory.add(
        f"another word on {words['content']}", id=f"{prefix}-note-two-{prefix}", project=words["project"]
    )
    memory.add(
        f"{text} {words['near']}", id=f"{prefix}-note-near-{prefix}", project=words["project"], on_near_duplicate="off"
    )
    forgotten = memory.add(f"forgotten {words['content']}", id=f"{prefix}-note-gone-{prefix}", project=words["project"])
    memory.forget(forgotten.id)
    superseded = memory.add(f"replaced {words['content']}", id=f"{prefix}-note-past-{prefix}", project=words["project"])
    memory.supersede(superseded.id, kept.id, said_by=words["said_by"])
    memory.links.add(kept.id, other.id, "supports", said_by=words["said_by"])
    memory.pin(kept.id)
    lens = memory.lenses.set(f"{prefix}-lens-{words['lens']}", tags=[words["lens_tag"]])
    asked = dict(project=words["project"], record="reinforce", record_session=session.id)
    memory.search(f"release {words['query']}", **asked)
    memory.searches.add_feedback(kept.id, True, query=f"what about {words['feedback']}?")
    memory.searches.list()
    note = memory.files.create(
        f"/{prefix}/{words['note_name']}.md", f"{words['note']} of {words['content']}", project=words["project"]
    )
    cursor = memory.list(limit=1).cursor
    assert cursor is not None
    file = written(folder / prefix, words)
    assert memory.documents.index(file.parent, project=words["project"]).added == 1
    found = memory.documents.search(words["file"], mode="keyword", project=words["project"])[0]
    assert isinstance(found, DocumentHit)
    return Names(
        kept.id, other.id, forgotten.id, superseded.id, memory.get(kept.id).facts[0].id, session.id, words["project"],
        lens.name, words["tag"], words["kind"], words["source"], words["fact_kind"], words["content"], text, cursor,
        str(file.parent), str(file), found.document, found.memory.id, words["file"], words["file_tag"],
        note.path,
    )  # fmt: skip


@dataclass
class Both:
    """Two namespaces in one file: what I have, what only they have, and the names that both have."""

    path: Path
    mine: Memorist
    theirs: Memorist
    own: Names
    beyond: Names
    shared: Names
    secrets: list[str] = field(default_factory=list)

    def told(self, answer: object, said: object) -> list[str]:
        """The secrets in an answer that the caller had not said."""
        known = repr(said).lower()
        return [secret for secret in self.secrets if secret in show_fields(answer).lower() and secret not in known]


def open_both(path: Path) -> tuple[Memorist, Memorist]:
    return (
        memorist.open(path, namespace=MINE, embedder=HashingEmbedder(), synchronous="normal"),
        memorist.open(path, namespace=THEIRS, embedder=HashingEmbedder(), synchronous="normal"),
    )


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Names, Names, Names]:
    """Both namespaces have the same texts and names twice over; beyond the wall there is a third life, all secret."""
    folder = tmp_path_factory.mktemp("walls")
    path, names = folder / "memory.db", dict.fromkeys(("session", "lens", "file_name", "note_name"), "x")
    names["project"] = "both"
    mine, theirs = open_both(path)
    with mine, theirs:
        own = fill(mine, {}, "own", folder)
        shared = fill(mine, names, "both", folder)
        # The same ids, session, lens and path, but other words, wherever words are not what they are known by.
        fill(theirs, SECRETS | names, "both", folder)
        written(folder / "both", {place: names.get(place, place) for place in SECRETS})
        fill(theirs, {}, "own-too", folder)  # the same texts as mine
        beyond = fill(theirs, SECRETS, "beyond", folder)
    return path, own, shared, beyond


@pytest.fixture
def both(filled_once: tuple[Path, Names, Names, Names], tmp_path: Path) -> Iterator[Both]:
    source, own, shared, beyond = filled_once
    path = tmp_path / "memory.db"
    shutil.copyfile(source, path)
    mine, theirs = open_both(path)
    with mine, theirs:
        ids = [beyond.id, beyond.other, beyond.forgotten, beyond.superseded, beyond.fact, beyond.document, beyond.chunk]
        secrets = [*SECRETS.values(), *ids, *(fact.id for one in theirs.list(limit=ALL) for fact in one.facts)]
        yield Both(path, mine, theirs, own, beyond, shared, secrets)


# What is in the other namespace, row by row

_WHOSE = {
    "rid": "select rid from memories where namespace in (:whose, :files)",
    "source": "select rid from memories where namespace = :whose",
    "did": "select did from documents where namespace = :whose",
    "fact": "select f.fact from facts f join memories m on m.rid = f.rid where m.namespace = :whose",
    "recall": "select recall from recalls where namespace = :whose",
}
# Nobody's or everybody's: numbers of rows, names of models; and packed vectors, which anybody may unpack.
_COMMON = {"_migrations", "models", "sqlite_sequence", "vector_blocks", "changes"}


def rows_of(path: Path, namespace: str) -> dict[str, list[Any]]:
    """Every row of every table that belongs to a namespace."""
    connection = apsw.Connection(str(path))
    try:
        tables = [
            name
            for (name,) in connection.execute(
                "select name from pragma_table_list where type = 'table' and schema = 'main'"
            )
            if name not in _COMMON and not name.startswith(("sqlite_", "memories_stems", "memories_words"))
        ]
        found = {}
        for table in tables:
            columns = [name for (name,) in connection.execute("select name from pragma_table_info(?)", (table,))]
            if "namespace" in columns:
                where = "namespace in (:whose, :files)"
            else:
                key = next((column for column in _WHOSE if column in columns), None)
                assert key, f"whose is a row of the table {table}?"
                where = f"{key} in ({_WHOSE[key]})"
            values = {"whose": namespace, "files": chunk_namespace(namespace)}
            found[table] = list(connection.execute(f"select * from {table} where {where}", values))
        return found
    finally:
        connection.close()


# Every public call


@dataclass(frozen=True)
class Probe:
    """A call, and what has to come of it with names that only the other namespace has."""

    arguments: Callable[[Names, Names], tuple[tuple[Any, ...], dict[str, Any]]]
    outcome: type[MemoristError] | tuple[type[MemoristError], ...] | Callable[[Any, Both], bool]


def call(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, kwargs


def nothing(answer: Any, both: Both) -> bool:
    return answer is None or len(answer) == 0


def anything(answer: Any, both: Both) -> bool:
    """Only what is told counts."""
    return True


def only_mine(answer: Any, both: Both) -> bool:
    mine = {one.id for deleted in (False, True) for one in both.mine.list(limit=ALL, deleted=deleted)}
    return {getattr(one, "memory", one).id for one in answer} <= mine


def shows_only_mine(page: Any, both: Both) -> bool:
    return all(only_mine(item.memories, both) for item in page)


def only_my_files(answer: Any, both: Both) -> bool:
    mine = {one.path for one in both.mine.documents.list()}
    return {one.path for one in answer if hasattr(one, "path")} <= mine


def only_mine_of_both(results: Any, both: Both) -> bool:
    """Memories and places in files, in one ranking."""
    said = [hit for hit in results if not isinstance(hit, DocumentHit)]
    return only_mine(said, both) and only_my_files(results, both)


def only_mine_was_written(answer: Any, both: Both) -> bool:
    text = WRITTEN.getvalue().decode().lower()
    WRITTEN.truncate(WRITTEN.seek(0))
    return answer > 0 and not any(secret in text for secret in both.secrets)


def is_new(report: Any, both: Both) -> bool:
    """A file that another namespace has is as new as any: it is neither unchanged nor moved."""
    return (report.added, report.changed, report.unchanged, report.renamed, report.removed) == (1, 0, 0, 0, 0)


def no_counts(answer: Any, both: Both) -> bool:
    return not any(answer.values())


def typo(word: str) -> str:
    return f"{word[:3]}{word[4:]}"


def by_each_filter(**more: Any) -> list[Probe]:
    """With every filter that takes a name of something."""
    values: dict[str, Callable[[Names], Any]] = {
        "project": lambda n: n.project,
        "kind": lambda n: n.kind,
        "source": lambda n: n.source,
        "tags": lambda n: n.tag,
        "fact_kind": lambda n: n.fact_kind,
    }

    def probe(name: str, value: Callable[[Names], Any]) -> Probe:
        return Probe(lambda n, own: call(**{name: value(n)}, **more), nothing)

    return [
        *(probe(name, value) for name, value in values.items()),
        Probe(lambda n, own: call(session=n.session, **more), NotFound),
    ]


def is_mine(memory: Any, both: Both) -> bool:
    """It is a memory of this namespace, and so is the one that it is near to."""
    near = memory.near
    return memory.namespace == MINE and (near is None or both.mine.get(near.id).content == near.content)


def no_word_of_theirs(block: Any, both: Both) -> bool:
    return both.beyond.word not in block and both.beyond.file_word not in block


def counts_mine(stats: Any, both: Both) -> bool:
    return (stats.memories, stats.sessions, stats.recalls) == (10, 2, 2) and (
        stats.projects, stats.documents, stats.chunks,
    ) == (2, 2, 2)  # fmt: skip


def not_their_word(suggestion: Any, both: Both) -> bool:
    return suggestion is None or not {SECRETS["content"], SECRETS["file"]} & set(suggestion.split())


def found_nothing_of_theirs(results: Any, both: Both) -> bool:
    """Neither hits nor counts, nor a word on what there would be without a filter."""
    plan = results.plan or {}
    return (
        only_mine(results, both)
        and len(results) == plan.get("keyword_candidates", len(results))
        and not results.hidden
        and not_their_word(results.suggestion, both)
    )


CALLS: dict[str, list[Probe]] = {
    "add": [
        Probe(lambda n, own: call(n.text), is_mine),
        Probe(lambda n, own: call(n.text, project=n.project, on_near_duplicate="merge"), is_mine),
        Probe(lambda n, own: call(f"something new {n.word}", id=n.id), is_mine),
        Probe(lambda n, own: call(f"something new {n.word}", session=n.session), NotFound),
    ],
    "add_many": [
        Probe(lambda n, own: call([n.text, dict(content=f"new {n.word}", id=n.id)]), lambda ids, both: len(ids) == 2),
        Probe(lambda n, own: call([dict(content=f"new {n.word}", session=n.session)]), NotFound),
    ],
    "briefing": [
        Probe(lambda n, own: call(recent=1000), no_word_of_theirs),
        Probe(lambda n, own: call(project=n.project, include_global=False), nothing),
    ],
    "context": [
        Probe(lambda n, own: call(n.text, min_relevance=0.0), no_word_of_theirs),
        Probe(lambda n, own: call(n.file_word, min_relevance=0.0), no_word_of_theirs),
        Probe(lambda n, own: call(n.text, project=n.project, include_global=False, min_relevance=0.0), nothing),
        Probe(lambda n, own: call(n.text, session=n.session), no_word_of_theirs),
    ],
    "facts.add": [Probe(lambda n, own: call(n.id, "a fact"), NotFound)],
    "sessions.add_turn": [
        Probe(lambda n, own: call("user", n.text, conversation=n.session, project=n.project, id=n.id), is_mine),
    ],
    "changes": [Probe(lambda n, own: call(), lambda changes, both: next(changes).new == {})],
    "check": [
        Probe(lambda n, own: call(), lambda report, both: report.ok and report.memories == 10),
        Probe(lambda n, own: call(repair=True), lambda report, both: report.ok and report.memories == 10),
    ],
    "searches.clear": [
        Probe(lambda n, own: call(), lambda dropped, both: dropped == 2 and len(both.theirs.searches.list()) > 0),
    ],
    "close": [Probe(lambda n, own: call(), lambda answer, both: len(both.theirs.list()) > 0)],
    "files.create": [
        Probe(lambda n, own: call(n.note, "mine", project=n.project), lambda file, both: file.text == "mine"),
        Probe(lambda n, own: call(n.note, "mine", project=own.project), lambda file, both: file.text == "mine"),
    ],
    "deemphasize": [Probe(lambda n, own: call(n.id), NotFound)],
    "documents.list": [
        Probe(lambda n, own: call(cursor=n.file), only_my_files),
        Probe(lambda n, own: call(), only_my_files),
        Probe(lambda n, own: call(limit=ALL), lambda found, both: len(found) == 2),
        Probe(lambda n, own: call(project=n.project), nothing),
    ],
    "review.duplicates": [
        Probe(lambda n, own: call(), lambda groups, both: all(only_mine(group, both) for group in groups)),
        *by_each_filter(),
    ],
    "files.edit": [Probe(lambda n, own: call(n.note, str.upper, project=n.project), NotFound)],
    "sessions.end": [
        Probe(lambda n, own: call(n.session), NotFound),
        Probe(lambda n, own: call(n.session[:-3], "summary"), NotFound),
    ],
    "facets": [
        Probe(lambda n, own: call(), anything),
        Probe(lambda n, own: call(n.word, FACETS), no_counts),
        Probe(lambda n, own: call(None, FACETS, as_of="tomorrow"), anything),
        *(replace(probe, outcome=no_counts) for probe in by_each_filter()[:-1]),
        by_each_filter()[-1],
    ],
    "searches.add_feedback": [
        Probe(lambda n, own: call(n.id, True), NotFound),
        Probe(lambda n, own: call(n.id[-9:], False, query="whose is it?"), NotFound),
        Probe(lambda n, own: call(own.id, False), lambda said, both: said.memory == both.own.id),
    ],
    "searches.list_feedback": [
        Probe(lambda n, own: call(), lambda said, both: {one.memory for one in said} == {both.own.id, both.shared.id}),
        Probe(lambda n, own: call(memory=n.id), NotFound),
    ],
    "files.list": [
        Probe(lambda n, own: call(n.note, project=n.project), nothing),
        Probe(lambda n, own: call("/", project=n.project), nothing),
        Probe(lambda n, own: call("/", project=own.project), lambda files, both: [both.own.note] == [files[0].path]),
    ],
    "files.forget": [
        Probe(lambda n, own: call(n.note, project=n.project), NotFound),
        Probe(lambda n, own: call("/", project=n.project), NotFound),
    ],
    "forget": [
        Probe(lambda n, own: call(n.id), NotFound),
        Probe(lambda n, own: call(n.id, hard=True), NotFound),
        Probe(lambda n, own: call(n.forgotten, hard=True), NotFound),
        Probe(lambda n, own: call(n.id[:-2], hard=True), NotFound),
    ],
    "get": [
        Probe(lambda n, own: call(n.id), NotFound),
        Probe(lambda n, own: call(n.id[-9:]), NotFound),
        Probe(lambda n, own: call(n.id[:9]), NotFound),
        Probe(lambda n, own: call(n.id, as_of="tomorrow"), NotFound),
        Probe(lambda n, own: call(n.forgotten), NotFound),
        Probe(lambda n, own: call(n.chunk), NotFound),
        Probe(lambda n, own: call(n.document), NotFound),
        Probe(lambda n, own: call([n.chunk, n.document]), nothing),
        Probe(
            lambda n, own: call([n.id, own.id, n.other]),
            lambda got, both: (
                got.missing == (both.beyond.id, both.beyond.other) and [one.id for one in got] == [both.own.id]
            ),
        ),
        Probe(lambda n, own: call([n.id[:9], n.other[-8:]], as_of="tomorrow"), nothing),
    ],
    "history": [
        Probe(lambda n, own: call(n.id), NotFound),
        Probe(lambda n, own: call(n.forgotten), NotFound),
    ],
    "transfer.discover": [Probe(lambda n, own: call(programs=["codex"]), nothing)],
    "documents.find": [Probe(lambda n, own: call(n.file), NotFound)],
    "transfer.export": [Probe(lambda n, own: call(WRITTEN, vectors=True), only_mine_was_written)],
    "transfer.import_": [Probe(lambda n, own: call(n.file, project=n.project), lambda report, both: report.added == 1)],
    "transfer.import_conversations": [Probe(lambda n, own: call(n.file, project=n.project), InvalidInput)],
    "transfer.backup": [
        Probe(lambda n, own: call(Path(own.folder, "copy.db")), nothing)
    ],  # of the whole file, as it says
    "documents.watch": [
        Probe(lambda n, own: call(n.folder, project=n.project), lambda reports, both: is_new(next(reports), both))
    ],
    "documents.index": [
        Probe(lambda n, own: call(n.folder), is_new),
        Probe(lambda n, own: call([n.file], project=n.project), is_new),
    ],
    "lenses.get": [Probe(lambda n, own: call(n.lens), NotFound)],
    "lenses.list": [Probe(lambda n, own: call(), lambda lenses, both: len(lenses) == 2)],
    "count": [
        Probe(lambda n, own: call(), lambda count, both: count == len(both.mine.list(limit=ALL))),
        Probe(lambda n, own: call(deleted=True), lambda count, both: count == len(both.mine.list(deleted=True))),
        Probe(lambda n, own: call(project=n.project, include_superseded=False), lambda count, both: count == 0),
    ],
    "forget_many": [
        Probe(lambda n, own: call(project=n.project, include_superseded=False), lambda count, both: count == 0),
        Probe(lambda n, own: call(project=n.project, hard=True), lambda count, both: count == 0),
    ],
    "list": [
        Probe(lambda n, own: call(limit=ALL), only_mine),
        Probe(lambda n, own: call(limit=ALL, deleted=True), only_mine),
        Probe(lambda n, own: call(limit=ALL, cursor=n.cursor), only_mine),
        Probe(lambda n, own: call(limit=ALL, as_of="tomorrow", detail="index", include_superseded=False), only_mine),
        *by_each_filter(),
    ],
    "review.merge": [
        Probe(lambda n, own: call(n.id, [own.id]), NotFound),
        Probe(lambda n, own: call(own.id, [n.id]), NotFound),
        Probe(lambda n, own: call(own.id, [own.other, n.id]), NotFound),
    ],
    "files.move": [
        Probe(lambda n, own: call(n.note, own.note, project=n.project), NotFound),
        Probe(lambda n, own: call(own.note, n.note, project=own.project), lambda moved, both: moved == 1),
    ],
    "pin": [Probe(lambda n, own: call(n.other), NotFound)],
    "purge": [
        Probe(lambda n, own: call(), lambda gone, both: gone == 2 and len(both.theirs.list(deleted=True)) == 3),
        Probe(lambda n, own: call(before="tomorrow"), lambda gone, both: len(both.theirs.list(deleted=True)) == 3),
    ],
    "searches.list": [
        Probe(lambda n, own: call(cursor=n.id), lambda recalls, both: len(recalls) <= 2),
        Probe(lambda n, own: call(), lambda recalls, both: len(recalls) == 2),
        Probe(lambda n, own: call(since="2000", limit=ALL), lambda recalls, both: len(recalls) == 2),
        Probe(lambda n, own: call(memory=n.id), NotFound),
        Probe(lambda n, own: call(session=n.session), NotFound),
    ],
    "reembed": [
        Probe(lambda n, own: call(), lambda done, both: done == 0),
        Probe(lambda n, own: call(HashingEmbedder("another", 32), prune=True), lambda done, both: done == 12),
    ],
    "reinforce": [
        Probe(lambda n, own: call(n.id), NotFound),
        Probe(lambda n, own: call(own.id, 0.1, session=n.session), NotFound),
    ],
    "facts.reinforce": [
        Probe(lambda n, own: call(n.fact), NotFound),
        Probe(lambda n, own: call(n.fact[-8:]), NotFound),
    ],
    "links.add": [
        Probe(lambda n, own: call(n.id, own.id, "supports"), NotFound),
        Probe(lambda n, own: call(own.id, n.id, "supports"), NotFound),
    ],
    "related": [
        Probe(lambda n, own: call(n.id), NotFound),
        Probe(lambda n, own: call(n.id, as_of="tomorrow"), NotFound),
        Probe(lambda n, own: call(own.id, ALL), only_mine),
    ],
    "links.replaced": [Probe(lambda n, own: call(n.id), NotFound)],
    "facts.remove": [Probe(lambda n, own: call(n.fact), NotFound), Probe(lambda n, own: call(n.fact[-8:]), NotFound)],
    "lenses.remove": [Probe(lambda n, own: call(n.lens), NotFound)],
    "restore": [Probe(lambda n, own: call(n.forgotten), NotFound)],
    "search": [
        Probe(lambda n, own: call(n.word, mode="keyword", explain=True, facets=FACETS), found_nothing_of_theirs),
        Probe(lambda n, own: call(n.text, limit=ALL, facets=FACETS, explain=True), only_mine),
        Probe(lambda n, own: call(n.text, limit=ALL, mode="semantic", noise_floor=False), only_mine),
        Probe(lambda n, own: call(n.word, mode="keyword", grammar="fts5", limit=ALL), found_nothing_of_theirs),
        Probe(lambda n, own: call(f"{n.word[:5]}*", mode="keyword"), found_nothing_of_theirs),
        Probe(lambda n, own: call(n.word[2:-2], mode="keyword"), found_nothing_of_theirs),
        Probe(lambda n, own: call(typo(n.word)), lambda found, both: not_their_word(found.suggestion, both)),
        Probe(lambda n, own: call(n.word, mode="keyword", as_of="tomorrow", include_superseded=True), nothing),
        Probe(lambda n, own: call(n.word, mode="keyword", record="log"), nothing),
        Probe(lambda n, own: call(n.word, record="log", record_session=n.session), NotFound),
        Probe(lambda n, own: call(n.word, lens=n.lens), NotFound),
        Probe(lambda n, own: call(n.file_word, mode="keyword", include_documents=True, facets=FACETS), nothing),
        Probe(lambda n, own: call(f"harbour {n.file_word}", include_documents=True, limit=ALL), only_mine_of_both),
        Probe(lambda n, own: call("harbour", include_documents=True, source=n.file, mode="keyword"), nothing),
        Probe(
            lambda n, own: call(typo(n.file_word), include_documents=True),
            lambda found, both: not_their_word(found.suggestion, both),
        ),
        *(
            Probe(lambda n, own, probe=probe: call(own.word, **probe.arguments(n, own)[1]), probe.outcome)
            for probe in by_each_filter()
        ),
    ],
    "documents.search": [
        Probe(lambda n, own: call(n.file_word, mode="keyword", explain=True), nothing),
        Probe(lambda n, own: call(f"harbour {n.file_word}", limit=ALL, grouped=False, neighbours=9), only_my_files),
        Probe(lambda n, own: call(n.file_word, mode="semantic", noise_floor=False, limit=ALL), only_my_files),
        Probe(lambda n, own: call(n.file_word, mode="keyword", grammar="fts5"), nothing),
        Probe(lambda n, own: call(f"{n.file_word[:5]}*", mode="keyword"), nothing),
        Probe(lambda n, own: call(n.file_word[2:-2], mode="keyword"), nothing),
        Probe(lambda n, own: call(n.word, mode="keyword"), nothing),  # what was said is in no file
        Probe(lambda n, own: call("harbour", project=n.project), nothing),
        Probe(lambda n, own: call("harbour", tags=n.file_tag), nothing),
        Probe(lambda n, own: call(typo(n.file_word)), lambda found, both: not_their_word(found.suggestion, both)),
    ],
    "sessions.get": [
        Probe(lambda n, own: call(n.session), NotFound),
        Probe(lambda n, own: call(n.session[:-3]), NotFound),
    ],
    "sessions.context_of": [Probe(lambda n, own: call(n.id), NotFound)],
    "sessions.list": [
        Probe(lambda n, own: call(cursor=n.session), lambda sessions, both: len(sessions) <= 2),
        Probe(lambda n, own: call(limit=ALL), lambda sessions, both: len(sessions) == 2),
        Probe(lambda n, own: call(project=n.project), nothing),
        Probe(lambda n, own: call(active=True), lambda sessions, both: len(sessions) == 2),
        Probe(lambda n, own: call(deleted=True), nothing),
    ],
    "lenses.set": [Probe(lambda n, own: call(n.lens, boosts={"tag": {n.tag: 2.0}}, tags=[n.tag]), anything)],
    "sessions.start": [
        Probe(lambda n, own: call(n.project, id=n.session), lambda session, both: session.memories == 0)
    ],
    "stats": [Probe(lambda n, own: call(), counts_mine)],
    "suggest": [
        Probe(lambda n, own: call(typo(n.word)), not_their_word),
        Probe(lambda n, own: call(n.word), not_their_word),
    ],
    "sessions.summarise": [Probe(lambda n, own: call(n.session, "about nothing"), NotFound)],
    "sessions.forget": [
        Probe(lambda n, own: call(n.session), NotFound),
        Probe(lambda n, own: call(n.session, hard=True), NotFound),
    ],
    "sessions.restore": [Probe(lambda n, own: call(n.session), NotFound)],
    "supersede": [
        Probe(lambda n, own: call(n.other, own.id), NotFound),
        Probe(lambda n, own: call(own.other, n.id), NotFound),
    ],
    "timeline": [
        Probe(lambda n, own: call(start="2000", end="tomorrow", limit=ALL), only_mine),
        Probe(lambda n, own: call(anchor=n.id), NotFound),
        Probe(lambda n, own: call(anchor=own.id, project=n.project, before=9, after=9), anything),
        Probe(lambda n, own: call(query=n.text, detail="full"), only_mine),
        Probe(lambda n, own: call(project=n.project), nothing),
        Probe(lambda n, own: call(as_of="tomorrow"), only_mine),
    ],
    "documents.remove": [
        Probe(lambda n, own: call(n.file), lambda gone, both: gone == 0),
        Probe(lambda n, own: call(n.folder), lambda gone, both: gone == 0),
    ],
    "unpin": [Probe(lambda n, own: call(n.id), NotFound)],
    "links.remove": [
        Probe(lambda n, own: call(n.id, n.other, "supports"), NotFound),
        Probe(lambda n, own: call(own.id, n.id, "supports"), NotFound),
    ],
    "unsupersede": [Probe(lambda n, own: call(n.superseded), NotFound)],
    "update": [
        Probe(lambda n, own: call(n.id, content="changed"), NotFound),
        Probe(lambda n, own: call(n.forgotten, content="changed"), NotFound),
        Probe(lambda n, own: call(own.id, session=n.session, content="changed"), NotFound),
    ],
    "documents.chunks": [Probe(lambda n, own: call(n.document, cursor="0"), NotFound)],
    "documents.get": [Probe(lambda n, own: call(n.document), NotFound)],
    "facts.list": [Probe(lambda n, own: call(n.id), NotFound)],
    "files.replace": [
        Probe(lambda n, own: call(n.note, "mine", before=n.text, project=n.project), (NotFound, ChangedMeanwhile)),
    ],
    "review.compare": [
        Probe(
            lambda n, own: call(n.text, profiles=["balanced", "fast"], limit=ALL),
            lambda found, both: all(only_mine(one, both) for one in found.answers),
        ),
        Probe(lambda n, own: call(n.text, profiles=["balanced"], lenses=[n.lens]), NotFound),
        Probe(lambda n, own: call(n.text, profiles=["balanced", "fast"], record_session=n.session), NotFound),
        Probe(
            lambda n, own: call(n.word, profiles=["fast", "rank"], mode="keyword", facets=FACETS),
            lambda found, both: all(nothing(one, both) for one in found.answers),
        ),
    ],
    "review.graph": [
        Probe(lambda n, own: call(n.id), NotFound),
        Probe(lambda n, own: call(own.id, hops=2), lambda graph, both: only_mine(graph.memories, both)),
    ],
    "review.growth": [
        Probe(lambda n, own: call(since="2000"), lambda found, both: sum(day.recorded for day in found.days) == 10),
    ],
    "review.list": [
        Probe(
            lambda n, own, kind=kind, other=other: call(kind, project=n.project if other else None),
            shows_only_mine,
        )
        for kind in REVIEW_KINDS
        for other in (False, True)
    ]
    + [Probe(lambda n, own: call("never_recalled", cursor=n.cursor), shows_only_mine)],
    "review.projects": [
        Probe(lambda n, own: call(), lambda found, both: both.beyond.project not in found),
        Probe(lambda n, own: call(under=n.project), nothing),
    ],
    "sessions.turns": [
        Probe(lambda n, own: call(n.session), NotFound),
        Probe(lambda n, own: call(own.session, cursor="0"), only_mine),
    ],
}
PROPERTIES = {"searches.lost"}  # a number of this process
# Parameters by which nothing of another namespace can be named.
PLAIN = set(
    """
    active after allow alpha amount as_of at before boosts budget change confidence core created_at decay_rate detail
    documents embedder end exclude expires_at explain facts fields format fusion grammar grouped hard if_exists
    if_version include
    include_documents include_facts include_global include_superseded kind limit metadata min_relevance min_salience
    mode month neighbours now object offset overwrite pinned position predicate profile progress prune recalled recency
    record redact reinforced_at repair said_by salience sector since source start stop subject summary tags text
    threshold tier title
    tools until vectors
    """.split()
) | {*ProfileOptions.__annotations__}
TRIED = [
    pytest.param(name, place, id=f"{name}-{place}") for name, probes in CALLS.items() for place in range(len(probes))
]


def public() -> set[str]:
    return {f"{room._name}.{name}".lstrip(".") for room in ROOMS for name in dir(room) if not name.startswith("_")}


def test_every_public_method_is_called_here() -> None:
    assert public() == set(CALLS) | PROPERTIES, (
        "say in CALLS how a new method is called with names of another namespace"
    )


def test_every_parameter_that_can_name_something_is_tried(both: Both) -> None:
    for name, probes in CALLS.items():
        method = attrgetter(name)(both.mine)
        signature = inspect.signature(method)
        tried: set[str] = set()
        for probe in probes:
            args, kwargs = probe.arguments(both.beyond, both.own)
            bound = signature.bind(*args, **kwargs)
            tried |= {*bound.arguments, *kwargs}
        named = {key for key, one in signature.parameters.items() if one.kind is not one.VAR_KEYWORD}
        assert named - tried - PLAIN - {*FILTERS} == set(), (
            f"{name} has a parameter that is not tried: add a call, or call it plain"
        )


def test_every_filter_that_can_name_something_is_tried(both: Both) -> None:
    named = {name for probe in by_each_filter() for name in probe.arguments(both.beyond, both.own)[1]}
    numbers = {"tier", "sector", "since", "until", "min_salience", "month", "pinned", "recalled", "as_of", "metadata"}
    numbers |= {"include_global"}
    assert set(FILTERS) == named | numbers


def answered(memory: Memorist, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> object:
    """What comes of a call: its answer, or our error."""
    try:
        return attrgetter(name)(memory)(*args, **kwargs)
    except MemoristError as exc:
        return exc


@pytest.mark.parametrize(("name", "place"), TRIED)
def test_names_of_another_namespace_find_nothing_tell_nothing_and_change_nothing(
    both: Both, name: str, place: int
) -> None:
    probe = CALLS[name][place]
    before = rows_of(both.path, THEIRS)
    args, kwargs = probe.arguments(both.beyond, both.own)

    answer = answered(both.mine, name, args, kwargs)

    if isinstance(probe.outcome, type | tuple):
        assert isinstance(answer, probe.outcome), answer
    else:
        assert not isinstance(answer, MemoristError), answer
        assert probe.outcome(answer, both), answer

    assert both.told(answer, (args, kwargs)) == []
    assert rows_of(both.path, THEIRS) == before


@pytest.mark.parametrize(("name", "place"), TRIED)
def test_names_that_both_namespaces_have_mean_ones_own(both: Both, name: str, place: int) -> None:
    before = rows_of(both.path, THEIRS)
    args, kwargs = CALLS[name][place].arguments(both.shared, both.own)

    answer = answered(both.mine, name, args, kwargs)

    assert both.told(answer, (args, kwargs)) == []
    assert rows_of(both.path, THEIRS) == before


def test_one_session_id_one_lens_and_one_memory_id_are_two_of_each_in_two_namespaces(both: Both) -> None:
    names = both.shared
    for memory, word in ((both.mine, "content"), (both.theirs, SECRETS["content"])):
        assert word in memory.get(names.id).content
        assert names.id in {one.id for one in memory.list(session=names.session)}
        assert all(word in one.content for one in memory.list(session=names.session))
        assert [one.id for one in memory.searches.list(session=names.session)[0].memories if one.id == names.id]
        assert memory.lenses.get(names.lens).filters["tags"] == [
            SECRETS["lens_tag"] if memory is both.theirs else "lens_tag"
        ]
        assert memory.sessions.get(names.session).memories == len(memory.list(session=names.session))
        context = memory.sessions.context_of(names.id)
        assert context is not None
        assert context.session in memory.sessions.list()


def test_what_is_written_across_a_wall_stays_on_its_side(both: Both) -> None:
    """The other way round: all that is done beyond the wall leaves no trace on this side."""
    before = rows_of(both.path, MINE)

    fill(both.theirs, SECRETS | {"project": "elsewhere"}, "more", both.path.parent)
    both.theirs.documents.index([both.shared.folder, both.own.folder])
    both.theirs.documents.remove(both.shared.file)
    both.theirs.forget(both.shared.id, hard=True)
    both.theirs.purge()
    both.theirs.reembed(HashingEmbedder("another", 32), prune=True)

    assert rows_of(both.path, MINE) == before
    assert both.mine.get(both.shared.id).id == both.shared.id
    assert [hit.path for hit in both.mine.documents.search("harbour", project="both")] == [both.shared.file]
    assert both.mine.check().problems == ()


def test_one_path_is_two_files_in_two_namespaces(both: Both) -> None:
    for memory, word, other in ((both.mine, "file", SECRETS["file"]), (both.theirs, SECRETS["file"], "file")):
        (hit,) = memory.documents.search(word, mode="keyword", project="both")
        assert hit.path == both.shared.file
        assert word in hit.memory.content
        assert not memory.documents.search(other, mode="keyword", project="both")


# A chunk is no memory


def by_id(id: str, both: Both) -> list[tuple[str, Probe]]:
    """Every call that takes the id of a memory, with this id in its place."""
    names = replace(both.own, id=id, other=id, forgotten=id, superseded=id)
    return [
        (name, replace(probe, arguments=lambda n, own, probe=probe: probe.arguments(names, own)))
        for name, probes in CALLS.items()
        for probe in probes
        if probe.outcome is NotFound and id in repr(probe.arguments(names, both.shared))
    ]


@pytest.mark.parametrize("what", ["chunk", "document"])
def test_no_call_but_get_takes_the_id_of_a_chunk_or_a_file_for_that_of_a_memory(both: Both, what: str) -> None:
    before, id = rows_of(both.path, MINE), getattr(both.own, what)
    takes_it = ("get", "documents.get", "documents.chunks")
    tried = [(name, probe) for name, probe in by_id(id, both) if name not in takes_it]
    for name, probe in tried:
        args, kwargs = probe.arguments(both.own, both.shared)

        assert isinstance(answered(both.mine, name, args, kwargs), NotFound), (name, args, kwargs)

    assert len({name for name, _ in tried}) >= 18
    assert rows_of(both.path, MINE) == before


def test_the_id_of_a_chunk_gets_it_in_its_own_namespace_alone(both: Both) -> None:
    hit = both.mine.documents.search(both.own.file_word)[0]

    assert both.mine.get(hit.memory.id) == both.mine.get([hit.memory.id])[0] == hit.memory
    assert both.theirs.get([hit.memory.id]).missing == (hit.memory.id,)
    with pytest.raises(NotFound):
        both.theirs.get(hit.memory.id)


def test_chunks_are_in_no_list_no_timeline_no_facet_and_near_nothing(both: Both) -> None:
    chunk, mine = both.own.chunk, both.mine
    content = mine.documents.search(both.own.file_word)[0].memory.content
    said = mine.add(content)

    assert said.id != chunk  # the same text as a memory is another thing
    assert said.near is None
    assert chunk not in {one.id for deleted in (False, True) for one in mine.list(limit=ALL, deleted=deleted)}
    assert chunk not in {one.id for one in mine.timeline(limit=ALL)}
    assert chunk not in {one.memory.id for one in mine.related(said.id, ALL)}
    assert chunk not in {one.id for group in mine.review.duplicates() for one in group}
    assert chunk not in {hit.memory.id for hit in mine.search(content, limit=ALL, noise_floor=False)}
    assert "document" not in mine.facets()["kind"]
    assert mine.suggest("habour") == "harbour"  # from the memory that was just added


def test_words_of_files_are_offered_only_where_files_are_asked(both: Both) -> None:
    assert both.mine.suggest("habour") is None
    assert both.mine.search("habour").suggestion is None
    assert both.mine.documents.search("habour", mode="keyword").suggestion == "harbour"


@pytest.mark.parametrize("name", [chunk_namespace(MINE), chunk_namespace(THEIRS), "a\x1fb"])
def test_the_namespace_of_the_chunks_cannot_be_named(both: Both, name: str) -> None:
    with pytest.raises(InvalidInput):
        memorist.open(both.path, namespace=name, embedder="none").close()


def test_a_place_in_a_file_is_of_the_namespace_that_was_asked(both: Both) -> None:
    assert both.mine.documents.search("harbour")[0].memory.namespace == MINE


def test_a_part_of_an_id_is_unique_when_no_other_memory_of_the_namespace_has_it(path: Path) -> None:
    mine, theirs = open_both(path)
    with mine, theirs:
        theirs.add("theirs", id="018f0000-0000-7000-8000-000000000002")
        theirs.add("theirs too", id="018f0000-0000-7000-8000-000000000003")
        mine.add("mine", id="018f0000-0000-7000-8000-000000000001")
        theirs.sessions.start(id="long session of theirs")
        mine.sessions.start(id="long session of mine")

        assert mine.get("018f0000").content == "mine"
        assert mine.get(["018f00"]).memories[0].content == "mine"
        assert mine.sessions.get("long session").id == "long session of mine"
        with pytest.raises(memorist.Ambiguous, match=r"000000000002, .*000000000003"):
            theirs.get("018f0000")


def test_an_almost_equal_text_of_another_namespace_is_not_reported(path: Path) -> None:
    mine, theirs = open_both(path)
    with mine, theirs:
        text = "the staging server restarts every night at two"
        theirs.add(f"{text} sharp")

        assert mine.add(f"{text} precisely").near is None
        assert mine.add(f"{text} exactly", on_near_duplicate="merge").near is not None  # one's own is
        assert not theirs.list()[0].superseded


def test_hidden_counts_nothing_of_another_namespace(path: Path) -> None:
    mine, theirs = open_both(path)
    with mine, theirs:
        old, new = theirs.add("a fox", project="theirs"), theirs.add("a red fox", project="theirs")
        theirs.supersede(old.id, new.id)
        mine.add("a fox", project="mine")

        for mode in ("keyword", "semantic", "hybrid"):
            results = mine.search("fox", mode=mode, project="nobody", min_similarity=0.1)
            assert results.hidden == {"project": 1}, mode


DAMAGES = {
    "text": "update memories set content = content || '!', content_hash = randomblob(32) where namespace = 'theirs'",
    "time": "update memories set created_at = 9e17 where namespace = 'theirs'",
    "version": "update memory_history set snapshot = '{}'",
    "tags": "delete from memory_tags",
    "positions": "update session_memories set position = 7",
    "facts": "update memories set facts = 'x' where namespace = 'theirs'",
    "validity": "update memories set valid_until = 5 where namespace = 'theirs'",
    "queue": "delete from vectors",
    "orphan": "delete from chunks",
    "vector": "update vectors set vector = zeroblob(128)",
    "block": "update vector_blocks set data = x'00'",
    "missing block": "delete from vector_blocks",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_check_finds_and_repairs_nothing_of_another_namespace(path: Path, damage: str) -> None:
    folder = path.with_name("notes")
    folder.mkdir()
    (folder / "a.txt").write_text("their note")
    options: dict[str, Any] = {"embedder": HashingEmbedder(), "synchronous": "normal"}
    with memorist.open(path, namespace="theirs", **options) as theirs:
        session = theirs.sessions.start(id="their session")
        added = theirs.add("theirs", tags=["a"], facts=["b"], session=session.id)
        theirs.add("theirs too", session=session.id)
        theirs.update(added.id, content="theirs, changed")
        theirs.documents.index(folder)
    connection = apsw.Connection(str(path))
    triggers = list(connection.execute("select name, sql from sqlite_master where type = 'trigger'"))
    kept = damage in ("text", "facts")  # the index has to know of texts
    for name, _ in triggers if not kept else ():
        connection.execute(f"drop trigger {name}")
    connection.execute(DAMAGES[damage])
    for _, sql in triggers if not kept else ():
        connection.execute(sql)
    connection.close()
    with memorist.open(path, namespace="mine", **options) as mine:
        mine.add("mine")
        before = rows_of(path, "theirs")

        report = mine.check(repair=True)

        assert (report.problems, report.memories) == ((), 1)
    assert rows_of(path, "theirs") == before
    with memorist.open(path, namespace="theirs", **options) as theirs:
        assert theirs.check().problems


# What is beside does not show


words = st.sampled_from(["fox", "wolf", "zebra", "deploying", "部署", "C++", "x-ray", "ünï"])
texts = st.lists(st.lists(words, min_size=1, max_size=5).map(" ".join), max_size=5, unique=True)


def answers(memory: Memorist, words: Sequence[str]) -> dict[str, object]:
    """All that a namespace can be asked, without the numbers that ranking gives."""
    ids = [one.id for one in memory.list(limit=ALL)]
    told: dict[str, object] = {"list": ids, "timeline": [one.id for one in memory.timeline(limit=ALL)]}
    for word in words:
        for mode in ("keyword", "hybrid", "semantic"):
            found = memory.search(
                word, mode=mode, limit=ALL, noise_floor=False, facets=FACETS, project="p", include_superseded=True
            )
            told[f"{mode} {word}"] = (
                sorted(hit.memory.id for hit in found), found.hidden, found.suggestion, found.facets, found.degraded,
            )  # fmt: skip
        told[f"suggest {word}"] = memory.suggest(typo(word))
    for id in ids:
        told[f"related {id}"] = sorted(one.memory.id for one in memory.related(id, ALL))
    for word in words:
        for mode in ("keyword", "semantic"):
            places = memory.documents.search(word, mode=mode, limit=ALL, noise_floor=False)
            told[f"files {mode} {word}"] = (sorted(Path(hit.path).name for hit in places), places.suggestion)
        mixed = memory.search(word, limit=ALL, noise_floor=False, include_documents=True, facets=FACETS, project="p")
        told[f"both {word}"] = (sorted(hit.memory.content for hit in mixed), mixed.hidden, mixed.facets)
    told["documents"] = [(Path(one.path).name, one.chunks) for one in memory.documents.list()]
    stats = structs.replace(memory.stats(), size_bytes=0, path="")
    told |= {
        "facets": memory.facets(),
        "stats": stats,
        "duplicates": [[one.id for one in each] for each in memory.review.duplicates()],
    }
    return told


def write(memory: Memorist, contents: Sequence[str], folder: Path) -> list[object]:
    """Memories with ids of their own, the last one replaced, and files; gives what `add` says of almost equal ones."""
    folder.mkdir(exist_ok=True)
    for number, text in enumerate(contents):
        (folder / f"{number}.txt").write_text(text, "utf-8")
    memory.documents.index(folder, project="p")
    added = [
        memory.add(text, id=f"memory-{number}", project="p" if number % 2 else None, tags=text.split())
        for number, text in enumerate(contents)
    ]
    if len(added) > 1:
        memory.supersede(added[-1].id, added[0].id)
    return [(one.id, one.near and one.near.id) for one in added]


@settings(max_examples=25)
@given(mine=texts, theirs=texts, word=st.text(min_size=1, max_size=12))
def test_a_namespace_answers_as_if_it_were_alone(
    tmp_path_factory: pytest.TempPathFactory, mine: list[str], theirs: list[str], word: str
) -> None:
    folder = tmp_path_factory.mktemp("beside")
    words = [*{word for text in mine + theirs for word in text.split()}, word]
    shared, other = open_both(folder / "both.db")
    with shared, other, memorist.open(folder / "alone.db", namespace=MINE, embedder=HashingEmbedder()) as alone:
        write(other, theirs, folder / "theirs")
        assert write(shared, mine, folder / "mine") == write(alone, mine, folder / "mine")
        other.documents.index(folder / "mine", project="p")
        other.add_many(f"{text} once more {number}" for number, text in enumerate(theirs))

        assert answers(shared, words) == answers(alone, words)
        assert shared.check().problems == ()
    shutil.rmtree(folder)


@pytest.mark.local_only("it looks behind the interface")
def test_what_left_the_project_after_it_was_found_is_not_read(memory: Memorist) -> None:
    moved = memory.add("the plan of the garden", project="p")
    store, inside = memory._resources.store, Filter(project=("p",), restricted=True)
    found = store.match_keywords(
        parse_query("garden", "auto"), store.resolve_scope(inside), limit=5, page=5, weights={"content": 1.0}
    )
    memory.update(moved.id, project="q")

    assert len(found.matches)
    assert len(store.load_ranking_columns(found.matches.keys, None, None, Scope(inside))) == 0
    assert store.load_memories(found.matches.keys.tolist(), inside) == {}
