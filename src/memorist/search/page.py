"""Hits: thresholds, snippets and relevance applied to what was ranked, and the files that chunks come from."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memorist.file_records import ChunkLocation, DocumentHit, StoredChunk
from memorist.profiles.profile import MatchLabels, Profile
from memorist.records import Hit, Memory, Query
from memorist.search.candidates import Ranking
from memorist.search.rerank import LoadMemories, ReadMemory
from memorist.search.signals import Evidence, estimate_relevance, mean_confidence, with_effective_confidence
from memorist.store.ranking_columns import Floats, Integers
from memorist.text.snippet import HighlightTerms, Passage, best_passage, preview

_PREVIEW_CHARACTERS = 100  # of a `cut` snippet
_SNIPPET_CHARACTERS = 300  # of a memory listed by its beginning


class HitPage(Struct, frozen=True):
    """
    A page of hits, their keys, and how many each threshold held back.

    `outdated` says that a memory was removed or changed after it was ranked; `may_go_on`, that what would be ranked
    behind it may pass the thresholds as well.
    """

    hits: tuple[Hit, ...]
    keys: tuple[int, ...]
    hidden: Mapping[str, int]
    outdated: bool = False
    may_go_on: bool = True


def build_page(
    ranking: Ranking,
    load_memories: LoadMemories,
    query: Query,
    profile: Profile,
    model: str | None,
    evidence: Evidence,
    now: datetime,
    *,
    detail: str,
    include_facts: bool,
) -> HitPage:
    """
    Return the best hits that pass every threshold, up to the limit, and count what was held back before that.

    Only their memories are read. One that has changed by then makes room for the next.
    """
    terms = HighlightTerms.of(query)
    candidates, columns = ranking.candidates, ranking.candidates.columns
    relevance = estimate_relevance(model, columns.similarity, candidates.coverage, columns.lengths, evidence)
    failed = _find_failed_thresholds(ranking, relevance, profile)
    passing = np.flatnonzero(failed == _PASSES)  # positions in the ranking
    hits: list[Hit] = []
    keys: list[int] = []
    read = 0  # of those that pass
    while read < len(passing) and len(hits) < profile.limit:
        chosen = ranking.places[passing[read : read + profile.limit - len(hits)]]
        read += len(chosen)
        memories = load_memories(chosen)
        for place, key in zip(chosen.tolist(), candidates.keys[chosen].tolist(), strict=True):
            read_memory = memories.get(key)
            if read_memory is None:
                continue
            if (memory := read_memory.memory).facts:
                memory = replace(memory, facts=with_effective_confidence(memory.facts, profile.fact_decay, now))
                read_memory = read_memory._replace(memory=memory)
            hit = _build_hit(ranking, place, float(relevance[place]), read_memory, terms, profile)
            hits.append(_limit_detail(hit, detail, include_facts))
            keys.append(key)
    looked_at = failed[: passing[read - 1] + 1] if len(hits) == profile.limit else failed
    # Score and relevance fall along a ranking, unlike confidence: where its second half has nothing, what comes behind
    # it has nothing.
    last = np.flatnonzero((looked_at == _PASSES) | (looked_at == _THRESHOLDS.index("min_confidence"))) + 1
    return HitPage(
        tuple(hits),
        tuple(keys),
        _count_hidden(looked_at),
        outdated=len(hits) < read,
        may_go_on=2 * int(last.max(initial=0)) >= len(ranking),
    )


_THRESHOLDS = ("min_score", "min_confidence", "min_relevance")  # `min_similarity` and `min_salience` act in the legs
_PASSES = len(_THRESHOLDS)


def _find_failed_thresholds(ranking: Ranking, relevance: Floats, profile: Profile) -> Integers:
    """Return for each place of the ranking the first threshold that is missed there, by its number."""
    reached = (ranking.scores, ranking.candidates.confidence, relevance)
    failed = np.full(len(ranking), _PASSES)
    for number, values in reversed([*enumerate(reached)]):
        least = getattr(profile, _THRESHOLDS[number])
        if least is not None:
            failed[values[ranking.places] < least] = number
    return failed


def _count_hidden(failed: Integers) -> dict[str, int]:
    counts = np.bincount(failed, minlength=_PASSES)[:_PASSES].tolist()
    return {name: count for name, count in zip(_THRESHOLDS, counts, strict=True) if count}


def _limit_detail(hit: Hit, detail: str, include_facts: bool) -> Hit:
    if detail == "full" and not hit.memory.facts:
        return hit
    facts = hit.memory.facts if include_facts else ()
    highlights = hit.highlights if detail == "full" else ()  # they are spans of the content
    return replace(hit, memory=apply_detail(hit.memory, detail, include_facts), facts=facts, highlights=highlights)


def apply_detail(memory: Memory, detail: str, include_facts: bool = True) -> Memory:
    """Return a memory in the detail asked for; in less than `full`, it has a summary, if only its first words."""
    if not include_facts:
        memory = replace(memory, facts=())
    if detail == "full":
        return memory
    summary = memory.summary or preview(memory.content, _PREVIEW_CHARACTERS)
    content = preview(memory.content, _SNIPPET_CHARACTERS) if detail == "snippet" else ""
    return replace(memory, content=content, summary=summary, metadata={})


def _build_hit(
    ranking: Ranking, place: int, relevance: float, read_memory: ReadMemory, terms: HighlightTerms, profile: Profile
) -> Hit:
    candidates, (memory, nearest) = ranking.candidates, read_memory
    trace, raw = ranking.trace_of(place), ranking.raw_of(place)
    similarity = raw.get("cosine")
    shown = best_passage(memory.content, terms, profile.snippet_words, nearest)
    by_keyword = bool(candidates.keyword_rank[place])
    # Where the keyword leg has a match, a similarity of 0 or less is one of the vector leg only if it counts in the
    # score: a fusion by rank looks at the place in a leg alone.
    counts = (similarity or 0.0) > 0.0 or trace.get("vector", 0.0) > 0.0
    by_vector = bool(candidates.vector_rank[place]) and (not by_keyword or counts)
    return Hit(
        memory=memory,
        score=float(ranking.scores[place]),
        relevance=relevance,
        match=_match_labels(by_keyword, by_vector, profile.match_labels),
        snippet=_snippet(memory, shown, profile),
        highlights=shown.highlights if by_keyword else (),
        keyword_score=raw.get("bm25"),
        similarity=similarity,
        confidence=mean_confidence(memory.facts),
        trace=trace,
        raw=raw,
    )


def _snippet(memory: Memory, shown: Passage, profile: Profile) -> str:
    if profile.snippet == "full":
        return memory.content
    return preview(memory.content, _PREVIEW_CHARACTERS) if profile.snippet == "cut" else shown.text


def _match_labels(by_keyword: bool, by_vector: bool, words: MatchLabels | None) -> tuple[str, ...]:
    if words is None:
        return tuple(leg for leg, found in (("keyword", by_keyword), ("vector", by_vector)) if found)
    return (words.both if by_keyword and by_vector else words.keyword if by_keyword else words.vector,)


def attach_locations(
    hits: Sequence[Hit], keys: Sequence[int], locations: Mapping[int, ChunkLocation], namespace: str
) -> tuple[Hit, ...]:
    """Return the hits with their files and lines, where they are chunks."""
    found = zip(hits, keys, strict=True)
    return tuple(_document_hit(hit, locations[key], namespace) if key in locations else hit for hit, key in found)


def _document_hit(hit: Hit, location: ChunkLocation, namespace: str) -> DocumentHit:
    values = {name: getattr(record, name) for record in (hit, location) for name in record.__struct_fields__}
    # Chunks have a namespace of their own.
    return DocumentHit(**values | {"memory": replace(hit.memory, namespace=namespace)})


def extend_with_chunks(hit: DocumentHit, chunks: Sequence[StoredChunk]) -> DocumentHit:
    """Return a hit with the chunks around it, as one text."""
    if not chunks:  # the file was removed in the meantime
        return hit
    memory = replace(hit.memory, content=_join_chunks(chunks))
    return replace(hit, memory=memory, start_line=chunks[0].start_line, end_line=chunks[-1].end_line, highlights=())


def _join_chunks(chunks: Sequence[StoredChunk]) -> str:
    """Join adjacent chunks as they stand in the file: with blank lines between them, and overlaps only once."""
    text, end = chunks[0].text, chunks[0].end_line
    for chunk in chunks[1:]:
        between = chunk.start_line - end
        lines = chunk.text.split("\n")
        if between > 0:
            text += "\n" * between + chunk.text
        elif chunk.start_line == chunk.end_line:  # a piece of one long line, which may begin with the end of the last
            same = next((n for n in range(len(chunk.text), 0, -1) if text.endswith(chunk.text[:n])), 0)
            text += chunk.text[same:] if same else f" {chunk.text}"
        elif len(lines) == chunk.end_line - chunk.start_line + 1:
            text = "\n".join([text, *lines[1 - between :]])
        else:  # it begins within a long line
            text += f" {chunk.text}"
        end = max(end, chunk.end_line)
    return text
