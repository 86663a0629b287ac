"""docs/images/terminal.svg shows what the command line prints."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "terminal_picture.py"
PICTURE = ROOT / "docs" / "images" / "terminal.svg"


def text_of(picture: Path) -> list[str]:
    """The pieces of text in a picture; scores are left out, as they differ a little from one processor to another."""
    pieces = (element.text or "" for element in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text"))
    return [re.sub(r"\d+\.\d+", "0.0", piece) for piece in pieces]


def test_the_session_in_the_picture_still_runs_and_prints_the_same(tmp_path: Path) -> None:
    now = tmp_path / "terminal.svg"

    subprocess.run([sys.executable, str(SCRIPT), str(now)], check=True, capture_output=True)

    assert text_of(now) == text_of(PICTURE), "run scripts/terminal_picture.py to draw the picture again"


def test_it_has_colours_for_dark_pages_and_loads_nothing() -> None:
    drawn = PICTURE.read_text("utf-8")

    assert "prefers-color-scheme: dark" in drawn
    assert not re.findall(r"(?:href|src)=|url\(|@import", drawn)
