"""How a time is written for people, in each language. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from jiuwen_memory.foundation.timeline import Precision, floor

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_ENGLISH_SEASONS = ("winter", "spring", "summer", "autumn")
_CHINESE_SEASONS = ("冬", "春", "夏", "秋")


def _english(moment: datetime, precision: Precision, offset: str) -> str:
    month, year = _MONTHS[moment.month - 1], moment.year
    day = f"{moment.day} {month} {year}"
    match precision:
        case "second":
            return f"{day}, {moment:%H:%M:%S} (UTC{offset})"
        case "minute":
            return f"{day}, {moment:%H:%M} (UTC{offset})"
        case "hour":
            return f"{day}, {moment:%H}h (UTC{offset})"
        case "day":
            return day
        case "week":
            monday = floor(moment, "week")
            return f"week of {monday.day} {_MONTHS[monday.month - 1]} {monday.year}"
        case "month":
            return f"{month} {year}"
        case "quarter":
            return f"Q{(moment.month + 2) // 3} {year}"
        case "season":
            return f"{_ENGLISH_SEASONS[moment.month // 3 % 4]} {_year_of_season(moment)}"
        case "year":
            return f"{year}"
    return f"{year - year % 10}s"


def _chinese(moment: datetime, precision: Precision, offset: str) -> str:
    year = moment.year
    day = f"{year}年{moment.month}月{moment.day}日"
    match precision:
        case "second":
            return f"{day} {moment:%H:%M:%S} (UTC{offset})"
        case "minute":
            return f"{day} {moment:%H:%M} (UTC{offset})"
        case "hour":
            return f"{day} {moment.hour}时 (UTC{offset})"
        case "day":
            return day
        case "week":
            monday = floor(moment, "week")
            return f"{monday.year}年{monday.month}月{monday.day}日那一周"
        case "month":
            return f"{year}年{moment.month}月"
        case "quarter":
            return f"{year}年第{'一二三四'[(moment.month - 1) // 3]}季度"
        case "season":
            return f"{_year_of_season(moment)}年{_CHINESE_SEASONS[moment.month // 3 % 4]}季"
        case "year":
            return f"{year}年"
    return f"{year - year % 10}年代"


def _year_of_season(moment: datetime) -> int:
    """Return the year a season begins in: January belongs to the winter of the year before."""
    return floor(moment, "season").year


FORMATS: Final[Mapping[str, Callable[[datetime, Precision, str], str]]] = {"en": _english, "cn": _chinese}


@dataclass(frozen=True)
class PeriodWording:
    """The words around the beginning, the end, or both."""

    since: str
    until: str
    both: str


PERIODS: Final[Mapping[str, PeriodWording]] = {
    "en": PeriodWording("since {}", "until {}", "{} to {}"),
    "cn": PeriodWording("自{}起", "至{}", "{}至{}"),
}
