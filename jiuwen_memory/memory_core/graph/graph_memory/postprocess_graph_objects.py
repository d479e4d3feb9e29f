"""Puts the finished pieces of a plan together: counts, references in both directions, limits. Values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jiuwen_memory.foundation.store.graph.constants import ARRAY_LIMIT
from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.foundation.store.graph.graph_object import Entity, Episode, Relation
from jiuwen_memory.foundation.text import cut_bytes, query_tokens
from jiuwen_memory.memory_core.config.graph import AddMemStrategy
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import HumanEntity
from jiuwen_memory.memory_core.graph.extraction.values import Summary, Verdict
from jiuwen_memory.memory_core.graph.graph_memory.fusing import (
    as_mentioned,
    folded,
    newest,
    put_merges,
)
from jiuwen_memory.memory_core.graph.graph_memory.recall import is_same_fact
from jiuwen_memory.memory_core.graph.graph_memory.states import (
    Draft,
    Identity,
    KnownRelations,
)
from jiuwen_memory.memory_core.graph.graph_memory.type_rules import resolve_known

CHANGE_WORDS = (
    "now", "no longer", "not any more", "anymore", "moved", "left", "quit", "changed", "switched", "instead",
    "replaced", "used to", "new", "became", "corrected", "actually", "wrong",
    "现在", "不再", "已经", "搬", "换", "改", "离职", "离开", "辞", "新", "其实", "不是", "更正", "变成", "取代",
)  # fmt: skip


@dataclass(frozen=True)
class Pieces:
    """Everything that was found out about one text, ready to become an update.

    `kept` holds, per merge, the numbers of its rewired relations that still make sense (None: all of them).
    `verdicts` and `candidates` go with `relations`, one each.
    """

    episode: Episode
    identity: Identity
    relations: tuple[Relation, ...]
    known: KnownRelations
    rewired: tuple[tuple[Relation, ...], ...] = ()
    candidates: tuple[tuple[Relation, ...], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    kept: tuple[tuple[int, ...] | None, ...] = ()
    summaries: Mapping[str, Summary] = field(default_factory=dict)


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


def is_repeat(relation: Relation, candidates: Sequence[Relation]) -> bool:
    """Tell whether a new relation states what a stored one states already, in the same words."""
    return any(is_same_fact(candidate, relation) for candidate in candidates)


def assemble_draft(pieces: Pieces, storage: GraphStoreStorageConfig) -> Draft:
    """Return what shall be, beside what is stored: the plan, but for what other facts make of it."""
    draft = Draft(_stored(pieces))
    warnings = draft.warnings
    draft.put(pieces.episode)
    _put_entities(draft, pieces)
    put_merges(draft, pieces.identity, known=pieces.known, rewired=pieces.rewired, kept=pieces.kept, at=pieces.episode)
    for relation, candidates, verdict in zip(pieces.relations, pieces.candidates, pieces.verdicts, strict=True):
        _put_relation(draft, relation, candidates=candidates, verdict=verdict, pieces=pieces, warnings=warnings)
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
        mentioned = as_mentioned(node, names[node.uuid], pieces.episode)
        draft.put(mentioned.revise(mention_count=node.mention_count + len(origins[node.uuid])))


def _put_relation(
    draft: Draft,
    relation: Relation,
    *,
    candidates: Sequence[Relation],
    verdict: Verdict,
    pieces: Pieces,
    warnings: list[str],
) -> None:
    """Store a new fact, or count it as one more mention of a fact that is there, and apply what was judged."""
    known = [draft.get(Relation, candidate.uuid) for candidate in candidates]
    same = [each for each in known if each and is_same_fact(each, relation)][:1]
    for number in verdict.same:
        judged = known[number]
        if judged and judged not in same and {judged.lhs, judged.rhs} == {relation.lhs, relation.rhs}:
            same.append(judged)
    if same:
        same.sort(key=lambda each: bool(each.superseded_by))
        kept = folded(same[0], relation)
        draft.put(kept)
        for other in same[1:]:
            kept = folded(kept, other)
            draft.fold(kept, other.uuid)
        return
    draft.put(relation.revise(content_embedding=pieces.known.vectors.get(relation.content_text)))
    for number in verdict.contradicts:
        judged = known[number]
        if judged and _supports_contradiction(judged, relation, pieces=pieces):
            _supersede(draft, judged, draft.get(Relation, relation.uuid) or relation)
        elif judged:
            warnings.append(f"Kept beside each other, nothing shows a change: {judged.content!r}, {relation.content!r}")
    for kind, numbers in verdict.links.items():
        for judged in filter(None, (known[number] for number in numbers)):
            if judged.uuid in draft:
                draft.put(_link(kind, relation, judged))


def _supports_contradiction(stored: Relation, new: Relation, *, pieces: Pieces) -> bool:
    """Tell whether anything beside the model's word says that one fact replaces the other.

    They must have the same ends, or the same subject and the same kind of fact: an equal name, a telling word in
    common, or a text that speaks of change.
    """
    if {stored.lhs, stored.rhs} == {new.lhs, new.rhs}:
        return True
    if stored.lhs != new.lhs:
        return False
    subject = next((node.name for node in pieces.identity.nodes if node.uuid == new.lhs), "")
    about = set(query_tokens(subject).split())
    common = set(query_tokens(stored.search_text).split()) & set(query_tokens(new.search_text).split()) - about
    text = pieces.episode.content.casefold()
    return bool(common) or stored.name_norm == new.name_norm or any(word in text for word in CHANGE_WORDS)


def _supersede(draft: Draft, stored: Relation, new: Relation) -> None:
    """Let the later of two contradicting facts end the earlier one; it stays in the graph."""
    earlier, later = stored, new
    if stored.valid_since is not None and new.valid_since is not None and new.valid_since < stored.valid_since:
        earlier, later = new, stored
    times: dict[str, object] = {}
    if later.valid_since is not None and (earlier.valid_until is None or later.valid_since < earlier.valid_until):
        times = {
            "valid_until": later.valid_since,
            "offset_until": later.offset_since,
            "precision_until": later.precision_since,
        }
    draft.put(
        earlier.revise(
            superseded_by=newest([*earlier.superseded_by, later.uuid], ARRAY_LIMIT),
            expired_at=earlier.expired_at or new.created_at,
            **times,
        )
    )


def _link(kind: str, relation: Relation, other: Relation) -> Relation:
    return Relation.model_validate(
        {
            "user_id": relation.user_id,
            "language": relation.language,
            "obj_type": "Link",
            "kind": kind,
            "ends": "relation",
            "name": kind,
            "content": f"{cut_bytes(relation.content, 2000)} → {cut_bytes(other.content, 2000)}",
            "lhs": relation.uuid,
            "rhs": other.uuid,
            "lhs_origin": relation.uuid,
            "rhs_origin": other.uuid,
            "episodes": relation.episodes,
            "sources": relation.sources,
            "first_mentioned_at": relation.first_mentioned_at,
            "last_mentioned_at": relation.last_mentioned_at,
            "created_at": relation.created_at,
        }
    )


def _put_summaries(draft: Draft, pieces: Pieces, *, storage: GraphStoreStorageConfig, warnings: list[str]) -> None:
    for uuid, summary in pieces.summaries.items():
        entity = draft.get(Entity, uuid)
        if entity is None:
            continue
        content = cut_bytes(summary.content, storage.content // 4)
        if content != summary.content:
            warnings.append(f"The summary of {entity.name!r} was cut to what the store can hold.")
        known = resolve_known(entity, summary.attributes, said_at=pieces.episode.valid_since)
        warnings.extend(known.warnings)
        draft.put(entity.revise(content=content or entity.content, attributes=known.attributes, extra=known.extra))


def _put_references(draft: Draft, pieces: Pieces, storage: GraphStoreStorageConfig) -> None:
    """Point entities at their relations and episodes, and the episode at its entities, within the limits."""
    of_entity: dict[str, list[str]] = {}
    # Stored relations are listed already, or no longer: only new ones may push out the oldest.
    new = {relation.uuid for relation in pieces.relations}
    for relation in draft.all(Relation):
        if relation.uuid in new:
            for end in {relation.lhs, relation.rhs}:
                of_entity.setdefault(end, []).append(relation.uuid)
    mentioned = {node.uuid for node in pieces.identity.nodes}
    gone = {relation.uuid for relation in _all_relations(pieces)} - {each.uuid for each in draft.all(Relation)}
    for entity in draft.all(Entity):
        episodes = [*entity.episodes, pieces.episode.uuid] if entity.uuid in mentioned else entity.episodes
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
    draft.put(pieces.episode.revise(entities=newest([node.uuid for node in pieces.identity.nodes], storage.entities)))


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
