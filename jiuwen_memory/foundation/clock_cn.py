"""The time of day in Chinese date words. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from jiuwen_memory.foundation.timeline import Precision, Reading, shift

# The hours a part of the day is taken to begin and end at, and the hours that it can hold as they are said.
_PARTS = {
    "凌晨": (0, 6, {12: 0} | {hour: hour for hour in range(6)}),
    "清晨": (5, 9, {hour: hour for hour in range(4, 10)}),
    "早晨": (8, 12, {hour: hour for hour in range(4, 12)}),
    "早上": (8, 12, {hour: hour for hour in range(4, 12)}),
    "早": (8, 12, {hour: hour for hour in range(4, 12)}),
    "上午": (8, 12, {hour: hour for hour in range(6, 13)}),
    "中午": (11, 13, {11: 11, 12: 12, 1: 13, 2: 14}),
    "下午": (12, 18, {12: 12} | {hour: hour + 12 for hour in range(1, 8)}),
    "傍晚": (16, 20, {hour: hour + 12 for hour in range(4, 8)}),
    "晚上": (18, 24, {hour: hour + 12 for hour in range(5, 12)}),
    "晚": (18, 24, {hour: hour + 12 for hour in range(5, 12)}),
    "夜里": (20, 24, {hour: hour + 12 for hour in range(8, 12)}),
    "深夜": (22, 24, {hour: hour + 12 for hour in range(9, 12)}),
}
_PART = "|".join(_PARTS)
_CLOCK = re.compile(
    rf"(?P<part>{_PART})?(?:的)?(?<![\d/.-])(?P<hour>\d{{1,2}})"
    r"(?:(?P<colon>:)(?P<minute>\d\d)(?::(?P<second>\d\d))?|[点时](?:(?P<half>半)|(?P<quarter>[1-3])刻|(?P<spoken>\d{1,2})分?|整|钟)?)"
    r"(?:(?P<latin>[ap])m)?$"
)
_ONLY_PART = re.compile(rf"(?P<part>{_PART})$")


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day; without an hour only a part of the day is known."""

    part: str = ""
    hour: int | None = None
    minute: int = 0
    second: int = 0
    precision: Precision = "day"

    def on(self, day: datetime) -> Reading:
        """Return the moment on a day; a part of the day is no more exact than the day."""
        if self.hour is None:
            begins, ends, _ = _PARTS[self.part]
            return Reading(day.replace(hour=begins), "day", end=shift(day, ends, "hour"))
        return Reading(day.replace(hour=self.hour, minute=self.minute, second=self.second), self.precision)


def take_clock(text: str) -> tuple[str, Clock | None] | None:
    """Take the time of day from the end of some words; None if there is one that leaves a doubt."""
    match = _CLOCK.search(text)
    if match is None:
        part = _ONLY_PART.search(text)
        return (text[: part.start()], Clock(part["part"])) if part and part.start() else (text, None)
    hour, minute = int(match["hour"]), int(match["minute"] or match["spoken"] or 0)
    if match["half"] or match["quarter"]:
        minute = 30 if match["half"] else 15 * int(match["quarter"])
    resolved = _hour_of_day(hour, match["part"], match["latin"], is_exact=match["colon"] is not None)
    if resolved is None or hour > 23 or minute > 59 or int(match["second"] or 0) > 59:
        return None
    has_minute = match["minute"] or match["spoken"] or match["half"] or match["quarter"]
    precision: Precision = "second" if match["second"] else "minute" if has_minute else "hour"
    return text[: match.start()], Clock(match["part"] or "", resolved, minute, int(match["second"] or 0), precision)


def _hour_of_day(hour: int, part: str | None, latin: str | None, *, is_exact: bool) -> int | None:
    """Return the hour of 24, or None where morning and evening would both do or the words contradict each other."""
    if latin:
        return hour % 12 + (12 if latin == "p" else 0) if 1 <= hour <= 12 else None
    if part and hour <= 12:
        return _PARTS[part][2].get(hour)
    return hour if is_exact or hour > 12 else None
