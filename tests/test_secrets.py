"""No key, token or password in a repr, an error with its causes, a log of any library at DEBUG, or the journal."""

from __future__ import annotations

import asyncio
import logging
import socket
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from jiuwen_memory import (
    AddMemStrategy,
    APIEmbedding,
    APIReranker,
    EmbeddingConfig,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    Model,
    ModelClientConfig,
    ModelRequestConfig,
    RerankerConfig,
)
from jiuwen_memory.errors import EmbeddingCallError, JiuwenMemoryError, LLMCallError, ServiceError
from jiuwen_memory.foundation.llm.schema.config import ConnectionConfig
from jiuwen_memory.foundation.redis_locks import RedisUserLocks
from jiuwen_memory.foundation.store.graph import GraphStoreFactory
from jiuwen_memory.testing import FakeEmbedder, fake_memory
from tests.servers import Fault, OpenAIServer

KEY = "sk-K3yThatMustNotShow"
HEADER = "HeaderThatMustNotShow"
TOKEN = "T0kenThatMustNotShow"
PASSWORD = "PassThatMustNotShow"
SECRETS = (KEY, HEADER, TOKEN, PASSWORD)
HEADERS = {"x-gateway-key": HEADER}


def shown(text: object) -> list[str]:
    """The secrets in a text."""
    return [secret for secret in SECRETS if secret in str(text)]


def whole(error: BaseException) -> str:
    """What a log shows of an error: its repr, its notes, its causes, all messages and attributes."""
    return "".join([*traceback.format_exception(error), repr(error), repr(vars(error))])


@pytest.fixture(autouse=True)
def logs(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Every logger of every library at DEBUG, and a look at all of it in the end."""
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "httpx", "httpcore", "pymilvus", "jiuwen_memory", "redis"):
        caplog.set_level(logging.DEBUG, logger=name)
    yield caplog
    assert [each for each in caplog.messages if shown(each)] == []
    assert shown(caplog.text) == []


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


def client(base: str, **changes: Any) -> ModelClientConfig:
    return ModelClientConfig(api_base=base, api_key=KEY, headers=HEADERS, timeout=5.0, **changes)


# --- reprs ------------------------------------------------------------------------------------------------------------

ADDRESS = f"https://user:{PASSWORD}@host/v1"
SILENT: dict[str, Callable[[], object]] = {
    "client of a model": lambda: client(ADDRESS),
    "model": lambda: Model(ModelRequestConfig(model="m"), client(ADDRESS)),
    "settings of an embedding": lambda: EmbeddingConfig(base_url=ADDRESS, api_key=KEY, headers=HEADERS),
    "embedding": lambda: APIEmbedding(EmbeddingConfig(base_url=ADDRESS, api_key=KEY, headers=HEADERS)),
    "settings of a reranker": lambda: RerankerConfig(base_url=ADDRESS, api_key=KEY, headers=HEADERS),
    "reranker": lambda: APIReranker(RerankerConfig(base_url=ADDRESS, api_key=KEY, headers=HEADERS)),
    "graph": lambda: graph(timeout=15.0),
    "store": lambda: GraphStoreFactory.from_config(graph()),
    "memory": lambda: GraphMemory(graph(), llm_extra_kwargs={"extra_headers": HEADERS}),
    "locks": lambda: RedisUserLocks(f"redis://:{PASSWORD}@localhost/0"),
}


def graph(port: int = 19530, **changes: Any) -> GraphConfig:
    values: dict[str, Any] = {
        "uri": f"http://root:{PASSWORD}@127.0.0.1:{port}",
        "token": f"root:{TOKEN}",
        "extras": {"password": PASSWORD, "user": "root"},
    }
    return GraphConfig(**{**values, **changes})


@pytest.mark.parametrize("make", SILENT.values(), ids=SILENT.keys())
def test_no_repr_shows_a_secret(make: Callable[[], object]) -> None:
    made = make()

    assert shown(repr(made)) == shown(str(made)) == shown(f"{made}") == []


@pytest.mark.parametrize("kind", [ModelClientConfig, EmbeddingConfig, RerankerConfig, GraphConfig])
@pytest.mark.parametrize(
    "wrong",
    [
        {"api_kye": KEY},
        {"api_key": [KEY]},
        {"api_key": f"{KEY}\n\u4e2d"},
        {"token": [TOKEN]},
        {"headers": {"x": f"{HEADER}\n"}},
        {"headers": HEADER},
        {"extras": PASSWORD},
        {"base_url": f"user:{PASSWORD}@host"},
        {"api_base": f"user:{PASSWORD}@host"},
    ],
)
def test_a_setting_that_is_refused_is_not_repeated(kind: type[Any], wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error") as refusal:
        kind(**({"uri": "a.db"} if kind is GraphConfig else {}), **wrong)

    assert shown(whole(refusal.value)) == []
    assert shown(refusal.value) == []


def test_settings_written_as_json_hide_the_keys() -> None:
    configs: list[ConnectionConfig] = [
        client("https://host/v1"),
        EmbeddingConfig(api_key=KEY),
        RerankerConfig(base_url=ADDRESS, api_key=KEY),
    ]

    assert [KEY in config.model_dump_json() for config in configs] == [False] * 3


# --- services ---------------------------------------------------------------------------------------------------------

ECHO = f"Incorrect API key provided: {KEY}; headers: {HEADER}"
ECHOES = {
    "refusal": Fault("status", 401, message=ECHO),
    "server error": Fault("status", 500, message=ECHO),
    "too many requests": Fault("status", 429, message=ECHO, headers={"retry-after-ms": "1"}),
    "an error in place of the answer": Fault("answer", answer={"error": {"message": ECHO, "code": 500}}),
    "an answer of another form": Fault("answer", answer={"detail": ECHO}),
    "a plain text": Fault("answer", answer=ECHO),
    "reset": Fault("reset"),
    "no answer": Fault("slow", seconds=60),
}


@pytest.mark.parametrize("fault", ECHOES.values(), ids=ECHOES.keys())
async def test_an_endpoint_that_repeats_a_secret_does_not_make_us_repeat_it(server: OpenAIServer, fault: Fault) -> None:
    async with (
        Model(model_client_config=client(server.base_url)) as model,
        APIEmbedding(EmbeddingConfig(base_url=server.base_url, api_key=KEY, headers=HEADERS)) as embedding,
        APIReranker(RerankerConfig(base_url=server.base_url, api_key=KEY, headers=HEADERS)) as reranker,
    ):
        calls: list[Callable[[], Awaitable[object]]] = [lambda: model.invoke("hello", timeout=0.5)]
        if fault.kind != "slow":
            calls += [lambda: embedding.embed_documents(["hello"]), lambda: reranker.rerank("hello", ["a"])]
        failures = []
        for call in calls:
            server.fail(fault)
            failures += [each for each in await asyncio.gather(call(), return_exceptions=True) if each is not None]

    errors = [each for each in failures if isinstance(each, BaseException)]
    assert {type(each).__mro__[1] for each in errors} == {ServiceError}
    assert [shown(whole(each)) for each in errors] == [[]] * len(errors)

    sent = [(request.headers.get("authorization"), request.headers.get("x-gateway-key")) for request in server.requests]
    assert set(sent) == {(f"Bearer {KEY}", HEADER)}


async def test_an_add_that_fails_for_good_leaves_no_secret_in_the_error_the_log_or_the_journal(
    server: OpenAIServer,
) -> None:
    config = GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64, request_max_retries=2)
    model = Model(model_client_config=client(server.base_url))
    memory = GraphMemory(
        config, model, language="en", debug=True, llm_extra_kwargs={"extra_headers": {"x-key": HEADER}}
    )
    memory.attach_embedder(FakeEmbedder(64))

    server.fail(*[Fault("status", 500, message=ECHO)] * 8)
    with pytest.raises(LLMCallError) as caught:
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", "A heron.")
    server.faults.clear()
    await memory.add_memory(EpisodeType.DOCUMENT, "ann", "A heron.")

    entries = await memory.db_backend.journal.entries()
    assert shown(whole(caught.value)) == shown(entries) == []
    assert server.chats[-1].headers["x-key"] == HEADER
    await model.close()


async def test_the_debug_log_has_the_questions_and_not_what_they_were_sent_with(
    server: OpenAIServer, logs: pytest.LogCaptureFixture
) -> None:
    config = GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64, token=TOKEN)
    async with Model(model_client_config=client(server.base_url)) as model:
        memory = GraphMemory(config, model, language="en", debug=True, llm_extra_kwargs={"extra_headers": HEADERS})
        memory.attach_embedder(FakeEmbedder(64))
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", "A heron.")

    assert any(each.startswith("Prompt entities") for each in logs.messages)


async def test_without_debug_no_text_of_a_user_is_logged(logs: pytest.LogCaptureFixture) -> None:
    memory = fake_memory(strategy=AddMemStrategy(chinese_entity=False))

    await memory.add_memory(EpisodeType.DOCUMENT, "ann", "The heron is private.")
    await memory.search("private heron", "ann")

    assert [each for each in logs.messages if "private" in each] == []


async def test_an_embedder_that_fails_for_good_shows_no_key(server: OpenAIServer) -> None:
    server.fail(*[Fault("status", 403, message=ECHO)] * 3)
    async with APIEmbedding(EmbeddingConfig(base_url=server.base_url, api_key=KEY, headers=HEADERS)) as embedding:
        memory = fake_memory()
        memory.attach_embedder(embedding)
        with pytest.raises(EmbeddingCallError) as caught:
            await memory.search("heron", "ann")

    assert shown(whole(caught.value)) == []


# --- stores and locks -------------------------------------------------------------------------------------------------


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_store_that_cannot_be_reached_shows_no_token_and_no_password() -> None:
    store = GraphStoreFactory.from_config(graph(closed_port(), timeout=0.5))

    with pytest.raises(JiuwenMemoryError) as caught:
        await store.open()

    assert shown(whole(caught.value)) == []
    await store.close()


@pytest.mark.parametrize("uri", [f"ftp://root:{PASSWORD}@host", f"root:{PASSWORD}@host:1/x\0.db"])
async def test_a_uri_that_no_store_has_shows_no_password(uri: str) -> None:
    with pytest.raises((JiuwenMemoryError, ValueError)) as caught:
        await GraphStoreFactory.from_config(graph(uri=uri)).open()

    assert shown(whole(caught.value)) == []


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_no_secret_is_written_into_a_store(tmp_path: Path) -> None:
    config = GraphConfig(uri=str(tmp_path / "graph.db"), embed_dim=64, token=TOKEN)
    async with fake_memory(config=config) as memory:
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", "A heron.")

    written = await asyncio.to_thread(all_bytes, tmp_path)
    assert written
    assert TOKEN.encode() not in written


async def test_locks_that_cannot_be_reached_show_no_password() -> None:
    locks = RedisUserLocks(f"redis://user:{PASSWORD}@127.0.0.1:{closed_port()}/0", wait=0.2)

    with pytest.raises(JiuwenMemoryError) as caught:
        async with locks.hold(f"http://root:{PASSWORD}@host", "ann"):
            pass

    assert shown(whole(caught.value)) == []
