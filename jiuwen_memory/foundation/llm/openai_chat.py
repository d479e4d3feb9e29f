"""Chat with an endpoint of OpenAI's protocol, in the manner that this endpoint understands."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from jiuwen_memory.errors import InvalidInputError, ModelServiceError
from jiuwen_memory.foundation.llm.openai_client import Connection
from jiuwen_memory.foundation.llm.schema.config import ModelClientConfig, ModelRequestConfig
from jiuwen_memory.foundation.llm.schema.message import (
    AssistantMessage,
    MessageLike,
    TokenUsage,
    part_text,
    wire_messages,
)
from jiuwen_memory.foundation.retry import is_transient_status
from jiuwen_memory.foundation.text import clean_text

REFUSAL_STATUSES = {400, 404, 422, 501}
FORMAT_WORDS = ("response_format", "json_schema", "json_object", "schema", "structured", "guided", "grammar")
UNSUPPORTED_WORDS = ("unsupported", "not support")
# Fields that every request has, so that their names in a refusal do not say what is refused.
COMMON_FIELDS = {"model", "messages", "response_format"}


class FormatLevel(IntEnum):
    """How an endpoint is told the form of the answer, the surest way first."""

    JSON_SCHEMA = 0
    JSON_OBJECT = 1
    PROMPT = 2


@dataclass(frozen=True, slots=True)
class Manner:
    """What an endpoint was found to understand."""

    form: FormatLevel = FormatLevel.JSON_SCHEMA
    temperature: bool = True

    def joined(self, other: Manner) -> Manner:
        """Return what is understood according to both."""
        return Manner(max(self.form, other.form), self.temperature and other.temperature)


class OpenAIChat:
    """A model behind an endpoint with OpenAI's protocol."""

    def __init__(self, request: ModelRequestConfig, client: ModelClientConfig) -> None:
        self._request = request
        self._connection = Connection(client.api_base, client, error=ModelServiceError)
        self._manners: dict[str, Manner] = {}

    async def invoke(
        self,
        *,
        messages: Sequence[MessageLike] | str,
        response_format: Mapping[str, object] | None = None,
        **kwargs: object,
    ) -> AssistantMessage:
        """Return the model's answer; an endpoint that refuses `response_format` is asked in simpler ways.

        Further keywords go into the request as they are; `extra_body`, `extra_headers`, `extra_query` and `timeout`
        mean what they mean to the OpenAI SDK.

        Raises:
            ModelServiceError: the request failed.
            InvalidInputError: a message cannot be used.
        """
        options = RequestOptions.from_keywords(kwargs)
        wire = [_clean(message) for message in wire_messages(messages)]
        model = str(options.body.get("model", self._request.model))
        manner = self._manners.get(model, Manner()).joined(Manner(_asked_form(response_format)))
        while True:
            body = self._body(wire, response_format, manner=manner) | options.body
            try:
                answer = await self._connection.post(
                    "/chat/completions", body, headers=options.headers, query=options.query, seconds=options.timeout
                )
            except ModelServiceError as error:
                simpler = self._simpler(manner, error, body=body)
                if simpler is None:
                    raise
                manner = simpler
            else:
                self._remember(model, manner if response_format else replace(manner, form=FormatLevel.JSON_SCHEMA))
                return parse_answer(answer, clean=self._connection.clean)

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()

    def _body(
        self, messages: list[dict[str, object]], response_format: Mapping[str, object] | None, *, manner: Manner
    ) -> dict[str, object]:
        settings = self._request.model_dump(exclude_none=True)
        if not manner.temperature and self._temperature_is_default():
            del settings["temperature"]
        body: dict[str, object] = {**settings, "messages": messages}
        if response_format is None:
            return body
        if manner.form is not FormatLevel.JSON_SCHEMA:
            body["messages"] = messages_with_form(messages, response_format)
        if manner.form is not FormatLevel.PROMPT:
            shown = response_format if manner.form is FormatLevel.JSON_SCHEMA else {"type": "json_object"}
            body["response_format"] = dict(shown)
        return body

    def _simpler(self, manner: Manner, error: ModelServiceError, *, body: Mapping[str, object]) -> Manner | None:
        """Return a manner without what the endpoint refused, or None if the refusal is about something else."""
        if error.status not in REFUSAL_STATUSES:
            return None
        said = error.message.lower()
        if "temperature" in said and manner.temperature and self._temperature_is_default():
            return replace(manner, temperature=False)
        other_fields = body.keys() - COMMON_FIELDS
        about_form = any(word in said for word in FORMAT_WORDS) or (
            any(word in said for word in UNSUPPORTED_WORDS) and not any(field in said for field in other_fields)
        )
        if about_form and "response_format" in body and manner.form is not FormatLevel.PROMPT:
            return replace(manner, form=FormatLevel(manner.form + 1))
        return None

    def _remember(self, model: str, manner: Manner) -> None:
        self._manners[model] = self._manners.get(model, Manner()).joined(manner)

    def _temperature_is_default(self) -> bool:
        return "temperature" not in self._request.model_fields_set


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The keywords of one `invoke`, by where they go."""

    body: dict[str, object]
    headers: Mapping[str, str]
    query: Mapping[str, object]
    timeout: float | None

    @classmethod
    def from_keywords(cls, keywords: Mapping[str, object]) -> RequestOptions:
        """Sort keywords as the OpenAI SDK does."""
        body = {key: value for key, value in keywords.items() if value is not None}
        if body.pop("stream", False):
            raise InvalidInputError("Model.invoke returns whole answers; leave 'stream' out.")
        headers = _mapping(body, "extra_headers")
        query = _mapping(body, "extra_query")
        more = _mapping(body, "extra_body")
        timeout = body.pop("timeout", None)
        if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
            raise InvalidInputError(f"timeout is {timeout!r}; give a number of seconds above zero.")
        return cls(body | more, {name: str(value) for name, value in headers.items()}, query, timeout)


def _mapping(keywords: dict[str, object], name: str) -> dict[str, object]:
    value = keywords.pop(name, None) or {}
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} is of type {type(value).__name__}; give a dict.")
    return {str(key): item for key, item in value.items()}


def _asked_form(response_format: Mapping[str, object] | None) -> FormatLevel:
    plain_json = response_format is not None and response_format.get("type") == "json_object"
    return FormatLevel.JSON_OBJECT if plain_json else FormatLevel.JSON_SCHEMA


def messages_with_form(
    messages: list[dict[str, object]], response_format: Mapping[str, object]
) -> list[dict[str, object]]:
    """Return the messages with the wanted form at the end of the last one, because many chat templates want turns."""
    words = "Answer with one JSON object and nothing else."
    wanted = response_format.get("json_schema")
    if isinstance(wanted, Mapping):
        schema = json.dumps(wanted.get("schema"), ensure_ascii=False, separators=(",", ":"))
        words += f" It follows this JSON schema, called {wanted.get('name')}:\n{schema}"
    if not messages or messages[-1].get("role") != "user":
        return [*messages, {"role": "user", "content": words}]
    content = messages[-1].get("content")
    joined = [*content, {"type": "text", "text": words}] if isinstance(content, list) else f"{content}\n\n{words}"
    return [*messages[:-1], {**messages[-1], "content": joined}]


def _clean(message: Mapping[str, object]) -> dict[str, object]:
    content = message.get("content")
    return {**message, "content": clean_text(content)} if isinstance(content, str) else dict(message)


def parse_answer(answer: object, *, clean: Callable[[str], str]) -> AssistantMessage:
    """Return the first choice of a chat completion; one without content has the content "".

    `clean` takes secrets out of what an error repeats.

    Raises:
        ModelServiceError: it is no chat completion, or an error in the place of one.
    """
    if not isinstance(answer, Mapping):
        raise ModelServiceError("The endpoint answered with JSON that is no chat completion. Check its address.")
    choices = answer.get("choices")
    if not choices and answer.get("error"):
        raise _error_in_place_of_answer(answer["error"], clean)
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        # Cut last: half a key would not be known for one.
        shown = clean(json.dumps(answer, ensure_ascii=False, default=str))[:200]
        raise ModelServiceError(
            f"The endpoint answered with no choice that holds a message: {shown}. "
            "Check its address and the model; a proxy in between may answer so while the model is down."
        )
    model = answer.get("model")
    reason = choice.get("finish_reason")
    return AssistantMessage(
        content=_content_text(message),
        usage=_usage(answer.get("usage")),
        finish_reason=reason if isinstance(reason, str) else None,
        model=model if isinstance(model, str) else None,
    )


def _content_text(message: Mapping[str, object]) -> str:
    content = message.get("content") or message.get("refusal") or ""
    return "".join(part_text(part) for part in content) if isinstance(content, list) else str(content)


def _usage(usage: object) -> TokenUsage | None:
    if not isinstance(usage, Mapping):
        return None
    counts = [usage.get(key) for key in ("prompt_tokens", "completion_tokens")]
    return TokenUsage(*(count if isinstance(count, int) else 0 for count in counts))


def _error_in_place_of_answer(error: object, clean: Callable[[str], str]) -> ModelServiceError:
    code = error.get("code") if isinstance(error, Mapping) else None
    status = code if isinstance(code, int) and 100 <= code < 600 else None
    said = error.get("message") if isinstance(error, Mapping) else error
    return ModelServiceError(
        f"The endpoint answered with an error: {clean(str(said))[:500]}",
        retryable=status is None or is_transient_status(status),
        status=status,
    )
