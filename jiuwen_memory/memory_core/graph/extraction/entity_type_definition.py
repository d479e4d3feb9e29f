"""Types of entities and relations: the ones every memory has, and the base of those a user adds. Touches nothing."""

from __future__ import annotations

import inspect
import types
from functools import lru_cache
from typing import ClassVar, TypeVar

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from jiuwen_memory.errors import SetupError
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.base import Words


class TypeDef(BaseModel):
    """What entity types and relation types share.

    A type without a `name` is called as its class. Attributes of a type are its own pydantic fields and those of
    `attributes`; their descriptions go into the prompts.
    """

    name: ClassVar[str] = ""
    description: ClassVar[Words] = Words(en="", cn="")
    attributes: ClassVar[type[BaseModel] | None] = None

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    @classmethod
    def models(cls) -> tuple[type[BaseModel], ...]:
        """Return the models whose fields are the type's attributes; where both have one, the later one's counts."""
        return (cls.attributes, cls) if cls.attributes else (cls,)

    @classmethod
    def fields(cls, language: Language) -> dict[str, str]:
        """Return the type's attributes, each with its description."""
        declared = {name: field for model in cls.models() for name, field in model.model_fields.items()}
        return {name: _field_wording(name, field, language) for name, field in declared.items()}

    @classmethod
    def wording(cls, language: Language) -> str:
        """Return the description in a language."""
        return cls.description.wording(language)


class EntityDef(TypeDef):
    """The default type of entity, and the base of all others."""

    name: ClassVar[str] = "Entity"
    description: ClassVar[Words] = Words(
        en="an organisation, place, product, work, event or any other named thing",
        cn="组织、地点、产品、作品、事件等其他有名称的事物",
    )


class HumanEntity(EntityDef):
    """A person."""

    name: ClassVar[str] = "Human"
    description: ClassVar[Words] = Words(en="a person", cn="人物")


class AIEntity(EntityDef):
    """An artificial assistant."""

    name: ClassVar[str] = "AI"
    description: ClassVar[Words] = Words(
        en="an AI assistant or bot that talks or acts itself, not a company",
        cn="会说话或行动的智能助手、机器人，不指公司",
    )


class Topic(EntityDef):
    """What a text is about. Optional, with `TaggedWith`: pass both to a memory to have topics in the graph."""

    description: ClassVar[Words] = Words(
        en="what the text is about, in one to three general words; here a common noun will do",
        cn="文本谈论的主题，用一个概括的词语表示；此类可以是普通名词",
    )


End = str | type[BaseModel]
"""A type allowed at an end of a relation: its name, or its class."""


class RelationDef(TypeDef):
    """A type of relation; `lhs` and `rhs` name the entity types allowed at its ends (empty: any).

    A class may stand for its name, and a single one for a tuple. A subclass of an allowed type is allowed too.
    """

    lhs: ClassVar[tuple[End, ...] | End] = ()
    rhs: ClassVar[tuple[End, ...] | End] = ()

    @classmethod
    def ends(cls) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the types allowed at either end."""
        return _end_names(cls.lhs), _end_names(cls.rhs)

    @classmethod
    def fits(cls, lhs: str, rhs: str) -> bool:
        """Tell whether entities of these types may stand at the ends."""
        left, right = cls.ends()
        return (not left or lhs in left) and (not right or rhs in right)


class TaggedWith(RelationDef):
    """A text's link from what it speaks of to its topic."""

    name: ClassVar[str] = "TAGGED_WITH"
    description: ClassVar[Words] = Words(
        en="whom or what the text speaks of -> the topic; one for each topic, with a sentence that says so",
        cn="文本所谈的人或事物 -> 主题；每个主题一条，并用一句话说明",
    )
    rhs: ClassVar[tuple[End, ...] | End] = (Topic.name,)


T = TypeVar("T", bound=TypeDef)

DEFAULT_ENTITY_TYPES: tuple[type[EntityDef], ...] = (EntityDef, HumanEntity, AIEntity)


@lru_cache(maxsize=256)
def as_entity_def(model: type[BaseModel]) -> type[EntityDef]:
    """Return an entity type for a class: itself, or one named and described like the plain pydantic model it is.

    Raises:
        SetupError: it is no pydantic class, or a type of relation.
    """
    if isinstance(model, type) and issubclass(model, EntityDef):
        return model
    return _described_like(model, EntityDef)


@lru_cache(maxsize=256)
def as_relation_def(model: type[BaseModel]) -> type[RelationDef]:
    """Return a relation type for a class: itself, or one named and described like the plain pydantic model it is.

    Raises:
        SetupError: it is no pydantic class, or a type of entity.
    """
    if isinstance(model, type) and issubclass(model, RelationDef):
        return model
    return _described_like(model, RelationDef)


def _end_names(ends: tuple[End, ...] | End) -> tuple[str, ...]:
    listed = ends if isinstance(ends, tuple | list) else (ends,)
    return tuple(each if isinstance(each, str) else as_entity_def(each).name for each in listed)


def _described_like(model: type[BaseModel], base: type[T]) -> type[T]:
    if not isinstance(model, type) or not issubclass(model, BaseModel) or issubclass(model, TypeDef):
        raise SetupError(f"{model!r} is no type for a {base.__name__}; give a pydantic class, or a {base.__name__}.")
    text = _model_wording(model)
    body = {
        "__module__": model.__module__,
        "__doc__": text or model.__name__,
        "name": model.__name__,
        "description": Words(en=text, cn=text),
        "attributes": model,
    }
    made: type[T] = types.new_class(model.__name__, (base,), exec_body=lambda namespace: namespace.update(body))
    return made


def _model_wording(model: type[BaseModel]) -> str:
    extra = model.model_config.get("json_schema_extra")
    if isinstance(extra, dict) and isinstance(extra.get("description"), str):
        return " ".join(str(extra["description"]).split())
    # `inspect.getdoc` would fall back to BaseModel's own docstring.
    return " ".join(inspect.cleandoc(model.__dict__.get("__doc__") or "").split())


def _field_wording(name: str, field: FieldInfo, language: Language) -> str:
    for mark in field.metadata:
        if isinstance(mark, Words):
            return mark.wording(language)
    return field.description or name
