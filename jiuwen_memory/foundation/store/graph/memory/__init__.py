"""Graphs in the memory of this process, for tests and experiments."""

from jiuwen_memory.foundation.store.graph.memory.store import InMemoryGraphStore

__all__ = ["InMemoryGraphStore"]
