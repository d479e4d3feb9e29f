"""Links between close names: found, counted, removed, never merged, and gone with their entities."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import pytest

from jiuwen_memory import (
    ENTITY_COLLECTION,
    AddMemStrategy,
    Entity,
    EpisodeType,
    GraphConfig,
    GraphStoreIndexConfig,
)
from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.locks import InProcessLocks, Lease
from jiuwen_memory.foundation.store.graph.database_config import DistanceMetric
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.testing import FakeEmbedder, fake_memory
from tests.memory_support import Taught, all_entities, entities, model_of, taught

CLOSE = {"Katherine Johnson": "Human", "Katherine Johnsson": "Human", "Oslo": "Place"}
ALIKE = {
    "Edda Holt": [1.0],
    "E. Holt": [0.93, 0.3676],
    "UNICEF": [0.0, 0.0, 1.0],
    "Children's Fund": [0.0, 0.0, 0.85, 0.5268],
    "bike": [0.0] * 4 + [1.0],
    "bicycle": [0.0] * 4 + [0.81, 0.5864],
    "pier": [0.0] * 6 + [1.0],
    "wharf": [0.0] * 6 + [0.79, 0.6131],
}
"""Names and where they lie: another spelling, an abbreviation and related words, each pair less close than the last."""


class Placing(FakeEmbedder):
    """An embedding model that puts chosen texts where it is told."""

    def __init__(self, places: Mapping[str, Sequence[float]]) -> None:
        super().__init__(64)
        self.places = places

    def _vector(self, text: str) -> list[float]:
        place = self.places.get(text)
        return super()._vector(text) if place is None else [*place, *([0.0] * (64 - len(place)))]


async def linked(world: Taught) -> set[frozenset[str]]:
    """Return the links as pairs of names."""
    names = {each.uuid: name for name, each in (await all_entities(world.memory)).items()}
    return {frozenset((names[link.lhs], names[link.rhs])) for link in await world.memory.synonyms("ann")}


async def known(**options: Any) -> Taught:
    """Return a memory that knows two spellings of one name, and another name, each from a text of its own."""
    world = taught(**options)
    for name, kind in CLOSE.items():
        await world.learn(f"{name} was mentioned.", types={name: kind})
    return world


async def test_close_names_are_linked_and_nothing_is_merged() -> None:
    world = await known()

    report = await world.memory.link_synonyms("ann")

    entities = await all_entities(world.memory)
    (link,) = await world.memory.synonyms("ann")
    assert (report.entities, report.added) == (3, 1)
    assert {link.lhs, link.rhs} == {entities["Katherine Johnson"].uuid, entities["Katherine Johnsson"].uuid}
    assert link.kind == "synonym"
    assert 0.8 <= float(str(link.qualifiers["similarity"])) <= 1
    assert set(entities) == set(CLOSE)


async def test_linking_again_adds_nothing() -> None:
    world = await known()
    await world.memory.link_synonyms("ann")

    again = await world.memory.link_synonyms("ann")

    assert (again.added, again.known) == (0, 1)
    assert len(await world.memory.synonyms("ann")) == 1


async def test_a_graph_with_links_passes_the_check() -> None:
    world = await known()
    await world.memory.link_synonyms("ann")

    report = await world.memory.check("ann", repair=True)

    assert report.is_clean, str(report)
    assert len(await world.memory.synonyms("ann")) == 1


async def test_a_links_end_takes_it_along_when_it_is_deleted() -> None:
    world = await known()
    await world.memory.link_synonyms("ann")
    entities = await all_entities(world.memory)

    await world.memory.delete_entity("ann", entities["Katherine Johnsson"].uuid)

    assert await world.memory.synonyms("ann") == []
    assert (await world.memory.check("ann")).is_clean


async def test_forgetting_an_episode_forgets_the_links_of_its_names() -> None:
    world = await known()
    await world.memory.link_synonyms("ann")
    entities = await all_entities(world.memory)

    await world.memory.delete_episode("ann", entities["Katherine Johnson"].episodes[0])

    assert set(await all_entities(world.memory)) == {"Katherine Johnsson", "Oslo"}
    assert await world.memory.synonyms("ann") == []


async def test_all_links_can_be_removed_at_once() -> None:
    world = await known()
    await world.memory.link_synonyms("ann")

    removed = await world.memory.unlink_synonyms("ann")

    assert removed == 1
    assert await world.memory.synonyms("ann") == []
    assert set(await all_entities(world.memory)) == set(CLOSE)


async def test_new_entities_are_linked_while_adding_where_the_strategy_says_so() -> None:
    world = await known(strategy=AddMemStrategy(chinese_entity=False, link_synonyms=True))

    entities = await all_entities(world.memory)

    (link,) = await world.memory.synonyms("ann")
    assert {link.lhs, link.rhs} == {entities["Katherine Johnson"].uuid, entities["Katherine Johnsson"].uuid}
    assert (await world.memory.link_synonyms("ann")).added == 0


async def test_new_entities_of_one_text_are_linked_to_each_other() -> None:
    world = taught(strategy=AddMemStrategy(chinese_entity=False, link_synonyms=True))

    await world.learn("They were all mentioned.", types=CLOSE)

    assert len(await world.memory.synonyms("ann")) == 1


async def test_fused_entities_have_no_link_to_themselves() -> None:
    world = await known()
    await world.memory.link_synonyms("ann")
    names = ("Katherine Johnson", "Katherine Johnsson")

    await world.learn("K. Johnson again.", types={"K. Johnson": "Human"}, same={"K. Johnson": names})

    assert await world.memory.synonyms("ann") == []
    assert len(await all_entities(world.memory)) == 2
    assert (await world.memory.check("ann")).is_clean


async def test_links_are_between_one_users_entities() -> None:
    world = taught()
    await world.learn("One.", types={"Katherine Johnson": "Human"})
    await world.learn("Two.", types={"Katherine Johnsson": "Human"}, user="bob")

    report = await world.memory.link_synonyms("ann")

    assert report.added == 0
    assert await world.memory.db_backend.count(ENTITY_COLLECTION, user=filter_user("bob")) == 1


async def test_links_are_not_found_as_facts() -> None:
    world = await known()
    await world.memory.link_synonyms("ann")

    found = await world.memory.search("synonym", "ann", entity=False, episode=False)

    assert list(found.values()) == [[]]
    assert list(await world.memory.triples("ann")) == []


@pytest.mark.parametrize(
    ("wrong", "value"),
    [("min_similarity", 0.0), ("min_similarity", 1.5), ("min_similarity", "0.8"), ("top_k", 0), ("top_k", "3")],
)
async def test_what_no_link_can_fulfil_is_refused(wrong: str, value: Any) -> None:
    world = taught()

    with pytest.raises(InvalidInputError, match=wrong):
        await world.memory.link_synonyms("ann", **{wrong: value})


async def test_links_of_an_entity_that_the_user_merges_go_and_the_others_stay() -> None:
    world = await known()
    await world.learn("Katherine Johnsen was mentioned.", types={"Katherine Johnsen": "Human"})
    assert (await world.memory.link_synonyms("ann")).added == 3
    found = await all_entities(world.memory)
    kept, gone, other = (found[f"Katherine {name}"].uuid for name in ("Johnson", "Johnsson", "Johnsen"))

    await world.memory.merge("ann", kept, gone, dry_run=False)

    (link,) = await world.memory.synonyms("ann")
    assert {link.lhs, link.rhs} == {kept, other}
    assert (await world.memory.check("ann")).is_clean


async def test_a_link_goes_with_the_name_that_it_was_made_for() -> None:
    world = taught()
    told = await world.learn("Katherine Johnson was mentioned.", types={"Katherine Johnson": "Human"})
    await world.learn("Kate came.", types={"Kate": "Human"}, same={"Kate": ["Katherine Johnson"]})
    await world.learn("Katherine Johnsson was mentioned.", types={"Katherine Johnsson": "Human"})
    assert (await world.memory.link_synonyms("ann")).added == 1

    await world.memory.delete_episode("ann", told.added_episode[0].uuid)

    assert set(await all_entities(world.memory)) == {"Kate", "Katherine Johnsson"}
    assert await world.memory.synonyms("ann") == []
    assert (await world.memory.check("ann")).is_clean


async def test_a_link_goes_when_its_entity_comes_back_under_another_name() -> None:
    world = taught()
    both = {"Katherine Johnson": "Human", "Katherine Johnsson": "Human"}
    await world.learn("Katherine Johnson, called Kate, met Katherine Johnsson.", types=both)
    second = await world.learn("Kate came.", types={"Kate": "Human"}, same={"Kate": ["Katherine Johnson"]})
    await world.memory.delete_episode("ann", second.added_episode[0].uuid)
    assert (await world.memory.link_synonyms("ann")).added == 1
    before = await all_entities(world.memory)
    world.llm.replies["EntityExtraction"] = entities({"Kate": "Human", "Katherine Johnsson": "Human"})

    await world.memory.rebuild("ann")

    after = await all_entities(world.memory)
    assert after["Kate"].uuid == before["Katherine Johnson"].uuid
    assert await world.memory.synonyms("ann") == []
    assert (await world.memory.check("ann")).is_clean


async def test_links_go_with_an_entity_of_which_nothing_is_left_when_it_is_taken_apart() -> None:
    world = await known()
    found = await all_entities(world.memory)
    kept, gone = found["Oslo"], found["Katherine Johnson"]
    await world.memory.merge("ann", kept.uuid, gone.uuid, dry_run=False, across_types=True)
    await world.memory.delete_episode("ann", kept.episodes[0])
    assert (await world.memory.link_synonyms("ann")).added == 1

    await world.memory.unmerge("ann", kept.uuid)

    assert set(await all_entities(world.memory)) == {"Katherine Johnson", "Katherine Johnsson"}
    assert await world.memory.synonyms("ann") == []
    assert (await world.memory.check("ann")).is_clean


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, 3), ({"min_similarity": 0.75}, 4), ({"min_similarity": 0.9}, 1), ({"min_similarity": 0.99}, 0)],
    ids=["as REMem does", "wider", "narrower", "equal names only"],
)
async def test_other_spellings_abbreviations_and_related_words_are_linked_from_a_threshold_on(
    given: dict[str, Any], found: int
) -> None:
    world = taught(embedder=Placing(ALIKE))
    await world.learn("They were all mentioned.", types=dict.fromkeys(ALIKE, "Entity"))

    report = await world.memory.link_synonyms("ann", **given)

    names = list(ALIKE)
    assert report.added == found
    assert await linked(world) == {frozenset(names[place : place + 2]) for place in range(0, 2 * found, 2)}


@pytest.mark.parametrize("while_adding", [True, False])
async def test_the_strategy_says_what_is_close_and_how_many_are_linked(while_adding: bool) -> None:
    closeness = {"synonym_min_similarity": 0.9, "link_synonyms": while_adding}
    world = taught(
        embedder=Placing(ALIKE), strategy=AddMemStrategy.model_validate({"chinese_entity": False} | closeness)
    )

    await world.learn("They were all mentioned.", types=dict.fromkeys(ALIKE, "Entity"))
    if not while_adding:
        await world.memory.link_synonyms("ann")

    assert await linked(world) == {frozenset(("Edda Holt", "E. Holt"))}


async def test_a_new_entity_is_linked_to_the_nearest_of_all_stored_and_new_ones_only() -> None:
    places = {"Old": [1.0], "New": [0.95, 0.3122], "Newer": [0.855, 0.281, 0.4359]}
    strategy = AddMemStrategy(chinese_entity=False, link_synonyms=True, synonym_top_k=1)
    world = taught(embedder=Placing(places), strategy=strategy)
    await world.learn("One.", types={"Old": "Entity"})

    await world.learn("Two.", types={"New": "Entity", "Newer": "Entity"})

    assert await linked(world) == {frozenset(("Old", "New")), frozenset(("New", "Newer"))}


@pytest.mark.parametrize("metric", get_args(DistanceMetric))
@pytest.mark.parametrize("backend", ["memory", "milvus"])
async def test_a_similarity_that_is_just_enough_is_enough_however_it_was_rounded(
    backend: str, metric: DistanceMetric, tmp_path: Path
) -> None:
    index = GraphStoreIndexConfig(distance_metric=metric)
    config = GraphConfig(uri=str(tmp_path / "s.db"), backend=backend, embed_dim=64, db_embed_config=index)
    third = 3**-0.5
    places = {"One": [third] * 3, "Same": [third] * 3, "Close": [0.8 * third] * 3 + [0.6]}
    async with fake_memory(config=config, embedder=Placing(places)) as memory:
        model_of(memory).replies["EntityExtraction"] = entities(dict.fromkeys(places, "Entity"))
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", "One, Same and Close.")

        equal = await memory.link_synonyms("ann", min_similarity=1)
        just = await memory.link_synonyms("ann", min_similarity=0.8)
        less = await memory.link_synonyms("ann", min_similarity=0.81)

    assert (equal.added, just.added, just.known) == (1, 2, 1)
    assert (less.added, less.known) == (0, 1)


class CountingLocks(InProcessLocks):
    """Locks that count how often a user was held."""

    def __init__(self) -> None:
        super().__init__()
        self.held = 0

    @asynccontextmanager
    async def hold(self, store: str, user_id: str) -> AsyncIterator[Lease]:
        async with super().hold(store, user_id) as lease:
            self.held += 1
            yield lease


async def test_what_is_found_on_two_pages_counts_once_and_others_may_write_in_between() -> None:
    locks = CountingLocks()
    world = taught(locks=locks)
    unlike = [[0.0] * place + [1.0] + [0.0] * (63 - place) for place in range(60)]
    vectors = [*unlike, *unlike]
    rows = [
        Entity(uuid=f"{place:032}", user_id="ann", name=f"n{place}", name_embedding=one, content_embedding=one)
        for place, one in enumerate(vectors)
    ]
    await world.memory.db_backend.upsert(ENTITY_COLLECTION, rows)

    first = await world.memory.link_synonyms("ann")
    held = locks.held
    again = await world.memory.link_synonyms("ann")

    assert (first.entities, first.added, first.known) == (120, 60, 0)
    assert (again.entities, again.added, again.known) == (120, 0, 60)
    assert held == 1 + 2
