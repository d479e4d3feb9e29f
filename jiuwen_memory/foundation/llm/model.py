"""The language model as the rest of the library sees it, and the providers behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self, runtime_checkable

from jiuwen_memory.errors import SetupError
from jiuwen_memory.foundation.llm.openai_chat import OpenAIChat
from jiuwen_memory.foundation.llm.rates import RateLimiter
from jiuwen_memory.foundation.llm.schema.config import ModelClientConfig, ModelRequestConfig
from jiuwen_memory.foundation.llm.schema.message import AssistantMessage, MessageLike


class ChatReply(Protocol):
    """An answer; one with a `usage` (`input_tokens`, `output_tokens`) is counted."""

    @property
    def content(self) -> str:
        """Text of the answer."""


@runtime_checkable
class ChatModel(Protocol):
    """Any object with such an `invoke` will do as `llm_client`."""

    async def invoke(
        self,
        *,
        messages: Sequence[dict[str, str]],
        response_format: Mapping[str, object] | None = None,
        **kwargs: object,
    ) -> ChatReply:
        """Return the model's answer to the messages, in the form asked for if it can."""


class Provider(Protocol):
    """What a registered provider makes: a chat that can be closed."""

    async def invoke(
        self,
        *,
        messages: Sequence[MessageLike] | str,
        response_format: Mapping[str, object] | None = None,
        **kwargs: object,
    ) -> AssistantMessage:
        """Return the model's answer."""

    async def close(self) -> None:
        """Let go of every connection."""


ProviderFactory = Callable[[ModelRequestConfig, ModelClientConfig], Provider]
PROVIDERS: dict[str, ProviderFactory] = {"openai": OpenAIChat, "openai-compatible": OpenAIChat}


def register_provider(name: str, factory: ProviderFactory, *, force: bool = False) -> None:
    """Make a provider available as `ModelClientConfig(client_provider=name)`; case does not count.

    Raises:
        SetupError: the name is blank, or taken and `force` is not given.
    """
    key = name.strip().lower()
    if not key:
        raise SetupError("A provider needs a name.")
    if key in PROVIDERS and not force:
        raise SetupError(f"A provider {name!r} is registered already; pass force=True to replace it.")
    PROVIDERS[key] = factory


class Model:
    """A language model behind an endpoint; `async with` or `close` lets go of its connections.

    Args:
        model_config: which model, and how it is asked; defaults come from the environment.
        model_client_config: where it is; defaults come from the environment.

    Raises:
        SetupError: the provider is not known, or a key is missing.
    """

    def __init__(
        self,
        model_config: ModelRequestConfig | None = None,
        model_client_config: ModelClientConfig | None = None,
    ) -> None:
        self.model_config = model_config or ModelRequestConfig()
        self.model_client_config = model_client_config or ModelClientConfig()
        name = self.model_client_config.client_provider
        factory = PROVIDERS.get(name.strip().lower())
        if factory is None:
            raise SetupError(
                f"There is no provider {name!r}. Known: {', '.join(sorted(PROVIDERS))}; see register_provider."
            )
        self._provider = factory(self.model_config, self.model_client_config)
        self._rates = RateLimiter(
            requests_per_minute=self.model_client_config.requests_per_minute,
            tokens_per_minute=self.model_client_config.tokens_per_minute,
        )

    async def invoke(
        self,
        messages: Sequence[MessageLike] | str,
        *,
        response_format: Mapping[str, object] | None = None,
        **kwargs: object,
    ) -> AssistantMessage:
        """Return the model's answer to messages (dicts, ours, LangChain's, OpenAI's) or to a plain text.

        Args:
            response_format: OpenAI's `json_schema` or `json_object`; where refused, simpler ways are tried.
            kwargs: further fields of the request, such as `max_tokens`.

        Raises:
            ModelServiceError: the request failed; the error tells whether trying again may help.
            InvalidInputError: a message cannot be used.
        """
        await self._rates.wait(messages, response_format)
        return await self._provider.invoke(messages=messages, response_format=response_format, **kwargs)

    async def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        await self._provider.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()
