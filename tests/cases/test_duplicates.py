"""The same thing under several spellings, two things of one name, facts told again, corrected or mistaken."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import JsonValue

from jiuwen_memory import ENTITY_COLLECTION, RELATION_COLLECTION, AddMemStrategy, Entity, Relation
from jiuwen_memory.testing import FakePrompt, Script, same_as, verdicts
from tests.cases.world import (
    AUTUMN,
    DOCUMENT,
    NAMED,
    SENTENCE,
    STATED,
    USER,
    WHO,
    dated,
    local_day,
    numbered,
    say,
    scripted,
)
from tests.memory_support import all_entities, all_episodes, all_relations, entities, facts, problems


async def test_letter_case_full_width_letters_and_spaces_do_not_make_a_second_entity() -> None:
    """Case 15"""
    spellings = {"ＢＬＵＥ　ＫＩＬＮ": "Entity", "blue   kiln": "Entity"}
    mind = scripted(
        {
            "EntityExtraction": Script([entities({"Blue Kiln": "Entity"}), entities(spellings)]),
            "EntityDuplication": same_as({"Blue Kiln": ["Blue Kiln"]}),
        }
    )
    await say(mind, "I signed up at Blue Kiln in June.")

    await say(mind, "ＢＬＵＥ　ＫＩＬＮ is warm; blue   kiln is loud.", reference_time=AUTUMN.replace(day=20))

    (kiln,) = (await all_entities(mind.memory, USER)).values()
    assert sorted(kiln.episodes) == sorted(each.uuid for each in await all_episodes(mind.memory, USER))
    assert len(kiln.episodes) == 2
    assert await problems(mind.memory, USER) == []


async def test_a_name_in_a_later_part_of_a_long_text_finds_the_one_that_an_earlier_part_stored() -> None:
    named = Script([entities({"Dr. Anna Keller": "Human"}), entities({"Anna Keller": "Human"})])
    mind = scripted(
        {"EntityExtraction": named, "EntityDuplication": same_as({"Anna Keller": ["Dr. Anna Keller"]})},
        strategy=AddMemStrategy(chinese_entity=False, chunk_tokens=50),
    )
    parts = [f"{name} mends clocks. " + "It ticks and ticks. " * 8 for name in ("Dr. Anna Keller", "Anna Keller")]

    update = await say(mind, "\n\n".join(parts))

    (keller,) = (await all_entities(mind.memory, USER)).values()
    assert len(mind.llm.asked("EntityDuplication")) == 1
    assert (keller.name, keller.aliases, keller.mention_count) == ("Dr. Anna Keller", ["Anna Keller"], 2)
    assert [each.part for each in update.added_episode] == [1, 2]


async def test_two_people_of_one_name_stay_two_each_with_their_own_fact() -> None:
    """Case 16"""
    smith, vet = "Wang Fang is a smith at Iron Lane.", "Wang Fang is a vet at Tide House."
    mind = scripted(
        {
            "EntityExtraction": Script(
                [
                    entities({"Wang Fang": "Human", "Iron Lane": "Entity"}),
                    entities({"Wang Fang": "Human", "Tide House": "Entity"}),
                ]
            ),
            "RelationExtraction": Script(
                [
                    facts(("Wang Fang", "works at", "Iron Lane", smith)),
                    facts(("Wang Fang", "works at", "Tide House", vet)),
                ]
            ),
            "EntityDuplication": same_as({}),
        }
    )
    await mind.memory.add_memory(DOCUMENT, USER, smith, reference_time=AUTUMN)

    await mind.memory.add_memory(DOCUMENT, USER, vet, reference_time=AUTUMN.replace(day=19))

    found = await mind.memory.search("Wang Fang", USER, relation=False, episode=False)
    named = [each for _, each in found[ENTITY_COLLECTION] if isinstance(each, Entity) and each.name == "Wang Fang"]
    relations = await all_relations(mind.memory, USER)
    assert len(named) == 2
    assert {tuple(each.relations) for each in named} == {(relations[smith].uuid,), (relations[vet].uuid,)}
    assert relations[smith].lhs != relations[vet].lhs


async def test_a_fact_told_three_times_is_one_fact_with_three_sources() -> None:
    """Case 17"""
    known = same_as({name: [name] for name in WHO})
    mind = scripted({"EntityExtraction": NAMED, "RelationExtraction": STATED, "EntityDuplication": known})

    for days in range(3):
        await say(mind, SENTENCE, reference_time=AUTUMN + timedelta(days=days))

    episodes = {each.uuid for each in await all_episodes(mind.memory, USER)}
    nodes = await all_entities(mind.memory, USER)
    (fact,) = (await all_relations(mind.memory, USER)).values()
    assert len(episodes) == 3
    assert {name: set(each.episodes) for name, each in nodes.items()} == dict.fromkeys(WHO, episodes)
    assert set(fact.episodes) == episodes
    assert await problems(mind.memory, USER) == []


async def test_fused_people_keep_each_episode_once_and_their_facts() -> None:
    """Case 18"""
    runs = "Prof. Adeyemi runs the observatory."
    mind = scripted(
        {
            "EntityExtraction": Script(
                [
                    entities({"Prof. Adeyemi": "Human", "observatory": "Entity"}),
                    entities({"Tola Adeyemi": "Human"}),
                    entities({"Prof. Tola Adeyemi": "Human"}),
                ]
            ),
            "RelationExtraction": Script([facts(("Prof. Adeyemi", "runs", "observatory", runs)), facts()]),
            "EntityDuplication": Script([same_as({}), same_as({"Prof. Tola Adeyemi": ["Prof. A", "Tola"]})]),
        }
    )
    await say(mind, runs)
    await say(mind, "Tola Adeyemi rang.", reference_time=AUTUMN.replace(day=16))
    before = {each.uuid for each in (await all_entities(mind.memory, USER)).values()}

    update = await say(mind, "Prof. Tola Adeyemi is Prof. Adeyemi.", reference_time=AUTUMN.replace(day=17))

    nodes = {each.uuid: each for each in (await all_entities(mind.memory, USER)).values()}
    episodes = await all_episodes(mind.memory, USER)
    (person,) = [each for each in nodes.values() if each.name != "observatory"]
    (fact,) = (await all_relations(mind.memory, USER)).values()
    gone = before - set(nodes)
    assert len(nodes) == 2
    assert sorted(person.episodes) == sorted(each.uuid for each in episodes)
    assert {fact.lhs, fact.rhs} == set(nodes)
    assert update.removed_entity == gone
    assert len(gone) == 1
    assert gone.isdisjoint(uuid for each in episodes for uuid in each.entities)
    assert gone.isdisjoint(each.uuid for each in [*update.added_entity, *update.updated_entity])
    assert await problems(mind.memory, USER) == []


@pytest.mark.parametrize("says_contradiction", [False, True])
async def test_moving_house_ends_the_old_address_and_keeps_it(says_contradiction: bool) -> None:
    """Case 34"""
    gent, brugge = "Greta Moll lives in Gent.", "Greta Moll lives in Brugge."
    lived = {"name": "lives in", "source": "Greta Moll"}
    first = {**dated("2020-04-01"), **lived, "fact": gent, "target": "Gent"}
    ended = {**dated(None, "2025-03-01"), **lived, "fact": gent, "target": "Gent"}
    began = {**dated("2025-03-01"), **lived, "fact": brugge, "target": "Brugge"}
    both = {"Greta Moll": "Human", "Gent": "Entity"}
    mind = scripted(
        {
            "EntityExtraction": Script([entities(both), entities({**both, "Brugge": "Entity"})]),
            "EntityDuplication": same_as({name: [name] for name in both}),
            "TimezonePredictions": {"place": "Gent", "timezone": "Europe/Brussels"},
            "RelationExtraction": Script([{"relations": [first]}, {"relations": [ended, began]}]),
            "RelationVerdicts": verdicts(contradicts={brugge: [gent]} if says_contradiction else {}),
        }
    )
    await say(mind, "I have lived in Gent since 2020-04-01.", reference_time=AUTUMN.replace(year=2023))

    await say(mind, "On 2025-03-01 I left Gent for Brugge.")

    stored = await all_relations(mind.memory, USER)
    found = await mind.memory.search("Where does Greta Moll live?", USER)
    seen = {each.uuid: each for _, each in found[RELATION_COLLECTION] if isinstance(each, Relation)}
    spans = {
        each.content: [local_day(moment, "Europe/Brussels") for moment in (each.valid_since, each.valid_until)]
        for each in stored.values()
    }
    assert spans == {gent: ["2020-04-01", "2025-03-01"], brugge: ["2025-03-01", None]}
    assert len(stored[gent].episodes) == 2
    assert {uuid: each.valid_until for uuid, each in seen.items()} == {
        each.uuid: each.valid_until for each in stored.values()
    }
    assert await problems(mind.memory, USER) == []


@pytest.mark.parametrize("verdict", ["same", "contradicts"])
async def test_a_verdict_about_facts_that_were_not_listed_changes_nothing_of_them(verdict: str) -> None:
    """Case 35"""
    canoe, green, lamp = "Greta Moll has a canoe.", "Greta Moll has a green canoe.", "Nils Rey has a lamp."

    def answer(prompt: FakePrompt) -> JsonValue:
        new, old = prompt.number(green), prompt.number(canoe)
        strangers = [number for number in (0, 3, 4, 57, -2) if number not in prompt.lines()]
        listed: dict[str, JsonValue] = {"id": new, "same": [old], "contradicts": [], "links": []}
        return {"verdicts": [{**listed, verdict: [old, *strangers]}, {"id": 88, "same": [old, 1]}]}

    mind = scripted(
        {
            "EntityExtraction": Script(
                [
                    entities(
                        {"Greta Moll": "Human", "canoe": "Entity", "Nils Rey": "Human", "lamp": "Entity"},
                    ),
                    entities({"Greta Moll": "Human", "canoe": "Entity"}),
                ]
            ),
            "EntityDuplication": same_as({"Greta Moll": ["Greta"], "canoe": ["canoe"]}),
            "RelationExtraction": Script(
                [
                    facts(("Greta Moll", "has", "canoe", canoe), ("Nils Rey", "has", "lamp", lamp)),
                    facts(("Greta Moll", "has", "canoe", green)),
                ]
            ),
            "RelationVerdicts": numbered(answer),
        }
    )
    await mind.memory.add_memory(DOCUMENT, USER, f"{canoe} {lamp}", reference_time=AUTUMN)
    untouched = (await all_relations(mind.memory, USER))[lamp]

    await say(mind, green, reference_time=AUTUMN.replace(day=16))

    stored = await all_relations(mind.memory, USER)
    assert stored[lamp] == untouched
    assert len(stored) == 2
    assert await problems(mind.memory, USER) == []
