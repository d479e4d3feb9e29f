"""The ways of running things beside each other; nothing else here starts tasks or threads."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar, overload

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@overload
async def together(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B], /) -> tuple[A, B]: ...
@overload
async def together(
    first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B], third: Coroutine[Any, Any, C], /
) -> tuple[A, B, C]: ...
@overload
async def together(*coroutines: Coroutine[Any, Any, T]) -> tuple[T, ...]: ...
async def together(*coroutines: Coroutine[Any, Any, Any]) -> tuple[Any, ...]:
    """Run coroutines at once and return their results in order.

    The first failure is raised as it is (no exception group) once all the others have been cancelled and have ended.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    if not tasks:
        return ()
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task in done:
                task.result()
        return tuple(task.result() for task in tasks)
    finally:
        unfinished = [task for task in tasks if not task.done()]
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def beside(coroutine: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine for as long as the body runs; it is cancelled, and has ended, when the body is left.

    If it failed, that is raised then.
    """
    task = asyncio.ensure_future(coroutine)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.result()


async def off_loop(executor: Executor | None, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a blocking function in a thread, so that the event loop goes on; `None` means the loop's own executor.

    It runs in a copy of the caller's context, so that its spans are below the caller's.
    """
    call = partial(copy_context().run, function, *args, **kwargs)
    if not threading.main_thread().is_alive():
        # The program is at its end (an `atexit` callback): no executor takes work any more, and nobody else is waiting.
        return call()
    return await asyncio.get_running_loop().run_in_executor(executor, call)


async def tell(listener: Callable[[T], Awaitable[None] | None] | None, news: T) -> None:
    """Hand something to a listener, if there is one; it may be a function or a coroutine function."""
    told = listener(news) if listener else None
    if inspect.isawaitable(told):
        await told


async def shielded(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine that cancellation must not break: it ends first, then the cancellation goes on."""
    task = asyncio.ensure_future(coroutine)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
    if cancelled is not None:
        task.exception()
        raise cancelled
    return task.result()
