"""Gives every row new vectors, in its own store or in a copy. Asks no model for words; writes through `commit.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

from jiuwen_memory.errors import StoreError
from jiuwen_memory.foundation.concurrency import tell
from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.memory_core.graph.graph_memory.commit import WRITE_ORDER, commit_update, embedding_key
from jiuwen_memory.memory_core.graph.graph_memory.core import GetHold, Hold
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate

PAGE: Final = 200
"""Rows embedded and written at once, all or nothing."""


@dataclass(frozen=True)
class ReembedProgress:
    """How far `reembed` is: users that are done, rows with new vectors, and rows whose vectors were right already."""

    users: int = 0
    embedded: int = 0
    kept: int = 0

    @property
    def rows(self) -> int:
        """Every row that was looked at."""
        return self.embedded + self.kept

    def __add__(self, other: ReembedProgress) -> ReembedProgress:
        return ReembedProgress(self.users + other.users, self.embedded + other.embedded, self.kept + other.kept)


OnReembed = Callable[[ReembedProgress], Awaitable[None] | None]


async def reembed_user(
    user_id: str, store: GraphStore, *, hold: GetHold, before: ReembedProgress, on_progress: OnReembed | None
) -> ReembedProgress:
    """Give a user's rows vectors of the held embedder, a page at a time, and add up what was done.

    A row that has the right vectors is passed over; so doing it again goes on where it stopped. The user is held for
    one page at a time.
    """
    return await _reembed(user_id, store, store, hold=hold, before=before, on_progress=on_progress)


async def copy_user(
    user_id: str,
    source: GraphStore,
    target: GraphStore,
    *,
    held: Hold,
    before: ReembedProgress,
    on_progress: OnReembed | None,
) -> ReembedProgress:
    """Write a user's rows into another store, with vectors of its embedder; what is there already is passed over.

    Call it while the user is held in both stores.

    Raises:
        StoreError: afterwards the rows of the two stores are not the same; nothing was removed.
    """
    done = await _reembed(
        user_id, source, target, hold=lambda: nullcontext(held), before=before, on_progress=on_progress
    )
    for entry in await source.journal.entries(user_id):
        await target.journal.put(entry)
    await _verify(user_id, source, target)
    return done


async def _reembed(
    user_id: str,
    source: GraphStore,
    target: GraphStore,
    *,
    hold: GetHold,
    before: ReembedProgress,
    on_progress: OnReembed | None,
) -> ReembedProgress:
    done = before
    for collection in WRITE_ORDER:
        async with hold():
            ids = await _recall_ids(collection, user_id, source)
        for start in range(0, len(ids), PAGE):
            async with hold() as held:
                done += await _commit_page(collection, ids[start : start + PAGE], user_id, source, target, held=held)
            await tell(on_progress, done)
    return done + ReembedProgress(users=1)


async def _commit_page(
    collection: str, ids: Sequence[str], user_id: str, source: GraphStore, target: GraphStore, *, held: Hold
) -> ReembedProgress:
    user, embedder = filter_user(user_id), held.embedder
    rows = await source.query(collection, user=user, ids=ids, consistency="strong")
    wanted = [each.revise(embedding_key=embedding_key(each, embedder.name)) for each in rows]
    present = rows
    if source is not target:
        present = await target.query(collection, user=user, ids=ids, consistency="strong")
    there = {each.uuid: each for each in present}
    new = [each for each in wanted if there.get(each.uuid) != each]
    await commit_update(_update_of(new), user_id, store=target, embedder=embedder, confirm=held.lease.confirm)
    return ReembedProgress(embedded=len(new), kept=len(rows) - len(new))


def _update_of(rows: Sequence[BaseGraphObject]) -> GraphMemUpdate:
    return GraphMemUpdate(
        updated_episode=[each for each in rows if isinstance(each, Episode)],
        updated_entity=[each for each in rows if isinstance(each, Entity)],
        updated_relation=[each for each in rows if isinstance(each, Relation)],
    )


async def _verify(user_id: str, source: GraphStore, target: GraphStore) -> None:
    for collection in WRITE_ORDER:
        old = set(await _recall_ids(collection, user_id, source))
        new = set(await _recall_ids(collection, user_id, target))
        if old != new:
            raise StoreError(
                f"After copying {collection} of {user_id!r}, {len(old - new)} rows are missing in the copy and "
                f"{len(new - old)} are in the copy only. Copy into a store that holds nothing else of this user "
                "and that nobody writes to meanwhile, and call reembed again."
            )


async def _recall_ids(collection: str, user_id: str, store: GraphStore) -> list[str]:
    rows = await store.query(collection, user=filter_user(user_id), output_fields=["uuid"], consistency="strong")
    return sorted(each.uuid for each in rows)
