"""Malformed replies of every kind that was seen, and what becomes of them."""

from __future__ import annotations

import json

import pytest
from pydantic import JsonValue

from jiuwen_memory.errors import LLMAnswerError
from jiuwen_memory.memory_core.config.graph import EpisodeType
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import DEFAULT_ENTITY_TYPES
from jiuwen_memory.memory_core.graph.extraction.questions import ask_entities, ask_relations, ask_timezone
from jiuwen_memory.memory_core.graph.extraction.reply import parse_reply, read_id, read_ids
from jiuwen_memory.memory_core.graph.extraction.values import Mention, SourceText
from tests.extraction_support import TALK, ScriptedModel, asker_for

MIRA_AND_YARD = [("Mira Holt", "Human"), ("Fern Yard", "Entity")]
MIRA = [("Mira Holt", "Human")]
GOOD = '{"entities":[{"name":"Mira Holt","type":"Human"},{"name":"Fern Yard","type":"Entity"}]}'
LOOP = '{"entities":[{"name":"Mira Holt","type":"Human"}' + ',{"name":"Fern Yard","type":"Entity"}' * 30

READABLE = {
    "plain": (GOOD, MIRA_AND_YARD),
    "fence": (f"```json\n{GOOD}\n```", MIRA_AND_YARD),
    "fence without language and chatter around it": (
        f"Sure! Here [is] it:\n```\n{GOOD}\n```\nAnything else?",
        MIRA_AND_YARD,
    ),
    "unclosed fence": (f"```json\n{GOOD}", MIRA_AND_YARD),
    "reasoning with a decoy": (f'<think>Maybe {{"entities": []}}?</think>\n{GOOD}', MIRA_AND_YARD),
    "reasoning whose opening tag was taken away": (f'so {{"entities": []}} no\n</think>{GOOD}', MIRA_AND_YARD),
    "chatter with braces": (f"I thought about {{x}} and found: {GOOD} Done.", MIRA_AND_YARD),
    "pretty printed": (json.dumps(json.loads(GOOD), indent=4), MIRA_AND_YARD),
    "bare list": ('[{"name":"Mira Holt","type":"Human"},{"name":"Fern Yard","type":"Entity"}]', MIRA_AND_YARD),
    "bare item": ('{"name":"Mira Holt","type":"Human"}', MIRA),
    "one item instead of a list": ('{"entities":{"name":"Mira Holt","type":"Human"}}', MIRA),
    "list of strings": ('{"entities":["Mira Holt"]}', [("Mira Holt", "Entity")]),
    "bare list of strings": ('["Mira Holt"]', [("Mira Holt", "Entity")]),
    "renamed list": ('{"people":[{"name":"Mira Holt","type":"Human"}]}', MIRA),
    "wrapped": ('{"result":{"entities":[{"name":"Mira Holt","type":"Human"}]}}', MIRA),
    "wrapped as a tool call with JSON in a string": (
        json.dumps({"name": "EntityExtraction", "arguments": '{"entities":[{"name":"Mira Holt","type":"Human"}]}'}),
        MIRA,
    ),
    "another product's keys": (
        '{"extracted_entities":[{"name":"Mira Holt","entity_type_id":1},{"name":"Fern Yard","entity_type_id":0}]}',
        MIRA_AND_YARD,
    ),
    "keys in capitals": ('{"Entities":[{"Name":"Mira Holt","Type":"HUMAN"}]}', MIRA),
    "type number as a string": ('{"entities":[{"name":"Mira Holt","type":"1"}]}', MIRA),
    "type number as a float": ('{"entities":[{"name":"Mira Holt","type":1.0}]}', MIRA),
    "type number outside the list": ('{"entities":[{"name":"Mira Holt","type":41}]}', [("Mira Holt", "Entity")]),
    "negative type number": ('{"entities":[{"name":"Mira Holt","type":-1}]}', [("Mira Holt", "Entity")]),
    "unknown type": ('{"entities":[{"name":"Mira Holt","type":"Beekeeper"}]}', [("Mira Holt", "Entity")]),
    "type null": ('{"entities":[{"name":"Mira Holt","type":null}]}', [("Mira Holt", "Entity")]),
    "type missing": ('{"entities":[{"name":"Mira Holt"}]}', [("Mira Holt", "Entity")]),
    "grouped by type": ('{"Human":["Mira Holt"],"AI":[],"Entity":["Fern Yard"]}', MIRA_AND_YARD),
    "two objects in one fence": ('```json\n{"Human":["Mira Holt"]}\n{"Entity":["Fern Yard"]}\n```', MIRA_AND_YARD),
    "two lists one after the other": (
        '{"entities":[{"name":"Mira Holt","type":"Human"}]}{"entities":[{"name":"Fern Yard","type":"Entity"}]}',
        MIRA_AND_YARD,
    ),
    "trailing commas": ('{"entities":[{"name":"Mira Holt","type":"Human",},],}', MIRA),
    "single quotes": ("{'entities': [{'name': 'Mira Holt', 'type': 'Human'}]}", MIRA),
    "unquoted keys": ('{entities: [{name: "Mira Holt", type: "Human"}]}', MIRA),
    "Python words": ('{"entities":[{"name":"Mira Holt","type":None}]}', [("Mira Holt", "Entity")]),
    "line break inside a string": ('{"entities":[{"name":"Mira\nHolt","type":"Human"}]}', MIRA),
    "cut off between items": (
        '{"entities":[{"name":"Mira Holt","type":"Human"},{"name":"Fern Yard","type":"Entity"}',
        MIRA_AND_YARD,
    ),
    "cut off inside an item": ('{"entities":[{"name":"Mira Holt","type":"Human"},{"name":"Fern', MIRA),
    "cut off loop": (LOOP, MIRA_AND_YARD),
    "the same name twice": (
        '{"entities":[{"name":"Mira Holt","type":"Human"},{"name":"MIRA  HOLT","type":"Human"}]}',
        MIRA,
    ),
    "null item among good ones": ('{"entities":[null,{"name":"Mira Holt","type":"Human"}]}', MIRA),
    "null name among good ones": (
        '{"entities":[{"name":null,"type":"AI"},{"name":"Mira Holt","type":"Human"}]}',
        MIRA,
    ),
    "placeholder names": (
        '{"entities":[{"name":"None"},{"name":"无"},{"name":"null"},{"name":"Mira Holt","type":"Human"}]}',
        MIRA,
    ),
    "dates and pronouns as names": (
        '{"entities":[{"name":"2019"},{"name":"last Friday"},{"name":"March 3rd, 2024"},{"name":"上周五"},{"name":"I"},'
        '{"name":"我们"},{"name":"next spring"},{"name":"Mira Holt","type":"Human"}]}',
        MIRA,
    ),
    "a name of the prompt's example": (
        '{"entities":[{"name":"Oyelaran","type":"Human"},{"name":"Mira Holt","type":"Human"}]}',
        MIRA,
    ),
    "empty list": ('{"entities":[]}', []),
    "bare empty list": ("[]", []),
    "null list": ('{"entities":null}', []),
}
UNREADABLE = {
    "nothing": "",
    "words only": "There are no entities here.",
    "empty object": "{}",
    "an error": '{"error":"too long"}',
    "all names null": '{"entities":[{"name":null},{"name":""}]}',
    "cut off before the first item ends": '{"entities":[{"name":"Mira',
    "unclosed reasoning": f"<think>Perhaps {GOOD}",
    "the schema itself": json.dumps(
        {
            "$defs": {"E": {"type": "object"}},
            "type": "object",
            "properties": {"entities": {"type": "array", "items": {"$ref": "#/$defs/E"}}},
        }
    ),
}


@pytest.mark.parametrize(("reply", "expected"), READABLE.values(), ids=READABLE.keys())
async def test_a_readable_reply_is_understood_without_a_second_call(
    reply: str, expected: list[tuple[str, str]]
) -> None:
    model = ScriptedModel([reply])

    mentions = await ask_entities(TALK, types=DEFAULT_ENTITY_TYPES, language="en", asker=asker_for(model))

    assert [(mention.name, mention.type_name) for mention in mentions] == expected
    assert len(model.calls) == 1


@pytest.mark.parametrize("reply", UNREADABLE.values(), ids=UNREADABLE.keys())
async def test_an_unusable_reply_is_asked_for_once_more_and_shorter(reply: str) -> None:
    model = ScriptedModel([reply, GOOD])
    asker = asker_for(model)

    mentions = await ask_entities(TALK, types=DEFAULT_ENTITY_TYPES, language="en", asker=asker)

    assert [(mention.name, mention.type_name) for mention in mentions] == MIRA_AND_YARD
    assert len(model.prompt(1)) < len(model.prompt(0))
    assert (asker.ledger.usage.calls, asker.ledger.usage.reasked) == (1, 1)


@pytest.mark.parametrize("reply", UNREADABLE.values(), ids=UNREADABLE.keys())
async def test_two_unusable_replies_raise_an_error_that_names_the_question(reply: str) -> None:
    model = ScriptedModel([reply])

    with pytest.raises(LLMAnswerError) as caught:
        await ask_entities(TALK, types=DEFAULT_ENTITY_TYPES, language="en", asker=asker_for(model, tries=5))

    assert (caught.value.question, caught.value.reply, len(model.calls)) == ("entities", reply, 2)


async def test_what_is_left_out_is_told() -> None:
    asker = asker_for(ScriptedModel(['{"entities":[{"name":"Mira Holt","type":"Human"},{"name":"2019"},{"name":"Fe']))

    await ask_entities(TALK, types=DEFAULT_ENTITY_TYPES, language="en", asker=asker)

    assert any("cut off" in warning for warning in asker.ledger.warnings)
    assert "Dropped from EntityExtraction: 2019 (a date, not a name)" in asker.ledger.warnings


async def test_a_name_is_cut_at_a_character_within_500_bytes() -> None:
    text = "长" * 300
    asker = asker_for(ScriptedModel([{"entities": [{"name": text, "type": "Entity"}]}]))

    (mention,) = await ask_entities(
        SourceText(text, EpisodeType.DOCUMENT), types=DEFAULT_ENTITY_TYPES, language="cn", asker=asker
    )

    assert mention.name == "长" * 166
    assert any("cut to 500 bytes" in warning for warning in asker.ledger.warnings)


@pytest.mark.parametrize(
    "name", ["🦊 狐狸实验室\u200d(Fox\nLabs)", '{"name":"张三"}', "year 1", 'Café "Le Coq" \\Annex\\']
)
async def test_an_odd_name_is_kept_but_for_its_line_breaks(name: str) -> None:
    asker = asker_for(ScriptedModel([{"entities": [{"name": name, "type": "Entity"}]}]))

    (mention,) = await ask_entities(TALK, types=DEFAULT_ENTITY_TYPES, language="cn", asker=asker)

    assert mention.name == name.replace("\n", " ")


async def test_a_name_of_the_example_counts_when_the_text_has_it() -> None:
    source = SourceText("Oye laran wrote.", EpisodeType.DOCUMENT)
    asker = asker_for(ScriptedModel([{"entities": [{"name": "Oyelaran", "type": "Human"}]}]))

    mentions = await ask_entities(source, types=DEFAULT_ENTITY_TYPES, language="en", asker=asker)

    assert [mention.name for mention in mentions] == ["Oyelaran"]


PLACES = (Mention("Mira Holt", "Human"), Mention("Fern Yard", "Entity"), Mention("Sam", "Human"), Mention("Sam", "AI"))
KEEPS = {"fact": "Mira Holt keeps bees at Fern Yard", "name": "keeps_bees_at"}
ENDS = {
    "names": ({"source": "Mira Holt", "target": "Fern Yard"}, (0, 1)),
    "names in other case and width": ({"source": "ＭＩＲＡ holt", "target": "fern  yard"}, (0, 1)),
    "numbers": ({"source": 1, "target": 2}, (0, 1)),
    "numbers as strings": ({"source_id": "1", "target_id": "2"}, (0, 1)),
    "numbers as floats": ({"source_id": 1.0, "target_id": 2.0}, (0, 1)),
    "listed lines": ({"source": "[1] Mira Holt", "target": "[2] Fern Yard"}, (0, 1)),
    "bracketed numbers": ({"from": "[1]", "to": "[2]"}, (0, 1)),
    "objects": ({"source": {"id": 1}, "target": {"name": "Fern Yard"}}, (0, 1)),
    "label with type": ({"source": "Mira Holt", "target": "Sam (AI)"}, (0, 3)),
    "name with its type": ({"source": "Mira Holt (Human)", "target": "Fern Yard"}, (0, 1)),
    "the same thing twice": ({"source": "Mira Holt", "target": "Mira Holt"}, (0, 0)),
}


@pytest.mark.parametrize(("ends", "expected"), ENDS.values(), ids=ENDS.keys())
async def test_the_ends_of_a_relation_are_understood(ends: dict[str, object], expected: tuple[int, int]) -> None:
    asker = asker_for(ScriptedModel([{"relations": [{**KEEPS, **ends}]}]))

    (fact,) = await ask_relations(TALK, mentions=PLACES, types=(), language="en", asker=asker)

    assert (fact.source, fact.target, fact.name) == (*expected, "keeps_bees_at")


async def test_bad_relations_are_dropped_one_by_one() -> None:
    good = {**KEEPS, "source": "Mira Holt", "target": "Fern Yard", "valid_since": "last Friday", "valid_until": "null"}
    replies = [
        {
            "relations": [
                good,
                {**good, "target": 99},
                {**good, "fact": " "},
                "Mira likes Sam",
                None,
                {"name": None},
                good,
            ]
        }
    ]
    asker = asker_for(ScriptedModel(replies))

    facts = await ask_relations(TALK, mentions=PLACES, types=(), language="en", asker=asker)

    assert [(fact.content, fact.since_words, fact.until_words) for fact in facts] == [
        (KEEPS["fact"], "last Friday", "")
    ]
    assert sum("Dropped from RelationExtraction" in warning for warning in asker.ledger.warnings) == 5


async def test_one_sentence_with_end_after_end_is_one_fact() -> None:
    loop = [{**KEEPS, "source": "Mira Holt", "target": number} for number in (3, 4, 2, 1)]
    asker = asker_for(ScriptedModel([{"relations": loop}]))

    facts = await ask_relations(TALK, mentions=PLACES, types=(), language="en", asker=asker)

    assert [(fact.source, fact.target) for fact in facts] == [(0, 1)]


async def test_a_relation_cut_in_its_sentence_is_not_kept() -> None:
    cut = '{"extracted_relations": [{"name": "keeps_bees_at", "fact": "Mira Holt '
    good = {"extracted_relations": {**KEEPS, "source_id": 1, "target_id": "2"}}
    model = ScriptedModel([cut, good])

    facts = await ask_relations(TALK, mentions=PLACES, types=(), language="en", asker=asker_for(model))

    assert [fact.content for fact in facts] == [KEEPS["fact"]]
    assert len(model.calls) == 2


ZONES = {
    "IANA": ('{"place":"Gore","timezone":"Pacific/Auckland"}', "Pacific/Auckland"),
    "other case": ('{"place":null,"timezone":"asia/shanghai"}', "Asia/Shanghai"),
    "offset": ('{"place":null,"timezone":"+05:30"}', "UTC+05:30"),
    "offset with UTC": ('{"timezone":"UTC+8"}', "UTC+08:00"),
    "another product's keys": (
        '{"extracted_relations":[{"name":"Asia/Kolkata","offset_from_utc":"+05:30"}]}',
        "Asia/Kolkata",
    ),
    "a bad name beside a good offset": ('[{"name":"Somewhere","offset_from_utc":"-03:00"}]', "UTC-03:00"),
    "wrong sign for a named city": ('{"place":"Shanghai","timezone":"-08:00"}', "Asia/Shanghai"),
    "null": ('{"place":null,"timezone":null}', "None"),
    "null in quotes": ('{"place":"null","timezone":"None"}', "None"),
    "no such zone": ('{"place":"Moon","timezone":"Moon/Base"}', "None"),
    "a path": ('{"timezone":"../../etc/passwd"}', "None"),
    "offset out of range": ('{"timezone":"+25:00"}', "None"),
    "nothing predicted": ('{"extracted_relations":[]}', "None"),
    "no JSON": ("I cannot tell.", "None"),
}


@pytest.mark.parametrize(("reply", "expected"), ZONES.values(), ids=ZONES.keys())
async def test_a_time_zone_is_right_or_none(reply: str, expected: str) -> None:
    zone = await ask_timezone(TALK, language="en", asker=asker_for(ScriptedModel([reply])))

    assert str(zone) == expected


def test_numbers_are_read_in_any_dress() -> None:
    dresses: list[JsonValue] = [3, 3.0, "3", " [3] ", "3.0", "id 3", {"id": "3"}, True, None, 3.5, "x"]

    assert [read_id(value) for value in dresses] == [3, 3, 3, 3, 3, 3, 3, None, None, None, None]
    assert read_ids(["3", 3, "none", None, {"id": 4}]) == [3, 4]
    assert read_ids("[3, 5]") == [3, 5]
    assert read_ids(7) == [7]


def test_the_first_of_two_equal_keys_counts() -> None:
    assert parse_reply('{"1":"same","2":"same","1":"different"}').values == ({"1": "same", "2": "same"},)
