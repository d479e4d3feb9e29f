"""Read a page of text by five types of one's own, and see what was filled and what was refused.

    python examples/ontology.py

With OPENAI_API_KEY or OPENAI_BASE_URL set, that endpoint is the model (OPENAI_MODEL names it); without, replies
written for this page stand in for it, with the mistakes that models make. The embeddings come from a small encoder in
this process.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from scripted_replies import ontology_model
from showing import sentence

from jiuwen_memory import (
    AddMemStrategy,
    EntityDef,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    GraphMemUpdate,
    HumanEntity,
    LocalEmbedding,
    Model,
    RelationDef,
    Words,
)
from jiuwen_memory.errors import JiuwenMemoryError

USER = "harbour-museum"
READ_AT = datetime(2026, 5, 8, 9, 30, tzinfo=UTC)
PAGE = """\
The Bellman yard at Skarnes

Of the yards that once stood along the fjord at Skarnes only one is left. Ingrid Bellman opened it in 1931, in her
father's boathouse, and it closed for good in 1987. At its busiest it gave work to nineteen people.

The yard's first large order was the Havsule, a gaff ketch of 14.5 metres, which was launched in 1934 for the pilots of
the outer islands. Ingrid Bellman drew her herself. Oskar Lind came to the yard as a rigger in 1938 and rigged every
boat after that; the older people of Skarnes still call a tidy splice a Lind.

The Terna followed some time around the war: a sloop of about nine metres, so light that two people could carry her.
Nobody knows what she cost. The last boat was the Alka, a sloop of 8.2 metres, launched in 1961, for which the yard
asked 6400 crowns.

Ingrid Bellman hired a second master builder, Per Aune, in 1946. He had learnt his trade at the Fossum yard across the
fjord, which opened in 1908. After the closure the Havsule went to the harbour museum, where she lies to this day; the
Terna burned in 1990, and the Alka sails out of Skarnes every summer under Oskar Lind's granddaughter.
"""


class Boat(EntityDef):
    """A boat and what is measured of it."""

    description = Words(en="a boat or ship with a name", cn="有名字的船")

    metres: Annotated[float | None, Words(en="length in metres, a number", cn="长度，米"), Field(gt=0, lt=500)] = None
    launched: Annotated[int | None, Words(en="year of launch", cn="下水年份"), Field(ge=1700, le=2100)] = None
    rig: Annotated[Literal["ketch", "sloop", "cutter", "yawl"] | None, Words(en="its rig", cn="帆装")] = None


class Yard(EntityDef):
    """A boatyard; it cannot close before it opens."""

    description = Words(en="a yard that builds boats", cn="船厂")

    opened: Annotated[int | None, Words(en="year in which it opened", cn="开业年份")] = None
    closed: Annotated[int | None, Words(en="year in which it closed", cn="关闭年份")] = None
    people: Annotated[int | None, Words(en="how many work there at most", cn="最多员工数"), Field(ge=0)] = None

    @model_validator(mode="after")
    def in_order(self) -> Self:
        """Refuse years in the wrong order."""
        if self.opened and self.closed and self.closed < self.opened:
            raise ValueError(f"it closed in {self.closed}, before it opened in {self.opened}")
        return self


class Person(HumanEntity):
    """Somebody, with a trade. Under the name `Human` it stands in for the type that speakers have."""

    name = "Human"
    description = Words(en="a person", cn="人物")

    trade: Annotated[str, Words(en="what he or she does for a living", cn="职业")] = ""


class BuiltBy(RelationDef):
    """Which yard a boat comes from."""

    name = "built by"
    description = Words(en="a boat was built by a yard", cn="船由船厂建造")
    lhs = Boat
    rhs = Yard

    crowns: Annotated[int | None, Words(en="its price in crowns", cn="价格，克朗"), Field(gt=0)] = None


class WorksAt(RelationDef):
    """Who works at a yard."""

    name = "works at"
    description = Words(en="a person works or worked at a yard", cn="某人在船厂工作")
    lhs = Person
    rhs = Yard

    position: Annotated[str, Words(en="as what", cn="职位")] = ""


async def main() -> None:
    """Read the page, and show what came of it."""
    has_endpoint = bool(os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"))
    print(
        "Model: the endpoint that the environment names."
        if has_endpoint
        else "No endpoint is set: scripted replies stand in for the model."
    )
    async with AsyncExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory())
        embedding = await opened.enter_async_context(LocalEmbedding())
        model = await opened.enter_async_context(Model()) if has_endpoint else ontology_model()
        memory = GraphMemory(
            GraphConfig(uri=str(Path(folder) / "memory.db"), embedding_model=embedding),
            model,
            extraction_strategy=AddMemStrategy(chinese_entity=False),
            language="en",
            entity_types=[Boat, Yard, Person],
            relation_types=[BuiltBy, WorksAt],
            closed_types=True,
        )
        await opened.enter_async_context(memory)
        update = await memory.add_memory(EpisodeType.DOCUMENT, USER, PAGE, reference_time=READ_AT)
        show(update)


def show(update: GraphMemUpdate) -> None:
    """Print what is in the graph now, and what is not and why."""
    print("\nFilled")
    for entity in sorted(update.added_entity, key=lambda each: (each.obj_type, each.name)):
        print(f"  {entity.obj_type} {entity.name}: {values(entity.attributes)}")
    for fact in update.added_relation:
        print(f"  {fact.name}: {sentence(fact)} {values(fact.qualifiers) if fact.qualifiers else ''}".rstrip())
    print("\nRefused")
    for warning in update.warnings:
        print(f"  {warning}")
    print(f"\n{update.usage.calls} questions to the model, in {update.usage.rounds} rounds")


def values(found: object) -> str:
    """Return attributes as `name=value` pairs."""
    pairs = found.items() if isinstance(found, dict) else ()
    return ", ".join(f"{name}={value!r}" for name, value in pairs) or "no attributes"


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except JiuwenMemoryError as error:
        sys.exit(str(error))
