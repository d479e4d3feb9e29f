"""The shape of an embedding model."""

from jiuwen_memory.foundation.ports import Embedding

__all__ = ["Embedding"]
