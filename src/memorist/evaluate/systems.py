"""Ways to answer a question: a mode and a profile, with options replaced; its single legs; and grep, to compare."""

import dataclasses
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from memorist.engine import Memorist
from memorist.errors import EmbedderError, InvalidInput
from memorist.evaluate.dataset import CorpusDocument, Question
from memorist.evaluate.indexing import Indexed
from memorist.evaluate.metrics import PLACES
from memorist.profiles import PROFILES, Profile
from memorist.records import MODES
from memorist.search import options

LEGS = ("keyword", "semantic")
_OPTIONS = tuple(each.name for each in dataclasses.fields(Profile) if each.name not in ("name", "limit", "record"))
# What is done with the answers of legs: one by itself goes without.
_AFTERWARDS = ("alpha", "fusion", "k", "missing", "weights", "rerank", "rerank_ms", "rerank_weight")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Retrieved:
    """
    What came back: ids, best first; how relevant the best one says it is; what was missing, in words; and whether it
    took its time: not where a reranker's scores were at hand.
    """

    ids: Sequence[str]
    relevance: float | None = None
    degraded: str | None = None
    timed: bool = True


class System(Protocol):
    """Something that answers questions."""

    @property
    def name(self) -> str: ...

    def answer(self, question: Question) -> Retrieved: ...


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How to search: a mode, a profile, and options in place of its own."""

    mode: str
    profile: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        replaced = ",".join(f"{name}={_written(value)}" for name, value in self.options.items())
        named = f"{self.profile}:{replaced}" if replaced else self.profile
        return named if self.mode == "hybrid" else f"{named} {self.mode}"

    def leg(self, mode: str) -> "SearchConfig":
        """One of its legs alone."""
        of_a_leg = {name: value for name, value in self.options.items() if name not in _AFTERWARDS}
        if PROFILES[self.profile].rerank != "off":
            of_a_leg["rerank"] = "off"
        return SearchConfig(mode, self.profile, of_a_leg)


class MemoristSystem:
    """A search of a set, or of a user's own memory."""

    def __init__(self, choice: SearchConfig, memory: Memorist, indexed: Indexed | None = None) -> None:
        self.choice, self._memory, self._indexed = choice, memory, indexed

    @property
    def name(self) -> str:
        return self.choice.name

    def answer(self, question: Question) -> Retrieved:
        choice, kept = self.choice, self._kept_scores
        try:
            results = self._memory.search(
                question.text,
                limit=PLACES,
                mode=choice.mode,
                profile=choice.profile,
                project=question.scope,
                now=question.asked,
                record="off",
                **choice.options,
            )
        except EmbedderError as exc:  # a leg that cannot answer has found nothing
            return Retrieved((), degraded=str(exc))
        ids = [hit.memory.id for hit in results]
        found = self._indexed.documents(ids)[:PLACES] if self._indexed else ids
        timed = self._kept_scores == kept
        return Retrieved(found, results[0].relevance if results else 0.0, results.degraded, timed)

    @property
    def _kept_scores(self) -> int:
        """How many scores have been at hand so far."""
        return self._indexed.pairs.used if self._indexed and self._indexed.pairs else 0


class GrepSystem:
    """
    What looking for the words of the question finds: texts that hold most of them first, then those that hold them
    most often. No stems, no weights, no order of its own.
    """

    name = "grep"

    def __init__(self, documents: Iterable[CorpusDocument]) -> None:
        self._scopes: list[str | None] = []
        self._ids: list[str] = []
        self._holding: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)  # word -> (place, times)
        for place, document in enumerate(documents):
            self._ids.append(document.id)
            self._scopes.append(document.scope)
            for word, times in Counter(_words(f"{document.title or ''}\n{document.text}")).items():
                self._holding[word].append((place, times))

    def answer(self, question: Question) -> Retrieved:
        held: Counter[int] = Counter()
        counted: Counter[int] = Counter()
        for word in dict.fromkeys(_words(question.text)):
            for place, times in self._holding.get(word, ()):
                if question.scope is None or self._scopes[place] == question.scope:
                    held[place] += 1
                    counted[place] += times
        best = sorted(held, key=lambda place: (-held[place], -counted[place], place))
        return Retrieved([self._ids[place] for place in best[:PLACES]])


def choices(modes: Sequence[str], specs: Sequence[str], replaced: Mapping[str, Any]) -> list[SearchConfig]:
    """Every profile in every mode; each spec is a profile, perhaps with options: `balanced:alpha=.3,fusion=rrf`."""
    chosen = [parsed(spec, mode, replaced) for spec in specs for mode in modes]
    return list({choice.name: choice for choice in chosen}.values())


def beside(chosen: Sequence[SearchConfig]) -> list[SearchConfig]:
    """The legs of what was chosen, each once, and then the chosen."""
    legs = [choice.leg(mode) for choice in chosen for mode in LEGS]
    return list({choice.name: choice for choice in (*legs, *chosen)}.values())


def parsed(spec: str, mode: str, replaced: Mapping[str, Any] | None = None) -> SearchConfig:
    """A choice from text. A mode alone will do, too."""
    name, _, given = spec.partition(":")
    if name in MODES:
        name, mode = "balanced", name
    if name not in PROFILES:
        raise InvalidInput(f"{name!r} is no profile; there are: {', '.join(PROFILES)}")
    own = {**(replaced or {}), **settings(given.split(",") if given else ())}
    settled = options.apply_options(PROFILES[name], own)
    return SearchConfig(options.parse_mode(mode, settled), name, own)


def settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Options from `name=value`; a part of one from `name.part=value`."""
    given: dict[str, Any] = {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        name, _, part = path.strip().partition(".")
        if not equals or name not in _OPTIONS:
            raise InvalidInput(f"{pair!r} sets no option; write name=value, with one of: {', '.join(_OPTIONS)}")
        if part:
            given[name] = {**given.get(name, {}), part: _value(text)}
        else:
            given[name] = _value(text)
    return given


def _value(text: str) -> Any:
    """A number, true or false, or else text."""
    text = text.strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
