"""`Model` against a real HTTP server."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from email.utils import formatdate
from pathlib import Path
from time import time

import pytest
import trustme

from jiuwen_memory.errors import InvalidInputError, ModelServiceError, SetupError
from jiuwen_memory.foundation.llm import Model, ModelClientConfig, ModelRequestConfig, TokenUsage, UserMessage
from jiuwen_memory.foundation.llm.model import ChatModel
from tests.servers import Fault, OpenAIServer

KEY = "sk-very-secret-0123456789"
SCHEMA = {
    "type": "object",
    "properties": {"names": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
    "required": ["names"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "Names", "schema": SCHEMA, "strict": False}}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture
async def model(server: OpenAIServer) -> AsyncIterator[Model]:
    async with model_at(server) as opened:
        yield opened


def model_at(server: OpenAIServer, **client: object) -> Model:
    settings = {"api_base": server.base_url, "api_key": KEY, **client}
    return Model(
        model_config=ModelRequestConfig(model="small"),
        model_client_config=ModelClientConfig.model_validate(settings),
    )


async def test_an_answer_has_content_usage_reason_and_model(model: Model) -> None:
    answer = await model.invoke(messages=[{"role": "user", "content": "Hi"}])

    assert (answer.content, answer.finish_reason, answer.model) == ("Hello.", "stop", "small")
    assert isinstance(answer.usage, TokenUsage)
    assert answer.usage.output_tokens == 1


async def test_a_model_is_a_chat_model(model: Model) -> None:
    assert isinstance(model, ChatModel)


async def test_settings_and_keywords_reach_the_endpoint(server: OpenAIServer) -> None:
    config = ModelRequestConfig.model_validate({"model": "small", "max_tokens": 5, "seed": 1})
    client = ModelClientConfig(api_base=server.base_url + "/chat/completions", api_key=KEY, headers={"x-team": "red"})

    async with Model(config, client) as model:
        await model.invoke("Hi", max_tokens=9, extra_body={"enable_thinking": False}, extra_headers={"x-trace": "7"})

    [request] = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.body == {
        "model": "small",
        "temperature": 0.0,
        "max_tokens": 9,
        "seed": 1,
        "enable_thinking": False,
        "messages": [{"role": "user", "content": "Hi"}],
    }
    assert (request.headers["x-team"], request.headers["x-trace"]) == ("red", "7")
    assert request.headers["authorization"] == f"Bearer {KEY}"


async def test_messages_of_every_kind_can_be_mixed(server: OpenAIServer, model: Model) -> None:
    from langchain_core.messages import AIMessage

    await model.invoke([UserMessage(content="a"), AIMessage("b"), {"role": "user", "content": "c\ud800\0"}])

    sent = server.chats[0].body["messages"]
    assert sent == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c\ufffd"},
    ]


async def test_without_a_key_no_authorization_is_sent(server: OpenAIServer) -> None:
    async with model_at(server, api_key="") as model:
        await model.invoke("Hi")

    assert "authorization" not in server.requests[0].headers


async def test_a_schema_is_sent_as_it_is(server: OpenAIServer, model: Model) -> None:
    answer = await model.invoke("Who?", response_format=FORMAT)

    assert answer.content == '{"names": [""]}'
    assert server.chats[0].body["response_format"] == FORMAT


async def test_an_endpoint_without_json_schema_is_asked_for_an_object_and_that_is_remembered(
    server: OpenAIServer, model: Model
) -> None:
    server.refuse_json_schema = True

    answers = [await model.invoke("Who?", response_format=FORMAT) for _ in range(2)]

    kinds = [request.body.get("response_format") for request in server.chats]
    assert kinds == [FORMAT, {"type": "json_object"}, {"type": "json_object"}]
    assert [answer.content for answer in answers] == ['{"names": [""]}'] * 2


async def test_an_endpoint_without_any_format_gets_the_schema_in_the_prompt(server: OpenAIServer, model: Model) -> None:
    server.refuse_json_schema = server.refuse_json_object = True

    answers = [await model.invoke("Who?", response_format=FORMAT) for _ in range(2)]

    assert ["response_format" in request.body for request in server.chats] == [True, True, False, False]
    assert [answer.content for answer in answers] == ['{"names": [""]}'] * 2


async def test_what_one_model_refuses_another_is_still_asked_for(server: OpenAIServer, model: Model) -> None:
    server.refuse_json_schema = True
    await model.invoke("Who?", response_format=FORMAT)
    server.refuse_json_schema = False

    await model.invoke("Who?", response_format=FORMAT, model="large")

    assert server.chats[-1].body["response_format"] == FORMAT


async def test_the_schema_goes_into_the_last_turn_of_the_user(server: OpenAIServer, model: Model) -> None:
    server.refuse_json_schema = True
    parts = [{"type": "text", "text": "Who?"}]

    await model.invoke([{"role": "user", "content": parts}], response_format=FORMAT)
    await model.invoke([{"role": "assistant", "content": "Yes?"}], response_format=FORMAT)
    await model.invoke("Who?", response_format={"type": "json_object"})

    shapes = [request.body["messages"] for request in server.chats[1:]]
    assert [[message["role"] for message in shape] for shape in shapes if isinstance(shape, list)] == [
        ["user"],
        ["assistant", "user"],
        ["user"],
    ]
    assert isinstance(shapes[0], list) and len(shapes[0][0]["content"]) == 2


async def test_a_default_temperature_that_a_model_refuses_is_left_out(server: OpenAIServer, model: Model) -> None:
    server.refused_fields = {"temperature": "Unsupported value: 'temperature' does not support 0.0 with this model."}

    await model.invoke("Who?", response_format=FORMAT)
    await model.invoke("Who?")

    assert ["temperature" in request.body for request in server.chats] == [True, False, False]
    assert all("response_format" in request.body for request in server.chats[:2])


async def test_a_given_temperature_that_a_model_refuses_is_an_error(server: OpenAIServer) -> None:
    server.refused_fields = {"temperature": "Unsupported value: 'temperature' does not support 0.5 with this model."}
    config = ModelRequestConfig(model="small", temperature=0.5)

    async with Model(config, ModelClientConfig(api_base=server.base_url, api_key=KEY)) as model:
        with pytest.raises(ModelServiceError, match="temperature") as caught:
            await model.invoke("Who?", response_format=FORMAT)

    assert not caught.value.retryable
    assert len(server.chats) == 1


async def test_a_refusal_of_something_else_is_not_taken_for_one_of_the_format(
    server: OpenAIServer, model: Model
) -> None:
    server.fail(Fault("status", 400, message="This model's maximum context length is 8192 tokens."))

    with pytest.raises(ModelServiceError, match="maximum context length"):
        await model.invoke("Who?", response_format=FORMAT)

    assert len(server.chats) == 1


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        (400, False),
        (401, False),
        (403, False),
        (404, False),
        (408, True),
        (409, True),
        (422, False),
        (429, True),
        (503, True),
    ],
)
async def test_a_status_tells_whether_to_try_again(
    server: OpenAIServer, model: Model, status: int, retryable: bool
) -> None:
    server.fail(Fault("status", status))

    with pytest.raises(ModelServiceError, match="made to fail") as caught:
        await model.invoke("Hi")

    assert (caught.value.status, caught.value.retryable) == (status, retryable)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("headers", "pause"), [({"Retry-After": "3"}, 3), ({"retry-after-ms": "250", "Retry-After": "9"}, 0.25)]
)
async def test_the_pause_that_an_endpoint_asks_for_is_kept(
    server: OpenAIServer, model: Model, headers: dict[str, str], pause: float
) -> None:
    server.fail(Fault("status", 429, headers=headers))

    with pytest.raises(ModelServiceError) as caught:
        await model.invoke("Hi")

    assert caught.value.retry_after == pause


@pytest.mark.parametrize(("seconds", "least", "most"), [(3600, 1800, 3600), (-600, 0, 0)])
async def test_the_moment_until_which_an_endpoint_asks_to_wait_is_kept(
    server: OpenAIServer, model: Model, seconds: int, least: int, most: int
) -> None:
    server.fail(Fault("status", 429, headers={"Retry-After": formatdate(time() + seconds, usegmt=True)}))

    with pytest.raises(ModelServiceError) as caught:
        await model.invoke("Hi")

    assert caught.value.retry_after is not None
    assert least <= caught.value.retry_after <= most


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "soon"}, {"Retry-After": "inf"}])
async def test_no_usable_pause_is_none(server: OpenAIServer, model: Model, headers: dict[str, str]) -> None:
    server.fail(Fault("status", 429, headers=headers))

    with pytest.raises(ModelServiceError) as caught:
        await model.invoke("Hi")

    assert caught.value.retry_after is None


@pytest.mark.parametrize("kind", ["reset", "malformed", "truncated"])
async def test_a_broken_answer_is_worth_another_try(server: OpenAIServer, model: Model, kind: str) -> None:
    server.fail(
        Fault("reset") if kind == "reset" else Fault("malformed") if kind == "malformed" else Fault("truncated")
    )

    with pytest.raises(ModelServiceError) as caught:
        await model.invoke("Hi")
    answer = await model.invoke("Hi")

    assert caught.value.retryable
    assert answer.content == "Hello."


async def test_an_endpoint_that_does_not_answer_in_time_is_worth_another_try(server: OpenAIServer) -> None:
    server.fail(Fault("slow", seconds=30))

    async with model_at(server, timeout=0.2) as model:
        with pytest.raises(ModelServiceError, match=r"within 0\.2 s") as caught:
            await model.invoke("Hi")

    assert caught.value.retryable


async def test_one_call_may_have_a_limit_of_its_own(server: OpenAIServer, model: Model) -> None:
    server.fail(Fault("slow", seconds=30))

    with pytest.raises(ModelServiceError, match=r"within 0\.2 s"):
        await model.invoke("Hi", timeout=0.2)


async def test_nobody_at_the_address_is_worth_another_try() -> None:
    with OpenAIServer() as gone:
        address = gone.base_url

    async with Model(ModelRequestConfig(model="small"), ModelClientConfig(api_base=address, api_key=KEY)) as model:
        with pytest.raises(ModelServiceError, match="cannot be reached") as caught:
            await model.invoke("Hi")

    assert caught.value.retryable


async def test_cancelling_is_not_an_error_of_the_service(server: OpenAIServer, model: Model) -> None:
    server.fail(Fault("slow", seconds=30))
    task = asyncio.create_task(model.invoke("Hi"))
    await asyncio.to_thread(server.first_request.wait)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("answer", "content", "reason"),
    [
        ({"choices": [{"message": {"content": None}, "finish_reason": "length"}]}, "", "length"),
        ({"choices": [{"message": {"content": None, "refusal": "No."}}]}, "No.", None),
        ({"choices": [{"message": {"content": [{"type": "text", "text": "a"}]}}], "usage": {}}, "a", None),
        ({"choices": [{"message": {}}], "usage": {"prompt_tokens": None, "completion_tokens": 2}}, "", None),
    ],
)
async def test_an_answer_without_content_is_empty(
    server: OpenAIServer, model: Model, answer: object, content: str, reason: str | None
) -> None:
    server.fail(Fault("answer", answer=answer))

    got = await model.invoke("Hi")

    assert (got.content, got.finish_reason) == (content, reason)


@pytest.mark.parametrize(
    ("answer", "retryable"),
    [
        ([1], True),
        ({"error": {"message": "overloaded", "code": 502}}, True),
        ({"error": {"message": "bad key", "code": 401}}, False),
        ({"error": "broken"}, True),
        ({}, True),
        ({"choices": []}, True),
        ({"choices": None}, True),
        ({"choices": {"message": {"content": "a"}}}, True),
        ({"choices": ["a"]}, True),
        ({"choices": [{"message": None}], "usage": {}}, True),
        ({"detail": f"your key is {'x' * 190}{KEY}"}, True),
    ],
)
async def test_an_error_in_the_place_of_an_answer_is_an_error(
    server: OpenAIServer, model: Model, answer: object, retryable: bool
) -> None:
    server.fail(Fault("answer", answer=answer))

    with pytest.raises(ModelServiceError) as caught:
        await model.invoke("Hi")

    assert caught.value.retryable is retryable
    assert KEY[:6] not in str(caught.value)


async def test_an_endpoint_that_repeats_the_key_does_not_make_us_repeat_it() -> None:
    with OpenAIServer(api_key="another") as server:
        async with model_at(server) as model:
            with pytest.raises(ModelServiceError, match="Check api_key") as caught:
                await model.invoke("Hi")

    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("keywords", [{"stream": True}, {"timeout": -1}, {"timeout": "x"}, {"extra_body": [1]}])
async def test_keywords_that_make_no_sense_are_refused(
    server: OpenAIServer, model: Model, keywords: dict[str, object]
) -> None:
    with pytest.raises(InvalidInputError):
        await model.invoke("Hi", response_format=None, **keywords)

    assert not server.requests


async def test_a_model_works_again_after_close(model: Model) -> None:
    await model.invoke("Hi")
    await model.close()
    await model.close()

    answer = await model.invoke("Hi")

    assert answer.content == "Hello."


async def test_many_first_calls_at_once_share_one_pool(server: OpenAIServer, model: Model) -> None:
    await asyncio.gather(*(model.invoke("Hi") for _ in range(5)))
    opened = server.connections

    await asyncio.gather(*(model.invoke("Hi") for _ in range(5)))

    assert server.connections == opened <= 5


def test_one_model_serves_several_event_loops(server: OpenAIServer) -> None:
    model = model_at(server)

    async def ask() -> str:
        answer = await model.invoke("Hi")
        await model.close()
        return answer.content

    assert [asyncio.run(ask()) for _ in range(3)] == ["Hello."] * 3


def test_close_also_ends_the_connections_of_a_loop_in_another_thread(server: OpenAIServer) -> None:
    model = model_at(server)
    asked, closed = threading.Event(), threading.Event()

    async def ask_and_wait() -> None:
        await model.invoke("Hi")
        asked.set()
        await asyncio.to_thread(closed.wait)

    other = threading.Thread(target=asyncio.run, args=[ask_and_wait()])
    other.start()
    asked.wait()
    asyncio.run(model.close())
    closed.set()
    other.join()

    assert server.connections == 1


async def test_a_proxy_from_the_environment_does_not_stand_before_loopback(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async with model_at(server) as model:
        answer = await model.invoke("Hi")

    assert answer.content == "Hello."


@pytest.fixture
def secure_server(tmp_path: Path) -> Iterator[OpenAIServer]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with OpenAIServer(tls=context) as running:
        yield running


async def test_an_unknown_certificate_is_refused_by_default(secure_server: OpenAIServer) -> None:
    async with model_at(secure_server) as model:
        with pytest.raises(ModelServiceError, match="ssl_cert") as caught:
            await model.invoke("Hi")

    assert not caught.value.retryable
    assert not secure_server.requests


async def test_a_given_authority_is_trusted(secure_server: OpenAIServer, tmp_path: Path) -> None:
    async with model_at(secure_server, ssl_cert=str(tmp_path / "authority.pem")) as model:
        answer = await model.invoke("Hi")

    assert answer.content == "Hello."


async def test_checking_certificates_can_be_turned_off(secure_server: OpenAIServer) -> None:
    async with model_at(secure_server, verify_ssl=False) as model:
        answer = await model.invoke("Hi")

    assert answer.content == "Hello."


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_an_authority_that_cannot_be_read_is_an_error_of_the_setup(
    secure_server: OpenAIServer, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "other.pem"
    if content is not None:
        path.write_text(content)

    async with model_at(secure_server, ssl_cert=path) as model:
        with pytest.raises(SetupError, match="ssl_cert"):
            await model.invoke("Hi")
