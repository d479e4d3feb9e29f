"""Reading stored episodes again: ids kept, failures, other strategies, and rebuilds that are stopped and done again."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from jiuwen_memory import (
    AddMemStrategy,
    Entity,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    MemoryItem,
    RebuildProgress,
    Relation,
)
from jiuwen_memory.errors import InvalidInputError, LLMCallError, ModelNotFoundError
from jiuwen_memory.testing import FakeLLM, fake_memory
from jiuwen_memory.testing.llm import Answer, FakePrompt
from tests.memory_support import all_entities, all_episodes, all_relations, entities, facts, problems

TEXTS = (
    "Tom lives-in Oslo. Tom likes tea.",
    "Ann lives-in Bergen. Ann knows Tom.",
    "Tom lives-in Oslo. Bob knows Ann.",
    "Bob likes tea. Bob lives-in Rome.",
)
STATEMENT = re.compile(r"\b([A-Z][a-z]+) (lives-in|likes|knows|owns) ([A-Za-z]+)\.")


class StoppedError(Exception):
    """The caller has had enough."""


def statements(prompt: FakePrompt) -> list[tuple[str, str, str]]:
    """Return what the text in a prompt states; earlier texts come before it."""
    found = {text: STATEMENT.findall(text) for text in TEXTS if text in prompt.text}
    last = max(found, key=prompt.text.rindex, default="")
    return found.get(last, [])


def named(prompt: FakePrompt) -> Answer:
    """Name what the text is about."""
    return entities({name: "Entity" for each in statements(prompt) for name in (each[0], each[2])})


def stated(prompt: FakePrompt) -> Answer:
    """State the facts of the text."""
    return facts(*((lhs, name, rhs, f"{lhs} {name} {rhs}.") for lhs, name, rhs in statements(prompt)))


def stated_otherwise(prompt: FakePrompt) -> Answer:
    """State all but what somebody likes, and in other words."""
    kept = [each for each in statements(prompt) if each[1] != "likes"]
    return facts(*((lhs, name, rhs, f"It is {lhs} who {name} {rhs}.") for lhs, name, rhs in kept))


def scripted(**options: float) -> FakeLLM:
    """Return a model that reads such texts."""
    return FakeLLM({"EntityExtraction": named, "RelationExtraction": stated}, **options)


def documents(user: str = "ann") -> list[MemoryItem]:
    """Return the texts, a day apart."""
    return [
        MemoryItem(
            user,
            text,
            EpisodeType.DOCUMENT,
            reference_time=datetime(2026, 5, day, tzinfo=UTC),
            session_id="talk",
            source=f"s{day}",
        )
        for day, text in enumerate(TEXTS, start=1)
    ]


async def filled(**options: Any) -> tuple[GraphMemory, FakeLLM]:
    """Return a memory that has read the texts, and its model."""
    llm = scripted()
    memory = fake_memory(llm=llm, **options)
    report = await memory.add_memories(documents())
    assert not report.failed
    return memory, llm


async def pictured(memory: GraphMemory) -> dict[str, Any]:
    """Return a graph by its names and sentences instead of its ids; summaries depend on what stood there before."""
    nodes, episodes = await all_entities(memory), await all_episodes(memory)
    names = {each.uuid: each.name for each in nodes.values()}
    texts = {each.uuid: each.content for each in episodes}

    def entity(each: Entity) -> tuple[Any, ...]:
        told = sorted(texts[uuid] for uuid in each.episodes)
        return each.obj_type, sorted(each.aliases), told, sorted(each.sources), each.mention_count

    def fact(each: Relation) -> tuple[Any, ...]:
        told = sorted(texts[uuid] for uuid in each.episodes)
        return names[each.lhs], each.name, names[each.rhs], told, sorted(each.sources), each.mention_count

    return {
        "entities": {name: entity(each) for name, each in nodes.items()},
        "facts": {text: fact(each) for text, each in (await all_relations(memory)).items()},
        "episodes": {each.content: sorted(names[uuid] for uuid in each.entities) for each in episodes},
    }


async def ids(memory: GraphMemory) -> dict[str, str]:
    """Return the ids of entities, facts and episodes by name, sentence and text."""
    found: dict[str, str] = {name: each.uuid for name, each in (await all_entities(memory)).items()}
    found |= {text: each.uuid for text, each in (await all_relations(memory)).items()}
    return found | {each.content: each.uuid for each in await all_episodes(memory)}


async def test_reading_the_same_again_changes_nothing_and_keeps_all_ids() -> None:
    memory, _ = await filled()
    picture, known = await pictured(memory), await ids(memory)

    report = await memory.rebuild("ann")

    assert (report.progress.total, report.progress.done, report.progress.failed, report.progress.kept) == (4, 4, 0, 0)
    assert await pictured(memory) == picture
    assert await ids(memory) == known
    assert await problems(memory) == []
    assert (await memory.check("ann")).is_clean


async def test_what_a_better_model_says_replaces_what_was_learnt_and_entities_keep_their_ids() -> None:
    memory, llm = await filled()
    known = await ids(memory)
    llm.replies["RelationExtraction"] = stated_otherwise

    await memory.rebuild("ann")

    found = await all_relations(memory)
    assert sorted(found) == [
        "It is Ann who knows Tom.",
        "It is Ann who lives-in Bergen.",
        "It is Bob who knows Ann.",
        "It is Bob who lives-in Rome.",
        "It is Tom who lives-in Oslo.",
    ]
    assert found["It is Tom who lives-in Oslo."].mention_count == 2
    assert not any("likes" in each.content for each in (await all_entities(memory)).values())
    now = await ids(memory)
    assert {name: now[name] for name in ("Tom", "Ann", "Bob", "Oslo", *TEXTS)} == {
        name: known[name] for name in ("Tom", "Ann", "Bob", "Oslo", *TEXTS)
    }
    assert await problems(memory) == []
    assert (await memory.check("ann")).is_clean


async def test_texts_are_read_in_the_order_of_their_time() -> None:
    llm = scripted()
    memory = fake_memory(llm=llm)
    for item in reversed(documents()):
        await memory.add_memories([item])
    before = len(llm.asked("EntityExtraction"))

    await memory.rebuild("ann")

    read = [statements(prompt) for prompt in llm.asked("EntityExtraction")[before:]]
    assert read == [STATEMENT.findall(text) for text in TEXTS]


async def test_a_graph_rebuilt_from_nothing_is_that_of_adding_with_the_other_strategy() -> None:
    memory, llm = await filled()
    other = fake_memory(llm=llm, strategy=AddMemStrategy(chinese_entity=False, max_co_occurs=2))
    await other.add_memories(documents())

    await memory.rebuild("ann", clear_first=True, strategy=AddMemStrategy(chinese_entity=False, max_co_occurs=2))

    assert await pictured(memory) == await pictured(other)
    kinds = [len(await all_relations(each, kind="co_occurs")) for each in (memory, other)]
    assert kinds[0] == kinds[1] > 0


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


async def test_another_strategy_or_another_name_reads_all_of_it_again() -> None:
    memory, _llm = await filled()
    await memory.rebuild("ann")

    same = await memory.rebuild("ann")
    other = await memory.rebuild("ann", strategy=AddMemStrategy(chinese_entity=False, summary_target=100))
    again = await memory.rebuild("ann", run="with the new model")

    assert [each.progress.kept for each in (same, other, again)] == [4, 0, 0]


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


async def test_clearing_first_leaves_nothing_of_the_old_graph() -> None:
    fresh, _llm = await filled()
    memory, _ = await filled()
    (oslo,) = [each for name, each in (await all_entities(memory)).items() if name == "Oslo"]
    (tom,) = [each for name, each in (await all_entities(memory)).items() if name == "Tom"]
    await memory.merge("ann", tom.uuid, oslo.uuid, dry_run=False)

    report = await memory.rebuild("ann", clear_first=True)

    assert report.progress.kept == 0
    assert await pictured(memory) == await pictured(fresh)
    assert (await memory.check("ann")).is_clean


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


async def test_the_spine_and_links_between_close_names_stay() -> None:
    memory = fake_memory(llm=scripted(), strategy=AddMemStrategy(chinese_entity=False, temporal_spine=True))
    await memory.add_memories(documents())
    await memory.link_synonyms("ann", min_similarity=0.01, top_k=1)
    links = {each.uuid for each in await memory.synonyms("ann")}
    spine = {each.uuid for each in (await all_relations(memory, kind="temporal_next")).values()}
    assert links and len(spine) == 3

    await memory.rebuild("ann")

    assert {each.uuid for each in await memory.synonyms("ann")} == links
    assert {each.uuid for each in (await all_relations(memory, kind="temporal_next")).values()} == spine


async def test_close_names_are_linked_while_reading_again_if_the_strategy_says_so() -> None:
    memory, _ = await filled()
    strategy = AddMemStrategy(chinese_entity=False, link_synonyms=True, skip_uuid_dedupe=True)
    heard: list[str] = []

    await memory.rebuild("ann", strategy=strategy, on_progress=lambda progress: heard.append(str(progress)))

    assert heard[-1].startswith("4/4 (0 failed, 0 read before), ")
    assert (await memory.check("ann")).is_clean


async def test_gists_are_made_anew_or_go() -> None:
    gists = {"GistExtraction": _gist, "GistFacts": _gist_facts}
    llm = FakeLLM({"EntityExtraction": named, "RelationExtraction": stated, **gists})
    strategy = AddMemStrategy(chinese_entity=False, extraction="episodic_gist")
    memory = fake_memory(llm=llm, strategy=strategy)
    await memory.add_memories(documents())
    before = [each.content for each in await all_episodes(memory) if each.is_gist]
    assert len(before) == 4

    await memory.rebuild("ann")
    again = [each.content for each in await all_episodes(memory) if each.is_gist]
    await memory.rebuild("ann", strategy=AddMemStrategy(chinese_entity=False))

    assert sorted(again) == sorted(before)
    assert all(not each.is_gist for each in await all_episodes(memory))
    assert len(await all_episodes(memory)) == 4
    assert (await memory.check("ann")).is_clean


def _gist_facts(prompt: FakePrompt) -> Answer:
    said = [
        {"fact": f"{lhs} {name} {rhs}.", "subject": lhs, "predicate": name, "object": rhs}
        for lhs, name, rhs in statements(prompt)
    ]
    return {"facts": said}


def _gist(prompt: FakePrompt) -> Answer:
    names = [{"name": name, "type": "Entity"} for each in statements(prompt) for name in (each[0], each[2])]
    return {"gists": [" ".join(" ".join(each) for each in statements(prompt))], "entities": names}


async def test_speakers_are_people_and_assistants_again_after_clearing() -> None:
    memory = fake_memory(
        {
            "EntityExtraction": entities({"Kim": "Entity", "Robo": "Entity"}),
            "RelationExtraction": facts(("Kim", "asks", "Robo", "Kim asks Robo.")),
        }
    )
    messages = [{"role": "user", "content": "May I ask?"}, {"role": "assistant", "content": "Yes."}]
    await memory.add_memory(EpisodeType.CONVERSATION, "ann", messages, {"user": "Kim", "assistant": "Robo"})
    before = {name: each.obj_type for name, each in (await all_entities(memory)).items()}
    assert before == {"Kim": "Human", "Robo": "AI"}

    await memory.rebuild("ann", clear_first=True)

    assert {name: each.obj_type for name, each in (await all_entities(memory)).items()} == before


async def test_a_fact_deleted_by_hand_comes_back_and_a_merge_of_what_stays_is_kept() -> None:
    memory, _ = await filled()
    known = await all_entities(memory)
    await memory.merge("ann", known["Ann"].uuid, known["Bob"].uuid, dry_run=False)
    deleted = (await all_relations(memory))["Tom likes tea."]
    await memory.delete_relation("ann", deleted.uuid)

    await memory.rebuild("ann")

    assert "Tom likes tea." in await all_relations(memory)
    assert (await memory.check("ann")).is_clean


async def test_what_cannot_be_rebuilt_is_refused() -> None:
    memory, _ = await filled()
    mute = GraphMemory(memory.config, language="en")
    mute.attach_embedder(memory.embedder)  # type: ignore[arg-type]

    with pytest.raises(InvalidInputError):
        await memory.rebuild("")
    with pytest.raises(InvalidInputError):
        await memory.rebuild("ann", strategy="staged")  # type: ignore[arg-type]
    with pytest.raises(ModelNotFoundError):
        await mute.rebuild("ann")


async def test_nothing_of_another_user_changes() -> None:
    memory, llm = await filled()
    await memory.add_memories(documents("bob"))
    llm.replies["RelationExtraction"] = stated_otherwise

    await memory.rebuild("bob", clear_first=True)

    assert "Tom likes tea." in await all_relations(memory, "ann")
    assert "Tom likes tea." not in await all_relations(memory, "bob")


async def run_in_process(path: Path, *, latency: float) -> None:
    """Fill a store and rebuild it with another answer, telling how far it is."""
    llm = scripted(latency=latency)
    async with fake_memory(llm=llm, config=GraphConfig(uri=str(path), embed_dim=64)) as memory:
        await memory.add_memories(documents())
        llm.replies["RelationExtraction"] = stated_otherwise
        await memory.rebuild("ann", on_progress=lambda progress: print(progress.done, flush=True))


@pytest.mark.slow
async def test_a_killed_rebuild_is_finished_by_another_call(tmp_path: Path) -> None:
    undisturbed, llm = await filled()
    llm.replies["RelationExtraction"] = stated_otherwise
    await undisturbed.rebuild("ann")
    path = tmp_path / "memory.db"
    await asyncio.to_thread(kill_midway, path)

    llm = scripted()
    llm.replies["RelationExtraction"] = stated_otherwise
    async with fake_memory(llm=llm, config=GraphConfig(uri=str(path), embed_dim=64)) as memory:
        report = await memory.rebuild("ann")

        assert 2 <= report.progress.kept < 4
        assert not report.failed
        assert await pictured(memory) == await pictured(undisturbed)
        assert (await memory.check("ann")).is_clean


def kill_midway(path: Path) -> None:
    """Rebuild a store in another process, and kill that when two episodes are read."""
    code = (
        "import asyncio, pathlib, tests.test_rebuild as t;"
        f"asyncio.run(t.run_in_process(pathlib.Path({str(path)!r}), latency=0.1))"
    )
    root = Path(__file__).resolve().parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root, env=environment
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        os.kill(process.pid, signal.SIGKILL)
    assert lines[-1].strip() == "2"
