"""What other programs, or people, wrote down: made into the records that an import takes.

What comes through a pipe, or is packed with gzip, as a plain file while it is read: readers go back and forth.
"""

import gzip
import os
import shutil
import tempfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast
from uuid import NAMESPACE_URL, uuid5

from memorist import validation
from memorist.documents import ImportReport
from memorist.errors import InvalidInput
from memorist.records import FactDraft, MemoryDraft
from memorist.redact import redact
from memorist.store.export_schema import ExportRecord

_SAID = ("kind", "subject", "predicate", "object", "decay_rate")
_HELD_APART = ("id", "facts", "session", "created_at", "recorded_at", "tags")


class Redactor:
    """Takes secrets out of texts, wherever in a value they stand, and counts them by kind."""

    def __init__(self, allow: Collection[str] | None) -> None:
        self._allow = allow  # None: nothing is redacted
        self.found: Counter[str] = Counter()

    def __call__(self, value: Any) -> Any:
        if self._allow is None:
            return value
        if isinstance(value, str):
            text, found = redact(value, self._allow)
            self.found.update(one.kind for one in found)
            return text
        if isinstance(value, Mapping):
            return {name: self(one) for name, one in value.items()}
        return [self(one) for one in value] if isinstance(value, list) else value


def derived_id(*parts: str | None) -> str:
    """The same id for the same thing, however often it is read."""
    return str(uuid5(NAMESPACE_URL, validation.clean("\n".join(["memorist", *(part or "" for part in parts)]))))


def memory_line(place: str, given: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> ExportRecord:
    """A record from the fields of `add`, checked like those; `more` are fields of the record that `add` has not."""
    draft = validation.draft(given, datetime.now(UTC))
    record = {each.name: getattr(draft, each.name) for each in fields(MemoryDraft) if each.name not in _HELD_APART}
    record |= {
        "id": draft.id,
        "tags": list(draft.tags),
        "created_at": draft.created_at,
        "updated_at": draft.recorded_at,
        "reinforced_at": draft.recorded_at,
        "recorded_at": draft.recorded_at,
        "pinned": False,
        "access_count": 0,
        "facts": [_fact(fact, min(draft.created_at, draft.recorded_at)) for fact in _once(draft.facts)],
    }
    return ExportRecord(place, "memory", record | dict(more or {}))


def relation_line(
    place: str, source: str, kind: str, target: str, since: datetime, said: Mapping[str, Any]
) -> ExportRecord:
    """A record of what one memory says of another."""
    about = {"source": source, "target": target, "kind": validation.required_name(kind, "kind"), "valid_from": since}
    return ExportRecord(place, "relation", {"confidence": 1.0, **said, **about})


def _once(facts: Collection[FactDraft]) -> Collection[FactDraft]:
    """Each fact once, in the order they stand there."""
    first: dict[str, FactDraft] = {}
    for fact in facts:
        first.setdefault(fact.text, fact)
    return first.values()


def _fact(fact: FactDraft, since: datetime) -> dict[str, Any]:
    said = {name: getattr(fact, name) for name in _SAID}
    confidence = 1.0 if fact.confidence is None else fact.confidence
    return {"id": fact.id, "text": fact.text, **said, "confidence": confidence, "created_at": since,
            "reinforced_at": since}  # fmt: skip


_GZIP = b"\x1f\x8b"
PIPED = "standard input"


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A plain file, and what it is called by whoever handed it in."""

    file: Path
    name: str

    def named(self, report: ImportReport) -> ImportReport:
        return replace(report, skipped=tuple((self._told(place), self._told(why)) for place, why in report.skipped))

    def _told(self, text: str) -> str:
        return text.replace(str(self.file), self.name)


@contextmanager
def unpacked(given: str | Path | BinaryIO) -> Iterator[Unpacked]:
    """A file or folder as it is; a stream of bytes, or a file that is packed, as a file that is gone afterwards."""
    piped = not isinstance(given, str | os.PathLike) and hasattr(given, "read")
    place = Path(PIPED) if piped else validation.path(given)
    if not piped and not _is_packed(place):
        yield Unpacked(place, str(place))
        return
    with tempfile.TemporaryDirectory(prefix="memorist-") as folder:
        found = Unpacked(Path(folder, _plain_name(place)), str(place))
        try:
            packed = _saved(cast(BinaryIO, given), Path(folder, "piped")) if piped else place
            _unpack(packed, found.file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise InvalidInput(f"{found.name} is damaged: it cannot be unpacked ({exc}); take another copy") from exc
        except OSError as exc:
            raise InvalidInput(f"cannot unpack {found.name}: {exc.strerror or exc}") from exc
        try:
            yield found
        except InvalidInput as exc:
            raise type(exc)(found._told(str(exc))) from exc


def _is_packed(place: Path) -> bool:
    if not place.is_file():
        return False
    try:
        with place.open("rb") as file:
            return file.read(len(_GZIP)) == _GZIP
    except OSError:  # whoever reads it will say so
        return False


def _plain_name(place: Path) -> str:
    return place.name[:-3] if place.suffix.lower() == ".gz" and len(place.name) > 3 else place.name


def _saved(stream: BinaryIO, file: Path) -> Path:
    with file.open("wb") as saved:
        while part := stream.read(1 << 20):
            if not isinstance(part, bytes):
                raise InvalidInput("what is imported must be open for bytes, not for text")
            saved.write(part)
    return file


def _unpack(packed: Path, plain: Path) -> None:
    """What is packed, or plain already, as a plain file of the same time: some of what it holds may have no other."""
    with gzip.open(packed) if _is_packed(packed) else packed.open("rb") as source, plain.open("wb") as target:
        shutil.copyfileobj(source, target)
    when = packed.stat().st_mtime
    os.utime(plain, (when, when))
