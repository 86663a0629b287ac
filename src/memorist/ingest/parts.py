"""Texts that one vector does not do justice to, cut where their structure and their sentences allow it."""

import re

from memorist.embed.base import Embedder
from memorist.ingest.chunk import SENTENCE_END, Count
from memorist.store.base import PART_BITS, Part, Unembedded

UNTOLD_TOKENS = 512  # what a model reads at least, if it does not say
CHARACTERS_A_TOKEN = 4  # where the model does not count tokens itself
ROOM = 56  # tokens left for a title or heading above a part

# A vector of several sentences is mostly about the longest, and what was said by the way is lost in it. Every few
# sentences are a part: of so many characters at least, and no more than about so many parts while the model can read
# each of them. Measured: docs/quality.md.
LEAST_PART, MOST_PARTS = 100, 6

_LINE_END = re.compile(r"\r\n|\r|\n")
_END = re.compile(rf"(?:{SENTENCE_END.pattern})|[\r\n]\s*+")


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
    room = min(ROOM, most * 3 // 4)
    fits = len(text.text) <= most or count(text.text) <= most  # a token has a character at least
    spans = [(0, len(text.content))] if fits else _by_structure(text.content, most - room, count)
    if getattr(embedder, "by_sentence", False):
        least = max(LEAST_PART, len(text.content) // MOST_PARTS)
        spans = [piece for first, last in spans for piece in _by_sentence(text.content, first, last, least)]
    if len(spans) < 2:
        return []
    title = text.title and fitted(text.title, room, count)
    return [Part(text, *span, title) for span in spans[: 1 << PART_BITS]]


def _by_structure(content: str, tokens: int, count: Count) -> list[tuple[int, int]]:
    """Stretches of a long text, of so many tokens at most."""
    from memorist.ingest.markdown import read_markdown  # not before there is anything to cut: most processes only read

    starts = [0, *(ending.end() for ending in _LINE_END.finditer(content)), len(content) + 1]
    spans: list[tuple[int, int]] = []
    for chunk in read_markdown(content, tokens, count).chunks:
        first, last = starts[chunk.start_line - 1], min(starts[chunk.end_line], len(content))
        # Of a line that is over the budget by itself, a chunk is a stretch.
        after = max(first, spans[-1][0] + 1) if spans else first  # which may repeat a sentence of the one before
        place = content.find(chunk.text, after, last)
        spans.append((first, last) if place < 0 else (place, place + len(chunk.text)))
    return spans


def _by_sentence(content: str, first: int, last: int, least: int) -> list[tuple[int, int]]:
    """A stretch cut after sentences and lines, into pieces of `least` characters or more."""
    ends: list[int] = []
    for end in _END.finditer(content, first, last):
        if end.end() - (ends[-1] if ends else first) >= least and last - end.end() >= least // 2:
            ends.append(end.end())
    return list(zip([first, *ends], [*ends, last], strict=True))
