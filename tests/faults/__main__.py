"""Lets things fail and counts what is lost: `python -m tests.faults`, which `make faults` runs. It takes long.

Each part prints its figure and ends with an error on any inconsistency; `tests/test_faults.py` runs a small sample.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.faults import errors, kills, soak, two_writers
from tests.faults.world import Deed

Part = Callable[[Path, argparse.Namespace], list[str]]


def _kills(folder: Path, options: argparse.Namespace) -> list[str]:
    size = {"moments": options.kills, "stride": options.stride, "jobs": options.jobs, "seed": options.seed}
    deeds: tuple[Deed, ...] = ("add", "merge", "unmerge")
    return [kills.run_kills(folder / deed, deed=deed, **size) for deed in deeds]


def _errors(folder: Path, options: argparse.Namespace) -> list[str]:
    places: tuple[errors.Place, ...] = ("server",) if options.server else ("memory", "lite")
    deeds: tuple[Deed, ...] = ("add", "merge", "unmerge")
    return [
        errors.run_errors(folder / place / deed, place, deed=deed, stride=options.stride)
        for place in places
        for deed in deeds
    ]


def _soak(folder: Path, options: argparse.Namespace) -> list[str]:
    size = {"operations": options.operations, "users": options.users, "share": options.share, "seed": options.seed}
    return [soak.run_soak(folder, server=options.server, **size)]


def _two_writers(folder: Path, options: argparse.Namespace) -> list[str]:
    one, two = two_writers.run(folder, options.adds)
    figure = (
        f"two_writers: 2 processes x {options.adds} adds: {len(two.episodes)} episodes, {len(two.entities)} entities, "
        f"{len(two.facts)} facts, problems {len(two.problems)}, equal to one process's: {one == two}"
    )
    if one != two or two.problems:
        raise AssertionError("\n".join([figure, *two.problems]))
    return [figure]


PARTS: dict[str, Part] = {"kills": _kills, "errors": _errors, "soak": _soak, "two_writers": _two_writers}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen parts; the exit status tells whether anything was inconsistent."""
    options = _parse(arguments)
    failed = False
    for name in options.parts or PARTS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            try:
                lines = PARTS[name](place, options)
            except AssertionError as error:
                failed = True
                lines = [f"INCONSISTENT {error}"]
        print("\n".join(lines), f"({name} took {time.monotonic() - began:.0f} s)", sep="\n", flush=True)
    sys.exit(failed)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)}; all of them if none is named")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--kills", type=int, help="kills at random moments, default 300")
    parser.add_argument("--jobs", type=int, default=2, help="kills at a time")
    parser.add_argument("--stride", type=int, help="of all calls, fail or kill only at each so many")
    parser.add_argument("--operations", type=int, help="adds, searches, ... of the soak, default 3000")
    parser.add_argument("--users", type=int, help="users of the soak, default 50")
    parser.add_argument("--share", type=float, default=0.01, help="share of calls that fail in the soak")
    parser.add_argument("--server", action="store_true", help="errors and soak over `milvus-lite server`")
    parser.add_argument("--adds", type=int, help="adds of each of the two writers, default 20")
    parser.add_argument("--seed", type=int, default=1, help="of what is random")
    options = parser.parse_args(arguments)
    sizes = {"kills": (300, 10), "stride": (1, 7), "operations": (3000, 200), "users": (50, 8), "adds": (20, 3)}
    for name, (whole, quick) in sizes.items():
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else whole)
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    return options


if __name__ == "__main__":
    main()
