"""The time that a search asks about: what held, what was known, and which period. Plain values; touches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.store.graph.constants import EPISODE_COLLECTION, RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Episode, Relation, now
from jiuwen_memory.foundation.store.query import QueryExpr, chain_filters, gt, gte, lte
from jiuwen_memory.foundation.timepoint import Timepoint, from_datetime

_ENDS: Final[Mapping[str, tuple[str, str]]] = {
    RELATION_COLLECTION: ("valid_since", "valid_until"),
    EPISODE_COLLECTION: ("valid_since", "valid_since"),
}


@dataclass(frozen=True)
class Period:
    """A time that the words of a query name: its beginning and its end, either of which may be open."""

    words: str
    since: Timepoint | None
    until: Timepoint | None

    @property
    def middle(self) -> int:
        """The moment half way, or the one end that is known, in UTC seconds."""
        ends = [each.seconds for each in (self.since, self.until) if each is not None]
        return sum(ends) // len(ends)

    def condition(self, collection: str) -> QueryExpr | None:
        """Return what a row of the period fulfils: an episode said in it, a fact that may hold during it."""
        if collection not in _ENDS:
            return None
        begins, ends = _ENDS[collection]
        parts = [lte(begins, self.until.seconds) if self.until else None]
        parts.append(gte(ends, self.since.seconds) if self.since else None)
        return chain_filters(*parts)

    def fields(self, collection: str) -> tuple[str, ...]:
        """Return the columns that `closeness` looks at, beside those of every fact that is searched."""
        return _ENDS.get(collection, ())

    def closeness(self, found: BaseGraphObject) -> float:
        """Tell how well an object belongs: 1 if it was said, began or ended then, 0.5 if it went on, 0 otherwise."""
        if isinstance(found, Episode):
            return float(self._holds(found.valid_since))
        if not isinstance(found, Relation):
            return 0.0
        if self._holds(found.valid_since) or self._holds(found.valid_until):
            return 1.0
        if found.valid_since is None or (self.until and found.valid_since > self.until.seconds):
            return 0.0
        goes_on = found.valid_until is None and not found.superseded_by
        outlasts = found.valid_until is not None and (self.since is None or found.valid_until >= self.since.seconds)
        return 0.5 if goes_on or outlasts else 0.0

    def _holds(self, seconds: int | None) -> bool:
        return (
            seconds is not None
            and (self.since is None or seconds >= self.since.seconds)
            and (self.until is None or seconds <= self.until.seconds)
        )


@dataclass(frozen=True)
class AskedTime:
    """What a search asks about time: what held `as_of` a moment, as `known_at` another, in UTC seconds."""

    as_of: int | None = None
    known_at: int | None = None
    period: Period | None = None

    @property
    def present(self) -> int:
        """The moment at which a fact counts as current."""
        given = self.as_of if self.as_of is not None else self.known_at
        return now() if given is None else given

    @property
    def moment(self) -> int | None:
        """The moment that is asked about, if any."""
        if self.as_of is not None:
            return self.as_of
        return self.period.middle if self.period else None

    def conditions(self) -> list[QueryExpr]:
        """Return what every relation must fulfil; an unknown beginning or end passes."""
        parts: list[QueryExpr] = []
        if self.known_at is not None:
            parts.append(lte("created_at", self.known_at))
        if self.as_of is not None:
            ends_later = gte("valid_until", self.as_of)
            if self.known_at is not None:
                ends_later |= gt("expired_at", self.known_at) & gte("stated_until", self.as_of)
            parts += [lte("valid_since", self.as_of), ends_later]
        return parts

    def fields(self) -> list[str]:
        """Return the columns of a relation that `seen`, `admits` and `is_certain` look at."""
        wanted: list[str] = []
        if self.as_of is not None:
            wanted += ["valid_since", "valid_until", "superseded_by", "first_mentioned_at", "expired_at"]
        if self.known_at is not None:
            wanted += ["expired_at", "stated_until", "stated_offset", "stated_precision"]
        return list(dict.fromkeys(wanted))

    def seen(self, found: BaseGraphObject) -> BaseGraphObject:
        """Return an object as it was known: the end of a fact that was learnt later is taken back."""
        if not isinstance(found, Relation) or self.known_at is None or found.expired_at is None:
            return found
        if found.expired_at <= self.known_at:
            return found
        return found.revise(
            valid_until=found.stated_until,
            offset_until=found.stated_offset,
            precision_until=found.stated_precision,
            superseded_by=[],
            expired_at=None,
        )

    def undated_heirs(self, found: BaseGraphObject) -> Sequence[str]:
        """Return the ids of what replaced a fact, where that alone tells whether it held at the moment asked about."""
        if self.as_of is None or not isinstance(found, Relation) or found.valid_until is not None:
            return ()
        return found.superseded_by

    def admits(self, found: BaseGraphObject, told: Mapping[str, int | None]) -> bool:
        """Tell whether an object that fulfils `conditions` held at the moment asked about, as far as is known.

        A fact that was replaced without a date held until what replaced it was `told` first; if nobody knows when that
        was, until the replacement was learnt.
        """
        heirs = self.undated_heirs(found)
        if self.as_of is None or not isinstance(found, Relation) or not heirs:
            return True
        known = [each for each in map(told.get, heirs) if each is not None]
        end = min(known, default=found.expired_at)
        return end is None or self.as_of < end

    def is_current(self, found: BaseGraphObject, moment: int) -> bool:
        """Tell whether nothing has ended or replaced a fact by a moment; one that only begins later is current too."""
        if not isinstance(found, Relation):
            return True
        if found.valid_until is not None:
            return found.valid_until >= moment
        # With a moment asked about, what did not hold then is no result.
        return not found.superseded_by or self.as_of is not None

    def is_certain(self, found: BaseGraphObject) -> bool:
        """Tell whether a fact is known to have begun by the moment asked about, not only not known to begin later."""
        if self.as_of is None or not isinstance(found, Relation) or found.valid_since is not None:
            return True
        return found.first_mentioned_at is not None and found.first_mentioned_at <= self.as_of


def parse_moment(moment: datetime | None, name: str) -> int | None:
    """Return a moment that a caller gave as UTC seconds; without an offset it is UTC.

    Raises:
        InvalidInputError: it is no datetime.
    """
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise InvalidInputError(f"{name} is {moment!r}; give a datetime (without an offset it is UTC).")
    return from_datetime(moment).seconds
