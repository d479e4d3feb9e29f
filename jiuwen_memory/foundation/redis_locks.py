"""One writer per user and store at a time, across processes. Touches a Redis, through redis-py, and nothing else."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from jiuwen_memory.errors import InvalidInputError, LockLostError, LockServiceError, MissingExtraError, SetupError
from jiuwen_memory.foundation.concurrency import beside, shielded
from jiuwen_memory.foundation.hiding import hashed
from jiuwen_memory.foundation.locks import DEFAULT_WAIT, InProcessLocks, Lease, waited_in_vain

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

DEFAULT_LEASE = 30.0
DEFAULT_PREFIX = "jiuwen_memory:lock:"
SHORTEST_LEASE = 0.1
# Being next is a courtesy and no protection; it may end early when a waiting process dies.
LONGEST_TURN = 5.0
LONGEST_CALL = 5.0
POLL = 0.1


class RedisUserLocks:
    """Locks that hold between all processes that use one Redis, and inside each of them as `InProcessLocks` do.

    A lock is a key that ends with its lease unless its holder renews it, so a crashed process holds up nobody for
    longer than that. Processes take turns: whoever is next stays next until its turn has come.

    Args:
        source: the URL of a Redis, such as `redis://localhost:6379/0`; or a client of redis-py, which serves the one
            event loop that it lives in and is yours to close.
        lease: seconds that a lock outlives a holder which does not renew it; it is renewed thrice as often.
        wait: seconds to wait for another writer before a `LockTimeoutError`.
        prefix: what the keys begin with; the rest is a hash of store and user.

    With a URL, connections live from a `hold`'s beginning to its end: it serves any number of event loops and threads,
    and there is nothing to close.
    """

    def __init__(
        self,
        source: str | Redis,
        *,
        lease: float = DEFAULT_LEASE,
        wait: float = DEFAULT_WAIT,
        prefix: str = DEFAULT_PREFIX,
    ) -> None:
        if not (lease >= SHORTEST_LEASE and math.isfinite(lease)):
            raise InvalidInputError(f"lease is {lease!r}; give a number of seconds from {SHORTEST_LEASE} on.")
        _check_source(source)
        self._source = source
        self._lease = lease
        self._wait = wait
        self._prefix = prefix
        self._in_process = InProcessLocks(wait=wait)
        self._clients_loop: asyncio.AbstractEventLoop | None = None

    @asynccontextmanager
    async def hold(self, store: str, user_id: str) -> AsyncIterator[Lease]:
        """Hold the user's lock.

        Raises:
            LockTimeoutError: it was not free within the wait.
            LockServiceError: Redis cannot be reached, or refuses.
        """
        key = self._key(store, user_id)
        until = asyncio.get_running_loop().time() + self._wait
        async with self._in_process.hold(store, user_id), self._client() as client, AsyncExitStack() as stack:
            lease = RedisLease(client, key, seconds=self._lease, user_id=user_id)
            turn = RedisLease(client, f"{key}:next", seconds=min(self._lease, LONGEST_TURN), user_id=user_id)
            try:
                async with turn.held(until):
                    await stack.enter_async_context(lease.held(until))
            except TimeoutError:
                raise waited_in_vain(user_id, self._wait) from None
            yield lease

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Redis]:
        if isinstance(self._source, str):
            client = _connect(self._source, longest_call=min(self._lease / 3, LONGEST_CALL))
            try:
                yield client
            finally:
                await shielded(client.aclose())
        else:
            self._check_loop()
            yield self._source

    def _check_loop(self) -> None:
        loop = asyncio.get_running_loop()
        self._clients_loop = self._clients_loop or loop
        if self._clients_loop is not loop:
            raise SetupError(
                "The Redis client of these locks lives in another event loop. "
                "Give RedisUserLocks a URL instead: then it serves any number of loops."
            )

    def _key(self, store: str, user_id: str) -> str:
        # JSON keeps the two apart whatever is in them, and writes lone surrogates as ASCII.
        return self._prefix + hashlib.sha256(json.dumps([store, user_id]).encode()).hexdigest()


class RedisLease:
    """A lock in Redis that ends with its lease unless it is renewed."""

    def __init__(self, client: Redis, key: str, *, seconds: float, user_id: str) -> None:
        from redis.asyncio.lock import Lock

        self._lock = Lock(client, key, timeout=seconds, thread_local=False)
        self._seconds = seconds
        self._user_id = user_id

    async def confirm(self) -> None:
        """Return if Redis says that the lock is still held; from then on it has a whole lease before it.

        Raises:
            LockLostError: it is not held any more.
            LockServiceError: Redis cannot be reached, or refuses.
        """
        from redis.exceptions import LockError

        with _redis_errors():
            try:
                await self._lock.extend(self._seconds, replace_ttl=True)
            except LockError as error:
                raise LockLostError(
                    f"The lock of user {self._user_id!r} was lost: it was not renewed for {self._seconds:g} seconds, "
                    "or its key was removed from Redis. Nothing is written; add it again."
                ) from error

    @asynccontextmanager
    async def held(self, until: float) -> AsyncIterator[None]:
        """Take the lock, renew it while the body runs, and let go; a `TimeoutError` if it is not free until then."""
        try:
            await self._take(until)
            async with beside(self._renew()):
                yield
        finally:
            await shielded(self._let_go())

    async def _take(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        # Shielded: if a try were broken off, Redis might keep a lock that nobody here knows of.
        while not await shielded(self._try_once()):
            left = until - loop.time()
            if left <= 0:
                raise TimeoutError
            await asyncio.sleep(min(POLL * random.uniform(0.5, 1.0), left))

    async def _try_once(self) -> bool:
        with _redis_errors():
            return bool(await self._lock.acquire(blocking=False, token=uuid4().hex))

    async def _renew(self) -> None:
        """Renew until cancelled, more often after a failure. A loss is told here, and counts in `confirm`."""
        pause = self._seconds / 3
        while True:
            await asyncio.sleep(pause)
            try:
                await self.confirm()
            except LockLostError:
                logger.warning("The lock of user %s was lost while it was held.", hashed(self._user_id))
                return
            except LockServiceError as error:
                logger.warning(
                    "The lock of user %s could not be renewed yet: %s", hashed(self._user_id), error.__cause__
                )
                pause = self._seconds / 10
            else:
                pause = self._seconds / 3

    async def _let_go(self) -> None:
        from redis.exceptions import LockError, RedisError

        try:
            await self._lock.release()
        except LockError:
            # Never taken, or lost, which has been told.
            return
        except RedisError as error:
            logger.warning(
                "The lock of user %s could not be released; its lease ends it: %s", hashed(self._user_id), error
            )


def _check_source(source: object) -> None:
    try:
        from redis.asyncio import Redis
        from redis.asyncio.connection import parse_url
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            'RedisUserLocks needs a client that is not installed: pip install "jiuwen-graph-memory[redis]"'
        ) from error
    if isinstance(source, str):
        try:
            parse_url(source)
        except ValueError as error:
            raise InvalidInputError(f"The URL of the Redis cannot be used: {error}") from error
    elif not isinstance(source, Redis):
        raise InvalidInputError(
            f"RedisUserLocks takes a URL or a redis.asyncio.Redis, not a {type(source).__module__}."
            f"{type(source).__qualname__}."
        )


def _connect(url: str, *, longest_call: float) -> Redis:
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    # A repeated SET NX would find the key that it made itself; what is worth repeating is repeated here.
    once = Retry(NoBackoff(), 0)
    return Redis.from_url(url, socket_timeout=longest_call, socket_connect_timeout=longest_call, retry=once)


@contextmanager
def _redis_errors() -> Iterator[None]:
    """Raise a `LockServiceError` from what redis-py raises."""
    from redis.exceptions import RedisError

    try:
        yield
    except RedisError as error:
        raise LockServiceError(
            f"Redis, which keeps the users' locks, cannot be used: {error}. Nothing is written; try again later."
        ) from error
