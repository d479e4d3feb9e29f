"""Talks about tools, one after the other, and the triples and counts they leave: said again is counted, not doubled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import JsonValue

from jiuwen_memory import RELATION_COLLECTION, EntityDef, EpisodeType, GraphConfig, GraphMemUpdate, RelationDef
from jiuwen_memory.testing import same_as, verdicts
from tests.memory_support import Taught, all_entities, entities, taught


class Tool(EntityDef):
    """A program, a database or a programming language."""


class Experience(RelationDef):
    """Somebody has worked with a tool for some time."""

    name: ClassVar[str] = "experience"

    years: float | None = None


Said = Sequence[JsonValue]
"""Source, predicate, target, sentence, and attributes if it has some."""
NAMES = ("Noor", "PostgreSQL", "Python", "FastAPI", "REST APIs")
USES_PYTHON = ("Noor", "uses", "Python", "Noor uses Python.")
USES_POSTGRES = ("Noor", "uses", "PostgreSQL", "Noor uses PostgreSQL.")
PREFERS_POSTGRES = ("Noor", "prefers", "PostgreSQL", "Noor takes PostgreSQL before other databases.")
USES_FASTAPI = ("Noor", "uses", "FastAPI", "Noor uses FastAPI.")
FASTAPI_WITH_PYTHON = ("FastAPI", "used with", "Python", "Noor runs FastAPI on Python.")


def day(number: int) -> datetime:
    return datetime(2026, 5, number, 12, 0, tzinfo=UTC)


@pytest.fixture(params=["memory", "lite"])
async def mind(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Taught]:
    """A mind on either backend that knows tools and experience."""
    types: dict[str, Any] = {"entity_types": [Tool], "relation_types": [Experience]}
    lite = GraphConfig(uri=str(tmp_path / "graph.db"), embed_dim=64)
    made = taught(config=lite, **types) if request.param == "lite" else taught(**types)
    yield made
    await made.memory.close()


async def talk(
    mind: Taught, number: int, text: str, *facts: Said, source: str = "support", **judged: Any
) -> GraphMemUpdate:
    """Have Noor say something on a day, to an agent, of which the model makes these facts."""
    named = [name for name in NAMES if any(name in (fact[0], fact[2]) for fact in facts)]
    keys = ("source", "name", "target", "fact", "attributes")
    mind.llm.replies.update(
        {
            "EntityExtraction": entities({name: "Human" if name == "Noor" else "Tool" for name in named}),
            "RelationExtraction": {"relations": [dict(zip(keys, fact, strict=False)) for fact in facts]},
            "EntityDuplication": same_as({name: [name] for name in NAMES}),
            "RelationVerdicts": verdicts(same=judged.get("same")),
        }
    )
    return await mind.memory.add_memory(
        EpisodeType.DOCUMENT, "noor", text, reference_time=day(number), source=source, session_id=f"{source} {number}"
    )


async def triples(mind: Taught, **asked: Any) -> list[tuple[str, str, str, int]]:
    await mind.memory.db_backend.refresh()
    found = await mind.memory.triples("noor", **asked)
    return [(each.subject, each.predicate, each.object, each.mention_count) for each in found]


async def test_one_talk_about_tools_leaves_a_triple_for_each_thing_said(mind: Taught) -> None:
    await talk(
        mind,
        1,
        "PostgreSQL is the database I like best; behind FastAPI it carries our REST APIs. Eight years of Python now.",
        ("Noor", "favourite database", "PostgreSQL", "Noor likes PostgreSQL best of all databases."),
        USES_FASTAPI,
        ("Noor", "uses for", "REST APIs", "Noor uses FastAPI for REST APIs."),
        ("FastAPI", "used with", "PostgreSQL", "Noor runs FastAPI with PostgreSQL."),
        ("Noor", "experience", "Python", "Noor has written Python for eight years.", {"years": "8"}),
    )

    assert set(await triples(mind)) == {
        ("Noor", "favourite database", "PostgreSQL", 1),
        ("Noor", "uses", "FastAPI", 1),
        ("Noor", "uses for", "REST APIs", 1),
        ("FastAPI", "used with", "PostgreSQL", 1),
        ("Noor", "experience", "Python", 1),
    }
    (experience,) = await mind.memory.triples("noor", predicate="experience")
    assert experience.qualifiers == {"years": 8.0}
    assert list((await mind.memory.triples("noor", predicate="experience")).to_frame()["qualifiers"]) == [{"years": 8}]


async def test_a_preference_for_what_is_used_already_is_a_second_mention_with_a_later_time(mind: Taught) -> None:
    await talk(mind, 1, "Our data is in PostgreSQL.", USES_POSTGRES)

    second = await talk(
        mind,
        2,
        "When I may choose I take PostgreSQL.",
        PREFERS_POSTGRES,
        same={PREFERS_POSTGRES[3]: [USES_POSTGRES[3]]},
    )

    assert await triples(mind) == [("Noor", "uses", "PostgreSQL", 2)]
    (fact,) = await mind.memory.triples("noor")
    assert (fact.sentence, fact.first_mentioned, fact.last_mentioned) == (USES_POSTGRES[3], day(1), day(2))
    assert second.added_relation == []


async def test_three_talks_build_up_what_is_used_since_when_and_with_what(mind: Taught) -> None:
    await talk(mind, 1, "I write Python.", USES_PYTHON)
    first = await triples(mind)
    years: Said = ("Noor", "experience", "Python", "Noor has written Python for eight years.", {"years": 8})
    await talk(mind, 2, "I have written Python for eight years.", USES_PYTHON, years)
    second = await triples(mind, order_by="mentions")
    await talk(mind, 3, "My services are FastAPI on Python.", USES_PYTHON, USES_FASTAPI, FASTAPI_WITH_PYTHON)

    assert first == [("Noor", "uses", "Python", 1)]
    assert second == [("Noor", "uses", "Python", 2), ("Noor", "experience", "Python", 1)]
    assert (await triples(mind, order_by="mentions"))[0] == ("Noor", "uses", "Python", 3)
    assert set((await triples(mind, order_by="mentions"))[1:]) == {
        ("Noor", "experience", "Python", 1),
        ("Noor", "uses", "FastAPI", 1),
        ("FastAPI", "used with", "Python", 1),
    }
    (python,) = [each for each in await mind.memory.triples("noor", predicate="uses") if each.object == "Python"]
    assert len(set(python.episodes)) == 3
    assert {each.mention_count for each in (await all_entities(mind.memory, "noor")).values()} == {3, 1}


async def test_what_one_agent_learns_the_other_knows_and_a_source_tells_them_apart(mind: Taught) -> None:
    await talk(mind, 1, "Our data is in PostgreSQL.", USES_POSTGRES, source="support")
    await talk(mind, 2, "I write Python.", USES_PYTHON, source="coder")
    await talk(mind, 3, "Python again, with FastAPI.", USES_PYTHON, USES_FASTAPI, source="coder")
    await talk(mind, 4, "Did I say that I write Python?", USES_PYTHON, source="support")

    everyone = await triples(mind, subject="noor", order_by="mentions")
    assert everyone[0] == ("Noor", "uses", "Python", 3)
    assert {each[2] for each in everyone} == {"Python", "PostgreSQL", "FastAPI"}
    assert await triples(mind, source="support", order_by="mentions") == [
        ("Noor", "uses", "Python", 3),
        ("Noor", "uses", "PostgreSQL", 1),
    ]
    assert await triples(mind, source="coder", order_by="mentions", limit=1) == [("Noor", "uses", "Python", 3)]
    assert await triples(mind, object="PostgreSQL", source="coder") == []


async def test_the_fact_behind_a_triple_is_found_by_what_it_says() -> None:
    mind = taught()
    await talk(mind, 1, "Our data is in PostgreSQL.", USES_POSTGRES)

    found = await mind.memory.search("Which database does Noor use?", "noor", entity=False, episode=False)

    assert [each.content for _, each in found[RELATION_COLLECTION]] == [USES_POSTGRES[3]]
