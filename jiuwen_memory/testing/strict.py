"""A graph store that holds Milvus Lite, or any other backend, to the rules of a Milvus server. For tests.

GraphStoreFactory.register_backend("strict-lite", StrictStore)
GraphConfig(uri="memory.db", backend="strict-lite")
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from jiuwen_memory.errors import StoreParameterError
from jiuwen_memory.foundation.store.graph.around import StoreAround
from jiuwen_memory.foundation.store.graph.base import Consistency, GraphStore, Hit, SearchQuery
from jiuwen_memory.foundation.store.graph.checks import check_objects, check_row
from jiuwen_memory.foundation.store.graph.columns import collection_columns
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS
from jiuwen_memory.foundation.store.graph.factory import GraphStoreFactory
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.foundation.store.graph.result_ranking import BaseRankConfig, Channel
from jiuwen_memory.foundation.store.query import QueryExpr, chain_filters, in_list

WINDOW: Final = 16_384
DEFAULT_DELAY: Final = 2


@dataclass
class _Change:
    """A written or deleted row that session reads do not see yet: what they see instead, and for how many reads."""

    before: BaseGraphObject | None
    reads_left: int


class StrictStore(StoreAround):
    """Refuses what a server refuses, and shows a change to session reads only after a flush or a few reads.

    `delay` is that number of reads of the collection; strong reads see a change at once. Nothing is held back from the
    store itself, so a change outlives the process as ever.
    """

    def __init__(self, store: GraphStore, *, delay: int = DEFAULT_DELAY) -> None:
        super().__init__(store)
        self._delay = delay
        self._changes: dict[str, dict[str, _Change]] = {name: {} for name in GRAPH_COLLECTIONS}

    @classmethod
    def from_config(cls, config: GraphConfig, **kwargs: object) -> Self:
        """Build a strict store around the backend `inner` ("milvus"), with this `delay`; no I/O happens here."""
        inner, delay = kwargs.pop("inner", cls.inner), kwargs.pop("delay", DEFAULT_DELAY)
        if not isinstance(inner, str) or not isinstance(delay, int):
            raise StoreParameterError("A strict store takes the name of a backend as `inner` and a number as `delay`.")
        return cls(GraphStoreFactory.from_config(config, inner, **kwargs), delay=delay)

    async def upsert(self, collection: str, objects: Sequence[BaseGraphObject]) -> None:
        """Write whole objects by id; two of one id in one call are refused."""
        columns = collection_columns(collection, self.config)
        check_objects(objects, collection)
        repeated = sorted(uuid for uuid, times in Counter(each.uuid for each in objects).items() if times > 1)
        if repeated:
            raise StoreParameterError(f"One upsert to {collection} holds several rows of the id {repeated[0]!r}.")
        for each in objects:
            check_row(each.to_row(), columns, collection=collection)
        before = await self._stored(collection, [each.uuid for each in objects], {each.user_id for each in objects})
        await self._store.upsert(collection, objects)
        self._remember(collection, [each.uuid for each in objects], before)

    async def delete(self, collection: str, ids: Sequence[str], *, user_id: str) -> None:
        """Remove this user's rows of these ids; session reads go on seeing them for a while."""
        before = await self._stored(collection, ids, {user_id})
        await self._store.delete(collection, ids, user_id=user_id)
        self._remember(collection, list(before), before)

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
        """Return the objects that fulfil `user`, `ids` and `expr`; a limit beyond a server's window is refused."""
        _check_window(limit, "limit")
        if consistency == "strong" or not self._changes.get(collection):
            return await self._store.query(
                collection,
                user=user,
                ids=ids,
                expr=expr,
                limit=limit,
                output_fields=output_fields,
                consistency=consistency,
            )
        hidden = self._hidden(collection)
        found = await self._store.query(
            collection, user=user, ids=ids, expr=expr, output_fields=output_fields, consistency=consistency
        )
        condition = chain_filters(user, expr)
        seen = {each.uuid: each for each in found if each.uuid not in hidden}
        for uuid, before in hidden.items():
            wanted = before is not None and (ids is None or uuid in ids) and before.fulfils(condition)
            if before is not None and wanted:
                seen[uuid] = before
        order = seen if ids is None else [uuid for uuid in dict.fromkeys(ids) if uuid in seen]
        return [seen[uuid] for uuid in order][:limit]

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
        """Return each query's hits; a row replaced a moment ago has its new score and its old content."""
        for value, what in ((limit, "limit"), (pool, "pool"), (len(queries), "number of queries")):
            _check_window(value, what)
        hidden = {} if consistency == "strong" else self._hidden(collection)
        answers = await self._store.search(
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
        return [[hit for hit in (_as_before(hit, hidden) for hit in hits) if hit is not None] for hits in answers]

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
        """Return each channel's hits; a row replaced a moment ago has its new score and its old content."""
        _check_window(limit, "limit")
        hidden = {} if consistency == "strong" else self._hidden(collection)
        answers = await self._store.routes(
            collection,
            query,
            user=user,
            channels=channels,
            limit=limit,
            expr=expr,
            output_fields=output_fields,
            consistency=consistency,
        )
        return {
            channel: [hit for hit in (_as_before(hit, hidden) for hit in hits) if hit is not None]
            for channel, hits in answers.items()
        }

    async def refresh(self) -> None:
        """Refresh the store inside, and show all changes."""
        await self._store.refresh()
        for changes in self._changes.values():
            changes.clear()

    async def _stored(self, collection: str, ids: Sequence[str], users: set[str]) -> dict[str, BaseGraphObject]:
        if not ids:
            return {}
        user = in_list("user_id", sorted(users))
        rows = await self._store.query(collection, user=user, ids=ids, consistency="strong")
        return {each.uuid: each for each in rows}

    def _remember(self, collection: str, ids: Sequence[str], before: dict[str, BaseGraphObject]) -> None:
        changes = self._changes[collection]
        for uuid in ids:
            # A row changed twice still looks as it did before the first change.
            earlier = changes[uuid].before if uuid in changes else before.get(uuid)
            changes[uuid] = _Change(earlier, self._delay)

    def _hidden(self, collection: str) -> dict[str, BaseGraphObject | None]:
        """Return what this read sees instead of changed rows, and count the read."""
        changes = self._changes.get(collection, {})
        hidden = {uuid: change.before for uuid, change in changes.items() if change.reads_left > 0}
        for uuid, change in list(changes.items()):
            change.reads_left -= 1
            if change.reads_left < 0:
                del changes[uuid]
        return hidden


def _as_before(hit: Hit, hidden: dict[str, BaseGraphObject | None]) -> Hit | None:
    if hit.found.uuid not in hidden:
        return hit
    before = hidden[hit.found.uuid]
    return None if before is None else Hit(hit.score, before)


def _check_window(value: int | None, what: str) -> None:
    if value is not None and value > WINDOW:
        raise StoreParameterError(f"The {what} is {value}; a Milvus server takes at most {WINDOW}.")
