"""Every store keeps whole rows and gives them back to their owner only."""

from __future__ import annotations

import pytest

from jiuwen_memory.errors import CollectionNotSupportedError, QueryExpressionError, StoreParameterError
from jiuwen_memory.foundation.store.graph import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    BaseGraphObject,
    Entity,
    Episode,
    GraphStore,
    Relation,
)
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS
from jiuwen_memory.foundation.store.query import eq, filter_user, in_list, lte
from tests.stores import DIM, Backend, entity, episode, relation, vector

ANN = filter_user("ann")
BOB = filter_user("bob")

HOSTILE = [
    "o'brien",
    'say "hi"',
    "back\\slash",
    'trail\\"',
    "line\nbreak\r\ttab",
    '" or user_id != "',
    "') or 1==1 --",
    "张三🙂",
    "{name} %s $1",
    "null",
    "a%_b",
    "x\u200by",
]

FULL_ENTITY = entity(
    "Ann 安",
    uuid="e" * 32,
    obj_type="Human",
    language="en",
    created_at=1_700_000_000,
    content="Ann likes tea. 安喜欢茶。",
    embedding_key="k" * 64,
    metadata={"a": [1, {"b": None}], "c": "d'\""},
    extra={"later": True},
    aliases=["Annie", "安安"],
    attributes={"age": 30, "tags": ["x"], "none": None, "half": 0.5},
    relations=["r1", "r2"],
    episodes=["p1"],
    sources=["chat", "mail\n2"],
    mention_count=3,
    first_mentioned_at=-5_000_000_000,
    last_mentioned_at=1_700_000_001,
    merged_from=["x" * 32, {"uuid": "y"}],
)
FULL_RELATION = relation(
    "Ann works at Huawei",
    lhs="e" * 32,
    rhs="f" * 32,
    uuid="r" * 32,
    obj_type="Employment",
    language="en",
    created_at=1_700_000_000,
    embedding_key="k",
    metadata={"m": 1},
    extra={"x": {}},
    kind="causes",
    ends="relation",
    lhs_origin="a",
    rhs_origin="b",
    valid_since=-1,
    offset_since=480,
    precision_since="day",
    valid_until=1_800_000_000,
    offset_until=-330,
    precision_until="year",
    stated_until=1_800_000_000,
    stated_offset=60,
    stated_precision="month",
    expired_at=1_900_000_000,
    superseded_by=["s1", "s2"],
    qualifiers={"role": "engineer"},
    episodes=["p1", "p2"],
    sources=["s"],
    mention_count=2,
    first_mentioned_at=1,
    last_mentioned_at=2,
)
FULL_EPISODE = episode(
    "Ann: hello\n安：你好",
    uuid="p" * 32,
    obj_type="CONVERSATION",
    language="en",
    created_at=1_700_000_000,
    embedding_key="k",
    metadata={"m": []},
    extra={"x": 1},
    valid_since=253_402_300_799,
    offset_since=-60,
    entities=["e1", "e2"],
    session_id="session 1",
    source="mail",
    speakers=["Ann", "安"],
    content_hash="h" * 64,
    idempotency_key="key/1",
    group="g",
    parents=["q1"],
    part=2,
    parts=3,
)


def without_vectors(found: BaseGraphObject) -> BaseGraphObject:
    return found.revise(**dict.fromkeys(found.vectors))


@pytest.mark.parametrize("whole", [FULL_ENTITY, FULL_RELATION, FULL_EPISODE], ids=lambda whole: type(whole).__name__)
async def test_every_column_comes_back_as_it_was_written(store: GraphStore, whole: BaseGraphObject) -> None:
    await store.upsert(whole.collection, [whole])

    plain = await store.query(whole.collection, user=ANN, consistency="strong")
    vectors = await store.query(whole.collection, user=ANN, output_fields=list(whole.vectors), consistency="strong")

    assert plain == [without_vectors(whole)]
    for column in whole.vectors:
        assert getattr(vectors[0], column) == pytest.approx(getattr(whole, column), abs=1e-6)


async def test_unknown_times_come_back_as_none(store: GraphStore) -> None:
    await store.upsert(RELATION_COLLECTION, [relation("undated")])
    await store.upsert(EPISODE_COLLECTION, [episode("undated")])

    found = await store.query(RELATION_COLLECTION, user=ANN, consistency="strong")
    heard = await store.query(EPISODE_COLLECTION, user=ANN, consistency="strong")

    assert isinstance(found[0], Relation)
    times = (found[0].valid_since, found[0].valid_until, found[0].stated_until, found[0].expired_at)
    assert times == (None, None, None, None)
    assert isinstance(heard[0], Episode)
    assert heard[0].valid_since is None


async def test_what_the_caller_does_to_an_object_does_not_reach_the_store(store: GraphStore) -> None:
    written = entity("Ann", attributes={"list": [1]}, aliases=["A"])
    await store.upsert(ENTITY_COLLECTION, [written])

    written.attributes["list"] = "changed"
    first = await store.query(ENTITY_COLLECTION, user=ANN, consistency="strong")
    assert isinstance(first[0], Entity)
    first[0].aliases.append("B")
    first[0].attributes["list"] = None
    second = await store.query(ENTITY_COLLECTION, user=ANN, consistency="strong")

    assert isinstance(second[0], Entity)
    assert second[0].attributes == {"list": [1]}
    assert second[0].aliases == ["A"]


async def test_hostile_names_are_stored_and_found(store: GraphStore) -> None:
    await store.upsert(ENTITY_COLLECTION, [entity(name, uuid=f"u{n}") for n, name in enumerate(HOSTILE)])

    for name in HOSTILE:
        alone = await store.query(ENTITY_COLLECTION, user=ANN, expr=eq("name", name), consistency="strong")
        assert [each.model_dump()["name"] for each in alone] == [name]
    together = await store.query(ENTITY_COLLECTION, user=ANN, expr=in_list("name", HOSTILE), consistency="strong")
    assert len(together) == len(HOSTILE)


async def test_hostile_user_ids_see_their_own_rows_only(store: GraphStore) -> None:
    await store.upsert(ENTITY_COLLECTION, [entity("same", uuid=f"u{n}", user=user) for n, user in enumerate(HOSTILE)])

    for number, user in enumerate(HOSTILE):
        found = await store.query(ENTITY_COLLECTION, user=filter_user(user), consistency="strong")
        assert [each.uuid for each in found] == [f"u{number}"]
        assert await store.count(ENTITY_COLLECTION, user=filter_user(user)) == 1


async def test_ids_of_another_user_are_neither_read_nor_deleted(store: GraphStore) -> None:
    await store.upsert(ENTITY_COLLECTION, [entity("a", uuid="1"), entity("b", uuid="2", user="bob")])

    read = await store.query(ENTITY_COLLECTION, user=ANN, ids=["2", "1"], consistency="strong")
    await store.delete(ENTITY_COLLECTION, ["1", "2"], user_id="ann")
    left = await store.query(ENTITY_COLLECTION, user=filter_user(["ann", "bob"]), consistency="strong")

    assert [each.uuid for each in read] == ["1"]
    assert [each.uuid for each in left] == ["2"]


async def test_ids_decide_the_order_and_repeated_or_unknown_ones_do_no_harm(store: GraphStore) -> None:
    await store.upsert(ENTITY_COLLECTION, [entity(str(n), uuid=str(n), mention_count=n) for n in range(1200)])
    await store.refresh()
    ids = [str(n) for n in range(1100, 0, -1)]

    found = await store.query(ENTITY_COLLECTION, user=ANN, ids=["nobody", *ids, *ids])
    few = await store.query(ENTITY_COLLECTION, user=ANN, ids=ids, expr=lte("mention_count", 500), limit=2)
    everything = await store.query(ENTITY_COLLECTION, user=ANN)

    assert [each.uuid for each in found] == ids
    assert [each.uuid for each in few] == ["500", "499"]
    assert len(everything) == 1200


async def test_an_empty_list_of_ids_finds_nothing(store: GraphStore) -> None:
    await store.upsert(ENTITY_COLLECTION, [entity("a")])

    assert await store.query(ENTITY_COLLECTION, user=ANN, ids=[], consistency="strong") == []


async def test_an_upsert_replaces_the_whole_row(store: GraphStore) -> None:
    await store.upsert(ENTITY_COLLECTION, [entity("old", uuid="1", aliases=["x"], content="tea")])

    await store.upsert(ENTITY_COLLECTION, [entity("new", uuid="1")])

    found = await store.query(ENTITY_COLLECTION, user=ANN, consistency="strong")
    assert [(each.model_dump()["name"], each.model_dump()["aliases"], each.content) for each in found] == [
        ("new", [], "")
    ]
    assert await store.count(ENTITY_COLLECTION, user=ANN) == 1


async def test_deleting_what_is_not_there_is_no_error(store: GraphStore) -> None:
    await store.upsert(ENTITY_COLLECTION, [entity("a", uuid="1")])

    await store.delete(ENTITY_COLLECTION, ["2"], user_id="ann")
    await store.delete(ENTITY_COLLECTION, [], user_id="ann")
    await store.delete(ENTITY_COLLECTION, ["1", "1"], user_id="ann")

    assert await store.query(ENTITY_COLLECTION, user=ANN, consistency="strong") == []


async def test_only_named_columns_are_read_but_an_object_stays_itself(store: GraphStore) -> None:
    await store.upsert(RELATION_COLLECTION, [FULL_RELATION])

    found = await store.query(RELATION_COLLECTION, user=ANN, output_fields=["episodes"], consistency="strong")

    assert isinstance(found[0], Relation)
    assert found[0].episodes == ["p1", "p2"]
    assert (found[0].uuid, found[0].lhs, found[0].rhs) == (FULL_RELATION.uuid, FULL_RELATION.lhs, FULL_RELATION.rhs)
    assert (found[0].obj_type, found[0].created_at, found[0].kind) == ("Employment", 1_700_000_000, "causes")
    assert (found[0].content, found[0].qualifiers, found[0].content_embedding) == ("", {}, None)


async def test_a_limit_bounds_the_rows(store: GraphStore) -> None:
    await store.upsert(ENTITY_COLLECTION, [entity(str(n)) for n in range(5)])
    await store.refresh()

    assert len(await store.query(ENTITY_COLLECTION, user=ANN, limit=2)) == 2
    assert await store.query(ENTITY_COLLECTION, user=ANN, limit=0) == []
    with pytest.raises(StoreParameterError, match="limit is -1"):
        await store.query(ENTITY_COLLECTION, user=ANN, limit=-1)


def nested(depth: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "字" * 167}, r"ENTITY_COLLECTION.name .* 501 UTF-8 bytes, the limit is 500"),
        ({"user_id": "u" * 33}, r"user_id .* 33 characters, the limit is 32"),
        ({"obj_type": "x" * 21}, r"obj_type .* 21 UTF-8 bytes, the limit is 20"),
        ({"content": "字" * 21_846}, r"content .* 65538 UTF-8 bytes"),
        ({"relations": ["r"] * 4_097}, r"relations .* 4097 elements, the limit is 4096"),
        ({"relations": ["r" * 33]}, r"element of .*relations .* 33 UTF-8 bytes, the limit is 32"),
        ({"attributes": {"a": "x" * 70_000}}, r"attributes .* UTF-8 bytes, the limit is 65536"),
        ({"attributes": {"a": float("nan")}}, r"attributes .* not JSON compliant"),
        ({"attributes": {"a": [{"b": 2**63}]}}, r"attributes .* 64 bits"),
        ({"attributes": {"a": -(2**63) - 1}}, r"attributes .* 64 bits"),
        ({"attributes": nested(101)}, r"attributes .* nested more than 100 deep"),
        ({"content_embedding": [0.0] * (DIM + 1)}, r"content_embedding .* 33 values, the store holds vectors of 32"),
        ({"name_embedding": [float("nan")] * DIM}, r"name_embedding .* not a finite number"),
        ({"name_embedding": None}, r"name_embedding .* is missing"),
        ({"name": "\ud800"}, r"name .* lone surrogate"),
        ({"mention_count": 2**63}, r"mention_count .* 64 bits"),
    ],
)
async def test_a_row_that_does_not_fit_is_refused_whole(
    store: GraphStore, changes: dict[str, object], told: str
) -> None:
    good, bad = entity("good"), entity("bad").revise(**changes)

    with pytest.raises(StoreParameterError, match=told):
        await store.upsert(ENTITY_COLLECTION, [good, bad])

    assert await store.count(ENTITY_COLLECTION, user=ANN) == 0


async def test_json_as_large_and_deep_as_allowed_is_kept(store: GraphStore) -> None:
    numbers = {"most": 2**63 - 1, "least": -(2**63), "digits": "9" * 30, "parts": [[]] * 200}
    kept = entity("a").revise(attributes={**numbers, "deep": nested(98)})

    await store.upsert(ENTITY_COLLECTION, [kept])

    assert await store.query(ENTITY_COLLECTION, user=ANN, consistency="strong") == [without_vectors(kept)]


async def test_texts_as_long_as_allowed_are_kept(store: GraphStore) -> None:
    user = "🙂" * 32
    long = entity("字" * 166, user=user, content="字" * 21_845, content_embedding=vector(1), sources=["源" * 170])
    long = long.revise(content="字" * 3_000)

    await store.upsert(ENTITY_COLLECTION, [long])

    found = await store.query(ENTITY_COLLECTION, user=filter_user(user), consistency="strong")
    assert found == [without_vectors(long)]


async def test_objects_of_another_kind_and_unknown_collections_are_refused(store: GraphStore) -> None:
    with pytest.raises(StoreParameterError, match="holds Relation objects, not Entity"):
        await store.upsert(RELATION_COLLECTION, [entity("a")])
    with pytest.raises(CollectionNotSupportedError, match="NOTHING"):
        await store.upsert("NOTHING", [])
    with pytest.raises(CollectionNotSupportedError, match="JOURNAL_COLLECTION"):
        await store.query("JOURNAL_COLLECTION", user=ANN)


async def test_reading_without_an_owner_is_refused(store: GraphStore) -> None:
    with pytest.raises(QueryExpressionError, match="filter_user"):
        await store.query(ENTITY_COLLECTION, user=eq("name", "x"))
    with pytest.raises(QueryExpressionError, match="filter_user"):
        await store.query(ENTITY_COLLECTION, user=~in_list("user_id", []))


async def test_unknown_columns_to_read_are_refused(store: GraphStore) -> None:
    for name in ("nmae", "content_bm25"):
        with pytest.raises(QueryExpressionError, match=name):
            await store.query(ENTITY_COLLECTION, user=ANN, output_fields=[name])


async def test_every_collection_is_counted_by_owner(store: GraphStore) -> None:
    await store.upsert(ENTITY_COLLECTION, [entity("a"), entity("b"), entity("c", user="bob")])

    counts = [await store.count(collection, user=ANN) for collection in GRAPH_COLLECTIONS]

    assert counts == [2, 0, 0]
    assert await store.count(ENTITY_COLLECTION, user=BOB) == 1


async def test_writing_nothing_is_fine(store: GraphStore, backend: Backend) -> None:
    await store.upsert(ENTITY_COLLECTION, [])
    await store.refresh()
    await store.refresh()

    assert await backend.make().count(ENTITY_COLLECTION, user=ANN) == 0
