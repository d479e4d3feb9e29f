"""Work done in another process, which is killed in the middle of it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


async def kill_midway(module: str, *arguments: object, lines: int) -> str:
    """Run `run_in_process` of a module in another process, kill that after so many printed lines; return the last.

    The arguments travel as their `repr`; a path is handed over as one.
    """
    return await asyncio.to_thread(_kill_midway, module, arguments, lines)


def _kill_midway(module: str, arguments: tuple[object, ...], lines: int) -> str:
    given = ", ".join(f"Path({str(each)!r})" if isinstance(each, Path) else repr(each) for each in arguments)
    code = f"import asyncio; from pathlib import Path; import {module} as m; asyncio.run(m.run_in_process({given}))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    ) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(lines)]
        os.kill(process.pid, signal.SIGKILL)
    return told[-1].strip()
