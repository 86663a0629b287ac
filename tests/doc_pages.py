"""The sentences and examples of a page of documentation, and the tests that a file holds."""

import ast
import contextlib
import io
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_examples(page: Path) -> tuple[list[str], list[str]]:
    """Run the Python examples of a page, and return the lines that they print and those that the page says they do."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    code = "\n".join(blocks)
    said = [line.strip()[3:] for line in code.splitlines() if line.strip().startswith("#> ")]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(page), "exec"), {})
    return printed.getvalue().splitlines(), said


def sentences(page: str, heading: str) -> list[str]:
    """Return the sentences under a heading, without code, tables, titles of a list and links to another page alone."""
    text = (ROOT / page).read_text("utf-8")
    text = re.split(rf"^#+ {re.escape(heading)}\n", text, flags=re.MULTILINE)[1]
    text = re.split(r"^#", re.sub(r"```.*?```", "\n", text, flags=re.DOTALL), flags=re.MULTILINE)[0]
    text = re.sub(r"^(?:!\[|\|).*", "\n", text, flags=re.MULTILINE)
    found = []
    for block in re.split(r"\n\s*\n|\n(?=- )", text):
        words = re.sub(r"^- (?:\*\*[^*]+\.\*\* )?", "", " ".join(block.split()))
        words = re.sub(r" \[[^]]+\]\([^)]+\)$", "", words)
        found += re.split(r"(?<=[.:])\s+(?=[A-Z`])", words)
    return [one for one in found if one]


@cache
def find_tests(path: str) -> frozenset[str]:
    """Return the tests of a file below tests/, as `::Class::name` or `::name`."""
    found = set()
    for node in ast.parse((ROOT / "tests" / path).read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(f"::{node.name}")
        elif isinstance(node, ast.ClassDef):
            found |= {f"::{node.name}::{method.name}" for method in node.body if isinstance(method, ast.FunctionDef)}
    return frozenset(name for name in found if name.rpartition("::")[2].startswith("test_"))
