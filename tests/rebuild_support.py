"""Four texts and a model that reads them: what is built, rebuilt and compared in the tests of `rebuild`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from jiuwen_memory import Entity, EpisodeType, GraphMemory, MemoryItem, Relation
from jiuwen_memory.testing import FakeLLM, fake_memory
from jiuwen_memory.testing.llm import Answer, FakePrompt
from tests.memory_support import all_entities, all_episodes, all_relations, entities, facts

TEXTS = (
    "Tom lives-in Oslo. Tom likes tea.",
    "Ann lives-in Bergen. Ann knows Tom.",
    "Tom lives-in Oslo. Bob knows Ann.",
    "Bob likes tea. Bob lives-in Rome.",
)
STATEMENT = re.compile(r"\b([A-Z][a-z]+) (lives-in|likes|knows|owns) ([A-Za-z]+)\.")


class StoppedError(Exception):
    """The caller has had enough."""


def statements(prompt: FakePrompt) -> list[tuple[str, str, str]]:
    """Return what the text in a prompt states; earlier texts come before it."""
    found = {text: STATEMENT.findall(text) for text in TEXTS if text in prompt.text}
    last = max(found, key=prompt.text.rindex, default="")
    return found.get(last, [])


def named(prompt: FakePrompt) -> Answer:
    """Name what the text is about."""
    return entities({name: "Entity" for each in statements(prompt) for name in (each[0], each[2])})


def stated(prompt: FakePrompt) -> Answer:
    """State the facts of the text."""
    return facts(*((lhs, name, rhs, f"{lhs} {name} {rhs}.") for lhs, name, rhs in statements(prompt)))


def stated_otherwise(prompt: FakePrompt) -> Answer:
    """State all but what somebody likes, and in other words."""
    kept = [each for each in statements(prompt) if each[1] != "likes"]
    return facts(*((lhs, name, rhs, f"It is {lhs} who {name} {rhs}.") for lhs, name, rhs in kept))


def at_once(prompt: FakePrompt) -> Answer:
    """Name the things and state the triples."""
    triples = [{"subject": lhs, "predicate": name, "object": rhs} for lhs, name, rhs in statements(prompt)]
    return {"entities": _listed(prompt), "triples": triples}


def gist(prompt: FakePrompt) -> Answer:
    """Retell the text in one sentence and name its things."""
    return {"gists": [" ".join(" ".join(each) for each in statements(prompt))], "entities": _listed(prompt)}


def gist_facts(prompt: FakePrompt) -> Answer:
    """State the facts beside the gists."""
    said = [
        {"fact": f"{lhs} {name} {rhs}.", "subject": lhs, "predicate": name, "object": rhs}
        for lhs, name, rhs in statements(prompt)
    ]
    return {"facts": said}


def _listed(prompt: FakePrompt) -> list[dict[str, str]]:
    return [{"name": name, "type": "Entity"} for each in statements(prompt) for name in (each[0], each[2])]


def scripted(**options: float) -> FakeLLM:
    """Return a model that reads such texts, `staged`, as `openie` or as `episodic_gist`."""
    replies = {"EntityExtraction": named, "RelationExtraction": stated, "OpenInformation": at_once}
    return FakeLLM({**replies, "GistExtraction": gist, "GistFacts": gist_facts}, **options)


def documents(user: str = "ann") -> list[MemoryItem]:
    """Return the texts, a day apart."""
    return [
        MemoryItem(
            user,
            text,
            EpisodeType.DOCUMENT,
            reference_time=datetime(2026, 5, day, tzinfo=UTC),
            session_id="talk",
            source=f"s{day}",
        )
        for day, text in enumerate(TEXTS, start=1)
    ]


async def filled(**options: Any) -> tuple[GraphMemory, FakeLLM]:
    """Return a memory that has read the texts, and its model."""
    llm = scripted()
    memory = fake_memory(llm=llm, **options)
    report = await memory.add_memories(documents())
    assert not report.failed
    return memory, llm


async def pictured(memory: GraphMemory) -> dict[str, Any]:
    """Return a graph by its names and sentences instead of its ids; summaries depend on what stood there before."""
    nodes, episodes = await all_entities(memory), await all_episodes(memory)
    names = {each.uuid: each.name for each in nodes.values()}
    texts = {each.uuid: each.content for each in episodes}

    def entity(each: Entity) -> tuple[Any, ...]:
        told = sorted(texts[uuid] for uuid in each.episodes)
        return each.obj_type, sorted(each.aliases), told, sorted(each.sources), each.mention_count

    def fact(each: Relation) -> tuple[Any, ...]:
        told = sorted(texts[uuid] for uuid in each.episodes)
        return names[each.lhs], each.name, names[each.rhs], told, sorted(each.sources), each.mention_count

    return {
        "entities": {name: entity(each) for name, each in nodes.items()},
        "facts": {text: fact(each) for text, each in (await all_relations(memory)).items()},
        "episodes": {each.content: sorted(names[uuid] for uuid in each.entities) for each in episodes},
    }


async def ids(memory: GraphMemory) -> dict[str, str]:
    """Return the ids of entities, facts and episodes by name, sentence and text."""
    found: dict[str, str] = {name: each.uuid for name, each in (await all_entities(memory)).items()}
    found |= {text: each.uuid for text, each in (await all_relations(memory)).items()}
    return found | {each.content: each.uuid for each in await all_episodes(memory)}
