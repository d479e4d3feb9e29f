"""Retries, the record of calls and tokens, messages of any client, and the debug log."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from jiuwen_memory.errors import LLMAnswerError, LLMCallError, ModelServiceError
from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.memory_core.graph.extraction.asking import Asker, Ledger, message_text
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import DEFAULT_ENTITY_TYPES
from jiuwen_memory.memory_core.graph.extraction.questions import ask_entities, ask_timezone
from jiuwen_memory.memory_core.graph.extraction.usage import QuestionUsage, Usage
from jiuwen_memory.memory_core.graph.extraction.values import Mention
from tests.extraction_support import TALK, Answer, ScriptedModel, asker_for

GOOD = {"entities": [{"name": "Mira Holt", "type": "Human"}]}
BUSY = ModelServiceError("429 from the model", retryable=True)


async def entities(asker: Asker) -> list[Mention]:
    return await ask_entities(TALK, types=DEFAULT_ENTITY_TYPES, language="en", asker=asker)


async def test_a_failing_service_is_tried_again_within_the_budget() -> None:
    model = ScriptedModel([BUSY, TimeoutError("slow"), GOOD])

    assert await entities(asker_for(model, tries=3)) == [Mention("Mira Holt", "Human")]


async def test_failures_and_the_repeat_share_one_budget() -> None:
    model = ScriptedModel([BUSY, "no JSON", BUSY])

    with pytest.raises(LLMCallError) as caught:
        await entities(asker_for(model, tries=4))

    assert len(model.calls) == 4
    assert (caught.value.question, caught.value.__cause__) == ("entities", BUSY)


async def test_without_a_try_left_an_unusable_answer_is_final() -> None:
    model = ScriptedModel(["no JSON", GOOD])

    with pytest.raises(LLMAnswerError):
        await entities(asker_for(model, tries=1))


async def test_a_failure_that_will_not_pass_is_not_tried_again() -> None:
    model = ScriptedModel([ModelServiceError("401", retryable=False)])

    with pytest.raises(LLMCallError):
        await entities(asker_for(model, tries=5))

    assert len(model.calls) == 1


async def test_a_fault_of_the_program_is_raised_as_it_is() -> None:
    with pytest.raises(NotImplementedError):
        await entities(asker_for(ScriptedModel([NotImplementedError()])))


async def test_cancelling_reaches_the_model() -> None:
    ended: list[str] = []
    started = asyncio.Event()

    class Hanging:
        async def invoke(self, **kwargs: object) -> object:
            started.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.append("yes")
            return None

    task = asyncio.create_task(entities(asker_for(Hanging())))
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["yes"]


async def test_extra_arguments_go_with_every_request() -> None:
    model = ScriptedModel([GOOD])

    await entities(asker_for(model, extra_kwargs={"temperature": 0.2}))

    assert model.calls[0]["temperature"] == 0.2
    assert model.calls[0]["response_format"]["json_schema"]["name"] == "EntityExtraction"


async def test_calls_at_once_are_one_round_even_if_the_model_never_suspends() -> None:
    asker = asker_for(
        ScriptedModel(lambda messages, form: GOOD if form["name"] == "EntityExtraction" else {"timezone": None})
    )

    await together(entities(asker), ask_timezone(TALK, language="en", asker=asker))
    await entities(asker)

    usage = asker.ledger.usage
    assert (usage.calls, usage.rounds, usage.questions["entities"].calls) == (3, 2, 2)


async def test_no_more_requests_than_allowed_are_under_way() -> None:
    under_way: list[int] = [0, 0]

    class Counting:
        async def invoke(self, **kwargs: object) -> object:
            under_way[0] += 1
            under_way[1] = max(under_way)
            await asyncio.sleep(0.01)
            under_way[0] -= 1
            return Answer('{"entities":[]}')

    asker = asker_for(Counting(), max_concurrent=2)

    await together(*(entities(asker) for _ in range(6)))

    assert under_way == [0, 2]
    assert asker.ledger.usage.rounds == 1


TOKENS = {
    "usage": SimpleNamespace(content="{}", usage=SimpleNamespace(input_tokens=7, output_tokens=3)),
    "OpenAI names": SimpleNamespace(content="{}", usage={"prompt_tokens": 7, "completion_tokens": 3}),
    "LangChain": SimpleNamespace(content="{}", usage_metadata={"input_tokens": 7, "output_tokens": 3}),
    "response metadata": SimpleNamespace(
        content="{}", response_metadata={"token_usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    ),
    "dictionary": {"content": "{}", "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
}


@pytest.mark.parametrize("message", TOKENS.values(), ids=TOKENS.keys())
async def test_reported_tokens_are_counted(message: Any) -> None:
    class Client:
        async def invoke(self, **kwargs: object) -> object:
            return message

    asker = asker_for(Client(), tries=1)

    with pytest.raises(LLMAnswerError):
        await entities(asker)

    assert asker.ledger.usage.questions == {"entities": QuestionUsage(1, 7, 3)}


async def test_tokens_are_estimated_when_not_reported() -> None:
    asker = asker_for(ScriptedModel([GOOD]))

    await entities(asker)

    assert asker.ledger.usage.input_tokens > 100
    assert 5 < asker.ledger.usage.output_tokens < 40


def test_the_text_of_a_message_is_found() -> None:
    parts = [
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {}},
        "b",
    ]

    assert message_text(SimpleNamespace(content=parts)) == "ab"
    assert message_text({"content": "x"}) == message_text("x") == "x"
    assert message_text(SimpleNamespace(content=None)) == ""


def test_usages_add_up() -> None:
    one = Usage(1, 1, 10, 5, 0, {"entities": QuestionUsage(1, 10, 5)})
    other = Usage(2, 1, 20, 5, 1, {"entities": QuestionUsage(1, 15, 3), "timezone": QuestionUsage(1, 5, 2)})

    assert one + other == Usage(
        3, 2, 30, 10, 1, {"entities": QuestionUsage(2, 25, 8), "timezone": QuestionUsage(1, 5, 2)}
    )
    assert Usage() + one == one
    assert Ledger().usage == Usage()


async def test_debug_logs_name_input_and_output(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="jiuwen_memory"):
        await entities(asker_for(ScriptedModel([GOOD]), debug=True))

    assert all(words in caplog.text for words in ("Prompt entities", "I keep bees", '"Mira Holt"'))
