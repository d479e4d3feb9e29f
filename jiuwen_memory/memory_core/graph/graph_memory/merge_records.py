"""What an entity notes in `merged_from` about the entities fused into it: enough to take them apart again. Pure.

What can be derived is left out: a fact says in `lhs_origin` and `rhs_origin` whose it was. Only facts that a fusion
folded or dropped are written down whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import JsonValue

from jiuwen_memory.foundation.store.graph.columns import JSON_LIMIT
from jiuwen_memory.foundation.store.graph.graph_object import Entity, Relation
from jiuwen_memory.foundation.text import normalise_name

EPISODES_RECORDED: Final = 128
"""Episodes noted of a fused entity, the newest; the facts it had say more."""
_EPISODES_OF_KEPT: Final = 32
"""Episodes noted of the entity that stays, the newest: they tell what came before the fusion in the same second."""
_BARE: Final = ("uuid", "into", "name", "aliases", "obj_type", "mention_count", "created_at", "merged_at")
_NOT_RECORDED: Final = {"user_id", "content_embedding", "embedding_key"}
_MEMBER_FIELDS: Final = (
    *("uuid", "name", "aliases", "obj_type", "language", "attributes", "content", "sources", "mention_count"),
    *("first_mentioned_at", "last_mentioned_at", "created_at", "metadata", "extra"),
)
Record = dict[str, Any]
"""One entry of `merged_from`. Its values are of many types, hence `Any`."""


@dataclass(frozen=True)
class FoldedFact:
    """A fact that went with a fusion, as it was; `into` names the one it became part of, or nothing.

    `both` lists episodes that both facts rested on, `filled` what the other one took over from it.
    """

    fact: Relation
    into: str = ""
    both: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()


@dataclass(frozen=True)
class Member:
    """An entity that was fused into another (`into`), and what that one took over from it.

    `episodes`, `both` (those that mention the two) and `kept_episodes` (of the other) are the newest; `kept_content`
    and `kept_count` tell what the other was before.
    """

    entity: Entity
    into: str = ""
    merged_at: int = 0
    both: frozenset[str] = frozenset()
    gave_aliases: frozenset[str] = frozenset()
    gave_attributes: frozenset[str] = frozenset()
    kept_content: str = ""
    kept_count: int = 0
    kept_episodes: frozenset[str] = frozenset()
    facts: tuple[FoldedFact, ...] = field(default=(), repr=False)

    @property
    def uuid(self) -> str:
        """The id it had."""
        return self.entity.uuid


def fits_document(value: object) -> bool:
    """Tell whether a value fits into one JSON column."""
    return len(json.dumps(value, ensure_ascii=False).encode()) <= JSON_LIMIT


def record_of(entity: Entity, target: Entity, *, at: int) -> Record:
    """Return the record of an entity that becomes part of another; what is empty is left out."""
    known = {normalise_name(name) for name in (target.name, *target.aliases)}
    gave = [name for name in (entity.name, *entity.aliases) if normalise_name(name) not in known]
    record: Record = {name: getattr(entity, name) for name in _MEMBER_FIELDS}
    record |= {
        "into": target.uuid,
        "merged_at": at,
        "episodes": entity.episodes[-EPISODES_RECORDED:],
        "both": [uuid for uuid in entity.episodes if uuid in set(target.episodes)][-EPISODES_RECORDED:],
        "gave_aliases": gave,
        "gave_attributes": [name for name in entity.attributes if name not in target.attributes],
        "kept_content": target.content,
        "kept_count": target.mention_count,
        "kept_episodes": target.episodes[-_EPISODES_OF_KEPT:],
    }
    return {name: value for name, value in record.items() if value not in (None, "", [], {})}


def with_facts(records: Sequence[JsonValue], facts: Mapping[str, Sequence[FoldedFact]]) -> list[JsonValue]:
    """Return the records with what the fusion folded or dropped of each entity's facts."""
    return [
        {**record, "facts": [_fact_record(each) for each in facts[str(record["uuid"])]]}
        if isinstance(record, dict) and record.get("uuid") in facts
        else record
        for record in records
    ]


def _fact_record(folded: FoldedFact) -> JsonValue:
    fact = folded.fact.model_dump(exclude_defaults=True, exclude=_NOT_RECORDED)
    record: Record = {"fact": fact, "into": folded.into, "both": list(folded.both), "filled": list(folded.filled)}
    return {name: value for name, value in record.items() if value not in ("", [])}


def bounded(records: Sequence[JsonValue]) -> list[JsonValue]:
    """Return the records as far as they fit their column: the oldest lose all but their names, and then go."""
    kept = list(records)
    for number, record in enumerate(kept):
        if fits_document(kept):
            return kept
        kept[number] = {name: record[name] for name in _BARE if name in record} if isinstance(record, dict) else record
    while not fits_document(kept):
        kept = kept[1:]
    return kept


def read_members(entity: Entity) -> list[Member]:
    """Return what an entity's records tell, oldest first; what is no record is passed over."""
    return [
        _read_member(record, entity)
        for record in entity.merged_from
        if isinstance(record, dict) and record.get("uuid") and record.get("name")
    ]


def _read_member(record: Record, heir: Entity) -> Member:
    values = {name: record[name] for name in (*_MEMBER_FIELDS, "episodes") if name in record}
    return Member(
        entity=Entity.model_validate({"language": heir.language, **values, "user_id": heir.user_id}),
        into=record.get("into", heir.uuid),
        merged_at=record.get("merged_at", 0),
        both=frozenset(record.get("both", ())),
        gave_aliases=frozenset(record.get("gave_aliases", ())),
        gave_attributes=frozenset(record.get("gave_attributes", ())),
        kept_content=record.get("kept_content", ""),
        kept_count=record.get("kept_count", 0),
        kept_episodes=frozenset(record.get("kept_episodes", ())),
        facts=tuple(_read_fact(each, heir.user_id) for each in record.get("facts", ())),
    )


def _read_fact(record: Record, user_id: str) -> FoldedFact:
    return FoldedFact(
        Relation.model_validate({**record["fact"], "user_id": user_id}),
        record.get("into", ""),
        tuple(record.get("both", ())),
        tuple(record.get("filled", ())),
    )


def record_texts(records: Iterable[JsonValue]) -> Iterator[JsonValue]:
    """Return those values of records that hold what users said, not what we call things."""
    for record in records:
        if not isinstance(record, dict):
            yield record
            continue
        for name in ("name", "aliases", "gave_aliases", "content", "kept_content", "sources"):
            yield record.get(name)
        for name in ("attributes", "metadata", "extra"):
            entries = record.get(name)
            yield list(entries.values()) if isinstance(entries, dict) else None
        yield list(_fact_texts(record.get("facts")))


def _fact_texts(facts: JsonValue) -> Iterator[JsonValue]:
    for each in facts if isinstance(facts, list) else ():
        fact = each.get("fact") if isinstance(each, dict) else None
        if isinstance(fact, dict):
            qualifiers = fact.get("qualifiers")
            yield from (fact.get("name"), fact.get("content"), fact.get("sources"))
            yield list(qualifiers.values()) if isinstance(qualifiers, dict) else None
