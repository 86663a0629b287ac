"""
Read conversations from files of other programs: detect the format, and yield each conversation in one form.

Messages are kept. Everything else is left out: thoughts, reminders, abandoned edits, and (unless asked for) the calls
and results of tools.
"""

import json
import lzma
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from memorist.errors import InvalidInput
from memorist.importers.formats.claude_code import CLAUDE_CODE
from memorist.importers.formats.codex import CODEX
from memorist.importers.formats.conversation import ConversationBuilder, ImportedConversation, TranscriptFormat
from memorist.importers.formats.cursor import CURSOR
from memorist.importers.formats.gemini import GEMINI
from memorist.importers.formats.messages import OPENAI, PLAIN_LINES, is_message_list
from memorist.importers.formats.opencode import OPENCODE
from memorist.importers.formats.vscode import VSCODE
from memorist.importers.formats.web_exports import CHATGPT, CLAUDE
from memorist.importers.formats.zed import ZED
from memorist.importers.input_file import JsonBudget, check_json, describe_too_large, max_document_bytes, read_document
from memorist.importers.memorist_export import is_export
from memorist.store.sqlite.foreign import is_sqlite, open_foreign
from memorist.validation import choice

# In the order in which a file is compared with them
FORMATS: Mapping[str, TranscriptFormat] = {
    format.name: format
    for format in (CLAUDE_CODE, CODEX, GEMINI, CURSOR, OPENCODE, ZED, VSCODE, CHATGPT, CLAUDE, OPENAI, PLAIN_LINES)
}
_MAX_LINE_CHARACTERS = 100_000_000  # lines may hold images, and so have megabytes
_MAX_PROBED = 1000  # the format must show in the first lines, or entries of a document
_HEAD_BYTES = 1 << 16  # enough to tell lines from a document
_ZIP_MAGIC = b"PK\3\4"
_ZIP_MEMBER = re.compile(r"^(?!__MACOSX)(?:.*/)?conversations(?:-[0-9]+)?\.json$")  # large exports come in parts
_BLANK = " \t\r\n\0\ufeff"  # a crash leaves NULs, and joined files have byte order marks in the middle
_DECODER = json.JSONDecoder(strict=False)  # bare control characters in a text do no harm


class ImportProblem(Struct, frozen=True):
    """Something that could not be read and was skipped."""

    line: int | None
    reason: str


_Conversations = Iterator[ImportedConversation | ImportProblem]
_Numbered = tuple[int | None, Any]  # a JSON value or the problem with it, and its line if there are lines


def read_conversations(file: Path, *, format: str | None = None, tools: bool = False) -> _Conversations:
    """
    Yield the conversations of a file, each as soon as its end is reached; without a format, it is detected.

    A file in none of the formats raises InvalidInput at once; damaged parts of a file are yielded as problems.
    """
    formats = tuple(FORMATS.values()) if format is None else (FORMATS[choice(format, tuple(FORMATS), "format")],)
    expected = _describe(formats) if format is None else f"the format {format!r}"
    with _translate_os_errors(file):
        if not file.is_file():
            kind = "folder" if file.is_dir() else "pipe or device"
            raise InvalidInput(f"cannot read {file}: {f'it is a {kind}' if file.exists() else 'there is no such file'}")
        if not file.stat().st_size:
            raise InvalidInput(f"{file} is empty; expected {_describe(tuple(FORMATS.values()))}")
        if format is None and is_export(file):  # its memories have a content, as messages do
            raise InvalidInput(f"{file} is an export of Memorist, not a conversation; use `memorist import`")
        if is_sqlite(file):
            return _yield_conversations(file, _open_database(file, formats, expected, tools))
        attempts = (_try_lines, _try_documents) if _looks_like_lines(file) else (_try_documents, _try_lines)
        problems: list[str] = []
        for attempt in attempts:
            if conversations := attempt(file, formats, tools, problems):
                return _yield_conversations(file, conversations)
    reasons = "".join(f" ({problem})" for problem in problems)
    raise InvalidInput(f"{file} holds no conversation; expected {expected}{reasons}")


def _describe(formats: tuple[TranscriptFormat, ...]) -> str:
    *descriptions, last = (format.description for format in formats)
    return f"{', '.join(descriptions)}, or {last}"


@contextmanager
def _translate_os_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise InvalidInput(f"cannot read {file}: {exc.strerror or exc}") from exc


def _yield_conversations(file: Path, conversations: _Conversations) -> _Conversations:
    with _translate_os_errors(file):
        yield from conversations


# Lines with a JSON value each, or one document (or several, in a zip)


def _looks_like_lines(file: Path) -> bool:
    """Return True to try lines first: a document may be named .jsonl, and lines may be named .json."""
    with file.open("rb") as raw:
        head = raw.read(_HEAD_BYTES)
    if head.startswith(_ZIP_MAGIC):
        return False
    lines = [line.strip(_BLANK) for line in head.decode(json.detect_encoding(head[:4]), "replace").splitlines()]
    first, *others = [line for line in lines if line] or [""]
    if others and not isinstance(_parse_json(first, 1), ImportProblem):
        return True
    return not first.startswith("[") and (file.suffix.lower() in (".jsonl", ".ndjson") or not first.startswith("{"))


def _try_lines(
    file: Path, formats: tuple[TranscriptFormat, ...], tools: bool, problems: list[str]
) -> _Conversations | None:
    values = (value for _, value in islice(_read_lines(file), _MAX_PROBED))
    format = _detect_format(values, formats)
    if format is None:
        return None
    if format.join_lines:
        return _read_joined(file, format, tools)
    if format.read_value:
        return _read_values(_read_lines(file), format, tools, file)
    return _read_grouped(file, format, tools)


def _try_documents(
    file: Path, formats: tuple[TranscriptFormat, ...], tools: bool, problems: list[str]
) -> _Conversations | None:
    formats = tuple(format for format in formats if format.read_value)
    documents, probed = _load_documents(file), []
    for document in documents:
        probed.append(document)
        if format := _detect_format(islice(_split_document(document), _MAX_PROBED), formats):
            values = ((None, value) for each in chain(probed, documents) for value in _split_document(each))
            return _read_values(values, format, tools, file)
    problems += [document.reason for document in probed if isinstance(document, ImportProblem)]
    return None


def _detect_format(values: Iterable[Any], formats: Iterable[TranscriptFormat]) -> TranscriptFormat | None:
    """Return the format of the first value that has one."""
    return next((format for value in values for format in formats if format.matches(value)), None)


def _read_lines(file: Path, budget: JsonBudget | None = None) -> Iterator[_Numbered]:
    """Yield the JSON values of lines, with one line in memory at a time; with a budget, that of all lines together."""
    with file.open("rb") as raw:
        encoding = json.detect_encoding(raw.read(4))
    with file.open(encoding=encoding, errors="replace") as text:
        number = 0
        while line := text.readline(_MAX_LINE_CHARACTERS):
            number += 1
            if len(line) == _MAX_LINE_CHARACTERS and not line.endswith("\n"):
                while (rest := text.readline(_MAX_LINE_CHARACTERS)) and not rest.endswith("\n"):
                    pass
                yield number, ImportProblem(number, f"the line is longer than {_MAX_LINE_CHARACTERS:,} characters")
            elif bare := line.strip(_BLANK):
                hint = "" if line.endswith("\n") else " (is it still being written?)"
                yield number, _parse_line(bare, number, hint, budget)


def _parse_line(text: str, number: int, hint: str, budget: JsonBudget | None) -> Any:
    """Return the JSON value of a line, or the problem with it."""
    try:
        (budget.spend if budget else check_json)(text, "the line" if budget is None else "the file")
    except InvalidInput as exc:
        return ImportProblem(number, str(exc))
    return _parse_json(text, number, hint)


def _parse_json(text: str, line: int | None, hint: str = "", what: str = "the line") -> Any:
    """Return a JSON value, or the problem with it."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as exc:
        where = f"column {exc.colno}" if line else f"line {exc.lineno}, column {exc.colno}"
        return ImportProblem(line, f"{what} is not JSON: {exc.msg.removesuffix(' at')} at {where}{hint}")
    except (ValueError, RecursionError) as exc:  # a number of thousands of digits, or thousands of brackets
        return ImportProblem(line, f"{what} is not JSON that can be read: {exc}")


def _load_documents(file: Path) -> Iterator[Any]:
    """Yield the file as JSON, or each part of the export in a zip; a problem replaces what is not JSON."""
    with file.open("rb") as raw:
        if raw.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC:
            yield from _load_zip(file)
        elif file.stat().st_size > max_document_bytes():
            yield ImportProblem(
                None, f"{describe_too_large(file.name)}: split it, or convert it to JSONL, which is read by line"
            )
        else:
            raw.seek(0)
            yield _parse_document(raw.read(), file.name, JsonBudget())


def _load_zip(file: Path) -> Iterator[Any]:
    try:
        with zipfile.ZipFile(file) as archive:
            members = [member for member in archive.infolist() if _ZIP_MEMBER.search(member.filename)]
            if not members:
                yield ImportProblem(None, "no conversations.json is in the zip")
            budget = JsonBudget()  # for all of them: those of unknown formats are kept until one is known
            for member in sorted(members, key=lambda member: member.filename):
                yield _read_member(archive, member, budget)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, RuntimeError, ValueError) as exc:
        yield ImportProblem(None, f"the zip cannot be read: {exc}")


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, budget: JsonBudget) -> Any:
    """Return a file in a zip as JSON, or the problem with it; the sizes that the zip declares may be wrong."""
    try:
        with archive.open(member) as packed:
            data = read_document(packed, member.compress_size, member.filename)
    except InvalidInput as exc:
        return ImportProblem(None, str(exc))
    return _parse_document(data, member.filename, budget)


def _parse_document(data: bytes, name: str, budget: JsonBudget) -> Any:
    text = data.decode(json.detect_encoding(data[:4]), "replace").strip(_BLANK)
    budget.spend(text, name)
    return _parse_json(text, None, what=name)


def _split_document(document: Any) -> list[Any]:
    """Return the conversations of a document: the elements of a list that is not itself a list of messages."""
    if isinstance(document, dict) and isinstance(document.get("conversations"), list):
        document = document["conversations"]
    return document if isinstance(document, list) and not is_message_list(document) else [document]


# Conversations that are one value each, or spread over lines


def _read_values(values: Iterable[_Numbered], format: TranscriptFormat, tools: bool, file: Path) -> _Conversations:
    """Yield conversations that are one JSON value each."""
    assert format.read_value is not None
    derived_ids: Counter[str] = Counter()
    for position, (line, value) in enumerate(values, 1):
        if isinstance(value, ImportProblem):
            yield value
            continue
        if not format.matches(value):
            yield ImportProblem(line, f"entry {position} is not a conversation in the format {format.name!r}")
            continue
        builder = ConversationBuilder(format.name)
        format.read_value(builder, format.complete(file, value) if format.complete else value, tools)
        yield from _finish(builder, derived_ids, line, f"entry {position}")


def _finish(builder: ConversationBuilder, derived_ids: Counter[str], line: int | None, place: str) -> _Conversations:
    """Yield a conversation, if anything was said in it, and how many of its messages could not be read."""
    if builder.unreadable:
        name = builder.title or builder.id or place
        yield ImportProblem(line, f"{builder.unreadable} messages of {name!r} cannot be read")
    if builder.turns:
        yield builder.build(derived_ids)


def _read_joined(file: Path, format: TranscriptFormat, tools: bool) -> _Conversations:
    """Yield a conversation whose lines change each other, and so have to be held in memory together."""
    assert format.join_lines is not None
    if file.stat().st_size > max_document_bytes():
        yield ImportProblem(None, describe_too_large(file.name))
        return
    lines = [value for _, value in _read_lines(file, JsonBudget())]
    yield from (value for value in lines if isinstance(value, ImportProblem))
    value = format.join_lines(value for value in lines if not isinstance(value, ImportProblem))
    yield from _read_values([(None, value)], format, tools, file)


def _open_database(file: Path, formats: tuple[TranscriptFormat, ...], expected: str, tools: bool) -> _Conversations:
    """Return the conversations of a database; raise InvalidInput at once if it is of no program that is known."""
    conversations = _read_database(file, formats, expected, tools)
    next(conversations)  # it is open now
    return conversations


def _read_database(file: Path, formats: tuple[TranscriptFormat, ...], expected: str, tools: bool) -> Iterator[Any]:
    with open_foreign(file) as database:
        format = next((each for each in formats if each.read_database and database.has(each.tables)), None)
        if format is None or format.read_database is None:
            raise InvalidInput(f"{file} is a SQLite database that holds no conversation; expected {expected}")
        yield format
        derived_ids: Counter[str] = Counter()
        for position, builder in enumerate(format.read_database(database, file, tools), 1):
            if isinstance(builder, str):
                yield ImportProblem(None, builder)
            else:
                yield from _finish(builder, derived_ids, None, f"conversation {position}")


def _read_grouped(file: Path, format: TranscriptFormat, tools: bool) -> _Conversations:
    """
    Yield conversations whose turns are lines, which may be mixed with those of others.

    A first pass finds the last line of each, so that it can be yielded there, and only unfinished ones are in memory.
    """
    assert format.open_lines is not None
    reader = format.open_lines(file)
    last_lines: dict[str, int] = {}
    total = 0
    for number, value in _read_lines(file):
        total = number or 0
        if isinstance(value, dict) and (session := reader.scan(value)) is not None:
            last_lines[session] = total
    derived_ids: Counter[str] = Counter()
    builders: dict[str, ConversationBuilder] = {}
    for number, value in _read_lines(file):
        if number is None or number > total:  # written since the first pass
            break
        if isinstance(value, ImportProblem):
            yield value
        elif not isinstance(value, dict):
            yield ImportProblem(number, "the line is not a JSON object")
        elif (session := reader.find_session(value)) is not None:
            if session not in builders:
                builders[session] = ConversationBuilder(format.name, id=session or None)
            builder = builders[session]
            if reason := reader.read_line(builder, value, tools):
                yield ImportProblem(number, reason)
            if last_lines.get(session) == number and builders.pop(session).turns:
                yield builder.build(derived_ids)
    yield from (builder.build(derived_ids) for builder in builders.values() if builder.turns)
