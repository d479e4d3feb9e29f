"""Graph stores and objects for tests: one description per backend, and objects with small deterministic vectors."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from jiuwen_memory.foundation.store.graph import (
    Entity,
    Episode,
    GraphConfig,
    GraphStore,
    GraphStoreFactory,
    Relation,
    StoreAround,
)
from jiuwen_memory.testing.strict import StrictStore

DIM = 32
BACKENDS = ("memory", "lite", "lite-server", "strict-lite")

_numbers = count()


class AroundMemory(StoreAround):
    """A store that changes nothing around one in memory."""

    inner = "memory"


class Backend:
    """One kind of store, in a place of its own; `make` may be called again to reopen it."""

    def __init__(self, kind: str, folder: Path, *, server_uri: str = "") -> None:
        self.kind = kind
        self._number = next(_numbers)
        self._folder = folder
        self._server_uri = server_uri
        self._made: list[GraphStore] = []

    @property
    def is_milvus(self) -> bool:
        return self.kind not in ("memory", "around")

    def config(self, **changes: Any) -> GraphConfig:
        places: dict[str, dict[str, str]] = {
            "memory": {"uri": f"contract-{self._number}", "backend": "memory"},
            "around": {"uri": f"contract-{self._number}", "backend": "around"},
            "lite": {"uri": str(self._folder / "graph.db")},
            "lite-server": {"uri": self._server_uri, "name": f"contract_{self._number}"},
            "strict-lite": {"uri": str(self._folder / "graph.db"), "backend": "strict-lite"},
        }
        return GraphConfig(**{"embed_dim": DIM, "timeout": 60.0, **places[self.kind], **changes})

    def make(self, **changes: Any) -> GraphStore:
        if self.kind == "strict-lite":
            GraphStoreFactory.register_backend("strict-lite", StrictStore, force=True)
        if self.kind == "around":
            GraphStoreFactory.register_backend("around", AroundMemory, force=True)
        store = GraphStoreFactory.from_config(self.config(**changes))
        self._made.append(store)
        return store

    async def close(self) -> None:
        for store in self._made:
            await store.close()


def vector(seed: object) -> list[float]:
    """Return a vector of length one that the seed alone decides."""
    source = random.Random(repr(seed))
    values = [source.gauss(0, 1) for _ in range(DIM)]
    length = sum(value * value for value in values) ** 0.5
    return [value / length for value in values]


def axis(*parts: tuple[int, float]) -> list[float]:
    """Return a vector that is zero but for the given places."""
    values = [0.0] * DIM
    for place, value in parts:
        values[place] = value
    return values


def entity(name: str, *, user: str = "ann", **changes: Any) -> Entity:
    """Return an entity with both vectors."""
    vectors = {"name_embedding": vector(name), "content_embedding": vector(changes.get("content") or name)}
    return Entity(**{"name": name, "user_id": user, **vectors, **changes})


def relation(content: str, *, lhs: str = "l", rhs: str = "r", user: str = "ann", **changes: Any) -> Relation:
    """Return a relation with its vector."""
    values = {"name": "knows", "content": content, "lhs": lhs, "rhs": rhs, "user_id": user}
    return Relation(**{**values, "content_embedding": vector(content), **changes})


def episode(content: str, *, user: str = "ann", **changes: Any) -> Episode:
    """Return an episode with its vector."""
    return Episode(**{"content": content, "user_id": user, "content_embedding": vector(content), **changes})


@dataclass(frozen=True)
class LiteServer:
    """A `milvus-lite server` that runs: its URI, and its process."""

    uri: str
    pid: int


@contextmanager
def lite_server(folder: Path) -> Iterator[str]:
    """Run `milvus-lite server` in a process of its own and lend its URI."""
    with lite_server_process(folder) as server:
        yield server.uri


@contextmanager
def lite_server_process(folder: Path) -> Iterator[LiteServer]:
    """Run `milvus-lite server` in a process of its own and lend it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = ["server", "--data-dir", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    with (folder.parent / "server.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "milvus_lite", *arguments], stdout=log, stderr=log)
        try:
            _await_port(port, process)
            yield LiteServer(f"http://127.0.0.1:{port}", process.pid)
        finally:
            process.terminate()
            process.wait()


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    while True:
        if process.poll() is not None:
            raise RuntimeError(f"milvus-lite server ended with {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
