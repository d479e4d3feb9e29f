"""Gives the objects of a graph new ids, the same ones each time. Pure."""

from __future__ import annotations

import hashlib
from typing import Final

from pydantic import JsonValue

from jiuwen_memory.foundation.store.graph.constants import ENTITY_COLLECTION, EPISODE_COLLECTION, RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity

_ID_FIELDS: Final = {
    ENTITY_COLLECTION: ("uuid", "relations", "episodes"),
    RELATION_COLLECTION: ("uuid", "lhs", "rhs", "lhs_origin", "rhs_origin", "superseded_by", "episodes"),
    EPISODE_COLLECTION: ("uuid", "entities", "parents", "group"),
}
_RECORD_IDS: Final = frozenset(
    {"into", "both", "kept_episodes", *(name for names in _ID_FIELDS.values() for name in names)}
)

_FREE: Final = frozenset({"attributes", "metadata", "extra", "qualifiers"})
"""What texts and callers decide; an "uuid" in there is not ours."""


def with_new_ids(each: BaseGraphObject, user_id: str) -> BaseGraphObject:
    """Return the object with ids that follow from the old ones and the user, wherever it names an object."""
    changes = {name: _renamed(getattr(each, name), user_id) for name in _ID_FIELDS[each.collection]}
    if isinstance(each, Entity):
        changes["merged_from"] = _record(each.merged_from, user_id)
    return each.revise(**changes)


def _record(value: JsonValue, user_id: str) -> JsonValue:
    """Return what an entity notes of those fused into it, with new ids."""
    if isinstance(value, list):
        return [_record(each, user_id) for each in value]
    if isinstance(value, dict):
        return {name: _record_field(name, inner, user_id) for name, inner in value.items()}
    return value


def _record_field(name: str, value: JsonValue, user_id: str) -> JsonValue:
    if name in _FREE:
        return value
    return _renamed(value, user_id) if name in _RECORD_IDS else _record(value, user_id)


def _renamed(value: JsonValue, user_id: str) -> JsonValue:
    if isinstance(value, list):
        return [_renamed(each, user_id) for each in value]
    if isinstance(value, str) and value:
        return hashlib.sha256(f"{user_id}\n{value}".encode()).hexdigest()[:32]
    return value
