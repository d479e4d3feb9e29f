"""The judging questions: pairs, batches, guards, and what happens without an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from jiuwen_memory.errors import LLMAnswerError, LLMCallError
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import EntityDef
from jiuwen_memory.memory_core.graph.extraction.questions import (
    ask_entity_duplicates,
    ask_relation_filter,
    ask_relation_verdicts,
    ask_summaries,
    ask_timezone,
)
from jiuwen_memory.memory_core.graph.extraction.values import (
    Described,
    DuplicateCase,
    FilterCase,
    Summary,
    SummaryCase,
    Verdict,
    VerdictCase,
)
from tests.extraction_support import TALK, ScriptedModel, asker_for

HOLT = Described("Mira Holt", "Human", "keeps bees")
YARD = Described("Fern Yard", "Entity")
DOWN = ConnectionError("no route")


def duplicate_cases(count: int, *, assumed: tuple[int, ...] = ()) -> list[DuplicateCase]:
    return [DuplicateCase(Described(f"New {number}", "Human"), (HOLT, YARD), assumed) for number in range(count)]


async def test_items_and_candidates_stand_numbered_one_a_line() -> None:
    model = ScriptedModel([{"duplicates": [{"id": 1, "same": [2]}]}])
    case = DuplicateCase(Described("Mira", "Human", aliases=("Mimi",)), (HOLT, YARD))

    answer = await ask_entity_duplicates(TALK, [case], language="en", judge_items=20, asker=asker_for(model))

    assert answer == [(0,)]
    lines = model.prompt().splitlines()
    assert "[1] Mira (Human, Mimi): user: I am Mira Holt and I keep bees at Fern Yard." in lines
    assert "[2] Mira Holt (Human): keeps bees" in lines
    assert "[3] Fern Yard (Entity)" in lines


REPLIES = {
    "an empty answer is an answer": ([{"id": 1, "same": []}], [()]),
    "a missing answer is what was assumed": ([], [(1,)]),
    "a single number for a list": ([{"id": "1", "same": 2}], [(0,)]),
    "null for a list": ([{"id": 1, "same": None}], [()]),
    "strings for numbers": ([{"id": "[1]", "same": ["2", "3.0"]}], [(0, 1)]),
    "named from the other side": ([{"id": 3, "duplicate_ids": [3, 1]}], [(1,)]),
    "an unknown id beside good ones": ([{"id": 9, "same": [1]}, {"id": 1, "same": [2, 77, 0, -1]}], [(0,)]),
    "answered twice": ([{"id": 1, "same": [2]}, {"id": 1, "same": [2]}], [(0,)]),
}


@pytest.mark.parametrize(("items", "expected"), REPLIES.values(), ids=REPLIES.keys())
async def test_duplicates_are_read(items: list[object], expected: list[tuple[int, ...]]) -> None:
    model = ScriptedModel([{"duplicates": items}])

    answer = await ask_entity_duplicates(
        TALK, duplicate_cases(1, assumed=(1,)), language="en", judge_items=20, asker=asker_for(model)
    )

    assert answer == expected
    assert len(model.calls) == 1


async def test_candidates_of_another_item_are_dropped() -> None:
    asker = asker_for(ScriptedModel([{"duplicates": [{"id": 1, "same": [5]}, {"id": 4, "same": [5]}]}]))

    answer = await ask_entity_duplicates(TALK, duplicate_cases(2), language="en", judge_items=20, asker=asker)

    assert answer == [(), (0,)]
    assert "Dropped from EntityDuplication: 1 same as 5 (not a candidate of it)" in asker.ledger.warnings


async def test_a_stored_thing_that_resembles_several_new_ones_is_described_once() -> None:
    stored = [Described(name, "Human", "keeps bees", uuid=name) for name in ("Mira Holt", "Mira Hold", "Mirabel")]
    pools = ((stored[0], stored[1]), (stored[1], stored[0]), (stored[2], stored[1]))
    cases = [DuplicateCase(Described(f"M{place}", "Human"), pool) for place, pool in enumerate(pools)]
    reply = [{"id": 1, "same": [3]}, {"id": 4, "same": [5]}, {"id": 7, "same": [2, 3]}]
    asker = asker_for(model := ScriptedModel([{"duplicates": reply}]))

    answer = await ask_entity_duplicates(TALK, cases, language="en", judge_items=20, asker=asker)

    assert answer == [(1,), (0,), (1,)]
    assert [line for line in model.prompt().splitlines() if line.startswith("[")] == [
        *("[1] M0 (Human)", "[2] Mira Holt (Human): keeps bees", "[3] Mira Hold (Human): keeps bees"),
        *("[4] M1 (Human)", "[5] Mira Hold (Human) = [3]", "[6] Mira Holt (Human) = [2]"),
        *("[7] M2 (Human)", "[8] Mirabel (Human): keeps bees", "[9] Mira Hold (Human) = [3]"),
    ]
    assert "Dropped from EntityDuplication: 7 same as 2 (not a candidate of it)" in asker.ledger.warnings


async def test_without_candidates_nothing_is_asked() -> None:
    model = ScriptedModel([])
    asker = asker_for(model)
    nobody = DuplicateCase(HOLT, ())

    assert await ask_entity_duplicates(TALK, [nobody], language="en", judge_items=1, asker=asker) == [()]
    assert await ask_relation_verdicts(TALK, [VerdictCase("x", ())], language="en", judge_items=1, asker=asker) == [
        Verdict()
    ]
    assert await ask_relation_filter([FilterCase("x", "", ())], language="en", judge_items=1, asker=asker) == [()]
    assert await ask_summaries(TALK, [], language="en", batch_items=1, asker=asker) == []
    assert model.calls == []


def same_as_first(messages: list[dict[str, str]], form: Mapping[str, Any]) -> object:
    """Calls everything the same in a batch; alone, only what New 2 and New 4 are compared with."""
    if "duplicates" not in form["schema"]["properties"]:
        asked = messages[-1]["content"]
        return {"1": "same" if "New 2" in asked or "New 4" in asked else "different"}
    numbers = form["schema"]["properties"]["duplicates"]["items"]["properties"]["id"]["enum"]
    return {"duplicates": [{"id": number, "same": [number + 1]} for number in numbers]}


async def test_a_batch_that_is_all_same_is_asked_again_one_by_one() -> None:
    model = ScriptedModel(same_as_first)
    asker = asker_for(model)

    answer = await ask_entity_duplicates(TALK, duplicate_cases(5), language="en", judge_items=20, asker=asker)

    assert answer == [(), (), (0,), (), (0,)]
    usage = asker.ledger.usage
    assert (usage.calls, usage.rounds, usage.reasked, len(model.calls)) == (1, 1, 5, 6)


async def test_three_that_are_all_same_are_believed() -> None:
    model = ScriptedModel(same_as_first)

    answer = await ask_entity_duplicates(
        TALK, duplicate_cases(3), language="en", judge_items=20, asker=asker_for(model)
    )

    assert answer == [(0,), (0,), (0,)]
    assert len(model.calls) == 1


async def test_the_diagonal_is_not_believed() -> None:
    diagonal = {"duplicates": [{"id": 3 * place + 1, "same": [place + 2] if place else []} for place in range(6)]}
    model = ScriptedModel([diagonal, {"1": "different"}])
    asker = asker_for(model)

    answer = await ask_entity_duplicates(TALK, duplicate_cases(6), language="en", judge_items=20, asker=asker)

    assert answer == [()] * 6
    assert any("asked again" in warning for warning in asker.ledger.warnings)


async def test_with_one_item_a_question_every_pair_is_asked_by_itself() -> None:
    model = ScriptedModel(
        lambda messages, form: {"1": "same" if "Mira Holt" in messages[-1]["content"].split("|")[0] else "different"}
    )
    asker = asker_for(model)

    answer = await ask_entity_duplicates(TALK, duplicate_cases(3), language="en", judge_items=1, asker=asker)

    assert answer == [(0,)] * 3
    assert len(model.calls) == 6
    assert model.schema()["properties"] == {"1": {"type": "string", "enum": ["different", "same"]}}
    assert asker.ledger.usage.rounds == 1


PAIRS = {
    "key": ('{"1":"same"}', True),
    "fence": ('```json\n{"1":"different"}\n```', False),
    "list": ('[{"id":1,"answer":"same"}]', True),
    "item": ('{"answer":"different"}', False),
    "bare word": ("Different.", False),
    "Chinese": ('{"1":"相同"}', True),
    "true": ('{"1":true}', True),
    "renamed": ('{"verdicts":{"1":"no"}}', False),
    "key of the example, safe": ('{"58":"different"}', False),
}


@pytest.mark.parametrize(("reply", "expected"), PAIRS.values(), ids=PAIRS.keys())
async def test_a_pair_is_read(reply: str, expected: bool) -> None:
    model = ScriptedModel([reply])
    case = DuplicateCase(Described("Mira", "Human"), (HOLT,))

    answer = await ask_entity_duplicates(TALK, [case], language="cn", judge_items=1, asker=asker_for(model))

    assert answer == [(0,) if expected else ()]
    assert len(model.calls) == 1


@pytest.mark.parametrize("reply", ['{"63":"same"}', "maybe", '{"1":"perhaps"}', "{}"])
async def test_an_unclear_pair_is_what_was_assumed(reply: str) -> None:
    asker = asker_for(ScriptedModel([reply]))

    answer = await ask_entity_duplicates(
        TALK, duplicate_cases(1, assumed=(0,)), language="en", judge_items=1, asker=asker
    )

    assert answer == [(0,)]
    assert any("what was assumed holds" in warning for warning in asker.ledger.warnings)


@pytest.mark.parametrize("judge_items", [1, 20])
async def test_duplicates_raise_when_the_service_fails(judge_items: int) -> None:
    asker = asker_for(ScriptedModel([DOWN]))

    with pytest.raises(LLMCallError) as caught:
        await ask_entity_duplicates(TALK, duplicate_cases(1), language="en", judge_items=judge_items, asker=asker)

    assert caught.value.__cause__ is DOWN
    assert not isinstance(caught.value, LLMAnswerError)


@pytest.mark.parametrize("failure", [DOWN, "no JSON at all"])
async def test_what_may_fail_degrades_with_a_warning(failure: object) -> None:
    asker = asker_for(ScriptedModel([failure]), tries=2)
    facts = FilterCase("Mira", "", ("a", "b"))

    assert await ask_timezone(TALK, language="en", asker=asker) is None
    assert await ask_summaries(TALK, [SummaryCase("Mira", "Human")], language="en", batch_items=5, asker=asker) == [
        None
    ]
    assert await ask_relation_filter([facts], language="en", judge_items=5, asker=asker) == [(0, 1)]
    for judge_items in (1, 5):
        verdicts = await ask_relation_verdicts(
            TALK, [VerdictCase("a", ("b",))], language="en", judge_items=judge_items, asker=asker
        )
        assert verdicts == [Verdict()]
    assert len(asker.ledger.warnings) >= 5


async def test_many_items_are_split_into_calls_that_run_at_once() -> None:
    model = ScriptedModel(lambda messages, form: dict.fromkeys(form["schema"]["properties"], "known"))
    asker = asker_for(model)
    cases = [SummaryCase(f"Thing {number}", "Entity") for number in range(45)]

    summaries = await ask_summaries(TALK, cases, language="en", batch_items=20, asker=asker)

    assert summaries == [Summary("known")] * 45
    assert (asker.ledger.usage.calls, asker.ledger.usage.rounds) == (3, 1)


SUMMARIES = {
    "keyed": ({"1": "beekeeper", "2": "a yard"}, ["beekeeper", "a yard"]),
    "list": ([{"id": 2, "summary": "a yard"}, {"id": "1", "summary": "beekeeper"}], ["beekeeper", "a yard"]),
    "wrapped list": ({"summaries": [{"id": 1, "summary": "beekeeper"}]}, ["beekeeper", None]),
    "strings in order": (["beekeeper", "a yard"], ["beekeeper", "a yard"]),
    "objects": ({"1": {"summary": "beekeeper"}, "2": {"description": "a yard"}}, ["beekeeper", "a yard"]),
    "placeholders": ({"1": "None", "2": "无"}, [None, None]),
    "more placeholders": ({"1": "N/A.", "2": ""}, [None, None]),
    "the word inside a text": (
        {"1": "None of his colleagues know", "2": "无锡人"},
        ["None of his colleagues know", "无锡人"],
    ),
    "the item's own line": ({"1": "Mira Holt (Human)", "2": "Fern Yard：Entity"}, [None, None]),
    "unknown and missing ids": ({"1": "beekeeper", "31": "Potter"}, ["beekeeper", None]),
    "cut off": ('{"1":"beekeeper","2":"a ya', ["beekeeper", None]),
}


@pytest.mark.parametrize(("reply", "expected"), SUMMARIES.values(), ids=SUMMARIES.keys())
async def test_summaries_are_read(reply: object, expected: list[str | None]) -> None:
    model = ScriptedModel([reply])
    cases = [SummaryCase("Mira Holt", "Human", "old"), SummaryCase("Fern Yard", "Entity")]

    summaries = await ask_summaries(TALK, cases, language="en", batch_items=20, asker=asker_for(model))

    assert [summary and summary.content for summary in summaries] == expected
    assert len(model.calls) == 1


class Villager(EntityDef):
    city: str = ""
    job: str = ""
    pet: str = ""


async def test_only_declared_attributes_with_a_value_are_kept() -> None:
    answer = {"summary": "x", "attributes": {"city": "Gore", "job": "null", "pet": None, "other": 1}}
    case = SummaryCase("Mira", "Human", kind=Villager)

    (summary,) = await ask_summaries(
        TALK, [case], language="en", batch_items=20, asker=asker_for(ScriptedModel([{"1": answer}]))
    )

    assert summary == Summary("x", {"city": "Gore"})


async def test_an_absent_old_description_leaves_no_placeholder_in_the_prompt() -> None:
    model = ScriptedModel([{"1": "x", "2": "y"}])
    cases = [SummaryCase("Mira", "Human", "none"), SummaryCase("Yard", "Entity", "", facts=("It is wet.",))]

    await ask_summaries(TALK, cases, language="en", batch_items=20, asker=asker_for(model))

    assert "  old:" not in model.prompt()
    assert "  fact: It is wet." in model.prompt()


def verdict_cases(count: int) -> list[VerdictCase]:
    return [VerdictCase(f"new fact {number}", ("old one", "old two")) for number in range(count)]


VERDICTS = {
    "nothing": ({"id": 1, "same": [], "contradicts": [], "links": []}, Verdict()),
    "all of them": (
        {"id": 1, "same": [2], "contradicts": [3], "links": [{"id": 3, "kind": "elaborates"}]},
        Verdict(same=(0,), contradicts=(1,), links={"elaborates": (1,)}),
    ),
    "fields left out": ({"id": "1", "same": "2"}, Verdict(same=(0,))),
    "same and contradicted at once": ({"id": 1, "same": [2], "contradicts": [2]}, Verdict(same=(0,))),
    "unknown ids and kinds": (
        {
            "id": 1,
            "same": [57],
            "contradicts": [0],
            "links": [{"id": 2, "kind": "likes"}, {"id": 9, "kind": "causes"}, 3],
        },
        Verdict(),
    ),
}


@pytest.mark.parametrize(("item", "expected"), VERDICTS.values(), ids=VERDICTS.keys())
async def test_verdicts_are_read(item: dict[str, object], expected: Verdict) -> None:
    for reply in ({"verdicts": [item]}, [item], item):
        model = ScriptedModel([reply])

        verdicts = await ask_relation_verdicts(
            TALK, verdict_cases(1), language="en", judge_items=20, asker=asker_for(model)
        )

        assert verdicts == [expected]
        assert len(model.calls) == 1


def retires_everything(messages: list[dict[str, str]], form: Mapping[str, Any]) -> object:
    if "verdicts" not in form["schema"]["properties"]:
        return {"1": "conflict" if "new fact 3" in messages[-1]["content"] else "compatible"}
    numbers = form["schema"]["properties"]["verdicts"]["items"]["properties"]["id"]["enum"]
    return {"verdicts": [{"id": number, "same": [], "contradicts": [number + 1], "links": []} for number in numbers]}


async def test_a_batch_that_is_all_contradictions_is_asked_again_one_by_one() -> None:
    asker = asker_for(ScriptedModel(retires_everything))

    verdicts = await ask_relation_verdicts(TALK, verdict_cases(4), language="en", judge_items=20, asker=asker)

    assert verdicts == [Verdict(), Verdict(), Verdict(), Verdict(contradicts=(0,))]
    assert (asker.ledger.usage.calls, asker.ledger.usage.reasked) == (1, 4)


async def test_links_from_every_fact_are_left_out() -> None:
    links = [{"id": number + 1, "kind": "same_series"} for number in (1, 4, 7, 10)]
    items = [{"id": 3 * place + 1, "same": [], "links": [link]} for place, link in enumerate(links)]
    asker = asker_for(ScriptedModel([{"verdicts": items}]))

    verdicts = await ask_relation_verdicts(TALK, verdict_cases(4), language="en", judge_items=20, asker=asker)

    assert verdicts == [Verdict()] * 4
    assert any("links are left out" in warning for warning in asker.ledger.warnings)


async def test_all_different_is_believed() -> None:
    model = ScriptedModel([{"verdicts": [{"id": number, "same": []} for number in (1, 4, 7, 10, 13)]}])

    verdicts = await ask_relation_verdicts(
        TALK, verdict_cases(5), language="en", judge_items=20, asker=asker_for(model)
    )

    assert verdicts == [Verdict()] * 5
    assert len(model.calls) == 1


def two_steps(messages: list[dict[str, str]], form: Mapping[str, Any]) -> object:
    labels = form["schema"]["properties"]["1"]["enum"]
    yes = "old one" in messages[-1]["content"] if "same" in labels else True
    return {"1": labels[1] if yes else labels[0]}


async def test_one_pair_at_a_time_asks_for_a_conflict_only_where_facts_differ() -> None:
    model = ScriptedModel(two_steps)

    verdicts = await ask_relation_verdicts(TALK, verdict_cases(2), language="en", judge_items=1, asker=asker_for(model))

    assert verdicts == [Verdict(same=(0,), contradicts=(1,))] * 2
    assert len(model.calls) == 6


FILTERS = {
    "ids": ({"relevant": [2, 6]}, [(0,), (1,)]),
    "bare list": ([2, 3, 5], [(0, 1), (0,)]),
    "strings": ({"relevant": ["2", "[5]"]}, [(0,), (0,)]),
    "items": ({"relevant": [{"id": 2}, {"id": 6}]}, [(0,), (1,)]),
    "per merge": ([{"id": 1, "relevant": [2]}, {"id": 4, "relevant": [5]}], [(0,), (0,)]),
    "other keys": ({"brief_reasoning": "x", "relevant_relations": [3, 6, 99]}, [(1,), (1,)]),
    "none of one entity": ({"relevant": [2]}, [(0,), (0, 1)]),
    "none at all": ({"relevant": []}, [(0, 1), (0, 1)]),
}


@pytest.mark.parametrize(("reply", "expected"), FILTERS.values(), ids=FILTERS.keys())
async def test_facts_to_keep_are_read(reply: object, expected: list[tuple[int, ...]]) -> None:
    model = ScriptedModel([reply])
    cases = [FilterCase("Mira", "keeps bees", ("a", "b")), FilterCase("Bo", "", ("c", "d"))]

    kept = await ask_relation_filter(cases, language="en", judge_items=20, asker=asker_for(model))

    assert kept == expected
    assert len(model.calls) == 1
