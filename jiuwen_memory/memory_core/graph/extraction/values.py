"""What goes into the questions and what comes out; plain values, touching nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from jiuwen_memory.foundation.store.graph.graph_object import RelationKind
from jiuwen_memory.memory_core.config.graph import EpisodeType
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import EntityDef


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text that is asked about; `history` holds earlier episodes, `speakers` the names of those who talk in it."""

    content: str
    kind: EpisodeType
    history: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class Mention:
    """A named thing the text mentions."""

    name: str
    type_name: str


@dataclass(frozen=True, slots=True)
class Described:
    """An entity as a question shows it; `uuid` tells a stored one that is listed more than once."""

    name: str
    type_name: str
    summary: str = ""
    aliases: tuple[str, ...] = ()
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement of the text; `source` and `target` are positions in the mentions it was asked about.

    `since_words` and `until_words` are the text's own words for its time, or ISO, or empty. `attributes` are those of
    its type, and its qualifiers.
    """

    name: str
    content: str
    source: int
    target: int
    since_words: str = ""
    until_words: str = ""
    attributes: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the first question found in a text; the facts' ends are positions in `mentions`."""

    mentions: tuple[Mention, ...] = ()
    facts: tuple[Fact, ...] = ()
    gists: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DuplicateCase:
    """A new entity and the stored ones it may be; `assumed` is the answer when the model gives none."""

    new: Described
    candidates: tuple[Described, ...]
    assumed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SummaryCase:
    """An entity to describe anew: its old summary, the new facts, the summaries of entities fused into it.

    `kind` is its type, whose fields are asked for; None when the memory knows no such type.
    """

    name: str
    type_name: str
    summary: str = ""
    attributes: Mapping[str, JsonValue] = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    absorbed: tuple[str, ...] = ()
    target_length: int = 250
    kind: type[EntityDef] | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """A new description of an entity, and what became known of its attributes."""

    content: str
    attributes: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VerdictCase:
    """A new fact and the stored ones it may repeat or contradict."""

    fact: str
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Positions of the candidates: those that say the same, those the fact contradicts, those it links to.

    A link reads: the new fact `causes`, `elaborates`, ... the candidate.
    """

    same: tuple[int, ...] = ()
    contradicts: tuple[int, ...] = ()
    links: Mapping[RelationKind, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FilterCase:
    """An entity that others were fused into, and all the facts about it."""

    name: str
    summary: str
    facts: tuple[str, ...]
