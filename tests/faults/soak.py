"""Adds and searches by many users for a long time, with faults at random, deletions and resumes now and then.

What counts: an add that was acknowledged is there at the end, once; what was deleted is not; memory, locks and tasks
do not grow; the check of everyone finds nothing.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from jiuwen_memory import ENTITY_COLLECTION, RELATION_COLLECTION, EpisodeType, GraphMemory, GraphMemUpdate, Relation
from jiuwen_memory.errors import JiuwenMemoryError
from jiuwen_memory.foundation.locks import held_users
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, FakePrompt, by_name, same_as
from jiuwen_memory.testing.llm import Answer
from tests.faults.errors import failure_of
from tests.faults.hooks import When, do_nothing, hook_up
from tests.faults.world import lite_config, open_world, without_log
from tests.memory_support import MAY, all_episodes, entities, facts
from tests.stores import LiteServer, lite_server_process

PEOPLE: Final = ("Ada", "Boris", "Chen", "Dilnoza", "Emeka", "Farid", "Greta", "Hana")
PLACES: Final = ("Basalt", "Quillmark", "Tromso", "Lima", "Oslo")
VERBS: Final = ("works at", "left", "founded", "likes")
FACT: Final = re.compile(rf"({'|'.join(PEOPLE)}) ({'|'.join(VERBS)}) ({'|'.join(PLACES)})\.")
WORKERS: Final = 8
WARM_UP: Final = 0.3
CANCELLED: Final = 0.03


def soak_model() -> FakeLLM:
    """Return a model that reads the facts out of the text; equal names are the same."""
    names = (*PEOPLE, *PLACES)
    return FakeLLM(
        {
            "EntityExtraction": lambda prompt: entities(
                {who: "Human" for who, _, _ in _said(prompt)} | {where: "Entity" for _, _, where in _said(prompt)}
            ),
            "RelationExtraction": lambda prompt: facts(
                *((who, verb, where, f"{who} {verb} {where}.") for who, verb, where in _said(prompt))
            ),
            "EntityDuplication": _same,
            "EntitySummaries": by_name({each: f"{each}, as known." for each in names}),
        }
    )


def _said(prompt: FakePrompt) -> list[tuple[str, str, str]]:
    text = prompt.text.rsplit("<text>", 1)[1].split("</text>")[0]
    return list(dict.fromkeys((found[1], found[2], found[3]) for found in FACT.finditer(text)))


def _same(prompt: FakePrompt) -> Answer:
    return same_as({each: [each] for each in (*PEOPLE, *PLACES)})(prompt)


class Chance:
    """A hook that lets a share of all calls fail, before or after their work."""

    def __init__(self, share: float, source: random.Random) -> None:
        self.calls = 0
        self.failed = 0
        self._share = share
        self._source = source

    def hook(self, call: str, when: When) -> None:
        self.calls += when == "before"
        if self._source.random() < self._share / 2:
            self.failed += 1
            raise failure_of(call)


@dataclass
class Told:
    """One text told to a user, and what is known about it."""

    user: str
    text: str
    number: int
    uuid: str | None = None
    deleted: bool = False


def megabytes_of(pid: int) -> float:
    """Return the memory that a process has, in megabytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass
class Growth:
    """What the process holds at a moment."""

    operations: int
    megabytes: float
    tasks: int
    locks: int
    server: float = 0.0


@dataclass
class Soak:
    """The state of one run."""

    memory: GraphMemory
    llm: FakeLLM
    embedder: FakeEmbedder
    users: tuple[str, ...]
    source: random.Random
    server_pid: int | None = None
    told: list[Told] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    growth: list[Growth] = field(default_factory=list)

    def measure(self, operations: int) -> None:
        """Note what the process holds, while nothing is going on; what the fakes keep of each call is not counted."""
        self.llm.prompts.clear()
        self.embedder.texts.clear()
        gc.collect()
        server = megabytes_of(self.server_pid) if self.server_pid else 0.0
        mine = megabytes_of(os.getpid())
        self.growth.append(Growth(operations, mine, len(asyncio.all_tasks()), len(held_users()), server))

    async def add(self) -> None:
        """Tell a user something."""
        said = [
            f"{self.source.choice(PEOPLE)} {self.source.choice(VERBS)} {self.source.choice(PLACES)}."
            for _ in range(self.source.randint(1, 3))
        ]
        number = len(self.told)
        told = Told(self.source.choice(self.users), " ".join([f"Note {number}.", *said]), number)
        self.told.append(told)
        await self.tell(told)

    async def tell(self, told: Told, *, cancelled: float = CANCELLED) -> None:
        """Tell a text, perhaps not for the first time; a share of the callers does not wait for the end."""
        adding = asyncio.ensure_future(
            self.memory.add_memory(
                EpisodeType.DOCUMENT, told.user, told.text, reference_time=MAY.replace(microsecond=told.number % 10**6)
            )
        )
        if self.source.random() < cancelled:
            asyncio.get_running_loop().call_later(self.source.uniform(0, 0.5), adding.cancel)
        try:
            update: GraphMemUpdate | None = await asyncio.shield(adding)
        except (JiuwenMemoryError, asyncio.CancelledError) as error:
            self.done[f"add {type(error).__name__}"] += 1
            return
        if update is not None:
            told.uuid = update.duplicate_of or update.added_episode[0].uuid
            self.done["add"] += 1

    async def search(self) -> None:
        """Ask for something that may be known."""
        await self._tried("search", self.memory.search(self.source.choice(PEOPLE), self.source.choice(self.users)))

    async def delete(self) -> None:
        """Forget one of the texts that are known to be stored."""
        stored = [each for each in self.told if each.uuid and not each.deleted]
        if stored:
            chosen = self.source.choice(stored)
            chosen.deleted = True
            await self._tried("delete", self.memory.delete_episode(chosen.user, str(chosen.uuid)))

    async def resume(self) -> None:
        """Do again what failed for a user."""
        await self._tried("resume", self.memory.resume(self.source.choice(self.users)))

    async def _tried(self, name: str, deed: Awaitable[object]) -> None:
        try:
            await deed
            self.done[name] += 1
        except JiuwenMemoryError as error:
            self.done[f"{name} {type(error).__name__}"] += 1

    async def one(self) -> None:
        """Do one thing, mostly an add or a search."""
        chance = self.source.random()
        if chance < 0.03:
            await self.delete()
        elif chance < 0.04:
            await self.resume()
        elif chance < 0.52:
            await self.add()
        else:
            await self.search()


async def work(soak: Soak, operations: int, *, rounds: int = 10) -> None:
    """Do so many things, a few at a time, and measure after each tenth."""
    share = max(1, operations // rounds)
    for number in range(rounds):
        left = iter(range(share))

        async def worker(left: Any = left) -> None:
            for _ in left:
                await soak.one()

        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(worker())
        await asyncio.sleep(0.05)
        soak.measure((number + 1) * share)


async def settle(soak: Soak) -> None:
    """Without faults now: recover, resume, and say again what was never acknowledged or never surely deleted."""
    await soak.memory.recover()
    for result in await soak.memory.resume():
        if result.error:
            raise result.error
    for told in soak.told:
        if told.deleted:
            await soak.memory.delete_episode(told.user, str(told.uuid))
        elif told.uuid is None:
            await soak.tell(told, cancelled=0.0)


@dataclass(frozen=True)
class Verdict:
    """What the end of a run shows."""

    lost: int
    doubled: int
    returned: int
    findings: tuple[str, ...]
    episodes: int
    rows: int


async def judge(soak: Soak) -> Verdict:
    """Compare what is stored with what was acknowledged and deleted."""
    lost = doubled = returned = episodes = rows = 0
    for user in soak.users:
        found = Counter(each.content for each in await all_episodes(soak.memory, user))
        mine = [each for each in soak.told if each.user == user]
        lost += sum(not found[each.text] for each in mine if each.uuid and not each.deleted)
        returned += sum(found[each.text] for each in mine if each.deleted)
        doubled += sum(number - 1 for number in found.values())
        nodes = [each.name async for each in soak.memory.objects(ENTITY_COLLECTION, user)]  # type: ignore[attr-defined]
        edges = [
            (each.lhs, each.rhs, each.content)
            async for each in soak.memory.objects(RELATION_COLLECTION, user)
            if isinstance(each, Relation)
        ]
        doubled += len(nodes) - len(set(nodes)) + len(edges) - len(set(edges))
        episodes += sum(found.values())
        rows += sum(found.values()) + len(nodes) + len(edges)
    report = await soak.memory.check()
    pending = [user for user in soak.users if await soak.memory.pending(user)]
    unsure = [f"{each.text!r} was not acknowledged" for each in soak.told if each.uuid is None]
    findings = (*map(str, report.findings), *(f"{user} has pending adds" for user in pending), *unsure)
    return Verdict(lost, doubled, returned, findings, episodes, rows)


async def _run(folder: Path, server: LiteServer | None, *, operations: int, users: int, share: float, seed: int) -> str:
    source = random.Random(seed)
    config = lite_config(
        folder, backend="hooked-milvus", request_max_retries=3, **({"uri": server.uri} if server else {})
    )
    llm = soak_model()
    memory = open_world(config, llm=llm)
    hooks = hook_up(memory)
    embedder = memory.embedder
    assert isinstance(embedder, FakeEmbedder)
    began = time.monotonic()
    async with memory:
        soak = Soak(memory, llm, embedder, tuple(f"user{number}" for number in range(users)), source)
        soak.server_pid = server.pid if server else None
        chance = Chance(share, source)
        hooks.hook = chance.hook
        await work(soak, operations)
        hooks.hook = do_nothing
        first = dict(soak.done)
        unsure = sum(each.uuid is None for each in soak.told)
        await settle(soak)
        verdict = await judge(soak)
    return _figure(soak, chance, verdict, first=first, unsure=unsure, seconds=time.monotonic() - began)


def _figure(soak: Soak, chance: Chance, verdict: Verdict, *, first: dict[str, int], unsure: int, seconds: float) -> str:
    warm = soak.growth[int(len(soak.growth) * WARM_UP)]
    end = soak.growth[-1]
    done = ", ".join(f"{name} {number}" for name, number in sorted(first.items()))
    figure = "\n".join(
        [
            f"soak: {end.operations} operations of {len(soak.users)} users in {seconds:.0f} s ({done}); "
            f"{chance.failed} of {chance.calls} calls failed",
            f"soak: adds told {len(soak.told)}, acknowledged in the end {sum(bool(each.uuid) for each in soak.told)} "
            f"({unsure} only when told again without faults), lost {verdict.lost}, doubled {verdict.doubled}, deleted "
            f"{sum(each.deleted for each in soak.told)}, of these back {verdict.returned}; findings of the check "
            f"{len(verdict.findings)}; {verdict.episodes} episodes, {verdict.rows} rows",
            "soak: memory "
            + " ".join(f"{each.megabytes:.0f}" for each in soak.growth)
            + f" MB ({end.megabytes - warm.megabytes:+.0f} MB from operation {warm.operations} to the end); "
            f"tasks {warm.tasks} and {end.tasks}, locks {warm.locks} and {end.locks}",
        ]
    )
    if end.server:
        figure += "\nsoak: memory of the server " + " ".join(f"{each.server:.0f}" for each in soak.growth) + " MB"
    wrong = verdict.lost + verdict.doubled + verdict.returned + len(verdict.findings)
    if wrong or end.locks or end.tasks > warm.tasks:
        raise AssertionError("\n".join([figure, *verdict.findings[:50]]))
    return figure


def run_soak(
    folder: Path, *, operations: int = 3000, users: int = 50, share: float = 0.01, server: bool = False, seed: int = 1
) -> str:
    """Run it on Milvus Lite in this process, or in a server of its own, so that the memory measured is ours alone."""
    with without_log(), lite_server_process(folder / "data") if server else nullcontext(None) as running:
        return asyncio.run(_run(folder, running, operations=operations, users=users, share=share, seed=seed))
