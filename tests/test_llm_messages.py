"""Messages of every accepted kind, and the text in them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.llm import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from jiuwen_memory.foundation.llm.schema.message import MessageLike, PlainMessage, plain_messages, wire_messages


def test_dicts_become_roles_and_texts() -> None:
    lines = plain_messages([{"role": "user", "content": "Hi", "name": "Bob"}, {"role": "assistant", "content": ""}])

    assert lines == [PlainMessage("user", "Hi", "Bob"), PlainMessage("assistant", "")]


def test_our_own_messages_become_roles_and_texts() -> None:
    lines = plain_messages(
        [SystemMessage(content="Be kind."), UserMessage(content="Hi"), AssistantMessage(content="Yo")]
    )

    assert [(line.role, line.text) for line in lines] == [("system", "Be kind."), ("user", "Hi"), ("assistant", "Yo")]


def test_content_parts_keep_their_text_and_mark_the_rest() -> None:
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_text", "text": "and listen"},
        {"type": "input_audio", "input_audio": {}},
        {"type": "file", "file": {}},
        {"type": "hologram"},
        {"type": "thinking", "thinking": "hidden"},
        {"type": "refusal", "refusal": "No."},
        "bare",
    ]

    [line] = plain_messages([{"role": "user", "content": parts}])

    assert line.text == "Look:\n[image]\nand listen\n[audio]\n[file]\n[hologram]\nNo.\nbare"


def test_a_tool_conversation_names_calls_and_tools() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}

    lines = plain_messages(
        [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "4 degrees", "tool_call_id": "c1"},
            ToolMessage(content="windy", name="wind"),
            {"role": "function", "name": "old", "content": "yes"},
            {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": "{}"}},
        ]
    )

    assert lines == [
        PlainMessage("assistant", 'calls weather({"city": "Oslo"})'),
        PlainMessage("tool", "4 degrees", "weather"),
        PlainMessage("tool", "windy", "wind"),
        PlainMessage("tool", "yes", "old"),
        PlainMessage("assistant", "calls old({})"),
    ]


def test_tool_blocks_inside_content_are_read() -> None:
    parts = [
        {"type": "tool_use", "name": "look", "input": {"at": "天"}},
        {"type": "tool_result", "content": [{"type": "text", "text": "blue"}]},
    ]

    [line] = plain_messages([{"role": "assistant", "content": parts}])

    assert line.text == 'calls look({"at": "天"})\nblue'


def test_a_refusal_is_what_was_said() -> None:
    [line] = plain_messages([{"role": "assistant", "content": None, "refusal": "I cannot."}])

    assert line.text == "I cannot."


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([{"role": "user", "content": "a"}, {"role": "user", "content": None}], "Message 1 has no content"),
        ([{"role": "user"}], "Message 0 has no content"),
        ([{"role": "user", "content": 7}], "Message 0 has content of type int"),
        ([{"role": "user", "content": [3]}], "Message 0 has a content part of type int"),
        ([{"content": "a"}], "Message 0 has no 'role'"),
        ([{"role": " ", "content": "a"}], "Message 0 has no 'role'"),
        (["text"], "Message 0 is of type str"),
        ([object()], "Message 0 is of type object"),
    ],
)
def test_what_is_no_message_is_refused_by_its_index(messages: Sequence[MessageLike], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        plain_messages(messages)


def test_langchain_messages_are_read_with_their_roles_and_tools() -> None:
    from langchain_core import messages as langchain

    call = {"name": "weather", "args": {"city": "Oslo"}, "id": "c1"}

    lines = plain_messages(
        [
            langchain.SystemMessage("Be kind."),
            langchain.HumanMessage("Hi", name="Bob"),
            langchain.AIMessage("", tool_calls=[call]),
            langchain.ToolMessage("4 degrees", tool_call_id="c1"),
            langchain.AIMessageChunk(content="chunk"),
        ]
    )

    assert lines == [
        PlainMessage("system", "Be kind."),
        PlainMessage("user", "Hi", "Bob"),
        PlainMessage("assistant", 'calls weather({"city": "Oslo"})'),
        PlainMessage("tool", "4 degrees", "weather"),
        PlainMessage("assistant", "chunk"),
    ]


def test_langchain_blocks_of_unknown_kind_become_markers() -> None:
    from langchain_core.messages import HumanMessage

    blocks: list[str | dict[str, object]] = [{"type": "text", "text": "See"}, {"type": "video", "url": "x"}, "this"]

    [line] = plain_messages([HumanMessage(blocks)])

    assert line.text == "See\n[video]\nthis"


def test_a_langchain_object_that_is_no_utterance_is_refused() -> None:
    from langchain_core.messages import RemoveMessage

    with pytest.raises(InvalidInputError, match="Message 0 cannot be used"):
        plain_messages([RemoveMessage(id="1")])


def test_answers_of_the_openai_sdk_are_messages_too() -> None:
    from openai.types.chat import ChatCompletionMessage

    [line] = plain_messages([ChatCompletionMessage(role="assistant", content="Yo")])

    assert line == PlainMessage("assistant", "Yo")


def test_a_string_is_one_user_message() -> None:
    assert wire_messages("Hi") == [{"role": "user", "content": "Hi"}]


def test_neither_langchain_nor_openai_is_loaded_for_plain_messages() -> None:
    code = (
        "import sys; from jiuwen_memory.foundation.llm.schema.message import plain_messages;"
        "plain_messages([{'role': 'user', 'content': 'a'}]);"
        "print([name for name in ('openai', 'langchain_core', 'numpy', 'httpx') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
