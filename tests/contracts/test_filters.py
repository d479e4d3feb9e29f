"""Every store understands the same filters in the same way."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jiuwen_memory.errors import QueryExpressionError
from jiuwen_memory.foundation.store.graph import ENTITY_COLLECTION, RELATION_COLLECTION, GraphStore, SearchQuery
from jiuwen_memory.foundation.store.graph.constants import OPEN_END, UNKNOWN_START
from jiuwen_memory.foundation.store.graph.result_ranking import WeightedRankConfig
from jiuwen_memory.foundation.store.query import (
    QueryExpr,
    array_contains,
    chain_filters,
    eq,
    filter_user,
    gt,
    gte,
    in_list,
    json_value,
    lt,
    lte,
    ne,
    qualifier,
    starts_with,
)
from tests.stores import entity, relation

ANN = filter_user("ann")
ROWS = [
    entity("tea", uuid="1", mention_count=1, aliases=["chai", "o'tea"], obj_type="Drink"),
    entity("tea pot", uuid="2", mention_count=2, aliases=['"pot"']),
    entity("te%_", uuid="3", mention_count=3, obj_type="Drink"),
    entity("茶", uuid="4", mention_count=-4, aliases=["茶叶"]),
    entity("tea", uuid="9", mention_count=1, user="bob"),
]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (eq("name", "tea"), "1"),
        (ne("name", "tea"), "234"),
        (eq("mention_count", -4), "4"),
        (gt("mention_count", 1), "23"),
        (gte("mention_count", 2), "23"),
        (lt("mention_count", 1.5), "14"),
        (lte("mention_count", 1), "14"),
        (in_list("uuid", ["1", "3", "9"]), "13"),
        (in_list("mention_count", [1, 2]), "12"),
        (in_list("uuid", []), ""),
        (~in_list("uuid", []), "1234"),
        (~in_list("uuid", ["1"]), "234"),
        (starts_with("name", "tea"), "12"),
        (starts_with("name", "te%"), "3"),
        (starts_with("name", "_"), ""),
        (starts_with("name", "茶"), "4"),
        (starts_with("name", ""), "1234"),
        (~starts_with("name", "tea"), "34"),
        (array_contains("aliases", "o'tea"), "1"),
        (array_contains("aliases", '"pot"'), "2"),
        (~array_contains("aliases", "茶叶"), "123"),
        (eq("name", "tea") | eq("name", "茶"), "14"),
        (starts_with("name", "tea") & eq("obj_type", "Drink"), "1"),
        (~(eq("name", "tea") | gt("mention_count", 2)), "24"),
        (~(starts_with("name", "tea") & eq("obj_type", "Drink")) & ~eq("uuid", "4"), "23"),
        ((eq("uuid", "1") | in_list("uuid", [])) & (in_list("uuid", []) | gte("mention_count", 0)), "1"),
        (eq("uuid", "1") & in_list("uuid", []), ""),
        (chain_filters(gte("mention_count", 1), None, lte("mention_count", 2), ne("uuid", "2")), "1"),
        (eq("user_id", "bob"), ""),
        (eq("uuid", "1") | eq("user_id", "bob"), "1"),
        (~eq("user_id", "ann"), ""),
    ],
    ids=str,
)
async def test_a_filter_finds_what_it_says(store: GraphStore, expr: QueryExpr, expected: str) -> None:
    await store.upsert(ENTITY_COLLECTION, ROWS)

    found = await store.query(ENTITY_COLLECTION, user=ANN, expr=expr, consistency="strong")
    among = await store.query(
        ENTITY_COLLECTION, user=ANN, ids=list("12349"), expr=expr, output_fields=["uuid"], consistency="strong"
    )

    assert sorted(each.uuid for each in found) == list(expected)
    assert [each.uuid for each in among] == list(expected)


async def test_a_search_keeps_to_its_filter_and_its_owner(store: GraphStore) -> None:
    await store.upsert(ENTITY_COLLECTION, ROWS)
    await store.refresh()

    async def found(expr: QueryExpr | None) -> list[str]:
        hits = await store.search(
            ENTITY_COLLECTION,
            [SearchQuery("tea", ROWS[0].name_embedding)],
            user=ANN,
            rank=WeightedRankConfig(),
            limit=10,
            expr=expr,
        )
        return sorted(hit.found.uuid for hit in hits[0])

    assert await found(None) == ["1", "2", "3", "4"]
    assert await found(eq("obj_type", "Drink")) == ["1", "3"]
    assert await found(eq("uuid", "1") | eq("user_id", "bob")) == ["1"]
    assert await found(in_list("uuid", [])) == []
    assert await found(array_contains("aliases", "o'tea") | eq("uuid", "3")) == ["1", "3"]
    assert await found(array_contains("aliases", "nothing")) == []


async def test_one_range_asks_for_what_held_at_a_moment(store: GraphStore) -> None:
    await store.upsert(
        RELATION_COLLECTION,
        [
            relation("always", uuid="1"),
            relation("from 1969", uuid="2", valid_since=-1),
            relation("until 100", uuid="3", valid_until=100),
            relation("later", uuid="4", valid_since=500),
        ],
    )
    moment = lte("valid_since", 200) & gt("valid_until", 200)

    found = await store.query(RELATION_COLLECTION, user=ANN, expr=moment, consistency="strong")
    undated = await store.query(
        RELATION_COLLECTION,
        user=ANN,
        expr=eq("valid_since", UNKNOWN_START) & eq("valid_until", OPEN_END),
        consistency="strong",
    )

    assert sorted(each.uuid for each in found) == ["1", "2"]
    assert [each.uuid for each in undated] == ["1"]


QUALIFIED = [
    relation("a", uuid="1", qualifiers={"place": "Turin", "time": "2024-03-15", "sure": True}),
    relation("b", uuid="2", qualifiers={"place": 'The "Crow"', "time": "2023", "count": 3}),
    relation("c", uuid="3", qualifiers={"place": "都灵", "count": 2.5, "time": 2024, "心情": "高兴"}),
    relation("d", uuid="4", qualifiers={}),
    relation("e", uuid="9", qualifiers={"place": "Turin"}, user="bob"),
]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (qualifier("place", "Turin"), "1"),
        (qualifier("place", 'The "Crow"'), "2"),
        (qualifier("place", "都灵"), "3"),
        (qualifier("心情", "高兴"), "3"),
        (qualifier("place", "Turin", operator="!="), "23"),
        (qualifier("time", "2024-03", operator=">="), "1"),
        (qualifier("time", "2024", operator="<"), "2"),
        (qualifier("count", 2, operator=">"), "23"),
        (qualifier("count", 3), "2"),
        (qualifier("count", "3"), ""),
        (qualifier("sure", True), "1"),
        (qualifier("sure", False), ""),
        (qualifier("nothing", "x"), ""),
        (qualifier("place", "Turin") | json_value("qualifiers", "count", 3), "12"),
        (qualifier("place", "Turin") & eq("name", "knows"), "1"),
    ],
    ids=str,
)
async def test_qualifiers_can_be_filtered_by(store: GraphStore, expr: QueryExpr, expected: str) -> None:
    await store.upsert(RELATION_COLLECTION, QUALIFIED)
    await store.refresh()

    found = await store.query(RELATION_COLLECTION, user=ANN, expr=expr, consistency="strong")
    (hits,) = await store.search(
        RELATION_COLLECTION,
        [SearchQuery("a", QUALIFIED[0].content_embedding)],
        user=ANN,
        rank=WeightedRankConfig(),
        limit=10,
        expr=expr,
    )

    assert sorted(each.uuid for each in found) == list(expected)
    assert sorted(hit.found.uuid for hit in hits) == list(expected)


@pytest.mark.parametrize(
    ("expr", "told"),
    [
        (json_value("name", "x", "y"), "no JSON column"),
        (qualifier('x"] or qualifiers["y', "y"), "cannot be a key"),
        (qualifier("", "y"), "cannot be a key"),
        (qualifier("x", float("nan")), "cannot be compared"),
        (qualifier("x", True, operator=">"), "has no order"),
        (qualifier("x", "\ud800"), "lone surrogate"),
        (~qualifier("x", "y"), "cannot be negated"),
        (~(eq("name", "x") | qualifier("x", "y")), "cannot be negated"),
    ],
    ids=str,
)
async def test_a_filter_on_qualifiers_that_cannot_be_meant_is_refused(
    store: GraphStore, expr: QueryExpr, told: str
) -> None:
    with pytest.raises(QueryExpressionError, match=told):
        await store.query(RELATION_COLLECTION, user=ANN, expr=expr)


async def test_several_owners_may_be_asked_at_once(store: GraphStore) -> None:
    await store.upsert(ENTITY_COLLECTION, ROWS)

    found = await store.query(ENTITY_COLLECTION, user=filter_user(["ann", "bob"]), consistency="strong")

    assert len(found) == 5


async def test_hundreds_of_joined_conditions_are_understood(store: GraphStore) -> None:
    await store.upsert(ENTITY_COLLECTION, ROWS)
    parts: Sequence[QueryExpr] = [ne("name", f"nobody {n}") for n in range(200)]

    found = await store.query(ENTITY_COLLECTION, user=ANN, expr=chain_filters(*parts), consistency="strong")

    assert len(found) == 4


@pytest.mark.parametrize(
    ("expr", "told"),
    [
        (eq("nmae", "x"), "nmae"),
        (~(eq("name", "x") | gt("metadata", 1)), "metadata"),
        (eq("content_embedding", 1), "content_embedding"),
        (eq("content_bm25", 1), "content_bm25"),
        (eq("name", 1), "name holds texts"),
        (eq("mention_count", "1"), "mention_count holds numbers"),
        (eq("mention_count", True), "mention_count holds numbers"),
        (lte("mention_count", float("inf")), "mention_count holds numbers"),
        (gte("mention_count", 2**63), "mention_count holds numbers"),
        (gte("mention_count", -(2**63) - 1), "mention_count holds numbers"),
        (lte("mention_count", 10**310), "mention_count holds numbers"),
        (eq("aliases", "x"), "aliases"),
        (array_contains("name", "x"), "name is not a list"),
        (eq("name", "\ud800"), "lone surrogate"),
        (starts_with("mention_count", "1"), "mention_count holds numbers"),
    ],
    ids=str,
)
async def test_a_filter_that_cannot_be_meant_is_refused(store: GraphStore, expr: QueryExpr, told: str) -> None:
    with pytest.raises(QueryExpressionError, match=told):
        await store.query(ENTITY_COLLECTION, user=ANN, expr=expr)
    with pytest.raises(QueryExpressionError, match=told):
        await store.search(
            ENTITY_COLLECTION, [SearchQuery("x")], user=ANN, rank=WeightedRankConfig(), limit=1, expr=expr
        )
