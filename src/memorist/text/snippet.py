"""Snippets: the passage of a text that matches a query best, with its matches marked."""

import re
from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from memorist.records import Query
from memorist.text.tokenizer import UNSPACED_SCRIPTS, Word, has_unspaced, split_unspaced, stem_words

MARK, UNMARK, ELLIPSIS = "<mark>", "</mark>", "…"
_MARKS = re.compile(f"{MARK}|{UNMARK}")
_WINDOW_CHARACTERS, _MAX_WINDOWS = 20_000, 10  # searched for the best passage of a memory at a time, and how often
# Characters around the nearest part that are looked at, at least and for each word of the snippet, to whole words.
_NEAREST_MARGIN, _MARGIN_A_WORD, _LONGEST_WORD = 1_000, 10, 50
_SPACE = re.compile(r"\s+")
# What counts as a word of a snippet: one between spaces, or else so many characters, so that no text makes it long.
_WHOLE_WORD, _LONG_SPACE = 40, 20
_SNIPPET_WORD = re.compile(
    rf"[{UNSPACED_SCRIPTS}]{{1,4}}|(?<!\S)[^\s{UNSPACED_SCRIPTS}]{{1,{_WHOLE_WORD}}}(?!\S)"
    rf"|[^\s{UNSPACED_SCRIPTS}]{{1,8}}|\s{{{_LONG_SPACE},40}}"
)
_MAX_BIGRAMS = 128  # of a run of unspaced script that are looked for


class Passage(Struct, frozen=True):
    """A piece of a text with its matches marked, and the spans of all matches in the text."""

    text: str
    highlights: tuple[tuple[int, int], ...]


class HighlightTerms(Struct, frozen=True):
    """The words of a query to be marked: stems, prefixes, and runs of unspaced script."""

    stems: frozenset[str]
    prefixes: tuple[str, ...]
    runs: tuple[str, ...]

    @classmethod
    def of(cls, query: Query) -> "HighlightTerms":
        stems: set[str] = set()
        prefixes, runs = [], []
        for term in query.terms:
            for stretch, unspaced in split_unspaced(term.text):
                if unspaced:
                    runs.append(stretch)
                elif term.prefix:
                    prefixes.append(stretch.lower())
                else:
                    stems.update(stem for _, _, stem in stem_words(stretch))
        return cls(frozenset(stems), tuple(prefixes), tuple(runs))

    def find(self, text: str, words: Sequence[Word]) -> list[Word]:
        """Return where they occur: start, end, and which one."""
        found = [word for word in words if word[2] in self.stems]
        if not self.prefixes and not self.runs:
            return found
        for prefix in self.prefixes:
            found += [(start, end, prefix) for start, end, _ in words if text[start:end].lower().startswith(prefix)]
        for run in self.runs:
            pieces = [run] if run in text else [run[i : i + 2] for i in range(min(len(run) - 1, _MAX_BIGRAMS))] or [run]
            for piece in dict.fromkeys(pieces):
                start = text.find(piece)
                while start >= 0:
                    found.append((start, start + len(piece), piece))
                    start = text.find(piece, start + len(piece))
        return sorted(set(found))


def best_passage(content: str, terms: HighlightTerms, width: int, nearest: tuple[int, int] | None = None) -> Passage:
    """
    Return the passage of `width` words with the most different matches.

    If the part that is `nearest` in meaning has a match, the passage is there; otherwise its surroundings are searched
    first. Without a match, as where only the vector leg found a memory, the passage is the beginning of that part, or
    of the text.
    """
    base, text, found = _find_stretch(content, terms, width, nearest)
    start = end = 0
    nearby: list[Word] = []
    if nearest:
        start, end = nearest[0] - base, nearest[1] - base
        nearby = [match for match in found if start <= match[0] < end]
    first, last = _best_window(text, nearby or found, width, max(0, start))
    highlights = _merge_ranges([(base + left, base + right) for left, right, _ in found])
    return Passage(_mark_matches(content, base + first, base + last, highlights), highlights)


def _find_stretch(
    content: str, terms: HighlightTerms, width: int, nearest: tuple[int, int] | None
) -> tuple[int, str, list[Word]]:
    """
    Return the first stretch of a text with a match, or else the first one: where it begins, its text, and the matches.

    Each is short enough to be tokenized.
    """
    stretches = [
        (at, at + _WINDOW_CHARACTERS)
        for at in range(0, max(1, min(len(content), _WINDOW_CHARACTERS * _MAX_WINDOWS)), _WINDOW_CHARACTERS)
    ]
    if nearest:
        margin = max(_NEAREST_MARGIN, width * _MARGIN_A_WORD)
        around = _next_word_start(content, nearest[0] - margin), _next_word_start(content, nearest[1] + margin)
        stretches.insert(0, around)
    first: tuple[int, str, list[Word]] | None = None
    for begin, end in stretches:
        text = content[begin:end]
        found = terms.find(text, stem_words(text))
        if found:
            return begin, text, found
        first = first or (begin, text, found)
    assert first is not None, "every text has a stretch"
    return first


def _next_word_start(content: str, place: int) -> int:
    """Return where the next word begins, if one does soon."""
    space = _SPACE.search(content, place, place + _LONGEST_WORD) if place > 0 else None
    return space.end() if space else max(place, 0)


def strip_marks(text: str) -> str:
    """Remove the marks around matches."""
    return _MARKS.sub("", text)


def preview(content: str, length: int) -> str:
    """Return the beginning of a text on one line, cut at a word where possible."""
    line = " ".join(content[: length * 4].split())
    if len(line) <= length and len(content) <= length * 4:
        return line
    cut = line[:length]
    return (cut[: cut.rindex(" ")] if " " in cut[length // 2 :] else cut).rstrip() + ELLIPSIS


def _best_window(text: str, found: Sequence[Word], width: int, beginning: int) -> tuple[int, int]:
    """Return the span of `width` words with the most different matches; without a match, that at the beginning."""
    if _is_short(text, width):
        return 0, len(text)
    starts = [word.start() for word in _SNIPPET_WORD.finditer(text)]
    if len(starts) <= width:
        return 0, len(text)
    places = [bisect_right(starts, start) - 1 for start, _, _ in found]
    lead = width // 4  # words before the first match
    first, most = bisect_right(starts, beginning) - 1, (0, 0)
    for index, place in enumerate(places):
        inside = [found[i][2] for i in range(index, bisect_right(places, place + width - lead - 1))]
        worth = (len(set(inside)), len(inside))
        if worth > most:
            first, most = place - lead, worth
    first = min(max(0, first), len(starts) - width)
    last = first + width
    end = len(text) if last == len(starts) else starts[last]
    return (starts[first] if first else 0), len(text[:end].rstrip())


def _is_short(text: str, width: int) -> bool:
    """Tell if a text surely has no more than `width` words, without looking for them one by one, as most notes."""
    words = text.split(None, width)
    spaces = len(text) - sum(map(len, words))
    return (
        0 < len(words) <= width
        and max(map(len, words)) <= _WHOLE_WORD
        and spaces < len(words) + _LONG_SPACE - 2
        and not has_unspaced(text)
    )


def _mark_matches(content: str, start: int, end: int, highlights: Sequence[tuple[int, int]]) -> str:
    parts, at = [ELLIPSIS if start > 0 else ""], start
    for left, right in highlights:
        if left >= start and right <= end:
            parts += [content[at:left], MARK, content[left:right], UNMARK]
            at = right
    parts += [content[at:end], ELLIPSIS if end < len(content) else ""]
    return "".join(parts).strip()


def _merge_ranges(ranges: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, end in ranges:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
