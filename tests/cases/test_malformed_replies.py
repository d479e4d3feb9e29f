"""Malformed replies to each of the seven questions, by name, through `add_memory`.

Each is understood (the graph is that of a good reply), survived (a sound graph and a warning or a second try), or ends
in one error that names the question, nothing written and the input kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import JsonValue

from jiuwen_memory import Entity, GraphMemUpdate
from jiuwen_memory.errors import LLMAnswerError
from jiuwen_memory.testing import FakePrompt, by_name, same_as, verdicts
from jiuwen_memory.testing.llm import Reply, Script
from tests.cases.world import AUTUMN, DOCUMENT, NAMED, SENTENCE, STATED, USER, scripted
from tests.memory_support import Taught, all_entities, all_episodes, all_relations, entities, facts, problems

ENTITIES, ZONE, RELATIONS, SAME = "EntityExtraction", "TimezonePredictions", "RelationExtraction", "EntityDuplication"
SUMMARIES, VERDICTS, KEPT = "EntitySummaries", "RelationVerdicts", "RelevantFacts"
WOOL, PAINTED = "Gerda Moll sells wool at Larch Croft.", "G. Moll painted Larch Croft."
Numbers = Callable[[FakePrompt], JsonValue]


def keep_all(prompt: FakePrompt) -> JsonValue:
    """Name every fact, which stand below the entity they are about."""
    return {"relevant": [number for number, text in prompt.lines().items() if text.endswith(".")]}


GOOD: dict[str, Reply | Script] = {
    ENTITIES: entities({"G. Moll": "Human", "Larch Croft": "Entity"}),
    ZONE: {"place": None, "timezone": "Europe/Brussels"},
    RELATIONS: facts(("G. Moll", "painted", "Larch Croft", PAINTED), since="2020-05-01"),
    SAME: same_as({"G. Moll": ["Greta Moll (", "Gerda Moll ("], "Larch Croft": ["Larch Croft ("]}),
    SUMMARIES: by_name({"Greta Moll": "A painter.", "Larch Croft": "A farm."}),
    VERDICTS: verdicts(),
    KEPT: keep_all,
}
MOLL: dict[str, JsonValue] = {"name": "G. Moll", "type": "Human"}
CROFT: dict[str, JsonValue] = {"name": "Larch Croft", "type": "Entity"}
BOTH: JsonValue = [MOLL, CROFT]
FACT: dict[str, JsonValue] = {
    **{"fact": PAINTED, "name": "painted", "source": "G. Moll", "target": "Larch Croft"},
    **{"valid_since": "2020-05-01", "valid_until": None},
}


def text(value: JsonValue) -> str:
    """Return a value as JSON."""
    return json.dumps(value, ensure_ascii=False)


def as_prompted(question: str, prompt: FakePrompt) -> Any:
    """Return what the good reply to a question is for this prompt."""
    reply = GOOD[question]
    assert callable(reply)
    return reply(prompt)


def same(shape: Callable[[int, list[int]], JsonValue]) -> Numbers:
    """Return a reply about duplicates in which each item has this shape, from its number and those of the same."""

    def reply(prompt: FakePrompt) -> JsonValue:
        return {"duplicates": [shape(each["id"], each["same"]) for each in as_prompted(SAME, prompt)["duplicates"]]}

    return reply


def described(shape: Callable[[dict[str, str]], JsonValue]) -> Numbers:
    """Return descriptions in this shape, made from those keyed by number."""
    return lambda prompt: shape(as_prompted(SUMMARIES, prompt))


UNDERSTOOD: Mapping[str, tuple[str, Reply]] = {
    "names in a fence": (ENTITIES, f"```json\n{text({'entities': BOTH})}\n```"),
    "names after reasoning": (ENTITIES, f'<think>{{"entities": []}}?</think>{text({"entities": BOTH})}'),
    "names after reasoning without its opening tag": (ENTITIES, f"well, hmm</think>{text({'entities': BOTH})}"),
    "names between chatter": (ENTITIES, f"Here {{you}} are: {text({'entities': BOTH})} Good luck!"),
    "names as a bare list": (ENTITIES, BOTH),
    "names under another key": (ENTITIES, {"nodes": BOTH}),
    "names as a tool call": (ENTITIES, {"name": "f", "arguments": text({"entities": BOTH})}),
    "names wrapped": (ENTITIES, {"result": {"entities": BOTH}}),
    "names by type": (ENTITIES, {"Human": ["G. Moll"], "Entity": ["Larch Croft"], "AI": []}),
    "names with type numbers": (
        ENTITIES,
        {"entities": [{"name": "G. Moll", "type": "1"}, {"name": "Larch Croft", "type": 0.0}]},
    ),
    "names in single quotes": (ENTITIES, str({"entities": BOTH})),
    "names with trailing commas": (ENTITIES, text({"entities": BOTH}).replace("}]", "},]")),
    "names twice": (ENTITIES, {"entities": [MOLL, CROFT, MOLL]}),
    "facts in a fence": (RELATIONS, f"```\n{text({'relations': [FACT]})}\n```"),
    "a fact as a bare item": (RELATIONS, FACT),
    "facts as a bare list": (RELATIONS, [FACT]),
    "facts with other keys": (
        RELATIONS,
        {"triples": [{"sentence": PAINTED, "predicate": "painted", "subject": "G. Moll", "object": "Larch Croft"}]},
    ),
    "facts with numbers for ends": (
        RELATIONS,
        lambda prompt: {
            "relations": [
                {**FACT, "source": prompt.number("G. Moll"), "target": f"[{prompt.number('Larch Croft')}] Larch Croft"}
            ]
        },
    ),
    "facts twice": (RELATIONS, {"relations": [FACT, FACT]}),
    "an offset for a zone": (ZONE, {"timezone": "UTC+2"}),
    "a list of zones": (ZONE, [{"name": "Europe/Brussels"}]),
    "duplicates as texts of numbers": (
        SAME,
        same(lambda new, others: {"id": f"[{new}]", "same": [f"{other}.0" for other in others]}),
    ),
    "duplicates as one text": (SAME, same(lambda new, others: {"id": new, "same": ", ".join(map(str, others))})),
    "duplicates under another key": (SAME, same(lambda new, others: {"ID": new, "duplicate_ids": [*others]})),
    "descriptions in a list": (SUMMARIES, described(lambda told: list(told.values()))),
    "descriptions wrapped": (SUMMARIES, described(lambda told: {"summaries": {**told}})),
    "descriptions as objects": (SUMMARIES, described(lambda told: {key: {"summary": it} for key, it in told.items()})),
    "descriptions with ids": (
        SUMMARIES,
        described(lambda told: {"summaries": [{"id": int(key), "summary": it} for key, it in told.items()]}),
    ),
    "verdicts with nulls": (
        VERDICTS,
        lambda prompt: {"verdicts": [{"id": prompt.number("G. Moll painted"), "same": None, "contradicts": None}]},
    ),
    "facts to keep as a bare list": (KEPT, lambda prompt: as_prompted(KEPT, prompt)["relevant"]),
    "facts to keep as objects": (
        KEPT,
        lambda prompt: {"relevant": [{"id": each} for each in as_prompted(KEPT, prompt)["relevant"]]},
    ),
}
SURVIVED: Mapping[str, tuple[str, Reply | Script]] = {
    "names cut off after the last whole one": (ENTITIES, text({"entities": BOTH})[:-2] + ', {"name": "Gre'),
    "a null among the names": (ENTITIES, {"entities": [None, MOLL, {"name": None}, CROFT]}),
    "pronouns and dates among the names": (
        ENTITIES,
        {"entities": [MOLL, {"name": "she"}, {"name": "2020"}, {"name": "上周五"}, CROFT]},
    ),
    "nothing, then names": (ENTITIES, Script(["", {"entities": BOTH}])),
    "the schema, then names": (ENTITIES, Script([{"type": "object", "properties": {}}, {"entities": BOTH}])),
    "facts cut off after the last whole one": (RELATIONS, text({"relations": [FACT]})[:-2] + ', {"fact": "G. M'),
    "a fact with an unknown end among the facts": (RELATIONS, {"relations": [{**FACT, "target": 99}, FACT]}),
    "words among the facts": (RELATIONS, {"relations": ["G. Moll painted.", None, FACT]}),
    "facts without a sentence, then facts": (RELATIONS, Script([{"relations": [{"name": "painted"}]}, [FACT]])),
    "words for a zone": (ZONE, "I cannot tell."),
    "a zone that is none": (ZONE, {"place": "Moon", "timezone": "Moon/Sea"}),
    "unknown ids among duplicates": (SAME, same(lambda new, others: {"id": new, "same": [*others, 99, -1]})),
    "words for descriptions": (SUMMARIES, "Both are fine."),
    "descriptions of others": (SUMMARIES, {"77": "A stranger."}),
    "null for descriptions": (SUMMARIES, "null"),
    "words for verdicts": (VERDICTS, "They all hold."),
    "verdicts about others": (VERDICTS, {"verdicts": [{"id": 98, "same": [99], "contradicts": [97], "links": []}]}),
    "a link that leads nowhere": (
        VERDICTS,
        lambda prompt: {
            "verdicts": [{"id": prompt.number("G. Moll painted"), "same": [], "links": [{"id": 66, "kind": "causes"}]}]
        },
    ),
    "no fact to keep": (KEPT, {"relevant": []}),
    "unknown facts to keep": (KEPT, {"relevant": [71, 72]}),
    "words for the facts to keep": (KEPT, "all of them"),
}
REFUSED: Mapping[str, tuple[str, Reply]] = {
    "no reply to names": (ENTITIES, ""),
    "words for names": (ENTITIES, "There are two of them."),
    "an empty object for names": (ENTITIES, "{}"),
    "names that are all null": (ENTITIES, {"entities": [{"name": None}, {"name": ""}]}),
    "names cut off in the first": (ENTITIES, '{"entities": [{"name": "G. Mo'),
    "names inside reasoning without an end": (ENTITIES, f"<think>{text({'entities': BOTH})}"),
    "the schema for names": (ENTITIES, {"$defs": {}, "type": "object", "properties": {"entities": {"type": "array"}}}),
    "an error for names": (ENTITIES, {"error": "too many tokens"}),
    "words for facts": (RELATIONS, "G. Moll painted it."),
    "facts cut off in the first": (RELATIONS, text({"relations": [FACT]})[:40]),
    "facts that are all words": (RELATIONS, {"relations": ["G. Moll painted."]}),
    "facts between unknown ends": (RELATIONS, {"relations": [{**FACT, "source": 0, "target": 99}]}),
}


@dataclass(frozen=True)
class Graph:
    """What a graph says, without ids and times of writing."""

    episodes: tuple[str, ...]
    entities: tuple[tuple[str, str, str, int], ...]
    facts: tuple[tuple[str, str, str, int], ...]


async def graph(mind: Taught) -> Graph:
    nodes: dict[str, Entity] = {each.uuid: each for each in (await all_entities(mind.memory, USER)).values()}
    edges = (await all_relations(mind.memory, USER)).values()
    return Graph(
        tuple(sorted(each.content for each in await all_episodes(mind.memory, USER))),
        tuple(sorted((each.name, each.obj_type, each.content, each.mention_count) for each in nodes.values())),
        tuple(sorted((each.content, nodes[each.lhs].name, nodes[each.rhs].name, each.mention_count) for each in edges)),
    )


async def prepared() -> Taught:
    """Return a memory of two people who will turn out to be one, so that all seven questions are asked.

    Greta is mentioned twice, so that it is her for whom the fused entity stands.
    """
    mind = scripted({ENTITIES: NAMED, RELATIONS: STATED})
    await mind.memory.add_memory(DOCUMENT, USER, SENTENCE, reference_time=AUTUMN)
    await mind.memory.add_memory(DOCUMENT, USER, f"Yes, {SENTENCE}", reference_time=AUTUMN)
    mind.llm.replies = {
        ENTITIES: entities({"Gerda Moll": "Human", "Larch Croft": "Entity"}),
        RELATIONS: facts(("Gerda Moll", "sells wool at", "Larch Croft", WOOL)),
        SAME: same_as({"Larch Croft": ["Larch Croft ("]}),
    }
    await mind.memory.add_memory(DOCUMENT, USER, WOOL, reference_time=AUTUMN)
    mind.llm.prompts.clear()
    return mind


async def add(mind: Taught, replies: Mapping[str, Reply | Script]) -> GraphMemUpdate:
    mind.llm.replies = dict(replies)
    return await mind.memory.add_memory(DOCUMENT, USER, f"{PAINTED} (2020-05-01)", reference_time=AUTUMN)


async def test_good_replies_to_all_seven_questions_fuse_the_two_people() -> None:
    mind = await prepared()

    update = await add(mind, GOOD)

    fused = await graph(mind)
    assert {prompt.question for prompt in mind.llm.prompts} == set(GOOD)
    assert len(update.removed_entity) == 1
    assert [told[:3] for told in fused.entities] == [
        ("Greta Moll", "Human", "A painter."),
        ("Larch Croft", "Entity", "A farm."),
    ]
    assert {content for content, *_ in fused.facts} == {SENTENCE, WOOL, PAINTED}
    assert (update.usage.reasked, await problems(mind.memory, USER)) == (0, [])


@pytest.mark.parametrize("name", UNDERSTOOD)
async def test_a_reply_that_can_be_understood_gives_the_graph_of_a_good_one(name: str) -> None:
    question, reply = UNDERSTOOD[name]
    good, mind = await prepared(), await prepared()
    await add(good, GOOD)

    update = await add(mind, {**GOOD, question: reply})

    assert await graph(mind) == await graph(good)
    assert update.usage.reasked == 0
    assert await problems(mind.memory, USER) == []


@pytest.mark.parametrize("name", SURVIVED)
async def test_a_reply_that_is_partly_or_not_needed_is_survived_and_told(name: str) -> None:
    question, reply = SURVIVED[name]
    mind = await prepared()

    update = await add(mind, {**GOOD, question: reply})

    told = await graph(mind)
    assert {content for content, *_ in told.facts} == {SENTENCE, WOOL, PAINTED}
    assert len(told.entities) == 2
    assert update.warnings or update.usage.reasked
    assert await problems(mind.memory, USER) == []


@pytest.mark.parametrize("name", REFUSED)
async def test_a_reply_without_which_nothing_can_be_stored_is_one_error_with_nothing_written(name: str) -> None:
    question, reply = REFUSED[name]
    mind = await prepared()
    before = await graph(mind)

    with pytest.raises(LLMAnswerError) as failure:
        await add(mind, {**GOOD, question: reply})

    assert failure.value.question == {ENTITIES: "entities", RELATIONS: "relations"}[question]
    assert failure.value.reply == (reply if isinstance(reply, str) else json.dumps(reply))
    assert await graph(mind) == before
    assert [each.text for each in await mind.memory.pending(USER)] == [f"{PAINTED} (2020-05-01)"]
    await add(mind, GOOD)
    assert PAINTED in {content for content, *_ in (await graph(mind)).facts}
    assert await mind.memory.pending(USER) == []


def test_there_are_more_than_sixty_kinds() -> None:
    assert len({*UNDERSTOOD, *SURVIVED, *REFUSED}) > 60
