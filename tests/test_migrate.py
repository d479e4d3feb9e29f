"""Bringing an older or otherwise built store to today's schema: what stays, what is refused, and being stopped."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    GraphConfig,
    GraphMemory,
    GraphStoreIndexConfig,
    MigrationProgress,
)
from jiuwen_memory.errors import (
    EmbedderNotFoundError,
    EmbeddingCallError,
    InvalidInputError,
    SchemaMismatchError,
    StoreError,
)
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS, JOURNAL_COLLECTION
from jiuwen_memory.foundation.store.graph.milvus.connection import MilvusConnection
from jiuwen_memory.testing import FakeEmbedder, fake_memory
from tests.killing import kill_midway
from tests.memory_support import taught
from tests.migrate_support import ROWS, StoppedError, age, aged, filled, held, listed, stopping


def settings(path: Path, **changes: Any) -> GraphConfig:
    """Return the settings of the store at a path."""
    return GraphConfig(**{"uri": str(path / "memory.db"), "embed_dim": 64, **changes})


async def test_an_old_store_is_refused_by_name_and_brought_to_todays_schema(tmp_path: Path) -> None:
    (tmp_path / "today").mkdir()
    await filled(settings(tmp_path / "today"))
    await aged(settings(tmp_path))
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
    await filled(settings(tmp_path))
    async with aclosing(fake_memory(config=settings(tmp_path))) as before:
        rows = await held(before)
    await age(settings(tmp_path))

    async with aclosing(fake_memory(config=settings(tmp_path))) as memory:
        await memory.migrate()

        assert await held(memory) == rows
        assert len(rows) == 9


async def test_another_dimension_takes_the_attached_embedder(tmp_path: Path) -> None:
    await filled(settings(tmp_path))
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
    await filled(settings(tmp_path))
    bare = GraphMemory(settings(tmp_path, embed_dim=96), language="en")

    with pytest.raises(EmbedderNotFoundError):
        await bare.migrate()
    await bare.close()

    async with aclosing(fake_memory(config=settings(tmp_path))) as memory:
        assert len(await held(memory)) == 9
        assert (await memory.check()).is_clean


async def test_another_metric_keeps_the_vectors(tmp_path: Path) -> None:
    await filled(settings(tmp_path))
    other = settings(tmp_path, db_embed_config=GraphStoreIndexConfig(distance_metric="euclidean"))

    async with aclosing(fake_memory(config=other)) as memory:
        with pytest.raises(SchemaMismatchError, match="indexed by COSINE"):
            await memory.search("Tom", "ann")
        report = await memory.migrate()

        assert (report.copied, report.embedded) == (9, 0)
        assert (await memory.check()).is_clean
        assert await memory.search("Tom", "ann")


async def test_a_store_that_fits_is_left_alone(tmp_path: Path) -> None:
    await filled(settings(tmp_path))

    async with aclosing(fake_memory(config=settings(tmp_path))) as memory:
        report = await memory.migrate()

        assert (dict(report.rows), report.copied) == ({}, 0)
        assert len(await held(memory)) == 9


async def test_the_old_collections_may_be_kept_and_are_dropped_by_the_next_call(tmp_path: Path) -> None:
    await aged(settings(tmp_path))
    config = settings(tmp_path)

    async with aclosing(fake_memory(config=config)) as memory:
        await memory.migrate(keep_old=True)
    kept = await listed(config)
    async with aclosing(fake_memory(config=config)) as memory:
        await memory.migrate()

    assert f"{ENTITY_COLLECTION}_OLD" in kept and len(kept) == 8
    assert len(await listed(config)) == 4


async def test_a_stopped_migration_leaves_the_old_store_in_use_and_goes_on(tmp_path: Path) -> None:
    await filled(settings(tmp_path))
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
    await filled(settings(tmp_path))
    async with aclosing(fake_memory(config=settings(tmp_path, embed_dim=96))) as memory:
        with pytest.raises(StoppedError):
            await memory.migrate(stopping(RELATION_COLLECTION))

    async with aclosing(fake_memory(config=settings(tmp_path))) as memory:
        await memory.migrate()

        assert len(await held(memory)) == 9
    assert len(await listed(settings(tmp_path))) == 4


async def test_an_embedder_that_fails_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    await filled(settings(tmp_path))
    wide = settings(tmp_path, embed_dim=96, request_max_retries=1)
    async with aclosing(fake_memory(config=wide, embedder=FakeEmbedder(96, fail_times=99))) as memory:
        with pytest.raises(EmbeddingCallError):
            await memory.migrate()

    async with aclosing(fake_memory(config=settings(tmp_path))) as memory:
        assert (await memory.check()).is_clean


@pytest.mark.parametrize("renamed", [1, 2, 3], ids=["first", "second", "third"])
async def test_a_store_whose_exchange_was_interrupted_is_not_opened_but_finished(tmp_path: Path, renamed: int) -> None:
    await filled(settings(tmp_path))
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
    await filled(settings(tmp_path))
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


async def run_in_process(path: Path, dimension: int) -> None:
    """Migrate the store at a path, slowly."""

    async def tell(progress: MigrationProgress) -> None:
        print(progress.collection, flush=True)
        await asyncio.sleep(0.5)

    async with aclosing(fake_memory(config=settings(path, embed_dim=dimension))) as memory:
        await memory.migrate(tell)


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [64, 96], ids=["first release", "another dimension"])
async def test_a_killed_migration_is_finished_by_another_call(tmp_path: Path, dimension: int) -> None:
    await filled(settings(tmp_path))
    async with aclosing(fake_memory(config=settings(tmp_path))) as before:
        rows = await held(before)
    if dimension == 64:
        await age(settings(tmp_path))
    assert await kill_midway(__name__, tmp_path, dimension, lines=2) == RELATION_COLLECTION
    names = await listed(settings(tmp_path))

    async with aclosing(fake_memory(config=settings(tmp_path, embed_dim=dimension))) as memory:
        report = await memory.migrate()

        assert {*GRAPH_COLLECTIONS, f"{ENTITY_COLLECTION}_NEW"} <= set(names)
        assert {name: report.rows[name] for name in GRAPH_COLLECTIONS} == ROWS
        assert report.copied < sum(report.rows.values())
        assert await held(memory) == rows
        assert [each.text for each in await memory.pending("ann")] == ["Tom sings."]
        assert dimension == 64 or (await memory.check()).is_clean
