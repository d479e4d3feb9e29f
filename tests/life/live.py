"""Reads the life with a real model behind an endpoint; keeps what the graph holds after each episode in a file."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jiuwen_memory import (
    ENTITY_COLLECTION,
    RELATION_COLLECTION,
    AddMemStrategy,
    Entity,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    LocalEmbedding,
    Model,
    ModelClientConfig,
    ModelRequestConfig,
    Relation,
)
from jiuwen_memory.errors import JiuwenMemoryError
from tests.life.chapters import CHAPTERS
from tests.life.story import Chapter

USER = "nora"
SECONDS_PER_ANSWER = 300.0
LONGEST_ANSWER = 1000


@dataclass(frozen=True)
class Reading:
    """How the life is read: by which model, of how many episodes, and where the results go."""

    url: str
    model: str
    episodes: int
    kept: Path


async def read_life(reading: Reading) -> None:
    """Add the episodes in the order of time, one line printed for each, and keep the graph after each of them."""
    model = Model(
        ModelRequestConfig(model=reading.model, temperature=0.0, max_tokens=LONGEST_ANSWER),
        ModelClientConfig(api_base=reading.url, timeout=SECONDS_PER_ANSWER),
    )
    embedder = LocalEmbedding()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        config = GraphConfig(
            uri=str(Path(folder) / "life.db"), embed_dim=embedder.dimension, max_concurrent=1, request_max_retries=3
        )
        memory = GraphMemory(config, model, extraction_strategy=AddMemStrategy.small_model(), language="en")
        memory.attach_embedder(embedder)
        async with memory:
            for chapter in CHAPTERS[: reading.episodes]:
                line = await _read_chapter(memory, chapter)
                seconds = time.monotonic() - start
                print(f"{chapter.number:3} after {seconds:6.0f} s: {line}", flush=True)
                held = await graph_of(memory)
                report = {"model": reading.model, "episodes": chapter.number, "seconds": round(seconds), **held}
                reading.kept.write_text(json.dumps(report, ensure_ascii=False, indent=1), encoding="utf-8")
    await embedder.close()
    await model.close()


async def _read_chapter(memory: GraphMemory, chapter: Chapter) -> str:
    """Add one episode and say what came of it; an add that fails counts as nothing learnt."""
    try:
        update = await memory.add_memory(EpisodeType.DOCUMENT, USER, chapter.text, reference_time=chapter.when)
    except JiuwenMemoryError as error:
        return f"failed: {error}"
    facts = "; ".join(each.content for each in update.added_relation if each.kind == "fact")
    names = ", ".join(each.name for each in update.added_entity)
    usage = update.usage
    return f"{usage.calls} calls, new {names or 'nothing'} | {facts or 'no new fact'} | {len(update.warnings)} warnings"


async def graph_of(memory: GraphMemory) -> dict[str, list[dict[str, Any]]]:
    """Return the entities and facts of the graph, as far as they are compared."""
    entities = [each async for each in memory.objects(ENTITY_COLLECTION, USER) if isinstance(each, Entity)]
    relations = [each async for each in memory.objects(RELATION_COLLECTION, USER) if isinstance(each, Relation)]
    return {
        "entities": [
            {"uuid": each.uuid, "names": [each.name, *each.aliases], "type": each.obj_type} for each in entities
        ],
        "facts": _facts(relations),
    }


def _facts(relations: Sequence[Relation]) -> list[dict[str, Any]]:
    return [
        {
            "lhs": each.lhs,
            "rhs": each.rhs,
            "content": each.content,
            "since": each.valid_since,
            "until": each.valid_until,
            "replaced": bool(each.superseded_by),
        }
        for each in relations
        if each.kind == "fact"
    ]
