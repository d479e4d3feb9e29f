"""A graph store around another one: it passes each call on, and a subclass changes what it wants. Touches the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from jiuwen_memory.foundation.ports import Embedding
from jiuwen_memory.foundation.store.graph.base import Consistency, GraphStore, Hit, Journal, SearchQuery
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.factory import GraphStoreFactory
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.foundation.store.graph.result_ranking import BaseRankConfig, Channel
from jiuwen_memory.foundation.store.query import QueryExpr


class StoreAround:
    """Does what the store inside does; `inner` is the backend of that store, where a configuration is built."""

    config: GraphConfig
    journal: Journal
    inner: ClassVar[str] = "milvus"

    def __init__(self, store: GraphStore) -> None:
        self.config = store.config
        self.journal = store.journal
        self._store = store

    @classmethod
    def from_config(cls, config: GraphConfig, **kwargs: object) -> Self:
        """Build the store around one of the backend `inner`; no I/O happens here."""
        return cls(GraphStoreFactory.from_config(config, cls.inner, **kwargs))

    @property
    def identity(self) -> str:
        """That of the store inside."""
        return self._store.identity

    @property
    def embedder(self) -> Embedding | None:
        """That of the store inside."""
        return self._store.embedder

    def attach_embedder(self, embedder: Embedding) -> None:
        """Attach an embedding model to the store inside."""
        self._store.attach_embedder(embedder)

    async def open(self) -> None:
        """Open the store inside."""
        await self._store.open()

    async def upsert(self, collection: str, objects: Sequence[BaseGraphObject]) -> None:
        """Write to the store inside."""
        await self._store.upsert(collection, objects)

    async def delete(self, collection: str, ids: Sequence[str], *, user_id: str) -> None:
        """Delete from the store inside."""
        await self._store.delete(collection, ids, user_id=user_id)

    async def flush(self, collections: Sequence[str]) -> None:
        """Flush the store inside."""
        await self._store.flush(collections)

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
        """Return what the store inside returns."""
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
        """Return what the store inside finds."""
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
        """Return what each channel of the store inside finds."""
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
        """Count the rows of the store inside."""
        return await self._store.count(collection, user=user)

    async def refresh(self) -> None:
        """Refresh the store inside."""
        await self._store.refresh()

    async def close(self) -> None:
        """Close the store inside."""
        await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
