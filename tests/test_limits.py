"""Everything too long, too many, empty or malformed: split, cut with a warning, or refused before anything is written.

The stores hold Milvus Lite, or the store in memory, to a server's rules, which count bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    AddMemStrategy,
    EpisodeType,
    GraphConfig,
    GraphStoreStorageConfig,
    SearchConfig,
)
from jiuwen_memory.errors import EmbeddingCallError, InvalidInputError, StoreParameterError
from jiuwen_memory.foundation.store.graph import Entity, Episode, GraphStoreFactory, Relation
from jiuwen_memory.foundation.store.graph.checks import check_row
from jiuwen_memory.foundation.store.graph.columns import collection_columns
from jiuwen_memory.foundation.store.graph.constants import ARRAY_LIMIT, VARCHAR_LIMIT
from jiuwen_memory.foundation.store.query import eq, in_list
from jiuwen_memory.foundation.text import estimate_tokens
from jiuwen_memory.memory_core.graph.graph_memory.recording import resolve_record
from jiuwen_memory.memory_core.graph.graph_memory.requests import parse_request
from jiuwen_memory.memory_core.graph.graph_memory.states import History
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, FakePrompt, StrictStore
from jiuwen_memory.testing.llm import Answer
from tests.memory_support import (
    Fact,
    Taught,
    all_entities,
    all_episodes,
    all_relations,
    entities,
    facts,
    nothing_is_stored,
    problems,
    taught,
)
from tests.stores import entity, episode, relation

DIM = 32
LONG_PARTS = AddMemStrategy(chinese_entity=False, chunk_tokens=20_000)
MARKER = re.compile(r"Marker\d+|标记\d+")


def strict(uri: Path | str, inner: str = "memory", **options: Any) -> Taught:
    """Return a memory over a store with a server's rules."""
    GraphStoreFactory.register_backend("strict-lite", StrictStore, force=True)
    storage = options.pop("storage", None) or GraphStoreStorageConfig()
    config = GraphConfig(
        uri=str(uri),
        backend="strict-lite",
        embed_dim=DIM,
        timeout=60.0,
        db_storage_config=storage,
        request_max_retries=1,
    )
    embedder = options.pop("embedder", None) or FakeEmbedder(DIM)
    return taught(config=config, db_kwargs={"inner": inner}, embedder=embedder, **options)


@pytest.fixture
async def mind() -> AsyncIterator[Taught]:
    made = strict(f"limits-{uuid4().hex}")
    yield made
    await made.memory.close()


# --- long inputs ------------------------------------------------------------------------------------------------------


def one_megabyte() -> str:
    sentences = (
        f"Keeper {n} saw a heron at the pond{' near Marker' + str(n) if n % 150 == 0 else ''}." for n in range(26_700)
    )
    return "\n".join(sentences)


def chinese() -> str:
    sentences = (f"管理员在池塘边看到一只白鹭{'，靠近标记' + str(n) if n % 400 == 0 else ''}。" for n in range(21_700))
    return "".join(sentences)


def last_marker(prompt: FakePrompt) -> list[str]:
    return MARKER.findall(prompt.text)[-1:]


def named_in_part(prompt: FakePrompt) -> Answer:
    return entities({"The pond": "Entity", **dict.fromkeys(last_marker(prompt), "Entity")})


def said_in_part(prompt: FakePrompt) -> Answer:
    return facts(*((each, "lies at", "The pond", f"{each} lies at the pond.") for each in last_marker(prompt)))


LONG = {
    "1 MB of English": (one_megabyte(), 1_000_000, 60),
    "300,000 Chinese characters": (chinese(), 900_000, 55),
}


@pytest.mark.parametrize(("text", "size", "parts"), LONG.values(), ids=LONG.keys())
async def test_a_long_text_is_stored_in_linked_parts(text: str, size: int, parts: int) -> None:
    llm = FakeLLM({"EntityExtraction": named_in_part, "RelationExtraction": said_in_part})
    mind = strict(f"limits-{uuid4().hex}", llm=llm, strategy=LONG_PARTS)

    update = await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", text, session_id="s")

    stored = sorted(await all_episodes(mind.memory), key=lambda each: each.part)
    assert len(text.encode()) >= size
    assert "".join(each.content for each in stored) == text
    assert [each.part for each in stored] == list(range(1, len(stored) + 1))
    assert {(each.parts, each.session_id) for each in stored} == {(len(stored), "s")}
    assert len({each.group for each in stored}) == 1
    assert len(stored) >= parts
    assert max(len(each.content.encode()) for each in stored) <= VARCHAR_LIMIT // 4
    assert len(update.added_episode) == len(stored)
    pond = (await all_entities(mind.memory))["The pond"]
    assert pond.mention_count == len(stored) == len(pond.episodes)
    assert await problems(mind.memory) == []
    await mind.memory.close()


@pytest.mark.parametrize(
    "text",
    [
        "x" * 70_000,
        "界" * 30_000,
        "\U0001f469\u200d\U0001f469\u200d\U0001f467" * 5_000,
        "a\u0301" * 20_000,
        "\ufdfa" * 9_000,
    ],
    ids=["ascii", "chinese", "joined emoji", "accents", "a letter that folds to eighteen"],
)
async def test_one_line_without_a_space_is_split_where_it_must_be(mind: Taught, text: str) -> None:
    await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", text)

    stored = sorted(await all_episodes(mind.memory), key=lambda each: each.part)
    assert "".join(each.content for each in stored) == text
    assert len(stored) > 1
    assert all(estimate_tokens(each.content) <= AddMemStrategy().chunk_tokens for each in stored)


async def test_no_question_is_longer_than_a_part_its_history_and_the_instructions() -> None:
    mind = strict(f"limits-{uuid4().hex}", strategy=AddMemStrategy(chinese_entity=False, chunk_tokens=500))

    await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "The heron stood at the pond. " * 1_500)

    longest = max(estimate_tokens(prompt.text) for prompt in mind.llm.prompts)
    assert len(await all_episodes(mind.memory)) > 20
    assert longest < 500 * 4 + 3_000


# --- hubs -------------------------------------------------------------------------------------------------------------


async def test_a_hub_grows_past_every_array_limit(tmp_path: Path) -> None:
    storage = GraphStoreStorageConfig(relations=8, episodes=8, entities=8)
    mind = strict(tmp_path / "hub.db", "milvus", storage=storage)
    spoken = [
        [(f"Bird {n}", "lives at", "The pond", f"Bird {n} lives at the pond.") for n in range(start, start + 5)]
        for start in range(0, 50, 5)
    ]

    for number, said in enumerate(spoken):
        types = {"The pond": "Entity", **{bird: "Entity" for bird, *_ in said}}
        await mind.learn(f"Text {number}: birds live at the pond.", types=types, said=said, session_id="s")

    pond = (await all_entities(mind.memory))["The pond"]
    edges = await all_relations(mind.memory)
    assert (len(pond.relations), len(pond.episodes), pond.mention_count) == (8, 8, 10)
    assert set(pond.relations) <= {each.uuid for each in edges.values()}
    assert edges["Bird 49 lives at the pond."].uuid in pond.relations
    assert len(edges) == 50
    assert {each.rhs for each in edges.values()} == {pond.uuid}
    assert max(len(each.entities) for each in await all_episodes(mind.memory)) <= 8
    mind.memory.register_search_strategy("near", SearchConfig(bfs_depth=1, bfs_k=100, top_k=100, min_score=0.0))
    found = await mind.memory.search("the pond", "ann", "near", relation=False, episode=False)
    assert len(found[ENTITY_COLLECTION]) == 51
    await mind.memory.close()


async def test_a_fact_told_more_often_than_its_lists_hold_goes_on_counting(tmp_path: Path) -> None:
    storage = GraphStoreStorageConfig(relations=4, episodes=4, entities=4)
    mind = strict(tmp_path / "told.db", "milvus", storage=storage)
    told: list[Fact] = [("Ada", "keeps", "Heron", "Ada keeps the heron.")]

    for number in range(12):
        await mind.learn(f"Telling {number}.", types={"Ada": "Human", "Heron": "Entity"}, said=told, session_id="s")

    (edge,) = (await all_relations(mind.memory)).values()
    newest = [each.uuid for each in sorted(await all_episodes(mind.memory), key=lambda each: int(each.content[8:-1]))]
    assert edge.mention_count == 12
    assert edge.episodes == newest[-4:]
    await mind.memory.close()


@pytest.mark.parametrize("inner", ["memory", "milvus"])
async def test_what_is_fused_leaves_every_episode_that_named_it(tmp_path: Path, inner: str) -> None:
    mind = strict(tmp_path / "fused.db", inner, storage=GraphStoreStorageConfig(episodes=2))
    for number, name in enumerate(["Tom Orr"] * 3 + ["Tommy Orr"] * 4):
        await mind.learn(f"{name} flew, {number}.", types={name: "Human"}, same={name: [f"{name} ("]})
    both = {"Thomas Orr": ["Tom Orr (", "Tommy Orr ("]}

    fused = await mind.learn("Thomas Orr is Tom Orr and Tommy Orr.", types={"Thomas Orr": "Human"}, same=both)

    (one,) = (await all_entities(mind.memory)).values()
    assert len(fused.removed_entity) == 1
    assert [each.entities for each in await all_episodes(mind.memory)] == [[one.uuid]] * 8
    await mind.memory.close()


async def test_a_hub_of_as_many_links_as_a_server_lists_takes_the_next_one(tmp_path: Path) -> None:
    mind = strict(tmp_path / "full.db", "milvus")
    store = mind.memory.db_backend
    ids = [uuid4().hex for _ in range(ARRAY_LIMIT)]
    sources = [f"source {number}" for number in range(ARRAY_LIMIT)]
    here = episode("Where the pond is.", session_id="s")
    hub = entity("The pond", relations=ids, episodes=ids, sources=sources, aliases=sources, mention_count=ARRAY_LIMIT)
    here = episode("Where the pond is.", session_id="s", entities=[hub.uuid], parents=ids)
    deep, cold = (
        relation(f"The pond is {how}.", name="is", lhs=hub.uuid, rhs=hub.uuid, episodes=ids, superseded_by=ids)
        for how in ("deep", "cold")
    )
    await store.upsert(EPISODE_COLLECTION, [here])
    await store.upsert(ENTITY_COLLECTION, [hub])
    await store.upsert(RELATION_COLLECTION, [deep, cold])
    await mind.memory.db_backend.flush([ENTITY_COLLECTION, RELATION_COLLECTION, EPISODE_COLLECTION])

    await mind.learn(
        "Ada dug the pond; it is deep, and now no longer cold but warm.",
        types={"The pond": "Entity", "Ada": "Human"},
        said=[
            ("Ada", "dug", "The pond", "Ada dug the pond."),
            ("The pond", "is", "The pond", "The pond is deep."),
            ("The pond", "is", "The pond", "The pond is warm."),
        ],
        contradicts={"The pond is warm.": ["The pond is cold."]},
        session_id="s",
        source="the source that is one too many",
    )

    pond = (await all_entities(mind.memory))["The pond"]
    edges = await all_relations(mind.memory)
    assert len(pond.relations) == len(pond.episodes) == ARRAY_LIMIT
    assert edges["Ada dug the pond."].uuid in pond.relations
    assert edges["Ada dug the pond."].rhs == pond.uuid == hub.uuid
    assert len(edges["The pond is deep."].episodes) == ARRAY_LIMIT
    assert edges["The pond is deep."].mention_count == 2
    assert edges["The pond is cold."].superseded_by[-1] == edges["The pond is warm."].uuid
    assert len(edges["The pond is cold."].superseded_by) <= ARRAY_LIMIT
    await mind.memory.close()


def test_an_episode_lists_no_more_speakers_than_a_list_holds() -> None:
    config = GraphConfig(uri="nowhere.db", embed_dim=DIM)
    request = parse_request(
        EpisodeType.CONVERSATION,
        [{"role": "user", "name": f"p{number}", "content": "y"} for number in range(ARRAY_LIMIT + 10)],
        user_id="ann",
        storage=config.db_storage_config,
        content_fmt_kwargs=None,
        reference_time=None,
        session_id=None,
        source=None,
        idempotency_key=None,
    )
    request = replace(request, utterances=())

    made = resolve_record(request, History((), []), "en").first.revise(content_embedding=[1.0] * DIM)

    assert len(made.speakers) == ARRAY_LIMIT
    check_row(made.to_row(), collection_columns(EPISODE_COLLECTION, config), collection=EPISODE_COLLECTION)


# --- large replies ----------------------------------------------------------------------------------------------------


async def test_five_hundred_entities_in_one_reply_are_all_stored(tmp_path: Path) -> None:
    mind = strict(tmp_path / "many.db", "milvus")
    names = [f"Bird number {number}" for number in range(500)]
    said: list[Fact] = [(first, "sits by", second, f"{first} sits by {second}.") for first, second in pairwise(names)]

    update = await mind.learn("A flock.", types=dict.fromkeys(names, "Entity"), said=said)

    assert set(await all_entities(mind.memory)) == set(names)
    assert len(await all_relations(mind.memory)) == 499
    assert len(update.added_episode[0].entities) == 500
    assert await problems(mind.memory) == []
    await mind.memory.close()


@pytest.mark.parametrize("letter", ["x", "界", "\U0001f600", "\ufdfa", "a\u0301"])
async def test_an_entity_name_of_100_kb_is_cut_at_a_character_and_the_update_says_so(mind: Taught, letter: str) -> None:
    name = letter * (100_000 // len(letter.encode()))

    update = await mind.learn(
        "A long name.", types={name: "Entity", "Ada": "Human"}, said=[("Ada", "wrote", name, f"Ada wrote {name}.")]
    )

    longest = max(await all_entities(mind.memory), key=len)
    assert name.startswith(longest)
    assert 400 < len(longest.encode()) <= 500
    assert any("cut" in warning for warning in update.warnings)
    assert all(len(warning) < 1_000 for warning in update.warnings)
    assert len(await all_relations(mind.memory)) == 1


async def test_answers_that_are_far_too_long_are_cut_or_left_out(mind: Taught) -> None:
    long = "The heron is grey. " * 20_000
    update = await mind.learn(
        "A heron.",
        types={"Heron": "Entity", "Ada": "Human"},
        said=[("Ada", "sees " * 30_000, "Heron", long)],
        summaries={"Heron": long},
        since=long,
    )

    (edge,) = (await all_relations(mind.memory)).values()
    assert len(edge.content.encode()) <= VARCHAR_LIMIT // 4
    assert len(edge.name.encode()) <= 500
    assert edge.valid_since is None
    assert any("cut" in warning for warning in update.warnings)


# --- empty and malformed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["", " \n\t ", "\0", "\u3000", [], [{"role": "user", "content": " "}]])
async def test_nothing_to_remember_is_refused_before_anything_is_asked(mind: Taught, content: Any) -> None:
    with pytest.raises(InvalidInputError, match="content is empty"):
        await mind.memory.add_memory(EpisodeType.CONVERSATION, "ann", content)

    assert mind.llm.calls == mind.embedder.calls == 0
    assert await nothing_is_stored(mind.memory)


async def test_characters_that_no_store_keeps_are_replaced_in_texts_of_every_origin(mind: Taught) -> None:
    update = await mind.learn(
        "A \ud800heron\0 stands.",
        types={"Her\udfffon\0": "Entity", "A\0da": "Human"},
        said=[("A\0da", "se\0es", "Her\udfffon\0", "Ada se\ud800es the heron.\0")],
        summaries={"Her": "A \udc00bird.\0"},
    )

    rows = [*await all_episodes(mind.memory), *update.added_entity, *update.added_relation]
    dumped = "".join(row.model_dump_json() for row in rows)
    assert not re.search(r"[\0\ud800-\udfff]|\\u0000", dumped)
    assert {each.content for each in await all_episodes(mind.memory)} == {"A \ufffdheron stands."}
    assert len(update.added_relation) == 1


@pytest.mark.parametrize(
    "query", ["\ud800", "heron\0", "a\udfffb", "\x00\x01\x02", "\u200b", "x" * 200_000, "界" * 100_000]
)
async def test_a_query_of_any_form_is_answered(tmp_path: Path, query: str) -> None:
    mind = strict(tmp_path / "query.db", "milvus")
    await mind.learn("The heron stands.", types={"Heron": "Entity"})

    found = await mind.memory.search(query, "ann")

    assert set(found) == {ENTITY_COLLECTION, RELATION_COLLECTION, EPISODE_COLLECTION}
    await mind.memory.close()


@pytest.mark.parametrize(
    "ids", [["\ud800"], ["x" * 100_000], ["\0"], [""], ['"', "\\"], [str(n) for n in range(20_000)]]
)
async def test_ids_that_cannot_be_ids_are_found_nowhere(tmp_path: Path, ids: Sequence[str]) -> None:
    mind = strict(tmp_path / "ids.db", "milvus")
    await mind.learn("The heron stands.", types={"Heron": "Entity"})

    assert await mind.memory.get(ENTITY_COLLECTION, ids, "ann") == []
    await mind.memory.close()


# --- vectors ----------------------------------------------------------------------------------------------------------


class OddEmbedder(FakeEmbedder):
    """Gives one bad vector, from a call on."""

    def __init__(self, bad: list[float], *, from_call: int = 1) -> None:
        super().__init__(DIM)
        self.bad = bad
        self.from_call = from_call

    async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[list[float]]:
        vectors = await super().embed_documents(texts, batch_size)
        return [*vectors[:-1], self.bad] if self.calls >= self.from_call else vectors


BAD_VECTORS = {
    "NaN": [math.nan] * DIM,
    "infinity": [math.inf, *[0.0] * (DIM - 1)],
    "too short": [1.0] * (DIM - 1),
    "too long": [1.0] * (DIM + 1),
    "empty": [],
}


@pytest.mark.parametrize("from_call", [1, 2, 3])
@pytest.mark.parametrize("bad", BAD_VECTORS.values(), ids=BAD_VECTORS.keys())
async def test_a_vector_that_cannot_be_used_stops_the_add_before_anything_is_written(
    bad: list[float], from_call: int
) -> None:
    mind = strict(f"limits-{uuid4().hex}", embedder=OddEmbedder(bad, from_call=from_call))

    with pytest.raises(EmbeddingCallError, match="cannot be used"):
        await mind.learn(
            "The heron stands.",
            types={"Heron": "Entity", "Ada": "Human"},
            said=[("Ada", "sees", "Heron", "Ada sees the heron.")],
        )

    assert await nothing_is_stored(mind.memory)


@pytest.mark.parametrize("bad", BAD_VECTORS.values(), ids=BAD_VECTORS.keys())
async def test_a_vector_that_cannot_be_used_stops_a_search(bad: list[float]) -> None:
    mind = strict(f"limits-{uuid4().hex}", embedder=OddEmbedder(bad))

    with pytest.raises(EmbeddingCallError, match="cannot be used"):
        await mind.memory.search("heron", "ann")


def test_an_embedder_of_another_dimension_is_refused_when_it_is_attached(mind: Taught) -> None:
    with pytest.raises(StoreParameterError, match=r"33 values.*embed_dim is 32"):
        mind.memory.attach_embedder(FakeEmbedder(DIM + 1))


async def test_an_embedder_of_another_dimension_that_shows_late_is_refused_at_its_first_use(mind: Taught) -> None:
    late = FakeEmbedder(DIM + 1)
    unknown: Any = None
    late.dimension = unknown
    mind.memory.attach_embedder(late)
    late.dimension = DIM + 1

    with pytest.raises(EmbeddingCallError, match=r"33 numbers where GraphConfig\.embed_dim says 32"):
        await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "A heron.")

    assert await nothing_is_stored(mind.memory)


# --- rows that do not fit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (entity("界" * 167), "name.*501 UTF-8 bytes, the limit is 500"),
        (entity("a", content="界" * 21_846), "content.*65538 UTF-8 bytes"),
        (entity("a", user="\U0001f600" * 33), "user_id"),
        (entity("a", relations=[uuid4().hex] * (ARRAY_LIMIT + 1)), "4097 elements"),
        (entity("a", aliases=["\ud800"]), "lone surrogate"),
        (entity("a", attributes={"x": "y" * 65_536}), "attributes.*bytes"),
        (entity("a", attributes={"x": math.nan}), "attributes.*JSON"),
        (entity("a", content_embedding=[math.nan] * DIM), "not a finite number"),
        (entity("a", content_embedding=[1.0, 1e39] * (DIM // 2)), "huge"),
        (entity("a", mention_count=2**63), "mention_count"),
    ],
)
async def test_a_row_that_does_not_fit_is_refused_with_column_size_and_limit(
    mind: Taught, row: Entity | Relation | Episode, reason: str
) -> None:
    with pytest.raises(StoreParameterError, match=reason):
        await mind.memory.db_backend.upsert(row.collection, [row])

    store = mind.memory.db_backend
    assert await store.query(ENTITY_COLLECTION, user=eq("user_id", "ann") | in_list("user_id", [""])) == []
