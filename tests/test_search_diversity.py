"""Maximal marginal relevance: results that differ from each other, chosen before `top_k`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from jiuwen_memory import (
    DiversityConfig,
    Episode,
    GraphConfig,
    GraphMemory,
    MinMaxRankConfig,
    Relation,
    SearchConfig,
)
from jiuwen_memory.memory_core.graph.graph_memory.searching.diversity import resolve_diverse
from jiuwen_memory.testing import fake_memory
from tests.conversation_support import episodes_found, remembering, write

SAME = [1.0, 0.0]
OTHER = [0.0, 1.0]
COPIES = ["The cat sleeps on the sofa.", "The cat sleeps on the sofa!", "The cat sleeps on a sofa."]
ELSE = "A dog barks at the cat in the garden of our neighbours."
PLAIN = SearchConfig(top_k=2, min_score=0.0)
DIVERSE = PLAIN.model_copy(update={"diversity": DiversityConfig(weight=0.8)})


def test_a_near_copy_gives_way_to_something_else() -> None:
    chosen = resolve_diverse([0.9, 0.89, 0.5], [SAME, SAME, OTHER], config=DiversityConfig(weight=0.6), count=2)

    assert chosen == [0, 2]


def test_without_weight_the_best_are_chosen() -> None:
    chosen = resolve_diverse([0.9, 0.89, 0.5], [SAME, SAME, OTHER], config=DiversityConfig(weight=0.0), count=2)

    assert chosen == [0, 1]


def test_a_candidate_without_a_vector_is_like_no_other_and_equal_scores_keep_their_order() -> None:
    assert resolve_diverse([0.5, 0.5, 0.5], [SAME, None, SAME], config=DiversityConfig(), count=3) == [0, 1, 2]


async def cats(memory: GraphMemory) -> None:
    await write(memory, [Episode(user_id="ann", content=text) for text in (*COPIES, ELSE)])


async def test_copies_do_not_take_all_the_places() -> None:
    memory = remembering()
    await cats(memory)

    plain, _ = await episodes_found(memory, "The cat sleeps on the sofa.", PLAIN)
    diverse, found = await episodes_found(memory, "The cat sleeps on the sofa.", DIVERSE)

    assert set(plain) <= set(COPIES)
    assert diverse == [plain[0], ELSE]
    scores = [score for score, _ in found["EPISODE_COLLECTION"]]
    assert scores == sorted(scores, reverse=True)
    assert all(each.content_embedding is None for _, each in found["EPISODE_COLLECTION"])


async def test_facts_are_chosen_among_as_many_candidates_as_were_asked_for() -> None:
    memory = remembering()
    copies = [Relation(user_id="ann", content="cat cat cat sofa", lhs="x", rhs="y") for _ in range(60)]
    other = Relation(user_id="ann", content="cat zebra quince walnut umbrella", lhs="x", rhs="y")
    await write(memory, [*copies, other])
    words = MinMaxRankConfig(content_dense=0, content_sparse=1)
    config = SearchConfig(
        top_k=2, min_score=0.0, rank_config=words, diversity=DiversityConfig(weight=0.9, candidates=100)
    )
    memory.register_search_strategy("varied", search_relation=config)

    found = await memory.search("cat", "ann", "varied", entity=False, episode=False)

    assert other.uuid in {each.uuid for _, each in found["RELATION_COLLECTION"]}


async def test_diversity_works_on_milvus_lite(tmp_path: Path) -> None:
    config = GraphConfig(uri=str(tmp_path / "graph.db"), embed_dim=64)
    async with fake_memory(config=config) as memory:
        await cats(memory)
        await memory.db_backend.refresh()

        diverse, _ = await episodes_found(memory, "The cat sleeps on the sofa.", DIVERSE)

    assert ELSE in diverse and len(diverse) == 2


@pytest.mark.parametrize("values", [{"weight": 1.1}, {"weight": -0.1}, {"candidates": 1}, {"lambda": 0.5}], ids=str)
def test_settings_that_cannot_be_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        DiversityConfig.model_validate(values)
