"""The write path: from a text to the plan of what shall change in the graph. Reads and asks; writes nothing."""

from __future__ import annotations

from jiuwen_memory.foundation.concurrency import off_loop, together
from jiuwen_memory.memory_core.graph.graph_memory import (
    ask,
    fusing,
    periods,
    recall,
    recording,
    resolve,
    rivals,
    spine,
    synonyms,
    type_rules,
)
from jiuwen_memory.memory_core.graph.graph_memory import postprocess_graph_objects as postprocess
from jiuwen_memory.memory_core.graph.graph_memory.methods import METHODS
from jiuwen_memory.memory_core.graph.graph_memory.requests import AddRequest
from jiuwen_memory.memory_core.graph.graph_memory.services import Services
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate, with_fresh_ids
from jiuwen_memory.memory_core.graph.graph_memory.statistics import with_usage


async def plan_addition(request: AddRequest, services: Services) -> GraphMemUpdate:
    """Return a plan ready to be written: its new ids are free, close names are linked, and it says what it cost."""
    planned = await plan_update(request, services)
    if not services.strategy.skip_uuid_dedupe:
        planned = with_fresh_ids(planned, await recall.recall_taken(planned, services))
    planned = await synonyms.with_synonyms(planned, request.user_id, services)
    return with_usage(planned, services.asker.ledger.usage)


async def plan_update(request: AddRequest, services: Services) -> GraphMemUpdate:
    """Return what one text changes in the graph of its user, after three rounds of questions to the model."""
    history = await recall.recall_episodes(request, services)
    source = resolve.resolve_source(request, history)
    method = METHODS[services.strategy.extraction]

    reading, zone = await together(method.ask_first(source, services), method.ask_zone(source, services))
    mentions = resolve.resolve_mentions(reading.mentions, request.speakers)
    record = recording.with_gists(
        recording.resolve_record(request, history, services.language),
        reading.gists,
        concatenate=services.strategy.concatenate_gists,
        content_bytes=services.storage.content // 4,
    )

    known = await recall.recall_entities(mentions, request, services)
    names = resolve.resolve_names(mentions, known, speakers=request.speakers, strategy=services.strategy)
    facts, duplicates = await together(
        method.ask_facts(source, mentions, reading, services), ask.ask_entity_duplicates(source, names, services)
    )
    identity = type_rules.resolve_types(
        resolve.resolve_identity(
            mentions, names, duplicates, known=known, strategy=services.strategy, episode=record.first
        )
    )
    placed = type_rules.resolve_ends(facts, identity, services.ontology)
    # The first time word of a process loads what reads it.
    relations = await off_loop(
        None, resolve.resolve_relations, placed.facts, identity, zone=zone, request=request, record=record
    )
    identity = resolve.without_silent(identity, reading.mentions, placed.facts)

    stored = await recall.recall_relations(relations, identity, request=request, services=services)
    rewired = fusing.resolve_rewired(identity.merges, stored)
    candidates = postprocess.resolve_candidates(relations, stored, rewired)
    summaries, verdicts, kept = await together(
        ask.ask_summaries(source, identity, relations, candidates=candidates, services=services),
        ask.ask_relation_verdicts(source, relations, candidates=candidates, services=services),
        ask.ask_relation_filter(identity.merges, rewired, services),
    )
    judged = postprocess.resolve_judged(relations, candidates, verdicts)
    against, beside = await together(
        rivals.recall_rivals(judged, request.user_id, services), spine.recall_spine(request, services)
    )
    draft = postprocess.assemble_draft(
        postprocess.Pieces(
            record=record,
            identity=identity,
            relations=relations,
            known=stored,
            rewired=rewired,
            judged=judged,
            rivals=against,
            spine=beside,
            kept=kept,
            summaries=summaries,
        ),
        services.storage,
        services.strategy,
    )
    loose = await recall.recall_loose_ends(draft, request.user_id, services.store)
    periods.resolve_loose_ends(draft, loose, limit=services.storage.relations)
    draft.warnings.extend(placed.warnings)
    return draft.update()
