"""Measures the memory against its budgets and prints a table: `python -m tests.benchmarks`, which `make bench` runs.

A report, not a test: counts and ratios are the same everywhere, times are CPU seconds of this process, in which both
the memory and Milvus Lite run; with `--server`, those of this process and of a `milvus-lite server` together. Only line
m, which waits for a model, is measured on the clock, and always in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tests.benchmarks import clients, counts, loads, processes, quality, times
from tests.benchmarks.report import Line, print_lines, surroundings, write_json
from tests.benchmarks.settings import Setting, make_setting
from tests.stores import LiteServer, lite_server_process

Measure = Callable[[Setting], Awaitable[list[Line]]]

MEASURES: dict[str, Measure] = {
    "a": counts.model_calls,
    "b": counts.prompt_characters,
    "c": counts.embedder_calls,
    "d": times.cpu_of_adds,
    "e": times.search_against_raw,
    "f": times.graph_expansion,
    "g": loads.stalls,
    "h": loads.throughput,
    "i": processes.import_cost,
    "j": processes.growth,
    "k": quality.floor,
    "l": times.strategies_against_default,
    "m": clients.first_tokens,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen lines, print them, keep them."""
    options = _parse(arguments)
    logging.getLogger("jiuwen_memory").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder, _server(options, Path(folder)) as server:
        sizes, quick, growth = options.entities, options.quick, options.growth
        setting = make_setting(Path(folder), sizes=sizes, quick=quick, growth=growth, server=server)
        found = surroundings()
        print(", ".join(f"{name} {value}" for name, value in found.items()))
        lines = asyncio.run(_measured(setting, options.only))
    print()
    print_lines(lines)
    if options.json:
        kept = {name: getattr(options, name) for name in ("entities", "quick", "growth", "server")}
        write_json(options.json, lines, kept, found)
        print(f"\nThe numbers behind it are in {options.json}")


def _server(options: argparse.Namespace, folder: Path) -> AbstractContextManager[LiteServer | None]:
    return lite_server_process(folder / "server") if options.server else nullcontext()


async def _measured(setting: Setting, keys: Sequence[str]) -> list[Line]:
    lines: list[Line] = []
    for key in keys:
        start = time.monotonic()
        lines += await MEASURES[key](setting)
        print(f"line {key} took {time.monotonic() - start:.0f} s", flush=True)
    return lines


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--only", type=_keys, default=tuple(MEASURES), help="lines to measure, such as a,b,d")
    parser.add_argument("--entities", type=_sizes, default=None, help="sizes of graphs, default 0,1000,10000")
    parser.add_argument("--growth", type=int, default=None, help="adds of line j, default 600; 10000 takes long")
    parser.add_argument("--json", type=Path, default=None, help="write the numbers to this file")
    parser.add_argument("--server", action="store_true", help="keep the graphs of lines d to h and l on a server")
    parser.add_argument("--quick", action="store_true", help="few repetitions on small graphs")
    options = parser.parse_args(arguments)
    options.entities = options.entities or ((0, 200) if options.quick else (0, 1000, 10_000))
    options.growth = options.growth or (60 if options.quick else 600)
    return options


def _keys(given: str) -> tuple[str, ...]:
    keys = tuple(key.strip() for key in given.split(",") if key.strip())
    unknown = [key for key in keys if key not in MEASURES]
    if unknown or not keys:
        raise argparse.ArgumentTypeError(f"lines are {', '.join(MEASURES)}")
    return keys


def _sizes(given: str) -> tuple[int, ...]:
    return tuple(int(size) for size in given.split(","))


if __name__ == "__main__":
    main()
