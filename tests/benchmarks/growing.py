"""Measures adding in bulk and linking close names: `python -m tests.benchmarks.growing`. A report, not a test.

Names are made of syllables, a third of them misspelt; the model is a script that takes 0.2 seconds a question.
"""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from jiuwen_memory import ENTITY_COLLECTION, Embedding, Entity, GraphConfig, GraphMemory, LocalEmbedding, MemoryItem
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_update
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, FakePrompt, fake_memory
from jiuwen_memory.testing.llm import Answer
from tests.memory_support import all_entities, all_relations, entities, facts

NAMES: Final = 1000
USERS: Final = 5
ITEMS: Final = 20
LATENCY: Final = 0.2
_SYLLABLES: Final = re.findall(
    r"\w+", "ba do fen gar hil jo kam lun mer nov os pel qua rin sta tor ul vex wen yar zi chan lee brook"
)


def spelt(seed: int = 7) -> Iterator[tuple[str, str]]:
    """Yield pairs of a name and its misspelling, or of a name and nothing, `NAMES` names in all."""
    chance = random.Random(seed)
    seen: set[str] = set()
    while len(seen) < NAMES:
        name = " ".join("".join(chance.choices(_SYLLABLES, k=chance.choice((2, 3)))).title() for _ in range(2))
        if name in seen:
            continue
        seen.add(name)
        variant = misspelt(name, chance) if chance.random() < 0.5 and len(seen) < NAMES else ""
        if variant in seen:
            variant = ""
        if variant:
            seen.add(variant)
        yield name, variant


def misspelt(name: str, chance: random.Random) -> str:
    """Return a name with one slip: a letter left out, doubled, or swapped with the next."""
    place = chance.randrange(1, len(name) - 1)
    return chance.choice(
        (
            name[:place] + name[place + 1 :],
            name[:place] + name[place] + name[place:],
            name[:place] + name[place + 1] + name[place] + name[place + 2 :],
        )
    )


async def measure_synonyms(embedder: Embedding, dimension: int, folder: Path) -> None:
    """Link 1,000 names on Milvus Lite, and print how many of the misspelt ones were found."""
    pairs = list(spelt())
    config = GraphConfig(uri=str(folder / f"names-{dimension}.db"), embed_dim=dimension, embedding_model=embedder)
    async with GraphMemory(config, language="en") as memory:
        rows = [Entity(user_id="ann", obj_type="Human", name=name) for pair in pairs for name in pair if name]
        port = Embedder(embedder, dimension=dimension, tries=1, batch_size=100)
        await commit_update(GraphMemUpdate(added_entity=rows), "ann", store=memory.db_backend, embedder=port)
        start, cpu = time.perf_counter(), time.process_time()
        report = await memory.link_synonyms("ann")
        seconds, used = time.perf_counter() - start, time.process_time() - cpu
        names = {each.uuid: each.name for each in rows}
        found = {frozenset((names[link.lhs], names[link.rhs])) for link in await memory.synonyms("ann")}
        left = await memory.db_backend.count(ENTITY_COLLECTION, user=filter_user("ann"))
    truth = {frozenset(pair) for pair in pairs if pair[1]}
    right = len(found & truth)
    print(
        f"{type(embedder).__name__} {dimension}: {report.entities} names, {len(truth)} misspelt, {report.added} links, "
        f"precision {right / max(len(found), 1):.2f}, recall {right / len(truth):.2f}, "
        f"{seconds:.1f} s ({used:.1f} s of CPU), {left} entities afterwards"
    )


def found_in(prompt: FakePrompt) -> Answer:
    """Name two things of a text such as `thing-1-2 is near place-1-2.`"""
    return entities(dict.fromkeys(things_of(prompt), "Entity"))


def stated_in(prompt: FakePrompt) -> Answer:
    """State its fact."""
    thing, place = things_of(prompt)
    return facts((thing, "is near", place, f"{thing} is near {place}."))


def things_of(prompt: FakePrompt) -> list[str]:
    """Return the two names of a text."""
    words = [word.strip(".") for word in prompt.text.split()]
    return [[word for word in words if word.startswith(start)][-1] for start in ("thing-", "place-")]


async def measure_bulk(folder: Path) -> None:
    """Add the same items one by one and at once, on Milvus Lite, and print what each took."""
    items = [
        MemoryItem(
            f"user-{user}", [{"role": "user", "content": f"thing-{user}-{number} is near place-{user}-{number}."}]
        )
        for number in range(ITEMS)
        for user in range(USERS)
    ]
    graphs = []
    for way in ("one by one", "add_memories"):
        llm = FakeLLM({"EntityExtraction": found_in, "RelationExtraction": stated_in}, latency=LATENCY)
        embedder = FakeEmbedder(64)
        config = GraphConfig(uri=str(folder / f"{way}.db"), embed_dim=64)
        async with fake_memory(llm=llm, embedder=embedder, config=config) as memory:
            start, cpu = time.perf_counter(), time.process_time()
            if way == "add_memories":
                assert not (await memory.add_memories(items)).failed
            else:
                for item in items:
                    await memory.add_memory(item.src_type, item.user_id, item.content)
            seconds, used = time.perf_counter() - start, time.process_time() - cpu
            graphs.append(
                [
                    (sorted(await all_entities(memory, user)), sorted(await all_relations(memory, user)))
                    for user in sorted({item.user_id for item in items})
                ]
            )
        print(
            f"{way}: {len(items)} items in {seconds:.1f} s ({used:.1f} s of CPU), {llm.calls} model calls, "
            f"{embedder.calls} embedder calls"
        )
    print(f"equal graphs: {graphs[0] == graphs[1]}")


async def measure() -> None:
    """Print everything."""
    with tempfile.TemporaryDirectory() as folder:
        await measure_bulk(Path(folder))
        await measure_synonyms(FakeEmbedder(256), 256, Path(folder))
        await measure_synonyms(LocalEmbedding(), 512, Path(folder))


if __name__ == "__main__":
    asyncio.run(measure())
