"""
tars' twelve test cases over files: folders of notes, the bundled model, profile="notes".

`test_tars.py` has them for memories. Here a row is a chunk of a file, as in tars itself.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import memorist
from cosine_embedder import CosineEmbedder
from memorist import InvalidInput, Memorist, NotFound
from memorist.embed.local import LocalEmbedder
from memorist.file_records import DocumentHit
from memorist.present.render import results_json
from memorist.records import Results

NOTES = {
    "semantic/garden.md": "# Garden\n\nRoses are pruned in February.\n\n## Compost\n\nThe heap is behind the shed.\n",
    "procedural/deploy.md": "# Deploying\n\nPush the tag, then wait for the canary to turn green.\n",
    "episodic/2026-03-01.md": "# Sunday\n\nWe met the new neighbours, Ada and Grace, over coffee.\n",
}


def write(folder: Path, notes: dict[str, str]) -> Path:
    for name, text in notes.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def names(results: Results) -> list[str]:
    return [Path(hit.path).name for hit in results]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "notes", NOTES)


@pytest.fixture
def notes(path: Path, folder: Path, bundled_model: LocalEmbedder) -> Iterator[Memorist]:
    with memorist.open(path, embedder=bundled_model, profile="notes") as memory:
        memory.documents.index(folder)
        yield memory


@pytest.fixture
def placed(path: Path, tmp_path: Path) -> Iterator[Memorist]:
    """Five files whose distance from any question is written in them."""
    written = write(tmp_path / "placed", {f"{n}.txt": f"@{n} heron" if n == 2 else f"@{n} stork" for n in (7, 2, 9, 4)})
    with memorist.open(path, embedder=CosineEmbedder(steps=True), profile="notes") as memory:
        memory.documents.index(written)
        yield memory


class TestSanitizeFtsQuery:
    @pytest.mark.parametrize("query", ['roses"', "(roses", "roses:", "-roses", "{roses}", "roses^", "roses\x00"])
    def test_special_characters_are_no_syntax(self, notes: Memorist, query: str) -> None:
        assert names(notes.documents.search(query, mode="fts")) == ["garden.md"]

    @pytest.mark.parametrize("query", ["", " ", '""', "( )", "*", "\x00"])
    def test_empty_input_finds_nothing(self, notes: Memorist, query: str) -> None:
        assert list(notes.documents.search(query)) == []


class TestReciprocalRankFusion:
    def test_overlapping_lists_are_merged(self, placed: Memorist) -> None:
        first, second, *_ = placed.documents.search("heron")

        assert (first.memory.content, second.memory.content) == ("@2 heron", "@4 stork")
        assert first.raw["rrf"] == pytest.approx(2 / 61)
        assert second.raw["rrf"] == pytest.approx(1 / 62)

    def test_scores_are_from_zero_to_one_of_the_greatest_there_can_be(self, placed: Memorist) -> None:
        scores = [hit.score for hit in placed.documents.search("heron")]

        assert scores == pytest.approx([1.0, *((1 / place) / (2 / 61) for place in (62, 63, 64))])

    @pytest.mark.parametrize("mode", ["vec", "fts"])
    def test_a_single_list_is_normalised_too(self, placed: Memorist, mode: str) -> None:
        assert placed.documents.search("heron", mode=mode)[0].score == pytest.approx(1.0)


class TestSearchVec:
    def test_chunks_come_in_the_order_of_distance(self, placed: Memorist) -> None:
        found = placed.documents.search("anything", mode="vec")

        assert names(found) == ["2.txt", "4.txt", "7.txt", "9.txt"]


class TestSearchFts:
    def test_chunks_with_the_keywords_are_found(self, notes: Memorist) -> None:
        assert names(notes.documents.search("pruned roses", mode="fts")) == ["garden.md"]
        assert names(notes.documents.search("roses coffee", mode="fts")) == []  # all words, as tars has it


class TestSearch:
    def test_hybrid_from_end_to_end(self, notes: Memorist, folder: Path) -> None:
        by_words = notes.documents.search("compost heap")[0]
        by_meaning = notes.documents.search("where do kitchen scraps go?")[0]

        for hit in (by_words, by_meaning):
            assert isinstance(hit, DocumentHit)
            assert "The heap is behind the shed." in hit.memory.content
            assert (hit.path, hit.title, hit.memory.sector) == (
                str(folder / "semantic" / "garden.md"), "Garden", "semantic",
            )  # fmt: skip
            lines = Path(hit.path).read_text("utf-8").split("\n")
            assert "\n".join(lines[hit.start_line - 1 : hit.end_line]) == hit.memory.content
        assert "keyword" not in by_meaning.match

    @pytest.mark.parametrize(("alias", "mode"), [("vec", "semantic"), ("fts", "keyword")])
    def test_one_source_alone(self, placed: Memorist, alias: str, mode: str) -> None:
        found = placed.documents.search("heron", mode=alias)

        assert found.mode == mode
        assert len(found) == (4 if mode == "semantic" else 1)

    def test_low_scores_are_left_out_and_counted(self, placed: Memorist) -> None:
        found = placed.documents.search("heron", min_score=0.6)

        assert names(found) == ["2.txt"]
        assert found.hidden == {"min_score": 3}

    def test_results_are_frozen(self, notes: Memorist) -> None:
        hit = notes.documents.search("compost")[0]

        with pytest.raises(AttributeError):
            hit.start_line = 7  # type: ignore[attr-defined]

    def test_each_has_what_tars_asks_for(self, notes: Memorist) -> None:
        hit = notes.documents.search("push the tag")[0]

        assert isinstance(hit, DocumentHit)
        assert Path(hit.path).name == "deploy.md"
        assert (hit.title, hit.memory.sector, hit.start_line, hit.end_line) == ("Deploying", "procedural", 1, 3)
        assert 0 < hit.score <= 1
        assert hit.memory.id  # tars has a rowid for this: nothing else is known by it


class TestNothingThere:
    """R119: what is not there finds nothing. What is asked for by name and is not there is said."""

    def test_a_missing_database_finds_nothing_and_stays_missing(self, tmp_path: Path) -> None:
        missing = tmp_path / "no" / "such" / "memory.db"
        with memorist.open(missing, read_only=True, embedder="none") as memory:
            assert list(memory.documents.search("roses")) == []
            assert list(memory.documents.list()) == []
            assert list(memory.search("roses", include_documents=True)) == []

        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
    def test_an_empty_database_finds_nothing(self, understanding: Memorist, mode: str) -> None:
        assert list(understanding.documents.search("roses", mode=mode)) == []
        assert list(understanding.search("roses", mode=mode, include_documents=True)) == []
        assert list(understanding.documents.list()) == []

    def test_where_nothing_is_indexed_memories_are_found_all_the_same(self, understanding: Memorist) -> None:
        understanding.add("Roses are pruned in February")

        found = understanding.search("roses", include_documents=True)

        assert [hit.memory.content for hit in found] == ["Roses are pruned in February"]
        assert found.degraded is None
        assert list(understanding.documents.search("roses")) == []

    def test_an_empty_folder_is_said_and_no_error(self, memory: Memorist, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()

        report = memory.documents.index(tmp_path / "empty")

        assert report.skipped == ((str(tmp_path / "empty"), "nothing to index in it"),)
        assert report.added == 0

    def test_a_missing_folder_is_a_slip_of_the_hand(self, memory: Memorist, tmp_path: Path, folder: Path) -> None:
        for paths in (tmp_path / "gone", [folder, tmp_path / "gone"], "", []):
            with pytest.raises(InvalidInput):
                memory.documents.index(paths)

        assert list(memory.documents.list()) == []

    def test_what_is_not_indexed_can_be_unindexed(self, memory: Memorist, tmp_path: Path) -> None:
        assert memory.documents.remove(tmp_path / "gone") == 0

    def test_a_folder_that_went_is_said_and_what_was_in_it_stays_until_it_is_unindexed(
        self, notes: Memorist, folder: Path
    ) -> None:
        (folder / "procedural" / "deploy.md").unlink()
        (folder / "procedural").rmdir()

        with pytest.raises(InvalidInput, match="no such file or folder"):
            notes.documents.index(folder / "procedural")
        assert names(notes.documents.search("canary", mode="fts")) == ["deploy.md"]

        assert notes.documents.remove(folder / "procedural") == 1
        assert names(notes.documents.search("canary", mode="fts")) == []


class TestFtsSync:
    @staticmethod
    def indexed(path: Path) -> set[str]:
        connection = apsw.Connection(str(path))
        connection.execute("create virtual table temp.vocabulary using fts5vocab('main', 'memories_words', 'row')")
        found = {word for (word,) in connection.execute("select term from temp.vocabulary")}
        connection.close()
        return found

    @pytest.mark.parametrize("by", ["unindexing", "deleting"])
    def test_what_goes_from_the_files_goes_from_the_full_text_index(
        self, notes: Memorist, folder: Path, path: Path, by: str
    ) -> None:
        assert {"roses", "compost", "canary"} <= self.indexed(path)

        if by == "unindexing":
            assert notes.documents.remove(folder / "semantic" / "garden.md") == 1
        else:
            (folder / "semantic" / "garden.md").unlink()
            assert notes.documents.index(folder).removed == 1

        assert not {"roses", "compost", "heap"} & self.indexed(path)
        assert "canary" in self.indexed(path)
        assert notes.check().ok

    def test_chunks_whose_index_is_lost_get_it_again_from_their_text(self, notes: Memorist, path: Path) -> None:
        connection = apsw.Connection(str(path))
        for index in ("memories_stems", "memories_words"):
            connection.execute(f"insert into {index}({index}) values ('delete-all')")
        connection.close()
        assert names(notes.documents.search("canary tag", mode="fts")) == []

        assert not notes.check().ok
        notes.check(repair=True)

        assert notes.check().ok
        assert names(notes.documents.search("canary tag", mode="fts")) == ["deploy.md"]


class TestForAnAgent:
    """What the tool and the opening of a conversation need."""

    def test_the_results_are_well_formed_json_with_their_place(self, notes: Memorist) -> None:
        said = json.loads(json.dumps(results_json(notes.documents.search("compost heap"), explain=False)))

        first = said["results"][0]
        assert Path(first["path"]).name == "garden.md"
        assert (first["title"], first["start_line"], first["end_line"]) == ("Garden", 1, 7)

    def test_an_opening_message_has_its_context_and_a_strange_one_none(self, notes: Memorist) -> None:
        context = notes.documents.search("How do I ship a new version to production?", limit=5, profile="balanced")
        nothing = notes.documents.search("zyzzyva", limit=5, mode="fts")

        assert names(context)[0] == "deploy.md"
        assert list(nothing) == []


class TestPinning:
    def test_a_chunk_is_refused_a_pin_with_what_to_do_instead(self, memory: Memorist, folder: Path) -> None:
        """Chunks come and go with the text of their file, and a pin would go with them."""
        memory.documents.index(folder)
        (hit,) = memory.documents.search("roses").hits
        chunk = memory.get(hit.memory.id)

        for change in (memory.pin, memory.unpin):
            with pytest.raises(NotFound, match=r"a chunk of .*garden\.md.*add its text as a memory"):
                change(chunk.id)

        kept = memory.pin(memory.add(chunk.content).id)
        assert kept.pinned
        assert "Roses are pruned in February" in memory.briefing()
