"""Takes apart an entity that others were fused into: who each was, and which facts are whose. Values in, values out.

What the fusions recorded decides (`merge_records`): a fact goes to the end it was first learnt with, and one that was
folded into another comes out of it again. What was learnt later, or is not recorded, stays with the entity that was
kept. `sides` puts the lists and counts of the entities right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.foundation.store.graph.graph_object import Entity, Relation
from jiuwen_memory.memory_core.graph.graph_memory.deletions import Graph, is_cut
from jiuwen_memory.memory_core.graph.graph_memory.fusing import LABELS_KEPT, newest
from jiuwen_memory.memory_core.graph.graph_memory.merge_records import FoldedFact, Member, read_members
from jiuwen_memory.memory_core.graph.graph_memory.periods import with_right_period
from jiuwen_memory.memory_core.graph.graph_memory.resolve import FACT_SELF
from jiuwen_memory.memory_core.graph.graph_memory.states import Draft

_SINCE = ("valid_since", "offset_since", "precision_since")
_STATED = ("stated_until", "stated_offset", "stated_precision")


@dataclass(frozen=True)
class Case:
    """An entity to be taken apart, and what its records tell; `members` are all, oldest first."""

    graph: Graph
    kept: Entity
    members: tuple[Member, ...]
    storage: GraphStoreStorageConfig

    @cached_property
    def rebuilt(self) -> tuple[Member, ...]:
        """The members of which evidence is left."""
        return tuple(each for each in self.members if each.uuid not in self.graph.entities and self._is_known(each))

    @cached_property
    def sides(self) -> Mapping[str, str]:
        """For every member and the kept one: where it goes. Without evidence it stays in what it became part of."""
        alive = {each.uuid for each in self.rebuilt}
        sides = {self.kept.uuid: self.kept.uuid}
        for member in reversed(self.members):
            sides[member.uuid] = member.uuid if member.uuid in alive else sides.get(member.into, self.kept.uuid)
        return sides

    @cached_property
    def heirs(self) -> Mapping[str, str]:
        """What became of entities that were fused into others than this one."""
        return {
            member.uuid: each.uuid
            for each in self.graph.entities.values()
            if each.merged_from and each.uuid != self.kept.uuid
            for member in read_members(each)
        }

    def holder(self, member: Member) -> str:
        """Return the entity that a member comes out of."""
        return self.sides.get(member.into, self.kept.uuid)

    def _is_known(self, member: Member) -> bool:
        stored = self.graph.episodes
        back = (each.fact for each in member.facts if not each.into or each.into in self._facts)
        told = (uuid for fact in back for uuid in fact.episodes)
        return any(uuid in stored for uuid in (*member.entity.episodes, *told)) or member.uuid in self._origins

    @cached_property
    def _facts(self) -> frozenset[str]:
        """Facts that are there, or recorded."""
        recorded = {each.fact.uuid for member in self.members for each in member.facts}
        return frozenset(recorded | self.graph.relations.keys())

    @cached_property
    def _origins(self) -> frozenset[str]:
        """The ends with which the facts of the kept entity were learnt."""
        kept = self.kept.uuid
        return frozenset(
            origin
            for each in self.graph.relations.values()
            for end, origin in ((each.lhs, each.lhs_origin), (each.rhs, each.rhs_origin))
            if end == kept
        )


@dataclass
class Comings:
    """Which facts came out of others: `twins` lists, by the id of the other, what came out of it."""

    twins: dict[str, list[str]] = field(default_factory=dict)

    def note(self, fact: str, into: str) -> None:
        """Take in that a fact came out of another."""
        self.twins.setdefault(into, []).append(fact)

    def choices(self, uuid: str) -> list[str]:
        """Return a fact, and everything that came out of it, directly or not."""
        found = [uuid]
        for each in found:
            found += self.twins.get(each, [])
        return found


def put_facts(draft: Draft, case: Case) -> tuple[str, ...]:
    """Let every fact out and to its side; return the ids of facts that hold again."""
    comings = Comings()
    for member in reversed(case.rebuilt):
        for folded in member.facts:
            _put_restored(draft, folded, case=case, comings=comings)
    for relation in draft.all(Relation):
        if relation.ends == "entity":
            _put_ends(draft, relation, case)
    reopened = _put_periods(draft, case, comings)
    for link in draft.all(Relation):
        if link.ends == "relation":
            _put_link(draft, link, case=case, comings=comings)
    return reopened


def _put_restored(draft: Draft, folded: FoldedFact, *, case: Case, comings: Comings) -> None:
    """Restore a recorded fact, unless all its evidence, or the fact it had become part of, was deleted."""
    fact = folded.fact
    episodes = [uuid for uuid in fact.episodes if uuid in case.graph.episodes]
    if fact.uuid in draft or not episodes:
        return
    if folded.into:
        other = draft.get(Relation, folded.into) or _heir(draft, folded, case)
        if other is None:
            return
        rest = _without(other, folded, case)
        if rest.episodes:
            draft.put(rest)
        else:
            draft.remove(other.uuid)
        comings.note(fact.uuid, other.uuid)
    draft.put(fact.revise(episodes=episodes))


def _heir(draft: Draft, folded: FoldedFact, case: Case) -> Relation | None:
    """Return what the fact that took this one in has become part of: the like about the same, with all its evidence."""
    ends = {case.kept.uuid if end in case.sides else end for end in (folded.fact.lhs, folded.fact.rhs)}
    return next(
        (
            each
            for each in draft.all(Relation)
            if {each.lhs, each.rhs} == ends
            and each.name_norm == folded.fact.name_norm
            and set(each.episodes).issuperset(folded.fact.episodes)
        ),
        None,
    )


def _without(fact: Relation, folded: FoldedFact, case: Case) -> Relation:
    """Return a fact without what it took over from one that was folded into it."""
    gone, graph = folded.fact, case.graph
    left = set(gone.episodes) - set(folded.both)
    episodes = [uuid for uuid in fact.episodes if uuid not in left]
    rest = [graph.episodes[uuid] for uuid in episodes if uuid in graph.episodes]
    told = sum(uuid not in graph.gists for uuid in episodes)
    changes: dict[str, object] = {
        "episodes": episodes,
        "mention_count": max(fact.mention_count - gone.mention_count, told, 1),
        "qualifiers": _given_back(fact, folded),
    }
    if not is_cut(fact, case.storage.episodes, graph=graph):
        said_at = [each.valid_since for each in rest if each.valid_since is not None]
        changes |= {
            "sources": newest([each.source for each in rest], LABELS_KEPT),
            "first_mentioned_at": min(said_at, default=None),
            "last_mentioned_at": max(said_at, default=None),
        }
    for names in (_SINCE, _STATED):
        if names[0] in folded.filled and getattr(fact, names[0]) == getattr(gone, names[0]):
            changes |= dict(zip(names, (None, 0, None), strict=True))
    if changes.get("stated_until", fact.stated_until) is None and fact.stated_until is not None:
        changes |= {"valid_until": None, "offset_until": 0, "precision_until": None}
    return fact.revise(**changes)


def _given_back(fact: Relation, folded: FoldedFact) -> dict[str, object]:
    taken = {name.removeprefix("qualifiers.") for name in folded.filled if name.startswith("qualifiers.")}
    return {
        name: value
        for name, value in fact.qualifiers.items()
        if name not in taken or value != folded.fact.qualifiers.get(name)
    }


def _put_ends(draft: Draft, relation: Relation, case: Case) -> None:
    """Give a relation its ends back; one whose other end was deleted meanwhile cannot come back."""
    lhs = _side(relation.lhs, relation.lhs_origin, case)
    rhs = _side(relation.rhs, relation.rhs_origin, case)
    if not lhs or not rhs:
        draft.remove(relation.uuid)
        return
    if (lhs, rhs) == (relation.lhs, relation.rhs):
        return
    joined = "Relation" if relation.obj_type == FACT_SELF else relation.obj_type
    draft.put(relation.revise(lhs=lhs, rhs=rhs, obj_type=FACT_SELF if lhs == rhs else joined))


def _side(end: str, origin: str, case: Case) -> str:
    """Return the entity that an end is at from now on, "" if there is none any more."""
    if end in case.sides:
        return case.sides.get(origin) or case.sides[end]
    return end if end in case.graph.entities else case.heirs.get(end, "")


def _put_periods(draft: Draft, case: Case, comings: Comings) -> tuple[str, ...]:
    """Let each superseded fact name what supersedes it on its own side, and work out anew when it ended."""
    reopened = []
    for fact in draft.all(Relation):
        stored = case.graph.relations.get(fact.uuid)
        if not fact.superseded_by:
            if stored is not None and fact.stated_until != stored.stated_until:
                draft.put(with_right_period(fact, []))
            continue
        later = list(dict.fromkeys(_successors(fact, draft, case=case, comings=comings)))
        superseding = [each for each in (draft.get(Relation, uuid) for uuid in later) if each is not None]
        right = with_right_period(fact, superseding)
        is_touched = stored is None or stored != fact or any(_is_changed(each, case) for each in superseding)
        if later != fact.superseded_by or is_touched:
            draft.put(right)
        if stored is not None and not right.superseded_by:
            reopened.append(fact.uuid)
    return tuple(reopened)


def _is_changed(fact: Relation, case: Case) -> bool:
    return case.graph.relations.get(fact.uuid) != fact


def _successors(fact: Relation, draft: Draft, *, case: Case, comings: Comings) -> Iterator[str]:
    stored = case.graph.relations
    for uuid in fact.superseded_by:
        found = (draft.get(Relation, each) for each in comings.choices(uuid))
        # What had become part of its own successor does not succeed itself.
        choices = [each for each in found if each is not None and each.uuid != fact.uuid]
        if not choices:
            continue
        best = max(choices, key=lambda each: _likeness(fact, each))
        before, other = stored.get(fact.uuid), stored.get(uuid)
        was_alike = before is not None and other is not None and _likeness(before, other) > 0
        if _likeness(fact, best) or not was_alike:
            yield best.uuid


def _likeness(first: Relation, second: Relation) -> int:
    """Tell how much two facts are about the same: without any, neither can supersede the other."""
    return 2 * (first.lhs == second.lhs) + ({first.lhs, first.rhs} == {second.lhs, second.rhs})


def _put_link(draft: Draft, link: Relation, *, case: Case, comings: Comings) -> None:
    """Let a link join the facts it was about; one that only a fusion brought together goes."""
    pairs = [(lhs, rhs) for lhs in comings.choices(link.lhs) for rhs in comings.choices(link.rhs)]
    known = [(lhs, rhs) for lhs, rhs in pairs if lhs in draft and rhs in draft]
    now = {each.uuid: each for each in (draft.get(Relation, uuid) for pair in known for uuid in pair) if each}
    best = max(known, key=lambda pair: _share_an_end(pair, now), default=None)
    if best is None or (not _share_an_end(best, now) and _share_an_end((link.lhs, link.rhs), case.graph.relations)):
        draft.remove(link.uuid)
    elif best != (link.lhs, link.rhs):
        draft.put(link.revise(lhs=best[0], rhs=best[1]))


def _share_an_end(pair: tuple[str, str], facts: Mapping[str, Relation]) -> bool:
    ends = [{facts[uuid].lhs, facts[uuid].rhs} for uuid in pair if uuid in facts]
    return len(ends) == 2 and not ends[0].isdisjoint(ends[1])
