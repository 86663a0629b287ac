"""Ranking profiles: named sets of options, as data. Every option can be replaced per call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

BUNDLED = "local:memorist-embed-v1-int8"

# The similarity below which a match of the vector leg is noise, by model. A model that is not listed has no floor.
NOISE_FLOOR: Mapping[str, float] = MappingProxyType({BUNDLED: 0.2})

# Models that read Latin script only: their similarity of other scripts is noise that would drown the words.
LATIN_ONLY = frozenset({BUNDLED})

# Models of which a text of several sentences has a vector for every few of them, too.
SENTENCE_MODELS = frozenset({BUNDLED})

# ccmemory's design: insights count for more than events.
SECTOR_BOOSTS: Mapping[str, float] = MappingProxyType(
    {"reflective": 1.2, "semantic": 1.1, "procedural": 1.0, "emotional": 0.9, "episodic": 0.8}
)
# The decay of salience a day, by sector: ccmemory keeps emotional memories longest, OpenMemory loses them first.
SECTOR_DECAY: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "ccmemory": MappingProxyType(
            {"emotional": 0.003, "semantic": 0.005, "reflective": 0.008, "procedural": 0.01, "episodic": 0.02}
        ),
        "openmemory": MappingProxyType(
            {"reflective": 0.001, "semantic": 0.005, "procedural": 0.008, "episodic": 0.015, "emotional": 0.02}
        ),
    }
)
# The decay of a fact's confidence a day, by kind: Cortex's first table (half-lives from 693 days to 7) and its later
# one. A kind that is not listed decays like `kv`.
FACT_DECAY: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "slow": MappingProxyType(
            {
                "identity": 0.001, "decision": 0.002, "relationship": 0.003, "location": 0.005, "preference": 0.01,
                "kv": 0.01, "state": 0.05, "temporal": 0.1,
            }
        ),
        "fast": MappingProxyType(
            {
                "identity": 0.01, "preference": 0.02, "relationship": 0.02, "config": 0.03, "location": 0.03,
                "decision": 0.05, "kv": 0.05, "state": 0.1, "temporal": 0.15,
            }
        ),
    }
)  # fmt: skip
_RERANK_DEPTH = 20  # candidates; what ranks lower is hardly ever the answer
_CONTENT_ONLY: Mapping[str, float] = MappingProxyType(
    {"title": 0.0, "content": 1.0, "tags": 0.0, "source": 0.0, "facts": 0.0}
)
ALL_COLUMNS: Mapping[str, float] = MappingProxyType(
    {"title": 2.0, "content": 1.0, "tags": 1.5, "source": 0.5, "facts": 1.0}
)


@dataclass(frozen=True, slots=True)
class Recency:
    """
    The influence of age. `add`: exp(-rate * days) is a part of a `linear` score, with the weight it has there.
    `multiply`: the score is multiplied by 1 + weight / (1 + days). `tiers`: by 1.10, 1.05 or 1.02 within a day, a week
    or a month. `none`: age does not count. `on` chooses the age: since the memory was `created`, since its text was
    `updated`, since it was stored (`imported`), or since the last recorded recall (`accessed`; `created` where there
    was none).
    """

    form: str = "none"
    weight: float = 0.0
    rate: float = 0.0
    on: str = "created"


@dataclass(frozen=True, slots=True)
class Weights:
    """The parts of a `linear` score."""

    semantic: float = 0.4
    keyword: float = 0.25
    salience: float = 0.2
    recency: float = 0.15


@dataclass(frozen=True, slots=True)
class MatchLabels:
    """The labels of hits of one leg, of the other, and of both."""

    keyword: str
    vector: str
    both: str


@dataclass(frozen=True, slots=True)
class Profile:
    """
    Every option of a search.

    `alpha` is the share of the vector leg (0 = words only, 1 = meaning only); None in `rrf` gives both legs the weight
    1. With `weigh_by_clarity` (`convex` alone) each leg counts the more, the further its best match stands out from its
    others. The best hits are added to the query with the weight `expansion`, if texts are long (`convex` alone).
    Turns of an assistant are multiplied by `assistant_factor`, unless the query asks what the assistant said. A
    threshold of None is off; 0 is a value. `noise_floor` applies the active model's own floor where no `min_similarity`
    is given. With `intent="auto"` a hybrid search for identifiers and phrases alone is one by words only; with
    `"never"`, every hybrid search is. `snippet` is a `passage` around the matches, a `cut` of the first 100 characters,
    or `full`.

    `sector_decay` and `fact_decay` are the daily decay of salience and confidence, as a table or a preset's name.
    Confidence is the mean over a memory's facts: it can `multiply` the score, `blend` into it with `confidence_weight`,
    or be `off`. `record` says what a search records: nothing (`off`; a log where a `record_session` is given), a `log`,
    or a log and a little more salience (`reinforce`, by `reinforcement`).

    `session_smoothing` is the share of its neighbours' scores that is added to a turn's score. `time_boost`, 0 to 1,
    says how much memories from a time that the query names ("last week", "in May 2023") are preferred. `rerank` says
    how many candidates a cross-encoder reads: none (`off`), a number, or as many as it can in `rerank_ms` (`auto`).
    `rerank_weight` is the share of its score.
    """

    name: str
    grammar: str = "auto"
    stemmed: bool = True
    intent: str = "always"
    fusion: str = "convex"
    alpha: float | None = 0.5
    weigh_by_clarity: bool = False
    expansion: float = 0.0
    k: int = 60
    missing: str = "zero"
    bm25_norm: str = "max"
    columns: Mapping[str, float] = field(default_factory=lambda: ALL_COLUMNS)
    weights: Weights = Weights()
    sector_boosts: Mapping[str, float] = field(default_factory=dict)
    recency: Recency = Recency()
    sector_decay: Mapping[str, float] = field(default_factory=dict)
    fact_decay: Mapping[str, float] = field(default_factory=lambda: FACT_DECAY["slow"])
    confidence_mode: str = "off"
    confidence_weight: float = 0.2
    superseded_factor: float = 0.5
    assistant_factor: float = 1.0
    strict_fallback: bool = False
    noise_floor: bool = False
    min_similarity: float | None = None
    min_score: float | None = None
    min_salience: float | None = None
    min_confidence: float | None = None
    min_relevance: float | None = None
    limit: int = 10
    overfetch: int = 3
    min_candidates: int = 50
    snippet: str = "passage"
    snippet_words: int = 32
    match_labels: MatchLabels | None = None
    unknown_mode: str | None = None
    on_no_vector: str | None = None
    record: str = "off"
    reinforcement: float = 0.02
    session_smoothing: float = 0.0
    time_boost: float = 0.0
    rerank: str | int = "off"
    rerank_ms: int = 500
    rerank_weight: float = 0.6

    @property
    def rerank_depth(self) -> int:
        """The number of candidates that the reranker reads at most."""
        return {"off": 0, "auto": _RERANK_DEPTH}[self.rerank] if isinstance(self.rerank, str) else self.rerank


# Chosen by measurement on every second conversation of LoCoMo, SciFact's train part and a set of our own:
# docs/quality.md.
_MEASURED: Any = {
    "alpha": 0.8, "weigh_by_clarity": True, "expansion": 0.5, "session_smoothing": 0.15, "time_boost": 0.7,
    "assistant_factor": 0.8, "noise_floor": True, "min_candidates": 64,
}  # fmt: skip

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            Profile("balanced", **_MEASURED),
            # The same, and the best candidates reranked, by an optional model.
            Profile("precise", **_MEASURED, rerank="auto"),
            # By words alone: no model is loaded.
            Profile("fast", **_MEASURED, intent="never"),
            # mcb: reciprocal rank fusion, nothing to tune.
            Profile("rank", fusion="rrf", alpha=None, columns=_CONTENT_ONLY, min_candidates=20, snippet="cut"),
            # ccmemory: a weighted sum with salience, recency and sectors.
            Profile(
                "salience",
                grammar="or_prefix",
                fusion="linear",
                bm25_norm="abs10",
                columns=_CONTENT_ONLY,
                sector_boosts=SECTOR_BOOSTS,
                recency=Recency("add", rate=0.05),
                overfetch=2,
                min_candidates=20,
                match_labels=MatchLabels("keyword", "semantic", "both"),
                record="reinforce",
            ),
            # AgentStack: vectors first, words where they end.
            Profile(
                "semantic-first",
                fusion="vector_first",
                bm25_norm="abs10",
                columns=_CONTENT_ONLY,
                min_similarity=0.7,
                overfetch=1,
                min_candidates=20,
                snippet_words=64,
                match_labels=MatchLabels("fts", "vector", "vector"),
            ),
            # Cortex: weighted rank fusion, recency and confidence; an unknown mode is hybrid.
            Profile(
                "confidence",
                grammar="fts5",
                fusion="rrf",
                alpha=0.5,
                columns={**_CONTENT_ONLY, "facts": 1.0},
                confidence_mode="multiply",
                recency=Recency("multiply", 0.1, on="imported"),
                min_similarity=0.3,
                min_confidence=0.1,
                limit=20,
                overfetch=2,
                min_candidates=20,
                match_labels=MatchLabels("bm25", "semantic", "hybrid"),
                unknown_mode="hybrid",
            ),
            # tars: every word quoted, rank fusion on a scale of 0 to 1.
            Profile(
                "notes",
                grammar="and",
                fusion="rrf",
                alpha=None,
                columns=_CONTENT_ONLY,
                overfetch=2,
                min_candidates=20,
                snippet="full",
            ),
        )
    }
)
