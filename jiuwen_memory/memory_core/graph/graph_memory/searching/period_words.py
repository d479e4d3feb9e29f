"""The period that the words of a query name: "last spring", "since 2020", "去年". Touches nothing.

A table per script says which runs of words may be a time; `foundation.timepoint` says whether they are one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.text import simplified
from jiuwen_memory.foundation.timepoint import Timepoint, resolve_period
from jiuwen_memory.memory_core.config.graph import SearchConfig
from jiuwen_memory.memory_core.graph.graph_memory.searching.times import Period, parse_moment

MOST_READINGS: Final = 12
"""Readings tried of one query: each costs about a millisecond."""
LONGEST_QUERY: Final = 2_000
"""Characters of a query that are looked through: some queries are whole messages."""
LONGEST_RUN: Final = 40
LONGEST_WORDS: Final = 10
LONGEST_CHARACTERS: Final = 24

_MONTH: Final = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?"
)
_UNIT: Final = r"days?|weeks?|weekends?|months?|quarters?|years?|decades?|spring|summer|autumn|fall|winter"
_DAY: Final = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|yesterday|today|tonight|christmas|xmas|easter|thanksgiving|halloween"
)
_DIGIT: Final = r"one|two|three|four|five|six|seven|eight|nine"
_NUMBER: Final = (
    rf"\d{{1,4}}(?:st|nd|rd|th|s)?|\d{{4}}-\d\d?(?:-\d\d?)?|{_DIGIT}|ten|eleven|twelve"
    r"|(?:thir|four|fif|six|seven|eigh|nine)teen"
    rf"|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:-(?:{_DIGIT}))?|hundred|half|couple|few|several|dozen"
)
_LINK: Final = (
    r"in|on|at|of|the|a|an|from|to|until|till|since|before|after|between|and|during|last|next|this|past|previous|coming"
    r"|ago|early|mid|late|beginning|end|first|second|third|fourth|night|eve"
    r"|up|through|prior|onwards?|over|than"
)
_ENGLISH_RUN: Final = re.compile(
    rf"(?<![\w-])(?<!\d[.,])(?:(?:{_MONTH}|{_UNIT}|{_DAY}|{_NUMBER}|{_LINK})(?![\w-])(?:[,.]?\s+)?)+",
    re.IGNORECASE,
)
_YEAR_GLUED: Final = re.compile(r"(?<=\d),(?=\d{4}\b)")
_ENGLISH_TIME: Final = re.compile(
    rf"\b(?:{_MONTH}|{_UNIT}|{_DAY}|last\s+night|the\s+\d0s|(?:19|20)\d\d(?:s|-\d\d?(?:-\d\d?)?)?)(?![\w-])",
    re.IGNORECASE,
)
_ENGLISH_ALONE: Final = re.compile(r"(?:19|20)\d\ds?|\d{4}-\d\d?(?:-\d\d?)?|yesterday|today|tonight", re.IGNORECASE)
_ENGLISH_LOOSE: Final = re.compile(
    rf"(?:the|an?)\s+(?:{_MONTH}|{_UNIT})|(?!from\b.*\bon$).*\b(?:in|on|at|of|the|an?|from|to|until|since|between|and|during)",
    re.IGNORECASE,
)
_ENGLISH_TORN: Final = re.compile(
    rf"\b(?:{_NUMBER}) \|(?:{_NUMBER}|{_MONTH}|{_UNIT}|an?\b)|\b(?:before|after|since|until|till|up to|prior to) \|"
    rf"|\b(?:over|than) \|(?:{_DIGIT}|ten|an?\b|\d)"
    r"|\| (?:(?:of|before|after) \w|\d{4}\b)",
    re.IGNORECASE,
)
"""What of a longer time stands before or after the words between the bars, and makes them another one than they are.

"half |a year ago|", "before |2020|", "|the first week of May| 2024" are not what stands between the bars.
"""
_OPEN: Final = re.compile(
    r"(?:since|after)\b|from\b.*\bon(?:wards?)?$|.*(?:以来|以后|之后|起|[年月日号]后)$|[自从]", re.IGNORECASE
)

_CHINESE_NUMBER: Final = "0-9〇零一二三四五六七八九十百千万几两半多"
_CHINESE_FEAST: Final = "春节|国庆|中秋|圣诞|元旦|端午|除夕|清明|五一"
_CHINESE_PIECE: Final = re.compile(
    rf"(?:{_CHINESE_FEAST})节?"
    rf"|[{_CHINESE_NUMBER}大今明昨前后去上下本这个年月日号周星期礼拜季度春夏秋冬天晚初末底代自从到至起以来之最近过内]"
)
_CHINESE_RUN: Final = re.compile(f"(?:{_CHINESE_PIECE.pattern}){{2,}}")
_CHINESE_TORN: Final = re.compile(
    rf"[{_CHINESE_NUMBER}.．]\|[{_CHINESE_NUMBER}年月天周]|([前上下])\|\1|大\||[前后上下]\|[年月周天日个]|年\|代"
    r"|\|[以之][前后来]|后\|来|不\|到|不到\|"
)
"""The same in Chinese: "几|十年前|", "大|前天|", "|去年前|年", "|1990年|代"."""
_CHINESE_AFTER: Final = re.compile(r"(.*[年月日号])以?后")
_CHINESE_TIME: Final = re.compile(
    r"[今明昨前去][年天日晚]|[0-9〇零一二三四五六七八九]{4}年|[上下本这]个?(?:年|月|周|星期|礼拜|季度)"
    r"|(?:[0-9]{1,2}|[一二三四五六七八九十]{1,3})月|[年月周天日]半?[之以]?前"
    rf"|(?:近|过去)[{_CHINESE_NUMBER}]+个?[年月周天]"
)


async def read_period(query: str, configs: Iterable[SearchConfig], *, reference_time: datetime | None) -> Period | None:
    """Return the first period that the words of a query name, if any of the settings does something with it.

    It is read off the event loop, where the first reading would be felt. Without a reference time, words count from
    now.

    Raises:
        InvalidInputError: the reference time is no datetime.
    """
    parse_moment(reference_time, "reference_time")
    if all(config.period == "off" for config in configs) or next(_runs(query), None) is None:
        return None
    return await off_loop(None, find_period, query, reference_time or datetime.now(UTC))


def find_period(query: str, reference_time: datetime) -> Period | None:
    """Return the first period that the words of a query name, or None.

    Words are read as `resolve_period` reads them, relative to the reference time and in its zone. What speaks of the
    present ("now") is no period, nor is a word alone that is often something else ("may", "spring").
    """
    offset = reference_time.utcoffset()
    minutes = int(offset.total_seconds() // 60) if offset else 0
    for tried, words in enumerate(_runs(query)):
        if tried >= MOST_READINGS:
            break
        since, until = resolve_period(words, reference_time, offset_minutes=minutes)
        if not (since or until) and (after := _CHINESE_AFTER.fullmatch(words)):
            # Whether 2020年以后 has 2020 in it is in doubt; who searches would rather have it.
            since, until = resolve_period(f"{after[1]}起", reference_time, offset_minutes=minutes)
        if since is not None and until is None and not _OPEN.match(words):
            until = _end_of(since)
        if since and until and until.seconds == since.last_second().seconds:
            # "Two weeks ago" is a day, as exact as a week: all of that week is meant.
            since = since.first_second()
        if (since or until) and not (since and until and until.seconds < since.seconds):
            return Period(words, since, until)
    return None


def _end_of(since: Timepoint) -> Timepoint | None:
    return since if since.precision in ("second", "minute") else since.last_second()


def _runs(query: str) -> Iterator[str]:
    """Return the runs of words that may be times, each followed by what is left of it without its edges."""
    plain = simplified(unicodedata.normalize("NFKC", query[:LONGEST_QUERY]))
    for finder in (_english_runs, _chinese_runs):
        yield from finder(plain)


def _english_runs(query: str) -> Iterator[str]:
    for match in _ENGLISH_RUN.finditer(_YEAR_GLUED.sub(", ", query)):
        for before, words, after in _cuts(match.group().split(), " ", LONGEST_WORDS):
            if _is_english_time(words) and not _ENGLISH_TORN.search(f"{before} |{words}| {after}"):
                yield words


def _chinese_runs(query: str) -> Iterator[str]:
    for match in _CHINESE_RUN.finditer(query):
        first, last = query[: match.start()][-1:], query[match.end() :][:1]
        for before, words, after in _cuts(_CHINESE_PIECE.findall(match.group()), "", LONGEST_CHARACTERS):
            if _is_chinese_time(words) and not _CHINESE_TORN.search(f"{first}{before}|{words}|{after}{last}"):
                yield words


def _cuts(pieces: list[str], glue: str, longest: int) -> Iterator[tuple[str, str, str]]:
    """Return the parts of a run, the longest first, each between what is cut off before and after it."""
    pieces = pieces[:LONGEST_RUN]
    for length in range(min(len(pieces), longest), 0, -1):
        for start in range(len(pieces) - length + 1):
            parts = pieces[:start], pieces[start : start + length], pieces[start + length :]
            yield glue.join(parts[0]), glue.join(parts[1]), glue.join(parts[2])


def _is_english_time(words: str) -> bool:
    if not _ENGLISH_TIME.search(words) or _ENGLISH_LOOSE.fullmatch(words):
        return False
    return " " in words or _ENGLISH_ALONE.fullmatch(words) is not None


def _is_chinese_time(words: str) -> bool:
    return _CHINESE_TIME.search(words) is not None
