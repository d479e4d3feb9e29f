"""Carries out a plan: embeds what has no vector, writes the journal, writes the rows. Nothing else writes a graph."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from jiuwen_memory.errors import JournalError, StoreParameterError
from jiuwen_memory.foundation.concurrency import off_loop, shielded, together
from jiuwen_memory.foundation.store.graph.base import GraphStore, JournalEntry
from jiuwen_memory.foundation.store.graph.checks import check_row
from jiuwen_memory.foundation.store.graph.columns import collection_columns
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    GRAPH_COLLECTIONS,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.graph_object import OBJECT_TYPES, BaseGraphObject, new_uuid, now
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate

Object = TypeVar("Object", bound=BaseGraphObject)

WRITE_ORDER = (EPISODE_COLLECTION, ENTITY_COLLECTION, RELATION_COLLECTION)


@dataclass(frozen=True)
class WritePlan:
    """What a commit writes: whole objects and ids to remove, by collection.

    `settled` names journal entries that have no reason any more once this is written; they go with it.
    """

    user_id: str
    upserts: Mapping[str, tuple[BaseGraphObject, ...]]
    removals: Mapping[str, tuple[str, ...]]
    settled: tuple[str, ...] = ()

    @property
    def changed(self) -> tuple[str, ...]:
        """The collections in which a row changes."""
        return tuple(name for name in GRAPH_COLLECTIONS if self.upserts.get(name) or self.removals.get(name))


@traced
async def commit_update(
    update: GraphMemUpdate,
    user_id: str,
    *,
    store: GraphStore,
    embedder: Embedder,
    confirm: Callable[[], Awaitable[None]] | None = None,
    settled: Sequence[str] = (),
) -> GraphMemUpdate:
    """Write an update, all or nothing, and return it as it is stored (without vectors).

    Embedding comes first: when it fails, nothing has been written. From the journal's header on the update counts as
    written; a crash after that is made good by `replay_journal`. Cancellation waits for the write to end.

    `confirm` tells whether the user's lock is still held (`Lease.confirm`), right before the plan goes to the journal.
    The journal entries in `settled` are removed with the write.

    Raises:
        LockLostError, LockServiceError: `confirm` says no; nothing has been written.
        EmbeddingCallError: the embedder failed on every try.
        StoreParameterError: a row does not fit the store; nothing has been written.
        StoreError: the store failed; the journal holds the plan if its header was written.
    """
    plan = await _with_vectors(_write_plan(update, user_id, settled), store, embedder)
    if not plan.changed and not plan.settled:
        return update
    payload = await off_loop(None, _checked_payload, plan, store.config)
    await shielded(_write(plan, payload, store, confirm))
    return _without_vectors(update, plan)


@traced
async def commit_removals(
    update: GraphMemUpdate,
    user_id: str,
    *,
    store: GraphStore,
    confirm: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Remove what an update removes, all or nothing, and write nothing else; that needs no embedder."""
    plan = replace(_write_plan(update, user_id), upserts={})
    if plan.changed:
        await shielded(_write(plan, _payload(plan), store, confirm))


@dataclass(frozen=True)
class Replay:
    """What was found in a user's journal: how many interrupted writes were finished, and the adds that wait."""

    finished: int
    pending: tuple[JournalEntry, ...]


@traced
async def replay_journal(user_id: str, *, store: GraphStore, embedder: Embedder) -> Replay:
    """Finish this user's interrupted writes. Call it under the user's lock.

    Chunks that no entry claims belong to a write that never counted, and are dropped.

    Raises:
        JournalError: a plan is damaged; none is carried out, since it may have to come before the others.
    """
    if user_id not in await store.journal.unfinished(user_id):
        return Replay(0, ())
    entries = await store.journal.entries(user_id)
    headers = [(entry, parse_plan(entry)) for entry in entries if entry.kind == "header"]
    for entry, parsed in headers:
        plan = await _with_vectors(parsed, store, embedder)
        await shielded(_apply(plan, entry, store))
    await store.journal.drop_unfinished(user_id)
    return Replay(len(headers), tuple(entry for entry in entries if entry.kind == "pending"))


def _checked_payload(plan: WritePlan, config: GraphConfig) -> str:
    """Return what the journal is to hold, of rows that the store takes; thousands of them take their time.

    A plan in the journal that cannot be applied would bar its user for good.
    """
    for collection, objects in plan.upserts.items():
        columns = collection_columns(collection, config)
        for each in objects:
            if each.user_id != plan.user_id:
                raise StoreParameterError(f"{collection} {each.uuid} is of another user than the one written for.")
            check_row(each.to_row(), columns, collection=collection)
    return _payload(plan)


async def _write(
    plan: WritePlan, payload: str, store: GraphStore, confirm: Callable[[], Awaitable[None]] | None
) -> None:
    entry = JournalEntry(plan_id=new_uuid(), user_id=plan.user_id, kind="header", payload=payload, created_at=now())
    # The latest point from which going back leaves nothing: `put` writes chunks and header in one go.
    if confirm is not None:
        await confirm()
    await store.journal.put(entry)
    await _apply(plan, entry, store)


async def _apply(plan: WritePlan, entry: JournalEntry, store: GraphStore) -> None:
    """Write rows by id, then remove; every step may be done twice without harm."""
    for collection in WRITE_ORDER:
        if plan.upserts.get(collection):
            await store.upsert(collection, plan.upserts[collection])
    for collection in WRITE_ORDER:
        if plan.removals.get(collection):
            await store.delete(collection, plan.removals[collection], user_id=plan.user_id)
    await store.flush(plan.changed)
    for plan_id in plan.settled:
        await store.journal.remove(plan_id, plan.user_id)
    await store.journal.remove(entry.plan_id, plan.user_id)


def _write_plan(update: GraphMemUpdate, user_id: str, settled: Sequence[str] = ()) -> WritePlan:
    upserts: dict[str, list[BaseGraphObject]] = {}
    for each in update.objects():
        upserts.setdefault(each.collection, []).append(each)
    return WritePlan(
        user_id,
        {collection: tuple(objects) for collection, objects in upserts.items()},
        {
            EPISODE_COLLECTION: tuple(sorted(update.removed_episode)),
            ENTITY_COLLECTION: tuple(sorted(update.removed_entity)),
            RELATION_COLLECTION: tuple(sorted(update.removed_relation)),
        },
        tuple(settled),
    )


def _payload(plan: WritePlan) -> str:
    rows = {
        collection: [each.model_dump(exclude=set(each.vectors)) for each in objects]
        for collection, objects in plan.upserts.items()
    }
    payload = {"rows": rows, "removals": plan.removals, "settled": plan.settled}
    return json.dumps(payload, ensure_ascii=False)


def parse_plan(entry: JournalEntry) -> WritePlan:
    """Return the plan that a journal entry holds.

    Raises:
        JournalError: the entry is damaged, cannot be read, or is not what its owner may write.
    """
    if entry.damage:
        raise JournalError(
            f"Journal entry {entry.plan_id!r} of user {entry.user_id!r} is damaged: {entry.damage}. Its plan may be "
            "half applied, and nothing is written for this user: restore the store from a copy, or remove the entry "
            "with `journal.remove`, then check(user_id, repair=True) and add the input again."
        )
    try:
        payload = json.loads(entry.payload)
        upserts = {
            collection: tuple(OBJECT_TYPES[collection].model_validate(row) for row in rows)
            for collection, rows in payload["rows"].items()
        }
        removals = {collection: tuple(ids) for collection, ids in payload["removals"].items()}
        settled = tuple(payload.get("settled", ()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JournalError(
            f"The journal entry {entry.plan_id} cannot be read ({error}): it is damaged, or written by another "
            "version. Use that version, or remove the entry with `journal.remove` and add the input again."
        ) from error
    if any(each.user_id != entry.user_id for objects in upserts.values() for each in objects):
        raise JournalError(f"The journal entry {entry.plan_id} holds rows of another user; nothing of it was written.")
    return WritePlan(entry.user_id, upserts, removals, settled)


async def _with_vectors(plan: WritePlan, store: GraphStore, embedder: Embedder) -> WritePlan:
    """Return the plan with every vector present: the object's own, the stored one that still fits, or a new one."""
    keyed = {
        collection: [_keyed(each, embedder.name) for each in objects] for collection, objects in plan.upserts.items()
    }
    written = {
        name: [each for each in objects if each.embedding_key and _missing(each)]
        for name, objects in plan.upserts.items()
    }
    collections = [name for name, objects in written.items() if objects]
    stored = await together(*(_stored_vectors(written[name], plan.user_id, store=store) for name in collections))
    for name, found in zip(collections, stored, strict=True):
        keyed[name] = [_refilled(each, found.get(each.uuid)) for each in keyed[name]]
    texts = [text for objects in keyed.values() for each in objects for text in _missing(each).values()]
    vectors = dict(zip(texts, await embedder.embed_documents(texts), strict=True))
    return replace(
        plan,
        upserts={
            name: tuple(
                each.revise(**{column: vectors[text] for column, text in _missing(each).items()}) for each in objects
            )
            for name, objects in keyed.items()
        },
    )


def _keyed(each: Object, model_name: str) -> Object:
    return each.revise(embedding_key=embedding_key(each, model_name))


def embedding_key(each: BaseGraphObject, model_name: str) -> str:
    """Return what an object's vectors are made of, one hash of model and text per vector column."""
    return ".".join(
        hashlib.sha256(f"{model_name}\n{text}".encode()).hexdigest()[:24] for text in each.embedded_texts().values()
    )


def _missing(each: BaseGraphObject) -> dict[str, str]:
    return {column: text for column, text in each.embedded_texts().items() if getattr(each, column) is None}


async def _stored_vectors(
    objects: Sequence[BaseGraphObject], user_id: str, *, store: GraphStore
) -> dict[str, BaseGraphObject]:
    kind = type(objects[0])
    found = await store.query(
        kind.collection,
        user=filter_user(user_id),
        ids=[each.uuid for each in objects],
        output_fields=["embedding_key", *kind.vectors],
    )
    return {each.uuid: each for each in found}


def _refilled(each: Object, stored: BaseGraphObject | None) -> Object:
    if stored is None:
        return each
    pairs = zip(each.vectors, each.embedding_key.split("."), stored.embedding_key.split("."), strict=False)
    fitting: dict[str, Any] = {
        column: getattr(stored, column)
        for column, wanted, has in pairs
        if wanted == has and getattr(each, column) is None
    }
    return each.revise(**fitting)


def _without_vectors(update: GraphMemUpdate, plan: WritePlan) -> GraphMemUpdate:
    bare = {
        each.uuid: each.revise(**dict.fromkeys(each.vectors)) for objects in plan.upserts.values() for each in objects
    }

    def stored(objects: Iterable[Any]) -> list[Any]:
        return [bare[each.uuid] for each in objects]

    return replace(
        update,
        added_episode=stored(update.added_episode),
        updated_episode=stored(update.updated_episode),
        added_entity=stored(update.added_entity),
        updated_entity=stored(update.updated_entity),
        added_relation=stored(update.added_relation),
        updated_relation=stored(update.updated_relation),
    )
