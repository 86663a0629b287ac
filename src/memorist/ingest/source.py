"""Source code read as a document: its chunks are definitions, or lines that begin where the code is outermost."""

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from memorist.ingest.chunk import (
    AFTER_HEADING,
    BEFORE_SECTION,
    BETWEEN_BLOCKS,
    BETWEEN_ITEMS,
    BETWEEN_LINES,
    Chunk,
    Count,
    Lines,
    TextBlock,
    split,
)
from memorist.ingest.markdown import ParsedDocument

LARGEST = 1_000_000  # characters of Python that are worth a syntax tree, which takes a hundred times the room
DEEPEST = 12  # levels of indentation; what is deeper falls into lines

_TAB = 4
_GOES_ON = re.compile(r"[\])}{]|</|(?:begin|catch|do|done|elif|else|elsif|end|esac|except|fi|finally|then)\b")
_ANNOUNCES = re.compile(r"//|/\*|\*|#|--|@|;|%")  # a comment or an annotation: it belongs to the line below
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class _Span:
    """The lines of a definition."""

    start: int
    end: int
    name: str


def read_source(text: str, budget: int, count: Count) -> ParsedDocument:
    """Code in any language, by its indentation alone. No text is refused."""
    lines = Lines(text)
    root = TextBlock(0, len(lines), _Indented(lines).blocks(0, len(lines)))
    return ParsedDocument(None, {}, (), tuple(split(lines, root, budget, count)))


def read_python(text: str, budget: int, count: Count) -> ParsedDocument:
    """Python by its classes and functions, whose names are the breadcrumb; what has errors, by its indentation."""
    lines = Lines(text)
    tree = _parsed(lines.text)
    if tree is None:
        return read_source(text, budget, count)
    module = _Module(lines)
    root = TextBlock(0, len(lines), module.body(tree.body, 0, len(lines)))
    return ParsedDocument(None, {}, (), tuple(_placed(split(lines, root, budget, count), module.spans)))


def _parsed(text: str) -> ast.Module | None:
    if len(text) > LARGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the code, which is not ours
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # also null characters, and nesting beyond measure
        return None


class _Indented:
    """Lines with how far each is indented, to be cut where they are the least."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._indents = [_indent(lines[number]) for number in range(len(lines))]  # -1 for blank lines

    def blocks(self, start: int, end: int, level: int = 0) -> list[TextBlock]:
        """Blocks that begin at the lowest indentation and hold what is deeper, for all lines but blank ones."""
        numbers = [number for number in range(start, end) if self._indents[number] >= 0]
        if not numbers:
            return []
        least = min(self._indents[number] for number in numbers)
        blocks: list[TextBlock] = []
        start = before = numbers[0]
        for number in numbers[1:]:
            if self._indents[number] == least and self._is_begin(number):
                blocks.append(self._block(start, before + 1, level))
                start = number
            before = number
        return [*blocks, self._block(start, before + 1, level)]

    def _block(self, start: int, end: int, level: int) -> TextBlock:
        """A block, with the parts it falls into: its first lines, what they enclose, and the bracket that ends it."""
        block = TextBlock(start, end, cost=BETWEEN_LINES, prose=False)
        if start and self._indents[start - 1] < 0:
            block.cost = (2 * BEFORE_SECTION, BETWEEN_BLOCKS, BETWEEN_ITEMS)[min(level, 2)]
        if level < 2:
            block.heading = level + 1  # what begins here is no part of what stands above
        inner, after = start + 1, end
        while inner < end and self._indents[inner] <= self._indents[start]:
            inner += 1
        while after > inner and self._indents[after - 1] <= self._indents[start]:
            after -= 1
        inside = self.blocks(inner, after, level + 1) if level < DEEPEST else []
        if inside:
            inside[0].cost = AFTER_HEADING
            ending = [TextBlock(after, end, cost=AFTER_HEADING, prose=False)] if after < end else []
            block.parts = [TextBlock(start, inner, heading=block.heading, prose=False), *inside, *ending]
        return block

    def _is_begin(self, number: int) -> bool:
        """Whether something new begins with a line: not where it ends or goes on, nor below a comment on it."""
        above = self._lines[number - 1].lstrip()
        return not _GOES_ON.match(self._lines[number].lstrip()) and not _ANNOUNCES.match(above)


def _indent(line: str) -> int:
    visible = line.lstrip()
    return len(line[: len(line) - len(visible)].expandtabs(_TAB)) if visible else -1


class _Module:
    """A module on its way to blocks: its definitions with what belongs to them, and the code between them."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._indented = _Indented(lines)
        self.spans: list[_Span] = []

    def body(self, statements: Iterable[ast.stmt], start: int, end: int, depth: int = 1) -> list[TextBlock]:
        """The blocks of a module or a class, from one line up to another."""
        blocks: list[TextBlock] = []
        for node in statements:
            if isinstance(node, _Definition) and node.lineno > start and node.end_lineno:
                first = self._first_line(node, start)
                blocks += self._code(start, first, depth)
                blocks.append(self._definition(node, first, node.end_lineno, depth))
                start = node.end_lineno
        return blocks + self._code(start, end, depth)

    def _code(self, start: int, end: int, depth: int) -> list[TextBlock]:
        blocks = self._indented.blocks(start, end, depth - 1)
        for block in blocks:
            block.heading = min(depth, 6)  # it is no part of the definition above it
        return blocks

    def _definition(self, node: _Definition, first: int, end: int, depth: int) -> TextBlock:
        """A class or a function, whole if it fits: else its head with the docstring, then the rest in parts."""
        self.spans.append(_Span(first, end, node.name))
        level = min(depth, 6)
        block = TextBlock(first, end, cost=BEFORE_SECTION * depth, heading=level, prose=False)
        statements = node.body[ast.get_docstring(node, clean=False) is not None :]
        inner = self._first_line(statements[0], node.body[0].lineno - 1) if statements else end
        if inner > first:
            head = TextBlock(first, inner, heading=level, prose=False)
            if isinstance(node, ast.ClassDef):
                rest = self.body(statements, inner, end, depth + 1)
            else:
                rest = self._indented.blocks(inner, end, depth + 1)
            if rest:
                rest[0].cost = AFTER_HEADING
            block.parts = [head, *rest]
        return block

    def _first_line(self, node: ast.stmt, start: int) -> int:
        """Where a statement begins, with the decorators and comments right above it; not before `start`."""
        decorators = node.decorator_list if isinstance(node, _Definition) else []
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
        while first > start and self._lines[first - 1].lstrip().startswith("#"):
            first -= 1
        return max(first, start)


def _placed(chunks: Iterable[Chunk], spans: Sequence[_Span]) -> Iterator[Chunk]:
    """Chunks with the names of the definitions they begin within; not of one they begin with."""
    around: list[_Span] = []
    number = 0
    for chunk in chunks:
        first = chunk.start_line - 1
        while number < len(spans) and spans[number].start < first:
            around.append(spans[number])
            number += 1
        around = [span for span in around if span.end > first]
        yield replace(chunk, breadcrumb=tuple(span.name for span in around))
