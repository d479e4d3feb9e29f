"""Milvus schemas and indexes made from the table of columns, and the comparison with what a store already holds.

Touches the store's definitions only: it creates what is missing, loads it, and never drops anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jiuwen_memory.errors import SchemaMismatchError
from jiuwen_memory.foundation.store.graph.columns import Column, collection_columns
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.constants import JOURNAL_COLLECTION
from jiuwen_memory.foundation.store.graph.database_config import DistanceMetric

Columns = Mapping[str, Column]

METRICS: Final[Mapping[DistanceMetric, str]] = {"cosine": "COSINE", "euclidean": "L2", "dot": "IP"}
_SERVER_INDEXES: Final = {"AUTO": "AUTOINDEX", "FLAT": "FLAT", "HNSW": "HNSW", "IVF": "IVF_FLAT"}
_OPENINGS: Final = 8
BEING_MADE: Final = "_NEW"
"""What is added to the name of a collection while a migration fills it."""
_SPARSE_INDEX: Final = {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "BM25"}


def prepare_collection(client: Any, collection: str, *, config: GraphConfig, lite: bool) -> None:
    """Create the collection and its indexes as far as they are missing, and load it.

    Another process may be making the same new store at this moment; then it is looked at again a little later.

    Raises:
        SchemaMismatchError: the store holds it with other columns, another dimension or another metric.
    """
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

    again = Retrying(
        stop=stop_after_attempt(_OPENINGS),
        wait=wait_random_exponential(0.1, max=2),
        retry=retry_if_exception(_is_half_made),
        reraise=True,
    )
    again(_prepare, client, collection, config=config, lite=lite)


def _is_half_made(error: BaseException) -> bool:
    from pymilvus.exceptions import MilvusException

    return isinstance(error, MilvusException) and any(word in str(error).lower() for word in ("exist", "not found"))


def _prepare(client: Any, collection: str, *, config: GraphConfig, lite: bool) -> None:
    if not client.has_collection(collection, timeout=config.timeout):
        _check_not_migrating(client, collection, config=config)
    make_collection(client, collection, collection, config=config, lite=lite)


def _check_not_migrating(client: Any, collection: str, *, config: GraphConfig) -> None:
    """Refuse to make a new collection where a migration stopped between taking one away and putting the other there."""
    if client.has_collection(f"{collection}{BEING_MADE}", timeout=config.timeout):
        raise SchemaMismatchError(
            f"A migration of this store was interrupted while {collection} was exchanged. Nothing is lost; call "
            "`migrate()` again, which finishes it."
        )


def make_collection(client: Any, name: str, collection: str, *, config: GraphConfig, lite: bool) -> None:
    """Create a collection of this kind under a name, with its indexes, as far as they are missing, and load it.

    Raises:
        SchemaMismatchError: there is one of this name, with other columns, another dimension or another metric.
    """
    columns = collection_columns(collection, config)
    timeout = config.timeout
    if not client.has_collection(name, timeout=timeout):
        schema = build_schema(columns, config=config, partitioned=not lite)
        client.create_collection(name, schema=schema, timeout=timeout)
    wanted = index_settings(collection, columns, config=config, lite=lite)
    differences = column_differences(columns, client.describe_collection(name, timeout=timeout))
    # Without the right columns there is nothing to be said about their indexes.
    differences = differences or index_differences(client, name, wanted, keys=("metric_type",), config=config)
    if differences:
        _refuse(name, differences)
    present = set(client.list_indexes(name))
    missing = [column for column in wanted if column not in present]
    if missing:
        parameters = client.prepare_index_params()
        for column in missing:
            parameters.add_index(field_name=column, index_name=column, **wanted[column])
        # Waiting for each index costs half a second a piece, and loading waits anyway.
        client.create_index(name, parameters, sync=False, timeout=timeout)
    client.load_collection(name, timeout=timeout)


def build_schema(columns: Columns, *, config: GraphConfig, partitioned: bool) -> Any:
    """Return the Milvus schema of a collection; without dynamic fields, so that a misspelt name is an error."""
    from pymilvus import Function, FunctionType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    for number, column in enumerate(columns.values()):
        schema.add_field(column.name, **_field(column, number, config=config, partitioned=partitioned))
    if "content_bm25" in columns:
        schema.add_function(
            Function(
                name="search_text_bm25",
                function_type=FunctionType.BM25,
                input_field_names=["search_text"],
                output_field_names=["content_bm25"],
            )
        )
    return schema


def index_settings(collection: str, columns: Columns, *, config: GraphConfig, lite: bool) -> dict[str, dict[str, Any]]:
    """Return the settings of each index by column. Scalar indexes bring nothing on Lite and are left out there."""
    settings = {name: _vector_index(collection, column, config=config, lite=lite) for name, column in columns.items()}
    wanted = {name: setting for name, setting in settings.items() if setting}
    if not lite:
        wanted.update({name: {"index_type": "INVERTED"} for name, column in columns.items() if column.indexed})
    return wanted


def _field(column: Column, number: int, *, config: GraphConfig, partitioned: bool) -> dict[str, Any]:
    from pymilvus import DataType

    if column.kind == "int":
        return {"datatype": DataType.INT64}
    if column.kind == "json":
        return {"datatype": DataType.JSON}
    if column.kind == "dense":
        return {"datatype": DataType.FLOAT_VECTOR, "dim": column.dim}
    if column.kind == "sparse":
        return {"datatype": DataType.SPARSE_FLOAT_VECTOR}
    if column.kind == "array":
        return {
            "datatype": DataType.ARRAY,
            "element_type": DataType.VARCHAR,
            "max_capacity": column.capacity,
            "max_length": column.limit,
        }
    settings: dict[str, Any] = {"datatype": DataType.VARCHAR, "max_length": column.limit}
    if number == 0:
        settings["is_primary"] = True
    if column.name == "user_id" and partitioned:
        settings["is_partition_key"] = True
    if column.name == "search_text":
        analyzer = config.db_embed_config.bm25_analyzer_settings or {"tokenizer": "standard"}
        settings.update(enable_analyzer=True, analyzer_params=dict(analyzer))
    return settings


def _vector_index(collection: str, column: Column, *, config: GraphConfig, lite: bool) -> dict[str, Any]:
    embed = config.db_embed_config
    if column.kind == "sparse":
        return {**_SPARSE_INDEX, "params": _build_params(embed.bm25_config.model_dump(), lite=lite)}
    if column.kind != "dense":
        return {}
    if collection == JOURNAL_COLLECTION:
        return {"index_type": "FLAT", "metric_type": "L2", "params": {}}
    kind = embed.index_type.index_type
    # Lite's own AUTOINDEX is a graph index that loses most hits under a user filter.
    name = "FLAT" if lite and kind == "AUTO" else _SERVER_INDEXES[kind]
    params = _build_params({**embed.index_type.build_params(), **embed.extra_configs}, lite=lite)
    return {"index_type": name, "metric_type": METRICS[embed.distance_metric], "params": params}


def _build_params(params: dict[str, Any], *, lite: bool) -> dict[str, Any]:
    # pymilvus flattens the parameters; Lite 3.2 looks for them under "params" only and else silently takes its own.
    return {"params": params} if lite else params


def column_differences(columns: Columns, described: Mapping[str, Any]) -> list[str]:
    """Return in what a stored collection is not what it should be, column by column."""
    stored = {field["name"]: field for field in described["fields"]}
    differences = [f"{name} is missing in the store" for name in columns if name not in stored]
    differences += [f"{name} is in the store only" for name in stored if name not in columns]
    for name, column in columns.items():
        if name in stored:
            differences += _field_differences(column, stored[name])
    return differences


def _field_differences(column: Column, stored: Mapping[str, Any]) -> Sequence[str]:
    wanted = _kind_name(column)
    found = stored["type"].name
    if found != wanted:
        return [f"{column.name} is {found} in the store and {wanted} in the configuration"]
    params = stored.get("params") or {}
    if column.kind == "dense" and int(params.get("dim", column.dim)) != column.dim:
        return [f"{column.name} has dimension {params['dim']} in the store and {column.dim} in the configuration"]
    limits = {"max_length": column.limit, "max_capacity": column.capacity}
    return [
        f"{column.name} has {limit} {params[limit]} in the store and {value} in the configuration"
        for limit, value in limits.items()
        if value and int(params.get(limit, value)) < value
    ]


def _kind_name(column: Column) -> str:
    names = {
        "text": "VARCHAR",
        "int": "INT64",
        "json": "JSON",
        "array": "ARRAY",
        "dense": "FLOAT_VECTOR",
        "sparse": "SPARSE_FLOAT_VECTOR",
    }
    return names[column.kind]


def index_differences(
    client: Any, name: str, wanted: Mapping[str, Mapping[str, Any]], *, keys: Sequence[str], config: GraphConfig
) -> list[str]:
    """Return the stored indexes in which one of these settings is another than it should be."""
    differences = []
    for column in set(client.list_indexes(name)) & wanted.keys():
        found = client.describe_index(name, index_name=column, timeout=config.timeout)
        for key in keys:
            setting = wanted[column].get(key)
            if setting is not None and found.get(key, setting) != setting:
                differences.append(
                    f"{column} is indexed by {found[key]} in the store and by {setting} in the configuration"
                )
    return sorted(differences)


def _refuse(collection: str, differences: Sequence[str]) -> None:
    raise SchemaMismatchError(
        f"The store's {collection} does not fit the configuration: {'; '.join(differences)}. Nothing was changed. "
        "`migrate()` makes it anew with these settings. Or use those the store was built with; with them, "
        "`reembed(into=...)` copies it into a store of other settings. Or give another uri or name."
    )
