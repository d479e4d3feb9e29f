"""LangChain's models instead of ours, and the memory in LangChain's terms, with LangChain's own standard tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from pydantic import Field, SecretStr, ValidationError

from jiuwen_memory import EPISODE_COLLECTION, RELATION_COLLECTION, AddMemStrategy, EpisodeType, GraphConfig, GraphMemory
from jiuwen_memory.errors import EmbeddingCallError, InvalidInputError, LLMCallError, StoreParameterError
from jiuwen_memory.integrations.langchain import GraphMemoryRetriever, memory_tools
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, fake_memory
from tests.memory_support import PORTO, ROTTERDAM, VISIT, moved, taught
from tests.servers import OpenAIServer

REPLIES = {
    "EntityExtraction": json.dumps(
        {"entities": [{"name": "Ann", "type": "Human"}, {"name": "Rotterdam", "type": "Entity"}]}
    ),
    "RelationExtraction": json.dumps(
        {
            "relations": [
                {
                    "fact": "Ann has lived in Rotterdam since 2021.",
                    "name": "lives in",
                    "source": "Ann",
                    "target": "Rotterdam",
                    "valid_since": "2021",
                    "valid_until": None,
                }
            ]
        }
    ),
}
ENGLISH = AddMemStrategy(chinese_entity=False)
TEXT = "Ann has lived in Rotterdam since 2021."


class PlainChat(BaseChatModel):
    """A chat model without structured output, which answers by the form that the prompt describes."""

    asked: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "plain"

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kw: Any
    ) -> ChatResult:
        text = str(messages[-1].content)
        self.asked.append(text)
        reply = next((reply for name, reply in REPLIES.items() if f"called {name}:" in text), "{}")
        spent = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        message = AIMessage(reply, usage_metadata=spent)
        return ChatResult(generations=[ChatGeneration(message=message)])


class CountingEmbeddings(Embeddings):
    """LangChain embeddings over our fake ones, which count their batches."""

    def __init__(self, dimension: int = 64) -> None:
        self._fake = FakeEmbedder(dimension=dimension)
        self.batches: list[int] = []

    def embed_query(self, text: str) -> list[float]:
        return asyncio.run(self._fake.embed_query(text))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.batches.append(len(texts))
        return asyncio.run(self._fake.embed_documents(texts))


def memory_over(chat: object, embeddings: Embeddings | None = None, **config: Any) -> GraphMemory:
    """Return a memory in this process over LangChain's models."""
    options = {"uri": f"langchain-{uuid4().hex}", "backend": "memory", "embed_dim": 64, **config}
    memory = GraphMemory(GraphConfig(**options), chat, extraction_strategy=ENGLISH, language="en")  # type: ignore[arg-type]
    memory.attach_embedder(embeddings or CountingEmbeddings())
    return memory


async def learnt(**options: Any) -> GraphMemory:
    memory = fake_memory(llm=FakeLLM({name: json.loads(reply) for name, reply in REPLIES.items()}), **options)
    await memory.add_memory(EpisodeType.DOCUMENT, "ann", TEXT, source="diary", session_id="monday")
    return memory


async def test_an_openai_model_of_langchain_fills_the_graph_through_structured_output() -> None:
    with OpenAIServer(replies=REPLIES) as server:
        chat = ChatOpenAI(model="any", base_url=server.base_url, api_key=SecretStr("any"), max_retries=0)

        update = await memory_over(chat).add_memory(EpisodeType.DOCUMENT, "ann", TEXT)

        assert [each.content for each in update.added_relation] == [TEXT]
        formats = [request.body.get("response_format") for request in server.chats]
        assert {each["type"] for each in formats if isinstance(each, dict)} == {"json_schema"}
        assert update.usage.input_tokens > 0


async def test_a_model_without_structured_output_is_told_the_form_in_words() -> None:
    chat = PlainChat()

    update = await memory_over(chat).add_memory(EpisodeType.DOCUMENT, "ann", TEXT)

    assert [each.content for each in update.added_relation] == [TEXT]
    assert all("JSON schema" in text for text in chat.asked)
    assert update.usage.input_tokens == 7 * len(chat.asked)


async def test_a_failing_model_is_an_error_that_names_the_question() -> None:
    memory = memory_over(GenericFakeChatModel(messages=iter([])), request_max_retries=1)

    with pytest.raises(LLMCallError) as caught:
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", TEXT)

    assert caught.value.question in {"entities", "timezone"}


async def test_embeddings_of_langchain_are_asked_in_batches_and_find_what_was_stored() -> None:
    embeddings = CountingEmbeddings()
    memory = memory_over(PlainChat(), embeddings, embed_batch_size=2)
    await memory.add_memory(EpisodeType.DOCUMENT, "ann", TEXT)

    found = await memory.search("Where does Ann live?", "ann")

    assert found[RELATION_COLLECTION][0][1].content == TEXT
    assert max(embeddings.batches) == 2


async def test_embeddings_can_be_given_in_the_configuration() -> None:
    config = GraphConfig(uri="langchain-config", backend="memory", embed_dim=64, embedding_model=CountingEmbeddings())  # type: ignore[arg-type]
    memory = GraphMemory(config, PlainChat(), extraction_strategy=ENGLISH, language="en")

    update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", TEXT)

    assert update.added_episode


async def test_embeddings_of_another_length_than_the_store_are_refused_and_nothing_is_written() -> None:
    memory = memory_over(PlainChat(), DeterministicFakeEmbedding(size=48))

    with pytest.raises((EmbeddingCallError, StoreParameterError), match="48"):
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", TEXT)

    assert [each async for each in memory.objects(EPISODE_COLLECTION, "ann")] == []


async def test_documents_carry_what_a_reader_needs_to_quote_them() -> None:
    memory = await learnt()
    [episode] = [each async for each in memory.objects(EPISODE_COLLECTION, "ann")]

    found = await GraphMemoryRetriever(memory=memory, user_id="ann").ainvoke("Where does Ann live?")

    fact = next(each for each in found if each.metadata["kind"] == "fact")
    assert fact.page_content == "Ann has lived in Rotterdam since 2021. (since 2021)"
    assert fact.metadata["since"].startswith("2021")
    assert (fact.metadata["current"], fact.metadata["until"]) == (True, None)
    assert (fact.metadata["sources"], fact.metadata["episodes"]) == (["diary"], [episode.uuid])
    said = next(each for each in found if each.metadata["kind"] == "episode")
    assert (said.page_content, said.metadata["session_id"]) == (TEXT, "monday")
    assert {each.metadata["name"] for each in found if each.metadata["kind"] == "entity"} <= {"Ann", "Rotterdam"}


async def test_kinds_source_and_k_narrow_what_comes_back() -> None:
    memory = await learnt()

    facts = await GraphMemoryRetriever(memory=memory, user_id="ann", kinds=("fact",)).ainvoke("Ann")
    elsewhere = await GraphMemoryRetriever(memory=memory, user_id="ann", source="mail").ainvoke("Ann")
    one = await GraphMemoryRetriever(memory=memory, user_id="ann", k=1).ainvoke("Ann")

    assert {each.metadata["kind"] for each in facts} == {"fact"}
    assert elsewhere == []
    assert len(one) == 1


async def test_a_retriever_never_returns_what_another_user_said() -> None:
    memory = await learnt()

    assert await GraphMemoryRetriever(memory=memory, user_id="ben").ainvoke(TEXT) == []


async def test_the_tools_of_an_agent_remember_find_and_list() -> None:
    memory = fake_memory(llm=FakeLLM({name: json.loads(reply) for name, reply in REPLIES.items()}))
    remember, search, facts = memory_tools(memory, user_id="ann", source="agent")

    said = await remember.ainvoke({"text": TEXT})
    found = await search.ainvoke({"query": "Where does Ann live?"})
    listed = await facts.ainvoke({"about": "rotterdam"})

    assert said == f"Remembered.\n- {TEXT}"
    assert f"- {TEXT} (since 2021)" in found
    assert listed == f"- {TEXT} (since 2021)"
    assert [each.sources async for each in memory.objects(RELATION_COLLECTION, "ann")] == [["agent"]]  # type: ignore[attr-defined]


async def test_a_tool_says_when_nothing_is_known() -> None:
    _, search, facts = memory_tools(fake_memory(), user_id="ann")

    assert await search.ainvoke({"query": "bees"}) == "Nothing is known about that."
    assert await facts.ainvoke({"about": "bees"}) == "No fact about that is known."


async def test_a_retriever_asks_for_what_held_and_for_what_was_known_at_a_moment() -> None:
    memory = await moved()
    retriever = GraphMemoryRetriever(memory=memory, user_id="ann", kinds=("fact",))

    now = await retriever.ainvoke("Where does Ann live?")
    then = await retriever.ainvoke("Where does Ann live?", as_of=datetime(2015, 6, 1, tzinfo=UTC))
    unknown = await retriever.ainvoke("Where does Ann live?", known_at=datetime(2020, 1, 1, tzinfo=UTC))
    bound = GraphMemoryRetriever(memory=memory, user_id="ann", kinds=("fact",), as_of=datetime(2015, 6, 1, tzinfo=UTC))

    assert {each.page_content for each in now} >= {f"{PORTO} (2010 to 2021)", f"{ROTTERDAM} (since 2021)"}
    assert [(each.page_content[: len(PORTO)], each.metadata["current"]) for each in then] == [(PORTO, True)]
    assert unknown == []
    assert [each.id for each in await bound.ainvoke("Where does Ann live?")] == [each.id for each in then]
    assert [each.id for each in bound.invoke("Where does Ann live?")] == [each.id for each in then]


def test_tools_for_a_user_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="user_id"):
        memory_tools(fake_memory(), user_id=" ")


async def test_a_moment_that_is_none_is_refused() -> None:
    retriever = GraphMemoryRetriever(memory=fake_memory(), user_id="ann")

    with pytest.raises(InvalidInputError, match="as_of"):
        await retriever.ainvoke("Ann", as_of="2015-06-01")
    with pytest.raises(ValidationError, match="known_at"):
        GraphMemoryRetriever(memory=fake_memory(), user_id="ann", known_at="last May")  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="k"):
        GraphMemoryRetriever(memory=fake_memory(), user_id="ann", k=0)
    with pytest.raises(ValidationError, match="kinds"):
        GraphMemoryRetriever(memory=fake_memory(), user_id="ann", kinds=())


@pytest.mark.parametrize("k", [0, -1, "3", True])
async def test_a_number_of_documents_that_is_none_is_refused_in_a_call_too(k: Any) -> None:
    with pytest.raises(InvalidInputError, match="k is"):
        await GraphMemoryRetriever(memory=fake_memory(), user_id="ann").ainvoke("Ann", k=k)


async def test_a_fact_that_was_replaced_nobody_knows_when_says_so_to_whoever_reads_it() -> None:
    mind = taught()
    old, new = "Ann works at Acme.", "Ann works at Bolt."
    told: tuple[tuple[str, dict[str, list[str]]], ...] = ((old, {}), (new, {new: [old]}))
    for day, (text, against) in enumerate(told, start=1):
        said_at = datetime(2026, 5, day, tzinfo=UTC)
        names = {"Ann": "Human", text.split()[-1].strip("."): "Entity"}
        fact = ("Ann", "works at", text.split()[-1].strip("."), text)
        await mind.learn(
            text, types=names, said=[fact], same={"Ann": ["Ann"]}, contradicts=against, reference_time=said_at
        )

    documents = await GraphMemoryRetriever(memory=mind.memory, user_id="ann", kinds=("fact",)).ainvoke("Ann works at")
    listed = await memory_tools(mind.memory, user_id="ann")[2].ainvoke({"about": "Ann"})

    assert {each.page_content for each in documents} == {new, f"{old} (no longer so)"}
    assert listed.splitlines() == [f"- {new}", f"- {old} (no longer so)"]


async def test_the_tools_of_an_agent_ask_for_what_held_and_what_was_known_at_a_moment() -> None:
    _, search, facts = memory_tools(await moved(), user_id="ann")

    found = await search.ainvoke({"query": "Where does Ann live?", "as_of": "2015"})
    unknown = await search.ainvoke({"query": "Where does Ann live?", "known_at": "2020-01-01"})
    listed = await facts.ainvoke({"about": "Ann", "as_of": "2015-06-01"})
    latest = await facts.ainvoke({"about": "Ann"})
    unlisted = await facts.ainvoke({"about": "Ann", "known_at": "2020-01-01"})

    assert found.index(PORTO) < found.index("What was said or written:")
    assert "Facts:" not in unknown
    assert listed.startswith(f"- {PORTO}") and len(listed.splitlines()) == 1
    assert latest.splitlines()[0] == f"- {VISIT} (since 2022)"
    assert unlisted == "No fact about that is known."


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        (0, {"text": " "}, "content is empty"),
        (1, {"query": " "}, "not blank"),
        (1, {"query": "bees", "as_of": "last May"}, "ISO 8601"),
        (2, {"about": "bees", "as_of": "2026-13"}, "ISO 8601"),
        (2, {"who": "Ann"}, "about\n  Field required"),
    ],
    ids=["remember", "search", "moment", "listed", "argument"],
)
async def test_a_mistake_is_told_to_the_agent_in_words_it_can_act_on(
    tool: int, arguments: dict[str, str], words: str
) -> None:
    chosen = memory_tools(fake_memory(), user_id="ann")[tool]

    answer = await chosen.ainvoke({"type": "tool_call", "id": "1", "name": chosen.name, "args": arguments})

    assert words in answer.content
    assert answer.status == "error"
    assert words in await asyncio.to_thread(chosen.invoke, arguments)


def _tools() -> Sequence[BaseTool]:
    return memory_tools(asyncio.run(learnt()), user_id="ann")


class TestRetrieverStandard(RetrieversIntegrationTests):
    """LangChain's own tests of a retriever."""

    @property
    def retriever_constructor(self) -> type[GraphMemoryRetriever]:
        return GraphMemoryRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": asyncio.run(learnt()), "user_id": "ann"}

    @property
    def retriever_query_example(self) -> str:
        return "Where does Ann live?"


class TestRememberStandard(ToolsUnitTests):
    """LangChain's own tests of a tool."""

    @property
    def tool_constructor(self) -> BaseTool:
        return _tools()[0]

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"text": TEXT}


class TestSearchStandard(ToolsUnitTests):
    """LangChain's own tests of a tool."""

    @property
    def tool_constructor(self) -> BaseTool:
        return _tools()[1]

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"query": "Where does Ann live?"}


class TestFactsStandard(ToolsUnitTests):
    """LangChain's own tests of a tool."""

    @property
    def tool_constructor(self) -> BaseTool:
        return _tools()[2]

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"about": "Ann"}
