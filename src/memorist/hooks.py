"""
Hooks: from an event of an agent's client to the answer in the form it expects, one call of the engine in a time limit.

Claude Code and Codex share one form; Gemini CLI has it too, with event names of its own; Cursor has another. A failure
is written to a log, and the agent goes on without an answer: an agent without memory is worse off than one with it, but
better off than one that was stopped.

The program that called a hook may end at any moment. A conversation that is still to be saved, or still without
vectors, is noted down, and another process finishes it; if that is stopped as well, the next session starts one more.
After some days, a note is given up.
"""

import json
import os
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self

from msgspec import Struct
from msgspec.structs import asdict

from memorist.atomic_file import lock_file, make_folder, write_atomically
from memorist.config import LoadedSettings, is_file_path, is_missing_or_empty, is_server
from memorist.errors import InvalidInput, MemoristError

# Events and answers

BRIEF, RECALL, SAVE = "brief", "recall", "save"
ACTIONS: Mapping[str, str] = {  # by a client's name of the event
    "SessionStart": BRIEF,
    "UserPromptSubmit": RECALL,
    "PreCompact": SAVE,
    "SessionEnd": SAVE,
    "BeforeAgent": RECALL,  # Gemini CLI
    "PreCompress": SAVE,
    "sessionStart": BRIEF,  # Cursor
}
MAX_ANSWER_CHARACTERS = 10_000  # Claude Code writes a longer one to a file, and shows the model only its beginning

_MACHINE_SOURCES = ("system", "poll_event")  # prompts that no person typed: notifications, messages of other agents
_COMMAND = re.compile(r"/[\w:.-]+(?:\s|$)")  # but not a path, in which another slash follows
_WORDS = re.compile(r"\w+")
_MIN_QUESTION_LETTERS = 4  # of the Latin alphabet
_ASSENT_WORDS = frozenset(
    """
    a again ahead all alright and both continue cool correct do done exactly fine first for go good great i it just keep
    know lgtm like looks me more much nah neither next nice no nope not now ok okay on one perfect please proceed really
    right second so stop sure thank thanks that the then third this too try two up very wait well works yeah yep yes you
    """.split()
)


class Event(Struct, frozen=True):
    """An event of a session, with what the client says about it."""

    name: str
    folder: Path | None = None
    prompt: str | None = None
    session: str | None = None
    transcript: Path | None = None

    @property
    def action(self) -> str:
        return ACTIONS[self.name]


def parse_event(name: str, data: bytes, root: str | None = None) -> Event:
    """Return an event as a client sends it; `root` is the project's folder, if the client's environment names it."""
    if name not in ACTIONS:
        raise InvalidInput(f"there is no event {name!r}; the events are: {', '.join(ACTIONS)}")
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"the input of {name} is not JSON: {exc}") from exc
    if not isinstance(fields, dict):
        raise InvalidInput(f"the input of {name} is not a JSON object")
    roots = fields.get("workspace_roots")  # Cursor
    folder = root or _get_text(fields, "cwd") or (_find_text(roots) if isinstance(roots, list) else None)
    prompt, transcript = _get_text(fields, "prompt"), _get_text(fields, "transcript_path")
    if fields.get("source") in _MACHINE_SOURCES:
        prompt = None
    return Event(
        name,
        folder=Path(folder).expanduser().absolute() if folder else None,
        prompt=prompt if prompt and _is_question(prompt) else None,
        session=_get_text(fields, "session_id"),
        transcript=Path(transcript).expanduser().absolute() if transcript else None,
    )


def format_answer(name: str, context: str, notice: str = "") -> str:
    """Return the output with which the client of an event gives a context to its model, and a notice to its user."""
    if name == "sessionStart":  # Cursor, which shows its user nothing
        return json.dumps({"continue": True, "additional_context": context}) if context else ""
    answer: dict[str, Any] = {"systemMessage": notice} if notice else {}
    if context:
        answer["hookSpecificOutput"] = {"hookEventName": name, "additionalContext": context}
    return json.dumps(answer) if answer else ""


def _is_question(prompt: str) -> bool:
    """Check that there is something to search for: not in a "yes", a "go on", or a command to the client."""
    if _COMMAND.match(prompt.strip()):
        return False
    words = _WORDS.findall(prompt.lower())
    if all(word in _ASSENT_WORDS for word in words):
        return False
    letters = "".join(words)
    return len(letters) >= _MIN_QUESTION_LETTERS or not letters.isascii() or any(map(str.isdigit, letters))


def _get_text(fields: Mapping[str, Any], name: str) -> str | None:
    return _find_text([fields.get(name)])


def _find_text(values: list[Any]) -> str | None:
    return next((value for value in values if isinstance(value, str) and value.strip()), None)


# Notes of what is left undone

_FOLDER, _LOCK = "unsaved", "lock"
_MAX_AGE_NANOSECONDS = 7 * 86_400 * 10**9


class UnsavedConversation(Struct, frozen=True):
    """A transcript, the project it belongs to, and the database it goes to."""

    transcript: str
    folder: str | None
    project: str | None
    arguments: Mapping[str, str]  # of the command line, which name the database


class _PendingNote(Struct, frozen=True):
    """A note of an unsaved conversation: its file, and when that was written."""

    conversation: UnsavedConversation
    file: Path
    written: int  # nanoseconds

    @property
    def is_expired(self) -> bool:
        return time.time_ns() - self.written > _MAX_AGE_NANOSECONDS

    def remove(self) -> None:
        """Delete the note, unless it was written anew because the conversation went on."""
        with suppress(OSError):  # another process deleted it first
            if self.file.stat().st_mtime_ns == self.written:
                self.file.unlink()


class PendingNotes:
    """The notes of one user."""

    def __init__(self, state_folder: Path) -> None:
        self._folder = state_folder / _FOLDER

    def add(self, conversation: UnsavedConversation) -> _PendingNote:
        """Write a note, in the place of an older one of the same conversation."""
        key = json.dumps([conversation.transcript, conversation.arguments])
        file = self._folder / f"{sha256(key.encode()).hexdigest()[:32]}.json"
        write_atomically(file, json.dumps(asdict(conversation)).encode(), private=True)
        return _PendingNote(conversation, file, file.stat().st_mtime_ns)

    def read(self) -> Iterator[_PendingNote]:
        """Yield the notes; one that cannot be parsed is deleted."""
        for file in sorted(self._folder.glob("*.json")):
            try:
                written = file.stat().st_mtime_ns
                yield _PendingNote(UnsavedConversation(**json.loads(file.read_text("utf-8"))), file, written)
            except OSError:
                continue
            except (ValueError, TypeError):
                file.unlink(missing_ok=True)

    @contextmanager
    def try_lock(self) -> Iterator[bool]:
        """Keep other processes from working on the notes during a block; yield False if one of them has the lock."""
        make_folder(self._folder, private=True)
        with (self._folder / _LOCK).open("ab") as file:  # closing it frees the lock, and so does the process's end
            yield _lock(file)


def _lock(file: BinaryIO) -> bool:
    try:
        lock_file(file)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: doing the work twice does no harm
        return True
    return True


# Running a hook

LATER = "later"  # no client's event: a process of its own that does what hooks left undone
MAX_LOG_BYTES = 256 * 1024  # then the log is renamed to .old, in the place of the one before

_LOG_NAME = "hooks.log"
_MAX_PROJECTS_NAMED = 5
_TOLD = "untrusted"  # a folder of empty files, named after what the user was told of
_TRANSCRIPT_NAMES = {"rollout-": "codex", "session-": "gemini-cli"}  # beginnings; Claude Code's are ids of sessions
_COMPACTED = {  # in a transcript: from here on, the model knows only a summary of what was said
    "claude-code": b'"compact_boundary"',
    "codex": b'"type":"compacted"',
    "gemini-cli": b"<state_snapshot>",  # the summary, which is a message
}
_BUDGETS = (1500, 700)  # tokens; the second is tried if the first gives a text too long for the client
# Clients end a hook after their own limit, which is longer; but at the end of a session, Claude Code gives all hooks
# together 1.5 s, unless the user's settings allow for more.
_TIME_LIMITS = {"SessionEnd": 1.0, LATER: 900.0}  # seconds
_DEFAULT_TIME_LIMIT = 5.0
_RECORD_SECONDS = 1.0  # that a hook waits for another process to end its write


class _Workspace(Protocol):
    """The settings that hold in a folder, and the memory they name."""

    @property
    def loaded(self) -> LoadedSettings: ...
    @property
    def target(self) -> str: ...
    def within(self, folder: Path, arguments: Mapping[str, Any] | None = None) -> Self: ...
    def open(
        self, *, create: bool = ..., embedder: str | None = ..., surface: str = ..., busy_timeout: float | None = ...
    ) -> Any: ...


class Hook(Struct, frozen=True):
    """A call of a hook: its event, its input, and where it is called."""

    name: str
    input: BinaryIO
    workspace: _Workspace
    state_folder: Path  # for files of the user that are neither data nor settings
    project_root: str | None  # if the client's environment names it
    worker_command: Sequence[str]  # runs LATER
    describe_error: Callable[[Exception], str] = str

    def run(self) -> str:
        """Return the output: an answer in the client's form, or nothing."""
        log, notes = _HookLog(self.state_folder / _LOG_NAME, self.describe_error), PendingNotes(self.state_folder)
        seconds = _TIME_LIMITS.get(self.name, _DEFAULT_TIME_LIMIT)
        try:
            with _time_limit(seconds, lambda: self._give_up(log, notes, seconds)):
                if self.name == LATER:
                    self._finish_pending(notes, log)
                    return ""
                event = parse_event(self.name, self.input.read(), self.project_root)
                workspace = self.workspace if event.folder is None else self.workspace.within(event.folder)
                notice = self._notice(event, workspace, log)
                context = self._handle(event, workspace, notes, log)
            return format_answer(event.name, context, notice)
        except Exception as exc:
            log.write_error(self.name, exc)
            return ""

    def _notice(self, event: Event, workspace: _Workspace, log: "_HookLog") -> str:
        """
        Return what to tell the user, once: that the settings of the project were ignored.

        The model is not told: it would rather run the command itself than leave it to the user.
        """
        ignored = workspace.loaded.ignored
        if ignored is None or (told := self.state_folder / _TOLD / ignored.fingerprint).exists():
            return ""
        log.write(self.name, ignored.warning)
        if event.action == SAVE:  # nobody sees its output
            return ""
        with suppress(OSError):  # then the next hook says it again
            write_atomically(told, b"", private=True)
        return f"Memorist: {ignored.warning}"

    def _handle(self, event: Event, workspace: _Workspace, notes: PendingNotes, log: "_HookLog") -> str:
        """Do what an event asks for, and return the context for the model, which may be empty."""
        if event.action == SAVE:
            self._save(event, workspace, notes)
            return ""
        if event.action == BRIEF and any(notes.read()):
            self._start_worker()
        if event.action == RECALL and event.prompt is None:
            return ""
        if is_missing_or_empty(workspace.target):  # before the engine is imported to find the same
            return ""
        project = _find_project(event, workspace)
        if event.action == BRIEF:
            with _open(workspace, "none") as memory:  # there is no query, so no model is needed
                if project and (reason := _explain_empty_project(memory, project, event, workspace)):
                    log.write(self.name, reason)
                return _fit_context(memory, lambda budget: memory.briefing(project=project, budget=budget))
        session = _find_visible_session(event)
        with _open(workspace) as memory:
            context = _fit_context(
                memory,
                lambda budget: memory.context(
                    event.prompt,
                    project=project,
                    session=session,
                    budget=budget,
                    core=False,  # the briefing has them
                ),
            )
            if not context and project:
                log.write_once(self.name, _explain_empty_project(memory, project, event, workspace))
            return context

    def _save(self, event: Event, workspace: _Workspace, notes: PendingNotes) -> None:
        """Store the turns at once, for keyword search; another process makes their vectors."""
        if event.transcript is None or not event.transcript.is_file():  # nothing was said in the session
            return
        if not (is_file_path(workspace.target) or is_server(workspace.target)):  # it would be lost
            return
        settings = workspace.loaded.settings
        database = workspace.target if is_server(workspace.target) else os.path.abspath(workspace.target)
        arguments = {"database": database, "namespace": settings.namespace}
        folder = None if event.folder is None else str(event.folder)
        project = _find_project(event, workspace)
        note = notes.add(UnsavedConversation(str(event.transcript), folder, project, arguments))
        done = False
        try:
            _import_transcript(workspace, note.conversation, embedder="none")
            done = settings.embedder == "none"
        except InvalidInput:  # the file holds no conversation, and trying again will not change that
            done = True
            raise
        finally:
            if done:
                note.remove()
            else:
                self._start_worker()

    def _finish_pending(self, notes: PendingNotes, log: "_HookLog") -> None:
        """Save every conversation that is noted, of any session."""
        if hasattr(os, "nice"):
            os.nice(10)  # the user is at work on this machine
        tried: set[tuple[Path, int]] = set()

        def read_untried() -> list[_PendingNote]:
            return [note for note in notes.read() if (note.file, note.written) not in tried]

        while read_untried():
            with notes.try_lock() as is_locked:
                if not is_locked:
                    return  # the process that has the lock looks once more before it ends
                for note in read_untried():
                    tried.add((note.file, note.written))
                    self._finish(note, log)

    def _finish(self, note: _PendingNote, log: "_HookLog") -> None:
        if note.is_expired:
            note.remove()  # this is its last try
        conversation = note.conversation
        workspace = self.workspace.within(Path(conversation.folder or "."), conversation.arguments)
        try:
            _import_transcript(workspace, conversation, embedder="none")  # all of the text before the first vector
            if workspace.loaded.settings.embedder != "none":
                _import_transcript(workspace, conversation)
        except Exception as exc:
            log.write_error(LATER, exc)
            if not isinstance(exc, InvalidInput):
                return  # it may work another time: the database is locked, say
        note.remove()

    def _give_up(self, log: "_HookLog", notes: PendingNotes, seconds: float) -> None:
        log.write(self.name, f"not done in {seconds:g} s; the agent goes on without an answer")
        if ACTIONS.get(self.name) == SAVE and any(notes.read()):
            self._start_worker()

    def _start_worker(self) -> None:
        """Start the process that runs LATER, detached from the program that called the hook."""
        import subprocess  # not needed by hooks that only read

        null = subprocess.DEVNULL
        flags = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        subprocess.Popen(
            self.worker_command, stdin=null, stdout=null, stderr=null, start_new_session=True, creationflags=flags
        )


def _find_project(event: Event, workspace: _Workspace) -> str | None:
    """Return the project that is set for the folder, or else the one an import of the transcript would use."""
    from memorist.importers.formats.values import project_of_folder

    return workspace.loaded.settings.project or (project_of_folder(str(event.folder)) if event.folder else None)


def _explain_empty_project(memory: Any, project: str, event: Event, workspace: _Workspace) -> str:
    """Return why an agent gets nothing of its project while there are memories of others, or ""."""
    if memory.count(project=project) or not (others := memory.review.projects()):
        return ""
    origin = "the setting `project`" if workspace.loaded.settings.project else f"the name of the folder {event.folder}"
    more = f" and {len(others) - _MAX_PROJECTS_NAMED} more" if len(others) > _MAX_PROJECTS_NAMED else ""
    return (
        f"no memory belongs to the project {project!r}, which is {origin}; there are memories of: "
        f"{', '.join(others[:_MAX_PROJECTS_NAMED])}{more}. To use one of them here, set `project` in the folder's "
        "memorist.toml and run `memorist trust` there"
    )


def _find_visible_session(event: Event) -> str | None:
    """Return the current session, unless it was compacted: until then the model still sees all of it."""
    if event.session is None or event.transcript is None or not event.transcript.is_file():
        return None
    format = _find_format(event.transcript)
    if mark := _COMPACTED.get(format):
        with event.transcript.open("rb") as lines:
            if any(mark in line for line in lines):
                return None
    return f"{format}:{event.session}"


def _find_format(transcript: Path) -> str:
    """Return the format of a transcript by its name, which differs between clients with the same events."""
    names = _TRANSCRIPT_NAMES.items()
    return next((format for start, format in names if transcript.name.startswith(start)), "claude-code")


def _import_transcript(workspace: _Workspace, conversation: UnsavedConversation, embedder: str | None = None) -> None:
    if not Path(conversation.transcript).is_file():  # checked before a database is created for it
        raise InvalidInput(f"{conversation.transcript} is gone")
    with workspace.open(create=True, embedder=embedder) as memory:
        format = _find_format(Path(conversation.transcript))
        memory.transfer.import_conversations(conversation.transcript, format=format, project=conversation.project)


def _open(workspace: _Workspace, embedder: str | None = None) -> Any:
    """Open the memory to read from it. What was told is recorded, but the agent does not wait long for that."""
    return workspace.open(embedder=embedder, surface="hook", busy_timeout=_RECORD_SECONDS)


def _fit_context(memory: Any, build: Callable[[int], str]) -> str:
    """Return a context that is short enough for a client to show it whole, or an empty one."""
    from memorist.engine.context import record_last  # not before the engine is needed

    with record_last(memory) as record_none:
        for budget in _BUDGETS:
            if len(context := build(budget)) <= MAX_ANSWER_CHARACTERS:
                return context
        record_none()
    return ""


class _HookLog:
    """A log file of limited size, as an agent has no place to show errors. Writing to it never raises."""

    def __init__(self, file: Path, describe: Callable[[Exception], str]) -> None:
        self._file, self._describe = file, describe

    def write(self, event: str, message: str) -> None:
        line = " ".join(message.split())
        self._append(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {event} (process {os.getpid()}) {line}\n")

    def write_once(self, event: str, message: str) -> None:
        """Write a message, if there is one, unless the log has it already: every prompt would repeat it."""
        line = " ".join(message.split())
        with suppress(OSError):
            if line and not (self._file.exists() and line in self._file.read_text("utf-8", "replace")):
                self.write(event, line)

    def write_error(self, event: str, error: Exception) -> None:
        """Write an error on one line; one that is not Memorist's own, with its traceback."""
        self.write(event, f"{type(error).__name__}: {self._describe(error)}")
        if not isinstance(error, MemoristError):
            self._append("".join(traceback.format_exception(error)))

    def _append(self, text: str) -> None:
        from memorist.present.render import printable  # only where something went wrong

        with suppress(OSError):
            make_folder(self._file.parent, private=True)
            if self._file.exists() and self._file.stat().st_size > MAX_LOG_BYTES:
                self._file.replace(self._file.with_name(self._file.name + ".old"))
            with self._file.open("a", encoding="utf-8", errors="backslashreplace") as out:
                out.write(printable(text))


@contextmanager
def _time_limit(seconds: float, before_exit: Callable[[], None]) -> Iterator[None]:
    """End the process with exit code 0 when a block takes too long, whatever it is that hangs."""

    def exit() -> None:
        try:
            before_exit()
        finally:
            os._exit(0)  # safe at any moment: a transaction that is not committed is rolled back

    timer = threading.Timer(seconds, exit)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
