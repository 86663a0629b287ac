"""Candidates: the matches of both legs, joined with the rows that ranking looks at."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memorist.profiles import UNRELATED_SIMILARITY, Profile
from memorist.records import Row
from memorist.search.fusion import Candidate
from memorist.search.legs import LegResults
from memorist.search.signals import mean_confidence, with_effective_confidence
from memorist.store.store import Store


@dataclass(frozen=True, slots=True)
class Candidates:
    """
    All candidates with their rows.

    `below_floor` counts matches that were not similar enough to count as found, `gone` those that were removed before
    they could be read.
    """

    candidates: Sequence[Candidate]
    rows: dict[int, Row]
    below_floor: int
    gone: int

    @property
    def keys(self) -> list[int]:
        return [candidate.key for candidate in self.candidates]


def gather_candidates(
    stores: Sequence[Store], results: LegResults, profile: Profile, now: datetime, as_of: datetime | None
) -> Candidates:
    """Load the rows of all matches in one read, and put the scores of both legs beside them."""
    by_keyword = {match.key: (rank, match) for rank, match in enumerate(results.keyword, 1)}
    keys = list(dict.fromkeys([*by_keyword, *(match.key for match in results.vector)]))
    model, vector = results.model, results.query_vector
    rows = [row for store in stores if keys for row in store.load_rows(keys, model, vector, as_of)]
    uses_confidence = profile.confidence_mode != "off" or profile.min_confidence is not None
    vector_ranks = _vector_ranks(results, rows)
    unrelated = UNRELATED_SIMILARITY.get(results.model.name, 0.0) if results.model else 0.0
    candidates = []
    for row in rows:
        rank, match = by_keyword.get(row.key, (None, None))
        if match or row.key in vector_ranks:
            facts = with_effective_confidence(row.facts(), profile.fact_decay, now) if uses_confidence else ()
            candidates.append(
                Candidate(
                    key=row.key,
                    bm25=match.score if match else None,
                    keyword_rank=rank,
                    has_all_words=match.has_all_words if match else False,
                    coverage=match.coverage if match else 0.0,
                    similarity=row.similarity,
                    unrelated_similarity=unrelated,
                    vector_rank=vector_ranks.get(row.key),
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
                    confidence=mean_confidence(facts),
                )
            )
    below_floor = sum(key not in by_keyword for key in results.below_floor) + len(rows) - len(candidates)
    return Candidates(candidates, {row.key: row for row in rows}, below_floor, len(keys) - len(rows))


def _vector_ranks(results: LegResults, rows: Sequence[Row]) -> dict[int, int]:
    """Rank the matches of the vector leg by exact similarity; the leg itself estimates."""
    matched = {match.key for match in results.vector}
    exact = [(row.similarity, row.key) for row in rows if row.key in matched and row.similarity is not None]
    exact.sort(key=lambda entry: (-entry[0], entry[1]))
    floor = results.similarity_floor
    return {key: rank for rank, (_, key) in enumerate((e for e in exact if floor is None or e[0] >= floor), 1)}
