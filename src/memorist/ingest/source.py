"""Read source code as a document: Python by its definitions, other languages by their indentation."""

import ast
import re
import warnings
from collections.abc import Iterable

from memorist.embed.base import TokenCounter
from memorist.ingest.chunk import (
    AFTER_HEADING_COST,
    BLOCK_COST,
    ITEM_COST,
    LINE_COST,
    SECTION_COST,
    Lines,
    Section,
    TextBlock,
    add_breadcrumbs,
    split_into_chunks,
)
from memorist.ingest.markdown import ParsedDocument

_MAX_PYTHON_CHARACTERS = 1_000_000  # a syntax tree takes a hundred times the memory of its text
_MAX_DEPTH = 12  # levels of indentation; deeper blocks are split into lines

_TAB_COLUMNS = 4
_CONTINUATION = re.compile(r"[\])}{]|</|(?:begin|catch|do|done|elif|else|elsif|end|esac|except|fi|finally|then)\b")
_COMMENT = re.compile(r"//|/\*|\*|#|--|@|;|%")  # or an annotation: it belongs to the line below
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def read_source(text: str, budget: int, count: TokenCounter) -> ParsedDocument:
    """Parse code in any language by its indentation."""
    lines = Lines(text)
    root = TextBlock(0, len(lines), _IndentedLines(lines).build_blocks(0, len(lines)))
    return ParsedDocument(None, {}, (), tuple(split_into_chunks(lines, root, budget, count)))


def read_python(text: str, budget: int, count: TokenCounter) -> ParsedDocument:
    """Parse Python by its classes and functions, whose names are the breadcrumb; invalid code by its indentation."""
    lines = Lines(text)
    tree = _parse_python(lines.text)
    if tree is None:
        return read_source(text, budget, count)
    module = _PythonModule(lines)
    root = TextBlock(0, len(lines), module.build_body(tree.body, 0, len(lines)))
    return ParsedDocument(
        None, {}, (), tuple(add_breadcrumbs(split_into_chunks(lines, root, budget, count), module.spans))
    )


def _parse_python(text: str) -> ast.Module | None:
    if len(text) > _MAX_PYTHON_CHARACTERS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are about the code that is read
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # also null characters, and extreme nesting
        return None


class _IndentedLines:
    """Lines with their indentation, to be split where it is lowest."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._indents = [_measure_indent(lines[number]) for number in range(len(lines))]  # -1 for blank lines

    def build_blocks(self, start: int, end: int, level: int = 0) -> list[TextBlock]:
        """Return blocks that begin at the lowest indentation and contain what is deeper."""
        numbers = [number for number in range(start, end) if self._indents[number] >= 0]
        if not numbers:
            return []
        least = min(self._indents[number] for number in numbers)
        blocks: list[TextBlock] = []
        start = before = numbers[0]
        for number in numbers[1:]:
            if self._indents[number] == least and self._starts_block(number):
                blocks.append(self._build_block(start, before + 1, level))
                start = number
            before = number
        return [*blocks, self._build_block(start, before + 1, level)]

    def _build_block(self, start: int, end: int, level: int) -> TextBlock:
        """Return a block with its parts: its first lines, what they enclose, and the bracket that ends it."""
        block = TextBlock(start, end, cost=LINE_COST, prose=False)
        if start and self._indents[start - 1] < 0:
            block.cost = (2 * SECTION_COST, BLOCK_COST, ITEM_COST)[min(level, 2)]
        if level < 2:
            block.heading = level + 1  # what begins here does not belong to the block above
        inner, after = start + 1, end
        while inner < end and self._indents[inner] <= self._indents[start]:
            inner += 1
        while after > inner and self._indents[after - 1] <= self._indents[start]:
            after -= 1
        inside = self.build_blocks(inner, after, level + 1) if level < _MAX_DEPTH else []
        if inside:
            inside[0].cost = AFTER_HEADING_COST
            ending = [TextBlock(after, end, cost=AFTER_HEADING_COST, prose=False)] if after < end else []
            block.parts = [TextBlock(start, inner, heading=block.heading, prose=False), *inside, *ending]
        return block

    def _starts_block(self, number: int) -> bool:
        """Return False for a line that ends or continues a block, or that follows a comment about it."""
        above = self._lines[number - 1].lstrip()
        return not _CONTINUATION.match(self._lines[number].lstrip()) and not _COMMENT.match(above)


def _measure_indent(line: str) -> int:
    visible = line.lstrip()
    return len(line[: len(line) - len(visible)].expandtabs(_TAB_COLUMNS)) if visible else -1


class _PythonModule:
    """The blocks of a module: its definitions with their comments and decorators, and the code between them."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._indented = _IndentedLines(lines)
        self.spans: list[Section] = []

    def build_body(self, statements: Iterable[ast.stmt], start: int, end: int, depth: int = 1) -> list[TextBlock]:
        """Return the blocks of a module or class, from one line up to another."""
        blocks: list[TextBlock] = []
        for node in statements:
            if isinstance(node, _Definition) and node.lineno > start and node.end_lineno:
                first = self._first_line(node, start)
                blocks += self._build_code(start, first, depth)
                blocks.append(self._build_definition(node, first, node.end_lineno, depth))
                start = node.end_lineno
        return blocks + self._build_code(start, end, depth)

    def _build_code(self, start: int, end: int, depth: int) -> list[TextBlock]:
        blocks = self._indented.build_blocks(start, end, depth - 1)
        for block in blocks:
            block.heading = min(depth, 6)  # it does not belong to the definition above
        return blocks

    def _build_definition(self, node: _Definition, first: int, end: int, depth: int) -> TextBlock:
        """Return a class or function as a block: its head with the docstring, then the rest in parts."""
        self.spans.append(Section(first, end, node.name))
        level = min(depth, 6)
        block = TextBlock(first, end, cost=SECTION_COST * depth, heading=level, prose=False)
        statements = node.body[ast.get_docstring(node, clean=False) is not None :]
        inner = self._first_line(statements[0], node.body[0].lineno - 1) if statements else end
        if inner > first:
            head = TextBlock(first, inner, heading=level, prose=False)
            if isinstance(node, ast.ClassDef):
                rest = self.build_body(statements, inner, end, depth + 1)
            else:
                rest = self._indented.build_blocks(inner, end, depth + 1)
            if rest:
                rest[0].cost = AFTER_HEADING_COST
            block.parts = [head, *rest]
        return block

    def _first_line(self, node: ast.stmt, start: int) -> int:
        """Return the first line of a statement with the decorators and comments above it; not before `start`."""
        decorators = node.decorator_list if isinstance(node, _Definition) else []
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
        while first > start and self._lines[first - 1].lstrip().startswith("#"):
            first -= 1
        return max(first, start)
