"""A user's whole graph as JSON Lines, and back into a memory. Reads and writes files and the store.

`lines.py` says what such a file looks like.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from typing import BinaryIO

from jiuwen_memory.errors import LockLostError
from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.graph_object import OBJECT_TYPES, BaseGraphObject
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.integrations.exchange.files import Place, new_file, stored_file
from jiuwen_memory.integrations.exchange.lines import (
    PAGE,
    Digest,
    Header,
    library_version,
    model_line,
    object_line,
    read_header,
    read_objects,
    verify,
)
from jiuwen_memory.integrations.exchange.renaming import with_new_ids
from jiuwen_memory.integrations.exchange.reports import ExportReport, ImportReport, OnProgress, Progress
from jiuwen_memory.integrations.exchange.writing import Task, commit_objects
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.commit import WRITE_ORDER
from jiuwen_memory.memory_core.graph.graph_memory.requests import parse_user_id
from jiuwen_memory.memory_core.graph.graph_memory.services import attached_embedder


async def export_graph(
    memory: GraphMemory,
    user_id: str,
    path_or_file: Place,
    *,
    vectors: bool = False,
    on_progress: OnProgress | None = None,
) -> ExportReport:
    """Write a user's graph to a file, whole, so that `import_graph` makes the same graph of it.

    The user's lock is held meanwhile. A path gets its new content when all of it is written; one that ends in `.gz` is
    compressed. Adds that wait to be resumed are not part of the graph.

    Args:
        path_or_file: a path, or a file opened for writing bytes.
        vectors: write the vectors too: several times the size, and nothing to embed at the import.

    Raises:
        InvalidInputError: there is no such user id, or the path cannot be written.
        LockLostError: somebody else wrote meanwhile.
    """
    user = parse_user_id(user_id, memory.config.db_storage_config)
    store = memory.db_backend
    async with memory.hold(user) as lease:
        listed = {name: await _recall_ids(name, user, store) for name in WRITE_ORDER}
        header = Header(
            library=library_version(),
            user_id=user,
            counts={name: len(ids) for name, ids in listed.items()},
            embedder=attached_embedder(store).name if store.embedder else "",
            dimension=memory.config.embed_dim,
            vectors=vectors,
        )
        digest, first, done = Digest(), model_line(header), 0
        digest.add_header(first)
        with new_file(path_or_file) as file:
            await off_loop(None, file.write, first)
            for name, ids in listed.items():
                for start in range(0, len(ids), PAGE):
                    page = await _recall_page(name, ids[start : start + PAGE], user, store=store, vectors=vectors)
                    await off_loop(None, _write_page, page, file, digest, vectors)
                    done += len(page)
                    if on_progress:
                        on_progress(Progress(done, header.total))
            trailer = digest.trailer()
            await lease.confirm()
            if trailer.counts != header.counts:
                raise LockLostError(
                    f"Objects of {user!r} went while they were exported: somebody writes without the same lock. Export "
                    "again, and give all processes RedisUserLocks."
                )
            await off_loop(None, file.write, model_line(trailer))
    return ExportReport(user, trailer.counts, trailer.graph_sha256)


async def import_graph(
    memory: GraphMemory,
    path_or_file: Place,
    *,
    user_id: str | None = None,
    replace: bool = False,
    new_ids: bool = False,
    on_progress: OnProgress | None = None,
) -> ImportReport:
    """Make a graph of a file that `export_graph` wrote, and tell what was new.

    The file is read whole and compared with the store before anything is written. Then its objects are committed, 200
    at a time. If that is interrupted, importing again goes on: what is stored as it shall be is passed over. Texts are
    embedded unless the file brings vectors of the model that is attached.

    Args:
        path_or_file: a path, or a seekable file opened for reading bytes, which is read from its beginning.
        user_id: whose the graph shall be; by default the user it was exported from.
        replace: objects take the place of those with the same id and other content.
        new_ids: give every object another id, made of the old one and the user. A copy beside the original needs it,
            for an id is one object's in the whole store.

    Raises:
        ExchangeVersionError: a newer version wrote the file.
        ExchangeFileError: the file is damaged or cut off.
        ExchangeConflictError: ids of it are another user's, or exist with other content and without `replace`.
        InvalidInputError: the file cannot be read, or an object does not fit this store.
        EmbeddingCallError, StoreError: writing failed in the middle.
    """
    storage = memory.config.db_storage_config
    with stored_file(path_or_file) as file:
        header = await off_loop(None, read_header, file)
        user = parse_user_id(header.user_id if user_id is None else user_id, storage)
        file.seek(0)
        await off_loop(None, verify, file, user)
        task = Task(
            user,
            pages=partial(_pages, file, user, new_ids),
            total=header.total,
            replace=replace,
            hint="" if new_ids else " With new_ids=True the graph is copied under ids of its own.",
            on_progress=on_progress,
        )
        async with memory.hold(user) as lease:
            return await commit_objects(task, lease, memory)


async def _pages(file: BinaryIO, user_id: str, new_ids: bool) -> AsyncGenerator[list[BaseGraphObject], None]:
    file.seek(0)
    pages = read_objects(file, user_id)
    while page := await off_loop(None, next, pages, None):
        yield [with_new_ids(each, user_id) for each in page] if new_ids else page


async def _recall_ids(collection: str, user_id: str, store: GraphStore) -> list[str]:
    """Return the ids of a user's objects, newest first, in the same order each time."""
    listed = await store.query(
        collection, user=filter_user(user_id), output_fields=["uuid", "created_at"], consistency="strong"
    )
    return [each.uuid for each in sorted(listed, key=lambda each: (-each.created_at, each.uuid))]


async def _recall_page(
    collection: str, ids: list[str], user_id: str, *, store: GraphStore, vectors: bool
) -> list[BaseGraphObject]:
    fields = list(OBJECT_TYPES[collection].model_fields) if vectors else None
    return await store.query(collection, user=filter_user(user_id), ids=ids, output_fields=fields, consistency="strong")


def _write_page(page: list[BaseGraphObject], file: BinaryIO, digest: Digest, vectors: bool) -> None:
    for each in page:
        line = object_line(each, vectors=vectors)
        file.write(line)
        digest.add_object(line, each.collection)
