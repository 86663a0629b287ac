"""
Draw docs/images/terminal.svg: a short session with the command line.

    .venv/bin/python scripts/terminal_picture.py [FILE]

The commands are really run, in a temporary database, and the picture shows what they printed. Only ids and times are
replaced by fixed ones, so that the same program draws the same picture. Run it again when the output has changed;
tests/docs/test_picture.py tells you to.
"""

import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

from memorist.cli.app import main as run_command

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "terminal.svg"
SESSION = (
    'memorist add "Login is slow on Mondays: two machines check all passwords"',
    'memorist add "Error E4031: the token is older than the last key rotation" --tag auth',
    'memorist add "We deploy with make ship from the release branch" --project api',
    'memorist search "authentication was sluggish at the start of the week"',
    "memorist search E4031 --explain",
)

SHOWN_IDS = ("5f0c2a1d", "b81e77d2", "0d4fa39c")
SHOWN_TIMES = ("2026-11-16 09:31", "2026-11-16 09:32", "2026-11-16 09:32")
_ID = re.compile(r"\b[0-9a-f]{8}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
_ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")

CLASSES = {"1": "bold", "2": "dim", "33": "match", "36": "id"}
FONT_SIZE, CHARACTER_WIDTH, LINE_HEIGHT, MARGIN, TITLE_BAR = 14, 8.4, 21, 20, 40  # pixels
STYLE = """
  .window { fill: #ffffff; stroke: #d0d7de }
  text { fill: #1f2328; font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace;
         white-space: pre }
  .dim { fill: #636c76 }
  .bold { font-weight: 600 }
  .match { fill: #9a6700 }
  .id { fill: #0550ae }
  @media (prefers-color-scheme: dark) {
    .window { fill: #0d1117; stroke: #3d444d }
    text { fill: #e6edf3 }
    .dim { fill: #9198a1 }
    .match { fill: #e3b341 }
    .id { fill: #79c0ff }
  }
"""


class _TerminalOutput(io.StringIO):
    """Standard output that claims to be a terminal, so that commands print in colour."""

    def isatty(self) -> bool:
        return True


def run_session() -> list[str]:
    """Run the commands in a temporary database; return the lines that a terminal would show."""
    shown = []
    for command in SESSION:
        output = _TerminalOutput()
        sys.stdout, before = output, sys.stdout
        try:
            run_command(shlex.split(command)[1:])
        except SystemExit as exc:
            if exc.code:
                raise RuntimeError(f"{command} ended with exit code {exc.code}") from exc
        finally:
            sys.stdout = before
        shown += [f"\x1b[2m$\x1b[0m \x1b[1m{command}\x1b[0m", *output.getvalue().splitlines(), ""]
    return fix_ids_and_times(shown[:-1])


def fix_ids_and_times(lines: list[str]) -> list[str]:
    """Replace ids and the times beside them by fixed ones, in the order in which ids appear."""
    number: dict[str, int] = {}
    fixed = []
    for line in lines:
        plain = _ESCAPE.sub("", line)
        if found := _ID.search(plain):
            at = number.setdefault(found[0], len(number))
            line = _TIME.sub(SHOWN_TIMES[at], line.replace(found[0], SHOWN_IDS[at]))
        fixed.append(line)
    return fixed


def split_line(line: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the pieces of a line: where each begins, its text, and the classes its escape codes stand for."""
    classes: list[str] = []
    column = 0
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if code := _ESCAPE.fullmatch(piece):
            classes = [] if code[1] in ("", "0") else [*classes, CLASSES[code[1]]]
            continue
        if text := piece.strip():
            yield column + piece.index(text), text, classes
        column += len(piece)


def draw(lines: list[str]) -> str:
    """Return the lines as an SVG of a terminal window, for light and dark pages."""
    columns = max(len(_ESCAPE.sub("", line)) for line in lines)
    width, height = round(columns * CHARACTER_WIDTH) + 2 * MARGIN, len(lines) * LINE_HEIGHT + TITLE_BAR + MARGIN
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' role="img" aria-labelledby="title">',
        '<title id="title">Three memories are added; one is found by meaning, one by an error code</title>',
        f"<style>{STYLE}</style>",
        f'<rect class="window" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>',
        *(f'<circle cx="{x}" cy="20" r="6" fill="{fill}"/>' for x, fill in
          ((24, "#ff5f57"), (44, "#febc2e"), (64, "#28c840"))),
    ]  # fmt: skip
    for number, line in enumerate(lines):
        y = TITLE_BAR + number * LINE_HEIGHT + FONT_SIZE
        for column, text, classes in split_line(line):
            named = f' class="{" ".join(classes)}"' if classes else ""
            # Whatever the font, a piece of text takes as many columns as in a terminal.
            drawn.append(
                f'<text{named} x="{MARGIN + column * CHARACTER_WIDTH:.1f}" y="{y}"'
                f' textLength="{len(text) * CHARACTER_WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
                f' xml:space="preserve">{escape(text, quote=False)}</text>'
            )
    return "\n".join([*drawn, "</svg>", ""])


def main() -> None:
    target = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else TARGET
    for name in [name for name in os.environ if name.startswith("MEMORIST_")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"MEMORIST_DB": str(Path(folder, "memory.db")), "MEMORIST_CONFIG": os.devnull}
        here = Path.cwd()
        os.chdir(folder)
        try:
            picture = draw(run_session())
        finally:
            os.chdir(here)
    target.write_text(picture, "utf-8", newline="\n")
    print(target)


if __name__ == "__main__":
    main()
