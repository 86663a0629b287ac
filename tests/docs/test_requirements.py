"""docs/requirements.md leaves nothing out and names only tests that exist."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PAGE = (ROOT / "docs" / "requirements.md").read_text("utf-8")

LATER = ("with agents' surfaces",)
NAMED = re.compile(r"`([\w/]+\.py)((?:::\w+)+)`")

Cells = list[list[str]]


def section(heading: str) -> str:
    """What stands under a heading of the second level."""
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def table(text: str) -> Cells:
    """The rows of the tables in a text, cell by cell, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heads = {at - 1 for at, row in enumerate(cells) if set("".join(row)) == {"-"}}
    return [row for at, row in enumerate(cells) if at not in heads and at - 1 not in heads]


def numbered(letter: str) -> dict[str, str]:
    """The last cell of every row that has a number."""
    return {row[0]: row[-1] for row in table(PAGE) if re.fullmatch(rf"{letter}\d+", row[0])}


def waiting(kind: str) -> tuple[set[str], set[str]]:
    """What the last section says of a kind: rows without any test, and rows with a part to come."""
    (line,) = (line for line in section("Still to come").splitlines() if line.startswith(f"- {kind}: "))
    whole, _, part = line.partition(";")
    return set(re.findall(r"\b[RC]\d+", whole)), set(re.findall(r"\b[RC]\d+", part))


@cache
def found_in(path: str) -> frozenset[str]:
    """The tests in a file, as `::Class::name` or `::name`."""
    found = set()
    for node in ast.parse((TESTS / path).read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(f"::{node.name}")
        elif isinstance(node, ast.ClassDef):
            found |= {f"::{node.name}::{method.name}" for method in node.body if isinstance(method, ast.FunctionDef)}
    return frozenset(name for name in found if name.rpartition("::")[2].startswith("test_"))


def test_every_requirement_has_exactly_one_row_in_its_order() -> None:
    numbers = [row[0] for row in table(PAGE) if re.fullmatch(r"R\d+", row[0])]

    assert numbers == [f"R{number}" for number in range(1, 131)]


def test_every_disagreement_has_exactly_one_row_in_its_order() -> None:
    numbers = [row[0] for row in table(section("Where they disagree"))]

    assert numbers == [f"C{number}" for number in range(1, 46)]


def test_every_row_says_what_is_asked_and_by_whom() -> None:
    systems = {"mcb", "ccmemory", "AgentStack", "Cortex", "tars"}
    for row in table(PAGE):
        if re.fullmatch(r"R\d+", row[0]):
            _, asked, by, _, _ = row
            assert asked
            assert set(by.split(", ")) <= systems, row[0]
        elif re.fullmatch(r"C\d+", row[0]):
            assert all(row)


def test_the_named_files_exist() -> None:
    missing = {path for path, _ in NAMED.findall(PAGE) if not (TESTS / path).is_file()}

    assert missing == set()


def test_the_named_tests_exist() -> None:
    missing = [path + name for path, name in NAMED.findall(PAGE) if name not in found_in(path)]

    assert missing == []


def test_nothing_looks_like_a_test_and_is_none() -> None:
    spans = re.findall(r"`[^`\n]*::[^`\n]*`", PAGE)

    assert [span for span in spans if not NAMED.fullmatch(span)] == []
    assert PAGE.count("::test_") == len(spans)


def test_no_row_names_a_test_twice() -> None:
    for row in table(PAGE):
        assert max(Counter(NAMED.findall(row[-1])).values(), default=1) == 1, row[0]


def test_what_has_no_test_or_not_all_of_them_is_what_is_still_to_come() -> None:
    cells = numbered("R") | numbered("C")
    for kind in LATER:
        later = {number: bool(NAMED.search(cell)) for number, cell in cells.items() if kind in cell}
        whole, part = waiting(kind)
        assert whole == {number for number, tested in later.items() if not tested}
        assert part == {number for number, tested in later.items() if tested}

    untested = {number for number, cell in cells.items() if not NAMED.search(cell)}
    assert untested == set.union(*(waiting(kind)[0] for kind in LATER))


def test_every_entry_of_the_lists_of_tests_has_a_test_or_waits() -> None:
    entries = table(section("Lists of tests"))

    assert len(entries) > 60
    for asked, cell in entries:
        assert NAMED.search(cell) or cell in LATER, asked


def test_a_cell_holds_tests_and_what_waits_and_nothing_else() -> None:
    for row in table(PAGE):
        rest = NAMED.sub("", row[-1]).replace("<br>", "")
        for word in ("the rest", "and", *LATER):
            rest = rest.replace(word, "")
        assert rest.strip() == "", row[0]
