"""Turns of conversations on their way into a memory: in the background, in order per user, never lost silently."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from jiuwen_memory.errors import InvalidInputError, SetupError
from jiuwen_memory.foundation.hiding import hashed
from jiuwen_memory.foundation.retry import outcome_of
from jiuwen_memory.memory_core.config.graph import EpisodeType
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory

logger = logging.getLogger("jiuwen_memory")
KEPT_FAILURES = 100


@dataclass(frozen=True)
class Turn:
    """What was said: messages in order, by whom it is remembered, and when."""

    user_id: str
    messages: tuple[dict[str, str], ...]
    source: str | None = None
    session_id: str | None = None
    said_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    key: str = ""


@dataclass(frozen=True)
class Failure:
    """Something that did not work, and did not stop the call: `stage` is `recall` or `remember`."""

    stage: str
    user_id: str
    error: Exception
    turn: Turn | None = None


class TurnQueue:
    """Adds turns to a memory in the background: one at a time per user, users beside each other.

    It lives in the event loop in which `put` is awaited.

    Args:
        size: turns that may wait; `put` waits while there are as many.
        on_failure: told of each turn that could not be added; the latest are in `failures` too. What it raises is told
            by the event loop's exception handler, and stops nothing.
    """

    def __init__(
        self, memory: GraphMemory, *, size: int = 100, on_failure: Callable[[Failure], None] | None = None
    ) -> None:
        if size < 1:
            raise InvalidInputError(f"The queue's size is {size}; give 1 or more.")
        self.failures: deque[Failure] = deque(maxlen=KEPT_FAILURES)
        self._memory = memory
        self._on_failure = on_failure
        self._places = asyncio.Semaphore(size)
        self._waiting: dict[str, deque[Turn]] = {}
        self._workers: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """Turns that are not in the memory yet."""
        return sum(map(len, self._waiting.values()))

    async def put(self, turn: Turn) -> None:
        """Take a turn; it is added after the earlier ones of its user."""
        try:
            await self._places.acquire()
        except asyncio.CancelledError:
            error = SetupError("The call was cancelled while its turn waited for a place in the queue.")
            self.report(Failure("remember", turn.user_id, error, turn))
            raise
        turns = self._waiting.setdefault(turn.user_id, deque())
        turns.append(turn)
        if len(turns) == 1:
            worker = asyncio.get_running_loop().create_task(self._work(turn.user_id))
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def drain(self) -> None:
        """Wait until everything that was put is in the memory, or has failed."""
        while self._workers:
            await asyncio.wait(self._workers)

    def report(self, failure: Failure) -> None:
        """Keep a failure where it can be seen, and tell the log (its kind) and whoever wanted to know."""
        self.failures.append(failure)
        # The error's own words stay out of the log: they may quote a text.
        kind = type(failure.error).__name__
        logger.warning("Could not %s a turn of user %s: %s", failure.stage, hashed(failure.user_id), kind)
        if self._on_failure is None:
            return
        try:
            asyncio.get_running_loop().call_soon(self._on_failure, failure)
        except RuntimeError:
            # The loop of the memory has ended; this is the thread of whoever called.
            self._on_failure(failure)

    async def _work(self, user_id: str) -> None:
        turns = self._waiting[user_id]
        try:
            while turns:
                await self._add(turns[0])
                turns.popleft()
                self._places.release()
        except asyncio.CancelledError:
            for turn in turns:
                self.report(Failure("remember", user_id, SetupError("The program ended before it was added."), turn))
            raise
        finally:
            del self._waiting[user_id]

    async def _add(self, turn: Turn) -> None:
        adding = self._memory.add_memory(
            EpisodeType.CONVERSATION,
            turn.user_id,
            list(turn.messages),
            reference_time=turn.said_at,
            source=turn.source,
            session_id=turn.session_id,
            idempotency_key=turn.key or None,
        )
        # Whatever a model, an embedder or a store raises, the turns behind this one go on.
        outcome = await outcome_of(adding, raised=())
        if isinstance(outcome, Exception):
            self.report(Failure("remember", turn.user_id, outcome, turn))


def turn_key(history: Sequence[object], reply: str) -> str:
    """Return a key under which the same request with the same answer is remembered once."""
    said = json.dumps([history, reply], ensure_ascii=False, default=str)
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()
