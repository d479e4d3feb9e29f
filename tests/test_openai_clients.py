"""OpenAI's clients with a memory, against a real HTTP server: recall, learning, order, failures, streams."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Iterator
from copy import copy
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI

from jiuwen_memory import EPISODE_COLLECTION, Episode, GraphConfig, GraphMemory
from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.integrations.openai import remembering
from jiuwen_memory.integrations.sync import SyncGraphMemory
from jiuwen_memory.integrations.turns import Failure
from jiuwen_memory.memory_core.graph.graph_memory.searching.prompt_text import OPENING
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, fake_memory
from tests.servers import OpenAIServer

FACTS = {
    "EntityExtraction": {"entities": [{"name": "Mira", "type": "Human"}]},
    "RelationExtraction": {
        "relations": [
            {"fact": "Mira is allergic to hazelnuts.", "name": "allergic to", "source": "Mira", "target": "Mira"}
        ]
    },
}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(replies=lambda body: "Noted, I will keep that in mind.") as running:
        yield running


@pytest.fixture
async def client(server: OpenAIServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=server.base_url, api_key="any", max_retries=0) as opened:
        yield opened


async def episodes(memory: GraphMemory, user_id: str) -> list[str]:
    """Return the texts of a user's episodes in the order in which they were said."""
    found = [each async for each in memory.objects(EPISODE_COLLECTION, user_id) if isinstance(each, Episode)]
    return [each.content for each in sorted(found, key=lambda each: (each.valid_since or 0, each.content))]


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def sent(server: OpenAIServer, number: int = -1) -> str:
    """Return what a request to the server said, whole."""
    return json.dumps(server.requests[number].body, ensure_ascii=False)


async def test_what_was_said_once_stands_in_the_next_prompt(server: OpenAIServer, client: AsyncOpenAI) -> None:
    memory = fake_memory(llm=FakeLLM(FACTS))

    async with remembering(client, memory, user_id="mira", source="shop") as remembered:
        chat = remembered.chat.completions
        first = await chat.create(model="any", messages=user("I am allergic to hazelnuts."))
        await remembered.aclose()
        await chat.create(model="any", messages=user("Which nuts am I allergic to?"))

    assert first.choices[0].message.content == "Noted, I will keep that in mind."
    assert OPENING not in sent(server, 0)
    assert "Mira is allergic to hazelnuts." in sent(server, 1)
    assert remembered.failures == ()
    sources = [each.source async for each in memory.objects(EPISODE_COLLECTION, "mira") if isinstance(each, Episode)]
    assert sources == ["shop", "shop"]


async def test_recalled_text_is_not_learnt_again_nor_is_repeated_history(client: AsyncOpenAI) -> None:
    memory = fake_memory(llm=FakeLLM(FACTS))
    history: list[dict[str, str]] = [{"role": "system", "content": "You are kind."}]

    async with remembering(client, memory, user_id="mira") as remembered:
        for text in ("I am allergic to hazelnuts.", "I live in Lyon.", "What may I eat?"):
            history.append({"role": "user", "content": text})
            answer = await remembered.chat.completions.create(model="any", messages=history)
            history.append({"role": "assistant", "content": answer.choices[0].message.content})
            await remembered.aclose()

    learnt = await episodes(memory, "mira")
    assert len(learnt) == 3
    assert all(OPENING not in text and "You are kind" not in text for text in learnt)
    assert sum("hazelnuts" in text for text in learnt) == 1


async def test_the_same_request_with_the_same_answer_is_learnt_once(client: AsyncOpenAI) -> None:
    memory = fake_memory()

    async with remembering(client, memory, user_id="mira") as remembered:
        for _ in range(3):
            await remembered.chat.completions.create(model="any", messages=user("I live in Lyon."))

    assert len(await episodes(memory, "mira")) == 1


async def test_recalled_text_joins_the_first_system_message(server: OpenAIServer, client: AsyncOpenAI) -> None:
    memory = fake_memory(llm=FakeLLM(FACTS))
    async with remembering(client, memory, user_id="mira") as remembered:
        await remembered.chat.completions.create(model="any", messages=user("I am allergic to hazelnuts."))
        await remembered.aclose()

        await remembered.chat.completions.create(
            model="any", messages=[{"role": "system", "content": "You are kind."}, *user("Which nuts?")]
        )

    messages: Any = server.requests[-1].body["messages"]
    assert [each["role"] for each in messages] == ["system", "user"]
    assert messages[0]["content"].startswith("You are kind.\n\n" + OPENING)


async def test_a_streamed_answer_arrives_as_it_is_and_is_learnt_when_it_has_ended(client: AsyncOpenAI) -> None:
    memory = fake_memory()

    async with remembering(client, memory, user_id="mira") as remembered:
        stream = await remembered.chat.completions.create(model="any", messages=user("I live in Lyon."), stream=True)
        texts = [chunk.choices[0].delta.content or "" async for chunk in stream]

    assert "".join(texts) == "Noted, I will keep that in mind."
    assert len(texts) > 2
    [learnt] = await episodes(memory, "mira")
    assert "I live in Lyon." in learnt
    assert "Noted, I will keep that in mind." in learnt


async def test_a_stream_that_is_closed_early_is_learnt_as_far_as_it_came(client: AsyncOpenAI) -> None:
    memory = fake_memory()

    async with remembering(client, memory, user_id="mira") as remembered:
        stream = await remembered.chat.completions.create(model="any", messages=user("I live in Lyon."), stream=True)
        async with stream:
            await anext(stream)

    [learnt] = await episodes(memory, "mira")
    assert "Noted," in learnt
    assert "mind" not in learnt


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_responses_recall_into_the_instructions_and_are_learnt(
    server: OpenAIServer, client: AsyncOpenAI, streamed: bool
) -> None:
    memory = fake_memory(llm=FakeLLM(FACTS))

    async with remembering(client, memory, user_id="mira") as remembered:
        for text in ("I am allergic to hazelnuts.", "Which nuts am I allergic to?"):
            result = await remembered.responses.create(
                model="any", instructions="Be kind.", input=text, stream=streamed
            )
            if streamed:
                assert [event.type async for event in result][-1] == "response.completed"
            await remembered.aclose()

    instructions = str(server.requests[-1].body["instructions"])
    assert instructions.startswith("Be kind.\n\n" + OPENING)
    assert "allergic to hazelnuts" in instructions
    assert len(await episodes(memory, "mira")) == 2


async def test_order_is_kept_per_user_over_many_interleaved_calls_and_closing_drains_the_queue(
    server: OpenAIServer, client: AsyncOpenAI
) -> None:
    llm = FakeLLM(latency=0.002)
    memory = fake_memory(llm=llm)
    users = [f"user {number}" for number in range(5)]
    base = remembering(client, memory, user_id="nobody", queue_size=10)
    clients = {name: base.for_user(name) for name in users}

    async def talks(name: str) -> None:
        for number in range(40):
            await clients[name].chat.completions.create(model="any", messages=user(f"{name} says {number:02d}"))

    await asyncio.gather(*(talks(name) for name in users))
    await base.aclose()

    assert (base.waiting, base.failures) == (0, ())
    assert len(server.chats) == 200
    # The last thing said in a question about entities is the text being added; before it stands its history.
    added = [re.findall(r"user \d says \d\d", prompt.text)[-1] for prompt in llm.asked("EntityExtraction")]
    for name in users:
        assert [text for text in added if text.startswith(name)] == [f"{name} says {n:02d}" for n in range(40)]


async def test_calls_of_tools_are_not_learnt_and_the_answer_after_them_is(client: AsyncOpenAI) -> None:
    memory = fake_memory()
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    messages = [
        *user("Is it raining in Lyon?"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "heavy rain"},
    ]

    async with remembering(client, memory, user_id="mira") as remembered:
        await remembered.chat.completions.create(model="any", messages=messages)

    [learnt] = await episodes(memory, "mira")
    assert "Is it raining in Lyon?" in learnt
    assert "heavy rain" not in learnt


async def test_a_failing_memory_breaks_no_call_and_is_seen(client: AsyncOpenAI) -> None:
    class Broken(FakeEmbedder):
        async def embed_query(self, text: str) -> list[float]:
            raise ConnectionError("no embedder")

        async def embed_documents(self, texts: Any, batch_size: int | None = None) -> list[list[float]]:
            raise ConnectionError("no embedder")

    told: list[Failure] = []
    config = GraphConfig(uri="broken embedder", backend="memory", embed_dim=64, request_max_retries=1)
    memory = fake_memory(config=config, embedder=Broken(dimension=64), llm=FakeLLM(FACTS))

    async with remembering(client, memory, user_id="mira", on_failure=told.append) as remembered:
        answer = await remembered.chat.completions.create(model="any", messages=user("I live in Lyon."))

    assert answer.choices[0].message.content
    assert [each.stage for each in told] == ["recall", "remember"]
    assert tuple(told) == remembered.failures
    assert len(await memory.pending("mira")) == 1


async def test_a_recall_that_takes_too_long_is_gone_without(client: AsyncOpenAI) -> None:
    class Slow(FakeEmbedder):
        async def embed_query(self, text: str) -> list[float]:
            await asyncio.Event().wait()
            return []

    memory = fake_memory(embedder=Slow(dimension=64))

    async with remembering(client, memory, user_id="mira", recall_timeout=0.05) as remembered:
        await remembered.chat.completions.create(model="any", messages=user("I live in Lyon."))

    assert [each.stage for each in remembered.failures] == ["recall"]
    assert len(await episodes(memory, "mira")) == 1


async def test_the_client_that_was_given_stays_without_a_memory(server: OpenAIServer, client: AsyncOpenAI) -> None:
    memory = fake_memory()
    remembered = remembering(client, memory, user_id="mira")

    await client.chat.completions.create(model="any", messages=[{"role": "user", "content": "I live in Lyon."}])
    await remembered.aclose()

    assert await episodes(memory, "mira") == []
    assert isinstance(remembered.client, AsyncOpenAI)
    assert copy(remembered).client is remembered.client


def test_a_client_without_await_remembers_too(server: OpenAIServer) -> None:
    with (
        SyncGraphMemory(fake_memory(llm=FakeLLM(FACTS))) as memory,
        OpenAI(base_url=server.base_url, api_key="any", max_retries=0) as client,
        remembering(client, memory, user_id="mira") as remembered,
    ):
        remembered.chat.completions.create(model="any", messages=user("I am allergic to hazelnuts."))
        remembered.close()
        stream = remembered.chat.completions.create(model="any", messages=user("Which nuts?"), stream=True)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        remembered.close()
        learnt = list(memory.objects(EPISODE_COLLECTION, "mira"))

    assert text == "Noted, I will keep that in mind."
    assert "Mira is allergic to hazelnuts." in sent(server)
    assert len(learnt) == 2


def test_a_client_without_await_may_be_used_by_threads(server: OpenAIServer) -> None:
    with (
        SyncGraphMemory(fake_memory()) as memory,
        OpenAI(base_url=server.base_url, api_key="any", max_retries=0) as client,
        remembering(client, memory, user_id="mira") as remembered,
    ):
        threads = [
            threading.Thread(
                target=remembered.for_user(f"user {number}").chat.completions.create,
                kwargs={"model": "any", "messages": user("I live in Lyon.")},
            )
            for number in range(4)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        remembered.close()

        assert [len(list(memory.objects(EPISODE_COLLECTION, f"user {number}"))) for number in range(4)] == [1] * 4


async def test_an_answer_that_streams_words_before_it_calls_a_tool_is_not_learnt_either(
    server: OpenAIServer, client: AsyncOpenAI
) -> None:
    memory = fake_memory()
    server.tools_called = ["weather"]
    messages: list[Any] = user("I moved to Lyon. Is it raining?")

    async with remembering(client, memory, user_id="mira") as remembered:
        stream = await remembered.chat.completions.create(model="any", messages=messages, stream=True)
        calls = [each for chunk in [each async for each in stream] for each in chunk.choices[0].delta.tool_calls or ()]
        messages += [
            {"role": "assistant", "content": "Noted.", "tool_calls": [each.model_dump() for each in calls]},
            {"role": "tool", "tool_call_id": "call_1", "content": "heavy rain"},
        ]
        await remembered.chat.completions.create(model="any", messages=messages)

    assert len(calls) == 1
    [learnt] = await episodes(memory, "mira")
    assert learnt.count("I moved to Lyon.") == 1


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_a_response_that_calls_a_tool_is_not_learnt(
    server: OpenAIServer, client: AsyncOpenAI, streamed: bool
) -> None:
    memory = fake_memory()
    server.tools_called = ["weather"]

    async with remembering(client, memory, user_id="mira") as remembered:
        result = await remembered.responses.create(model="any", input="Is it raining in Lyon?", stream=streamed)
        kinds = [event.type async for event in result] if streamed else [each.type for each in result.output]

    assert len(kinds) > 1
    assert await episodes(memory, "mira") == []


async def test_the_output_that_a_program_sends_back_as_the_sdk_gave_it_ends_the_turn_before(
    client: AsyncOpenAI,
) -> None:
    memory = fake_memory()
    said: list[Any] = user("I live in Lyon.")

    async with remembering(client, memory, user_id="mira") as remembered:
        first = await remembered.responses.create(model="any", input=said)
        said += [*first.output, *user("What may I eat?")]
        await remembered.responses.create(model="any", input=said)

    learnt = await episodes(memory, "mira")
    assert len(learnt) == 2
    assert sum("I live in Lyon." in text for text in learnt) == 1


async def test_what_was_said_before_a_tool_was_called_is_learnt_with_what_was_said_after_it(
    client: AsyncOpenAI,
) -> None:
    memory = fake_memory()
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    messages: list[Any] = [
        *user("I lived in Ghent."),
        {"role": "assistant", "content": "Good to know."},
        *user("I moved to Lyon. Is it raining?"),
        {"role": "assistant", "content": "Let me look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "heavy rain"},
        *user("Never mind, what is for dinner?"),
    ]

    async with remembering(client, memory, user_id="mira") as remembered:
        await remembered.chat.completions.create(model="any", messages=messages)

    [learnt] = await episodes(memory, "mira")
    assert "I moved to Lyon." in learnt
    assert "what is for dinner" in learnt
    assert "Ghent" not in learnt


async def test_messages_that_can_be_read_only_once_reach_the_model(server: OpenAIServer, client: AsyncOpenAI) -> None:
    memory = fake_memory()

    async with remembering(client, memory, user_id="mira") as remembered:
        await remembered.chat.completions.create(
            model="any",
            messages=(each for each in user("I live in Lyon.")),
        )

    assert server.requests[0].body["messages"] == user("I live in Lyon.")
    assert len(await episodes(memory, "mira")) == 1


async def test_recall_leaves_everything_else_in_a_request_as_it_was(server: OpenAIServer, client: AsyncOpenAI) -> None:
    memory = fake_memory(llm=FakeLLM(FACTS))
    older: list[Any] = [
        *user("I am allergic to hazelnuts."),
        {"role": "assistant", "content": None, "function_call": {"name": "note", "arguments": "{}"}},
        {"role": "function", "name": "note", "content": "noted"},
        {"role": "assistant", "audio": {"id": "audio_1"}},
        *user("Which nuts am I allergic to?"),
    ]
    async with remembering(client, memory, user_id="mira") as remembered:
        await remembered.chat.completions.create(model="any", messages=older[:1])
        await remembered.aclose()

        await remembered.chat.completions.create(model="any", messages=older)

    messages: Any = server.requests[-1].body["messages"]
    assert messages[0]["content"].startswith(OPENING)
    assert messages[1:] == older
    assert remembered.failures == ()
    assert len(await episodes(memory, "mira")) == 2


async def test_the_same_words_in_another_session_are_another_turn(client: AsyncOpenAI) -> None:
    memory = fake_memory()

    async with remembering(client, memory, user_id="mira", session_id="monday") as monday:
        tuesday = monday.for_user("mira", session_id="tuesday")
        for each in (monday, monday, tuesday):
            await each.chat.completions.create(model="any", messages=user("I had pancakes today."))

    assert len(await episodes(memory, "mira")) == 2


async def test_a_client_with_other_options_and_the_streams_of_the_sdk_remember_too(client: AsyncOpenAI) -> None:
    memory = fake_memory()

    async with remembering(client, memory, user_id="mira") as remembered:
        patient = remembered.with_options(timeout=30)
        await patient.chat.completions.create(model="any", messages=user("I live in Lyon."))
        async with patient.chat.completions.stream(
            model="any", messages=[{"role": "user", "content": "Hi."}]
        ) as stream:
            events = [each.type async for each in stream]

    assert patient.client.timeout == 30
    assert events[-1] == "content.done"
    assert len(await episodes(memory, "mira")) == 2


async def test_what_the_listener_to_failures_raises_stops_neither_calls_nor_turns(client: AsyncOpenAI) -> None:
    raised: list[BaseException | None] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context.get("exception")))
    llm = FakeLLM(FACTS, latency=0.01)
    memory = fake_memory(llm=llm)
    await memory.close()

    def careless(failure: Failure) -> None:
        raise LookupError(failure.stage)

    async with remembering(client, memory, user_id="mira", queue_size=1, on_failure=careless) as remembered:
        answers = [
            await remembered.chat.completions.create(model="any", messages=user(f"I like the number {number}."))
            for number in range(3)
        ]

    assert len(answers) == 3
    assert [each.stage for each in remembered.failures].count("remember") == 3
    assert {str(each) for each in raised} == {"recall", "remember"}
    assert remembered.waiting == 0


async def test_a_fault_of_an_embedder_of_ones_own_breaks_no_call(client: AsyncOpenAI) -> None:
    class Unfinished(FakeEmbedder):
        async def embed_query(self, text: str) -> list[float]:
            raise NotImplementedError

    memory = fake_memory(embedder=Unfinished(dimension=64))

    async with remembering(client, memory, user_id="mira") as remembered:
        answer = await remembered.chat.completions.create(model="any", messages=user("I live in Lyon."))

    assert answer.choices[0].message.content
    assert [each.stage for each in remembered.failures] == ["recall"]


async def test_a_failure_is_in_the_log_by_its_kind_and_without_what_was_said(
    client: AsyncOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    messages: list[Any] = [{"role": "user", "content": {"secret": "I live in Lyon."}}]

    async with remembering(client, fake_memory(), user_id="mira") as remembered:
        await remembered.chat.completions.create(model="any", messages=messages)

    told = [each.getMessage() for each in caplog.records if each.name == "jiuwen_memory" and "turn of user" in each.msg]
    assert len(told) == len(remembered.failures) == 2
    assert all("InvalidInputError" in each for each in told)
    assert "Lyon" not in "".join(told) and "mira" not in "".join(told)


def test_a_closed_memory_breaks_no_call_without_await_either(server: OpenAIServer) -> None:
    told: list[Failure] = []
    memory = SyncGraphMemory(fake_memory())

    with OpenAI(base_url=server.base_url, api_key="any", max_retries=0) as client:
        remembered = remembering(client, memory, user_id="mira", on_failure=told.append)
        memory.close()
        answer = remembered.chat.completions.create(model="any", messages=user("I live in Lyon."))

    assert answer.choices[0].message.content
    assert [each.stage for each in told] == ["recall", "remember"]


async def test_a_call_that_is_cancelled_while_its_turn_waits_for_a_place_leaves_a_failure(
    client: AsyncOpenAI, server: OpenAIServer
) -> None:
    held = asyncio.Event()

    class Waiting(FakeLLM):
        async def invoke(self, **question: Any) -> Any:
            await held.wait()
            return await super().invoke(**question)

    memory = fake_memory(llm=Waiting())

    async with remembering(client, memory, user_id="mira", queue_size=1) as remembered:
        await remembered.chat.completions.create(model="any", messages=user("I live in Lyon."))
        server.first_request.clear()
        call = asyncio.ensure_future(
            remembered.for_user("ben").chat.completions.create(model="any", messages=user("I live in Graz."))
        )
        await asyncio.to_thread(server.first_request.wait, 30)
        # Its answer is on its way; then nothing but the place is waited for.
        await asyncio.wait([call], timeout=1.0)
        call.cancel()
        await asyncio.wait([call])
        held.set()

    assert [(each.stage, each.user_id) for each in remembered.failures] == [("remember", "ben")]
    [lost] = [each.turn for each in remembered.failures if each.turn]
    assert lost.messages[0]["content"] == "I live in Graz."


async def test_an_impossible_user_is_refused_before_any_call(client: AsyncOpenAI) -> None:
    remembered = remembering(client, fake_memory(), user_id="mira")

    with pytest.raises(InvalidInputError, match="user_id"):
        remembering(client, fake_memory(), user_id=" ")
    with pytest.raises(InvalidInputError, match="user_id"):
        remembered.for_user("x" * 33)


async def test_client_and_memory_must_go_together(client: AsyncOpenAI) -> None:
    with SyncGraphMemory(fake_memory()) as memory, pytest.raises(InvalidInputError, match="needs a GraphMemory"):
        remembering(client, memory, user_id="mira")


async def test_only_the_kinds_that_are_wanted_are_recalled(server: OpenAIServer, client: AsyncOpenAI) -> None:
    memory = fake_memory(llm=FakeLLM(FACTS))

    async with remembering(client, memory, user_id="mira", kinds=("episode",)) as remembered:
        await remembered.chat.completions.create(model="any", messages=user("I am allergic to hazelnuts."))
        await remembered.aclose()
        await remembered.chat.completions.create(model="any", messages=user("Which nuts am I allergic to?"))

    assert "What was said or written:" in sent(server)
    assert "Facts:" not in sent(server)
    with pytest.raises(InvalidInputError, match="kinds"):
        remembering(client, memory, user_id="mira", kinds=())
    with pytest.raises(InvalidInputError, match="kinds"):
        remembering(client, memory, user_id="mira", kinds=("facts",))  # type: ignore[arg-type]


async def test_a_limit_of_nothing_is_refused(client: AsyncOpenAI) -> None:
    with pytest.raises(InvalidInputError, match="max_tokens"):
        remembering(client, fake_memory(), user_id="mira", max_tokens=0)
