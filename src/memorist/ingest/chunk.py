"""
Split texts along their structure into chunks of at most a budget of tokens.

A text is a tree: a document of sections, a section of blocks, a list of items, a paragraph of lines. A block that fits
the budget is never cut; one that does not falls into its parts. The chunk boundaries are then chosen for the whole text
at once, as TeX chooses line breaks (Knuth and Plass, 1981): every boundary has a cost, and so has the unused budget of
every chunk.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from msgspec import Struct, field
from msgspec.structs import replace

from memorist.embed.base import TokenCounter

# The costs of beginning a chunk at a place; an empty chunk would cost 1.
SECTION_COST = 0.05  # times the depth of the section
BLOCK_COST = 0.4
ITEM_COST = 0.5  # of a list, a table, a quote
LINE_COST = 0.6
_MID_SENTENCE_COST = 0.8
AFTER_HEADING_COST = 2.0  # a heading without its text
AFTER_COLON_COST = 0.3  # in addition: the colon announces what follows
_ACROSS_SECTIONS_COST = 0.7  # in addition: a chunk with a part of a section and text beyond it

_PIECES_PER_BUDGET = 32  # smaller pieces are joined first, so that choosing cuts takes bounded time
MAX_TOKEN_CHARACTERS = 16  # visible ones; to many models a blob is one unknown word, so it is counted by characters
OVERLAP_DIVISOR = 4  # a repeated sentence may take up a quarter of the budget

_BODY_LEVEL = 7  # deeper than every heading

# A full stop after a single character, or before a small letter, belongs to a number or an abbreviation.
SENTENCE_END = re.compile(r"""(?<=[^\s.]{2}|\.\.)[.!?…]["'”’)\]]*+\s++(?=[^\sa-z])|[。！？]["'”’」』）]*+\s*+""")
_LAST_SPACE = re.compile(r"\s(?=\S*\Z)")


class Chunk(Struct, frozen=True):
    """A run of lines of a text, unchanged. `text` is a part of its lines only if one line alone is over the budget."""

    text: str
    start_line: int  # from 1, as editors count
    end_line: int  # the last one
    breadcrumb: tuple[str, ...] = ()  # the headings above, outermost first


class Section(Struct, frozen=True):
    """The lines of a section or a definition, from 0, up to but not including `end`, and its name."""

    start: int
    end: int
    name: str


class TextBlock(Struct):
    """A run of lines that is kept whole if it fits, and otherwise split into its parts or lines."""

    start: int  # the first line, from 0
    end: int  # the line after the last
    parts: list["TextBlock"] = field(default_factory=list)
    cost: float = BLOCK_COST  # of beginning a chunk with it
    heading: int = 0  # the level of the heading it begins with
    prose: bool = True  # sentences, of which one may be repeated; not code, table rows or tags


class Lines:
    """A text with numbered lines, as in editors: ended by LF, CRLF or CR only, and without a byte order mark."""

    def __init__(self, text: str) -> None:
        self.text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        lines = self.text.split("\n")
        self.starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        self.visible = list(accumulate((sum(map(len, line.split())) for line in lines), initial=0))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, line: int) -> str:
        return self.text[self.starts[line] : self.starts[line + 1] - 1]

    def is_blank(self, start: int, end: int) -> bool:
        """Return True if there is nothing visible from one line up to another."""
        return self.visible[start] == self.visible[end]

    def line_at(self, position: int) -> int:
        """Return the line of the character at a position."""
        return bisect_right(self.starts, position) - 1


def split_plain_text(text: str, budget: int, count: TokenCounter) -> list[Chunk]:
    """Split a text without markup between paragraphs, and long ones between lines, sentences and words."""
    lines = Lines(text)
    paragraphs: list[TextBlock] = []
    for number in range(len(lines)):
        if not lines.is_blank(number, number + 1):
            if paragraphs and paragraphs[-1].end == number:
                paragraphs[-1].end += 1
            else:
                paragraphs.append(TextBlock(number, number + 1))
    return split_into_chunks(lines, TextBlock(0, len(lines), paragraphs), budget, count)


def split_into_chunks(lines: Lines, root: TextBlock, budget: int, count: TokenCounter) -> list[Chunk]:
    """Return chunks of at most `budget` tokens each, in order, with every line that is not blank."""
    splitter = _Splitter(lines, max(1, budget), count)
    chunks = []
    for start, end in splitter.choose_spans(splitter.split_block(root, splitter.budget), splitter.budget):
        text = lines.text[start:end]
        if text and not text.isspace():
            chunks.append(Chunk(text, lines.line_at(start) + 1, lines.line_at(end - 1) + 1))
    return chunks


def add_breadcrumbs(chunks: Iterable[Chunk], sections: Sequence[Section]) -> Iterator[Chunk]:
    """Add the names of the sections that each chunk begins within; one that it begins with does not count."""
    around: list[Section] = []
    number = 0
    for chunk in chunks:
        first = chunk.start_line - 1
        while number < len(sections) and sections[number].start < first:
            around.append(sections[number])
            number += 1
        around = [section for section in around if section.end > first]
        yield replace(chunk, breadcrumb=tuple(section.name for section in around if section.name))


class _Piece(Struct):
    """A block that fits, or a part of one that does not; the unit that chunks are made of."""

    start: int  # positions of characters
    end: int
    tokens: int  # at least 1
    cost: float
    section: int  # the level of the section around it
    heading: int = _BODY_LEVEL  # the level of the heading it begins with
    block: TextBlock | None = None  # to be split further if it turns out to have more tokens
    lead: int = 0  # characters before it that are repeated if a chunk begins here
    lead_tokens: int = 0


class _Splitter:
    """Splits one text. Tokens are counted once per line and once per chunk, because counting is expensive."""

    def __init__(self, lines: Lines, budget: int, count: TokenCounter) -> None:
        self.budget = budget
        self._count = count
        self._lines = lines
        self._text = lines.text
        self._token_sums = list(accumulate(map(self._count_line, range(len(lines))), initial=0))

    def _count_line(self, line: int) -> int:
        """Count the tokens of a line with its line end, a token to some models; at least one if it is not blank."""
        if self._lines.is_blank(line, line + 1):
            return 0
        return max(1, self._count(self._text[self._lines.starts[line] : self._lines.starts[line + 1]]))

    def _sum_tokens(self, start: int, end: int) -> int:
        """Return the sum of the tokens of lines, which may differ a little from the tokens of the whole."""
        visible = self._lines.visible[end] - self._lines.visible[start]
        return max(self._token_sums[end] - self._token_sums[start], -(-visible // MAX_TOKEN_CHARACTERS))

    def _count_tokens(self, start: int, end: int) -> int:
        """Count the tokens between two positions."""
        text = self._text[start:end]
        tokens = self._count(text)
        if len(text) <= MAX_TOKEN_CHARACTERS * tokens:
            return tokens
        return max(tokens, -(-sum(map(len, text.split())) // MAX_TOKEN_CHARACTERS))

    def split_block(self, block: TextBlock, limit: int, section: int = 0) -> list[_Piece]:
        """Return the largest parts of a block with at most `limit` tokens each."""
        pieces: list[_Piece] = []
        self._collect_pieces(pieces, block, block.cost, limit, section)
        return pieces

    def _collect_pieces(self, pieces: list[_Piece], block: TextBlock, cost: float, limit: int, section: int) -> None:
        section = block.heading or section
        tokens = self._sum_tokens(block.start, block.end)
        if tokens > limit and block.parts:
            for part in block.parts:
                self._collect_pieces(pieces, part, cost if part is block.parts[0] else part.cost, limit, section)
        elif tokens > limit:
            for piece in self._split_lines(block, cost, limit, section):
                _add_piece(pieces, piece, limit // _PIECES_PER_BUDGET)
        elif tokens:
            start, end = block.start, block.end
            while self._lines.is_blank(start, start + 1):
                start += 1
            while self._lines.is_blank(end - 1, end):
                end -= 1
            first, after = self._lines.starts[start], self._lines.starts[end] - 1
            piece = _Piece(first, after, tokens, cost, section, block.heading or _BODY_LEVEL, block)
            _add_piece(pieces, piece, limit // _PIECES_PER_BUDGET)

    def _split_lines(self, block: TextBlock, cost: float, limit: int, section: int) -> list[_Piece]:
        """Split a block without parts into lines, and lines over the limit into sentences and words."""
        starts, pieces, cut = self._lines.starts, list[_Piece](), set[int]()
        for line in range(block.start, block.end):
            tokens = self._sum_tokens(line, line + 1)
            first, after = starts[line], starts[line + 1] - 1
            if tokens > limit:
                cut.add(line)
                for start, end, part in self._split_line(first, after, limit):
                    _add_piece(
                        pieces, _Piece(start, end, max(1, part), LINE_COST, section), limit // _PIECES_PER_BUDGET
                    )
            elif tokens:
                _add_piece(pieces, _Piece(first, after, tokens, LINE_COST, section), limit // _PIECES_PER_BUDGET)
        if block.prose:
            self._mark_sentences(pieces, block, limit // OVERLAP_DIVISOR, cut)
        if pieces:
            pieces[0].cost, pieces[0].heading = cost, block.heading or _BODY_LEVEL
        return pieces

    def _mark_sentences(self, pieces: list[_Piece], block: TextBlock, most: int, cut: set[int]) -> None:
        """Raise the cost of cutting a sentence, and repeat the sentence before a cut, as context for the next."""
        start, end = self._lines.starts[block.start], self._lines.starts[block.end] - 1
        begins = [start, *(found.end() for found in SENTENCE_END.finditer(self._text, start, end))]
        for piece in pieces[1:]:
            text = self._text[piece.start : piece.end]
            visible = piece.end - len(text.lstrip())
            number = bisect_left(begins, piece.start)
            if number == len(begins) or begins[number] > visible:
                piece.cost = _MID_SENTENCE_COST
            lead = begins[number - 1]
            line = self._lines.line_at(lead)
            if line not in cut:
                lead = max(start, self._lines.starts[line])  # a whole line has an exact number
            if piece.start - lead <= most * MAX_TOKEN_CHARACTERS:
                tokens = self._count_tokens(lead, piece.start)
                if tokens <= most:
                    piece.lead, piece.lead_tokens = piece.start - lead, tokens

    def _split_line(self, start: int, end: int, limit: int) -> Iterator[tuple[int, int, int]]:
        """Yield start, end and tokens of the sentences of a line, or of as many words as fit where one is too long."""
        ends = [found.end() for found in SENTENCE_END.finditer(self._text, start, end)]
        for after in ends if ends and ends[-1] == end else [*ends, end]:
            tokens = self._count_tokens(start, after)
            if tokens <= limit:
                yield start, after, tokens
            else:
                yield from self._split_words(start, after, tokens, limit)
            start = after

    def _split_words(self, start: int, end: int, tokens: int, limit: int) -> Iterator[tuple[int, int, int]]:
        """Yield parts of a span, about as long as fits, ending after a space where there is one."""
        size = max(1, (end - start) // -(-tokens // max(1, limit)))
        while start < end:
            reach = size
            while True:
                after = min(end, start + reach)
                if after < end and (space := _LAST_SPACE.search(self._text, start + reach // 2, after)):
                    after = space.end()
                tokens = self._count_tokens(start, after)
                if tokens <= limit or reach == 1:
                    break
                reach = max(1, min((after - start) * limit // tokens, (after - start) * 7 // 8))
            yield start, after, tokens
            start = after

    def choose_spans(self, pieces: list[_Piece], limit: int) -> Iterator[tuple[int, int]]:
        """Yield start and end of each chunk. One with more tokens than its pieces is split with a lower limit."""
        for first, after in _choose_cuts(pieces, limit):
            group = pieces[first:after]
            start, end = group[0].start, group[-1].end
            if group[0].lead_tokens + group[0].tokens <= limit:
                start -= group[0].lead
            tokens = self._count_tokens(start, end)
            if tokens <= self.budget:
                yield start, end
            elif len(group) == 1 and (limit == 1 or not group[0].block):
                for part, part_end, _ in self._split_words(start, end, tokens, self.budget):
                    yield part, part_end
            else:
                less = max(1, min(limit * self.budget // tokens, limit * 7 // 8))
                finer: list[_Piece] = []
                for piece in group:
                    finer += self.split_block(piece.block, less, piece.section) if piece.block else [piece]
                yield from self.choose_spans(finer, less)


def _add_piece(pieces: list[_Piece], piece: _Piece, most: int) -> None:
    """Append a piece, or join it with the last one if both are tiny; never with a heading at the end."""
    last = pieces[-1] if pieces else None
    if not last or last.tokens + piece.tokens > most or last.heading > piece.heading:
        pieces.append(piece)
        return
    both = last.block and piece.block and TextBlock(last.block.start, piece.block.end, prose=False)
    last.end, last.tokens, last.block = piece.end, last.tokens + piece.tokens, both


def _choose_cuts(pieces: list[_Piece], limit: int) -> list[tuple[int, int]]:
    """
    Return the first piece of each chunk and the one after its last, at the least total cost.

    A chunk costs the square of its unused share. So there are few chunks, and none is tiny if others can stopwords
    something.
    """
    size = len(pieces)
    best, following = [0.0] * (size + 1), [size] * (size + 1)
    for first in range(size - 1, -1, -1):
        piece = pieces[first]
        tokens = piece.lead_tokens if piece.lead_tokens + piece.tokens <= limit else 0
        outermost = piece.heading if piece.heading < _BODY_LEVEL else piece.section + 1  # a heading within its section
        entered, left, least = _BODY_LEVEL, 0.0, float("inf")
        for after in range(first + 1, size + 1):
            piece = pieces[after - 1]
            tokens += piece.tokens
            if after > first + 1:
                if tokens > limit:
                    break
                if piece.heading < entered:
                    entered = piece.heading
                    if entered < outermost:
                        left += _ACROSS_SECTIONS_COST
                        outermost = entered
            empty = 1 - tokens / limit if tokens < limit else 0.0
            cost = best[after] + empty * empty + left
            if after < size:
                cost += pieces[after].cost
                if pieces[after].heading > entered:  # a section that began in the chunk goes on
                    cost += _ACROSS_SECTIONS_COST
            if cost < least:
                least, following[first] = cost, after
        best[first] = least
    cuts, first = [], 0
    while first < size:
        cuts.append((first, following[first]))
        first = following[first]
    return cuts
