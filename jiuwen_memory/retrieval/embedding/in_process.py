"""What encoders in this process share: a thread of their own, batches with turns between them, and closing."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Self

from jiuwen_memory.errors import EmbeddingServiceError, InvalidInputError, JiuwenMemoryError, words_of
from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.retry import outcome_of
from jiuwen_memory.foundation.text import checked_texts
from jiuwen_memory.retrieval.embedding.api_embedding import closed_error

BATCH_TEXTS = 32


class InProcessEmbedding(ABC):
    """An embedding model that needs no endpoint; it loads when first used, and works in a thread of its own."""

    model_name: str

    def __init__(self, *, threads: int = 1) -> None:
        if threads < 1:
            raise InvalidInputError(f"threads is {threads}; give 1 or more.")
        self._threads = threads
        self._closed = False
        self._executor = _one_thread()

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a search query.

        Raises:
            InvalidInputError: the text is blank.
            MissingExtraError: the encoder is not installed.
            EmbeddingServiceError: the model is closed, or its encoder failed.
        """
        return (await self._embed([text], 1, is_query=True))[0]

    async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[list[float]]:
        """Return one vector per text, in order; between batches, other callers have their turn.

        Raises:
            InvalidInputError: a text is blank; the error names its index.
            MissingExtraError: the encoder is not installed.
            EmbeddingServiceError: the model is closed, or its encoder failed.
        """
        size = BATCH_TEXTS if batch_size is None else batch_size
        if size < 1:
            raise InvalidInputError(f"batch_size is {size}; give 1 or more.")
        return await self._embed(texts, size, is_query=False)

    async def close(self) -> None:
        """Let the thread and the encoder go; a later call is an error, until `async with` opens it again."""
        self._closed = True
        self._release()
        self._executor.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        if self._closed:
            self._executor = _one_thread()
            self._closed = False
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _embed(self, texts: Sequence[str], size: int, *, is_query: bool) -> list[list[float]]:
        checked = checked_texts(texts)
        encode = partial(self._encode, is_query=is_query)
        vectors: list[list[float]] = []
        for start in range(0, len(checked), size):
            if self._closed:
                raise closed_error(type(self).__name__)
            # What runs an encoder raises errors of many kinds, down to a bare `Exception` for a damaged file.
            encoded = await outcome_of(off_loop(self._executor, encode, checked[start : start + size]))
            if isinstance(encoded, JiuwenMemoryError):
                raise encoded
            if isinstance(encoded, Exception):
                raise EmbeddingServiceError(
                    f"The encoder {self.model_name!r} failed: {words_of(encoded)}. "
                    "Its files may be damaged, or of another kind; get them again.",
                    retryable=False,
                ) from encoded
            vectors += encoded
        return vectors

    @abstractmethod
    def _encode(self, texts: Sequence[str], *, is_query: bool) -> list[list[float]]:
        """Return one vector of length one per text; it runs in the thread."""

    @abstractmethod
    def _release(self) -> None:
        """Forget the encoder."""


def mean_row(rows: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of rows, as a row of length one; a single row stays as it is."""
    if len(rows) == 1:
        return list(rows[0])
    sums = [math.fsum(column) for column in zip(*rows, strict=True)]
    length = math.hypot(*sums) or 1.0
    return [value / length for value in sums]


def _one_thread() -> ThreadPoolExecutor:
    # One worker: the encoders are not made for two calls at once.
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="local-embedding")
