"""A new episode in a long session: its place is the right one, and the session is not read without need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from jiuwen_memory import (
    EPISODE_COLLECTION,
    AddMemStrategy,
    Episode,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    GraphStoreFactory,
)
from jiuwen_memory.foundation.store.graph import BaseGraphObject, GraphStore, StoreAround
from jiuwen_memory.testing import fake_memory
from tests.memory_support import ENGLISH, taught

NOW = int(datetime(2026, 5, 8, 9, 30, tzinfo=UTC).timestamp())
YEAR = 366 * 24 * 3600

# When the episodes of a session were said, and when the new one is, in seconds since NOW; None is not known.
SESSIONS: Mapping[str, tuple[Sequence[int | None], Sequence[int]]] = {
    "a minute apart": ([60 * number for number in range(250)], (-60, 0, 30, 7_500, 14_940, 20_000)),
    "in one second": ([0] * 150, (-1, 0, 1)),
    "in two seconds": ([0] * 120 + [5] * 120, (-1, 0, 3, 5, 6)),
    "in bursts years apart": (
        [place * YEAR + second for place in range(-3, 4) for second in range(0, 150)],
        (-2 * YEAR - 9, 75, YEAR // 2, 3 * YEAR + 10_000),
    ),
    "centuries apart": ([100 * YEAR * place for place in range(-15, 16) for _ in range(5)], (1, -1_450 * YEAR)),
    "before 1970": ([-100 * YEAR + 10 * number for number in range(200)], (-100 * YEAR + 1_005, -101 * YEAR, 0)),
    "of unknown time": ([None] * 150, (0, -100 * YEAR)),
    "partly of unknown time": ([None] * 120 + [-100 * YEAR + number for number in range(120)], (0, -100 * YEAR + 50)),
}


class Counting(StoreAround):
    """A store that counts the reads of a session: for its order with the rows they brought, and for its entities."""

    inner = "memory"

    def __init__(self, store: GraphStore) -> None:
        super().__init__(store)
        self.reads = 0
        self.rows = 0
        self.reads_of_entities = 0

    async def query(self, collection: str, **options: Any) -> list[BaseGraphObject]:
        found = await super().query(collection, **options)
        columns = options.get("output_fields") or () if collection == EPISODE_COLLECTION else ()
        if "valid_since" in columns:
            self.reads += 1
            self.rows += len(found)
        self.reads_of_entities += "entities" in columns
        return found


def told(since: int | None, number: int, *, start: int = NOW) -> Episode:
    return Episode(
        user_id="ann",
        content=f"Turn {number}.",
        session_id="one",
        valid_since=None if since is None else start + since,
        created_at=NOW + number % 7,
        part=1 + number % 3,
        content_embedding=[1.0] + [0.0] * 63,
    )


async def filled(episodes: Sequence[Episode], *, backend: str = "memory") -> GraphMemory:
    """Return a memory that keeps the spine, with these episodes in it, and others that are in the way."""
    memory = fake_memory(
        config=GraphConfig(uri=uuid4().hex, backend=backend, embed_dim=64),
        strategy=AddMemStrategy(chinese_entity=False, temporal_spine=True),
    )
    others = [each.revise(uuid=uuid4().hex, session_id="other") for each in episodes[:3]]
    await memory.db_backend.upsert(EPISODE_COLLECTION, [*episodes, *others])
    return memory


async def neighbours(memory: GraphMemory, said: int) -> tuple[str | None, str | None]:
    """Add an episode said then, and return the ids that the links lead from and to it."""
    moment = datetime.fromtimestamp(said, UTC)
    update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", "New.", reference_time=moment, session_id="one")
    (new,) = update.added_episode
    links = [each for each in update.added_relation if each.kind == "temporal_next"]
    before = [each.lhs for each in links if each.rhs == new.uuid]
    after = [each.rhs for each in links if each.lhs == new.uuid]
    return next(iter(before), None), next(iter(after), None)


def expected(episodes: Sequence[Episode], said: int) -> tuple[str | None, str | None]:
    """Return what a new episode stands between; an unknown time stands for 1970, and comes first."""

    def place(each: Episode) -> tuple[int, int, int, str]:
        return each.valid_since or 0, each.created_at, each.part, each.uuid

    earlier = [each for each in episodes if each.valid_since is None or each.valid_since <= said]
    later = [each for each in episodes if each.valid_since is not None and each.valid_since > said]
    before, after = max(earlier, key=place, default=None), min(later, key=place, default=None)
    return before.uuid if before else None, after.uuid if after else None


@pytest.mark.parametrize("kind", SESSIONS)
async def test_an_episode_finds_its_place_in_a_session_of_any_shape(kind: str) -> None:
    times, moments = SESSIONS[kind]
    episodes = [told(since, number) for number, since in enumerate(times)]

    for moment in moments:
        async with await filled(episodes) as memory:
            assert await neighbours(memory, NOW + moment) == expected(episodes, NOW + moment), moment


async def test_the_place_in_a_session_costs_no_more_the_longer_it_is() -> None:
    GraphStoreFactory.register_backend("counting", Counting, force=True)
    costs = []
    for length in (1_000, 3_000):
        async with await filled([told(turn, turn) for turn in range(length)], backend="counting") as memory:
            store = memory.db_backend
            assert isinstance(store, Counting)

            at_the_end = await neighbours(memory, NOW + length)
            in_between = await neighbours(memory, NOW + length // 2)

            costs.append((store.reads, store.rows))
            assert None not in (at_the_end[0], *in_between)

    assert costs[0] == costs[1]


async def test_who_is_in_a_session_is_read_only_where_somebody_known_is_named() -> None:
    GraphStoreFactory.register_backend("counting", Counting, force=True)
    mind = taught(config=GraphConfig(uri=uuid4().hex, backend="counting", embed_dim=64), strategy=ENGLISH)
    store = mind.memory.db_backend
    assert isinstance(store, Counting)
    reads, asked = [], []

    for text in ("Ida Lund sings.", "Ole Dahl sings.", "Ida Lund hums."):
        await mind.learn(text, types={text[:8]: "Human"}, session_id="one")
        reads.append(store.reads_of_entities)
        asked.append(len(mind.llm.asked("EntityDuplication")))

    assert reads == [0, 0, 1]
    assert asked[-1] == asked[-2], "who was in the session is known without a question"
