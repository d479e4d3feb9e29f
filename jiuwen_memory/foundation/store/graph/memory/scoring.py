"""What Milvus computes, in plain Python: distances and BM25. Touches nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import mul

from jiuwen_memory.foundation.store.graph.database_config import BM25Config, DistanceMetric


def dense_value(left: Sequence[float], right: Sequence[float], metric: DistanceMetric) -> float:
    """Return the cosine, the dot product, or the squared Euclidean distance of two vectors."""
    if metric == "euclidean":
        return sum((a - b) ** 2 for a, b in zip(left, right, strict=True))
    product: float = sum(map(mul, left, right))
    if metric == "dot":
        return product
    lengths = math.sqrt(sum(map(mul, left, left)) * sum(map(mul, right, right)))
    return product / lengths if lengths else 0.0


class BM25:
    """Okapi BM25 over the search tokens of a whole collection, as Milvus computes it for one segment."""

    def __init__(self, texts: Mapping[str, str], config: BM25Config) -> None:
        self._config = config
        self._counts = {uuid: Counter(text.split()) for uuid, text in texts.items()}
        self._lengths = {uuid: counts.total() for uuid, counts in self._counts.items()}
        self._mean_length = sum(self._lengths.values()) / len(texts) if texts else 0.0
        self._holders = Counter(token for counts in self._counts.values() for token in counts)

    def scores(self, query: str, uuids: Iterable[str]) -> dict[str, float]:
        """Return the score of each text that shares a token with the query."""
        tokens = query.split()
        scored = {uuid: sum(self._score(token, uuid) for token in tokens) for uuid in uuids}
        return {uuid: score for uuid, score in scored.items() if score > 0}

    def _score(self, token: str, uuid: str) -> float:
        frequency = self._counts[uuid][token]
        if not frequency:
            return 0.0
        holders = self._holders[token]
        rarity = math.log(1 + (len(self._counts) - holders + 0.5) / (holders + 0.5))
        k1, b = self._config.bm25_k1, self._config.bm25_b
        longer = 1 - b + b * self._lengths[uuid] / self._mean_length
        return rarity * frequency * (k1 + 1) / (frequency + k1 * longer)
