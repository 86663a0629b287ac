"""
Texts cut into chunks that a model can take in whole, along their structure.

A text is a tree: a document of sections, a section of blocks, a list of items, a paragraph of lines. What fits the
budget is never cut; what does not falls into its parts. Where chunks begin is then chosen for the whole text at once,
as TeX chooses where lines end (Knuth and Plass, 1981): every place has a price, and so has every chunk with room left.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

Count = Callable[[str], int]
"""How many tokens a text has."""

# What it costs to begin a chunk at a place; to leave a chunk empty would cost 1.
BEFORE_SECTION = 0.05  # and as much again for each section around it
BETWEEN_BLOCKS = 0.4
BETWEEN_ITEMS = 0.5  # of a list, a table, a quote
BETWEEN_LINES = 0.6
WITHIN_SENTENCE = 0.8
AFTER_HEADING = 2.0  # a heading without what it heads
AFTER_COLON = 0.3  # more: what the colon announces follows
ACROSS = 0.7  # more: a chunk with a part of a section and something beyond it; worth it for a tiny part only

FINEST = 32  # parts of a budget: smaller pieces are first joined, so that choosing takes the same time for any text
WIDEST = 16  # visible characters a token: no script has words so long, but to many models a blob is one unknown word
OVERLAP = 4  # the part of a budget that a repeated sentence may take up

_BODY = 7  # deeper than every heading

# A full stop after a single character, or before a small letter, ends a number or an abbreviation, not a sentence.
SENTENCE_END = re.compile(r"""(?<=[^\s.]{2}|\.\.)[.!?…]["'”’)\]]*+\s++(?=[^\sa-z])|[。！？]["'”’」』）]*+\s*+""")
_LAST_SPACE = re.compile(r"\s(?=\S*\Z)")


@dataclass(frozen=True, slots=True)
class Chunk:
    """
    A run of lines of a text, as it stands there.

    Only where one line alone is over the budget, `text` is a part of its lines.
    """

    text: str
    start_line: int  # from 1, as editors count
    end_line: int  # the last one
    breadcrumb: tuple[str, ...] = ()  # the headings above it, outermost first


@dataclass(slots=True)
class TextBlock:
    """A run of lines that stays whole if it fits, and falls into its parts, or its lines, if not."""

    start: int  # the first line, from 0
    end: int  # the line after the last
    parts: list["TextBlock"] = field(default_factory=list)
    cost: float = BETWEEN_BLOCKS  # of beginning a chunk with it
    heading: int = 0  # the level of the heading it begins with
    prose: bool = True  # sentences, of which one may be repeated; not code, rows, tags


class Lines:
    """A text as editors number its lines: ended by LF, CRLF or CR and nothing else, without a byte order mark."""

    def __init__(self, text: str) -> None:
        self.text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        lines = self.text.split("\n")
        self.starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        self.visible = list(accumulate((sum(map(len, line.split())) for line in lines), initial=0))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, line: int) -> str:
        return self.text[self.starts[line] : self.starts[line + 1] - 1]

    def blank(self, start: int, end: int) -> bool:
        """Whether nothing is to be seen from one line up to another."""
        return self.visible[start] == self.visible[end]

    def at(self, place: int) -> int:
        """The line that the character at a place stands in."""
        return bisect_right(self.starts, place) - 1


def plain_chunks(text: str, budget: int, count: Count) -> list[Chunk]:
    """A text without markup, cut between its paragraphs, the longest between lines, sentences, words."""
    lines = Lines(text)
    paragraphs: list[TextBlock] = []
    for number in range(len(lines)):
        if not lines.blank(number, number + 1):
            if paragraphs and paragraphs[-1].end == number:
                paragraphs[-1].end += 1
            else:
                paragraphs.append(TextBlock(number, number + 1))
    return split(lines, TextBlock(0, len(lines), paragraphs), budget, count)


def split(lines: Lines, root: TextBlock, budget: int, count: Count) -> list[Chunk]:
    """Chunks of at most `budget` tokens each, in order, which hold every line of a text that is not blank."""
    splitter = _Splitter(lines, max(1, budget), count)
    chunks = []
    for start, end in splitter.spans(splitter.pieces(root, splitter.budget), splitter.budget):
        text = lines.text[start:end]
        if text and not text.isspace():
            chunks.append(Chunk(text, lines.at(start) + 1, lines.at(end - 1) + 1))
    return chunks


@dataclass(slots=True)
class _Piece:
    """What is never cut: a block that fits, or a part of one that does not."""

    start: int  # places of characters
    end: int
    tokens: int  # at least 1
    cost: float
    section: int  # the level of the section it stands in
    heading: int = _BODY  # the level of the heading it begins with
    block: TextBlock | None = None  # what it could fall into if its tokens turn out to be more
    lead: int = 0  # characters before it that are repeated if a chunk begins here
    lead_tokens: int = 0


class _Splitter:
    """One text on its way to chunks. Tokens are counted once a line and once a chunk: counting is what costs."""

    def __init__(self, lines: Lines, budget: int, count: Count) -> None:
        self.budget = budget
        self._count = count
        self._lines = lines
        self._text = lines.text
        self._counted = list(accumulate(map(self._count_line, range(len(lines))), initial=0))

    def _count_line(self, line: int) -> int:
        """With its line end, which is a token to some models; at least one if there is anything to see."""
        if self._lines.blank(line, line + 1):
            return 0
        return max(1, self._count(self._text[self._lines.starts[line] : self._lines.starts[line + 1]]))

    def _tokens(self, start: int, end: int) -> int:
        """The tokens from one line up to another: the sum, which may differ a little from the count of all."""
        visible = self._lines.visible[end] - self._lines.visible[start]
        return max(self._counted[end] - self._counted[start], -(-visible // WIDEST))

    def _measure(self, start: int, end: int) -> int:
        """The tokens between two places, counted."""
        text = self._text[start:end]
        tokens = self._count(text)
        if len(text) <= WIDEST * tokens:
            return tokens
        return max(tokens, -(-sum(map(len, text.split())) // WIDEST))

    def pieces(self, block: TextBlock, limit: int, section: int = 0) -> list[_Piece]:
        """The largest parts of a block that have no more tokens than the limit."""
        pieces: list[_Piece] = []
        self._fall(pieces, block, block.cost, limit, section)
        return pieces

    def _fall(self, pieces: list[_Piece], block: TextBlock, cost: float, limit: int, section: int) -> None:
        section = block.heading or section
        tokens = self._tokens(block.start, block.end)
        if tokens > limit and block.parts:
            for part in block.parts:
                self._fall(pieces, part, cost if part is block.parts[0] else part.cost, limit, section)
        elif tokens > limit:
            for piece in self._parts_of_lines(block, cost, limit, section):
                _join(pieces, piece, limit // FINEST)
        elif tokens:
            start, end = block.start, block.end
            while self._lines.blank(start, start + 1):
                start += 1
            while self._lines.blank(end - 1, end):
                end -= 1
            first, after = self._lines.starts[start], self._lines.starts[end] - 1
            piece = _Piece(first, after, tokens, cost, section, block.heading or _BODY, block)
            _join(pieces, piece, limit // FINEST)

    def _parts_of_lines(self, block: TextBlock, cost: float, limit: int, section: int) -> list[_Piece]:
        """A block without parts by its lines, and lines over the limit by sentences and words."""
        starts, pieces, cut = self._lines.starts, list[_Piece](), set[int]()
        for line in range(block.start, block.end):
            tokens = self._tokens(line, line + 1)
            first, after = starts[line], starts[line + 1] - 1
            if tokens > limit:
                cut.add(line)
                for start, end, part in self._parts_of_line(first, after, limit):
                    _join(pieces, _Piece(start, end, max(1, part), BETWEEN_LINES, section), limit // FINEST)
            elif tokens:
                _join(pieces, _Piece(first, after, tokens, BETWEEN_LINES, section), limit // FINEST)
        if block.prose:
            self._mark_sentences(pieces, block, limit // OVERLAP, cut)
        if pieces:
            pieces[0].cost, pieces[0].heading = cost, block.heading or _BODY
        return pieces

    def _mark_sentences(self, pieces: list[_Piece], block: TextBlock, most: int, cut: set[int]) -> None:
        """Make it dear to cut a sentence, and repeat the one before a cut: it says what the next is about."""
        start, end = self._lines.starts[block.start], self._lines.starts[block.end] - 1
        begins = [start, *(found.end() for found in SENTENCE_END.finditer(self._text, start, end))]
        for piece in pieces[1:]:
            text = self._text[piece.start : piece.end]
            visible = piece.end - len(text.lstrip())
            number = bisect_left(begins, piece.start)
            if number == len(begins) or begins[number] > visible:
                piece.cost = WITHIN_SENTENCE
            lead = begins[number - 1]
            line = self._lines.at(lead)
            if line not in cut:
                lead = max(start, self._lines.starts[line])  # whole lines have exact numbers
            if piece.start - lead <= most * WIDEST:
                tokens = self._measure(lead, piece.start)
                if tokens <= most:
                    piece.lead, piece.lead_tokens = piece.start - lead, tokens

    def _parts_of_line(self, start: int, end: int, limit: int) -> Iterator[tuple[int, int, int]]:
        """The sentences of a line, or where one is too long, as many words as fit: start, end and tokens of each."""
        ends = [found.end() for found in SENTENCE_END.finditer(self._text, start, end)]
        for after in ends if ends and ends[-1] == end else [*ends, end]:
            tokens = self._measure(start, after)
            if tokens <= limit:
                yield start, after, tokens
            else:
                yield from self._cut(start, after, tokens, limit)
            start = after

    def _cut(self, start: int, end: int, tokens: int, limit: int) -> Iterator[tuple[int, int, int]]:
        """Parts of a stretch, about as long as fits, ended after a space where there is one in reach."""
        size = max(1, (end - start) // -(-tokens // max(1, limit)))
        while start < end:
            reach = size
            while True:
                after = min(end, start + reach)
                if after < end and (space := _LAST_SPACE.search(self._text, start + reach // 2, after)):
                    after = space.end()
                tokens = self._measure(start, after)
                if tokens <= limit or reach == 1:
                    break
                reach = max(1, min((after - start) * limit // tokens, (after - start) * 7 // 8))
            yield start, after, tokens
            start = after

    def spans(self, pieces: list[_Piece], limit: int) -> Iterator[tuple[int, int]]:
        """Where chunks begin and end. One with more tokens than its pieces had is cut again, more cautiously."""
        for first, after in _best_cuts(pieces, limit):
            group = pieces[first:after]
            start, end = group[0].start, group[-1].end
            if group[0].lead_tokens + group[0].tokens <= limit:
                start -= group[0].lead
            tokens = self._measure(start, end)
            if tokens <= self.budget:
                yield start, end
            elif len(group) == 1 and (limit == 1 or not group[0].block):
                for part, part_end, _ in self._cut(start, end, tokens, self.budget):
                    yield part, part_end
            else:
                less = max(1, min(limit * self.budget // tokens, limit * 7 // 8))
                finer: list[_Piece] = []
                for piece in group:
                    finer += self.pieces(piece.block, less, piece.section) if piece.block else [piece]
                yield from self.spans(finer, less)


def _join(pieces: list[_Piece], piece: _Piece, most: int) -> None:
    """Add a piece, or if both are tiny make one of it and the last; never with a heading at the end."""
    last = pieces[-1] if pieces else None
    if not last or last.tokens + piece.tokens > most or last.heading > piece.heading:
        pieces.append(piece)
        return
    both = last.block and piece.block and TextBlock(last.block.start, piece.block.end, prose=False)
    last.end, last.tokens, last.block = piece.end, last.tokens + piece.tokens, both


def _best_cuts(pieces: list[_Piece], limit: int) -> list[tuple[int, int]]:
    """
    The first piece of each chunk and the one after its last, at the least cost in all.

    A chunk costs the square of the share of it that stays empty: so there are few, and none is tiny if others can
    spare something.
    """
    size = len(pieces)
    best, following = [0.0] * (size + 1), [size] * (size + 1)
    for first in range(size - 1, -1, -1):
        piece = pieces[first]
        tokens = piece.lead_tokens if piece.lead_tokens + piece.tokens <= limit else 0
        outermost = piece.heading if piece.heading < _BODY else piece.section + 1  # heading within the section it is in
        entered, left, least = _BODY, 0.0, float("inf")
        for after in range(first + 1, size + 1):
            piece = pieces[after - 1]
            tokens += piece.tokens
            if after > first + 1:
                if tokens > limit:
                    break
                if piece.heading < entered:
                    entered = piece.heading
                    if entered < outermost:
                        left += ACROSS
                        outermost = entered
            empty = 1 - tokens / limit if tokens < limit else 0.0
            cost = best[after] + empty * empty + left
            if after < size:
                cost += pieces[after].cost
                if pieces[after].heading > entered:  # a section that it entered goes on
                    cost += ACROSS
            if cost < least:
                least, following[first] = cost, after
        best[first] = least
    cuts, first = [], 0
    while first < size:
        cuts.append((first, following[first]))
        first = following[first]
    return cuts
