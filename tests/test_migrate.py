"""Bringing an older or otherwise built store to today's schema: what stays, what is refused, and being stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    GraphStoreIndexConfig,
    MigrationProgress,
)
from jiuwen_memory.errors import (
    EmbedderNotFoundError,
    EmbeddingCallError,
    InvalidInputError,
    LLMCallError,
    SchemaMismatchError,
    StoreError,
)
from jiuwen_memory.foundation.store.graph.columns import collection_columns
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS, JOURNAL_COLLECTION
from jiuwen_memory.foundation.store.graph.milvus.connection import MilvusConnection
from jiuwen_memory.foundation.store.graph.milvus.schema import build_schema, index_settings
from jiuwen_memory.testing import FakeEmbedder, fake_memory
from tests.killing import kill_midway
from tests.memory_support import taught

LATER = {
    ENTITY_COLLECTION: {"merged_from", "sources", "first_mentioned_at", "last_mentioned_at", "extra"},
    RELATION_COLLECTION: {"qualifiers", "ends", "lhs_origin", "rhs_origin", "stated_until", "sources", "extra"},
    EPISODE_COLLECTION: {"group", "parents", "idempotency_key", "part", "parts", "extra"},
    JOURNAL_COLLECTION: {"created_at"},
}
"""Columns that a first release, as it might have been, did not have."""
ROWS = {ENTITY_COLLECTION: 4, RELATION_COLLECTION: 2, EPISODE_COLLECTION: 3}


class StoppedError(Exception):
    """The caller has had enough."""


def settings(path: Path, **changes: Any) -> GraphConfig:
    """Return the settings of the store at a path."""
    return GraphConfig(**{"uri": str(path / "memory.db"), "embed_dim": 64, **changes})


async def filled(path: Path) -> None:
    """Make a store of today with two users, and an add that waits."""
    world = taught(config=settings(path, request_max_retries=1))
    for user in ("ann", "bob"):
        await world.learn(
            "Tom lives in Oslo.",
            types={"Tom": "Human", "Oslo": "Entity"},
            said=[("Tom", "lives in", "Oslo", "Tom lives in Oslo.", "2020")],
            user=user,
        )
    await world.learn("It rained.", user="bob")
    world.llm.replies["EntityExtraction"] = ValueError("down")
    with pytest.raises(LLMCallError):
        await world.memory.add_memory(EpisodeType.DOCUMENT, "ann", "Tom sings.")
    await world.memory.close()


async def aged(path: Path) -> None:
    """Make a store as a first release would have: with the same rows, and without the columns that came later."""
    await filled(path)
    config = settings(path)
    connection = MilvusConnection(config, prepare=lambda client, lite: None)
    await connection.write("Making an old store", lambda client: make_old(client, config))
    await connection.close()


def make_old(client: Any, config: GraphConfig) -> None:
    """Put collections with fewer columns in the place of today's."""
    for collection, later in LATER.items():
        columns = {each: column for each, column in collection_columns(collection, config).items() if each not in later}
        names = [name for name, column in columns.items() if column.kind != "sparse"]
        key = next(iter(columns))
        client.load_collection(collection)
        rows = client.query(collection, filter=f'{key} != ""', output_fields=names)
        client.drop_collection(collection)
        client.create_collection(collection, schema=build_schema(columns, config=config, partitioned=False))
        parameters = client.prepare_index_params()
        for name, setting in index_settings(collection, columns, config=config, lite=True).items():
            parameters.add_index(field_name=name, index_name=name, **setting)
        client.create_index(collection, parameters, sync=False)
        client.load_collection(collection)
        client.upsert(collection, [{name: row[name] for name in names} for row in rows])
        client.flush(collection)


async def listed(config: GraphConfig) -> list[str]:
    """Return the names of the collections that are there."""
    connection = MilvusConnection(config, prepare=lambda client, lite: None)
    names: list[str] = await connection.read("Listing", lambda client: client.list_collections())
    await connection.close()
    return sorted(names)


async def held(memory: GraphMemory) -> dict[str, Any]:
    """Return all that is stored, by id, but what was in columns that an old store lacks."""
    lacking = set().union(*LATER.values()) | {"created_at", "embedding_key"}
    return {
        each.uuid: each.model_dump(exclude=lacking)
        for user in ("ann", "bob")
        for name in GRAPH_COLLECTIONS
        async for each in memory.objects(name, user)
    }


async def test_an_old_store_is_refused_by_name_and_brought_to_todays_schema(tmp_path: Path) -> None:
    (tmp_path / "today").mkdir()
    await filled(tmp_path / "today")
    await aged(tmp_path)
    heard: list[MigrationProgress] = []
    async with aclosing(fake_memory(config=settings(tmp_path))) as memory:
        with pytest.raises(SchemaMismatchError, match=r"merged_from is missing in the store.*migrate\(\)"):
            await memory.search("Tom", "ann")

        report = await memory.migrate(heard.append)

        assert {name: report.rows[name] for name in GRAPH_COLLECTIONS} == ROWS
        assert report.rows[JOURNAL_COLLECTION] == 2
        assert (report.copied, report.embedded) == (11, 0)
        assert "group is missing in the store" in report.differences[EPISODE_COLLECTION]
        assert heard[0] == MigrationProgress(ENTITY_COLLECTION, 4, 4, 4, 0)
        assert [each.text for each in await memory.pending("ann")] == ["Tom sings."]
        found = await memory.search("Where does Tom live?", "ann", entity=False, episode=False)
        assert [each.content for _, each in found[RELATION_COLLECTION]] == ["Tom lives in Oslo."]
        (fact,) = [each for _, each in found[RELATION_COLLECTION]]
        assert fact.model_dump()["precision_since"] == "year"
    assert await listed(settings(tmp_path)) == sorted([*GRAPH_COLLECTIONS, JOURNAL_COLLECTION])


async def test_ids_and_all_that_was_there_are_the_same_afterwards(tmp_path: Path) -> None:
    await filled(tmp_path)
    async with aclosing(fake_memory(config=settings(tmp_path))) as before:
        rows = await held(before)
    config = settings(tmp_path)
    connection = MilvusConnection(config, prepare=lambda client, lite: None)
    await connection.write("Making an old store", lambda client: make_old(client, config))
    await connection.close()

    async with aclosing(fake_memory(config=config)) as memory:
        await memory.migrate()

        assert await held(memory) == rows
        assert len(rows) == 9


async def test_another_dimension_takes_the_attached_embedder(tmp_path: Path) -> None:
    await filled(tmp_path)
    async with aclosing(fake_memory(config=settings(tmp_path))) as before:
        rows = await held(before)
    wider = settings(tmp_path, embed_dim=96)

    async with aclosing(fake_memory(config=wider)) as memory:
        report = await memory.migrate()

        assert sorted(report.rows) == sorted(GRAPH_COLLECTIONS)
        assert (report.copied, report.embedded) == (9, 9)
        assert await held(memory) == rows
        assert (await memory.check()).is_clean


async def test_without_an_embedder_another_dimension_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    await filled(tmp_path)
    bare = GraphMemory(settings(tmp_path, embed_dim=96), language="en")

    with pytest.raises(EmbedderNotFoundError):
        await bare.migrate()
    await bare.close()

    async with aclosing(fake_memory(config=settings(tmp_path))) as memory:
        assert len(await held(memory)) == 9
        assert (await memory.check()).is_clean


async def test_another_metric_keeps_the_vectors(tmp_path: Path) -> None:
    await filled(tmp_path)
    other = settings(tmp_path, db_embed_config=GraphStoreIndexConfig(distance_metric="euclidean"))

    async with aclosing(fake_memory(config=other)) as memory:
        with pytest.raises(SchemaMismatchError, match="indexed by COSINE"):
            await memory.search("Tom", "ann")
        report = await memory.migrate()

        assert (report.copied, report.embedded) == (9, 0)
        assert (await memory.check()).is_clean
        assert await memory.search("Tom", "ann")


async def test_a_store_that_fits_is_left_alone(tmp_path: Path) -> None:
    await filled(tmp_path)

    async with aclosing(fake_memory(config=settings(tmp_path))) as memory:
        report = await memory.migrate()

        assert (dict(report.rows), report.copied) == ({}, 0)
        assert len(await held(memory)) == 9


async def test_the_old_collections_may_be_kept_and_are_dropped_by_the_next_call(tmp_path: Path) -> None:
    await aged(tmp_path)
    config = settings(tmp_path)

    async with aclosing(fake_memory(config=config)) as memory:
        await memory.migrate(keep_old=True)
    kept = await listed(config)
    async with aclosing(fake_memory(config=config)) as memory:
        await memory.migrate()

    assert f"{ENTITY_COLLECTION}_OLD" in kept and len(kept) == 8
    assert len(await listed(config)) == 4


def stopping(collection: str) -> Callable[[MigrationProgress], None]:
    """Return what stops a migration when it has done with a collection."""

    def stop(progress: MigrationProgress) -> None:
        if progress.collection == collection:
            raise StoppedError

    return stop


async def test_a_stopped_migration_leaves_the_old_store_in_use_and_goes_on(tmp_path: Path) -> None:
    await filled(tmp_path)
    narrow, wide = settings(tmp_path), settings(tmp_path, embed_dim=96)
    async with aclosing(fake_memory(config=wide)) as memory:
        with pytest.raises(StoppedError):
            await memory.migrate(stopping(RELATION_COLLECTION))
    world = taught(config=narrow)
    await world.learn("Tom likes tea.", types={"Tom": "Human", "tea": "Entity"}, said=[], user="bob")
    gone = [each async for each in world.memory.objects(EPISODE_COLLECTION, "ann")]
    await world.memory.delete_episode("ann", gone[0].uuid)
    rows = await held(world.memory)
    await world.memory.close()

    async with aclosing(fake_memory(config=wide)) as memory:
        report = await memory.migrate()

        assert report.copied < sum(report.rows.values())
        assert await held(memory) == rows
        assert (await memory.check()).is_clean


async def test_a_migration_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    await filled(tmp_path)
    async with aclosing(fake_memory(config=settings(tmp_path, embed_dim=96))) as memory:
        with pytest.raises(StoppedError):
            await memory.migrate(stopping(RELATION_COLLECTION))

    async with aclosing(fake_memory(config=settings(tmp_path))) as memory:
        await memory.migrate()

        assert len(await held(memory)) == 9
    assert len(await listed(settings(tmp_path))) == 4


async def test_an_embedder_that_fails_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    await filled(tmp_path)
    wide = settings(tmp_path, embed_dim=96, request_max_retries=1)
    async with aclosing(fake_memory(config=wide, embedder=FakeEmbedder(96, fail_times=99))) as memory:
        with pytest.raises(EmbeddingCallError):
            await memory.migrate()

    async with aclosing(fake_memory(config=settings(tmp_path))) as memory:
        assert (await memory.check()).is_clean


@pytest.mark.parametrize("renamed", [1, 2, 3], ids=["first", "second", "third"])
async def test_a_store_whose_exchange_was_interrupted_is_not_opened_but_finished(tmp_path: Path, renamed: int) -> None:
    await filled(tmp_path)
    wide = settings(tmp_path, embed_dim=96)
    async with aclosing(fake_memory(config=settings(tmp_path))) as before:
        rows = await held(before)
    async with aclosing(fake_memory(config=wide)) as memory:
        with pytest.raises(StoppedError):
            await memory.migrate(stopping(EPISODE_COLLECTION))
    connection = MilvusConnection(wide, prepare=lambda client, lite: None)
    steps = [
        (ENTITY_COLLECTION, f"{ENTITY_COLLECTION}_OLD"),
        (f"{ENTITY_COLLECTION}_NEW", ENTITY_COLLECTION),
        (RELATION_COLLECTION, f"{RELATION_COLLECTION}_OLD"),
    ]
    for old, new in steps[:renamed]:
        await connection.write("Renaming", methodcaller("rename_collection", old, new))
    await connection.close()

    async with aclosing(fake_memory(config=wide)) as memory:
        with pytest.raises(SchemaMismatchError, match="migrate"):
            await memory.search("Tom", "ann")
        await memory.migrate()

        assert sorted(await held(memory)) == sorted(rows)
        assert (await memory.check()).is_clean
    assert len(await listed(wide)) == 4


async def test_what_is_kept_of_an_earlier_migration_is_not_overwritten(tmp_path: Path) -> None:
    await filled(tmp_path)
    async with aclosing(fake_memory(config=settings(tmp_path, embed_dim=96))) as memory:
        await memory.migrate(keep_old=True)

    async with aclosing(fake_memory(config=settings(tmp_path, embed_dim=128))) as memory:
        with pytest.raises(StoreError, match="from an earlier migration"):
            await memory.migrate()


async def test_a_collection_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    config = settings(tmp_path)
    connection = MilvusConnection(config, prepare=lambda client, lite: None)
    await connection.write("Making it", lambda client: client.create_collection(ENTITY_COLLECTION, dimension=8))
    await connection.close()

    async with aclosing(fake_memory(config=config)) as memory:
        with pytest.raises(SchemaMismatchError, match="none of ours"):
            await memory.migrate()
    assert await listed(config) == [ENTITY_COLLECTION]


async def test_a_backend_that_cannot_be_migrated_says_what_else_to_do() -> None:
    memory = fake_memory()

    with pytest.raises(InvalidInputError, match="reembed"):
        await memory.migrate()


async def run_in_process(path: Path) -> None:
    """Migrate the store at a path to another dimension, slowly."""

    async def tell(progress: MigrationProgress) -> None:
        print(progress.collection, flush=True)
        await asyncio.sleep(0.5)

    async with aclosing(fake_memory(config=settings(path, embed_dim=96))) as memory:
        await memory.migrate(tell)


@pytest.mark.slow
async def test_a_killed_migration_is_finished_by_another_call(tmp_path: Path) -> None:
    await filled(tmp_path)
    async with aclosing(fake_memory(config=settings(tmp_path))) as before:
        rows = await held(before)
    assert await kill_midway(__name__, tmp_path, lines=2) == RELATION_COLLECTION

    async with aclosing(fake_memory(config=settings(tmp_path))) as old:
        assert await held(old) == rows
    async with aclosing(fake_memory(config=settings(tmp_path, embed_dim=96))) as memory:
        report = await memory.migrate()

        assert sum(report.rows.values()) == 9 and report.copied < 9
        assert await held(memory) == rows
        assert (await memory.check()).is_clean
