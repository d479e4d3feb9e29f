"""The temporal spine: each episode of a session linked to the next one in time. Reads the store; the rest is pure.

A link is a relation of kind `temporal_next` with `ends="episode"`, from the earlier (`lhs`) to the later one (`rhs`).
An episode that arrives late takes its place between its neighbours; where one is deleted, its neighbours are linked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.store.graph.constants import EPISODE_COLLECTION, GIST, RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import Episode, Relation
from jiuwen_memory.foundation.store.query import QueryExpr, eq, filter_user, gt, gte, in_list, lte, ne
from jiuwen_memory.foundation.timepoint import format_seconds
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.graph.graph_memory.requests import AddRequest
from jiuwen_memory.memory_core.graph.graph_memory.services import Services
from jiuwen_memory.memory_core.graph.graph_memory.states import Draft

NEXT: Final = "temporal_next"
CROWD: Final = 100
"""Episodes of a session that are read at once; of more, only those near in time are."""
SPANS: Final = tuple(3600 * 32**power for power in range(7))
"""Seconds around a new episode in which its neighbours are looked for; the last span holds every time there is."""
FIELDS = ("uuid", "user_id", "language", "valid_since", "offset_since", "source", "created_at", "part")


@dataclass(frozen=True)
class Spine:
    """The neighbours of a new episode in its session, and the links that end at them."""

    before: Episode | None = None
    after: Episode | None = None
    links: tuple[Relation, ...] = ()


@traced
async def recall_spine(request: AddRequest, services: Services) -> Spine:
    """Return what a new episode stands between in its session; nothing if no spine is wanted."""
    if not (services.strategy.temporal_spine and request.session_id):
        return Spine()
    said = request.reference.seconds
    earlier, later = await together(
        _recall_earlier(said, request, services),
        _recall_nearest(lambda span: gt("valid_since", said) & lte("valid_since", said + span), request, services),
    )
    before, after = max(earlier, key=_place, default=None), min(later, key=_place, default=None)
    if before is None or after is None:
        return Spine(before, after)
    found = await services.store.query(
        RELATION_COLLECTION,
        user=filter_user(request.user_id),
        expr=eq("kind", NEXT) & eq("ends", "episode") & in_list("lhs", [before.uuid]),
        consistency="strong",
    )
    return Spine(before, after, tuple(each for each in found if isinstance(each, Relation)))


async def _recall_earlier(said: int, request: AddRequest, services: Services) -> list[Episode]:
    side = lte("valid_since", said)
    found = await _recall_nearest(lambda span: side & gte("valid_since", said - span), request, services)
    if not found or any((each.valid_since or 0) > 0 for each in found):
        return found
    # An unknown time stands for 1970, but is not stored as that.
    return await _recall_within(side, request, services)


async def _recall_nearest(within: Callable[[int], QueryExpr], request: AddRequest, services: Services) -> list[Episode]:
    """Return all episodes of one side, or of a crowd some, all of the nearest second among them.

    A store gives rows in no order, so it is asked for those within a span of time, which is widened until something
    lies in it and then narrowed until it holds no crowd.

    Args:
        within: returns the condition to lie on this side, at most so many seconds away.
    """

    async def read(span: int) -> list[Episode]:
        return await _recall_within(within(span), request, services, limit=CROWD)

    found = await read(SPANS[-1])
    if len(found) < CROWD:
        return found
    empty = -1
    for span in SPANS:
        found = await read(span)
        if found:
            break
        empty = span
    while len(found) == CROWD and span - empty > 1:
        middle = (empty + span) // 2
        nearer = await read(middle)
        if nearer:
            span, found = middle, nearer
        else:
            empty = middle
    return found if len(found) < CROWD else await _recall_within(within(span), request, services)


async def _recall_within(
    side: QueryExpr, request: AddRequest, services: Services, *, limit: int | None = None
) -> list[Episode]:
    found = await services.store.query(
        EPISODE_COLLECTION,
        user=filter_user(request.user_id),
        expr=eq("session_id", request.session_id) & side & ne("obj_type", GIST),
        limit=limit,
        output_fields=list(FIELDS),
        consistency="strong",
    )
    return [each for each in found if isinstance(each, Episode)]


def _place(episode: Episode) -> tuple[int, int, int, str]:
    """Return where an episode stands in its session: by time, then as learnt."""
    return episode.valid_since or 0, episode.created_at, episode.part, episode.uuid


def put_spine(draft: Draft, episodes: Sequence[Episode], spine: Spine) -> None:
    """Link the new episodes of a text, a message each or one, to their neighbours, in place of the link between these.

    Messages of one text are linked where the text is linked to something.
    """
    for link in spine.links:
        draft.know(link)
        if spine.after and link.rhs == spine.after.uuid:
            draft.remove(link.uuid)
    if not (spine.before or spine.after):
        return
    chain = [*([spine.before] if spine.before else []), *episodes, *([spine.after] if spine.after else [])]
    for earlier, later in pairwise(chain):
        draft.put(next_of(earlier, later))


def put_healed(draft: Draft, stored: Iterable[Relation], gone: frozenset[str]) -> None:
    """Link the neighbours of deleted episodes to each other, after the links that ended at these were dropped."""
    following = {link.lhs: link.rhs for link in stored if link.kind == NEXT and link.ends == "episode"}
    for lhs, rhs in following.items():
        if lhs in gone or rhs not in gone:
            continue
        end = rhs
        while end in gone and end in following:
            end = following[end]
        earlier, later = draft.get(Episode, lhs), draft.get(Episode, end)
        if earlier and later:
            draft.put(next_of(earlier, later))


def next_of(earlier: Episode, later: Episode) -> Relation:
    """Return the link from an episode to the next one; it rests on the later one, and goes with either."""
    return Relation(
        user_id=later.user_id,
        language=later.language,
        obj_type="Link",
        kind=NEXT,
        ends="episode",
        name=NEXT,
        content=" → ".join(_days([earlier, later])),
        lhs=earlier.uuid,
        rhs=later.uuid,
        lhs_origin=earlier.uuid,
        rhs_origin=later.uuid,
        episodes=[later.uuid],
        sources=[later.source] if later.source else [],
        first_mentioned_at=later.valid_since,
        last_mentioned_at=later.valid_since,
        created_at=max(earlier.created_at, later.created_at),
    )


def _days(episodes: Sequence[Episode]) -> list[str]:
    return [
        "?" if each.valid_since is None else format_seconds(each.valid_since, each.offset_since, "day")
        for each in episodes
    ]
