"""In which time zone was the text said? Calls the model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import JsonValue

from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.asking import Asker
from jiuwen_memory.memory_core.graph.extraction.base import AnswerForm
from jiuwen_memory.memory_core.graph.extraction.extraction_models import TimezonePredictions
from jiuwen_memory.memory_core.graph.extraction.questions.shared import or_else
from jiuwen_memory.memory_core.graph.extraction.reply import (
    Reply,
    UnusableReplyError,
    fold_key,
    folded,
    read_text,
)
from jiuwen_memory.memory_core.graph.extraction.values import SourceText

_HEAD: Final = 300
_TAIL: Final = 100
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?\s*([+\-\u2212])\s*(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE)
_ZONE_KEYS: Final = ("timezone", "time_zone", "tz", "zone", "iana", "name", "offset", "offset_from_utc", "utc_offset")
_PLACE_KEYS: Final = ("place", "city", "location")
_WEST: Final = timedelta(hours=-12)
_EAST: Final = timedelta(hours=14)
_REGIONS: Final = ("Africa", "America", "Asia", "Australia", "Europe", "Pacific")


async def ask_timezone(source: SourceText, *, language: Language, asker: Asker) -> tzinfo | None:
    """Return the time zone of the text, or None when it gives no hint.

    A model that fails or gives no usable answer counts as no hint, with a warning.
    """
    variables = {"text": _excerpt(source.content)}
    question = asker.ask(
        "timezone", AnswerForm(TimezonePredictions), language=language, variables=variables, read=_read
    )
    return await or_else(question, None, ledger=asker.ledger, consequence="times are read as UTC")


def _excerpt(text: str) -> str:
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n…\n{text[-_TAIL:]}"


def _read(reply: Reply) -> tzinfo | None:
    answers = [folded(item) for value in reply.values for item in _objects(value)]
    answers = [fields for fields in answers if any(key in fields for key in (*_ZONE_KEYS, *_PLACE_KEYS))]
    if not answers:
        if any(value in ([], {}) or value == {"extracted_relations": []} for value in reply.values):
            return None
        raise UnusableReplyError("no time zone")
    for fields in answers:
        given = [text for key in _ZONE_KEYS if (text := read_text(fields.get(key)))]
        zone = next((zone for text in given if (zone := parse_zone(text)) is not None), None)
        if zone is not None:
            places = [text for key in _PLACE_KEYS if (text := read_text(fields.get(key)))]
            return _with_sane_sign(zone, places)
        for text in given:
            reply.drop(text, "not a time zone")
    return None


def _objects(value: JsonValue) -> list[dict[str, JsonValue]]:
    if isinstance(value, list):
        return [item for part in value for item in _objects(part)]
    if not isinstance(value, dict):
        return []
    if any(
        fold_key(key) in (*_ZONE_KEYS, *_PLACE_KEYS) and not isinstance(part, (dict, list))
        for key, part in value.items()
    ):
        return [value]
    return [item for part in value.values() for item in _objects(part)]


def parse_zone(text: str) -> tzinfo | None:
    """Return the zone that an IANA name or an offset such as `+08:00` or `UTC+8` means, or None."""
    text = text.strip()
    if text.casefold() in ("utc", "gmt", "z"):
        return UTC
    match = _OFFSET.fullmatch(text)
    if match:
        sign, hours, minutes = match.groups()
        amount = timedelta(hours=int(hours), minutes=int(minutes or 0))
        offset = amount if sign == "+" else -amount
        return timezone(offset) if _WEST <= offset <= _EAST else None
    return _iana_zone(text) or _iana_zone(_by_folded_name().get(fold_key(text), ""))


def _iana_zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


@lru_cache(maxsize=1)
def _by_folded_name() -> dict[str, str]:
    return {fold_key(name): name for name in available_timezones()}


def _with_sane_sign(zone: tzinfo, places: Sequence[str]) -> tzinfo:
    """Return the zone of the named city when the answer is its mirror image: models mistake the sign."""
    if isinstance(zone, ZoneInfo) and not zone.key.startswith("Etc/"):
        return zone
    for place in places:
        for region in _REGIONS:
            local = _iana_zone(f"{region}/{place.strip().title().replace(' ', '_')}")
            if local is not None and _offset(local) == -_offset(zone):
                return local
    return zone


def _offset(zone: tzinfo) -> timedelta:
    return datetime(2024, 1, 15, tzinfo=UTC).astimezone(zone).utcoffset() or timedelta()
