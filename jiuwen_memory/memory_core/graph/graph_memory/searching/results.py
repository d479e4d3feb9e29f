"""What a search returns: the hits, the paths between them, and why each came back. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.foundation.store.graph.result_ranking import Channel
from jiuwen_memory.memory_core.graph.graph_memory.searching.pool import Admission, ChannelHit


@dataclass(frozen=True)
class PathNode:
    """A place on a path: an object of a collection; `label` is its name, or the beginning of its text."""

    collection: str
    uuid: str
    label: str


@dataclass(frozen=True)
class PathStep:
    """A way from one node to the next: the kind of link, the fact's name, and whether it leads along the arrow.

    `forward` means from `lhs` to `rhs` of a relation, and from earlier to later between episodes. `relation` is empty
    where the step is no stored relation.
    """

    kind: str
    name: str
    forward: bool
    relation: str = ""


@dataclass(frozen=True)
class Path:
    """How something was reached: nodes in order, and the step between each two of them."""

    nodes: tuple[PathNode, ...]
    steps: tuple[PathStep, ...]

    def __str__(self) -> str:
        written = self.nodes[0].label
        for step, node in zip(self.steps, self.nodes[1:], strict=True):
            arrow = f"-[{step.name}]->" if step.forward else f"<-[{step.name}]-"
            written += f" {arrow} {node.label}"
        return written


@dataclass(frozen=True)
class HitDiagnostics:
    """Why a result is there: where each channel put it, what they gave together, what the graph added."""

    score: float
    fused: float
    channels: Mapping[Channel, ChannelHit]
    signals: Mapping[str, float]
    admitted: Admission


@dataclass(frozen=True)
class CollectionDiagnostics:
    """One collection's search: how many hits each channel brought, how many candidates came in, and each result."""

    found: Mapping[Channel, int]
    admissions: Mapping[Admission, int]
    hits: Mapping[str, HitDiagnostics]


@dataclass(frozen=True)
class SearchDiagnostics:
    """What a search did.

    Args:
        strategy: its name.
        embedded: the texts whose vectors were used; none if no vector was made.
        collections: by name of the collection.
        milliseconds: on the clock, by part of the search; parts may overlap.
        problems: parts that failed and were left out.
    """

    strategy: str
    embedded: tuple[str, ...] = ()
    collections: Mapping[str, CollectionDiagnostics] = field(default_factory=dict)
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


class SearchResult(dict[str, list[tuple[float, BaseGraphObject]]]):
    """The (score, object) pairs of each collection, best first, with the paths that led there and diagnostics."""

    def __init__(
        self,
        found: Mapping[str, list[tuple[float, BaseGraphObject]]],
        *,
        paths: tuple[Path, ...] = (),
        diagnostics: SearchDiagnostics,
    ) -> None:
        super().__init__(found)
        self.paths = paths
        self.diagnostics = diagnostics
