"""What callers hand in: nothing, parts, tool calls, system prompts, JSON of every shape."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from jiuwen_memory import EpisodeType
from jiuwen_memory.errors import InvalidInputError
from tests.cases.world import AUTUMN, CONVERSATION, DOCUMENT, JSON, USER, assert_nothing_is_stored, say, scripted
from tests.memory_support import all_entities, all_episodes, entities, facts


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (DOCUMENT, ""),
        (DOCUMENT, " \r\n\t\u3000\u00a0"),
        (DOCUMENT, "\x00"),
        (CONVERSATION, []),
        (CONVERSATION, [{"role": "user", "content": " "}, {"role": "assistant", "content": ""}]),
        (CONVERSATION, [{"role": "system", "content": "Be brief."}]),
        (JSON, "{}"),
        (JSON, " [ ] "),
        (JSON, {}),
        (JSON, "null"),
        (JSON, '""'),
    ],
)
async def test_nothing_to_remember_is_refused_before_anything_is_asked(kind: EpisodeType, content: Any) -> None:
    """Case 36"""
    mind = scripted({"EntityExtraction": {"entities": [{"name": "", "type": "Entity"}]}})

    with pytest.raises(InvalidInputError, match="content is empty"):
        await mind.memory.add_memory(kind, USER, content, reference_time=AUTUMN)

    assert (mind.llm.calls, mind.embedder.calls) == (0, 0)
    await assert_nothing_is_stored(mind)


@pytest.mark.parametrize("query", ["", "  \n", "\u3000"])
async def test_a_blank_query_is_refused_before_anything_is_embedded(query: str) -> None:
    """Case 36"""
    mind = scripted({})

    with pytest.raises(InvalidInputError, match="query"):
        await mind.memory.search(query, USER)

    assert mind.embedder.calls == 0


async def test_an_entity_without_a_name_is_dropped() -> None:
    """Case 36"""
    mind = scripted({"EntityExtraction": {"entities": [{"name": " "}, {"name": "Larch Croft"}]}})

    await say(mind, "Larch Croft.")

    assert set(await all_entities(mind.memory, USER)) == {"Larch Croft"}


async def test_parts_calls_of_tools_and_empty_turns_become_readable_lines() -> None:
    """Case 37"""
    talk: list[Any] = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Get me the 7:15 to Brugge"},
                {"type": "image_url", "image_url": {"url": "https://example.org/map.png"}},
                {"type": "text", "text": "for Nils Rey."},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "buy", "arguments": '{"at":"7:15"}'}}],
        },
        {"role": "tool", "tool_call_id": "t1", "content": '{"coach": 3}'},
        AIMessage("", tool_calls=[{"name": "buy", "args": {}, "id": "t2"}]),
        AIMessage(""),
        HumanMessage("Good."),
    ]
    mind = scripted(
        {
            "EntityExtraction": entities({"Nils Rey": "Human", "Brugge": "Entity"}),
            "RelationExtraction": facts(("Nils Rey", "travels to", "Brugge", "Nils Rey travels to Brugge.")),
        }
    )

    await say(mind, talk)

    (episode,) = await all_episodes(mind.memory, USER)
    lines = episode.content.split("\n")
    assert "Get me the 7:15 to Brugge" in lines[0]
    assert "for Nils Rey." in lines
    assert lines[-1] == "user: Good."
    for text in (episode.content, *(prompt.text for prompt in mind.llm.prompts)):
        assert "[{'" not in text
        assert "{'type'" not in text
        assert "assistant: None" not in text
        assert not any(line.rstrip() in ("None", "assistant:") for line in text.split("\n"))


async def test_every_line_carries_its_speaker_and_system_text_is_nobodys() -> None:
    """Case 38"""
    talk = [
        {"role": "system", "content": "You are Quirin. Known so far: the user likes polka."},
        {"role": "user", "content": "Tell me to mend the fence."},
        {"role": "tool", "content": "weather: 9C in Bergen"},
        {"role": "assistant", "content": "I will."},
    ]
    mind = scripted({"EntityExtraction": entities({"Nils Rey": "Human", "fence": "Entity"})})

    await say(mind, talk, content_fmt_kwargs={"user": "Nils Rey", "assistant": "Quirin"})

    (episode,) = await all_episodes(mind.memory, USER)
    assert episode.content.split("\n") == [
        "Nils Rey: Tell me to mend the fence.",
        "tool: weather: 9C in Bergen",
        "Quirin: I will.",
    ]
    assert episode.speakers == ["Nils Rey", "Quirin"]
    assert episode.content in mind.llm.asked("EntityExtraction")[0].text
    assert not any("polka" in prompt.text for prompt in mind.llm.prompts)


NESTED = (
    '[{"运单": 9007199254740993, "weight": 1e-7, "paid": true, "note": null, '
    '"to": {"name": "Nils Rey", "tags": ["a", 2]}}, [1, [2, [3]]], "x"]'
)


@pytest.mark.parametrize("as_text", [True, False], ids=["as text", "as a value"])
async def test_json_keeps_its_numbers_words_and_characters(as_text: bool) -> None:
    """Case 39"""
    value = [{"运单": 9007199254740993, "paid": True, "note": None, "to": {"name": "Nils Rey"}}, [1, [2, [3]]], "x"]
    mind = scripted({"EntityExtraction": entities({"Nils Rey": "Human", "运单 9007199254740993": "Entity"})})

    await mind.memory.add_memory(JSON, USER, NESTED if as_text else value, reference_time=AUTUMN)

    (episode,) = await all_episodes(mind.memory, USER)
    assert all(part in episode.content for part in ('"运单": 9007199254740993', '"paid": true', '"note": null'))
    assert "\\u" not in episode.content
    assert set(await all_entities(mind.memory, USER)) == {"Nils Rey", "运单 9007199254740993"}
