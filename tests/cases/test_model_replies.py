"""What a language model sends instead of the plain JSON it was asked for."""

from __future__ import annotations

import json

import pytest
from pydantic import JsonValue

from jiuwen_memory.errors import LLMAnswerError
from jiuwen_memory.testing import FakePrompt, Script
from tests.cases.world import (
    AUTUMN,
    NAMED,
    SENTENCE,
    STATED,
    WHO,
    assert_goats_are_stored,
    assert_nothing_is_stored,
    dated,
    numbered,
    say,
    scripted,
)
from tests.memory_support import all_entities, all_episodes, all_relations, entities, facts, problems

NAMED_TEXT, STATED_TEXT = json.dumps(NAMED), json.dumps(STATED)
CUT = STATED_TEXT[: STATED_TEXT.index("goats at Larch")]


async def test_an_answer_in_a_fence_with_chatter_around_it_costs_no_second_call() -> None:
    """Case 01"""
    mind = scripted(
        {
            "EntityExtraction": f"Of course, here is the list:\n\n```json\n{NAMED_TEXT}\n```\n\nShall I go on?",
            "RelationExtraction": f"```\n{STATED_TEXT}\n```",
        }
    )

    update = await say(mind)

    await assert_goats_are_stored(mind)
    assert update.usage.reasked == 0
    assert len(mind.llm.asked("EntityExtraction")) == len(mind.llm.asked("RelationExtraction")) == 1


async def test_json_inside_the_models_reasoning_is_not_its_answer() -> None:
    """Case 02"""
    mind = scripted(
        {
            "EntityExtraction": f'<think>Nobody is named: {{"entities": []}}. Wait, Greta is.</think>\n{NAMED_TEXT}',
            "RelationExtraction": f'<think>\nlet me see {{"b": [2]}}\n</think>\n```json\n{STATED_TEXT}\n```',
        }
    )

    await say(mind)

    await assert_goats_are_stored(mind)


async def test_an_answer_cut_off_inside_its_only_fact_is_asked_for_again() -> None:
    """Case 03"""
    mind = scripted({"EntityExtraction": NAMED, "RelationExtraction": Script([CUT, STATED])})

    update = await say(mind)

    await assert_goats_are_stored(mind)
    assert len(mind.llm.asked("RelationExtraction")) == 2
    assert update.usage.reasked == 1


async def test_answers_that_are_always_cut_off_fail_the_add_and_leave_the_user_free() -> None:
    """Case 04"""
    mind = scripted({"EntityExtraction": NAMED, "RelationExtraction": CUT})

    with pytest.raises(LLMAnswerError) as failure:
        await say(mind)

    assert (failure.value.question, failure.value.reply) == ("relations", CUT)
    assert "relations" in str(failure.value)
    assert len(mind.llm.asked("RelationExtraction")) <= mind.memory.config.request_max_retries
    await assert_nothing_is_stored(mind)
    assert all(hits == [] for hits in (await mind.memory.search("goats", "rowan")).values())
    mind.llm.replies["RelationExtraction"] = STATED
    await say(mind)
    await assert_goats_are_stored(mind)


async def test_a_schema_sent_back_is_no_answer() -> None:
    """Case 05"""
    schema: JsonValue = {
        "$defs": {"Thing": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "properties": {"entities": {"type": "array", "items": {"$ref": "#/$defs/Thing"}}},
        "required": ["entities"],
        "type": "object",
    }
    mind = scripted({"EntityExtraction": Script([schema, NAMED]), "RelationExtraction": STATED})

    update = await say(mind)

    await assert_goats_are_stored(mind)
    assert len(mind.llm.asked("EntityExtraction")) == 2
    assert update.usage.reasked == 1


async def test_a_bare_list_and_a_bare_item_are_taken_as_the_list_that_was_asked_for() -> None:
    """Case 06"""
    mind = scripted(
        {
            "EntityExtraction": [{"name": name, "type": kind} for name, kind in WHO.items()],
            "RelationExtraction": dated(),
        }
    )

    update = await say(mind)

    await assert_goats_are_stored(mind)
    assert update.usage.reasked == 0


@pytest.mark.parametrize("stranger", [99, "99", 0, -1, "Nobody Known", None, [], {"id": 12}])
async def test_ends_given_as_texts_of_numbers_count_and_unknown_ends_drop_their_fact_only(stranger: JsonValue) -> None:
    """Case 07"""

    def answer(prompt: FakePrompt) -> JsonValue:
        greta, croft = prompt.number("Greta Moll"), prompt.number("Larch Croft")
        return {
            "relations": [
                {"fact": SENTENCE, "name": "keeps goats at", "source_id": str(greta), "target_id": str(croft)},
                {"fact": "Greta Moll met someone.", "name": "met", "source_id": greta, "target_id": stranger},
            ]
        }

    mind = scripted({"EntityExtraction": NAMED, "RelationExtraction": numbered(answer)})

    update = await say(mind)

    await assert_goats_are_stored(mind)
    assert any("Greta Moll met someone." in warning for warning in update.warnings)


async def test_type_numbers_outside_the_list_mean_the_default_type() -> None:
    """Case 08"""
    mind = scripted(
        {
            "EntityExtraction": {
                "entities": [{"name": "Greta Moll", "type": 58}, {"name": "Larch Croft", "entity_type_id": -1}]
            },
            "RelationExtraction": STATED,
        }
    )

    await say(mind)

    await assert_goats_are_stored(mind)
    assert {each.obj_type for each in (await all_entities(mind.memory, "rowan")).values()} == {"Entity"}


async def test_duplicates_that_name_themselves_and_each_other_become_one_entity() -> None:
    """Case 09"""

    def answer(prompt: FakePrompt) -> JsonValue:
        new = prompt.number("Greta M. (")
        stored = next(number for number in prompt.numbers("Greta Moll (") if number > new)
        return {
            "duplicates": [
                {"id": stored, "same": [stored, new]},
                {"id": new, "same": [stored]},
                {"id": prompt.number("Larch Croft barn (")},
            ]
        }

    mind = scripted(
        {
            "EntityExtraction": Script([NAMED, entities({"Greta M.": "Human", "Larch Croft barn": "Entity"})]),
            "RelationExtraction": Script([STATED, facts()]),
            "EntityDuplication": numbered(answer),
        }
    )
    await say(mind)

    await say(mind, "Greta M. brought hay to the Larch Croft barn.", reference_time=AUTUMN.replace(day=16))

    found = await all_entities(mind.memory, "rowan")
    episodes = {each.uuid for each in await all_episodes(mind.memory, "rowan")}
    assert set(found) == {"Greta Moll", "Larch Croft", "Larch Croft barn"}
    assert sorted(found["Greta Moll"].episodes) == sorted(episodes)
    assert len(episodes) == 2
    assert set(await all_relations(mind.memory, "rowan")) == {SENTENCE}
    assert await problems(mind.memory, "rowan") == []
