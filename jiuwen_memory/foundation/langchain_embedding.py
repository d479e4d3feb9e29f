"""A LangChain embedding model in the shape of ours; langchain_core is never imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.text import checked_texts

if TYPE_CHECKING:
    from typing_extensions import TypeIs


class LangChainEmbeddings(Protocol):
    """LangChain's `Embeddings`, as far as we must know it."""

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""


class LangChainEmbedding:
    """LangChain's `Embeddings` as an embedding model; its dimension is known after the first answer."""

    def __init__(self, embeddings: LangChainEmbeddings) -> None:
        self.embeddings = embeddings
        named = getattr(embeddings, "model", None) or getattr(embeddings, "model_name", None)
        self.model_name = named if isinstance(named, str) else type(embeddings).__name__
        self._dimension: int | None = None

    @property
    def dimension(self) -> int | None:
        """Length of each vector, or None before the first answer."""
        return self._dimension

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a search query.

        Raises:
            InvalidInputError: the text is blank.
        """
        vector = await self.embeddings.aembed_query(checked_texts([text])[0])
        self._dimension = len(vector)
        return vector

    async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[list[float]]:
        """Return one vector per text, in order, at most `batch_size` texts at a time.

        Raises:
            InvalidInputError: a text is blank; the error names its index.
        """
        checked = checked_texts(texts)
        size = (len(checked) or 1) if batch_size is None else batch_size
        if size < 1:
            raise InvalidInputError(f"batch_size is {size}; give 1 or more.")
        vectors: list[list[float]] = []
        for start in range(0, len(checked), size):
            vectors += await self.embeddings.aembed_documents(checked[start : start + size])
        if vectors:
            self._dimension = len(vectors[0])
        return vectors


def is_langchain_embeddings(embedder: object) -> TypeIs[LangChainEmbeddings]:
    """Tell whether an object is LangChain's, by the methods that ours has not."""
    return all(callable(getattr(embedder, name, None)) for name in ("aembed_query", "aembed_documents"))
