"""Every store keeps plans of any length, and says so when one is damaged."""

from __future__ import annotations

import pytest

from jiuwen_memory.errors import StoreParameterError
from jiuwen_memory.foundation.store.graph import GraphStore, JournalEntry
from tests.stores import Backend


def plan(plan_id: str = "p1", *, user: str = "ann", payload: str = "{}", at: int = 1) -> JournalEntry:
    return JournalEntry(plan_id=plan_id, user_id=user, kind="header", payload=payload, created_at=at)


@pytest.mark.parametrize("payload", ["", "{}", "华为🙂é" * 40_000, "x" * 60_000, "字" * 20_001, '"\\\n\t'])
async def test_a_plan_of_any_length_comes_back(store: GraphStore, payload: str) -> None:
    await store.journal.put(plan(payload=payload))

    assert await store.journal.entries("ann") == [plan(payload=payload)]


async def test_entries_are_listed_oldest_first_and_by_owner(store: GraphStore) -> None:
    pending = JournalEntry(plan_id="b", user_id="bob", kind="pending", payload="later", created_at=1)
    for entry in (plan("new", at=3), plan("old", at=2), pending):
        await store.journal.put(entry)

    assert [entry.plan_id for entry in await store.journal.entries("ann")] == ["old", "new"]
    assert await store.journal.entries("bob") == [pending]
    assert [entry.plan_id for entry in await store.journal.entries()] == ["b", "old", "new"]
    assert await store.journal.entries("nobody") == []


async def test_removing_takes_one_plan_of_one_owner(store: GraphStore) -> None:
    await store.journal.put(plan("p1", payload="字" * 50_000))
    await store.journal.put(plan("p2"))

    await store.journal.remove("p1", "bob")
    assert len(await store.journal.entries("ann")) == 2
    await store.journal.remove("p1", "ann")
    await store.journal.remove("p1", "ann")

    assert await store.journal.entries() == [plan("p2")]
    assert await store.journal.drop_unfinished("ann") == 0


async def test_writing_a_plan_again_replaces_it(store: GraphStore) -> None:
    await store.journal.put(plan(payload="a" * 130_000))

    await store.journal.put(plan(payload="b"))

    assert await store.journal.entries("ann") == [plan(payload="b")]
    assert await store.journal.drop_unfinished("ann") == 3
    assert await store.journal.entries("ann") == [plan(payload="b")]


async def test_a_plan_outlives_the_store_that_wrote_it(backend: Backend) -> None:
    first = backend.make()
    await first.journal.put(plan(payload="字" * 50_000))
    await first.close()

    assert await backend.make().journal.entries("ann") == [plan(payload="字" * 50_000)]


async def test_an_owner_that_does_not_fit_is_refused(store: GraphStore) -> None:
    with pytest.raises(StoreParameterError, match="user_id"):
        await store.journal.put(plan(user="u" * 40))

    assert await store.journal.entries() == []


async def test_chunks_that_no_header_claims_are_counted_by_owner(store: GraphStore) -> None:
    await store.journal.put(plan(payload="a" * 130_000))
    await store.journal.put(plan(payload="b"))
    await store.journal.put(plan("p2", user="bob"))

    everyone, bobs = await store.journal.unfinished(), await store.journal.unfinished("bob")

    assert everyone == {"ann": 3, "bob": 0}
    assert bobs == {"bob": 0}
    assert await store.journal.unfinished("nobody") == {}
