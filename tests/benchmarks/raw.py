"""The hybrid searches behind a memory's default search, written with pymilvus alone. Reads a store."""

from __future__ import annotations

from typing import Any

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    Entity,
    Episode,
    GraphConfig,
    Relation,
)
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.foundation.text import query_tokens
from tests.benchmarks.texts import USER_ID

POOL = 100
"""What the memory asks of each channel."""
LIMIT = 3
FILTERS = {RELATION_COLLECTION: f'(user_id == "{USER_ID}") and kind == "fact"'}
KINDS: dict[str, type[BaseGraphObject]] = {
    ENTITY_COLLECTION: Entity,
    RELATION_COLLECTION: Relation,
    EPISODE_COLLECTION: Episode,
}


class RawSearch:
    """A client of the server in this process, whose answers are read into plain dicts."""

    def __init__(self, config: GraphConfig) -> None:
        from pymilvus import MilvusClient

        self._client = MilvusClient(config.uri, db_name=config.name, timeout=config.timeout, dedicated=True)

    def search(self, text: str, vector: list[float]) -> list[dict[str, Any]]:
        """Search the three collections with the memory's channels, filters, limits and columns."""
        words = query_tokens(text)
        found: list[dict[str, Any]] = []
        for collection in KINDS:
            found += self._search(collection, words, vector)
        return found

    def _search(self, collection: str, words: str, vector: list[float]) -> list[dict[str, Any]]:
        from pymilvus import AnnSearchRequest, RRFRanker, WeightedRanker

        written = FILTERS.get(collection, f'user_id == "{USER_ID}"')
        dense = ["name_embedding", "content_embedding"] if collection == ENTITY_COLLECTION else ["content_embedding"]
        cosine = {"metric_type": "COSINE", "params": {}}
        requests = [AnnSearchRequest([vector], column, cosine, POOL, expr=written) for column in dense]
        requests.append(AnnSearchRequest([words], "content_bm25", {"metric_type": "BM25"}, POOL, expr=written))
        ranker = WeightedRanker(0.15, 0.6, 0.25) if collection == ENTITY_COLLECTION else RRFRanker(40)
        kind = KINDS[collection]
        answers = self._client.hybrid_search(
            collection,
            requests,
            ranker,
            limit=LIMIT,
            output_fields=[name for name in kind.model_fields if name not in kind.vectors],
            consistency_level="Session",
        )
        return [dict(hit["entity"]) for hit in answers[0]]

    def close(self) -> None:
        """Let go of the client; the memory's server goes on."""
        self._client.close()
