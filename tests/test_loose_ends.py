"""Facts that are folded, dropped or dated anew by an add: whatever named them follows, and the check finds nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from jiuwen_memory import RELATION_COLLECTION, EpisodeType, GraphConfig, GraphStoreStorageConfig, Relation
from jiuwen_memory.memory_core.graph.graph_memory.audit import CheckReport
from jiuwen_memory.testing import FakePrompt
from tests.memory_support import Fact, Taught, all_entities, all_relations, entities, facts, taught

WHO = {"Ida": "Human", "Oslo": "Entity", "Bergen": "Entity"}
OSLO: Fact = ("Ida", "lives in", "Oslo", "Ida lives in Oslo.")
BERGEN: Fact = ("Ida", "lives in", "Bergen", "Ida lives in Bergen.")
TOM: Fact = ("Tom", "likes", "Tea", "He likes tea.")
THOMAS: Fact = ("Thomas", "likes", "Tea", "He likes tea.")
HATES: Fact = ("Thomas", "hates", "Tea", "Thomas hates tea.")
TEA_OF_TOM = {"Tom": "Human", "Tea": "Entity"}
TEA_OF_THOMAS = {"Thomas": "Human", "Tea": "Entity"}


async def learn(mind: Taught, text: str, **said: Any) -> None:
    """Teach a text of the one session in which equal names are the same."""
    await mind.learn(text, session_id="s", **said)


async def fuse(mind: Taught) -> None:
    """Let Tom and Thomas turn out to be one; the one who was named more often stays."""
    await learn(mind, "Tommy.", types={"Tommy": "Human"}, same={"Tommy": ["Tom (", "Tom Orr", "Thomas"]})


async def checked(mind: Taught) -> CheckReport:
    return await mind.memory.check("ann")


async def periods(mind: Taught, fact: Fact) -> list[tuple[int | None, int | None]]:
    """Return the years in which a fact begins and ends, once for each time that it held."""
    found = [each async for each in mind.memory.objects(RELATION_COLLECTION, "ann") if isinstance(each, Relation)]
    spans = [(year(each.valid_since), year(each.valid_until)) for each in found if each.content == fact[3]]
    return sorted(spans, key=lambda span: span[0] or 0)


def year(seconds: int | None) -> int | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).year


async def test_a_beginning_that_is_learnt_later_than_the_end_it_follows_begins_a_period_of_its_own() -> None:
    mind = taught()
    await learn(mind, "Ida lives in Oslo 2022.", types=WHO, said=[OSLO], until="2021")

    await learn(mind, "Again: Ida lives in Oslo since 2022.", types=WHO, said=[OSLO], since="2022")

    report = await checked(mind)
    assert report.is_clean, report
    assert await periods(mind, OSLO) == [(None, 2021), (2022, None)]


async def test_what_a_fact_superseded_ends_when_the_beginning_of_that_fact_becomes_known() -> None:
    mind = taught()
    await learn(mind, "Ida lives in Oslo.", types=WHO, said=[OSLO])
    await learn(mind, "Ida now lives in Bergen.", types=WHO, said=[BERGEN], contradicts={BERGEN[3]: [OSLO[3]]})

    await learn(mind, "Ida lives in Bergen since 2023.", types=WHO, said=[BERGEN], since="2023")

    report, stored = await checked(mind), await all_relations(mind.memory)
    assert report.is_clean, report
    assert stored[OSLO[3]].valid_until == stored[BERGEN[3]].valid_since is not None


async def test_a_beginning_younger_than_what_superseded_a_fact_begins_a_period_of_its_own() -> None:
    mind = taught()
    await learn(mind, "Ida lives in Oslo.", types=WHO, said=[OSLO])
    await learn(
        mind,
        "Ida now lives in Bergen since 2020.",
        types=WHO,
        said=[BERGEN],
        since="2020",
        contradicts={BERGEN[3]: [OSLO[3]]},
    )

    await learn(mind, "Ida lives in Oslo since 2022.", types=WHO, said=[OSLO], since="2022")

    report = await checked(mind)
    assert report.is_clean, report
    assert await periods(mind, OSLO) == [(None, 2020), (2022, None)]


async def test_the_other_end_of_facts_that_a_fusion_makes_one_lists_only_the_one() -> None:
    mind = taught()
    await learn(mind, "Tom likes tea.", types=TEA_OF_TOM, said=[TOM])
    await learn(mind, "Thomas likes tea.", types=TEA_OF_THOMAS, said=[THOMAS])

    await fuse(mind)

    report, nodes = await checked(mind), await all_entities(mind.memory)
    assert report.is_clean, report
    assert nodes["Tea"].relations == [each.uuid for each in (await all_relations(mind.memory)).values()]


async def test_the_other_end_of_a_fact_that_a_fusion_drops_does_not_list_it() -> None:
    mind = taught()
    for text in ("Tom Orr sang.", "Tom Orr sang again."):
        await learn(mind, text, types={"Tom Orr": "Human"})
    sang, slept = (
        ("Thomas", "sang at", "Molde", "Thomas sang at Molde."),
        ("Thomas", "slept", "Thomas", "Thomas slept."),
    )
    both = {"Thomas": "Human", "Molde": "Entity"}
    await learn(mind, "Thomas sang at Molde and slept.", types=both, said=[sang, slept])
    mind.llm.replies["RelevantFacts"] = lambda prompt: {"relevant": [prompt.number("Thomas slept")]}

    await fuse(mind)

    report, nodes = await checked(mind), await all_entities(mind.memory)
    assert report.is_clean, report
    assert nodes["Molde"].relations == []
    assert set(await all_relations(mind.memory)) == {slept[3]}


async def test_a_fact_stays_superseded_when_a_fusion_folds_what_superseded_it_into_its_twin() -> None:
    mind = taught()
    await learn(mind, "Tom likes tea.", types=TEA_OF_TOM, said=[TOM])
    for text in ("Tom.", "Tom again."):
        await learn(mind, text, types={"Tom": "Human"})
    await learn(mind, "Thomas hates tea.", types=TEA_OF_THOMAS, said=[HATES])
    against = {THOMAS[3]: [HATES[3]]}
    await learn(mind, "Thomas now likes tea.", types=TEA_OF_THOMAS, said=[THOMAS], contradicts=against)

    await fuse(mind)

    report, stored = await checked(mind), await all_relations(mind.memory)
    assert report.is_clean, report
    assert stored[HATES[3]].superseded_by == [stored[TOM[3]].uuid]


async def test_a_link_goes_on_to_the_fact_that_a_fusion_folds_its_end_into() -> None:
    def links(prompt: FakePrompt) -> dict[str, object]:
        link = {"id": prompt.number("Thomas sings"), "kind": "elaborates"}
        item = {"id": prompt.number("He likes tea"), "same": [], "contradicts": [], "links": [link]}
        return {"verdicts": [item]}

    mind = taught()
    sings: Fact = ("Thomas", "sings", "Thomas", "Thomas sings.")
    await learn(mind, "Tom likes tea.", types=TEA_OF_TOM, said=[TOM])
    for text in ("Tom.", "Tom again."):
        await learn(mind, text, types={"Tom": "Human"})
    await learn(mind, "Thomas sings.", types={"Thomas": "Human"}, said=[sings])
    mind.llm.replies["RelationVerdicts"] = links
    mind.llm.replies["RelationExtraction"] = facts(THOMAS)
    mind.llm.replies["EntityExtraction"] = entities(TEA_OF_THOMAS)
    await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "Thomas likes tea.", session_id="s")

    await fuse(mind)

    report, stored = await checked(mind), await all_relations(mind.memory)
    (link,) = (await all_relations(mind.memory, kind="elaborates")).values()
    assert report.is_clean, report
    assert {link.lhs, link.rhs} == {stored[TOM[3]].uuid, stored[sings[3]].uuid}


async def test_older_episodes_than_a_fused_entity_can_list_keep_its_id_which_the_check_reports_and_mends() -> None:
    storage = GraphStoreStorageConfig(episodes=2)
    mind = taught(config=GraphConfig(uri="loose", backend="memory", embed_dim=64, db_storage_config=storage))
    for number in range(4):
        await learn(mind, f"Tom, text {number}.", types={"Tom": "Human"})
    for number in range(3):
        await learn(mind, f"Thomas, text {number}.", types={"Thomas": "Human"})

    await fuse(mind)
    found = await checked(mind)
    await mind.memory.check("ann", repair=True)

    assert {each.collection for each in found.findings} <= {"EPISODE_COLLECTION"}
    assert (await checked(mind)).is_clean


async def test_a_superseded_fact_that_a_later_text_only_passes_by_stays_superseded() -> None:
    mind = taught()
    oslo = ("Ida", "lives in", "Oslo", "Ida lives in Oslo.")
    bergen = ("Ida", "lives in", "Bergen", "Ida lives in Bergen.")
    chess = ("Ida", "plays", "Chess", "Ida plays chess.")
    people = {"Ida": "Human", "Oslo": "Entity", "Bergen": "Entity", "Chess": "Entity"}
    await mind.learn("Ida lives in Oslo.", types=people, said=[oslo])
    await mind.learn("Ida now lives in Bergen.", types=people, said=[bergen], contradicts={bergen[3]: [oslo[3]]})

    await mind.learn("Ida plays chess.", types=people, said=[chess])

    relations = await all_relations(mind.memory)
    assert relations[oslo[3]].superseded_by == [relations[bergen[3]].uuid]
    assert relations[oslo[3]].expired_at is not None
