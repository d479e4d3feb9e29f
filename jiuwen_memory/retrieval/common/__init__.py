"""Settings shared by embedding models and rerankers."""

from jiuwen_memory.retrieval.common.config import EmbeddingConfig, RerankerConfig

__all__ = ["EmbeddingConfig", "RerankerConfig"]
