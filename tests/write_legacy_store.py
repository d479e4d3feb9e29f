"""Writes a store with JiuwenMemory 0.1.2 itself, for `test_exchange_legacy.py`; no part of the test run.

Run it with an interpreter that has that package, which cannot live beside ours:

    python -m venv old && old/bin/pip install jiuwenmemory==0.1.2 milvus-lite==3.2.2 greenlet
    old/bin/python tests/write_legacy_store.py old-store.db
    JIUWEN_MEMORY_LEGACY_STORE=old-store.db pytest tests/test_exchange_legacy.py

The model is a script, the vectors are noise. The analyzers that the package asks for do not exist on Milvus Lite and
are swapped for `standard`; nothing else of it is touched.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from datetime import UTC, datetime
from importlib import import_module
from types import SimpleNamespace
from typing import Any

DIMENSION = 32
OLD: Any = import_module

EPISODES: list[dict[str, Any]] = [
    {
        "user": "ann",
        "text": "Ann: I have worked at Acme since May 2024, and I like hiking.",
        "time": datetime(2026, 3, 2, 9, 0, tzinfo=UTC),
        "entities": ["Ann", "Acme", "Hiking"],
        "relations": [
            ("works at", "Ann works at Acme.", 1, 2, "2024-05-01T00:00:00+08:00", ""),
            ("likes", "Ann likes hiking.", 1, 3, "", ""),
        ],
        "summaries": {"Ann": "Ann works at Acme and likes hiking.", "Acme": "Acme employs Ann."},
        "attributes": {"Ann": {"employer": "Acme"}},
    },
    {
        "user": "ann",
        "text": "Ann: I lived in Berlin from 2020 to the end of 2022, near Acme's old office.",
        "time": datetime(2026, 4, 7, 18, 30, tzinfo=UTC),
        "entities": ["Ann", "Berlin", "Acme"],
        "relations": [
            ("lived in", "Ann lived in Berlin.", 1, 2, "2020-01-01T00:00:00+00:00", "2022-12-31T23:59:59+00:00"),
            ("had an office in", "Acme had an office in Berlin.", 3, 2, "", ""),
        ],
        "summaries": {"Ann": "Ann works at Acme, likes hiking and lived in Berlin.", "Berlin": "A city."},
    },
    {
        "user": "bo",
        "text": "李明：我在上海工作。",
        "time": datetime(2026, 5, 1, 1, 0, tzinfo=UTC),
        "entities": ["李明", "上海"],
        "relations": [("工作于", "李明在上海工作。", 1, 2, "", "")],
        "summaries": {"李明": "李明在上海工作。"},
    },
]


class ScriptedModel:
    """Answers by the name of the wanted schema, from the episode that is being added."""

    episode: dict[str, Any]

    async def invoke(self, **params: Any) -> SimpleNamespace:
        name = params["response_format"]["json_schema"]["name"]
        prompt = str(params["messages"])
        return SimpleNamespace(content=json.dumps(self.answer(name, prompt), ensure_ascii=False), usage_metadata=None)

    def answer(self, name: str, prompt: str) -> dict[str, Any]:
        wanted = self.episode
        keys = ("name", "fact", "source_id", "target_id", "valid_since", "valid_until")
        if name == "EntityExtraction":
            return {"extracted_entities": [{"name": each, "entity_type_id": 0} for each in wanted["entities"]]}
        if name == "RelationExtraction":
            return {"extracted_relations": [dict(zip(keys, each, strict=True)) for each in wanted["relations"]]}
        if name == "EntityDuplication":
            return {"duplicated_entities": []}
        if name == "EntitySummary":
            asked = max(wanted["entities"], key=prompt.rfind)
            attributes = wanted.get("attributes", {}).get(asked, {})
            return {"summary": wanted["summaries"].get(asked, f"{asked}."), "attributes": attributes}
        if name == "MergeRelations":
            return {"need_merging": False, "duplicate_ids": [], "combined_content": "", "valid_since": ""}
        return {"extracted_relations": []}


def embedder() -> Any:
    class Noise(OLD("jiuwen_memory.foundation.store.base_embedding").Embedding):  # type: ignore[misc]
        limiter = asyncio.Semaphore(4)
        dimension = DIMENSION

        async def embed_query(self, text: str, **kwargs: Any) -> list[float]:
            source = random.Random(text)
            return [source.gauss(0, 1) for _ in range(DIMENSION)]

        async def embed_documents(self, texts: list[str], batch_size: int | None = None, **kwargs: Any) -> Any:
            return [await self.embed_query(text) for text in texts]

    return Noise()


async def write(path: str) -> None:
    schema = OLD("jiuwen_memory.foundation.store.graph.milvus.generate_milvus_schema")
    for analyzer in (schema.icu_analyzer, schema.icu_analyzer_with_stopwords, schema.exact_match_analyzer):
        analyzer.clear()
        analyzer["tokenizer"] = "standard"
    graph = OLD("jiuwen_memory.foundation.store.graph")
    base = OLD("jiuwen_memory.memory_core.graph.graph_memory.base")
    database = OLD("jiuwen_memory.foundation.store.graph.database_config")
    auto = OLD("jiuwen_memory.foundation.store.graph.index_field").MilvusAUTO()
    model = ScriptedModel()
    config = graph.GraphConfig(
        uri=path,
        name="default",
        embed_dim=DIMENSION,
        embedding_model=embedder(),
        db_embed_config=database.GraphStoreIndexConfig(index_type=auto, distance_metric="cosine"),
    )
    memory = base.GraphMemory(config, model, language="en")
    kind = OLD("jiuwen_memory.memory_core.config.graph").EpisodeType.CONVERSATION
    for model.episode in EPISODES:
        await memory.add_memory(
            kind, model.episode["user"], model.episode["text"], reference_time=model.episode["time"]
        )
    memory.db_backend.close()


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1]))
