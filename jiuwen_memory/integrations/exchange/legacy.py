"""Takes over a store of JiuwenMemory 0.1 or openjiuwen. Reads that store, writes the memory's own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.foundation.store.graph.milvus.legacy import LegacyStore
from jiuwen_memory.integrations.exchange.legacy_rows import STRUCTURE, LegacyGraph, resolve_graph, to_objects
from jiuwen_memory.integrations.exchange.lines import PAGE
from jiuwen_memory.integrations.exchange.reports import ImportReport, OnProgress, StoreReport
from jiuwen_memory.integrations.exchange.writing import Task, commit_objects
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.commit import WRITE_ORDER
from jiuwen_memory.memory_core.graph.graph_memory.requests import parse_user_id


async def import_store(
    memory: GraphMemory,
    uri: str | Path,
    *,
    user_id: str | None = None,
    name: str = "",
    token: str = "",
    replace: bool = False,
    on_progress: OnProgress | None = None,
) -> StoreReport:
    """Take over a graph store that JiuwenMemory 0.1 or openjiuwen wrote, and tell what was new, user by user.

    Ids, texts, times and owners stay; counts, sources of facts and links are worked out anew, and texts are embedded by
    the attached model. Nothing is written to the old store. Users are imported one after the other, each under their
    lock and checked as a whole before anything is written; importing again goes on where it stopped.

    Args:
        uri: the path (Milvus Lite) or URI the old store was made with.
        user_id: whose rows are taken over; everyone's by default.
        name, token: the old store's database and authentication token.
        replace: objects take the place of those with the same id and other content.
        on_progress: is called for each user anew.

    Raises:
        StoreUnavailableError: there is no such store.
        SchemaMismatchError: it is not one of those packages.
        InvalidInputError: one of its users, or an object, does not fit this store.
        ExchangeConflictError: ids of it are another user's here, or exist with other content and without `replace`.
        EmbeddingCallError, StoreError: writing failed in the middle.
    """
    storage = memory.config.db_storage_config
    if not str(uri).strip():
        raise InvalidInputError(f"uri is {str(uri)!r}; give the path or the URI of the old store.")
    config = GraphConfig(uri=str(uri), name=name, token=token, timeout=memory.config.timeout)
    async with LegacyStore(config) as old:
        found = await old.users()
        wanted = [parse_user_id(each, storage) for each in found if user_id in (None, each)]
        if user_id is not None and not wanted:
            raise InvalidInputError(f"{uri} holds nothing of user {user_id!r}; its users are {_shown(found)}.")
        reports: dict[str, ImportReport] = {}
        for user in wanted:
            reports[user] = await _import_user(user, old, memory, replace=replace, on_progress=on_progress)
    return StoreReport(reports)


async def _import_user(
    user_id: str, old: LegacyStore, memory: GraphMemory, *, replace: bool, on_progress: OnProgress | None
) -> ImportReport:
    rows = {name: await old.rows(name, user_id, fields=columns) for name, columns in STRUCTURE.items()}
    graph = await off_loop(None, resolve_graph, rows, memory.config.db_storage_config)
    task = Task(
        user_id,
        pages=partial(_pages, user_id, old, graph),
        total=sum(len(graph.ids(collection)) for collection in WRITE_ORDER),
        replace=replace,
        on_progress=on_progress,
    )
    async with memory.hold(user_id) as lease:
        report = await commit_objects(task, lease, memory)
    return ImportReport(user_id, report.added, report.replaced, report.unchanged, graph.warnings())


async def _pages(user_id: str, old: LegacyStore, graph: LegacyGraph) -> AsyncGenerator[list[BaseGraphObject], None]:
    for collection in WRITE_ORDER:
        ids = graph.ids(collection)
        for start in range(0, len(ids), PAGE):
            rows = await old.rows(collection, user_id, ids=ids[start : start + PAGE])
            yield await off_loop(None, to_objects, collection, rows, graph)


def _shown(users: list[str]) -> str:
    return ", ".join(map(repr, users[:10])) + (" and others" if len(users) > 10 else "") or "none"
