"""What every door of the memory stands on: its parts, how they are attached and closed, and how a user is locked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, get_args

from jiuwen_memory.errors import LanguageError, ModelNotFoundError
from jiuwen_memory.foundation.langchain_embedding import (
    LangChainEmbedding,
    LangChainEmbeddings,
    is_langchain_embeddings,
)
from jiuwen_memory.foundation.langchain_reranker import AnyReranker, LangChainReranker, is_langchain_reranker
from jiuwen_memory.foundation.llm.langchain_model import LangChainChat, LangChainModel, is_langchain_chat
from jiuwen_memory.foundation.llm.model import ChatModel
from jiuwen_memory.foundation.locks import InProcessLocks, Lease, UserLocks
from jiuwen_memory.foundation.ports import Embedding, Reranker
from jiuwen_memory.foundation.store.graph.base import GraphStore, JournalEntry
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.factory import GraphStoreFactory
from jiuwen_memory.foundation.tracing import span
from jiuwen_memory.memory_core.config.graph import DEFAULT_STRATEGY, AddMemStrategy, Language
from jiuwen_memory.memory_core.graph.extraction.asking import Asker, Budget, Ledger
from jiuwen_memory.memory_core.graph.extraction.ontology import Models, OwnTypes, make_ontology
from jiuwen_memory.memory_core.graph.extraction.prompts import PromptLibrary
from jiuwen_memory.memory_core.graph.graph_memory.commit import replay_journal
from jiuwen_memory.memory_core.graph.graph_memory.parts import (
    check_config,
    check_locks,
    check_mapping,
    check_model,
    check_prompts,
    check_reranker,
    check_strategy,
)
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchStrategy
from jiuwen_memory.memory_core.graph.graph_memory.searching.names import NameShares
from jiuwen_memory.memory_core.graph.graph_memory.searching.strategies import STRATEGIES
from jiuwen_memory.memory_core.graph.graph_memory.searching.vectors import QueryVectors
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder, attached_embedder


@dataclass(frozen=True)
class Hold:
    """A user whose lock is held and whose interrupted writes are finished; `pending` lists their unfinished adds.

    `embedder` is the one to use meanwhile.
    """

    lease: Lease
    embedder: Embedder
    replayed: int
    pending: tuple[JournalEntry, ...]


GetHold = Callable[[], AbstractAsyncContextManager[Hold]]
"""Holds a user for as long as the context lasts; what goes through a whole graph lets others in between its pages."""


class MemoryCore:
    """The parts of a memory; `GraphMemory` says what each argument means."""

    def __init__(
        self,
        db_config: GraphConfig,
        llm_client: ChatModel | LangChainChat | None = None,
        llm_structured_output: bool = True,
        reranker: AnyReranker | None = None,
        extraction_strategy: AddMemStrategy = DEFAULT_STRATEGY,
        db_kwargs: Mapping[str, Any] | None = None,
        llm_extra_kwargs: Mapping[str, Any] | None = None,
        language: Language = "cn",
        debug: bool = False,
        *,
        locks: UserLocks | None = None,
        entity_types: Models = (),
        relation_types: Models = (),
        closed_types: bool = False,
        prompts: str | Path | None = None,
    ) -> None:
        if language not in get_args(Language):
            raise LanguageError(f"language is {language!r}; give 'cn' or 'en'.")
        check_config(db_config)
        check_strategy(extraction_strategy)
        check_locks(locks)
        check_prompts(prompts)
        for name, keywords in (("db_kwargs", db_kwargs), ("llm_extra_kwargs", llm_extra_kwargs)):
            check_mapping(name, keywords)
        self.config = db_config
        self.llm_client: ChatModel | None = LangChainModel(llm_client) if is_langchain_chat(llm_client) else llm_client
        check_model(self.llm_client)
        self.llm_structured_output = llm_structured_output
        self.reranker: Reranker | None = LangChainReranker(reranker) if is_langchain_reranker(reranker) else reranker
        check_reranker(self.reranker)
        self.extraction_strategy = extraction_strategy
        self.llm_extra_kwargs = dict(llm_extra_kwargs or {})
        self.language: Language = language
        self.debug = debug
        self._own_types = OwnTypes(entity_types, relation_types, closed_types)
        self.ontology = make_ontology(self._own_types, db_config.db_storage_config)
        self._store: GraphStore = GraphStoreFactory.from_config(db_config, **(db_kwargs or {}))
        self._locks = locks or InProcessLocks()
        self._prompts = PromptLibrary(prompts)
        self._strategies: dict[str, SearchStrategy] = dict(STRATEGIES)
        self._name_shares = NameShares()
        self._query_vectors = QueryVectors()
        if db_config.embedding_model is not None:
            self.attach_embedder(db_config.embedding_model)

    @property
    def db_backend(self) -> GraphStore:
        """The graph store."""
        return self._store

    @property
    def embedder(self) -> Embedding | None:
        """The attached embedding model."""
        return self._store.embedder

    def attach_embedder(self, embedder: Embedding | LangChainEmbeddings) -> None:
        """Attach the embedding model (ours or LangChain's); its dimension must equal `GraphConfig.embed_dim`."""
        self._store.attach_embedder(LangChainEmbedding(embedder) if is_langchain_embeddings(embedder) else embedder)
        self._query_vectors.clear()

    def attach_reranker(self, reranker: AnyReranker) -> None:
        """Attach the reranker used where a `SearchConfig` says `rerank=True`: one of ours, or of LangChain's."""
        given = LangChainReranker(reranker) if is_langchain_reranker(reranker) else reranker
        check_reranker(given)
        self.reranker = given

    async def close(self) -> None:
        """Let go of the store; a later use is an error."""
        await self._store.close()

    aclose = close

    async def __aenter__(self) -> Self:
        try:
            await self._store.open()
        except asyncio.CancelledError:
            # A store goes on opening in its thread, and nobody else would close it.
            await self.close()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @asynccontextmanager
    async def hold(self, user_id: str) -> AsyncIterator[Lease]:
        """Hold a user's lock, for what reads or writes much of their graph; interrupted writes are finished first.

        Only if there are any, an embedder is needed.
        """
        async with self._locked(user_id) as lease:
            if user_id in await self._store.journal.unfinished(user_id):
                await replay_journal(user_id, store=self._store, embedder=self._embedder())
            yield lease

    @asynccontextmanager
    async def _hold(self, user_id: str, embedder: Embedder) -> AsyncIterator[Hold]:
        """Hold the user's lock, with everything an interrupted writer left finished."""
        async with self._locked(user_id) as lease:
            replay = await replay_journal(user_id, store=self._store, embedder=embedder)
            yield Hold(lease, embedder, replay.finished, replay.pending)

    @asynccontextmanager
    async def _locked(self, user_id: str) -> AsyncIterator[Lease]:
        """Hold the user's lock; in a trace the wait for it has a span of its own."""
        async with AsyncExitStack() as held:
            with span("wait for lock"):
                lease = await held.enter_async_context(self._locks.hold(self._store.identity, user_id))
            yield lease

    def _embedder(self) -> Embedder:
        return attached_embedder(self._store)

    def _model(self) -> ChatModel:
        if self.llm_client is None:
            raise ModelNotFoundError(
                "No language model is attached; pass llm_client=... to GraphMemory to add memories."
            )
        return self.llm_client

    def _asker(self, model: ChatModel, budget: Budget | None = None) -> Asker:
        return Asker(
            model,
            prompts=self._prompts,
            ledger=Ledger(),
            tries=self.config.request_max_retries,
            max_concurrent=self.config.max_concurrent,
            structured_output=self.llm_structured_output,
            extra_kwargs=self.llm_extra_kwargs,
            debug=self.debug,
            budget=budget,
        )
