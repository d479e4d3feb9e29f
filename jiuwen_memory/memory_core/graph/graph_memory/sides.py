"""Puts the entities right that come out of another: names, counts, episodes and lists. Values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jiuwen_memory.foundation.store.graph.graph_object import Entity, Episode, Relation
from jiuwen_memory.foundation.text import normalise_name
from jiuwen_memory.memory_core.graph.graph_memory.deletions import refilled
from jiuwen_memory.memory_core.graph.graph_memory.fusing import LABELS_KEPT, drop_stale_links, earliest, latest, newest
from jiuwen_memory.memory_core.graph.graph_memory.merge_records import EPISODES_RECORDED, Member
from jiuwen_memory.memory_core.graph.graph_memory.retelling import SHORT_ID, Retold, fact_weight
from jiuwen_memory.memory_core.graph.graph_memory.splitting import Case
from jiuwen_memory.memory_core.graph.graph_memory.states import Draft

Ties = Mapping[str, Sequence[Relation]]
"""The facts about each entity, those that hold first."""


@dataclass(frozen=True)
class Heard:
    """The episodes that mention each entity that comes apart; `later` counts those that a member got since."""

    episodes: Mapping[str, frozenset[str]]
    later: Mapping[str, int]


def put_sides(draft: Draft, case: Case) -> list[Retold]:
    """Put the members beside the kept entity, each with what is its own; return what their summaries rest on."""
    ties = resolve_ties(draft)
    heard = _resolve_heard(case, ties)
    cut = {member.uuid for member in case.rebuilt if _is_cut(member, case)}
    cut |= {case.kept.uuid} if len(case.kept.episodes) >= case.storage.episodes else set()
    for entity in _resolve_apart(case):
        told = [case.graph.episodes[uuid] for uuid in heard.episodes[entity.uuid]]
        later = heard.later.get(entity.uuid, 0)
        limit = case.storage.episodes
        draft.put(_with_evidence(entity, told, later=later, limit=limit, is_cut=entity.uuid in cut))
    _put_episodes(draft, case, heard)
    _put_listed(draft, case, ties)
    if not heard.episodes[case.kept.uuid] and not ties.get(case.kept.uuid):
        draft.remove(case.kept.uuid)
    drop_stale_links(draft, case.graph.entities)
    apart = [draft.get(Entity, uuid) for uuid in heard.episodes]
    return [_retold(each, case=case, heard=heard, ties=ties) for each in apart if each is not None]


def resolve_ties(draft: Draft) -> Ties:
    """Return the facts about each entity, those that hold first."""
    ties: dict[str, list[Relation]] = {}
    for fact in sorted(draft.all(Relation), key=fact_weight):
        for end in {fact.lhs, fact.rhs} if fact.kind == "fact" else ():
            ties.setdefault(end, []).append(fact)
    return ties


def resolve_stayed(draft: Draft, case: Case) -> tuple[Relation, ...]:
    """Return the facts that were learnt after a fusion, and stay with the entity that was kept for want of a record."""
    first: dict[str, Member] = {}
    for member in case.rebuilt:
        first.setdefault(case.holder(member), member)
    return tuple(
        fact
        for fact in draft.all(Relation)
        for uuid, member in first.items()
        if fact.kind == "fact" and uuid in (fact.lhs, fact.rhs) and _is_later(fact, uuid, member)
    )


def _is_later(fact: Relation, holder: str, member: Member) -> bool:
    """Tell whether a fact about an entity was learnt after the member had become part of it."""
    ends = ((fact.lhs, fact.lhs_origin), (fact.rhs, fact.rhs_origin))
    is_own = any(end == holder and origin in ("", holder) for end, origin in ends)
    return is_own and fact.created_at >= member.merged_at and member.kept_episodes.isdisjoint(fact.episodes)


def _resolve_heard(case: Case, ties: Ties) -> Heard:
    """Tell whose each episode is: as recorded, or else by the facts that rest on it; else it stays where it is.

    An episode heard after the fusion stays with the entity that was kept; a member whose facts it repeats gets it too.
    """
    stored = case.graph.episodes
    listed = {uuid for uuid, each in stored.items() if not case.sides.keys().isdisjoint(each.entities)}
    heard = {case.kept.uuid: set(case.graph.mentions[case.kept.uuid]) | listed}
    later: dict[str, int] = {}
    for member in reversed(case.rebuilt):
        holder = case.holder(member)
        recorded = {uuid for uuid in member.entity.episodes if uuid in stored}
        told = _told(member.uuid, ties, case) - recorded
        old = {uuid for uuid in told if _is_cut(member, case) and stored[uuid].created_at < member.merged_at}
        heard[member.uuid] = recorded | told
        heard[holder] -= recorded - member.both
        heard[holder] -= old - _told(holder, ties, case)
        later[member.uuid] = len(told - old)
    return Heard({uuid: frozenset(episodes) for uuid, episodes in heard.items()}, later)


def _told(entity: str, ties: Ties, case: Case) -> set[str]:
    """Return the episodes that the facts about an entity rest on; gists are none of their own."""
    verbatim = case.graph.episodes.keys() - case.graph.gists
    return {uuid for fact in ties.get(entity, ()) for uuid in fact.episodes if uuid in verbatim}


def _is_cut(member: Member, case: Case) -> bool:
    """Tell whether a member may have had more episodes than are recorded."""
    return not 0 < len(member.entity.episodes) < min(EPISODES_RECORDED, case.storage.episodes)


def _resolve_apart(case: Case) -> Iterator[Entity]:
    """Return the kept entity and the members as they were, the last one that was fused first."""
    apart = {case.kept.uuid: case.kept.revise(merged_from=[])}
    for member in reversed(case.rebuilt):
        apart[case.holder(member)] = _less(apart[case.holder(member)], member)
        apart[member.uuid] = member.entity
    yield from apart.values()


def _less(entity: Entity, member: Member) -> Entity:
    """Return an entity without the names, attributes and mentions that it has from a member.

    A deletion may have left it no name but a member's.
    """
    given = {normalise_name(name) for name in member.gave_aliases}
    names = [name for name in (entity.name, *entity.aliases) if normalise_name(name) not in given]
    names = names or [f"{entity.obj_type} {entity.uuid[:SHORT_ID]}"]
    return entity.revise(
        name=names[0],
        aliases=names[1:],
        attributes={
            name: value
            for name, value in entity.attributes.items()
            if name not in member.gave_attributes or value != member.entity.attributes.get(name)
        },
        mention_count=entity.mention_count - member.entity.mention_count,
    )


def _with_evidence(entity: Entity, told: Iterable[Episode], *, later: int, limit: int, is_cut: bool) -> Entity:
    """Return an entity with the lists, counts and times of its episodes; where some are not known, as it was."""
    episodes = sorted(told, key=lambda each: (each.created_at, each.part, each.uuid))
    said_at = [each.valid_since for each in episodes if each.valid_since is not None]
    sources = [each.source for each in episodes]
    first, last = min(said_at, default=None), max(said_at, default=None)
    return entity.revise(
        episodes=newest((each.uuid for each in episodes), limit),
        sources=newest([*entity.sources, *sources] if is_cut else sources, LABELS_KEPT),
        mention_count=max(entity.mention_count + later, len(episodes), 1),
        first_mentioned_at=earliest(entity.first_mentioned_at, first) if is_cut else first,
        last_mentioned_at=latest(entity.last_mentioned_at, last) if is_cut else last,
    )


def _put_episodes(draft: Draft, case: Case, heard: Heard) -> None:
    """Let each episode list the entities that it mentions; a full list that was cut stays as it is."""
    limit = case.storage.entities
    for uuid in set().union(*heard.episodes.values()):
        episode = case.graph.episodes[uuid]
        if case.sides.keys().isdisjoint(episode.entities) and len(episode.entities) >= limit:
            continue
        mine = [each for each, episodes in heard.episodes.items() if uuid in episodes]
        entities: list[str] = []
        for each in (*episode.entities, case.kept.uuid):
            entities += mine if each in case.sides else [each]
        draft.put(episode.revise(entities=newest(entities, limit)))


def _put_listed(draft: Draft, case: Case, ties: Ties) -> None:
    """Let every entity that a fact came to or went from list the facts about it."""
    for entity in draft.all(Entity):
        about = {fact.uuid: fact for fact in ties.get(entity.uuid, ())}
        links = (draft.get(Relation, uuid) for uuid in entity.relations if uuid not in about)
        linked = {each.uuid for each in links if each is not None and entity.uuid in (each.lhs, each.rhs)}
        listed = [uuid for uuid in entity.relations if uuid in about or uuid in linked]
        is_new = entity.uuid in case.sides
        missing = [fact for fact in about.values() if is_new or fact.uuid not in case.graph.relations]
        if is_new or missing or len(listed) < len(entity.relations):
            oldest_first = sorted(missing, key=lambda fact: (fact.created_at, fact.uuid))
            relations = refilled(listed, (fact.uuid for fact in oldest_first), case.storage.relations)
            draft.put(entity.revise(relations=relations))


def _retold(entity: Entity, *, case: Case, heard: Heard, ties: Ties) -> Retold:
    facts = tuple(ties.get(entity.uuid, ()))
    told = heard.episodes[entity.uuid] | _told(entity.uuid, ties, case)
    episodes = sorted(
        (case.graph.episodes[uuid] for uuid in told), key=lambda each: (each.created_at, each.part, each.uuid)
    )
    return Retold(entity, facts, tuple(episodes))
