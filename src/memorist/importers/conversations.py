"""Files of conversations, in pieces to be written at once.

Each piece is a transaction of its own, and turns are known by their ids: an import that is stopped anywhere can be run
again, and a file that has grown gives only what is new in it.

Conversations as sessions and memories: ids that are the same each time, times that keep the order, no secrets.

A turn is something that happened, not something that holds: the same words said again are another turn, so that a
conversation can be read as it was. What makes a second import add nothing is the id, made of the other program's own.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from uuid import UUID, uuid5

from memorist import validation
from memorist.documents import ImportReport
from memorist.errors import InvalidInput
from memorist.importers.transcripts import ImportedConversation, Problem, Turn, read_conversations
from memorist.ingest.redaction import Redaction, reported
from memorist.ingest.vectorizer import BATCH
from memorist.records import TURN, ConversationBatch, MemoryDraft
from memorist.redact import redact
from memorist.store.base import ConversationResult

SUFFIXES = (".json", ".jsonl", ".ndjson", ".zip")  # of the files of a folder that are looked at


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How an import is done."""

    format: str | None
    project: str | None
    tools: bool
    redaction: Redaction


@dataclass(slots=True)
class ImportCounter:
    """What becomes of conversations, while they are gone through."""

    added: int = 0
    known: int = 0
    sessions: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    redacted: Counter[str] = field(default_factory=Counter)
    formats: set[str] = field(default_factory=set)

    def skip(self, file: Path, problem: Problem, way: ImportOptions) -> None:
        place = f"{file}:{problem.line}" if problem.line else str(file)
        self.skipped.append((place, way.redaction.shown(problem.reason)))  # which may name a title

    def count(self, told: Sequence[ConversationBatch], taken: ConversationResult) -> None:
        new = set(taken.ids)
        self.added += len(new)
        self.known += taken.known
        self.sessions += taken.sessions
        for turn in (turn for one in told for turn in one.turns if turn.id in new):
            self.redacted.update(str(entry["kind"]) for entry in reported(turn.metadata))

    def report(self, format: str | None) -> ImportReport:
        name = format or ", ".join(sorted(self.formats)) or "conversations"
        redacted = dict(sorted(self.redacted.items()))
        return ImportReport(name, self.added, self.known, self.sessions, tuple(self.skipped), redacted)


def batches(place: Path, way: ImportOptions, tally: ImportCounter) -> Iterator[list[ConversationBatch]]:
    """As much as is written and embedded at once: of an export, many conversations; of a long one, a stretch."""
    told = _in_folder(place, way, tally) if place.is_dir() else _in_file(place, way, tally)
    batch: list[ConversationBatch] = []
    for one in told:
        if batch and sum(len(each.turns) for each in batch) + len(one.turns) > BATCH:
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def _in_folder(folder: Path, way: ImportOptions, tally: ImportCounter) -> Iterator[ConversationBatch]:
    """What the files of a folder hold; a file that holds no conversation is told of, unless that goes for all."""
    refused, files = 0, _files(folder)
    for file in files:
        try:
            yield from _in_file(file, way, tally)
        except InvalidInput as exc:
            refused += 1
            tally.skip(file, Problem(None, str(exc).removeprefix(f"{file} ")), way)
    if refused == len(files):
        reason = f"; {tally.skipped[0][0]} {tally.skipped[0][1]}" if tally.skipped else ""
        raise InvalidInput(f"{folder} has no file with conversations ({', '.join(SUFFIXES)}) in it{reason}")


def _files(folder: Path) -> list[Path]:
    """Those that may hold conversations, the oldest first: what a later one repeats was said in the earlier."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = (Path(place, name) for name in names if not name.startswith("."))
        found += [file for file in files if file.suffix.lower() in SUFFIXES and file.is_file()]
    return sorted(found, key=lambda file: (_modified(file), file))


def _modified(file: Path) -> datetime:
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        return datetime.now(UTC)


def _in_file(file: Path, way: ImportOptions, tally: ImportCounter) -> Iterator[ConversationBatch]:
    """The conversations of a file, and why something of it could not be read; InvalidInput where that is all of it."""
    some, problems = False, 0
    otherwise = _modified(file)
    for one in read_conversations(file, format=way.format, tools=way.tools):
        if isinstance(one, Problem):
            tally.skip(file, one, way)
            problems += 1
            continue
        some = True
        tally.formats.add(one.format)
        project = way.project or one.project
        source, turns = file.name[: validation.MAX_NAME_CHARACTERS], list[MemoryDraft]()
        for draft in drafts(one, project=project, source=source, otherwise=otherwise, redaction=way.redaction):
            if isinstance(draft, Problem):
                tally.skip(file, draft, way)
            else:
                turns.append(draft)
        if turns and one.started_at is None:
            otherwise = turns[-1].created_at  # another without times was after this one
        yield from _stretches(one, project, turns, way.redaction)
    if problems and not some:
        place, reason = tally.skipped[-problems]
        raise InvalidInput(f"nothing in {file} could be read as a conversation: {reason} ({place})")


def _stretches(
    conversation: ImportedConversation, project: str | None, turns: Sequence[MemoryDraft], by: Redaction
) -> Iterator[ConversationBatch]:
    """A conversation in pieces that are written at once."""
    id, summary = session_of(conversation), by.shown_or_none(conversation.title)
    for at in range(0, len(turns), BATCH):
        yield ConversationBatch(id, project, summary, tuple(turns[at : at + BATCH]))


_TURNS = UUID("3d2b1d3e-7b0a-5c55-9d6f-5a1f6c1e8a42")  # a namespace of our own, for uuid5
_EVERYWHERE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])", re.IGNORECASE)
_MICROSECOND = timedelta(microseconds=1)
_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


def session_of(conversation: ImportedConversation) -> str:
    """The id of its session: with the format before it, nobody else's; its own id, being an ending of it, finds it."""
    id = f"{conversation.format}:{conversation.id}"
    return id if len(id) <= validation.MAX_SESSION_ID else f"{conversation.format}:{_digest(conversation.id)}"


def drafts(
    conversation: ImportedConversation, *, project: str | None, source: str, otherwise: datetime, redaction: Redaction
) -> Iterator[MemoryDraft | Problem]:
    """Its turns as memories, in order; `otherwise` is when it was, where the conversation itself does not say."""
    now = datetime.now(UTC)
    repeats: Counter[str] = Counter()
    begun = conversation.started_at or otherwise
    moment: datetime | None = None
    for number, turn in enumerate(conversation.turns, 1):
        moment = (turn.at or begun) if moment is None else _next(moment, turn.at)
        text, report = redaction.content(turn.text)
        about = {"role": turn.role, "format": conversation.format} | ({"tool": turn.tool} if turn.tool else {})
        fields = {
            "id": _turn_id(conversation, turn, repeats),
            "content": text,
            "project": project,
            "kind": TURN,
            "sector": "episodic",
            "tier": "session",
            "source": source,
            "metadata": about | report,
            "created_at": moment,
        }
        try:
            yield validation.draft(fields, now)
        except InvalidInput as exc:
            yield Problem(None, f"turn {number} of {(conversation.title or conversation.id)!r} cannot be added: {exc}")


def _next(before: datetime, at: datetime | None) -> datetime:
    """When a turn was: as it says, but always after the one before it, for lists and timelines go by time."""
    if at is not None and at > before:
        return at
    return before if before == _LAST_MOMENT else before + _MICROSECOND


def _turn_id(conversation: ImportedConversation, turn: Turn, repeats: Counter[str]) -> str:
    """
    A UUID of what names the turn. A message that has one of its own is the same in every session that repeats it, as
    resumed ones do.

    One without an id is known by who said what when, and how often before: so a conversation may grow, or be read with
    tools. Of its text, only what is no secret has a part in it, whatever is allowed: a digest can be guessed at.
    """
    named = [conversation.format, conversation.id]
    if turn.id is not None:
        named = [*named[: 1 if _EVERYWHERE.match(turn.id) else 2], turn.id]
    else:
        said = [turn.role, turn.tool, turn.at and turn.at.isoformat(), redact(turn.text)[0]]
        digest = _digest(json.dumps(said))
        repeats[digest] += 1
        named += [digest, str(repeats[digest])]
    return str(uuid5(_TURNS, json.dumps(named)))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
