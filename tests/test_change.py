"""Facts that come back, that arrive late, that are retired by the dozen; links of a text and of a session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from jiuwen_memory import EPISODE_COLLECTION, AddMemStrategy, Episode, GraphMemUpdate, Relation, SearchConfig
from jiuwen_memory.foundation.store.query import eq
from tests.life.scripted import relations as relations_of
from tests.memory_support import Fact, Taught, all_entities, all_episodes, taught

WHO = {"Ida Lund": "Human", "Oslo": "Entity", "Bergen": "Entity", "Narvik": "Entity"}
OSLO = ("Ida Lund", "lives in", "Oslo", "Ida Lund lives in Oslo.")
BERGEN = ("Ida Lund", "lives in", "Bergen", "Ida Lund lives in Bergen.")
HOMES = (OSLO, BERGEN)
USER = "nora"


def year(number: int) -> datetime:
    return datetime(number, 6, 1, tzinfo=UTC)


def january(number: int) -> int:
    return int(datetime(number, 1, 1, tzinfo=UTC).timestamp())


async def say(mind: Taught, fact: Fact, at: int, *, since: int | None = None, **options: Any) -> GraphMemUpdate:
    """Add where Ida lives, as a text of June of a year says; every other home contradicts it."""
    others = {fact[3]: [home[3] for home in HOMES if home != fact]}
    words = f"since {since}" if since else None
    return await mind.learn(
        f"{fact[3]} {words or ''} ({at})",
        types={name: WHO[name] for name in (fact[0], fact[2])},
        said=[fact],
        since=words,
        same={name: [name] for name in WHO},
        contradicts=options.pop("contradicts", others),
        user=USER,
        reference_time=year(at),
        **options,
    )


async def homes(mind: Taught) -> list[Relation]:
    """Return where Ida lived, in the order of time."""
    found = await relations_of(mind.memory)
    return sorted(found, key=lambda each: each.valid_since or each.first_mentioned_at or 0)


def shown(periods: list[Relation]) -> list[tuple[str, int | None, int | None, bool]]:
    """Return each period's words, beginning, end, and whether it was replaced."""
    return [(each.content, each.valid_since, each.valid_until, bool(each.superseded_by)) for each in periods]


THERE_AND_BACK = [
    (OSLO[3], january(2018), january(2020), True),
    (BERGEN[3], january(2020), january(2022), True),
    (OSLO[3], january(2022), None, False),
]


async def test_a_fact_that_was_replaced_and_holds_again_has_two_periods() -> None:
    mind = taught()
    await say(mind, OSLO, 2018, since=2018)
    await say(mind, BERGEN, 2020, since=2020)

    await say(mind, OSLO, 2022, since=2022)

    assert shown(await homes(mind)) == THERE_AND_BACK
    assert (await mind.memory.check(USER)).findings == ()


async def test_no_verdict_is_asked_for_a_fact_that_comes_back_in_the_same_words() -> None:
    mind = taught()
    await say(mind, OSLO, 2018, since=2018)
    await say(mind, BERGEN, 2020, since=2020)
    asked = len(mind.llm.asked("RelationVerdicts"))

    await say(mind, OSLO, 2022, since=2022)

    assert len(mind.llm.asked("RelationVerdicts")) == asked


async def test_a_fact_told_before_and_after_what_replaced_it_is_parted_when_that_is_learnt_last() -> None:
    mind = taught()
    await say(mind, OSLO, 2018, since=2018)
    await say(mind, OSLO, 2022, since=2022)

    await say(mind, BERGEN, 2020, since=2020)

    periods = await homes(mind)
    assert shown(periods) == THERE_AND_BACK
    assert [each.mention_count for each in periods] == [1, 1, 1]
    assert (await mind.memory.check(USER)).findings == ()


async def test_an_end_that_was_stated_belongs_to_the_period_before_it() -> None:
    mind = taught()
    await say(mind, OSLO, 2018, since=2018)
    await say(mind, OSLO, 2022, since=2022)
    await mind.learn(
        "Ida Lund lives in Oslo until 2019.",
        types=WHO,
        said=[OSLO],
        until="2019",
        same={name: [name] for name in WHO},
        user=USER,
        reference_time=year(2019),
    )

    await say(mind, BERGEN, 2020, since=2020)

    assert shown(await homes(mind)) == [(OSLO[3], january(2018), january(2020) - 1, True), *THERE_AND_BACK[1:]]
    assert (await mind.memory.check(USER)).findings == ()


async def test_a_text_that_parts_a_fact_and_tells_it_again_tells_its_second_period() -> None:
    mind = taught()
    await say(mind, OSLO, 2018, since=2018)
    await say(mind, OSLO, 2022)

    await mind.learn(
        "Ida Lund lives in Bergen since 2020. Ida Lund lives in Oslo.",
        types=WHO,
        said=[(*BERGEN, "since 2020"), OSLO],
        same={name: [name] for name in WHO},
        contradicts={BERGEN[3]: [OSLO[3]]},
        user=USER,
        reference_time=year(2020),
    )

    periods = await homes(mind)
    assert shown(periods) == [
        *THERE_AND_BACK[:1],
        (BERGEN[3], january(2020), None, True),
        (OSLO[3], None, None, False),
    ]
    assert [each.mention_count for each in periods] == [1, 1, 2]
    assert (await mind.memory.check(USER)).findings == ()


@pytest.mark.parametrize("fused", ["Ida Lund", "Oslo"])
async def test_a_return_without_dates_outlives_a_merge(fused: str) -> None:
    mind = taught()
    for number, home in enumerate([OSLO, BERGEN, OSLO]):
        await say(mind, home, 2018 + number)
    await mind.learn("Other is all that is said.", types={"Other": WHO[fused]}, user=USER)
    known = await all_entities(mind.memory, USER)

    await mind.memory.merge(USER, known["Other"].uuid, known[fused].uuid, dry_run=False)

    assert [(each.content, bool(each.superseded_by)) for each in await homes(mind)] == [
        (OSLO[3], True),
        (BERGEN[3], True),
        (OSLO[3], False),
    ]
    assert (await mind.memory.check(USER)).findings == ()


async def test_a_return_without_a_date_is_told_apart_by_when_it_was_said() -> None:
    mind = taught()
    await say(mind, OSLO, 2018, since=2018)
    await say(mind, OSLO, 2023)

    await say(mind, BERGEN, 2020, since=2020)

    assert shown(await homes(mind)) == [*THERE_AND_BACK[:1], (BERGEN[3], january(2020), None, True), (
        OSLO[3], None, None, False
    )]  # fmt: skip


async def test_an_old_text_that_tells_of_the_first_period_is_one_more_mention_of_it() -> None:
    mind = taught()
    await say(mind, OSLO, 2018, since=2018)
    await say(mind, BERGEN, 2020, since=2020)
    await say(mind, OSLO, 2022, since=2022)

    await say(mind, OSLO, 2019)

    assert [each.mention_count for each in await homes(mind)] == [2, 1, 1]


async def test_of_two_undated_facts_the_one_said_later_holds_whichever_is_learnt_first() -> None:
    mind = taught()
    await say(mind, BERGEN, 2020)

    await say(mind, OSLO, 2018)

    by_words = {each.content: each for each in await homes(mind)}
    assert by_words[OSLO[3]].superseded_by == [by_words[BERGEN[3]].uuid]
    assert by_words[BERGEN[3]].superseded_by == []


async def test_a_repeat_keeps_the_earliest_beginning_and_says_it_as_exactly_as_anybody_did() -> None:
    mind = taught()
    await say(mind, OSLO, 2022, since=2019)

    await say(mind, OSLO, 2023, since=2018)

    assert shown(await homes(mind)) == [(OSLO[3], january(2018), None, False)]


async def test_the_beginning_that_a_deleted_episode_stated_is_forgotten_with_it() -> None:
    mind = taught()
    await say(mind, OSLO, 2022, since=2019)
    older = await say(mind, OSLO, 2023, since=2018)

    await mind.memory.delete_episode(USER, older.added_episode[0].uuid)

    assert shown(await homes(mind)) == [(OSLO[3], january(2019), None, False)]


async def test_deleting_the_return_opens_what_it_had_ended() -> None:
    mind = taught()
    await say(mind, OSLO, 2018, since=2018)
    back = await say(mind, OSLO, 2022, since=2022)
    await say(mind, BERGEN, 2020, since=2020)

    await mind.memory.delete_episode(USER, back.added_episode[0].uuid)

    assert shown(await homes(mind)) == [THERE_AND_BACK[0], (BERGEN[3], january(2020), None, False)]
    assert (await mind.memory.check(USER)).findings == ()


async def test_deleting_what_lay_between_leaves_one_period_that_holds() -> None:
    mind = taught()
    await say(mind, OSLO, 2018, since=2018)
    between = await say(mind, BERGEN, 2020, since=2020)
    await say(mind, OSLO, 2022, since=2022)

    await mind.memory.delete_episode(USER, between.added_episode[0].uuid)

    periods = await homes(mind)
    assert [each.content for each in periods if not each.superseded_by] == [OSLO[3]]
    assert (await mind.memory.check(USER)).findings == ()


async def test_a_reply_that_retires_too_many_facts_is_refused_with_a_warning() -> None:
    mind = taught(strategy=AddMemStrategy(chinese_entity=False, max_retired=1))
    places: list[Fact] = [("Ida Lund", "likes", name, f"Ida Lund likes {name}.") for name in ("Oslo", "Bergen")]
    await mind.learn("Ida Lund likes Oslo and Bergen.", types=WHO, said=places, user=USER)
    new = ("Ida Lund", "likes", "Narvik", "Ida Lund likes Narvik now.")

    update = await mind.learn(
        new[3], types=WHO, said=[new], same={name: [name] for name in WHO},
        contradicts={new[3]: [each[3] for each in places]}, user=USER,
    )  # fmt: skip

    assert [each.superseded_by for each in await relations_of(mind.memory)] == [[], [], []]
    assert any("more than max_retired=1" in warning for warning in update.warnings), update.warnings


async def test_facts_of_one_text_are_linked_to_their_neighbours_up_to_the_bound() -> None:
    mind = taught(strategy=AddMemStrategy(chinese_entity=False, max_co_occurs=4))
    said: list[Fact] = [("Ida Lund", f"p{number}", "Oslo", f"Fact {number} on Ida Lund.") for number in range(4)]

    await mind.learn("Much on Ida Lund in Oslo.", types=WHO, said=said, user=USER)

    facts = {each.uuid: each.content for each in await relations_of(mind.memory)}
    links = await relations_of(mind.memory, kind="co_occurs")
    assert sorted((facts[each.lhs][5], facts[each.rhs][5]) for each in links) == [
        ("0", "1"), ("0", "2"), ("1", "2"), ("2", "3"),
    ]  # fmt: skip
    assert (await mind.memory.check(USER)).findings == ()


async def test_by_default_nothing_is_linked_for_standing_in_one_text() -> None:
    mind = taught()
    said: list[Fact] = [("Ida Lund", f"p{number}", "Oslo", f"Fact {number} on Ida Lund.") for number in range(4)]

    await mind.learn("Much on Ida Lund in Oslo.", types=WHO, said=said, user=USER, session_id="s")

    assert await relations_of(mind.memory, kind="co_occurs") == []
    assert await relations_of(mind.memory, kind="temporal_next") == []


async def spun(order: tuple[int, ...]) -> tuple[Taught, dict[int, str]]:
    """Return a memory of one session, told in this order of years, and the episode of each year."""
    mind = taught(strategy=AddMemStrategy(chinese_entity=False, temporal_spine=True))
    episodes = {}
    for number in order:
        update = await mind.learn(f"The year {number}.", user=USER, session_id="diary", reference_time=year(number))
        episodes[number] = update.added_episode[0].uuid
    return mind, episodes


async def spine(mind: Taught) -> list[tuple[int, int]]:
    """Return the links of the spine as pairs of years."""
    years = {each.uuid: _year(each) for each in await all_episodes(mind.memory, USER)}
    links = await relations_of(mind.memory, kind="temporal_next")
    assert {each.ends for each in links} <= {"episode"}
    return sorted((years[each.lhs], years[each.rhs]) for each in links)


def _year(episode: Episode) -> int:
    return datetime.fromtimestamp(episode.valid_since or 0, UTC).year


async def test_the_episodes_of_a_session_are_a_chain_whatever_order_they_arrive_in() -> None:
    mind, _ = await spun((2021, 2019, 2023, 2020))

    assert await spine(mind) == [(2019, 2020), (2020, 2021), (2021, 2023)]
    assert (await mind.memory.check(USER)).findings == ()


async def test_a_session_of_any_length_goes_on_where_it_ended() -> None:
    mind, _ = await spun(())
    vector = [1.0] + [0.0] * 63
    told = [
        Episode(
            user_id=USER, content=f"Hour {hour}.", session_id="diary", valid_since=3600 * hour, content_embedding=vector
        )
        for hour in range(1001)
    ]
    await mind.memory.db_backend.upsert(EPISODE_COLLECTION, told)

    update = await mind.learn("The year 2024.", user=USER, session_id="diary", reference_time=year(2024))

    (link,) = [each for each in update.added_relation if each.kind == "temporal_next"]
    assert (link.lhs, link.rhs) == (told[-1].uuid, update.added_episode[0].uuid)


async def test_the_chain_closes_where_an_episode_is_deleted() -> None:
    mind, episodes = await spun((2019, 2020, 2021, 2023))

    for number in (2020, 2023):
        await mind.memory.delete_episode(USER, episodes[number])

    assert await spine(mind) == [(2019, 2021)]
    assert (await mind.memory.check(USER)).findings == ()


async def test_episodes_without_a_session_are_in_no_chain() -> None:
    mind, _ = await spun((2019,))

    await mind.learn("Elsewhere.", user=USER, reference_time=year(2020))

    assert await spine(mind) == []


async def test_the_chain_is_found_only_by_those_who_ask_for_it() -> None:
    mind, _ = await spun((2019, 2020))
    links = SearchConfig(filter_expr=eq("kind", "temporal_next"), min_score=-10.0)
    mind.memory.register_search_strategy("spine", search_relation=links)

    plain = await mind.memory.search("2019 2020", USER, entity=False, episode=False)
    asked = await mind.memory.search("2019 2020", USER, "spine", entity=False, episode=False)

    assert [len(found) for result in (plain, asked) for found in result.values()] == [0, 1]
