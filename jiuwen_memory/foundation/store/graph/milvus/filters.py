"""Filter expressions written in the part of Milvus's language that Milvus Lite and servers share. Touches nothing.

Lite knows no filter templates, so every literal is written out here, and only here.
"""

from __future__ import annotations

from collections.abc import Sequence

from jiuwen_memory.errors import QueryExpressionError
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
from jiuwen_memory.foundation.store.query.expressions import Scalar

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_LAST_CHARACTER = "\U0010ffff"
_BEFORE_SURROGATES = "\ud7ff"
_AFTER_SURROGATES = "\ue000"


def quote(text: str) -> str:
    """Return the text as a literal that cannot end early. JSON's escapes will not do: Lite refuses `\\uXXXX`."""
    return f'"{text.translate(_ESCAPES)}"'


def literal(value: Scalar) -> str:
    """Return a value as a literal."""
    return quote(value) if isinstance(value, str) else repr(value)


def json_literal(value: Scalar) -> str:
    """Return a value as a literal beside a JSON path, where true and false are small."""
    return str(value).lower() if isinstance(value, bool) else literal(value)


def any_of(field: str, values: Sequence[Scalar]) -> str:
    """Return the condition that a column is one of the values."""
    return f"{field} in [{', '.join(map(literal, values))}]"


def render(expr: QueryExpr) -> str:
    """Return a simplified, checked filter as Milvus reads it."""
    if isinstance(expr, And):
        return " and ".join(map(_render_part, expr.parts))
    if isinstance(expr, Or):
        return " or ".join(map(_render_part, expr.parts))
    if isinstance(expr, Not):
        return f"not ({render(expr.part)})"
    if isinstance(expr, Comparison):
        return f"{expr.field} {expr.operator} {literal(expr.value)}"
    if isinstance(expr, InList):
        return any_of(expr.field, expr.values)
    if isinstance(expr, StartsWith):
        return _render_prefix(expr)
    if isinstance(expr, ArrayContains):
        return f"array_contains({expr.field}, {quote(expr.value)})"
    if isinstance(expr, JsonComparison):
        return f"{expr.field}[{quote(expr.key)}] {expr.operator} {json_literal(expr.value)}"
    raise QueryExpressionError(f"{type(expr).__name__} is not a filter this store understands.")


def _render_part(expr: QueryExpr) -> str:
    return f"({render(expr)})" if isinstance(expr, And | Or | StartsWith) else render(expr)


def _render_prefix(expr: StartsWith) -> str:
    # A range instead of `like`, whose wildcards are escaped differently from one version to the next.
    lower = f"{expr.field} >= {quote(expr.prefix)}"
    after = _after(expr.prefix)
    return f"{lower} and {expr.field} < {quote(after)}" if after else lower


def _after(prefix: str) -> str:
    """Return the first text, by code points, that follows all texts with this prefix; "" if there is none."""
    stem = prefix.rstrip(_LAST_CHARACTER)
    if not stem:
        return ""
    following = _AFTER_SURROGATES if stem[-1] == _BEFORE_SURROGATES else chr(ord(stem[-1]) + 1)
    return stem[:-1] + following
