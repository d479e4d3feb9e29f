"""Decides what goes with deleted evidence, and what stays of what rested on more than that. Values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from pydantic import JsonValue

from jiuwen_memory.foundation.store.graph.constants import ARRAY_LIMIT
from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation
from jiuwen_memory.foundation.text import cut_bytes
from jiuwen_memory.foundation.timepoint import format_seconds
from jiuwen_memory.memory_core.graph.graph_memory.fusing import LABELS_KEPT, newest
from jiuwen_memory.memory_core.graph.graph_memory.spine import put_healed
from jiuwen_memory.memory_core.graph.graph_memory.states import Draft
from jiuwen_memory.memory_core.graph.graph_memory.tellings import without_tellings
from jiuwen_memory.memory_core.graph.graph_memory.traces import (
    Evidence,
    Traces,
    entry_texts,
    episode_texts,
    kept_entries,
    telling_sentence,
)

Sourced = TypeVar("Sourced", Entity, Relation)

EARLIER_EPISODES = "earlier_episodes"
"""Mark, in `extra`, of a relation whose oldest episodes were cut from its list: it does not rest on the list alone."""


@dataclass(frozen=True)
class Graph:
    """All rows of one user, by id, without vectors."""

    episodes: Mapping[str, Episode]
    entities: Mapping[str, Entity]
    relations: Mapping[str, Relation]

    @cached_property
    def mentions(self) -> Mapping[str, frozenset[str]]:
        """The stored episodes that mention each entity, by either's list: both are cut at some length."""
        found: dict[str, set[str]] = {
            uuid: {each for each in entity.episodes if each in self.episodes} for uuid, entity in self.entities.items()
        }
        for episode in self.episodes.values():
            for uuid in episode.entities:
                if uuid in found:
                    found[uuid].add(episode.uuid)
        return {uuid: frozenset(episodes) for uuid, episodes in found.items()}

    @cached_property
    def mentioned(self) -> Mapping[str, Sequence[str]]:
        """The stored entities that each episode mentions."""
        found: dict[str, list[str]] = {}
        for entity, episodes in self.mentions.items():
            for uuid in episodes:
                found.setdefault(uuid, []).append(entity)
        return found

    @cached_property
    def gists(self) -> frozenset[str]:
        """The episodes that were made of others, and are no evidence of their own."""
        return frozenset(uuid for uuid, episode in self.episodes.items() if episode.is_gist)

    def objects(self) -> Iterator[BaseGraphObject]:
        """Return every row."""
        yield from self.episodes.values()
        yield from self.entities.values()
        yield from self.relations.values()


@dataclass(frozen=True)
class Gone:
    """Ids that are to go, or that go."""

    episodes: frozenset[str] = frozenset()
    entities: frozenset[str] = frozenset()
    relations: frozenset[str] = frozenset()

    @property
    def all(self) -> frozenset[str]:
        """Every id."""
        return self.episodes | self.entities | self.relations


@dataclass(frozen=True)
class Scene:
    """One deletion: the graph before it, what goes, and the words that must not be left."""

    graph: Graph
    gone: Gone
    traces: Traces
    storage: GraphStoreStorageConfig

    @property
    def words(self) -> Traces:
        """The traces that are mended wherever they are found; phrases only name what other evidence speaks of too."""
        return Traces(self.traces.words)

    @cached_property
    def sources(self) -> frozenset[str]:
        """Where the episodes that stay came from."""
        return frozenset(each.source for each in self.remaining(self.graph.episodes))

    def remaining(self, episodes: Iterable[str]) -> list[Episode]:
        """Return those of the episodes that are stored and stay, in order."""
        stored = self.graph.episodes
        return [stored[uuid] for uuid in episodes if uuid in stored and uuid not in self.gone.episodes]

    def lost(self, episodes: Iterable[str]) -> list[Episode]:
        """Return those of the episodes that go."""
        return [self.graph.episodes[uuid] for uuid in episodes if uuid in self.gone.episodes]


def resolve_gone(graph: Graph, target: Gone, *, limit: int) -> Gone:
    """Return everything that goes with the target: what rests on it alone, and what cannot stand without it.

    A relation goes when none of its episodes is left. One whose list was cut at `limit` episodes stays as long as an
    episode mentions both of its ends. An entity goes when no episode mentions it any more and no fact that stays is
    about it; a link goes with either end.
    """
    episodes = _with_derived(graph, target.episodes & graph.episodes.keys())
    entities = target.entities & graph.entities.keys()
    relations = target.relations & graph.relations.keys()
    relations |= {
        uuid
        for uuid, relation in graph.relations.items()
        if not entities.isdisjoint((relation.lhs, relation.rhs))
        or _rests_on(relation, episodes, graph=graph, limit=limit)
    }
    ends = {
        end
        for uuid, relation in graph.relations.items()
        if uuid not in relations and relation.kind == "fact"
        for end in (relation.lhs, relation.rhs)
    }
    touched = {end for uuid in relations for end in (graph.relations[uuid].lhs, graph.relations[uuid].rhs)}
    entities |= {
        uuid
        for uuid, mentioned in graph.mentions.items()
        if uuid not in ends and mentioned <= episodes and (mentioned or (episodes and uuid in touched))
    }
    gone = Gone(frozenset(episodes), frozenset(entities), frozenset(relations))
    return Gone(gone.episodes, gone.entities, _with_links(graph, gone))


def _with_derived(graph: Graph, episodes: frozenset[str]) -> frozenset[str]:
    """Add the episodes that were made from others."""
    while derived := {
        uuid
        for uuid, episode in graph.episodes.items()
        if uuid not in episodes and not episodes.isdisjoint(episode.parents)
    }:
        episodes |= derived
    return episodes


def _rests_on(relation: Relation, episodes: frozenset[str], *, graph: Graph, limit: int) -> bool:
    """Tell whether these episodes are all that a relation rests on."""
    if episodes.isdisjoint(relation.episodes):
        return False
    if any(uuid in graph.episodes and uuid not in episodes | graph.gists for uuid in relation.episodes):
        return False
    return not (is_cut(relation, limit, graph=graph) and set(_mention_both(relation, graph)) - episodes)


def _mention_both(relation: Relation, graph: Graph) -> list[str]:
    """Return the episodes that mention both ends of a relation, oldest first."""
    both = graph.mentions.get(relation.lhs, frozenset()) & graph.mentions.get(relation.rhs, frozenset())
    return sorted(both, key=lambda uuid: (graph.episodes[uuid].created_at, uuid))


def is_cut(relation: Relation, limit: int, *, graph: Graph) -> bool:
    """Tell whether a relation rests on more episodes than it lists; gists are listed and not counted."""
    counted = sum(uuid not in graph.gists for uuid in relation.episodes)
    was_cut = len(relation.episodes) >= limit and relation.mention_count > counted
    return was_cut or EARLIER_EPISODES in relation.extra


def _with_links(graph: Graph, gone: Gone) -> frozenset[str]:
    """Add the links (and links to links) of which an end goes."""
    relations = set(gone.relations)
    while dangling := {
        uuid
        for uuid, relation in graph.relations.items()
        if uuid not in relations and any(end in relations or end in gone.all for end in (relation.lhs, relation.rhs))
    }:
        relations |= dangling
    return frozenset(relations)


def put_episodes(draft: Draft, scene: Scene) -> None:
    """Drop what goes, and the ids of what goes from the episodes that stay; the spine closes where one is gone."""
    for uuid in scene.gone.all:
        draft.remove(uuid)
    put_healed(draft, scene.graph.relations.values(), scene.gone.episodes)
    for episode in draft.all(Episode):
        kept = [uuid for uuid in episode.entities if uuid not in scene.gone.entities]
        if len(kept) < len(episode.entities):
            mentioned = scene.graph.mentioned.get(episode.uuid, ())
            others = [uuid for uuid in mentioned if uuid not in scene.gone.entities]
            draft.put(episode.revise(entities=refilled(kept, others, scene.storage.entities)))


def refilled(listed: Sequence[str], known: Iterable[str], limit: int) -> list[str]:
    """Return a list of ids with what was cut from it before, oldest first, as far as there is room again."""
    present = set(listed)
    return newest([*(uuid for uuid in known if uuid not in present), *listed], limit)


def put_relations(draft: Draft, scene: Scene) -> tuple[str, ...]:
    """Reduce the relations that stay to what their remaining episodes say; return the ids of facts that hold again."""
    for relation in draft.all(Relation):
        draft.put(_reduced(relation, scene))
    reopened = [each.uuid for each in draft.all(Relation) if _put_end(draft, each, scene)]
    facts = {(each.lhs, each.rhs, each.content) for each in draft.all(Relation) if each.kind == "fact"}
    for relation in draft.all(Relation):
        if relation.kind == "fact" and _holds_traces(relation, scene):
            draft.put(_reworded(relation, scene, taken=facts))
    for relation in draft.all(Relation):
        if relation.kind != "fact":
            draft.put(_relinked(relation, draft, scene))
    return tuple(reopened)


def _reduced(relation: Relation, scene: Scene) -> Relation:
    """Return a relation with the counts, sources and times of the episodes that stay."""
    lost = scene.lost(relation.episodes)
    if not lost:
        return with_known_sources(relation, scene)
    kept = scene.remaining(relation.episodes)
    if all(each.is_gist for each in lost):
        # They told nothing of their own: what the fact says rests on the texts that stay.
        return with_known_sources(relation, scene).revise(episodes=[each.uuid for each in kept])
    cut = is_cut(relation, scene.storage.episodes, graph=scene.graph)
    if cut and not kept:
        kept = scene.remaining(_mention_both(relation, scene.graph))[-scene.storage.episodes :]
    said_at = [each.valid_since for each in kept if each.valid_since is not None]
    evidence = Evidence(episode_texts(kept))
    silenced, heard = (sum(not each.is_gist for each in group) for group in (lost, kept))
    sources = newest([each.source for each in kept], LABELS_KEPT)
    changes: dict[str, object] = {
        "episodes": [each.uuid for each in kept],
        "sources": with_known_sources(relation, scene).sources if cut else sources,
        "mention_count": max(relation.mention_count - silenced, heard, 1),
        "first_mentioned_at": relation.first_mentioned_at if cut else min(said_at, default=None),
        "last_mentioned_at": max(said_at, default=relation.first_mentioned_at if cut else None),
        "extra": {**relation.extra, EARLIER_EPISODES: None} if cut else relation.extra,
    }
    if not cut:
        changes |= _untold_times(relation, evidence, Evidence(episode_texts(lost)))
        changes |= without_tellings(relation, [each.uuid for each in lost])
    reduced = relation.revise(**changes)
    return reduced if cut else reduced.revise(qualifiers=_told_qualifiers(relation, reduced, evidence))


def _told_qualifiers(before: Relation, reduced: Relation, evidence: Evidence) -> dict[str, JsonValue]:
    """Return what the remaining evidence tells of a fact; a computed time, in nobody's words, goes with `since`."""
    since = before.since
    times = [(each.since, each.stated_until) for each in (before, reduced)]
    time = str(before.qualifiers.get("time", "")).partition("/")[0]
    computed = {"time"} if since and time == since.short_iso() and times[0] == times[1] else set()
    told = kept_entries(before.qualifiers, evidence.tells)
    return {key: value for key, value in before.qualifiers.items() if key in told or key in computed}


def with_known_sources(each: Sourced, scene: Scene) -> Sourced:
    """Return an object without sources that no remaining episode came from: what it rests on may be cut from lists."""
    if not scene.gone.episodes or scene.sources.issuperset(each.sources):
        return each
    return each.revise(sources=[source for source in each.sources if source in scene.sources])


def _untold_times(relation: Relation, kept: Evidence, lost: Evidence) -> dict[str, object]:
    """Return the times to be forgotten: those in a year that only the deleted episodes name."""
    changes: dict[str, object] = {}
    if _is_untold(relation.valid_since, relation.offset_since, kept=kept, lost=lost):
        changes |= {"valid_since": None, "offset_since": 0, "precision_since": None}
    if _is_untold(relation.stated_until, relation.stated_offset, kept=kept, lost=lost):
        changes |= {"stated_until": None, "stated_offset": 0, "stated_precision": None}
        if relation.valid_until == relation.stated_until:
            changes |= {"valid_until": None, "offset_until": 0, "precision_until": None}
    return changes


def _is_untold(seconds: int | None, offset: int, *, kept: Evidence, lost: Evidence) -> bool:
    if seconds is None:
        return False
    year = format_seconds(seconds, offset, "year")
    return lost.tells(year) and not kept.tells(year)


def _put_end(draft: Draft, relation: Relation, scene: Scene) -> bool:
    """Work out anew when a fact ended, if what replaced it has changed; tell whether it holds again."""
    before = [scene.graph.relations.get(uuid) for uuid in relation.superseded_by]
    after = [draft.get(Relation, uuid) for uuid in relation.superseded_by]
    pairs = [(old, new) for old, new in zip(before, after, strict=True) if old is not None]
    if all(new is not None and new.valid_since == old.valid_since for old, new in pairs):
        return False
    gone = [old for old, new in pairs if new is None]
    later = {each.uuid: each for each in (*after, *_heirs(relation, gone, draft, scene)) if each}
    ended = relation.revise(
        superseded_by=newest(later, ARRAY_LIMIT),
        valid_until=relation.stated_until,
        offset_until=relation.stated_offset,
        precision_until=relation.stated_precision,
        expired_at=min((max(relation.created_at, each.created_at) for each in later.values()), default=None),
    )
    for each in later.values():
        if each.valid_since is not None and (ended.valid_until is None or each.valid_since < ended.valid_until):
            ended = ended.revise(
                valid_until=each.valid_since, offset_until=each.offset_since, precision_until=each.precision_since
            )
    draft.put(ended)
    return not later


def _heirs(relation: Relation, gone: Iterable[Relation], draft: Draft, scene: Scene) -> Iterator[Relation]:
    """Return what had replaced the deleted facts in their turn and says the same kind of thing of the same subject."""
    waiting, seen = list(gone), {relation.uuid}
    while waiting:
        for uuid in waiting.pop().superseded_by:
            if uuid in seen:
                continue
            seen.add(uuid)
            later = draft.get(Relation, uuid)
            if later is None:
                waiting.extend(filter(None, [scene.graph.relations.get(uuid)]))
            elif (later.lhs, later.name_norm) == (relation.lhs, relation.name_norm) and not _begins_before(
                later, relation
            ):
                yield later


def _begins_before(first: Relation, second: Relation) -> bool:
    if first.valid_since is None or second.valid_since is None:
        return False
    return first.valid_since < second.valid_since


def _holds_traces(relation: Relation, scene: Scene) -> bool:
    traces = scene.words
    documents = (relation.qualifiers, relation.metadata, relation.extra)
    texts = (relation.name, relation.content, *(text for each in documents for text in entry_texts(each)))
    return any(map(traces.are_in, texts))


def _reworded(relation: Relation, scene: Scene, *, taken: set[tuple[str, str, str]]) -> Relation:
    """Return a fact in the words of the episodes that stay."""
    traces = scene.words
    content, name = relation.content, traces.without(relation.name)
    if traces.are_in(content):
        texts = [each.content for each in scene.remaining(relation.episodes)]
        content = cut_bytes(telling_sentence(content, texts), scene.storage.content // 4)
        if (relation.lhs, relation.rhs, content) in taken:
            content = f"{name}: {content}"
        taken.add((relation.lhs, relation.rhs, content))
    return relation.revise(
        content=content,
        name=name or cut_bytes(content, scene.storage.name),
        qualifiers=cleaned(relation.qualifiers, traces),
        metadata=cleaned(relation.metadata, traces),
        extra=cleaned(relation.extra, traces),
    )


def _relinked(link: Relation, draft: Draft, scene: Scene) -> Relation:
    """Return a link that quotes its two ends as they are now."""
    traces = scene.words
    ends = (link.lhs, link.rhs)
    is_current = all(draft.get(Relation, end) == scene.graph.relations.get(end) for end in ends)
    holds_traces = _holds_traces(link, scene)
    if link.ends == "relation" and (holds_traces or not is_current):
        quoted = [cut_bytes(each.content, 2000) for end in ends if (each := draft.get(Relation, end))]
        link = link.revise(content=" → ".join(quoted))
    if not holds_traces:
        return link
    return link.revise(
        content="" if traces.are_in(link.content) else link.content,
        qualifiers=cleaned(link.qualifiers, traces),
        metadata=cleaned(link.metadata, traces),
        extra=cleaned(link.extra, traces),
    )


def cleaned(entries: Mapping[str, JsonValue], traces: Traces) -> dict[str, JsonValue]:
    """Return the entries whose values hold no traces."""
    return kept_entries(entries, lambda text: not traces.are_in(text), numbers=False)
