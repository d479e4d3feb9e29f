"""What is told of each operation of a memory: the root span of a trace, its duration, and a line in the log.

Touches the log and, through `tracing`, OpenTelemetry.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import Any, Final, ParamSpec, TypeVar

from jiuwen_memory.foundation.tracing import (
    OPERATION_DURATION,
    SCOPE,
    Attributes,
    is_traced,
    span,
    user_attributes,
)

P = ParamSpec("P")
T = TypeVar("T")
logger = logging.getLogger(SCOPE)

_NO_FIGURES: Final[Attributes] = {}


def operation(
    figures: Callable[[Any], Attributes] = lambda result: _NO_FIGURES,
    *,
    name: str | None = None,
    user: Callable[..., object] | None = None,
) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """Have each call of a public method told: who it was for, how long it took, how it ended and what came of it.

    Args:
        figures: the numbers of a result that are worth telling, by name.
        name: what it is called (default: as the method).
        user: returns the user, or users, from the method's arguments (default: its argument `user_id`, if it has one).
    """

    def decorate(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        called = name or method.__name__
        find_user = user or _finder(method)

        @wraps(method)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if not is_traced() and not logger.isEnabledFor(logging.INFO):
                return await method(*args, **kwargs)
            with _told(called, user_attributes(find_user(*args, **kwargs))) as tell:
                result = await method(*args, **kwargs)
                tell(figures(result))
            return result

        return call

    return decorate


def _finder(method: Callable[..., object]) -> Callable[..., object]:
    names = list(signature(method).parameters)
    place = names.index("user_id") if "user_id" in names else len(names)

    def find(*args: object, **kwargs: object) -> object:
        return kwargs["user_id"] if "user_id" in kwargs else next(iter(args[place : place + 1]), None)

    return find


@contextmanager
def _told(name: str, user: Attributes) -> Iterator[Callable[[Attributes], None]]:
    start = time.perf_counter()
    told: dict[str, object] = {"memory_operation": name, "memory_user": "".join(map(str, user.values())) or None}
    outcome = ""
    root = span(name, {"jiuwen_memory.operation": name, **user}, metric=OPERATION_DURATION)

    def tell(figures: Attributes) -> None:
        nonlocal outcome
        outcome = ", ".join(f"{key} {value}" for key, value in figures.items()) or "done"
        told.update({f"memory_{key}": value for key, value in figures.items()})
        root.set({f"jiuwen_memory.{key}": value for key, value in figures.items()})

    try:
        with root:
            told["memory_trace"] = root.trace_id
            yield tell
    finally:
        told["memory_seconds"] = seconds = round(time.perf_counter() - start, 6)
        if not outcome:
            # Only the error's kind: its words are the caller's, and may quote a text or name a user.
            told["memory_error"] = kind = type(sys.exception()).__name__
            outcome = f"failed with {kind}"
        logger.info("%s took %.3f s for user %s: %s", name, seconds, told["memory_user"], outcome, extra=told)
