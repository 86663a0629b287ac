"""
Memorist's own export: a line of JSON for each record, behind a first line that says what it is.

The last line says how many there are, so that a file that was cut off is not taken for a whole one. Every line is
checked before the first is taken.
"""

import json
import math
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from memorist import validation
from memorist.errors import InvalidInput
from memorist.records import SECTORS, TIERS, Lens
from memorist.store.export_schema import FORMAT, NORM_TOLERANCE, SHAPES, ExportRecord, RecordList, Shape

END = "end"
MAX_LINE = 1_000_000_000  # bytes; a document is one line, with all its chunks
EVERY = 500  # lines between two reports of progress
_HEADER = ("memorist", "schema", "namespace", "vectors")
_USAGES = ("created", "recalled", "updated", "reinforced")

Progress = Callable[[int], None]


def write(records: Iterable[Mapping[str, Any]], file: BinaryIO, progress: Progress | None = None) -> int:
    """Write an export; gives the number of its records."""
    count = -1  # the first is about the others
    for count, record in enumerate(records):
        file.write(_json(record))
        if progress and count % EVERY == 0:
            progress(count)
    file.write(_json({"type": END, "records": count}))
    if progress:
        progress(count)
    return count


def is_export(file: Path) -> bool:
    """Whether a file begins like an export, of whatever version."""
    with file.open("rb") as raw:
        head = raw.read(200).lstrip()
    return head.startswith(b'{"memorist"')


def check(file: Path) -> int:
    """Read all of an export; gives the number of its records, or an InvalidInput that names the first bad line."""
    return sum(1 for _ in read(file))


def read(file: Path) -> Iterator[ExportRecord]:
    """The records of an export, one at a time, each checked."""
    with file.open("rb") as raw:
        _check_header(_parsed(raw.readline(MAX_LINE), f"{file}, line 1"), f"{file}, line 1")
        number, done = 1, None
        while line := raw.readline(MAX_LINE):
            number += 1
            place = f"{file}, line {number}"
            if done is not None:
                raise InvalidInput(f"{place}: there is more behind the last line of the export")
            record = _parsed(line, place)
            type = record.pop("type", None)
            if type == END:
                done = record.get("records")
                if done != number - 2:
                    raise InvalidInput(
                        f"{place}: the export had {done} records and has {number - 2}: lines are missing"
                    )
            elif type in SHAPES:
                yield ExportRecord(place, type, _checked(record, SHAPES[type], place))
            else:
                raise InvalidInput(f"{place}: {type!r} is no type of record; there are: {', '.join(SHAPES)}")
        if done is None:
            raise InvalidInput(f"{file} was cut off: it ends with line {number}, which is not the last of an export")


def _json(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode() + b"\n"


def _parsed(line: bytes, place: str) -> dict[str, Any]:
    if len(line) >= MAX_LINE:
        raise InvalidInput(f"{place}: it is longer than {MAX_LINE:,} bytes")
    try:
        record = json.loads(line.decode(), parse_constant=_no_number)
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"{place}: byte {exc.start + 1} is not UTF-8") from exc
    except json.JSONDecodeError as exc:
        cut = "" if line.endswith(b"\n") else "; the file was cut off here"
        raise InvalidInput(
            f"{place}: it is not JSON ({exc.msg.removesuffix(' at')} at column {exc.colno}){cut}"
        ) from exc
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"{place}: it is not JSON that can be read ({exc})") from exc
    if not isinstance(record, dict):
        raise InvalidInput(f"{place}: it is no JSON object")
    return record


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _check_header(header: Mapping[str, Any], place: str) -> None:
    version = header.get("memorist")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InvalidInput(f"{place}: this is no export of Memorist; such a file begins with the version of its format")
    if version > FORMAT:
        raise InvalidInput(
            f"{place}: the export has format {version}, and this version of Memorist reads up to {FORMAT}: "
            "upgrade Memorist to import it"
        )
    unknown = sorted(set(header) - set(_HEADER))
    if unknown:
        raise InvalidInput(f"{place}: the first line has a field {unknown[0]!r}, which format {version} has not")


def _checked(fields: Any, shape: Shape, place: str) -> dict[str, Any]:
    """The fields of a record in the form they are stored from; nothing unknown, nothing missing."""
    if not isinstance(fields, dict):
        raise InvalidInput(f"{place}: a record must be an object, not {fields!r:.80}")
    for name in fields:
        if name not in shape:
            raise InvalidInput(f"{place}: there is no field {name!r}; there are: {', '.join(shape)}")
    checked: dict[str, Any] = {}
    for name, kind in shape.items():
        given = fields.get(name)
        if isinstance(kind, RecordList):
            if given is not None and not isinstance(given, list):
                raise InvalidInput(f"{place}: {name} must be a list")
            if given:
                checked[name] = [_checked(one, kind.shape, f"{place}, {name}") for one in given]
        elif given is not None:
            checked[name] = _field(given, kind.removesuffix("?"), f"{place}: {name}")
        elif not kind.endswith("?"):
            raise InvalidInput(f"{place}: {name} is missing")
    return checked


def _field(given: Any, kind: str, what: str) -> Any:
    try:
        return _CHECKS[kind](given)
    except (InvalidInput, ValueError, TypeError, OverflowError, RecursionError) as exc:
        raise InvalidInput(f"{what} cannot be {given!r:.80} ({exc})") from exc


def _any(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it must be text")
    if value != validation.clean(value):
        raise ValueError("it has characters that cannot be stored")
    return value


def _text(value: Any) -> str:
    if not _any(value):
        raise ValueError("it is empty")
    return str(value)


def _time(value: Any) -> datetime:
    moment = datetime.fromisoformat(_text(value))
    if moment.tzinfo is None:
        raise ValueError("it has no time zone")
    return moment.astimezone(UTC)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("it must be a number")
    return float(value)


def _positive(value: Any) -> float:
    if _number(value) < 0:
        raise ValueError("it must not be below 0")
    return float(value)


def _whole(value: Any) -> int:
    return validation.whole_number(value, "it", -(2**63), 2**63 - 1)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it must be an object")
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # what cannot be stored shows here
    return value


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise ValueError("it must be a list of texts")
    return [_any(one) for one in value]


_SNAPSHOT: Shape = {
    "content": "content", "project": "any?", "sector": "sector", "tier": "tier", "kind": "any?", "tags": "texts",
    "salience": "share", "source": "any?", "title": "any?", "summary": "any?", "metadata": "object",
    "updated_at": "whole",
}  # fmt: skip


def _snapshot(value: Any) -> dict[str, Any]:
    """What a memory was before an update, stored as it is."""
    _checked(_object(value), _SNAPSHOT, "it")
    return _object(value)


def _definition(value: Any) -> dict[str, Any]:
    Lens("lens", **_object(value))
    return _object(value)


def _bytes(value: Any) -> bytes:
    return b64decode(_any(value), validate=True)


def _vector(value: Any) -> bytes:
    vector = np.frombuffer(_bytes(value), np.float16).astype(np.float32)
    if not abs(float(np.linalg.norm(vector)) - 1.0) < NORM_TOLERANCE:
        raise ValueError("it is not of unit length")
    return _bytes(value)


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "any": _any,
    "text": _text,
    "content": lambda value: validation.content(_any(value), "it"),
    "id": validation.memory_id,
    "session": lambda value: validation.session_id(_any(value)),
    "texts": _texts,
    "object": _object,
    "snapshot": _snapshot,
    "lens": _definition,
    "number": _number,
    "share": lambda value: validation.number(value, "it", 0, 1),
    "positive": _positive,
    "whole": _whole,
    "flag": lambda value: validation.flag(value, "it"),
    "time": _time,
    "bytes": _bytes,
    "vector": _vector,
    "sector": lambda value: validation.choice(value, SECTORS, "it"),
    "tier": lambda value: validation.choice(value, TIERS, "it"),
    "usage": lambda value: validation.choice(value, _USAGES, "it"),
}
