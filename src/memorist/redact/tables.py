"""Secrets known by the title of their column: in tables of Markdown, and in lists with commas, semicolons or tabs."""

from collections.abc import Callable, Iterator

from memorist.redact.heuristics import (
    contains,
    is_placeholder,
    is_stand_in,
    looks_chosen,
    looks_generated,
    regex,
)

_Cell = tuple[int, int]


def find_secrets_in_tables(text: str, lowered: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind of each cell that looks like a secret, below a title like "password"."""
    for find_tables in (_find_markdown_tables, _find_separated_lists):
        done = 0
        for titles, rows, separator in find_tables(text, lowered):
            if rows < done:
                continue
            columns = _find_secret_columns(lowered, _split_cells(text, *titles, separator))
            cells: list[_Cell] = []
            while columns and rows < len(text) and (not cells or max(columns) < len(cells)):
                end = _line_end(text, rows)
                cells = _split_cells(text, rows, end, separator) if separator in text[rows:end] else []
                for column, (kind, looks_secret) in columns.items():
                    start, stop = cells[column] if column < len(cells) else (0, 0)
                    if looks_secret(value := text[start:stop]) and not is_placeholder(value) and not is_stand_in(value):
                        yield start, stop, kind
                rows = end + 1
                if not cells:
                    break
            done = rows


def _find_markdown_tables(text: str, lowered: str) -> Iterator[tuple[_Cell, int, str]]:
    """Yield the line of titles, the start of the rows, and the separator of each table with a rule below its titles."""
    if any(end in text for end in ("-|", "- |", ":|", ": |")):
        for rule in regex(r"\n[ \t]{0,8}\|?[ \t]{0,8}:?--[-:| \t]{0,999}(?=\r?\n)").finditer(text):
            if titles := _find_title_line(text, rule.start()):
                yield titles, text.index("\n", rule.end()) + 1, "|"


def _find_separated_lists(text: str, lowered: str) -> Iterator[tuple[_Cell, int, str]]:
    """Yield the same for each list that has one of the titles in its first line."""
    for title in regex(_LISTED_TITLE).finditer(f"\n{lowered}"):
        separator = title[0][-1] if title[0][0] == "\n" else title[0][0]
        titles = _find_title_line(text, title.start()) if separator in ",;\t" else None
        if titles and regex(r"[\w\u00c0-\uffff \"'./;,\t-]+\r?").fullmatch(text, *titles):
            yield titles, titles[1] + 1, separator


def _find_title_line(text: str, at: int) -> _Cell | None:
    """Return start and end of the line that ends or goes on at a position, unless it is long or the last."""
    start = text.rfind("\n", max(0, at - _MAX_TITLE_CHARACTERS), at) + 1
    end = text.find("\n", at, at + _MAX_TITLE_CHARACTERS)
    return (start, end) if end >= 0 and (start or at < _MAX_TITLE_CHARACTERS) else None


_MAX_TITLE_CHARACTERS = 1_000
_TITLE = (
    r"(?:(?:user|db|api|access|client|auth|admin|login|root|wifi|private|app)[ _-]?)?"
    r"(?:pass(?:word|wort|wd|phrase|code)?|pwd?|kennwort|mot de passe|mdp|contraseña|senha"
    r"|wachtwoord|hasło|пароль|密码|secret|token|(?:api|access|secret|private)[ _-]?key)"
)
_LISTED_TITLE = rf"[,;\t\n] ?[\"']?{_TITLE}[\"']?(?:[,;\t]|(?=\r?\n))"


def _find_secret_columns(lowered: str, titles: list[_Cell]) -> dict[int, tuple[str, Callable[[str], bool]]]:
    """Return the kind of secret in each column that holds some, and a test for the look of one."""
    columns: dict[int, tuple[str, Callable[[str], bool]]] = {}
    for column, (start, end) in enumerate(titles if len(titles) > 1 else []):
        if regex(_TITLE).fullmatch(lowered, start, end):
            is_password = not contains("secret|token|key", lowered[start:end])
            columns[column] = ("password", looks_chosen) if is_password else ("secret", looks_generated)
    return columns


def _split_cells(text: str, start: int, end: int, separator: str) -> list[_Cell]:
    """Return the cells of a line, without the spaces, quotes and Markdown around them."""
    cells, at = [], start
    cell = regex(rf"\"[^\"\n]*\"|[^{separator}\n]*")
    while at <= end:
        found = cell.match(text, at, end)
        stop = found.end() if found else end
        cells.append((at, stop))
        at = stop + 1
    if separator == "|" and not text[cells[0][0] : cells[0][1]].strip():
        cells = cells[1:]
    return [_strip_cell(text, *cell) for cell in cells]


def _strip_cell(text: str, start: int, end: int) -> _Cell:
    value = text[start:end]
    inner = value.strip(" \t\r\"'`*")
    start += value.find(inner)
    return start, start + len(inner)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end
