"""Reading rows in the ways Milvus's limits ask for. Touches the store, reading only, in the caller's thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from jiuwen_memory.foundation.store.graph.base import Consistency
from jiuwen_memory.foundation.store.graph.checks import simplify, storable_ids
from jiuwen_memory.foundation.store.graph.columns import Column
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.foundation.store.graph.milvus.filters import any_of, render
from jiuwen_memory.foundation.store.query import And, QueryExpr, in_list

WINDOW: Final = 16_384
"""Rows a server gives in one answer."""
IDS_PER_CALL: Final = 500
_ITERATOR_BATCH: Final = 2_000

CONSISTENCY: Final[Mapping[Consistency, str]] = {"strong": "Strong", "session": "Session"}


def chunks(ids: Sequence[str], size: int = IDS_PER_CALL) -> Iterator[Sequence[str]]:
    """Yield the ids in pieces; parsing a long list costs more than a second call."""
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def as_objects(
    rows: Iterable[Mapping[str, Any]], kind: type[BaseGraphObject], columns: Mapping[str, Column]
) -> list[BaseGraphObject]:
    """Return the objects that rows describe, with plain lists, whatever the client's containers are."""
    listed = [name for name, column in columns.items() if column.kind in ("array", "dense")]
    objects: list[BaseGraphObject] = []
    for row in rows:
        lists = {name: list(row[name]) for name in listed if row.get(name) is not None}
        objects.append(kind.from_row({**row, **lists}))
    return objects


def fetch_matching(
    client: Any,
    collection: str,
    expr: QueryExpr,
    *,
    fields: Sequence[str],
    limit: int | None,
    settings: Mapping[str, Any],
    lite: bool,
    window: int = WINDOW,
) -> list[Mapping[str, Any]]:
    """Return the rows that fulfil a simplified filter: all of them, or `limit` of them."""
    written = render(expr)
    wanted: dict[str, Any] = {"filter": written, "output_fields": list(fields), **settings}
    if lite or (limit is not None and limit <= window):
        return list(client.query(collection, **wanted, **({} if limit is None else {"limit": limit})))
    first = list(client.query(collection, **wanted, limit=window))
    if len(first) < window:
        return first
    iterator = client.query_iterator(
        collection, batch_size=_ITERATOR_BATCH, limit=-1 if limit is None else limit, **wanted
    )
    found: list[Mapping[str, Any]] = []
    try:
        while batch := iterator.next():
            found.extend(batch)
    finally:
        iterator.close()
    return found


def fetch_by_ids(
    client: Any,
    collection: str,
    ids: Sequence[str],
    *,
    conditions: QueryExpr,
    fields: Sequence[str],
    settings: Mapping[str, Any],
    lite: bool,
) -> list[Mapping[str, Any]]:
    """Return the rows of these ids, in their order, that fulfil the conditions.

    On Lite a filter of nothing but ids is a lookup, several times faster than a scan; the conditions, the owner above
    all, are then applied here.
    """
    names = list(dict.fromkeys([*fields, *(sorted(conditions.fields()) if lite else ())]))
    found: dict[str, Mapping[str, Any]] = {}
    for part in chunks(storable_ids(ids)):
        written = any_of("uuid", part) if lite else f"{any_of('uuid', part)} and ({render(conditions)})"
        for row in client.query(collection, filter=written, output_fields=names, **settings):
            if not lite or conditions.matches(row):
                found[row["uuid"]] = row
    return [found[uuid] for uuid in dict.fromkeys(ids) if uuid in found]


def looked_up(
    client: Any, collection: str, expr: QueryExpr, *, columns: Mapping[str, Column], settings: Mapping[str, Any]
) -> QueryExpr | bool:
    """Return a simplified filter that is cheap to ask Lite for again and again, as every channel of a search does.

    Lite reads a condition on a list row by row, tens of times slower than a list of ids, so it is asked only once.
    """
    if all(columns[name].kind != "array" for name in expr.fields()):
        return expr
    rows = client.query(collection, filter=render(expr), output_fields=["uuid"], **settings)
    return simplify(in_list("uuid", [row["uuid"] for row in rows]))


def all_of(*conditions: QueryExpr | None) -> QueryExpr | bool:
    """Return the conditions joined and simplified."""
    return simplify(And(tuple(condition for condition in conditions if condition is not None)))
