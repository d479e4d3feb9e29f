"""What every store refuses before anything is sent: rows that do not fit, filters and columns that do not exist.

Limits are a Milvus server's, counted as it counts them; Milvus Lite alone would let many of them pass.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from jiuwen_memory.errors import QueryExpressionError, StoreParameterError
from jiuwen_memory.foundation.ports import Embedding
from jiuwen_memory.foundation.store.graph.base import SearchQuery
from jiuwen_memory.foundation.store.graph.columns import IDENTITY, Column, readable_columns
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.graph_object import OBJECT_TYPES, BaseGraphObject, Row
from jiuwen_memory.foundation.store.query import (
    And,
    ArrayContains,
    Comparison,
    InList,
    JsonComparison,
    Not,
    Or,
    QueryExpr,
    StartsWith,
)

INT_LIMIT: Final = 2**63
VECTOR_LIMIT: Final = 1e15
"""The squares of 32,768 such numbers, the most that a store takes, add up to less than a float of 32 bits holds."""
JSON_DEPTH: Final = 100
_LONG_NUMBER: Final = re.compile(r"\d{19}")
_JSON_KEY: Final = re.compile(r"[\w .-]{1,100}")
"""Keys that every backend reads alike inside `column["key"]`."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
Simplified = QueryExpr | bool


def check_row(row: Row, columns: Mapping[str, Column], *, collection: str) -> None:
    """Refuse a row that does not fit its columns.

    Raises:
        StoreParameterError: names the column, the size and the limit.
    """
    for name, column in columns.items():
        if column.kind == "sparse":
            continue
        where = f"{collection}.{name} of row {row.get('uuid') or row.get('key')!r}"
        if name not in row:
            raise StoreParameterError(f"{where} is missing; a row is written whole, vectors included.")
        _check_value(row[name], column, where=where)


def check_vector(vector: Sequence[float], dim: int, *, where: str) -> None:
    """Refuse a vector of the wrong length, or with a value that is not a finite number."""
    if len(vector) != dim:
        raise StoreParameterError(
            f"{where} has {len(vector)} values, the store holds vectors of {dim}; embed_dim must equal the embedder's "
            "dimension."
        )
    if not are_comparable(vector):
        raise StoreParameterError(
            f"{where} holds a value that is not a finite number, or is huge; check the embedding model."
        )


def are_comparable(numbers: Sequence[float]) -> bool:
    """Tell whether a vector's numbers are finite, and small enough to be compared in 32 bits, as stores do."""
    # NaN in the middle hides from `max`, but not from a sum.
    return math.isfinite(sum(numbers)) and min(numbers) > -VECTOR_LIMIT and max(numbers) < VECTOR_LIMIT


def check_queries(queries: Sequence[SearchQuery], dim: int) -> bool:
    """Tell whether the queries have vectors; refuse a mixture, and vectors that do not fit."""
    vectors = [query.vector for query in queries if query.vector is not None]
    if vectors and len(vectors) != len(queries):
        raise StoreParameterError(
            f"{len(vectors)} of {len(queries)} queries of one search have a vector; give all of them one, or none."
        )
    for vector in vectors:
        check_vector(vector, dim, where="The query vector")
    return bool(vectors)


def check_embedder(embedder: Embedding, config: GraphConfig) -> None:
    """Refuse what is no embedding model, and one whose known dimension is not the store's."""
    if isinstance(embedder, type) or not isinstance(embedder, Embedding):
        is_class = isinstance(embedder, type)
        given = f"the class {embedder.__name__} itself" if is_class else f"a {type(embedder).__name__}"
        raise StoreParameterError(
            f"The embedding model is {given}; give an APIEmbedding, a LocalEmbedding, one of LangChain, or any object "
            "with a `dimension` and the async methods embed_query(text) and embed_documents(texts, batch_size)."
        )
    dimension = embedder.dimension
    if dimension is not None and dimension != config.embed_dim:
        raise StoreParameterError(
            f"The embedding model makes vectors of {dimension} values, GraphConfig.embed_dim is {config.embed_dim}; "
            "make them equal."
        )


def check_objects(objects: Sequence[BaseGraphObject], collection: str) -> None:
    """Refuse objects of another kind than the collection's."""
    kind = OBJECT_TYPES[collection]
    for each in objects:
        if not isinstance(each, kind):
            raise StoreParameterError(f"{collection} holds {kind.__name__} objects, not {type(each).__name__}.")


def check_limit(limit: int | None, *, what: str = "limit") -> None:
    """Refuse a negative number of rows."""
    if limit is not None and limit < 0:
        raise StoreParameterError(f"{what} is {limit}; give 0 or more.")


def json_text(value: object) -> str:
    """Return a value as a JSON column keeps it.

    Raises:
        ValueError, TypeError: no store can keep it, or none could read it again.
    """
    written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # Milvus would only say so in the middle of a write. Most values need no closer look.
    if _LONG_NUMBER.search(written) or written.count("[") + written.count("{") > JSON_DEPTH:
        _check_leaves(value)
    return written


def storable_ids(ids: Iterable[str]) -> list[str]:
    """Return the distinct ids without those that no row can have: one with a lone surrogate cannot even be sent."""
    return [each for each in dict.fromkeys(ids) if each.isascii() or not _SURROGATE.search(each)]


def check_filter(expr: QueryExpr, columns: Mapping[str, Column]) -> None:
    """Refuse a filter over unknown columns, or with values a column cannot have.

    Raises:
        QueryExpressionError: names the column.
    """
    if isinstance(expr, And | Or):
        for part in expr.parts:
            check_filter(part, columns)
    elif isinstance(expr, Not):
        _check_negation(expr.part)
        check_filter(expr.part, columns)
    elif isinstance(expr, Comparison):
        _check_operand(expr.field, (expr.value,), columns)
    elif isinstance(expr, InList):
        _check_operand(expr.field, expr.values, columns)
    elif isinstance(expr, StartsWith):
        _check_operand(expr.field, (expr.prefix,), columns)
    elif isinstance(expr, ArrayContains):
        if _column(expr.field, columns).kind != "array":
            raise QueryExpressionError(f"{expr.field} is not a list; array_contains works on lists only.")
        _check_text(expr.value, expr.field)
    elif isinstance(expr, JsonComparison):
        _check_json_operand(expr, columns)
    else:
        raise QueryExpressionError(f"{type(expr).__name__} is not a filter this store understands.")


def _check_negation(expr: QueryExpr) -> None:
    if isinstance(expr, JsonComparison):
        raise QueryExpressionError(
            f"A condition on {expr.field}[{expr.key!r}] cannot be negated by ~, for stores differ on rows without the "
            "key; turn its operator round instead."
        )
    for part in expr.parts if isinstance(expr, And | Or) else ():
        _check_negation(part)
    if isinstance(expr, Not):
        _check_negation(expr.part)


def check_user(user: QueryExpr) -> None:
    """Refuse an owner filter that names anything but the owner, or lets everyone through by accident."""
    if user.fields() != frozenset({"user_id"}) or simplify(user) is True:
        raise QueryExpressionError("A read must name whose rows it wants; build the user filter with filter_user(...).")


def simplify(expr: QueryExpr) -> Simplified:
    """Return the filter without constant parts, or True or False where nothing else remains."""
    if isinstance(expr, InList) and not expr.values:
        return False
    if isinstance(expr, Not):
        part = simplify(expr.part)
        return not part if isinstance(part, bool) else Not(part)
    if isinstance(expr, And):
        return _simplify_parts(expr, absorbing=False)
    if isinstance(expr, Or):
        return _simplify_parts(expr, absorbing=True)
    return expr


def selected_fields(
    output_fields: Iterable[str] | None, columns: Mapping[str, Column], *, collection: str
) -> list[str]:
    """Return the columns to read: the named ones and what an object is not whole without; None means all but vectors.

    Raises:
        QueryExpressionError: a column does not exist or cannot be read.
    """
    known = [name for name in columns if name in OBJECT_TYPES[collection].model_fields]
    if output_fields is None:
        return [name for name in known if columns[name].kind != "dense"]
    wanted = set(output_fields)
    unknown = sorted(wanted - readable_columns(columns))
    if unknown:
        raise QueryExpressionError(
            f"{collection} has no column {', '.join(unknown)} to read; there are {', '.join(known)}."
        )
    return [name for name in known if name in wanted or name in IDENTITY]


def _simplify_parts(expr: And | Or, *, absorbing: bool) -> Simplified:
    kept: list[QueryExpr] = []
    for part in expr.parts:
        simple = simplify(part)
        if simple is absorbing:
            return absorbing
        if isinstance(simple, type(expr)):
            kept.extend(simple.parts)
        elif not isinstance(simple, bool):
            kept.append(simple)
    if not kept:
        return not absorbing
    return kept[0] if len(kept) == 1 else type(expr)(tuple(kept))


def _check_value(value: Any, column: Column, *, where: str) -> None:
    if column.kind == "text":
        _check_bytes(value, column.limit, where=where)
        if column.characters and len(value) > column.characters:
            raise StoreParameterError(
                f"{where} has {len(value)} characters, the limit is {column.characters}; shorten it, or raise "
                "GraphStoreStorageConfig's limit."
            )
    elif column.kind == "array":
        if len(value) > column.capacity:
            raise StoreParameterError(f"{where} has {len(value)} elements, the limit is {column.capacity}.")
        for element in value:
            _check_bytes(element, column.limit, where=f"An element of {where}")
    elif column.kind == "dense":
        check_vector(value, column.dim, where=where)
    elif column.kind == "json":
        _check_json(value, column.limit, where=where)
    elif not -INT_LIMIT <= value < INT_LIMIT:
        raise StoreParameterError(f"{where} is {value}, which does not fit into 64 bits.")


def _check_bytes(value: str, limit: int, *, where: str) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise StoreParameterError(f"{where} holds a lone surrogate, which no store can keep.") from error
    if size > limit:
        raise StoreParameterError(
            f"{where} has {size} UTF-8 bytes, the limit is {limit}; shorten it, or raise the limit in "
            "GraphStoreStorageConfig."
        )


def _check_json(value: object, limit: int, *, where: str) -> None:
    try:
        written = json_text(value)
    except (TypeError, ValueError) as error:
        raise StoreParameterError(f"{where} cannot be written as JSON: {error}.") from error
    _check_bytes(written, limit, where=where)


def _check_leaves(value: object, depth: int = 0) -> None:
    if depth > JSON_DEPTH:
        raise ValueError(f"it is nested more than {JSON_DEPTH} deep")
    if isinstance(value, int) and not -INT_LIMIT <= value < INT_LIMIT:
        raise ValueError("it holds a whole number that does not fit into 64 bits")
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for each in parts:
        _check_leaves(each, depth + 1)


def _column(field: str, columns: Mapping[str, Column]) -> Column:
    if field not in columns:
        raise QueryExpressionError(f"There is no column {field!r} to filter by; there are {', '.join(columns)}.")
    return columns[field]


def _check_operand(field: str, values: Sequence[object], columns: Mapping[str, Column]) -> None:
    kind = _column(field, columns).kind
    if kind not in ("text", "int"):
        raise QueryExpressionError(f"{field} is a {kind} column, which cannot be compared; filter by another column.")
    for value in values:
        if kind == "text":
            _check_text(value, field)
        elif not _is_number(value):
            raise QueryExpressionError(f"{field} holds numbers of 64 bits and cannot be compared with {value!r}.")


def _is_number(value: object) -> bool:
    """Tell whether a store can compare numbers with this one; Lite and the store in memory differ over larger ones."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -INT_LIMIT <= value < INT_LIMIT if isinstance(value, int) else math.isfinite(value)


def _check_json_operand(expr: JsonComparison, columns: Mapping[str, Column]) -> None:
    if _column(expr.field, columns).kind != "json":
        raise QueryExpressionError(f"{expr.field} is no JSON column; compare it by eq(...) and the like.")
    if not isinstance(expr.key, str) or not _JSON_KEY.fullmatch(expr.key):
        raise QueryExpressionError(
            f"{expr.key!r} cannot be a key in a filter on {expr.field}; use letters, digits, spaces, '_', '-' and '.'."
        )
    if isinstance(expr.value, str):
        _check_text(expr.value, expr.field)
    elif not isinstance(expr.value, bool) and not _is_number(expr.value):
        raise QueryExpressionError(f"{expr.field}[{expr.key!r}] cannot be compared with {expr.value!r}.")
    elif isinstance(expr.value, bool) and expr.operator not in ("==", "!="):
        raise QueryExpressionError(f"{expr.value!r} has no order; compare it by == or !=.")


def _check_text(value: object, field: str) -> None:
    if not isinstance(value, str):
        raise QueryExpressionError(f"{field} holds texts and cannot be compared with {value!r}.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise QueryExpressionError(f"A filter on {field} holds a lone surrogate; clean the text.") from error
