"""How the examples print what the memory knows: facts with the time they hold."""

from __future__ import annotations

from jiuwen_memory import Relation
from jiuwen_memory.foundation.timepoint import format_seconds
from jiuwen_memory.memory_core.config.graph import Language

SINCE: dict[Language, str] = {"en": " (since {})", "cn": "（{}起）"}
UNTIL: dict[Language, str] = {"en": " (until {})", "cn": "（至{}）"}


def period(fact: Relation, language: Language = "en") -> tuple[str, str]:
    """Return since when and until when a fact holds, in words; what is not known is empty."""
    since = until = ""
    if fact.valid_since is not None:
        since = format_seconds(fact.valid_since, fact.offset_since, fact.precision_since or "second", language)
    if fact.valid_until is not None:
        until = format_seconds(fact.valid_until, fact.offset_until, fact.precision_until or "second", language)
    return since, until


def sentence(fact: Relation, language: Language = "en") -> str:
    """Return a fact as a sentence, with its time in brackets where that is known."""
    since, until = period(fact, language)
    if since and until:
        return f"{fact.content} ({since} – {until})"
    return fact.content + (SINCE[language].format(since) if since else UNTIL[language].format(until) if until else "")
