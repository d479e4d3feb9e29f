"""Embedding models."""

from jiuwen_memory.retrieval.embedding.api_embedding import APIEmbedding
from jiuwen_memory.retrieval.embedding.base import Embedding
from jiuwen_memory.retrieval.embedding.local_embedding import LocalEmbedding
from jiuwen_memory.retrieval.embedding.onnx_embedding import OnnxEmbedding

__all__ = ["APIEmbedding", "Embedding", "LocalEmbedding", "OnnxEmbedding"]
