"""OpenAI's clients with a memory, against a real HTTP server: recall, learning, order, failures, streams."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Iterator
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


async def test_client_and_memory_must_go_together(client: AsyncOpenAI) -> None:
    with SyncGraphMemory(fake_memory()) as memory, pytest.raises(InvalidInputError, match="needs a GraphMemory"):
        remembering(client, memory, user_id="mira")


async def test_a_limit_of_nothing_is_refused(client: AsyncOpenAI) -> None:
    with pytest.raises(InvalidInputError, match="max_tokens"):
        remembering(client, fake_memory(), user_id="mira", max_tokens=0)
