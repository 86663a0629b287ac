"""Markdown read as a document: what its front matter says, where it links to, and its chunks, section by section."""

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from textwrap import dedent
from typing import Any
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from memorist.ingest.chunk import (
    AFTER_COLON,
    AFTER_HEADING,
    BEFORE_SECTION,
    BETWEEN_BLOCKS,
    BETWEEN_ITEMS,
    Chunk,
    Count,
    Lines,
    TextBlock,
    split,
)

NESTING = 40  # levels, two for each list; beyond them the parser reads no further, and time grows with them
LONGEST_HEADING = 200  # characters: what is longer is no heading, and every chunk below would carry it


@dataclass(frozen=True, slots=True)
class Link:
    """A link to another document of the same collection."""

    target: str  # a path as the author wrote it, decoded, without query and anchor; or the name in [[name]]
    text: str
    line: int  # from 1


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What there is to know about a Markdown text."""

    title: str | None  # of the front matter, else the first heading of level 1
    front_matter: Mapping[str, Any]
    links: tuple[Link, ...]
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    line: int
    level: int
    text: str


def read_markdown(text: str, budget: int, count: Count) -> ParsedDocument:
    """Read a document; each of its chunks has at most `budget` tokens by `count`. No text is refused."""
    lines = Lines(text)
    front_matter, body = _front_matter(lines)
    env: dict[str, Any] = {}
    # Empty lines in place of the front matter, so that lines keep their numbers; and one at the end, because the
    # parser looks for characters beyond it where a quote ends the text (as in its issues 185, 204 and 415).
    tokens = _parser().parse("\n" * body + lines.text[lines.starts[body] :] + "\n", env)
    headings = list(_headings(tokens))
    chunks = split(lines, sections(_blocks(tokens, lines, body), body, len(lines)), budget, count)
    links = sorted([*_links(tokens), *_definitions(env, lines)], key=lambda link: link.line)
    return ParsedDocument(
        _title(front_matter, headings), front_matter, tuple(links), tuple(with_breadcrumbs(chunks, headings))
    )


def read_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """What the front matter of a text says, and the text behind it."""
    lines = Lines(text)
    fields, body = _front_matter(lines)
    return fields, lines.text[lines.starts[body] :]


@cache
def _parser() -> MarkdownIt:
    """CommonMark with tables, blocks only: words inside of a paragraph do not matter for where it begins."""
    parser = MarkdownIt("commonmark", {"maxNesting": NESTING}).enable("table").disable(["inline", "text_join"])
    parser.parse("a")  # it gathers its rules when first used, which two threads must not do at once
    return parser


@cache
def _inline_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark")
    parser.parseInline("*a*")
    return parser


_CONTAINERS = frozenset("blockquote bullet_list ordered_list list_item table".split())
_OPENING = frozenset(f"{name}_open" for name in _CONTAINERS)
_CLOSING = frozenset(f"{name}_close" for name in _CONTAINERS)
_PROSE = frozenset(["paragraph_open", "heading_open"])
_LEAVES = _PROSE | {"tr_open", "fence", "code_block", "html_block", "hr"}


def _blocks(tokens: Sequence[Token], lines: Lines, body: int) -> list[TextBlock]:
    """The blocks of a document with all they hold, from the parser's flat list."""
    path = [TextBlock(body, len(lines))]
    head: TextBlock | None = None  # the last heading, or the head of a table
    for token in tokens:
        if token.type in _CLOSING:
            _fill(path.pop(), lines)
        elif token.map and (token.type in _LEAVES or token.type in _OPENING):
            outer = path[-1]
            block = TextBlock(token.map[0], token.map[1], prose=token.type in _PROSE)
            block.cost = BETWEEN_BLOCKS if len(path) == 1 else BETWEEN_ITEMS
            if outer.parts:
                before = outer.parts[-1]
                if before is head:
                    block.cost = AFTER_HEADING
                elif before.prose and not before.parts and lines[before.end - 1].rstrip().endswith((":", "：")):
                    block.cost += AFTER_COLON
            elif token.type == "tr_open":
                block.end += 1  # with the line of dashes
                head = block
            outer.parts.append(block)
            if token.type in _OPENING:
                path.append(block)
            elif token.type == "heading_open":
                head = block
                if len(path) == 1:
                    block.heading = int(token.tag[1])
    _fill(path[0], lines)
    return path[0].parts


def _fill(block: TextBlock, lines: Lines) -> None:
    """Make blocks of the lines that the parser gives no tokens for, such as definitions of links."""
    parts: list[TextBlock] = []
    last = block.start
    for part in [*block.parts, TextBlock(block.end, block.end)]:
        if not lines.blank(last, part.start):
            parts.append(TextBlock(last, part.start, cost=BETWEEN_ITEMS, prose=False))
        parts.append(part)
        last = part.end
    block.parts = parts[:-1]


def sections(blocks: Iterable[TextBlock], start: int, end: int) -> TextBlock:
    """A document as a tree of sections: each has its heading with what follows it, then the sections within."""
    root = TextBlock(start, end)
    path = [root]
    for block in blocks:
        if block.heading:
            while path[-1].heading >= block.heading:
                path.pop()
            above = path[-1].parts
            alone = len(above) == 1 and len(above[0].parts) == 1 and path[-1] is not root
            cost = AFTER_HEADING if alone else BEFORE_SECTION * len(path)
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


def _headings(tokens: Sequence[Token]) -> Iterator[Heading]:
    for number, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            yield Heading(token.map[0], int(token.tag[1]), _plain(tokens[number + 1].content))


def _title(front_matter: Mapping[str, Any], headings: Sequence[Heading]) -> str | None:
    title = front_matter.get("title")
    if isinstance(title, str) and title.strip():
        return title.strip()
    if isinstance(title, int) and not isinstance(title, bool):
        return str(title)
    return next((heading.text for heading in headings if heading.level == 1 and heading.text), None)


def _plain(heading: str) -> str:
    """The text of a heading without marks, addresses and a trailing {#name}."""
    heading = re.sub(r"\s\{#[^{}]*\}$", "", heading[:LONGEST_HEADING])
    if re.search(r"[`*_\[<\\&]", heading):
        parts = _inline_parser().parseInline(heading)[0].children or []
        heading = "".join(part.content if part.type != "html_inline" else "" for part in parts)
    return " ".join(heading.split())


def with_breadcrumbs(chunks: Iterable[Chunk], headings: Sequence[Heading]) -> Iterator[Chunk]:
    """Chunks with the headings above them; a heading that a chunk begins with is not above it."""
    above: list[Heading] = []
    number = 0
    for chunk in chunks:
        first = chunk.start_line - 1
        while number < len(headings) and headings[number].line < first:
            above = [*_outer(above, headings[number]), headings[number]]
            number += 1
        here = number < len(headings) and headings[number].line == first
        outer = _outer(above, headings[number]) if here else above
        yield replace(chunk, breadcrumb=tuple(heading.text for heading in outer if heading.text))


def _outer(above: Sequence[Heading], heading: Heading) -> list[Heading]:
    return [outer for outer in above if outer.level < heading.level]


# Every repetition is possessive, so that none is tried twice: text from anywhere is read in one pass.
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
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.)++)\]:")


def _links(tokens: Iterable[Token]) -> Iterator[Link]:
    for token in tokens:
        if token.type == "inline" and token.map and "[" in token.content:
            yield from _links_of(_without_code(token.content), token.map[0] + 1)


def _links_of(text: str, line: int) -> Iterator[Link]:
    """The links of a paragraph; `line` is its first."""
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
            if found["address"] and begin["open"] == "[" and (target := link_target(found["address"].strip("<>"))):
                label = " ".join(text[begin.end() : found.start()].split())
                yield Link(target, label, line)


def link_target(address: str) -> str:
    """The path that an address within the collection points to; of any other, nothing."""
    address = html.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", address))
    if _ELSEWHERE.match(address):
        return ""
    return unquote(re.split("[?#]", address, maxsplit=1)[0]).strip()


def _without_code(text: str) -> str:
    """A paragraph with blanks in place of code between ticks."""
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


def _definitions(env: Mapping[str, Any], lines: Lines) -> Iterator[Link]:
    """What `[label]: path` points to, once, however often the label is used."""
    for reference in env.get("references", {}).values():
        line = reference["map"][0]
        label = _LABEL.search(lines[line])
        target = link_target(reference["href"])
        if label and target and not label[1].startswith("^"):  # a footnote
            yield Link(target, " ".join(label[1].split()), line + 1)


_KEY = re.compile(r"""("[^"]*"|'[^']*'|\w[\w .-]*+)\s*+:(?:\s++(.*))?$""")
_ITEM = re.compile(r"\s*-(?:\s+(.*))?$")
_ELEMENT = re.compile(r"""\s*+("(?:[^"\\]|\\.)*+"|'(?:[^']|'')*+'|[^,"'][^,]*+|)\s*+(?:,|\Z)""")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_BLOCK_TEXT = re.compile(r"[|>][-+0-9]*$")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


def _front_matter(lines: Lines) -> tuple[dict[str, Any], int]:
    """
    What stands between `---` at the very beginning and the next, and the line after it.

    It is read as the part of YAML that people write there: texts, numbers, lists. Anything deeper stays text.
    """
    if lines[0].rstrip() != "---":
        return {}, 0
    end = next((line for line in range(1, len(lines)) if lines[line].rstrip() in ("---", "...")), 0)
    inner = [lines[line].rstrip() for line in range(1, end)]
    if not any(_KEY.match(line) for line in [line for line in inner if line and not line.startswith("#")][:1]):
        return {}, 0  # a rule across the page, and another one somewhere below
    entries: list[tuple[str, list[str]]] = []
    for line in inner:
        if found := _KEY.match(line):
            entries.append((found[1].strip("\"' "), [found[2] or ""]))
        elif entries:
            entries[-1][1].append(line)
    return {key: _value(first, more) for key, (first, *more) in entries}, end + 1


def _value(first: str, more: list[str]) -> Any:
    """The value of a key, from what stands beside it and in the lines below."""
    first = first.strip()
    if _BLOCK_TEXT.match(first):
        text = dedent("\n".join(more)).strip("\n")
        return text if first.startswith("|") else re.sub(r"(?<=\S)\n(?=\S)", " ", text)
    below = [line for line in more if line and not line.lstrip().startswith("#")]
    if first and not first.startswith("#"):
        return _flow(" ".join([first, *(line.strip() for line in below)]))
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
    return [_flow(" ".join(item)) for item in items]


def _flow(text: str) -> Any:
    """A value on one line: [a, b] or a single one."""
    listed = re.fullmatch(r"\[([^\[\]{}]*)\]\s*(?:\s#.*)?", text)
    if not listed:
        return _scalar(text)
    elements = [found[1] for found in _ELEMENT.finditer(listed[1])]
    return [_scalar(element) for element in elements if element.strip()]


def _scalar(text: str) -> Any:
    """
    A text, a whole number, true or false, or nothing.

    A version 1.10 and a date stay as they are written: as a number, the one would be another version.
    """
    if quoted := re.match(r'"((?:[^"\\]|\\.)*+)"', text):
        try:
            return json.loads(quoted[0], strict=False)
        except ValueError:
            return quoted[1]
    if quoted := re.match(r"'((?:[^']|'')*+)'", text):
        return quoted[1].replace("''", "'")
    text = _COMMENT.sub("", text).strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    return int(text) if re.fullmatch(r"-?(?:0|[1-9][0-9]{0,17})", text) else text
