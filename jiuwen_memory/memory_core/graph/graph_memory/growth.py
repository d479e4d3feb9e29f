"""What is done with a whole graph at once: counting it, linking close names, embedding it anew."""

from __future__ import annotations

from functools import partial

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.store.graph.graph_object import Relation
from jiuwen_memory.memory_core.graph.graph_memory.parts import check_listener
from jiuwen_memory.memory_core.graph.graph_memory.reembed import OnReembed, ReembedProgress, copy_user, reembed_user
from jiuwen_memory.memory_core.graph.graph_memory.requests import parse_user_id
from jiuwen_memory.memory_core.graph.graph_memory.statistics import GraphStatistics, recall_statistics
from jiuwen_memory.memory_core.graph.graph_memory.synonyms import (
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
        self, user_id: str, *, min_similarity: float | None = None, top_k: int | None = None
    ) -> SynonymReport:
        """Link entities whose names are close, as relations of the kind `synonym`; nothing is merged.

        Doing it again adds only what is missing. The user's lock is held for a page of entities at a time.

        Args:
            user_id: whose entities are linked.
            min_similarity: cosine of two name vectors from which on they are close; left out, it is
                `AddMemStrategy.synonym_min_similarity`.
            top_k: how many of the nearest each entity is linked to, at most; left out, it is
                `AddMemStrategy.synonym_top_k`.
        """
        parse_user_id(user_id, self.config.db_storage_config)
        closeness = Closeness.wanted(self.extraction_strategy, min_similarity=min_similarity, top_k=top_k)
        return await link_user(
            user_id, closeness, store=self._store, hold=partial(self._hold, user_id, self._embedder())
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
        models of one name count as one. The user's lock is held for a page of rows at a time, for a copy throughout.

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
        check_listener(on_progress)
        if into is not None and not isinstance(into, Growth):
            raise InvalidInputError(f"`into` is a {type(into).__name__}; give another GraphMemory, or leave it out.")
        target = into or self
        if into is not None and into.db_backend.identity == self.db_backend.identity:
            raise InvalidInputError("`into` is a memory on the same store; give it another uri or name.")
        embedder = target._embedder()
        done = ReembedProgress()
        for user in await self._users(user_id):
            if into is None:
                hold = partial(self._hold, user, embedder)
                done = await reembed_user(user, self._store, hold=hold, before=done, on_progress=on_progress)
                continue
            async with self._hold(user, self._embedder()), into._hold(user, embedder) as held:
                done = await copy_user(user, self._store, into._store, held=held, before=done, on_progress=on_progress)
        return done
