"""The commit: what is embedded, that a plan is written whole or not at all, and that the journal makes good a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy
import pytest

from jiuwen_memory import AddMemStrategy, EpisodeType, GraphConfig, GraphMemory, GraphStoreFactory
from jiuwen_memory.errors import EmbeddingCallError, StoreUnavailableError
from jiuwen_memory.foundation.store.graph import BaseGraphObject, Entity, InMemoryGraphStore, JournalEntry
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, by_name, fake_memory, same_as
from tests.faulty_store import FaultyStore
from tests.memory_support import (
    MAY,
    Taught,
    all_entities,
    all_episodes,
    all_relations,
    entities,
    facts,
    problems,
    taught,
)

GraphStoreFactory.register_backend("faulty", FaultyStore, force=True)

TOM = ("Tom", "knows", "Kim", "Tom knows Kim.")
ORR = ("Thomas Orr", "flies", "Heron", "Thomas Orr flies the Heron.")


def faulty(**changes: Any) -> tuple[Taught, FaultyStore]:
    """Return a memory whose store fails on demand."""
    config = GraphConfig(**{"uri": uuid4().hex, "backend": "faulty", "embed_dim": 64, **changes})
    mind = taught(config=config)
    store = mind.memory.db_backend
    assert isinstance(store, FaultyStore)
    return mind, store


async def know_two(mind: Taught) -> None:
    """Teach two entities that will turn out to be one."""
    await mind.learn(TOM[3], types={"Tom": "Human", "Kim": "Human"}, said=[TOM], summaries={"Tom": "A pilot."})
    await mind.learn("Tom.", types={"Tom": "Human"}, same={"Tom": ["Tom"]})
    await mind.learn(ORR[3], types={"Thomas Orr": "Human", "Heron": "Entity"}, said=[ORR])


async def fuse(mind: Taught) -> None:
    """Add a text that adds, updates and removes: the two are one, and have landed in Molde."""
    await mind.learn(
        "Tommy, that is Tom or Thomas Orr, landed in Molde.",
        types={"Tommy": "Human", "Molde": "Entity"},
        said=[("Tommy", "landed in", "Molde", "Tommy landed in Molde.")],
        same={"Tommy": ["Tom (", "Thomas Orr"]},
        summaries={"Tommy": "A pilot in Molde."},
        reference_time=MAY,
    )


async def shape(mind: Taught) -> dict[str, Any]:
    """Return what a graph says, without ids."""
    nodes = await all_entities(mind.memory)
    names = {each.uuid: each.name for each in nodes.values()}
    edges = (await all_relations(mind.memory)).values()
    return {
        "entities": {name: (each.content, each.mention_count, sorted(each.aliases)) for name, each in nodes.items()},
        "facts": sorted((names[each.lhs], each.name, names[each.rhs], each.mention_count) for each in edges),
        "episodes": sorted(each.content for each in await all_episodes(mind.memory)),
    }


# --- embedding --------------------------------------------------------------------------------------------------------


async def test_what_did_not_change_is_not_embedded_again() -> None:
    mind = taught()
    await mind.learn(TOM[3], types={"Tom": "Human", "Kim": "Human"}, said=[TOM], summaries={"Tom": "A pilot."})
    mind.embedder.texts.clear()

    await mind.learn(
        "Tom sleeps.",
        types={"Tom": "Human"},
        said=[("Tom", "does", "Tom", "Tom sleeps now.")],
        same={"Tom": ["Tom"]},
        summaries={"Tom": "A sleeping pilot."},
    )

    assert sorted(mind.embedder.texts) == ["A sleeping pilot.", "Tom sleeps now.", "Tom sleeps."]


async def test_equal_texts_are_embedded_once() -> None:
    mind = taught()
    birds = {"Heron": "Entity", "Crane": "Entity"}

    await mind.learn("Heron and Crane", types=birds, summaries=dict.fromkeys(birds, "A bird."))

    assert mind.embedder.texts.count("A bird.") == 1


async def test_a_changed_name_of_the_embedder_makes_new_vectors_when_a_row_is_written_again() -> None:
    mind = taught()
    await mind.learn("Tom.", types={"Tom": "Human"}, summaries={"Tom": "A pilot."})
    other = FakeEmbedder()
    other.model_name = "another-embedder"
    mind.memory.attach_embedder(other)

    await mind.learn("Tom again.", types={"Tom": "Human"}, same={"Tom": ["Tom"]})

    assert "A pilot." in other.texts


async def test_an_embedder_that_fails_for_good_leaves_nothing_behind() -> None:
    for allowed in range(3):
        embedder = FakeEmbedder()
        config = GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64, request_max_retries=1)
        memory = fake_memory(
            {"EntityExtraction": entities({"Tom": "Human", "Kim": "Human"}), "RelationExtraction": facts(TOM)},
            embedder=Failing(embedder, after=allowed),  # type: ignore[arg-type]
            config=config,
        )

        with pytest.raises(EmbeddingCallError, match="Nothing was written"):
            await memory.add_memory(EpisodeType.DOCUMENT, "ann", TOM[3])

        assert await all_episodes(memory) == []
        assert await all_entities(memory) == {}
        assert [entry.kind for entry in await memory.db_backend.journal.entries("ann")] == ["pending"]


class Failing:
    """An embedder that works for so many calls and then fails."""

    def __init__(self, inner: FakeEmbedder, *, after: int) -> None:
        self.dimension = inner.dimension
        self._inner = inner
        self._after = after

    async def embed_query(self, text: str) -> list[float]:
        return (await self.embed_documents([text]))[0]

    async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[list[float]]:
        if self._inner.calls >= self._after:
            raise ConnectionError("The embedder is away.")
        return await self._inner.embed_documents(texts, batch_size)


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        ([[0.5] * 63], "63 numbers"),
        ([[0.5, float("nan")] * 32], "NaN"),
        ([[0.5, -1e39] * 32], "a huge number"),
        ([], "0 vectors for 1 texts"),
        (["x" * 64], "str"),
    ],
)
async def test_vectors_that_cannot_be_used_are_an_error_and_nothing_is_written(
    vectors: list[list[float]], reason: str
) -> None:
    class Wrong(FakeEmbedder):
        async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[list[float]]:
            return vectors

    memory = fake_memory(embedder=Wrong())

    with pytest.raises(EmbeddingCallError, match=reason):
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", "A text.")

    assert await all_episodes(memory) == []


async def test_vectors_may_come_as_an_array() -> None:
    class Encoder(FakeEmbedder):
        async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> Any:
            return numpy.array(await super().embed_documents(texts, batch_size), dtype=numpy.float32)

    mind = taught(embedder=Encoder())

    await mind.learn(TOM[3], types={"Tom": "Human", "Kim": "Human"}, said=[TOM])

    assert set(await all_entities(mind.memory)) == {"Tom", "Kim"}


# --- all or nothing ---------------------------------------------------------------------------------------------------


async def test_a_commit_writes_journal_episodes_entities_relations_then_removes_then_clears_the_journal() -> None:
    mind, store = faulty()
    await know_two(mind)
    store.faults.arm(None)

    await fuse(mind)

    assert store.faults.calls == [
        "journal.put",
        "upsert EPISODE_COLLECTION",
        "upsert ENTITY_COLLECTION",
        "upsert RELATION_COLLECTION",
        "delete ENTITY_COLLECTION",
        "flush",
        "journal.remove",
    ]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(7))
async def test_a_store_that_fails_at_any_write_is_made_good_by_the_next_add(number: int, after: bool) -> None:
    whole, _ = faulty()
    await know_two(whole)
    await fuse(whole)
    mind, store = faulty()
    await know_two(mind)
    store.faults.arm(number, after=after)

    with pytest.raises(StoreUnavailableError):
        await fuse(mind)
    store.faults.arm(None)
    await fuse(mind)

    assert await shape(mind) == await shape(whole)
    assert await problems(mind.memory) == []


async def test_a_write_that_failed_before_the_journal_counted_left_the_graph_as_it_was() -> None:
    mind, store = faulty()
    await know_two(mind)
    before = await shape(mind)
    store.faults.arm(0)

    with pytest.raises(StoreUnavailableError):
        await fuse(mind)

    assert await shape(mind) == before
    assert await problems(mind.memory) == []


async def test_a_replay_embeds_only_what_the_store_does_not_hold() -> None:
    mind, store = faulty()
    await know_two(mind)
    store.faults.arm(3)
    with pytest.raises(StoreUnavailableError):
        await fuse(mind)
    store.faults.arm(None)
    mind.embedder.texts.clear()

    await mind.learn("Rain.")

    assert sorted(mind.embedder.texts) == ["Rain.", "Tommy landed in Molde."]
    assert await problems(mind.memory) == []


async def test_another_users_interrupted_write_is_left_to_that_user() -> None:
    mind, store = faulty()
    store.faults.arm(1)
    with pytest.raises(StoreUnavailableError):
        await mind.learn("Mine.", user="ann")
    store.faults.arm(None)

    await mind.learn("Theirs.", user="ben")

    assert len(await mind.memory.db_backend.journal.entries("ann")) == 1
    assert await all_episodes(mind.memory, "ann") == []


async def test_opening_and_searching_replay_nothing() -> None:
    mind, store = faulty()
    store.faults.arm(1)
    with pytest.raises(StoreUnavailableError):
        await mind.learn("A heron.")
    store.faults.arm(None)

    found = await mind.memory.search("heron", "ann")

    assert found["EPISODE_COLLECTION"] == []
    assert store.faults.calls == []


async def test_a_journal_entry_that_cannot_be_read_is_an_error_and_is_kept() -> None:
    from jiuwen_memory.errors import JournalError

    mind = taught()
    entry = JournalEntry(plan_id="p", user_id="ann", kind="header", payload='{"rows": 3}', created_at=1)
    await mind.memory.db_backend.journal.put(entry)

    with pytest.raises(JournalError, match="cannot be read"):
        await mind.learn("A heron.")

    assert await mind.memory.db_backend.journal.entries("ann") == [entry]


async def test_an_interrupted_write_survives_reopening_a_store_on_disk(tmp_path: Path) -> None:
    GraphStoreFactory.register_backend("faulty-lite", FaultyLite, force=True)
    config = GraphConfig(uri=str(tmp_path / "graph.db"), backend="faulty-lite", embed_dim=64, timeout=60)
    mind = taught(config=config)
    await know_two(mind)
    store = mind.memory.db_backend
    assert isinstance(store, FaultyStore)
    store.faults.arm(2)
    with pytest.raises(StoreUnavailableError):
        await fuse(mind)
    await mind.memory.close()

    again = taught(config=config.model_copy(update={"backend": "milvus"}))
    async with again.memory:
        await fuse(again)

        found = await shape(again)
        wrong = await problems(again.memory)

    assert ({"Kim", "Heron", "Molde"} <= set(found["entities"]), len(found["entities"])) == (True, 4)
    assert len(found["episodes"]) == 4
    assert wrong == []


class FaultyLite(FaultyStore):
    """A faulty store around Milvus Lite."""

    inner = "milvus"


# --- cancellation -----------------------------------------------------------------------------------------------------


class SlowStore(FaultyStore):
    """A store whose writing of entities waits until it is told to go on."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    async def upsert(self, collection: str, objects: Any) -> None:
        if collection == "ENTITY_COLLECTION":
            self.reached.set()
            await self.go_on.wait()
        await super().upsert(collection, objects)


async def test_a_cancellation_in_the_middle_of_a_write_waits_for_its_end() -> None:
    GraphStoreFactory.register_backend("slow", SlowStore, force=True)
    mind = taught(config=GraphConfig(uri=uuid4().hex, backend="slow", embed_dim=64))
    store = mind.memory.db_backend
    assert isinstance(store, SlowStore)
    adding = asyncio.ensure_future(mind.learn(TOM[3], types={"Tom": "Human", "Kim": "Human"}, said=[TOM]))
    await store.reached.wait()

    adding.cancel()
    await asyncio.sleep(0)
    store.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await adding

    assert set(await all_entities(mind.memory)) == {"Tom", "Kim"}
    assert set(await all_relations(mind.memory)) == {TOM[3]}
    assert await problems(mind.memory) == []


async def test_a_cancellation_before_the_write_leaves_nothing_and_frees_the_users_lock() -> None:
    asked = asyncio.Event()

    class Hanging(FakeLLM):
        async def invoke(self, **arguments: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

    config = GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64)
    hanging = taught(config=config, llm=Hanging())
    adding = asyncio.ensure_future(hanging.memory.add_memory(EpisodeType.DOCUMENT, "ann", "A heron."))
    await asked.wait()

    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    await taught(config=config).learn("A crane.")

    assert [each.content for each in await all_episodes(hanging.memory)] == ["A crane."]


# --- writers of one user ----------------------------------------------------------------------------------------------


async def test_two_adds_of_one_user_take_turns_even_through_two_memories() -> None:
    config = GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64)
    replies = {
        "EntityExtraction": entities({"Tom": "Human"}),
        "EntityDuplication": same_as({"Tom": ["Tom"]}),
        "EntitySummaries": by_name({"Tom": "A pilot."}),
    }
    memories: list[GraphMemory] = [
        fake_memory(llm=FakeLLM(replies, latency=0.001), config=config, strategy=AddMemStrategy(chinese_entity=False))
        for _ in range(2)
    ]

    await asyncio.gather(
        *(memories[number % 2].add_memory(EpisodeType.DOCUMENT, "ann", f"Tom, {number}.") for number in range(6))
    )

    assert (await all_entities(memories[0]))["Tom"].mention_count == 6
    assert await problems(memories[0]) == []


class Occupied(InMemoryGraphStore):
    """A store that once finds the first new id of each collection taken."""

    def __init__(self, config: GraphConfig) -> None:
        super().__init__(config)
        self.claimed: dict[str, str] = {}

    async def query(self, collection: str, **wanted: Any) -> list[BaseGraphObject]:
        if wanted.get("output_fields") == ["uuid"] and collection not in self.claimed:
            self.claimed[collection] = wanted["ids"][0]
            return [Entity(uuid=wanted["ids"][0])]
        return await super().query(collection, **wanted)


async def test_a_new_id_that_is_taken_already_is_replaced_wherever_it_is_named() -> None:
    GraphStoreFactory.register_backend("occupied", Occupied, force=True)
    mind = taught(config=GraphConfig(uri="occupied", backend="occupied", embed_dim=64))
    store = mind.memory.db_backend

    await mind.learn(TOM[3], types={"Tom": "Human", "Kim": "Human"}, said=[TOM])

    assert isinstance(store, Occupied)
    claimed = set(store.claimed.values())
    stored = {each.uuid for name in GRAPH_COLLECTIONS async for each in mind.memory.objects(name, "ann")}
    assert len(claimed) == 3
    assert claimed.isdisjoint(stored)
    assert (await mind.memory.check("ann")).is_clean
