"""One writer per user and store at a time. Touches a table of locks in this process, nothing else."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from jiuwen_memory.errors import InvalidInputError, LockTimeoutError

if TYPE_CHECKING:
    from aiologic import Lock

DEFAULT_WAIT = 60.0


@runtime_checkable
class Lease(Protocol):
    """A lock that is held; one that can be lost while it is held says so when asked."""

    async def confirm(self) -> None:
        """Return if the lock is still held.

        Raises:
            LockLostError: it is not; nothing may be written any more.
            LockServiceError: nobody can tell, which means the same for whoever wants to write.
        """


@runtime_checkable
class UserLocks(Protocol):
    """Keeps two writers of one user apart; users do not wait for each other."""

    def hold(self, store: str, user_id: str) -> AbstractAsyncContextManager[Lease]:
        """Return a context in which nobody else writes this user's graph in the store of that identity."""


class FirmLease:
    """The lease of a lock that cannot be lost while it is held."""

    async def confirm(self) -> None:
        """Return, always."""


@dataclass(slots=True)
class _Entry:
    lock: Lock
    interested: int = 0


# All memories of a process share this table, whatever event loop or thread they run in.
_entries: dict[tuple[str, str], _Entry] = {}
_entries_guard = threading.Lock()


class InProcessLocks:
    """Locks that hold between all tasks, event loops and threads of one process, but not between processes."""

    def __init__(self, *, wait: float = DEFAULT_WAIT) -> None:
        if not (wait >= 0 and math.isfinite(wait)):
            raise InvalidInputError(f"The wait for a user's lock must be a number of seconds from 0 on, not {wait!r}.")
        self._wait = wait

    @asynccontextmanager
    async def hold(self, store: str, user_id: str) -> AsyncIterator[Lease]:
        """Hold the user's lock; raises `LockTimeoutError` if it is not free within the wait."""
        key = (store, user_id)
        entry = _enter(key)
        try:
            if not await entry.lock.async_acquire(timeout=self._wait):
                raise waited_in_vain(user_id, self._wait)
            try:
                yield FirmLease()
            finally:
                entry.lock.async_release()
        finally:
            _leave(key, entry)


def waited_in_vain(user_id: str, wait: float) -> LockTimeoutError:
    """Return the error for a writer whose turn did not come."""
    return LockTimeoutError(
        f"Another writer of user {user_id!r} did not finish within {wait:g} seconds. "
        "Try again later, or allow a longer wait."
    )


def held_users() -> tuple[tuple[str, str], ...]:
    """Return the (store, user) pairs that somebody holds or waits for in this process."""
    with _entries_guard:
        return tuple(_entries)


def _enter(key: tuple[str, str]) -> _Entry:
    from aiologic import Lock

    with _entries_guard:
        entry = _entries.get(key)
        if entry is None:
            entry = _entries[key] = _Entry(Lock())
        entry.interested += 1
        return entry


def _leave(key: tuple[str, str], entry: _Entry) -> None:
    with _entries_guard:
        entry.interested -= 1
        if entry.interested == 0:
            del _entries[key]
