"""A graph store with the schema of JiuwenMemory 0.1.2, written by plain pymilvus, row by row as that package does.

`write_legacy_store.py` has the package write one itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jiuwen_memory import ENTITY_COLLECTION, EPISODE_COLLECTION, RELATION_COLLECTION

DIMENSION = 32
TEXTS = {
    "uuid": 32,
    "user_id": 32,
    "obj_type": 20,
    "language": 10,
    "name": 500,
    "content": 65_535,
    "lhs": 32,
    "rhs": 32,
}
COLUMNS: Mapping[str, Mapping[str, str]] = {
    ENTITY_COLLECTION: {
        **{"name": "text", "name_embedding": "vector", "attributes": "json", "relations": "list", "episodes": "list"},
    },
    RELATION_COLLECTION: {
        **{"valid_since": "time", "valid_until": "time", "offset_since": "offset", "offset_until": "offset"},
        **{"name": "text", "lhs": "text", "rhs": "text"},
    },
    EPISODE_COLLECTION: {"valid_since": "time", "entities": "list"},
}
SHARED = {
    **{"uuid": "text", "created_at": "time", "user_id": "text", "obj_type": "text", "language": "text"},
    **{"metadata": "json", "content": "text", "content_embedding": "vector"},
}
DEFAULTS: Mapping[str, Any] = {
    **{"metadata": {}, "attributes": {}, "language": "en", "user_id": "ann", "relations": [], "episodes": []},
    **{"entities": [], "valid_since": -1, "valid_until": -1, "offset_since": 0, "offset_until": 0},
    **{"name_embedding": [0.5] * DIMENSION, "content_embedding": [0.5] * DIMENSION},
}
Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def write_store(path: Path, rows: Rows) -> None:
    """Make a store at a path and write these rows; columns that a row leaves out have their usual value."""
    with _client(path) as client:
        for collection, columns in COLUMNS.items():
            _make_collection(client, collection, {**SHARED, **columns})
            listed = [
                {name: row.get(name, DEFAULTS.get(name)) for name in {**SHARED, **columns}}
                for row in rows.get(collection, ())
            ]
            if listed:
                client.insert(collection, listed)
                client.flush(collection)


def read_store(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of a store, without vectors, by collection."""
    found = {}
    with _client(path) as client:
        for collection, columns in COLUMNS.items():
            client.load_collection(collection)
            fields = [name for name, kind in {**SHARED, **columns}.items() if kind != "vector"]
            rows = client.query(collection, filter='uuid != ""', output_fields=fields)
            found[collection] = sorted(
                ({name: row[name] for name in fields} for row in rows), key=lambda row: row["uuid"]
            )
    return found


def search_store(path: Path, collection: str, text: str, *, user: str) -> list[str]:
    """Return the ids that a search for words finds in a store, best first."""
    with _client(path) as client:
        client.load_collection(collection)
        (found,) = client.search(
            collection,
            [text],
            anns_field="content_bm25",
            search_params={"metric_type": "BM25"},
            filter=f'user_id == "{user}"',
            output_fields=["uuid"],
            limit=5,
        )
        return [str(hit["entity"]["uuid"]) for hit in found]


def fingerprint(path: Path) -> dict[str, str]:
    """Return the hash of every file of a store."""
    files = sorted(each for each in path.rglob("*") if each.is_file() and each.name != "LOCK")
    return {str(each.relative_to(path)): hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


@contextmanager
def _client(path: Path) -> Iterator[Any]:
    from milvus_lite.server_manager import server_manager_instance
    from pymilvus import MilvusClient

    client = MilvusClient(str(path))
    try:
        yield client
    finally:
        client.close()
        server_manager_instance.release_server(str(path))


def _make_collection(client: Any, collection: str, columns: Mapping[str, str]) -> None:
    from pymilvus import DataType, Function, FunctionType, MilvusClient

    schema = MilvusClient.create_schema(enable_dynamic_field=True)
    kinds = {"time": DataType.INT64, "offset": DataType.INT8, "json": DataType.JSON}
    analysed = {"enable_analyzer": True, "analyzer_params": {"tokenizer": "standard"}}
    for name, kind in columns.items():
        if kind == "text":
            settings: dict[str, object] = {"is_primary": True, "auto_id": False} if name == "uuid" else {}
            settings |= analysed if name in ("obj_type", "content") else {}
            schema.add_field(name, DataType.VARCHAR, max_length=TEXTS[name], **settings)
        elif kind == "list":
            schema.add_field(name, DataType.ARRAY, element_type=DataType.VARCHAR, max_length=32, max_capacity=4096)
        elif kind == "vector":
            schema.add_field(name, DataType.FLOAT_VECTOR, dim=DIMENSION)
        else:
            schema.add_field(name, kinds[kind])
    schema.add_field("content_bm25", DataType.SPARSE_FLOAT_VECTOR)
    schema.add_function(
        Function(
            name="bm25_func",
            function_type=FunctionType.BM25,
            input_field_names=["content"],
            output_field_names=["content_bm25"],
        )
    )
    indexes = client.prepare_index_params()
    for name in (name for name, kind in columns.items() if kind == "vector"):
        indexes.add_index(field_name=name, index_type="AUTOINDEX", metric_type="COSINE")
    indexes.add_index(field_name="content_bm25", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
    client.create_collection(collection, schema=schema)
    client.create_index(collection, indexes, sync=False)
