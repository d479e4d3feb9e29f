"""English names of days, weeks, months, quarters and years: the rules that read words in one step. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from jiuwen_memory.foundation.feasts import feast_of, latest_feast
from jiuwen_memory.foundation.timeline import (
    Precision,
    Reading,
    after_unit,
    day_of,
    floor,
    latest_day,
    latest_day_of_month,
    latest_month,
    nearest_weekday,
    shift,
    weekday_of_week,
    year_of,
)

Match = re.Match[str]
Rule = Callable[[Match, datetime], Reading | None]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SEASONS = {"winter": 12, "spring": 3, "summer": 6, "autumn": 9, "fall": 9}
MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
WEEKDAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\.?"
YEAR = r"(?:\d{4}|'\d\d)"
DAY = r"\d\d?(?:st|nd|rd|th)?"
_UNIT = (
    r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|wks?|fortnights?|months?|quarters?|qtrs?|years?|yrs?"
    r"|decades?)"
)
_COUNT = r"(?:\d+|an?|a couple(?: of)?)"
SPAN = rf"{_COUNT}\s?{_UNIT}(?:(?:,| and|, and)? {_COUNT}\s?{_UNIT})*"
WHICH = r"(?:last|previous|past|this past|next|coming|upcoming|following|this|current|the same|same)"
STEPS = {
    "last": -1,
    "previous": -1,
    "past": -1,
    "this past": -1,
    "next": 1,
    "coming": 1,
    "upcoming": 1,
    "following": 1,
}
_UNIT_WORDS: dict[str, str] = {
    "sec": "second",
    "min": "minute",
    "hr": "hour",
    "wk": "week",
    "qtr": "quarter",
    "yr": "year",
}
ORDINAL = r"(?:\d\d?(?:st|nd|rd|th)|last)"


def _unit(word: str) -> str:
    singular = word.removesuffix("s")
    return _UNIT_WORDS.get(singular, singular)


def _count(word: str) -> int:
    return int(word) if word.isdigit() else 2 if "couple" in word else 1


def _month(word: str) -> int:
    return _MONTHS.index(word[:3]) + 1


def weekday_of(word: str) -> int:
    """Return the weekday of a name, Monday as 0."""
    return _WEEKDAYS.index(word[:3])


def number_of(word: str) -> int:
    """Return the number in an ordinal or a day; "last" is -1."""
    return -1 if word == "last" else int(re.sub(r"\D", "", word))


def written_year(word: str | None) -> int | None:
    """Return the year that digits mean, if there are any."""
    return year_of(int(word.lstrip("'"))) if word else None


def moved(moment: datetime, span: str, direction: int) -> Reading:
    """Move by a span such as "2 years 1 month": as exact as its smallest unit."""
    smallest = "decade"
    order = ["second", "minute", "hour", "day", "week", "fortnight", "month", "quarter", "year", "decade"]
    for count, word in sorted(
        re.findall(rf"({_COUNT})\s?({_UNIT})", span), key=lambda part: -order.index(_unit(part[1]))
    ):
        unit = _unit(word)
        moment = shift(moment, direction * _count(count), unit)
        smallest = min(smallest, unit, key=order.index)
    precision: Precision = "week" if smallest == "fortnight" else smallest  # type: ignore[assignment]
    if order.index(smallest) >= order.index("day"):
        moment = floor(moment, "day")
    return Reading(moment, precision)


def _ago(match: Match, now: datetime) -> Reading | None:
    return moved(now, match["span"], -1)


def _hence(match: Match, now: datetime) -> Reading | None:
    return moved(now, match["span"], 1)


def _near_day(match: Match, now: datetime) -> Reading | None:
    days = {"today": 0, "this day": 0, "yesterday": -1, "tomorrow": 1, "tmrw": 1, "tmr": 1}
    return Reading(shift(floor(now, "day"), days[match[1]], "day"), "day", is_now=days[match[1]] == 0)


def _next_but_one_day(match: Match, now: datetime) -> Reading | None:
    return Reading(shift(floor(now, "day"), -2 if "before" in match[0] else 2, "day"), "day")


def _which_unit(match: Match, now: datetime) -> Reading | None:
    unit, step = _unit(match["unit"]), STEPS.get(match["which"], 0)
    if unit in {"second", "minute", "hour", "fortnight"} or (unit == "day" and step):
        return None
    return Reading(shift(floor(now, unit), step, unit), unit)  # type: ignore[arg-type]


def _after_next_unit(match: Match, now: datetime) -> Reading | None:
    unit, step = _unit(match["unit"]), 2 if match["way"] == "after" else -2
    return None if unit == "day" else Reading(shift(floor(now, unit), step, unit), unit)  # type: ignore[arg-type]


def _which_weekday(match: Match, now: datetime) -> Reading | None:
    weekday, which = weekday_of(match["weekday"]), match["which"]
    match which:
        case "this past" | "past":
            return Reading(nearest_weekday(now, weekday, -1), "day")
        case "coming" | "this coming" | "upcoming":
            return Reading(nearest_weekday(now, weekday, 1), "day")
        case "last" | "previous":
            found = nearest_weekday(now, weekday, -1)
            # Said on a Saturday, "last Friday" may be yesterday or the Friday of last week.
            return Reading(found, "day") if found == weekday_of_week(now, weekday, -1) else None
        case "next" | "following":
            return Reading(weekday_of_week(now, weekday, 1), "day")
    found = weekday_of_week(now, weekday, 0)
    # Said on a Wednesday, "this Monday" may be the day before yesterday or the next one.
    return Reading(found, "day") if found >= floor(now, "day") else None


def _weekday_of_which_week(match: Match, now: datetime) -> Reading | None:
    return Reading(weekday_of_week(now, weekday_of(match["weekday"]), STEPS.get(match["which"], 0)), "day")


def _bare_weekday(match: Match, now: datetime) -> Reading | None:
    return Reading(nearest_weekday(now, weekday_of(match[0]), -1), "day")


def _counted_weekday(match: Match, now: datetime) -> Reading | None:
    direction = -1 if match["way"] == "ago" else 1
    first = nearest_weekday(now, weekday_of(match["weekday"]), direction)
    return Reading(shift(first, direction * (_count(match["count"]) - 1), "week"), "day")


def _weekday_and_day(match: Match, now: datetime) -> Reading | None:
    for step in (0, -1, 1):
        month = shift(floor(now, "month"), step, "month")
        found = day_of(month.year, month.month, number_of(match["day"]))
        if found is not None and found.start.weekday() == weekday_of(match["weekday"]):
            return found
    return None


def _which_month(match: Match, now: datetime) -> Reading | None:
    month, step = _month(match["month"]), STEPS.get(match["which"], 0)
    year = now.year
    if (step < 0 and month < now.month) or (step > 0 and month > now.month):
        # In November, "last September" may be two months ago or fourteen.
        return None
    year += step
    return Reading(datetime(year, month, 1), "month")


def _written_month(match: Match, now: datetime) -> Reading | None:
    year = written_year(match["year"])
    return Reading(datetime(year, _month(match["month"]), 1), "month") if year else None


def _bare_month(match: Match, now: datetime) -> Reading | None:
    return latest_month(now, _month(match["month"]))


def _month_and_day(match: Match, now: datetime) -> Reading | None:
    month, day = _month(match["month"]), number_of(match["day"])
    weekday, written = match["weekday"], match["year"]
    if written:
        return day_of(written_year(written.lstrip(" ")), month, day)
    if not weekday:
        return latest_day(now, month, day)
    fitting = [day_of(year, month, day) for year in (now.year, now.year - 1, now.year + 1) if year >= 1]
    return next((day for day in fitting if day and day.start.weekday() == weekday_of(weekday)), None)


def _day_of_which_month(match: Match, now: datetime) -> Reading | None:
    month = shift(floor(now, "month"), STEPS.get(match["which"] or "", 0), "month")
    return day_of(month.year, month.month, number_of(match["day"]))


def _bare_day(match: Match, now: datetime) -> Reading | None:
    return latest_day_of_month(now, number_of(match["day"]))


def _digits(match: Match, now: datetime) -> Reading | None:
    """Read digits month first, unless that is impossible; with dots, which both orders use, only what fits one."""
    first, second = int(match["first"]), int(match["second"])
    if "." in match[0] and max(first, second) <= 12 and first != second:
        return None
    month, day = (second, first) if first > 12 else (first, second)
    if match["year"]:
        return day_of(year_of(int(match["year"])), month, day)
    if match["sign"] != "/" and max(first, second) <= 12:
        return None
    return latest_day(now, month, day)


def _digits_year_first(match: Match, now: datetime) -> Reading | None:
    return day_of(int(match["year"]), int(match["month"]), int(match["day"]))


def _digits_month(match: Match, now: datetime) -> Reading | None:
    month = int(match["month"])
    return Reading(datetime(int(match["year"]), month, 1), "month") if 1 <= month <= 12 else None


def _week_of_year(match: Match, now: datetime) -> Reading | None:
    year = written_year(match["year"]) if match["year"] else now.year
    found = datetime.fromisocalendar(year or now.year, int(match["number"]), 1)
    return Reading(found, "week")


def _end_of_day(match: Match, now: datetime) -> Reading | None:
    return Reading(after_unit(now, "day") - timedelta(seconds=1), "day")


def _units_around(match: Match, now: datetime) -> Reading | None:
    """Read "the past 3 weeks" as what ends today, "the next 3 days" as what begins tomorrow."""
    unit, count = _unit(match["unit"]), _count(match["count"])
    here = floor(now, "day") if unit not in {"second", "minute", "hour"} else now
    precision: Precision = "week" if unit == "fortnight" else unit  # type: ignore[assignment]
    if STEPS[match["which"]] < 0:
        return Reading(shift(here, -count, unit), precision, end=here)
    start = shift(here, 1, "day") if here != now or unit not in {"second", "minute", "hour"} else here
    return Reading(start, precision, end=shift(start, count, unit))


def _quarter(match: Match, now: datetime) -> Reading | None:
    number = int(match["number"])
    year = written_year(match["year"])
    if not 1 <= number <= 4:
        return None
    if year:
        return Reading(datetime(year, 3 * number - 2, 1), "quarter")
    return Reading(datetime(now.year - (3 * number - 2 > now.month), 3 * number - 2, 1), "quarter")


def _half_year(match: Match, now: datetime) -> Reading | None:
    year = written_year(match["year"])
    if year is None:
        return None
    start = datetime(year, 6 * int(match["number"]) - 5, 1)
    return Reading(start, "year", shift(start, 6, "month"))


def _season(match: Match, now: datetime) -> Reading | None:
    month, step = _SEASONS[match["season"]], STEPS.get(match["which"] or "", 0)
    year = written_year(match["year"])
    if year is None:
        current = floor(now, "season")
        year = current.year - (month > current.month)
        if step > 0 or (match["which"] == "this" and year != current.year):
            year += 1
        elif step < 0 and month == current.month:
            year -= 1
    return Reading(datetime(year, month, 1), "season")


def _weekend(match: Match, now: datetime) -> Reading | None:
    which = match["which"] or ""
    # The weekend that is coming is this week's.
    step = 0 if which in {"coming", "upcoming"} else STEPS.get(which, 0)
    saturday = weekday_of_week(now, 5, step)
    return Reading(saturday, "day", shift(saturday, 2, "day"))


def _year(match: Match, now: datetime) -> Reading | None:
    year = int(match["year"])
    return Reading(datetime(year, 1, 1), "year") if year else None


def _decade(match: Match, now: datetime) -> Reading | None:
    written = match["decade"]
    number = int(written)
    if number % 100 == 0 and 0 < number != 2000:
        # "The 1900s" are ten years or a hundred.
        return None
    if len(written) == 2:
        here = now.year - now.year % 100
        if here + number <= now.year:
            # In 2024, "the 20s" may be those of this century or of the last one.
            return None
        number += here - 100
    return Reading(datetime(number, 1, 1), "decade") if number and number % 10 == 0 else None


def _feast(match: Match, now: datetime) -> Reading | None:
    name = match["name"]
    if match["year"]:
        year = written_year(match["year"])
        return feast_of(name, year) if year else None
    which = match["which"]
    if which == "this":
        return feast_of(name, now.year)
    latest = latest_feast(name, now)
    if latest is None or which is None or which == "last":
        return latest
    return feast_of(name, latest.start.year + 1)


def compiled(*pairs: tuple[str, Rule]) -> tuple[tuple[re.Pattern[str], Rule], ...]:
    """Return rules with their patterns compiled."""
    return tuple((re.compile(pattern), rule) for pattern, rule in pairs)


EXACT_RULES = compiled(
    (rf"(?:about |around )?(?P<span>{SPAN}) (?:ago|before now|earlier|back)(?: today)?", _ago),
    (rf"in (?:about |around )?(?P<span>{SPAN})(?: time|s' time|'s time)?", _hence),
    (rf"(?P<span>{SPAN}) (?:from now|hence|in the future|from today|after today)", _hence),
)
CALENDAR_RULES = compiled(
    (r"(today|this day|yesterday|tomorrow|tmrw|tmr)", _near_day),
    (r"(?:the )?day (?:before yesterday|after (?:tomorrow|tmrw|tmr))", _next_but_one_day),
    (rf"(?P<span>{SPAN}) (?:ago|before now)(?: today)?", _ago),
    (rf"(?:in )?(?P<span>{SPAN}) (?:from now|hence)", _hence),
    (rf"in (?P<span>{SPAN})", _hence),
    (rf"(?:the )?(?P<which>{WHICH}) (?P<unit>{_UNIT})", _which_unit),
    (
        rf"(?:the )?(?P<unit>{_UNIT}) (?:(?P<way>after) (?:the )?next|(?P<before>before) (?:the )?last)",
        _after_next_unit,
    ),
    (rf"(?P<which>{WHICH}|this coming) (?P<weekday>{WEEKDAY})", _which_weekday),
    (rf"(?P<weekday>{WEEKDAY}) (?:of |in |from |on )?(?:the )?(?P<which>{WHICH}) week", _weekday_of_which_week),
    (rf"(?:the )?(?P<which>{WHICH}) week(?:'s)? (?:on )?(?P<weekday>{WEEKDAY})", _weekday_of_which_week),
    (WEEKDAY, _bare_weekday),
    (rf"(?P<count>\d+|an?) (?P<weekday>{WEEKDAY}s?) (?P<way>ago|from now)", _counted_weekday),
    (rf"(?P<weekday>{WEEKDAY}) (?:the )?(?P<day>\d\d?(?:st|nd|rd|th))", _weekday_and_day),
    (rf"(?P<which>{WHICH}) (?P<month>{MONTH})", _which_month),
    (rf"(?P<month>{MONTH})(?: of)? (?P<year>{YEAR})", _written_month),
    (rf"(?P<year>\d{{4}}) (?P<month>{MONTH})", _written_month),
    (rf"(?P<month>{MONTH})", _bare_month),
    (r"(?P<year>\d{4}) ?[-/] ?(?P<month>\d\d?)", _digits_month),
    (r"(?P<year>\d{4})[-/.](?P<month>\d\d?)[-/.](?P<day>\d\d?)", _digits_year_first),
    (r"(?P<month>\d\d?) ?[-/.] ?(?P<year>\d{4})", _digits_month),
    (
        rf"(?:(?P<weekday>{WEEKDAY}) )?(?:the )?(?P<month>{MONTH})[ /-]?(?:the )?(?P<day>{DAY})"
        rf"(?:[ -](?P<year>{YEAR}))?",
        _month_and_day,
    ),
    (
        rf"(?:(?P<weekday>{WEEKDAY}) )?(?:the )?(?P<day>{DAY})\.?[ /-]?(?:of )?(?:the )?(?P<month>{MONTH})"
        rf"(?:[ /-]?(?P<year>{YEAR}|\d\d))?",
        _month_and_day,
    ),
    (rf"(?P<year>\d{{4}})[ /-](?P<month>{MONTH})[ /-](?P<day>{DAY})(?P<weekday>(?!))?", _month_and_day),
    (rf"(?:the )?(?P<day>{DAY}) (?:of |in )(?:the )?(?P<which>{WHICH}) month", _day_of_which_month),
    (rf"(?:the )?(?P<day>{DAY}) of the month(?P<which>(?!))?", _day_of_which_month),
    (rf"(?:the )?(?P<day>{DAY})", _bare_day),
    (
        rf"(?:the )?(?P<which>last|past|previous|next|coming) (?P<count>\d+|couple(?: of)?) ?(?P<unit>{_UNIT})",
        _units_around,
    ),
    (rf"week (?P<number>\d\d?)(?: (?:of |in )?(?P<year>{YEAR}))?", _week_of_year),
    (r"(?:the )?end of (?:the |this |my )?day", _end_of_day),
    (r"(?P<first>\d\d?)(?P<sign>[/.-])(?P<second>\d\d?)(?:[ /.,-](?P<year>\d{4}|\d\d))?", _digits),
    (rf"(?:the )?q(?P<number>[1-4])(?: ?(?:of |in )?(?P<year>{YEAR}))?", _quarter),
    (r"(?P<year>\d{4})[ -]?(?:the )?(?:q(?P<number>[1-4]))", _quarter),
    (rf"(?:the )?(?P<number>[1-4])(?:st|nd|rd|th) (?:quarter|qtr)(?: (?:of |in )?(?P<year>{YEAR}))?", _quarter),
    (r"(?P<year>\d{4}) (?:the )?(?P<number>[1-4])(?:st|nd|rd|th) (?:quarter|qtr)", _quarter),
    (r"(?P<year>\d{4}) ?h(?P<number>[12])", _half_year),
    (rf"h(?P<number>[12]) (?:of )?(?P<year>{YEAR})", _half_year),
    (rf"(?:the )?(?P<number>[12])(?:st|nd) half (?:of )?(?P<year>{YEAR})", _half_year),
    (
        rf"(?:the )?(?:(?P<which>last|this past|past|this|next) )?"
        rf"(?P<season>spring|summer|autumn|fall|winter)(?: (?:of |in )?(?P<year>{YEAR}))?",
        _season,
    ),
    (rf"(?:(?P<which>{WHICH}|the) )?week-?end", _weekend),
    (r"(?:the )?(?:year )?(?P<year>\d{4})(?: a\.?d\.?| ce)?", _year),
    (r"(?:the )?year (?P<year>\d{1,4})", _year),
    (r"(?P<year>\d{1,4}) (?:a\.?d\.?|ce)", _year),
    (r"(?:the )?'?(?P<decade>\d{3}0|\d0)'?s", _decade),
)
FEAST_RULES = compiled(
    (rf"(?:(?P<which>last|this|next) )?(?P<name>[a-z][a-z' -]+?)(?:(?: of| in)? (?P<year>{YEAR}))?", _feast),
)
