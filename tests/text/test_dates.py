"""What people mean by a time: every way to say one, in every zone, over every change of the clock."""

import string
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from memorist.text.dates import Period, find_periods, parse_period

BERLIN = "Europe/Berlin"
EASTWARD = timezone(timedelta(hours=2))  # for all that no change of the clock concerns
ZONES = (
    BERLIN,
    "America/New_York",
    "America/Havana",  # the clock changes at midnight, so one day has none and one has two
    "America/Sao_Paulo",
    "Asia/Kolkata",
    "Australia/Lord_Howe",  # by half an hour
    "Pacific/Apia",  # left out 30 December 2011
)
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()


def known(names: Iterable[str]) -> Iterator[ZoneInfo]:
    """The zones among these that this system has the rules of: some systems come without a tz database."""
    for name in names:
        with suppress(ZoneInfoNotFoundError):
            yield ZoneInfo(name)


def zone_of(name: str) -> ZoneInfo:
    return next(known([name]), None) or pytest.skip(f"this system does not know {name}")


def shown(found: Period | None, zone: tzinfo) -> str | None:
    """An instant as "2026-04-08 15:30", a stretch as "2026-04-08 to 2026-04-09": in the zone, midnight left out."""
    if found is None:
        return None
    assert found.start.tzinfo is UTC
    assert found.end.tzinfo is UTC
    start, end = (
        f"{edge.astimezone(zone).replace(tzinfo=None)}".removesuffix(":00").removesuffix(" 00:00")
        for edge in (found.start, found.end)
    )
    return start if found.start == found.end else f"{start} to {end}"


def means(said: object, now: str = "2026-04-08 15:30", zone: tzinfo = EASTWARD) -> str | None:
    """What is meant at a local time; unless told otherwise, in the afternoon of Wednesday, 8 April 2026."""
    return shown(parse_period(said, datetime.fromisoformat(now).replace(tzinfo=zone), zone), zone)


class TestWhatIsSaid:
    @pytest.mark.parametrize(
        ("said", "meant"),
        [
            ("now", "2026-04-08 15:30"),
            ("an hour ago", "2026-04-08 14:30"),
            ("10 min ago", "2026-04-08 15:20"),
            ("10 mins ago", "2026-04-08 15:20"),
            ("90s ago", "2026-04-08 15:28:30"),
            ("a second ago", "2026-04-08 15:29:59"),
            ("a couple of hours ago", "2026-04-08 13:30"),
            ("24h", "2026-04-07 15:30"),
            ("90m", "2026-04-08 14:00"),
            ("in 2 hours", "2026-04-08 17:30"),
            ("in half a year", None),
            ("2 hours", "2026-04-08 13:30"),
            ("thirteen hours ago", None),
            ("hours ago", None),
            ("in 2 hours ago", None),
        ],
    )
    def test_hours_minutes_and_seconds_lead_to_an_instant(self, said: str, meant: str | None) -> None:
        assert means(said) == meant

    @pytest.mark.parametrize(
        ("said", "meant"),
        [
            ("today", "2026-04-08 to 2026-04-09"),
            ("yesterday", "2026-04-07 to 2026-04-08"),
            ("  YesterDay\t", "2026-04-07 to 2026-04-08"),
            ("tomorrow", "2026-04-09 to 2026-04-10"),
            ("the day before yesterday", "2026-04-06 to 2026-04-07"),
            ("day after tomorrow", "2026-04-10 to 2026-04-11"),
            ("a day ago", "2026-04-07 to 2026-04-08"),
            ("two  days   ago", "2026-04-06 to 2026-04-07"),
            ("twelve days ago", "2026-03-27 to 2026-03-28"),
            ("a couple of days ago", "2026-04-06 to 2026-04-07"),
            ("a couple days ago", "2026-04-06 to 2026-04-07"),
            ("3d ago", "2026-04-05 to 2026-04-06"),
            ("0 days ago", "2026-04-08 to 2026-04-09"),
            ("3 weeks ago", "2026-03-18 to 2026-03-19"),
            ("2w", "2026-03-25 to 2026-03-26"),
            ("5 months ago", "2025-11-08 to 2025-11-09"),
            ("6mo", "2025-10-08 to 2025-10-09"),
            ("1 year ago", "2025-04-08 to 2025-04-09"),
            ("in 2 days", "2026-04-10 to 2026-04-11"),
            ("in a year", "2027-04-08 to 2027-04-09"),
        ],
    )
    def test_days_and_all_that_is_longer_lead_to_a_whole_day(self, said: str, meant: str) -> None:
        assert means(said) == meant

    @pytest.mark.parametrize(
        ("now", "said", "meant"),
        [
            ("2026-03-31 12:00", "1 month ago", "2026-02-28 to 2026-03-01"),
            ("2024-03-31 12:00", "1 month ago", "2024-02-29 to 2024-03-01"),
            ("2024-02-29 12:00", "1 year ago", "2023-02-28 to 2023-03-01"),
            ("2024-02-29 12:00", "4 years ago", "2020-02-29 to 2020-03-01"),
            ("2026-01-31 12:00", "2 months ago", "2025-11-30 to 2025-12-01"),
            ("2025-12-31 12:00", "in 2 months", "2026-02-28 to 2026-03-01"),
        ],
    )
    def test_a_day_its_month_does_not_have_is_the_last_it_has(self, now: str, said: str, meant: str) -> None:
        assert means(said, now) == meant

    @pytest.mark.parametrize(
        ("said", "meant"),
        [
            ("last week", "2026-03-30 to 2026-04-06"),
            ("this week", "2026-04-06 to 2026-04-13"),
            ("last weekend", "2026-04-04 to 2026-04-06"),
            ("this weekend", "2026-04-11 to 2026-04-13"),
            ("next week", "2026-04-13 to 2026-04-20"),
            ("last month", "2026-03-01 to 2026-04-01"),
            ("this month", "2026-04-01 to 2026-05-01"),
            ("next month", "2026-05-01 to 2026-06-01"),
            ("last quarter", "2026-01-01 to 2026-04-01"),
            ("this quarter", "2026-04-01 to 2026-07-01"),
            ("next quarter", "2026-07-01 to 2026-10-01"),
            ("last year", "2025-01-01 to 2026-01-01"),
            ("this year", "2026-01-01 to 2027-01-01"),
            ("next year", "2027-01-01 to 2028-01-01"),
            ("last day", None),
            ("week", None),
        ],
    )
    def test_weeks_months_quarters_and_years_are_those_of_the_calendar(self, said: str, meant: str | None) -> None:
        assert means(said) == meant

    @pytest.mark.parametrize(
        ("said", "meant"),
        [
            ("tuesday", "2026-04-07 to 2026-04-08"),
            ("tue", "2026-04-07 to 2026-04-08"),
            ("wednesday", "2026-04-08 to 2026-04-09"),
            ("Thurs", "2026-04-02 to 2026-04-03"),
            ("last tuesday", "2026-04-07 to 2026-04-08"),
            ("last wed", "2026-04-01 to 2026-04-02"),
            ("this tuesday", "2026-04-07 to 2026-04-08"),
            ("this sunday", "2026-04-12 to 2026-04-13"),
            ("next wednesday", "2026-04-15 to 2026-04-16"),
            ("next thursday", "2026-04-09 to 2026-04-10"),
        ],
    )
    def test_a_weekday_is_the_nearest_that_fits(self, said: str, meant: str) -> None:
        assert means(said) == meant

    @pytest.mark.parametrize(
        ("said", "meant"),
        [
            ("march", "2026-03-01 to 2026-04-01"),
            ("april", "2026-04-01 to 2026-05-01"),
            ("may", "2025-05-01 to 2025-06-01"),
            ("last march", "2026-03-01 to 2026-04-01"),
            ("last april", "2025-04-01 to 2025-05-01"),
            ("this may", "2026-05-01 to 2026-06-01"),
            ("next april", "2027-04-01 to 2027-05-01"),
            ("next may", "2026-05-01 to 2026-06-01"),
            ("march 2026", "2026-03-01 to 2026-04-01"),
            ("Mar 2026", "2026-03-01 to 2026-04-01"),
            ("sept 2025", "2025-09-01 to 2025-10-01"),
            ("5 march 2026", "2026-03-05 to 2026-03-06"),
            ("5 March, 2026", "2026-03-05 to 2026-03-06"),
            ("march 5, 2026", "2026-03-05 to 2026-03-06"),
            ("march 5th 2026", "2026-03-05 to 2026-03-06"),
            ("march 5", "2026-03-05 to 2026-03-06"),
            ("5th of march", "2026-03-05 to 2026-03-06"),
            ("the 5th of march 2024", "2024-03-05 to 2024-03-06"),
            ("april 8", "2026-04-08 to 2026-04-09"),
            ("april 9", "2025-04-09 to 2025-04-10"),
            ("december 2030", "2030-12-01 to 2031-01-01"),
            ("feb 29", "2024-02-29 to 2024-03-01"),
            ("feb 29 2025", None),
            ("feb 30", None),
            ("march 0", None),
            ("5 smarch", None),
            ("march 5 26", None),
        ],
    )
    def test_a_month_or_date_without_a_year_is_the_latest_not_after_today(self, said: str, meant: str | None) -> None:
        assert means(said) == meant

    def test_a_leap_day_is_found_over_the_eight_years_a_century_without_one_makes(self) -> None:
        assert means("feb 29", "1904-02-28 12:00") == "1896-02-29 to 1896-03-01"

    @pytest.mark.parametrize(
        ("said", "meant"),
        [
            ("yesterday 14:30", "2026-04-07 14:30"),
            ("yesterday at 14:30:15", "2026-04-07 14:30:15"),
            ("yesterday at 2pm", "2026-04-07 14:00"),
            ("yesterday at 2:30 PM", "2026-04-07 14:30"),
            ("yesterday, 9:05", "2026-04-07 09:05"),
            ("today at noon", "2026-04-08 12:00"),
            ("today at midnight", "2026-04-08"),
            ("today at 12am", "2026-04-08"),
            ("today at 12pm", "2026-04-08 12:00"),
            ("last tuesday at 8am", "2026-04-07 08:00"),
            ("march 5 at 8:00", "2026-03-05 08:00"),
            ("2026-03-31 at 8pm", "2026-03-31 20:00"),
            ("2026-03-31 8:15", "2026-03-31 08:15"),
            ("3 days ago at 18:00", "2026-04-05 18:00"),
            ("yesterday at 2", None),
            ("yesterday at 13pm", None),
            ("yesterday at 0am", None),
            ("yesterday at 24:00", None),
            ("yesterday at 14:60", None),
            ("march at 14:30", None),
            ("now at 14:30", None),
            ("smarch 5 at 14:30", None),
        ],
    )
    def test_a_time_belongs_to_one_day(self, said: str, meant: str | None) -> None:
        assert means(said) == meant

    @pytest.mark.parametrize(
        ("said", "meant"),
        [
            ("this morning", "2026-04-08 06:00 to 2026-04-08 12:00"),
            ("yesterday afternoon", "2026-04-07 12:00 to 2026-04-07 18:00"),
            ("yesterday evening", "2026-04-07 18:00 to 2026-04-08"),
            ("last night", "2026-04-07 18:00 to 2026-04-08 06:00"),
            ("tonight", "2026-04-08 18:00 to 2026-04-09 06:00"),
            ("tuesday morning", "2026-04-07 06:00 to 2026-04-07 12:00"),
            ("last week morning", None),
        ],
    )
    def test_a_part_of_a_day_is_some_hours_of_it(self, said: str, meant: str | None) -> None:
        assert means(said) == meant

    @pytest.mark.parametrize(
        ("said", "meant"),
        [
            ("noon", "2026-04-08 12:00"),
            ("midnight", "2026-04-08"),
            ("at noon", "2026-04-08 12:00"),
            ("3pm", "2026-04-08 15:00"),
            ("3:30 pm", "2026-04-08 15:30"),
            ("5pm", "2026-04-07 17:00"),
            ("at 17:00", "2026-04-07 17:00"),
            ("5", None),
            ("at 5", None),
            ("25:00", None),
        ],
    )
    def test_a_time_without_a_day_is_the_latest_not_after_now(self, said: str, meant: str | None) -> None:
        assert means(said) == meant

    @pytest.mark.parametrize(
        ("said", "meant"),
        [
            ("a fortnight ago", "2026-03-25 to 2026-03-26"),
            ("two fortnights ago", "2026-03-11 to 2026-03-12"),
            ("in a fortnight", "2026-04-22 to 2026-04-23"),
        ],
    )
    def test_a_fortnight_is_two_weeks(self, said: str, meant: str) -> None:
        assert means(said) == meant

    @pytest.mark.parametrize(
        ("said", "meant"),
        [
            ("Q1 2026", "2026-01-01 to 2026-04-01"),
            ("q4, 2025", "2025-10-01 to 2026-01-01"),
            ("Q3 of 2025", "2025-07-01 to 2025-10-01"),
            ("2025-Q2", "2025-04-01 to 2025-07-01"),
            ("2025Q2", "2025-04-01 to 2025-07-01"),
            ("2025 q2", "2025-04-01 to 2025-07-01"),
            ("Q2", "2026-04-01 to 2026-07-01"),
            ("Q3", "2025-07-01 to 2025-10-01"),
            ("Q5 2026", None),
            ("Q0", None),
        ],
    )
    def test_a_quarter_has_a_number(self, said: str, meant: str | None) -> None:
        assert means(said) == meant

    @pytest.mark.parametrize(
        ("said", "meant"),
        [
            ("from March 2023 to June 2023", "2023-03-01 to 2023-07-01"),
            ("March 2023 to June 2023", "2023-03-01 to 2023-07-01"),
            ("between March 2023 and June 2023", "2023-03-01 to 2023-07-01"),
            ("from march to june 2023", "2023-03-01 to 2023-07-01"),
            ("from march to june", "2025-03-01 to 2025-07-01"),
            ("from 2021 until 2023", "2021-01-01 to 2024-01-01"),
            ("2023-03-05 to 2023-03-07", "2023-03-05 to 2023-03-08"),
            ("Q1 2025 to Q2 2025", "2025-01-01 to 2025-07-01"),
            ("from monday to today", "2026-04-06 to 2026-04-09"),
            ("from 3 weeks ago to 2 weeks ago", "2026-03-18 to 2026-03-26"),
            ("from yesterday at noon to now", "2026-04-07 12:00 to 2026-04-08 15:30"),
            ("from June 2023 to March 2023", None),
            ("from soon to June 2023", None),
            ("from March 2023 to later", None),
            ("from march to april to may", None),
            ("between march to june", None),
            ("march and june", None),
            ("from to", None),
        ],
    )
    def test_from_a_time_to_a_time_is_both_and_all_between(self, said: str, meant: str | None) -> None:
        assert means(said) == meant

    def test_every_weekday_is_found_from_every_day(self) -> None:
        for today in (date(2026, 4, 6) + timedelta(days) for days in range(7)):
            noon = datetime.combine(today, datetime.min.time(), UTC) + timedelta(hours=12)
            for number, name in enumerate(WEEKDAYS):
                days = [today + timedelta(away) for away in range(-7, 8)]
                same = [day for day in days if day.weekday() == number]
                expected = {
                    name: max(day for day in same if day <= today),
                    f"last {name}": max(day for day in same if day < today),
                    f"this {name}": next(day for day in same if day.isocalendar().week == today.isocalendar().week),
                    f"next {name}": min(day for day in same if day > today),
                }
                for said, day in expected.items():
                    assert parse_period(said, noon, UTC) == parse_period(day, noon, UTC), (today, said)


class TestWhatIsWritten:
    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("2026", "2026-01-01 to 2027-01-01"),
            ("2026-03", "2026-03-01 to 2026-04-01"),
            ("2026-12", "2026-12-01 to 2027-01-01"),
            ("2026-W12", "2026-03-16 to 2026-03-23"),
            ("2026w12", "2026-03-16 to 2026-03-23"),
            ("2026-W12-3", "2026-03-18 to 2026-03-19"),
            ("2026-03-31", "2026-03-31 to 2026-04-01"),
            ("2026-3-31", "2026-03-31 to 2026-04-01"),
            ("20260331", "2026-03-31 to 2026-04-01"),
            ("2026/03/31", "2026-03-31 to 2026-04-01"),
            ("31.03.2026", "2026-03-31 to 2026-04-01"),
            ("3.4.2026", "2026-04-03 to 2026-04-04"),
            (date(2026, 3, 31), "2026-03-31 to 2026-04-01"),
        ],
    )
    def test_a_date_is_a_day_and_less_of_it_a_week_month_or_year(self, written: object, meant: str) -> None:
        assert means(written) == meant

    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("2026-03-31T18:00", "2026-03-31 18:00"),
            ("2026-03-31 18:00", "2026-03-31 18:00"),
            ("2026-03-31 18:00:05.25", "2026-03-31 18:00:05.250000"),
            ("2026-03-31T18:00Z", "2026-03-31 20:00"),
            ("2026-03-31t18:00z", "2026-03-31 20:00"),
            ("2026-03-31T18:00:00+05:30", "2026-03-31 14:30"),
            ("2026-03-31 18:00:00 -0400", "2026-04-01"),
            ("20260331T1800Z", "2026-03-31 20:00"),
            ("2026-W14-2T18:00", "2026-03-31 18:00"),
            ("1774972800", "2026-03-31 18:00"),
            ("1774972800.25", "2026-03-31 18:00:00.250000"),
            (1774972800, "2026-03-31 18:00"),
            (1774972800.25, "2026-03-31 18:00:00.250000"),
            (0, "1970-01-01 02:00"),
            (datetime(2026, 3, 31, 18), "2026-03-31 18:00"),
            (datetime(2026, 3, 31, 18, 0, 0, 123456), "2026-03-31 18:00:00.123456"),
            (datetime(2026, 3, 31, 18, tzinfo=UTC), "2026-03-31 20:00"),
            (datetime(2026, 3, 31, 18, tzinfo=timezone(timedelta(hours=-4))), "2026-04-01"),
        ],
    )
    def test_a_time_of_day_is_an_instant_exact_where_it_has_a_zone(self, written: object, meant: str) -> None:
        assert means(written) == meant

    @pytest.mark.parametrize("written", ["03/04/2026", "31/03/2026", "3/4/26", "03-04-2026", "03.04.26"])
    def test_a_date_that_could_be_another_is_refused(self, written: str) -> None:
        assert means(written) is None

    @pytest.mark.parametrize(
        "value",
        [
            "",
            " ",
            "the",
            "soon",
            "ago",
            "in",
            "last",
            "2026-02-30",
            "2026-13",
            "2026-00",
            "2026-W54",
            "2026-W00",
            "2025-W53",
            "2026-03/31",
            "2026-03-31T25:00",
            "2026-03-31x18:00",
            "2026-03-31T18:00+99:00",
            "2026-03-31 18:00 2pm",
            "0000",
            "0000-01-01",
            "0001-01-01",
            "99999",
            "10000-01-01",
            "99999 years ago",
            "9999999999999999999999 days ago",
            "in 9999999999999999999999 hours",
            "in 9000 years",
            "9" * 100 + "h",
            "177497280000",
            "1774972800000",
            "2026-W12 18:00",
            "２０２６-03-31",
            "３ days ago",
            "٣ days ago",
            "² days ago",
            "yesterday\x00",
            "\ud800",
            "x" * 10_000,
            "today" + " " * 10_000,
            "a " * 50,
            "a couple of " * 8 + "days",
            "1" * 100,
            "yesterday at " * 7,
            True,
            False,
            None,
            b"2026",
            [],
            object(),
            float("nan"),
            float("inf"),
            1e300,
            10**400,
            -(10**12),
            date.min,
            datetime.min,
            datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
            datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
        ],
    )
    def test_whatever_is_no_time_is_none(self, value: object) -> None:
        assert means(value) is None

    @pytest.mark.parametrize("written", ["9999-12-31", date.max])
    def test_the_last_day_of_the_calendar_has_an_end_though_no_day_follows(self, written: object) -> None:
        assert parse_period(written, zone=UTC) == Period(
            datetime(9999, 12, 31, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
        )

    def test_a_naive_now_is_in_the_zone(self) -> None:
        night = datetime(2026, 4, 8, 1)

        assert parse_period("now", night, EASTWARD) == parse_period("2026-04-07T23:00Z")
        assert parse_period("today", night, EASTWARD) == parse_period("2026-04-08", zone=EASTWARD)

    def test_without_now_it_is_the_present(self) -> None:
        before = datetime.now(UTC)
        found = parse_period("now")

        assert found is not None
        assert before <= found.start == found.end <= datetime.now(UTC)


class TestWhereTheClockChanges:
    """Of changes in the past: rules for those to come may be others in the next release of the tz database."""

    @pytest.mark.parametrize(
        ("name", "day", "hours"),
        [
            (BERLIN, "2025-03-30", 23),
            (BERLIN, "2025-10-26", 25),
            ("America/New_York", "2025-03-09", 23),
            ("America/New_York", "2025-11-02", 25),
            ("America/Havana", "2025-03-09", 23),
            ("America/Havana", "2025-11-02", 25),
            ("America/Sao_Paulo", "2018-11-04", 23),
            ("America/Sao_Paulo", "2018-02-17", 25),
            ("Australia/Lord_Howe", "2025-10-05", 23.5),
            ("Australia/Lord_Howe", "2025-04-06", 24.5),
            ("Asia/Kolkata", "2025-03-30", 24),
            ("Pacific/Apia", "2011-12-30", 0),
        ],
    )
    def test_a_day_is_as_long_as_it_was(self, name: str, day: str, hours: float) -> None:
        found = parse_period(day, zone=zone_of(name))

        assert found is not None
        assert found.end - found.start == timedelta(hours=hours)

    @pytest.mark.parametrize(
        ("name", "now", "said", "meant"),
        [
            (BERLIN, "2025-03-31 00:30", "yesterday", "2025-03-30 to 2025-03-31"),
            (BERLIN, "2025-10-27 00:30", "yesterday", "2025-10-26 to 2025-10-27"),
            (BERLIN, "2025-10-26 23:30", "today", "2025-10-26 to 2025-10-27"),
            (BERLIN, "2025-03-30 12:00", "24 hours ago", "2025-03-29 11:00"),
            (BERLIN, "2025-03-30 12:00", "1 day ago", "2025-03-29 to 2025-03-30"),
            (BERLIN, "2025-10-26 12:00", "24h", "2025-10-25 13:00"),
            (BERLIN, "2025-10-27 00:30", "24h", "2025-10-26 01:30"),
            (BERLIN, "2025-03-30 04:00", "3 hours ago", "2025-03-30"),
            (BERLIN, "2025-04-08 12:00", "last month", "2025-03-01 to 2025-04-01"),
            (BERLIN, "2025-04-08 12:00", "5 months ago", "2024-11-08 to 2024-11-09"),
            (BERLIN, "2025-04-08 12:00", "2025-W13", "2025-03-24 to 2025-03-31"),
            (BERLIN, "2025-03-31 12:00", "yesterday at 2:30", "2025-03-30 03:30"),
            (BERLIN, "2025-03-30 12:00", "last night", "2025-03-29 18:00 to 2025-03-30 06:00"),
            ("America/New_York", "2025-03-10 00:15", "yesterday", "2025-03-09 to 2025-03-10"),
            ("America/Havana", "2025-03-10 12:00", "yesterday", "2025-03-09 01:00 to 2025-03-10"),
            ("America/Havana", "2025-03-08 12:00", "today", "2025-03-08 to 2025-03-09 01:00"),
            ("Australia/Lord_Howe", "2025-10-06 00:10", "yesterday 02:10", "2025-10-05 02:40"),
            ("Asia/Kolkata", "2025-03-30 02:30", "3 hours ago", "2025-03-29 23:30"),
        ],
    )
    def test_words_are_right_around_the_change(self, name: str, now: str, said: str, meant: str) -> None:
        assert means(said, now, zone_of(name)) == meant

    def test_a_time_shown_twice_is_the_first_unless_a_datetime_says_the_second(self) -> None:
        zone = zone_of(BERLIN)
        twice = datetime(2025, 10, 26, 2, 30)

        assert (
            parse_period("2025-10-26 02:30", zone=zone)
            == parse_period(twice, zone=zone)
            == parse_period("2025-10-26T00:30Z")
        )
        assert parse_period("26.10.2025 at 2:30 am", zone=zone) == parse_period("2025-10-26T00:30Z")
        assert parse_period(twice.replace(fold=1), zone=zone) == parse_period("2025-10-26T01:30Z")

    def test_a_time_skipped_counts_on_from_before_the_change(self) -> None:
        assert parse_period("2025-03-30 02:30", zone=zone_of(BERLIN)) == parse_period("2025-03-30T01:30Z")

    def test_the_evening_of_a_day_that_never_was_does_not_run_backwards(self) -> None:
        found = parse_period("2011-12-30 evening", zone=zone_of("Pacific/Apia"))

        assert found is not None
        assert found.start == found.end


class TestTheZoneOfTheSystem:
    """The rules are spelled out in TZ, so these need no tz database."""

    BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"
    HAVANA = "CST5CDT,M3.2.0/0,M11.1.0/1"

    @pytest.fixture
    def move_to(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
        if not hasattr(time, "tzset"):
            pytest.skip("this system cannot change its zone while running")

        def to(rules: str) -> None:
            monkeypatch.setenv("TZ", rules)
            time.tzset()

        yield to
        monkeypatch.undo()
        time.tzset()

    @pytest.mark.parametrize(
        ("rules", "said", "written"),
        [
            (BERLIN, "2026-01-15 12:00", "2026-01-15T11:00Z"),
            (BERLIN, "2026-07-15 12:00", "2026-07-15T10:00Z"),
            (BERLIN, "2026-03-29 02:30", "2026-03-29T01:30Z"),
            (BERLIN, "2026-10-25 02:30", "2026-10-25T00:30Z"),
            (BERLIN, datetime(2026, 10, 25, 2, 30, fold=1), "2026-10-25T01:30Z"),
            (BERLIN, datetime(2026, 7, 15, 12, 0, 0, 123457), "2026-07-15T10:00:00.123457Z"),
            (BERLIN, datetime(9000, 7, 15, 12, 0, 0, 999999), "9000-07-15T10:00:00.999999Z"),
            (BERLIN, "1960-01-15 12:00", "1960-01-15T11:00Z"),
            (BERLIN, "yesterday at noon", "2026-10-24T10:00Z"),
            (BERLIN, "24 hours ago", "2026-10-24T11:00Z"),
            (HAVANA, "2026-03-08 00:00", "2026-03-08T05:00Z"),
            ("UTC0", "2026-07-15 12:00", "2026-07-15T12:00Z"),
        ],
    )
    def test_it_is_asked_for_the_date_concerned(
        self, move_to: Callable[[str], None], rules: str, said: object, written: str
    ) -> None:
        move_to(rules)

        assert parse_period(said, datetime(2026, 10, 25, 11, tzinfo=UTC)) == parse_period(written)

    @pytest.mark.parametrize(
        ("rules", "day", "start", "hours"),
        [
            (BERLIN, "2026-03-29", "2026-03-28T23:00Z", 23),
            (BERLIN, "2026-10-25", "2026-10-24T22:00Z", 25),
            (HAVANA, "2026-03-08", "2026-03-08T05:00Z", 23),
            (HAVANA, "2026-11-01", "2026-11-01T04:00Z", 25),
        ],
    )
    def test_its_days_are_as_long_as_they_were(
        self, move_to: Callable[[str], None], rules: str, day: str, start: str, hours: int
    ) -> None:
        move_to(rules)
        began = datetime.fromisoformat(start)

        assert parse_period(day) == Period(began, began + timedelta(hours=hours))

    def test_today_is_the_day_there(self, move_to: Callable[[str], None]) -> None:
        late = datetime(2026, 4, 7, 22, 30, tzinfo=UTC)
        move_to(self.BERLIN)

        assert parse_period("today", late) == parse_period("2026-04-08")
        move_to(self.HAVANA)
        assert parse_period("today", late) == parse_period("2026-04-07")


WORDS = (
    "a an the couple of two twelve in ago at now today tonight yesterday tomorrow day days before after week w h s mo "
    "month quarter year years last this next noon midnight am pm morning night mon tuesday march feb may 5th 29 31 00 "
    "2026 9999 0001 0000 99999 1774972800 2026-03-31 2026-W53 31.03.2026 03/04/2026 2:30 02:30 14:30:59 T Z + - : . ,"
).split()
texts = st.one_of(
    st.text(max_size=120),
    st.text(string.digits + "-:/.+TWZ ", max_size=30),
    st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=7).map("".join),
    st.from_regex(r"\A(in )?[0-9]{1,8} ?(s|min|hours|days|w|months|years)( ago)?\Z"),
)


def asked(question: str, now: str = "2026-04-08 15:30") -> list[str | None]:
    """The times a question speaks of, asked in the afternoon of Wednesday, 8 April 2026."""
    moment = datetime.fromisoformat(now).replace(tzinfo=EASTWARD)
    return [shown(time, EASTWARD) for time in find_periods(question, moment, EASTWARD)]


class TestWhatAQuestionMentions:
    @pytest.mark.parametrize(
        ("question", "meant"),
        [
            ("Who called on 7 May 2023?", "2023-05-07 to 2023-05-08"),
            ("who called on 7 may, 2023", "2023-05-07 to 2023-05-08"),
            ("What did Tim read on 8th December, 2023?", "2023-12-08 to 2023-12-09"),
            ("the picture of December 1,2023 was taken where?", "2023-12-01 to 2023-12-02"),
            ("What broke on 2023-05-07?", "2023-05-07 to 2023-05-08"),
            ("What broke on 7.5.2023, and why?", "2023-05-07 to 2023-05-08"),
            ("Which movie did we see on May 7th?", "2025-05-07 to 2025-05-08"),
            ("Which movie did we see on may 7?", "2025-05-07 to 2025-05-08"),
            ("the meeting of April 2 was about what", "2026-04-02 to 2026-04-03"),
            ("Where did we travel in May?", "2025-05-01 to 2025-06-01"),
            ("Where did we travel in March 2023?", "2023-03-01 to 2023-04-01"),
            ("the storm of May of 2012", "2012-05-01 to 2012-06-01"),
            ("How was the first weekend of August 2023?", "2023-08-01 to 2023-09-01"),
            ("How many museums did I visit in the month of February?", "2026-02-01 to 2026-03-01"),
            ("What was released in 2022?", "2022-01-01 to 2023-01-01"),
            ("In 2022, what was released?", "2022-01-01 to 2023-01-01"),
            ("What was released in Q1?", "2026-01-01 to 2026-04-01"),
            ("the goals of Q4 2025, please", "2025-10-01 to 2026-01-01"),
            ("the goals of 2025-Q4", "2025-10-01 to 2026-01-01"),
            ("Where did we travel from March 2023 to June 2023?", "2023-03-01 to 2023-07-01"),
            ("Where did we travel between March and June?", "2025-03-01 to 2025-07-01"),
            ("the trips of March 2023 to June 2023", "2023-03-01 to 2023-07-01"),
            ("What did we ship from 2021 to 2023?", "2021-01-01 to 2024-01-01"),
            ("all from 2023-03-05 to 2023-03-07", "2023-03-05 to 2023-03-08"),
        ],
    )
    def test_a_date_a_month_or_a_year(self, question: str, meant: str) -> None:
        assert asked(question) == [meant]

    @pytest.mark.parametrize(
        ("question", "meant"),
        [
            ("What did we decide yesterday?", "2026-04-07 to 2026-04-08"),
            ("What did we decide yesterday evening?", "2026-04-07 18:00 to 2026-04-08"),
            ("What have we done today?", "2026-04-08 to 2026-04-09"),
            ("What broke last night?", "2026-04-07 18:00 to 2026-04-08 06:00"),
            ("What did we decide last week?", "2026-03-30 to 2026-04-06"),
            ("What broke since last week?", "2026-03-30 to 2026-04-08 15:30"),
            ("What broke since yesterday?", "2026-04-07 to 2026-04-08 15:30"),
            ("What did I buy the week before last week?", "2026-03-30 to 2026-04-06"),
            ("Last week's decision, please", "2026-03-30 to 2026-04-06"),
            ("Which game did I beat last weekend?", "2026-04-04 to 2026-04-06"),
            ("Which bike did I repair the past weekend?", "2026-04-04 to 2026-04-06"),
            ("Whom did I meet last Tuesday?", "2026-04-07 to 2026-04-08"),
            ("When did I reach the clinic on Monday?", "2026-04-06 to 2026-04-07"),
            ("How much did we sell this month?", "2026-04-01 to 2026-05-01"),
            ("Where were we last March?", "2026-03-01 to 2026-04-01"),
            ("What did I buy 10 days ago?", "2026-03-29 to 2026-03-30"),
        ],
    )
    def test_a_time_relative_to_now(self, question: str, meant: str) -> None:
        assert asked(question) == [meant]

    @pytest.mark.parametrize(
        ("question", "meant"),
        [
            ("Which book did I finish a week ago?", "2026-03-29 to 2026-04-05"),
            ("Which museum was it two months ago?", "2026-01-24 to 2026-02-24"),
            ("What did I bake a few weeks ago?", "2026-03-15 to 2026-03-22"),
            ("What did I bake a fortnight ago?", "2026-03-18 to 2026-04-02"),
        ],
    )
    def test_long_ago_is_about_then(self, question: str, meant: str) -> None:
        assert asked(question) == [meant]

    @pytest.mark.parametrize(
        ("question", "since"),
        [
            ("What did I bake in the past two weeks?", "2026-03-25"),
            ("What did I bake in the last month?", "2026-03-08"),
            ("What did I bake over the past few months?", "2026-01-08"),
            ("What changed since March?", "2026-03-01"),
            ("What changed after 7 March 2026?", "2026-03-08"),
        ],
    )
    def test_some_times_reach_to_the_present(self, question: str, since: str) -> None:
        assert asked(question) == [f"{since} to 2026-04-08 15:30"]

    @pytest.mark.parametrize(
        "question",
        [
            "What did John do the week before August 3, 2023?",
            "What did Joanna finish last Friday on 3 August, 2023?",
            "Where did they go on the Saturday after August 3, 2023?",
        ],
    )
    def test_beside_a_date_the_rest_is_relative_to_it(self, question: str) -> None:
        assert asked(question) == ["2023-08-03 to 2023-08-04"]

    def test_several_times(self) -> None:
        assert asked("Did I swim more in January or in March?") == [
            "2026-01-01 to 2026-02-01",
            "2026-03-01 to 2026-04-01",
        ]

    @pytest.mark.parametrize(
        "question",
        [
            "",
            "how do we ship?",
            "It may fail; may 5 people try again?",
            "In which ways may this march on?",
            "this may be wrong",
            "rule 5 may apply",
            "the second song, the 2nd of three",
            "version 2022 of the tool",
            "Cyberpunk 2077",
            "a play of the 1970's",
            "how many days ago did I buy it?",
            "How many months have passed since I last visited a museum?",
            "my last name, the last time, the last one of them",
            "a week-long trip, a one-year-old child",
            "What was I doing in the last week of the course?",
            "Why did the deploy fail before this year?",
            "Is it done by last week?",
            "Which month was John in Italy?",
            "What time do I wake up on Saturday mornings?",
            "How many tournaments had he won by July 10, 2022?",
            "What was so before 2020?",
            "port 2023-05-07-a, logs/2023-05-07.txt, 2023/05/07/1",
            "CVE-2023-1234 in 2023.1",
            "What shall we do this weekend, tomorrow, next week, on 1 May 2027 and in 2030?",
            "was geschah letzte Woche im März?",
            "上周发生了什么",
        ],
    )
    def test_what_is_no_time_or_lies_ahead_or_anywhere_before_is_none(self, question: str) -> None:
        assert asked(question) == []

    def test_who_names_many_times_asks_for_none(self) -> None:
        days = [f"2026-03-{day:02} the harbour was closed\n" for day in range(1, 9)]

        assert len(asked("".join(days[:3]))) == 3
        assert asked("".join(days)) == []

    def test_only_the_beginning_of_a_long_text_is_looked_at(self) -> None:
        assert asked("harbour " * 200 + "yesterday") == []


pieces = st.sampled_from(
    "in on since before the last past this a few 2 13 31 999 years months weeks ago may march june 7th 2023 1999 of "
    "week weekend monday yesterday night 2023-02-31 31.12.9999 , . - '".split()
)


@given(text=st.text() | st.lists(pieces, max_size=12).map(" ".join), now=st.datetimes(timezones=st.just(UTC)))
@example(text="999 years ago", now=datetime(1000, 1, 1, tzinfo=UTC))
def test_of_any_question_at_any_time_come_periods_that_have_begun(text: str, now: datetime) -> None:
    for found in find_periods(text, now, UTC):
        assert found.start.tzinfo is found.end.tzinfo is UTC
        assert found.start <= now
        assert found.start <= found.end


values = st.one_of(
    texts,
    st.none(),
    st.booleans(),
    st.binary(),
    st.integers(),
    st.floats(),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))),
)


zones = st.sampled_from([UTC, *known(ZONES)])


@given(value=values, now=st.datetimes() | st.datetimes(timezones=st.just(UTC)), zone=zones | st.none())
@example(value="next year", now=datetime.max, zone=UTC)
@example(value="yesterday", now=datetime.min, zone=None)
def test_anything_is_a_period_in_utc_or_none(value: object, now: datetime, zone: tzinfo | None) -> None:
    found = parse_period(value, now, zone)

    if found is not None:
        assert found.start.tzinfo is found.end.tzinfo is UTC
        assert found.start <= found.end


@given(day=st.dates(date(1990, 1, 1), date(2200, 1, 1)), zone=zones)
def test_every_date_is_the_stretch_in_which_a_calendar_there_shows_it(day: date, zone: tzinfo) -> None:
    found = parse_period(day.isoformat(), zone=zone)

    assert found is not None
    assume(found.start != found.end)  # in Samoa, one day never was
    instant = timedelta(microseconds=1)
    assert found.start.astimezone(zone).date() == (found.end - instant).astimezone(zone).date() == day
    assert (found.start - instant).astimezone(zone).date() < day < found.end.astimezone(zone).date()


@given(day=st.dates(date(1, 1, 3), date(9999, 12, 28)), zone=zones)
def test_every_way_to_write_a_date_is_the_same_day(day: date, zone: tzinfo) -> None:
    year, week, weekday = day.isocalendar()
    ways = (
        f"{day}",
        f"{day:%Y%m%d}".rjust(8, "0"),
        f"{day}".replace("-", "/"),
        f"{day.day}.{day.month}.{day.year:04}",
        f"{year:04}-W{week:02}-{weekday}",
        f"{day:%B} {day.day}, {day.year:04}",
        f"{day.day} {day:%b} {day.year:04}",
    )

    assert {parse_period(way, zone=zone) for way in (*ways, day)} == {parse_period(day, zone=zone)} != {None}


@given(st.datetimes(timezones=st.just(UTC)), st.integers(0, 100_000))
def test_hours_ago_are_elapsed_time(now: datetime, hours: int) -> None:
    assume(now.year > 20)

    assert parse_period(f"{hours} hours ago", now, UTC) == parse_period(now - timedelta(hours=hours))
