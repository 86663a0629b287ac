"""
Profiles and words of the five systems that Memorist grew out of, which nothing else needs.

The profiles are sets of the same options as all others; beside them stand tables, other names of modes, and
AgentStack's `useVector`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from memorist import validation
from memorist.errors import InvalidInput
from memorist.profiles.profile import MatchLabels, Profile, Recency

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

MODE_ALIASES: Mapping[str, str] = MappingProxyType(
    {"fts": "keyword", "bm25": "keyword", "text": "keyword", "vec": "semantic", "vector": "semantic", "both": "hybrid"}
)
_USE_VECTOR = ("use_vector", "useVector")
_CONTENT_ONLY: Mapping[str, float] = MappingProxyType(
    {"title": 0.0, "content": 1.0, "tags": 0.0, "source": 0.0, "facts": 0.0}
)

SOURCE_PROFILES = (
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


def split_use_vector(options: Mapping[str, Any]) -> tuple[bool | None, dict[str, Any]]:
    """Return AgentStack's `useVector`, if it is given, and the other options; True asks the model for any query."""
    rest = {option: value for option, value in options.items() if option not in _USE_VECTOR}
    flags = {validation.flag(options[name], name) for name in _USE_VECTOR if options.get(name) is not None}
    if len(flags) > 1:
        raise InvalidInput(f"{' and '.join(_USE_VECTOR)} are one option; give one of them")
    use_vector = flags.pop() if flags else None
    return use_vector, {**rest, "intent": "always"} if use_vector else rest
