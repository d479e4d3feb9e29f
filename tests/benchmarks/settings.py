"""What a run of the benchmarks is asked to do. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.worlds import Worlds
from tests.stores import LiteServer


@dataclass(frozen=True)
class Setting:
    """Sizes and repetitions of one run; `sizes` are numbers of stored entities, 0 among them or not."""

    folder: Path
    worlds: Worlds
    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    adds: int
    searches: int
    growth: int

    @property
    def filled(self) -> tuple[int, ...]:
        """The sizes of graphs that are not empty."""
        return tuple(size for size in self.sizes if size)

    @property
    def small(self) -> int:
        """The smallest filled graph, which counts are taken on."""
        return min(self.filled, default=200)


def make_setting(
    folder: Path, *, sizes: tuple[int, ...], quick: bool, growth: int, server: LiteServer | None = None
) -> Setting:
    """Return a setting; `quick` takes fewer repetitions and fewer combinations."""
    return Setting(
        folder=folder,
        worlds=Worlds(folder, server),
        sizes=sizes,
        counts=(0, 5, 20) if quick else (0, 1, 5, 20),
        adds=3 if quick else 9,
        searches=10 if quick else 40,
        growth=growth,
    )
