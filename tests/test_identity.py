"""Who is who: which mention means which stored entity, and what becomes of entities that turn out to be one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pydantic import BaseModel

from jiuwen_memory import ENTITY_COLLECTION, AddMemStrategy, Entity, EpisodeType, RRFRankConfig, SearchConfig
from tests.memory_support import (
    ENGLISH,
    Taught,
    all_entities,
    all_episodes,
    all_relations,
    entities,
    facts,
    problems,
    taught,
)


async def test_a_new_name_is_a_new_entity_and_the_model_is_not_asked_when_nothing_resembles_it() -> None:
    mind = taught()

    await mind.learn("Bo arrived.", types={"Bo": "Human"})

    assert set(await all_entities(mind.memory)) == {"Bo"}
    assert mind.llm.asked("EntityDuplication") == []


async def test_the_same_name_is_the_same_entity_whatever_its_case_and_spacing_when_the_model_gives_no_answer() -> None:
    mind = taught()
    await mind.learn("Bo Berg arrived.", types={"Bo Berg": "Human"})
    mind.llm.replies = {
        "EntityExtraction": entities({"BO  BERG": "Human"}),
        "EntityDuplication": {"duplicates": []},
    }

    await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "BO  BERG left.")

    assert {name: each.mention_count for name, each in (await all_entities(mind.memory)).items()} == {"Bo Berg": 2}


async def test_two_people_of_one_name_stay_two_when_the_model_tells_them_apart() -> None:
    mind = taught()
    await mind.learn("Bo Berg the baker.", types={"Bo Berg": "Human"}, summaries={"Bo Berg": "A baker."})

    update = await mind.learn("Bo Berg the judge.", types={"Bo Berg": "Human"}, same={})

    assert [each.name for each in update.added_entity] == ["Bo Berg"]
    assert update.updated_entity == []


async def test_a_shared_neighbour_settles_a_name_without_the_model() -> None:
    mind = taught()
    both = {"Bo Berg": "Human", "Vik Mill": "Entity"}
    await mind.learn("Bo Berg owns Vik Mill.", types=both, said=[("Bo Berg", "owns", "Vik Mill", "Bo owns Vik Mill.")])

    await mind.learn("Bo Berg sold Vik Mill.", types=both)

    assert mind.llm.asked("EntityDuplication") == []
    assert {name: each.mention_count for name, each in (await all_entities(mind.memory)).items()} == dict.fromkeys(
        both, 2
    )


async def test_the_same_session_settles_a_name_without_the_model() -> None:
    mind = taught()
    await mind.learn("Bo Berg arrived.", types={"Bo Berg": "Human"}, session_id="s1")

    await mind.learn("Bo Berg left.", types={"Bo Berg": "Human"}, session_id="s1")
    within = len(mind.llm.asked("EntityDuplication"))
    await mind.learn("Bo Berg came.", types={"Bo Berg": "Human"}, session_id="s2", same={"Bo Berg": ["Bo Berg"]})

    assert within == 0
    assert len(mind.llm.asked("EntityDuplication")) == 1
    assert (await all_entities(mind.memory))["Bo Berg"].mention_count == 3


async def test_a_speaker_is_the_same_person_in_every_conversation() -> None:
    mind = taught()
    for text in ("I like tea.", "I like rain."):
        await mind.memory.add_memory(
            EpisodeType.CONVERSATION, "ann", [{"role": "user", "content": text}], content_fmt_kwargs={"user": "Marta"}
        )

    marta = (await all_entities(mind.memory))["Marta"]

    assert (marta.obj_type, marta.mention_count) == ("Human", 2)
    assert mind.llm.asked("EntityDuplication") == []


async def test_speakers_without_a_name_of_whom_nothing_is_said_are_no_entities() -> None:
    mind = taught()
    talk = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello."}]

    update = await mind.memory.add_memory(EpisodeType.CONVERSATION, "ann", talk)

    assert update.added_episode[0].speakers == ["user", "assistant"]
    assert await all_entities(mind.memory) == {}


async def test_a_speaker_with_a_name_is_an_entity_whatever_is_said() -> None:
    mind = taught()
    talk = [{"role": "user", "content": "Hello."}]

    await mind.memory.add_memory(EpisodeType.CONVERSATION, "ann", talk, content_fmt_kwargs={"user": "Marta"})

    assert set(await all_entities(mind.memory)) == {"Marta"}


async def test_an_assistant_that_a_fact_is_about_is_an_entity_of_type_ai() -> None:
    mind = taught()
    mind.llm.replies["RelationExtraction"] = facts(("Zibo", "helps", "user", "Zibo helps the user."))
    talk = [{"role": "user", "content": "You help me."}, {"role": "assistant", "name": "Zibo", "content": "I do."}]

    await mind.memory.add_memory(EpisodeType.CONVERSATION, "ann", talk)

    found = await all_entities(mind.memory)
    assert {name: each.obj_type for name, each in found.items()} == {"user": "Human", "Zibo": "AI"}


async def test_a_speaker_that_the_model_names_too_is_one_entity_with_the_speakers_type() -> None:
    mind = taught()
    mind.llm.replies["EntityExtraction"] = entities({"marta": "Entity"})

    await mind.memory.add_memory(
        EpisodeType.CONVERSATION,
        "ann",
        [{"role": "user", "content": "Marta here."}],
        content_fmt_kwargs={"user": "Marta"},
    )

    assert {name: each.obj_type for name, each in (await all_entities(mind.memory)).items()} == {"Marta": "Human"}


async def test_a_nickname_becomes_an_alias_and_is_offered_as_a_candidate_later() -> None:
    mind = taught()
    await mind.learn("Elizabeth Moss wrote.", types={"Elizabeth Moss": "Human"})

    await mind.learn("Betty wrote.", types={"Betty": "Human"}, same={"Betty": ["Elizabeth Moss"]})
    await mind.learn("Bettie wrote.", types={"Bettie": "Human"}, same={"Bettie": ["Elizabeth Moss"]})

    moss = (await all_entities(mind.memory))["Elizabeth Moss"]
    last = mind.llm.asked("EntityDuplication")[-1]
    assert (moss.aliases, moss.mention_count) == (["Betty", "Bettie"], 3)
    assert "Betty" in last.lines()[last.number("Elizabeth Moss")]


async def test_an_entity_is_found_by_its_alias() -> None:
    mind = taught()
    await mind.learn("Elizabeth Moss wrote.", types={"Elizabeth Moss": "Human"})
    await mind.learn("Betty wrote.", types={"Betty": "Human"}, same={"Betty": ["Elizabeth Moss"]})
    await mind.learn("Otto wrote.", types={"Otto": "Human"})

    only_words = SearchConfig(rank_config=RRFRankConfig(name_dense=False, content_dense=False))
    mind.memory.register_search_strategy("words", search_entity=only_words)

    found = await mind.memory.search("Betty", "ann", "words", relation=False, episode=False)

    assert [each.aliases for _, each in found["ENTITY_COLLECTION"] if isinstance(each, Entity)] == [["Betty"]]


async def test_one_name_of_two_types_in_one_text_are_two_entities() -> None:
    mind = taught()
    mind.llm.replies["EntityExtraction"] = {
        "entities": [{"name": "Mercury", "type": "Human"}, {"name": "Mercury", "type": "AI"}]
    }

    update = await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "Mercury met the bot Mercury.")

    assert [(each.name, each.obj_type) for each in update.added_entity] == [("Mercury", "Human"), ("Mercury", "AI")]


async def test_a_stored_entity_of_another_type_is_asked_about_and_kept_apart_without_an_answer() -> None:
    mind = taught()
    await mind.learn("Mercury sang.", types={"Mercury": "Human"})
    mind.llm.replies = {
        "EntityExtraction": entities({"Mercury": "AI"}),
        "EntityDuplication": {"duplicates": []},
    }

    update = await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "Mercury computes.")

    assert len(mind.llm.asked("EntityDuplication")) == 1
    assert [(each.name, each.obj_type) for each in update.added_entity] == [("Mercury", "AI")]


async def two_that_are_one(**options: Any) -> Taught:
    """Return a memory that knows Tom and Thomas Orr, and not yet that they are one."""
    mind = taught(**options)
    await mind.learn(
        "Tom knows Kim.",
        types={"Tom": "Human", "Kim": "Human"},
        said=[("Tom", "knows", "Kim", "Tom knows Kim.")],
        summaries={"Tom": "A pilot."},
        source="first.txt",
    )
    await mind.learn(
        "Thomas Orr flies the Heron.",
        types={"Thomas Orr": "Human", "Heron": "Entity"},
        said=[("Thomas Orr", "flies", "Heron", "Thomas Orr flies the Heron.")],
        summaries={"Thomas Orr": "Flies the Heron."},
        source="second.txt",
    )
    return mind


async def test_entities_that_turn_out_to_be_one_are_fused_with_all_their_facts_and_sources() -> None:
    mind = await two_that_are_one()

    update = await mind.learn(
        "Tommy, that is Tom or Thomas Orr, landed.",
        types={"Tommy": "Human"},
        same={"Tommy": ["Tom (", "Thomas Orr"]},
        source="third.txt",
    )

    found = await all_entities(mind.memory)
    edges = await all_relations(mind.memory)
    (kept,) = [each for each in found.values() if each.name in ("Tom", "Thomas Orr")]
    assert len(update.removed_entity) == 1
    assert set(found) == {kept.name, "Kim", "Heron"}
    assert {*kept.aliases, kept.name} == {"Tom", "Thomas Orr", "Tommy"}
    assert (kept.mention_count, len(kept.episodes)) == (3, 3)
    assert set(kept.sources) == {"first.txt", "second.txt", "third.txt"}
    assert len(kept.merged_from) == 1
    assert {each.lhs for each in edges.values()} == {kept.uuid}
    assert set(kept.relations) == {each.uuid for each in edges.values()}
    assert all(kept.uuid in each.entities for each in await all_episodes(mind.memory))
    assert await problems(mind.memory) == []


async def test_a_fused_entitys_facts_remember_the_end_they_were_learnt_with() -> None:
    mind = await two_that_are_one()
    before = {name: each.uuid for name, each in (await all_entities(mind.memory)).items()}

    await mind.learn("Tommy.", types={"Tommy": "Human"}, same={"Tommy": ["Tom (", "Thomas Orr"]})

    origins = {each.content: each.lhs_origin for each in (await all_relations(mind.memory)).values()}
    assert origins == {"Tom knows Kim.": before["Tom"], "Thomas Orr flies the Heron.": before["Thomas Orr"]}


async def test_a_filter_that_would_keep_no_fact_at_all_is_not_believed() -> None:
    mind = await two_that_are_one()
    mind.llm.replies["RelevantFacts"] = {"relevant": []}
    before = set(await all_relations(mind.memory))

    update = await mind.learn("Tommy.", types={"Tommy": "Human"}, same={"Tommy": ["Tom (", "Thomas Orr"]})

    assert len(mind.llm.asked("RelevantFacts")) >= 1
    assert set(await all_relations(mind.memory)) == before
    assert update.removed_relation == set()


async def test_the_filter_drops_facts_that_make_no_sense_after_a_fusion() -> None:
    mind = taught()
    await mind.learn("Kim knows Tom Orr.", types={"Tom Orr": "Human"})
    await mind.learn("Again Tom Orr.", types={"Tom Orr": "Human"}, same={"Tom Orr": ["Tom Orr"]})
    await mind.learn(
        "Thomas sang and Thomas slept.",
        types={"Thomas": "Human"},
        said=[("Thomas", "sang", "Thomas", "Thomas sang."), ("Thomas", "slept", "Thomas", "Thomas slept.")],
    )
    mind.llm.replies["RelevantFacts"] = lambda prompt: {"relevant": [prompt.number("Thomas sang")]}

    update = await mind.learn("Tommy.", types={"Tommy": "Human"}, same={"Tommy": ["Tom Orr", "Thomas"]})

    assert set(await all_relations(mind.memory)) == {"Thomas sang."}
    assert len(update.removed_relation) == 1
    assert await problems(mind.memory) == []


async def test_without_merge_filter_no_fact_is_asked_about() -> None:
    mind = await two_that_are_one(strategy=ENGLISH.model_copy(update={"merge_filter": False}))

    await mind.learn("Tommy.", types={"Tommy": "Human"}, same={"Tommy": ["Tom (", "Thomas Orr"]})

    assert mind.llm.asked("RelevantFacts") == []
    assert len(await all_relations(mind.memory)) == 2


async def test_without_merge_entities_stored_ones_stay_apart_and_the_mention_finds_its_own() -> None:
    mind = await two_that_are_one(strategy=ENGLISH.model_copy(update={"merge_entities": False}))

    update = await mind.learn("Tommy.", types={"Tommy": "Human"}, same={"Tommy": ["Tom (", "Thomas Orr"]})

    found = await all_entities(mind.memory)
    assert (update.added_entity, update.removed_entity) == ([], set())
    assert {"Tom", "Thomas Orr"} <= set(found)
    assert [name for name, each in found.items() if "Tommy" in each.aliases] in (["Tom"], ["Thomas Orr"])


async def test_a_relation_between_two_that_become_one_is_kept_as_a_fact_about_it() -> None:
    mind = taught()
    await mind.learn(
        "Tom is called Thomas.",
        types={"Tom": "Human", "Thomas": "Human"},
        said=[("Tom", "is called", "Thomas", "Tom is called Thomas.")],
    )

    await mind.learn("Tommy.", types={"Tommy": "Human"}, same={"Tommy": ["Tom (", "Thomas"]})

    (fact,) = (await all_relations(mind.memory)).values()
    assert fact.lhs == fact.rhs
    assert fact.obj_type == "EntityFact"
    assert await problems(mind.memory) == []


async def test_equal_facts_of_two_that_become_one_are_one_fact_with_both_sources() -> None:
    mind = taught()
    for name in ("Tom", "Thomas Orr"):
        await mind.learn(
            f"{name} likes tea.",
            types={name: "Human"},
            said=[(name, "likes", name, "He likes tea.")],
            source=f"{name}.txt",
        )

    await mind.learn("Tommy.", types={"Tommy": "Human"}, same={"Tommy": ["Tom (", "Thomas Orr"]})

    (fact,) = (await all_relations(mind.memory)).values()
    assert fact.mention_count == 2
    assert set(fact.sources) == {"Tom.txt", "Thomas Orr.txt"}
    assert len(fact.episodes) == 2
    assert await problems(mind.memory) == []


async def test_one_users_entities_are_never_candidates_for_another_user() -> None:
    mind = taught()
    await mind.learn("Bo Berg arrived.", types={"Bo Berg": "Human"}, user="ann")

    update = await mind.learn("Bo Berg arrived.", types={"Bo Berg": "Human"}, user="ben")

    assert mind.llm.asked("EntityDuplication") == []
    assert [each.user_id for each in update.added_entity] == ["ben"]


async def test_many_fusions_leave_a_record_that_still_fits_its_field() -> None:
    mind = taught()
    names = [f"Agent {letter}" for letter in "ABCDEF"]
    for name in names:
        await mind.learn(f"{name} spoke.", types={name: "Human"}, summaries={name: f"{name}: " + "word " * 3000})

    for first, second in pairwise(names):
        await mind.learn("Q.", types={f"{first} {second}": "Human"}, same={first: ["Agent"]})

    assert await problems(mind.memory) == []
    assert len(await all_entities(mind.memory)) < len(names)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("Acme Corp", "ＡＣＭＥ　Ｃｏｒｐ", id="full-width"),
        pytest.param("Wei Zhang", "wei  ZHANG", id="case-and-spacing"),
        pytest.param("张伟", "張偉", id="traditional"),
        pytest.param("臺灣大學", "台湾大学", id="simplified"),
        pytest.param("李小龙", "李 小龙", id="chinese-spacing"),
        pytest.param("iPhone 15", "ｉＰｈｏｎｅ　１５", id="full-width-digits"),
    ],
)
async def test_variants_of_writing_are_one_name_and_need_no_model(first: str, second: str) -> None:
    mind = taught()
    await mind.learn(f"{first} is here.", types={first: "Entity"}, session_id="s")

    await mind.learn(f"{second} is gone.", types={second: "Entity"}, session_id="s")

    assert mind.llm.asked("EntityDuplication") == []
    assert {name: each.mention_count for name, each in (await all_entities(mind.memory)).items()} == {first: 2}


class Island(BaseModel):
    """An island."""


class ProgrammingLanguage(BaseModel):
    """A programming language."""


async def namesakes(mind: Taught) -> list[Entity]:
    found = [each async for each in mind.memory.objects(ENTITY_COLLECTION, "ann") if isinstance(each, Entity)]
    return sorted(found, key=lambda each: (each.name, each.obj_type, each.content))


async def test_java_the_island_and_java_the_language_stay_two_in_one_text_and_in_several() -> None:
    mind = taught(entity_types=[Island, ProgrammingLanguage])
    mind.llm.replies["EntityExtraction"] = {
        "entities": [{"name": "Java", "type": "Island"}, {"name": "Java", "type": "ProgrammingLanguage"}]
    }
    await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "On Java she taught Java.")

    for kind, text in (("Island", "Java has volcanoes."), ("ProgrammingLanguage", "Java has classes.")):
        mind.llm.replies["EntityDuplication"] = {"duplicates": []}
        mind.llm.replies["EntityExtraction"] = entities({"Java": kind})
        mind.llm.replies["RelationExtraction"] = facts(("Java", "has", "Java", text))
        await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", text)

    found = await namesakes(mind)
    told = await all_relations(mind.memory)
    assert [(each.name, each.obj_type, each.mention_count) for each in found] == [
        ("Java", "Island", 2),
        ("Java", "ProgrammingLanguage", 2),
    ]
    assert told["Java has volcanoes."].lhs == found[0].uuid
    assert told["Java has classes."].lhs == found[1].uuid


async def test_java_the_language_is_not_fused_with_the_island_even_if_the_model_says_so() -> None:
    mind = taught(entity_types=[Island, ProgrammingLanguage])
    await mind.learn("Java has volcanoes.", types={"Java": "Island"})
    await mind.learn("Java has classes.", types={"Java": "ProgrammingLanguage"}, same={})

    update = await mind.learn("Java.", types={"Java": "Island"}, same={"Java": ["Java"]})

    assert update.removed_entity == set()
    assert {each.obj_type: each.mention_count for each in await namesakes(mind)} == {
        "Island": 2,
        "ProgrammingLanguage": 1,
    }


async def two_of_one_name() -> Taught:
    """Return a memory that knows two people called Wei Zhang, by their employers."""
    mind = taught()
    for employer in ("Baidu", "Tencent"):
        await mind.learn(
            f"Wei Zhang works at {employer}.",
            types={"Wei Zhang": "Human", employer: "Entity"},
            said=[("Wei Zhang", "works at", employer, f"Wei Zhang works at {employer}.")],
            same={},
            summaries={"Wei Zhang": f"He works at {employer}."},
        )
    return mind


async def test_two_people_of_one_name_with_different_employers_stay_two() -> None:
    mind = await two_of_one_name()

    people = [each for each in await namesakes(mind) if each.name == "Wei Zhang"]

    told = await all_relations(mind.memory)
    assert [each.content for each in people] == ["He works at Baidu.", "He works at Tencent."]
    assert told["Wei Zhang works at Baidu."].lhs == people[0].uuid
    assert told["Wei Zhang works at Tencent."].lhs == people[1].uuid
    assert told["Wei Zhang works at Baidu."].superseded_by == []


@pytest.mark.parametrize(("employer", "number"), [("Baidu", 0), ("Tencent", 1)])
async def test_of_two_of_one_name_the_one_with_a_neighbour_in_the_text_is_meant_without_an_answer(
    employer: str, number: int
) -> None:
    mind = await two_of_one_name()
    people = [each.uuid for each in await namesakes(mind) if each.name == "Wei Zhang"]
    mind.llm.replies |= {
        "EntityExtraction": entities({"Wei Zhang": "Human", employer: "Entity"}),
        "RelationExtraction": facts(("Wei Zhang", "leads a team at", employer, "He leads a team.")),
        "EntityDuplication": {"duplicates": []},
    }

    await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", f"Wei Zhang leads a team at {employer}.")

    counts = {each.uuid: each.mention_count for each in await namesakes(mind)}
    assert (counts[people[number]], counts[people[1 - number]]) == (2, 1)
    assert (await all_relations(mind.memory))["He leads a team."].lhs == people[number]


async def test_without_judging_a_name_means_its_stored_entity_and_similar_names_are_others() -> None:
    mind = taught(strategy=ENGLISH.model_copy(update={"judge_entities": False}))
    await mind.learn("Bo Berg the baker.", types={"Bo Berg": "Human", "Java": "Entity"})

    update = await mind.learn("Bo Berg, B. Berg.", types={"bo berg": "Human", "B. Berg": "Human"}, same={})

    assert mind.llm.asked("EntityDuplication") == []
    assert [each.name for each in update.added_entity] == ["B. Berg"]
    assert (await all_entities(mind.memory))["Bo Berg"].mention_count == 2


async def test_without_judging_of_two_with_one_name_the_one_of_the_session_is_meant() -> None:
    mind = taught()
    await mind.learn("Bo Berg the baker.", types={"Bo Berg": "Human"}, session_id="s1")
    await mind.learn("Bo Berg the baker came.", types={"Bo Berg": "Human"}, session_id="s1")
    judge = await mind.learn("Bo Berg the judge.", types={"Bo Berg": "Human"}, session_id="s2", same={})
    unasked = taught(
        strategy=ENGLISH.model_copy(update={"judge_entities": False}), config=mind.memory.config, llm=mind.llm
    )

    update = await unasked.learn("Bo Berg ruled.", types={"Bo Berg": "Human"}, session_id="s2")

    assert [each.uuid for each in update.updated_entity] == [each.uuid for each in judge.added_entity]


def test_a_small_model_is_not_asked_who_is_who() -> None:
    strategy = AddMemStrategy.small_model()

    assert (strategy.extraction, strategy.judge_entities, strategy.judge_items) == ("temporal", False, 1)
