"""The blocking door: the same methods and answers, inside and outside of a running loop, and a process that ends."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jiuwen_memory import EPISODE_COLLECTION, EpisodeType, GraphConfig, GraphMemory
from jiuwen_memory.errors import InvalidInputError, SetupError
from jiuwen_memory.integrations.sync import SyncGraphMemory
from jiuwen_memory.testing import fake_memory

# These are no coroutines: they are called on `.memory` itself.
PLAIN = {"attach_embedder", "attach_reranker", "register_search_strategy"}


def test_every_method_of_the_memory_has_its_blocking_twin() -> None:
    awaited = {
        name
        for name, member in inspect.getmembers(GraphMemory, inspect.isfunction)
        if not name.startswith("_") and name not in PLAIN | {"aclose", "hold"}
    }

    twins = {name for name in vars(SyncGraphMemory) if not name.startswith("_")}

    assert awaited <= twins


def test_a_twin_keeps_name_arguments_and_docstring() -> None:
    twin, method = SyncGraphMemory.add_memory, GraphMemory.add_memory

    assert (twin.__name__, twin.__doc__) == (method.__name__, method.__doc__)
    assert inspect.signature(twin) == inspect.signature(method)


def test_a_script_remembers_finds_and_forgets_on_milvus_lite(tmp_path: Path) -> None:
    config = GraphConfig(uri=str(tmp_path / "sync.db"), embed_dim=64)

    with SyncGraphMemory(fake_memory(config=config)) as memory:
        update = memory.add_memory(EpisodeType.DOCUMENT, "ann", "Ann keeps bees behind the mill.")
        found = memory.search("bees", "ann", entity=False, relation=False)
        listed = list(memory.objects(EPISODE_COLLECTION, "ann"))
        receipt = memory.delete_episode("ann", update.added_episode[0].uuid)

        assert [each.content for _, each in found[EPISODE_COLLECTION]] == ["Ann keeps bees behind the mill."]
        assert [each.uuid for each in listed] == [update.added_episode[0].uuid]
        assert not receipt.residue
        assert list(memory.objects(EPISODE_COLLECTION, "ann")) == []


async def test_it_can_be_used_inside_a_running_loop() -> None:
    with SyncGraphMemory(fake_memory()) as memory:
        memory.add_memory(EpisodeType.DOCUMENT, "ann", "Ann keeps bees.")
        found = await asyncio.to_thread(memory.search, "bees", "ann")

        assert found[EPISODE_COLLECTION]


def test_threads_share_one_memory() -> None:
    with SyncGraphMemory(fake_memory()) as memory:
        threads = [
            threading.Thread(target=memory.add_memory, args=(EpisodeType.DOCUMENT, f"user {number}", "Bees hum."))
            for number in range(8)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

        counts = [len(list(memory.objects(EPISODE_COLLECTION, f"user {number}"))) for number in range(8)]

        assert counts == [1] * 8


def test_errors_arrive_as_they_are() -> None:
    with SyncGraphMemory(fake_memory()) as memory, pytest.raises(InvalidInputError, match="not blank"):
        memory.search(" ", "ann")


def test_a_use_after_close_says_so() -> None:
    memory = SyncGraphMemory(fake_memory())
    memory.close()
    memory.close()

    with pytest.raises(SetupError, match="closed"):
        memory.search("bees", "ann")


def test_a_call_that_runs_while_another_thread_closes_the_memory_ends_with_an_error() -> None:
    memory = SyncGraphMemory(fake_memory())
    begun, raised = threading.Event(), list[SetupError]()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    def call() -> None:
        try:
            memory.run(endless())
        except SetupError as error:
            raised.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    begun.wait()
    memory.close()
    caller.join()

    assert [each.message for each in raised] == [
        "This memory was closed while the call ran; make a new SyncGraphMemory."
    ]


def test_threads_that_call_and_close_at_once_all_end() -> None:
    for _ in range(20):
        memory = SyncGraphMemory(fake_memory())
        ended: list[str] = []

        def call(memory: SyncGraphMemory = memory, ended: list[str] = ended) -> None:
            try:
                while True:
                    memory.run(asyncio.sleep(0))
            except SetupError as error:
                ended.append(error.message)

        callers = [threading.Thread(target=call) for _ in range(3)]
        closers = [threading.Thread(target=memory.close) for _ in range(2)]
        for each in (*callers, *closers):
            each.start()
        for each in (*callers, *closers):
            each.join(timeout=20)

        assert not any(each.is_alive() for each in (*callers, *closers))
        assert len(ended) == 3


async def test_a_call_that_would_wait_for_itself_is_refused() -> None:
    with SyncGraphMemory(fake_memory()) as memory:

        async def inner() -> None:
            memory.pending("ann")

        with pytest.raises(SetupError, match="wait for itself"):
            memory.run(inner())


def test_something_else_than_a_memory_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="GraphMemory"):
        SyncGraphMemory("graph.db")  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "import atexit\natexit.register(memory.close)\n"], ids=["not", "at its exit"])
def test_a_script_that_forgets_to_close_or_does_it_last_ends_and_keeps_its_memory(end: str, tmp_path: Path) -> None:
    script = (
        "from jiuwen_memory import EpisodeType, GraphConfig\n"
        "from jiuwen_memory.integrations.sync import SyncGraphMemory\n"
        "from jiuwen_memory.testing import fake_memory\n"
        f"memory = SyncGraphMemory(fake_memory(config=GraphConfig(uri={str(tmp_path / 'kept.db')!r}, embed_dim=64)))\n"
        f"{end}memory.add_memory(EpisodeType.DOCUMENT, 'ann', 'Ann keeps bees.')\n"
    )

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    with SyncGraphMemory(fake_memory(config=GraphConfig(uri=str(tmp_path / "kept.db"), embed_dim=64))) as memory:
        assert len(list(memory.objects(EPISODE_COLLECTION, "ann"))) == 1
