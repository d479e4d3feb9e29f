"""What was said, how often, when and where: facts as triples, happenings in time order. Only reads the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from typing import Final, Literal, TypeVar, get_args

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.store.graph.base import GraphStore, SearchQuery
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    GIST,
    OPEN_END,
    RELATION_COLLECTION,
    UNKNOWN_START,
)
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation, now
from jiuwen_memory.foundation.store.graph.result_ranking import RRFRankConfig
from jiuwen_memory.foundation.store.query import QueryExpr, array_contains, chain_filters, eq, gte, in_list, lte, ne
from jiuwen_memory.foundation.text import is_blank, normalise_name, query_tokens
from jiuwen_memory.foundation.timepoint import Timepoint, from_datetime, utc_moment
from jiuwen_memory.memory_core.graph.graph_memory.searching.reading import recall_held
from jiuwen_memory.memory_core.graph.graph_memory.searching.times import AskedTime, parse_moment
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder
from jiuwen_memory.memory_core.graph.graph_memory.triples import Triple, Triples

Object = TypeVar("Object", bound=BaseGraphObject)
TripleOrder = Literal["last_mentioned", "mentions", "first_mentioned", "valid_since"]
EventKind = Literal["episode", "gist", "ends", "begins"]

ALIAS_POOL: Final = 1000
"""Entities in which the words of a name are looked for among the aliases."""
CLOSE_POOL: Final = 100
CLOSE_RATIO: Final = 0.8
"""Two names are close if more than this share of their characters is in common (`difflib`)."""
_FACT_COLUMNS: Final = (
    *("content", "valid_since", "offset_since", "precision_since", "valid_until", "offset_until", "precision_until"),
    *("superseded_by", "mention_count", "first_mentioned_at", "last_mentioned_at", "sources", "episodes", "qualifiers"),
)
_EPISODE_COLUMNS: Final = ("content", "valid_since", "offset_since", "session_id", "source", "part")


@dataclass(frozen=True)
class Event:
    """Something that happened: an episode, its gist if asked for, or a fact that begins or ends.

    `uuid` is that of the episode or of the relation, `text` its text or sentence, `episodes` the ids of the inputs
    that tell of it.
    """

    time: Timepoint
    kind: EventKind
    text: str
    uuid: str
    sources: tuple[str, ...]
    episodes: tuple[str, ...]
    session_id: str = ""


@dataclass(frozen=True)
class Origin:
    """Where something was learnt: from a source, in a session, or both; neither is everywhere."""

    source: str | None = None
    session_id: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("source", self.source), ("session_id", self.session_id)):
            _check_text(name, value)

    def episodes(self) -> QueryExpr | None:
        """Return the condition that an episode is from there."""
        given = {"source": self.source, "session_id": self.session_id}
        conditions = [eq(column, value) for column, value in given.items() if value is not None]
        return chain_filters(*conditions) if conditions else None


@dataclass(frozen=True)
class TripleQuestion:
    """Which facts are asked for; a part that is None may be anything."""

    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None
    source: str | None = None
    order_by: TripleOrder = "last_mentioned"
    limit: int | None = None
    fuzzy: bool = False

    def __post_init__(self) -> None:
        for name in ("subject", "predicate", "object", "source"):
            _check_text(name, getattr(self, name))
        _check_moment("as_of", self.as_of)
        _check_moment("known_at", self.known_at)
        if self.order_by not in get_args(TripleOrder):
            raise InvalidInputError(f"order_by is {self.order_by!r}; give one of {', '.join(get_args(TripleOrder))}.")
        if self.limit is not None and (not isinstance(self.limit, int) or self.limit < 0):
            raise InvalidInputError(f"limit is {self.limit!r}; give a number of facts, or None for all.")

    @property
    def ends(self) -> list[str]:
        """The names that are given for ends."""
        return list(dict.fromkeys(name for name in (self.subject, self.object) if name is not None))

    @property
    def time(self) -> AskedTime:
        """What is asked about time, by the same rules as in a search."""
        return AskedTime(parse_moment(self.as_of, "as_of"), parse_moment(self.known_at, "known_at"))

    def is_answered_by(self, fact: Relation) -> bool:
        """Tell whether a fact between the right ends, of the right time, is one of those asked for."""
        if self.predicate is not None and not _is_named(self.predicate, [fact.name], fuzzy=self.fuzzy):
            return False
        return self.source is None or self.source in fact.sources


@dataclass(frozen=True)
class Span:
    """A stretch of time with both bounds in it; None is no bound."""

    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        _check_moment("since", self.since)
        _check_moment("until", self.until)
        if self.first > self.last:
            raise InvalidInputError(f"since ({self.since}) is after until ({self.until}); swap them.")

    @property
    def first(self) -> int:
        """The first second, above what stands for an unknown start."""
        return from_datetime(self.since).seconds if self.since else UNKNOWN_START + 1

    @property
    def last(self) -> int:
        """The last second, below what stands for an open end."""
        return from_datetime(self.until).seconds if self.until else OPEN_END - 1

    def holds(self, seconds: int | None) -> bool:
        """Tell whether a known moment lies within."""
        return seconds is not None and self.first <= seconds <= self.last

    def of(self, column: str) -> QueryExpr:
        """Return the condition that a column's moment is known and lies within."""
        return gte(column, self.first) & lte(column, self.last)


async def recall_scope(
    origin: Origin, collections: Sequence[str], *, user: QueryExpr, store: GraphStore
) -> dict[str, QueryExpr]:
    """Return for each collection the condition that an object was learnt there; none if it may be from anywhere.

    A session's entities are those its episodes list, its facts those between two of them that name its episodes.
    """
    told = origin.episodes()
    if told is None:
        return {}
    if origin.session_id is None:
        learnt = array_contains("sources", origin.source or "")
        return {name: told if name == EPISODE_COLLECTION else learnt for name in collections}
    scope = {EPISODE_COLLECTION: told}
    if set(collections) != {EPISODE_COLLECTION}:
        episodes = await store.query(EPISODE_COLLECTION, user=user, expr=told, output_fields=["entities"])
        entities = list(dict.fromkeys(uuid for each in _of_type(episodes, Episode) for uuid in each.entities))
        scope[ENTITY_COLLECTION] = in_list("uuid", entities)
        if RELATION_COLLECTION in collections:
            facts = await store.query(
                RELATION_COLLECTION,
                user=user,
                expr=in_list("lhs", entities) & in_list("rhs", entities),
                output_fields=["episodes"],
            )
            within = {each.uuid for each in episodes}
            known = [each.uuid for each in _of_type(facts, Relation) if not within.isdisjoint(each.episodes)]
            scope[RELATION_COLLECTION] = in_list("uuid", known)
    return {name: scope[name] for name in collections}


async def recall_triples(
    question: TripleQuestion, *, user: QueryExpr, store: GraphStore, embedder: Embedder | None
) -> Triples:
    """Return the facts that answer a question; with an embedder, fuzzy names are also sought by their vectors."""
    named = await _recall_named(question, user=user, store=store, embedder=embedder)
    facts = await _recall_facts(question, named, user=user, store=store)
    answers = [each for each in facts if question.is_answered_by(each)]
    answers.sort(key=lambda each: (*_place(each, question.order_by), each.created_at, each.uuid))
    chosen = answers[: question.limit]
    ends = list(dict.fromkeys(end for each in chosen for end in (each.lhs, each.rhs)))
    entities = await store.query(ENTITY_COLLECTION, user=user, ids=ends, output_fields=["name"])
    names = {each.uuid: each.name for each in _of_type(entities, Entity)}
    moment = now()
    return Triples(_triple(each, names, moment) for each in chosen if names.keys() >= {each.lhs, each.rhs})


async def _recall_facts(
    question: TripleQuestion, named: Mapping[str, Sequence[str]], *, user: QueryExpr, store: GraphStore
) -> list[Relation]:
    """Return the facts between the ends named, as they were known, that held at the moment asked about."""
    time = question.time
    columns = list(dict.fromkeys((*_FACT_COLUMNS, *time.fields())))
    rows = await store.query(RELATION_COLLECTION, user=user, expr=_fact_filter(question, named), output_fields=columns)
    return _of_type(await recall_held(rows, time, user=user, store=store), Relation)


async def _recall_named(
    question: TripleQuestion, *, user: QueryExpr, store: GraphStore, embedder: Embedder | None
) -> dict[str, list[str]]:
    """Return the entities that go by each name given: by their own, by an alias, or nearly so if that is enough."""
    given = question.ends
    if not given:
        return {}
    norms = in_list("name_norm", [normalise_name(name) for name in given])
    same, alike = await together(
        store.query(ENTITY_COLLECTION, user=user, expr=norms, output_fields=["name", "aliases"]),
        _recall_like([SearchQuery(name) for name in given], ALIAS_POOL, user=user, store=store),
    )
    found = {each.uuid: each for each in _of_type([*same, *alike], Entity)}
    if embedder is not None:
        vectors = await embedder.embed_documents(given)
        queries = [SearchQuery(name, vector) for name, vector in zip(given, vectors, strict=True)]
        close = await _recall_like(queries, CLOSE_POOL, user=user, store=store)
        found |= {each.uuid: each for each in _of_type(close, Entity)}
    return {
        name: [
            each.uuid for each in found.values() if _is_named(name, [each.name, *each.aliases], fuzzy=question.fuzzy)
        ]
        for name in given
    }


async def _recall_like(
    queries: Sequence[SearchQuery], pool: int, *, user: QueryExpr, store: GraphStore
) -> list[BaseGraphObject]:
    results = await store.search(
        ENTITY_COLLECTION,
        queries,
        user=user,
        rank=RRFRankConfig(content_dense=False),
        limit=pool,
        pool=pool,
        output_fields=["name", "aliases"],
    )
    return [hit.found for hits in results for hit in hits]


def _fact_filter(question: TripleQuestion, named: Mapping[str, Sequence[str]]) -> QueryExpr:
    """Return the condition that narrows the rows to be read; what is dear to ask of a store is left to our code."""
    conditions = [eq("kind", "fact"), eq("ends", "entity")]
    if question.subject is not None:
        conditions.append(in_list("lhs", named[question.subject]))
    if question.object is not None:
        conditions.append(in_list("rhs", named[question.object]))
    if question.predicate is not None and not question.fuzzy:
        conditions.append(eq("name_norm", normalise_name(question.predicate)))
    if question.source is not None and not question.ends:
        conditions.append(array_contains("sources", question.source))
    return chain_filters(*conditions, *question.time.conditions())


def _is_named(given: str, names: Sequence[str], *, fuzzy: bool) -> bool:
    norm = normalise_name(given)
    return any(normalise_name(name) == norm or (fuzzy and is_close_name(given, name)) for name in names)


def is_close_name(first: str, second: str) -> bool:
    """Tell whether two names share half the words of the shorter one, or most of their characters."""
    words, others = set(query_tokens(first).split()), set(query_tokens(second).split())
    shared = len(words & others)
    if shared and 2 * shared >= min(len(words), len(others)):
        return True
    letters = SequenceMatcher(None, normalise_name(first), normalise_name(second))
    return letters.quick_ratio() > CLOSE_RATIO and letters.ratio() > CLOSE_RATIO


def _place(fact: Relation, order_by: TripleOrder) -> tuple[int, ...]:
    """Return what orders facts: the latest or most mentioned first, but the earliest first mentioned or valid."""
    last = OPEN_END if fact.last_mentioned_at is None else -fact.last_mentioned_at
    first = OPEN_END if fact.first_mentioned_at is None else fact.first_mentioned_at
    since = OPEN_END if fact.valid_since is None else fact.valid_since
    return {
        "last_mentioned": (last, -fact.mention_count),
        "mentions": (-fact.mention_count, last),
        "first_mentioned": (first,),
        "valid_since": (since, first),
    }[order_by]


def _triple(fact: Relation, names: Mapping[str, str], moment: int) -> Triple:
    return Triple(
        subject=names[fact.lhs],
        predicate=fact.name,
        object=names[fact.rhs],
        sentence=fact.content_text,
        relation=fact.uuid,
        subject_id=fact.lhs,
        object_id=fact.rhs,
        valid_since=fact.since,
        valid_until=fact.until,
        is_current=fact.holds_at(moment),
        mention_count=fact.mention_count,
        first_mentioned=None if fact.first_mentioned_at is None else utc_moment(fact.first_mentioned_at),
        last_mentioned=None if fact.last_mentioned_at is None else utc_moment(fact.last_mentioned_at),
        sources=tuple(fact.sources),
        episodes=tuple(fact.episodes),
        qualifiers=fact.qualifiers,
    )


async def recall_timeline(
    span: Span, origin: Origin, *, user: QueryExpr, store: GraphStore, gist: bool = False
) -> list[Event]:
    """Return the episodes and the beginnings and ends of facts within a span, earliest first.

    A month, a year ... begins a fact with its first second and ends one with its last. What is not known is left out.
    """
    collections = (EPISODE_COLLECTION, RELATION_COLLECTION)
    scope = await recall_scope(origin, collections, user=user, store=store)
    dated = eq("kind", "fact") & (span.of("valid_since") | span.of("valid_until"))
    episodes, facts = await together(
        store.query(
            EPISODE_COLLECTION,
            user=user,
            expr=chain_filters(
                span.of("valid_since"), scope.get(EPISODE_COLLECTION), None if gist else ne("obj_type", GIST)
            ),
            output_fields=_EPISODE_COLUMNS,
        ),
        store.query(
            RELATION_COLLECTION,
            user=user,
            expr=chain_filters(dated, scope.get(RELATION_COLLECTION)),
            output_fields=_FACT_COLUMNS,
        ),
    )
    told = sorted(_of_type(episodes, Episode), key=lambda each: (each.created_at, each.is_gist, each.part))
    events = [event for each in told if (event := _told(each)) is not None]
    for fact in sorted(_of_type(facts, Relation), key=lambda each: (each.created_at, each.uuid)):
        events += [event for event in _changes(fact) if span.holds(event.time.seconds)]
    return sorted(events, key=lambda each: (each.time.seconds, get_args(EventKind).index(each.kind)))


def _told(episode: Episode) -> Event | None:
    if episode.valid_since is None:
        return None
    return Event(
        time=Timepoint(episode.valid_since, episode.offset_since),
        kind="gist" if episode.is_gist else "episode",
        text=episode.content,
        uuid=episode.uuid,
        sources=(episode.source,) if episode.source else (),
        episodes=(episode.uuid,),
        session_id=episode.session_id,
    )


def _changes(fact: Relation) -> list[Event]:
    times: tuple[tuple[EventKind, Timepoint | None], ...] = (("begins", fact.since), ("ends", fact.until))
    return [
        Event(time, kind, fact.content_text, fact.uuid, tuple(fact.sources), tuple(fact.episodes))
        for kind, time in times
        if time is not None
    ]


def _check_text(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, str) or is_blank(value)):
        raise InvalidInputError(f"{name} is {value!r}; give a text that is not blank, or None.")


def _check_moment(name: str, value: object) -> None:
    if value is not None and not isinstance(value, datetime):
        raise InvalidInputError(f"{name} is a {type(value).__name__}; give a datetime or None.")


def _of_type(objects: Sequence[BaseGraphObject], kind: type[Object]) -> list[Object]:
    return [each for each in objects if isinstance(each, kind)]
