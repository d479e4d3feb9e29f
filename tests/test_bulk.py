"""Adding many inputs: order, failures, repeats, progress, shared requests, and a process that is killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from jiuwen_memory import BulkProgress, EpisodeType, GraphConfig, GraphMemory, MemoryItem
from jiuwen_memory.errors import InvalidInputError, LLMCallError
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, fake_memory
from jiuwen_memory.testing.llm import Answer, FakePrompt
from tests.killing import kill_midway
from tests.memory_support import MAY, all_entities, all_episodes, all_relations, entities, facts

USERS = ("ann", "bob", "cem")


def found(prompt: FakePrompt) -> Answer:
    """Name the thing that a text such as `ann knows item 3.` is about."""
    return entities(dict.fromkeys(_names(prompt), "Entity"))


def stated(prompt: FakePrompt) -> Answer:
    """State the fact of such a text."""
    return facts(*((name, "is in", name, f"{name} is in it.") for name in _names(prompt)))


def _names(prompt: FakePrompt) -> list[str]:
    words = prompt.text.replace("\n", " ").split()
    # What was said before comes first in a prompt, the text itself last.
    return [word.strip(".") for word in words if word.startswith("thing-") and word.endswith(".")][-1:]


def scripted(**options: float) -> FakeLLM:
    """Return a model that reads such texts."""
    return FakeLLM({"EntityExtraction": found, "RelationExtraction": stated}, **options)


def document(user: str, number: int) -> MemoryItem:
    """Return one item of a user."""
    return MemoryItem(user, f"{user} keeps thing-{user}-{number}.", EpisodeType.DOCUMENT)


def documents(users: tuple[str, ...] = USERS, each: int = 4) -> list[MemoryItem]:
    """Return items of several users, mixed."""
    return [document(user, number) for number in range(each) for user in users]


async def told(memory: GraphMemory, user: str) -> list[str]:
    """Return a user's texts in the order in which they were stored."""
    return [each.content for each in await all_episodes(memory, user)]


async def test_every_item_is_stored_and_reported_in_the_order_given() -> None:
    memory = fake_memory(llm=scripted())
    items = documents()

    report = await memory.add_memories(items)

    assert [each.item.content for each in report.results] == [each.content for each in items]
    assert not report.failed
    for user in USERS:
        assert Counter(await told(memory, user)) == Counter(str(each.content) for each in items if each.user_id == user)


async def test_the_items_of_a_user_are_read_in_order() -> None:
    llm = scripted(latency=0.001)
    memory = fake_memory(llm=llm)

    await memory.add_memories(documents(each=6))

    for user in USERS:
        asked = [_names(prompt)[-1] for prompt in llm.asked("EntityExtraction") if f"thing-{user}-" in prompt.text]
        assert asked == [f"thing-{user}-{number}" for number in range(6)]


async def test_the_graphs_are_those_of_adding_one_by_one() -> None:
    bulk, single = fake_memory(llm=scripted()), fake_memory(llm=scripted())
    items = documents()

    await bulk.add_memories(items)
    for item in items:
        await single.add_memory(item.src_type, item.user_id, item.content)

    for user in USERS:
        assert set(await all_entities(bulk, user)) == set(await all_entities(single, user))
        assert set(await all_relations(bulk, user)) == set(await all_relations(single, user))


async def test_a_failing_item_is_reported_and_the_rest_goes_on() -> None:
    llm = scripted()
    memory = fake_memory(llm=llm, strategy=None)
    items = [document("ann", 1), MemoryItem("ann", "", EpisodeType.DOCUMENT), document("ann", 2), document("bob", 1)]

    report = await memory.add_memories(items)

    (failed,) = report.failed
    assert failed.item is not None and failed.item.content == ""
    assert isinstance(failed.error, InvalidInputError)
    assert len(await told(memory, "ann")) == 2
    assert (report.progress.done, report.progress.failed) == (4, 1)


async def test_the_same_items_again_do_what_is_missing_and_repeat_nothing() -> None:
    llm = scripted()
    memory = fake_memory(llm=llm)
    items = [*documents(), document("ann", 1)]
    llm.replies["EntityExtraction"] = lambda prompt: ValueError("down") if "bob" in prompt.text else found(prompt)
    first = await memory.add_memories(items)
    llm.replies["EntityExtraction"] = found

    second = await memory.add_memories(items)

    assert {each.item.user_id for each in first.failed} == {"bob"}
    assert all(isinstance(each.error, LLMCallError) for each in first.failed)
    assert [each.is_repeat for each in second.results] == [each.item.user_id != "bob" for each in second.results]
    assert (len(await told(memory, "ann")), len(await told(memory, "bob"))) == (5, 4)
    assert await memory.pending("bob") == []


async def test_equal_items_in_one_call_are_said_twice_unless_a_time_tells_them_to_be_one() -> None:
    memory = fake_memory(llm=scripted())
    said = MemoryItem("bob", "It rained.", EpisodeType.DOCUMENT, reference_time=MAY)

    report = await memory.add_memories([document("ann", 1), document("ann", 1), said, said])

    assert [each.is_repeat for each in report.results] == [False, False, False, True]


async def test_progress_is_told_after_each_item() -> None:
    heard: list[BulkProgress] = []
    memory = fake_memory(llm=scripted())

    report = await memory.add_memories(documents(), on_progress=heard.append)

    assert [each.done for each in heard] == list(range(1, 13))
    assert heard[-1].calls > 0 and heard[-1].input_tokens > 0 and heard[-1].rate > 0
    assert str(heard[-1]).startswith("12/12 (0 failed, 0 repeated)")
    assert report.progress.done == 12


async def test_progress_may_be_a_coroutine_and_its_failure_stops_the_run() -> None:
    memory = fake_memory(llm=scripted())

    async def refuse(progress: BulkProgress) -> None:
        raise KeyError(progress.done)

    with pytest.raises(KeyError):
        await memory.add_memories(documents(), on_progress=refuse)
    assert (await memory.check()).is_clean


async def test_a_cancelled_run_leaves_whole_inputs_and_can_be_done_again() -> None:
    llm = scripted(latency=0.01)
    memory = fake_memory(llm=llm)
    items = documents(each=5)
    enough = asyncio.Event()

    def heard(progress: BulkProgress) -> None:
        if progress.done == 4:
            enough.set()

    running = asyncio.ensure_future(memory.add_memories(items, on_progress=heard))
    await asyncio.wait_for(enough.wait(), 30)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await memory.check()).is_clean
    await memory.add_memories(items)

    for user in USERS:
        assert len(await told(memory, user)) == 5


UNORDERED: list[tuple[Any, EpisodeType, dict[str, Any]]] = [
    ({1: "one", "two": 2}, EpisodeType.JSON, {}),
    ({"place": {(1, 2): "corner"}}, EpisodeType.JSON, {}),
    ("It rained.", EpisodeType.DOCUMENT, {"content_fmt_kwargs": "user"}),
]


async def test_an_item_that_cannot_be_put_in_order_does_not_keep_the_others_out() -> None:
    memory = fake_memory(llm=scripted())
    odd = [MemoryItem("ann", content, kind, **options) for content, kind, options in UNORDERED]

    first = await memory.add_memories([*odd, document("ann", 1)])
    again = await memory.add_memories([*odd, document("ann", 1)])

    assert [isinstance(each.error, InvalidInputError) for each in first.results] == [False, True, True, False]
    assert [each.is_repeat for each in again.results] == [True, False, False, True]


async def test_what_failed_counts_in_what_a_run_cost() -> None:
    llm = FakeLLM({"EntityExtraction": "I cannot."})
    memory = fake_memory(llm=llm)
    # The first question waits for its prompt's file, and counts although it is called off while it does.
    await memory.add_memories([document("cem", 1)])
    llm.prompts.clear()

    report = await memory.add_memories([document("ann", 1), document("bob", 1)])

    assert report.progress.failed == 2
    assert report.progress.calls == llm.calls == 6
    assert report.progress.input_tokens > report.progress.output_tokens > 0


async def test_users_share_requests_for_vectors() -> None:
    shared, own = FakeEmbedder(), FakeEmbedder()
    bulk = fake_memory(llm=scripted(latency=0.02), embedder=shared)
    single = fake_memory(llm=scripted(latency=0.02), embedder=own)
    items = documents(("ann", "bob", "cem", "dov", "eve"), each=2)

    await bulk.add_memories(items)
    for item in items:
        await single.add_memory(item.src_type, item.user_id, item.content)

    assert shared.calls < own.calls / 2


class Picky(FakeEmbedder):
    """An embedding model that refuses any request with a text of bob's in it."""

    async def embed_documents(self, texts: list[str], batch_size: int | None = None) -> list[list[float]]:  # type: ignore[override]
        if any("bob" in text for text in texts):
            raise ConnectionError("refused")
        return await super().embed_documents(texts, batch_size)


async def test_one_users_texts_do_not_fail_anothers_in_a_shared_request() -> None:
    config = GraphConfig(uri=":memory:", backend="memory", embed_dim=64, request_max_retries=1)
    memory = fake_memory(llm=scripted(), embedder=Picky(), config=config)

    report = await memory.add_memories(documents())

    assert {each.item.user_id for each in report.failed} == {"bob"}
    assert len(await told(memory, "ann")) == len(await told(memory, "cem")) == 4


async def later() -> AsyncIterator[MemoryItem]:
    yield MemoryItem("ann", "text")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: {"items": ["text"]}, "holds a str"),
        (lambda: {"items": None}, "items is a NoneType"),
        (lambda: {"items": MemoryItem("ann", "text")}, "items is a MemoryItem"),
        (lambda: {"items": later()}, "items is a async_generator"),
        (lambda: {"items": [], "users_at_once": "8"}, "users_at_once is '8'"),
        (lambda: {"items": [], "users_at_once": 0}, "users_at_once is 0"),
        (lambda: {"items": [], "on_progress": "print"}, "on_progress is a str"),
    ],
    ids=["texts", "nothing", "a single item", "asynchronous", "users as text", "no users", "no function"],
)
async def test_what_cannot_be_added_at_all_is_refused(wrong: Callable[[], dict[str, Any]], told: str) -> None:
    memory = fake_memory(llm=scripted())

    with pytest.raises(InvalidInputError, match=told):
        await memory.add_memories(**wrong())


@pytest.mark.parametrize("user", [3, None, "", ["ann"]], ids=repr)
async def test_an_item_of_nobody_does_not_keep_the_others_out(user: Any) -> None:
    memory = fake_memory(llm=scripted())

    report = await memory.add_memories([MemoryItem(user, "text"), *documents()])

    assert [type(each.error) for each in report.failed] == [InvalidInputError]
    assert (report.progress.done, report.progress.failed) == (len(documents()) + 1, 1)


async def run_in_process(path: Path, latency: float) -> None:
    """Add everything to the store at a path."""
    config = GraphConfig(uri=str(path), embed_dim=64)
    async with fake_memory(llm=scripted(latency=latency), config=config) as memory:
        await memory.add_memories(documents(), on_progress=lambda progress: print(progress.done, flush=True))


@pytest.mark.slow
async def test_a_killed_run_is_done_again_without_loss_or_repeat(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    assert await kill_midway(__name__, path, 0.05, lines=4) == "4"

    config = GraphConfig(uri=str(path), embed_dim=64)
    async with fake_memory(llm=scripted(), config=config) as memory:
        report = await memory.add_memories(documents())

        assert not report.failed
        assert 3 <= report.progress.repeated < 12
        for user in USERS:
            items = [str(each.content) for each in documents() if each.user_id == user]
            assert sorted(await told(memory, user)) == sorted(items)
            assert len(await all_relations(memory, user)) == 4
        assert (await memory.check()).is_clean
