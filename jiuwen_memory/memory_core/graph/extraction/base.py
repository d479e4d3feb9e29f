"""Answer models with field wording in two languages, and the closed JSON schemas made of them; touches nothing."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from jiuwen_memory.memory_core.config.graph import Language

JsonSchema = dict[str, Any]
"""A JSON schema; its values are of many types, hence `Any`."""
Changes = Mapping[str, Mapping[str, Any]]
"""What one call changes in a schema, by path: `{"entities[].type": {"enum": ["Human"]}}`."""

_WORDS = "words"
_BEYOND_STRICT = ("maxLength", "minLength")


@dataclass(frozen=True, slots=True)
class Words:
    """One wording in each language, used as an annotation: `Annotated[str, Words(en="...", cn="...")]`."""

    en: str
    cn: str

    def wording(self, language: Language) -> str:
        """Return the wording in a language."""
        wording: str = getattr(self, language)
        return wording

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        return {**handler(core_schema), _WORDS: self}


class MultilingualBaseModel(BaseModel):
    """A model of an answer; its class name is the name of the schema sent to the language model."""

    model_config = ConfigDict(defer_build=True, extra="ignore")

    @classmethod
    def multilingual_model_json_schema(
        cls, language: Language, strict: bool = False, *, changes: Changes | None = None
    ) -> JsonSchema:
        """Return the closed JSON schema in a language, without references.

        Args:
            strict: leave out the keywords that strict structured output of OpenAI refuses (lengths of strings).
            changes: what this call narrows, by path.
        """
        schema = copy.deepcopy(_tidy_schema(cls, language))
        for path, change in (changes or {}).items():
            _at(schema, path).update(change)
        return _without(schema, _BEYOND_STRICT) if strict else schema

    @classmethod
    def readable_schema(cls, language: Language, *, changes: Changes | None = None) -> str:
        """Return the shape of the answer as text, for models that take no schema."""
        return render_schema(cls.multilingual_model_json_schema(language, changes=changes))

    @classmethod
    def response_format(cls, language: Language, *, strict: bool = False, changes: Changes | None = None) -> JsonSchema:
        """Return the `response_format` parameter of a chat call."""
        return format_named(cls.__name__, cls.multilingual_model_json_schema(language, strict, changes=changes), strict)


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The answer one call asks for: a model, narrowed to the ids of the call, or an object keyed by numbers."""

    model: type[MultilingualBaseModel]
    changes: Changes = field(default_factory=dict)
    keyed: Mapping[str, JsonSchema] | None = None

    @property
    def name(self) -> str:
        """The schema's name."""
        return self.model.__name__

    def schema(self, language: Language) -> JsonSchema:
        """Return the closed schema of this call."""
        if self.keyed is not None:
            return closed_object(self.keyed)
        return self.model.multilingual_model_json_schema(language, changes=self.changes)

    def response_format(self, language: Language) -> JsonSchema:
        """Return the `response_format` parameter of this call."""
        return format_named(self.name, self.schema(language), False)

    def readable(self, language: Language) -> str:
        """Return the shape of the answer as text."""
        return render_schema(self.schema(language))


def format_named(name: str, schema: JsonSchema, strict: bool) -> JsonSchema:
    """Return a `response_format` for a schema."""
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": strict}}


def closed_object(properties: Mapping[str, JsonSchema]) -> JsonSchema:
    """Return the schema of an object that has exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def exactly(count: int) -> dict[str, int]:
    """Return the keywords of an array with that many items."""
    return {"minItems": count, "maxItems": count}


def render_schema(schema: JsonSchema) -> str:
    """Return a schema the way a person would write an example of it."""
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(render_schema(part) for part in schema["anyOf"])
    kind = schema.get("type")
    if kind == "object":
        inner = (f'"{key}": {render_schema(value)}' for key, value in schema.get("properties", {}).items())
        return "{" + ", ".join(inner) + "}"
    if kind == "array":
        return f"[{render_schema(schema['items'])}, ...]"
    return str(schema.get("description") or kind)


@lru_cache(maxsize=64)
def _tidy_schema(model: type[MultilingualBaseModel], language: Language) -> JsonSchema:
    raw = model.model_json_schema(by_alias=False)
    return _tidy(raw, raw.get("$defs", {}), language)


def _tidy(schema: JsonSchema, definitions: Mapping[str, JsonSchema], language: Language) -> JsonSchema:
    words = schema.get(_WORDS)
    described = {"description": words.wording(language)} if isinstance(words, Words) else {}
    if "$ref" in schema:
        return {**_tidy(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions, language), **described}
    if isinstance(schema.get("additionalProperties"), dict):
        values = _tidy(schema["additionalProperties"], definitions, language)
        return {"type": "object", "additionalProperties": values} | described
    if schema.get("type") == "object":
        properties = schema.get("properties", {}).items()
        return closed_object({key: _tidy(value, definitions, language) for key, value in properties}) | described
    tidy = {key: value for key, value in schema.items() if key not in (_WORDS, "title", "default", "$defs")}
    if "items" in tidy:
        tidy["items"] = _tidy(tidy["items"], definitions, language)
    if "anyOf" in tidy:
        tidy["anyOf"] = [_tidy(part, definitions, language) for part in tidy["anyOf"]]
    return tidy | described


def _at(schema: JsonSchema, path: str) -> JsonSchema:
    for step in path.split("."):
        schema = schema["properties"][step.removesuffix("[]")]
        if step.endswith("[]"):
            schema = schema["items"]
    return schema


def _without(value: Any, keywords: Iterable[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(part, keywords) for key, part in value.items() if key not in keywords}
    if isinstance(value, list):
        return [_without(part, keywords) for part in value]
    return value
