"""The memory without `await`, for scripts and notebooks: the same methods, run by an event loop in its own thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from jiuwen_memory.errors import InvalidInputError, SetupError
from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory

P = ParamSpec("P")
T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread, so that a script which forgets to close it still ends."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._guard = threading.Lock()
        self._is_ended = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="jiuwen-memory", daemon=True)
        self._thread.start()

    @property
    def is_ended(self) -> bool:
        """Whether `stop` was called."""
        return self._is_ended

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the coroutine's result; an interrupt of the waiting thread (Ctrl-C) cancels it.

        Raises:
            SetupError: the thread has ended, also while the coroutine ran; or this is the thread.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise SetupError(
                "A blocking call from inside the memory's own thread (a callback, perhaps) would wait for itself; "
                "make the call after the running one has returned, or await the methods of `.memory`."
            )
        # Nothing may reach the loop behind what ends it: nobody would ever run it.
        with self._guard:
            if self._is_ended:
                coroutine.close()
                raise SetupError("This memory is closed; make a new SyncGraphMemory.")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except CancelledError as error:
            if not self._is_ended:
                raise
            raise SetupError("This memory was closed while the call ran; make a new SyncGraphMemory.") from error
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the loop and its thread; what still runs in it is cancelled first. A second call does nothing."""
        with self._guard:
            if self._is_ended:
                return
            self._is_ended = True
            ending = asyncio.run_coroutine_threadsafe(_end_of_loop(), self._loop)
        ending.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_of_loop() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()


def _blocking(
    method: Callable[Concatenate[GraphMemory, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncGraphMemory, P], T]:
    @wraps(method)
    def call(self: SyncGraphMemory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.run(method(self.memory, *args, **kwargs))

    return call


def _blocking_items(
    method: Callable[Concatenate[GraphMemory, P], AsyncIterator[T]],
) -> Callable[Concatenate[SyncGraphMemory, P], Iterator[T]]:
    @wraps(method)
    def call(self: SyncGraphMemory, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        items = method(self.memory, *args, **kwargs)
        while True:
            found = self._thread.run(_next_of(items))
            if not found:
                return
            yield from found

    return call


async def _next_of(items: AsyncIterator[T]) -> list[T]:
    """Return the next item, or nothing at the end: `StopAsyncIteration` cannot leave a coroutine."""
    async for item in items:
        return [item]
    return []


class SyncGraphMemory:
    """A `GraphMemory` whose methods block until they are done; it may be used inside a running event loop too.

    All of it happens in one background thread, so give it a memory, a model and an embedder that no other event loop
    uses. A call blocks the thread that makes it: in a notebook that is what one wants, in a server use `GraphMemory`.
    Threads may share one object; calls of different threads run side by side.

    Args:
        memory: the memory to use, configured and not yet opened.

    Raises:
        SetupError: it is used after `close()`, closed while a call runs, or used from a callback inside its own thread.
    """

    def __init__(self, memory: GraphMemory) -> None:
        if not isinstance(memory, GraphMemory):
            raise InvalidInputError(f"SyncGraphMemory needs a GraphMemory, not {type(memory).__name__}.")
        self.memory = memory
        self._thread = LoopThread()
        self._closing = threading.Lock()

    def close(self) -> None:
        """Let go of the store and end the thread; a later use is an error, a second `close()` does nothing."""
        with self._closing:
            if self._thread.is_ended:
                return
            try:
                self._thread.run(self.memory.close())
            finally:
                self._thread.stop()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine that uses `.memory`, run where the memory lives."""
        return self._thread.run(coroutine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def db_backend(self) -> GraphStore:
        """The graph store; its methods are coroutines of the memory's own thread."""
        return self.memory.db_backend

    add_memories = _blocking(GraphMemory.add_memories)
    add_memory = _blocking(GraphMemory.add_memory)
    check = _blocking(GraphMemory.check)
    delete_before = _blocking(GraphMemory.delete_before)
    delete_entity = _blocking(GraphMemory.delete_entity)
    delete_episode = _blocking(GraphMemory.delete_episode)
    delete_relation = _blocking(GraphMemory.delete_relation)
    delete_user = _blocking(GraphMemory.delete_user)
    link_synonyms = _blocking(GraphMemory.link_synonyms)
    merge = _blocking(GraphMemory.merge)
    unlink_synonyms = _blocking(GraphMemory.unlink_synonyms)
    unmerge = _blocking(GraphMemory.unmerge)
    get = _blocking(GraphMemory.get)
    migrate = _blocking(GraphMemory.migrate)
    objects = _blocking_items(GraphMemory.objects)
    pending = _blocking(GraphMemory.pending)
    recover = _blocking(GraphMemory.recover)
    rebuild = _blocking(GraphMemory.rebuild)
    reembed = _blocking(GraphMemory.reembed)
    resume = _blocking(GraphMemory.resume)
    search = _blocking(GraphMemory.search)
    stats = _blocking(GraphMemory.stats)
    synonyms = _blocking(GraphMemory.synonyms)
    timeline = _blocking(GraphMemory.timeline)
    to_html = _blocking(GraphMemory.to_html)
    triples = _blocking(GraphMemory.triples)
