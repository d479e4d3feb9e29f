"""Embeddings from an endpoint with OpenAI's protocol. Failed requests are not repeated here."""

from __future__ import annotations

import array
import asyncio
import base64
import binascii
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Self
from weakref import WeakKeyDictionary

from jiuwen_memory.errors import EmbeddingServiceError, InvalidInputError
from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.llm.openai_client import Connection
from jiuwen_memory.foundation.text import checked_texts
from jiuwen_memory.retrieval.common.config import EmbeddingConfig


class APIEmbedding:
    """An embedding model behind an endpoint; `async with` or `close` lets go of its connections."""

    def __init__(self, config: EmbeddingConfig | None = None) -> None:
        self.config = config or EmbeddingConfig()
        self.model_name = self.config.model_name
        self._dimension = self.config.dimension
        self._connection = Connection(self.config.base_url, self.config, error=EmbeddingServiceError)
        # A semaphore belongs to the loop that it first waits in.
        self._limits: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._closed = False

    @property
    def dimension(self) -> int | None:
        """Length of each vector: as configured, or as the first answer had it, or None before that."""
        return self._dimension

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a search query.

        Raises:
            EmbeddingServiceError: the request failed, or its answer cannot be used.
            InvalidInputError: the text is blank.
        """
        return (await self.embed_documents([text]))[0]

    async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[list[float]]:
        """Return one vector per text, in order; requests of `batch_size` texts run at once within a limit.

        Raises:
            EmbeddingServiceError: a request failed, or its answer cannot be used; or the model is closed.
            InvalidInputError: a text is blank; the error names its index.
        """
        if self._closed:
            raise closed_error("APIEmbedding")
        checked = checked_texts(texts)
        size = self.config.batch_size if batch_size is None else batch_size
        if size < 1:
            raise InvalidInputError(f"batch_size is {size}; give 1 or more.")
        batches = [checked[start : start + size] for start in range(0, len(checked), size)]
        answers = await together(*(self._embed_batch(batch) for batch in batches))
        vectors = [vector for answer in answers for vector in answer]
        self._check_lengths(vectors)
        return vectors

    async def close(self) -> None:
        """Close the connections; a later call is an error, until `async with` opens it again."""
        self._closed = True
        await self._connection.close()

    async def __aenter__(self) -> Self:
        self._closed = False
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        config = self.config
        body: dict[str, object] = {
            "model": config.model_name,
            "input": list(texts),
            "encoding_format": config.encoding_format,
        }
        if config.dimension is not None:
            body["dimensions"] = config.dimension
        async with self._limit():
            answer = await self._connection.post("/embeddings", body)
        return parse_vectors(answer, len(texts))

    def _limit(self) -> asyncio.Semaphore:
        return self._limits.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self.config.max_concurrent))

    def _check_lengths(self, vectors: Sequence[Sequence[float]]) -> None:
        lengths = {len(vector) for vector in vectors}
        if self._dimension is None and len(lengths) == 1:
            self._dimension = lengths.pop()
        wrong = lengths - {self._dimension}
        if wrong:
            raise EmbeddingServiceError(
                f"The model {self.model_name!r} gave vectors of length {', '.join(map(str, sorted(wrong)))}, "
                f"where {self._dimension or 'one length for all'} was expected. "
                "Check EmbeddingConfig.dimension and the model behind the endpoint.",
                retryable=False,
            )


def closed_error(name: str) -> EmbeddingServiceError:
    """Return the error for an embedding model that is used after its `close`."""
    return EmbeddingServiceError(
        f"This {name} is closed; make a new one, or open it again with `async with`, and keep it open as long as a "
        "memory needs it.",
        retryable=False,
    )


def parse_vectors(answer: object, count: int) -> list[list[float]]:
    """Return the vectors of an answer in the order of its texts.

    Raises:
        EmbeddingServiceError: vectors are missing, or hold something that is no finite number.
    """
    items = answer.get("data") if isinstance(answer, Mapping) else None
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise EmbeddingServiceError(
            "The endpoint answered with JSON that holds no embeddings. Check its address and the model."
        )
    if len(items) != count:
        raise EmbeddingServiceError(f"The endpoint gave {len(items)} embeddings for {count} texts.")
    places = [item.get("index") for item in items]
    if sorted(place for place in places if isinstance(place, int)) == list(range(count)):
        items = [item for _, item in sorted(zip(places, items, strict=True), key=lambda pair: pair[0])]
    return [_vector(item.get("embedding")) for item in items]


def _vector(value: object) -> list[float]:
    try:
        vector = _decoded(value) if isinstance(value, str) else [float(number) for number in _listed(value)]
    except (TypeError, ValueError, OverflowError) as error:
        raise EmbeddingServiceError("The endpoint gave an embedding that is no list of numbers.") from error
    if not vector or not all(map(math.isfinite, vector)):
        raise EmbeddingServiceError("The endpoint gave an embedding that is empty or holds NaN or infinity.")
    return vector


def _listed(value: object) -> list[float]:
    if not isinstance(value, list):
        raise TypeError(type(value).__name__)
    return value


def _decoded(text: str) -> list[float]:
    """Return the little-endian 32-bit floats in base64 text."""
    try:
        numbers = array.array("f", base64.b64decode(text, validate=True))
    except binascii.Error as error:
        raise ValueError(str(error)) from error
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
