"""The strategies that are registered from the start: what each is for, on graphs, chats, documents and Chinese."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    Entity,
    Episode,
    GraphConfig,
    GraphMemory,
    MinMaxRankConfig,
    Relation,
    SearchConfig,
)
from jiuwen_memory.memory_core.graph.graph_memory.searching.strategies import STRATEGIES
from jiuwen_memory.testing import FakeEmbedder, fake_memory
from tests.conversation_support import episodes_found, remembering, tell, write

NAMES = sorted(STRATEGIES)


async def small_graph(memory: GraphMemory) -> None:
    """Write a heron at a pond, and an episode that tells of it."""
    heron, pond = (Entity(user_id="ann", name=name, content=f"A {name.lower()}.") for name in ("Heron", "Pond"))
    told = Episode(user_id="ann", content="The heron fishes at the pond.", entities=[heron.uuid, pond.uuid])
    fact = Relation(
        user_id="ann",
        name="fishes at",
        content="The heron fishes at the pond.",
        lhs=heron.uuid,
        rhs=pond.uuid,
        episodes=[told.uuid],
    )
    await write(memory, [heron, pond, told, fact])


@pytest.mark.parametrize("name", NAMES)
async def test_every_strategy_finds_what_is_there_in_all_collections(name: str) -> None:
    memory = remembering()
    await small_graph(memory)

    found = await memory.search("Where does the heron fish?", "ann", name)

    assert "Heron" in [each.name for _, each in found[ENTITY_COLLECTION] if isinstance(each, Entity)]
    assert [each.content for _, each in found[RELATION_COLLECTION]] == ["The heron fishes at the pond."]
    assert [each.content for _, each in found[EPISODE_COLLECTION]] == ["The heron fishes at the pond."]
    assert found.diagnostics.problems == ()


async def test_every_strategy_works_on_milvus_lite(tmp_path: Path) -> None:
    config = GraphConfig(uri=str(tmp_path / "graph.db"), embed_dim=64)
    async with fake_memory(config=config) as memory:
        await small_graph(memory)
        await memory.db_backend.refresh()

        results = {name: await memory.search("Where does the heron fish?", "ann", name) for name in NAMES}

    assert [name for name in NAMES if not all(results[name].values())] == []
    assert [name for name in NAMES if results[name].diagnostics.problems] == []


async def test_lexical_needs_no_embedder() -> None:
    memory = GraphMemory(GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64))

    found = await memory.search("heron", "ann", "lexical")

    assert found[EPISODE_COLLECTION] == []
    assert found.diagnostics.embedded == ()


async def test_a_query_is_embedded_once_and_again_only_by_another_embedder() -> None:
    embedder, other = FakeEmbedder(dimension=64), FakeEmbedder(dimension=64)
    memory = remembering(embedder)
    await small_graph(memory)
    calls = embedder.calls

    for name in NAMES:
        await memory.search("Where does the heron fish?", "ann", name)
    memory.attach_embedder(other)
    await memory.search("Where does the heron fish?", "ann")

    assert embedder.calls - calls == 1
    assert other.calls == 1


def test_without_its_extra_associative_says_what_to_install() -> None:
    code = """
import asyncio, sys
sys.modules["rustworkx"] = None
from jiuwen_memory import EpisodeType, errors
from jiuwen_memory.testing import fake_memory

async def main():
    memory = fake_memory()
    await memory.add_memory(EpisodeType.DOCUMENT, "ann", "The heron fishes.")
    assert (await memory.search("heron", "ann", "graph"))["EPISODE_COLLECTION"]
    try:
        await memory.search("heron", "ann", "associative")
    except errors.MissingExtraError as error:
        print(error)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)

    assert "jiuwen-graph-memory[graph]" in done.stdout


# --- chats, documents, Chinese ----------------------------------------------------------------------------------------

CHAT = [
    ("Mia", "Good morning!"),
    ("Jon", "Where did you spend the holidays, Mia?"),
    ("Mia", "On Naxos, with my aunt."),
    ("Jon", "I stayed at home."),
    ("Mia", "And the cat?"),
    ("Jon", "She slept through them."),
]
CHINESE_CHAT = [
    ("王芳", "早上好！"),
    ("李雷", "王芳，你假期去了哪儿？"),
    ("王芳", "在青岛，跟我姑姑一起。"),
    ("李雷", "我在家待着。"),
    ("王芳", "猫怎么样？"),
    ("李雷", "它一直在睡觉。"),
]


@pytest.mark.parametrize(
    ("chat", "question", "answer"),
    [
        pytest.param(CHAT, "Where did Mia spend the holidays?", "Mia: On Naxos, with my aunt.", id="english"),
        pytest.param(CHINESE_CHAT, "王芳假期去了哪儿？", "王芳: 在青岛，跟我姑姑一起。", id="chinese"),
    ],
)
async def test_conversation_finds_the_answer_beside_the_question(
    chat: list[tuple[str, str]], question: str, answer: str
) -> None:
    memory = remembering()
    for number in range(4):
        await tell(memory, [(speaker, f"{words} ({number})") for speaker, words in chat[3:]], session=f"s{number}")
    await tell(memory, chat, session="holidays")

    words, _ = await episodes_found(memory, question, "lexical")
    talk, _ = await episodes_found(memory, question, "conversation")

    assert answer not in words[:2]
    assert answer in talk[:2]


DOCUMENTS = [
    "Cranes lift containers from ships onto the quay.",
    "The harbour master assigns each ship a berth.",
    "A berth is paid for by the length of the ship.",
    "Pilots board ships outside the breakwater.",
    "The breakwater was built of granite blocks.",
    "Which berth is free is shown on the harbour board.",
]


async def test_on_documents_conversation_gives_what_its_fusion_gives() -> None:
    memory = remembering()
    await tell(memory, [("", text) for text in DOCUMENTS], session="")
    plain = SearchConfig(top_k=10, min_score=0.1, rank_config=MinMaxRankConfig())

    for question in ("How is a berth paid?", "Who boards the ships?", "What is the breakwater made of?"):
        fused, _ = await episodes_found(memory, question, plain)
        talk, _ = await episodes_found(memory, question, "conversation")

        assert talk == fused


async def test_timeline_gives_episodes_from_the_earliest_to_the_latest() -> None:
    memory = remembering()
    await tell(memory, CHAT)

    texts, _ = await episodes_found(memory, "Where did Mia spend the holidays?", "timeline")

    told = [f"{speaker}: {words}" for speaker, words in CHAT]
    assert texts == [text for text in told if text in texts]
    assert len(texts) > 2


async def test_an_episode_is_found_by_its_day() -> None:
    memory = remembering()
    rain = Episode(user_id="ann", content="It rained.", valid_since=1_683_540_000)
    snow = Episode(user_id="ann", content="下雪了。", valid_since=1_704_103_200)
    await write(memory, [rain, snow])

    may, _ = await episodes_found(memory, "8 May 2023", "lexical")
    january, _ = await episodes_found(memory, "2024年1月", "lexical")

    assert may[0] == "It rained."
    assert january[0] == "下雪了。"
