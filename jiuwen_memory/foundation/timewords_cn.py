"""Chinese date words. Pure functions: words and the wall time they count from in, a reading or None out."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from jiuwen_memory.foundation.clock_cn import take_clock
from jiuwen_memory.foundation.feasts import is_feast
from jiuwen_memory.foundation.number_words import digits_of_chinese
from jiuwen_memory.foundation.text import simplified
from jiuwen_memory.foundation.timeline import PeriodWords, Reading, floor, shift
from jiuwen_memory.foundation.timewords_cn_calendar import (
    CALENDAR_RULES,
    FEAST_RULES,
    MONTH,
    SPAN,
    UNDIVIDED,
    YEAR,
    Match,
    compiled,
)

_SPOKEN = re.compile(r"(今|昨|明|(?<![此以之目午])[前后](?=晚))(?:(晚)上?|(夜)里?|(早)上?|(晨))(?!会|报|饭)")
_PARTS = {"晚": "晚上", "夜": "夜里", "早": "早上", "晨": "早晨"}
# 廿一 without 日 or 号 is how days of the lunar calendar are written.
_LUNAR_TWENTY = re.compile("月(?=廿[一二三四五六七八九]?(?![一二三四五六七八九日号]))")
_NOW = re.compile("现在|此刻|此时|此时此刻|目前|当前|如今|眼下|至今|今")
# 九八年 is a year; 三五年 and 七八年 may be numbers of years.
_YEAR_OF_TWO_DIGITS = re.compile(
    "(?<![零〇○一二三四五六七八九十百千])([一二四五六七八九][零〇一二三四五六七八九])(?=年(?!前|后|以|之|代|来))"
)


def read_chinese(text: str, now: datetime) -> Reading | None:
    """Return what Chinese date words mean when said at a wall time, or None if they leave a doubt."""
    spaced = re.sub(r"(?<=\d) (?=\d\d?(?:$| \d))", "-", text)
    words = _plain(spaced)
    if _NOW.fullmatch(words):
        return Reading(now, "second", is_now=True)
    taken = take_clock(words)
    if taken is None:
        return None
    rest, clock = taken
    day = _read_date(rest, now)
    if clock is None or day is None:
        return day
    return clock.on(floor(day.start, "day")) if day.precision == "day" and day.end is None else None


def split_chinese_period(text: str) -> PeriodWords | None:
    """Return the words of the beginning and of the end, or None if the words do not name them apart."""
    words = _plain(text)
    if match := _SO_LONG.fullmatch(words):
        return PeriodWords(f"{match['span']}前", None)
    if match := _SHORT.fullmatch(words):
        head, unit = match["head"], match["unit"]
        return PeriodWords(f"{head}{match['since']}{unit}", f"{head}{match['until']}{unit}")
    if re.fullmatch("[12]000年前", words):
        # So many years ago, or before that year.
        return PeriodWords(None, None)
    if any(pattern.fullmatch(words) for pattern, _ in UNDIVIDED):
        return None
    for pattern in _PERIODS:
        match = pattern.fullmatch(words)
        if match is not None:
            ends = match.groupdict()
            period = _completed(ends.get("since"), ends.get("until"))
            return replace(period, is_before="before" in ends, is_after="after" in ends)
    return None


def _completed(since: str | None, until: str | None) -> PeriodWords:
    """Give the end what only the beginning says: its month, or its day and part of the day."""
    if since and until:
        if re.fullmatch(r"\d{1,2}[日号]?", until) and (match := re.match(rf"(?:{YEAR})?{MONTH}", since)):
            until = match[0] + until
        elif re.fullmatch(r"\d{1,2}[点时:].*", until) and (match := re.match(r"(.+?)\d{1,2}[点时:].*$", since)):
            until = match[1] + until
        elif re.fullmatch(r"\d{1,2}", since) and (match := re.fullmatch(r"\d{1,2}([月日号年])", until)):
            since += match[1]
    return PeriodWords(since, until)


def _plain(text: str) -> str:
    """Return words with Simplified characters and digits, without spaces, and without the short forms of speech."""
    words = re.sub(r"\s+", "", simplified(text.casefold()))
    if name := _feast_at_the_end(words):
        return digits_of_chinese(words.removesuffix(name)) + name
    words = _SPOKEN.sub(_spelt_out, words)
    words = _YEAR_OF_TWO_DIGITS.sub(_year_of_two_digits, words)
    # The comma goes last: it keeps the numbers of 周三, 五月 apart.
    words = re.sub(r"[,、]+", "", digits_of_chinese(_LUNAR_TWENTY.sub("月初", words)))
    words = re.sub(r"(\d{1,2})年半(?=[以之前后])", lambda match: f"{12 * int(match[1]) + 6}个月", words)
    words = re.sub(r"(\d{1,2})个?半(?:小时|钟头)", lambda match: f"{60 * int(match[1]) + 30}分钟", words)
    words = re.sub(r"(\d)刻钟(?=[以之前后])", lambda match: f"{15 * int(match[1])}分钟", words)
    return re.sub(r"(?<![个\d])半个?(?:小时|钟头)", "30分钟", words)


def _spelt_out(match: Match) -> str:
    return f"{match[1]}天{_PARTS[next(part for part in match.groups()[1:] if part)]}"


def _year_of_two_digits(match: Match) -> str:
    first, second = (digits_of_chinese(char) for char in match[1])
    return match[1] if int(second) == int(first) + 1 else first + second


def _feast_at_the_end(words: str) -> str:
    """Return the name of a feast that stands alone or after a year: its numbers are part of the name."""
    starts = [0, *(match.end() for match in re.finditer("年的?", words))]
    return next((words[start:] for start in starts if is_feast(words[start:])), "")


def _read_date(words: str, now: datetime) -> Reading | None:
    words = re.sub(r"^(?:在|于|自|从)|(?:的时候|那天|以来|起|开始)$", "", words)
    for pattern, rule in _DATE_RULES:
        match = pattern.fullmatch(words)
        if match is not None:
            return rule(match, now)
    return None


def _edge(match: Match, now: datetime) -> Reading | None:
    """Read 三月底 as the last day of March, no more exact than the month itself."""
    words = {"年": "今年", "月": "本月"}.get(match["period"], match["period"])
    if words.endswith(("年年", "月月")):
        words = words[:-1]
    period = _read_date(words, now)
    if period is None or period.end is not None or period.precision not in {"month", "year", "quarter"}:
        return None
    if match["edge"] in {"底", "末"}:
        return replace(period, start=shift(period.after, -1, "day"), end=period.after)
    if match["edge"].endswith("旬"):
        first = {"上": 0, "中": 10, "下": 20}[match["edge"][0]]
        start = shift(period.start, first, "day")
        end = period.after if first == 20 else shift(start, 10, "day")
        return Reading(start, period.precision, end) if period.precision == "month" else None
    months = 3 if period.precision == "year" else 1
    end = shift(period.start, 10, "day") if period.precision == "month" else shift(period.start, months, "month")
    return replace(period, end=end)


def _whole(match: Match, now: datetime) -> Reading | None:
    """Read 整个2019年, 去年期间; what goes on around a single day is not its name's to say (春节期间)."""
    period = _read_date(match["period"], now)
    return period if period is not None and (period.precision != "day" or period.end) else None


def _day_beside(match: Match, now: datetime) -> Reading | None:
    day = _read_date(match["anchor"], now)
    if day is None or day.precision != "day" or day.end is not None:
        return None
    return Reading(shift(day.start, -1 if match["way"] == "前1" else 1, "day"), "day")


_DATE_RULES = (
    *CALENDAR_RULES,
    *compiled(
        (r"(?P<period>.*?)的?(?P<edge>底|末|初|上旬|中旬|下旬)", _edge),
        (r"整个(?P<period>.+)", _whole),
        (r"(?P<period>.+年)的?(?:全年|1?整年)", _whole),
        (r"(?P<period>.+?)的?期间", _whole),
        (r"(?P<anchor>.+?)的?(?P<way>前1|后1|第2|次)[天日]", _day_beside),
    ),
    *FEAST_RULES,
)
_PAIR = r"\d{1,2}[-~到至]\d{1,2}"
# 2020年1-3月, 5月1-3日
_SHORT = re.compile(
    rf"(?P<head>(?:{YEAR})?(?={_PAIR}月)|(?:{YEAR})?{MONTH}(?={_PAIR}[日号]))"
    rf"(?P<since>\d{{1,2}})[-~到至](?P<until>\d{{1,2}})(?P<unit>[月日号])份?"
)
_SO_LONG = re.compile(rf"(?:这|近|最近|过去)?(?P<span>{SPAN})(?:以来|来)")
_PERIODS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<since>.+?)(?:之后|以后)(?P<until>.+?)(?P<before>之前|以前)",
        r"(?:直到|到|至|截至|截止)(?P<until>.+?)(?:为止)?",
        r"(?:在|介于)?(?P<since>.+?)(?:和|与|到|至|-)(?P<until>.+?)(?:之?间|期间)",
        r"(?:从|自|由)?(?P<since>[^从自].*?)(?:到|至|直到|~|—|–)(?P<until>.+?)(?:为止)?",
        r"(?:从|自|由)(?P<since>.+?)-(?P<until>.+)",
        r"(?P<since>\d{4}年?|.*[月日号])-(?P<until>\d{4}年?|\d{1,2}[月日号]|.*[月日号])",
        r"(?P<since>\d{4}\.\d{1,2})-(?P<until>\d{4}\.\d{1,2})",
        r"(?P<since>\d{4}[-/.]\d{1,2}[-/.]\d{1,2})-(?P<until>\d{4}[-/.]\d{1,2}[-/.]\d{1,2})",
        r"(?:从|自|由|打)(?P<since>.+?)(?:起|开始|以来|至今)?",
        r"(?P<since>.+?)(?:以来|至今|起|开始)",
        r"(?P<since>.*[年月日号])(?P<after>之后)",
        r"(?P<until>.*[年月日号天周\d])(?P<before>之前|以前|前)",
    )
)
