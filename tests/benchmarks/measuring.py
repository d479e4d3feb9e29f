"""Clocks: CPU of this process and of a server beside it, stalls of the event loop, pauses of the garbage collector.

Reads what Linux tells of a server's process, and touches nothing else.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

OLDEST = 2
"""The generation whose collection looks at everything."""
TICK = 0.001


async def cpu_of(call: Callable[[], Awaitable[object]], *, server: int | None = None) -> float:
    """Return the CPU seconds that the process spends while a call runs, in all of its threads.

    Args:
        call: what is measured.
        server: the number of a process whose CPU counts too; known to hundredths of a second.
    """
    start = time.process_time() + _cpu_of_process(server)
    await call()
    return time.process_time() + _cpu_of_process(server) - start


def _cpu_of_process(number: int | None) -> float:
    if number is None:
        return 0.0
    # The name, in brackets, may hold anything; user and system time are the 14th and 15th field of all.
    fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def milliseconds(seconds: Sequence[float]) -> str:
    """Return median and range."""
    middle = statistics.median(seconds) * 1000
    return f"{middle:.0f} ms ({min(seconds) * 1000:.0f}-{max(seconds) * 1000:.0f})"


@dataclass
class Pauses:
    """Pauses of the garbage collector while it is watched: generation, start and end on the monotonic clock."""

    found: list[tuple[int, float, float]] = field(default_factory=list)

    def full(self) -> list[tuple[float, float]]:
        """Return start and end of the full collections."""
        return [(start, end) for generation, start, end in self.found if generation == OLDEST]

    def longest(self, generation: int) -> float:
        """Return the longest pause of a generation."""
        return max((end - start for each, start, end in self.found if each == generation), default=0.0)


@contextmanager
def gc_watched() -> Iterator[Pauses]:
    """Record the pauses of the garbage collector."""
    pauses = Pauses()
    started = 0.0

    def note(phase: str, info: dict[str, Any]) -> None:
        nonlocal started
        if phase == "start":
            started = time.monotonic()
        else:
            pauses.found.append((int(info["generation"]), started, time.monotonic()))

    gc.callbacks.append(note)
    try:
        yield pauses
    finally:
        gc.callbacks.remove(note)


@dataclass(frozen=True)
class Gap:
    """A time in which the event loop did not get to run: on the clock, and the CPU the process spent in it."""

    start: float
    end: float
    cpu: float

    @property
    def wall(self) -> float:
        """Seconds beyond the tick."""
        return max(0.0, self.end - self.start - TICK)

    @property
    def own(self) -> float:
        """The part that this process spent, and not another one that had the core."""
        return min(self.wall, self.cpu)

    def overlaps(self, times: Sequence[tuple[float, float]]) -> bool:
        """Tell whether one of the times falls into it."""
        return any(start < self.end and end > self.start for start, end in times)


@asynccontextmanager
async def loop_watched() -> AsyncIterator[list[Gap]]:
    """Record every gap between the ticks of a task beside the measured ones."""
    gaps: list[Gap] = []

    async def tick() -> None:
        last, spent = time.monotonic(), time.process_time()
        while True:
            await asyncio.sleep(TICK)
            now, cpu = time.monotonic(), time.process_time()
            gaps.append(Gap(last, now, cpu - spent))
            last, spent = now, cpu

    ticker = asyncio.create_task(tick())
    try:
        yield gaps
    finally:
        ticker.cancel()
        await asyncio.gather(ticker, return_exceptions=True)
