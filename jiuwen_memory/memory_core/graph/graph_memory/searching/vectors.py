"""What is embedded of a query, and its vector: one embedder call a search, none for a text embedded a moment ago.

Asks the embedder; reads the store for the names that are everywhere, once in a while.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.constants import EPISODE_COLLECTION
from jiuwen_memory.foundation.text import is_blank
from jiuwen_memory.memory_core.config.graph import SearchConfig
from jiuwen_memory.memory_core.graph.graph_memory.searching.names import KnownName, NameShares, resolve_dense_text
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder, Vector

KEPT_VECTORS: Final = 256


@dataclass(frozen=True)
class Embedded:
    """The text that stands for a query in the dense channels, and its vector; none where no channel wants one."""

    text: str = ""
    vector: Sequence[float] | None = None


class QueryVectors:
    """The vectors of the latest queries; it may be used from several threads and loops."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[int, str], Vector] = OrderedDict()

    async def of(self, texts: Sequence[str], embedder: Embedder) -> dict[str, Vector]:
        """Return the vector of each text; one that is not kept costs a call of the embedder."""
        distinct = list(dict.fromkeys(texts))
        vectors = await together(*(self._vector(text, embedder) for text in distinct))
        return dict(zip(distinct, vectors, strict=True))

    def clear(self) -> None:
        """Forget everything: another embedder has come."""
        with self._guard:
            self._kept.clear()

    async def _vector(self, text: str, embedder: Embedder) -> Vector:
        key = (id(embedder.model), text)
        with self._guard:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        vector = await embedder.embed_query(text)
        with self._guard:
            self._kept[key] = vector
            while len(self._kept) > KEPT_VECTORS:
                self._kept.popitem(last=False)
        return vector


@dataclass(frozen=True)
class QuerySide:
    """What turns queries into vectors; `embedder` raises where none is attached, and is called only if needed."""

    embedder: Callable[[], Embedder]
    store: GraphStore
    names: NameShares
    vectors: QueryVectors

    async def embed(
        self, query: str, configs: Mapping[str, SearchConfig], users: tuple[str, ...]
    ) -> dict[str, Embedded]:
        """Return for each collection what its dense channels are asked with; nothing for a query that shows nothing.

        Collections whose settings take different names out of the query cost a call of the embedder each.
        """
        texts = {name: query for name, config in configs.items() if _wants_vector(config, name) and not is_blank(query)}
        if not texts:
            return {}
        embedder = self.embedder()
        if any(configs[name].common_names for name in texts):
            names = await self.names.of(users, store=self.store)
            texts = {name: _without_common_names(query, configs[name], names) for name in texts}
        vectors = await self.vectors.of(list(texts.values()), embedder)
        return {name: Embedded(text, vectors[text]) for name, text in texts.items()}


def _wants_vector(config: SearchConfig, collection: str) -> bool:
    """Tell whether a channel, or the semantic gate of the expansion, compares vectors with the query's."""
    is_gated = config.semantic_margin is not None and config.bfs_depth > 0 and collection != EPISODE_COLLECTION
    return is_gated or any(channel != "content_sparse" for channel in config.rank_config.weights(collection))


def _without_common_names(query: str, config: SearchConfig, names: Sequence[KnownName]) -> str:
    return resolve_dense_text(query, names, config.common_names) if config.common_names else query
