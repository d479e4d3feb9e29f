"""The ways through the graph that led to results. Reads the names of what lies between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    GRAPH_COLLECTIONS,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Relation
from jiuwen_memory.foundation.store.query import QueryExpr
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.graph.graph_memory.searching.pool import Candidate, Reached, Trail
from jiuwen_memory.memory_core.graph.graph_memory.searching.results import Path, PathNode, PathStep

LABEL_CHARACTERS: Final = 80


@traced
async def recall_paths(
    results: Sequence[Candidate],
    *,
    known: Mapping[str, Candidate],
    whole: Mapping[str, BaseGraphObject],
    trail: Trail,
    user: QueryExpr,
    store: GraphStore,
) -> tuple[Path, ...]:
    """Return for each result that was reached through the graph the way to it, from the hit where it began.

    `known` holds every candidate of the search by id, `trail` what lies between them, so that a way can be followed
    back; `whole` are those that have been read with their texts.
    """
    steps = {**trail.reached, **{uuid: each.reached for uuid, each in known.items()}}
    ways = [way for way in (_way(each.uuid, steps) for each in results) if len(way) > 1]
    if not ways:
        return ()
    kinds = {**trail.kinds, **{uuid: each.found.collection for uuid, each in known.items()}}
    objects = {**{uuid: each.found for uuid, each in known.items()}, **whole}
    objects |= await _recall_named(ways, kinds, objects, whole=whole, user=user, store=store)
    paths = [_path(way, objects) for way in ways]
    return tuple(dict.fromkeys(path for path in paths if path is not None))


Way = list[tuple[str, Reached | None]]
"""Ids from the seed to the result, each with the step that led to it."""


def _way(result: str, steps: Mapping[str, Reached | None]) -> Way:
    way: Way = []
    at: str | None = result
    while at is not None and all(at != uuid for uuid, _ in way):
        step = steps.get(at)
        way.append((at, step))
        at = step.origin if step else None
    return way[::-1]


async def _recall_named(
    ways: Sequence[Way],
    kinds: Mapping[str, str],
    objects: Mapping[str, BaseGraphObject],
    *,
    whole: Mapping[str, BaseGraphObject],
    user: QueryExpr,
    store: GraphStore,
) -> dict[str, BaseGraphObject]:
    """Read what paths name: facts and texts along the ways first, then the entities, those at the ends of facts too."""

    async def read(collection: str, ids: Iterable[str], field: str) -> dict[str, BaseGraphObject]:
        wanted = dict.fromkeys(ids)
        missing = [uuid for uuid in wanted if uuid not in whole]
        there = {uuid: whole[uuid] for uuid in wanted if uuid in whole}
        if not missing:
            return there
        rows = await store.query(collection, user=user, ids=missing, output_fields=[field])
        return there | {each.uuid: each for each in rows}

    passed = dict.fromkeys(uuid for way in ways for uuid, _ in way)
    gone_along = [reached.relation for way in ways for _, reached in way if reached and reached.relation]
    by_kind = {kind: [uuid for uuid in passed if kinds.get(uuid) == kind] for kind in GRAPH_COLLECTIONS}
    relations, episodes = await together(
        read(RELATION_COLLECTION, [*by_kind[RELATION_COLLECTION], *gone_along], "content"),
        read(EPISODE_COLLECTION, by_kind[EPISODE_COLLECTION], "content"),
    )
    ends = [end for each in relations.values() if isinstance(each, Relation) for end in (each.lhs, each.rhs)]
    entities = [*by_kind[ENTITY_COLLECTION], *(end for end in ends if end not in relations)]
    unknown = [uuid for uuid in entities if uuid not in objects]
    return relations | episodes | await read(ENTITY_COLLECTION, unknown, "name")


def _path(way: Way, objects: Mapping[str, BaseGraphObject]) -> Path | None:
    """Return a way as nodes and steps; facts that share ends become the steps between their entities."""
    facts = [each for each in (objects.get(uuid) for uuid, _ in way) if isinstance(each, Relation)]
    joints = [reached.via for _, reached in way[1:] if reached]
    if len(facts) == len(way) and all(joints):
        ends, steps = _along_facts(facts, joints[0])
    else:
        way = _without_inner_facts(way, objects)
        ends = [uuid for uuid, _ in way]
        steps = [_step(reached, objects) for _, reached in way[1:] if reached]
    nodes = [_node(objects[uuid]) for uuid in ends if uuid in objects]
    return Path(tuple(nodes), tuple(steps)) if len(nodes) == len(ends) else None


def _without_inner_facts(way: Way, objects: Mapping[str, BaseGraphObject]) -> Way:
    """Return a way on which a fact between two entities is the step between them, not a node."""
    kept: Way = []
    for place, (uuid, reached) in enumerate(way):
        around = [objects.get(way[at][0]) for at in (place - 1, place + 1) if 0 <= at < len(way)]
        is_inner = len(around) == 2 and all(isinstance(each, Entity) for each in around)
        if not (is_inner and isinstance(objects.get(uuid), Relation)):
            kept.append((uuid, reached))
    return kept


def _along_facts(facts: Sequence[Relation], joint: str) -> tuple[list[str], list[PathStep]]:
    at = _other(facts[0], joint)
    ends = [at]
    steps: list[PathStep] = []
    for fact in facts:
        steps.append(PathStep(fact.kind, fact.name, at == fact.lhs, fact.uuid))
        at = _other(fact, at)
        ends.append(at)
    return ends, steps


def _other(relation: Relation, end: str) -> str:
    return relation.rhs if end == relation.lhs else relation.lhs


def _step(reached: Reached, objects: Mapping[str, BaseGraphObject]) -> PathStep:
    relation = objects.get(reached.relation)
    name = relation.name if isinstance(relation, Relation) and relation.name else reached.kind
    return PathStep(reached.kind, name, reached.forward, reached.relation)


def _node(found: BaseGraphObject) -> PathNode:
    label = found.name if isinstance(found, Entity) else (found.content or getattr(found, "name", ""))
    return PathNode(found.collection, found.uuid, label[:LABEL_CHARACTERS])
