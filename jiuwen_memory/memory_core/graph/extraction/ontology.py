"""The types that one text is read by: which there are, whether the set is closed, what may stand where. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel

from jiuwen_memory.errors import SetupError
from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import (
    DEFAULT_ENTITY_TYPES,
    EntityDef,
    RelationDef,
    TypeDef,
    as_entity_def,
    as_relation_def,
)
from jiuwen_memory.memory_core.graph.extraction.reply import fold_key

T = TypeVar("T", bound=TypeDef)
Models = Sequence[type[BaseModel]]
"""Pydantic classes that describe types."""


@dataclass(frozen=True, slots=True)
class Ontology:
    """Types of entities and relations.

    In a closed set, `entity_types` are all there are (speakers apart), and so are `relation_types`; of a kind for which
    no own types were given, the set stays open. `own_names` are those of the given types.
    """

    entity_types: tuple[type[EntityDef], ...] = DEFAULT_ENTITY_TYPES
    relation_types: tuple[type[RelationDef], ...] = ()
    closed_entities: bool = False
    closed_relations: bool = False
    own_names: tuple[str, ...] = ()

    def entity_type(self, name: str) -> type[EntityDef] | None:
        """Return the entity type of this name, or None."""
        return next((each for each in self.entity_types if each.name == name), None)

    def relation_type(self, name: str) -> type[RelationDef] | None:
        """Return the relation type of this name, or None."""
        return next((each for each in self.relation_types if each.name == name), None)

    def fits(self, kind: type[RelationDef], lhs: Collection[str], rhs: Collection[str]) -> bool:
        """Tell whether things of these types may stand at the ends of a relation; one fitting type is enough."""
        return any(kind.fits(left, right) for left in self._lineage(lhs) for right in self._lineage(rhs))

    def _lineage(self, names: Iterable[str]) -> list[str]:
        """Return types with what they are kinds of; that everything is a thing does not count."""
        found = dict.fromkeys(names)
        for kind in filter(None, map(self.entity_type, list(found))):
            above = (each for each in kind.__mro__ if issubclass(each, EntityDef) and each is not EntityDef)
            found.update(dict.fromkeys(each.name for each in above))
        return list(found)


@dataclass(frozen=True, slots=True)
class OwnTypes:
    """What a caller gives: classes for entities and for relations, and whether there shall be no others."""

    entity_types: Models = ()
    relation_types: Models = ()
    is_closed: bool = False

    def but(self, entity_types: Models | None, relation_types: Models | None, *, is_closed: bool | None) -> OwnTypes:
        """Return this with everything replaced that is not None."""
        return OwnTypes(
            self.entity_types if entity_types is None else entity_types,
            self.relation_types if relation_types is None else relation_types,
            self.is_closed if is_closed is None else is_closed,
        )


def make_ontology(given: OwnTypes, storage: GraphStoreStorageConfig) -> Ontology:
    """Return the ontology of the given types; one with the name of a default type takes its place.

    Raises:
        SetupError: a class is no type, a name is taken twice or too long, or an end names a type that is not there.
    """
    own = tuple(map(as_entity_def, _listed(given.entity_types)))
    relations = tuple(map(as_relation_def, _listed(given.relation_types)))
    is_closed = given.is_closed
    _check_names(own, limit=storage.obj_type, field="obj_type")
    _check_names(relations, limit=storage.name, field="name")
    taken = {each.name for each in own}
    defaults = [each for each in DEFAULT_ENTITY_TYPES if each.name not in taken]
    _check_ends(relations, taken | {each.name for each in DEFAULT_ENTITY_TYPES})
    closed_entities = is_closed and bool(own)
    return Ontology(
        entity_types=own if closed_entities else (*defaults, *own),
        relation_types=relations,
        closed_entities=closed_entities,
        closed_relations=is_closed and bool(relations),
        own_names=tuple(each.name for each in (*own, *relations)),
    )


def named_type(name: str, types: Iterable[type[T]]) -> type[T] | None:
    """Return the type that an answer names; case does not count, nor whether words are tied by spaces, `-` or `_`."""
    key = fold_key(name)
    return next((each for each in types if fold_key(each.name) == key), None)


def _listed(models: Models) -> Models:
    if isinstance(models, str) or not isinstance(models, Sequence):
        raise SetupError(f"Types are given as {models!r}; give a list of classes.")
    return models


def _check_names(types: Sequence[type[TypeDef]], *, limit: int, field: str) -> None:
    seen: dict[str, str] = {}
    for each in types:
        key = fold_key(each.name)
        if not key:
            raise SetupError(f"The type {each.__name__} has no name; set `name`, or leave it out.")
        if key in seen:
            raise SetupError(f"There are two types called {each.name!r}; rename or leave out one of them.")
        if len(each.name.encode()) > limit:
            raise SetupError(
                f"The name of the type {each.name} is longer than the {limit} bytes of "
                f"GraphStoreStorageConfig.{field}; shorten it, or raise the limit before the store is made."
            )
        seen[key] = each.name


def _check_ends(relations: Iterable[type[RelationDef]], known: Collection[str]) -> None:
    for each in relations:
        for name in (name for end in each.ends() for name in end):
            if name not in known:
                raise SetupError(
                    f"The relation type {each.name!r} wants {name!r} at an end, but there is no such entity type; "
                    f"pass it in entity_types too, or correct the name. Known are {', '.join(sorted(known))}."
                )
