"""Types of one's own as a configuration file writes them, made into classes. Values in, values out."""

from __future__ import annotations

import types
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from jiuwen_memory.memory_core.graph.extraction.base import Words
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import EntityDef, RelationDef, TypeDef
from jiuwen_memory.memory_core.graph.extraction.ontology import OwnTypes

T = TypeVar("T", bound=TypeDef)
STRICT = ConfigDict(extra="forbid", hide_input_in_errors=True)
KINDS: Final[dict[str, type]] = {"text": str, "integer": int, "number": float, "boolean": bool}


class Wording(BaseModel):
    """What the model reads: `"a company"` in both languages, or `{ en = "a company", cn = "公司" }`."""

    model_config = STRICT

    en: str
    cn: str

    @model_validator(mode="before")
    @classmethod
    def _same_in_both(cls, given: object) -> object:
        return {"en": given, "cn": given} if isinstance(given, str) else given

    @property
    def words(self) -> Words:
        """The wording in each language."""
        return Words(en=self.en, cn=self.cn)


class AttributeSection(BaseModel):
    """What may be known of a thing or a fact; a description alone is an attribute that holds text.

    Args:
        kind: what its values are.
        choices: the only values there are, of a `text`.
        least, most: the smallest and the largest `integer` or `number`.
    """

    model_config = STRICT

    description: Wording
    kind: Literal["text", "integer", "number", "boolean"] = "text"
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _described(cls, given: object) -> object:
        is_wording = isinstance(given, str) or (isinstance(given, dict) and given.keys() <= {"en", "cn"})
        return {"description": given} if is_wording else given

    @model_validator(mode="after")
    def _limits_fit(self) -> AttributeSection:
        if self.choices and self.kind != "text":
            raise ValueError('choices are for the kind "text"')
        if (self.least is not None or self.most is not None) and self.kind not in ("integer", "number"):
            raise ValueError('least and most are for the kinds "integer" and "number"')
        return self

    @property
    def field(self) -> tuple[Any, Any]:
        """The attribute as a field of a pydantic model: its type and its default."""
        kind: Any = Literal[self.choices] if self.choices else KINDS[self.kind]
        return Annotated[kind | None, self.description.words, Field(ge=self.least, le=self.most)], None


class EntitySection(BaseModel):
    """A type of entity."""

    model_config = STRICT

    description: Wording
    attributes: dict[str, AttributeSection] = Field(default_factory=dict)


class RelationSection(EntitySection):
    """A type of relation; `lhs` and `rhs` name the types of entities that may stand at its ends, by default any."""

    lhs: tuple[str, ...] = ()
    rhs: tuple[str, ...] = ()


class OntologySection(BaseModel):
    """Types by name, and whether there shall be no others."""

    model_config = STRICT

    closed: bool = False
    entities: dict[str, EntitySection] = Field(default_factory=dict)
    relations: dict[str, RelationSection] = Field(default_factory=dict)

    def own_types(self) -> OwnTypes:
        """Return the types as classes."""
        entities = [_class(name, EntityDef, each) for name, each in self.entities.items()]
        relations = [
            _class(name, RelationDef, each, lhs=each.lhs, rhs=each.rhs) for name, each in self.relations.items()
        ]
        return OwnTypes(entities, relations, self.closed)


def _class(name: str, base: type[T], section: EntitySection, **further: object) -> type[T]:
    fields: dict[str, Any] = {key: each.field for key, each in section.attributes.items()}
    body = {
        "__module__": __name__,
        "__doc__": section.description.en,
        "name": name,
        "description": section.description.words,
        # In a model of their own, so that an attribute may be called `name` too.
        "attributes": create_model(f"{name} attributes", **fields) if fields else None,
        **further,
    }
    made: type[T] = types.new_class(name, (base,), exec_body=lambda namespace: namespace.update(body))
    return made
