"""LangChain messages as OpenAI messages; the only module that imports langchain_core, and only once it is given one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


def is_langchain_message(message: object) -> TypeGuard[BaseMessage]:
    """Tell whether an object is a LangChain message, without importing LangChain."""
    return any(parent.__module__.startswith("langchain_core.messages") for parent in type(message).__mro__)


def openai_message(message: BaseMessage) -> dict[str, object]:
    """Return a LangChain message as a dict of OpenAI's protocol; parts of a kind it does not know become markers.

    Raises:
        ValueError: it is no part of a conversation.
    """
    from langchain_core.messages import convert_to_openai_messages

    try:
        converted = convert_to_openai_messages([message])
    except ValueError:
        if isinstance(message.content, str):
            raise
        parts = [part if _is_text(part) else _marker(part) for part in message.content]
        converted = convert_to_openai_messages([message.model_copy(update={"content": parts})])
    return dict(converted[0]) if isinstance(converted, list) else dict(converted)


def _is_text(part: str | dict[str, object]) -> bool:
    return isinstance(part, str) or part.get("type") == "text"


def _marker(part: str | dict[str, object]) -> dict[str, object]:
    kind = part.get("type", "part") if isinstance(part, dict) else "part"
    return {"type": "text", "text": f"[{kind}]"}
