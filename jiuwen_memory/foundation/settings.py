"""The environment variables that serve as defaults; the only module that reads the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass

from jiuwen_memory.errors import SetupError


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable: what it means, and what counts when neither it nor `falls_back_to` is set."""

    name: str
    meaning: str
    default: str = ""
    falls_back_to: Setting | None = None

    def read(self) -> str:
        """Return the value that counts now; blank values count as not set."""
        value = os.environ.get(self.name, "").strip()
        if value:
            return value
        return self.falls_back_to.read() if self.falls_back_to else self.default

    def read_number(self) -> float:
        """Return the value that counts now, as a number.

        Raises:
            SetupError: it is none.
        """
        value = self.read()
        try:
            return float(value)
        except ValueError as error:
            raise SetupError(f"The environment variable {self.name} is {value!r}; give a number.") from error


OPENAI_API_KEY = Setting("OPENAI_API_KEY", "API key of the endpoint for the model and the embeddings")
OPENAI_BASE_URL = Setting(
    "OPENAI_BASE_URL",
    "Endpoint with the OpenAI protocol, for the model and the embeddings",
    "https://api.openai.com/v1",
)
OPENAI_MODEL = Setting("OPENAI_MODEL", "Name of the language model", "gpt-4.1-mini")
MODEL = Setting("JIUWEN_MEMORY_MODEL", "Name of the language model, for this library alone", falls_back_to=OPENAI_MODEL)
EMBEDDING_MODEL = Setting("JIUWEN_MEMORY_EMBEDDING_MODEL", "Name of the embedding model", "text-embedding-3-small")
EMBEDDING_BASE_URL = Setting(
    "JIUWEN_MEMORY_EMBEDDING_BASE_URL",
    "Endpoint of the embedding model, if it is another one",
    falls_back_to=OPENAI_BASE_URL,
)
EMBEDDING_API_KEY = Setting(
    "JIUWEN_MEMORY_EMBEDDING_API_KEY",
    "API key of the embedding endpoint, if it is another one",
    falls_back_to=OPENAI_API_KEY,
)
RERANK_MODEL = Setting("JIUWEN_MEMORY_RERANK_MODEL", "Name of the reranking model")
RERANK_BASE_URL = Setting("JIUWEN_MEMORY_RERANK_BASE_URL", "Endpoint of the reranker")
RERANK_API_KEY = Setting("JIUWEN_MEMORY_RERANK_API_KEY", "API key of the reranker's endpoint")
TIMEOUT = Setting("JIUWEN_MEMORY_TIMEOUT", "Seconds that one request to a model may take", "60")
SSL_CERT = Setting("JIUWEN_MEMORY_SSL_CERT", "Path of a PEM file of the authorities to trust in place of the usual")
CONFIG = Setting("JIUWEN_MEMORY_CONFIG", "Configuration file of the command line and the MCP server")
USER = Setting("JIUWEN_MEMORY_USER", "Whose memory the command line and the MCP server use")
URI = Setting("JIUWEN_MEMORY_URI", "Path or URI of the store that the command line and the MCP server use")
TOKEN = Setting("JIUWEN_MEMORY_TOKEN", "Authentication token of that store")
MCP_TOKEN = Setting("JIUWEN_MEMORY_MCP_TOKEN", "Bearer token that clients of `jiuwen-memory mcp http` send")

SETTINGS = (
    OPENAI_API_KEY,
    OPENAI_BASE_URL,
    OPENAI_MODEL,
    MODEL,
    EMBEDDING_MODEL,
    EMBEDDING_BASE_URL,
    EMBEDDING_API_KEY,
    RERANK_MODEL,
    RERANK_BASE_URL,
    RERANK_API_KEY,
    TIMEOUT,
    SSL_CERT,
    CONFIG,
    USER,
    URI,
    TOKEN,
    MCP_TOKEN,
)
