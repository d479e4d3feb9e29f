"""Support among candidates: what is linked to good hits is likely to be good. Reads edges between entities."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Final

from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.constants import ENTITY_COLLECTION, RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import Episode, Relation
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchRequest
from jiuwen_memory.memory_core.graph.graph_memory.searching.pool import Candidate, Pool, as_pool, ranked
from jiuwen_memory.memory_core.graph.graph_memory.searching.reading import recall_between

SUPPORTED: Final = 50
"""Candidates that support each other: the best ones."""

Edges = Mapping[tuple[str, str], float]
"""Pairs of candidates with the prior of what links them, each pair once."""


@traced
async def recall_support(request: SearchRequest, pool: Pool, *, store: GraphStore) -> Pool:
    """Return the pool with support propagated among its best candidates; nothing joins.

    As Hy-Memory has it: support(v) = sum over neighbours u of prior(u, v) * score(u) / sqrt(degree(v)), and the score
    of v rises by `support` times that, `support_cap` at most; `support_rounds` times.
    """
    config = request.config
    best = ranked(pool)[:SUPPORTED]
    edges = await _recall_edges(request, best, store=store)
    if not edges:
        return pool
    neighbours: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for (one, other), prior in edges.items():
        neighbours[one].append((other, prior))
        neighbours[other].append((one, prior))
    highest = request.highest
    scores = {each.uuid: each.score / highest for each in best}
    start = dict(scores)
    for _ in range(config.support_rounds):
        scores = {
            uuid: start[uuid] + config.support * min(_support(neighbours[uuid], scores), config.support_cap)
            for uuid in scores
        }
    raised = {uuid: pool[uuid].raised("support", (scores[uuid] - start[uuid]) * highest) for uuid in scores}
    return as_pool(ranked({**pool, **raised}))


def _support(neighbours: Sequence[tuple[str, float]], scores: Mapping[str, float]) -> float:
    if not neighbours:
        return 0.0
    return sum(prior * scores[uuid] for uuid, prior in neighbours) / math.sqrt(len(neighbours))


async def _recall_edges(request: SearchRequest, best: Sequence[Candidate], *, store: GraphStore) -> Edges:
    if request.collection == ENTITY_COLLECTION:
        return await _recall_facts(request, best, store=store)
    priors = request.config.kind_priors
    if request.collection == RELATION_COLLECTION:
        shared = {each.uuid: _ends(each) for each in best}
        return _shared(shared, priors.get("fact", 0.0))
    entities = {each.uuid: each.found.entities if isinstance(each.found, Episode) else [] for each in best}
    edges = dict(_shared(entities, priors.get("co_occurs", 0.0)))
    for pair in _consecutive(best):
        edges[pair] = max(edges.get(pair, 0.0), priors.get("temporal_next", 0.0))
    return {pair: prior for pair, prior in edges.items() if prior}


async def _recall_facts(request: SearchRequest, best: Sequence[Candidate], *, store: GraphStore) -> Edges:
    """Return the entities among the candidates that a relation links, by one query."""
    ids = [each.uuid for each in best]
    if len(ids) < 2:
        return {}
    edges: dict[tuple[str, str], float] = {}
    for each in await recall_between(request, ids, store=store):
        if each.lhs != each.rhs:
            pair = (min(each.lhs, each.rhs), max(each.lhs, each.rhs))
            edges[pair] = max(edges.get(pair, 0.0), request.config.kind_priors.get(each.kind, 0.0))
    return {pair: prior for pair, prior in edges.items() if prior}


def _ends(candidate: Candidate) -> list[str]:
    found = candidate.found
    return [found.lhs, found.rhs] if isinstance(found, Relation) and found.ends == "entity" else []


def _shared(items: Mapping[str, Sequence[str]], prior: float) -> Edges:
    """Return the pairs of objects that have an item in common."""
    if not prior:
        return {}
    holders: dict[str, list[str]] = defaultdict(list)
    for uuid, held in items.items():
        for item in dict.fromkeys(held):
            holders[item].append(uuid)
    pairs = (pair for group in holders.values() for pair in combinations(sorted(group), 2))
    return dict.fromkeys(pairs, prior)


def _consecutive(best: Sequence[Candidate]) -> list[tuple[str, str]]:
    """Return the pairs of episodes that follow each other among the candidates of one session."""
    sessions: dict[tuple[str, str], list[Episode]] = defaultdict(list)
    for each in best:
        if isinstance(each.found, Episode) and each.found.session_id:
            sessions[each.found.user_id, each.found.session_id].append(each.found)
    pairs: list[tuple[str, str]] = []
    for line in sessions.values():
        in_order = sorted(line, key=lambda each: (each.valid_since or 0, each.created_at, each.part))
        pairs += [(min(a.uuid, b.uuid), max(a.uuid, b.uuid)) for a, b in pairwise(in_order)]
    return pairs
