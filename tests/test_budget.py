"""What an add may spend: with `max_llm_calls` and `max_tokens` it asks the essential questions first, and says so."""

from __future__ import annotations

from uuid import uuid4

import pytest

from jiuwen_memory import AddMemStrategy, EpisodeType, GraphConfig, GraphMemory
from jiuwen_memory.errors import LLMAnswerError, LLMCallError, ModelServiceError
from jiuwen_memory.testing import FakeLLM, FakePrompt, Script, fake_memory
from jiuwen_memory.testing.llm import Answer
from tests.faults.world import BEFORE, LAST, USER, scripted_model, tell, tell_before
from tests.memory_support import all_entities, all_episodes, all_relations, entities, facts, nothing_is_stored

TEA = ("Tom", "likes", "tea", "Tom likes tea.")
ESSENTIAL = {"EntityExtraction", "RelationExtraction"}
TEXT = "Tom likes tea."
GARDEN = "\n\n".join(f"In week {week} Tom drank tea in the garden, and so did all his guests." for week in range(1, 5))


def limited(*, config: GraphConfig | None = None, llm: FakeLLM | None = None, **limits: int) -> GraphMemory:
    """Return a memory with a budget whose model finds one fact in every text."""
    replies = {"EntityExtraction": entities({"Tom": "Human", "tea": "Entity"}), "RelationExtraction": facts(TEA)}
    config = config or GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64, request_max_retries=2)
    strategy = AddMemStrategy.model_validate({"chinese_entity": False, "chunk_tokens": 50, **limits})
    return fake_memory(llm=llm or FakeLLM(replies), config=config, strategy=strategy)


async def learnt(memory: GraphMemory) -> tuple[int, int, int]:
    """Return how many episodes, entities and facts there are."""
    return len(await all_episodes(memory)), len(await all_entities(memory)), len(await all_relations(memory))


def asked(memory: GraphMemory) -> list[str]:
    assert isinstance(memory.llm_client, FakeLLM)
    return [prompt.question for prompt in memory.llm_client.prompts]


async def test_one_call_names_the_things_and_no_facts() -> None:
    memory = limited(max_llm_calls=1)

    update = await memory.add_memory(EpisodeType.DOCUMENT, USER, TEXT)

    assert asked(memory) == ["EntityExtraction"]
    assert await learnt(memory) == (1, 2, 0)
    assert any("'relations'" in each and "no facts are stored" in each for each in update.warnings)
    assert any("'timezone'" in each and "budget" in each for each in update.warnings)


async def test_two_calls_leave_out_everything_optional() -> None:
    memory = limited(max_llm_calls=2)

    update = await memory.add_memory(EpisodeType.DOCUMENT, USER, TEXT)

    assert asked(memory) == ["EntityExtraction", "RelationExtraction"]
    assert await learnt(memory) == (1, 2, 1)
    assert all(any(f"'{each}'" in warning for warning in update.warnings) for each in ("timezone", "summaries"))


@pytest.mark.parametrize("calls", range(1, 9))
async def test_no_more_is_asked_than_the_calls_allow_and_the_graph_stays_whole(calls: int) -> None:
    config = GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64)
    await tell_before(limited(config=config, llm=scripted_model()))
    memory = limited(config=config, llm=scripted_model(), max_llm_calls=calls)

    update = await tell(memory, LAST)
    questions = asked(memory)

    assert update.usage.calls + update.usage.reasked >= len(questions) == min(calls, 7)
    assert ("EntityExtraction" in questions, "RelationExtraction" in questions) == (True, calls > 1)
    assert bool(update.warnings) == (calls < 7)
    assert len(await all_episodes(memory)) == len(BEFORE) + 1
    assert (await memory.check()).is_clean


@pytest.mark.parametrize("tokens", [1, 150, 300, 600, 900, 1200, 1500, 2500])
async def test_tokens_run_out_in_the_same_order_and_the_graph_stays_whole(tokens: int) -> None:
    config = GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64)
    await tell_before(limited(config=config, llm=scripted_model()))
    memory = limited(config=config, llm=scripted_model(), max_tokens=tokens)

    update = await tell(memory, LAST)
    questions = asked(memory)

    assert set(questions) <= ESSENTIAL or set(questions) >= ESSENTIAL
    assert update.usage.input_tokens <= tokens
    assert bool(update.warnings) == (len(questions) < 7)
    assert (await memory.check()).is_clean


async def test_too_few_tokens_for_any_question_store_the_episode_alone() -> None:
    memory = limited(max_tokens=1)

    update = await memory.add_memory(EpisodeType.DOCUMENT, USER, TEXT)

    assert asked(memory) == []
    assert await learnt(memory) == (1, 0, 0)
    assert any("only the episode is stored" in each for each in update.warnings)


async def test_an_add_without_a_budget_leaves_nothing_out() -> None:
    memory = limited()

    update = await memory.add_memory(EpisodeType.DOCUMENT, USER, TEXT)

    assert update.warnings == []
    assert sorted(asked(memory)) == [
        "EntityExtraction",
        "EntitySummaries",
        "RelationExtraction",
        "TimezonePredictions",
    ]


async def test_all_parts_of_a_long_input_share_the_budget_and_keep_it_for_what_is_essential() -> None:
    memory = limited(max_llm_calls=5)

    update = await memory.add_memory(EpisodeType.DOCUMENT, USER, GARDEN)
    questions = asked(memory)

    assert update.added_episode[0].parts == 2
    assert (questions.count("EntityExtraction"), questions.count("RelationExtraction")) == (2, 2)
    assert len(questions) == 5
    assert (await all_relations(memory))[TEA[3]].mention_count == 2


async def test_later_parts_are_stored_as_episodes_when_the_first_spent_everything() -> None:
    memory = limited(max_llm_calls=2)

    update = await memory.add_memory(EpisodeType.DOCUMENT, USER, GARDEN)

    assert asked(memory) == ["EntityExtraction", "RelationExtraction"]
    assert len(await all_episodes(memory)) == 2
    assert any("'entities'" in each and "only the episode is stored" in each for each in update.warnings)


async def test_every_add_has_the_budget_anew() -> None:
    memory = limited(max_llm_calls=2)

    for text in ("Tom likes tea.", "Tom still likes tea."):
        await memory.add_memory(EpisodeType.DOCUMENT, USER, text)

    assert asked(memory) == ["EntityExtraction", "RelationExtraction"] * 2


async def test_retries_count() -> None:
    busy = ModelServiceError("Busy.", retry_after=0.0)
    replies = {
        "EntityExtraction": Script([busy, entities({"Tom": "Human", "tea": "Entity"})]),
        "RelationExtraction": facts(TEA),
    }
    memory = limited(llm=FakeLLM(replies), max_llm_calls=3)

    await memory.add_memory(EpisodeType.DOCUMENT, USER, TEXT)

    assert sorted(asked(memory)) in (
        ["EntityExtraction", "EntityExtraction", "RelationExtraction"],
        ["EntityExtraction", "EntityExtraction", "TimezonePredictions"],
    )


async def test_a_model_that_fails_when_no_retry_is_left_is_an_error_and_the_input_is_kept() -> None:
    memory = limited(llm=FakeLLM({"EntityExtraction": ModelServiceError("Busy.")}), max_llm_calls=1)

    with pytest.raises(LLMCallError, match="failed"):
        await memory.add_memory(EpisodeType.DOCUMENT, USER, TEXT)

    assert [each.text for each in await memory.pending(USER)] == [TEXT]
    assert await nothing_is_stored(memory)


async def test_an_unusable_reply_that_cannot_be_asked_again_is_an_error_and_the_input_is_kept() -> None:
    def chatter(prompt: FakePrompt) -> Answer:
        return "I would rather not."

    memory = limited(llm=FakeLLM({"EntityExtraction": chatter}), max_llm_calls=1)

    with pytest.raises(LLMAnswerError) as caught:
        await memory.add_memory(EpisodeType.DOCUMENT, USER, TEXT)

    assert caught.value.reply == "I would rather not."
    assert [each.text for each in await memory.pending(USER)] == [TEXT]
