"""The search path: from a query to ranked objects of each collection. Reads the store; may ask the reranker.

It is a row of small parts, each in a module of `searching`, which all take and return a `Pool` of candidates:

    asked        the request to one collection, and the strategy it comes from
    strategies   the strategies that are registered from the start
    times        what held, what was known, which period is asked about
    period_words the period that words of the query name
    names        names that are everywhere, and the text that is embedded
    channels     the raw hits of each channel, and their fusion
    reading      what held at the moment asked about; relations to go along, and objects by id, for what follows
    expand       neighbours in the graph (`bfs_depth`)
    spine        what was said before and after in the same session
    support      what related candidates lend each other
    pagerank     a walk over what lies around the hits of all collections
    signals      who said it, how new it is, how often it was mentioned, ...
    reranking    the reranker's scores
    diversity    results that differ from each other
    ordering     what holds now first
    paths        the ways through the graph to the results
    results      what is returned
    prompt_text  the same as text for a prompt

`search_memory` calls them in this order, all collections at once. From `expand` to `signals` is the graph part: a store
that fails there leaves the order of the channels, and the diagnostics say so. A new part is a module with one function
from a pool to a pool, called in one place here.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from jiuwen_memory.errors import JiuwenMemoryError, LLMAnswerError, SetupError
from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.ports import Reranker
from jiuwen_memory.foundation.store.graph.base import GraphStore, Hit
from jiuwen_memory.foundation.store.graph.constants import EPISODE_COLLECTION, RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import RERANK_LIMIT, SearchRequest
from jiuwen_memory.memory_core.graph.graph_memory.searching.channels import recall_pool
from jiuwen_memory.memory_core.graph.graph_memory.searching.diversity import recall_diverse
from jiuwen_memory.memory_core.graph.graph_memory.searching.expand import recall_neighbours
from jiuwen_memory.memory_core.graph.graph_memory.searching.ordering import by_time, current_first, successors_first
from jiuwen_memory.memory_core.graph.graph_memory.searching.pagerank import recall_associations
from jiuwen_memory.memory_core.graph.graph_memory.searching.paths import recall_paths
from jiuwen_memory.memory_core.graph.graph_memory.searching.pool import Candidate, Pool, Trail, as_pool, ranked
from jiuwen_memory.memory_core.graph.graph_memory.searching.reading import recall_held
from jiuwen_memory.memory_core.graph.graph_memory.searching.reranking import ask_reranker
from jiuwen_memory.memory_core.graph.graph_memory.searching.results import (
    CollectionDiagnostics,
    HitDiagnostics,
    Path,
    SearchDiagnostics,
    SearchResult,
)
from jiuwen_memory.memory_core.graph.graph_memory.searching.signals import resolve_signals
from jiuwen_memory.memory_core.graph.graph_memory.searching.spine import recall_spine
from jiuwen_memory.memory_core.graph.graph_memory.searching.support import recall_support

SUCCESSOR_FACTOR: Final = 3
"""Relations looked through for what superseded a result, as a multiple of `top_k`."""


@dataclass(frozen=True)
class SearchServices:
    """What a search may use; `tries` is how often the reranker is asked, `language` that of texts for a prompt."""

    store: GraphStore
    reranker: Reranker | None
    tries: int
    language: Language


@dataclass
class Notes:
    """What is written down on the way, for the diagnostics."""

    milliseconds: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add the time that the body takes to a part of the search."""
        start = time.perf_counter()
        try:
            yield
        finally:
            passed = (time.perf_counter() - start) * 1000
            self.milliseconds[part] = self.milliseconds.get(part, 0.0) + passed


async def search_memory(
    requests: Sequence[SearchRequest],
    services: SearchServices,
    *,
    strategy: str,
    embedded: tuple[str, ...],
    notes: Notes,
) -> SearchResult:
    """Return the best `top_k` objects of each collection asked, with the ways to them and diagnostics."""
    store = services.store
    with notes.timed("channels"):
        brought = await together(*(recall_pool(request, store=store) for request in requests))
        found = await together(
            *(_recall_held(request, pool, store=store) for request, pool in zip(requests, brought, strict=True))
        )
    with notes.timed("graph"):
        pools, trail = await _recall_graph(requests, found, store=store, notes=notes)
    with notes.timed("results"):
        results = await together(
            *(_resolved(request, pool, services, notes=notes) for request, pool in zip(requests, pools, strict=True))
        )
    with notes.timed("paths"):
        paths = await _recall_ways(requests, pools, results, trail=trail, store=store, notes=notes)
    diagnosed = {
        request.collection: _diagnostics(pool, hits)
        for request, pool, hits in zip(requests, pools, results, strict=True)
    }
    return SearchResult(
        {
            request.collection: [(hit.score, hit.found) for hit in hits]
            for request, hits in zip(requests, results, strict=True)
        },
        paths=paths,
        diagnostics=SearchDiagnostics(
            strategy, embedded, diagnosed, notes.milliseconds, tuple(notes.problems), requests[0].time.period
        ),
        time=requests[0].time,
        language=services.language,
    )


async def _recall_held(request: SearchRequest, pool: Pool, *, store: GraphStore) -> Pool:
    if request.time.as_of is None and request.time.known_at is None:
        return pool
    found = [each.found for each in pool.values()]
    held = await recall_held(found, request.time, user=request.user, store=store)
    return as_pool(replace(pool[each.uuid], found=each) for each in held)


async def _recall_graph(
    requests: Sequence[SearchRequest], found: Sequence[Pool], *, store: GraphStore, notes: Notes
) -> tuple[Sequence[Pool], Trail]:
    """Return the pools after the graph part; those of the channels if it fails.

    What is not set up is still an error: no later search would do better.
    """
    try:
        pools: Sequence[Pool] = await _recall_around(requests, found, store=store)
        trail = Trail()
        if any(request.config.pagerank for request in requests):
            pools, trail = await recall_associations(requests, pools, store=store)
        return [resolve_signals(request, pool) for request, pool in zip(requests, pools, strict=True)], trail
    except SetupError:
        raise
    except JiuwenMemoryError as error:
        notes.problems.append(f"The graph part failed and was left out: {error}")
        return found, Trail()


async def _recall_around(
    requests: Sequence[SearchRequest], found: Sequence[Pool], *, store: GraphStore
) -> Sequence[Pool]:
    """Return the pools with neighbours, or what was said around, and with support among candidates."""
    near, said = await together(_recall_near(requests, found, store=store), _recall_said(requests, found, store=store))
    # Episodes alone have a spine, and they alone have no neighbours.
    pools = [
        said[place] if request.collection == EPISODE_COLLECTION else near[place]
        for place, request in enumerate(requests)
    ]
    return await together(
        *(_recall_supported(request, pool, store=store) for request, pool in zip(requests, pools, strict=True))
    )


async def _recall_near(
    requests: Sequence[SearchRequest], found: Sequence[Pool], *, store: GraphStore
) -> Sequence[Pool]:
    wanted = any(request.expands for request in requests)
    return await recall_neighbours(requests, found, store=store) if wanted else found


async def _recall_said(
    requests: Sequence[SearchRequest], found: Sequence[Pool], *, store: GraphStore
) -> Sequence[Pool]:
    return [
        await recall_spine(request, pool, store=store)
        if request.config.spine and request.collection == EPISODE_COLLECTION
        else pool
        for request, pool in zip(requests, found, strict=True)
    ]


async def _recall_supported(request: SearchRequest, pool: Pool, *, store: GraphStore) -> Pool:
    return await recall_support(request, pool, store=store) if request.config.support else pool


async def _resolved(request: SearchRequest, pool: Pool, services: SearchServices, *, notes: Notes) -> list[Hit]:
    """Return the results: past the threshold, reranked if wanted, in their final order, read whole.

    Among the relations found, those that hold come before those that do not, each group by score. The reply of a
    language model that cannot be used leaves the order as it is.
    """
    config = request.config
    hits = [each.hit for each in ranked(pool) if each.score >= config.threshold]
    if config.rerank:
        whole = await _read_whole(request, hits[: max(RERANK_LIMIT, config.top_k)], store=services.store)
        try:
            hits = await ask_reranker(request, whole, reranker=services.reranker, tries=services.tries)
        except LLMAnswerError as error:
            notes.problems.append(f"{request.collection} keeps the order it had before the reranker: {error.message}")
            hits = whole
    if request.collection == RELATION_COLLECTION:
        varied = config.diversity.candidates if config.diversity else 0
        hits = successors_first(hits[: max(RERANK_LIMIT, varied, SUCCESSOR_FACTOR * config.top_k)])
    hits = await recall_diverse(request, hits, store=services.store)
    if not config.rerank:
        hits = await _read_whole(request, hits, store=services.store)
    return by_time(hits) if config.order == "time" else current_first(hits, request.time)


async def _read_whole(request: SearchRequest, hits: Sequence[Hit], *, store: GraphStore) -> list[Hit]:
    """Return hits with all columns of their objects; one that was deleted a moment ago is left out."""
    if not hits:
        return []
    rows = await store.query(
        request.collection,
        user=request.user,
        ids=[hit.found.uuid for hit in hits],
        output_fields=request.result_fields(),
    )
    whole: Mapping[str, BaseGraphObject] = {each.uuid: each for each in rows}
    return [Hit(hit.score, request.time.seen(whole[hit.found.uuid])) for hit in hits if hit.found.uuid in whole]


async def _recall_ways(
    requests: Sequence[SearchRequest],
    pools: Sequence[Pool],
    results: Sequence[Sequence[Hit]],
    *,
    trail: Trail,
    store: GraphStore,
    notes: Notes,
) -> tuple[Path, ...]:
    known: dict[str, Candidate] = {}
    for pool in pools:
        known |= pool
    reached = [known[hit.found.uuid] for hits in results for hit in hits if known[hit.found.uuid].reached]
    if not reached:
        return ()
    whole = {
        hit.found.uuid: hit.found
        for request, hits in zip(requests, results, strict=True)
        for hit in hits
        if request.config.output_fields is None
    }
    try:
        return await recall_paths(reached, known=known, whole=whole, trail=trail, user=requests[0].user, store=store)
    except JiuwenMemoryError as error:
        notes.problems.append(f"The paths could not be read: {error}")
        return ()


def _diagnostics(pool: Pool, hits: Sequence[Hit]) -> CollectionDiagnostics:
    brought = Counter(channel for each in pool.values() for channel in each.channels)
    admissions = Counter(each.admitted for each in pool.values())
    reasons = {
        hit.found.uuid: HitDiagnostics(hit.score, each.fused, each.channels, each.signals, each.admitted)
        for hit, each in ((hit, pool[hit.found.uuid]) for hit in hits)
    }
    return CollectionDiagnostics(brought, admissions, reasons)
