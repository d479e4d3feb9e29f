"""Locks between processes, with a real Redis on loopback and real processes beside this one."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from redis.asyncio import Redis

from jiuwen_memory.errors import (
    InvalidInputError,
    LockLostError,
    LockServiceError,
    LockTimeoutError,
    MissingExtraError,
    ServiceError,
    SetupError,
)
from jiuwen_memory.foundation.locks import InProcessLocks, Lease, UserLocks, held_users
from jiuwen_memory.foundation.redis_locks import DEFAULT_PREFIX, RedisUserLocks
from tests.redis_support import (
    STORE,
    RedisServer,
    come_true,
    line_of,
    other_process,
    redis_server,
    tell,
    write_file,
)

HOSTILE = [
    "",
    " ",
    "ann",
    "ann\n",
    "ann\r\nDEL *\r\n",
    "ann\0bob",
    'ann", "bob',
    "ann:next",
    "{ann}",
    "*",
    "李雷\u202e",
    "\ud83d",
    "a" * 100_000,
    "é",
    "e\u0301",
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One Redis for the tests that leave it in peace."""
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis for a test that ill-treats it."""
    with redis_server(tmp_path) as server:
        yield server


@pytest.fixture
async def redis(shared: RedisServer) -> AsyncIterator[Redis]:
    """A look at what the shared Redis holds; nothing may be left there, nor any task here."""
    client = Redis.from_url(shared.url, decode_responses=True)
    async with client:
        yield client
        left = await client.keys()
    assert left == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert held_users() == ()


async def only_key(redis: Redis) -> str:
    """The key of the only lock."""
    [key] = await redis.keys(f"{DEFAULT_PREFIX}*")
    return key.decode() if isinstance(key, bytes) else str(key)


async def is_next(redis: Redis) -> bool:
    """Whether somebody waits whose turn is next."""
    return len(await redis.keys("*:next")) == 1


def test_the_locks_have_the_shape_that_a_memory_asks_for() -> None:
    assert isinstance(RedisUserLocks("redis://localhost"), UserLocks)
    assert issubclass(LockServiceError, ServiceError)


async def test_a_lease_in_one_process_always_confirms() -> None:
    async with InProcessLocks().hold(STORE, "ann") as lease:
        await lease.confirm()

        assert isinstance(lease, Lease)


async def test_the_lock_is_one_key_with_an_end_and_nothing_is_left_of_it(redis: Redis, shared: RedisServer) -> None:
    async with RedisUserLocks(shared.url, lease=30).hold(STORE, "ann") as lease:
        await lease.confirm()
        key = await only_key(redis)
        end = await redis.pttl(key)

        assert isinstance(lease, Lease)
        assert 0 < end <= 30_000
        assert "ann" not in key
        assert held_users() == ((STORE, "ann"),)


async def test_two_processes_never_write_at_once_and_take_turns(
    redis: Redis, shared: RedisServer, tmp_path: Path
) -> None:
    file = tmp_path / "written"

    with other_process("write", shared.url, "ann", file, 8) as other:
        line_of(other)
        tell(other)
        await write_file(RedisUserLocks(shared.url), "ann", file, times=8, name="own")
        await asyncio.to_thread(other.wait)
    lines = file.read_text().split()
    changes = sum(one != following for one, following in pairwise(lines))

    assert sorted(lines) == ["other"] * 8 + ["own"] * 8
    assert changes >= 8


async def test_while_another_process_holds_the_lock_only_that_user_waits(redis: Redis, shared: RedisServer) -> None:
    locks = RedisUserLocks(shared.url, wait=0.2)

    with other_process("hold", shared.url, "ann", 30) as other:
        said = line_of(other)
        async with locks.hold(STORE, "bob"), locks.hold("elsewhere", "ann"):
            with pytest.raises(LockTimeoutError, match=r"'ann'.*0\.2 seconds"):
                async with locks.hold(STORE, "ann"):
                    raise AssertionError("the lock was not free")
        other.communicate("")
    async with locks.hold(STORE, "ann"):
        pass

    assert said == "held"


async def test_without_a_wait_there_is_one_try(redis: Redis, shared: RedisServer) -> None:
    locks = RedisUserLocks(shared.url, wait=0)

    async with locks.hold(STORE, "ann"), locks.hold(STORE, "bob"):
        keys = await redis.keys()
    with other_process("hold", shared.url, "ann", 30) as other:
        line_of(other)
        with pytest.raises(LockTimeoutError):
            await locks.hold(STORE, "ann").__aenter__()
        other.communicate("")

    assert len(keys) == 2


async def test_a_held_lock_outlives_its_lease(redis: Redis, shared: RedisServer) -> None:
    async with RedisUserLocks(shared.url, lease=1.5).hold(STORE, "ann") as lease:
        token = await redis.get(await only_key(redis))
        await asyncio.sleep(2.5)
        still = await redis.get(await only_key(redis))
        await lease.confirm()

    assert token
    assert still == token


async def test_confirming_gives_the_lock_a_whole_lease_again(redis: Redis, shared: RedisServer) -> None:
    async with RedisUserLocks(shared.url, lease=60).hold(STORE, "ann") as lease:
        key = await only_key(redis)
        await redis.pexpire(key, 1_000)
        await lease.confirm()
        end = await redis.pttl(key)

    assert end > 30_000


async def test_a_lock_whose_key_is_gone_is_lost(redis: Redis, shared: RedisServer) -> None:
    async with RedisUserLocks(shared.url).hold(STORE, "ann") as lease:
        await redis.delete(await only_key(redis))
        with pytest.raises(LockLostError, match="'ann'"):
            await lease.confirm()


async def test_a_lock_that_somebody_else_has_is_lost_and_stays_theirs(redis: Redis, shared: RedisServer) -> None:
    async with RedisUserLocks(shared.url).hold(STORE, "ann") as lease:
        key = await only_key(redis)
        await redis.set(key, "somebody else")
        with pytest.raises(LockLostError):
            await lease.confirm()
    theirs = await redis.get(key)
    await redis.delete(key)

    assert theirs == "somebody else"


async def test_the_renewal_notices_a_loss_and_says_so(
    redis: Redis, shared: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with RedisUserLocks(shared.url, lease=3).hold(STORE, "ann") as lease:
        assert await redis.delete(await only_key(redis)) == 1
        await come_true(lambda: "was lost" in caplog.text)
        with pytest.raises(LockLostError):
            await lease.confirm()


async def test_after_the_context_nothing_is_confirmed(redis: Redis, shared: RedisServer) -> None:
    client = Redis.from_url(shared.url)
    async with client:
        async with RedisUserLocks(client).hold(STORE, "ann") as lease:
            await lease.confirm()
        with pytest.raises(LockLostError):
            await lease.confirm()


async def test_when_redis_dies_nothing_is_confirmed_and_when_it_comes_back_empty_the_lock_is_lost(
    own: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with RedisUserLocks(own.url).hold(STORE, "ann") as lease:
        own.kill()
        with pytest.raises(LockServiceError):
            await lease.confirm()
        own.start()
        with pytest.raises(LockLostError):
            await lease.confirm()

    assert held_users() == ()


async def test_a_dead_redis_does_not_hide_what_the_body_raises(
    own: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KeyError, match="inside"):
        async with RedisUserLocks(own.url).hold(STORE, "ann"):
            own.kill()
            raise KeyError("inside")

    assert "could not be released" in caplog.text
    assert held_users() == ()


async def test_a_redis_that_is_away_for_less_than_a_lease_does_no_harm(
    own: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with Redis.from_url(own.url) as client, RedisUserLocks(own.url, lease=5).hold(STORE, "ann") as lease:
        # However long a loaded machine takes to notice, it is less than this.
        assert await client.expire(await only_key(client), 600)
        own.pause()
        await come_true(lambda: "could not be renewed" in caplog.text)
        own.go_on()
        await lease.confirm()


async def test_without_a_redis_the_error_is_of_a_kind_of_its_own(own: RedisServer) -> None:
    own.kill()

    with pytest.raises(LockServiceError, match="Redis") as caught:
        await RedisUserLocks(own.url).hold(STORE, "ann").__aenter__()

    assert caught.value.retryable
    assert held_users() == ()


async def test_a_silent_redis_is_an_error_and_no_endless_wait(own: RedisServer) -> None:
    own.pause()

    with pytest.raises(LockServiceError):
        await RedisUserLocks(own.url, lease=0.6).hold(STORE, "ann").__aenter__()
    own.go_on()

    assert held_users() == ()


async def test_a_refusing_redis_is_an_error_that_does_not_tell_the_password(own: RedisServer) -> None:
    async with Redis.from_url(own.url) as client:
        await client.config_set("requirepass", "right")

    with pytest.raises(LockServiceError) as caught:
        await RedisUserLocks(own.url.replace("127", ":wrong-one@127", 1)).hold(STORE, "ann").__aenter__()
    async with RedisUserLocks(own.url.replace("127", ":right@127", 1)).hold(STORE, "ann") as lease:
        await lease.confirm()

    assert "wrong-one" not in f"{caught.value} {caught.value.__cause__}"


async def test_a_cancelled_waiter_leaves_no_trace(redis: Redis, shared: RedisServer) -> None:
    with other_process("hold", shared.url, "ann", 30) as other:
        line_of(other)
        waiting = asyncio.ensure_future(RedisUserLocks(shared.url).hold(STORE, "ann").__aenter__())
        await come_true(lambda: is_next(redis))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        left = await redis.keys()
        other.communicate("")

    assert waiting.cancelled()
    assert len(left) == 1


# The whole takes some 60 to 110 turns of the loop.
@pytest.mark.parametrize("moment", range(0, 120, 5))
async def test_a_cancellation_at_any_moment_leaves_no_trace(redis: Redis, shared: RedisServer, moment: int) -> None:
    holding = asyncio.Event()

    async def hold_for_a_while() -> None:
        async with RedisUserLocks(shared.url).hold(STORE, "ann") as lease:
            holding.set()
            await lease.confirm()

    task = asyncio.ensure_future(hold_for_a_while())
    for _ in range(moment):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert task.done()
    assert await redis.keys() == []


async def test_a_failing_holder_lets_the_next_one_in(redis: Redis, shared: RedisServer) -> None:
    locks = RedisUserLocks(shared.url, wait=0)

    with pytest.raises(ValueError, match="inside"):
        async with locks.hold(STORE, "ann"):
            raise ValueError("inside")
    async with locks.hold(STORE, "ann") as lease:
        await lease.confirm()


async def test_a_holder_that_is_killed_holds_up_others_for_its_lease(redis: Redis, shared: RedisServer) -> None:
    with other_process("hold", shared.url, "ann", 1.5) as other:
        line_of(other)
        other.kill()
        other.wait()
        left = await redis.keys()
        async with RedisUserLocks(shared.url).hold(STORE, "ann") as lease:
            await lease.confirm()

    assert len(left) == 1


async def test_user_ids_of_any_characters_have_locks_of_their_own(redis: Redis, shared: RedisServer) -> None:
    locks = RedisUserLocks(shared.url, wait=0)
    holds = [locks.hold(STORE, user_id) for user_id in HOSTILE]

    leases = [await hold.__aenter__() for hold in holds]
    keys = await redis.keys()
    for lease in leases:
        await lease.confirm()
    for hold in holds:
        await hold.__aexit__(None, None, None)

    assert len(keys) == len(HOSTILE)
    assert all(str(key).removeprefix(DEFAULT_PREFIX).isalnum() for key in keys)


async def test_the_boundary_between_store_and_user_counts(redis: Redis, shared: RedisServer) -> None:
    locks = RedisUserLocks(shared.url, wait=0, prefix="other:")

    async with locks.hold("a", "bc"), locks.hold("ab", "c"):
        keys = await redis.keys("other:*")

    assert len(keys) == 2


def test_one_object_serves_several_event_loops(shared: RedisServer, tmp_path: Path) -> None:
    locks = RedisUserLocks(shared.url)
    file = tmp_path / "written"

    async def write() -> None:
        # Two loops beside each other, each in a thread of its own.
        writes = (
            asyncio.to_thread(asyncio.run, write_file(locks, "ann", file, times=5, name=name)) for name in ("a", "b")
        )
        await asyncio.gather(*writes)

    asyncio.run(write())
    asyncio.run(write_file(locks, "ann", file, times=1, name="c"))

    assert sorted(file.read_text().split()) == ["a"] * 5 + ["b"] * 5 + ["c"]


def test_a_client_serves_the_loop_that_it_lives_in(shared: RedisServer) -> None:
    client = Redis.from_url(shared.url)
    locks = RedisUserLocks(client)

    async def hold() -> None:
        async with locks.hold(STORE, "ann") as lease:
            await lease.confirm()
        await client.ping()
        await client.aclose()

    asyncio.run(hold())
    with pytest.raises(SetupError, match="URL"):
        asyncio.run(hold())

    assert held_users() == ()


@pytest.mark.parametrize("lease", [0, 0.05, -1.0, float("nan"), float("inf")])
def test_an_impossible_lease_is_refused(lease: float) -> None:
    with pytest.raises(InvalidInputError, match="lease"):
        RedisUserLocks("redis://localhost", lease=lease)


def test_an_impossible_wait_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="wait"):
        RedisUserLocks("redis://localhost", wait=-1)


@pytest.mark.parametrize("source", ["localhost:6379", "http://localhost", "redis://h:port", 7, None])
def test_a_source_that_is_no_redis_is_refused(source: object) -> None:
    with pytest.raises(InvalidInputError):
        RedisUserLocks(source)  # type: ignore[arg-type]


def test_without_the_extra_the_error_says_what_to_install() -> None:
    probe = (
        "import sys\n"
        "sys.modules['redis'] = None\n"
        "from jiuwen_memory.errors import MissingExtraError\n"
        "from jiuwen_memory.foundation.redis_locks import RedisUserLocks\n"
        "try: RedisUserLocks('redis://localhost')\n"
        "except MissingExtraError as error: print(error.message)"
    )
    said = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout

    assert 'pip install "jiuwen-graph-memory[redis]"' in said
    assert issubclass(MissingExtraError, SetupError)
