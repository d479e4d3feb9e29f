"""A reranker behind an endpoint that answers `POST /rerank`, as Jina, Cohere, vLLM and others do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from jiuwen_memory.errors import InvalidInputError, RerankServiceError
from jiuwen_memory.foundation.llm.openai_client import Connection
from jiuwen_memory.foundation.scores import finite_score
from jiuwen_memory.foundation.text import clean_text
from jiuwen_memory.retrieval.common.config import RerankerConfig

SCORE_FIELDS = ("relevance_score", "score")


class APIReranker:
    """A reranker behind an endpoint; `async with` or `close` lets go of its connections."""

    def __init__(self, config: RerankerConfig | None = None) -> None:
        self.config = config or RerankerConfig()
        self.model_name = self.config.model_name
        self._connection = Connection(self.config.base_url, self.config, error=RerankServiceError)

    async def rerank(self, query: str, documents: Sequence[str], *, language: str = "en") -> list[float]:
        """Return one score per document, in order; a higher score is better. The protocol has no place for a language.

        Raises:
            RerankServiceError: the request failed, or its answer cannot be used.
            InvalidInputError: the query is blank.
        """
        if not query.strip():
            raise InvalidInputError("The query is blank; there is nothing to compare documents with.")
        if not documents:
            return []
        body: dict[str, object] = {
            "query": clean_text(query),
            self.config.documents_field: [clean_text(document) for document in documents],
            "return_documents": False,
        }
        if self.config.documents_field == "documents":
            body["top_n"] = len(documents)
        if self.model_name:
            body["model"] = self.model_name
        return parse_scores(await self._connection.post("/rerank", body), len(documents))

    async def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


def parse_scores(answer: object, count: int) -> list[float]:
    """Return the scores of an answer in the order of the documents.

    Raises:
        RerankServiceError: a document has no score, or one that is no finite number.
    """
    items = answer
    if isinstance(answer, Mapping):
        items = answer.get("results") or answer.get("data")
    scores = dict(filter(None, map(_indexed_score, items))) if isinstance(items, list) else {}
    missing = [index for index in range(count) if index not in scores]
    if missing:
        raise RerankServiceError(
            f"The endpoint gave no usable score for {len(missing)} of {count} documents. "
            "Check its address, and that it is a reranker."
        )
    return [scores[index] for index in range(count)]


def _indexed_score(item: object) -> tuple[int, float] | None:
    if not isinstance(item, Mapping):
        return None
    index = item.get("index")
    score = finite_score(next((item[field] for field in SCORE_FIELDS if field in item), None))
    return (index, score) if isinstance(index, int) and score is not None else None
