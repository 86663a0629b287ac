"""The systems that an evaluation compares: searches with a mode, a profile and options, and grep as a baseline."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from memorist.engine import Memorist
from memorist.errors import EmbedderError, InvalidInput
from memorist.evaluate.dataset import CorpusDocument, Question
from memorist.evaluate.indexing import IndexedDataset
from memorist.evaluate.metrics import MAX_RANK
from memorist.profiles import PROFILES
from memorist.profiles.profile import Profile
from memorist.records import MODES
from memorist.search import options

_LEG_MODES = ("keyword", "semantic")
_OPTION_NAMES = tuple(option for option in Profile.__struct_fields__ if option not in ("name", "limit", "record"))
# Options for fusing and reranking the candidates of several legs: a single leg does without them.
_FUSION_OPTIONS = (
    "alpha",
    "weigh_by_clarity",
    "expansion",
    "fusion",
    "k",
    "missing",
    "weights",
    "rerank",
    "rerank_ms",
    "rerank_weight",
)
_WORD = re.compile(r"\w+")
_PAGE = 10  # hits


class RetrievalResult(Struct, frozen=True):
    """The ids that a system found, best first."""

    ids: Sequence[str]
    relevance: float | None = None  # the highest of a first page, which decides whether a question is answered
    degraded: str | None = None  # what was missing, in words
    timed: bool = True  # False where the time is not its own: a cache had some of the reranker's scores


class System(Protocol):
    """Anything that finds documents for a question."""

    @property
    def name(self) -> str: ...

    def retrieve(self, question: Question) -> RetrievalResult: ...


class SearchConfig(Struct, frozen=True):
    """A search mode, a profile, and options that replace the profile's own."""

    mode: str
    profile: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The profile with its replaced options, and the mode unless it is hybrid."""
        replaced = ",".join(f"{name}={_format_value(value)}" for name, value in self.options.items())
        profile = f"{self.profile}:{replaced}" if replaced else self.profile
        return profile if self.mode == "hybrid" else f"{profile} {self.mode}"

    def leg_config(self, mode: str) -> "SearchConfig":
        """Return the same search with a single leg, without reranking."""
        kept = {name: value for name, value in self.options.items() if name not in _FUSION_OPTIONS}
        if PROFILES[self.profile].rerank != "off":
            kept["rerank"] = "off"
        return SearchConfig(mode, self.profile, kept)


class MemoristSystem:
    """A search of an indexed dataset, or of a user's own memories."""

    def __init__(self, config: SearchConfig, memory: Memorist, indexed: IndexedDataset | None = None) -> None:
        self._config, self._memory, self._indexed = config, memory, indexed

    @property
    def name(self) -> str:
        return self._config.name

    def retrieve(self, question: Question) -> RetrievalResult:
        config, cache_hits = self._config, self._cache_hits
        try:
            results = self._memory.search(
                question.text,
                limit=MAX_RANK,
                mode=config.mode,
                profile=config.profile,
                project=question.scope,
                now=question.asked_at,
                record="off",
                **config.options,
            )
        except EmbedderError as exc:  # a leg without its model counts as one that finds nothing
            return RetrievalResult((), degraded=str(exc))
        ids = [hit.memory.id for hit in results]
        if self._indexed:
            ids = self._indexed.document_ids(ids)[:MAX_RANK]
        timed = self._cache_hits == cache_hits
        relevance = max((hit.relevance for hit in results[:_PAGE]), default=0.0)
        return RetrievalResult(ids, relevance, results.degraded, timed)

    @property
    def _cache_hits(self) -> int:
        """The number of reranker scores that were taken from the cache so far."""
        return self._indexed.reranker.cache_hits if self._indexed and self._indexed.reranker else 0


class GrepSystem:
    """The simplest baseline: texts with most words of the question first, then those that have them most often."""

    name = "grep"

    def __init__(self, documents: Iterable[CorpusDocument]) -> None:
        self._scopes: list[str | None] = []
        self._ids: list[str] = []
        self._postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)  # word -> (document, occurrences)
        for number, document in enumerate(documents):
            self._ids.append(document.id)
            self._scopes.append(document.scope)
            for word, occurrences in Counter(_tokenize(f"{document.title or ''}\n{document.text}")).items():
                self._postings[word].append((number, occurrences))

    def retrieve(self, question: Question) -> RetrievalResult:
        words_found: Counter[int] = Counter()
        total_occurrences: Counter[int] = Counter()
        for word in dict.fromkeys(_tokenize(question.text)):
            for number, occurrences in self._postings.get(word, ()):
                if question.scope is None or self._scopes[number] == question.scope:
                    words_found[number] += 1
                    total_occurrences[number] += occurrences
        best = sorted(words_found, key=lambda number: (-words_found[number], -total_occurrences[number], number))
        return RetrievalResult([self._ids[number] for number in best[:MAX_RANK]])


def parse_configs(modes: Sequence[str], specs: Sequence[str], overrides: Mapping[str, Any]) -> list[SearchConfig]:
    """Return every profile in every mode, each once. See `parse_config` for a spec."""
    configs = [parse_config(spec, mode, overrides) for spec in specs for mode in modes]
    return list({config.name: config for config in configs}.values())


def parse_config(spec: str, mode: str, overrides: Mapping[str, Any] | None = None) -> SearchConfig:
    """Parse a mode, or a profile with options that replace `overrides`, such as `balanced:alpha=.3,fusion=rrf`."""
    name, _, pairs = spec.partition(":")
    if name in MODES:
        name, mode = "balanced", name
    if name not in PROFILES:
        raise InvalidInput(f"there is no profile {name!r}; there are: {', '.join(PROFILES)}")
    replaced = {**(overrides or {}), **parse_options(pairs.split(",") if pairs else ())}
    profile = options.apply_options(PROFILES[name], replaced)
    return SearchConfig(options.parse_mode(mode, profile), name, replaced)


def parse_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse options of the form `name=value`, or `name.key=value` for one entry of a mapping."""
    parsed: dict[str, Any] = {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        name, _, key = path.strip().partition(".")
        if not equals or name not in _OPTION_NAMES:
            names = ", ".join(_OPTION_NAMES)
            raise InvalidInput(f"{pair!r} does not set an option; write name=value, with one of: {names}")
        if key:
            parsed[name] = {**parsed.get(name, {}), key: _parse_value(text)}
        else:
            parsed[name] = _parse_value(text)
    return parsed


def add_legs(configs: Sequence[SearchConfig]) -> list[SearchConfig]:
    """Return the single legs of the configurations, then the configurations, each once."""
    legs = [config.leg_config(mode) for config in configs for mode in _LEG_MODES]
    return list({config.name: config for config in (*legs, *configs)}.values())


def _parse_value(text: str) -> Any:
    """Return a number, a boolean, or else the text itself."""
    text = text.strip()
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _tokenize(text: str) -> list[str]:
    return _WORD.findall(text.lower())
