"""Results that differ from each other: maximal marginal relevance over the best candidates. Reads their vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.store.graph.base import GraphStore, Hit
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.config.graph import DiversityConfig
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchRequest

Vectors = Sequence[Sequence[float] | None]


@traced
async def recall_diverse(request: SearchRequest, hits: Sequence[Hit], *, store: GraphStore) -> list[Hit]:
    """Return the `top_k` hits that are good and unlike each other, in the order that they had.

    Vectors are read only if there is a choice to make.
    """
    config = request.config.diversity
    top_k = request.config.top_k
    if config is None or not config.weight or len(hits) <= top_k:
        return list(hits[:top_k])
    best = hits[: max(config.candidates, top_k)]
    rows = await store.query(
        request.collection,
        user=request.user,
        ids=[hit.found.uuid for hit in best],
        output_fields=["content_embedding"],
    )
    known = {each.uuid: each.content_embedding for each in rows}
    scores, vectors = [hit.score for hit in best], [known.get(hit.found.uuid) for hit in best]
    # A tenth of a second for 200 long vectors: too long for an event loop.
    chosen = await off_loop(None, resolve_diverse, scores, vectors, config=config, count=top_k)
    return [best[place] for place in sorted(chosen)]


def resolve_diverse(scores: Sequence[float], vectors: Vectors, *, config: DiversityConfig, count: int) -> list[int]:
    """Return the places of the candidates chosen one after the other.

    Each is the best by (1 - weight) * relevance - weight * its highest cosine to one chosen before (Carbonell and
    Goldstein, 1998). Relevance is the score between the candidates' lowest, 0, and highest, 1.

    Args:
        vectors: None where there is none: such a candidate is like no other.
    """
    units = [_unit(vector) for vector in vectors]
    low, span = min(scores), (max(scores) - min(scores)) or 1.0
    relevance = [(score - low) / span for score in scores]
    likeness = [0.0] * len(scores)
    left = dict.fromkeys(range(len(scores)))
    chosen: list[int] = []
    while left and len(chosen) < count:
        best = max(left, key=lambda place: (1 - config.weight) * relevance[place] - config.weight * likeness[place])
        del left[best]
        chosen.append(best)
        for place in left:
            likeness[place] = max(likeness[place], _product(units[best], units[place]))
    return chosen


def _unit(vector: Sequence[float] | None) -> list[float] | None:
    length = math.hypot(*vector) if vector else 0.0
    return [value / length for value in vector] if vector and length else None


def _product(one: Sequence[float] | None, other: Sequence[float] | None) -> float:
    return 0.0 if one is None or other is None else sum(map(mul, one, other))
