"""What is done with a whole graph at once: counting it, linking close names, embedding it anew."""

from __future__ import annotations

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.store.graph.graph_object import Relation
from jiuwen_memory.memory_core.graph.graph_memory.reembed import OnReembed, ReembedProgress, Stores, reembed_user
from jiuwen_memory.memory_core.graph.graph_memory.requests import parse_user_id
from jiuwen_memory.memory_core.graph.graph_memory.statistics import GraphStatistics, recall_statistics
from jiuwen_memory.memory_core.graph.graph_memory.synonyms import (
    MIN_SIMILARITY,
    TOP_K,
    Closeness,
    SynonymReport,
    link_user,
    recall_synonyms,
    unlink_user,
)
from jiuwen_memory.memory_core.graph.graph_memory.upkeep import Upkeep


class Growth(Upkeep):
    """The part of `GraphMemory` that goes through whole graphs."""

    async def stats(self, user_id: str) -> GraphStatistics:
        """Return what a user's graph is made of, in numbers; rows are read a page at a time."""
        parse_user_id(user_id, self.config.db_storage_config)
        return await recall_statistics(user_id, self._store)

    async def link_synonyms(
        self, user_id: str, *, min_similarity: float = MIN_SIMILARITY, top_k: int = TOP_K
    ) -> SynonymReport:
        """Link entities whose names are close, as relations of the kind `synonym`; nothing is merged.

        Doing it again adds only what is missing.

        Args:
            user_id: whose entities are linked.
            min_similarity: cosine of two name vectors from which on they are close.
            top_k: how many of the nearest each entity is linked to, at most.
        """
        parse_user_id(user_id, self.config.db_storage_config)
        closeness = Closeness(min_similarity, top_k)
        async with self._hold(user_id, self._embedder()) as hold:
            return await link_user(
                user_id, closeness, store=self._store, embedder=hold.embedder, confirm=hold.lease.confirm
            )

    async def synonyms(self, user_id: str) -> list[Relation]:
        """Return a user's links between close names, the closest first; `qualifiers` tells how close."""
        parse_user_id(user_id, self.config.db_storage_config)
        return await recall_synonyms(user_id, self._store)

    async def unlink_synonyms(self, user_id: str) -> int:
        """Remove all links between close names and return how many; `delete_relation` removes a single one."""
        parse_user_id(user_id, self.config.db_storage_config)
        async with self._hold(user_id, self._embedder()) as hold:
            return await unlink_user(user_id, store=self._store, embedder=hold.embedder, confirm=hold.lease.confirm)

    async def reembed(
        self,
        user_id: str | None = None,
        on_progress: OnReembed | None = None,
        *,
        into: Growth | None = None,
    ) -> ReembedProgress:
        """Give the rows of one user, or of everyone, vectors of the attached embedder; no language model is asked.

        Rows that have them already are passed over, so that an interrupted call is done again by calling it again. Two
        models of one name count as one.

        Args:
            user_id: whose rows; None is everyone's.
            on_progress: called after each page of rows; may be a coroutine function.
            into: another memory, with a store of its own and its own embedder, that gets a copy with the same ids:
                this is the way to another dimension or metric. This store stays as it is; once a user's rows are
                copied, the ids on both sides are compared.

        Raises:
            EmbedderNotFoundError: no embedder is attached.
            EmbeddingCallError: the embedder failed for good; the pages before are done.
            StoreError: the copy is not the same as this store.
        """
        target = into or self
        if into is not None and into.db_backend.identity == self.db_backend.identity:
            raise InvalidInputError("`into` is a memory on the same store; give it another uri or name.")
        embedder = target._embedder()
        done = ReembedProgress()
        for user in await self._users(user_id):
            if into is None:
                async with self._hold(user, embedder) as hold:
                    stores = Stores(self._store, self._store, embedder, hold.lease.confirm)
                    done = await reembed_user(user, stores, before=done, on_progress=on_progress)
                continue
            async with self._hold(user, self._embedder()), into._hold(user, embedder) as hold:
                stores = Stores(self._store, into._store, embedder, hold.lease.confirm)
                done = await reembed_user(user, stores, before=done, on_progress=on_progress)
        return done
