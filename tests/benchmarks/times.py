"""Lines that are CPU times: adds, searches against raw searches, graph expansion.

Milvus Lite runs in this process, or in a server's, whose CPU counts too.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from jiuwen_memory import RRFRankConfig, SearchConfig, WeightedRankConfig
from jiuwen_memory.memory_core.graph.graph_memory.searching.strategies import STRATEGIES
from tests.benchmarks.measuring import cpu_of, milliseconds
from tests.benchmarks.raw import RawSearch
from tests.benchmarks.report import Line, judged
from tests.benchmarks.settings import Setting
from tests.benchmarks.texts import USER_ID, Case
from tests.benchmarks.worlds import World, queries

BUDGETS = {0: 0.10, 1000: 0.15, 10_000: 0.30}
SEARCH_FACTOR = 1.3
EXPANSION_FACTOR = 2.5
ITEMS = 20
WARM_UP = 2
SETTLING = 0.3
"""Seconds after an add in which the store ends what it does in the background."""

_numbers = count(1000)


@dataclass(frozen=True)
class AddCosts:
    """CPU seconds of several adds: of each, of all with what follows in the background, of model and embedder."""

    each: list[float]
    with_background: float
    model: float
    embedder: float

    @property
    def median(self) -> float:
        """The add in the middle."""
        return statistics.median(self.each)


async def measured_adds(world: World, size: int, adds: int, *, merges: bool = False) -> AddCosts:
    """Add, after a warm-up, several texts of 20 entities and 20 facts."""

    async def add() -> None:
        await world.add(Case(next(_numbers), ITEMS, ITEMS, size, merges=merges))

    for _ in range(WARM_UP):
        await add()
    await asyncio.sleep(SETTLING)
    world.model.cpu = world.embedder.cpu = 0.0
    costs: list[float] = []

    async def all_adds() -> None:
        for _ in range(adds):
            costs.append(await cpu_of(add, server=world.server))
            await asyncio.sleep(SETTLING)

    total = await cpu_of(all_adds, server=world.server)
    return AddCosts(costs, total / adds, world.model.cpu / adds, world.embedder.cpu / adds)


async def cpu_of_adds(setting: Setting) -> list[Line]:
    """(d) CPU of an add of 20 entities and 20 facts, by size of the graph; and at a hub."""
    lines: list[Line] = []
    plain: dict[int, float] = {}
    for size in setting.sizes:
        async with setting.worlds.open(size) as world:
            costs = await measured_adds(world, size, setting.adds)
        plain[size] = costs.median
        what = f"CPU of an add, E = R = {ITEMS}, {size} entities of that user"
        lines.append(_cost_line(what, costs, BUDGETS.get(size)))
    if setting.filled:
        size = max(setting.filled)
        async with setting.worlds.open(size, degree=size) as world:
            hub = await measured_adds(world, size, setting.adds)
        ratio = hub.median / plain[size]
        lines.append(_cost_line(f"the same, the speaker has {size} relations ({ratio:.1f} x as with 10)", hub, None))
    return lines


def _cost_line(what: str, costs: AddCosts, budget: float | None) -> Line:
    return Line(
        "d",
        what,
        f"<= {budget * 1000:.0f} ms" if budget else "",
        f"{milliseconds(costs.each)}; with background {costs.with_background * 1000:.0f}, "
        f"model {costs.model * 1000:.0f}, embedder {costs.embedder * 1000:.0f}",
        judged(costs.median <= budget) if budget else "reported",
        {
            "seconds": costs.each,
            "with background": costs.with_background,
            "model": costs.model,
            "embedder": costs.embedder,
        },
    )


async def search_against_raw(setting: Setting) -> list[Line]:
    """(e) A search of three collections beside the three hybrid searches it needs, in turns on the same store."""
    lines = []
    for size in setting.filled:
        async with setting.worlds.open(size) as world:
            raw = RawSearch(world.memory.config)
            asked = [(text, world.embedder.vector(text)) for text in queries(setting.searches, size)]

            async def ours(query: tuple[str, list[float]], world: World = world) -> None:
                await world.memory.search(query[0], USER_ID, query_embedding=query[1])

            async def theirs(query: tuple[str, list[float]], raw: RawSearch = raw) -> None:
                await asyncio.to_thread(raw.search, *query)

            try:
                calls = [(partial(ours, query), partial(theirs, query)) for query in asked]
                lines.append(
                    await _ratio_line(
                        "e", f"search of three collections / raw, {size}", calls, SEARCH_FACTOR, world.server
                    )
                )
            finally:
                raw.close()
    return lines


async def graph_expansion(setting: Setting) -> list[Line]:
    """(f) A search with two hops through the graph beside one without."""
    lines = []
    for size in setting.filled:
        async with setting.worlds.open(size) as world:
            world.memory.register_search_strategy(
                "two hops",
                search_entity=SearchConfig(rank_config=WeightedRankConfig(), bfs_depth=2),
                search_relation=SearchConfig(rank_config=RRFRankConfig(), min_score=0.02, bfs_depth=2),
            )
            asked = [(text, world.embedder.vector(text)) for text in queries(setting.searches, size, seed=1)]

            async def search(query: tuple[str, list[float]], strategy: str, world: World = world) -> None:
                await world.memory.search(query[0], USER_ID, strategy, query_embedding=query[1])

            calls = [(partial(search, query, "two hops"), partial(search, query, "default")) for query in asked]
            lines.append(
                await _ratio_line("f", f"bfs_depth=2 / depth 0, {size} entities", calls, EXPANSION_FACTOR, world.server)
            )
    return lines


async def strategies_against_default(setting: Setting) -> list[Line]:
    """(l) Each strategy beside `default`, on three collections; no budget, each does other things."""
    lines = []
    for size in setting.filled:
        async with setting.worlds.open(size) as world:
            asked = [(text, world.embedder.vector(text)) for text in queries(setting.searches, size, seed=3)]

            async def search(query: tuple[str, list[float]], strategy: str, world: World = world) -> None:
                await world.memory.search(query[0], USER_ID, strategy, query_embedding=query[1])

            for name in STRATEGIES:
                if name != "default":
                    calls = [(partial(search, query, name), partial(search, query, "default")) for query in asked]
                    lines.append(
                        await _ratio_line("l", f"{name} / default, {size} entities", calls, None, world.server)
                    )
    return lines


Call = Callable[[], Awaitable[object]]


async def _ratio_line(
    key: str, what: str, calls: Sequence[tuple[Call, Call]], budget: float | None, server: int | None
) -> Line:
    """Measure pairs of calls in turns, each pair in the other order than the one before."""
    for first, second in calls[: 2 * WARM_UP]:
        await first()
        await second()
    pairs: list[tuple[float, float]] = []
    for number, (first, second) in enumerate(calls):
        if number % 2:
            pairs.append((await cpu_of(first, server=server), await cpu_of(second, server=server)))
        else:
            other = await cpu_of(second, server=server)
            pairs.append((await cpu_of(first, server=server), other))
    upper, lower = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    ratio = statistics.median(upper) / statistics.median(lower)
    return Line(
        key,
        what,
        f"<= {budget} x" if budget else "",
        f"{ratio:.2f} x: {milliseconds(upper)} / {milliseconds(lower)}",
        judged(ratio <= budget) if budget else "reported",
        {"ratio": ratio, "ratio of sums": sum(upper) / sum(lower), "seconds": pairs},
    )
