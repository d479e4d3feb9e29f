"""The graph store on Milvus: a local path (Milvus Lite) or a server. Touches the store, reading and writing.

Importing this module does not import pymilvus; the first call does, in a thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from jiuwen_memory.errors import CollectionNotSupportedError
from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.ports import Embedding
from jiuwen_memory.foundation.store.graph.base import Consistency, Hit, Journal, SearchQuery
from jiuwen_memory.foundation.store.graph.checks import (
    check_embedder,
    check_filter,
    check_limit,
    check_objects,
    check_queries,
    check_row,
    check_user,
    selected_fields,
    storable_ids,
)
from jiuwen_memory.foundation.store.graph.columns import Column, collection_columns
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    GRAPH_COLLECTIONS,
    JOURNAL_COLLECTION,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.graph_object import OBJECT_TYPES, BaseGraphObject
from jiuwen_memory.foundation.store.graph.milvus.connection import MilvusConnection
from jiuwen_memory.foundation.store.graph.milvus.filters import any_of, quote, render
from jiuwen_memory.foundation.store.graph.milvus.journal import MilvusJournal
from jiuwen_memory.foundation.store.graph.milvus.migration import MilvusMigration
from jiuwen_memory.foundation.store.graph.milvus.rows import (
    CONSISTENCY,
    all_of,
    as_objects,
    chunks,
    fetch_by_ids,
    fetch_matching,
    looked_up,
)
from jiuwen_memory.foundation.store.graph.milvus.schema import prepare_collection
from jiuwen_memory.foundation.store.graph.milvus.searching import (
    ChannelRequest,
    HybridRequest,
    fused_by_milvus,
    run_channel,
    run_hybrid,
)
from jiuwen_memory.foundation.store.graph.result_ranking import BaseRankConfig, Channel, Routes
from jiuwen_memory.foundation.store.query import QueryExpr

_ROWS_PER_CALL: Final = 200
"""Whole rows of the largest kind, times this, stay below a server's message limit."""
_ROWS_THAT_WAIT: Final = {ENTITY_COLLECTION: 100, RELATION_COLLECTION: 100, EPISODE_COLLECTION: 20}
"""Changed rows of a collection up to which Milvus Lite is not made to flush: that costs more than reading them."""


@dataclass(frozen=True)
class _Options:
    """What each query of one search is asked with."""

    user: QueryExpr
    expr: QueryExpr | None
    output_fields: Sequence[str] | None
    consistency: Consistency
    pool: int


class MilvusGraphStore:
    """Keeps a graph in Milvus. May be used from several event loops and threads; two objects on one path share it."""

    config: GraphConfig
    journal: Journal

    def __init__(self, config: GraphConfig) -> None:
        self.config = config
        self._columns = {name: collection_columns(name, config) for name in GRAPH_COLLECTIONS}
        self._connection = MilvusConnection(config, prepare=self._prepare)
        self.journal = MilvusJournal(self._connection)
        # Changed and not flushed, by collection; only the one thread that writes touches it.
        self._waiting: Counter[str] = Counter()
        self._embedder: Embedding | None = None
        if config.embedding_model is not None:
            self.attach_embedder(config.embedding_model)

    @classmethod
    def from_config(cls, config: GraphConfig, **kwargs: object) -> Self:
        """Build a store; no I/O happens here. `kwargs` join `GraphConfig.extras` as arguments of the client."""
        return cls(config.model_copy(update={"extras": {**config.extras, **kwargs}}) if kwargs else config)

    @property
    def identity(self) -> str:
        """The real path, or the URI, and the database."""
        return self._connection.identity

    @property
    def embedder(self) -> Embedding | None:
        """The attached embedding model."""
        return self._embedder

    def attach_embedder(self, embedder: Embedding) -> None:
        """Attach an embedding model whose dimension, once known, must be the configured one."""
        check_embedder(embedder, self.config)
        self._embedder = embedder

    async def open(self) -> None:
        """Connect, and create what is missing. Calling it is optional; nothing stored is ever dropped."""
        await self._connection.open()

    async def upsert(self, collection: str, objects: Sequence[BaseGraphObject]) -> None:
        """Write whole objects by id, replacing what is there. Every vector must be present."""
        columns = self._columns_of(collection)
        check_objects(objects, collection)
        if objects:
            await self._connection.write(
                f"Writing to {collection}", lambda client: self._upsert(client, collection, columns, objects)
            )

    async def delete(self, collection: str, ids: Sequence[str], *, user_id: str) -> None:
        """Remove this user's rows of these ids; ids that are not there are passed over."""
        self._columns_of(collection)
        if ids:
            await self._connection.write(
                f"Deleting from {collection}", lambda client: self._delete(client, collection, ids, user_id)
            )

    async def flush(self, collections: Sequence[str]) -> None:
        """Make written rows fast to read (Milvus Lite) or do nothing (a server, which must not be flushed).

        Lite reads a few unflushed rows faster than it flushes and merges them, so they may wait; they are on disk.
        """
        for collection in collections:
            self._columns_of(collection)
        await self._connection.write("Flushing", lambda client: self._flush(client, collections, _ROWS_THAT_WAIT))

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
        """Return the objects that fulfil `user`, `ids` and `expr`, all of them unless `limit` says otherwise."""
        columns = self._columns_of(collection)
        conditions = self._conditions(columns, user, expr)
        fields = selected_fields(output_fields, columns, collection=collection)
        check_limit(limit)
        if conditions is None or limit == 0 or (ids is not None and not ids):
            return []
        settings = {"timeout": self.config.timeout, "consistency_level": CONSISTENCY[consistency]}

        def read(client: Any) -> list[BaseGraphObject]:
            lite = self._connection.is_lite
            if ids is None:
                rows = fetch_matching(
                    client, collection, conditions, fields=fields, limit=limit, settings=settings, lite=lite
                )
            else:
                rows = fetch_by_ids(
                    client, collection, ids, conditions=conditions, fields=fields, settings=settings, lite=lite
                )[:limit]
            return as_objects(rows, OBJECT_TYPES[collection], columns)

        return await self._connection.read(f"Reading {collection}", read)

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
        """Return for each query its best `limit` hits, best first, after fusing the channels `rank` uses.

        A channel that cannot be asked brings nothing; the weights of the others stay as they are.
        """
        if not fused_by_milvus(rank):
            return await self._search_by_routes(
                collection,
                queries,
                rank=rank,
                limit=limit,
                options=_Options(user, expr, output_fields, consistency, max(pool, limit)),
            )
        columns = self._columns_of(collection)
        conditions = self._conditions(columns, user, expr)
        fields = selected_fields(output_fields, columns, collection=collection)
        check_limit(limit)
        check_limit(pool, what="pool")
        request = HybridRequest(
            collection=collection,
            queries=tuple(queries),
            has_vectors=check_queries(queries, self.config.embed_dim),
            rank=rank,
            limit=limit,
            pool=max(pool, limit),
            fields=tuple(fields),
            consistency=CONSISTENCY[consistency],
        )
        if conditions is None or not limit or not queries:
            return [[] for _ in queries]
        settings = {"timeout": self.config.timeout, "consistency_level": CONSISTENCY[consistency]}

        def find(client: Any) -> list[list[Hit]]:
            within: QueryExpr | bool = conditions
            if self._connection.is_lite:
                within = looked_up(client, collection, conditions, columns=columns, settings=settings)
            if isinstance(within, bool):
                return [[] for _ in queries]
            return run_hybrid(client, request, written_filter=render(within), columns=columns, config=self.config)

        return await self._connection.read(f"Searching {collection}", find)

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
        """Return what each channel finds by itself, best first and at most `limit`; the channels are asked at once."""
        columns = self._columns_of(collection)
        conditions = self._conditions(columns, user, expr)
        fields = tuple(selected_fields(output_fields, columns, collection=collection))
        check_limit(limit)
        check_queries([query], self.config.embed_dim)
        asked = [channel for channel in channels if channel == "content_sparse" or query.vector is not None]
        if conditions is None or not limit:
            return {channel: [] for channel in asked}
        within = await self._cheap_conditions(collection, conditions, columns=columns, consistency=consistency)
        if isinstance(within, bool):
            return {channel: [] for channel in asked}
        written = render(within)

        async def ask(channel: Channel) -> list[Hit] | None:
            request = ChannelRequest(collection, channel, query, limit, fields, CONSISTENCY[consistency])
            return await self._connection.read(
                f"Searching {collection}",
                lambda client: run_channel(
                    client, request, written_filter=written, columns=columns, config=self.config
                ),
            )

        found = await together(*(ask(channel) for channel in asked))
        return {channel: hits for channel, hits in zip(asked, found, strict=True) if hits is not None}

    async def count(self, collection: str, *, user: QueryExpr) -> int:
        """Return how many rows of this user there are."""
        conditions = self._conditions(self._columns_of(collection), user, None)
        if conditions is None:
            return 0
        wanted = {"filter": render(conditions), "output_fields": ["count(*)"], "timeout": self.config.timeout}
        rows = await self._connection.read(f"Counting {collection}", lambda client: client.query(collection, **wanted))
        return int(rows[0]["count(*)"])

    async def refresh(self) -> None:
        """Flush every collection (Milvus Lite) or do nothing (a server)."""
        await self._connection.write("Flushing", lambda client: self._flush(client, GRAPH_COLLECTIONS, {}))

    async def close(self) -> None:
        """Let go of connections and files. Closing twice is fine; any other use afterwards is an error."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def migration(self) -> MilvusMigration:
        """Return the way from what the store holds to the schema of today and of these settings."""
        return MilvusMigration(self.config)

    def _prepare(self, client: Any, lite: bool) -> None:
        for collection in (*GRAPH_COLLECTIONS, JOURNAL_COLLECTION):
            prepare_collection(client, collection, config=self.config, lite=lite)

    def _columns_of(self, collection: str) -> dict[str, Column]:
        if collection not in self._columns:
            raise CollectionNotSupportedError(
                f"There is no collection {collection!r}; use {', '.join(GRAPH_COLLECTIONS)}."
            )
        return self._columns[collection]

    def _conditions(self, columns: dict[str, Column], user: QueryExpr, expr: QueryExpr | None) -> QueryExpr | None:
        """Return the checked filter, or None where no row can fulfil it."""
        check_user(user)
        for each in (user, expr):
            if each is not None:
                check_filter(each, columns)
        conditions = all_of(user, expr)
        return None if isinstance(conditions, bool) else conditions

    async def _cheap_conditions(
        self, collection: str, conditions: QueryExpr, *, columns: dict[str, Column], consistency: Consistency
    ) -> QueryExpr | bool:
        settings = {"timeout": self.config.timeout, "consistency_level": CONSISTENCY[consistency]}

        def look(client: Any) -> QueryExpr | bool:
            if not self._connection.is_lite:
                return conditions
            return looked_up(client, collection, conditions, columns=columns, settings=settings)

        if all(columns[name].kind != "array" for name in conditions.fields()):
            return conditions
        return await self._connection.read(f"Reading {collection}", look)

    async def _search_by_routes(
        self,
        collection: str,
        queries: Sequence[SearchQuery],
        *,
        rank: BaseRankConfig,
        limit: int,
        options: _Options,
    ) -> list[list[Hit]]:
        """Search with a ranking that Milvus does not know: channel by channel, a query after the other."""
        check_queries(queries, self.config.embed_dim)
        metric = self.config.db_embed_config.distance_metric
        answers: list[list[Hit]] = []
        for query in queries:
            routes = await self.routes(
                collection,
                query,
                user=options.user,
                channels=tuple(rank.weights(collection)),
                limit=options.pool,
                expr=options.expr,
                output_fields=options.output_fields,
                consistency=options.consistency,
            )
            found = {hit.found.uuid: hit.found for hits in routes.values() for hit in hits}
            scores: Routes = {
                channel: [(hit.found.uuid, hit.score) for hit in hits] for channel, hits in routes.items()
            }
            fused = rank.fuse_own(scores, collection=collection, metric=metric)[:limit]
            answers.append([Hit(score, found[uuid]) for uuid, score in fused])
        return answers

    def _upsert(
        self, client: Any, collection: str, columns: dict[str, Column], objects: Sequence[BaseGraphObject]
    ) -> None:
        # A server refuses, or worse keeps, two rows of one id in one call; the last one counts.
        rows = list({each.uuid: each.to_row() for each in objects}.values())
        for row in rows:
            check_row(row, columns, collection=collection)
        for start in range(0, len(rows), _ROWS_PER_CALL):
            client.upsert(collection, rows[start : start + _ROWS_PER_CALL], timeout=self.config.timeout)
        self._waiting[collection] += len(rows)

    def _delete(self, client: Any, collection: str, ids: Sequence[str], user_id: str) -> None:
        for part in chunks(storable_ids(ids)):
            written = f"{any_of('uuid', part)} and user_id == {quote(user_id)}"
            client.delete(collection, filter=written, timeout=self.config.timeout)
        self._waiting[collection] += len(ids)

    def _flush(self, client: Any, collections: Sequence[str], may_wait: Mapping[str, int]) -> None:
        if not self._connection.is_lite:
            return
        for collection in dict.fromkeys(collections):
            if self._waiting[collection] > may_wait.get(collection, 0):
                client.flush(collection, timeout=self.config.timeout)
                self._waiting[collection] = 0
