"""Text that a failing disk changed: it is told, with the id of its memory, and every other memory is served."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

import memorist
from conftest import HashingEmbedder
from memorist import Memorist, Memory

BAD_BYTE = b"caf\xff costs 4 euros"


@pytest.fixture
def three(path: Path) -> Iterator[Memorist]:
    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        for number, text in enumerate(("tea costs 3 euros", "coffee costs 4 euros", "water costs nothing")):
            memory.add(text, id=f"memory-{number}", tags=["drink"], metadata={"price": number}, title="a price")
        yield memory


def damage(path: Path, column: str, value: bytes | str, id: str = "memory-1") -> None:
    """Change a column behind the back of indexes and hashes, as a failing disk does."""
    raw = apsw.Connection(str(path))
    find_triggers = "select name, sql from sqlite_master where type = 'trigger' and tbl_name = 'memories'"
    triggers = list(raw.execute(find_triggers))
    raw.pragma("ignore_check_constraints", True)
    with raw:
        for name, _ in triggers:
            raw.execute(f"drop trigger {name}")
        stored = value if isinstance(value, bytes) else value.encode()
        raw.execute(f"update memories set {column} = cast(? as text) where id = ?", (stored, id))
        for _, sql in triggers:
            raw.execute(sql)
    raw.close()


def damaged(memory: Memorist) -> list[str]:
    return [problem for problem in memory.check().problems if problem.startswith("text:")]


class TestATextThatIsNotTheOneThatWasStored:
    def test_a_changed_digit_is_reported_with_the_id_of_its_memory(self, three: Memorist, path: Path) -> None:
        assert three.check().ok
        damage(path, "content", "coffee costs 9 euros")

        assert damaged(three) == ["text: the text of memory-1 is not the one that was stored"]

    def test_a_repair_does_not_bless_it(self, three: Memorist, path: Path) -> None:
        damage(path, "content", "coffee costs 9 euros")

        report = three.check(repair=True)

        assert not report.ok
        assert damaged(three) == ["text: the text of memory-1 is not the one that was stored"]
        assert len(report.problems) > len(report.repaired) > 0  # the full text was made again
        assert not [problem for problem in report.repaired if problem.startswith("text:")]

    def test_an_update_writes_text_and_hash_anew(self, three: Memorist, path: Path) -> None:
        damage(path, "content", "coffee costs 9 euros")
        three.check(repair=True)

        three.update("memory-1", content="coffee costs 5 euros")

        assert three.check().ok
        assert three.add("coffee costs 5 euros").id == "memory-1"  # and it is known by its text again

    def test_chunks_and_turns_have_hashes_of_their_own(self, three: Memorist, tmp_path: Path) -> None:
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes" / "one.md").write_text("# One\n\nThe first note.\n")
        three.documents.index(tmp_path / "notes")
        three.files.create("/plan.md", "a plan")

        assert three.check().problems == ()

    def test_a_damaged_chunk_is_reported_with_the_path_of_its_file(self, three: Memorist, path: Path) -> None:
        notes = path.parent / "notes"
        notes.mkdir()
        (notes / "one.md").write_text("# One\n\nThe first note.\n")
        three.documents.index(notes)
        raw = apsw.Connection(str(path))
        [(id,)] = raw.execute("select m.id from chunks c join memories m on m.rid = c.rid")
        raw.close()
        damage(path, "content", "The wurst note.", id)

        [problem] = damaged(three)
        assert "one.md" in problem


class TestTextThatIsNotUtf8:
    @pytest.fixture
    def broken(self, three: Memorist, path: Path) -> Memorist:
        damage(path, "content", BAD_BYTE)
        return three

    def test_every_memory_is_listed_and_the_damage_is_shown(self, broken: Memorist) -> None:
        texts = {one.id: one.content for one in broken.list()}

        assert texts["memory-1"] == "caf� costs 4 euros"
        assert sorted(texts) == ["memory-0", "memory-1", "memory-2"]
        assert broken.get("memory-1").content == "caf� costs 4 euros"

    @pytest.mark.parametrize("query", ["tea costs", "coffee costs", "cost*", '"costs"'])
    @pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
    def test_every_memory_is_searched(self, broken: Memorist, mode: str, query: str) -> None:
        assert "memory-0" in {hit.memory.id for hit in broken.search(query, mode=mode)}

    def test_it_is_looked_into_for_a_part_of_a_word(self, broken: Memorist) -> None:
        broken.add("ein Weißkohlkopf", id="memory-3")

        assert [hit.memory.id for hit in broken.search("ißkohl", mode="keyword")] == ["memory-3"]

    def test_everything_is_exported_and_can_be_imported(self, broken: Memorist, tmp_path: Path) -> None:
        assert broken.transfer.export(tmp_path / "all.jsonl") == 3
        with memorist.open(tmp_path / "new.db", embedder="none") as new:
            assert new.transfer.import_(tmp_path / "all.jsonl").added == 3
            assert new.check().ok

    def test_a_check_reports_it_with_its_id(self, broken: Memorist) -> None:
        assert "text: the content of memory-1 is not UTF-8" in damaged(broken)
        assert not broken.check(repair=True).ok

    @pytest.mark.parametrize("column", ["title", "tags", "metadata", "source", "project", "kind", "summary"])
    def test_in_any_column_it_hides_nothing_else(self, three: Memorist, path: Path, column: str) -> None:
        damage(path, column, b'\xff["d\xffrink"]')

        assert len(list(three.list())) == 3
        assert {hit.memory.id for hit in three.search("costs")} >= {"memory-0", "memory-2"}
        assert three.transfer.export(path.parent / "all.jsonl") == 3
        assert f"text: the {column} of memory-1 is not UTF-8" in damaged(three)

    def test_a_check_goes_on_past_a_damaged_id(self, three: Memorist, path: Path) -> None:
        damage(path, "id", b"memory-\xff")

        assert "text: the id of memory-\ufffd is not UTF-8" in damaged(three)

    def test_a_time_that_is_none_hides_nothing_else(self, three: Memorist, path: Path) -> None:
        raw = apsw.Connection(str(path))
        raw.execute("update memories set updated_at = 4638686207610501651 where id = 'memory-1'")
        raw.close()

        assert len(three.list()) == 3
        assert len(three.search("costs")) == 3
        assert three.transfer.export(path.parent / "all.jsonl") == 3
        assert damaged(three) == ["text: the updated_at of memory-1 is not a time"]

    def test_an_update_mends_it(self, broken: Memorist) -> None:
        broken.check(repair=True)
        broken.update("memory-1", content="coffee costs 4 euros")

        assert broken.check(repair=True).ok
        assert broken.check().ok


@pytest.mark.parametrize("stored", [b'["drink', b'["dr\xffnk"]'])
def test_tags_that_cannot_be_read_are_made_again_of_their_table(three: Memorist, path: Path, stored: bytes) -> None:
    damage(path, "tags", stored)

    report = three.check(repair=True)

    assert report.ok, report.problems
    assert three.get("memory-1").tags == ("drink",)
    assert len(three.list(tags=["drink"])) == 3


class TestSalvage:
    """Of tags and metadata that are no JSON any more, what is whole is kept."""

    def salvage(self, path: Path, table: str | None = None) -> tuple[Memory, Sequence[str]]:
        raw = apsw.Connection(str(path))
        if table is not None:
            raw.execute(f"delete from {table}")
        raw.close()
        lost = memorist.salvage(path, path.parent / "new.db").lost
        with memorist.open(path.parent / "new.db", embedder="none") as memory:
            assert memory.check().ok
            return memory.get("memory-1"), lost

    def test_damaged_tags_come_from_their_own_table(self, three: Memorist, path: Path) -> None:
        three.update("memory-1", tags=["drink", "hot", 'a "cup"'])
        damage(path, "tags", b'["drink","h')

        memory, lost = self.salvage(path)

        assert set(memory.tags) == {"drink", "hot", 'a "cup"'}
        assert memory.metadata == {"price": 1}
        assert lost == ("memories: the tags of memory-1 can be read only in part",)

    def test_where_the_table_is_lost_too_whole_tags_are_kept(self, three: Memorist, path: Path) -> None:
        damage(path, "tags", b'["drink","a \\"cup\\"","\\ud83d\\ude00","dr\xffnk","ho')

        memory, _ = self.salvage(path, "memory_tags")

        assert memory.tags == ("drink", 'a "cup"', "\U0001f600")

    def test_metadata_is_kept_up_to_the_damage(self, three: Memorist, path: Path) -> None:
        damage(path, "metadata", b'{"price": 1, "of": {"a": [1, 2]}, "b\xffd": 2, "note": "dr\xffnk", "last": tr')

        memory, lost = self.salvage(path)

        assert memory.metadata == {"price": 1, "of": {"a": [1, 2]}}
        assert memory.tags == ("drink",)
        assert lost == ("memories: the metadata of memory-1 can be read only in part",)


DAMAGED_VERSIONS = ['"content"', '"title"', '"tags"', '"metadata"', '"updated_at"', "{"]


@pytest.mark.parametrize("part", DAMAGED_VERSIONS)
def test_a_damaged_version_is_reported_and_every_other_memory_is_served_as_it_was(
    three: Memorist, path: Path, part: str
) -> None:
    then = datetime.now(UTC)
    three.update("memory-1", content="coffee costs 5 euros", tags=["hot"])
    raw = apsw.Connection(str(path))
    raw.pragma("ignore_check_constraints", True)
    changed = part[:-2] + '?"'
    raw.execute("update memory_history set snapshot = replace(snapshot, ?, ?)", (part, changed))
    raw.close()

    assert {"memory-0", "memory-2"} <= {one.id for one in three.list(as_of=then)}
    assert {"memory-0", "memory-2"} <= {one.id for one in three.timeline(as_of=then)}
    for mode in ("keyword", "hybrid"):
        assert "memory-0" in {hit.memory.id for hit in three.search("tea costs", as_of=then, mode=mode)}
    assert three.get("memory-1", as_of=then).id == "memory-1"
    assert {version.content for version in three.history("memory-1")} <= {"coffee costs 4 euros"}
    assert damaged(three) == ["text: version 1 of memory-1 cannot be read"]
