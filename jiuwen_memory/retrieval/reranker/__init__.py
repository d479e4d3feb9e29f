"""Rerankers."""

from jiuwen_memory.retrieval.reranker.api_reranker import APIReranker
from jiuwen_memory.retrieval.reranker.base import Reranker

__all__ = ["APIReranker", "Reranker"]
