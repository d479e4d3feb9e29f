"""The acceptance checks, 1 to 17; each docstring begins with its number."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import uuid4

import pytest
from pydantic import JsonValue

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    AddMemStrategy,
    APIEmbedding,
    EmbeddingConfig,
    Entity,
    Episode,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    GraphStoreFactory,
    GraphStoreIndexConfig,
    Model,
    ModelClientConfig,
    ModelRequestConfig,
    RRFRankConfig,
    SearchConfig,
    WeightedRankConfig,
)
from jiuwen_memory.errors import JiuwenMemoryError, SchemaMismatchError, StoreError, StoreUnavailableError
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, fake_memory
from tests.faulty_store import FaultyStore
from tests.memory_support import (
    MAY,
    Taught,
    all_entities,
    all_episodes,
    all_relations,
    entities,
    facts,
    problems,
    taught,
)
from tests.servers import OpenAIServer

DOCUMENT = EpisodeType.DOCUMENT
ALICE = {
    "EntityExtraction": json.dumps(
        {"entities": [{"name": "Alice", "type": "Human"}, {"name": "Huawei Cloud", "type": "Entity"}]}
    ),
    "RelationExtraction": json.dumps(
        {
            "relations": [
                {
                    "fact": "Alice is evaluating a Milvus graph memory design.",
                    "name": "evaluates",
                    "source": "Alice",
                    "target": "Alice",
                    "valid_since": None,
                    "valid_until": None,
                }
            ]
        }
    ),
    "EntitySummaries": json.dumps({"1": "Evaluates a graph memory design.", "2": "Alice's employer."}),
}


def lite(folder: Path, **changes: Any) -> GraphConfig:
    return GraphConfig(**{"uri": str(folder / "graph.db"), "embed_dim": 64, "timeout": 60.0, **changes})


@pytest.fixture(params=["memory", "milvus"])
async def mind(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Taught]:
    made = taught(config=lite(tmp_path, backend=request.param))
    async with made.memory:
        yield made


# --- 1 ----------------------------------------------------------------------------------------------------------------


def printed_program() -> str:
    """Return the program that the specification's file shows."""
    path = os.environ.get("JIUWEN_MEMORY_SPEC")
    if not path:
        pytest.skip("JIUWEN_MEMORY_SPEC does not name the specification's file")
    text = Path(path).read_text(encoding="utf-8")
    last = "asyncio.run(main())"
    return text[text.index("import asyncio\n") : text.index(last)] + last + "\n"


def test_the_specifications_quick_start_runs_as_printed(tmp_path: Path) -> None:
    """1: read from its file at run time; only endpoints, key and model names are replaced, the path is relative."""
    program = printed_program()

    with OpenAIServer(ALICE, dim=1024, api_key="secret") as server:
        for wanted, given in (
            (r'"https://your-llm-endpoint/v1"', repr(server.base_url)),
            (r'"https://your-embedding-endpoint/v1/embeddings"', repr(f"{server.base_url}/embeddings")),
            (r'"your-api-key"', "'secret'"),
            (r'"your-llm-model"', "'a-model'"),
            (r'"your-embedding-model"', "'an-encoder'"),
        ):
            program, count = re.subn(wanted, given, program)
            assert count >= 1
        command = [sys.executable, "-W", "error::ResourceWarning", "-c", program]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    assert "name='Alice'" in ended.stdout
    assert "Alice is evaluating a Milvus graph memory design." in ended.stdout
    assert (tmp_path / "graph_memory.db").exists()


@pytest.mark.parametrize("name", ["agent_graph", ""])
async def test_a_first_program_remembers_and_finds_over_a_real_endpoint(name: str, tmp_path: Path) -> None:
    """1: the same steps in our own words, with a database name and without."""
    with OpenAIServer(ALICE, dim=96) as server:
        client = ModelClientConfig(client_provider="OpenAI", api_base=server.base_url, api_key="k")
        config = GraphConfig(
            uri=tmp_path / "new folder" / "my.graph",  # type: ignore[arg-type]
            name=name,
            embed_dim=96,
            timeout=60,
            db_embed_config=GraphStoreIndexConfig(distance_metric="cosine"),
        )
        async with (
            Model(ModelRequestConfig(model="m"), client) as model,
            APIEmbedding(EmbeddingConfig(model_name="e", base_url=f"{server.base_url}/embeddings", api_key="k")) as ear,
            GraphMemory(
                config, model, extraction_strategy=AddMemStrategy(chinese_entity=False), language="en"
            ) as memory,
        ):
            memory.attach_embedder(ear)
            update = await memory.add_memory(DOCUMENT, "u", "Alice of Huawei Cloud evaluates a graph memory design.")
            found = await memory.search("Who is evaluating the graph memory design?", "u")

    assert {each.name for each in update.added_entity} == {"Alice", "Huawei Cloud"}
    assert update.usage.calls == len(server.chats) == 4
    assert found[RELATION_COLLECTION][0][1].content == "Alice is evaluating a Milvus graph memory design."
    assert len(found[EPISODE_COLLECTION]) == 1


# --- 2, 3 -------------------------------------------------------------------------------------------------------------


async def test_a_search_embeds_its_query_once_and_not_at_all_when_the_vector_is_given(mind: Taught) -> None:
    """2"""
    await mind.learn("A heron.", types={"Heron": "Entity"})
    before = mind.embedder.calls

    await mind.memory.search("heron", "ann")
    once = mind.embedder.calls - before
    await mind.memory.search("heron", "ann", query_embedding=[0.5] * 64)

    assert (once, mind.embedder.calls - before) == (1, 1)


TWENTY = [f"Station {letter}{letter}" for letter in "ABCDEFGHIJKLMNOPQRST"]


def ring(verb: str) -> list[tuple[str, str, str, str]]:
    return [
        (one, verb, TWENTY[(number + 1) % 20], f"{one} {verb} {TWENTY[(number + 1) % 20]}.")
        for number, one in enumerate(TWENTY)
    ]


@pytest.mark.parametrize("backend", ["memory", "milvus"])
async def test_twenty_entities_and_relations_cost_no_more_calls_than_a_few(backend: str, tmp_path: Path) -> None:
    """3: at most 7 calls in 3 rounds to the model and 4 to the embedder, on an empty graph and on a filled one."""
    mind = taught(config=lite(tmp_path, backend=backend))
    kinds = dict.fromkeys(TWENTY, "Entity")
    text = " ".join(f"{name} and its line." for name in TWENTY)
    costs = []
    async with mind.memory:
        for verb in ("feeds", "meets", "sees"):
            before = mind.embedder.calls

            update = await mind.learn(
                f"{text} {verb}", types=kinds, said=ring(verb), summaries=dict.fromkeys(kinds, verb)
            )

            costs.append((update.usage.calls, update.usage.rounds, mind.embedder.calls - before))
        found = await all_entities(mind.memory)

    assert costs[0] <= (4, 3, 4)
    assert all(calls <= 7 and rounds <= 3 and embeddings <= 4 for calls, rounds, embeddings in costs)
    assert {each.mention_count for each in found.values()} == {3}


async def test_new_spellings_merges_and_verdicts_at_once_stay_within_seven_calls_and_three_rounds() -> None:
    """3: with duplicates to judge, stored entities to fuse and facts to compare."""
    mind = taught()
    await mind.learn(
        "Tom knows Kim.", types={"Tom": "Human", "Kim": "Human"}, said=[("Tom", "k", "Kim", "Tom knows Kim.")]
    )
    await mind.learn("Thomas.", types={"Thomas": "Human"}, said=[("Thomas", "is", "Thomas", "Thomas is tall.")])

    update = await mind.learn(
        "Tommy likes Kim.",
        types={"Tommy": "Human", "Kim": "Human"},
        said=[("Tommy", "likes", "Kim", "Tommy likes Kim.")],
        same={"Tommy": ["Tom (", "Thomas"], "Kim": ["Kim"]},
    )

    assert set(update.usage.questions) == {
        *("entities", "timezone", "relations", "entity_duplicates"),
        *("summaries", "relation_verdicts", "relation_filter"),
    }
    assert (update.usage.calls, update.usage.rounds) == (7, 3)


# --- 4 ----------------------------------------------------------------------------------------------------------------


async def test_no_call_to_milvus_runs_on_the_event_loops_thread(tmp_path: Path) -> None:
    """4: what would stall the loop happens in other threads; the time itself is a matter for the benchmark."""
    made = taught(config=lite(tmp_path))
    async with made.memory:
        await made.learn("A heron.", types={"Heron": "Entity"}, said=[("Heron", "is", "Heron", "The heron is grey.")])
        on_loop: set[str] = set()

        def note(frame: FrameType, event: str, argument: object) -> None:
            module = str(frame.f_globals.get("__name__", ""))
            if event == "call" and module.split(".", 1)[0] in ("pymilvus", "milvus_lite", "grpc", "faiss"):
                on_loop.add(f"{module}.{frame.f_code.co_name}")

        sys.setprofile(note)
        try:
            await made.learn("The heron.", types={"Heron": "Entity"}, same={"Heron": ["Heron"]})
            await made.memory.search("heron", "ann")
            listed = [each async for each in made.memory.objects(ENTITY_COLLECTION, "ann")]
        finally:
            sys.setprofile(None)

    assert len(listed) == 1
    assert on_loop == set()


# --- 5 ----------------------------------------------------------------------------------------------------------------


async def test_the_same_memory_four_times_leaves_the_number_of_facts_as_after_the_first(mind: Taught) -> None:
    """5"""
    who = {"Tom": "Human", "Kim": "Human", "Oslo": "Entity"}
    said = [("Tom", "knows", "Kim", "Tom knows Kim."), ("Kim", "lives in", "Oslo", "Kim lives in Oslo.")]
    counts = []
    for _ in range(4):
        await mind.learn("Tom knows Kim, who lives in Oslo.", types=who, said=said)
        counts.append((len(await all_entities(mind.memory)), len(await all_relations(mind.memory))))

    edges = await all_relations(mind.memory)
    assert counts == [(3, 2)] * 4
    assert {each.mention_count for each in edges.values()} == {4}
    assert await problems(mind.memory) == []


# --- 6 ----------------------------------------------------------------------------------------------------------------

USERS = ["bo'b", "bo\\'b", "bo\\\\'b", 'bo"b', "bo\\", "' or 1==1 or '", "{user}", "用户'一", "🦜", "a b", "bo%", "a,b"]


async def test_a_user_with_a_hostile_id_never_sees_another_users_memories(mind: Taught) -> None:
    """6: on every backend, and each id round-trips."""
    for user in USERS:
        await mind.learn(f"The secret of {user}.", types={"Secret": "Entity"}, user=user)

    seen = {
        user: [each.user_id for hits in (await mind.memory.search("secret", user)).values() for _, each in hits]
        for user in USERS
    }

    assert seen == {user: [user, user] for user in USERS}
    assert [len(await all_episodes(mind.memory, user)) for user in USERS] == [1] * len(USERS)


@pytest.mark.parametrize("user", ["", " ", "x" * 33, "a\tb", "a\x00"])
async def test_an_invalid_user_id_has_one_code_everywhere(user: str) -> None:
    """6"""
    memory = fake_memory()
    codes = set()
    for call in (
        memory.add_memory(DOCUMENT, user, "text"),
        memory.search("q", user),
        memory.get(ENTITY_COLLECTION, ["x"], user),
    ):
        with pytest.raises(JiuwenMemoryError) as refusal:
            await call
        codes.add(refusal.value.code)

    assert codes == {"MEMORY_STORE_VALIDATION_INVALID"}


# --- 7 ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(7))
async def test_a_storage_error_at_any_write_and_a_retry_leave_a_sound_graph(number: int) -> None:
    """7: no dangling reference, no lost entity, no doubled fact."""
    GraphStoreFactory.register_backend("faulty", FaultyStore, force=True)
    made = taught(config=GraphConfig(uri=uuid4().hex, backend="faulty", embed_dim=64))
    store = made.memory.db_backend
    assert isinstance(store, FaultyStore)
    who = {"Tom": "Human", "Kim": "Human"}
    await made.learn("Tom.", types=who, said=[("Tom", "knows", "Kim", "Tom knows Kim.")])
    await made.learn("Thomas.", types={"Thomas": "Human"}, said=[("Thomas", "is", "Thomas", "Thomas is tall.")])
    store.faults.arm(number)

    for attempt in range(2):
        try:
            await made.learn(
                "Tommy likes Oslo.",
                types={"Tommy": "Human", "Oslo": "Entity"},
                said=[("Tommy", "likes", "Oslo", "Tommy likes Oslo.")],
                same={"Tommy": ["Tom (", "Thomas"]},
                reference_time=MAY,
            )
        except StoreUnavailableError:
            assert attempt == 0
            store.faults.arm(None)

    found = await all_entities(made.memory)
    assert {"Kim", "Oslo"} <= set(found)
    assert len(found) == 3
    assert set(await all_relations(made.memory)) == {"Tom knows Kim.", "Thomas is tall.", "Tommy likes Oslo."}
    assert len(await all_episodes(made.memory)) == 3
    assert await problems(made.memory) == []


# --- 8 ----------------------------------------------------------------------------------------------------------------


async def test_an_entity_survives_its_4097th_episode(mind: Taught) -> None:
    """8: the newest references are kept, the entity and its count stay right."""
    vectors = {"name_embedding": [1.0] + [0.0] * 63, "content_embedding": [1.0] + [0.0] * 63}
    full = [uuid4().hex for _ in range(4096)]
    hub = Entity(user_id="ann", name="Hub", episodes=full, relations=full, mention_count=4096, **vectors)  # type: ignore[arg-type]
    await mind.memory.db_backend.upsert(ENTITY_COLLECTION, [hub])

    update = await mind.learn(
        "Hub again.", types={"Hub": "Entity"}, said=[("Hub", "is", "Hub", "Hub is busy.")], same={"Hub": ["Hub"]}
    )

    found = (await all_entities(mind.memory))["Hub"]
    assert (found.uuid, found.mention_count) == (hub.uuid, 4097)
    assert found.episodes == [*full[1:], update.added_episode[0].uuid]
    assert found.relations == [*full[1:], update.added_relation[0].uuid]


# --- 9, 10 ------------------------------------------------------------------------------------------------------------


async def test_an_embedder_that_fails_twice_and_recovers_stores_everything() -> None:
    """9"""
    made = taught(embedder=FakeEmbedder(fail_times=2))

    await made.learn("A heron fishes.", types={"Heron": "Entity"})

    assert [each.content for each in await all_episodes(made.memory)] == ["A heron fishes."]
    assert set(await all_entities(made.memory)) == {"Heron"}


async def test_the_second_of_two_related_texts_is_read_with_the_first_as_history() -> None:
    """10: with the default strategy."""
    llm = FakeLLM()
    memory = GraphMemory(GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64), llm)
    memory.attach_embedder(FakeEmbedder())
    await memory.add_memory(DOCUMENT, "ann", "The Heron sailed from Narvik.", reference_time=MAY)

    await memory.add_memory(DOCUMENT, "ann", "The Heron landed in Molde.", reference_time=MAY.replace(day=9))

    assert "The Heron sailed from Narvik." in llm.asked("EntityExtraction")[1].text


# --- 11, 12 -----------------------------------------------------------------------------------------------------------


async def test_a_high_threshold_drops_weak_hits_with_and_without_expansion(mind: Taught) -> None:
    """11"""
    await mind.learn("A heron at the pond.", types={"Heron": "Entity", "Pond": "Entity"})
    for depth in (0, 2):
        config = SearchConfig(min_score=0.99, rank_config=WeightedRankConfig(), bfs_depth=depth)
        mind.memory.register_search_strategy("strict", config, config, config, force=True)

        found = await mind.memory.search("quarterly tax return", "ann", "strict")

        assert list(map(len, found.values())) == [0, 0, 0]


async def test_two_hops_bring_in_a_neighbour_that_the_query_alone_does_not(mind: Taught) -> None:
    """11: entities and relations."""
    await mind.learn(
        "They know each other.",
        types=dict.fromkeys(("Aster", "Birch", "Cedar"), "Human"),
        said=[
            ("Aster", "a", "Birch", "zzzz zzzz"),
            ("Birch", "b", "Cedar", "qqqq qqqq"),
            ("Cedar", "c", "Cedar", "jjjj"),
        ],
        summaries={"Aster": "zzzz", "Birch": "qqqq", "Cedar": "jjjj"},
    )
    names, contents = {}, {}
    for depth in (0, 2):
        words = RRFRankConfig(name_dense=False, content_dense=False)
        config = SearchConfig(top_k=9, min_score=0.001, rank_config=words, bfs_depth=depth)
        mind.memory.register_search_strategy("hops", config, config, force=True)

        found = await mind.memory.search("zzzz", "ann", "hops", episode=False)

        names[depth] = [each.name for _, each in found[ENTITY_COLLECTION] if isinstance(each, Entity)]
        contents[depth] = [each.content for _, each in found[RELATION_COLLECTION]]
    assert names == {0: ["Aster"], 2: ["Aster", "Birch", "Cedar"]}
    assert contents == {0: ["zzzz zzzz"], 2: ["zzzz zzzz", "qqqq qqqq", "jjjj"]}


@pytest.mark.parametrize("backend", ["memory", "milvus"])
@pytest.mark.parametrize("metric", ["cosine", "euclidean", "dot"])
async def test_every_distance_metric_puts_the_same_hit_first_and_scores_it_highest(
    metric: str, backend: str, tmp_path: Path
) -> None:
    """12"""
    config = lite(tmp_path, backend=backend, db_embed_config={"distance_metric": metric})
    made = taught(config=config)
    names = ("Heron", "Bicycle", "Tax return")
    dense = SearchConfig(min_score=0.0, rank_config=WeightedRankConfig(content_sparse=0))
    async with made.memory:
        made.memory.register_search_strategy("dense", search_entity=dense)
        await made.learn(", ".join(names), types=dict.fromkeys(names, "Entity"))

        found = await made.memory.search("a bicycle", "ann", "dense", relation=False, episode=False)

    scores = [score for score, _ in found[ENTITY_COLLECTION]]
    first = found[ENTITY_COLLECTION][0][1]
    assert isinstance(first, Entity)
    assert first.name == "Bicycle"
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


# --- 13 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected", "offset", "precision"),
    [
        ("2024-03-01T12:00:00-05:00", datetime(2024, 3, 1, 17, tzinfo=UTC), -300, "second"),
        ("2024-03-01T12:00:00Z", datetime(2024, 3, 1, 12, tzinfo=UTC), 0, "second"),
        ("2024-03-01T12:00:00+05:30", datetime(2024, 3, 1, 6, 30, tzinfo=UTC), 330, "second"),
        ("2024-03-01T12:00:00.250Z", datetime(2024, 3, 1, 12, tzinfo=UTC), 0, "second"),
        ("2024-03-01", datetime(2024, 3, 1, tzinfo=UTC), 0, "day"),
        ("1957-10-04", datetime(1957, 10, 4, tzinfo=UTC), 0, "day"),
        ("1969-12-31T23:59:59Z", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), 0, "second"),
        ("", None, 0, None),
        (None, None, 0, None),
        ("unknown", None, 0, None),
        ("when the birds came", None, 0, None),
    ],
)
async def test_a_time_is_stored_as_it_was_given_and_an_unknown_one_stays_unknown(
    words: str | None, expected: datetime | None, offset: int, precision: str | None, mind: Taught
) -> None:
    """13: on every backend, read back from the store."""
    await mind.learn(
        f"Tom came on {words}.",
        types={"Tom": "Human"},
        said=[("Tom", "came", "Tom", "Tom came.")],
        since=words,
        reference_time=MAY,
    )

    (fact,) = (await all_relations(mind.memory)).values()
    assert fact.valid_since == (None if expected is None else int(expected.timestamp()))
    assert (fact.offset_since, fact.precision_since) == (offset, precision)
    assert (fact.valid_until, fact.stated_until) == (None, None)


# --- 14 ---------------------------------------------------------------------------------------------------------------

ANN: JsonValue = {"name": "Ann Lee", "type": "Human"}
GOOD: dict[str, JsonValue] = {
    "EntityExtraction": {"entities": [ANN, {"name": "Oslo", "type": "Entity"}]},
    "RelationExtraction": facts(("Ann Lee", "lives in", "Oslo", "Ann Lee lives in Oslo.")),
}
MALFORMED: Mapping[str, tuple[str, Any]] = {
    "62 a model that is down": ("EntityExtraction", ConnectionError("down")),
    "62 a timezone that fails": ("TimezonePredictions", ConnectionError("down")),
    "62 summaries that fail": ("EntitySummaries", ConnectionError("down")),
    "62 facts that fail": ("RelationExtraction", ConnectionError("down")),
    "63 verdicts that fail": ("RelationVerdicts", ConnectionError("down")),
    "64 words": ("EntityExtraction", "I could not find any."),
    "64 an empty object": ("EntityExtraction", "{}"),
    "64 names that are null": ("EntityExtraction", {"entities": [{"name": None, "type": None}]}),
    "65 cut off": ("EntityExtraction", '{"entities": [{"name": "Ann Lee", "type": "Human"}, {"name": "Os'),
    "66 fenced": ("EntityExtraction", '```json\n{"entities": [{"name": "Ann Lee", "type": "Human"}]}\n```'),
    "66 thinking": ("EntityExtraction", '<think>{"a": 1}</think>{"entities": [{"name": "Ann Lee"}]}'),
    "67 no type": ("EntityExtraction", {"extracted_entities": [{"name": "Ann Lee"}]}),
    "68 a type by name": ("EntityExtraction", {"extracted_entities": [{"name": "Ann Lee", "entity_type_id": "Human"}]}),
    "68 a type that is null": (
        "EntityExtraction",
        {"extracted_entities": [{"name": "Ann Lee", "entity_type_id": None}]},
    ),
    "69 type 99": ("EntityExtraction", {"extracted_entities": [{"name": "Ann Lee", "entity_type_id": 99}]}),
    "69 type -1": ("EntityExtraction", {"extracted_entities": [{"name": "Ann Lee", "entity_type_id": -1}]}),
    "70 names alone": ("EntityExtraction", {"entities": ["Ann Lee", "Oslo"]}),
    "71 facts that are words": ("RelationExtraction", "Ann lives in Oslo."),
    "71 unknown ids": (
        "RelationExtraction",
        {"relations": [{"fact": "x", "name": "y", "source_id": 0, "target_id": 99}]},
    ),
    "72 a fact about one": (
        "RelationExtraction",
        {"relations": [{"fact": "Ann Lee is kind.", "name": "is", "source_id": 1, "target_id": 1}]},
    ),
    "73 facts as strings": ("RelationExtraction", {"relations": ["Ann lives in Oslo."]}),
    "73 a name that is null": (
        "RelationExtraction",
        {"relations": [{"fact": "Ann Lee lives in Oslo.", "name": None, "source": "Ann Lee", "target": "Oslo"}]},
    ),
    "74 id -50": ("EntityDuplication", {"duplicates": [{"id": -50, "same": [1]}]}),
    "74 id 999": ("EntityDuplication", {"duplicates": [{"id": 1, "same": [999]}]}),
    "74 ids that are null": ("EntityDuplication", {"duplicates": [{"id": 1, "same": None}]}),
    "74 strings": ("EntityDuplication", {"duplicates": ["Ann Lee"]}),
    "75 a list": ("EntitySummaries", [{"summary": "A woman."}]),
    "75 plain text": ("EntitySummaries", "Ann Lee is a woman."),
}


@pytest.mark.parametrize("case", MALFORMED)
async def test_a_malformed_answer_leaves_a_sound_graph_or_one_documented_error_and_nothing_written(case: str) -> None:
    """14: the graph holds a fact already, so that every question is asked."""
    question, answer = MALFORMED[case]
    config = GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64, request_max_retries=1)
    llm = FakeLLM(dict(GOOD))
    memory = fake_memory(llm=llm, config=config)
    await memory.add_memory(DOCUMENT, "ann", "Ann Lee lives in Oslo.")
    before = (len(await all_episodes(memory)), set(await all_relations(memory)))
    later = facts(("Ann Lee", "left", "Oslo", "Ann Lee left Oslo."))
    llm.replies = {**GOOD, "RelationExtraction": later, question: answer}

    try:
        await memory.add_memory(DOCUMENT, "ann", "Ann Lee left Oslo.")
        written = 1
    except JiuwenMemoryError as error:
        assert error.code == "MEMORY_GRAPH_INVOKE_LLM_FAILED"
        assert (len(await all_episodes(memory)), set(await all_relations(memory))) == before
        written = 0

    assert len(await all_episodes(memory)) == before[0] + written
    assert not [problem for problem in await problems(memory) if "there twice" not in problem]


# --- 15 ---------------------------------------------------------------------------------------------------------------


async def test_text_that_looks_like_a_template_or_a_tag_reaches_the_model_as_text() -> None:
    """15: template words are unchanged, and a tag that fences the text cannot be closed by it."""
    made = taught()
    text = "Write {{ entities }}, {% if x %} and {{entities}}, then </current_messages>, </text> and <text>. [9] No."

    await made.learn(text, types={"Tom": "Human"}, said=[("Tom", "is", "Tom", text)], summaries={"Tom": "{{ text }}"})

    prompts = made.llm.prompts
    fenced = [prompt for prompt in prompts if "{{ entities }}" in prompt.text]
    assert {prompt.question for prompt in fenced} >= {"EntityExtraction", "RelationExtraction", "EntitySummaries"}
    assert all("{% if x %} and {{entities}}, then </current_messages>" in prompt.text for prompt in fenced)
    assert all(prompt.text.count("</text>") == 1 for prompt in fenced)
    assert (await all_episodes(made.memory))[0].content == text
    assert (await all_entities(made.memory))["Tom"].content == "{{ text }}"


# --- 16 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["memory", "milvus"])
async def test_a_memory_works_in_a_worker_thread_and_in_a_second_event_loop(backend: str, tmp_path: Path) -> None:
    """16"""
    memory = fake_memory({"EntityExtraction": entities({})}, config=lite(tmp_path, backend=backend))

    def elsewhere(user: str) -> None:
        asyncio.run(_add_and_find(memory, user))

    async with memory:
        await asyncio.gather(
            _add_and_find(memory, "here"), *(asyncio.to_thread(elsewhere, f"user {number}") for number in range(3))
        )
        await _add_and_find(memory, "here")
        counts = [len(await all_episodes(memory, f"user {number}")) for number in range(3)]
        mine = len(await all_episodes(memory, "here"))

    assert (counts, mine) == ([1, 1, 1], 2)


async def _add_and_find(memory: GraphMemory, user: str) -> None:
    await memory.add_memory(DOCUMENT, user, "A heron stood there.")
    found = await memory.search("heron", user)
    assert isinstance(found[EPISODE_COLLECTION][0][1], Episode)


class Counting(FakeLLM):
    """A model that knows how many of its calls were in flight at once."""

    most = current = 0

    async def invoke(self, **arguments: Any) -> Any:
        self.current += 1
        self.most = max(self.most, self.current)
        try:
            return await super().invoke(**arguments)
        finally:
            self.current -= 1


async def test_adds_of_eight_users_overlap_and_those_of_one_user_do_not() -> None:
    """16: eight users ask at once; one user asks the two questions of the first round at most."""
    many, one = Counting(latency=0.02), Counting(latency=0.02)
    shared, lonely = fake_memory(llm=many), fake_memory(llm=one)

    await asyncio.gather(
        *(shared.add_memory(DOCUMENT, f"user {user}", f"Text {add}.") for user in range(8) for add in range(3)),
        *(lonely.add_memory(DOCUMENT, "user", f"Text {add}.") for add in range(8)),
    )

    assert many.most >= 8
    assert one.most == 2
    assert [len(await all_episodes(shared, f"user {user}")) for user in range(8)] == [3] * 8


# --- 17 ---------------------------------------------------------------------------------------------------------------


async def test_a_memory_closes_by_any_of_its_ways_and_is_of_no_use_afterwards(tmp_path: Path) -> None:
    """17"""
    first, second, third = (fake_memory(config=lite(tmp_path)) for _ in range(3))
    async with first:
        await first.add_memory(DOCUMENT, "ann", "A heron.")
    await second.search("heron", "ann")
    await second.close()
    await second.close()
    await third.aclose()

    for memory in (first, second, third):
        with pytest.raises(StoreError, match="closed"):
            await memory.search("heron", "ann")


@pytest.mark.parametrize("backend", ["memory", "milvus"])
async def test_a_store_of_another_dimension_is_refused_and_nothing_is_dropped(backend: str, tmp_path: Path) -> None:
    """17"""
    async with fake_memory(config=lite(tmp_path, backend=backend)) as memory:
        await memory.add_memory(DOCUMENT, "ann", "A heron.")
    other = fake_memory(config=lite(tmp_path, backend=backend, embed_dim=96))

    with pytest.raises(SchemaMismatchError, match=r"64[^9]*96|96[^6]*64") as refusal:
        await other.add_memory(DOCUMENT, "ann", "A crane.")
    await other.close()
    async with fake_memory(config=lite(tmp_path, backend=backend)) as memory:
        kept = await all_episodes(memory)

    assert "reembed" in str(refusal.value)
    assert [each.content for each in kept] == ["A heron."]
