"""Ctrl-C at any moment: the operation ends, and neither this process nor another is held up or misled afterwards."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import pytest

import memorist
from conftest import HashingEmbedder
from memorist import Memorist

SOURCES = str(Path(memorist.__file__).parent)
Verb = Callable[[Memorist, Path, str], object]
VERBS: dict[str, Verb] = {
    "add": lambda memory, path, text: memory.add(text, tags=["new"], facts=[text]),
    "add_many": lambda memory, path, text: memory.add_many([text, f"{text} again"]),
    "add_turn": lambda memory, path, text: memory.add_turn("user", text, conversation="talk"),
    "update": lambda memory, path, text: memory.update(memory.add(text).id, content=f"{text} again"),
    "forget": lambda memory, path, text: memory.forget(memory.add(text).id),
    "forget for good": lambda memory, path, text: memory.forget(memory.add(text).id, hard=True),
    "supersede": lambda memory, path, text: memory.supersede(memory.add(text).id, memory.add(f"{text}, or not").id),
    "relate": lambda memory, path, text: memory.relate(last(memory), memory.add(text).id, "about"),
    "pin": lambda memory, path, text: memory.pin(last(memory)),
    "feedback": lambda memory, path, text: memory.feedback(last(memory), True, query="live"),
    "start_session": lambda memory, path, text: memory.end_session(memory.start_session().id, text),
    "set_lens": lambda memory, path, text: memory.set_lens("mine", project=text),
    "create_file": lambda memory, path, text: memory.create_file(f"/{text}.md", text),
    "search": lambda memory, path, text: memory.search("live well", explain=True),
    "search by words": lambda memory, path, text: memory.search("live", mode="keyword"),
    "get": lambda memory, path, text: memory.get(last(memory)),
    "list": lambda memory, path, text: memory.list(limit=5),
    "timeline": lambda memory, path, text: memory.timeline(limit=5),
    "related": lambda memory, path, text: memory.related(last(memory)),
    "context": lambda memory, path, text: memory.context("live"),
    "facets": lambda memory, path, text: memory.facets(),
    "stats": lambda memory, path, text: memory.stats(),
    "export": lambda memory, path, text: memory.export(path.with_suffix(".jsonl")),
    "index": lambda memory, path, text: memory.index(notes(path, text)),
    "open": lambda memory, path, text: open_memory(path).close(),
}


def open_memory(path: Path) -> Memorist:
    return memorist.open(path, embedder=HashingEmbedder(), busy_timeout=1)


def last(memory: Memorist) -> str:
    return memory.list(limit=1)[0].id


def notes(path: Path, text: str) -> Path:
    folder = path.parent / "notes"
    folder.mkdir(exist_ok=True)
    (folder / "note.md").write_text(text)
    return folder


class Interrupt:
    """Raises KeyboardInterrupt before the bytecode of our sources that has a given number; counts them all."""

    def __init__(self, at: int = -1) -> None:
        self.at, self.count = at, 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> "Interrupt | None":
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.count += 1
        if self.count == self.at:
            raise KeyboardInterrupt
        return self


@contextmanager
def tracing(interrupt: Interrupt) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("tries", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_an_interrupt_at_any_moment_leaves_a_memory_that_works(name: str, tries: int, path: Path) -> None:
    verb, chosen, kept = VERBS[name], random.Random(name), []
    with open_memory(path) as memory, memorist.open(path, embedder="none", busy_timeout=0.5) as other:
        memory.add_many(f"we live well in house {number}" for number in range(20))
        verb(memory, path, f"{name} for the first time")  # which loads more than later ones
        with tracing(counter := Interrupt()):
            verb(memory, path, f"{name} to count by")
        for number in range(tries):
            try:
                with tracing(Interrupt(chosen.randrange(1, counter.count + 1))):
                    verb(memory, path, f"{name} {number}")
            except KeyboardInterrupt as exc:
                kept.append(exc)  # as a notebook keeps it, and with it the frames and all they hold
            memory.add(f"written here after {number}")
            theirs = other.add(f"written elsewhere after {number}")
            assert memory.get(theirs.id).content == theirs.content
        assert len(kept) > tries / 2
        memory.reembed()
        report = memory.check()
    assert report.ok, report.problems
    written = apsw.Connection(str(path)).execute("select count(*) from memories where content glob 'written * after *'")
    assert written.get == 2 * tries
