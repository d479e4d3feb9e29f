"""Times: what is stored, how it is printed, and how words of a text become one. Pure; touches nothing.

A time is UTC seconds, the offset it was spoken in and how exactly it was given. Words that leave a doubt give None.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TypeVar

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.text import is_cjk
from jiuwen_memory.foundation.timeformat import FORMATS, PERIODS
from jiuwen_memory.foundation.timeline import END_OF_TIME, PeriodWords, Precision, Reading, after_unit, floor, shift

__all__ = [
    "Precision",
    "Timepoint",
    "format_period",
    "format_seconds",
    "from_datetime",
    "parse_iso",
    "resolve_period",
    "resolve_time",
    "utc_moment",
]

_EPOCH = datetime(1970, 1, 1)
_LONGEST_WORDS = 120
_TIMESPECS: Mapping[str, str] = {"second": "seconds", "minute": "minutes", "hour": "minutes"}
_SHORT_DATES: Mapping[str, int] = {"month": 7, "quarter": 7, "season": 7, "year": 4, "decade": 4}
_AROUND = "\"'“”‘’.,;!?。、()[] "  # NFKC has turned the wide forms of the others into these
_LAST_HOUR = 24
_WIDEST_OFFSET = 23
_MINUTES = 60
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")
_ISO = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d?)(?:-(?P<day>\d\d?))?|/(?P<month2>\d\d?)(?:/(?P<day2>\d\d?))?)?"
    r"(?:(?:t|\s+)(?P<hour>\d\d?):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?"
    r"(?:\s*(?P<offset>z|utc|gmt|(?:utc|gmt)?\s?(?P<sign>[+\-\u2212])(?P<hours>\d\d?)(?::?(?P<minutes>\d\d))?))?)?",
    re.IGNORECASE,
)
_ISO_COMPACT = re.compile(
    r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?:t(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)?"
    r"(?P<offset>z|(?P<sign>[+\-])(?P<hours>\d\d)(?P<minutes>\d\d)?)?)?(?P<month2>(?!))?(?P<day2>(?!))?",
    re.IGNORECASE,
)
_ISO_INTERVAL = re.compile(r"(?P<since>\d{4}-\d\d[^/\s]*)/(?P<until>\d{4}-\d\d[^/\s]*)")

T = TypeVar("T")
Reader = Callable[[str, datetime], Reading | None]
Splitter = Callable[[str], PeriodWords | None]


@cache
def _readers() -> dict[str, Reader]:
    """Return who reads which language's time words; their many patterns are compiled on first use."""
    from jiuwen_memory.foundation.timewords_cn import read_chinese
    from jiuwen_memory.foundation.timewords_en import read_english

    return {"en": read_english, "cn": read_chinese}


@cache
def _splitters() -> dict[str, Splitter]:
    from jiuwen_memory.foundation.timewords_cn import split_chinese_period
    from jiuwen_memory.foundation.timewords_en import split_english_period

    return {"en": split_english_period, "cn": split_chinese_period}


@dataclass(frozen=True, slots=True)
class Timepoint:
    """A moment: UTC seconds, the offset in minutes it was spoken in, and how exactly it was given."""

    seconds: int
    offset_minutes: int = 0
    precision: Precision = "second"

    def last_second(self) -> Timepoint:
        """Return the end of the day, month, year ... that this is; applying it twice is the same."""
        wall_time, offset = self._shown()
        last = after_unit(wall_time, self.precision)
        if last != END_OF_TIME:
            last -= timedelta(seconds=1)
        return _from_wall_time(last, offset, self.precision)

    def first_second(self) -> Timepoint:
        """Return the beginning of the day, month, year ... that this lies in."""
        wall_time, offset = self._shown()
        try:
            first = floor(wall_time, self.precision)
        except (ValueError, OverflowError):
            # The first winter began before the calendar.
            return self
        return _from_wall_time(first, offset, self.precision)

    def iso(self) -> str:
        """Return the full ISO 8601 form in its own offset, whatever the precision."""
        wall_time, offset = self._shown()
        return f"{wall_time.isoformat()}{_offset_text(offset)}"

    def short_iso(self) -> str:
        """Return ISO 8601 only as exact as the moment is: `2024`, `2024-03`, `2024-03-15`, `2024-03-15T09:30+01:00`.

        What has no such form is written by its beginning: a week by its Monday, a season by its first month.
        """
        wall_time, offset = self._shown()
        if self.precision in ("second", "minute", "hour"):
            return f"{wall_time.isoformat(timespec=_TIMESPECS[self.precision])}{_offset_text(offset)}"
        begins = floor(wall_time, self.precision).date().isoformat()
        return begins[: _SHORT_DATES.get(self.precision, len(begins))]

    def format(self, language: str = "en") -> str:
        """Return the moment in words of a language, in its own offset and only as exact as it is."""
        wall_time, offset = self._shown()
        return FORMATS[language](wall_time, self.precision, _offset_text(offset))

    def _shown(self) -> tuple[datetime, int]:
        """Return the wall time, and the offset that it is told in.

        In the calendar's first and last hours an offset may lead out of the years 1 to 9999: then that is UTC. Seconds
        beyond them stand for the calendar's first or last.
        """
        for offset in (self.offset_minutes, 0):
            try:
                return _EPOCH + timedelta(seconds=self.seconds + 60 * offset), offset
            except OverflowError:
                continue
        return (datetime.min if self.seconds < 0 else END_OF_TIME), 0


def from_datetime(moment: datetime) -> Timepoint:
    """Return a datetime as a time; without an offset it is UTC.

    Raises:
        InvalidInputError: it is no moment, such as `pandas.NaT` or one with an offset of a day or more.
    """
    try:
        offset = moment.utcoffset() or timedelta()
    except ValueError as error:
        raise InvalidInputError(f"{moment!r} is no moment ({error}); give another datetime.") from error
    return _from_wall_time(moment.replace(tzinfo=None), offset // timedelta(minutes=1), "second")


def utc_moment(seconds: int) -> datetime:
    """Return stored seconds as a datetime in UTC; the calendar's first and last hours elsewhere lie beyond its own."""
    return Timepoint(seconds)._shown()[0].replace(tzinfo=UTC)


def format_seconds(seconds: int, offset_minutes: int = 0, precision: Precision = "second", language: str = "en") -> str:
    """Return stored seconds in words of a language."""
    return Timepoint(seconds, offset_minutes, precision).format(language)


def format_period(since: Timepoint | None, until: Timepoint | None, language: str = "en") -> str:
    """Return a stretch of time in words of a language, such as "since 2021"; nothing if neither end is known."""
    words = PERIODS[language]
    begins, ends = (point.format(language) if point else "" for point in (since, until))
    if begins and ends:
        return words.both.format(begins, ends)
    return words.since.format(begins) if begins else words.until.format(ends) if ends else ""


def parse_iso(text: str) -> Timepoint | None:
    """Return the moment that ISO 8601 names, as exactly as it does (a year, a day, ...); None for other texts.

    Without an offset it is UTC.
    """
    return _read_iso(_clean(text), 0)


def resolve_time(
    text: str, reference_time: datetime, *, offset_minutes: int = 0, language: str | None = None
) -> Timepoint | None:
    """Return the time that a text means, or None if it is not a time or leaves a doubt.

    Words count from the reference time, seen in the offset; a day without a year is the latest one. `language` matters
    only for digits alone ("3-7-2017").
    """
    words = _clean(text)
    now = _wall_time_at(reference_time, offset_minutes)
    if now is None or not words:
        return None
    exact = _read_iso(words, offset_minutes)
    if exact is not None:
        return exact
    reading = _read(words, now, language)
    return _timepoint(reading, offset_minutes) if reading else None


def resolve_period(
    text: str, reference_time: datetime, *, offset_minutes: int = 0, language: str | None = None
) -> tuple[Timepoint | None, Timepoint | None]:
    """Return the beginning and the end that a text means; None where it gives none or leaves a doubt.

    An end is the last second of the day, month, year ... that was named, or the time of day itself; "until today" or
    "to the present" is no end.
    """
    words = _clean(text)
    now = _wall_time_at(reference_time, offset_minutes)
    if now is None or not words:
        return None, None
    exact = _read_iso(words, offset_minutes)
    if exact is not None:
        return exact, exact.last_second()
    try:
        return _resolve_words(words, now, offset_minutes=offset_minutes, language=language)
    except OverflowError:
        # "Before the year 1": an end of it would lie before all times.
        return None, None


def _resolve_words(
    words: str, now: datetime, *, offset_minutes: int, language: str | None
) -> tuple[Timepoint | None, Timepoint | None]:
    ends = _split(words, language)
    if ends is not None:
        return _resolve_ends(ends, now, offset_minutes=offset_minutes, language=language)
    reading = _read(words, now, language)
    if reading is None:
        return None, None
    return _timepoint(reading, offset_minutes), None if reading.is_now else _end_of(reading, offset_minutes)


def _clean(text: str) -> str:
    words = " ".join(unicodedata.normalize("NFKC", text).split()).strip(_AROUND)
    return words if len(words) <= _LONGEST_WORDS else ""


def _wall_time_at(reference_time: datetime, offset_minutes: int) -> datetime | None:
    try:
        aware = reference_time if reference_time.tzinfo else reference_time.replace(tzinfo=UTC)
        wall_time = aware.replace(tzinfo=None) - (aware.utcoffset() or timedelta()) + timedelta(minutes=offset_minutes)
    except OverflowError:
        return None
    return wall_time.replace(microsecond=0)


def _from_wall_time(moment: datetime, offset_minutes: int, precision: Precision) -> Timepoint:
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    return Timepoint(seconds - 60 * offset_minutes, offset_minutes, precision)


def _timepoint(reading: Reading, offset_minutes: int) -> Timepoint:
    return _from_wall_time(reading.start, offset_minutes, reading.precision)


def _end_of(reading: Reading, offset_minutes: int) -> Timepoint:
    if reading.end is None and reading.precision in {"second", "minute", "hour"}:
        return _timepoint(reading, offset_minutes)
    if reading.end is None:
        return _timepoint(reading, offset_minutes).last_second()
    return _from_wall_time(reading.end - timedelta(seconds=1), offset_minutes, reading.precision)


def _suited(by_language: Mapping[str, T], words: str, language: str | None) -> T:
    """Return what fits some words: their script decides, and the language where they are digits alone."""
    if any(is_cjk(char) for char in words):
        return by_language["cn"]
    if language is None or language not in by_language or any(char.isalpha() for char in words):
        return by_language["en"]
    return by_language[language]


def _read(words: str, now: datetime, language: str | None) -> Reading | None:
    from jiuwen_memory.foundation.timewords_library import read_with_library

    try:
        return _suited(_readers(), words, language)(words, now) or read_with_library(words, now)
    except (ValueError, OverflowError):
        # There is no such day, or the arithmetic left the years 1 to 9999.
        return None


def _split(words: str, language: str | None) -> PeriodWords | None:
    if match := _ISO_INTERVAL.fullmatch(words):
        return PeriodWords(match["since"], match["until"])
    try:
        return _suited(_splitters(), words, language)(words)
    except (ValueError, OverflowError):
        return None


def _resolve_ends(
    ends: PeriodWords, now: datetime, *, offset_minutes: int, language: str | None
) -> tuple[Timepoint | None, Timepoint | None]:
    since = _read_end(ends.since, now, offset_minutes=offset_minutes, language=language)
    until = _read_end(ends.until, now, offset_minutes=offset_minutes, language=language)
    if ends.since is not None and ends.until is not None:
        if since is None or until is None:
            return None, None
        if not until.is_now and not _YEAR.search(ends.until):
            until = _first_after(since.start, ends.until, until, language=language)
        if (until.start if ends.is_before else until.after) <= since.start:
            return None, None
    if until is not None and ends.since is None and _may_lie_ahead(ends.until or "", until, now, language=language):
        until = None
    if since is not None and ends.is_after and since.precision not in {"second", "minute", "hour"}:
        since = replace(since, start=since.after)
    begins = _timepoint(since, offset_minutes) if since else None
    if until is None or until.is_now:
        return begins, None
    if ends.is_before:
        return begins, _from_wall_time(until.start - timedelta(seconds=1), offset_minutes, until.precision)
    return begins, _end_of(until, offset_minutes)


def _may_lie_ahead(words: str, found: Reading, now: datetime, *, language: str | None) -> bool:
    """Tell whether an end that is over was named without saying which: "until Friday" mostly looks ahead."""
    from jiuwen_memory.foundation.timewords_library import RELATIVE_WORDS

    if found.is_now or found.after > now or RELATIVE_WORDS.search(words) or _YEAR.search(words):
        return False
    try:
        later = _read(words, now + timedelta(days=400), language)
    except OverflowError:
        return False
    return later is None or later.start != found.start


def _read_end(words: str | None, now: datetime, *, offset_minutes: int, language: str | None) -> Reading | None:
    if words is None:
        return None
    exact = _read_iso(words, offset_minutes)
    if exact is not None:
        return Reading(_EPOCH + timedelta(seconds=exact.seconds + 60 * offset_minutes), exact.precision)
    return _read(words, now, language)


def _first_after(since: datetime, words: str, found: Reading, *, language: str | None) -> Reading:
    """Return the first time of that name after a beginning ("from November to March")."""
    from jiuwen_memory.foundation.timewords_library import RELATIVE_WORDS

    if RELATIVE_WORDS.search(words):
        return found
    for unit in ("week", "month", "year"):
        try:
            reading = _read(words, shift(since, 1, unit) - timedelta(seconds=1), language)
        except OverflowError:
            # The beginning lies in year 9999.
            return found
        if reading is not None and reading.start >= since:
            return reading
    return found


def _read_iso(words: str, offset_minutes: int) -> Timepoint | None:
    match = _ISO.fullmatch(words) or _ISO_COMPACT.fullmatch(words)
    if match is None:
        return None
    parts = match.groupdict()
    month, day = parts["month"] or parts["month2"], parts["day"] or parts["day2"]
    if parts["hour"] and not day:
        return None
    precision: Precision = "year" if not month else "month" if not day else "day"
    hour, second = int(parts["hour"] or 0), parts["second"]
    if parts["hour"]:
        precision = "second" if second else "minute"
    try:
        moment = datetime(int(parts["year"]), int(month or 1), int(day or 1))
        moment += timedelta(days=hour == _LAST_HOUR and parts["minute"] == "00" and not int(second or 0))
        moment = moment.replace(hour=hour % _LAST_HOUR if moment.day != int(day or 1) else hour)
        moment = moment.replace(minute=int(parts["minute"] or 0), second=int(second or 0))
    except (ValueError, OverflowError):
        return None
    offset = _iso_offset(parts, offset_minutes)
    return None if offset is None else _from_wall_time(moment, offset, precision)


def _iso_offset(parts: Mapping[str, str | None], default: int) -> int | None:
    if not parts["offset"]:
        return default
    if not parts["sign"]:
        return 0
    hours, minutes = int(parts["hours"] or 0), int(parts["minutes"] or 0)
    if hours > _WIDEST_OFFSET or minutes >= _MINUTES:
        return None
    return (60 * hours + minutes) * (1 if parts["sign"] == "+" else -1)


def _offset_text(minutes: int) -> str:
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02}:{rest:02}"
