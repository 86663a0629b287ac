"""Read Markdown as a document: its front matter, its links, and its chunks along the sections."""

import html
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from textwrap import dedent
from typing import Any
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct

from memorist.embed.base import TokenCounter
from memorist.ingest.chunk import (
    AFTER_COLON_COST,
    AFTER_HEADING_COST,
    BLOCK_COST,
    ITEM_COST,
    SECTION_COST,
    Chunk,
    Lines,
    Section,
    TextBlock,
    add_breadcrumbs,
    split_into_chunks,
)

MAX_NESTING = 40  # levels, two for each list; the parser stops there, because its time grows with them
MAX_HEADING_CHARACTERS = 200  # every chunk below a heading carries it


class Link(Struct, frozen=True):
    """A link to another document of the same collection."""

    target: str  # a path as the author wrote it, decoded, without query and anchor; or the name in [[name]]
    text: str
    line: int  # from 1


class ParsedDocument(Struct, frozen=True):
    """A parsed file: its chunks, and what it says about itself."""

    title: str | None  # of the front matter, else the first heading of level 1
    front_matter: Mapping[str, Any]
    links: tuple[Link, ...]
    chunks: tuple[Chunk, ...]


class Heading(Struct, frozen=True):
    """A heading, its level and the line it begins with (from 0)."""

    line: int
    level: int
    text: str


def read_markdown(text: str, budget: int, count: TokenCounter) -> ParsedDocument:
    """Parse any text as Markdown; each chunk has at most `budget` tokens by `count`."""
    lines = Lines(text)
    front_matter, body = _parse_front_matter(lines)
    env: dict[str, Any] = {}
    # Empty lines replace the front matter, so that lines keep their numbers. One follows at the end, because the parser
    # reads beyond the end of a text that ends with a quote (see its issues 185, 204 and 415).
    tokens = _block_parser().parse("\n" * body + lines.text[lines.starts[body] :] + "\n", env)
    headings = list(_find_headings(tokens))
    chunks = split_sections(lines, _build_blocks(tokens, lines, body), headings, budget, count, body)
    links = sorted([*_find_links(tokens), *_find_link_definitions(env, lines)], key=lambda link: link.line)
    return ParsedDocument(_choose_title(front_matter, headings), front_matter, tuple(links), chunks)


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields of the front matter of a text, and the text after it."""
    lines = Lines(text)
    fields, body = _parse_front_matter(lines)
    return fields, lines.text[lines.starts[body] :]


@cache
def _block_parser() -> MarkdownIt:
    """Return a parser for CommonMark with tables, for blocks only: where they begin does not depend on words."""
    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable("table").disable(["inline", "text_join"])
    parser.parse("a")  # it collects its rules when first used, which two threads must not do at once
    return parser


@cache
def _inline_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark")
    parser.parseInline("*a*")
    return parser


_CONTAINERS = frozenset("blockquote bullet_list ordered_list list_item table".split())
_OPENING_TOKENS = frozenset(f"{name}_open" for name in _CONTAINERS)
_CLOSING_TOKENS = frozenset(f"{name}_close" for name in _CONTAINERS)
_PROSE_TOKENS = frozenset(["paragraph_open", "heading_open"])
_LEAF_TOKENS = _PROSE_TOKENS | {"tr_open", "fence", "code_block", "html_block", "hr"}


def _build_blocks(tokens: Sequence[Token], lines: Lines, body: int) -> list[TextBlock]:
    """Build the tree of blocks from the flat list of tokens."""
    path = [TextBlock(body, len(lines))]
    head: TextBlock | None = None  # the last heading, or the head of a table
    for token in tokens:
        if token.type in _CLOSING_TOKENS:
            _fill_gaps(path.pop(), lines)
        elif token.map and (token.type in _LEAF_TOKENS or token.type in _OPENING_TOKENS):
            outer = path[-1]
            block = TextBlock(token.map[0], token.map[1], prose=token.type in _PROSE_TOKENS)
            block.cost = BLOCK_COST if len(path) == 1 else ITEM_COST
            if outer.parts:
                before = outer.parts[-1]
                if before is head:
                    block.cost = AFTER_HEADING_COST
                elif before.prose and not before.parts and lines[before.end - 1].rstrip().endswith((":", "：")):
                    block.cost += AFTER_COLON_COST
            elif token.type == "tr_open":
                block.end += 1  # and the line of dashes
                head = block
            outer.parts.append(block)
            if token.type in _OPENING_TOKENS:
                path.append(block)
            elif token.type == "heading_open":
                head = block
                if len(path) == 1:
                    block.heading = int(token.tag[1])
    _fill_gaps(path[0], lines)
    return path[0].parts


def _fill_gaps(block: TextBlock, lines: Lines) -> None:
    """Add blocks for lines without tokens, such as link definitions."""
    parts: list[TextBlock] = []
    last = block.start
    for part in [*block.parts, TextBlock(block.end, block.end)]:
        if not lines.is_blank(last, part.start):
            parts.append(TextBlock(last, part.start, cost=ITEM_COST, prose=False))
        parts.append(part)
        last = part.end
    block.parts = parts[:-1]


def split_sections(
    lines: Lines,
    blocks: Iterable[TextBlock],
    headings: Sequence[Heading],
    budget: int,
    count: TokenCounter,
    start: int = 0,
) -> tuple[Chunk, ...]:
    """Split a text from a line on along its sections; the headings above a chunk are its breadcrumb."""
    chunks = split_into_chunks(lines, _build_sections(blocks, start, len(lines)), budget, count)
    return tuple(add_breadcrumbs(chunks, _list_sections(headings)))


def _build_sections(blocks: Iterable[TextBlock], start: int, end: int) -> TextBlock:
    """Build the tree of sections: each has its heading with the text that follows, then the sections within."""
    root = TextBlock(start, end)
    path = [root]
    for block in blocks:
        if block.heading:
            while path[-1].heading >= block.heading:
                path.pop()
            above = path[-1].parts
            alone = len(above) == 1 and len(above[0].parts) == 1 and path[-1] is not root
            cost = AFTER_HEADING_COST if alone else SECTION_COST * len(path)
            section = TextBlock(block.start, block.end, cost=cost, heading=block.heading)
            above.append(section)
            path.append(section)
        own = path[-1].parts
        if not own:
            own.append(TextBlock(block.start, block.end, heading=block.heading))
        own[0].parts.append(block)
        own[0].end = block.end
        for section in path[1:]:
            section.end = block.end
    return root


def _find_headings(tokens: Sequence[Token]) -> Iterator[Heading]:
    for number, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            yield Heading(token.map[0], int(token.tag[1]), _strip_markup(tokens[number + 1].content))


def _choose_title(front_matter: Mapping[str, Any], headings: Sequence[Heading]) -> str | None:
    title = front_matter.get("title")
    if isinstance(title, str) and title.strip():
        return title.strip()
    if isinstance(title, int) and not isinstance(title, bool):
        return str(title)
    return next((heading.text for heading in headings if heading.level == 1 and heading.text), None)


def _strip_markup(heading: str) -> str:
    """Return the text of a heading without markup, addresses and a trailing {#name}."""
    heading = re.sub(r"\s\{#[^{}]*\}$", "", heading[:MAX_HEADING_CHARACTERS])
    if re.search(r"[`*_\[<\\&]", heading):
        parts = _inline_parser().parseInline(heading)[0].children or []
        heading = "".join(part.content if part.type != "html_inline" else "" for part in parts)
    return " ".join(heading.split())


def _list_sections(headings: Sequence[Heading]) -> list[Section]:
    """Return the section of each heading: up to the next one of its level or above."""
    sections, ends = list[Section](), [sys.maxsize] * 7  # by level
    for heading in reversed(headings):
        sections.append(Section(heading.line, ends[heading.level], heading.text))
        ends[heading.level :] = [heading.line] * (7 - heading.level)
    return sections[::-1]


# Every repetition is possessive, so that any text is read in one pass.
_LINK = re.compile(
    r"""
    \\[!-/:-@\[-`{-~]
    | !?\[\[ (?P<page>[^\[\]\n|\#]*+) (?:\#[^\[\]\n|]*+)?+ (?:\|(?P<alias>[^\[\]\n]*+))?+ \]\]
    | (?P<open>!?\[)
    | (?P<close>\]) (?:
        \( \s*+
        (?P<address> <[^<>\n]*+> | [^\s()<>]++ (?:\([^\s()<>]*+\)[^\s()<>]*+)*+ )
        (?:\s++ (?:"[^"]*+"|'[^']*+'|\([^()]*+\)) )?+
        \s*+ \)
      )?
    """,
    re.VERBOSE,
)
_TICKS = re.compile(r"(\\*+)(`++)")
_EXTERNAL_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.)++)\]:")
_MAX_LABEL_CHARACTERS = 1_100  # from the start of its line; a label itself has up to 999, by CommonMark


def _find_links(tokens: Iterable[Token]) -> Iterator[Link]:
    for token in tokens:
        if token.type == "inline" and token.map and "[" in token.content:
            yield from _find_links_in(_blank_out_code(token.content), token.map[0] + 1)


def _find_links_in(text: str, line: int) -> Iterator[Link]:
    """Yield the links of a paragraph; `line` is its first line."""
    opened: list[re.Match[str]] = []
    counted = 0
    for found in _LINK.finditer(text):
        line += text.count("\n", counted, found.start())
        counted = found.start()
        if found["open"]:
            opened.append(found)
        elif found["page"] and (page := found["page"].strip()):
            yield Link(page, (found["alias"] or found["page"]).strip(), line)
        elif found["close"] and opened:
            begin = opened.pop()
            if (
                found["address"]
                and begin["open"] == "["
                and (target := parse_link_target(found["address"].strip("<>")))
            ):
                label = " ".join(text[begin.end() : found.start()].split())
                yield Link(target, label, line)


def parse_link_target(address: str) -> str:
    """Return the path that an address within the collection points to; an empty text for any other address."""
    address = html.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", address))
    if _EXTERNAL_ADDRESS.match(address):
        return ""
    return unquote(re.split("[?#]", address, maxsplit=1)[0]).strip()


def _blank_out_code(text: str) -> str:
    """Replace code between backticks by blanks."""
    if "`" not in text:
        return text
    ticks = [(found.start(2), len(found[2]), len(found[1]) % 2) for found in _TICKS.finditer(text)]
    closing: dict[int, list[int]] = {}
    for number, (_, length, _) in enumerate(ticks):
        closing.setdefault(length, []).append(number)
    for numbers in closing.values():
        numbers.reverse()
    parts, done, until = [], 0, -1
    for number, (start, length, escaped) in enumerate(ticks):
        if number <= until or escaped:
            continue
        numbers = closing[length]
        while numbers and numbers[-1] <= number:
            numbers.pop()
        if numbers:
            until = numbers.pop()
            end = ticks[until][0] + length
            parts += [text[done:start], re.sub(r"[^\n]", " ", text[start:end])]
            done = end
    return "".join([*parts, text[done:]])


def _find_link_definitions(env: Mapping[str, Any], lines: Lines) -> Iterator[Link]:
    """Yield the links of `[label]: path` lines, once each, however often the label is used."""
    for reference in env.get("references", {}).values():
        line = reference["map"][0]
        label = _LABEL.search(lines[line], 0, _MAX_LABEL_CHARACTERS)
        target = parse_link_target(reference["href"])
        if label and target and not label[1].startswith("^"):  # a footnote
            yield Link(target, " ".join(label[1].split()), line + 1)


_KEY = re.compile(r"""("[^"]*"|'[^']*'|\w[\w .-]*+)\s*+:(?:\s++(.*))?$""")
_ITEM = re.compile(r"\s*-(?:\s+(.*))?$")
# Of a list; where a quote is not closed, up to the next comma, so that no part is read from each of its places.
_ELEMENT = re.compile(r"""\s*+("(?:[^"\\]|\\.)*+"|'(?:[^']|'')*+'|[^,"'][^,]*+|)\s*+(?:,|\Z)|([^,]*+)(?:,|\Z)""")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_BLOCK_TEXT = re.compile(r"[|>][-+0-9]*$")
_CONSTANTS = {"true": True, "false": False, "null": None, "~": None, "": None}


def _parse_front_matter(lines: Lines) -> tuple[dict[str, Any], int]:
    """
    Return the fields between `---` on the first line and the next `---`, and the number of the line after it.

    It parses the part of YAML that people write there: texts, numbers, lists. Anything nested stays text.
    """
    if lines[0].rstrip() != "---":
        return {}, 0
    end = next((line for line in range(1, len(lines)) if lines[line].rstrip() in ("---", "...")), 0)
    inner = [lines[line].rstrip() for line in range(1, end)]
    if not any(_KEY.match(line) for line in [line for line in inner if line and not line.startswith("#")][:1]):
        return {}, 0  # a horizontal rule, and another one below
    entries: list[tuple[str, list[str]]] = []
    for line in inner:
        if found := _KEY.match(line):
            entries.append((found[1].strip("\"' "), [found[2] or ""]))
        elif entries:
            entries[-1][1].append(line)
    return {key: _parse_value(first, more) for key, (first, *more) in entries}, end + 1


def _parse_value(first: str, more: list[str]) -> Any:
    """Parse the value of a key, from the rest of its line and the lines below."""
    first = first.strip()
    if _BLOCK_TEXT.match(first):
        text = dedent("\n".join(more)).strip("\n")
        return text if first.startswith("|") else re.sub(r"(?<=\S)\n(?=\S)", " ", text)
    below = [line for line in more if line and not line.lstrip().startswith("#")]
    if first and not first.startswith("#"):
        return _parse_flow(" ".join([first, *(line.strip() for line in below)]))
    if not below or not _ITEM.match(below[0]):
        return dedent("\n".join(below)) or None
    depth = len(below[0]) - len(below[0].lstrip())
    items: list[list[str]] = []
    for line in below:
        item = _ITEM.match(line)
        if item and len(line) - len(line.lstrip()) <= depth:
            items.append([item[1] or ""])
        else:
            items[-1].append(line.strip())
    return [_parse_flow(" ".join(item)) for item in items]


def _parse_flow(text: str) -> Any:
    """Parse a value on one line: [a, b] or a single one."""
    listed = re.fullmatch(r"\[([^\[\]{}]*)\]\s*(?:\s#.*)?", text)
    if not listed:
        return _parse_scalar(text)
    elements = [found[1] or found[2] or "" for found in _ELEMENT.finditer(listed[1])]
    return [_parse_scalar(element) for element in elements if element.strip()]


def _parse_scalar(text: str) -> Any:
    """
    Parse a text, a whole number, true, false or null.

    A version such as 1.10 and a date stay text: as a number, 1.10 would be another version.
    """
    if quoted := re.match(r'"((?:[^"\\]|\\.)*+)"', text):
        try:
            return json.loads(quoted[0], strict=False)
        except ValueError:
            return quoted[1]
    if quoted := re.match(r"'((?:[^']|'')*+)'", text):
        return quoted[1].replace("''", "'")
    text = _COMMENT.sub("", text).strip()
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    return int(text) if re.fullmatch(r"-?(?:0|[1-9][0-9]{0,17})", text) else text
