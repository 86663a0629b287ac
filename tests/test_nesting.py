"""Deep and large metadata: refused wherever they come in, and read as far as they go where they are stored already."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import memorist
from memorist import InvalidInput, Memorist, nesting
from memorist.nesting import MAX_ENTRIES, MAX_LEVELS, count_values, cut_levels
from memorist.validation import MAX_METADATA_CHARACTERS


def nested(levels: int) -> dict[str, Any]:
    """An object of so many levels."""
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def itself() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["a"] = [value, value, value]
    return value


TOO_MUCH = {
    "one level too many": nested(MAX_LEVELS + 1),
    "500 levels": nested(500),
    "100,000 levels": nested(100_000),
    "itself": itself(),
    "too many keys": {str(number): 1 for number in range(MAX_ENTRIES + 1)},
    "too long": {"a": "x" * MAX_METADATA_CHARACTERS},
}


@pytest.mark.parametrize("what", TOO_MUCH)
@pytest.mark.parametrize(
    "write",
    [
        lambda memory, metadata: memory.add("x", metadata=metadata),
        lambda memory, metadata: memory.add_many([{"content": "x", "metadata": metadata}]),
        lambda memory, metadata: memory.update("kept", metadata=metadata),
        lambda memory, metadata: memory.list(metadata=metadata),
        lambda memory, metadata: memory.search("x", metadata=metadata),
        lambda memory, metadata: memory.lenses.set("deep", metadata=metadata),
    ],
    ids=["add", "add_many", "update", "list", "search", "lens"],
)
def test_metadata_that_are_too_much_are_refused_and_nothing_is_stored(
    memory: Memorist, write: Callable[[Memorist, Any], Any], what: str
) -> None:
    memory.add("kept", id="kept")
    if what == "too long" and write.__code__.co_names[0] in ("list", "search", "set_lens"):
        pytest.skip("a filter has limits of its own")

    with pytest.raises(InvalidInput, match=r"levels|keys|characters"):
        write(memory, TOO_MUCH[what])

    assert [(one.id, dict(one.metadata)) for one in memory.list()] == [("kept", {})]
    assert memory.lenses.list() == []


def test_metadata_as_deep_as_may_be_come_back_as_they_were(memory: Memorist, tmp_path: Path) -> None:
    deepest = nested(MAX_LEVELS)
    memory.add("deep", id="deep", metadata=deepest)
    memory.update("deep", title="now it has a version")
    memory.transfer.export(tmp_path / "out.jsonl")

    with memorist.open(tmp_path / "copy.db", embedder="none") as copy:
        copy.transfer.import_(tmp_path / "out.jsonl")
        assert copy.get("deep").metadata == memory.get("deep").metadata == deepest
        assert len(copy.history("deep")) == 1


@pytest.mark.parametrize("levels", [500, 990, 100_000])
def test_an_import_refuses_deep_metadata(memory: Memorist, tmp_path: Path, levels: int) -> None:
    deep = '{"a":' * levels + "1" + "}" * levels
    mem0 = tmp_path / "mem0.json"
    mem0.write_text(f'[{{"id": "0123456789ab", "memory": "likes tea", "metadata": {deep}}}]')
    export = tmp_path / "out.jsonl"
    memory.add("x", id="x", metadata={"here": 1})
    memory.transfer.export(export)
    export.write_text(export.read_text().replace('{"here":1}', deep))

    for file in (mem0, export):
        with suppress(InvalidInput):  # or it is reported as skipped
            assert memory.transfer.import_(file).added == 0
    assert memory.count() == 1


# What an earlier version stored


def plant(target: Path | str, column: str, text: str) -> None:
    """Store a text where validation would not let it."""
    sql = f"update {column.partition('.')[0]} set {column.partition('.')[2]} = {{}}"
    if isinstance(target, Path):
        connection = apsw.Connection(str(target))
        connection.execute("pragma ignore_check_constraints = on")
        connection.execute(sql.format("?"), (text,))
        connection.close()
    else:
        with psycopg.connect(target, autocommit=True) as raw:
            raw.execute("select set_config('memorist.tenant', 'default', false)")
            raw.execute("alter table memories drop constraint memories_metadata_check")
            raw.execute(sql.format("%s").encode(), (text,))
            raw.execute(
                "alter table memories add constraint memories_metadata_check check (metadata is json) not valid"
            )


READERS: dict[str, Callable[[Memorist, Path], Any]] = {
    "get": lambda memory, path: memory.get("deep"),
    "list": lambda memory, path: memory.list(),
    "list as it was": lambda memory, path: memory.list(as_of="now"),
    "search": lambda memory, path: memory.search("badger", record="log"),
    "filter": lambda memory, path: memory.list(metadata={"near": 1}),
    "search with a filter": lambda memory, path: memory.search("badger", metadata={"near": 1}),
    "facets": lambda memory, path: memory.facets("badger"),
    "context": lambda memory, path: memory.context("badger"),
    "timeline": lambda memory, path: memory.timeline(),
    "history": lambda memory, path: memory.history("deep"),
    "related": lambda memory, path: memory.related("deep"),
    "export": lambda memory, path: memory.transfer.export(path / "out.jsonl"),
    "export as Markdown": lambda memory, path: memory.transfer.export(path / "notes", format="markdown"),
    "stats": lambda memory, path: memory.stats(),
    "check": lambda memory, path: memory.check(),
    "update": lambda memory, path: memory.update("deep", title="changed"),
    "forget": lambda memory, path: memory.forget("deep"),
    "erase": lambda memory, path: memory.forget("deep", hard=True),
}


@pytest.mark.parametrize("levels", [65, 500, 990, 5000, 100_000])
def test_deep_metadata_that_are_stored_already_are_read_as_far_as_they_go(
    target: Path | str, tmp_path: Path, levels: int
) -> None:
    with memorist.open(target, embedder="none") as memory:
        memory.add("the badger digs", id="deep", metadata={"near": 1}, project="p")
        memory.update("deep", title="one version")
    if levels > 5000 and not isinstance(target, Path):
        pytest.skip("PostgreSQL has never stored so many levels: a trigger reads them")
    deep = '{"near":1,"text":"a \\"{[ b","far":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"
    plant(target, "memories.metadata", deep)
    plant(target, "memory_history.snapshot", memory_snapshot(deep))

    with memorist.open(target, embedder="none") as memory:
        found = memory.get("deep")
        for name, read in READERS.items():
            read(memory, tmp_path), name

    assert (found.metadata["near"], found.metadata["text"]) == (1, 'a "{[ b')
    json.dumps(found.metadata)


def memory_snapshot(metadata: str) -> str:
    return (
        '{"content":"the badger digs","project":"p","sector":"semantic","tier":"project","kind":null,"tags":[],'
        '"salience":0.5,"source":null,"title":null,"summary":null,"updated_at":1,"expires_at":null,'
        f'"metadata":{metadata}}}'
    )


@pytest.mark.parametrize(
    ("text", "levels", "cut"),
    [
        ("{}", 1, "{}"),
        ('{"a":{}}', 1, '{"a":"…"}'),
        ('{"a":[1,[2]],"b":3}', 2, '{"a":[1,"…"],"b":3}'),
        ('{"a":[[1],[2]],"b":{"c":[]}}', 2, '{"a":["…","…"],"b":{"c":"…"}}'),
        ('{"a":"[[[","b":"\\\\\\"]]"}', 1, '{"a":"[[[","b":"\\\\\\"]]"}'),
        ('{"a":["\\"[",{"]":1}]}', 2, '{"a":["\\"[","…"]}'),
    ],
)
def test_a_text_of_json_is_cut_at_a_level(text: str, levels: int, cut: str) -> None:
    assert cut_levels(text, levels) == cut
    json.loads(cut)


@pytest.mark.parametrize(
    ("value", "containers", "values"),
    [
        (1, 0, 1),
        ([], 1, 1),
        ([[], {}, {"a": [1, 2]}], 5, 7),
        ("[{,", 0, 1),
        (["\\", "[", '\\"[', '"', {"\\\\": ","}], 2, 7),
        ("\\" * 50 + '"[' * 20, 0, 1),
    ],
)
@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
def test_values_of_json_are_counted_without_parsing(
    value: object, containers: int, values: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces of any length; an empty list or object counts for one value more than it is."""
    monkeypatch.setattr(nesting, "_PIECE_CHARACTERS", piece)

    counted, most = count_values(json.dumps(value))

    assert counted == containers
    assert values <= most <= values + containers + 1
