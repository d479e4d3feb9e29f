"""A model that keeps to its endpoint's rates, over real HTTP. Waits are asserted from below only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from jiuwen_memory.foundation.llm import Model, ModelClientConfig, UserMessage
from jiuwen_memory.foundation.llm.rates import request_tokens
from tests.servers import OpenAIServer

SHORT_WHILE = 0.2


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


def model_at(server: OpenAIServer, **rates: Any) -> Model:
    return Model(model_client_config=ModelClientConfig(api_base=server.base_url, **rates))


async def still_waits(call: asyncio.Task[Any]) -> bool:
    """Give a call a while, tell whether it still waits after that, and end it."""
    done, _ = await asyncio.wait([call], timeout=SHORT_WHILE)
    call.cancel()
    return not done


async def test_without_rates_nothing_waits_and_the_limiter_is_not_even_made(server: OpenAIServer) -> None:
    async with model_at(server) as model:
        await asyncio.gather(*(model.invoke("hello") for _ in range(5)))

        assert not model._rates._buckets

    assert len(server.chats) == 5


async def test_requests_beyond_those_of_a_minute_wait(server: OpenAIServer) -> None:
    async with model_at(server, requests_per_minute=2) as model:
        await asyncio.gather(model.invoke("one"), model.invoke("two"))

        assert await still_waits(asyncio.create_task(model.invoke("three")))

    assert len(server.chats) == 2


async def test_tokens_beyond_those_of_a_minute_wait(server: OpenAIServer) -> None:
    async with model_at(server, tokens_per_minute=100) as model:
        await model.invoke("word " * 60)

        assert await still_waits(asyncio.create_task(model.invoke("word " * 60)))
        await model.invoke("a few more words")

    assert len(server.chats) == 2


async def test_a_request_larger_than_the_bucket_goes_alone_and_empties_it(server: OpenAIServer) -> None:
    async with model_at(server, tokens_per_minute=600) as model:
        begun = time.monotonic()
        await model.invoke("word " * 5000)
        await model.invoke("five tokens, no more")

    assert server.chats[1].at - begun >= 5 / 600 * 60


async def test_small_requests_do_not_overtake_a_large_one(server: OpenAIServer) -> None:
    async with model_at(server, tokens_per_minute=6000) as model:
        await model.invoke("word " * 80)
        large = asyncio.create_task(model.invoke("large " * 5000))
        await asyncio.sleep(0)
        small = asyncio.create_task(model.invoke("small"))
        await asyncio.gather(large, small)

    asked = [str(request.body["messages"])[:60] for request in server.chats]
    assert ["word" in asked[0], "large" in asked[1], "small" in asked[2]] == [True] * 3


async def test_a_waiting_request_that_is_cancelled_leaves_its_place_to_the_next(server: OpenAIServer) -> None:
    async with model_at(server, tokens_per_minute=6000) as model:
        await model.invoke("word " * 5000)
        waiting = [asyncio.create_task(model.invoke(f"waits {number}")) for number in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.gather(*waiting[1:])

    assert [str(each.body["messages"]).count("waits 0") for each in server.chats[1:]] == [0, 0]


def test_each_event_loop_waits_for_itself(server: OpenAIServer) -> None:
    model = model_at(server, requests_per_minute=1)

    async def ask() -> None:
        await model.invoke("hello")
        await model.close()

    asyncio.run(ask())
    asyncio.run(ask())

    assert len(server.chats) == 2


async def test_a_request_that_fails_was_a_request_too(server: OpenAIServer) -> None:
    server.api_key = "another"
    async with model_at(server, requests_per_minute=1) as model:
        await asyncio.gather(model.invoke("hello"), return_exceptions=True)

        assert await still_waits(asyncio.create_task(model.invoke("hello again")))


@pytest.mark.parametrize("rates", [{"requests_per_minute": 0}, {"tokens_per_minute": -1}])
def test_a_rate_that_lets_nothing_through_is_refused(rates: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ModelClientConfig(**rates)


@pytest.mark.parametrize(
    ("messages", "tokens"),
    [
        ("four characters each", 5),
        ([{"role": "user", "content": "四个汉字"}], 4),
        ([UserMessage(content="abcd"), {"role": "user", "content": [{"type": "text", "text": "abcd"}]}], 2),
        ([{"role": "assistant", "content": None, "tool_calls": []}], 0),
    ],
)
def test_the_tokens_of_a_request_are_those_of_its_texts(messages: Any, tokens: int) -> None:
    assert request_tokens(messages, None) == tokens
    assert request_tokens(messages, {"type": "json_object"}) > tokens
