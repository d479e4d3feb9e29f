"""What makes a graph anew from what is stored: reading all episodes again, or copying all rows to another schema."""

from __future__ import annotations

from jiuwen_memory.errors import InvalidInputError, JiuwenMemoryError
from jiuwen_memory.foundation.store.graph.base import Migratable
from jiuwen_memory.memory_core.config.graph import AddMemStrategy
from jiuwen_memory.memory_core.graph.extraction.asking import Budget
from jiuwen_memory.memory_core.graph.extraction.ontology import Ontology
from jiuwen_memory.memory_core.graph.graph_memory.growth import Growth
from jiuwen_memory.memory_core.graph.graph_memory.methods import METHODS
from jiuwen_memory.memory_core.graph.graph_memory.migrate import MigrationReport, OnMigration, migrate_store
from jiuwen_memory.memory_core.graph.graph_memory.parts import check_listener, check_strategy
from jiuwen_memory.memory_core.graph.graph_memory.rebuild import (
    OnRebuild,
    Reading,
    RebuildReport,
    clear_derived,
    read_again,
    rebuild_episodes,
    recall_verbatim,
    resolve_run,
)
from jiuwen_memory.memory_core.graph.graph_memory.requests import parse_user_id
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder, Services


class Renewal(Growth):
    """The part of `GraphMemory` that makes a graph anew."""

    async def rebuild(
        self,
        user_id: str,
        clear_first: bool = False,
        on_progress: OnRebuild | None = None,
        strategy: AddMemStrategy | None = None,
        *,
        run: str = "",
    ) -> RebuildReport:
        """Read a user's stored episodes again, in the order of their time, and put what they say now into the graph.

        Each episode is one write: what rests on it alone goes, what it says now comes. Episodes keep their ids, and so
        do entities that come back under their name. An episode that fails keeps its old facts, and the rest goes on. A
        repeated call passes over the episodes that were read with the same strategy, language, types and prompts; so
        an interrupted rebuild is finished by calling it again.

        Args:
            user_id: whose graph it is.
            clear_first: remove everything but the episodes before, so that nothing of the old graph has a say; ids are
                new then. A call that finds such a rebuild under way goes on with it.
            on_progress: called after each episode; may be a coroutine function.
            strategy: how the texts are read; by default as new ones are.
            run: a name for this rebuild; another name reads all episodes once more, as for another model.

        Raises:
            InvalidInputError: something given cannot be used.
            EmbedderNotFoundError, ModelNotFoundError: one of the two is not attached.
        """
        parse_user_id(user_id, self.config.db_storage_config)
        strategy = strategy or self.extraction_strategy
        check_strategy(strategy)
        check_listener(on_progress)
        if not isinstance(run, str):
            raise InvalidInputError(f"run is {run!r}; give a text, or leave it out.")
        services = self._services(strategy, self._embedder())
        mark = await resolve_run(run, services=services, prompts=self._prompts)
        async with self._hold(user_id, services.embedder) as hold:
            if clear_first:
                await clear_derived(mark, user_id=user_id, services=services, confirm=hold.lease.confirm)
            episodes = await recall_verbatim(user_id, self._store)

        async def read(uuid: str) -> Reading:
            # Each has a budget and a ledger of its own, as an add has.
            services = self._services(strategy, self._embedder())
            try:
                async with self._hold(user_id, services.embedder) as hold:
                    confirm = hold.lease.confirm
                    update = await read_again(uuid, mark, user_id=user_id, services=services, confirm=confirm)
            except JiuwenMemoryError as error:
                return Reading(error=error, usage=services.asker.ledger.usage)
            return Reading(update, usage=services.asker.ledger.usage)

        return await rebuild_episodes([each.uuid for each in episodes], read=read, on_progress=on_progress)

    async def migrate(self, on_progress: OnMigration | None = None, *, keep_old: bool = False) -> MigrationReport:
        """Bring the whole store, everyone's rows in it, to the schema of this version and of this memory's settings.

        New collections are filled beside the old ones; when every row is there, they are exchanged and the old ones
        dropped. Until then nothing of the old ones changes. An interrupted call is finished by calling it again. Let
        nobody write to the store meanwhile.

        Args:
            on_progress: called after each page of rows; may be a coroutine function.
            keep_old: leave the old collections there, under `..._OLD`, until a later call drops them.

        Raises:
            InvalidInputError: the store is of a backend that cannot do this.
            EmbedderNotFoundError: vectors have to be made anew, and no embedder is attached.
            StoreError: the new collections are not the same as the old ones, or a row does not fit; nothing changed.
        """
        if not isinstance(self._store, Migratable):
            raise InvalidInputError(
                f"A store of the backend {self.config.backend!r} cannot be migrated; open a memory on another "
                "store and copy into it with `reembed(into=...)`."
            )
        check_listener(on_progress)
        migration = self._store.migration()
        try:
            return await migrate_store(migration, embedder=self._embedder, keep_old=keep_old, on_progress=on_progress)
        finally:
            await migration.close()

    def _services(
        self,
        strategy: AddMemStrategy,
        embedder: Embedder,
        *,
        ontology: Ontology | None = None,
        budget: Budget | None = None,
    ) -> Services:
        """Return what one text is read with: a ledger of its own, and our own types unless others are given."""
        essential = METHODS[strategy.extraction].essential
        own_budget = Budget(strategy.max_llm_calls, strategy.max_tokens, essential=essential)
        return Services(
            store=self._store,
            embedder=embedder,
            asker=self._asker(self._model(), budget or own_budget),
            strategy=strategy,
            language=self.language,
            ontology=ontology or self.ontology,
        )
