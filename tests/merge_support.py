"""Graphs as values that two memories can share, and small lives in which two people are taken for one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from jiuwen_memory import ENTITY_COLLECTION, RELATION_COLLECTION, Entity, GraphConfig, GraphMemory, Relation
from jiuwen_memory.foundation.store.graph import BaseGraphObject
from jiuwen_memory.testing import by_name
from tests.memory_support import MAY, Taught, all_episodes, taught

_OF_THE_RUN: Final = {"uuid", "created_at", "embedding_key", "group", "content_embedding", "name_embedding"}
DIM: Final = 64


async def portrait(memory: GraphMemory, user: str = "ann", *, summaries: bool = True) -> list[str]:
    """Return everything a user's graph says, without what differs from run to run: ids, costs, order, times."""
    episodes = await all_episodes(memory, user)
    nodes = [each async for each in memory.objects(ENTITY_COLLECTION, user) if isinstance(each, Entity)]
    edges = [each async for each in memory.objects(RELATION_COLLECTION, user) if isinstance(each, Relation)]
    labels = {each.uuid: f"<{each.name} {each.obj_type} {each.aliases}>" for each in nodes}
    labels |= {each.uuid: f"<{each.content}>" for each in (*edges, *episodes)}
    nodes = nodes if summaries else [each.revise(content="") for each in nodes]
    objects: list[BaseGraphObject] = [*nodes, *edges, *episodes]
    return sorted(json.dumps(_shown(each, labels), ensure_ascii=False, sort_keys=True) for each in objects)


def _shown(each: BaseGraphObject, labels: Mapping[str, str]) -> dict[str, Any]:
    values = each.model_dump(exclude=_OF_THE_RUN)
    if "expired_at" in values:
        values["expired_at"] = values["expired_at"] is not None
    values["extra"].pop("usage", None)
    for name, value in values.items():
        if isinstance(value, list) and name != "merged_from":
            values[name] = sorted(labels.get(item, item) for item in value)
        elif isinstance(value, str):
            values[name] = labels.get(value, value)
    return values


async def all_facts(memory: GraphMemory, user: str = "ann") -> dict[str, Relation]:
    """Return a user's facts by their sentence; of several with one sentence, any."""
    found = [each async for each in memory.objects(RELATION_COLLECTION, user) if isinstance(each, Relation)]
    return {each.content: each for each in found}


def difference(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Return what only one of two portraits shows."""
    mine, theirs = Counter(first), Counter(second)
    return [*(f"only first: {each}" for each in mine - theirs), *(f"only second: {each}" for each in theirs - mine)]


@dataclass
class Lives:
    """Tells the lives of Tom Orr and Thomas Reed, who are two; one text may make them one."""

    mind: Taught
    day: int = 0

    async def learn(self, text: str, **script: Any) -> None:
        self.day += 1
        await self.mind.learn(text, reference_time=MAY + timedelta(days=self.day), **script)

    async def begin(self) -> None:
        """Tell what is right: both like tea in the same words and live somewhere; Reed changed his drink."""
        await self.learn(
            "Tom Orr flies the Heron, lives in Lima and likes tea.",
            types={"Tom Orr": "Human", "Heron": "Entity", "Lima": "Entity", "tea": "Entity"},
            said=[
                ("Tom Orr", "flies", "Heron", "Tom Orr flies the Heron."),
                ("Tom Orr", "lives in", "Lima", "He lives in Lima.", "2019"),
                ("Tom Orr", "likes", "tea", "He likes tea."),
            ],
            summaries={"Tom Orr": "A pilot in Lima."},
            source="orr.txt",
        )
        await self.learn("Tom Orr sang.", types={"Tom Orr": "Human"}, same={"Tom Orr": ["Tom Orr"]}, source="orr.txt")
        await self.learn("Tommy Orr slept.", types={"Tommy Orr": "Human"}, same={"Tommy Orr": ["Tom Orr"]})
        await self.learn(
            "Thomas Reed lives in Oslo, drinks milk and knows Tom Orr.",
            types={"Thomas Reed": "Human", "Oslo": "Entity", "milk": "Entity", "Tom Orr": "Human"},
            said=[
                ("Thomas Reed", "lives in", "Oslo", "He lives in Oslo.", "2018"),
                ("Thomas Reed", "drinks", "milk", "Reed drinks milk."),
                ("Thomas Reed", "knows", "Tom Orr", "Reed knows Orr."),
                ("Thomas Reed", "rests", "Thomas Reed", "Reed rests."),
            ],
            same={"Tom Orr": ["Tom Orr"]},
            summaries={"Thomas Reed": "A man in Oslo."},
            source="reed.txt",
        )
        await self.learn(
            "Thomas Reed likes tea since 2020 and no longer drinks milk.",
            types={"Thomas Reed": "Human", "tea": "Entity", "milk": "Entity"},
            said=[
                ("Thomas Reed", "likes", "tea", "He likes tea.", "2020"),
                ("Thomas Reed", "avoids", "milk", "Reed now avoids milk.", "2021"),
            ],
            same={"Thomas Reed": ["Thomas Reed"], "tea": ["tea"], "milk": ["milk"]},
            contradicts={"Reed now avoids milk": ["Reed drinks milk"]},
            source="reed.txt",
        )

    async def turn(self, *, wrong: bool) -> None:
        """Tell that Reed moved; a wrong verdict takes him for Orr as well, and ends what is known of Orr's home."""
        await self.learn(
            "Thomas Orr Reed now lives in Bergen.",
            types={"Thomas Orr Reed": "Human", "Bergen": "Entity"},
            said=[("Thomas Orr Reed", "lives in", "Bergen", "He now lives in Bergen.", "2026")],
            same={"Thomas Orr Reed": ["Thomas Reed", "Tom Orr"] if wrong else ["Thomas Reed"]},
            contradicts={"He now lives in Bergen": ["He lives in Oslo", "He lives in Lima"]},
            summaries={"Thomas Reed": "A man in Bergen.", "Tom Orr": "A pilot in Bergen." if wrong else ""},
            source="turn.txt",
        )

    def script_summaries(self) -> None:
        """Let the model describe each as he is."""
        right = {"Tom Orr": "A pilot in Lima.", "Thomas Reed": "A man in Bergen."}
        self.mind.llm.replies["EntitySummaries"] = by_name(right)


def lives(folder: Path | None = None, **options: Any) -> Lives:
    """Return a memory, on disk if a folder is given, in which nothing is told yet."""
    config = GraphConfig(uri=str(folder / "graph.db"), embed_dim=DIM, timeout=60.0) if folder else None
    return Lives(taught(config=config, **options))
