"""What follows from other facts for the time a fact holds, and what is left to mend when facts were folded or dropped.

Values in, values out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jiuwen_memory.foundation.store.graph.constants import ARRAY_LIMIT
from jiuwen_memory.foundation.store.graph.graph_object import Entity, Relation
from jiuwen_memory.memory_core.graph.graph_memory.states import Draft


@dataclass(frozen=True)
class LooseEnds:
    """Stored objects that may refer to facts which a plan folds, drops or dates anew.

    `facts` are superseded ones, `superseding` what supersedes them, `links` and `entities` name the facts, or are the
    ends of new ones.
    """

    facts: tuple[Relation, ...] = ()
    superseding: tuple[Relation, ...] = ()
    links: tuple[Relation, ...] = ()
    entities: tuple[Entity, ...] = ()


def resolve_loose_ends(draft: Draft, loose: LooseEnds, *, limit: int = ARRAY_LIMIT) -> None:
    """Let everything that named a folded fact name the one it became part of, and work out anew which facts ended.

    The ends of a new fact list it, `limit` relations each at most.
    """
    for stored in (*loose.facts, *loose.superseding, *loose.links, *loose.entities):
        draft.know(stored)
    for relation in draft.all(Relation):
        if relation.ends == "relation":
            _put_link(draft, relation)
        elif relation.superseded_by:
            _put_period(draft, relation)
    new = [each for each in draft.all(Relation) if each.kind == "fact" and not draft.is_stored(each.uuid)]
    for entity in draft.all(Entity):
        listed = [uuid for uuid in entity.relations if not draft.is_removed(uuid)]
        own = [each.uuid for each in new if entity.uuid in (each.lhs, each.rhs)]
        draft.put(entity.revise(relations=list(dict.fromkeys([*listed, *own]))[-limit:]))


def _put_period(draft: Draft, relation: Relation) -> None:
    """Work out anew when a superseded fact ended; one whose successors were not read stays as it is."""
    heirs = [draft.heir(uuid) for uuid in relation.superseded_by]
    if not all(uuid in draft or draft.is_removed(uuid) for uuid in heirs):
        return
    found = [draft.get(Relation, uuid) for uuid in heirs]
    superseding = {each.uuid: each for each in found if each and each.uuid != relation.uuid}
    draft.put(with_right_period(relation, list(superseding.values())))


def _put_link(draft: Draft, link: Relation) -> None:
    lhs, rhs = draft.heir(link.lhs), draft.heir(link.rhs)
    if lhs == rhs or draft.is_removed(lhs) or draft.is_removed(rhs):
        draft.remove(link.uuid)
    else:
        draft.put(link.revise(lhs=lhs, rhs=rhs))


def are_apart(first: Relation, second: Relation) -> bool:
    """Tell whether two relations of one fact are periods of their own: one was replaced before the other begins."""
    return any(
        bool(one.superseded_by)
        and one.valid_until is not None
        and other.valid_since is not None
        and one.valid_until <= other.valid_since
        for one, other in ((first, second), (second, first))
    )


def with_right_period(relation: Relation, superseding: Sequence[Relation]) -> Relation:
    """Return the relation with the end that follows from what was stated and from what supersedes it.

    A stated period that ends before it begins is no period, as when it is learnt. What began before a fact cannot have
    replaced it.
    """
    since, stated = relation.valid_since, relation.stated_until
    if since is not None and stated is not None and stated < since:
        unknown = {"valid_since": None, "offset_since": 0, "precision_since": None}
        unknown |= {"stated_until": None, "stated_offset": 0, "stated_precision": None}
        relation = relation.revise(**unknown)
    begins = relation.valid_since
    later = [each for each in superseding if begins is None or each.valid_since is None or each.valid_since >= begins]
    ends = [(relation.stated_until, relation.stated_offset, relation.stated_precision)]
    ends += [(each.valid_since, each.offset_since, each.precision_since) for each in later]
    until, offset, precision = min(
        (end for end in ends if end[0] is not None), key=lambda end: end[0] or 0, default=(None, 0, None)
    )
    learnt = [max(each.created_at, relation.created_at) for each in later]
    return relation.revise(
        valid_until=until,
        offset_until=offset,
        precision_until=precision,
        superseded_by=[each.uuid for each in later][-ARRAY_LIMIT:],
        expired_at=(relation.expired_at or min(learnt)) if learnt else None,
    )
