"""Fakes for tests of what is built on this library; our own tests use nothing else."""

from jiuwen_memory.foundation.store.graph.memory.store import InMemoryGraphStore
from jiuwen_memory.testing.embedder import FakeEmbedder
from jiuwen_memory.testing.llm import FakeLLM, FakePrompt, Script, by_name, same_as, verdicts
from jiuwen_memory.testing.memory import fake_memory
from jiuwen_memory.testing.reranker import FakeReranker
from jiuwen_memory.testing.strict import StrictStore

__all__ = [
    "FakeEmbedder",
    "FakeLLM",
    "FakePrompt",
    "FakeReranker",
    "InMemoryGraphStore",
    "Script",
    "StrictStore",
    "by_name",
    "fake_memory",
    "same_as",
    "verdicts",
]
