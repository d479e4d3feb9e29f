"""English date words. Pure functions: words and the wall time they count from in, a reading or None out.

Each rule is a pattern for the whole of the words, so that what is not understood completely is not understood at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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
    r"^(?:(?:on|in|at(?! \d+$)|during|over(?= the)|throughout|around|about|since|from|as of|starting|beginning|back in"
    r"|the month of|all of|the (?:whole|entirety) of|the (?:whole|entire)|the)\s+)+"
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
_UNTIL = re.compile(r"(?:until|till|up to|up until|through|by|no later than|not later than)\s+(?P<until>.+)")
_BEFORE = re.compile(r"(?:before|prior to)\s+(?P<until>.+)")
_AFTER = re.compile(r"(?:any ?time )?after\s+(?P<since>.+)")
_SO_LONG = re.compile(rf"for (?:(?:over|about|around|nearly|almost) )?(?:the )?(?:last|past) (?P<span>{SPAN})")
_SPAN_FROM = re.compile(
    rf"(?P<lasting>for )?(?P<span>{SPAN}),? (?:starting|beginning|(?(lasting)from|(?!)))(?: from| on)? (?P<since>.+)"
)
_FROM_SPAN = re.compile(rf"(?:starting |beginning )?(?:from|on|in) (?P<since>.+),? for (?P<span>{SPAN})")
_REMAINING = re.compile(
    r"(?:later|(?:the )?rest of)(?: in)? (?:the|this|the current|my) (?P<unit>week|month|quarter|year)"
)
_WITHIN = re.compile(rf"within (?:(?:the )?(?:next|coming) )?(?P<span>{SPAN})(?: from (?:now|today))?")


def _words_within(match: Match) -> PeriodWords:
    since = "now" if re.search("sec|min|hour|hr", match["span"]) else "today"
    return PeriodWords(since, f"{match['span']} hence", is_before=True)


def _words_of_span(match: Match) -> PeriodWords:
    return PeriodWords(match["since"], f"{match['span']} after {match['since']}", is_before=True)


_LED_BY_A_WORD: tuple[tuple[re.Pattern[str], Callable[[Match], PeriodWords]], ...] = (
    (_UNTIL, lambda match: PeriodWords(None, match["until"])),
    (_BEFORE, lambda match: PeriodWords(None, match["until"], is_before=True)),
    (_AFTER, lambda match: PeriodWords(match["since"], None, is_after=True)),
    (_SO_LONG, lambda match: PeriodWords(f"{match['span']} ago", None)),
    (_WITHIN, _words_within),
    (_REMAINING, lambda match: PeriodWords("today", f"this {match['unit']}")),
    (_FROM_SPAN, _words_of_span),
    (_SPAN_FROM, _words_of_span),
)
# In a tale "the following year" counts from what was told before.
_COUNTED_FROM_A_TALE = re.compile(r"(?:(?:in|on|by) )?the (?:following|previous|same) \w+")
_PART_OF_YEAR = re.compile(r"(?:the )?(?:spring|summer|autumn|fall|winter|q[1-4]|\d(?:st|nd|rd|th) (?:quarter|half))")
_SHARED_HALF = re.compile(
    r"(?P<start>(?P<since>1[0-2]|[1-9])(?::\d\d)?)\|(?P<end>(?P<until>1[0-2]|[1-9])(?::\d\d)?)\s?"
    r"(?P<half>[ap])\.?m\b\.?(?: of| on)?(?P<day> .+)?"
)
_MONTH_ONLY = re.compile(rf"(?:the )?(?:{DAY} )?(?:of )?{MONTH}(?: (?:the )?{DAY})?")


def read_english(text: str, now: datetime) -> Reading | None:
    """Return what English date words mean when said at a wall time, or None if they leave a doubt."""
    words = _plain(text)
    if text.isalpha() and re.fullmatch(DAY, words):
        # "ten" is an hour or an age as well; "the tenth" and "10" are days.
        return None
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
    for pattern, ends in _LED_BY_A_WORD:
        match = pattern.fullmatch(words)
        if match is not None:
            return ends(match)
    for rules in (EXACT_RULES, _DATE_RULES):
        if _read_rules(rules, words, _SOME_DAY) is not None:
            return None
    since = _SINCE.fullmatch(words)
    if since is not None and read_english(since["since"], _SOME_DAY) is not None:
        return PeriodWords(since["since"], None)
    for pattern in (_BETWEEN, _ON_DAY, _TO_WORDS, _TO_DASH):
        match = pattern.fullmatch(words)
        if match is not None:
            return _completed(match["since"], match["until"], match.groupdict().get("day"))
    return PeriodWords(since["since"], None) if since else None


_HALVES = {"hour": "30 minutes", "day": "12 hours", "year": "6 months"}
_HALF_UNIT = r"(?P<unit>hour|day|year)"


def _plain(text: str) -> str:
    words = digits_of_english(" ".join(text.casefold().replace("’", "'").split()))
    words = re.sub(rf"\bhalf an? {_HALF_UNIT}\b", lambda match: _HALVES[match["unit"]], words)
    words = re.sub(
        rf"\b(?P<count>\d{{1,2}}|an?) (?:and a half {_HALF_UNIT}s|(?P<one>hour|day|year) and a half)\b",
        _and_half,
        words,
    )
    words = re.sub(r"\b(?:a|1) quarter of an hour\b", "15 minutes", words)
    return re.sub(r"\b(?:(\d\d)[ -])?(\w+ties|tens)\b", _decade, words)


def _and_half(match: Match) -> str:
    unit = match["unit"] or match["one"]
    return f"{match['count']} {unit}s {_HALVES[unit]}"


def _decade(match: Match) -> str:
    """Return "19 eighties" as "1980s"."""
    decade = {"tens": 10, "twenties": 20, "thirties": 30, "forties": 40, "fifties": 50, "sixties": 60} | {
        "seventies": 70,
        "eighties": 80,
        "nineties": 90,
        "noughties": 2000,
    }
    number = decade.get(match[2])
    if number is None or (match[1] and number > 99):
        return match[0]
    return f"{match[1] or ''}{number}s"


def _completed(since: str, until: str, day: str | None) -> PeriodWords:
    """Give each end what only the other one says: its day, its month or its year."""
    if day:
        return PeriodWords(f"{day} {since}", f"{day} {until}")
    if "winter" in since and re.fullmatch(r"\d+", until):
        # One winter, as in "winter 2019-2020".
        return PeriodWords(None, None)
    starts, ends = take_clock(since), take_clock(until)
    if starts and ends and starts[1] and ends[1] and bool(starts[0]) != bool(ends[0]):
        return PeriodWords(f"{since} {ends[0]}", f"{until} {starts[0]}")
    if match := _SHARED_HALF.fullmatch(f"{since}|{until}"):
        return _with_shared_half(match)
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
    elif (match := re.fullmatch(rf"{WEEKDAY} (?:of )?((?:{WHICH}) week)", until)) and re.fullmatch(WEEKDAY, since):
        since = f"{since} {match[1]}"
    elif year and (_MONTH_ONLY.fullmatch(since) or _PART_OF_YEAR.fullmatch(since)):
        since = f"{since} {year[0]}"
    elif re.fullmatch(r"\d\d?(?:st|nd|rd|th)?", since) or re.fullmatch(r"\d\d?", until):
        # A day of some month, or an hour: "1 pm to 4".
        return PeriodWords(None, None)
    return PeriodWords(since, until)


def _with_shared_half(match: Match) -> PeriodWords:
    """Read "5 to 6pm" as from 5 pm, "11 to 2pm" as from 11 am."""
    since, until = int(match["since"]) % 12, int(match["until"]) % 12
    half = match["half"] if since < until else {"a": "p", "p": "a"}[match["half"]]
    day = match["day"] or ""
    return PeriodWords(f"{match['start']} {half}m{day}", f"{match['end']} {match['half']}m{day}")


def _read_rules(rules: tuple[tuple[re.Pattern[str], Rule], ...], words: str, now: datetime) -> Reading | None:
    for pattern, rule in rules:
        match = pattern.fullmatch(words)
        if match is not None:
            return rule(match, now)
    return None


def _read_date(words: str, now: datetime) -> Reading | None:
    words = re.sub(r"\s*,\s*", " ", words).strip()
    if _COUNTED_FROM_A_TALE.fullmatch(words):
        return None
    found = _read_rules(_DATE_RULES, words, now)
    if found is None:
        shorter = _FILLERS.sub("", words)
        found = _read_rules(_DATE_RULES, shorter, now) if shorter != words else None
    return found


def _from_day(match: Match, now: datetime) -> Reading | None:
    """Read what lies some days before or after another; "a week from Friday" counts from the next one."""
    direction = -1 if match["way"] in {"before", "prior to"} else 1
    span = re.sub(r"^(?:the )?(?=day|week|month|year)", "1 ", match["span"])
    if re.fullmatch(WEEKDAY, match["anchor"]):
        if match["way"] != "from":
            return None
        return moved(nearest_weekday(now, weekday_of(match["anchor"]), 1), span, 1)
    anchor = _read_date(match["anchor"], now)
    if anchor is None or anchor.precision != "day" or anchor.end is not None:
        return None
    return moved(anchor.start, span, direction)


def _nth_day(match: Match, now: datetime) -> Reading | None:
    """Read "the last day of February 2024"."""
    period = _read_date({"month": "this month", "the month": "this month"}.get(match["period"], match["period"]), now)
    if period is None or period.end is not None or period.precision not in {"month", "year"}:
        return None
    number = number_of(match["nth"])
    found = shift(period.after if number < 0 else period.start, number if number < 0 else number - 1, "day")
    return Reading(found, "day") if period.start <= found < period.after else None


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
    if period.precision == "day":
        return None
    return _part_of(period, match["edge"])


def _half(match: Match, now: datetime) -> Reading | None:
    period = _read_date({"month": "this month", "year": "this year"}.get(match["period"], match["period"]), now)
    if period is None or period.end is not None or period.precision not in {"month", "year", "decade"}:
        return None
    return _part_of(period, "early" if match["half"] == "1st" else "late")


def _part_of(period: Reading, edge: str) -> Reading:
    """Return the early or late half, the middle third or the last day of a period, no more exact than the period."""
    start, after = period.start, period.after
    if edge == "end":
        return replace(period, start=shift(after, -1, "day"), end=after)
    if edge in {"mid", "middle"}:
        return replace(period, start=_within(start, after, 3, 1), end=_within(start, after, 3, 2))
    middle = _within(start, after, 2, 1)
    return replace(period, start=middle) if edge == "late" else replace(period, end=middle)


def _within(start: datetime, after: datetime, parts: int, number: int) -> datetime:
    """Return where a part begins when a period is divided: on the first of a month, if it has so many."""
    if after.year - start.year == 10:
        return shift(start, round(10 * number / parts), "year")
    months = 12 * (after.year - start.year) + after.month - start.month
    if start.day == after.day == 1 and months and months % parts == 0:
        return shift(start, months // parts * number, "month")
    return floor(start + number * (after - start) / parts, "day")


_DATE_RULES = (
    *CALENDAR_RULES,
    *compiled(
        (rf"(?P<span>{SPAN}|(?:the )?day) (?P<way>before|prior to|after|from|following) (?P<anchor>.+)", _from_day),
        (rf"(?:the )?(?P<nth>{ORDINAL}) day (?:of |in )(?P<period>.+)", _nth_day),
        (rf"(?:the )?(?P<weekday>{WEEKDAY}) (?P<way>before|prior to|after|following) (?P<day>.+)", _weekday_beside),
        (rf"(?:the )?(?P<nth>{ORDINAL}) (?P<weekday>{WEEKDAY}) (?:of |in )?(?P<month>.+)", _nth_weekday),
        (rf"(?:the )?(?P<nth>{ORDINAL}) week (?:of |in )?(?P<period>.+)", _nth_week),
        (r"(?:(?:the )?week (?:of|starting|beginning|commencing)(?: on)?|w/c) (?P<day>.+)", _week_around),
        (rf"(?P<rest>.+?)(?:'s)? (?:of |in )?(?:the )?(?P<which>{WHICH}) year(?:'s)?", _in_year),
        (r"(?:the )?(?P<half>1st|2nd|latter) half of (?:the )?(?P<period>.+)", _half),
        (
            r"(?:the )?(?P<edge>end|mid(?![ -]autumn festival)|middle|start|beginning|early|late)[ -](?:of |in )?"
            r"(?:the )?(?P<period>.+)",
            _edge,
        ),
    ),
    *FEAST_RULES,
)
