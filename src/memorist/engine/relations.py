"""Relations between memories: supersession and links that were stated, and similarity that is found."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from memorist import validation
from memorist.engine.resources import Resources
from memorist.errors import EmbedderError, InvalidInput, MemoristError
from memorist.records import Filter, Memory, Model, NearDuplicate, Related, Relation
from memorist.search.duplicates import find_near_duplicates, jaccard
from memorist.search.legs import find_nearest, find_predecessor, load_compared_rows
from memorist.text.query import MAX_TERMS, parse_query
from memorist.text.tokenizer import find_unspaced_runs, list_stems, list_tokens, unspaced_bigrams
from memorist.validation import TimeLike

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DUPLICATE_THRESHOLD = 0.8  # the share of words that two texts have in common
_DUPLICATE_CANDIDATES = 20  # most similar memories that are compared word by word with a new one
_QUERY_WORDS = 12  # the longest words of a text: long words are rare, and a similar text has most of them
_QUERY_CHARACTERS = 2000  # of a text, from which those are taken
_EXCERPT_CHARACTERS = 200  # of a near duplicate
_PROGRESS_STEP = 1000  # memories

_NOT_SUPERSEDED = Filter(superseded=False)


class Relations:
    """Records links between memories, and finds related ones by links, meaning and words."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._store = resources.store

    def supersede(self, old: str, new: str, at: TimeLike | None, said_by: str | None) -> Memory:
        old, new = validation.id_or_part(old), validation.id_or_part(new)
        moment, author = validation.moment_or_none(at, "at"), self._redact_author(said_by)
        return self._resources.present(self._store.links.supersede(old, new, moment, author, datetime.now(UTC)))

    def unsupersede(self, old: str) -> Memory:
        return self._resources.present(self._store.links.unsupersede(validation.id_or_part(old), datetime.now(UTC)))

    def replaced(self, id: str) -> list[Memory]:
        superseded = self._store.links.list_superseded(validation.id_or_part(id))
        return [self._resources.present(memory) for memory in superseded]

    def relate(self, a: str, b: str, kind: str, confidence: float, said_by: str | None) -> Relation:
        return self._store.links.relate(
            validation.id_or_part(a),
            validation.id_or_part(b),
            validation.relation_kind(kind),
            validation.number(confidence, "confidence", 0, 1),
            self._redact_author(said_by),
            datetime.now(UTC),
        )

    def unrelate(self, a: str, b: str, kind: str) -> None:
        kind = validation.relation_kind(kind)
        self._store.links.unrelate(validation.id_or_part(a), validation.id_or_part(b), kind, datetime.now(UTC))

    def related(self, id: str, limit: int, as_of: TimeLike | None) -> list[Related]:
        count = validation.limit(limit)
        moment = validation.as_of(as_of)
        memory = self._resources.find_memory(id, moment)
        linked = self._store.links.list_related(memory.id, count, moment)
        related = [replace(one, memory=self._resources.present(one.memory, as_of=moment)) for one in linked]
        known = {memory.id, *(one.memory.id for one in linked)}
        for other, similarity in self._most_similar(memory, count + len(known), replace(_NOT_SUPERSEDED, as_of=moment)):
            if len(related) < count and other.id not in known:
                related.append(Related(self._resources.present(other, as_of=moment), similarity=similarity))
        return related

    def duplicates(
        self, threshold: float, progress: Callable[[int], None] | None, filters: dict[str, Any]
    ) -> list[tuple[Memory, ...]]:
        validation.number(threshold, "threshold", 0.1, 1)
        ids: list[str] = []
        by_project: dict[str | None, list[tuple[int, frozenset[str]]]] = {}
        filter = self._resources.resolve_filter(filters, include_superseded=False)
        for id, project, text in self._store.iter_texts(filter):
            by_project.setdefault(project, []).append((len(ids), _word_set(text)))
            ids.append(id)
            if progress and len(ids) % _PROGRESS_STEP == 0:
                progress(len(ids))
        groups = sorted(group for texts in by_project.values() for group in find_near_duplicates(texts, threshold))
        found = (self._store.find([ids[number] for number in group]) for group in groups)
        return [tuple(self._resources.present(memory) for memory in group if memory) for group in found]

    def merge(self, keep: str, others: Sequence[str]) -> Memory:
        if not isinstance(others, list | tuple):
            raise InvalidInput("merge takes the id that stays, and a list of ids that go")
        merged = [validation.id_or_part(id) for id in others]
        return self._resources.present(self._store.merge(validation.id_or_part(keep), merged, datetime.now(UTC)))

    def report_near_duplicate(self, memory: Memory, action: str) -> Memory:
        """Return a new memory with the older one that says almost the same, if there is one; merge it if asked to."""
        try:
            return self._find_near_duplicate(memory, action)
        except MemoristError:  # the new memory is stored; raising would make the caller add it once more
            return memory

    def _find_near_duplicate(self, memory: Memory, action: str) -> Memory:
        words = _word_set(memory.content)
        project = (memory.project,) if memory.project else ()
        scope = replace(self._resources.wall, superseded=False, project=project)
        # By words: almost the same text has almost the same words, and no vectors need to be read for it.
        others = self._list_similar_texts(memory, scope)
        scored = [(jaccard(words, _word_set(text)), id, text) for id, _, text in others]
        share, nearest, text = max(scored, key=lambda entry: entry[0], default=(0.0, "", ""))
        if share < DUPLICATE_THRESHOLD:
            return memory
        merged = action == "merge"
        if merged:
            memory = self.merge(memory.id, [nearest])
        return replace(memory, near=NearDuplicate(nearest, text[:_EXCERPT_CHARACTERS], share, merged))

    def _list_similar_texts(self, memory: Memory, filter: Filter) -> list[tuple[str, str | None, str]]:
        """Return the id, project and text of memories of the same project that a new one may nearly repeat."""
        if words := _list_looked_up(memory.content):
            found = self._store.list_sharing(words, math.ceil(DUPLICATE_THRESHOLD * len(words)), filter)
        else:
            similar = self._similar_by_words(memory, _DUPLICATE_CANDIDATES, filter)
            found = [(one.id, one.project, one.content) for one in similar]
        return [other for other in found if other[0] != memory.id and other[1] == memory.project]

    def _most_similar(self, memory: Memory, limit: int, filter: Filter) -> list[tuple[Memory, float | None]]:
        """Return other memories with their similarities, best first: by vector where it has one, else by words."""
        try:
            model = self._resources.model.identify()
            vector = self._load_vector(memory, model, filter.as_of)
        except EmbedderError:
            vector = None
        if vector is None:
            return [(other, None) for other in self._similar_by_words(memory, limit, filter)]
        scope = self._store.resolve_scope(filter)
        nearest, predecessor = find_nearest(self._store, model, vector, scope, limit + 1)
        keys = [match.key for match in nearest.matches]
        rows = load_compared_rows(self._store, keys, (model, predecessor), vector, filter)
        rows.sort(key=lambda row: (-(row.similarity or 0.0), row.key))
        similarities = {row.key: row.similarity for row in rows}
        return [(other, similarities[key]) for key, other in self._load_others(similarities, memory, filter)][:limit]

    def _load_vector(self, memory: Memory, model: Model, as_of: datetime | None) -> "NDArray[np.float32] | None":
        """Return the vector of a memory by a model, or else by its predecessor."""
        vector = self._store.load_vector(memory.id, model, as_of)
        if vector is None and (predecessor := find_predecessor(model)):
            vector = self._store.load_vector(memory.id, predecessor, as_of)
        return vector

    def _redact_author(self, said_by: str | None) -> str | None:
        return self._resources.redaction.redact_optional(validation.name(said_by, "said_by"))

    def _similar_by_words(self, memory: Memory, limit: int, filter: Filter) -> list[Memory]:
        text = parse_query(memory.content[:_QUERY_CHARACTERS], "auto")
        terms = sorted(text.terms or text.spare, key=lambda term: -len(term.text))[:_QUERY_WORDS]
        query = replace(text, terms=tuple(terms), spare=(), every=False)
        scope, weights = self._store.resolve_scope(filter), self._resources.profile.columns
        matches = self._store.match_keywords(query, scope, limit=limit + 1, page=limit, weights=weights).matches
        return [other for _, other in self._load_others([match.key for match in matches], memory, filter)][:limit]

    def _load_others(self, keys: Collection[int], memory: Memory, filter: Filter) -> list[tuple[int, Memory]]:
        """Return the memories with some keys, in their order, without one of them."""
        found = self._store.load_memories([*keys], filter)
        return [(key, found[key]) for key in keys if key in found and found[key].id != memory.id]


def _list_looked_up(content: str) -> dict[str, str]:
    """Return the words of a text by their stems, if its near duplicates can be looked up by them."""
    if find_unspaced_runs(content):
        return {}  # they are indexed as pairs of characters
    words = dict(zip(list_stems(content), list_tokens(content), strict=True))
    return words if len(words) <= MAX_TERMS else {}


def _word_set(text: str) -> frozenset[str]:
    """Return the stems of a text; of scripts that put no space between words, pairs of characters."""
    return frozenset(list_stems(f"{text} {unspaced_bigrams(text) or ''}"))
