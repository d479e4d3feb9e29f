"""Brings a store to today's schema: new collections, filled and compared. Writes only what is not yet in use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from jiuwen_memory.foundation.concurrency import tell
from jiuwen_memory.foundation.store.graph.base import Migration
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.memory_core.graph.graph_memory.commit import embedding_key
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder

PAGE: Final = 200
"""Rows read, embedded and written at once."""


@dataclass(frozen=True)
class MigrationProgress:
    """How far `migrate` is in a collection: rows looked at, and how many of them were copied, and embedded, just now.

    Rows that an interrupted call had copied are looked at only.
    """

    collection: str = ""
    total: int = 0
    done: int = 0
    copied: int = 0
    embedded: int = 0


@dataclass(frozen=True)
class MigrationReport:
    """What `migrate` did: for each collection that was made anew how many rows it has, and what was wrong with it.

    Nothing is listed where all was as it should be.
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    differences: Mapping[str, Sequence[str]] = field(default_factory=dict)
    copied: int = 0
    embedded: int = 0


OnMigration = Callable[[MigrationProgress], Awaitable[None] | None]
GetEmbedder = Callable[[], Embedder]


async def migrate_store(
    migration: Migration, *, embedder: GetEmbedder, keep_old: bool, on_progress: OnMigration | None
) -> MigrationReport:
    """Fill new collections, compare them with the old ones, and put them in their place.

    `embedder` is asked for only if there is a row whose vectors do not fit.
    """
    differences = await migration.collections()
    rows: dict[str, int] = {}
    copied = embedded = 0
    for collection in differences:
        done = await _copy(collection, migration, embedder=embedder, on_progress=on_progress)
        copied, embedded = copied + done.copied, embedded + done.embedded
        rows[collection] = await migration.verify(collection)
    # Not before all of them are right: a store half of which is new would fit no settings at all.
    await migration.swap(list(differences), keep_old=keep_old)
    return MigrationReport(rows, differences, copied, embedded)


async def _copy(
    collection: str, migration: Migration, *, embedder: GetEmbedder, on_progress: OnMigration | None
) -> MigrationProgress:
    ids = await migration.ids(collection)
    progress = MigrationProgress(collection, len(ids))
    for start in range(0, len(ids), PAGE):
        page = ids[start : start + PAGE]
        found = await migration.unlike(collection, page)
        copied = embedded = 0
        if isinstance(found, int):
            copied = found
        elif found:
            lacking = [each for each in found if _lacking(each)]
            whole = [each for each in found if not _lacking(each)]
            await migration.write(collection, [*whole, *(await _embedded(lacking, embedder) if lacking else ())])
            copied, embedded = len(found), len(lacking)
        progress = replace(
            progress,
            done=progress.done + len(page),
            copied=progress.copied + copied,
            embedded=progress.embedded + embedded,
        )
        await tell(on_progress, progress)
    return progress


def _lacking(each: BaseGraphObject) -> bool:
    return any(getattr(each, column) is None for column in each.vectors)


async def _embedded(objects: Sequence[BaseGraphObject], embedder: GetEmbedder) -> list[BaseGraphObject]:
    """Return objects with all their vectors made anew: two models in one row would be worse than none."""
    model = embedder()
    texts = list(dict.fromkeys(text for each in objects for text in each.embedded_texts().values()))
    vectors = dict(zip(texts, await model.embed_documents(texts), strict=True))
    return [
        each.revise(
            embedding_key=embedding_key(each, model.name),
            **{column: vectors[text] for column, text in each.embedded_texts().items()},
        )
        for each in objects
    ]
