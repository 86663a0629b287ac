"""Rows that contradict the schema: an error that a user can read, and of an import the line that it is about."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from memorist import InvalidInput, Memorist, StoreError
from memorist.store.export import ExportRecord

NOW = datetime(2026, 3, 31, tzinfo=UTC)


def record(number: int, **more: object) -> ExportRecord:
    fields = {
        "id": f"memory-{number}", "content": f"note {number}", "tags": [], "sector": "semantic", "tier": "project",
        "salience": 0.5, "metadata": {}, "created_at": NOW, "updated_at": NOW, "reinforced_at": NOW,
        "recorded_at": NOW, "pinned": False, "access_count": 0,
    }  # fmt: skip
    return ExportRecord(f"line {number}", "memory", fields | more)


@pytest.mark.parametrize(
    "more", [{"salience": 2.0}, {"sessions": [{"session": "s", "usage": "sold", "at": NOW, "latest": NOW}]}]
)
def test_an_import_names_the_record_that_the_database_refuses(memory: Memorist, more: dict[str, object]) -> None:
    memory.sessions.start(id="s")
    loader = memory._resources.store.create_loader()

    with pytest.raises(InvalidInput, match=r"^line 2: it contradicts what is stored"):
        loader.put([record(1), record(2, **more), record(3)])

    assert memory.stats().memories == 0
    assert loader.put([record(1), record(3)]).added == 2


def test_of_many_records_that_are_imported_at_once_the_refused_one_is_named(memory: Memorist) -> None:
    loader = memory._resources.store.create_loader()
    many = [record(number) for number in range(1, 31)]

    with pytest.raises(InvalidInput, match=r"^line 31: it contradicts what is stored"):
        loader.put([*many, record(31, salience=2.0)])

    assert memory.stats().memories == 0
    assert loader.put(many).added == 30


def test_a_document_does_not_move_to_the_place_of_another(memory: Memorist, tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(name)
    memory.documents.index(tmp_path)
    documents = memory._resources.store.documents
    one, other = documents.load_indexed_files().values()

    with pytest.raises(StoreError, match="the database refused an operation"):
        documents.move(one.key, other.path, one.root, 0)

    assert sorted(documents.load_indexed_files()) == sorted([one.path, other.path])
