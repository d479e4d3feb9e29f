"""Searches of one collection: fused by Milvus for any number of queries, or channel by channel. Reads the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jiuwen_memory.foundation.store.graph.base import Hit, SearchQuery
from jiuwen_memory.foundation.store.graph.columns import Column
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.database_config import DistanceMetric
from jiuwen_memory.foundation.store.graph.graph_object import OBJECT_TYPES
from jiuwen_memory.foundation.store.graph.milvus.rows import WINDOW, as_objects
from jiuwen_memory.foundation.store.graph.milvus.schema import METRICS
from jiuwen_memory.foundation.store.graph.result_ranking import (
    VECTOR_COLUMNS,
    BaseRankConfig,
    Channel,
    RRFRankConfig,
    WeightedRankConfig,
)
from jiuwen_memory.foundation.text import query_tokens

_NO_WORDS: Final = "zq0no0words0here0qz"
"""Stands for an empty text beside others that have words: it finds nothing, and no server refuses it."""


@dataclass(frozen=True)
class HybridRequest:
    """A checked search of one collection."""

    collection: str
    queries: tuple[SearchQuery, ...]
    has_vectors: bool
    rank: BaseRankConfig
    limit: int
    pool: int
    fields: tuple[str, ...]
    consistency: str = "Session"


def run_hybrid(
    client: Any, request: HybridRequest, *, written_filter: str, columns: Mapping[str, Column], config: GraphConfig
) -> list[list[Hit]]:
    """Return each query's hits. Scores are the hybrid ranker's, also where a single channel is asked.

    Hybrid search is asked even then: its scale is the same everywhere, while a plain BM25 search on Lite gives negative
    scores. The filter goes into every sub-request, since the one of the whole request is ignored.
    """
    weights = request.rank.weights(request.collection)
    data = _channel_data(request, weights)
    if not data:
        return [[] for _ in request.queries]
    requests = [
        _sub_request(channel, values, request, written_filter=written_filter, config=config)
        for channel, values in data.items()
    ]
    answers = client.hybrid_search(
        request.collection,
        requests,
        _ranker(request.rank, [weights[channel] for channel in data]),
        limit=min(request.limit, WINDOW),
        output_fields=list(request.fields),
        timeout=config.timeout,
        consistency_level=request.consistency,
    )
    return [_hits(hits, request.collection, columns=columns) for hits in answers]


def _hits(
    found: Sequence[Any],
    collection: str,
    *,
    columns: Mapping[str, Column],
    score: Callable[[float], float] = float,
) -> list[Hit]:
    objects = as_objects(({**each["entity"], "uuid": each.id} for each in found), OBJECT_TYPES[collection], columns)
    return [Hit(score(each.distance), one) for each, one in zip(found, objects, strict=True)]


@dataclass(frozen=True)
class ChannelRequest:
    """A checked search of one collection by one channel."""

    collection: str
    channel: Channel
    query: SearchQuery
    limit: int
    fields: tuple[str, ...]
    consistency: str

    def value(self) -> str | list[float]:
        """Return the words or the vector that the channel is asked with; empty if there are none."""
        if self.channel == "content_sparse":
            return query_tokens(self.query.text)
        return list(self.query.vector or ())


def fused_by_milvus(rank: BaseRankConfig) -> bool:
    """Tell whether Milvus has a ranker that does the same."""
    return isinstance(rank, RRFRankConfig | WeightedRankConfig)


def run_channel(
    client: Any, request: ChannelRequest, *, written_filter: str, columns: Mapping[str, Column], config: GraphConfig
) -> list[Hit] | None:
    """Return the hits of one channel with its own scores, higher being better; None if there is nothing to ask with."""
    value = request.value()
    if not value:
        return None
    metric = config.db_embed_config.distance_metric
    answers = client.search(
        request.collection,
        [value],
        anns_field=VECTOR_COLUMNS[request.channel],
        search_params=_search_params(request.channel, min(request.limit, WINDOW), config),
        limit=min(request.limit, WINDOW),
        filter=written_filter,
        output_fields=list(request.fields),
        timeout=config.timeout,
        consistency_level=request.consistency,
    )
    return _hits(
        answers[0],
        request.collection,
        columns=columns,
        score=lambda distance: _own_score(request.channel, distance, metric),
    )


def _own_score(channel: Channel, value: float, metric: DistanceMetric) -> float:
    if channel == "content_sparse":
        # Lite gives BM25 scores with a minus sign outside hybrid searches, a server does not.
        return abs(value)
    return -value if metric == "euclidean" else value


def _channel_data(request: HybridRequest, weights: Mapping[Channel, float]) -> dict[Channel, list[Any]]:
    words = [query_tokens(query.text) for query in request.queries]
    data: dict[Channel, list[Any]] = {}
    for channel in weights:
        if channel == "content_sparse":
            if any(words):
                data[channel] = [each or _NO_WORDS for each in words]
        elif request.has_vectors:
            data[channel] = [list(query.vector or ()) for query in request.queries]
    return data


def _sub_request(
    channel: Channel, values: list[Any], request: HybridRequest, *, written_filter: str, config: GraphConfig
) -> Any:
    from pymilvus import AnnSearchRequest

    pool = min(request.pool, WINDOW)
    settings = _search_params(channel, pool, config)
    return AnnSearchRequest(values, VECTOR_COLUMNS[channel], settings, pool, expr=written_filter)


def _search_params(channel: Channel, pool: int, config: GraphConfig) -> dict[str, Any]:
    if channel == "content_sparse":
        return {"metric_type": "BM25"}
    params = dict(config.db_embed_config.index_type.search_params())
    if "ef" in params:
        # A server refuses to look for more hits than candidates.
        params["ef"] = max(params["ef"], pool)
    return {"metric_type": METRICS[config.db_embed_config.distance_metric], "params": params}


def _ranker(rank: BaseRankConfig, weights: list[float]) -> Any:
    from pymilvus import RRFRanker, WeightedRanker

    return RRFRanker(rank.k) if isinstance(rank, RRFRankConfig) else WeightedRanker(*weights)
