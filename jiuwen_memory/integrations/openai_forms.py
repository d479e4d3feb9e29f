"""The two forms of OpenAI's requests and answers, and streams that note what passes through. Values in, values out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, Self

from jiuwen_memory.foundation.llm.schema.message import PlainMessage, plain_messages, wire_messages

Body = Mapping[str, Any]
Message = dict[str, str]


class Form(Protocol):
    """How one of the client's methods says things."""

    def history(self, body: Body) -> object:
        """Return all that a request says."""

    def last_said(self, body: Body) -> str:
        """Return the last thing that the user said, or nothing."""

    def said(self, body: Body) -> tuple[Message, ...]:
        """Return what is new in a request: the user's last messages; tools and earlier turns are left out."""

    def with_recalled(self, body: Body, recalled: str) -> dict[str, Any]:
        """Return the request with what was recalled in it."""

    def reply(self, result: Any) -> str:
        """Return the text of an answer; nothing if it only calls tools."""

    def delta(self, event: Any) -> str:
        """Return the text that an event of a stream adds."""


class ChatForm:
    """`chat.completions.create`."""

    def history(self, body: Body) -> object:
        return [[each.role, each.name, each.text] for each in plain_messages(body.get("messages") or ())]

    def last_said(self, body: Body) -> str:
        return _last_said(plain_messages(body.get("messages") or ()))

    def said(self, body: Body) -> tuple[Message, ...]:
        return _new_messages(plain_messages(body.get("messages") or ()))

    def with_recalled(self, body: Body, recalled: str) -> dict[str, Any]:
        messages = wire_messages(body["messages"])
        first = messages[0] if messages else {}
        # Many chat templates allow one system message, and only at the beginning.
        if first.get("role") in ("system", "developer"):
            return {**body, "messages": [{**first, "content": _joined(first.get("content"), recalled)}, *messages[1:]]}
        return {**body, "messages": [{"role": "system", "content": recalled}, *messages]}

    def reply(self, result: Any) -> str:
        choices = getattr(result, "choices", None) or ()
        message = choices[0].message if choices else None
        if message is None or getattr(message, "tool_calls", None):
            return ""
        return str(message.content or "")

    def delta(self, event: Any) -> str:
        choices = getattr(event, "choices", None) or ()
        return str(getattr(choices[0].delta, "content", None) or "") if choices else ""


class ResponseForm:
    """`responses.create`."""

    def history(self, body: Body) -> object:
        return [body.get("previous_response_id"), [[each.role, each.text] for each in _items(body)]]

    def last_said(self, body: Body) -> str:
        return _last_said(_items(body))

    def said(self, body: Body) -> tuple[Message, ...]:
        return _new_messages(_items(body))

    def with_recalled(self, body: Body, recalled: str) -> dict[str, Any]:
        return {**body, "instructions": _joined(body.get("instructions"), recalled)}

    def reply(self, result: Any) -> str:
        output = getattr(result, "output", None) or ()
        if any(getattr(each, "type", "") == "function_call" for each in output):
            return ""
        return str(getattr(result, "output_text", "") or "")

    def delta(self, event: Any) -> str:
        return str(event.delta) if getattr(event, "type", "") == "response.output_text.delta" else ""


def _items(body: Body) -> list[PlainMessage]:
    given = body.get("input") or ()
    if isinstance(given, str):
        return [PlainMessage("user", given)]
    return plain_messages([each for each in given if isinstance(each, Mapping) and "role" in each])


def _last_said(messages: Sequence[PlainMessage]) -> str:
    return next((each.text for each in reversed(messages) if each.role == "user"), "")


def _new_messages(messages: Sequence[PlainMessage]) -> tuple[Message, ...]:
    """Return the last run of user messages: before it lie turns that were learnt when they were said."""
    end = next((number for number in range(len(messages), 0, -1) if messages[number - 1].role == "user"), 0)
    start = end
    while start and messages[start - 1].role == "user":
        start -= 1
    return tuple(_message(each) for each in messages[start:end] if each.text.strip())


def _message(message: PlainMessage) -> Message:
    named = {"name": message.name} if message.name else {}
    return {"role": "user", "content": message.text, **named}


def _joined(content: object, recalled: str) -> object:
    if isinstance(content, list | tuple):
        return [*content, {"type": "text", "text": recalled}]
    return f"{content}\n\n{recalled}" if content else recalled


class AsyncTee:
    """A stream that hands on what passes through, and its whole text once at the end; the rest is the stream's."""

    def __init__(self, stream: Any, delta: Callable[[Any], str], done: Callable[[str], Awaitable[None]]) -> None:
        self._stream = stream
        self._delta = delta
        self._done: Callable[[str], Awaitable[None]] | None = done
        self._texts: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            event = await self._stream.__anext__()
        except StopAsyncIteration:
            await self._finish()
            raise
        self._texts.append(self._delta(event))
        return event

    async def close(self) -> None:
        """Close the stream; what has come so far counts as the answer."""
        await self._stream.close()
        await self._finish()

    aclose = close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def _finish(self) -> None:
        done, self._done = self._done, None
        if done:
            await done("".join(self._texts))


class Tee:
    """`AsyncTee` for a client that is not awaited."""

    def __init__(self, stream: Any, delta: Callable[[Any], str], done: Callable[[str], None]) -> None:
        self._stream = stream
        self._delta = delta
        self._done: Callable[[str], None] | None = done
        self._texts: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            event = next(self._stream)
        except StopIteration:
            self._finish()
            raise
        self._texts.append(self._delta(event))
        return event

    def close(self) -> None:
        """Close the stream; what has come so far counts as the answer."""
        self._stream.close()
        self._finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _finish(self) -> None:
        done, self._done = self._done, None
        if done:
            done("".join(self._texts))
