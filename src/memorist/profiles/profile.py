"""Every option of a search, and what it is where nobody says otherwise."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, TypedDict

from msgspec import Struct, field

from memorist.records import FUSIONS, GRAMMARS, MODES
from memorist.schemas import Meta

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
ALL_COLUMNS: Mapping[str, float] = MappingProxyType(
    {"title": 2.0, "content": 1.0, "tags": 1.5, "source": 0.5, "facts": 1.0}
)


class Recency(Struct, frozen=True):
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


class Weights(Struct, frozen=True):
    """The parts of a `linear` score."""

    semantic: float = 0.4
    keyword: float = 0.25
    salience: float = 0.2
    recency: float = 0.15


class MatchLabels(Struct, frozen=True):
    """The labels of hits of one leg, of the other, and of both."""

    keyword: str
    vector: str
    both: str


class Profile(Struct, frozen=True):
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


_Factor = Annotated[float | None, Meta(minimum=0, maximum=1)]


class ProfileOptions(TypedDict, total=False):
    """Options of a profile that one search replaces (`Profile`). None leaves one as it is."""

    grammar: Annotated[str | None, Meta("How to read the query", enum=GRAMMARS)]
    fusion: Annotated[str | None, Meta("How to combine keyword and vector scores", enum=FUSIONS)]
    alpha: Annotated[float | None, Meta("The weight of meaning against keywords", minimum=0, maximum=1)]
    rerank: Annotated[str | int | None, Meta("Have a model rerank the best hits: off, auto, or how many")]
    confidence_mode: Annotated[
        str | None, Meta("How the confidence of facts affects the score", enum=("off", "blend", "multiply"))
    ]
    min_relevance: Annotated[float | None, Meta("Only hits at least this relevant", minimum=0, maximum=1)]
    min_similarity: Annotated[
        float | None, Meta("Only hits by meaning that are at least this similar", minimum=-1, maximum=1)
    ]
    min_confidence: Annotated[float | None, Meta("Only hits at least this confident", minimum=0, maximum=1)]
    min_score: Annotated[float | None, Meta("Only hits with at least this score", minimum=0, maximum=1)]
    k: Annotated[int | None, Meta("The constant of reciprocal rank fusion", minimum=1, maximum=100_000)]
    recency: Any
    weights: Any
    columns: Mapping[str, float] | None
    sector_boosts: Mapping[str, float] | None
    sector_decay: Mapping[str, float] | str | None
    fact_decay: Mapping[str, float] | str | None
    match_labels: Any
    assistant_factor: _Factor
    confidence_weight: _Factor
    reinforcement: _Factor
    rerank_weight: _Factor
    session_smoothing: _Factor
    superseded_factor: _Factor
    time_boost: _Factor
    expansion: Annotated[float | None, Meta(minimum=0, maximum=10)]
    bm25_norm: Annotated[str | None, Meta(enum=("max", "minmax", "abs10", "tanh10", "rank"))]
    intent: Annotated[str | None, Meta(enum=("always", "auto", "never"))]
    missing: Annotated[str | None, Meta(enum=("zero", "penalty"))]
    on_no_vector: Annotated[str | None, Meta(enum=("keyword", "error"))]
    snippet: Annotated[str | None, Meta(enum=("passage", "cut", "full"))]
    unknown_mode: Annotated[str | None, Meta(enum=MODES)]
    min_candidates: Annotated[int | None, Meta(minimum=0, maximum=10_000)]
    overfetch: Annotated[int | None, Meta(minimum=1, maximum=100)]
    rerank_ms: Annotated[int | None, Meta(minimum=1, maximum=600_000)]
    snippet_words: Annotated[int | None, Meta(minimum=1, maximum=1000)]
    noise_floor: bool | None
    stemmed: bool | None
    strict_fallback: bool | None
    weigh_by_clarity: bool | None
    use_vector: bool | None
    useVector: bool | None
