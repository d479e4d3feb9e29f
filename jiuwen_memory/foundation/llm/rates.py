"""Keeping to an endpoint's rates: requests and tokens a minute. Waits; touches nothing outside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from jiuwen_memory.foundation.llm.schema.message import MessageLike, part_text, wire_messages
from jiuwen_memory.foundation.text import estimate_tokens

if TYPE_CHECKING:
    from aiolimiter import AsyncLimiter

MINUTE = 60.0


@dataclass(frozen=True)
class _Buckets:
    """What one event loop waits at: a bucket of requests, one of tokens, and a queue before both."""

    turn: asyncio.Lock
    requests: AsyncLimiter | None
    tokens: AsyncLimiter | None


class RateLimiter:
    """Lets through so many requests and tokens a minute, in the order of their coming, apart for each event loop.

    Unused room adds up to one minute's worth, which may then be spent at once. A request of more tokens than that waits
    until nothing is spent, and then spends it all.
    """

    def __init__(self, *, requests_per_minute: int | None, tokens_per_minute: int | None) -> None:
        self._requests = requests_per_minute
        self._tokens = tokens_per_minute
        # Timers and futures belong to the loop they were made in.
        self._buckets: WeakKeyDictionary[asyncio.AbstractEventLoop, _Buckets] = WeakKeyDictionary()

    async def wait(self, messages: Sequence[MessageLike] | str, response_format: Mapping[str, object] | None) -> None:
        """Return when a request with these messages may be sent."""
        if self._requests is None and self._tokens is None:
            return
        buckets = self._buckets_here()
        amount = 0 if self._tokens is None else min(request_tokens(messages, response_format), self._tokens)
        # The library lets small amounts overtake large ones, which then might wait for ever.
        async with buckets.turn:
            if buckets.tokens is not None:
                await buckets.tokens.acquire(amount)
            if buckets.requests is not None:
                await buckets.requests.acquire()

    def _buckets_here(self) -> _Buckets:
        from aiolimiter import AsyncLimiter

        loop = asyncio.get_running_loop()
        buckets = self._buckets.get(loop)
        if buckets is None:
            requests, tokens = (
                AsyncLimiter(rate, MINUTE) if rate is not None else None for rate in (self._requests, self._tokens)
            )
            buckets = self._buckets[loop] = _Buckets(asyncio.Lock(), requests, tokens)
        return buckets


def request_tokens(messages: Sequence[MessageLike] | str, response_format: Mapping[str, object] | None) -> int:
    """Return about how many tokens a request has: those of its messages and of the form it asks for."""
    form = estimate_tokens(json.dumps(response_format, ensure_ascii=False, default=str)) if response_format else 0
    return form + sum(_content_tokens(message.get("content")) for message in wire_messages(messages))


def _content_tokens(content: object) -> int:
    if isinstance(content, str):
        return estimate_tokens(content)
    parts = content if isinstance(content, list | tuple) else ()
    return sum(estimate_tokens(part_text(part)) for part in parts if isinstance(part, str | Mapping))
