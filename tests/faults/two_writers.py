"""Two processes write the memory of one user at once; what comes out must be what one process alone leaves.

    python -m tests.faults.two_writers [--adds 20]

Starts a `milvus-lite server`, a `redis-server` and the writers, each a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jiuwen_memory import EpisodeType, GraphConfig, GraphMemory, InProcessLocks, UserLocks
from jiuwen_memory.foundation.redis_locks import RedisUserLocks
from jiuwen_memory.testing import FakeLLM, FakePrompt, by_name, fake_memory, same_as
from jiuwen_memory.testing.llm import Answer
from tests.memory_support import MAY, all_entities, all_episodes, all_relations, entities, facts, problems
from tests.redis_support import redis_server
from tests.stores import lite_server

USER = "ann"
DIM = 64
PEOPLE = ("Ada", "Boris", "Chen", "Dilnoza", "Emeka")
PLACES = ("Basalt", "Quillmark", "Tromso")
VERBS = ("works at", "left", "founded")
FACT = re.compile(rf"({'|'.join(PEOPLE)}) ({'|'.join(VERBS)}) ({'|'.join(PLACES)})\.")


@dataclass(frozen=True)
class Outcome:
    """A user's graph without ids and times: what must not depend on who wrote when."""

    episodes: tuple[str, ...]
    entities: tuple[tuple[str, str, int, int], ...]
    facts: tuple[tuple[str, str, str, str, int, int], ...]
    problems: tuple[str, ...]


def text_of(writer: int, number: int) -> str:
    """The text of an add: three facts out of those that both writers share, and a mark of its own."""
    said = [
        f"{PEOPLE[(number + 2 * part + writer) % len(PEOPLE)]} {VERBS[(number + part) % len(VERBS)]} "
        f"{PLACES[(number + part + writer) % len(PLACES)]}."
        for part in range(3)
    ]
    return " ".join([f"Note {number} of writer {writer}.", *dict.fromkeys(said)])


def make_memory(uri: str, name: str, *, locks: UserLocks) -> GraphMemory:
    """Return a memory whose model answers by the text alone, so that the order of the writes does not matter."""
    names = (*PEOPLE, *PLACES)
    llm = FakeLLM(
        {
            "EntityExtraction": _things,
            "RelationExtraction": _facts,
            "EntityDuplication": _same,
            "EntitySummaries": by_name({each: f"{each}, as known." for each in names}),
        }
    )
    return fake_memory(llm=llm, config=GraphConfig(uri=uri, name=name, embed_dim=DIM, timeout=60.0), locks=locks)


def _said(prompt: FakePrompt) -> list[tuple[str, ...]]:
    text = prompt.text.rsplit("<text>", 1)[1].split("</text>")[0]
    return [match.groups() for match in FACT.finditer(text)]


def _things(prompt: FakePrompt) -> Answer:
    said = _said(prompt)
    types = {who: "Human" for who, _, _ in said} | {where: "Entity" for _, _, where in said}
    return entities(types)


def _facts(prompt: FakePrompt) -> Answer:
    return facts(*((who, verb, where, f"{who} {verb} {where}.") for who, verb, where in _said(prompt)))


def _same(prompt: FakePrompt) -> Answer:
    line = prompt.lines().get(1, "")
    if " | " not in line:
        return same_as({each: [each] for each in (*PEOPLE, *PLACES)})(prompt)
    # A pair, asked again by itself: two lines that begin with the name.
    old, new = (part.split()[0] for part in line.split(" | "))
    return {"1": "same" if old == new else "different"}


async def write(memory: GraphMemory, texts: Sequence[str]) -> None:
    """Add texts, all wanted at once."""
    async with memory, asyncio.TaskGroup() as group:
        for text in texts:
            group.create_task(memory.add_memory(EpisodeType.DOCUMENT, USER, text, reference_time=MAY))


async def read(memory: GraphMemory) -> Outcome:
    """Return what the user's graph holds; two entities of a name, or two facts of a sentence, are an error."""
    async with memory:
        episodes = await all_episodes(memory, USER)
        nodes = await all_entities(memory, USER)
        edges = await all_relations(memory, USER)
        wrong = await problems(memory, USER)
    names = {each.uuid: each.name for each in nodes.values()}
    return Outcome(
        tuple(sorted(each.content for each in episodes)),
        tuple(sorted((each.name, each.obj_type, each.mention_count, len(each.relations)) for each in nodes.values())),
        tuple(
            sorted(
                (each.content, each.name, names[each.lhs], names[each.rhs], each.mention_count, len(each.episodes))
                for each in edges.values()
            )
        ),
        tuple(wrong),
    )


async def alone(uri: str, adds: int) -> Outcome:
    """Return what one process leaves that makes the adds of both writers."""
    texts = [text_of(writer, number) for number in range(adds) for writer in (0, 1)]
    await write(make_memory(uri, "alone", locks=InProcessLocks(wait=600)), texts)
    return await read(make_memory(uri, "alone", locks=InProcessLocks()))


async def at_once(uri: str, redis: str, adds: int) -> Outcome:
    """Return what two processes leave that write at once."""
    # The collections are made beforehand: no lock of a user guards that.
    async with make_memory(uri, "at_once", locks=InProcessLocks()):
        pass
    command = [sys.executable, "-m", "tests.faults.two_writers", "--writer"]
    writers = [
        await asyncio.create_subprocess_exec(*command, json.dumps([uri, redis, writer, adds]), stdin=subprocess.PIPE)
        for writer in (0, 1)
    ]
    ended = await asyncio.gather(*(each.wait() for each in writers))
    if any(ended):
        raise RuntimeError(f"The writers ended with {ended}.")
    return await read(make_memory(uri, "at_once", locks=InProcessLocks()))


def run(folder: Path, adds: int) -> tuple[Outcome, Outcome]:
    """Return what one process leaves, and what two leave."""
    with lite_server(folder / "data") as uri, redis_server(folder) as redis:
        return asyncio.run(alone(uri, adds)), asyncio.run(at_once(uri, redis.url, adds))


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adds", type=int, default=20, help="adds of each of the two processes")
    parser.add_argument("--writer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.writer:
        uri, redis, writer, adds = json.loads(options.writer)
        memory = make_memory(uri, "at_once", locks=RedisUserLocks(redis, wait=600))
        asyncio.run(write(memory, [text_of(writer, number) for number in range(adds)]))
        return
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        one, two = run(Path(folder), options.adds)
    print(
        f"2 processes x {options.adds} adds in {time.monotonic() - began:.0f} s: {len(two.episodes)} episodes, "
        f"{len(two.entities)} entities, {len(two.facts)} facts, {len(two.problems)} problems; "
        f"{'equal to' if one == two else 'DIFFERENT FROM'} one process's"
    )
    sys.exit(one != two or bool(two.problems))


if __name__ == "__main__":
    main()
