"""Users kept apart, and writers kept in order: hostile ids, ids that begin alike, parallel writes, several loops."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from jiuwen_memory import EPISODE_COLLECTION
from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.testing import FakeLLM, FakePrompt, same_as
from tests.cases.world import (
    NAMED,
    SENTENCE,
    STATED,
    USER,
    WHO,
    at,
    found_names,
    numbered,
    say,
    scripted,
)
from tests.memory_support import all_entities, all_episodes, all_relations, entities, facts, problems, taught


@pytest.mark.parametrize("backend", ["memory", "milvus"])
async def test_a_user_id_in_the_shape_of_a_filter_finds_nothing_of_others(backend: str, tmp_path: Path) -> None:
    """Case 19"""
    mind = scripted({"EntityExtraction": entities({"bike lock 8302": "Entity"})}, config=at(backend, tmp_path))
    async with mind.memory:
        await say(mind, "The number of my bike lock is 8302.", user="owner")
        for thief in ('y" or user_id != "y', "y' or 'a'=='a", '"] or true or user_id in ["', "owner' --", "%", "own%"):
            found = await mind.memory.search("bike lock", thief)
            assert all(hits == [] for hits in found.values())
        assert len((await mind.memory.search("bike lock", "owner"))[EPISODE_COLLECTION]) == 1


@pytest.mark.parametrize(("backend", "others_stored"), [("memory", 30), ("milvus", 10)])
async def test_ids_that_begin_alike_are_different_users_also_among_many_better_matches(
    backend: str, others_stored: int, tmp_path: Path
) -> None:
    """Case 20"""
    mind = scripted({"EntityExtraction": entities({"newts": "Entity"})}, config=at(backend, tmp_path))
    async with mind.memory:
        await say(mind, "I raise newts.", user="lio")
        for number in range(others_stored):
            await say(mind, f"I raise newts, pond {number}.", user="lio2")

        one = await mind.memory.search("newts", "lio")
        both = await mind.memory.search("newts", ["lio", "lio2"])
        others = [await mind.memory.search("newts", user) for user in ("li", "LIO", "lio ")]

    assert {collection: {each.user_id for _, each in hits} for collection, hits in one.items()} == {
        "ENTITY_COLLECTION": {"lio"},
        "RELATION_COLLECTION": set(),
        "EPISODE_COLLECTION": {"lio"},
    }
    assert found_names(one, EPISODE_COLLECTION) == ["user: I raise newts."]
    assert {each.user_id for hits in both.values() for _, each in hits} == {"lio", "lio2"}
    assert all(hits == [] for found in others for hits in found.values())


@pytest.mark.parametrize("backend", ["memory", "milvus"])
async def test_a_user_id_is_measured_alike_by_add_and_search_whatever_its_bytes(backend: str, tmp_path: Path) -> None:
    """Case 21"""
    user = "橙子" * 16
    mind = scripted({"EntityExtraction": entities({"绍兴": "Entity"})}, config=at(backend, tmp_path))
    async with mind.memory:
        await say(mind, "我搬到绍兴了。", user=user)
        found = await mind.memory.search("绍兴", user)
        calls = mind.llm.calls
        for too_long in (mind.memory.search("绍兴", user + "子"), say(mind, "我搬走了。", user=user + "子")):
            with pytest.raises(InvalidInputError, match="33 characters"):
                await too_long

    assert len(user.encode()) == 96
    assert found_names(found, EPISODE_COLLECTION) == ["user: 我搬到绍兴了。"]
    assert mind.llm.calls == calls


class Meeting(FakeLLM):
    """Answers no question for names before two of them have been asked."""

    def __init__(self, replies: Any) -> None:
        super().__init__(replies)
        self.both = asyncio.Event()

    async def invoke(self, **arguments: Any) -> Any:
        """Answer as scripted, once everybody is there."""
        if arguments["response_format"]["json_schema"]["name"] == "EntityExtraction":
            if len(self.asked("EntityExtraction")) == 1:
                self.both.set()
            else:
                self.prompts.append(FakePrompt("EntityExtraction", "", {}))
            await asyncio.wait_for(self.both.wait(), 20)
        return await super().invoke(**arguments)


async def test_two_users_write_at_the_same_time_and_each_into_their_own_graph() -> None:
    """Case 22"""

    def named(prompt: FakePrompt) -> JsonValue:
        names = ("Ulla", "plums") if "Ulla" in prompt.text.rsplit("<text>", 1)[1] else ("Sten", "peas")
        return entities(dict.fromkeys(names, "Entity"))

    def stated(prompt: FakePrompt) -> JsonValue:
        lhs, rhs = ("Ulla", "plums") if "Ulla" in prompt.text.rsplit("<text>", 1)[1] else ("Sten", "peas")
        return facts((lhs, "loves", rhs, f"{lhs} loves {rhs}."))

    mind = taught(llm=Meeting({"EntityExtraction": numbered(named), "RelationExtraction": numbered(stated)}))

    await asyncio.gather(say(mind, "Ulla loves plums.", user="u1"), say(mind, "Sten loves peas.", user="u2"))

    for user, names in (("u1", {"Ulla", "plums"}), ("u2", {"Sten", "peas"})):
        nodes = await all_entities(mind.memory, user)
        (fact,) = (await all_relations(mind.memory, user)).values()
        assert set(nodes) == names
        assert {each.user_id for each in (*nodes.values(), fact)} == {user}
        assert {fact.lhs, fact.rhs} == {each.uuid for each in nodes.values()}
        assert await problems(mind.memory, user) == []


async def test_two_writes_of_one_user_go_one_after_the_other_without_blocking_the_loop() -> None:
    """Case 23"""
    known = same_as({name: [name] for name in WHO})
    llm = FakeLLM({"EntityExtraction": NAMED, "RelationExtraction": STATED, "EntityDuplication": known}, latency=0.05)
    mind = taught(llm=llm)
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            ticks.append(len(ticks))
            await asyncio.sleep(0.005)

    clock = asyncio.create_task(tick())
    updates = await asyncio.gather(say(mind, SENTENCE), say(mind, f"As I said: {SENTENCE}"))
    clock.cancel()

    first, second = sorted(updates, key=lambda update: -len(update.added_entity))
    assert {each.uuid for each in first.added_entity} == {each.uuid for each in second.updated_entity}
    assert [len(await all_entities(mind.memory, USER)), len(await all_relations(mind.memory, USER))] == [2, 1]
    assert len(await all_episodes(mind.memory, USER)) == 2
    assert len(ticks) > 10
    assert await problems(mind.memory, USER) == []


@pytest.mark.parametrize("backend", ["memory", "milvus"])
@pytest.mark.parametrize("at_once", [False, True], ids=["one loop after the other", "two threads at once"])
def test_one_memory_serves_several_event_loops(backend: str, at_once: bool, tmp_path: Path) -> None:
    """Case 47"""
    known = same_as({name: [name] for name in WHO})
    mind = scripted(
        {"EntityExtraction": NAMED, "RelationExtraction": STATED, "EntityDuplication": known},
        config=at(backend, tmp_path),
    )

    def write(text: str) -> int:
        return len(asyncio.run(say(mind, text)).added_episode)

    texts = [SENTENCE, f"Once more: {SENTENCE}"]
    with ThreadPoolExecutor(2) as threads:
        tasks = [threads.submit(write, text) for text in texts] if at_once else []
        added = [task.result(timeout=60) for task in tasks] or [write(text) for text in texts]

    async def look() -> tuple[int, int, list[str]]:
        async with mind.memory:
            nodes, edges = await all_entities(mind.memory, USER), await all_relations(mind.memory, USER)
            return len(nodes), len(edges), await problems(mind.memory, USER)

    assert added == [1, 1]
    assert asyncio.run(look()) == (2, 1, [])
