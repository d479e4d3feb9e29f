"""The protocol every graph store fulfils: keep rows by id, find them again, and keep a journal of plans.

A store never decides what is written: it is told whole rows and ids. Rows of different users are kept apart by the
`user` filter, which every reading method requires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self, runtime_checkable

from jiuwen_memory.foundation.ports import Embedding
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.foundation.store.graph.result_ranking import BaseRankConfig, Channel
from jiuwen_memory.foundation.store.query import QueryExpr

Consistency = Literal["strong", "session"]
JournalKind = Literal["header", "pending"]


@dataclass(frozen=True)
class SearchQuery:
    """One thing to look for: its plain words for BM25 (tokenised by the store) and its vector, if any."""

    text: str
    vector: Sequence[float] | None = None


@dataclass(frozen=True)
class Hit:
    """A found object and its score; a higher score is better."""

    score: float
    found: BaseGraphObject


@dataclass(frozen=True)
class JournalEntry:
    """One plan in the journal. `payload` is JSON text of any length; the store splits it as it must.

    `damage` says what is wrong with an entry that was not read as it was written: then `payload` is what is left of it.
    """

    plan_id: str
    user_id: str
    kind: JournalKind
    payload: str
    created_at: int
    damage: str = ""


class Journal(Protocol):
    """Plans that are to be applied (`header`), and requests that are still to be done (`pending`)."""

    async def put(self, entry: JournalEntry) -> None:
        """Write an entry: its chunks first, then the one row that makes it count."""

    async def entries(self, user_id: str | None = None) -> list[JournalEntry]:
        """Return whole entries, oldest first, read with strong consistency; a damaged one says so in its `damage`."""

    async def remove(self, plan_id: str, user_id: str) -> None:
        """Remove an entry: the row that makes it count first, then its chunks."""

    async def drop_unfinished(self, user_id: str) -> int:
        """Remove this user's chunks that no entry claims; return how many. Call it under the user's lock.

        Those of a damaged entry stay: they may be all that is left of it.
        """

    async def clear(self, user_id: str) -> None:
        """Remove everything of this user, damaged or not, without reading it."""

    async def unfinished(self, user_id: str | None = None) -> dict[str, int]:
        """Count the chunks that no entry claims, by owner; every owner of anything in the journal is listed.

        Damage does not get in its way. Without `user_id` it looks at everyone's.
        """


@runtime_checkable
class GraphStore(Protocol):
    """Keeps the three collections of a graph memory, and its journal.

    Opening happens on first use, off the event loop. A store may be used from several event loops and threads.
    """

    config: GraphConfig
    journal: Journal

    @classmethod
    def from_config(cls, config: GraphConfig, **kwargs: object) -> Self:
        """Build a store; no I/O happens here."""

    @property
    def identity(self) -> str:
        """What makes this store the same one as another object's: its real path, or URI and database."""

    @property
    def embedder(self) -> Embedding | None:
        """The attached embedding model."""

    def attach_embedder(self, embedder: Embedding) -> None:
        """Attach an embedding model whose dimension, once known, must be the configured one."""

    async def open(self) -> None:
        """Connect, and create what is missing. Calling it is optional; nothing stored is ever dropped.

        Raises:
            SchemaMismatchError: the store was built with another dimension or schema.
            StoreUnavailableError: it cannot be reached or opened.
        """

    async def upsert(self, collection: str, objects: Sequence[BaseGraphObject]) -> None:
        """Write whole objects by id, replacing what is there. Every vector must be present."""

    async def delete(self, collection: str, ids: Sequence[str], *, user_id: str) -> None:
        """Remove this user's rows of these ids; ids that are not there are passed over."""

    async def flush(self, collections: Sequence[str]) -> None:
        """Make written rows fast to read (Milvus Lite) or do nothing (a server, which must not be flushed)."""

    async def query(
        self,
        collection: str,
        *,
        user: QueryExpr,
        ids: Sequence[str] | None = None,
        expr: QueryExpr | None = None,
        limit: int | None = None,
        output_fields: Sequence[str] | None = None,
        consistency: Consistency = "session",
    ) -> list[BaseGraphObject]:
        """Return the objects that fulfil `user`, `ids` and `expr`, all of them unless `limit` says otherwise.

        With `ids` the order is that of `ids`; otherwise there is no order. `output_fields` names the columns to read
        (None: all but vectors); fields not read hold their defaults. Vectors are read only when named.
        """

    async def search(
        self,
        collection: str,
        queries: Sequence[SearchQuery],
        *,
        user: QueryExpr,
        rank: BaseRankConfig,
        limit: int,
        pool: int = 100,
        expr: QueryExpr | None = None,
        output_fields: Sequence[str] | None = None,
        consistency: Consistency = "session",
    ) -> list[list[Hit]]:
        """Return for each query its best `limit` hits, best first, after fusing the channels `rank` uses.

        `pool` is how many hits each channel brings. A query without words skips BM25, one without a vector the dense
        channels; either all queries of a call have a vector or none has. Rows that are to be written again must be
        read with `strong` consistency: another process may have changed them a moment ago.
        """

    async def routes(
        self,
        collection: str,
        query: SearchQuery,
        *,
        user: QueryExpr,
        channels: Sequence[Channel],
        limit: int = 100,
        expr: QueryExpr | None = None,
        output_fields: Sequence[str] | None = None,
        consistency: Consistency = "session",
    ) -> dict[Channel, list[Hit]]:
        """Return what each channel finds by itself, best first and at most `limit`, for a fusion of the caller's.

        A score is the channel's own, higher is better: a cosine, a dot product, a negative squared distance, or what
        BM25 gives. A channel that cannot be asked, for want of words or of a vector, is left out.
        """

    async def count(self, collection: str, *, user: QueryExpr) -> int:
        """Return how many rows of this user there are."""

    async def refresh(self) -> None:
        """Bring the store up to date after writes by others, and compact it where that is cheap."""

    async def close(self) -> None:
        """Let go of connections and files. Closing twice is fine; any other use afterwards is an error."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...


class Migration(Protocol):
    """The way from what a store holds to the schema that its settings ask for, one collection at a time.

    Nothing of the old collections changes before `swap`. Each step may be done again.
    """

    async def collections(self) -> dict[str, list[str]]:
        """Return the collections that are not as they should be, and in what; what was interrupted is finished."""

    async def ids(self, collection: str) -> list[str]:
        """Make the new collection if it is missing, and return the ids of the old one's rows, in order."""

    async def unlike(self, collection: str, ids: Sequence[str]) -> list[BaseGraphObject] | int:
        """Return the objects of these ids that the new collection does not hold as they are.

        Vectors of the right length come along. Rows of the journal are no objects: they are copied, and counted.
        """

    async def write(self, collection: str, objects: Sequence[BaseGraphObject]) -> None:
        """Write objects to the new collection. Every vector must be present."""

    async def verify(self, collection: str) -> int:
        """Return how many rows there are if both collections have the same ones.

        Raises:
            StoreError: they have not; both are left as they are.
        """

    async def swap(self, collections: Sequence[str], *, keep_old: bool) -> None:
        """Put the new collections in the place of the old ones, and drop all old ones unless they are to be kept."""

    async def close(self) -> None:
        """Let go of the connection."""


@runtime_checkable
class Migratable(Protocol):
    """A store that can be brought to another schema."""

    def migration(self) -> Migration:
        """Return the way there."""
