"""Every error this library raises, in one tree.

The branches are split by who can act: whoever passed the value (`InvalidInputError`), whoever set the memory up
(`SetupError`), time (`ServiceError`, `LockTimeoutError`, `LockLostError`: try again later), or whoever runs the store
(`StoreError`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol


class Spent(Protocol):
    """What questions to the model cost; `Usage` has this shape."""

    @property
    def calls(self) -> int:
        """How many there were, repeats left out."""

    @property
    def input_tokens(self) -> int:
        """Tokens of the prompts."""

    @property
    def output_tokens(self) -> int:
        """Tokens of the answers."""


class JiuwenMemoryError(Exception):
    """Something went wrong in this library; the message says what happened and what to do about it.

    `usage` is what a failed add had spent on the model until then, its stored parts included; None if none was begun.
    """

    code: ClassVar[str] = "MEMORY_ERROR"
    number: ClassVar[int | None] = None
    usage: Spent | None = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}"


class InvalidInputError(JiuwenMemoryError, ValueError):
    """A value given by the caller cannot be used."""

    code = "MEMORY_STORE_VALIDATION_INVALID"
    number: ClassVar[int | None] = 158008


class LanguageError(InvalidInputError):
    """The language is neither `cn` nor `en`."""

    code = "MEMORY_GRAPH_LANGUAGE_INVALID"
    number = 158200


class EntityNotFoundError(InvalidInputError):
    """The user has no entity of the given id."""

    code = "MEMORY_GRAPH_ENTITY_NOT_FOUND"
    number = None


class EntityTypesDifferError(InvalidInputError):
    """Entities whose types do not fit were to be fused, and the caller did not say that this is meant."""

    code = "MEMORY_GRAPH_ENTITY_TYPES_DIFFER"
    number = None


class NothingFusedError(InvalidInputError):
    """An entity was to be taken apart of which nothing is recorded that could be rebuilt."""

    code = "MEMORY_GRAPH_NOTHING_FUSED"
    number = None


class ExchangeFileError(InvalidInputError):
    """A file to be imported is damaged, cut off, or was not written by `export_graph`."""

    code = "MEMORY_EXCHANGE_FILE_INVALID"
    number = None


class ExchangeVersionError(ExchangeFileError):
    """A file to be imported has a format that only a newer version of this library reads."""

    code = "MEMORY_EXCHANGE_VERSION_UNKNOWN"


class ExchangeConflictError(InvalidInputError):
    """Ids that are to be imported exist already, as something else; `count` tells how many."""

    code = "MEMORY_EXCHANGE_CONFLICT"
    number = None

    def __init__(self, message: str, *, count: int) -> None:
        super().__init__(message)
        self.count = count


class SetupError(JiuwenMemoryError):
    """The memory was put together without something it needs."""

    code = "MEMORY_SETUP_INVALID"


class EmbedderNotFoundError(SetupError):
    """No embedding model is attached."""

    code = "MEMORY_GRAPH_EMBED_MODEL_NOT_FOUND"
    number = 158202


class ModelNotFoundError(SetupError):
    """No language model is attached."""

    code = "MEMORY_GRAPH_INVOKE_LLM_FAILED"
    number = 158203


class PromptFilesMissingError(SetupError):
    """A prompt file is missing or cannot be rendered."""

    code = "MEMORY_GRAPH_PROMPT_FILES_MISSING"
    number = 158204


class MissingExtraError(SetupError):
    """An optional dependency is not installed; the message names the extra that brings it."""

    code = "MEMORY_EXTRA_NOT_INSTALLED"


class ServiceError(JiuwenMemoryError):
    """An outside service (model, embedder, reranker) failed.

    `retryable` tells whether the same call may succeed later, `retry_after` how many seconds the service asked to wait,
    `status` its HTTP status where there was one.
    """

    code = "MEMORY_SERVICE_FAILED"

    def __init__(
        self, message: str, *, retryable: bool = True, retry_after: float | None = None, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status


class ModelServiceError(ServiceError):
    """One request to a language model failed."""

    code = "MEMORY_GRAPH_INVOKE_LLM_FAILED"
    number = 158203


class EmbeddingServiceError(ServiceError):
    """One request to an embedding model failed."""

    code = "MEMORY_GRAPH_EMBEDDING_CALL_FAILED"
    number = 158201


class RerankServiceError(ServiceError):
    """One request to a reranker failed."""

    code = "MEMORY_GRAPH_RERANK_CALL_FAILED"


class LockServiceError(ServiceError):
    """The service that keeps the users' locks cannot be reached, or refuses."""

    code = "MEMORY_USER_LOCK_SERVICE_FAILED"


class EmbeddingCallError(JiuwenMemoryError):
    """Embedding failed for good, after every try."""

    code = "MEMORY_GRAPH_EMBEDDING_CALL_FAILED"
    number = 158201


class LLMCallError(JiuwenMemoryError):
    """A question to the language model failed for good, after every try; `question` names it."""

    code = "MEMORY_GRAPH_INVOKE_LLM_FAILED"
    number: ClassVar[int | None] = 158203

    def __init__(self, question: str, message: str) -> None:
        super().__init__(message)
        self.question = question


class LLMBudgetError(LLMCallError):
    """The budget of the add (`max_llm_calls`, `max_tokens`) does not allow another question."""

    code = "MEMORY_GRAPH_LLM_BUDGET_SPENT"
    number = None


class LLMAnswerError(LLMCallError):
    """The language model answered, but nothing of the answer was usable; `reply` is the last answer."""

    def __init__(self, question: str, reply: str) -> None:
        super().__init__(
            question,
            f"The model's reply to the question '{question}' holds nothing usable: {reply[:200]!r}. "
            "Use a model that follows a JSON schema, or AddMemStrategy.small_model() for a weak one.",
        )
        self.reply = reply


class PartFailedError(JiuwenMemoryError):
    """One part of a long input failed after earlier parts were stored.

    `stored` lists the episodes that are in the graph, `part` is the number of the one that failed (from 1),
    `remaining` the text that was not stored. The cause is chained.
    """

    code = "MEMORY_ADD_PART_FAILED"

    def __init__(self, message: str, *, stored: Sequence[str], part: int, remaining: str) -> None:
        super().__init__(message)
        self.stored = tuple(stored)
        self.part = part
        self.remaining = remaining


class LockTimeoutError(JiuwenMemoryError):
    """Another writer held the user's lock for longer than the configured wait."""

    code = "MEMORY_USER_LOCK_TIMEOUT"


class LockLostError(JiuwenMemoryError):
    """The user's lock ran out or was taken away while it was needed; somebody else may be writing now."""

    code = "MEMORY_USER_LOCK_LOST"


class StoreError(JiuwenMemoryError):
    """The graph store failed."""

    code = "STORE_GRAPH_CALL_FAILED"


class StoreUnavailableError(StoreError):
    """The graph store cannot be reached or opened."""

    code = "STORE_GRAPH_UNAVAILABLE"


class StoreParameterError(StoreError, ValueError):
    """A parameter of a store call or of its configuration cannot be used."""

    code = "STORE_GRAPH_PARAM_INVALID"
    number = 186003


class BackendNameError(StoreError, ValueError):
    """A backend's name is not a non-empty string."""

    code = "STORE_GRAPH_BACKEND_NAME_INVALID"
    number = 186004


class BackendExistsError(StoreError):
    """A backend of that name is registered already."""

    code = "STORE_GRAPH_BACKEND_ALREADY_EXISTS"
    number = 186005


class StoreProtocolError(StoreError):
    """A registered backend lacks something the `GraphStore` protocol asks for."""

    code = "STORE_GRAPH_PROTOCOL_NOT_IMPLEMENTED"
    number = 186006


class BackendNotFoundError(StoreError):
    """No backend of that name is registered."""

    code = "STORE_GRAPH_BACKEND_NOT_FOUND"
    number = 186007


class FactoryNotInstantiableError(StoreError, TypeError):
    """`GraphStoreFactory` is used through its class methods."""

    code = "STORE_GRAPH_FACTORY_NOT_INSTANTIABLE"
    number = 186008


class CollectionNotSupportedError(StoreError, ValueError):
    """There is no collection of that name."""

    code = "STORE_GRAPH_COLLECTION_NOT_SUPPORTED"
    number = 186009


class QueryExpressionError(StoreError, ValueError):
    """A filter expression cannot be used."""

    code = "RETRIEVAL_VECTOR_STORE_QUERY_INVALID"
    number = 155401


class SchemaMismatchError(StoreError):
    """The store on disk was built with another schema or vector dimension."""

    code = "STORE_GRAPH_SCHEMA_MISMATCH"


class JournalError(StoreError):
    """A journal entry does not add up."""

    code = "STORE_GRAPH_JOURNAL_DAMAGED"


def words_of(error: BaseException) -> str:
    """Return what an error says, to go on with in another error's message: no code before it, no full stop after it."""
    text = error.message if isinstance(error, JiuwenMemoryError) else str(error)
    return text.strip().removesuffix(".") or type(error).__name__
