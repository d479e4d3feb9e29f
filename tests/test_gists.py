"""Gists and messages as episodes: how they hang together, when they are found, and what goes with what."""

from __future__ import annotations

from typing import Any

import pytest

from jiuwen_memory import (
    EPISODE_COLLECTION,
    AddMemStrategy,
    Episode,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    GraphStoreStorageConfig,
)
from jiuwen_memory.errors import PartFailedError
from jiuwen_memory.testing import FakeLLM, Script, fake_memory
from tests.memory_support import MAY, all_entities, all_episodes, all_relations, model_of

SAID = [
    {"role": "user", "name": "Ravi", "content": "I want a search page for the Teal shop."},
    {"role": "assistant", "name": "Bot", "content": "Fine. I heard that Mina lives in Oslo."},
    {"role": "user", "name": "Ravi", "content": "Yes, since 2019."},
]
GISTS = ["Ravi wants a search page for the Teal shop.", "Mina lives in Oslo."]
NAMES = {"Ravi": "Human", "Teal shop": "Entity", "Mina": "Human", "Oslo": "Entity"}


def fact(subject: str, predicate: str, target: str, sentence: str, **further: Any) -> dict[str, Any]:
    return {"fact": sentence, "subject": subject, "predicate": predicate, "object": target, **further}


FACTS = [
    fact("Ravi", "wants", "Teal shop", "Ravi wants a search page for the Teal shop.", said_by="Ravi"),
    fact("Mina", "lives in", "Oslo", "Mina lives in Oslo.", said_by="Bot"),
]


def replies() -> dict[str, Any]:
    listed = [{"name": name, "type": kind} for name, kind in NAMES.items()]
    return {"GistExtraction": {"gists": GISTS, "entities": listed}, "GistFacts": {"facts": FACTS}}


def gist_memory(**changes: Any) -> GraphMemory:
    strategy = AddMemStrategy(extraction="episodic_gist", chinese_entity=False, **changes)
    return fake_memory(llm=FakeLLM(replies()), strategy=strategy)


async def talk(memory: GraphMemory, **options: Any) -> list[Episode]:
    update = await memory.add_memory(EpisodeType.CONVERSATION, "ann", SAID, reference_time=MAY, **options)
    return update.added_episode


async def texts_found(memory: GraphMemory, *, episode: bool = True, gist: bool = False) -> list[str]:
    found = await memory.search("Ravi Mina", "ann", entity=False, relation=False, episode=episode, gist=gist)
    return [each.content for _, each in found.get(EPISODE_COLLECTION, [])]


async def test_gists_are_found_only_where_they_are_asked_for() -> None:
    memory = gist_memory()
    verbatim, *_ = await talk(memory)

    usual = await texts_found(memory)
    both = await texts_found(memory, gist=True)
    alone = await texts_found(memory, gist=True, episode=False)

    assert usual == [verbatim.content]
    assert sorted(both) == sorted([verbatim.content, *GISTS])
    assert sorted(alone) == sorted(GISTS)
    assert await memory.search("Mina", "ann", entity=False, relation=False, episode=False) == {}


async def test_a_timeline_shows_gists_only_on_request() -> None:
    memory = gist_memory()
    verbatim, *gists = await talk(memory)

    usual = await memory.timeline("ann")
    full = await memory.timeline("ann", gist=True)

    assert [each.kind for each in usual] == ["episode"]
    assert [(each.kind, each.uuid) for each in full] == [
        ("episode", verbatim.uuid),
        *(("gist", each.uuid) for each in gists),
    ]


async def test_gists_are_not_shown_to_the_model_as_history() -> None:
    memory = gist_memory()
    await talk(memory)

    await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Mina lives in Oslo, near the Teal shop of Ravi.")

    asked = model_of(memory).asked("GistExtraction")[1].text
    history = asked[asked.rindex("<history>") : asked.rindex("</history>")]
    assert "Ravi: I want a search page" in history
    assert history.count("\n") == 2


async def test_gists_can_be_one_to_a_text() -> None:
    memory = gist_memory(concatenate_gists=True)

    verbatim, gist = await talk(memory)

    assert (gist.content, gist.parents) == (" ".join(GISTS), [verbatim.uuid])


@pytest.mark.parametrize(("room", "count"), [(600, 2), (800, 1)], ids=["too long together", "as long as may be"])
async def test_gists_that_do_not_fit_into_one_are_several_and_none_is_cut(room: int, count: int) -> None:
    limits = GraphStoreStorageConfig(content=room)
    config = GraphConfig(uri=f"room for {room}", backend="memory", embed_dim=64, db_storage_config=limits)
    strategy = AddMemStrategy(extraction="episodic_gist", chinese_entity=False, concatenate_gists=True)
    gists = [f"{number}. They spoke of geese" + ", and of geese" * 4 for number in range(2)]
    answers = {**replies(), "GistExtraction": {"gists": gists, "entities": []}}
    memory = fake_memory(llm=FakeLLM(answers), strategy=strategy, config=config)

    update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Geese, geese, geese. " * 3)

    stored = [each.content for each in update.added_episode if each.is_gist]
    assert len(stored) == count
    assert " ".join(stored) == " ".join(gists)
    assert update.warnings == []


async def test_a_deleted_text_takes_its_gists_and_facts_along() -> None:
    memory = gist_memory()
    verbatim, *gists = await talk(memory)

    receipt = await memory.delete_episode("ann", verbatim.uuid)

    assert {each.uuid for each in gists} <= set(receipt.removed[EPISODE_COLLECTION])
    assert await all_episodes(memory) == []
    assert await all_relations(memory) == {}
    assert (await memory.check("ann")).is_clean


async def test_a_fact_told_twice_outlives_one_text_and_counts_texts_not_gists() -> None:
    memory = gist_memory()
    first, *_ = await talk(memory)
    await memory.add_memory(EpisodeType.CONVERSATION, "ann", [*SAID, SAID[0]])
    told = (await all_relations(memory))["Mina lives in Oslo."]

    await memory.delete_episode("ann", first.uuid)

    left = (await all_relations(memory))["Mina lives in Oslo."]
    assert (told.mention_count, len(told.episodes)) == (2, 6)
    assert (left.mention_count, len(left.episodes)) == (1, 3)
    assert {each.mention_count for each in (await all_entities(memory)).values()} == {1}
    assert (await memory.check("ann")).is_clean


async def test_a_deleted_gist_leaves_the_facts() -> None:
    memory = gist_memory()
    _, gist, other = await talk(memory)

    await memory.delete_episode("ann", gist.uuid)

    assert {each.uuid for each in await all_episodes(memory) if each.is_gist} == {other.uuid}
    assert set(await all_relations(memory)) == {each["fact"] for each in FACTS}
    assert (await memory.check("ann")).is_clean


async def test_what_is_said_of_a_fact_in_other_words_outlives_a_gist_and_another_message() -> None:
    hopeful = {**FACTS[0], "qualifiers": [{"key": "intent", "value": "ask for help"}]}
    memory = gist_memory(split_messages=True)
    model_of(memory).replies["GistFacts"] = {"facts": [hopeful, FACTS[1]]}
    _, second, _, gist, _ = await talk(memory)
    told = (await all_relations(memory))[FACTS[0]["fact"]].qualifiers

    await memory.delete_episode("ann", gist.uuid)
    without_gist = (await all_relations(memory))[FACTS[0]["fact"]].qualifiers
    await memory.delete_episode("ann", second.uuid)
    without_message = (await all_relations(memory))[FACTS[0]["fact"]].qualifiers

    assert told == without_gist == without_message == {"intent": "ask for help", "said_by": "Ravi"}
    assert (await memory.check("ann")).is_clean


async def test_a_gist_without_its_text_is_found_and_removed_with_what_rests_on_it() -> None:
    memory = gist_memory()
    verbatim, *_ = await talk(memory)
    await memory.db_backend.delete(EPISODE_COLLECTION, [verbatim.uuid], user_id="ann")

    report = await memory.check("ann")
    mended = await memory.check("ann", repair=True)

    assert report.counts["orphan"] >= 4
    assert not mended.remaining
    assert await all_episodes(memory) == [] and await all_relations(memory) == {}


async def test_a_repeat_is_recognised_with_its_gists_stored() -> None:
    memory = gist_memory()
    verbatim, *_ = await talk(memory, idempotency_key="k")

    again = await memory.add_memory(EpisodeType.CONVERSATION, "ann", SAID, idempotency_key="k")

    assert again.duplicate_of == verbatim.uuid and again.is_empty


# --- each message an episode ------------------------------------------------------------------------------------------


async def test_each_message_becomes_an_episode_in_one_session_asked_about_together() -> None:
    memory = gist_memory(split_messages=True)

    *messages, first_gist, second_gist = await talk(memory)

    assert [each.content for each in messages] == [f"{each['name']}: {each['content']}" for each in SAID]
    assert [each.speakers for each in messages] == [["Ravi"], ["Bot"], ["Ravi"]]
    assert [(each.part, each.parts) for each in messages] == [(1, 3), (2, 3), (3, 3)]
    assert len({each.session_id for each in (*messages, first_gist, second_gist)} - {""}) == 1
    assert first_gist.parents == second_gist.parents == [each.uuid for each in messages]
    assert len(model_of(memory).asked("GistExtraction")) == 1
    assert (await memory.check("ann")).is_clean


async def test_a_fact_and_its_things_point_to_the_message_that_tells_of_them() -> None:
    memory = gist_memory(split_messages=True)

    first, second, third, *gists = await talk(memory, session_id="monday")

    facts = await all_relations(memory)
    found = await all_entities(memory)
    behind = [each.uuid for each in gists]
    assert facts[FACTS[0]["fact"]].episodes == [first.uuid, *behind]
    assert facts[FACTS[1]["fact"]].episodes == [second.uuid, *behind]
    assert found["Ravi"].episodes == [first.uuid, third.uuid] and found["Ravi"].mention_count == 2
    assert found["Mina"].episodes == [second.uuid]
    assert {each.session_id for each in (first, second, third)} == {"monday"}


@pytest.mark.parametrize(
    ("name", "naming", "other"),
    [
        ("Ann", "Ann's cat sleeps.", "We planned the annual fair."),
        ("Ina", "Ina sang.", "They live in a house."),
        ("Teal shop", "All Teal shops are shut.", "The teal door opens."),
        ("王芳", "昨天王 芳來了。", "芳香的王国。"),
        ("🦊", "Look: 🦊!", "A fox."),
    ],
)
async def test_a_message_names_a_thing_in_whole_words(name: str, naming: str, other: str) -> None:
    memory = gist_memory(split_messages=True)
    answers = {"GistExtraction": {"gists": [], "entities": [{"name": name, "type": "Entity"}]}}
    model_of(memory).replies = {**answers, "GistFacts": {"facts": []}}
    said = [{"role": "user", "name": "Ravi", "content": text} for text in (other, naming, other)]

    update = await memory.add_memory(EpisodeType.CONVERSATION, "ann", said)

    (thing,) = (each for each in update.added_entity if each.name == name)
    assert (thing.episodes, thing.mention_count) == ([update.added_episode[1].uuid], 1)


async def test_a_deleted_message_takes_only_its_own_facts_along() -> None:
    memory = gist_memory(split_messages=True)
    _, second, *_ = await talk(memory)

    await memory.delete_episode("ann", second.uuid)

    assert set(await all_relations(memory)) == {FACTS[0]["fact"]}
    assert "Mina" not in await all_entities(memory)
    assert [each.content for each in await all_episodes(memory) if "Mina" in each.content] == []
    assert (await memory.check("ann")).is_clean


async def test_a_long_talk_is_cut_between_messages_and_its_parts_are_recognised() -> None:
    memory = gist_memory(split_messages=True, chunk_tokens=50)
    long = [
        {"role": "user", "name": "Ravi", "content": f"Number {number}: " + "geese came by " * 5} for number in range(6)
    ]

    update = await memory.add_memory(EpisodeType.CONVERSATION, "ann", long, reference_time=MAY)
    again = await memory.add_memory(EpisodeType.CONVERSATION, "ann", long, reference_time=MAY)

    messages = [each for each in update.added_episode if not each.is_gist]
    assert [each.part for each in messages] == [1, 2, 3, 4, 5, 6]
    assert 1 < len(model_of(memory).asked("GistExtraction")) < 6
    assert again.duplicate_of == messages[0].uuid and again.is_empty


async def test_a_talk_that_failed_in_the_middle_is_resumed_without_loss_or_repeat() -> None:
    answers = replies()
    failing = [answers["GistExtraction"], "I cannot.", "I cannot.", answers["GistExtraction"]]
    strategy = AddMemStrategy(extraction="episodic_gist", chinese_entity=False, split_messages=True, chunk_tokens=50)
    llm = FakeLLM({**answers, "GistExtraction": Script(failing, repeat_last=True)})
    memory = fake_memory(llm=llm, strategy=strategy)
    long = [
        {"role": "user", "name": "Ravi", "content": f"Number {number}: " + "geese came by " * 8} for number in range(3)
    ]

    try:
        await memory.add_memory(EpisodeType.CONVERSATION, "ann", long, reference_time=MAY)
        failed = None
    except PartFailedError as error:
        failed = error
    (done,) = await memory.resume("ann")

    assert failed is not None and len(failed.stored) == 1
    assert done.update is not None and done.update.added_episode
    verbatim = [each for each in await all_episodes(memory) if not each.is_gist]
    assert sorted(each.part for each in verbatim) == [1, 2, 3]


async def test_messages_stay_together_without_the_setting() -> None:
    memory = gist_memory()

    verbatim, *_ = await talk(memory)

    assert verbatim.content.count("\n") == 2


async def test_entities_merged_and_taken_apart_count_texts_not_gists() -> None:
    memory = gist_memory()
    await talk(memory)
    before = await all_entities(memory)
    mina, ravi = before["Mina"], before["Ravi"]

    await memory.merge("ann", mina.uuid, ravi.uuid, dry_run=False)
    merged = await memory.check("ann")
    await memory.unmerge("ann", mina.uuid)

    after = await all_entities(memory)
    assert merged.is_clean and (await memory.check("ann")).is_clean
    assert {name: each.mention_count for name, each in after.items()} == dict.fromkeys(NAMES, 1)
    assert after["Ravi"].episodes == ravi.episodes
