from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.text import (
    clean_text,
    cut_bytes,
    estimate_tokens,
    is_cjk,
    normalise_name,
    query_tokens,
    search_tokens,
    split_text,
)

ANY_TEXT = st.text(max_size=200)
UNCLEAN_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
MIXED_TEXT = st.text("ab é.!?。；\n\t 张三のタ\U0001f600\u0301\u200d\x00", max_size=300)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Running runs", "run run"),
        ("pony ponies", "poni poni"),
        ("naïve Café", "naiv cafe"),
        ("O'Brien’s dog", "obrien dog"),
        ("don't", "dont"),
        ("a_b-c", "a b c"),
        ("Straße ﬁne Øre", "strass fine ore"),
        ("GPT4 costs 3.5", "gpt4 cost 3 5"),
        ("ＨＵＡＷＥＩ", "huawei"),
        ("张三", "张 三 张三"),
        ("北京大学", "北 京 大 学 北京 京大 大学"),
        ("ﾀﾜｰ", "タ ワ ー タワ ワー"),
        ("ガ", "ガ"),
        ("𠮷野家", "𠮷 野 家 𠮷野 野家"),
        ("张三likes Python", "张 三 张三 like python"),
        ("हिन्दी भाषा", "हिन्दी भाषा"),
        ("Москва", "москва"),
        ("...", ""),
    ],
)
def test_stored_text_becomes_folded_and_stemmed_tokens(text: str, tokens: str) -> None:
    assert search_tokens(text) == tokens


@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        ("What is the database?", "databas"),
        ("the who", "the who"),
        ("张三的公司", "张三 公司"),
        ("三", "三"),
        ("什么时候", "时候"),
        ("的", "的"),
        ("目的地", "目的 的地"),
        ("in May", "may"),
        ("", ""),
    ],
)
def test_a_query_keeps_only_what_tells_something(query: str, tokens: str) -> None:
    assert query_tokens(query) == tokens


@given(ANY_TEXT)
def test_every_query_token_of_a_text_is_a_search_token_of_it(text: str) -> None:
    stored = set(search_tokens(text).split())

    asked = set(query_tokens(text).split())

    assert asked <= stored
    assert bool(asked) == bool(stored)


@given(ANY_TEXT)
def test_tokens_hold_no_underscore_and_do_not_depend_on_case(text: str) -> None:
    tokens = search_tokens(text)

    assert "_" not in tokens
    assert tokens == " ".join(tokens.split())


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ('"The University of Oslo"', "university of oslo"),
        ("Ｈｕａｗｅｉ", "huawei"),
        ("Wei\u200b Zhang ", "wei  zhang"),
        ("Alice's", "ALICE"),
        ("Alice’s", "alice"),
        ("《红楼梦》", "红楼梦"),
        ("张 三", "张三"),
        ("Acme Inc.", "acme inc"),
        ("(Python)", "python"),
    ],
)
def test_spellings_of_one_name_are_the_same(left: str, right: str) -> None:
    assert normalise_name(left) == normalise_name(right)


@pytest.mark.parametrize(("left", "right"), [("C#", "C++"), ("C", "C#"), (".NET", "Net"), ("The Who", "WHO")])
def test_different_names_stay_different(left: str, right: str) -> None:
    assert normalise_name(left) != normalise_name(right)


@given(st.one_of(ANY_TEXT, st.text("\"' the().s'’\u200b A张", max_size=20)))
def test_a_normalised_name_stays_as_it_is_and_is_never_empty(name: str) -> None:
    once = normalise_name(name)

    assert normalise_name(once) == once
    assert bool(once) == bool(name)


@given(UNCLEAN_TEXT)
def test_clean_text_can_be_encoded_and_stays_clean(text: str) -> None:
    cleaned = clean_text(text)

    assert cleaned.encode().decode() == cleaned
    assert "\0" not in cleaned
    assert clean_text(cleaned) == cleaned


def test_a_lone_surrogate_becomes_one_replacement_character() -> None:
    assert clean_text("a\ud800b\0c") == "a\ufffdbc"


@given(MIXED_TEXT, st.integers(0, 80))
def test_a_cut_is_a_beginning_within_the_limit(text: str, limit: int) -> None:
    cut = cut_bytes(text, limit)

    assert text.startswith(cut)
    assert len(cut.encode()) <= limit
    assert cut == text or len(cut.encode()) > limit - 4 or "\u0301" in text or "\u200d" in text


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("abc", 2, "ab"),
        ("张三", 5, "张"),
        ("be\u0301", 3, "b"),
        ("e\u0301", 1, "e"),
        ("\U0001f600", 3, ""),
        ("x", -1, ""),
    ],
)
def test_a_cut_falls_between_characters(text: str, limit: int, cut: str) -> None:
    assert cut_bytes(text, limit) == cut


def test_tokens_are_estimated_by_script() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("abcde") == 2
    assert estimate_tokens("张三ab") == 3
    assert is_cjk("张")
    assert not is_cjk("a")


@settings(max_examples=200)
@given(MIXED_TEXT, st.integers(1, 20), st.integers(4, 60))
def test_parts_join_to_the_text_and_respect_both_limits(text: str, max_tokens: int, max_bytes: int) -> None:
    parts = split_text(text, max_tokens, max_bytes=max_bytes)

    assert "".join(parts) == text
    assert all(parts)
    assert all(estimate_tokens(part) <= max_tokens and len(part.encode()) <= max_bytes for part in parts)


@pytest.mark.parametrize(
    "text",
    [
        "The cat sat on the mat. " * 42_000,
        "他在华为工作。" * 43_000,
        "x" * 1_000_000,
        "." * 100_000,
        "\n" * 100_000,
        clean_text("\ud800" * 1000),
    ],
)
def test_long_inputs_are_split_whole(text: str) -> None:
    parts = split_text(text, 2_000, max_bytes=20_000)

    assert "".join(parts) == text
    assert all(estimate_tokens(part) <= 2_000 and len(part.encode()) <= 20_000 for part in parts)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("one one.\n\ntwo two. x", ["one one.\n\n", "two two. x"]),
        ("one one\ntwo two xx", ["one one\n", "two two xx"]),
        ("One one. Two two xx", ["One one. ", "Two two xx"]),
        ("aaaa bbbb cccc", ["aaaa bbbb ", "cccc"]),
        ("aaaabbbbccccdddd", ["aaaabbbbcccc", "dddd"]),
    ],
)
def test_the_best_boundary_is_chosen(text: str, parts: list[str]) -> None:
    assert split_text(text, 3, max_bytes=100) == parts


def test_impossible_limits_are_refused() -> None:
    with pytest.raises(InvalidInputError):
        split_text("text", 0, max_bytes=100)
