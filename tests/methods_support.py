"""Memories that read in one of the ways of extraction, and the graph that an answer becomes, by names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jiuwen_memory import AddMemStrategy, EpisodeType, GraphMemory, GraphMemUpdate
from jiuwen_memory.memory_core.config.graph import Extraction, Language
from jiuwen_memory.testing import FakeLLM, fake_memory


def triple(subject: str, predicate: str, target: str, **further: Any) -> dict[str, Any]:
    return {"subject": subject, "predicate": predicate, "object": target, **further}


def things(**types: str) -> list[dict[str, str]]:
    return [{"name": name.replace("_", " "), "type": kind} for name, kind in types.items()]


def script(*, sentence: str = "Ravi wants to build a search page.", target: str = "search page") -> dict[str, Any]:
    """Answers of every method to one text: Ravi, a thing, and one fact between them."""
    listed = [{"name": "Ravi", "type": "Human"}, {"name": target, "type": "Entity"}]
    fact = triple("Ravi", "wants", target, fact=sentence)
    staged = {"fact": sentence, "name": "wants", "source": "Ravi", "target": target}
    return {
        "EntityExtraction": {"entities": listed},
        "RelationExtraction": {"relations": [{**staged, "valid_since": None, "valid_until": None}]},
        "OpenInformation": {"entities": listed, "triples": [triple("Ravi", "wants", target)]},
        "EpisodicFacts": {"entities": listed, "facts": [{**fact, "said_by": None, "qualifiers": []}]},
        "TemporalFacts": {"entities": listed, "facts": [{**fact, "time": None, "until": None}]},
        "GistExtraction": {"gists": ["Ravi asked for a search page."], "entities": listed},
        "GistFacts": {"facts": [{**fact, "said_by": None, "qualifiers": []}]},
    }


def memory_of(
    method: Extraction, replies: Mapping[str, Any], *, language: Language = "en", **changes: Any
) -> GraphMemory:
    strategy = AddMemStrategy(extraction=method, chinese_entity=False, **changes)
    return fake_memory(llm=FakeLLM(replies), strategy=strategy, language=language)


async def add(memory: GraphMemory, text: str = "Ravi wants to build a search page.", **options: Any) -> GraphMemUpdate:
    return await memory.add_memory(EpisodeType.DOCUMENT, "ann", text, **options)


def names_of(update: GraphMemUpdate) -> list[str]:
    return sorted(each.name for each in update.added_entity)


def edges_of(update: GraphMemUpdate) -> list[tuple[str, str, str]]:
    names = {each.uuid: each.name for each in update.added_entity}
    return [(names[each.lhs], each.name, names[each.rhs]) for each in update.added_relation]
