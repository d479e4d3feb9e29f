"""What a deletion takes away, what it leaves, and that nothing of what is gone can be found anywhere."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import JsonValue

from jiuwen_memory import ENTITY_COLLECTION, EPISODE_COLLECTION, RELATION_COLLECTION, EpisodeType, GraphConfig, Relation
from jiuwen_memory.errors import EmbeddingCallError, StoreUnavailableError
from jiuwen_memory.foundation.store.graph import GraphStoreFactory, GraphStoreStorageConfig, JournalEntry
from jiuwen_memory.foundation.store.graph.constants import JOURNAL_COLLECTION
from jiuwen_memory.foundation.timepoint import from_datetime
from jiuwen_memory.memory_core.graph.graph_memory.audit import check_graph
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_update
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate
from jiuwen_memory.testing import FakePrompt, by_name, fake_memory
from jiuwen_memory.testing.answers import smallest_answer
from tests.faulty_store import FaultyStore
from tests.forget_support import Eraser, Person, raw_rows, world_model, world_text
from tests.memory_support import MAY, Taught, all_entities, all_episodes, all_relations, problems, taught

PEOPLE = {"Ada": "Human", "Acme": "Entity", "Oslo": "Entity", "Lima": "Entity"}
WORKS = ("Ada", "works for", "Acme", "Ada works for Acme")
OSLO = ("Ada", "lives in", "Oslo", "Ada lives in Oslo")
LIMA = ("Ada", "lives in", "Lima", "Ada lives in Lima")


async def learn(mind: Taught, text: str, *facts: tuple[str, str, str, str], **options: object) -> str:
    """Teach facts about the people and places they name, and return the episode's id."""
    types = {name: PEOPLE[name] for fact in facts for name in (fact[0], fact[2])}
    options = {"reference_time": MAY, "same": {name: [name] for name in types}, **options}
    update = await mind.learn(text, said=facts, types=types, **options)  # type: ignore[arg-type]
    return update.added_episode[0].uuid


async def findings(mind: Taught, user: str = "ann") -> list[str]:
    """Return what an audit of the user's graph finds."""
    embedder = mind.memory._embedder()
    report = await check_graph(store=mind.memory.db_backend, embedder=embedder, user_id=user, repair=False)
    return [str(each) for each in report.findings]


async def pend(mind: Taught, text: str, *, user: str = "ann") -> str:
    entry = JournalEntry(f"pending-{text[:12]}", user, "pending", json.dumps({"parts": [{"text": text}]}), 1)
    await mind.memory.db_backend.journal.put(entry)
    return entry.plan_id


def noticed(asked: asyncio.Event) -> Callable[[FakePrompt], JsonValue]:
    """Return a reply that says nothing and tells that the question was asked."""

    def answer(prompt: FakePrompt) -> JsonValue:
        asked.set()
        return smallest_answer(prompt.schema)

    return answer


async def change(mind: Taught, each: Relation, **changes: object) -> None:
    """Store a relation with some fields changed."""
    update = GraphMemUpdate(updated_relation=[each.revise(**changes)])
    await commit_update(update, each.user_id, store=mind.memory.db_backend, embedder=mind.memory._embedder())


async def test_what_rests_on_one_episode_goes_with_it() -> None:
    mind = taught()
    first = await learn(mind, "Ada works for Acme.", WORKS)
    second = await learn(mind, "Ada lives in Oslo.", OSLO)

    receipt = await Eraser(mind.memory).episode(first)

    assert set(await all_entities(mind.memory)) == {"Ada", "Oslo"}
    assert set(await all_relations(mind.memory)) == {"Ada lives in Oslo"}
    assert [each.uuid for each in await all_episodes(mind.memory)] == [second]
    assert receipt.removed[EPISODE_COLLECTION] == (first,)
    assert {name: len(ids) for name, ids in receipt.removed.items()} == {
        EPISODE_COLLECTION: 1,
        ENTITY_COLLECTION: 1,
        RELATION_COLLECTION: 1,
    }
    assert receipt.residue == ()
    assert await problems(mind.memory) == []
    assert await findings(mind) == []


async def test_what_rests_on_more_evidence_stays_with_smaller_counts_and_the_sources_that_are_left() -> None:
    mind = taught()
    first = await learn(mind, "Ada works for Acme.", WORKS, source="crm")
    await learn(mind, "Ada works for Acme. Still.", WORKS, source="chat", reference_time=MAY + timedelta(days=2))

    await Eraser(mind.memory).episode(first)

    later = from_datetime(MAY + timedelta(days=2)).seconds
    (fact,) = (await all_relations(mind.memory)).values()
    ada = (await all_entities(mind.memory))["Ada"]
    for each in (fact, ada):
        assert (each.mention_count, each.sources, len(each.episodes)) == (1, ["chat"], 1)
        assert (each.first_mentioned_at, each.last_mentioned_at) == (later, later)
    assert await findings(mind) == []


async def test_a_fact_holds_again_when_the_evidence_against_it_is_deleted() -> None:
    mind = taught()
    await learn(mind, "Ada lives in Oslo.", OSLO, since="2020")
    against = {"Ada lives in Lima": ["Ada lives in Oslo"]}
    second = await learn(mind, "Ada has moved to Lima.", LIMA, since="2024", contradicts=against)
    superseded = (await all_relations(mind.memory))["Ada lives in Oslo"]

    receipt = await Eraser(mind.memory).episode(second)

    fact = (await all_relations(mind.memory))["Ada lives in Oslo"]
    assert superseded.superseded_by and superseded.valid_until is not None
    assert receipt.reopened == (fact.uuid,)
    assert (fact.superseded_by, fact.expired_at, fact.valid_until, fact.precision_until) == ([], None, None, None)
    assert await findings(mind) == []


async def test_a_fact_that_holds_again_ends_when_it_was_said_to_end() -> None:
    mind = taught()
    await learn(mind, "Ada lives in Oslo until 2030.", OSLO, until="2030")
    stated = (await all_relations(mind.memory))["Ada lives in Oslo"]
    against = {"Ada lives in Lima": ["Ada lives in Oslo"]}
    second = await learn(mind, "Ada has moved to Lima.", LIMA, since="2024", contradicts=against)

    await Eraser(mind.memory).episode(second)

    fact = (await all_relations(mind.memory))["Ada lives in Oslo"]
    assert stated.valid_until is not None
    assert (fact.valid_until, fact.precision_until) == (stated.valid_until, stated.precision_until)


async def test_a_fact_replaced_twice_ends_with_what_is_left() -> None:
    mind = taught()
    await learn(mind, "Ada lives in Oslo.", OSLO)
    against = {"Ada lives in Lima": ["Ada lives in Oslo"]}
    second = await learn(mind, "Ada moved to Lima in 2022.", LIMA, since="2022", contradicts=against)
    acme = ("Ada", "lives in", "Acme", "Ada lives in Acme")
    third = await learn(
        mind, "Ada now lives in Acme, 2024.", acme, since="2024", contradicts={acme[3]: ["Ada lives in Oslo"]}
    )

    receipt = await Eraser(mind.memory).episode(second)

    facts = await all_relations(mind.memory)
    assert receipt.reopened == ()
    assert facts["Ada lives in Oslo"].superseded_by == [facts["Ada lives in Acme"].uuid]
    assert facts["Ada lives in Oslo"].valid_until == facts["Ada lives in Acme"].valid_since
    assert (await Eraser(mind.memory).episode(third)).reopened == (facts["Ada lives in Oslo"].uuid,)


async def test_what_replaced_a_deleted_fact_replaces_what_that_one_had_replaced() -> None:
    mind = taught()
    await learn(mind, "Ada lives in Oslo.", OSLO)
    second = await learn(
        mind, "Ada moved to Lima, 2022.", LIMA, since="2022", contradicts={LIMA[3]: ["Ada lives in Oslo"]}
    )
    acme = ("Ada", "lives in", "Acme", "Ada lives in Acme")
    await learn(mind, "Ada lives in Acme now, 2024.", acme, since="2024", contradicts={acme[3]: ["Ada lives in Lima"]})

    receipt = await Eraser(mind.memory).episode(second)

    facts = await all_relations(mind.memory)
    assert receipt.reopened == ()
    assert facts["Ada lives in Oslo"].superseded_by == [facts["Ada lives in Acme"].uuid]


async def test_a_date_that_only_the_deleted_text_names_is_forgotten() -> None:
    mind = taught()
    await learn(mind, "Ada lives in Oslo.", OSLO)
    second = await learn(mind, "Ada lives in Oslo since 2019.", OSLO, since="2019")
    dated = (await all_relations(mind.memory))["Ada lives in Oslo"]

    await Eraser(mind.memory).episode(second)

    fact = (await all_relations(mind.memory))["Ada lives in Oslo"]
    assert dated.valid_since is not None
    assert (fact.valid_since, fact.precision_since) == (None, None)


async def test_a_link_goes_with_either_of_its_ends() -> None:
    mind = taught()
    await learn(mind, "Ada works for Acme.", WORKS)
    second = await learn(mind, "Ada lives in Oslo.", OSLO)
    facts = list((await all_relations(mind.memory)).values())
    link = facts[0].revise(
        uuid="link", kind="causes", ends="relation", obj_type="Link", lhs=facts[0].uuid, rhs=facts[1].uuid
    )
    of_link = link.revise(uuid="link of link", lhs="link", rhs=facts[0].uuid)
    for each in (link, of_link):
        await change(mind, each, embedding_key="", episodes=facts[0].episodes)

    await Eraser(mind.memory).episode(second)

    assert await all_relations(mind.memory, kind="causes") == {}


async def test_a_summary_is_written_anew_from_what_is_left() -> None:
    mind = taught()
    await learn(mind, "Ada lives in Oslo.", OSLO)
    second = await learn(mind, "Ada works for Acme.", WORKS, summaries={"Ada": "Works for Acme, lives in Oslo."})
    mind.llm.replies["EntitySummaries"] = by_name({"Ada": "Someone in Oslo."})

    receipt = await Eraser(mind.memory).episode(second)

    ada = (await all_entities(mind.memory))["Ada"]
    asked = mind.llm.asked("EntitySummaries")[-1].text
    assert ada.content == "Someone in Oslo."
    assert receipt.rewritten_by_model == (ada.uuid,)
    assert "Acme" not in asked and "Ada lives in Oslo." in asked
    assert receipt.usage.calls == 1


@pytest.mark.parametrize("answer", [None, ConnectionError("down"), "Someone of ACME's."])
async def test_a_summary_comes_from_the_facts_when_the_model_cannot_be_had_or_gives_away_what_is_gone(
    answer: str | ConnectionError | None,
) -> None:
    mind = taught(config=GraphConfig(uri=":memory:", backend="memory", embed_dim=64, request_max_retries=1))
    await learn(mind, "Ada lives in Oslo.", OSLO)
    second = await learn(mind, "Ada works for Acme.", WORKS, summaries={"Ada": "Works for Acme, lives in Oslo."})
    mind.llm.replies["EntitySummaries"] = by_name({"Ada": answer}) if isinstance(answer, str) else answer

    receipt = await Eraser(mind.memory, with_model=answer is not None).episode(second)

    ada = (await all_entities(mind.memory))["Ada"]
    assert ada.content == "Ada lives in Oslo"
    assert (receipt.rewritten_from_facts, receipt.rewritten_by_model) == ((ada.uuid,), ())
    assert receipt.residue == ()


async def test_names_and_attributes_that_only_the_deleted_text_supports_are_dropped() -> None:
    mind = taught(entity_types=[Person])
    await mind.learn(
        "Bobby likes tea.", types={"Bobby": "Person"}, said=[("Bobby", "likes", "Bobby", "Bobby likes tea")]
    )
    second = await mind.learn(
        "Bobby, called Zork, is Robert.",
        types={"Zork": "Person", "Robert": "Person"},
        same={"Zork": ["Bobby"], "Robert": ["Bobby"]},
    )
    (entity,) = (await all_entities(mind.memory)).values()
    known = entity.revise(attributes={"note": "tea", "nick": "Zork"}, merged_from=[{"uuid": "x", "name": "Robert"}])
    update = GraphMemUpdate(updated_entity=[known])
    await commit_update(update, "ann", store=mind.memory.db_backend, embedder=mind.memory._embedder())

    await Eraser(mind.memory).episode(second.added_episode[0].uuid)

    (entity,) = (await all_entities(mind.memory)).values()
    assert known.aliases == ["Zork", "Robert"]
    assert (entity.name, entity.aliases, entity.merged_from) == ("Bobby", [], [])
    assert entity.attributes == {"note": "tea"}


async def test_an_entity_whose_name_is_forgotten_goes_on_under_an_alias() -> None:
    mind = taught()
    first = await mind.learn("Robert arrived.", types={"Robert": "Human"})
    await mind.learn("Bob likes tea.", types={"Bob": "Human"}, same={"Bob": ["Robert"]})

    await Eraser(mind.memory).episode(first.added_episode[0].uuid)

    (entity,) = (await all_entities(mind.memory)).values()
    assert (entity.name, entity.aliases, entity.mention_count) == ("Bob", [], 1)
    assert await findings(mind) == []


async def test_a_fact_told_in_words_of_the_deleted_text_is_told_in_those_that_are_left() -> None:
    mind = taught()
    first = await mind.learn("Zaphod flies.", types={"Zaphod": "Human"})
    await mind.learn(
        "He bought a ship. The ship is red.",
        types={"Zaphod": "Human", "ship": "Entity"},
        said=[("Zaphod", "bought", "ship", "Zaphod bought a ship")],
    )

    receipt = await Eraser(mind.memory).episode(first.added_episode[0].uuid)

    entities = await all_entities(mind.memory)
    assert set(await all_relations(mind.memory)) == {"He bought a ship."}
    assert len(entities) == 2 and "Zaphod" not in entities
    assert not any("Zaphod" in row or "zaphod" in row for row in await raw_rows(mind.memory))
    assert receipt.residue == ()


async def test_deleting_one_part_of_a_long_input_leaves_the_others_unless_the_whole_group_is_meant() -> None:
    mind = taught()
    await mind.learn("\n\n".join(f"Paragraph {number}. " + "word " * 1500 for number in range(6)))
    episodes = sorted(await all_episodes(mind.memory), key=lambda each: each.part)
    await Eraser(mind.memory).episode(episodes[0].uuid)
    left = await all_episodes(mind.memory)

    receipt = await Eraser(mind.memory).episode(left[0].uuid, whole_group=True)

    assert len(episodes) > 2
    assert {each.uuid for each in left} == {each.uuid for each in episodes[1:]}
    assert len(receipt.removed[EPISODE_COLLECTION]) == len(episodes) - 1
    assert await all_episodes(mind.memory) == []


async def test_what_was_made_from_an_episode_goes_with_it() -> None:
    mind = taught()
    first = await learn(mind, "Ada works for Acme.", WORKS)
    second = await learn(mind, "A digest.", OSLO)
    episode = next(each for each in await all_episodes(mind.memory) if each.uuid == second)
    update = GraphMemUpdate(updated_episode=[episode.revise(parents=[first])])
    await commit_update(update, "ann", store=mind.memory.db_backend, embedder=mind.memory._embedder())

    receipt = await Eraser(mind.memory).episode(first)

    assert receipt.removed[EPISODE_COLLECTION] == tuple(sorted([first, second]))
    assert await raw_rows(mind.memory) == []


async def test_a_deleted_entity_takes_its_relations_along_and_the_receipt_names_the_texts_that_still_tell_of_it() -> (
    None
):
    mind = taught()
    first = await learn(mind, "Ada works for Acme.", WORKS, OSLO, summaries={"Ada": "Of Acme and Oslo."})
    acme = (await all_entities(mind.memory))["Acme"]

    receipt = await Eraser(mind.memory, with_model=False).entity(acme.uuid)

    entities = await all_entities(mind.memory)
    (episode,) = await all_episodes(mind.memory)
    assert set(entities) == {"Ada", "Oslo"}
    assert set(await all_relations(mind.memory)) == {"Ada lives in Oslo"}
    assert entities["Ada"].content == "Ada lives in Oslo"
    assert acme.uuid not in episode.entities
    assert [(each.collection, each.uuid, each.field, each.text) for each in receipt.residue] == [
        (EPISODE_COLLECTION, first, "content", "Ada works for Acme.")
    ]
    assert await findings(mind) == []


async def test_a_deleted_relation_reopens_what_it_replaced_and_leaves_its_ends() -> None:
    mind = taught()
    await learn(mind, "Ada lives in Oslo.", OSLO)
    against = {"Ada lives in Lima": ["Ada lives in Oslo"]}
    second = await learn(
        mind, "Ada moved. Ada lives in Lima.", LIMA, contradicts=against, summaries={"Ada": "Moved to Lima."}
    )
    facts = await all_relations(mind.memory)

    receipt = await Eraser(mind.memory, with_model=False).relation(facts["Ada lives in Lima"].uuid)

    entities = await all_entities(mind.memory)
    assert receipt.removed == {RELATION_COLLECTION: (facts["Ada lives in Lima"].uuid,)}
    assert receipt.reopened == (facts["Ada lives in Oslo"].uuid,)
    assert entities["Ada"].content == "Ada lives in Oslo"
    assert entities["Lima"].relations == []
    assert [(each.uuid, each.text) for each in receipt.residue] == [(second, "Ada lives in Lima.")]
    assert await findings(mind) == []


async def test_deleting_before_a_moment_takes_the_older_episodes_only() -> None:
    mind = taught()
    await learn(mind, "Ada works for Acme.", WORKS, reference_time=MAY - timedelta(days=1))
    second = await learn(mind, "Ada lives in Oslo.", OSLO, reference_time=MAY)

    receipt = await Eraser(mind.memory).before(MAY.replace(tzinfo=None))

    assert [each.uuid for each in await all_episodes(mind.memory)] == [second]
    assert receipt.residue == ()
    assert set(await all_entities(mind.memory)) == {"Ada", "Oslo"}


async def test_deleting_a_user_leaves_nothing_of_theirs_and_everything_of_others() -> None:
    mind = taught()
    await learn(mind, "Ada works for Acme.", WORKS)
    await learn(mind, "Ada lives in Oslo.", OSLO, user="bob")
    await pend(mind, "Something to be done.")
    await pend(mind, "Something for bob.", user="bob")
    others = await raw_rows(mind.memory, "bob")

    receipt = await Eraser(mind.memory).everything()

    assert {name: len(ids) for name, ids in receipt.removed.items()} == {
        EPISODE_COLLECTION: 1,
        ENTITY_COLLECTION: 2,
        RELATION_COLLECTION: 1,
        JOURNAL_COLLECTION: 1,
    }
    assert receipt.residue == ()
    assert await raw_rows(mind.memory) == []
    assert await raw_rows(mind.memory, "bob") == others
    assert (await Eraser(mind.memory).everything()).is_empty


async def test_a_pending_input_goes_if_it_would_bring_the_deleted_text_back() -> None:
    mind = taught()
    first = await learn(mind, "Ada works for Acme.", WORKS)
    gone = [await pend(mind, "Ada works for Acme."), await pend(mind, "More. Ada works for Acme. And more.")]
    kept = await pend(mind, "Quite another thing.")

    receipt = await Eraser(mind.memory).episode(first)

    assert receipt.removed[JOURNAL_COLLECTION] == tuple(sorted(gone))
    assert [entry.plan_id for entry in await mind.memory.db_backend.journal.entries("ann")] == [kept]


async def test_deleting_a_whole_group_takes_along_the_parts_that_still_wait() -> None:
    mind = taught()
    first = await learn(mind, "Ada works for Acme.", WORKS)
    (episode,) = await all_episodes(mind.memory)
    payload = json.dumps({"requests": [{"text": "The rest.", "group": episode.group}]})
    await mind.memory.db_backend.journal.put(JournalEntry("rest", "ann", "pending", payload, 1))

    receipt = await Eraser(mind.memory).episode(first, whole_group=True)

    assert receipt.removed[JOURNAL_COLLECTION] == ("rest",)
    assert await raw_rows(mind.memory) == []


async def test_only_the_whole_name_of_a_deleted_entity_counts_as_residue() -> None:
    mind = taught()
    await mind.learn("Adam and 张三 met Ada Jones.", types={"Ada": "Human", "张三": "Human"})
    entities = await all_entities(mind.memory)
    await mind.learn("Adam met 张三丰. Canada is far.", types={"Adam": "Human"})

    ada = await Eraser(mind.memory).entity(entities["Ada"].uuid)
    zhang = await Eraser(mind.memory).entity(entities["张三"].uuid)

    assert [each.text for each in ada.residue] == ["Adam and 张三 met Ada Jones."]
    assert len(zhang.residue) == 2


async def test_a_relation_whose_oldest_episodes_were_cut_from_its_list_outlives_those_that_are_listed() -> None:
    storage = GraphStoreStorageConfig(episodes=2, relations=2, entities=2)
    config = GraphConfig(uri=":memory:", backend="memory", embed_dim=64, db_storage_config=storage)
    mind = taught(config=config)
    episodes = [await learn(mind, f"Ada works for Acme, {number}.", WORKS) for number in range(4)]
    eraser = Eraser(mind.memory)

    for uuid in reversed(episodes[1:]):
        await eraser.episode(uuid)
        facts = await all_relations(mind.memory)
        assert set(facts) == {"Ada works for Acme"}
        assert await findings(mind) == []
    await eraser.episode(episodes[0])

    assert await raw_rows(mind.memory) == []


async def test_ids_that_are_not_there_or_of_another_user_change_nothing() -> None:
    mind = taught()
    first = await learn(mind, "Ada works for Acme.", WORKS)
    before = await raw_rows(mind.memory)

    receipts = [
        await Eraser(mind.memory, user="bob").episode(first),
        await Eraser(mind.memory).episode("nowhere"),
        await Eraser(mind.memory).entity(first),
    ]

    assert all(receipt.is_empty and not receipt.residue for receipt in receipts)
    assert await raw_rows(mind.memory) == before


async def test_a_deletion_that_cannot_embed_deletes_nothing() -> None:
    mind = taught(config=GraphConfig(uri=":memory:", backend="memory", embed_dim=64, request_max_retries=1))
    first = await learn(mind, "Ada works for Acme.", WORKS)
    await learn(mind, "Ada lives in Oslo.", OSLO, summaries={"Ada": "Of Acme and Oslo."})
    before = await raw_rows(mind.memory)
    mind.embedder.fail_times = 1000

    with pytest.raises(EmbeddingCallError):
        await Eraser(mind.memory, with_model=False).episode(first)

    assert await raw_rows(mind.memory) == before


@pytest.mark.parametrize("after", [False, True])
async def test_a_deletion_cut_off_at_any_write_is_finished_or_never_was(after: bool) -> None:
    GraphStoreFactory.register_backend("faulty", FaultyStore, force=True)
    unfinished = []
    for number in range(20):
        mind = taught(config=GraphConfig(uri=":memory:", backend="faulty", embed_dim=64))
        store = mind.memory.db_backend
        assert isinstance(store, FaultyStore)
        first = await learn(mind, "Ada works for Acme.", WORKS)
        await learn(mind, "Ada lives in Oslo.", OSLO, summaries={"Ada": "Of Acme and Oslo."})
        await pend(mind, "Ada works for Acme.")
        store.faults.arm(number, after=after)

        with suppress(StoreUnavailableError):
            await Eraser(mind.memory, with_model=False).episode(first)
        calls = len(store.faults.calls)
        store.faults.arm(None)
        receipt = await Eraser(mind.memory, with_model=False).episode(first)

        unfinished += [] if receipt.is_empty else [number]
        assert not any("Acme" in row for row in await raw_rows(mind.memory))
        assert await findings(mind) == []
        if calls <= number:
            break
    assert number > 5
    assert unfinished == ([] if after else [0])


async def test_a_deletion_waits_for_an_add_of_the_same_user_and_is_not_undone_by_it() -> None:
    mind = taught()
    first = await learn(mind, "Ada works for Acme.", WORKS)
    mind.llm.latency = 0.02
    asked = asyncio.Event()
    mind.llm.replies["TimezonePredictions"] = noticed(asked)
    adding = asyncio.create_task(learn(mind, "Ada works for Acme. Ada lives in Oslo.", WORKS, OSLO))
    await asked.wait()

    receipt = await Eraser(mind.memory).episode(first)

    (episode,) = await all_episodes(mind.memory)
    fact = (await all_relations(mind.memory))["Ada works for Acme"]
    assert adding.done()
    assert receipt.removed == {EPISODE_COLLECTION: (first,)}
    assert (episode.uuid, fact.episodes, fact.mention_count) == (await adding, [episode.uuid], 1)
    assert await findings(mind) == []


async def test_an_add_that_waits_for_a_deletion_does_not_bring_anything_back() -> None:
    mind = taught()
    first = await learn(mind, "Ada works for Acme.", WORKS, summaries={"Ada": "Of Acme."})
    await learn(mind, "Ada lives in Oslo.", OSLO, summaries={"Ada": "Of Acme and Oslo."})
    mind.llm.latency = 0.02
    asked = asyncio.Event()
    mind.llm.replies["EntitySummaries"] = noticed(asked)
    deleting = asyncio.create_task(Eraser(mind.memory).episode(first))
    await asked.wait()

    await learn(mind, "Ada lives in Lima.", LIMA)

    assert deleting.done()
    assert not any("Acme" in row for row in await raw_rows(mind.memory))
    assert await findings(mind) == []


@pytest.mark.parametrize("seed", range(50))
async def test_after_deleting_an_episode_its_canary_is_nowhere_and_after_deleting_all_of_them_nothing_is(
    seed: int,
) -> None:
    source = random.Random(seed)
    memory = fake_memory(llm=world_model(), entity_types=[Person])
    learnt = []
    for number in range(source.randint(3, 5)):
        canary = f"zq{seed}x{number}"
        text = world_text(source, canary)
        update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", text, source=f"app {number % 2}")
        learnt.append((update.added_episode[0].uuid, canary))
    source.shuffle(learnt)

    for uuid, canary in learnt:
        receipt = await Eraser(memory, with_model=source.random() < 0.5).episode(uuid)

        assert not [row for row in await raw_rows(memory) if canary in row]
        assert receipt.residue == ()
    assert await raw_rows(memory) == []


@pytest.mark.parametrize("with_model", [True, False])
async def test_a_graph_on_milvus_lite_forgets_as_well(tmp_path: Path, with_model: bool) -> None:
    source = random.Random(7)
    config = GraphConfig(uri=str(tmp_path / "graph.db"), embed_dim=32)
    async with fake_memory(llm=world_model(), entity_types=[Person], config=config) as memory:
        learnt = []
        for number in range(3):
            canary = f"zq{number}x"
            update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", world_text(source, canary))
            learnt.append((update.added_episode[0].uuid, canary))
        eraser = Eraser(memory, with_model=with_model)

        (uuid, canary), (other, _), _ = learnt
        first = await eraser.episode(uuid)
        rows = await raw_rows(memory)
        await eraser.episode(other)
        receipt = await eraser.everything()

        assert rows and not [row for row in rows if canary in row]
        assert first.residue == receipt.residue == ()
        assert await raw_rows(memory) == []


async def test_chinese_text_is_forgotten_too() -> None:
    mind = taught()
    types = {"小明": "Human", "瓦肯星": "Entity", "北京": "Entity"}
    first = await mind.learn(
        "小明去过瓦肯星。",
        types=types,
        said=[("小明", "去过", "瓦肯星", "小明去过瓦肯星")],
        summaries={"小明": "去过瓦肯星。"},
    )
    await mind.learn(
        "小明住在北京。",
        types=types,
        said=[("小明", "住在", "北京", "小明住在北京")],
        summaries={"小明": "住北京，去过瓦肯星。"},
    )

    receipt = await Eraser(mind.memory, with_model=False).episode(first.added_episode[0].uuid)

    assert set(await all_relations(mind.memory)) == {"小明住在北京"}
    assert not [row for row in await raw_rows(mind.memory) if "瓦肯" in row]
    assert receipt.residue == ()
