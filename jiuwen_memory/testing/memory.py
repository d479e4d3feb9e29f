"""A whole graph memory made of fakes, for tests of what is built on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.memory_core.config.graph import AddMemStrategy
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.testing.embedder import FakeEmbedder
from jiuwen_memory.testing.llm import FakeLLM, Reply, Script


def fake_memory(
    replies: Mapping[str, Reply | Script] | None = None,
    *,
    llm: FakeLLM | None = None,
    embedder: FakeEmbedder | None = None,
    config: GraphConfig | None = None,
    strategy: AddMemStrategy | None = None,
    **options: Any,
) -> GraphMemory:
    """Return a memory that needs nothing outside: scripted model, hashed embeddings, a store in this process.

    Args:
        replies: script of the model (see `FakeLLM`), unless `llm` is given.
        config: where the graph is stored instead; its `embed_dim` must be the embedder's dimension.
        strategy: how texts become part of the graph; questions are English by default.
        options: further arguments of `GraphMemory`.
    """
    embedder = embedder or FakeEmbedder(dimension=config.embed_dim if config else 64)
    config = config or GraphConfig(uri=f"fake-{uuid4().hex}", backend="memory", embed_dim=embedder.dimension)
    memory = GraphMemory(
        config,
        llm or FakeLLM(replies),
        extraction_strategy=strategy or AddMemStrategy(chinese_entity=False),
        language=options.pop("language", "en"),
        **options,
    )
    memory.attach_embedder(embedder)
    return memory
