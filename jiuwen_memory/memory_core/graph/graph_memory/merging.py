"""What it means to fuse entities because a user says that they are one, and what a user sees of it before.

Values in, values out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jiuwen_memory.errors import EntityNotFoundError, EntityTypesDifferError, InvalidInputError
from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.foundation.store.graph.graph_object import Entity, Relation
from jiuwen_memory.foundation.text import cut_bytes, normalise_name
from jiuwen_memory.memory_core.graph.extraction.extraction_models import EntitySummaries
from jiuwen_memory.memory_core.graph.graph_memory.deletions import Graph
from jiuwen_memory.memory_core.graph.graph_memory.fusing import newest, put_merges, resolve_rewired
from jiuwen_memory.memory_core.graph.graph_memory.periods import LooseEnds, resolve_loose_ends
from jiuwen_memory.memory_core.graph.graph_memory.resolve import is_compatible
from jiuwen_memory.memory_core.graph.graph_memory.retelling import Retold, fact_weight
from jiuwen_memory.memory_core.graph.graph_memory.states import Draft, Identity, KnownRelations, Merge


@dataclass(frozen=True)
class FoldedPair:
    """A fact that goes, because after the fusion `into` states the same of the same entities; both as stored."""

    gone: Relation
    into: Relation


@dataclass(frozen=True)
class MergePreview:
    """What a fusion would do. Nothing of it is written.

    Args:
        kept: the entity that stays, as it would be but for a summary that the model writes.
        fused: the entities that would become part of it, as they are.
        other_types: those of their types that do not fit the type of `kept`; empty unless that was allowed.
        rewired: relations that would get a new end, as they would be.
        folded: facts that would become one.
        self_relations: relations between two of these entities, which would become facts about one.
        summary_before: the summary of `kept` as it is.
        summary_after: the summary as it would be, None if the model is to write it.
        question: the question that the model would be asked for it, "" if it is not asked.
    """

    kept: Entity
    fused: tuple[Entity, ...]
    other_types: tuple[str, ...] = ()
    rewired: tuple[Relation, ...] = ()
    folded: tuple[FoldedPair, ...] = ()
    self_relations: tuple[Relation, ...] = ()
    summary_before: str = ""
    summary_after: str | None = None
    question: str = ""


@dataclass(frozen=True)
class Fusion:
    """A fusion as far as it goes without the model: what shall be, and what there is to tell about the one that stays.

    `summaries` are those of the fused entities.
    """

    draft: Draft
    target: Entity
    absorbed: tuple[Entity, ...]
    retold: Retold
    summaries: tuple[str, ...]
    other_types: tuple[str, ...]

    @property
    def asks_for_summary(self) -> bool:
        """There is something about the fused entities to be told."""
        fused = {each.uuid for each in self.absorbed}
        return bool(self.summaries) or any(
            not fused.isdisjoint((fact.lhs_origin, fact.rhs_origin)) for fact in self.retold.facts
        )

    @property
    def warnings(self) -> list[str]:
        """What the user should hear of."""
        if not self.other_types:
            return []
        named = ", ".join(self.other_types)
        return [f"Fused although the types differ: {self.target.name!r} stays {self.target.obj_type}, not {named}."]


def resolve_fusion(
    graph: Graph, keep: str, others: Sequence[str], *, storage: GraphStoreStorageConfig, at: int, across_types: bool
) -> Fusion:
    """Return what a fusion makes of a user's graph.

    Raises:
        InvalidInputError: nothing to fuse, or an id twice.
        EntityNotFoundError: the user has no entity of one of these ids.
        EntityTypesDifferError: a type does not fit, and that was not allowed.
    """
    merge, other_types = _resolve_merge(graph, keep, others, across_types=across_types)
    draft = _fused_draft(graph, merge, at=at)
    target = _with_newest(graph, draft, merge, storage)
    summaries = tuple(dict.fromkeys(each.content for each in merge.absorbed if each.content))
    target = target.revise(content=_joined([merge.target.content, *summaries], storage))
    draft.put(target)
    facts = sorted((each for each in draft.all(Relation) if _is_about(each, target)), key=fact_weight)
    evidence = {uuid for fact in facts for uuid in fact.episodes} | set(target.episodes)
    episodes = sorted(
        (graph.episodes[uuid] for uuid in evidence if uuid in graph.episodes),
        key=lambda each: (each.created_at, each.part, each.uuid),
    )
    retold = Retold(target, tuple(facts), tuple(episodes))
    return Fusion(draft, merge.target, merge.absorbed, retold, summaries, other_types)


def resolve_preview(fusion: Fusion, graph: Graph, *, has_model: bool) -> MergePreview:
    """Return what a user sees of a fusion before it is done."""
    draft, kept = fusion.draft, fusion.retold.entity
    ids = {fusion.target.uuid, *(each.uuid for each in fusion.absorbed)}
    touching = [each for each in graph.relations.values() if not ids.isdisjoint((each.lhs, each.rhs))]
    after = [(each, draft.get(Relation, each.uuid)) for each in touching]
    rewired = [new for old, new in after if new and (old.lhs, old.rhs) != (new.lhs, new.rhs)]
    heirs = ((old, draft.heir(old.uuid)) for old, new in after if new is None)
    asks = has_model and fusion.asks_for_summary
    return MergePreview(
        kept=kept,
        fused=fusion.absorbed,
        other_types=fusion.other_types,
        rewired=tuple(rewired),
        folded=tuple(FoldedPair(old, graph.relations[heir]) for old, heir in heirs if heir != old.uuid),
        self_relations=tuple(new for new in rewired if new.lhs == new.rhs and _joins_two(graph.relations[new.uuid])),
        summary_before=fusion.target.content,
        summary_after=None if asks else kept.content,
        question=EntitySummaries.__name__ if asks else "",
    )


def _joins_two(relation: Relation) -> bool:
    return relation.lhs != relation.rhs


def _resolve_merge(
    graph: Graph, keep: str, others: Sequence[str], *, across_types: bool
) -> tuple[Merge, tuple[str, ...]]:
    ids = (keep, *others)
    if not others:
        raise InvalidInputError("There is nothing to fuse; give the id of the entity to keep, then those of others.")
    if len(set(ids)) < len(ids):
        raise InvalidInputError("An entity cannot be fused with itself; give each id once.")
    unknown = [uuid for uuid in ids if uuid not in graph.entities]
    if unknown:
        raise EntityNotFoundError(
            f"This user has no entity with the id {', '.join(unknown)}; ids are in the results of search and objects."
        )
    target, *absorbed = (graph.entities[uuid] for uuid in ids)
    differing = [each for each in absorbed if not is_compatible(target.obj_type, each.obj_type)]
    if differing and not across_types:
        named = ", ".join(f"{each.name!r} is {each.obj_type}" for each in differing)
        raise EntityTypesDifferError(
            f"{target.name!r} is {target.obj_type}, but {named}; pass across_types=True if they are one all the same."
        )
    return Merge(target, tuple(absorbed)), tuple(dict.fromkeys(each.obj_type for each in differing))


def _fused_draft(graph: Graph, merge: Merge, *, at: int) -> Draft:
    """Return the rows that a fusion may touch, as they are after it."""
    absorbed = {each.uuid for each in merge.absorbed}
    touching = [
        each
        for each in graph.relations.values()
        if each.ends == "entity" and not (absorbed | {merge.target.uuid}).isdisjoint((each.lhs, each.rhs))
    ]
    moved = tuple(each for each in touching if not absorbed.isdisjoint((each.lhs, each.rhs)))
    mentioned = {uuid for each in (merge.target.uuid, *absorbed) for uuid in graph.mentions[each]}
    mentioned |= {uuid for uuid, each in graph.episodes.items() if not absorbed.isdisjoint(each.entities)}
    episodes = tuple(graph.episodes[uuid] for uuid in sorted(mentioned))
    known = KnownRelations(of_merged=moved, of_targets=tuple(touching), episodes_of_merged=episodes)
    replacing = {uuid for each in touching for uuid in each.superseded_by if uuid in graph.relations}
    rivals = (graph.relations[uuid] for uuid in replacing)
    draft = Draft((merge.target, *merge.absorbed, *touching, *rivals, *episodes))
    rewired = resolve_rewired([merge], known)
    put_merges(draft, Identity((), (), (merge,)), known=known, rewired=rewired, kept=[None], at=at)
    disturbed = {each.uuid for each in draft.disturbed()}
    resolve_loose_ends(draft, _loose_ends(graph, disturbed))
    return draft


def _loose_ends(graph: Graph, disturbed: set[str]) -> LooseEnds:
    """Return what refers to facts that are folded or dated anew."""
    relations = graph.relations
    facts = [each for each in relations.values() if not disturbed.isdisjoint(each.superseded_by)]
    facts += [relations[uuid] for uuid in sorted(disturbed) if relations[uuid].superseded_by]
    later = {uuid for each in facts for uuid in each.superseded_by if uuid in relations}
    ends = {end for uuid in disturbed for end in (relations[uuid].lhs, relations[uuid].rhs)}
    return LooseEnds(
        facts=tuple(facts),
        superseding=tuple(relations[uuid] for uuid in sorted(later)),
        links=tuple(
            each for each in relations.values() if each.ends == "relation" and {each.lhs, each.rhs} & disturbed
        ),
        entities=tuple(graph.entities[uuid] for uuid in sorted(ends) if uuid in graph.entities),
    )


def _with_newest(graph: Graph, draft: Draft, merge: Merge, storage: GraphStoreStorageConfig) -> Entity:
    """Return the entity that stays with the newest of all its relations and episodes, and cut what became too long."""
    target = draft.get(Entity, merge.target.uuid) or merge.target
    for relation in draft.all(Relation):
        if len(relation.episodes) > storage.episodes:
            draft.put(relation.revise(episodes=newest(relation.episodes, storage.episodes)))
    about = sorted((each.created_at, each.uuid) for each in draft.all(Relation) if _is_about(each, target))
    ids = {target.uuid, *(each.uuid for each in merge.absorbed)}
    mentioned = {uuid for each in ids for uuid in graph.mentions[each]}
    heard = sorted((graph.episodes[uuid].created_at, graph.episodes[uuid].part, uuid) for uuid in mentioned)
    return target.revise(
        relations=newest((uuid for _, uuid in about), storage.relations),
        episodes=newest((uuid for *_, uuid in heard), storage.episodes),
    )


def _is_about(relation: Relation, entity: Entity) -> bool:
    return relation.kind == "fact" and relation.ends == "entity" and entity.uuid in (relation.lhs, relation.rhs)


def _joined(texts: Sequence[str], storage: GraphStoreStorageConfig) -> str:
    """Return summaries one after the other, those that say something of their own."""
    return cut_bytes(" ".join(_distinct(texts)), storage.content // 4)


def _distinct(texts: Sequence[str]) -> Iterator[str]:
    told = ""
    for text in texts:
        if text and normalise_name(text) not in told:
            told += normalise_name(text)
            yield text
