"""Counts and sources of facts, facts as triples, and what happened in time order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    Entity,
    Episode,
    GraphConfig,
    Relation,
    RRFRankConfig,
    SearchConfig,
)
from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.store.query import eq, ne
from jiuwen_memory.foundation.timepoint import Timepoint
from jiuwen_memory.memory_core.graph.graph_memory.evidence import Event, is_close_name
from jiuwen_memory.memory_core.graph.graph_memory.triples import Triples
from tests.memory_support import Taught, all_relations, taught

PEOPLE = {"Mara": "Human", "PostgreSQL": "Entity"}
TOOLS = {"Mara": "Human", "Python": "Entity", "FastAPI": "Entity"}
FAVOURITE = "Mara's favourite database is PostgreSQL."
YEARS = "Mara has written Python for about eight years."
EVERYTHING = SearchConfig(top_k=20, min_score=0.0)


def day(number: int) -> datetime:
    return datetime(2026, 5, number, 12, 0, tzinfo=UTC)


@pytest.fixture(params=["memory", "lite"])
async def mind(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Taught]:
    """A mind on either backend."""
    lite = GraphConfig(uri=str(tmp_path / "graph.db"), embed_dim=64)
    made = taught(config=lite) if request.param == "lite" else taught()
    made.memory.register_search_strategy("all", EVERYTHING, EVERYTHING, EVERYTHING)
    yield made
    await made.memory.close()


async def learn_tools(mind: Taught) -> None:
    """Four talks: with a support bot on the first two days, with a coding assistant on the last two."""
    await mind.learn(
        "My favourite database is PostgreSQL.",
        types=PEOPLE,
        said=[("Mara", "favourite database", "PostgreSQL", FAVOURITE)],
        reference_time=day(1),
        source="support",
        session_id="s1",
    )
    again = "Mara prefers PostgreSQL whenever she needs a database."
    await mind.learn(
        "Whenever I need a database I prefer PostgreSQL.",
        types=PEOPLE,
        said=[("Mara", "prefers", "PostgreSQL", again)],
        repeats={again: [FAVOURITE]},
        reference_time=day(2),
        source="coder",
        session_id="s2",
    )
    await mind.learn(
        "I have written Python for about eight years.",
        types={"Mara": "Human", "Python": "Entity"},
        said=[("Mara", "experience", "Python", YEARS)],
        same={"Mara": ["Mara"]},
        reference_time=day(3),
        source="coder",
        session_id="s2",
    )
    await mind.learn(
        "My services are FastAPI on Python.",
        types=TOOLS,
        said=[
            ("Mara", "uses", "FastAPI", "Mara builds her services with FastAPI."),
            ("FastAPI", "used with", "Python", "Mara uses FastAPI together with Python."),
        ],
        same={"Mara": ["Mara"]},
        reference_time=day(4),
        source="coder",
        session_id="s3",
    )


def short(triples: Triples) -> list[tuple[str, str, str, int]]:
    return [(each.subject, each.predicate, each.object, each.mention_count) for each in triples]


async def test_a_fact_that_is_said_twice_is_one_triple_with_two_mentions(mind: Taught) -> None:
    await learn_tools(mind)

    (fact,) = await mind.memory.triples("ann", object="PostgreSQL")

    assert (fact.subject, fact.predicate, fact.mention_count) == ("Mara", "favourite database", 2)
    assert (fact.first_mentioned, fact.last_mentioned) == (day(1), day(2))
    assert set(fact.sources) == {"support", "coder"}
    assert len(set(fact.episodes)) == 2


async def test_triples_come_in_the_order_asked_for_and_no_more_than_asked_for(mind: Taught) -> None:
    await learn_tools(mind)

    async def order(**options: Any) -> list[str]:
        return [each.predicate for each in await mind.memory.triples("ann", **options)]

    assert await order(order_by="mentions", limit=1) == ["favourite database"]
    assert (await order(order_by="mentions"))[3] == "experience"
    assert (await order())[2:] == ["experience", "favourite database"]
    assert (await order(order_by="first_mentioned"))[:2] == ["favourite database", "experience"]
    assert await order(limit=0) == []


async def test_triples_are_those_of_a_source_while_the_graph_is_shared(mind: Taught) -> None:
    await learn_tools(mind)

    support = await mind.memory.triples("ann", source="support")
    coder = await mind.memory.triples("ann", subject="Mara", source="coder", order_by="mentions")

    assert short(support) == [("Mara", "favourite database", "PostgreSQL", 2)]
    assert {each.predicate for each in coder} == {"favourite database", "experience", "uses"}
    assert await mind.memory.triples("ann", source="nobody") == []


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"subject": "mara"}, {"favourite database", "experience", "uses"}),
        ({"subject": "Mara", "object": "FASTAPI"}, {"uses"}),
        ({"predicate": "Used  With"}, {"used with"}),
        ({"subject": "FastAPI", "predicate": "uses"}, set()),
        ({"object": "Postgre"}, set()),
        ({"subject": "nobody"}, set()),
    ],
    ids=["subject", "both ends", "predicate", "the wrong way round", "part of a name", "nobody"],
)
async def test_names_match_whatever_their_case_and_spacing(asked: dict[str, str], expected: set[str]) -> None:
    mind = taught()
    await learn_tools(mind)

    found = await mind.memory.triples("ann", **asked)  # type: ignore[arg-type]

    assert {each.predicate for each in found} == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"object": "Postgres SQL"}, {"favourite database"}),
        ({"object": "FastApy"}, {"uses"}),
        ({"predicate": "favorite_database"}, {"favourite database"}),
        ({"object": "PostgreSQL server"}, {"favourite database"}),
        ({"object": "volcano"}, set()),
    ],
    ids=str,
)
async def test_fuzzy_names_need_not_be_exact(asked: dict[str, str], expected: set[str], mind: Taught) -> None:
    await learn_tools(mind)

    exact = await mind.memory.triples("ann", **asked)  # type: ignore[arg-type]
    fuzzy = await mind.memory.triples("ann", **asked, fuzzy=True)  # type: ignore[arg-type]

    assert exact == []
    assert {each.predicate for each in fuzzy} == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("Bo Berg", "Berg", True),
        ("Bo Berg", "Li Wu", False),
        ("the bank", "the lake", False),
        ("Bo", "Bob", False),
        ("张三", "张三丰", True),
        ("张三", "李四", False),
        ("北京大学", "大学", True),
        ("?", "!", False),
    ],
)
def test_close_names_share_words_or_letters(first: str, second: str, expected: bool) -> None:
    assert is_close_name(first, second) is expected
    assert is_close_name(second, first) is expected


async def test_an_alias_is_a_name_too(mind: Taught) -> None:
    moss = {"Elizabeth Moss": "Human", "Oak Street": "Entity"}
    await mind.learn(
        "Elizabeth Moss lives in Oak Street.",
        types=moss,
        said=[("Elizabeth Moss", "lives in", "Oak Street", "Elizabeth Moss lives in Oak Street.")],
    )
    await mind.learn("Betty called.", types={"Betty": "Human"}, same={"Betty": ["Elizabeth Moss"]})

    (fact,) = await mind.memory.triples("ann", subject="BETTY")

    assert fact.subject == "Elizabeth Moss"


async def test_a_fact_about_one_thing_has_it_at_both_ends(mind: Taught) -> None:
    await mind.learn(
        "Mara cannot eat nuts.", types={"Mara": "Human"}, said=[("Mara", "allergy", "Mara", "Mara cannot eat nuts.")]
    )

    (fact,) = await mind.memory.triples("ann", subject="Mara")

    assert (fact.subject, fact.object, fact.subject_id) == ("Mara", "Mara", fact.object_id)


async def test_the_sentence_of_a_triple_is_what_is_embedded() -> None:
    mind = taught()
    await learn_tools(mind)

    (fact,) = await mind.memory.triples("ann", predicate="experience")
    (stored,) = await mind.memory.db_backend.query(
        RELATION_COLLECTION, user=eq("user_id", "ann"), ids=[fact.relation], output_fields=["content_embedding"]
    )

    assert fact.sentence == YEARS
    (expected,) = await mind.embedder.embed_documents([fact.sentence])
    assert stored.content_embedding == pytest.approx(expected)


async def test_triples_are_values(mind: Taught) -> None:
    await learn_tools(mind)

    (fact,) = await mind.memory.triples("ann", predicate="uses")

    with pytest.raises(FrozenInstanceError):
        fact.subject = "Bo"  # type: ignore[misc]
    assert fact == (await mind.memory.triples("ann", predicate="uses"))[0]
    (entity,) = await mind.memory.get(ENTITY_COLLECTION, [fact.object_id], "ann")
    assert isinstance(entity, Entity)
    assert entity.name == "FastAPI"


async def learn_a_move(mind: Taught) -> None:
    home = "Mara lives in Lyon."
    new_home = "Mara lives in Porto now."
    await mind.learn(
        "Mara has lived in Lyon since March 2021.",
        types={"Mara": "Human", "Lyon": "Entity"},
        said=[("Mara", "lives in", "Lyon", home)],
        since="March 2021",
        reference_time=day(1),
    )
    await mind.learn(
        "Mara moved to Porto in April 2025.",
        types={"Mara": "Human", "Porto": "Entity"},
        said=[("Mara", "lives in", "Porto", new_home)],
        since="April 2025",
        same={"Mara": ["Mara"]},
        contradicts={new_home: [home]},
        reference_time=day(2),
    )


async def test_as_of_tells_what_held_before_and_after_a_change(mind: Taught) -> None:
    await learn_a_move(mind)

    async def homes(moment: datetime | None) -> list[str]:
        return [each.object for each in await mind.memory.triples("ann", predicate="lives in", as_of=moment)]

    assert await homes(datetime(2020, 1, 1)) == []
    assert await homes(datetime(2021, 3, 1)) == ["Lyon"]
    assert await homes(datetime(2024, 6, 1, tzinfo=timezone(timedelta(hours=8)))) == ["Lyon"]
    assert await homes(datetime(2025, 6, 1, tzinfo=UTC)) == ["Porto"]
    assert await homes(None) == ["Porto", "Lyon"]


async def test_a_triple_says_when_it_holds_and_whether_it_does_now(mind: Taught) -> None:
    await learn_a_move(mind)

    porto, lyon = await mind.memory.triples("ann", order_by="last_mentioned")

    assert (lyon.valid_since, lyon.is_current) == (Timepoint(1_614_556_800, 0, "month"), False)
    assert lyon.valid_until == porto.valid_since == Timepoint(1_743_465_600, 0, "month")
    assert (porto.valid_until, porto.is_current) == (None, True)


async def test_a_user_sees_no_facts_or_events_of_another(mind: Taught) -> None:
    await learn_tools(mind)

    assert await mind.memory.triples("bob") == []
    assert await mind.memory.triples("bob", subject="Mara", fuzzy=True) == []
    assert await mind.memory.timeline("bob") == []
    found = await mind.memory.search("database", "bob", "all", source="coder")
    assert not any(found.values())
    found = await mind.memory.search("database", "bob", "all", session_id="s2")
    assert not any(found.values())


async def test_a_frame_has_a_row_per_triple_and_times_of_any_year() -> None:
    mind = taught()
    await learn_a_move(mind)
    await mind.learn(
        "Anton was born in Leipzig in 1523.",
        types={"Anton": "Human", "Leipzig": "Entity"},
        said=[("Anton", "born in", "Leipzig", "Anton was born in Leipzig.")],
        since="1523",
        reference_time=day(3),
    )

    frame = (await mind.memory.triples("ann", order_by="valid_since")).to_frame()

    assert list(frame["object"]) == ["Leipzig", "Lyon", "Porto"]
    assert [str(each) for each in frame["valid_since"]] == [
        "1523-01-01 00:00:00+00:00",
        "2021-03-01 00:00:00+00:00",
        "2025-04-01 00:00:00+00:00",
    ]
    assert list(frame["precision_since"]) == ["year", "month", "month"]
    assert list(frame["valid_until"].isna()) == [True, False, True]
    assert frame.sort_values("last_mentioned")["object"].iloc[-1] == "Leipzig"


async def test_a_frame_of_nothing_has_the_same_columns() -> None:
    mind = taught()
    await learn_a_move(mind)

    full, empty = (await mind.memory.triples("ann")).to_frame(), Triples().to_frame()

    assert list(empty.columns) == list(full.columns)
    assert empty.dtypes["valid_since"] == full.dtypes["valid_since"]
    assert len(empty) == 0


def test_a_missing_pandas_is_named_with_the_extra_that_brings_it() -> None:
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "from jiuwen_memory.errors import MissingExtraError\n"
        "from jiuwen_memory.memory_core.graph.graph_memory.triples import Triples\n"
        "try: Triples().to_frame()\n"
        "except MissingExtraError as error: print(error.message)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert 'pip install "jiuwen-graph-memory[pandas]"' in done.stdout


def lines(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(event.time.format("en"), event.kind, event.text) for event in events]


async def test_a_timeline_lists_episodes_and_what_begins_and_ends_in_order(mind: Taught) -> None:
    await learn_a_move(mind)

    events = await mind.memory.timeline("ann")

    assert [(event.kind, event.text) for event in events] == [
        ("begins", "Mara lives in Lyon."),
        ("ends", "Mara lives in Lyon."),
        ("begins", "Mara lives in Porto now."),
        ("episode", "Mara has lived in Lyon since March 2021."),
        ("episode", "Mara moved to Porto in April 2025."),
    ]
    assert [event.time.precision for event in events] == ["month", "month", "month", "second", "second"]
    assert lines(events)[0][0] == Timepoint(1_614_556_800, 0, "month").format("en")


async def test_a_timeline_holds_both_its_bounds_and_leaves_out_unknown_times(mind: Taught) -> None:
    await learn_tools(mind)
    await learn_a_move(mind)

    async def kinds(since: datetime | None, until: datetime | None) -> list[str]:
        return [event.kind for event in await mind.memory.timeline("ann", since=since, until=until)]

    month = datetime(2021, 3, 1)
    assert await kinds(month, month) == ["begins"]
    assert await kinds(month + timedelta(seconds=1), datetime(2025, 3, 31)) == []
    assert await kinds(None, month) == ["begins"]
    assert await kinds(day(3), day(4)) == ["episode", "episode"]
    assert await kinds(day(4), None) == ["episode"]
    assert (await kinds(None, None)).count("begins") == 2


async def test_a_timeline_is_that_of_a_session_or_a_source(mind: Taught) -> None:
    await learn_tools(mind)
    await mind.learn(
        "Since 2024 Mara leads Basalt.",
        types={"Mara": "Human", "Basalt": "Entity"},
        said=[("Mara", "leads", "Basalt", "Mara leads Basalt.")],
        since="2024",
        same={"Mara": ["Mara"]},
        reference_time=day(5),
        source="coder",
        session_id="s3",
    )

    s3 = await mind.memory.timeline("ann", session_id="s3")
    support = await mind.memory.timeline("ann", source="support")
    neither = await mind.memory.timeline("ann", source="support", session_id="s3")

    assert [event.text for event in s3] == [
        "Mara leads Basalt.",
        "My services are FastAPI on Python.",
        "Since 2024 Mara leads Basalt.",
    ]
    assert [event.text for event in support] == ["My favourite database is PostgreSQL."]
    assert neither == []
    assert (s3[1].session_id, s3[1].sources, s3[1].episodes) == ("s3", ("coder",), (s3[1].uuid,))
    assert s3[0].episodes == (s3[2].uuid,)


async def test_a_timeline_in_chinese(mind: Taught) -> None:
    await mind.learn(
        "李娜从2021年3月到2023年在华为工作。",
        types={"李娜": "Human", "华为": "Entity"},
        said=[("李娜", "工作于", "华为", "李娜在华为工作。")],
        since="2021年3月",
        until="2023年",
        reference_time=day(1),
    )

    events = await mind.memory.timeline("ann", until=datetime(2024, 1, 1))
    (fact,) = await mind.memory.triples("ann", subject="李娜", object=" 华为 ", as_of=datetime(2023, 12, 31))

    assert [(event.time.format("cn"), event.kind) for event in events] == [("2021年3月", "begins"), ("2023年", "ends")]
    assert (fact.predicate, fact.sentence) == ("工作于", "李娜在华为工作。")


def found_texts(result: dict[str, Any]) -> dict[str, set[str]]:
    return {
        name: {getattr(each, "name", "") if name == ENTITY_COLLECTION else each.content for _, each in pairs}
        for name, pairs in result.items()
    }


async def test_a_search_finds_what_was_learnt_from_a_source(mind: Taught) -> None:
    await learn_tools(mind)

    found = found_texts(await mind.memory.search("database", "ann", "all", source="support"))

    assert found == {
        ENTITY_COLLECTION: {"Mara", "PostgreSQL"},
        RELATION_COLLECTION: {FAVOURITE},
        EPISODE_COLLECTION: {"My favourite database is PostgreSQL."},
    }
    nothing = await mind.memory.search("database", "ann", "all", source="nobody")
    assert nothing == {ENTITY_COLLECTION: [], RELATION_COLLECTION: [], EPISODE_COLLECTION: []}


async def test_a_search_finds_what_was_learnt_in_a_session(mind: Taught) -> None:
    await learn_tools(mind)

    found = found_texts(await mind.memory.search("database", "ann", "all", session_id="s2"))
    narrowed = await mind.memory.search("database", "ann", "all", session_id="s2", source="support")

    assert found[ENTITY_COLLECTION] == {"Mara", "PostgreSQL", "Python"}
    assert found[RELATION_COLLECTION] == {FAVOURITE, YEARS}
    assert len(found[EPISODE_COLLECTION]) == 2
    assert not any(narrowed.values())


async def test_a_source_joins_the_filter_of_a_strategy_and_holds_for_neighbours() -> None:
    mind = taught()
    await learn_tools(mind)
    words = RRFRankConfig(name_dense=False, content_dense=False)
    plain = SearchConfig(top_k=9, min_score=0.0, rank_config=words, bfs_depth=2, bfs_k=9)
    filtered = plain.model_copy(update={"filter_expr": ne("name", "favourite database")})
    mind.memory.register_search_strategy("plain", plain, plain, plain)
    mind.memory.register_search_strategy("filtered", filtered, filtered, plain)

    async def found(words: str, strategy: str, source: str | None) -> dict[str, set[str]]:
        return found_texts(await mind.memory.search(words, "ann", strategy, source=source))

    for strategy in ("plain", "filtered"):
        support = await found("PostgreSQL", strategy, "support")
        everyone = await found("PostgreSQL", strategy, None)
        assert support[ENTITY_COLLECTION] == {"Mara", "PostgreSQL"}
        assert everyone[ENTITY_COLLECTION] > support[ENTITY_COLLECTION]
    assert (await found("PostgreSQL", "plain", "support"))[RELATION_COLLECTION] == {FAVOURITE}
    assert (await found("PostgreSQL", "filtered", "support"))[RELATION_COLLECTION] == set()
    assert FAVOURITE not in (await found("FastAPI", "filtered", "coder"))[RELATION_COLLECTION]


async def test_objects_are_those_of_a_source_or_a_session(mind: Taught) -> None:
    await learn_tools(mind)
    memory = mind.memory

    entities = [each async for each in memory.objects(ENTITY_COLLECTION, "ann", source="support")]
    facts = [each async for each in memory.objects(RELATION_COLLECTION, "ann", session_id="s3")]
    episodes = [each async for each in memory.objects(EPISODE_COLLECTION, "ann", source="coder")]

    assert {each.name for each in entities if isinstance(each, Entity)} == {"Mara", "PostgreSQL"}
    assert {each.name for each in facts if isinstance(each, Relation)} == {"uses", "used with"}
    assert {each.session_id for each in episodes if isinstance(each, Episode)} == {"s2", "s3"}
    assert len(await all_relations(memory)) == 4


@pytest.mark.parametrize(
    "asked",
    [
        {"subject": " "},
        {"predicate": 3},
        {"object": ""},
        {"source": ""},
        {"as_of": "yesterday"},
        {"order_by": "size"},
        {"limit": -1},
        {"limit": 1.5},
    ],
    ids=str,
)
async def test_a_question_about_triples_that_cannot_be_answered_is_refused(asked: dict[str, Any]) -> None:
    mind = taught()

    with pytest.raises(InvalidInputError, match=next(iter(asked))):
        await mind.memory.triples("ann", **asked)


async def test_bounds_labels_and_users_that_cannot_be_are_refused() -> None:
    memory = taught().memory

    with pytest.raises(InvalidInputError, match="swap"):
        await memory.timeline("ann", since=day(2), until=day(1))
    with pytest.raises(InvalidInputError, match="since is a str"):
        await memory.timeline("ann", since="2024")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="session_id"):
        await memory.search("x", "ann", session_id=" ")
    with pytest.raises(InvalidInputError, match="source"):
        _ = [each async for each in memory.objects(ENTITY_COLLECTION, "ann", source="")]
    with pytest.raises(InvalidInputError, match="user_id"):
        await memory.triples("")
