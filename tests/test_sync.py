"""Indexing files again and again: what changed, what was renamed, what is gone, and what others do meanwhile."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import memorist
from conftest import FailingEmbedder, HashingEmbedder
from memorist import InvalidInput, Memorist
from memorist.file_records import Document
from memorist.ingest import readers, sync, walk
from memorist.reports import IndexProgress, IndexReport
from processes import expect, read_line, send_line, start_program, wait_for_end

KEY = "\n".join(
    ["-----BEGIN RSA PRIVATE KEY-----"]
    + [f"MIIEowIBAAKCAQEA{'abcdEFGH1234' * 3}{number:04}zzzzzzzz" for number in range(40)]
    + ["-----END RSA PRIVATE KEY-----"]
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def _old_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a test are as settled as files of last week, unless it is about that."""
    monkeypatch.setattr(sync, "_CLOCK_TICK_NS", 0)


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text)


def names(memory: Memorist) -> list[str]:
    return [Path(document.path).name for document in memory.documents.list()]


def numbers(report: IndexReport) -> dict[str, int]:
    """What happened at all."""
    counts = {name: getattr(report, name) for name in ("added", "changed", "unchanged", "renamed", "removed")}
    return {name: count for name, count in counts.items() if count}


def stored(memory: Memorist, document: Document | None = None) -> str:
    """All there is in the chunks of a file, or of the only one."""
    one = document or memory.documents.list()[0]
    (chunks,) = memory._resources.store.documents.load_chunk_ranges([(one.id, 0, 10_000)])
    return "\n".join(chunk.text for chunk in chunks)


class TestAgain:
    def test_only_what_has_changed_is_read(self, memory: Memorist, root: Path) -> None:
        write(root, a="# A\n\none", b="# B\n\ntwo")
        assert numbers(memory.documents.index(root)) == {"added": 2}

        write(root, b="# B\n\nthree")

        assert numbers(memory.documents.index(root)) == {"changed": 1, "unchanged": 1}
        assert [hit.path for hit in memory.documents.search("three")] == [str(root / "b.md")]
        assert not memory.documents.search("two")

    def test_a_file_written_again_as_it_was_is_unchanged_and_no_longer_looked_into(
        self, memory: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(root, a="one")
        memory.documents.index(root)
        os.utime(root / "a.md", (1, 1))
        assert numbers(memory.documents.index(root)) == {"unchanged": 1}

        monkeypatch.setattr(sync, "read_bytes", lambda *_: pytest.fail("it was read"))

        assert numbers(memory.documents.index(root)) == {"unchanged": 1}

    def test_progress_counts_files_that_are_done_and_all_files(self, memory: Memorist, root: Path) -> None:
        write(root, a="one", b="two", c="three")
        memory.documents.index(root)
        write(root, b="changed", d="four")
        steps: list[IndexProgress] = []

        memory.documents.index(root, progress=steps.append)

        assert steps == [IndexProgress(2, 4, 0), IndexProgress(4, 4, 0)]

    def test_progress_counts_embedded_chunks_while_a_large_file_is_in_work(
        self, hashed: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sync, "BATCH", 4)
        write(root, a="\n\n".join(f"# Part {number}\n\n{f'word{number} ' * 100}" for number in range(10)))
        steps: list[IndexProgress] = []

        report = hashed.documents.index(root, progress=steps.append)

        chunks = report.chunks
        assert 8 < chunks <= 12
        assert steps == [
            IndexProgress(0, 1, 0),
            IndexProgress(0, 1, 4),
            IndexProgress(0, 1, 8),
            IndexProgress(0, 1, chunks),
            IndexProgress(1, 1, chunks),
        ]

    def test_chunks_that_were_embedded_before_the_model_failed_keep_their_vectors(
        self, path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class FailsAtThirdBatch(HashingEmbedder):
            def embed(self, texts: Any) -> list[list[float]]:
                if self.calls == 2:
                    raise ConnectionError("the model is away")
                return super().embed(texts)

        monkeypatch.setattr(sync, "BATCH", 4)
        write(root, a="\n\n".join(f"# Part {number}\n\n{f'word{number} ' * 100}" for number in range(10)))

        with memorist.open(path, embedder=FailsAtThirdBatch()) as memory:
            report = memory.documents.index(root)

            assert report.embedded == 8
            assert memory.stats().chunks_pending == report.chunks - 8

    def test_a_write_that_leaves_size_and_time_as_they_were_is_found_the_next_time(
        self, memory: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sync, "_CLOCK_TICK_NS", 2_000_000_000)
        write(root, a="one")
        time = (root / "a.md").stat().st_mtime_ns
        memory.documents.index(root)

        write(root, a="two")
        os.utime(root / "a.md", ns=(time, time))

        assert numbers(memory.documents.index(root)) == {"changed": 1}

    def test_a_file_that_changes_while_it_is_read_is_read_again_the_next_time(
        self, memory: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(root, a="one")

        def torn(path: Path, max_bytes: int) -> bytes:
            content = readers.read_bytes(path, max_bytes)
            path.write_text("one and more")
            return content

        with monkeypatch.context() as patched:
            patched.setattr(sync, "read_bytes", torn)
            memory.documents.index(root)

        assert stored(memory) == "one"
        assert numbers(memory.documents.index(root)) == {"changed": 1}
        assert stored(memory) == "one and more"

    def test_a_file_that_goes_while_it_is_read_is_gone(
        self, memory: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(root, a="one", b="two")
        memory.documents.index(root)
        write(root, a="changed", b="changed")

        def late(path: Path, max_bytes: int) -> bytes:
            path.unlink()
            return readers.read_bytes(path, max_bytes)

        monkeypatch.setattr(sync, "read_bytes", late)
        report = memory.documents.index(root)

        assert (numbers(report), report.skipped) == ({"removed": 2}, ())


class TestWhatGoes:
    def test_what_is_gone_from_a_folder_even_the_last_file(self, memory: Memorist, root: Path) -> None:
        write(root, a="one", b="two")
        memory.documents.index(root)
        (root / "a.md").unlink()
        assert numbers(memory.documents.index(root)) == {"removed": 1, "unchanged": 1}

        (root / "b.md").unlink()

        assert numbers(memory.documents.index(root)) == {"removed": 1}
        assert list(memory.documents.list()) == []

    def test_a_file_named_itself_takes_nothing_else_away(self, memory: Memorist, root: Path) -> None:
        write(root, a="one", b="two")
        memory.documents.index(root)

        assert numbers(memory.documents.index(root / "a.md")) == {"unchanged": 1}
        assert names(memory) == ["a.md", "b.md"]

    def test_nor_does_a_pattern_but_of_what_is_gone(self, memory: Memorist, root: Path) -> None:
        write(root, a="one", b="two", c="three")
        (root / "d.txt").write_text("four")
        memory.documents.index(root)
        (root / "a.md").unlink()

        assert numbers(memory.documents.index(root, include=["*.txt"])) == {"unchanged": 1, "removed": 1}
        assert numbers(memory.documents.index(str(root / "*.txt"))) == {"unchanged": 1}
        assert names(memory) == ["b.md", "c.md", "d.txt"]

    def test_what_is_ignored_excluded_or_too_large_now(
        self, memory: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(root, a="one", b="two", c="three " * 1000)
        memory.documents.index(root)

        (root / ".memoristignore").write_text("a.md\n")
        assert numbers(memory.documents.index(root, include=["*.md"])) == {"unchanged": 2, "removed": 1}
        assert numbers(memory.documents.index(root, exclude=["b.md"])) == {"unchanged": 1, "removed": 1}
        monkeypatch.setattr(
            walk.Walk.__init__, "__kwdefaults__", {**walk.Walk.__init__.__kwdefaults__, "max_bytes": 100}
        )  # type: ignore[dict-item]

        assert numbers(memory.documents.index(root)) == {"added": 1, "removed": 1}
        assert names(memory) == ["b.md"]

    def test_what_has_no_text_any_more(self, memory: Memorist, root: Path) -> None:
        write(root, a="one", b="two")
        memory.documents.index(root)
        (root / "a.md").write_text("")
        (root / "b.md").write_bytes(bytes(range(256)))

        report = memory.documents.index(root)

        assert numbers(report) == {"removed": 2}
        assert [reason for _, reason in report.skipped] == ["it is empty", "it is binary"]

    def test_not_what_cannot_be_read_now(self, memory: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(root, a="one")
        memory.documents.index(root)
        write(root, a="changed")

        def denied(*_: object) -> int:
            raise PermissionError(13, "Permission denied")

        with monkeypatch.context() as patched:
            patched.setattr(readers.os, "open", denied)
            report = memory.documents.index(root)

        assert report.skipped == ((str(root / "a.md"), "it cannot be read: permission denied"),)
        assert (numbers(report), stored(memory)) == ({}, "one")
        assert numbers(memory.documents.index(root)) == {"changed": 1}

    def test_nor_what_is_in_a_folder_that_cannot_be_read_now(
        self, memory: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "closed" / "deep").mkdir(parents=True)
        write(root / "closed" / "deep", a="one")
        write(root, b="two")
        memory.documents.index(root)
        scandir = os.scandir

        def guarded(path: str) -> Any:
            if path.endswith("closed/"):
                raise PermissionError(13, "Permission denied")
            return scandir(path)

        monkeypatch.setattr(os, "scandir", guarded)

        assert numbers(memory.documents.index(root)) == {"unchanged": 1}
        assert names(memory) == ["b.md", "a.md"]

    def test_nor_what_needs_an_extra_that_is_not_there(
        self, memory: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pypdf", None)
        (root / "a.pdf").write_bytes(b"%PDF-1.4")
        write(root, b="two")

        report = memory.documents.index(root)

        assert numbers(report) == {"added": 1}
        assert "memorist[pdf]" in report.skipped[0][1]

    def test_below_a_folder_that_was_indexed_after_the_one_above_it(self, memory: Memorist, root: Path) -> None:
        (root / "sub").mkdir()
        write(root, a="one")
        write(root / "sub", b="two", c="three")
        memory.documents.index(root)
        assert numbers(memory.documents.index(root / "sub")) == {"unchanged": 2}
        (root / "sub" / "b.md").unlink()

        assert numbers(memory.documents.index(root)) == {"unchanged": 2, "removed": 1}
        assert names(memory) == ["a.md", "c.md"]

    def test_a_file_that_was_named_itself_with_its_folder(self, memory: Memorist, root: Path) -> None:
        write(root, a="one", b="two")
        memory.documents.index([root / "a.md"])
        (root / "a.md").unlink()

        with pytest.raises(InvalidInput, match="no such file"):
            memory.documents.index([root / "a.md"])

        assert numbers(memory.documents.index(root)) == {"added": 1, "removed": 1}

    def test_what_is_taken_out_by_a_link_to_it(self, memory: Memorist, root: Path, tmp_path: Path) -> None:
        write(root, a="one", b="two")
        (tmp_path / "link").symlink_to(root)
        memory.documents.index(tmp_path / "link")

        assert memory.documents.remove(tmp_path / "link" / "a.md") == 1
        assert memory.documents.remove(tmp_path / "link") == 1


class TestRenames:
    def test_a_file_keeps_its_chunks_and_their_vectors(self, path: Path, root: Path) -> None:
        write(root, a="# A\n\none")
        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            memory.documents.index(root)
            (before,) = memory.documents.list()
            (root / "sub").mkdir()
            (root / "a.md").rename(root / "sub" / "b.md")

            report = memory.documents.index(root)

            assert (numbers(report), report.embedded) == ({"renamed": 1}, 0)
            (after,) = memory.documents.list()
            assert (after.id, after.path) == (before.id, str(root / "sub" / "b.md"))
            assert [hit.path for hit in memory.documents.search("one")] == [after.path]
            assert numbers(memory.documents.index(root)) == {"unchanged": 1}

    def test_what_comes_from_its_name_follows(self, memory: Memorist, root: Path) -> None:
        (root / "old.py").write_text("def answer():\n    return 42\n")
        memory.documents.index(root)
        (root / "procedural").mkdir()
        (root / "old.py").rename(root / "procedural" / "new.py")

        memory.documents.index(root)

        (document,) = memory.documents.list()
        assert (document.title, document.sector) == ("new.py", "procedural")

    def test_a_copy_takes_nothing_from_a_file_that_is_still_there(self, memory: Memorist, root: Path) -> None:
        write(root, b="same")
        memory.documents.index(root)
        write(root, a="same", c="same")

        assert numbers(memory.documents.index(root)) == {"unchanged": 1, "added": 2}

    def test_nor_from_one_that_is_there_and_ignored(self, memory: Memorist, root: Path) -> None:
        write(root, b="same")
        memory.documents.index(root)
        write(root, c="same")
        (root / ".gitignore").write_text("b.md")

        assert numbers(memory.documents.index(root)) == {"added": 1, "removed": 1}

    def test_files_of_the_same_content_go_with_their_names(self, memory: Memorist, root: Path) -> None:
        write(root, a="same", b="same")
        memory.documents.index(root)
        before = {Path(document.path).name: document.id for document in memory.documents.list()}
        (root / "sub").mkdir()
        for name in ("a.md", "b.md"):
            (root / name).rename(root / "sub" / name)

        assert numbers(memory.documents.index(root)) == {"renamed": 2}
        assert {Path(document.path).name: document.id for document in memory.documents.list()} == before

    def test_in_upper_and_lower_case_only(self, memory: Memorist, root: Path) -> None:
        write(root, readme="one")
        memory.documents.index(root)
        (root / "readme.md").rename(root / "README.md")

        assert numbers(memory.documents.index(root)) == {"renamed": 1}
        assert names(memory) == ["README.md"]

    def test_where_case_does_not_count_the_old_name_is_there_too(
        self, memory: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(root, readme="one")
        memory.documents.index(root)
        (root / "readme.md").rename(root / "README.md")
        monkeypatch.setattr(sync, "may_exist", lambda path: True)
        monkeypatch.setattr(os.path, "samefile", lambda one, other: True)

        assert numbers(memory.documents.index(root)) == {"renamed": 1}

    def test_to_a_name_that_another_process_was_first_to_index(
        self, memory: Memorist, path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(root, a="one")
        memory.documents.index(root)
        (root / "a.md").rename(root / "b.md")
        texts = memory._resources.store.documents.load_chunk_texts

        def meanwhile(asked: str) -> set[tuple[str | None, str]]:
            with monkeypatch.context() as patched, memorist.open(path, embedder="none") as other:
                patched.setattr(sync, "_is_gone", lambda *_: False)  # it looked before the file was renamed
                other.documents.index(root / "b.md")
            assert names(memory) == ["a.md", "b.md"]
            return texts(asked)

        monkeypatch.setattr(memory._resources.store.documents, "load_chunk_texts", meanwhile)
        memory.documents.index(root)

        assert names(memory) == ["b.md"]
        assert numbers(memory.documents.index(root)) == {"unchanged": 1}


class TestProjects:
    def test_a_file_is_in_the_project_it_was_last_indexed_for(self, path: Path, root: Path) -> None:
        write(root, a="one", b="two")
        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            memory.documents.index(root, project="old")

            report = memory.documents.index(root, project="new")

            assert (numbers(report), report.embedded) == ({"changed": 2}, 0)
            assert len(memory.documents.search("one", project="new")) > 0
            assert not memory.documents.search("one", project="old")
            assert numbers(memory.documents.index(root, project="new")) == {"unchanged": 2}

    def test_files_without_new_chunks_do_not_pile_up_in_memory(
        self, memory: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(root, **{f"n{number:02}": f"number {number}" for number in range(30)})
        memory.documents.index(root, project="old")
        held: list[int] = []
        store = sync.Sync._store_pending
        monkeypatch.setattr(sync, "_MAX_PENDING_CHUNKS", 8)
        monkeypatch.setattr(sync.Sync, "_store_pending", lambda self: held.append(len(self._pending)) or store(self))

        assert numbers(memory.documents.index(root, project="new")) == {"changed": 30}
        assert max(held) == 4

    def test_and_stays_there_where_none_is_given(self, memory: Memorist, root: Path) -> None:
        write(root, a="one", b="two")
        memory.documents.index(root, project="api")
        write(root, a="changed")
        (root / "b.md").rename(root / "c.md")

        memory.documents.index(root)

        assert [document.project for document in memory.documents.list()] == ["api", "api"]


class TestSecrets:
    def test_a_key_that_is_longer_than_a_chunk_leaves_nothing(self, memory: Memorist, root: Path) -> None:
        write(root, a=f"# Setup\n\nbefore\n\n```\n{KEY}\n```\n\nafter the key")
        (root / "a.html").write_text(f"<h1>Setup</h1><pre>{KEY}</pre><p>after the key</p>")

        report = memory.documents.index(root)

        for document in memory.documents.list():
            assert "MIIE" not in stored(memory, document)
            assert "after the key" in stored(memory, document)
        assert report.redacted == {"private-key": 2}
        assert report.redacted_at == (
            ("private-key", str(root / "a.html"), 1),
            ("private-key", str(root / "a.md"), 6),
        )

    def test_lines_keep_their_numbers(self, memory: Memorist, root: Path) -> None:
        write(root, a=f"{KEY}\n\n# After\n\nthe answer is here")

        memory.documents.index(root)

        (hit,) = memory.documents.search("answer")
        assert hit.start_line <= 46 <= hit.end_line

    def test_none_is_kept_in_titles_front_matter_or_links(self, memory: Memorist, path: Path, root: Path) -> None:
        token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
        write(root, a=f"---\napi_key: {token}\n---\n# About {token}\n\n## {token}\n\n[text {token}](other.md)\n")
        (root / "b.html").write_text(
            f"<title>{token}</title><h1>{token}</h1><p>tok{token[3:]} ghp<b>_</b>{token[4:]}</p>"
        )

        report = memory.documents.index(root)
        memory.close()

        assert report.redacted
        assert not any(token.encode() in file.read_bytes() for file in path.parent.glob("memory.db*"))

    def test_what_is_allowed_or_asked_for_stays(self, memory: Memorist, root: Path) -> None:
        token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
        write(root, a=f"the token {token}")

        assert memory.documents.index(root, allow=["A1b2"]).redacted == {}
        assert token in stored(memory)
        memory.documents.remove(root)
        assert memory.documents.index(root, redact=False).redacted == {}
        assert token in stored(memory)

    def test_an_allowance_that_is_no_pattern_is_refused_before_anything_is_read(
        self, memory: Memorist, root: Path
    ) -> None:
        write(root, a="one")

        with pytest.raises(InvalidInput, match="not a regular expression"):
            memory.documents.index(root, allow=["/(/"])


class TestTheModel:
    def test_chunks_it_failed_at_get_their_vectors_by_the_next_run(self, path: Path, root: Path) -> None:
        model = FailingEmbedder()
        write(root, a="one", b="two")
        with memorist.open(path, embedder=model) as memory:
            assert memory.documents.index(root).embedded == 0
            model.broken = False

            report = memory.documents.index(root)

            assert (numbers(report), report.embedded) == ({"unchanged": 2}, 2)
            assert memory.documents.index(root).embedded == 0


INDEXING = """
    import sys, time, memorist
    from conftest import HashingEmbedder
    class Slow(HashingEmbedder):
        def embed(self, texts):
            time.sleep(float(sys.argv[3]))
            return super().embed(texts)
    from memorist.ingest import sync
    sync.BATCH = 8
    print("ready", flush=True)
    sys.stdin.readline()
    with memorist.open(sys.argv[1], embedder=Slow()) as memory:
        report = memory.documents.index(sys.argv[2], progress=lambda now: print(now.files, flush=True))
    print("done", report.added)
"""


class TestProcesses:
    @pytest.fixture(autouse=True)
    def _many(self, root: Path) -> None:
        write(root, **{f"n{number:03}": f"# Note {number}\n\nabout {number}" for number in range(200)})

    def test_two_at_once_index_every_file_once(self, path: Path, root: Path) -> None:
        with start_program(INDEXING, path, root, 0) as one, start_program(INDEXING, path, root, 0) as other:
            expect("ready", [one, other])
            for process in (one, other):
                send_line(process)
            for process in (one, other):
                code, printed = wait_for_end(process)
                assert code == 0, printed

        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            assert len(memory.documents.list()) == 200
            assert sum(document.chunks for document in memory.documents.list()) == 200
            assert numbers(memory.documents.index(root)) == {"unchanged": 200}
            assert memory.check().problems == ()

    def test_one_that_is_killed_goes_on_from_there(self, path: Path, root: Path) -> None:
        with start_program(INDEXING, path, root, 0.01) as process:
            expect("ready", [process])
            send_line(process)
            while int(read_line(process)) < 100:
                pass
            process.send_signal(signal.SIGKILL)
            process.wait()

        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            done = len(memory.documents.list())
            assert 100 <= done < 200
            assert memory.check().problems == ()
            assert numbers(memory.documents.index(root)) == {"unchanged": done, "added": 200 - done}
