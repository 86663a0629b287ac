"""What was recalled, when, and for which question: written down after the answer, and never in its way."""

import hashlib
import json
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import memorist
from answers import ids
from clock import days_ago, now
from memorist import InvalidInput, Memorist, NotFound
from memorist.engine import recorder
from processes import FORK_OPTIONS, forks, start_program, wait_for_end
from statements import read_rows


@pytest.fixture
def badgers(memory: Memorist) -> list[str]:
    return memory.add_many(["the badger digs", "the badger naps all day long", "an otter swims"])


def digest(path: Path) -> str:
    """The database with its write-ahead log, to the last byte."""
    files = [path, path.with_name(path.name + "-wal")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files if file.exists())).hexdigest()


class TestOff:
    @pytest.mark.parametrize("options", [{}, {"record": "off"}, {"profile": "rank"}, {"profile": "confidence"}])
    def test_a_search_leaves_nothing_behind_unless_asked(
        self, memory: Memorist, path: Path, badgers: list[str], options: dict[str, str]
    ) -> None:
        watcher = apsw.Connection(str(path))
        version, before = watcher.pragma("data_version"), digest(path)

        for mode in ("keyword", "hybrid"):
            assert memory.search("badger", mode=mode, **options)
        assert list(memory.searches.list()) == []

        assert (watcher.pragma("data_version"), digest(path)) == (version, before)
        watcher.close()

    def test_off_counts_more_than_the_profile(self, path: Path) -> None:
        with memorist.open(path, embedder="none", profile="salience") as memory:
            added = memory.add("the badger digs")
            memory.search("badger", record="off")

            assert list(memory.searches.list()) == []
            assert memory.get(added.id) == added

    def test_a_session_records_nothing_where_recording_is_off(self, memory: Memorist, badgers: list[str]) -> None:
        memory.sessions.start(id="sess1")

        memory.search("badger", record_session="sess1", record="off")

        assert list(memory.searches.list()) == []
        assert memory.sessions.get("sess1").memories == 0

    def test_another_word_is_refused(self, memory: Memorist) -> None:
        with pytest.raises(InvalidInput, match="record 'always' is unknown"):
            memory.search("badger", record="always")


class TestLog:
    def test_it_has_what_was_asked_and_what_came_back(self, memory: Memorist, badgers: list[str]) -> None:
        before = now()

        results = memory.search("badger", record="log")

        (recall,) = memory.searches.list()
        assert (recall.query, recall.mode, recall.profile) == ("badger", "hybrid", "balanced")
        assert (recall.lens, recall.session) == (None, None)
        assert before <= recall.at <= now()
        assert [one.id for one in recall.memories] == ids(results) == badgers[:2]
        assert [one.place for one in recall.memories] == [1, 2]
        assert [one.score for one in recall.memories] == [hit.score for hit in results]
        assert [one.relevance for one in recall.memories] == [hit.relevance for hit in results]

    def test_it_has_lens_session_mode_and_profile(self, memory: Memorist, badgers: list[str]) -> None:
        memory.sessions.start(id="sess1")
        memory.lenses.set("quiet", profile="rank")

        memory.search("badger", mode="keyword", lens="quiet", record="log", record_session="sess1")

        (recall,) = memory.searches.list()
        assert (recall.lens, recall.session) == ("quiet", "sess1")
        assert (recall.mode, recall.profile) == ("keyword", "rank")

    def test_it_has_the_facts_that_were_shown(self, memory: Memorist) -> None:
        added = memory.add("the badger digs", facts=["at night", "with claws"])

        memory.search("badger", record="log")
        memory.facts.add(added.id, "a later fact")
        memory.search("badger", record="log", include_facts=False)

        later, first = memory.searches.list()
        assert first.memories[0].facts == tuple(fact.id for fact in added.facts)
        assert later.memories[0].facts == ()

    def test_only_what_is_on_the_page_was_recalled(self, memory: Memorist, badgers: list[str]) -> None:
        memory.search("badger", limit=1, record="log")

        (recall,) = memory.searches.list()
        assert [one.id for one in recall.memories] == badgers[:1]
        assert memory.get(badgers[1]).access_count == 0

    def test_a_question_that_found_nothing_is_written_down_too(self, memory: Memorist, badgers: list[str]) -> None:
        memory.search("zebra", record="log")

        (recall,) = memory.searches.list()
        assert (recall.query, recall.memories) == ("zebra", ())

    def test_it_counts_but_changes_no_salience(self, memory: Memorist, badgers: list[str]) -> None:
        memory.search("digs", record="log")
        memory.searches.list()

        used = memory.get(badgers[0])
        assert (used.access_count, used.salience) == (1, 0.5)
        assert used.reinforced_at == used.recorded_at

    def test_stats_count_them(self, memory: Memorist, badgers: list[str]) -> None:
        memory.search("digs", record="log")
        memory.search("naps", record="log")
        memory.searches.list()

        assert memory.stats().recalls == 2


class TestReinforce:
    def test_what_came_back_is_reinforced_by_a_fiftieth(self, memory: Memorist, badgers: list[str]) -> None:
        memory.search("badger", record="reinforce")
        memory.searches.list()

        assert [one.salience for one in memory.get(badgers)] == pytest.approx([0.5 + 0.02 * 0.5] * 2 + [0.5])
        assert memory.get(badgers[0]).access_count == 1
        memory.search("badger", record="reinforce")
        memory.searches.list()
        assert memory.get(badgers[0]).salience == pytest.approx(0.51 + 0.02 * 0.49)

    def test_how_much_can_be_said(self, memory: Memorist, badgers: list[str]) -> None:
        memory.search("digs", record="reinforce", reinforcement=0.5)
        memory.searches.list()

        assert memory.get(badgers[0]).salience == pytest.approx(0.75)

    def test_the_answer_itself_is_from_before(self, memory: Memorist, badgers: list[str]) -> None:
        (hit,) = memory.search("digs", record="reinforce")

        assert hit.memory.salience == 0.5
        assert hit.memory.access_count == 0


class TestProfiles:
    def test_the_profile_salience_reinforces(self, path: Path) -> None:
        with memorist.open(path, embedder="none", profile="salience") as memory:
            added = memory.add("the badger digs")
            memory.search("badger")

            (recall,) = memory.searches.list()
            assert recall.profile == "salience"
            assert memory.get(added.id).salience == pytest.approx(0.51)

    def test_the_profile_salience_links_what_it_recalls_to_the_session(self, path: Path) -> None:
        with memorist.open(path, embedder="none", profile="salience") as memory:
            for id in ("sess1", "sess2"):
                memory.sessions.start("proj1", id=id)
            added = memory.add("To be recalled", project="proj1", session="sess1")

            memory.search("recalled", project="proj1", record_session="sess2")

            context = memory.sessions.context_of(added.id)
            assert context is not None
            assert (context.session.id, context.usage) == ("sess2", "recalled")

    def test_the_profile_confidence_logs_where_there_is_a_session_only(self, path: Path) -> None:
        with memorist.open(path, embedder="none", profile="confidence") as memory:
            added = memory.add("the badger digs", facts=["at night"])
            memory.sessions.start(id="sess1")
            memory.search("badger")
            assert list(memory.searches.list()) == []

            memory.search("badger", record_session="sess1")

            (recall,) = memory.searches.list()
            assert recall.session == "sess1"
            assert recall.memories[0].facts == (added.facts[0].id,)
            assert memory.get(added.id).salience == added.salience

    def test_a_timeline_around_a_query_records_nothing(self, path: Path) -> None:
        """It only looks; nobody asked for a recall, and there is no way to say `record="off"` to it."""
        with memorist.open(path, embedder="none", profile="salience") as memory:
            added = memory.add("the badger digs")
            memory.timeline(query="badger")

            assert list(memory.searches.list()) == []
            assert memory.get(added.id) == added


class TestAskingForThem:
    def test_the_latest_come_first_and_so_many_as_asked(self, memory: Memorist, badgers: list[str]) -> None:
        for query in ("digs", "naps", "swims"):
            memory.search(query, record="log")

        assert [recall.query for recall in memory.searches.list()] == ["swims", "naps", "digs"]
        assert [recall.query for recall in memory.searches.list(limit=2)] == ["swims", "naps"]

    def test_of_one_memory_of_one_session_since_a_time(self, memory: Memorist, badgers: list[str]) -> None:
        memory.sessions.start(id="sess1")
        memory.search("digs", record="log")
        memory.search("badger", record="log", record_session="sess1")
        between = now()
        memory.search("swims", record="log")

        assert [recall.query for recall in memory.searches.list(memory=badgers[0])] == ["badger", "digs"]
        assert [recall.query for recall in memory.searches.list(memory=badgers[2][-8:])] == ["swims"]
        assert [recall.query for recall in memory.searches.list(session="sess1")] == ["badger"]
        assert [recall.query for recall in memory.searches.list(since=between)] == ["swims"]
        assert [recall.query for recall in memory.searches.list(memory=badgers[0], session="sess1")] == ["badger"]
        assert list(memory.searches.list(since=now() + timedelta(hours=1))) == []
        assert len(memory.searches.list(since="yesterday")) == 3

    def test_what_was_never_recalled_can_be_listed(self, memory: Memorist, badgers: list[str]) -> None:
        memory.search("badger", record="log")
        memory.searches.list()

        assert ids(memory.list(recalled=False)) == [badgers[2]]
        assert set(ids(memory.list(recalled=True))) == set(badgers[:2])
        assert ids(memory.search("badger", recalled=False)) == []

    def test_unknown_memories_are_not_found(self, memory: Memorist) -> None:
        with pytest.raises(NotFound):
            memory.searches.list(memory="nobody-has-this")

    def test_those_of_another_namespace_are_behind_the_wall(self, memory: Memorist, path: Path) -> None:
        added = memory.add("the badger digs")
        memory.search("badger", record="log")
        memory.searches.list()
        with memorist.open(path, embedder="none", namespace="other") as other:
            assert list(other.searches.list()) == []
            assert other.stats().recalls == 0
            with pytest.raises(NotFound):
                other.searches.list(memory=added.id)


class TestErasing:
    def test_erasing_a_memory_erases_its_recalls_and_the_questions_that_found_it(
        self, memory: Memorist, path: Path, badgers: list[str]
    ) -> None:
        memory.search("badger", record="log")
        memory.search("badger digs", grammar="and", record="log")
        memory.search("otter", record="log")

        memory.forget(badgers[0], hard=True)

        otter, alone, both = memory.searches.list()
        assert (otter.query, len(otter.memories)) == ("otter", 1)
        assert (alone.query, alone.memories) == (None, ())
        assert both.query is None
        assert [one.id for one in both.memories] == [badgers[1]]
        assert read_rows(path, "select query from recalls where query is not null") == [("otter",)]

    def test_a_recall_that_still_waits_does_not_come_back(self, memory: Memorist, path: Path) -> None:
        added = memory.add("the unmistakable badger")
        memory.search("unmistakable", record="log")

        memory.forget(added.id, hard=True)
        memory.close()

        with memorist.open(path, embedder="none") as again:
            assert [recall.query for recall in again.searches.list()] == [None]
            again.purge()
        assert b"unmistakable" not in path.read_bytes()

    def test_a_purge_erases_them_as_well(self, memory: Memorist, badgers: list[str]) -> None:
        memory.search("digs", record="log")
        memory.forget(badgers[0])
        assert memory.searches.list()[0].query == "digs"

        memory.purge()

        assert memory.searches.list()[0].query is None


class TestWriting:
    """After the answer, in batches; at the latest when the memory is closed or the interpreter ends."""

    def test_what_waits_is_written_when_the_memory_is_closed(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            memory.add("the badger digs")
            for _ in range(5):
                memory.search("badger", record="log")

        assert read_rows(path, "select count(*) from recalls") == [(5,)]

    UNCLOSED = """
        import sys, memorist

        def answer():
            memory = memorist.open(sys.argv[1], embedder="none")
            for _ in range(3):
                assert memory.search("badger", record="reinforce")
            return memory

        if sys.argv[2] == "kept":
            kept = answer()
        else:
            answer()
        if sys.argv[2] == "failed":
            raise SystemExit(3)
    """

    @pytest.mark.parametrize(("how", "code"), [("kept", 0), ("dropped", 0), ("failed", 3)])
    def test_what_waits_is_written_when_the_interpreter_ends(self, path: Path, how: str, code: int) -> None:
        with memorist.open(path, embedder="none") as memory:
            added = memory.add("the badger digs")

        with start_program(self.UNCLOSED, path, how) as process:
            assert wait_for_end(process) == (code, "")

        with memorist.open(path, embedder="none") as memory:
            assert len(memory.searches.list()) == 3
            assert memory.get(added.id).access_count == 3

    def test_what_waits_is_written_before_its_session_ends(self, memory: Memorist) -> None:
        memory.sessions.start(id="sess1")
        added = memory.add("the badger digs")
        memory.search("badger", record="log", record_session="sess1")

        assert memory.sessions.end("sess1").memories == 1

        assert len(memory.searches.list(session="sess1")) == 1
        assert ids(memory.list(session="sess1")) == [added.id]

    def test_a_search_within_a_session_waits_for_the_recalls_of_that_session_only(
        self, memory: Memorist, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recorder, "BATCH_DELAY", 600.0)
        for id in ("sess1", "sess2"):
            memory.sessions.start(id=id)
        added = memory.add("the badger digs")
        memory.search("badger", record="log", record_session="sess1")

        with memorist.open(path, embedder="none") as other:
            assert not memory.search("badger", session="sess2")
            assert not other.searches.list()
            assert ids(hit.memory for hit in memory.search("badger", session="sess1")) == [added.id]
            assert len(other.searches.list()) == 1

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_searches_of_many_threads_are_all_written(self, memory: Memorist, badgers: list[str]) -> None:
        def ask(number: int) -> None:
            for turn in range(20):
                memory.search(f"badger {number} {turn}", record="log", limit=2)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        recalls = memory.searches.list(limit=1000)
        assert {recall.query for recall in recalls} == {f"badger {n} {turn}" for n in range(8) for turn in range(20)}
        assert len(recalls) == 160
        assert memory.get(badgers[0]).access_count == 160
        assert memory.searches.lost == 0

    FORKING = """
        import os, sys, memorist
        memory = memorist.open(sys.argv[1], embedder="none")
        memory.search("badger", record="log")
        child = os.fork()
        if child == 0:
            if sys.argv[2] == "searches":
                memory.search("badger of the child", record="log")
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        memory.search("badger of the parent", record="log")
        memory.close()
        print("done")
    """

    @forks
    @pytest.mark.parametrize("child", ["searches", "only ends"])
    def test_a_fork_writes_every_recall_once(self, path: Path, child: str) -> None:
        with memorist.open(path, embedder="none") as memory:
            memory.add("the badger digs")

        with start_program(self.FORKING, path, child, options=FORK_OPTIONS) as process:
            assert wait_for_end(process) == (0, "done\n")

        expected = ["badger", "badger of the child", "badger of the parent"]
        if child == "only ends":
            expected.remove("badger of the child")
        assert sorted(query for (query,) in read_rows(path, "select query from recalls")) == expected


class TestFailing:
    """A recall that cannot be written is counted, and nobody's search fails for it."""

    @pytest.fixture
    def stored(self, path: Path) -> Path:
        with memorist.open(path, embedder="none") as memory:
            memory.add("the badger digs")
        return path

    def test_a_database_that_is_only_read(self, stored: Path) -> None:
        with memorist.open(stored, embedder="none", read_only=True) as memory:
            for _ in range(3):
                assert len(memory.search("badger", record="reinforce")) == 1
            assert list(memory.searches.list()) == []

            assert memory.searches.lost == 3

    def test_a_table_that_is_gone(self, stored: Path) -> None:
        with memorist.open(stored, embedder="none") as memory:
            read_rows(stored, "drop table recalled")
            assert len(memory.search("badger", record="log")) == 1
            memory.close()

            assert memory.searches.lost == 1
        assert read_rows(stored, "select count(*) from recalls") == [(0,)]

    def test_a_database_that_stays_locked(self, stored: Path) -> None:
        locker = apsw.Connection(str(stored))
        with memorist.open(stored, embedder="none", busy_timeout=0.01) as memory:
            locker.execute("begin immediate")
            assert len(memory.search("badger", record="log")) == 1
            memory.close()
            locker.execute("rollback")

            assert memory.searches.lost == 1
        locker.close()

    def test_nothing_is_lost_where_nothing_fails(self, stored: Path) -> None:
        with memorist.open(stored, embedder="none") as memory:
            memory.search("badger", record="log")
            memory.searches.list()

            assert memory.searches.lost == 0


class TestLimits:
    """The log keeps 90 days and 200 MB, unless other limits are set; what is beyond goes after the next recall."""

    @staticmethod
    def add_recalls(memory: Memorist, tmp_path: Path, ages: Sequence[float], text: str = "") -> None:
        """Add a memory, and for each age a recall of it that is so many days old."""
        id = memory.add("the badger digs", id="badger").id
        found = {"memory": id, "place": 1, "score": 0.5, "relevance": 0.5, "facts": [], "prompt": text or None}
        recall = {"type": "recall", "mode": "hybrid", "profile": "balanced", "memories": [found]}
        records = [
            {"memorist": 1, "namespace": "default", "vectors": False},
            *(
                recall | {"id": f"recall-{place}", "at": days_ago(age).isoformat(), "query": f"q{place}"}
                for place, age in enumerate(ages)
            ),
            {"type": "end", "records": len(ages)},
        ]
        (tmp_path / "old.jsonl").write_text("\n".join(map(json.dumps, records)))
        memory.transfer.import_(tmp_path / "old.jsonl")
        assert len(memory.searches.list(limit=1000)) == len(ages)

    @staticmethod
    def list_queries(target: Path | str) -> list[str | None]:
        with memorist.open(target, embedder="none") as memory:
            return [recall.query for recall in memory.searches.list(limit=1000)]

    def test_after_ninety_days_a_recall_is_gone_once_another_is_recorded(
        self, memory: Memorist, target: Path | str, tmp_path: Path
    ) -> None:
        self.add_recalls(memory, tmp_path, [91, 89])
        before = memory.get("badger").access_count

        memory.search("badger")
        assert self.list_queries(target) == ["q1", "q0"]
        memory.search("badger", record="log")
        memory.close()

        assert self.list_queries(target) == ["badger", "q1"]
        with memorist.open(target, embedder="none") as again:
            assert again.get("badger").access_count == before + 1

    def test_many_go_at_once_in_small_batches(self, memory: Memorist, target: Path | str, tmp_path: Path) -> None:
        self.add_recalls(memory, tmp_path, [100] * 450)

        memory.search("badger", record="log")
        memory.close()

        assert self.list_queries(target) == ["badger"]

    def test_how_long_recalls_are_kept_can_be_set(self, path: Path, tmp_path: Path) -> None:
        with memorist.open(path, embedder="none", recall_days=7) as memory:
            self.add_recalls(memory, tmp_path, [8, 6])
            memory.search("badger", record="log")

        assert self.list_queries(path) == ["badger", "q1"]

    def test_of_a_log_that_is_too_large_the_latest_are_kept(self, path: Path, tmp_path: Path) -> None:
        with memorist.open(path, embedder="none", recall_megabytes=1) as memory:
            self.add_recalls(memory, tmp_path, range(40, 0, -1), "x" * 50_000)
            for _ in range(64):  # after so many at the latest, it is measured
                memory.search("badger", record="log")

        kept = [query for query in self.list_queries(path) if query != "badger"]
        assert kept == [f"q{place}" for place in range(39, 39 - len(kept), -1)]
        assert 800_000 < len(kept) * 50_000 <= 1_000_000

    def test_a_purge_drops_all_that_is_beyond(self, memory: Memorist, target: Path | str, tmp_path: Path) -> None:
        self.add_recalls(memory, tmp_path, [*[91] * 250, 89])

        memory.purge()

        assert self.list_queries(target) == ["q250"]

    def test_a_purge_drops_what_is_beyond_and_leaves_nothing_of_it_in_the_file(
        self, path: Path, tmp_path: Path
    ) -> None:
        with memorist.open(path, embedder="none") as memory:
            self.add_recalls(memory, tmp_path, [91], "a secret pangolin")
            assert b"pangolin" in path.read_bytes() + path.with_name("memory.db-wal").read_bytes()
            memory.purge()

        assert self.list_queries(path) == []
        assert b"pangolin" not in path.read_bytes()

    @pytest.mark.parametrize("options", [{"recall_days": 0}, {"recall_days": "90"}, {"recall_megabytes": 0.5}])
    def test_a_limit_that_cannot_be_kept_is_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match=next(iter(options))):
            memorist.open(":memory:", embedder="none", **options)
