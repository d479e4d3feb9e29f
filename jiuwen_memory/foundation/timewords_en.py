"""English date words. Pure functions: words and the wall time they count from in, a reading or None out.

Each rule is a pattern for the whole of the words, so that what is not understood completely is not understood at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from jiuwen_memory.foundation.clock_en import take_clock
from jiuwen_memory.foundation.feasts import feast_of, latest_feast
from jiuwen_memory.foundation.number_words import digits_of_english
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
    week_of,
    weekday_of_month,
    weekday_of_week,
    year_of,
)

Match = re.Match[str]
Rule = Callable[[Match, datetime], Reading | None]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SEASONS = {"winter": 12, "spring": 3, "summer": 6, "autumn": 9, "fall": 9}
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\.?"
_YEAR = r"(?:\d{4}|'\d\d)"
_DAY = r"\d\d?(?:st|nd|rd|th)?"
_UNIT = r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|wks?|fortnights?|months?|quarters?|qtrs?|years?|yrs?|decades?)"
_COUNT = r"(?:\d+|an?|a couple(?: of)?)"
_SPAN = rf"{_COUNT}\s?{_UNIT}(?:(?:,| and|, and)? {_COUNT}\s?{_UNIT})*"
_WHICH = r"(?:last|previous|past|this past|next|coming|upcoming|following|this|current|the same|same)"
_STEPS = {"last": -1, "previous": -1, "past": -1, "this past": -1, "next": 1, "coming": 1, "upcoming": 1, "following": 1}
_UNIT_WORDS: dict[str, str] = {"sec": "second", "min": "minute", "hr": "hour", "wk": "week", "qtr": "quarter", "yr": "year"}
_ORDINAL = r"(?:\d\d?(?:st|nd|rd|th)|last)"
_FILLERS = re.compile(r"^(?:(?:on|in|at|during|around|about|since|from|as of|starting|beginning|back in|until|till|up to|the month of|the)\s+)+")
_PERIOD_WORDS = re.compile(
    r"(?:from\s+|between\s+)?(?P<since>.+?)\s*(?:\bto\b|\buntil\b|\btill\b|\bthrough\b|\bthru\b|(?<=\d)\s*[-\u2013\u2014~]\s*(?=\d)"
    r"|\s[-\u2013\u2014~]\s|[\u2013\u2014~]|(?<=[a-z])-(?=[a-z]))\s*(?P<until>.+)"
)
_BETWEEN = re.compile(r"between\s+(?P<since>.+?)\s+and\s+(?P<until>.+)")
_SINCE = re.compile(r"(?:ever )?(?:since|from|starting(?: from| in| on)?|beginning(?: in| on)?|as of)\s+(?P<since>.+?)(?:\s+(?:on|onwards?))?")
_UNTIL = re.compile(r"(?:until|till|up to|up until|through)\s+(?P<until>.+)")
_BEFORE = re.compile(r"(?:before|prior to)\s+(?P<until>.+)")
_DATE_LIKE = re.compile(r"\d{4}-\d\d?(?:-\d\d?)?(?:[t ].*)?|\d\d?-\d\d?(?:-\d\d(?:\d\d)?)?", re.IGNORECASE)
_PRESENT = re.compile(r"(?:right )?now|at present|the present|present|currently|today|nowadays|ongoing|this moment|at the moment")
_MONTH_ONLY = re.compile(rf"(?:the )?{_DAY}? ?(?:of )?{_MONTH}(?: (?:the )?{_DAY})?")


def read_english(text: str, now: datetime) -> Reading | None:
    """Return what English date words mean when said at a wall time, or None if they leave a doubt."""
    words = digits_of_english(" ".join(text.casefold().replace("’", "'").split()))
    if re.fullmatch(r"(?:right |just )?now|at (?:this|the) moment|at present|currently|at this time", words):
        return Reading(now, "second", is_now=True)
    span = _read_rules(_EXACT_RULES, words, now)
    if span is not None:
        return span
    taken = take_clock(words)
    if taken is None:
        return None
    rest, clock = taken
    day = _read_date(rest.strip(" ,"), now)
    if clock is None or day is None:
        return day
    return clock.on(floor(day.start, "day")) if day.precision == "day" and day.end is None else None


def split_english_period(text: str) -> tuple[str | None, str | None] | None:
    """Return the words of the beginning and of the end, or None if the words do not name them apart."""
    words = digits_of_english(" ".join(text.casefold().replace("’", "'").split()))
    if match := _BETWEEN.fullmatch(words):
        return _completed(match["since"], match["until"])
    if match := _UNTIL.fullmatch(words):
        return None, match["until"]
    if _DATE_LIKE.fullmatch(words) or (_read_rules(_EXACT_RULES, words, datetime(2000, 1, 1)) is not None):
        return None
    match = _PERIOD_WORDS.fullmatch(words)
    if match and not re.search(r"\b(?:quarter|\d\d?)$", match["since"] if " to " in words and "past" in words else ""):
        return _completed(match["since"], match["until"])
    if match := _SINCE.fullmatch(words):
        return match["since"], None
    return None


def _completed(since: str, until: str) -> tuple[str, str]:
    """Give each end what only the other one says: its month or its year."""
    year = re.search(rf"(?<!\d){_YEAR}$", until)
    if re.fullmatch(_DAY, since) and (match := re.fullmatch(rf"{_DAY}( .+)", until)):
        return since + match[1], until
    if re.fullmatch(_DAY, until) and (match := re.fullmatch(rf"(.*{_MONTH} ){_DAY}", since)):
        return since, match[1] + until
    if re.fullmatch(_DAY, since) and (match := re.fullmatch(rf"({_MONTH} ){_DAY}(,? {_YEAR})?", until)):
        return match[1] + since + (match[2] or ""), until
    if year and _MONTH_ONLY.fullmatch(since):
        return f"{since} {year[0]}", until
    return since, until


def _read_rules(rules: tuple[tuple[re.Pattern[str], Rule], ...], words: str, now: datetime) -> Reading | None:
    for pattern, rule in rules:
        match = pattern.fullmatch(words)
        if match is not None:
            return rule(match, now)
    return None


def _read_date(words: str, now: datetime) -> Reading | None:
    words = re.sub(r"\s*,\s*", " ", words).strip()
    found = _read_rules(_DATE_RULES, words, now)
    if found is None:
        shorter = _FILLERS.sub("", words)
        found = _read_rules(_DATE_RULES, shorter, now) if shorter != words else None
    return found


def _unit(word: str) -> str:
    singular = word.removesuffix("s")
    return _UNIT_WORDS.get(singular, singular)


def _count(word: str) -> int:
    return int(word) if word.isdigit() else 2 if "couple" in word else 1


def _month(word: str) -> int:
    return _MONTHS.index(word[:3]) + 1


def _weekday(word: str) -> int:
    return _WEEKDAYS.index(word[:3])


def _number(word: str) -> int:
    return -1 if word == "last" else int(re.sub(r"\D", "", word))


def _written_year(word: str | None) -> int | None:
    return year_of(int(word.lstrip("'"))) if word else None


def _moved(moment: datetime, span: str, direction: int) -> Reading:
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
    return _moved(now, match["span"], -1)


def _hence(match: Match, now: datetime) -> Reading | None:
    return _moved(now, match["span"], 1)


def _from_day(match: Match, now: datetime) -> Reading | None:
    anchor = _read_date(match["anchor"], now)
    if anchor is None or anchor.precision != "day":
        return None
    return _moved(anchor.start, match["span"], -1 if match["way"] in {"before", "prior to"} else 1)


def _near_day(match: Match, now: datetime) -> Reading | None:
    days = {"today": 0, "this day": 0, "yesterday": -1, "tomorrow": 1, "tmrw": 1, "tmr": 1}
    return Reading(shift(floor(now, "day"), days[match[1]], "day"), "day", is_now=days[match[1]] == 0)


def _next_but_one_day(match: Match, now: datetime) -> Reading | None:
    return Reading(shift(floor(now, "day"), -2 if "before" in match[0] else 2, "day"), "day")


def _which_unit(match: Match, now: datetime) -> Reading | None:
    unit, step = _unit(match["unit"]), _STEPS.get(match["which"], 0)
    if unit in {"second", "minute", "hour", "fortnight"} or (unit == "day" and step):
        return None
    return Reading(shift(floor(now, unit), step, unit), unit)  # type: ignore[arg-type]


def _after_next_unit(match: Match, now: datetime) -> Reading | None:
    unit, step = _unit(match["unit"]), 2 if match["way"] == "after" else -2
    return None if unit == "day" else Reading(shift(floor(now, unit), step, unit), unit)  # type: ignore[arg-type]


def _which_weekday(match: Match, now: datetime) -> Reading | None:
    weekday, which = _weekday(match["weekday"]), match["which"]
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
    return Reading(weekday_of_week(now, weekday, 0), "day")


def _weekday_of_which_week(match: Match, now: datetime) -> Reading | None:
    return Reading(weekday_of_week(now, _weekday(match["weekday"]), _STEPS.get(match["which"], 0)), "day")


def _bare_weekday(match: Match, now: datetime) -> Reading | None:
    return Reading(nearest_weekday(now, _weekday(match[0]), -1), "day")


def _counted_weekday(match: Match, now: datetime) -> Reading | None:
    direction = -1 if match["way"] == "ago" else 1
    first = nearest_weekday(now, _weekday(match["weekday"]), direction)
    return Reading(shift(first, direction * (_count(match["count"]) - 1), "week"), "day")


def _weekday_and_day(match: Match, now: datetime) -> Reading | None:
    for step in (0, -1, 1):
        month = shift(floor(now, "month"), step, "month")
        found = day_of(month.year, month.month, _number(match["day"]))
        if found is not None and found.start.weekday() == _weekday(match["weekday"]):
            return found
    return None


def _which_month(match: Match, now: datetime) -> Reading | None:
    month, step = _month(match["month"]), _STEPS.get(match["which"], 0)
    year = now.year
    if step < 0:
        year -= month >= now.month
    elif step > 0:
        year += month <= now.month
    return Reading(datetime(year, month, 1), "month")


def _written_month(match: Match, now: datetime) -> Reading | None:
    year = _written_year(match["year"])
    return Reading(datetime(year, _month(match["month"]), 1), "month") if year else None


def _bare_month(match: Match, now: datetime) -> Reading | None:
    return latest_month(now, _month(match["month"]))


def _in_year(match: Match, now: datetime) -> Reading | None:
    """Read what a word means in another year: "June next year", "Thanksgiving last year", "Q3 this year"."""
    year = now.year + _STEPS.get(match["which"], 0)
    return _read_date(f"{match['rest']} {year:04}", now)


def _month_and_day(match: Match, now: datetime) -> Reading | None:
    month, day = _month(match["month"]), _number(match["day"])
    weekday, written = match["weekday"], match["year"]
    if written:
        return day_of(_written_year(written.lstrip(" ")), month, day)
    if not weekday:
        return latest_day(now, month, day)
    fitting = [day_of(year, month, day) for year in (now.year, now.year - 1, now.year + 1) if year >= 1]
    return next((day for day in fitting if day and day.start.weekday() == _weekday(weekday)), None)


def _day_of_which_month(match: Match, now: datetime) -> Reading | None:
    month = shift(floor(now, "month"), _STEPS.get(match["which"] or "", 0), "month")
    return day_of(month.year, month.month, _number(match["day"]))


def _bare_day(match: Match, now: datetime) -> Reading | None:
    return latest_day_of_month(now, _number(match["day"]))


def _digits(match: Match, now: datetime) -> Reading | None:
    """Read digits month first, unless that is impossible; with dots, which both orders use, only if one is impossible."""
    first, second = int(match["first"]), int(match["second"])
    if "." in match[0] and max(first, second) <= 12 and first != second:
        return None
    month, day = (second, first) if first > 12 else (first, second)
    if match["year"]:
        return day_of(year_of(int(match["year"])), month, day)
    if match["sign"] != "/" and max(first, second) <= 12:
        return None
    return latest_day(now, month, day)


def _digits_month(match: Match, now: datetime) -> Reading | None:
    month = int(match["month"])
    return Reading(datetime(int(match["year"]), month, 1), "month") if 1 <= month <= 12 else None


def _nth_weekday(match: Match, now: datetime) -> Reading | None:
    month = _read_date(match["month"], now)
    if month is None or month.precision != "month":
        return None
    number = _number(match["nth"])
    found = weekday_of_month(month.start, _weekday(match["weekday"]), number)
    return Reading(found, "day") if found else None


def _nth_week(match: Match, now: datetime) -> Reading | None:
    period = _read_date(match["period"], now)
    if period is None or period.precision not in {"month", "year"}:
        return None
    found = week_of(period.start, _number(match["nth"]), period.precision)
    return Reading(found, "week") if found else None


def _week_around(match: Match, now: datetime) -> Reading | None:
    day = _read_date(match["day"], now)
    return Reading(floor(day.start, "week"), "week") if day and day.precision == "day" else None


def _quarter(match: Match, now: datetime) -> Reading | None:
    number = int(match["number"])
    year = _written_year(match["year"])
    if not 1 <= number <= 4:
        return None
    if year:
        return Reading(datetime(year, 3 * number - 2, 1), "quarter")
    return Reading(datetime(now.year - (3 * number - 2 > now.month), 3 * number - 2, 1), "quarter")


def _half_year(match: Match, now: datetime) -> Reading | None:
    year = _written_year(match["year"])
    if year is None:
        return None
    start = datetime(year, 6 * int(match["number"]) - 5, 1)
    return Reading(start, "quarter", shift(start, 6, "month"))


def _season(match: Match, now: datetime) -> Reading | None:
    month, step = _SEASONS[match["season"]], _STEPS.get(match["which"] or "", 0)
    year = _written_year(match["year"])
    if year is None:
        current = floor(now, "season")
        year = current.year - (month > current.month)
        if step > 0 or (match["which"] == "this" and year != current.year):
            year += 1
        elif step < 0 and month == current.month:
            year -= 1
    return Reading(datetime(year, month, 1), "season")


def _weekend(match: Match, now: datetime) -> Reading | None:
    step = _STEPS.get((match["which"] or "").removesuffix("the").strip(), 0)
    saturday = weekday_of_week(now, 5, step)
    return Reading(saturday, "day", shift(saturday, 2, "day"))


def _year(match: Match, now: datetime) -> Reading | None:
    year = int(match["year"])
    return Reading(datetime(year, 1, 1), "year") if year else None


def _decade(match: Match, now: datetime) -> Reading | None:
    written = match["decade"]
    number = int(written)
    if len(written) == 2:
        number += 1900 if 1900 + number <= now.year else 1800
    return Reading(datetime(number, 1, 1), "decade") if number and number % 10 == 0 else None


def _edge(match: Match, now: datetime) -> Reading | None:
    """Read "the end of March" as its last day, no more exact than the month itself."""
    period = _read_date(match["period"], now)
    if period is None or period.end is not None:
        return None
    after, edge = period.after, match["edge"]
    if period.precision == "day":
        return Reading(after - timedelta(seconds=1), "day") if edge == "end" else None
    if edge == "end":
        return replace(period, start=shift(after, -1, "day"))
    if edge in {"mid", "middle"}:
        return replace(period, start=floor(period.start + (after - period.start) / 2, "day"))
    return period


def _feast(match: Match, now: datetime) -> Reading | None:
    name = match["name"]
    if match["year"]:
        year = _written_year(match["year"])
        return feast_of(name, year) if year else None
    which = match["which"]
    if which == "this":
        return feast_of(name, now.year)
    latest = latest_feast(name, now)
    if latest is None or which is None or which == "last":
        return latest
    return feast_of(name, latest.start.year + 1)


def _rules(*pairs: tuple[str, Rule]) -> tuple[tuple[re.Pattern[str], Rule], ...]:
    return tuple((re.compile(pattern), rule) for pattern, rule in pairs)


_EXACT_RULES = _rules(
    (rf"(?:about |around )?(?P<span>{_SPAN}) (?:ago|before now|earlier|back)", _ago),
    (rf"in (?:about |around )?(?P<span>{_SPAN})(?: time|s' time|'s time)?", _hence),
    (rf"(?P<span>{_SPAN}) (?:from now|hence|in the future|from today|after today)", _hence),
)
_DATE_RULES = _rules(
    (r"(today|this day|yesterday|tomorrow|tmrw|tmr)", _near_day),
    (r"(?:the )?day (?:before yesterday|after (?:tomorrow|tmrw|tmr))", _next_but_one_day),
    (rf"(?P<span>{_SPAN}) (?:ago|before now)", _ago),
    (rf"(?:in )?(?P<span>{_SPAN}) (?:from now|hence)", _hence),
    (rf"in (?P<span>{_SPAN})", _hence),
    (rf"(?P<span>{_SPAN}) (?P<way>before|prior to|after|from|following) (?P<anchor>.+)", _from_day),
    (rf"(?:the )?(?P<which>{_WHICH}) (?P<unit>{_UNIT})", _which_unit),
    (rf"(?:the )?(?P<unit>{_UNIT}) (?:(?P<way>after) (?:the )?next|(?P<before>before) (?:the )?last)", _after_next_unit),
    (rf"(?P<which>{_WHICH}|this coming) (?P<weekday>{_WEEKDAY})", _which_weekday),
    (rf"(?P<weekday>{_WEEKDAY}) (?:of |in |from |on )?(?:the )?(?P<which>{_WHICH}) week", _weekday_of_which_week),
    (rf"(?:the )?(?P<which>{_WHICH}) week(?:'s)? (?:on )?(?P<weekday>{_WEEKDAY})", _weekday_of_which_week),
    (_WEEKDAY, _bare_weekday),
    (rf"(?P<count>\d+|an?) (?P<weekday>{_WEEKDAY}s?) (?P<way>ago|from now)", _counted_weekday),
    (rf"(?P<weekday>{_WEEKDAY}) (?:the )?(?P<day>\d\d?(?:st|nd|rd|th))", _weekday_and_day),
    (rf"(?P<which>{_WHICH}) (?P<month>{_MONTH})", _which_month),
    (rf"(?P<month>{_MONTH})(?: of)? (?P<year>{_YEAR})", _written_month),
    (rf"(?P<year>\d{{4}}) (?P<month>{_MONTH})", _written_month),
    (rf"(?P<month>{_MONTH})", _bare_month),
    (r"(?P<year>\d{4}) ?[-/] ?(?P<month>\d\d?)|(?P<skip>(?!))", _digits_month),
    (r"(?P<month>\d\d?) ?[-/.] ?(?P<year>\d{4})", _digits_month),
    (
        rf"(?:(?P<weekday>{_WEEKDAY}) )?(?:the )?(?P<month>{_MONTH})[ /-]?(?:the )?(?P<day>{_DAY})(?:[ -](?P<year>{_YEAR}))?",
        _month_and_day,
    ),
    (
        rf"(?:(?P<weekday>{_WEEKDAY}) )?(?:the )?(?P<day>{_DAY})\.?[ /-]?(?:of )?(?:the )?(?P<month>{_MONTH})"
        rf"(?:[ /-]?(?P<year>{_YEAR}|\d\d))?",
        _month_and_day,
    ),
    (rf"(?P<year>\d{{4}})[ /-](?P<month>{_MONTH})[ /-](?P<day>{_DAY})(?P<weekday>(?!))?", _month_and_day),
    (rf"(?:the )?(?P<day>{_DAY}) of (?:the )?(?:(?P<which>{_WHICH}) )?month", _day_of_which_month),
    (r"(?:the )?(?P<day>\d\d?(?:st|nd|rd|th))|(?:the )?(?P<number>(?!))", _bare_day),
    (r"(?:the )(?P<day>\d\d?)", _bare_day),
    (r"(?P<day>\d\d?)", _bare_day),
    (r"(?P<first>\d\d?)(?P<sign>[/.-])(?P<second>\d\d?)(?:[ /.,-](?P<year>\d{4}|\d\d))?", _digits),
    (rf"(?:the )?(?P<nth>{_ORDINAL}) (?P<weekday>{_WEEKDAY}) (?:of |in )?(?P<month>.+)", _nth_weekday),
    (rf"(?:the )?(?P<nth>{_ORDINAL}) week (?:of |in )?(?P<period>.+)", _nth_week),
    (r"(?:the )?week (?:of|starting|beginning)(?: on)? (?P<day>.+)", _week_around),
    (rf"(?:the )?q(?P<number>[1-4])(?: ?(?:of |in )?(?P<year>{_YEAR}))?", _quarter),
    (rf"(?P<year>\d{{4}}) ?(?:the )?(?:q(?P<number>[1-4]))", _quarter),
    (rf"(?:the )?(?P<number>[1-4])(?:st|nd|rd|th) (?:quarter|qtr)(?: (?:of |in )?(?P<year>{_YEAR}))?", _quarter),
    (r"(?P<year>\d{4}) (?:the )?(?P<number>[1-4])(?:st|nd|rd|th) (?:quarter|qtr)", _quarter),
    (r"(?P<year>\d{4}) ?h(?P<number>[12])", _half_year),
    (rf"h(?P<number>[12]) (?:of )?(?P<year>{_YEAR})|(?P<skip>(?!))", _half_year),
    (rf"(?:the )?(?P<number>[12])(?:st|nd) half (?:of )?(?P<year>{_YEAR})", _half_year),
    (
        rf"(?:the )?(?:(?P<which>last|this past|past|this|next) )?(?P<season>spring|summer|autumn|fall|winter)(?: (?:of |in )?(?P<year>{_YEAR}))?",
        _season,
    ),
    (rf"(?:(?P<which>{_WHICH}|the) )?week-?end", _weekend),
    (r"(?:the )?(?:year )?(?P<year>\d{4})(?: a\.?d\.?| ce)?", _year),
    (r"(?:the )?year (?P<year>\d{1,4})|(?P<skip>(?!))", _year),
    (r"(?P<year>\d{1,4}) (?:a\.?d\.?|ce)", _year),
    (r"(?:the )?'?(?P<decade>\d{3}0|\d0)'?s", _decade),
    (rf"(?P<rest>.+?)(?:'s)? (?:of |in )?(?:the )?(?P<which>{_WHICH}) year(?:'s)?", _in_year),
    (r"(?:the )?(?P<edge>end|mid|middle|start|beginning|early|late)[ -](?:of |in )?(?:the )?(?P<period>.+)", _edge),
    (rf"(?:(?P<which>last|this|next) )?(?P<name>[a-z][a-z' ]+?)(?:(?: of| in)? (?P<year>{_YEAR}))?", _feast),
)
