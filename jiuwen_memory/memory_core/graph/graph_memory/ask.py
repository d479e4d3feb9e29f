"""The questions that all ways of extraction share, in the language and batch size they want. Calls the model."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Any, TypeVar

from jiuwen_memory.errors import LLMBudgetError
from jiuwen_memory.foundation.store.graph.graph_object import Entity, Relation
from jiuwen_memory.foundation.text import cut_bytes
from jiuwen_memory.foundation.timepoint import format_seconds
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.graph.extraction import questions
from jiuwen_memory.memory_core.graph.extraction.values import (
    Fact,
    FilterCase,
    SourceText,
    Summary,
    SummaryCase,
    Verdict,
    VerdictCase,
)
from jiuwen_memory.memory_core.graph.graph_memory.merge_records import fits_document
from jiuwen_memory.memory_core.graph.graph_memory.postprocess_graph_objects import (
    holds_already,
    is_repeat,
    joined_facts,
    summary_target,
)
from jiuwen_memory.memory_core.graph.graph_memory.services import Services
from jiuwen_memory.memory_core.graph.graph_memory.states import Identity, Merge, Names

T = TypeVar("T")

FACTS_PER_SUMMARY = 12
FACTS_PER_FILTER = 60


@traced
async def ask_timezone(source: SourceText, services: Services) -> tzinfo | None:
    """Return the zone the text is spoken in, if it tells."""
    return await questions.ask_timezone(source, language=services.language, asker=services.asker)


def fitting_fact(fact: Fact, services: Services) -> Fact:
    """Return a fact as the store can hold it, with a warning where something had to be cut."""
    storage = services.storage
    attributes = fact.attributes
    if not fits_document(attributes):
        services.asker.ledger.warn(f"The attributes of the fact {fact.content[:80]!r} are too long and were left out.")
        attributes = {}
    return replace(
        fact,
        name=fitting(fact.name, storage.name, what="name", services=services),
        content=fitting(fact.content, storage.content // 4, what="fact", services=services),
        attributes=attributes,
    )


def fitting(text: str, limit: int, *, what: str, services: Services) -> str:
    """Return a text as long as it may be, with a warning if it was longer."""
    cut = cut_bytes(text, limit).rstrip()
    if cut != text:
        services.asker.ledger.warn(f"The {what} {text[:80]!r} was cut to what the store can hold.")
    return cut


@traced
async def ask_entity_duplicates(source: SourceText, names: Names, services: Services) -> list[tuple[int, ...]]:
    """Return, for each case, the numbers of the stored entities that are the same."""
    if not names.cases:
        return []
    question = questions.ask_entity_duplicates(
        source,
        names.cases,
        language=services.strategy.dedupe_language(services.language),
        judge_items=services.strategy.judge_items,
        asker=services.asker,
    )
    assumed = [case.assumed for case in names.cases]
    return await within_budget(question, assumed, lost="equal names are taken for the same", services=services)


async def within_budget(question: Coroutine[Any, Any, T], otherwise: T, *, lost: str, services: Services) -> T:
    """Return the answer, or what stands for it, with a warning, when the budget of the add is spent."""
    try:
        return await question
    except LLMBudgetError as error:
        services.asker.ledger.warn(f"{error.message} So {lost}.")
        return otherwise


@traced
async def ask_summaries(
    source: SourceText,
    identity: Identity,
    relations: Sequence[Relation],
    *,
    candidates: Sequence[Sequence[Relation]],
    services: Services,
) -> dict[str, Summary]:
    """Return new summaries by entity; where a text only repeats what is known, nothing is asked, as a rule."""
    repeated = {
        relation.uuid for relation, stored in zip(relations, candidates, strict=True) if holds_already(relation, stored)
    }
    absorbed = {merge.target.uuid: merge.absorbed for merge in identity.merges}
    nodes: list[Entity] = []
    cases: list[SummaryCase] = []
    for node in {node.uuid: node for node in identity.nodes}.values():
        about = [relation for relation in relations if node.uuid in (relation.lhs, relation.rhs)]
        is_retold = node.uuid in services.retold
        told = about if is_retold else [relation for relation in about if relation.uuid not in repeated]
        if node.content and about and not told and node.uuid not in absorbed:
            continue
        nodes.append(node)
        cases.append(_summary_case(node, told, absorbed=absorbed.get(node.uuid, ()), services=services))
    if not cases:
        return {}
    answers = await questions.ask_summaries(
        source,
        cases,
        language=services.language,
        batch_items=services.strategy.batch_items,
        asker=services.asker,
    )
    summaries = [answer or _told_by_facts(case) for answer, case in zip(answers, cases, strict=True)]
    return {node.uuid: summary for node, summary in zip(nodes, summaries, strict=True) if summary is not None}


def _told_by_facts(case: SummaryCase) -> Summary | None:
    """Return the facts as a summary where the model gave none and there is no old one."""
    if case.summary or not case.facts:
        return None
    return Summary(joined_facts(case.facts, limit=case.target_length))


def _summary_case(
    node: Entity, relations: Sequence[Relation], *, absorbed: Sequence[Entity], services: Services
) -> SummaryCase:
    return SummaryCase(
        name=node.name,
        type_name=node.obj_type,
        summary=node.content,
        attributes=node.attributes,
        facts=tuple(relation.qualified_text for relation in relations[:FACTS_PER_SUMMARY]),
        absorbed=tuple(each.content for each in absorbed if each.content),
        target_length=summary_target(node, services.strategy),
        kind=services.ontology.entity_type(node.obj_type),
    )


@traced
async def ask_relation_verdicts(
    source: SourceText,
    relations: Sequence[Relation],
    *,
    candidates: Sequence[Sequence[Relation]],
    services: Services,
) -> tuple[Verdict, ...]:
    """Return one verdict per new relation; what is an exact repeat, or has nothing beside it, is not asked."""
    verdicts = [Verdict()] * len(relations)
    open_numbers = [
        number
        for number, (relation, stored) in enumerate(zip(relations, candidates, strict=True))
        if stored and not is_repeat(relation, stored)
    ]
    if not open_numbers or not services.strategy.merge_relations:
        return tuple(verdicts)
    cases = [
        VerdictCase(_dated(relations[number]), tuple(_dated(each) for each in candidates[number]))
        for number in open_numbers
    ]
    answers = await questions.ask_relation_verdicts(
        source,
        cases,
        language=services.strategy.pair_language(services.language),
        judge_items=services.strategy.judge_items,
        asker=services.asker,
    )
    for number, answer in zip(open_numbers, answers, strict=True):
        verdicts[number] = answer
    return tuple(verdicts)


def _dated(relation: Relation) -> str:
    """Return a fact with the time it holds, where that is known: from – to, each side empty if unknown."""
    since, until = (
        "" if seconds is None else format_seconds(seconds, offset, precision or "second")
        for seconds, offset, precision in (
            (relation.valid_since, relation.offset_since, relation.precision_since),
            (relation.valid_until, relation.offset_until, relation.precision_until),
        )
    )
    return f"{relation.qualified_text} ({since} – {until})" if since or until else relation.qualified_text


@traced
async def ask_relation_filter(
    merges: Sequence[Merge], rewired: Sequence[Sequence[Relation]], services: Services
) -> tuple[tuple[int, ...] | None, ...]:
    """Return, per merge, the numbers of the moved facts that still make sense, or None for all of them."""
    kept: list[tuple[int, ...] | None] = [None] * len(merges)
    asked = [number for number, facts in enumerate(rewired) if 0 < len(facts) <= FACTS_PER_FILTER]
    if not asked or not services.strategy.merge_filter:
        return tuple(kept)
    cases = [
        FilterCase(
            merges[number].target.name,
            merges[number].target.content,
            tuple(relation.qualified_text for relation in rewired[number]),
        )
        for number in asked
    ]
    answers = await questions.ask_relation_filter(
        cases, language=services.language, judge_items=services.strategy.judge_items, asker=services.asker
    )
    for number, answer in zip(asked, answers, strict=True):
        kept[number] = answer
    return tuple(kept)
