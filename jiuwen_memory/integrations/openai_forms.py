"""The two forms of OpenAI's requests and answers, and streams that note what passes through. Values in, values out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, Self

from jiuwen_memory.foundation.llm.schema.message import plain_messages, wire_messages

Body = Mapping[str, Any]
Message = dict[str, str]

_SYSTEM: Final = ("system", "developer")
_CALLS: Final = ("function_call", "custom_tool_call", "computer_call", "local_shell_call", "apply_patch_call")
"""Items of a response that wait for the caller to do something."""
_RAW: Final = "X-Stainless-Raw-Response"
"""The header by which the SDK's `with_raw_response` (`true`) and `with_streaming_response` (`stream`) ask."""


class Form(Protocol):
    """How one of the client's methods says things."""

    def repeatable(self, body: Body) -> dict[str, Any]:
        """Return the request with lists in place of what can be read only once."""

    def history(self, body: Body) -> object:
        """Return all that a request says."""

    def last_said(self, body: Body) -> str:
        """Return the last thing that the user said, or nothing."""

    def said(self, body: Body) -> tuple[Message, ...]:
        """Return what is new in a request: what the user said since the last answer. Tools are left out."""

    def with_recalled(self, body: Body, recalled: str) -> dict[str, Any]:
        """Return the request with what was recalled in it, and otherwise as it was."""

    def reply(self, result: Any) -> str:
        """Return the text of an answer; nothing if it calls tools."""

    def delta(self, event: Any) -> str | None:
        """Return the text that an event of a stream adds, None if it calls a tool."""


class ChatForm:
    """`chat.completions.create`."""

    def repeatable(self, body: Body) -> dict[str, Any]:
        return _repeatable(body, "messages")

    def history(self, body: Body) -> object:
        return body.get("messages")

    def last_said(self, body: Body) -> str:
        return _last_said(_listed(body.get("messages")))

    def said(self, body: Body) -> tuple[Message, ...]:
        return _new_messages(_listed(body.get("messages")))

    def with_recalled(self, body: Body, recalled: str) -> dict[str, Any]:
        first, *rest = _listed(body.get("messages"))
        # Many chat templates allow one system message, and only at the beginning.
        if _role(first) not in _SYSTEM:
            return {**body, "messages": [{"role": "system", "content": recalled}, first, *rest]}
        [wire] = wire_messages([first])
        return {**body, "messages": [{**wire, "content": _joined(wire.get("content"), recalled)}, *rest]}

    def reply(self, result: Any) -> str:
        message = getattr(_first_choice(result), "message", None)
        return "" if _calls_tools(message) else str(getattr(message, "content", None) or "")

    def delta(self, event: Any) -> str | None:
        delta = getattr(_first_choice(event), "delta", None)
        return None if _calls_tools(delta) else str(getattr(delta, "content", None) or "")


class ResponseForm:
    """`responses.create`."""

    def repeatable(self, body: Body) -> dict[str, Any]:
        return _repeatable(body, "input")

    def history(self, body: Body) -> object:
        return [body.get("previous_response_id") or None, body.get("input")]

    def last_said(self, body: Body) -> str:
        return _last_said(_items(body))

    def said(self, body: Body) -> tuple[Message, ...]:
        return _new_messages(_items(body))

    def with_recalled(self, body: Body, recalled: str) -> dict[str, Any]:
        return {**body, "instructions": _joined(body.get("instructions"), recalled)}

    def reply(self, result: Any) -> str:
        output = getattr(result, "output", None)
        if not output or any(_calls_tools(each) for each in output):
            return ""
        return str(result.output_text or "")

    def delta(self, event: Any) -> str | None:
        if _calls_tools(getattr(event, "item", None)):
            return None
        return str(event.delta) if getattr(event, "type", "") == "response.output_text.delta" else ""


def is_raw(body: Body) -> bool:
    """Tell whether a request asks for a raw response."""
    return _RAW in (body.get("extra_headers") or {})


def parsed(result: Any, body: Body) -> Any:
    """Return what a result says; a raw one that was read whole can be parsed any number of times."""
    return result.parse() if (body.get("extra_headers") or {}).get(_RAW) == "true" else result


def _repeatable(body: Body, name: str) -> dict[str, Any]:
    given = body.get(name)
    if isinstance(given, Iterable) and not isinstance(given, str | Mapping | Sequence):
        return {**body, name: list(given)}
    return dict(body)


def _listed(given: object) -> Sequence[Any]:
    return given if isinstance(given, Sequence) and not isinstance(given, str) else ()


def _items(body: Body) -> Sequence[Any]:
    given = body.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else _listed(given)


def _first_choice(result: Any) -> Any:
    choices = getattr(result, "choices", None) or ()
    return next((each for each in choices if not getattr(each, "index", 0)), None)


def _field(item: object, name: str) -> object:
    """Return a field of an item, which the SDK takes as a dict and gives as an object."""
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _role(item: object) -> str:
    return str(_field(item, "role") or "")


def _calls_tools(item: object) -> bool:
    return bool(_field(item, "tool_calls") or _field(item, "function_call")) or _field(item, "type") in _CALLS


def _last_said(items: Sequence[Any]) -> str:
    asked = next((each for each in reversed(items) if _role(each) == "user"), None)
    return "" if asked is None else plain_messages([asked])[0].text


def _new_messages(items: Sequence[Any]) -> tuple[Message, ...]:
    """Return what the user said since the last answer; a message that goes with a call of a tool is none."""
    asked: list[Any] = []
    is_call = False
    for each in reversed(items):
        if _role(each) == "user":
            asked.append(each)
            is_call = False
        elif _calls_tools(each):
            is_call = True
        elif _role(each) == "assistant" and asked and not is_call:
            break
    return tuple(
        {"role": "user", "content": each.text, **({"name": each.name} if each.name else {})}
        for each in plain_messages(asked[::-1])
        if each.text.strip()
    )


def _joined(content: object, recalled: str) -> object:
    if isinstance(content, list | tuple):
        return [*content, {"type": "text", "text": recalled}]
    return f"{content}\n\n{recalled}" if content else recalled


class Heard:
    """The text of a streamed answer as far as it came, which is none once it calls a tool."""

    def __init__(self, delta: Callable[[Any], str | None]) -> None:
        self._delta = delta
        self._texts: list[str] = []
        self._is_answer = True

    def note(self, event: Any) -> None:
        """Take in an event of the stream."""
        text = self._delta(event)
        self._is_answer = self._is_answer and text is not None
        self._texts.append(text or "")

    @property
    def text(self) -> str:
        """What was answered."""
        return "".join(self._texts) if self._is_answer else ""


class Closing:
    """A stream's HTTP response. The SDK's own streams close that, not the stream they read, so it does both."""

    def __init__(self, response: Any, close: Callable[[], Any]) -> None:
        self._response = response
        self.close = self.aclose = close

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)


class AsyncTee:
    """A stream that hands on what passes through, and its whole text once at the end; the rest is the stream's."""

    def __init__(self, stream: Any, heard: Heard, done: Callable[[str], Awaitable[None]]) -> None:
        self._stream = stream
        self._heard = heard
        self._done: Callable[[str], Awaitable[None]] | None = done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def response(self) -> Closing:
        """The HTTP response behind the stream."""
        return Closing(self._stream.response, self.close)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            event = await self._stream.__anext__()
        except StopAsyncIteration:
            await self._finish()
            raise
        self._heard.note(event)
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
            await done(self._heard.text)


class Tee:
    """`AsyncTee` for a client that is not awaited."""

    def __init__(self, stream: Any, heard: Heard, done: Callable[[str], None]) -> None:
        self._stream = stream
        self._heard = heard
        self._done: Callable[[str], None] | None = done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def response(self) -> Closing:
        """The HTTP response behind the stream."""
        return Closing(self._stream.response, self.close)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            event = next(self._stream)
        except StopIteration:
            self._finish()
            raise
        self._heard.note(event)
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
            done(self._heard.text)
