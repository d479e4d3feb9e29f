"""A store, a model and an embedder that tell a hook of every call made to them, before and after it is done.

The hook may do anything: count, raise, cancel the task, kill the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar

from jiuwen_memory import GraphMemory, GraphStore, GraphStoreFactory
from jiuwen_memory.foundation.llm.model import ChatReply
from jiuwen_memory.foundation.store.graph import BaseGraphObject, Hit, Journal, JournalEntry, StoreAround
from jiuwen_memory.foundation.store.graph.result_ranking import Channel
from jiuwen_memory.testing import FakeEmbedder, FakeLLM

T = TypeVar("T")
When = Literal["before", "after"]
Hook = Callable[[str, When], None]
"""Gets the call, such as `store.upsert ENTITY_COLLECTION`, `model EntityExtraction` or `embedder`."""


def do_nothing(call: str, when: When) -> None:
    """The hook of a world without faults."""


class Hooks:
    """What store, model and embedder of one memory share: the hook of the moment."""

    def __init__(self) -> None:
        self.hook: Hook = do_nothing

    async def around(self, call: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do a call between two words to the hook; each is a point where a cancellation is noticed."""
        self.hook(call, "before")
        await asyncio.sleep(0)
        result = await work()
        self.hook(call, "after")
        await asyncio.sleep(0)
        return result


class HookedJournal:
    """The journal of a hooked store."""

    def __init__(self, journal: Journal, hooks: Hooks) -> None:
        self._journal = journal
        self._hooks = hooks

    async def put(self, entry: JournalEntry) -> None:
        await self._hooks.around(f"journal.put {entry.kind}", lambda: self._journal.put(entry))

    async def entries(self, user_id: str | None = None) -> list[JournalEntry]:
        return await self._hooks.around("journal.entries", lambda: self._journal.entries(user_id))

    async def remove(self, plan_id: str, user_id: str) -> None:
        await self._hooks.around("journal.remove", lambda: self._journal.remove(plan_id, user_id))

    async def drop_unfinished(self, user_id: str) -> int:
        return await self._hooks.around("journal.drop_unfinished", lambda: self._journal.drop_unfinished(user_id))

    async def unfinished(self, user_id: str | None = None) -> dict[str, int]:
        return await self._hooks.around("journal.unfinished", lambda: self._journal.unfinished(user_id))

    async def clear(self, user_id: str) -> None:
        await self._hooks.around("journal.clear", lambda: self._journal.clear(user_id))


class HookedStore(StoreAround):
    """Does what the store inside does; `hooked-memory` and `hooked-milvus` are its backends."""

    inner = "memory"

    def __init__(self, store: GraphStore) -> None:
        super().__init__(store)
        self.hooks = Hooks()
        self.journal = HookedJournal(store.journal, self.hooks)

    async def upsert(self, collection: str, objects: Sequence[BaseGraphObject]) -> None:
        await self.hooks.around(f"store.upsert {collection}", lambda: self._store.upsert(collection, objects))

    async def delete(self, collection: str, ids: Sequence[str], *, user_id: str) -> None:
        await self.hooks.around(
            f"store.delete {collection}", lambda: self._store.delete(collection, ids, user_id=user_id)
        )

    async def flush(self, collections: Sequence[str]) -> None:
        await self.hooks.around("store.flush", lambda: self._store.flush(collections))

    async def query(self, collection: str, **options: Any) -> list[BaseGraphObject]:
        return await self.hooks.around(f"store.query {collection}", lambda: self._store.query(collection, **options))

    async def search(self, collection: str, queries: Sequence[Any], **options: Any) -> list[list[Hit]]:
        return await self.hooks.around(
            f"store.search {collection}", lambda: self._store.search(collection, queries, **options)
        )

    async def routes(self, collection: str, query: Any, **options: Any) -> dict[Channel, list[Hit]]:
        return await self.hooks.around(
            f"store.routes {collection}", lambda: self._store.routes(collection, query, **options)
        )

    async def count(self, collection: str, **options: Any) -> int:
        return await self.hooks.around(f"store.count {collection}", lambda: self._store.count(collection, **options))


class HookedMilvus(HookedStore):
    """A hooked store around Milvus."""

    inner = "milvus"


GraphStoreFactory.register_backend("hooked-memory", HookedStore, force=True)
GraphStoreFactory.register_backend("hooked-milvus", HookedMilvus, force=True)


class HookedLLM:
    """A model whose calls the hooks learn of."""

    def __init__(self, llm: FakeLLM, hooks: Hooks) -> None:
        self._llm = llm
        self._hooks = hooks

    async def invoke(self, *, messages: Any, response_format: Any = None, **kwargs: object) -> ChatReply:
        question = response_format["json_schema"]["name"]
        return await self._hooks.around(
            f"model {question}", lambda: self._llm.invoke(messages=messages, response_format=response_format, **kwargs)
        )


class HookedEmbedder(FakeEmbedder):
    """An embedder whose calls the hooks learn of."""

    def __init__(self, dimension: int, hooks: Hooks) -> None:
        super().__init__(dimension)
        self._hooks = hooks

    async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[list[float]]:
        work = super().embed_documents
        return await self._hooks.around("embedder", lambda: work(texts, batch_size))


def hook_up(memory: GraphMemory) -> Hooks:
    """Let the hooks of a memory's store learn of the calls to its model and its embedder too."""
    store, llm = memory.db_backend, memory.llm_client
    if not isinstance(store, HookedStore) or not isinstance(llm, FakeLLM):
        raise TypeError("This memory has no hooked store, or no model of ours.")
    memory.llm_client = HookedLLM(llm, store.hooks)
    memory.attach_embedder(HookedEmbedder(memory.config.embed_dim, store.hooks))
    return store.hooks
