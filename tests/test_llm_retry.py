"""The one retry loop, with errors of ours and of other people's clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from jiuwen_memory.errors import InvalidInputError, ModelServiceError
from jiuwen_memory.foundation.retry import (
    is_transient,
    outcome_of,
    requested_pause,
    retry_after_seconds,
    retrying,
    status_of,
)


class ForeignError(Exception):
    """An error as clients of other services raise it."""

    def __init__(self, message: str = "", **attributes: object) -> None:
        super().__init__(message)
        vars(self).update(attributes)


class ForeignResponse:
    """An answer as clients of other services attach it to their errors."""

    def __init__(self, status_code: int, **headers: str) -> None:
        self.status_code = status_code
        self.headers = headers


def failing(*errors: BaseException) -> tuple[Callable[[], Coroutine[Any, Any, str]], list[int]]:
    """Return a call that raises each error once and then succeeds, and the list of its tries."""
    tries: list[int] = []

    async def call() -> str:
        tries.append(len(tries))
        if len(tries) <= len(errors):
            raise errors[len(tries) - 1]
        return "done"

    return call, tries


@pytest.mark.parametrize(
    "error",
    [
        ModelServiceError("busy"),
        TimeoutError(),
        ConnectionResetError(),
        OSError(),
        ForeignError(status_code=429),
        ForeignError(status=503),
        ForeignError(response=ForeignResponse(500)),
        RuntimeError("a client of whatever kind"),
        TypeError("'NoneType' object is not subscriptable"),
    ],
)
async def test_what_may_pass_is_tried_again(error: Exception) -> None:
    call, tries = failing(error, error)

    result = await retrying(call, tries=3, what="a question", base_delay=0.001)

    assert (result, len(tries)) == ("done", 3)


@pytest.mark.parametrize(
    "error",
    [
        ModelServiceError("no", retryable=False),
        InvalidInputError("no"),
        ForeignError(status_code=401),
        ForeignError(response=ForeignResponse(404)),
        NotImplementedError(),
        AssertionError(),
        asyncio.CancelledError(),
        ModelServiceError("tomorrow", retry_after=86_400),
    ],
)
async def test_what_will_not_pass_is_raised_at_once(error: BaseException) -> None:
    call, tries = failing(error)

    with pytest.raises(type(error)) as caught:
        await retrying(call, tries=5, what="a question", base_delay=0.001)

    assert caught.value is error
    assert len(tries) == 1


@pytest.mark.parametrize("allowed", [1, 3])
async def test_the_last_failure_is_raised_after_so_many_tries_in_all(allowed: int) -> None:
    errors = [ModelServiceError(str(number)) for number in range(9)]
    call, tries = failing(*errors)

    with pytest.raises(ModelServiceError) as caught:
        await retrying(call, tries=allowed, what="a question", base_delay=0.001)

    assert caught.value is errors[allowed - 1]
    assert len(tries) == allowed


async def test_a_pause_is_as_long_as_the_service_asks(caplog: pytest.LogCaptureFixture) -> None:
    call, _ = failing(ModelServiceError("busy", retry_after=0.3))

    with caplog.at_level(logging.WARNING):
        await retrying(call, tries=2, what="a question", base_delay=0.001)

    assert "next in 0.3 s" in caplog.text


async def test_the_log_tells_of_each_try_without_the_words_of_foreign_errors(caplog: pytest.LogCaptureFixture) -> None:
    call, _ = failing(RuntimeError("key sk-123"), ModelServiceError("busy"))

    with caplog.at_level(logging.WARNING):
        await retrying(call, tries=3, what="the entity question", base_delay=0.001)

    assert "Try 1 of 3 of the entity question failed (RuntimeError)" in caplog.text
    assert "busy" in caplog.text
    assert "sk-123" not in caplog.text


async def test_an_outcome_is_a_result_or_what_a_client_raised() -> None:
    error = ForeignError("odd")
    failing_call, _ = failing(error)
    working_call, _ = failing()
    faulty_call, _ = failing(NotImplementedError())
    cancelled_call, _ = failing(asyncio.CancelledError())

    assert await outcome_of(working_call()) == "done"
    assert await outcome_of(failing_call()) is error
    with pytest.raises(NotImplementedError):
        await outcome_of(faulty_call())
    with pytest.raises(asyncio.CancelledError):
        await outcome_of(cancelled_call())


def test_errors_of_the_openai_and_httpx_clients_are_understood() -> None:
    import httpx
    import openai

    request = httpx.Request("POST", "http://127.0.0.1")
    limited = httpx.Response(429, headers={"Retry-After": "4"}, request=request)
    foreign = httpx.HTTPStatusError("busy", request=request, response=limited)
    sdk = openai.APIConnectionError(request=openai.DefaultAsyncHttpxClient().build_request("POST", "http://127.0.0.1"))

    assert (status_of(foreign), requested_pause(foreign), is_transient(foreign)) == (429, 4.0, True)
    assert is_transient(sdk)
    assert is_transient(httpx.ReadTimeout("slow"))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"RETRY-AFTER": " 2 "}, 2.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "whenever"}, None),
    ],
)
def test_a_requested_pause_has_several_spellings(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers) == seconds


def test_a_pause_may_stand_in_the_error_or_in_its_answer() -> None:
    assert requested_pause(ForeignError(retry_after=2)) == 2.0
    assert requested_pause(ForeignError(headers={"retry-after": "3"})) == 3.0
    assert requested_pause(ForeignError(response=ForeignResponse(429, **{"retry-after": "4"}))) == 4.0
    assert requested_pause(ForeignError(retry_after="soon")) is None
