"""Says what is wrong with one user's graph, and what puts it right. Values in, values out.

The rules are what the write path promises of every graph between two writes:

- The ends of a relation exist, and so does every id in `entity.relations`, `entity.episodes`, `episode.entities`,
  `episode.parents`, `relation.episodes` and `relation.superseded_by`; all of them belong to the same user.
- A fact is listed by its ends; an entity and an episode list each other. Lists are capped, the newest kept, and one
  that was full is not filled up again when something in it goes: what is not listed counts as missing only while the
  list is at most a quarter full.
- A relation rests on at least one episode that is no gist, unless it links two close names; an entity has an episode or
  a relation; a gist has an episode that it was made of.
- `mention_count` is at least 1 and at least the number of episodes listed, gists aside. It may be higher: one text can
  state a fact twice in different words, entities that are fused add their counts, and the list is capped.
- A period does not end before it begins, and nothing was last mentioned before it was first mentioned.
- `valid_until` is the earliest of `stated_until` and the beginnings of what supersedes the fact; `expired_at` is set
  exactly while something does. A superseding fact does not begin before the one it supersedes.
- `obj_type` is `EntityFact` exactly where both ends are one entity.
- An id is one object's, across all three collections.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, TypeVar

from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    GRAPH_COLLECTIONS,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation
from jiuwen_memory.memory_core.graph.graph_memory.periods import with_right_period
from jiuwen_memory.memory_core.graph.graph_memory.resolve import FACT_SELF

FindingKind = Literal[
    "dangling_end",
    "dangling_reference",
    "foreign_reference",
    "stray_reference",
    "missing_back_reference",
    "orphan",
    "duplicate_id",
    "wrong_derived_text",
    "stale_vector",
    "unusable_vector",
    "wrong_count",
    "times_out_of_order",
    "wrong_end_time",
    "wrong_flag",
    "journal_waiting",
    "journal_unfinished",
    "journal_damaged",
]
Remedy = Literal["none", "rewrite", "embed", "remove"]
Object = TypeVar("Object", bound=BaseGraphObject)

END_COLLECTION: Final = {"entity": ENTITY_COLLECTION, "relation": RELATION_COLLECTION, "episode": EPISODE_COLLECTION}
REFERENCES: Final[Mapping[str, Mapping[str, str]]] = {
    ENTITY_COLLECTION: {"relations": RELATION_COLLECTION, "episodes": EPISODE_COLLECTION},
    RELATION_COLLECTION: {"episodes": EPISODE_COLLECTION, "superseded_by": RELATION_COLLECTION},
    EPISODE_COLLECTION: {"entities": ENTITY_COLLECTION, "parents": EPISODE_COLLECTION},
}
PERIOD: Final = (
    *("valid_since", "offset_since", "precision_since", "valid_until", "offset_until", "precision_until"),
    *("stated_until", "stated_offset", "stated_precision", "superseded_by", "expired_at"),
)
"""The fields that say when a fact holds."""
_IDS_SHOWN: Final = 5


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong; `repaired` tells whether it was put right."""

    kind: FindingKind
    collection: str
    uuid: str
    user_id: str
    detail: str
    repaired: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.collection} {self.uuid}: {self.detail}{' (repaired)' if self.repaired else ''}"


@dataclass(frozen=True)
class Fault:
    """A finding and its remedy: the object written anew with `changes` (`embed`: with new vectors), or removed."""

    finding: Finding
    remedy: Remedy = "rewrite"
    changes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class UserGraph:
    """One user's objects as far as they hang together, and unresolved ids that another user's objects have."""

    user_id: str
    entities: Sequence[Entity]
    relations: Sequence[Relation]
    episodes: Sequence[Episode]
    limits: GraphStoreStorageConfig
    foreign: Collection[str] = frozenset()

    @cached_property
    def objects(self) -> Mapping[str, Mapping[str, BaseGraphObject]]:
        """The objects by collection and id."""
        listed: dict[str, Sequence[BaseGraphObject]] = dict(
            zip(GRAPH_COLLECTIONS, (self.entities, self.relations, self.episodes), strict=True)
        )
        return {collection: {each.uuid: each for each in objects} for collection, objects in listed.items()}

    @cached_property
    def heirs(self) -> Mapping[str, str]:
        """The entity that each fused one became part of."""
        records = ((record, each.uuid) for each in self.entities for record in each.merged_from)
        return {str(record["uuid"]): heir for record, heir in records if isinstance(record, dict) and "uuid" in record}

    def resolved(self, collection: str, uuid: str) -> str | None:
        """Return the id, or for a fused entity that of its heir; None if there is no such object."""
        if uuid in self.objects[collection]:
            return uuid
        return self.heirs.get(uuid) if collection == ENTITY_COLLECTION else None

    def find(self, kind: type[Object], uuids: Iterable[str]) -> list[Object]:
        """Return the objects of these ids; ids without one are passed over."""
        found = (self.objects[kind.collection].get(uuid) for uuid in uuids)
        return [each for each in found if isinstance(each, kind)]

    def all(self, kind: type[Object]) -> list[Object]:
        """Return the objects of a kind, one of each id."""
        return [each for each in self.objects[kind.collection].values() if isinstance(each, kind)]

    def verbatim(self, episodes: Iterable[str]) -> list[str]:
        """Return the episodes that are no gists."""
        return [each.uuid for each in self.find(Episode, episodes) if not each.is_gist]

    def unresolved(self) -> Mapping[str, set[str]]:
        """Return the ids that are referred to and not there, by the collection they should be in."""
        missing: dict[str, set[str]] = {name: set() for name in GRAPH_COLLECTIONS}
        for collection, objects in self.objects.items():
            for each in objects.values():
                for name, target in REFERENCES[collection].items():
                    missing[target].update(uuid for uuid in getattr(each, name) if not self.resolved(target, uuid))
                if isinstance(each, Relation):
                    target = END_COLLECTION[each.ends]
                    missing[target].update(uuid for uuid in (each.lhs, each.rhs) if not self.resolved(target, uuid))
        return missing

    @cached_property
    def touching(self) -> Mapping[str, set[str]]:
        """The relations of any kind that end at each entity."""
        return _gathered(
            (self.resolved(ENTITY_COLLECTION, end), relation.uuid)
            for relation in self.all(Relation)
            if relation.ends == "entity"
            for end in (relation.lhs, relation.rhs)
        )

    @cached_property
    def back_references(self) -> Mapping[tuple[str, str], Mapping[str, set[str]]]:
        """What should be listed in a field of a collection, by the id of the object that should list it."""
        facts = {each.uuid for each in self.all(Relation) if each.kind == "fact"}
        heard = (
            (self.resolved(ENTITY_COLLECTION, entity), each.uuid)
            for each in self.all(Episode)
            for entity in each.entities
        )
        return {
            (ENTITY_COLLECTION, "relations"): {end: uuids & facts for end, uuids in self.touching.items()},
            (ENTITY_COLLECTION, "episodes"): _gathered(heard),
            (EPISODE_COLLECTION, "entities"): _gathered(
                (episode, each.uuid) for each in self.all(Entity) for episode in each.episodes
            ),
        }


def _gathered(pairs: Iterable[tuple[str | None, str]]) -> dict[str, set[str]]:
    gathered: dict[str, set[str]] = defaultdict(set)
    for key, value in pairs:
        if key:
            gathered[key].add(value)
    return gathered


@dataclass(frozen=True)
class _Listing:
    """A list of ids as it is and as it should be: what is not there, what does not belong there, what is missing."""

    gone: list[str]
    stray: list[str]
    missing: list[str]
    right: list[str]


def resolve_faults(graph: UserGraph) -> Iterator[Fault]:
    """Return what is wrong with how a user's objects hang together."""
    yield from _duplicate_faults(graph)
    for entity in graph.all(Entity):
        listings = _listings(graph, entity)
        yield from _reference_faults(graph, entity, listings=listings)
        yield from _mention_faults(entity, episodes=graph.verbatim(listings["episodes"].right))
        if not (graph.touching.get(entity.uuid) or listings["episodes"].right):
            detail = f"the entity {entity.name!r} has neither an episode nor a relation"
            yield fault(entity, "orphan", detail=detail, remedy="remove")
    for relation in graph.all(Relation):
        listings = _listings(graph, relation)
        yield from _end_faults(graph, relation)
        yield from _reference_faults(graph, relation, listings=listings)
        verbatim = graph.verbatim(listings["episodes"].right)
        yield from _mention_faults(relation, episodes=verbatim)
        yield from _time_faults(relation, graph.find(Relation, listings["superseded_by"].right))
        if relation.kind != "synonym" and not verbatim:
            detail = f"no episode supports it; the relation says {relation.content_text!r}"
            yield fault(relation, "orphan", detail=detail, remedy="remove")
    for episode in graph.all(Episode):
        listings = _listings(graph, episode)
        yield from _reference_faults(graph, episode, listings=listings)
        if episode.is_gist and not graph.verbatim(listings["parents"].right):
            yield fault(episode, "orphan", detail="the gist has no episode that it was made of", remedy="remove")


def fault(
    each: BaseGraphObject,
    kind: FindingKind,
    *,
    detail: str,
    remedy: Remedy = "rewrite",
    changes: Mapping[str, object] | None = None,
) -> Fault:
    """Return a fault of an object."""
    return Fault(Finding(kind, each.collection, each.uuid, each.user_id, detail), remedy, changes or {})


def _duplicate_faults(graph: UserGraph) -> Iterator[Fault]:
    everything: tuple[BaseGraphObject, ...] = (*graph.entities, *graph.relations, *graph.episodes)
    rows = Counter((each.collection, each.uuid) for each in everything)
    owners: dict[str, str] = {}
    for each in {(each.collection, each.uuid): each for each in everything}.values():
        times, owner = rows[each.collection, each.uuid], owners.setdefault(each.uuid, each.collection)
        if times > 1:
            yield fault(each, "duplicate_id", detail=f"{times} rows have this id; one is kept")
        if owner != each.collection:
            detail = f"a row of {owner} has the same id; store one of the two anew under another id"
            yield fault(each, "duplicate_id", detail=detail, remedy="none")


def _end_faults(graph: UserGraph, relation: Relation) -> Iterator[Fault]:
    target = END_COLLECTION[relation.ends]
    for side in ("lhs", "rhs"):
        uuid: str = getattr(relation, side)
        heir = graph.resolved(target, uuid)
        if heir is None:
            kind: FindingKind = "foreign_reference" if uuid in graph.foreign else "dangling_end"
            state = "is another user's" if uuid in graph.foreign else "does not exist"
            detail = f"its {side} {uuid!r} {state}; the relation says {relation.content_text!r}"
            yield fault(relation, kind, detail=detail, remedy="remove")
        elif heir != uuid:
            detail = f"its {side} {uuid!r} has become part of {heir!r}"
            yield fault(relation, "dangling_end", detail=detail, changes={side: heir})
    is_about_one = relation.lhs == relation.rhs and relation.ends == "entity"
    if is_about_one != (relation.obj_type == FACT_SELF):
        plain = "Relation" if relation.kind == "fact" else "Link"
        detail = f"it is marked {relation.obj_type!r} and is {'' if is_about_one else 'not '}about one entity alone"
        right = FACT_SELF if is_about_one else plain
        yield fault(relation, "wrong_flag", detail=detail, changes={"obj_type": right})


def _reference_faults(graph: UserGraph, each: BaseGraphObject, *, listings: Mapping[str, _Listing]) -> Iterator[Fault]:
    """Return what is wrong with an object's lists of ids; every fault of a list has the same remedy."""
    for name, listing in listings.items():
        found: dict[FindingKind, tuple[str, list[str]]] = {
            "dangling_reference": (
                "lists what does not exist",
                [uuid for uuid in listing.gone if uuid not in graph.foreign],
            ),
            "foreign_reference": (
                "lists what is another user's",
                [uuid for uuid in listing.gone if uuid in graph.foreign],
            ),
            "stray_reference": ("lists what does not belong there", listing.stray),
            "missing_back_reference": ("does not list", listing.missing),
        }
        for kind, (what, uuids) in found.items():
            if uuids:
                yield fault(each, kind, detail=f"{name} {what}: {_shown(uuids)}", changes={name: listing.right})


def _listings(graph: UserGraph, each: BaseGraphObject) -> dict[str, _Listing]:
    return {name: _listing(graph, each, name=name) for name in REFERENCES[each.collection]}


def _listing(graph: UserGraph, each: BaseGraphObject, *, name: str) -> _Listing:
    target = REFERENCES[each.collection][name]
    listed = Counter(getattr(each, name))
    gone, stray, valid = [], [], dict[str, None]()
    for uuid, times in listed.items():
        found = graph.resolved(target, uuid)
        if found != uuid:
            gone.append(uuid)
        elif times > 1 or not _belongs(graph, each, name=name, uuid=uuid):
            stray.append(uuid)
        if found and _belongs(graph, each, name=name, uuid=found):
            valid[found] = None
    missing = _missing(graph, each, name=name, valid=list(valid))
    return _Listing(gone, stray, missing, [*valid, *missing])


def _belongs(graph: UserGraph, each: BaseGraphObject, *, name: str, uuid: str) -> bool:
    return uuid in graph.touching.get(each.uuid, ()) if name == "relations" else uuid != each.uuid


def _missing(graph: UserGraph, each: BaseGraphObject, *, name: str, valid: list[str]) -> list[str]:
    """Return the newest of the ids that a list should hold and does not, oldest first, as far as there is room."""
    wanted = graph.back_references.get((each.collection, name), {}).get(each.uuid, set()).difference(valid)
    limit = getattr(graph.limits, name) if wanted else 0
    if len(valid) > limit // 4:
        return []
    learnt = graph.objects[REFERENCES[each.collection][name]]
    oldest_first = sorted(wanted, key=lambda uuid: (learnt[uuid].created_at, uuid))
    return oldest_first[len(valid) - limit :]


def _shown(uuids: Sequence[str]) -> str:
    rest = f" and {len(uuids) - _IDS_SHOWN} more" if len(uuids) > _IDS_SHOWN else ""
    return ", ".join(uuids[:_IDS_SHOWN]) + rest


def _mention_faults(each: Entity | Relation, *, episodes: Sequence[str]) -> Iterator[Fault]:
    least = max(1, len(episodes))
    if each.mention_count < least:
        detail = f"mention_count is {each.mention_count}, its episodes are {len(episodes)}"
        yield fault(each, "wrong_count", detail=detail, changes={"mention_count": least})
    first, last = each.first_mentioned_at, each.last_mentioned_at
    if first is not None and last is not None and first > last:
        detail = f"it was first mentioned at {first} and last at {last}"
        turned = {"first_mentioned_at": last, "last_mentioned_at": first}
        yield fault(each, "times_out_of_order", detail=detail, changes=turned)


def _time_faults(relation: Relation, superseding: Sequence[Relation]) -> Iterator[Fault]:
    """Return what is wrong with a relation's period; all these faults have the same remedy."""
    right = with_right_period(relation, superseding)
    changes = {name: getattr(right, name) for name in PERIOD if getattr(right, name) != getattr(relation, name)}
    since, until = relation.valid_since, relation.valid_until
    early = [each.uuid for each in superseding if each.uuid not in right.superseded_by]
    if early:
        detail = f"it holds from {since}, and what supersedes it began before: {_shown(early)}"
        yield fault(relation, "times_out_of_order", detail=detail, changes=changes)
    ends = [end for end in (until, relation.stated_until) if end is not None]
    if since is not None and ends and min(ends) < since:
        detail = f"it holds from {since} to {min(ends)}"
        yield fault(relation, "times_out_of_order", detail=detail, changes=changes)
    elif until != right.valid_until:
        detail = f"valid_until is {until}, what is known says {right.valid_until}"
        yield fault(relation, "wrong_end_time", detail=detail, changes=changes)
    if (relation.expired_at is None) != (right.expired_at is None):
        detail = f"expired_at is {relation.expired_at}, what supersedes it says {right.expired_at}"
        yield fault(relation, "wrong_end_time", detail=detail, changes=changes)
