"""Attributes as the model gives them, held against the fields of their type. Values in, values out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel, JsonValue, ValidationError, create_model
from pydantic.errors import PydanticUserError

from jiuwen_memory.foundation.store.graph.checks import json_text
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.base import JsonSchema
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import TypeDef
from jiuwen_memory.memory_core.graph.extraction.reply import is_placeholder

_TEXT: Final[JsonSchema] = {"type": "string", "maxLength": 200}
_NONE: Final[JsonSchema] = {"type": "null"}
_PLAIN: Final = ("integer", "number", "boolean")
_REASON: Final = 160


@dataclass(frozen=True, slots=True)
class Refused:
    """A value that does not fit its field, and why."""

    field: str
    value: JsonValue
    reason: str

    def told(self, owner: str) -> str:
        """Return it as part of a warning; `owner` is the entity or the fact that it was given for."""
        shown = json.dumps(self.value, ensure_ascii=False)[:60]
        return f"{self.field!r} of {owner[:40]!r} is refused: {shown}"


@dataclass(frozen=True, slots=True)
class Filled:
    """The values that fit, as the type stores them, and those that do not."""

    values: Mapping[str, JsonValue] = field(default_factory=dict)
    refused: Sequence[Refused] = ()


def resolve_attributes(kind: type[TypeDef], given: JsonValue, *, known: Mapping[str, JsonValue]) -> Filled:
    """Return what of an answer's attributes is valid for a type, each value in the form that its field stores.

    A field that is not declared, null, or only says that nothing is known, is passed over. What the model of a type
    checks across fields sees the `known` values too; if it objects, all new values are refused. Required fields may be
    missing: nobody has said them yet.
    """
    if not isinstance(given, dict):
        return Filled()
    declared = [(model, set(model.model_fields) - _taken(kind, model)) for model in kind.models()]
    values: dict[str, JsonValue] = {}
    refused: list[Refused] = []
    for model, names in declared:
        new = {name: value for name, value in given.items() if name in names and not _is_nothing(value)}
        old = {name: value for name, value in known.items() if name in names and name not in new}
        filled = _validated(model, new, old=old) if new else Filled()
        values.update(filled.values)
        refused.extend(filled.refused)
    return Filled(values, refused)


def _taken(kind: type[TypeDef], model: type[BaseModel]) -> set[str]:
    """Return the fields of a model that a later one of the type replaces."""
    models = kind.models()
    return {name for later in models[models.index(model) + 1 :] for name in later.model_fields}


def _is_nothing(value: JsonValue) -> bool:
    return value in (None, [], {}) or (isinstance(value, str) and is_placeholder(value))


def _validated(model: type[BaseModel], new: Mapping[str, JsonValue], *, old: Mapping[str, JsonValue]) -> Filled:
    """Validate the new values beside the old ones, leaving out one bad value after the other."""
    left = dict(new)
    beside = dict(old)
    refused: list[Refused] = []
    while left:
        try:
            # As JSON, so that a strict field takes what its own values are stored as.
            made = _partial(model).model_validate_json(json.dumps({**beside, **left}), by_name=True)
        except ValidationError as error:
            objections = _objections(model, error)
            about_new = {name: reason for name, reason in objections.items() if name in left}
            stale = objections.keys() & beside.keys()
            if not about_new and not stale:
                about_new = dict.fromkeys(left, next(iter(objections.values())))
            refused += [Refused(name, left.pop(name), reason) for name, reason in about_new.items()]
            # A stored value that the type no longer accepts says nothing against the new ones.
            beside = {name: value for name, value in beside.items() if name not in stale}
        except (TypeError, AttributeError, LookupError, ArithmeticError) as error:
            reason = f"the type's own check failed on it: {error}"[:_REASON]
            return Filled({}, [*refused, *(Refused(name, value, reason) for name, value in left.items())])
        else:
            return _stored(made, left, refused=refused)
    return Filled({}, refused)


def _stored(made: BaseModel, left: Mapping[str, JsonValue], *, refused: Sequence[Refused]) -> Filled:
    """Return the validated values as JSON; what has no JSON form is refused."""
    values: dict[str, JsonValue] = {}
    unstorable: list[Refused] = []
    for name, given in left.items():
        try:
            value = made.model_dump(mode="json", include={name}, by_alias=False).get(name)
            json_text(value)
        except (ValueError, TypeError, PydanticUserError) as error:
            unstorable.append(Refused(name, given, f"it cannot be stored: {error}"[:_REASON]))
        else:
            values |= {} if value is None else {name: value}
            unstorable += [Refused(name, given, "its field makes nothing of it")] if value is None else []
    return Filled(values, [*refused, *unstorable])


def _objections(model: type[BaseModel], error: ValidationError) -> dict[str, str]:
    """Return the first objection to each field; one to the whole is under no name."""
    names = {str(each.validation_alias or each.alias or name): name for name, each in model.model_fields.items()}
    objections: dict[str, str] = {}
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        place = str(each["loc"][0]) if each["loc"] else ""
        objections.setdefault(names.get(place, place), each["msg"][:_REASON])
    return objections


@lru_cache(maxsize=256)
def _partial(model: type[BaseModel]) -> type[BaseModel]:
    """Return the model with nothing required: what has not been said yet is None."""
    required = {name: each for name, each in model.model_fields.items() if each.is_required()}
    if not required:
        return model
    optional: dict[str, Any] = {}
    for name, each in required.items():
        relaxed = copy(each)
        relaxed.default = None
        optional[name] = (each.annotation, relaxed)
    return create_model(model.__name__, __base__=model, **optional)


def value_schemas(kind: type[TypeDef], language: Language) -> dict[str, JsonSchema]:
    """Return the schema of each attribute's value in an answer: what its field takes, where that is simple, or null."""
    properties: dict[str, JsonSchema] = {}
    for model in kind.models():
        properties |= _simple_properties(model)
    return {name: {"anyOf": [_NONE, properties.get(name, _TEXT)]} for name in kind.fields(language)}


@lru_cache(maxsize=256)
def _simple_properties(model: type[BaseModel]) -> dict[str, JsonSchema]:
    try:
        schema = model.model_json_schema(by_alias=False, mode="validation")
    except PydanticUserError:
        # Some fields have no JSON schema; they are asked for as text.
        return dict.fromkeys(model.model_fields, _TEXT)
    definitions = schema.get("$defs", {})
    return {name: _simple(each, definitions) for name, each in schema.get("properties", {}).items()}


def _simple(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> JsonSchema:
    """Return what a model can be held to: a number, a truth value, one of some texts, a list of texts; or any text."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[-1]]
    parts = [each for each in schema.get("anyOf", ()) if each != _NONE]
    if len(parts) == 1:
        return _simple(parts[0], definitions)
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if choices and all(isinstance(each, str) for each in choices):
        return {"enum": list(choices)}
    if schema.get("type") in _PLAIN:
        return {"type": schema["type"]}
    if schema.get("type") == "array":
        return {"type": "array", "items": _simple(schema.get("items", {}), definitions), "maxItems": 20}
    return _TEXT
