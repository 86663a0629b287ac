"""Hits: thresholds, snippets and relevance applied to what was ranked, and the files that chunks come from."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import islice

from memorist.documents import ChunkLocation, DocumentHit, StoredChunk
from memorist.profiles import MatchLabels, Profile
from memorist.records import Hit, Memory, Query
from memorist.search.fusion import LoadMemories, Ranked
from memorist.search.signals import Evidence, estimate_relevance, mean_confidence, with_effective_confidence
from memorist.text.snippet import HighlightTerms, Passage, best_passage, preview

_PREVIEW_CHARACTERS = 100  # of a `cut` snippet
_SNIPPET_CHARACTERS = 300  # of a memory listed by its beginning


@dataclass(frozen=True, slots=True)
class HitPage:
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
    ranked: Sequence[Ranked],
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
    hidden: Counter[str] = Counter()
    hits: list[Hit] = []
    keys: list[int] = []
    outdated = False
    places = [0]
    passing = _pass_thresholds(ranked, profile, model, evidence, hidden, places)
    while chosen := list(islice(passing, profile.limit - len(hits))):
        memories = load_memories([entry for entry, _ in chosen])
        outdated = outdated or len(memories) < len(chosen)
        for entry, relevance in chosen:
            memory = memories.get(entry.candidate.key)
            if memory is None:
                continue
            if memory.facts:
                memory = replace(memory, facts=with_effective_confidence(memory.facts, profile.fact_decay, now))
            hit = _build_hit(entry, relevance, memory, terms, profile)
            hits.append(_limit_detail(hit, detail, include_facts))
            keys.append(entry.candidate.key)
    # Score and relevance fall along a ranking: where its second half has nothing, what comes behind it has nothing.
    return HitPage(tuple(hits), tuple(keys), dict(hidden), outdated, may_go_on=2 * places[-1] >= len(ranked))


def _pass_thresholds(
    ranked: Sequence[Ranked],
    profile: Profile,
    model: str | None,
    evidence: Evidence,
    hidden: Counter[str],
    places: list[int],
) -> Iterator[tuple[Ranked, float]]:
    """
    Yield what passes every threshold, with its relevance, and count what does not.

    `places` gets the places of those that pass or lack only confidence, which does not fall along a ranking.
    """
    for place, entry in enumerate(ranked, 1):
        row = entry.candidate.row
        relevance = estimate_relevance(model, row.similarity, entry.candidate.coverage, row.length, evidence)
        failed = _failed_threshold(entry, relevance, profile)
        if failed in (None, "min_confidence"):
            places.append(place)
        if failed is None:
            yield entry, relevance
        else:
            hidden[failed] += 1


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


def _failed_threshold(entry: Ranked, relevance: float, profile: Profile) -> str | None:
    """Return the threshold that a candidate misses, if any (`min_similarity` and `min_salience` act in the legs)."""
    reached = (
        ("min_score", entry.score),
        ("min_confidence", entry.candidate.confidence),
        ("min_relevance", relevance),
    )
    for threshold, value in reached:
        least = getattr(profile, threshold)
        if least is not None and value < least:
            return threshold
    return None


def _build_hit(entry: Ranked, relevance: float, memory: Memory, terms: HighlightTerms, profile: Profile) -> Hit:
    candidate, similarity = entry.candidate, entry.candidate.row.similarity
    shown = best_passage(memory.content, terms, profile.snippet_words, candidate.row.passage)
    by_keyword = candidate.keyword_rank is not None
    # Where the keyword leg has a match, a similarity of 0 or less is one of the vector leg only if it counts in the
    # score: a fusion by rank looks at the place in a leg alone.
    counts = (similarity or 0.0) > 0.0 or entry.trace.get("vector", 0.0) > 0.0
    by_vector = candidate.vector_rank is not None and (not by_keyword or counts)
    return Hit(
        memory=memory,
        score=entry.score,
        relevance=relevance,
        match=_match_labels(by_keyword, by_vector, profile.match_labels),
        snippet=_snippet(memory, shown, profile),
        highlights=shown.highlights if by_keyword else (),
        keyword_score=candidate.match.score if candidate.match else None,
        similarity=similarity,
        confidence=mean_confidence(memory.facts),
        trace=entry.trace,
        raw=entry.raw,
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
    values = {field.name: getattr(record, field.name) for record in (hit, location) for field in fields(record)}
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
