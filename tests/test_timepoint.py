from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jiuwen_memory.foundation.timepoint import (
    Precision,
    Timepoint,
    format_period,
    format_seconds,
    from_datetime,
    parse_iso,
    resolve_period,
    resolve_time,
    utc_moment,
)

FIRST_SECOND, LAST_SECOND = -62135596800, 253402300799
WEDNESDAY = datetime(2024, 5, 15, 10, 30, tzinfo=UTC)
PRECISIONS: list[Precision] = [
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "season",
    "year",
    "decade",
]


def _read(text: str, reference: datetime = WEDNESDAY, offset_minutes: int = 0) -> str | None:
    found = resolve_time(text, reference, offset_minutes=offset_minutes)
    return None if found is None else f"{found.iso()[:16]} {found.precision}"


def _period(text: str) -> tuple[str | None, str | None]:
    since, until = resolve_period(text, WEDNESDAY)
    return (since.iso()[:19] if since else None, until.iso()[:19] if until else None)


@pytest.mark.parametrize(
    ("text", "iso", "precision"),
    [
        ("2024-05-03T14:05:06+05:30", "2024-05-03T14:05:06+05:30", "second"),
        ("2024-05-03T14:05:06+05:45", "2024-05-03T14:05:06+05:45", "second"),
        ("2024-05-03T14:05:06.123-05:00", "2024-05-03T14:05:06-05:00", "second"),
        ("2024-05-03T14:05:06+08", "2024-05-03T14:05:06+08:00", "second"),
        ("2024-05-03 14:05Z", "2024-05-03T14:05:00+00:00", "minute"),
        ("2024-05-03 24:00", "2024-05-04T00:00:00+01:00", "minute"),
        ("2024-05-03", "2024-05-03T00:00:00+01:00", "day"),
        ("2024/05/03", "2024-05-03T00:00:00+01:00", "day"),
        ("20240503T140506Z", "2024-05-03T14:05:06+00:00", "second"),
        ("2024年5月3日", "2024-05-03T00:00:00+01:00", "day"),
        ("2024年", "2024-01-01T00:00:00+01:00", "year"),
        ("2024-05", "2024-05-01T00:00:00+01:00", "month"),
        ("1984", "1984-01-01T00:00:00+01:00", "year"),
        ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59+00:00", "second"),
        ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00", "second"),
        ("9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59-12:00", "second"),
    ],
)
def test_an_exact_time_keeps_its_own_offset_or_takes_the_given_one(text: str, iso: str, precision: Precision) -> None:
    found = resolve_time(text, WEDNESDAY, offset_minutes=60)

    assert found is not None
    assert found.iso() == iso
    assert found.precision == precision


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Alice",
        "张三",
        "soon",
        "the other day",
        "a few months ago",
        "every Friday",
        "some day",
        "not yet",
        "forever",
        "2 pm",
        "last Monday",
        "this Monday",
        "3.7.2017",
        "2024-13-01",
        "2024-02-30",
        "2024-05-03T25:00:00Z",
        "2024-05-03T14:05:06+99:00",
        "2024-05 10:00",
        "0000",
        "Feb 30",
        "31st of next month",
        "9999999999 years ago",
        "before 2019",
        "2019-2021",
        "Fri, 12 Dec 2014 10:55:50 IST",
        "小年",
        "初一",
        "腊月三十一",
        "两三天前",
        "十几年前",
        "小时候",
        "最近",
        "明天三点",
        "2月30日",
        "x" * 10_000,
    ],
)
def test_what_is_not_a_time_or_leaves_a_doubt_is_unknown(text: str) -> None:
    assert resolve_time(text, WEDNESDAY) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yesterday", "2024-05-14T00:00 day"),
        ("last Friday", "2024-05-10T00:00 day"),
        ("past Monday", "2024-05-13T00:00 day"),
        ("next Monday at 3pm", "2024-05-20T15:00 hour"),
        ("wednesday of last week", "2024-05-08T00:00 day"),
        ("the Friday before 15 July 2023", "2023-07-14T00:00 day"),
        ("two weeks ago", "2024-05-01T00:00 week"),
        ("a month ago", "2024-04-15T00:00 month"),
        ("a year and a half ago", "2022-11-15T00:00 month"),
        ("in 3 days", "2024-05-18T00:00 day"),
        ("2 hours ago", "2024-05-15T08:30 hour"),
        ("two days after tomorrow", "2024-05-18T00:00 day"),
        ("in March", "2024-03-01T00:00 month"),
        ("in August", "2023-08-01T00:00 month"),
        ("August next year", "2025-08-01T00:00 month"),
        ("since 2019", "2019-01-01T00:00 year"),
        ("the twenty-first of June, nineteen seventy eight", "1978-06-21T00:00 day"),
        ("second Monday of March 2024", "2024-03-11T00:00 day"),
        ("Q3 2023", "2023-07-01T00:00 quarter"),
        ("last summer", "2023-06-01T00:00 season"),
        ("the 1990s", "1990-01-01T00:00 decade"),
        ("the end of next month", "2024-06-30T00:00 month"),
        ("tonight at 8", "2024-05-15T20:00 hour"),
        ("quarter to seven yesterday evening", "2024-05-14T18:45 minute"),
        ("last night", "2024-05-14T20:00 day"),
        ("last Christmas", "2023-12-25T00:00 day"),
        ("Easter 2025", "2025-04-20T00:00 day"),
        ("25/12/2023", "2023-12-25T00:00 day"),
        ("2014 the 12th Dec", "2014-12-12T00:00 day"),
        ("the day before yesterday", "2024-05-13T00:00 day"),
        ("the week after next", "2024-05-27T00:00 week"),
        ("last week", "2024-05-06T00:00 week"),
        ("next friday", "2024-05-24T00:00 day"),
        ("coming friday", "2024-05-17T00:00 day"),
        ("this friday", "2024-05-17T00:00 day"),
        ("two fridays ago", "2024-05-03T00:00 day"),
        ("Tuesday the 14th", "2024-05-14T00:00 day"),
        ("last December", "2023-12-01T00:00 month"),
        ("20th of next month", "2024-06-20T00:00 day"),
        ("wed, 15 may", "2024-05-15T00:00 day"),
        ("4/22", "2024-04-22T00:00 day"),
        ("11/2016", "2016-11-01T00:00 month"),
        ("week 10 of 2019", "2019-03-04T00:00 week"),
        ("the week of May 3rd", "2024-04-29T00:00 week"),
        ("first week of 2018", "2018-01-01T00:00 week"),
        ("Q4", "2023-10-01T00:00 quarter"),
        ("first half of 2016", "2016-01-01T00:00 year"),
        ("next winter", "2024-12-01T00:00 season"),
        ("winter 2019", "2019-12-01T00:00 season"),
        ("last weekend", "2024-05-11T00:00 day"),
        ("year 247", "0247-01-01T00:00 year"),
        ("early 2019", "2019-01-01T00:00 year"),
        ("mid-June 2020", "2020-06-11T00:00 month"),
        ("end of the day", "2024-05-15T23:59 day"),
        ("next thanksgiving", "2024-11-28T00:00 day"),
        ("Labor Day 2023", "2023-09-04T00:00 day"),
        ("half past nine tomorrow morning", "2024-05-16T09:30 minute"),
        ("tomorrow at 12 am", "2024-05-16T00:00 hour"),
        ("10 minutes past noon tomorrow", "2024-05-16T12:10 minute"),
        ("two thousand and four", "2004-01-01T00:00 year"),
        ("twenty twelve", "2012-01-01T00:00 year"),
        ("the next 2 weeks", "2024-05-16T00:00 week"),
        ("昨天", "2024-05-14T00:00 day"),
        ("半年前", "2023-11-15T00:00 month"),
        ("最近三年", "2021-05-15T00:00 year"),
        ("上个季度", "2024-01-01T00:00 quarter"),
        ("周五", "2024-05-10T00:00 day"),
        ("下周末", "2024-05-25T00:00 day"),
        ("10月12号", "2023-10-12T00:00 day"),
        ("周三, 五月十五号", "2024-05-15T00:00 day"),
        ("去年本月十日", "2023-05-10T00:00 day"),
        ("12号", "2024-05-12T00:00 day"),
        ("12/25", "2023-12-25T00:00 day"),
        ("25/12/2020", "2020-12-25T00:00 day"),
        ("民国三年", "1914-01-01T00:00 year"),
        ("去年夏天", "2023-06-01T00:00 season"),
        ("五月中旬", "2024-05-11T00:00 month"),
        ("三月初", "2024-03-01T00:00 month"),
        ("母亲节", "2024-05-12T00:00 day"),
        ("十月的第一周", "2023-10-02T00:00 week"),
        ("今晚八点", "2024-05-15T20:00 hour"),
        ("明天凌晨", "2024-05-16T00:00 day"),
        ("前天", "2024-05-13T00:00 day"),
        ("三天前", "2024-05-12T00:00 day"),
        ("一年半前", "2022-11-15T00:00 month"),
        ("上周五", "2024-05-10T00:00 day"),
        ("上個禮拜五", "2024-05-10T00:00 day"),
        ("上上周三", "2024-05-01T00:00 day"),
        ("今年三月", "2024-03-01T00:00 month"),
        ("下个月底", "2024-06-30T00:00 month"),
        ("去年", "2023-01-01T00:00 year"),
        ("去年国庆", "2023-10-01T00:00 day"),
        ("去年年底", "2023-12-31T00:00 year"),
        ("二〇一九年三月十五号", "2019-03-15T00:00 day"),
        ("下周一下午三点半", "2024-05-20T15:30 minute"),
        ("十月的第一个星期一", "2023-10-02T00:00 day"),
        ("清明节", "2024-04-04T00:00 day"),
        ("20世纪80年代", "1980-01-01T00:00 decade"),
        ("2018年第二季度", "2018-04-01T00:00 quarter"),
    ],
)
def test_words_count_from_the_reference_time(text: str, expected: str) -> None:
    assert _read(text) == expected


def test_words_count_from_the_reference_time_as_seen_in_the_offset() -> None:
    late_evening = datetime(2024, 5, 15, 20, 0, tzinfo=UTC)

    found = resolve_time("today", late_evening, offset_minutes=345)

    assert found == Timepoint(int(datetime(2024, 5, 15, 18, 15, tzinfo=UTC).timestamp()), 345, "day")
    assert found.iso() == "2024-05-16T00:00:00+05:45"


def test_a_reference_time_without_an_offset_is_utc() -> None:
    aware = datetime(2024, 5, 15, 18, 30, tzinfo=timezone(timedelta(hours=8)))

    assert resolve_time("now", WEDNESDAY.replace(tzinfo=None)) == resolve_time("now", aware)
    assert from_datetime(WEDNESDAY.replace(tzinfo=None)) == from_datetime(WEDNESDAY)
    assert from_datetime(aware) == Timepoint(from_datetime(WEDNESDAY).seconds, 480, "second")


def test_digits_alone_are_read_in_the_order_of_the_language() -> None:
    english = resolve_time("3-7-2017", WEDNESDAY, language="en")
    chinese = resolve_time("3-7-2017", WEDNESDAY, language="cn")

    assert english is not None
    assert english.format() == "7 March 2017"
    assert chinese is None


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("since 2019", "2019-01-01T00:00:00", None),
        ("until last Friday", None, "2024-05-10T23:59:59"),
        ("until March 2024", None, "2024-03-31T23:59:59"),
        ("before 2018", None, "2017-12-31T23:59:59"),
        ("from March to May", "2024-03-01T00:00:00", "2024-05-31T23:59:59"),
        ("from November to March", "2023-11-01T00:00:00", "2024-03-31T23:59:59"),
        ("from Monday to Friday", "2024-05-13T00:00:00", "2024-05-17T23:59:59"),
        ("May 3-7, 2023", "2023-05-03T00:00:00", "2023-05-07T23:59:59"),
        ("Jan-Mar 2020", "2020-01-01T00:00:00", "2020-03-31T23:59:59"),
        ("2019-2021", "2019-01-01T00:00:00", "2021-12-31T23:59:59"),
        ("between 2015 and June 2018", "2015-01-01T00:00:00", "2018-06-30T23:59:59"),
        ("2019 to present", "2019-01-01T00:00:00", None),
        ("tomorrow from 9am to 5pm", "2024-05-16T09:00:00", "2024-05-16T17:00:00"),
        ("in 2020", "2020-01-01T00:00:00", "2020-12-31T23:59:59"),
        ("2020-02", "2020-02-01T00:00:00", "2020-02-29T23:59:59"),
        ("the last 3 weeks", "2024-04-24T00:00:00", "2024-05-14T23:59:59"),
        ("三月到五月", "2024-03-01T00:00:00", "2024-05-31T23:59:59"),
        ("从2019年起", "2019-01-01T00:00:00", None),
        ("2020年至今", "2020-01-01T00:00:00", None),
        ("直到上周", None, "2024-05-12T23:59:59"),
        ("2018年之前", None, "2017-12-31T23:59:59"),
        ("从一月十日到十二日", "2024-01-10T00:00:00", "2024-01-12T23:59:59"),
        ("明天下午两点到五点", "2024-05-16T14:00:00", "2024-05-16T17:00:00"),
        ("去年上半年", "2023-01-01T00:00:00", "2023-06-30T23:59:59"),
        ("today", "2024-05-15T00:00:00", None),
        ("since I was a child", None, None),
        ("1 pm to 4", None, None),
        ("from May 2024 to March 2023", None, None),
        ("", None, None),
    ],
)
def test_a_period_has_the_ends_that_the_words_give(text: str, since: str | None, until: str | None) -> None:
    assert _period(text) == (since, until)


@pytest.mark.parametrize(
    ("precision", "english", "chinese"),
    [
        ("second", "3 January 2024, 14:05:06 (UTC+08:00)", "2024年1月3日 14:05:06 (UTC+08:00)"),
        ("minute", "3 January 2024, 14:05 (UTC+08:00)", "2024年1月3日 14:05 (UTC+08:00)"),
        ("hour", "3 January 2024, 14h (UTC+08:00)", "2024年1月3日 14时 (UTC+08:00)"),
        ("day", "3 January 2024", "2024年1月3日"),
        ("week", "week of 1 January 2024", "2024年1月1日那一周"),
        ("month", "January 2024", "2024年1月"),
        ("quarter", "Q1 2024", "2024年第一季度"),
        ("season", "winter 2023", "2023年冬季"),
        ("year", "2024", "2024年"),
        ("decade", "2020s", "2020年代"),
    ],
)
def test_a_time_is_printed_only_as_exactly_as_it_is_known(precision: Precision, english: str, chinese: str) -> None:
    seconds = int(datetime(2024, 1, 3, 6, 5, 6, tzinfo=UTC).timestamp())

    assert format_seconds(seconds, 480, precision) == english
    assert format_seconds(seconds, 480, precision, "cn") == chinese


@pytest.mark.parametrize(
    ("seconds", "offset", "printed"),
    [
        (LAST_SECOND, 480, "9999-12-31T23:59:59+00:00"),
        (FIRST_SECOND, -480, "0001-01-01T00:00:00+00:00"),
        (LAST_SECOND + 8 * 3600, -480, "9999-12-31T23:59:59-08:00"),
        (LAST_SECOND + 1, 0, "9999-12-31T23:59:59+00:00"),
        (-(10**12), 60, "0001-01-01T00:00:00+00:00"),
    ],
    ids=["last hours", "first hours", "last second elsewhere", "after", "before"],
)
def test_a_time_at_an_edge_of_the_calendar_is_told_in_utc_if_its_offset_leads_out(
    seconds: int, offset: int, printed: str
) -> None:
    time = Timepoint(seconds, offset)

    assert time.iso() == time.short_iso() == printed
    assert utc_moment(seconds).year == int(printed[:4])


@settings(deadline=None)
@given(
    st.integers(FIRST_SECOND - 10**6, FIRST_SECOND + 10**7)
    | st.integers(LAST_SECOND - 10**7, LAST_SECOND + 10**6)
    | st.integers(-(10**13), 10**13),
    st.integers(-14 * 60, 14 * 60),
    st.sampled_from(PRECISIONS),
)
def test_whatever_is_stored_as_a_time_can_be_printed(seconds: int, offset: int, precision: Precision) -> None:
    time = Timepoint(seconds, offset, precision)

    printed = [time.iso(), time.short_iso(), time.format("en"), time.format("cn"), time.last_second().iso()]

    assert all(printed)
    assert parse_iso(time.iso()) is not None


@settings(deadline=None)
@given(st.datetimes(), st.integers(-14 * 60, 14 * 60), st.sampled_from(PRECISIONS))
def test_the_last_second_of_a_unit_lies_in_it_and_stays_the_last(
    moment: datetime, offset: int, precision: Precision
) -> None:
    start = from_datetime(moment.replace(tzinfo=timezone(timedelta(minutes=offset))))
    time = Timepoint(start.seconds, offset, precision)

    last = time.last_second()

    assert last.seconds >= time.seconds
    assert last.last_second() == last
    assert last.format() == time.format() or precision in {"second", "minute", "hour", "day"}


@settings(deadline=None)
@given(st.datetimes(), st.integers(-14 * 60, 14 * 60))
def test_the_iso_form_is_read_back_as_the_same_time(moment: datetime, offset: int) -> None:
    time = from_datetime(moment.replace(tzinfo=timezone(timedelta(minutes=offset))))

    assert resolve_time(time.iso(), WEDNESDAY) == time


@pytest.mark.parametrize("text", ["before year 1", "before 0001-01-01", "until before the year 1"])
def test_nothing_lies_before_the_first_year(text: str) -> None:
    assert _period(text)[1] is None


_WORDS = """
    last next this the of in from to until since between and ago day days week month year may friday 3 12 31 2019 99
    end early q3 1st at 3pm 8:00 noon half past century - / , . before after 1 0001 9999
    从 到 上 下 个 周 月 日 年 三 十 二〇一九年 底 前 后 点 半 国庆
"""
_PHRASES = st.lists(st.sampled_from(_WORDS.split()), max_size=7)


@settings(deadline=None)
@given(st.one_of(st.text(max_size=40), _PHRASES.map(" ".join), _PHRASES.map("".join)), st.datetimes())
def test_no_words_and_no_reference_time_raise(text: str, reference: datetime) -> None:
    found = resolve_time(text, reference, offset_minutes=330)
    since, until = resolve_period(text, reference, offset_minutes=330)

    assert found is None or found.format()
    assert since is None or until is None or since.seconds <= until.seconds


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("2024", "2024"),
        ("2024-05", "2024-05"),
        (" 2024-05-03 ", "2024-05-03"),
        ("2024-05-03T14:05+02:00", "2024-05-03T14:05+02:00"),
        ("2024-05-03T14:05", "2024-05-03T14:05+00:00"),
    ],
    ids=["year", "month", "day", "offset", "without offset"],
)
def test_iso_alone_is_read_as_exactly_as_it_is_given(text: str, short: str) -> None:
    found = parse_iso(text)

    assert found is not None
    assert found.short_iso() == short


@pytest.mark.parametrize("text", ["", "yesterday", "2024-13", "2024-02-30", "May 2024", "1" * 200])
def test_other_texts_than_iso_are_none(text: str) -> None:
    assert parse_iso(text) is None


@pytest.mark.parametrize(
    ("since", "until", "en", "cn"),
    [
        ("2021", None, "since 2021", "自2021年起"),
        (None, "2024-05", "until May 2024", "至2024年5月"),
        ("2021", "2024-05-03", "2021 to 3 May 2024", "2021年至2024年5月3日"),
        (None, None, "", ""),
    ],
    ids=["since", "until", "both", "neither"],
)
def test_a_stretch_of_time_is_told_in_each_language(since: str | None, until: str | None, en: str, cn: str) -> None:
    begins, ends = ((text and parse_iso(text)) or None for text in (since, until))

    assert (format_period(begins, ends), format_period(begins, ends, "cn")) == (en, cn)


def test_the_library_for_dates_is_loaded_only_when_it_is_needed() -> None:
    code = (
        "import sys, datetime; from jiuwen_memory.foundation.timepoint import resolve_time; "
        "resolve_time('last Friday', datetime.datetime(2024, 5, 15)); print('dateparser' in sys.modules)"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "False"


def test_the_benchmark_says_that_it_skips_without_data() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JIUWEN_MEMORY_DATE_DATA"}

    run = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.dates"], capture_output=True, text=True, check=True, env=environment
    )

    assert "Skipped" in run.stdout
