"""
A system that is measured, in a process of its own: `compare.py` tells it by lines of JSON what to do.

Each module beside this one has a subclass of `System` and ends with `serve(...)`. It runs in an environment that has
the system's packages and numpy, and nothing of Memorist. A question's time is taken here, around the one call that a
user would make, with the vectors ready on both sides; what turns the answer into numbers of rows is not timed.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

BATCH = 5_000  # rows written at a time
HITS = 10
DIMENSIONS = 384
MEGABYTE = 1_000_000


class Row(NamedTuple):
    """A text to keep, with its vector and two fields to filter by, which 10 % and .1 % of the rows share."""

    number: int
    text: str
    vector: Any

    @property
    def tenth(self) -> str:
        return f"t{self.number % 10}"

    @property
    def thousandth(self) -> str:
        return f"p{self.number % 1000}"


Question = Row  # searched by its text and vector, and, where filtered, among the rows with the same field


class Data:
    """The rows and questions that `compare.py` has written into a folder."""

    def __init__(self, folder: Path) -> None:
        self.texts: list[str] = json.loads((folder / "texts.json").read_text("utf-8"))
        self.vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        texts = json.loads((folder / "questions.json").read_text("utf-8"))
        vectors = np.load(folder / "question-vectors.npy")
        self.questions = [Question(number, text, vectors[number]) for number, text in enumerate(texts)]

    def rows(self, start: int, stop: int) -> list[Row]:
        return list(map(Row, range(start, stop), self.texts[start:stop], np.array(self.vectors[start:stop])))

    def batches(self, count: int, size: int = BATCH) -> Iterator[list[Row]]:
        for start in range(0, count, size):
            yield self.rows(start, min(start + size, count))


class System:
    """One way to keep and find the rows. Its folder is empty at first."""

    package: str
    imports: str  # the module whose import a user waits for
    batch = BATCH
    efforts: Sequence[int] = ()  # of an approximate index, from the default on: the least with a recall of .95 is taken
    is_durable = True  # what `add` and `write` return from survives a power cut
    takes_single_rows = True
    shares_processes = True  # several processes may search its folder at a time

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self) -> None:
        """Open what the folder holds."""

    def write(self, rows: Sequence[Row]) -> None:
        """Keep a batch of rows."""
        raise NotImplementedError

    def finish(self) -> None:
        """Make the indexes that are not made while writing."""

    def add(self, row: Row) -> None:
        """Keep one row, durably if the system can do that."""
        self.write([row])

    def set_effort(self, effort: int) -> None:
        """Look at more of an approximate index."""

    def settle(self, questions: Sequence[Question]) -> None:
        """Let what is made beside the first searches be done."""

    def searches(self) -> dict[str, Callable[[Question], Any]]:
        """
        Return the searches that the system has, each one call.

        "hybrid", "words" and "meaning", and filtered ones: "hybrid, 10 %", "hybrid, .1 %", "meaning, 10 %", ...
        """
        raise NotImplementedError

    def numbers(self, answer: Any) -> list[int]:
        """Return the rows' numbers in an answer, best first."""
        raise NotImplementedError


def serve(system: type[System]) -> None:
    """Do what the lines of standard input ask for, and answer each with a line."""
    output, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    _, data_folder, folder, *once = sys.argv
    if once:
        _search_once(system(Path(folder)), *once)
        print("{}", file=output)
        return
    servant = _Servant(system(Path(folder)), Data(Path(data_folder)))
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        print(json.dumps(getattr(servant, command)(*arguments)), file=output, flush=True)


def _search_once(system: System, search: str, text: str, vector_file: str) -> None:
    """Answer one question as a new process would."""
    system.open()
    question = Question(0, text, np.load(vector_file))
    if not system.numbers(system.searches()[search](question)):
        raise SystemExit("Error: the first search of a new process found nothing")


class _Servant:
    def __init__(self, system: System, data: Data) -> None:
        self._system, self._data = system, data
        self._searches: dict[str, Callable[[Question], Any]] = {}

    def describe(self) -> dict[str, Any]:
        system = self._system
        return {
            "version": version(system.package),
            "imports": system.imports,
            "efforts": list(system.efforts),
            "durable": system.is_durable,
            "takes_single_rows": system.takes_single_rows,
            "shares_processes": system.shares_processes,
        }

    def load(self, count: int) -> dict[str, Any]:
        """Write the rows and make the indexes; return the seconds of each, without the reading of the data."""
        seconds = 0.0
        batches: Iterable[list[Row]] = self._data.batches(count, self._system.batch)
        started = time.perf_counter()
        self._system.open()
        seconds += time.perf_counter() - started
        for rows in batches:
            started = time.perf_counter()
            self._system.write(rows)
            seconds += time.perf_counter() - started
        started = time.perf_counter()
        self._system.finish()
        return {"write": seconds, "index": time.perf_counter() - started}

    def open(self) -> dict[str, Any]:
        self._system.open()
        return {}

    def list_searches(self) -> list[str]:
        self._searches = self._system.searches()
        return list(self._searches)

    def set_effort(self, effort: int) -> dict[str, Any]:
        self._system.set_effort(effort)
        return {}

    def settle(self, start: int, count: int) -> dict[str, Any]:
        self._system.settle(self._data.questions[start : start + count])
        return {}

    def search(self, name: str, start: int, count: int) -> dict[str, Any]:
        """Answer a block of questions; return the milliseconds of each and the rows found."""
        search, took, found = self._searches[name], [], []
        for question in self._data.questions[start : start + count]:
            started = time.perf_counter()
            answer = search(question)
            took.append((time.perf_counter() - started) * 1000)
            found.append(self._system.numbers(answer)[:HITS])
        return {"took": took, "found": found}

    def search_in_threads(self, name: str, threads: int, start: int, count: int) -> dict[str, Any]:
        """Answer a block of questions by several threads; return the seconds for all."""
        questions = self._data.questions[start : start + count]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(self._searches[name], questions[:threads]))
            started = time.perf_counter()
            list(pool.map(self._searches[name], questions))
            return {"seconds": time.perf_counter() - started}

    def add(self, start: int, count: int) -> dict[str, Any]:
        """Add rows one by one; return the milliseconds of each."""
        took = []
        for row in self._data.rows(start, start + count):
            started = time.perf_counter()
            self._system.add(row)
            took.append((time.perf_counter() - started) * 1000)
        return {"took": took}

    def measure_use(self) -> dict[str, Any]:
        """Return the megabytes of this process, and of the files."""
        files = [path for path in self._system.folder.rglob("*") if path.is_file()]
        return {"memory": _resident_bytes() / MEGABYTE, "files": sum(map(os.path.getsize, files)) / MEGABYTE}


def _resident_bytes() -> int:
    """Return the memory of this process without pages of files, which the system may take back."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("Error: memory is measured on Linux only")
