"""What is still known of entities after some evidence is gone: names, attributes, summaries. Values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from jiuwen_memory.foundation.store.graph.graph_object import Entity, Episode, Relation
from jiuwen_memory.foundation.text import cut_bytes, estimate_tokens
from jiuwen_memory.memory_core.config.graph import AddMemStrategy, EpisodeType
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import EntityDef
from jiuwen_memory.memory_core.graph.extraction.values import SourceText, Summary, SummaryCase
from jiuwen_memory.memory_core.graph.graph_memory.deletions import Scene, cleaned, refilled, with_known_sources
from jiuwen_memory.memory_core.graph.graph_memory.fusing import LABELS_KEPT, newest
from jiuwen_memory.memory_core.graph.graph_memory.merge_records import fits_document, record_texts
from jiuwen_memory.memory_core.graph.graph_memory.postprocess_graph_objects import joined_facts, summary_target
from jiuwen_memory.memory_core.graph.graph_memory.states import Draft
from jiuwen_memory.memory_core.graph.graph_memory.traces import (
    Evidence,
    Traces,
    entry_texts,
    episode_texts,
    kept_entries,
    leaves,
)

FACTS_PER_SUMMARY = 12
SHORT_ID = 6


@dataclass(frozen=True)
class Retold:
    """An entity whose summary is to be written anew, and the facts and episodes it now rests on."""

    entity: Entity
    facts: tuple[Relation, ...]
    episodes: tuple[Episode, ...]


@dataclass(frozen=True)
class Rewritten:
    """Ids of the entities with a new summary: written by the model, or put together from facts."""

    by_model: tuple[str, ...] = ()
    from_facts: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Ties:
    """The facts that stay, by the entities they are about; those that hold come first."""

    by_end: Mapping[str, Sequence[Relation]]

    def facts(self, entity: Entity) -> Sequence[Relation]:
        """Return the facts about an entity."""
        return self.by_end.get(entity.uuid, ())

    def evidence(self, entity: Entity, scene: Scene) -> list[Episode]:
        """Return the episodes that stay and mention the entity or state a fact about it, oldest first; no gists."""
        mentioned = scene.graph.mentions[entity.uuid]
        told = {uuid for fact in self.facts(entity) for uuid in fact.episodes}
        return sorted(
            scene.remaining((mentioned | told) - scene.graph.gists),
            key=lambda each: (each.created_at, each.part, each.uuid),
        )


def put_entities(draft: Draft, scene: Scene) -> list[Retold]:
    """Reduce the entities that stay to what their remaining evidence says; return those that need a new summary."""
    ties = _Ties(_facts_by_end(draft))
    lost_facts = [scene.graph.relations[uuid] for uuid in sorted(scene.gone.relations)]
    bereft = {end for fact in lost_facts if fact.kind == "fact" for end in (fact.lhs, fact.rhs)}
    retold = []
    for entity in draft.all(Entity):
        is_touched = not scene.gone.episodes.isdisjoint(scene.graph.mentions[entity.uuid]) or entity.uuid in bereft
        if not is_touched and not _holds_traces(entity, scene.traces):
            continue
        episodes = ties.evidence(entity, scene)
        reduced = _reduced(entity, scene, ties=ties, episodes=episodes)
        if not scene.gone.episodes:
            reduced = _without_lost_facts(reduced, lost_facts, episodes=episodes, facts=ties.facts(entity))
        draft.put(reduced)
        if entity.content and (is_touched or scene.traces.are_in(entity.content)):
            facts = [fact for fact in ties.facts(entity) if not scene.traces.are_in(fact.content_text)]
            retold.append(Retold(reduced, tuple(facts), tuple(episodes)))
    for entity in draft.all(Entity):
        kept = [uuid for uuid in entity.relations if uuid not in scene.gone.relations]
        if len(kept) < len(entity.relations):
            about = [fact.uuid for fact in sorted(ties.facts(entity), key=lambda each: (each.created_at, each.uuid))]
            draft.put(entity.revise(relations=refilled(kept, about, scene.storage.relations)))
    return [Retold(draft.get(Entity, each.entity.uuid) or each.entity, each.facts, each.episodes) for each in retold]


def _facts_by_end(draft: Draft) -> Mapping[str, Sequence[Relation]]:
    facts: dict[str, list[Relation]] = {}
    for fact in sorted(draft.all(Relation), key=fact_weight):
        for end in {fact.lhs, fact.rhs} if fact.kind == "fact" else ():
            facts.setdefault(end, []).append(fact)
    return facts


def fact_weight(fact: Relation) -> tuple[bool, int, int, str]:
    """Order facts: those that hold first, then the often mentioned, then the new."""
    return bool(fact.superseded_by), -fact.mention_count, -fact.created_at, fact.uuid


def _holds_traces(entity: Entity, traces: Traces) -> bool:
    documents = (entity.attributes, entity.metadata, entity.extra)
    values = [value for each in documents for value in each.values()]
    texts = (text for value in (*values, *record_texts(entity.merged_from)) for text in leaves(value))
    return any(map(traces.are_in, (entity.name, entity.content, *entity.aliases, *entity.sources, *texts)))


def _reduced(entity: Entity, scene: Scene, *, ties: _Ties, episodes: Sequence[Episode]) -> Entity:
    """Return an entity with the names, counts, sources and times of the episodes that stay."""
    if not scene.gone.episodes:
        return entity.revise(attributes=cleaned(entity.attributes, scene.traces))
    evidence = Evidence([*(fact.content for fact in ties.facts(entity)), *episode_texts(episodes)])
    lost = scene.lost(scene.graph.mentions[entity.uuid])
    name, aliases = _resolve_names(entity, evidence, scene)
    said_at = [each.valid_since for each in episodes if each.valid_since is not None]
    reduced = entity.revise(
        name=name,
        aliases=aliases,
        attributes=cleaned(entity.attributes, scene.traces),
        metadata=cleaned(entity.metadata, scene.traces),
        extra=cleaned(entity.extra, scene.traces),
        merged_from=_records(entity.merged_from, evidence, scene, is_touched=bool(lost)),
    )
    if not lost:
        return with_known_sources(reduced, scene)
    listed = [each.uuid for each in scene.remaining(entity.episodes)]
    mentioned = scene.graph.mentions[entity.uuid]
    return reduced.revise(
        episodes=refilled(listed, (each.uuid for each in episodes if each.uuid in mentioned), scene.storage.episodes),
        attributes=kept_entries(reduced.attributes, evidence.tells),
        sources=newest([each.source for each in episodes], LABELS_KEPT),
        mention_count=max(entity.mention_count - len(lost) - _counted_twice(entity, lost), len(episodes), 1),
        first_mentioned_at=min(said_at, default=None),
        last_mentioned_at=max(said_at, default=None),
    )


def _counted_twice(entity: Entity, lost: Iterable[Episode]) -> int:
    """Return how many mentions go besides one an episode: entities that were fused had been counted each."""
    ids = {each.uuid for each in lost}
    records = (record.get("both") for record in entity.merged_from if isinstance(record, dict))
    return sum(len(ids.intersection(map(str, both))) for both in records if isinstance(both, list))


def _resolve_names(entity: Entity, evidence: Evidence, scene: Scene) -> tuple[str, list[str]]:
    """Return the name and the aliases that the remaining evidence tells of.

    Without any, the name stays if it gives nothing away; otherwise what gives nothing away of it, or the bare type.
    """
    traces = scene.traces
    aliases = [each for each in entity.aliases if evidence.tells(each) and not traces.are_in(each)]
    if evidence.tells(entity.name) and not traces.are_in(entity.name):
        return entity.name, aliases
    if aliases:
        return aliases[0], aliases[1:]
    if not traces.are_in(entity.name):
        return entity.name, []
    rest = traces.without(entity.name)
    nameless = f"{entity.obj_type} {entity.uuid[:SHORT_ID]}"
    return (rest if rest and evidence.tells(rest) else nameless), []


def _records(records: Iterable[JsonValue], evidence: Evidence, scene: Scene, *, is_touched: bool) -> list[JsonValue]:
    """Return the records of absorbed entities that remaining evidence tells of, without what is gone.

    What such an entity was described as may rest on the deleted episodes; nobody knows any more, so it is dropped.
    """
    kept: list[JsonValue] = []
    for record in records:
        name = str(record.get("name", "")) if isinstance(record, dict) else ""
        if isinstance(record, dict) and not scene.traces.are_in(name) and evidence.tells(name):
            kept.append(_reduced_record(record, evidence, scene, is_touched=is_touched))
    return kept


def _reduced_record(
    record: Mapping[str, Any], evidence: Evidence, scene: Scene, *, is_touched: bool
) -> dict[str, JsonValue]:
    reduced = dict(record)
    for name in ("content", "kept_content"):
        if name in record and (is_touched or scene.traces.are_in(record[name])):
            reduced[name] = ""
    for name in ("aliases", "gave_aliases"):
        if name in record:
            reduced[name] = [each for each in record[name] if evidence.tells(each) and not scene.traces.are_in(each)]
    for name in ("attributes", "metadata", "extra"):
        if name in record:
            entries = kept_entries(record[name], evidence.tells) if is_touched else record[name]
            reduced[name] = cleaned(entries, scene.traces)
    for name in ("episodes", "both", "kept_episodes"):
        if name in record:
            reduced[name] = [uuid for uuid in record[name] if uuid not in scene.gone.all]
    if "sources" in record:
        reduced["sources"] = [each for each in record["sources"] if each in scene.sources]
    if "mention_count" in record:
        lost = len(record.get("episodes", ())) - len(reduced.get("episodes", ()))
        reduced["mention_count"] = max(record["mention_count"] - lost, 1)
    if "facts" in record:
        facts = (_reduced_fact(each, scene) for each in record["facts"])
        reduced["facts"] = [each for each in facts if each is not None]
    return reduced


def _reduced_fact(record: Mapping[str, Any], scene: Scene) -> dict[str, JsonValue] | None:
    """Return a recorded fact without what is gone, or None if that was all, or it would give something away."""
    fact = record["fact"]
    episodes = [uuid for uuid in fact.get("episodes", ()) if uuid not in scene.gone.all]
    texts = (fact.get("name", ""), fact.get("content", ""), *entry_texts(fact.get("qualifiers", {})))
    if not episodes or any(map(scene.traces.are_in, texts)):
        return None
    count = max(fact.get("mention_count", 1) - len(fact["episodes"]) + len(episodes), len(episodes))
    sources = [each for each in fact.get("sources", ()) if each in scene.sources]
    both = [uuid for uuid in record.get("both", ()) if uuid not in scene.gone.all]
    return {**record, "both": both, "fact": {**fact, "episodes": episodes, "sources": sources, "mention_count": count}}


def _without_lost_facts(
    entity: Entity, lost: Sequence[Relation], *, episodes: Sequence[Episode], facts: Sequence[Relation]
) -> Entity:
    """Drop the attributes that a deleted fact tells of and nothing else does."""
    mine = [fact for fact in lost if entity.uuid in (fact.lhs, fact.rhs)]
    behind = {uuid for fact in mine for uuid in fact.episodes}
    told = Evidence([fact.content for fact in mine])
    others = Evidence(
        [*(fact.content for fact in facts), *episode_texts(each for each in episodes if each.uuid not in behind)]
    )
    kept = kept_entries(entity.attributes, lambda text: others.tells(text) or not told.tells(text))
    return entity.revise(attributes=kept)


def resolve_source(retold: Sequence[Retold], *, with_texts: bool, max_tokens: int) -> SourceText:
    """Return what new summaries are written from: the newest remaining episodes within the limit, or else the facts."""
    episodes = {each.uuid: each for one in retold for each in one.episodes} if with_texts else {}
    chosen: list[Episode] = []
    for episode in sorted(episodes.values(), key=lambda each: (-each.created_at, -each.part, each.uuid)):
        max_tokens -= estimate_tokens(episode.content)
        if max_tokens < 0:
            break
        chosen.append(episode)
    texts = [each.content for each in reversed(chosen)]
    facts = dict.fromkeys(fact.content_text for one in retold for fact in one.facts[:FACTS_PER_SUMMARY])
    return SourceText(content="\n\n".join(texts) or "\n".join(facts), kind=EpisodeType.DOCUMENT)


def resolve_case(one: Retold, *, strategy: AddMemStrategy, kind: type[EntityDef] | None) -> SummaryCase:
    """Return the question about one entity; the old description is not shown, for it tells of what is gone."""
    return SummaryCase(
        name=one.entity.name,
        type_name=one.entity.obj_type,
        summary="",
        attributes=one.entity.attributes,
        facts=tuple(fact.content_text for fact in one.facts[:FACTS_PER_SUMMARY]),
        absorbed=(),
        target_length=summary_target(one.entity, strategy),
        kind=kind,
    )


def put_summaries(
    draft: Draft, retold: Sequence[Retold], answers: Sequence[Summary | None], *, scene: Scene, strategy: AddMemStrategy
) -> Rewritten:
    """Take in the model's summaries; where there is none, or it gives something away, the facts speak."""
    by_model: list[str] = []
    from_facts: list[str] = []
    for one, answer in zip(retold, answers, strict=True):
        content = cut_bytes(answer.content, scene.storage.content // 4) if answer else ""
        attributes = one.entity.attributes
        if answer and content and not scene.traces.are_in(content):
            attributes = {**attributes, **cleaned(answer.attributes, scene.traces)}
            by_model.append(one.entity.uuid)
        else:
            facts = [fact.content_text for fact in one.facts]
            content = joined_facts(facts, limit=summary_target(one.entity, strategy))
            content = cut_bytes(content, scene.storage.content // 4)
            from_facts.append(one.entity.uuid)
        draft.put(one.entity.revise(content=content, attributes=attributes if fits_document(attributes) else {}))
    return Rewritten(tuple(by_model), tuple(from_facts))
