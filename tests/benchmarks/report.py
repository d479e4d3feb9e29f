"""What a benchmark says: its lines, the table they are printed as, and the JSON they are kept as. Writes one file."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

PACKAGES = ("pymilvus", "milvus-lite", "numpy", "pydantic")
BLAS_VARIABLE = "OPENBLAS_NUM_THREADS"

Verdict = Literal["ok", "over", "reported"]


@dataclass(frozen=True)
class Line:
    """One measured line; `values` holds the numbers behind `measured`."""

    key: str
    what: str
    budget: str
    measured: str
    verdict: Verdict = "reported"
    values: Mapping[str, object] = field(default_factory=dict)


def judged(is_kept: bool) -> Verdict:
    """Return the verdict of a line that has a budget."""
    return "ok" if is_kept else "over"


def blas_setting() -> str:
    """Say how many threads BLAS uses: as threadpoolctl finds, or as the variable says."""
    if importlib.util.find_spec("threadpoolctl") is not None:
        import numpy  # noqa: F401  (threadpoolctl sees only what is loaded)

        found = importlib.import_module("threadpoolctl").threadpool_info()
        return ", ".join(f"{each['internal_api']}: {each['num_threads']} threads" for each in found) or "no BLAS found"
    return f"{BLAS_VARIABLE}={os.environ.get(BLAS_VARIABLE, 'unset (all cores)')}"


def loop_speed() -> float:
    """Return the CPU seconds of a fixed loop: about 0.06 where cores are free, more where they are shared."""
    times = []
    for _ in range(5):
        start = time.process_time()
        sum(number * number for number in range(1_000_000))
        times.append(time.process_time() - start)
    return min(times)


def surroundings() -> dict[str, str]:
    """Return what the numbers depend on."""
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
        "blas": blas_setting(),
        "cores": str(os.cpu_count()),
        "loop": f"{loop_speed() * 1000:.0f} ms",
        "load": " ".join(f"{each:.1f}" for each in os.getloadavg()),
    }


def print_lines(lines: Sequence[Line]) -> None:
    """Print lines as a table."""
    rows = [(each.key, each.what, each.budget, each.measured, each.verdict) for each in lines]
    head = ("", "what", "budget", "measured", "")
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, tuple("-" * width for width in widths), *rows):
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def write_json(path: Path, lines: Sequence[Line], setting: Mapping[str, object], found: Mapping[str, str]) -> None:
    """Keep lines, and what they depend on, in a file."""
    content = {"surroundings": found, "setting": setting, "lines": [asdict(line) for line in lines]}
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
