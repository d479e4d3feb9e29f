"""Gives every row new vectors, in its own store or in a copy. Asks no model for words; writes through `commit.py`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from jiuwen_memory.errors import StoreError
from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.memory_core.graph.graph_memory.audit import Confirm
from jiuwen_memory.memory_core.graph.graph_memory.commit import WRITE_ORDER, commit_update, embedding_key
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder
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


@dataclass(frozen=True)
class Stores:
    """Where rows come from and where they go, which may be the same, and the embedder of the latter."""

    source: GraphStore
    target: GraphStore
    embedder: Embedder
    confirm: Confirm


async def reembed_user(
    user_id: str, stores: Stores, *, before: ReembedProgress, on_progress: OnReembed | None
) -> ReembedProgress:
    """Write a user's rows with vectors of the embedder, a page at a time, and add up what was done.

    A row that is there already, with the right vectors, is passed over; so doing it again goes on where it stopped.
    Call it under the user's lock, in both stores.

    Raises:
        StoreError: afterwards the rows of the two stores are not the same; nothing was removed.
    """
    done = before
    for collection in WRITE_ORDER:
        ids = await _recall_ids(collection, user_id, stores.source)
        for start in range(0, len(ids), PAGE):
            done += await _commit_page(collection, ids[start : start + PAGE], user_id, stores)
            if on_progress:
                told = on_progress(done)
                if inspect.isawaitable(told):
                    await told
    if stores.source is not stores.target:
        for entry in await stores.source.journal.entries(user_id):
            await stores.target.journal.put(entry)
        await _verify(user_id, stores)
    return done + ReembedProgress(users=1)


async def _commit_page(collection: str, ids: Sequence[str], user_id: str, stores: Stores) -> ReembedProgress:
    user = filter_user(user_id)
    rows = await stores.source.query(collection, user=user, ids=ids, consistency="strong")
    wanted = [each.revise(embedding_key=embedding_key(each, stores.embedder.name)) for each in rows]
    present = rows
    if stores.source is not stores.target:
        present = await stores.target.query(collection, user=user, ids=ids, consistency="strong")
    there = {each.uuid: each for each in present}
    new = [each for each in wanted if there.get(each.uuid) != each]
    await commit_update(_update_of(new), user_id, store=stores.target, embedder=stores.embedder, confirm=stores.confirm)
    return ReembedProgress(embedded=len(new), kept=len(rows) - len(new))


def _update_of(rows: Sequence[BaseGraphObject]) -> GraphMemUpdate:
    return GraphMemUpdate(
        updated_episode=[each for each in rows if isinstance(each, Episode)],
        updated_entity=[each for each in rows if isinstance(each, Entity)],
        updated_relation=[each for each in rows if isinstance(each, Relation)],
    )


async def _verify(user_id: str, stores: Stores) -> None:
    for collection in WRITE_ORDER:
        source = set(await _recall_ids(collection, user_id, stores.source))
        target = set(await _recall_ids(collection, user_id, stores.target))
        if source != target:
            raise StoreError(
                f"After copying {collection} of {user_id!r}, {len(source - target)} rows are missing in the copy and "
                f"{len(target - source)} are in the copy only. Copy into a store that holds nothing else of this user "
                "and that nobody writes to meanwhile, and call reembed again."
            )


async def _recall_ids(collection: str, user_id: str, store: GraphStore) -> list[str]:
    rows = await store.query(collection, user=filter_user(user_id), output_fields=["uuid"], consistency="strong")
    return sorted(each.uuid for each in rows)
