"""What a first user of the new calls ran into."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

import memorist
from conftest import HashingEmbedder
from memorist import Ambiguous, InvalidInput, Memorist, NotFound
from memorist.profiles import PROFILES
from memorist.profiles.compat import SECTOR_DECAY
from memorist.records import Recall, RecalledMemory, Reinforcement
from memorist.search import options
from statements import record_statements


def test_a_part_of_a_session_id_is_enough_wherever_one_is_asked_for(memory: Memorist) -> None:
    session = memory.sessions.start("api")
    part = session.id[-8:]

    added = memory.add("Retries are capped", session=part)
    memory.update(added.id, title="Retries", session=part)
    memory.reinforce(added.id, session=part)

    assert memory.get(added.id).session.id == session.id
    assert memory.sessions.get(part).memories == 1


def test_a_memory_cannot_be_replaced_from_a_time_that_lies_ahead(memory: Memorist) -> None:
    old, new = memory.add("The port is 8080"), memory.add("The port is 9090")

    with pytest.raises(InvalidInput, match="in the future"):
        memory.supersede(old.id, new.id, at="in 2 days")


def test_the_same_text_in_two_projects_is_no_duplicate(memory: Memorist) -> None:
    for project in ("one", "two"):
        memory.add("The quick brown fox jumps over the lazy dog", project=project)

    assert memory.review.duplicates() == []


def test_merging_takes_over_tags_facts_and_pins_and_can_be_undone(memory: Memorist) -> None:
    old = memory.add("Retries are capped at 5", tags=["old"], facts=["the cap is five"])
    memory.pin(old.id)
    new = memory.add("Retries are capped at 5 now", tags=["new"])

    kept = memory.review.merge(new.id, [old.id])

    assert (kept.tags, kept.pinned, [fact.text for fact in kept.facts]) == (("new", "old"), True, ["the cap is five"])
    assert [hit.memory.id for hit in memory.search("five")] == [new.id]
    assert memory.unsupersede(old.id).tags == ("old",)
    assert memory.check().ok


def test_a_merge_that_cannot_be_done_changes_nothing(memory: Memorist) -> None:
    kept, other = memory.add("one thing", tags=["a"]), memory.add("another thing", tags=["b"])

    with pytest.raises(NotFound):
        memory.review.merge(kept.id, [other.id, "nobody-has-this"])

    assert memory.get(other.id).valid_until is None
    assert memory.get(kept.id).tags == ("a",)


def test_what_was_recalled_a_moment_ago_is_seen_by_every_call(memory: Memorist) -> None:
    session = memory.sessions.start()
    found = memory.add("Retries are capped")
    memory.search("retries", record_session=session.id)

    assert memory.get(found.id).access_count == 1
    memory.search("retries", record_session=session.id)
    assert memory.list()[0].access_count == 2
    memory.search("retries", record_session=session.id)
    assert [one.id for one in memory.list(recalled=True)] == [found.id]
    assert memory.sessions.get(session.id).memories == 1
    assert [hit.memory.id for hit in memory.search("capped", session=session.id)] == [found.id]
    assert memory.stats().recalls == 3


def test_naming_the_session_one_is_in_is_enough_to_have_a_search_logged(memory: Memorist) -> None:
    session = memory.sessions.start()
    memory.add("Retries are capped")

    memory.search("retries", record_session=session.id)
    memory.search("capped", record_session=session.id, record="off")

    assert [recall.query for recall in memory.searches.list()] == ["retries"]


def test_a_timeline_around_what_did_not_exist_yet_is_refused(memory: Memorist) -> None:
    anchor = memory.add("Retries are capped")

    with pytest.raises(NotFound, match="did not exist yet"):
        memory.timeline(anchor=anchor.id, as_of="2020-01-01")


def test_a_timeline_around_a_query_looks_only_within_its_times(memory: Memorist) -> None:
    memory.add("Retries are capped")

    assert list(memory.timeline(query="retries", end="2020-01-01")) == []


def test_a_timelines_search_leaves_no_trace_in_a_profile_that_records(path: Path) -> None:
    with memorist.open(path, embedder="none", profile="salience") as memory:
        added = memory.add("about boats")

        memory.timeline(query="boats")

        assert list(memory.searches.list()) == []
        assert memory.get(added.id).salience == added.salience


def test_a_memory_is_counted_once_among_what_was_held_back(memory: Memorist) -> None:
    old = memory.add("Retries are capped at 5", project="api")
    new = memory.add("Retries are capped at 3", project="api")
    memory.supersede(old.id, new.id)

    assert memory.search("retries", project="web").hidden == {"project": 2}
    assert memory.search("retries", project="api").hidden == {"superseded": 1}


def test_a_fact_said_again_takes_on_what_is_said_of_it(memory: Memorist) -> None:
    note = memory.add("Anna moved")
    memory.facts.add(note.id, "Anna lives in Lisbon", confidence=0.5)

    again = memory.facts.add(note.id, "Anna lives in Lisbon", confidence=0.9, kind="location", subject="Anna")

    assert (again.kind, again.subject, again.confidence) == ("location", "Anna", 0.9)
    assert len(memory.get(note.id).facts) == 1


def test_a_part_of_a_fact_id_that_several_have_is_refused_with_the_choices(memory: Memorist) -> None:
    note = memory.add("Anna moved", facts=["one", "two"])
    shared = note.facts[0].id[:8]
    if not note.facts[1].id.startswith(shared):
        pytest.skip("the clock passed on between the two")

    with pytest.raises(Ambiguous):
        memory.facts.remove(shared)


def test_a_memory_cannot_replace_itself(memory: Memorist) -> None:
    only = memory.add("The port is 8080")

    with pytest.raises(InvalidInput, match="cannot supersede itself"):
        memory.supersede(only.id, only.id)


def test_it_can_be_told_what_a_memory_replaced(memory: Memorist) -> None:
    first, second, third = (memory.add(f"The port is {port}") for port in (80, 81, 82))
    memory.supersede(first.id, second.id)
    memory.supersede(second.id, third.id)

    assert [memory_.id for memory_ in memory.links.replaced(third.id)] == [second.id]
    assert memory.links.replaced(first.id) == []


class TestLateRecalls:
    def test_a_reader_does_not_wait_for_whoever_else_writes(self, path: Path) -> None:
        with memorist.open(path, embedder="none", busy_timeout=600) as memory:
            added = memory.add("Retries are capped")
            writer = apsw.Connection(str(path))
            writer.execute("begin immediate")
            try:
                memory.search("retries", record="log")
                started = time.monotonic()
                memory.get(added.id)
                memory.list(recalled=True)
                waited = time.monotonic() - started
            finally:
                writer.execute("rollback")
                writer.close()

        assert waited < 300  # a writer's patience; a reader has its own, of a fraction of a second

    def test_a_question_does_not_bring_back_what_was_erased_meanwhile(self, path: Path) -> None:
        with (
            memorist.open(path, embedder="none") as memory,
            memorist.open(path, embedder="none") as other,
        ):
            secret = memory.add("the password is swordfish77")
            found = other.search("swordfish77")
            memory.forget(secret.id, hard=True)
            memory.purge()
            # What `other` had waiting to be written when the memory was erased.
            hit = RecalledMemory(found[0].memory.id, 1, 1.0, 1.0)
            recall = Recall("recall-one", "swordfish77", secret.created_at, "hybrid", "balanced", None, None, (hit,))
            other._resources.store.recalls.record([(recall, Reinforcement())])

            assert [recall.query for recall in memory.searches.list()] == [None]

        assert b"swordfish77" not in path.read_bytes()

    def test_what_is_reinforced_after_a_recall_stays_after_it(self, memory: Memorist) -> None:
        added = memory.add("Retries are capped")
        before = datetime.now(UTC)
        memory.search("retries", record="reinforce")
        memory.reinforce(added.id, 0.5)
        memory.searches.list()

        assert memory.get(added.id, as_of=before).salience == 0.5
        assert memory.get(added.id).reinforced_at > before

    def test_they_can_be_dropped(self, memory: Memorist) -> None:
        memory.add("Retries are capped")
        memory.search("retries", record="log")

        assert memory.searches.clear(before="yesterday") == 0
        assert memory.searches.clear() == 1
        assert list(memory.searches.list()) == []


def test_purging_leaves_files_that_are_not_ours(memory: Memorist, path: Path) -> None:
    mine = Path(f"{path}.before-my-cleanup")
    mine.write_text("keep me")

    memory.purge()

    assert mine.exists()


def test_a_memory_without_a_project_replaces_none_of_a_project(memory: Memorist) -> None:
    noted = memory.add("Retries are capped at 5 in the billing client", project="api")

    added = memory.add("Retries are capped at 5 in the billing client now", on_near_duplicate="merge")

    assert added.near is None
    assert not memory.get(noted.id).superseded


def test_texts_without_spaces_can_be_almost_the_same(memory: Memorist) -> None:
    old = memory.add("每个月的第一天都要检查所有服务器的备份是否可以恢复")

    added = memory.add("每个月的第一天都要检查所有服务器的备份是否可以恢复了")

    assert added.near is not None
    assert added.near.id == old.id
    assert len(memory.review.duplicates()) == 1


class TestSalienceAndItsClock:
    """With decay by sector: what is left is what is changed, and the clock is set with it."""

    @pytest.fixture
    def faded(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memorist]:
        fading = replace(PROFILES["salience"], sector_decay=SECTOR_DECAY["ccmemory"])
        monkeypatch.setattr(options, "PROFILES", {**PROFILES, "salience": fading})
        with memorist.open(path, embedder="none", profile="salience") as memory:
            memory.add("Retries are capped", id="faded-one", salience=0.5)
            age = 100 * 86_400 * 1_000_000
            with apsw.Connection(str(path)) as raw:
                raw.execute("update memories set reinforced_at = reinforced_at - ?", (age,))
            raw.close()
            yield memory

    def left(self, memory: Memorist) -> float:
        return memory.search("retries", record="off")[0].trace["salience"] / 0.2

    def test_less_is_never_more(self, faded: Memorist) -> None:
        before = self.left(faded)

        faded.deemphasize("faded-one", 0.2)

        assert self.left(faded) == pytest.approx(0.8 * before, rel=1e-3)

    def test_reinforcing_adds_to_what_is_left(self, faded: Memorist) -> None:
        before = self.left(faded)

        faded.reinforce("faded-one", 0.1)

        assert self.left(faded) == pytest.approx(before + 0.1 * (1 - before), rel=1e-3)

    def test_a_new_value_begins_now(self, faded: Memorist) -> None:
        faded.update("faded-one", salience=1.0)

        assert self.left(faded) == pytest.approx(1.0, rel=1e-3)


def test_a_page_is_refilled_where_thresholds_took_much_away(memory: Memorist) -> None:
    memory.add_many(
        {"content": f"Retries retries retries {number}", "facts": [{"text": f"fact {number}", "confidence": 0.05}]}
        for number in range(150)
    )
    memory.add_many(f"Retries are a topic of number {number} among others" for number in range(10))

    results = memory.search("retries", min_confidence=0.5)

    assert len(results) == 10
    assert all(hit.confidence == 1.0 for hit in results)


def test_an_old_vector_belongs_to_the_text_of_its_time(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        added = memory.add("cat")
        then = datetime.now(UTC)
        memory.update(added.id, content="dog")
    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        memory.reembed()
        memory.update(added.id, content="cow")

        assert memory.search("dog", mode="semantic", as_of=then)[:] == ()


class TestOtherNamespaces:
    def test_they_do_not_crowd_out_what_is_held_back(self, path: Path) -> None:
        with (
            memorist.open(path, embedder="none", namespace="b") as other,
            memorist.open(path, embedder="none", namespace="a") as memory,
        ):
            other.add_many(f"badger {number}" for number in range(6000))
            memory.add("badger", project="api")

            assert memory.search("badger", project="web").hidden == {"project": 1}

    def test_their_words_take_no_suggestion_away(self, path: Path) -> None:
        with (
            memorist.open(path, embedder="none", namespace="a") as memory,
            memorist.open(path, embedder="none", namespace="b") as other,
        ):
            memory.add_many(["alpha retries", "alpha beta", "alpha gamma", "alpha delta"])
            before = memory.search("alpha retreis").suggestion
            other.add("retreis")

            assert memory.search("alpha retreis").suggestion == before == "alpha retries"


def test_a_session_of_ones_own_is_not_taken_for_another(memory: Memorist) -> None:
    memory.sessions.start(id="session-10")

    with pytest.raises(NotFound):
        memory.add("Retries are capped", session="session-1")


@pytest.mark.parametrize("end", [datetime.max.replace(tzinfo=UTC), "9999-12-31"])
def test_a_timeline_may_end_at_the_end_of_time(memory: Memorist, end: object) -> None:
    memory.add("Retries are capped")

    assert len(memory.timeline(end=end)) == 1


@pytest.mark.parametrize(
    "filters",
    [
        lambda: {"project": (name for name in ["api"])},
        lambda: {"tags": {"a"}},
        lambda: {"since": datetime(2026, 1, 1, tzinfo=UTC)},
    ],
)
def test_a_lens_takes_every_form_of_a_filter_that_a_search_takes(
    memory: Memorist, filters: Callable[[], dict[str, Any]]
) -> None:
    memory.add("Retries are capped", project="api", tags=["a"])
    memory.lenses.set("mine", **filters())

    assert len(memory.search("retries", lens="mine")) == 1


def test_adding_to_a_session_asks_nothing_of_what_is_in_it(path: Path) -> None:
    with record_statements() as seen, memorist.open(path, embedder="none") as memory:
        session = memory.sessions.start()
        memory.add_many({"content": f"note {number}", "session": session.id} for number in range(10))
        seen.clear()
        memory.add_many([{"content": "one more", "session": session.id}])

    assert not [sql for sql, _ in seen if "count(distinct u.rid)" in sql]
