"""What a search reads, and along what it goes: the queries of a hop, the columns, and facts from where it asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    Entity,
    Episode,
    GraphConfig,
    GraphMemory,
    GraphStoreFactory,
    MinMaxRankConfig,
    Relation,
    SearchConfig,
)
from jiuwen_memory.foundation.store.graph import BaseGraphObject, GraphStore, Hit, StoreAround
from jiuwen_memory.foundation.store.query import in_list
from jiuwen_memory.testing import fake_memory
from tests.conversation_support import write

WORDS = MinMaxRankConfig(name_dense=0, content_dense=0, content_sparse=1)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
WAYS: Mapping[str, Mapping[str, Any]] = {"expansion": {"bfs_depth": 1}, "walk": {"pagerank": 0.5}}


def by_words(**signals: Any) -> SearchConfig:
    return SearchConfig(**{"top_k": 10, "min_score": 0.001, "rank_config": WORDS, **signals})


def thing(name: str, *sources: str) -> Entity:
    return Entity(user_id="ann", name=name, content=name, sources=list(sources))


def fact(one: BaseGraphObject, other: BaseGraphObject, name: str, *sources: str, **changes: Any) -> Relation:
    values: dict[str, Any] = {"content": f"{name} it is", "lhs": one.uuid, "rhs": other.uuid, "sources": list(sources)}
    return Relation(user_id="ann", name=name, **values, **changes)


@pytest.fixture(params=["memory", "milvus"])
async def memory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[GraphMemory]:
    """Give an empty memory on either backend."""
    places: dict[str, dict[str, Any]] = {
        "memory": {"uri": uuid4().hex, "backend": "memory"},
        "milvus": {"uri": str(tmp_path / "graph.db")},
    }
    made = fake_memory(config=GraphConfig(embed_dim=64, **places[request.param]))
    async with made:
        yield made


async def found_from(memory: GraphMemory, config: SearchConfig, **options: Any) -> tuple[list[str], list[str]]:
    """Return the names of the entities that a search for Xylo finds, and the ways to them."""
    memory.register_search_strategy("tried", search_entity=config, force=True)
    found = await memory.search("Xylo", "ann", "tried", relation=False, episode=False, **options)
    names = [each.name for _, each in found[ENTITY_COLLECTION] if isinstance(each, Entity)]
    return names, [str(path) for path in found.paths]


# --- what is gone along -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_a_fact_from_another_source_is_no_way_and_is_not_told(way: str, memory: GraphMemory) -> None:
    if way == "walk":
        pytest.importorskip("rustworkx")
    xylo, yarrow, zinnia = thing("Xylo", "desk", "lab"), thing("Yarrow", "desk", "lab"), thing("Zinnia", "desk")
    secret, known = fact(xylo, yarrow, "secretly owns", "lab"), fact(xylo, zinnia, "grows", "desk")
    await write(memory, [xylo, yarrow, zinnia, secret, known])

    of_all, all_ways = await found_from(memory, by_words(**WAYS[way]))
    of_desk, ways = await found_from(memory, by_words(**WAYS[way]), source="desk")

    assert set(of_all) == {"Xylo", "Yarrow", "Zinnia"}
    assert "Xylo -[secretly owns]-> Yarrow" in all_ways
    assert set(of_desk) == {"Xylo", "Zinnia"}
    assert ways == ["Xylo -[grows]-> Zinnia"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_fact_of_another_session_is_no_way(way: str, memory: GraphMemory) -> None:
    if way == "walk":
        pytest.importorskip("rustworkx")
    xylo, yarrow = thing("Xylo"), thing("Yarrow")
    here = Episode(user_id="ann", content="Both were seen.", session_id="here", entities=[xylo.uuid, yarrow.uuid])
    there = Episode(user_id="ann", content="One owns the other.", session_id="there", entities=[xylo.uuid])
    await write(memory, [xylo, yarrow, here, there, fact(xylo, yarrow, "owns", episodes=[there.uuid])])

    names, ways = await found_from(memory, by_words(**WAYS[way]), session_id="here")

    assert (names, ways) == (["Xylo"], [])


@pytest.mark.parametrize("way", WAYS)
async def test_what_was_not_known_or_did_not_hold_is_no_way(way: str, memory: GraphMemory) -> None:
    if way == "walk":
        pytest.importorskip("rustworkx")
    xylo, yarrow, zinnia = thing("Xylo"), thing("Yarrow"), thing("Zinnia")
    ended = fact(xylo, zinnia, "rented", valid_until=1_500_000_000, created_at=1_500_000_000)
    await write(memory, [xylo, yarrow, zinnia, fact(xylo, yarrow, "bought", created_at=1_700_000_000), ended])

    now, _ = await found_from(memory, by_words(**WAYS[way]))
    _, then_known = await found_from(memory, by_words(**WAYS[way]), known_at=LONG_AGO)
    _, then_held = await found_from(memory, by_words(**WAYS[way]), as_of=LONG_AGO)

    assert set(now) == {"Xylo", "Yarrow", "Zinnia"}
    assert then_known == ["Xylo -[rented]-> Zinnia"]
    assert then_held == ["Xylo -[bought]-> Yarrow"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("hubs", [1, 3])
async def test_what_has_thousands_of_links_does_not_hide_those_of_others(way: str, hubs: int) -> None:
    if way == "walk":
        pytest.importorskip("rustworkx")
    memory = fake_memory()
    crowded = [thing(f"Xylo {number}") for number in range(hubs)]
    xylo, zinnia = thing("Xylo"), thing("Zinnia")
    await write(memory, [*crowded, xylo, zinnia])
    vector = [1.0] + [0.0] * 63
    many = [fact(each, each, "is", content_embedding=vector) for each in crowded for _ in range(600)]
    last = fact(xylo, zinnia, "owns", content_embedding=vector)
    await memory.db_backend.upsert(RELATION_COLLECTION, [*many, last])

    _, ways = await found_from(memory, by_words(**WAYS[way]))

    assert "Xylo -[owns]-> Zinnia" in ways


async def test_a_fact_that_did_not_hold_leads_to_no_other_fact(memory: GraphMemory) -> None:
    times: dict[str, Any] = {"created_at": 1_577_836_800, "first_mentioned_at": 1_577_836_800}
    home = thing("Home")
    begins, ends, follows = (fact(home, home, name, **times) for name in ("xylo", "rented", "moved"))
    replaced = ends.revise(superseded_by=[follows.uuid], expired_at=1_609_459_200)
    told = follows.revise(first_mentioned_at=1_609_459_200, created_at=1_609_459_200)
    last = fact(home, home, "sold", **times)
    along: dict[str, Any] = {"kind": "causes", "ends": "relation", "created_at": 1_577_836_800}
    links = [fact(begins, replaced, "so", **along), fact(replaced, last, "so", **along)]
    await write(memory, [home, begins, replaced, told, last, *links])
    memory.register_search_strategy("tried", search_relation=by_words(bfs_depth=3, kind_priors={"causes": 0.9}))

    found = {}
    for year in (2020, 2023):
        moment = datetime(year, 6, 1, tzinfo=UTC)
        result = await memory.search("xylo", "ann", "tried", entity=False, episode=False, as_of=moment)
        found[year] = [each.name for _, each in result[RELATION_COLLECTION] if isinstance(each, Relation)]

    assert found == {2020: ["xylo", "rented", "sold"], 2023: ["xylo"]}


async def test_support_goes_along_facts_from_the_source_alone(memory: GraphMemory) -> None:
    xylo, yarrow = thing("Xylo one", "desk", "lab"), thing("Xylo two", "desk", "lab")
    await write(memory, [xylo, yarrow, fact(xylo, yarrow, "secretly owns", "lab")])
    memory.register_search_strategy("tried", search_entity=by_words(support=0.3))

    supported = {}
    for source in (None, "lab", "desk"):
        found = await memory.search("Xylo", "ann", "tried", relation=False, episode=False, source=source)
        hits = found.diagnostics.collections[ENTITY_COLLECTION].hits
        supported[source] = sum("support" in hit.signals for hit in hits.values())

    assert supported == {None: 2, "lab": 2, "desk": 0}


async def test_a_link_between_close_names_is_a_way_whatever_the_source(memory: GraphMemory) -> None:
    xylo, yarrow = thing("Xylo", "desk"), thing("Yarrow", "desk")
    await write(memory, [xylo, yarrow, fact(xylo, yarrow, "synonym", kind="synonym")])

    names, _ = await found_from(memory, by_words(bfs_depth=1), source="desk")

    assert names == ["Xylo", "Yarrow"]


async def test_neighbours_from_elsewhere_do_not_take_the_places_of_those_that_fit(memory: GraphMemory) -> None:
    xylo, fitting = thing("Xylo", "desk"), thing("Fitting", "desk")
    others = [thing(f"Other{number}", "lab") for number in range(3)]
    links = [fact(xylo, each, "knows", "desk") for each in (*others, fitting)]
    await write(memory, [xylo, fitting, *others, *links])

    names, _ = await found_from(memory, by_words(bfs_depth=1, bfs_k=1), source="desk")

    assert names == ["Xylo", "Fitting"]


async def test_links_of_ours_do_not_take_the_places_of_facts(memory: GraphMemory) -> None:
    xylo, yarrow = thing("Xylo"), thing("Yarrow")
    links = [fact(xylo, yarrow, "synonym", kind="synonym") for _ in range(3)]
    hit, near = fact(xylo, yarrow, "paints"), fact(yarrow, xylo, "sails")
    await write(memory, [xylo, yarrow, *links, hit, near])
    memory.register_search_strategy("tried", search_relation=by_words(bfs_depth=1, bfs_k=1))

    found = await memory.search("paints", "ann", "tried", entity=False, episode=False)

    assert [each.uuid for _, each in found[RELATION_COLLECTION]] == [hit.uuid, near.uuid]


async def test_a_filter_on_times_and_names_is_looked_at_for_neighbours_as_the_store_does(memory: GraphMemory) -> None:
    xylo = thing("Xylo")
    others = [thing(f"Other {number}") for number in range(3)]
    await write(memory, [xylo, *others, *(fact(xylo, each, "knows") for each in others)])

    wanted = in_list("name_norm", ["xylo", "other 1"])
    names, _ = await found_from(memory, by_words(bfs_depth=1, filter_expr=wanted))

    assert names == ["Xylo", "Other 1"]


# --- queries and columns ----------------------------------------------------------------------------------------------


@dataclass
class Read:
    """A read of one collection: what was asked of the store, and the columns, if not all."""

    how: str
    collection: str
    columns: frozenset[str] = field(default_factory=frozenset)


class Watched(StoreAround):
    """A store that notes what is read of it."""

    inner = "memory"

    def __init__(self, store: GraphStore) -> None:
        super().__init__(store)
        self.reads: list[Read] = []

    async def query(self, collection: str, **options: Any) -> list[BaseGraphObject]:
        how = "scan" if options.get("ids") is None else "look-up"
        self.reads.append(Read(how, collection, frozenset(options.get("output_fields") or ())))
        return await super().query(collection, **options)

    async def routes(self, collection: str, query: Any, **options: Any) -> dict[Any, list[Hit]]:
        self.reads.append(Read("routes", collection, frozenset(options["output_fields"])))
        return await super().routes(collection, query, **options)

    def scans(self) -> int:
        return sum(each.how == "scan" for each in self.reads)

    def columns(self) -> dict[str, frozenset[str]]:
        return {each.collection: each.columns for each in self.reads if each.how == "routes"}


async def watched() -> tuple[GraphMemory, Watched]:
    """Return a memory of a line of things, the first of them Xylo, and the store that notes what is read."""
    GraphStoreFactory.register_backend("watched", Watched, force=True)
    memory = fake_memory(config=GraphConfig(uri=uuid4().hex, backend="watched", embed_dim=64))
    things = [thing("Xylo"), *(thing(f"Thing {number}") for number in range(5))]
    facts = [fact(one, other, "knows" if number else "xylo") for number, (one, other) in enumerate(pairwise(things))]
    told = [Episode(user_id="ann", content=f"Xylo {number} is here.", session_id="one") for number in range(3)]
    objects: Sequence[BaseGraphObject] = [*things, *facts, *told]
    await write(memory, objects)
    store = memory.db_backend
    assert isinstance(store, Watched)
    return memory, store


async def test_a_hop_is_one_query_for_the_links_of_all_collections() -> None:
    memory, store = await watched()
    scans = {}
    for depth in (0, 1, 2):
        config = by_words(bfs_depth=depth, bfs_k=1)
        memory.register_search_strategy("hops", search_entity=config, search_relation=config, force=True)
        store.reads.clear()

        await memory.search("Xylo", "ann", "hops", episode=False)

        scans[depth] = store.scans()

    assert scans == {0: 0, 1: 1, 2: 2}


async def test_that_there_are_too_few_episodes_for_names_is_not_looked_up_again_at_once() -> None:
    memory, store = await watched()
    scans = []
    for query in ("Where is Xylo?", "Who knows Xylo?"):
        store.reads.clear()

        await memory.search(query, "ann")

        scans.append(store.scans())

    assert scans == [1, 0]


async def test_only_the_columns_that_ranking_looks_at_are_read_of_candidates() -> None:
    memory, store = await watched()
    plain = by_words()
    memory.register_search_strategy("plain", plain, plain, plain)

    await memory.search("Xylo", "ann", "plain")

    assert store.columns() == {
        ENTITY_COLLECTION: frozenset(),
        RELATION_COLLECTION: {"superseded_by"},
        EPISODE_COLLECTION: frozenset(),
    }


@pytest.mark.parametrize(
    ("signal", "collection", "columns"),
    [
        ("closeness", RELATION_COLLECTION, {"superseded_by", "valid_since", "last_mentioned_at"}),
        ("recency", ENTITY_COLLECTION, {"last_mentioned_at"}),
        ("mentions", ENTITY_COLLECTION, {"mention_count"}),
        ("speaker", EPISODE_COLLECTION, {"speakers"}),
        ("spine", EPISODE_COLLECTION, {"session_id", "valid_since", "part"}),
    ],
)
async def test_a_signal_reads_the_columns_that_it_looks_at(signal: str, collection: str, columns: set[str]) -> None:
    memory, store = await watched()
    config = by_words(**{signal: 0.2})
    memory.register_search_strategy("signal", config, config, config)

    await memory.search("Xylo", "ann", "signal")

    assert store.columns()[collection] == columns
