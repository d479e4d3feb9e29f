"""LangChain's document compressors and cross-encoders in the shape of our rerankers; langchain_core makes documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from jiuwen_memory.errors import InvalidInputError, RerankServiceError
from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.ports import Reranker
from jiuwen_memory.foundation.scores import finite_score
from jiuwen_memory.foundation.text import clean_text

if TYPE_CHECKING:
    from langchain_core.documents import Document
    from typing_extensions import TypeIs

PLACE: Final = "jiuwen_memory_place"
SCORE_FIELDS: Final = ("relevance_score", "score")


class LangChainCompressor(Protocol):
    """LangChain's `BaseDocumentCompressor`, as far as we must know it."""

    async def acompress_documents(self, documents: Sequence[Document], query: str) -> Sequence[Document]:
        """Return the documents that fit the query, best first."""


class LangChainCrossEncoder(Protocol):
    """LangChain's `BaseCrossEncoder`, as far as we must know it."""

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """Return one score per pair."""


class LangChainReranker:
    """A compressor or cross-encoder of LangChain as a reranker.

    A compressor's documents are in its order; those that it leaves out come after the others, so give it a `top_n` as
    large as the results that you want. A cross-encoder, which is not awaited, runs in a thread.
    """

    def __init__(self, inner: LangChainCompressor | LangChainCrossEncoder) -> None:
        self.inner = inner
        named = getattr(inner, "model", None) or getattr(inner, "model_name", None)
        self.model_name = named if isinstance(named, str) else type(inner).__name__

    async def rerank(self, query: str, documents: Sequence[str], *, language: str = "en") -> list[float]:
        """Return one score per document, in order; a higher score is better. LangChain has no place for a language.

        Raises:
            InvalidInputError: the query is blank.
            RerankServiceError: a document came back that was not sent.
        """
        if not query.strip():
            raise InvalidInputError("The query is blank; there is nothing to compare documents with.")
        if not documents:
            return []
        cleaned = [clean_text(document) for document in documents]
        if is_langchain_compressor(self.inner):
            return await _compressed(self.inner, clean_text(query), cleaned)
        pairs = [(clean_text(query), document) for document in cleaned]
        return [float(score) for score in await off_loop(None, self.inner.score, pairs)]


AnyReranker = Reranker | LangChainCompressor | LangChainCrossEncoder


def is_langchain_reranker(reranker: object) -> TypeIs[LangChainCompressor | LangChainCrossEncoder]:
    """Tell whether an object is a compressor or cross-encoder of LangChain's, and no reranker of ours."""
    if isinstance(reranker, type | Reranker):
        return False
    return is_langchain_compressor(reranker) or is_langchain_cross_encoder(reranker)


def is_langchain_compressor(reranker: object) -> TypeIs[LangChainCompressor]:
    """Tell whether an object is a document compressor of LangChain's, by the method that ours has not."""
    return callable(getattr(reranker, "acompress_documents", None))


def is_langchain_cross_encoder(reranker: object) -> TypeIs[LangChainCrossEncoder]:
    """Tell whether an object is a cross-encoder of LangChain's, by the method that ours has not."""
    return callable(getattr(reranker, "score", None))


async def _compressed(compressor: LangChainCompressor, query: str, texts: Sequence[str]) -> list[float]:
    from langchain_core.documents import Document

    documents = [Document(page_content=text, metadata={PLACE: place}) for place, text in enumerate(texts)]
    kept = await compressor.acompress_documents(documents, query)
    places = [_place(document, texts) for document in kept]
    given = [_score(document) for document in kept]
    # Without scores, the order is what the compressor has to say.
    scores = [len(kept) - number if None in given else score or 0.0 for number, score in enumerate(given)]
    below = min(scores, default=0.0) - 1.0
    by_place = dict(zip(reversed(places), reversed(scores), strict=True))
    return [float(by_place.get(place, below)) for place in range(len(texts))]


def _place(document: Document, texts: Sequence[str]) -> int:
    place = document.metadata.get(PLACE)
    if isinstance(place, int) and 0 <= place < len(texts):
        return place
    if document.page_content in texts:
        return texts.index(document.page_content)
    raise RerankServiceError(
        "The compressor gave back a document that it was not sent; use one that orders documents and leaves their "
        "text and metadata alone.",
        retryable=False,
    )


def _score(document: Document) -> float | None:
    return finite_score(next((document.metadata[name] for name in SCORE_FIELDS if name in document.metadata), None))
