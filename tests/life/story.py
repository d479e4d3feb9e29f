"""The shapes of the scripted life: what is told when, and what is true of it. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass(frozen=True)
class Thing:
    """Somebody or something of the life.

    Args:
        key: what this script calls it.
        names: every name the texts use for it.
        kind: the entity type it must have.
        summary: one sentence that tells it from others of its name; the scripted model gives it.
    """

    key: str
    names: tuple[str, ...]
    kind: str
    summary: str


@dataclass(frozen=True)
class Claim:
    """A statement that may be told many times, in many words.

    Args:
        key: what this script calls it.
        source, target: the things it is about, by key; equal if it is about one thing alone.
        predicate: the name of its relation.
        slot: claims of one slot exclude each other at a time; none excludes nothing.
        signs: words of which an answer must have one, beside the right ends, to count as this claim.
    """

    key: str
    source: str
    target: str
    predicate: str
    slot: str
    signs: tuple[str, ...]


@dataclass(frozen=True)
class Telling:
    """One claim in one text: the sentence a model makes of it, and the words of the text for its beginning."""

    claim: str
    sentence: str
    since: str | None = None


@dataclass(frozen=True)
class Chapter:
    """One episode of the life.

    Args:
        number: its place in the order of time, from 1.
        when: the reference time.
        text: what is said.
        named: the names of the text, each with the key of what it means.
        told: the claims of the text.
        links: pairs of claims, one told and one that is stored already, with the kind of link between them.
    """

    number: int
    when: datetime
    text: str
    named: Mapping[str, str]
    told: tuple[Telling, ...]
    links: Mapping[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True)
class Period:
    """A row that the graph must hold: a claim, from when to when, whether it was replaced, and how often it was told.

    `since` and `until` are days such as 2020-07-01, empty where nobody said.
    """

    claim: str
    since: str = ""
    until: str = ""
    is_replaced: bool = False
    told: int = 1


def day(text: str) -> datetime:
    """Return noon of a day, in UTC."""
    return datetime.fromisoformat(text).replace(hour=12, tzinfo=UTC)
