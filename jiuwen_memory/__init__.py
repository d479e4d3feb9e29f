"""A memory with relations in it, for LLM agents: entities, facts over time, and where each was said, on Milvus."""

from jiuwen_memory.foundation.llm import Model
from jiuwen_memory.foundation.llm.schema.config import ModelClientConfig, ModelRequestConfig
from jiuwen_memory.foundation.locks import InProcessLocks, Lease, UserLocks
from jiuwen_memory.foundation.ports import Embedding, Reranker
from jiuwen_memory.foundation.redis_locks import RedisUserLocks
from jiuwen_memory.foundation.store.graph import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    Entity,
    Episode,
    GraphConfig,
    GraphStore,
    GraphStoreFactory,
    GraphStoreIndexConfig,
    GraphStoreStorageConfig,
    Relation,
)
from jiuwen_memory.foundation.store.graph.index_field import MilvusAUTO, MilvusFLAT, MilvusHNSW, MilvusIVF
from jiuwen_memory.foundation.store.graph.result_ranking import MinMaxRankConfig, RRFRankConfig, WeightedRankConfig
from jiuwen_memory.memory_core.config.graph import AddMemStrategy, DiversityConfig, EpisodeType, SearchConfig
from jiuwen_memory.memory_core.graph.extraction.base import Words
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import (
    AIEntity,
    EntityDef,
    HumanEntity,
    RelationDef,
    TaggedWith,
    Topic,
)
from jiuwen_memory.memory_core.graph.extraction.llm_reranker import LLMReranker
from jiuwen_memory.memory_core.graph.graph_memory.audit import CheckReport
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.bulk import BulkProgress, BulkReport, ItemResult, MemoryItem
from jiuwen_memory.memory_core.graph.graph_memory.identities import UnmergeReport
from jiuwen_memory.memory_core.graph.graph_memory.merging import MergePreview
from jiuwen_memory.memory_core.graph.graph_memory.migrate import MigrationProgress, MigrationReport
from jiuwen_memory.memory_core.graph.graph_memory.pending import PendingAdd, ResumedAdd
from jiuwen_memory.memory_core.graph.graph_memory.rebuild import RebuildProgress, RebuildReport
from jiuwen_memory.memory_core.graph.graph_memory.receipts import DeletionReceipt
from jiuwen_memory.memory_core.graph.graph_memory.reembed import ReembedProgress
from jiuwen_memory.memory_core.graph.graph_memory.searching.results import SearchResult
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate
from jiuwen_memory.memory_core.graph.graph_memory.statistics import GraphStatistics
from jiuwen_memory.memory_core.graph.graph_memory.synonyms import SynonymReport
from jiuwen_memory.memory_core.graph.graph_memory.upkeep import RecoveryReport
from jiuwen_memory.retrieval.common.config import EmbeddingConfig, RerankerConfig
from jiuwen_memory.retrieval.embedding.api_embedding import APIEmbedding
from jiuwen_memory.retrieval.embedding.local_embedding import LocalEmbedding
from jiuwen_memory.retrieval.embedding.onnx_embedding import OnnxEmbedding
from jiuwen_memory.retrieval.reranker.api_reranker import APIReranker

__all__ = [
    "ENTITY_COLLECTION",
    "EPISODE_COLLECTION",
    "RELATION_COLLECTION",
    "AIEntity",
    "APIEmbedding",
    "APIReranker",
    "AddMemStrategy",
    "BulkProgress",
    "BulkReport",
    "CheckReport",
    "DeletionReceipt",
    "DiversityConfig",
    "Embedding",
    "EmbeddingConfig",
    "Entity",
    "EntityDef",
    "Episode",
    "EpisodeType",
    "GraphConfig",
    "GraphMemUpdate",
    "GraphMemory",
    "GraphStatistics",
    "GraphStore",
    "GraphStoreFactory",
    "GraphStoreIndexConfig",
    "GraphStoreStorageConfig",
    "HumanEntity",
    "InProcessLocks",
    "ItemResult",
    "LLMReranker",
    "Lease",
    "LocalEmbedding",
    "MemoryItem",
    "MergePreview",
    "MigrationProgress",
    "MigrationReport",
    "MilvusAUTO",
    "MilvusFLAT",
    "MilvusHNSW",
    "MilvusIVF",
    "MinMaxRankConfig",
    "Model",
    "ModelClientConfig",
    "ModelRequestConfig",
    "OnnxEmbedding",
    "PendingAdd",
    "RRFRankConfig",
    "RebuildProgress",
    "RebuildReport",
    "RecoveryReport",
    "RedisUserLocks",
    "ReembedProgress",
    "Relation",
    "RelationDef",
    "Reranker",
    "RerankerConfig",
    "ResumedAdd",
    "SearchConfig",
    "SearchResult",
    "SynonymReport",
    "TaggedWith",
    "Topic",
    "UnmergeReport",
    "UserLocks",
    "WeightedRankConfig",
    "Words",
]
