from __future__ import annotations

import asyncio
import threading

import pytest

from jiuwen_memory import EPISODE_COLLECTION, Episode, GraphMemUpdate
from jiuwen_memory.errors import InvalidInputError, LockLostError, LockTimeoutError
from jiuwen_memory.foundation.locks import InProcessLocks, UserLocks, held_users
from jiuwen_memory.foundation.store.graph import JournalEntry
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_update
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder
from jiuwen_memory.testing import FakeEmbedder, fake_memory


def test_the_locks_have_the_shape_that_a_memory_asks_for() -> None:
    assert isinstance(InProcessLocks(), UserLocks)


async def test_two_writers_of_one_user_take_turns_even_with_lock_objects_of_their_own() -> None:
    events: list[str] = []

    async def write(name: str) -> None:
        async with InProcessLocks().hold("store", "alice"):
            events.append(f"{name} begins")
            await asyncio.sleep(0.01)
            events.append(f"{name} ends")

    await asyncio.gather(write("a"), write("b"), write("c"))

    assert events == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]
    assert held_users() == ()


async def test_other_users_and_other_stores_do_not_wait() -> None:
    locks = InProcessLocks(wait=0)

    async with locks.hold("store", "alice"), locks.hold("store", "bob"), locks.hold("elsewhere", "alice"):
        held = set(held_users())

    assert held == {("store", "alice"), ("store", "bob"), ("elsewhere", "alice")}
    assert held_users() == ()


def test_writers_in_two_loops_of_two_threads_take_turns() -> None:
    inside = 0
    most = 0
    finished: list[int] = []
    ready = threading.Barrier(2)

    async def write() -> None:
        nonlocal inside, most
        async with InProcessLocks().hold("store", "alice"):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1

    async def write_often() -> None:
        await asyncio.gather(*(write() for _ in range(10)))

    def run() -> None:
        ready.wait(10)
        asyncio.run(write_often())
        finished.append(1)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert finished == [1, 1]
    assert most == 1
    assert held_users() == ()


async def test_a_wait_leaves_the_loop_free_for_others() -> None:
    locks = InProcessLocks()
    other_ran = asyncio.Event()

    async def wait_for_alice() -> None:
        async with locks.hold("store", "alice"):
            assert other_ran.is_set()

    async with locks.hold("store", "alice"):
        waiting = asyncio.ensure_future(wait_for_alice())
        await asyncio.sleep(0)
        other_ran.set()
    await waiting

    assert held_users() == ()


async def test_a_cancelled_waiter_leaves_no_trace() -> None:
    locks = InProcessLocks()

    async def wait_for_alice() -> None:
        async with locks.hold("store", "alice"):
            raise AssertionError("the lock was not free")

    async with locks.hold("store", "alice"):
        waiting = asyncio.ensure_future(wait_for_alice())
        await asyncio.sleep(0.01)
        waiting.cancel()
        outcome = await asyncio.gather(waiting, return_exceptions=True)

    assert isinstance(outcome[0], asyncio.CancelledError)
    assert held_users() == ()
    async with InProcessLocks(wait=0).hold("store", "alice"):
        assert held_users() == (("store", "alice"),)


async def test_a_cancelled_holder_lets_the_next_one_in() -> None:
    locks = InProcessLocks()
    holding = asyncio.Event()

    async def hold_for_ever() -> None:
        async with locks.hold("store", "alice"):
            holding.set()
            await asyncio.Event().wait()

    holder = asyncio.ensure_future(hold_for_ever())
    await holding.wait()
    holder.cancel()
    async with locks.hold("store", "alice"):
        ended = holder.done()

    assert ended
    assert holder.cancelled()
    assert held_users() == ()


async def test_a_failing_holder_lets_the_next_one_in() -> None:
    locks = InProcessLocks(wait=0)

    with pytest.raises(ValueError, match="inside"):
        async with locks.hold("store", "alice"):
            raise ValueError("inside")

    assert held_users() == ()


async def test_a_wait_that_is_too_long_ends_in_an_error_that_names_the_user_and_the_wait() -> None:
    async def try_to_write() -> None:
        async with InProcessLocks(wait=0.02).hold("store", "alice"):
            raise AssertionError("the lock was not free")

    async with InProcessLocks().hold("store", "alice"):
        with pytest.raises(LockTimeoutError, match=r"'alice'.*0\.02 seconds"):
            await asyncio.ensure_future(try_to_write())
        still_held = held_users()

    assert still_held == (("store", "alice"),)
    assert held_users() == ()


@pytest.mark.parametrize("wait", [-1.0, float("nan"), float("inf")])
def test_an_impossible_wait_is_refused(wait: float) -> None:
    with pytest.raises(InvalidInputError):
        InProcessLocks(wait=wait)


async def test_a_commit_whose_lock_is_lost_writes_nothing() -> None:
    memory = fake_memory()
    embedder = Embedder(FakeEmbedder(), dimension=64, tries=1, batch_size=8)
    update = GraphMemUpdate(added_episode=[Episode(content="Ada lives in Porto.", user_id="ann")])
    asked: list[list[JournalEntry]] = []

    async def confirm() -> None:
        asked.append(await memory.db_backend.journal.entries("ann"))
        raise LockLostError("lost")

    with pytest.raises(LockLostError):
        await commit_update(update, "ann", store=memory.db_backend, embedder=embedder, confirm=confirm)
    written = await memory.db_backend.query(EPISODE_COLLECTION, user=filter_user("ann"))
    journal = await memory.db_backend.journal.entries("ann")

    assert asked == [[]]
    assert written == []
    assert journal == []
    await memory.close()
