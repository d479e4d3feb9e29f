"""The answers asked for, one model a question; a class's name is the name of its JSON schema. Touches nothing."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from jiuwen_memory.memory_core.graph.extraction.base import MultilingualBaseModel, Words


class ExtractedEntity(MultilingualBaseModel):
    """A named thing of the text."""

    name: Annotated[str, Field(max_length=160), Words(en="name as written in the text", cn="原文中的名称")]
    type: Annotated[str, Field(max_length=64), Words(en="one of the listed types", cn="所列类型之一")]


class EntityExtraction(MultilingualBaseModel):
    """The named things of a text."""

    entities: Annotated[list[ExtractedEntity], Words(en="named things", cn="有名称的事物")]


class TimezonePredictions(MultilingualBaseModel):
    """Where the speaker is."""

    place: Annotated[
        str | None, Field(max_length=80), Words(en="place named in the text, or null", cn="原文中的地点，或 null")
    ]
    timezone: Annotated[str | None, Field(max_length=40), Words(en="IANA name, or null", cn="IANA 时区名，或 null")]


class ExtractedRelation(MultilingualBaseModel):
    """A fact of the text; the sentence comes first, its ends are copied names."""

    fact: Annotated[str, Field(max_length=300), Words(en="one short statement", cn="一句短句")]
    name: Annotated[str, Field(max_length=64), Words(en="short predicate", cn="简短的谓词")]
    source: Annotated[str, Field(max_length=200), Words(en="listed name", cn="所列名称")]
    target: Annotated[str, Field(max_length=200), Words(en="listed name", cn="所列名称")]
    valid_since: Annotated[
        str | None, Field(max_length=60), Words(en="time words of the text, or null", cn="原文中的时间词，或 null")
    ]
    valid_until: Annotated[
        str | None, Field(max_length=60), Words(en="time words of the text, or null", cn="原文中的时间词，或 null")
    ]


class RelationExtraction(MultilingualBaseModel):
    """The facts of a text."""

    relations: Annotated[list[ExtractedRelation], Words(en="facts", cn="事实")]


class SameAs(MultilingualBaseModel):
    """The stored items that one new item is the same as."""

    id: Annotated[int, Words(en="id of the new item", cn="新条目的编号")]
    same: Annotated[list[int], Words(en="ids of the same stored items", cn="与之相同的已存条目编号")]


class EntityDuplication(MultilingualBaseModel):
    """Which new entities are stored already."""

    duplicates: Annotated[list[SameAs], Words(en="one for each new item", cn="每个新条目一项")]


class EntitySummaries(MultilingualBaseModel):
    """One description for each numbered entity; what is sent is an object keyed by their numbers."""

    summaries: Annotated[dict[str, str], Words(en="descriptions by number", cn="按编号的描述")]


class Link(MultilingualBaseModel):
    """A stored fact that a new one leads to."""

    id: Annotated[int, Words(en="id of the stored fact", cn="已存事实的编号")]
    kind: Annotated[
        Literal["causes", "elaborates", "contrasts", "same_series", "co_occurs", "temporal_next"],
        Words(en="what the new fact does to it", cn="新事实与它的关系"),
    ]


class RelationVerdict(MultilingualBaseModel):
    """What a new fact means for the stored ones."""

    id: Annotated[int, Words(en="id of the new fact", cn="新事实的编号")]
    same: Annotated[list[int], Words(en="stored facts that say the same", cn="意思相同的已存事实")]
    contradicts: Annotated[list[int], Words(en="stored facts that it makes untrue", cn="因它而不再成立的已存事实")]
    links: Annotated[list[Link], Words(en="stored facts tied to it", cn="与它相关联的已存事实")]


class RelationVerdicts(MultilingualBaseModel):
    """What each new fact means for the stored ones."""

    verdicts: Annotated[list[RelationVerdict], Words(en="one for each new fact", cn="每条新事实一项")]


class RelevantFacts(MultilingualBaseModel):
    """The facts that still make sense."""

    relevant: Annotated[list[int], Words(en="ids of the facts to keep", cn="应保留的事实编号")]


class Triple(MultilingualBaseModel):
    """A fact in three parts, without a sentence of its own."""

    subject: Annotated[str, Field(max_length=160), Words(en="name of a listed thing", cn="所列事物的名称")]
    predicate: Annotated[str, Field(max_length=64), Words(en="short predicate", cn="简短的谓词")]
    object: Annotated[str, Field(max_length=160), Words(en="name of a listed thing", cn="所列事物的名称")]


class OpenInformation(MultilingualBaseModel):
    """The named things of a text and what it says of them, in one answer."""

    entities: Annotated[list[ExtractedEntity], Words(en="named things", cn="有名称的事物")]
    triples: Annotated[list[Triple], Words(en="facts", cn="事实")]


class Qualifier(MultilingualBaseModel):
    """A circumstance of a fact."""

    key: Annotated[
        str, Field(max_length=40), Words(en="time, place, emotion, intent, ...", cn="time、place、emotion、intent 等")
    ]
    value: Annotated[str, Field(max_length=120), Words(en="words of the text", cn="原文中的词语")]


class EpisodicFact(MultilingualBaseModel):
    """A fact with who said it, and under which circumstances."""

    fact: Annotated[str, Field(max_length=300), Words(en="one short statement", cn="一句短句")]
    subject: Annotated[str, Field(max_length=160), Words(en="name", cn="名称")]
    predicate: Annotated[str, Field(max_length=64), Words(en="short predicate", cn="简短的谓词")]
    object: Annotated[str, Field(max_length=160), Words(en="name", cn="名称")]
    said_by: Annotated[str | None, Field(max_length=160), Words(en="speaker, or null", cn="说话人，或 null")]
    qualifiers: Annotated[list[Qualifier], Words(en="circumstances, often none", cn="附带情况，常为空")]


class EpisodicFacts(MultilingualBaseModel):
    """The named things of a text and the facts that it tells of them."""

    entities: Annotated[list[ExtractedEntity], Words(en="named things", cn="有名称的事物")]
    facts: Annotated[list[EpisodicFact], Words(en="facts", cn="事实")]


class TemporalFact(MultilingualBaseModel):
    """A fact anchored in time."""

    fact: Annotated[str, Field(max_length=300), Words(en="one short statement", cn="一句短句")]
    subject: Annotated[str, Field(max_length=160), Words(en="name", cn="名称")]
    predicate: Annotated[str, Field(max_length=64), Words(en="short predicate", cn="简短的谓词")]
    object: Annotated[str, Field(max_length=160), Words(en="name", cn="名称")]
    time: Annotated[
        str | None, Field(max_length=60), Words(en="time words of the text, or null", cn="原文中的时间词，或 null")
    ]
    until: Annotated[
        str | None, Field(max_length=60), Words(en="time words of the text, or null", cn="原文中的时间词，或 null")
    ]


class TemporalFacts(MultilingualBaseModel):
    """The named things of a text and what happened to them when."""

    entities: Annotated[list[ExtractedEntity], Words(en="named things", cn="有名称的事物")]
    facts: Annotated[list[TemporalFact], Words(en="facts", cn="事实")]


class GistExtraction(MultilingualBaseModel):
    """What a text is about in few words, and the named things in it."""

    gists: Annotated[list[str], Words(en="sentences, each on one topic", cn="句子，每句一个话题")]
    entities: Annotated[list[ExtractedEntity], Words(en="named things", cn="有名称的事物")]


class GistFacts(MultilingualBaseModel):
    """The facts of a text whose gists are known."""

    facts: Annotated[list[EpisodicFact], Words(en="facts", cn="事实")]


class PassageRanking(MultilingualBaseModel):
    """The passages that help to answer a question."""

    ranking: Annotated[
        list[int], Words(en="numbers of the passages that help, best first", cn="有帮助的段落编号，最有帮助的在前")
    ]
