"""Collections made anew beside the old ones, filled, compared, and put in their place. Touches the store.

While it is under way a collection is called `..._NEW`; what it takes the place of is `..._OLD` until it is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from jiuwen_memory.errors import SchemaMismatchError, StoreError
from jiuwen_memory.foundation.store.graph.checks import check_row
from jiuwen_memory.foundation.store.graph.columns import Column, collection_columns
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS, JOURNAL_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import OBJECT_TYPES, BaseGraphObject, Row
from jiuwen_memory.foundation.store.graph.milvus.connection import MilvusConnection
from jiuwen_memory.foundation.store.graph.milvus.filters import any_of
from jiuwen_memory.foundation.store.graph.milvus.rows import chunks, fetch_matching
from jiuwen_memory.foundation.store.graph.milvus.schema import (
    BEING_MADE,
    column_differences,
    index_differences,
    index_settings,
    make_collection,
)
from jiuwen_memory.foundation.store.query import ne

REPLACED: Final = "_OLD"
_ALL: Final = (*GRAPH_COLLECTIONS, JOURNAL_COLLECTION)
_EMPTY: Final[Mapping[str, Any]] = {"text": "", "int": 0, "json": {}, "array": []}


class MilvusMigration:
    """The way from what a store in Milvus holds to the schema of its settings; the steps are those of `Migration`."""

    def __init__(self, config: GraphConfig) -> None:
        self._config = config
        self._connection = MilvusConnection(config, prepare=lambda client, lite: None)
        self._columns = {name: collection_columns(name, config) for name in _ALL}
        self._settings: dict[str, Any] = {"timeout": config.timeout, "consistency_level": "Strong"}

    async def collections(self) -> dict[str, list[str]]:
        """Return the collections that are not as they should be, and in what; what was interrupted is finished."""
        return await self._connection.write("Looking at the store", self._look)

    async def ids(self, collection: str) -> list[str]:
        """Make the new collection if it is missing, and return the ids of the old one's rows, in order."""
        return await self._connection.write(f"Reading {collection}", lambda client: self._begin(client, collection))

    async def unlike(self, collection: str, ids: Sequence[str]) -> list[BaseGraphObject] | int:
        """Return the objects of these ids that the new collection does not hold as they are."""
        if collection == JOURNAL_COLLECTION:
            return await self._connection.write("Copying the journal", lambda client: self._copy_raw(client, ids))
        return await self._connection.write(
            f"Reading {collection}", lambda client: self._unlike(client, collection, ids)
        )

    async def write(self, collection: str, objects: Sequence[BaseGraphObject]) -> None:
        """Write objects to the new collection. Every vector must be present."""
        rows = [each.to_row() for each in objects]
        await self._connection.write(f"Writing {collection}", lambda client: self._upsert(client, collection, rows))

    async def verify(self, collection: str) -> int:
        """Return how many rows there are if both collections have the same ones."""
        return await self._connection.write(f"Comparing {collection}", lambda client: self._verify(client, collection))

    async def swap(self, collections: Sequence[str], *, keep_old: bool) -> None:
        """Put the new collections in the place of the old ones, and drop these unless they are to be kept."""
        await self._connection.write("Exchanging collections", lambda client: self._swap(client, collections))
        if not keep_old:
            await self._connection.write("Dropping old collections", self._drop)

    async def close(self) -> None:
        """Let go of the connection."""
        await self._connection.close()

    def _look(self, client: Any) -> dict[str, list[str]]:
        found = {}
        for collection in _ALL:
            if not self._has(client, collection):
                if self._has(client, collection + BEING_MADE) and self._has(client, collection + REPLACED):
                    self._rename(client, collection + BEING_MADE, collection)
                continue
            differences = self._differences(client, collection, collection)
            if differences:
                found[collection] = differences
            elif self._has(client, collection + BEING_MADE) and not self._has(client, collection + REPLACED):
                # Left by a migration to other settings that was given up.
                client.drop_collection(collection + BEING_MADE, timeout=self._config.timeout)
        return found

    def _differences(self, client: Any, name: str, collection: str) -> list[str]:
        columns = self._columns[collection]
        described = client.describe_collection(name, timeout=self._config.timeout)
        wanted = index_settings(collection, columns, config=self._config, lite=self._connection.is_lite)
        keys = ("metric_type", "index_type")
        return [
            *column_differences(columns, described),
            *index_differences(client, name, wanted, keys=keys, config=self._config),
        ]

    def _begin(self, client: Any, collection: str) -> list[str]:
        name, timeout = collection + BEING_MADE, self._config.timeout
        if self._has(client, collection + REPLACED):
            raise StoreError(
                f"{collection}{REPLACED} is still there from an earlier migration. Call migrate() with the settings of "
                "that migration, which drops it, and then again with these. Nothing was changed."
            )
        if self._key(collection) not in self._stored_names(client, collection):
            raise SchemaMismatchError(
                f"{collection} has no column {self._key(collection)!r}: it is none of ours. Nothing was changed; give "
                "another uri or name."
            )
        if self._has(client, name) and self._differences(client, name, collection):
            client.drop_collection(name, timeout=timeout)
        make_collection(client, name, collection, config=self._config, lite=self._connection.is_lite)
        client.load_collection(collection, timeout=timeout)
        return self._ids(client, collection, collection)

    def _ids(self, client: Any, name: str, collection: str) -> list[str]:
        key = self._key(collection)
        lite = self._connection.is_lite
        rows = fetch_matching(client, name, ne(key, ""), fields=[key], limit=None, settings=self._settings, lite=lite)
        return sorted(row[key] for row in rows)

    def _unlike(self, client: Any, collection: str, ids: Sequence[str]) -> list[BaseGraphObject]:
        kind = OBJECT_TYPES[collection]
        old = [self._object(row, collection) for row in self._rows(client, collection, collection, ids)]
        plain = [name for name, column in self._columns[collection].items() if column.kind not in ("dense", "sparse")]
        new = self._rows(client, collection + BEING_MADE, collection, ids, fields=plain)
        there = {row["uuid"]: _bare(kind.from_row(row)) for row in new}
        return [each for each in old if there.get(each.uuid) != _bare(each)]

    def _object(self, row: Row, collection: str) -> BaseGraphObject:
        """Return the object of an old row; what there is no column for any more is kept in `extra`."""
        columns = self._columns[collection]
        known = {name: value for name, value in row.items() if name in columns}
        for name, column in columns.items():
            if column.kind == "dense" and len(known.get(name) or ()) != column.dim:
                known.pop(name, None)
        lost = {name: value for name, value in row.items() if name not in columns and not isinstance(value, bytes)}
        vectors = {name for name, value in lost.items() if _is_vector(value)}
        extra = {**{name: value for name, value in lost.items() if name not in vectors}, **(known.get("extra") or {})}
        try:
            return OBJECT_TYPES[collection].from_row({**known, "extra": extra})
        except ValidationError as error:
            raise StoreError(
                f"The row {row['uuid']!r} of {collection} cannot be read: {error}. Nothing was changed; mend or remove "
                "that row with a Milvus client."
            ) from error

    def _copy_raw(self, client: Any, ids: Sequence[str]) -> int:
        columns = self._columns[JOURNAL_COLLECTION]
        rows = self._rows(client, JOURNAL_COLLECTION, JOURNAL_COLLECTION, ids)
        self._upsert(
            client,
            JOURNAL_COLLECTION,
            [{name: row.get(name, _default(column)) for name, column in columns.items()} for row in rows],
        )
        return len(rows)

    def _rows(
        self, client: Any, name: str, collection: str, ids: Sequence[str], *, fields: Sequence[str] | None = None
    ) -> list[Row]:
        wanted = self._stored_names(client, name) if fields is None else fields
        found: list[Row] = []
        for part in chunks(ids):
            written = any_of(self._key(collection), part)
            found += client.query(name, filter=written, output_fields=list(wanted), **self._settings)
        return [{column: _plain(value) for column, value in row.items()} for row in found]

    def _stored_names(self, client: Any, name: str) -> list[str]:
        fields = client.describe_collection(name, timeout=self._config.timeout)["fields"]
        return [field["name"] for field in fields if field["type"].name != "SPARSE_FLOAT_VECTOR"]

    def _upsert(self, client: Any, collection: str, rows: Sequence[Row]) -> None:
        for row in rows:
            check_row(row, self._columns[collection], collection=collection)
        if rows:
            client.upsert(collection + BEING_MADE, list(rows), timeout=self._config.timeout)

    def _verify(self, client: Any, collection: str) -> int:
        name = collection + BEING_MADE
        old, new = set(self._ids(client, collection, collection)), set(self._ids(client, name, collection))
        for part in chunks(sorted(new - old)):
            # What was deleted after an interrupted migration had copied it.
            client.delete(name, filter=any_of(self._key(collection), part), timeout=self._config.timeout)
        if self._connection.is_lite:
            client.flush(name, timeout=self._config.timeout)
        left = set(self._ids(client, name, collection))
        if left != old:
            raise StoreError(
                f"After copying {collection}, {len(old - left)} rows are missing in the copy and {len(left - old)} are "
                "in the copy only. The store is as it was. Let nobody write to it, and call migrate() again."
            )
        return len(old)

    def _swap(self, client: Any, collections: Sequence[str]) -> None:
        for collection in collections:
            self._rename(client, collection, collection + REPLACED)
            self._rename(client, collection + BEING_MADE, collection)

    def _rename(self, client: Any, name: str, other: str) -> None:
        # A server of Milvus 2.3 moves a collection to the default database unless it is told where it shall be.
        client.rename_collection(name, other, self._config.name, timeout=self._config.timeout)

    def _drop(self, client: Any) -> None:
        """Drop all old collections: those of a migration that was stopped while it exchanged them too."""
        for collection in _ALL:
            if self._has(client, collection) and self._has(client, collection + REPLACED):
                client.drop_collection(collection + REPLACED, timeout=self._config.timeout)

    def _has(self, client: Any, name: str) -> bool:
        return bool(client.has_collection(name, timeout=self._config.timeout))

    @staticmethod
    def _key(collection: str) -> str:
        return "key" if collection == JOURNAL_COLLECTION else "uuid"


def _bare(each: BaseGraphObject) -> BaseGraphObject:
    return each.revise(embedding_key="", **dict.fromkeys(each.vectors))


def _is_vector(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(number, float) for number in value)


def _plain(value: Any) -> Any:
    # Arrays come in containers of the client's.
    return value if isinstance(value, str | bytes | dict) or not hasattr(value, "__iter__") else list(value)


def _default(column: Column) -> Any:
    return [0.0] * column.dim if column.kind == "dense" else _EMPTY[column.kind]
