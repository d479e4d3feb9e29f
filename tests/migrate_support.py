"""Stores to be migrated: one of today, one as a first release would have made it, and what is in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    MigrationProgress,
)
from jiuwen_memory.errors import LLMCallError
from jiuwen_memory.foundation.store.graph.columns import collection_columns
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS, JOURNAL_COLLECTION
from jiuwen_memory.foundation.store.graph.milvus.connection import MilvusConnection
from jiuwen_memory.foundation.store.graph.milvus.schema import build_schema, index_settings
from tests.memory_support import taught

LATER = {
    ENTITY_COLLECTION: {"merged_from", "sources", "first_mentioned_at", "last_mentioned_at", "extra"},
    RELATION_COLLECTION: {"qualifiers", "ends", "lhs_origin", "rhs_origin", "stated_until", "sources", "extra"},
    EPISODE_COLLECTION: {"group", "parents", "idempotency_key", "part", "parts", "extra"},
    JOURNAL_COLLECTION: {"created_at"},
}
"""Columns that a first release, as it might have been, did not have."""
ROWS = {ENTITY_COLLECTION: 4, RELATION_COLLECTION: 2, EPISODE_COLLECTION: 3}


class StoppedError(Exception):
    """The caller has had enough."""


async def filled(config: GraphConfig) -> None:
    """Make a store of today with two users, and an add that waits."""
    world = taught(config=config.model_copy(update={"request_max_retries": 1}))
    for user in ("ann", "bob"):
        await world.learn(
            "Tom lives in Oslo.",
            types={"Tom": "Human", "Oslo": "Entity"},
            said=[("Tom", "lives in", "Oslo", "Tom lives in Oslo.", "2020")],
            user=user,
        )
    await world.learn("It rained.", user="bob")
    world.llm.replies["EntityExtraction"] = ValueError("down")
    with pytest.raises(LLMCallError):
        await world.memory.add_memory(EpisodeType.DOCUMENT, "ann", "Tom sings.")
    await world.memory.close()


async def aged(config: GraphConfig) -> None:
    """Make a store as a first release would have: with the same rows, and without the columns that came later."""
    await filled(config)
    await age(config)


async def age(config: GraphConfig) -> None:
    """Take the columns that came later from a store."""
    connection = MilvusConnection(config, prepare=lambda client, lite: None)
    await connection.write("Making an old store", lambda client: make_old(client, config))
    await connection.close()


def make_old(client: Any, config: GraphConfig) -> None:
    """Put collections with fewer columns in the place of today's."""
    for collection, later in LATER.items():
        columns = {each: column for each, column in collection_columns(collection, config).items() if each not in later}
        names = [name for name, column in columns.items() if column.kind != "sparse"]
        key = next(iter(columns))
        client.load_collection(collection)
        rows = client.query(collection, filter=f'{key} != ""', output_fields=names)
        client.drop_collection(collection)
        client.create_collection(collection, schema=build_schema(columns, config=config, partitioned=False))
        parameters = client.prepare_index_params()
        for name, setting in index_settings(collection, columns, config=config, lite=True).items():
            parameters.add_index(field_name=name, index_name=name, **setting)
        client.create_index(collection, parameters, sync=False)
        client.load_collection(collection)
        client.upsert(collection, [{name: row[name] for name in names} for row in rows])
        client.flush(collection)


async def listed(config: GraphConfig) -> list[str]:
    """Return the names of the collections that are there."""
    connection = MilvusConnection(config, prepare=lambda client, lite: None)
    names: list[str] = await connection.read("Listing", lambda client: client.list_collections())
    await connection.close()
    return sorted(names)


async def held(memory: GraphMemory) -> dict[str, Any]:
    """Return all that is stored, by id, but what was in columns that an old store lacks."""
    lacking = set().union(*LATER.values()) | {"created_at", "embedding_key"}
    return {
        each.uuid: each.model_dump(exclude=lacking)
        for user in ("ann", "bob")
        for name in GRAPH_COLLECTIONS
        async for each in memory.objects(name, user)
    }


def stopping(collection: str) -> Callable[[MigrationProgress], None]:
    """Return what stops a migration when it has done with a collection."""

    def stop(progress: MigrationProgress) -> None:
        if progress.collection == collection:
            raise StoppedError

    return stop
