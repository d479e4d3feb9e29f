"""Episodes of sessions, written straight through the store of a memory in this process."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from jiuwen_memory import EPISODE_COLLECTION, Episode, GraphMemory, SearchConfig
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.memory_core.graph.graph_memory.commit import embedding_key
from jiuwen_memory.memory_core.graph.graph_memory.searching.results import SearchResult
from jiuwen_memory.testing import FakeEmbedder, fake_memory

START = 1_700_000_000
_numbers = count()


def remembering(embedder: FakeEmbedder | None = None) -> GraphMemory:
    """Return an empty memory in this process."""
    return fake_memory(embedder=embedder or FakeEmbedder(dimension=64))


async def write(memory: GraphMemory, objects: Sequence[BaseGraphObject]) -> None:
    """Write objects with their vectors."""
    embedder = memory.embedder
    assert embedder is not None
    for each in objects:
        texts = each.embedded_texts()
        vectors = await embedder.embed_documents(list(texts.values()))
        row = each.revise(**dict(zip(texts, vectors, strict=True)), embedding_key=embedding_key(each, "fake"))
        await memory.db_backend.upsert(each.collection, [row])


async def tell(
    memory: GraphMemory, turns: Sequence[tuple[str, str]], *, session: str = "one", user: str = "ann"
) -> list[Episode]:
    """Write turns (speaker, words) a minute apart, each an episode of a session; the speaker may be empty."""
    begin = START + 100_000 * next(_numbers)
    episodes = [
        Episode(
            user_id=user,
            content=f"{speaker}: {words}" if speaker else words,
            speakers=[speaker] if speaker else [],
            session_id=session,
            valid_since=begin + 60 * number,
            language="en",
        )
        for number, (speaker, words) in enumerate(turns)
    ]
    await write(memory, episodes)
    return episodes


async def episodes_found(
    memory: GraphMemory, query: str, strategy: str | SearchConfig, *, user: str = "ann"
) -> tuple[list[str], SearchResult]:
    """Return the texts of the episodes found, best first, and the whole result."""
    name = strategy if isinstance(strategy, str) else "tried"
    if isinstance(strategy, SearchConfig):
        memory.register_search_strategy(name, search_episode=strategy, force=True)
    found = await memory.search(query, user, name, entity=False, relation=False)
    return [each.content for _, each in found[EPISODE_COLLECTION]], found
