"""What is done with a graph that is there: reading it by id, finishing interrupted writes, checking, forgetting."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from jiuwen_memory.errors import InvalidInputError, JiuwenMemoryError
from jiuwen_memory.foundation.operations import operation
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.graph_memory.audit import CheckReport, check_graph, recall_users
from jiuwen_memory.memory_core.graph.graph_memory.core import Hold, MemoryCore
from jiuwen_memory.memory_core.graph.graph_memory.evidence import (
    Event,
    Origin,
    Span,
    TripleOrder,
    TripleQuestion,
    recall_scope,
    recall_timeline,
    recall_triples,
)
from jiuwen_memory.memory_core.graph.graph_memory.figures import deletion_figures
from jiuwen_memory.memory_core.graph.graph_memory.forget import (
    DeletionServices,
    delete_before,
    delete_entities,
    delete_episodes,
    delete_relations,
    delete_user,
)
from jiuwen_memory.memory_core.graph.graph_memory.receipts import DeletionReceipt
from jiuwen_memory.memory_core.graph.graph_memory.requests import parse_ids, parse_user_id, parse_user_ids
from jiuwen_memory.memory_core.graph.graph_memory.triples import Triples
from jiuwen_memory.viewer.writing import MAX_ENTITIES, ViewerPage, to_html

PAGE = 200


@dataclass(frozen=True)
class RecoveryReport:
    """How many interrupted writes were finished, by user, and for whom it failed; users without any are not listed."""

    finished: dict[str, int] = field(default_factory=dict)
    failed: dict[str, JiuwenMemoryError] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """There was nothing to do."""
        return not self.finished and not self.failed


class Upkeep(MemoryCore):
    """The part of `GraphMemory` that needs no new text."""

    async def get(self, collection: str, ids: Sequence[str], user_id: str | Sequence[str]) -> list[BaseGraphObject]:
        """Return this user's objects of these ids, in order; ids that are not there, or not theirs, are passed over."""
        users = parse_user_ids(user_id, self.config.db_storage_config)
        return await self._store.query(collection, user=filter_user(users), ids=parse_ids(ids))

    async def objects(
        self, collection: str, user_id: str, *, source: str | None = None, session_id: str | None = None
    ) -> AsyncIterator[BaseGraphObject]:
        """Go through a user's objects in a collection, newest first, a page at a time.

        `source` and `session_id` leave only what was learnt from there.
        """
        origin = Origin(source, session_id)
        user = filter_user(parse_user_id(user_id, self.config.db_storage_config))
        scope = await recall_scope(origin, [collection], user=user, store=self._store)
        listed = await self._store.query(
            collection, user=user, expr=scope.get(collection), output_fields=["uuid", "created_at"]
        )
        listed.sort(key=lambda each: (-each.created_at, each.uuid))
        for start in range(0, len(listed), PAGE):
            ids = [each.uuid for each in listed[start : start + PAGE]]
            for each in await self._store.query(collection, user=user, ids=ids):
                yield each

    @operation()
    async def triples(
        self,
        user_id: str,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        source: str | None = None,
        order_by: TripleOrder = "last_mentioned",
        limit: int | None = None,
        fuzzy: bool = False,
    ) -> Triples:
        """Return a user's facts as subject, predicate and object, with their counts and where they were said.

        Args:
            user_id: whose facts they are.
            subject, object: a name or an alias; case, width and spacing do not count.
            predicate: the short name of the relation.
            as_of: only what held at this moment, as far as is known; without a zone it is UTC.
            known_at: only what was known at this moment, with the ends that were known then.
            source: only what was learnt from this source.
            order_by: `last_mentioned` and `mentions` put the latest and the most first, `first_mentioned` and
                `valid_since` the earliest.
            limit: how many to return at most.
            fuzzy: names may also share half their words, or most of their characters; with an embedder attached, it
                helps to find them.
        """
        question = TripleQuestion(subject, predicate, object, as_of, known_at, source, order_by, limit, fuzzy)
        user = filter_user(parse_user_id(user_id, self.config.db_storage_config))
        embedder = self._embedder() if fuzzy and self._store.embedder else None
        return await recall_triples(question, user=user, store=self._store, embedder=embedder)

    @operation()
    async def timeline(
        self,
        user_id: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        session_id: str | None = None,
        source: str | None = None,
        gist: bool = False,
    ) -> list[Event]:
        """Return what happened, earliest first: episodes, and facts that begin or end, between two moments.

        With `gist`, each text is followed by the gists made of it.
        Both moments are included; without a zone they are UTC. What has no known time is left out.
        """
        user = filter_user(parse_user_id(user_id, self.config.db_storage_config))
        origin = Origin(source, session_id)
        return await recall_timeline(Span(since, until), origin, user=user, store=self._store, gist=gist)

    async def to_html(
        self,
        path: str | Path,
        user_id: str,
        *,
        language: Language | None = None,
        title: str | None = None,
        source: str | None = None,
        session_id: str | None = None,
        max_entities: int = MAX_ENTITIES,
    ) -> ViewerPage:
        """Write a user's graph as one HTML page to explore in a browser; `jiuwen_memory.viewer.to_html` says how."""
        return await to_html(
            self,
            path,
            user_id,
            language=language,
            title=title,
            source=source,
            session_id=session_id,
            max_entities=max_entities,
        )

    @operation()
    async def recover(self, user_id: str | None = None) -> RecoveryReport:
        """Finish interrupted writes of one user, or of everyone, and tell what was done.

        Every add does this for its own user first; call it after a crash to have it done for all. One user's damaged
        journal, or held lock, does not keep the others waiting: the report lists it.
        """
        report = RecoveryReport()
        for user in await self._users(user_id):
            try:
                async with self._hold(user, self._embedder()) as hold:
                    if hold.replayed:
                        report.finished[user] = hold.replayed
            except JiuwenMemoryError as error:
                report.failed[user] = error
        return report

    @operation()
    async def check(self, user_id: str | None = None, *, repair: bool = False) -> CheckReport:
        """Look for everything that does not add up in the graph of one user, or of everyone; `repair` mends it.

        Each user's lock is held meanwhile. With an embedder attached, vectors are checked too.
        """
        report = CheckReport()
        for user in await self._users(user_id):
            async with self._locked(user) as lease:
                report += await check_graph(
                    store=self._store,
                    embedder=self._embedder() if self._store.embedder or repair else None,
                    user_id=user,
                    repair=repair,
                    confirm=lease.confirm,
                )
        return report

    @operation(deletion_figures)
    async def delete_episode(self, user_id: str, uuid: str, *, whole_group: bool = False) -> DeletionReceipt:
        """Forget one episode, and everything that rests on it alone; `whole_group` takes in all parts of its input.

        Counts, sources and summaries of what else it touched are put right, facts that it had superseded hold again.
        The receipt says what went, and whether a trace is left.
        """
        parse_user_id(user_id, self.config.db_storage_config)
        async with self._hold(user_id, self._embedder()) as hold:
            return await delete_episodes(
                parse_ids(uuid), user_id=user_id, services=self._deletion(hold), whole_group=whole_group
            )

    @operation(deletion_figures)
    async def delete_entity(self, user_id: str, uuid: str) -> DeletionReceipt:
        """Forget one entity and its relations; texts that name it stay, and are listed as residue."""
        parse_user_id(user_id, self.config.db_storage_config)
        async with self._hold(user_id, self._embedder()) as hold:
            return await delete_entities(parse_ids(uuid), user_id=user_id, services=self._deletion(hold))

    @operation(deletion_figures)
    async def delete_relation(self, user_id: str, uuid: str) -> DeletionReceipt:
        """Forget one fact; what it had superseded holds again. Texts that state it are listed as residue."""
        parse_user_id(user_id, self.config.db_storage_config)
        async with self._hold(user_id, self._embedder()) as hold:
            return await delete_relations(parse_ids(uuid), user_id=user_id, services=self._deletion(hold))

    @operation(deletion_figures)
    async def delete_before(self, user_id: str, time: datetime) -> DeletionReceipt:
        """Forget all episodes that speak from before a moment (without a zone it is UTC)."""
        parse_user_id(user_id, self.config.db_storage_config)
        if not isinstance(time, datetime):
            raise InvalidInputError(f"time is a {type(time).__name__}; give a datetime.")
        async with self._hold(user_id, self._embedder()) as hold:
            return await delete_before(time, user_id=user_id, services=self._deletion(hold))

    @operation(deletion_figures)
    async def delete_user(self, user_id: str) -> DeletionReceipt:
        """Forget everything of a user: every row, and everything in the journal. No embedder is needed."""
        parse_user_id(user_id, self.config.db_storage_config)
        async with self._locked(user_id) as lease:
            return await delete_user(user_id, store=self._store, confirm=lease.confirm)

    async def _users(self, user_id: str | None) -> list[str]:
        if user_id is None:
            return await recall_users(self._store)
        return [parse_user_id(user_id, self.config.db_storage_config)]

    def _deletion(self, hold: Hold) -> DeletionServices:
        return DeletionServices(
            store=self._store,
            embedder=self._embedder(),
            strategy=self.extraction_strategy,
            language=self.language,
            ontology=self.ontology,
            asker=self._asker(self.llm_client) if self.llm_client else None,
            confirm=hold.lease.confirm,
        )
