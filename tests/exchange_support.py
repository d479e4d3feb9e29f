"""A small graph with a bit of everything, and ways to look at all of it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from jiuwen_memory import ENTITY_COLLECTION, EPISODE_COLLECTION, RELATION_COLLECTION, GraphConfig, GraphMemory
from jiuwen_memory.foundation.store.graph import BaseGraphObject
from jiuwen_memory.testing import fake_memory
from tests.memory_support import Taught, taught

COLLECTIONS = (ENTITY_COLLECTION, RELATION_COLLECTION, EPISODE_COLLECTION)
DIM = 64


def config_at(folder: Path, kind: str, *, name: str = "graph") -> GraphConfig:
    """Return the settings of a store in a place of its own, in memory or on Milvus Lite."""
    uri = str(folder / name)
    return GraphConfig(uri=uri, backend=kind, embed_dim=DIM, timeout=60.0)


async def grown(config: GraphConfig | None = None, *, user: str = "ann") -> Taught:
    """Return a memory that knows, of one user, a fact that was replaced, a merge, a date and a Chinese name."""
    told = taught(config=config) if config else taught()
    await told.learn(
        "Ann works at Acme since May 2024. 李明 knows her.",
        types={"Ann": "Human", "Acme": "Entity", "李明": "Human"},
        said=[
            ("Ann", "works at", "Acme", "Ann works at Acme.", "May 2024"),
            ("李明", "knows", "Ann", "李明 knows Ann."),
        ],
        summaries={"Ann": "Ann works at Acme.", "李明": "李明认识 Ann。"},
        user=user,
        reference_time=datetime(2026, 5, 1, 9, 0),
        source="chat",
        session_id="s1",
    )
    await told.learn(
        "Annie, who is Ann, left Acme and works at Bolt since March 2026.",
        types={"Annie": "Human", "Bolt": "Entity"},
        said=[("Annie", "works at", "Bolt", "Ann works at Bolt.", "March 2026")],
        same={"Annie": ["Ann"]},
        contradicts={"Ann works at Bolt.": ["Ann works at Acme."]},
        user=user,
        reference_time=datetime(2026, 5, 2, 9, 0),
        source="mail",
    )
    return told


async def everything(memory: GraphMemory, user: str = "ann") -> dict[str, BaseGraphObject]:
    """Return all of a user's objects by id."""
    await memory.db_backend.refresh()
    return {each.uuid: each for name in COLLECTIONS async for each in memory.objects(name, user)}


def empty_memory(folder: Path, kind: str = "memory", *, name: str = "other") -> GraphMemory:
    """Return a memory with nothing in it."""
    return fake_memory(config=config_at(folder, kind, name=name))
