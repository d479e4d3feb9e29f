"""What a deletion did, and what it found left behind. Values in, values out."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from jiuwen_memory.foundation.store.graph.base import JournalEntry
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    JOURNAL_COLLECTION,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Episode
from jiuwen_memory.memory_core.graph.extraction.usage import Usage
from jiuwen_memory.memory_core.graph.graph_memory.merge_records import record_texts
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate, counted, number_of
from jiuwen_memory.memory_core.graph.graph_memory.traces import Traces, entry_texts, leaves

TEXT_FIELDS: Final = ("content", "name", "aliases", "speakers", "sources", "source", "session_id", "idempotency_key")
DOCUMENT_FIELDS: Final = ("attributes", "qualifiers", "metadata", "extra")


@dataclass(frozen=True)
class Residue:
    """A place that still tells of what was deleted; `uuid` is the row's id, or the journal entry's `plan_id`."""

    collection: str
    uuid: str
    field: str
    text: str


@dataclass(frozen=True)
class DeletionReceipt:
    """What a deletion did.

    Args:
        removed, updated: ids by collection; removed entries of the journal too.
        reopened: relations that hold again, because what replaced them is gone.
        rewritten_by_model, rewritten_from_facts: entities with a new summary, and where it comes from.
        residue: places found that still tell of what was deleted, in the graph as it is now and in the journal.
        warnings: what did not go as it should, such as a model that could not be asked.
        usage: calls and tokens of the model.
    """

    removed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    updated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reopened: tuple[str, ...] = ()
    rewritten_by_model: tuple[str, ...] = ()
    rewritten_from_facts: tuple[str, ...] = ()
    residue: tuple[Residue, ...] = ()
    warnings: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)

    @property
    def is_empty(self) -> bool:
        """Nothing was there to be deleted."""
        return not any(self.removed.values()) and not any(self.updated.values())

    def __str__(self) -> str:
        waiting = len(self.removed.get(JOURNAL_COLLECTION, ()))
        parts = [
            ("removed", _counted(self.removed)),
            ("removed", number_of(waiting, "entry of the journal", "entries of the journal") if waiting else ""),
            ("updated", _counted(self.updated)),
            ("re-opened", counted(0, 0, len(self.reopened))),
        ]
        said = "; ".join(f"{what} {each}" for what, each in parts if each) or "nothing was there"
        left = number_of(len(self.residue), "place still tells of it", "places still tell of it")
        warnings = number_of(len(self.warnings), "warning", "warnings")
        return f"{said[0].upper()}{said[1:]}; {left}; {warnings}."


def _counted(ids: Mapping[str, tuple[str, ...]]) -> str:
    return counted(*(len(ids.get(name, ())) for name in (EPISODE_COLLECTION, ENTITY_COLLECTION, RELATION_COLLECTION)))


def removed_ids(update: GraphMemUpdate, settled: Iterable[str] = ()) -> dict[str, tuple[str, ...]]:
    """Return the ids that an update removes, and the journal entries that go with it, by collection."""
    removed = {
        EPISODE_COLLECTION: update.removed_episode,
        ENTITY_COLLECTION: update.removed_entity,
        RELATION_COLLECTION: update.removed_relation,
        JOURNAL_COLLECTION: settled,
    }
    return {collection: tuple(sorted(ids)) for collection, ids in removed.items() if ids}


def updated_ids(update: GraphMemUpdate) -> dict[str, tuple[str, ...]]:
    """Return the ids of the rows that an update changes, by collection."""
    changed: dict[str, list[str]] = {}
    for each in update.objects():
        changed.setdefault(each.collection, []).append(each.uuid)
    return {collection: tuple(sorted(ids)) for collection, ids in changed.items()}


def resolve_residue(
    objects: Iterable[BaseGraphObject], entries: Iterable[JournalEntry], traces: Traces
) -> tuple[Residue, ...]:
    """Return every place in rows and journal that holds a trace."""
    if not traces.words and not traces.phrases:
        return ()
    rows = (
        Residue(each.collection, each.uuid, name, traces.quote(text))
        for each in objects
        for name, text in _texts(each)
        if traces.are_in(text)
    )
    journal = (
        Residue(JOURNAL_COLLECTION, entry.plan_id, "payload", traces.quote(text))
        for entry in entries
        for text in payload_texts(entry)
        if traces.are_in(text)
    )
    return tuple(dict.fromkeys((*rows, *journal)))


def _texts(each: BaseGraphObject) -> Iterator[tuple[str, str]]:
    for name in TEXT_FIELDS:
        value = getattr(each, name, "")
        for text in [value] if isinstance(value, str) else value:
            yield name, text
    for name in DOCUMENT_FIELDS:
        value = getattr(each, name, {})
        for text in entry_texts(value):
            yield name, text
    for said in record_texts(getattr(each, "merged_from", ())):
        for text in leaves(said):
            yield "merged_from", text


def resolve_settled(
    entries: Iterable[JournalEntry], gone: Iterable[Episode], traces: Traces, *, groups: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the pending entries that would bring a deleted episode's text back, or more of a deleted group."""
    texts = [episode.content.strip() for episode in gone]
    return tuple(
        entry.plan_id
        for entry in entries
        if entry.kind == "pending"
        and any(
            each in groups or any(_brings_back(each, text, traces) for text in texts) for each in payload_texts(entry)
        )
    )


def _brings_back(given: str, text: str, traces: Traces) -> bool:
    """Tell whether a pending text is a deleted one, or has it in it with words that are nowhere else."""
    return given.strip() == text or (bool(text) and text in given and traces.are_in(given))


def payload_texts(entry: JournalEntry) -> tuple[str, ...]:
    """Return the texts in a journal entry; of one that cannot be read, what is left of it as it stands."""
    try:
        return tuple(leaves(json.loads(entry.payload)))
    except ValueError:
        return (entry.payload,)
