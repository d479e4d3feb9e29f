"""A graph memory over a scripted model, and short ways to teach it things and to look at what it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import JsonValue

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    AddMemStrategy,
    Entity,
    Episode,
    EpisodeType,
    GraphMemory,
    GraphMemUpdate,
    Relation,
)
from jiuwen_memory.foundation.store.graph import BaseGraphObject
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, by_name, fake_memory, same_as, verdicts

Object = TypeVar("Object", bound=BaseGraphObject)
Fact = tuple[str, str, str, str] | tuple[str, str, str, str, str]
"""Source, predicate, target, sentence, and the words for its beginning, if it has some of its own."""

MAY = datetime(2026, 5, 8, 9, 30, tzinfo=UTC)
ENGLISH = AddMemStrategy(chinese_entity=False)
PORTO = "Ann has lived in Porto since 2010."
ROTTERDAM = "Ann has lived in Rotterdam since 2021, no longer in Porto."
VISIT = "Ben has visited Ann often since 2022."


def entities(types: Mapping[str, str]) -> JsonValue:
    """Return the answer that names these things."""
    return {"entities": [{"name": name, "type": kind} for name, kind in types.items()]}


def facts(*items: Fact, since: str | None = None, until: str | None = None) -> JsonValue:
    """Return the answer that states these facts, with the same words for their time where they have none."""
    return {
        "relations": [
            {
                "fact": sentence,
                "name": predicate,
                "source": source,
                "target": target,
                "valid_since": own[0] if own else since,
                "valid_until": until,
            }
            for source, predicate, target, sentence, *own in items
        ]
    }


@dataclass
class Taught:
    """A memory, and the model and the embedder behind it; `learn` scripts the model for one add."""

    memory: GraphMemory
    llm: FakeLLM
    embedder: FakeEmbedder

    async def learn(
        self,
        text: str,
        *,
        types: Mapping[str, str] | None = None,
        said: Sequence[Fact] = (),
        since: str | None = None,
        until: str | None = None,
        summaries: Mapping[str, str] | None = None,
        same: Mapping[str, Sequence[str]] | None = None,
        repeats: Mapping[str, Sequence[str]] | None = None,
        contradicts: Mapping[str, Sequence[str]] | None = None,
        user: str = "ann",
        **options: Any,
    ) -> GraphMemUpdate:
        """Add a document of which the model says this."""
        self.llm.replies.update(
            {
                "EntityExtraction": entities(types or {}),
                "RelationExtraction": facts(*said, since=since, until=until),
                "EntitySummaries": by_name(summaries or {}),
                "EntityDuplication": same_as(same or {}),
                "RelationVerdicts": verdicts(same=repeats, contradicts=contradicts),
            }
        )
        return await self.memory.add_memory(EpisodeType.DOCUMENT, user, text, **options)


def taught(**options: Any) -> Taught:
    """Return a memory in this process that can be taught; options are those of `fake_memory`."""
    llm = options.pop("llm", None) or FakeLLM()
    config = options.get("config")
    embedder = options.pop("embedder", None) or FakeEmbedder(config.embed_dim if config else 64)
    return Taught(fake_memory(llm=llm, embedder=embedder, **options), llm, embedder)


async def moved() -> GraphMemory:
    """Return a memory in which Ann moved from Porto to Rotterdam, and Ben, told last, visits her."""
    told = taught()
    texts: tuple[tuple[str, Fact, dict[str, str], dict[str, list[str]]], ...] = (
        (PORTO, ("Ann", "lives in", "Porto", PORTO, "2010"), {"Ann": "Human", "Porto": "Entity"}, {}),
        (
            ROTTERDAM,
            ("Ann", "lives in", "Rotterdam", ROTTERDAM, "2021"),
            {"Ann": "Human", "Rotterdam": "Entity"},
            {ROTTERDAM: [PORTO]},
        ),
        (VISIT, ("Ben", "visits", "Ann", VISIT, "2022"), {"Ann": "Human", "Ben": "Human"}, {}),
    )
    for number, (text, fact, types, contradicts) in enumerate(texts):
        said = datetime(2026, 5, 1 + number, tzinfo=UTC)
        same = {"Ann": ["Ann"]}
        await told.learn(text, types=types, said=[fact], same=same, contradicts=contradicts, reference_time=said)
    return told.memory


def model_of(memory: GraphMemory) -> FakeLLM:
    """Return the scripted model behind a memory."""
    assert isinstance(memory.llm_client, FakeLLM)
    return memory.llm_client


async def all_entities(memory: GraphMemory, user: str = "ann") -> dict[str, Entity]:
    """Return a user's entities by name; two of one name are an error."""
    await memory.db_backend.refresh()
    found = [each async for each in memory.objects(ENTITY_COLLECTION, user) if isinstance(each, Entity)]
    by_name = {each.name: each for each in found}
    assert len(by_name) == len(found), [each.name for each in found]
    return by_name


async def all_relations(memory: GraphMemory, user: str = "ann", *, kind: str = "fact") -> dict[str, Relation]:
    """Return a user's relations of a kind by their sentence; two of one sentence are an error."""
    await memory.db_backend.refresh()
    found = [
        each
        async for each in memory.objects(RELATION_COLLECTION, user)
        if isinstance(each, Relation) and each.kind == kind
    ]
    by_content = {each.content: each for each in found}
    assert len(by_content) == len(found), [each.content for each in found]
    return by_content


async def all_episodes(memory: GraphMemory, user: str = "ann") -> list[Episode]:
    """Return a user's episodes."""
    await memory.db_backend.refresh()
    return [each async for each in memory.objects(EPISODE_COLLECTION, user) if isinstance(each, Episode)]


async def nothing_is_stored(memory: GraphMemory, user: str = "ann") -> bool:
    """Tell whether a user has no row; what failed may wait in the journal, but nothing that counts as written."""
    store = memory.db_backend
    collections = (ENTITY_COLLECTION, RELATION_COLLECTION, EPISODE_COLLECTION)
    counts = [await store.count(collection, user=filter_user(user)) for collection in collections]
    return not any(counts) and {entry.kind for entry in await store.journal.entries(user)} <= {"pending"}


async def problems(memory: GraphMemory, user: str = "ann") -> list[str]:
    """Return what is wrong with a user's graph: references that lead nowhere, doubled facts, an unfinished journal."""
    nodes = [each async for each in memory.objects(ENTITY_COLLECTION, user) if isinstance(each, Entity)]
    edges = [each async for each in memory.objects(RELATION_COLLECTION, user) if isinstance(each, Relation)]
    episodes = {each.uuid for each in await all_episodes(memory, user)}
    entity_ids, edge_ids = {each.uuid for each in nodes}, {each.uuid for each in edges}
    wrong = [f"the end of {edge.content!r}" for edge in edges for end in (edge.lhs, edge.rhs) if end not in entity_ids]
    wrong += [f"the episodes of {edge.content!r}" for edge in edges if not episodes.issuperset(edge.episodes)]
    wrong += [f"the relations of {node.name!r}" for node in nodes if not edge_ids.issuperset(node.relations)]
    wrong += [f"the episodes of {node.name!r}" for node in nodes if not episodes.issuperset(node.episodes)]
    for each in await all_episodes(memory, user):
        if not entity_ids.issuperset(each.entities):
            wrong.append(f"the entities of episode {each.content!r}")
    stated = [(edge.lhs, edge.rhs, edge.content) for edge in edges]
    wrong += [f"{statement} is there twice" for statement in set(stated) if stated.count(statement) > 1]
    wrong += [f"{each.name!r} is there twice" for each in nodes if [node.name for node in nodes].count(each.name) > 1]
    entries = await memory.db_backend.journal.entries(user)
    wrong += [f"journal entry {entry.plan_id}" for entry in entries if entry.kind == "header"]
    return wrong
