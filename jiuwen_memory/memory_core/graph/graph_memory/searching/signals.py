"""Signals that a candidate carries itself: who said it, how new it is, how often it was told. Pure functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchRequest
from jiuwen_memory.memory_core.graph.graph_memory.searching.names import names_in
from jiuwen_memory.memory_core.graph.graph_memory.searching.ordering import time_of
from jiuwen_memory.memory_core.graph.graph_memory.searching.pool import Candidate, Pool, as_pool, ranked

DAY: Final = 86_400
QUESTION_MARKS: Final = ("?", "？")


def resolve_signals(request: SearchRequest, pool: Pool) -> Pool:
    """Return the pool with every signal that is on added to its candidates, best first."""
    config = request.config
    candidates = list(pool.values())
    if config.speaker:
        candidates = _by_speaker(request, candidates)
    if config.questions:
        weight = -config.questions * request.highest
        candidates = [each.raised("questions", weight * _asks(each.found)) for each in candidates]
    if config.recency:
        near = _Nearness(config.recency * request.highest, request.time.present, config.recency_days)
        candidates = [each.raised("recency", near.of(each.found)) for each in candidates]
    period = request.time.period
    if period is not None and config.period == "boost":
        weight = config.period_weight * request.highest
        candidates = [each.raised("period", weight * period.closeness(each.found)) for each in candidates]
    if config.closeness:
        candidates = _by_closeness(request, candidates)
    if config.mentions:
        candidates = _by_mentions(request, candidates)
    return as_pool(ranked(candidates))


def _by_speaker(request: SearchRequest, candidates: list[Candidate]) -> list[Candidate]:
    """Raise what the one person said whom the query names; with two or none named, nobody is asked about.

    What all candidates share tells nothing apart, so it counts how much more of it is theirs than of the least.
    """
    spoken = {each.uuid: each.found.speakers for each in candidates if isinstance(each.found, Episode)}
    named = names_in(request.text, {name for speakers in spoken.values() for name in speakers})
    if len(named) != 1:
        return candidates
    (asked,) = named
    shares = {uuid: 1 / len(speakers) if asked in speakers else 0.0 for uuid, speakers in spoken.items()}
    least = min(shares.values())
    weight = request.config.speaker * request.highest
    return [each.raised("speaker", weight * (shares.get(each.uuid, least) - least)) for each in candidates]


def _asks(found: BaseGraphObject) -> bool:
    """Tell whether an episode ends by asking."""
    return isinstance(found, Episode) and found.content.rstrip(" \n\t\"'”’」』）)").endswith(QUESTION_MARKS)


@dataclass(frozen=True)
class _Nearness:
    """What lies at a moment gets the whole weight, what lies so many days off half of it, twice as many a quarter."""

    weight: float
    moment: int
    days: float

    def of(self, found: BaseGraphObject) -> float:
        return float(self.weight * 0.5 ** (abs(self.moment - time_of(found)) / DAY / self.days))


def _by_closeness(request: SearchRequest, candidates: list[Candidate]) -> list[Candidate]:
    timed = [each for each in candidates if isinstance(each.found, Episode | Relation)]
    if not timed:
        return candidates
    moment = request.time.moment
    if moment is None:
        moment = time_of(max(timed, key=lambda each: each.score).found)
    config = request.config
    near = _Nearness(config.closeness * request.highest, moment, config.closeness_days)
    return [
        each.raised("closeness", near.of(each.found)) if isinstance(each.found, Episode | Relation) else each
        for each in candidates
    ]


def _by_mentions(request: SearchRequest, candidates: list[Candidate]) -> list[Candidate]:
    counts = {
        each.uuid: math.log(each.found.mention_count)
        for each in candidates
        if isinstance(each.found, Entity | Relation) and each.found.mention_count > 1
    }
    most = max(counts.values(), default=0.0)
    if not most:
        return candidates
    weight = request.config.mentions * request.highest
    return [each.raised("mentions", weight * counts.get(each.uuid, 0.0) / most) for each in candidates]
