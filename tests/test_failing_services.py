"""Services that fail, over real HTTP: an add or a search goes on within its tries, or ends in one typed error.

Waits are asserted from below only, by the times at which requests arrived.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from jiuwen_memory import (
    ENTITY_COLLECTION,
    AddMemStrategy,
    APIEmbedding,
    APIReranker,
    EmbeddingConfig,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    GraphMemUpdate,
    Model,
    ModelClientConfig,
    RerankerConfig,
    SearchConfig,
)
from jiuwen_memory.errors import (
    EmbeddingCallError,
    EmbeddingServiceError,
    JiuwenMemoryError,
    LLMAnswerError,
    LLMCallError,
    ModelServiceError,
    RerankServiceError,
    ServiceError,
)
from jiuwen_memory.testing import FakeEmbedder, fake_memory
from tests.memory_support import all_entities, all_relations, entities, facts, nothing_is_stored, problems
from tests.servers import Fault, OpenAIServer, Request, wanted_form

SENTENCE = "Ada keeps a heron."
REPLIES = {
    "EntityExtraction": json.dumps(entities({"Ada": "Human", "Heron": "Entity"})),
    "RelationExtraction": json.dumps(facts(("Ada", "keeps", "Heron", SENTENCE))),
}
SECONDS = 2.0
"""What a request may take; far more than one needs here, even on a busy machine."""

PASSING = {
    "too many requests": Fault("status", 429),
    "too many, come back soon": Fault("status", 429, headers={"retry-after-ms": "100"}),
    "request timed out": Fault("status", 408),
    "conflict": Fault("status", 409),
    "internal error": Fault("status", 500),
    "bad gateway": Fault("status", 502),
    "unavailable": Fault("status", 503, headers={"Retry-After": "0"}),
    "overloaded": Fault("status", 529),
    "reset": Fault("reset"),
    "not JSON": Fault("malformed"),
    "body cut off": Fault("truncated"),
    "an error in place of the answer": Fault("answer", answer={"error": {"message": "overloaded", "code": 503}}),
    "another JSON": Fault("answer", answer={"detail": "try again"}),
    "no answer in time": Fault("slow", seconds=60),
    "a body that trickles": Fault("trickle", seconds=0.1),
}
LASTING = {
    "bad request": Fault("status", 400, message="the model does not like this"),
    "wrong key": Fault("status", 401),
    "forbidden": Fault("status", 403),
    "not there": Fault("status", 404, message="no such model"),
    "too large": Fault("status", 413),
    "come back in an hour": Fault("status", 429, headers={"Retry-After": "3600"}),
}


class AimedServer(OpenAIServer):
    """Lets requests of one kind go wrong, the first `times` of them."""

    target = ""
    fault: Fault | None = None
    times = 0

    def aim(self, target: str, fault: Fault, *, times: int = 1) -> None:
        self.requests.clear()
        self.hit = threading.Event()
        self.target, self.fault, self.times = target, fault, times

    def arrived(self, request: Request) -> Fault | None:
        super().arrived(request)
        if self.fault is None or not self.times or kind_of(request) != self.target:
            return None
        self.times -= 1
        self.hit.set()
        return self.fault

    def hits(self, target: str) -> list[Request]:
        """The requests of one kind so far."""
        return [request for request in self.requests if kind_of(request) == target]


def kind_of(request: Request) -> str:
    return wanted_form(request.body)[0] or request.path.rpartition("/")[2]


@pytest.fixture
def server() -> Iterator[AimedServer]:
    with AimedServer(REPLIES) as running:
        yield running


@asynccontextmanager
async def memory_at(server: OpenAIServer, *, tries: int = 2) -> AsyncIterator[GraphMemory]:
    config = GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64, request_max_retries=tries)
    client = ModelClientConfig(api_base=server.base_url, timeout=SECONDS)
    async with (
        Model(model_client_config=client) as model,
        APIEmbedding(EmbeddingConfig(base_url=server.base_url, timeout=SECONDS)) as embedding,
        APIReranker(RerankerConfig(base_url=server.base_url, timeout=SECONDS)) as reranker,
        GraphMemory(
            config,
            model,
            reranker=reranker,
            language="en",
            extraction_strategy=AddMemStrategy(chinese_entity=False),
        ) as memory,
    ):
        memory.attach_embedder(embedding)
        yield memory


async def add(memory: GraphMemory) -> GraphMemUpdate:
    return await memory.add_memory(EpisodeType.DOCUMENT, "ann", SENTENCE)


async def is_whole(memory: GraphMemory) -> bool:
    names = set(await all_entities(memory)) == {"Ada", "Heron"}
    return names and set(await all_relations(memory)) == {SENTENCE} and await problems(memory) == []


TARGETS = ("EntityExtraction", "embeddings")


def cases(faults: dict[str, Fault]) -> list[Any]:
    """Every fault, with the model and the embedder in turn: both go through the same client and the same retries."""
    return [
        pytest.param(fault, TARGETS[number % 2], id=f"{name}-{TARGETS[number % 2]}")
        for number, (name, fault) in enumerate(faults.items())
    ]


@pytest.mark.parametrize(("fault", "target"), cases(PASSING))
async def test_a_failure_that_passes_leaves_no_trace(server: AimedServer, fault: Fault, target: str) -> None:
    async with memory_at(server) as memory:
        server.aim(target, fault)
        update = await add(memory)

        assert await is_whole(memory)
        assert update.usage.questions["entities"].calls == 1


@pytest.mark.parametrize(
    ("name", "target", "question"),
    [
        ("too many, come back soon", "EntityExtraction", "entities"),
        ("reset", "EntityExtraction", "entities"),
        ("body cut off", "RelationExtraction", "relations"),
        ("another JSON", "RelationExtraction", "relations"),
    ],
)
async def test_a_model_that_goes_on_failing_is_one_error_that_names_the_question(
    server: AimedServer, name: str, target: str, question: str
) -> None:
    async with memory_at(server) as memory:
        server.aim(target, PASSING[name], times=1000)

        with pytest.raises(LLMCallError, match=question) as caught:
            await add(memory)

        assert caught.value.question == question
        assert len(server.hits(target)) == 2
        assert await nothing_is_stored(memory)


@pytest.mark.parametrize("name", ["unavailable", "not JSON", "another JSON"])
async def test_an_embedder_that_goes_on_failing_is_one_error(server: AimedServer, name: str) -> None:
    async with memory_at(server) as memory:
        server.aim("embeddings", PASSING[name], times=1000)

        with pytest.raises(EmbeddingCallError, match="Embedding"):
            await add(memory)

        assert len(server.hits("embeddings")) == 2
        assert server.chats == []
        assert await nothing_is_stored(memory)


@pytest.mark.parametrize("place", [2, 3])
async def test_an_embedder_that_fails_late_stops_the_add_before_anything_is_written(
    server: AimedServer, place: int
) -> None:
    async with memory_at(server, tries=1) as memory:
        fine = server.arrived

        def fail_later(request: Request) -> Fault | None:
            fine(request)
            return Fault("status", 500) if len(server.hits("embeddings")) >= place else None

        server.arrived = fail_later  # type: ignore[method-assign]
        with pytest.raises(EmbeddingCallError):
            await add(memory)

        assert len(server.chats) > 0
        assert await nothing_is_stored(memory)


@pytest.mark.parametrize(("fault", "target"), cases(LASTING))
async def test_what_will_not_pass_is_asked_once(server: AimedServer, fault: Fault, target: str) -> None:
    async with memory_at(server, tries=5) as memory:
        server.aim(target, fault, times=1000)

        with pytest.raises(LLMCallError if target == "EntityExtraction" else EmbeddingCallError) as caught:
            await add(memory)

        assert len(server.hits(target)) == 1
        assert isinstance(caught.value.__cause__, ServiceError)
        assert caught.value.__cause__.status == fault.status
        assert await nothing_is_stored(memory)


@pytest.mark.parametrize("target", ["TimezonePredictions", "EntitySummaries"])
async def test_what_can_be_done_without_is_left_out_with_a_warning(server: AimedServer, target: str) -> None:
    async with memory_at(server) as memory:
        server.aim(target, Fault("status", 503), times=1000)
        update = await add(memory)

        assert await is_whole(memory)
        assert update.warnings


@pytest.mark.parametrize("reply", ["", "[" * 5_000])
async def test_replies_without_use_are_asked_for_once_more_and_then_one_error_carries_the_last(
    server: AimedServer, reply: str
) -> None:
    async with memory_at(server, tries=5) as memory:
        server.replies = {**REPLIES, "EntityExtraction": reply}

        with pytest.raises(LLMAnswerError) as caught:
            await add(memory)

        assert (caught.value.question, caught.value.reply) == ("entities", reply)
        assert len(server.hits("EntityExtraction")) == 2
        assert await nothing_is_stored(memory)


@pytest.mark.parametrize(
    ("target", "headers", "asked"),
    [("EntityExtraction", {"retry-after-ms": "900"}, 0.9), ("embeddings", {"Retry-After": "1"}, 1.0)],
)
async def test_the_pause_that_a_service_asks_for_is_kept(
    server: AimedServer, target: str, headers: dict[str, str], asked: float
) -> None:
    async with memory_at(server) as memory:
        server.aim(target, Fault("status", 429, headers=headers))
        await add(memory)

    first, second, *_ = (request.at for request in server.hits(target))
    # Our own first pause is half a second at most, so this one was asked for.
    assert second - first >= asked


async def test_pauses_grow_from_try_to_try(server: AimedServer) -> None:
    async with memory_at(server, tries=3) as memory:
        server.aim("EntityExtraction", Fault("status", 500), times=2)
        await add(memory)

    first, second, third = (request.at for request in server.hits("EntityExtraction"))
    assert second - first >= 0.25
    assert third - second >= 0.5


async def test_a_service_that_refuses_every_second_request_is_lived_with(server: AimedServer) -> None:
    busy = Fault("status", 429, headers={"retry-after-ms": "10"})
    async with memory_at(server, tries=5) as memory:
        fine = server.arrived

        def refuse_every_second(request: Request) -> Fault | None:
            fine(request)
            return busy if len(server.requests) % 2 else None

        server.arrived = refuse_every_second  # type: ignore[method-assign]
        await add(memory)

        assert await is_whole(memory)


async def test_after_a_failure_for_good_the_same_input_can_be_added(server: AimedServer) -> None:
    async with memory_at(server, tries=1) as memory:
        server.aim("RelationExtraction", Fault("reset"))
        with pytest.raises(LLMCallError):
            await add(memory)

        await add(memory)

        assert await is_whole(memory)


async def test_an_add_that_is_cancelled_while_a_service_is_slow_leaves_nothing_and_frees_the_user(
    server: AimedServer,
) -> None:
    async with memory_at(server) as memory:
        server.aim("EntityExtraction", Fault("slow", seconds=60))
        adding = asyncio.create_task(add(memory))
        await asyncio.to_thread(server.hit.wait)
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding

        assert await nothing_is_stored(memory)
        await add(memory)
        assert await is_whole(memory)


# --- searching --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["body cut off"])
async def test_a_search_goes_on_after_a_failure_that_passes(server: AimedServer, name: str) -> None:
    async with memory_at(server) as memory:
        await add(memory)
        memory.register_search_strategy("ranked", search_entity=SearchConfig(rerank=True, min_score=0.0))
        found = {}
        for target in ("embeddings", "rerank"):
            server.aim(target, PASSING[name])
            found[target] = await memory.search("Heron", "ann", "ranked", relation=False, episode=False)

    assert [hits[ENTITY_COLLECTION][0][1].content for hits in found.values()] == ["Ada keeps a heron."] * 2
    assert len(server.hits("rerank")) == 2


@pytest.mark.parametrize(("target", "error"), [("embeddings", EmbeddingCallError), ("rerank", RerankServiceError)])
@pytest.mark.parametrize("fault", [Fault("reset"), Fault("status", 401)])
async def test_a_search_whose_services_go_on_failing_is_one_error(
    server: AimedServer, target: str, error: type[JiuwenMemoryError], fault: Fault
) -> None:
    async with memory_at(server) as memory:
        await add(memory)
        memory.register_search_strategy("ranked", search_entity=SearchConfig(rerank=True, min_score=0.0))
        server.aim(target, fault, times=1000)

        with pytest.raises(error):
            await memory.search("Heron", "ann", "ranked", relation=False, episode=False)

        assert len(server.hits(target)) == (1 if fault.status == 401 else 2)


async def test_an_error_tells_its_cause_in_one_sentence_with_its_own_code_alone() -> None:
    gone = ModelServiceError("The model is gone. Check its server.", retryable=False)
    embedder = FakeEmbedder(fail_times=9, error=EmbeddingServiceError("The embedder is gone.", retryable=False))

    with pytest.raises(LLMCallError) as adding:
        await fake_memory({"EntityExtraction": gone}).add_memory(EpisodeType.DOCUMENT, "kim", "It rained.")
    with pytest.raises(EmbeddingCallError) as searching:
        await fake_memory(embedder=embedder).search("rain", "kim")

    assert str(adding.value) == (
        "[MEMORY_GRAPH_INVOKE_LLM_FAILED] The question 'entities' to the language model failed: The model is gone. "
        "Check its server. Nothing was written; try again later, or check the model's address and key."
    )
    assert str(searching.value) == (
        "[MEMORY_GRAPH_EMBEDDING_CALL_FAILED] Embedding the query failed: The embedder is gone. Nothing was written; "
        "check the embedder."
    )
