"""What a first user of the new calls ran into."""

from pathlib import Path

import pytest

import recollect
from recollect import Ambiguous, InvalidInput, NotFound, Recollect


def test_a_part_of_a_session_id_is_enough_wherever_one_is_asked_for(memory: Recollect) -> None:
    session = memory.start_session("api")
    part = session.id[-8:]

    added = memory.add("Retries are capped", session=part)
    memory.update(added.id, title="Retries", session=part)
    memory.reinforce(added.id, session=part)

    assert memory.get(added.id).session.id == session.id
    assert memory.session(part).memories == 1


def test_a_memory_cannot_be_replaced_from_a_time_that_lies_ahead(memory: Recollect) -> None:
    old, new = memory.add("The port is 8080"), memory.add("The port is 9090")

    with pytest.raises(InvalidInput, match="lies ahead"):
        memory.supersede(old.id, new.id, at="in 2 days")


def test_the_same_text_in_two_projects_is_no_duplicate(memory: Recollect) -> None:
    for project in ("one", "two"):
        memory.add("The quick brown fox jumps over the lazy dog", project=project)

    assert memory.duplicates() == []


def test_merging_takes_over_tags_facts_and_pins_and_can_be_undone(memory: Recollect) -> None:
    old = memory.add("Retries are capped at 5", tags=["old"], facts=["the cap is five"])
    memory.pin(old.id)
    new = memory.add("Retries are capped at 5 now", tags=["new"])

    kept = memory.merge(new.id, [old.id])

    assert (kept.tags, kept.pinned, [fact.text for fact in kept.facts]) == (("new", "old"), True, ["the cap is five"])
    assert [hit.memory.id for hit in memory.search("five")] == [new.id]
    assert memory.unsupersede(old.id).tags == ("old",)
    assert memory.check().ok


def test_a_merge_that_cannot_be_done_changes_nothing(memory: Recollect) -> None:
    kept, other = memory.add("one thing", tags=["a"]), memory.add("another thing", tags=["b"])

    with pytest.raises(NotFound):
        memory.merge(kept.id, [other.id, "nobody-has-this"])

    assert memory.get(other.id).valid_until is None
    assert memory.get(kept.id).tags == ("a",)


def test_what_was_recalled_a_moment_ago_is_seen_by_every_call(memory: Recollect) -> None:
    session = memory.start_session()
    found = memory.add("Retries are capped")
    memory.search("retries", record_session=session.id)

    assert memory.get(found.id).access_count == 1
    memory.search("retries", record_session=session.id)
    assert memory.list()[0].access_count == 2
    memory.search("retries", record_session=session.id)
    assert [one.id for one in memory.list(recalled=True)] == [found.id]
    assert memory.session(session.id).memories == 1
    assert [hit.memory.id for hit in memory.search("capped", session=session.id)] == [found.id]
    assert memory.stats().recalls == 3


def test_naming_the_session_one_is_in_is_enough_to_have_a_search_logged(memory: Recollect) -> None:
    session = memory.start_session()
    memory.add("Retries are capped")

    memory.search("retries", record_session=session.id)
    memory.search("capped", record_session=session.id, record="off")

    assert [recall.query for recall in memory.recalls()] == ["retries"]


def test_a_timeline_around_what_did_not_exist_yet_is_refused(memory: Recollect) -> None:
    anchor = memory.add("Retries are capped")

    with pytest.raises(NotFound, match="did not exist yet"):
        memory.timeline(anchor=anchor.id, as_of="2020-01-01")


def test_a_timeline_around_a_query_looks_only_within_its_times(memory: Recollect) -> None:
    memory.add("Retries are capped")

    assert list(memory.timeline(query="retries", end="2020-01-01")) == []


def test_a_timelines_search_leaves_no_trace_in_a_profile_that_records(path: Path) -> None:
    with recollect.open(path, embedder="none", profile="salience") as memory:
        added = memory.add("about boats")

        memory.timeline(query="boats")

        assert memory.recalls() == []
        assert memory.get(added.id).salience == added.salience


def test_a_memory_is_counted_once_among_what_was_held_back(memory: Recollect) -> None:
    old = memory.add("Retries are capped at 5", project="api")
    new = memory.add("Retries are capped at 3", project="api")
    memory.supersede(old.id, new.id)

    assert memory.search("retries", project="web").hidden == {"project": 2}
    assert memory.search("retries", project="api").hidden == {"superseded": 1}


def test_a_fact_said_again_takes_on_what_is_said_of_it(memory: Recollect) -> None:
    note = memory.add("Anna moved")
    memory.add_fact(note.id, "Anna lives in Lisbon", confidence=0.5)

    again = memory.add_fact(note.id, "Anna lives in Lisbon", confidence=0.9, kind="location", subject="Anna")

    assert (again.kind, again.subject, again.confidence) == ("location", "Anna", 0.9)
    assert len(memory.get(note.id).facts) == 1


def test_a_part_of_a_fact_id_that_several_have_is_refused_with_the_choices(memory: Recollect) -> None:
    note = memory.add("Anna moved", facts=["one", "two"])
    shared = note.facts[0].id[:8]
    if not note.facts[1].id.startswith(shared):
        pytest.skip("the clock passed on between the two")

    with pytest.raises(Ambiguous):
        memory.remove_fact(shared)


def test_a_memory_cannot_replace_itself(memory: Recollect) -> None:
    only = memory.add("The port is 8080")

    with pytest.raises(InvalidInput, match="cannot replace itself"):
        memory.supersede(only.id, only.id)


def test_it_can_be_told_what_a_memory_replaced(memory: Recollect) -> None:
    first, second, third = (memory.add(f"The port is {port}") for port in (80, 81, 82))
    memory.supersede(first.id, second.id)
    memory.supersede(second.id, third.id)

    assert [memory_.id for memory_ in memory.replaced(third.id)] == [second.id]
    assert memory.replaced(first.id) == []
