"""The part of stored memories that ranking looks at, as arrays: one for each column, with a place for each memory."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice, repeat
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import NDArray

from memorist.records import Fact
from memorist.store.image import (
    IMAGE_POSITION,
    NO_POSITION,
    TIMES,
    Image,
    is_of_assistant,
    list_places_of_turns,
    read_places,
)
from memorist.store.inverted_index import Rows
from memorist.store.key_set import Keys
from memorist.store.records import Compared
from memorist.store.rows import decode_facts, decode_tags, select_facts
from memorist.store.vector_scan import Codes

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

_TIMES = TIMES[:-1]  # what has expired is not ranked
__all__ = ["NO_POSITION", "Flags", "Floats", "Integers", "RankingColumns"]


class RankingColumns(Struct, frozen=True, eq=False):
    """
    The columns of some memories.

    `similarity` is that of the whole text or of the nearest part, if it is nearer; then `parts` has the number of that
    part. It is not a number where a memory has no vector of the active model; `codes` has a row of zeros there.
    `sessions` are the keys of the sessions that turns were said in, `positions` the places there, and both are below 0
    for notes. `lengths` are those of the texts, in characters. Times are in seconds of the epoch.
    """

    keys: Keys
    similarity: Floats
    codes: Codes | None
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
    parts: Mapping[int, int]  # by key

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, places: NDArray[np.intp]) -> "RankingColumns":
        """Return the memories at some places."""
        listed = places.tolist()
        taken: dict[str, Any] = {}
        for column, values in asdict(self).items():
            if isinstance(values, np.ndarray):
                taken[column] = values[places]
            elif isinstance(values, Mapping) or values is None:
                taken[column] = values
            else:
                taken[column] = [values[place] for place in listed]
        return RankingColumns(**taken)

    @classmethod
    def join(cls, parts: Sequence["RankingColumns"]) -> "RankingColumns":
        """Return the memories of several stores of one database."""
        if len(parts) == 1:
            return parts[0]
        joined: dict[str, Any] = {}
        for column in cls.__struct_fields__:
            values = [getattr(part, column) for part in parts]
            if column == "codes":
                joined["codes"] = _join_codes(parts)
            elif column == "parts":
                joined["parts"] = {key: part for each in values for key, part in each.items()}
            elif isinstance(values[0], np.ndarray):
                joined[column] = np.concatenate(values)
            else:
                joined[column] = [value for each in values for value in each]
        return cls(**joined)


def _join_codes(parts: Sequence[RankingColumns]) -> Codes | None:
    known = next((part.codes for part in parts if part.codes is not None), None)
    if known is None:
        return None
    shape = known.shape[1]
    empty = (np.zeros((len(part), shape), known.dtype) if part.codes is None else part.codes for part in parts)
    joined: Codes = np.concatenate([*empty])
    return joined


@cache
def select_ranking_columns(*, past: bool = False, facts: bool = False) -> str:
    """Return the columns of a memory `m` that ranking looks at, for `to_ranking_columns`."""
    return f"""
        {", ".join(f"cast(m.{name} as double precision) / 1e6" for name in _TIMES)},
        m.salience, m.sector, m.kind, m.source, m.tags, m.valid_until is not null, length(m.content), m.metadata,
        ({IMAGE_POSITION}), {f"m.id, ({select_facts(past)})" if facts else "null, null"}
    """


def to_ranking_columns(keys: Keys, compared: Compared, rows: Sequence[Sequence[Any]]) -> RankingColumns:
    """Make columns of rows that `select_ranking_columns` has selected."""
    columns = iter(zip(*rows, strict=True) if rows else repeat(()))
    times = {name: np.array(next(columns), np.float64) for name in _TIMES}
    salience, sectors, kinds, sources, tags, superseded, lengths, metadata, places, ids, facts = islice(columns, 11)
    turns = list_places_of_turns(places, kinds, metadata)
    sessions, positions = read_places(turns)
    return RankingColumns(
        keys=keys,
        similarity=compared.similarities,
        codes=compared.codes,
        **times,
        salience=np.array(salience, np.float64),
        sectors=sectors,
        kinds=kinds,
        sources=sources,
        tags=[*map(decode_tags, tags)],
        superseded=np.array(superseded, np.bool_),
        sessions=np.array(sessions, np.int64),
        positions=np.array(positions, np.int64),
        by_assistant=np.array([*map(is_of_assistant, turns, metadata)], np.bool_),
        lengths=np.array(lengths, np.int64),
        facts=[() if text is None else decode_facts(id, text) for id, text in zip(ids, facts, strict=True)],
        parts=_by_key(keys, compared),
    )


def take_ranking_columns(
    image: Image, rows: Rows, compared: Compared, facts: Mapping[int, tuple[Fact, ...]]
) -> RankingColumns:
    """Return the columns of rows of an image."""
    keys, columns = image.index.keys[rows], image.columns
    return RankingColumns(
        keys=keys,
        similarity=compared.similarities,
        codes=compared.codes,
        **{name: image.times(name, rows) for name in _TIMES},
        salience=columns["salience"][rows],
        sectors=image.values("sector", rows),
        kinds=image.values("kind", rows),
        sources=image.values("source", rows),
        tags=image.values("tags", rows),
        superseded=columns["superseded"][rows],
        sessions=columns["sessions"][rows].astype(np.int64),
        positions=columns["positions"][rows].astype(np.int64),
        by_assistant=columns["by_assistant"][rows],
        lengths=columns["lengths"][rows].astype(np.int64),
        facts=[facts.get(key, ()) for key in keys.tolist()] if facts else [()] * len(keys),
        parts=_by_key(keys, compared),
    )


def _by_key(keys: Keys, compared: Compared) -> dict[int, int]:
    return {int(keys[place]): part for place, part in compared.parts.items()}
