"""The Chinese calendar of months by the moon, and its solar terms, as days of the western one. Pure functions.

`lunar_python` knows the months; it computes them from the sky, as the calendar in force since 1645 does.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from jiuwen_memory.foundation.timeline import Reading

# The rule that a month without a principal term is the leap month came in 1645.
_FIRST_YEAR: Final = 1645
_LAST_YEAR: Final = 2199
LUNAR_LAST_DAY: Final = -1


# A month takes ten milliseconds to compute, and a text names the same few years.
@lru_cache(maxsize=512)
def lunar_month(year: int, month: int, *, is_leap: bool = False) -> Reading | None:
    """Return a month (1 to 12, or the leap month after it) of a lunar year, or None if it has no such month."""
    from lunar_python import LunarMonth, Solar

    if not _FIRST_YEAR <= year <= _LAST_YEAR or not 1 <= month <= 12:
        return None
    found = LunarMonth.fromYm(year, -month if is_leap else month)
    if found is None:
        return None
    solar = Solar.fromJulianDay(found.getFirstJulianDay())
    first = datetime(solar.getYear(), solar.getMonth(), solar.getDay())
    return Reading(first, "month", end=first + timedelta(days=found.getDayCount()))


def lunar_day(year: int, month: int, day: int, *, is_leap: bool = False) -> Reading | None:
    """Return a day of a lunar month, `LUNAR_LAST_DAY` being its last, or None if the month does not have it."""
    whole = lunar_month(year, month, is_leap=is_leap)
    if whole is None:
        return None
    found = whole.after - timedelta(days=1) if day == LUNAR_LAST_DAY else whole.start + timedelta(days=day - 1)
    return Reading(found, "day") if whole.start <= found < whole.after else None


@lru_cache(maxsize=512)
def solar_term(name: str, year: int) -> Reading | None:
    """Return the day on which one of the 24 terms (清明, 冬至) begins in China, or None if there is no such term."""
    from lunar_python import Solar

    if not _FIRST_YEAR < year <= _LAST_YEAR:
        return None
    # The table runs from the winter before the year to the winter after it, with other names at both ends.
    terms = Solar.fromYmd(year, 6, 1).getLunar().getJieQiTable()
    found = next(
        (day for key, day in terms.items() if day.getYear() == year and _TERM_KEYS.get(key, key) == name), None
    )
    return None if found is None else Reading(datetime(year, found.getMonth(), found.getDay()), "day")


_TERM_KEYS = {
    "DA_XUE": "大雪",
    "DONG_ZHI": "冬至",
    "XIAO_HAN": "小寒",
    "DA_HAN": "大寒",
    "LI_CHUN": "立春",
    "YU_SHUI": "雨水",
    "JING_ZHE": "惊蛰",
}
