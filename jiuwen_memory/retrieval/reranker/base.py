"""The shape of a reranker."""

from jiuwen_memory.foundation.ports import Reranker

__all__ = ["Reranker"]
