"""Names that look like a pronoun or a date and are none: they stay names, and ends of the facts about them."""

from __future__ import annotations

from typing import Any

import pytest

from jiuwen_memory import AddMemStrategy, EpisodeType, GraphMemory, GraphMemUpdate
from jiuwen_memory.memory_core.config.graph import Extraction
from jiuwen_memory.testing import FakeLLM, fake_memory
from tests.memory_support import MAY

NAMED = {
    "a country": ("US", "Entity", "Ann moved to the US."),
    "an organisation": ("WHO", "Entity", "Ann works for WHO."),
    "a department": ("IT", "Entity", "Ann leads IT."),
    "a department in Chinese": ("IT", "Entity", "她管理IT部门。"),
    "a person called like a month": ("April", "Human", "Ann knows April."),
    "an assistant called like a day": ("Friday", "AI", "Ann asks Friday."),
}
UNNAMED = {
    "a pronoun": ("it", "Entity", "Ann leads it."),
    "a pronoun where all is in capitals": ("IT", "Entity", "ANN LEADS IT."),
    "a month": ("April", "Entity", "Ann came in April."),
    "a date called a person": ("April 2024", "Human", "Ann came in April 2024."),
    "a word for a time called a person": ("yesterday", "Human", "Ann came yesterday."),
}
METHODS: tuple[Extraction, ...] = ("staged", "episodic", "episodic_gist", "temporal")


def memory_of(method: Extraction, name: str, kind: str, sentence: str) -> GraphMemory:
    """Return a memory whose model names Ann and another, with one fact between the two."""
    listed = [{"name": "Ann", "type": "Human"}, {"name": name, "type": kind}]
    fact = {"fact": sentence, "subject": "Ann", "predicate": "is tied to", "object": name}
    staged = {"fact": sentence, "name": "is tied to", "source": "Ann", "target": name}
    about_her = {"fact": "Ann is known.", "name": "is", "source": "Ann", "target": "Ann"}
    replies: dict[str, Any] = {
        "EntityExtraction": {"entities": listed},
        "RelationExtraction": {"relations": [staged, about_her]},
        "EpisodicFacts": {"entities": listed, "facts": [fact]},
        "TemporalFacts": {"entities": listed, "facts": [fact]},
        "GistExtraction": {"gists": [], "entities": listed},
        "GistFacts": {"facts": [fact]},
    }
    return fake_memory(llm=FakeLLM(replies), strategy=AddMemStrategy(extraction=method, chinese_entity=False))


def edges_of(update: GraphMemUpdate) -> set[tuple[str, str]]:
    names = {each.uuid: each.name for each in update.added_entity}
    return {(names[each.lhs], names[each.rhs]) for each in update.added_relation}


@pytest.mark.parametrize(("name", "kind", "sentence"), NAMED.values(), ids=NAMED.keys())
@pytest.mark.parametrize("method", METHODS)
async def test_a_name_that_looks_like_something_else_is_an_end_of_its_fact(
    method: Extraction, name: str, kind: str, sentence: str
) -> None:
    memory = memory_of(method, name, kind, sentence)

    update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", sentence, reference_time=MAY)

    assert {each.name: each.obj_type for each in update.added_entity} == {"Ann": "Human", name: kind}
    assert ("Ann", name) in edges_of(update)
    assert not any("time" in each.qualifiers for each in update.added_relation)
    assert update.warnings == []


@pytest.mark.parametrize(("name", "kind", "sentence"), UNNAMED.values(), ids=UNNAMED.keys())
@pytest.mark.parametrize("method", METHODS)
async def test_a_pronoun_or_a_date_is_no_name(method: Extraction, name: str, kind: str, sentence: str) -> None:
    memory = memory_of(method, name, kind, sentence)

    update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", sentence, reference_time=MAY)

    assert [each.name for each in update.added_entity] == ["Ann"]
    assert edges_of(update) == {("Ann", "Ann")}
    assert any("pronoun" in warning or "a date" in warning for warning in update.warnings)


async def test_we_is_the_speaker_and_the_us_is_not() -> None:
    facts = [
        {"fact": "Ann moved to the US.", "subject": "I", "predicate": "moved to", "object": "US"},
        {"fact": "Ann has a dog.", "subject": "us", "predicate": "has", "object": "dog"},
    ]
    answer = {"entities": [{"name": "US", "type": "Entity"}], "facts": facts}
    strategy = AddMemStrategy(extraction="episodic", chinese_entity=False)
    memory = fake_memory(llm=FakeLLM({"EpisodicFacts": answer}), strategy=strategy)
    said = [{"role": "user", "name": "Ann", "content": "I moved to the US. A dog lives with us."}]

    update = await memory.add_memory(EpisodeType.CONVERSATION, "ann", said)

    assert edges_of(update) == {("Ann", "US"), ("Ann", "dog")}
