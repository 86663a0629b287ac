"""Names and docstrings use the field's words: one name, one class; a docstring says what the thing is or does."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "memorist"
QUESTION = re.compile(r"(What|How|Where|Whose|Whether|Which|Who|When|Why)\b")


def definitions() -> Iterator[tuple[str, ast.Module | ast.ClassDef | ast.FunctionDef]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield path.relative_to(SOURCE).as_posix(), node


def test_no_two_classes_share_a_name() -> None:
    places = defaultdict(list)
    for path, node in definitions():
        if isinstance(node, ast.ClassDef):
            places[node.name.lstrip("_")].append(path)

    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_docstring_opens_with_a_question_word() -> None:
    riddles = [
        f"{path}: {docstring.splitlines()[0]}"
        for path, node in definitions()
        if (docstring := ast.get_docstring(node)) and QUESTION.match(docstring)
    ]

    assert riddles == []


def test_every_module_says_what_it_holds_in_its_first_line() -> None:
    silent = [path for path, node in definitions() if isinstance(node, ast.Module) and node.body]
    silent = [path for path in silent if not ast.get_docstring(ast.parse((SOURCE / path).read_text("utf-8")))]

    assert silent == []
