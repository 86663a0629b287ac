"""docs/requirements.md leaves nothing out and names only tests that exist."""

import re
from collections import Counter
from pathlib import Path

from doc_pages import find_tests

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PAGE = (ROOT / "docs" / "requirements.md").read_text("utf-8")

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
    missing = [path + name for path, name in NAMED.findall(PAGE) if name not in find_tests(path)]

    assert missing == []


def test_nothing_looks_like_a_test_and_is_none() -> None:
    spans = re.findall(r"`[^`\n]*::[^`\n]*`", PAGE)

    assert [span for span in spans if not NAMED.fullmatch(span)] == []
    assert PAGE.count("::test_") == len(spans)


def test_no_row_names_a_test_twice() -> None:
    for row in table(PAGE):
        assert max(Counter(NAMED.findall(row[-1])).values(), default=1) == 1, row[0]


def test_every_row_names_a_test() -> None:
    assert [number for number, cell in (numbered("R") | numbered("C")).items() if not NAMED.search(cell)] == []


def test_every_entry_of_the_lists_of_tests_has_a_test() -> None:
    entries = table(section("Lists of tests"))

    assert len(entries) > 60
    assert [asked for asked, cell in entries if not NAMED.search(cell)] == []


def test_a_cell_holds_tests_and_nothing_else() -> None:
    for row in table(PAGE):
        assert NAMED.sub("", row[-1]).replace("<br>", "").strip() == "", row[0]
