"""Who is who, as the user says: fusing entities, and taking apart what was fused.

Reads the store, asks the model for new summaries if there is one, and writes through `commit`, under the user's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, overload

from jiuwen_memory.errors import EntityNotFoundError, InvalidInputError, NothingFusedError
from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.operations import operation
from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.foundation.store.graph.graph_object import Entity, Relation, now
from jiuwen_memory.foundation.text import cut_bytes
from jiuwen_memory.memory_core.graph.extraction import questions
from jiuwen_memory.memory_core.graph.extraction.usage import Usage
from jiuwen_memory.memory_core.graph.extraction.values import Summary, SummaryCase
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_update
from jiuwen_memory.memory_core.graph.graph_memory.deletions import Graph
from jiuwen_memory.memory_core.graph.graph_memory.forget import DeletionServices, recall_graph
from jiuwen_memory.memory_core.graph.graph_memory.merge_records import read_members
from jiuwen_memory.memory_core.graph.graph_memory.merging import (
    Fusion,
    MergePreview,
    resolve_fusion,
    resolve_preview,
)
from jiuwen_memory.memory_core.graph.graph_memory.postprocess_graph_objects import joined_facts, summary_target
from jiuwen_memory.memory_core.graph.graph_memory.renewal import Renewal
from jiuwen_memory.memory_core.graph.graph_memory.requests import parse_user_id
from jiuwen_memory.memory_core.graph.graph_memory.retelling import Retold, resolve_case, resolve_source
from jiuwen_memory.memory_core.graph.graph_memory.sides import put_sides, resolve_stayed
from jiuwen_memory.memory_core.graph.graph_memory.splitting import Case, put_facts
from jiuwen_memory.memory_core.graph.graph_memory.states import Draft, GraphMemUpdate


@dataclass(frozen=True)
class UnmergeReport:
    """What taking an entity apart did.

    Args:
        kept: the entity that was taken apart, as it is now; None if nothing is left that is its own.
        members: the entities that are there again.
        lost: names of members that were not rebuilt, because all that was known of them was deleted.
        moved, restored: ids of facts that changed sides, and of facts that were gone and are there again.
        stayed: facts learnt after a fusion whose side is not recorded; they stay with what was kept.
        reopened: ids of facts that hold again, because what replaced them is another's.
        update: everything that changed.
    """

    kept: Entity | None
    members: tuple[Entity, ...]
    lost: tuple[str, ...]
    moved: tuple[str, ...]
    restored: tuple[str, ...]
    stayed: tuple[Relation, ...]
    reopened: tuple[str, ...]
    update: GraphMemUpdate

    @property
    def warnings(self) -> list[str]:
        """What did not go as it should, such as a model that could not be asked."""
        return self.update.warnings

    @property
    def usage(self) -> Usage:
        """Calls and tokens of the model."""
        return self.update.usage


class Identities(Renewal):
    """The part of `GraphMemory` in which the user says who is who."""

    @overload
    async def merge(
        self, user_id: str, keep: str, *others: str, dry_run: Literal[True] = True, across_types: bool = False
    ) -> MergePreview: ...

    @overload
    async def merge(
        self, user_id: str, keep: str, *others: str, dry_run: Literal[False], across_types: bool = False
    ) -> GraphMemUpdate: ...

    @overload
    async def merge(
        self, user_id: str, keep: str, *others: str, dry_run: bool, across_types: bool = False
    ) -> MergePreview | GraphMemUpdate: ...

    @operation()
    async def merge(
        self, user_id: str, keep: str, *others: str, dry_run: bool = True, across_types: bool = False
    ) -> MergePreview | GraphMemUpdate:
        """Fuse entities that are one into the first of them; by default only show what that would do.

        Facts, episodes, names, counts and sources of the others become those of `keep`, equal facts become one, all or
        nothing. `merged_from` records what `unmerge` needs. With a model one question is asked, for the summary.

        Args:
            user_id: whose entities they are.
            keep: the id of the entity that stays.
            others: the ids of those that become part of it.
            dry_run: write nothing and return a preview; with False do it and return what changed.
            across_types: fuse even if the types do not fit; the type of `keep` stays.

        Raises:
            InvalidInputError: nothing to fuse, or an id twice.
            EntityNotFoundError: this user has no entity of one of the ids.
            EntityTypesDifferError: types that do not fit, without `across_types`.
        """
        parse_user_id(user_id, self.config.db_storage_config)
        wanted = _Wanted(_parse_id(keep), tuple(_parse_id(each) for each in others), across_types)
        if dry_run:
            async with self._locked(user_id):
                graph, _ = await recall_graph(user_id, self._store)
            fusion = await off_loop(None, self._fusion, graph, wanted)
            return resolve_preview(fusion, graph, has_model=self.llm_client is not None)
        async with self._hold(user_id, self._embedder()) as hold:
            graph, _ = await recall_graph(user_id, self._store)
            fusion = await off_loop(None, self._fusion, graph, wanted)
            return await _commit_fusion(fusion, user_id, self._deletion(hold))

    @operation()
    async def unmerge(self, user_id: str, uuid: str) -> UnmergeReport:
        """Take an entity apart into those that were fused into it, by adding or by `merge`, as far as is recorded.

        Each has its id, names, type, attributes, counts, episodes and facts as they were, and a new summary. What was
        learnt later stays with the entity of this id, but for further mentions of a fact that goes.

        Raises:
            EntityNotFoundError: this user has no entity of this id.
            NothingFusedError: nothing was fused into it, or nothing is left of what was.
        """
        parse_user_id(user_id, self.config.db_storage_config)
        wanted = _parse_id(uuid)
        async with self._hold(user_id, self._embedder()) as hold:
            graph, _ = await recall_graph(user_id, self._store)
            apart = await off_loop(None, _resolve_apart, graph, wanted, self.config.db_storage_config)
            return await _commit_split(apart, user_id, self._deletion(hold))

    def _fusion(self, graph: Graph, wanted: _Wanted) -> Fusion:
        return resolve_fusion(
            graph,
            wanted.keep,
            wanted.others,
            storage=self.config.db_storage_config,
            at=now(),
            across_types=wanted.across_types,
        )


@dataclass(frozen=True)
class _Wanted:
    keep: str
    others: tuple[str, ...]
    across_types: bool


@dataclass(frozen=True)
class _Apart:
    """An entity taken apart as far as it goes without the model."""

    case: Case
    draft: Draft
    retold: tuple[Retold, ...]
    reopened: tuple[str, ...]
    stayed: tuple[Relation, ...]


@dataclass(frozen=True)
class _Telling:
    """An entity that needs a summary: the one it had, those of what was fused into it, and what to say without a model.

    None for `otherwise` means that the facts speak.
    """

    retold: Retold
    before: str = ""
    absorbed: tuple[str, ...] = ()
    otherwise: str | None = None


def _parse_id(uuid: object) -> str:
    if not isinstance(uuid, str) or not uuid:
        raise InvalidInputError(f"{uuid!r} is no id of an entity; ids are in the results of search and objects.")
    return uuid


async def _commit_fusion(fusion: Fusion, user_id: str, services: DeletionServices) -> GraphMemUpdate:
    """Ask for the summary, if there is something to tell, and write."""
    kept = fusion.retold.entity
    told = _Telling(fusion.retold, fusion.target.content, fusion.summaries, otherwise=kept.content)
    summaries = await _ask_summaries([told] if fusion.asks_for_summary else [], services)
    for content in summaries:
        fusion.draft.put(kept.revise(content=content))
    return await _commit(fusion.draft, user_id, services, warnings=fusion.warnings)


def _resolve_apart(graph: Graph, uuid: str, storage: GraphStoreStorageConfig) -> _Apart:
    kept = graph.entities.get(uuid)
    if kept is None:
        raise EntityNotFoundError(
            f"This user has no entity with the id {uuid}; ids are in the results of search and objects."
        )
    case = Case(graph, kept, tuple(read_members(kept)), storage)
    if not case.members:
        raise NothingFusedError(f"Nothing was fused into {kept.name!r}, or it was taken apart already.")
    if not case.rebuilt:
        raise NothingFusedError(f"Nothing is left of what was fused into {kept.name!r}: its evidence was deleted.")
    draft = Draft(graph.objects())
    reopened = put_facts(draft, case)
    retold = put_sides(draft, case)
    return _Apart(case, draft, tuple(retold), reopened, resolve_stayed(draft, case))


async def _commit_split(apart: _Apart, user_id: str, services: DeletionServices) -> UnmergeReport:
    """Ask for all new summaries at once, and write."""
    case, draft = apart.case, apart.draft
    members = {member.uuid for member in case.rebuilt}
    tellings = [_telling(one, _content_before(one, case)) for one in apart.retold]
    summaries = await _ask_summaries(tellings, services)
    for one, content in zip(apart.retold, summaries, strict=True):
        draft.put(one.entity.revise(content=content))
    warnings = _warnings(apart)
    update = await _commit(draft, user_id, services, warnings=warnings)
    stored = case.graph.relations
    moved = [each for each in update.updated_relation if _ends(each) != _ends(stored[each.uuid])]
    return UnmergeReport(
        kept=draft.get(Entity, case.kept.uuid),
        members=tuple(each for each in update.added_entity if each.uuid in members),
        lost=tuple(each.entity.name for each in case.members if each not in case.rebuilt),
        moved=tuple(each.uuid for each in moved if each.kind == "fact"),
        restored=tuple(each.uuid for each in update.added_relation),
        stayed=apart.stayed,
        reopened=apart.reopened,
        update=update,
    )


def _telling(one: Retold, before: str) -> _Telling:
    return _Telling(one, before, otherwise=None if one.facts and not before else before)


def _content_before(one: Retold, case: Case) -> str:
    """Return what an entity was described as when it was last alone, if nothing was heard of it afterwards."""
    first = next((each for each in case.members if each.into == one.entity.uuid), None)
    if first is None:
        return next((each.entity.content for each in case.members if each.uuid == one.entity.uuid), "")
    is_mentioned = any(
        each.created_at >= first.merged_at and each.uuid not in first.kept_episodes for each in one.episodes
    )
    return "" if is_mentioned else first.kept_content


def _ends(relation: Relation) -> tuple[str, str]:
    return relation.lhs, relation.rhs


def _warnings(apart: _Apart) -> list[str]:
    kept, lost = apart.case.kept, len(apart.case.members) - len(apart.case.rebuilt)
    warnings = []
    if apart.stayed:
        warnings.append(f"{len(apart.stayed)} facts learnt after the fusion stay with {kept.name!r}.")
    if lost:
        warnings.append(f"{lost} entities were not rebuilt: what was known of them was deleted.")
    if apart.draft.get(Entity, kept.uuid) is None:
        warnings.append(f"{kept.name!r} is gone: what was known of it alone was deleted.")
    return warnings


async def _ask_summaries(tellings: Sequence[_Telling], services: DeletionServices) -> list[str]:
    """Return a summary for each, in one question; without an answer, what there is without a model."""
    storage = services.store.config.db_storage_config
    asked = [each for each in tellings if each.before or each.absorbed or each.retold.facts]
    answers: list[Summary | None] = []
    if services.asker is not None and asked:
        retold = [each.retold for each in asked]
        source = resolve_source(retold, with_texts=True, max_tokens=services.strategy.chunk_tokens)
        answers = await questions.ask_summaries(
            source,
            [_case(each, services) for each in asked],
            language=services.language,
            batch_items=services.strategy.batch_items,
            asker=services.asker,
        )
    found = {each.retold.entity.uuid: answer.content for each, answer in zip(asked, answers, strict=False) if answer}
    told = (found.get(each.retold.entity.uuid) or _told_without_model(each, services) for each in tellings)
    return [cut_bytes(content, storage.content // 4) for content in told]


def _case(telling: _Telling, services: DeletionServices) -> SummaryCase:
    """Return the question; attributes are not asked for, they are as recorded."""
    case = resolve_case(telling.retold, strategy=services.strategy, kind=None)
    return replace(case, summary=telling.before, absorbed=telling.absorbed)


def _told_without_model(telling: _Telling, services: DeletionServices) -> str:
    if telling.otherwise is not None:
        return telling.otherwise
    facts = [fact.content_text for fact in telling.retold.facts]
    return joined_facts(facts, limit=summary_target(telling.retold.entity, services.strategy))


async def _commit(draft: Draft, user_id: str, services: DeletionServices, *, warnings: Sequence[str]) -> GraphMemUpdate:
    ledger = services.asker.ledger if services.asker else None
    update = draft.update()
    update = replace(
        update,
        warnings=[*update.warnings, *warnings, *(ledger.warnings if ledger else ())],
        usage=ledger.usage if ledger else update.usage,
    )
    return await commit_update(
        update, user_id, store=services.store, embedder=services.embedder, confirm=services.confirm
    )
