"""Memories that are like each other: almost the same text, or close in meaning."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from memorist import validation
from memorist.engine.core import Core, Moment, given_id
from memorist.errors import EmbedderError, InvalidInput, MemoristError
from memorist.records import Filter, Memory, NearDuplicate, Related, Row
from memorist.search.duplicates import groups, resemblance
from memorist.text.query import parse
from memorist.text.tokenizer import segments, stems

ALMOST_THE_SAME = 0.8  # share of their words that two texts have in common
CANDIDATES = 20  # nearest memories compared word by word with a new one
LONGEST_WORDS = 12  # of a text are asked for: long words are rare, and what is alike has most of them
LOOKED_AT = 2000  # characters of a text that are asked for where there is no vector of it
NEAR_TEXT = 200

VALID = Filter(superseded=False)


class Likeness(Core):
    """Finds what is alike, and makes one of what is the same."""

    def related(self, id: str, limit: int = 10, *, as_of: Moment | None = None) -> list[Related]:
        """
        What belongs to a memory: first what it is linked with, the surest first; then what is most similar.

        Superseded memories are left out.
        """
        count = validation.limit(limit)
        moment = validation.as_of(as_of)
        memory = self._one(given_id(id), moment)
        linked = self._store.links.list_related(memory.id, count, moment)
        found = [replace(one, memory=self._shown(one.memory, as_of=moment)) for one in linked]
        known = {memory.id, *(one.memory.id for one in linked)}
        for row in self._alike(memory, count + len(known), replace(VALID, as_of=moment)):
            if len(found) < count and (other := row.memory()).id not in known:
                found.append(Related(self._shown(other, as_of=moment), similarity=row.similarity))
        return found

    def duplicates(
        self,
        *,
        threshold: float = ALMOST_THE_SAME,
        progress: Callable[[int], None] | None = None,
        **filters: Any,
    ) -> list[tuple[Memory, ...]]:
        """Groups of memories of one project that say almost the same, oldest first; takes the filters of `list`."""
        validation.number(threshold, "threshold", 0.1, 1)
        ids: list[str] = []
        words: dict[str | None, list[tuple[int, frozenset[str]]]] = {}
        for id, project, text in self._store.iter_texts(self._filter(filters, include_superseded=False)):
            words.setdefault(project, []).append((len(ids), _words(text)))
            ids.append(id)
            if progress and len(ids) % 1000 == 0:
                progress(len(ids))
        alike = sorted(group for each in words.values() for group in groups(each, threshold))
        found = (self._store.find([ids[place] for place in group]) for group in alike)
        return [tuple(self._shown(memory) for memory in group if memory) for group in found]

    def merge(self, keep: str, others: Sequence[str]) -> Memory:
        """
        Let one memory stand for others that say the same: it takes over tags, facts and pins, and supersedes them.

        Nothing is lost: they stay in the history, and `unsupersede` brings one back.
        """
        if isinstance(others, str):
            raise InvalidInput("merge takes the id that stays, and a list of ids that go")
        gone = [given_id(id) for id in others]
        return self._shown(self._store.merge(given_id(keep), gone, datetime.now(UTC)))

    def _with_near(self, memory: Memory, way: str) -> Memory:
        """A new memory with the older one that says almost the same, if there is one; merged if so wanted."""
        try:
            return self._compared(memory, way)
        except MemoristError:  # the new memory is kept; an error would ask for it once more
            return memory

    def _compared(self, memory: Memory, way: str) -> Memory:
        mine = _words(memory.content)
        scope = replace(VALID, project=(memory.project,) if memory.project else ())
        # By its words: almost the same text has almost the same, and no vectors need to be read for it.
        others = [row.memory() for row in self._by_words(memory, CANDIDATES, scope)]
        alike = [(resemblance(mine, _words(other.content)), other) for other in others]
        share, other = max(
            (each for each in alike if each[1].project == memory.project), key=lambda each: each[0], default=(0.0, None)
        )
        if other is None or share < ALMOST_THE_SAME:
            return memory
        merged = way == "merge"
        if merged:
            memory = self.merge(memory.id, [other.id])
        return replace(memory, near=NearDuplicate(other.id, other.content[:NEAR_TEXT], share, merged))

    def _alike(self, memory: Memory, limit: int, filter: Filter) -> list[Row]:
        """Other memories, the most similar first: by meaning where it has a vector, else by its words."""
        try:
            model = self._vectorizer.model()
            vector = self._store.load_vector(memory.id, model, filter.as_of)
        except EmbedderError:
            vector = None
        if vector is None:
            return self._by_words(memory, limit, filter)
        near = self._store.find_nearest(model, vector, self._store.resolve_scope(filter), limit=limit + 1).matches
        rows = self._store.load_rows([match.key for match in near], model, vector, filter.as_of)
        rows.sort(key=lambda row: (-(row.similarity or 0.0), row.key))
        return _others(rows, memory)[:limit]

    def _by_words(self, memory: Memory, limit: int, filter: Filter) -> list[Row]:
        text = parse(memory.content[:LOOKED_AT], "auto")
        terms = sorted(text.terms or text.spare, key=lambda term: -len(term.text))[:LONGEST_WORDS]
        words = replace(text, terms=tuple(terms), spare=(), every=False)
        scope = self._store.resolve_scope(filter)
        found = self._store.match_keywords(words, scope, limit=limit + 1, page=limit, weights=self._profile.columns)
        place = {match.key: at for at, match in enumerate(found.matches)}
        rows = sorted(self._store.load_rows(list(place), None, None, filter.as_of), key=lambda row: place[row.key])
        return _others(rows, memory)[:limit]


def _others(rows: Sequence[Row], memory: Memory) -> list[Row]:
    return [row for row in rows if row.memory().id != memory.id]


def _words(text: str) -> frozenset[str]:
    """The words of a text; of a script that puts no space between words, pairs of characters."""
    return frozenset(stems(f"{text} {segments(text) or ''}"))
