"""An embedding model for tests: hashed character n-grams. Touches nothing outside."""

from __future__ import annotations

import math
import unicodedata
import zlib
from collections.abc import Sequence


class FakeEmbedder:
    """Texts that share characters get near vectors; the same text gets the same vector in every process.

    Args:
        dimension: length of the vectors.
        fail_times: so many calls raise `error` first.
        error: what is raised.

    `calls` counts the calls, `texts` keeps what was embedded.
    """

    model_name = "fake-embedder"

    def __init__(self, dimension: int = 64, *, fail_times: int = 0, error: Exception | None = None) -> None:
        self.dimension = dimension
        self.fail_times = fail_times
        self.error = error or ConnectionError("The fake embedder was told to fail.")
        self.calls = 0
        self.texts: list[str] = []

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return (await self.embed_documents([text]))[0]

    async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[list[float]]:
        """Return one vector per text, in order."""
        self.calls += 1
        if self.calls <= self.fail_times:
            raise self.error
        self.texts.extend(texts)
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        sums = [0.0] * self.dimension
        folded = f" {unicodedata.normalize('NFKC', text).casefold()} "
        for size in (1, 2, 3):
            for start in range(len(folded) - size + 1):
                code = zlib.crc32(folded[start : start + size].encode("utf-8", "replace"))
                sums[code % self.dimension] += 1.0 if code & 0x10000 else -1.0
        length = math.hypot(*sums)
        return [value / length for value in sums] if length else [1.0] + [0.0] * (self.dimension - 1)
