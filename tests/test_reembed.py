"""Another embedding model: new vectors in place, or in a copy of another dimension; stopped and done again."""

from __future__ import annotations

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
    ReembedProgress,
)
from jiuwen_memory.errors import EmbeddingCallError, InvalidInputError, LLMCallError, StoreError
from jiuwen_memory.foundation.locks import InProcessLocks
from jiuwen_memory.testing import FakeEmbedder, fake_memory
from tests.memory_support import Taught, taught

COLLECTIONS = (ENTITY_COLLECTION, RELATION_COLLECTION, EPISODE_COLLECTION)


class StoppedError(Exception):
    """The caller has had enough."""


class OtherEmbedder(FakeEmbedder):
    """Another model, by its name."""

    model_name = "other-embedder"


async def filled(**options: Any) -> Taught:
    """Return a memory of two users."""
    world = taught(**options)
    for user in ("ann", "bob"):
        await world.learn(
            "Tom lives in Oslo.",
            types={"Tom": "Human", "Oslo": "Entity"},
            said=[("Tom", "lives in", "Oslo", "Tom lives in Oslo.")],
            user=user,
        )
    return world


async def held(memory: GraphMemory, user: str = "ann") -> dict[str, Any]:
    """Return everything stored of a user but what vectors were made of, by id."""
    found = [each for name in COLLECTIONS async for each in memory.objects(name, user)]
    return {each.uuid: each.revise(embedding_key="") for each in found}


async def test_rows_get_the_vectors_of_the_new_model_and_nothing_else_changes() -> None:
    world = await filled()
    before = await held(world.memory)
    asked = world.llm.calls
    world.memory.attach_embedder(OtherEmbedder(64))
    assert not (await world.memory.check("ann")).is_clean

    done = await world.memory.reembed("ann")

    assert (done.users, done.embedded, done.kept) == (1, 4, 0)
    assert (await world.memory.check("ann")).is_clean
    assert await held(world.memory) == before
    assert world.llm.calls == asked


async def test_doing_it_again_embeds_nothing() -> None:
    world = await filled()
    other = OtherEmbedder(64)
    world.memory.attach_embedder(other)
    await world.memory.reembed()
    calls = other.calls

    again = await world.memory.reembed()

    assert (again.users, again.embedded, again.kept) == (2, 0, 8)
    assert other.calls == calls


async def test_after_a_failure_it_goes_on_where_it_stopped() -> None:
    world = await filled()
    world.memory.attach_embedder(OtherEmbedder(64))
    heard: list[ReembedProgress] = []

    def stop(progress: ReembedProgress) -> None:
        heard.append(progress)
        if progress.rows > 1:
            raise StoppedError

    with pytest.raises(StoppedError):
        await world.memory.reembed(on_progress=stop)
    done = await world.memory.reembed()

    assert [each.rows for each in heard] == [1, 3]
    assert (done.embedded, done.kept) == (5, 3)
    assert (await world.memory.check()).is_clean


async def test_others_may_write_while_it_goes_on() -> None:
    world = await filled(locks=InProcessLocks(wait=0.1))
    world.memory.attach_embedder(OtherEmbedder(64))

    async def add(progress: ReembedProgress) -> None:
        await world.learn(f"It rained for {progress.rows} days.", user="ann")

    done = await world.memory.reembed("ann", on_progress=add)

    assert (done.embedded, done.kept) == (4, 0)
    assert (await world.memory.stats("ann")).episodes["DOCUMENT"] == 4
    assert (await world.memory.check()).counts.keys() == {"stale_vector"}
    assert (await world.memory.check("ann")).is_clean


async def test_an_embedder_that_fails_leaves_the_graph_as_it_was() -> None:
    config = GraphConfig(uri=":memory:", backend="memory", embed_dim=64, request_max_retries=1)
    world = await filled(config=config)
    before = await held(world.memory)
    world.memory.attach_embedder(OtherEmbedder(64, fail_times=99))

    with pytest.raises(EmbeddingCallError):
        await world.memory.reembed()

    world.memory.attach_embedder(FakeEmbedder(64))
    assert await held(world.memory) == before
    assert (await world.memory.check()).is_clean


async def test_a_copy_of_another_dimension_has_the_same_rows_and_the_store_stays_as_it_was(tmp_path: Path) -> None:
    small = GraphConfig(uri=str(tmp_path / "small.db"), embed_dim=384)
    large = GraphConfig(uri=str(tmp_path / "large.db"), embed_dim=512)
    world = await filled(config=small)
    before = {user: await held(world.memory, user) for user in ("ann", "bob")}

    async with fake_memory(config=large, embedder=OtherEmbedder(512)) as copy:
        done = await world.memory.reembed(into=copy)

        assert (done.users, done.embedded) == (2, 8)
        assert (await copy.check()).is_clean
        for user in ("ann", "bob"):
            assert await held(copy, user) == before[user]
            assert await held(world.memory, user) == before[user]
        found = await copy.search("Tom lives in Oslo", "ann", episode=False, entity=False)
        assert [each.content for hits in found.values() for _, each in hits] == ["Tom lives in Oslo."]
    assert (await world.memory.check()).is_clean
    await world.memory.close()


async def test_an_interrupted_copy_is_completed() -> None:
    world = await filled()
    copy = fake_memory(embedder=OtherEmbedder(96))

    def stop(progress: ReembedProgress) -> None:
        if progress.rows > 4:
            raise StoppedError

    with pytest.raises(StoppedError):
        await world.memory.reembed(on_progress=stop, into=copy)
    done = await world.memory.reembed(into=copy)

    assert (done.embedded, done.kept) == (3, 5)
    assert await held(copy, "bob") == await held(world.memory, "bob")


async def test_failed_adds_that_wait_go_along_into_a_copy() -> None:
    world = await filled()
    world.llm.replies["EntityExtraction"] = ValueError("down")
    with pytest.raises(LLMCallError):
        await world.memory.add_memory(*_document("Tom sings."))
    copy = fake_memory(embedder=OtherEmbedder(96))

    await world.memory.reembed(into=copy)

    assert [each.text for each in await copy.pending("ann")] == ["Tom sings."]


async def test_a_copy_with_other_things_of_the_user_in_it_is_refused() -> None:
    world, other = await filled(), await filled()

    with pytest.raises(StoreError, match="in the copy only"):
        await world.memory.reembed("ann", into=other.memory)


async def test_a_copy_into_the_same_store_is_refused() -> None:
    world = await filled()
    same = fake_memory(config=world.memory.config)

    with pytest.raises(InvalidInputError, match="same store"):
        await world.memory.reembed(into=same)
    with pytest.raises(InvalidInputError, match="into` is a str"):
        await world.memory.reembed(into="other.db")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="on_progress"):
        await world.memory.reembed(on_progress="print")  # type: ignore[arg-type]


def _document(text: str) -> tuple[EpisodeType, str, str]:
    return EpisodeType.DOCUMENT, "ann", text
