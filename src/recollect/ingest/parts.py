"""Texts that are too long for one vector, cut where their structure allows it."""

import re

from recollect.embed.base import Embedder
from recollect.ingest.chunk import Count
from recollect.store.base import Part, Unembedded

UNTOLD_TOKENS = 512  # what a model reads at least, if it does not say
CHARACTERS_A_TOKEN = 4  # where the model does not count tokens itself
ROOM = 56  # tokens left for a title or heading above a part

_LINE_END = re.compile(r"\r\n|\r|\n")


def counter(embedder: Embedder | None) -> Count:
    """How a model counts tokens, or an estimate."""
    count: Count | None = getattr(embedder, "count_tokens", None)
    return count or (lambda text: -(-len(text) // CHARACTERS_A_TOKEN))


def longest(embedder: Embedder | None) -> int:
    """How many tokens of a text a model reads."""
    return int(getattr(embedder, "max_tokens", UNTOLD_TOKENS))


def fitted(text: str, tokens: int, count: Count) -> str:
    """The beginning of a text, of so many tokens at most."""
    while (many := count(text)) > tokens:
        text = text[: min(len(text) - 1, len(text) * tokens // many)]
    return text


def parts_of(text: Unembedded, embedder: Embedder) -> list[Part]:
    """The parts of a text that one vector cannot stand for; none where it can."""
    most, count = longest(embedder), counter(embedder)
    if len(text.text) <= most or count(text.text) <= most:  # a token has a character at least
        return []
    from recollect.ingest.markdown import read_markdown  # not before there is anything to cut: most processes only read

    title = text.title and fitted(text.title, ROOM, count)
    starts = [0, *(ending.end() for ending in _LINE_END.finditer(text.content)), len(text.content) + 1]
    parts: list[Part] = []
    for chunk in read_markdown(text.content, most - ROOM, count).chunks:
        first, last = starts[chunk.start_line - 1], min(starts[chunk.end_line], len(text.content))
        # Of a line that is over the budget by itself, a chunk is a stretch.
        after = max(first, parts[-1].first + 1) if parts else first  # which may repeat a sentence of the one before
        place = text.content.find(chunk.text, after, last)
        span = (first, last) if place < 0 else (place, place + len(chunk.text))
        parts.append(Part(text, *span, title))
    return parts if len(parts) > 1 else []
