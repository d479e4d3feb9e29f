"""What is asked for: strategies, and the request to one collection. Plain values; touches nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    GIST,
    GRAPH_COLLECTIONS,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.query import QueryExpr, chain_filters, eq, filter_user, ne
from jiuwen_memory.memory_core.config.graph import SearchConfig
from jiuwen_memory.memory_core.graph.graph_memory.searching.ordering import time_fields
from jiuwen_memory.memory_core.graph.graph_memory.searching.pool import Candidate
from jiuwen_memory.memory_core.graph.graph_memory.searching.times import AskedTime
from jiuwen_memory.memory_core.graph.graph_memory.searching.vectors import Embedded

POOL = 100
"""Hits each channel brings at least: shorter lists turn a threshold on ranks into 'must be in two lists'."""
RERANK_LIMIT = 50


@dataclass(frozen=True)
class SearchStrategy:
    """How each collection is searched."""

    entity: SearchConfig
    relation: SearchConfig
    episode: SearchConfig

    def config(self, collection: str) -> SearchConfig:
        """Return the settings for a collection."""
        return {
            ENTITY_COLLECTION: self.entity,
            RELATION_COLLECTION: self.relation,
            EPISODE_COLLECTION: self.episode,
        }[collection]

    def check(self, name: str) -> None:
        """Refuse settings that no collection can be searched with; warn about thresholds that no result can pass.

        Raises:
            StoreParameterError: a ranking leaves a collection no channel.
        """
        for collection in GRAPH_COLLECTIONS:
            config = self.config(collection)
            config.rank_config.weights(collection)
            highest = config.rank_config.highest(collection)
            if config.threshold > highest:
                warnings.warn(
                    f"Search strategy {name!r}: no result of {collection} can reach min_score={config.threshold:g}; "
                    f"{type(config.rank_config).__name__} scores from 0 to {highest:.3g}.",
                    UserWarning,
                    stacklevel=3,
                )


def strategy_named(name: str, strategies: Mapping[str, SearchStrategy]) -> SearchStrategy:
    """Return the strategy of a name.

    Raises:
        InvalidInputError: there is none.
    """
    strategy = strategies.get(name) if isinstance(name, str) else None
    if strategy is None:
        raise InvalidInputError(
            f"There is no search strategy {name!r}; known are {', '.join(sorted(strategies))}. "
            "Register one with register_search_strategy."
        )
    return strategy


@dataclass(frozen=True)
class SearchRequest:
    """What is looked for in one collection, and for whom.

    `scope` says where it must have been learnt, `told` the same of facts that lie on the way, `time` what time is asked
    about. `episode` and `gist` tell which of the two the episodes may be.
    """

    collection: str
    text: str
    vector: Sequence[float] | None
    users: tuple[str, ...]
    config: SearchConfig
    scope: QueryExpr | None = None
    told: QueryExpr | None = None
    time: AskedTime = field(default_factory=AskedTime)
    episode: bool = True
    gist: bool = False

    @property
    def user(self) -> QueryExpr:
        """The filter that keeps other users out of every request."""
        return filter_user(self.users)

    @property
    def standing(self) -> QueryExpr | None:
        """What a result and all on the way to it must fulfil: among relations facts, unless a kind is named."""
        conditions = [] if self.scope is None else [self.scope]
        if self.facts_alone:
            conditions.append(eq("kind", "fact"))
        if self.collection == EPISODE_COLLECTION and not (self.episode and self.gist):
            conditions.append(eq("obj_type", GIST) if self.gist else ne("obj_type", GIST))
        if self.collection == RELATION_COLLECTION:
            conditions += self.time.conditions()
        return chain_filters(*conditions) if conditions else None

    @property
    def facts_alone(self) -> bool:
        """Relations are asked for, and of no kind in particular: then links of ours are no results."""
        given = self.config.filter_expr
        return self.collection == RELATION_COLLECTION and not (given and "kind" in given.fields())

    @property
    def narrows(self) -> bool:
        """More is asked of a result than that it is the user's, and a fact if it is a relation."""
        return self.scope is not None or bool(self._wanted) or bool(self.time.conditions())

    @property
    def conditions(self) -> QueryExpr | None:
        """Everything that a result must fulfil."""
        given = [*self._wanted, *([self.standing] if self.standing is not None else [])]
        return chain_filters(*given) if given else None

    @property
    def _wanted(self) -> list[QueryExpr]:
        """What a result must fulfil, but not what lies on the way to it."""
        wanted = [self.config.filter_expr]
        if self.time.period is not None and self.config.period == "filter":
            wanted.append(self.time.period.condition(self.collection))
        return [each for each in wanted if each is not None]

    @property
    def pool(self) -> int:
        """How many hits each channel brings."""
        return max(POOL, 10 * self.config.top_k)

    @property
    def highest(self) -> float:
        """The best score the ranking can give; signals are shares of it."""
        return self.config.rank_config.highest(self.collection)

    @property
    def expands(self) -> bool:
        """Neighbours in the graph are wanted, in a collection that has any."""
        return self.config.bfs_depth > 0 and self.collection != EPISODE_COLLECTION

    def fits(self, candidate: Candidate) -> bool:
        """Tell whether a candidate that fulfils `standing` is among what is wanted; all that a channel found is."""
        return bool(candidate.channels) or all(candidate.found.fulfils(each) for each in self._wanted)

    def working_fields(self) -> list[str]:
        """Return the columns that ranking and signals look at; results are read whole in the end."""
        return list(dict.fromkeys(self._needed()))

    def _needed(self) -> Iterator[str]:
        config = self.config
        if self.collection == RELATION_COLLECTION:
            yield "superseded_by"
            yield from self.time.fields()
            if config.pagerank:
                yield "episodes"
        if config.recency or config.closeness:
            yield from time_fields(self.collection)
        if self.time.period is not None and config.period == "boost":
            yield from self.time.period.fields(self.collection)
        if self.collection == EPISODE_COLLECTION:
            yield from self._needed_of_episodes()
        elif config.mentions:
            yield "mention_count"
        if self.expands:
            yield from sorted(name for each in self._wanted for name in each.fields())

    def _needed_of_episodes(self) -> Iterator[str]:
        config = self.config
        if config.spine or config.support:
            yield from ("session_id", "valid_since", "part")
        if config.support or config.pagerank:
            yield "entities"
        if config.speaker:
            yield "speakers"
        if config.questions:
            yield "content"

    def result_fields(self) -> list[str] | None:
        """Return the columns of the results: those asked for and what their order needs; None is all but vectors."""
        if self.config.output_fields is None:
            return None
        needed: list[str] = []
        if self.collection == RELATION_COLLECTION:
            needed += ["valid_since", "valid_until", "superseded_by", *self.time.fields()]
        if self.config.rerank:
            needed += ["content", *(["qualifiers"] if self.collection == RELATION_COLLECTION else [])]
        if self.config.order == "time":
            needed += time_fields(self.collection)
        return list(dict.fromkeys([*self.config.output_fields, *needed]))


def scoped_collections(configs: Mapping[str, SearchConfig]) -> list[str]:
    """Return the collections of which it counts where something was learnt: those searched, and facts on the way."""
    goes_along = any(config.bfs_depth or config.support or config.pagerank for config in configs.values())
    return list(dict.fromkeys([*configs, *([RELATION_COLLECTION] if goes_along else [])]))


def requests_for(
    text: str,
    configs: Mapping[str, SearchConfig],
    *,
    embedded: Mapping[str, Embedded],
    users: tuple[str, ...],
    scope: Mapping[str, QueryExpr],
    time: AskedTime,
    episode: bool,
    gist: bool,
) -> list[SearchRequest]:
    """Return the request to each collection."""
    return [
        SearchRequest(
            collection=name,
            text=text,
            vector=embedded[name].vector if name in embedded else None,
            users=users,
            config=config,
            scope=scope.get(name),
            told=scope.get(RELATION_COLLECTION),
            time=time,
            episode=episode,
            gist=gist,
        )
        for name, config in configs.items()
    ]
