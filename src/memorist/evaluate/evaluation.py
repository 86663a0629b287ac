"""
An evaluation: the systems that it compares, run over a dataset, and how good their answers and their relevance are.

The systems are searches with a mode, a profile and options, the single legs of these, and grep as a baseline.
"""

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from memorist.engine import Memorist
from memorist.errors import EmbedderError, InvalidInput
from memorist.evaluate.dataset import CorpusDocument, Dataset, Question
from memorist.evaluate.indexing import IndexedDataset, Progress
from memorist.evaluate.metrics import MAX_RANK, measure_ranking, relevant_ids
from memorist.profiles import PROFILES
from memorist.profiles.profile import Profile
from memorist.records import MODES, RELEVANT
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


class QuestionResult(Struct, frozen=True):
    """The documents that a system found for a question, their measures, and the time if all of it was the system's."""

    question: Question
    found: tuple[str, ...]
    measures: Mapping[str, float]
    ms: float | None
    relevance: float | None = None


class SystemResult(Struct, frozen=True):
    """All answers of one system, and the distinct reasons why some were degraded."""

    name: str
    answers: tuple[QuestionResult, ...]
    degraded: tuple[str, ...] = ()


def run_system(system: System, questions: Sequence[Question], progress: Progress | None = None) -> SystemResult:
    """Ask the questions in order. The first is asked once before, so that loading models is not timed."""
    answers: list[QuestionResult] = []
    degraded: dict[str, None] = {}
    for question in questions[:1]:
        system.retrieve(question)
    for done, question in enumerate(questions, 1):
        started = time.perf_counter()
        result = system.retrieve(question)
        ms = (time.perf_counter() - started) * 1000
        measures = measure_ranking(result.ids, question.judgements)
        answers.append(
            QuestionResult(question, tuple(result.ids), measures, ms if result.timed else None, result.relevance)
        )
        if result.degraded:
            degraded[result.degraded] = None
        if progress:
            progress(done)
    return SystemResult(system.name, tuple(answers), tuple(degraded))


class RelevanceCalibration(Struct, frozen=True):
    """The errors of `relevance` over questions with and without an answer."""

    auc: float  # the probability that a question with an answer has a higher relevance than one without
    false_answers: float  # the share of questions without an answer at or above the floor
    missed: float  # the share of questions with an answer below it
    missed_first: float  # the share of those with an answer in the first place, and yet below it
    floor: float
    without_answer: int
    categories: Mapping[str, "RelevanceCalibration"] = field(default_factory=dict)  # of questions without an answer


def make_unanswerable_questions(dataset: Dataset) -> tuple[Question, ...]:
    """Return each question in another scope, where nothing answers it; without scopes, those that have no answer."""
    scopes = sorted({document.scope for document in dataset.documents if document.scope is not None})
    if len(scopes) < 2 or any(question.scope is None for question in dataset.questions):
        return dataset.unanswered
    next_scope = dict(zip(scopes, [*scopes[1:], scopes[0]], strict=True))
    return tuple(
        replace(question, scope=next_scope[question.scope], judgements={})
        for question in dataset.questions
        if question.scope in next_scope
    )


def measure_calibration(
    answerable: Sequence[QuestionResult], unanswerable: Sequence[QuestionResult]
) -> RelevanceCalibration:
    """Compare the relevance of what was found for questions with and without an answer."""
    categories = {category for result in unanswerable if (category := result.question.category)}
    positives = np.array([result.relevance or 0.0 for result in answerable])
    negatives = np.sort([result.relevance or 0.0 for result in unanswerable])
    first = [bool(relevant_ids(result.question.judgements).intersection(result.found[:1])) for result in answerable]
    twice_below = np.searchsorted(negatives, positives, "left") + np.searchsorted(negatives, positives, "right")
    return RelevanceCalibration(
        float(twice_below.mean() / 2 / len(negatives)),
        float((negatives >= RELEVANT).mean()),
        float((positives < RELEVANT).mean()),
        float(((positives < RELEVANT) & np.array(first)).mean()),
        RELEVANT,
        len(negatives),
        {
            name: measure_calibration(
                answerable,
                [
                    replace(each, question=replace(each.question, category=None))
                    for each in unanswerable
                    if each.question.category == name
                ],
            )
            for name in sorted(categories)
            if len(categories) > 1
        },
    )


_ProgressFactory = Callable[[str, int], AbstractContextManager[Progress]]  # (label, length)


class DatasetResult(Struct, frozen=True):
    """The results of all systems on a dataset."""

    dataset: Dataset
    systems: tuple[SystemResult, ...]
    chosen: tuple[str, ...]  # the systems that were asked for; the others are there for comparison
    calibration: Mapping[str, RelevanceCalibration] = field(default_factory=dict)  # by system


@contextmanager
def _ignore_progress(label: str, length: int) -> Iterator[Progress]:
    yield lambda done: None


def evaluate_dataset(
    dataset: Dataset,
    configs: Sequence[SearchConfig],
    memory: Memorist,
    indexed: IndexedDataset | None = None,
    *,
    relevance: bool = False,
    progress: _ProgressFactory = _ignore_progress,
) -> DatasetResult:
    """Ask grep, the configurations and their legs all questions; with `relevance`, also some without an answer."""
    searches = [MemoristSystem(config, memory, indexed) for config in add_legs(configs)]
    systems: list[System] = [GrepSystem(dataset.documents), *searches]
    results = {}
    for system in systems:
        with progress(f"{dataset.name}: {system.name}", len(dataset.questions)) as advance:
            results[system.name] = run_system(system, dataset.questions, advance)
    chosen = tuple(config.name for config in configs)
    calibration = {}
    if relevance and (questions := make_unanswerable_questions(dataset)):
        for search in searches:
            if search.name in chosen:
                with progress(f"{dataset.name}: {search.name}, without an answer", len(questions)) as advance:
                    unanswerable = run_system(search, questions, advance)
                calibration[search.name] = measure_calibration(results[search.name].answers, unanswerable.answers)
    return DatasetResult(dataset, tuple(results.values()), chosen, calibration)
