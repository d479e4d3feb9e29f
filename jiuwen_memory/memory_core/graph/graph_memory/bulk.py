"""Adds many inputs: each user's in order, users side by side. Touches nothing itself but through `add`."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final

from jiuwen_memory.errors import InvalidInputError, JiuwenMemoryError
from jiuwen_memory.foundation.concurrency import off_loop, tell, together
from jiuwen_memory.foundation.ports import Embedding
from jiuwen_memory.foundation.retry import outcome_of
from jiuwen_memory.memory_core.config.graph import EpisodeType
from jiuwen_memory.memory_core.graph.extraction.usage import Usage
from jiuwen_memory.memory_core.graph.graph_memory.parts import check_listener
from jiuwen_memory.memory_core.graph.graph_memory.requests import Content
from jiuwen_memory.memory_core.graph.graph_memory.services import Vector
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate

GATHER_SECONDS: Final = 0.01
"""How long a request for vectors waits for those of other users."""
KEY_PREFIX: Final = "bulk:"


@dataclass(frozen=True)
class MemoryItem:
    """One input of `add_memories`; the fields are the arguments of `add_memory`."""

    user_id: str
    content: Content
    src_type: EpisodeType = EpisodeType.CONVERSATION
    content_fmt_kwargs: Mapping[str, str] | None = None
    reference_time: datetime | None = None
    session_id: str | None = None
    source: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True)
class ItemResult:
    """What became of one item: an update, or the error that kept it out."""

    item: MemoryItem
    update: GraphMemUpdate | None = None
    error: JiuwenMemoryError | None = None

    @property
    def is_repeat(self) -> bool:
        """The item was in the graph already."""
        return self.update is not None and self.update.duplicate_of is not None

    @property
    def usage(self) -> Usage:
        """What the item cost, stored or not."""
        if self.update is not None:
            return self.update.usage
        spent = self.error.usage if self.error else None
        return spent if isinstance(spent, Usage) else Usage()


@dataclass(frozen=True)
class BulkProgress:
    """How far `add_memories` is. `done` counts every item that was tried, `failed` and `repeated` are among them.

    Calls and tokens are those of all of them, of what failed too.
    """

    total: int
    done: int = 0
    failed: int = 0
    repeated: int = 0
    seconds: float = 0.0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def rate(self) -> float:
        """Items per second."""
        return self.done / self.seconds if self.seconds else 0.0

    @property
    def remaining_seconds(self) -> float | None:
        """How long the rest takes at this rate; None while nothing is known."""
        return (self.total - self.done) / self.rate if self.rate else None

    def after(self, result: ItemResult, *, seconds: float) -> BulkProgress:
        """Return how far it is with one more item."""
        spent = result.usage
        return BulkProgress(
            total=self.total,
            done=self.done + 1,
            failed=self.failed + (result.error is not None),
            repeated=self.repeated + result.is_repeat,
            seconds=seconds,
            calls=self.calls + spent.calls + spent.reasked,
            input_tokens=self.input_tokens + spent.input_tokens,
            output_tokens=self.output_tokens + spent.output_tokens,
        )

    def __str__(self) -> str:
        return (
            f"{self.done}/{self.total} ({self.failed} failed, {self.repeated} repeated), {self.rate:.1f}/s, "
            f"{self.calls} calls, {self.input_tokens} + {self.output_tokens} tokens"
        )


OnProgress = Callable[[BulkProgress], Awaitable[None] | None]
Add = Callable[[MemoryItem], Awaitable[GraphMemUpdate]]


@dataclass(frozen=True)
class BulkReport:
    """What became of each item, in the order in which they were given, and the sum of it all."""

    results: tuple[ItemResult, ...]
    progress: BulkProgress

    @property
    def failed(self) -> tuple[ItemResult, ...]:
        """The items that were not stored, or of which a part was not."""
        return tuple(each for each in self.results if each.error is not None)


async def add_items(
    items: Iterable[MemoryItem], *, add: Add, users_at_once: int, on_progress: OnProgress | None
) -> BulkReport:
    """Add all items and report on each; one that fails does not keep the others out."""
    check_listener(on_progress)
    if not isinstance(users_at_once, int) or users_at_once < 1:
        raise InvalidInputError(f"users_at_once is {users_at_once!r}; give 1 or more.")
    if not isinstance(items, Iterable):
        raise InvalidInputError(f"items is a {type(items).__name__}; give a list of MemoryItem objects.")
    # A key takes its time, and there may be many; what the items come from may be bound to this thread.
    listed = await off_loop(None, resolve_keys, list(items))
    queues: dict[str, list[int]] = {}
    for number, item in enumerate(listed):
        # What is no user id is refused with its item, and need not even have a hash.
        queues.setdefault(item.user_id if isinstance(item.user_id, str) else "", []).append(number)
    run = _Run(listed, add, on_progress, BulkProgress(len(listed)))
    waiting = iter(queues.values())

    async def work() -> None:
        for numbers in waiting:
            for number in numbers:
                await run.add(number)

    await together(*(work() for _ in range(min(users_at_once, len(queues)))))
    return BulkReport(tuple(run.results[number] for number in range(len(listed))), run.progress)


@dataclass
class _Run:
    """One call of `add_items`, under way."""

    items: Sequence[MemoryItem]
    add_one: Add
    on_progress: OnProgress | None
    progress: BulkProgress
    results: dict[int, ItemResult] = field(default_factory=dict)
    start: float = field(default_factory=time.monotonic)

    async def add(self, number: int) -> None:
        item = self.items[number]
        try:
            result = ItemResult(item, update=await self.add_one(item))
        except JiuwenMemoryError as error:
            result = ItemResult(item, error=error)
        self.results[number] = result
        self.progress = self.progress.after(result, seconds=time.monotonic() - self.start)
        await tell(self.on_progress, self.progress)


def resolve_keys(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    """Return the items with a key of their own where nothing else tells a second run of them from saying it twice.

    The key is made of the item and of how many equal ones went before it, so that the same items get the same keys.
    """
    seen: Counter[str] = Counter()
    keyed = []
    for item in items:
        if not isinstance(item, MemoryItem):
            raise InvalidInputError(f"items holds a {type(item).__name__}; give MemoryItem objects.")
        if item.idempotency_key or item.reference_time is not None:
            keyed.append(item)
            continue
        digest = _digest(item)
        seen[digest] += 1
        keyed.append(replace(item, idempotency_key=f"{KEY_PREFIX}{digest}:{seen[digest]}"))
    return keyed


def _digest(item: MemoryItem) -> str:
    roles = item.content_fmt_kwargs or {}
    named: list[object] = [item.user_id, str(item.src_type), item.session_id, item.source]
    named += [dict(roles) if isinstance(roles, Mapping) else roles, item.content]
    return hashlib.sha256(_written(named).encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _written(value: object) -> str:
    """Return a value as text; "" for what cannot be written, which no add takes either."""
    for write in (partial(json.dumps, ensure_ascii=False, sort_keys=True, default=repr), repr):
        # Keys of several types have no order; JSON takes them all the same.
        with suppress(TypeError, ValueError, RecursionError):
            return write(value)
    return ""


class GatheringEmbedding:
    """An embedding model that asks for the texts of several callers in one request; for one event loop.

    When a shared request fails, each caller asks for its own texts again, so that one caller's texts cannot fail
    another's.
    """

    def __init__(self, model: Embedding) -> None:
        self._model = model
        self._waiting: list[tuple[Sequence[str], asyncio.Future[list[Vector] | None]]] = []

    @property
    def model_name(self) -> str:
        """The model's own name."""
        return str(getattr(self._model, "model_name", type(self._model).__name__))

    @property
    def dimension(self) -> int | None:
        """The model's own dimension."""
        return self._model.dimension

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of a query, in a request of its own."""
        return await self._model.embed_query(text)

    async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[Vector]:
        """Return one vector per text; the request may hold the texts of others too."""
        answer: asyncio.Future[list[Vector] | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((texts, answer))
        if len(self._waiting) == 1:
            await self._ask_for_all(batch_size)
        vectors = await answer
        if vectors is None:
            return await self._model.embed_documents(list(texts), batch_size=batch_size)
        return vectors

    async def _ask_for_all(self, batch_size: int | None) -> None:
        taken: list[tuple[Sequence[str], asyncio.Future[list[Vector] | None]]] = []
        vectors: list[Vector] = []
        try:
            await asyncio.sleep(GATHER_SECONDS)
            taken, self._waiting = self._waiting, []
            if len(taken) > 1:
                wanted = list(dict.fromkeys(text for texts, _ in taken for text in texts))
                found = await outcome_of(self._model.embed_documents(wanted, batch_size=batch_size))
                if not isinstance(found, Exception) and len(found) == len(wanted):
                    by_text = dict(zip(wanted, found, strict=True))
                    vectors = [by_text[text] for texts, _ in taken for text in texts]
        finally:
            # Also when this caller is cancelled: the others then ask for themselves.
            if not taken:
                taken, self._waiting = self._waiting, []
            _answer(taken, vectors)


def _answer(taken: Sequence[tuple[Sequence[str], asyncio.Future[list[Vector] | None]]], vectors: list[Vector]) -> None:
    start = 0
    for texts, answer in taken:
        if not answer.done():
            answer.set_result(vectors[start : start + len(texts)] if vectors else None)
        start += len(texts)
