"""What a search found and the facts about somebody, one shape for all kinds, as the doors of the memory hand it on.

Reads the memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import zip_longest
from typing import Literal

from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation, now
from jiuwen_memory.foundation.text import is_blank
from jiuwen_memory.foundation.timepoint import Timepoint, format_period
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.searching.results import SearchResult
from jiuwen_memory.memory_core.graph.graph_memory.searching.times import AskedTime
from jiuwen_memory.memory_core.graph.graph_memory.triples import Triple

Kind = Literal["fact", "entity", "episode"]
COLLECTIONS: Mapping[Kind, str] = {
    "fact": RELATION_COLLECTION,
    "entity": ENTITY_COLLECTION,
    "episode": EPISODE_COLLECTION,
}


@dataclass(frozen=True)
class Finding:
    """One object that was found.

    Args:
        text: a fact's sentence, an entity's name and summary, an episode's text.
        id: the object's uuid.
        name, type: of an entity; of a fact, the short name of the relation and its type.
        since, until: when a fact holds; an episode was said at `since`.
        current: whether nothing has ended or replaced a fact, as far as is known, by the moment that was asked about.
        episodes: ids of the evidence.
    """

    kind: Kind
    text: str
    score: float
    id: str
    name: str = ""
    type: str = ""
    since: Timepoint | None = None
    until: Timepoint | None = None
    current: bool | None = None
    sources: tuple[str, ...] = ()
    session_id: str = ""
    episodes: tuple[str, ...] = ()

    @property
    def dated_text(self) -> str:
        """A fact's sentence with its dates, anything else's text."""
        if self.kind != "fact":
            return self.text
        return dated(self.text, self.since, self.until, has_ended=self.current is False)


def dated(text: str, since: Timepoint | None, until: Timepoint | None, *, has_ended: bool) -> str:
    """Return a sentence with the time it holds, such as "Ann lives in Porto. (since 2021)"."""
    remark = period_words(since, until, has_ended=has_ended)
    return f"{text} ({remark})" if remark else text


def period_words(since: Timepoint | None, until: Timepoint | None, *, has_ended: bool) -> str:
    """Return when something holds in words; if it has ended and nobody knows when, they say so."""
    ended = "no longer so" if has_ended and not until else ""
    return ", ".join(filter(None, [format_period(since, until), ended]))


def has_ended(triple: Triple) -> bool:
    """Tell whether a fact held once and holds no more; one that has yet to begin has not ended."""
    return not triple.is_current and not (triple.valid_since and triple.valid_since.seconds > now())


def findings(
    results: SearchResult, kinds: Sequence[Kind] = ("fact", "entity", "episode"), *, limit: int | None = None
) -> list[Finding]:
    """Return the results of a search with the kinds in turn, each best first: their scores do not compare."""
    is_current = results.is_current
    lists = [
        [finding(score, each, is_current=is_current(each)) for score, each in results.get(COLLECTIONS[kind], ())]
        for kind in kinds
    ]
    return [each for row in zip_longest(*lists) for each in row if each is not None][:limit]


def finding(score: float, found: BaseGraphObject, *, is_current: bool | None = None) -> Finding:
    """Return an object in the common shape; whether a fact is current is a matter of today, if it is not given."""
    if isinstance(found, Relation):
        return Finding(
            kind="fact",
            text=found.qualified_text,
            score=score,
            id=found.uuid,
            name=found.name,
            type=found.obj_type,
            since=found.since,
            until=found.until,
            current=AskedTime().is_current(found, now()) if is_current is None else is_current,
            sources=tuple(found.sources),
            episodes=tuple(found.episodes),
        )
    if isinstance(found, Entity):
        return Finding(
            kind="entity",
            text=f"{found.name}: {found.content}" if found.content else found.name,
            score=score,
            id=found.uuid,
            name=found.name,
            type=found.obj_type,
            sources=tuple(found.sources),
            episodes=tuple(found.episodes),
        )
    episode = found if isinstance(found, Episode) else Episode()
    said_at = episode.valid_since
    return Finding(
        kind="episode",
        text=found.content,
        score=score,
        id=found.uuid,
        since=None if said_at is None else Timepoint(said_at, episode.offset_since),
        sources=(episode.source,) if episode.source else (),
        session_id=episode.session_id,
        episodes=(found.uuid,),
    )


async def recall_facts(
    memory: GraphMemory,
    user_id: str,
    *,
    about: str | None = None,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
    limit: int,
) -> list[Triple]:
    """Return a user's facts, the latest said first; `about` keeps to those with this name at either end.

    Models write a blank name for none.
    """
    triples = partial(memory.triples, user_id, as_of=as_of, known_at=known_at, limit=limit)
    if about is None or is_blank(about):
        return await triples()
    lists = await together(triples(subject=about), triples(object=about))
    found = {each.relation: each for one in lists for each in one}
    return sorted(found.values(), key=_lateness, reverse=True)[:limit]


def _lateness(triple: Triple) -> tuple[float, int]:
    said = triple.last_mentioned
    return said.timestamp() if said else float("-inf"), triple.mention_count
