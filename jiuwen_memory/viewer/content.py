"""What a page of the viewer shows, as JSON: nodes, facts with their times in every language, quotes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from pydantic import JsonValue

from jiuwen_memory.foundation.store.graph.graph_object import Entity, Episode, Precision, Relation
from jiuwen_memory.foundation.timepoint import format_seconds
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.graph_memory.merge_records import read_members

LANGUAGES: Final[tuple[str, ...]] = get_args(Language)


@dataclass(frozen=True)
class Drawn:
    """The part of a graph that a page shows, and how many entities and facts had no room."""

    entities: Sequence[Entity]
    relations: Sequence[Relation]
    episodes: Sequence[Episode]
    entities_left_out: int = 0
    facts_left_out: int = 0


def resolve_drawn(
    entities: Sequence[Entity], relations: Sequence[Relation], episodes: Sequence[Episode], *, max_entities: int
) -> Drawn:
    """Keep the `max_entities` entities with the most facts, what holds between them, and what these rest on.

    Relations between facts stay where both facts do; those between episodes are not drawn.
    """
    edges = [each for each in relations if each.ends == "entity"]
    degree = Counter(end for each in edges for end in {each.lhs, each.rhs})
    ranked = sorted(entities, key=lambda each: (-degree[each.uuid], -each.mention_count, each.uuid))
    kept = ranked[:max_entities]
    ids = {each.uuid for each in kept}
    facts = [each for each in edges if each.lhs in ids and each.rhs in ids]
    fact_ids = {each.uuid for each in facts}
    links = [each for each in relations if each.ends == "relation" and {each.lhs, each.rhs} <= fact_ids]
    cited = {uuid for each in kept for uuid in each.episodes} | {uuid for each in facts for uuid in each.episodes}
    return Drawn(
        kept,
        [*facts, *links],
        [each for each in episodes if each.uuid in cited],
        entities_left_out=len(ranked) - len(kept),
        facts_left_out=len(edges) - len(facts),
    )


def assemble_content(drawn: Drawn, *, user_id: str, written_at: int) -> dict[str, JsonValue]:
    """Return what the page's script reads; `written_at` (UTC seconds) is what counts as the present there."""
    facts = [each for each in drawn.relations if each.ends == "entity"]
    links = [each for each in drawn.relations if each.ends == "relation"]
    return {
        "user": user_id,
        "written": _time(written_at, precision="minute"),
        "left_out": {"entities": drawn.entities_left_out, "facts": drawn.facts_left_out},
        "entities": [_entity(each) for each in drawn.entities],
        "facts": [_fact(each) for each in facts],
        "links": [{"kind": each.kind, "from": each.lhs, "to": each.rhs, "text": each.content} for each in links],
        "episodes": [_episode(each) for each in drawn.episodes],
        "moments": [_time(moment, precision="day") for moment in _moments(facts, written_at)],
    }


def _moments(facts: Iterable[Relation], written_at: int) -> list[int]:
    """Return the seconds from which on something else holds, and the present: the steps of the slider."""
    moments = {written_at}
    for each in facts:
        if each.valid_since is not None:
            moments.add(each.valid_since)
        if each.valid_until is not None:
            moments.add(each.valid_until + 1)
    return sorted(moments)


def _entity(entity: Entity) -> JsonValue:
    return _filled(
        {
            "id": entity.uuid,
            "name": entity.name,
            "type": entity.obj_type,
            "about": entity.content,
            "aliases": list(entity.aliases),
            "attributes": dict(entity.attributes),
            "count": entity.mention_count,
            "first": _time(entity.first_mentioned_at, precision="day"),
            "last": _time(entity.last_mentioned_at, precision="day"),
            "sources": list(entity.sources),
            "episodes": list(entity.episodes),
            "merged": [
                _filled(
                    {
                        "name": member.entity.name,
                        "type": member.entity.obj_type,
                        "about": member.entity.content,
                        "at": _time(member.merged_at or None, precision="day"),
                    }
                )
                for member in read_members(entity)
            ],
        }
    )


def _fact(fact: Relation) -> JsonValue:
    return _filled(
        {
            "id": fact.uuid,
            "kind": fact.kind,
            "name": fact.name,
            "text": fact.content or fact.name,
            "from": fact.lhs,
            "to": fact.rhs,
            "since": _time(fact.valid_since, fact.offset_since, fact.precision_since),
            "until": _time(fact.valid_until, fact.offset_until, fact.precision_until),
            "by": list(fact.superseded_by),
            "qualifiers": dict(fact.qualifiers),
            "count": fact.mention_count,
            "first": _time(fact.first_mentioned_at, precision="day"),
            "last": _time(fact.last_mentioned_at, precision="day"),
            "sources": list(fact.sources),
            "episodes": list(fact.episodes),
        }
    )


def _episode(episode: Episode) -> JsonValue:
    return _filled(
        {
            "id": episode.uuid,
            "text": episode.content,
            "at": _time(episode.valid_since, episode.offset_since, "minute"),
            "source": episode.source,
            "session": episode.session_id,
            "speakers": list(episode.speakers),
        }
    )


def _time(seconds: int | None, offset: int = 0, precision: Precision | None = None) -> JsonValue:
    """Return a time as seconds and in the words of every language, since only Python prints times."""
    if seconds is None:
        return None
    words = {each: format_seconds(seconds, offset, precision or "second", each) for each in LANGUAGES}
    return {"at": seconds, **words}


def _filled(values: Mapping[str, JsonValue]) -> JsonValue:
    """Leave out what is empty: a page with thousands of facts is mostly names of empty fields otherwise."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}
