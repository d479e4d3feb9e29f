"""`GraphMemory`: the one object an agent talks to. It checks, locks, plans, commits and searches through the stages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import BaseModel

from jiuwen_memory.errors import (
    EmbedderNotFoundError,
    InvalidInputError,
    JiuwenMemoryError,
    LanguageError,
    ModelNotFoundError,
    PartFailedError,
    SetupError,
)
from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.llm.model import ChatModel
from jiuwen_memory.foundation.locks import InProcessLocks, UserLocks
from jiuwen_memory.foundation.ports import Embedding, Reranker
from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.constants import (
    GRAPH_COLLECTIONS,
)
from jiuwen_memory.foundation.store.graph.factory import GraphStoreFactory
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.memory_core.config.graph import (
    DEFAULT_STRATEGY,
    AddMemStrategy,
    EpisodeType,
    Language,
    SearchConfig,
)
from jiuwen_memory.memory_core.graph.extraction.asking import Asker, Ledger
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import (
    DEFAULT_ENTITY_TYPES,
    EntityDef,
    as_entity_def,
    as_relation_def,
)
from jiuwen_memory.memory_core.graph.extraction.prompts import PromptLibrary
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_update, replay_journal
from jiuwen_memory.memory_core.graph.graph_memory.pipeline import plan_update
from jiuwen_memory.memory_core.graph.graph_memory.recall import recall_repeat
from jiuwen_memory.memory_core.graph.graph_memory.requests import (
    AddRequest,
    Content,
    parse_request,
    parse_user_id,
    parse_user_ids,
    split_request,
)
from jiuwen_memory.memory_core.graph.graph_memory.search import (
    DEFAULT_SEARCH,
    SearchRequest,
    SearchStrategy,
    search_collection,
)
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder, Services, parse_vector
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate

PAGE = 200


class GraphMemory:
    """A memory with relations in it, for any number of users.

    Args:
        db_config: where and how the graph is stored.
        llm_client: any object with `await invoke(messages=..., response_format=..., **kw)`; only adding needs it.
        llm_structured_output: ask for JSON by schema; without it the schema goes into the prompt.
        reranker: orders candidates where a `SearchConfig` says `rerank=True`.
        extraction_strategy: how texts become part of the graph.
        db_kwargs: further arguments for the store's class.
        llm_extra_kwargs: further arguments of each model call.
        language: language of the prompts and summaries, `cn` or `en`.
        debug: log each question and answer.
        locks: what keeps writers of one user apart; by default all of this process.
        entity_types, relation_types: pydantic models of your own kinds; the default entity types stay.
        prompts: a folder laid out like ours (`en/entities.md`, ...) whose files replace ours one by one.

    Opening happens on first use. Use it in `async with`, or call `close()`; model, embedder and reranker are yours to
    close.
    """

    def __init__(
        self,
        db_config: GraphConfig,
        llm_client: ChatModel | None = None,
        llm_structured_output: bool = True,
        reranker: Reranker | None = None,
        extraction_strategy: AddMemStrategy = DEFAULT_STRATEGY,
        db_kwargs: Mapping[str, Any] | None = None,
        llm_extra_kwargs: Mapping[str, Any] | None = None,
        language: Language = "cn",
        debug: bool = False,
        *,
        locks: UserLocks | None = None,
        entity_types: Sequence[type[BaseModel]] = (),
        relation_types: Sequence[type[BaseModel]] = (),
        prompts: str | Path | None = None,
    ) -> None:
        if language not in get_args(Language):
            raise LanguageError(f"language is {language!r}; give 'cn' or 'en'.")
        self.config = db_config
        self.llm_client = llm_client
        self.llm_structured_output = llm_structured_output
        self.reranker = reranker
        self.extraction_strategy = extraction_strategy
        self.llm_extra_kwargs = dict(llm_extra_kwargs or {})
        self.language: Language = language
        self.debug = debug
        self.entity_types = (*DEFAULT_ENTITY_TYPES, *(as_entity_def(each) for each in entity_types))
        self.relation_types = tuple(as_relation_def(each) for each in relation_types)
        _check_type_names(self.entity_types, db_config)
        self._store: GraphStore = GraphStoreFactory.from_config(db_config, **(db_kwargs or {}))
        self._locks = locks or InProcessLocks()
        self._prompts = PromptLibrary(Path(prompts) if prompts else None)
        self._strategies: dict[str, SearchStrategy] = {"default": DEFAULT_SEARCH}
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

    def attach_embedder(self, embedder: Embedding) -> None:
        """Attach the embedding model; its dimension, once known, must equal `GraphConfig.embed_dim`."""
        self._store.attach_embedder(embedder)

    def attach_reranker(self, reranker: Reranker) -> None:
        """Attach the reranker used where a `SearchConfig` says `rerank=True`."""
        if not isinstance(reranker, Reranker):
            raise InvalidInputError(
                f"A reranker needs an async method rerank(query, documents); {type(reranker).__name__} has none."
            )
        self.reranker = reranker

    def register_search_strategy(
        self,
        name: str,
        search_entity: SearchConfig | None = None,
        search_relation: SearchConfig | None = None,
        search_episode: SearchConfig | None = None,
        force: bool = False,
    ) -> None:
        """Register a named strategy; a part left out is searched as in `default`. `force` replaces a name in use."""
        if not isinstance(name, str) or not name.strip():
            raise InvalidInputError(f"The strategy's name is {name!r}; give a text that is not blank.")
        if name in self._strategies and not force:
            raise InvalidInputError(f"A search strategy {name!r} exists already; pass force=True to replace it.")
        for each in (search_entity, search_relation, search_episode):
            if each is not None and not isinstance(each, SearchConfig):
                raise InvalidInputError(f"A strategy is made of SearchConfig objects, not {type(each).__name__}.")
        self._strategies[name] = SearchStrategy(
            entity=search_entity or DEFAULT_SEARCH.entity,
            relation=search_relation or DEFAULT_SEARCH.relation,
            episode=search_episode or DEFAULT_SEARCH.episode,
        )
        self._strategies[name].warn_if_unreachable(name)

    async def add_memory(
        self,
        src_type: EpisodeType,
        user_id: str,
        content: Content,
        content_fmt_kwargs: Mapping[str, str] | None = None,
        reference_time: datetime | None = None,
        *,
        session_id: str | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
    ) -> GraphMemUpdate:
        """Take one conversation, document or JSON value into the user's graph, and return what changed.

        Args:
            src_type: what kind of input this is.
            user_id: whose memory it is; at most `GraphStoreStorageConfig.user_id` characters.
            content: a list of messages (dicts, LangChain messages, ours) or a text; JSON also as a value.
            content_fmt_kwargs: names for roles, such as `{"user": "Alice"}`.
            reference_time: when it was said (default: now); without a zone it is UTC.
            session_id: groups episodes of one conversation.
            source: where it comes from, kept on everything learnt from it.
            idempotency_key: a second add with the same key changes nothing.

        Raises:
            InvalidInputError: something given cannot be used.
            EmbedderNotFoundError, ModelNotFoundError: one of the two is not attached.
            LLMCallError, EmbeddingCallError: a service failed for good; nothing of the (part of the) input is stored.
            PartFailedError: a later part of a long input failed; it names the parts that are stored.
            LockTimeoutError: another writer of this user took too long.
        """
        embedder = self._embedder()
        model = self._model()
        request = parse_request(
            src_type,
            content,
            user_id=user_id,
            storage=self.config.db_storage_config,
            content_fmt_kwargs=content_fmt_kwargs,
            reference_time=reference_time,
            session_id=session_id,
            source=source,
            idempotency_key=idempotency_key,
        )
        parts = split_request(
            request,
            chunk_tokens=self.extraction_strategy.chunk_tokens,
            content_bytes=self.config.db_storage_config.content,
        )
        async with self._locks.hold(self._store.identity, user_id):
            await replay_journal(user_id, store=self._store, embedder=embedder)
            return await self._add_parts(parts, model=model, embedder=embedder)

    async def _add_parts(self, parts: Sequence[AddRequest], *, model: ChatModel, embedder: Embedder) -> GraphMemUpdate:
        total = GraphMemUpdate()
        stored: list[str] = []
        for number, part in enumerate(parts):
            try:
                update = await self._add_part(part, model=model, embedder=embedder)
            except JiuwenMemoryError as error:
                if not stored:
                    raise
                raise PartFailedError(
                    f"Part {part.part} of {part.parts} failed ({error}); the parts before it are stored. "
                    "Add the same content again with the same reference_time or idempotency_key to go on from there.",
                    stored=stored,
                    part=part.part,
                    remaining="".join(each.text for each in parts[number:]),
                ) from error
            total |= update
            stored += [update.duplicate_of] if update.duplicate_of else [each.uuid for each in update.added_episode]
        return total

    async def _add_part(self, part: AddRequest, *, model: ChatModel, embedder: Embedder) -> GraphMemUpdate:
        services = self._services(model, embedder)
        repeated = await recall_repeat(part, services)
        if repeated is not None:
            return GraphMemUpdate(duplicate_of=repeated.uuid)
        planned = await plan_update(part, services)
        update = await commit_update(planned, part.user_id, store=self._store, embedder=embedder)
        ledger = services.asker.ledger
        return replace(update, warnings=[*part.warnings, *ledger.warnings, *update.warnings], usage=ledger.usage)

    async def search(
        self,
        query: str,
        user_id: str | Sequence[str],
        search_strategy: str = "default",
        *,
        entity: bool = True,
        relation: bool = True,
        episode: bool = True,
        query_embedding: Sequence[float] | None = None,
    ) -> dict[str, list[tuple[float, BaseGraphObject]]]:
        """Find what the memory knows about a query, in each enabled collection, best first.

        Args:
            query: words or a question, in any language the embedder knows.
            user_id: one user, or several whose memories are searched together.
            search_strategy: a registered name.
            entity, relation, episode: which collections to search; only these are keys of the result.
            query_embedding: the query's vector, if it is known already; then the embedder is not called.

        Returns:
            A dict from collection name to (score, object) pairs; a higher score is better.
        """
        users = parse_user_ids(user_id, self.config.db_storage_config)
        if not isinstance(query, str) or not (query.strip() or query_embedding is not None):
            raise InvalidInputError(f"query is {query!r}; give a text that is not blank.")
        strategy = self._strategies.get(search_strategy)
        if strategy is None:
            raise InvalidInputError(
                f"There is no search strategy {search_strategy!r}; known are {', '.join(sorted(self._strategies))}. "
                "Register one with register_search_strategy."
            )
        enabled = zip(GRAPH_COLLECTIONS, (entity, relation, episode), strict=True)
        collections = [name for name, wanted in enabled if wanted]
        if not collections:
            return {}
        vector = await self._query_vector(query, query_embedding)
        results = await together(
            *(
                search_collection(
                    SearchRequest(name, query, vector, users, strategy.config(name)),
                    store=self._store,
                    reranker=self.reranker,
                    tries=self.config.request_max_retries,
                )
                for name in collections
            )
        )
        return dict(zip(collections, results, strict=True))

    async def get(self, collection: str, ids: Sequence[str], user_id: str | Sequence[str]) -> list[BaseGraphObject]:
        """Return this user's objects of these ids, in order; ids that are not there, or not theirs, are passed over."""
        users = parse_user_ids(user_id, self.config.db_storage_config)
        return await self._store.query(collection, user=filter_user(users), ids=[ids] if isinstance(ids, str) else ids)

    async def objects(self, collection: str, user_id: str) -> AsyncIterator[BaseGraphObject]:
        """Go through all of a user's objects in a collection, newest first, a page at a time."""
        user = filter_user(parse_user_id(user_id, self.config.db_storage_config))
        listed = await self._store.query(collection, user=user, output_fields=["uuid", "created_at"])
        listed.sort(key=lambda each: -each.created_at)
        for start in range(0, len(listed), PAGE):
            ids = [each.uuid for each in listed[start : start + PAGE]]
            for each in await self._store.query(collection, user=user, ids=ids):
                yield each

    async def close(self) -> None:
        """Let go of the store; a later use is an error."""
        await self._store.close()

    aclose = close

    async def __aenter__(self) -> Self:
        await self._store.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def _query_vector(self, query: str, given: Sequence[float] | None) -> Sequence[float]:
        if given is None:
            return await self._embedder().embed_query(query)
        return parse_vector(given, self.config.embed_dim)

    def _embedder(self) -> Embedder:
        model = self._store.embedder
        if model is None:
            raise EmbedderNotFoundError("No embedding model is attached; call attach_embedder(...) first.")
        return Embedder(
            model,
            dimension=self.config.embed_dim,
            tries=self.config.request_max_retries,
            batch_size=self.config.embed_batch_size,
        )

    def _model(self) -> ChatModel:
        if self.llm_client is None:
            raise ModelNotFoundError(
                "No language model is attached; pass llm_client=... to GraphMemory to add memories."
            )
        return self.llm_client

    def _services(self, model: ChatModel, embedder: Embedder) -> Services:
        asker = Asker(
            model,
            prompts=self._prompts,
            ledger=Ledger(),
            tries=self.config.request_max_retries,
            max_concurrent=self.config.max_concurrent,
            structured_output=self.llm_structured_output,
            extra_kwargs=self.llm_extra_kwargs,
            debug=self.debug,
        )
        return Services(
            store=self._store,
            embedder=embedder,
            asker=asker,
            strategy=self.extraction_strategy,
            language=self.language,
            entity_types=self.entity_types,
            relation_types=self.relation_types,
        )


def _check_type_names(types: Sequence[type[EntityDef]], config: GraphConfig) -> None:
    limit = config.db_storage_config.obj_type
    for each in types:
        if len(each.name.encode()) > limit:
            raise SetupError(
                f"The name of the entity type {each.name} is longer than the {limit} bytes of "
                "GraphStoreStorageConfig.obj_type; shorten it, or raise the limit before the store is made."
            )
