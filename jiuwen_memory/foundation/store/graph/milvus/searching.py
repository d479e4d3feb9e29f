"""One hybrid request per collection, for any number of queries. Touches the store, reading only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jiuwen_memory.foundation.store.graph.base import Hit, SearchQuery
from jiuwen_memory.foundation.store.graph.columns import Column
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.graph_object import OBJECT_TYPES
from jiuwen_memory.foundation.store.graph.milvus.rows import WINDOW, plain_row
from jiuwen_memory.foundation.store.graph.milvus.schema import METRICS
from jiuwen_memory.foundation.store.graph.result_ranking import (
    VECTOR_COLUMNS,
    BaseRankConfig,
    Channel,
    RRFRankConfig,
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
    kind = OBJECT_TYPES[request.collection]
    return [
        [Hit(hit.distance, kind.from_row(plain_row({**hit["entity"], "uuid": hit.id}, columns))) for hit in hits]
        for hits in answers
    ]


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
    if channel == "content_sparse":
        settings: dict[str, Any] = {"metric_type": "BM25"}
    else:
        params = dict(config.db_embed_config.index_type.search_params())
        if "ef" in params:
            # A server refuses to look for more hits than candidates.
            params["ef"] = max(params["ef"], pool)
        settings = {"metric_type": METRICS[config.db_embed_config.distance_metric], "params": params}
    return AnnSearchRequest(values, VECTOR_COLUMNS[channel], settings, pool, expr=written_filter)


def _ranker(rank: BaseRankConfig, weights: list[float]) -> Any:
    from pymilvus import RRFRanker, WeightedRanker

    return RRFRanker(rank.k) if isinstance(rank, RRFRankConfig) else WeightedRanker(*weights)
