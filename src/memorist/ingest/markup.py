"""Read reStructuredText and HTML as documents: their sections, links and metadata."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from unicodedata import east_asian_width

from msgspec.structs import replace

from memorist.embed.base import TokenCounter
from memorist.ingest.chunk import (
    AFTER_COLON_COST,
    AFTER_HEADING_COST,
    BLOCK_COST,
    ITEM_COST,
    LINE_COST,
    Chunk,
    Lines,
    TextBlock,
)
from memorist.ingest.markdown import (
    MAX_HEADING_CHARACTERS,
    Heading,
    Link,
    ParsedDocument,
    parse_link_target,
    split_sections,
)

_MAX_HEADING_LEVEL = 6


def read_rst(text: str, budget: int, count: TokenCounter) -> ParsedDocument:
    """Parse reStructuredText by its underlined titles; indented lines stay with the block above them."""
    lines = Lines(text)
    page = _RstParser(lines)
    chunks = split_sections(lines, page.blocks, page.headings, budget, count)
    title = page.headings[0].text if page.headings else None
    return ParsedDocument(title, page.parse_fields(), tuple(page.find_links()), chunks)


_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*+\s*")
_ITEM_START = re.compile(r"(?:\.\.|[-*+•]|[0-9a-zA-Z#]{1,3}[.)]|\([0-9a-zA-Z#]{1,3}\)|:[^:\s][^:]*:)(?:\s|$)")
_NOT_PROSE = re.compile(r"\s|\.\.|\+[-=]|=|\||>>>")
_FIELD = re.compile(r":([A-Za-z][\w -]*):(?:\s+(.*))?$")
_ROLE = re.compile(r":[\w:.+-]+:(?=`)|\s*+<[^<>]*>(?=`)|[`*|]|\\(?=\W)")
_RST_LINK = re.compile(
    r":doc:`(?P<doc>[^`<>]*+)(?:<(?P<page>[^`<>]++)>)?`"
    r"|`(?P<label>[^`<>]*+)<(?P<address>[^`<>]++)>`__?"
    r"|^\.\.[ ]_(?P<name>[^:\n`]++):[ ](?P<target>\S++)$",
    re.MULTILINE,
)


class _RstParser:
    """The titles of a text, by the lines under (and over) them, and the blocks between them."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._styles: list[tuple[str, bool]] = []  # character, and whether there is a line above, in order of level
        self.blocks: list[TextBlock] = []
        self.headings: list[Heading] = []
        number = self._skip_blank_lines(0)
        while number < len(lines):
            block = self._read_title(number) or self._read_body(number)
            if self.blocks and self.blocks[-1].heading:
                block.cost = AFTER_HEADING_COST
            elif self.blocks and not block.heading and lines[self.blocks[-1].end - 1].rstrip().endswith(":"):
                block.cost += AFTER_COLON_COST
            self.blocks.append(block)
            number = self._skip_blank_lines(block.end)

    def _skip_blank_lines(self, number: int) -> int:
        """Return the next line that is not blank."""
        while number < len(self._lines) and self._lines.is_blank(number, number + 1):
            number += 1
        return number

    def _line(self, number: int) -> str:
        return self._lines[number] if number < len(self._lines) else ""

    def _read_title(self, number: int) -> TextBlock | None:
        """Return the title that begins with a line, if there is one."""
        over = self._line(number) if _ADORNMENT.fullmatch(self._line(number)) else ""
        start = number + bool(over)
        text, under = self._line(start), self._line(start + 1)
        mark = _ADORNMENT.fullmatch(under)
        if not mark or not text.strip() or len(under.rstrip()) < min(4, _display_width(text.strip())):
            return None
        if over.rstrip() != under.rstrip() if over else text[0].isspace():
            return None
        style = (mark[1], bool(over))
        if style not in self._styles:
            self._styles.append(style)
        level = min(_MAX_HEADING_LEVEL, self._styles.index(style) + 1)
        self.headings.append(Heading(number, level, " ".join(_ROLE.sub("", text[:MAX_HEADING_CHARACTERS]).split())))
        return TextBlock(number, start + 2, heading=level)

    def _read_body(self, start: int) -> TextBlock:
        """Return the block from a line up to a blank one, with everything indented below it."""
        first = self._line(start)
        end = start + 1
        while end < len(self._lines) and not self._lines.is_blank(end, end + 1):
            if first.startswith("..") and not self._line(end)[0].isspace():
                break
            end += 1
        paragraphs = [TextBlock(start, end, prose=not _NOT_PROSE.match(first))]
        if first[0].isspace() or _ITEM_START.match(first):
            while self._line(following := self._skip_blank_lines(end))[:1].isspace():
                end = following + 1
                while (
                    end < len(self._lines) and self._line(end)[:1].isspace() and not self._lines.is_blank(end, end + 1)
                ):
                    end += 1
                paragraphs.append(TextBlock(following, end, cost=ITEM_COST, prose=False))
        if len(paragraphs) == 1:
            return paragraphs[0]
        if not first[0].isspace():
            paragraphs[1].cost = AFTER_HEADING_COST
        return TextBlock(start, end, paragraphs, prose=False)

    def parse_fields(self) -> dict[str, str]:
        """Parse a list of fields (`:tags: a, b`) before the text or right after its title."""
        first = self.blocks[1:] if self.headings and self.headings[0].line == self.blocks[0].start else self.blocks
        found: dict[str, str] = {}
        for block in first[:1]:
            for number in range(block.start, block.end):
                if field := _FIELD.match(self._lines[number]):
                    found[field[1].strip().lower()] = (field[2] or "").strip()
        return found

    def find_links(self) -> Iterator[Link]:
        for found in _RST_LINK.finditer(self._lines.text):
            address = found["page"] or found["doc"] or found["address"] or found["target"] or ""
            label = found["name"] or found["label"] or found["doc"] or address
            if target := parse_link_target(" ".join(address.split())):
                label = " ".join(label.split())[:MAX_HEADING_CHARACTERS] or target
                yield Link(target, label, self._lines.line_at(found.start()) + 1)


def _display_width(text: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def read_html(text: str, budget: int, count: TokenCounter) -> ParsedDocument:
    """
    Parse the text of a page; the lines of chunks are those of the source.

    Raises ValueError if the page cannot be read.
    """
    skipped = _SKIPPED_TAGS
    page = _HtmlParser(text, skipped)
    while page.skipping and page.skipping not in _CODE_TAGS:  # never closed: do not skip it, or the rest is lost
        skipped -= {page.skipping}
        page = _HtmlParser(text, skipped)
    lines = Lines("\n".join(page.lines))
    chunks = split_sections(lines, page.blocks, page.headings, budget, count)
    title = " ".join("".join(page.title).split())[:MAX_HEADING_CHARACTERS]
    title = title or next((heading.text for heading in page.headings), "")
    return ParsedDocument(title or None, page.metadata, tuple(page.links), tuple(map_to_source(chunks, page.source)))


def map_to_source(chunks: Iterable[Chunk], source: Sequence[int]) -> Iterator[Chunk]:
    """Replace the lines of chunks of an extracted text by the lines (or pages) of its source."""
    for chunk in chunks:
        start, end = source[chunk.start_line - 1], source[chunk.end_line - 1]
        yield replace(chunk, start_line=start, end_line=end)


_CODE_TAGS = frozenset(["script", "style"])
_SKIPPED_TAGS = _CODE_TAGS | frozenset("button nav noscript select svg template".split())
_ITEM_TAGS = frozenset("dd dt figcaption li option summary tr".split())
_HEADING_LEVELS = {f"h{level}": level for level in range(1, 7)}
_BLOCK_TAGS = (
    _ITEM_TAGS
    | frozenset(_HEADING_LEVELS)
    | frozenset(
        "address article aside blockquote body caption details div dl fieldset figure footer form head header hr html"
        " legend main ol p pre section table tbody tfoot thead title ul".split()
    )
)
_METADATA_NAMES = frozenset("author date description keywords".split())
_ENCODED_NEWLINE = re.compile(r"&(?:#0*1[03](?![0-9])|#[xX]0*[aAdD](?![0-9a-fA-F])|NewLine(?=;));?")


class _HtmlParser(HTMLParser):
    """The text of a page in lines and blocks; each line comes from one line of the source."""

    def __init__(self, text: str, skipped: frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self.source: list[int] = []  # of each line, the line in the source
        self.blocks: list[TextBlock] = []
        self.headings: list[Heading] = []
        self.links: list[Link] = []
        self.title: list[str] = []
        self.metadata: dict[str, str] = {}
        self.skipping = ""
        self._skipped = skipped
        self._nested = 0  # open elements of the skipped name
        self._in_title = self._in_pre = False
        self._heading = 0
        self._cost = BLOCK_COST
        self._first: int | None = None  # the first line of the open block
        self._written: list[str] = []  # parts of the open line
        self._number = 1
        self._link: tuple[str, int] | None = None
        self._label: list[str] = []
        # The first would shift lines, the second may raise.
        text = _ENCODED_NEWLINE.sub(" ", Lines(text).text).replace("<![", "<! ")
        try:
            self.feed(text + "\n")  # not close(): it reads what is still open again and again
        except AssertionError as exc:
            raise ValueError(str(exc)) from exc
        self._end_block()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if self.skipping or tag in self._skipped:
            self.skipping = self.skipping or tag
            self._nested += tag == self.skipping
            return
        if tag in _BLOCK_TAGS:
            self._end_block()
            self._heading = _HEADING_LEVELS.get(tag, 0)
            self._cost = ITEM_COST if tag in _ITEM_TAGS else BLOCK_COST
            self._in_pre = tag == "pre" or self._in_pre
            self._in_title = tag == "title"
        elif tag == "br":
            self._end_line()
        elif tag in ("td", "th"):
            self._written.append(" ")
        elif tag == "a":
            self._end_link()
            if target := parse_link_target((dict(attrs).get("href") or "").strip()):
                self._link = (target, self.getpos()[0])
        elif tag == "meta":
            self._add_metadata({name: value or "" for name, value in attrs})

    def handle_endtag(self, tag: str) -> None:
        if self.skipping:
            self._nested -= tag == self.skipping
            self.skipping = self.skipping if self._nested else ""
        elif tag in _BLOCK_TAGS:
            self._end_block()
            self._in_pre = self._in_pre and tag != "pre"
            self._in_title = False
        elif tag == "a":
            self._end_link()

    def handle_data(self, data: str) -> None:
        if self.skipping:
            return
        if self._in_title:
            self.title.append(data)
            return
        number = self.getpos()[0]
        for offset, part in enumerate(data.split("\n")):
            if offset or number + offset != self._number:
                self._end_line()
                self._number = number + offset
            self._written.append(part)
            if self._link:
                self._label.append(part)

    def _add_metadata(self, meta: Mapping[str, str]) -> None:
        name = meta.get("name", "").lower()
        if name in _METADATA_NAMES and (content := meta.get("content", "").strip()):
            self.metadata.setdefault(name, content)

    def _end_line(self) -> None:
        text = "".join(self._written)
        self._written = []
        text = text.rstrip() if self._in_pre else " ".join(text.split())
        if text or (self._in_pre and self._first is not None):
            self._first = len(self.lines) if self._first is None else self._first
            self.lines.append(text)
            self.source.append(self._number)

    def _end_block(self) -> None:
        self._end_line()
        if self._first is not None:
            block = TextBlock(self._first, len(self.lines), cost=self._cost, prose=not self._in_pre)
            text = " ".join(" ".join(self.lines[self._first :]).split())
            if self.blocks and self.blocks[-1].heading:
                block.cost = AFTER_HEADING_COST
            if self._heading and len(text) <= MAX_HEADING_CHARACTERS:
                block.heading = self._heading
                self.headings.append(Heading(block.start, self._heading, text))
            self.blocks.append(block)
            self.lines.append("")
            self.source.append(self._number)
        self._first, self._heading, self._cost = None, 0, LINE_COST

    def _end_link(self) -> None:
        if self._link:
            label = " ".join(" ".join(self._label).split())[:MAX_HEADING_CHARACTERS]
            self.links.append(Link(self._link[0], label, self._link[1]))
        self._link, self._label = None, []
