"""Rebuilds that fail, are stopped, cancelled or killed in the middle, and are done again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from jiuwen_memory import AddMemStrategy, GraphConfig, RebuildProgress
from jiuwen_memory.errors import LLMCallError
from jiuwen_memory.memory_core.config.graph import Extraction
from jiuwen_memory.testing import fake_memory
from tests.killing import kill_midway
from tests.memory_support import all_entities, all_relations
from tests.rebuild_support import (
    TEXTS,
    StoppedError,
    documents,
    filled,
    ids,
    pictured,
    scripted,
    stated_otherwise,
    statements,
)


async def test_an_episode_that_fails_keeps_its_facts_and_the_rest_is_read() -> None:
    memory, llm = await filled(
        config=GraphConfig(uri=":memory:", backend="memory", embed_dim=64, request_max_retries=1)
    )
    before = await pictured(memory)
    llm.replies["RelationExtraction"] = lambda prompt: (
        ValueError("down") if ("Ann", "knows", "Tom") in statements(prompt) else stated_otherwise(prompt)
    )

    report = await memory.rebuild("ann")

    (failed,) = report.failed
    assert isinstance(report.failed[failed], LLMCallError)
    assert (report.progress.done, report.progress.failed) == (4, 1)
    now = await pictured(memory)
    assert now["facts"]["Ann knows Tom."] == before["facts"]["Ann knows Tom."]
    assert "It is Bob who lives-in Rome." in now["facts"]
    assert (await memory.check("ann")).is_clean


async def test_a_second_call_reads_only_what_failed() -> None:
    memory, llm = await filled(
        config=GraphConfig(uri=":memory:", backend="memory", embed_dim=64, request_max_retries=1)
    )
    llm.replies["RelationExtraction"] = lambda prompt: (
        ValueError("down") if ("Ann", "knows", "Tom") in statements(prompt) else stated_otherwise(prompt)
    )
    await memory.rebuild("ann")
    llm.replies["RelationExtraction"] = stated_otherwise
    asked = len(llm.asked("EntityExtraction"))

    report = await memory.rebuild("ann")

    assert (report.progress.done, report.progress.kept, report.progress.failed) == (4, 3, 0)
    assert len(llm.asked("EntityExtraction")) == asked + 1
    assert "It is Ann who knows Tom." in await all_relations(memory)


async def test_a_stopped_rebuild_is_finished_by_another_call() -> None:
    undisturbed, llm = await filled()
    llm.replies["RelationExtraction"] = stated_otherwise
    await undisturbed.rebuild("ann")
    memory, llm = await filled()
    llm.replies["RelationExtraction"] = stated_otherwise
    heard: list[RebuildProgress] = []

    def stop(progress: RebuildProgress) -> None:
        heard.append(progress)
        if progress.done == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        await memory.rebuild("ann", on_progress=stop)
    assert (await memory.check("ann")).is_clean
    report = await memory.rebuild("ann")

    assert [each.done for each in heard] == [1, 2]
    assert (report.progress.done, report.progress.kept) == (4, 2)
    assert await pictured(memory) == await pictured(undisturbed)


async def test_a_cancelled_rebuild_leaves_a_whole_graph_and_can_be_finished() -> None:
    undisturbed, _ = await filled()
    memory, _llm = await filled()
    asked = asyncio.Event()

    async def wait(progress: RebuildProgress) -> None:
        asked.set()
        await asyncio.sleep(60)

    running = asyncio.ensure_future(memory.rebuild("ann", on_progress=wait))
    await asyncio.wait_for(asked.wait(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert (await memory.check("ann")).is_clean
    report = await memory.rebuild("ann")
    assert report.progress.kept == 1
    assert await pictured(memory) == await pictured(undisturbed)


async def test_a_stopped_rebuild_that_cleared_goes_on_and_does_not_clear_again() -> None:
    undisturbed, _ = await filled()
    memory, _llm = await filled()

    def stop(progress: RebuildProgress) -> None:
        if progress.done == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        await memory.rebuild("ann", clear_first=True, on_progress=stop)
    assert sorted(await all_entities(memory)) == ["Ann", "Bergen", "Oslo", "Tom", "tea"]
    assert (await memory.check("ann")).is_clean
    report = await memory.rebuild("ann", clear_first=True)

    assert report.progress.kept == 2
    assert await pictured(memory) == await pictured(undisturbed)


async def test_a_finished_rebuild_that_clears_can_be_done_again() -> None:
    memory, llm = await filled()
    await memory.rebuild("ann", clear_first=True)
    asked = len(llm.asked("EntityExtraction"))

    report = await memory.rebuild("ann", clear_first=True)

    assert report.progress.kept == 0
    assert len(llm.asked("EntityExtraction")) == asked + 4


def read_by(method: Extraction) -> AddMemStrategy:
    """Return the strategy of a rebuild."""
    return AddMemStrategy(chinese_entity=False, extraction=method)


async def run_in_process(path: Path, method: Extraction) -> None:
    """Fill a store and rebuild it in another way, telling how far it is."""
    llm = scripted(latency=0.1)
    async with fake_memory(llm=llm, config=GraphConfig(uri=str(path), embed_dim=64)) as memory:
        await memory.add_memories(documents())
        llm.replies["RelationExtraction"] = stated_otherwise
        await memory.rebuild("ann", strategy=read_by(method), on_progress=lambda each: print(each.done, flush=True))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["staged", "openie", "episodic_gist"])
async def test_a_killed_rebuild_is_finished_by_another_call(tmp_path: Path, method: Extraction) -> None:
    undisturbed, llm = await filled()
    llm.replies["RelationExtraction"] = stated_otherwise
    await undisturbed.rebuild("ann", strategy=read_by(method))
    path = tmp_path / "memory.db"
    assert await kill_midway(__name__, path, method, lines=2) == "2"

    llm = scripted()
    llm.replies["RelationExtraction"] = stated_otherwise
    async with fake_memory(llm=llm, config=GraphConfig(uri=str(path), embed_dim=64)) as memory:
        before = await ids(memory)
        report = await memory.rebuild("ann", strategy=read_by(method))

        after = await ids(memory)
        lasting = {"Tom", "Ann", "Bob", "Oslo", *TEXTS}
        assert 2 <= report.progress.kept < 4
        assert not report.failed
        assert await pictured(memory) == await pictured(undisturbed)
        assert {each: after[each] for each in lasting} == {each: before[each] for each in lasting}
        assert (await memory.check("ann")).is_clean
