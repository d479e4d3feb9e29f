"""One store's connection: its client, the threads it is used in, and the embedded server behind a local path.

Touches the file system and the network, only in threads of its own. The blocking client is used on purpose: it serves
several event loops and threads, which pymilvus's async client cannot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from jiuwen_memory.errors import StoreError, StoreParameterError, StoreUnavailableError
from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.files import home_path
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.milvus.failures import reported_as, take_logged_cause
from jiuwen_memory.foundation.store.graph.milvus.watching import watched
from jiuwen_memory.foundation.tracing import span

T = TypeVar("T")
Client = Any
"""A `pymilvus.MilvusClient`; pymilvus ships no types."""

_SERVER_SCHEMES: Final = ("http://", "https://", "tcp://", "unix:")
_LITE_VERSION: Final = "milvus_lite"
_READS_IN_PROCESS: Final = 2
"""Requests at once to a path: Lite answers them in this process and in Python, so more only get in each other's way.

Its server gets all of them: two, three or four at once took as much CPU there, and up to 1.6 times as long.
"""
# pymilvus pings every ten seconds; Milvus Lite's server takes that for an attack and hangs up after two minutes.
_PINGS: Final = {"grpc.keepalive_time_ms": 330_000, "grpc.keepalive_permit_without_calls": 0}


def is_server(uri: str) -> bool:
    """Tell whether a URI names a server; anything else is a path.

    Raises:
        StoreParameterError: the URI has a scheme that no server of ours speaks.
    """
    if uri.lower().startswith(_SERVER_SCHEMES):
        return True
    if "://" in uri:
        scheme = uri.partition("://")[0]
        raise StoreParameterError(
            f"GraphConfig.uri has the unknown scheme {scheme!r}; use a path, http://, https://, tcp:// or unix:."
        )
    return False


@dataclass
class _Place:
    """What all stores of this process on one Lite store share: the thread that alone may change it."""

    uri: str
    users: int = 0
    preparing: threading.Lock = field(default_factory=threading.Lock)
    writer: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="graph-store-writer")
    )


class _Places:
    """The Lite stores that are open in this process; the embedded server of a path runs while it has users."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._places: dict[str, _Place] = {}

    def enter(self, key: str, *, path: str | None) -> _Place:
        """Join a Lite store, by path (its server is started) or by URI."""
        with self._guard:
            place = self._places.get(key)
            if place is None:
                place = self._places[key] = _Place(_start_server(path) if path else key)
            place.users += 1
            return place

    def leave(self, key: str, *, path: str | None) -> None:
        """Leave a Lite store; the last one out stops the server, which lets go of the folder's lock."""
        with self._guard:
            place = self._places[key]
            place.users -= 1
            if place.users:
                return
            del self._places[key]
            place.writer.shutdown(wait=True)
            if path:
                _stop_server(path)


_places = _Places()


def _start_server(path: str) -> str:
    from milvus_lite.server_manager import server_manager_instance

    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailableError(f"The folder for {path} cannot be created: {error}. Choose another uri.") from error
    if target.exists() and not target.is_dir():
        raise StoreUnavailableError(
            f"{path} is a file; Milvus Lite keeps a store in a folder. It may come from Milvus Lite 2.5 or older, "
            "which cannot be read any more. Choose another uri."
        )
    if target.is_dir() and any(target.iterdir()) and not (target / "collections").is_dir():
        raise StoreUnavailableError(
            f"{path} is a folder with other things in it; Milvus Lite wants one of its own. "
            f"Choose another uri, such as {target / 'memory.db'}."
        )
    uri: str | None = server_manager_instance.start_and_get_uri(path)
    if uri is None:
        raise StoreUnavailableError(
            f"Milvus Lite cannot open {path}. One process at a time may open it: close the other one, or run "
            "`milvus-lite server` and give its http:// URI to all of them."
        ) from take_logged_cause()
    return uri


def _stop_server(path: str) -> None:
    from milvus_lite.server_manager import server_manager_instance

    server_manager_instance.release_server(path)


class MilvusConnection:
    """Opens on first use, in a thread, and then calls `prepare` with the client and whether Milvus Lite answers.

    With `must_exist`, a path or a database that is not there is an error, and is not made.
    """

    def __init__(
        self, config: GraphConfig, *, prepare: Callable[[Client, bool], None], must_exist: bool = False
    ) -> None:
        self.config = config
        self._must_exist = must_exist
        self._is_server = is_server(config.uri)
        self._path = "" if self._is_server else str(home_path(config.uri).absolute())
        self._prepare = prepare
        self._guard = threading.Lock()
        at_once = config.max_concurrent if self._is_server else min(config.max_concurrent, _READS_IN_PROCESS)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="graph-store")
        self._client: Client | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._resources = ExitStack()
        self._closed = False

    @cached_property
    def place(self) -> str:
        """The path with its links resolved, or the URI; Lite's lock on a folder knows nothing of links."""
        return self.config.uri.rstrip("/") if self._is_server else str(Path(self._path).resolve())

    @property
    def identity(self) -> str:
        """The place and the database."""
        return f"{self.place}#{self.config.name}" if self.config.name else self.place

    @property
    def is_lite(self) -> bool:
        """Whether Milvus Lite answers, by path or by URI; known once the connection is open."""
        return self._writer is not None

    async def open(self) -> None:
        """Connect, if not connected."""
        await self.read("Opening the store", lambda client: None)

    async def read(self, doing: str, function: Callable[[Client], T]) -> T:
        """Call a function with the client, beside others; `doing` begins the message of a failure."""
        return await self._run(self._threads, doing, function)

    async def write(self, doing: str, function: Callable[[Client], T]) -> T:
        """Call a function that changes rows or flushes: one at a time on Lite, beside others on a server.

        Lite's own bookkeeping fails when two flushes, or a flush and a write, meet.
        """
        if self._client is None:
            await self.open()
        return await self._run(self._writer or self._threads, doing, function)

    async def close(self) -> None:
        """Let running calls end, then disconnect."""
        if not self._closed:
            self._closed = True
            await off_loop(None, self._disconnect)

    async def _run(self, executor: ThreadPoolExecutor, doing: str, function: Callable[[Client], T]) -> T:
        if self._closed:
            raise StoreError("The graph store is closed; make a new one.")
        return await off_loop(executor, self._call, doing, function)

    def _call(self, doing: str, function: Callable[[Client], T]) -> T:
        with reported_as(doing, self.config):
            return function(watched(self._connected(), self.config.name))

    def _connected(self) -> Client:
        with self._guard:
            if self._client is None:
                with span("open store"):
                    self._client = self._connect()
            return self._client

    def _connect(self) -> Client:
        from pymilvus import MilvusClient

        config = self.config
        with ExitStack() as opened:
            path = None if self._is_server else self.place
            if path and self._must_exist and not Path(path).exists():
                raise StoreUnavailableError(f"There is no store at {path}; give the path it was made with.")
            place = self._enter(opened, path=path) if path else None
            client = MilvusClient(
                place.uri if place else config.uri,
                token="" if place else config.token,
                timeout=config.timeout,
                **{"dedicated": True, **config.extras, "grpc_options": _PINGS | config.extras.get("grpc_options", {})},
            )
            opened.callback(client.close)
            if place is None and client.get_server_version().startswith(_LITE_VERSION):
                place = self._enter(opened, path=None)
            with place.preparing if place else threading.Lock():
                self._choose_database(client)
                self._prepare(watched(client, config.name), place is not None)
            self._writer = place.writer if place else None
            self._resources = opened.pop_all()
        return client

    def _enter(self, opened: ExitStack, *, path: str | None) -> _Place:
        place = _places.enter(self.place, path=path)
        opened.callback(_places.leave, self.place, path=path)
        return place

    def _choose_database(self, client: Client) -> None:
        name, timeout = self.config.name, self.config.timeout
        if not name:
            return
        if name not in client.list_databases(timeout=timeout):
            if self._must_exist:
                raise StoreUnavailableError(
                    f"{self.config.uri} has no database {name!r}; give the name it was made with."
                )
            client.create_database(name, timeout=timeout)
        client.use_database(name, timeout=timeout)

    def _disconnect(self) -> None:
        self._threads.shutdown(wait=True)
        if self._writer is not None and threading.main_thread().is_alive():
            # The one thread takes its work in order, so once this is done all earlier writes of this store are. At the
            # end of the program they are done already: Python waits for them before `atexit` callbacks.
            self._writer.submit(lambda: None).result()
        self._resources.close()
