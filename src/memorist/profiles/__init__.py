"""Ranking profiles: named sets of options, as data. Every option can be replaced per call."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from memorist.profiles.compat import SOURCE_PROFILES
from memorist.profiles.profile import Profile

BUNDLED = "local:memorist-embed-v1-int8"

# The similarity below which a match of the vector leg is noise, by model. A model that is not listed has no floor.
NOISE_FLOOR: Mapping[str, float] = MappingProxyType({BUNDLED: 0.2})

# Models that read Latin script only: their similarity of other scripts is noise that would drown the words.
LATIN_ONLY = frozenset({BUNDLED})

# Models of which a text of several sentences has a vector for every few of them, too.
SENTENCE_MODELS = frozenset({BUNDLED})

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
            *SOURCE_PROFILES,
        )
    }
)
