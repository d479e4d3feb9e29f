"""How a graph store lays out its collections: field limits, indexes, BM25."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SerializeAsAny

from jiuwen_memory.foundation.store.graph.constants import ARRAY_LIMIT, VARCHAR_LIMIT
from jiuwen_memory.foundation.store.graph.index_field import MilvusAUTO, VectorField

TextLimit = Annotated[int, Field(gt=1, le=VARCHAR_LIMIT)]
ListLimit = Annotated[int, Field(gt=1, le=ARRAY_LIMIT)]

DistanceMetric = Literal["cosine", "euclidean", "dot"]


class GraphStoreStorageConfig(BaseModel):
    """Field limits. Texts are counted in UTF-8 bytes (what a Milvus server counts), `user_id` in characters."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    uuid: TextLimit = 32
    name: TextLimit = 500
    content: TextLimit = VARCHAR_LIMIT
    language: TextLimit = 10
    user_id: Annotated[int, Field(gt=1, le=VARCHAR_LIMIT // 4)] = 32
    obj_type: TextLimit = 20
    entities: ListLimit = ARRAY_LIMIT
    relations: ListLimit = ARRAY_LIMIT
    episodes: ListLimit = ARRAY_LIMIT


class BM25Config(BaseModel):
    """Parameters of BM25: `bm25_k1` (term saturation) and `bm25_b` (length normalisation).

    Memories are short, and their lengths say little about them, so `bm25_b` is low (the pair is Anserini's default).
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    bm25_k1: float = Field(default=0.9, ge=0)
    bm25_b: float = Field(default=0.4, ge=0, le=1)


class GraphStoreIndexConfig(BaseModel):
    """Vector index, distance metric and BM25 settings of a graph store.

    `extra_configs` is merged into the dense index's build parameters. `bm25_analyzer_settings` replaces the analyzer of
    `search_text`; ours fills that field with finished tokens, so the default (`standard`) is right for nearly everyone.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    index_type: SerializeAsAny[VectorField] = Field(default_factory=MilvusAUTO)
    distance_metric: DistanceMetric = "cosine"
    extra_configs: dict[str, JsonValue] = Field(default_factory=dict)
    bm25_config: BM25Config = Field(default_factory=BM25Config)
    bm25_analyzer_settings: dict[str, JsonValue] | None = None
