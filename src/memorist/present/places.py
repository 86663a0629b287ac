"""Hits in files: which place of which file each is, and what stands around it."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from memorist.documents import Chunk, DocumentHit, Place
from memorist.records import Hit


def placed(hits: Sequence[Hit], keys: Sequence[int], places: Mapping[int, Place], namespace: str) -> tuple[Hit, ...]:
    """Hits with where they stand, if that is in a file of the namespace."""
    found = zip(hits, keys, strict=True)
    return tuple(_placed(hit, places[key], namespace) if key in places else hit for hit, key in found)


def _placed(hit: Hit, place: Place, namespace: str) -> DocumentHit:
    given = {each.name: getattr(hit, each.name) for each in fields(Hit) if each.name != "memory"}
    return DocumentHit(
        memory=replace(hit.memory, namespace=namespace),  # its chunks stand in one of their own
        **given,
        path=place.path,
        title=place.title,
        breadcrumb=place.breadcrumb,
        start_line=place.start_line,
        end_line=place.end_line,
        document=place.document,
        ordinal=place.ordinal,
    )


def widened(hit: DocumentHit, chunks: Sequence[Chunk]) -> DocumentHit:
    """A hit with the chunks around it, as one text."""
    if not chunks:  # the file went in the meantime
        return hit
    memory = replace(hit.memory, content=_joined(chunks))
    return replace(hit, memory=memory, start_line=chunks[0].start_line, end_line=chunks[-1].end_line, highlights=())


def _joined(chunks: Sequence[Chunk]) -> str:
    """Neighbouring chunks as they stand in the file: with the blank lines between them, and what overlaps only once."""
    text, end = chunks[0].text, chunks[0].end_line
    for chunk in chunks[1:]:
        between = chunk.start_line - end
        lines = chunk.text.split("\n")
        if between > 0:
            text += "\n" * between + chunk.text
        elif chunk.start_line == chunk.end_line:  # a part of one long line, that may begin with the end of the last
            same = next((n for n in range(len(chunk.text), 0, -1) if text.endswith(chunk.text[:n])), 0)
            text += chunk.text[same:] if same else f" {chunk.text}"
        elif len(lines) == chunk.end_line - chunk.start_line + 1:
            text = "\n".join([text, *lines[1 - between :]])
        else:  # it begins within a long line
            text += f" {chunk.text}"
        end = max(end, chunk.end_line)
    return text
