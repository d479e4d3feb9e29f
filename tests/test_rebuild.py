"""Reading stored episodes again: ids kept, other answers, other strategies, and what is told apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import BaseModel

from jiuwen_memory import AddMemStrategy, EntityDef, EpisodeType, GraphMemory
from jiuwen_memory.errors import InvalidInputError, ModelNotFoundError
from jiuwen_memory.memory_core.graph.extraction.base import Words
from jiuwen_memory.testing import FakeLLM, fake_memory
from jiuwen_memory.testing.llm import Answer, FakePrompt
from tests.memory_support import all_entities, all_episodes, all_relations, entities, facts, problems
from tests.rebuild_support import (
    STATEMENT,
    TEXTS,
    documents,
    filled,
    ids,
    pictured,
    scripted,
    stated_otherwise,
    statements,
)


async def test_reading_the_same_again_changes_nothing_and_keeps_all_ids() -> None:
    memory, _ = await filled()
    picture, known = await pictured(memory), await ids(memory)

    report = await memory.rebuild("ann")

    assert (report.progress.total, report.progress.done, report.progress.failed, report.progress.kept) == (4, 4, 0, 0)
    assert await pictured(memory) == picture
    assert await ids(memory) == known
    assert await problems(memory) == []
    assert (await memory.check("ann")).is_clean


async def test_what_a_better_model_says_replaces_what_was_learnt_and_entities_keep_their_ids() -> None:
    memory, llm = await filled()
    known = await ids(memory)
    llm.replies["RelationExtraction"] = stated_otherwise

    await memory.rebuild("ann")

    found = await all_relations(memory)
    assert sorted(found) == [
        "It is Ann who knows Tom.",
        "It is Ann who lives-in Bergen.",
        "It is Bob who knows Ann.",
        "It is Bob who lives-in Rome.",
        "It is Tom who lives-in Oslo.",
    ]
    assert found["It is Tom who lives-in Oslo."].mention_count == 2
    assert not any("likes" in each.content for each in (await all_entities(memory)).values())
    now = await ids(memory)
    assert {name: now[name] for name in ("Tom", "Ann", "Bob", "Oslo", *TEXTS)} == {
        name: known[name] for name in ("Tom", "Ann", "Bob", "Oslo", *TEXTS)
    }
    assert await problems(memory) == []
    assert (await memory.check("ann")).is_clean


async def test_texts_are_read_in_the_order_of_their_time() -> None:
    llm = scripted()
    memory = fake_memory(llm=llm)
    for item in reversed(documents()):
        await memory.add_memories([item])
    before = len(llm.asked("EntityExtraction"))

    await memory.rebuild("ann")

    read = [statements(prompt) for prompt in llm.asked("EntityExtraction")[before:]]
    assert read == [STATEMENT.findall(text) for text in TEXTS]


async def test_a_graph_rebuilt_from_nothing_is_that_of_adding_with_the_other_strategy() -> None:
    memory, llm = await filled()
    other = fake_memory(llm=llm, strategy=AddMemStrategy(chinese_entity=False, max_co_occurs=2))
    await other.add_memories(documents())

    await memory.rebuild("ann", clear_first=True, strategy=AddMemStrategy(chinese_entity=False, max_co_occurs=2))

    assert await pictured(memory) == await pictured(other)
    kinds = [len(await all_relations(each, kind="co_occurs")) for each in (memory, other)]
    assert kinds[0] == kinds[1] > 0


async def test_another_strategy_or_another_name_reads_all_of_it_again() -> None:
    memory, _llm = await filled()
    await memory.rebuild("ann")

    same = await memory.rebuild("ann")
    other = await memory.rebuild("ann", strategy=AddMemStrategy(chinese_entity=False, summary_target=100))
    again = await memory.rebuild("ann", run="with the new model")

    assert [each.progress.kept for each in (same, other, again)] == [4, 0, 0]


async def test_clearing_first_leaves_nothing_of_the_old_graph() -> None:
    fresh, _llm = await filled()
    memory, _ = await filled()
    (oslo,) = [each for name, each in (await all_entities(memory)).items() if name == "Oslo"]
    (tom,) = [each for name, each in (await all_entities(memory)).items() if name == "Tom"]
    await memory.merge("ann", tom.uuid, oslo.uuid, dry_run=False)

    report = await memory.rebuild("ann", clear_first=True)

    assert report.progress.kept == 0
    assert await pictured(memory) == await pictured(fresh)
    assert (await memory.check("ann")).is_clean


async def test_the_spine_and_links_between_close_names_stay() -> None:
    memory = fake_memory(llm=scripted(), strategy=AddMemStrategy(chinese_entity=False, temporal_spine=True))
    await memory.add_memories(documents())
    await memory.link_synonyms("ann", min_similarity=0.01, top_k=1)
    links = {each.uuid for each in await memory.synonyms("ann")}
    spine = {each.uuid for each in (await all_relations(memory, kind="temporal_next")).values()}
    assert links and len(spine) == 3

    await memory.rebuild("ann")

    assert {each.uuid for each in await memory.synonyms("ann")} == links
    assert {each.uuid for each in (await all_relations(memory, kind="temporal_next")).values()} == spine


async def test_close_names_are_linked_while_reading_again_if_the_strategy_says_so() -> None:
    memory, _ = await filled()
    strategy = AddMemStrategy(chinese_entity=False, link_synonyms=True, skip_uuid_dedupe=True)
    heard: list[str] = []

    await memory.rebuild("ann", strategy=strategy, on_progress=lambda progress: heard.append(str(progress)))

    assert heard[-1].startswith("4/4 (0 failed, 0 read before), ")
    assert (await memory.check("ann")).is_clean


async def test_gists_are_made_anew_or_go() -> None:
    memory, _ = await filled(strategy=AddMemStrategy(chinese_entity=False, extraction="episodic_gist"))
    before = [each.content for each in await all_episodes(memory) if each.is_gist]
    assert len(before) == 4

    await memory.rebuild("ann")
    again = [each.content for each in await all_episodes(memory) if each.is_gist]
    await memory.rebuild("ann", strategy=AddMemStrategy(chinese_entity=False))

    assert sorted(again) == sorted(before)
    assert all(not each.is_gist for each in await all_episodes(memory))
    assert len(await all_episodes(memory)) == 4
    assert (await memory.check("ann")).is_clean


async def test_triples_become_facts_with_gists_when_read_from_scratch_in_that_way() -> None:
    triples = AddMemStrategy(chinese_entity=False, extraction="openie")
    memory, _ = await filled(strategy=triples)
    known, before = await ids(memory), await memory.stats("ann")

    with_gists = AddMemStrategy(chinese_entity=False, extraction="episodic_gist")
    report = await memory.rebuild("ann", clear_first=True, strategy=with_gists)

    after = await memory.stats("ann")
    assert (report.progress.done, report.progress.failed) == (4, 0)
    assert (dict(before.episodes), before.relations["fact"]) == ({"DOCUMENT": 4}, 7)
    assert (dict(after.episodes), after.relations["fact"]) == ({"DOCUMENT": 4, "GIST": 4}, 7)
    assert (sum(before.entities.values()), sum(after.entities.values()), after.gist_links) == (7, 7, 4)
    assert "Tom lives-in Oslo" in known and "Tom lives-in Oslo." in await all_relations(memory)
    assert {text: (await ids(memory))[text] for text in TEXTS} == {text: known[text] for text in TEXTS}
    assert (await memory.check("ann")).is_clean


class Person(EntityDef):
    """Somebody with a trade."""

    name = "Human"
    description = Words(en="a person", cn="人物")
    trade: str | None = None


async def test_what_one_of_two_texts_says_in_other_words_is_still_known_after_both_were_read_again() -> None:
    texts = ("Ida was scared when she met Bo, who built houses.", "Ida met Bo.")

    def stated_of(prompt: FakePrompt) -> Answer:
        is_first = texts[0] in prompt.text[prompt.text.rindex("<text>") :]
        how = [{"key": "emotion", "value": "afraid"}] if is_first else []
        fact = {"fact": "Ida met Bo.", "subject": "Ida", "predicate": "met", "object": "Bo", "qualifiers": how}
        return {"entities": [{"name": name, "type": "Human"} for name in ("Ida", "Bo")], "facts": [fact]}

    def described(prompt: FakePrompt) -> Answer:
        trades = {prompt.number("Bo"): "mason"} if texts[0] in prompt.text else {}
        return {
            str(number): {"summary": "Known.", "attributes": {"trade": trades.get(number)}} for number in prompt.lines()
        }

    llm = FakeLLM({"EpisodicFacts": stated_of, "EntitySummaries": described})
    strategy = AddMemStrategy(chinese_entity=False, extraction="episodic")
    memory = fake_memory(llm=llm, strategy=strategy, entity_types=[Person])
    for day, text in enumerate(texts, start=1):
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", text, reference_time=datetime(2026, 5, day, tzinfo=UTC))

    await memory.rebuild("ann")

    (fact,) = (await all_relations(memory)).values()
    assert (fact.mention_count, fact.qualifiers) == (2, {"emotion": "afraid"})
    assert {each.content for each in (await all_entities(memory)).values()} == {"Known."}
    assert {name: each.attributes for name, each in (await all_entities(memory)).items()} == {
        "Ida": {},
        "Bo": {"trade": "mason"},
    }
    assert (await memory.check("ann")).is_clean


class Place(BaseModel):
    """A place."""


class Placed(BaseModel):
    """A place."""

    country: str | None = None


class Town(EntityDef):
    """A place of which another description is given."""

    name = "Place"
    description = Words(en="a town", cn="城镇")


Placed.__name__ = "Place"


@pytest.mark.parametrize(
    "changed",
    [{"entity_types": [Placed]}, {"entity_types": [Town]}, {"entity_types": [Place], "closed_types": True}],
    ids=["another field", "another description", "a closed set"],
)
async def test_other_types_of_the_same_names_read_all_of_it_again(changed: dict[str, Any]) -> None:
    memory, llm = await filled(entity_types=[Place])
    await memory.rebuild("ann")
    other = GraphMemory(memory.config, llm, extraction_strategy=memory.extraction_strategy, language="en", **changed)
    assert memory.embedder is not None
    other.attach_embedder(memory.embedder)

    same = await memory.rebuild("ann")
    again = await other.rebuild("ann")

    assert (same.progress.kept, again.progress.kept) == (4, 0)


@pytest.mark.parametrize(
    "moment",
    [
        datetime.min.replace(tzinfo=timezone(timedelta(hours=8))),
        datetime.max.replace(microsecond=0, tzinfo=timezone(timedelta(hours=-8))),
    ],
    ids=["first", "last"],
)
async def test_a_text_from_an_edge_of_the_calendar_is_read_again_and_counted(moment: datetime) -> None:
    memory = fake_memory(llm=scripted())
    await memory.add_memory(EpisodeType.DOCUMENT, "ann", TEXTS[0], reference_time=moment)
    picture = await pictured(memory)

    report = await memory.rebuild("ann")

    (told, *_) = await memory.triples("ann")
    found = await memory.stats("ann")
    assert not report.failed
    assert await pictured(memory) == picture
    assert found.since == found.until == told.first_mentioned == moment.replace(tzinfo=UTC)


async def test_speakers_are_people_and_assistants_again_after_clearing() -> None:
    memory = fake_memory(
        {
            "EntityExtraction": entities({"Kim": "Entity", "Robo": "Entity"}),
            "RelationExtraction": facts(("Kim", "asks", "Robo", "Kim asks Robo.")),
        }
    )
    messages = [{"role": "user", "content": "May I ask?"}, {"role": "assistant", "content": "Yes."}]
    await memory.add_memory(EpisodeType.CONVERSATION, "ann", messages, {"user": "Kim", "assistant": "Robo"})
    before = {name: each.obj_type for name, each in (await all_entities(memory)).items()}
    assert before == {"Kim": "Human", "Robo": "AI"}

    await memory.rebuild("ann", clear_first=True)

    assert {name: each.obj_type for name, each in (await all_entities(memory)).items()} == before


async def test_a_fact_deleted_by_hand_comes_back_and_a_merge_of_what_stays_is_kept() -> None:
    memory, _ = await filled()
    known = await all_entities(memory)
    await memory.merge("ann", known["Ann"].uuid, known["Bob"].uuid, dry_run=False)
    deleted = (await all_relations(memory))["Tom likes tea."]
    await memory.delete_relation("ann", deleted.uuid)

    await memory.rebuild("ann")

    assert "Tom likes tea." in await all_relations(memory)
    assert (await memory.check("ann")).is_clean


async def test_what_cannot_be_rebuilt_is_refused() -> None:
    memory, _ = await filled()
    mute = GraphMemory(memory.config, language="en")
    mute.attach_embedder(memory.embedder)  # type: ignore[arg-type]

    with pytest.raises(InvalidInputError):
        await memory.rebuild("")
    with pytest.raises(InvalidInputError):
        await memory.rebuild("ann", strategy="staged")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="run is 2"):
        await memory.rebuild("ann", run=2)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="on_progress"):
        await memory.rebuild("ann", on_progress="print")  # type: ignore[arg-type]
    with pytest.raises(ModelNotFoundError):
        await mute.rebuild("ann")


async def test_nothing_of_another_user_changes() -> None:
    memory, llm = await filled()
    await memory.add_memories(documents("bob"))
    llm.replies["RelationExtraction"] = stated_otherwise

    await memory.rebuild("bob", clear_first=True)

    assert "Tom likes tea." in await all_relations(memory, "ann")
    assert "Tom likes tea." not in await all_relations(memory, "bob")
