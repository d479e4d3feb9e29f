"""Numbers written as words, in English and Chinese, as digits. Pure functions."""

from __future__ import annotations

import re

_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth"
)
_CARDINAL = {word: value for value, word in enumerate((_ONES + " seventeen eighteen nineteen").split())} | {
    word: 20 + 10 * place for place, word in enumerate(_TENS.split())
}
_ORDINAL = (
    {word: value for value, word in enumerate(_ORDINALS.split())}
    | {f"{word}th": value for word, value in _CARDINAL.items() if 15 <= value <= 19}
    | {"twentieth": 20, "thirtieth": 30}
)
_HYPHENATED = re.compile(rf"\b({'|'.join(_CARDINAL)})-(?=[a-z])")
# "second" is a unit of time where it is counted, and an ordinal elsewhere.
_COUNTED_BEFORE = frozenset({"a", "an", "one", "last", "past", "next", "this", "per", "every", "half", "in"})
_COUNTED_AFTER = frozenset({"ago", "from", "later", "hence", "before", "after", "earlier"})


def digits_of_english(text: str) -> str:
    """Return a lower-case English text with digits for words: "twenty-first" as "21st", "nineteen ten" as "1910"."""
    tokens = re.sub(r"\ban? (?=hundred|thousand)", "one ", _HYPHENATED.sub(r"\1 ", text)).replace(",", " , ").split()
    done: list[str] = []
    place = 0
    while place < len(tokens):
        value, ordinal, following = _number_at(tokens, place)
        if following == place or (tokens[place] == "second" and _is_unit(tokens, place)):
            done.append(tokens[place])
            place += 1
        else:
            done.append(f"{value}{_suffix(value) if ordinal else ''}")
            place = following
    return " ".join(done).replace(" ,", ",")


def _is_unit(tokens: list[str], place: int) -> bool:
    before = tokens[place - 1] if place else ""
    after = tokens[place + 1] if place + 1 < len(tokens) else ""
    return before in _COUNTED_BEFORE or before.isdigit() or before in _CARDINAL or after in _COUNTED_AFTER


def _suffix(value: int) -> str:
    return "th" if 11 <= value % 100 <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")


def _number_at(tokens: list[str], place: int) -> tuple[int, bool, int]:
    """Return the number at a token, whether it is an ordinal, and where it ends (`place` if there is none)."""
    value, ordinal, following = _below_hundred(tokens, place)
    if following == place or ordinal:
        return value, ordinal, following
    after = tokens[following : following + 1]
    if after in (["hundred"], ["thousand"]):
        value *= 100 if after == ["hundred"] else 1000
        following += 1
        rest = following + (tokens[following : following + 1] == ["and"])
        more, ordinal, end = _number_at(tokens, rest)
        return (value + more, ordinal, end) if end > rest and more < value else (value, False, following)
    if 10 <= value <= 20:
        pair, pair_ordinal, end = _below_hundred(tokens, following)
        if end > following and pair >= 10 and not pair_ordinal:
            return value * 100 + pair, False, end
    return value, False, following


def _below_hundred(tokens: list[str], place: int) -> tuple[int, bool, int]:
    word = tokens[place] if place < len(tokens) else ""
    if word in _ORDINAL:
        return _ORDINAL[word], True, place + 1
    value = _CARDINAL.get(word)
    if value is None:
        return 0, False, place
    following = tokens[place + 1] if place + 1 < len(tokens) else ""
    if value >= 20 and 0 < _CARDINAL.get(following, 0) < 10:
        return value + _CARDINAL[following], False, place + 2
    if value >= 20 and 0 < _ORDINAL.get(following, 0) < 10:
        return value + _ORDINAL[following], True, place + 2
    return value, False, place + 1


_CHINESE_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {
    "〇": 0,
    "○": 0,
    "两": 2,
    "兩": 2,
}
_CHINESE_NUMBER = re.compile("[零〇○一二两兩三四五六七八九十百千廿卅]+")
_ESTIMATE = re.compile("[一二两兩三四五六七八九]{2}")
_CHINESE_UNITS = {"十": 10, "百": 100, "千": 1000}


def digits_of_chinese(text: str) -> str:
    """Return a Chinese text with its numbers as digits: 二〇一九年 as 2019年, 二十三 as 23, 两千零四 as 2004."""
    return _CHINESE_NUMBER.sub(lambda match: _chinese_number(match[0]), text)


def _chinese_number(run: str) -> str:
    run = run.replace("廿", "二十").replace("卅", "三十")
    if _ESTIMATE.search(run) and any(char in _CHINESE_UNITS for char in run):
        # 七八十: seventy or eighty.
        return run
    if not any(char in _CHINESE_UNITS for char in run):
        # Two digits in a row are an estimate (两三天: two or three days), except after a zero (零八年).
        if len(run) == 2 and run[0] not in "零〇○":
            return run
        return "".join(str(_CHINESE_DIGITS[char]) for char in run)
    total, digit = 0, 0
    for char in run:
        if char in _CHINESE_UNITS:
            total += (digit or 1) * _CHINESE_UNITS[char]
            digit = 0
        else:
            digit = _CHINESE_DIGITS[char]
    return str(total + digit)
