"""Puts the finished pieces of a plan together: counts, references in both directions, limits. Values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.foundation.store.graph.graph_object import Entity, Episode, Relation
from jiuwen_memory.foundation.text import cut_bytes
from jiuwen_memory.memory_core.config.graph import AddMemStrategy
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import HumanEntity
from jiuwen_memory.memory_core.graph.extraction.values import Summary, Verdict
from jiuwen_memory.memory_core.graph.graph_memory.change import Judged, Rivals, Text, put_changes, put_co_occurring
from jiuwen_memory.memory_core.graph.graph_memory.fusing import (
    as_mentioned,
    newest,
    put_merges,
)
from jiuwen_memory.memory_core.graph.graph_memory.recall import is_same_fact
from jiuwen_memory.memory_core.graph.graph_memory.recording import Record, resolve_mentioned
from jiuwen_memory.memory_core.graph.graph_memory.spine import Spine, put_spine
from jiuwen_memory.memory_core.graph.graph_memory.states import (
    Draft,
    Identity,
    KnownRelations,
)
from jiuwen_memory.memory_core.graph.graph_memory.type_rules import resolve_known


@dataclass(frozen=True)
class Pieces:
    """Everything that was found out about one text, ready to become an update.

    `kept` holds, per merge, the numbers of its rewired relations that still make sense (None: all of them).
    `judged` goes with `relations`, one each; `rivals` and `spine` are what the store holds beside them.
    """

    record: Record
    identity: Identity
    relations: tuple[Relation, ...]
    known: KnownRelations
    rewired: tuple[tuple[Relation, ...], ...] = ()
    judged: tuple[Judged, ...] = ()
    rivals: Rivals = field(default_factory=Rivals)
    spine: Spine = field(default_factory=Spine)
    kept: tuple[tuple[int, ...] | None, ...] = ()
    summaries: Mapping[str, Summary] = field(default_factory=dict)

    @cached_property
    def mentioned(self) -> Mapping[str, list[str]]:
        """The episodes in which each entity occurs."""
        return resolve_mentioned(self.record, self.identity, self.relations)


def resolve_candidates(
    relations: Sequence[Relation], known: KnownRelations, rewired: Sequence[Sequence[Relation]]
) -> tuple[tuple[Relation, ...], ...]:
    """Return the stored relations each new one is judged against, in their version after the merges."""
    moved = {relation.uuid: relation for group in rewired for relation in group}
    results = []
    for relation, candidates in zip(relations, known.candidates, strict=True):
        newest = [moved.get(candidate.uuid, candidate) for candidate in candidates]
        listed = {candidate.uuid for candidate in newest}
        repeats = [each for each in moved.values() if each.uuid not in listed and is_same_fact(each, relation)]
        results.append((*repeats, *newest))
    return tuple(results)


def resolve_judged(
    relations: Sequence[Relation], candidates: Sequence[tuple[Relation, ...]], verdicts: Sequence[Verdict]
) -> tuple[Judged, ...]:
    """Return each new fact with the stored ones beside it and what the model made of them."""
    return tuple(Judged(*parts) for parts in zip(relations, candidates, verdicts, strict=True))


def is_repeat(relation: Relation, candidates: Sequence[Relation]) -> bool:
    """Tell whether a new relation states what a stored one states already, in the same words."""
    return any(is_same_fact(candidate, relation) for candidate in candidates)


def holds_already(relation: Relation, candidates: Sequence[Relation]) -> bool:
    """Tell whether what a new relation states is stored in the same words and was not replaced since."""
    return any(is_same_fact(candidate, relation) and not candidate.superseded_by for candidate in candidates)


def assemble_draft(pieces: Pieces, storage: GraphStoreStorageConfig, strategy: AddMemStrategy) -> Draft:
    """Return what shall be, beside what is stored: the plan, but for what other facts make of it."""
    draft = Draft(_stored(pieces))
    warnings = draft.warnings
    for episode in (*pieces.record.verbatim, *pieces.record.gists):
        draft.put(episode)
    _put_entities(draft, pieces)
    put_merges(
        draft, pieces.identity, known=pieces.known, rewired=pieces.rewired, kept=pieces.kept, at=pieces.record.first
    )
    vectors = pieces.known.vectors
    judged = [
        replace(each, fact=each.fact.revise(content_embedding=vectors.get(each.fact.qualified_text)))
        for each in pieces.judged
    ]
    text = Text(pieces.record.first.revise(content=pieces.record.text), pieces.identity.nodes)
    put_changes(draft, judged, rivals=pieces.rivals, text=text, max_retired=strategy.max_retired)
    put_co_occurring(draft, pieces.relations, most=strategy.max_co_occurs)
    put_spine(draft, pieces.record.verbatim, pieces.spine)
    _put_summaries(draft, pieces, storage=storage, warnings=warnings)
    _put_references(draft, pieces, storage)
    return draft


def _stored(pieces: Pieces) -> Iterable[Entity | Relation | Episode]:
    known = pieces.known
    yield from (node for node in pieces.identity.nodes if node.mention_count)
    for merge in pieces.identity.merges:
        yield merge.target
        yield from merge.absorbed
    for candidates in known.candidates:
        yield from candidates
    yield from known.of_targets
    yield from known.of_merged
    yield from known.episodes_of_merged


def _put_entities(draft: Draft, pieces: Pieces) -> None:
    """Count one mention per entity and episode; of entities that are fused, one for each that is mentioned."""
    identity = pieces.identity
    names: dict[str, list[str]] = {}
    origins: dict[str, set[str]] = {}
    for mention, node, origin in zip(identity.mentions, identity.nodes, identity.origins, strict=True):
        names.setdefault(node.uuid, []).append(mention.name)
        origins.setdefault(node.uuid, set()).add(origin)
    for node in {node.uuid: node for node in identity.nodes}.values():
        mentioned = as_mentioned(node, names[node.uuid], pieces.record.first)
        times = max(len(origins[node.uuid]), len(pieces.mentioned[node.uuid]))
        draft.put(mentioned.revise(mention_count=node.mention_count + times))


def _put_summaries(draft: Draft, pieces: Pieces, *, storage: GraphStoreStorageConfig, warnings: list[str]) -> None:
    for uuid, summary in pieces.summaries.items():
        entity = draft.get(Entity, uuid)
        if entity is None:
            continue
        content = cut_bytes(summary.content, storage.content // 4)
        if content != summary.content:
            warnings.append(f"The summary of {entity.name!r} was cut to what the store can hold.")
        known = resolve_known(entity, summary.attributes, said_at=pieces.record.first.valid_since)
        warnings.extend(known.warnings)
        draft.put(entity.revise(content=content or entity.content, attributes=known.attributes, extra=known.extra))


def _put_references(draft: Draft, pieces: Pieces, storage: GraphStoreStorageConfig) -> None:
    """Point entities at their relations and episodes, and the episode at its entities, within the limits."""
    of_entity: dict[str, list[str]] = {}
    # Stored relations are listed already, or no longer: only new ones may push out the oldest.
    for relation in draft.all(Relation):
        if relation.kind == "fact" and not draft.is_stored(relation.uuid):
            for end in {relation.lhs, relation.rhs}:
                of_entity.setdefault(end, []).append(relation.uuid)
    gone = {relation.uuid for relation in _all_relations(pieces)} - {each.uuid for each in draft.all(Relation)}
    for entity in draft.all(Entity):
        episodes = [*entity.episodes, *pieces.mentioned.get(entity.uuid, ())]
        relations = [uuid for uuid in [*entity.relations, *of_entity.get(entity.uuid, [])] if uuid not in gone]
        draft.put(
            entity.revise(
                relations=newest(relations, storage.relations),
                episodes=newest(episodes, storage.episodes),
            )
        )
    for relation in draft.all(Relation):
        if len(relation.episodes) > storage.episodes:
            draft.put(relation.revise(episodes=newest(relation.episodes, storage.episodes)))
    nodes = [node.uuid for node in pieces.identity.nodes]
    for episode in pieces.record.verbatim:
        mentioned = [uuid for uuid in nodes if episode.uuid in pieces.mentioned[uuid]]
        draft.put(episode.revise(entities=newest(mentioned, storage.entities)))


def _all_relations(pieces: Pieces) -> Iterable[Relation]:
    yield from pieces.known.of_targets
    yield from pieces.known.of_merged
    for candidates in pieces.known.candidates:
        yield from candidates


def summary_target(entity: Entity, strategy: AddMemStrategy) -> int:
    """Return the length an entity's summary aims at, in characters: people get twice as much."""
    return strategy.summary_target * 2 if entity.obj_type == HumanEntity.name else strategy.summary_target


def joined_facts(facts: Sequence[str], *, limit: int) -> str:
    """Return facts one after the other, as many as fit whole: a summary of last resort."""
    text = ""
    for fact in facts:
        longer = f"{text} {fact}".strip()
        if text and len(longer) > limit:
            break
        text = longer
    return cut_bytes(text, len(text[:limit].encode()))
