"""Expansion along the graph: what the good hits are linked to, one query a hop. Reads the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jiuwen_memory.foundation.store.graph.base import GraphStore, SearchQuery
from jiuwen_memory.foundation.store.graph.constants import ENTITY_COLLECTION, RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Relation
from jiuwen_memory.foundation.store.query import QueryExpr, eq, in_list
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchRequest
from jiuwen_memory.memory_core.graph.graph_memory.searching.pool import Candidate, Pool, Reached, as_pool, ranked

SEED_LIMIT: Final = 20
FRONTIER_LIMIT: Final = 100
EDGE_LIMIT: Final = 500


@dataclass(frozen=True)
class Nomination:
    """A neighbour, what it inherits from the best hit it is linked to, and the step that leads to it."""

    uuid: str
    inherited: float
    reached: Reached


@traced
async def recall_neighbours(request: SearchRequest, pool: Pool, *, store: GraphStore) -> Pool:
    """Return the pool with what is linked to its good hits, `bfs_k` per hop, as far as it fulfils the filter.

    A neighbour scores the higher of its own score for the query and the share of its origin's score that the kind of
    link hands on: half of it along facts.
    """
    config = request.config
    floor = max(config.threshold, config.seed_floor)
    seen = dict(pool)
    frontier = [each for each in ranked(pool)[:SEED_LIMIT] if each.score >= floor]
    reached = {each.uuid for each in frontier}
    for _ in range(config.bfs_depth):
        nominated = await _recall_nominations(request, frontier, store=store)
        ordered = _most_promising(request, [each for each in nominated if each.uuid not in reached], seen)
        missing = [each.uuid for each in ordered if each.uuid not in seen]
        newcomers = {each.uuid: Candidate(each, 0.0) for each in await _read(request, missing, store=store)}
        passing = await _similar_enough(request, ordered, seen | newcomers, store=store)
        frontier = _admitted(request, passing, seen | newcomers)
        seen |= as_pool(frontier)
        reached |= {each.uuid for each in frontier}
        if not frontier:
            break
    return as_pool(ranked(each for each in seen.values() if request.fits(each.found)))


async def _recall_nominations(
    request: SearchRequest, frontier: Sequence[Candidate], *, store: GraphStore
) -> list[Nomination]:
    """Return what one hop reaches, each neighbour once, over the link that hands it the most."""
    ends = _ends(frontier)
    facts = {each.uuid: each for each in frontier if request.collection == RELATION_COLLECTION}
    condition = _touching(list(ends), list(facts))
    if condition is None:
        return []
    edges = await store.query(
        RELATION_COLLECTION, user=request.user, expr=condition, limit=EDGE_LIMIT, output_fields=["lhs", "rhs"]
    )
    best: dict[str, Nomination] = {}
    for edge in edges:
        prior = request.config.kind_priors.get(edge.kind, 0.0) if isinstance(edge, Relation) else 0.0
        if not isinstance(edge, Relation) or not prior:
            continue
        for uuid, origin, reached in _steps(request, edge, ends=ends, facts=facts):
            inherited = prior * origin.score
            if uuid not in best or inherited > best[uuid].inherited:
                best[uuid] = Nomination(uuid, inherited, reached)
    return list(best.values())


def _steps(
    request: SearchRequest, edge: Relation, *, ends: Mapping[str, Candidate], facts: Mapping[str, Candidate]
) -> list[tuple[str, Candidate, Reached]]:
    """Return the neighbours that an edge leads to: (id, best origin, step)."""
    steps: list[tuple[str, Candidate, Reached]] = []
    for end, other, forward in ((edge.lhs, edge.rhs, True), (edge.rhs, edge.lhs, False)):
        if edge.ends == "relation" and end in facts:
            origin = facts[end]
            steps.append((other, origin, Reached(origin.uuid, edge.kind, forward, relation=edge.uuid)))
        elif edge.ends == "entity" and end in ends:
            origin = ends[end]
            is_entity = request.collection == ENTITY_COLLECTION
            step = Reached(origin.uuid, edge.kind, forward, relation=edge.uuid, via="" if is_entity else end)
            steps.append((other if is_entity else edge.uuid, origin, step))
    return steps


def _touching(entities: Sequence[str], facts: Sequence[str]) -> QueryExpr | None:
    """Return the condition that a relation has one of these at an end, or None for nothing to ask."""
    parts = [
        eq("ends", kind) & (in_list("lhs", ids) | in_list("rhs", ids))
        for kind, ids in (("entity", entities), ("relation", facts))
        if ids
    ]
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else parts[0] | parts[1]


def _ends(frontier: Sequence[Candidate]) -> dict[str, Candidate]:
    """Return the entities from which a hop starts, each with the best candidate that it stands for."""
    ends: dict[str, Candidate] = {}
    for each in frontier:
        for end in _entities_of(each.found):
            if end not in ends or each.score > ends[end].score:
                ends[end] = each
    return ends


def _entities_of(found: BaseGraphObject) -> tuple[str, ...]:
    if isinstance(found, Entity):
        return (found.uuid,)
    if isinstance(found, Relation) and found.ends == "entity":
        return (found.lhs, found.rhs)
    return ()


def _most_promising(
    request: SearchRequest, nominated: Sequence[Nomination], seen: Mapping[str, Candidate]
) -> list[Nomination]:
    """Return the neighbours worth a look, best first: more than are wanted where some may be turned away."""
    config = request.config
    may_fail = config.semantic_margin is not None or config.kind_quota or config.filter_expr
    limit = config.prefilter if may_fail else config.bfs_k
    return sorted(nominated, key=lambda each: -_worth(each, seen))[: min(limit, FRONTIER_LIMIT)]


def _worth(nomination: Nomination, seen: Mapping[str, Candidate]) -> float:
    known = seen.get(nomination.uuid)
    return max(nomination.inherited, known.score if known else 0.0)


async def _similar_enough(
    request: SearchRequest, nominated: Sequence[Nomination], known: Mapping[str, Candidate], *, store: GraphStore
) -> list[Nomination]:
    """Return the neighbours that pass the semantic gate; one search tells of those that no channel found."""
    margin = request.config.semantic_margin
    present = [each for each in nominated if each.uuid in known]
    if margin is None or request.vector is None or not present:
        return present
    wanted = dict.fromkeys([each.uuid for each in present] + [each.reached.origin for each in present])
    values = {uuid: known[uuid].channels["content_dense"].score for uuid in wanted if _has_similarity(known.get(uuid))}
    missing = [uuid for uuid in wanted if uuid not in values]
    if missing:
        routes = await store.routes(
            request.collection,
            SearchQuery("", request.vector),
            user=request.user,
            channels=("content_dense",),
            limit=len(missing),
            expr=in_list("uuid", missing),
            output_fields=["uuid"],
        )
        values |= {hit.found.uuid: hit.score for hit in routes.get("content_dense", ())}
    return [
        each
        for each in present
        if each.uuid in values
        and (each.reached.origin not in values or values[each.uuid] >= values[each.reached.origin] - margin)
    ]


def _has_similarity(candidate: Candidate | None) -> bool:
    return candidate is not None and "content_dense" in candidate.channels


def _admitted(
    request: SearchRequest, nominated: Sequence[Nomination], known: Mapping[str, Candidate]
) -> list[Candidate]:
    """Return neighbours up to `bfs_k` that fulfil the filter; those between that do not may lead further."""
    config = request.config
    chosen: list[Candidate] = []
    fitting = 0
    per_kind: Counter[str] = Counter()
    for each in nominated:
        if fitting == config.bfs_k:
            break
        if config.kind_quota and per_kind[each.reached.kind] >= config.kind_quota:
            continue
        per_kind[each.reached.kind] += 1
        before = known[each.uuid]
        chosen.append(_with_inheritance(before, each))
        fitting += request.fits(before.found)
    return chosen


def _with_inheritance(before: Candidate, nomination: Nomination) -> Candidate:
    gained = nomination.inherited - before.score
    if gained <= 0:
        return before
    raised = replace(before.raised("expansion", gained), reached=nomination.reached)
    return raised if before.channels else replace(raised, admitted="expansion")


async def _read(request: SearchRequest, ids: Sequence[str], *, store: GraphStore) -> list[BaseGraphObject]:
    """Return objects by id, facts alone among relations; a filter of the caller's is looked at afterwards."""
    if not ids:
        return []
    return await store.query(
        request.collection,
        user=request.user,
        ids=ids,
        expr=request.standing,
        output_fields=request.working_fields(),
    )
