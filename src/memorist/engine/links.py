"""Links between memories: supersession and relations that were stated, and similarity that is found."""

import builtins
import math
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Annotated

from msgspec.structs import replace

from memorist import validation
from memorist.arguments import AsOf, Filter, Limit, MemoryId, Time
from memorist.contract import operation
from memorist.engine.resources import Resources
from memorist.engine.room import Room
from memorist.errors import EmbedderError, MemoristError
from memorist.records import Memory, NearDuplicate, Related, Relation
from memorist.schemas import Meta
from memorist.search.duplicates import DUPLICATE_THRESHOLD, jaccard, word_set
from memorist.search.query import MAX_TERMS, parse_query
from memorist.text.tokenizer import find_unspaced_runs, list_stems, list_tokens

_DUPLICATE_CANDIDATES = 20  # most similar memories that are compared word by word with a new one
_QUERY_WORDS = 12  # the longest words of a text: long words are rare, and a similar text has most of them
_QUERY_CHARACTERS = 2000  # of a text, from which those are taken
_EXCERPT_CHARACTERS = 200  # of a near duplicate

_NOT_SUPERSEDED = Filter(superseded=False)


class Links(Room):
    """Links memories with each other."""

    _name = "links"

    @operation("POST /memories/{source}/relations")
    def add(
        self,
        source: MemoryId,
        target: MemoryId,
        kind: str,
        *,
        confidence: Annotated[float, Meta("How certain that is", minimum=0, maximum=1)] = 1.0,
        said_by: Annotated[str | None, Meta("Who says so")] = None,
    ) -> Relation:
        """Link two memories: `source` `kind` `target`. Linking them again sets the confidence anew."""
        return self._store.links.relate(
            validation.id_or_part(source),
            validation.id_or_part(target),
            validation.relation_kind(kind),
            validation.number(confidence, "confidence", 0, 1),
            _redact_author(self._resources, said_by),
            datetime.now(UTC),
        )

    @operation("DELETE /memories/{source}/relations")
    def remove(self, source: MemoryId, target: MemoryId, kind: str) -> None:
        """Remove a link, from now on."""
        kind = validation.relation_kind(kind)
        ids = validation.id_or_part(source), validation.id_or_part(target)
        self._store.links.unrelate(*ids, kind, datetime.now(UTC))

    @operation("GET /memories/{id}/replaced")
    def replaced(self, id: MemoryId) -> builtins.list[Memory]:
        """Return the memories that one has superseded, the earliest first."""
        superseded = self._store.links.list_superseded(validation.id_or_part(id))
        return [self._resources.present(memory) for memory in superseded]


class Linking(Room):
    """Lets memories replace one another, and finds related ones by links, meaning and words."""

    @operation("POST /memories/{old}/supersede", renamed={"new": "by"}, one_project=True)
    def supersede(
        self,
        old: MemoryId,
        new: Annotated[str, Meta("The id of the newer one")],
        *,
        at: Time | None = None,
        said_by: str | None = None,
    ) -> Memory:
        """
        Let a memory replace another, which is left out of search from then on: from now or, where the new one is dated
        back, from the time it tells of; `at` names another time.
        """
        old, new = validation.id_or_part(old), validation.id_or_part(new)
        moment, author = validation.moment_or_none(at, "at"), _redact_author(self._resources, said_by)
        return self._resources.present(self._store.links.supersede(old, new, moment, author, datetime.now(UTC)))

    @operation("DELETE /memories/{old}/supersede")
    def unsupersede(self, old: MemoryId) -> Memory:
        """Undo `supersede`: the memory holds again from now on."""
        return self._resources.present(self._store.links.unsupersede(validation.id_or_part(old), datetime.now(UTC)))

    @operation("GET /memories/{id}/related")
    def related(self, id: MemoryId, limit: Limit = 10, *, as_of: AsOf | None = None) -> list[Related]:
        """Return the memories linked with one, the surest first, then the most similar; superseded ones left out."""
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

    def _report_near_duplicate(self, memory: Memory, action: str) -> Memory:
        """Return a new memory with the older one that says almost the same, if there is one; merge it if asked to."""
        try:
            return self._find_near_duplicate(memory, action)
        except MemoristError:  # the new memory is stored; raising would make the caller add it once more
            return memory

    def _find_near_duplicate(self, memory: Memory, action: str) -> Memory:
        words = word_set(memory.content)
        project = (memory.project,) if memory.project else ()
        scope = replace(self._resources.restriction, superseded=False, project=project)
        # By words: almost the same text has almost the same words, and no vectors need to be read for it.
        others = self._list_similar_texts(memory, scope)
        scored = [(jaccard(words, word_set(text)), id, text) for id, _, text in others]
        share, nearest, text = max(scored, key=lambda entry: entry[0], default=(0.0, "", ""))
        if share < DUPLICATE_THRESHOLD:
            return memory
        merged = action == "merge"
        if merged:
            memory = self._resources.present(self._store.merge(memory.id, [nearest], datetime.now(UTC)))
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
            vector = self._store.load_vector(memory.id, model, filter.as_of)
        except EmbedderError:
            vector = None
        if vector is None:
            return [(other, None) for other in self._similar_by_words(memory, limit, filter)]
        scope = self._store.resolve_scope(filter)
        nearest = self._store.vectors.find_nearest(model, vector, scope, limit + 1)
        columns = self._store.load_ranking_columns(nearest.matches.keys, model, vector, scope, compare=nearest.compare)
        found = zip(columns.keys.tolist(), columns.similarity.tolist(), strict=True)
        similarities = dict(sorted(found, key=lambda pair: (-pair[1], pair[0])))
        return [(other, similarities[key]) for key, other in self._load_others(similarities, memory, filter)][:limit]

    def _similar_by_words(self, memory: Memory, limit: int, filter: Filter) -> list[Memory]:
        text = parse_query(memory.content[:_QUERY_CHARACTERS], "auto")
        terms = sorted(text.terms or text.stopwords, key=lambda term: -len(term.text))[:_QUERY_WORDS]
        query = replace(text, terms=tuple(terms), stopwords=(), every=False)
        scope, weights = self._store.resolve_scope(filter), self._resources.profile.columns
        matches = self._store.match_keywords(query, scope, limit=limit + 1, page=limit, weights=weights).matches
        return [other for _, other in self._load_others([match.key for match in matches], memory, filter)][:limit]

    def _load_others(self, keys: Collection[int], memory: Memory, filter: Filter) -> list[tuple[int, Memory]]:
        """Return the memories with some keys, in their order, without one of them."""
        found = self._store.load_memories([*keys], filter)
        return [(key, found[key]) for key in keys if key in found and found[key].id != memory.id]


def _redact_author(resources: Resources, said_by: str | None) -> str | None:
    """Return who said something, without secrets."""
    return resources.redaction.redact_optional(validation.name(said_by, "said_by"))


def _list_looked_up(content: str) -> dict[str, str]:
    """Return the words of a text by their stems, if its near duplicates can be looked up by them."""
    if find_unspaced_runs(content):
        return {}  # they are indexed as pairs of characters
    words = dict(zip(list_stems(content), list_tokens(content), strict=True))
    return words if len(words) <= MAX_TERMS else {}
