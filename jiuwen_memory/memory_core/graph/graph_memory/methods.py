"""The ways of extraction: what is asked about a text in the first two rounds. Calls the model.

A way is one entry of `METHODS`: what it asks first, and how facts between the things found come of it. Everything else
of the write path is the same for all. To take one away, delete its entry, its question and its prompt files.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial
from typing import Any, Final

from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.config.graph import Extraction
from jiuwen_memory.memory_core.graph.extraction import questions
from jiuwen_memory.memory_core.graph.extraction.questions.statements import Way
from jiuwen_memory.memory_core.graph.extraction.values import Fact, Mention, Reading, SourceText
from jiuwen_memory.memory_core.graph.graph_memory.ask import ask_timezone, fitting, fitting_fact, within_budget
from jiuwen_memory.memory_core.graph.graph_memory.resolve import resolve_facts
from jiuwen_memory.memory_core.graph.graph_memory.services import Services

AskFirst = Callable[[SourceText, Services], Coroutine[Any, Any, Reading]]
AskFacts = Callable[[SourceText, Sequence[Mention], Reading, Services], Coroutine[Any, Any, list[Fact]]]
AskZone = Callable[[SourceText, Services], Coroutine[Any, Any, tzinfo | None]]


@dataclass(frozen=True)
class Method:
    """A way of extraction; `essential` are the questions without which an add is nothing."""

    essential: frozenset[str]
    ask_first: AskFirst
    ask_facts: AskFacts
    ask_zone: AskZone = ask_timezone


@traced
async def _ask_entities(source: SourceText, services: Services) -> Reading:
    language = services.strategy.question_language("entity", services.language)
    question = questions.ask_entities(
        source,
        types=services.ontology.entity_types,
        closed=services.ontology.closed_entities,
        language=language,
        asker=services.asker,
    )
    found = await within_budget(question, [], lost="only the episode is stored", services=services)
    return _fitting_reading(Reading(tuple(found)), services)


@traced
async def _ask_relations(
    source: SourceText, mentions: Sequence[Mention], reading: Reading, services: Services
) -> list[Fact]:
    if not mentions:
        return []
    language = services.strategy.question_language("relation", services.language)
    question = questions.ask_relations(
        source,
        mentions=mentions,
        types=services.ontology.relation_types,
        closed=services.ontology.closed_relations,
        language=language,
        asker=services.asker,
    )
    found = await within_budget(question, [], lost="no facts are stored", services=services)
    return [fitting_fact(each, services) for each in found]


@traced
async def _ask_statements(source: SourceText, services: Services, *, way: Way) -> Reading:
    question = questions.ask_statements(
        way,
        source,
        ontology=services.ontology,
        language=services.strategy.question_language("relation", services.language),
        asker=services.asker,
    )
    found = await within_budget(question, Reading(), lost="only the episode is stored", services=services)
    return _fitting_reading(found, services)


async def _stated_at_once(
    source: SourceText, mentions: Sequence[Mention], reading: Reading, services: Services
) -> list[Fact]:
    """Return the facts that the first question gave already."""
    return [fitting_fact(each, services) for each in resolve_facts(reading, mentions)]


@traced
async def _ask_gists(source: SourceText, services: Services) -> Reading:
    language = services.strategy.question_language("relation", services.language)
    question = questions.ask_gists(source, ontology=services.ontology, language=language, asker=services.asker)
    found = await within_budget(question, Reading(), lost="only the episode is stored", services=services)
    return _fitting_reading(found, services)


@traced
async def _ask_gist_facts(
    source: SourceText, mentions: Sequence[Mention], reading: Reading, services: Services
) -> list[Fact]:
    question = questions.ask_gist_facts(
        source,
        reading.gists,
        mentions=mentions,
        ontology=services.ontology,
        language=services.strategy.question_language("relation", services.language),
        asker=services.asker,
    )
    found = await within_budget(question, [], lost="no facts are stored", services=services)
    return [fitting_fact(each, services) for each in found]


async def _no_zone(source: SourceText, services: Services) -> tzinfo | None:
    """Triples have no time words, so nobody needs to know where they were said."""
    return None


def _fitting_reading(reading: Reading, services: Services) -> Reading:
    """Return a reading with names and gists as the store can hold them."""
    storage = services.storage
    mentions = (
        replace(each, name=fitting(each.name, storage.name, what="name", services=services))
        for each in reading.mentions
    )
    gists = (fitting(each, storage.content // 4, what="gist", services=services) for each in reading.gists)
    return replace(reading, mentions=tuple(mentions), gists=tuple(gists))


METHODS: Final[Mapping[Extraction, Method]] = {
    "staged": Method(frozenset({"entities", "relations"}), _ask_entities, _ask_relations),
    "openie": Method(frozenset({"openie"}), partial(_ask_statements, way="openie"), _stated_at_once, ask_zone=_no_zone),
    "episodic": Method(frozenset({"episodic"}), partial(_ask_statements, way="episodic"), _stated_at_once),
    "episodic_gist": Method(frozenset({"gists", "gist_facts"}), _ask_gists, _ask_gist_facts),
    "temporal": Method(frozenset({"temporal"}), partial(_ask_statements, way="temporal"), _stated_at_once),
}
