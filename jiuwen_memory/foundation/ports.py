"""Where the outside world begins: the shapes of an embedding model and of a reranker.

Any object of the right shape will do; nothing needs to inherit from these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Embedding(Protocol):
    """Turns text into vectors of one fixed dimension."""

    @property
    def dimension(self) -> int | None:
        """Length of each vector, or None while it is not known yet."""

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a search query."""

    async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[list[float]]:
        """Return one vector per text, in order; `batch_size` bounds the texts of one request."""


@runtime_checkable
class Reranker(Protocol):
    """Scores documents against a query better, and more slowly, than a vector search does."""

    async def rerank(self, query: str, documents: Sequence[str], *, language: str = "en") -> list[float]:
        """Return one score per document, in order; a higher score is better. `language` is `cn` or `en`."""
