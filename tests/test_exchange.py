"""A graph goes to a file and comes back as it was; a file that is not whole changes nothing."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jiuwen_memory import ENTITY_COLLECTION, Entity
from jiuwen_memory.errors import (
    EmbeddingCallError,
    ExchangeConflictError,
    ExchangeFileError,
    ExchangeVersionError,
    InvalidInputError,
)
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.integrations.exchange import Progress, export_graph, import_graph, import_store
from jiuwen_memory.integrations.sync import SyncGraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_update
from jiuwen_memory.memory_core.graph.graph_memory.services import attached_embedder
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate
from jiuwen_memory.testing import FakeEmbedder, fake_memory
from tests.exchange_support import COLLECTIONS, config_at, empty_memory, everything, grown
from tests.memory_support import nothing_is_stored

MANY = 450


class OtherEmbedder(FakeEmbedder):
    model_name = "another-embedder"


async def exported(*, vectors: bool = False) -> bytes:
    told, file = await grown(), io.BytesIO()
    await export_graph(told.memory, "ann", file, vectors=vectors)
    await told.memory.close()
    return file.getvalue()


@pytest.mark.parametrize("kind", ["memory", "milvus"])
@pytest.mark.parametrize("vectors", [False, True], ids=["texts", "vectors"])
async def test_export_delete_and_import_give_the_identical_graph(kind: str, vectors: bool, tmp_path: Path) -> None:
    told = await grown(config_at(tmp_path, kind))
    memory, file = told.memory, tmp_path / "ann.jsonl"
    before = await everything(memory)
    written = await export_graph(memory, "ann", file, vectors=vectors)

    await memory.delete_user("ann")
    gone = await everything(memory)
    report = await import_graph(memory, file)
    again = await export_graph(memory, "ann", tmp_path / "again.jsonl", vectors=vectors)

    assert gone == {}
    assert await everything(memory) == before
    assert report.added == len(before) == written.total == again.total
    assert again == written
    assert (tmp_path / "again.jsonl").read_bytes() == file.read_bytes()
    assert (await memory.check("ann")).is_clean
    await memory.close()


async def test_a_graph_moves_from_the_memory_backend_to_milvus_lite_and_is_found_there(tmp_path: Path) -> None:
    told = await grown()
    before = await export_graph(told.memory, "ann", tmp_path / "ann.jsonl.gz")
    other = empty_memory(tmp_path, "milvus")

    await import_graph(other, tmp_path / "ann.jsonl.gz")

    assert (await export_graph(other, "ann", io.BytesIO())).graph_sha256 == before.graph_sha256
    found = await other.search("Who is 李明?", "ann")
    assert "李明" in [each.name for _, each in found[ENTITY_COLLECTION] if isinstance(each, Entity)]
    await other.close()
    await told.memory.close()


async def test_vectors_in_the_file_spare_the_embedder_only_if_they_are_its_own(tmp_path: Path) -> None:
    file = io.BytesIO(await exported(vectors=True))
    same, other = FakeEmbedder(), OtherEmbedder()
    first, second = fake_memory(embedder=same), fake_memory(embedder=other)

    await import_graph(first, file)
    await import_graph(second, file)

    assert same.texts == []
    assert "Ann works at Acme." in other.texts
    assert (await second.check("ann")).is_clean
    await first.close()
    await second.close()


async def test_the_header_says_what_follows_and_no_line_names_the_owner() -> None:
    header, *objects, trailer = [json.loads(line) for line in (await exported()).splitlines()]

    assert (header["format"], header["version"], header["user_id"]) == ("jiuwen-graph-memory", 1, "ann")
    assert (header["embedder"], header["dimension"], header["vectors"]) == ("fake-embedder", 64, False)
    assert header["counts"] == trailer["counts"]
    assert sum(header["counts"].values()) == len(objects)
    assert not any("user_id" in each["object"] or "content_embedding" in each["object"] for each in objects)


async def test_importing_twice_changes_nothing() -> None:
    told, file = await grown(), io.BytesIO()
    await export_graph(told.memory, "ann", file)
    before = await everything(told.memory)

    report = await import_graph(told.memory, file)

    assert (report.added, report.replaced, report.unchanged) == (0, 0, len(before))
    assert await everything(told.memory) == before
    await told.memory.close()


async def test_an_import_that_was_interrupted_goes_on_where_it_stopped() -> None:
    source, target, file = fake_memory(), fake_memory(), io.BytesIO()
    many = GraphMemUpdate(added_entity=[Entity(user_id="ann", name=f"Thing {number}") for number in range(MANY)])
    store = source.db_backend
    await commit_update(many, "ann", store=store, embedder=attached_embedder(store))
    await export_graph(source, "ann", file)
    seen: list[Progress] = []

    def stop(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == 2:
            raise KeyError("enough")

    with pytest.raises(KeyError):
        await import_graph(target, file, on_progress=stop)
    half = len(await everything(target))
    report = await import_graph(target, file, on_progress=seen.append)

    assert half == seen[1].done < MANY
    assert (report.added, report.unchanged) == (MANY - half, half)
    assert seen[-1] == Progress(MANY, MANY)
    assert await everything(target) == await everything(source)
    await source.close()
    await target.close()


async def test_a_failing_embedder_leaves_nothing_and_says_how_far_it_came() -> None:
    file = io.BytesIO(await exported())
    memory = fake_memory(embedder=FakeEmbedder(fail_times=5))

    with pytest.raises(EmbeddingCallError) as failure:
        await import_graph(memory, file)

    assert "0 of " in failure.value.__notes__[0]
    assert await nothing_is_stored(memory)
    assert (await import_graph(memory, file)).added
    await memory.close()


def cut_short(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def without_the_end(whole: bytes) -> bytes:
    return b"".join(whole.splitlines(keepends=True)[:-1])


def with_another_word(whole: bytes) -> bytes:
    return whole.replace(b"Bolt", b"Volt")


def with_another_owner(whole: bytes) -> bytes:
    return whole.replace(b'"user_id":"ann"', b'"user_id":"bob"')


def without_an_object(whole: bytes) -> bytes:
    lines = whole.splitlines(keepends=True)
    return b"".join([*lines[:2], *lines[3:]])


def with_an_object_twice(whole: bytes) -> bytes:
    lines = whole.splitlines(keepends=True)
    return b"".join([*lines[:2], *lines[1:]])


def with_more_behind_it(whole: bytes) -> bytes:
    return whole + b"{}\n"


def with_a_strange_object(whole: bytes) -> bytes:
    return whole.replace(b'"mention_count":', b'"mentioned":')


def something_else(whole: bytes) -> bytes:
    return b'{"role": "user"}\n'


def nothing_at_all(whole: bytes) -> bytes:
    return b""


@pytest.mark.parametrize(
    "damage",
    [
        cut_short,
        without_the_end,
        with_another_word,
        with_another_owner,
        without_an_object,
        with_an_object_twice,
        with_more_behind_it,
        with_a_strange_object,
        something_else,
        nothing_at_all,
    ],
    ids=lambda damage: damage.__name__,
)
async def test_a_damaged_file_is_refused_before_anything_is_written(damage: Callable[[bytes], bytes]) -> None:
    memory = fake_memory()
    damaged = damage(await exported())

    with pytest.raises(ExchangeFileError) as failure:
        await import_graph(memory, io.BytesIO(damaged))

    assert "Acme" not in str(failure.value)
    assert await nothing_is_stored(memory, "ann") and await nothing_is_stored(memory, "bob")
    await memory.close()


def resealed(header: dict[str, Any], objects: list[dict[str, Any]]) -> bytes:
    """Return a file whose counts and hashes are right, whatever its objects are."""
    counts = Counter(each["collection"] for each in objects)
    first, *lines = [json.dumps(each).encode() + b"\n" for each in ({**header, "counts": counts}, *objects)]
    hashes = {
        "sha256": hashlib.sha256(b"".join([first, *lines])).hexdigest(),
        "graph_sha256": hashlib.sha256(b"".join(lines)).hexdigest(),
    }
    return b"".join([first, *lines, json.dumps({"end": True, "counts": counts, **hashes}).encode() + b"\n"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"uuid": "twice"}, "twice"),
        ({"uuid": ""}, "no object"),
        ({"content_embedding": [1.0, 2.0]}, "64 finite numbers"),
        ({"content_embedding": [float("nan")] * 64}, "64 finite numbers"),
        ({"invented": 1}, "invented"),
        ({"created_at": "yesterday"}, "created_at"),
    ],
    ids=["whole", "same-id", "no-id", "short-vector", "nan", "unknown-field", "wrong-kind"],
)
async def test_objects_that_cannot_be_are_refused_though_the_hash_is_right(
    change: dict[str, Any], reason: str | None
) -> None:
    header, *objects, _ = [json.loads(line) for line in (await exported()).splitlines()]
    for each in objects[:2]:
        each["object"].update(change)
    memory, file = fake_memory(), io.BytesIO(resealed(header, objects))

    if reason is None:
        assert (await import_graph(memory, file)).added == len(objects)
    else:
        with pytest.raises(ExchangeFileError, match=reason):
            await import_graph(memory, file)
        assert await nothing_is_stored(memory)

    await memory.close()


async def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    told, path = await grown(), tmp_path / "ann.jsonl.gz"
    await export_graph(told.memory, "ann", path)
    path.write_bytes(path.read_bytes()[:-200])
    memory = fake_memory()

    with pytest.raises(ExchangeFileError):
        await import_graph(memory, path)

    assert await nothing_is_stored(memory)
    await memory.close()
    await told.memory.close()


async def test_a_newer_version_is_refused_and_named() -> None:
    memory = fake_memory()
    newer = (await exported()).replace(b'"version":1', b'"version":2', 1)

    with pytest.raises(ExchangeVersionError, match="version 2"):
        await import_graph(memory, io.BytesIO(newer))

    assert await nothing_is_stored(memory)
    await memory.close()


async def test_ids_with_other_content_are_refused_by_number_unless_they_may_be_replaced() -> None:
    told, file = await grown(), io.BytesIO()
    await export_graph(told.memory, "ann", file)
    before = await everything(told.memory)
    ann = next(each for each in before.values() if isinstance(each, Entity) and each.name == "Ann")
    store = told.memory.db_backend
    changed = GraphMemUpdate(updated_entity=[ann.revise(content="Ann paints.")])
    await commit_update(changed, "ann", store=store, embedder=attached_embedder(store))

    with pytest.raises(ExchangeConflictError, match="replace=True") as failure:
        await import_graph(told.memory, file)
    kept = (await everything(told.memory))[ann.uuid]
    report = await import_graph(told.memory, file, replace=True)

    assert failure.value.count == 1
    assert kept.content == "Ann paints."
    assert (report.added, report.replaced) == (0, 1)
    assert await everything(told.memory) == before
    assert (await told.memory.check("ann")).is_clean
    await told.memory.close()


async def test_a_copy_for_another_user_of_the_same_store_needs_ids_of_its_own() -> None:
    told, file = await grown(), io.BytesIO()
    await export_graph(told.memory, "ann", file)
    before = await everything(told.memory)

    with pytest.raises(ExchangeConflictError, match="new_ids=True") as failure:
        await import_graph(told.memory, file, user_id="bob", replace=True)
    untouched = await nothing_is_stored(told.memory, "bob")
    first = await import_graph(told.memory, file, user_id="bob", new_ids=True)
    second = await import_graph(told.memory, file, user_id="bob", new_ids=True)

    copy = await everything(told.memory, "bob")
    assert failure.value.count == len(before)
    assert untouched
    assert (first.added, second.added) == (len(before), 0)
    assert await everything(told.memory) == before
    assert not copy.keys() & before.keys()
    assert not any(uuid in each.model_dump_json() for each in copy.values() for uuid in before)
    assert (await told.memory.check("bob")).is_clean
    assert [each.sentence for each in await told.memory.triples("bob", order_by="valid_since")] == [
        each.sentence for each in await told.memory.triples("ann", order_by="valid_since")
    ]
    await told.memory.close()


async def test_a_copy_for_another_user_of_another_store_keeps_its_ids() -> None:
    file, other = io.BytesIO(await exported()), fake_memory()

    report = await import_graph(other, file, user_id="bob")

    assert report.user_id == "bob"
    assert {each.user_id for each in (await everything(other, "bob")).values()} == {"bob"}
    assert await nothing_is_stored(other, "ann")
    await other.close()


async def test_objects_that_do_not_fit_the_store_are_refused_before_anything_is_written() -> None:
    file = io.BytesIO(await exported())
    small = config_at(Path(), "memory", name="small")
    sizes = small.db_storage_config.model_copy(update={"content": 20})
    memory = fake_memory(config=small.model_copy(update={"db_storage_config": sizes}))

    with pytest.raises(InvalidInputError, match="content"):
        await import_graph(memory, file)

    assert await nothing_is_stored(memory)
    await memory.close()


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


async def test_an_export_that_fails_leaves_the_older_file(tmp_path: Path) -> None:
    told, path = await grown(), tmp_path / "ann.jsonl"
    path.write_text("older")

    def stop(progress: Progress) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError):
        await export_graph(told.memory, "ann", path, on_progress=stop)

    assert names_in(tmp_path) == ["ann.jsonl"]
    assert path.read_text() == "older"
    await told.memory.close()


async def test_places_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    memory = fake_memory()

    with pytest.raises(InvalidInputError, match="cannot be written"):
        await export_graph(memory, "ann", tmp_path / "missing" / "ann.jsonl")
    with pytest.raises(InvalidInputError, match="'wb'"):
        await export_graph(memory, "ann", io.StringIO())  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="cannot be read"):
        await import_graph(memory, tmp_path / "ann.jsonl")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        await import_graph(memory, "no\0file.jsonl")
    with pytest.raises(InvalidInputError, match="home folder"):
        await export_graph(memory, "ann", "~nobody-of-this-name/ann.jsonl")
    with pytest.raises(InvalidInputError, match="home folder"):
        await import_graph(memory, "~nobody-of-this-name/ann.jsonl")
    with pytest.raises(InvalidInputError, match="old store"):
        await import_store(memory, " ")
    with pytest.raises(InvalidInputError, match="user_id"):
        await export_graph(memory, " ", tmp_path / "ann.jsonl")

    await memory.close()


async def test_an_empty_graph_is_a_file_too() -> None:
    memory, file = fake_memory(), io.BytesIO()

    written = await export_graph(memory, "ann", file)
    report = await import_graph(memory, file)

    assert written.total == report.total == 0
    assert written.counts == dict.fromkeys(COLLECTIONS, 0)
    await memory.close()


async def test_an_export_waits_for_the_writer_of_the_same_user() -> None:
    told, file = await grown(), io.BytesIO()

    async with told.memory.hold("ann"):
        waiting = asyncio.ensure_future(export_graph(told.memory, "ann", file))
        await export_graph(told.memory, "bob", io.BytesIO())
        is_waiting = not waiting.done() and not file.getvalue()
    await waiting

    assert is_waiting
    assert await told.memory.db_backend.count(ENTITY_COLLECTION, user=filter_user("ann"))
    await told.memory.close()


def test_a_memory_without_await_exports_too(tmp_path: Path) -> None:
    with SyncGraphMemory(fake_memory()) as memory:
        report = memory.run(export_graph(memory.memory, "ann", tmp_path / "ann.jsonl"))

    assert report.total == 0
    assert (tmp_path / "ann.jsonl").exists()
