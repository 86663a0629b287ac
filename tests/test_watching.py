"""Watching files: the index follows what happens to them, whoever does it and however."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import apsw
import pytest

import memorist
from memorist import InvalidInput, Memorist, MissingExtra
from memorist.reports import IndexProgress, IndexReport
from timeouts import MAX_WAIT_SECONDS

pytest.importorskip("watchfiles", reason="the extra `watch` is not installed")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "first.md").write_text("# First\n\none")
    return folder


class Reports:
    """The reports of a watch that goes on in a thread of its own."""

    def __init__(self, reports: Iterator[IndexReport]) -> None:
        self._queue: Queue[IndexReport | BaseException | None] = Queue()
        self._thread = threading.Thread(target=self._read, args=[reports], daemon=True)
        self._thread.start()

    def _read(self, reports: Iterator[IndexReport]) -> None:
        try:
            for report in reports:
                self._queue.put(report)
        except BaseException as exc:
            self._queue.put(exc)
        self._queue.put(None)

    def next(self) -> IndexReport:
        try:
            report = self._queue.get(timeout=MAX_WAIT_SECONDS)
        except Empty:
            pytest.fail("no report came")
        if isinstance(report, BaseException):
            raise report
        assert report, "the watch has ended"
        return report

    def until(self, done: Callable[[], bool]) -> None:
        """Read reports until something is the case: the system may tell of one change in two bursts."""
        while not done():
            self.next()

    def join(self) -> None:
        self._thread.join(MAX_WAIT_SECONDS)
        assert not self._thread.is_alive()


@contextmanager
def watched(memory: Memorist, paths: Any, **options: Any) -> Iterator[Reports]:
    """A watch that has caught up, and ends with the block."""
    stop = threading.Event()
    reports = Reports(memory.documents.watch(paths, stop=stop, **options))
    try:
        yield reports
    finally:
        stop.set()
        reports.join()


def names(memory: Memorist) -> list[str]:
    return [Path(document.path).name for document in memory.documents.list()]


def finds(memory: Memorist, word: str) -> bool:
    return bool(memory.documents.search(word))


def eventually(done: Callable[[], bool]) -> None:
    """For what may be reported here or elsewhere."""
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while not done():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def replace_as_editors_do(path: Path, text: str) -> None:
    """Write beside it, keep the old one as a backup, rename, and remove the backup."""
    new, backup = path.with_name(f".{path.name}.swp"), path.with_name(f"{path.name}~")
    new.write_text(text)
    path.rename(backup)
    new.rename(path)
    backup.unlink()


class TestFolders:
    @pytest.mark.local_only("it reads a file of its own machine")
    def test_catches_up_first_and_then_follows(self, memory: Memorist, root: Path) -> None:
        memory.documents.index(root)
        (root / "second.md").write_text("two")

        with watched(memory, root) as reports:
            first = reports.next()
            assert (first.added, first.unchanged) == (1, 1)
            (root / "third.md").write_text("three")
            reports.until(lambda: finds(memory, "three"))
            (root / "first.md").write_text("changed")
            reports.until(lambda: finds(memory, "changed"))
            (root / "second.md").unlink()
            reports.until(lambda: names(memory) == ["first.md", "third.md"])
            (root / "third.md").rename(root / "fourth.md")
            reports.until(lambda: names(memory) == ["first.md", "fourth.md"])

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_follows_editors_that_replace_a_file(self, memory: Memorist, root: Path) -> None:
        with watched(memory, root) as reports:
            reports.next()
            for word in ("two", "three", "four"):
                replace_as_editors_do(root / "first.md", word)
                reports.until(lambda word=word: finds(memory, word))  # type: ignore[misc]

        assert names(memory) == ["first.md"]

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_follows_new_folders_and_new_rules(self, memory: Memorist, root: Path) -> None:
        with watched(memory, root) as reports:
            reports.next()
            (root / "sub" / "deep").mkdir(parents=True)
            (root / "sub" / "deep" / "second.md").write_text("two")
            reports.until(lambda: finds(memory, "two"))
            (root / ".gitignore").write_text("sub/\n")
            reports.until(lambda: not finds(memory, "two"))
            (root / ".gitignore").unlink()
            reports.until(lambda: finds(memory, "two"))

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_many_changes_at_once_are_few_reports(self, memory: Memorist, root: Path) -> None:
        steps: list[IndexReport] = []
        with watched(memory, root) as reports:
            reports.next()
            for number in range(200):
                (root / f"note {number}.md").write_text(f"number {number}")
            while len(names(memory)) < 201:
                steps.append(reports.next())

        assert len(steps) < 20

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_what_is_not_indexed_is_no_news(self, memory: Memorist, root: Path) -> None:
        (root / ".git").mkdir()
        (root / ".gitignore").write_text("build/\n")
        (root / "build").mkdir()
        with watched(memory, root) as reports:
            reports.next()
            (root / ".git" / "index").write_text("of git")
            (root / "build" / "out.md").write_text("made")
            (root / "second.md").write_text("two")
            report = reports.next()

        assert (report.added, report.unchanged) == (1, 1)
        assert not finds(memory, "made")

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_a_folder_that_is_deleted_and_made_anew(self, memory: Memorist, root: Path) -> None:
        with watched(memory, root) as reports:
            reports.next()
            shutil.rmtree(root)
            reports.until(lambda: names(memory) == [])
            root.mkdir()
            (root / "second.md").write_text("two")
            reports.until(lambda: finds(memory, "two"))
            (root / "third.md").write_text("three")
            reports.until(lambda: finds(memory, "three"))

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_a_folder_whose_disk_goes_away_keeps_its_files(self, memory: Memorist, root: Path, tmp_path: Path) -> None:
        disk = tmp_path / "disk"
        disk.mkdir()
        shutil.move(root, disk / "notes")
        with watched(memory, disk / "notes") as reports:
            reports.next()
            disk.rename(tmp_path / "away")
            report = reports.next()
            assert "what is indexed of it stays" in report.skipped[0][1]
            assert names(memory) == ["first.md"]
            (tmp_path / "away").rename(disk)
            (disk / "notes" / "second.md").write_text("two")
            reports.until(lambda: finds(memory, "two"))

        assert names(memory) == ["first.md", "second.md"]

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_a_link_that_leads_elsewhere_now(self, memory: Memorist, root: Path, tmp_path: Path) -> None:
        other, link = tmp_path / "other", tmp_path / "link"
        other.mkdir()
        (other / "second.md").write_text("two")
        link.symlink_to(root)
        with watched(memory, link) as reports:
            reports.next()
            link.unlink()
            link.symlink_to(other)
            reports.until(lambda: finds(memory, "two"))
            (other / "third.md").write_text("three")
            reports.until(lambda: finds(memory, "three"))

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_a_pattern(self, memory: Memorist, root: Path) -> None:
        with watched(memory, str(root / "*.md")) as reports:
            reports.next()
            (root / "second.txt").write_text("unwanted")
            (root / "second.md").write_text("two")
            reports.until(lambda: finds(memory, "two"))

        assert not finds(memory, "unwanted")

    def test_without_events_from_the_system_it_polls(
        self, memory: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "1")
        with watched(memory, root) as reports:
            reports.next()
            (root / "second.md").write_text("two")
            reports.until(lambda: finds(memory, "two"))


class TestFiles:
    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_a_file_named_itself_is_followed_and_nothing_beside_it(self, memory: Memorist, root: Path) -> None:
        with watched(memory, root / "first.md") as reports:
            reports.next()
            (root / "second.md").write_text("beside")
            for word in ("two", "three"):
                replace_as_editors_do(root / "first.md", word)
                reports.until(lambda word=word: finds(memory, word))  # type: ignore[misc]
            (root / "first.md").unlink()
            reports.until(lambda: names(memory) == [])
            (root / "first.md").write_text("back")
            reports.until(lambda: finds(memory, "back"))

        assert not finds(memory, "beside")


class TestTroubles:
    def test_a_database_in_the_folder_is_not_followed(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        runs: list[object] = []
        with memorist.open(root / "memory.db", embedder="none") as memory:
            documents = memory.documents
            index = documents.index
            monkeypatch.setattr(documents, "index", lambda *args, **rest: runs.append(args) or index(*args, **rest))
            with watched(memory, root) as reports:
                reports.next()
                for number in range(20):
                    memory.add(f"memory {number}")
                (root / "second.md").write_text("two")
                reports.until(lambda: finds(memory, "two"))

        assert len(runs) < 5

    def test_other_writers_are_waited_for_and_it_is_said(self, root: Path, path: Path) -> None:
        with memorist.open(path, embedder="none", busy_timeout=0.05) as memory, watched(memory, root) as reports:
            reports.next()
            other = apsw.Connection(str(path))
            other.execute("begin immediate")
            (root / "second.md").write_text("two")
            report = reports.next()
            assert "locked by another process" in report.skipped[0][1]
            other.execute("rollback")
            other.close()
            reports.until(lambda: finds(memory, "two"))

    def test_a_file_that_cannot_be_read_for_a_moment(
        self, memory: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from memorist.ingest import sync
        from memorist.ingest.readers import UnreadableFile, read_bytes

        denied = threading.Event()

        def guarded(file: Path, largest: int) -> bytes:
            if denied.is_set():
                raise UnreadableFile("it cannot be read: permission denied")
            return read_bytes(file, largest)

        monkeypatch.setattr(sync, "read_bytes", guarded)
        with watched(memory, root) as reports:
            reports.next()
            denied.set()
            (root / "first.md").write_text("changed")
            report = reports.next()
            assert report.skipped == ((str(root / "first.md"), "it cannot be read: permission denied"),)
            assert finds(memory, "one")
            denied.clear()
            (root / "second.md").write_text("two")
            reports.until(lambda: finds(memory, "changed"))

    def test_another_process_may_have_indexed_it_first(self, memory: Memorist, root: Path, path: Path) -> None:
        with memorist.open(path, embedder="none") as other, watched(other, root) as theirs:
            theirs.next()
            with watched(memory, root) as ours:
                ours.next()
                for number in range(10):
                    (root / f"n{number}.md").write_text(f"number {number}")
                eventually(lambda: len(names(memory)) == 11)

        assert memory.check().problems == ()
        assert memory.documents.index(root).unchanged == 11


class TestTheEnd:
    @pytest.mark.local_only("it reads a file of its own machine")
    def test_a_restart_catches_up(self, memory: Memorist, root: Path) -> None:
        with watched(memory, root) as reports:
            reports.next()
        (root / "first.md").unlink()
        (root / "second.md").write_text("two")

        with watched(memory, root) as reports:
            report = reports.next()

        assert (report.added, report.removed) == (1, 1)

    def test_comes_between_files_and_keeps_what_is_done(
        self, memory: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(20):
            (root / f"n{number:02}.md").write_text(f"number {number}")
        stop = threading.Event()
        documents = memory.documents
        index = documents.index

        def index_and_stop(
            paths: Sequence[str], *, progress: Callable[[IndexProgress], None], **options: Any
        ) -> IndexReport:
            def stop_after_ten(now: IndexProgress) -> None:
                if now.files >= 10:
                    stop.set()
                progress(now)

            return index(paths, **options, progress=stop_after_ten)

        monkeypatch.setattr(documents, "index", index_and_stop)

        assert list(memory.documents.watch(root, stop=stop)) == []
        assert len(names(memory)) >= 10
        assert memory.check().problems == ()

    @pytest.mark.sqlite_only("a pool of connections has threads of its own")
    def test_whoever_stops_reading_stops_the_watch(self, memory: Memorist, root: Path) -> None:
        before = threading.active_count()
        for _ in memory.documents.watch(root):
            break

        assert threading.active_count() == before


class TestRefusals:
    @pytest.mark.local_only("it reads a file of its own machine")
    def test_nothing_to_watch_is_said_at_once(self, memory: Memorist, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="watch needs"):
            memory.documents.watch([])
        with pytest.raises(InvalidInput, match="no such file or folder"):
            memory.documents.watch(tmp_path / "nowhere")

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_what_cannot_be_used_ends_it(self, memory: Memorist, root: Path) -> None:
        with pytest.raises(InvalidInput, match="regular expression"):
            next(memory.documents.watch(root, allow=["/(/"]))

    def test_without_the_extra_it_names_the_cure(
        self, memory: Memorist, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "watchfiles", None)

        with pytest.raises(MissingExtra, match=r"pip install 'memorist\[watch\]'"):
            memory.documents.watch(root)
