"""Expansion along the graph: what the good hits are linked to, a hop at a time. Reads the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.store.graph.base import GraphStore, SearchQuery
from jiuwen_memory.foundation.store.graph.constants import ENTITY_COLLECTION, RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, EndKind, Entity, Relation
from jiuwen_memory.foundation.store.query import in_list
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchRequest
from jiuwen_memory.memory_core.graph.graph_memory.searching.pool import Candidate, Pool, Reached, as_pool, ranked
from jiuwen_memory.memory_core.graph.graph_memory.searching.reading import EDGE_LIMIT, recall_listed, recall_touching

SEED_LIMIT: Final = 20
FRONTIER_LIMIT: Final = 100


@dataclass(frozen=True)
class Nomination:
    """A neighbour, what it inherits from the best hit it is linked to, and the step that leads to it."""

    uuid: str
    inherited: float
    reached: Reached


@dataclass(frozen=True)
class _Expansion:
    """How far the expansion of one collection has come: all candidates, and those from which the next hop starts."""

    request: SearchRequest
    seen: Mapping[str, Candidate]
    frontier: Sequence[Candidate]
    reached: frozenset[str]

    @property
    def ends(self) -> dict[str, Candidate]:
        """The entities from which the next hop starts, each with the best candidate that it stands for."""
        ends: dict[str, Candidate] = {}
        for each in self.frontier:
            for end in _entities_of(each.found):
                if end not in ends or each.score > ends[end].score:
                    ends[end] = each
        return ends

    @property
    def facts(self) -> dict[str, Candidate]:
        """The facts from which links to other facts start."""
        return {each.uuid: each for each in self.frontier if self.request.collection == RELATION_COLLECTION}


@traced
async def recall_neighbours(
    requests: Sequence[SearchRequest], pools: Sequence[Pool], *, store: GraphStore
) -> list[Pool]:
    """Return the pools with what is linked to their good hits, `bfs_k` per hop, as far as it fulfils the filter.

    A neighbour scores the higher of its own score for the query and the share of its origin's score that the kind of
    link hands on: half of it along facts. One query reads the links of a hop, those of all collections.
    """
    expansions = [_begun(request, pool) for request, pool in zip(requests, pools, strict=True)]
    for hop in range(max(each.request.config.bfs_depth for each in expansions)):
        going = {place: each for place, each in enumerate(expansions) if _goes_on(each, hop)}
        if not going:
            break
        links = await _recall_touching(list(going.values()), store=store)
        grown = await together(*(_grown(each, links, store=store) for each in going.values()))
        for place, each in zip(going, grown, strict=True):
            expansions[place] = each
    return [
        as_pool(ranked(one for one in each.seen.values() if each.request.fits(one))) if each.request.expands else pool
        for each, pool in zip(expansions, pools, strict=True)
    ]


def _begun(request: SearchRequest, pool: Pool) -> _Expansion:
    floor = max(request.config.threshold, request.config.seed_floor)
    frontier = [each for each in ranked(pool)[:SEED_LIMIT] if each.score >= floor] if request.expands else []
    return _Expansion(request, pool, frontier, frozenset(each.uuid for each in frontier))


def _goes_on(each: _Expansion, hop: int) -> bool:
    return hop < each.request.config.bfs_depth and bool(each.ends or each.facts)


async def _grown(each: _Expansion, links: Sequence[Relation], *, store: GraphStore) -> _Expansion:
    """Return the expansion after one hop."""
    request, seen = each.request, each.seen
    nominated = [one for one in _nominations(each, links) if one.uuid not in each.reached]
    ordered = _most_promising(request, nominated, seen)
    missing = [one.uuid for one in ordered if one.uuid not in seen]
    # Facts alone among relations; a filter of the caller's is looked at afterwards, for who fails it may lead further.
    newcomers = await recall_listed(request, missing, expr=request.standing, store=store)
    known = {**seen, **{one.uuid: Candidate(one, 0.0) for one in newcomers}}
    passing = await _similar_enough(request, ordered, known, store=store)
    frontier = _admitted(request, passing, known)
    joined = {**seen, **as_pool(frontier)}
    return _Expansion(request, joined, frontier, each.reached | {one.uuid for one in frontier})


async def _recall_touching(expansions: Sequence[_Expansion], *, store: GraphStore) -> list[Relation]:
    """Return the links at what the next hop starts from."""
    ends: dict[EndKind, dict[str, None]] = {
        "entity": dict.fromkeys(end for each in expansions for end in each.ends),
        "relation": dict.fromkeys(fact for each in expansions for fact in each.facts),
    }
    # Where something was learnt, and when, is the same for all collections of a search.
    return await recall_touching(expansions[0].request, ends, store=store, limit=EDGE_LIMIT * len(expansions))


def _nominations(expansion: _Expansion, links: Sequence[Relation]) -> list[Nomination]:
    """Return what one hop reaches, each neighbour once, over the link that hands it the most."""
    request, ends, facts = expansion.request, expansion.ends, expansion.facts
    best: dict[str, Nomination] = {}
    for link in links:
        prior = request.config.kind_priors.get(link.kind, 0.0)
        if not prior:
            continue
        for uuid, origin, reached in _steps(request, link, ends=ends, facts=facts):
            inherited = prior * origin.score
            if uuid not in best or inherited > best[uuid].inherited:
                best[uuid] = Nomination(uuid, inherited, reached)
    return list(best.values())


def _steps(
    request: SearchRequest, edge: Relation, *, ends: Mapping[str, Candidate], facts: Mapping[str, Candidate]
) -> list[tuple[str, Candidate, Reached]]:
    """Return the neighbours that an edge leads to: (id, best origin, step)."""
    steps: list[tuple[str, Candidate, Reached]] = []
    is_entity = request.collection == ENTITY_COLLECTION
    for end, other, forward in ((edge.lhs, edge.rhs, True), (edge.rhs, edge.lhs, False)):
        if edge.ends == "relation" and end in facts:
            origin = facts[end]
            steps.append((other, origin, Reached(origin.uuid, edge.kind, forward, relation=edge.uuid)))
        elif edge.ends == "entity" and end in ends and (is_entity or edge.kind == "fact" or not request.facts_alone):
            origin = ends[end]
            step = Reached(origin.uuid, edge.kind, forward, relation=edge.uuid, via="" if is_entity else end)
            steps.append((other if is_entity else edge.uuid, origin, step))
    return steps


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
    may_fail = config.semantic_margin is not None or config.kind_quota or request.narrows
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
        fitting += request.fits(before)
    return chosen


def _with_inheritance(before: Candidate, nomination: Nomination) -> Candidate:
    gained = nomination.inherited - before.score
    if gained <= 0:
        return before
    raised = replace(before.raised("expansion", gained), reached=nomination.reached)
    return raised if before.channels else replace(raised, admitted="expansion")
