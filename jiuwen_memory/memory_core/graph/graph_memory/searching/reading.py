"""What the parts of a search read alike: what held, relations to go along, objects by id. Reads the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Final

from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.constants import RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, EndKind, Relation
from jiuwen_memory.foundation.store.query import QueryExpr, chain_filters, eq, in_list, lte
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchRequest
from jiuwen_memory.memory_core.graph.graph_memory.searching.times import AskedTime

EDGE_LIMIT: Final = 500


HUB_SHARE: Final = 10
"""An end is a hub if more than a tenth of the relations that are read are its own."""
HUBS: Final = 3
"""How often others are asked for once more because of hubs."""


async def recall_touching(
    request: SearchRequest,
    ends: Mapping[EndKind, Collection[str]],
    *,
    store: GraphStore,
    expr: QueryExpr | None = None,
    fields: Sequence[str] = (),
    limit: int = EDGE_LIMIT,
) -> list[Relation]:
    """Return the relations with one of these ends that a search may go along.

    One query, and if there are more than are read, another without the hubs among the ends, which would crowd out those
    of all others.
    """
    found: dict[str, BaseGraphObject] = {}
    left = {kind: list(ids) for kind, ids in ends.items() if ids}
    for _ in range(1 + HUBS):
        touching = [eq("ends", kind) & (in_list("lhs", ids) | in_list("rhs", ids)) for kind, ids in left.items()]
        rows = await _recall_rows(
            request, chain_filters(reduce(or_, touching), expr), store=store, fields=fields, limit=limit
        )
        found |= {each.uuid: each for each in rows}
        held = Counter(end for each in rows if isinstance(each, Relation) for end in {each.lhs, each.rhs})
        hubs = {end for end, count in held.items() if count > limit // HUB_SHARE}
        others = {kind: [each for each in ids if each not in hubs] for kind, ids in left.items()}
        others = {kind: ids for kind, ids in others.items() if ids}
        if len(rows) < limit or others == left or not others:
            break
        left = others
    return await _recall_passable(request, list(found.values()), store=store)


async def recall_between(request: SearchRequest, ids: Sequence[str], *, store: GraphStore) -> list[Relation]:
    """Return the relations between any two of these entities that a search may go along."""
    between = eq("ends", "entity") & in_list("lhs", ids) & in_list("rhs", ids)
    rows = await _recall_rows(request, between, store=store, fields=(), limit=EDGE_LIMIT)
    return await _recall_passable(request, rows, store=store)


async def _recall_rows(
    request: SearchRequest, expr: QueryExpr, *, store: GraphStore, fields: Sequence[str], limit: int
) -> list[BaseGraphObject]:
    time, told = request.time, request.told
    columns = dict.fromkeys(("lhs", "rhs", *fields, *time.fields(), *(sorted(told.fields()) if told else ())))
    return await store.query(
        RELATION_COLLECTION,
        user=request.user,
        expr=chain_filters(expr, *time.conditions()),
        limit=limit,
        output_fields=list(columns),
    )


async def _recall_passable(
    request: SearchRequest, rows: Sequence[BaseGraphObject], *, store: GraphStore
) -> list[Relation]:
    """Return relations without those that are no ways.

    A fact must have been learnt where the search asks, and each relation must have been known and have held at the
    moments it asks about: what a search must not find is no way to what it finds.
    """
    told = request.told
    held = await recall_held(rows, request.time, user=request.user, store=store)
    links = [each for each in held if isinstance(each, Relation)]
    return [each for each in links if told is None or each.kind != "fact" or each.fulfils(told)]


async def recall_listed(
    request: SearchRequest, ids: Sequence[str], *, expr: QueryExpr | None, store: GraphStore
) -> list[BaseGraphObject]:
    """Return the objects of these ids that fulfil a condition and held, with the columns that the search works on."""
    if not ids:
        return []
    rows = await store.query(
        request.collection, user=request.user, ids=ids, expr=expr, output_fields=request.working_fields()
    )
    return await recall_held(rows, request.time, user=request.user, store=store)


async def recall_held(
    found: Sequence[BaseGraphObject], time: AskedTime, *, user: QueryExpr, store: GraphStore
) -> list[BaseGraphObject]:
    """Return objects as they were known, without what did not hold, at the moments asked about.

    When a fact that was replaced without a date ended, the facts that replaced it tell; these are read by id, whether
    the search is about them or not.
    """
    seen = [time.seen(each) for each in found]
    replaced_by = dict.fromkeys(uuid for each in seen for uuid in time.undated_heirs(each))
    heirs = (
        await store.query(
            RELATION_COLLECTION,
            user=user,
            ids=list(replaced_by),
            expr=None if time.known_at is None else lte("created_at", time.known_at),
            output_fields=["first_mentioned_at"],
        )
        if replaced_by
        else []
    )
    told = {each.uuid: each.first_mentioned_at for each in heirs if isinstance(each, Relation)}
    return [each for each in seen if time.admits(each, told)]
