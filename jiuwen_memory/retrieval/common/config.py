"""Settings of embedding models and rerankers. Reading settings does no I/O."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field, SecretStr, field_validator

from jiuwen_memory.foundation import settings
from jiuwen_memory.foundation.llm.schema.config import ConnectionConfig, endpoint_url


class EmbeddingConfig(ConnectionConfig):
    """Which embedding model, and where.

    Args:
        model_name: name of the model (`model` is understood too).
        base_url: the endpoint, with or without `/embeddings` at its end.
        dimension: length of the vectors; sent to the endpoint if given, otherwise learnt from the first answer.
        encoding_format: how vectors travel; "base64" is smaller, but not every server knows it.
        batch_size: texts of one request, unless the caller says otherwise.
        max_concurrent: requests at the same time, per event loop.
    """

    model_name: str = Field(
        default_factory=settings.EMBEDDING_MODEL.read,
        min_length=1,
        validation_alias=AliasChoices("model_name", "model"),
    )
    base_url: str = Field(default_factory=settings.EMBEDDING_BASE_URL.read)
    api_key: SecretStr | str = Field(default_factory=lambda: SecretStr(settings.EMBEDDING_API_KEY.read()))
    dimension: int | None = Field(default=None, ge=1)
    encoding_format: Literal["float", "base64"] = "float"
    batch_size: int = Field(default=10, ge=1)
    max_concurrent: int = Field(default=10, ge=1)

    @field_validator("base_url")
    @classmethod
    def _address(cls, value: str) -> str:
        return endpoint_url(value, without="/embeddings")


class RerankerConfig(ConnectionConfig):
    """Which reranker, and where.

    Args:
        model_name: name of the model (`model` is understood too).
        base_url: the endpoint, with or without `/rerank` at its end.
        documents_field: what the endpoint calls the list of documents; Text Embeddings Inference says "texts".
    """

    model_name: str = Field(
        default_factory=settings.RERANK_MODEL.read, validation_alias=AliasChoices("model_name", "model")
    )
    base_url: str = Field(default_factory=settings.RERANK_BASE_URL.read)
    api_key: SecretStr | str = Field(default_factory=lambda: SecretStr(settings.RERANK_API_KEY.read()))
    documents_field: Literal["documents", "texts"] = "documents"

    @field_validator("base_url")
    @classmethod
    def _address(cls, value: str) -> str:
        return endpoint_url(value, without="/rerank")
