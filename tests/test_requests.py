"""What `add_memory` takes: kinds of content, users, times, labels, repeats, and inputs of any length."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from uuid import uuid4

import pandas
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.messages import ToolMessage as LangChainToolMessage

from jiuwen_memory import EpisodeType, GraphConfig, GraphStoreStorageConfig
from jiuwen_memory.errors import InvalidInputError, LLMCallError, PartFailedError
from jiuwen_memory.foundation.llm.schema.message import AssistantMessage, UserMessage
from jiuwen_memory.testing import FakeLLM, FakePrompt, Script
from tests.memory_support import ENGLISH, MAY, all_entities, all_episodes, entities, problems, taught

CONVERSATION, DOCUMENT, JSON = EpisodeType.CONVERSATION, EpisodeType.DOCUMENT, EpisodeType.JSON


# --- kinds of content -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "I fly."}, {"role": "assistant", "content": "Where to?"}],
        [UserMessage(content="I fly."), AssistantMessage(content="Where to?")],
        [HumanMessage("I fly."), AIMessage("Where to?")],
        [{"role": "user", "content": [{"type": "text", "text": "I fly."}]}, AIMessage("Where to?")],
        ({"role": "human", "content": "I fly."}, {"role": "ai", "content": "Where to?"}),
        [SystemMessage("Be kind."), HumanMessage("I fly."), AIMessage("Where to?")],
    ],
    ids=["dicts", "ours", "langchain", "parts", "other role names", "with a system message"],
)
async def test_a_conversation_becomes_lines_of_speaker_and_text(messages: Any) -> None:
    mind = taught()

    update = await mind.memory.add_memory(CONVERSATION, "ann", messages)

    (episode,) = update.added_episode
    assert episode.content == "user: I fly.\nassistant: Where to?"
    assert (episode.obj_type, episode.speakers) == ("CONVERSATION", ["user", "assistant"])


async def test_an_image_in_a_message_becomes_a_marker() -> None:
    mind = taught()
    parts = [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]

    update = await mind.memory.add_memory(CONVERSATION, "ann", [{"role": "user", "content": parts}])

    assert update.added_episode[0].content == "user: Look:\n[image]"


async def test_calls_of_tools_and_their_results_are_remembered_but_tools_do_not_speak() -> None:
    mind = taught()
    call = {"name": "weather", "args": {"city": "Oslo"}, "id": "c1", "type": "tool_call"}
    messages = [
        HumanMessage("How is Oslo?"),
        AIMessage("", tool_calls=[call]),
        LangChainToolMessage("4 degrees", tool_call_id="c1"),
    ]

    update = await mind.memory.add_memory(CONVERSATION, "ann", messages)

    (episode,) = update.added_episode
    assert 'calls weather({"city": "Oslo"})' in episode.content
    assert episode.content.endswith("tool weather: 4 degrees")
    assert episode.speakers == ["user", "assistant"]


async def test_roles_and_names_are_replaced_by_the_names_given() -> None:
    mind = taught()
    talk = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "name": "otto", "content": "And me."},
    ]
    names = {"user": "Alice (user)", "assistant": "Support Bot", "otto": "Otto Kern"}

    update = await mind.memory.add_memory(CONVERSATION, "ann", talk, content_fmt_kwargs=names)

    (episode,) = update.added_episode
    assert episode.content == "Alice (user): Hello.\nSupport Bot: Hello.\nOtto Kern: And me."
    assert {name: each.obj_type for name, each in (await all_entities(mind.memory)).items()} == {
        "Alice (user)": "Human",
        "Otto Kern": "Human",
    }


async def test_a_conversation_may_be_a_text_as_well() -> None:
    mind = taught()

    update = await mind.memory.add_memory(CONVERSATION, "ann", "Ada: hello\nBo: hi")

    assert (update.added_episode[0].obj_type, update.added_episode[0].speakers) == ("CONVERSATION", [])


@pytest.mark.parametrize("content", ['{"bird": "苍鹭"}', {"bird": "苍鹭"}])
async def test_json_is_taken_as_text_or_as_a_value_and_stays_readable(content: Any) -> None:
    mind = taught()

    update = await mind.memory.add_memory(JSON, "ann", content)

    assert update.added_episode[0].content == '{"bird": "苍鹭"}'
    assert update.added_episode[0].obj_type == "JSON"
    assert "苍鹭" in mind.llm.asked("EntityExtraction")[0].text


async def test_a_json_list_is_taken() -> None:
    mind = taught()

    update = await mind.memory.add_memory(JSON, "ann", [{"bird": "heron"}, 3, None])

    assert json.loads(update.added_episode[0].content) == [{"bird": "heron"}, 3, None]


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        (DOCUMENT, "", "empty"),
        (DOCUMENT, " \n\t", "empty"),
        (CONVERSATION, [], "empty"),
        (CONVERSATION, [{"role": "system", "content": "Be kind."}], "empty"),
        (DOCUMENT, [{"role": "user", "content": "x"}], "give a text"),
        (DOCUMENT, 7, "give a text"),
        (DOCUMENT, None, "give a text"),
        (CONVERSATION, {"role": "user", "content": "x"}, "list of messages"),
        (CONVERSATION, 7, "list of messages"),
        (CONVERSATION, ["hello"], "Message 0"),
        (CONVERSATION, [{"role": "user"}], "Message 0"),
        (CONVERSATION, [{"content": "x"}], "role"),
        (JSON, "{not json", "not valid JSON"),
        (JSON, {"when": datetime(2026, 1, 1)}, "JSON values only"),
        ("DOCUMENT", "A text.", "EpisodeType"),
    ],
)
async def test_content_that_cannot_be_used_is_refused_with_the_reason(kind: Any, content: Any, reason: str) -> None:
    mind = taught()

    with pytest.raises(InvalidInputError, match=reason):
        await mind.memory.add_memory(kind, "ann", content)

    assert mind.llm.calls == mind.embedder.calls == 0


@pytest.mark.parametrize(
    ("content", "names"), [("A text.", {"user": "Al"}), ([{"role": "user", "content": "x"}], {"user": " "})]
)
async def test_names_for_roles_that_cannot_be_used_are_refused(content: Any, names: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match="content_fmt_kwargs"):
        await taught().memory.add_memory(CONVERSATION, "ann", content, content_fmt_kwargs=names)


async def test_characters_that_no_store_keeps_are_replaced_and_the_update_says_so() -> None:
    mind = taught()

    update = await mind.learn("A \ud800 heron\x00.")

    assert update.added_episode[0].content == "A \ufffd heron."
    assert any("replaced" in warning for warning in update.warnings)


async def test_text_whose_folded_form_is_many_times_longer_is_stored() -> None:
    mind = taught()

    update = await mind.learn("\ufdfa" * 3000)

    assert update.added_episode[0].content == "\ufdfa" * 3000


# --- users ------------------------------------------------------------------------------------------------------------

HOSTILE = [
    "bo'b",
    "bo\\'b",
    'bo"b',
    "%",
    "_",
    "a or 1==1",
    "' or user_id != '",
    "{x}",
    "用户一",
    "🦜" * 32,
    "é",
    "e\u0301",
]


@pytest.mark.parametrize("user", HOSTILE)
async def test_any_printable_user_id_keeps_its_memories_to_itself(user: str) -> None:
    mind = taught()
    for each in HOSTILE:
        await mind.learn(f"Secret of number {HOSTILE.index(each)}.", user=each)

    found = await mind.memory.search("Secret of number", user)

    assert [each.content for _, each in found["EPISODE_COLLECTION"]] == [f"Secret of number {HOSTILE.index(user)}."]
    assert [each.user_id for each in await all_episodes(mind.memory, user)] == [user]


@pytest.mark.parametrize("user", ["", "  ", "x" * 33, "a\nb", "a\x00b", "\ud800", "a\u2028b", None, 7, b"ann"])
async def test_a_user_id_that_cannot_be_one_is_refused_everywhere(user: Any) -> None:
    mind = taught()

    for call in (
        mind.memory.add_memory(DOCUMENT, user, "A text."),
        mind.memory.search("heron", user),
        mind.memory.get("ENTITY_COLLECTION", ["x"], user),
    ):
        with pytest.raises(InvalidInputError) as refusal:
            await call
        assert refusal.value.code == "MEMORY_STORE_VALIDATION_INVALID"

    assert mind.llm.calls == mind.embedder.calls == 0


async def test_the_length_of_user_ids_follows_the_storage_configuration() -> None:
    storage = GraphStoreStorageConfig(user_id=40)
    mind = taught(config=GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64, db_storage_config=storage))

    await mind.learn("A heron.", user="名" * 40)

    found = await mind.memory.search("heron", "名" * 40)
    assert len(found["EPISODE_COLLECTION"]) == 1
    with pytest.raises(InvalidInputError, match="41 characters, at most 40"):
        await mind.learn("A heron.", user="名" * 41)


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "seconds", "offset"),
    [
        (datetime(2026, 5, 8, 9, 30), 1778232600, 0),
        (datetime(2026, 5, 8, 9, 30, tzinfo=UTC), 1778232600, 0),
        (datetime(2026, 5, 8, 9, 30, tzinfo=timezone(timedelta(hours=5, minutes=45))), 1778232600 - 345 * 60, 345),
        (datetime(1, 1, 1), -62135596800, 0),
        (datetime(9999, 12, 31, 23, 59, 59), 253402300799, 0),
        (datetime(1969, 12, 31, 23, 59, 59), -1, 0),
        (datetime(1900, 1, 1), -2208988800, 0),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), -62135596800 - 14 * 3600, 14 * 60),
    ],
)
async def test_a_reference_time_is_utc_seconds_and_an_offset(moment: datetime, seconds: int, offset: int) -> None:
    mind = taught()

    update = await mind.learn("A heron.", reference_time=moment)

    (stored,) = await all_episodes(mind.memory)
    assert (stored.valid_since, stored.offset_since) == (seconds, offset)
    assert stored.valid_since == update.added_episode[0].valid_since


@pytest.mark.parametrize("moment", [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)])
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Shanghai"])
async def test_the_ends_of_the_calendar_work_in_every_zone(moment: datetime, zone: str) -> None:
    mind = taught()
    mind.llm.replies["TimezonePredictions"] = {"place": None, "timezone": zone}

    update = await mind.learn(
        "Tom flew yesterday.",
        types={"Tom": "Human"},
        said=[("Tom", "flew", "Tom", "Tom flew.")],
        since="yesterday",
        until="tomorrow",
        reference_time=moment,
    )

    assert len(update.added_relation) == 1
    assert await problems(mind.memory) == []


@pytest.mark.parametrize("moment", ["2026-05-08", 1778232600, 1.5])
async def test_a_reference_time_that_is_no_datetime_is_refused(moment: Any) -> None:
    with pytest.raises(InvalidInputError, match="reference_time"):
        await taught().learn("A heron.", reference_time=moment)


class Away(tzinfo):
    """A zone with an offset that no zone can have."""

    def utcoffset(self, moment: datetime | None, /) -> timedelta:
        return timedelta(hours=40)

    def dst(self, moment: datetime | None, /) -> None:
        return None

    def tzname(self, moment: datetime | None, /) -> str:
        return "Away"


@pytest.mark.parametrize("moment", [pandas.NaT, datetime(2026, 5, 8, tzinfo=Away())], ids=["NaT", "offset"])
async def test_a_datetime_that_is_no_moment_is_refused(moment: Any) -> None:
    mind = taught()

    for refused in (
        mind.learn("A heron.", reference_time=moment),
        mind.memory.search("heron", "ann", as_of=moment),
        mind.memory.timeline("ann", since=moment),
        mind.memory.triples("ann", known_at=moment),
        mind.memory.delete_before("ann", moment),
    ):
        with pytest.raises(InvalidInputError, match="is no moment"):
            await refused

    assert await all_episodes(mind.memory) == []


async def test_without_a_reference_time_an_episode_is_of_now() -> None:
    mind = taught()
    before = int(datetime.now(UTC).timestamp())

    update = await mind.learn("A heron.")

    moment = update.added_episode[0].valid_since
    assert moment is not None
    assert before <= moment <= int(datetime.now(UTC).timestamp())


# --- labels and repeats -----------------------------------------------------------------------------------------------


async def test_session_source_and_key_are_stored() -> None:
    mind = taught()

    await mind.learn("A heron.", session_id="s-1", source="pond.txt", idempotency_key="k-1")

    (episode,) = await all_episodes(mind.memory)
    assert (episode.session_id, episode.source, episode.idempotency_key) == ("s-1", "pond.txt", "k-1")


@pytest.mark.parametrize("field", ["session_id", "source", "idempotency_key"])
@pytest.mark.parametrize("value", ["x" * 257, "鸟" * 86, "a\x00b", 7])
async def test_a_label_that_does_not_fit_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=field):
        await taught().learn("A heron.", **{field: value})


async def test_the_same_content_of_the_same_given_time_is_a_repeat_and_changes_nothing() -> None:
    mind = taught()
    first = await mind.learn("A heron.", types={"Heron": "Entity"}, reference_time=MAY)
    calls = mind.llm.calls

    second = await mind.learn("A heron.", types={"Heron": "Entity"}, reference_time=MAY)

    assert second.duplicate_of == first.added_episode[0].uuid
    assert second.is_empty
    assert mind.llm.calls == calls
    assert (await all_entities(mind.memory))["Heron"].mention_count == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {}),
        ({"reference_time": MAY}, {"reference_time": MAY.replace(day=9)}),
        ({"reference_time": MAY}, {}),
        ({"idempotency_key": "a"}, {"idempotency_key": "b"}),
        ({"idempotency_key": "a", "reference_time": MAY}, {"idempotency_key": "b", "reference_time": MAY}),
        ({"reference_time": MAY}, {"reference_time": MAY, "user": "ben"}),
    ],
)
async def test_anything_else_is_a_new_episode(first: dict[str, Any], second: dict[str, Any]) -> None:
    mind = taught()
    await mind.learn("A heron.", **first)

    update = await mind.learn("A heron.", **second)

    assert (update.duplicate_of, len(update.added_episode)) == (None, 1)


async def test_the_same_key_is_a_repeat_whatever_the_content() -> None:
    mind = taught()
    first = await mind.learn("A heron.", idempotency_key="k")

    second = await mind.learn("A crane.", idempotency_key="k")

    assert second.duplicate_of == first.added_episode[0].uuid
    assert len(await all_episodes(mind.memory)) == 1


# --- long inputs ------------------------------------------------------------------------------------------------------

SHORT_PARTS = ENGLISH.model_copy(update={"chunk_tokens": 50})
LONG = "\n\n".join(f"Part {number}: {name} saw a heron. " + "It rained. " * 15 for number, name in enumerate("ABC", 1))


async def test_a_long_input_becomes_parts_that_belong_together() -> None:
    mind = taught(strategy=SHORT_PARTS)

    update = await mind.learn(LONG, reference_time=MAY, session_id="s", source="diary")

    parts = update.added_episode
    assert len(parts) >= 3
    assert "".join(each.content for each in parts) == LONG
    assert [(each.part, each.parts) for each in parts] == [(n, len(parts)) for n in range(1, len(parts) + 1)]
    assert len({each.group for each in parts}) == 1
    assert {(each.session_id, each.source, each.valid_since) for each in parts} == {
        ("s", "diary", int(MAY.timestamp()))
    }


async def test_the_update_of_a_long_input_is_the_sum_of_its_parts() -> None:
    def named(prompt: FakePrompt) -> Any:
        return entities({"Heron": "Entity"} if "heron" in prompt.text.rsplit("<text>", 1)[-1] else {})

    llm = FakeLLM({"EntityExtraction": named})
    mind = taught(strategy=SHORT_PARTS, llm=llm)

    update = await mind.memory.add_memory(DOCUMENT, "ann", LONG)

    heron = (await all_entities(mind.memory))["Heron"]
    assert [(each.uuid, each.mention_count) for each in update.added_entity] == [(heron.uuid, heron.mention_count)]
    assert update.updated_entity == []
    assert heron.mention_count == 3
    assert update.usage.calls == llm.calls
    assert await problems(mind.memory) == []


async def test_a_long_input_that_is_repeated_is_recognised_part_by_part() -> None:
    mind = taught(strategy=SHORT_PARTS)
    first = await mind.learn(LONG, reference_time=MAY)

    second = await mind.learn(LONG, reference_time=MAY)

    assert second.is_empty
    assert second.duplicate_of == first.added_episode[0].uuid


async def test_equal_parts_of_one_input_are_not_repeats_of_each_other() -> None:
    mind = taught(strategy=SHORT_PARTS)
    text = ("It rained and rained. " * 8 + "\n\n") * 3

    update = await mind.learn(text, reference_time=MAY)

    assert update.duplicate_of is None
    assert "".join(each.content for each in update.added_episode).strip() == text.strip()


async def test_when_a_later_part_fails_the_error_names_what_is_stored_and_holds_the_rest() -> None:
    config = GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64, request_max_retries=1)
    llm = FakeLLM({"EntityExtraction": Script([entities({}), entities({}), ConnectionError("down")])})
    mind = taught(strategy=SHORT_PARTS, llm=llm, config=config)

    with pytest.raises(PartFailedError) as failure:
        await mind.memory.add_memory(DOCUMENT, "ann", LONG, reference_time=MAY)

    stored = sorted(await all_episodes(mind.memory), key=lambda each: each.part)
    assert failure.value.part == 3
    assert failure.value.stored == tuple(each.uuid for each in stored)
    assert "".join(each.content for each in stored) + failure.value.remaining == LONG
    assert isinstance(failure.value.__cause__, LLMCallError)


async def test_the_same_input_again_goes_on_after_the_part_that_failed() -> None:
    config = GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64, request_max_retries=1)
    fine, down = entities({}), ConnectionError("down")
    llm = FakeLLM({"EntityExtraction": Script([fine, fine, down, down, fine])})
    mind = taught(strategy=SHORT_PARTS, llm=llm, config=config)
    failures = []
    for _ in range(2):
        with pytest.raises(PartFailedError) as failure:
            await mind.memory.add_memory(DOCUMENT, "ann", LONG, idempotency_key="diary")
        failures.append(failure.value)

    await mind.memory.add_memory(DOCUMENT, "ann", LONG, idempotency_key="diary")

    parts = sorted(await all_episodes(mind.memory), key=lambda each: each.part)
    assert failures[0].stored == failures[1].stored
    assert [each.part for each in parts] == list(range(1, parts[0].parts + 1))
    assert "".join(each.content for each in parts) == LONG


async def test_when_the_first_part_fails_its_error_is_raised_as_it_is() -> None:
    config = GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64, request_max_retries=1)
    mind = taught(strategy=SHORT_PARTS, llm=FakeLLM({"EntityExtraction": ConnectionError("down")}), config=config)

    with pytest.raises(LLMCallError):
        await mind.memory.add_memory(DOCUMENT, "ann", LONG)

    assert await all_episodes(mind.memory) == []
