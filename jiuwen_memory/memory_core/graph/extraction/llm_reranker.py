"""A language model as a reranker: asked once about all candidates. Calls the model."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from jiuwen_memory.errors import InvalidInputError, LanguageError
from jiuwen_memory.foundation.llm.langchain_model import LangChainChat, LangChainModel, is_langchain_chat
from jiuwen_memory.foundation.llm.model import ChatModel
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.asking import Asker, Ledger
from jiuwen_memory.memory_core.graph.extraction.prompts import PromptLibrary
from jiuwen_memory.memory_core.graph.extraction.questions.ranking import ask_ranking

logger = logging.getLogger("jiuwen_memory")


class LLMReranker:
    """Lets a language model put the candidates of a search in order, with one question about all of them.

    Candidates that the model does not list keep their order, behind those that it does. In a search, a reply that
    cannot be used leaves the order as it was, and `diagnostics.problems` says so.

    Args:
        model: a `Model`, a chat model of LangChain, or what else works as `llm_client`; it is yours to close.
        structured_output: ask for JSON by schema; without it the schema goes into the prompt.
        tries: requests per question in all.
        passage_tokens: each candidate is cut to about so many tokens.
        prompts: a folder of prompts of your own; the file is `rerank.md`.
        extra_kwargs: further arguments of each request.
    """

    def __init__(
        self,
        model: ChatModel | LangChainChat,
        *,
        structured_output: bool = True,
        tries: int = 2,
        passage_tokens: int = 120,
        prompts: str | Path | None = None,
        extra_kwargs: Mapping[str, object] | None = None,
    ) -> None:
        if tries < 1 or passage_tokens < 1:
            raise InvalidInputError(f"tries is {tries} and passage_tokens {passage_tokens}; give 1 or more.")
        self.model: ChatModel = LangChainModel(model) if is_langchain_chat(model) else model
        self._structured_output = structured_output
        self._tries = tries
        self._passage_tokens = passage_tokens
        self._prompts = PromptLibrary(Path(prompts) if prompts else None)
        self._extra_kwargs = dict(extra_kwargs or {})

    async def rerank(self, query: str, documents: Sequence[str], *, language: str = "en") -> list[float]:
        """Return one score per document, in order: 1 for the best, down to 0; `language` is that of the prompt.

        Raises:
            InvalidInputError: the query is blank, or the language unknown.
            LLMCallError: the service failed for good.
            LLMAnswerError: it answered, but with nothing usable.
        """
        if not query.strip():
            raise InvalidInputError("The query is blank; there is nothing to compare documents with.")
        known: dict[str, Language] = {each: each for each in get_args(Language)}
        if language not in known:
            raise LanguageError(f"language is {language!r}; give 'cn' or 'en'.")
        if not documents:
            return []
        ledger = Ledger()
        best = await ask_ranking(
            query,
            documents,
            passage_tokens=self._passage_tokens,
            language=known[language],
            asker=self._asker(ledger),
        )
        for warning in ledger.warnings:
            logger.warning("Reranking: %s", warning)
        return _scores(best, len(documents))

    def _asker(self, ledger: Ledger) -> Asker:
        return Asker(
            self.model,
            prompts=self._prompts,
            ledger=ledger,
            tries=self._tries,
            max_concurrent=1,
            structured_output=self._structured_output,
            extra_kwargs=self._extra_kwargs,
            debug=False,
        )


def _scores(best: Sequence[int], count: int) -> list[float]:
    rest = [place for place in range(count) if place not in set(best)]
    scores = [0.0] * count
    for rank, place in enumerate([*best, *rest]):
        scores[place] = (count - rank) / count
    return scores
