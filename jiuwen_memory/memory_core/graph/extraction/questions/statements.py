"""Which things does the text name, and what does it say about them? Both in one call, in several ways. Calls the model.

The ways are those of REMem's `openie`, `episodic` and `temporal` extraction; the ends of a fact are names that need not
be listed, and become entities as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from pydantic import JsonValue

from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.asking import Asker
from jiuwen_memory.memory_core.graph.extraction.base import (
    AnswerForm,
    JsonSchema,
    MultilingualBaseModel,
    closed_object,
)
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import RelationDef
from jiuwen_memory.memory_core.graph.extraction.extraction_models import (
    EpisodicFacts,
    OpenInformation,
    TemporalFacts,
)
from jiuwen_memory.memory_core.graph.extraction.ontology import Ontology
from jiuwen_memory.memory_core.graph.extraction.questions.entities import (
    ENTITY_KEYS,
    ENTITY_MARKS,
    NameCheck,
    bare_instructions,
    entity_changes,
    most_items,
    read_mentions,
    text_variables,
)
from jiuwen_memory.memory_core.graph.extraction.questions.fact_reading import FactReader
from jiuwen_memory.memory_core.graph.extraction.reply import (
    Reply,
    UnusableReplyError,
    read_items,
    read_named_items,
)
from jiuwen_memory.memory_core.graph.extraction.values import Reading, SourceText

FACT_KEYS: Final = ("facts", "triples", "relations", "relationships", "statements", "edges")
_MARKS: Final = ("fact", "subject", "predicate", "object")

Way = Literal["openie", "episodic", "temporal"]
"""The name of the prompt file."""


@dataclass(frozen=True, slots=True)
class _Form:
    """What one way asks for: the answer model, its list of facts, and whether dates are things of their own."""

    model: type[MultilingualBaseModel]
    facts: str = "facts"
    with_dates: bool = False


_FORMS: Final[Mapping[Way, _Form]] = {
    "openie": _Form(OpenInformation, facts="triples", with_dates=True),
    "episodic": _Form(EpisodicFacts),
    "temporal": _Form(TemporalFacts),
}


async def ask_statements(
    way: Way,
    source: SourceText,
    *,
    ontology: Ontology,
    language: Language,
    asker: Asker,
) -> Reading:
    """Return the named things of a text and the facts it states, each once; none is a proper answer.

    Where the types are a closed set, what is of none of them is left out.

    Raises:
        LLMCallError: the model failed or gave no usable answer.
    """
    form = _FORMS[way]
    types = ontology.entity_types
    variables = text_variables(source, types, language, closed=ontology.closed_entities)
    variables["predicates"] = described(ontology.relation_types, language)
    changes = {
        **entity_changes(source, types),
        **fact_changes(form.model, source, ontology=ontology, language=language, facts=form.facts),
    }
    instructions = partial(bare_instructions, way, variables, language=language, asker=asker)
    read = partial(_read, source=source, form=form, ontology=ontology, instructions=instructions)
    answer = AnswerForm(form.model, changes)
    return await asker.ask(way, answer, language=language, variables=variables, read=read)


def described(predicates: Sequence[type[RelationDef]], language: Language) -> list[dict[str, str]]:
    """Return the user's types of relations as a prompt names them."""
    return [{"name": each.name, "description": each.wording(language)} for each in predicates]


def fact_changes(
    model: type[MultilingualBaseModel],
    source: SourceText,
    *,
    ontology: Ontology,
    language: Language,
    facts: str = "facts",
) -> dict[str, JsonSchema]:
    """Return how a schema with facts is narrowed: so many as fit the text, told by one of its speakers, if it has any.

    Changes apply in order: the item is made anew before its parts are narrowed.
    """
    item = model.multilingual_model_json_schema(language)["properties"][facts]["items"]
    parts = dict(item["properties"])
    if "said_by" in parts and source.speakers:
        parts["said_by"] = {"anyOf": [{"enum": list(dict.fromkeys(source.speakers))}, {"type": "null"}]}
    elif "said_by" in parts:
        del parts["said_by"]
    if "qualifiers" in parts:
        parts["qualifiers"] = {**parts["qualifiers"], "maxItems": 4}
    if ontology.closed_relations:
        parts["predicate"] = {**parts["predicate"], "enum": [each.name for each in ontology.relation_types]}
    return {facts: {"maxItems": most_items(source)}, f"{facts}[]": closed_object(parts)}


def _read(
    reply: Reply,
    *,
    source: SourceText,
    form: _Form,
    ontology: Ontology,
    instructions: Callable[[], str],
) -> Reading:
    names = NameCheck(source, instructions(), with_dates=form.with_dates)
    listed = read_named_items(reply, keys=ENTITY_KEYS, marks=ENTITY_MARKS)
    mentions = read_mentions(
        listed or [], names=names, types=ontology.entity_types, closed=ontology.closed_entities, reply=reply
    )
    items = fact_items(reply, is_answered=listed is not None)
    is_open = not ontology.closed_entities
    reader = FactReader(mentions, names, source=source, ontology=ontology, reply=reply, is_open=is_open)
    facts = reader.facts(items)
    if items and not facts and not reader.is_strict:
        raise UnusableReplyError("no item is a fact")
    return Reading(tuple(reader.mentions), tuple(facts))


def fact_items(reply: Reply, *, is_answered: bool = False) -> list[JsonValue]:
    """Return the items that should be facts; none where the reply `is_answered` by something else alone."""
    named = read_named_items(reply, keys=FACT_KEYS, marks=_MARKS)
    if named is not None:
        return named
    return [] if is_answered else read_items(reply, keys=FACT_KEYS, marks=_MARKS)
