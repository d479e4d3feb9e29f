"""What the memory already knows about a new text. Reads the store, never writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial, reduce
from operator import or_
from typing import TypeVar

from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.store.graph.base import GraphStore, SearchQuery
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    GIST,
    OPEN_END,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation
from jiuwen_memory.foundation.store.query import (
    QueryExpr,
    array_contains,
    chain_filters,
    eq,
    filter_user,
    in_list,
    lt,
    lte,
    ne,
)
from jiuwen_memory.foundation.text import normalise_name, query_tokens
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.graph.extraction.values import Mention
from jiuwen_memory.memory_core.graph.graph_memory.periods import LooseEnds
from jiuwen_memory.memory_core.graph.graph_memory.requests import AddRequest
from jiuwen_memory.memory_core.graph.graph_memory.services import Services, Vector
from jiuwen_memory.memory_core.graph.graph_memory.states import (
    Draft,
    GraphMemUpdate,
    History,
    Identity,
    KnownEntities,
    KnownRelations,
)

Object = TypeVar("Object", bound=BaseGraphObject)

RECALL_WORDS = 40
"""Distinct words of a text that BM25 is asked for; every further one costs time and brings little."""
PAIR_LIMIT = 20
"""Stored relations beside a new one up to which shared words rank them; beyond, it gets a search of its own."""
HUB_DEGREE = 50
"""Relations that make an entity a hub: of them only those of the same name are read; searches do the rest."""
EDGE_LIMIT = 200
"""Stored relations read for all ends of a text at once."""
SEARCHES_AT_ONCE = 4
BESIDE_POOL = 10
"""Hits each channel brings for one new fact; whole rows are read for all of them, which is what a search costs."""
EPISODE_POOL = 20
EPISODE_LIMIT = 1000


@traced
async def recall_repeat(request: AddRequest, services: Services) -> Episode | None:
    """Return the stored episode this part repeats, if there is a time or a key to recognise it by.

    A part that is resumed is recognised in any case: the one that was stored last may still be listed as waiting.
    """
    known = []
    if request.is_resumed:
        known.append(eq("group", request.group))
    if request.idempotency_key:
        known.append(eq("idempotency_key", request.idempotency_key))
    elif request.is_repeatable:
        known.append(eq("content_hash", request.content_hash) & eq("valid_since", request.reference.seconds))
    if not known:
        return None
    same = reduce(or_, known)
    found = await services.store.query(
        EPISODE_COLLECTION,
        user=filter_user(request.user_id),
        expr=same & eq("part", request.part) & ne("obj_type", GIST),
        limit=1,
        consistency="strong",
    )
    return _of_type(found, Episode)[0] if found else None


@traced
async def recall_episodes(request: AddRequest, services: Services) -> History:
    """Return the earlier episodes that a reader of the new text should know."""
    (vector,) = await services.embedder.embed_documents([request.text])
    recall = services.strategy.recall_episode
    # A gist would tell a second time what its source tells.
    conditions: list[QueryExpr] = [ne("obj_type", GIST)]
    if recall.exclude_future_results:
        conditions.append(lte("valid_since", request.reference.seconds))
    if recall.same_kind:
        conditions.append(eq("obj_type", request.kind.name))
    (hits,) = await services.store.search(
        EPISODE_COLLECTION,
        [SearchQuery(_telling_words(request.text), vector)],
        user=filter_user(request.user_id),
        rank=recall.rank_config,
        limit=recall.top_k,
        pool=max(EPISODE_POOL, recall.top_k),
        expr=chain_filters(*conditions),
    )
    good = [hit.found for hit in hits if hit.score >= recall.threshold]
    return History(tuple(_of_type(good, Episode)), vector)


@traced
async def recall_entities(mentions: Sequence[Mention], request: AddRequest, services: Services) -> KnownEntities:
    """Return the stored entities that the mentions may mean: one scalar query, then one search for all the rest."""
    if not mentions:
        return KnownEntities()
    named = await _entities_named(mentions, request, services)
    speaking = {normalise_name(speaker.name) for speaker in request.speakers}
    # A session may be long; who speaks is known by name alone, and who is new was not in it.
    in_session = await _entities_in_session(request, services) if named.keys() - speaking else frozenset()
    same_name = tuple(named.get(normalise_name(mention.name), ()) for mention in mentions)
    rest = [mention for mention, found in zip(mentions, same_name, strict=True) if not found]
    vectors = dict(
        zip(
            [mention.name for mention in rest],
            await services.embedder.embed_documents([mention.name for mention in rest]),
            strict=True,
        )
    )
    judged = rest if services.strategy.judge_entities else []
    similar = await _entities_like(judged, vectors, request=request, services=services)
    return KnownEntities(
        same_name=same_name,
        similar=tuple(similar.get(mention, ()) for mention in mentions),
        vectors=vectors,
        in_session=in_session,
    )


async def _entities_named(
    mentions: Sequence[Mention], request: AddRequest, services: Services
) -> dict[str, tuple[Entity, ...]]:
    found = await services.store.query(
        ENTITY_COLLECTION,
        user=filter_user(request.user_id),
        expr=in_list("name_norm", [normalise_name(mention.name) for mention in mentions]),
        consistency="strong",
    )
    named: dict[str, tuple[Entity, ...]] = {}
    for entity in sorted(_of_type(found, Entity), key=lambda each: (-each.mention_count, each.created_at)):
        named[entity.name_norm] = (*named.get(entity.name_norm, ()), entity)
    return named


async def _entities_in_session(request: AddRequest, services: Services) -> frozenset[str]:
    """Return the entities of the session, and of the earlier parts of the same input."""
    near: list[QueryExpr] = []
    if request.session_id:
        near.append(eq("session_id", request.session_id))
    if request.part > 1:
        near.append(eq("group", request.group))
    if not near:
        return frozenset()
    episodes = await services.store.query(
        EPISODE_COLLECTION,
        user=filter_user(request.user_id),
        expr=reduce(or_, near) & ne("obj_type", GIST),
        limit=EPISODE_LIMIT,
        output_fields=["entities"],
        consistency="strong",
    )
    return frozenset(uuid for episode in _of_type(episodes, Episode) for uuid in episode.entities)


async def _entities_like(
    mentions: Sequence[Mention], vectors: Mapping[str, Vector], *, request: AddRequest, services: Services
) -> dict[Mention, tuple[Entity, ...]]:
    if not mentions:
        return {}
    recall = services.strategy.recall_entity
    wanted = recall.top_k + 2 if recall.same_kind else recall.top_k
    results = await services.store.search(
        ENTITY_COLLECTION,
        [SearchQuery(mention.name, vectors[mention.name]) for mention in mentions],
        user=filter_user(request.user_id),
        rank=recall.rank_config,
        limit=wanted,
        pool=wanted,
        consistency="strong",
    )
    similar: dict[Mention, tuple[Entity, ...]] = {}
    for mention, hits in zip(mentions, results, strict=True):
        good = _of_type([hit.found for hit in hits if hit.score >= recall.threshold], Entity)
        if recall.same_kind:
            good = [entity for entity in good if entity.obj_type == mention.type_name]
        similar[mention] = tuple(good[: recall.top_k])
    return similar


@traced
async def recall_relations(
    new: Sequence[Relation], identity: Identity, *, request: AddRequest, services: Services
) -> KnownRelations:
    """Return the stored facts that new ones may repeat or contradict, and what hangs on entities to be fused."""
    # An entity lists no more relations than the store's limit.
    hub_degree = min(HUB_DEGREE, services.storage.relations)
    absorbed = [each for merge in identity.merges for each in merge.absorbed]
    degrees = {node.uuid: len(node.relations) for node in (*identity.nodes, *absorbed)}
    hubs = {uuid for uuid, degree in degrees.items() if degree >= hub_degree}
    merged = list(identity.absorbed)
    beside, of_merged = await together(
        _relations_beside(new, degrees=degrees, hubs=hubs, heirs=identity.absorbed, request=request, services=services),
        _relations_of(merged, request=request, services=services),
    )
    of_targets = await _relations_alike(of_merged, identity.absorbed, request=request, services=services)
    episodes = await _episodes_of(identity, request=request, services=services)
    return KnownRelations(
        candidates=beside.candidates,
        of_merged=of_merged,
        of_targets=of_targets,
        episodes_of_merged=episodes,
        vectors=beside.vectors,
    )


async def _relations_beside(
    new: Sequence[Relation],
    *,
    degrees: Mapping[str, int],
    hubs: Collection[str],
    heirs: Mapping[str, str],
    request: AddRequest,
    services: Services,
) -> KnownRelations:
    if not new or not services.strategy.merge_relations:
        return KnownRelations(candidates=((),) * len(new))
    ends = list(dict.fromkeys(end for relation in new for end in (relation.lhs, relation.rhs)))
    ends += [uuid for uuid, heir in heirs.items() if heir in ends]
    quiet = [end for end in ends if end not in hubs]
    busy = [end for end in ends if end in hubs]
    same_names = in_list("name_norm", [relation.name_norm for relation in new])
    near = _touching(quiet) | (_touching(busy) & same_names) if busy else _touching(quiet)
    verbatim = eq("kind", "fact") & in_list("content", [relation.content for relation in new])
    are_few = not busy and sum(degrees.get(end, 0) for end in quiet) < EDGE_LIMIT
    stored = await _relations_like(verbatim, near, are_few=are_few, user_id=request.user_id, store=services.store)
    beside = [[each for each in stored if _share_an_end(each, relation, heirs)] for relation in new]
    crowded = [
        number
        for number, relation in enumerate(new)
        if len(beside[number]) > PAIR_LIMIT or not {relation.lhs, relation.rhs}.isdisjoint(busy)
    ]
    searched, vectors = await _search_beside([new[number] for number in crowded], request=request, services=services)
    by_number = dict(zip(crowded, searched, strict=True))
    top_k = services.strategy.recall_relation.top_k
    return KnownRelations(
        candidates=tuple(
            _best_candidates(
                relation, [*by_number.get(number, ()), *beside[number]], top_k=top_k, ranked=number in by_number
            )
            for number, relation in enumerate(new)
        ),
        vectors=vectors,
    )


async def _relations_like(
    verbatim: QueryExpr, near: QueryExpr, *, are_few: bool, user_id: str, store: GraphStore
) -> list[Relation]:
    """Return all facts of the same words, then those near by, up to the limit; if they seem few, by one query."""
    if are_few:
        found = await _relations_where(verbatim | near, user_id, store, limit=EDGE_LIMIT)
        if len(found) < EDGE_LIMIT:
            return sorted(found, key=lambda each: not each.fulfils(verbatim))
    same, others = await together(
        _relations_where(verbatim, user_id, store), _relations_where(near, user_id, store, limit=EDGE_LIMIT)
    )
    return list({each.uuid: each for each in (*same, *others)}.values())


async def _search_beside(
    crowded: Sequence[Relation], *, request: AddRequest, services: Services
) -> tuple[list[tuple[Relation, ...]], dict[str, Vector]]:
    recall = services.strategy.recall_relation
    texts = [relation.qualified_text for relation in crowded]
    vectors = dict(zip(texts, await services.embedder.embed_documents(texts), strict=True))
    beside: dict[str, list[Relation]] = {}
    for relation in crowded:
        beside.setdefault(_anchor(relation, crowded), []).append(relation)

    async def search(anchor: str) -> list[tuple[str, tuple[Relation, ...]]]:
        results = await services.store.search(
            RELATION_COLLECTION,
            [SearchQuery(relation.content_text, vectors[relation.qualified_text]) for relation in beside[anchor]],
            user=filter_user(request.user_id),
            rank=recall.rank_config,
            limit=recall.top_k,
            pool=max(BESIDE_POOL, recall.top_k),
            expr=_touching([anchor]),
            consistency="strong",
        )
        good = [_of_type([hit.found for hit in hits if hit.score >= recall.threshold], Relation) for hits in results]
        return [(relation.uuid, tuple(found)) for relation, found in zip(beside[anchor], good, strict=True)]

    found: dict[str, tuple[Relation, ...]] = {}
    anchors = list(beside)
    for start in range(0, len(anchors), SEARCHES_AT_ONCE):
        for results in await together(*(search(anchor) for anchor in anchors[start : start + SEARCHES_AT_ONCE])):
            found.update(results)
    return [found[relation.uuid] for relation in crowded], vectors


def _anchor(relation: Relation, crowded: Sequence[Relation]) -> str:
    """Return the end that most of the crowded facts share: facts of one anchor are searched for together."""
    shared = Counter(end for each in crowded for end in {each.lhs, each.rhs})
    return max((relation.lhs, relation.rhs), key=lambda end: shared[end])


def _best_candidates(
    relation: Relation, candidates: Sequence[Relation], *, top_k: int, ranked: bool
) -> tuple[Relation, ...]:
    """Return exact repeats first, then the best `top_k`: as searched, or by ends and words in common."""
    distinct = list({each.uuid: each for each in candidates}.values())
    exact = [each for each in distinct if is_same_fact(each, relation)]
    others = [each for each in distinct if not is_same_fact(each, relation)]
    if not ranked:
        words = _words_of(relation.content_text)
        others.sort(
            key=lambda each: (
                {each.lhs, each.rhs} != {relation.lhs, relation.rhs},
                -len(words & _words_of(each.content_text)),
            )
        )
    return (*exact, *others[:top_k])


@lru_cache(maxsize=1024)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(query_tokens(text).split())


def is_same_fact(first: Relation, second: Relation) -> bool:
    """Tell whether two relations state the same between the same ends, in the same words, and of no other time."""
    return (
        first.lhs == second.lhs
        and first.rhs == second.rhs
        and normalise_name(first.content_text) == normalise_name(second.content_text)
        and not _happen_apart(first, second)
    )


def _happen_apart(first: Relation, second: Relation) -> bool:
    """Tell whether two relations are anchored at different times: then they are two events in the same words."""
    times = (first.qualifiers.get("time"), second.qualifiers.get("time"))
    return all(times) and times[0] != times[1]


async def _relations_of(merged: Collection[str], *, request: AddRequest, services: Services) -> tuple[Relation, ...]:
    if not merged:
        return ()
    return await _relations_where(in_list("lhs", merged) | in_list("rhs", merged), request.user_id, services.store)


async def _relations_alike(
    moved: Sequence[Relation], absorbed: Mapping[str, str], *, request: AddRequest, services: Services
) -> tuple[Relation, ...]:
    """Return the relations of the entities that stay which have the name of one that moves to them."""
    if not moved:
        return ()
    targets = list(dict.fromkeys(absorbed.values()))
    at_targets = in_list("lhs", targets) | in_list("rhs", targets)
    same_names = in_list("name_norm", [relation.name_norm for relation in moved])
    return await _relations_where(at_targets & same_names, request.user_id, services.store)


async def _episodes_of(identity: Identity, *, request: AddRequest, services: Services) -> tuple[Episode, ...]:
    """Return the episodes that list an entity which is fused into another."""
    absorbed = [each for merge in identity.merges for each in merge.absorbed]
    ids = list(dict.fromkeys(uuid for each in absorbed for uuid in each.episodes))
    read = partial(services.store.query, EPISODE_COLLECTION, user=filter_user(request.user_id), consistency="strong")
    # An entity lists only its newest episodes. Milvus Lite is slow in looking for the others.
    cut = [array_contains("entities", each.uuid) for each in absorbed if each.mention_count > len(each.episodes)]
    found = await together(read(ids=ids), *(read(expr=each) for each in cut))
    return tuple(_of_type({each.uuid: each for part in found for each in part}.values(), Episode))


def _touching(ends: Sequence[str]) -> QueryExpr:
    return eq("kind", "fact") & (in_list("lhs", ends) | in_list("rhs", ends))


def _share_an_end(stored: Relation, new: Relation, heirs: Mapping[str, str]) -> bool:
    ends = {heirs.get(end, end) for end in (stored.lhs, stored.rhs)}
    return not ends.isdisjoint((new.lhs, new.rhs))


def _telling_words(text: str) -> str:
    """Return the longest distinct words of a text: long words are rarer and say more."""
    words = list(dict.fromkeys(query_tokens(text).split()))
    return " ".join(sorted(words, key=len, reverse=True)[:RECALL_WORDS])


def _of_type(objects: Iterable[BaseGraphObject], kind: type[Object]) -> list[Object]:
    return [each for each in objects if isinstance(each, kind)]


@traced
async def recall_loose_ends(draft: Draft, user_id: str, store: GraphStore) -> LooseEnds:
    """Return what refers to facts that the draft folds, drops, parts or dates anew; most texts do none of that."""
    disturbed = draft.disturbed()
    unread = {end for relation in draft.all(Relation) if relation.kind == "fact" for end in draft.unread_ends(relation)}
    if not (disturbed or unread):
        return LooseEnds()
    ids = [relation.uuid for relation in disturbed]
    ends = list(dict.fromkeys(end for relation in disturbed for end in (relation.lhs, relation.rhs)))
    facts, links, entities = await together(
        _relations_where(_touching(ends) & lt("expired_at", OPEN_END), user_id, store),
        _relations_where(eq("ends", "relation") & (in_list("lhs", ids) | in_list("rhs", ids)), user_id, store),
        store.query(ENTITY_COLLECTION, user=filter_user(user_id), ids=[*ends, *unread], consistency="strong"),
    )
    known = {each.uuid for each in facts}
    named = {uuid for each in (*facts, *draft.all(Relation)) for uuid in each.superseded_by}
    missing = [uuid for uuid in named if uuid not in known and uuid not in draft]
    superseding = await store.query(RELATION_COLLECTION, user=filter_user(user_id), ids=missing, consistency="strong")
    return LooseEnds(facts, tuple(_of_type(superseding, Relation)), links, tuple(_of_type(entities, Entity)))


async def _relations_where(
    expr: QueryExpr, user_id: str, store: GraphStore, *, limit: int | None = None
) -> tuple[Relation, ...]:
    found = await store.query(
        RELATION_COLLECTION, user=filter_user(user_id), expr=expr, limit=limit, consistency="strong"
    )
    return tuple(_of_type(found, Relation))


@traced
async def recall_taken(update: GraphMemUpdate, services: Services) -> frozenset[str]:
    """Return ids of new objects that the store holds already, whoever's they are: writing them would replace a row."""
    added: dict[str, Sequence[BaseGraphObject]] = {
        EPISODE_COLLECTION: update.added_episode,
        ENTITY_COLLECTION: update.added_entity,
        RELATION_COLLECTION: update.added_relation,
    }
    read = partial(services.store.query, user=ne("user_id", ""), output_fields=["uuid"], consistency="strong")
    found = await together(*(read(name, ids=[each.uuid for each in new]) for name, new in added.items() if new))
    return frozenset(row.uuid for rows in found for row in rows)
