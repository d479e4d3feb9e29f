"""A process that writes is killed (SIGKILL); a fresh one opens the store, and all must be as before or as after.

Killed at random moments, before and after every store call of an add with merges and removals, before every request
to Milvus inside them, and at every store call of the recovery itself.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Literal

from jiuwen_memory import GraphMemory
from tests.faults.hooks import HookedStore, When
from tests.faults.world import USER, Snapshot, do, lite_config, open_world, snapshot, tell_before, without_log
from tests.faults.world import Deed as Disturbed

Deed = Disturbed | Literal["recover"]
Level = Literal["store", "request"]

# A server that has imported everything and opened nothing forks each process: a fresh one costs milliseconds.
_processes: Final = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(
    [
        *("pymilvus", "milvus_lite.adapter.grpc.server", "aiologic", "tests.faults.world"),
        # Each process imports anew what its parent was started with.
        *(["pytest"] if "pytest" in sys.modules else []),
    ]
)


@dataclass(frozen=True)
class Kill:
    """Where a process ends itself: at a store call of the memory, or at a request to Milvus inside one."""

    level: Level
    number: int
    when: When = "before"
    deed: Deed = "add"


@dataclass(frozen=True)
class Undisturbed:
    """What an add without faults does: the graph before and after it, its calls, its seconds, the stores on disk."""

    deed: Disturbed
    prepared: Path
    journalled: Path
    before: Snapshot
    after: Snapshot
    calls: dict[tuple[Deed, Level], int]
    seconds: float


@dataclass(frozen=True)
class Result:
    """What a fresh process found after a kill: the graph it was handed, and what is wrong."""

    where: str
    state: str
    wrong: tuple[str, ...]


class Counted:
    """Counts calls, and ends the process at one of them."""

    def __init__(self, kill: Kill | None, level: Level) -> None:
        self._seen: Counter[When] = Counter()
        self._kill = kill if kill is not None and kill.level == level else None

    @property
    def calls(self) -> int:
        """How many calls ended."""
        return self._seen["after"]

    def hook(self, call: str, when: When) -> None:
        kill = self._kill
        if kill is not None and (kill.when, kill.number) == (when, self._seen[when]):
            os.kill(os.getpid(), signal.SIGKILL)
        self._seen[when] += 1


class CountedClient:
    """A client of Milvus whose reading and writing requests are counted."""

    def __init__(self, client: Any, counted: Counted) -> None:
        self._client = client
        self._counted = counted

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._client, name)
        if name not in ("upsert", "delete", "flush"):
            return function

        def call(*arguments: Any, **options: Any) -> Any:
            self._counted.hook(name, "before")
            result = function(*arguments, **options)
            self._counted.hook(name, "after")
            return result

        return call


async def _counted_memory(folder: Path, kill: Kill | None) -> tuple[GraphMemory, dict[Level, Counted]]:
    memory = open_world(lite_config(folder, backend="hooked-milvus"))
    store = memory.db_backend
    assert isinstance(store, HookedStore)
    await store.open()
    counted: dict[Level, Counted] = {"store": Counted(kill, "store"), "request": Counted(kill, "request")}
    store.hooks.hook = counted["store"].hook
    connection = store._store._connection  # type: ignore[attr-defined]
    connection._client = CountedClient(connection._client, counted["request"])
    return memory, counted


async def _do(memory: GraphMemory, deed: Deed) -> None:
    if deed == "recover":
        await memory.recover()
    else:
        await do(memory, deed)


def _victim(folder: Path, link: Connection, kill: Kill | None, deed: Deed) -> None:
    """Do a deed in this process until it is killed; tell when it begins and when it is done."""

    async def work() -> None:
        memory, _ = await _counted_memory(folder, kill)
        link.send("ready")
        await _do(memory, deed)

    outcome = "failed"
    try:
        asyncio.run(work())
        outcome = "done"
    finally:
        link.send(outcome)
    signal.pause()


def _surviving(folder: Path, link: Connection, run: Undisturbed, acknowledged: bool) -> None:
    """Open the store in this process, recover, check, add again; tell what is wrong."""
    with without_log():
        link.send(asyncio.run(_mend(folder, run, acknowledged=acknowledged)))


async def _mend(folder: Path, run: Undisturbed, *, acknowledged: bool) -> tuple[str, tuple[str, ...]]:
    wrong: list[str] = []
    async with open_world(lite_config(folder)) as memory:
        recovered = await memory.recover()
        found = await snapshot(memory)
        state = "finished" if not recovered.is_clean else "before" if found == run.before else "after"
        if found not in (run.before, run.after):
            wrong.append(f"half written: {found.difference(run.after)}")
        if found != run.after and (acknowledged or state == "finished"):
            wrong.append(f"lost: {found.difference(run.after)}")
        wrong += await _findings(memory)
        await do(memory, run.deed)
        again = await snapshot(memory)
        if again != run.after:
            wrong.append(f"after adding again: {again.difference(run.after)}")
        wrong += await _findings(memory)
    return "acknowledged" if acknowledged else state, tuple(wrong)


async def _findings(memory: GraphMemory) -> list[str]:
    report = await memory.check()
    entries = await memory.db_backend.journal.entries(USER)
    unclaimed = sum((await memory.db_backend.journal.unfinished(USER)).values())
    left = [f"the journal keeps {each.kind}" for each in entries]
    left += [f"{unclaimed} chunks without a header"] if unclaimed else []
    return [*map(str, report.findings), *left]


def undisturbed(folder: Path, deed: Disturbed) -> Undisturbed:
    """Prepare the stores on disk, and do the add once without a fault."""
    prepared, journalled, scratch = folder / "prepared", folder / "journalled", folder / "scratch"

    async def prepare() -> Snapshot:
        async with open_world(lite_config(prepared)) as memory:
            await tell_before(memory, deed)
            return await snapshot(memory)

    async def run(place: Path, deed: Deed) -> tuple[Snapshot, dict[tuple[Deed, Level], int]]:
        memory, counted = await _counted_memory(place, None)
        await _do(memory, deed)
        calls = {(deed, level): each.calls for level, each in counted.items()}
        result = await snapshot(memory)
        await memory.close()
        return result, calls

    before = asyncio.run(prepare())
    shutil.copytree(prepared, scratch)
    after, calls = asyncio.run(run(scratch, deed))
    shutil.rmtree(scratch)
    shutil.copytree(prepared, scratch)
    seconds = _killed(scratch, kill=None, deed=deed, delay=math.inf) or 0.0
    # A store whose plan is in the journal and nothing of it in the graph: what a recovery begins with.
    shutil.copytree(prepared, journalled)
    _killed(journalled, kill=Kill("store", _number_of_put(folder, prepared, deed), "after"), deed=deed)
    shutil.rmtree(scratch)
    shutil.copytree(journalled, scratch)
    recovered, more = asyncio.run(run(scratch, "recover"))
    if recovered != after:
        raise RuntimeError(f"The recovery of a journalled add differs: {recovered.difference(after)}")
    return Undisturbed(deed, prepared, journalled, before, after, calls | more, seconds)


def _number_of_put(folder: Path, prepared: Path, deed: Disturbed) -> int:
    place = folder / "counting"
    shutil.copytree(prepared, place)
    names: list[str] = []

    async def listen() -> None:
        memory, _ = await _counted_memory(place, None)
        store = memory.db_backend
        assert isinstance(store, HookedStore)
        store.hooks.hook = lambda call, when: names.append(call) if when == "before" else None
        await do(memory, deed)
        await memory.close()

    asyncio.run(listen())
    return names.index("journal.put header")


def _killed(folder: Path, *, kill: Kill | None, deed: Deed, delay: float = 0.0) -> float | None:
    """Let a process do a deed and be killed, by itself or after a delay; return the seconds it took, if it was done.

    An endless delay means: as soon as it is done.
    """
    ours, theirs = _processes.Pipe()
    process = _processes.Process(target=_victim, args=(folder, theirs, kill, deed))
    process.start()
    theirs.close()
    heard: list[str] = []
    began = ended = time.monotonic()
    try:
        heard.append(ours.recv())
        began = time.monotonic()
        if kill is None and delay < math.inf:
            time.sleep(delay)
            process.kill()
        heard.append(ours.recv())
        ended = time.monotonic()
    except EOFError:
        pass
    process.kill()
    process.join()
    # The exit status is not looked at: processes started in several threads may take it from each other.
    if heard not in (["ready"], ["ready", "done"]) or (kill is not None and "done" in heard):
        raise RuntimeError(f"The writer said {heard}; {kill} was not reached.")
    return ended - began if "done" in heard else None


def cycle(folder: Path, run: Undisturbed, *, kill: Kill | None, delay: float = 0.0) -> Result:
    """Kill a process in a copy of the store, and let a fresh one look at what is left."""
    deed: Deed = kill.deed if kill else run.deed
    shutil.copytree(run.journalled if deed == "recover" else run.prepared, folder)
    done = _killed(folder, kill=kill, deed=deed, delay=delay)
    ours, theirs = _processes.Pipe()
    process = _processes.Process(target=_surviving, args=(folder, theirs, run, done is not None))
    process.start()
    theirs.close()
    where = f"{kill.deed} {kill.level} {kill.when} {kill.number}" if kill else f"{deed} after {delay * 1000:.0f} ms"
    try:
        state, wrong = ours.recv()
    except EOFError:
        state, wrong = "unreadable", ("the fresh process failed",)
    process.join()
    shutil.rmtree(folder)
    return Result(where, state, tuple(wrong))


def every_call(run: Undisturbed) -> list[Kill]:
    """Return a kill before and after each store call, and before each request that changes something."""
    kills = []
    for (deed, level), calls in run.calls.items():
        for number in range(calls):
            kills.append(Kill(level, number, "before", deed))
            if level == "store":
                kills.append(Kill(level, number, "after", deed))
    return kills


def run_kills(
    folder: Path, *, deed: Disturbed = "add", moments: int, stride: int = 1, jobs: int = 2, seed: int = 1
) -> str:
    """Kill at so many random moments and at every call, and return the figure; an inconsistency is an error.

    With a stride, only at every so many calls.
    """
    with without_log():
        return _run(folder, deed=deed, moments=moments, stride=stride, jobs=jobs, seed=seed)


def _run(folder: Path, *, deed: Disturbed, moments: int, stride: int, jobs: int, seed: int) -> str:
    run = undisturbed(folder, deed)
    chance = random.Random(seed)
    listed: list[tuple[Kill | None, float]] = [(None, chance.uniform(0, 1.2 * run.seconds)) for _ in range(moments)]
    listed += [(kill, 0.0) for kill in every_call(run)[::stride]]
    began = time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        results = list(
            pool.map(
                lambda each: cycle(folder / f"kill-{each[0]}", run, kill=each[1][0], delay=each[1][1]),
                enumerate(listed),
            )
        )
    seconds = (time.monotonic() - began) / max(1, len(results))
    states = Counter(each.state for each in results)
    bad = [each for each in results if each.wrong]
    figure = (
        f"kills ({deed}): {len(results)} ({moments} at random moments of {1.2 * run.seconds:.2f} s, "
        f"{len(results) - moments} at store calls and requests, recovery included); "
        f"found as before {states['before']}, finished by recovery {states['finished']}, "
        f"complete {states['after'] + states['acknowledged']} (of these acknowledged {states['acknowledged']}); "
        f"inconsistencies {len(bad)}; {seconds:.2f} s each"
    )
    if bad:
        lines = [f"{each.where} ({each.state}): {' | '.join(each.wrong)}" for each in bad]
        raise AssertionError("\n".join([figure, *lines]))
    return figure
