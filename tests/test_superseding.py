"""A fact that is superseded again and again keeps a list that its column can hold, whoever works it out anew."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from jiuwen_memory import ENTITY_COLLECTION, EPISODE_COLLECTION, RELATION_COLLECTION, Relation
from jiuwen_memory.foundation.store.graph.constants import ARRAY_LIMIT
from jiuwen_memory.memory_core.graph.graph_memory.periods import with_right_period
from tests.memory_support import all_relations, taught
from tests.stores import entity, episode, relation, vector

MORE = ARRAY_LIMIT + 10


def facts(count: int, **changes: Any) -> list[Relation]:
    """Facts that say one after the other where somebody lives."""
    shared = vector("x")
    return [
        Relation(
            **{
                **{"name": "lives in", "content": f"Ada lives in place {number}.", "lhs": "ada", "rhs": "place"},
                **{"user_id": "ann", "content_embedding": shared, "uuid": uuid4().hex, "valid_since": 1000 + number},
                **changes,
            }
        )
        for number in range(count)
    ]


def test_working_out_a_period_keeps_the_newest_of_what_supersedes_a_fact() -> None:
    later = facts(MORE)

    right = with_right_period(relation("Ada lives in Oslo.", valid_since=1), later)

    assert right.superseded_by == [each.uuid for each in later[-ARRAY_LIMIT:]]
    assert right.valid_until == 1000


@pytest.mark.slow
async def test_a_deletion_that_hands_on_what_superseded_a_fact_fits_the_store() -> None:
    mind = taught()
    store = mind.memory.db_backend
    dim = store.config.embed_dim
    wide = [0.5] * dim
    told, gone = (episode(f"Text {name}.", uuid=uuid4().hex, content_embedding=wide) for name in ("told", "gone"))
    people = [
        entity(name, uuid=uuid, name_embedding=wide, content_embedding=wide, episodes=[told.uuid])
        for name, uuid in (("Ada", "ada"), ("Place", "place"))
    ]
    latest = facts(MORE, content_embedding=wide, episodes=[told.uuid])
    (middle,) = facts(
        1,
        content="Ada lives in the middle.",
        content_embedding=wide,
        episodes=[gone.uuid],
        valid_since=500,
        superseded_by=[each.uuid for each in latest[:ARRAY_LIMIT]],
    )
    (first,) = facts(
        1,
        content="Ada lives in Oslo.",
        content_embedding=wide,
        episodes=[told.uuid],
        valid_since=1,
        superseded_by=[middle.uuid, *(each.uuid for each in latest[ARRAY_LIMIT:])],
    )
    await store.upsert(EPISODE_COLLECTION, [told, gone])
    await store.upsert(ENTITY_COLLECTION, people)
    await store.upsert(RELATION_COLLECTION, [first, middle, *latest])

    await mind.memory.delete_episode("ann", gone.uuid)

    left = (await all_relations(mind.memory))["Ada lives in Oslo."]
    assert len(left.superseded_by) == ARRAY_LIMIT
    assert middle.uuid not in left.superseded_by
