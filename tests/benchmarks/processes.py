"""Lines that need processes of their own: what an import costs, whether memory grows. Starts processes and a server."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.report import Line, judged
from tests.benchmarks.settings import Setting
from tests.stores import lite_server

IMPORT_SECONDS = 0.3
IMPORT_MEGABYTES = 60
IMPORTS = 5
FLAT = 0.02
"""Growth of memory from the middle to the end of the adds up to which it counts as flat, as a share."""

_IMPORT = """
import time
start = time.process_time()
import jiuwen_memory
spent = time.process_time() - start
with open("/proc/self/status") as status:
    size = next(line for line in status if line.startswith("VmRSS")).split()[1]
print(spent, int(size) / 1024)
"""


async def import_cost(setting: Setting) -> list[Line]:
    """(i) CPU and memory of `import jiuwen_memory` in a fresh interpreter, with bytecode as an installer leaves it."""
    # Where writing bytecode is switched off, as in many containers, every run would compile the checkout anew.
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    compiled["PYTHONPYCACHEPREFIX"] = str(setting.folder / "bytecode")
    written = [await _output("-c", _IMPORT, environment=compiled) for _ in range(IMPORTS + 1)]
    runs = [[float(part) for part in each.split()] for each in written[1:]]
    seconds = statistics.median(run[0] for run in runs)
    size = statistics.median(run[1] for run in runs)
    return [
        Line(
            "i",
            "import jiuwen_memory: CPU, memory of the process",
            f"<= {IMPORT_SECONDS} s, < {IMPORT_MEGABYTES} MB",
            f"{seconds:.2f} s, {size:.0f} MB",
            judged(seconds <= IMPORT_SECONDS and size < IMPORT_MEGABYTES),
            {"runs": runs},
        )
    ]


async def growth(setting: Setting) -> list[Line]:
    """(j) Memory, locks and tasks of a process that adds to a server, after a warm-up and from there on."""
    folder = setting.folder / "server"
    with lite_server(folder) as uri:
        written = await _output("-m", "tests.benchmarks.growth", uri, str(setting.growth))
    points: list[dict[str, Any]] = json.loads(written.splitlines()[-1])
    middle, last = points[len(points) // 2], points[-1]
    grown = last["megabytes"] / middle["megabytes"] - 1
    left = last["locks"] + last["tasks"]
    sizes = ", ".join(f"{point['megabytes']:.0f}" for point in points)
    marks = ", ".join(str(point["adds"]) for point in points)
    return [
        Line(
            "j",
            f"memory of the client of a server after {marks} adds",
            "flat",
            f"{sizes} MB; {last['locks']} locks, {last['tasks']} tasks, {last['threads']} threads left",
            judged(grown <= FLAT and not left),
            {"points": points},
        )
    ]


async def _output(*arguments: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return what a fresh interpreter prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2], env=environment
    )
    written, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{arguments[0]} ended with {process.returncode}")
    return written.decode()
