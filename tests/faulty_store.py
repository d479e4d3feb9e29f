"""A graph store that fails on demand at one of its writing calls, around any other backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from jiuwen_memory.errors import StoreUnavailableError
from jiuwen_memory.foundation.ports import Embedding
from jiuwen_memory.foundation.store.graph import (
    BaseGraphObject,
    GraphConfig,
    GraphStore,
    GraphStoreFactory,
    Hit,
    Journal,
    JournalEntry,
    SearchQuery,
)
from jiuwen_memory.foundation.store.graph.base import Consistency
from jiuwen_memory.foundation.store.graph.result_ranking import BaseRankConfig, Channel
from jiuwen_memory.foundation.store.query import QueryExpr


class Faults:
    """Counts writing calls and decides which one fails: number `fail_at` (from 0), before or after its work."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fail_at: int | None = None
        self.after = False

    def arm(self, number: int | None, *, after: bool = False) -> None:
        """Start counting anew; this call will fail."""
        self.calls, self.fail_at, self.after = [], number, after

    def count(self, name: str) -> bool:
        """Note a call, and tell whether it is the one that fails."""
        self.calls.append(name)
        return self.fail_at == len(self.calls) - 1


class FaultyJournal:
    """The journal of a faulty store."""

    def __init__(self, journal: Journal, faults: Faults) -> None:
        self._journal = journal
        self._faults = faults

    async def put(self, entry: JournalEntry) -> None:
        fails = self._faults.count("journal.put")
        _fail(fails and not self._faults.after)
        await self._journal.put(entry)
        _fail(fails)

    async def entries(self, user_id: str | None = None) -> list[JournalEntry]:
        return await self._journal.entries(user_id)

    async def remove(self, plan_id: str, user_id: str) -> None:
        fails = self._faults.count("journal.remove")
        _fail(fails and not self._faults.after)
        await self._journal.remove(plan_id, user_id)
        _fail(fails)

    async def drop_unfinished(self, user_id: str) -> int:
        return await self._journal.drop_unfinished(user_id)

    async def unfinished(self, user_id: str | None = None) -> dict[str, int]:
        return await self._journal.unfinished(user_id)

    async def clear(self, user_id: str) -> None:
        fails = self._faults.count("journal.clear")
        _fail(fails and not self._faults.after)
        await self._journal.clear(user_id)
        _fail(fails)


class FaultyStore:
    """Does what the store inside does, but for the one call that its faults name."""

    config: GraphConfig
    journal: Journal

    def __init__(self, store: GraphStore) -> None:
        self.config = store.config
        self.faults = Faults()
        self.journal = FaultyJournal(store.journal, self.faults)
        self._store = store

    @classmethod
    def from_config(cls, config: GraphConfig, *, inner: str = "memory", **kwargs: object) -> Self:
        return cls(GraphStoreFactory.from_config(config, inner, **kwargs))

    @property
    def identity(self) -> str:
        return self._store.identity

    @property
    def embedder(self) -> Embedding | None:
        return self._store.embedder

    def attach_embedder(self, embedder: Embedding) -> None:
        self._store.attach_embedder(embedder)

    async def open(self) -> None:
        await self._store.open()

    async def upsert(self, collection: str, objects: Sequence[BaseGraphObject]) -> None:
        fails = self.faults.count(f"upsert {collection}")
        _fail(fails and not self.faults.after)
        await self._store.upsert(collection, objects)
        _fail(fails)

    async def delete(self, collection: str, ids: Sequence[str], *, user_id: str) -> None:
        fails = self.faults.count(f"delete {collection}")
        _fail(fails and not self.faults.after)
        await self._store.delete(collection, ids, user_id=user_id)
        _fail(fails)

    async def flush(self, collections: Sequence[str]) -> None:
        fails = self.faults.count("flush")
        _fail(fails and not self.faults.after)
        await self._store.flush(collections)
        _fail(fails)

    async def query(
        self,
        collection: str,
        *,
        user: QueryExpr,
        ids: Sequence[str] | None = None,
        expr: QueryExpr | None = None,
        limit: int | None = None,
        output_fields: Sequence[str] | None = None,
        consistency: Consistency = "session",
    ) -> list[BaseGraphObject]:
        return await self._store.query(
            collection,
            user=user,
            ids=ids,
            expr=expr,
            limit=limit,
            output_fields=output_fields,
            consistency=consistency,
        )

    async def search(
        self,
        collection: str,
        queries: Sequence[SearchQuery],
        *,
        user: QueryExpr,
        rank: BaseRankConfig,
        limit: int,
        pool: int = 100,
        expr: QueryExpr | None = None,
        output_fields: Sequence[str] | None = None,
        consistency: Consistency = "session",
    ) -> list[list[Hit]]:
        return await self._store.search(
            collection,
            queries,
            user=user,
            rank=rank,
            limit=limit,
            pool=pool,
            expr=expr,
            output_fields=output_fields,
            consistency=consistency,
        )

    async def routes(
        self,
        collection: str,
        query: SearchQuery,
        *,
        user: QueryExpr,
        channels: Sequence[Channel],
        limit: int = 100,
        expr: QueryExpr | None = None,
        output_fields: Sequence[str] | None = None,
        consistency: Consistency = "session",
    ) -> dict[Channel, list[Hit]]:
        return await self._store.routes(
            collection,
            query,
            user=user,
            channels=channels,
            limit=limit,
            expr=expr,
            output_fields=output_fields,
            consistency=consistency,
        )

    async def count(self, collection: str, *, user: QueryExpr) -> int:
        return await self._store.count(collection, user=user)

    async def refresh(self) -> None:
        await self._store.refresh()

    async def close(self) -> None:
        await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


def _fail(fails: bool) -> None:
    if fails:
        raise StoreUnavailableError("The store was told to fail.")
