"""Counts what a user's graph is made of. Reads the store a page at a time; keeps ids and numbers, never texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Final, TypeVar

from pydantic import JsonValue

from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation, now
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.foundation.timepoint import utc_moment
from jiuwen_memory.memory_core.graph.extraction.usage import Usage
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate

Object = TypeVar("Object", bound=BaseGraphObject)

USAGE: Final = "usage"
"""Where an episode's `extra` says what reading it cost."""
PAGE: Final = 500
_SHOWN: Final = 8
_ENTITY_COLUMNS: Final = ("obj_type",)
_RELATION_COLUMNS: Final = (
    *("kind", "ends", "lhs", "rhs", "sources", "superseded_by"),
    *("valid_since", "valid_until", "obj_type"),
)
_EPISODE_COLUMNS: Final = ("obj_type", "source", "session_id", "entities", "parents", "valid_since", "extra")


@dataclass(frozen=True)
class Tokens:
    """What the model was asked for the episodes that are stored, repeats included; `episodes` is how many tell it."""

    episodes: int = 0
    calls: int = 0
    input: int = 0
    output: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.episodes + other.episodes,
            self.calls + other.calls,
            self.input + other.input,
            self.output + other.output,
        )


@dataclass(frozen=True)
class GraphStatistics:
    """What a user's graph is made of.

    Args:
        entities, episodes: how many there are of each type.
        relations: how many there are of each kind; facts about one entity alone count as `fact`.
        current_facts: facts that nothing has ended yet.
        mentions: how often an episode lists an entity.
        gist_links: how often a gist names a text that it was made of.
        degrees: how many entities have how many facts, by the number of facts.
        mean_degree, max_degree: facts per entity.
        synonym_links, synonym_entities: links between close names, and how many entities have one.
        orphans: entities without any fact.
        sources, sessions: episodes per source and session; "" is none given.
        fact_sources: facts per source.
        since, until: the first and last moment that an episode speaks from.
        tokens: what reading the stored episodes cost, as far as it was recorded.
    """

    user_id: str
    entities: Mapping[str, int] = field(default_factory=dict)
    relations: Mapping[str, int] = field(default_factory=dict)
    episodes: Mapping[str, int] = field(default_factory=dict)
    current_facts: int = 0
    mentions: int = 0
    gist_links: int = 0
    degrees: Mapping[int, int] = field(default_factory=dict)
    synonym_links: int = 0
    synonym_entities: int = 0
    orphans: int = 0
    sources: Mapping[str, int] = field(default_factory=dict)
    sessions: Mapping[str, int] = field(default_factory=dict)
    fact_sources: Mapping[str, int] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None
    tokens: Tokens = field(default_factory=Tokens)

    @property
    def nodes(self) -> int:
        """Entities and episodes together."""
        return sum(self.entities.values()) + sum(self.episodes.values())

    @property
    def edges(self) -> int:
        """Relations of every kind, mentions of entities in episodes, and the links of gists to their texts."""
        return sum(self.relations.values()) + self.mentions + self.gist_links

    @property
    def mean_degree(self) -> float:
        """Facts per entity on average; 0 where there is no entity."""
        count = sum(self.degrees.values())
        return sum(degree * many for degree, many in self.degrees.items()) / count if count else 0.0

    @property
    def max_degree(self) -> int:
        """The most facts that one entity has."""
        return max(self.degrees, default=0)

    def as_dict(self) -> dict[str, JsonValue]:
        """Return everything as JSON values; moments are written as in ISO 8601."""
        values = asdict(self)
        values["degrees"] = {str(degree): many for degree, many in self.degrees.items()}
        values["since"] = self.since.isoformat() if self.since else None
        values["until"] = self.until.isoformat() if self.until else None
        derived = {"nodes": self.nodes, "edges": self.edges}
        return {**values, **derived, "mean_degree": self.mean_degree, "max_degree": self.max_degree}

    def __str__(self) -> str:
        span = f"{self.since:%Y-%m-%d} to {self.until:%Y-%m-%d}" if self.since and self.until else "unknown"
        told = self.tokens
        lines = [
            f"Graph of {self.user_id!r}: {self.nodes} nodes, {self.edges} edges",
            f"  entities    {_shown(self.entities)}",
            f"  relations   {_shown(self.relations)}; {self.current_facts} facts hold",
            f"  episodes    {_shown(self.episodes)}; {self.mentions} mentions, {self.gist_links} links of gists",
            f"  degree      mean {self.mean_degree:.1f}, max {self.max_degree}; {self.orphans} entities without a fact",
            f"  synonyms    {self.synonym_links} links between {self.synonym_entities} entities",
            f"  sources     {_shown(self.sources)}",
            f"  sessions    {_shown(self.sessions)}",
            f"  time span   {span}",
            f"  model       {told.calls} calls, {told.input} + {told.output} tokens for {told.episodes} episodes",
        ]
        return "\n".join(lines)


def _shown(counts: Mapping[str, int]) -> str:
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    parts = [f"{name or '(none)'} {count}" for name, count in most[:_SHOWN]]
    rest = f" and {len(most) - _SHOWN} more" if len(most) > _SHOWN else ""
    return f"{sum(counts.values())} ({', '.join(parts)}{rest})" if parts else "0"


async def recall_statistics(user_id: str, store: GraphStore) -> GraphStatistics:
    """Return the statistics of one user's graph; the rows are read a page at a time."""
    types: Counter[str] = Counter()
    degree: dict[str, int] = {}
    async for page in _recall_pages(Entity, user_id, columns=_ENTITY_COLUMNS, store=store):
        types.update(each.obj_type for each in page)
        degree.update((each.uuid, 0) for each in page)
    edges = _Edges(degree)
    async for relations in _recall_pages(Relation, user_id, columns=_RELATION_COLUMNS, store=store):
        for relation in relations:
            edges.count(relation)
    told = _Told()
    async for episodes in _recall_pages(Episode, user_id, columns=_EPISODE_COLUMNS, store=store):
        for episode in episodes:
            told.count(episode)
    return GraphStatistics(
        user_id=user_id,
        entities=_sorted(types),
        relations=_sorted(edges.kinds),
        episodes=_sorted(told.types),
        current_facts=edges.current,
        mentions=told.mentions,
        gist_links=told.gist_links,
        degrees=dict(sorted(Counter(degree.values()).items())),
        synonym_links=edges.kinds["synonym"],
        synonym_entities=len(edges.synonyms),
        orphans=sum(not count for count in degree.values()),
        sources=_sorted(told.sources),
        sessions=_sorted(told.sessions),
        fact_sources=_sorted(edges.sources),
        since=None if told.first is None else utc_moment(told.first),
        until=None if told.last is None else utc_moment(told.last),
        tokens=told.tokens,
    )


async def _recall_pages(
    kind: type[Object], user_id: str, *, columns: tuple[str, ...], store: GraphStore
) -> AsyncIterator[list[Object]]:
    user = filter_user(user_id)
    listed = await store.query(kind.collection, user=user, output_fields=["uuid"])
    ids = [each.uuid for each in listed]
    for start in range(0, len(ids), PAGE):
        found = await store.query(kind.collection, user=user, ids=ids[start : start + PAGE], output_fields=columns)
        yield [each for each in found if isinstance(each, kind)]


class _Edges:
    """Counts relations; `degree` gets the facts of each entity."""

    def __init__(self, degree: dict[str, int]) -> None:
        self._degree = degree
        self._moment = now()
        self.kinds: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()
        self.synonyms: set[str] = set()
        self.current = 0

    def count(self, relation: Relation) -> None:
        self.kinds[relation.kind] += 1
        if relation.kind == "synonym":
            self.synonyms.update((relation.lhs, relation.rhs))
        if relation.kind != "fact":
            return
        self.current += relation.holds_at(self._moment)
        self.sources.update(relation.sources)
        for end in {relation.lhs, relation.rhs} & self._degree.keys():
            self._degree[end] += 1


class _Told:
    """Counts episodes."""

    def __init__(self) -> None:
        self.types: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()
        self.sessions: Counter[str] = Counter()
        self.tokens = Tokens()
        self.mentions = 0
        self.gist_links = 0
        self.first: int | None = None
        self.last: int | None = None

    def count(self, episode: Episode) -> None:
        self.types[episode.obj_type] += 1
        self.sources[episode.source] += 1
        self.sessions[episode.session_id] += 1
        self.mentions += len(episode.entities)
        if episode.is_gist:
            self.gist_links += len(episode.parents)
        else:
            self.tokens += _tokens(episode)
        if episode.valid_since is not None:
            self.first = min(episode.valid_since, self.first if self.first is not None else episode.valid_since)
            self.last = max(episode.valid_since, self.last if self.last is not None else episode.valid_since)


def _tokens(episode: Episode) -> Tokens:
    spent = episode.extra.get(USAGE)
    if not isinstance(spent, dict):
        return Tokens()
    calls, given, answered = (
        value if isinstance(value := spent.get(name), int) else 0 for name in ("calls", "input_tokens", "output_tokens")
    )
    return Tokens(1, calls, given, answered)


def with_usage(planned: GraphMemUpdate, usage: Usage) -> GraphMemUpdate:
    """Return a plan whose new episode keeps what reading it cost; of several messages read at once it is the first."""
    calls = usage.calls + usage.reasked
    spent = {"calls": calls, "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    texts = [each.uuid for each in planned.added_episode if not each.is_gist]
    told = dict.fromkeys(texts, dict.fromkeys(spent, 0)) | dict.fromkeys(texts[:1], spent)
    episodes = [
        each.revise(extra={**each.extra, USAGE: told[each.uuid]}) if each.uuid in told else each
        for each in planned.added_episode
    ]
    return replace(planned, added_episode=episodes)


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
