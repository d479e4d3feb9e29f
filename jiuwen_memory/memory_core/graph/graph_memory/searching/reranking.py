"""Let the attached reranker order candidates anew. Asks the reranker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jiuwen_memory.errors import LLMAnswerError, RerankServiceError, SetupError, words_of
from jiuwen_memory.foundation.model_spans import model_span
from jiuwen_memory.foundation.ports import Reranker
from jiuwen_memory.foundation.retry import outcome_of, retrying
from jiuwen_memory.foundation.scores import finite_score
from jiuwen_memory.foundation.store.graph.base import Hit
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Relation
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchRequest


@traced
async def ask_reranker(
    request: SearchRequest, hits: Sequence[Hit], *, reranker: Reranker | None, tries: int
) -> list[Hit]:
    """Return the hits with the reranker's scores, best first.

    Raises:
        SetupError: no reranker is attached.
        RerankServiceError: it failed, or its scores cannot be used.
        LLMAnswerError: it is a language model, and its reply cannot be used.
    """
    if reranker is None:
        raise SetupError(
            f"The search strategy wants {request.collection} reranked, but no reranker is attached; "
            "call attach_reranker, or register the strategy with rerank=False."
        )
    if not hits:
        return []
    documents = [_document(hit.found) for hit in hits]
    attached = reranker

    async def call() -> list[float]:
        with model_span("rerank", attached, {"texts": len(documents)}):
            return await attached.rerank(request.text, documents, language=request.config.language)

    scores = await outcome_of(retrying(call, tries=tries, what="reranking"))
    if isinstance(scores, LLMAnswerError):
        raise scores
    if isinstance(scores, Exception):
        told = f"Reranking failed: {words_of(scores)}."
        raise RerankServiceError(f"{told} Check the reranker, or search without it.") from scores
    return sorted(
        [Hit(score, hit.found) for score, hit in zip(_checked_scores(scores, len(hits)), hits, strict=True)],
        key=lambda hit: -hit.score,
    )


def _checked_scores(scores: object, count: int) -> list[float]:
    """Return a reranker's scores (any sequence of numbers, arrays included), if each document has a finite one."""
    given = [finite_score(each) for each in scores] if isinstance(scores, Iterable) else []
    numbers = [each for each in given if each is not None]
    if len(numbers) == len(given) == count:
        return numbers
    raise RerankServiceError(
        f"The reranker gave no score for each of {count} documents; it must give one finite number per document.",
        retryable=False,
    )


def _document(found: BaseGraphObject) -> str:
    """Return what a reranker reads; never nothing, which some services refuse."""
    if isinstance(found, Entity):
        return f"{found.name}: {found.content}" if found.content else found.name
    return found.qualified_text if isinstance(found, Relation) else found.content
