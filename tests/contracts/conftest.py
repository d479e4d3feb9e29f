"""The stores of the contract tests, one after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from jiuwen_memory.foundation.store.graph import GraphStore
from tests.stores import BACKENDS, Backend, lite_server


@pytest.fixture(scope="session")
def server_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if find_spec("milvus_lite.__main__") is None:
        pytest.skip("milvus-lite has no server to start")
    with lite_server(tmp_path_factory.mktemp("server") / "data") as uri:
        yield uri


@pytest.fixture(params=(*BACKENDS, "around"))
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    kind: str = request.param
    uri = request.getfixturevalue("server_uri") if kind == "lite-server" else ""
    made = Backend(kind, tmp_path, server_uri=uri)
    yield made
    await made.close()


@pytest.fixture
async def store(backend: Backend) -> GraphStore:
    return backend.make()
