"""`APIEmbedding` against a real HTTP server."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator

import pytest

from jiuwen_memory import EpisodeType, GraphConfig, GraphMemory
from jiuwen_memory.errors import EmbeddingCallError, EmbeddingServiceError, InvalidInputError
from jiuwen_memory.foundation.ports import Embedding
from jiuwen_memory.retrieval.common.config import EmbeddingConfig
from jiuwen_memory.retrieval.embedding.api_embedding import APIEmbedding
from jiuwen_memory.testing import FakeLLM
from tests.servers import Fault, OpenAIServer, encoded, hashed_vector


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(dim=8) as running:
        yield running


@pytest.fixture
async def embedding(server: OpenAIServer) -> AsyncIterator[APIEmbedding]:
    async with embedding_at(server) as opened:
        yield opened


def embedding_at(server: OpenAIServer, **changes: object) -> APIEmbedding:
    values = {"model_name": "vectors", "base_url": server.base_url, "api_key": "any", **changes}
    return APIEmbedding(EmbeddingConfig.model_validate(values))


async def test_it_is_an_embedding(embedding: APIEmbedding) -> None:
    assert isinstance(embedding, Embedding)


async def test_a_query_becomes_a_vector_and_teaches_the_dimension(embedding: APIEmbedding) -> None:
    before = embedding.dimension

    vector = await embedding.embed_query("Ann")

    assert vector == hashed_vector("Ann", 8)
    assert (before, embedding.dimension) == (None, 8)


@pytest.mark.parametrize("ending", ["", "/", "/embeddings", "/embeddings/"])
async def test_the_address_may_end_in_embeddings(server: OpenAIServer, ending: str) -> None:
    async with embedding_at(server, base_url=server.base_url + ending) as embedding:
        await embedding.embed_query("Ann")

    assert server.requests[0].path == "/v1/embeddings"


async def test_vectors_keep_the_order_of_many_batches(server: OpenAIServer, embedding: APIEmbedding) -> None:
    texts = [f"text {number}" for number in range(23)]

    vectors = await embedding.embed_documents(texts, batch_size=4)

    assert vectors == [hashed_vector(text, 8) for text in texts]
    assert len(server.requests) == 6


async def test_batches_run_at_once_within_the_limit(server: OpenAIServer) -> None:
    server.fail(*[Fault("slow", seconds=0.05)] * 12)

    async with embedding_at(server, max_concurrent=3) as embedding:
        await embedding.embed_documents([f"text {number}" for number in range(12)], batch_size=1)

    assert server.most_at_once == 3


async def test_no_texts_need_no_request(server: OpenAIServer, embedding: APIEmbedding) -> None:
    assert await embedding.embed_documents([]) == []
    assert not server.requests


async def test_only_what_is_configured_is_sent(server: OpenAIServer, embedding: APIEmbedding) -> None:
    await embedding.embed_query("Ann")
    async with embedding_at(server, dimension=8, encoding_format="base64") as configured:
        vector = await configured.embed_query("Ann")

    assert server.requests[0].body == {"model": "vectors", "input": ["Ann"], "encoding_format": "float"}
    assert server.requests[1].body["dimensions"] == 8
    assert configured.dimension == 8
    assert vector == pytest.approx(hashed_vector("Ann", 8))


async def test_vectors_come_back_by_their_index(server: OpenAIServer, embedding: APIEmbedding) -> None:
    data = [{"index": 1, "embedding": [2, 2]}, {"index": 0, "embedding": encoded([1.0, 1.0])}]
    server.fail(Fault("answer", answer={"data": data}))

    assert await embedding.embed_documents(["a", "b"]) == [[1.0, 1.0], [2.0, 2.0]]


@pytest.mark.parametrize("texts", [[""], ["a", "  \n"], [None], "one text"])
async def test_what_cannot_be_embedded_is_refused_before_any_request(
    server: OpenAIServer, embedding: APIEmbedding, texts: list[str]
) -> None:
    with pytest.raises(InvalidInputError):
        await embedding.embed_documents(texts)

    assert not server.requests


async def test_a_batch_size_below_one_is_refused(embedding: APIEmbedding) -> None:
    with pytest.raises(InvalidInputError, match="batch_size"):
        await embedding.embed_documents(["a"], batch_size=0)


async def test_lone_surrogates_can_be_embedded(server: OpenAIServer, embedding: APIEmbedding) -> None:
    await embedding.embed_query("a\ud800")

    assert server.requests[0].body["input"] == ["a\ufffd"]


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {"data": None},
        {"data": ["x", "y"]},
        {"data": [{"embedding": [1.0]}]},
        {"data": [{"embedding": [1.0]}, {"embedding": []}]},
        {"data": [{"embedding": [1.0]}, {"embedding": ["x"]}]},
        {"data": [{"embedding": [1.0]}, {"embedding": None}]},
        {"data": [{"embedding": [1.0]}, {"embedding": "no base64!"}]},
        {"data": [{"embedding": [1.0]}, {"embedding": "AAA="}]},
        {"data": [{"embedding": [1.0]}, {"embedding": encoded([math.nan])}]},
        {"data": [{"embedding": [1.0]}, {"embedding": [math.inf]}]},
        {"data": [{"embedding": [1.0]}, {"embedding": [1.0, 2.0]}]},
    ],
)
async def test_an_unusable_answer_is_an_error_of_the_service(
    server: OpenAIServer, embedding: APIEmbedding, answer: object
) -> None:
    server.fail(Fault("answer", answer=answer))

    with pytest.raises(EmbeddingServiceError):
        await embedding.embed_documents(["a", "b"])


async def test_another_length_than_before_is_an_error_that_no_second_try_heals(
    server: OpenAIServer, embedding: APIEmbedding
) -> None:
    await embedding.embed_query("Ann")
    server.fail(Fault("answer", answer={"data": [{"index": 0, "embedding": [1.0, 0.0]}]}))

    with pytest.raises(EmbeddingServiceError, match="length 2, where 8") as caught:
        await embedding.embed_query("Ann")

    assert not caught.value.retryable


async def test_failures_are_not_tried_again_here(server: OpenAIServer, embedding: APIEmbedding) -> None:
    server.fail(Fault("status", 429, headers={"Retry-After": "2"}))

    with pytest.raises(EmbeddingServiceError) as caught:
        await embedding.embed_query("Ann")

    assert (caught.value.status, caught.value.retryable, caught.value.retry_after) == (429, True, 2.0)
    assert len(server.requests) == 1


def test_one_embedding_serves_several_event_loops(server: OpenAIServer) -> None:
    embedding = embedding_at(server, max_concurrent=1)

    async def embed() -> int:
        async with embedding:
            return len(await embedding.embed_documents(["a", "b", "c"], batch_size=1))

    assert [asyncio.run(embed()) for _ in range(2)] == [3, 3]


async def test_a_closed_model_says_so_and_asks_nobody(server: OpenAIServer) -> None:
    async with embedding_at(server) as embedding:
        await embedding.embed_query("Ann")
    await embedding.close()

    with pytest.raises(
        EmbeddingServiceError, match="APIEmbedding is closed; make a new one, or open it again"
    ) as caught:
        await embedding.embed_documents(["Bob"])

    assert not caught.value.retryable
    assert len(server.requests) == 1


async def test_an_add_with_a_closed_model_says_so(server: OpenAIServer) -> None:
    async with embedding_at(server, dimension=32) as embedding:
        memory = GraphMemory(GraphConfig(uri="closed", backend="memory", embed_dim=32), FakeLLM(), language="en")
        memory.attach_embedder(embedding)

    with pytest.raises(EmbeddingCallError, match="is closed"):
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Tom sings.")
