"""Measures what makes a graph anew, killed in the middle and done again: `python -m tests.benchmarks.renewing`.

A rebuild in another way, a copy for an embedding model of another dimension, and a migration from a first release's
schema, each of a store on Milvus Lite: what was there before and afterwards, and how long the second call took. A
report, not a test.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jiuwen_memory import AddMemStrategy, Entity, EpisodeType, GraphConfig, GraphMemory, MemoryItem
from jiuwen_memory.foundation.store.graph import BaseGraphObject
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, FakePrompt, fake_memory
from jiuwen_memory.testing.llm import Answer
from tests.benchmarks.growing import found_in, stated_in, things_of
from tests.killing import kill_midway
from tests.migrate_support import age

MODULE: Final = "tests.benchmarks.renewing"
ITEMS: Final = 100
DIMENSION, WIDER = 384, 512
BY_TRIPLES: Final = AddMemStrategy(chinese_entity=False, extraction="openie")


class WiderEmbedder(FakeEmbedder):
    """Another model, by its name."""

    model_name = "wider-embedder"


@dataclass(frozen=True)
class Picture:
    """What a store holds: how many rows, and the ids by what they say."""

    counts: Mapping[str, int]
    ids: Mapping[str, str]

    def kept_in(self, later: Picture) -> str:
        """Say how many of the ids are those of the same things in a later picture."""
        same = sum(later.ids.get(name) == uuid for name, uuid in self.ids.items())
        return f"{same} of {len(self.ids)} ids"


def triples_in(prompt: FakePrompt) -> Answer:
    """Name the two things of a text, and state its fact as a triple."""
    thing, place = things_of(prompt)
    listed = [{"name": name, "type": "Entity"} for name in (thing, place)]
    return {"entities": listed, "triples": [{"subject": thing, "predicate": "is near", "object": place}]}


def opened(path: Path, dimension: int = DIMENSION) -> GraphMemory:
    """Return a memory on the store at a path."""
    llm = FakeLLM({"EntityExtraction": found_in, "RelationExtraction": stated_in, "OpenInformation": triples_in})
    embedder = (FakeEmbedder if dimension == DIMENSION else WiderEmbedder)(dimension)
    return fake_memory(llm=llm, embedder=embedder, config=GraphConfig(uri=str(path), embed_dim=dimension))


async def fill(path: Path) -> Picture:
    """Make a store of `ITEMS` texts, and return what is in it."""
    items = [
        MemoryItem("ann", f"thing-{number} is near place-{number % 20}.", EpisodeType.DOCUMENT, session_id="walk")
        for number in range(ITEMS)
    ]
    async with opened(path) as memory:
        assert not (await memory.add_memories(items)).failed
        return await pictured(memory)


async def pictured(memory: GraphMemory) -> Picture:
    """Return what a store holds. A triple has no full stop, the sentence that it was has one."""
    found = {name: [each async for each in memory.objects(name, "ann")] for name in GRAPH_COLLECTIONS}
    ids = {_said(each): each.uuid for rows in found.values() for each in rows}
    return Picture({name: len(rows) for name, rows in found.items()}, ids)


def _said(each: BaseGraphObject) -> str:
    text = each.name if isinstance(each, Entity) else each.content
    return f"{each.collection} {text.rstrip('.')}"


async def run_in_process(what: str, path: Path) -> None:
    """Do one of the three, telling how far it is."""

    async def tell(progress: Any) -> None:
        print(progress, flush=True)
        await asyncio.sleep(0.2 if what != "rebuild" else 0.0)

    if what == "migrate":
        async with aclosing(opened(path)) as memory:
            await memory.migrate(tell)
        return
    async with opened(path) as memory:
        if what == "rebuild":
            await memory.rebuild("ann", strategy=BY_TRIPLES, on_progress=tell)
            return
        async with opened(path.with_name("wider.db"), WIDER) as copy:
            await memory.reembed(into=copy, on_progress=tell)


async def measure_rebuild(folder: Path) -> None:
    """Read everything again in another way."""
    path = folder / "rebuild.db"
    before = await fill(path)
    await kill_midway(MODULE, "rebuild", path, lines=ITEMS // 2)
    async with opened(path) as memory:
        start = time.perf_counter()
        report = await memory.rebuild("ann", strategy=BY_TRIPLES)
        seconds = time.perf_counter() - start
        after = await pictured(memory)
        is_clean = (await memory.check("ann")).is_clean
    done = report.progress
    print(
        f"rebuild, staged to openie: {before.counts}, killed after {ITEMS // 2}; the second call passed over "
        f"{done.kept}, read {done.done - done.kept}, {done.failed} failed, {seconds:.1f} s; {after.counts}, the same "
        f"{before.kept_in(after)}, check clean: {is_clean}"
    )


async def measure_reembed(folder: Path) -> None:
    """Copy everything for a model of another dimension."""
    path = folder / "reembed.db"
    before = await fill(path)
    await kill_midway(MODULE, "reembed", path, lines=2)
    async with opened(path) as memory, opened(path.with_name("wider.db"), WIDER) as copy:
        start = time.perf_counter()
        done = await memory.reembed(into=copy)
        seconds = time.perf_counter() - start
        after, source = await pictured(copy), await pictured(memory)
        is_clean = (await copy.check("ann")).is_clean
    print(
        f"reembed, {DIMENSION} to {WIDER}: {before.counts}, killed after 2 pages; the second call passed over "
        f"{done.kept}, embedded {done.embedded}, {seconds:.1f} s; {after.counts}, the same {before.kept_in(after)}, "
        f"source untouched: {source == before}, check clean: {is_clean}"
    )


async def measure_migration(folder: Path) -> None:
    """Bring a store of a first release's schema to today's."""
    path = folder / "migrate.db"
    before = await fill(path)
    await age(GraphConfig(uri=str(path), embed_dim=DIMENSION))
    await kill_midway(MODULE, "migrate", path, lines=2)
    async with aclosing(opened(path)) as memory:
        start = time.perf_counter()
        done = await memory.migrate()
        seconds = time.perf_counter() - start
        after = await pictured(memory)
    print(
        f"migrate, a first release's schema to today's: {before.counts}, killed after 2 pages; the second call copied "
        f"{done.copied} of {sum(done.rows.values())}, embedded {done.embedded}, {seconds:.1f} s; {after.counts}, "
        f"the same {before.kept_in(after)}"
    )


async def measure() -> None:
    """Print everything."""
    with tempfile.TemporaryDirectory() as folder:
        await measure_rebuild(Path(folder))
        await measure_reembed(Path(folder))
        await measure_migration(Path(folder))


if __name__ == "__main__":
    asyncio.run(measure())
