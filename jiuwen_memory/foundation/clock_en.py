"""The time of day in English date words. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from jiuwen_memory.foundation.timeline import Precision, Reading, shift

_MERIDIEM = re.compile(r"(?<![a-z])([ap])\s?\.?\s?m\b\.?")
_HALF = r"(?P<half>am|pm)"
_LEAD = r"(?:(?:at|@|around|about|by|for)\s*)*"
_CLOCKS = tuple(
    re.compile(rf"(?<![\d/.:-]){_LEAD}(?<![\d/.:-]){body}(?![\d/:-]|\.\d)")
    for body in (
        r"(?P<hour>\d\d?):(?P<minute>\d\d)(?::(?P<second>\d\d))?(?:\s?" + _HALF + ")?",
        r"(?P<hour>\d\d?)h(?P<minute>\d\d)?\b",
        r"(?P<hour>\d\d?)[. ]?(?P<minute>\d\d)?\s?" + _HALF,
        r"half past (?P<half_hour>\d\d?)(?:\s?" + _HALF + ")?",
        r"(?:an? )?(?P<quarter>quarter) (?P<way>past|after|to) (?P<hour>\d\d?|noon|midnight)(?:\s?" + _HALF + ")?",
        r"(?P<minutes>\d\d?)(?: minutes?)? (?P<way>past|to) (?P<hour>\d\d?|noon|midnight)(?:\s?" + _HALF + ")?",
        r"(?P<hour>\d\d?) o'?clock(?:\s?" + _HALF + ")?",
        r"\b(?P<hour>noon|midday|midnight)\b",
    )
)
_BARE_HOURS = (
    re.compile(r"(?:at|@|around|about) (?P<hour>\d\d?)\b(?!\s*[/:.-]\d)"),
    re.compile(r"^(?P<hour>\d\d?)(?=,? (?:today|tomorrow|yesterday) (?:morning|afternoon|evening|night))"),
    re.compile(r"^(?P<hour>\d\d?)(?= in the (?:morning|afternoon|evening))"),
)
_PART = re.compile(
    r",?\s?(?:\b(?:in|during|at)\s)?(?:\bthe\s)?\b(?:early|late|mid)?[ -]?"
    r"(?P<part>morning|afternoon|evening|night)\b,?(?:\s(?:on|of)\b)?"
)
# The hours that a part of the day is taken to last, for it is no more exact than the day.
_HOURS = {"morning": (8, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (20, 24)}
_NAMED_HOURS = {"noon": 12, "midday": 12, "midnight": 0}


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
            begins, ends = _HOURS[self.part]
            return Reading(day.replace(hour=begins), "day", end=shift(day, ends, "hour"))
        moment = shift(day, self.minute, "minute") if self.minute < 0 else day.replace(minute=self.minute)
        return Reading(shift(moment, self.hour, "hour").replace(second=self.second), self.precision)


def take_clock(text: str) -> tuple[str, Clock | None] | None:
    """Take the time of day out of some words; None if there is one that leaves a doubt."""
    text = _MERIDIEM.sub(r"\1m", text)
    text = text.replace("tonight", "today night").replace("last night", "yesterday night")
    text = re.sub(r"\b(?:very )?(?:early|late) (?=(?:\w+ ){1,2}(?:morning|afternoon|evening|night)\b)", "", text)
    text = re.sub(r"this (?=(?:early |late )?(?:morning|afternoon|evening|night)\b)", "today ", text)
    part = _PART.search(text)
    name = part["part"] if part else ""
    for pattern in _CLOCKS + (_BARE_HOURS if name else ()):
        match = pattern.search(text)
        if match:
            rest = text[: match.start()] + " " + text[match.end() :]
            clock = _clock(match.groupdict(), name)
            return (_without_part(rest), clock) if clock else None
    return (_without_part(text), Clock(part=name)) if name else (text, None)


def _without_part(text: str) -> str:
    return " ".join(_PART.sub(" ", text).split()).strip(", -")


def _clock(found: dict[str, str | None], part: str) -> Clock | None:
    named = found.get("hour") or found.get("half_hour") or ""
    hour = _NAMED_HOURS[named] if named in _NAMED_HOURS else int(named)
    minute = 30 if found.get("half_hour") else int(found.get("minute") or 0)
    if found.get("way"):
        minute = 15 if found.get("quarter") else int(found.get("minutes") or 0)
    if hour > 23 or minute > 59 or int(found.get("second") or 0) > 59:
        return None
    exact = named in _NAMED_HOURS or ("minute" in found and found["minute"] is not None and not part)
    resolved = _hour_of_day(hour, found.get("half"), part, is_exact=exact)
    if resolved is None or (named == "midnight" and part):
        return None
    second = found.get("second")
    has_minute = bool(found.get("minute") or found.get("half_hour") or found.get("way"))
    precision: Precision = "second" if second else "minute" if has_minute else "hour"
    sign = -1 if found.get("way") == "to" else 1
    return Clock(part, resolved, sign * minute, int(second or 0), precision)


def _hour_of_day(hour: int, half: str | None, part: str, *, is_exact: bool) -> int | None:
    """Return the hour of 24, or None where morning and evening would both do or the words contradict each other."""
    if half:
        return (
            hour % 12 + (12 if half == "pm" else 0)
            if 1 <= hour <= 12
            else (hour if half == "pm" and hour > 12 else None)
        )
    if is_exact or hour > 12:
        return hour
    match part:
        case "morning":
            return hour if hour < 12 else None
        case "afternoon":
            return hour % 12 + 12 if hour == 12 or hour <= 6 else None
        case "evening" | "night":
            return hour + 12 if 5 <= hour < 12 else None
    return None
