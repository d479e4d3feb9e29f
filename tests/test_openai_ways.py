"""Every way in which OpenAI's clients are asked, with a memory: parsed, raw and streamed answers, of each resource."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from jiuwen_memory import EPISODE_COLLECTION, EpisodeType
from jiuwen_memory.integrations.openai import Remembering, remembering
from jiuwen_memory.integrations.sync import SyncGraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.searching.prompt_text import OPENING
from jiuwen_memory.testing import FakeLLM, fake_memory
from tests.servers import Body, OpenAIServer
from tests.test_openai_clients import FACTS, episodes, sent, user

SAID, ASKED = "I am allergic to hazelnuts.", "Which nuts am I allergic to?"


class Note(BaseModel):
    """What the model is asked for."""

    noted: str


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(replies=lambda body: '{"noted": "no hazelnuts for you"}') as running:
        yield running


@pytest.fixture
async def client(server: OpenAIServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=server.base_url, api_key="any", max_retries=0) as opened:
        yield opened


async def parse(client: Any, text: str) -> str:
    answer = await client.chat.completions.parse(model="any", messages=user(text), response_format=Note)
    return str(answer.choices[0].message.parsed.noted)


async def beta_parse(client: Any, text: str) -> str:
    answer = await client.beta.chat.completions.parse(model="any", messages=user(text), response_format=Note)
    return str(answer.choices[0].message.parsed.noted)


async def beta_create(client: Any, text: str) -> str:
    answer = await client.beta.chat.completions.create(model="any", messages=user(text))
    return Note.model_validate_json(answer.choices[0].message.content).noted


async def stream(client: Any, text: str) -> str:
    async with client.chat.completions.stream(model="any", messages=user(text), response_format=Note) as opened:
        answer = await opened.get_final_completion()
    return str(answer.choices[0].message.parsed.noted)


async def raw_create(client: Any, text: str) -> str:
    raw = await client.chat.completions.with_raw_response.create(model="any", messages=user(text))
    assert raw.headers["content-type"] == "application/json"
    return Note.model_validate_json(raw.parse().choices[0].message.content).noted


async def raw_parse(client: Any, text: str) -> str:
    raw = await client.chat.completions.with_raw_response.parse(model="any", messages=user(text), response_format=Note)
    return str(raw.parse().choices[0].message.parsed.noted)


async def response_parse(client: Any, text: str) -> str:
    answer = await client.responses.parse(model="any", input=text, text_format=Note)
    return str(answer.output_parsed.noted)


async def response_stream(client: Any, text: str) -> str:
    async with client.responses.stream(model="any", input=text) as opened:
        texts = [each.delta async for each in opened if each.type == "response.output_text.delta"]
    return Note.model_validate_json("".join(texts)).noted


async def response_raw(client: Any, text: str) -> str:
    raw = await client.responses.with_raw_response.create(model="any", input=text)
    return Note.model_validate_json(raw.parse().output_text).noted


WAYS = (parse, beta_parse, beta_create, stream, raw_create, raw_parse, response_parse, response_stream, response_raw)
Way = Callable[[Any, str], Awaitable[str]]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_however_the_client_is_asked_it_recalls_and_learns(
    way: Way, server: OpenAIServer, client: AsyncOpenAI
) -> None:
    memory = fake_memory(llm=FakeLLM(FACTS))

    async with remembering(client, memory, user_id="mira") as remembered:
        first = await way(remembered, SAID)
        await remembered.aclose()
        await way(remembered, ASKED)

    assert first == "no hazelnuts for you"
    assert OPENING in sent(server)
    assert "Mira is allergic to hazelnuts." in sent(server)
    learnt = await episodes(memory, "mira")
    assert len(learnt) == 2
    assert all("no hazelnuts for you" in each for each in learnt)
    assert remembered.failures == ()


def ask_all(remembered: Remembering[OpenAI]) -> list[str]:
    """Ask in each of the ways that a client which is not awaited has, and return what was noted."""
    chat, responses = remembered.chat.completions, remembered.responses
    asked: list[Any] = [{"model": "any", "messages": user(f"I have {number} cats.")} for number in range(6)]
    with chat.stream(**asked[0], response_format=Note) as stream:
        streamed = stream.get_final_completion().choices[0].message
    answers = [
        chat.parse(**asked[1], response_format=Note).choices[0].message,
        remembered.beta.chat.completions.parse(**asked[2], response_format=Note).choices[0].message,
        chat.with_raw_response.parse(**asked[3], response_format=Note).parse().choices[0].message,
    ]
    response = responses.parse(model="any", input="I have 4 cats.", text_format=Note)
    return [each.parsed.noted for each in (streamed, *answers)] + [response.output_parsed.noted]


def test_a_client_without_await_learns_in_all_these_ways_too(server: OpenAIServer) -> None:
    with (
        SyncGraphMemory(fake_memory()) as memory,
        OpenAI(base_url=server.base_url, api_key="any", max_retries=0) as client,
        remembering(client, memory, user_id="mira") as remembered,
    ):
        noted = ask_all(remembered)
        remembered.close()
        learnt = list(memory.objects(EPISODE_COLLECTION, "mira"))

    assert noted == ["no hazelnuts for you"] * 5
    assert remembered.failures == ()
    assert {number for number in range(5) for each in learnt if f"I have {number} cats." in each.content} == {*range(5)}


async def test_a_stream_of_the_sdk_that_is_left_early_is_learnt_as_far_as_it_came(client: AsyncOpenAI) -> None:
    memory = fake_memory()

    async with remembering(client, memory, user_id="mira") as remembered:
        async with remembered.chat.completions.stream(model="any", messages=user(SAID)) as stream:
            assert "content.delta" in [(await anext(stream)).type for _ in range(2)]
        async with remembered.responses.stream(model="any", input=ASKED) as heard:
            assert "response.output_text.delta" in [(await anext(heard)).type for _ in range(4)]

    learnt = await episodes(memory, "mira")
    assert len(learnt) == 2
    assert not any("hazelnuts for you" in each for each in learnt)


async def test_a_body_that_the_caller_reads_is_left_to_the_caller(server: OpenAIServer, client: AsyncOpenAI) -> None:
    memory = fake_memory(llm=FakeLLM(FACTS))
    await memory.add_memory(EpisodeType.DOCUMENT, "mira", SAID)
    asked: Any = {"model": "any", "messages": user(ASKED)}

    async with remembering(client, memory, user_id="mira") as remembered:
        chat = remembered.chat.completions
        async with chat.with_streaming_response.create(**asked) as response:
            body = json.loads(b"".join([each async for each in response.iter_bytes()]))
        raw = await chat.with_raw_response.create(**asked, stream=True)
        words = [each.choices[0].delta.content or "" async for each in raw.parse()]

    assert body["choices"][0]["message"]["content"] == "".join(words) == '{"noted": "no hazelnuts for you"}'
    assert all(OPENING in sent(server, number) for number in (-1, -2))
    assert len(await episodes(memory, "mira")) == 1
    assert remembered.failures == ()


async def test_an_answer_that_cannot_be_read_is_the_callers_and_a_failure_of_the_memory() -> None:
    class Odd(OpenAIServer):
        def _response(self, body: Body) -> Body:
            whole = super()._response(body)
            return {**whole, "output": [{"type": "message", "role": "assistant", "id": "1", "content": None}]}

    with Odd() as server:
        async with (
            AsyncOpenAI(base_url=server.base_url, api_key="any", max_retries=0) as client,
            remembering(client, fake_memory(), user_id="mira") as remembered,
        ):
            answer = await remembered.responses.create(model="any", input=SAID)

    assert answer.output[0].content is None
    assert [each.stage for each in remembered.failures] == ["remember"]
