"""Where graphs are kept: the store's protocol, its settings, and the objects it holds."""

from jiuwen_memory.foundation.store.graph.around import StoreAround
from jiuwen_memory.foundation.store.graph.base import GraphStore, Hit, Journal, JournalEntry, SearchQuery
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.database_config import (
    BM25Config,
    GraphStoreIndexConfig,
    GraphStoreStorageConfig,
)
from jiuwen_memory.foundation.store.graph.factory import GraphStoreFactory
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation
from jiuwen_memory.foundation.store.graph.memory.store import InMemoryGraphStore
from jiuwen_memory.foundation.store.graph.milvus.store import MilvusGraphStore

__all__ = [
    "ENTITY_COLLECTION",
    "EPISODE_COLLECTION",
    "RELATION_COLLECTION",
    "BM25Config",
    "BaseGraphObject",
    "Entity",
    "Episode",
    "GraphConfig",
    "GraphStore",
    "GraphStoreFactory",
    "GraphStoreIndexConfig",
    "GraphStoreStorageConfig",
    "Hit",
    "InMemoryGraphStore",
    "Journal",
    "JournalEntry",
    "MilvusGraphStore",
    "Relation",
    "SearchQuery",
    "StoreAround",
]
