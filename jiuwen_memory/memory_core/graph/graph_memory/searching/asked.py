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
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.foundation.store.query import QueryExpr, chain_filters, eq, filter_user, ne
from jiuwen_memory.memory_core.config.graph import SearchConfig
from jiuwen_memory.memory_core.graph.graph_memory.searching.times import AskedTime

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

    def warn_if_unreachable(self, name: str) -> None:
        """Warn about thresholds that no result can ever pass."""
        for collection in GRAPH_COLLECTIONS:
            config = self.config(collection)
            highest = config.rank_config.highest(collection)
            if config.threshold > highest and not config.rerank:
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
    strategy = strategies.get(name)
    if strategy is None:
        raise InvalidInputError(
            f"There is no search strategy {name!r}; known are {', '.join(sorted(strategies))}. "
            "Register one with register_search_strategy."
        )
    return strategy


@dataclass(frozen=True)
class SearchRequest:
    """What is looked for in one collection, and for whom.

    `scope` says where it must have been learnt, `time` what time is asked about. `episode` and `gist` tell which of the
    two the episodes may be.
    """

    collection: str
    text: str
    vector: Sequence[float] | None
    users: tuple[str, ...]
    config: SearchConfig
    scope: QueryExpr | None = None
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
        given = self.config.filter_expr
        conditions = [] if self.scope is None else [self.scope]
        if self.collection == RELATION_COLLECTION and not (given and "kind" in given.fields()):
            conditions.append(eq("kind", "fact"))
        if self.collection == EPISODE_COLLECTION and not (self.episode and self.gist):
            conditions.append(eq("obj_type", GIST) if self.gist else ne("obj_type", GIST))
        if self.collection == RELATION_COLLECTION:
            conditions += self.time.conditions()
        return chain_filters(*conditions) if conditions else None

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

    def fits(self, found: BaseGraphObject) -> bool:
        """Tell whether an object that fulfils `standing` is among what is wanted."""
        wanted = self._wanted
        row = found.to_row() if wanted else {}
        return all(each.matches(row) for each in wanted)

    def working_fields(self) -> list[str]:
        """Return the columns that ranking and signals look at; results are read whole in the end."""
        return list(dict.fromkeys(self._needed()))

    def _needed(self) -> Iterator[str]:
        config = self.config
        if self.collection == RELATION_COLLECTION:
            yield from ("valid_since", "valid_until", "superseded_by")
            yield from self.time.fields()
        if self.collection == EPISODE_COLLECTION:
            yield from ("session_id", "valid_since", "part", "speakers")
            if config.support or config.pagerank:
                yield "entities"
        else:
            if config.mentions:
                yield "mention_count"
            if config.recency:
                yield "last_mentioned_at"
        if self.collection == RELATION_COLLECTION and config.pagerank:
            yield "episodes"
        if config.questions:
            yield "content"
        if self.expands and config.filter_expr:
            yield from sorted(config.filter_expr.fields())

    def result_fields(self) -> list[str] | None:
        """Return the columns of the results: those asked for and what their order needs; None is all but vectors."""
        if self.config.output_fields is None:
            return None
        needed: list[str] = []
        if self.collection == RELATION_COLLECTION:
            needed += ["valid_since", "valid_until", "superseded_by", *self.time.fields()]
        if self.config.rerank:
            needed.append("content")
        if self.config.order == "time":
            needed.append("valid_since" if self.collection != ENTITY_COLLECTION else "last_mentioned_at")
        return list(dict.fromkeys([*self.config.output_fields, *needed]))
