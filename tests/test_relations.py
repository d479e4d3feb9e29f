"""Facts: said again, said in other words, contradicted, about one thing alone, linked, and when they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest

from jiuwen_memory import (
    ENTITY_COLLECTION,
    RELATION_COLLECTION,
    EpisodeType,
    GraphConfig,
    GraphMemUpdate,
    GraphStoreFactory,
    Relation,
    SearchConfig,
)
from jiuwen_memory.foundation.store.graph import BaseGraphObject, GraphStore, Hit, StoreAround
from jiuwen_memory.foundation.store.query import eq
from jiuwen_memory.testing import FakePrompt
from tests.memory_support import ENGLISH, MAY, Fact, Taught, all_entities, all_relations, facts, problems, taught

WHO = {"Ida Lund": "Human", "Oslo": "Entity", "Bergen": "Entity", "Narvik": "Entity"}
OSLO = ("Ida Lund", "lives in", "Oslo", "Ida Lund lives in Oslo.")
BERGEN = ("Ida Lund", "lives in", "Bergen", "Ida Lund lives in Bergen.")
NARVIK = ("Ida Lund", "lives in", "Narvik", "Ida Lund lives in Narvik.")


async def say(mind: Taught, fact: Fact, **options: Any) -> GraphMemUpdate:
    """Add one fact about someone the memory knows to be the same person."""
    same = {name: [name] for name in WHO}
    types = {name: WHO[name] for name in (fact[0], fact[2])}
    words = " ".join(filter(None, (options.get("since"), options.get("until"))))
    return await mind.learn(
        options.pop("text", f"{fact[3]} {words}".strip()), types=types, said=[fact], same=same, **options
    )


def seconds(year: int, month: int = 1, day: int = 1) -> int:
    return int(MAY.replace(year=year, month=month, day=day, hour=0, minute=0).timestamp())


async def test_a_fact_said_again_is_counted_and_keeps_both_sources() -> None:
    mind = taught()
    await say(mind, OSLO, source="a.txt", reference_time=MAY)

    update = await say(mind, OSLO, text="Ida Lund lives in  OSLO.", source="b.txt", reference_time=MAY.replace(day=9))

    (fact,) = (await all_relations(mind.memory)).values()
    assert (update.added_relation, [each.uuid for each in update.updated_relation]) == ([], [fact.uuid])
    assert (fact.mention_count, len(fact.episodes), fact.sources) == (2, 2, ["a.txt", "b.txt"])
    assert fact.last_mentioned_at == int(MAY.replace(day=9).timestamp())
    assert mind.llm.asked("RelationVerdicts") == []
    assert await problems(mind.memory) == []


async def test_case_and_spacing_do_not_make_a_fact_new() -> None:
    mind = taught()
    await say(mind, OSLO)

    await say(mind, (*OSLO[:3], "ida lund  lives in OSLO."))

    assert len(await all_relations(mind.memory)) == 1


async def test_a_repeat_fills_in_a_time_that_was_not_known() -> None:
    mind = taught()
    await say(mind, OSLO)

    await say(mind, OSLO, since="2019")

    (fact,) = (await all_relations(mind.memory)).values()
    assert (fact.valid_since, fact.precision_since) == (seconds(2019), "year")


async def test_a_fact_in_other_words_that_the_model_calls_the_same_is_one_more_mention() -> None:
    mind = taught()
    await say(mind, OSLO)
    other = ("Ida Lund", "resides in", "Oslo", "Oslo is where Ida Lund resides.")

    await say(mind, other, repeats={other[3]: [OSLO[3]]})

    (fact,) = (await all_relations(mind.memory)).values()
    assert (fact.content, fact.mention_count) == (OSLO[3], 2)


async def test_the_same_verdict_between_other_ends_is_not_believed() -> None:
    mind = taught()
    await say(mind, OSLO)

    await say(mind, BERGEN, repeats={BERGEN[3]: [OSLO[3]]})

    assert set(await all_relations(mind.memory)) == {OSLO[3], BERGEN[3]}


async def test_a_contradicted_fact_stays_and_names_what_replaced_it() -> None:
    mind = taught()
    await say(mind, OSLO, since="2019")

    await say(mind, BERGEN, since="2024", contradicts={BERGEN[3]: [OSLO[3]]})

    found = await all_relations(mind.memory)
    old, new = found[OSLO[3]], found[BERGEN[3]]
    assert old.superseded_by == [new.uuid]
    assert old.valid_until == new.valid_since == seconds(2024)
    assert old.stated_until is None
    assert old.expired_at == new.created_at
    assert (new.superseded_by, new.valid_until) == ([], None)


async def test_an_older_fact_learnt_later_is_replaced_by_the_stored_newer_one() -> None:
    mind = taught()
    await say(mind, BERGEN, since="2024")

    await say(mind, OSLO, since="2019", contradicts={OSLO[3]: [BERGEN[3]]})

    found = await all_relations(mind.memory)
    assert found[OSLO[3]].superseded_by == [found[BERGEN[3]].uuid]
    assert found[OSLO[3]].valid_until == seconds(2024)
    assert found[BERGEN[3]].superseded_by == []


async def test_a_fact_older_than_two_stored_ones_names_both_and_ends_with_the_first_of_them() -> None:
    mind = taught()
    await say(mind, NARVIK, since="2024")
    await say(mind, BERGEN, since="2021")

    await say(mind, OSLO, since="2019", contradicts={OSLO[3]: [NARVIK[3], BERGEN[3]]})

    found = await all_relations(mind.memory)
    assert set(found[OSLO[3]].superseded_by) == {found[BERGEN[3]].uuid, found[NARVIK[3]].uuid}
    assert found[OSLO[3]].valid_until == seconds(2021)


async def test_a_later_contradiction_does_not_move_the_end_of_a_fact_that_has_ended_before() -> None:
    mind = taught()
    await say(mind, OSLO, since="2019")
    await say(mind, BERGEN, since="2021", contradicts={BERGEN[3]: [OSLO[3]]})

    await say(mind, NARVIK, since="2024", contradicts={NARVIK[3]: [OSLO[3], BERGEN[3]]})

    found = await all_relations(mind.memory)
    assert found[OSLO[3]].valid_until == seconds(2021)
    assert found[BERGEN[3]].valid_until == seconds(2024)


async def test_an_end_that_was_stated_is_kept_when_the_replacement_begins_later() -> None:
    mind = taught()
    await say(mind, OSLO, until="March 2020")

    await say(mind, BERGEN, since="2024", contradicts={BERGEN[3]: [OSLO[3]]})

    old = (await all_relations(mind.memory))[OSLO[3]]
    assert old.valid_until == old.stated_until == seconds(2020, 4) - 1
    assert old.precision_until == "month"


async def test_a_contradiction_that_nothing_supports_leaves_both_facts_and_a_warning() -> None:
    mind = taught()
    await say(mind, ("Ida Lund", "plays", "Oslo", "Ida Lund plays the oboe at the opera."))

    update = await say(
        mind,
        ("Ida Lund", "visits", "Bergen", "Ida Lund visits a friend."),
        contradicts={"Ida Lund visits": ["Ida Lund plays"]},
    )

    found = await all_relations(mind.memory)
    assert all(not each.superseded_by for each in found.values())
    assert any("nothing shows a change" in warning for warning in update.warnings)


async def test_only_facts_that_share_an_end_are_candidates() -> None:
    mind = taught()
    await mind.learn(
        "Per Dahl lives in Molde.",
        types={"Per Dahl": "Human", "Molde": "Entity"},
        said=[("Per Dahl", "lives in", "Molde", "Per Dahl lives in Molde.")],
    )

    await say(mind, OSLO)

    assert mind.llm.asked("RelationVerdicts") == []


async def test_all_facts_are_judged_in_one_call() -> None:
    mind = taught()
    await say(mind, OSLO)

    await mind.learn(
        "Ida Lund.",
        types=WHO,
        said=[BERGEN, NARVIK],
        same={name: [name] for name in WHO},
    )

    assert len(mind.llm.asked("RelationVerdicts")) == 1


async def test_top_k_bounds_the_candidates_of_a_fact() -> None:
    recall = ENGLISH.recall_relation.model_copy(update={"top_k": 1})
    mind = taught(strategy=ENGLISH.model_copy(update={"recall_relation": recall}))
    await say(mind, OSLO)
    await say(mind, BERGEN)
    mind.llm.prompts.clear()

    await say(mind, NARVIK)

    (prompt,) = mind.llm.asked("RelationVerdicts")
    assert sum(OSLO[3] in text or BERGEN[3] in text for text in prompt.lines().values()) == 1


async def test_a_fact_about_one_thing_alone_is_kept_and_found() -> None:
    mind = taught()

    update = await mind.learn(
        "Ida Lund is deaf.",
        types={"Ida Lund": "Human"},
        said=[("Ida Lund", "is", "Ida Lund", "Ida Lund is deaf.")],
    )

    (fact,) = update.added_relation
    found = await mind.memory.search("Who is deaf?", "ann", entity=False, episode=False)
    assert (fact.obj_type, fact.lhs) == ("EntityFact", fact.rhs)
    assert [each.uuid for _, each in found["RELATION_COLLECTION"]] == [fact.uuid]
    assert (await all_entities(mind.memory))["Ida Lund"].relations == [fact.uuid]


async def test_a_link_between_facts_is_stored_and_found_only_when_asked_for() -> None:
    mind = taught()
    await say(mind, OSLO)

    def linked(prompt: FakePrompt) -> Any:
        new, old = prompt.number(BERGEN[3]), prompt.number(OSLO[3])
        return {"verdicts": [{"id": new, "same": [], "contradicts": [], "links": [{"id": old, "kind": "elaborates"}]}]}

    mind.llm.replies["RelationVerdicts"] = linked
    mind.llm.replies["RelationExtraction"] = facts(BERGEN)
    mind.llm.replies["EntityExtraction"] = {"entities": [{"name": name, "type": WHO[name]} for name in WHO]}

    await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", BERGEN[3])

    mind.memory.register_search_strategy("links", search_relation=SearchConfig(filter_expr=eq("kind", "elaborates")))
    stated = await all_relations(mind.memory)
    (link,) = (await all_relations(mind.memory, kind="elaborates")).values()
    found = await mind.memory.search("Ida Lund lives", "ann", entity=False, episode=False)
    links = await mind.memory.search("Ida Lund lives", "ann", "links", entity=False, episode=False)
    assert (link.lhs, link.rhs) == (stated[BERGEN[3]].uuid, stated[OSLO[3]].uuid)
    assert (link.ends, link.obj_type) == ("relation", "Link")
    assert {each.uuid for _, each in found["RELATION_COLLECTION"]} == {each.uuid for each in stated.values()}
    assert [each.uuid for _, each in links["RELATION_COLLECTION"]] == [link.uuid]


@pytest.mark.parametrize(
    ("words", "expected", "precision"),
    [
        ("last Friday", seconds(2026, 5, 1), "day"),
        ("上周五", seconds(2026, 5, 1), "day"),
        ("two weeks ago", seconds(2026, 4, 24), "week"),
        ("2021", seconds(2021), "year"),
        ("soon, I hope", None, None),
    ],
)
async def test_time_words_count_from_the_reference_time(
    words: str, expected: int | None, precision: str | None
) -> None:
    mind = taught()

    update = await say(mind, OSLO, text=f"Since {words} Ida Lund lives in Oslo.", since=words, reference_time=MAY)

    (fact,) = update.added_relation
    assert (fact.valid_since, fact.precision_since) == (expected, precision)


async def test_time_words_are_read_in_the_zone_the_text_is_spoken_in() -> None:
    mind = taught()
    mind.llm.replies["TimezonePredictions"] = {"place": "Kathmandu", "timezone": "Asia/Kathmandu"}

    update = await say(mind, OSLO, since="yesterday", reference_time=MAY)

    (fact,) = update.added_relation
    assert (fact.valid_since, fact.offset_since) == (seconds(2026, 5, 7) - 345 * 60, 345)


async def test_a_date_that_only_echoes_the_reference_time_is_not_a_time_of_the_fact() -> None:
    mind = taught()

    echoed = await say(mind, OSLO, text=OSLO[3], since="2026-05-08T09:30:00Z", reference_time=MAY)
    spoken = await say(mind, BERGEN, text="Ida Lund lives in Bergen now.", since="2026-05-08", reference_time=MAY)

    assert echoed.added_relation[0].valid_since is None
    assert spoken.added_relation[0].valid_since == seconds(2026, 5, 8)


async def test_a_period_that_ends_before_it_begins_is_no_period() -> None:
    mind = taught()

    update = await say(mind, OSLO, since="2024", until="2019")

    (fact,) = update.added_relation
    assert (fact.valid_since, fact.valid_until) == (None, None)


async def test_a_crowded_pair_gets_a_search_of_its_own_and_its_vector_is_used_again() -> None:
    mind = taught()
    pair = ("Ida Lund", "Oslo")
    many = [(*pair, f"Ida Lund painted house {number} in Oslo.") for number in range(25)]
    await mind.learn("Ida Lund painted Oslo.", types=WHO, said=[(lhs, "painted", rhs, text) for lhs, rhs, text in many])
    mind.embedder.texts.clear()

    await say(mind, (*OSLO[:2], OSLO[2], "Ida Lund painted house 26 in Oslo."), text="Again in Oslo.")

    (prompt,) = mind.llm.asked("RelationVerdicts")
    assert len([text for text in prompt.lines().values() if "painted house" in text]) == 1 + 3
    assert mind.embedder.texts.count("Ida Lund painted house 26 in Oslo.") == 1


async def test_a_year_that_the_text_gives_to_another_month_is_not_this_ones() -> None:
    mind = taught()
    fact = ("Callum", "resigned from", "Trust", "Callum resigned from the Trust.")
    text = (
        "Callum resigned from the Trust last November, and that was that. A school came to see the tower in May 2023."
    )

    await mind.learn(text, types={"Callum": "Human", "Trust": "Entity"}, said=[fact], since="November 2023")

    assert (await all_relations(mind.memory))[fact[3]].valid_since is None


class WithoutSearch(StoreAround):
    """A store whose searches find nothing, and which counts how often the facts are looked through."""

    inner = "memory"

    def __init__(self, store: GraphStore) -> None:
        super().__init__(store)
        self.scans = 0

    async def search(self, collection: str, queries: Sequence[Any], **options: Any) -> list[list[Hit]]:
        return [[] for _ in queries]

    async def query(self, collection: str, **options: Any) -> list[BaseGraphObject]:
        self.scans += collection == RELATION_COLLECTION and options.get("ids") is None
        return await super().query(collection, **options)


async def said_again_among(others: int, *, at_a_hub: bool = False) -> WithoutSearch:
    """Say a fact again whose ends have that many others, all stored before it; return the store.

    At a hub the ends list their facts, and these have all the same name.
    """
    GraphStoreFactory.register_backend("without search", WithoutSearch, force=True)
    mind = taught(config=GraphConfig(uri=uuid4().hex, backend="without search", embed_dim=64), strategy=ENGLISH)
    store = mind.memory.db_backend
    assert isinstance(store, WithoutSearch)
    await mind.learn("Ida Lund in Oslo.", types={"Ida Lund": "Human", "Oslo": "Entity"})
    known = await all_entities(mind.memory)
    ends = {name: each.uuid for name, each in known.items()}
    texts = [*(f"Ida Lund saw sight {number} of Oslo." for number in range(others)), OSLO[3]]
    vectors = await mind.embedder.embed_documents(texts)
    stored = [
        Relation(
            user_id="ann",
            name="lives in" if text == OSLO[3] or at_a_hub else "saw",
            content=text,
            lhs=ends["Ida Lund"],
            rhs=ends["Oslo"],
            content_embedding=vector,
        )
        for text, vector in zip(texts, vectors, strict=True)
    ]
    await store.upsert(RELATION_COLLECTION, stored)
    listed = [each.uuid for each in stored] if at_a_hub else []
    lists = {"relations": listed, "content_embedding": vectors[0], "name_embedding": vectors[0]}
    await store.upsert(ENTITY_COLLECTION, [each.revise(**lists) for each in known.values()])
    store.scans = 0

    update = await say(mind, OSLO)

    assert [each.uuid for each in update.updated_relation] == [stored[-1].uuid]
    assert not update.added_relation
    return store


async def test_what_a_new_fact_may_repeat_is_read_by_looking_through_the_facts_once() -> None:
    # The other time is for facts that were replaced, and come back.
    assert (await said_again_among(10)).scans == 2


async def test_a_repeat_is_seen_where_more_facts_lie_beside_it_than_are_read() -> None:
    store = await said_again_among(210)

    # Nobody can know that they are so many: the first look is in vain.
    assert store.scans == 4


async def test_at_a_hub_no_look_is_in_vain() -> None:
    assert (await said_again_among(210, at_a_hub=True)).scans == 3
