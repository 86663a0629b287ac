"""
Conversations that other programs wrote down, brought into one form: who said what, and when.

What was said is kept. The machinery around it is not: thoughts, reminders, edits that were given up, and (unless asked
for) the calls and results of tools.
"""

import json
import lzma
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from memorist.errors import InvalidInput
from memorist.importers import transcript_formats as formats
from memorist.importers.exports import is_export
from memorist.importers.transcript_formats import ConversationBuilder, ImportedConversation, Turn
from memorist.validation import choice

__all__ = ["FORMATS", "ImportedConversation", "Problem", "Turn", "read_conversations"]

FORMATS = ("claude-code", "chatgpt", "claude", "openai", "jsonl")
MAX_DOCUMENT = 1_000_000_000  # bytes of a JSON document, which has to be held in memory whole
MAX_LINE = 100_000_000  # characters of a line of JSONL: pictures are among them, and so lines of megabytes
_LOOK_AT = 1000  # lines in which a format must show
_HEAD = 1 << 16  # bytes that tell lines from a document
_EXPECTED = (
    "a Claude Code session (JSONL), a ChatGPT or Claude.ai export (conversations.json, or the zip it came in), a list "
    "of messages with role and content (JSON), or JSONL with role and content, or speaker and text, on each line"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read and was passed over."""

    line: int | None
    reason: str


_Numbered = tuple[int | None, Any]  # a JSON value or the Problem in its place, and its line where there are lines


def read_conversations(
    file: Path, *, format: str | None = None, tools: bool = False
) -> Iterator[ImportedConversation | Problem]:
    """
    The conversations of a file, each as soon as its end is reached; without a format, by what the file looks like.

    A file that is none of the formats is an InvalidInput at once; what is damaged inside of one is a Problem.
    """
    wanted = FORMATS if format is None else (choice(format, FORMATS, "format"),)
    with _readable(file):
        if not file.is_file():
            kind = "folder" if file.is_dir() else "pipe or device"
            raise InvalidInput(f"cannot read {file}: {f'it is a {kind}' if file.exists() else 'there is no such file'}")
        if not file.stat().st_size:
            raise InvalidInput(f"{file} is empty; expected {_EXPECTED}")
        if format is None and is_export(file):  # its memories have a content, as messages do
            raise InvalidInput(f"{file} is an export of Memorist, and no conversation; `memorist import` takes it in")
        attempts = (_in_lines, _in_documents) if _looks_like_lines(file) else (_in_documents, _in_lines)
        reasons: list[str] = []
        for attempt in attempts:
            if found := attempt(file, wanted, tools, reasons):
                return _guarded(file, found)
    expected = _EXPECTED if format is None else f"the format {format!r}"
    raise InvalidInput(f"{file} holds no conversation; expected {expected}{''.join(f' ({one})' for one in reasons)}")


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise InvalidInput(f"cannot read {file}: {exc.strerror or exc}") from exc


def _guarded(file: Path, found: Iterator[ImportedConversation | Problem]) -> Iterator[ImportedConversation | Problem]:
    with _readable(file):
        yield from found


# What is in the file: lines with a JSON value each, or one document (or several, in a zip).


def _looks_like_lines(file: Path) -> bool:
    """Only which of the two to try first: a document may be named .jsonl, and lines may be named .json."""
    with file.open("rb") as raw:
        head = raw.read(_HEAD)
    if head.startswith(b"PK\3\4"):
        return False
    lines = [one.strip(_BLANK) for one in head.decode(json.detect_encoding(head[:4]), "replace").splitlines()]
    first, *others = [one for one in lines if one] or [""]
    if others and not isinstance(_value(first, 1), Problem):
        return True
    return not first.startswith("[") and (file.suffix.lower() in (".jsonl", ".ndjson") or not first.startswith("{"))


def _in_lines(
    file: Path, wanted: tuple[str, ...], tools: bool, reasons: list[str]
) -> Iterator[ImportedConversation | Problem] | None:
    values = (value for _, value in islice(_lines(file), _LOOK_AT))
    format = next(filter(None, (_format(value, wanted) for value in values)), None)
    if format is None:
        return None
    return _whole(_lines(file), format, tools) if format in _WHOLE else _grouped(file, format, tools)


def _in_documents(
    file: Path, wanted: tuple[str, ...], tools: bool, reasons: list[str]
) -> Iterator[ImportedConversation | Problem] | None:
    documents, looked_at = _documents(file), []
    for document in documents:
        looked_at.append(document)
        whole = [one for one in wanted if one in _WHOLE]
        format = next(filter(None, (_format(part, whole) for part in _parts(document))), None)
        if format is not None:
            parts = ((None, part) for one in chain(looked_at, documents) for part in _parts(one))
            return _whole(parts, format, tools)
    reasons += [one.reason for one in looked_at if isinstance(one, Problem)]
    return None


def _lines(file: Path) -> Iterator[_Numbered]:
    """One line in memory at a time, whatever the size of the file."""
    with file.open("rb") as raw:
        encoding = json.detect_encoding(raw.read(4))
    with file.open(encoding=encoding, errors="replace") as text:
        number = 0
        while line := text.readline(MAX_LINE):
            number += 1
            if len(line) == MAX_LINE and not line.endswith("\n"):
                while (rest := text.readline(MAX_LINE)) and not rest.endswith("\n"):
                    pass
                yield number, Problem(number, f"the line is longer than {MAX_LINE:,} characters")
            elif bare := line.strip(_BLANK):
                yield number, _value(bare, number, "" if line.endswith("\n") else " (is it still being written?)")


_BLANK = " \t\r\n\0\ufeff"  # a crash leaves NULs, and files that were joined marks in the middle
_DECODER = json.JSONDecoder(strict=False)  # bare control characters in a text do no harm


def _value(text: str, line: int | None, hint: str = "", what: str = "the line") -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as exc:
        where = f"column {exc.colno}" if line else f"line {exc.lineno}, column {exc.colno}"
        return Problem(line, f"{what} is not JSON: {exc.msg.removesuffix(' at')} at {where}{hint}")
    except (ValueError, RecursionError) as exc:  # a number of thousands of digits, or thousands of brackets
        return Problem(line, f"{what} is not JSON that can be read: {exc}")


def _documents(file: Path) -> Iterator[Any]:
    """The file as JSON; of a zip, each part of the export in it. A Problem stands in the place of what is none."""
    with file.open("rb") as raw:
        zipped = raw.read(4) == b"PK\3\4"
        size = file.stat().st_size
        if not zipped and size <= MAX_DOCUMENT:
            raw.seek(0)
            yield _document(raw.read(), file.name)
    if zipped:
        yield from _unzipped(file)
    elif size > MAX_DOCUMENT:
        yield Problem(None, f"{_too_big(file.name)}: split it, or bring it into JSONL, which is read line by line")


def _unzipped(file: Path) -> Iterator[Any]:
    try:
        with zipfile.ZipFile(file) as archive:
            members = [one for one in archive.infolist() if _EXPORTED.search(one.filename)]
            if not members:
                yield Problem(None, "no conversations.json is in the zip")
            for member in sorted(members, key=lambda one: one.filename):
                with archive.open(member) as packed:
                    data = packed.read(MAX_DOCUMENT + 1)  # not what the zip says of its size, which may be untrue
                name = member.filename
                yield _document(data, name) if len(data) <= MAX_DOCUMENT else Problem(None, _too_big(name))
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, RuntimeError, ValueError) as exc:
        yield Problem(None, f"the zip cannot be read: {exc}")


_EXPORTED = re.compile(r"^(?!__MACOSX)(?:.*/)?conversations(?:-[0-9]+)?\.json$")  # large exports come in parts


def _document(data: bytes, name: str) -> Any:
    return _value(data.decode(json.detect_encoding(data[:4]), "replace").strip(_BLANK), None, what=name)


def _too_big(name: str) -> str:
    return f"{name} has more than {MAX_DOCUMENT / 1e9:g} GB, too much for one JSON document"


def _parts(document: Any) -> list[Any]:
    """The conversations of a document: the elements of a list that is not itself a list of messages."""
    if isinstance(document, dict) and isinstance(document.get("conversations"), list):
        document = document["conversations"]
    return document if isinstance(document, list) and not _is_messages(document) else [document]


# Which format it is, and the reading of conversations that are one value each or spread over lines.


def _format(value: Any, wanted: Iterable[str]) -> str | None:
    return next((one for one in wanted if _FITS[one](value)), None)


def _is_claude_code(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str) or "role" in value:
        return False
    markers: tuple[tuple[str, ...], ...] = (("sessionId",), ("leafUuid",), ("messageId", "snapshot"))
    if value["type"] in ("user", "assistant"):
        markers += (("uuid",), ("session_id",))
    return any(all(key in value for key in keys) for keys in markers)


def _is_chatgpt(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
        return False
    nodes = value["mapping"].values()
    return "current_node" in value or any(isinstance(node, dict) and "message" in node for node in nodes)


def _is_messages(value: Any) -> bool:
    return isinstance(value, list) and any(
        isinstance(one, dict) and isinstance(one.get("role"), str) and ("content" in one or "tool_calls" in one)
        for one in value
    )


_FITS: dict[str, Callable[[Any], bool]] = {
    "claude-code": _is_claude_code,
    "chatgpt": _is_chatgpt,
    "claude": lambda value: isinstance(value, dict) and isinstance(value.get("chat_messages"), list),
    "openai": lambda value: _is_messages(value.get("messages") if isinstance(value, dict) else value),
    "jsonl": lambda value: isinstance(value, dict) and isinstance(formats.first(value, formats.TEXTS), str | list),
}
_WHOLE: dict[
    str, Callable[[ConversationBuilder, Any, bool], None]
] = {  # the formats in which a conversation is one JSON value
    "chatgpt": formats.chatgpt_conversation,
    "claude": formats.claude_conversation,
    "openai": formats.openai_conversation,
}


def _whole(values: Iterable[_Numbered], format: str, tools: bool) -> Iterator[ImportedConversation | Problem]:
    """Conversations that are one JSON value each."""
    taken: Counter[str] = Counter()
    for position, (line, value) in enumerate(values, 1):
        if isinstance(value, Problem):
            yield value
            continue
        if not _FITS[format](value):
            yield Problem(line, f"entry {position} is no conversation in the format {format!r}")
            continue
        draft = ConversationBuilder(format)
        _WHOLE[format](draft, value, tools)
        if draft.unread:
            name = draft.title or draft.id or f"entry {position}"
            yield Problem(line, f"{draft.unread} messages of {name!r} cannot be read")
        if draft.turns:
            yield draft.finished(taken)


def _grouped(file: Path, format: str, tools: bool) -> Iterator[ImportedConversation | Problem]:
    """
    Conversations whose turns are lines of their own, and may be mixed with those of others.

    A first pass finds out where each one ends: so it can be given away there, and only what is unfinished is held.
    """
    ends: dict[str, int] = {}
    summaries: dict[str, str] = {}
    total = 0
    for number, value in _lines(file):
        total = number or 0
        if (key := _session(value, format, file)) is not None:
            ends[key] = total
        elif format == "claude-code" and isinstance(value, dict) and isinstance(leaf := value.get("leafUuid"), str):
            summaries[leaf] = formats.label(value.get("summary")) or ""
    read: Callable[[ConversationBuilder, dict[str, Any], bool], str | None] = formats.plain_line
    if format == "claude-code":
        read = partial(formats.claude_code_line, seen=set(), summaries=summaries)
    taken: Counter[str] = Counter()
    drafts: dict[str, ConversationBuilder] = {}
    for number, value in _lines(file):
        if number is None or number > total:  # written since the first pass
            break
        if not isinstance(value, dict):
            yield value if isinstance(value, Problem) else Problem(number, "the line is no JSON object")
        elif (key := _session(value, format, file)) is not None:
            if key not in drafts:
                drafts[key] = ConversationBuilder(format, id=key or None)
            draft = drafts[key]
            if reason := read(draft, value, tools):
                yield Problem(number, reason)
            if ends.get(key) == number and drafts.pop(key).turns:
                yield draft.finished(taken)
    yield from (draft.finished(taken) for draft in drafts.values() if draft.turns)


def _session(value: Any, format: str, file: Path) -> str | None:
    """What groups a line with others; None for one that belongs to no conversation."""
    if not isinstance(value, dict):
        return None
    named = formats.identifier(formats.first(value, formats.SESSIONS))
    if named is None and format == "claude-code":  # which names its files after their sessions
        return formats.identifier(file.stem) if value.get("type") in ("user", "assistant") else None
    return named or ""
