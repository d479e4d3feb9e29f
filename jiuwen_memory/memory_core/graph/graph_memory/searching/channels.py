"""The channels of a collection, and their fusion. Reads the store."""

from __future__ import annotations

from jiuwen_memory.foundation.store.graph.base import GraphStore, SearchQuery
from jiuwen_memory.foundation.store.graph.result_ranking import Channel, Routes
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchRequest
from jiuwen_memory.memory_core.graph.graph_memory.searching.pool import Candidate, ChannelHit, Pool


@traced
async def recall_pool(request: SearchRequest, *, store: GraphStore) -> Pool:
    """Return what the channels found, fused as the request's ranking says, best first."""
    rank = request.config.rank_config
    metric = store.config.db_embed_config.distance_metric
    routes = await store.routes(
        request.collection,
        SearchQuery(request.text, request.vector),
        user=request.user,
        channels=tuple(rank.weights(request.collection)),
        limit=request.pool,
        expr=request.conditions,
        output_fields=request.working_fields(),
    )
    found = {hit.found.uuid: hit.found for hits in routes.values() for hit in hits}
    places: dict[str, dict[Channel, ChannelHit]] = {uuid: {} for uuid in found}
    scores: Routes = {channel: [(hit.found.uuid, hit.score) for hit in hits] for channel, hits in routes.items()}
    for channel, hits in routes.items():
        for number, hit in enumerate(hits, start=1):
            places[hit.found.uuid][channel] = ChannelHit(number, hit.score)
    return {
        uuid: Candidate(found[uuid], score, fused=score, channels=places[uuid])
        for uuid, score in rank.fuse_own(scores, collection=request.collection, metric=metric)
    }
