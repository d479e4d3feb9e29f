"""A life in forty episodes, told by a scripted model: in whatever order, the graph must hold the written truth."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from jiuwen_memory import GraphConfig, GraphMemory
from jiuwen_memory.testing import FakeLLM, fake_memory
from tests.life.chapters import CHAPTERS
from tests.life.scripted import (
    USER,
    held_periods,
    held_things,
    life_strategy,
    relations,
    tell,
    true_things,
)
from tests.life.story import Chapter
from tests.life.truth import (
    CLAIM,
    FORGOTTEN,
    FORGOTTEN_THINGS,
    PERIODS,
    PERIODS_LOST,
    PERIODS_MENDED,
    THING,
)

SHUFFLES = range(1, 11)


def shuffled(seed: int) -> list[Chapter]:
    order = list(CHAPTERS)
    random.Random(seed).shuffle(order)
    return order


async def told(order: Sequence[Chapter], **options: Any) -> tuple[GraphMemory, dict[int, str]]:
    """Return a memory to which the life was told in this order, and the episode of each chapter."""
    llm = FakeLLM()
    strategy = options.pop("strategy", None) or life_strategy()
    memory = fake_memory(llm=llm, strategy=strategy, **options)
    episodes = {}
    for chapter in order:
        update = await tell(memory, llm, chapter)
        episodes[chapter.number] = update.added_episode[0].uuid
        assert all("asked again by itself" in warning for warning in update.warnings), update.warnings
    return memory, episodes


async def assert_is_true(memory: GraphMemory) -> None:
    assert await held_things(memory) == true_things()
    assert await held_periods(memory) == Counter(PERIODS)
    assert (await memory.check(USER)).findings == ()


async def assert_is_true_without_the_forgotten(memory: GraphMemory, episodes: dict[int, str]) -> None:
    for number in FORGOTTEN:
        await memory.delete_episode(USER, episodes[number])

    assert await held_things(memory) == true_things(but=FORGOTTEN_THINGS)
    assert await held_periods(memory) == Counter(PERIODS) - Counter(PERIODS_LOST) + Counter(PERIODS_MENDED)
    assert (await memory.check(USER)).findings == ()


def test_the_script_speaks_only_of_what_its_texts_say() -> None:
    for chapter in CHAPTERS:
        for name, key in chapter.named.items():
            assert name in chapter.text, chapter.number
            assert name in THING[key].names, chapter.number
        for telling in chapter.told:
            claim = CLAIM[telling.claim]
            assert {claim.source, claim.target} <= set(chapter.named.values()), telling
            assert any(sign.casefold() in telling.sentence.casefold() for sign in claim.signs), telling
            assert telling.since is None or telling.since in chapter.text, telling


async def test_a_life_told_in_order_is_held_as_it_was_and_as_it_is_after_deletions() -> None:
    memory, episodes = await told(CHAPTERS)

    await assert_is_true(memory)
    await assert_is_true_without_the_forgotten(memory, episodes)


@pytest.mark.parametrize("seed", SHUFFLES)
async def test_a_life_told_out_of_order_is_held_the_same(seed: int) -> None:
    memory, episodes = await told(shuffled(seed))

    await assert_is_true(memory)
    await assert_is_true_without_the_forgotten(memory, episodes)


@pytest.mark.slow
async def test_a_life_is_held_the_same_by_milvus_lite(tmp_path: Path) -> None:
    config = GraphConfig(uri=str(tmp_path / "life.db"), embed_dim=64)

    memory, episodes = await told(CHAPTERS, config=config)

    await assert_is_true(memory)
    await assert_is_true_without_the_forgotten(memory, episodes)
    await memory.close()


async def test_where_somebody_lived_is_known_for_every_moment() -> None:
    memory, _ = await told(shuffled(1))
    moments = ["2019-01-01", "2021-01-01", "2023-01-01", "2024-06-01", "2025-01-01"]

    homes = []
    for moment in moments:
        as_of = datetime.fromisoformat(moment).replace(tzinfo=UTC)
        found = await memory.triples(USER, subject="Nora Lindqvist", predicate="lives in", as_of=as_of)
        homes.append([each.object for each in found])

    known = [{"Berlin"}, {"Paris", "巴黎"}, {"Berlin"}, {"Basel", "巴塞尔"}, {"日内瓦"}]
    assert [len(home) for home in homes] == [1, 1, 1, 1, 1]
    assert all(home[0] in names for home, names in zip(homes, known, strict=True)), homes


async def test_links_between_facts_come_with_the_verdicts() -> None:
    memory, _ = await told(CHAPTERS)

    links = await relations(memory, kind="elaborates")

    assert sorted(each.content for each in links) == [
        "Wei Zhang is head of software at Kestrel Robotics. → Wei Zhang is an engineer at Kestrel Robotics.",
        "诺拉是Kestrel Robotics的制图主管。 → Nora Lindqvist works at Kestrel Robotics.",
    ]
    assert {each.ends for each in links} == {"relation"}
