"""When a fact was told, and since when each telling says it holds: what its periods are made of. Values in, values out.

A stored fact lists the episodes that told it. `extra["dated"]` keeps, of a fact told more than once, the beginning that
each of them stated, so that a fact can be parted when it turns out to have ended in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from pydantic import JsonValue

from jiuwen_memory.foundation.store.graph.graph_object import Episode, Precision, Relation
from jiuwen_memory.foundation.timepoint import Timepoint
from jiuwen_memory.memory_core.graph.graph_memory.fusing import LABELS_KEPT, folded, newest

DATED: Final = "dated"
_PRECISIONS: Final[tuple[Precision, ...]] = get_args(Precision)
_DATE_PARTS: Final = 3


@dataclass(frozen=True)
class Telling:
    """One episode's word for a fact: when it was said (UTC seconds), and since when the fact holds, if it says so."""

    episode: str
    said: int | None
    since: Timepoint | None = None

    @property
    def moment(self) -> int:
        """Where the telling stands in time: the beginning that it states, or else when it was said."""
        return self.since.seconds if self.since else self.said or 0


def tellings_of(relation: Relation, episodes: Mapping[str, Episode]) -> list[Telling]:
    """Return the tellings of a fact in the order of time, gists left out.

    `episodes` need only hold those of facts that rest on more than one.
    """
    dated = _dated(relation)
    if len(relation.episodes) == 1:
        (only,) = relation.episodes
        return [Telling(only, relation.first_mentioned_at, dated.get(only))]
    found = [
        Telling(uuid, episodes[uuid].valid_since if uuid in episodes else relation.first_mentioned_at, dated.get(uuid))
        for uuid in relation.episodes
        if uuid not in episodes or not episodes[uuid].is_gist
    ]
    return sorted(found, key=lambda each: each.moment)


def order(first: Telling, second: Telling) -> Literal[-1, 0, 1]:
    """Return -1, 0 or 1: the first is earlier, neither is, the first is later.

    By the beginnings if both state one and they differ, otherwise by when they were said.
    """
    pairs = [(first.said, second.said)]
    if first.since and second.since:
        pairs.insert(0, (first.since.seconds, second.since.seconds))
    for one, other in pairs:
        if one is not None and other is not None and one != other:
            return -1 if one < other else 1
    return 0


def parted(stored: Sequence[Telling], rival: Telling) -> tuple[list[Telling], list[Telling]]:
    """Return the tellings of a stored fact before what contradicts it, and those after it; ties are before.

    What is told after a telling that is after it is so too.
    """
    start = next((place for place, each in enumerate(stored) if order(each, rival) > 0), len(stored))
    return list(stored[:start]), list(stored[start:])


def with_tellings(relation: Relation, kept: Sequence[Telling], episodes: Mapping[str, Episode]) -> Relation:
    """Return a fact that rests on these of its tellings alone: their episodes, sources, times and beginning."""
    uuids = [each.episode for each in kept]
    said = [each.said for each in kept if each.said is not None]
    dated = {each.episode: each.since for each in kept if each.since}
    lost = len(relation.episodes) - len(uuids)
    sources = [episodes[uuid].source for uuid in uuids if uuid in episodes]
    return relation.revise(
        episodes=[uuid for uuid in relation.episodes if uuid in uuids],
        sources=newest(sources, LABELS_KEPT),
        mention_count=max(relation.mention_count - lost, len(uuids), 1),
        first_mentioned_at=min(said, default=relation.first_mentioned_at),
        last_mentioned_at=max(said, default=relation.last_mentioned_at),
        **_beginning(relation, dated),
    )


def told_again(stored: Relation, new: Relation) -> Relation:
    """Return a stored fact with one more telling: counted, and with the earliest beginning that any telling states."""
    dated = {**_dated(new), **_dated(stored)}
    union = folded(stored, new)
    return union.revise(**_beginning(union, dated)) if dated else union


def without_tellings(relation: Relation, gone: Sequence[str]) -> dict[str, object]:
    """Return what changes in a fact's beginning when episodes go; nothing if none is known to have dated it."""
    if DATED not in relation.extra:
        return {}
    dated = _dated(relation)
    if dated.keys().isdisjoint(gone):
        return {}
    return _beginning(relation, {uuid: since for uuid, since in dated.items() if uuid not in gone})


def _dated(relation: Relation) -> dict[str, Timepoint]:
    """Return the beginnings that the episodes of a fact stated; one told once states what the fact says."""
    record = relation.extra.get(DATED)
    if isinstance(record, dict):
        read = {uuid: _point(parts) for uuid, parts in record.items()}
        return {uuid: point for uuid, point in read.items() if point}
    if relation.valid_since is None or not relation.episodes:
        return {}
    since = Timepoint(relation.valid_since, relation.offset_since, relation.precision_since or "second")
    return {relation.episodes[0]: since}


def _point(parts: JsonValue) -> Timepoint | None:
    # Numbers, not words: the names of precisions are words of the language, which a deletion may have to look for.
    if not isinstance(parts, list) or len(parts) != _DATE_PARTS:
        return None
    seconds, offset, precision = (each if isinstance(each, int) else 0 for each in parts)
    return Timepoint(seconds, offset, _PRECISIONS[min(max(precision, 0), len(_PRECISIONS) - 1)])


def _beginning(relation: Relation, dated: Mapping[str, Timepoint]) -> dict[str, object]:
    """Return the fields that follow from the beginnings stated: the earliest, as exactly as one inside it says it."""
    kept = dict(list(dated.items())[-LABELS_KEPT:])
    record = {
        uuid: [point.seconds, point.offset_minutes, _PRECISIONS.index(point.precision)] for uuid, point in kept.items()
    }
    others = {name: value for name, value in relation.extra.items() if name != DATED}
    extra = {**others, DATED: record} if kept else others
    if not dated:
        return {"valid_since": None, "offset_since": 0, "precision_since": None, "extra": extra}
    first = min(dated.values(), key=lambda each: (each.seconds, _PRECISIONS.index(each.precision)))
    end = first.last_second().seconds
    inside = [each for each in dated.values() if each.last_second().seconds <= end]
    best = min(inside, key=lambda each: (_PRECISIONS.index(each.precision), each.seconds))
    return {
        "valid_since": best.seconds,
        "offset_since": best.offset_minutes,
        "precision_since": best.precision,
        "extra": extra,
    }
