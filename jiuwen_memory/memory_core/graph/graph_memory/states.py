"""The values that pass between the stages of an add, and `GraphMemUpdate`, the plan they end in. Pure values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation, new_uuid
from jiuwen_memory.memory_core.graph.extraction.usage import Usage
from jiuwen_memory.memory_core.graph.extraction.values import DuplicateCase, Mention

Object = TypeVar("Object", bound=BaseGraphObject)


@dataclass(frozen=True)
class History:
    """Earlier episodes that speak of the same things, best first, and the vector of the new text."""

    episodes: tuple[Episode, ...]
    vector: list[float]


@dataclass(frozen=True)
class KnownEntities:
    """What the store holds for each mention: entities of the same name, and similar ones, best first.

    `vectors` holds name vectors of mentions that were searched for; `in_session` the ids mentioned in the same session.
    """

    same_name: tuple[tuple[Entity, ...], ...] = ()
    similar: tuple[tuple[Entity, ...], ...] = ()
    vectors: Mapping[str, list[float]] = field(default_factory=dict)
    in_session: frozenset[str] = frozenset()


@dataclass(frozen=True)
class KnownRelations:
    """Stored relations beside each new one (best first), and everything that hangs on entities to be merged.

    `of_targets` holds those relations of the entities that stay which the moved ones may repeat.
    """

    candidates: tuple[tuple[Relation, ...], ...] = ()
    of_merged: tuple[Relation, ...] = ()
    of_targets: tuple[Relation, ...] = ()
    episodes_of_merged: tuple[Episode, ...] = ()
    vectors: Mapping[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Names:
    """Mentions whose entity is certain, and the cases the model is to judge (`asked` holds their mentions' numbers)."""

    settled: tuple[Entity | None, ...]
    asked: tuple[int, ...]
    cases: tuple[DuplicateCase, ...]
    candidates: tuple[tuple[Entity, ...], ...]


@dataclass(frozen=True)
class Merge:
    """Stored entities that turned out to be the same as `target`."""

    target: Entity
    absorbed: tuple[Entity, ...]


@dataclass(frozen=True)
class Identity:
    """The entity each mention means (`nodes` goes with `mentions`), and the stored entities to be fused.

    `origins` holds, for each mention, the id of the entity it would mean if nothing were fused.
    """

    mentions: tuple[Mention, ...]
    nodes: tuple[Entity, ...]
    merges: tuple[Merge, ...] = ()
    origins: tuple[str, ...] = ()

    @property
    def absorbed(self) -> dict[str, str]:
        """The uuid of each entity that goes, and of the one it becomes part of."""
        return {each.uuid: merge.target.uuid for merge in self.merges for each in merge.absorbed}

    @property
    def heard(self) -> dict[str, list[str]]:
        """The names by which the text mentions each entity, by origin."""
        names: dict[str, list[str]] = {}
        for mention, origin in zip(self.mentions, self.origins, strict=True):
            names.setdefault(origin, []).append(mention.name)
        return names


@dataclass
class GraphMemUpdate:
    """The plan of a write, the input of its commit, and what the caller gets back.

    `added_*` and `updated_*` hold whole objects, `removed_*` uuids. `warnings` tells what was dropped or left out and
    why, `duplicate_of` names the stored episode when the input was recognised as a repeat, `usage` counts model calls,
    rounds and tokens. `first | second` is the sum of two updates.
    """

    added_episode: list[Episode] = field(default_factory=list)
    updated_episode: list[Episode] = field(default_factory=list)
    removed_episode: set[str] = field(default_factory=set)
    added_entity: list[Entity] = field(default_factory=list)
    updated_entity: list[Entity] = field(default_factory=list)
    removed_entity: set[str] = field(default_factory=set)
    added_relation: list[Relation] = field(default_factory=list)
    updated_relation: list[Relation] = field(default_factory=list)
    removed_relation: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    duplicate_of: str | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def is_empty(self) -> bool:
        """Nothing is added, updated or removed."""
        return not any((*self.objects(), *self.removed_episode, *self.removed_entity, *self.removed_relation))

    def __str__(self) -> str:
        rows = {
            "added": (self.added_episode, self.added_entity, self.added_relation),
            "updated": (self.updated_episode, self.updated_entity, self.updated_relation),
            "removed": (self.removed_episode, self.removed_entity, self.removed_relation),
        }
        done = {what: counted(*map(len, each)) for what, each in rows.items()}
        said = "; ".join(f"{what} {each}" for what, each in done.items() if each) or "nothing changed"
        if self.duplicate_of:
            said += f"; a repeat of episode {self.duplicate_of}"
        return f"{said[0].upper()}{said[1:]}; {number_of(len(self.warnings), 'warning', 'warnings')}."

    def objects(self) -> Iterator[BaseGraphObject]:
        """Return every added or updated object: episodes, then entities, then relations."""
        yield from self.added_episode
        yield from self.updated_episode
        yield from self.added_entity
        yield from self.updated_entity
        yield from self.added_relation
        yield from self.updated_relation

    def __or__(self, later: GraphMemUpdate) -> GraphMemUpdate:
        """Return what both did, `later` after this one: the newest version of each object, under what became of it."""
        return GraphMemUpdate(
            added_episode=_added(self.added_episode, later.added_episode, later.updated_episode, later.removed_episode),
            updated_episode=_updated(
                self.added_episode, self.updated_episode, later.updated_episode, later.removed_episode
            ),
            removed_episode=(self.removed_episode | later.removed_episode) - _ids(self.added_episode),
            added_entity=_added(self.added_entity, later.added_entity, later.updated_entity, later.removed_entity),
            updated_entity=_updated(self.added_entity, self.updated_entity, later.updated_entity, later.removed_entity),
            removed_entity=(self.removed_entity | later.removed_entity) - _ids(self.added_entity),
            added_relation=_added(
                self.added_relation, later.added_relation, later.updated_relation, later.removed_relation
            ),
            updated_relation=_updated(
                self.added_relation, self.updated_relation, later.updated_relation, later.removed_relation
            ),
            removed_relation=(self.removed_relation | later.removed_relation) - _ids(self.added_relation),
            warnings=[*self.warnings, *later.warnings],
            duplicate_of=self.duplicate_of or later.duplicate_of,
            usage=self.usage + later.usage,
        )


def number_of(count: int, one: str, several: str) -> str:
    """Return a number and what it counts."""
    return f"{count} {one if count == 1 else several}"


def counted(episodes: int, entities: int, relations: int) -> str:
    """Return how many objects of each kind there are, leaving out kinds of which there are none."""
    words = ((episodes, "episode", "episodes"), (entities, "entity", "entities"), (relations, "relation", "relations"))
    return ", ".join(number_of(*each) for each in words if each[0])


def _ids(objects: Iterable[BaseGraphObject]) -> set[str]:
    return {each.uuid for each in objects}


def _added(first: list[Object], second: list[Object], changed: list[Object], removed: set[str]) -> list[Object]:
    newest = {each.uuid: each for each in changed}
    return [newest.get(each.uuid, each) for each in (*first, *second) if each.uuid not in removed]


def _updated(added: list[Object], first: list[Object], second: list[Object], removed: set[str]) -> list[Object]:
    newest = {each.uuid: each for each in (*first, *second)}
    left_out = _ids(added) | removed
    return [each for each in newest.values() if each.uuid not in left_out]


class Draft:
    """Collects the new version of every object of a plan and finds by itself what was added, updated or removed."""

    def __init__(self, stored: Iterable[BaseGraphObject]) -> None:
        self._stored = {each.uuid: each for each in stored}
        self._current: dict[str, BaseGraphObject] = dict(self._stored)
        self._heirs: dict[str, str] = {}
        self.warnings: list[str] = []

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._current

    def get(self, kind: type[Object], uuid: str) -> Object | None:
        """Return the newest version of an object of this kind, or None when there is none (any more)."""
        found = self._current.get(uuid)
        return found if isinstance(found, kind) else None

    def all(self, kind: type[Object]) -> list[Object]:
        """Return the newest versions of all objects of this kind."""
        return [each for each in self._current.values() if isinstance(each, kind)]

    def put(self, new_version: BaseGraphObject) -> None:
        """Take in an object or its new version."""
        self._current[new_version.uuid] = new_version

    def know(self, stored: BaseGraphObject) -> None:
        """Take in a stored object, unless the draft knows it already."""
        if stored.uuid not in self._stored:
            self._stored[stored.uuid] = stored
            self._current.setdefault(stored.uuid, stored)

    def remove(self, uuid: str) -> None:
        """Drop an object."""
        self._current.pop(uuid, None)

    def fold(self, kept: BaseGraphObject, gone: str) -> None:
        """Take in the new version of an object that another one has become part of."""
        self.put(kept)
        self.remove(gone)
        self._heirs[gone] = kept.uuid

    def heir(self, uuid: str) -> str:
        """Return the object that this one has become part of, or itself."""
        while uuid in self._heirs:
            uuid = self._heirs[uuid]
        return uuid

    def is_stored(self, uuid: str) -> bool:
        """Tell whether there is a stored object of this id, whatever becomes of it."""
        return uuid in self._stored

    def unread_ends(self, relation: Relation) -> list[str]:
        """Return the ends of a new relation that the draft does not know."""
        if relation.uuid in self._stored:
            return []
        return [end for end in (relation.lhs, relation.rhs) if end not in self._current]

    def is_removed(self, uuid: str) -> bool:
        """Tell whether a stored object is dropped."""
        return uuid in self._stored and uuid not in self._current

    def disturbed(self) -> list[Relation]:
        """Return the stored facts that are dropped, or whose beginning changes, as they are stored."""
        return [
            before
            for uuid, before in self._stored.items()
            if isinstance(before, Relation)
            and before.kind == "fact"
            and (self.is_removed(uuid) or _begins(self._current[uuid]) != before.valid_since)
        ]

    def update(self) -> GraphMemUpdate:
        """Return the difference between what is stored and the draft."""
        update = GraphMemUpdate(warnings=list(self.warnings))
        for uuid, each in self._current.items():
            before = self._stored.get(uuid)
            if before is each or before == each:
                continue
            if isinstance(each, Episode):
                (update.updated_episode if before else update.added_episode).append(each)
            elif isinstance(each, Entity):
                (update.updated_entity if before else update.added_entity).append(each)
            elif isinstance(each, Relation):
                (update.updated_relation if before else update.added_relation).append(each)
        for uuid, before in self._stored.items():
            if uuid not in self._current and isinstance(before, Episode):
                update.removed_episode.add(uuid)
            if uuid not in self._current and isinstance(before, Entity):
                update.removed_entity.add(uuid)
            if uuid not in self._current and isinstance(before, Relation):
                update.removed_relation.add(uuid)
        return update


def _begins(found: BaseGraphObject) -> int | None:
    return found.valid_since if isinstance(found, Relation) else None


def with_fresh_ids(update: GraphMemUpdate, taken: Collection[str]) -> GraphMemUpdate:
    """Return the update with new ids in place of those in `taken`, wherever an object names them."""
    return with_ids(update, {uuid: new_uuid() for uuid in taken})


def with_ids(update: GraphMemUpdate, ids: Mapping[str, str]) -> GraphMemUpdate:
    """Return the update with other ids in place of some, wherever an object that it adds or updates names them."""
    if not ids:
        return update

    def renewed(objects: list[Object]) -> list[Object]:
        return [_renamed(each, ids) for each in objects]

    return replace(
        update,
        added_episode=renewed(update.added_episode),
        updated_episode=renewed(update.updated_episode),
        added_entity=renewed(update.added_entity),
        updated_entity=renewed(update.updated_entity),
        added_relation=renewed(update.added_relation),
        updated_relation=renewed(update.updated_relation),
    )


def _renamed(each: Object, fresh: Mapping[str, str]) -> Object:
    text = each.model_dump_json()
    for old, new in fresh.items():
        text = text.replace(f'"{old}"', f'"{new}"')
    return type(each).model_validate_json(text)
