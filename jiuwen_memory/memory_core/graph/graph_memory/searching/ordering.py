"""The order of results whose scores are final: what holds now comes first. Pure functions; touches nothing."""

from __future__ import annotations

from collections.abc import Sequence

from jiuwen_memory.foundation.store.graph.base import Hit
from jiuwen_memory.foundation.store.graph.constants import ENTITY_COLLECTION, EPISODE_COLLECTION, RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation
from jiuwen_memory.memory_core.graph.graph_memory.searching.times import AskedTime


def successors_first(hits: Sequence[Hit]) -> list[Hit]:
    """Let what superseded a fact come before it, so that the old one never takes the new one's place."""
    by_id = {hit.found.uuid: hit for hit in hits}
    ordered: dict[str, Hit] = {}
    begun: set[str] = set()
    # A stack rather than a function that calls itself: a fact may have been replaced a thousand times.
    stack = list(reversed(hits))
    while stack:
        found = stack[-1].found
        replaced_by = found.superseded_by if isinstance(found, Relation) and found.uuid not in begun else []
        begun.add(found.uuid)
        later = [by_id[uuid] for uuid in reversed(replaced_by) if uuid in by_id and uuid not in begun]
        stack += later
        if not later:
            ordered.setdefault(found.uuid, stack.pop())
    return list(ordered.values())


def current_first(hits: Sequence[Hit], time: AskedTime) -> list[Hit]:
    """Put facts that hold at the moment asked about before those that do not, or may not have begun, each by score."""
    moment = time.present
    return sorted(
        hits,
        key=lambda hit: (not (time.is_current(hit.found, moment) and time.is_certain(hit.found)), -hit.score),
    )


def by_time(hits: Sequence[Hit]) -> list[Hit]:
    """Put what was said or began earlier before what came later."""
    return sorted(hits, key=lambda hit: time_of(hit.found))


def time_of(found: BaseGraphObject) -> int:
    """Return when something was said or began, in UTC seconds; when it was learnt, if that is all that is known."""
    if isinstance(found, Episode | Relation) and found.valid_since is not None:
        return found.valid_since
    if isinstance(found, Entity | Relation) and found.last_mentioned_at is not None:
        return found.last_mentioned_at
    return found.created_at


def time_fields(collection: str) -> tuple[str, ...]:
    """Return the columns that `time_of` looks at, beside `created_at`, which every object has."""
    return {
        ENTITY_COLLECTION: ("last_mentioned_at",),
        RELATION_COLLECTION: ("valid_since", "last_mentioned_at"),
        EPISODE_COLLECTION: ("valid_since",),
    }[collection]
