"""A LangChain chat model in the shape of ours; langchain_core is never imported, because whoever has one has it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from jiuwen_memory.foundation.llm.openai_chat import messages_with_form
from jiuwen_memory.foundation.llm.schema.message import AssistantMessage, TokenUsage, part_text

if TYPE_CHECKING:
    from typing_extensions import TypeIs


class LangChainChat(Protocol):
    """A `BaseChatModel`, as far as we must know it."""

    async def ainvoke(self, input: Any, **kwargs: Any) -> Any:
        """Return the answer, an `AIMessage`."""

    def with_structured_output(self, schema: Any, *, include_raw: bool = False) -> Any:
        """Return a runnable whose answers follow a schema."""


class LangChainModel:
    """A `BaseChatModel` that answers like `Model`.

    A form is asked for by `with_structured_output`; a model that has no such way, or a call with further keywords, gets
    the form in words.
    """

    def __init__(self, chat: LangChainChat) -> None:
        self.chat = chat
        self._has_structured_output = True

    async def invoke(
        self,
        *,
        messages: Sequence[Mapping[str, object]],
        response_format: Mapping[str, object] | None = None,
        **kwargs: object,
    ) -> AssistantMessage:
        """Return the model's answer; `kwargs` go to `ainvoke`."""
        wire = [dict(message) for message in messages]
        if response_format is None:
            return _answer(await self.chat.ainvoke(wire, **kwargs))
        structured = None if kwargs else self._structured(response_format)
        if structured is None:
            return _answer(await self.chat.ainvoke(messages_with_form(wire, response_format), **kwargs))
        found = await structured.ainvoke(wire)
        answer = _answer(found["raw"])
        if found.get("parsed") is None:
            return answer
        return answer.model_copy(update={"content": json.dumps(found["parsed"], ensure_ascii=False)})

    def _structured(self, response_format: Mapping[str, object]) -> Any:
        wanted = response_format.get("json_schema")
        if not self._has_structured_output or not isinstance(wanted, Mapping):
            return None
        schema = {"title": wanted.get("name"), "description": "The answer.", **dict(wanted.get("schema") or {})}
        try:
            return self.chat.with_structured_output(schema, include_raw=True)
        except NotImplementedError:
            self._has_structured_output = False
            return None


def is_langchain_chat(client: object) -> TypeIs[LangChainChat]:
    """Tell whether an object is a LangChain chat model, without importing LangChain."""
    parents = type(client).__mro__
    return any(each.__module__.startswith("langchain_core.language_models.chat_models") for each in parents)


def _answer(message: Any) -> AssistantMessage:
    content = message.content
    text = content if isinstance(content, str) else "".join(part_text(part) for part in content)
    calls = getattr(message, "tool_calls", None)
    if not text and calls:
        text = json.dumps(calls[0]["args"], ensure_ascii=False)
    spent = getattr(message, "usage_metadata", None)
    usage = TokenUsage(spent["input_tokens"], spent["output_tokens"]) if spent else None
    return AssistantMessage(content=text, usage=usage)
