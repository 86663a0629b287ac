"""Files: taken in, kept up with, searched, shown with their place, and taken out again."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

import memorist
from answers import ids
from conftest import FailingEmbedder, HashingEmbedder
from memorist import InvalidInput, Memorist, StoreError
from memorist.embed.local import LocalEmbedder
from memorist.file_records import Document, DocumentHit
from memorist.profiles import PROFILES
from memorist.records import FACETS, Results
from memorist.reports import IndexProgress
from statements import read_rows, record_statements

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
WORDS = "alder birch cedar elm fir hazel juniper larch maple oak pine rowan spruce willow yew".split()


class Reading(HashingEmbedder):
    """Keeps what it was given to read."""

    def __init__(self, model_id: str = "hashing-64", dimensions: int = 64) -> None:
        super().__init__(model_id, dimensions)
        self.read: list[str] = []
        self.meanwhile: Callable[[], None] | None = None

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.read += texts
        if self.meanwhile:
            self.meanwhile()
        return super().embed(texts)

    def taken(self) -> list[str]:
        """What it has read since it was last asked."""
        read, self.read = self.read, []
        return read


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    made.mkdir()
    return made


def write(folder: Path, **files: str) -> None:
    """Files by name, `__` for a slash; each `.md`."""
    for name, text in files.items():
        file = folder / (name.replace("__", "/") + ".md")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())


def section(name: str, word: str, lines: int = 40) -> str:
    """A section of about 160 tokens as the hashing model's counter has it: nearly a chunk of its own."""
    return f"## {name}\n\n" + "".join(f"{word} {WORDS[n % 15]} {n}\n" for n in range(lines))


def pages(*words: str) -> str:
    return "# Title\n\n" + "\n".join(section(f"Part {word}", word) for word in words)


def places(results: Results) -> list[DocumentHit]:
    assert all(isinstance(hit, DocumentHit) for hit in results)
    return [hit for hit in results if isinstance(hit, DocumentHit)]


def names(results: Results | list[Document]) -> list[str]:
    return [Path(getattr(one, "path", "memory")).name for one in results]


def lines_of(hit: DocumentHit) -> str:
    """What stands at the place that a hit names, as an editor numbers lines."""
    text = Path(hit.path).read_bytes().decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(text.split("\n")[hit.start_line - 1 : hit.end_line])


def raw(path: Path) -> bytes:
    """Every byte of the database and what belongs to it."""
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


class TestWhereItStands:
    def test_every_chunk_is_what_stands_at_its_lines(self, hashed: Memorist, folder: Path) -> None:
        write(folder, a=pages("wolf", "lynx", "bear"), deep__er__b=pages("wolf", "owl"))
        hashed.documents.index(folder)

        found = places(hashed.documents.search("wolf lynx bear owl", limit=100, grouped=False))

        assert len(found) == hashed.stats().chunks
        assert [hit.memory.content for hit in found] == [lines_of(hit) for hit in found]
        assert {hit.memory.source for hit in found} == {str(folder / "a.md"), str(folder / "deep" / "er" / "b.md")}

    def test_title_and_breadcrumb_are_the_headings_above(self, memory: Memorist, folder: Path) -> None:
        write(folder, a=f"# Top\n\n{section('One', 'wolf')}\n### Within\n\n{section('x', 'lynx')[6:]}")
        memory.documents.index(folder)

        hit = places(memory.documents.search("lynx"))[0]

        assert hit.title == "Top"
        assert hit.breadcrumb[0] == "Top"
        assert hit.breadcrumb[-1] == "One"
        assert hit.memory.content.startswith("### Within")

    def test_headings_of_six_levels_are_all_above(self, memory: Memorist, folder: Path) -> None:
        deep = "\n".join(f"{'#' * level} Level {level}\n\n{section('x', WORDS[level])[6:]}" for level in range(1, 7))
        write(folder, deep=deep + "\nthe quokka at the bottom\n" + "filler words\n" * 150 + "\nand a numbat\n")
        memory.documents.index(folder)

        hit = places(memory.documents.search("numbat"))[0]

        assert hit.breadcrumb == tuple(f"Level {level}" for level in range(1, 7))

    def test_a_word_of_a_heading_finds_what_stands_below_it(self, memory: Memorist, folder: Path) -> None:
        write(folder, a=f"# Zeppelins\n\n{section('One', 'wolf', 120)}")
        memory.documents.index(folder)

        found = places(memory.documents.search("zeppelins", grouped=False))

        assert len(found) > 1
        assert all("Zeppelins" in hit.memory.content or "Zeppelins" in hit.breadcrumb for hit in found)

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_lines_are_those_of_the_file_whatever_ends_them(self, memory: Memorist, folder: Path, end: str) -> None:
        text = "\ufeff" + pages("wolf", "lynx").replace("\n", end)
        (folder / "a.md").write_bytes(text.encode())
        memory.documents.index(folder)

        for word in ("wolf", "lynx"):
            hit = places(memory.documents.search(word))[0]
            assert hit.memory.content == lines_of(hit)
            assert "\r" not in hit.memory.content
            assert "\ufeff" not in hit.memory.content

    def test_paths_and_names_of_any_script(self, memory: Memorist, folder: Path) -> None:
        odd = ["Ünïcode ß.md", "漢字/東京 メモ.md", "with 'quotes' and \"more\".md", "100% [sure] #1.md", "🦊.md"]
        for number, name in enumerate(odd):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(f"# Note\n\nmarker{number}x 会議 schön\n", "utf-8")
        memory.documents.index(folder)

        assert {one.path for one in memory.documents.list()} == {str(folder / name) for name in odd}
        for number, name in enumerate(odd):
            assert [hit.path for hit in memory.documents.search(f"marker{number}x")] == [str(folder / name)]
        assert len(memory.documents.search("会議", limit=50)) == len(odd)
        assert memory.documents.index(folder).unchanged == len(odd)

    def test_a_megabyte_in_one_line_is_found_anywhere_in_it(self, hashed: Memorist, folder: Path) -> None:
        middle = "the quokka sleeps here "
        (folder / "long.txt").write_text("word and more " * 36_000 + middle + "word and more " * 36_000, "utf-8")

        report = hashed.documents.index(folder)
        hit = places(hashed.documents.search("quokka"))[0]

        assert report.chunks > 1000
        assert (hit.start_line, hit.end_line) == (1, 1)
        assert middle.strip() in hit.memory.content
        assert hit.memory.content in lines_of(hit)
        assert hashed.check().ok

    def test_files_with_nothing_in_them_are_said_and_left_out(self, memory: Memorist, folder: Path) -> None:
        write(folder, empty="", blank=" \n\n\t\n", good="a fox")
        (folder / "binary.md").write_bytes(b"\0\1\2\3" * 100)

        report = memory.documents.index(folder)

        assert report.added == 1
        assert {(Path(path).name, reason) for path, reason in report.skipped} == {
            ("empty.md", "it is empty"), ("blank.md", "it has no text"), ("binary.md", "it is binary"),
        }  # fmt: skip


class TestFrontMatter:
    def test_it_becomes_tags_sector_title_and_what_else_was_said(self, memory: Memorist, folder: Path) -> None:
        write(folder, a="---\ntitle: How to\ntags: [Alpha, '#beta', alpha]\ntype: Procedural\nowner: Ada\n---\na fox\n")
        memory.documents.index(folder)

        (document,) = memory.documents.list()
        (hit,) = places(memory.documents.search("fox"))

        assert (document.title, document.sector, document.tags) == ("How to", "procedural", ("Alpha", "beta", "alpha"))
        assert document.front_matter["owner"] == "Ada"
        assert (hit.title, hit.memory.sector, hit.memory.tags) == ("How to", "procedural", document.tags)
        assert (hit.start_line, hit.memory.content) == (7, "a fox")

    def test_a_folder_says_what_kind_it_is_and_front_matter_knows_better(self, memory: Memorist, folder: Path) -> None:
        write(folder, episodic__a="a fox", Procedural__b="a fox", episodic__c="---\nsector: semantic\n---\na fox")
        memory.documents.index(folder)

        assert {Path(one.path).name: one.sector for one in memory.documents.list()} == {
            "a.md": "episodic", "b.md": "procedural", "c.md": "semantic",
        }  # fmt: skip
        assert names(memory.documents.search("fox", sector="procedural")) == ["b.md"]

    @pytest.mark.parametrize("said", ["tags: 2024", "tags: true", "keywords: 7"])
    def test_a_single_tag_that_is_no_text_does_not_end_the_run(self, memory: Memorist, folder: Path, said: str) -> None:
        write(folder, a=f"---\n{said}\n---\na fox", b="a wolf")

        assert memory.documents.index(folder).added == 2

    def test_a_tag_that_is_none_is_no_tag(self, memory: Memorist, folder: Path) -> None:
        write(folder, a="---\ntags: [a, null, 7]\n---\na fox")
        memory.documents.index(folder)

        assert memory.documents.list()[0].tags == ("a", "7")

    def test_an_old_tag_of_an_unspaced_script_is_not_found(self, memory: Memorist, folder: Path) -> None:
        write(folder, a="---\ntags: [東京]\n---\na fox")
        memory.documents.index(folder)
        write(folder, a="---\ntags: [大阪]\n---\na fox")
        memory.documents.index(folder)

        assert names(memory.documents.search("大阪", mode="keyword")) == ["a.md"]
        assert names(memory.documents.search("東京", mode="keyword")) == []

    def test_changing_it_alone_reaches_every_chunk_and_embeds_none(self, path: Path, folder: Path) -> None:
        model = Reading()
        with memorist.open(path, embedder=model) as memory:
            write(folder, a="---\ntags: [old]\n---\n" + pages("wolf", "lynx"))
            memory.documents.index(folder)
            model.taken()
            write(folder, a="---\ntags: [new]\nsector: episodic\n---\n" + pages("wolf", "lynx"))
            report = memory.documents.index(folder)

            assert (report.changed, report.embedded, model.taken()) == (1, 0, [])
            found = places(memory.documents.search("wolf lynx", tags="new", sector="episodic", grouped=False))
            assert len(found) == memory.stats().chunks
            assert [hit.memory.content for hit in found] == [lines_of(hit) for hit in found]
            assert not memory.documents.search("wolf", tags="old")
            assert memory.check().ok


class TestKeepingUp:
    def test_what_has_not_changed_is_not_read(self, path: Path, folder: Path) -> None:
        model = Reading()
        with memorist.open(path, embedder=model) as memory:
            write(folder, a=pages("wolf"), b=pages("lynx"))
            first = memory.documents.index(folder)
            assert len(model.taken()) == first.embedded == first.chunks
            before = read_rows(path, "select * from memories")

            again = memory.documents.index(folder)

            assert (again.unchanged, again.added, again.changed, again.chunks, again.embedded) == (2, 0, 0, 0, 0)
            assert model.taken() == []
            assert read_rows(path, "select * from memories") == before

    def test_only_the_chunks_that_changed_are_embedded_and_the_others_keep_their_ids(
        self, path: Path, folder: Path
    ) -> None:
        model = Reading()
        with memorist.open(path, embedder=model) as memory:
            write(folder, a=pages("wolf", "lynx", "bear"))
            memory.documents.index(folder)
            first = memory.documents.search("wolf lynx bear", grouped=False)
            before = {hit.memory.content: hit.memory.id for hit in first}
            model.taken()
            write(folder, a="\n\n\n" + pages("wolf", "lynx", "bear").replace("lynx larch 7", "lynx quokka 7"))
            report = memory.documents.index(folder)

            read = model.taken()
            assert report.changed == 1
            assert len(read) == report.embedded == 1
            assert "quokka" in read[0]
            found = places(memory.documents.search("wolf lynx bear", grouped=False))
            kept = [hit for hit in found if before.get(hit.memory.content) == hit.memory.id]
            assert len(kept) == len(found) - 1
            assert [hit.memory.content for hit in found] == [lines_of(hit) for hit in found]  # three lines further down
            assert not [hit for hit in found if "lynx larch 7" in hit.memory.content]
            assert memory.check().ok

    def test_a_file_touched_but_not_changed_is_unchanged(self, path: Path, folder: Path) -> None:
        model = Reading()
        with memorist.open(path, embedder=model) as memory:
            write(folder, a="a fox")
            memory.documents.index(folder)
            model.taken()
            os.utime(folder / "a.md", (1_700_000_000, 1_700_000_000))

            assert memory.documents.index(folder).unchanged == 1
            assert model.taken() == []

    def test_the_same_text_in_many_files_and_many_times_in_one_is_embedded_once(self, path: Path, folder: Path) -> None:
        model = Reading()
        with memorist.open(path, embedder=model) as memory:
            write(folder, a=pages("wolf"), b=pages("wolf"), c=pages("wolf", "wolf"))
            memory.documents.index(folder)

            assert len(model.read) == len(set(model.read))
            assert sorted(names(memory.documents.search("wolf"))) == ["a.md", "b.md", "c.md"]
            assert sorted(names(memory.documents.search("wolf", mode="semantic"))) == ["a.md", "b.md", "c.md"]

    def test_a_file_that_moved_keeps_the_ids_of_its_chunks(self, path: Path, folder: Path) -> None:
        model = Reading()
        with memorist.open(path, embedder=model) as memory:
            write(folder, a=pages("wolf", "lynx"))
            memory.documents.index(folder)
            before = set(ids(memory.documents.search("wolf lynx", grouped=False)))
            model.taken()
            (folder / "sub").mkdir()
            (folder / "a.md").rename(folder / "sub" / "z.md")

            report = memory.documents.index(folder)

            assert (report.renamed, report.added, report.removed, report.embedded) == (1, 0, 0, 0)
            assert model.taken() == []
            found = places(memory.documents.search("wolf lynx", grouped=False))
            assert set(ids(found)) == before
            assert {(hit.path, hit.memory.source) for hit in found} == {(str(folder / "sub" / "z.md"),) * 2}
            assert names(memory.documents.list()) == ["z.md"]
            assert not memory.search("wolf", include_documents=True, source=str(folder / "a.md"))

    def test_a_copy_is_no_move(self, memory: Memorist, folder: Path) -> None:
        write(folder, a="a fox")
        memory.documents.index(folder)
        shutil.copy(folder / "a.md", folder / "b.md")

        report = memory.documents.index(folder)

        assert (report.added, report.unchanged, report.renamed) == (1, 1, 0)
        assert names(memory.documents.list()) == ["a.md", "b.md"]

    def test_a_file_that_is_gone_goes_with_all_its_chunks(self, hashed: Memorist, folder: Path, path: Path) -> None:
        write(folder, a=pages("wolf"), b=pages("lynx"))
        hashed.documents.index(folder)
        (folder / "a.md").unlink()

        report = hashed.documents.index(folder)

        assert (report.removed, report.unchanged) == (1, 1)
        assert names(hashed.documents.search("wolf", mode="keyword")) == []
        assert names(hashed.documents.search("wolf", noise_floor=False)) == ["b.md"]
        chunks = hashed.stats().chunks
        for table in ("memories", "chunks", "vectors"):
            assert read_rows(path, f"select count(*) from {table}") == [(chunks,)], table
        assert hashed.check().ok

    @pytest.mark.parametrize("left", [None, "data.json"])
    def test_the_last_file_of_a_folder_goes_too(self, memory: Memorist, folder: Path, left: str | None) -> None:
        write(folder, a="a quokka")
        memory.documents.index(folder)
        (folder / "a.md").unlink()
        if left:
            (folder / left).touch()
        memory.documents.index(folder)

        assert names(memory.documents.search("quokka")) == []
        assert list(memory.documents.list()) == []

    def test_two_files_that_change_places_are_followed(self, memory: Memorist, folder: Path) -> None:
        write(folder, a="a quokka", b="a wolf and more")
        memory.documents.index(folder)
        (folder / "a.md").rename(folder / "c")
        (folder / "b.md").rename(folder / "a.md")
        (folder / "c").rename(folder / "b.md")
        memory.documents.index(folder)

        assert names(memory.documents.search("quokka")) == ["b.md"]
        assert names(memory.documents.search("wolf")) == ["a.md"]

    def test_a_file_moved_over_another_takes_its_place(self, memory: Memorist, folder: Path) -> None:
        write(folder, a="a quokka", b="a wolf and more")
        memory.documents.index(folder)
        (folder / "a.md").replace(folder / "b.md")
        memory.documents.index(folder)

        assert names(memory.documents.list()) == ["b.md"]
        assert names(memory.documents.search("quokka")) == ["b.md"]
        assert names(memory.documents.search("wolf")) == []

    def test_a_file_of_the_far_future_does_not_end_the_run(self, memory: Memorist, folder: Path) -> None:
        write(folder, a="a fox", b="a wolf")
        os.utime(folder / "a.md", (10**10, 10**10))
        if (folder / "a.md").stat().st_mtime != 10**10:
            raise OverflowError("this file system has no such times")  # expected to fail, one way or the other

        assert memory.documents.index(folder).added == 2

    def test_a_file_of_the_far_past_is_as_good_as_any(self, memory: Memorist, folder: Path) -> None:
        write(folder, a="a fox")
        os.utime(folder / "a.md", (-(10**9), -(10**9)))
        memory.documents.index(folder)

        assert memory.documents.search("fox", until="1950")[0].memory.created_at.year == 1938
        assert not memory.documents.search("fox", since="1950")

    def test_files_of_other_folders_stay(self, memory: Memorist, folder: Path, tmp_path: Path) -> None:
        write(folder, a="a fox")
        write(tmp_path / "notes-too", b="a fox")
        memory.documents.index([folder, tmp_path / "notes-too"])

        assert memory.documents.index(folder).removed == 0
        assert memory.documents.index(tmp_path / "notes-too").removed == 0
        assert sorted(names(memory.documents.list())) == ["a.md", "b.md"]

    def test_to_index_one_file_leaves_its_neighbours_in_the_index(self, memory: Memorist, folder: Path) -> None:
        write(folder, a="a fox", b="a wolf")
        memory.documents.index(folder)

        report = memory.documents.index(folder / "a.md")

        assert report.removed == 0
        assert names(memory.documents.list()) == ["a.md", "b.md"]

    def test_to_index_a_pattern_leaves_what_it_does_not_match_in_the_index(
        self, memory: Memorist, folder: Path
    ) -> None:
        write(folder, a="a fox", b="a wolf")
        memory.documents.index(folder)

        assert memory.documents.index(str(folder / "a*.md")).removed == 0
        assert names(memory.documents.list()) == ["a.md", "b.md"]

    @pytest.mark.parametrize("now", [b"", b"\n\n", b"\0\1\2" * 50])
    def test_what_a_file_no_longer_says_is_not_found(self, memory: Memorist, folder: Path, now: bytes) -> None:
        write(folder, a="a quokka", b="a wolf")
        memory.documents.index(folder)
        (folder / "a.md").write_bytes(now)
        memory.documents.index(folder)

        assert names(memory.documents.search("quokka")) == []

    def test_another_project_is_taken_on_by_files_that_have_not_changed(self, memory: Memorist, folder: Path) -> None:
        write(folder, a="a fox")
        memory.documents.index(folder, project="old")
        memory.documents.index(folder, project="new")

        assert [one.project for one in memory.documents.list()] == ["new"]
        assert names(memory.documents.search("fox", project="new")) == ["a.md"]

    def test_a_file_that_moved_is_of_the_kind_its_new_folder_says(self, memory: Memorist, folder: Path) -> None:
        write(folder, procedural__a="a fox")
        memory.documents.index(folder)
        (folder / "episodic").mkdir()
        (folder / "procedural" / "a.md").rename(folder / "episodic" / "a.md")
        memory.documents.index(folder)

        assert [one.sector for one in memory.documents.list()] == ["episodic"]

    def test_code_that_moved_has_its_new_name_for_a_title(self, memory: Memorist, folder: Path) -> None:
        (folder / "old.py").write_text("def quokka():\n    return 1\n")
        memory.documents.index(folder)
        (folder / "old.py").rename(folder / "new.py")
        memory.documents.index(folder)

        assert [one.title for one in memory.documents.list()] == ["new.py"]

    def test_progress_counts_every_file(self, memory: Memorist, folder: Path) -> None:
        write(folder, a="a fox", b="a wolf", c="a bear")
        steps: list[tuple[int, int]] = []
        for _ in range(2):
            memory.documents.index(folder, progress=lambda now: steps.append((now.files, now.total_files)))

        assert steps[:2] == [(0, 3), (3, 3)]
        assert steps[-1] == (3, 3)


class TestTheModel:
    def test_what_was_there_serves_until_the_new_is_ready(self, path: Path, folder: Path) -> None:
        """While the new chunks are embedded, the old ones are found; then the new ones, and never none or both."""
        model = Reading()
        seen: list[tuple[list[str], list[str]]] = []
        with memorist.open(path, embedder=model) as memory, memorist.open(path, embedder=HashingEmbedder()) as other:
            write(folder, a=pages("wolf"))
            memory.documents.index(folder)
            write(folder, a=pages("lynx"))

            def look() -> None:
                found = [names(other.documents.search(word, mode="keyword")) for word in ("wolf", "lynx")]
                seen.append((found[0], found[1]))

            model.meanwhile = look
            memory.documents.index(folder)
            model.meanwhile = None
            look()

        assert seen == [(["a.md"], []), ([], ["a.md"])]

    def test_a_run_that_is_stopped_leaves_the_old_and_the_next_one_goes_on(self, path: Path, folder: Path) -> None:
        model = Reading()

        def stop() -> None:
            raise KeyboardInterrupt

        with memorist.open(path, embedder=model) as memory:
            write(folder, a=pages("wolf"))
            memory.documents.index(folder)
            write(folder, a=pages("lynx"))
            model.meanwhile = stop
            with pytest.raises(KeyboardInterrupt):
                memory.documents.index(folder)
            model.meanwhile = None

            assert names(memory.documents.search("wolf", mode="keyword")) == ["a.md"]
            assert memory.check().ok
            assert memory.documents.index(folder).changed == 1
            assert names(memory.documents.search("wolf", mode="keyword")) == []
            assert names(memory.documents.search("lynx", mode="keyword")) == ["a.md"]

    def test_with_a_model_that_fails_the_new_text_is_found_by_its_words_and_the_answer_says_so(
        self, path: Path, folder: Path
    ) -> None:
        model = FailingEmbedder()
        with memorist.open(path, embedder=model) as memory:
            model.broken = False
            write(folder, a=pages("wolf"))
            memory.documents.index(folder)
            model.broken = True
            write(folder, a=pages("lynx"))
            report = memory.documents.index(folder)
            model.broken = False
            found = memory.documents.search("lynx")

            assert (report.changed, report.embedded) == (1, 0)
            assert names(found) == ["a.md"]
            assert found[0].match == ("keyword",)
            assert found.degraded is not None
            assert "no vector" in found.degraded
            assert names(memory.documents.search("wolf", mode="keyword")) == []

    def test_a_model_that_comes_back_gives_vectors_with_the_next_run(self, path: Path, folder: Path) -> None:
        model = FailingEmbedder()
        with memorist.open(path, embedder=model) as memory:
            write(folder, a=pages("wolf"), b=pages("lynx"))
            memory.documents.index(folder)
            model.broken = False
            memory.documents.index(folder)

            found = memory.documents.search("wolf", mode="semantic")
            assert found.degraded is None
            assert "a.md" in names(found)

    def test_a_text_that_the_model_refuses_costs_only_itself_its_vector(self, path: Path, folder: Path) -> None:
        class Choosy(HashingEmbedder):
            def embed(self, texts: Sequence[str]) -> list[list[float]]:
                if any("poison" in text for text in texts):
                    raise ValueError("this I do not read")
                return super().embed(texts)

        write(folder, a="a fox", b="some poison", c="a wolf")
        with memorist.open(path, embedder=Choosy()) as memory:
            memory.documents.index(folder)
            found = memory.documents.search("fox", mode="semantic", noise_floor=False)

        assert sorted(names(found)) == ["a.md", "c.md"]

    def test_reembedding_gives_vectors_to_files_too(self, path: Path, folder: Path) -> None:
        write(folder, a=pages("wolf"))
        with memorist.open(path, embedder="none") as memory:
            memory.documents.index(folder)
            chunks = memory.stats().chunks
        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            assert memory.reembed() == chunks
            assert memory.reembed() == 0
            assert memory.documents.search("wolf", mode="semantic").degraded is None
            told: list[int] = []
            memory.add("a memory")
            assert memory.reembed(HashingEmbedder("another", 32), told.append, prune=True) == chunks + 1
            assert told[-1] == chunks + 1
            assert names(memory.documents.search("wolf", mode="semantic")) == ["a.md"]
            assert memory.check().ok
        assert read_rows(path, "select count(*), count(distinct model) from vectors") == [(chunks + 1, 1)]

    def test_what_one_process_indexes_another_finds_without_opening_again(self, path: Path, folder: Path) -> None:
        with (
            memorist.open(path, embedder=HashingEmbedder()) as one,
            memorist.open(path, embedder=HashingEmbedder()) as other,
        ):
            write(folder, a="a fox", b="a wolf")
            assert list(other.documents.search("fox", mode="semantic")) == []
            one.documents.index(folder)
            assert names(other.documents.search("fox", mode="semantic"))[0] == "a.md"
            write(folder, a="a lynx")
            one.documents.index(folder)
            assert "a fox" not in [hit.memory.content for hit in other.documents.search("fox", mode="semantic")]
            one.documents.remove(folder)
            assert list(other.documents.search("lynx", mode="semantic")) == []

    @pytest.mark.parametrize(
        "title",
        [
            "A long title of a document " * 4,
            pytest.param(
                "漢字 " * 90,
            ),
        ],
        ids=["words", "ideographs"],
    )
    def test_the_model_reads_a_whole_chunk_with_what_stands_above_it(
        self, understanding: Memorist, bundled_model: LocalEmbedder, folder: Path, title: str
    ) -> None:
        write(folder, a=f"# {title}\n\n" + section("One", "wolf", 400))
        understanding.documents.index(folder)

        found = places(understanding.documents.search("wolf", grouped=False, limit=100))

        assert len(found) > 5
        sizes = [bundled_model.count_tokens(f"{hit.memory.title}\n{hit.memory.content}") for hit in found]
        assert max(sizes) <= bundled_model.max_tokens


class TestGrouping:
    @pytest.fixture
    def two(self, hashed: Memorist, folder: Path) -> Memorist:
        write(folder, a=pages("wolf", "wolf wolf", "wolf lynx"), b=pages("bear", "wolf"))
        hashed.documents.index(folder)
        return hashed

    def test_the_best_place_of_each_file_is_shown(self, two: Memorist) -> None:
        every = places(two.documents.search("wolf", grouped=False, limit=100))
        best = {}
        for hit in every:
            best.setdefault(hit.path, hit.memory.id)

        assert len(every) > 3
        assert ids(two.documents.search("wolf")) == list(best.values())

    def test_a_page_is_full_though_the_best_chunks_are_all_of_one_file(self, hashed: Memorist, folder: Path) -> None:
        write(folder, many=pages(*["wolf"] * 120), **{f"few{n}": f"a wolf and {'others ' * 30}" for n in range(9)})
        hashed.documents.index(folder)

        for mode in ("keyword", "semantic", "hybrid"):
            found = hashed.documents.search("wolf", mode=mode, limit=10, noise_floor=False)
            assert len(found) == 10, mode
            assert len(set(names(found))) == 10, mode

    def test_the_limit_is_ten_and_can_be_another(self, memory: Memorist, folder: Path) -> None:
        write(folder, **{f"f{n}": f"a fox {n}" for n in range(25)})
        memory.documents.index(folder)

        assert len(memory.documents.search("fox")) == 10
        assert len(memory.documents.search("fox", limit=3)) == 3
        assert len(memory.documents.search("fox", limit=100)) == 25
        for wrong in (0, -1, 1.5, "many"):
            with pytest.raises(InvalidInput):
                memory.documents.search("fox", limit=wrong)  # type: ignore[arg-type]

    def test_a_page_is_as_relevant_where_its_other_passages_are_near_as_well(
        self, understanding: Memorist, folder: Path
    ) -> None:
        answer = "# Backups\n\n" + "The backup of the database is copied to the blue hard disk every night. " * 8
        kinds = ("weekly", "monthly", "yearly", "local", "remote", "partial", "complete", "manual", "old", "new")
        more = [f"## {kind}\n\n" + f"About {kind} backups of a database, on a disk. " * 12 for kind in kinds]
        (folder / "page.md").write_text(answer, "utf-8")
        understanding.documents.index(folder)
        alone = understanding.documents.search("where is the nightly backup?")[0]
        (folder / "page.md").write_text("\n\n".join([answer, *more]), "utf-8")
        understanding.documents.index(folder)

        assert len(understanding.documents.search("where is the nightly backup?", grouped=False)) == 10
        for options in ({}, {"limit": 1}, {"limit": 100}, {"grouped": False}):
            among_others = understanding.documents.search("where is the nightly backup?", **options)[0]
            assert among_others.relevance == pytest.approx(alone.relevance, abs=0.01)


class TestNeighbours:
    @pytest.fixture
    def long(self, memory: Memorist, folder: Path) -> Memorist:
        write(folder, a=pages("wolf", "lynx", "bear", "owl", "fox", "elk"))
        memory.documents.index(folder)
        return memory

    def test_a_place_is_shown_with_what_stands_around_it(self, long: Memorist) -> None:
        alone = places(long.documents.search("bear"))[0]
        (wide,) = places(long.documents.search("bear", neighbours=1))

        assert wide.memory.id == alone.memory.id
        assert wide.memory.content == lines_of(wide)
        assert wide.start_line < alone.start_line
        assert wide.end_line > alone.end_line
        assert alone.memory.content in wide.memory.content
        assert "lynx" in wide.memory.content
        assert "owl" in wide.memory.content
        assert "wolf" not in wide.memory.content

    def test_with_enough_of_them_it_is_the_whole_file(self, long: Memorist, folder: Path) -> None:
        (wide,) = places(long.documents.search("bear", neighbours=100))

        assert wide.memory.content == (folder / "a.md").read_text().rstrip("\n")

    def test_places_that_then_meet_are_one_and_others_are_not(self, long: Memorist) -> None:
        near = places(long.documents.search("lynx owl", grouped=False, neighbours=1))
        far = places(long.documents.search("wolf elk", grouped=False, neighbours=1))

        assert len(near) == 1
        assert near[0].memory.content == lines_of(near[0])
        assert {word for word in ("wolf", "lynx", "bear", "owl", "fox") if word in near[0].memory.content} == {
            "wolf", "lynx", "bear", "owl", "fox",
        }  # fmt: skip
        assert len(far) == 2
        assert [hit.memory.content for hit in far] == [lines_of(hit) for hit in far]

    def test_as_many_places_as_a_search_returns_are_shown_so(self, memory: Memorist, folder: Path) -> None:
        write(folder, **{f"n{number}": f"A fox, number {number}." for number in range(600)})
        memory.documents.index(folder)

        found = places(memory.documents.search("fox", limit=1000, neighbours=1))

        assert len(found) == 600
        assert all(hit.memory.content == lines_of(hit) for hit in found)

    def test_sentences_that_chunks_share_are_shown_once(self, memory: Memorist, folder: Path) -> None:
        write(folder, a="\n".join(f"Sentence number {n} has its own words here." for n in range(120)))
        memory.documents.index(folder)

        (wide,) = places(memory.documents.search("60", neighbours=2))

        assert wide.memory.content == lines_of(wide)

    def test_highlights_and_ranges_that_no_longer_fit_are_not_shown(self, long: Memorist) -> None:
        (wide,) = places(long.documents.search("bear", neighbours=1))

        assert wide.highlights == ()

    def test_parts_of_one_long_line_are_joined_as_they_stand_there(self, memory: Memorist, folder: Path) -> None:
        (folder / "a.txt").write_text(" ".join(f"Sentence {n} has its own words here." for n in range(300)) + "\n")
        memory.documents.index(folder)

        alone = places(memory.documents.search("150"))[0]
        (wide,) = places(memory.documents.search("150", neighbours=1))

        assert len(wide.memory.content) > len(alone.memory.content)
        assert wide.memory.content in lines_of(wide)

    @pytest.mark.parametrize("wrong", [-1, 101, 1.5, "one", None, True])
    def test_how_many_is_checked(self, memory: Memorist, wrong: object) -> None:
        with pytest.raises(InvalidInput):
            memory.documents.search("fox", neighbours=wrong)  # type: ignore[arg-type]


class TestAmongMemories:
    @pytest.fixture
    def both(self, hashed: Memorist, folder: Path) -> Memorist:
        write(folder, a="---\ntags: [red]\n---\na fox in a file", b="a wolf in a file")
        hashed.documents.index(folder, project="p")
        hashed.add("a fox in a memory", project="p", tags=["red"])
        hashed.add("a fox of nobody")
        hashed.add("a bear in a memory", project="q")
        return hashed

    def test_they_stand_in_one_ranking_best_first(self, both: Memorist) -> None:
        found = both.search("fox in a file", include_documents=True)

        assert isinstance(found[0], DocumentHit)
        assert {type(hit) is DocumentHit for hit in found} == {True, False}
        scores = [hit.score for hit in found]
        assert scores == sorted(scores, reverse=True)

    def test_without_being_asked_files_are_not_there(self, both: Memorist) -> None:
        assert not [hit for hit in both.search("fox in a file", limit=50) if isinstance(hit, DocumentHit)]
        assert not [hit for hit in both.documents.search("fox", limit=50) if not isinstance(hit, DocumentHit)]

    @pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
    def test_filters_hold_for_both(self, both: Memorist, folder: Path, mode: str) -> None:
        def found(**filters: object) -> set[str]:
            results = both.search(
                "fox", mode=mode, include_documents=True, noise_floor=False, min_similarity=0.1, limit=50, **filters
            )
            return {hit.memory.content for hit in results}

        assert found(project="p") >= {"a fox in a file", "a fox in a memory"}
        assert found(project="p") <= {"a fox in a file", "a fox in a memory", "a wolf in a file"}
        assert found(tags="red") == {"a fox in a file", "a fox in a memory"}
        assert found(kind="document", tags="red") == {"a fox in a file"}
        assert found(source=str(folder / "a.md")) == {"a fox in a file"}
        assert found(pinned=True) == found(project="nobody") == found(until="2001") == set()
        assert found(sector="procedural") == set()

    def test_facets_and_what_filters_hid_count_memories_only(self, both: Memorist) -> None:
        for mode in ("keyword", "hybrid"):
            alone = both.search("fox", mode=mode, project="q", facets=FACETS, noise_floor=False)
            mixed = both.search("fox", mode=mode, project="q", facets=FACETS, include_documents=True, noise_floor=False)
            assert mixed.facets == alone.facets, mode
            assert mixed.hidden == alone.hidden, mode
        assert "document" not in both.search("fox", facets=["kind"], include_documents=True).facets["kind"]

    def test_recalls_have_memories_only_and_nothing_of_files_is_reinforced(self, both: Memorist, path: Path) -> None:
        before = read_rows(path, "select salience, access_count from memories where rid in (select rid from chunks)")
        found = both.search("fox", include_documents=True, record="reinforce")
        (recall,) = both.searches.list()

        assert [one.id for one in recall.memories] == [
            hit.memory.id for hit in found if not isinstance(hit, DocumentHit)
        ]
        assert len(recall.memories) < len(found)
        assert (
            read_rows(path, "select salience, access_count from memories where rid in (select rid from chunks)")
            == before
        )
        both.documents.search("fox")
        assert len(both.searches.list()) == 1

    def test_the_past_of_memories_and_the_present_of_files(self, both: Memorist) -> None:
        before = datetime.now(UTC)
        fox = both.search("nobody", mode="keyword")[0].memory
        both.update(fox.id, content="a hare of nobody")

        found = both.search("fox", mode="keyword", include_documents=True, as_of=before, limit=50)

        assert {"a fox of nobody", "a fox in a file"} <= {hit.memory.content for hit in found}

    @pytest.mark.parametrize("detail", ["index", "snippet", "full"])
    def test_places_are_told_whatever_the_detail(self, both: Memorist, detail: str) -> None:
        hit = next(
            hit for hit in both.search("fox in a file", include_documents=True, detail=detail)
            if isinstance(hit, DocumentHit)
        )  # fmt: skip

        assert (Path(hit.path).name, hit.start_line, hit.end_line) == ("a.md", 4, 4)
        assert bool(hit.memory.content) == (detail != "index")

    @pytest.mark.parametrize("profile", sorted(PROFILES))
    def test_every_profile_ranks_both(self, both: Memorist, profile: str) -> None:
        found = both.search("fox", include_documents=True, profile=profile, limit=50)

        assert {"a fox in a file", "a fox in a memory"} <= {hit.memory.content for hit in found}
        assert names(both.documents.search("fox", profile=profile))[0] == "a.md"

    def test_a_lens_can_prefer_files(self, both: Memorist) -> None:
        both.lenses.set("files", boosts={"kind": {"document": 5.0}})

        assert isinstance(both.search("fox in a memory", include_documents=True, lens="files")[0], DocumentHit)
        assert not isinstance(both.search("fox in a memory", include_documents=True)[0], DocumentHit)

    def test_a_word_of_a_file_is_offered_where_files_are_searched(self, both: Memorist) -> None:
        assert both.documents.search("wolff", mode="keyword").suggestion == "wolf"

    def test_one_place_of_a_file_at_most(self, hashed: Memorist, folder: Path) -> None:
        write(folder, a=pages("wolf", "wolf", "wolf"))
        hashed.documents.index(folder)
        hashed.add("a wolf")

        found = hashed.search("wolf", include_documents=True, limit=50)

        assert len(found) == 2

    def test_a_search_of_both_asks_no_more_for_a_larger_page(self, path: Path, folder: Path) -> None:
        write(folder, **{f"f{n}": f"a fox {n} {WORDS[n % 15]}" for n in range(120)})
        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            memory.documents.index(folder)
            memory.add_many(f"the fox number {n} {WORDS[n % 15]}" for n in range(120))
            memory.search("fox", include_documents=True)
        counts = {}
        with record_statements() as seen, memorist.open(path, embedder=HashingEmbedder()) as memory:
            for _ in range(2):  # at the first search the vectors are read, at the second their changes
                memory.search("fox", include_documents=True)
            for limit in (1, 10, 100):
                del seen[:]
                memory.search("fox", include_documents=True, limit=limit)
                counts["both", limit] = len(seen)
                del seen[:]
                memory.documents.search("fox", limit=limit)
                counts["files", limit] = len(seen)

        assert len({counts["both", limit] for limit in (1, 10, 100)}) == 1, counts
        assert len({counts["files", limit] for limit in (1, 10, 100)}) == 1, counts
        assert counts["files", 10] <= 6, counts
        assert counts["both", 10] <= 12, counts

    def test_where_a_hit_stands_is_read_by_its_key_and_not_of_every_chunk(self, path: Path, folder: Path) -> None:
        write(folder, **{f"f{n}": f"a fox {n}" for n in range(40)})
        with record_statements() as seen, memorist.open(path, embedder="none") as memory:
            memory.documents.index(folder)
            memory.documents.search("fox", limit=2)

        located = next((sql, values) for sql, values in seen if "c.breadcrumb" in sql and "d.path" in sql)
        with closing(apsw.Connection(str(path))) as plain:
            plan = [row[3] for row in plain.execute(f"explain query plan {located[0]}", located[1])]
        assert [line for line in plan if "PRIMARY KEY" not in line] == ["SCAN json_each VIRTUAL TABLE INDEX 1:"]

    def test_neighbours_are_read_at_once_not_hit_by_hit(self, path: Path, folder: Path) -> None:
        write(folder, **{f"f{n}": f"a fox {n}" for n in range(40)})
        with memorist.open(path, embedder="none") as memory:
            memory.documents.index(folder)
        counts = []
        with record_statements() as seen, memorist.open(path, embedder="none") as memory:
            memory.documents.search("fox")
            for limit in (2, 40):
                del seen[:]
                assert len(memory.documents.search("fox", limit=limit, neighbours=1)) == limit
                counts.append(len(seen))

        assert counts[0] == counts[1]


class TestTakingOut:
    def test_a_file_or_a_folder_or_all_but_no_other(self, hashed: Memorist, folder: Path, path: Path) -> None:
        write(folder, a="a fox", sub__b="a fox", sub__deep__c="a fox", subway="a fox")
        hashed.documents.index(folder)

        assert hashed.documents.remove(folder / "a.md") == 1
        assert hashed.documents.remove(folder / "sub") == 2
        assert names(hashed.documents.list()) == ["subway.md"]
        assert hashed.documents.remove(str(folder)) == 1
        for table in ("documents", "chunks", "memories", "vectors", "document_links", "unembedded"):
            assert read_rows(path, f"select * from {table}") == [], table
        assert hashed.check().ok
        assert hashed.documents.index(folder).added == 4

    def test_a_relative_path_is_from_where_one_is(
        self, memory: Memorist, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(folder, a="a fox")
        monkeypatch.chdir(folder.parent)
        memory.documents.index("notes")

        assert memory.documents.remove("notes/a.md") == 1

    @pytest.mark.parametrize("way", ["notes/../notes/a.md", "link/a.md", "link"])
    def test_any_way_to_a_file_that_indexes_it_takes_it_out(
        self, memory: Memorist, folder: Path, monkeypatch: pytest.MonkeyPatch, way: str
    ) -> None:
        write(folder, a="a fox")
        (folder.parent / "link").symlink_to(folder, target_is_directory=True)
        monkeypatch.chdir(folder.parent)
        assert memory.documents.index(way).added == 1

        assert memory.documents.remove(way) == 1

    def test_no_path_takes_nothing_out(self, memory: Memorist, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(folder, a="a fox")
        memory.documents.index(folder)
        monkeypatch.chdir(folder)

        with pytest.raises(InvalidInput):
            memory.documents.remove("")

    @pytest.mark.parametrize("given", [None, 3, "a\0b", ["a"]])
    def test_what_is_no_path_is_refused(self, memory: Memorist, given: Any) -> None:
        for ask in (memory.documents.remove, memory.documents.find):
            with pytest.raises(InvalidInput, match="path"):
                ask(given)

    def test_a_home_folder_that_nobody_has_is_not_indexed(self, memory: Memorist) -> None:
        assert memory.documents.remove("~nobody-has-this-name/a.md") == 0

    def test_forgetting_and_purging_do_not_touch_files(self, hashed: Memorist, folder: Path) -> None:
        write(folder, a="a fox in a file")
        hashed.documents.index(folder)
        for hard in (False, True):
            hashed.forget(hashed.add(f"a fox in a memory {hard}").id, hard=hard)
        hashed.purge()

        assert names(hashed.documents.search("fox")) == ["a.md"]
        assert hashed.documents.search("fox", mode="semantic").degraded is None
        assert hashed.stats().documents == 1
        assert hashed.check().ok

    def test_taken_out_and_purged_nothing_of_a_file_is_left_in_the_database(
        self, hashed: Memorist, folder: Path, path: Path
    ) -> None:
        write(folder, a="---\nowner: numbat\n---\n# The wombat\n\nabout quokkas and [a](bandicoot.md)")
        hashed.documents.index(folder)
        words = (b"numbat", b"wombat", b"quokka", b"bandicoot")
        assert all(word in raw(path) for word in words)

        hashed.documents.remove(folder)
        hashed.purge()

        assert [word for word in words if word in raw(path).lower()] == []


class TestSecrets:
    def test_a_secret_in_the_text_is_in_no_byte_of_the_database(
        self, hashed: Memorist, folder: Path, path: Path
    ) -> None:
        write(folder, a=f"# Setup\n\nexport GITHUB_TOKEN={TOKEN}\nthen the quokka runs\n")

        report = hashed.documents.index(folder)

        assert sum(report.redacted.values()) == 1
        (hit,) = places(hashed.documents.search("quokka"))
        assert TOKEN not in hit.memory.content
        assert (hit.start_line, hit.end_line) == (1, 4)
        assert TOKEN.encode() not in raw(path)

    @pytest.mark.parametrize(
        "text",
        [
            f"---\ntoken: {TOKEN}\n---\na fox\n",
            f"---\ntitle: with {TOKEN}\n---\na fox\n",
            f"# Key {TOKEN}\n\na fox\n",
            f"# Key\n\n## Of {TOKEN}\n\n" + "a fox\n" * 300,
            f"a fox [there](https/{TOKEN}.md)\n",
        ],
        ids=["front matter", "title", "heading", "breadcrumb", "link"],
    )
    def test_nor_is_one_that_stands_beside_the_text(
        self, hashed: Memorist, folder: Path, path: Path, text: str
    ) -> None:
        write(folder, a=text)
        hashed.documents.index(folder)

        assert TOKEN.encode() not in raw(path)

    def test_a_key_over_many_lines_is_none_though_it_falls_into_several_chunks(
        self, hashed: Memorist, folder: Path, path: Path
    ) -> None:
        body = [f"MIIEow{n:03d}Qz7{'abcdEFGH1234' * 4}" for n in range(60)]
        key = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----"])
        write(folder, a=f"# Setup\n\n```\n{key}\n```\n\nthe quokka\n")
        hashed.documents.index(folder)

        assert [line for line in body if line.encode() in raw(path)] == []

    def test_what_is_allowed_is_no_secret_and_neither_is_anything_when_told_so(
        self, memory: Memorist, folder: Path
    ) -> None:
        write(folder, a=f"a fox {TOKEN}")
        assert memory.documents.index(folder, allow=[TOKEN]).redacted == {}
        assert TOKEN in memory.documents.search("fox")[0].memory.content
        memory.documents.remove(folder)
        assert memory.documents.index(folder, redact=False).redacted == {}
        assert TOKEN in memory.documents.search("fox")[0].memory.content

    def test_one_text_that_is_allowed_is_one_text(self, memory: Memorist, folder: Path) -> None:
        write(folder, a=f"a fox {TOKEN}")
        memory.documents.index(folder, allow="gz")

        assert TOKEN not in memory.documents.search("fox")[0].memory.content

    def test_what_was_taken_in_as_it_is_goes_when_secrets_are_to_be_replaced(
        self, memory: Memorist, folder: Path
    ) -> None:
        write(folder, a=f"a fox {TOKEN}")
        memory.documents.index(folder, redact=False)
        memory.documents.index(folder)

        assert TOKEN not in memory.documents.search("fox")[0].memory.content


class TestRefusals:
    @pytest.mark.parametrize("paths", ["", [], "no such", ["no such"], [""], "a\0b", [None], [5]])
    def test_nothing_and_what_is_not_there_is_refused(self, memory: Memorist, paths: object) -> None:
        with pytest.raises(InvalidInput):
            memory.documents.index(paths)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "call",
        [
            lambda memory, folder: memory.documents.index(None),
            lambda memory, folder: memory.documents.index(5),
            lambda memory, folder: memory.documents.remove(None),
            lambda memory, folder: memory.documents.remove(b"notes"),
            lambda memory, folder: memory.documents.index(folder, include=5),
            lambda memory, folder: memory.documents.index(folder, allow=[5]),
        ],
        ids=["no paths", "a number", "no path", "bytes", "include", "allowed"],
    )
    def test_what_is_of_the_wrong_kind_is_refused(
        self, memory: Memorist, folder: Path, call: Callable[[Memorist, Path], object]
    ) -> None:
        write(folder, a=f"a fox {TOKEN}")

        with pytest.raises(InvalidInput):
            call(memory, folder)

    @pytest.mark.parametrize("option", ["kind", "session", "as_of", "record_session", "detail", "lens"])
    def test_what_files_do_not_have_is_no_option(self, memory: Memorist, option: str) -> None:
        with pytest.raises(InvalidInput):
            memory.documents.search("fox", **{option: "x"})

    def test_half_of_what_was_asked_for_is_not_taken_in(self, memory: Memorist, folder: Path) -> None:
        write(folder, a="a fox")
        with pytest.raises(InvalidInput, match="no such file or folder"):
            memory.documents.index([folder, folder / "gone"])

        assert list(memory.documents.list()) == []


class TestAtOnce:
    def test_runs_over_one_folder_at_the_same_time_take_each_file_in_once(self, path: Path, folder: Path) -> None:
        write(folder, **{f"f{n}": f"# T{n}\n\na fox {n}" for n in range(40)})
        with ExitStack() as stack:
            handles = [
                stack.enter_context(memorist.open(path, embedder=HashingEmbedder(), synchronous="normal"))
                for _ in range(4)
            ]
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(lambda handle: handle.documents.index(folder), handles))
            first = sorted(ids(handles[0].documents.search("fox", limit=100)))
            for n in range(20):
                (folder / f"f{n}.md").rename(folder / f"g{n}.md")
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(lambda handle: handle.documents.index(folder), handles))

            assert len(first) == 40
            assert sorted(ids(handles[1].documents.search("fox", limit=100))) == first
            assert len(handles[2].documents.list()) == 40
        assert (
            read_rows(path, "select count(*) from memories")
            == read_rows(path, "select count(*) from vectors")
            == [(40,)]
        )

    def test_a_file_that_is_replaced_during_a_search_is_found_as_it_was_or_is(self, path: Path, folder: Path) -> None:
        todo: list[Callable[[], object]] = []

        def trace(cursor: apsw.Cursor, sql: str, values: object) -> bool:
            if todo and "json_each(:keys)" in sql:  # the words have been matched, and the rows are about to be read
                todo.pop()()
            return True

        def hook(connection: apsw.Connection) -> None:
            connection.exec_trace = trace

        write(folder, a="a fox of old")
        apsw.connection_hooks.append(hook)
        try:
            with memorist.open(path, embedder="none") as one, memorist.open(path, embedder="none") as other:
                one.documents.index(folder)
                write(folder, a="a fox of today")
                todo.append(lambda: one.documents.index(folder))
                found = other.documents.search("fox")
                assert todo == []
                assert names(other.documents.search("today")) == ["a.md"]
        finally:
            apsw.connection_hooks.remove(hook)

        assert names(found) == ["a.md"]

    def test_a_run_stopped_by_its_progress_has_kept_what_it_had_done(self, path: Path, folder: Path) -> None:
        write(folder, **{f"f{n:03}": pages(f"fox{n}", f"wolf{n}", f"elk{n}") for n in range(120)})

        def stop(progress: IndexProgress) -> None:
            if progress.files >= 50:
                raise RuntimeError("enough")

        model = Reading()
        with memorist.open(path, embedder=model) as memory:
            with pytest.raises(RuntimeError, match="enough"):
                memory.documents.index(folder, progress=stop)
            kept, embedded = len(memory.documents.list()), len(model.taken())
            assert 50 <= kept < 120
            report = memory.documents.index(folder)

            assert (report.unchanged, report.added) == (kept, 120 - kept)
            assert embedded + report.embedded == memory.stats().chunks


class TestCounting:
    def test_stats_count_files_and_chunks_beside_memories(self, hashed: Memorist, folder: Path) -> None:
        write(folder, a=pages("wolf", "lynx"), b="a fox")
        report = hashed.documents.index(folder, project="p")
        hashed.add("a memory")

        stats = hashed.stats()

        assert (stats.memories, stats.projects, stats.vectors, stats.pending) == (1, 0, 1, 0)
        assert (stats.documents, stats.chunks) == (2, report.chunks)
        assert sum(one.chunks for one in hashed.documents.list()) == report.chunks

    def test_documents_are_listed_by_path_of_a_project_and_no_more_than_asked(
        self, memory: Memorist, folder: Path
    ) -> None:
        write(folder, one__b="a fox", one__a="a fox", two__c="a fox")
        memory.documents.index(folder / "one", project="p")
        memory.documents.index(folder / "two")

        assert names(memory.documents.list()) == ["a.md", "b.md", "c.md"]
        assert names(memory.documents.list(project="p")) == ["a.md", "b.md"]
        assert names(memory.documents.list(limit=1)) == ["a.md"]
        (document,) = memory.documents.list(project="p", limit=1)
        assert (document.root, document.size) == (str(folder / "one"), 5)
        with pytest.raises(InvalidInput):
            memory.documents.list(limit=0)

    def test_two_namespaces_index_the_same_folder_each_for_itself(self, path: Path, folder: Path) -> None:
        write(folder, a="a fox")
        with (
            memorist.open(path, namespace="one", embedder=HashingEmbedder()) as one,
            memorist.open(path, namespace="two", embedder=HashingEmbedder()) as two,
        ):
            assert (one.documents.index(folder).added, two.documents.index(folder).added) == (1, 1)
            assert ids(one.documents.search("fox")) != ids(two.documents.search("fox"))
            write(folder, a="a wolf")
            assert one.documents.index(folder).changed == 1
            assert names(one.documents.search("fox", mode="keyword")) == []
            assert names(two.documents.search("fox", mode="keyword")) == ["a.md"]
            assert one.documents.remove(folder) == 1
            assert names(two.documents.list()) == ["a.md"]
            assert two.documents.index(folder).changed == 1
            assert two.check().ok

    def test_a_database_that_is_only_read_is_searched_and_not_written(self, path: Path, folder: Path) -> None:
        write(folder, a="a fox")
        with memorist.open(path, embedder="none") as memory:
            memory.documents.index(folder)
        with memorist.open(path, embedder="none", read_only=True) as memory:
            assert names(memory.documents.search("fox")) == ["a.md"]
            write(folder, a="a wolf")
            with pytest.raises(StoreError):
                memory.documents.index(folder)
            with pytest.raises(StoreError):
                memory.documents.remove(folder)

    def test_a_chunk_that_lost_its_file_is_found_and_taken_out_by_a_check(
        self, hashed: Memorist, folder: Path, path: Path
    ) -> None:
        write(folder, a="a fox")
        hashed.documents.index(folder)
        chunk = hashed.documents.search("fox")[0].memory.id
        read_rows(path, "delete from chunks")
        report = hashed.check(repair=True)

        assert report.problems == report.repaired == (f"documents: {chunk} is a chunk of no file",)
        assert list(hashed.documents.search("fox")) == []

    def test_damage_to_what_belongs_to_a_chunk_is_found_and_mended(
        self, hashed: Memorist, folder: Path, path: Path
    ) -> None:
        write(folder, a=pages("wolf"), b="a lynx")
        hashed.documents.index(folder)
        read_rows(
            path, "update vectors set vector = zeroblob(length(vector)) where rid = (select min(rid) from chunks)"
        )

        assert not hashed.check().ok
        hashed.check(repair=True)

        assert hashed.check().ok
        assert hashed.documents.search("wolf", mode="semantic").degraded is None


@pytest.fixture(autouse=True)
def sound(path: Path) -> Iterator[None]:
    """Whatever a test did, the database is sound after it."""
    yield
    if path.exists():
        with memorist.open(path, embedder="none") as memory:
            assert memory.check().problems == ()
