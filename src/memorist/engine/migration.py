"""Migration: a namespace copied from one database to another of any kind, and compared before it counts as done."""

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from memorist import validation
from memorist.config import default_path, is_file_path, is_missing_or_empty
from memorist.engine.backends import check_target, open_backend
from memorist.errors import Hint, InvalidInput, StoreCorrupt, StoreError
from memorist.importers.memorist_export import check_record, encode_line
from memorist.profiles import SENTENCE_MODELS
from memorist.reports import MigrationReport
from memorist.store.export import RECORDS, ExportRecord, name_record, take_batches
from memorist.store.store import Store

_BATCH, _BATCH_BYTES = 500, 8_000_000  # records, and bytes of them, that are written together
_SORTED_BY_NAME = ("model", "lens")  # few, and not in the order they were written

MigrationProgress = Callable[[str, int, int], None]  # called with the stage, the records done, and all records
Record = dict[str, Any]


class _Item(NamedTuple):
    """A record of the source, its place among those of its type, and whether the target has it from an earlier run."""

    record: ExportRecord
    position: int
    line: bytes  # of an export
    present: bool


def migrate(
    source: str | Path,
    target: str | Path,
    *,
    namespace: str = "default",
    keep_going: bool = False,
    progress: MigrationProgress | None = None,
    busy_timeout: float = 30.0,
) -> MigrationReport:
    """
    Copy a namespace from one database to another: SQLite to PostgreSQL, back, or between two of the same kind.

    Everything that an export has is copied, with all vectors and in the same order; no model is needed. The source is
    only read. The target has to be empty in this namespace, or to hold what an earlier, interrupted run has copied: the
    migration then goes on. At the end, all records of the target are compared with those that were read; a StoreError
    names the first that differs. A damaged record ends the migration, unless you pass `keep_going`: then what can be
    read of it is copied, and it is listed in `damaged`. `progress` is called with "comparing", "copying" or
    "verifying", the number of records done, and that of all.
    """
    space, started = validation.namespace(namespace), time.monotonic()
    validation.flag(keep_going, "keep_going")
    origin, copy = _check_databases(source, target)
    with closing(Store(open_backend(origin, space, read_only=True, busy_timeout=busy_timeout), space)) as old:
        if not any(old.count_records().values()):
            known = _describe_namespaces(origin, busy_timeout)
            raise InvalidInput(
                f"{old.database} has nothing in the namespace {space!r}{known}: there is nothing to copy"
            )
        with closing(Store(open_backend(copy, space, read_only=False, busy_timeout=busy_timeout), space)) as new:
            if old.database == new.database:
                raise InvalidInput(f"{old.database} cannot be copied to itself; name another database")
            return _Migration(old, new, keep_going, progress).run(started)


def list_namespaces(target: str | Path | None = None, *, prefix: str = "", busy_timeout: float = 30.0) -> list[str]:
    """
    Return the namespaces of a database that begin with a prefix, by name; None is the user's own database.

    A user of PostgreSQL who sees one namespace only gets a StoreError.
    """
    if not isinstance(prefix, str):
        raise InvalidInput(f"prefix must be text, not {prefix!r:.80}")
    path = str(default_path()) if target is None else check_target(target)
    _require_database(path)
    with closing(open_backend(path, "default", read_only=True, busy_timeout=busy_timeout)) as backend:
        return [name for name in backend.list_namespaces() if name.startswith(prefix)]


def _check_databases(source: object, target: object) -> tuple[str, str]:
    origin, copy = check_target(source), check_target(target)
    if ":memory:" in (origin, copy):
        raise InvalidInput("a database in memory cannot be migrated; name a file, or postgresql://HOST/DATABASE")
    _require_database(origin)
    if is_file_path(origin) and is_file_path(copy) and Path(copy).exists() and os.path.samefile(origin, copy):
        raise InvalidInput(f"{origin} cannot be copied to itself; name another database")
    return origin, copy


def _require_database(path: str) -> None:
    if is_missing_or_empty(path):
        raise InvalidInput(f"there is no database at {path}")


def _describe_namespaces(path: str, busy_timeout: float) -> str:
    with suppress(StoreError):
        if names := list_namespaces(path, busy_timeout=busy_timeout):
            return f" (it has: {', '.join(names)})"
    return ""


class _Migration:
    """One run of a migration."""

    def __init__(self, source: Store, target: Store, keep_going: bool, progress: MigrationProgress | None) -> None:
        self._source, self._target, self._keep_going, self._progress = source, target, keep_going, progress
        self._loader = target.create_loader(SENTENCE_MODELS)
        self._total = sum(source.count_records().values())
        self._present: Counter[str] = Counter()  # the number of first records of a type that the target has,
        self._absent: set[tuple[str, int]] = set()  # but for these, which it refused
        self._named: set[tuple[str, str]] = set()  # those that it has of types that are sorted by name
        self._damaged: list[tuple[str, str]] = []
        self._refused: set[tuple[str, int]] = set()  # types and positions
        self._written = 0
        self._counts: Counter[str] = Counter()
        self._digest = hashlib.sha256()

    def run(self, started: float) -> MigrationReport:
        if any(self._target.count_records().values()):
            self._compare()
        self._copy()
        self._verify()
        return MigrationReport(
            self._source.database,
            self._target.database,
            self._source.namespace,
            {type: self._counts[type] for type in RECORDS if self._counts[type]},
            self._written,
            sum(self._counts.values()) - self._written,
            tuple(self._damaged),
            self._digest.hexdigest(),
            round(time.monotonic() - started, 3),
        )

    def _report_progress(self, stage: str, done: int) -> None:
        if self._progress:
            self._progress(stage, done, max(self._total, done))

    # What the target has

    def _compare(self) -> None:
        """
        Find the records that an earlier run has copied, and refuse a target that has any others.

        Of each type, they are the first that the source has, in its order: those that were copied later follow them.
        """
        for type in RECORDS:
            with closing(_read(self._target, type)) as found:
                if type in _SORTED_BY_NAME:
                    self._compare_named(type, found)
                elif first := next(found, None):
                    self._compare_ordered(type, first, found)
            self._report_progress("comparing", sum(self._present.values()) + len(self._named))

    def _compare_named(self, type: str, found: Iterator[Record]) -> None:
        with closing(_read(self._source, type)) as records:
            known = {record["name"]: record for record in records}
        for record in found:
            if known.get(record["name"]) != record:
                raise self._describe_other(record)
            self._named.add((type, record["name"]))

    def _compare_ordered(self, type: str, first: Record, found: Iterator[Record]) -> None:
        expected: Record | None = first
        with closing(_read(self._source, type)) as records:
            for position, record in enumerate(records):
                if expected is None:
                    break
                if record == expected:
                    self._present[type] = position + 1
                    expected = next(found, None)
                elif self._keep_going:
                    self._absent.add((type, position))
                else:
                    break
        if expected is not None:
            raise self._describe_other(expected)

    def _describe_other(self, record: Record) -> InvalidInput:
        name = name_record(record["type"], record)
        return InvalidInput(
            f"{self._target.database} holds other memories in the namespace {self._target.namespace!r}: {name} is not, "
            f"or no longer, the same in {self._source.database}. Nothing was copied. Choose an empty database or "
            "another namespace; to mix two memories, export one and import it into the other"
        )

    # Copying

    def _copy(self) -> None:
        done = 0
        for batch in take_batches(self._read_items(), _BATCH, _BATCH_BYTES, lambda item: len(item.line)):
            # The loader has to know the models of all vectors.
            self._put([item for item in batch if not item.present or item.record.type == "model"])
            for item in batch:
                if (item.record.type, item.position) not in self._refused:
                    self._digest.update(item.line)
                    self._counts[item.record.type] += 1
            done += len(batch)
            self._report_progress("copying", done)

    def _read_items(self) -> Iterator[_Item]:
        """Yield the records of the source, each checked as in an import."""
        positions: Counter[str] = Counter()
        with closing(self._source.dump(vectors=True, report_damage=self._report_damage)) as records:
            for record in records:
                if "type" not in record:
                    continue
                type, place = record["type"], name_record(record["type"], record)
                position, positions[type] = positions[type], positions[type] + 1
                try:
                    checked = check_record(record, place)
                except InvalidInput as exc:
                    self._refuse(type, position, place, str(exc))
                else:
                    yield _Item(checked, position, encode_line(record), self._is_present(record, position))

    def _is_present(self, record: Record, position: int) -> bool:
        type = record["type"]
        if type in _SORTED_BY_NAME:
            return (type, record["name"]) in self._named
        return position < self._present[type] and (type, position) not in self._absent

    def _put(self, items: Sequence[_Item]) -> None:
        """Write records, or all but those that are refused."""
        if not items:
            return
        try:
            report = self._loader.put([item.record for item in items])
        except InvalidInput as exc:
            if len(items) > 1:
                for item in items:  # one by one, to find the one that is refused
                    self._put([item])
            else:
                self._refuse(items[0].record.type, items[0].position, items[0].record.place, str(exc))
            return
        self._written += sum(not item.present for item in items) - len(report.skipped)
        for place, reason in report.skipped:
            skipped = next(item for item in items if item.record.place == place)
            self._refuse(skipped.record.type, skipped.position, place, reason)

    def _report_damage(self, name: str, damage: str) -> None:
        if not self._keep_going:
            raise StoreCorrupt(
                f"{self._source.database} is damaged: {name}: {damage}. Nothing from there on was copied; repair it, "
                "or copy what can be read with keep_going",
                hint=Hint("check"),
            )
        self._damaged.append((name, damage))

    def _refuse(self, type: str, position: int, place: str, error: str) -> None:
        """Leave a record out, or give up."""
        reason = error.removeprefix(f"{place}: ").removesuffix("; nothing from there on was imported")
        if not self._keep_going or type == "model":  # without its model, no memory could be copied
            raise InvalidInput(
                f"{self._source.database}: {place} cannot be copied: {reason}. Nothing from there on was copied; "
                "mend it, or leave it out with keep_going"
            )
        self._damaged.append((place, reason))
        self._refused.add((type, position))

    # Verifying

    def _verify(self) -> None:
        """Compare the records of the target with those that were read, by their number and a hash."""
        digest, counts, done = hashlib.sha256(), Counter[str](), 0
        with closing(_read(self._target)) as records:
            for done, record in enumerate(records, 1):
                digest.update(encode_line(record))
                counts[record["type"]] += 1
                if done % _BATCH == 0:
                    self._report_progress("verifying", done)
        self._report_progress("verifying", done)
        if digest.digest() != self._digest.digest() or counts != self._counts:
            raise self._describe_difference(counts)

    def _describe_difference(self, counts: Counter[str]) -> StoreError:
        """Return the error that names the first record in which both differ."""
        with closing(_read(self._source)) as source, closing(_read(self._target)) as target:
            pairs = zip_longest(self._leave_out_refused(source), target)
            first = next(((a, b) for a, b in pairs if a is None or b is None or encode_line(a) != encode_line(b)), None)
        other = [
            f"{counts[type]:,} of {self._counts[type]:,} {type} records"
            for type in RECORDS
            if counts[type] != self._counts[type]
        ]
        reasons = [f"it has {', '.join(other)}"] if other else []
        if first:
            record = first[0] or first[1] or {}
            kind = "is missing" if first[1] is None else "is not in the source" if first[0] is None else "differs"
            reasons.append(f"the first difference is {name_record(record['type'], record)}, which {kind}")
        return StoreError(
            f"the copy in {self._target.database} is not the same as {self._source.database}: "
            f"{'; '.join(reasons) or 'one of them was changed meanwhile'}. Do not use it: if others wrote to one of "
            "them meanwhile, stop them and migrate to an empty database"
        )

    def _leave_out_refused(self, records: Iterable[Record]) -> Iterator[Record]:
        positions: Counter[str] = Counter()
        for record in records:
            type = record["type"]
            if (type, positions[type]) not in self._refused:
                yield record
            positions[type] += 1


def _read(store: Store, *types: str) -> Generator[Record, None, None]:
    """Yield the records of a store, or those of some types, without the header."""
    # What is damaged is left out here as it is where it is reported.
    with closing(store.dump(vectors=True, types=types, report_damage=lambda name, damage: None)) as records:
        yield from (record for record in records if "type" in record)
