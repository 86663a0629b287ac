"""What happened, in order: between two times, around a memory, or around the best match of a query."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import memorist
from answers import ids, texts
from memorist import InvalidInput, Memorist, NotFound

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def local(*parts: int) -> datetime:
    """A time as the clock on the user's wall shows it."""
    return datetime(*parts).astimezone(UTC)  # type: ignore[arg-type]


@pytest.fixture
def days(memory: Memorist) -> list[str]:
    """Ten memories of ten days, added in another order than they happened."""
    order = [3, 7, 0, 9, 4, 1, 8, 2, 6, 5]
    made = {
        day: memory.add(f"day {day}", created_at=START + timedelta(days=day), on_near_duplicate="off").id
        for day in order
    }
    return [made[day] for day in range(10)]


class TestRange:
    def test_everything_in_the_order_it_happened(self, memory: Memorist, days: list[str]) -> None:
        timeline = memory.timeline()

        assert ids(timeline) == days
        assert timeline.anchor is None

    def test_from_a_time_to_a_time_both_included(self, memory: Memorist, days: list[str]) -> None:
        start, end = START + timedelta(days=2), START + timedelta(days=5)

        assert ids(memory.timeline(start=start, end=end)) == days[2:6]
        assert ids(memory.timeline(start=start)) == days[2:]
        assert ids(memory.timeline(end=end)) == days[:6]
        assert ids(memory.timeline(end=end - timedelta(microseconds=1))) == days[:5]
        assert ids(memory.timeline(start=start + timedelta(microseconds=1))) == days[3:]

    @pytest.mark.parametrize(
        ("start", "end", "found"),
        [
            ("2026-03-31", "2026-03-31", ["noon", "late"]),
            ("2026-03", "2026-03", ["noon", "late"]),
            ("2026-03-31", None, ["noon", "late", "april"]),
            (None, "2026-03", ["february", "noon", "late"]),
            (None, "2026-02-28", ["february"]),
            ("2026-04", "2026", ["april"]),
            ("2026-02", "2026-03-30", ["february"]),
        ],
    )
    def test_a_named_day_or_month_is_included_to_its_last_moment(
        self, memory: Memorist, start: str | None, end: str | None, found: list[str]
    ) -> None:
        memory.add("february", created_at=local(2026, 2, 28, 12))
        memory.add("noon", created_at=local(2026, 3, 31, 12))
        memory.add("late", created_at=local(2026, 3, 31, 23, 59, 59, 999_999))
        memory.add("april", created_at=local(2026, 4, 1))

        assert [one.summary for one in memory.timeline(start=start, end=end)] == found

    def test_it_takes_so_many_as_asked_from_the_start(self, memory: Memorist, days: list[str]) -> None:
        assert ids(memory.timeline(limit=3)) == days[:3]

    def test_a_range_in_one_or_several_projects(self, memory: Memorist) -> None:
        api, web, ops = (memory.add(f"of {name}", project=name).id for name in ("api", "web", "ops"))

        assert ids(memory.timeline(project="web")) == [web]
        assert ids(memory.timeline(project=["api", "ops"])) == [api, ops]
        assert ids(memory.timeline()) == [api, web, ops]

    def test_an_empty_range_is_empty(self, memory: Memorist, days: list[str]) -> None:
        timeline = memory.timeline(start="2020", end="2021")

        assert (timeline.memories, timeline.sessions, timeline.anchor) == ((), (), None)
        assert (timeline.before, timeline.after) == ((), ())

    @pytest.mark.local_only("a server refuses it in other words")
    @pytest.mark.parametrize(
        "options",
        [
            {"start": "soonish"},
            {"end": "soonish"},
            {"limit": 0},
            {"before": -1},
            {"after": "5"},
            {"detail": "none"},
            {"anchor": "a-memory", "query": "both"},
            {"anchor": 5},
            {"query": 5},
        ],
    )
    def test_what_cannot_be_used_is_refused(self, memory: Memorist, options: dict[str, Any]) -> None:
        memory.add("a memory", id="a-memory")

        with pytest.raises(InvalidInput):
            memory.timeline(**options)


class TestAnchor:
    def test_the_nearest_on_both_sides_with_the_anchor_in_the_middle(self, memory: Memorist, days: list[str]) -> None:
        timeline = memory.timeline(anchor=days[5], before=2, after=3)

        assert ids(timeline) == days[3:9]
        assert timeline.anchor == days[5]
        assert ids(timeline.before) == days[3:5]
        assert ids(timeline.after) == days[6:9]

    def test_five_on_each_side_unless_told(self, memory: Memorist) -> None:
        made = [
            memory.add(f"day {n}", created_at=START + timedelta(days=n), on_near_duplicate="off").id for n in range(20)
        ]

        assert ids(memory.timeline(anchor=made[10])) == made[5:16]

    @pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 2), (2, 0), (100, 100)])
    def test_any_depth_will_do(self, memory: Memorist, days: list[str], before: int, after: int) -> None:
        timeline = memory.timeline(anchor=days[4], before=before, after=after)

        assert ids(timeline) == days[max(0, 4 - before) : 5 + after]

    def test_at_either_end_there_is_less(self, memory: Memorist, days: list[str]) -> None:
        assert ids(memory.timeline(anchor=days[0], before=2, after=2)) == days[:3]
        assert ids(memory.timeline(anchor=days[9], before=2, after=2)) == days[7:]

    def test_a_part_of_the_id_will_do(self, memory: Memorist, days: list[str]) -> None:
        assert memory.timeline(anchor=days[5][-8:]).anchor == days[5]

    def test_ties_are_in_the_order_they_were_added_and_none_is_lost(self, memory: Memorist) -> None:
        made = memory.add_many({"content": f"tie {number}", "created_at": START} for number in range(9))

        assert ids(memory.timeline()) == made
        for place in range(9):
            timeline = memory.timeline(anchor=made[place], before=2, after=2)
            assert ids(timeline) == made[max(0, place - 2) : place + 3]
            assert ids(timeline.before) == made[max(0, place - 2) : place]

    def test_neighbours_come_from_the_project_of_the_anchor(self, memory: Memorist) -> None:
        made = {}
        for number in range(6):
            project = ("api", "web")[number % 2]
            made[number] = memory.add(f"day {number}", project=project, created_at=START + timedelta(days=number)).id

        assert ids(memory.timeline(anchor=made[2])) == [made[0], made[2], made[4]]
        assert ids(memory.timeline(anchor=made[2], project="web")) == [made[1], made[2], made[3], made[5]]
        assert ids(memory.timeline(anchor=made[2], project=["api", "web"])) == list(made.values())

    def test_a_range_narrows_what_is_around(self, memory: Memorist, days: list[str]) -> None:
        start, end = START + timedelta(days=4), START + timedelta(days=6)

        assert ids(memory.timeline(anchor=days[5], start=start, end=end)) == days[4:7]

    def test_an_unknown_anchor_is_an_error(self, memory: Memorist, days: list[str]) -> None:
        with pytest.raises(NotFound, match="no memory has the id 'nobody-has-this'"):
            memory.timeline(anchor="nobody-has-this")

    def test_a_forgotten_anchor_is_an_error_that_says_so(self, memory: Memorist, days: list[str]) -> None:
        memory.forget(days[5])

        with pytest.raises(NotFound, match="was forgotten"):
            memory.timeline(anchor=days[5])

    def test_an_anchor_of_another_namespace_is_unknown(self, memory: Memorist, path: Path, days: list[str]) -> None:
        with memorist.open(path, embedder="none", namespace="other") as other:
            with pytest.raises(NotFound):
                other.timeline(anchor=days[5])
            assert ids(other.timeline()) == []

    def test_forgotten_memories_are_left_out(self, memory: Memorist, days: list[str]) -> None:
        memory.forget(days[4])
        memory.forget(days[6], hard=True)

        assert ids(memory.timeline(anchor=days[5], before=1, after=1)) == [days[3], days[5], days[7]]
        assert ids(memory.timeline()) == [*days[:4], days[5], *days[7:]]


class TestQuery:
    def test_it_is_around_the_best_match(self, memory: Memorist, days: list[str]) -> None:
        badger = memory.add("a badger at last", created_at=START + timedelta(days=4, hours=1))

        timeline = memory.timeline(query="badger", before=1, after=1)

        assert timeline.anchor == badger.id
        assert ids(timeline) == [days[4], badger.id, days[5]]

    def test_without_a_match_it_is_empty(self, memory: Memorist, days: list[str]) -> None:
        for query in ("zebra", "", "   "):
            timeline = memory.timeline(query=query)
            assert (timeline.memories, timeline.anchor, timeline.sessions) == ((), None, ())

    def test_the_match_is_looked_for_in_the_project(self, memory: Memorist) -> None:
        memory.add("badger badger badger", project="api")
        web = memory.add("one badger among many other animals of the wood", project="web")

        assert memory.timeline(query="badger", project="web").anchor == web.id

    def test_the_match_is_looked_for_since_the_start(self, memory: Memorist) -> None:
        memory.add("badger of march", created_at="2026-03-10T12:00Z")
        april = memory.add("badger of april with more words around it", created_at="2026-04-10T12:00Z")

        assert memory.timeline(query="badger", start="2026-04").anchor == april.id

    def test_the_match_is_looked_for_until_the_end(self, memory: Memorist) -> None:
        march = memory.add("badger of march with more words around it", created_at="2026-03-10T12:00Z")
        memory.add("badger of april", created_at="2026-04-10T12:00Z")

        assert memory.timeline(query="badger", end="2026-03").anchor == march.id

    def test_meaning_will_do(self, hashed: Memorist) -> None:
        badger = hashed.add("a badger at last")
        hashed.add("otters", on_near_duplicate="off")

        assert hashed.timeline(query="badger at").anchor == badger.id


class TestSessions:
    def test_every_session_comes_once_in_the_order_they_began(self, memory: Memorist) -> None:
        for id in ("sess1", "sess2", "sess3"):
            memory.sessions.start("proj1", id=id, summary=f"of {id}")
        made = []
        for number, id in enumerate(["sess2", "sess1", "sess2", None, "sess1", "sess3"]):
            moment = START + timedelta(days=number)
            made.append(memory.add(f"day {number}", session=id, created_at=moment, on_near_duplicate="off"))

        timeline = memory.timeline(end=START + timedelta(days=4))

        assert [(session.id, session.summary) for session in timeline.sessions] == [
            ("sess1", "of sess1"),
            ("sess2", "of sess2"),
        ]
        around = memory.timeline(anchor=made[3].id, before=1, after=1)
        assert [session.id for session in around.sessions] == ["sess1", "sess2"]
        assert [one.session and one.session.id for one in around] == ["sess2", None, "sess1"]

    def test_timeline_includes_session_info(self, memory: Memorist) -> None:
        memory.sessions.start("proj1", id="sess1")
        first = memory.add("First", project="proj1", session="sess1")
        second = memory.add("Second", project="proj1", session="sess1")

        timeline = memory.timeline(anchor=second.id, before=2, after=2)

        assert timeline.anchor == second.id
        assert ids(timeline.before) == [first.id]
        assert [session.id for session in timeline.sessions] == ["sess1"]
        assert timeline.sessions[0].memories == 2


class TestRows:
    def test_index_rows_have_what_an_index_needs_and_no_text(self, memory: Memorist) -> None:
        added = memory.add("We deploy with make ship", kind="howto", tags=["deploy"], metadata={"a": 1})

        (row,) = memory.timeline()

        assert (row.id, row.created_at, row.kind, row.tags) == (added.id, added.created_at, "howto", ("deploy",))
        assert row.summary == "We deploy with make ship"
        assert (row.content, row.metadata) == ("", {})

    def test_its_own_summary_comes_before_the_first_characters(self, memory: Memorist) -> None:
        memory.add("long " * 100, summary="how to ship")

        assert memory.timeline()[0].summary == "how to ship"

    @pytest.mark.parametrize(
        "content", ["word " * 100, "x" * 300, "部署" * 200, "\U0001f980 " * 100, "two\nlines " * 50]
    )
    def test_a_long_text_is_cut_at_about_a_hundred_characters(self, memory: Memorist, content: str) -> None:
        memory.add(content)

        summary = memory.timeline()[0].summary

        assert summary is not None
        assert summary.endswith("…")
        assert 50 <= len(summary) <= 101
        assert " ".join(content.split()).startswith(summary.removesuffix("…"))

    def test_a_short_text_is_its_own_summary(self, memory: Memorist) -> None:
        memory.add("x" * 100)

        assert memory.timeline()[0].summary == "x" * 100

    @pytest.mark.parametrize("form", [{}, {"anchor": "a-memory"}, {"query": "badger"}])
    def test_more_detail_on_request_in_every_form(self, memory: Memorist, form: dict[str, str]) -> None:
        content = "badger " * 100
        added = memory.add(content, id="a-memory", metadata={"a": 1})

        (index,) = memory.timeline(**form)
        (snippet,) = memory.timeline(**form, detail="snippet")
        (full,) = memory.timeline(**form, detail="full")

        assert index.content == ""
        assert 0 < len(snippet.content) <= 301
        assert snippet.content.startswith("badger badger")
        assert full == added
        assert texts([full]) == [content]
