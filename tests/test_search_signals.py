"""What the graph adds to what the channels find: each signal alone, switched on by a `SearchConfig`."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
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
    WeightedRankConfig,
)
from jiuwen_memory.errors import StoreUnavailableError
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, now
from jiuwen_memory.foundation.store.graph.memory.store import InMemoryGraphStore
from jiuwen_memory.foundation.store.query import ne
from jiuwen_memory.testing import FakeEmbedder, fake_memory
from tests.conversation_support import START, episodes_found, remembering, tell, write
from tests.memory_support import taught

WORDS = MinMaxRankConfig(name_dense=0, content_dense=0, content_sparse=1)
MEANING = WeightedRankConfig(name_dense=0, content_dense=1, content_sparse=0)


def by_words(**signals: Any) -> SearchConfig:
    return SearchConfig(**{"top_k": 10, "min_score": 0.001, "rank_config": WORDS, **signals})


TALK = [
    ("Ann", "The train was late again."),
    ("Bo", "Which instrument is it that you practise?"),
    ("Ann", "An oboe."),
    ("Bo", "Splendid weather for a picnic."),
    ("Ann", "The bakery closes early."),
]


# --- the spine --------------------------------------------------------------------------------------------------------


async def test_the_answer_that_follows_a_good_question_is_found_though_no_word_is_shared() -> None:
    memory = remembering()
    await tell(memory, TALK)

    without, _ = await episodes_found(memory, "Which instrument?", by_words())
    texts, found = await episodes_found(memory, "Which instrument?", by_words(spine=0.4))

    assert without == ["Bo: Which instrument is it that you practise?"]
    assert texts[:2] == ["Bo: Which instrument is it that you practise?", "Ann: An oboe."]
    (path,) = [path for path in found.paths if path.nodes[-1].label == "Ann: An oboe."]
    assert str(path) == "Bo: Which instrument is it that you practise? -[temporal_next]-> Ann: An oboe."


async def test_support_falls_with_the_distance_and_is_more_for_what_comes_later() -> None:
    memory = remembering()
    await tell(memory, TALK)

    _, found = await episodes_found(memory, "instrument", by_words(spine=0.4, spine_floor=0.2))

    scores = {each.content: score for score, each in found[EPISODE_COLLECTION]}
    assert scores["Ann: An oboe."] == pytest.approx(0.4 * 0.8)
    assert scores["Ann: The train was late again."] == pytest.approx(0.3 * 0.8)
    assert scores["Bo: Splendid weather for a picnic."] == pytest.approx(0.2 * 0.8)
    assert scores["Ann: The bakery closes early."] == pytest.approx(0.1 * 0.8)


async def test_support_keeps_to_the_session_the_user_and_the_filter() -> None:
    memory = remembering()
    await tell(memory, TALK[:2], session="one")
    await tell(memory, [("Ann", "Nothing of this kind.")], session="two")
    await tell(memory, [("Eve", "A secret.")], session="one", user="eve")

    texts, _ = await episodes_found(memory, "instrument", by_words(spine=0.4))
    filtered, _ = await episodes_found(
        memory, "instrument", by_words(spine=0.4, filter_expr=ne("content", "Ann: The train was late again."))
    )

    assert texts == ["Bo: Which instrument is it that you practise?", "Ann: The train was late again."]
    assert filtered == ["Bo: Which instrument is it that you practise?"]


async def test_a_session_too_long_to_be_read_has_a_spine_around_its_hits() -> None:
    memory = remembering()
    week = 7 * 86_400
    turns = [
        Episode(
            user_id="ann",
            content=f"nr{number}",
            session_id="long",
            valid_since=START + 60 * number + (week if number >= 1_050 else 0),
            content_embedding=[1.0] + [0.0] * 63,
        )
        for number in range(2_100)
    ]
    await memory.db_backend.upsert(EPISODE_COLLECTION, turns)

    texts, _ = await episodes_found(memory, "nr1049 nr2050", by_words(spine=0.4, top_k=20))

    # What follows nr1049 was said a week later, and is not near enough to be read.
    assert set(texts) == {f"nr{number}" for number in (*range(1_046, 1_050), *range(2_047, 2_054))}


async def test_a_hit_below_the_floor_supports_nobody() -> None:
    memory = remembering()
    await tell(memory, TALK)

    texts, _ = await episodes_found(memory, "instrument", by_words(spine=0.4, spine_floor=1.0))

    assert texts == ["Bo: Which instrument is it that you practise?"]


async def test_stored_links_make_a_spine_where_there_is_no_session() -> None:
    memory = remembering()
    first, second, third = await tell(memory, [("", "A kiln."), ("", "Eleven bowls."), ("", "A shelf.")], session="")
    links = [
        Relation(user_id="ann", kind="temporal_next", ends="episode", name="then", lhs=one.uuid, rhs=other.uuid)
        for one, other in ((first, second), (second, third))
    ]
    await write(memory, links)

    texts, found = await episodes_found(memory, "kiln", by_words(spine=0.4))

    assert texts == ["A kiln.", "Eleven bowls.", "A shelf."]
    assert found.diagnostics.collections[EPISODE_COLLECTION].admissions == {"channels": 1, "spine": 2}


# --- who said it, and other signs that an episode carries -------------------------------------------------------------


async def test_what_the_person_asked_about_said_comes_first() -> None:
    memory = remembering()
    await tell(memory, [("Bo", "My ferret sleeps."), ("Ann", "My ferret sleeps.")])

    asked, _ = await episodes_found(memory, "What does Ann's ferret do?", by_words(speaker=0.4))
    both, _ = await episodes_found(memory, "Do Ann and Bo have a ferret?", by_words(speaker=0.4))
    _, found = await episodes_found(memory, "Do Ann and Bo have a ferret?", by_words(speaker=0.4))

    assert asked[0] == "Ann: My ferret sleeps."
    assert sorted(both) == ["Ann: My ferret sleeps.", "Bo: My ferret sleeps."]
    hits = found.diagnostics.collections[EPISODE_COLLECTION].hits.values()
    assert all("speaker" not in hit.signals for hit in hits)


async def test_who_speaks_in_everything_that_is_found_raises_nothing() -> None:
    memory = remembering()
    both = [
        Episode(user_id="ann", content=f"Ann: My ferret sleeps. Bo: {each}", speakers=["Ann", "Bo"])
        for each in ("Good.", "Still?")
    ]
    await write(memory, both)

    _, found = await episodes_found(memory, "What does Ann's ferret do?", by_words(speaker=0.4))

    hits = found.diagnostics.collections[EPISODE_COLLECTION].hits.values()
    assert [hit.signals for hit in hits] == [{}, {}]


async def test_default_raises_what_the_person_asked_about_said() -> None:
    memory = remembering()
    await tell(memory, [("Bo", "My ferret sleeps."), ("Ann", "My ferret sleeps.")] * 10)

    _, found = await episodes_found(memory, "What does Ann's ferret do?", "default")

    assert found.diagnostics.embedded == ("What does my ferret do?",)
    assert {each.speakers[0] for _, each in found[EPISODE_COLLECTION] if isinstance(each, Episode)} == {"Ann"}
    hits = found.diagnostics.collections[EPISODE_COLLECTION].hits.values()
    assert [hit.signals["speaker"] for hit in hits] == pytest.approx([0.2 * 2 / 41] * 3)


async def test_an_episode_that_asks_comes_after_one_that_tells() -> None:
    memory = remembering()
    await tell(memory, [("Bo", "Ferret ferret?"), ("Ann", "A ferret, of course, my dear friend.")])

    texts, _ = await episodes_found(memory, "ferret", by_words(questions=0.5))

    assert texts[0] == "Ann: A ferret, of course, my dear friend."


async def test_what_is_new_is_raised_and_what_lies_near_the_best_hit_too() -> None:
    memory = remembering()
    old = Episode(user_id="ann", content="A heron, long ago.", valid_since=START)
    new = Episode(user_id="ann", content="A heron, long after.", valid_since=now())
    near = Episode(user_id="ann", content="A heron heron heron.", valid_since=START + 3600)
    await write(memory, [old, new, near])

    by_age, _ = await episodes_found(memory, "heron", by_words(recency=1.0))
    _, around = await episodes_found(memory, "heron", by_words(closeness=0.5))

    assert by_age[0] == "A heron, long after."
    hits = around.diagnostics.collections[EPISODE_COLLECTION].hits
    assert hits[old.uuid].signals["closeness"] > 0.4
    assert hits[new.uuid].signals["closeness"] < 0.01


@pytest.mark.parametrize("output_fields", [None, ["name"]], ids=["all columns", "one column"])
async def test_a_fact_without_a_date_lies_where_it_was_last_told(output_fields: list[str] | None) -> None:
    memory = remembering()
    told: dict[str, Any] = {"lhs": "x", "rhs": "y", "created_at": START + 90 * 86_400}
    near = Relation(user_id="ann", content="heron near", last_mentioned_at=START, **told)
    far = Relation(user_id="ann", content="heron far", last_mentioned_at=START + 7 * 86_400, **told)
    await write(memory, [far, near])
    config = by_words(closeness=0.5, order="time", output_fields=output_fields)
    memory.register_search_strategy("near", search_relation=config)

    moment = datetime.fromtimestamp(START, UTC)
    found = await memory.search("heron", "ann", "near", entity=False, episode=False, as_of=moment)

    hits = found.diagnostics.collections[RELATION_COLLECTION].hits
    assert [each.uuid for _, each in found[RELATION_COLLECTION]] == [near.uuid, far.uuid]
    assert [hits[each.uuid].signals["closeness"] for each in (near, far)] == pytest.approx([0.5, 0.25])


async def test_what_is_new_is_new_at_the_moment_asked_about() -> None:
    memory = remembering()
    old, new = [
        Relation(user_id="ann", content="heron", lhs="x", rhs="y", last_mentioned_at=START + days * 86_400)
        for days in (0, 300)
    ]
    await write(memory, [old, new])
    memory.register_search_strategy("new", search_relation=by_words(recency=0.5))

    at_first: dict[str, Any] = {"as_of": datetime.fromtimestamp(START, UTC)}
    moments: list[dict[str, Any]] = [{}, at_first]
    found = [await memory.search("heron", "ann", "new", entity=False, episode=False, **each) for each in moments]

    assert [each[RELATION_COLLECTION][0][1].uuid for each in found] == [new.uuid, old.uuid]


async def test_what_was_mentioned_often_is_raised() -> None:
    memory = remembering()
    rare = Entity(user_id="ann", name="Heron", content="grey bird", mention_count=1)
    often = Entity(user_id="ann", name="Stork", content="white bird", mention_count=9)
    await write(memory, [rare, often])
    memory.register_search_strategy("often", search_entity=by_words(mentions=0.3))

    found = await memory.search("bird", "ann", "often", relation=False, episode=False)

    assert [each.uuid for _, each in found[ENTITY_COLLECTION]] == [often.uuid, rare.uuid]
    assert found.diagnostics.collections[ENTITY_COLLECTION].hits[often.uuid].signals == {"mentions": pytest.approx(0.3)}


async def test_results_can_be_put_in_the_order_of_time() -> None:
    memory = remembering()
    await tell(memory, [("", "The heron, first."), ("", "Heron heron heron."), ("", "One more heron, in the end.")])

    texts, _ = await episodes_found(memory, "heron", by_words(order="time"))

    assert texts == ["The heron, first.", "Heron heron heron.", "One more heron, in the end."]


# --- support, expansion, associations ---------------------------------------------------------------------------------


async def test_candidates_that_share_an_end_support_each_other() -> None:
    memory = remembering()
    facts = [
        Relation(user_id="ann", name="a", content="bird one", lhs="x", rhs="y"),
        Relation(user_id="ann", name="b", content="bird two", lhs="y", rhs="z"),
        Relation(user_id="ann", name="c", content="bird three", lhs="p", rhs="q"),
    ]
    await write(memory, facts)
    memory.register_search_strategy("support", search_relation=by_words(support=0.2))

    found = await memory.search("bird", "ann", "support", entity=False, episode=False)

    hits = found.diagnostics.collections[RELATION_COLLECTION].hits
    assert [hits[each.uuid].signals.get("support", 0.0) > 0 for each in facts] == [True, True, False]
    assert hits[facts[0].uuid].signals["support"] <= 0.2


async def test_support_among_entities_and_among_episodes_goes_along_what_links_them() -> None:
    memory = remembering()
    heron, crane, stork = (Entity(user_id="ann", name=name, content="a bird") for name in ("Heron", "Crane", "Stork"))
    told = [Episode(user_id="ann", content="bird news", entities=[heron.uuid]) for _ in range(2)]
    alone = Episode(user_id="ann", content="bird news", entities=[stork.uuid])
    fact = Relation(user_id="ann", name="likes", content="likes", lhs=heron.uuid, rhs=crane.uuid)
    await write(memory, [heron, crane, stork, *told, alone, fact])
    config = by_words(support=0.2, support_rounds=2)
    memory.register_search_strategy("support", search_entity=config, search_episode=config)

    found = await memory.search("bird", "ann", "support", relation=False)

    raised = {uuid for each in found.diagnostics.collections.values() for uuid, hit in each.hits.items() if hit.signals}
    assert raised == {heron.uuid, crane.uuid, *(each.uuid for each in told)}


async def two_hops() -> GraphMemory:
    """Return a memory that was told of where Ines works and, elsewhere, where that place is."""
    mind = taught()
    await mind.learn(
        "Ines audits loans for Tejo.",
        types={"Ines": "Human", "Tejo": "Entity"},
        said=[("Ines", "works for", "Tejo", "Ines audits loans for Tejo.")],
    )
    await mind.learn(
        "Its headquarters, Tejo's that is, stand in Lisbon.",
        types={"Tejo": "Entity", "Lisbon": "Entity"},
        said=[("Tejo", "stands in", "Lisbon", "The headquarters stand in Lisbon.")],
        same={"Tejo": ["Tejo"]},
    )
    for number in range(4):
        await mind.learn(
            f"Person{number} audits loans at Firm{number}.",
            types={f"Person{number}": "Human", f"Firm{number}": "Entity"},
            said=[(f"Person{number}", "works for", f"Firm{number}", f"Person{number} audits loans at Firm{number}.")],
        )
    return mind.memory


async def test_graph_answers_a_question_of_two_hops_that_default_does_not_and_tells_the_way() -> None:
    memory = await two_hops()
    question = "Ines audits loans: what town?"

    plain = await memory.search(question, "ann", entity=False, episode=False)
    found = await memory.search(question, "ann", "graph", entity=False, episode=False)

    answer = "The headquarters stand in Lisbon."
    assert answer not in [each.content for _, each in plain[RELATION_COLLECTION]]
    assert answer in [each.content for _, each in found[RELATION_COLLECTION]]
    assert "Ines -[works for]-> Tejo -[stands in]-> Lisbon" in map(str, found.paths)


async def test_a_long_way_is_told_from_the_hit_where_it_begins() -> None:
    memory = remembering()
    things = [Entity(user_id="ann", name=f"Nr{number}", content=f"Nr{number}") for number in range(13)]
    links = [Relation(user_id="ann", name="to", lhs=a.uuid, rhs=b.uuid) for a, b in pairwise(things)]
    await write(memory, [*things, *links])
    memory.register_search_strategy("far", search_entity=by_words(bfs_depth=12, top_k=20, kind_priors={"fact": 1.0}))

    found = await memory.search("Nr0", "ann", "far", relation=False, episode=False)

    assert " -[to]-> ".join(each.name for each in things) in map(str, found.paths)


async def test_expansion_keeps_a_quota_per_kind_and_starts_from_good_hits_only() -> None:
    memory = await two_hops()
    settings = {"bfs_depth": 1, "bfs_k": 5, "top_k": 20}
    memory.register_search_strategy("quota", search_relation=by_words(kind_quota=1, **settings))
    memory.register_search_strategy("floor", search_relation=by_words(seed_floor=2.0, **settings))
    memory.register_search_strategy("closed", search_relation=by_words(kind_priors={"causes": 0.9}, **settings))

    counts = {}
    for name in ("quota", "floor", "closed"):
        found = await memory.search("Tejo", "ann", name, entity=False, episode=False)
        counts[name] = found.diagnostics.collections[RELATION_COLLECTION].admissions.get("expansion", 0)

    assert counts == {"quota": 1, "floor": 0, "closed": 0}


@pytest.mark.parametrize("dense", [0.01, 0], ids=["beside words", "words alone"])
async def test_a_neighbour_that_is_unlike_the_query_does_not_pass_the_semantic_gate(dense: float) -> None:
    memory = remembering()
    near, far = "a heron at the pond", "zzzz qqqq xxxx"
    facts = [
        Relation(user_id="ann", name="seed", content="heron by the pond", lhs="x", rhs="y"),
        Relation(user_id="ann", name="near", content=near, lhs="y", rhs="z"),
        Relation(user_id="ann", name="far", content=far, lhs="y", rhs="w"),
    ]
    await write(memory, facts)
    settings = {
        "rank_config": MinMaxRankConfig(name_dense=0, content_dense=dense, content_sparse=1),
        "bfs_depth": 1,
        "seed_floor": 0.9,
    }
    memory.register_search_strategy("open", search_relation=by_words(**settings))
    memory.register_search_strategy("gated", search_relation=by_words(semantic_margin=0.5, **settings))

    raised = {}
    for name in ("open", "gated"):
        found = await memory.search("heron by the pond", "ann", name, entity=False, episode=False)
        hits = found.diagnostics.collections[RELATION_COLLECTION].hits
        raised[name] = {each.content for each in facts if each.uuid in hits and "expansion" in hits[each.uuid].signals}

    assert far in raised["open"]
    assert far not in raised["gated"]


async def test_links_between_facts_are_followed_to_facts() -> None:
    memory = remembering()
    rain = Relation(user_id="ann", name="a", content="It rained for weeks.", lhs="x", rhs="x")
    flood = Relation(user_id="ann", name="b", content="The cellar was under water.", lhs="y", rhs="y")
    link = Relation(user_id="ann", name="led to", kind="causes", ends="relation", lhs=rain.uuid, rhs=flood.uuid)
    await write(memory, [rain, flood, link])
    memory.register_search_strategy("links", search_relation=by_words(bfs_depth=1))

    found = await memory.search("rained", "ann", "links", entity=False, episode=False)

    scores = {each.content: score for score, each in found[RELATION_COLLECTION]}
    assert scores["The cellar was under water."] == pytest.approx(0.9 * scores["It rained for weeks."])
    assert [str(path) for path in found.paths] == ["It rained for weeks. -[led to]-> The cellar was under water."]


async def test_the_walk_finds_an_episode_that_only_the_graph_leads_to() -> None:
    pytest.importorskip("rustworkx")
    memory = await two_hops()
    config = by_words(pagerank=0.5, top_k=20)
    memory.register_search_strategy("walk", search_entity=config, search_relation=config, search_episode=config)

    found = await memory.search("For whom does Ines work?", "ann", "walk")

    texts = [each.content for _, each in found[EPISODE_COLLECTION]]
    assert "Its headquarters, Tejo's that is, stand in Lisbon." in texts
    written = [str(path) for path in found.paths if "Lisbon" in path.nodes[-1].label]
    assert any("Tejo" in path for path in written)


# --- faults and diagnostics -------------------------------------------------------------------------------------------


class NoScans(InMemoryGraphStore):
    """A store that reads rows by id only, so that whatever looks for neighbours fails."""

    async def query(self, collection: str, **options: Any) -> list[BaseGraphObject]:
        if options.get("ids") is None:
            raise StoreUnavailableError("The store reads by id only.")
        return await super().query(collection, **options)


async def test_a_fault_in_the_graph_part_leaves_the_order_of_the_channels_and_is_reported() -> None:
    GraphStoreFactory.register_backend("no-scans", NoScans, force=True)
    config = GraphConfig(uri=uuid4().hex, backend="no-scans", embed_dim=64)
    memory = fake_memory(config=config)
    await tell(memory, TALK)
    plain, _ = await episodes_found(memory, "Which instrument?", by_words())

    texts, found = await episodes_found(memory, "Which instrument?", by_words(spine=0.4))

    assert texts == plain
    assert "graph part failed" in found.diagnostics.problems[0]


async def test_diagnostics_tell_what_each_channel_found_and_what_the_graph_added() -> None:
    memory = remembering(FakeEmbedder(dimension=64))
    await tell(memory, TALK)

    _, found = await episodes_found(memory, "Which instrument?", by_words(rank_config=MinMaxRankConfig(), spine=0.4))

    diagnosed = found.diagnostics
    each = diagnosed.collections[EPISODE_COLLECTION]
    score, best = found[EPISODE_COLLECTION][0]
    hit = each.hits[best.uuid]
    assert each.found == {"content_dense": 5, "content_sparse": 1}
    assert hit.channels["content_sparse"].rank == 1
    assert hit.score == pytest.approx(score) == pytest.approx(hit.fused + sum(hit.signals.values()))
    assert diagnosed.strategy == "tried"
    assert {"query", "channels", "graph", "results"} <= set(diagnosed.milliseconds)
    assert diagnosed.problems == ()
