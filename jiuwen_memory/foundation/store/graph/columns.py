"""The columns of every collection, in one table from which schema, validation and the strict test store are derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from jiuwen_memory.errors import CollectionNotSupportedError
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.constants import (
    ARRAY_LIMIT,
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    JOURNAL_COLLECTION,
    RELATION_COLLECTION,
    VARCHAR_LIMIT,
)
from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig

ColumnKind = Literal["text", "int", "json", "array", "dense", "sparse"]

JSON_LIMIT: Final = 65_536
"""Bytes a Milvus server takes in one JSON column."""
LABEL_LIMIT: Final = 512
"""Bytes of a text that a caller sets freely: a source, a session, a key."""
HASH_LIMIT: Final = 128
WORD_LIMIT: Final = 16
PAYLOAD_LIMIT: Final = 60_000
"""Bytes of a plan in one journal row."""
NORMALISED_GROWTH: Final = 12
"""Compatibility forms grow under NFKC: U+FDFA goes from 3 bytes to 33."""
JOURNAL_DIM: Final = 2

# Columns an object is not itself without: defaults would put something untrue in their place.
IDENTITY: Final = frozenset(
    {"uuid", "user_id", "obj_type", "language", "created_at", "name", "kind", "ends", "lhs", "rhs"}
)


@dataclass(frozen=True)
class Column:
    """One column.

    `limit` counts UTF-8 bytes of a text, of an array's element or of a JSON value, `characters` is a further limit in
    characters, `capacity` an array's length, `dim` a vector's. `indexed` asks a server for a scalar index.
    """

    name: str
    kind: ColumnKind
    limit: int = 0
    capacity: int = 0
    characters: int = 0
    dim: int = 0
    indexed: bool = False


def text(name: str, limit: int, *, indexed: bool = False) -> Column:
    """A text of at most `limit` bytes."""
    return Column(name, "text", limit=limit, indexed=indexed)


def integers(*names: str) -> tuple[Column, ...]:
    """Whole numbers of 64 bits."""
    return tuple(Column(name, "int") for name in names)


def documents(*names: str) -> tuple[Column, ...]:
    """JSON values."""
    return tuple(Column(name, "json", limit=JSON_LIMIT) for name in names)


def array(name: str, limit: int, *, capacity: int = ARRAY_LIMIT) -> Column:
    """A list of texts of at most `limit` bytes each."""
    return Column(name, "array", limit=limit, capacity=capacity)


def collection_columns(collection: str, config: GraphConfig) -> dict[str, Column]:
    """Return the columns of a collection by name, the primary key first.

    Raises:
        CollectionNotSupportedError: there is no such collection.
    """
    sizes = config.db_storage_config
    if collection == JOURNAL_COLLECTION:
        columns = _journal_columns(sizes)
    elif collection == ENTITY_COLLECTION:
        columns = (*_shared_columns(sizes, config.embed_dim), *_entity_columns(sizes, config.embed_dim))
    elif collection == RELATION_COLLECTION:
        columns = (*_shared_columns(sizes, config.embed_dim), *_relation_columns(sizes))
    elif collection == EPISODE_COLLECTION:
        columns = (*_shared_columns(sizes, config.embed_dim), *_episode_columns(sizes))
    else:
        raise CollectionNotSupportedError(
            f"There is no collection {collection!r}; use {ENTITY_COLLECTION}, {RELATION_COLLECTION} or "
            f"{EPISODE_COLLECTION}."
        )
    return {column.name: column for column in columns}


def readable_columns(columns: Mapping[str, Column]) -> frozenset[str]:
    """Return the columns that can be read back: all but the BM25 vectors, which Milvus keeps to itself."""
    return frozenset(name for name, column in columns.items() if column.kind != "sparse")


def user_column(sizes: GraphStoreStorageConfig) -> Column:
    """The owner: limited in characters, of at most four bytes each."""
    return Column("user_id", "text", limit=sizes.user_id * 4, characters=sizes.user_id, indexed=True)


def _shared_columns(sizes: GraphStoreStorageConfig, dim: int) -> tuple[Column, ...]:
    return (
        text("uuid", sizes.uuid),
        user_column(sizes),
        text("obj_type", sizes.obj_type, indexed=True),
        text("language", sizes.language),
        *integers("created_at"),
        text("content", sizes.content),
        text("search_text", VARCHAR_LIMIT),
        Column("content_embedding", "dense", dim=dim),
        Column("content_bm25", "sparse"),
        text("embedding_key", HASH_LIMIT),
        *documents("metadata", "extra"),
    )


def _name_columns(sizes: GraphStoreStorageConfig) -> tuple[Column, ...]:
    return (
        text("name", sizes.name),
        text("name_norm", min(sizes.name * NORMALISED_GROWTH, VARCHAR_LIMIT), indexed=True),
    )


def _entity_columns(sizes: GraphStoreStorageConfig, dim: int) -> tuple[Column, ...]:
    return (
        *_name_columns(sizes),
        Column("name_embedding", "dense", dim=dim),
        array("aliases", sizes.name),
        *documents("attributes", "merged_from"),
        array("relations", sizes.uuid, capacity=sizes.relations),
        array("episodes", sizes.uuid, capacity=sizes.episodes),
        array("sources", LABEL_LIMIT),
        *integers("mention_count", "first_mentioned_at", "last_mentioned_at"),
    )


def _relation_columns(sizes: GraphStoreStorageConfig) -> tuple[Column, ...]:
    return (
        *_name_columns(sizes),
        text("kind", WORD_LIMIT),
        text("ends", WORD_LIMIT),
        text("lhs", sizes.uuid, indexed=True),
        text("rhs", sizes.uuid, indexed=True),
        text("lhs_origin", sizes.uuid),
        text("rhs_origin", sizes.uuid),
        *integers("valid_since", "offset_since", "valid_until", "offset_until", "stated_until", "stated_offset"),
        *(text(name, WORD_LIMIT) for name in ("precision_since", "precision_until", "stated_precision")),
        *integers("expired_at", "mention_count", "first_mentioned_at", "last_mentioned_at"),
        array("superseded_by", sizes.uuid),
        *documents("qualifiers"),
        array("episodes", sizes.uuid, capacity=sizes.episodes),
        array("sources", LABEL_LIMIT),
    )


def _episode_columns(sizes: GraphStoreStorageConfig) -> tuple[Column, ...]:
    return (
        *integers("valid_since", "offset_since", "part", "parts"),
        array("entities", sizes.uuid, capacity=sizes.entities),
        text("session_id", LABEL_LIMIT, indexed=True),
        text("source", LABEL_LIMIT),
        array("speakers", sizes.name),
        text("content_hash", HASH_LIMIT, indexed=True),
        text("idempotency_key", LABEL_LIMIT, indexed=True),
        text("group", HASH_LIMIT, indexed=True),
        array("parents", sizes.uuid),
    )


def _journal_columns(sizes: GraphStoreStorageConfig) -> tuple[Column, ...]:
    return (
        text("key", 2 * HASH_LIMIT),
        text("plan_id", HASH_LIMIT),
        user_column(sizes),
        text("kind", WORD_LIMIT),
        text("payload", PAYLOAD_LIMIT),
        *integers("number", "created_at"),
        *documents("extra"),
        Column("placeholder", "dense", dim=JOURNAL_DIM),
    )
