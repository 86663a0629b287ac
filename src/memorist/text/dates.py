"""Dates and periods as people write them: "yesterday", "last march", "2026-W12", "an hour ago"."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from datetime import time as clock
from typing import Any

from msgspec import Struct

_MAX_PERIOD_CHARACTERS = 100  # a longer text is not a time; so parsing one is always fast
MAX_QUERY_CHARACTERS = 1000  # of a query that are searched for times
_MAX_PERIODS = 3  # that a query names; more are those of a log


class Period(Struct, frozen=True):
    """A period of time, from `start` up to, not including, `end`, both in UTC. An instant has start == end."""

    start: datetime
    end: datetime


def parse_period(value: object, now: datetime | None = None, zone: tzinfo | None = None) -> Period | None:
    """Parse a time into the period it means; None where it is not a time. No zone means the local one."""
    try:
        present = datetime.now(UTC) if now is None else _utc(now, zone)
        if isinstance(value, datetime):
            return _instant(_utc(value, zone))
        if isinstance(value, date):
            return _whole_days((value, value), zone)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _instant(datetime.fromtimestamp(value, UTC))
        if isinstance(value, str) and len(value) <= _MAX_PERIOD_CHARACTERS:
            said = " ".join(value.lower().split()).removeprefix("the ")
            return _parse_text(said, present, zone) or _parse_range(said, present, zone)
    except (ValueError, OverflowError, OSError):  # a 31 February, or beyond what the calendar or the system can count
        pass
    return None


def find_periods(text: str, now: datetime, zone: tzinfo | None = None) -> tuple[Period, ...]:
    """
    Find the periods that a query names, such as "last week" or "on 7 May 2023", if they have begun.

    Only clear mentions count: "it may fail", "version 2022" and "how many days ago" name no time. Beside a date, "last
    week" is the one before that date, and is ignored. A query that names many times asks for none of them.
    """
    present, said = _utc(now, zone), " ".join(text[:MAX_QUERY_CHARACTERS].lower().replace(",", " ").split())
    # Most queries name none, and the patterns take longer to compile than a database to open.
    if _TIME_WORDS.isdisjoint(re.findall("[a-z]+", said)) and not re.search("[0-9]", said):
        return ()
    ranges = [parse_period(range[0].replace(" of ", " "), present, zone) for range in re.finditer(_RANGE_IN_TEXT, said)]
    said = re.sub(_RANGE_IN_TEXT, "", said)
    dates = [date for date in re.finditer(_DATE_IN_TEXT, said) if date["date"] or date["lead"]]
    found = ranges + [_date_in_text(date, said, present, zone) for date in dates]
    if not ranges and not any(date["date"] for date in dates):
        found += [_relative_in_text(words, said, present, zone) for words in re.finditer(_RELATIVE_IN_TEXT, said)]
    times = tuple(dict.fromkeys(time for time in found if time and time.start <= present))
    return times if len(times) <= _MAX_PERIODS else ()


_Days = tuple[date, date]  # the first and the last, in local time
_Found = Mapping[str, Any]
_DAY = timedelta(days=1)


def _number_words(lines: str, numbers: Iterable[int]) -> dict[str, int]:
    """Map every word of each line to the number of its line."""
    return {word: number for line, number in zip(lines.split("|"), numbers, strict=True) for word in line.split()}


_COUNTS = _number_words("a an one|couple two|three|four|five|six|seven|eight|nine|ten|eleven|twelve", range(1, 13))
_SECONDS = _number_words("s sec secs second seconds|m min mins minute minutes|h hr hrs hour hours", (1, 60, 3600))
_WHOLE_DAYS = _number_words("d day days|w wk wks week weeks|fortnight fortnights", (1, 7, 14))
_WHOLE_MONTHS = _number_words("mo mos month months|y yr yrs year years", (1, 12))
_CALENDAR_MONTHS = _number_words("month|quarter|year", (1, 3, 12))
_STEPS = _number_words("last|this|next", (-1, 0, 1))
_FROM_TODAY = {"day before yesterday": -2, "yesterday": -1, "today": 0, "tomorrow": 1, "day after tomorrow": 2}
_WEEKDAYS = _number_words(
    "mon monday|tue tues tuesday|wed weds wednesday|thu thur thurs thursday|fri friday|sat saturday|sun sunday",
    range(7),
)
_MONTHS = _number_words(
    "1 01 jan january|2 02 feb february|3 03 mar march|4 04 apr april|5 05 may|6 06 jun june|7 07 jul july|"
    "8 08 aug august|9 09 sep sept september|10 oct october|11 nov november|12 dec december",
    range(1, 13),
)
_PARTS_OF_WEEK = {"week": (0, 6), "weekend": (5, 6)}  # by the days since Monday
_HOURS = {"morning": (6, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (18, 30)}  # of the day it begins in

# All patterns are texts, which `re` compiles when first used: a program that parses no time does not wait for them.
_EPOCH_SECONDS = r"[0-9]{9,11}(\.[0-9]+)?"
_ISO_MOMENT = r"([0-9]{8}|[0-9w-]{10})[t ]([0-9]{2}[0-9:.,]*) ?(z|[+-][0-9:]+)?"
_AMOUNT = r"(?P<count>[0-9]+|[a-z]+(?= )) ?(?P<unit>[a-z]+)"
_A_COUPLE = r"\b(a )?couple( of)?\b"
_CLOCK = r"(?P<hour>[0-9]{1,2})(?P<minute>:[0-9]{2})?(?P<second>:[0-9]{2})?(?: ?(?P<half>[ap]m))?"
_DAY_AND_CLOCK = rf"(?:(?P<day>.+?),? )??(?:at )?(?P<clock>noon|midnight|{_CLOCK})"
_RANGES = (r"(?:from )?(?P<first>.+?) (?:to|until|through) (?P<last>.+)", r"between (?P<first>.+?) and (?P<last>.+)")
_DAY_AND_PART = r"(?P<day>.+) (?P<part>morning|afternoon|evening|night)"
_YEAR, _MONTH, _DAY_NUMBER = r"(?P<year>[0-9]{4})", r"(?P<month>[0-9]{1,2})", r"(?P<day>[0-9]{1,2})"
_MONTH_NAME, _NTH, _MAYBE_YEAR = r"(?P<month>[a-z]{3,9})", rf"{_DAY_NUMBER}(?:st|nd|rd|th)?", rf"(?:,? {_YEAR})?"


def _parse_text(text: str, present: datetime, zone: tzinfo | None) -> Period | None:
    """Parse an instant, whole days, or a time or part of one day."""
    if moment := _parse_instant(text, present, zone):
        return _instant(moment)
    today = present.astimezone(zone).date()
    if days := _parse_days(text, today):
        return _whole_days(days, zone)
    if found := re.fullmatch(_DAY_AND_CLOCK, text):
        day, time = _parse_one_day(found["day"] or "today", today), _parse_clock(found)
        if not (day and time):
            return None
        moment = _utc(datetime.combine(day, time), zone)
        if found["day"] is None and moment > present:  # without a day it is the latest
            moment = _utc(datetime.combine(day - _DAY, time), zone)
        return _instant(moment)
    if found := re.fullmatch(_DAY_AND_PART, "this night" if text == "tonight" else text):
        day = _parse_one_day({"this": "today", "last": "yesterday"}.get(found["day"], found["day"]), today)
        if day:
            first, after = (datetime.combine(day, clock()) + timedelta(hours=hour) for hour in _HOURS[found["part"]])
            return _between(first, after, zone)
    return None


def _parse_range(text: str, present: datetime, zone: tzinfo | None) -> Period | None:
    """Parse "from March to June 2023": both times and all between. What comes first is the latest before the other."""
    found = next(filter(None, (re.fullmatch(form, text) for form in _RANGES)), None)
    first, last = (_parse_text(found[end], present, zone) for end in ("first", "last")) if found else (None, None)
    if found and first and last and first.start > last.start:
        first = _parse_text(found["first"], last.start, zone)
    return Period(first.start, last.end) if first and last and first.start <= last.start else None


def _utc(moment: datetime, zone: tzinfo | None) -> datetime:
    """
    Convert a local time to UTC; where the clock shows it twice, the first.

    A time that the clock skips counts on from before the change, so that a day without a midnight begins where it
    begins. In the local zone only `timestamp` does so: `astimezone` is an hour early there.
    """
    if moment.tzinfo is not None:
        return moment.astimezone(UTC)
    if zone is not None:
        return moment.replace(tzinfo=zone).astimezone(UTC)
    seconds = moment.replace(microsecond=0).timestamp()  # whole ones: a float has no room for every microsecond
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=moment.microsecond)


def _instant(moment: datetime) -> Period:
    return Period(moment, moment)


def _between(start: datetime, end: datetime, zone: tzinfo | None) -> Period:
    first = _utc(start, zone)
    return Period(first, max(first, _utc(end, zone)))  # a day a zone left out (Samoa, 30 December 2011) runs backwards


def _whole_days(days: _Days, zone: tzinfo | None) -> Period:
    """Return the period from midnight to midnight: a day has 23 or 25 hours where the clock changes."""
    first, last = (datetime.combine(day, clock()) for day in days)
    if days[1] == date.max:  # sometimes used for "for ever": no day comes after it
        return Period(_utc(first, zone), datetime.max.replace(tzinfo=UTC))
    return _between(first, last + _DAY, zone)


def _parse_instant(text: str, present: datetime, zone: tzinfo | None) -> datetime | None:
    if text == "now":
        return present
    if re.fullmatch(_EPOCH_SECONDS, text):
        return datetime.fromtimestamp(float(text), UTC)
    if found := re.fullmatch(_ISO_MOMENT, text):
        day, time, offset = found.groups(default="")
        return _utc(datetime.fromisoformat(f"{day}T{time}{offset}".upper()), zone)
    count, unit = _parse_amount(text)
    return present + timedelta(seconds=count * _SECONDS[unit]) if unit in _SECONDS else None


def _parse_amount(text: str) -> tuple[int, str]:
    """Parse an amount and its unit: "2 weeks ago", "an hour ago" and "24h" are negative, "in 2 days" is positive."""
    sign = 1 if text.startswith("in ") else -1
    length = text.removeprefix("in ") if sign == 1 else text.removesuffix(" ago")
    found = re.fullmatch(_AMOUNT, re.sub(_A_COUPLE, "couple", length))
    if not found or not (found["count"] in _COUNTS or found["count"].isdigit()):
        return 0, ""
    return sign * (_COUNTS.get(found["count"]) or int(found["count"])), found["unit"]


def _parse_clock(found: re.Match[str]) -> clock | None:
    """Parse 14:30, 2pm, 2:30 pm, noon, or the midnight a day begins with; a bare "at 2" is ambiguous."""
    if found["clock"] in ("noon", "midnight"):
        return clock(12 if found["clock"] == "noon" else 0)
    hour = int(found["hour"])
    if found["half"] and 1 <= hour <= 12:
        hour = hour % 12 + (12 if found["half"] == "pm" else 0)
    elif found["half"] or not found["minute"]:
        return None
    minute, second = (int((found[part] or ":0")[1:]) for part in ("minute", "second"))
    return clock(hour, minute, second)


def _parse_days(text: str, today: date) -> _Days | None:
    for form, read in _FORMS:
        if (found := re.fullmatch(form, text)) and (days := read(found.groupdict(), today)):
            return days
    return _days_from_today(text, today)


def _parse_one_day(text: str, today: date) -> date | None:
    days = _parse_days(text, today)
    return days[0] if days and days[0] == days[1] else None


def _year_span(found: _Found, today: date) -> _Days:
    return _month_span(12 * int(found["year"]), 12)


def _month_days(found: _Found, today: date) -> _Days | None:
    """Return a month; without a year, the latest that has begun."""
    if not (month := _MONTHS.get(found["month"])):
        return None
    if found["year"]:
        return _month_span(12 * int(found["year"]) + month - 1, 1)
    return _month_span(_nearest_in_cycle(12 * today.year + month - 1, _month_number(today), 12, None), 1)


def _quarter_days(found: _Found, today: date) -> _Days:
    """Return a quarter; without a year, the latest that has begun."""
    first = 3 * (int(found["quarter"]) - 1)
    if found["year"]:
        return _month_span(12 * int(found["year"]) + first, 3)
    return _month_span(_nearest_in_cycle(12 * today.year + first, _month_number(today), 12, None), 3)


def _calendar_day(found: _Found, today: date) -> _Days | None:
    """Return a day of a month; without a year, the latest not after today."""
    month, day = _MONTHS.get(found["month"], 0), int(found["day"])
    for year in [int(found["year"])] if found["year"] else range(today.year, today.year - 9, -1):  # for 29 February
        with suppress(ValueError):
            if (chosen := date(year, month, day)) <= today or found["year"]:
                return chosen, chosen
    return None


def _iso_week(found: _Found, today: date) -> _Days:
    day = date.fromisocalendar(int(found["year"]), int(found["week"]), int(found["weekday"] or 1))
    return day, day if found["weekday"] else day + 6 * _DAY


def _named_days(found: _Found, today: date) -> _Days | None:
    """Parse names of days and periods: yesterday, tuesday, this week, next year, last march."""
    step, name = _STEPS.get(found["which"]), found["name"]
    monday = today - today.weekday() * _DAY
    if name in _WEEKDAYS:
        day = date.fromordinal(_nearest_in_cycle(monday.toordinal() + _WEEKDAYS[name], today.toordinal(), 7, step))
        return day, day
    if step is None:
        return (day := today + _FROM_TODAY[name] * _DAY, day) if name in _FROM_TODAY else None
    if name in _PARTS_OF_WEEK:
        first, last = _PARTS_OF_WEEK[name]
        return monday + (7 * step + first) * _DAY, monday + (7 * step + last) * _DAY
    if size := _CALENDAR_MONTHS.get(name):
        return _month_span((_month_number(today) // size + step) * size, size)
    if month := _MONTHS.get(name):
        return _month_span(_nearest_in_cycle(12 * today.year + month - 1, _month_number(today), 12, step), 1)
    return None


def _nearest_in_cycle(this: int, current: int, cycle: int, step: int | None) -> int:
    """
    Choose among recurring days or months, where `this` is the one of the current week or year.

    "Last" is the latest before the current one, "next" the first after it; without a word it is the latest up to it.
    """
    if step == 0:
        return this
    if step == 1:
        return current + 1 + (this - current - 1) % cycle
    latest = current if step is None else current - 1
    return latest - (latest - this) % cycle


def _days_from_today(text: str, today: date) -> _Days | None:
    """Count days, weeks, months or years from today; a day that a month lacks becomes its last one."""
    count, unit = _parse_amount(text)
    if unit in _WHOLE_DAYS:
        day = today + count * _WHOLE_DAYS[unit] * _DAY
        return day, day
    if unit in _WHOLE_MONTHS:
        first, last = _month_span(_month_number(today) + count * _WHOLE_MONTHS[unit], 1)
        day = first.replace(day=min(today.day, last.day))
        return day, day
    return None


def _month_number(day: date) -> int:
    """Return the number of a month counted from year 0, for arithmetic across years."""
    return 12 * day.year + day.month - 1


def _month_span(number: int, size: int) -> _Days:
    first, after = (date(month // 12, month % 12 + 1, 1) for month in (number, number + size))
    return first, after - _DAY


_FORMS: tuple[tuple[str, Callable[[_Found, date], _Days | None]], ...] = (
    (_YEAR, _year_span),  # 2026
    (rf"{_YEAR}[-/]{_MONTH}", _month_days),  # 2026-03
    (rf"{_YEAR}(?P<mark>[-/]){_MONTH}(?P=mark){_DAY_NUMBER}", _calendar_day),  # 2026-03-31, 2026/03/31
    (r"(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})", _calendar_day),  # 20260331
    (rf"{_DAY_NUMBER}\.{_MONTH}\.{_YEAR}", _calendar_day),  # 31.03.2026
    (rf"{_YEAR}-?w(?P<week>[0-9]{{2}})(?:-?(?P<weekday>[1-7]))?", _iso_week),  # 2026-W12, 2026-W12-3
    (rf"q(?P<quarter>[1-4])(?:,? (?:of )?{_YEAR})?", _quarter_days),  # q1, q1 2026, q1 of 2026
    (rf"{_YEAR}[- ]?q(?P<quarter>[1-4])", _quarter_days),  # 2026-q1
    (rf"{_MONTH_NAME}{_MAYBE_YEAR}", _month_days),  # march, march 2026
    (rf"{_MONTH_NAME} (?:the )?{_NTH}{_MAYBE_YEAR}", _calendar_day),  # march 5, march 5th, 2026
    (rf"{_NTH} (?:of )?{_MONTH_NAME}{_MAYBE_YEAR}", _calendar_day),  # 5 march 2026, 5th of march
    (r"(?:(?P<which>last|this|next) )?(?P<name>[a-z ]+)", _named_days),  # today, tuesday, last week, next march
)


# Times within a text. A month with a day or a year is a date; either alone is one only after a word such as "in".
_SOME_MONTH = "|".join(filter(str.isalpha, _MONTHS))
_SURE_MONTH = "|".join(name for name in _MONTHS if name.isalpha() and name not in ("mar", "march", "may"))
_SOME_WEEKDAY = "|".join(name for name in _WEEKDAYS if name.endswith("day"))
_PART_OF_DAY = "|".join(_HOURS)
_SOME_COUNT = rf"(?:[0-9]{{1,3}}|a couple of|(?:a )?few|{'|'.join(_COUNTS)})"
_SOME_DAY, _NTH_DAY, _SOME_YEAR = "[0-9]{1,2}(?:st|nd|rd|th)?", "[0-9]{1,2}(?:st|nd|rd|th)", "(?:19|20)[0-9]{2}"
_DATES = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}|[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}",
    rf"{_SOME_DAY} (?:of )?(?:{_SOME_MONTH}) {_SOME_YEAR}|(?:{_SOME_MONTH}) (?:the )?{_SOME_DAY} {_SOME_YEAR}",
    rf"{_NTH_DAY} (?:of )?(?:{_SOME_MONTH})|(?:{_SOME_MONTH}) (?:the )?{_NTH_DAY}",
    rf"[0-9]{{1,2}} (?:{_SURE_MONTH})|(?:{_SURE_MONTH}) [0-9]{{1,2}}",
    rf"(?:{_SOME_MONTH}) (?:of )?{_SOME_YEAR}",
    rf"q[1-4] (?:of )?{_SOME_YEAR}|{_SOME_YEAR}[- ]?q[1-4]",
)
_NOT_ALONE = rf"[0-9]{{1,2}} (?:{_SOME_MONTH})|(?:{_SOME_MONTH}) [0-9]{{1,2}}|{_SOME_MONTH}|q[1-4]|{_SOME_YEAR}"
_DATE_ENDS = r"(?![\w/%-]|[.:][0-9a-z]|'s)"
_DATE_IN_TEXT = (
    r"(?<![\w./-])(?:(?P<lead>in|on|during|since|after|until|before|by)(?: the| early| late| month of| year)* )?"
    rf"(?:(?P<date>{'|'.join(_DATES)})|(?P<led>{_NOT_ALONE})){_DATE_ENDS}"
)
_RANGE_IN_TEXT = (
    rf"(?<![\w./-])(?:(?:from|between) (?:{'|'.join(_DATES)}|{_NOT_ALONE}) (?:to|until|through|and) "
    rf"(?:{'|'.join(_DATES)}|{_NOT_ALONE})|(?:{'|'.join(_DATES)}) (?:to|until|through) (?:{'|'.join(_DATES)}))"
    rf"{_DATE_ENDS}"
)
_RELATIVES = (
    rf"(?:day before )?yesterday(?: (?:{_PART_OF_DAY}))?|today|last (?:{_SOME_MONTH})",
    rf"(?:last|this|past|on) (?:weekend|(?:{_SOME_WEEKDAY})(?: (?:{_PART_OF_DAY}))?)",
    r"(?:past|the last) (?P<one>day|week|fortnight|month|year)",
    rf"(?:past|last) (?P<several>{_SOME_COUNT} (?:day|week|month|year)s?)",
    rf"(?:last|this) (?:{_PART_OF_DAY}|week|month|quarter|year)",
    rf"{_SOME_COUNT} (?P<unit>hour|day|week|fortnight|month|year)s? ago",
)
_RELATIVE_IN_TEXT = (
    rf"(?<![\w-])(?:(?P<lead>since|after|until|before|by) )?(?P<words>{'|'.join(_RELATIVES)})"
    rf"(?![\w-]| of\b| (?:{_PART_OF_DAY})s)"
)
# Every time within a text has a digit or one of these.
_UNITS = ("hour", "day", "week", "weekend", "fortnight", "month", "quarter", "year")
_NAMED_DAYS = ("yesterday", "today", *_WEEKDAYS, *_HOURS)
_TIME_WORDS = {*filter(str.isalpha, _MONTHS), *_NAMED_DAYS, *_UNITS, *(f"{unit}s" for unit in _UNITS)}
_UNIT_BEFORE = rf"(?:day|week|weekend|month|year|{_SOME_WEEKDAY})s? $"
_HALF_OF = {"week": 3 * _DAY, "fortnight": 7 * _DAY, "month": 15 * _DAY, "year": 182 * _DAY}


def _date_in_text(found: re.Match[str], said: str, now: datetime, zone: tzinfo | None) -> Period | None:
    """Return the period of a date in a text."""
    time = parse_period((found["date"] or found["led"]).replace(" of ", " "), now, zone)
    return _apply_lead(time, found, said, now)


def _relative_in_text(found: re.Match[str], said: str, now: datetime, zone: tzinfo | None) -> Period | None:
    """Return the period of relative words in a text. "Two months ago" is not one day, but about then."""
    length = found["several"] or (found["one"] and f"a {found['one']}")
    words = re.sub("(a )?few", "three", length or found["words"])
    time = parse_period(words.replace("past ", "last ").removeprefix("on "), now, zone)
    if time is None or length:
        return time and Period(time.start, now)
    with suppress(OverflowError):  # so long ago that half of it more is beyond the calendar
        around = _HALF_OF.get(found["unit"], timedelta())
        time = Period(time.start - around, time.end + around)
    return _apply_lead(time, found, said, now)


def _apply_lead(time: Period | None, found: re.Match[str], said: str, now: datetime) -> Period | None:
    """
    Apply the word before a time. "Since" and "after" reach up to now. "Before" and "until" may be any time, and name
    none, unless it is "the week before" or "the Sunday before": that is near.
    """
    lead = found["lead"]
    if time is None or lead in (None, "in", "on", "during") or re.search(_UNIT_BEFORE, said[: found.start()]):
        return time
    if lead in ("since", "after") and time.start <= now:
        return Period(time.start if lead == "since" else min(time.end, now), now)
    return None
