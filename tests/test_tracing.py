"""What a memory tells OpenTelemetry and the log: every stage, call, token and request, and nothing of what was said."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from jiuwen_memory import (
    EpisodeType,
    GraphConfig,
    MemoryItem,
    Model,
    ModelClientConfig,
    ModelRequestConfig,
    SearchConfig,
)
from jiuwen_memory.errors import LLMCallError, ModelServiceError
from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.hiding import hashed
from jiuwen_memory.foundation.store.graph.milvus.rows import fetch_matching
from jiuwen_memory.foundation.store.graph.milvus.watching import watched
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.integrations.opentelemetry import uninstrument
from jiuwen_memory.testing import FakeLLM, FakeReranker, Script, fake_memory
from tests.memory_support import MAY, Taught, entities, facts, taught
from tests.servers import OpenAIServer
from tests.traces import Heard, attribute, hearing, id_of, lines, number, outline, parent_of, trace_of

ROOT = Path(__file__).resolve().parent.parent
HUNT = ("Ada Hunt", "works at", "Corvid Labs", "Ada Hunt works at Corvid Labs.")
WHO = {"Ada Hunt": "Human", "Corvid Labs": "Entity"}
TOLD = "Ada Hunt works at Corvid Labs."


@pytest.fixture
def heard() -> Iterator[Heard]:
    with hearing() as heard:
        yield heard


def on_milvus(folder: Path) -> Taught:
    return taught(config=GraphConfig(uri=str(folder / "memory.db"), embed_dim=64))


async def learn(mind: Taught, user: str = "ann") -> int:
    """Add the one text of this page; return the tokens of all its calls."""
    update = await mind.learn(TOLD, types=WHO, said=[HUNT], user=user, reference_time=MAY)
    return update.usage.input_tokens + update.usage.output_tokens


TRACE_OF_AN_ADD = """\
add_memory
  add_part
    ask_entities
      chat FakeLLM
    ask_entity_duplicates
    ask_relation_filter
    ask_relation_verdicts
    ask_relations
      chat FakeLLM
    ask_summaries
      chat FakeLLM
    ask_timezone
      chat FakeLLM
    commit_update
      delete JOURNAL_COLLECTION
      embeddings fake-embedder
      upsert ENTITY_COLLECTION
      upsert EPISODE_COLLECTION
      upsert JOURNAL_COLLECTION
      upsert RELATION_COLLECTION
    recall_entities
      embeddings fake-embedder
      hybrid_search ENTITY_COLLECTION
      query ENTITY_COLLECTION
    recall_episodes
      embeddings fake-embedder
      hybrid_search EPISODE_COLLECTION
    recall_loose_ends
    recall_relations
      query RELATION_COLLECTION
    recall_repeat
      query EPISODE_COLLECTION
    recall_rivals
    recall_spine
    recall_taken
      query ENTITY_COLLECTION
      query EPISODE_COLLECTION
      query RELATION_COLLECTION
  replay_journal
    query JOURNAL_COLLECTION
  wait for lock
"""


async def test_one_trace_shows_every_stage_call_and_request_of_an_add(tmp_path: Path, heard: Heard) -> None:
    mind = on_milvus(tmp_path)

    async with mind.memory:
        heard.exporter.clear()
        await learn(mind)

    print("\n".join(lines(heard.spans)))
    assert len({trace_of(span) for span in heard.spans}) == 1
    assert outline(heard.spans) == TRACE_OF_AN_ADD
    assert {span.name: span.kind for span in heard.spans if span.kind is SpanKind.CLIENT}.keys() == {
        span.name for span in heard.spans if "COLLECTION" in span.name or span.name.startswith(("chat", "embeddings"))
    }


async def test_the_calls_of_a_trace_have_the_tokens_that_the_update_counts(heard: Heard) -> None:
    mind = taught()

    update = await mind.learn(TOLD, types=WHO, said=[HUNT], reference_time=MAY)

    chats = heard.named("chat")
    (root,) = heard.named("add_memory")
    assert sum(number(span, "gen_ai.usage.input_tokens") for span in chats) == update.usage.input_tokens > 0
    assert sum(number(span, "gen_ai.usage.output_tokens") for span in chats) == update.usage.output_tokens > 0
    assert number(root, "jiuwen_memory.input_tokens") == update.usage.input_tokens
    assert number(root, "jiuwen_memory.calls") == update.usage.calls == len(chats)
    assert number(root, "jiuwen_memory.added_entities") == len(update.added_entity) == 2
    assert sorted(str(attribute(span, "jiuwen_memory.question")) for span in chats) == sorted(update.usage.questions)


async def test_requests_carry_the_attributes_that_the_conventions_name(tmp_path: Path, heard: Heard) -> None:
    mind = on_milvus(tmp_path)

    async with mind.memory:
        await learn(mind)

    chat, upsert = heard.named("chat")[0], heard.named("upsert ENTITY_COLLECTION")[0]
    (query,) = heard.named("query JOURNAL_COLLECTION")[:1]
    assert {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "FakeLLM",
        "gen_ai.request.model": "FakeLLM",
    }.items() <= dict(chat.attributes or {}).items()
    assert dict(upsert.attributes or {}) == {
        "db.system.name": "milvus",
        "db.operation.name": "upsert",
        "db.collection.name": "ENTITY_COLLECTION",
        "db.operation.batch.size": 2,
    }
    assert number(query, "db.response.returned_rows") == 0


async def test_opening_a_store_is_told_with_its_requests(tmp_path: Path, heard: Heard) -> None:
    mind = on_milvus(tmp_path)

    async with mind.memory:
        spans = list(heard.spans)

    (opening,) = [span for span in spans if span.name == "open store"]
    below = {span.name for span in spans if parent_of(span) == id_of(opening)}
    assert {"has_collection ENTITY_COLLECTION", "create_collection JOURNAL_COLLECTION"} <= below


async def test_pages_of_rows_are_requests_too(tmp_path: Path, heard: Heard) -> None:
    from pymilvus import MilvusClient

    mind = on_milvus(tmp_path)
    async with mind.memory:
        await learn(mind)
        await mind.memory.db_backend.refresh()
        heard.exporter.clear()
        client = MilvusClient(str(tmp_path / "memory.db"))

        rows = fetch_matching(
            watched(client),
            "ENTITY_COLLECTION",
            filter_user("ann"),
            fields=["uuid"],
            limit=None,
            settings={},
            lite=False,
            window=1,
        )
        client.close()

    assert len(rows) == 2
    assert [span.name.split()[0] for span in heard.spans] == ["query", "query_iterator", "next", "next", "close"]


async def test_one_trace_shows_every_request_of_a_search(tmp_path: Path, heard: Heard) -> None:
    mind = on_milvus(tmp_path)
    mind.memory.attach_reranker(FakeReranker())
    mind.memory.register_search_strategy("reranked", search_entity=SearchConfig(rerank=True, language="en"))
    async with mind.memory:
        await learn(mind)
        heard.exporter.clear()

        found = await mind.memory.search("Where does Ada work?", ["ann", "bob"], "reranked")

    (root,) = [span for span in heard.spans if parent_of(span) is None]
    names = {span.name for span in heard.spans}
    assert {trace_of(span) for span in heard.spans} == {trace_of(root)}
    assert names >= {"search", "embeddings fake-embedder", "ask_reranker", "rerank FakeReranker", "recall_pool"}
    assert {span.name.split()[-1] for span in heard.spans if "search " in span.name} == set(found)
    assert attribute(root, "enduser.pseudo.id") == f"{hashed('ann')},{hashed('bob')}"
    assert number(root, "jiuwen_memory.found.ENTITY_COLLECTION") == len(found["ENTITY_COLLECTION"]) > 0


async def test_many_adds_are_one_trace_with_an_operation_for_each(heard: Heard) -> None:
    memory = fake_memory()

    await memory.add_memories([MemoryItem(user, TOLD, EpisodeType.DOCUMENT) for user in ("ann", "bob")])

    (root,) = [span for span in heard.spans if parent_of(span) is None]
    adds = heard.named("add_memory")
    assert root.name == "add_memories"
    assert {parent_of(span) for span in adds} == {id_of(root)}
    assert {attribute(span, "enduser.pseudo.id") for span in adds} == {hashed("ann"), hashed("bob")}


async def test_a_deletion_has_a_trace(heard: Heard) -> None:
    mind = taught()
    update = await mind.learn(TOLD, types=WHO, said=[HUNT])
    heard.exporter.clear()

    receipt = await mind.memory.delete_episode("ann", update.added_episode[0].uuid)

    (root,) = [span for span in heard.spans if parent_of(span) is None]
    assert root.name == "delete_episode"
    assert number(root, "jiuwen_memory.removed") == sum(map(len, receipt.removed.values())) == 4
    assert {"wait for lock", "recall_graph", "commit_update"} <= {span.name for span in heard.spans}


async def test_a_failure_is_an_error_without_its_words(heard: Heard) -> None:
    refusal = ModelServiceError("the key sk-heron is wrong", retryable=False)
    mind = taught(llm=FakeLLM({"RelationExtraction": refusal, "EntityExtraction": entities(WHO)}))

    with pytest.raises(LLMCallError):
        await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", TOLD)

    failed = {span.name: span for span in heard.spans if span.status.status_code is StatusCode.ERROR}
    assert {name: attribute(span, "error.type") for name, span in failed.items()} == {
        "add_memory": "LLMCallError",
        "add_part": "LLMCallError",
        "ask_relations": "LLMCallError",
        "chat FakeLLM": "ModelServiceError",
    }
    assert [event for span in heard.spans for event in span.events] == []
    assert "heron" not in heard.text()


async def test_every_try_of_a_call_is_a_request(heard: Heard) -> None:
    busy = ModelServiceError("busy", retryable=True, retry_after=0.0)
    mind = taught(llm=FakeLLM({"EntityExtraction": Script([busy, entities({})])}))

    await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", TOLD)

    tries = [span for span in heard.named("chat") if attribute(span, "jiuwen_memory.question") == "entities"]
    assert [attribute(span, "error.type") for span in tries] == ["ModelServiceError", None]
    assert len({parent_of(span) for span in tries}) == 1


async def test_adds_beside_each_other_have_a_trace_each(tmp_path: Path, heard: Heard) -> None:
    mind = on_milvus(tmp_path)
    users = ["ann", "bob", "cem", "dee"]
    async with mind.memory:
        heard.exporter.clear()

        await together(*(learn(mind, user) for user in users))

    roots = {trace_of(span): span for span in heard.spans if parent_of(span) is None}
    homes = {id_of(span): trace_of(span) for span in heard.spans}
    assert {attribute(root, "enduser.pseudo.id") for root in roots.values()} == set(map(hashed, users))
    for span in heard.spans:
        above = parent_of(span)
        assert above is None or homes[above] == trace_of(span)
    for trace in roots:
        spans = [span for span in heard.spans if trace_of(span) == trace]
        assert outline(spans) == TRACE_OF_AN_ADD


async def test_the_wait_for_another_writer_of_a_user_is_seen(heard: Heard) -> None:
    mind = taught(llm=FakeLLM(latency=0.01))

    await together(learn(mind), learn(mind))

    first, second = sorted(heard.named("wait for lock"), key=lambda span: span.end_time or 0)
    (written, *_) = sorted(heard.named("add_part"), key=lambda span: span.end_time or 0)
    assert (first.end_time or 0) < (written.end_time or 0) <= (second.end_time or 0)


async def test_nothing_that_was_said_and_no_key_or_user_id_is_told(
    heard: Heard, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    replies = {
        "EntityExtraction": json.dumps(entities({"Quillon": "Human", "Marmot": "Entity"})),
        "RelationExtraction": json.dumps(facts(("Quillon", "feeds", "Marmot", "Quillon feeds the marmot."))),
    }
    with OpenAIServer(replies, api_key="sk-secret") as server:
        request = ModelRequestConfig(model="small")
        client = ModelClientConfig(api_base=server.base_url, api_key="sk-secret")
        config = GraphConfig(uri=str(tmp_path / "memory.db"), embed_dim=64, token="root:secret")
        async with Model(request, client) as model, fake_memory(llm=model, config=config) as memory:  # type: ignore[arg-type]
            with caplog.at_level(logging.INFO, logger="jiuwen_memory"):
                await memory.add_memory(EpisodeType.DOCUMENT, "user-ann", "Quillon feeds the marmot.", source="diary")
                await memory.search("What does Quillon feed?", "user-ann")

    told = (heard.text() + "\n".join(str(vars(record)) for record in caplog.records)).casefold()
    assert hashed("user-ann") in told
    assert "chat small" in told
    assert '"gen_ai.provider.name": "openai"' in told
    assert [word for word in ("quillon", "marmot", "feed", "secret", "user-ann", "diary") if word in told] == []


async def test_questions_and_answers_are_told_on_request() -> None:
    mind = taught()

    with hearing(include_content=True) as heard:
        await learn(mind)

    (chat,) = [span for span in heard.named("chat") if attribute(span, "jiuwen_memory.question") == "entities"]
    (answer,) = json.loads(str(attribute(chat, "gen_ai.output.messages")))
    assert TOLD in str(attribute(chat, "gen_ai.input.messages"))
    assert json.loads(answer["parts"][0]["content"]) == entities(WHO)


async def test_user_ids_are_told_as_they_are_on_request() -> None:
    mind = taught()

    with hearing(plain_user_ids=True) as heard:
        await learn(mind, "ann")

    (root,) = heard.named("add_memory")
    assert attribute(root, "enduser.id") == "ann"
    assert attribute(root, "enduser.pseudo.id") is None


async def test_nothing_is_told_once_it_was_switched_off(heard: Heard) -> None:
    mind = taught()

    uninstrument()
    await learn(mind)

    assert list(heard.spans) == []
    assert heard.reader.get_metrics_data() is None


async def test_tokens_calls_and_failures_are_counted(heard: Heard) -> None:
    mind = taught()
    tokens = await learn(mind) + await learn(mind, "bob")
    await mind.memory.search("Ada", "ann")
    mind.llm.replies["EntityExtraction"] = ModelServiceError("no", retryable=False)

    with pytest.raises(LLMCallError) as failure:
        await mind.memory.add_memory(EpisodeType.DOCUMENT, "cem", TOLD)

    lost = failure.value.usage
    ended = {
        (attribute(point, "jiuwen_memory.operation"), attribute(point, "error.type")): point.count
        for point in heard.points("jiuwen_memory.operation.duration")
    }
    assert lost is not None
    assert ended == {("add_memory", None): 2, ("add_memory", "LLMCallError"): 1, ("search", None): 1}
    assert sum(point.sum for point in heard.points("gen_ai.client.token.usage")) == (
        tokens + lost.input_tokens + lost.output_tokens
    )
    assert sum(point.count for point in heard.points("gen_ai.client.operation.duration")) == (
        len(heard.named("chat")) + len(heard.named("embeddings"))
    )


async def test_the_log_has_a_line_with_fields_for_each_operation(
    heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    mind = taught()
    with caplog.at_level(logging.INFO, logger="jiuwen_memory"):
        await learn(mind)
        mind.llm.replies["EntityExtraction"] = ModelServiceError("no", retryable=False)
        with pytest.raises(LLMCallError):
            await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", TOLD + " Again.")

    good, bad = (vars(record) for record in caplog.records if hasattr(record, "memory_operation"))
    (root, _) = heard.named("add_memory")
    assert (good["memory_operation"], good["memory_user"]) == ("add_memory", hashed("ann"))
    assert good["memory_trace"] == f"{trace_of(root):032x}"
    assert good["memory_calls"] == number(root, "jiuwen_memory.calls")
    assert "memory_error" not in good
    assert bad["memory_error"] == "LLMCallError"
    assert "memory_calls" not in bad


def run(program: str) -> list[str]:
    """Run a program in a fresh interpreter; return the lines that it prints."""
    command = [sys.executable, "-W", "error", "-c", program]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()


ADD = """
import asyncio, sys
from jiuwen_memory import EpisodeType
from jiuwen_memory.foundation.tracing import is_traced
from jiuwen_memory.testing import fake_memory

def add():
    asyncio.run(fake_memory().add_memory(EpisodeType.DOCUMENT, "ann", "Ada Hunt works at Corvid Labs."))
"""


def test_without_opentelemetry_everything_works_and_the_door_names_the_extra() -> None:
    program = f"""
import sys
sys.modules["opentelemetry"] = None
{ADD}
add()
print(is_traced())
from jiuwen_memory.errors import MissingExtraError
try:
    import jiuwen_memory.integrations.opentelemetry
except MissingExtraError as error:
    print(error.message)
"""

    silent, message = run(program)

    assert silent == "False"
    assert 'pip install "jiuwen-graph-memory[otel]"' in message


def test_an_add_does_not_load_opentelemetry() -> None:
    assert run(f"{ADD}\nadd()\nprint('opentelemetry' in sys.modules)") == ["False"]


def test_providers_of_the_process_are_told_by_themselves_as_soon_as_they_are_set() -> None:
    program = f"""
import opentelemetry.metrics, opentelemetry.trace
{ADD}
add()
print(is_traced())
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

provider, exporter = TracerProvider(), InMemorySpanExporter()
provider.add_span_processor(SimpleSpanProcessor(exporter))
opentelemetry.trace.set_tracer_provider(provider)
add()
print([span.name for span in exporter.get_finished_spans()].count("add_memory"), is_traced())
"""

    assert run(program) == ["False", "1 True"]
