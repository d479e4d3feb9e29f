"""What is told in one line of an update, a deletion and a failure: what was done, and what it cost."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jiuwen_memory import AddMemStrategy, EpisodeType, GraphMemUpdate
from jiuwen_memory.errors import (
    EmbeddingCallError,
    EmbeddingServiceError,
    InvalidInputError,
    JiuwenMemoryError,
    LLMCallError,
    ModelServiceError,
    PartFailedError,
)
from jiuwen_memory.testing import FakeEmbedder, Script, fake_memory
from tests.memory_support import MAY, all_entities, entities, taught

GONE = ModelServiceError("The endpoint is gone.", retryable=False)
OSLO = ("Ada", "lives in", "Oslo", "Ada lives in Oslo")
LIMA = ("Ada", "lives in", "Lima", "Ada lives in Lima")
DIARY = "\n\n".join(f"Day {day}: it rained, and we stayed inside to read, cook and play cards." for day in range(1, 5))


async def test_an_update_tells_in_a_line_what_it_did() -> None:
    mind = taught()

    first = await mind.learn("Ada lives in Oslo.", types={"Ada": "Human", "Oslo": "Entity"}, said=[OSLO])
    second = await mind.learn("Ada rows.", types={"Ada": "Human"}, same={"Ada": ["Ada"]})

    assert str(first) == "Added 1 episode, 2 entities, 1 relation; 0 warnings."
    assert str(second) == "Added 1 episode; updated 1 entity; 0 warnings."


async def test_an_update_tells_of_a_repeat_and_of_warnings() -> None:
    memory = fake_memory({"EntityExtraction": entities({"Tom": "Human", "yesterday": "Entity"})})

    first = await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Tom sang yesterday.", reference_time=MAY)
    again = await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Tom sang yesterday.", reference_time=MAY)

    assert str(first) == "Added 1 episode, 1 entity; 1 warning."
    assert str(again) == f"Nothing changed; a repeat of episode {first.added_episode[0].uuid}; 0 warnings."
    assert str(GraphMemUpdate(removed_relation={"a", "b"})) == "Removed 2 relations; 0 warnings."


async def test_a_receipt_tells_in_a_line_what_went() -> None:
    mind = taught()
    people = {"Ada": "Human", "Oslo": "Entity", "Lima": "Entity"}
    await mind.learn("Ada lives in Oslo.", types=people, said=[OSLO], since="2020", reference_time=MAY)
    moved = await mind.learn(
        "Ada has moved to Lima.",
        types=people,
        said=[LIMA],
        since="2024",
        same={"Ada": ["Ada"], "Oslo": ["Oslo"], "Lima": ["Lima"]},
        contradicts={LIMA[3]: [OSLO[3]]},
        reference_time=MAY + timedelta(days=1),
    )

    receipt = await mind.memory.delete_episode("ann", moved.added_episode[0].uuid)
    nothing = await mind.memory.delete_episode("ann", moved.added_episode[0].uuid)
    entity = await mind.memory.delete_entity("ann", (await all_entities(mind.memory))["Oslo"].uuid)

    assert str(receipt).startswith("Removed 1 episode, 1 relation; updated ")
    assert "; re-opened 1 relation; 0 places still tell of it; 0 warnings." in str(receipt)
    assert str(nothing) == "Nothing was there; 0 places still tell of it; 0 warnings."
    assert "1 place still tells of it" in str(entity)
    assert all("\n" not in str(each) for each in (receipt, nothing, entity))


async def test_a_receipt_tells_of_what_waited() -> None:
    memory = fake_memory({"EntityExtraction": Script([GONE])})
    with pytest.raises(LLMCallError):
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Tom sings.")

    receipt = await memory.delete_user("ann")

    assert str(receipt) == "Removed 1 entry of the journal; 0 places still tell of it; 0 warnings."


# --- what a failure cost ----------------------------------------------------------------------------------------------


async def test_a_failed_question_tells_what_the_add_had_spent() -> None:
    tom = entities({"Tom": "Human", "tea": "Entity"})
    memory = fake_memory({"EntityExtraction": tom, "RelationExtraction": GONE})

    with pytest.raises(LLMCallError) as caught:
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Tom likes tea.")

    usage = caught.value.usage
    assert usage is not None
    assert usage.calls >= 2
    assert usage.input_tokens > 0 and usage.output_tokens > 0


async def test_a_failing_embedder_leaves_what_the_model_cost() -> None:
    memory = fake_memory({"EntityExtraction": entities({"Tom": "Human"})})
    away = EmbeddingServiceError("Away.", retryable=False)
    asked = FakeEmbedder(64)
    memory.attach_embedder(asked)
    await memory.add_memory(EpisodeType.DOCUMENT, "bob", "Tom sings.")
    failing = FakeEmbedder(64, fail_times=1, error=away)
    memory.attach_embedder(failing)

    with pytest.raises(EmbeddingCallError) as caught:
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Tom sings.")

    assert caught.value.usage is not None


async def test_a_part_that_fails_counts_in_what_the_stored_parts_cost() -> None:
    script = Script([entities({}), GONE])
    memory = fake_memory({"EntityExtraction": script}, strategy=AddMemStrategy(chinese_entity=False, chunk_tokens=50))

    with pytest.raises(PartFailedError) as caught:
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", DIARY)
    (resumed,) = await memory.resume("ann")

    usage = caught.value.usage
    assert usage is not None and usage.calls >= 2
    assert resumed.error is None


async def test_what_was_never_begun_cost_nothing() -> None:
    memory = fake_memory()

    with pytest.raises(InvalidInputError) as caught:
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", " ")

    assert caught.value.usage is None
    assert JiuwenMemoryError("Something.").usage is None
