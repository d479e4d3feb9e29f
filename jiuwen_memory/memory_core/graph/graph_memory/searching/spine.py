"""The spine of a session: what was said right before and after a good hit. Reads the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Final

from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.constants import EPISODE_COLLECTION, RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import Episode, Relation
from jiuwen_memory.foundation.store.query import QueryExpr, chain_filters, eq, gte, in_list, lte
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchRequest
from jiuwen_memory.memory_core.graph.graph_memory.searching.pool import Candidate, Pool, Reached, as_pool, ranked

SEED_LIMIT: Final = 50
SESSION_ROWS: Final = 2_000
"""Episodes read of the sessions of the hits; if there are more, those said near the hits are read."""
SPANS: Final = (86_400, 3_600, 60)
"""Seconds before and after a hit that are near, the next one where too much was said in them."""
LINK_LIMIT: Final = 500
EARLIER: Final = (1.0, 0.5, 0.25)
"""What an episode hands to the one, two or three after it: an answer follows its question."""
LATER: Final = (0.75, 0.5, 0.25)


@dataclass(frozen=True)
class _Support:
    target: str
    amount: float
    reached: Reached


@traced
async def recall_spine(request: SearchRequest, pool: Pool, *, store: GraphStore) -> Pool:
    """Return the pool with each episode supported by the good ones around it; episodes that no channel found may join.

    An episode of score s supports its neighbours by what s lies above the floor, weighted by distance and direction.
    The support is not divided by the number of neighbours: there are at most six. Neighbours are the next episodes of
    the session by time; without a session, those that stored `temporal_next` links name.
    """
    config = request.config
    floor = config.spine_floor * request.highest
    seeds = [each for each in ranked(pool)[:SEED_LIMIT] if each.score > floor and isinstance(each.found, Episode)]
    if not seeds:
        return pool
    lines, known = await _recall_lines(request, seeds, store=store)
    supports = [support for line in lines for support in _resolve_supports(request, line, pool, floor)]
    return _supported(pool, known, supports)


async def _recall_lines(
    request: SearchRequest, seeds: Sequence[Candidate], *, store: GraphStore
) -> tuple[list[list[str]], dict[str, Episode]]:
    """Return the episodes around the seeds as lines from earlier to later, and those episodes."""
    episodes = [each.found for each in seeds if isinstance(each.found, Episode)]
    (in_sessions, span), linked = await together(
        _recall_sessions(request, [each for each in episodes if each.session_id], store=store),
        _recall_linked(request, [each for each in episodes if not each.session_id], store=store),
    )
    by_session: dict[tuple[str, str], list[Episode]] = defaultdict(list)
    for each in in_sessions:
        by_session[each.user_id, each.session_id].append(each)
    lines = [part for line in by_session.values() for part in _unbroken(sorted(line, key=_place), span)]
    known = {each.uuid: each for each in in_sessions} | linked[1]
    return [*lines, *linked[0]], known


def _unbroken(line: Sequence[Episode], span: int | None) -> list[list[str]]:
    """Return a line as the parts between which episodes may be missing: those further apart than a span."""
    parts = [[each.uuid for each in line[:1]]]
    for before, after in pairwise(line):
        if span is not None and _place(after)[0] - _place(before)[0] > span:
            parts.append([])
        parts[-1].append(after.uuid)
    return parts


def _place(episode: Episode) -> tuple[int, int, int, str]:
    said = episode.created_at if episode.valid_since is None else episode.valid_since
    return said, episode.created_at, episode.part, episode.uuid


async def _recall_sessions(
    request: SearchRequest, episodes: Sequence[Episode], *, store: GraphStore
) -> tuple[list[Episode], int | None]:
    """Return the sessions of episodes; of those too long to be read what was said near the episodes, and how near."""
    if not episodes:
        return [], None
    sessions = in_list("session_id", list(dict.fromkeys(each.session_id for each in episodes)))
    rows = await _recall_within(request, sessions, store=store)
    dated = [(each.session_id, each.valid_since) for each in episodes if each.valid_since is not None]
    if len(rows) < SESSION_ROWS or not dated:
        return rows, None
    for span in SPANS:
        near = [
            eq("session_id", session) & gte("valid_since", said - span) & lte("valid_since", said + span)
            for session, said in dated
        ]
        rows = await _recall_within(request, reduce(or_, near), store=store)
        if len(rows) < SESSION_ROWS:
            break
    return rows, span


async def _recall_within(request: SearchRequest, within: QueryExpr, *, store: GraphStore) -> list[Episode]:
    rows = await store.query(
        EPISODE_COLLECTION,
        user=request.user,
        expr=within if request.conditions is None else chain_filters(within, request.conditions),
        limit=SESSION_ROWS,
        output_fields=request.working_fields(),
    )
    return [each for each in rows if isinstance(each, Episode)]


async def _recall_linked(
    request: SearchRequest, episodes: Sequence[Episode], *, store: GraphStore
) -> tuple[list[list[str]], dict[str, Episode]]:
    """Return lines along stored links between episodes, a query for each step away, and their episodes."""
    following: dict[str, str] = {}
    frontier = [each.uuid for each in episodes]
    for _ in range(request.config.spine_distance):
        links = await _recall_links(request, frontier, store=store) if frontier else []
        new = {each.lhs: each.rhs for each in links if each.lhs not in following}
        following |= new
        frontier = [uuid for uuid in dict.fromkeys([*new, *new.values()]) if uuid not in frontier]
        if not new:
            break
    if not following:
        return [], {}
    ids = list(dict.fromkeys([*following, *following.values()]))
    rows = await store.query(
        EPISODE_COLLECTION,
        user=request.user,
        ids=ids,
        expr=request.conditions,
        output_fields=request.working_fields(),
    )
    known = {each.uuid: each for each in rows if isinstance(each, Episode)}
    return _lines(following, known), known


async def _recall_links(request: SearchRequest, ids: Sequence[str], *, store: GraphStore) -> list[Relation]:
    touching = in_list("lhs", ids) | in_list("rhs", ids)
    rows = await store.query(
        RELATION_COLLECTION,
        user=request.user,
        expr=eq("kind", "temporal_next") & eq("ends", "episode") & touching,
        limit=LINK_LIMIT,
        output_fields=["lhs", "rhs"],
    )
    return [each for each in rows if isinstance(each, Relation)]


def _lines(following: Mapping[str, str], known: Mapping[str, Episode]) -> list[list[str]]:
    later = set(following.values())
    lines = []
    for start in (uuid for uuid in following if uuid not in later):
        line, at = {start: None}, following.get(start)
        while at is not None and at not in line:
            line[at] = None
            at = following.get(at)
        lines.append([uuid for uuid in line if uuid in known])
    return lines


def _resolve_supports(request: SearchRequest, line: Sequence[str], pool: Pool, floor: float) -> list[_Support]:
    config = request.config
    supports: list[_Support] = []
    for place, uuid in enumerate(line):
        above = pool[uuid].score - floor if uuid in pool else 0.0
        if above <= 0:
            continue
        for distance in range(1, config.spine_distance + 1):
            for at, shares, forward in ((place + distance, EARLIER, True), (place - distance, LATER, False)):
                if 0 <= at < len(line):
                    amount = config.spine * shares[distance - 1] * above
                    supports.append(_Support(line[at], amount, Reached(uuid, "temporal_next", forward)))
    return supports


def _supported(pool: Pool, known: Mapping[str, Episode], supports: Sequence[_Support]) -> Pool:
    """Return the pool with the supports added; a newcomer's way leads from the one that supports it most."""
    amounts: dict[str, float] = defaultdict(float)
    strongest: dict[str, _Support] = {}
    for support in supports:
        amounts[support.target] += support.amount
        before = strongest.get(support.target)
        if before is None or support.amount > before.amount:
            strongest[support.target] = support
    joined = dict(pool)
    for uuid, amount in amounts.items():
        if uuid in pool:
            joined[uuid] = pool[uuid].raised("spine", amount)
        elif uuid in known:
            newcomer = Candidate(known[uuid], 0.0, admitted="spine", reached=strongest[uuid].reached)
            joined[uuid] = newcomer.raised("spine", amount)
    return as_pool(ranked(joined))
