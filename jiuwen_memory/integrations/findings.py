"""What a search found, one shape for all kinds, as the doors of the memory hand it on. Values in, values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation, now
from jiuwen_memory.foundation.timepoint import Precision, Timepoint

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
        current: whether a fact holds now, as far as is known.
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
        return dated(self.text, self.since, self.until) if self.kind == "fact" else self.text


def dated(text: str, since: Timepoint | None, until: Timepoint | None) -> str:
    """Return a sentence with the time it holds, such as "Ann lives in Porto. (since 2021)"."""
    words = [f"{word} {point.format()}" for word, point in (("since", since), ("until", until)) if point]
    return f"{text} ({', '.join(words)})" if words else text


def findings(
    results: Mapping[str, Sequence[tuple[float, BaseGraphObject]]],
    kinds: Sequence[Kind] = ("fact", "entity", "episode"),
    *,
    limit: int | None = None,
) -> list[Finding]:
    """Return the results of a search with the kinds in turn, each best first: their scores do not compare."""
    lists = [[finding(score, each) for score, each in results.get(COLLECTIONS[kind], ())] for kind in kinds]
    return [each for row in zip_longest(*lists) for each in row if each is not None][:limit]


def finding(score: float, found: BaseGraphObject) -> Finding:
    """Return a search result in the common shape."""
    if isinstance(found, Relation):
        return Finding(
            kind="fact",
            text=found.content_text,
            score=score,
            id=found.uuid,
            name=found.name,
            type=found.obj_type,
            since=_point(found.valid_since, found.offset_since, found.precision_since),
            until=_point(found.valid_until, found.offset_until, found.precision_until),
            current=found.holds_at(now()),
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
    return Finding(
        kind="episode",
        text=found.content,
        score=score,
        id=found.uuid,
        since=_point(episode.valid_since, episode.offset_since, "second"),
        sources=(episode.source,) if episode.source else (),
        session_id=episode.session_id,
        episodes=(found.uuid,),
    )


def _point(seconds: int | None, offset: int, precision: Precision | None) -> Timepoint | None:
    return None if seconds is None else Timepoint(seconds, offset, precision or "second")
