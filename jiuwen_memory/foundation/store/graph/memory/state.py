"""The tables of in-memory stores, shared by all stores of one URI for as long as the process lives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final
from uuid import uuid4

from jiuwen_memory.errors import SchemaMismatchError, StoreError
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS, JOURNAL_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import Row

PRIVATE_URI: Final = ":memory:"

Tables = dict[str, dict[str, Row]]


@dataclass
class State:
    """Rows by collection and key, of vectors of one length compared in one way."""

    embed_dim: int
    metric: str
    guard: threading.RLock = field(default_factory=threading.RLock)
    tables: Tables = field(default_factory=lambda: {name: {} for name in (*GRAPH_COLLECTIONS, JOURNAL_COLLECTION)})


_states: dict[str, State] = {}
_states_guard = threading.Lock()


class MemoryConnection:
    """A store's way to its tables: those of its URI, or, for the URI ":memory:", tables of its own."""

    def __init__(self, config: GraphConfig) -> None:
        self.config = config
        self._closed = False

    @cached_property
    def identity(self) -> str:
        """The URI and the database, or something unique where nothing is shared."""
        place = f"memory:{self.config.uri}"
        if self.config.uri == PRIVATE_URI:
            place += uuid4().hex
        return f"{place}#{self.config.name}" if self.config.name else place

    @contextmanager
    def tables(self) -> Iterator[Tables]:
        """Lend the tables, to one thread at a time."""
        if self._closed:
            raise StoreError("The graph store is closed; make a new one.")
        state = self._state
        with state.guard:
            yield state.tables

    def close(self) -> None:
        """Refuse any further use; the tables stay for the next store of this URI."""
        self._closed = True

    @cached_property
    def _state(self) -> State:
        dim, metric = self.config.embed_dim, self.config.db_embed_config.distance_metric
        if self.config.uri == PRIVATE_URI:
            return State(dim, metric)
        with _states_guard:
            state = _states.setdefault(self.identity, State(dim, metric))
        if (state.embed_dim, state.metric) != (dim, metric):
            raise SchemaMismatchError(
                f"The store {self.config.uri!r} holds vectors of dimension {state.embed_dim} compared by "
                f"{state.metric}, the configuration wants dimension {dim} and {metric}. Nothing was changed. Use the "
                "settings the store was built with; with them, `reembed(into=...)` copies it into a store of other "
                "settings. Or give another uri or name."
            )
        return state
