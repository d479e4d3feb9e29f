"""Examples like those of REMem's two pages, in other words: the nodes, edges and qualifiers that each is to give."""

from __future__ import annotations

from typing import Any

import pytest

from jiuwen_memory import EPISODE_COLLECTION, AddMemStrategy, Episode, EpisodeType
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.testing import FakeLLM, fake_memory
from tests.memory_support import MAY, all_relations, model_of
from tests.methods_support import add, edges_of, memory_of, names_of, script, things, triple


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
        triple("I", "keep", "hens", fact="Ada keeps hens.", qualifiers=[{"key": "said_by", "value": "ada"}]),
    ]
    memory = memory_of("episodic", {"EpisodicFacts": {"entities": [], "facts": facts}})
    said = [{"role": "user", "name": "Ada", "content": "Bo lives in Wells. I like it, but I fear geese. I keep hens."}]

    update = await memory.add_memory(EpisodeType.CONVERSATION, "ann", said)

    by_ada = {"said_by": "Ada"}
    assert [each.qualifiers for each in update.added_relation] == [by_ada, {}, by_ada, by_ada]
    assert edges_of(update)[2:] == [("Ada", "fear", "geese"), ("Ada", "keep", "hens")]


GIST_EXAMPLES = {
    "en": {
        "text": "Ravi: Can you help me with a search page? Said on 15 January 2024.",
        "gists": ["Ravi asked for help with a search page.", "They spoke of searching."],
        "names": ("Ravi", "search page"),
        "fact": "Ravi wants to build a search page.",
        "time": "15 January 2024",
    },
    "cn": {
        "text": "2024年1月15日，拉维：你能帮我做搜索页吗？",
        "gists": ["拉维请求帮助做搜索页。", "他们谈到搜索。"],
        "names": ("拉维", "搜索页"),
        "fact": "拉维想做搜索页。",
        "time": "2024年1月15日",
    },
}


@pytest.mark.parametrize("language", ["en", "cn"])
async def test_episodic_gist_links_text_to_gists_to_facts_to_things(language: Language) -> None:
    example: dict[str, Any] = GIST_EXAMPLES[language]
    person, page = example["names"]
    asked = [{"key": "intent", "value": "request help"}, {"key": "time", "value": example["time"]}]
    replies: dict[str, Any] = {
        "GistExtraction": {
            "gists": example["gists"],
            "entities": [{"name": person, "type": "Human"}, {"name": page, "type": "Entity"}],
        },
        "GistFacts": {"facts": [triple(person, "wants to build", page, fact=example["fact"], qualifiers=asked)]},
    }
    memory = memory_of("episodic_gist", replies, language=language)

    update = await add(memory, example["text"], reference_time=MAY)

    verbatim, first, second = update.added_episode
    assert [(each.obj_type, each.content) for each in (first, second)] == [("GIST", gist) for gist in example["gists"]]
    assert [each.parents for each in update.added_episode] == [[], [verbatim.uuid], [verbatim.uuid]]
    (fact,) = update.added_relation
    assert edges_of(update) == [(person, "wants to build", page)]
    assert (fact.valid_since, fact.precision_since) == (1_705_276_800, "day")
    assert fact.episodes == [verbatim.uuid, first.uuid, second.uuid]
    assert (fact.qualifiers, fact.mention_count) == ({"intent": "request help", "time": "2024-01-15"}, 1)
    assert sorted(verbatim.entities) == sorted(each.uuid for each in update.added_entity)
    assert all(gist in model_of(memory).asked("GistFacts")[0].text for gist in example["gists"])
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


async def test_each_message_leads_to_the_gists_of_the_talk_and_to_its_own_things() -> None:
    listed = [{"name": "Ravi", "type": "Human"}, {"name": "search page", "type": "Entity"}]
    said = triple("Ravi", "wants", "search page", fact="Ravi wants a search page.", said_by="Ravi")
    replies: dict[str, Any] = {
        "GistExtraction": {"gists": ["Ravi asks for a page."], "entities": listed},
        "GistFacts": {"facts": [said]},
    }
    strategy = AddMemStrategy(extraction="episodic_gist", chinese_entity=False, split_messages=True)
    memory = fake_memory(llm=FakeLLM(replies), strategy=strategy)
    talk = [
        {"role": "user", "name": "Ravi", "content": "Can you help me with a search page?"},
        {"role": "assistant", "name": "Bot", "content": "Gladly."},
    ]

    update = await memory.add_memory(EpisodeType.CONVERSATION, "ann", talk)

    question, answer, gist = update.added_episode
    (fact,) = update.added_relation
    found = {each.name: each.uuid for each in update.added_entity}
    assert gist.parents == [question.uuid, answer.uuid]
    assert fact.episodes == [question.uuid, gist.uuid]
    assert sorted(question.entities) == sorted([found["Ravi"], found["search page"]])
    assert answer.entities == []


async def test_the_same_edge_told_again_grows_heavier_and_leads_to_both_passages() -> None:
    memory = memory_of("openie", script())

    await add(memory)
    await add(memory, "Once more: Ravi wants to build a search page.")

    (edge,) = (await all_relations(memory)).values()
    passages = [each async for each in memory.objects(EPISODE_COLLECTION, "ann") if isinstance(each, Episode)]
    assert edge.mention_count == 2
    assert sorted(edge.episodes) == sorted(each.uuid for each in passages)
    assert all({edge.lhs, edge.rhs} == set(each.entities) for each in passages)


async def test_the_graph_info_counts_what_gists_add() -> None:
    memory = memory_of("episodic_gist", {**script(), "GistExtraction": _two_gists()})

    await add(memory)

    found = await memory.stats("ann")
    assert dict(found.episodes) == {"GIST": 2, "DOCUMENT": 1}
    assert (dict(found.entities), found.relations["fact"]) == ({"Human": 1, "Entity": 1}, 1)
    assert (found.nodes, found.mentions, found.gist_links, found.synonym_links) == (5, 2, 2, 0)
    assert found.edges == 5


def _two_gists() -> dict[str, Any]:
    listed = [{"name": "Ravi", "type": "Human"}, {"name": "search page", "type": "Entity"}]
    return {"gists": ["Ravi asked for a page.", "They spoke of searching."], "entities": listed}
