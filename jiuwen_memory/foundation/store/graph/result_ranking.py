"""How the hits of several channels become one ranking.

A channel is one way of asking a collection: by name vector, by content vector, by words (BM25). `WeightedRankConfig`
and `RRFRankConfig` compute what Milvus's own rankers compute, so that every backend gives the same scores for the same
hits; `MinMaxRankConfig` and any other are computed here only.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from jiuwen_memory.errors import StoreParameterError
from jiuwen_memory.foundation.store.graph.constants import ENTITY_COLLECTION
from jiuwen_memory.foundation.store.graph.database_config import DistanceMetric

Channel = Literal["name_dense", "content_dense", "content_sparse"]
Routes = Mapping[Channel, Sequence[tuple[str, float]]]
"""What each channel found: (id, score), best first."""
CHANNELS: tuple[Channel, ...] = ("name_dense", "content_dense", "content_sparse")
VECTOR_COLUMNS: Mapping[Channel, str] = {
    "name_dense": "name_embedding",
    "content_dense": "content_embedding",
    "content_sparse": "content_bm25",
}


def channels_of(collection: str) -> tuple[Channel, ...]:
    """Return the channels a collection has: only entities have a name vector."""
    return CHANNELS if collection == ENTITY_COLLECTION else CHANNELS[1:]


class BaseRankConfig(BaseModel):
    """A way of ranking; `default_min_score` is the threshold that fits its scale, `highest` its best possible score."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    default_min_score: ClassVar[float]

    @abstractmethod
    def weights(self, collection: str) -> dict[Channel, float]:
        """Return the channels this ranking uses in a collection, each with its weight (> 0)."""

    @abstractmethod
    def highest(self, collection: str) -> float:
        """Return the score of a hit that every channel puts first with full marks."""

    def normalised(self, channel: Channel, value: float, metric: DistanceMetric) -> float:
        """Return the score that `fuse` takes for a channel's own one, by default Milvus's in 0..1.

        `value` is a cosine, a dot product, a negative squared distance, or a BM25 score: higher is better.
        """
        if channel == "content_sparse":
            return normalise_bm25(value)
        return normalise_dense(-value if metric == "euclidean" else value, metric)

    @abstractmethod
    def fuse(self, routes: Routes, *, collection: str) -> list[tuple[str, float]]:
        """Return (id, score), best first, from what each channel found, its scores after `normalised`."""

    def fuse_own(self, routes: Routes, *, collection: str, metric: DistanceMetric) -> list[tuple[str, float]]:
        """Return (id, score), best first, from what each channel found, with the scores that are the channel's own."""
        normalised: Routes = {
            channel: [(uuid, self.normalised(channel, value, metric)) for uuid, value in hits]
            for channel, hits in routes.items()
        }
        return self.fuse(normalised, collection=collection)


class WeightedRankConfig(BaseRankConfig):
    """Weighted sum of the channels' normalised scores; weights are scaled to a sum of 1 over the channels in use."""

    default_min_score: ClassVar[float] = 0.3

    name: Literal["weighted"] = "weighted"
    name_dense: float = Field(default=0.15, ge=0, le=1)
    content_dense: float = Field(default=0.6, ge=0, le=1)
    content_sparse: float = Field(default=0.25, ge=0, le=1)

    def weights(self, collection: str) -> dict[Channel, float]:
        return _shares(self, collection)

    def highest(self, collection: str) -> float:
        return 1.0

    def fuse(self, routes: Routes, *, collection: str) -> list[tuple[str, float]]:
        scores: dict[str, float] = defaultdict(float)
        for channel, weight in self.weights(collection).items():
            for uuid, score in routes.get(channel, ()):
                scores[uuid] += weight * score
        return best_first(scores)


class RRFRankConfig(BaseRankConfig):
    """Reciprocal rank fusion (Cormack, Clarke, Büttcher 2009): the sum over channels of 1 / (k + rank), rank from 1."""

    default_min_score: ClassVar[float] = 0.02

    name: Literal["rrf"] = "rrf"
    k: int = Field(default=40, ge=1, lt=16384)
    name_dense: bool = True
    content_dense: bool = True
    content_sparse: bool = True

    def weights(self, collection: str) -> dict[Channel, float]:
        used = {channel: 1.0 for channel in channels_of(collection) if getattr(self, channel)}
        if not used:
            raise StoreParameterError(
                f"RRFRankConfig switches off every channel of {collection}; leave one of them on."
            )
        return used

    def highest(self, collection: str) -> float:
        return len(self.weights(collection)) / (self.k + 1)

    def fuse(self, routes: Routes, *, collection: str) -> list[tuple[str, float]]:
        scores: dict[str, float] = defaultdict(float)
        for channel in self.weights(collection):
            for rank, (uuid, _) in enumerate(routes.get(channel, ()), start=1):
                scores[uuid] += 1 / (self.k + rank)
        return best_first(scores)


class MinMaxRankConfig(BaseRankConfig):
    """Weighted sum of scores that are spread over 0..1 among the hits of each channel.

    The best hit of a channel has 1 there; of a dense channel the last of its hits has 0, and a BM25 score is divided by
    the best one. What a channel did not find has 0. Scores therefore compare the hits of one query, not queries: the
    best hit scores at least the largest weight, however bad it is. Against Milvus's fixed scales it gains where the
    similarities of an embedding model lie close together, and what it gives can be handed on in the graph, since a weak
    hit is worth nearly nothing (Lee 1997 and Wu, Crestani, Bi 2006 on score normalisation in data fusion).
    """

    default_min_score: ClassVar[float] = 0.1

    name: Literal["min_max"] = "min_max"
    name_dense: float = Field(default=0.25, ge=0, le=1)
    content_dense: float = Field(default=0.5, ge=0, le=1)
    content_sparse: float = Field(default=0.5, ge=0, le=1)

    def weights(self, collection: str) -> dict[Channel, float]:
        return _shares(self, collection)

    def highest(self, collection: str) -> float:
        return 1.0

    def normalised(self, channel: Channel, value: float, metric: DistanceMetric) -> float:
        return value

    def fuse(self, routes: Routes, *, collection: str) -> list[tuple[str, float]]:
        scores: dict[str, float] = defaultdict(float)
        for channel, weight in self.weights(collection).items():
            hits = routes.get(channel, ())
            if not hits:
                continue
            best = max(score for _, score in hits)
            least = 0.0 if channel == "content_sparse" else min(score for _, score in hits)
            for uuid, score in hits:
                scores[uuid] += weight * ((score - least) / (best - least) if best > least else 1.0)
        return best_first(scores)


def rank_named(settings: Mapping[str, object]) -> BaseRankConfig:
    """Return the ranking for settings as a file or `model_dump` has them: by its `name`, with its other fields.

    Raises:
        ValueError: there is none of this name, or the settings do not fit it.
    """
    kinds: dict[object, type[BaseRankConfig]] = {
        kind.model_fields["name"].default: kind for kind in (WeightedRankConfig, RRFRankConfig, MinMaxRankConfig)
    }
    name = settings.get("name")
    if not isinstance(name, str) or name not in kinds:
        raise ValueError(f"the ranking's name is {name!r}; give one of {', '.join(map(str, kinds))}")
    return kinds[name].model_validate(settings)


def _shares(rank: WeightedRankConfig | MinMaxRankConfig, collection: str) -> dict[Channel, float]:
    """Return the weights of the channels that a collection has, scaled to a sum of 1."""
    given = {channel: float(getattr(rank, channel)) for channel in channels_of(collection)}
    total = sum(given.values())
    if not total:
        raise StoreParameterError(
            f"{type(rank).__name__} gives every channel of {collection} the weight 0; give one of them a weight."
        )
    return {channel: weight / total for channel, weight in given.items() if weight}


def best_first(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    """Sort ids by falling score; equal scores keep their order."""
    return sorted(scores.items(), key=lambda item: -item[1])


def normalise_dense(value: float, metric: DistanceMetric) -> float:
    """Map a raw dense value to 0..1, higher is better, as Milvus's weighted ranker does.

    `value` is a cosine, a dot product, or a squared Euclidean distance.
    """
    if metric == "cosine":
        return (1 + value) / 2
    if metric == "dot":
        return 0.5 + math.atan(value) / math.pi
    return 1 - 2 * math.atan(value) / math.pi


def normalise_bm25(value: float) -> float:
    """Map a raw BM25 score (>= 0) to 0..1, as Milvus's weighted ranker does."""
    return 2 * math.atan(value) / math.pi
