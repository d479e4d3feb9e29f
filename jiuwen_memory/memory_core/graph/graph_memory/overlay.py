"""A graph store as it would be after a change that is not written: what one text is planned against. Only reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from jiuwen_memory.errors import StoreError
from jiuwen_memory.foundation.ports import Embedding
from jiuwen_memory.foundation.store.graph.around import StoreAround
from jiuwen_memory.foundation.store.graph.base import Consistency, GraphStore, Hit, SearchQuery
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.foundation.store.graph.result_ranking import BaseRankConfig, Channel
from jiuwen_memory.foundation.store.query import QueryExpr
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate


class OverlaidStore(StoreAround):
    """Another store, with an update laid over it. Nothing can be written to it.

    Changed rows are found by what they say now, except that a search looks for them by what is stored.
    """

    def __init__(self, store: GraphStore, update: GraphMemUpdate) -> None:
        super().__init__(store)
        self._changed = {each.uuid: each for each in update.objects()}
        removed = update.removed_episode | update.removed_entity | update.removed_relation
        self._hidden = removed | self._changed.keys()

    @classmethod
    def from_config(cls, config: object, **kwargs: object) -> Self:
        """Refuse: it is laid over a store that is there."""
        raise StoreError("An overlaid store is made of a store and an update.")

    def attach_embedder(self, embedder: Embedding) -> None:
        """Refuse to change the store below."""
        raise _read_only()

    async def upsert(self, collection: str, objects: Sequence[BaseGraphObject]) -> None:
        """Refuse to write."""
        raise _read_only()

    async def delete(self, collection: str, ids: Sequence[str], *, user_id: str) -> None:
        """Refuse to write."""
        raise _read_only()

    async def flush(self, collections: Sequence[str]) -> None:
        """Refuse to write."""
        raise _read_only()

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
        """Return the objects that fulfil the conditions after the change; changed ones come without vectors."""
        below = await self._store.query(
            collection,
            user=user,
            ids=ids,
            expr=expr,
            limit=None if limit is None else limit + len(self._hidden),
            output_fields=output_fields,
            consistency=consistency,
        )
        found = [each for each in below if each.uuid not in self._hidden]
        found += [
            each
            for each in self._changed.values()
            if each.collection == collection and (ids is None or each.uuid in ids) and _fulfils(each, user, expr)
        ]
        if ids is not None:
            place = {uuid: number for number, uuid in enumerate(ids)}
            found.sort(key=lambda each: place[each.uuid])
        return found[:limit]

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
        """Return the hits of the store below without those that are gone, and changed ones as they are now."""
        more = len(self._hidden)
        results = await self._store.search(
            collection,
            queries,
            user=user,
            rank=rank,
            limit=limit + more,
            pool=pool + more,
            expr=expr,
            output_fields=output_fields,
            consistency=consistency,
        )
        return [self._all_now(hits, user, expr)[:limit] for hits in results]

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
        """Return what each channel of the store below finds, without what is gone, and changed objects as they are."""
        routes = await self._store.routes(
            collection,
            query,
            user=user,
            channels=channels,
            limit=limit + len(self._hidden),
            expr=expr,
            output_fields=output_fields,
            consistency=consistency,
        )
        return {channel: self._all_now(hits, user, expr)[:limit] for channel, hits in routes.items()}

    async def count(self, collection: str, *, user: QueryExpr) -> int:
        """Return how many rows of this user there are after the change."""
        return len(await self.query(collection, user=user, output_fields=["uuid"]))

    async def refresh(self) -> None:
        """Refuse to write."""
        raise _read_only()

    async def close(self) -> None:
        """Do nothing: the store below is not this one's to close."""

    def _all_now(self, hits: Sequence[Hit], user: QueryExpr, expr: QueryExpr | None) -> list[Hit]:
        return [hit for each in hits if (hit := self._now(each, user, expr))]

    def _now(self, hit: Hit, user: QueryExpr, expr: QueryExpr | None) -> Hit | None:
        if hit.found.uuid not in self._hidden:
            return hit
        changed = self._changed.get(hit.found.uuid)
        return replace(hit, found=changed) if changed and _fulfils(changed, user, expr) else None


def _fulfils(each: BaseGraphObject, user: QueryExpr, expr: QueryExpr | None) -> bool:
    return each.fulfils(user) and (expr is None or each.fulfils(expr))


def _read_only() -> StoreError:
    return StoreError("An overlaid store only shows what a change would make of another store; write to that one.")
