"""When a fact holds: words and dates as models give them, counted from the text's time and in the speaker's zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import JsonValue

from jiuwen_memory import Relation
from jiuwen_memory.testing import Script
from tests.cases.world import (
    DOCUMENT,
    NAMED,
    SENTENCE,
    STATED,
    USER,
    dated,
    instant,
    local_day,
    say,
    scripted,
)
from tests.memory_support import all_episodes, all_relations, entities, facts


async def told(
    text: str, moment: str, zone: str | None, *, since: JsonValue = None, until: JsonValue = None
) -> Relation:
    """Return the stored fact of a text said at a moment, its times given by the model in these words."""
    mind = scripted(
        {
            "EntityExtraction": NAMED,
            "TimezonePredictions": {"place": None, "timezone": zone},
            "RelationExtraction": {"relations": [dated(since, until)]},
        }
    )
    await say(mind, text, reference_time=datetime.fromisoformat(moment))
    (fact,) = (await all_relations(mind.memory, USER)).values()
    return fact


@pytest.mark.parametrize(
    ("moment", "words", "day"),
    [
        ("2025-10-15T18:00:00+08:00", "last Friday", "2025-10-10"),
        ("2024-03-06T10:00:00+08:00", "last Friday", "2024-03-01"),
        ("2031-01-02T09:00:00+08:00", "last Sunday", "2030-12-29"),
    ],
)
async def test_last_weekday_is_the_one_before_the_text(moment: str, words: str, day: str) -> None:
    """Case 24"""
    fact = await told(f"I moved the goats {words}.", moment, "Asia/Shanghai", since=words)

    assert (fact.valid_since, fact.valid_until) == (instant(f"{day}T00:00:00+08:00"), None)


@pytest.mark.parametrize(
    ("moment", "words", "day"),
    [
        ("2025-10-18T18:00:00+08:00", "上周五", "2025-10-10"),
        ("2025-10-18T18:00:00+08:00", "上星期五", "2025-10-10"),
        ("2024-03-09T10:00:00+08:00", "上周五", "2024-03-01"),
        ("2024-03-10T10:00:00+08:00", "上周日", "2024-03-03"),
    ],
)
async def test_a_weekday_of_last_week_in_chinese_is_not_the_day_that_has_just_been(
    moment: str, words: str, day: str
) -> None:
    """Case 25"""
    fact = await told(f"我{words}把羊迁走了。", moment, "Asia/Shanghai", since=words)

    assert local_day(fact.valid_since, "Asia/Shanghai") == day


@pytest.mark.parametrize(
    ("moment", "words", "day"),
    [
        ("2011-11-23T10:00:00+08:00", "two weeks ago", "2011-11-09"),
        ("2019-03-06T10:00:00+08:00", "2 weeks ago", "2019-02-20"),
        ("1998-01-05T10:00:00+08:00", "两周前", "1997-12-22"),
    ],
)
async def test_an_old_talk_counts_from_its_own_time(moment: str, words: str, day: str) -> None:
    """Case 26"""
    fact = await told(f"I moved the goats {words}.", moment, "Asia/Shanghai", since=words)

    assert local_day(fact.valid_since, "Asia/Shanghai") == day


@pytest.mark.parametrize(
    ("moment", "day"),
    [("2028-01-31T10:00:00+08:00", "2028-02-29"), ("2026-01-31T10:00:00+08:00", "2026-02-28")],
)
async def test_the_end_of_next_month_is_its_last_day(moment: str, day: str) -> None:
    """Case 27"""
    words = "end of next month"

    fact = await told(f"The goats stay until the {words}.", moment, "Asia/Shanghai", until=words)

    assert local_day(fact.valid_until, "Asia/Shanghai") == day
    assert fact.holds_at(instant(f"{day}T12:00:00+08:00"))


@pytest.mark.parametrize(
    ("words", "day"),
    [
        ("by 15 January 2029", "2029-01-15"),
        ("until 15 January 2029", "2029-01-15"),
        ("2029年1月15日之前", "2029-01-14"),
    ],
)
async def test_words_that_name_an_end_alone_begin_nothing(words: str, day: str) -> None:
    fact = await told(f"I want a barn {words}.", "2028-11-03T10:00:00+08:00", "Asia/Shanghai", since=words)

    assert fact.valid_since is None
    assert local_day(fact.valid_until, "Asia/Shanghai") == day


@pytest.mark.parametrize(
    ("zone", "moment", "wall_time", "expected"),
    [
        ("Asia/Yangon", "2025-10-14T19:00:00+00:00", "2025-10-15T05:30:00", "2025-10-14T23:00:00+00:00"),
        ("Asia/Kolkata", "2024-07-01T20:00:00+00:00", "2024-07-02T06:00:00", "2024-07-02T00:30:00+00:00"),
        ("+05:45", "2025-10-14T19:00:00+00:00", "2025-10-15T06:00", "2025-10-15T00:15:00+00:00"),
    ],
)
async def test_zones_of_half_hours_keep_their_minutes_and_their_day(
    zone: str, moment: str, wall_time: str, expected: str
) -> None:
    """Case 28"""
    fact = await told("I milk the goats from today on, early in the morning.", moment, zone, since=wall_time)

    assert fact.valid_since == instant(expected)


@pytest.mark.parametrize(
    ("zone", "wall_time", "moment"),
    [
        ("America/New_York", "2024-03-10T02:30:00", "2024-03-12T15:00:00-04:00"),
        ("Europe/Berlin", "2025-03-30T02:30", "2025-04-02T12:00:00+02:00"),
    ],
)
async def test_a_wall_time_that_the_clocks_left_out_stays_on_its_day(zone: str, wall_time: str, moment: str) -> None:
    """Case 29"""
    fact = await told("The night milking began at half past two.", moment, zone, since=wall_time)

    assert local_day(fact.valid_since, zone) == wall_time[:10]
    assert fact.valid_since is not None
    assert datetime.fromtimestamp(fact.valid_since, UTC).minute == 30


@pytest.mark.parametrize(
    ("zone", "day", "moment"),
    [
        ("Europe/Brussels", "2025-01-10", "2025-07-20T12:00:00+02:00"),
        ("Europe/Brussels", "2025-07-20", "2026-01-10T12:00:00+01:00"),
        ("America/New_York", "2025-01-10", "2025-07-20T12:00:00-04:00"),
        ("Australia/Adelaide", "2025-07-20", "2026-01-10T12:00:00+10:30"),
    ],
)
async def test_a_day_of_the_other_season_begins_and_ends_at_midnight_there(zone: str, day: str, moment: str) -> None:
    fact = await told("The goats were in the valley.", moment, zone, since=day, until=day)

    assert [local_day(each, zone) for each in (fact.valid_since, fact.valid_until)] == [day, day]
    assert fact.valid_since is not None
    assert [fact.holds_at(fact.valid_since + seconds) for seconds in (-1, 0, 86_399, 86_400)] == [
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("words", "end"),
    [
        ("the first half of 2020", "2020-06-30T23:59:59+08:00"),
        ("the end of March 2020", "2020-03-31T23:59:59+08:00"),
        ("农历2020年八月", "2020-10-16T23:59:59+08:00"),
        ("last weekend", "2025-10-12T23:59:59+08:00"),
    ],
)
async def test_a_fact_ends_with_the_last_second_of_what_was_named(words: str, end: str) -> None:
    fact = await told(
        f"I kept goats until {words}.", "2025-10-15T18:00:00+08:00", "Asia/Shanghai", since=None, until=words
    )

    assert fact.valid_until == instant(end)


async def test_a_month_in_which_the_clocks_change_ends_with_its_last_second() -> None:
    fact = await told(
        "In March 2025.", "2025-10-15T12:00:00+02:00", "Europe/Brussels", since="2025-03", until="2025-03"
    )

    assert fact.valid_since == instant("2025-03-01T00:00:00+01:00")
    assert fact.valid_until == instant("2025-03-31T23:59:59+02:00")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("2025-01-10T09:00:00+02:00", "2025-01-10T07:00:00+00:00"),
        ("2025-01-10T09:00:00", "2025-01-10T08:00:00+00:00"),
        ("3 hours ago", "2025-07-20T07:00:00+00:00"),
    ],
)
async def test_a_stated_offset_counts_and_a_wall_time_follows_the_season(words: str, expected: str) -> None:
    fact = await told(f"Since {words}.", "2025-07-20T12:00:00+02:00", "Europe/Brussels", since=words)

    assert fact.valid_since == instant(expected)


@pytest.mark.parametrize(
    ("since", "until"), [("2023-01-01", "2023-12-31"), ("2023-01-01T00:00:00", "2023-12-31T23:59:59")]
)
async def test_the_last_day_of_a_period_belongs_to_it_and_the_next_year_does_not(since: str, until: str) -> None:
    """Case 30"""
    text = "The goats were here from the first to the last day of 2023."

    fact = await told(text, "2024-01-02T09:00:00+08:00", "Asia/Shanghai", since=since, until=until)

    days = [local_day(each, "Asia/Shanghai") for each in (fact.valid_since, fact.valid_until)]
    assert days == ["2023-01-01", "2023-12-31"]
    assert fact.holds_at(instant("2023-12-31T12:00:00+08:00"))
    assert not fact.holds_at(instant("2024-01-01T12:00:00+08:00"))
    assert fact.valid_until == instant("2023-12-31T15:59:59+00:00")


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ("-0055-03-15", set()),
        ("44 BC", set()),
        ("公元前44年", set()),
        ("year 0", set()),
        ("987654321 days ago", set()),
        ("10000-01-01", set()),
        ("9999-12-31T23:59:59-08:00", {253402300799 + 8 * 3600}),
        ("0001-01-01T00:00:00+09:00", {-62135596800 - 9 * 3600}),
    ],
)
@pytest.mark.parametrize("side", ["since", "until"])
async def test_a_time_outside_the_calendar_is_unknown_and_its_fact_is_stored(
    words: str, right: set[int], side: str
) -> None:
    """Case 31"""
    moment, zone = "2025-10-15T18:00:00+08:00", "Asia/Shanghai"
    text = "The bell was Augusta's. It stays here."

    fact = await told(text, moment, zone, **{side: words})

    assert {fact.valid_since, fact.valid_until} <= {None, *right}


OPEN_WORDS: list[JsonValue] = [
    *("present", "the present", "null", "None", "unknown", "N/A", "now", "ongoing", "current", "still", ""),
    *("to date", "until now", "until further notice", "indefinitely", "至今", "现在", "目前", "迄今", "未知", None),
]


@pytest.mark.parametrize("words", OPEN_WORDS, ids=str)
async def test_words_for_no_end_yet_leave_the_end_open(words: JsonValue) -> None:
    """Case 32"""
    text = "I keep goats at Larch Croft, now as before."

    fact = await told(text, "2025-10-15T18:00:00+08:00", "Asia/Shanghai", since="2025-02-01", until=words)

    assert (local_day(fact.valid_since, "Asia/Shanghai"), fact.valid_until) == ("2025-02-01", None)
    assert fact.holds_at(instant("2025-12-01T00:00:00+08:00"))


async def test_times_with_and_without_a_zone_and_none_at_all_go_together() -> None:
    """Case 33"""
    place = entities({"Larch Croft": "Entity"})
    mind = scripted(
        {
            "EntityExtraction": Script([NAMED, place], repeat_last=True),
            "RelationExtraction": Script([STATED, facts()], repeat_last=True),
            "TimezonePredictions": {"place": None, "timezone": "Europe/Brussels"},
        }
    )

    for text, moment in (
        (SENTENCE, datetime(2025, 10, 15, 18, 0)),
        ("Larch Croft has a new well.", datetime(2025, 10, 16, 9, 0, tzinfo=timezone(timedelta(hours=2)))),
        ("Larch Croft has a new roof.", None),
    ):
        await mind.memory.add_memory(DOCUMENT, USER, text, reference_time=moment)

    times = {each.content: each.valid_since for each in await all_episodes(mind.memory, USER)}
    asked = [prompt.text for prompt in mind.llm.asked("EntityExtraction")]
    assert times[SENTENCE] == instant("2025-10-15T18:00:00+00:00")
    assert times["Larch Croft has a new well."] == instant("2025-10-16T07:00:00+00:00")
    assert [SENTENCE in text.split("</history>")[0] for text in asked[1:]] == [True, True]
