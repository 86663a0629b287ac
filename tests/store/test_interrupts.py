"""Ctrl-C at any moment: the operation ends, and neither this process nor another is held up or misled afterwards."""

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

import memorist
from conftest import HashingEmbedder
from memorist import Memorist

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers that interrupt"),
    # What was being opened is left to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Verb = Callable[[Memorist, Path, str], object]
VERBS: dict[str, Verb] = {
    "add": lambda memory, path, text: memory.add(text, tags=["new"], facts=[text]),
    "add_many": lambda memory, path, text: memory.add_many([text, f"{text} again"]),
    "add_turn": lambda memory, path, text: memory.sessions.add_turn("user", text, conversation="talk"),
    "update": lambda memory, path, text: memory.update(memory.add(text).id, content=f"{text} again"),
    "forget": lambda memory, path, text: memory.forget(memory.add(text).id),
    "forget for good": lambda memory, path, text: memory.forget(memory.add(text).id, hard=True),
    "supersede": lambda memory, path, text: memory.supersede(memory.add(text).id, memory.add(f"{text}, or not").id),
    "relate": lambda memory, path, text: memory.links.add(last(memory), memory.add(text).id, "about"),
    "pin": lambda memory, path, text: memory.pin(last(memory)),
    "feedback": lambda memory, path, text: memory.searches.add_feedback(last(memory), True, query="live"),
    "start_session": lambda memory, path, text: memory.sessions.end(memory.sessions.start().id, text),
    "set_lens": lambda memory, path, text: memory.lenses.set("mine", project=text),
    "create_file": lambda memory, path, text: memory.files.create(f"/{text}.md", text),
    "search": lambda memory, path, text: memory.search("live well", explain=True),
    "search by words": lambda memory, path, text: memory.search("live", mode="keyword"),
    "get": lambda memory, path, text: memory.get(last(memory)),
    "list": lambda memory, path, text: memory.list(limit=5),
    "timeline": lambda memory, path, text: memory.timeline(limit=5),
    "related": lambda memory, path, text: memory.related(last(memory)),
    "context": lambda memory, path, text: memory.context("live"),
    "facets": lambda memory, path, text: memory.facets(),
    "stats": lambda memory, path, text: memory.stats(),
    "export": lambda memory, path, text: memory.transfer.export(path.with_suffix(".jsonl")),
    "index": lambda memory, path, text: memory.documents.index(notes(path, text)),
    "open": lambda memory, path, text: open_memory(path).close(),
}


def open_memory(path: Path) -> Memorist:
    return memorist.open(path, embedder=HashingEmbedder(), busy_timeout=5)


def last(memory: Memorist) -> str:
    return memory.list(limit=1)[0].id


def notes(path: Path, text: str) -> Path:
    folder = path.parent / "notes"
    folder.mkdir(exist_ok=True)
    (folder / "note.md").write_text(text)
    return folder


@pytest.fixture
def interrupt_after() -> Iterator[Callable[[float], None]]:
    """Gives a function that has this thread interrupted after some seconds, as Ctrl-C does; 0 calls it off."""

    def raise_interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, raise_interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds) and None
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("tries", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_an_interrupt_at_any_moment_leaves_a_memory_that_works(
    name: str, tries: int, path: Path, interrupt_after: Callable[[float], None]
) -> None:
    verb, chosen, kept = VERBS[name], random.Random(name), []
    with open_memory(path) as memory, memorist.open(path, embedder="none", busy_timeout=5) as other:
        memory.add_many(f"we live well in house {number}" for number in range(20))
        verb(memory, path, f"{name} for the first time")  # which loads more than later ones
        started = time.perf_counter()
        verb(memory, path, f"{name} to measure by")
        longest = time.perf_counter() - started
        for number in range(tries):
            try:
                interrupt_after(max(1e-6, chosen.uniform(0, longest)))
                verb(memory, path, f"{name} {number}")
                interrupt_after(0)
            except KeyboardInterrupt as exc:
                kept.append(exc)  # as a notebook keeps it, and with it the frames and all they hold
            memory.add(f"written here after {number}")
            theirs = other.add(f"written elsewhere after {number}")
            assert memory.get(theirs.id).content == theirs.content
        assert kept
        memory.reembed()
        report = memory.check()
    assert report.ok, report.problems
    written = apsw.Connection(str(path)).execute("select count(*) from memories where content glob 'written * after *'")
    assert written.get == 2 * tries
