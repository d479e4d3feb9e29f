"""The small parts of the graph stores: columns, literals of filters, the register, the strict store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jiuwen_memory.errors import (
    BackendExistsError,
    BackendNameError,
    BackendNotFoundError,
    CollectionNotSupportedError,
    FactoryNotInstantiableError,
    SchemaMismatchError,
    StoreParameterError,
    StoreProtocolError,
)
from jiuwen_memory.foundation.store.graph import (
    ENTITY_COLLECTION,
    GraphConfig,
    GraphStore,
    GraphStoreFactory,
    InMemoryGraphStore,
    Journal,
    MilvusGraphStore,
    SearchQuery,
)
from jiuwen_memory.foundation.store.graph.columns import PAYLOAD_LIMIT, collection_columns
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS, VARCHAR_LIMIT
from jiuwen_memory.foundation.store.graph.graph_object import OBJECT_TYPES
from jiuwen_memory.foundation.store.graph.journal_rows import cut_payload
from jiuwen_memory.foundation.store.graph.milvus.connection import is_server
from jiuwen_memory.foundation.store.graph.milvus.filters import quote, render
from jiuwen_memory.foundation.store.graph.result_ranking import RRFRankConfig, WeightedRankConfig
from jiuwen_memory.foundation.store.query import eq, filter_user, gt, in_list, starts_with
from jiuwen_memory.testing.strict import StrictStore
from tests.stores import DIM, entity, episode, relation, vector

ANN = filter_user("ann")
SAMPLES = (entity("a"), relation("a"), episode("a"))


@pytest.fixture
def register() -> Iterator[type[GraphStoreFactory]]:
    before = dict(GraphStoreFactory._backends)
    yield GraphStoreFactory
    GraphStoreFactory._backends.clear()
    GraphStoreFactory._backends.update(before)


def memory_config(uri: str = ":memory:", **changes: Any) -> GraphConfig:
    return GraphConfig(**{"uri": uri, "backend": "memory", "embed_dim": DIM, **changes})


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_columns_and_rows_agree(sample: Any) -> None:
    columns = collection_columns(sample.collection, memory_config())

    assert set(sample.to_row()) == set(columns) - {"content_bm25"}


def test_every_collection_starts_with_its_key_and_keeps_within_a_servers_limits() -> None:
    for collection in GRAPH_COLLECTIONS:
        columns = collection_columns(collection, memory_config())
        vectors = [column for column in columns.values() if column.kind in ("dense", "sparse")]
        texts = [column for column in columns.values() if column.kind in ("text", "array")]

        assert next(iter(columns)) == "uuid"
        assert len(vectors) <= 4
        assert all(0 < column.limit <= VARCHAR_LIMIT for column in texts)
        assert set(columns) - set(OBJECT_TYPES[collection].model_fields) <= {"search_text", "name_norm", "content_bm25"}
    with pytest.raises(CollectionNotSupportedError, match="ELSE"):
        collection_columns("ELSE", memory_config())


def test_a_user_id_of_wide_characters_fits_its_column() -> None:
    column = collection_columns(ENTITY_COLLECTION, memory_config())["user_id"]

    assert (column.characters, column.limit) == (32, 128)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a", '"a"'),
        ('"', '"\\""'),
        ("\\", '"\\\\"'),
        ('\\"', '"\\\\\\""'),
        ("a\nb\rc\td", '"a\\nb\\rc\\td"'),
        ("'张", '"\'张"'),
    ],
)
def test_a_literal_cannot_end_early(text: str, written: str) -> None:
    assert quote(text) == written


def test_a_filter_is_written_in_lower_case_with_the_parts_kept_together() -> None:
    written = render((eq("name", "a") | gt("mention_count", 1)) & ~in_list("uuid", ["x", "y"]))

    assert written == '(name == "a" or mention_count > 1) and not (uuid in ["x", "y"])'


@pytest.mark.parametrize(
    ("prefix", "written"),
    [
        ("ab", 'name >= "ab" and name < "ac"'),
        ("a!", 'name >= "a!" and name < "a\\""'),
        ("\U0010ffff", 'name >= "\U0010ffff"'),
        ("\ud7ff", 'name >= "\ud7ff" and name < "\ue000"'),
        ("", 'name >= ""'),
    ],
)
def test_a_prefix_is_a_range(prefix: str, written: str) -> None:
    assert render(starts_with("name", prefix)) == written


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400), st.integers(4, 50))
def test_pieces_of_a_plan_add_up_and_fit(payload: str, limit: int) -> None:
    pieces = cut_payload(payload, limit)

    assert "".join(pieces) == payload
    assert all(0 < len(piece.encode()) <= limit for piece in pieces)
    assert PAYLOAD_LIMIT < VARCHAR_LIMIT


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("http://h:1", True),
        ("HTTPS://h", True),
        ("tcp://h:1", True),
        ("unix:/run/milvus.sock", True),
        ("./a.db", False),
        ("/a/b", False),
        ("http", False),
    ],
)
def test_a_server_is_told_from_a_path(uri: str, expected: bool) -> None:
    assert is_server(uri) is expected


def test_the_factory_builds_what_the_configuration_names(tmp_path: Path) -> None:
    milvus = GraphStoreFactory.from_config(GraphConfig(uri=str(tmp_path / "x.db")))
    memory = GraphStoreFactory.from_config(GraphConfig(uri="x"), "memory")

    assert isinstance(milvus, MilvusGraphStore)
    assert isinstance(memory, InMemoryGraphStore)
    assert not (tmp_path / "x.db").exists()


def test_arguments_for_the_client_join_the_extras() -> None:
    store = GraphStoreFactory.from_config(GraphConfig(uri="x.db", extras={"alias": "a"}), db_option=1)

    assert store.config.extras == {"alias": "a", "db_option": 1}


def test_the_factory_refuses_names_it_does_not_know_or_has_already(register: type[GraphStoreFactory]) -> None:
    with pytest.raises(BackendNotFoundError, match=r"'neo4j'; there are .*memory, milvus"):
        register.from_config(GraphConfig(uri="x", backend="neo4j"))
    with pytest.raises(BackendExistsError, match="force=True"):
        register.register_backend("milvus", InMemoryGraphStore)
    for name in ("", "  ", 3):
        with pytest.raises(BackendNameError, match="non-empty string"):
            register.register_backend(name, InMemoryGraphStore)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(FactoryNotInstantiableError, match="class methods"):
        register()


def test_a_registered_backend_is_built_and_may_be_replaced(register: type[GraphStoreFactory]) -> None:
    register.register_backend("mine", MilvusGraphStore)
    register.register_backend("mine", InMemoryGraphStore, force=True)

    assert isinstance(register.from_config(GraphConfig(uri="x", backend="mine")), InMemoryGraphStore)


def test_a_class_that_is_no_store_is_refused_with_what_it_lacks(register: type[GraphStoreFactory]) -> None:
    class Half:
        config: GraphConfig

        async def query(self) -> None:
            """Do nothing."""

    with pytest.raises(StoreProtocolError, match=r"Half lacks from_config, .*search, .*journal of the GraphStore"):
        register.register_backend("half", Half)
    with pytest.raises(StoreProtocolError, match="by its class"):
        register.register_backend("none", "text")  # type: ignore[arg-type]  # that is the point


def test_a_store_built_without_its_journal_is_refused(register: type[GraphStoreFactory]) -> None:
    class Forgetful(InMemoryGraphStore):
        journal: Journal

        def __init__(self, config: GraphConfig) -> None:
            super().__init__(config)
            del self.journal

    register.register_backend("forgetful", Forgetful)

    with pytest.raises(StoreProtocolError, match="Forgetful lacks journal"):
        register.from_config(GraphConfig(uri="x", backend="forgetful"))


async def test_private_memory_is_shared_with_nobody() -> None:
    first, second = InMemoryGraphStore(memory_config()), InMemoryGraphStore(memory_config())

    await first.upsert(ENTITY_COLLECTION, [entity("a")])

    assert await second.count(ENTITY_COLLECTION, user=ANN) == 0
    assert first.identity != second.identity


async def test_memory_of_one_name_refuses_another_dimension() -> None:
    await InMemoryGraphStore(memory_config("one-name")).open()

    with pytest.raises(SchemaMismatchError, match=r"dimension 32 .* dimension 64"):
        await InMemoryGraphStore(memory_config("one-name", embed_dim=64)).open()


def strict(delay: int = 2) -> StrictStore:
    return StrictStore.from_config(memory_config(), inner="memory", delay=delay)


async def listed(store: GraphStore, **changes: Any) -> list[str]:
    found = await store.query(ENTITY_COLLECTION, user=ANN, **changes)
    return sorted(each.model_dump()["name"] for each in found)


async def test_a_strict_store_shows_a_write_after_a_flush_or_to_a_strong_read() -> None:
    store = strict()
    await store.upsert(ENTITY_COLLECTION, [entity("a", uuid="1")])

    assert await listed(store, consistency="strong") == ["a"]
    assert await listed(store) == []
    assert await listed(store, ids=["1"]) == []
    await store.upsert(ENTITY_COLLECTION, [entity("b", uuid="2")])
    await store.refresh()
    assert await listed(store) == ["a", "b"]


async def test_a_strict_store_shows_the_row_before_a_change_for_a_few_reads() -> None:
    store = strict(delay=1)
    await store.upsert(ENTITY_COLLECTION, [entity("old", uuid="1"), entity("gone", uuid="2")])
    await store.refresh()

    await store.upsert(ENTITY_COLLECTION, [entity("new", uuid="1")])
    await store.delete(ENTITY_COLLECTION, ["2"], user_id="ann")

    assert await listed(store) == ["gone", "old"]
    assert await listed(store) == ["new"]


async def test_a_strict_search_finds_new_rows_later_and_old_content_meanwhile() -> None:
    store = strict(delay=1)
    query = [SearchQuery("", vector("old"))]
    rank = WeightedRankConfig()
    await store.upsert(ENTITY_COLLECTION, [entity("old", uuid="1")])
    first = await store.search(ENTITY_COLLECTION, query, user=ANN, rank=rank, limit=5)
    second = await store.search(ENTITY_COLLECTION, query, user=ANN, rank=rank, limit=5)
    await store.upsert(ENTITY_COLLECTION, [entity("new", uuid="1")])
    third = await store.search(ENTITY_COLLECTION, query, user=ANN, rank=rank, limit=5)

    assert first == [[]]
    assert [hit.found.uuid for hit in second[0]] == ["1"]
    assert [hit.found.model_dump()["name"] for hit in third[0]] == ["old"]


async def test_a_strict_store_refuses_what_a_server_refuses() -> None:
    store = strict()
    same = entity("a", uuid="1")

    with pytest.raises(StoreParameterError, match="several rows of the id '1'"):
        await store.upsert(ENTITY_COLLECTION, [same, same])
    with pytest.raises(StoreParameterError, match="limit is 16385"):
        await store.query(ENTITY_COLLECTION, user=ANN, limit=16_385)
    with pytest.raises(StoreParameterError, match="pool is 20000"):
        await store.search(ENTITY_COLLECTION, [SearchQuery("a")], user=ANN, rank=RRFRankConfig(), limit=1, pool=20_000)
