"""`APIReranker` against a real HTTP server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from jiuwen_memory.errors import InvalidInputError, RerankServiceError
from jiuwen_memory.foundation.ports import Reranker
from jiuwen_memory.retrieval.common.config import RerankerConfig
from jiuwen_memory.retrieval.reranker.api_reranker import APIReranker
from tests.servers import Fault, OpenAIServer


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture
async def reranker(server: OpenAIServer) -> AsyncIterator[APIReranker]:
    async with APIReranker(RerankerConfig(model_name="judge", base_url=server.base_url + "/rerank")) as opened:
        yield opened


async def test_scores_come_in_the_order_of_the_documents(server: OpenAIServer, reranker: APIReranker) -> None:
    scores = await reranker.rerank("green tea", ["black coffee", "green tea", "green grass"])

    assert scores == [0.0, 1.0, 0.5]
    assert isinstance(reranker, Reranker)
    assert server.requests[0].path == "/v1/rerank"
    assert server.requests[0].body == {
        "model": "judge",
        "query": "green tea",
        "documents": ["black coffee", "green tea", "green grass"],
        "top_n": 3,
        "return_documents": False,
    }


async def test_a_server_may_call_the_documents_texts_and_answer_with_a_bare_list(server: OpenAIServer) -> None:
    server.fail(Fault("answer", answer=[{"index": 1, "score": 0.9}, {"index": 0, "score": 0.1}]))

    async with APIReranker(RerankerConfig(base_url=server.base_url, documents_field="texts")) as reranker:
        scores = await reranker.rerank("tea", ["a", "b"])

    assert scores == [0.1, 0.9]
    assert server.requests[0].body == {"query": "tea", "texts": ["a", "b"], "return_documents": False}


async def test_no_documents_need_no_request(server: OpenAIServer, reranker: APIReranker) -> None:
    assert await reranker.rerank("tea", []) == []
    assert not server.requests


async def test_a_blank_query_is_refused(reranker: APIReranker) -> None:
    with pytest.raises(InvalidInputError):
        await reranker.rerank(" ", ["a"])


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        {"results": ["x"]},
        {"results": [{"index": 0, "relevance_score": 1.0}]},
        {"results": [{"index": 0, "relevance_score": 1.0}, {"index": 1, "relevance_score": None}]},
        {"results": [{"index": 0, "relevance_score": 1.0}, {"index": 1, "relevance_score": float("nan")}]},
        {"results": [{"index": 0, "relevance_score": 1.0}, {"index": 1, "relevance_score": 10**400}]},
        {"results": [{"index": 0, "relevance_score": 1.0}, {"index": 1, "relevance_score": True}]},
        {"results": [{"index": 0, "relevance_score": 1.0}, {"relevance_score": 1.0}]},
    ],
)
async def test_a_document_without_a_score_is_an_error_of_the_service(
    server: OpenAIServer, reranker: APIReranker, answer: object
) -> None:
    server.fail(Fault("answer", answer=answer))

    with pytest.raises(RerankServiceError, match="score"):
        await reranker.rerank("tea", ["a", "b"])


async def test_a_refusal_is_an_error_of_the_service(server: OpenAIServer, reranker: APIReranker) -> None:
    server.fail(Fault("status", 503))

    with pytest.raises(RerankServiceError) as caught:
        await reranker.rerank("tea", ["a"])

    assert (caught.value.status, caught.value.retryable) == (503, True)
