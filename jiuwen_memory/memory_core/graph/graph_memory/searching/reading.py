"""What the parts of the graph search read alike: relations to go along, and objects by id. Reads the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.constants import RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Relation
from jiuwen_memory.foundation.store.query import QueryExpr, chain_filters
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchRequest

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
    links = [each for each in rows if isinstance(each, Relation)]
    return [
        each for each in links if (told is None or each.kind != "fact" or each.fulfils(told)) and _held(request, each)
    ]


def _held(request: SearchRequest, link: Relation) -> bool:
    return request.time.admits(request.time.seen(link), {})


async def recall_listed(
    request: SearchRequest, ids: Sequence[str], *, expr: QueryExpr | None, store: GraphStore
) -> list[BaseGraphObject]:
    """Return the objects of these ids that fulfil a condition, with the columns that the search works on."""
    if not ids:
        return []
    return await store.query(
        request.collection, user=request.user, ids=ids, expr=expr, output_fields=request.working_fields()
    )
