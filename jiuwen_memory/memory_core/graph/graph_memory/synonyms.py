"""Links between entities whose names are close: edges to go along, never merges. Writes only through `commit.py`.

The idea, and the threshold, are those of REMem's synonymy edges (a nearest-neighbour search over name vectors).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.store.graph.base import GraphStore, SearchQuery
from jiuwen_memory.foundation.store.graph.constants import ENTITY_COLLECTION, RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.database_config import DistanceMetric
from jiuwen_memory.foundation.store.graph.graph_object import Entity, Relation
from jiuwen_memory.foundation.store.graph.result_ranking import WeightedRankConfig
from jiuwen_memory.foundation.store.query import eq, filter_user, in_list
from jiuwen_memory.memory_core.graph.graph_memory.audit import Confirm
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_update
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder, Vector
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate

SYNONYM: Final = "synonym"
MIN_SIMILARITY: Final = 0.8
TOP_K: Final = 10
PAGE: Final = 100
_BY_NAME: Final = WeightedRankConfig(name_dense=1.0, content_dense=0.0, content_sparse=0.0)

Pair = tuple[str, str]
"""Two ids, the smaller first."""


@dataclass(frozen=True)
class Closeness:
    """How close two names must be (cosine of their vectors), and how many of the nearest each entity is linked to."""

    min_similarity: float = MIN_SIMILARITY
    top_k: int = TOP_K

    def __post_init__(self) -> None:
        if not 0 < self.min_similarity <= 1:
            raise InvalidInputError(f"min_similarity is {self.min_similarity}; give a number above 0 and up to 1.")
        if self.top_k < 1:
            raise InvalidInputError(f"top_k is {self.top_k}; give 1 or more.")


@dataclass(frozen=True)
class SynonymReport:
    """How many entities were looked at, how many links were added, and how many of those found were there before."""

    entities: int = 0
    added: int = 0
    known: int = 0


async def link_user(
    user_id: str, closeness: Closeness, *, store: GraphStore, embedder: Embedder, confirm: Confirm
) -> SynonymReport:
    """Link all entities of a user whose names are close, a page at a time. Call it under the user's lock."""
    user = filter_user(user_id)
    listed = await store.query(ENTITY_COLLECTION, user=user, output_fields=["uuid"], consistency="strong")
    ids = sorted(each.uuid for each in listed)
    added = known = 0
    for start in range(0, len(ids), PAGE):
        page = await store.query(
            ENTITY_COLLECTION,
            user=user,
            ids=ids[start : start + PAGE],
            output_fields=["name", "language", "name_embedding"],
            consistency="strong",
        )
        entities = [each for each in page if isinstance(each, Entity) and each.name_embedding]
        found = await recall_close(entities, user_id, closeness, store=store)
        linked = await _recall_linked(found, user_id, store)
        new = [_link(pair, similarity, user_id) for pair, similarity in found.items() if pair not in linked]
        await commit_update(
            GraphMemUpdate(added_relation=new), user_id, store=store, embedder=embedder, confirm=confirm
        )
        added += len(new)
        known += len(found) - len(new)
    # What was found from both sides, on two pages, was new the first time.
    return SynonymReport(len(ids), added, known)


async def with_synonyms(
    planned: GraphMemUpdate, user_id: str, closeness: Closeness, *, store: GraphStore, embedder: Embedder
) -> GraphMemUpdate:
    """Return a plan with links from its new entities to those with close names, stored ones and each other."""
    new = planned.added_entity
    if not new:
        return planned
    texts = [each.name for each in new if each.name_embedding is None]
    vectors = dict(zip(texts, await embedder.embed_documents(texts), strict=True))
    named = [each.revise(name_embedding=each.name_embedding or vectors[each.name]) for each in new]
    found = await recall_close(named, user_id, closeness, store=store)
    found = {pair: close for pair, close in found.items() if planned.removed_entity.isdisjoint(pair)}
    found |= resolve_close(named, closeness)
    links = [_link(pair, similarity, user_id) for pair, similarity in found.items()]
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
            if similarity >= closeness.min_similarity:
                found[_pair(entity.uuid, hit.found.uuid)] = similarity
    return found


def resolve_close(entities: Sequence[Entity], closeness: Closeness) -> dict[Pair, float]:
    """Return the pairs of these entities with close names; each entity brings its nearest."""
    found: dict[Pair, float] = {}
    for entity in entities:
        near = [
            (_cosine(entity.name_embedding or [], other.name_embedding or []), other.uuid)
            for other in entities
            if other.uuid != entity.uuid
        ]
        for similarity, uuid in sorted(near, reverse=True)[: closeness.top_k]:
            if similarity >= closeness.min_similarity:
                found[_pair(entity.uuid, uuid)] = similarity
    return found


def resolve_similarity(score: float, metric: DistanceMetric) -> float:
    """Return the cosine behind a normalised score; for the dot product and Euclid, of vectors of length one."""
    if metric == "cosine":
        return 2 * score - 1
    if metric == "dot":
        return math.tan((score - 0.5) * math.pi)
    return 1 - math.tan((1 - score) * math.pi / 2) / 2


def _cosine(first: Vector, second: Vector) -> float:
    lengths = math.hypot(*first) * math.hypot(*second)
    return sum(a * b for a, b in zip(first, second, strict=True)) / lengths if lengths else 0.0


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
