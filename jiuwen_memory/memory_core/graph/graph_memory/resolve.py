"""Decides what a text says about the graph: who is who, which fact holds when. Values in, values out.

Nothing here reaches the store or the model; what the model was asked arrives as answers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, tzinfo

from pydantic import JsonValue

from jiuwen_memory.foundation.store.graph.graph_object import Entity, Episode, Relation
from jiuwen_memory.foundation.text import normalise_name
from jiuwen_memory.foundation.timepoint import Timepoint, format_seconds, resolve_period, resolve_time
from jiuwen_memory.memory_core.config.graph import AddMemStrategy
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import AIEntity, EntityDef
from jiuwen_memory.memory_core.graph.extraction.values import (
    Described,
    DuplicateCase,
    Fact,
    Mention,
    Reading,
    SourceText,
)
from jiuwen_memory.memory_core.graph.graph_memory.groups import Groups
from jiuwen_memory.memory_core.graph.graph_memory.recording import Record
from jiuwen_memory.memory_core.graph.graph_memory.requests import HUMAN_ROLES, AddRequest
from jiuwen_memory.memory_core.graph.graph_memory.states import (
    History,
    Identity,
    KnownEntities,
    Names,
)

PRESENT_WORDS = (
    "today", "now", "currently", "just", "at the moment", "this morning", "tonight", "as of",
    "今天", "现在", "目前", "刚", "此刻", "今早", "今晚", "当前",
)  # fmt: skip
MONTHS = frozenset(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"])
NEAR_YEAR = 24
"""Characters of the text around a year in which its month stands."""
FACT_SELF = "EntityFact"
EXACT = frozenset({"second", "minute", "hour"})


def resolve_source(request: AddRequest, history: History) -> SourceText:
    """Return the text as the questions show it: with its speakers and dated earlier episodes, oldest first."""
    earlier = sorted(history.episodes, key=lambda episode: episode.valid_since or 0)
    return SourceText(
        content=request.text,
        kind=request.kind,
        history=tuple(_dated(episode) for episode in earlier),
        speakers=tuple(speaker.name for speaker in request.speakers),
        source=request.source,
    )


def _dated(episode: Episode) -> str:
    if episode.valid_since is None:
        return episode.content
    return f"({format_seconds(episode.valid_since, episode.offset_since, 'day')}) {episode.content}"


def resolve_mentions(found: Sequence[Mention], speakers: Sequence[Mention]) -> tuple[Mention, ...]:
    """Return speakers and found names, each once."""
    mentions: dict[str, Mention] = {}
    for mention in (*speakers, *found):
        name = mention.name.strip()
        key = normalise_name(name)
        known = mentions.get(key)
        if not key:
            continue
        if known is None:
            mentions[key] = Mention(name, mention.type_name)
        elif known.type_name == EntityDef.name:
            mentions[key] = Mention(known.name, mention.type_name)
        elif not is_compatible(known.type_name, mention.type_name) and known not in speakers:
            mentions[f"{key} ({mention.type_name})"] = Mention(name, mention.type_name)
    return tuple(mentions.values())


def resolve_facts(reading: Reading, mentions: Sequence[Mention]) -> list[Fact]:
    """Return the facts of a reading with their ends as positions in the mentions that it was united into."""
    places = [_place_of(mention, mentions) for mention in reading.mentions]
    facts: list[Fact] = []
    for fact in reading.facts:
        source, target = places[fact.source], places[fact.target]
        if source is not None and target is not None:
            facts.append(replace(fact, source=source, target=target))
    return facts


def _place_of(mention: Mention, mentions: Sequence[Mention]) -> int | None:
    """Return where a thing stands among others: of the same name, and if there are several of the same type."""
    same = [at for at, each in enumerate(mentions) if normalise_name(each.name) == normalise_name(mention.name)]
    exact = [at for at in same if mentions[at].type_name == mention.type_name]
    return next(iter((*exact, *same)), None)


def is_compatible(first: str, second: str) -> bool:
    """Tell whether two types may be one thing's: they are equal, or one of them is the general type."""
    return first == second or EntityDef.name in (first, second)


def resolve_names(
    mentions: Sequence[Mention], known: KnownEntities, *, speakers: Sequence[Mention], strategy: AddMemStrategy
) -> Names:
    """Settle each name that code can settle; return the rest as cases for the model.

    A stored entity of the same name and a compatible type is the same without a model if it is a speaker, or shares a
    neighbour or the session with the text. Otherwise it is asked about, and no answer means the same; of several, the
    first of those that share something with the text. Where nothing is to be asked, that holds at once.
    """
    speaking = {normalise_name(speaker.name) for speaker in speakers}
    settled: list[Entity | None] = []
    asked: list[int] = []
    cases: list[DuplicateCase] = []
    pools: list[tuple[Entity, ...]] = []
    for number, mention in enumerate(mentions):
        same_name = known.same_name[number]
        fitting = [entity for entity in same_name if is_compatible(entity.obj_type, mention.type_name)]
        certain = [
            entity
            for entity in fitting
            if normalise_name(mention.name) in speaking
            or entity.uuid in known.in_session
            or _shares_neighbour(entity, number, known=known)
        ]
        fitting.sort(key=lambda entity: entity not in certain)
        if not strategy.judge_entities:
            settled.append(fitting[0] if fitting else None)
            continue
        only_one = certain[:1] if len(fitting) == 1 or normalise_name(mention.name) in speaking else []
        settled.append(only_one[0] if only_one else None)
        pool = [*fitting, *(entity for entity in same_name if entity not in fitting), *known.similar[number]]
        if only_one or not pool:
            continue
        pool = pool[: max(strategy.recall_entity.top_k, len(same_name))]
        asked.append(number)
        pools.append(tuple(pool))
        cases.append(
            DuplicateCase(
                new=Described(mention.name, mention.type_name),
                candidates=tuple(_described(entity) for entity in pool),
                assumed=(0,) if fitting else (),
            )
        )
    return Names(tuple(settled), tuple(asked), tuple(cases), tuple(pools))


def _shares_neighbour(entity: Entity, number: int, *, known: KnownEntities) -> bool:
    """Tell whether a stored relation links the entity with one of another mention's name."""
    relations = set(entity.relations)
    return any(
        not relations.isdisjoint(other.relations)
        for position, entities in enumerate(known.same_name)
        if position != number
        for other in entities
    )


def _described(entity: Entity) -> Described:
    return Described(entity.name, entity.obj_type, entity.content, tuple(entity.aliases), entity.uuid)


def resolve_identity(
    mentions: Sequence[Mention],
    names: Names,
    answers: Sequence[Sequence[int]],
    *,
    known: KnownEntities,
    strategy: AddMemStrategy,
    episode: Episode,
) -> Identity:
    """Return which entity each mention means, stored or new, and which stored entities are one."""
    picked: dict[int, list[Entity]] = {
        number: [entity] for number, entity in enumerate(names.settled) if entity is not None
    }
    for number, pool, answer in zip(names.asked, names.candidates, answers, strict=True):
        if answer:
            picked[number] = [pool[position] for position in answer]
    groups = Groups(entity for entities in picked.values() for entity in entities)
    if strategy.merge_entities:
        for entities in picked.values():
            for other in entities[1:]:
                if is_compatible(entities[0].obj_type, other.obj_type):
                    groups.join(entities[0], other)
    nodes = tuple(
        groups.target(picked[number][0])
        if number in picked
        else _new_entity(mention, episode, vector=known.vectors.get(mention.name))
        for number, mention in enumerate(mentions)
    )
    origins = tuple(
        groups.origin(mention, picked.get(number, [node]), node)
        for number, (mention, node) in enumerate(zip(mentions, nodes, strict=True))
    )
    return Identity(tuple(mentions), nodes, groups.merges(), origins)


def _new_entity(mention: Mention, episode: Episode, *, vector: list[float] | None) -> Entity:
    """Return an entity no text has mentioned yet; `assemble_update` counts the first mention."""
    return Entity(
        user_id=episode.user_id,
        language=episode.language,
        name=mention.name,
        obj_type=mention.type_name,
        name_embedding=vector,
        mention_count=0,
        first_mentioned_at=episode.valid_since,
        created_at=episode.created_at,
    )


def without_silent(identity: Identity, found: Sequence[Mention], facts: Sequence[Fact]) -> Identity:
    """Leave out AIs and speakers without a name that neither the model named nor any fact is about.

    They are no entities of the graph: a `user` of whom nothing is known would stand beside the person who speaks.
    """
    named = {normalise_name(mention.name) for mention in found}
    used = {end for fact in facts for end in (fact.source, fact.target)}
    heard = [
        number
        for number, mention in enumerate(identity.mentions)
        if number in used or normalise_name(mention.name) in named or not _is_role_only(mention)
    ]
    return Identity(
        tuple(identity.mentions[number] for number in heard),
        tuple(identity.nodes[number] for number in heard),
        identity.merges,
        tuple(identity.origins[number] for number in heard),
    )


def _is_role_only(mention: Mention) -> bool:
    return mention.type_name == AIEntity.name or normalise_name(mention.name) in HUMAN_ROLES


def resolve_relations(
    facts: Sequence[Fact],
    identity: Identity,
    *,
    zone: tzinfo | None,
    request: AddRequest,
    record: Record,
) -> tuple[Relation, ...]:
    """Return the new relations: ends by uuid, times computed from the words the model copied, each fact once.

    Each rests on the episode that tells of it, and on the gists of the text.
    """
    relations: dict[tuple[str, str, str, str], Relation] = {}
    episode, gists = record.first, [each.uuid for each in record.gists]
    for fact in facts:
        lhs, rhs = identity.nodes[fact.source].uuid, identity.nodes[fact.target].uuid
        since, until = resolve_times(fact, request, zone)
        qualifiers = resolve_qualifiers(fact, since, until)
        told = record.telling(f"{fact.content} {fact.since_words}", str(fact.attributes.get("said_by", "")))
        relation = Relation(
            user_id=request.user_id,
            obj_type=FACT_SELF if lhs == rhs else "Relation",
            language=episode.language,
            content=fact.content,
            name=fact.name,
            lhs=lhs,
            rhs=rhs,
            lhs_origin=identity.origins[fact.source],
            rhs_origin=identity.origins[fact.target],
            episodes=[told.uuid, *gists],
            sources=[request.source] if request.source else [],
            first_mentioned_at=request.reference.seconds,
            last_mentioned_at=request.reference.seconds,
            qualifiers=qualifiers,
            created_at=episode.created_at,
        ).revise(**_since_fields(since), **_until_fields(until))
        relations.setdefault((lhs, rhs, normalise_name(fact.content), str(qualifiers.get("time"))), relation)
    return tuple(relations.values())


def resolve_qualifiers(fact: Fact, since: Timepoint | None, until: Timepoint | None) -> dict[str, JsonValue]:
    """Return a fact's qualifiers, with words for a time computed: ISO 8601, with an end `2019/2021`.

    Words that no code can read stay as they are, and so does a `time` of the fact's type that is another than its own.
    """
    qualifiers = dict(fact.attributes)
    if fact.since_words and qualifiers.get("time") == fact.since_words and since is not None:
        end = until.short_iso() if until else ""
        begin = since.short_iso()
        qualifiers["time"] = f"{begin}/{end}" if end and end != begin else begin
    return qualifiers


def resolve_times(fact: Fact, request: AddRequest, zone: tzinfo | None) -> tuple[Timepoint | None, Timepoint | None]:
    """Return since when and until when a fact holds; what cannot be told for certain is None.

    An end given as a day, month or year means its last second.
    """
    offset = zone_offset(zone, request.reference_time, default=request.reference.offset_minutes)
    since, until = _read_period(fact.since_words, request, offset)
    stated_since, stated_until = _read_period(fact.until_words, request, offset)
    stated = _read_end(fact.until_words, request, offset) if stated_since or stated_until else None
    end = stated or until
    if end and end.precision in EXACT:
        end = end.last_second()
    since = _on_clocks_of(zone, since, fact.since_words, request=request)
    end = _on_clocks_of(zone, end, fact.until_words if stated else fact.since_words, request=request)
    if since and end and since.seconds > end.seconds:
        return None, None
    return since, end


def _read_end(words: str, request: AddRequest, offset: int) -> Timepoint | None:
    """Return the end that words mean, None where they only say that there is none yet, as `now` does.

    Half a year and the morning end before the year and the day that they are told by.
    """
    return resolve_period(words, request.reference_time, offset_minutes=offset)[1]


def _on_clocks_of(zone: tzinfo | None, point: Timepoint | None, words: str, *, request: AddRequest) -> Timepoint | None:
    """Return a wall time as the moment at which the zone's clocks showed it: summer time may not have been on then."""
    if zone is None or point is None:
        return point
    there = datetime.fromisoformat(point.iso()).replace(tzinfo=zone).utcoffset()
    local = point.offset_minutes if there is None else int(there.total_seconds() // 60)
    # Before there were zones each place had an odd time of its own.
    if local == point.offset_minutes or local % 15:
        return point
    if point.precision in EXACT and not _is_wall_time(words, request, (point.offset_minutes, local)):
        return point
    return Timepoint(point.seconds + 60 * (point.offset_minutes - local), local, point.precision)


def _is_wall_time(words: str, request: AddRequest, offsets: tuple[int, int]) -> bool:
    """Tell whether words mean another moment in another zone, unlike `3 hours ago` and times with an offset."""
    here, there = (resolve_time(words, request.reference_time, offset_minutes=offset) for offset in offsets)
    return here is not None and there is not None and here.seconds != there.seconds


def _read_period(words: str, request: AddRequest, offset: int) -> tuple[Timepoint | None, Timepoint | None]:
    if not words or _names_another_year(words, request.text):
        return None, None
    since, until = resolve_period(words, request.reference_time, offset_minutes=offset)
    only_ends = until is not None and since is None
    moment = None if only_ends else resolve_time(words, request.reference_time, offset_minutes=offset)
    if moment:
        since, until = moment, None
    if since and _echoes_reference(words, since, request):
        return None, until
    return since, until


def _names_another_year(words: str, text: str) -> bool:
    """Tell whether words name a year that the text does not give them: no copy, but a guess. ISO may be computed.

    "November 2023" is no copy where the text says "last November" here and "May 2023" there.
    """
    if re.match(r"\d{4}(-|$)", words.strip()):
        return False
    names = re.findall(r"[a-z]{3,}", words.casefold())
    return any(not _year_is_near(year, names, text.casefold()) for year in re.findall(r"\d{4}", words))


def _year_is_near(year: str, names: Sequence[str], text: str) -> bool:
    """Tell whether a year stands in the text, with the months among the names beside it."""
    places = [text[max(0, found.start() - NEAR_YEAR) : found.end() + NEAR_YEAR] for found in re.finditer(year, text)]
    months = [name for name in names if name[:3] in MONTHS]
    return any(all(month in place for month in months) for place in places)


def _echoes_reference(words: str, since: Timepoint, request: AddRequest) -> bool:
    """Tell whether a date is only the reference time handed back: the text neither has it nor speaks of the present."""
    is_near = abs(since.seconds - request.reference.seconds) < 24 * 3600
    text = request.text.casefold()
    is_written_date = words.strip()[:4].isdigit()
    return (
        is_near and is_written_date and words.casefold() not in text and not any(word in text for word in PRESENT_WORDS)
    )


def zone_offset(zone: tzinfo | None, moment: datetime, *, default: int) -> int:
    """Return the zone's offset from UTC at a moment, in minutes."""
    try:
        offset = moment.astimezone(zone).utcoffset() if zone else None
    except OverflowError:
        # The first and the last hours of the calendar have no wall time in some zones.
        offset = None
    return default if offset is None else int(offset.total_seconds() // 60)


def _since_fields(since: Timepoint | None) -> dict[str, object]:
    if since is None:
        return {}
    return {
        "valid_since": since.seconds,
        "offset_since": since.offset_minutes,
        "precision_since": since.precision,
    }


def _until_fields(until: Timepoint | None) -> dict[str, object]:
    if until is None:
        return {}
    return {
        "valid_until": until.seconds,
        "offset_until": until.offset_minutes,
        "precision_until": until.precision,
        "stated_until": until.seconds,
        "stated_offset": until.offset_minutes,
        "stated_precision": until.precision,
    }
