"""An error at every call to store, model and embedder, and a cancellation at every await, of one add (merge, unmerge).

After each, the graph is as before the add or as after it, the check finds nothing, and doing the add again (or
`resume`, where the input was kept) gives the graph of an undisturbed run.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final, Literal
from uuid import uuid4

from jiuwen_memory import GraphConfig, GraphMemory
from jiuwen_memory.errors import (
    EmbeddingServiceError,
    JiuwenMemoryError,
    ModelServiceError,
    StoreError,
    StoreUnavailableError,
)
from jiuwen_memory.foundation.locks import held_users
from tests.faults.hooks import Hooks, When, do_nothing, hook_up
from tests.faults.world import (
    DIM,
    USER,
    Deed,
    Snapshot,
    do,
    lite_config,
    open_world,
    snapshot,
    tell_before,
    without_log,
)
from tests.stores import lite_server

Kind = Literal["transient", "lasting", "cancelled", "step"]
Place = Literal["memory", "lite", "server"]
State = Literal["untouched", "raised", "kept", "degraded", "cancelled"]
AT_ONCE: Final = 16


@dataclass(frozen=True)
class Fault:
    """What goes wrong at one call, or at one step of the event loop; `resumed` says how the add is done again."""

    kind: Kind
    number: int
    when: When = "before"
    resumed: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of an add with a fault in it."""

    fault: Fault
    call: str
    state: State
    wrong: tuple[str, ...]


class Injector:
    """The hook that lets a fault happen. A lasting one takes the whole service away: store, model or embedder."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.call = ""
        self.task: asyncio.Task[object] | None = None
        self._seen: Counter[When] = Counter()

    def hook(self, call: str, when: When) -> None:
        is_here = (when, self._seen[when]) == (self.fault.when, self.fault.number)
        self._seen[when] += 1
        if is_here:
            self.call = call
            if self.fault.kind == "cancelled" and self.task:
                self.task.cancel()
        is_gone = self.fault.kind == "lasting" and self.call and _service(call) == _service(self.call)
        if (is_here and self.fault.kind == "transient") or is_gone:
            raise failure_of(call)


def _service(call: str) -> str:
    return call.replace("journal", "store").replace(".", " ").split(" ")[0]


def failure_of(call: str) -> JiuwenMemoryError:
    """Return the error that the service behind a call would raise."""
    if call.startswith("model"):
        return ModelServiceError("The model was told to fail.")
    if call.startswith("embedder"):
        return EmbeddingServiceError("The embedder was told to fail.")
    return StoreUnavailableError("The store was told to fail.")


class Worlds:
    """Worlds that know all but the last text: in this process, on disk, or each in a database of one server."""

    def __init__(self, place: Place, folder: Path, deed: Deed = "add", *, uri: str = "") -> None:
        self.deed: Deed = deed
        self._place = place
        self._folder = folder
        self._uri = uri
        self._numbers = count()

    async def prepare(self) -> None:
        if self._place == "lite":
            async with open_world(lite_config(self._folder / "prepared")) as memory:
                await tell_before(memory, self.deed)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[GraphMemory, Hooks]]:
        if self._place == "lite":
            folder = self._folder / str(next(self._numbers))
            await asyncio.to_thread(shutil.copytree, self._folder / "prepared", folder)
            config = lite_config(folder, backend="hooked-milvus")
        elif self._place == "server":
            name = f"fault{next(self._numbers)}"
            config = lite_config(self._folder, backend="hooked-milvus", uri=self._uri, name=name)
        else:
            config = GraphConfig(uri=uuid4().hex, backend="hooked-memory", embed_dim=DIM, request_max_retries=2)
        memory = open_world(config)
        hooks = hook_up(memory)
        async with memory:
            if self._place != "lite":
                await tell_before(memory, self.deed)
            yield memory, hooks
        if self._place == "lite":
            await asyncio.to_thread(shutil.rmtree, folder)


@dataclass(frozen=True)
class Undisturbed:
    """The graph before and after the add, and the calls it makes."""

    before: Snapshot
    after: Snapshot
    calls: tuple[str, ...]


async def undisturbed(worlds: Worlds) -> Undisturbed:
    """Do the add once without a fault."""
    calls: list[str] = []
    async with worlds.open() as (memory, hooks):
        before = await snapshot(memory)
        hooks.hook = lambda call, when: calls.append(call) if when == "before" else None
        await do(memory, worlds.deed)
        hooks.hook = do_nothing
        return Undisturbed(before, await snapshot(memory), tuple(calls))


async def try_fault(fault: Fault, run: Undisturbed, worlds: Worlds) -> Outcome:
    """Do the add with one fault in it, look at what is left, and do it again."""
    async with worlds.open() as (memory, hooks):
        injector = Injector(fault)
        hooks.hook = injector.hook
        state = await _add(memory, injector, worlds.deed)
        hooks.hook = do_nothing

        wrong = await _look(memory, run, state)
        if fault.resumed:
            wrong += [f"resumed with {each.error}" for each in await memory.resume(USER) if each.error]
        else:
            await do(memory, worlds.deed)
        wrong += await _look(memory, run, "degraded" if state == "degraded" else "untouched")
        if any(user == USER and store == memory.db_backend.identity for store, user in held_users()):
            wrong.append("the user's lock is still held")
    return Outcome(fault, injector.call, state, tuple(wrong))


async def _add(memory: GraphMemory, injector: Injector, deed: Deed) -> State:
    task = asyncio.ensure_future(do(memory, deed))
    injector.task = task
    if injector.fault.kind == "step":
        for _ in range(injector.fault.number):
            await asyncio.sleep(0)
        injector.task.cancel()
    try:
        warnings = await asyncio.shield(task)
    except JiuwenMemoryError as error:
        return "kept" if deed == "add" and not isinstance(error, StoreError) else "raised"
    except asyncio.CancelledError:
        return "cancelled"
    return "degraded" if warnings else "untouched"


async def _look(memory: GraphMemory, run: Undisturbed, state: str) -> list[str]:
    """Return what is wrong with the graph after an add that ended so."""
    wrong: list[str] = []
    pending = await memory.pending(USER)
    if (state == "kept") != (len(pending) == 1) or len(pending) > 1:
        wrong.append(f"{len(pending)} adds are pending after an add that was {state}")
    if state == "kept" and await snapshot(memory) != run.before:
        wrong.append("a part that failed left something in the graph")
    await memory.recover()
    found = await snapshot(memory)
    allowed = {"untouched": [run.after], "kept": [run.before]}.get(state, [run.before, run.after])
    if state == "degraded":
        if found.episodes[-1:] and len(found.episodes) != len(run.after.episodes):
            wrong.append(f"{len(found.episodes)} episodes")
    elif found not in allowed:
        wrong.append(f"{state}, but: {found.difference(allowed[-1])}")
    wrong += map(str, (await memory.check()).findings)
    kinds = [each.kind for each in await memory.db_backend.journal.entries(USER)]
    if kinds != ["pending"] * len(pending) or any((await memory.db_backend.journal.unfinished(USER)).values()):
        wrong.append(f"the journal keeps {kinds}")
    return wrong


def every_fault(run: Undisturbed, place: Place, deed: Deed) -> list[Fault]:
    """Return every error and cancellation at a call, those that keep the input with both ways to do it again."""
    faults = []
    for number, call in enumerate(run.calls):
        is_store = _service(call) == "store"
        moments: tuple[When, ...] = ("before", "after") if is_store else ("before",)
        faults += [Fault(kind, number, when) for kind in ("transient", "lasting", "cancelled") for when in moments]
        if not is_store and place == "memory" and deed == "add":
            faults.append(Fault("lasting", number, resumed=True))
    return faults


async def every_step(run: Undisturbed, worlds: Worlds, *, stride: int = 1) -> list[Outcome]:
    """Cancel the add after each number of steps of the event loop, until it is over before that."""
    outcomes: list[Outcome] = []
    for number in count(0, stride):
        outcomes.append(await try_fault(Fault("step", number), run, worlds))
        if len(asyncio.all_tasks()) > 1:
            outcomes.append(Outcome(Fault("step", number), "", "cancelled", ("a task goes on",)))
        if outcomes[-1].state == "untouched":
            return outcomes
    raise AssertionError("unreachable")


def run_errors(folder: Path, place: Place, *, deed: Deed = "add", stride: int = 1) -> str:
    """Let everything fail once, and return the figure; an inconsistency is an error that lists them all.

    With a stride, only every so many calls and steps.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with without_log(), lite_server(folder / "data") if place == "server" else nullcontext("") as uri:
        return asyncio.run(_run(Worlds(place, folder, deed, uri=uri), place, stride=stride))


async def _run(worlds: Worlds, place: Place, *, stride: int) -> str:
    await worlds.prepare()
    run = await undisturbed(worlds)
    outcomes = await _side_by_side(every_fault(run, place, worlds.deed)[::stride], run, worlds)
    outcomes += await every_step(run, worlds, stride=stride) if place == "memory" else []
    kinds = Counter(each.fault.kind for each in outcomes)
    states = Counter(each.state for each in outcomes)
    bad = [each for each in outcomes if each.wrong]
    figure = (
        f"errors ({place}): in one {worlds.deed} of {len(run.calls)} calls {kinds['transient']} failed once, "
        f"{kinds['lasting']} for good, {kinds['cancelled']} cancelled at a call, "
        f"{kinds['step']} at a step of the event loop; it was unharmed or tried again "
        f"{states['untouched']}, degraded {states['degraded']}, raised {states['raised']}, "
        f"raised and kept its input {states['kept']}, cancelled {states['cancelled']}; inconsistencies {len(bad)}"
    )
    if bad:
        lines = [f"{each.fault} at {each.call!r} ({each.state}): {' | '.join(each.wrong)}" for each in bad]
        raise AssertionError("\n".join([figure, *lines]))
    return figure


async def _side_by_side(faults: Sequence[Fault], run: Undisturbed, worlds: Worlds) -> list[Outcome]:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(fault: Fault) -> Outcome:
        async with places:
            return await try_fault(fault, run, worlds)

    return list(await asyncio.gather(*(one(each) for each in faults)))
