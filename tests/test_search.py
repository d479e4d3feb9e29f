"""Search: strategies and their settings, graph expansion, thresholds, and reading objects by id or in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from pydantic import ValidationError

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    AddMemStrategy,
    Entity,
    Episode,
    GraphConfig,
    GraphMemory,
    MinMaxRankConfig,
    Relation,
    RRFRankConfig,
    SearchConfig,
    WeightedRankConfig,
)
from jiuwen_memory.errors import (
    CollectionNotSupportedError,
    EmbedderNotFoundError,
    EmbeddingCallError,
    InvalidInputError,
    QueryExpressionError,
    RerankServiceError,
    SetupError,
    StoreParameterError,
)
from jiuwen_memory.foundation.store.graph import Hit
from jiuwen_memory.foundation.store.graph.result_ranking import BaseRankConfig
from jiuwen_memory.foundation.store.query import eq, gte, in_list
from jiuwen_memory.memory_core.graph.graph_memory.searching.ordering import successors_first
from jiuwen_memory.memory_core.graph.graph_memory.searching.strategies import STRATEGIES
from jiuwen_memory.testing import FakeEmbedder, FakeReranker, fake_memory
from tests.conversation_support import remembering, write
from tests.memory_support import Taught, taught

# Milvus brings it along; it is no dependency of ours.
numpy = pytest.importorskip("numpy")
BIRDS = {"Heron": "Entity", "Crane": "Entity", "Pond": "Entity"}


async def birds() -> Taught:
    """Return a memory that knows of a heron, a crane and a pond."""
    mind = taught()
    await mind.learn(
        "The heron fishes at the pond. The crane dances.",
        types=BIRDS,
        said=[
            ("Heron", "fishes at", "Pond", "The heron fishes at the pond."),
            ("Crane", "dances", "Crane", "The crane dances in spring."),
        ],
        summaries={"Heron": "A grey bird that fishes.", "Crane": "A bird that dances.", "Pond": "Still water."},
    )
    return mind


async def names(memory: GraphMemory, query: str, *arguments: Any, **options: Any) -> list[str]:
    """Return the names of the entities found, best first."""
    found = await memory.search(query, "ann", *arguments, relation=False, episode=False, **options)
    return [each.name for _, each in found[ENTITY_COLLECTION] if isinstance(each, Entity)]


# --- what comes back --------------------------------------------------------------------------------------------------


async def test_the_result_holds_scores_and_objects_of_each_collection_best_first() -> None:
    mind = await birds()

    found = await mind.memory.search("Which bird fishes at the pond?", "ann")

    assert list(found) == [ENTITY_COLLECTION, RELATION_COLLECTION, EPISODE_COLLECTION]
    assert all(isinstance(each, Entity) for _, each in found[ENTITY_COLLECTION])
    assert all(isinstance(each, Relation) for _, each in found[RELATION_COLLECTION])
    assert all(isinstance(each, Episode) for _, each in found[EPISODE_COLLECTION])
    for hits in found.values():
        scores = [score for score, _ in hits]
        assert scores == sorted(scores, reverse=True)
        assert all(each.content_embedding is None for _, each in hits)
    assert found[RELATION_COLLECTION][0][1].content == "The heron fishes at the pond."


@pytest.mark.parametrize("wanted", ["entity", "relation", "episode"])
async def test_only_the_collections_asked_for_are_searched(wanted: str) -> None:
    mind = await birds()
    flags: dict[str, Any] = dict.fromkeys(("entity", "relation", "episode"), False) | {wanted: True}

    found = await mind.memory.search("heron", "ann", **flags)

    assert list(found) == [f"{wanted.upper()}_COLLECTION"]


async def test_with_every_collection_switched_off_the_result_is_empty_and_nothing_is_embedded() -> None:
    mind = await birds()
    calls = mind.embedder.calls

    found = await mind.memory.search("heron", "ann", entity=False, relation=False, episode=False)

    assert found == {}
    assert mind.embedder.calls == calls


async def test_an_empty_memory_finds_nothing() -> None:
    found = await fake_memory().search("heron", "ann")

    assert found == {ENTITY_COLLECTION: [], RELATION_COLLECTION: [], EPISODE_COLLECTION: []}


@pytest.mark.parametrize("query", ["", "  ", None, 7])
async def test_a_query_that_is_no_text_is_refused(query: Any) -> None:
    with pytest.raises(InvalidInputError, match="query"):
        await fake_memory().search(query, "ann")


@pytest.mark.parametrize("query", ["\u200b", " \u2800", "\u3164"], ids=ascii)
async def test_a_query_that_shows_nothing_finds_nothing_and_is_not_embedded(query: str) -> None:
    mind = await birds()

    found = await mind.memory.search(query, "ann")

    assert [len(hits) for hits in found.values()] == [0, 0, 0]
    assert found.diagnostics.embedded == ()


async def test_searching_needs_an_embedder_but_no_model() -> None:
    memory = GraphMemory(GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64))

    with pytest.raises(EmbedderNotFoundError):
        await memory.search("heron", "ann")
    found = await memory.search("heron", "ann", query_embedding=[0.1] * 64)

    assert found[ENTITY_COLLECTION] == []


async def test_an_embedder_that_fails_is_an_error_with_a_code() -> None:
    config = GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64, request_max_retries=1)
    memory = fake_memory(embedder=FakeEmbedder(fail_times=9), config=config)

    with pytest.raises(EmbeddingCallError) as failure:
        await memory.search("heron", "ann")

    assert failure.value.code == "MEMORY_GRAPH_EMBEDDING_CALL_FAILED"


# --- the query's vector -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [list, tuple, numpy.array, lambda vector: numpy.array(vector, dtype="float32")])
async def test_a_given_query_vector_is_used_in_any_form_and_the_embedder_is_not_called(form: Any) -> None:
    mind = await birds()
    (vector,) = await mind.embedder.embed_documents(["Still water."])
    calls = mind.embedder.calls

    found = await names(mind.memory, "anything at all", query_embedding=form(vector))

    assert found[0] == "Pond"
    assert mind.embedder.calls == calls


async def test_a_query_vector_of_whole_numbers_is_one_too_and_needs_no_words() -> None:
    mind = await birds()

    found = await mind.memory.search("", "ann", query_embedding=[1] + [0] * 63)

    assert set(found) == {ENTITY_COLLECTION, RELATION_COLLECTION, EPISODE_COLLECTION}


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([0.5] * 63, "63 numbers"),
        ([], "0 numbers"),
        ([math.nan] * 64, "NaN"),
        ([math.inf] * 64, "infinity"),
        ("x" * 64, "str"),
        ([None] * 64, "not a number"),
        (0.5, "float"),
        ([10**400] * 64, "not a number"),
        (numpy.zeros((64, 2)), "not a number"),
    ],
)
async def test_a_query_vector_that_cannot_be_used_is_refused(vector: Any, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        await fake_memory().search("heron", "ann", query_embedding=vector)


# --- users ------------------------------------------------------------------------------------------------------------


async def test_several_users_are_searched_together_and_nobody_else() -> None:
    mind = taught()
    for user in ("ann", "ben", "cid"):
        await mind.learn(f"The heron of {user}.", user=user)

    found = await mind.memory.search("heron", ["ann", "cid", "ann"])

    assert {each.user_id for _, each in found[EPISODE_COLLECTION]} == {"ann", "cid"}
    assert len(found[EPISODE_COLLECTION]) == 2


@pytest.mark.parametrize("users", [[], (), None, ["ann", ""], ["ann", None], {"ann": 1}, [["ann"]]])
async def test_no_user_is_an_error_and_never_everyone(users: Any) -> None:
    with pytest.raises(InvalidInputError, match="user_id"):
        await fake_memory().search("heron", users)


# --- strategies -------------------------------------------------------------------------------------------------------


async def test_a_registered_strategy_is_used_by_name_and_what_it_leaves_out_is_the_default() -> None:
    mind = await birds()
    mind.memory.register_search_strategy("one", search_entity=SearchConfig(top_k=1, min_score=0.0))

    found = await mind.memory.search("bird", "ann", "one")

    usual = await mind.memory.search("bird", "ann")
    assert len(found[ENTITY_COLLECTION]) == 1
    assert found[RELATION_COLLECTION] == usual[RELATION_COLLECTION]


@pytest.mark.parametrize("name", ["", "  ", None, 7])
def test_a_strategy_needs_a_name(name: Any) -> None:
    with pytest.raises(InvalidInputError, match="name"):
        fake_memory().register_search_strategy(name)


def test_a_name_in_use_is_replaced_only_by_force() -> None:
    memory = fake_memory()
    memory.register_search_strategy("mine")

    for taken in ("mine", "default"):
        with pytest.raises(InvalidInputError, match="force=True"):
            memory.register_search_strategy(taken)

    memory.register_search_strategy("mine", force=True)


def test_a_strategy_is_made_of_search_configs() -> None:
    with pytest.raises(InvalidInputError, match="SearchConfig"):
        fake_memory().register_search_strategy("mine", search_entity={"top_k": 3})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["no such strategy", None, ["default"]], ids=str)
async def test_an_unknown_strategy_is_an_error_that_lists_the_known_ones(name: Any) -> None:
    with pytest.raises(InvalidInputError, match="known are associative, broad, conversation, default"):
        await fake_memory().search("heron", "ann", name)


@pytest.mark.parametrize(
    "rank",
    [
        RRFRankConfig(content_dense=False, content_sparse=False),
        WeightedRankConfig(content_dense=0, content_sparse=0),
        MinMaxRankConfig(content_dense=0, content_sparse=0),
    ],
    ids=["rrf", "weighted", "min_max"],
)
async def test_a_ranking_that_leaves_a_collection_no_channel_is_refused_at_once(rank: BaseRankConfig) -> None:
    mind = await birds()

    with pytest.raises(StoreParameterError, match="every channel of RELATION_COLLECTION"):
        mind.memory.register_search_strategy("by name", search_relation=SearchConfig(rank_config=rank, min_score=0.0))

    mind.memory.register_search_strategy("by name", search_entity=SearchConfig(rank_config=rank, min_score=0.0))
    assert await names(mind.memory, "Heron", "by name")


@pytest.mark.filterwarnings("error")
def test_a_strategy_whose_warning_is_an_error_is_not_registered() -> None:
    memory = fake_memory()
    with pytest.raises(UserWarning, match="min_score"):
        memory.register_search_strategy("mine", search_relation=SearchConfig(min_score=0.3))

    memory.register_search_strategy("mine", search_relation=SearchConfig(min_score=0.03))


def test_settings_come_back_from_what_they_are_written_as() -> None:
    ours = [config for each in STRATEGIES.values() for config in (each.entity, each.relation, each.episode)]

    assert [SearchConfig.model_validate(each.model_dump()) for each in ours] == ours
    assert [SearchConfig.model_validate_json(each.model_dump_json()) for each in ours] == ours
    assert AddMemStrategy.model_validate(AddMemStrategy().model_dump()) == AddMemStrategy()


@pytest.mark.parametrize("rank", [{}, {"name": "best"}, {"name": ["rrf"]}], ids=str)
def test_a_ranking_of_an_unknown_name_is_refused_with_those_there_are(rank: Any) -> None:
    with pytest.raises(ValidationError, match="one of weighted, rrf, min_max"):
        SearchConfig(rank_config=rank)


def test_a_threshold_that_no_result_can_reach_is_warned_about() -> None:
    memory = fake_memory()

    with pytest.warns(UserWarning, match=r"RELATION_COLLECTION.*0\.3.*RRFRankConfig"):
        memory.register_search_strategy("hopeless", search_relation=SearchConfig(min_score=0.3))


def test_a_threshold_that_no_result_can_reach_is_warned_about_with_a_reranker_too() -> None:
    memory = fake_memory()

    with pytest.warns(UserWarning, match=r"RELATION_COLLECTION.*0\.3.*RRFRankConfig"):
        memory.register_search_strategy("hopeless", search_relation=SearchConfig(min_score=0.3, rerank=True))


def test_a_threshold_left_out_is_the_ranks_own() -> None:
    assert SearchConfig().min_score == RRFRankConfig.default_min_score == 0.02
    assert SearchConfig(rank_config=WeightedRankConfig()).min_score == WeightedRankConfig.default_min_score == 0.3
    assert SearchConfig(min_score=None, rank_config=WeightedRankConfig()).min_score == 0.3
    assert SearchConfig(min_score=0.0).min_score == 0.0


async def test_top_k_bounds_what_comes_back() -> None:
    mind = await birds()
    for size in (1, 2, 50):
        everything = SearchConfig(top_k=size, min_score=0.0)
        mind.memory.register_search_strategy("all", everything, everything, everything, force=True)

        found = await mind.memory.search("bird pond", "ann", "all")

        assert len(found[ENTITY_COLLECTION]) == min(size, 3)


@pytest.mark.parametrize("bfs_depth", [0, 2])
async def test_min_score_means_the_same_with_and_without_expansion(bfs_depth: int) -> None:
    mind = await birds()
    for least in (0.0, 0.45, 0.99):
        config = SearchConfig(
            top_k=20, min_score=least, rank_config=WeightedRankConfig(content_sparse=0), bfs_depth=bfs_depth
        )
        mind.memory.register_search_strategy("least", config, config, config, force=True)

        found = await mind.memory.search("Still water.", "ann", "least")

        assert all(score >= least for hits in found.values() for score, _ in hits)
        assert len(found[ENTITY_COLLECTION]) == {0.0: 3, 0.45: len(found[ENTITY_COLLECTION]), 0.99: 0}[least]


# --- filters and fields -----------------------------------------------------------------------------------------------


async def test_a_filter_narrows_the_results() -> None:
    mind = await birds()
    config = SearchConfig(min_score=0.0, filter_expr=in_list("name", ["Pond", "Crane"]) & gte("mention_count", 1))
    mind.memory.register_search_strategy("filtered", search_entity=config)

    assert set(await names(mind.memory, "heron", "filtered")) == {"Pond", "Crane"}


async def test_a_filter_never_opens_another_users_memories() -> None:
    mind = await birds()
    await mind.learn("The heron of ben.", types={"Heron": "Entity"}, user="ben")
    config = SearchConfig(min_score=0.0, filter_expr=eq("user_id", "ben") | eq("name", "Heron"))
    mind.memory.register_search_strategy("nosy", search_entity=config)

    found = await mind.memory.search("heron", "ann", "nosy", relation=False, episode=False)

    assert {each.user_id for _, each in found[ENTITY_COLLECTION]} == {"ann"}


async def test_a_filter_over_an_unknown_column_is_an_error_that_names_it() -> None:
    mind = await birds()
    mind.memory.register_search_strategy("wrong", search_entity=SearchConfig(filter_expr=eq("colour", "grey")))

    with pytest.raises(QueryExpressionError, match="colour"):
        await mind.memory.search("heron", "ann", "wrong")


async def test_only_the_fields_asked_for_are_read_beside_what_makes_an_object_whole() -> None:
    mind = await birds()
    config = SearchConfig(min_score=0.0, output_fields=["mention_count"], bfs_depth=1)
    mind.memory.register_search_strategy("slim", config, config, SearchConfig(output_fields=["content"]))

    found = await mind.memory.search("heron fishes at the pond", "ann", "slim")

    entity, relation = found[ENTITY_COLLECTION][0][1], found[RELATION_COLLECTION][0][1]
    assert isinstance(entity, Entity)
    assert isinstance(relation, Relation)
    assert (entity.content, entity.mention_count, entity.name != "") == ("", 1, True)
    assert (relation.content, relation.lhs != "", relation.user_id) == ("", True, "ann")
    assert found[EPISODE_COLLECTION][0][1].content != ""


async def test_a_vector_is_read_when_it_is_asked_for() -> None:
    mind = await birds()
    config = SearchConfig(min_score=0.0, output_fields=["content", "content_embedding"])
    mind.memory.register_search_strategy("vectors", search_episode=config)

    found = await mind.memory.search("heron", "ann", "vectors", entity=False, relation=False)

    assert len(found[EPISODE_COLLECTION][0][1].content_embedding or []) == 64


# --- reranking --------------------------------------------------------------------------------------------------------


async def test_a_reranker_orders_and_scores_where_a_strategy_wants_it() -> None:
    mind = await birds()
    reranker = FakeReranker()
    mind.memory.attach_reranker(reranker)
    config = SearchConfig(min_score=0.0, rerank=True, language="cn")
    mind.memory.register_search_strategy("ranked", search_entity=config)

    found = await mind.memory.search("still water", "ann", "ranked", relation=False, episode=False)

    assert [round(score, 2) for score, _ in found[ENTITY_COLLECTION]] == [1.0, 0.0, 0.0]
    assert found[ENTITY_COLLECTION][0][1].content == "Still water."
    assert (reranker.calls, reranker.languages) == (1, ["cn"])


@pytest.mark.parametrize("kind", [numpy.float32, numpy.float64, numpy.int64], ids=lambda kind: kind.__name__)
async def test_a_reranker_may_give_its_scores_as_an_array(kind: Any) -> None:
    class Model(FakeReranker):
        async def rerank(self, query: str, documents: Sequence[str], *, language: str = "en") -> Any:
            return numpy.arange(len(documents), dtype=kind)

    mind = await birds()
    mind.memory.attach_reranker(Model())
    mind.memory.register_search_strategy("ranked", search_entity=SearchConfig(min_score=0.0, rerank=True))

    found = await mind.memory.search("still water", "ann", "ranked", relation=False, episode=False)

    assert [score for score, _ in found[ENTITY_COLLECTION]] == [2.0, 1.0, 0.0]


@pytest.mark.parametrize("score", [math.nan, 10**400, True, "1", None], ids=["nan", "huge", "bool", "text", "none"])
async def test_scores_of_a_reranker_that_are_no_numbers_are_an_error_of_it(score: Any) -> None:
    class Model(FakeReranker):
        async def rerank(self, query: str, documents: Sequence[str], *, language: str = "en") -> Any:
            return [score for _ in documents]

    mind = await birds()
    mind.memory.attach_reranker(Model())
    mind.memory.register_search_strategy("ranked", search_entity=SearchConfig(min_score=0.0, rerank=True))

    with pytest.raises(RerankServiceError, match="one finite number per document"):
        await mind.memory.search("still water", "ann", "ranked")


async def test_a_reranker_reads_names_where_there_is_no_text() -> None:
    class Listening(FakeReranker):
        read: tuple[str, ...] = ()

        async def rerank(self, query: str, documents: Sequence[str], *, language: str = "en") -> list[float]:
            self.read += tuple(documents)
            return await super().rerank(query, documents, language=language)

    memory, reranker = remembering(), Listening()
    memory.attach_reranker(reranker)
    eats = Relation(user_id="ann", name="eats", lhs="x", rhs="y", qualifiers={"place": "the pond"})
    await write(memory, [Entity(user_id="ann", name="Heron"), eats])
    config = SearchConfig(rerank=True, min_score=0.0, output_fields=["created_at"])
    memory.register_search_strategy("reranked", config, config, config)

    await memory.search("heron", "ann", "reranked")

    assert sorted(reranker.read) == ["Heron", "eats (place: the pond)"]


async def test_a_reranker_is_not_asked_where_no_strategy_wants_it_or_nothing_was_found() -> None:
    reranker = FakeReranker()
    memory = fake_memory(reranker=reranker)
    memory.register_search_strategy("ranked", search_entity=SearchConfig(rerank=True))

    await memory.search("heron", "ann")
    await memory.search("heron", "ann", "ranked")

    assert reranker.calls == 0


async def test_wanting_a_reranker_without_one_is_an_error_that_says_what_to_do() -> None:
    mind = await birds()
    mind.memory.register_search_strategy("ranked", search_entity=SearchConfig(rerank=True))

    with pytest.raises(SetupError, match="attach_reranker"):
        await mind.memory.search("heron", "ann", "ranked")


def test_what_is_no_reranker_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="rerank"):
        fake_memory().attach_reranker(object())  # type: ignore[arg-type]


# --- graph expansion --------------------------------------------------------------------------------------------------


async def chain() -> Taught:
    """Return a memory in which Aster knows Birch, Birch knows Cedar and Cedar knows Dogwood, and no name is alike."""
    mind = taught()
    links = [("Aster", "Birch"), ("Birch", "Cedar"), ("Cedar", "Dogwood")]
    people = dict.fromkeys(("Aster", "Birch", "Cedar", "Dogwood"), "Human")
    about = {"Aster": "zzzz zzzz", "Birch": "qqqq qqqq", "Cedar": "jjjj jjjj", "Dogwood": "wwww wwww"}
    await mind.learn(
        "They know each other.",
        types=people,
        said=[(one, "knows", two, f"{about[one]} {about[two]}") for one, two in links],
        summaries=about,
    )
    return mind


@pytest.mark.parametrize(("depth", "expected"), [(0, "A"), (1, "AB"), (2, "ABC"), (3, "ABCD")])
async def test_each_hop_brings_in_neighbours_that_the_query_alone_does_not_find(depth: int, expected: str) -> None:
    mind = await chain()
    words = RRFRankConfig(name_dense=False, content_dense=False)
    config = SearchConfig(top_k=10, min_score=0.001, rank_config=words, bfs_depth=depth)
    mind.memory.register_search_strategy("hops", search_entity=config)

    found = await names(mind.memory, "zzzz", "hops")

    assert [name[0] for name in found] == list(expected)


async def test_a_neighbour_is_worth_half_of_what_it_was_reached_from() -> None:
    mind = await chain()
    words = RRFRankConfig(name_dense=False, content_dense=False)
    config = SearchConfig(top_k=10, min_score=0.0, rank_config=words, bfs_depth=2)
    mind.memory.register_search_strategy("hops", search_entity=config)

    found = await mind.memory.search("zzzz", "ann", "hops", relation=False, episode=False)

    first, second, third = [score for score, _ in found[ENTITY_COLLECTION]]
    assert [second, third] == pytest.approx([first / 2, first / 4])


async def test_expansion_of_relations_brings_in_facts_that_share_an_end() -> None:
    mind = await chain()
    words = RRFRankConfig(content_dense=False)
    for depth, expected in ((0, 1), (1, 2), (2, 3)):
        config = SearchConfig(top_k=10, min_score=0.001, rank_config=words, bfs_depth=depth)
        mind.memory.register_search_strategy("hops", search_relation=config, force=True)

        found = await mind.memory.search("zzzz", "ann", "hops", entity=False, episode=False)

        assert len(found[RELATION_COLLECTION]) == expected


async def test_a_neighbour_must_pass_the_threshold_and_the_filter_but_may_lead_on_without() -> None:
    mind = await chain()
    words = RRFRankConfig(name_dense=False, content_dense=False)
    shared: dict[str, Any] = {"top_k": 10, "rank_config": words, "bfs_depth": 2}
    strict = SearchConfig(min_score=0.02, **shared)
    filtered = SearchConfig(min_score=0.001, filter_expr=in_list("name", ["Aster", "Cedar"]), **shared)
    mind.memory.register_search_strategy("strict", search_entity=strict)
    mind.memory.register_search_strategy("filtered", search_entity=filtered)

    assert await names(mind.memory, "zzzz", "strict") == ["Aster"]
    assert await names(mind.memory, "zzzz", "filtered") == ["Aster", "Cedar"]


async def test_bfs_k_bounds_the_neighbours_of_a_hop() -> None:
    mind = taught()
    friends = [f"Friend{letter}" for letter in "pqrstu"]
    await mind.learn(
        "Aster has friends.",
        types=dict.fromkeys(["Aster", *friends], "Human"),
        said=[("Aster", "knows", friend, f"She knows {friend}.") for friend in friends],
        summaries={"Aster": "zzzz"},
    )
    words = RRFRankConfig(name_dense=False, content_dense=False)
    for bfs_k in (1, 4):
        config = SearchConfig(top_k=20, min_score=0.0, rank_config=words, bfs_depth=1, bfs_k=bfs_k)
        mind.memory.register_search_strategy("hops", search_entity=config, force=True)

        assert len(await names(mind.memory, "zzzz", "hops")) == 1 + bfs_k


async def test_expansion_stays_within_the_users_own_graph() -> None:
    mind = await chain()
    await mind.learn("x", types={"Aster": "Human", "Ben": "Human"}, said=[("Aster", "k", "Ben", "zzzz")], user="ben")
    config = SearchConfig(top_k=50, min_score=0.0, bfs_depth=3, bfs_k=50)
    mind.memory.register_search_strategy("hops", config, config)

    found = await mind.memory.search("zzzz", "ben", "hops")

    assert {each.user_id for hits in found.values() for _, each in hits} == {"ben"}


# --- facts over time --------------------------------------------------------------------------------------------------


async def test_facts_that_no_longer_hold_come_after_those_that_do() -> None:
    mind = taught()
    who = {"Ida": "Human", "Oslo": "Entity", "Bergen": "Entity"}
    same = {name: [name] for name in who}
    old, new = "Ida lives in Oslo now.", "Ida has moved to Bergen."
    await mind.learn(f"{old} 2019", types=who, said=[("Ida", "lives in", "Oslo", old)], since="2019")
    await mind.learn(
        f"{new} 2024",
        types=who,
        said=[("Ida", "lives in", "Bergen", new)],
        since="2024",
        same=same,
        contradicts={new: [old]},
    )

    found = await mind.memory.search(old, "ann", entity=False, episode=False)

    scores = [score for score, _ in found[RELATION_COLLECTION]]
    assert [each.content for _, each in found[RELATION_COLLECTION]] == [new, old]
    assert scores[1] >= scores[0]


async def test_facts_that_hold_are_ordered_by_score_though_one_of_them_replaced_another() -> None:
    memory = remembering()
    new = Relation(user_id="ann", content="heron and so much more that has little to do with it", lhs="x", rhs="y")
    between = Relation(user_id="ann", content="heron at a pond", lhs="x", rhs="z")
    old = Relation(user_id="ann", content="heron pond reed", lhs="x", rhs="y", superseded_by=[new.uuid])
    await write(memory, [new, between, old])
    words = RRFRankConfig(content_dense=False)
    memory.register_search_strategy("words", search_relation=SearchConfig(min_score=0.0, rank_config=words))

    found = await memory.search("heron pond reed", "ann", "words", entity=False, episode=False)

    hits = found[RELATION_COLLECTION]
    assert [each.uuid for _, each in hits] == [between.uuid, new.uuid, old.uuid]
    assert hits[0][0] > hits[1][0]
    assert hits[2][0] > hits[0][0]


# --- reading objects --------------------------------------------------------------------------------------------------


def test_a_fact_that_was_replaced_a_thousand_times_comes_after_all_that_replaced_it() -> None:
    ids = [f"status {number}" for number in range(2000)]
    chain = [Relation(uuid=one, lhs="ada", rhs="ada", superseded_by=[after]) for one, after in pairwise(ids)]
    circle = Relation(uuid=ids[-1], lhs="ada", rhs="ada", superseded_by=[ids[0]])

    ordered = successors_first([Hit(1.0, each) for each in (*chain, circle)])

    assert [hit.found.uuid for hit in ordered] == ids[::-1]


async def test_objects_are_read_by_id_in_the_order_asked_and_only_the_users_own() -> None:
    mind = await birds()
    other = await mind.learn("Heron.", types={"Heron": "Entity"}, user="ben")
    ids = [each.uuid async for each in mind.memory.objects(ENTITY_COLLECTION, "ann")]
    foreign = other.added_entity[0].uuid

    found = await mind.memory.get(ENTITY_COLLECTION, [ids[2], "gone", foreign, ids[0]], "ann")
    shared = await mind.memory.get(ENTITY_COLLECTION, [foreign, ids[0]], ["ann", "ben"])
    single = await mind.memory.get(ENTITY_COLLECTION, ids[1], "ann")

    assert [each.uuid for each in found] == [ids[2], ids[0]]
    assert [each.uuid for each in shared] == [foreign, ids[0]]
    assert [each.uuid for each in single] == [ids[1]]
    assert await mind.memory.get(ENTITY_COLLECTION, [], "ann") == []


async def test_objects_come_newest_first_over_any_number_of_pages() -> None:
    mind = taught()
    vector = [1.0] + [0.0] * 63
    stored = [
        Episode(user_id="ann", content=f"{number}", created_at=number * 7919 % 1000, content_embedding=vector)
        for number in range(450)
    ]
    await mind.memory.db_backend.upsert(EPISODE_COLLECTION, stored)

    listed = [each async for each in mind.memory.objects(EPISODE_COLLECTION, "ann")]

    assert [each.created_at for each in listed] == sorted((each.created_at for each in stored), reverse=True)
    assert {each.uuid for each in listed} == {each.uuid for each in stored}
    assert [each async for each in mind.memory.objects(EPISODE_COLLECTION, "ben")] == []


async def test_a_collection_that_does_not_exist_is_an_error() -> None:
    memory = fake_memory()

    with pytest.raises(CollectionNotSupportedError, match="ENTITY_COLLECTION"):
        await memory.get("entities", ["x"], "ann")
    with pytest.raises(CollectionNotSupportedError, match="ENTITY_COLLECTION"):
        [each async for each in memory.objects("entities", "ann")]
