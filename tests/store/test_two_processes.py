"""Two processes on one file, in any order of operations: after each step both say what a plain model says."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from subprocess import Popen
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from processes import expect, read_line, send_line, start_program
from simulated_disk import IN_MEMORY

WORDS = ("anchor", "cactus", "comet", "ember", "fox", "violin")  # none is the stem or a part of another
LONG = 30  # examples; from here on a run looks for what is new instead of repeating itself
SERVANT = """
    import json, sys, memorist
    from conftest import HashingEmbedder
    from memorist import MemoristError

    def open_memory(path):
        return memorist.open(path, embedder=HashingEmbedder())

    def describe(word, text):
        pages = [memory.list(limit=1000, deleted=deleted) for deleted in (False, True)]
        nearest = memory.search(text, mode="semantic", limit=1000) if text else []
        return {
            "memories": {
                one.id: [one.content, list(one.tags), one.pinned, deleted, one.superseded_by and one.superseded_by.id]
                for deleted, page in enumerate(pages) for one in page},
            "found": sorted(hit.memory.id for hit in memory.search(word, mode="keyword", limit=1000)),
            "near": text in [hit.memory.content for hit in nearest],
        }

    memory = None
    print("ready", flush=True)
    while order := sys.stdin.readline():
        verb, arguments, options = json.loads(order)
        try:
            if verb == "open":
                if memory:
                    memory.close()
                memory, answer = open_memory(*arguments), None
            elif verb == "describe":
                answer = describe(*arguments)
            elif verb == "check":
                answer = memory.check().problems
            else:
                answer = getattr(memory, verb)(*arguments, **options)
            print(json.dumps(getattr(answer, "id", answer)), flush=True)
        except MemoristError as exc:
            print(json.dumps({"refused": type(exc).__name__}), flush=True)
"""


class Servant:
    """A memory in another process."""

    def __init__(self, process: "Popen[str]") -> None:
        self._process = process

    def tell(self, verb: str, *arguments: object, **options: object) -> None:
        send_line(self._process, json.dumps([verb, arguments, options]))

    def answer(self) -> Any:
        said = read_line(self._process)
        try:
            return json.loads(said)
        except ValueError:
            self._process.kill()
            pytest.fail(f"a process failed: {said}\n{self._process.communicate()[0]}")

    def __call__(self, verb: str, *arguments: object, **options: object) -> Any:
        self.tell(verb, *arguments, **options)
        return self.answer()


@dataclass
class Known:
    """What a memory should be."""

    content: str
    tags: tuple[str, ...] = ()
    pinned: bool = False
    deleted: bool = False
    superseded_by: str | None = None

    @property
    def is_current(self) -> bool:
        return not self.deleted and self.superseded_by is None


class TwoProcesses(RuleBasedStateMachine):
    """Each rule lets one of both do something, chosen at random as are the memories it is done to."""

    servants: ClassVar[tuple[Servant, Servant]]
    number = st.integers(0, 1000)

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(dir=IN_MEMORY)
        self._path = str(Path(self._folder.name) / "memory.db")
        for servant in self.servants:
            servant("open", self._path)
        self._known: dict[str, Known] = {}
        self._texts, self._steps = count(), 0

    def teardown(self) -> None:
        assert [servant("check") for servant in self.servants] == [[], []]
        for servant in self.servants:
            servant("open", ":memory:")
        self._folder.cleanup()

    def _choose(self, number: int, *, deleted: bool = False, linked: bool | None = None) -> str:
        """One of the memories that are current, or forgotten; with or without others that it replaced."""
        replacing = {known.superseded_by for known in self._known.values()}
        chosen = [id for id, known in self._known.items() if known.deleted == deleted and known.superseded_by is None]
        chosen = [id for id in chosen if linked is None or (id in replacing) == linked]
        return chosen[number % len(chosen)]

    def _count(self, *, deleted: bool = False, linked: bool | None = None) -> int:
        replacing = {known.superseded_by for known in self._known.values()}
        known = [(id in replacing, one) for id, one in self._known.items()]
        return sum(
            one.deleted == deleted and one.superseded_by is None and linked in (None, is_linked)
            for is_linked, one in known
        )

    def _find_last(self, known: Known) -> str | None:
        """The memory that holds in the place of a superseded one: the last of those that replaced each other."""
        id = known.superseded_by
        while id and (later := self._known[id].superseded_by):
            id = later
        return id

    def _new_text(self, words: list[str]) -> str:
        return f"{' '.join(words)} number{next(self._texts)}"

    @rule(by=st.integers(0, 1), words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
    def add(self, by: int, words: list[str]) -> None:
        text = self._new_text(words)
        self._known[self.servants[by]("add", text, tags=["new"])] = Known(text, ("new",))

    @rule(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
    def add_in_both_at_once(self, words: list[str]) -> None:
        texts = [self._new_text(words) for _ in self.servants]
        for servant, text in zip(self.servants, texts, strict=True):
            servant.tell("add", text)
        for servant, text in zip(self.servants, texts, strict=True):
            self._known[servant.answer()] = Known(text)

    @rule(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
    def add_the_same_in_both_at_once(self, words: list[str]) -> None:
        text = self._new_text(words)
        for servant in self.servants:
            servant.tell("add", text)
        ids = {servant.answer() for servant in self.servants}
        assert len(ids) == 1
        self._known[ids.pop()] = Known(text)

    @precondition(lambda self: self._count())
    @rule(by=st.integers(0, 1), number=number)
    def add_what_is_known(self, by: int, number: int) -> None:
        id = self._choose(number)
        assert self.servants[by]("add", self._known[id].content) == id

    @precondition(lambda self: self._count())
    @rule(by=st.integers(0, 1), number=number, words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
    def update(self, by: int, number: int, words: list[str]) -> None:
        id, text = self._choose(number), self._new_text(words)
        self.servants[by]("update", id, content=text, tags=words[:1])
        self._known[id].content, self._known[id].tags = text, tuple(words[:1])

    @precondition(lambda self: self._count())
    @rule(by=st.integers(0, 1), number=number, pinned=st.booleans())
    def pin(self, by: int, number: int, pinned: bool) -> None:
        id = self._choose(number)
        self.servants[by]("pin" if pinned else "unpin", id)
        self._known[id].pinned = pinned

    @precondition(lambda self: self._count(linked=False))
    @rule(by=st.integers(0, 1), number=number, hard=st.booleans())
    def forget(self, by: int, number: int, hard: bool) -> None:
        id = self._choose(number, linked=False)
        self.servants[by]("forget", id, hard=hard)
        self._known[id].deleted = True
        if hard:
            del self._known[id]

    @precondition(lambda self: self._count(linked=False))
    @rule(number=number)
    def forget_in_both_at_once(self, number: int) -> None:
        """One of both comes first; the other is told that there is no such memory any more."""
        id = self._choose(number, linked=False)
        for servant in self.servants:
            servant.tell("forget", id)
        answers = [servant.answer() for servant in self.servants]
        assert sorted(answers, key=str) == [None, {"refused": "NotFound"}]
        self._known[id].deleted = True

    @precondition(lambda self: self._count(deleted=True))
    @rule(by=st.integers(0, 1), number=number)
    def restore(self, by: int, number: int) -> None:
        id = self._choose(number, deleted=True)
        assert self.servants[by]("restore", id) == id
        self._known[id].deleted = False

    @precondition(lambda self: self._count() > 1)
    @rule(by=st.integers(0, 1), number=number)
    def supersede(self, by: int, number: int) -> None:
        old, new = self._choose(number), self._choose(number + 1)
        self.servants[by]("supersede", old, new)
        self._known[old].superseded_by = new

    @precondition(lambda self: any(known.superseded_by for known in self._known.values()))
    @rule(by=st.integers(0, 1), number=number)
    def unsupersede(self, by: int, number: int) -> None:
        superseded = [id for id, known in self._known.items() if known.superseded_by]
        id = superseded[number % len(superseded)]
        self.servants[by]("unsupersede", id)
        self._known[id].superseded_by = None

    @rule(by=st.integers(0, 1))
    def purge(self, by: int) -> None:
        gone = [id for id, known in self._known.items() if known.deleted]
        assert self.servants[by]("purge") == len(gone)
        for id in gone:
            del self._known[id]

    @rule(by=st.integers(0, 1))
    def open_again(self, by: int) -> None:
        self.servants[by]("open", self._path)

    @invariant()
    def both_say_what_the_model_says(self) -> None:
        self._steps += 1
        current = {id: known for id, known in self._known.items() if known.is_current}
        word = WORDS[self._steps % len(WORDS)]
        text = next(iter(current.values())).content if current else ""
        expected = {
            "memories": {
                id: [known.content, list(known.tags), known.pinned, known.deleted, self._find_last(known)]
                for id, known in self._known.items()
            },
            "found": sorted(id for id, known in current.items() if word in f"{known.content} {known.tags}"),
            "near": bool(text),
        }
        for servant in self.servants:
            servant.tell("describe", word, text)
        assert [servant.answer() for servant in self.servants] == [expected, expected]


@pytest.fixture(scope="module")
def servants() -> Iterator[tuple[Servant, Servant]]:
    with ExitStack() as stack:
        processes = [stack.enter_context(start_program(SERVANT)) for _ in range(2)]
        expect("ready", processes)
        yield Servant(processes[0]), Servant(processes[1])


@pytest.mark.parametrize(("examples", "steps"), [(5, 15), pytest.param(100, 40, marks=pytest.mark.slow)])
def test_two_processes_agree_after_any_operation_of_either(
    servants: tuple[Servant, Servant], examples: int, steps: int
) -> None:
    TwoProcesses.servants = servants
    options = settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=examples < LONG,
        database=None,
        phases=[Phase.generate],  # two processes answer too slowly to look for the shortest run that fails
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(TwoProcesses, settings=options)
