"""Links between entities whose names are close: edges to go along, never merges. Writes only through `commit.py`.

The idea, and the threshold, are those of REMem's synonymy edges (a nearest-neighbour search over name vectors).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import mul
from typing import Final

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.store.graph.base import GraphStore, SearchQuery
from jiuwen_memory.foundation.store.graph.constants import ENTITY_COLLECTION, RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.database_config import DistanceMetric
from jiuwen_memory.foundation.store.graph.graph_object import Entity, Relation
from jiuwen_memory.foundation.store.graph.result_ranking import WeightedRankConfig
from jiuwen_memory.foundation.store.query import eq, filter_user, in_list
from jiuwen_memory.memory_core.config.graph import AddMemStrategy
from jiuwen_memory.memory_core.graph.graph_memory.audit import Confirm
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_update
from jiuwen_memory.memory_core.graph.graph_memory.core import GetHold
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder, Services, Vector
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate

SYNONYM: Final = "synonym"
PAGE: Final = 100
_ROUNDING: Final = 1e-5
"""Stores count with seven digits: two vectors of which one is the other are not always at 1."""
_BY_NAME: Final = WeightedRankConfig(name_dense=1.0, content_dense=0.0, content_sparse=0.0)

Pair = tuple[str, str]
"""Two ids, the smaller first."""


@dataclass(frozen=True)
class Closeness:
    """How close two names must be (cosine of their vectors), and how many of the nearest each entity is linked to."""

    min_similarity: float
    top_k: int

    def __post_init__(self) -> None:
        if not isinstance(self.min_similarity, int | float) or not 0 < self.min_similarity <= 1:
            raise InvalidInputError(f"min_similarity is {self.min_similarity!r}; give a number above 0 and up to 1.")
        if not isinstance(self.top_k, int) or self.top_k < 1:
            raise InvalidInputError(f"top_k is {self.top_k!r}; give 1 or more.")

    def holds(self, similarity: float) -> bool:
        """Tell whether a similarity is enough, whichever way it was rounded."""
        return similarity >= self.min_similarity - _ROUNDING

    @classmethod
    def wanted(
        cls, strategy: AddMemStrategy, *, min_similarity: float | None = None, top_k: int | None = None
    ) -> Closeness:
        """Return what a strategy says, but for what is given."""
        return cls(
            strategy.synonym_min_similarity if min_similarity is None else min_similarity,
            strategy.synonym_top_k if top_k is None else top_k,
        )


@dataclass(frozen=True)
class SynonymReport:
    """How many entities were looked at, how many links were added, and how many of those found were there before."""

    entities: int = 0
    added: int = 0
    known: int = 0


async def link_user(user_id: str, closeness: Closeness, *, store: GraphStore, hold: GetHold) -> SynonymReport:
    """Link all entities of a user whose names are close, a page at a time; the user is held for one page at a time."""
    async with hold():
        listed = await store.query(
            ENTITY_COLLECTION, user=filter_user(user_id), output_fields=["uuid"], consistency="strong"
        )
    ids = sorted(each.uuid for each in listed)
    added: set[Pair] = set()
    known: set[Pair] = set()
    for start in range(0, len(ids), PAGE):
        async with hold() as held:
            found = await _recall_close_page(ids[start : start + PAGE], user_id, closeness, store=store)
            linked = await _recall_linked(found, user_id, store)
            new = [_link(pair, similarity, user_id) for pair, similarity in found.items() if pair not in linked]
            await commit_update(
                GraphMemUpdate(added_relation=new),
                user_id,
                store=store,
                embedder=held.embedder,
                confirm=held.lease.confirm,
            )
        added |= found.keys() - linked
        known |= found.keys() & linked
    # A pair that is found from both sides, on two pages, is there the second time.
    return SynonymReport(len(ids), len(added), len(known - added))


async def _recall_close_page(
    ids: Sequence[str], user_id: str, closeness: Closeness, *, store: GraphStore
) -> dict[Pair, float]:
    page = await store.query(
        ENTITY_COLLECTION,
        user=filter_user(user_id),
        ids=ids,
        output_fields=["name", "language", "name_embedding"],
        consistency="strong",
    )
    entities = [each for each in page if isinstance(each, Entity) and each.name_embedding]
    return await recall_close(entities, user_id, closeness, store=store)


async def with_synonyms(planned: GraphMemUpdate, user_id: str, services: Services) -> GraphMemUpdate:
    """Return a plan with links from its new entities to those with close names, stored ones and each other.

    Nothing is linked unless the strategy says so.
    """
    new = planned.added_entity
    if not new or not services.strategy.link_synonyms:
        return planned
    closeness = Closeness.wanted(services.strategy)
    texts = [each.name for each in new if each.name_embedding is None]
    vectors = dict(zip(texts, await services.embedder.embed_documents(texts), strict=True))
    named = [each.revise(name_embedding=each.name_embedding or vectors[each.name]) for each in new]
    found = await recall_close(named, user_id, closeness, store=services.store)
    found = {pair: close for pair, close in found.items() if planned.removed_entity.isdisjoint(pair)}
    nearest = await off_loop(None, resolve_nearest, named, found, closeness)
    links = [_link(pair, similarity, user_id) for pair, similarity in nearest.items()]
    return replace(planned, added_entity=named, added_relation=[*planned.added_relation, *links])


async def recall_synonyms(user_id: str, store: GraphStore) -> list[Relation]:
    """Return a user's synonym links, the closest first."""
    found = await store.query(RELATION_COLLECTION, user=filter_user(user_id), expr=eq("kind", SYNONYM))
    links = [each for each in found if isinstance(each, Relation)]
    return sorted(links, key=lambda each: (-similarity_of(each), each.uuid))


def similarity_of(link: Relation) -> float:
    """Return how close the two names of a link are; 0 where it does not say."""
    value = link.qualifiers.get("similarity")
    return float(value) if isinstance(value, int | float) else 0.0


async def unlink_user(user_id: str, *, store: GraphStore, embedder: Embedder, confirm: Confirm) -> int:
    """Remove all synonym links of a user and return how many there were. Call it under the user's lock."""
    found = await store.query(
        RELATION_COLLECTION,
        user=filter_user(user_id),
        expr=eq("kind", SYNONYM),
        output_fields=["uuid"],
        consistency="strong",
    )
    update = GraphMemUpdate(removed_relation={each.uuid for each in found})
    await commit_update(update, user_id, store=store, embedder=embedder, confirm=confirm)
    return len(found)


async def recall_close(
    entities: Sequence[Entity], user_id: str, closeness: Closeness, *, store: GraphStore
) -> dict[Pair, float]:
    """Return the pairs of these entities and stored ones with close names, each with its similarity."""
    if not entities:
        return {}
    results = await store.search(
        ENTITY_COLLECTION,
        [SearchQuery("", each.name_embedding) for each in entities],
        user=filter_user(user_id),
        rank=_BY_NAME,
        limit=closeness.top_k + 1,
        pool=closeness.top_k + 1,
        output_fields=["uuid"],
        consistency="strong",
    )
    metric = store.config.db_embed_config.distance_metric
    found: dict[Pair, float] = {}
    for entity, hits in zip(entities, results, strict=True):
        others = [hit for hit in hits if hit.found.uuid != entity.uuid][: closeness.top_k]
        for hit in others:
            similarity = resolve_similarity(hit.score, metric)
            if closeness.holds(similarity):
                found[_pair(entity.uuid, hit.found.uuid)] = similarity
    return found


def resolve_nearest(entities: Sequence[Entity], found: Mapping[Pair, float], closeness: Closeness) -> dict[Pair, float]:
    """Return the pairs that are among the nearest of one of these entities: of those found, and with each other.

    It takes its time: a text may name hundreds.
    """
    pairs = {**found, **_close_pairs(entities, closeness)}
    of_entity: dict[str, list[tuple[float, Pair]]] = {each.uuid: [] for each in entities}
    for pair, similarity in pairs.items():
        for uuid in of_entity.keys() & set(pair):
            of_entity[uuid].append((similarity, pair))
    near = (pair for mine in of_entity.values() for _, pair in sorted(mine, reverse=True)[: closeness.top_k])
    return {pair: pairs[pair] for pair in near}


def _close_pairs(entities: Sequence[Entity], closeness: Closeness) -> dict[Pair, float]:
    units = [(each.uuid, _unit(each.name_embedding or [])) for each in entities]
    pairs = (
        (_pair(uuid, other), sum(map(mul, vector, beside)))
        for place, (uuid, vector) in enumerate(units)
        for other, beside in units[:place]
    )
    return {pair: similarity for pair, similarity in pairs if closeness.holds(similarity)}


def resolve_similarity(score: float, metric: DistanceMetric) -> float:
    """Return the cosine behind a normalised score; for the dot product and Euclid, of vectors of length one."""
    if metric == "cosine":
        return 2 * score - 1
    if metric == "dot":
        return math.tan((score - 0.5) * math.pi)
    return 1 - math.tan((1 - score) * math.pi / 2) / 2


def _unit(vector: Vector) -> Vector:
    length = math.hypot(*vector)
    return [number / length for number in vector] if length else vector


async def _recall_linked(pairs: Iterable[Pair], user_id: str, store: GraphStore) -> set[Pair]:
    ends = sorted({end for pair in pairs for end in pair})
    if not ends:
        return set()
    found = await store.query(
        RELATION_COLLECTION,
        user=filter_user(user_id),
        expr=eq("kind", SYNONYM) & in_list("lhs", ends) & in_list("rhs", ends),
        output_fields=["lhs", "rhs"],
        consistency="strong",
    )
    return {_pair(each.lhs, each.rhs) for each in found if isinstance(each, Relation)}


def _pair(first: str, second: str) -> Pair:
    return (first, second) if first < second else (second, first)


def _link(pair: Pair, similarity: float, user_id: str) -> Relation:
    lhs, rhs = pair
    return Relation(
        user_id=user_id,
        obj_type="Link",
        kind=SYNONYM,
        name=SYNONYM,
        lhs=lhs,
        rhs=rhs,
        lhs_origin=lhs,
        rhs_origin=rhs,
        qualifiers={"similarity": round(similarity, 4)},
    )
