"""Candidates: what the legs found, with all that ranking looks at, as arrays with a place for each memory."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from memorist.profiles.profile import Profile
from memorist.search.legs import LegResults
from memorist.search.signals import mean_confidence, with_effective_confidence
from memorist.store.key_set import Keys, sort_unique
from memorist.store.ranking_columns import Flags, Floats, Integers, RankingColumns
from memorist.store.records import Matches
from memorist.store.store import Store

Places = NDArray[np.intp]


class Candidates(Struct, frozen=True, eq=False):
    """
    All candidates with their columns.

    `bm25` is no number where the keyword leg did not find a memory; the rank of a leg that did not is 0. `coverage` is
    the share of the query's words that it has, rare ones counting for more. `below_floor` counts matches that were not
    similar enough to count as found, `gone` those that were removed before they could be read.
    """

    columns: RankingColumns
    bm25: Floats
    has_all_words: Flags
    coverage: Floats
    keyword_rank: Integers
    vector_rank: Integers
    confidence: Floats
    below_floor: int = 0
    gone: int = 0

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def keys(self) -> Keys:
        return self.columns.keys

    @property
    def is_matched(self) -> Flags:
        """Those that the keyword leg found."""
        matched: Flags = ~np.isnan(self.bm25)
        return matched

    @property
    def cosine(self) -> Floats:
        """The similarities as far as they count in a score: within 0..1, and 0 where there is no vector."""
        return np.clip(np.nan_to_num(self.columns.similarity), 0.0, 1.0)


class Ranking(Struct, frozen=True, eq=False):
    """
    Candidates in order: their `places`, best first, and the score of each candidate, 0..1.

    The numbers of `trace` add up to a score; one is no number where a step does not concern a candidate. `raw` are the
    numbers of a fusion before scaling.
    """

    candidates: Candidates
    places: Places
    scores: Floats
    trace: Mapping[str, Floats]
    raw: Mapping[str, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def keys(self) -> list[int]:
        """The keys, best first."""
        keys: list[int] = self.candidates.keys[self.places].tolist()
        return keys

    @property
    def ordered_scores(self) -> Floats:
        """The scores, best first."""
        return self.scores[self.places]

    def rescore(self, step: str, scores: Floats) -> "Ranking":
        """Return the ranking with other scores, whose change a step of the trace tells; the order stays."""
        changed = scores != self.scores
        if not changed.any():
            return self
        before = self.trace.get(step)  # a step may have run before the cross-encoder, too
        known = np.zeros(len(scores)) if before is None else np.nan_to_num(before)
        absent = np.nan if before is None else before
        return replace(
            self, scores=scores, trace={**self.trace, step: np.where(changed, known + scores - self.scores, absent)}
        )

    def sort(self, first: int | None = None) -> "Ranking":
        """Return the ranking with its places, or the first of them, in the order of the scores; ties stay."""
        head = self.places[:first]
        head = head[np.argsort(-self.scores[head], kind="stable")]
        return replace(self, places=np.concatenate([head, self.places[len(head) :]]))

    def trace_of(self, place: int) -> dict[str, float]:
        """Return the trace of one candidate."""
        return _pick(self.trace, place)

    def raw_of(self, place: int) -> dict[str, float]:
        """Return the numbers of one candidate before scaling."""
        legs = {"bm25": self.candidates.bm25, "cosine": self.candidates.columns.similarity}
        return _pick({**legs, **self.raw}, place)


def _pick(steps: Mapping[str, Floats], place: int) -> dict[str, float]:
    values = ((step, float(numbers[place])) for step, numbers in steps.items())
    return {step: value for step, value in values if value == value}


def gather_candidates(stores: Sequence[Store], results: LegResults, profile: Profile, now: datetime) -> Candidates:
    """Load the columns of all matches, and put the numbers of both legs beside them."""
    keyword, vector = results.keyword, results.vector
    wanted = sort_unique(np.concatenate([keyword.keys, vector.keys]))
    uses_confidence = profile.confidence_mode != "off" or profile.min_confidence is not None
    columns = RankingColumns.join(
        [
            store.load_ranking_columns(
                wanted, results.model, results.query_vector, scope, compare=compare, facts=uses_confidence
            )
            for store, scope, compare in zip(stores, results.scopes, results.compares, strict=True)
        ]
    )
    by_key = np.argsort(columns.keys)
    places = _locate(keyword.keys, columns.keys, by_key)
    is_there = places >= 0
    bm25, coverage = np.full(len(columns), np.nan), np.zeros(len(columns))
    has_all_words = np.zeros(len(columns), np.bool_)
    bm25[places[is_there]] = keyword.scores[is_there]
    coverage[places[is_there]] = keyword.coverage[is_there]
    has_all_words[places[is_there]] = keyword.has_all_words[is_there]
    vector_rank = _rank_vectors(_locate(vector.keys, columns.keys, by_key), results.similarity_floor, columns)
    found = np.flatnonzero(~np.isnan(bm25) | (vector_rank > 0))
    kept = columns if len(found) == len(columns) else columns.take(found)
    below_floor = int(np.count_nonzero(~np.isin(results.below_floor, keyword.keys))) if results.below_floor else 0
    return Candidates(
        columns=kept,
        bm25=bm25[found],
        has_all_words=has_all_words[found],
        coverage=coverage[found],
        keyword_rank=_rank_keywords(keyword, places, columns)[found],
        vector_rank=vector_rank[found],
        confidence=_measure_confidence(kept, profile, now),
        below_floor=below_floor + len(columns) - len(kept),
        gone=len(wanted) - len(columns),
    )


def _locate(keys: Keys, among: Keys, by_key: Places) -> Places:
    """Return the places of keys among others, whose order `by_key` is given; -1 where one is not there."""
    if not len(among):
        return np.full(len(keys), -1)
    places: Places = by_key[np.minimum(np.searchsorted(among, keys, sorter=by_key), len(among) - 1)]
    return np.where(among[places] == keys, places, -1)


def _measure_confidence(columns: RankingColumns, profile: Profile, now: datetime) -> Floats:
    if not any(columns.facts):
        return np.ones(len(columns))
    effective = (with_effective_confidence(facts, profile.fact_decay, now) for facts in columns.facts)
    return np.array([*map(mean_confidence, effective)], np.float64)


def _rank_keywords(matches: Matches, places: Places, columns: RankingColumns) -> Integers:
    """Rank the matches of the keyword leg; of equal ones the newer is first, then the first added."""
    ranks = np.zeros(len(columns), np.int64)
    if not len(matches):
        return ranks
    created = np.where(places >= 0, np.append(columns.created_at, 0.0)[places], 0.0)
    scores, has_all = matches.scores, matches.has_all_words
    changes = (scores[1:] != scores[:-1]) | (has_all[1:] != has_all[:-1])
    groups = np.concatenate([[0], np.cumsum(changes)])
    places = places[np.lexsort((matches.keys, -created, groups))]
    is_there = places >= 0
    ranks[places[is_there]] = np.flatnonzero(is_there) + 1
    return ranks


def _rank_vectors(places: Places, floor: float | None, columns: RankingColumns) -> Integers:
    """Rank the matches of the vector leg by similarity, where a database estimates; ties as above."""
    ranks = np.zeros(len(columns), np.int64)
    places = places[places >= 0]
    places = places[columns.similarity[places] >= (-np.inf if floor is None else floor)]  # false of no number
    order = np.lexsort((columns.keys[places], -columns.created_at[places], -columns.similarity[places]))
    ranks[places[order]] = np.arange(1, len(places) + 1)
    return ranks
