"""What the functions of this package tell: how far they are, and what they did. Pure values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """How many of how many objects are done."""

    done: int
    total: int


OnProgress = Callable[[Progress], None]
"""Called in the event loop, after each page of objects; keep it short."""


@dataclass(frozen=True)
class ExportReport:
    """What was written: objects by collection, and the SHA-256 of the object lines.

    Two exports of one graph have the same `graph_sha256`, whoever owns it and wherever it is stored.
    """

    user_id: str
    counts: Mapping[str, int]
    graph_sha256: str

    @property
    def total(self) -> int:
        """All objects."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class ImportReport:
    """What an import did for one user: objects that are new, that took the place of others, that were there already.

    `warnings` tells what could not be taken over as it was.
    """

    user_id: str
    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """All objects that were looked at."""
        return self.added + self.replaced + self.unchanged


@dataclass(frozen=True)
class StoreReport:
    """What the import of a whole store did, user by user."""

    users: Mapping[str, ImportReport] = field(default_factory=dict)

    @property
    def added(self) -> int:
        """New objects of all users."""
        return sum(each.added for each in self.users.values())

    @property
    def unchanged(self) -> int:
        """Objects of all users that were there already."""
        return sum(each.unchanged for each in self.users.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all users."""
        return tuple(warning for each in self.users.values() for warning in each.warnings)
