"""Reading a language model's reply: finding the JSON in it, whole or cut off, and the items in the JSON. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from jiuwen_memory.foundation.text import clean_text, is_blank

_THINKING: Final = re.compile(r"(?is)<(think|thinking|thought|reasoning|reflection)>.*?</\1>")
_END_OF_THINKING: Final = re.compile(r"(?is)^.*</(?:think|thinking|thought|reasoning|reflection)>")
_OPEN_THINKING: Final = re.compile(r"(?is)<(?:think|thinking|thought|reasoning|reflection)>.*$")
_FENCE: Final = re.compile(r"```[ \t]*\w*[ \t]*\r?\n?(.*?)(?:```|\Z)", re.DOTALL)
_NUMBER: Final = re.compile(r"-?\d+(?:\.0+)?")
_DIGITS_OF_64_BITS: Final = 19
_ITEM_LEVEL: Final = ("[", "{[", "{")
_WRAPPERS: Final = ("arguments", "parameters", "result", "results", "response", "answer", "output", "data")
_PLACEHOLDERS: Final = frozenset(
    {"", "none", "null", "nil", "nan", "n/a", "na", "unknown", "undefined", "empty", "not specified", "not available"}
    | {"not mentioned", "-", "--", "—", "...", "…", "?", "无", "没有", "暂无", "未知", "不详", "未提及", "空", "无信息"}
)


class UnusableReplyError(ValueError):
    """Nothing of a reply can be used."""


@dataclass
class Reply:
    """A reply as it was read: the JSON values in it, and a note of each item that was left out."""

    text: str
    values: tuple[JsonValue, ...]
    is_cut: bool = False
    dropped: list[str] = field(default_factory=list)

    def drop(self, item: object, reason: str) -> None:
        """Note that an item is left out."""
        shown = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, default=str)
        self.dropped.append(f"{shown[:120]} ({reason})")


def is_placeholder(text: str) -> bool:
    """Tell whether a whole value only says that there is none."""
    return text.strip().strip(".。!！\"'`()（）[]<>").strip().casefold() in _PLACEHOLDERS


def parse_reply(text: str) -> Reply:
    """Return the JSON values of a reply: without reasoning, fences and chatter, repaired, cut back to items."""
    answer = _without_thinking(text)
    values, is_cut = _values_of(answer)
    with_items = [value for value in values if _holds_items(value)]
    return Reply(text=text, values=tuple(with_items or values), is_cut=is_cut)


def _without_thinking(text: str) -> str:
    # Some servers take the opening tag away, some replies end before the closing one.
    return _OPEN_THINKING.sub("", _END_OF_THINKING.sub("", _THINKING.sub(" ", text)))


def _values_of(text: str) -> tuple[list[JsonValue], bool]:
    fenced = "\n".join(_FENCE.findall(text))
    for candidate in (fenced, text):
        if "{" in candidate or "[" in candidate:
            values, is_cut = _scan(candidate)
            if values:
                return values, is_cut
    return [], False


def _holds_items(value: JsonValue) -> bool:
    """Tell an answer from a list of bare numbers or words in the chatter around it."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value))


def _scan(text: str) -> tuple[list[JsonValue], bool]:
    """Return the values that are valid JSON; without any, the repaired ones; and whether the last was cut off."""
    valid: list[JsonValue] = []
    repaired: list[JsonValue] = []
    is_cut = False
    position = _next_opening(text, 0)
    while position >= 0:
        try:
            value, end = _DECODER.raw_decode(text, position)
            valid.append(value)
        except (json.JSONDecodeError, RecursionError):
            span = _span(text, position)
            end = span.end
            is_cut = not span.is_closed
            repaired.extend(_repair(span.text))
        position = _next_opening(text, end)
    answers = [value for value in valid if not _is_schema(value)]
    if is_cut and repaired:
        return [*answers, *repaired], True
    return (answers or ([] if valid and not repaired else repaired)), is_cut


def _next_opening(text: str, start: int) -> int:
    found = [place for place in (text.find("{", start), text.find("[", start)) if place >= 0]
    return min(found, default=-1)


def _first_wins(pairs: Sequence[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    result: dict[str, JsonValue] = {}
    for key, value in pairs:
        result.setdefault(key, value)
    return result


def _whole(digits: str) -> int | str:
    return int(digits) if len(digits) < _DIGITS_OF_64_BITS else digits


def _fraction(digits: str) -> float | str:
    return number if math.isfinite(number := float(digits)) else digits


# Numbers that no store can hold stay digits, and what is no number is nothing.
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_first_wins,
    parse_int=_whole,
    parse_float=_fraction,
    parse_constant=lambda name: None,
    strict=False,
)


def _is_schema(value: JsonValue) -> bool:
    if not isinstance(value, dict):
        return False
    return "$defs" in value or "$schema" in value or (value.get("type") == "object" and "properties" in value)


@dataclass(frozen=True)
class _Span:
    text: str
    end: int
    is_closed: bool


def _span(text: str, start: int) -> _Span:
    """Return the balanced piece that begins at a bracket, or, when it never closes, all its complete items, closed."""
    stack = ""
    safe: tuple[int, str] | None = None
    for index, char in _outside_strings(text, start):
        if char in "{[":
            stack += char
        elif char in "}]":
            stack = stack[:-1]
            if not stack:
                return _Span(text[start : index + 1], index + 1, True)
            if stack in _ITEM_LEVEL:
                safe = (index + 1, stack)
        elif char == "," and stack in _ITEM_LEVEL:
            safe = (index, stack)
    if safe is None:
        return _Span("", len(text), False)
    end, opened = safe
    closing = "".join("}" if bracket == "{" else "]" for bracket in reversed(opened))
    return _Span(text[start:end] + closing, len(text), False)


def _outside_strings(text: str, start: int) -> Iterator[tuple[int, str]]:
    in_string = escaped = False
    for index in range(start, len(text)):
        char = text[index]
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "{}[],":
            yield index, char


def _repair(text: str) -> list[JsonValue]:
    if not text:
        return []
    try:
        value = _DECODER.decode(text)
    except (json.JSONDecodeError, RecursionError):
        value = _loosely_read(text)
    return [value] if isinstance(value, (dict, list)) and not _is_schema(value) else []


def _loosely_read(text: str) -> JsonValue:
    from json_repair import repair_json

    try:
        value: JsonValue = _DECODER.decode(repair_json(text, ensure_ascii=False))
    except (ValueError, RecursionError):
        return None
    return value


def fold_key(key: object) -> str:
    """Return a key without case, spaces and dashes."""
    return re.sub(r"[\s-]+", "_", str(key).strip().casefold())


def folded(item: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return an item with folded keys."""
    return _first_wins([(fold_key(key), value) for key, value in item.items()])


def read_items(reply: Reply, *, keys: Sequence[str], marks: Sequence[str]) -> list[JsonValue]:
    """Return the items of a list, wherever the reply has put them.

    Args:
        keys: names the list may stand under.
        marks: names of fields that show an object to be one item.
    """
    found = [items for value in reply.values if (items := _items(value, keys, marks)) is not None]
    if not found:
        raise UnusableReplyError("no list of items")
    return [item for items in found for item in items]


def read_named_items(reply: Reply, *, keys: Sequence[str], marks: Sequence[str]) -> list[JsonValue] | None:
    """Return the items of a list that stands under one of these names, or None if the reply has no such list."""
    for value in reply.values:
        fields = folded(value) if isinstance(value, dict) else {}
        for wrapper in _WRAPPERS:
            inner = unquoted(fields.get(wrapper))
            if isinstance(inner, dict):
                fields = {**folded(inner), **fields}
        name = _named(fields, keys)
        if name:
            return _as_list(fields[name], marks)
    return None


def _items(value: JsonValue, keys: Sequence[str], marks: Sequence[str]) -> list[JsonValue] | None:
    if isinstance(value, list):
        return [part for item in value for part in _unwrapped(item, keys)]
    if not isinstance(value, dict):
        return None
    fields = folded(value)
    name = _named(fields, keys)
    if name:
        return _as_list(fields[name], marks)
    for wrapper in _WRAPPERS:
        if isinstance(fields.get(wrapper), (dict, list, str)):
            return _items(unquoted(fields[wrapper]), keys, marks)
    if any(mark in fields for mark in marks):
        return [value]
    lists = [part for part in fields.values() if isinstance(part, list)]
    if len(lists) == 1:
        return lists[0]
    only = next(iter(fields.values())) if len(fields) == 1 else None
    return _items(only, keys, marks) if isinstance(only, dict) else None


def _unwrapped(item: JsonValue, keys: Sequence[str]) -> list[JsonValue]:
    """Return the items of a list that stands, as an object of its own, inside a list."""
    fields = folded(item) if isinstance(item, dict) else {}
    name = _named(fields, keys)
    inner = fields[name] if name else None
    return inner if isinstance(inner, list) and len(fields) == 1 else [item]


def _named(fields: Mapping[str, JsonValue], keys: Sequence[str]) -> str | None:
    return next((key for key in keys if key in fields), None)


def _as_list(value: JsonValue, marks: Sequence[str]) -> list[JsonValue]:
    value = unquoted(value)
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return [value] if any(mark in folded(value) for mark in marks) else list(value.values())
    return [] if value is None or value is False or is_placeholder(str(value)) else [value]


def unquoted(value: JsonValue) -> JsonValue:
    """Return a value; JSON that was put into a string is read."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        inner, _ = _scan(value)
        return inner[0] if inner else value
    return value


def read_keyed(
    reply: Reply, *, count: int, keys: Sequence[str] = (), marks: Sequence[str] = ()
) -> dict[int, JsonValue]:
    """Return answers by their number, from an object keyed by numbers or a list of items with an id or in order."""
    result: dict[int, JsonValue] = {}
    for value in reply.values:
        for number, answer in _keyed(value, count, keys, marks).items():
            result.setdefault(number, answer)
    if not result:
        raise UnusableReplyError("no numbered answers")
    return result


def _keyed(value: JsonValue, count: int, keys: Sequence[str], marks: Sequence[str]) -> dict[int, JsonValue]:
    if isinstance(value, list):
        return _keyed_list(value, count, marks)
    if not isinstance(value, dict):
        return {}
    numbered = {number: part for key, part in value.items() if (number := read_id(key)) is not None}
    if numbered:
        return numbered
    fields = folded(value)
    if "id" in fields and (number := read_id(fields["id"])) is not None:
        return {number: value}
    for wrapper in (*keys, *_WRAPPERS):
        inner = unquoted(fields.get(wrapper))
        if isinstance(inner, (dict, list)):
            return _keyed(inner, count, keys, marks)
    return {1: value} if count == 1 and any(mark in fields for mark in (*marks, *keys)) else {}


def _keyed_list(items: list[JsonValue], count: int, marks: Sequence[str]) -> dict[int, JsonValue]:
    result: dict[int, JsonValue] = {}
    for item in items:
        if isinstance(item, dict):
            fields = folded(item)
            number = read_id(fields.get("id", fields.get("number", fields.get("index"))))
            for key, part in {number: item}.items() if number is not None else _keyed(item, 0, (), marks).items():
                result.setdefault(key, part)
    if result or len(items) != count:
        return result
    return dict(enumerate(items, start=1))


def read_id(value: JsonValue) -> int | None:
    """Return the number that `3`, `3.0`, `"3"`, `"[3]"` or `{"id": 3}` means, or None."""
    if isinstance(value, dict):
        return read_id(folded(value).get("id"))
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    text = str(value).strip().strip("[]()#. ").strip()
    text = text.casefold().removeprefix("id").strip(" :=_#")
    return int(float(text)) if len(text) < 16 and _NUMBER.fullmatch(text) else None


def read_ids(value: JsonValue) -> list[int]:
    """Return the numbers of a list, or the one number that stands where a list should, each once."""
    if isinstance(value, str):
        parts: list[JsonValue] = [*re.split(r"[,;，、\s]+", value.strip("[] "))]
    else:
        parts = value if isinstance(value, list) else [value]
    numbers = [number for part in parts if (number := read_id(part)) is not None]
    return list(dict.fromkeys(numbers))


def read_text(value: JsonValue) -> str:
    """Return a value as clean text; nothing, a placeholder, a yes or no, or a structure gives an empty one."""
    if value is None or isinstance(value, (bool, dict, list)):
        return ""
    text = clean_text(str(value)).strip()
    return "" if is_blank(text) or is_placeholder(text) else text
