"""The ways of extraction: what each asks, how often, and the graph that its answers become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest

from jiuwen_memory import AddMemStrategy, EntityDef, EpisodeType, GraphMemory, GraphMemUpdate, RelationDef
from jiuwen_memory.errors import LLMAnswerError
from jiuwen_memory.memory_core.config.graph import Extraction, Language
from jiuwen_memory.memory_core.graph.extraction.base import Words
from jiuwen_memory.testing import FakeLLM, fake_memory, same_as, verdicts
from tests.memory_support import MAY, all_entities, all_relations, entities, model_of, nothing_is_stored, problems

METHODS: tuple[Extraction, ...] = get_args(Extraction)
ASKED_FIRST = {
    "staged": "EntityExtraction",
    "openie": "OpenInformation",
    "episodic": "EpisodicFacts",
    "episodic_gist": "GistExtraction",
    "temporal": "TemporalFacts",
}


def triple(subject: str, predicate: str, target: str, **further: Any) -> dict[str, Any]:
    return {"subject": subject, "predicate": predicate, "object": target, **further}


def things(**types: str) -> list[dict[str, str]]:
    return [{"name": name.replace("_", " "), "type": kind} for name, kind in types.items()]


def script(*, sentence: str = "Ravi wants to build a search page.", target: str = "search page") -> dict[str, Any]:
    """Answers of every method to one text: Ravi, a thing, and one fact between them."""
    listed = [{"name": "Ravi", "type": "Human"}, {"name": target, "type": "Entity"}]
    fact = triple("Ravi", "wants", target, fact=sentence)
    staged = {"fact": sentence, "name": "wants", "source": "Ravi", "target": target}
    return {
        "EntityExtraction": {"entities": listed},
        "RelationExtraction": {"relations": [{**staged, "valid_since": None, "valid_until": None}]},
        "OpenInformation": {"entities": listed, "triples": [triple("Ravi", "wants", target)]},
        "EpisodicFacts": {"entities": listed, "facts": [{**fact, "said_by": None, "qualifiers": []}]},
        "TemporalFacts": {"entities": listed, "facts": [{**fact, "time": None, "until": None}]},
        "GistExtraction": {"gists": ["Ravi asked for a search page."], "entities": listed},
        "GistFacts": {"facts": [{**fact, "said_by": None, "qualifiers": []}]},
    }


def memory_of(
    method: Extraction, replies: Mapping[str, Any], *, language: Language = "en", **changes: Any
) -> GraphMemory:
    strategy = AddMemStrategy(extraction=method, chinese_entity=False, **changes)
    return fake_memory(llm=FakeLLM(replies), strategy=strategy, language=language)


async def add(memory: GraphMemory, text: str = "Ravi wants to build a search page.", **options: Any) -> GraphMemUpdate:
    return await memory.add_memory(EpisodeType.DOCUMENT, "ann", text, **options)


def names_of(update: GraphMemUpdate) -> list[str]:
    return sorted(each.name for each in update.added_entity)


def edges_of(update: GraphMemUpdate) -> list[tuple[str, str, str]]:
    names = {each.uuid: each.name for each in update.added_entity}
    return [(names[each.lhs], each.name, names[each.rhs]) for each in update.added_relation]


# --- examples like those of REMem's pages -----------------------------------------------------------------------------


async def test_openie_makes_things_and_triples_of_a_document_with_its_dates_as_things() -> None:
    reply = {
        "entities": things(Ida_Falk="Human", Falk_Scale="Entity"),
        "triples": [triple("Ida Falk", "devised", "Falk Scale"), triple("Falk Scale", "devised in", "1931")],
    }

    update = await add(memory_of("openie", {"OpenInformation": reply}), "Ida Falk devised the Falk Scale in 1931.")

    assert names_of(update) == ["1931", "Falk Scale", "Ida Falk"]
    assert edges_of(update) == [("Ida Falk", "devised", "Falk Scale"), ("Falk Scale", "devised in", "1931")]
    assert [each.content for each in update.added_relation] == [
        "Ida Falk devised Falk Scale",
        "Falk Scale devised in 1931",
    ]
    assert {each.name: each.obj_type for each in update.added_entity}["Ida Falk"] == "Human"
    assert [each.content for each in update.added_episode] == ["Ida Falk devised the Falk Scale in 1931."]


async def test_openie_joins_chinese_triples_without_spaces() -> None:
    reply = {"entities": [], "triples": [["费怡", "提出", "费氏量表"], ["费氏量表", "提出于", "1931年"]]}

    update = await add(memory_of("openie", {"OpenInformation": reply}, language="cn"), "1931年，费怡提出了费氏量表。")

    assert names_of(update) == ["1931年", "费怡", "费氏量表"]
    assert [each.content for each in update.added_relation] == ["费怡提出费氏量表", "费氏量表提出于1931年"]


@pytest.mark.parametrize("language", ["en", "cn"])
async def test_episodic_keeps_what_each_side_of_a_talk_wants_and_offers(language: Language) -> None:
    person, helper, page = ("User", "Assistant", "search page") if language == "en" else ("用户", "助手", "搜索页")
    text = f"{person}: {page}?\n{helper}: {page}!"
    reply = {
        "entities": [],
        "facts": [
            triple(person, "wants to build", page, fact=f"{person} wants to build a {page}."),
            triple(helper, "offers help with", page, fact=f"{helper} offers help with the {page}.", qualifiers=[]),
        ],
    }

    update = await add(memory_of("episodic", {"EpisodicFacts": reply}, language=language), text)

    assert names_of(update) == sorted([person, helper, page])
    assert edges_of(update) == [(person, "wants to build", page), (helper, "offers help with", page)]
    assert [each.qualifiers for each in update.added_relation] == [{}, {}]
    assert [each.episodes for each in update.added_relation] == [[update.added_episode[0].uuid]] * 2


async def test_episodic_keeps_who_said_it_if_messages_tell_who_speaks() -> None:
    facts = [
        triple("Bo", "lives in", "Wells", fact="Bo lives in Wells.", said_by="Ada"),
        triple("Ada", "likes", "Wells", fact="Ada likes Wells.", said_by="the postman"),
        triple("I", "fear", "geese", fact="Ada fears geese.", said_by="ada"),
    ]
    memory = memory_of("episodic", {"EpisodicFacts": {"entities": [], "facts": facts}})
    said = [{"role": "user", "name": "Ada", "content": "Bo lives in Wells. I like it, but I fear geese."}]

    update = await memory.add_memory(EpisodeType.CONVERSATION, "ann", said)

    assert [each.qualifiers for each in update.added_relation] == [{"said_by": "Ada"}, {}, {"said_by": "Ada"}]
    assert edges_of(update)[2] == ("Ada", "fear", "geese")


async def test_episodic_gist_links_text_to_gists_to_facts_to_things() -> None:
    gists = ["Ravi asked for help with a search page.", "They spoke of searching."]
    replies = {
        **script(),
        "GistExtraction": {"gists": gists, "entities": things(Ravi="Human", search_page="Entity")},
        "GistFacts": {
            "facts": [
                triple(
                    "Ravi",
                    "wants to build",
                    "search page",
                    fact="Ravi wants to build a search page.",
                    qualifiers=[{"key": "intent", "value": "request help"}],
                )
            ]
        },
    }
    memory = memory_of("episodic_gist", replies)

    update = await add(memory, "Ravi: Can you help me with a search page?")

    verbatim, first, second = update.added_episode
    assert [(each.obj_type, each.content) for each in (first, second)] == [("GIST", gist) for gist in gists]
    assert [each.parents for each in update.added_episode] == [[], [verbatim.uuid], [verbatim.uuid]]
    (fact,) = update.added_relation
    assert fact.episodes == [verbatim.uuid, first.uuid, second.uuid]
    assert (fact.qualifiers, fact.mention_count) == ({"intent": "request help"}, 1)
    assert sorted(verbatim.entities) == sorted(each.uuid for each in update.added_entity)
    assert all(gist in model_of(memory).asked("GistFacts")[0].text for gist in gists)
    assert (await memory.check("ann")).is_clean


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("en", "On March 15, 2024, the team deployed version 2.0.", "March 15, 2024"),
        ("cn", "2024年3月15日，team部署了version 2.0。", "2024年3月15日"),
    ],
)
async def test_temporal_anchors_a_fact_in_time(language: Language, text: str, words: str) -> None:
    fact = triple("team", "deployed", "version 2.0", fact="team deployed version 2.0", time=words, until=None)
    memory = memory_of("temporal", {"TemporalFacts": {"entities": [], "facts": [fact]}}, language=language)

    update = await add(memory, text)

    (stored,) = update.added_relation
    assert names_of(update) == ["team", "version 2.0"]
    assert stored.qualifiers == {"time": "2024-03-15"}
    assert (stored.valid_since, stored.precision_since) == (1_710_460_800, "day")


async def test_temporal_words_count_from_the_time_of_the_text_and_stay_words_if_nobody_can_read_them() -> None:
    facts = [
        triple("Ida", "moved to", "Wells", fact="Ida moved to Wells.", time="last Friday", until=None),
        triple("Ida", "sang in", "Wells", fact="Ida sang in Wells.", time="2019", until="2021"),
        triple("Ida", "met", "Bo", fact="Ida met Bo.", time="when the geese came", until=None),
        triple("Ida", "was born in", "1990", fact="Ida was born in 1990."),
    ]
    text = "Last Friday Ida moved to Wells, where she sang from 2019 to 2021 and met Bo when the geese came. Born 1990."

    update = await add(memory_of("temporal", {"TemporalFacts": {"facts": facts}}), text, reference_time=MAY)

    assert [each.qualifiers.get("time") for each in update.added_relation] == [
        "2026-05-01",
        "2019/2021",
        "when the geese came",
        "1990",
    ]
    assert "1990" not in names_of(update)
    assert update.added_relation[2].valid_since is None


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
