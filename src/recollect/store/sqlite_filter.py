"""Filters as SQL, and times as SQLite keeps them: microseconds since 1970."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from recollect.records import Filter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def conditions(filter: Filter) -> tuple[str, dict[str, Any]]:
    """A filter as ` and ...` over the memories `m`, with its values."""
    clauses: list[str] = []
    values: dict[str, Any] = {}
    for column in ("project", "sector", "tier", "kind", "source"):
        wanted = getattr(filter, column)
        if len(wanted) == 1:
            clauses.append(f"m.{column} = :{column}")
            values[column] = wanted[0]
        elif wanted:
            clauses.append(f"m.{column} in (select value from json_each(:{column}))")
            values[column] = json.dumps(wanted)
    for number, tag in enumerate(filter.tags):
        clauses.append(f"exists (select 1 from memory_tags where tag = :tag{number} and rid = m.rid)")
        values[f"tag{number}"] = tag
    if filter.since is not None:
        clauses.append("m.created_at >= :since")
        values["since"] = to_micros(filter.since)
    if filter.until is not None:
        clauses.append("m.created_at < :until")
        values["until"] = to_micros(filter.until)
    if filter.min_salience is not None:
        clauses.append("m.salience >= :min_salience")
        values["min_salience"] = filter.min_salience
    return "".join(f" and {clause}" for clause in clauses), values
