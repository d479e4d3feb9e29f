"""Graphs in Milvus: a local path (Milvus Lite) or a server. pymilvus is imported on first use, in a thread."""

from jiuwen_memory.foundation.store.graph.milvus.store import MilvusGraphStore

__all__ = ["MilvusGraphStore"]
