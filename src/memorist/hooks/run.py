"""What went wrong in a hook, in a file of limited size: an agent has no place to show it, and must not be stopped.

A hook from its event to its answer: one call of the engine, within a time limit.

Whatever goes wrong is written to a log, and the agent goes on as if nothing had been asked: with no memory it is worse
off than with one, but better off than stopped.
"""

import os
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self

from memorist.config import LoadedSettings, names_a_file, nothing_at
from memorist.errors import InvalidInput, MemoristError
from memorist.hooks import events
from memorist.hooks.events import ASK, BEGIN, SAVE, Event
from memorist.hooks.pending import Note, PendingWork, Unsaved

MAX_SIZE = 256 * 1024  # bytes; then it becomes the old log, in the place of the one before


class Log:
    """A log that never raises."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def error(self, event: str, error: BaseException) -> None:
        """One line for what is foreseen; for anything else, where it came from, too."""
        self.write(event, f"{type(error).__name__}: {error}")
        if not isinstance(error, MemoristError):
            self._append("".join(traceback.format_exception(error)))

    def write(self, event: str, message: str) -> None:
        line = " ".join(message.split())
        self._append(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {event} (process {os.getpid()}) {line}\n")

    def _append(self, text: str) -> None:
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self._file.exists() and self._file.stat().st_size > MAX_SIZE:
                self._file.replace(self._file.with_name(self._file.name + ".old"))
            with self._file.open("a", encoding="utf-8", errors="backslashreplace") as out:
                out.write(text)


LOG = "hooks.log"
LATER = "later"  # not a client's event: what hooks left undone, done in a process of its own
FORMAT = "claude-code"  # whose transcripts are saved
COMPACTED = b'"compact_boundary"'  # in a transcript: from here on, the model knows a summary of what was said before
BUDGETS = (1500, 700)  # tokens; the second where the first is too long for the client
# Seconds. Clients end a hook after their own limit, which is longer; but at the end of a session, Claude Code gives all
# hooks together 1.5 s, unless the user's settings allow for more.
LIMIT, LIMITS = 5.0, {"SessionEnd": 1.0, LATER: 900.0}


class Workspace(Protocol):
    """The settings that hold in a folder, and the memory they name."""

    @property
    def loaded(self) -> LoadedSettings: ...
    @property
    def target(self) -> str: ...
    def within(self, folder: Path, arguments: Mapping[str, Any] | None = None) -> Self: ...
    def open(self, *, create: bool = False, embedder: str | None = None) -> Any: ...


@dataclass(frozen=True, slots=True)
class Hook:
    """A call of a hook: which event, what with, and where."""

    name: str
    given: BinaryIO
    here: Workspace
    state: Path  # where the user's programs keep what is neither data nor settings
    root: str | None  # the project's folder, where the client says it
    worker: Sequence[str]  # the command that does LATER

    def run(self) -> str:
        """What to print: an answer in the client's own form, or nothing."""
        log, notes = Log(self.state / LOG), PendingWork(self.state)
        limit = LIMITS.get(self.name, LIMIT)
        try:
            with _Limit(limit, lambda: self._out_of_time(log, notes, limit)):
                if self.name == LATER:
                    self._later(notes, log)
                    return ""
                event = events.read(self.name, self.given.read(), self.root)
                context = self._answered(event, notes, log)
            return events.answer(event.name, context) if context else ""
        except Exception as exc:
            log.error(self.name, exc)
            return ""

    def _answered(self, event: Event, notes: PendingWork, log: Log) -> str:
        """What the model is to know; for an event that has no such thing, nothing."""
        place = self.here if event.folder is None else self.here.within(event.folder)
        if event.moment != ASK and place.loaded.passed_over:  # said when a session begins, not with each prompt
            log.write(self.name, place.loaded.passed_over)
        if event.moment == SAVE:
            self._save(event, place, notes)
            return ""
        if event.moment == BEGIN and any(notes.all()):
            self._start_worker()
        if event.moment == ASK and event.prompt is None:
            return ""
        if nothing_at(Path(place.target)):  # before the engine is imported to find the same
            return ""
        project = _project(event, place)
        if event.moment == BEGIN:
            with place.open(embedder="none") as memory:  # no question, so no model
                return _fitting(lambda budget: memory.briefing(project=project, budget=budget))
        known = _known_session(event)
        with place.open() as memory:
            return _fitting(
                lambda budget: memory.context(
                    event.prompt,
                    project=project,
                    session=known,
                    budget=budget,
                    core=False,  # which the session began with
                )
            )

    def _save(self, event: Event, place: Workspace, notes: PendingWork) -> None:
        """The turns are written down at once, to be found by their words; their vectors are made by another process."""
        if event.transcript is None or not event.transcript.is_file():  # a session in which nothing was said
            return
        if not names_a_file(place.target):  # nothing would be left of it
            return
        where = {"database": os.path.abspath(place.target), "namespace": place.loaded.settings.namespace}
        folder = None if event.folder is None else str(event.folder)
        note = notes.add(Unsaved(str(event.transcript), folder, _project(event, place), where))
        done = False
        try:
            _take(place, note, embedder="none")
            done = place.loaded.settings.embedder == "none"
        except InvalidInput:  # no conversation is in it, and none will be
            done = True
            raise
        finally:
            if done:
                note.remove()
            else:
                self._start_worker()

    def _later(self, notes: PendingWork, log: Log) -> None:
        """Everything that is noted, whichever session it is of."""
        if hasattr(os, "nice"):
            os.nice(10)  # somebody is at work on this machine
        tried: set[tuple[Path, int]] = set()

        def untried() -> list[Note]:
            return [note for note in notes.all() if (note.file, note.written) not in tried]

        while untried():
            with notes.alone() as alone:
                if not alone:
                    return  # whoever is at work looks once more before it ends
                for note in untried():
                    tried.add((note.file, note.written))
                    self._finish(note, log)

    def _finish(self, note: Note, log: Log) -> None:
        if note.old:
            note.remove()  # this is the last time, whatever comes of it
        place = self.here.within(Path(note.unsaved.folder or "."), note.unsaved.arguments)
        try:
            _take(place, note, embedder="none")  # all of the text before the first vector
            if place.loaded.settings.embedder != "none":
                _take(place, note)
        except Exception as exc:
            log.error(LATER, exc)
            if not isinstance(exc, InvalidInput):
                return  # the database is locked, say: another time
        note.remove()

    def _out_of_time(self, log: Log, notes: PendingWork, limit: float) -> None:
        log.write(self.name, f"not done in {limit:g} s; the agent goes on without")
        if events.EVENTS.get(self.name) == SAVE and any(notes.all()):
            self._start_worker()

    def _start_worker(self) -> None:
        """In a session of its own, so that it outlives the program that called the hook."""
        import subprocess  # which a hook that only reads does without

        nothing = subprocess.DEVNULL
        flags = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        subprocess.Popen(
            self.worker, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True, creationflags=flags
        )


class _Limit:
    """Ends the process, as if all were well, when a block takes too long: whatever it is that hangs."""

    def __init__(self, seconds: float, before: Callable[[], None]) -> None:
        self._before = before
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *details: object) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        try:
            self._before()
        finally:
            os._exit(0)  # nothing is lost: what is committed stays, and what is not is as if it had never begun


def _project(event: Event, place: Workspace) -> str | None:
    """As it is set for the folder, or else as an import of the session's transcript calls it."""
    from memorist.importers.transcript_formats import project_in

    return place.loaded.settings.project or (project_in(str(event.folder)) if event.folder else None)


def _known_session(event: Event) -> str | None:
    """The session under way, as long as all that was said in it is before the model."""
    if event.session is None or event.transcript is None or not event.transcript.is_file():
        return None
    with event.transcript.open("rb") as lines:
        compacted = any(COMPACTED in line for line in lines)
    return None if compacted else f"{FORMAT}:{event.session}"


def _take(place: Workspace, note: Note, embedder: str | None = None) -> None:
    unsaved = note.unsaved
    if not Path(unsaved.transcript).is_file():  # before a database is made for it
        raise InvalidInput(f"{unsaved.transcript} is gone")
    with place.open(create=True, embedder=embedder) as memory:
        memory.import_conversations(unsaved.transcript, format=FORMAT, project=unsaved.project)


def _fitting(made: Callable[[int], str]) -> str:
    """A text that a client takes whole, or none."""
    for budget in BUDGETS:
        if len(text := made(budget)) <= events.MAX_ANSWER:
            return text
    return ""
