"""What the parts of a search read alike: what held, relations to go along, objects by id. Reads the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.constants import RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Relation
from jiuwen_memory.foundation.store.query import QueryExpr, chain_filters, lte
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchRequest
from jiuwen_memory.memory_core.graph.graph_memory.searching.times import AskedTime

EDGE_LIMIT: Final = 500


async def recall_links(
    request: SearchRequest,
    touching: QueryExpr,
    *,
    store: GraphStore,
    fields: Sequence[str] = (),
    limit: int = EDGE_LIMIT,
) -> list[Relation]:
    """Return the relations that a search may go along, among those that touch what it has.

    A fact must have been learnt where the search asks, and each relation must have been known and have held at the
    moments it asks about: what a search must not find is no way to what it finds.
    """
    time, told = request.time, request.told
    columns = dict.fromkeys(("lhs", "rhs", *fields, *time.fields(), *(sorted(told.fields()) if told else ())))
    rows = await store.query(
        RELATION_COLLECTION,
        user=request.user,
        expr=chain_filters(touching, *time.conditions()),
        limit=limit,
        output_fields=list(columns),
    )
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
