"""Writes given objects into a memory, page by page: compared first, then through the commit path. Writes the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from jiuwen_memory.errors import ExchangeConflictError, InvalidInputError, JiuwenMemoryError, StoreParameterError
from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.locks import Lease
from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.checks import check_row
from jiuwen_memory.foundation.store.graph.columns import collection_columns
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation
from jiuwen_memory.foundation.store.query import filter_user, ne
from jiuwen_memory.integrations.exchange.reports import ImportReport, OnProgress, Progress
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_update, embedding_key
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder, attached_embedder
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate

Pages = Callable[[], AsyncGenerator[list[BaseGraphObject], None]]
"""Gives the objects from the beginning, a page of them at a time, each time it is called."""


@dataclass(frozen=True)
class Task:
    """What is to be written for a user; `hint` tells how to keep out of the way of ids of others."""

    user_id: str
    pages: Pages
    total: int
    replace: bool = False
    hint: str = ""
    on_progress: OnProgress | None = None


@dataclass(frozen=True)
class _Compared:
    """Objects of a page that are not in the store, or not as they shall be, and how many are there as they shall be."""

    new: list[BaseGraphObject]
    changed: list[BaseGraphObject]
    unchanged: int
    foreign: int


async def commit_objects(task: Task, lease: Lease, memory: GraphMemory) -> ImportReport:
    """Write whole objects, page by page, each page all or nothing. Call it under the user's lock.

    Objects that are stored as they shall be are passed over, so an import that was interrupted goes on where it
    stopped. Before anything is written, all pages are looked at.

    Raises:
        ExchangeConflictError: ids exist already: another user's, or with other content and without `replace`.
        InvalidInputError: an object does not fit the store.
        EmbeddingCallError, StoreError: writing failed; the pages before it are stored.
    """
    store, embedder = memory.db_backend, attached_embedder(memory.db_backend)
    await _refuse_conflicts(task, store)
    counts: Counter[str] = Counter()
    async with aclosing(task.pages()) as pages:
        async for page in pages:
            found = await _compare(page, task.user_id, store)
            try:
                await _commit_page(found, task.user_id, lease, store=store, embedder=embedder)
            except JiuwenMemoryError as error:
                stored = counts.total()
                error.add_note(f"{stored} of {task.total} objects were imported before that; import again to go on.")
                raise
            counts.update(added=len(found.new), replaced=len(found.changed), unchanged=found.unchanged)
            if task.on_progress:
                task.on_progress(Progress(counts.total(), task.total))
    return ImportReport(task.user_id, counts["added"], counts["replaced"], counts["unchanged"])


async def _refuse_conflicts(task: Task, store: GraphStore) -> None:
    changed = foreign = 0
    async with aclosing(task.pages()) as pages:
        async for page in pages:
            found = await _compare(page, task.user_id, store)
            try:
                await off_loop(None, _check_page, [*found.new, *found.changed], store.config)
            except StoreParameterError as error:
                raise InvalidInputError(f"Nothing was imported: {error.message}") from error
            changed += len(found.changed)
            foreign += found.foreign
    if foreign:
        raise ExchangeConflictError(
            f"{foreign} of {task.total} ids belong to another user of this store; nothing was imported.{task.hint}",
            count=foreign,
        )
    if changed and not task.replace:
        raise ExchangeConflictError(
            f"{changed} of {task.total} ids exist already with other content; nothing was imported. With "
            "replace=True the imported objects take their place.",
            count=changed,
        )


def _check_page(page: Sequence[BaseGraphObject], config: GraphConfig) -> None:
    placeholder = [0.0] * config.embed_dim
    for each in page:
        row = each.revise(**dict.fromkeys(each.vectors, placeholder)).to_row()
        check_row(row, collection_columns(each.collection, config), collection=each.collection)


async def _compare(page: Sequence[BaseGraphObject], user_id: str, store: GraphStore) -> _Compared:
    new: list[BaseGraphObject] = []
    changed: list[BaseGraphObject] = []
    unchanged = foreign = 0
    for collection in GRAPH_COLLECTIONS:
        wanted = [each for each in page if each.collection == collection]
        if not wanted:
            continue
        ids = [each.uuid for each in wanted]
        stored = {
            each.uuid: each
            for each in await store.query(collection, user=filter_user(user_id), ids=ids, consistency="strong")
        }
        missing = [uuid for uuid in ids if uuid not in stored]
        others = await store.query(
            collection, user=ne("user_id", user_id), ids=missing, output_fields=["uuid"], consistency="strong"
        )
        foreign += len(others)
        new += [each for each in wanted if each.uuid not in stored]
        differing = [each for each in wanted if each.uuid in stored and _plain(each) != _plain(stored[each.uuid])]
        changed += differing
        unchanged += len(stored) - len(differing)
    return _Compared(new, changed, unchanged, foreign)


def _plain(each: BaseGraphObject) -> BaseGraphObject:
    """Return an object without what depends on the embedding model."""
    return each.revise(embedding_key="", **dict.fromkeys(each.vectors))


async def _commit_page(found: _Compared, user_id: str, lease: Lease, *, store: GraphStore, embedder: Embedder) -> None:
    new = [with_fitting_vectors(each, embedder) for each in found.new]
    changed = [with_fitting_vectors(each, embedder) for each in found.changed]
    update = GraphMemUpdate(
        added_episode=[each for each in new if isinstance(each, Episode)],
        updated_episode=[each for each in changed if isinstance(each, Episode)],
        added_entity=[each for each in new if isinstance(each, Entity)],
        updated_entity=[each for each in changed if isinstance(each, Entity)],
        added_relation=[each for each in new if isinstance(each, Relation)],
        updated_relation=[each for each in changed if isinstance(each, Relation)],
    )
    await commit_update(update, user_id, store=store, embedder=embedder, confirm=lease.confirm)


def with_fitting_vectors(each: BaseGraphObject, embedder: Embedder) -> BaseGraphObject:
    """Return an object without the vectors that the attached model would not have made of its texts."""
    pairs = zip(each.vectors, embedding_key(each, embedder.name).split("."), _keys(each), strict=True)
    stale = [
        column
        for column, wanted, has in pairs
        if wanted != has or len(getattr(each, column) or ()) != embedder.dimension
    ]
    return each.revise(**dict.fromkeys(stale))


def _keys(each: BaseGraphObject) -> list[str]:
    keys = each.embedding_key.split(".")
    return keys if len(keys) == len(each.vectors) else [""] * len(each.vectors)
