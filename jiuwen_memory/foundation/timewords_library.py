"""What `dateparser` is good at: complete dates in unusual order. Its guesses are not let through."""

from __future__ import annotations

import re
from datetime import datetime

from jiuwen_memory.foundation.timeline import Precision, Reading

RELATIVE_WORDS = re.compile(
    r"\b(?:last|next|this|past|coming|ago|later|today|tonight|yesterday|tomorrow|now|hence|from|before|after|since|until)\b"
    r"|[上下今昨明去前后本这此现]"
)
_COMPLETE = re.compile(
    r"(?=.*(?<!\d)\d{4}(?!\d))(?=.*(?<![\d:.+-])\d\d?(?![\d:.])(?:st|nd|rd|th)?)"
    r"(?=.*\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)).*"
)
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")
_FROM_TO = re.compile(r"\d\s?[-\u2013\u2014]\s?\d")
_CLOCK = re.compile(r"\d:\d\d")


def read_with_library(words: str, now: datetime) -> Reading | None:
    """Return what the library makes of a day, month and year that are all given in words; None for anything less."""
    text = words.casefold()
    if RELATIVE_WORDS.search(text) or _FROM_TO.search(text) or not text.isascii() or not _COMPLETE.fullmatch(text):
        return None
    found = _parse(text, now)
    if found is None or found.tzinfo is not None or str(found.year) not in _YEAR.findall(text):
        # A zone's name is not enough: IST and CST are each the name of three.
        return None
    precision: Precision = "minute" if _CLOCK.search(text) else "day"
    return Reading(found.replace(microsecond=0), precision)


def _parse(text: str, now: datetime) -> datetime | None:
    import dateparser

    settings = {"STRICT_PARSING": True, "RELATIVE_BASE": now}
    found: datetime | None = dateparser.parse(text, languages=["en"], settings=settings)
    return found
