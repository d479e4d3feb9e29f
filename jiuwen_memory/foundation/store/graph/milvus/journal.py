"""The journal of plans in a Milvus collection of its own. Touches the store, reading and writing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jiuwen_memory.foundation.store.graph.base import JournalEntry
from jiuwen_memory.foundation.store.graph.checks import check_filter, check_row
from jiuwen_memory.foundation.store.graph.columns import collection_columns
from jiuwen_memory.foundation.store.graph.constants import JOURNAL_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import Row
from jiuwen_memory.foundation.store.graph.journal_rows import (
    CHUNK,
    assemble_entries,
    count_unclaimed,
    counting_key,
    entry_rows,
    unclaimed_keys,
)
from jiuwen_memory.foundation.store.graph.milvus.connection import MilvusConnection
from jiuwen_memory.foundation.store.graph.milvus.filters import any_of, quote, render
from jiuwen_memory.foundation.store.graph.milvus.rows import CONSISTENCY, chunks, fetch_matching
from jiuwen_memory.foundation.store.query import QueryExpr, chain_filters, eq, gte

_WITHOUT_TEXT: Final = ("key", "plan_id", "user_id", "kind", "number", "extra")
_WHOLE: Final = (*_WITHOUT_TEXT, "payload", "created_at")
_ROWS_PER_CALL: Final = 100
_ROWS_THAT_WAIT: Final = 400
"""Changed rows up to which Milvus Lite is not made to flush; an add changes four or more."""


class MilvusJournal:
    """Keeps plans of any length in rows of bounded size."""

    def __init__(self, connection: MilvusConnection) -> None:
        self._connection = connection
        self._columns = collection_columns(JOURNAL_COLLECTION, connection.config)
        self._settings: dict[str, Any] = {"timeout": connection.config.timeout}
        # Changed and not flushed; only the one thread that writes touches it.
        self._waiting = 0

    async def put(self, entry: JournalEntry) -> None:
        """Write an entry: its chunks first, then the one row that makes it count; on Lite all of them at once."""
        await self._connection.write("Writing the journal", lambda client: self._put(client, entry))

    async def entries(self, user_id: str | None = None) -> list[JournalEntry]:
        """Return whole entries, oldest first, read with strong consistency; a damaged one says so in its `damage`."""
        rows = await self._connection.read(
            "Reading the journal", lambda client: self._rows(client, _owned_by(user_id), _WHOLE)
        )
        return assemble_entries(rows)

    async def remove(self, plan_id: str, user_id: str) -> None:
        """Remove an entry: the row that makes it count first, then its chunks; on Lite all of them at once."""
        await self._connection.write("Removing from the journal", lambda client: self._remove(client, plan_id, user_id))

    async def drop_unfinished(self, user_id: str) -> int:
        """Remove this user's chunks that no entry claims; return how many. Call it under the user's lock."""
        return await self._connection.write("Tidying the journal", lambda client: self._drop(client, user_id))

    async def clear(self, user_id: str) -> None:
        """Remove everything of this user, damaged or not, without reading it."""

        def clear(client: Any) -> None:
            client.delete(JOURNAL_COLLECTION, filter=f"user_id == {quote(user_id)}", **self._settings)

        await self._connection.write("Clearing the journal", clear)

    async def unfinished(self, user_id: str | None = None) -> dict[str, int]:
        """Count the chunks that no entry claims, by owner; every owner of anything in the journal is listed."""
        rows = await self._connection.read(
            "Reading the journal", lambda client: self._rows(client, _owned_by(user_id), _WITHOUT_TEXT)
        )
        return count_unclaimed(rows)

    def _put(self, client: Any, entry: JournalEntry) -> None:
        pieces, counting = entry_rows(entry)
        for row in (*pieces, counting):
            check_row(row, self._columns, collection=JOURNAL_COLLECTION)
        put_rows(client, pieces, counting, at_once=self._connection.is_lite, settings=self._settings)
        self._waiting += len(pieces) + 1

    def _remove(self, client: Any, plan_id: str, user_id: str) -> None:
        # First: if it fails, the entry is still there, and what it stands for is done again.
        self._flush(client)
        self._waiting += remove_rows(
            client, plan_id, user_id, at_once=self._connection.is_lite, settings=self._settings
        )

    def _drop(self, client: Any, user_id: str) -> int:
        keys = unclaimed_keys(self._rows(client, eq("user_id", user_id), _WITHOUT_TEXT))
        self._delete(client, keys, user_id)
        return len(keys)

    def _flush(self, client: Any) -> None:
        """Let Milvus Lite forget the rows that came and went, which it keeps in memory, and reads, until it flushes."""
        if self._connection.is_lite and self._waiting > _ROWS_THAT_WAIT:
            client.flush(JOURNAL_COLLECTION, **self._settings)
            self._waiting = 0

    def _rows(self, client: Any, expr: QueryExpr, fields: Sequence[str]) -> list[Row]:
        check_filter(expr, self._columns)
        settings = {**self._settings, "consistency_level": CONSISTENCY["strong"]}
        lite = self._connection.is_lite
        found = fetch_matching(
            client, JOURNAL_COLLECTION, expr, fields=fields, limit=None, settings=settings, lite=lite
        )
        return [dict(row) for row in found]

    def _delete(self, client: Any, keys: Sequence[str], user_id: str) -> None:
        _delete(client, keys, user_id, settings=self._settings)
        self._waiting += len(keys)


def put_rows(client: Any, pieces: Sequence[Row], counting: Row, *, at_once: bool, settings: Mapping[str, Any]) -> None:
    """Write an entry's chunks and then the row that makes it count; or `at_once`, if the chunks are not too many.

    Lite takes the rows of a call in as one record of its log, which it recovers whole or not at all.
    """
    calls = [list(pieces[start : start + _ROWS_PER_CALL]) for start in range(0, len(pieces), _ROWS_PER_CALL)]
    if at_once and len(pieces) < _ROWS_PER_CALL:
        calls = [[*pieces, counting]]
    else:
        calls.append([counting])
    for rows in calls:
        client.upsert(JOURNAL_COLLECTION, rows, **settings)


def remove_rows(client: Any, plan_id: str, user_id: str, *, at_once: bool, settings: Mapping[str, Any]) -> int:
    """Remove the row that makes an entry count and then its chunks, or `at_once`; return how many rows went.

    Lite looks for what a filter means by itself, and notes their end as one record.
    """
    mine = chain_filters(eq("user_id", user_id), eq("plan_id", plan_id))
    if at_once:
        return len(client.delete(JOURNAL_COLLECTION, filter=render(mine), **settings))
    _delete(client, [counting_key(plan_id)], user_id, settings=settings)
    strong = {**settings, "consistency_level": CONSISTENCY["strong"]}
    expr = chain_filters(mine, eq("kind", CHUNK))
    rows = fetch_matching(client, JOURNAL_COLLECTION, expr, fields=("key",), limit=None, settings=strong, lite=False)
    _delete(client, [row["key"] for row in rows], user_id, settings=settings)
    return 1 + len(rows)


def _delete(client: Any, keys: Sequence[str], user_id: str, *, settings: Mapping[str, Any]) -> None:
    for part in chunks(keys):
        written = f"{any_of('key', part)} and user_id == {quote(user_id)}"
        client.delete(JOURNAL_COLLECTION, filter=written, **settings)


def _owned_by(user_id: str | None) -> QueryExpr:
    """Return the filter for one owner's rows, or for all rows: each has a number."""
    return gte("number", 0) if user_id is None else eq("user_id", user_id)
