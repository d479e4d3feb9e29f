"""What a graph is made of, in numbers."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import Any

import pytest

from jiuwen_memory import AddMemStrategy, EpisodeType, MemoryItem
from jiuwen_memory.testing import FakeLLM, Script, fake_memory
from tests.memory_support import MAY, Taught, model_of, taught


async def filled() -> Taught:
    """Return a memory with two sessions, two sources, a fact that ended, a link and an entity without a fact."""
    world = taught()
    await world.learn(
        "Tom lives in Oslo.",
        types={"Tom Abbott": "Human", "Oslo": "Entity"},
        said=[("Tom Abbott", "lives in", "Oslo", "Tom lives in Oslo.")],
        reference_time=MAY,
        session_id="one",
        source="chat",
    )
    await world.learn(
        "Tom sings since long. Tom Abbot too.",
        types={"Tom Abbott": "Human", "Tom Abbot": "Human"},
        said=[
            ("Tom Abbott", "sings", "Tom Abbott", "Tom sings."),
            ("Tom Abbott", "lived in", "Oslo", "Tom lived in Oslo."),
        ],
        until="2020",
        same={"Tom Abbott": ["Tom Abbott"], "Oslo": ["Oslo"]},
        reference_time=MAY + timedelta(days=3),
        session_id="two",
        source="mail",
    )
    await world.memory.link_synonyms("ann")
    return world


async def test_nodes_and_edges_are_counted_by_kind() -> None:
    world = await filled()

    found = await world.memory.stats("ann")

    assert dict(found.entities) == {"Human": 2, "Entity": 1}
    assert dict(found.episodes) == {"DOCUMENT": 2}
    assert (found.relations["fact"], found.relations["synonym"]) == (2, 1)
    assert (found.synonym_links, found.synonym_entities) == (1, 2)
    assert found.nodes == 5
    assert found.edges == 3 + found.mentions == 7


async def test_degrees_orphans_and_facts_that_hold_are_counted() -> None:
    world = await filled()

    found = await world.memory.stats("ann")

    assert dict(found.degrees) == {0: 1, 1: 1, 2: 1}
    assert (found.max_degree, found.mean_degree) == (2, 1.0)
    assert found.orphans == 1
    assert found.current_facts == 1


async def test_sources_sessions_time_and_tokens_are_told() -> None:
    world = await filled()

    found = await world.memory.stats("ann")

    assert dict(found.sources) == {"chat": 1, "mail": 1}
    assert dict(found.sessions) == {"one": 1, "two": 1}
    assert (found.since, found.until) == (MAY, MAY + timedelta(days=3))
    assert found.tokens.episodes == 2
    assert found.tokens.calls == world.llm.calls
    assert found.tokens.input > found.tokens.output > 0


async def test_statistics_can_be_read_written_and_not_changed() -> None:
    world = await filled()

    found = await world.memory.stats("ann")

    assert json.loads(json.dumps(found.as_dict()))["edges"] == found.edges
    assert str(found).startswith("Graph of 'ann': 5 nodes, 7 edges\n")
    with pytest.raises(FrozenInstanceError):
        found.orphans = 3  # type: ignore[misc]


@pytest.mark.parametrize("split", [False, True], ids=["whole", "by message"])
async def test_what_a_talk_with_gists_cost_is_told_once(split: bool) -> None:
    listed = [{"name": "Ravi", "type": "Human"}, {"name": "search page", "type": "Entity"}]
    fact = {"fact": "Ravi wants a search page.", "subject": "Ravi", "predicate": "wants", "object": "search page"}
    replies: dict[str, Any] = {
        "GistExtraction": {"gists": ["Ravi asks for help.", "They speak of searching."], "entities": listed},
        "GistFacts": {"facts": [fact]},
    }
    strategy = AddMemStrategy(extraction="episodic_gist", chinese_entity=False, split_messages=split)
    memory = fake_memory(llm=FakeLLM(replies), strategy=strategy)
    said = [
        {"role": "user", "name": "Ravi", "content": "I want a search page."},
        {"role": "user", "content": "Please."},
    ]

    update = await memory.add_memory(EpisodeType.CONVERSATION, "ann", said)

    found = await memory.stats("ann")
    texts = 2 if split else 1
    assert dict(found.episodes) == {"CONVERSATION": texts, "GIST": 2}
    assert (found.tokens.episodes, found.tokens.calls) == (texts, model_of(memory).calls)
    assert (found.tokens.input, found.tokens.output) == (update.usage.input_tokens, update.usage.output_tokens)
    assert found.gist_links == 2 * texts
    assert found.edges == 1 + found.mentions + found.gist_links


async def test_a_question_that_is_put_again_is_counted_as_it_is_in_a_bulk() -> None:
    llm = FakeLLM({"EntityExtraction": Script(["I cannot.", {"entities": []}])})
    memory = fake_memory(llm=llm)

    report = await memory.add_memories([MemoryItem("ann", "It rained.", EpisodeType.DOCUMENT)])

    found = await memory.stats("ann")
    assert found.tokens.calls == report.progress.calls == llm.calls == 3


async def test_an_unknown_user_has_nothing() -> None:
    world = await filled()

    found = await world.memory.stats("bob")

    assert (found.nodes, found.edges, found.mean_degree, found.max_degree) == (0, 0, 0.0, 0)
    assert found.since is None
    assert "time span   unknown" in str(found)


async def test_episodes_stored_without_a_record_of_their_cost_cost_nothing_known() -> None:
    world = await filled()
    episodes = [each async for each in world.memory.objects("EPISODE_COLLECTION", "ann")]
    await world.memory.db_backend.upsert(
        "EPISODE_COLLECTION",
        [each.revise(extra={}, content_embedding=[1.0] + [0.0] * 63) for each in episodes],
    )

    found = await world.memory.stats("ann")

    assert found.tokens.episodes == 0
