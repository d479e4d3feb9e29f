"""Qualifiers of facts: found by words and meaning, filtered by, shown to the model, kept apart by their time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from jiuwen_memory import (
    RELATION_COLLECTION,
    AddMemStrategy,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    Relation,
    RelationDef,
    SearchConfig,
)
from jiuwen_memory.foundation.store.graph import BaseGraphObject
from jiuwen_memory.foundation.store.query import qualifier
from jiuwen_memory.foundation.timepoint import Timepoint, from_datetime, resolve_time
from jiuwen_memory.integrations.findings import findings
from jiuwen_memory.testing import FakeEmbedder, fake_memory
from tests.memory_support import MAY, all_episodes, all_relations, entities, model_of

TOLD = "In March 2024 Ida was afraid. In Wells she saw the dentist."
EPISODIC = AddMemStrategy(extraction="episodic", chinese_entity=False)


def visit(place: str, *, time: str | None = None, emotion: str | None = None) -> dict[str, Any]:
    given = {"place": place, "time": time, "emotion": emotion}
    qualifiers = [{"key": key, "value": value} for key, value in given.items() if value]
    return {
        "fact": "Ida saw the dentist.",
        "subject": "Ida",
        "predicate": "saw",
        "object": "the dentist",
        "qualifiers": qualifiers,
    }


async def told(memory: GraphMemory, *facts: dict[str, Any], text: str) -> None:
    model_of(memory).replies["EpisodicFacts"] = {"entities": [], "facts": list(facts)}
    await memory.add_memory(EpisodeType.DOCUMENT, "ann", text, reference_time=MAY)


def _place(found: BaseGraphObject) -> object:
    assert isinstance(found, Relation)
    return found.qualifiers["place"]


@pytest.mark.parametrize("backend", ["memory", "milvus"])
async def test_a_search_can_keep_to_a_qualifier(backend: str, tmp_path: Path) -> None:
    config = GraphConfig(uri=str(tmp_path / "q.db"), backend=backend, embed_dim=64)
    async with fake_memory(config=config, embedder=FakeEmbedder(64), strategy=EPISODIC) as memory:
        await told(memory, visit("Wells", time="in March 2024"), text="In March 2024 Ida saw the dentist in Wells.")
        await told(memory, visit("Bath", time="in May 2025"), text="In May 2025 Ida saw the dentist in Bath.")
        for name, condition in {
            "wells": qualifier("place", "Wells"),
            "late": qualifier("time", "2025", operator=">="),
        }.items():
            memory.register_search_strategy(name, search_relation=SearchConfig(filter_expr=condition))

        wells = await memory.search("Ida dentist", "ann", "wells", entity=False, episode=False)
        late = await memory.search("Ida dentist", "ann", "late", entity=False, episode=False)

    places = [[_place(each) for _, each in found[RELATION_COLLECTION]] for found in (wells, late)]
    assert places == [["Wells"], ["Bath"]]


async def test_the_same_words_of_another_time_are_another_event_and_of_the_same_time_one() -> None:
    memory = fake_memory(strategy=EPISODIC)
    await told(memory, visit("Wells", time="in March 2024"), text="In March 2024 Ida saw the dentist in Wells.")
    await told(memory, visit("Wells", time="in March 2024"), text="Ida: dentist in Wells in March 2024, painful.")
    await told(memory, visit("Wells", time="in May 2025"), text="In May 2025 Ida saw the dentist in Wells.")

    found = [each async for each in memory.objects(RELATION_COLLECTION, "ann") if isinstance(each, Relation)]

    counted = sorted((str(each.qualifiers["time"]), each.mention_count) for each in found)
    assert counted == [("2024-03", 2), ("2025-05", 1)]
    assert (await memory.check("ann")).is_clean


class Ran(RelationDef):
    """A race somebody ran."""

    name = "ran"
    time: int | None = Field(default=None, description="seconds it took")
    laps: list[str] = Field(default_factory=list)


class Raced(RelationDef):
    """A race with a time for each lap."""

    name = "ran"
    time: list[str] = Field(default_factory=list, description="the time of each lap")


@pytest.mark.parametrize(("kind", "taken"), [(Ran, 42), (Raced, ["20 s", "22 s"])], ids=["seconds", "laps"])
async def test_a_time_of_the_users_type_is_not_when_the_fact_holds(kind: type[RelationDef], taken: Any) -> None:
    memory = fake_memory(strategy=AddMemStrategy(chinese_entity=False), relation_types=[kind])
    said: dict[str, Any] = {
        "fact": "Ida ran the mile.",
        "name": "ran",
        "source": "Ida",
        "target": "mile",
        "valid_since": "2024-05-01",
    }
    model_of(memory).replies["EntityExtraction"] = entities({"Ida": "Human", "mile": "Entity"})
    model_of(memory).replies["RelationExtraction"] = {"relations": [{**said, "attributes": {"time": taken}}]}

    await memory.add_memory(EpisodeType.DOCUMENT, "ann", "On 2024-05-01 Ida ran the mile.")

    (fact,) = (await all_relations(memory)).values()
    assert fact.qualifiers == {"time": taken}
    assert fact.valid_since == 1_714_521_600


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"place": "Wells"}, {"place": "Wells"}),
        ([{"Key": "Place", "Value": "Wells"}], {"place": "Wells"}),
        ('{"place": "Wells"}', {"place": "Wells"}),
        ('[{"key": "place", "value": "Wells"}]', {"place": "Wells"}),
        (["place: Wells", "emotion：afraid"], {"place": "Wells", "emotion": "afraid"}),
        ("place: Wells", {"place": "Wells"}),
        ([["place", "Wells"]], {"place": "Wells"}),
        ({"place": ["Wells", None, "Bath"]}, {"place": "Wells, Bath"}),
        ({"地点": "韦尔斯", "情绪": "害怕", "天气": "雨"}, {"place": "韦尔斯", "emotion": "害怕", "天气": "雨"}),
        ({"pain": 3, "sure": False}, {"pain": 3, "sure": False}),
        ({"place": "unknown", "emotion": None, "intent": [], "pain": {}}, {}),
        (None, {}),
    ],
    ids=str,
)
async def test_qualifiers_are_read_as_models_write_them(given: Any, kept: dict[str, Any]) -> None:
    memory = fake_memory(strategy=EPISODIC)
    said = {**visit("x"), "qualifiers": given}
    model_of(memory).replies["EpisodicFacts"] = {"entities": [], "facts": [said]}

    update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Ida was afraid. In Wells she saw the dentist.")

    assert update.added_relation[0].qualifiers == kept
    assert update.warnings == []


@pytest.mark.parametrize(
    "given",
    [
        {"place": {"city": "Wells"}},
        "in Wells",
        {"": "Wells"},
        [{"value": "Wells"}],
        {f"key{number}": number for number in range(9)},
        [{"key": "place", "value": "Wells"}, {"key": "location", "value": "Bath"}],
    ],
    ids=["a structure", "words without a key", "no key", "no key in a list", "too many", "another value of a key"],
)
async def test_a_qualifier_that_is_left_out_is_told(given: Any) -> None:
    memory = fake_memory(strategy=EPISODIC)
    said = {**visit("x"), "qualifiers": given}
    model_of(memory).replies["EpisodicFacts"] = {"entities": [], "facts": [said]}

    update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Ida saw the dentist in Wells and Bath.")

    assert len(update.added_relation) == 1
    (warning,) = update.warnings
    assert "no qualifier" in warning


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        ("in March 2024", "in March 2024", "2024-03"),
        ("yesterday", "yesterday", "2026-05-07"),
        ("from 2019 to 2021", "from 2019 to 2021", "2019/2021"),
        ("in March 2024", None, None),
    ],
)
async def test_a_computed_time_stays_with_its_beginning_when_one_of_two_texts_is_deleted(
    first: str, second: str | None, left: str | None
) -> None:
    memory = fake_memory(strategy=EPISODIC)
    await told(memory, visit("Wells", time=first), text=f"{first}: Ida saw the dentist in Wells.")
    await told(memory, visit("Wells", time=second), text=f"In Wells Ida saw the dentist {second or 'again'}.")
    (episode, _) = sorted(await all_episodes(memory), key=lambda each: "In Wells" in each.content)

    await memory.delete_episode("ann", episode.uuid)

    (fact,) = (await all_relations(memory)).values()
    assert fact.qualifiers == {"place": "Wells"} | ({"time": left} if left else {})
    assert (fact.valid_since is None) == (left is None)
    assert (await memory.check("ann")).is_clean


async def test_what_else_was_said_of_a_fact_is_shown_where_it_is_found() -> None:
    memory = fake_memory(strategy=EPISODIC)
    await told(memory, visit("Wells", time="in March 2024", emotion="afraid"), text=TOLD)

    found = await memory.search("Ida dentist", "ann", entity=False)

    assert "- Ida saw the dentist. (place: Wells; emotion: afraid) (since March 2024)" in found.to_prompt()
    (shown,) = (each for each in findings(found) if each.kind == "fact")
    assert shown.text == "Ida saw the dentist. (place: Wells; emotion: afraid)"


@pytest.mark.parametrize("time", [2024, 2024.0, "2024", ["2024"]], ids=repr)
async def test_a_year_given_as_a_number_says_when(time: Any) -> None:
    memory = fake_memory(strategy=AddMemStrategy(extraction="temporal", chinese_entity=False))
    said = {**visit("x"), "qualifiers": [], "time": time}
    model_of(memory).replies["TemporalFacts"] = {"entities": [], "facts": [said]}

    update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Ida saw the dentist in 2024.")

    (fact,) = update.added_relation
    assert (fact.qualifiers, fact.since) == ({"time": "2024"}, resolve_time("2024", MAY))


async def test_a_repeat_adds_the_qualifiers_that_were_not_known() -> None:
    memory = fake_memory(strategy=EPISODIC)
    await told(memory, visit("Wells"), text="Ida saw the dentist in Wells.")
    await told(memory, visit("Bath", emotion="afraid"), text="Ida was afraid in Bath. Ida saw the dentist.")

    (fact,) = (await all_relations(memory)).values()

    assert fact.qualifiers == {"place": "Wells", "emotion": "afraid"}
    assert (await memory.check("ann")).is_clean


def test_what_a_sentence_does_not_say_is_embedded_with_it_and_found_by_words() -> None:
    fact = Relation(
        name="saw",
        content="Ida saw the dentist in Wells.",
        lhs="1",
        rhs="2",
        qualifiers={"place": "wells", "emotion": "afraid", "time": "2024-03", "count": 2, "list": ["x"], "sure": True},
    )

    assert fact.embedded_texts() == {"content_embedding": "Ida saw the dentist in Wells. (emotion: afraid; count: 2)"}
    assert {"afraid", "2024", "03"} <= set(fact.search_text.split())
    assert fact.content_text == "Ida saw the dentist in Wells."
    assert "afraid" in str(fact)


async def test_qualifiers_are_shown_where_facts_are_shown_to_the_model() -> None:
    memory = fake_memory(strategy=EPISODIC)

    await told(memory, visit("Wells", emotion="afraid"), text="Ida saw the dentist in Wells, afraid.")

    assert "Ida saw the dentist. (place: Wells; emotion: afraid)" in model_of(memory).asked("EntitySummaries")[0].text


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("2024", "2024"),
        ("March 2024", "2024-03"),
        ("15 March 2024", "2024-03-15"),
        ("2024-03-15T09:30", "2024-03-15T09:30+00:00"),
        ("2024-03-15T09:30:05+02:00", "2024-03-15T09:30:05+02:00"),
        ("the week of 13 March 2024", "2024-03-11"),
        ("in the 1990s", "1990"),
        ("2024年春天", "2024-03"),
    ],
)
def test_a_time_is_written_in_iso_only_as_exactly_as_it_was_said(words: str, written: str) -> None:
    point = resolve_time(words, MAY)

    assert point is not None and point.short_iso() == written


def test_a_moment_of_the_clock_is_written_whole() -> None:
    assert from_datetime(MAY).short_iso() == "2026-05-08T09:30:00+00:00"
    assert Timepoint(0, 0, "year").short_iso() == "1970"
