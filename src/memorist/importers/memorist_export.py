"""
Write and read exports: JSON lines, one per record, after a header line.

The last line holds the number of records, so that a truncated file is recognised. Every line is checked before the
first is imported.
"""

import json
import math
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from memorist import validation
from memorist.errors import InvalidInput
from memorist.importers.input_file import check_json
from memorist.nesting import MAX_LEVELS, find_excess
from memorist.records import SECTORS, TIERS, Lens
from memorist.store.export import FORMAT, MEMORY, RECORDS, ExportRecord, RecordList, Shape, is_unit_vector

_END = "end"
_MAX_LINE_BYTES = 1_000_000_000  # a document is one line, with all its chunks
_PROGRESS_INTERVAL = 500  # records between two calls of the progress callback
_HEADER_FIELDS = ("memorist", "schema", "namespace", "vectors")  # earlier exports have a schema
_USAGES = ("created", "recalled", "updated", "reinforced")

_Progress = Callable[[int], None]


def write_export(records: Iterable[Mapping[str, Any]], file: BinaryIO, progress: _Progress | None = None) -> int:
    """Write an export, and return the number of its records."""
    count = -1  # the first is the header
    for count, record in enumerate(records):
        file.write(encode_line(record))
        if progress and count % _PROGRESS_INTERVAL == 0:
            progress(count)
    file.write(encode_line({"type": _END, "records": count}))
    if progress:
        progress(count)
    return count


def is_export(file: Path) -> bool:
    """Return True if a file begins like an export of any version."""
    with file.open("rb") as raw:
        head = raw.read(200).lstrip()
    return head.startswith(b'{"memorist"')


def check_export(file: Path) -> int:
    """Check all of an export and return the number of its records; InvalidInput names the first bad line."""
    return sum(1 for _ in read_export(file))


def read_export(file: Path) -> Iterator[ExportRecord]:
    """Yield the records of an export, each checked."""
    with file.open("rb") as raw:
        _check_header(_parse_line(raw.readline(_MAX_LINE_BYTES), f"{file}, line 1"), f"{file}, line 1")
        number, done = 1, None
        while line := raw.readline(_MAX_LINE_BYTES):
            number += 1
            place = f"{file}, line {number}"
            if done is not None:
                raise InvalidInput(f"{place}: there is more after the last line of the export")
            record = _parse_line(line, place)
            if record.get("type") == _END:
                done = record.get("records")
                if done != number - 2:
                    raise InvalidInput(
                        f"{place}: the export was written with {done} records and has {number - 2}: lines are missing"
                    )
            else:
                yield check_record(record, place)
        if done is None:
            raise InvalidInput(f"{file} is truncated: it ends with line {number}, which is not the last of an export")


def check_record(record: Mapping[str, Any], place: str) -> ExportRecord:
    """Check a record of an export, with its type; an InvalidInput names its place."""
    fields = dict(record)
    type = fields.pop("type", None)
    if not isinstance(type, str) or type not in RECORDS:
        named = validation.quote(type)
        raise InvalidInput(f"{place}: {named} is not a type of record; choose one of: {', '.join(RECORDS)}")
    return ExportRecord(place, type, _check_fields(fields, RECORDS[type].shape, place))


def encode_line(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line of an export."""
    return _encode(record).encode() + b"\n"


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _parse_line(line: bytes, place: str) -> dict[str, Any]:
    if len(line) >= _MAX_LINE_BYTES:
        raise InvalidInput(f"{place}: it is longer than {_MAX_LINE_BYTES:,} bytes")
    try:
        text = line.decode()
        check_json(text, place)
        try:
            record = msgspec.json.decode(text)  # several times faster, but it reads and says less
        except (msgspec.DecodeError, RecursionError):
            record = _decode(text)
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"{place}: byte {exc.start + 1} is not UTF-8") from exc
    except json.JSONDecodeError as exc:
        cut = "" if line.endswith(b"\n") else "; the file is truncated here"
        raise InvalidInput(
            f"{place}: it is not JSON ({exc.msg.removesuffix(' at')} at column {exc.colno}){cut}"
        ) from exc
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"{place}: it is not JSON that can be read ({exc})") from exc
    if not isinstance(record, dict):
        raise InvalidInput(f"{place}: it is not a JSON object")
    return record


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _check_header(header: Mapping[str, Any], place: str) -> None:
    version = header.get("memorist")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InvalidInput(f"{place}: this is not an export of Memorist, which begins with the version of its format")
    if version > FORMAT:
        raise InvalidInput(
            f"{place}: the export has format {version}, and this version of Memorist reads up to {FORMAT}: "
            "upgrade Memorist to import it"
        )
    unknown = sorted(set(header) - set(_HEADER_FIELDS))
    if unknown:
        raise InvalidInput(f"{place}: the first line has a field {unknown[0]!r}, which format {version} does not have")


class _FieldChecks(Struct, frozen=True):
    """The checks of a shape's fields: by name, those of values and the shapes of lists, and the required names."""

    values: Mapping[str, Callable[[Any], Any]]
    lists: Mapping[str, Shape]
    required: frozenset[str]

    @classmethod
    def of(cls, shape: Shape) -> "_FieldChecks":
        kinds = {name: kind for name, kind in shape.items() if isinstance(kind, str)}
        return cls(
            {name: _CHECKS[kind.removesuffix("?")] for name, kind in kinds.items()},
            {name: kind.shape for name, kind in shape.items() if isinstance(kind, RecordList)},
            frozenset(name for name, kind in kinds.items() if not kind.endswith("?")),
        )


_field_checks: dict[int, _FieldChecks] = {}  # by the `id()` of a shape, of which there are a few for good


def _check_fields(fields: Any, shape: Shape, place: str) -> dict[str, Any]:
    """Return the fields of a record in the form they are stored in; unknown and missing fields raise InvalidInput."""
    if not isinstance(fields, dict):
        raise InvalidInput(f"{place}: a record must be an object, not {validation.quote(fields)}")
    checks = _field_checks.get(id(shape))
    if checks is None:
        checks = _field_checks[id(shape)] = _FieldChecks.of(shape)
    checked: dict[str, Any] = {}
    for name, value in fields.items():
        if check := checks.values.get(name):
            if value is None:
                continue
            try:
                checked[name] = check(value)
            except (InvalidInput, ValueError, TypeError, OverflowError, RecursionError) as exc:
                raise InvalidInput(f"{place}: {name} cannot be {validation.quote(value)} ({exc})") from exc
        elif name not in checks.lists:
            raise InvalidInput(
                f"{place}: there is no field {name!r}; the fields are: {', '.join(shape)}. "
                "If a newer version of Memorist wrote it, upgrade this one"
            )
        elif value is not None and not isinstance(value, list):
            raise InvalidInput(f"{place}: {name} must be a list")
        elif value:
            checked[name] = [_check_fields(item, checks.lists[name], f"{place}, {name}") for item in value]
    if not checks.required <= checked.keys():
        missing = next(name for name in shape if name in checks.required and name not in checked)
        raise InvalidInput(f"{place}: {missing} is missing")
    return checked


def _any_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it must be text")
    if value != validation.clean(value):
        raise ValueError("it has characters that cannot be stored")
    return value


def _nonempty_text(value: Any) -> str:
    if not _any_text(value):
        raise ValueError("it is empty")
    return str(value)


def _time(value: Any) -> datetime:
    return _parse_time(value if type(value) is str else _any_text(value))


@lru_cache(1000)  # most of a memory's times are the same
def _parse_time(text: str) -> datetime:
    moment = datetime.fromisoformat(_nonempty_text(text))
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


def _whole_number(value: Any) -> int:
    return validation.whole_number(value, "it", -(2**63), 2**63 - 1)


def _object(value: Any, levels: int = MAX_LEVELS) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it must be an object")
    if value:
        if excess := find_excess(value, levels):
            raise ValueError(excess)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # raises for what cannot be stored
    return value


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise ValueError("it must be a list of texts")
    return [_any_text(item) for item in value]


# What can be changed of a memory, with times as they are stored.
_SNAPSHOT_SHAPE: Shape = {
    name: kind.replace("time", "whole")
    for name, kind in MEMORY.items()
    if isinstance(kind, str) and name in (*validation.UPDATABLE, "updated_at")
}


def _snapshot(value: Any) -> dict[str, Any]:
    """Check an earlier version of a memory, which is stored as it is."""
    _check_fields(_object(value, MAX_LEVELS + 1), _SNAPSHOT_SHAPE, "it")
    return dict(value)


def _lens_definition(value: Any) -> dict[str, Any]:
    Lens("lens", **_object(value, MAX_LEVELS + 1))
    return dict(value)


def _bytes(value: Any) -> bytes:
    return b64decode(_any_text(value), validate=True)


def _vector(value: Any) -> bytes:
    vector = _bytes(value)
    if not is_unit_vector(vector):
        raise ValueError("it is not of unit length")
    return vector


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "any": _any_text,
    "text": _nonempty_text,
    "content": lambda value: validation.content(_any_text(value), "it"),
    "id": validation.memory_id,
    "session": lambda value: validation.session_id(_any_text(value)),
    "texts": _texts,
    "object": _object,
    "snapshot": _snapshot,
    "lens": _lens_definition,
    "number": _number,
    "share": lambda value: validation.number(value, "it", 0, 1),
    "positive": _positive,
    "whole": _whole_number,
    "by_id": lambda value: validation.flag(value, "it"),
    "flag": lambda value: validation.flag(value, "it"),
    "time": _time,
    "bytes": _bytes,
    "vector": _vector,
    "sector": lambda value: validation.choice(value, SECTORS, "it"),
    "tier": lambda value: validation.choice(value, TIERS, "it"),
    "usage": lambda value: validation.choice(value, _USAGES, "it"),
}
