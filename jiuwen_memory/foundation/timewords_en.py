"""English date words. Pure functions: words and the wall time they count from in, a reading or None out.

Each rule is a pattern for the whole of the words, so that what is not understood completely is not understood at all.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from jiuwen_memory.foundation.clock_en import take_clock
from jiuwen_memory.foundation.number_words import digits_of_english
from jiuwen_memory.foundation.timeline import (
    PeriodWords,
    Reading,
    floor,
    nearest_weekday,
    shift,
    week_of,
    weekday_of_month,
)
from jiuwen_memory.foundation.timewords_en_calendar import (
    CALENDAR_RULES,
    DAY,
    EXACT_RULES,
    FEAST_RULES,
    MONTH,
    ORDINAL,
    SPAN,
    STEPS,
    WEEKDAY,
    WHICH,
    YEAR,
    Match,
    Rule,
    compiled,
    moved,
    number_of,
    weekday_of,
)

_SOME_DAY = datetime(2000, 1, 1)
_FILLERS = re.compile(
    r"^(?:(?:on|in|at|during|around|about|since|from|as of|starting|beginning|back in|until|till|up to"
    r"|the month of|the)\s+)+"
)
_TO_WORDS = re.compile(r"(?:from\s+)?(?P<since>.+?)\s+(?:to|until|till|through|thru)\s+(?P<until>.+)")
_TO_DASH = re.compile(
    r"(?:from\s+)?(?P<since>.+?)(?:\s[-\u2013\u2014~]\s|[\u2013\u2014~]|(?<=[a-z\d])-(?=[a-z\d]))(?P<until>.+)"
)
_BETWEEN = re.compile(r"(?:(?P<day>.+?)\s+)?between\s+(?P<since>.+?)\s+(?:and|through|to)\s+(?P<until>.+)")
_ON_DAY = re.compile(r"(?P<day>.+?)\s+from\s+(?P<since>.+?)\s+(?:to|until|till)\s+(?P<until>.+)")
_SINCE = re.compile(
    r"(?:ever )?(?:since|from|starting(?: from| in| on)?|beginning(?: in| on)|as of)\s+(?P<since>.+?)"
    r"(?:\s+(?:on|onwards?))?"
)
_UNTIL = re.compile(r"(?:until|till|up to|up until|through)\s+(?P<until>.+)")
_BEFORE = re.compile(r"(?:before|prior to)\s+(?P<until>.+)")
_MONTH_ONLY = re.compile(rf"(?:the )?(?:{DAY} )?(?:of )?{MONTH}(?: (?:the )?{DAY})?")


def read_english(text: str, now: datetime) -> Reading | None:
    """Return what English date words mean when said at a wall time, or None if they leave a doubt."""
    words = _plain(text)
    if re.fullmatch(
        r"(?:right |just )?now|at (?:this|the) (?:moment|time)|(?:at |the )?present|currently|nowadays", words
    ):
        return Reading(now, "second", is_now=True)
    span = _read_rules(EXACT_RULES, words, now)
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


def split_english_period(text: str) -> PeriodWords | None:
    """Return the words of the beginning and of the end, or None if the words do not name them apart."""
    words = _plain(text)
    if match := _UNTIL.fullmatch(words):
        return PeriodWords(None, match["until"])
    if match := _BEFORE.fullmatch(words):
        return PeriodWords(None, match["until"], is_before=True)
    for rules in (EXACT_RULES, _DATE_RULES):
        if _read_rules(rules, words, _SOME_DAY) is not None:
            return None
    for pattern in (_BETWEEN, _ON_DAY, _TO_WORDS, _TO_DASH):
        match = pattern.fullmatch(words)
        if match is not None:
            return _completed(match["since"], match["until"], match.groupdict().get("day"))
    if match := _SINCE.fullmatch(words):
        return PeriodWords(match["since"], None)
    return None


def _plain(text: str) -> str:
    words = digits_of_english(" ".join(text.casefold().replace("’", "'").split()))
    words = re.sub(r"\bhalf a year\b", "6 months", words)
    words = re.sub(r"\b(?:an?|1) year and a half\b", "18 months", words)
    return re.sub(r"\b(\d{1,2}) and a half years\b", lambda match: f"{12 * int(match[1]) + 6} months", words)


def _completed(since: str, until: str, day: str | None) -> PeriodWords:
    """Give each end what only the other one says: its day, its month or its year."""
    if day:
        return PeriodWords(f"{day} {since}", f"{day} {until}")
    starts, ends = take_clock(since), take_clock(until)
    if starts and ends and starts[1] and ends[1] and bool(starts[0]) != bool(ends[0]):
        return PeriodWords(f"{since} {ends[0]}", f"{until} {starts[0]}")
    year = re.search(rf"(?<!\d){YEAR}$", until)
    if re.fullmatch(DAY, since) and (
        match := re.fullmatch(rf"({DAY})(?: of| in)? ({MONTH}(?:,? {YEAR})?|{WHICH} month)", until)
    ):
        since, until = f"{since} of {match[2]}", f"{match[1]} of {match[2]}"
    elif re.fullmatch(DAY, until) and (match := re.fullmatch(rf"(.*{MONTH} ){DAY}", since)):
        until = match[1] + until
    elif re.fullmatch(DAY, since) and (match := re.fullmatch(rf"({MONTH} ){DAY}(,? {YEAR})?", until)):
        since = match[1] + since + (match[2] or "")
    elif (match := re.fullmatch(rf"({MONTH} ){DAY}", since)) and re.fullmatch(rf"{DAY},? {YEAR}", until) and year:
        since, until = f"{since} {year[0]}", match[1] + until
    elif year and _MONTH_ONLY.fullmatch(since):
        since = f"{since} {year[0]}"
    elif re.fullmatch(r"\d\d?(?:st|nd|rd|th)?", since) or re.fullmatch(r"\d\d?", until):
        # A day of some month, or an hour: "1 pm to 4".
        return PeriodWords(None, None)
    return PeriodWords(since, until)


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


def _from_day(match: Match, now: datetime) -> Reading | None:
    anchor = _read_date(match["anchor"], now)
    if anchor is None or anchor.precision != "day":
        return None
    return moved(anchor.start, match["span"], -1 if match["way"] in {"before", "prior to"} else 1)


def _in_year(match: Match, now: datetime) -> Reading | None:
    """Read what a word means in another year: "June next year", "Thanksgiving last year", "Q3 this year"."""
    year = now.year + STEPS.get(match["which"], 0)
    return _read_date(f"{match['rest']} {year:04}", now)


def _weekday_beside(match: Match, now: datetime) -> Reading | None:
    day = _read_date(match["day"], now)
    if day is None or day.precision != "day" or day.end is not None:
        return None
    direction = -1 if match["way"] in {"before", "prior to"} else 1
    return Reading(nearest_weekday(day.start, weekday_of(match["weekday"]), direction), "day")


def _nth_weekday(match: Match, now: datetime) -> Reading | None:
    words = match["month"]
    month = Reading(floor(now, "month"), "month") if words in {"month", "the month"} else _read_date(words, now)
    if month is None or month.precision != "month":
        return None
    number = number_of(match["nth"])
    found = weekday_of_month(month.start, weekday_of(match["weekday"]), number)
    return Reading(found, "day") if found else None


def _nth_week(match: Match, now: datetime) -> Reading | None:
    period = _read_date(match["period"], now)
    if period is None or period.precision not in {"month", "year"}:
        return None
    found = week_of(period.start, number_of(match["nth"]), period.precision)
    return Reading(found, "week") if found else None


def _week_around(match: Match, now: datetime) -> Reading | None:
    day = _read_date(match["day"], now)
    return Reading(floor(day.start, "week"), "week") if day and day.precision == "day" else None


def _edge(match: Match, now: datetime) -> Reading | None:
    """Read "the end of March" as its last day, no more exact than the month itself."""
    period = _read_date(match["period"], now)
    if period is None or period.end is not None:
        return None
    after, edge = period.after, match["edge"]
    if period.precision == "day":
        return None
    if edge == "end":
        return replace(period, start=shift(after, -1, "day"))
    middle = floor(period.start + (after - period.start) / 2, "day")
    if edge in {"late", "mid", "middle"}:
        return replace(period, start=middle)
    return replace(period, end=middle)


_DATE_RULES = (
    *CALENDAR_RULES,
    *compiled(
        (rf"(?P<span>{SPAN}) (?P<way>before|prior to|after|from|following) (?P<anchor>.+)", _from_day),
        (rf"(?:the )?(?P<weekday>{WEEKDAY}) (?P<way>before|prior to|after|following) (?P<day>.+)", _weekday_beside),
        (rf"(?:the )?(?P<nth>{ORDINAL}) (?P<weekday>{WEEKDAY}) (?:of |in )?(?P<month>.+)", _nth_weekday),
        (rf"(?:the )?(?P<nth>{ORDINAL}) week (?:of |in )?(?P<period>.+)", _nth_week),
        (r"(?:the )?week (?:of|starting|beginning)(?: on)? (?P<day>.+)", _week_around),
        (rf"(?P<rest>.+?)(?:'s)? (?:of |in )?(?:the )?(?P<which>{WHICH}) year(?:'s)?", _in_year),
        (r"(?:the )?(?P<edge>end|mid|middle|start|beginning|early|late)[ -](?:of |in )?(?:the )?(?P<period>.+)", _edge),
    ),
    *FEAST_RULES,
)
