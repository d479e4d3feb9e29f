"""Every store opens where it is told, survives being closed, and serves several loops and threads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from jiuwen_memory.errors import SchemaMismatchError, StoreError, StoreParameterError
from jiuwen_memory.foundation.concurrency import off_loop, together
from jiuwen_memory.foundation.store.graph import (
    ENTITY_COLLECTION,
    GraphStore,
    GraphStoreIndexConfig,
)
from jiuwen_memory.foundation.store.query import filter_user
from tests.stores import DIM, Backend, entity

ANN = filter_user("ann")


@dataclass
class _Embedder:
    dimension: int | None

    async def embed_query(self, text: str) -> list[float]:
        raise NotImplementedError

    async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[list[float]]:
        raise NotImplementedError


async def names(store: GraphStore) -> list[str]:
    found = await store.query(ENTITY_COLLECTION, user=ANN, consistency="strong")
    return sorted(each.model_dump()["name"] for each in found)


async def test_a_store_fulfils_the_protocol(store: GraphStore) -> None:
    assert isinstance(store, GraphStore)


async def test_what_was_written_is_there_after_reopening(backend: Backend) -> None:
    async with backend.make() as first:
        await first.upsert(ENTITY_COLLECTION, [entity("a"), entity("b")])

    second = backend.make()
    await second.upsert(ENTITY_COLLECTION, [entity("c")])

    assert await names(second) == ["a", "b", "c"]


async def test_two_stores_of_one_place_share_it_and_one_may_close(backend: Backend) -> None:
    first, second = backend.make(), backend.make()
    await together(first.open(), second.open())

    await first.upsert(ENTITY_COLLECTION, [entity("a")])
    await first.close()
    await second.upsert(ENTITY_COLLECTION, [entity("b")])

    assert first.identity == second.identity
    assert await names(second) == ["a", "b"]


async def test_closing_twice_is_fine_and_using_a_closed_store_is_not(store: GraphStore) -> None:
    await store.upsert(ENTITY_COLLECTION, [entity("a")])

    await store.close()
    await store.close()

    for use in (
        store.query(ENTITY_COLLECTION, user=ANN),
        store.upsert(ENTITY_COLLECTION, [entity("b")]),
        store.open(),
        store.refresh(),
        store.journal.entries("ann"),
    ):
        with pytest.raises(StoreError, match="closed"):
            await use


async def test_a_store_that_was_never_opened_can_be_closed(store: GraphStore) -> None:
    await store.close()


async def test_a_store_serves_two_loops_in_two_threads_at_once(backend: Backend) -> None:
    store = backend.make()

    async def write(prefix: str) -> None:
        for number in range(5):
            await store.upsert(ENTITY_COLLECTION, [entity(f"{prefix}{number}")])
            await store.refresh()

    with ThreadPoolExecutor(2) as threads:
        await together(*(off_loop(threads, asyncio.run, write(prefix)) for prefix in "ab"), write("c"))

    assert len(await names(store)) == 15


async def test_many_writes_and_flushes_at_once_lose_nothing(store: GraphStore) -> None:
    async def write(number: int) -> None:
        await store.upsert(ENTITY_COLLECTION, [entity(f"{number:02}")])
        await store.refresh()

    await together(*(write(number) for number in range(20)))

    assert await names(store) == [f"{number:02}" for number in range(20)]


async def test_another_dimension_is_refused_and_nothing_is_lost(backend: Backend) -> None:
    async with backend.make() as first:
        await first.upsert(ENTITY_COLLECTION, [entity("a")])

    with pytest.raises(SchemaMismatchError, match=rf"dimension {DIM} .*64.*reembed") as caught:
        await backend.make(embed_dim=64).open()

    assert "dimension" in caught.value.message
    assert await names(backend.make()) == ["a"]


async def test_another_metric_is_refused(backend: Backend) -> None:
    await backend.make().open()

    with pytest.raises(SchemaMismatchError, match="Nothing was changed"):
        await backend.make(db_embed_config=GraphStoreIndexConfig(distance_metric="dot")).open()


async def test_an_embedder_must_fit_once_its_dimension_is_known(backend: Backend) -> None:
    store = backend.make()
    fitting, unknown = _Embedder(DIM), _Embedder(None)

    store.attach_embedder(unknown)
    store.attach_embedder(fitting)
    with pytest.raises(StoreParameterError, match=r"vectors of 1024 values, GraphConfig.embed_dim is 32"):
        store.attach_embedder(_Embedder(1024))
    with pytest.raises(StoreParameterError, match="1024"):
        backend.make(embedding_model=_Embedder(1024))

    assert store.embedder is fitting
    assert backend.make(embedding_model=fitting).embedder is fitting


async def test_databases_of_one_place_are_apart(backend: Backend) -> None:
    here, there = backend.make(), backend.make(name="agent_memory_graph")

    await here.upsert(ENTITY_COLLECTION, [entity("a")])
    await there.refresh()
    before = await names(there)
    await there.upsert(ENTITY_COLLECTION, [entity("b", uuid="test_databases")])
    await there.delete(ENTITY_COLLECTION, ["test_databases"], user_id="ann")

    assert here.identity != there.identity
    assert before == []
    assert await names(here) == ["a"]
