"""Writes a user's graph to a file as a page: reads the memory through its own methods, and writes that one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jiuwen_memory.errors import InvalidInputError, LanguageError
from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.files import home_path, new_path
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.graph_object import Entity, Episode, Relation, now
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.viewer.content import LANGUAGES, Drawn, assemble_content, resolve_drawn
from jiuwen_memory.viewer.page import render_page

if TYPE_CHECKING:
    from jiuwen_memory.memory_core.graph.graph_memory.upkeep import Upkeep

MAX_ENTITIES = 5_000


@dataclass(frozen=True)
class ViewerPage:
    """A page that was written: where, how large (bytes), and how much of the graph is on it."""

    path: Path
    size: int
    entities: int
    facts: int
    episodes: int
    entities_left_out: int = 0
    facts_left_out: int = 0


async def to_html(
    memory: Upkeep,
    path: str | Path,
    user_id: str,
    *,
    language: Language | None = None,
    title: str | None = None,
    source: str | None = None,
    session_id: str | None = None,
    max_entities: int = MAX_ENTITIES,
) -> ViewerPage:
    """Write a user's graph as one HTML page that can be explored in any browser and asks nothing of the network.

    Args:
        memory: the memory to draw, a `GraphMemory`.
        path: the file to write; one that is there is replaced, folders on the way are made. Only you can read it.
        user_id: whose graph it is.
        language: of the page when it opens (default: the memory's); readers can change it.
        title: the page's heading (default: the user id).
        source, session_id: only what was learnt from there.
        max_entities: of a larger graph, those with the most facts are shown; the page says what is left out.

    Raises:
        InvalidInputError: something given cannot be used, or the file cannot be written.
    """
    if language is not None and language not in LANGUAGES:
        raise LanguageError(f"language is {language!r}; give 'cn' or 'en'.")
    if isinstance(max_entities, bool) or not isinstance(max_entities, int) or max_entities < 1:
        raise InvalidInputError(f"max_entities is {max_entities!r}; give a whole number from 1.")
    file = _parse_path(path)
    drawn = await _recall_drawn(memory, user_id, source=source, session_id=session_id, max_entities=max_entities)
    size = await off_loop(
        None, _write_page, file, drawn, user_id, now(), title=title or user_id, language=language or memory.language
    )
    return ViewerPage(
        path=file,
        size=size,
        entities=len(drawn.entities),
        facts=sum(each.ends == "entity" for each in drawn.relations),
        episodes=len(drawn.episodes),
        entities_left_out=drawn.entities_left_out,
        facts_left_out=drawn.facts_left_out,
    )


def _parse_path(path: str | Path) -> Path:
    if not isinstance(path, str | Path) or not str(path):
        raise InvalidInputError(f"path is {path!r}; give the name of a file.")
    return home_path(path)


async def _recall_drawn(
    memory: Upkeep, user_id: str, *, source: str | None, session_id: str | None, max_entities: int
) -> Drawn:
    found = [
        each
        for collection in (ENTITY_COLLECTION, RELATION_COLLECTION, EPISODE_COLLECTION)
        async for each in memory.objects(collection, user_id, source=source, session_id=session_id)
    ]
    return await off_loop(
        None,
        resolve_drawn,
        [each for each in found if isinstance(each, Entity)],
        [each for each in found if isinstance(each, Relation)],
        [each for each in found if isinstance(each, Episode)],
        max_entities=max_entities,
    )


def _write_page(file: Path, drawn: Drawn, user_id: str, written_at: int, *, title: str, language: str) -> int:
    """Put the page together and write it, and return its size."""
    content = assemble_content(drawn, user_id=user_id, written_at=written_at)
    page = render_page(content, title=title, language=language).encode("utf-8", "replace")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with new_path(file) as unfinished:
            unfinished.write_bytes(page)
    except OSError as error:
        raise InvalidInputError(f"The page cannot be written to {file}: {error.strerror}.") from error
    return len(page)
