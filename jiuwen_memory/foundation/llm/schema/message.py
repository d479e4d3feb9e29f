"""Messages of a conversation, and the plain text in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.llm.langchain import is_langchain_message, openai_message

ROLES = {"human": "user", "ai": "assistant", "function": "tool"}
TEXT_PARTS = {"text", "input_text", "output_text"}
IMAGE_PARTS = {"image", "image_url", "input_image"}
AUDIO_PARTS = {"audio", "input_audio"}
FILE_PARTS = {"file", "input_file", "document"}
THINKING_PARTS = {"reasoning", "thinking", "redacted_thinking"}


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens read and written by a model."""

    input_tokens: int = 0
    output_tokens: int = 0


class BaseMessage(BaseModel):
    """One message of a conversation; `content` is text or a list of OpenAI content parts."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")

    role: str
    content: str | list[dict[str, JsonValue]]
    name: str | None = None


class UserMessage(BaseMessage):
    """What the user said."""

    role: str = "user"


class SystemMessage(BaseMessage):
    """What the model is told to be."""

    role: str = "system"


class AssistantMessage(BaseMessage):
    """What the model said, and what it took."""

    role: str = "assistant"
    content: str = ""
    tool_calls: list[dict[str, JsonValue]] = Field(default_factory=list)
    usage: TokenUsage | None = None
    finish_reason: str | None = None
    model: str | None = None


class ToolMessage(BaseMessage):
    """What a tool gave back."""

    role: str = "tool"
    tool_call_id: str | None = None


class LangChainMessage(Protocol):
    """A message of LangChain, as far as we must know it."""

    @property
    def type(self) -> str:
        """Kind of message, such as "human"."""

    @property
    def content(self) -> str | list[str | dict[str, object]]:
        """Text or content blocks."""


MessageLike: TypeAlias = BaseMessage | Mapping[str, object] | BaseModel | LangChainMessage


@dataclass(frozen=True, slots=True)
class PlainMessage:
    """A message reduced to its text."""

    role: str
    text: str
    name: str | None = None


def plain_messages(messages: Sequence[MessageLike]) -> list[PlainMessage]:
    """Return the text of each message; what is no text becomes a short marker such as "[image]".

    Raises:
        InvalidInputError: a message has no content or is no message; the error names its index.
    """
    wires = wire_messages(messages)
    tools = {call["id"]: _function(call).get("name") for wire in wires for call in _calls(wire) if call.get("id")}
    return [
        _plain_message({"name": tools.get(wire.get("tool_call_id")), **wire}, index) for index, wire in enumerate(wires)
    ]


def wire_messages(messages: Sequence[MessageLike] | str) -> list[dict[str, object]]:
    """Return messages of any accepted kind as the dicts of OpenAI's protocol; a string is one user message.

    Raises:
        InvalidInputError: something is no message; the error names its index.
    """
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return [_wire_message(message, index) for index, message in enumerate(messages)]


def _wire_message(message: object, index: int) -> dict[str, object]:
    if is_langchain_message(message):
        try:
            wire = openai_message(message)
        except ValueError as error:
            raise InvalidInputError(f"Message {index} cannot be used: {error}") from error
    elif isinstance(message, Mapping):
        wire = {str(key): value for key, value in message.items()}
    elif isinstance(message, AssistantMessage):
        wire = message.model_dump(include={"role", "content", "name", "tool_calls"}, exclude_defaults=True)
        wire = {"role": message.role, "content": message.content, **wire}
    elif isinstance(message, BaseModel) and hasattr(message, "role"):
        wire = message.model_dump(exclude_none=True)
    else:
        raise InvalidInputError(
            f"Message {index} is of type {type(message).__name__}; give a dict with 'role' and 'content', "
            "or a message object of this library, of LangChain or of OpenAI."
        )
    role = wire.get("role")
    if not isinstance(role, str) or not role.strip():
        raise InvalidInputError(f"Message {index} has no 'role'; give 'user', 'assistant', 'system' or 'tool'.")
    return {**wire, "role": ROLES.get(role, role)}


def _plain_message(message: Mapping[str, object], index: int) -> PlainMessage:
    calls = [f"calls {function.get('name')}({_arguments(function)})" for function in map(_function, _calls(message))]
    content = message.get("content")
    refusal = message.get("refusal")
    if content is None and isinstance(refusal, str):
        content = refusal
    if content is None and calls:
        content = ""
    if not isinstance(content, str | list | tuple):
        given = "no content" if content is None else f"content of type {type(content).__name__}"
        raise InvalidInputError(f"Message {index} has {given}; give a string or a list of content parts.")
    texts = [content] if isinstance(content, str) else [part_text(part, index) for part in content]
    name = message.get("name")
    return PlainMessage(
        role=str(message["role"]),
        text="\n".join(text for text in (*texts, *calls) if text),
        name=name if isinstance(name, str) and name else None,
    )


def part_text(part: object, index: int = 0) -> str:
    """Return the text of one content part, or a marker such as "[image]" for what is none."""
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise InvalidInputError(f"Message {index} has a content part of type {type(part).__name__}; give a dict.")
    kind = str(part.get("type", "text"))
    if kind in TEXT_PARTS:
        return str(part.get("text") or "")
    if kind == "refusal":
        return str(part.get("refusal") or "")
    if kind == "tool_use":
        return f"calls {part.get('name')}({_arguments(part)})"
    if kind == "tool_result":
        inner = part.get("content") or ""
        return inner if isinstance(inner, str) else "\n".join(part_text(item, index) for item in _listed(inner))
    return _marker(kind)


def _marker(kind: str) -> str:
    if kind in THINKING_PARTS:
        return ""
    if kind in IMAGE_PARTS:
        return "[image]"
    if kind in AUDIO_PARTS:
        return "[audio]"
    return "[file]" if kind in FILE_PARTS else f"[{kind}]"


def _calls(message: Mapping[str, object]) -> list[Mapping[str, object]]:
    older = message.get("function_call")
    calls = [*_listed(message.get("tool_calls")), *([{"function": older}] if older else [])]
    return [call for call in calls if isinstance(call, Mapping)]


def _function(call: Mapping[str, object]) -> Mapping[str, object]:
    function = call.get("function") or call.get("custom")
    return function if isinstance(function, Mapping) else {}


def _arguments(function: Mapping[str, object]) -> str:
    value = function.get("arguments") or function.get("input") or ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()
