"""Turns rows of JiuwenMemory 0.1 and openjiuwen into our objects: same ids, the rest derived. Values in, values out.

What those stores do not say is worked out from what they do: a relation was created at the reference time of the
episode it was learnt from, and that episode lists both ends.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final

from jiuwen_memory.foundation.store.graph.constants import ENTITY_COLLECTION, EPISODE_COLLECTION, RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation, Row
from jiuwen_memory.foundation.text import cut_bytes
from jiuwen_memory.memory_core.graph.graph_memory.resolve import FACT_SELF

STRUCTURE: Final[Mapping[str, tuple[str, ...]]] = {
    ENTITY_COLLECTION: ("uuid", "created_at", "episodes"),
    RELATION_COLLECTION: ("uuid", "created_at", "lhs", "rhs"),
    EPISODE_COLLECTION: ("uuid", "valid_since", "entities"),
}
"""The columns that say how a user's rows hang together."""
_UNKNOWN: Final = -1
_QUARTER: Final = 15
_SHARED: Final = ("uuid", "user_id", "language", "created_at", "metadata")


@dataclass(frozen=True)
class LegacyGraph:
    """How one user's rows hang together: the rows' `STRUCTURE`, by id."""

    entities: Mapping[str, Row]
    relations: Mapping[str, Row]
    episodes: Mapping[str, Row]
    storage: GraphStoreStorageConfig
    altered: dict[str, str] = field(default_factory=dict)

    def ids(self, collection: str) -> list[str]:
        """Return the ids of what is taken over, in a fixed order; a relation without one of its ends is not."""
        if collection == RELATION_COLLECTION:
            return sorted(uuid for uuid, row in self.relations.items() if self._has_ends(row))
        return sorted(self.entities if collection == ENTITY_COLLECTION else self.episodes)

    @cached_property
    def heard_in(self) -> Mapping[str, list[str]]:
        """The episodes of each entity, oldest first, whichever of the two lists the other."""
        pairs = {(entity, uuid) for uuid, row in self.episodes.items() for entity in row["entities"]}
        pairs |= {(uuid, episode) for uuid, row in self.entities.items() for episode in row["episodes"]}
        return _gathered(
            (entity, episode)
            for entity, episode in sorted(pairs, key=lambda pair: self._heard(pair[1]))
            if entity in self.entities and episode in self.episodes
        )

    @cached_property
    def speaks_of(self) -> Mapping[str, list[str]]:
        """The entities of each episode."""
        return _gathered((episode, entity) for entity in sorted(self.heard_in) for episode in self.heard_in[entity])

    @cached_property
    def edges(self) -> Mapping[str, list[str]]:
        """The relations of each entity, oldest first, as the relations' own ends say."""
        oldest_first = sorted(
            self.ids(RELATION_COLLECTION), key=lambda uuid: (self.relations[uuid]["created_at"], uuid)
        )
        return _gathered(
            (end, uuid)
            for uuid in oldest_first
            for end in dict.fromkeys((self.relations[uuid]["lhs"], self.relations[uuid]["rhs"]))
        )

    @cached_property
    def origins(self) -> Mapping[str, str]:
        """The episode that each relation was learnt from: of those that list its ends, the nearest in time."""
        listing = {entity: frozenset(episodes) for entity, episodes in self.heard_in.items()}
        spoken: dict[int, set[str]] = defaultdict(set)
        for uuid, row in self.episodes.items():
            spoken[row["valid_since"]].add(uuid)
        origins = {}
        for uuid in self.ids(RELATION_COLLECTION):
            row = self.relations[uuid]
            first, second = (listing.get(row[end], frozenset()) for end in ("lhs", "rhs"))
            at_its_time = spoken.get(row["created_at"], set())
            known = (at_its_time & first & second) or (first & second) or (first | second)
            if known:
                origins[uuid] = min(known, key=partial(self._distance, row["created_at"]))
        return origins

    def warnings(self) -> tuple[str, ...]:
        """Return what could not be taken over as it was, after all rows went through `to_objects`."""
        taken = self.ids(RELATION_COLLECTION)
        lost = len(self.relations) - len(taken)
        unsupported = len(taken) - len(self.origins)
        told = [f"{lost} relations whose ends do not exist were left out."] if lost else []
        if unsupported:
            told.append(f"{unsupported} relations rest on no episode; check(repair=True) removes such.")
        return (*told, *self.altered.values())

    def _has_ends(self, row: Row) -> bool:
        return row["lhs"] in self.entities and row["rhs"] in self.entities

    def _distance(self, moment: int, episode: str) -> tuple[int, str]:
        return (abs(self.episodes[episode]["valid_since"] - moment), episode)

    def _heard(self, episode: str) -> tuple[int, str]:
        return (self.episodes[episode]["valid_since"] if episode in self.episodes else 0, episode)


def resolve_graph(rows: Mapping[str, Sequence[Row]], storage: GraphStoreStorageConfig) -> LegacyGraph:
    """Return how a user's rows (their `STRUCTURE`, by collection) hang together."""
    by_id = {collection: {row["uuid"]: row for row in found} for collection, found in rows.items()}
    return LegacyGraph(by_id[ENTITY_COLLECTION], by_id[RELATION_COLLECTION], by_id[EPISODE_COLLECTION], storage)


def to_objects(collection: str, rows: Iterable[Row], graph: LegacyGraph) -> list[BaseGraphObject]:
    """Return whole rows as our objects; what had to be altered is noted in `graph.altered`."""
    return [_object(collection, row, graph) for row in rows]


def _object(collection: str, row: Row, graph: LegacyGraph) -> BaseGraphObject:
    shared = {name: row[name] for name in _SHARED}
    shared["content"] = _fitting(row, "content", graph.storage.content, graph)
    shared["obj_type"] = _fitting(row, "obj_type", graph.storage.obj_type, graph)
    if collection == EPISODE_COLLECTION:
        return _episode(row, shared, graph)
    shared["name"] = _fitting(row, "name", graph.storage.name, graph)
    return _entity(row, shared, graph) if collection == ENTITY_COLLECTION else _relation(row, shared, graph)


def _episode(row: Row, shared: Row, graph: LegacyGraph) -> Episode:
    told = f"{shared['obj_type']}\n{shared['content']}"
    return Episode.model_validate(
        {
            **shared,
            "valid_since": _known(row["valid_since"]),
            "entities": graph.speaks_of.get(row["uuid"], [])[-graph.storage.entities :],
            "content_hash": hashlib.sha256(told.encode()).hexdigest(),
            "group": row["uuid"],
        }
    )


def _entity(row: Row, shared: Row, graph: LegacyGraph) -> Entity:
    heard = graph.heard_in.get(row["uuid"], [])
    times = [graph.episodes[uuid]["valid_since"] for uuid in heard]
    return Entity.model_validate(
        {
            **shared,
            "attributes": row["attributes"],
            "relations": graph.edges.get(row["uuid"], [])[-graph.storage.relations :],
            "episodes": heard[-graph.storage.episodes :],
            "mention_count": max(1, len(heard)),
            "first_mentioned_at": min(times, default=None),
            "last_mentioned_at": max(times, default=None),
        }
    )


def _relation(row: Row, shared: Row, graph: LegacyGraph) -> Relation:
    origin = graph.origins.get(row["uuid"])
    is_about_one = row["lhs"] == row["rhs"]
    return Relation.model_validate(
        {
            **shared,
            "obj_type": FACT_SELF if is_about_one else "Relation",
            **{name: row[name] for name in ("lhs", "rhs")},
            **{f"{name}_origin": row[name] for name in ("lhs", "rhs")},
            **_period(row, graph),
            "episodes": [origin] if origin else [],
            "first_mentioned_at": row["created_at"],
            "last_mentioned_at": row["created_at"],
        }
    )


def _period(row: Row, graph: LegacyGraph) -> dict[str, Any]:
    """Return when a fact holds.

    Those packages put the reference time where a beginning is unknown, so an equal one without an offset tells nothing.
    """
    since, until = _known(row["valid_since"]), _known(row["valid_until"])
    if since == row["created_at"] and not row["offset_since"]:
        since = None
    if since is not None and until is not None and until < since:
        graph.altered[f"period {row['uuid']}"] = f"The period of relation {row['uuid']} ended before it began; it goes."
        since = until = None
    period: dict[str, Any] = {}
    if since is not None:
        offset = row["offset_since"] * _QUARTER
        period |= {"valid_since": since, "offset_since": offset, "precision_since": "second"}
    if until is not None:
        offset = row["offset_until"] * _QUARTER
        period |= {"valid_until": until, "offset_until": offset, "precision_until": "second"}
        period |= {"stated_until": until, "stated_offset": offset, "stated_precision": "second"}
    return period


def _known(seconds: int) -> int | None:
    return None if seconds == _UNKNOWN else seconds


def _fitting(row: Row, name: str, limit: int, graph: LegacyGraph) -> str:
    text: str = row[name] or ""
    cut = cut_bytes(text, limit)
    if cut != text:
        graph.altered[f"{name} {row['uuid']}"] = f"The {name} of {row['uuid']} was cut to {limit} bytes."
    return cut


def _gathered(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    gathered: dict[str, list[str]] = defaultdict(list)
    for key, value in pairs:
        gathered[key].append(value)
    return gathered
