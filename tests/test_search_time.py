"""Time in search: what held at a moment, what was known then, and times that the words of a query name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from jiuwen_memory import (
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    Entity,
    Episode,
    GraphConfig,
    GraphMemory,
    MinMaxRankConfig,
    Relation,
    SearchConfig,
    SearchResult,
)
from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.memory_core.graph.graph_memory.searching.period_words import find_period
from jiuwen_memory.testing import fake_memory
from tests.conversation_support import write
from tests.memory_support import Taught, taught

MAY = datetime(2026, 5, 8, 9, 30, tzinfo=UTC)
WIDE = SearchConfig(top_k=10, min_score=0.0)
PEOPLE = {"Ada": "Human", "Acme": "Entity", "Globex": "Entity"}
ACME = "Ada works at Acme."
GLOBEX = "Ada works at Globex."


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def seconds(text: str) -> int:
    return int(day(text).timestamp())


@pytest.fixture(params=["memory", "milvus"])
async def mind(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Taught]:
    """Give a memory that was told of a job, and later of a change of jobs, with dates."""
    places: dict[str, dict[str, Any]] = {
        "memory": {"uri": uuid4().hex, "backend": "memory"},
        "milvus": {"uri": str(tmp_path / "graph.db")},
    }
    made = taught(config=GraphConfig(embed_dim=64, **places[request.param]))
    async with made.memory:
        made.memory.register_search_strategy("wide", search_relation=WIDE, search_episode=WIDE)
        await works_at(made, "Acme", ACME, since="2019", reference_time=day("2019-06-01"))
        await works_at(made, "Globex", GLOBEX, since="March 2023", contradicts=ACME, reference_time=day("2023-04-01"))
        await made.memory.db_backend.refresh()
        yield made


async def works_at(
    mind: Taught, firm: str, sentence: str, *, since: str | None, reference_time: datetime, contradicts: str = ""
) -> None:
    await mind.learn(
        f"{sentence} (since {since})" if since else sentence,
        types={"Ada": "Human", firm: "Entity"},
        said=[("Ada", "works at", firm, sentence)],
        since=since,
        same={"Ada": ["Ada"]},
        contradicts={sentence: [contradicts]} if contradicts else None,
        reference_time=reference_time,
    )


async def facts(memory: GraphMemory, query: str = "Where does Ada work?", **options: Any) -> list[str]:
    found = await memory.search(query, "ann", "wide", entity=False, episode=False, **options)
    return contents(found)


def contents(found: SearchResult, collection: str = RELATION_COLLECTION) -> list[str]:
    return [each.content for _, each in found[collection]]


# --- as_of and known_at -----------------------------------------------------------------------------------------------


async def test_as_of_finds_the_job_that_was_held_at_the_moment(mind: Taught) -> None:
    before = await facts(mind.memory, as_of=day("2021-07-01"))
    after = await facts(mind.memory, as_of=day("2024-07-01"))
    too_early = await facts(mind.memory, as_of=day("2018-07-01"))

    assert (before, after, too_early) == ([ACME], [GLOBEX], [])


async def test_as_of_holds_on_both_sides_of_the_change_to_the_second(mind: Taught) -> None:
    change = day("2023-03-01")

    before = await facts(mind.memory, as_of=change - timedelta(seconds=1))
    after = await facts(mind.memory, as_of=change + timedelta(seconds=1))

    assert (before, after) == ([ACME], [GLOBEX])


async def test_without_a_moment_current_facts_come_first_and_are_marked(mind: Taught) -> None:
    found = await mind.memory.search(ACME, "ann", "wide", entity=False)

    assert contents(found) == [GLOBEX, ACME]
    assert [found.is_current(each) for _, each in found[RELATION_COLLECTION]] == [True, False]
    assert all(found.is_current(each) for _, each in found[EPISODE_COLLECTION])


async def test_what_held_at_the_moment_is_current_then(mind: Taught) -> None:
    found = await mind.memory.search(ACME, "ann", "wide", as_of=day("2021-07-01"))

    assert [found.is_current(each) for _, each in found[RELATION_COLLECTION]] == [True]


async def test_a_filter_of_ones_own_and_expansion_keep_to_the_moment(mind: Taught) -> None:
    wide = WIDE.model_copy(update={"bfs_depth": 2, "bfs_k": 10})
    mind.memory.register_search_strategy("wide", search_relation=wide, force=True)

    assert await facts(mind.memory, "Globex", as_of=day("2021-07-01")) == [ACME]


async def test_known_at_takes_back_what_was_learnt_later() -> None:
    memory = fake_memory()
    memory.register_search_strategy("wide", search_relation=WIDE)
    old, new = await job_change(memory, learnt=("2019-06-01", "2023-04-01"))

    then = await memory.search(ACME, "ann", "wide", known_at=day("2022-01-01"))
    now = await memory.search(ACME, "ann", "wide", known_at=day("2024-01-01"))

    assert contents(then) == [ACME]
    [(_, fact)] = then[RELATION_COLLECTION]
    assert isinstance(fact, Relation)
    assert (fact.valid_until, fact.superseded_by, then.is_current(fact)) == (None, [], True)
    assert contents(now) == [GLOBEX, ACME]
    assert [now.is_current(each) for _, each in now[RELATION_COLLECTION]] == [True, False]
    assert (old.valid_until, old.superseded_by) == (new.valid_since, [new.uuid])


async def test_known_at_and_as_of_together_ask_what_was_believed_of_a_moment() -> None:
    memory = fake_memory()
    memory.register_search_strategy("wide", search_relation=WIDE)
    await job_change(memory, learnt=("2019-06-01", "2023-04-01"))

    believed = await facts(memory, as_of=day("2023-03-15"), known_at=day("2023-03-15"))
    true = await facts(memory, as_of=day("2023-03-15"))

    assert (believed, true) == ([ACME], [GLOBEX])


async def test_triples_say_of_a_moment_what_a_search_says() -> None:
    memory = fake_memory()
    memory.register_search_strategy("wide", search_relation=WIDE)
    await job_change(memory, learnt=("2019-06-01", "2023-04-01"))
    moments = [None, *map(day, ("2018-01-01", "2022-01-01", "2023-03-15", "2024-01-01"))]

    for as_of, known_at in product(moments, moments):
        listed = await memory.triples("ann", as_of=as_of, known_at=known_at)
        assert {each.sentence for each in listed} == {*await facts(memory, ACME, as_of=as_of, known_at=known_at)}
    (then,) = await memory.triples("ann", known_at=day("2022-01-01"))

    assert (then.sentence, then.valid_until, then.is_current) == (ACME, None, True)


async def job_change(memory: GraphMemory, *, learnt: tuple[str, str]) -> tuple[Relation, Relation]:
    """Write two jobs, learnt at these days, of which the later one ended the earlier one."""
    ada, acme, globex = (
        Entity(user_id="ann", name=name, content=f"{name} it is.") for name in ("Ada", "Acme", "Globex")
    )
    began = seconds("2023-03-01")
    new = Relation(
        user_id="ann",
        content=GLOBEX,
        lhs=ada.uuid,
        rhs=globex.uuid,
        valid_since=began,
        created_at=seconds(learnt[1]),
    )
    old = Relation(
        user_id="ann",
        content=ACME,
        lhs=ada.uuid,
        rhs=acme.uuid,
        valid_since=seconds("2019-01-01"),
        valid_until=began,
        superseded_by=[new.uuid],
        created_at=seconds(learnt[0]),
        expired_at=seconds(learnt[1]),
    )
    await write(memory, [ada, acme, globex, old, new])
    return old, new


async def test_a_fact_replaced_without_a_date_held_until_the_other_was_told() -> None:
    mind = taught()
    mind.memory.register_search_strategy("wide", search_relation=WIDE)
    await works_at(mind, "Acme", ACME, since=None, reference_time=day("2021-06-01"))
    await works_at(mind, "Globex", GLOBEX, since=None, contradicts=ACME, reference_time=day("2023-04-01"))

    before = await facts(mind.memory, ACME, as_of=day("2022-05-01"))
    after = await facts(mind.memory, ACME, as_of=day("2024-05-01"))

    listed = [
        {each.sentence for each in await mind.memory.triples("ann", as_of=day(moment))}
        for moment in ("2022-05-01", "2024-05-01")
    ]

    assert before == [ACME, GLOBEX]
    assert after == [GLOBEX]
    assert listed == [{ACME, GLOBEX}, {GLOBEX}]


@pytest.mark.parametrize("why", ["of another source", "ended since", "about something else"])
async def test_when_a_fact_was_replaced_does_not_depend_on_what_else_is_found(why: str) -> None:
    memory = fake_memory()
    words = MinMaxRankConfig(name_dense=0, content_dense=0, content_sparse=1)
    memory.register_search_strategy("wide", search_relation=SearchConfig(top_k=10, min_score=0.0, rank_config=words))
    learnt: dict[str, Any] = {"user_id": "ann", "lhs": "ada", "created_at": seconds("2026-01-01")}
    new = Relation(
        **learnt,
        content="Globex pays for all of it." if why == "about something else" else GLOBEX,
        rhs="globex",
        sources=["hr"],
        first_mentioned_at=seconds("2021-01-01"),
        valid_until=seconds("2022-01-01") if why == "ended since" else None,
    )
    old = Relation(
        **learnt,
        content=ACME,
        rhs="acme",
        sources=["chat"],
        first_mentioned_at=seconds("2019-01-01"),
        superseded_by=[new.uuid],
        expired_at=seconds("2026-01-01"),
    )
    await write(memory, [old, new])
    options: dict[str, Any] = {"source": "chat"} if why == "of another source" else {}

    before = await facts(memory, "Ada Acme", as_of=day("2020-06-01"), **options)
    after = await facts(memory, "Ada Acme", as_of=day("2023-06-01"), **options)

    assert before[0] == ACME
    assert ACME not in after


@pytest.mark.parametrize("name", ["as_of", "known_at", "reference_time"])
async def test_a_moment_that_is_no_datetime_is_refused(name: str) -> None:
    options: dict[str, Any] = {name: "2021-07-01"}

    with pytest.raises(InvalidInputError, match=name):
        await fake_memory().search("Ada", "ann", **options)


# --- times in the words of a query ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "words", "since", "until"),
    [
        ("What did Ann do last spring?", "last spring", "2025-03-01", "2025-05-31"),
        ("Where did she work in 2020?", "in 2020", "2020-01-01", "2020-12-31"),
        ("Who did Bob meet on 7 May 2023 in Rome?", "on 7 May 2023", "2023-05-07", "2023-05-07"),
        ("Who did Bob meet two weeks ago?", "two weeks ago", "2026-04-20", "2026-04-26"),
        ("What has she done since 2020?", "since 2020", "2020-01-01", None),
        ("Where did Ann work before 2020?", "before 2020", None, "2019-12-31"),
        ("What did Ann do between 2019 and 2021?", "between 2019 and 2021", "2019-01-01", "2021-12-31"),
        ("Where did Caroline move from 4 years ago?", "from 4 years ago", "2022-01-01", "2022-12-31"),
        ("爱丽丝去年在上海做什么？", "去年", "2025-01-01", "2025-12-31"),
        ("爱丽丝2020年以前在哪里工作", "2020年以前", None, "2019-12-31"),
        ("上个月他买了什么", "上个月", "2026-04-01", "2026-04-30"),
        ("自2020年起她住哪里", "自2020年起", "2020-01-01", None),
        ("What did she do half a year ago?", "half a year ago", "2025-11-01", "2025-11-30"),
        ("Who left twenty-two years ago?", "twenty-two years ago", "2004-01-01", "2004-12-31"),
        ("Who left thirty five days ago?", "thirty five days ago", "2026-04-03", "2026-04-03"),
        ("Who came on May 5,2024?", "on May 5, 2024", "2024-05-05", "2024-05-05"),
        ("Who called on 8 May 2024 at 15:00?", "on 8 May 2024", "2024-05-08", "2024-05-08"),
        ("What has she done from March 2020 on?", "from March 2020 on", "2020-03-01", None),
        ("What has she done from 2020 onwards?", "from 2020 onwards", "2020-01-01", None),
        ("What had she done up to 2021?", "up to 2021", None, "2021-12-31"),
        ("Where was she prior to 2020?", "prior to 2020", None, "2019-12-31"),
        ("Where was she over Christmas 2023?", "Christmas 2023", "2023-12-25", "2023-12-25"),
        ("What was in the first week of May 2024?", "May 2024", "2024-05-01", "2024-05-31"),
        ("What was in the last 2 weeks of 2023?", "2023", "2023-01-01", "2023-12-31"),
        ("他一百二十年前在哪里", "一百二十年前", "1906-01-01", "1906-12-31"),
        ("What was new in the last two years?", "in the last two years", "2024-05-08", "2026-05-07"),
        ("他三年以前在哪里", "三年以前", "2023-01-01", "2023-12-31"),
        ("大前天他去了哪里", "大前天", "2026-05-05", "2026-05-05"),
        ("他1990年代做什么", "1990年代", "1990-01-01", "1999-12-31"),
        ("去年前年他在哪里", "去年", "2025-01-01", "2025-12-31"),
        ("2023年5月6日到2023年12月31日发生了什么", "2023年5月6日到2023年12月31日", "2023-05-06", "2023-12-31"),
        ("去年春节她去了哪里", "去年春节", "2025-01-29", "2025-01-29"),
        ("What did she get last Christmas?", "last Christmas", "2025-12-25", "2025-12-25"),
        ("Who called last night?", "last night", "2026-05-07", "2026-05-07"),
        ("Where was he in the 90s?", "in the 90s", "1990-01-01", "1999-12-31"),
        ("她2020年3月以后住哪里", "2020年3月以后", "2020-03-01", None),
        ("去年后来她住哪里", "去年", "2025-01-01", "2025-12-31"),
        ("2020年后她住哪里", "2020年后", "2020-01-01", None),
        ("近三年他住哪里", "近三年", "2023-05-08", "2026-05-07"),
        ("上週他做了什麼", "上周", "2026-04-27", "2026-05-03"),
        ("２０２０年她在哪里", "2020年", "2020-01-01", "2020-12-31"),
    ],
)
def test_a_query_names_a_period(query: str, words: str, since: str | None, until: str | None) -> None:
    found = find_period(query, MAY)

    assert found is not None
    assert found.words == words
    assert [each and each.iso()[:10] for each in (found.since, found.until)] == [since, until]


@pytest.mark.parametrize(
    "query",
    [
        "Where does Ann work?",
        "What may Ann eat in the end?",
        "How many years has Caroline had her dog?",
        "What does she do now?",
        "Who took the fall for the second time?",
        "他工作了十年",
        "春天她做什么",
        "天上有什么",
        "What did she do 1.5 years ago?",
        "Who left 1,000 days ago?",
        "Who left less than a year ago?",
        "Who left over two years ago?",
        "What happened before year 1?",
        "她几十年前住哪里",
        "她三四年前住哪里",
        "她3.5年前住哪里",
        "前前天她做什么",
        "春节她做什么",
        "不到一年前她做什么",
        "她最近过得好吗",
        "Does she sleep well at night?",
        "",
    ],
)
def test_a_query_that_names_no_time_has_no_period(query: str) -> None:
    assert find_period(query, MAY) is None


def test_a_long_message_full_of_numbers_is_looked_through_within_bounds() -> None:
    numbers = " ".join(str(number) for number in range(100_000))

    assert find_period(f"What did Ann do in 2020? {numbers}", MAY) is not None
    assert find_period(f"{numbers} What did Ann do?", MAY) is None
    assert find_period("一二三四" * 50_000, MAY) is None


def test_a_period_lies_in_the_zone_of_the_reference_time() -> None:
    shanghai = timezone(timedelta(hours=8))

    found = find_period("yesterday", datetime(2026, 5, 8, 1, 0, tzinfo=shanghai))

    assert found is not None and found.since is not None
    assert found.since.iso() == "2026-05-07T00:00:00+08:00"


def diary(period: str) -> GraphMemory:
    memory = fake_memory()
    memory.register_search_strategy("diary", search_episode=WIDE.model_copy(update={"period": period}))
    return memory


async def walks(memory: GraphMemory) -> None:
    """Write that the same was done in two springs."""
    await write(
        memory,
        [
            Episode(user_id="ann", content="We went for a walk at the sea.", valid_since=seconds("2024-04-02")),
            Episode(user_id="ann", content="We went for a walk by the sea.", valid_since=seconds("2025-04-02")),
        ],
    )


QUESTION = "When did we go for a walk at the sea last spring?"


@pytest.mark.parametrize(
    ("period", "years"),
    [("off", [2024, 2025]), ("boost", [2025, 2024]), ("filter", [2025])],
    ids=["off", "boost", "filter"],
)
async def test_the_time_that_a_query_names_boosts_or_filters(period: str, years: list[int]) -> None:
    memory = diary(period)
    await walks(memory)

    found = await memory.search(QUESTION, "ann", "diary", entity=False, relation=False, reference_time=MAY)

    assert [datetime.fromtimestamp(said(each), UTC).year for _, each in found[EPISODE_COLLECTION]] == years
    assert (found.diagnostics.period is None) == (period == "off")


def said(found: object) -> int:
    assert isinstance(found, Episode) and found.valid_since is not None
    return found.valid_since


async def test_a_boost_stands_among_the_signals_of_the_diagnostics() -> None:
    memory = diary("boost")
    await walks(memory)

    found = await memory.search(QUESTION, "ann", "diary", entity=False, relation=False, reference_time=MAY)

    signals = [each.signals for each in found.diagnostics.collections[EPISODE_COLLECTION].hits.values()]
    assert sorted("period" in each for each in signals) == [False, True]


async def test_a_filter_keeps_facts_that_may_have_held_then(mind: Taught) -> None:
    config = WIDE.model_copy(update={"period": "filter"})
    mind.memory.register_search_strategy("wide", search_relation=config, force=True)

    found = await facts(mind.memory, "Where did Ada work in 2021?")
    later = await facts(mind.memory, "Where did Ada work in 2024?")

    assert (found, later) == ([ACME], [GLOBEX])
