"""A store in this process that is quick at the searches of one big evaluation. Touches nothing outside.

It gives the scores that the store in memory and Milvus Lite give, by the same formulas, but keeps its vectors in a
matrix and its words in an inverted index. Only episodes are searched in it, without further conditions.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from jiuwen_memory import EPISODE_COLLECTION, GraphConfig
from jiuwen_memory.foundation.store.graph import BaseGraphObject, Hit, SearchQuery
from jiuwen_memory.foundation.store.graph.memory.store import InMemoryGraphStore
from jiuwen_memory.foundation.store.graph.result_ranking import Channel
from jiuwen_memory.foundation.store.query import QueryExpr
from jiuwen_memory.foundation.text import query_tokens

Array = numpy.ndarray[Any, numpy.dtype[Any]]


class ExactStore(InMemoryGraphStore):
    """Keeps episodes for a benchmark; register it as a backend."""

    def __init__(self, config: GraphConfig) -> None:
        super().__init__(config)
        self._objects: list[BaseGraphObject] = []
        self._rows: list[dict[str, Any]] = []
        self._index: _Index | None = None
        self._owned: dict[str, Array] = {}

    async def upsert(self, collection: str, objects: Sequence[BaseGraphObject]) -> None:
        """Keep objects; they are new ones."""
        self._objects += [each.revise(content_embedding=None) for each in objects]
        self._rows += [each.to_row() for each in objects]
        self._index = None
        self._owned.clear()

    async def query(
        self, collection: str, *, user: QueryExpr, ids: Sequence[str] | None = None, **options: Any
    ) -> list[BaseGraphObject]:
        """Return whole objects, whatever columns are asked for."""
        if collection != EPISODE_COLLECTION:
            return []
        expr, limit = options.get("expr"), options.get("limit")
        places = [int(place) for place in self._places(user)]
        if ids is not None:
            by_id = {self._rows[place]["uuid"]: place for place in places}
            places = [by_id[uuid] for uuid in ids if uuid in by_id]
        kept = [place for place in places if expr is None or expr.matches(self._rows[place])]
        return [self._objects[place] for place in kept[:limit]]

    async def routes(
        self,
        collection: str,
        query: SearchQuery,
        *,
        user: QueryExpr,
        channels: Sequence[Channel],
        limit: int = 100,
        **options: Any,
    ) -> dict[Channel, list[Hit]]:
        """Return what each channel finds by itself, best first and at most `limit`."""
        if self._index is None:
            self._index = _Index(self._rows, self.config)
        places = self._places(user)
        found: dict[Channel, list[Hit]] = {}
        if "content_dense" in channels and query.vector is not None:
            found["content_dense"] = self._best(self._index.cosines(query.vector)[places], places, limit)
        words = query_tokens(query.text) if "content_sparse" in channels else ""
        if words:
            scores = self._index.bm25(words)[places]
            found["content_sparse"] = [hit for hit in self._best(scores, places, limit) if hit.score > 0]
        return found

    def _best(self, scores: Array, places: Array, limit: int) -> list[Hit]:
        order = numpy.argsort(-scores, kind="stable")[:limit]
        return [Hit(float(scores[at]), self._objects[int(places[at])]) for at in order]

    def _places(self, user: QueryExpr) -> Array:
        key = repr(user)
        if key not in self._owned:
            owned = [place for place, row in enumerate(self._rows) if user.matches(row)]
            self._owned[key] = numpy.array(owned, dtype=int)
        return self._owned[key]


class _Index:
    """The matrix of vectors of length one, and what BM25 gives each text for each token."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], config: GraphConfig) -> None:
        matrix = numpy.array([row["content_embedding"] for row in rows], dtype=float)
        self._matrix = matrix / numpy.linalg.norm(matrix, axis=1, keepdims=True)
        self._scores: dict[str, tuple[list[int], list[float]]] = {}
        counts = [Counter(row["search_text"].split()) for row in rows]
        mean = sum(each.total() for each in counts) / len(counts)
        k1, b = config.db_embed_config.bm25_config.bm25_k1, config.db_embed_config.bm25_config.bm25_b
        holders: dict[str, list[int]] = defaultdict(list)
        for place, each in enumerate(counts):
            for token in each:
                holders[token].append(place)
        for token, places in holders.items():
            rarity = math.log(1 + (len(counts) - len(places) + 0.5) / (len(places) + 0.5))
            values = [
                rarity
                * counts[place][token]
                * (k1 + 1)
                / (counts[place][token] + k1 * (1 - b + b * counts[place].total() / mean))
                for place in places
            ]
            self._scores[token] = (places, values)

    def cosines(self, vector: Sequence[float]) -> Array:
        """Return the cosine of each row with a vector."""
        asked = numpy.array(vector, dtype=float)
        products: Array = self._matrix @ (asked / numpy.linalg.norm(asked))
        return products

    def bm25(self, words: str) -> Array:
        """Return the BM25 score of each row for search tokens."""
        scores = numpy.zeros(len(self._matrix))
        for token in words.split():
            places, values = self._scores.get(token, ([], []))
            scores[places] += values
        return scores
