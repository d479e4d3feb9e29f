"""The candidates of one collection: what was found, how good it is, and why it is there. Plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from jiuwen_memory.foundation.store.graph.base import Hit
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.foundation.store.graph.result_ranking import Channel

Admission = Literal["channels", "expansion", "spine", "pagerank"]


@dataclass(frozen=True)
class ChannelHit:
    """Where a channel put a candidate (from 1), and its score there: a cosine, a dot product, BM25, ..."""

    rank: int
    score: float


@dataclass(frozen=True)
class Reached:
    """One step through the graph: where it came from, over what, and whether along the arrow (earlier to later).

    `relation` is the id of the fact or link gone along, empty for an edge that is no relation. `via` is the entity at
    which two facts meet.
    """

    origin: str
    kind: str
    forward: bool
    relation: str = ""
    via: str = ""


@dataclass(frozen=True)
class Candidate:
    """An object with its score; `fused` is what the channels gave, `signals` what the graph added to it."""

    found: BaseGraphObject
    score: float
    fused: float = 0.0
    channels: Mapping[Channel, ChannelHit] = field(default_factory=dict)
    signals: Mapping[str, float] = field(default_factory=dict)
    admitted: Admission = "channels"
    reached: Reached | None = None

    @property
    def uuid(self) -> str:
        """The object's id."""
        return self.found.uuid

    @property
    def hit(self) -> Hit:
        """The object and its score alone."""
        return Hit(self.score, self.found)

    def raised(self, signal: str, amount: float) -> Candidate:
        """Return the candidate with a signal's amount added to its score; zero leaves it as it is."""
        if not amount:
            return self
        signals = {**self.signals, signal: self.signals.get(signal, 0.0) + amount}
        return replace(self, score=self.score + amount, signals=signals)


@dataclass(frozen=True)
class Trail:
    """What lies between candidates and is none: the collection of each node by id, and the step that led to it."""

    kinds: Mapping[str, str] = field(default_factory=dict)
    reached: Mapping[str, Reached] = field(default_factory=dict)


Pool = Mapping[str, Candidate]
"""The candidates of one collection by id."""


def ranked(pool: Pool | Iterable[Candidate]) -> list[Candidate]:
    """Return candidates best first; equal scores keep their order."""
    candidates = pool.values() if isinstance(pool, Mapping) else pool
    return sorted(candidates, key=lambda each: -each.score)


def as_pool(candidates: Iterable[Candidate]) -> dict[str, Candidate]:
    """Return candidates by id, in their order."""
    return {each.uuid: each for each in candidates}
