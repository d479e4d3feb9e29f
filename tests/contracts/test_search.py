"""Every store finds the same objects, in the same order, with the scores that result_ranking states."""

from __future__ import annotations

import pytest

from jiuwen_memory.errors import StoreParameterError
from jiuwen_memory.foundation.store.graph import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    GraphStore,
    GraphStoreIndexConfig,
    Hit,
    SearchQuery,
)
from jiuwen_memory.foundation.store.graph.database_config import BM25Config, DistanceMetric
from jiuwen_memory.foundation.store.graph.index_field import MilvusFLAT, MilvusHNSW, MilvusIVF, VectorField
from jiuwen_memory.foundation.store.graph.memory.scoring import BM25
from jiuwen_memory.foundation.store.graph.result_ranking import (
    BaseRankConfig,
    Channel,
    MinMaxRankConfig,
    RRFRankConfig,
    WeightedRankConfig,
    normalise_bm25,
    normalise_dense,
)
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.foundation.text import query_tokens
from tests.stores import DIM, Backend, axis, entity, episode, relation

ANN = filter_user("ann")
NAMES = WeightedRankConfig(name_dense=1, content_dense=0, content_sparse=0)
CONTENTS = WeightedRankConfig(name_dense=0, content_dense=1, content_sparse=0)
WORDS = WeightedRankConfig(name_dense=0, content_dense=0, content_sparse=1)

ROWS = [
    entity("tea", uuid="1", content="green leaves", name_embedding=axis((0, 1.0)), content_embedding=axis((1, 1.0))),
    entity(
        "pot",
        uuid="2",
        content="a pot of tea",
        name_embedding=axis((0, 0.6), (1, 0.8)),
        content_embedding=axis((0, 0.8), (1, 0.6)),
    ),
    entity("cup", uuid="3", content="made of clay", name_embedding=axis((2, 1.0)), content_embedding=axis((0, 1.0))),
    entity("tea", uuid="9", user="bob", name_embedding=axis((0, 1.0)), content_embedding=axis((0, 1.0))),
]
EAST = axis((0, 1.0))


async def search(
    store: GraphStore, rank: BaseRankConfig, query: SearchQuery, *, limit: int = 10, pool: int = 100
) -> list[Hit]:
    hits = await store.search(ENTITY_COLLECTION, [query], user=ANN, rank=rank, limit=limit, pool=pool)
    return hits[0]


def ids(hits: list[Hit]) -> list[str]:
    return [hit.found.uuid for hit in hits]


@pytest.fixture
async def filled(store: GraphStore) -> GraphStore:
    await store.upsert(ENTITY_COLLECTION, ROWS)
    await store.refresh()
    return store


async def test_each_channel_finds_by_what_it_looks_at(filled: GraphStore) -> None:
    by_name = await search(filled, NAMES, SearchQuery("", EAST))
    by_content = await search(filled, CONTENTS, SearchQuery("", EAST))
    by_words = await search(filled, WORDS, SearchQuery("tea"))

    assert ids(by_name) == ["1", "2", "3"]
    assert ids(by_content) == ["3", "2", "1"]
    assert sorted(ids(by_words)) == ["1", "2"]
    assert [hit.score for hit in by_name] == pytest.approx([1.0, 0.8, 0.5], abs=1e-5)
    assert all(0 < hit.score < 1 for hit in by_words)


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "dot"])
async def test_every_metric_puts_the_nearest_first_with_the_stated_score(
    backend: Backend, metric: DistanceMetric
) -> None:
    store = backend.make(db_embed_config=GraphStoreIndexConfig(distance_metric=metric))
    await store.upsert(ENTITY_COLLECTION, ROWS)
    await store.refresh()
    raw = {"cosine": [1.0, 0.6, 0.0], "euclidean": [0.0, 0.8, 2.0], "dot": [1.0, 0.6, 0.0]}[metric]

    hits = await search(store, NAMES, SearchQuery("", EAST))

    assert ids(hits) == ["1", "2", "3"]
    assert [hit.score for hit in hits] == pytest.approx([normalise_dense(value, metric) for value in raw], abs=1e-5)


async def test_weighted_scores_are_those_of_result_ranking(filled: GraphStore) -> None:
    rank = WeightedRankConfig(name_dense=0.2, content_dense=0.5, content_sparse=0.3)
    texts = {row.uuid: row.search_text for row in ROWS}
    words = BM25(texts, BM25Config()).scores(query_tokens("tea pot"), "123")
    routes = {
        "name_dense": [("1", 1.0), ("2", 0.8), ("3", 0.5)],
        "content_dense": [("3", 1.0), ("2", 0.9), ("1", 0.5)],
        "content_sparse": [(uuid, normalise_bm25(score)) for uuid, score in words.items()],
    }

    hits = await search(filled, rank, SearchQuery("tea pot", EAST))

    expected = rank.fuse(routes, collection=ENTITY_COLLECTION)  # type: ignore[arg-type]  # keys are channels
    assert ids(hits) == [uuid for uuid, _ in expected]
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], abs=1e-4)


async def test_rank_fusion_scores_are_those_of_result_ranking(filled: GraphStore) -> None:
    rank = RRFRankConfig(k=10)
    routes = {
        "name_dense": [("1", 1.0), ("2", 0.8), ("3", 0.5)],
        "content_dense": [("3", 1.0), ("2", 0.9), ("1", 0.5)],
        "content_sparse": [("2", 0.5)],
    }

    hits = await search(filled, rank, SearchQuery("pot", EAST))

    expected = dict(rank.fuse(routes, collection=ENTITY_COLLECTION))  # type: ignore[arg-type]  # keys are channels
    assert {hit.found.uuid: hit.score for hit in hits} == pytest.approx(expected, abs=1e-6)
    assert ids(hits)[0] == "2"


async def test_a_channel_that_cannot_be_asked_leaves_the_other_weights_alone(filled: GraphStore) -> None:
    rank = WeightedRankConfig(name_dense=0.6, content_dense=0.2, content_sparse=0.2)

    without_words = await search(filled, rank, SearchQuery("?!", EAST))
    without_vector = await search(filled, rank, SearchQuery("clay"))
    with_nothing = await search(filled, rank, SearchQuery(""))

    assert [hit.score for hit in without_words] == pytest.approx([0.7, 0.66, 0.5], abs=1e-5)
    assert ids(without_words) == ["1", "2", "3"]
    assert ids(without_vector) == ["3"]
    assert without_vector[0].score < 0.2
    assert with_nothing == []


async def test_many_queries_are_answered_one_by_one(filled: GraphStore) -> None:
    rank = WeightedRankConfig()
    queries = [
        SearchQuery("tea", EAST),
        SearchQuery("", axis((2, 1.0))),
        SearchQuery("clay", axis((1, 1.0))),
    ]

    together = await filled.search(ENTITY_COLLECTION, queries, user=ANN, rank=rank, limit=10)
    alone = [await search(filled, rank, query) for query in queries]
    none = await filled.search(ENTITY_COLLECTION, [], user=ANN, rank=rank, limit=10)

    assert [ids(hits) for hits in together] == [ids(hits) for hits in alone]
    for batch, single in zip(together, alone, strict=True):
        assert [hit.score for hit in batch] == pytest.approx([hit.score for hit in single], abs=1e-5)
    assert none == []


async def test_limit_bounds_the_hits_and_pool_each_channel(filled: GraphStore) -> None:
    rank = WeightedRankConfig(name_dense=0.5, content_dense=0.5, content_sparse=0)

    few = await search(filled, rank, SearchQuery("", EAST), limit=1)
    shallow = await search(filled, rank, SearchQuery("", EAST), limit=1, pool=1)
    none = await search(filled, rank, SearchQuery("", EAST), limit=0)

    assert ids(few) == ["2"]
    assert few[0].score == pytest.approx(0.85, abs=1e-5)
    assert ids(shallow)[0] in ("1", "3")
    assert shallow[0].score == pytest.approx(0.5, abs=1e-5)
    assert none == []


async def test_hits_carry_the_object_and_vectors_only_when_named(filled: GraphStore) -> None:
    plain = await filled.search(ENTITY_COLLECTION, [SearchQuery("clay")], user=ANN, rank=WORDS, limit=1)
    named = await filled.search(
        ENTITY_COLLECTION,
        [SearchQuery("clay")],
        user=ANN,
        rank=WORDS,
        limit=1,
        output_fields=["name_embedding"],
    )

    assert plain[0][0].found == ROWS[2].revise(name_embedding=None, content_embedding=None)
    found = named[0][0].found.model_dump()
    assert (found["name"], found["content"], found["content_embedding"]) == ("cup", "", None)
    assert found["name_embedding"] == pytest.approx(ROWS[2].name_embedding)


@pytest.mark.parametrize(
    ("query", "expected"),
    [("张三", ["1"]), ("华为云", ["1"]), ("三", ["1"]), ("databases", ["2"]), ("Müller", ["2"]), ("北京", ["3"])],
)
async def test_words_are_found_in_chinese_and_english(store: GraphStore, query: str, expected: list[str]) -> None:
    await store.upsert(
        RELATION_COLLECTION,
        [
            relation("张三在华为云负责数据库产品", uuid="1"),
            relation("Anna Müller builds a database", uuid="2"),
            relation("李四住在北京", uuid="3"),
        ],
    )
    await store.refresh()

    hits = await store.search(RELATION_COLLECTION, [SearchQuery(query)], user=ANN, rank=RRFRankConfig(), limit=3)

    assert ids(hits[0]) == expected


async def test_episodes_and_relations_are_searched_by_content(store: GraphStore) -> None:
    await store.upsert(EPISODE_COLLECTION, [episode("we talked about tea", content_embedding=EAST), episode("other")])
    await store.refresh()

    hits = await store.search(
        EPISODE_COLLECTION, [SearchQuery("tea", EAST)], user=ANN, rank=RRFRankConfig(k=40), limit=2
    )

    assert hits[0][0].found.content == "we talked about tea"
    assert hits[0][0].score == pytest.approx(2 / 41, abs=1e-6)


async def test_an_empty_store_finds_nothing(store: GraphStore) -> None:
    assert await search(store, WeightedRankConfig(), SearchQuery("tea", EAST)) == []


async def test_queries_must_be_alike_and_fit_the_store(store: GraphStore) -> None:
    for queries, told in (
        ([SearchQuery("a", EAST), SearchQuery("b")], "1 of 2 queries"),
        ([SearchQuery("a", [1.0])], f"1 values, the store holds vectors of {DIM}"),
        ([SearchQuery("a", [float("inf")] * DIM)], "not a finite number"),
    ):
        with pytest.raises(StoreParameterError, match=told):
            await store.search(ENTITY_COLLECTION, queries, user=ANN, rank=RRFRankConfig(), limit=1)


@pytest.mark.parametrize("index", [MilvusFLAT(), MilvusHNSW(), MilvusIVF(nlist=2)], ids=lambda index: index.index_type)
async def test_every_index_type_finds_the_nearest(backend: Backend, index: VectorField) -> None:
    store = backend.make(db_embed_config=GraphStoreIndexConfig(index_type=index))
    await store.upsert(ENTITY_COLLECTION, ROWS)
    await store.refresh()

    assert ids(await search(store, NAMES, SearchQuery("", EAST)))[0] == "1"


# --- channel by channel -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "dot"])
async def test_routes_give_each_channels_own_scores_the_higher_the_better(
    backend: Backend, metric: DistanceMetric
) -> None:
    store = backend.make(db_embed_config=GraphStoreIndexConfig(distance_metric=metric))
    await store.upsert(ENTITY_COLLECTION, ROWS)
    await store.refresh()
    expected = {"cosine": [1.0, 0.6, 0.0], "dot": [1.0, 0.6, 0.0], "euclidean": [0.0, -0.8, -2.0]}

    routes = await store.routes(
        ENTITY_COLLECTION,
        SearchQuery("tea", EAST),
        user=ANN,
        channels=("name_dense", "content_sparse"),
        output_fields=["content"],
    )

    assert list(routes) == ["name_dense", "content_sparse"]
    assert ids(routes["name_dense"]) == ["1", "2", "3"]
    assert [hit.score for hit in routes["name_dense"]] == pytest.approx(expected[metric], abs=1e-5)
    assert sorted(ids(routes["content_sparse"])) == ["1", "2"]
    assert all(hit.score > 0 for hit in routes["content_sparse"])


async def test_a_channel_that_has_nothing_to_be_asked_with_is_left_out(filled: GraphStore) -> None:
    channels: tuple[Channel, ...] = ("content_dense", "content_sparse")

    by_words = await filled.routes(ENTITY_COLLECTION, SearchQuery("tea"), user=ANN, channels=channels, limit=1)
    by_vector = await filled.routes(ENTITY_COLLECTION, SearchQuery("", EAST), user=ANN, channels=channels, limit=1)

    assert list(by_words) == ["content_sparse"]
    assert ids(by_vector["content_dense"]) == ["3"]
    with pytest.raises(StoreParameterError, match="limit"):
        await filled.routes(ENTITY_COLLECTION, SearchQuery("tea"), user=ANN, channels=channels, limit=-1)


async def test_a_ranking_that_the_store_does_not_know_is_computed_from_the_routes(filled: GraphStore) -> None:
    rank = MinMaxRankConfig(name_dense=0, content_dense=0.75, content_sparse=0.25)

    hits = await search(filled, rank, SearchQuery("clay", EAST))

    assert ids(hits) == ["3", "2", "1"]
    assert [hit.score for hit in hits] == pytest.approx([1.0, 0.75 * 0.8, 0.0], abs=1e-5)
