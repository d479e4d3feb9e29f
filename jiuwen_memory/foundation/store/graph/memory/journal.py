"""The journal of plans in memory, cut into the same rows as in Milvus, so that damage shows in the same way."""

from __future__ import annotations

from jiuwen_memory.foundation.store.graph.base import JournalEntry
from jiuwen_memory.foundation.store.graph.checks import check_row
from jiuwen_memory.foundation.store.graph.columns import collection_columns
from jiuwen_memory.foundation.store.graph.constants import JOURNAL_COLLECTION
from jiuwen_memory.foundation.store.graph.journal_rows import (
    assemble_entries,
    count_unclaimed,
    counting_key,
    entry_rows,
    unclaimed_keys,
)
from jiuwen_memory.foundation.store.graph.memory.state import MemoryConnection


class MemoryJournal:
    """Keeps plans of any length in rows of bounded size."""

    def __init__(self, connection: MemoryConnection) -> None:
        self._connection = connection
        self._columns = collection_columns(JOURNAL_COLLECTION, connection.config)

    async def put(self, entry: JournalEntry) -> None:
        """Write an entry: its chunks first, then the one row that makes it count."""
        pieces, counting = entry_rows(entry)
        for row in (*pieces, counting):
            check_row(row, self._columns, collection=JOURNAL_COLLECTION)
        with self._connection.tables() as tables:
            tables[JOURNAL_COLLECTION].update({row["key"]: row for row in (*pieces, counting)})

    async def entries(self, user_id: str | None = None) -> list[JournalEntry]:
        """Return whole entries, oldest first; a damaged one says so in its `damage`."""
        with self._connection.tables() as tables:
            rows = list(tables[JOURNAL_COLLECTION].values())
        return assemble_entries(row for row in rows if user_id in (None, row["user_id"]))

    async def remove(self, plan_id: str, user_id: str) -> None:
        """Remove an entry: the row that makes it count first, then its chunks."""
        with self._connection.tables() as tables:
            rows = tables[JOURNAL_COLLECTION]
            mine = [key for key, row in rows.items() if (row["plan_id"], row["user_id"]) == (plan_id, user_id)]
            for key in sorted(mine, key=lambda key: key != counting_key(plan_id)):
                del rows[key]

    async def drop_unfinished(self, user_id: str) -> int:
        """Remove this user's chunks that no entry claims; return how many. Call it under the user's lock."""
        with self._connection.tables() as tables:
            rows = tables[JOURNAL_COLLECTION]
            keys = unclaimed_keys(row for row in rows.values() if row["user_id"] == user_id)
            for key in keys:
                del rows[key]
        return len(keys)

    async def clear(self, user_id: str) -> None:
        """Remove everything of this user, damaged or not."""
        with self._connection.tables() as tables:
            rows = tables[JOURNAL_COLLECTION]
            for key in [key for key, row in rows.items() if row["user_id"] == user_id]:
                del rows[key]

    async def unfinished(self, user_id: str | None = None) -> dict[str, int]:
        """Count the chunks that no entry claims, by owner; every owner of anything in the journal is listed."""
        with self._connection.tables() as tables:
            rows = list(tables[JOURNAL_COLLECTION].values())
        return count_unclaimed(row for row in rows if user_id in (None, row["user_id"]))
