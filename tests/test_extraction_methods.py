"""The ways of extraction: what each asks, how often, and the graph that its answers become."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from jiuwen_memory import AddMemStrategy, EntityDef, EpisodeType, GraphMemory, RelationDef
from jiuwen_memory.errors import LLMAnswerError
from jiuwen_memory.memory_core.config.graph import Extraction, Language
from jiuwen_memory.memory_core.graph.extraction.base import Words
from jiuwen_memory.testing import FakeLLM, fake_memory, same_as, verdicts
from tests.memory_support import all_entities, all_relations, entities, model_of, nothing_is_stored, problems
from tests.methods_support import add, edges_of, memory_of, names_of, script, triple

METHODS: tuple[Extraction, ...] = get_args(Extraction)
ASKED_FIRST = {
    "staged": "EntityExtraction",
    "openie": "OpenInformation",
    "episodic": "EpisodicFacts",
    "episodic_gist": "GistExtraction",
    "temporal": "TemporalFacts",
}


# --- what it costs ----------------------------------------------------------------------------------------------------

COSTS = {"staged": (4, 3), "openie": (2, 2), "episodic": (3, 2), "episodic_gist": (4, 3), "temporal": (3, 2)}


@pytest.mark.parametrize("language", ["en", "cn"])
@pytest.mark.parametrize("method", METHODS)
async def test_a_method_asks_so_often_on_an_empty_graph(method: Extraction, language: Language) -> None:
    memory = memory_of(method, script(), language=language)

    update = await add(memory)

    assert (update.usage.calls, update.usage.rounds) == COSTS[method]
    assert (model_of(memory).calls, update.usage.reasked, update.warnings) == (COSTS[method][0], 0, [])
    assert names_of(update) == ["Ravi", "search page"]
    assert edges_of(update) == [("Ravi", "wants", "search page")]


@pytest.mark.parametrize("method", METHODS)
async def test_no_method_asks_more_than_seven_times_in_three_rounds_on_a_filled_graph(method: Extraction) -> None:
    replies = script()
    memory = memory_of(method, replies)
    await add(memory)
    second = script(sentence="Ravi no longer wants the search screen.", target="search screen")
    model_of(memory).replies = {
        **second,
        "EntityDuplication": same_as({"search screen": ["search page"], "Ravi": ["Ravi"]}),
        "RelationVerdicts": verdicts(contradicts={"Ravi": ["Ravi"]}),
    }

    update = await add(memory, "Ravi no longer wants the search screen.")

    assert update.usage.calls <= 7 and update.usage.rounds <= 3
    assert set(await all_entities(memory)) == {"Ravi", "search page"}
    assert len(await all_relations(memory)) == 2
    assert sum(bool(each.superseded_by) for each in (await all_relations(memory)).values()) == 1
    assert await problems(memory) == []
    assert (await memory.check("ann")).is_clean


@pytest.mark.parametrize("method", METHODS)
async def test_the_same_text_again_counts_the_facts_it_holds(method: Extraction) -> None:
    memory = memory_of(method, script())

    await add(memory)
    await add(memory)

    (fact,) = (await all_relations(memory)).values()
    assert fact.mention_count == 2
    assert {each.mention_count for each in (await all_entities(memory)).values()} == {2}
    assert (await memory.check("ann")).is_clean


@pytest.mark.parametrize("method", METHODS)
async def test_nothing_found_leaves_the_text_alone(method: Extraction) -> None:
    update = await add(memory_of(method, {}))

    assert [each.obj_type for each in update.added_episode] == ["DOCUMENT"]
    assert not update.added_entity and not update.added_relation


@pytest.mark.parametrize("method", METHODS)
async def test_a_method_asks_in_the_language_the_strategy_says(method: Extraction) -> None:
    plain = memory_of(method, script())
    chinese = memory_of(method, script(), chinese_relation=True)

    await add(plain)
    await add(chinese)

    question = "RelationExtraction" if method == "staged" else ASKED_FIRST[method]
    assert "请" not in model_of(plain).asked(question)[0].text
    assert "请" in model_of(chinese).asked(question)[0].text


@pytest.mark.parametrize("method", METHODS)
async def test_a_budget_leaves_its_calls_to_the_questions_of_the_method(method: Extraction) -> None:
    essential = 2 if method in ("staged", "episodic_gist") else 1
    memory = memory_of(method, script(), max_llm_calls=essential)

    update = await add(memory)

    assert edges_of(update) == [("Ravi", "wants", "search page")]
    assert model_of(memory).calls == essential
    assert update.warnings or method == "openie"


# --- replies as weak models give them ---------------------------------------------------------------------------------

LISTED = '{"name":"Ravi","type":"Human"},{"name":"search page","type":"Entity"}'
FACT = '{"fact":"Ravi wants a search page.","subject":"Ravi","predicate":"wants","object":"search page"'
MALFORMED = {
    "fenced, with chatter": '<think>hm</think>Sure:\n```json\n{"entities":[LISTED],"facts":[FACT}]}\n```',
    "facts without things": '{"facts":[FACT}]}',
    "under another name": '{"entities":[LISTED],"relations":[FACT}]}',
    "wrapped": '{"result":{"entities":[LISTED],"facts":[FACT}]}}',
    "cut off": '{"entities":[LISTED],"facts":[FACT},{"fact":"Ravi is',
    "triples as lists": '{"entities":[LISTED],"triples":[["Ravi","wants","search page"]]}',
    "other names of fields": '{"facts":[{"source":"Ravi","relation":"wants","target":"search page"}]}',
    "bare list of facts": "[FACT}]",
    "bad ones among them": '{"facts":[FACT},{"fact":"x","subject":"it","predicate":"is","object":"they"},7,null]}',
    "placeholders": '{"facts":[FACT,"said_by":"null","qualifiers":[{"key":"place","value":"unknown"}]}]}',
}


@pytest.mark.parametrize("reply", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.parametrize("method", ["openie", "episodic", "temporal"])
async def test_a_malformed_reply_gives_what_is_good_in_it(method: Extraction, reply: str) -> None:
    told = reply.replace("LISTED", LISTED).replace("FACT", FACT)

    update = await add(memory_of(method, {ASKED_FIRST[method]: told}))

    assert edges_of(update) == [("Ravi", "wants", "search page")]
    assert update.added_relation[0].qualifiers == {}
    assert update.usage.reasked == 0


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "7" * 30, "7" * 5000], ids=lambda each: each[:30])
@pytest.mark.parametrize("method", ["episodic", "episodic_gist", "temporal"])
async def test_a_number_that_no_store_can_hold_costs_nothing_but_itself(method: Extraction, number: str) -> None:
    further = f'"time":{number},"qualifiers":{{"weight":{number},"place":"Turin"}}'
    told = f'{{"entities":[{LISTED}],"facts":[{FACT},{further}}}]}}'
    replies = {**script(), "GistFacts" if method == "episodic_gist" else ASKED_FIRST[method]: told}

    update = await add(memory_of(method, replies), "Ravi wants to build a search page in Turin.")

    assert edges_of(update) == [("Ravi", "wants", "search page")]
    (fact,) = update.added_relation
    assert fact.qualifiers["place"] == "Turin" and fact.valid_since is None
    assert all(isinstance(each, str) for each in fact.qualifiers.values())


@pytest.mark.parametrize("reply", ["I cannot.", "", '{"facts":[{"fact":"x"}]}', "{}"])
@pytest.mark.parametrize("method", METHODS)
async def test_a_reply_with_nothing_usable_is_asked_for_once_more_then_nothing_is_stored(
    method: Extraction, reply: str
) -> None:
    memory = memory_of(method, {ASKED_FIRST[method]: reply})

    with pytest.raises(LLMAnswerError):
        await add(memory)

    assert len(model_of(memory).asked(ASKED_FIRST[method])) == 2
    assert await nothing_is_stored(memory)


async def test_what_is_copied_from_the_prompt_is_left_out() -> None:
    facts = [
        triple("Ffion", "met", "Oyelaran", fact="Ffion met Oyelaran."),
        triple("Ravi", "wants", "Oyelaran", fact="Ravi wants Oyelaran."),
        triple(
            "Ravi",
            "wants",
            "search page",
            fact="Ravi wants a search page.",
            qualifiers=[{"key": "place", "value": "Tromso"}],
        ),
    ]

    update = await add(memory_of("episodic", {"EpisodicFacts": {"facts": facts}}))

    assert edges_of(update) == [("Ravi", "wants", "search page")]
    assert update.added_relation[0].qualifiers == {}
    assert sum("copied from the prompt" in warning or "no name" in warning for warning in update.warnings) == 3


async def test_half_a_sentence_is_no_thing_but_stays_in_the_fact() -> None:
    long = "to build something that finds everything anybody has ever put on a page"
    facts = [triple("Ravi", "wants", long, fact=f"Ravi wants {long}."), triple("Ravi", "says", "Hello you!")]

    update = await add(memory_of("episodic", {"EpisodicFacts": {"facts": facts}}), f"Ravi wants {long}. Hello you!")

    assert names_of(update) == ["Ravi"]
    assert [each.obj_type for each in update.added_relation] == ["EntityFact", "EntityFact"]
    assert update.added_relation[0].content == f"Ravi wants {long}."


@pytest.mark.parametrize("ends", [(1, 2), ("1", "2"), ("[1]", "[2]"), ("[1] Ravi", "[2] search page")], ids=repr)
async def test_gist_facts_may_name_things_by_the_numbers_they_are_listed_under(ends: tuple[Any, Any]) -> None:
    fact = triple(ends[0], "wants", ends[1], fact="Ravi wants a search page.")

    update = await add(memory_of("episodic_gist", {**script(), "GistFacts": {"facts": [fact]}}))

    assert edges_of(update) == [("Ravi", "wants", "search page")]
    assert [(each.qualifiers, each.valid_since) for each in update.added_relation] == [({}, None)]


@pytest.mark.parametrize(
    ("end", "time"),
    [
        ("42", None),
        ("3.5", None),
        ("1,000", None),
        ("10:1", None),
        ("2024", "2024"),
        ("15 March 2024", "2024-03-15"),
        ("2024年3月", "2024-03"),
    ],
)
@pytest.mark.parametrize("method", ["episodic", "episodic_gist", "temporal"])
async def test_an_end_that_is_a_time_says_when_and_a_number_says_nothing(
    method: Extraction, end: str, time: str | None
) -> None:
    replies = script()
    fact = triple("Ravi", "counted", end, fact=f"Ravi counted {end}.")
    replies["GistFacts" if method == "episodic_gist" else ASKED_FIRST[method]]["facts"] = [fact]

    update = await add(memory_of(method, replies), f"Ravi counted {end}. That is all about Ravi and the search page.")

    (told,) = update.added_relation
    assert told.lhs == told.rhs
    assert str(told.qualifiers.get("time", ""))[:7] == (time or "")[:7]
    assert (told.valid_since is None) == (time is None)


@pytest.mark.parametrize("method", ["episodic", "temporal"])
async def test_a_number_is_a_thing_only_where_both_ends_are_numbers(method: Extraction) -> None:
    replies = script()
    numbered = {"subject": 1, "predicate": "wants", "object": 2, "fact": "Ravi wants a search page."}
    replies[ASKED_FIRST[method]]["facts"] = [triple("Ravi", "has", "2", fact="Ravi has 2."), numbered]

    update = await add(memory_of(method, replies), "Ravi wants a search page. Ravi has 2.")

    assert edges_of(update) == [("Ravi", "has", "Ravi"), ("Ravi", "wants", "search page")]
    assert [(each.qualifiers, each.valid_since) for each in update.added_relation] == [({}, None)] * 2


async def test_gist_facts_keep_to_the_listed_things() -> None:
    replies = {**script(), "GistFacts": {"facts": [*script()["GistFacts"]["facts"], triple("Ravi", "met", "Nobody")]}}
    memory = memory_of("episodic_gist", replies)

    update = await add(memory)

    schema: Any = model_of(memory).asked("GistFacts")[0].schema
    ends = schema["properties"]["facts"]["items"]["properties"]["subject"]
    assert ends["enum"] == ["Ravi", "search page"]
    assert names_of(update) == ["Ravi", "search page"]


async def test_a_schema_offers_the_speakers_there_are() -> None:
    memory = memory_of("episodic", {})
    said = [{"role": "user", "name": "Ada", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]

    await memory.add_memory(EpisodeType.CONVERSATION, "ann", said)
    await add(memory)

    schemas: list[Any] = [prompt.schema for prompt in model_of(memory).asked("EpisodicFacts")]
    shown, silent = (each["properties"]["facts"]["items"]["properties"] for each in schemas)
    assert shown["said_by"] == {"anyOf": [{"enum": ["Ada", "assistant"]}, {"type": "null"}]}
    assert "said_by" not in silent


class Wants(RelationDef):
    """A wish, as a type of relation."""

    name = "wants"
    description = Words(en="somebody wishes for something", cn="想要")


@pytest.mark.parametrize("method", ["openie", "episodic", "episodic_gist", "temporal"])
async def test_relation_types_of_the_user_are_offered_as_predicates(method: Extraction) -> None:
    strategy = AddMemStrategy(extraction=method, chinese_entity=False)
    replies = script()
    for answer in replies.values():
        for fact in [*answer.get("facts", ()), *answer.get("triples", ())]:
            fact["predicate"] = "WANTS"
    memory = fake_memory(llm=FakeLLM(replies), strategy=strategy, relation_types=[Wants])

    update = await add(memory)

    assert [each.name for each in update.added_relation] == ["wants"]
    assert any("somebody wishes for something" in prompt.text for prompt in model_of(memory).prompts)


class Dish(EntityDef):
    """A dish."""

    name = "Dish"
    description = Words(en="a dish", cn="菜")


@pytest.mark.parametrize("method", ["openie", "episodic", "episodic_gist", "temporal"])
async def test_a_closed_set_of_types_leaves_out_what_is_of_none(method: Extraction) -> None:
    strategy = AddMemStrategy(extraction=method, chinese_entity=False)
    replies = script()
    for answer in replies.values():
        answer.get("entities", []).append({"name": "Larb", "type": "Dish"})
        for key in {"facts", "triples"} & answer.keys():
            answer[key].append(triple("Larb", "wants", "Larb", fact="Larb wants for salt."))
            answer[key].append(triple("Larb", "needs", "Larb", fact="Larb needs salt."))
    memory = fake_memory(
        llm=FakeLLM(replies), strategy=strategy, entity_types=[Dish], relation_types=[Wants], closed_types=True
    )

    update = await add(memory, "Ravi wants a search page; Larb wants for salt.")

    assert names_of(update) == ["Larb"]
    assert edges_of(update) == [("Larb", "wants", "Larb")]
    assert any("no listed type of relation" in warning for warning in update.warnings)


async def test_other_ways_can_be_taken_one_after_the_other_on_one_graph() -> None:
    llm = FakeLLM(script())
    first = fake_memory(llm=llm, strategy=AddMemStrategy(extraction="openie", chinese_entity=False))
    llm.replies["EntityExtraction"] = entities({"Ravi": "Human", "search page": "Entity"})

    await add(first)
    second = GraphMemory(
        first.config,
        llm,
        extraction_strategy=AddMemStrategy(extraction="temporal", chinese_entity=False),
        language="en",
    )
    assert first.embedder is not None
    second.attach_embedder(first.embedder)
    await add(second)

    assert set(await all_entities(second)) == {"Ravi", "search page"}
