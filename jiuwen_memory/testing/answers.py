"""The smallest answer that fits a JSON schema, for models that play along. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue


def smallest_answer(schema: Mapping[str, object], root: Mapping[str, object] | None = None) -> JsonValue:
    """Return the smallest JSON value that fits a schema; a list that must name ids names each of them once."""
    root = schema if root is None else root
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return smallest_answer(_target(reference, root), root)
    for key in ("enum", "anyOf", "oneOf", "allOf"):
        choices = schema.get(key)
        if isinstance(choices, list) and choices:
            return smallest_answer(choices[0], root) if isinstance(choices[0], Mapping) else choices[0]
    if "const" in schema:
        return schema["const"]  # type: ignore[return-value]
    kinds = schema.get("type", "object")
    kind = kinds[0] if isinstance(kinds, list) else kinds
    if kind == "array":
        return _list(schema, root)
    if kind == "object":
        return _object(schema, root)
    shortest, lowest = schema.get("minLength", 0), schema.get("minimum", 0)
    plain: dict[str, JsonValue] = {
        "string": "x" * shortest if isinstance(shortest, int) else "",
        "integer": int(lowest) if isinstance(lowest, int | float) else 0,
        "number": float(lowest) if isinstance(lowest, int | float) else 0.0,
        "boolean": False,
    }
    return plain.get(str(kind))


def _target(reference: str, root: Mapping[str, object]) -> Mapping[str, object]:
    target: object = root
    for step in reference.removeprefix("#/").split("/"):
        target = target.get(step) if isinstance(target, Mapping) else None
    return target if isinstance(target, Mapping) else {}


def _list(schema: Mapping[str, object], root: Mapping[str, object]) -> JsonValue:
    count = schema.get("minItems", 0)
    items = schema.get("items")
    item = items if isinstance(items, Mapping) else {}
    if isinstance(item.get("$ref"), str):
        item = _target(str(item["$ref"]), root)
    properties = item.get("properties")
    ids = properties.get("id", {}).get("enum") if isinstance(properties, Mapping) else None
    one = smallest_answer(item, root) if count else None
    if isinstance(ids, list) and len(ids) == count and isinstance(one, dict):
        return [{**one, "id": number} for number in ids]
    return [one] * count if isinstance(count, int) else []


def _object(schema: Mapping[str, object], root: Mapping[str, object]) -> JsonValue:
    properties = schema.get("properties")
    required = schema.get("required")
    known = properties if isinstance(properties, Mapping) else {}
    names = required if isinstance(required, list) else []
    return {name: smallest_answer(known.get(name, {}), root) for name in names}
