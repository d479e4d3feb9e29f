"""Deleting: from what a user wants forgotten to the plan of what goes, stays and changes, and to the receipt.

Reads the store, asks the model for new summaries if there is one, and writes through `commit`. Call everything here
under the user's lock, after `replay_journal`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from jiuwen_memory.foundation.concurrency import off_loop, together
from jiuwen_memory.foundation.store.graph.base import GraphStore, JournalEntry
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    GRAPH_COLLECTIONS,
    JOURNAL_COLLECTION,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.foundation.text import normalise_name
from jiuwen_memory.foundation.timepoint import from_datetime
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.config.graph import AddMemStrategy, Language
from jiuwen_memory.memory_core.graph.extraction import questions
from jiuwen_memory.memory_core.graph.extraction.asking import Asker
from jiuwen_memory.memory_core.graph.extraction.ontology import Ontology
from jiuwen_memory.memory_core.graph.extraction.values import Summary
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_removals, commit_update
from jiuwen_memory.memory_core.graph.graph_memory.deletions import (
    Gone,
    Graph,
    Scene,
    put_episodes,
    put_relations,
    resolve_gone,
)
from jiuwen_memory.memory_core.graph.graph_memory.fusing import drop_stale_links
from jiuwen_memory.memory_core.graph.graph_memory.pending import readable_pending
from jiuwen_memory.memory_core.graph.graph_memory.receipts import (
    DeletionReceipt,
    Residue,
    removed_ids,
    resolve_residue,
    resolve_settled,
    updated_ids,
)
from jiuwen_memory.memory_core.graph.graph_memory.retelling import (
    Retold,
    put_entities,
    put_summaries,
    resolve_case,
    resolve_source,
)
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder
from jiuwen_memory.memory_core.graph.graph_memory.states import Draft, GraphMemUpdate
from jiuwen_memory.memory_core.graph.graph_memory.traces import (
    EXCERPT,
    Traces,
    resolve_traces,
    telling_sentence,
)

Object = TypeVar("Object", bound=BaseGraphObject)
Confirm = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class DeletionServices:
    """What a deletion may reach, and the settings it follows; without `asker`, summaries come from facts."""

    store: GraphStore
    embedder: Embedder
    strategy: AddMemStrategy
    language: Language
    ontology: Ontology
    asker: Asker | None = None
    confirm: Confirm | None = None


@dataclass(frozen=True)
class Deletion:
    """A plan: what changes, the journal entries that go with it, and the receipt once it is done."""

    update: GraphMemUpdate
    settled: tuple[str, ...]
    receipt: DeletionReceipt


async def delete_episodes(
    uuids: Sequence[str], *, user_id: str, services: DeletionServices, whole_group: bool = False
) -> DeletionReceipt:
    """Delete episodes, and what rests on them alone.

    Each is one part of its input; `whole_group` takes in the other parts. What was made from a deleted episode goes
    too. Ids that are not there, or not this user's, are passed over.
    """
    target = Gone(episodes=frozenset(uuids))
    return await _delete(target, user_id=user_id, services=services, whole_group=whole_group)


async def delete_before(time: datetime, *, user_id: str, services: DeletionServices) -> DeletionReceipt:
    """Delete all episodes that speak from before a moment (naive means UTC); those of unknown time stay."""
    moment = from_datetime(time).seconds
    graph, entries = await recall_graph(user_id, services.store)
    old = {uuid for uuid, each in graph.episodes.items() if each.valid_since is not None and each.valid_since < moment}
    plan = await plan_deletion(Gone(episodes=frozenset(old)), graph, entries=entries, services=services)
    waiting = tuple(entry.plan_id for entry in entries if _speaks_from_before(entry, moment))
    settled = tuple(dict.fromkeys((*plan.settled, *waiting)))
    receipt = replace(plan.receipt, removed=removed_ids(plan.update, settled))
    return await _commit(replace(plan, settled=settled, receipt=receipt), user_id, services)


def _speaks_from_before(entry: JournalEntry, moment: int) -> bool:
    """Tell whether an add that waits to be done again speaks from before a moment."""
    pending = readable_pending(entry) if entry.kind == "pending" else None
    return pending is not None and all(request.reference.seconds < moment for request in pending.requests)


async def delete_entities(uuids: Sequence[str], *, user_id: str, services: DeletionServices) -> DeletionReceipt:
    """Delete entities and all relations with an end on them.

    Episodes keep their texts: what still names a deleted entity is listed as residue.
    """
    return await _delete(Gone(entities=frozenset(uuids)), user_id=user_id, services=services)


async def delete_relations(uuids: Sequence[str], *, user_id: str, services: DeletionServices) -> DeletionReceipt:
    """Delete relations; facts that they had replaced hold again.

    Episodes keep their texts: those a deleted fact was learnt from are listed as residue.
    """
    return await _delete(Gone(relations=frozenset(uuids)), user_id=user_id, services=services)


async def delete_user(user_id: str, *, store: GraphStore, confirm: Confirm | None = None) -> DeletionReceipt:
    """Delete every row of a user and everything of theirs in the journal, and look whether anything is left.

    The journal goes first, damaged or not: nothing in it can bring rows back.
    """
    waiting = [entry.plan_id for entry in await store.journal.entries(user_id)]
    await store.journal.clear(user_id)
    update = await _recall_everything(user_id, store)
    await commit_removals(update, user_id, store=store, confirm=confirm)
    left = removed_ids(await _recall_everything(user_id, store))
    residue = [Residue(collection, uuid, "uuid", uuid) for collection, ids in left.items() for uuid in ids]
    if user_id in await store.journal.unfinished(user_id):
        residue.append(Residue(JOURNAL_COLLECTION, "", "user_id", user_id))
    return DeletionReceipt(removed=removed_ids(update, waiting), residue=tuple(residue))


async def _recall_everything(user_id: str, store: GraphStore) -> GraphMemUpdate:
    """Return the removal of all that a user has."""

    async def listed(name: str) -> list[BaseGraphObject]:
        return await store.query(name, user=filter_user(user_id), output_fields=["uuid"], consistency="strong")

    episodes, entities, relations = await together(
        listed(EPISODE_COLLECTION), listed(ENTITY_COLLECTION), listed(RELATION_COLLECTION)
    )
    return GraphMemUpdate(
        removed_episode={each.uuid for each in episodes},
        removed_entity={each.uuid for each in entities},
        removed_relation={each.uuid for each in relations},
    )


async def _delete(
    target: Gone, *, user_id: str, services: DeletionServices, whole_group: bool = False
) -> DeletionReceipt:
    graph, entries = await recall_graph(user_id, services.store)
    groups = _groups_of(target, graph) if whole_group else frozenset()
    parts = {uuid for uuid, episode in graph.episodes.items() if episode.group in groups}
    target = replace(target, episodes=target.episodes | parts)
    plan = await plan_deletion(target, graph, entries=entries, services=services, groups=groups)
    return await _commit(plan, user_id, services)


def _groups_of(target: Gone, graph: Graph) -> frozenset[str]:
    return frozenset(graph.episodes[uuid].group for uuid in target.episodes & graph.episodes.keys()) - {""}


async def _commit(plan: Deletion, user_id: str, services: DeletionServices) -> DeletionReceipt:
    await commit_update(
        plan.update,
        user_id,
        store=services.store,
        embedder=services.embedder,
        confirm=services.confirm,
        settled=plan.settled,
    )
    return plan.receipt


@traced
async def recall_graph(user_id: str, store: GraphStore) -> tuple[Graph, list[JournalEntry]]:
    """Return all rows of a user and their journal.

    The search for what is left behind has to read every row; so they are read once, before, and the plan is exact even
    where the lists in the rows were cut.
    """
    user = filter_user(user_id)
    rows = await together(*(store.query(name, user=user, consistency="strong") for name in GRAPH_COLLECTIONS))
    entries = await store.journal.entries(user_id)
    objects = [each for found in rows for each in found]
    return Graph(_by_id(objects, Episode), _by_id(objects, Entity), _by_id(objects, Relation)), entries


def _by_id(objects: Sequence[BaseGraphObject], kind: type[Object]) -> dict[str, Object]:
    return {each.uuid: each for each in objects if isinstance(each, kind)}


async def plan_deletion(
    target: Gone,
    graph: Graph,
    *,
    entries: Sequence[JournalEntry],
    services: DeletionServices,
    groups: frozenset[str] = frozenset(),
) -> Deletion:
    """Return what a deletion changes in the graph, and the receipt for it. Writes nothing.

    Adds that wait in the journal go too when they hold a deleted text, or belong to one of the `groups`.
    """
    storage = services.store.config.db_storage_config
    scene = await off_loop(None, _resolve_scene, target, graph, storage)
    draft = Draft(graph.objects())
    reopened, retold = await off_loop(None, _put_all, draft, scene)
    answers = await ask_summaries(retold, services=services, with_texts=bool(scene.gone.episodes))
    rewritten = put_summaries(draft, retold, answers, scene=scene, strategy=services.strategy)
    update = draft.update()
    settled = resolve_settled(entries, scene.lost(scene.gone.episodes), scene.traces, groups=groups)
    left = [entry for entry in entries if entry.plan_id not in settled]
    residue = await off_loop(None, resolve_residue, _rows(draft), left, scene.traces)
    ledger = services.asker.ledger if services.asker else None
    receipt = DeletionReceipt(
        removed=removed_ids(update, settled),
        updated=updated_ids(update),
        reopened=reopened,
        rewritten_by_model=rewritten.by_model,
        rewritten_from_facts=rewritten.from_facts,
        residue=(*residue, *_texts_behind(target, scene)),
        warnings=tuple(ledger.warnings) if ledger else (),
    )
    return Deletion(update, settled, replace(receipt, usage=ledger.usage) if ledger else receipt)


def _resolve_scene(target: Gone, graph: Graph, storage: GraphStoreStorageConfig) -> Scene:
    gone = resolve_gone(graph, target, limit=storage.episodes)
    scene = Scene(graph, gone, Traces(), storage)
    traces = Traces(phrases=_names_of(target.entities, graph))
    if gone.episodes:
        # What relations are called is vocabulary: a name that other evidence led to as well gives nothing away.
        known = (
            each.name
            for uuid, each in graph.relations.items()
            if uuid not in gone.relations and gone.episodes.isdisjoint(each.episodes)
        )
        lost, kept = scene.lost(gone.episodes), scene.remaining(graph.episodes)
        traces = resolve_traces(lost, kept, known=known)
    return replace(scene, traces=traces)


def _names_of(uuids: Iterable[str], graph: Graph) -> tuple[str, ...]:
    """Return the names that these entities alone bear."""
    deleted = [graph.entities[uuid] for uuid in uuids if uuid in graph.entities]
    others = (each for uuid, each in graph.entities.items() if uuid not in uuids)
    taken = {normalise_name(name) for each in others for name in (each.name, *each.aliases)}
    names = {normalise_name(name) for each in deleted for name in (each.name, *each.aliases)}
    return tuple(sorted(name for name in names - taken if name))


def _put_all(draft: Draft, scene: Scene) -> tuple[tuple[str, ...], list[Retold]]:
    put_episodes(draft, scene)
    reopened = put_relations(draft, scene)
    retold = put_entities(draft, scene)
    drop_stale_links(draft, scene.graph.entities)
    return reopened, retold


def _rows(draft: Draft) -> list[BaseGraphObject]:
    return [*draft.all(Episode), *draft.all(Entity), *draft.all(Relation)]


def _texts_behind(target: Gone, scene: Scene) -> Iterator[Residue]:
    """Return the episodes that still tell of facts deleted by themselves."""
    for uuid in sorted(target.relations & scene.gone.relations):
        fact = scene.graph.relations[uuid]
        for episode in scene.remaining(fact.episodes) if fact.kind == "fact" else ():
            quoted = telling_sentence(fact.content_text, [episode.content])
            yield Residue(EPISODE_COLLECTION, episode.uuid, "content", quoted[:EXCERPT])


@traced
async def ask_summaries(
    retold: Sequence[Retold], *, services: DeletionServices, with_texts: bool
) -> list[Summary | None]:
    """Return new summaries, written from what remains; None where the model gives none, or there is none."""
    answers: list[Summary | None] = [None] * len(retold)
    source = resolve_source(retold, with_texts=with_texts, max_tokens=services.strategy.chunk_tokens)
    asked = [number for number, one in enumerate(retold) if one.facts or (with_texts and one.episodes)]
    if services.asker is None or not asked:
        return answers
    cases = [
        resolve_case(
            retold[number],
            strategy=services.strategy,
            kind=services.ontology.entity_type(retold[number].entity.obj_type),
        )
        for number in asked
    ]
    found = await questions.ask_summaries(
        source,
        cases,
        language=services.language,
        batch_items=services.strategy.batch_items,
        asker=services.asker,
    )
    for number, answer in zip(asked, found, strict=True):
        answers[number] = answer
    return answers
