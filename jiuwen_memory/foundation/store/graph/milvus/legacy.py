"""Reads the graph stores of JiuwenMemory 0.1 and openjiuwen: the same three collections, with fewer columns.

Touches such a store, reading only: nothing is created, and no row changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from jiuwen_memory.errors import SchemaMismatchError, StoreError
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    GRAPH_COLLECTIONS,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.graph_object import Row
from jiuwen_memory.foundation.store.graph.milvus.connection import MilvusConnection
from jiuwen_memory.foundation.store.graph.milvus.rows import CONSISTENCY, fetch_by_ids, fetch_matching
from jiuwen_memory.foundation.store.query import QueryExpr, eq, gt

_SHARED: Final = ("uuid", "created_at", "user_id", "obj_type", "language", "metadata", "content")
LEGACY_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    ENTITY_COLLECTION: (*_SHARED, "name", "attributes", "relations", "episodes"),
    RELATION_COLLECTION: (
        *(*_SHARED, "name", "lhs", "rhs"),
        *("valid_since", "valid_until", "offset_since", "offset_until"),
    ),
    EPISODE_COLLECTION: (*_SHARED, "valid_since", "entities"),
}
"""The columns that matter, by collection; vectors are made anew."""
_LISTS: Final = frozenset({"relations", "episodes", "entities"})
_OURS: Final = "embedding_key"


class LegacyStore:
    """A store to take over. Times in it are UTC seconds, -1 where unknown; offsets are quarters of an hour.

    Raises, when it is entered:
        StoreUnavailableError: there is no store.
        SchemaMismatchError: it is not one of those packages.
    """

    def __init__(self, config: GraphConfig) -> None:
        self.config = config
        self._connection = MilvusConnection(config, prepare=self._prepare, must_exist=True)

    async def users(self) -> list[str]:
        """Return whose rows there are."""
        found: set[str] = set()
        for collection in GRAPH_COLLECTIONS:
            rows = await self._query(collection, gt("user_id", ""), ids=None, fields=("uuid", "user_id"))
            found.update(row["user_id"] for row in rows)
        return sorted(found)

    async def rows(
        self, collection: str, user_id: str, *, ids: Sequence[str] | None = None, fields: Sequence[str] | None = None
    ) -> list[Row]:
        """Return a user's rows, of these ids or all; `fields` are `LEGACY_COLUMNS` unless given."""
        return await self._query(
            collection, eq("user_id", user_id), ids=ids, fields=fields or LEGACY_COLUMNS[collection]
        )

    async def close(self) -> None:
        """Let go of it."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        try:
            await self._connection.open()
        except (StoreError, asyncio.CancelledError):
            # A connection goes on opening in its thread.
            await self.close()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def _query(
        self, collection: str, condition: QueryExpr, *, ids: Sequence[str] | None, fields: Sequence[str]
    ) -> list[Row]:
        settings = {"timeout": self.config.timeout, "consistency_level": CONSISTENCY["strong"]}

        def read(client: Any) -> list[Row]:
            lite = self._connection.is_lite
            if ids is None:
                found = fetch_matching(
                    client, collection, condition, fields=fields, limit=None, settings=settings, lite=lite
                )
            else:
                found = fetch_by_ids(
                    client, collection, ids, conditions=condition, fields=fields, settings=settings, lite=lite
                )
            return [_plain(row, fields) for row in found]

        return await self._connection.read(f"Reading {collection}", read)

    def _prepare(self, client: Any, lite: bool) -> None:
        timeout = self.config.timeout
        for collection, columns in LEGACY_COLUMNS.items():
            if not client.has_collection(collection, timeout=timeout):
                self._refuse(f"it has no {collection}")
            described = client.describe_collection(collection, timeout=timeout)
            names = {field["name"] for field in described["fields"]}
            if _OURS in names:
                self._refuse("it is one of this library, which export_graph and import_graph copy")
            if missing := sorted(set(columns) - names):
                self._refuse(f"its {collection} lacks {', '.join(missing)}")
        for collection in LEGACY_COLUMNS:
            client.load_collection(collection, timeout=timeout)

    def _refuse(self, reason: str) -> None:
        raise SchemaMismatchError(
            f"{self.config.uri} is no graph store of JiuwenMemory 0.1 or openjiuwen: {reason}. Nothing was imported; "
            "check uri and name."
        )


def _plain(row: Mapping[str, Any], fields: Sequence[str]) -> Row:
    return {name: list(row[name] or ()) if name in _LISTS else row[name] for name in fields}
