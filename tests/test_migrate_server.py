"""Bringing a store on a server to today's schema: in its own database, and with client or server gone in the middle."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from jiuwen_memory import ENTITY_COLLECTION, EPISODE_COLLECTION, RELATION_COLLECTION, GraphConfig, MigrationProgress
from jiuwen_memory.errors import SchemaMismatchError, StoreError
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS, JOURNAL_COLLECTION
from jiuwen_memory.testing import fake_memory
from tests.killing import kill_midway
from tests.migrate_support import ROWS, StoppedError, age, aged, filled, held, listed, stopping
from tests.stores import lite_server, lite_server_process

OURS = sorted([*GRAPH_COLLECTIONS, JOURNAL_COLLECTION])


def settings(uri: str, name: str, **changes: Any) -> GraphConfig:
    """Return the settings of a database on a server."""
    return GraphConfig(**{"uri": uri, "name": name, "embed_dim": 64, "timeout": 30.0, **changes})


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with lite_server(tmp_path_factory.mktemp("migrate") / "data") as served:
        yield served


async def rows_of(config: GraphConfig) -> dict[str, Any]:
    """Return all that is stored."""
    async with aclosing(fake_memory(config=config)) as memory:
        return await held(memory)


@pytest.mark.parametrize("name", ["first", ""], ids=["a database of its own", "the default database"])
async def test_a_first_releases_store_is_brought_to_todays_schema_in_its_own_database(uri: str, name: str) -> None:
    old, beside = settings(uri, name), settings(uri, f"beside_{name or 'default'}")
    await filled(old)
    rows = await rows_of(old)
    await age(old)
    await aged(beside)

    async with aclosing(fake_memory(config=old)) as memory:
        with pytest.raises(SchemaMismatchError, match="merged_from is missing"):
            await memory.stats("ann")
        report = await memory.migrate()

        assert {name: report.rows[name] for name in GRAPH_COLLECTIONS} == ROWS
        assert (report.rows[JOURNAL_COLLECTION], report.copied, report.embedded) == (2, 11, 0)
        assert await held(memory) == rows
        found = await memory.search("Where does Tom live?", "ann", entity=False, episode=False)
        assert [each.content for _, each in found[RELATION_COLLECTION]] == ["Tom lives in Oslo."]
        assert [each.text for each in await memory.pending("ann")] == ["Tom sings."]
    assert await listed(old) == await listed(beside) == OURS
    async with aclosing(fake_memory(config=beside)) as memory:
        with pytest.raises(SchemaMismatchError, match="merged_from is missing"):
            await memory.stats("ann")


@pytest.mark.parametrize("reached", [ENTITY_COLLECTION, RELATION_COLLECTION, EPISODE_COLLECTION])
async def test_a_migration_that_failed_on_a_server_leaves_the_old_store_and_goes_on(uri: str, reached: str) -> None:
    name = f"stopped_{reached.partition('_')[0].lower()}"
    narrow, wide = settings(uri, name), settings(uri, name, embed_dim=96)
    await filled(narrow)
    rows = await rows_of(narrow)
    async with aclosing(fake_memory(config=wide)) as memory:
        with pytest.raises(StoppedError):
            await memory.migrate(stopping(reached))

    assert await rows_of(narrow) == rows
    async with aclosing(fake_memory(config=wide)) as memory:
        report = await memory.migrate()

        done = [*GRAPH_COLLECTIONS][: GRAPH_COLLECTIONS.index(reached) + 1]
        assert report.copied == sum(ROWS[each] for each in GRAPH_COLLECTIONS if each not in done)
        assert dict(report.rows) == ROWS
        assert await held(memory) == rows
        assert (await memory.check()).is_clean
    assert await listed(wide) == OURS


async def run_in_process(uri: str, name: str) -> None:
    """Migrate a database on a server to another dimension, slowly."""

    async def tell(progress: MigrationProgress) -> None:
        print(progress.collection, flush=True)
        await asyncio.sleep(0.5)

    async with aclosing(fake_memory(config=settings(uri, name, embed_dim=96))) as memory:
        await memory.migrate(tell)


@pytest.mark.slow
async def test_a_client_killed_while_it_migrates_leaves_what_another_one_finishes(uri: str) -> None:
    narrow, wide = settings(uri, "killed"), settings(uri, "killed", embed_dim=96)
    await filled(narrow)
    rows = await rows_of(narrow)
    assert await kill_midway(__name__, uri, "killed", lines=2) == RELATION_COLLECTION

    assert await rows_of(narrow) == rows
    async with aclosing(fake_memory(config=wide)) as memory:
        report = await memory.migrate()

        assert (dict(report.rows), report.copied) == (ROWS, ROWS[EPISODE_COLLECTION])
        assert await held(memory) == rows
        assert (await memory.check()).is_clean


@pytest.mark.slow
async def test_a_server_killed_while_it_is_migrated_goes_on_from_what_it_had(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with lite_server_process(data) as server:
        narrow, wide = settings(server.uri, "served"), settings(server.uri, "served", embed_dim=96, timeout=3.0)
        await filled(narrow)
        rows = await rows_of(narrow)

        def kill(progress: MigrationProgress) -> None:
            if progress.collection == RELATION_COLLECTION:
                os.kill(server.pid, signal.SIGKILL)

        async with aclosing(fake_memory(config=wide)) as memory:
            with pytest.raises(StoreError):
                await memory.migrate(kill)

    with lite_server(data) as uri:
        assert await rows_of(settings(uri, "served")) == rows
        async with aclosing(fake_memory(config=settings(uri, "served", embed_dim=96))) as memory:
            report = await memory.migrate()

            assert dict(report.rows) == ROWS
            assert report.copied < sum(ROWS.values())
            assert await held(memory) == rows
            assert (await memory.check()).is_clean
