"""Small ways of losing or doubling a memory, each once found and mended."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from jiuwen_memory import EpisodeType, GraphConfig, GraphStoreFactory
from jiuwen_memory.errors import EmbeddingCallError, LLMCallError
from jiuwen_memory.foundation.store.graph import JournalEntry
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, StrictStore, fake_memory
from tests.memory_support import all_entities, all_episodes, all_relations, taught

TOM = ("Tom", "knows", "Kim", "Tom knows Kim.")
PEOPLE = {"Tom": "Human", "Kim": "Human"}
DOWN = {"EntityExtraction": ConnectionError("down")}


async def test_an_add_counts_on_what_another_writer_wrote_a_moment_ago() -> None:
    GraphStoreFactory.register_backend("strict-lite", StrictStore, force=True)
    config = GraphConfig(uri=f"fresh-{uuid4().hex}", backend="strict-lite", embed_dim=64)
    mind = taught(config=config, db_kwargs={"inner": "memory", "delay": 5})

    for _ in range(4):
        await mind.learn(TOM[3], types=PEOPLE, said=[TOM])

    tom = (await all_entities(mind.memory))["Tom"]
    assert (tom.mention_count, len(tom.episodes)) == (4, 4)
    assert (await all_relations(mind.memory))[TOM[3]].mention_count == 4


async def test_equal_texts_of_several_days_wait_side_by_side() -> None:
    memory = fake_memory(DOWN)
    days = [datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2, 3)]

    for day in days:
        with pytest.raises(LLMCallError):
            await memory.add_memory(EpisodeType.DOCUMENT, "ann", "I went running.", reference_time=day)

    waiting = await memory.pending("ann")
    assert [each.requests[0].reference_time for each in waiting] == days


async def test_equal_texts_without_a_time_wait_side_by_side_until_one_is_added() -> None:
    memory = fake_memory(DOWN)
    for _ in range(2):
        with pytest.raises(LLMCallError):
            await memory.add_memory(EpisodeType.DOCUMENT, "ann", "I went running.")
    waited = len(await memory.pending("ann"))

    memory.llm_client = FakeLLM()
    await memory.add_memory(EpisodeType.DOCUMENT, "ann", "I went running.")

    assert waited == 2
    assert await memory.pending("ann") == []


async def test_what_waits_from_before_a_moment_is_forgotten_with_it() -> None:
    memory = fake_memory(DOWN)
    for year in (2020, 2024):
        with pytest.raises(LLMCallError):
            await memory.add_memory(EpisodeType.DOCUMENT, "ann", "A text.", reference_time=datetime(year, 1, 1))

    receipt = await memory.delete_before("ann", datetime(2021, 1, 1))

    assert len(receipt.removed["JOURNAL_COLLECTION"]) == 1
    assert [each.requests[0].reference_time.year for each in await memory.pending("ann")] == [2024]


async def test_a_pending_add_that_cannot_be_read_keeps_nobody_from_anything() -> None:
    memory = fake_memory(DOWN)
    with pytest.raises(LLMCallError):
        await memory.add_memory(EpisodeType.DOCUMENT, "bea", "A heron.")
    damaged = JournalEntry(plan_id="broken", user_id="ann", kind="pending", payload="{", created_at=1)
    await memory.db_backend.journal.put(damaged)
    memory.llm_client = FakeLLM()

    resumed = await memory.resume()
    await memory.add_memory(EpisodeType.DOCUMENT, "ann", "A crane.")

    assert [(each.user_id, each.error is None) for each in resumed] == [("ann", False), ("bea", True)]
    assert [each.content for each in await all_episodes(memory)] == ["A crane."]
    await memory.delete_user("ann")
    assert await memory.db_backend.journal.entries("ann") == []


async def test_a_verbatim_repeat_is_one_fact_however_many_others_its_ends_have() -> None:
    mind = taught()
    names = [f"Bird {number}" for number in range(40)]
    types = dict.fromkeys(names, "Entity")
    facts = [(left, "meets", right, f"{left} meets {right}.") for left in names[:16] for right in names[16:34]]
    await mind.learn("They meet.", types=types, said=facts, session_id="s")

    await mind.learn("They meet again.", types=types, said=facts[:20], session_id="s")

    assert len(await all_relations(mind.memory)) == len(facts)


async def test_other_content_under_a_known_key_is_told_and_not_mixed_in() -> None:
    memory = fake_memory()
    first = await memory.add_memory(EpisodeType.DOCUMENT, "ann", "A heron.", idempotency_key="k")

    second = await memory.add_memory(EpisodeType.DOCUMENT, "ann", "A crane. " * 3000, idempotency_key="k")

    assert second.duplicate_of == first.added_episode[0].uuid
    assert "other content" in second.warnings[0]
    assert len(await all_episodes(memory)) == 1


async def test_an_embedder_that_gives_nothing_is_a_typed_error_and_the_input_is_kept() -> None:
    class Mute(FakeEmbedder):
        async def embed_documents(self, texts: object, batch_size: int | None = None) -> list[list[float]]:
            return None  # type: ignore[return-value]

    memory = fake_memory(embedder=Mute())

    with pytest.raises(EmbeddingCallError, match="NoneType"):
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", "A heron.")

    assert len(await memory.pending("ann")) == 1
