"""
Turn imported conversations into batches of sessions and turns that are written at once.

Each batch is a transaction of its own, and the ids of turns are derived from those of the other program. So an import
that is stopped can be run again, and a file that has grown adds only what is new in it. The same words said twice are
two turns, so that a conversation can be read as it was. Turns keep their order in time, and are redacted.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid5

from msgspec import Struct, field

from memorist import validation
from memorist.errors import InvalidInput, MissingExtra
from memorist.importers.formats.conversation import ImportedConversation, Turn
from memorist.importers.formats.values import digest, parse_label
from memorist.importers.input_file import open_input
from memorist.importers.transcripts import ImportProblem, read_conversations
from memorist.ingest.vectorizer import BATCH
from memorist.ingest.walk import FoundFile, Walk
from memorist.records import TURN, ConversationBatch, MemoryDraft
from memorist.redact import redact
from memorist.redact.redaction import Redaction, redaction_report
from memorist.reports import ImportReport
from memorist.store.records import ConversationResult

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".jsonl.zst", ".zip")  # of files that may hold conversations
_NAMES = tuple(f"*{suffix}" for each in _SUFFIXES for suffix in (each, each.upper()))
_MAX_TITLE_CHARACTERS = 20_000
_MAX_SHOWN_CHARACTERS = 200  # of a title, in a message
_MAX_PROBLEMS = 10_000  # that a report names
_MAX_FILE_BYTES = 10_000_000_000  # files of lines are read line by line
_TURN_NAMESPACE = UUID("3d2b1d3e-7b0a-5c55-9d6f-5a1f6c1e8a42")  # for uuid5
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])", re.IGNORECASE)
_MICROSECOND = timedelta(microseconds=1)
_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


class ImportOptions(Struct, frozen=True):
    """The options of an import of conversations."""

    format: str | None
    project: str | None
    tools: bool
    redaction: Redaction


class ImportCounter(Struct):
    """The counts of an import while it is under way."""

    added: int = 0
    known: int = 0
    sessions: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unnamed: int = 0  # problems beyond those that are named
    redacted: Counter[str] = field(default_factory=Counter)
    formats: set[str] = field(default_factory=set)

    def add_problem(self, file: Path, problem: ImportProblem, redaction: Redaction) -> None:
        if len(self.skipped) == _MAX_PROBLEMS:
            self.unnamed += 1
            return
        place = f"{file}:{problem.line}" if problem.line else str(file)
        self.skipped.append((place, redaction.redact_text(problem.reason)))  # the reason may quote a title

    def add_result(self, batches: Sequence[ConversationBatch], result: ConversationResult) -> None:
        """Count what the store has written of some batches."""
        new = set(result.ids)
        self.added += len(new)
        self.known += result.known
        self.sessions += result.sessions
        for turn in (turn for batch in batches for turn in batch.turns if turn.id in new):
            self.redacted.update(str(entry["kind"]) for entry in redaction_report(turn.metadata))

    def build_report(self, format: str | None) -> ImportReport:
        name = format or ", ".join(sorted(self.formats)) or "conversations"
        redacted = dict(sorted(self.redacted.items()))
        more = [(f"{self.unnamed:,} more", "they could not be read either")] if self.unnamed else []
        return ImportReport(name, self.added, self.known, self.sessions, (*self.skipped, *more), redacted)


def read_batches(path: Path, options: ImportOptions, counter: ImportCounter) -> Iterator[list[ConversationBatch]]:
    """Yield what is written and embedded at once: many short conversations, or a part of a long one."""
    read = _read_folder if path.is_dir() else _read_file
    group: list[ConversationBatch] = []
    for batch in read(path, options, counter):
        if group and sum(len(each.turns) for each in group) + len(batch.turns) > BATCH:
            yield group
            group = []
        group.append(batch)
    if group:
        yield group


def _read_folder(folder: Path, options: ImportOptions, counter: ImportCounter) -> Iterator[ConversationBatch]:
    """Read the files of a folder. Files without a conversation are reported; if all are such, raise InvalidInput."""
    refused, files = 0, _find_files(folder, options, counter)
    for file in files:
        try:
            yield from _read_file(file, options, counter)
        except (InvalidInput, MissingExtra) as exc:
            refused += 1
            problem = ImportProblem(None, str(exc).removeprefix(f"{file} "))
            counter.add_problem(file, problem, options.redaction)
    if refused == len(files):
        reason = f"; {': '.join(counter.skipped[0])}" if counter.skipped else ""
        raise InvalidInput(f"{folder} has no file with conversations ({', '.join(_SUFFIXES)}) in it{reason}")


def has_files(folder: Path) -> bool:
    """Return True if a folder has files that may hold conversations."""
    return any(isinstance(item, FoundFile) for item in Walk([folder], include=_NAMES, max_bytes=_MAX_FILE_BYTES))


def _find_files(folder: Path, options: ImportOptions, counter: ImportCounter) -> list[Path]:
    """
    Return the files that may hold conversations, the oldest first: later files may repeat earlier turns.

    They are found by the rules of `index`, but may be larger.
    """
    found = []
    if (folder / "message").is_dir() and (folder / "part").is_dir():  # opencode's storage, with a file for each
        folder = folder / "session"
    for item in Walk([folder], include=_NAMES, max_bytes=_MAX_FILE_BYTES):
        if isinstance(item, FoundFile):
            found.append(folder / item.name)
        else:
            counter.add_problem(item.path, ImportProblem(None, item.reason), options.redaction)
    return sorted(found, key=lambda file: (_modified_at(file), file))


def _modified_at(file: Path) -> datetime:
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        return datetime.now(UTC)


def _read_file(file: Path, options: ImportOptions, counter: ImportCounter) -> Iterator[ConversationBatch]:
    """Read the conversations of a file, which may be compressed."""
    with open_input(file) as plain:
        yield from _read_plain_file(plain.file, file, options, counter)


def _read_plain_file(
    plain: Path, file: Path, options: ImportOptions, counter: ImportCounter
) -> Iterator[ConversationBatch]:
    """Read conversations, and report what cannot be read; raise InvalidInput if that is all of it."""
    found_any, problems = False, 0
    default_time = _modified_at(file)
    for conversation in read_conversations(plain, format=options.format, tools=options.tools):
        if isinstance(conversation, ImportProblem):
            counter.add_problem(file, conversation, options.redaction)
            problems += 1
            continue
        found_any = True
        counter.formats.add(conversation.format)
        project, turns = options.project or conversation.project, list[MemoryDraft]()
        for draft in draft_turns(
            conversation,
            project=project,
            source=file.name[: validation.MAX_NAME_CHARACTERS],
            default_time=default_time,
            redaction=options.redaction,
        ):
            if isinstance(draft, ImportProblem):
                counter.add_problem(file, draft, options.redaction)
            else:
                turns.append(draft)
        if turns and conversation.started_at is None:
            default_time = turns[-1].created_at  # the next conversation without times comes after this one
        # Much more than is kept of a title is redacted, because a secret that is cut is not recognised.
        title = options.redaction.redact_optional(conversation.title and conversation.title[:_MAX_TITLE_CHARACTERS])
        id, summary = session_id_of(conversation), parse_label(title)
        for start in range(0, len(turns), BATCH):
            yield ConversationBatch(id, project, summary, tuple(turns[start : start + BATCH]))
    if problems and not found_any:
        place, reason = counter.skipped[-problems]
        raise InvalidInput(f"nothing in {file} could be read as a conversation: {reason} ({place})")


def session_id_of(conversation: ImportedConversation) -> str:
    """Return the id of its session: the format and its own id, which, as an ending, finds the session too."""
    id = f"{conversation.format}:{conversation.id}"
    return id if len(id) <= validation.MAX_SESSION_ID else f"{conversation.format}:{digest(conversation.id)}"


def draft_turns(
    conversation: ImportedConversation,
    *,
    project: str | None,
    source: str,
    default_time: datetime,
    redaction: Redaction,
) -> Iterator[MemoryDraft | ImportProblem]:
    """Yield its turns as memories, in order; `default_time` is for a conversation without times."""
    now = datetime.now(UTC)
    repeats: Counter[str] = Counter()
    started = conversation.started_at or default_time
    moment: datetime | None = None
    for number, turn in enumerate(conversation.turns, 1):
        moment = (turn.at or started) if moment is None else _next_moment(moment, turn.at)
        details = {"role": turn.role, "format": conversation.format} | ({"tool": turn.tool} if turn.tool else {})
        try:
            # One that is too long is refused before it is read for secrets, which takes a while.
            text, report = redaction.redact_content(validation.content(turn.text))
            fields = {
                "id": _derive_turn_id(conversation, turn, repeats),
                "content": text,
                "project": project,
                "kind": TURN,
                "sector": "episodic",
                "tier": "session",
                "source": source,
                "metadata": details | report,
                "created_at": moment,
            }
            yield validation.draft(fields, now)
        except InvalidInput as exc:
            name = (conversation.title or conversation.id)[:_MAX_SHOWN_CHARACTERS]
            yield ImportProblem(None, f"turn {number} of {name!r} cannot be added: {exc}")


def _next_moment(before: datetime, at: datetime | None) -> datetime:
    """Return the time of a turn, but always after the turn before, because lists and timelines go by time."""
    if at is not None and at > before:
        return at
    return before if before == _LAST_MOMENT else before + _MICROSECOND


def _derive_turn_id(conversation: ImportedConversation, turn: Turn, repeats: Counter[str]) -> str:
    """
    Derive the id of a turn. A message with a UUID is the same in every session that repeats it, as resumed ones do.

    A turn without an id is known by role, tool, time and text, and how often they came before: so a conversation may
    grow, or be read with tools. Secrets are left out of the text whatever is allowed, because a digest can be guessed.
    """
    parts = [conversation.format, conversation.id]
    if turn.id is not None:
        parts = [*parts[: 1 if _UUID.match(turn.id) else 2], turn.id]
    else:
        hashed = digest(json.dumps([turn.role, turn.tool, turn.at and turn.at.isoformat(), redact(turn.text)[0]]))
        repeats[hashed] += 1
        parts += [hashed, str(repeats[hashed])]
    return str(uuid5(_TURN_NAMESPACE, json.dumps(parts)))
