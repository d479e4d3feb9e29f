"""Which facts does the text state about the things it names? Calls the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from pydantic import JsonValue

from jiuwen_memory.foundation.text import cut_bytes, normalise_name
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.asking import Asker
from jiuwen_memory.memory_core.graph.extraction.attributes import resolve_attributes, value_schemas
from jiuwen_memory.memory_core.graph.extraction.base import AnswerForm, JsonSchema, closed_object
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import RelationDef
from jiuwen_memory.memory_core.graph.extraction.extraction_models import RelationExtraction
from jiuwen_memory.memory_core.graph.extraction.ontology import named_type
from jiuwen_memory.memory_core.graph.extraction.questions.entities import NAME_BYTES, most_items
from jiuwen_memory.memory_core.graph.extraction.questions.shared import cut_history
from jiuwen_memory.memory_core.graph.extraction.reply import (
    Reply,
    UnusableReplyError,
    folded,
    read_id,
    read_items,
    read_text,
)
from jiuwen_memory.memory_core.graph.extraction.values import Fact, Mention, SourceText

_KEYS: Final = ("relations", "extracted_relations", "facts", "relationships", "edges", "triples")
_MARKS: Final = ("fact", "source", "source_id", "target", "target_id")
SOURCE_FIELDS: Final = ("source", "source_id", "source_name", "from", "subject", "head", "lhs")
TARGET_FIELDS: Final = ("target", "target_id", "target_name", "to", "object", "tail", "rhs")
FACT_FIELDS: Final = ("fact", "description", "sentence", "content", "statement")
NAME_FIELDS: Final = ("name", "relation", "predicate", "relation_type", "type", "label")
SINCE_FIELDS: Final = ("valid_since", "since", "start", "valid_from", "start_time")
UNTIL_FIELDS: Final = ("valid_until", "until", "end", "valid_to", "end_time")
DEFAULT_NAME: Final = "related_to"
_BOTH_NAMED: Final = 2


async def ask_relations(
    source: SourceText,
    *,
    mentions: Sequence[Mention],
    types: Sequence[type[RelationDef]],
    language: Language,
    asker: Asker,
    closed: bool = False,
) -> list[Fact]:
    """Return the facts of a text about the things it mentions, each once; none is a proper answer.

    Attributes are valid for the type of their fact. In a `closed` set, facts of no listed type are left out.

    Raises:
        LLMCallError: the model failed or gave no usable answer.
    """
    if not mentions:
        return []
    labels = mention_labels(mentions)
    variables = {
        "entities": [{"id": number, "label": label} for number, label in enumerate(labels, start=1)],
        "types": [_described(each, language) for each in types],
        "closed": closed,
        "speakers": list(source.speakers),
        "history": cut_history(source),
        "text": source.content,
    }
    form = AnswerForm(RelationExtraction, _changes(source, labels, types, language=language, closed=closed))
    read = partial(_read, mentions=mentions, labels=labels, types=types, closed=closed)
    return await asker.ask("relations", form, language=language, variables=variables, read=read)


def mention_labels(mentions: Sequence[Mention]) -> list[str]:
    """Return how each mention is listed: by name, and by its type where names repeat."""
    names = [normalise_name(mention.name) for mention in mentions]
    return [
        mention.name if names.count(name) == 1 else f"{mention.name} ({mention.type_name})"
        for mention, name in zip(mentions, names, strict=True)
    ]


def _described(kind: type[RelationDef], language: Language) -> dict[str, object]:
    return {
        "name": kind.name,
        "description": kind.wording(language),
        "lhs": list(kind.ends()[0]),
        "rhs": list(kind.ends()[1]),
        "fields": kind.fields(language),
    }


def _changes(
    source: SourceText,
    labels: Sequence[str],
    types: Sequence[type[RelationDef]],
    *,
    language: Language,
    closed: bool,
) -> dict[str, JsonSchema]:
    ends = {"enum": list(dict.fromkeys(labels))}
    closing: dict[str, JsonSchema] = {
        "relations": {"maxItems": most_items(source)},
        "relations[].source": ends,
        "relations[].target": ends,
    }
    if closed:
        closing["relations[].name"] = {"enum": [each.name for each in types]}
    values = _attribute_schemas(types, language)
    if not values:
        return closing
    items = RelationExtraction.multilingual_model_json_schema(language)["properties"]["relations"]["items"]
    with_attributes = {**items["properties"], "attributes": closed_object(values)}
    # Changes apply in order: the item gets its attributes before its ends are narrowed.
    return {"relations[]": closed_object(with_attributes), **closing}


def _attribute_schemas(types: Sequence[type[RelationDef]], language: Language) -> dict[str, JsonSchema]:
    """Return the schemas of the attributes of all types; one that two types have may be what either wants."""
    values: dict[str, JsonSchema] = {}
    for each in types:
        for name, schema in value_schemas(each, language).items():
            known = values.setdefault(name, {"anyOf": []})["anyOf"]
            values[name] = {"anyOf": [*known, *(part for part in schema["anyOf"] if part not in known)]}
    return values


def _read(
    reply: Reply,
    *,
    mentions: Sequence[Mention],
    labels: Sequence[str],
    types: Sequence[type[RelationDef]],
    closed: bool,
) -> list[Fact]:
    items = read_items(reply, keys=_KEYS, marks=_MARKS)
    ends = Ends(mentions, labels)
    facts: list[Fact] = []
    for item in items:
        fact = _fact(item, ends=ends, types=types, reply=reply)
        if fact is not None:
            facts.append(fact)
    names = {each.name for each in types}
    strange = [fact for fact in facts if closed and fact.name not in names]
    for fact in strange:
        reply.drop(fact.content, f"{fact.name!r} is no listed type of relation")
    facts = [fact for fact in facts if fact not in strange]
    if items and not facts and not strange:
        raise UnusableReplyError("no item is a fact between listed things")
    return without_repeats(facts, mentions=mentions, reply=reply)


class Ends:
    """Finds the mention that an answer means."""

    def __init__(self, mentions: Sequence[Mention], labels: Sequence[str]) -> None:
        self.count = len(mentions)
        self.by_name: dict[str, int] = {}
        for index, (mention, label) in enumerate(zip(mentions, labels, strict=True)):
            for name in (label, f"{mention.name} ({mention.type_name})", mention.name):
                self.by_name.setdefault(normalise_name(name), index)

    def is_listed(self, name: str) -> bool:
        """Tell whether a mention has this name."""
        return normalise_name(name) in self.by_name

    def find(self, value: JsonValue) -> int | None:
        """Return the position of the mention with this name or listed number, or None."""
        if isinstance(value, dict):
            fields = folded(value)
            return self.find(fields.get("name", fields.get("id")))
        if isinstance(value, str):
            bare = re.sub(r"^\s*\[\d+\]\s*(?=\S)", "", value)
            # A name too long for an entity is listed cut, but may be copied from the text in full.
            for name in (value, bare, cut_bytes(bare, NAME_BYTES).rstrip()):
                if normalise_name(name) in self.by_name:
                    return self.by_name[normalise_name(name)]
            listed = re.match(r"^\s*\[(\d+)\]", value)
            value = listed.group(1) if listed else value
        number = read_id(value)
        return number - 1 if number is not None and 1 <= number <= self.count else None


def first_of(fields: Mapping[str, JsonValue], keys: Sequence[str]) -> JsonValue:
    """Return the first field that is filled, or None."""
    return next((fields[key] for key in keys if fields.get(key) not in (None, "")), None)


def _fact(item: JsonValue, *, ends: Ends, types: Sequence[type[RelationDef]], reply: Reply) -> Fact | None:
    fields = folded(item) if isinstance(item, dict) else {}
    content = " ".join(read_text(first_of(fields, FACT_FIELDS)).split())
    source, target = ends.find(first_of(fields, SOURCE_FIELDS)), ends.find(first_of(fields, TARGET_FIELDS))
    if not content:
        reply.drop(item, "no fact")
        return None
    if source is None or target is None:
        reply.drop(item, "an end that is not listed")
        return None
    name = " ".join(read_text(first_of(fields, NAME_FIELDS)).split()) or DEFAULT_NAME
    kind = named_type(name, types)
    return Fact(
        name=kind.name if kind else name,
        content=content,
        source=source,
        target=target,
        since_words=read_text(first_of(fields, SINCE_FIELDS)),
        until_words=read_text(first_of(fields, UNTIL_FIELDS)),
        attributes=_attributes(fields.get("attributes"), kind, content=content, reply=reply),
    )


def _attributes(
    given: JsonValue, kind: type[RelationDef] | None, *, content: str, reply: Reply
) -> Mapping[str, JsonValue]:
    if kind is None:
        return {}
    filled = resolve_attributes(kind, given, known={})
    for refused in filled.refused:
        reply.drop(refused.told(content), refused.reason)
    return filled.values


def without_repeats(facts: Sequence[Fact], *, mentions: Sequence[Mention], reply: Reply) -> list[Fact]:
    """Keep, of facts with the same words, those between the things that the words name, or else one of them.

    A weak model repeats one sentence with end after end.
    """
    groups: dict[str, list[Fact]] = {}
    for fact in facts:
        alike = groups.setdefault(normalise_name(fact.content), [])
        if all((fact.source, fact.target) != (other.source, other.target) for other in alike):
            alike.append(fact)
    kept: list[Fact] = []
    for alike in groups.values():
        best = max(_fit(fact, mentions) for fact in alike)
        fitting = [fact for fact in alike if _fit(fact, mentions) == best]
        chosen = fitting if best == _BOTH_NAMED else fitting[:1]
        kept.extend(chosen)
        for fact in alike:
            if fact not in chosen:
                reply.drop(fact.content, "the same fact again, between others")
    return kept


def _fit(fact: Fact, mentions: Sequence[Mention]) -> int:
    """Return how many of a fact's different ends its words name."""
    words = normalise_name(fact.content)
    return sum(normalise_name(mentions[end].name) in words for end in {fact.source, fact.target})
