"""Taking apart what was fused: everybody gets back what is recorded as theirs."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from jiuwen_memory import ENTITY_COLLECTION, Entity, EpisodeType, GraphMemory
from jiuwen_memory.errors import EntityNotFoundError, InvalidInputError, NothingFusedError
from jiuwen_memory.testing import by_name, fake_memory
from tests.forget_support import Person, world_model, world_text
from tests.memory_support import MAY, all_entities, all_episodes, taught
from tests.merge_support import all_facts, difference, lives, portrait


@pytest.mark.parametrize("place", ["memory", "lite"])
async def test_unmerge_gives_the_graph_of_a_run_without_the_wrong_merge(place: str, tmp_path: Path) -> None:
    folders = [tmp_path / name if place == "lite" else None for name in ("wrong", "right")]
    wrong, right = (lives(folder) for folder in folders)
    for each in (wrong, right):
        await each.begin()
        await each.turn(wrong=each is wrong)
    memory = wrong.mind.memory
    fused = await all_entities(memory)

    wrong.script_summaries()
    report = await memory.unmerge("ann", fused["Tom Orr"].uuid)

    assert "Thomas Reed" not in fused
    assert [each.name for each in report.members] == ["Thomas Reed"]
    assert report.stayed == ()
    assert difference(await portrait(memory), await portrait(right.mind.memory)) == []
    assert (await memory.check("ann")).findings == ()
    for each in (wrong, right):
        await each.mind.memory.close()


async def random_world(chance: random.Random) -> GraphMemory:
    """Return a memory of a made-up world in which the model took some people for one."""
    memory = fake_memory(llm=world_model(), entity_types=[Person])
    for number in range(8):
        text = world_text(chance, f"zq{number}")
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", text, reference_time=MAY + timedelta(days=number))
    return memory


async def nodes(memory: GraphMemory) -> list[Entity]:
    found = [each async for each in memory.objects(ENTITY_COLLECTION, "ann") if isinstance(each, Entity)]
    return sorted(found, key=lambda each: (each.name, each.mention_count))


@pytest.mark.parametrize("seed", range(4))
async def test_what_the_model_fused_in_worlds_made_at_random_comes_apart_without_a_fault(seed: int) -> None:
    memory = await random_world(random.Random(seed))
    fused = [each for each in await nodes(memory) if each.merged_from]

    for each in fused:
        await memory.unmerge("ann", each.uuid)

    assert (await memory.check("ann")).findings == ()
    names = {each.name for each in await nodes(memory)}
    assert names.issuperset(str(record["name"]) for each in fused for record in each.merged_from)  # type: ignore[index, call-overload]
    assert [each for each in await nodes(memory) if each.merged_from] == []


@pytest.mark.parametrize("seed", range(4))
async def test_fusing_and_taking_apart_again_changes_nothing_in_worlds_made_at_random(seed: int) -> None:
    chance = random.Random(seed)
    memory = await random_world(chance)
    for each in await nodes(memory):
        if each.merged_from:
            await memory.unmerge("ann", each.uuid)
    memory.llm_client = None
    before = await portrait(memory)
    first, second, third, fourth = chance.sample([each.uuid for each in await nodes(memory)], 4)

    await memory.merge("ann", first, second, dry_run=False, across_types=True)
    await memory.merge("ann", third, first, fourth, dry_run=False, across_types=True)
    between = await memory.check("ann")
    await memory.unmerge("ann", third)

    assert between.findings == ()
    assert (await memory.check("ann")).findings == ()
    assert difference(await portrait(memory), before) == []


async def test_a_chain_of_merges_comes_apart_into_all_its_members() -> None:
    mind = lives().mind
    for name in ("Ann Aal", "Bea Borg", "Cy Cohn"):
        await mind.learn(
            f"{name} likes tea and {name[:3]} runs.",
            types={name: "Human", "tea": "Entity"},
            said=[(name, "likes", "tea", "Likes tea."), (name, "runs", name, f"{name} runs.")],
            same={"tea": ["tea"]},
        )
    memory = mind.memory
    memory.llm_client = None
    before = await portrait(memory)
    ids = {name: each.uuid for name, each in (await all_entities(memory)).items()}

    await memory.merge("ann", ids["Ann Aal"], ids["Bea Borg"], dry_run=False)
    await memory.merge("ann", ids["Cy Cohn"], ids["Ann Aal"], dry_run=False)
    fused = await all_entities(memory)
    report = await memory.unmerge("ann", ids["Cy Cohn"])

    assert set(fused) == {"Cy Cohn", "tea"}
    assert {each.name: each.uuid for each in report.members} == {name: ids[name] for name in ("Ann Aal", "Bea Borg")}
    assert len(report.restored) == 2
    assert difference(await portrait(memory), before) == []


async def test_a_second_time_nothing_is_left_to_take_apart() -> None:
    life = lives()
    await life.begin()
    memory = life.mind.memory
    ids = {name: each.uuid for name, each in (await all_entities(memory)).items()}
    await memory.merge("ann", ids["Tom Orr"], ids["Thomas Reed"], dry_run=False)
    await memory.unmerge("ann", ids["Tom Orr"])

    for name in ("Tom Orr", "Thomas Reed", "tea"):
        with pytest.raises(NothingFusedError, match="taken apart already"):
            await memory.unmerge("ann", ids[name])


async def test_only_ids_of_the_users_own_entities_can_be_taken_apart() -> None:
    life = lives()
    await life.begin()
    memory = life.mind.memory
    ids = {name: each.uuid for name, each in (await all_entities(memory)).items()}
    await memory.merge("ann", ids["Tom Orr"], ids["Thomas Reed"], dry_run=False)
    before = await portrait(memory)

    for user, uuid in (("ben", ids["Tom Orr"]), ("ann", ids["Thomas Reed"]), ("ann", "0" * 32)):
        with pytest.raises(EntityNotFoundError, match="no entity with the id"):
            await memory.unmerge(user, uuid)
    with pytest.raises(InvalidInputError, match="no id"):
        await memory.unmerge("ann", "")
    assert await portrait(memory) == before


async def test_what_was_learnt_after_the_merge_stays_with_the_kept_entity_and_is_listed() -> None:
    life = lives()
    await life.begin()
    memory = life.mind.memory
    ids = {name: each.uuid for name, each in (await all_entities(memory)).items()}
    await memory.merge("ann", ids["Tom Orr"], ids["Thomas Reed"], dry_run=False)
    await life.learn(
        "Thomas Reed sings. Reed rests.",
        types={"Thomas Reed": "Human"},
        said=[
            ("Thomas Reed", "sings", "Thomas Reed", "Reed sings."),
            ("Thomas Reed", "rests", "Thomas Reed", "Reed rests."),
        ],
        same={"Thomas Reed": ["Tom Orr"]},
    )

    report = await memory.unmerge("ann", ids["Tom Orr"])

    facts, found = await all_facts(memory), await all_entities(memory)
    assert [each.content for each in report.stayed] == ["Reed sings."]
    assert any("stay with 'Tom Orr'" in each for each in report.warnings)
    assert facts["Reed sings."].lhs == ids["Tom Orr"]
    assert (facts["Reed rests."].lhs, facts["Reed rests."].mention_count) == (ids["Thomas Reed"], 2)
    assert (found["Tom Orr"].mention_count, found["Thomas Reed"].mention_count) == (5, 3)
    assert (await memory.check("ann")).findings == ()


async def test_a_fact_that_only_the_wrong_merge_ended_holds_again() -> None:
    life = lives()
    await life.begin()
    await life.turn(wrong=True)
    memory = life.mind.memory
    kept = (await all_entities(memory))["Tom Orr"]
    ended = (await all_facts(memory))["He lives in Lima."]

    report = await memory.unmerge("ann", kept.uuid)

    facts = await all_facts(memory)
    assert ended.superseded_by == [facts["He now lives in Bergen."].uuid]
    assert report.reopened == (ended.uuid,)
    assert (facts["He lives in Lima."].superseded_by, facts["He lives in Lima."].valid_until) == ([], None)
    assert facts["He lives in Oslo."].superseded_by == [facts["He now lives in Bergen."].uuid]
    assert facts["Reed drinks milk."].superseded_by == [facts["Reed now avoids milk."].uuid]


async def test_as_of_a_moment_each_has_his_own_home_again() -> None:
    life = lives()
    await life.begin()
    await life.turn(wrong=True)
    memory = life.mind.memory
    kept = (await all_entities(memory))["Tom Orr"]

    await memory.unmerge("ann", kept.uuid)

    homes = {}
    for year in (2024, 2027):
        held = await memory.triples("ann", predicate="lives in", as_of=datetime(year, 1, 1, tzinfo=UTC))
        homes[year] = {(each.subject, each.object) for each in held}
    assert homes == {
        2024: {("Tom Orr", "Lima"), ("Thomas Reed", "Oslo")},
        2027: {("Tom Orr", "Lima"), ("Thomas Reed", "Bergen")},
    }


async def test_an_episode_deleted_between_merge_and_unmerge_is_gone_for_both() -> None:
    both, alone = lives(), lives()
    for each in (both, alone):
        await each.begin()
        each.mind.memory.llm_client = None
    memory = both.mind.memory
    ids = {name: each.uuid for name, each in (await all_entities(memory)).items()}
    await memory.merge("ann", ids["Tom Orr"], ids["Thomas Reed"], dry_run=False)
    for each in (both, alone):
        episodes = {one.content: one.uuid for one in await all_episodes(each.mind.memory)}
        await each.mind.memory.delete_episode(
            "ann", episodes["Thomas Reed lives in Oslo, drinks milk and knows Tom Orr."]
        )

    report = await memory.unmerge("ann", ids["Tom Orr"])

    assert [each.name for each in report.members] == ["Thomas Reed"]
    assert (await memory.check("ann")).findings == ()
    # Facts of one second make up a summary in the order of their ids, which are random.
    portraits = [await portrait(each.mind.memory, summaries=False) for each in (both, alone)]
    assert difference(*portraits) == []


async def test_a_member_of_which_all_was_deleted_does_not_come_back() -> None:
    life = lives()
    await life.begin()
    memory = life.mind.memory
    ids = {name: each.uuid for name, each in (await all_entities(memory)).items()}
    await memory.merge("ann", ids["Tom Orr"], ids["Thomas Reed"], dry_run=False)
    for each in await all_episodes(memory):
        if "Thomas Reed" in each.content:
            await memory.delete_episode("ann", each.uuid)

    with pytest.raises(NothingFusedError):
        await memory.unmerge("ann", ids["Tom Orr"])

    assert "Reed" not in " ".join(await portrait(memory))


async def test_a_fact_that_was_deleted_after_the_merge_does_not_come_back() -> None:
    life = lives()
    await life.begin()
    memory = life.mind.memory
    ids = {name: each.uuid for name, each in (await all_entities(memory)).items()}
    await memory.merge("ann", ids["Tom Orr"], ids["Thomas Reed"], dry_run=False)
    await memory.delete_relation("ann", (await all_facts(memory))["He likes tea."].uuid)

    report = await memory.unmerge("ann", ids["Tom Orr"])

    assert "He likes tea." not in await all_facts(memory)
    assert report.restored == ()
    assert (await memory.check("ann")).findings == ()


async def test_a_kept_entity_of_which_all_was_deleted_makes_room_for_the_other() -> None:
    life = lives()
    await life.begin()
    memory = life.mind.memory
    ids = {name: each.uuid for name, each in (await all_entities(memory)).items()}
    await memory.merge("ann", ids["Tom Orr"], ids["Thomas Reed"], dry_run=False)
    for each in await all_episodes(memory):
        if "Orr" in each.content:
            await memory.delete_episode("ann", each.uuid)
    (fused,) = [each for each in (await all_entities(memory)).values() if each.obj_type == "Human"]

    report = await memory.unmerge("ann", fused.uuid)

    assert report.kept is None
    assert report.update.removed_entity == {ids["Tom Orr"]}
    assert [each.uuid for each in report.members] == [ids["Thomas Reed"]]
    assert (await memory.check("ann")).findings == ()


async def test_unmerge_waits_for_an_add_of_the_same_user_and_neither_is_lost() -> None:
    life = lives()
    await life.begin()
    memory = life.mind.memory
    ids = {name: each.uuid for name, each in (await all_entities(memory)).items()}
    await memory.merge("ann", ids["Tom Orr"], ids["Thomas Reed"], dry_run=False)
    life.mind.llm.latency = 0.01

    await asyncio.gather(life.learn("Otto slept.", types={"Otto": "Human"}), memory.unmerge("ann", ids["Tom Orr"]))

    assert {"Otto", "Tom Orr", "Thomas Reed"} <= set(await all_entities(memory))
    assert (await memory.check("ann")).findings == ()


async def test_the_model_writes_the_summaries_in_one_question_from_each_ones_own_facts() -> None:
    life = lives()
    await life.begin()
    memory = life.mind.memory
    ids = {name: each.uuid for name, each in (await all_entities(memory)).items()}
    await memory.merge("ann", ids["Tom Orr"], ids["Thomas Reed"], dry_run=False)
    life.mind.llm.prompts.clear()
    life.mind.llm.replies["EntitySummaries"] = by_name({"Tom Orr": "Flies.", "Thomas Reed": "Rests."})

    report = await memory.unmerge("ann", ids["Tom Orr"])

    (prompt,) = life.mind.llm.prompts
    items = prompt.text.split("<items>")[-1].split("</items>")[0].split(f"[{prompt.number('Thomas Reed')}]")
    assert report.usage.calls == 1
    assert ("flies the Heron" in items[0], "Reed rests" in items[0]) == (True, False)
    assert ("flies the Heron" in items[1], "Reed rests" in items[1]) == (False, True)
    assert {each.content for each in (await all_entities(memory)).values()} >= {"Flies.", "Rests."}


async def test_attributes_and_type_come_back_to_whom_they_belong() -> None:
    class Person(BaseModel):
        """A person."""

        job: str = Field(default="", description="What they do")
        town: str = Field(default="", description="Where they live")

    mind = taught(entity_types=[Person])
    told = {"Bo": {"job": "baker"}, "Ida": {"job": "judge", "town": "Turku"}}
    for name, attributes in told.items():
        mind.llm.replies |= {
            "EntityExtraction": {"entities": [{"name": name, "type": "Person" if name == "Bo" else "Human"}]},
            "EntitySummaries": {"1": {"summary": f"{name} works.", "attributes": attributes}},
        }
        await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", f"{name} works.")
    before = await portrait(mind.memory)
    ids = {name: each.uuid for name, each in (await all_entities(mind.memory)).items()}
    mind.memory.llm_client = None

    await mind.memory.merge("ann", ids["Bo"], ids["Ida"], dry_run=False, across_types=True)
    await mind.memory.unmerge("ann", ids["Bo"])

    assert difference(await portrait(mind.memory), before) == []


async def upset(memory: GraphMemory, chance: random.Random) -> None:
    """Merge, take apart or delete something at random."""
    deed = chance.choice(("merge", "merge", "unmerge", "unmerge", "episode", "fact"))
    ids = [each.uuid for each in await nodes(memory)]
    fused = [each.uuid for each in await nodes(memory) if each.merged_from]
    episodes = sorted((each.content, each.uuid) for each in await all_episodes(memory))
    facts = sorted((content, each.uuid) for content, each in (await all_facts(memory)).items())
    if deed == "merge" and len(ids) > 3:
        await memory.merge("ann", *chance.sample(ids, chance.choice((2, 3))), dry_run=False, across_types=True)
    elif deed == "unmerge" and fused:
        with suppress(NothingFusedError):
            await memory.unmerge("ann", chance.choice(fused))
    elif deed == "episode" and len(episodes) > 2:
        await memory.delete_episode("ann", chance.choice(episodes)[1])
    elif deed == "fact" and facts:
        await memory.delete_relation("ann", chance.choice(facts)[1])


@pytest.mark.parametrize("seed", range(4))
async def test_merges_their_ends_and_deletions_in_any_order_leave_a_graph_without_a_fault(seed: int) -> None:
    chance = random.Random(seed)
    memory = await random_world(chance)
    if chance.random() < 0.5:
        memory.llm_client = None

    for _ in range(12):
        await upset(memory, chance)

        assert (await memory.check("ann")).findings == ()


async def test_a_fact_that_had_become_part_of_its_successor_is_not_ended_by_itself() -> None:
    mind = taught()
    for place in ("Lima", "Oslo"):
        await mind.learn(
            f"Ann now lives in {place}.",
            types={"Ann": "Human", place: "Entity"},
            said=[("Ann", "lives in", place, "Ann now lives there.")],
            same={"Ann": ["Ann"]},
            contradicts={"Ann now lives": ["Ann now lives"]},
            reference_time=MAY if place == "Lima" else MAY + timedelta(days=1),
        )
    memory = mind.memory
    before = await portrait(memory, summaries=False)
    ids = {name: each.uuid for name, each in (await all_entities(memory)).items()}
    await memory.merge("ann", ids["Oslo"], ids["Lima"], dry_run=False)

    await memory.unmerge("ann", ids["Oslo"])

    assert (await memory.check("ann")).findings == ()
    assert difference(await portrait(memory, summaries=False), before) == []
