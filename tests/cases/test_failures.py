"""Things that break half-way: the store, the model's service, the embedder's dimension; and what is left then."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from jiuwen_memory import EPISODE_COLLECTION, RELATION_COLLECTION, GraphStoreFactory
from jiuwen_memory.errors import (
    EmbeddingCallError,
    LLMCallError,
    ModelServiceError,
    SchemaMismatchError,
    StoreError,
    StoreParameterError,
)
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, Script
from tests.cases.world import (
    NAMED,
    STATED,
    USER,
    assert_goats_are_stored,
    assert_nothing_is_stored,
    at,
    found_names,
    say,
    scripted,
)
from tests.faulty_store import FaultyStore
from tests.memory_support import all_entities, all_episodes, all_relations, taught

GOATS = {"EntityExtraction": NAMED, "RelationExtraction": STATED}


@pytest.mark.parametrize("broken", ["upsert RELATION_COLLECTION", "upsert ENTITY_COLLECTION", "journal.put"])
@pytest.mark.parametrize("after", [False, True], ids=["before the write", "after the write"])
async def test_a_store_that_fails_between_two_writes_leaves_no_loose_ends_and_no_copies(
    broken: str, after: bool
) -> None:
    """Case 40"""
    GraphStoreFactory.register_backend("faulty", FaultyStore, force=True)
    mind = scripted(GOATS, config=at("faulty", Path()))
    store = mind.memory.db_backend
    assert isinstance(store, FaultyStore)
    order = ["journal.put", *(f"upsert {name}_COLLECTION" for name in ("EPISODE", "ENTITY", "RELATION"))]
    place = order.index(broken)
    store.faults.arm(place, after=after)

    with pytest.raises(StoreError):
        await say(mind)

    assert store.faults.calls[: place + 1] == order[: place + 1]
    store.faults.arm(None)
    nodes = {each.uuid for each in (await all_entities(mind.memory, USER)).values()}
    episodes = {each.uuid for each in await all_episodes(mind.memory, USER)}
    for each in (await all_relations(mind.memory, USER)).values():
        assert {each.lhs, each.rhs} <= nodes
        assert set(each.episodes) <= episodes
    await mind.memory.search("goats", USER)
    await say(mind)
    await assert_goats_are_stored(mind)
    found = await mind.memory.search("goats", USER)
    assert len(found[RELATION_COLLECTION]) == len(found[EPISODE_COLLECTION]) == 1


class Clocked(FakeLLM):
    """Notes when each question came, by the clock of the event loop."""

    times: list[tuple[str, float]]

    async def invoke(self, **arguments: Any) -> Any:
        """Answer as scripted."""
        name = arguments["response_format"]["json_schema"]["name"]
        self.times = [*getattr(self, "times", []), (name, asyncio.get_running_loop().time())]
        return await super().invoke(**arguments)

    def pauses(self, question: str) -> list[float]:
        """Return the seconds between the tries of a question."""
        moments = [moment for name, moment in self.times if name == question]
        return [later - earlier for earlier, later in pairwise(moments)]


async def test_a_busy_service_is_asked_again_after_the_pause_it_wants_or_a_growing_one() -> None:
    """Case 41"""
    busy = ModelServiceError("HTTP 429", retry_after=0.7, status=429)
    llm = Clocked(
        {
            "EntityExtraction": Script([busy, ModelServiceError("HTTP 429", status=429), NAMED]),
            "RelationExtraction": Script([TimeoutError("no answer in time"), STATED]),
        }
    )
    mind = taught(llm=llm)

    await say(mind)

    await assert_goats_are_stored(mind)
    asked, unanswered = llm.pauses("EntityExtraction"), llm.pauses("RelationExtraction")
    assert (len(asked), len(unanswered)) == (2, 1)
    assert asked[0] > 0.69
    assert asked[1] > 0.49
    assert unanswered[0] > 0.24


async def test_no_question_is_put_more_often_than_configured() -> None:
    """Case 41"""
    llm = Clocked({**GOATS, "RelationExtraction": ModelServiceError("HTTP 429", retry_after=0.01, status=429)})
    mind = taught(llm=llm, config=at("memory", Path(), request_max_retries=2))

    with pytest.raises(LLMCallError, match="429") as failure:
        await say(mind)

    assert failure.value.question == "relations"
    assert len(llm.asked("RelationExtraction")) == 2
    await assert_nothing_is_stored(mind)


async def test_an_embedder_of_another_dimension_is_refused_at_once_with_both_numbers() -> None:
    """Case 42"""
    mind = scripted(GOATS)

    with pytest.raises(StoreParameterError, match=r"48.*64|64.*48"):
        mind.memory.attach_embedder(FakeEmbedder(48))


async def test_a_store_of_another_dimension_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    """Case 42"""
    first = scripted(GOATS, config=at("milvus", tmp_path))
    async with first.memory:
        await say(first)
    other = scripted(GOATS, config=at("milvus", tmp_path, embed_dim=48))

    with pytest.raises(SchemaMismatchError, match=r"48.*64|64.*48"):
        await say(other)

    await other.memory.close()
    again = scripted(GOATS, config=at("milvus", tmp_path))
    async with again.memory:
        await assert_goats_are_stored(again)
        found = await again.memory.search("goats", USER)
    assert found_names(found, RELATION_COLLECTION) == ["keeps goats at"]


class Short(FakeEmbedder):
    """Says one dimension and returns vectors one number shorter."""

    async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[list[float]]:
        """Return vectors that are too short."""
        return [vector[:-1] for vector in await super().embed_documents(texts, batch_size)]


async def test_vectors_shorter_than_the_embedder_says_fail_the_add_and_nothing_is_written() -> None:
    """Case 42"""
    mind = scripted(GOATS, embedder=Short(64))

    with pytest.raises(EmbeddingCallError, match=r"63.*64"):
        await say(mind)

    await assert_nothing_is_stored(mind)
