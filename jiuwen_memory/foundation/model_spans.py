"""Spans of calls to models, as OpenTelemetry's conventions on generative AI name things. Touches nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from jiuwen_memory.foundation.tracing import MODEL_DURATION, MODEL_TOKENS, Attributes, Span, span, wants_content


def model_span(
    operation: Literal["chat", "embeddings", "rerank"], model: object, further: Attributes, *, asked: object = None
) -> Span:
    """Return the span of one request to a model.

    Args:
        further: attributes of this call; their names get the prefix `jiuwen_memory.`.
        asked: the name of the model where the request says another one than the model's own.
    """
    name = asked if isinstance(asked, str) else _model_name(model)
    attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _provider_name(model),
        "gen_ai.request.model": name,
        **{f"jiuwen_memory.{key}": value for key, value in further.items()},
    }
    return span(f"{operation} {name}", attributes, metric=MODEL_DURATION, is_request=True)


def tell_tokens(told: Span, spent: tuple[int, int], *, is_estimate: bool) -> None:
    """Put the input and output tokens of a call into its span and into the metric."""
    input_tokens, output_tokens = spent
    told.record(MODEL_TOKENS, input_tokens, {"gen_ai.token.type": "input"})
    told.record(MODEL_TOKENS, output_tokens, {"gen_ai.token.type": "output"})
    told.set({"gen_ai.usage.input_tokens": input_tokens, "gen_ai.usage.output_tokens": output_tokens})
    if is_estimate:
        told.set({"jiuwen_memory.tokens_estimated": True})


def tell_content(told: Span, messages: Sequence[Mapping[str, str]], text: str) -> None:
    """Put question and answer into a span, if that is wanted."""
    if wants_content():
        asked = [_message(each.get("role", "user"), each.get("content", "")) for each in messages]
        told.set(
            {"gen_ai.input.messages": _shown(asked), "gen_ai.output.messages": _shown([_message("assistant", text)])}
        )


def _message(role: str, text: str) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _shown(messages: Sequence[Mapping[str, object]]) -> str:
    return json.dumps(messages, ensure_ascii=False)


def _model_name(model: object) -> str:
    """Return a model's name as clients of all kinds give it, or that of its class."""
    holders = (
        model,
        getattr(model, "model_config", None),
        getattr(model, "chat", None),
        getattr(model, "config", None),
    )
    found = (getattr(holder, name, None) for holder in holders for name in ("model_name", "model"))
    return next((name for name in found if isinstance(name, str) and name), type(model).__name__)


def _provider_name(model: object) -> str:
    provider = getattr(getattr(model, "model_client_config", None), "client_provider", None)
    return provider.strip().lower() if isinstance(provider, str) else type(getattr(model, "chat", model)).__name__
