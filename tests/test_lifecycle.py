"""
The lives of memories: whatever happens to them, what is kept agrees with itself, and the past can be asked.

Random lives in two namespaces of one file, with a plain model beside them. After every step the memory says what the
model says; in the end `as_of` each moment of that life gives what could be read then, but for what was forgotten since.
"""

import math
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

import memorist
from conftest import HashingEmbedder
from memorist import Fact, InvalidInput, Memorist, Memory, NotFound
from memorist.engine import recorder
from memorist.profiles.profile import FACT_DECAY
from statements import read_column

# None is the stem or a part of another: each stands for itself in every index.
WORDS = ("anchor", "cactus", "comet", "ember", "fox", "violin", "wolf", "zebra")
PROJECTS = (None, "api", "web")
KINDS = ("decision", "state")
RATES = FACT_DECAY["slow"]
SUPERSEDES = "supersedes"
ALL = 1000


def after(moment: datetime) -> datetime:
    """A time later than this one; whatever happens next is later still."""
    while (now := datetime.now(UTC)) <= moment:
        pass
    return now


# The model


@dataclass
class Sure:
    """A fact: of which kind, and how sure it was at a time."""

    kind: str | None
    confidence: float
    since: datetime

    def confirm(self, share: float, now: datetime) -> None:
        left = self.confidence * math.exp(-RATES[self.kind or "kv"] * ((now - self.since) / timedelta(days=1)))
        self.confidence, self.since = left + share * (1 - left), now


@dataclass
class Life:
    """What a memory should be."""

    id: str
    content: str
    project: str | None
    tags: tuple[str, ...]
    salience: float
    created: datetime
    recorded: datetime
    title: str | None = None
    pinned: bool = False
    facts: dict[str, Sure] = field(default_factory=dict)  # by their texts
    session: str | None = None
    live: bool = True

    @property
    def began(self) -> datetime:
        return min(self.created, self.recorded)

    def note(self, text: str, kind: str | None, confidence: float, now: datetime) -> None:
        """A fact; of one it has, what is said of it now is new."""
        known = self.facts[text].kind if text in self.facts else None
        self.facts[text] = Sure(known if kind is None else kind, confidence, now)

    def words(self) -> set[str]:
        return set(" ".join([self.title or "", self.content, *self.tags, *self.facts]).split())


LONG = 100  # lives


@dataclass
class Link:
    """What was said of two memories, and for how long."""

    source: str
    target: str
    kind: str
    confidence: float
    start: datetime
    end: datetime | None = None

    def held(self, at: datetime | None) -> bool:
        return self.end is None if at is None else self.start <= at and (self.end is None or self.end > at)


@dataclass
class World:
    """One namespace, and what it should hold."""

    memory: Memorist
    lives: dict[str, Life] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    known: list[str] = field(default_factory=list)  # every id there ever was
    session: str | None = None
    used: dict[str, set[str]] = field(default_factory=dict)  # session: what was made or used in it

    def live(self) -> list[Life]:
        return [life for life in self.lives.values() if life.live]

    def forgotten(self) -> list[Life]:
        return [life for life in self.lives.values() if not life.live]

    def same(self, project: str | None, content: str) -> Life | None:
        return next((one for one in self.live() if (one.project, one.content) == (project, content)), None)

    def successions(self, id: str, at: datetime | None = None) -> list[Link]:
        return [link for link in self.links if link.kind == SUPERSEDES and link.target == id and link.held(at)]

    def superseded(self, id: str, at: datetime | None = None) -> bool:
        return bool(self.successions(id, at))

    def leads_to(self, id: str) -> list[str]:
        """All that replaced it one after the other, as of now."""
        chain = [id]
        while found := self.successions(chain[-1]):
            chain.append(found[0].source)
        return chain[1:]

    def successor(self, id: str, at: datetime | None = None) -> str | None:
        """The newest live one of the chain."""
        newest, here, seen = None, id, {id}
        while found := self.successions(here, at):
            assert len(found) == 1, "one successor at a time"
            here = found[0].source
            assert here not in seen, "no circles"
            seen.add(here)
            newest = here if self.lives[here].live else newest
        return newest

    def undone(self, *ids: str) -> datetime | None:
        """Until when one of all that ever replaced one another with these was superseded, of what was taken back."""
        said = [link for link in self.links if link.kind == SUPERSEDES]
        family, before = set(ids), set[str]()
        while family != before:
            before = set(family)
            family |= {
                end for link in said if family & {link.source, link.target} for end in (link.source, link.target)
            }
        return max((link.end for link in said if link.target in family and link.end), default=None)

    def linked(self, id: str, at: datetime | None = None, *, valid: datetime | None = None) -> set[str]:
        """Live memories it has to do with that are not superseded; `valid` is the time for that, if another."""
        ends = [(link.source, link.target) for link in self.links if link.kind != SUPERSEDES and link.held(at)]
        others = {a if b == id else b for a, b in ends if id in (a, b)}
        return {other for other in others if self.lives[other].live and not self.superseded(other, valid or at)}

    def related(self, id: str, at: datetime | None = None) -> Counter[tuple[str, str, float]]:
        valid = self.linked(id, at)
        links = [link for link in self.links if link.kind != SUPERSEDES and link.held(at)]
        out = [(link.target, link.kind, link.confidence) for link in links if link.source == id]
        back = [(link.source, link.kind, link.confidence) for link in links if link.target == id]
        return Counter(entry for entry in out + back if entry[0] in valid)

    def count_links(self, id: str, at: datetime | None = None) -> int:
        """Count its links with live memories: that one superseded the other counts, whichever of them it is."""
        said = [(link.source, link.target) for link in self.links if link.kind == SUPERSEDES and link.held(at)]
        others = [a if b == id else b for a, b in said if id in (a, b)]
        return self.related(id, at).total() + sum(self.lives[other].live for other in others)

    def erase(self, id: str, now: datetime) -> None:
        """What it had replaced is replaced by what replaced it; nothing else is left of it."""
        heirs = self.successions(id)
        for link in self.links:
            if heirs and (link.kind, link.source, link.end) == (SUPERSEDES, id, None):
                link.source, link.start = heirs[0].source, max(link.start, heirs[0].start)
        self.links = [link for link in self.links if id not in (link.source, link.target)]
        del self.lives[id]
        for used in self.used.values():
            used.discard(id)

    def use(self, id: str) -> None:
        if self.session is not None:
            self.used[self.session].add(id)


# What can be read


def _own(memory: Memory) -> Memory:
    """What a memory says itself, without what depends on others. Accesses are counted, but have no history."""
    return replace(
        memory,
        deleted_at=None,
        valid_until=None,
        superseded_by=None,
        related_count=0,
        access_count=0,
        accessed_at=None,
        session=None,
        facts=tuple(_fact(fact) for fact in memory.facts),
        near=None,
    )


def _fact(fact: Fact) -> Fact:
    return replace(fact, effective=0.0)


def _ties(memory: Memory) -> tuple[str | None, datetime | None, int]:
    by = memory.superseded_by
    return by.id if by else None, memory.valid_until, memory.related_count


def everything(memory: Memorist, **options: Any) -> dict[str, Memory]:
    return {one.id: one for one in memory.list(limit=ALL, **options)}


def found(memory: Memorist, word: str, **options: Any) -> set[str]:
    hits = memory.search(word, mode="keyword", limit=ALL, **options)
    assert len({hit.memory.id for hit in hits}) == len(hits)
    return {hit.memory.id for hit in hits}


@dataclass
class Moment:
    """What one namespace said at a time. What has been forgotten since, came back or was dated back disturbs it."""

    at: datetime
    live: dict[str, Memory]
    forgotten: dict[str, Memory]
    found: dict[tuple[str, bool], set[str]]
    disturbed: bool = False

    def state(self, id: str) -> Memory | None:
        return self.live.get(id) or self.forgotten.get(id)


def who() -> st.SearchStrategy[int]:
    return st.sampled_from(range(12))


where = st.sampled_from((False, False, True))  # more happens in the first
seldom = st.integers(0, 9).map(lambda number: number == 9)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
projects = st.sampled_from(PROJECTS)
tags = st.lists(st.sampled_from(WORDS), max_size=2, unique=True).map(tuple)
facts = st.dictionaries(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join),
    st.tuples(st.sampled_from((None, *KINDS)), st.sampled_from((0.2, 0.7, 1.0))),
    max_size=2,
)
shares = st.sampled_from((0.1, 0.5, 1.0))


class Lives(RuleBasedStateMachine):
    """Two namespaces in one file. Memories are named by their place, so that a failure can be played again."""

    embedder: Callable[[], object] = staticmethod(lambda: "none")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "memory.db"
        self.worlds = tuple(
            World(
                memorist.open(self.path, namespace=name, embedder=self.embedder(), synchronous="normal"),  # type: ignore[arg-type]
            )
            for name in ("anna", "ben")
        )
        self.moments: tuple[list[Moment], list[Moment]] = ([], [])
        self.times = [after(datetime.now(UTC))]
        self.touched: set[int] = set()
        self.at_work = 0

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # else a step has failed, and that is what has to be told
                self.check_the_end()
        finally:
            for world in self.worlds:
                world.memory.close()
            shutil.rmtree(self.folder)

    def world(self, second: bool) -> World:
        self.touched.add(int(second))
        self.at_work = int(second)
        return self.worlds[second]

    def disturb(self, since: datetime | None = None) -> None:
        """What was read before is no longer all that is to be told of that time; with `since`, only from then on."""
        for moment in self.moments[self.at_work]:
            moment.disturbed |= since is None or moment.at >= since

    def time(self, place: int) -> datetime:
        return self.times[place % len(self.times)]

    def enough_is_left(self) -> bool:
        return any(len(world.live()) > 2 for world in self.worlds)

    def something_is_forgotten(self) -> bool:
        return any(world.forgotten() for world in self.worlds)

    def something_is_superseded(self) -> bool:
        return any(world.superseded(life.id) for world in self.worlds for life in world.live())

    def something_is_related(self) -> bool:
        return any(link.kind != SUPERSEDES for world in self.worlds for link in world.links)

    # Making and changing

    @initialize(
        given=st.lists(st.tuples(where, texts, projects, facts, st.booleans()), min_size=8, max_size=12),
        replaced=st.lists(st.tuples(where, who(), who(), st.none() | who()), min_size=2, max_size=5),
        related=st.lists(st.tuples(where, who(), who()), min_size=2, max_size=4),
    )
    def begin(
        self,
        given: list[tuple[bool, str, str | None, dict[str, tuple[str | None, float]], bool]],
        replaced: list[tuple[bool, int, int, int | None]],
        related: list[tuple[bool, int, int]],
    ) -> None:
        """Nobody begins with nothing: some memories, some of them replaced, some related."""
        for second, content, project, facts, dated in given:
            self.add(second, content, project, (), facts, False, "long ago" if dated else None, 0, "off")
        for second, one, other in related:
            self.relate(second, one, other, "supports", 1.0, False)
            self.the_memory_says_what_the_model_says()
        for second, old, new, then in replaced:
            self.supersede(second, old, new, then, False)
            self.the_memory_says_what_the_model_says()

    @rule(
        second=where,
        content=texts,
        project=projects,
        tags=tags,
        facts=facts,
        in_session=st.booleans(),
        dated=st.sampled_from((None, None, None, "then", "long ago", "ahead")),
        then=who(),
        near=st.sampled_from(("off", "report", "merge")),
    )
    def add(
        self,
        second: bool,
        content: str,
        project: str | None,
        tags: tuple[str, ...],
        facts: dict[str, tuple[str | None, float]],
        in_session: bool,
        dated: str | None,
        then: int,
        near: str,
    ) -> None:
        world = self.world(second)
        days = timedelta(days=2)
        began = {
            None: None,
            "then": self.time(then),
            "long ago": self.times[0] - days,
            "ahead": self.times[-1] + days,
        }[dated]
        session = world.session if in_session else None
        known = world.same(project, content)
        new = known is None
        before = {life.id for life in world.live() if not world.superseded(life.id)}
        memory = world.memory.add(
            content,
            project=project,
            tags=tags,
            facts=[dict(text=text, kind=kind, confidence=sure) for text, (kind, sure) in facts.items()],
            session=session,
            created_at=began,
            on_near_duplicate=near if began is None else "off",
        )
        if known is not None:
            assert memory.id == known.id
            known.salience += 0.1 * (1 - known.salience)
            for link in world.successions(known.id):
                link.end = memory.reinforced_at
        else:
            assert memory.id not in world.known
            world.known.append(memory.id)
            created = memory.recorded_at if began is None else began
            known = Life(memory.id, content, project, tags, 0.5, created, memory.recorded_at, session=session)
            world.lives[memory.id] = known
            if began is not None:
                self.disturb(known.began)
        for text, (kind, sure) in facts.items():
            known.note(text, kind, sure, known.began if new else memory.reinforced_at)
        if session is not None:
            world.use(memory.id)
        if memory.near is not None:
            assert memory.near.id in before - {memory.id}
            assert memory.near.merged is (near == "merge")
            if memory.near.merged:
                self.link(world, memory.near.id, memory.id)
                known.tags = tuple(dict.fromkeys([*known.tags, *world.lives[memory.near.id].tags]))

    @rule(second=where, one=who(), facts=facts, in_session=st.booleans())
    def say_again(self, second: bool, one: int, facts: dict[str, tuple[str | None, float]], in_session: bool) -> None:
        """The same text in the same project: it is reinforced, and holds again if it was superseded."""
        if life := self.pick(self.world(second).live(), one):
            self.add(second, life.content, life.project, ("ignored",), facts, in_session, None, 0, "report")

    @rule(
        second=where,
        one=who(),
        change=st.one_of(
            st.fixed_dictionaries({"content": texts}),
            st.fixed_dictionaries({"content": texts, "title": st.sampled_from((None, *WORDS))}),
            st.fixed_dictionaries({"tags": tags}),
            st.fixed_dictionaries({"project": projects}),
            st.fixed_dictionaries({"salience": st.sampled_from((0.0, 0.3, 1.0))}),
        ),
        in_session=st.booleans(),
    )
    def update(self, second: bool, one: int, change: dict[str, Any], in_session: bool) -> None:
        world = self.world(second)
        if life := self.pick(world.live(), one):
            same = world.same(change.get("project", life.project), change.get("content", life.content))
            session = world.session if in_session else None
            if same not in (None, life):
                with pytest.raises(InvalidInput, match="has exactly this text"):
                    world.memory.update(life.id, session=session, **change)
                return
            world.memory.update(life.id, session=session, **change)
            for name, value in change.items():
                setattr(life, name, value)
            if session is not None:
                world.use(life.id)

    def pick(self, lives: list[Life], place: int) -> Life | None:
        return lives[place % len(lives)] if lives else None

    # What replaced what, and other relations

    @rule(second=where, old=who(), new=who(), then=st.none() | who(), may_be_refused=seldom)
    def supersede(self, second: bool, old: int, new: int, then: int | None, may_be_refused: bool) -> None:
        world = self.world(second)
        valid = [life for life in world.live() if may_be_refused or not world.superseded(life.id)]
        before = self.pick(valid, old)
        later = self.pick([life for life in world.live() if may_be_refused or life is not before], new)
        if before is None or later is None:
            return
        times = [time for time in self.times if may_be_refused or time >= before.began]
        at = None if then is None or not times else times[then % len(times)]
        there = world.successions(before.id)
        undone = world.undone(before.id, later.id)
        too_early = at is not None and (at < before.began or (undone is not None and at < undone))
        if there and there[0].source == later.id:
            assert world.memory.supersede(before.id, later.id, at=at).valid_until == there[0].start
        elif there or before is later or before.id in world.leads_to(later.id) or too_early:
            with pytest.raises(InvalidInput):
                world.memory.supersede(before.id, later.id, at=at)
        else:
            assert world.memory.supersede(before.id, later.id, at=at).superseded
            self.link(world, before.id, later.id, at)

    def link(self, world: World, old: str, new: str, at: datetime | None = None) -> None:
        """Put down that one was replaced by another, from the time that the memory says, which is the right one."""
        before, later = world.lives[old], world.lives[new]
        since = world.memory.get(old).valid_until
        assert since is not None
        if at is not None:
            assert since == at
        elif max(before.began, world.undone(old, new) or before.began) <= later.created < later.recorded:
            assert since == later.created
        else:
            assert self.times[-1] < since <= datetime.now(UTC)
        world.links.append(Link(new, old, SUPERSEDES, 1.0, since))
        self.disturb(since)

    @rule(second=where, old=who())
    def continue_a_chain(self, second: bool, old: int) -> None:
        """What has replaced something is replaced itself."""
        world = self.world(second)
        newest = [link.source for link in world.links if link.kind == SUPERSEDES and link.end is None]
        lives = [world.lives[id] for id in newest if world.lives[id].live and not world.superseded(id)]
        free = [life for life in world.live() if life not in lives and not world.superseded(life.id)]
        if lives and free:
            before, later = lives[old % len(lives)], free[-1]
            world.memory.supersede(before.id, later.id)
            self.link(world, before.id, later.id)

    @precondition(something_is_superseded)
    @rule(second=where, one=who(), may_be_refused=seldom)
    def unsupersede(self, second: bool, one: int, may_be_refused: bool) -> None:
        world = self.world(second)
        if life := self.pick([life for life in world.live() if may_be_refused or world.superseded(life.id)], one):
            if not world.superseded(life.id):
                with pytest.raises(InvalidInput, match="nothing to undo"):
                    world.memory.unsupersede(life.id)
                return
            begun = datetime.now(UTC)
            assert not world.memory.unsupersede(life.id).superseded
            # It ended within the call; nobody asks for a time in there.
            world.successions(life.id)[0].end = begun

    @rule(
        second=where,
        one=who(),
        other=who(),
        kind=st.sampled_from(("supports", "about")),
        sure=st.sampled_from((0.3, 1.0)),
        may_be_refused=seldom,
    )
    def relate(self, second: bool, one: int, other: int, kind: str, sure: float, may_be_refused: bool) -> None:
        world = self.world(second)
        source = self.pick(world.live(), one)
        target = self.pick([life for life in world.live() if may_be_refused or life is not source], other)
        if source is None or target is None:
            return
        if source is target:
            with pytest.raises(InvalidInput, match="related to itself"):
                world.memory.links.add(source.id, target.id, kind, confidence=sure)
            return
        said = world.memory.links.add(source.id, target.id, kind, confidence=sure)
        self.unlink(world, source.id, target.id, kind, said.valid_from)
        world.links.append(Link(source.id, target.id, kind, sure, said.valid_from))

    @precondition(something_is_related)
    @rule(second=where, one=who(), other=who(), kind=st.sampled_from(("supports", "about")), may_be_refused=seldom)
    def unrelate(self, second: bool, one: int, other: int, kind: str, may_be_refused: bool) -> None:
        world = self.world(second)
        source, target = self.pick(world.live(), one), self.pick(world.live(), other)
        said = [link for link in world.links if link.kind != SUPERSEDES and link.end is None]
        said = [link for link in said if world.lives[link.source].live and world.lives[link.target].live]
        if said and not may_be_refused:
            link = said[one % len(said)]
            source, target, kind = world.lives[link.source], world.lives[link.target], link.kind
        if source is None or target is None:
            return
        begun = datetime.now(UTC)
        if any((link.source, link.target, link.kind) == (source.id, target.id, kind) for link in said):
            world.memory.links.remove(source.id, target.id, kind)
            self.unlink(world, source.id, target.id, kind, begun)
        else:
            with pytest.raises(NotFound, match="nothing to take back"):
                world.memory.links.remove(source.id, target.id, kind)

    def unlink(self, world: World, source: str, target: str, kind: str, end: datetime) -> None:
        for link in world.links:
            if (link.source, link.target, link.kind, link.end) == (source, target, kind, None):
                link.end = end

    # Forgetting

    @precondition(enough_is_left)
    @rule(second=where, one=who())
    def forget(self, second: bool, one: int) -> None:
        world = self.world(second)
        if life := self.pick(world.live(), one):
            world.memory.forget(life.id)
            life.live = False
            self.disturb()

    @precondition(something_is_forgotten)
    @rule(second=where, one=who())
    def restore(self, second: bool, one: int) -> None:
        world = self.world(second)
        if life := self.pick(world.forgotten(), one):
            if world.same(life.project, life.content):
                with pytest.raises(InvalidInput, match="cannot be restored"):
                    world.memory.restore(life.id)
                return
            assert world.memory.restore(life.id).id == life.id
            life.live = True
            self.disturb()

    @precondition(enough_is_left)
    @rule(second=where, one=who(), all_forgotten=st.booleans())
    def erase(self, second: bool, one: int, all_forgotten: bool) -> None:
        world = self.world(second)
        gone = world.forgotten() if all_forgotten else list(world.lives.values())[one : one + 1]
        if all_forgotten:
            assert world.memory.purge() == len(gone)
        for life in gone:
            if not all_forgotten:
                world.memory.forget(life.id, hard=True)
            world.erase(life.id, datetime.now(UTC))
        self.disturb()

    # Strength and facts

    @rule(
        second=where,
        one=who(),
        how=st.sampled_from(("reinforce", "deemphasize", "pin", "unpin")),
        share=shares,
        in_session=st.booleans(),
    )
    def strengthen(self, second: bool, one: int, how: str, share: float, in_session: bool) -> None:
        world = self.world(second)
        life = self.pick(world.live(), one)
        if life is None:
            return
        if how in ("pin", "unpin"):
            getattr(world.memory, how)(life.id)
            life.pinned = how == "pin"
        elif how == "deemphasize":
            world.memory.deemphasize(life.id, share)
            life.salience -= share * life.salience
        else:
            session = world.session if in_session else None
            world.memory.reinforce(life.id, share, session=session)
            life.salience += share * (1 - life.salience)
            for fact in life.facts.values():
                fact.confirm(share, datetime.now(UTC))
            if session is not None:
                world.use(life.id)

    @rule(second=where, one=who(), text=texts, kind=st.sampled_from((None, *KINDS)), sure=st.sampled_from((0.2, 1.0)))
    def add_fact(self, second: bool, one: int, text: str, kind: str | None, sure: float) -> None:
        world = self.world(second)
        if life := self.pick(world.live(), one):
            fact = world.memory.facts.add(life.id, text, kind=kind, confidence=sure)
            assert (fact.text, fact.memory_id, fact.confidence) == (text, life.id, sure)
            life.note(text, kind, sure, fact.reinforced_at)

    @rule(second=where, one=who(), share=shares, remove=st.booleans())
    def change_a_fact(self, second: bool, one: int, share: float, remove: bool) -> None:
        world = self.world(second)
        if life := self.pick([life for life in world.live() if life.facts], one):
            fact = world.memory.get(life.id).facts[0]
            if remove:
                world.memory.facts.remove(fact.id)
                del life.facts[fact.text]
                self.disturb()  # "with its history": it has never been
            else:
                world.memory.facts.reinforce(fact.id, share)
                life.facts[fact.text].confirm(share, datetime.now(UTC))

    # Sessions and recalls

    @precondition(lambda self: len(self.times) % 3 == 0)
    @rule(second=where)
    def begin_or_end_a_session(self, second: bool) -> None:
        world = self.world(second)
        if world.session is None:
            world.session = world.memory.sessions.start(id=f"session {len(world.used)}").id
            world.used[world.session] = set()
        else:
            ended = world.memory.sessions.end(world.session, "done").id
            world.session = None
            with pytest.raises(InvalidInput, match="ended on"):
                world.memory.add("too late", session=ended)

    @rule(second=where, word=st.sampled_from(WORDS), in_session=st.booleans())
    def recall(self, second: bool, word: str, in_session: bool) -> None:
        world = self.world(second)
        session = world.session if in_session else None
        hits = world.memory.search(word, mode="keyword", record="reinforce", record_session=session, limit=ALL)
        latest = world.memory.searches.list(limit=1)[0]
        assert (latest.query, latest.session) == (word, session)
        assert [one.id for one in latest.memories] == [hit.memory.id for hit in hits]
        for hit in hits:
            life = world.lives[hit.memory.id]
            life.salience += 0.02 * (1 - life.salience)
            if session is not None:
                world.use(life.id)

    # What holds after every step

    @invariant()
    def the_memory_says_what_the_model_says(self) -> None:
        for number in sorted(self.touched):
            self.check_and_remember(number)
        self.touched = set()

    def check_and_remember(self, number: int) -> None:
        world = self.worlds[number]
        shown = everything(world.memory)
        forgotten = everything(world.memory, deleted=True)
        assert set(shown) == {life.id for life in world.live()}
        assert set(forgotten) == {life.id for life in world.forgotten()}
        for life in world.live():
            self.check_one(world, life, shown[life.id])
        searched = self.check_words(world, [WORDS[len(self.times) % len(WORDS)]])
        self.check_facets(world, shown, None)
        now = after(self.times[-1])
        self.times.append(now)
        self.moments[number].append(Moment(now, shown, forgotten, searched))
        after(now)

    def check_one(self, world: World, life: Life, memory: Memory) -> None:
        assert memory.namespace == ("anna", "ben")[self.worlds.index(world)]
        assert (memory.content, memory.title, memory.project) == (life.content, life.title, life.project)
        assert (memory.tags, memory.pinned) == (life.tags, life.pinned)
        assert (memory.created_at, memory.recorded_at) == (life.created, life.recorded)
        assert memory.salience == pytest.approx(life.salience)
        assert [(fact.text, fact.kind) for fact in memory.facts] == [
            (text, one.kind) for text, one in life.facts.items()
        ]
        for fact, one in zip(memory.facts, life.facts.values(), strict=True):
            assert fact.confidence == pytest.approx(one.confidence, abs=1e-6)
            assert abs(fact.reinforced_at - one.since) < timedelta(seconds=5)
        assert (memory.session.id if memory.session else None) == life.session
        successor = world.successor(life.id)
        since = next((link.start for link in world.successions(life.id)), None)
        assert _ties(memory) == (successor, since, world.count_links(life.id))
        if successor is not None:
            assert memory.superseded_by is not None
            assert memory.superseded_by.content == world.lives[successor].content

    def check_words(self, world: World, words: Iterable[str]) -> dict[tuple[str, bool], set[str]]:
        """The full text is the live text: each word finds every live memory that has it, and no other."""
        searched = {}
        for word in words:
            having = {life.id for life in world.live() if word in life.words()}
            valid = {id for id in having if not world.superseded(id)}
            searched |= {(word, True): found(world.memory, word, include_superseded=True)}
            searched |= {(word, False): found(world.memory, word)}
            assert searched[word, True] == having, word
            assert searched[word, False] == valid, word
        return searched

    def check_facets(self, world: World, shown: dict[str, Memory], at: datetime | None) -> None:
        """Counts of all that is not superseded, and of what holds a word."""
        word = WORDS[len(shown) % len(WORDS)]
        for query in (None, word):
            counted = world.memory.facets(query, ("project", "tag", "fact_kind"), as_of=at)
            valid = [memory for memory in shown.values() if memory.valid_until is None]
            valid = [memory for memory in valid if query is None or query in _words(memory)]
            assert counted["project"] == Counter(memory.project for memory in valid if memory.project)
            assert counted["tag"] == Counter(tag for memory in valid for tag in memory.tags)
            kinds = [{fact.kind for fact in memory.facts if fact.kind} for memory in valid]
            assert counted["fact_kind"] == Counter(kind for each in kinds for kind in each)

    # What holds in the end

    def check_the_end(self) -> None:
        for number, world in enumerate(self.worlds):
            self.check_everything(world)
            for moment in self.moments[number]:
                self.check_the_past(world, moment, self.moments[number])
        assert self.worlds[0].memory.check().problems == ()
        assert read_column(self.path, "select count(*) from relations where valid_until < valid_from") == [0]

    def check_everything(self, world: World) -> None:
        memory = world.memory
        self.check_words(world, WORDS)
        live = {life.id for life in world.live()}
        timeline = memory.timeline(limit=ALL)
        assert {one.id for one in timeline} == live
        assert [one.created_at for one in timeline] == sorted(one.created_at for one in timeline)
        for id in live:
            self.check_related(world, id, None)
        for session, used in world.used.items():
            assert set(everything(memory, session=session)) == used & live
        asked = list(reversed(world.known))
        got = memory.get(asked)
        assert [one.id for one in got] == [id for id in asked if id in live]
        assert got.missing == tuple(id for id in asked if id not in live)
        stats = memory.stats()
        assert (stats.memories, stats.deleted) == (len(live), len(world.forgotten()))
        assert stats.superseded == sum(world.superseded(id) for id in live)
        assert stats.facts == sum(len(life.facts) for life in world.live())

    def check_related(self, world: World, id: str, at: datetime | None) -> None:
        found = world.memory.related(id, limit=ALL, as_of=at)
        linked = [one for one in found if one.relation is not None]
        assert found[: len(linked)] == linked  # first
        sure = [one.relation.confidence for one in linked if one.relation]
        assert sure == sorted(sure, reverse=True)
        told = Counter(
            (one.memory.id, link.kind, link.confidence)
            for one in linked
            for link in (one.relation, *one.further_relations)
            if link is not None
        )
        assert told == world.related(id, at)
        similar = {one.memory.id for one in found[len(linked) :]}
        assert len(similar) == len(found) - len(linked)
        assert not similar & {id, *(one.memory.id for one in linked)}
        assert all(world.lives[other].live and not world.superseded(other, at) for other in similar)

    def check_the_past(self, world: World, moment: Moment, moments: list[Moment]) -> None:
        """`as_of` a moment: what was read then, of what is live now, and what was dated back to before it since."""
        memory, at = world.memory, moment.at
        shown = everything(memory, as_of=at)
        expected = {life.id: self.then(life, moment, moments) for life in world.live() if life.began <= at}
        assert {id: _own(one) for id, one in shown.items()} == expected
        for id, one in shown.items():
            self.check_ties(world, id, one, at)
        if not moment.disturbed:
            assert shown.keys() == moment.live.keys()
            assert [one.id for one in memory.list(limit=ALL, as_of=at)] == list(moment.live)
            for id, one in shown.items():
                assert _ties(one)[:2] == _ties(moment.live[id])[:2]
                for new, old in zip(one.facts, moment.live[id].facts, strict=True):
                    assert new.effective == pytest.approx(old.effective, abs=1e-3)
        got = memory.get(world.known, as_of=at)
        assert list(got) == [shown[id] for id in world.known if id in shown]
        assert got.missing == tuple(id for id in world.known if id not in shown)
        assert {one.id: _own(one) for one in memory.timeline(as_of=at, limit=ALL, detail="full")} == expected
        for (word, superseded), ids in moment.found.items():
            having = {id for id, one in expected.items() if word in _words(one)}
            valid = {id for id in having if superseded or not world.superseded(id, at)}
            assert found(memory, word, as_of=at, include_superseded=superseded) == valid, word
            if not moment.disturbed:
                assert valid == ids
        self.check_facets(world, shown, at)
        self.check_filters(world, expected, at)
        for id in list(shown)[:2]:
            self.check_related(world, id, at)
        self.check_meaning(world, expected, at)

    def check_filters(self, world: World, expected: dict[str, Memory], at: datetime) -> None:
        """Each filter holds for that time, in a list and in a search. One of them at each moment."""
        step = self.times.index(at)
        word = WORDS[step % len(WORDS)]
        filters: tuple[tuple[dict[str, Any], Callable[[Memory], bool]], ...] = (
            ({"project": "api"}, lambda one: one.project == "api"),
            ({"tags": word}, lambda one: word in one.tags),
            ({"min_salience": 0.5}, lambda one: one.salience >= 0.5),
            ({"pinned": True}, lambda one: one.pinned),
            ({"fact_kind": "state"}, lambda one: any(fact.kind == "state" for fact in one.facts)),
            ({"since": self.times[0]}, lambda one: one.created_at >= self.times[0]),
            ({"until": self.times[0]}, lambda one: one.created_at < self.times[0]),
        )
        asked, passes = filters[step % len(filters)]
        passing = {id for id, one in expected.items() if passes(one)}
        assert set(everything(world.memory, as_of=at, **asked)) == passing, asked
        having = {id for id in passing if word in _words(expected[id])}
        assert found(world.memory, word, as_of=at, include_superseded=True, **asked) == having, asked

    def then(self, life: Life, moment: Moment, moments: list[Moment]) -> Memory:
        """What a memory said at a moment; one that was not written down yet, what it said first."""
        states = [state for one in moments if (state := one.state(life.id)) is not None]
        state = moment.state(life.id) if life.recorded <= moment.at else states[0]
        assert state is not None
        there = {fact.id for fact in states[-1].facts}  # what was removed has never been
        return _own(replace(state, facts=tuple(fact for fact in state.facts if fact.id in there)))

    def check_ties(self, world: World, id: str, memory: Memory, at: datetime) -> None:
        there = world.successions(id, at)
        assert memory.valid_until == (there[-1].start if there else None)
        assert (memory.superseded_by.id if memory.superseded_by else None) == world.successor(id, at)
        assert memory.related_count == world.count_links(id, at)

    def check_meaning(self, world: World, expected: dict[str, Memory], at: datetime) -> None:
        """Semantic search in the past compares what was said then."""


class LivesWithMeaning(Lives):
    """With vectors, so that those of old texts are compared, too."""

    embedder = HashingEmbedder

    def check_meaning(self, world: World, expected: dict[str, Memory], at: datetime) -> None:
        word = WORDS[self.times.index(at) % len(WORDS)]
        hits = world.memory.search(
            word, mode="semantic", limit=ALL, as_of=at, include_superseded=True, noise_floor=False
        )
        assert {hit.memory.id for hit in hits} == set(expected)
        for hit in hits:
            said = expected[hit.memory.id]
            text = f"{said.title}\n{said.content}" if said.title else said.content
            assert hit.similarity == pytest.approx(cosine(word, text), abs=2e-3)


def cosine(one: str, other: str) -> float:
    a, b = np.array(HashingEmbedder().embed([one, other]))
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def _words(memory: Memory) -> set[str]:
    texts = [memory.title or "", memory.content, *memory.tags, *(fact.text for fact in memory.facts)]
    return set(" ".join(texts).split())


def _settings(examples: int, steps: int) -> settings:
    """The short run is the same each time, so that it fails for who broke it; the long one looks for what is new."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=examples < LONG,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.parametrize(("examples", "steps"), [(12, 20), pytest.param(300, 40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("machine", [Lives, LivesWithMeaning])
def test_any_life_of_memories_keeps_every_index_true_and_can_be_asked_about_its_past(
    machine: type[Lives], examples: int, steps: int
) -> None:
    run_state_machine_as_test(machine, settings=_settings(examples, steps))


# What such lives have brought to light, each as small as it gets.


def moment() -> datetime:
    """Now; whatever happens next is later."""
    now = datetime.now(UTC)
    after(now)
    return now


def refused(memory: Memorist, old: Memory, new: Memory, at: datetime) -> bool:
    """Whether a supersession is refused: as good an answer, where what it would mean makes no sense."""
    try:
        memory.supersede(old.id, new.id, at=at)
    except InvalidInput:
        return True
    return False


class TestRelationsInThePast:
    def test_the_count_of_relations_is_that_of_the_time(self, memory: Memorist) -> None:
        one, other, newer = memory.add("a fox"), memory.add("a wolf"), memory.add("a zebra")
        memory.links.add(one.id, other.id, "about")
        then = moment()
        memory.supersede(other.id, newer.id)

        assert [each.memory.id for each in memory.related(one.id, as_of=then) if each.relation] == [other.id]
        assert memory.get(one.id, as_of=then).related_count == 1

    def test_what_was_similar_then_is_similar_to_what_it_said_then(self, memory: Memorist) -> None:
        one, like_then = memory.add("a fox"), memory.add("fox hunting")
        memory.add("zebra crossing")
        then = moment()
        memory.update(one.id, content="a zebra")

        assert [each.memory.id for each in memory.related(one.id, as_of=then)] == [like_then.id]

    def test_a_timeline_in_the_past_keeps_to_the_project_its_anchor_had(self, memory: Memorist) -> None:
        anchor = memory.add("a fox", project="api")
        beside = memory.add("a wolf", project="api")
        memory.add("a zebra", project="web")
        then = moment()
        memory.update(anchor.id, project="web")

        assert [one.id for one in memory.timeline(anchor=anchor.id, as_of=then)] == [anchor.id, beside.id]


class TestSupersessionInThePast:
    def test_an_undone_supersession_is_still_known_to_have_been(self, memory: Memorist) -> None:
        old, new = memory.add("we deploy on mondays"), memory.add("we deploy on fridays")
        memory.supersede(old.id, new.id)
        then = moment()
        memory.unsupersede(old.id)

        assert not memory.get(old.id).superseded
        assert memory.get(old.id, as_of=then).superseded_by is not None

    def test_a_later_word_on_what_replaced_a_memory_counts_for_the_past_as_well(self, memory: Memorist) -> None:
        old, first, second = memory.add("a fox"), memory.add("a wolf"), memory.add("a zebra")
        start = moment()
        memory.supersede(old.id, first.id)
        then = moment()
        memory.unsupersede(old.id)
        if refused(memory, old, second, start):
            return

        told = memory.get(old.id, as_of=then)

        assert told.valid_until == start
        assert told.superseded_by is not None
        assert told.superseded_by.id == second.id

    def test_two_memories_never_replaced_each_other_at_one_time(self, memory: Memorist) -> None:
        one, other = memory.add("a fox"), memory.add("a wolf")
        start = moment()
        memory.supersede(one.id, other.id)
        then = moment()
        memory.unsupersede(one.id)
        if refused(memory, other, one, start):
            return

        told = memory.list(as_of=then)

        assert [each.id for each in told if each.superseded_by and each.superseded_by.id == each.id] == []
        assert sum(each.superseded for each in told) <= 1

    def test_nothing_was_replaced_by_what_did_not_exist_yet(self, memory: Memorist) -> None:
        old, middle = memory.add("a fox"), memory.add("a wolf")
        memory.supersede(old.id, middle.id)
        then = moment()
        newest = memory.add("a zebra")
        memory.supersede(middle.id, newest.id)
        memory.forget(middle.id, hard=True)

        successor = memory.get(old.id).superseded_by
        assert successor is not None
        assert successor.id == newest.id
        with pytest.raises(NotFound, match="did not exist yet"):
            memory.get(newest.id, as_of=then)
        assert memory.get(old.id, as_of=then).superseded_by is None

    def test_a_memory_holds_until_the_time_from_which_it_is_superseded(self, memory: Memorist) -> None:
        old, new = memory.add("the office is in Bonn"), memory.add("the office is in Trier")
        if refused(memory, old, new, datetime.now(UTC) + timedelta(days=30)):
            return

        assert found(memory, "Bonn") == found(memory, "Bonn", as_of=datetime.now(UTC)) == {old.id}

    def test_no_interval_ends_before_it_begins(self, memory: Memorist, path: Path) -> None:
        old, new = memory.add("the office is in Bonn"), memory.add("the office is in Trier")
        if refused(memory, old, new, datetime.now(UTC) + timedelta(days=30)):
            return

        memory.unsupersede(old.id)

        assert read_column(path, "select count(*) from relations where valid_until < valid_from") == [0]


class TestStrengthInThePast:
    @pytest.fixture
    def unhurried(self, memory: Memorist, monkeypatch: pytest.MonkeyPatch) -> Memorist:
        """A memory that writes recalls when it is asked for them, and not before."""
        monkeypatch.setattr(recorder, "BATCH_DELAY", 60.0)
        return memory

    def test_a_recall_that_is_written_late_does_not_change_what_was_before_it(self, unhurried: Memorist) -> None:
        one = unhurried.add("a fox")
        then = moment()
        unhurried.search("fox", record="reinforce")
        unhurried.reinforce(one.id)
        unhurried.searches.list()  # now it is written

        assert unhurried.get(one.id, as_of=then).salience == one.salience

    def test_a_recall_that_is_written_late_does_not_undo_a_later_reinforcement(self, unhurried: Memorist) -> None:
        one = unhurried.add("a fox")
        unhurried.search("fox", record="reinforce")
        reinforced = unhurried.reinforce(one.id).reinforced_at
        unhurried.searches.list()

        assert unhurried.get(one.id).reinforced_at >= reinforced

    @pytest.mark.parametrize("filters", [{"session": "a session"}, {"recalled": True}])
    def test_what_was_recalled_later_had_not_been_recalled_then(
        self, memory: Memorist, filters: dict[str, Any]
    ) -> None:
        memory.add("a fox")
        memory.sessions.start(id="a session")
        then = moment()
        memory.search("fox", record="log", record_session="a session")
        memory.searches.list()

        assert len(memory.list(**filters)) == 1
        assert len(memory.list(as_of=then, **filters)) == 0


class TestExplanationsOfThePast:
    def test_what_was_found_was_not_held_back(self, memory: Memorist) -> None:
        one = memory.add("a fox", project="api")
        then = moment()
        memory.update(one.id, project="web")

        results = memory.search("fox", project="api", as_of=then)

        assert len(results) == 1
        assert results.hidden == {}

    def test_an_empty_page_of_the_past_is_explained(self, memory: Memorist) -> None:
        one = memory.add("a fox", project="api")
        then = moment()
        memory.update(one.id, project="web")

        results = memory.search("fox", project="web", as_of=then)

        assert len(results) == 0
        assert results.hidden == {"project": 1}

    def test_the_middle_of_a_timeline_lies_within_its_bounds(self, memory: Memorist) -> None:
        within = memory.add("a fox long ago", created_at="2020-01-01")
        memory.add("a fox, a fox, a fox")

        timeline = memory.timeline(query="a fox", start="2019-01-01", end="2021-01-01")

        assert [one.id for one in timeline] == [within.id]


class TestVectorsInThePast:
    def test_a_text_is_never_compared_by_the_vector_of_another(self, hashed: Memorist) -> None:
        one = hashed.add("red fox")
        then = moment()
        hashed.update(one.id, content="blue bird")
        hashed.reembed(HashingEmbedder("another model", 32))
        hashed.update(one.id, content="green frog")

        hits = hashed.search("blue bird", mode="semantic", as_of=then, min_similarity=0.9)

        assert [(hit.memory.content, hit.similarity) for hit in hits] == []


class TestSessionsAndBatches:
    def test_the_session_that_used_a_memory_last_is_its_context(self, memory: Memorist) -> None:
        one = memory.add("a fox")
        for session in ("first", "second"):
            memory.sessions.start(id=session)
        for session in ("first", "second", "first"):
            memory.search("fox", record="log", record_session=session)
            memory.searches.list()

        context = memory.sessions.context_of(one.id)

        assert context is not None
        assert context.session.id == "first"

    def test_a_merge_that_is_refused_has_written_nothing(self, memory: Memorist) -> None:
        one, other = memory.add("a red fox"), memory.add("the red fox")

        with pytest.raises(InvalidInput):
            memory.review.merge(one.id, [other.id, one.id])

        assert not memory.get(other.id).superseded

    def test_items_before_one_with_an_unknown_session_are_kept(self, memory: Memorist) -> None:
        with pytest.raises(NotFound, match="no session"):
            memory.add_many(["one", {"content": "two", "session": "unknown"}, "three"])

        assert [one.content for one in memory.list()] == ["one"]

    def test_a_session_is_known_by_a_part_of_its_id_wherever_one_is_named(self, memory: Memorist) -> None:
        session = memory.sessions.start()
        assert memory.sessions.get(session.id[-8:]) == session

        added = memory.add("a fox", session=session.id[-8:])

        assert added.session is not None
        assert added.session.id == session.id
