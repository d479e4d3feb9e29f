"""Chinese date words. Pure functions: words and the wall time they count from in, a reading or None out.

Dates of the lunar calendar (初一, 正月, 春节, 中秋) are unknown: their western day does not follow from the words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from jiuwen_memory.foundation.clock_cn import take_clock
from jiuwen_memory.foundation.feasts import feast_of, latest_feast
from jiuwen_memory.foundation.number_words import digits_of_chinese
from jiuwen_memory.foundation.timeline import (
    PeriodWords,
    Reading,
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

# Traditional characters, and the short forms of speech, as the rules below write them.
_SIMPLIFIED = str.maketrans(
    "個週禮拜後號點這兩鐘現時當間從來過內節聖誕復", "个周礼拜后号点这两钟现时当间从来过内节圣诞复"
)
_SPOKEN = {
    "今晚": "今天晚上",
    "昨晚": "昨天晚上",
    "明晚": "明天晚上",
    "今早": "今天早上",
    "明早": "明天早上",
    "今夜": "今天夜里",
}
_YEAR_STEPS = {
    "大前年": -3,
    "前年": -2,
    "去年": -1,
    "上年": -1,
    "今年": 0,
    "本年": 0,
    "这1年": 0,
    "当年": 0,
    "明年": 1,
    "下年": 1,
    "后年": 2,
}
_DAY_STEPS = {
    "大前天": -3,
    "大前日": -3,
    "前天": -2,
    "前日": -2,
    "昨天": -1,
    "昨日": -1,
    "今天": 0,
    "今日": 0,
    "本日": 0,
} | {
    "明天": 1,
    "明日": 1,
    "后天": 2,
    "后日": 2,
    "大后天": 3,
    "大后日": 3,
}
_STEPS = {"上上": -2, "上": -1, "前": -1, "这": 0, "本": 0, "今": 0, "当": 0, "下": 1, "下下": 2}
_UNITS: dict[str, str] = {
    "秒": "second",
    "秒钟": "second",
    "分钟": "minute",
    "小时": "hour",
    "钟头": "hour",
    "天": "day",
    "日": "day",
    "周": "week",
    "星期": "week",
    "礼拜": "week",
    "月": "month",
    "季度": "quarter",
    "年": "year",
}
_SEASONS = {"冬": 12, "春": 3, "夏": 6, "秋": 9}
_WHICH = r"(?:上上|上|这|本|今|下下|下)(?:1?个|1)?"
_YEAR = rf"(?:\d{{2,4}}年|民国\d{{1,3}}年|{'|'.join(_YEAR_STEPS)})"
_MONTH = rf"(?:\d{{1,2}}月份?|{_WHICH}月|同月)"
_WEEK = r"(?:周|星期|礼拜)"
_UNIT = r"(?:秒钟?|分钟|小时|钟头|天|日|周|星期|礼拜|月|季度|年)"
# 2018年前 is "before 2018", not "2018 years ago".
_SPAN = rf"(?!\d{{3,}}年)\d+个?{_UNIT}(?:零?\d+个?{_UNIT})*"
_NOW = re.compile("现在|此刻|此时|此时此刻|目前|当前|如今|眼下|至今|今")


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
    if any(pattern.fullmatch(words) for pattern, _ in _UNDIVIDED):
        return None
    for pattern in _PERIODS:
        match = pattern.fullmatch(words)
        if match is not None:
            ends = match.groupdict()
            return _completed(ends.get("since"), ends.get("until"), is_before="before" in ends)
    return None


def _completed(since: str | None, until: str | None, *, is_before: bool) -> PeriodWords:
    """Give the end what only the beginning says: its month, or its day and part of the day."""
    if since and until:
        if re.fullmatch(r"\d{1,2}[日号]?", until) and (match := re.match(rf"(?:{_YEAR})?{_MONTH}", since)):
            until = match[0] + until
        elif re.fullmatch(r"\d{1,2}[点时:].*", until) and (match := re.match(r"(.+?)\d{1,2}[点时:].*$", since)):
            until = match[1] + until
        elif re.fullmatch(r"\d{1,2}", since) and (match := re.fullmatch(r"\d{1,2}([月日号年])", until)):
            since += match[1]
    return PeriodWords(since, until, is_before)


def _plain(text: str) -> str:
    words = re.sub(r"\s+", "", text.casefold().translate(_SIMPLIFIED))
    for spoken, written in _SPOKEN.items():
        words = words.replace(spoken, written)
    if _feast_in(words):
        return words
    # The comma goes last: it keeps the numbers of 周三, 五月 apart.
    words = re.sub(r"[,、]+", "", digits_of_chinese(words))
    return re.sub(r"(\d{1,2})年半(?=[以之前后])", lambda match: f"{12 * int(match[1]) + 6}个月", words)


def _feast_in(words: str) -> bool:
    name = re.sub(rf"^(?:{_YEAR})?的?", "", words)
    return feast_of(name, 2000) is not None


def _read_date(words: str, now: datetime) -> Reading | None:
    words = re.sub(r"^(?:在|于|到|自|从|直到|截至)|(?:的时候|那天|以来|起|开始)$", "", words)
    for pattern, rule in _RULES:
        match = pattern.fullmatch(words)
        if match is not None:
            return rule(match, now)
    return None


def _step(word: str) -> int:
    return _STEPS[word.rstrip("个1")]


def _unit(word: str) -> str:
    return _UNITS[word.removeprefix("个")]


def _year(word: str, now: datetime) -> int | None:
    if word in _YEAR_STEPS:
        return now.year + _YEAR_STEPS[word]
    number = int(re.sub(r"\D", "", word))
    return 1911 + number if word.startswith("民国") else year_of(number)


def _month(year: str | None, month: str, now: datetime) -> Reading | None:
    written = _year(year, now) if year else None
    if year and written is None:
        return None
    digits = re.match(r"\d+", month)
    if digits is None:
        first = (
            floor(now, "month")
            if month == "同月"
            else shift(floor(now, "month"), _step(month.removesuffix("月")), "month")
        )
        return Reading(first.replace(year=written or first.year), "month")
    number = int(digits[0])
    if not 1 <= number <= 12:
        return None
    return Reading(datetime(written, number, 1), "month") if written else latest_month(now, number)


def _near_day(match: Match, now: datetime) -> Reading | None:
    step = _DAY_STEPS[match[0]]
    return Reading(shift(floor(now, "day"), step, "day"), "day", is_now=step == 0)


def _moved(match: Match, now: datetime) -> Reading | None:
    direction = -1 if match["way"].endswith("前") else 1
    order = ["second", "minute", "hour", "day", "week", "month", "quarter", "year"]
    parts = [(int(count), _unit(word)) for count, word in re.findall(rf"(\d+)个?({_UNIT})", match["span"])]
    smallest = min((unit for _, unit in parts), key=order.index)
    for count, unit in sorted(parts, key=lambda part: -order.index(part[1])):
        now = shift(now, direction * count, unit)
    if order.index(smallest) >= order.index("day"):
        now = floor(now, "day")
    return Reading(now, smallest)  # type: ignore[arg-type]


def _half_year_away(match: Match, now: datetime) -> Reading | None:
    return Reading(shift(floor(now, "day"), -6 if match["way"].endswith("前") else 6, "month"), "month")


def _recent(match: Match, now: datetime) -> Reading | None:
    unit, count = _unit(match["unit"]), int(match["count"])
    today = floor(now, "day") if unit in {"day", "week", "month", "quarter", "year"} else now
    return Reading(shift(today, -count, unit), unit, end=today)  # type: ignore[arg-type]


def _which_unit(match: Match, now: datetime) -> Reading | None:
    unit = _unit(match["unit"])
    return Reading(shift(floor(now, unit), _step(match["which"]), unit), unit)  # type: ignore[arg-type]


def _which_weekday(match: Match, now: datetime) -> Reading | None:
    return Reading(weekday_of_week(now, _weekday(match["weekday"]), _step(match["which"])), "day")


def _weekday(char: str) -> int:
    return 6 if char in "日天" else int(char) - 1


def _bare_weekday(match: Match, now: datetime) -> Reading | None:
    return Reading(nearest_weekday(now, _weekday(match["weekday"]), -1), "day")


def _weekend(match: Match, now: datetime) -> Reading | None:
    saturday = weekday_of_week(now, 5, _step(match["which"]) if match["which"] else 0)
    return Reading(saturday, "day", shift(saturday, 2, "day"))


def _whole_year(match: Match, now: datetime) -> Reading | None:
    year = _year(match["year"], now)
    return Reading(datetime(year, 1, 1), "year") if year else None


def _whole_month(match: Match, now: datetime) -> Reading | None:
    return _month(match["year"], match["month"], now)


def _day(match: Match, now: datetime) -> Reading | None:
    day, weekday = int(match["day"]), match["before"] or match["after"]
    named = re.match(r"\d+", match["month"])
    if match["year"] or not named:
        month = _month(match["year"], match["month"], now)
        return day_of(month.start.year, month.start.month, day) if month else None
    if not weekday:
        return latest_day(now, int(named[0]), day)
    fitting = [day_of(year, int(named[0]), day) for year in (now.year, now.year - 1, now.year + 1) if year >= 1]
    return next((found for found in fitting if found and found.start.weekday() == _weekday(weekday)), None)


def _bare_day(match: Match, now: datetime) -> Reading | None:
    return latest_day_of_month(now, int(match["day"]))


def _digits(match: Match, now: datetime) -> Reading | None:
    first, second = int(match["first"]), int(match["second"])
    if match["year"] is None:
        return latest_day(now, first, second)
    year = year_of(int(match["year"]))
    if first == second or second > 12:
        return day_of(year, first, second)
    # 3-7-2017 is written for the third of July and for the seventh of March.
    return day_of(year, second, first) if first > 12 else None


def _digits_year_first(match: Match, now: datetime) -> Reading | None:
    return day_of(year_of(int(match["year"])), int(match["month"]), int(match["day"]))


def _nth_weekday(match: Match, now: datetime) -> Reading | None:
    month = _month(match["year"], match["month"], now)
    found = weekday_of_month(month.start, _weekday(match["weekday"]), _nth(match)) if month else None
    return Reading(found, "day") if found else None


def _nth_week(match: Match, now: datetime) -> Reading | None:
    month = _month(match["year"], match["month"], now)
    found = week_of(month.start, _nth(match), "month") if month else None
    return Reading(found, "week") if found else None


def _nth(match: Match) -> int:
    return int(match["number"]) if match["number"] else -1


def _quarter(match: Match, now: datetime) -> Reading | None:
    month = 3 * int(match["number"]) - 2
    year = _year(match["year"], now) if match["year"] else now.year - (month > now.month)
    return Reading(datetime(year, month, 1), "quarter") if year else None


def _half_year(match: Match, now: datetime) -> Reading | None:
    year = _year(match["year"], now) if match["year"] else now.year
    start = datetime(year or now.year, 1 if match["half"] == "上" else 7, 1)
    return Reading(start, "year", shift(start, 6, "month"))


def _season(match: Match, now: datetime) -> Reading | None:
    month = _SEASONS[match["season"]]
    current = floor(now, "season")
    year = _year(match["year"], now) if match["year"] else current.year - (month > current.month)
    return Reading(datetime(year, month, 1), "season") if year else None


def _decade(match: Match, now: datetime) -> Reading | None:
    century, decade = match["century"], int(match["decade"])
    if decade % 10:
        return None
    if century is None:
        base = 1900 if 1900 + decade <= now.year else 1800
    else:
        base = now.year - now.year % 100 if century == "本" else 100 * (int(century) - 1)
    return Reading(datetime(base + decade, 1, 1), "decade")


def _edge(match: Match, now: datetime) -> Reading | None:
    """Read 三月底 as the last day of March, no more exact than the month itself."""
    words = {"年": "今年", "月": "本月"}.get(match["period"], match["period"])
    if words.endswith(("年年", "月月")):
        words = words[:-1]
    period = _read_date(words, now)
    if period is None or period.end is not None or period.precision not in {"month", "year", "quarter"}:
        return None
    if match["edge"] in {"底", "末"}:
        return replace(period, start=shift(period.after, -1, "day"))
    if match["edge"].endswith("旬"):
        first = {"上": 0, "中": 10, "下": 20}[match["edge"][0]]
        start = shift(period.start, first, "day")
        end = period.after if first == 20 else shift(start, 10, "day")
        return Reading(start, period.precision, end) if period.precision == "month" else None
    return period if match["edge"] == "初" else None


def _feast(match: Match, now: datetime) -> Reading | None:
    year = _year(match["year"], now) if match["year"] else None
    return feast_of(match["name"], year) if year else latest_feast(match["name"], now)


def _rules(*pairs: tuple[str, Rule]) -> tuple[tuple[re.Pattern[str], Rule], ...]:
    return tuple((re.compile(pattern), rule) for pattern, rule in pairs)


_RULES = _rules(
    ("|".join(_DAY_STEPS), _near_day),
    (rf"(?P<span>{_SPAN})(?P<way>以前|之前|前|以后|之后|后)", _moved),
    (r"半年(?P<way>以前|之前|前|以后|之后|后)", _half_year_away),
    (rf"(?:最近|过去|近|前)(?:的)?(?P<count>\d+)个?(?P<unit>{_UNIT})", _recent),
    (rf"上(?P<count>[2-9]|\d\d+)个?(?P<unit>{_UNIT})", _recent),
    (rf"(?P<which>{_WHICH})(?P<unit>{_WEEK}|季度)", _which_unit),
    (rf"(?P<which>{_WHICH}){_WEEK}的?(?P<weekday>[1-6日天])", _which_weekday),
    (rf"{_WEEK}(?P<weekday>[1-6日天])", _bare_weekday),
    (rf"(?P<which>{_WHICH})?周末", _weekend),
    (rf"(?P<year>{_YEAR})", _whole_year),
    (r"(?P<year>\d{4})", _whole_year),
    (rf"(?P<year>{_YEAR})?的?(?P<month>{_MONTH})", _whole_month),
    (
        rf"(?:{_WEEK}(?P<before>[1-6日天]))?(?P<year>{_YEAR})?的?(?P<month>{_MONTH})的?(?P<day>\d{{1,2}})[日号]?"
        rf"(?:\(?{_WEEK}(?P<after>[1-6日天])\)?)?",
        _day,
    ),
    (r"(?P<day>\d{1,2})[日号]", _bare_day),
    (r"(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})", _digits_year_first),
    (r"(?P<year>\d{2})-(?P<month>\d{1,2})-(?P<day>\d{1,2})", _digits_year_first),
    (r"(?P<first>\d{1,2})[-/.](?P<second>\d{1,2})[-/.](?P<year>\d{4}|\d\d)", _digits),
    (r"(?P<first>\d{1,2})/(?P<second>\d{1,2})(?P<year>(?!))?", _digits),
    (
        rf"(?P<year>{_YEAR})?的?(?P<month>{_MONTH})的?(?:第(?P<number>\d)|最后1)个?{_WEEK}(?P<weekday>[1-6日天])",
        _nth_weekday,
    ),
    (rf"(?P<year>{_YEAR})?的?(?P<month>{_MONTH})的?(?:第(?P<number>\d)|最后1)个?{_WEEK}", _nth_week),
    (rf"(?P<year>{_YEAR})?的?(?:第(?P<number>[1-4])个?季度)", _quarter),
    (rf"(?P<year>{_YEAR})?的?q?(?P<number>[1-4])季度", _quarter),
    (rf"(?P<year>{_YEAR})?的?(?P<half>[上下])半年", _half_year),
    (rf"(?P<year>{_YEAR})?的?(?P<season>[春夏秋冬])[天季]", _season),
    (r"(?:(?P<century>\d{1,2}|本)世纪)?(?P<decade>\d0)年代", _decade),
    (r"(?P<period>.*?)的?(?P<edge>底|末|初|上旬|中旬|下旬)", _edge),
    (rf"(?P<year>{_YEAR})?的?(?P<name>[^\d]+?)(?:那天)?", _feast),
)
# "三天前" says when, not until when.
_UNDIVIDED = tuple(rule for rule in _RULES if rule[1] in {_moved, _half_year_away})
_PERIODS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<since>.+?)(?:之后|以后)(?P<until>.+?)(?P<before>之前|以前)",
        r"(?:直到|到|至|截至|截止)(?P<until>.+?)(?:为止)?",
        r"(?:在|介于)?(?P<since>.+?)(?:和|与|到|至|-)(?P<until>.+?)之?间",
        r"(?:从|自|由)?(?P<since>[^从自].*?)(?:到|至|直到|~|—|–)(?P<until>.+?)(?:为止)?",
        r"(?:从|自|由)(?P<since>.+?)-(?P<until>.+)",
        r"(?P<since>\d{4}年?|.*[月日号])-(?P<until>\d{4}年?|\d{1,2}[月日号]|.*[月日号])",
        r"(?P<since>\d{4}[-/.]\d{1,2}[-/.]\d{1,2})-(?P<until>\d{4}[-/.]\d{1,2}[-/.]\d{1,2})",
        r"(?:从|自|由|打)(?P<since>.+?)(?:起|开始|以来|至今|之后|以后)?",
        r"(?P<since>.+?)(?:以来|至今|起|开始)",
        r"(?P<until>.*[年月日号天周\d])(?P<before>之前|以前|前)",
    )
)
