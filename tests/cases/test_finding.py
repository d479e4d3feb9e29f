"""Finding again: thresholds, order, at once after a write, in a graph that grew, and after parts of it were deleted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    GraphMemory,
    GraphStoreFactory,
    Relation,
    SearchConfig,
)
from jiuwen_memory.foundation.store.graph import BaseGraphObject
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.testing import FakePrompt, InMemoryGraphStore, same_as
from tests.cases.world import (
    AUTUMN,
    NAMED,
    SENTENCE,
    STATED,
    USER,
    assert_nothing_is_stored,
    at,
    found_names,
    numbered,
    say,
    scripted,
)
from tests.memory_support import all_entities, all_episodes, all_relations, entities, facts, problems

GOATS = {"EntityExtraction": NAMED, "RelationExtraction": STATED}


@pytest.mark.parametrize("backend", ["memory", "milvus"])
@pytest.mark.parametrize("metric", ["cosine", "euclidean", "dot"])
async def test_the_very_words_of_a_fact_find_it_first_under_every_metric(
    metric: str, backend: str, tmp_path: Path
) -> None:
    """Case 43"""
    said = facts(
        ("Greta Moll", "keeps goats at", "Larch Croft", SENTENCE),
        ("Greta Moll", "sells cheese at", "Larch Croft", "Greta Moll sells cheese at Larch Croft."),
        ("Larch Croft", "has", "Larch Croft", "The roof is made of slate."),
    )
    config = at(backend, tmp_path, db_embed_config={"distance_metric": metric})
    mind = scripted({"EntityExtraction": NAMED, "RelationExtraction": said}, config=config)
    async with mind.memory:
        await say(mind)
        found = await mind.memory.search(SENTENCE, USER, search_strategy="default")
        counts = []
        for number, score in enumerate((0.0, 0.01, 0.02, 0.025, 0.03, 0.0325)):
            one = SearchConfig(min_score=score)
            mind.memory.register_search_strategy(f"s{number}", one, one, one)
            hits = await mind.memory.search(SENTENCE, USER, f"s{number}")
            counts.append(sum(map(len, hits.values())))

    first = found[RELATION_COLLECTION][0][1]
    assert isinstance(first, Relation)
    assert first.content == SENTENCE
    for hits_found in found.values():
        scores = [score for score, _ in hits_found]
        assert scores == sorted(scores, reverse=True)
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


@pytest.mark.parametrize("backend", ["memory", "milvus"])
async def test_equal_scores_keep_their_order_from_search_to_search(backend: str, tmp_path: Path) -> None:
    """Case 44"""
    mind = scripted({"EntityExtraction": entities({"Larch Croft": "Entity"})}, config=at(backend, tmp_path))
    orders = set()
    async with mind.memory:
        for _ in range(12):
            await say(mind, "Larch Croft again.", reference_time=None)

        for _ in range(20):
            found = await mind.memory.search("Larch Croft again", USER)
            orders.add(tuple(each.uuid for hits in found.values() for _, each in hits))

    assert len(orders) == 1
    assert len(found[EPISODE_COLLECTION]) == 3


@pytest.mark.parametrize("backend", ["memory", "milvus"])
async def test_what_was_just_written_is_found(backend: str, tmp_path: Path) -> None:
    """Case 45"""
    mind = scripted(GOATS, config=at(backend, tmp_path))
    async with mind.memory:
        await say(mind)
        found = await mind.memory.search("goats", USER)

    assert found_names(found, RELATION_COLLECTION) == ["keeps goats at"]
    assert len(found[EPISODE_COLLECTION]) == 1


class Counting(InMemoryGraphStore):
    """Counts the rows that queries return."""

    rows = 0

    async def query(self, collection: str, **arguments: Any) -> list[BaseGraphObject]:
        """Query as ever."""
        found = await super().query(collection, **arguments)
        self.rows += len(found)
        return found


async def test_an_entity_of_every_episode_stays_as_cheap_as_at_first_and_loses_nothing() -> None:
    """Case 46"""
    GraphStoreFactory.register_backend("counting", Counting, force=True)
    storage = {"relations": 40, "episodes": 40, "entities": 40}
    verbs = ("climbed", "painted", "mapped", "mowed", "crossed", "left", "saw", "fenced", "sold", "found")

    def number(prompt: FakePrompt) -> str:
        return str(re.findall(r"walk (\d+)\.", prompt.text)[-1])

    def named(prompt: FakePrompt) -> JsonValue:
        return entities({"Greta Moll": "Human", f"hill {number(prompt)}": "Entity"})

    def stated(prompt: FakePrompt) -> JsonValue:
        hill, verb = f"hill {number(prompt)}", verbs[int(number(prompt)) % len(verbs)]
        return facts(("Greta Moll", verb, hill, f"Greta Moll {verb} {hill}."))

    mind = scripted(
        {
            "EntityExtraction": numbered(named),
            "RelationExtraction": numbered(stated),
            "EntityDuplication": same_as({"Greta Moll": ["Greta Moll ("]}),
        },
        config=at("counting", Path(), db_storage_config=storage),
    )
    store = mind.memory.db_backend
    assert isinstance(store, Counting)
    costs: list[tuple[int, int, int]] = []
    for walk in range(120):
        rows, asked = store.rows, len(mind.llm.prompts)
        update = await say(mind, f"Greta Moll went on walk {walk}.", reference_time=None)
        length = sum(len(prompt.text) for prompt in mind.llm.prompts[asked:])
        costs.append((update.usage.calls, length, store.rows - rows))

    greta = [each for name, each in (await all_entities(mind.memory, USER)).items() if name == "Greta Moll"]
    assert [each.mention_count for each in greta] == [120]
    assert len(greta[0].episodes) == len(greta[0].relations) == 40
    assert len(await all_relations(mind.memory, USER)) == len(await all_episodes(mind.memory, USER)) == 120
    for early, late in zip(costs[20], costs[119], strict=True):
        assert late <= 2 * early
    assert await problems(mind.memory, USER) == []


@pytest.mark.parametrize("backend", ["memory", "milvus"])
async def test_rows_deleted_in_the_store_itself_do_not_break_a_search(backend: str, tmp_path: Path) -> None:
    """Case 48"""
    mind = scripted(GOATS, config=at(backend, tmp_path))
    async with mind.memory:
        update = await say(mind)
        croft = (await all_entities(mind.memory, USER))["Larch Croft"]
        await mind.memory.db_backend.delete(EPISODE_COLLECTION, [update.added_episode[0].uuid], user_id=USER)
        await mind.memory.db_backend.delete(ENTITY_COLLECTION, [croft.uuid], user_id=USER)

        found = await wide_search(mind.memory)

    assert found[EPISODE_COLLECTION] == []
    assert croft.uuid not in {each.uuid for _, each in found[ENTITY_COLLECTION]}


@pytest.mark.parametrize("backend", ["memory", "milvus"])
async def test_deleting_an_episode_takes_what_rests_on_it_alone(backend: str, tmp_path: Path) -> None:
    """Case 48"""
    mind = scripted(GOATS, config=at(backend, tmp_path))
    async with mind.memory:
        update = await say(mind)
        mind.llm.replies = {"EntityExtraction": entities({"Greta Moll": "Human"})}
        await say(mind, "Greta Moll sings.", reference_time=AUTUMN.replace(day=16))

        await mind.memory.delete_episode(USER, update.added_episode[0].uuid)

        nodes, edges = await all_entities(mind.memory, USER), await all_relations(mind.memory, USER)
        found = await wide_search(mind.memory)
        wrong = await problems(mind.memory, USER)

    assert (set(nodes), edges) == ({"Greta Moll"}, {})
    assert found_names(found, ENTITY_COLLECTION) == ["Greta Moll"]
    assert found[RELATION_COLLECTION] == []
    assert found_names(found, EPISODE_COLLECTION) == ["user: Greta Moll sings."]
    assert wrong == []


@pytest.mark.parametrize("backend", ["memory", "milvus"])
async def test_deleting_an_entity_takes_its_facts_and_leaves_no_loose_end(backend: str, tmp_path: Path) -> None:
    """Case 48"""
    mind = scripted(GOATS, config=at(backend, tmp_path))
    async with mind.memory:
        await say(mind)
        croft = (await all_entities(mind.memory, USER))["Larch Croft"]

        await mind.memory.delete_entity(USER, croft.uuid)

        nodes, edges = await all_entities(mind.memory, USER), await all_relations(mind.memory, USER)
        found = await wide_search(mind.memory)
        wrong = await problems(mind.memory, USER)

    assert (set(nodes), edges) == ({"Greta Moll"}, {})
    assert found[RELATION_COLLECTION] == []
    assert croft.uuid not in {each.uuid for _, each in found[ENTITY_COLLECTION]}
    assert wrong == []


@pytest.mark.parametrize("backend", ["memory", "milvus"])
async def test_deleting_a_user_leaves_no_row_of_theirs_and_all_of_others(backend: str, tmp_path: Path) -> None:
    """Case 48"""
    mind = scripted(GOATS, config=at(backend, tmp_path))
    async with mind.memory:
        await say(mind)
        await say(mind, user="neighbour")

        await mind.memory.delete_user(USER)

        await assert_nothing_is_stored(mind)
        assert await counts(mind.memory, USER) == [0, 0, 0]
        assert await counts(mind.memory, "neighbour") == [2, 1, 1]


async def wide_search(memory: GraphMemory) -> dict[str, list[tuple[float, BaseGraphObject]]]:
    """Search with two hops of expansion, whatever the score."""
    wide = SearchConfig(min_score=0.0, bfs_depth=2)
    memory.register_search_strategy("wide", wide, wide, wide, force=True)
    return await memory.search("goats", USER, "wide")


async def counts(memory: GraphMemory, user: str) -> list[int]:
    """Return how many rows of a user there are in each collection."""
    collections: Sequence[str] = (ENTITY_COLLECTION, RELATION_COLLECTION, EPISODE_COLLECTION)
    return [await memory.db_backend.count(each, user=filter_user(user)) for each in collections]
