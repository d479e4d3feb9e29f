"""A small made-up world for the fault tests: its texts, a model that answers by the text alone, and graphs to compare.

The last text makes two stored people one: it adds, updates and removes entities and relations, and ends a fact.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

from jiuwen_memory import (
    ENTITY_COLLECTION,
    RELATION_COLLECTION,
    AddMemStrategy,
    Entity,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    GraphMemUpdate,
    Relation,
)
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, FakePrompt, by_name, fake_memory, same_as, verdicts
from jiuwen_memory.testing.llm import Answer
from tests.memory_support import MAY, Fact, all_episodes, entities, facts

USER: Final = "ann"
Deed = Literal["add", "merge", "unmerge"]
DIM: Final = 64


@contextmanager
def without_log() -> Iterator[None]:
    """Keep the log still while things fail on purpose; afterwards it is as before, for whoever listens then."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@dataclass(frozen=True)
class Said:
    """What the model finds in one text."""

    types: Mapping[str, str]
    facts: tuple[Fact, ...] = ()
    same: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    contradicts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    summaries: Mapping[str, str] = field(default_factory=dict)


BEFORE: Final[Mapping[str, Said]] = {
    "Tom Orr flies the Heron and lives in Oslo.": Said(
        {"Tom Orr": "Human", "Heron": "Entity", "Oslo": "Entity"},
        (
            ("Tom Orr", "flies", "Heron", "Tom Orr flies the Heron."),
            ("Tom Orr", "lives in", "Oslo", "He lives in Oslo."),
        ),
        summaries={"Tom Orr": "A pilot.", "Heron": "A plane.", "Oslo": "A city."},
    ),
    "Tom Orr likes tea.": Said(
        {"Tom Orr": "Human", "tea": "Entity"},
        (("Tom Orr", "likes", "tea", "He likes tea."),),
        {"Tom Orr": ("Tom Orr",)},
    ),
    "Tom Orr sang.": Said({"Tom Orr": "Human"}),
    "Thomas likes tea, hates rain and slept.": Said(
        {"Thomas": "Human", "tea": "Entity", "rain": "Entity"},
        (
            ("Thomas", "likes", "tea", "He likes tea."),
            ("Thomas", "hates", "rain", "Thomas hates rain."),
            ("Thomas", "slept", "Thomas", "Thomas slept."),
        ),
        {"tea": ("tea",)},
        summaries={"Thomas": "A man who slept."},
    ),
    "Ida knows Thomas.": Said(
        {"Ida": "Human", "Thomas": "Human"}, (("Ida", "knows", "Thomas", "Ida knows Thomas."),), {"Thomas": ("Thomas",)}
    ),
}
LAST: Final = "Tommy, that is Tom Orr or Thomas, now lives in Bergen and no longer in Oslo. He works at Molde."
_LAST_SAID: Final = Said(
    {"Tommy": "Human", "Bergen": "Entity", "Oslo": "Entity", "Molde": "Entity"},
    (
        ("Tommy", "lives in", "Bergen", "He now lives in Bergen.", "2026"),
        ("Tommy", "works at", "Molde", "Tommy works at Molde."),
    ),
    {"Tommy": ("Tom Orr", "Thomas"), "Oslo": ("Oslo",)},
    {"He now lives in Bergen": ("He lives in Oslo",)},
    {"Tom Orr": "A pilot in Bergen.", "Bergen": "A city in the west."},
)
TEXTS: Final[Mapping[str, Said]] = {**BEFORE, LAST: _LAST_SAID}
DROPPED: Final = "Thomas slept."


def scripted_model(**options: float) -> FakeLLM:
    """Return a model that knows the texts of this world; what it answers depends on the text alone."""
    return FakeLLM(
        {
            "EntityExtraction": lambda prompt: entities(_said(prompt).types),
            "RelationExtraction": lambda prompt: facts(*_said(prompt).facts),
            "EntityDuplication": same_as(_all_said("same")),
            "RelationVerdicts": verdicts(contradicts=_all_said("contradicts")),
            "EntitySummaries": lambda prompt: by_name(_summaries(prompt))(prompt),
            "RelevantFacts": _sensible,
        },
        **options,
    )


def _text(prompt: FakePrompt) -> str:
    return prompt.text.rsplit("<text>", 1)[-1].split("</text>")[0].strip()


def _said(prompt: FakePrompt) -> Said:
    return TEXTS[_text(prompt)]


def _summaries(prompt: FakePrompt) -> Mapping[str, str]:
    """Return the summaries of a text, or those of a merge and its end, which are asked for with several texts."""
    return TEXTS[_text(prompt)].summaries if _text(prompt) in TEXTS else {"Tom Orr": "A pilot.", "Thomas": "A man."}


def _all_said(what: str) -> dict[str, Any]:
    """Return what judgements follow, of all texts at once: their prompts do not hold the text."""
    return {key: value for said in TEXTS.values() for key, value in getattr(said, what).items()}


def _sensible(prompt: FakePrompt) -> Answer:
    return {"relevant": [number for number in prompt.lines() if number not in prompt.numbers(DROPPED)]}


def lite_config(folder: Path, **changes: Any) -> GraphConfig:
    """Return the configuration of a store on disk."""
    settings = {"uri": str(folder / "graph.db"), "embed_dim": DIM, "timeout": 60.0, "request_max_retries": 2}
    return GraphConfig(**{**settings, **changes})


def open_world(config: GraphConfig, *, llm: FakeLLM | None = None, embedder: FakeEmbedder | None = None) -> GraphMemory:
    """Return a memory of this world."""
    return fake_memory(
        llm=llm or scripted_model(),
        embedder=embedder or FakeEmbedder(DIM),
        config=config,
        strategy=AddMemStrategy(chinese_entity=False),
    )


async def tell(memory: GraphMemory, text: str) -> GraphMemUpdate:
    """Add one text; told again it is recognised."""
    said = MAY + timedelta(days=list(TEXTS).index(text))
    return await memory.add_memory(EpisodeType.DOCUMENT, USER, text, reference_time=said, session_id="s")


async def tell_before(memory: GraphMemory, deed: Deed = "add") -> None:
    """Add everything but the last text; where a merge is to be undone, that text too, which makes two people one."""
    for text in TEXTS if deed == "unmerge" else BEFORE:
        await tell(memory, text)


async def do(memory: GraphMemory, deed: Deed) -> Sequence[str]:
    """Do what is to be disturbed, unless it is done already, and return its warnings."""
    if deed == "add":
        return (await tell(memory, LAST)).warnings
    nodes = [each async for each in memory.objects(ENTITY_COLLECTION, USER) if isinstance(each, Entity)]
    people = {each.name: each for each in nodes}
    if deed == "merge" and "Thomas" in people:
        return (await memory.merge(USER, people["Tom Orr"].uuid, people["Thomas"].uuid, dry_run=False)).warnings
    if deed == "unmerge" and people["Tom Orr"].merged_from:
        return (await memory.unmerge(USER, people["Tom Orr"].uuid)).warnings
    return ()


Row = tuple[object, ...]


@dataclass(frozen=True)
class Snapshot:
    """A graph without ids and times of writing: what two stores that were told the same must share."""

    episodes: tuple[str, ...]
    entities: tuple[Row, ...]
    relations: tuple[Row, ...]

    def difference(self, other: Snapshot) -> str:
        """Say what only one of the two holds."""
        lines = []
        for name in ("episodes", "entities", "relations"):
            mine, theirs = Counter(getattr(self, name)), Counter(getattr(other, name))
            lines += [f"only here: {each}" for each in (mine - theirs).elements()]
            lines += [f"only there: {each}" for each in (theirs - mine).elements()]
        return "; ".join(lines)


async def snapshot(memory: GraphMemory, user: str = USER) -> Snapshot:
    """Read a user's graph; twins are kept apart, so that they show."""
    episodes = await all_episodes(memory, user)
    nodes = [each async for each in memory.objects(ENTITY_COLLECTION, user) if isinstance(each, Entity)]
    edges = [each async for each in memory.objects(RELATION_COLLECTION, user) if isinstance(each, Relation)]
    told = {each.uuid: each.content for each in episodes}
    names = {each.uuid: each.name for each in nodes} | told
    stated = {each.uuid: each.content for each in edges}

    def named(ids: list[str], by: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(sorted(by.get(each, "?") for each in ids))

    return Snapshot(
        tuple(sorted(f"{each.content} {each.valid_since} {named(each.entities, names)}" for each in episodes)),
        tuple(
            sorted(
                (
                    *(each.name, each.obj_type, each.content, tuple(sorted(each.aliases)), each.mention_count),
                    *(len(each.merged_from), named(each.relations, stated), named(each.episodes, told)),
                )
                for each in nodes
            )
        ),
        tuple(
            sorted(
                (
                    *(each.content, each.name, each.kind, names.get(each.lhs, "?"), names.get(each.rhs, "?")),
                    *(each.mention_count, str(each.valid_since), str(each.valid_until)),
                    *(named(each.superseded_by, stated), each.expired_at is None, named(each.episodes, told)),
                )
                for each in edges
            )
        ),
    )
