"""Chinese names of days, weeks, months, quarters and years: the rules that read words in one step. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from jiuwen_memory.foundation.feasts import feast_of, latest_feast
from jiuwen_memory.foundation.lunar import lunar_day, lunar_month
from jiuwen_memory.foundation.timeline import (
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

YEAR_STEPS = {
    "大前年": -3,
    "前年": -2,
    "去年": -1,
    "上年": -1,
    "今年": 0,
    "本年": 0,
    "这1年": 0,
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
_LUNAR_MONTHS = {"正月": 1, "大年": 1, "冬月": 11, "腊月": 12}
_LUNAR_DAYS = frozenset({(2, 2), (3, 3), (5, 5), (7, 7), (8, 15), (9, 9), (12, 8), (12, 23), (12, 30)})
_SEASONS = {"冬": 12, "春": 3, "夏": 6, "秋": 9}
_WHICH = r"(?:上上|上|这|本|今|下下|下)(?:1?个|1)?"
YEAR = rf"(?:\d{{2,4}}年|民国\d{{1,3}}年|{'|'.join(YEAR_STEPS)})"
MONTH = rf"(?:\d{{1,2}}月份?|{_WHICH}月|同月)"
_WEEK = r"(?:周|星期|礼拜)"
UNIT = r"(?:秒钟?|分钟|小时|钟头|天|日|周|星期|礼拜|月|季度|年)"
# 5月前 is "before May", 5个月前 "five months ago"; 3日前 may be either.
_COUNTED = r"(?:个?(?:秒钟?|分钟|小时|钟头|天|周|星期|礼拜|季度|年)|个月)"
# 2018年前 and 07年前 are "before 2018" and "before 2007", not so many years ago.
SPAN = rf"(?!(?:\d{{4,}}|0\d)年)\d+{_COUNTED}(?:零?\d+{_COUNTED})*"


def _step(word: str) -> int:
    return _STEPS[word.rstrip("个1")]


def _unit(word: str) -> str:
    return _UNITS[word.removeprefix("个")]


def _year(word: str, now: datetime) -> int | None:
    if word in YEAR_STEPS:
        return now.year + YEAR_STEPS[word]
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
    return _move(now, match["span"], -1 if match["way"].endswith("前") else 1)


def _move(now: datetime, span: str, direction: int) -> Reading | None:
    order = ["second", "minute", "hour", "day", "week", "month", "quarter", "year"]
    parts = [(int(count), _unit(word)) for count, word in re.findall(rf"(\d+)个?({UNIT})", span)]
    if any(unit == "year" and 90 < count < 100 for count, unit in parts):
        # 98年前 may be before 1998.
        return None
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
    if match[0].startswith("前") and (count == 2 or unit == "quarter"):
        # 前两天 is "the other day", 前三季度 the first three quarters of a year.
        return None
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


def _dotted_month(match: Match, now: datetime) -> Reading | None:
    year = _year(match["year"], now)
    return Reading(datetime(year, int(match["month"]), 1), "month") if year else None


def _whole_month(match: Match, now: datetime) -> Reading | None:
    return _month(match["year"], match["month"], now)


def _day(match: Match, now: datetime) -> Reading | None:
    day, weekday = int(match["day"]), match["before"] or match["after"]
    named = re.match(r"\d+", match["month"])
    if match["year"] or not named:
        month = _month(match["year"], match["month"], now)
        return day_of(month.start.year, month.start.month, day) if month else None
    if (int(named[0]), day) in _LUNAR_DAYS and not match[0].endswith(("日", "号")) and not weekday:
        # 八月十五 is the day of the moon feast as often as the fifteenth of August.
        return None
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
    if month == 12 and match["year"] in YEAR_STEPS and now.month <= 2:
        # In January, 今年冬天 is the winter that goes on or the next one.
        return None
    current = floor(now, "season")
    year = _year(match["year"], now) if match["year"] else current.year - (month > current.month)
    return Reading(datetime(year, month, 1), "season") if year else None


def _decade(match: Match, now: datetime) -> Reading | None:
    century, decade = match["century"], int(match["decade"])
    here = now.year - now.year % 100
    if decade >= 1000:
        base = 0
    elif century is None:
        # In 2024, 20年代 may be the twenties of this century or of the last one.
        if here + decade <= now.year:
            return None
        base = here - 100
    else:
        base = {"本": here, "这个": here, "上": here - 100, "上个": here - 100}.get(century) or 100 * (int(century) - 1)
    return Reading(datetime(base + decade, 1, 1), "decade")


def _lunar(match: Match, now: datetime) -> Reading | None:
    """Read a day or month of the lunar calendar.

    A year may be counted by either calendar: both must give the same day, unless 农历 says which is meant.
    """
    month = _LUNAR_MONTHS.get(match["month"]) or int(match["month"].removesuffix("月"))
    if match["year"] is None:
        found = (_lunar_reading(match, year, month) for year in range(now.year, now.year - 3, -1))
        return next((reading for reading in found if reading is not None and reading.start <= now), None)
    year = _year(match["year"], now)
    if year is None:
        return None
    reading = _lunar_reading(match, year, month)
    if match["stated"] and match["year"] not in YEAR_STEPS:
        return reading
    inside = [day for day in (_lunar_reading(match, lunar, month) for lunar in (year - 1, year)) if day]
    return reading if [day for day in inside if day.start.year == year] == [reading] else None


def _lunar_reading(match: Match, year: int, month: int) -> Reading | None:
    is_leap = bool(match["leap"])
    if match["day"] is None:
        return lunar_month(year, month, is_leap=is_leap)
    return lunar_day(year, month, int(match["day"]), is_leap=is_leap)


def _this_day_in_year(match: Match, now: datetime) -> Reading | None:
    return day_of(_year(match["year"], now), now.month, now.day)


def _coming(match: Match, now: datetime) -> Reading | None:
    """Read 未来三天 as what begins tomorrow, 未来三小时 as what begins now."""
    unit = _unit(match["unit"])
    start = now if unit in {"second", "minute", "hour"} else shift(floor(now, "day"), 1, "day")
    return Reading(start, unit, end=shift(start, int(match["count"]), unit))  # type: ignore[arg-type]


def _later(match: Match, now: datetime) -> Reading | None:
    return _move(now, match["span"], 1)


def _feast(match: Match, now: datetime) -> Reading | None:
    year = _year(match["year"], now) if match["year"] else None
    return feast_of(match["name"], year) if year else latest_feast(match["name"], now)


def compiled(*pairs: tuple[str, Rule]) -> tuple[tuple[re.Pattern[str], Rule], ...]:
    """Return rules with their patterns compiled."""
    return tuple((re.compile(pattern), rule) for pattern, rule in pairs)


CALENDAR_RULES = compiled(
    ("|".join(_DAY_STEPS), _near_day),
    (rf"(?P<span>{SPAN})(?P<way>以前|之前|前|以后|之后|后)", _moved),
    (r"半年(?P<way>以前|之前|前|以后|之后|后)", _half_year_away),
    (rf"再过(?P<span>{SPAN})", _later),
    (rf"(?:未来|今后|往后|接下来)的?(?P<count>\d+)个?(?P<unit>{UNIT})", _coming),
    (rf"(?P<year>{'|'.join(YEAR_STEPS)})的?今[天日]", _this_day_in_year),
    (
        rf"(?=.*(?:[农阴旧夏]历|闰|[正腊冬]月|大年|月初\d))(?P<stated>[农阴旧夏]历的?)?(?P<year>{YEAR})?的?"
        rf"(?:[农阴旧夏]历的?)?(?P<leap>闰)?(?P<month>[正腊冬]月|大年|\d{{1,2}}月)(?:里|份|初?(?P<day>\d{{1,2}}))?",
        _lunar,
    ),
    (rf"(?:最近|过去|近|前)(?:的)?(?P<count>\d+)个?(?P<unit>{UNIT})", _recent),
    (rf"上(?P<count>[2-9]|\d\d+)个?(?P<unit>{UNIT})", _recent),
    (rf"(?P<which>{_WHICH})(?P<unit>{_WEEK}|季度)", _which_unit),
    (rf"(?P<which>{_WHICH}){_WEEK}的?(?P<weekday>[1-6日天])", _which_weekday),
    (rf"{_WEEK}(?P<weekday>[1-6日天])", _bare_weekday),
    (rf"(?P<which>{_WHICH})?周末", _weekend),
    (rf"(?P<year>{YEAR})", _whole_year),
    (r"(?P<year>\d{4})", _whole_year),
    (r"(?P<year>\d{4})\.(?P<month>1[0-2]|0?[1-9])", _dotted_month),
    (rf"(?P<year>{YEAR})?的?(?P<month>{MONTH})", _whole_month),
    (
        rf"(?:{_WEEK}(?P<before>[1-6日天]))?(?P<year>{YEAR})?的?(?P<month>{MONTH})的?(?P<day>\d{{1,2}})[日号]?"
        rf"(?:\(?{_WEEK}(?P<after>[1-6日天])\)?)?",
        _day,
    ),
    (r"(?P<day>\d{1,2})[日号]", _bare_day),
    (r"(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})", _digits_year_first),
    (r"(?P<year>\d{2})-(?P<month>\d{1,2})-(?P<day>\d{1,2})", _digits_year_first),
    (r"(?P<first>\d{1,2})[-/.](?P<second>\d{1,2})[-/.](?P<year>\d{4}|\d\d)", _digits),
    (r"(?P<first>\d{1,2})/(?P<second>\d{1,2})(?P<year>(?!))?", _digits),
    (
        rf"(?P<year>{YEAR})?的?(?P<month>{MONTH})的?(?:第(?P<number>\d)|最后1)个?{_WEEK}(?P<weekday>[1-6日天])",
        _nth_weekday,
    ),
    (rf"(?P<year>{YEAR})?的?(?P<month>{MONTH})的?(?:第(?P<number>\d)|最后1)个?{_WEEK}", _nth_week),
    (rf"(?P<year>{YEAR})?的?(?:第(?P<number>[1-4])个?季度)", _quarter),
    (rf"(?P<year>{YEAR})?的?q?(?P<number>[1-4])季度", _quarter),
    (rf"(?P<year>{YEAR})?的?(?P<half>[上下])半年", _half_year),
    (rf"(?P<year>{YEAR})?的?(?P<season>[春夏秋冬])[天季]", _season),
    (r"(?:(?P<century>\d{1,2}|本|这个|上个?)世纪)?(?:的)?(?P<decade>\d0|(?<!世纪)\d{3}0)年代", _decade),
)
FEAST_RULES = compiled((rf"(?P<year>{YEAR})?的?(?P<name>.+?)(?:那天)?", _feast))
# "三天前" says when, not until when.
UNDIVIDED = tuple(rule for rule in CALENDAR_RULES if rule[1] in {_moved, _half_year_away})
