"""Ranking profiles: named sets of options. Data, no code; every option can be replaced per call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

MINILM, BGE_SMALL = "local:all-MiniLM-L6-v2-int8", "local:bge-small-en-v1.5-int8"

# How near a question must be to count as found by meaning at all, by model: below it, its neighbours are noise.
# A model that is not listed has no such floor.
NOISE_FLOOR: Mapping[str, float] = MappingProxyType({MINILM: 0.15, BGE_SMALL: 0.45})

# The similarity of texts that have nothing to do with each other, where a model does not put it near 0. Beside words,
# nearness is measured from there: else all that is far away would seem half near. Not above the floor, so that what
# counts as found keeps its order. Looked at on every second conversation of LoCoMo, where .4 to .5 make no difference,
# and on 293 questions of SciFact's train part over a third of its documents, where more is a little better.
ORIGIN: Mapping[str, float] = MappingProxyType({BGE_SMALL: 0.45})

# Models that know no script but Latin: what they make of another is noise that would drown the words.
LATIN_ONLY = frozenset({MINILM, BGE_SMALL})

# Models of which a text of several sentences has a vector for every few of them, too.
SENTENCE_MODELS = frozenset({MINILM})

# ccmemory's design: insights count for more than events.
SECTOR_BOOSTS: Mapping[str, float] = MappingProxyType(
    {"reflective": 1.2, "semantic": 1.1, "procedural": 1.0, "emotional": 0.9, "episodic": 0.8}
)
# What salience loses a day, by sector: ccmemory keeps feelings longest, OpenMemory loses them first.
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
# What the confidence of a fact loses a day, by its kind: Cortex's first table (half-lives from 693 days to 7) and its
# later one. A kind that is not listed decays like `kv`.
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
RERANK_DEPTH = 40  # of the best; what is further down is hardly ever the answer
CONTENT_ONLY: Mapping[str, float] = MappingProxyType(
    {"title": 0.0, "content": 1.0, "tags": 0.0, "source": 0.0, "facts": 0.0}
)
ALL_COLUMNS: Mapping[str, float] = MappingProxyType(
    {"title": 2.0, "content": 1.0, "tags": 1.5, "source": 0.5, "facts": 1.0}
)


@dataclass(frozen=True, slots=True)
class Recency:
    """
    How age counts. `add`: exp(-rate * days) is a part of a `linear` score, with the weight it has there. `multiply`:
    the score is multiplied by 1 + weight / (1 + days). `tiers`: by 1.10, 1.05 or 1.02 within a day, a week or a month.
    `none`: not at all. `on` says whose age: of what happened (`created`), of the text (`updated`), or of the last
    recorded recall (`accessed`; of what happened where there was none).
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
class MatchWords:
    """What a profile calls a hit of one leg, of the other, and of both. None: the list of the legs' own names."""

    keyword: str
    vector: str
    both: str


@dataclass(frozen=True, slots=True)
class Profile:
    """
    Every option of a search. `alpha` is the share of the vector leg (0 = words only, 1 = meaning only); in `rrf`,
    None means that both legs count as one each. Where what was found is long, `alpha_long` takes its place, if given,
    and the best answers are added to the question with the weight `expansion` (`convex` alone). A threshold of None
    asks for nothing; 0 is a value. `noise_floor` takes the active model's own floor where no `min_similarity` is given.
    With `intent="auto"` a query of nothing but identifiers and phrases is looked for by its words alone; with
    `"cached"`, every query whose vector is not at hand. `snippet` is a `passage` around the matches, a `cut` of the
    first 100 characters, or `full`.

    `sector_decay` and `fact_decay` are what salience and confidence lose a day; a preset's name will do. Confidence is
    the mean over a memory's facts: it can `multiply` the score, `blend` into it with `confidence_weight`, or be `off`.
    `record` is what a search leaves behind: nothing (`off`; a log where a `record_session` is given), a `log`, or a log
    and a little more salience (`reinforce`, by `reinforcement`).

    `neighbours` is the share of its score that a memory lends to those made just before and after it in its session.
    `when` is how much more counts what is from the time that a question names ("last week", "in May 2023"), 0 to 1.
    `rerank` says how many of the best a cross-encoder reads a second time: none (`off`), so many, or as many as the
    time of `rerank_ms` suffices for (`auto`). `rerank_weight` is the share of what it says in the score.
    """

    name: str
    grammar: str = "auto"
    stemmed: bool = True
    intent: str = "always"
    fusion: str = "convex"
    alpha: float | None = 0.5
    alpha_long: float | None = None
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
    strict_fallback: bool = False
    noise_floor: bool = False
    min_similarity: float | None = None
    min_score: float | None = None
    min_salience: float | None = None
    min_confidence: float | None = None
    min_relevance: float | None = None
    limit: int = 10
    overfetch: int = 3
    least_candidates: int = 50
    snippet: str = "passage"
    snippet_words: int = 32
    match_words: MatchWords | None = None
    unknown_mode: str | None = None
    on_no_vector: str | None = None
    record: str = "off"
    reinforcement: float = 0.02
    neighbours: float = 0.0
    when: float = 0.0
    rerank: str | int = "off"
    rerank_ms: int = 500
    rerank_weight: float = 0.85

    @property
    def reread(self) -> int:
        """How many of the best are read a second time at most."""
        return {"off": 0, "auto": RERANK_DEPTH}[self.rerank] if isinstance(self.rerank, str) else self.rerank


# Chosen by measurement on every second conversation of LoCoMo, SciFact's train part and a set of our own:
# docs/quality.md.
_MEASURED: Any = {
    "alpha": 0.5, "alpha_long": 0.65, "expansion": 0.5, "neighbours": 0.15, "when": 0.7, "noise_floor": True,
}  # fmt: skip

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            Profile("balanced", **_MEASURED),
            # The same, and the best of it read a second time, by a model that has to be added.
            Profile("precise", **_MEASURED, rerank="auto"),
            # By words, and by meaning only where that costs nothing.
            Profile("fast", **_MEASURED, intent="cached"),
            # mcb: reciprocal rank fusion, nothing to tune.
            Profile(
                "rank",
                fusion="rrf",
                alpha=None,
                columns=CONTENT_ONLY,
                least_candidates=20,
                snippet="cut",
            ),
            # ccmemory: a weighted sum with salience, recency and sectors.
            Profile(
                "salience",
                grammar="or_prefix",
                fusion="linear",
                bm25_norm="abs10",
                columns=CONTENT_ONLY,
                sector_boosts=SECTOR_BOOSTS,
                recency=Recency("add", rate=0.05),
                overfetch=2,
                least_candidates=20,
                match_words=MatchWords("keyword", "semantic", "both"),
                record="reinforce",
            ),
            # AgentStack: vectors first, words where they end.
            Profile(
                "semantic-first",
                fusion="vector_first",
                bm25_norm="abs10",
                columns=CONTENT_ONLY,
                min_similarity=0.7,
                overfetch=1,
                least_candidates=20,
                snippet_words=64,
                match_words=MatchWords("fts", "vector", "vector"),
            ),
            # Cortex: weighted rank fusion, recency and confidence; an unknown mode is hybrid.
            Profile(
                "confidence",
                grammar="fts5",
                fusion="rrf",
                alpha=0.5,
                columns={**CONTENT_ONLY, "facts": 1.0},
                confidence_mode="multiply",
                recency=Recency("multiply", 0.1),
                min_similarity=0.3,
                min_confidence=0.1,
                limit=20,
                overfetch=2,
                least_candidates=20,
                match_words=MatchWords("bm25", "semantic", "hybrid"),
                unknown_mode="hybrid",
            ),
            # tars: every word quoted, rank fusion on a scale of 0 to 1.
            Profile(
                "notes",
                grammar="and",
                fusion="rrf",
                alpha=None,
                columns=CONTENT_ONLY,
                overfetch=2,
                least_candidates=20,
                snippet="full",
            ),
        )
    }
)
