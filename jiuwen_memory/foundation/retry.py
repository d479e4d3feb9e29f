"""The one retry loop, and what it must know about other people's errors."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

from jiuwen_memory.errors import JiuwenMemoryError, ServiceError

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")
logger = logging.getLogger(__name__)

TRANSIENT_STATUSES = {408, 409, 425, 429}
# Faults in the program: the same call fails the same way. TypeError, AttributeError and the like are not here, because
# clients raise them when a service's answer lacks something.
PROGRAM_FAULTS = (AssertionError, ImportError, NameError, NotImplementedError, MemoryError, RecursionError, SyntaxError)
LONGEST_PAUSE = 20.0
LONGEST_REQUESTED_PAUSE = 120.0


async def retrying(call: Callable[[], Awaitable[T]], *, tries: int, what: str, base_delay: float = 0.5) -> T:
    """Await `call` until it succeeds, up to `tries` times in all; the last failure is raised as it is.

    Pauses grow exponentially from `base_delay`, with jitter, up to 20 s, and last at least as long as the service asks.
    A service that asks for more than two minutes is not waited for: its error goes to the caller, who may.
    """
    from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

    def pause(state: RetryCallState) -> float:
        return _pause(state, base_delay)

    def report(state: RetryCallState) -> None:
        seconds = state.next_action.sleep if state.next_action else 0.0
        logger.warning(
            "Try %d of %d of %s failed (%s); next in %.1f s.",
            state.attempt_number,
            tries,
            what,
            _outline(state),
            seconds,
        )

    loop = AsyncRetrying(
        stop=stop_after_attempt(max(1, tries)),
        wait=pause,
        retry=retry_if_exception(is_transient),
        before_sleep=report,
        reraise=True,
    )
    return await loop(call)


async def outcome_of(
    call: Coroutine[Any, Any, T], *, raised: tuple[type[Exception], ...] = PROGRAM_FAULTS
) -> T | Exception:
    """Return a call's result, or whatever exception another library's client raised in it.

    There is no common ancestor of what clients raise, so the outcome is looked at instead of caught. Cancellation and
    what `raised` names, by default faults of the program, go on as they are.
    """
    outcome: T | BaseException = (await asyncio.gather(call, return_exceptions=True))[0]
    if isinstance(outcome, raised):
        raise outcome
    if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
        raise outcome
    return outcome


def is_transient(error: BaseException) -> bool:
    """Tell whether the same call may succeed later; an exception of a kind unknown here counts as transient."""
    if not isinstance(error, Exception) or isinstance(error, PROGRAM_FAULTS):
        return False
    if (requested_pause(error) or 0.0) > LONGEST_REQUESTED_PAUSE:
        return False
    if isinstance(error, JiuwenMemoryError):
        return isinstance(error, ServiceError) and error.retryable
    status = status_of(error)
    return status is None or is_transient_status(status)


def is_transient_status(status: int) -> bool:
    """Tell whether an HTTP status means "try again later"."""
    return status in TRANSIENT_STATUSES or status >= 500 or status < 400


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an exception of any client carries, if it carries one."""
    response = getattr(error, "response", None)
    names = ("status_code", "status", "code")
    values = (getattr(holder, name, None) for holder in (error, response) for name in names)
    return next((value for value in values if isinstance(value, int) and 100 <= value < 600), None)


def requested_pause(error: BaseException) -> float | None:
    """Return the seconds that a service asked to wait, from an exception of any client."""
    seconds = getattr(error, "retry_after", None)
    if isinstance(seconds, int | float) and math.isfinite(seconds):
        return max(0.0, float(seconds))
    for holder in (error, getattr(error, "response", None)):
        headers = getattr(holder, "headers", None)
        if isinstance(headers, Mapping):
            return retry_after_seconds(headers)
    return None


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that `retry-after-ms` or `Retry-After` (seconds or a date) ask for."""
    lowered = {str(name).lower(): str(value).strip() for name, value in headers.items()}
    milliseconds = _number(lowered.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = lowered.get("retry-after", "")
    seconds = _number(value)
    if seconds is not None or not value:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _pause(state: RetryCallState, base_delay: float) -> float:
    ceiling = min(LONGEST_PAUSE, base_delay * 2.0 ** (state.attempt_number - 1))
    error = state.outcome.exception() if state.outcome else None
    asked = requested_pause(error) if error else None
    # Half of each pause is chance, so that many callers who failed together do not return together.
    jittered = ceiling * random.uniform(0.5, 1.0)
    return jittered if asked is None else max(asked + ceiling * random.uniform(0.0, 0.1), jittered)


def _outline(state: RetryCallState) -> str:
    """Name a failure for the log; the text of foreign errors stays out, because it may hold a key."""
    error = state.outcome.exception() if state.outcome else None
    return str(error) if isinstance(error, JiuwenMemoryError) else type(error).__name__
