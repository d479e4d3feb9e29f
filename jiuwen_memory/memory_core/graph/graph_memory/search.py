"""The search path: from a query to ranked objects of one collection. Reads the store; may ask the reranker."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from jiuwen_memory.errors import RerankServiceError, SetupError
from jiuwen_memory.foundation.ports import Reranker
from jiuwen_memory.foundation.retry import outcome_of, retrying
from jiuwen_memory.foundation.store.graph.base import GraphStore, Hit, SearchQuery
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    GIST,
    GRAPH_COLLECTIONS,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Relation, now
from jiuwen_memory.foundation.store.graph.result_ranking import WeightedRankConfig
from jiuwen_memory.foundation.store.query import QueryExpr, chain_filters, eq, filter_user, in_list, ne
from jiuwen_memory.memory_core.config.graph import SearchConfig

Object = TypeVar("Object", bound=BaseGraphObject)

POOL = 100
"""Hits each channel brings at least: shorter lists turn a threshold on ranks into 'must be in two lists'."""
SEED_LIMIT = 20
FRONTIER_LIMIT = 100
EDGE_LIMIT = 500
RERANK_LIMIT = 50
HOP_DECAY = 0.5
"""A neighbour is worth at least this share of the hit it was reached from, per hop."""


@dataclass(frozen=True)
class SearchStrategy:
    """How each collection is searched; the defaults are those of the strategy named `default`."""

    entity: SearchConfig
    relation: SearchConfig
    episode: SearchConfig

    def config(self, collection: str) -> SearchConfig:
        """Return the settings for a collection."""
        return {
            ENTITY_COLLECTION: self.entity,
            RELATION_COLLECTION: self.relation,
            EPISODE_COLLECTION: self.episode,
        }[collection]

    def warn_if_unreachable(self, name: str) -> None:
        """Warn about thresholds that no result can ever pass."""
        for collection in GRAPH_COLLECTIONS:
            config = self.config(collection)
            highest = config.rank_config.highest(collection)
            if config.threshold > highest and not config.rerank:
                warnings.warn(
                    f"Search strategy {name!r}: no result of {collection} can reach min_score={config.threshold:g}; "
                    f"{type(config.rank_config).__name__} scores from 0 to {highest:.3g}.",
                    UserWarning,
                    stacklevel=3,
                )


DEFAULT_SEARCH = SearchStrategy(
    entity=SearchConfig(rank_config=WeightedRankConfig()),
    relation=SearchConfig(min_score=0.02),
    episode=SearchConfig(min_score=0.025),
)


@dataclass(frozen=True)
class SearchRequest:
    """What is looked for in one collection, and for whom; `scope` says where it must have been learnt.

    `episode` and `gist` tell which of the two the episodes may be.
    """

    collection: str
    text: str
    vector: Sequence[float]
    users: tuple[str, ...]
    config: SearchConfig
    scope: QueryExpr | None = None
    episode: bool = True
    gist: bool = False

    @property
    def user(self) -> QueryExpr:
        """The filter that keeps other users out of every request."""
        return filter_user(self.users)

    @property
    def standing(self) -> QueryExpr | None:
        """What a result and all on the way to it must fulfil: among relations facts, unless a kind is named."""
        given = self.config.filter_expr
        conditions = [] if self.scope is None else [self.scope]
        if self.collection == RELATION_COLLECTION and not (given and "kind" in given.fields()):
            conditions.append(eq("kind", "fact"))
        if self.collection == EPISODE_COLLECTION and not (self.episode and self.gist):
            conditions.append(eq("obj_type", GIST) if self.gist else ne("obj_type", GIST))
        return chain_filters(*conditions) if conditions else None

    @property
    def conditions(self) -> QueryExpr | None:
        """Everything that a result must fulfil."""
        given = [each for each in (self.config.filter_expr, self.standing) if each is not None]
        return chain_filters(*given) if given else None

    @property
    def pool(self) -> int:
        """How many hits each channel brings."""
        return max(POOL, 10 * self.config.top_k)

    @property
    def expands(self) -> bool:
        """Neighbours in the graph are wanted, in a collection that has any."""
        return self.config.bfs_depth > 0 and self.collection != EPISODE_COLLECTION


async def search_collection(
    request: SearchRequest, *, store: GraphStore, reranker: Reranker | None, tries: int
) -> list[tuple[float, BaseGraphObject]]:
    """Return the best `top_k` objects with their scores: the fused channels, then neighbours, threshold, reranker.

    Among the relations found, those that hold now come before those that do not, each group by score.
    """
    config = request.config
    hits = await _recall_hits(request, store)
    if request.expands:
        hits = await _recall_neighbours(request, hits, store=store)
    found = [hit for hit in hits if hit.score >= config.threshold]
    if config.rerank:
        found = await _reranked(request, found[:RERANK_LIMIT], reranker=reranker, tries=tries)
    return [(hit.score, hit.found) for hit in _current_first(_successors_first(found)[: config.top_k])]


async def _recall_hits(request: SearchRequest, store: GraphStore) -> list[Hit]:
    config = request.config
    wanted = config.top_k
    if request.expands:
        wanted = request.pool
    elif config.rerank:
        wanted = max(RERANK_LIMIT, config.top_k)
    elif request.collection == RELATION_COLLECTION:
        wanted = 3 * config.top_k
    (hits,) = await store.search(
        request.collection,
        [SearchQuery(request.text, request.vector)],
        user=request.user,
        rank=config.rank_config,
        limit=wanted,
        pool=request.pool,
        expr=request.conditions,
        output_fields=_fields(request),
    )
    return hits


def _fields(request: SearchRequest) -> list[str] | None:
    """Return the columns to read: those asked for, and those that ranking and expansion need."""
    if request.config.output_fields is None:
        return None
    needed = ["valid_since", "valid_until", "superseded_by"] if request.collection == RELATION_COLLECTION else []
    if request.config.rerank:
        needed.append("content")
    if request.expands and request.config.filter_expr:
        needed.extend(sorted(request.config.filter_expr.fields()))
    return list(dict.fromkeys([*request.config.output_fields, *needed]))


async def _recall_neighbours(request: SearchRequest, hits: Sequence[Hit], *, store: GraphStore) -> list[Hit]:
    """Return the hits and what is linked to the good ones, `bfs_k` per hop, best first.

    A neighbour scores the higher of its own score for the query and half the score it was reached from.
    """
    scores = {hit.found.uuid: hit.score for hit in hits}
    seen: dict[str, Hit] = {hit.found.uuid: hit for hit in hits}
    frontier = {hit.found.uuid: hit.score for hit in hits[:SEED_LIMIT] if hit.score >= request.config.threshold}
    reached = dict(frontier)
    for _ in range(request.config.bfs_depth):
        found = await _linked(request, [seen[uuid].found for uuid in frontier], store=store)
        inherited = {
            uuid: HOP_DECAY * max(frontier[origin] for origin in origins if origin in frontier)
            for uuid, origins in found.items()
            if uuid not in reached
        }
        ranked = sorted(inherited, key=lambda uuid: -max(inherited[uuid], scores.get(uuid, 0.0)))
        ranked = ranked[: FRONTIER_LIMIT if request.config.filter_expr else request.config.bfs_k]
        for each in await _read(request, [uuid for uuid in ranked if uuid not in seen], store=store):
            seen[each.uuid] = Hit(0.0, each)
        chosen = _up_to_wanted(request, [seen[uuid] for uuid in ranked if uuid in seen])
        frontier = {uuid: max(inherited[uuid], scores.get(uuid, 0.0)) for uuid in chosen if uuid in seen}
        for uuid, score in frontier.items():
            seen[uuid] = Hit(score, seen[uuid].found)
        reached |= frontier
        if not frontier:
            break
    return sorted(
        (hit for hit in seen.values() if _fits(request, hit.found)),
        key=lambda hit: -hit.score,
    )


def _up_to_wanted(request: SearchRequest, ranked: Sequence[Hit]) -> list[str]:
    """Return neighbours up to `bfs_k` that fulfil the conditions; those between that do not may lead further."""
    chosen: list[str] = []
    fitting = 0
    for hit in ranked:
        if fitting == request.config.bfs_k:
            break
        chosen.append(hit.found.uuid)
        fitting += _fits(request, hit.found)
    return chosen


def _fits(request: SearchRequest, found: BaseGraphObject) -> bool:
    return request.config.filter_expr is None or request.config.filter_expr.matches(found.to_row())


async def _linked(
    request: SearchRequest, objects: Sequence[BaseGraphObject], *, store: GraphStore
) -> dict[str, set[str]]:
    """Return what one hop reaches: the uuid of each neighbour, and of the objects it was reached from."""
    ends = _ends(objects)
    if not ends:
        return {}
    edges = await store.query(
        RELATION_COLLECTION,
        user=request.user,
        expr=eq("ends", "entity") & (in_list("lhs", ends) | in_list("rhs", ends)),
        limit=EDGE_LIMIT,
        output_fields=["lhs", "rhs"],
    )
    linked: dict[str, set[str]] = {}
    for edge in edges:
        if not isinstance(edge, Relation):
            continue
        for end, other in ((edge.lhs, edge.rhs), (edge.rhs, edge.lhs)):
            neighbour = other if request.collection == ENTITY_COLLECTION else edge.uuid
            if end in ends:
                linked.setdefault(neighbour, set()).update(ends[end])
    return linked


def _ends(objects: Sequence[BaseGraphObject]) -> Mapping[str, set[str]]:
    """Return the entities from which a hop starts, each with the objects it stands for."""
    ends: dict[str, set[str]] = {}
    for each in objects:
        if isinstance(each, Entity):
            ends.setdefault(each.uuid, set()).add(each.uuid)
        if isinstance(each, Relation) and each.ends == "entity":
            ends.setdefault(each.lhs, set()).add(each.uuid)
            ends.setdefault(each.rhs, set()).add(each.uuid)
    return ends


async def _read(request: SearchRequest, ids: Sequence[str], *, store: GraphStore) -> list[BaseGraphObject]:
    """Return objects by id, facts alone among relations; a filter of the caller's is looked at afterwards."""
    if not ids:
        return []
    return await store.query(
        request.collection,
        user=request.user,
        ids=ids,
        expr=request.standing,
        output_fields=_fields(request),
    )


async def _reranked(request: SearchRequest, hits: Sequence[Hit], *, reranker: Reranker | None, tries: int) -> list[Hit]:
    if reranker is None:
        raise SetupError(
            f"The search strategy wants {request.collection} reranked, but no reranker is attached; "
            "call attach_reranker, or register the strategy with rerank=False."
        )
    if not hits:
        return []
    documents = [_document(hit.found) for hit in hits]
    attached = reranker

    async def call() -> list[float]:
        return await attached.rerank(request.text, documents, language=request.config.language)

    scores = await outcome_of(retrying(call, tries=tries, what="reranking"))
    if isinstance(scores, Exception):
        raise RerankServiceError(f"Reranking failed: {scores}. Check the reranker, or search without it.") from scores
    return sorted(
        [Hit(score, hit.found) for score, hit in zip(_checked_scores(scores, len(hits)), hits, strict=True)],
        key=lambda hit: -hit.score,
    )


def _checked_scores(scores: object, count: int) -> list[float]:
    """Return a reranker's scores, if there is one finite number per document."""
    numbers = [float(each) for each in scores if _is_number(each)] if isinstance(scores, Sequence) else []
    if isinstance(scores, Sequence) and len(numbers) == len(scores) == count:
        return numbers
    raise RerankServiceError(
        f"The reranker gave no score for each of {count} documents; it must give one finite number per document.",
        retryable=False,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _document(found: BaseGraphObject) -> str:
    return f"{found.name}: {found.content}" if isinstance(found, Entity) else found.content


def _successors_first(hits: Sequence[Hit]) -> list[Hit]:
    """Let what superseded a fact come before it, so that the old one never takes the new one's place."""
    by_id = {hit.found.uuid: hit for hit in hits}
    ordered: dict[str, Hit] = {}

    def place(hit: Hit, path: tuple[str, ...]) -> None:
        uuid = hit.found.uuid
        if uuid in ordered or uuid in path:
            return
        for later in hit.found.superseded_by if isinstance(hit.found, Relation) else ():
            if later in by_id:
                place(by_id[later], (*path, uuid))
        ordered[uuid] = hit

    for hit in hits:
        place(hit, ())
    return list(ordered.values())


def _current_first(hits: Sequence[Hit]) -> list[Hit]:
    """Put facts that hold now before those that do not; everything else keeps its place."""
    moment = now()
    return sorted(hits, key=lambda hit: isinstance(hit.found, Relation) and not _is_current(hit.found, moment))


def _is_current(relation: Relation, moment: int) -> bool:
    """A fact that only begins later is current too: nothing has replaced or ended it."""
    return not relation.superseded_by and (relation.valid_until is None or relation.valid_until >= moment)
