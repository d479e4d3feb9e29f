"""What the stages of one add may use: the store, the embedder behind its retries, and the asker of questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence, Sized
from dataclasses import dataclass

from jiuwen_memory.errors import EmbedderNotFoundError, EmbeddingCallError, InvalidInputError, words_of
from jiuwen_memory.foundation.model_spans import model_span
from jiuwen_memory.foundation.ports import Embedding
from jiuwen_memory.foundation.retry import outcome_of, retrying
from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.checks import are_comparable
from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.memory_core.config.graph import AddMemStrategy, Language
from jiuwen_memory.memory_core.graph.extraction.asking import Asker
from jiuwen_memory.memory_core.graph.extraction.ontology import Ontology

Vector = list[float]


@dataclass(frozen=True)
class Embedder:
    """An embedding model as the memory uses it: tried again on failure, its vectors checked."""

    model: Embedding
    dimension: int
    tries: int
    batch_size: int

    @property
    def name(self) -> str:
        """The model's name; together with a text it decides whether a stored vector still fits."""
        return str(getattr(self.model, "model_name", type(self.model).__name__))

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in order; equal texts are embedded once.

        Raises:
            EmbeddingCallError: the model failed on every try, or its vectors cannot be used.
        """
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return []

        async def call() -> list[Vector]:
            return await self.model.embed_documents(distinct, batch_size=self.batch_size)

        vectors = await self._tried(call, what=f"Embedding {len(distinct)} texts", count=len(distinct))
        by_text = dict(zip(distinct, vectors, strict=True))
        return [by_text[text] for text in texts]

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of a search query.

        Raises:
            EmbeddingCallError: the model failed on every try, or its vector cannot be used.
        """

        async def call() -> list[Vector]:
            return [await self.model.embed_query(text)]

        return (await self._tried(call, what="Embedding the query", count=1))[0]

    async def _tried(self, call: Callable[[], Awaitable[list[Vector]]], *, what: str, count: int) -> list[Vector]:
        async def traced_call() -> list[Vector]:
            with model_span("embeddings", self.model, {"texts": count}):
                return await call()

        vectors = await outcome_of(retrying(traced_call, tries=self.tries, what=what.lower()))
        if isinstance(vectors, Exception):
            told = f"{what} failed: {words_of(vectors)}."
            raise EmbeddingCallError(f"{told} Nothing was written; check the embedder.") from vectors
        # Encoders of other libraries give an array of rows, which is no `Sequence`.
        if not isinstance(vectors, Sized) or len(vectors) != count:
            given = f"{len(vectors)} vectors" if isinstance(vectors, Sized) else f"a {type(vectors).__name__}"
            raise EmbeddingCallError(f"{what} gave {given} for {count} texts; check the embedder.")
        try:
            return [parse_vector(vector, self.dimension) for vector in vectors]
        except InvalidInputError as error:
            raise EmbeddingCallError(f"{what} gave a vector that cannot be used: {error.message}") from error


def attached_embedder(store: GraphStore) -> Embedder:
    """Return the embedding model that is attached to a store, as the memory uses it.

    Raises:
        EmbedderNotFoundError: there is none.
    """
    if store.embedder is None:
        raise EmbedderNotFoundError("No embedding model is attached; call attach_embedder(...) first.")
    config = store.config
    return Embedder(
        store.embedder,
        dimension=config.embed_dim,
        tries=config.request_max_retries,
        batch_size=config.embed_batch_size,
    )


def parse_vector(vector: object, dimension: int) -> Vector:
    """Return a vector (any sequence of numbers, arrays included) as floats, checked for length and finiteness."""
    if isinstance(vector, str | bytes) or not hasattr(vector, "__iter__"):
        raise InvalidInputError(f"A vector is a {type(vector).__name__}; give a sequence of numbers.")
    try:
        numbers = list(map(float, vector))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"A vector holds something that is not a number ({error}).") from error
    if len(numbers) != dimension:
        raise InvalidInputError(
            f"A vector has {len(numbers)} numbers where GraphConfig.embed_dim says {dimension}; "
            "set embed_dim to the embedder's dimension, in a new store."
        )
    if not are_comparable(numbers):
        raise InvalidInputError("A vector holds NaN, infinity or a huge number; check the embedder.")
    return numbers


@dataclass(frozen=True)
class Services:
    """Everything outside that a stage may reach, and the settings it follows.

    `retold` are entities to be described anew even where a text only repeats what is known of them.
    """

    store: GraphStore
    embedder: Embedder
    asker: Asker
    strategy: AddMemStrategy
    language: Language
    ontology: Ontology
    retold: frozenset[str] = frozenset()

    @property
    def storage(self) -> GraphStoreStorageConfig:
        """The store's field limits."""
        return self.store.config.db_storage_config
