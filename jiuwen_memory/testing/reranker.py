"""A reranker for tests: the share of the query's search tokens that a document holds. Touches nothing outside."""

from __future__ import annotations

from collections.abc import Sequence

from jiuwen_memory.foundation.text import query_tokens, search_tokens


class FakeReranker:
    """Scores from 0 to 1; `calls` counts the calls, `languages` keeps the languages asked for."""

    def __init__(self) -> None:
        self.calls = 0
        self.languages: list[str] = []

    async def rerank(self, query: str, documents: Sequence[str], *, language: str = "en") -> list[float]:
        """Return one score per document, in order."""
        self.calls += 1
        self.languages.append(language)
        wanted = set(query_tokens(query).split())
        return [len(wanted & set(search_tokens(text).split())) / max(1, len(wanted)) for text in documents]
