"""The layers: which package may import which, and how long a module may be."""

import ast
import re
from functools import cache
from pathlib import Path

from memorist.cli import app
from memorist.present import framing

SOURCE = Path(__file__).parents[1] / "src" / "memorist"
LAYERS = (
    "errors forks time_limit atomic_file nesting metadata_filter notebook ids records reports file_records views text "
    "redact validation schemas profiles arguments contract trust http model_client embed config listening store ingest "
    "search importers present engine evaluate hooks install mcp_server chat adapters web cli"
).split()  # low to high
SURFACES = {"hooks", "install", "mcp_server", "chat", "adapters", "web"}  # `cli` starts them; none knows another
MODULE_LIMIT, FUNCTION_LIMIT = 700, 60


@cache
def modules() -> list[tuple[str, Path, ast.Module]]:
    return [
        (path.relative_to(SOURCE).with_suffix("").parts[0], path, ast.parse(path.read_text("utf-8")))
        for path in sorted(SOURCE.rglob("*.py"))
    ]


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom) and (node.module or "") == "memorist":
        return [alias.name for alias in node.names if not alias.name.startswith("__")]
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memorist."):
        return [(node.module or "").split(".")[1]]
    return []


def test_no_room_imports_from_a_room_above_it() -> None:
    upward = [
        f"{path.name}: {here} -> {there}"
        for here, path, tree in modules()
        if here in LAYERS
        for node in ast.walk(tree)
        for there in imported(node)
        if LAYERS.index(there) > LAYERS.index(here) or (here != there and {here, there} <= SURFACES)
    ]

    assert upward == []


def test_every_room_has_its_place_in_the_order() -> None:
    assert {here for here, _, _ in modules()} - {"__init__", "__main__"} == set(LAYERS)


def test_no_module_or_function_is_too_long_to_hold_in_mind() -> None:
    too_long = [path.name for _, path, _ in modules() if path.read_text("utf-8").count("\n") > MODULE_LIMIT]
    too_long += [
        f"{path.name}:{node.name}"
        for _, path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.body[0].lineno >= FUNCTION_LIMIT
    ]

    assert too_long == []


def test_only_the_store_speaks_sql() -> None:
    speaking = [
        path.name
        for here, path, _ in modules()
        if here != "store" and ("select " in (text := path.read_text("utf-8")) and " from memories" in text)
    ]

    assert speaking == []


def test_only_the_store_knows_what_its_database_is_made_of() -> None:
    """The grammar named `fts5` is public, `text.tokenizer` is that of the index, and Zed's messages have segments."""
    words = re.compile(r"\b(rowid|pragma|segments|sqlite_master|json_each|apsw)\b|-(wal|shm)\b|\b(fts5|bm25)\(")
    knowing = [
        f"{path.name}: {match[0]}"
        for here, path, _ in modules()
        if here != "store" and path.name not in ("tokenizer.py", "zed.py")
        for match in words.finditer(path.read_text("utf-8"))
    ]

    assert knowing == []


def test_the_store_knows_no_model_by_its_name() -> None:
    assert [path.name for here, path, _ in modules() if here == "store" and "local:" in path.read_text("utf-8")] == []


def test_the_store_names_no_command_and_every_surface_knows_its_hints() -> None:
    sources = {path: path.read_text("utf-8") for here, path, _ in modules() if here == "store"}
    raising = [path.read_text("utf-8") for here, path, _ in modules() if here in ("store", "engine")]
    hints = {hint for text in raising for hint in re.findall(r'Hint\("(\w+)"', text)}

    assert [path.name for path, text in sources.items() if "`memorist " in text or "--force" in text] == []
    assert hints == set(app.HINTS)
    assert set(framing.HINTS) <= hints
