"""Adds to a server and prints what the process holds: `python -m tests.benchmarks.growth URI ADDS`."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
from pathlib import Path

from jiuwen_memory.foundation.locks import held_users
from tests.benchmarks.fakes import MarkedModel, WordEmbedder
from tests.benchmarks.texts import Case
from tests.benchmarks.worlds import World, make_memory

POINTS = 6
USERS = 50
ITEMS = 5


def megabytes() -> float:
    """Return the resident memory of this process."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


async def grow(uri: str, adds: int) -> list[dict[str, float]]:
    """Add for many users in turns; return what the process holds at a few points, each after a full collection."""
    model, embedder = MarkedModel(), WordEmbedder()
    points: list[dict[str, float]] = []
    step = max(1, adds // POINTS)
    async with make_memory(uri, model, embedder) as memory:
        world = World(memory, model, embedder)
        for number in range(1, adds + 1):
            await world.add(Case(number, ITEMS, ITEMS), user=f"user {number % USERS}")
            if number % step == 0:
                gc.collect()
                points.append(
                    {
                        "adds": number,
                        "megabytes": megabytes(),
                        "locks": len(held_users()),
                        "tasks": len(asyncio.all_tasks()) - 1,
                        "threads": threading.active_count(),
                        "objects": len(gc.get_objects()),
                    }
                )
    return points


if __name__ == "__main__":
    print(json.dumps(asyncio.run(grow(sys.argv[1], int(sys.argv[2])))))
