"""reStructuredText and HTML read as documents: their sections, links, and what they say about themselves."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from unicodedata import east_asian_width

from memorist.ingest.chunk import (
    AFTER_COLON,
    AFTER_HEADING,
    BETWEEN_BLOCKS,
    BETWEEN_ITEMS,
    BETWEEN_LINES,
    Chunk,
    Count,
    Lines,
    TextBlock,
    split,
)
from memorist.ingest.markdown import (
    LONGEST_HEADING,
    Heading,
    Link,
    ParsedDocument,
    link_target,
    sections,
    with_breadcrumbs,
)

_DEEPEST = 6  # levels of headings


def read_rst(text: str, budget: int, count: Count) -> ParsedDocument:
    """reStructuredText by the lines under its titles; what is indented stays with what it is indented under."""
    lines = Lines(text)
    page = _Rst(lines)
    chunks = split(lines, sections(page.blocks, 0, len(lines)), budget, count)
    title = page.headings[0].text if page.headings else None
    return ParsedDocument(title, page.fields(), tuple(page.links()), tuple(with_breadcrumbs(chunks, page.headings)))


_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*+\s*")
_OPENS = re.compile(r"(?:\.\.|[-*+•]|[0-9a-zA-Z#]{1,3}[.)]|\([0-9a-zA-Z#]{1,3}\)|:[^:\s][^:]*:)(?:\s|$)")
_NO_PROSE = re.compile(r"\s|\.\.|\+[-=]|=|\||>>>")
_FIELD = re.compile(r":([A-Za-z][\w -]*):(?:\s+(.*))?$")
_ROLE = re.compile(r":[\w:.+-]+:(?=`)|\s*+<[^<>]*>(?=`)|[`*|]|\\(?=\W)")
_RST_LINK = re.compile(
    r":doc:`(?P<doc>[^`<>]*+)(?:<(?P<page>[^`<>]++)>)?`"
    r"|`(?P<label>[^`<>]*+)<(?P<address>[^`<>]++)>`__?"
    r"|^\.\.[ ]_(?P<name>[^:\n`]++):[ ](?P<target>\S++)$",
    re.MULTILINE,
)


class _Rst:
    """A text on its way to blocks: titles as the lines under (and over) them tell, and what stands between them."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._styles: list[tuple[str, bool]] = []  # how titles are marked, in order of their level
        self.blocks: list[TextBlock] = []
        self.headings: list[Heading] = []
        number = self._next(0)
        while number < len(lines):
            block = self._title(number) or self._body(number)
            if self.blocks and self.blocks[-1].heading:
                block.cost = AFTER_HEADING
            elif self.blocks and not block.heading and lines[self.blocks[-1].end - 1].rstrip().endswith(":"):
                block.cost += AFTER_COLON
            self.blocks.append(block)
            number = self._next(block.end)

    def _next(self, number: int) -> int:
        """The next line that is not blank."""
        while number < len(self._lines) and self._lines.blank(number, number + 1):
            number += 1
        return number

    def _line(self, number: int) -> str:
        return self._lines[number] if number < len(self._lines) else ""

    def _title(self, number: int) -> TextBlock | None:
        """The title that begins with a line, if one does."""
        over = self._line(number) if _ADORNMENT.fullmatch(self._line(number)) else ""
        start = number + bool(over)
        text, under = self._line(start), self._line(start + 1)
        mark = _ADORNMENT.fullmatch(under)
        if not mark or not text.strip() or len(under.rstrip()) < min(4, _columns(text.strip())):
            return None
        if over.rstrip() != under.rstrip() if over else text[0].isspace():
            return None
        style = (mark[1], bool(over))
        if style not in self._styles:
            self._styles.append(style)
        level = min(_DEEPEST, self._styles.index(style) + 1)
        self.headings.append(Heading(number, level, " ".join(_ROLE.sub("", text[:LONGEST_HEADING]).split())))
        return TextBlock(number, start + 2, heading=level)

    def _body(self, start: int) -> TextBlock:
        """Lines up to a blank one, with all that is indented under them; what is indented itself, up to its end."""
        first = self._line(start)
        end = start + 1
        while end < len(self._lines) and not self._lines.blank(end, end + 1):
            if first.startswith("..") and not self._line(end)[0].isspace():
                break
            end += 1
        paragraphs = [TextBlock(start, end, prose=not _NO_PROSE.match(first))]
        if first[0].isspace() or _OPENS.match(first):
            while self._line(following := self._next(end))[:1].isspace():
                end = following + 1
                while end < len(self._lines) and self._line(end)[:1].isspace() and not self._lines.blank(end, end + 1):
                    end += 1
                paragraphs.append(TextBlock(following, end, cost=BETWEEN_ITEMS, prose=False))
        if len(paragraphs) == 1:
            return paragraphs[0]
        if not first[0].isspace():
            paragraphs[1].cost = AFTER_HEADING
        return TextBlock(start, end, paragraphs, prose=False)

    def fields(self) -> dict[str, str]:
        """What a list of fields (`:tags: a, b`) says before the text or right after its title."""
        first = self.blocks[1:] if self.headings and self.headings[0].line == self.blocks[0].start else self.blocks
        found: dict[str, str] = {}
        for block in first[:1]:
            for number in range(block.start, block.end):
                if field := _FIELD.match(self._lines[number]):
                    found[field[1].strip().lower()] = (field[2] or "").strip()
        return found

    def links(self) -> Iterator[Link]:
        for found in _RST_LINK.finditer(self._lines.text):
            address = found["page"] or found["doc"] or found["address"] or found["target"] or ""
            label = found["name"] or found["label"] or found["doc"] or address
            if target := link_target(" ".join(address.split())):
                label = " ".join(label.split())[:LONGEST_HEADING] or target
                yield Link(target, label, self._lines.at(found.start()) + 1)


def _columns(text: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def read_html(text: str, budget: int, count: Count) -> ParsedDocument:
    """
    The text of a page, without its tags; chunks name the lines of the page that it comes from.

    Raises ValueError where the page cannot be read.
    """
    skipped = _SKIPPED
    page = _HtmlText(text, skipped)
    while page.skipping and page.skipping not in _CODE:  # never closed: better to have it all than to lose the rest
        skipped -= {page.skipping}
        page = _HtmlText(text, skipped)
    lines = Lines("\n".join(page.lines))
    chunks = split(lines, sections(page.blocks, 0, len(lines)), budget, count)
    title = " ".join("".join(page.title).split())[:LONGEST_HEADING]
    title = title or next((heading.text for heading in page.headings), "")
    return ParsedDocument(
        title or None,
        page.about,
        tuple(page.links),
        tuple(at_source(with_breadcrumbs(chunks, page.headings), page.source)),
    )


def at_source(chunks: Iterable[Chunk], source: Sequence[int]) -> Iterator[Chunk]:
    """Chunks of a text that was taken out of another, with the lines (or pages) there instead of its own."""
    for chunk in chunks:
        start, end = source[chunk.start_line - 1], source[chunk.end_line - 1]
        yield replace(chunk, start_line=start, end_line=end)


_CODE = frozenset(["script", "style"])
_SKIPPED = _CODE | frozenset("button nav noscript select svg template".split())
_ITEMS = frozenset("dd dt figcaption li option summary tr".split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = (
    _ITEMS
    | frozenset(_HEADINGS)
    | frozenset(
        "address article aside blockquote body caption details div dl fieldset figure footer form head header hr html"
        " legend main ol p pre section table tbody tfoot thead title ul".split()
    )
)
_ABOUT = frozenset("author date description keywords".split())
_NEWLINE = re.compile(r"&(?:#0*1[03](?![0-9])|#[xX]0*[aAdD](?![0-9a-fA-F])|NewLine(?=;));?")


class _HtmlText(HTMLParser):
    """A page on its way to text: each of its lines stands on one line of the source, and blocks are kept apart."""

    def __init__(self, text: str, skipped: frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self.source: list[int] = []  # the line of the source for each of the lines
        self.blocks: list[TextBlock] = []
        self.headings: list[Heading] = []
        self.links: list[Link] = []
        self.title: list[str] = []
        self.about: dict[str, str] = {}
        self.skipping = ""
        self._skipped = skipped
        self._nested = 0  # elements of the name that is skipped
        self._titling = self._preformatted = False
        self._heading = 0
        self._cost = BETWEEN_BLOCKS
        self._first: int | None = None  # the line the open block begins with
        self._written: list[str] = []  # on the line that is not yet ended
        self._number = 1
        self._link: tuple[str, int] | None = None
        self._label: list[str] = []
        text = _NEWLINE.sub(" ", Lines(text).text).replace("<![", "<! ")  # the one shifts lines, the other may raise
        try:
            self.feed(text + "\n")  # not close(): what is still open would be read again and again
        except AssertionError as exc:
            raise ValueError(str(exc)) from exc
        self._end_block()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if self.skipping or tag in self._skipped:
            self.skipping = self.skipping or tag
            self._nested += tag == self.skipping
            return
        if tag in _BLOCKS:
            self._end_block()
            self._heading = _HEADINGS.get(tag, 0)
            self._cost = BETWEEN_ITEMS if tag in _ITEMS else BETWEEN_BLOCKS
            self._preformatted = tag == "pre" or self._preformatted
            self._titling = tag == "title"
        elif tag == "br":
            self._end_line()
        elif tag in ("td", "th"):
            self._written.append(" ")
        elif tag == "a":
            self._end_link()
            if target := link_target((dict(attrs).get("href") or "").strip()):
                self._link = (target, self.getpos()[0])
        elif tag == "meta":
            self._note({name: value or "" for name, value in attrs})

    def handle_endtag(self, tag: str) -> None:
        if self.skipping:
            self._nested -= tag == self.skipping
            self.skipping = self.skipping if self._nested else ""
        elif tag in _BLOCKS:
            self._end_block()
            self._preformatted = self._preformatted and tag != "pre"
            self._titling = False
        elif tag == "a":
            self._end_link()

    def handle_data(self, data: str) -> None:
        if self.skipping:
            return
        if self._titling:
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

    def _note(self, meta: Mapping[str, str]) -> None:
        name = meta.get("name", "").lower()
        if name in _ABOUT and (content := meta.get("content", "").strip()):
            self.about.setdefault(name, content)

    def _end_line(self) -> None:
        text = "".join(self._written)
        self._written = []
        text = text.rstrip() if self._preformatted else " ".join(text.split())
        if text or (self._preformatted and self._first is not None):
            self._first = len(self.lines) if self._first is None else self._first
            self.lines.append(text)
            self.source.append(self._number)

    def _end_block(self) -> None:
        self._end_line()
        if self._first is not None:
            block = TextBlock(self._first, len(self.lines), cost=self._cost, prose=not self._preformatted)
            text = " ".join(" ".join(self.lines[self._first :]).split())
            if self.blocks and self.blocks[-1].heading:
                block.cost = AFTER_HEADING
            if self._heading and len(text) <= LONGEST_HEADING:
                block.heading = self._heading
                self.headings.append(Heading(block.start, self._heading, text))
            self.blocks.append(block)
            self.lines.append("")
            self.source.append(self._number)
        self._first, self._heading, self._cost = None, 0, BETWEEN_LINES

    def _end_link(self) -> None:
        if self._link:
            label = " ".join(" ".join(self._label).split())[:LONGEST_HEADING]
            self.links.append(Link(self._link[0], label, self._link[1]))
        self._link, self._label = None, []
