"""From what the legs found to what ranking looks at."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memorist.profiles import ORIGIN, Profile
from memorist.records import Row
from memorist.search.fusion import Candidate
from memorist.search.legs import LegResults
from memorist.search.signals import certain, confidence
from memorist.store.base import Store


@dataclass(frozen=True, slots=True)
class Candidates:
    """
    Everything a leg found, with its row; `too_far` counts what was not near enough to count as found, and `gone` what
    went before it could be read.
    """

    candidates: Sequence[Candidate]
    rows: dict[int, Row]
    too_far: int
    gone: int


def gather(
    stores: Sequence[Store], found: LegResults, profile: Profile, now: datetime, as_of: datetime | None
) -> Candidates:
    """Read the rows of what was found, once, and put the legs' numbers beside them."""
    by_word = {match.key: (place, match) for place, match in enumerate(found.keyword, 1)}
    keys = list(dict.fromkeys([*by_word, *(match.key for match in found.vector)]))
    rows = [row for store in stores if keys for row in store.load_rows(keys, found.model, found.question, as_of)]
    weighed = profile.confidence_mode != "off" or profile.min_confidence is not None
    by_meaning = _places(found, rows)
    origin = ORIGIN.get(found.model.name, 0.0) if found.model else 0.0
    candidates = []
    for row in rows:
        place, match = by_word.get(row.key, (None, None))
        if match or row.key in by_meaning:
            candidates.append(
                Candidate(
                    key=row.key,
                    bm25=match.score if match else None,
                    keyword_rank=place,
                    has_all_words=match.has_all_words if match else False,
                    coverage=match.coverage if match else 0.0,
                    similarity=row.similarity,
                    origin=origin,
                    vector_rank=by_meaning.get(row.key),
                    created_at=row.created_at,
                    updated_at=row.updated_at,
                    accessed_at=row.accessed_at,
                    reinforced_at=row.reinforced_at,
                    salience=row.salience,
                    sector=row.sector,
                    kind=row.kind,
                    source=row.source,
                    tags=row.tags,
                    superseded=row.superseded,
                    session=row.session,
                    position=row.position,
                    length=row.length,
                    confidence=confidence(certain(row.facts(), profile.fact_decay, now)) if weighed else 1.0,
                )
            )
    too_far = sum(key not in by_word for key in found.too_far) + len(rows) - len(candidates)
    return Candidates(candidates, {row.key: row for row in rows}, too_far, len(keys) - len(rows))


def _places(found: LegResults, rows: Sequence[Row]) -> dict[int, int]:
    """The places of what the vector leg found, by exact similarity: the leg itself estimates."""
    near = {match.key for match in found.vector}
    exact = [(row.similarity, row.key) for row in rows if row.key in near and row.similarity is not None]
    exact.sort(key=lambda entry: (-entry[0], entry[1]))
    near_enough = [key for similarity, key in exact if found.floor is None or similarity >= found.floor]
    return {key: place for place, key in enumerate(near_enough, 1)}
