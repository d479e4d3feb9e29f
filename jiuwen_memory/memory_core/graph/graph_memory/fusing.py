"""Fuses stored entities into one, with all that hangs on them, and facts into one fact. Values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from jiuwen_memory.foundation.store.graph.graph_object import Entity, Episode, Relation
from jiuwen_memory.foundation.text import normalise_name
from jiuwen_memory.memory_core.graph.graph_memory.merge_records import (
    FoldedFact,
    bounded,
    fits_document,
    record_of,
    with_facts,
)
from jiuwen_memory.memory_core.graph.graph_memory.periods import are_apart
from jiuwen_memory.memory_core.graph.graph_memory.recall import is_same_fact
from jiuwen_memory.memory_core.graph.graph_memory.resolve import FACT_SELF
from jiuwen_memory.memory_core.graph.graph_memory.states import Draft, Identity, KnownRelations, Merge

LABELS_KEPT = 64
"""Aliases and sources kept of one object, the newest."""


def resolve_rewired(merges: Sequence[Merge], known: KnownRelations) -> tuple[tuple[Relation, ...], ...]:
    """Return, per merge, the stored relations of the absorbed entities with their ends moved to the target."""
    moved = {each.uuid: merge.target.uuid for merge in merges for each in merge.absorbed}
    rewired: list[tuple[Relation, ...]] = []
    taken: set[str] = set()
    for merge in merges:
        absorbed = {each.uuid for each in merge.absorbed}
        mine = [
            relation
            for relation in known.of_merged
            if not absorbed.isdisjoint((relation.lhs, relation.rhs))
            and relation.uuid not in taken
            and relation.kind != "synonym"
        ]
        taken.update(relation.uuid for relation in mine)
        rewired.append(tuple(_moved(relation, moved) for relation in mine))
    return tuple(rewired)


def drop_stale_links(draft: Draft, before: Mapping[str, Entity]) -> None:
    """Drop links between close names where an entity is gone, or bears another name than before."""
    for link in draft.all(Relation):
        ends = [draft.get(Entity, end) for end in (link.lhs, link.rhs)] if link.kind == "synonym" else ()
        if not all(end and end.name == before.get(end.uuid, end).name for end in ends):
            draft.remove(link.uuid)


def _moved(relation: Relation, moved: Mapping[str, str]) -> Relation:
    lhs, rhs = moved.get(relation.lhs, relation.lhs), moved.get(relation.rhs, relation.rhs)
    obj_type = FACT_SELF if lhs == rhs and relation.ends == "entity" else relation.obj_type
    return relation.revise(lhs=lhs, rhs=rhs, obj_type=obj_type)


def put_merges(
    draft: Draft,
    identity: Identity,
    *,
    known: KnownRelations,
    rewired: Sequence[Sequence[Relation]],
    kept: Sequence[tuple[int, ...] | None],
    at: Episode | int,
) -> None:
    """Fuse entities with all that hangs on them; `merged_from` records what they were, and what of theirs is gone.

    `at` is the episode that shows them to be one, or the time at which somebody says so.
    """
    for merge in identity.merges:
        _put_merge(draft, merge, heard=identity.heard, at=at)
    for relation in known.of_merged:
        # Links between names go with a name; those of the name that stays are there, or are found anew.
        if relation.kind == "synonym":
            draft.remove(relation.uuid)
    lost = _put_rewired(draft, rewired, kept=kept, stored={each.uuid: each for each in known.of_merged})
    absorbed = identity.absorbed
    for episode in known.episodes_of_merged:
        entities = list(dict.fromkeys(absorbed.get(uuid, uuid) for uuid in episode.entities))
        draft.put(episode.revise(entities=entities))
    facts: dict[str, list[FoldedFact]] = {}
    for each in lost:
        owner = each.fact.lhs if each.fact.lhs in absorbed else each.fact.rhs
        facts.setdefault(owner, []).append(each)
    for merge in identity.merges:
        target = draft.get(Entity, merge.target.uuid) or merge.target
        draft.put(target.revise(merged_from=bounded(with_facts(target.merged_from, facts))))


def as_mentioned(entity: Entity, names: Iterable[str], episode: Episode) -> Entity:
    """Return an entity with one more mention, by these names; the lists of ids are not touched."""
    return entity.revise(
        aliases=distinct_names([*entity.aliases, *names], but=entity.name),
        mention_count=entity.mention_count + 1,
        first_mentioned_at=earliest(entity.first_mentioned_at, episode.valid_since),
        last_mentioned_at=latest(entity.last_mentioned_at, episode.valid_since),
        sources=newest([*entity.sources, episode.source], LABELS_KEPT),
    )


def _apart(entity: Entity, heard: Mapping[str, Sequence[str]], at: Episode | int) -> Entity:
    """Return an entity as it would be after the text if it were not fused."""
    if isinstance(at, int) or entity.uuid not in heard:
        return entity
    return as_mentioned(entity, heard[entity.uuid], at).revise(episodes=[*entity.episodes, at.uuid])


def _put_merge(draft: Draft, merge: Merge, *, heard: Mapping[str, Sequence[str]], at: Episode | int) -> None:
    target = draft.get(Entity, merge.target.uuid) or merge.target
    own = _apart(merge.target, heard, at)
    time = at if isinstance(at, int) else at.created_at
    for each in merge.absorbed:
        target = target.revise(
            aliases=distinct_names([*target.aliases, each.name, *each.aliases], but=target.name),
            attributes=united(target.attributes, each.attributes),
            content=target.content or each.content,
            relations=[*each.relations, *target.relations],
            episodes=[*each.episodes, *target.episodes],
            sources=newest([*each.sources, *target.sources], LABELS_KEPT),
            mention_count=target.mention_count + each.mention_count,
            first_mentioned_at=earliest(target.first_mentioned_at, each.first_mentioned_at),
            last_mentioned_at=latest(target.last_mentioned_at, each.last_mentioned_at),
            merged_from=[*target.merged_from, *each.merged_from, record_of(_apart(each, heard, at), own, at=time)],
        )
        draft.remove(each.uuid)
    draft.put(target)


def _put_rewired(
    draft: Draft,
    rewired: Sequence[Sequence[Relation]],
    *,
    kept: Sequence[tuple[int, ...] | None],
    stored: Mapping[str, Relation],
) -> list[FoldedFact]:
    """Move relations of absorbed entities to their target, drop the irrelevant, fold what became equal.

    Return what was dropped or folded, as it is stored.
    """
    lost: list[FoldedFact] = []
    for group, chosen in zip(rewired, kept, strict=True):
        for number, relation in enumerate(group):
            if chosen is not None and number not in chosen:
                draft.remove(relation.uuid)
                lost.append(FoldedFact(stored[relation.uuid]))
                continue
            twin = next((each for each in draft.all(Relation) if _is_twin(each, relation, draft)), None)
            if twin is None:
                draft.put(relation)
                continue
            union = folded(twin, relation)
            draft.fold(union, relation.uuid)
            both = tuple(uuid for uuid in relation.episodes if uuid in twin.episodes)
            lost.append(FoldedFact(stored[relation.uuid], twin.uuid, both, _filled(twin, union)))
    return lost


def _filled(before: Relation, after: Relation) -> tuple[str, ...]:
    """Return what a fact took over from one folded into it: times, and qualifiers under a dotted name."""
    times = (name for name in ("valid_since", "stated_until") if getattr(before, name) != getattr(after, name))
    return (*times, *(f"qualifiers.{name}" for name in after.qualifiers if name not in before.qualifiers))


def _is_twin(first: Relation, second: Relation, draft: Draft) -> bool:
    return (
        first.uuid != second.uuid
        and first.kind == second.kind
        and is_same_fact(first, second)
        and not are_apart(first, second)
        and not (_comes_back(first, second, draft) or _comes_back(second, first, draft))
    )


def _comes_back(first: Relation, second: Relation, draft: Draft) -> bool:
    """Tell whether what replaced the first was replaced by the second: as one they would have ended each other."""
    between = (draft.get(Relation, uuid) for uuid in first.superseded_by)
    return any(second.uuid in each.superseded_by for each in between if each)


def folded(kept: Relation, other: Relation) -> Relation:
    """Return one relation for two that state the same: counts added, evidence united, missing times filled in."""
    times: dict[str, object] = {}
    begins, ends = other.valid_since, other.stated_until
    if kept.valid_since is None and begins is not None and (kept.valid_until is None or begins <= kept.valid_until):
        times = {name: getattr(other, name) for name in ("valid_since", "offset_since", "precision_since")}
    begins = kept.valid_since if kept.valid_since is not None else begins
    if kept.stated_until is None and ends is not None and not kept.superseded_by and (begins is None or begins <= ends):
        stated = (ends, other.stated_offset, other.stated_precision)
        times |= dict(zip(("stated_until", "stated_offset", "stated_precision"), stated, strict=True))
        times |= dict(zip(("valid_until", "offset_until", "precision_until"), stated, strict=True))
    return kept.revise(
        episodes=list(dict.fromkeys([*kept.episodes, *other.episodes])),
        sources=newest([*kept.sources, *other.sources], LABELS_KEPT),
        mention_count=kept.mention_count + other.mention_count,
        first_mentioned_at=earliest(kept.first_mentioned_at, other.first_mentioned_at),
        last_mentioned_at=latest(kept.last_mentioned_at, other.last_mentioned_at),
        qualifiers=united(kept.qualifiers, other.qualifiers),
        **times,
    )


def united(first: Mapping[str, JsonValue], second: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return both, `first` before `second`; only `first` where both together are too long."""
    union = {**second, **first}
    return union if fits_document(union) else dict(first)


def newest(values: Iterable[str], limit: int) -> list[str]:
    """Return the distinct values, the last `limit` of them, in the order in which they first came."""
    return [value for value in dict.fromkeys(values) if value][-limit:]


def distinct_names(names: Iterable[str], *, but: str) -> list[str]:
    """Return names that differ by more than case and spacing from each other and from `but`."""
    distinct = {normalise_name(name): name for name in names}
    distinct.pop(normalise_name(but), None)
    return newest(distinct.values(), LABELS_KEPT)


def earliest(first: int | None, second: int | None) -> int | None:
    """Return the earlier of two times, or the one that is known."""
    return min(filter(lambda each: each is not None, (first, second)), default=None)  # type: ignore[type-var]


def latest(first: int | None, second: int | None) -> int | None:
    """Return the later of two times, or the one that is known."""
    return max(filter(lambda each: each is not None, (first, second)), default=None)  # type: ignore[type-var]
