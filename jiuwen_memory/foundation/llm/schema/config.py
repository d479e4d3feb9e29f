"""Settings of language models and of connections to their endpoints. Reading settings does no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr, field_validator

from jiuwen_memory.foundation import settings
from jiuwen_memory.foundation.hiding import shown_fields


def endpoint_url(value: str, *, without: str = "") -> str:
    """Return an endpoint's address without a closing slash and without the path `without`, such as "/embeddings".

    Raises:
        ValueError: it is not an http or https address.
    """
    parts = urlsplit(value.strip())
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("not an address such as https://host/v1")
    return value.strip().rstrip("/").removesuffix(without).rstrip("/")


def _default_ssl_cert() -> Path | None:
    path = settings.SSL_CERT.read()
    return Path(path) if path else None


class ConnectionConfig(BaseModel):
    """How an endpoint is reached; nothing needs to be given for a safe connection.

    Args:
        api_key: sent as a bearer token; shown in no repr, log or error. Local servers often need none.
        timeout: seconds that one request may take in all.
        verify_ssl: check the endpoint's certificate. Turn it off only to try something out.
        ssl_cert: PEM file with the authorities to trust instead of the usual ones.
        headers: further headers of every request.
        max_connections: connections open at the same time, per event loop.
    """

    # Input is kept out of validation errors because it may be a key.
    model_config = ConfigDict(
        defer_build=True,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        validate_default=True,
        protected_namespaces=(),
    )

    # A plain string is accepted by type checkers too; what is stored is always a SecretStr.
    api_key: SecretStr | str = SecretStr("")
    timeout: float = Field(default_factory=settings.TIMEOUT.read_number, gt=0)
    verify_ssl: bool = True
    ssl_cert: Path | None = Field(default_factory=_default_ssl_cert)
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    max_connections: int = Field(default=100, ge=1)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return shown_fields(super().__repr_args__())

    @field_validator("api_key")
    @classmethod
    def _key_fits_a_header(cls, value: SecretStr | str) -> SecretStr:
        key = (value if isinstance(value, str) else value.get_secret_value()).strip()
        if not key.isascii() or not key.isprintable():
            raise ValueError("the key holds characters that no HTTP header can hold; was it copied whole?")
        return SecretStr(key)

    @property
    def key(self) -> str:
        """The key itself, to be sent and never shown."""
        return self.api_key if isinstance(self.api_key, str) else self.api_key.get_secret_value()

    @field_validator("headers")
    @classmethod
    def _headers_can_be_sent(cls, value: dict[str, str]) -> dict[str, str]:
        if not all(text.isascii() and text.isprintable() for pair in value.items() for text in pair):
            raise ValueError("a header holds characters that no HTTP header can hold")
        return value


class ModelRequestConfig(BaseModel):
    """What is asked of a model; any further field goes into each request as it is, such as `seed=1`.

    Args:
        model: name of the model (`model_name` is understood too).
        temperature: left out if an endpoint allows its own value alone, unless it was given.
        top_p, max_tokens: left to the endpoint if None.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", protected_namespaces=())

    model: str = Field(
        default_factory=settings.MODEL.read, min_length=1, validation_alias=AliasChoices("model", "model_name")
    )
    temperature: float | None = Field(default=0.0, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)

    @property
    def model_name(self) -> str:
        """Name of the model."""
        return self.model


class ModelClientConfig(ConnectionConfig):
    """Where a model is.

    Args:
        client_provider: name of a registered provider; "OpenAI" is every endpoint with OpenAI's protocol.
        api_base: the endpoint, such as `https://host/v1`.
        requests_per_minute, tokens_per_minute: what the endpoint allows; calls wait so as to keep within it. Each
            `Model` counts for itself, per event loop, and estimates the tokens it sends. None is no limit.
        client_id, max_retries: accepted from older settings and not used; `GraphConfig.request_max_retries` counts.
    """

    client_provider: str = "OpenAI"
    api_base: str = Field(default_factory=settings.OPENAI_BASE_URL.read)
    api_key: SecretStr | str = Field(default_factory=lambda: SecretStr(settings.OPENAI_API_KEY.read()))
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    client_id: str | None = None
    max_retries: int | None = None

    @field_validator("api_base")
    @classmethod
    def _address(cls, value: str) -> str:
        return endpoint_url(value, without="/chat/completions")
