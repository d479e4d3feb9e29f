"""A graph store that fails on demand at one of its writing calls, around any other backend."""

from __future__ import annotations

from collections.abc import Sequence

from jiuwen_memory.errors import StoreUnavailableError
from jiuwen_memory.foundation.store.graph import (
    BaseGraphObject,
    GraphStore,
    Journal,
    JournalEntry,
    StoreAround,
)


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


class FaultyStore(StoreAround):
    """Does what the store inside does, but for the one call that its faults name."""

    inner = "memory"

    def __init__(self, store: GraphStore) -> None:
        super().__init__(store)
        self.faults = Faults()
        self.journal = FaultyJournal(store.journal, self.faults)

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


def _fail(fails: bool) -> None:
    if fails:
        raise StoreUnavailableError("The store was told to fail.")
