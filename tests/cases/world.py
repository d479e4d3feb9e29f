"""The small world of these tests: Greta Moll, who keeps goats at Larch Croft, and what a graph of it looks like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from jiuwen_memory import EpisodeType, GraphConfig, GraphMemUpdate
from jiuwen_memory.testing import FakeLLM, FakePrompt, Script
from jiuwen_memory.testing.llm import Answer, Reply
from tests.memory_support import Taught, all_entities, all_episodes, all_relations, entities, facts, problems, taught

CONVERSATION, DOCUMENT, JSON = EpisodeType.CONVERSATION, EpisodeType.DOCUMENT, EpisodeType.JSON
USER = "rowan"
AUTUMN = datetime(2025, 10, 15, 18, 0, tzinfo=timezone(timedelta(hours=2)))
"""A Wednesday."""
TALK = [
    {"role": "user", "content": "My name is Greta Moll, and my goats live at Larch Croft."},
    {"role": "assistant", "content": "Goats! Thank you, Greta."},
]
SENTENCE = "Greta Moll keeps goats at Larch Croft."
WHO = {"Greta Moll": "Human", "Larch Croft": "Entity"}
NAMED = entities(WHO)
STATED = facts(("Greta Moll", "keeps goats at", "Larch Croft", SENTENCE))


def scripted(replies: Mapping[str, Reply | Script], **options: Any) -> Taught:
    """Return a memory whose model answers from this script."""
    return taught(llm=FakeLLM(replies), **options)


def at(backend: str, folder: Path, **changes: Any) -> GraphConfig:
    """Return the configuration of a fresh store in this process ("memory") or on disk ("milvus")."""
    place = str(folder / "graph.db") if backend == "milvus" else uuid4().hex
    return GraphConfig(**{"uri": place, "backend": backend, "embed_dim": 64, "timeout": 60.0, **changes})


async def say(mind: Taught, content: Any = TALK, *, user: str = USER, **options: Any) -> GraphMemUpdate:
    """Add a conversation, by default the one about the goats."""
    messages = [{"role": "user", "content": content}] if isinstance(content, str) else content
    return await mind.memory.add_memory(CONVERSATION, user, messages, **{"reference_time": AUTUMN, **options})


async def assert_goats_are_stored(mind: Taught, user: str = USER) -> None:
    """Check that the graph is exactly what the conversation about the goats says, every reference in place."""
    nodes = await all_entities(mind.memory, user)
    (fact,) = (await all_relations(mind.memory, user)).values()
    (episode,) = await all_episodes(mind.memory, user)
    assert set(nodes) == set(WHO)
    assert (fact.lhs, fact.rhs) == (nodes["Greta Moll"].uuid, nodes["Larch Croft"].uuid)
    assert {uuid for each in nodes.values() for uuid in each.episodes} == {episode.uuid}
    assert fact.episodes == [episode.uuid]
    assert set(episode.entities) == {each.uuid for each in nodes.values()}
    assert await problems(mind.memory, user) == []


async def assert_nothing_is_stored(mind: Taught, user: str = USER) -> None:
    """Check that a user has no row in any of the three collections."""
    assert await all_episodes(mind.memory, user) == []
    assert await all_entities(mind.memory, user) == {}
    assert await all_relations(mind.memory, user) == {}


def numbered(answer: Callable[[FakePrompt], JsonValue]) -> Reply:
    """Return a reply that is worked out from the prompt, where the numbers of the listed items are."""

    def reply(prompt: FakePrompt) -> Answer:
        return answer(prompt)

    return reply


def dated(since: JsonValue = None, until: JsonValue = None) -> dict[str, JsonValue]:
    """Return the fact about the goats with words for its beginning and end."""
    return {
        "fact": SENTENCE,
        "name": "keeps goats at",
        "source": "Greta Moll",
        "target": "Larch Croft",
        "valid_since": since,
        "valid_until": until,
    }


def local_day(seconds: int | None, zone: str) -> str | None:
    """Return the day on the calendars of a zone."""
    return None if seconds is None else datetime.fromtimestamp(seconds, ZoneInfo(zone)).date().isoformat()


def instant(text: str) -> int:
    """Return the UTC seconds of an ISO time."""
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp())


def found_names(results: Mapping[str, Sequence[tuple[float, Any]]], collection: str) -> list[str]:
    """Return the names (of episodes: the texts) that a search found, in order."""
    return [getattr(each, "name", None) or each.content for _, each in results[collection]]
