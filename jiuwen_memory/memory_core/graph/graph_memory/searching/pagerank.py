"""A personalised PageRank over what lies around the hits of all collections. Reads the store; rustworkx does the sums.

The walk starts at the hits, each as often as it is good, and goes along facts, from episodes to what they tell of and
back, so that what many hits lead to rises, over several steps, whether the query's words are in it or not (as HippoRAG,
Gutiérrez et al. 2024, and REMem do over whole graphs; here over a bounded neighbourhood).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from jiuwen_memory.errors import InvalidInputError, MissingExtraError
from jiuwen_memory.foundation.concurrency import off_loop, together
from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.constants import ENTITY_COLLECTION, EPISODE_COLLECTION, RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation
from jiuwen_memory.foundation.store.query import eq
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchRequest
from jiuwen_memory.memory_core.graph.graph_memory.searching.pool import Candidate, Pool, Reached, Trail, as_pool, ranked
from jiuwen_memory.memory_core.graph.graph_memory.searching.reading import recall_listed, recall_touching

SEED_LIMIT: Final = 20
HOPS: Final = 2
FRONTIER_LIMIT: Final = 100
EPISODES_PER_FACT: Final = 5
ADMITTED: Final = 50
"""Newcomers per collection: the nodes on which the walk is found most often."""
EVIDENCE: Final = "mentions"
"""The kind of a step between an episode and what it tells of."""


@dataclass
class Neighbourhood:
    """The nodes around the hits by id, with the collection of each, and the edges between them."""

    kinds: dict[str, str] = field(default_factory=dict)
    edges: set[tuple[str, str]] = field(default_factory=set)
    reached: dict[str, Reached] = field(default_factory=dict)

    def link(self, one: str, other: str, *, kind: str, relation: str = "", forward: bool = True) -> None:
        """Add an edge of the walk, in both directions; the first way to a node is the one that is told."""
        if one == other:
            return
        self.edges.add((min(one, other), max(one, other)))
        if one in self.kinds and other not in self.kinds:
            self.reached[other] = Reached(one, kind, forward, relation=relation)


@traced
async def recall_associations(
    requests: Sequence[SearchRequest], pools: Sequence[Pool], *, store: GraphStore
) -> tuple[list[Pool], Trail]:
    """Return the pools with the walk's share added and the most visited others in them, and the trail it left.

    Raises:
        MissingExtraError: the extra `graph` is not installed.
    """
    seeds = _seeds(requests, pools)
    if not seeds:
        return list(pools), Trail()
    around = await _recall_neighbourhood(requests[0], seeds, store=store)
    damping = max(request.config.pagerank_damping for request in requests if request.config.pagerank)
    visits = await off_loop(None, _walk, around, {each.uuid: each.score for each in seeds}, damping=damping)
    walked = await together(
        *(_visited(request, pool, around, visits, store=store) for request, pool in zip(requests, pools, strict=True))
    )
    return list(walked), Trail(around.kinds, around.reached)


def _seeds(requests: Sequence[SearchRequest], pools: Sequence[Pool]) -> list[Candidate]:
    """Return the best candidates of each collection, their scores as shares of the highest."""
    return [
        replace(each, score=each.score / request.highest)
        for request, pool in zip(requests, pools, strict=True)
        for each in ranked(pool)[:SEED_LIMIT]
        if each.score > max(0.0, request.config.seed_floor)
    ]


async def _recall_neighbourhood(
    request: SearchRequest, seeds: Sequence[Candidate], *, store: GraphStore
) -> Neighbourhood:
    """Return what lies within two hops; where and when it was learnt is asked alike by all requests of a search."""
    around = Neighbourhood({each.uuid: each.found.collection for each in seeds})
    frontier: dict[str, None] = {}
    for each in seeds:
        for entity in _join(around, each.found):
            around.kinds.setdefault(entity, ENTITY_COLLECTION)
            frontier.setdefault(entity)
    visited: set[str] = set()
    for _ in range(HOPS):
        ends = list(frontier)[:FRONTIER_LIMIT]
        if not ends:
            break
        visited |= set(ends)
        facts = await recall_touching(
            request, {"entity": ends}, store=store, expr=eq("kind", "fact"), fields=["episodes"]
        )
        frontier = dict.fromkeys(end for each in facts for end in _join_fact(around, each) if end not in visited)
    return around


def _join(around: Neighbourhood, found: BaseGraphObject) -> list[str]:
    """Link a hit with the entities it names, and return these."""
    if isinstance(found, Entity):
        return [found.uuid]
    if isinstance(found, Relation):
        return _join_fact(around, found)
    entities = found.entities if isinstance(found, Episode) else []
    for entity in entities:
        around.link(found.uuid, entity, kind=EVIDENCE)
    return list(entities)


def _join_fact(around: Neighbourhood, fact: Relation) -> list[str]:
    """Link a fact with its ends and its episodes, and return the ends."""
    if fact.ends != "entity":
        return []
    known = [end for end in (fact.lhs, fact.rhs) if end in around.kinds]
    for end in [*known, *(end for end in (fact.lhs, fact.rhs) if end not in known)]:
        _join_end(around, fact, end)
    for episode in fact.episodes[-EPISODES_PER_FACT:]:
        around.link(fact.uuid, episode, kind=EVIDENCE, forward=False)
        around.kinds.setdefault(episode, EPISODE_COLLECTION)
    return [fact.lhs, fact.rhs]


def _join_end(around: Neighbourhood, fact: Relation, end: str) -> None:
    is_start = end == fact.lhs
    if end in around.kinds:
        around.link(end, fact.uuid, kind=fact.kind, relation=fact.uuid, forward=is_start)
    else:
        around.link(fact.uuid, end, kind=fact.kind, relation=fact.uuid, forward=not is_start)
    around.kinds.setdefault(fact.uuid, RELATION_COLLECTION)
    around.kinds.setdefault(end, ENTITY_COLLECTION)


def _walk(around: Neighbourhood, starts: Mapping[str, float], *, damping: float) -> dict[str, float]:
    """Return how often the walk is at each node."""
    try:
        import rustworkx
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "SearchConfig.pagerank, and with it the strategy `associative`, needs a graph library that is not "
            'installed: pip install "jiuwen-graph-memory[graph]"'
        ) from error
    nodes = sorted(set(around.kinds) | set(starts) | {end for edge in around.edges for end in edge})
    graph = rustworkx.PyDiGraph(multigraph=False)
    places = dict(zip(nodes, graph.add_nodes_from(nodes), strict=True))
    ends = [(places[one], places[other]) for one, other in sorted(around.edges)]
    graph.add_edges_from([edge for one, other in ends for edge in ((one, other, 1.0), (other, one, 1.0))])
    start = {places[uuid]: score for uuid, score in starts.items() if score > 0}
    try:
        visits = rustworkx.pagerank(graph, alpha=damping, weight_fn=float, personalization=start)
    except rustworkx.FailedToConverge as error:
        raise InvalidInputError(
            f"The walk with pagerank_damping={damping:g} did not settle; give a smaller share."
        ) from error
    return {node: visits[place] for node, place in places.items()}


async def _visited(
    request: SearchRequest,
    pool: Pool,
    around: Neighbourhood,
    visits: Mapping[str, float],
    *,
    store: GraphStore,
) -> Pool:
    """Return one collection's pool after the walk."""
    if not request.config.pagerank:
        return pool
    here = {uuid: visits[uuid] for uuid, kind in around.kinds.items() if kind == request.collection}
    most = max(here.values(), default=0.0)
    if not most:
        return pool
    strange = sorted((uuid for uuid in here if uuid not in pool), key=lambda uuid: -here[uuid])[:ADMITTED]
    joined = dict(pool)
    for each in await recall_listed(request, strange, expr=request.conditions, store=store):
        joined[each.uuid] = Candidate(each, 0.0, admitted="pagerank", reached=around.reached.get(each.uuid))
    weight = request.config.pagerank * request.highest
    walked = {uuid: each.raised("pagerank", weight * here.get(uuid, 0.0) / most) for uuid, each in joined.items()}
    return as_pool(ranked(walked))
