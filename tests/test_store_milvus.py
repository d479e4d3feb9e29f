"""What only the Milvus store can get right or wrong: paths, servers, schemas on disk, and damage."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from jiuwen_memory import GraphMemory
from jiuwen_memory.errors import (
    SchemaMismatchError,
    StoreError,
    StoreParameterError,
    StoreUnavailableError,
)
from jiuwen_memory.foundation.store.graph import ENTITY_COLLECTION, GraphConfig, JournalEntry, MilvusGraphStore
from jiuwen_memory.foundation.store.graph.columns import collection_columns
from jiuwen_memory.foundation.store.graph.constants import JOURNAL_COLLECTION
from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.foundation.store.graph.journal_rows import entry_rows
from jiuwen_memory.foundation.store.graph.milvus.journal import put_rows, remove_rows
from jiuwen_memory.foundation.store.graph.milvus.rows import fetch_by_ids, fetch_matching
from jiuwen_memory.foundation.store.graph.milvus.schema import prepare_collection
from jiuwen_memory.foundation.store.query import filter_user
from tests.stores import DIM, Backend, entity

ANN = filter_user("ann")


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[Backend]:
    made = Backend("lite", tmp_path)
    yield made
    await made.close()


def resolved(path: Path) -> str:
    return os.path.realpath(path)


async def raw(store: MilvusGraphStore, call: str, *arguments: Any, **keywords: Any) -> Any:
    """Do something to the store's data that no caller of ours can do."""
    return await store._connection.write(call, lambda client: getattr(client, call)(*arguments, **keywords))


async def made_store(backend: Backend, **changes: Any) -> MilvusGraphStore:
    store = backend.make(**changes)
    assert isinstance(store, MilvusGraphStore)
    await store.open()
    return store


@pytest.mark.parametrize("name", ["graph.db", "graph", "graph.milvus", "new/folder/graph.db", "with space/図.db"])
async def test_a_path_of_any_name_works_in_a_new_folder(backend: Backend, tmp_path: Path, name: str) -> None:
    store = await made_store(backend, uri=tmp_path / name)

    await store.upsert(ENTITY_COLLECTION, [entity("a")])

    assert await store.count(ENTITY_COLLECTION, user=ANN) == 1
    assert store.identity == resolved(tmp_path / name)
    assert (tmp_path / name).is_dir()


async def test_a_link_and_its_target_are_one_store(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    real = await made_store(backend, uri=str(tmp_path / "real" / "graph.db"))
    link = await made_store(backend, uri=str(tmp_path / "link" / "graph.db"))

    await real.upsert(ENTITY_COLLECTION, [entity("a")])

    assert await link.count(ENTITY_COLLECTION, user=ANN) == 1
    assert link.identity == real.identity


async def test_a_relative_path_is_taken_from_where_the_store_was_made(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = backend.make(uri="./graph.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    await store.open()

    assert store.identity == resolved(tmp_path / "graph.db")


async def test_a_named_database_is_made_and_kept(backend: Backend) -> None:
    async with await made_store(backend, name="agent_memory_graph") as first:
        await first.upsert(ENTITY_COLLECTION, [entity("a")])

    again = await made_store(backend, name="agent_memory_graph")
    default = await made_store(backend, name="")

    assert await again.count(ENTITY_COLLECTION, user=ANN) == 1
    assert await default.count(ENTITY_COLLECTION, user=ANN) == 0


def open_elsewhere(path: Path) -> str:
    """Open a path in another process and return what it prints."""
    program = (
        "import asyncio, sys\n"
        "from jiuwen_memory.foundation.store.graph import GraphConfig, MilvusGraphStore\n"
        "from jiuwen_memory.foundation.store.query import filter_user\n"
        "async def main():\n"
        "    async with MilvusGraphStore(GraphConfig(uri=sys.argv[1], embed_dim=32)) as store:\n"
        "        print(await store.count('ENTITY_COLLECTION', user=filter_user('ann')))\n"
        "try:\n"
        "    asyncio.run(main())\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


@pytest.mark.slow
async def test_a_memory_that_is_cancelled_while_it_opens_lets_go_of_the_path(tmp_path: Path) -> None:
    memory = GraphMemory(GraphConfig(uri=str(tmp_path / "graph.db"), embed_dim=32))
    opening = asyncio.ensure_future(memory.__aenter__())
    await asyncio.wait([opening], timeout=0.01)

    opening.cancel()
    await asyncio.wait([opening])

    assert opening.cancelled()
    assert open_elsewhere(tmp_path / "graph.db") == "0\n"


@pytest.mark.slow
async def test_another_process_is_told_who_holds_the_path_until_it_is_closed(backend: Backend, tmp_path: Path) -> None:
    store = await made_store(backend)
    await store.upsert(ENTITY_COLLECTION, [entity("a")])

    while_open = open_elsewhere(tmp_path / "graph.db")
    await store.close()
    afterwards = open_elsewhere(tmp_path / "graph.db")

    assert while_open.startswith("StoreUnavailableError")
    assert "One process at a time" in while_open
    assert "Traceback" not in while_open
    assert afterwards == "1\n"


async def test_a_plain_file_is_refused_and_left_alone(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("mine", encoding="utf-8")

    with pytest.raises(StoreUnavailableError, match="is a file"):
        await made_store(backend, uri=tmp_path / "notes.db")

    assert (tmp_path / "notes.db").read_text(encoding="utf-8") == "mine"


async def test_a_folder_that_cannot_be_made_is_an_error_of_ours(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(StoreUnavailableError, match="cannot be created"):
        await made_store(backend, uri=tmp_path / "file" / "graph.db")


def test_an_unknown_scheme_is_refused_at_once() -> None:
    with pytest.raises(StoreParameterError, match="grpc"):
        MilvusGraphStore(GraphConfig(uri="grpc://localhost:19530"))


async def test_a_server_that_does_not_answer_is_named_without_the_token(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = GraphConfig(uri=f"http://root:hidden@127.0.0.1:{port}", token="root:secret", timeout=0.5, embed_dim=DIM)

    async with MilvusGraphStore(config) as store:
        with caplog.at_level(logging.DEBUG), pytest.raises(StoreUnavailableError, match=str(port)) as caught:
            await store.count(ENTITY_COLLECTION, user=ANN)

    told = f"{caught.value} {caplog.text} {capfd.readouterr().err}"
    assert "secret" not in told
    assert "hidden" not in told
    assert "Traceback" not in told
    assert caught.value.__cause__ is not None


async def test_a_failed_opening_can_be_tried_again(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "graph.db").write_text("in the way", encoding="utf-8")
    store = backend.make()
    with pytest.raises(StoreUnavailableError):
        await store.open()

    (tmp_path / "graph.db").unlink()

    assert await store.count(ENTITY_COLLECTION, user=ANN) == 0


async def test_a_server_error_is_ours_with_its_cause_and_without_noise(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    store = await made_store(backend)
    await raw(store, "drop_collection", ENTITY_COLLECTION)

    with caplog.at_level(logging.DEBUG), pytest.raises(StoreError, match="Counting ENTITY_COLLECTION failed") as caught:
        await store.count(ENTITY_COLLECTION, user=ANN)

    assert type(caught.value.__cause__).__name__ == "MilvusException"
    assert not [record for record in caplog.records if record.name.startswith("pymilvus") and record.levelno >= 30]


async def test_the_form_of_the_schema_for_a_server_is_well_formed_and_read_in_pages(backend: Backend) -> None:
    store = await made_store(backend)
    columns = collection_columns(ENTITY_COLLECTION, store.config)
    seek: dict[str, Any] = {"fields": ["uuid", "user_id"], "settings": {"timeout": 60}, "lite": False}
    await raw(store, "drop_collection", ENTITY_COLLECTION)

    def serve(client: Any) -> tuple[list[str], list[str], list[int]]:
        prepare_collection(client, ENTITY_COLLECTION, config=store.config, lite=False)
        rows = [entity(str(n), uuid=str(n), user="bob" if n == 7 else "ann").to_row() for n in range(40)]
        client.upsert(ENTITY_COLLECTION, rows)
        ids = fetch_by_ids(client, ENTITY_COLLECTION, ["9", "7", "3", "9"], conditions=ANN, **seek)
        pages = [
            fetch_matching(client, ENTITY_COLLECTION, ANN, limit=limit, window=window, **seek)
            for limit, window in ((None, 60), (None, 10), (25, 10), (5, 10))
        ]
        different = [len({row["uuid"] for row in page}) for page in pages]
        return [row["uuid"] for row in ids], client.list_indexes(ENTITY_COLLECTION), different

    found, indexes, different = await store._connection.write("Serving", serve)

    assert found == ["9", "3"]
    assert different == [39, 39, 25, 5]
    assert {name for name, column in columns.items() if column.indexed} <= set(indexes)


class Ending:
    """A client that makes one request, and is then gone."""

    def __init__(self, client: Any) -> None:
        self._client: Any = client

    def __getattr__(self, name: str) -> Any:
        if self._client is None:
            raise ConnectionError(name)
        client, self._client = self._client, None
        return getattr(client, name)


async def test_on_a_server_the_row_that_makes_an_entry_count_comes_last_and_goes_first(backend: Backend) -> None:
    store = await made_store(backend)
    entry = JournalEntry("plan", "ann", "header", "x" * 100_000, 1)
    settings: dict[str, Any] = {"timeout": 60}
    chunks, counting = entry_rows(entry)

    def put(client: Any) -> None:
        put_rows(client, chunks, counting, at_once=False, settings=settings)

    def remove(client: Any) -> int:
        return remove_rows(client, "plan", "ann", at_once=False, settings=settings)

    async def ended(request: Callable[[Any], Any]) -> tuple[list[JournalEntry], dict[str, int]]:
        with pytest.raises(ConnectionError):
            await store._connection.write("Ending", lambda client: request(Ending(client)))
        return await store.journal.entries(), await store.journal.unfinished()

    assert await ended(put) == ([], {"ann": 2})
    await store._connection.write("Putting", put)
    assert await store.journal.entries() == [entry]
    assert await ended(remove) == ([], {"ann": 2})
    assert await store._connection.write("Removing", remove) == 3
    assert await store.journal.unfinished() == {}


async def test_on_lite_an_entry_comes_and_goes_by_one_request(backend: Backend) -> None:
    store = await made_store(backend)
    entry = JournalEntry("plan", "ann", "header", "x" * 100_000, 1)
    settings: dict[str, Any] = {"timeout": 60}
    chunks, counting = entry_rows(entry)

    await store._connection.write(
        "Putting", lambda client: put_rows(Ending(client), chunks, counting, at_once=True, settings=settings)
    )

    assert await store.journal.entries() == [entry]
    gone = await store._connection.write(
        "Removing", lambda client: remove_rows(Ending(client), "plan", "ann", at_once=True, settings=settings)
    )
    assert (gone, await store.journal.unfinished()) == (3, {})


async def test_a_missing_index_is_made_again(backend: Backend) -> None:
    async with await made_store(backend) as first:
        await first.upsert(ENTITY_COLLECTION, [entity("a")])
        await raw(first, "release_collection", ENTITY_COLLECTION)
        await raw(first, "drop_index", ENTITY_COLLECTION, index_name="name_embedding")

    second = await made_store(backend)

    assert "name_embedding" in await raw(second, "list_indexes", ENTITY_COLLECTION)
    assert await second.count(ENTITY_COLLECTION, user=ANN) == 1


async def test_wider_limits_than_the_stored_ones_are_refused(backend: Backend) -> None:
    await (await made_store(backend)).close()

    with pytest.raises(SchemaMismatchError, match=r"name has max_length 500 in the store and 600"):
        await made_store(backend, db_storage_config=GraphStoreStorageConfig(name=600))


async def test_narrower_limits_than_the_stored_ones_are_fine(backend: Backend) -> None:
    await (await made_store(backend)).close()

    store = await made_store(backend, db_storage_config=GraphStoreStorageConfig(name=100))

    with pytest.raises(StoreParameterError, match="limit is 100"):
        await store.upsert(ENTITY_COLLECTION, [entity("x" * 101)])


async def test_columns_of_another_version_are_named_and_kept(backend: Backend) -> None:
    async with await made_store(backend) as first:
        await raw(first, "drop_collection", ENTITY_COLLECTION)
        await raw(first, "create_collection", ENTITY_COLLECTION, dimension=DIM)

    store = backend.make()
    with pytest.raises(
        SchemaMismatchError, match=r"uuid is missing in the store.*vector is in the store only.*reembed"
    ):
        await store.open()


def plan(payload: str) -> JournalEntry:
    return JournalEntry(plan_id="p1", user_id="ann", kind="header", payload=payload, created_at=1)


async def test_a_plan_with_a_lost_chunk_says_so_and_comes_with_what_is_left(backend: Backend) -> None:
    store = await made_store(backend)
    await store.journal.put(plan("字" * 50_000))
    await raw(store, "delete", JOURNAL_COLLECTION, filter='kind == "chunk" and number == 2')

    (entry,) = await store.journal.entries("ann")

    assert entry.damage == "of its 3 chunks there are: 1, 3"
    assert set(entry.payload) == {"字"} and 0 < len(entry.payload) < 50_000
    assert await store.journal.drop_unfinished("ann") == 0


async def test_a_plan_with_a_changed_chunk_says_so(backend: Backend) -> None:
    store = await made_store(backend)
    await store.journal.put(plan("x" * 70_000))
    rows = await raw(store, "query", JOURNAL_COLLECTION, filter="number == 2", output_fields=["*"])
    await raw(store, "upsert", JOURNAL_COLLECTION, [{**rows[0], "payload": "y"}])

    (entry,) = await store.journal.entries()

    assert "hash" in entry.damage


async def test_chunks_that_no_header_claims_are_dropped_on_request_only(backend: Backend) -> None:
    store = await made_store(backend)
    await store.journal.put(plan("x" * 130_000))
    await raw(store, "delete", JOURNAL_COLLECTION, filter='kind == "header"')

    assert await store.journal.entries("ann") == []
    assert await store.journal.drop_unfinished("bob") == 0
    assert await store.journal.drop_unfinished("ann") == 3
    assert await store.journal.drop_unfinished("ann") == 0


async def test_plans_that_came_and_went_are_not_kept_for_good(backend: Backend, tmp_path: Path) -> None:
    store = await made_store(backend, uri=tmp_path / "graph.db")
    for _ in range(120):
        await store.journal.put(plan("x" * 20_000))
        await store.journal.remove("p1", "ann")
    logs = [path for path in (tmp_path / "graph.db").rglob("wal_data_*") if JOURNAL_COLLECTION in str(path)]

    # What Milvus Lite has not flushed is in this file, and in memory.
    assert sum(path.stat().st_size for path in logs) < 1_000_000
    assert await store.journal.entries() == []


async def test_rows_of_a_journal_never_pass_a_servers_limit(backend: Backend) -> None:
    store = await made_store(backend)

    await store.journal.put(plan("a" + "🙂" * 40_000))

    rows = await raw(store, "query", JOURNAL_COLLECTION, filter='kind == "chunk"', output_fields=["payload"])
    assert all(len(row["payload"].encode()) <= 60_000 for row in rows)
    assert len(rows) == 3


def test_importing_and_building_a_store_loads_no_client() -> None:
    program = (
        "import sys\n"
        "from jiuwen_memory.foundation.store.graph import GraphConfig, GraphStoreFactory\n"
        "GraphStoreFactory.from_config(GraphConfig(uri='nowhere/graph.db'))\n"
        "print(sorted({'pymilvus', 'milvus_lite', 'numpy', 'grpc', 'openai'} & set(sys.modules)))\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
