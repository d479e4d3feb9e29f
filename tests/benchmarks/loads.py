"""Lines about a busy memory: stalls of the event loop, and many users at once. Runs Milvus Lite in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count

from jiuwen_memory.foundation.concurrency import together
from tests.benchmarks.fakes import MarkedModel
from tests.benchmarks.measuring import Gap, Pauses, gc_watched, loop_watched
from tests.benchmarks.report import Line, judged
from tests.benchmarks.settings import Setting
from tests.benchmarks.texts import USER_ID, Case
from tests.benchmarks.worlds import World, queries

LONGEST_STALL = 0.05
USERS = 8
ADDS_PER_USER = 3
LATENCY = 0.2
ADDS_PER_SECOND = 8.0

_numbers = count(3000)


async def stalls(setting: Setting) -> list[Line]:
    """(g) The longest stall of the event loop during adds and searches on the largest graph."""
    size = max(setting.sizes)
    lines = [await _stall_line("nothing", lambda: asyncio.sleep(0.05), setting.adds, budget=None)]
    async with setting.worlds.open(size) as world:
        asked = iter(queries(2 * setting.searches + setting.adds, size, seed=2))

        async def add() -> None:
            await world.add(Case(next(_numbers), 20, 20, size, merges=True))

        async def search() -> None:
            await world.memory.search(next(asked), USER_ID)

        await add()
        await search()
        lines.append(await _stall_line(f"adds at {size}", add, setting.adds, budget=LONGEST_STALL))
        lines.append(await _stall_line(f"searches at {size}", search, setting.searches, budget=LONGEST_STALL))

        async def both() -> None:
            await together(add(), search())

        lines.append(await _stall_line(f"an add beside a search at {size}", both, setting.adds, budget=None))
    return lines


async def _stall_line(what: str, call: Callable[[], Awaitable[object]], times: int, *, budget: float | None) -> Line:
    with gc_watched() as pauses:
        async with loop_watched() as gaps:
            for _ in range(times):
                await call()
    apart = [gap for gap in gaps if not gap.overlaps(pauses.full())]
    longest = max((gap.own for gap in apart), default=0.0)
    return Line(
        "g",
        f"longest stall of the event loop, {what}, outside full collections",
        f"<= {budget * 1000:.0f} ms" if budget else "",
        f"{longest * 1000:.0f} ms (on the clock {_longest_wall(apart)}, with collections {_longest_wall(gaps)}; "
        f"{len(pauses.full())} of them, up to {pauses.longest(2) * 1000:.0f} ms)",
        judged(longest <= budget) if budget else "reported",
        _stall_values(apart, pauses),
    )


def _longest_wall(gaps: list[Gap]) -> str:
    return f"{max((gap.wall for gap in gaps), default=0.0) * 1000:.0f}"


def _stall_values(gaps: list[Gap], pauses: Pauses) -> dict[str, object]:
    return {
        "longest, own CPU": sorted((gap.own for gap in gaps), reverse=True)[:10],
        "longest, clock": sorted((gap.wall for gap in gaps), reverse=True)[:10],
        "collections": {generation: pauses.longest(generation) for generation in range(3)},
    }


async def throughput(setting: Setting) -> list[Line]:
    """(h) Adds a second of eight users at once, with a model that takes 200 ms an answer."""
    lines = []
    for items in (5, 20):
        async with setting.worlds.open(model=MarkedModel(latency=LATENCY)) as world:

            async def one_user(user: str, items: int, adds: int, world: World = world) -> None:
                for _ in range(adds):
                    await world.add(Case(next(_numbers), items, items), user=user)

            await one_user("warm-up", items, 1)
            start, spent = time.monotonic(), time.process_time()
            await together(*(one_user(f"user {number}", items, ADDS_PER_USER) for number in range(USERS)))
            seconds, cpu = time.monotonic() - start, time.process_time() - spent
        rate = USERS * ADDS_PER_USER / seconds
        lines.append(
            Line(
                "h",
                f"{USERS} users x {ADDS_PER_USER} adds, {LATENCY * 1000:.0f} ms a model call, E = R = {items}",
                f">= {ADDS_PER_SECOND:g} adds/s",
                f"{rate:.1f} adds/s in {seconds:.1f} s, {cpu:.1f} s of them CPU",
                judged(rate >= ADDS_PER_SECOND),
                {"seconds": seconds, "cpu": cpu, "rate": rate},
            )
        )
    return lines
