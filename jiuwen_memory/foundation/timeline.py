"""The calendar as date words use it: units, their ends, weekdays, months. Pure functions on wall time."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

Precision = Literal["second", "minute", "hour", "day", "week", "month", "quarter", "season", "year", "decade"]

_MONTHS: dict[str, int] = {"month": 1, "quarter": 3, "season": 3, "year": 12, "decade": 120, "century": 1200}
_STEPS: dict[str, timedelta] = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    "fortnight": timedelta(weeks=2),
}
END_OF_TIME = datetime.max.replace(microsecond=0)


@dataclass(frozen=True, slots=True)
class Reading:
    """What some words say on the wall clock: a beginning, how exactly, and an end if it is not that of the unit.

    `end` is the first moment after. A reading `is_now` if the words speak of the present, as an end also of no end.
    """

    start: datetime
    precision: Precision
    end: datetime | None = None
    is_now: bool = False

    @property
    def after(self) -> datetime:
        """The first moment that is no longer meant."""
        return self.end or after_unit(self.start, self.precision)


@dataclass(frozen=True, slots=True)
class PeriodWords:
    """The words of a beginning and of an end, where given.

    `is_before` if the end itself is no longer meant, `is_after` if the beginning itself is not meant yet.
    """

    since: str | None
    until: str | None
    is_before: bool = False
    is_after: bool = False


def floor(moment: datetime, unit: str) -> datetime:
    """Return the first moment of the second, day, month ... that a moment lies in; a week begins on Monday."""
    match unit:
        case "second":
            return moment.replace(microsecond=0)
        case "minute":
            return moment.replace(second=0, microsecond=0)
        case "hour":
            return moment.replace(minute=0, second=0, microsecond=0)
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return day.replace(day=1, month=day.month - (day.month - 1) % 3)
        case "season":
            return (
                datetime.min if (day.year, day.month) < (1, 3) else shift(day.replace(day=1), -(day.month % 3), "month")
            )
        case "year":
            return day.replace(day=1, month=1)
        case "decade":
            return day.replace(day=1, month=1, year=max(day.year - day.year % 10, 1))
    return day


def after_unit(moment: datetime, unit: str) -> datetime:
    """Return the first moment after the unit that a moment lies in, at most the last second of year 9999."""
    try:
        first = floor(moment, unit)
        if unit == "decade":
            return first.replace(year=first.year - first.year % 10 + 10)
        return shift(first, 1, unit)
    except (ValueError, OverflowError):
        return END_OF_TIME


def shift(moment: datetime, count: int, unit: str) -> datetime:
    """Move a moment by units; a day that the month does not have becomes its last. Raises past the years 1 to 9999."""
    if unit in _STEPS:
        return moment + count * _STEPS[unit]
    month = moment.year * 12 + moment.month - 1 + count * _MONTHS[unit]
    year, month = divmod(month, 12)
    if not 1 <= year <= END_OF_TIME.year:
        raise OverflowError(f"Year {year} is not between 1 and 9999.")
    return moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))


def weekday_of_week(moment: datetime, weekday: int, weeks: int) -> datetime:
    """Return a weekday (Monday is 0) of the week that lies so many weeks after the moment's."""
    return floor(moment, "week") + timedelta(days=weekday, weeks=weeks)


def nearest_weekday(moment: datetime, weekday: int, direction: int) -> datetime:
    """Return the closest such weekday before (-1) or after (1) the moment's day, not that day itself."""
    distance = direction * (weekday - moment.weekday()) % 7 or 7
    return floor(moment, "day") + timedelta(days=direction * distance)


def weekday_of_month(month: datetime, weekday: int, number: int) -> datetime | None:
    """Return the nth such weekday of a month (-1 is the last), or None if it has not that many."""
    if number < 0:
        last = floor(shift(month, 1, "month"), "month") - timedelta(days=1)
        found = last - timedelta(days=(last.weekday() - weekday) % 7, weeks=-number - 1)
    else:
        first = floor(month, "month")
        found = first + timedelta(days=(weekday - first.weekday()) % 7, weeks=number - 1)
    return found if found.month == month.month else None


def week_of(first: datetime, number: int, unit: str) -> datetime | None:
    """Return the Monday of the nth week of a month or year, -1 for the last.

    Some count the weeks whose Monday, some those whose Thursday is inside: where the two differ, the answer is None.
    """
    after = after_unit(first, unit)
    mondays = []
    for weekday in (0, 3):
        if number < 0:
            last = after - timedelta(days=1)
            found = last - timedelta(days=(last.weekday() - weekday) % 7, weeks=-number - 1)
        else:
            found = first + timedelta(days=(weekday - first.weekday()) % 7, weeks=number - 1)
        if not first <= found < after:
            return None
        mondays.append(found - timedelta(days=weekday))
    return mondays[0] if mondays[0] == mondays[1] else None


def year_of(number: int) -> int | None:
    """Return the year meant by a written number: two digits mean 1950 to 2049."""
    if number < 50:
        return 2000 + number
    if number < 100:
        return 1900 + number
    return number if number <= END_OF_TIME.year else None


def day_of(year: int | None, month: int, day: int) -> Reading | None:
    """Return a day, or None if there is no such day."""
    try:
        return None if year is None else Reading(datetime(year, month, day), "day")
    except ValueError:
        return None


def latest_day(now: datetime, month: int, day: int) -> Reading | None:
    """Return the last such day of a year that has begun, at most eight years back."""
    for year in range(now.year, max(now.year - 9, 0), -1):
        reading = day_of(year, month, day)
        if reading is not None and reading.start <= now:
            return reading
    return None


def latest_month(now: datetime, month: int) -> Reading:
    """Return the last such month that has begun."""
    return Reading(datetime(now.year - (month > now.month), month, 1), "month")


def latest_day_of_month(now: datetime, day: int) -> Reading | None:
    """Return the last day of that number that has begun, or None if last month did not have it."""
    for back in range(2):
        month = shift(floor(now, "month"), -back, "month")
        reading = day_of(month.year, month.month, day)
        if reading is not None and reading.start <= now:
            return reading
    return None


def easter(year: int) -> datetime:
    """Return Easter Sunday of the western churches (the anonymous Gregorian algorithm)."""
    century, golden = year // 100, year % 19
    moon = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    week = (32 + 2 * (century % 4) + 2 * (year % 100 // 4) - moon - year % 4) % 7
    late = (golden + 11 * moon + 22 * week) // 451
    month, day = divmod(moon + week - 7 * late + 114, 31)
    return datetime(year, month, day + 1)
