"""Records as a notebook or a console shows them: one line, or a table in HTML whose texts are escaped."""

import re
from collections.abc import Iterable, Sequence
from html import escape

_TEXT_CHARACTERS = 60  # of a memory on one line
_CELL_CHARACTERS = 300  # of a text in a table
_MARK, _UNMARK = "<mark>", "</mark>"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def one_line(text: str, characters: int = _TEXT_CHARACTERS) -> str:
    """Return the beginning of a text on one line, without characters that steer a terminal."""
    line = _CONTROL.sub(" ", text[: 4 * characters]).strip()
    return line if len(line) <= characters else f"{line[: characters - 1]}…"


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in HTML; of all that texts contain, only the marks of a snippet are not escaped."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    text = escape(_CONTROL.sub(" ", "" if value is None else str(value))[:_CELL_CHARACTERS])
    opened, closed = text.count(escape(_MARK)), text.count(escape(_UNMARK))
    if opened == closed:  # or it was cut within one
        text = text.replace(escape(_MARK), _MARK).replace(escape(_UNMARK), _UNMARK)
    return text
