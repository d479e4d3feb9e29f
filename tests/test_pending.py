"""Adds that fail for good: what is kept of them, how it is listed, and that `resume` does it anew, once."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from jiuwen_memory import AddMemStrategy, EpisodeType, GraphConfig, GraphMemory, GraphStoreFactory, Model
from jiuwen_memory.errors import (
    EmbeddingCallError,
    EmbeddingServiceError,
    InvalidInputError,
    JournalError,
    LLMAnswerError,
    LLMCallError,
    ModelServiceError,
    PartFailedError,
    StoreUnavailableError,
)
from jiuwen_memory.foundation.llm.schema.config import ModelClientConfig
from jiuwen_memory.foundation.store.graph import JournalEntry
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, FakePrompt, Script, fake_memory
from jiuwen_memory.testing.llm import Answer, Reply
from tests.faulty_store import FaultyStore
from tests.memory_support import MAY, all_entities, all_episodes, entities, nothing_is_stored, problems
from tests.servers import Fault, OpenAIServer

GraphStoreFactory.register_backend("faulty", FaultyStore, force=True)

GONE = ModelServiceError("The endpoint is gone.", retryable=False)
TOM: Answer = entities({"Tom": "Human"})
DAYS = [f"Day {day}: it rained, and we stayed inside to read, cook and play cards until late." for day in range(1, 7)]
DIARY = "\n\n".join(DAYS)


def memory_of(*names: Reply, keep: bool = True, backend: str = "memory", tries: int = 1) -> GraphMemory:
    """Return a memory whose model answers each question for names from this list, and then with nothing."""
    return fake_memory(
        llm=FakeLLM({"EntityExtraction": Script(names)}),
        config=GraphConfig(uri=uuid4().hex, backend=backend, embed_dim=64, request_max_retries=tries),
        strategy=AddMemStrategy(chinese_entity=False, chunk_tokens=50, keep_failed=keep),
    )


async def add(memory: GraphMemory, text: str, *, user: str = "ann", **options: Any) -> Any:
    return await memory.add_memory(EpisodeType.DOCUMENT, user, text, **options)


async def contents(memory: GraphMemory, user: str = "ann") -> list[str]:
    return sorted(each.content.strip() for each in await all_episodes(memory, user))


# --- what is kept -----------------------------------------------------------------------------------------------------


async def test_an_add_whose_model_fails_for_good_waits_with_its_reason_and_its_age() -> None:
    memory = memory_of(GONE)

    with pytest.raises(LLMCallError) as caught:
        await add(memory, "Tom sings.")
    (pending,) = await memory.pending("ann")

    assert caught.value.question == "entities"
    assert (
        pending.reason.startswith("LLMCallError: The question 'entities'") and "The endpoint is gone." in pending.reason
    )
    assert 0 <= pending.age < 60
    assert (pending.user_id, pending.text) == ("ann", "Tom sings.")
    assert await nothing_is_stored(memory)


async def test_an_unusable_reply_is_in_the_error_and_the_input_waits() -> None:
    memory = memory_of("I would rather not.", "I would rather not.", tries=2)

    with pytest.raises(LLMAnswerError) as caught:
        await add(memory, "Tom sings.")

    assert (caught.value.question, caught.value.reply) == ("entities", "I would rather not.")
    assert [each.text for each in await memory.pending("ann")] == ["Tom sings."]
    assert await nothing_is_stored(memory)


async def test_an_add_whose_embedder_fails_for_good_waits() -> None:
    memory = memory_of(TOM)
    memory.attach_embedder(FakeEmbedder(64, fail_times=1, error=EmbeddingServiceError("Away.", retryable=False)))

    with pytest.raises(EmbeddingCallError):
        await add(memory, "Tom sings.")
    (pending,) = await memory.pending("ann")
    (resumed,) = await memory.resume("ann")

    assert pending.reason.startswith("EmbeddingCallError: ")
    assert resumed.error is None and resumed.update is not None
    assert set(await all_entities(memory)) == {"Tom"}


async def test_without_keep_failed_nothing_waits() -> None:
    memory = memory_of(GONE, keep=False)

    with pytest.raises(LLMCallError):
        await add(memory, "Tom sings.")

    assert await memory.pending("ann") == []
    assert await memory.db_backend.journal.entries() == []


async def test_nothing_waits_after_an_input_that_cannot_be_used_or_an_add_that_succeeds() -> None:
    memory = memory_of()

    with pytest.raises(InvalidInputError):
        await add(memory, "  ")
    await add(memory, "Tom sings.")

    assert await memory.pending("ann") == []
    assert await memory.resume() == []


async def test_each_user_sees_their_own_waiting_adds_oldest_first() -> None:
    memory = memory_of(GONE, GONE, GONE)

    for text, user in (("One.", "ann"), ("Two.", "ben"), ("Three.", "ann")):
        with pytest.raises(LLMCallError):
            await add(memory, text, user=user)

    assert sorted(each.text for each in await memory.pending("ann")) == ["One.", "Three."]
    assert [each.text for each in await memory.pending("ben")] == ["Two."]


async def test_an_input_that_can_be_recognised_waits_once_with_the_newest_reason() -> None:
    memory = memory_of(GONE, ModelServiceError("Still gone.", retryable=False))

    for _ in range(2):
        with pytest.raises(LLMCallError):
            await add(memory, "Tom sings.", reference_time=MAY)
    (pending,) = await memory.pending("ann")

    assert "Still gone." in pending.reason


async def test_an_input_that_cannot_be_recognised_waits_once_for_each_failure_and_a_success_clears_all() -> None:
    memory = memory_of(GONE, GONE)
    for _ in range(2):
        with pytest.raises(LLMCallError):
            await add(memory, "Tom sings.")
    waiting = await memory.pending("ann")

    await add(memory, "Tom sings.")

    assert [each.text for each in waiting] == ["Tom sings."] * 2
    assert await memory.pending("ann") == []


async def test_what_waits_holds_no_secret() -> None:
    key = "sk-K3yThatMustNotShow"
    with OpenAIServer() as server:
        server.fail(*[Fault("status", 401, message=f"Wrong key {key}.")] * 4)
        async with Model(model_client_config=ModelClientConfig(api_base=server.base_url, api_key=key)) as model:
            memory = GraphMemory(
                GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64, request_max_retries=1, token=key),
                model,
                language="en",
                llm_extra_kwargs={"extra_headers": {"x-key": key}},
            )
            memory.attach_embedder(FakeEmbedder(64))

            with pytest.raises(LLMCallError):
                await add(memory, "Tom sings.")
            (pending,) = await memory.pending("ann")
            (entry,) = await memory.db_backend.journal.entries("ann")

    assert "Tom sings." in entry.payload
    assert key not in repr(pending) + repr(entry)


async def test_an_add_is_raised_as_it_failed_when_the_journal_fails_too() -> None:
    memory = memory_of(GONE, backend="faulty")
    store = memory.db_backend
    assert isinstance(store, FaultyStore)
    store.faults.arm(0)

    with pytest.raises(LLMCallError) as caught:
        await add(memory, "Tom sings.")

    assert "could not be kept" in "".join(caught.value.__notes__)
    assert await memory.pending("ann") == []


async def test_a_waiting_add_that_cannot_be_read_is_an_error_of_its_own_and_stays() -> None:
    memory = memory_of(GONE)
    entry = JournalEntry(plan_id="p", user_id="ann", kind="pending", payload='{"text": 3}', created_at=1)
    await memory.db_backend.journal.put(entry)
    with pytest.raises(LLMCallError):
        await add(memory, "Tom sings.")

    damaged, good = await memory.resume("ann")

    assert isinstance(damaged.error, JournalError) and damaged.pending is None
    assert good.error is None
    assert await memory.db_backend.journal.entries("ann") == [entry]


# --- doing it anew ----------------------------------------------------------------------------------------------------


async def test_resume_does_a_failed_add_as_it_was_given() -> None:
    memory = memory_of(GONE, TOM)
    with pytest.raises(LLMCallError):
        await add(memory, "Tom sings.", reference_time=MAY, session_id="s", source="a letter")

    (resumed,) = await memory.resume("ann")
    (episode,) = await all_episodes(memory)

    assert resumed.update is not None and resumed.update.added_episode[0].uuid == episode.uuid
    assert (episode.valid_since, episode.session_id, episode.source) == (int(MAY.timestamp()), "s", "a letter")
    assert set(await all_entities(memory)) == {"Tom"}
    assert await memory.pending("ann") == []
    assert await problems(memory) == []


async def test_resume_of_a_long_input_does_only_the_rest_and_keeps_its_numbers_and_its_group() -> None:
    memory = memory_of(TOM, GONE)
    with pytest.raises(PartFailedError) as caught:
        await add(memory, DIARY)
    (first,) = await all_episodes(memory)
    (pending,) = await memory.pending("ann")
    assert isinstance(memory.llm_client, FakeLLM)
    memory.llm_client.prompts.clear()

    (resumed,) = await memory.resume("ann")
    episodes = sorted(await all_episodes(memory), key=lambda each: each.part)

    assert caught.value.stored == (first.uuid,)
    assert pending.text == caught.value.remaining
    assert len(memory.llm_client.asked("EntityExtraction")) == first.parts - 1
    assert [each.part for each in episodes] == list(range(1, first.parts + 1))
    assert {(each.group, each.parts) for each in episodes} == {(first.group, first.parts)}
    assert "".join(each.content for each in episodes) == DIARY
    assert resumed.update is not None and len(resumed.update.added_episode) == first.parts - 1


async def test_a_resume_that_fails_at_a_later_part_keeps_only_what_is_left_then() -> None:
    memory = memory_of(GONE, TOM, TOM, GONE)
    with pytest.raises(LLMCallError):
        await add(memory, DIARY)

    (resumed,) = await memory.resume("ann")
    (pending,) = await memory.pending("ann")

    assert isinstance(resumed.error, PartFailedError)
    assert resumed.error.part == 3
    assert pending.text == resumed.error.remaining
    assert len(await all_episodes(memory)) == 2

    await memory.resume("ann")

    assert "".join(each.content for each in sorted(await all_episodes(memory), key=lambda each: each.part)) == DIARY
    assert await memory.pending("ann") == []


async def test_what_fails_again_stays_and_the_others_are_done() -> None:
    def names(prompt: FakePrompt) -> Answer:
        return GONE if "Bad" in prompt.text else TOM

    memory = memory_of(GONE, GONE, GONE)
    for text, user in (("Good.", "ann"), ("Bad.", "ann"), ("Good, too.", "ben")):
        with pytest.raises(LLMCallError):
            await add(memory, text, user=user)
    assert isinstance(memory.llm_client, FakeLLM)
    memory.llm_client.replies["EntityExtraction"] = names

    results = await memory.resume()

    assert sorted((each.pending.text, each.error is None) for each in results if each.pending) == [
        ("Bad.", False),
        ("Good, too.", True),
        ("Good.", True),
    ]
    assert [each.text for each in await memory.pending("ann")] == ["Bad."]
    assert await memory.pending("ben") == []
    assert (await contents(memory), await contents(memory, "ben")) == (["Good."], ["Good, too."])


async def test_a_successful_add_of_the_same_content_clears_what_waits() -> None:
    memory = memory_of(GONE, TOM)
    with pytest.raises(LLMCallError):
        await add(memory, "Tom sings.")

    await add(memory, "Another thing.")
    waiting = await memory.pending("ann")
    await add(memory, "Tom sings.")

    assert [each.text for each in waiting] == ["Tom sings."]
    assert await memory.pending("ann") == []
    assert await memory.resume() == []


async def test_a_long_input_that_is_added_again_goes_on_and_clears_what_waits() -> None:
    memory = memory_of(TOM, GONE)
    with pytest.raises(PartFailedError):
        await add(memory, DIARY, reference_time=MAY)

    await add(memory, DIARY, reference_time=MAY)

    assert await memory.pending("ann") == []
    assert "".join(each.content for each in sorted(await all_episodes(memory), key=lambda each: each.part)) == DIARY


async def test_a_deleted_user_has_nothing_waiting() -> None:
    memory = memory_of(GONE)
    with pytest.raises(LLMCallError):
        await add(memory, "Tom sings.")

    await memory.delete_user("ann")

    assert await memory.pending("ann") == []
    assert await memory.resume() == []
    assert await nothing_is_stored(memory)


# --- failures of the store --------------------------------------------------------------------------------------------


async def test_a_write_that_counts_already_is_finished_and_does_not_wait_as_well() -> None:
    memory = memory_of(TOM, backend="faulty")
    store = memory.db_backend
    assert isinstance(store, FaultyStore)
    store.faults.arm(2)

    with pytest.raises(StoreUnavailableError):
        await add(memory, "Tom sings.")
    store.faults.arm(None)
    waiting = await memory.pending("ann")
    await memory.recover("ann")

    assert waiting == []
    assert await contents(memory) == ["Tom sings."]
    assert await memory.resume() == []
    assert await memory.db_backend.journal.entries() == []


@pytest.mark.parametrize("number", range(13))
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_resume_during_which_the_store_fails_doubles_nothing(number: int, after: bool) -> None:
    memory = memory_of(GONE, backend="faulty")
    store = memory.db_backend
    assert isinstance(store, FaultyStore)
    with pytest.raises(LLMCallError):
        await add(memory, DIARY)
    store.faults.arm(number, after=after)

    failed = await memory.resume("ann")
    store.faults.arm(None)
    await memory.recover("ann")
    await memory.resume("ann")
    episodes = sorted(await all_episodes(memory), key=lambda each: each.part)

    assert [type(each.error) for each in failed] in ([StoreUnavailableError], [PartFailedError])
    assert "".join(each.content for each in episodes) == DIARY
    assert await memory.pending("ann") == []
    assert await memory.resume() == []
    assert (await memory.check()).is_clean
