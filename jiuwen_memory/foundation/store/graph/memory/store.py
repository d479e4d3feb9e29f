"""A graph store in memory, with the same rules and the same scores as the one on Milvus. Touches nothing outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Self

from jiuwen_memory.errors import CollectionNotSupportedError
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
)
from jiuwen_memory.foundation.store.graph.columns import Column, collection_columns
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS
from jiuwen_memory.foundation.store.graph.graph_object import OBJECT_TYPES, BaseGraphObject, Row
from jiuwen_memory.foundation.store.graph.memory.journal import MemoryJournal
from jiuwen_memory.foundation.store.graph.memory.scoring import BM25, dense_value
from jiuwen_memory.foundation.store.graph.memory.state import MemoryConnection
from jiuwen_memory.foundation.store.graph.result_ranking import (
    VECTOR_COLUMNS,
    BaseRankConfig,
    Channel,
    best_first,
)
from jiuwen_memory.foundation.store.query import QueryExpr
from jiuwen_memory.foundation.text import query_tokens

Routes = dict[Channel, list[tuple[str, float]]]


class InMemoryGraphStore:
    """Keeps a graph in this process. Stores of one `uri` share it; `":memory:"` is a store's own, gone with it."""

    config: GraphConfig
    journal: Journal

    def __init__(self, config: GraphConfig) -> None:
        self.config = config
        self._columns = {name: collection_columns(name, config) for name in GRAPH_COLLECTIONS}
        self._connection = MemoryConnection(config)
        self.journal = MemoryJournal(self._connection)
        self._embedder: Embedding | None = None
        if config.embedding_model is not None:
            self.attach_embedder(config.embedding_model)

    @classmethod
    def from_config(cls, config: GraphConfig, **kwargs: object) -> Self:
        """Build a store; no I/O happens here. There is no client for `kwargs` to be given to."""
        return cls(config)

    @property
    def identity(self) -> str:
        """The URI and the database, or something unique for a store of its own."""
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
        """Find the tables of this URI, or make them."""
        with self._connection.tables():
            pass

    async def upsert(self, collection: str, objects: Sequence[BaseGraphObject]) -> None:
        """Write whole objects by id, replacing what is there. Every vector must be present."""
        columns = self._columns_of(collection)
        check_objects(objects, collection)
        rows = {each.uuid: each.to_row() for each in objects}
        for row in rows.values():
            check_row(row, columns, collection=collection)
        with self._connection.tables() as tables:
            tables[collection].update(deepcopy(rows))

    async def delete(self, collection: str, ids: Sequence[str], *, user_id: str) -> None:
        """Remove this user's rows of these ids; ids that are not there are passed over."""
        self._columns_of(collection)
        with self._connection.tables() as tables:
            rows = tables[collection]
            for uuid in ids:
                if uuid in rows and rows[uuid]["user_id"] == user_id:
                    del rows[uuid]

    async def flush(self, collections: Sequence[str]) -> None:
        """Do nothing: rows are as fast to read as they will ever be."""
        for collection in collections:
            self._columns_of(collection)
        await self.open()

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
        fields = selected_fields(output_fields, columns, collection=collection)
        check_limit(limit)
        with self._connection.tables() as tables:
            rows = tables[collection]
            candidates = rows.values() if ids is None else (rows[uuid] for uuid in dict.fromkeys(ids) if uuid in rows)
            found = self._matching(candidates, columns, user, expr)[:limit]
            return [_read(collection, row, fields) for row in found]

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
        """Return for each query its best `limit` hits, best first, after fusing the channels `rank` uses."""
        columns = self._columns_of(collection)
        fields = selected_fields(output_fields, columns, collection=collection)
        check_limit(limit)
        check_limit(pool, what="pool")
        check_queries(queries, self.config.embed_dim)
        channels, metric = tuple(rank.weights(collection)), self.config.db_embed_config.distance_metric
        with self._connection.tables() as tables:
            rows = tables[collection]
            found = self._matching(rows.values(), columns, user, expr)
            texts = {uuid: row["search_text"] for uuid, row in rows.items()}
            words = BM25(texts if "content_sparse" in channels else {}, self.config.db_embed_config.bm25_config)
            answers = []
            for query in queries:
                routes = self._routes(query, found, channels, words=words, pool=max(pool, limit))
                fused = rank.fuse_own(routes, collection=collection, metric=metric)[:limit]
                answers.append([Hit(score, _read(collection, rows[uuid], fields)) for uuid, score in fused])
        return answers

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
        """Return what each channel finds by itself, best first and at most `limit`, for a fusion of the caller's."""
        columns = self._columns_of(collection)
        fields = selected_fields(output_fields, columns, collection=collection)
        check_limit(limit)
        check_queries([query], self.config.embed_dim)
        with self._connection.tables() as tables:
            rows = tables[collection]
            found = self._matching(rows.values(), columns, user, expr)
            texts = {uuid: row["search_text"] for uuid, row in rows.items()}
            words = BM25(texts if "content_sparse" in channels else {}, self.config.db_embed_config.bm25_config)
            routes = self._routes(query, found, channels, words=words, pool=limit)
            return {
                channel: [Hit(score, _read(collection, rows[uuid], fields)) for uuid, score in hits]
                for channel, hits in routes.items()
            }

    async def count(self, collection: str, *, user: QueryExpr) -> int:
        """Return how many rows of this user there are."""
        columns = self._columns_of(collection)
        with self._connection.tables() as tables:
            return len(self._matching(tables[collection].values(), columns, user, None))

    async def refresh(self) -> None:
        """Do nothing: there is nothing to bring up to date."""
        await self.open()

    async def close(self) -> None:
        """Refuse any further use; the tables stay for the next store of this URI."""
        self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def _columns_of(self, collection: str) -> dict[str, Column]:
        if collection not in self._columns:
            raise CollectionNotSupportedError(
                f"There is no collection {collection!r}; use {', '.join(GRAPH_COLLECTIONS)}."
            )
        return self._columns[collection]

    @staticmethod
    def _matching(
        rows: Iterable[Row], columns: dict[str, Column], user: QueryExpr, expr: QueryExpr | None
    ) -> list[Row]:
        check_user(user)
        for each in (user, expr):
            if each is not None:
                check_filter(each, columns)
        return [row for row in rows if user.matches(row) and (expr is None or expr.matches(row))]

    def _routes(
        self, query: SearchQuery, rows: list[Row], channels: Sequence[Channel], *, words: BM25, pool: int
    ) -> Routes:
        routes: Routes = {}
        for channel in channels:
            if channel == "content_sparse":
                if tokens := query_tokens(query.text):
                    routes[channel] = best_first(words.scores(tokens, [row["uuid"] for row in rows]))[:pool]
            elif query.vector is not None:
                routes[channel] = self._nearest(query.vector, rows, VECTOR_COLUMNS[channel])[:pool]
        return routes

    def _nearest(self, vector: Sequence[float], rows: list[Row], column: str) -> list[tuple[str, float]]:
        metric = self.config.db_embed_config.distance_metric
        sign = -1 if metric == "euclidean" else 1
        return best_first({row["uuid"]: sign * dense_value(vector, row[column], metric) for row in rows})


def _read(collection: str, row: Row, fields: Sequence[str]) -> BaseGraphObject:
    return OBJECT_TYPES[collection].from_row({name: deepcopy(row[name]) for name in fields})
