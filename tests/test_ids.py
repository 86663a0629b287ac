"""Ids that callers choose: what they may be, and what adding one again does."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memorist
from memorist import AlreadyExists, InvalidInput, Memorist

STRANGE = [
    "a", "%", "100%", "a b", "  a", "x/y\\z", "../../etc/passwd", "'; drop table memories; --", '"quoted"',
    "user:1|key", "-rf", "--help", "$(rm x)", "`id`", "Straße/é", "日本語", "👩‍👩‍👧", "{}", "[0]", "a\u202eb",
    "x" * 512, "018f0000-0000-7000-8000-00000000000a",
]  # fmt: skip


class TestAddingAnIdAgain:
    def test_identical_text_under_two_ids_is_two_memories(self, memory: Memorist) -> None:
        memory.add("same", id="a", metadata={"of": "a"})
        memory.add("same", id="b", metadata={"of": "b"})
        plain = memory.add("same")

        assert [memory.get(id).metadata for id in ("a", "b")] == [{"of": "a"}, {"of": "b"}]
        assert memory.add("same").id == plain.id
        assert memory.stats().memories == 3

    def test_the_fields_replace_those_of_the_memory_and_its_history_is_kept(self, memory: Memorist) -> None:
        first = memory.add("one", id="k", project="p", title="t", tags=["x"], metadata={"n": 1}, salience=0.9)
        memory.pin("k")

        second = memory.add("two", id="k", metadata={"n": 2})

        assert (second.content, second.project, second.title, second.tags) == ("two", None, None, ())
        assert (second.metadata, second.salience, second.pinned) == ({"n": 2}, 0.9, True)
        assert (second.created_at, second.recorded_at) == (first.created_at, first.recorded_at)
        assert [version.content for version in memory.history("k")] == ["one"]
        assert [hit.memory.id for hit in memory.search("two", mode="keyword")] == ["k"]
        assert not memory.search("one", mode="keyword")

    def test_the_vector_is_that_of_the_new_text(self, hashed: Memorist) -> None:
        hashed.add("apples and pears", id="k")
        hashed.add("winter tyres", id="k")

        assert hashed.search("winter tyres", mode="semantic")[0].similarity == pytest.approx(1, abs=0.01)

    def test_error_refuses_and_keep_leaves_it(self, memory: Memorist) -> None:
        first = memory.add("one", id="k")

        assert memory.add("two", id="k", if_exists="keep") == first
        with pytest.raises(AlreadyExists, match="the id k belongs to another memory"):
            memory.add("two", id="k", if_exists="error")
        with pytest.raises(InvalidInput, match="if_exists"):
            memory.add("two", id="k", if_exists="ignore")
        assert memory.get("k").content == "one"

    @pytest.mark.parametrize("if_exists", ["update", "error", "keep"])
    def test_the_id_of_a_forgotten_memory_is_free_and_brings_its_history_back(
        self, hashed: Memorist, if_exists: str
    ) -> None:
        hashed.add("one", id="k")
        hashed.forget("k")

        assert hashed.add("two", id="k", if_exists=if_exists).content == "two"
        assert [version.content for version in hashed.history("k")] == ["one"]
        assert [hit.memory.id for hit in hashed.search("two")] == ["k"]

    def test_a_superseded_memory_that_is_said_again_holds_again(self, memory: Memorist) -> None:
        memory.add("one", id="k")
        memory.add("two", id="l", on_near_duplicate="off")
        memory.supersede("k", "l")

        memory.add("three", id="k")

        assert not memory.get("k").superseded

    def test_of_the_same_id_twice_in_a_batch_the_last_counts(self, hashed: Memorist) -> None:
        ids = hashed.add_many([{"content": "one", "id": "k"}, {"content": "two", "id": "k"}])

        assert ids == ["k", "k"]
        assert hashed.get("k").content == "two"
        assert hashed.search("two", mode="semantic")[0].similarity == pytest.approx(1, abs=0.01)

    def test_as_of_shows_what_it_said_before(self, memory: Memorist) -> None:
        first = memory.add("one", id="k")
        memory.add("two", id="k")

        assert memory.get("k", as_of=first.recorded_at).content == "one"

    def test_near_duplicates_are_found_among_memories_with_ids(self, memory: Memorist) -> None:
        memory.add("the staging server restarts at two", id="a")
        memory.add("the staging server restarts at two", id="b")

        assert [[one.id for one in group] for group in memory.review.duplicates()] == [["a", "b"]]


class TestForms:
    @pytest.mark.parametrize("id", STRANGE, ids=ascii)
    def test_an_id_of_any_characters_names_its_memory(self, memory: Memorist, id: str) -> None:
        added = memory.add("a note", id=id)

        assert added.id == id
        assert memory.get(id).content == "a note"
        assert memory.add("another", id=id).id == id
        memory.forget(id)
        assert memory.restore(id).content == "another"
        memory.forget(id, hard=True)
        assert memory.stats().memories == 0

    @pytest.mark.local_only("a server refuses it in other words")
    @pytest.mark.parametrize("id", ["", " ", "\n", "a\tb", "a\x7f", "a\u2028b", "\ud800", "x" * 513, 5], ids=ascii)
    def test_what_cannot_be_an_id_is_refused(self, memory: Memorist, id: str) -> None:
        with pytest.raises(InvalidInput, match="cannot be used"):
            memory.add("a note", id=id)

    @settings(max_examples=50, suppress_health_check=list(HealthCheck))
    @given(id=st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1).filter(str.strip))
    def test_any_text_without_control_characters_is_an_id(self, memory: Memorist, id: str) -> None:
        assert memory.get(memory.add("a note", id=id[:512]).id).id == id[:512]

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_exports_and_imports_keep_them(self, memory: Memorist, tmp_path: Path) -> None:
        for id in STRANGE:
            memory.add("the same text", id=id, on_near_duplicate="off")
        memory.transfer.export(tmp_path / "all.jsonl")
        memory.transfer.export(tmp_path / "notes", format="markdown")

        for source in ("all.jsonl", "notes"):
            with memorist.open(":memory:", embedder="none") as copy:
                assert copy.transfer.import_(tmp_path / source).added == len(STRANGE)
                assert copy.transfer.import_(tmp_path / source).added == 0
                assert sorted(one.id for one in copy.list(limit=100)) == sorted(STRANGE)
                copy.add("changed", id="a")
                assert copy.stats().memories == len(STRANGE)
        assert all(file.parent == tmp_path / "notes" for file in (tmp_path / "notes").rglob("*"))

    @pytest.mark.sqlite_only
    def test_a_migration_keeps_them(self, memory: Memorist, path: Path, tmp_path: Path) -> None:
        for id in STRANGE:
            memory.add("the same text", id=id, on_near_duplicate="off")

        report = memorist.migrate(path, tmp_path / "copy.db")

        assert report.records == {"memory": len(STRANGE)}


WRITER = """
import sys
import memorist
with memorist.open(sys.argv[1], embedder="none") as memory:
    for number in range(25):
        memory.add(f"writer {sys.argv[2]} says {number}", id=f"key {number % 5}")
        memory.add_many([{"content": "same text", "id": f"own {sys.argv[2]} {number}"}])
"""


def test_eight_processes_that_write_the_same_ids_lose_and_double_nothing(target: str) -> None:
    memorist.open(target, embedder="none").close()
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, target, str(number)]) for number in range(8)]

    assert [writer.wait(300) for writer in writers] == [0] * 8
    with memorist.open(target, embedder="none") as memory:
        assert memory.stats().memories == 5 + 8 * 25
        versions = [memory.get(f"key {number}").content for number in range(5)]
        versions += [version.content for number in range(5) for version in memory.history(f"key {number}")]
        assert sorted(versions) == sorted(f"writer {one} says {number}" for one in range(8) for number in range(25))
        assert memory.check().ok


@pytest.mark.local_only("it reads a file of its own machine")
def test_a_bound_project_does_not_replace_a_memory_of_another(memory: Memorist) -> None:
    from memorist.engine.project_view import ProjectView

    memory.add("theirs", id="k", project="theirs")

    added = ProjectView(memory, "ours").add("ours", id="k")

    assert memory.get("k").content == "theirs"
    assert (memory.get(added.id).content, added.id[:2]) == ("ours", "k~")
