"""Questions that name a time, asked of a memory."""

from datetime import UTC, datetime

import pytest

from memorist import InvalidInput, Memorist

NOW = datetime(2026, 4, 8, 12, tzinfo=UTC)  # a Wednesday
MEETINGS = {  # what was said at them is alike, so that only the time tells them apart
    "2026-01-14": "At the meeting we decided to paint the boats red",
    "2026-03-02": "At the meeting we decided to paint the boats blue",
    "2026-04-03": "At the meeting we decided to paint the boats green",
    "2026-04-07": "At the meeting we decided to paint the boats white",
}


@pytest.fixture
def meetings(understanding: Memorist) -> Memorist:
    for day, text in MEETINGS.items():
        understanding.add(text, created_at=f"{day}T12:00:00+00:00")
    return understanding


def colours(memory: Memorist, question: str, **options: object) -> list[str]:
    results = memory.search(question, **{"now": NOW, **options})  # type: ignore[arg-type]
    return [hit.memory.content.split()[-1] for hit in results]


@pytest.mark.parametrize(
    ("time", "colour"),
    [
        ("on 14 January 2026", "red"),
        ("in January", "red"),
        ("in March", "blue"),
        ("last month", "blue"),
        ("five weeks ago", "blue"),
        ("last week", "green"),
        ("yesterday", "white"),
        ("this week", "white"),
    ],
)
@pytest.mark.parametrize("profile", ["balanced", "precise", "fast"])
def test_what_is_from_that_time_comes_first(meetings: Memorist, time: str, colour: str, profile: str) -> None:
    found = colours(meetings, f"what did we decide at the meeting {time}?", profile=profile)

    assert found[0] == colour
    assert sorted(found) == ["blue", "green", "red", "white"]


def test_without_a_time_in_the_question_nothing_changes(meetings: Memorist) -> None:
    question = "what may we decide at the meeting?"

    assert meetings.search(question, now=NOW).hits == meetings.search(question, now=NOW, time_boost=0).hits


def test_a_clearly_better_answer_from_another_time_stays_first(meetings: Memorist) -> None:
    meetings.add("The lighthouse token_auth retired and moved to the coast", created_at="2025-11-03T12:00:00+00:00")

    assert colours(meetings, "why did the lighthouse token_auth retire last month?")[0] == "coast"


@pytest.mark.parametrize("profile", ["balanced", "precise"])
def test_the_trace_tells_what_the_time_added(meetings: Memorist, profile: str) -> None:
    best, *others = meetings.search("what did we decide in January?", now=NOW, profile=profile)

    assert best.trace["time"] > 0
    assert all(hit.trace.get("time", 0) < best.trace["time"] for hit in others)
    assert all(sum(hit.trace.values()) == pytest.approx(hit.score) for hit in (best, *others))


def test_relative_times_count_from_when_it_is_asked(meetings: Memorist) -> None:
    question = "what did we decide at the meeting last month?"

    assert colours(meetings, question)[0] == "blue"
    assert colours(meetings, question, now="2026-02-10")[0] == "red"


def test_asked_of_the_past_they_count_from_there(memory: Memorist) -> None:
    for day, text in MEETINGS.items():
        memory.add(text, created_at=f"{day}T12:00:00+00:00")
    written = datetime.now(UTC)
    year, month = divmod(written.year * 12 + written.month - 2, 12)
    memory.add(
        "At the meeting we decided to paint the boats black", created_at=datetime(year, month + 1, 15, tzinfo=UTC)
    )

    assert (
        colours(memory, "what did we decide at the meeting last month?", now=None, as_of=datetime.now(UTC))[0]
        == "black"
    )


@pytest.mark.parametrize("now", ["some day", [], object()])
def test_what_is_no_time_is_no_now(memory: Memorist, now: object) -> None:
    with pytest.raises(InvalidInput, match="now"):
        memory.search("boats", now=now)  # type: ignore[arg-type]


@pytest.mark.parametrize("time_boost", [-0.1, 1.1, "much"])
def test_the_weight_is_a_share(memory: Memorist, time_boost: object) -> None:
    with pytest.raises(InvalidInput, match="time_boost"):
        memory.search("boats", time_boost=time_boost)
