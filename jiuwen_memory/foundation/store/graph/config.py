"""Connection and size settings of a graph store. Reading settings does no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from jiuwen_memory.foundation.hiding import shown_fields
from jiuwen_memory.foundation.langchain_embedding import LangChainEmbedding, is_langchain_embeddings
from jiuwen_memory.foundation.ports import Embedding
from jiuwen_memory.foundation.store.graph.constants import DEFAULT_WORKER_NUM
from jiuwen_memory.foundation.store.graph.database_config import GraphStoreIndexConfig, GraphStoreStorageConfig


class GraphConfig(BaseModel):
    """Where the graph lives and how it is stored; `GraphConfig(uri="memory.db")` is enough to start.

    Args:
        uri: a local path (Milvus Lite; any name, in a folder that need not exist yet) or the URI of a Milvus server.
        name: name of the Milvus database; "" is the server's default database.
        token: authentication token of a server.
        backend: name under which the store's class is registered.
        timeout: seconds for connecting and for each store call.
        extras: further arguments of the backend's client.
        max_concurrent: how many outside calls run at once.
        embed_dim: length of every vector; must equal the embedder's.
        embed_batch_size: texts per embedding request.
        embedding_model: an embedder to start with; `attach_embedder` may set it later.
        request_max_retries: tries in all for one question to the model or one embedding batch.
    """

    # Input is kept out of validation errors because it may be a token.
    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True
    )

    uri: str
    name: str = ""
    token: str = Field(default="", repr=False)
    backend: str = "milvus"
    timeout: float = Field(default=15.0, gt=0, allow_inf_nan=False)
    extras: dict[str, Any] = Field(default_factory=dict, repr=False)
    max_concurrent: int = Field(default=DEFAULT_WORKER_NUM, ge=1)
    embed_dim: int = Field(default=512, ge=32)
    embed_batch_size: int = Field(default=10, ge=1)
    embedding_model: Embedding | None = Field(default=None, repr=False)
    db_storage_config: GraphStoreStorageConfig = Field(default_factory=GraphStoreStorageConfig)
    db_embed_config: GraphStoreIndexConfig = Field(default_factory=GraphStoreIndexConfig)
    request_max_retries: int = Field(default=5, ge=1)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return shown_fields(super().__repr_args__())

    @field_validator("embedding_model", mode="before")
    @classmethod
    def _may_be_langchain(cls, value: object) -> object:
        return LangChainEmbedding(value) if is_langchain_embeddings(value) else value

    @field_validator("uri", mode="before")
    @classmethod
    def _path_is_text(cls, value: object) -> object:
        return str(value) if isinstance(value, Path) else value

    @field_validator("uri")
    @classmethod
    def _uri_is_given(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("uri is empty; give a local path such as './memory.db' or a server's URI")
        return value
