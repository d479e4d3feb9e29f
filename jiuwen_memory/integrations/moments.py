"""Moments as people and models write them to a door: ISO 8601. Text in, values out."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from pydantic import Field

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.timepoint import parse_iso

MOMENT_FORM: Final = "ISO 8601, such as 2026-05-08 or 2026-05-08T09:30:00+02:00"
Moment = Annotated[str | None, Field(description=MOMENT_FORM)]
AsOf = Annotated[str | None, Field(description=f"only facts that held at this moment: {MOMENT_FORM}")]
KnownAt = Annotated[str | None, Field(description=f"only facts that were known at this moment: {MOMENT_FORM}")]
"""Arguments of tools, as a model is told of them."""


def parse_moment(name: str, text: str | None, *, is_end: bool = False) -> datetime | None:
    """Return a moment that was given in ISO 8601; without a zone it is UTC.

    A day, a month or a year alone means its first second, where it `is_end` of something its last one.

    Raises:
        InvalidInputError: it is none; the message names what it was given for.
    """
    if text is None:
        return None
    found = parse_iso(text)
    if found is None:
        raise InvalidInputError(f"{name} is {text!r}; give {MOMENT_FORM}.")
    return datetime.fromisoformat((found.last_second() if is_end else found).iso())
