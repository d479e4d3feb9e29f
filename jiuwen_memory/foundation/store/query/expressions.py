"""Filter expressions as a small typed tree; no string is ever spliced into a filter by hand.

>>> (eq("obj_type", "Human") & gte("mention_count", 2)) | in_list("uuid", ["a", "b"])
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Literal

from jiuwen_memory.errors import QueryExpressionError

Scalar = str | int | float | bool
Operator = Literal["==", "!=", ">", ">=", "<", "<="]


class QueryExpr:
    """A condition on a stored row."""

    def __and__(self, other: QueryExpr) -> QueryExpr:
        return And((self, other))

    def __or__(self, other: QueryExpr) -> QueryExpr:
        return Or((self, other))

    def __invert__(self) -> QueryExpr:
        return Not(self)

    @abstractmethod
    def matches(self, row: Mapping[str, Any]) -> bool:
        """Tell whether a row fulfils the condition."""

    @abstractmethod
    def fields(self) -> frozenset[str]:
        """Return the columns the condition names."""


@dataclass(frozen=True)
class Comparison(QueryExpr):
    """`field operator value`."""

    field: str
    operator: Operator
    value: Scalar

    def matches(self, row: Mapping[str, Any]) -> bool:
        found = row.get(self.field)
        if found is None:
            return False
        if self.operator == "==":
            return bool(found == self.value)
        if self.operator == "!=":
            return bool(found != self.value)
        if self.operator == ">":
            return bool(found > self.value)
        if self.operator == ">=":
            return bool(found >= self.value)
        if self.operator == "<":
            return bool(found < self.value)
        return bool(found <= self.value)

    def fields(self) -> frozenset[str]:
        return frozenset({self.field})


@dataclass(frozen=True)
class InList(QueryExpr):
    """`field` is one of `values`; an empty list matches nothing."""

    field: str
    values: tuple[Scalar, ...]

    def matches(self, row: Mapping[str, Any]) -> bool:
        return row.get(self.field) in self._distinct

    @cached_property
    def _distinct(self) -> frozenset[Scalar]:
        # The ids of a session may be thousands, and are looked through once a row.
        return frozenset(self.values)

    def fields(self) -> frozenset[str]:
        return frozenset({self.field})


@dataclass(frozen=True)
class StartsWith(QueryExpr):
    """A text column begins with `prefix`."""

    field: str
    prefix: str

    def matches(self, row: Mapping[str, Any]) -> bool:
        return str(row.get(self.field) or "").startswith(self.prefix)

    def fields(self) -> frozenset[str]:
        return frozenset({self.field})


@dataclass(frozen=True)
class ArrayContains(QueryExpr):
    """An array column holds `value`. Slow on Milvus Lite, which looks at every row in turn."""

    field: str
    value: str

    def matches(self, row: Mapping[str, Any]) -> bool:
        return self.value in (row.get(self.field) or ())

    def fields(self) -> frozenset[str]:
        return frozenset({self.field})


@dataclass(frozen=True)
class JsonComparison(QueryExpr):
    """The value under `key` of a JSON column compares so; a row without the key, or of another type there, never does.

    It cannot stand under `~`. Slow on Milvus Lite, which looks at every row in turn.
    """

    field: str
    key: str
    operator: Operator
    value: Scalar

    def matches(self, row: Mapping[str, Any]) -> bool:
        document = row.get(self.field)
        found = document.get(self.key) if isinstance(document, Mapping) else None
        if _kind_of(found) != _kind_of(self.value):
            return False
        return Comparison("value", self.operator, self.value).matches({"value": found})

    def fields(self) -> frozenset[str]:
        return frozenset({self.field})


def _kind_of(value: object) -> type | None:
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, int | float) else str if isinstance(value, str) else None


@dataclass(frozen=True)
class And(QueryExpr):
    """All of `parts` hold."""

    parts: tuple[QueryExpr, ...]

    def matches(self, row: Mapping[str, Any]) -> bool:
        return all(part.matches(row) for part in self.parts)

    def fields(self) -> frozenset[str]:
        return frozenset().union(*(part.fields() for part in self.parts))


@dataclass(frozen=True)
class Or(QueryExpr):
    """One of `parts` holds."""

    parts: tuple[QueryExpr, ...]

    def matches(self, row: Mapping[str, Any]) -> bool:
        return any(part.matches(row) for part in self.parts)

    def fields(self) -> frozenset[str]:
        return frozenset().union(*(part.fields() for part in self.parts))


@dataclass(frozen=True)
class Not(QueryExpr):
    """`part` does not hold."""

    part: QueryExpr

    def matches(self, row: Mapping[str, Any]) -> bool:
        return not self.part.matches(row)

    def fields(self) -> frozenset[str]:
        return self.part.fields()


def eq(field: str, value: Scalar) -> QueryExpr:
    """The column equals the value."""
    return Comparison(field, "==", value)


def ne(field: str, value: Scalar) -> QueryExpr:
    """The column differs from the value."""
    return Comparison(field, "!=", value)


def gt(field: str, value: Scalar) -> QueryExpr:
    """The column is greater than the value."""
    return Comparison(field, ">", value)


def gte(field: str, value: Scalar) -> QueryExpr:
    """The column is at least the value."""
    return Comparison(field, ">=", value)


def lt(field: str, value: Scalar) -> QueryExpr:
    """The column is less than the value."""
    return Comparison(field, "<", value)


def lte(field: str, value: Scalar) -> QueryExpr:
    """The column is at most the value."""
    return Comparison(field, "<=", value)


def in_list(field: str, values: Iterable[Scalar]) -> QueryExpr:
    """The column is one of the values; an empty list matches nothing."""
    if isinstance(values, str):
        raise QueryExpressionError(f"in_list({field!r}, ...) got a string; give a list of values.")
    return InList(field, tuple(dict.fromkeys(values)))


def starts_with(field: str, prefix: str) -> QueryExpr:
    """A text column begins with the prefix."""
    return StartsWith(field, prefix)


def array_contains(field: str, value: str) -> QueryExpr:
    """An array column holds the value."""
    return ArrayContains(field, value)


def json_value(field: str, key: str, value: Scalar, *, operator: Operator = "==") -> QueryExpr:
    """The value under a key of a JSON column compares so; a row without the key never does, whatever the operator."""
    return JsonComparison(field, key, operator, value)


def qualifier(key: str, value: Scalar, *, operator: Operator = "==") -> QueryExpr:
    """A relation's qualifier compares so: `qualifier("place", "Turin")`, `qualifier("time", "2024-03", operator=">=")`.

    Times are ISO 8601 as exact as they were said, so that they compare as texts.
    """
    return json_value("qualifiers", key, value, operator=operator)


def filter_user(user_id: str | Sequence[str]) -> QueryExpr:
    """The row belongs to this user, or to one of these. No user is an error, never 'everyone'."""
    users = [user_id] if isinstance(user_id, str) else list(user_id)
    if not users:
        raise QueryExpressionError("The list of user ids is empty; name at least one user.")
    return eq("user_id", users[0]) if len(users) == 1 else in_list("user_id", users)


def chain_filters(*filters: QueryExpr | None) -> QueryExpr:
    """All of the given filters hold; `None` is passed over."""
    given = [each for each in filters if each is not None]
    if not given:
        raise QueryExpressionError("chain_filters got no filter at all.")
    return reduce(lambda left, right: left & right, given)
