"""A store with a change laid over it: what is found in it, and that nothing can be written to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from jiuwen_memory import ENTITY_COLLECTION, Entity, GraphConfig, GraphMemUpdate, RRFRankConfig
from jiuwen_memory.errors import StoreError
from jiuwen_memory.foundation.store.graph import GraphStore, InMemoryGraphStore, SearchQuery
from jiuwen_memory.foundation.store.query import eq, filter_user
from jiuwen_memory.memory_core.graph.graph_memory.overlay import OverlaidStore
from jiuwen_memory.testing import FakeEmbedder

ANN = filter_user("ann")


async def named(uuid: str, name: str, **changes: object) -> Entity:
    """Return an entity with its vectors."""
    (vector,) = await FakeEmbedder(64).embed_documents([name])
    entity = Entity(uuid=uuid, user_id="ann", name=name, content=name, name_embedding=vector, content_embedding=vector)
    return entity.revise(**changes)


async def overlaid() -> GraphStore:
    """Return a store of red, green and blue tea, of which red is gone, green is black now, and white is new."""
    below = InMemoryGraphStore(GraphConfig(uri=":memory:", backend="memory", embed_dim=64))
    stored = [await named(each, f"{each} tea") for each in ("red", "green", "blue")]
    await below.upsert(ENTITY_COLLECTION, stored)
    update = GraphMemUpdate(
        added_entity=[await named("white", "white tea")],
        updated_entity=[await named("green", "black tea")],
        removed_entity={"red"},
    )
    return OverlaidStore(below, update)


async def names(store: GraphStore, **conditions: object) -> list[str]:
    """Return the names of what is found."""
    found = await store.query(ENTITY_COLLECTION, user=ANN, **conditions)  # type: ignore[arg-type]
    return [each.name for each in found if isinstance(each, Entity)]


async def test_what_is_gone_is_not_found_and_what_changed_is_found_as_it_is_now() -> None:
    store = await overlaid()

    assert sorted(await names(store)) == ["black tea", "blue tea", "white tea"]
    assert await names(store, expr=eq("name_norm", "green tea")) == []
    assert await names(store, expr=eq("name_norm", "black tea")) == ["black tea"]
    assert await names(store, ids=["white", "red", "green", "blue"]) == ["white tea", "black tea", "blue tea"]
    assert len(await names(store, limit=2)) == 2
    assert await store.count(ENTITY_COLLECTION, user=ANN) == 3
    assert await store.count(ENTITY_COLLECTION, user=filter_user("bob")) == 0


async def test_searches_bring_changed_objects_as_they_are_now() -> None:
    store = await overlaid()
    (vector,) = await FakeEmbedder(64).embed_documents(["green tea"])
    query = SearchQuery("green tea", vector)

    (hits,) = await store.search(ENTITY_COLLECTION, [query], user=ANN, rank=RRFRankConfig(), limit=5)
    routes = await store.routes(ENTITY_COLLECTION, query, user=ANN, channels=["content_sparse"], limit=1)
    (none,) = await store.search(
        ENTITY_COLLECTION, [query], user=ANN, rank=RRFRankConfig(), limit=5, expr=eq("name", "green tea")
    )

    assert [each.found.uuid for each in hits] == ["green", "blue"]
    assert isinstance(hits[0].found, Entity) and hits[0].found.name == "black tea"
    assert [each.found.uuid for each in routes["content_sparse"]] == ["green"]
    assert none == []


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.upsert(ENTITY_COLLECTION, []),
        lambda store: store.delete(ENTITY_COLLECTION, ["blue"], user_id="ann"),
        lambda store: store.flush([ENTITY_COLLECTION]),
        lambda store: store.refresh(),
    ],
    ids=["upsert", "delete", "flush", "refresh"],
)
async def test_nothing_can_be_written(write: Callable[[GraphStore], Awaitable[None]]) -> None:
    store = await overlaid()

    with pytest.raises(StoreError, match="write to that one"):
        await write(store)
    with pytest.raises(StoreError):
        store.attach_embedder(FakeEmbedder(64))
    with pytest.raises(StoreError):
        OverlaidStore.from_config(store.config)


async def test_it_opens_the_store_below_and_does_not_close_it() -> None:
    store = await overlaid()

    async with store as opened:
        await opened.open()
        assert opened.embedder is None and opened.identity.startswith("memory:")

    assert len(await names(store)) == 3
