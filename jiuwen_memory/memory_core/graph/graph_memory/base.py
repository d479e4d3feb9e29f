"""`GraphMemory`: the one object an agent talks to. It checks, locks, plans, commits and searches through the stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from jiuwen_memory.errors import InvalidInputError, JiuwenMemoryError, PartFailedError
from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.operations import operation
from jiuwen_memory.foundation.store.graph.base import JournalEntry
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.config.graph import EpisodeType, SearchConfig
from jiuwen_memory.memory_core.graph.extraction.asking import Budget
from jiuwen_memory.memory_core.graph.extraction.ontology import Models, Ontology, make_ontology
from jiuwen_memory.memory_core.graph.graph_memory.bulk import (
    BulkReport,
    GatheringEmbedding,
    MemoryItem,
    OnProgress,
    add_items,
)
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_update
from jiuwen_memory.memory_core.graph.graph_memory.core import Hold
from jiuwen_memory.memory_core.graph.graph_memory.evidence import Origin, recall_scope
from jiuwen_memory.memory_core.graph.graph_memory.figures import add_figures, search_figures
from jiuwen_memory.memory_core.graph.graph_memory.identities import Identities
from jiuwen_memory.memory_core.graph.graph_memory.methods import METHODS
from jiuwen_memory.memory_core.graph.graph_memory.pending import (
    KEPT,
    PendingAdd,
    Place,
    ResumedAdd,
    commit_pending,
    parse_pending,
    pending_place,
    readable_pending,
    resolve_waiting,
)
from jiuwen_memory.memory_core.graph.graph_memory.pipeline import plan_addition
from jiuwen_memory.memory_core.graph.graph_memory.recall import recall_repeat
from jiuwen_memory.memory_core.graph.graph_memory.requests import (
    AddRequest,
    Content,
    key_warnings,
    parse_request,
    parse_user_id,
    parse_user_ids,
    split_request,
)
from jiuwen_memory.memory_core.graph.graph_memory.search import Notes, SearchServices, search_memory
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import (
    SearchStrategy,
    requests_for,
    scoped_collections,
    strategy_named,
)
from jiuwen_memory.memory_core.graph.graph_memory.searching.results import SearchDiagnostics, SearchResult
from jiuwen_memory.memory_core.graph.graph_memory.searching.strategies import DEFAULT_SEARCH
from jiuwen_memory.memory_core.graph.graph_memory.searching.times import AskedTime, parse_moment
from jiuwen_memory.memory_core.graph.graph_memory.searching.vectors import Embedded, QuerySide
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder, Services, parse_vector
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate


class GraphMemory(Identities):
    """A memory with relations in it, for any number of users.

    Args:
        db_config: where and how the graph is stored.
        llm_client: any object with `await invoke(messages=..., response_format=..., **kw)`, or a LangChain chat model;
            only adding needs it.
        llm_structured_output: ask for JSON by schema; without it the schema goes into the prompt.
        reranker: orders candidates where a `SearchConfig` says `rerank=True`.
        extraction_strategy: how texts become part of the graph.
        db_kwargs: further arguments for the store's class.
        llm_extra_kwargs: further arguments of each model call.
        language: language of the prompts and summaries, `cn` or `en`.
        debug: log each question and answer.
        locks: what keeps writers of one user apart; by default all of this process.
        entity_types, relation_types: pydantic models of your own kinds; the default entity types stay.
        closed_types: leave out what is of none of your kinds, with a warning; the default entity types go too.
        prompts: a folder laid out like ours (`en/entities.md`, ...) whose files replace ours one by one.

    Opening happens on first use. Use it in `async with`, or call `close()`; model, embedder and reranker are yours to
    close.
    """

    def register_search_strategy(
        self,
        name: str,
        search_entity: SearchConfig | None = None,
        search_relation: SearchConfig | None = None,
        search_episode: SearchConfig | None = None,
        force: bool = False,
    ) -> None:
        """Register a named strategy; a part left out is as in the `default` from the start.

        `force` replaces a name in use. A threshold that no result can reach is warned about.

        Raises:
            InvalidInputError: the name is blank or in use, or a part is no `SearchConfig`.
            StoreParameterError: a ranking leaves a collection no channel.
        """
        if not isinstance(name, str) or not name.strip():
            raise InvalidInputError(f"The strategy's name is {name!r}; give a text that is not blank.")
        if name in self._strategies and not force:
            raise InvalidInputError(f"A search strategy {name!r} exists already; pass force=True to replace it.")
        for each in (search_entity, search_relation, search_episode):
            if each is not None and not isinstance(each, SearchConfig):
                raise InvalidInputError(f"A strategy is made of SearchConfig objects, not {type(each).__name__}.")
        strategy = SearchStrategy(
            entity=search_entity or DEFAULT_SEARCH.entity,
            relation=search_relation or DEFAULT_SEARCH.relation,
            episode=search_episode or DEFAULT_SEARCH.episode,
        )
        strategy.check(name)
        self._strategies[name] = strategy

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
        entity_types: Models | None = None,
        relation_types: Models | None = None,
        closed_types: bool | None = None,
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
            idempotency_key: a second add with the same key changes nothing; other content under it is reported in the
                update's warnings.
            entity_types, relation_types, closed_types: used for this input instead of the memory's own.

        Raises:
            SetupError: the types given cannot be used.
            InvalidInputError: something given cannot be used.
            EmbedderNotFoundError, ModelNotFoundError: one of the two is not attached.
            LLMCallError, EmbeddingCallError: a service failed for good; nothing of the (part of the) input is in the
                graph, and with `AddMemStrategy.keep_failed` it waits in the journal for `resume`.
            PartFailedError: a later part of a long input failed; it names the parts that are stored.
            LockTimeoutError: another writer of this user took too long.
            LockLostError, LockServiceError: the user's lock was lost before the write; nothing was written.
        """
        ontology = self._ontology(entity_types, relation_types, closed_types=closed_types)
        item = MemoryItem(
            user_id,
            content,
            src_type,
            content_fmt_kwargs=content_fmt_kwargs,
            reference_time=reference_time,
            session_id=session_id,
            source=source,
            idempotency_key=idempotency_key,
        )
        return await self._add_item(item, self._embedder(), ontology)

    @operation()
    async def add_memories(
        self, items: Iterable[MemoryItem], *, on_progress: OnProgress | None = None, users_at_once: int = 8
    ) -> BulkReport:
        """Add many inputs: those of one user in the order given, different users side by side.

        An item that fails is in the report with its error, and the rest goes on. Adding the same items again, after a
        failure, a cancellation or a crash, does what is missing and repeats nothing: an item with neither
        `reference_time` nor `idempotency_key` gets a key made of its content and its place among equal items.

        Args:
            items: the inputs.
            on_progress: called after each item with a `BulkProgress`; may be a coroutine function.
            users_at_once: how many users are added to at the same time.

        Raises:
            InvalidInputError: something in `items` is no `MemoryItem`, or an argument cannot be used.
            EmbedderNotFoundError, ModelNotFoundError: one of the two is not attached.
        """
        embedder = self._embedder()
        self._model()
        shared = replace(embedder, model=GatheringEmbedding(embedder.model))
        return await add_items(
            items,
            add=lambda item: self._add_item(item, shared, self.ontology),
            users_at_once=users_at_once,
            on_progress=on_progress,
        )

    @operation(add_figures, name="add_memory", user=lambda memory, item, *rest: item.user_id)
    async def _add_item(self, item: MemoryItem, embedder: Embedder, ontology: Ontology) -> GraphMemUpdate:
        self._model()
        request = parse_request(
            item.src_type,
            item.content,
            user_id=item.user_id,
            storage=self.config.db_storage_config,
            content_fmt_kwargs=item.content_fmt_kwargs,
            reference_time=item.reference_time,
            session_id=item.session_id,
            source=item.source,
            idempotency_key=item.idempotency_key,
        )
        if ontology is not self.ontology:
            request = replace(request, own_types=ontology.own_names)
        parts = split_request(
            request,
            chunk_tokens=self.extraction_strategy.chunk_tokens,
            content_bytes=self.config.db_storage_config.content,
            by_message=self.extraction_strategy.split_messages,
        )
        async with self._hold(item.user_id, embedder) as hold:
            return await self._add_or_keep(parts, hold=hold, ontology=ontology)

    def _ontology(
        self, entity_types: Models | None, relation_types: Models | None, *, closed_types: bool | None
    ) -> Ontology:
        own = self._own_types.but(entity_types, relation_types, is_closed=closed_types)
        return self.ontology if own == self._own_types else make_ontology(own, self.config.db_storage_config)

    async def pending(self, user_id: str) -> list[PendingAdd]:
        """Return this user's adds that failed for good and wait to be done again, oldest first.

        Entries that cannot be read are left out here; `check` lists them.
        """
        parse_user_id(user_id, self.config.db_storage_config)
        return [each for each in map(readable_pending, await self._waiting(user_id)) if each is not None]

    @operation()
    async def resume(self, user_id: str | None = None) -> list[ResumedAdd]:
        """Do failed adds again, of one user or of all; one that fails again stays pending, the others go on."""
        results: list[ResumedAdd] = []
        for user in await self._users(user_id):
            try:
                waiting = await self._waiting(user)
            except JiuwenMemoryError as error:
                results.append(ResumedAdd(user, error=error))
                continue
            tried = [await self._resume(entry) for entry in waiting]
            results.extend(result for result in tried if result is not None)
        return results

    async def _waiting(self, user_id: str) -> list[JournalEntry]:
        return [entry for entry in await self._store.journal.entries(user_id) if entry.kind == "pending"]

    async def _resume(self, entry: JournalEntry) -> ResumedAdd | None:
        """Do one failed add again, unless somebody else has done it in the meantime."""
        pending: PendingAdd | None = None
        try:
            pending = parse_pending(entry)
            async with self._hold(pending.user_id, self._embedder()) as hold:
                if all(each.plan_id != entry.plan_id for each in hold.pending):
                    return None
                place = Place(pending.plan_id, pending.key)
                parts = _with_lost_types(pending.requests, self.ontology)
                update = await self._add_or_keep(parts, hold=hold, ontology=self.ontology, place=place)
        except JiuwenMemoryError as error:
            return ResumedAdd(entry.user_id, pending, error=error)
        return ResumedAdd(entry.user_id, pending, update=update)

    async def _add_or_keep(
        self, parts: Sequence[AddRequest], *, hold: Hold, ontology: Ontology, place: Place | None = None
    ) -> GraphMemUpdate:
        """Add the parts in order; what fails for good is kept in the journal, and what was kept before is cleared."""
        place = place or pending_place(parts)
        waiting = resolve_waiting(hold.pending, place)
        strategy = self.extraction_strategy
        essential = METHODS[strategy.extraction].essential
        budget = Budget(strategy.max_llm_calls, strategy.max_tokens, parts=len(parts), essential=essential)
        total = GraphMemUpdate()
        stored: list[str] = []
        for number, part in enumerate(parts):
            settled = waiting if number == len(parts) - 1 else ()
            if number:
                budget.begin_part()
            services = self._services(strategy, hold.embedder, ontology=ontology, budget=budget)
            try:
                update = await self._add_part(part, services, hold=hold, settled=settled)
            except JiuwenMemoryError as error:
                failure = _part_failure(error, parts[number:], stored)
                failure.usage = total.usage + services.asker.ledger.usage
                if strategy.keep_failed and isinstance(error, KEPT):
                    await commit_pending(failure, parts[number:], place=place, journal=self._store.journal)
                if failure is error:
                    raise
                raise failure from error
            total |= update
            if update.duplicate_of and update.warnings:
                return total
            stored += [update.duplicate_of] if update.duplicate_of else _verbatim_ids(update)
        return total

    @traced
    async def _add_part(
        self, part: AddRequest, services: Services, *, hold: Hold, settled: Sequence[str]
    ) -> GraphMemUpdate:
        repeated = await recall_repeat(part, services)
        if repeated is not None:
            for plan_id in settled:
                await self._store.journal.remove(plan_id, part.user_id)
            return GraphMemUpdate(duplicate_of=repeated.uuid, warnings=key_warnings(part, repeated))
        ledger = services.asker.ledger
        update = await commit_update(
            await plan_addition(part, services),
            part.user_id,
            store=self._store,
            embedder=services.embedder,
            confirm=hold.lease.confirm,
            settled=settled,
        )
        return replace(update, warnings=[*part.warnings, *ledger.warnings, *update.warnings], usage=ledger.usage)

    @operation(search_figures)
    async def search(
        self,
        query: str,
        user_id: str | Sequence[str],
        search_strategy: str = "default",
        *,
        entity: bool = True,
        relation: bool = True,
        episode: bool = True,
        gist: bool = False,
        query_embedding: Sequence[float] | None = None,
        source: str | None = None,
        session_id: str | None = None,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        reference_time: datetime | None = None,
    ) -> SearchResult:
        """Find what the memory knows about a query, in each enabled collection, best first.

        Args:
            query: words or a question, in any language the embedder knows.
            user_id: one user, or several whose memories are searched together.
            search_strategy: a registered name.
            entity, relation, episode: which collections to search; only these are keys of the result.
            gist: find gists too, among the episodes; with `episode=False` gists alone.
            query_embedding: the query's vector, if it is known already; then the embedder is not called.
            source: only what was learnt from this source.
            session_id: only what was learnt in this session.
            as_of: only facts that held at this moment, as far as is known.
            known_at: only facts that were known at this moment, with the ends that were known then.
            reference_time: the moment that words such as "last spring" count from (default: now).

        Returns:
            A dict from collection name to (score, object) pairs; a higher score is better, and facts that hold come
            before those that do not. Its `.paths` tell how results were reached through the graph, its `.diagnostics`
            why each is there, `.is_current(fact)` whether it holds; `.to_prompt()` is the text for an agent's prompt.
        """
        # Its patterns take longer to compile than most modules to import.
        from jiuwen_memory.memory_core.graph.graph_memory.searching.period_words import read_period

        users = parse_user_ids(user_id, self.config.db_storage_config)
        if not isinstance(query, str) or not (query.strip() or query_embedding is not None):
            raise InvalidInputError(f"query is {query!r}; give a text that is not blank.")
        strategy = strategy_named(search_strategy, self._strategies)
        enabled = zip(GRAPH_COLLECTIONS, (entity, relation, episode or gist), strict=True)
        collections = [name for name, wanted in enabled if wanted]
        if not collections:
            return SearchResult({}, diagnostics=SearchDiagnostics(search_strategy), language=self.language)
        configs = {name: strategy.config(name) for name in collections}
        origin = Origin(source, session_id)
        time = AskedTime(parse_moment(as_of, "as_of"), parse_moment(known_at, "known_at"))
        notes = Notes()
        with notes.timed("query"):
            embedded, scope, period = await together(
                self._embedded(query, query_embedding, configs, users),
                recall_scope(origin, scoped_collections(configs), user=filter_user(users), store=self._store),
                read_period(query, configs.values(), reference_time=reference_time),
            )
        asked = replace(time, period=period)
        requests = requests_for(
            query, configs, embedded=embedded, users=users, scope=scope, time=asked, episode=episode, gist=gist
        )
        return await search_memory(
            requests,
            SearchServices(self._store, self.reranker, self.config.request_max_retries, self.language),
            strategy=search_strategy,
            embedded=tuple(dict.fromkeys(each.text for each in embedded.values() if each.text)),
            notes=notes,
        )

    async def _embedded(
        self,
        query: str,
        given: Sequence[float] | None,
        configs: Mapping[str, SearchConfig],
        users: tuple[str, ...],
    ) -> dict[str, Embedded]:
        if given is not None:
            vector = parse_vector(given, self.config.embed_dim)
            return dict.fromkeys(configs, Embedded(vector=vector))
        side = QuerySide(self._embedder, self._store, self._name_shares, self._query_vectors)
        return await side.embed(query, configs, users)


def _verbatim_ids(update: GraphMemUpdate) -> list[str]:
    return [each.uuid for each in update.added_episode if not each.is_gist]


def _part_failure(error: JiuwenMemoryError, rest: Sequence[AddRequest], stored: Sequence[str]) -> JiuwenMemoryError:
    """Return the error itself, or one that names the parts which are stored already."""
    if not stored:
        return error
    again = "Call resume()"
    if rest[0].is_repeatable or rest[0].idempotency_key:
        again += ", or add the same content again with the same reference_time or idempotency_key"
    return PartFailedError(
        f"Part {rest[0].part} of {rest[0].parts} failed; the parts before it are stored. {error.message} {again}.",
        stored=stored,
        part=rest[0].part,
        remaining="".join(each.text for each in rest),
    )


def _with_lost_types(parts: Sequence[AddRequest], ontology: Ontology) -> Sequence[AddRequest]:
    """Say so if an add that is done again had types of its own: classes cannot be kept in the journal."""
    lost = [name for name in parts[0].own_types if name not in ontology.own_names]
    if not lost:
        return parts
    warning = f"This add had types of its own, which are not kept; it was done without {', '.join(lost)}."
    return [replace(parts[0], warnings=(*parts[0].warnings, warning)), *parts[1:]]
