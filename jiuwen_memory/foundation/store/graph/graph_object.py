"""The three kinds of objects a graph memory is made of: Entity, Relation and Episode.

Objects are values: `revise` returns a new version. An unknown time is `None` here; a stored row holds a number outside
years 1..9999 instead (`constants.UNKNOWN_START`, `constants.OPEN_END`), and the two methods `to_row` and `from_row` are
the only places that know.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Literal, Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    GIST,
    OPEN_END,
    RELATION_COLLECTION,
    UNKNOWN_START,
    VARCHAR_LIMIT,
)
from jiuwen_memory.foundation.store.query import QueryExpr
from jiuwen_memory.foundation.text import cut_bytes, normalise_name, search_tokens
from jiuwen_memory.foundation.timepoint import Timepoint, format_seconds

Row = dict[str, Any]
"""One stored row by column name. Its values are of many types, hence `Any`."""

Precision = Literal["second", "minute", "hour", "day", "week", "month", "quarter", "season", "year", "decade"]
RelationKind = Literal[
    "fact", "causes", "elaborates", "contrasts", "same_series", "co_occurs", "temporal_next", "synonym"
]
EndKind = Literal["entity", "relation", "episode"]


def new_uuid() -> str:
    """Return a fresh id: 32 hexadecimal digits."""
    return uuid4().hex


def now() -> int:
    """Return the present as UTC seconds."""
    return int(time.time())


class BaseGraphObject(BaseModel):
    """What all graph objects share.

    `created_at` is when the memory learnt the object (UTC seconds), `embedding_key` says which texts the stored vectors
    were made of. Vectors are `None` unless they were asked for.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    collection: ClassVar[str]
    starts: ClassVar[frozenset[str]] = frozenset()
    ends_at: ClassVar[frozenset[str]] = frozenset()
    vectors: ClassVar[Mapping[str, str]] = {"content_embedding": "content"}

    uuid: str = Field(default_factory=new_uuid)
    user_id: str = "default_user"
    obj_type: str = ""
    language: Literal["cn", "en"] = "cn"
    created_at: int = Field(default_factory=now)
    content: str = ""
    content_embedding: list[float] | None = Field(default=None, repr=False)
    embedding_key: str = Field(default="", repr=False)
    metadata: dict[str, JsonValue] = Field(default_factory=dict, repr=False)
    extra: dict[str, JsonValue] = Field(default_factory=dict, repr=False)

    @field_validator("metadata", "extra", "attributes", mode="before", check_fields=False)
    @classmethod
    def _none_is_empty(cls, value: object) -> object:
        return {} if value is None else value

    @property
    def search_text(self) -> str:
        """The search tokens that BM25 runs over."""
        return search_tokens(self.content)

    def embedded_texts(self) -> dict[str, str]:
        """Return the text behind each vector, by vector column."""
        return {column: getattr(self, field) for column, field in self.vectors.items()}

    def revise(self, **changes: object) -> Self:
        """Return a new version with these fields changed; the uuid stays."""
        return self.model_copy(update=changes)

    def column(self, name: str) -> Any:
        """Return the value of one column as a stored row has it."""
        value, unknown = getattr(self, name), _unknown_values(type(self)).get(name)
        return unknown[0] if value is None and unknown else value

    def fulfils(self, condition: QueryExpr) -> bool:
        """Tell whether the object's stored row would fulfil a condition, by the columns that it names."""
        return condition.matches({name: self.column(name) for name in condition.fields()})

    def to_row(self) -> Row:
        """Return the object as a stored row; vector columns are present only where there is a vector."""
        row: Row = self.model_dump(exclude_none=False)
        for column in self.vectors:
            if row[column] is None:
                del row[column]
        for name, stored in _unknown_values(type(self)).items():
            if stored and row[name] is None:
                row[name] = stored[0]
        # Some characters grow many times over when they are folded; what does not fit is only not found by words.
        row["search_text"] = cut_bytes(self.search_text, VARCHAR_LIMIT)
        return row

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the object a stored row describes; columns that are absent take their defaults."""
        unknown = _unknown_values(cls)
        return cls.model_validate(
            {
                name: None if value in unknown[name] else value
                for name, value in row.items()
                if value is not None and name in unknown
            }
        )


@cache
def _unknown_values(kind: type[BaseGraphObject]) -> Mapping[str, tuple[int | str, ...]]:
    """Return for each field of a kind what its column may hold for "not known": first what is written, if anything."""
    known: dict[str, tuple[int | str, ...]] = dict.fromkeys(kind.model_fields, ())
    known |= dict.fromkeys(kind.starts, (UNKNOWN_START, OPEN_END)) | dict.fromkeys(
        kind.ends_at, (OPEN_END, UNKNOWN_START)
    )
    return known | {name: ("",) for name in known if name.startswith(("precision_", "stated_precision"))}


class Entity(BaseGraphObject):
    """A node: a person, a company, a project, a place, a concept.

    `relations` and `episodes` list the newest linked ids up to the configured limit, for convenience; the truth about
    edges is in `Relation.lhs` and `Relation.rhs`.
    """

    collection = ENTITY_COLLECTION
    starts = frozenset({"first_mentioned_at", "last_mentioned_at"})
    vectors = {"name_embedding": "name", "content_embedding": "content_text"}

    obj_type: str = "Entity"
    name: str = ""
    name_embedding: list[float] | None = Field(default=None, repr=False)
    aliases: list[str] = Field(default_factory=list)
    attributes: dict[str, JsonValue] = Field(default_factory=dict)
    relations: list[str] = Field(default_factory=list, repr=False)
    episodes: list[str] = Field(default_factory=list, repr=False)
    sources: list[str] = Field(default_factory=list, repr=False)
    mention_count: int = 1
    first_mentioned_at: int | None = Field(default=None, repr=False)
    last_mentioned_at: int | None = Field(default=None, repr=False)
    merged_from: list[JsonValue] = Field(default_factory=list, repr=False)

    @property
    def name_norm(self) -> str:
        """The name with case, width and spacing taken out."""
        return normalise_name(self.name)

    @property
    def content_text(self) -> str:
        """What the content vector is made of: the summary, or the name while there is no summary."""
        return self.content or self.name

    @property
    def search_text(self) -> str:
        return search_tokens("\n".join([self.name, *self.aliases, self.content]))

    def to_row(self) -> Row:
        return {**super().to_row(), "name_norm": self.name_norm}


UNTOLD_QUALIFIER = "time"


class Relation(BaseGraphObject):
    """An edge: one fact, with the time it holds and the episodes it was said in.

    `lhs` and `rhs` are uuids of what `ends` names; `lhs_origin` and `rhs_origin` are the ends as first learnt, before
    merges. Times are UTC seconds with the offset they were spoken in (minutes) and the precision they were given with.
    `qualifiers` hold what else was said of it, by key: `time`, `place`, `emotion`, `intent`, `said_by`, attributes of
    its type, and others.
    """

    collection = RELATION_COLLECTION
    starts = frozenset({"valid_since", "first_mentioned_at", "last_mentioned_at"})
    ends_at = frozenset({"valid_until", "stated_until", "expired_at"})
    vectors = {"content_embedding": "qualified_text"}

    obj_type: str = "Relation"
    name: str = ""
    kind: RelationKind = "fact"
    ends: EndKind = "entity"
    lhs: str
    rhs: str
    lhs_origin: str = Field(default="", repr=False)
    rhs_origin: str = Field(default="", repr=False)
    valid_since: int | None = None
    offset_since: int = 0
    precision_since: Precision | None = None
    valid_until: int | None = None
    offset_until: int = 0
    precision_until: Precision | None = None
    stated_until: int | None = Field(default=None, repr=False)
    stated_offset: int = Field(default=0, repr=False)
    stated_precision: Precision | None = Field(default=None, repr=False)
    expired_at: int | None = Field(default=None, repr=False)
    superseded_by: list[str] = Field(default_factory=list)
    qualifiers: dict[str, JsonValue] = Field(default_factory=dict)
    episodes: list[str] = Field(default_factory=list, repr=False)
    sources: list[str] = Field(default_factory=list, repr=False)
    mention_count: int = 1
    first_mentioned_at: int | None = Field(default=None, repr=False)
    last_mentioned_at: int | None = Field(default=None, repr=False)

    @field_validator("qualifiers", mode="before")
    @classmethod
    def _no_qualifiers(cls, value: object) -> object:
        return {} if value is None else value

    @property
    def name_norm(self) -> str:
        """The relation's name with case, width and spacing taken out."""
        return normalise_name(self.name)

    @property
    def content_text(self) -> str:
        """The fact, or the name where there is no sentence."""
        return self.content or self.name

    @property
    def qualified_text(self) -> str:
        """What is embedded, and shown to models: the fact, and the qualifiers that it does not name.

        A `time` is left out: it is no word to be found by meaning, and `valid_since` says it better.
        """
        text = self.content_text
        plain = normalise_name(text)
        told = {key: words for key, words in self._qualifier_texts().items() if key != UNTOLD_QUALIFIER}
        further = [f"{key}: {words}" for key, words in told.items() if normalise_name(words) not in plain]
        return f"{text} ({'; '.join(further)})" if further else text

    def _qualifier_texts(self) -> dict[str, str]:
        """Return the qualifiers that are words or numbers, as texts."""
        return {
            key: str(value)
            for key, value in self.qualifiers.items()
            if isinstance(value, str | int | float) and not isinstance(value, bool) and str(value).strip()
        }

    @property
    def search_text(self) -> str:
        return search_tokens("\n".join([self.name, self.content, *self._qualifier_texts().values()]))

    @property
    def since(self) -> Timepoint | None:
        """When the fact begins, as exactly and in the offset as it was said."""
        if self.valid_since is None:
            return None
        return Timepoint(self.valid_since, self.offset_since, self.precision_since or "second")

    @property
    def until(self) -> Timepoint | None:
        """When the fact ends, as exactly and in the offset as it was said."""
        if self.valid_until is None:
            return None
        return Timepoint(self.valid_until, self.offset_until, self.precision_until or "second")

    def holds_at(self, seconds: int) -> bool:
        """Tell whether the fact holds at a moment (UTC seconds), as far as is known."""
        if self.valid_since is not None and seconds < self.valid_since:
            return False
        if self.valid_until is not None:
            return seconds <= self.valid_until
        return not self.superseded_by

    def to_row(self) -> Row:
        return {**super().to_row(), "name_norm": self.name_norm}


class Episode(BaseGraphObject):
    """One input source, or a part or a message of one, with its original text; or a gist that retells its `parents`."""

    collection = EPISODE_COLLECTION
    starts = frozenset({"valid_since"})

    obj_type: str = "Episode"
    valid_since: int | None = None
    offset_since: int = 0
    entities: list[str] = Field(default_factory=list, repr=False)
    session_id: str = ""
    source: str = ""
    speakers: list[str] = Field(default_factory=list)
    content_hash: str = Field(default="", repr=False)
    idempotency_key: str = Field(default="", repr=False)
    group: str = Field(default="", repr=False)
    parents: list[str] = Field(default_factory=list, repr=False)
    part: int = 1
    parts: int = 1

    @property
    def is_gist(self) -> bool:
        """It was made of other episodes, and says nothing of its own."""
        return self.obj_type == GIST

    @property
    def search_text(self) -> str:
        """The tokens of the text and of the day it is from, so that a question may name the day, month or year."""
        if self.valid_since is None:
            return search_tokens(self.content)
        languages = ("en",) if self.content.isascii() else ("en", "cn")
        days = [format_seconds(self.valid_since, self.offset_since, "day", each) for each in languages]
        return search_tokens("\n".join([self.content, *days]))


OBJECT_TYPES: Mapping[str, type[BaseGraphObject]] = {
    ENTITY_COLLECTION: Entity,
    RELATION_COLLECTION: Relation,
    EPISODE_COLLECTION: Episode,
}
