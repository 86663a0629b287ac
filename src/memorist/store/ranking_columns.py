"""The part of stored memories that ranking looks at, as arrays: one for each column, with a place for each memory."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import islice, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorist.records import ASSISTANT, Fact
from memorist.store.key_set import Keys
from memorist.store.rows import ORIGIN, decode_facts, decode_tags, select_facts

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

_ROLE = re.compile(r'"role"\s*:\s*"(\w+)"')
_TIMES = ("created_at", "updated_at", "recorded_at", "accessed_at", "reinforced_at")
_POSITION = ORIGIN.format("concat(u.position, ' ', s.id)")
NO_POSITION = -1


@dataclass(frozen=True, slots=True, eq=False)
class RankingColumns:
    """
    The columns of some memories.

    `similarity` is exact: that of the whole text or of the nearest part, if it is nearer; then `passages` has the span
    of that part. It is not a number where a memory has no vector of the active model; `vectors` has a row of zeros
    there. `sessions` number the sessions that memories were created in, `positions` are the places there, and both are
    below 0 where there are none. `lengths` are those of the texts, in characters. Times are in seconds of the epoch.
    """

    keys: Keys
    similarity: Floats
    vectors: NDArray[np.float16] | None
    created_at: Floats
    updated_at: Floats
    recorded_at: Floats
    accessed_at: Floats  # not a number where it was never recalled
    reinforced_at: Floats
    salience: Floats
    sectors: Sequence[str]
    kinds: Sequence[str | None]
    sources: Sequence[str | None]
    tags: Sequence[tuple[str, ...]]
    superseded: Flags
    sessions: Integers
    positions: Integers
    by_assistant: Flags
    lengths: Integers
    facts: Sequence[tuple[Fact, ...]]  # read only where ranking looks at them
    passages: Mapping[int, tuple[int, int]]  # by key

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, places: NDArray[np.intp]) -> "RankingColumns":
        """Return the memories at some places."""
        listed = places.tolist()
        taken: dict[str, Any] = {}
        for column in fields(self):
            values = getattr(self, column.name)
            if isinstance(values, np.ndarray):
                taken[column.name] = values[places]
            elif isinstance(values, Mapping) or values is None:
                taken[column.name] = values
            else:
                taken[column.name] = [values[place] for place in listed]
        return RankingColumns(**taken)

    @classmethod
    def join(cls, parts: Sequence["RankingColumns"]) -> "RankingColumns":
        """Return the memories of several stores."""
        if len(parts) == 1:
            return parts[0]
        joined: dict[str, Any] = {}
        for column in fields(cls):
            values = [getattr(part, column.name) for part in parts]
            if column.name == "vectors":
                joined["vectors"] = _join_vectors(parts)
            elif column.name == "passages":
                joined["passages"] = {key: span for each in values for key, span in each.items()}
            elif isinstance(values[0], np.ndarray):
                joined[column.name] = np.concatenate(values)
            else:
                joined[column.name] = [value for each in values for value in each]
        joined["sessions"] = _renumber_sessions(parts)
        return cls(**joined)


def _join_vectors(parts: Sequence[RankingColumns]) -> NDArray[np.float16] | None:
    width = next((part.vectors.shape[1] for part in parts if part.vectors is not None), None)
    if width is None:
        return None
    empty = (np.zeros((len(part), width), np.float16) if part.vectors is None else part.vectors for part in parts)
    return np.concatenate([*empty])


def _renumber_sessions(parts: Sequence[RankingColumns]) -> Integers:
    """Return the sessions of several stores, which share none."""
    numbers, first = [], 0
    for part in parts:
        numbers.append(np.where(part.sessions >= 0, part.sessions + first, part.sessions))
        first += int(part.sessions.max(initial=-1)) + 1
    return np.concatenate(numbers)


@cache
def select_ranking_columns(*, past: bool = False, facts: bool = False) -> str:
    """Return the columns of a memory `m` that ranking looks at, for `to_ranking_columns`."""
    return f"""
        {", ".join(f"cast(m.{name} as double precision) / 1e6" for name in _TIMES)},
        m.salience, m.sector, m.kind, m.source, m.tags, m.valid_until is not null, length(m.content), m.metadata,
        ({_POSITION}), {f"m.id, ({select_facts(past)})" if facts else "null, null"}
    """


def to_ranking_columns(
    keys: Keys,
    similarity: Floats,
    vectors: NDArray[np.float16] | None,
    passages: Mapping[int, tuple[int, int]],
    rows: Sequence[Sequence[Any]],
) -> RankingColumns:
    """Make columns of rows that `select_ranking_columns` has selected."""
    columns = iter(zip(*rows, strict=True) if rows else repeat(()))
    times = {name: np.array(next(columns), np.float64) for name in _TIMES}
    salience, sectors, kinds, sources, tags, superseded, lengths, metadata, places, ids, facts = islice(columns, 11)
    sessions, positions = _number_sessions(places)
    return RankingColumns(
        keys=keys,
        similarity=similarity,
        vectors=vectors,
        passages=passages,
        **times,
        salience=np.array(salience, np.float64),
        sectors=sectors,
        kinds=kinds,
        sources=sources,
        tags=[*map(decode_tags, tags)],
        superseded=np.array(superseded, np.bool_),
        sessions=sessions,
        positions=positions,
        by_assistant=np.array([*map(_is_of_assistant, places, metadata)], np.bool_),
        lengths=np.array(lengths, np.int64),
        facts=[() if text is None else decode_facts(id, text) for id, text in zip(ids, facts, strict=True)],
    )


def _number_sessions(places: Sequence[str | None]) -> tuple[Integers, Integers]:
    """Return the number of each memory's session, and its position there."""
    sessions, positions = np.full(len(places), -1), np.full(len(places), NO_POSITION)
    numbers: dict[str, int] = {}
    for at, place in enumerate(places):
        if place is not None:
            position, _, session = place.partition(" ")
            sessions[at] = numbers.setdefault(session, len(numbers))
            if position:
                positions[at] = int(position)
    return sessions, positions


def _is_of_assistant(place: str | None, metadata: str) -> bool:
    role = None if place is None else _ROLE.search(metadata)  # for many rows, parsing all of it takes too long
    return role is not None and role[1] == ASSISTANT
