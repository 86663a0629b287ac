"""One project of a memory: nothing leads out of it, and nothing of the others leaks into it."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import memorist
from answers import show_fields
from memorist import AlreadyExists, ChangedMeanwhile, InvalidInput, Memorist, NotFound
from memorist.engine.project_view import ProjectView
from memorist.store.postgres.connections import PostgresDatabase

INSIDE, OUTSIDE = "falcon", "secretword"  # words of either side


class Setup:
    """A memory with two projects that are tangled up as much as they can be."""

    def __init__(self, memory: Memorist) -> None:
        self.memory, self.bound = memory, ProjectView(memory, "ours")
        theirs = memory.sessions.start("theirs", summary=f"{OUTSIDE} session")
        shared = memory.sessions.start(summary=f"{OUTSIDE} meeting")
        self.their_session = theirs.id
        self.ours = memory.add(f"{INSIDE} one", project="ours", session=shared.id).id
        self.old = memory.add(f"{INSIDE} two", project="ours", session=theirs.id).id
        self.theirs = memory.add(f"{OUTSIDE} and {INSIDE}", project="theirs", session=theirs.id).id
        self.nobodys = memory.add(f"{OUTSIDE} of nobody", tier="global").id
        self.gone = memory.add(f"{OUTSIDE} gone", project="theirs").id
        memory.pin(self.theirs)
        memory.pin(self.nobodys)
        memory.forget(self.gone)
        memory.supersede(self.old, self.theirs)
        memory.links.add(self.ours, self.theirs, "explains")
        self.moved = memory.add(f"{OUTSIDE} before it moved", project="theirs", created_at="2020-01-01").id
        memory.update(self.moved, content=f"{INSIDE} moved", project="ours")

    @property
    def foreign(self) -> list[str]:
        """Ids that lead nowhere from inside, whole and in part."""
        return [self.theirs, self.theirs[-8:], self.nobodys, self.gone, "nothing-at-all"]


@pytest.fixture
def setup(path: Path) -> Iterator[Setup]:
    with memorist.open(path, embedder="none") as memory:
        yield Setup(memory)


LOOKS: dict[str, Callable[[Setup], Any]] = {
    "search": lambda setup: setup.bound.search(f"{INSIDE} {OUTSIDE}", include_superseded=True),
    "search for their word": lambda setup: setup.bound.search(OUTSIDE),
    "search for almost their word": lambda setup: setup.bound.search("secretward"),
    "search with documents": lambda setup: setup.bound.search(OUTSIDE, include_documents=True),
    "facets": lambda setup: setup.bound.facets(INSIDE),
    "facets of all": lambda setup: setup.bound.facets(),
    "list": lambda setup: list(setup.bound.list()),
    "list of the forgotten": lambda setup: list(setup.bound.list(deleted=True)),
    "get": lambda setup: setup.bound.get([setup.ours, setup.old, setup.moved]),
    "get as it was": lambda setup: setup.bound.get([setup.ours, setup.moved], as_of="2021-01-01"),
    "timeline": lambda setup: setup.bound.timeline(),
    "timeline as it was": lambda setup: setup.bound.timeline(as_of="2021-01-01"),
    "timeline around": lambda setup: setup.bound.timeline(anchor=setup.old, before=50, after=50),
    "timeline around, as it was": lambda setup: setup.bound.timeline(anchor=setup.moved, as_of="2021-01-01"),
    "timeline around a match": lambda setup: setup.bound.timeline(query=OUTSIDE),
    "context": lambda setup: setup.bound.context(f"{INSIDE} {OUTSIDE}"),
    "add": lambda setup: setup.bound.add(f"{INSIDE} again"),
    "update": lambda setup: setup.bound.update(setup.old, kind="note"),
}


@pytest.mark.parametrize("look", LOOKS)
def test_no_answer_speaks_of_another_project(setup: Setup, look: str) -> None:
    shown = show_fields(LOOKS[look](setup))
    for query in (f"{INSIDE} {OUTSIDE}", OUTSIDE):  # a question is the caller's own
        shown = shown.replace(f"query={query!r}", "")

    assert OUTSIDE not in shown
    assert "theirs" not in shown


def test_what_is_inside_is_found(setup: Setup) -> None:
    assert {hit.memory.id for hit in setup.bound.search(INSIDE)} == {setup.ours, setup.moved}
    assert [memory.id for memory in setup.bound.get([setup.ours])] == [setup.ours]
    assert setup.memory.get(setup.bound.add("new").id).project == "ours"


@pytest.mark.parametrize(
    "call",
    [
        lambda bound, id, own: bound.update(id, content="x"),
        lambda bound, id, own: bound.forget(id),
        lambda bound, id, own: bound.forget(id, hard=True),
        lambda bound, id, own: bound.supersede(id, own),
        lambda bound, id, own: bound.supersede(own, id),
        lambda bound, id, own: bound.timeline(anchor=id),
    ],
)
def test_an_id_of_another_project_is_that_of_none(setup: Setup, call: Callable[[ProjectView, str, str], Any]) -> None:
    before = [setup.memory.get(id) for id in (setup.theirs, setup.nobodys, setup.ours)]
    messages = set()
    for id in setup.foreign:
        with pytest.raises(NotFound) as raised:
            call(setup.bound, id, setup.ours)
        messages.add(str(raised.value).replace(id, "ID"))

    assert len(messages) == 1  # there or not there: it sounds the same
    assert [setup.memory.get(id) for id in (setup.theirs, setup.nobodys, setup.ours)] == before
    assert set(setup.bound.get(setup.foreign).missing) == set(setup.foreign)


def test_a_part_that_several_ids_have_does_not_tell_them(setup: Setup) -> None:
    setup.memory.add("one", id="018f0000-0000-7000-8000-00000000000a", project="theirs")
    setup.memory.add("two", id="018f0000-0000-7000-8000-00000000000b", project="theirs")

    with pytest.raises(NotFound) as raised:
        setup.bound.forget("018f0000")

    assert "018f0000-0000" not in str(raised.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda bound: bound.search("x", project="theirs"),
        lambda bound: bound.search("x", include_global=True),
        lambda bound: bound.list(project=["ours", "theirs"]),
        lambda bound: bound.facets(project="theirs"),
        lambda bound: bound.count(project="theirs"),
        lambda bound: bound.count(include_global=True),
        lambda bound: bound.forget_many(project="theirs"),
        lambda bound: bound.forget_many(kind="x", include_global=True),
        lambda bound: bound.timeline(project="theirs"),
        lambda bound: bound.context("x", project="theirs"),
        lambda bound: bound.context("x", include_global=True),
        lambda bound: bound.add("x", project="theirs"),
    ],
)
def test_another_project_cannot_be_named(setup: Setup, call: Callable[[ProjectView], Any]) -> None:
    with pytest.raises(InvalidInput, match="'ours'"):
        call(setup.bound)


def test_counting_and_forgetting_many_end_at_the_wall(setup: Setup) -> None:
    assert setup.bound.count() == setup.memory.count(project="ours") == 3
    assert setup.bound.count(deleted=True) == 0
    for filters in ({}, {"project": "ours"}, {"metadata": {}}):
        with pytest.raises(InvalidInput, match="filter"):
            setup.bound.forget_many(**filters)
    assert setup.bound.forget_many(tier=["project", "global", "session"], hard=True) == 3
    assert setup.bound.count() == 0
    assert setup.memory.get([setup.theirs, setup.nobodys]).missing == ()
    assert setup.memory.count(deleted=True) == 1


@pytest.mark.parametrize("if_exists", ["update", "keep", "error"])
def test_an_id_that_is_used_in_another_project_is_as_good_as_any(setup: Setup, if_exists: str) -> None:
    def unfold(id: str) -> list[Any]:
        """What a client sees that uses an id of its own, for a memory that it adds, changes and forgets."""
        seen: list[Any] = [setup.bound.add(f"{INSIDE} new", id=id, if_exists=if_exists)]
        seen += setup.bound.get([id]), setup.bound.update(id, title="changed")
        for content in (f"{INSIDE} new", f"{INSIDE} once more"):
            try:
                seen.append(setup.bound.add(content, id=id, if_exists=if_exists))
            except AlreadyExists as exc:
                seen.append(str(exc))
        seen.append([hit.memory for hit in setup.bound.search(INSIDE)])
        seen.append([one.id for one in setup.bound.timeline(anchor=id)])
        seen += setup.bound.list().memories, setup.bound.context(f"{INSIDE} once more")
        setup.bound.forget(id)
        seen.append(setup.bound.get([id]))
        shown = re.sub(r"datetime\([^)]*\)|0\.\d+", "…", show_fields(seen)).replace(id, "ID")
        return re.sub(r"~[0-9a-f]{28}", "~…", shown)

    moved = setup.bound.add(f"{INSIDE} to be moved", id="moved-away")
    setup.memory.update(moved.id, project="theirs")
    ids = [setup.theirs, setup.nobodys, setup.gone, "moved-away", moved.id]
    before = [setup.memory.get(id) for id in (*ids[:2], moved.id)]
    fresh = unfold("some-id-of-our-own")

    assert all("ID" in answer for answer in fresh if "content" in answer)
    for id in ids:
        assert unfold(id) == fresh
    assert [setup.memory.get(id) for id in (*ids[:2], moved.id)] == before


def test_an_id_does_not_tell_whether_the_one_before_it_was_moved_or_erased(setup: Setup) -> None:
    """By an id that can be foreseen, or comes again, a caller would see that the one it was given before is taken."""
    names, ids = ("moved", "erased"), dict[str, set[str]]()
    for _ in range(3):
        for name in names:
            added = setup.bound.add(f"{INSIDE} under the name {name}", id=name)
            ids.setdefault(name, set()).add(added.id)
            assert setup.bound.get([name])[0].id == added.id
            if name == "moved":
                setup.memory.update(added.id, project="theirs", content=f"{OUTSIDE} {len(ids[name])}")
            else:
                setup.memory.forget(added.id, hard=True)
            assert setup.bound.get([name]).missing == (name,)

    assert [len(ids[name]) for name in names] == [3, 3]


def test_of_two_memories_of_one_name_the_later_one_is_meant(setup: Setup) -> None:
    first = setup.bound.add(f"{INSIDE} first", id="name").id
    setup.memory.update(first, project="theirs")
    second = setup.bound.add(f"{INSIDE} second", id="name").id
    setup.memory.update(first, project="ours")

    assert setup.bound.get(["name"])[0].id == second
    assert setup.bound.add(f"{INSIDE} third", id="name").id == second
    setup.bound.forget("name")
    assert setup.bound.get(["name"])[0].id == first
    long = "x" * 512
    assert len({setup.bound.add(f"{INSIDE} {name}", id=name).id for name in (long, long[:-1] + "y")}) == 2


def test_a_name_that_several_callers_add_at_once_is_one_memory(setup: Setup) -> None:
    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(lambda n: setup.bound.add(f"{INSIDE} {n}", id="at-once").id, range(24)))

    assert len(set(added)) == 1


def test_an_id_of_ones_own_project_means_the_memory_that_has_it(setup: Setup) -> None:
    setup.memory.add(f"{INSIDE} by its owner", id="a-name", project="ours")

    assert setup.bound.add(f"{INSIDE} by a client", id="a-name").id == "a-name"
    assert setup.memory.get("a-name").content == f"{INSIDE} by a client"
    setup.memory.forget("a-name")
    assert setup.bound.add(f"{INSIDE} again", id="a-name").id == "a-name"
    assert setup.memory.get("a-name").content == f"{INSIDE} again"


def test_a_cursor_does_not_tell_whether_another_project_has_an_id(setup: Setup) -> None:
    at = "2026-01-01T00:00:00Z"
    ids = [f"018f0000-0000-7000-8000-00000000000{n}" for n in (1, 9, 5, 3, 7)]
    setup.memory.add_many(
        {"content": f"{INSIDE} {id}", "id": id, "project": "ours", "created_at": at} for id in ids[:2]
    )
    setup.memory.add(f"{OUTSIDE} {ids[2]}", id=ids[2], project="theirs", created_at=at)
    setup.memory.add_many(
        {"content": f"{INSIDE} {id}", "id": id, "project": "ours", "created_at": at} for id in ids[3:]
    )
    cursor = f"1767225600000000:{ids[2]}"

    there = [one.id for one in setup.bound.list(cursor=cursor, month="2026-01")]
    setup.memory.forget(ids[2], hard=True)

    assert [one.id for one in setup.bound.list(cursor=cursor, month="2026-01")] == there != []


def test_links_across_the_wall_are_not_counted(setup: Setup) -> None:
    friend = setup.memory.add(f"{INSIDE} friend", project="ours").id
    setup.memory.links.add(setup.ours, friend, "explains")
    setup.memory.links.add(setup.moved, setup.theirs, "explains")
    then = datetime.now(UTC)

    def count(id: str) -> set[int]:
        found = [*setup.bound.list(), *(hit.memory for hit in setup.bound.search(INSIDE)), *setup.bound.timeline()]
        found += [*setup.bound.get([id]), *setup.bound.get([id], as_of=then), *setup.bound.list(as_of=then)]
        found.append(setup.bound.update(id, kind=f"kind {len(found)}"))
        return {one.related_count for one in found if one.id == id}

    assert (count(setup.ours), count(setup.moved), count(friend)) == ({1}, {0}, {1})
    assert setup.memory.get(setup.ours).related_count == 2


def test_a_memory_cannot_be_moved_out(setup: Setup) -> None:
    with pytest.raises(InvalidInput, match="'ours'"):
        setup.bound.update(setup.ours, project="theirs")


def test_a_lens_does_not_lead_out(setup: Setup) -> None:
    setup.memory.lenses.set("wide", project=["theirs", "ours"], include_global=True)

    assert not setup.bound.search(OUTSIDE, lens="wide")


def test_a_lens_of_another_project_is_unknown(setup: Setup) -> None:
    setup.memory.lenses.set("hidden", project="theirs")
    setup.memory.lenses.set("of nobody", tags="x")
    setup.memory.lenses.set("own", project="ours")
    messages = set()
    for name in ("hidden", "nowhere"):
        with pytest.raises(NotFound) as refused:
            setup.bound.search(INSIDE, lens=name)
        messages.add(str(refused.value).replace(name, "NAME"))

    assert len(messages) == 1
    assert setup.bound.search(INSIDE, lens="own")
    assert not setup.bound.search(INSIDE, lens="of nobody")


def test_a_session_of_another_project_is_none(setup: Setup) -> None:
    for call in (
        lambda: setup.bound.search("x", session=setup.their_session),
        lambda: setup.bound.count(session=setup.their_session),
        lambda: setup.bound.forget_many(session=setup.their_session),
        lambda: setup.bound.search("x", record_session=setup.their_session),
        lambda: setup.bound.add("x", session=setup.their_session),
        lambda: setup.bound.update(setup.ours, kind="x", session=setup.their_session),
    ):
        with pytest.raises(NotFound):
            call()


def test_a_neighbouring_turn_of_another_project_is_not_told(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        session = memory.sessions.start("ours")
        first = memory.add(f"{OUTSIDE} before", kind="turn", session=session.id, project="ours")
        memory.add(f"how does the {INSIDE} fly", kind="turn", session=session.id, project="ours")
        memory.update(first.id, project="theirs")

        told = ProjectView(memory, "ours").context(f"how does the {INSIDE} fly")

    assert INSIDE in told
    assert OUTSIDE not in told


@pytest.mark.local_only("it needs the process of the memory, its files or its words")
@pytest.mark.parametrize("meanwhile", [{"content": "changed"}, {"project": "theirs"}])
@pytest.mark.parametrize(
    "act",
    [
        lambda view, id, version: view.forget(id, if_version=version),
        lambda view, id, version: view.forget(id, hard=True, if_version=version),
        lambda view, id, version: view.update(id, title="new", if_version=version),
    ],
    ids=["forget", "erase", "update"],
)
def test_what_changes_just_before_a_write_is_seen_by_its_check(
    memory: Memorist, act: Callable[..., Any], meanwhile: dict[str, str]
) -> None:
    class InterruptedView(ProjectView):
        """Another writer comes after the id is looked up, and before the write."""

        def _resolve_id(self, id: str) -> str:
            whole = super()._resolve_id(id)
            memory.update(whole, **meanwhile)
            return whole

    read = memory.add("as it was read", project="ours")
    id = read.id

    with pytest.raises((ChangedMeanwhile, NotFound)):
        act(InterruptedView(memory, "ours"), id, read.version)

    assert memory.get(id).title is None


@pytest.mark.parametrize("where", [":memory:", "postgres"])
def test_a_check_needs_no_connection_but_that_of_its_write(
    where: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "postgres":
        where = request.getfixturevalue("postgres_url")
        monkeypatch.setitem(PostgresDatabase.__init__.__kwdefaults__ or {}, "max_connections", 1)
    with memorist.open(where, embedder="none", busy_timeout=1) as memory:
        setup = Setup(memory)
        older = memory.add(f"{INSIDE} before", project="ours").id
        memory.supersede(older, setup.ours)
        memory.search(INSIDE, record="log")  # what is recorded is written later
        for id in (older, setup.old, setup.ours):
            (seen,) = setup.bound.get([id])
            changed = setup.bound.update(id, title="new", if_version=seen.version)
            with pytest.raises(ChangedMeanwhile):
                setup.bound.forget(id, if_version=seen.version)
            setup.bound.forget(id, if_version=changed.version)


def test_a_successor_is_told_only_if_it_was_inside_by_then(setup: Setup) -> None:
    memory, bound = setup.memory, setup.bound
    old = memory.add(f"{INSIDE} old", project="ours").id
    new = memory.add(f"{OUTSIDE} new", project="theirs").id
    memory.supersede(old, new)
    then = datetime.now(UTC)
    assert bound.get([old])[0].superseded_by is None
    memory.update(new, content=f"{INSIDE} new", project="ours")

    told_now, told_then = bound.get([old])[0].superseded_by, bound.get([old], as_of=then)[0].superseded_by

    assert told_now is not None
    assert (told_now.id, told_now.project) == (new, "ours")
    assert told_then is None


def test_the_names_of_lenses_are_not_told(setup: Setup) -> None:
    setup.memory.lenses.set(OUTSIDE, project="theirs")

    with pytest.raises(NotFound) as refused:
        setup.bound.search(INSIDE, lens="none of them")

    assert OUTSIDE not in str(refused.value)
