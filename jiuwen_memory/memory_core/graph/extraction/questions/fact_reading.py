"""Reads facts whose ends are names, with their qualifiers, out of a model's items. Values in, values out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from pydantic import JsonValue

from jiuwen_memory.foundation.text import is_cjk, normalise_name
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import EntityDef
from jiuwen_memory.memory_core.graph.extraction.ontology import Ontology, named_type
from jiuwen_memory.memory_core.graph.extraction.questions.entities import NameCheck, is_date, within_limit
from jiuwen_memory.memory_core.graph.extraction.questions.relations import (
    DEFAULT_NAME,
    FACT_FIELDS,
    NAME_FIELDS,
    SINCE_FIELDS,
    SOURCE_FIELDS,
    TARGET_FIELDS,
    UNTIL_FIELDS,
    Ends,
    first_of,
    mention_labels,
    without_repeats,
)
from jiuwen_memory.memory_core.graph.extraction.reply import Reply, fold_key, folded, read_id, read_text, unquoted
from jiuwen_memory.memory_core.graph.extraction.values import Fact, Mention, SourceText

LONGEST_END: Final = 60
"""Characters of an end that is a thing and not half a sentence; what is longer stays in the fact's words."""
QUALIFIERS_KEPT: Final = 8
_PAIR: Final = 2
_LONGEST_KEY: Final = 40
_LONGEST_VALUE: Final = 200
_USUAL: Final = ("time", "place", "emotion", "intent")
_TIMES: Final = ("time", "when", "date", *SINCE_FIELDS)
_SPEAKERS: Final = ("said_by", "speaker", "told_by", "source_speaker")
_FIRST_PERSON: Final = frozenset({"i", "me", "my", "myself", "we", "us", "我", "我们", "咱们", "自己", "本人"})
_KEY_NAMES: Final = {
    **dict.fromkeys(("year", "date", "when", "day", "时间", "日期"), "time"),
    **dict.fromkeys(("location", "where", "地点", "位置"), "place"),
    **dict.fromkeys(("情绪", "情感"), "emotion"),
    "意图": "intent",
}
_TOLD_TIME: Final = re.compile(r"[^\W\d_]|(?<!\d)\d{4}(?!\d)")
_SENTENCE_END: Final = re.compile(r"[!?！？。；]$|[a-z]{3}\.$")
_QUALIFIER_LISTS: Final = ("qualifiers", "qualifier", "circumstances", "context")


class FactReader:
    """Reads items as facts; `mentions` grows by the ends that were not listed, if they `is_open` to that."""

    def __init__(
        self,
        mentions: Sequence[Mention],
        names: NameCheck,
        *,
        source: SourceText,
        ontology: Ontology,
        reply: Reply,
        is_open: bool,
    ) -> None:
        self.mentions = list(mentions)
        self._names = names
        self._speakers = {normalise_name(name): name for name in source.speakers}
        self._ontology = ontology
        self._reply = reply
        self._is_open = is_open
        self._ends = Ends(mentions, mention_labels(mentions))

    @property
    def is_strict(self) -> bool:
        """What the answer says may all be left out, since it is of none of the listed types."""
        return self._ontology.closed_entities or self._ontology.closed_relations

    def facts(self, items: Sequence[JsonValue]) -> list[Fact]:
        """Return the items that are facts, each once; what the others lack is noted in the reply."""
        found = [fact for item in items if (fact := self._fact(_fields_of(item), item)) is not None]
        return without_repeats(found, mentions=self.mentions, reply=self._reply)

    def _fact(self, fields: Mapping[str, JsonValue], item: JsonValue) -> Fact | None:
        subject = _line(first_of(fields, SOURCE_FIELDS))
        target = _line(first_of(fields, TARGET_FIELDS))
        name = _line(first_of(fields, NAME_FIELDS)) or DEFAULT_NAME
        qualifiers = self._qualifiers(fields)
        named = first_of(fields, _SPEAKERS) or qualifiers.get("said_by")
        speaker = self._speakers.get(normalise_name(_line(named)), "")
        subject, target = (self._person(end, speaker) for end in (subject, target))
        content = _line(first_of(fields, FACT_FIELDS)) or _sentence(subject, name, target)
        qualifiers |= {"said_by": speaker} if speaker else {}
        # Where the question numbers nothing, a number is a thing's only if the answer calls both ends by number.
        by_number = not self._is_open or read_id(subject) is not None
        if not self._names.with_dates and _is_time(target) and self._find(target, by_number=by_number) is None:
            qualifiers.setdefault("time", target)
            target = subject
        source = self._end(subject, by_number=by_number)
        at = self._end(target, by_number=by_number) if target else source
        if source is not None and at is None and self._names.reason_to_drop(target) != "copied from the prompt":
            at = source
        if source is None or at is None or self._names.is_copied(content):
            self._reply.drop(item, "an end that is no name of the text")
            return None
        kind = named_type(name, self._ontology.relation_types)
        if kind is None and self._ontology.closed_relations:
            self._reply.drop(content, f"{name!r} is no listed type of relation")
            return None
        time = qualifiers.get("time")
        return Fact(
            name=kind.name if kind else name,
            content=content,
            source=source,
            target=at,
            since_words=time if isinstance(time, str) else "",
            until_words=read_text(first_of(fields, UNTIL_FIELDS)),
            attributes=qualifiers,
        )

    def _person(self, name: str, speaker: str) -> str:
        """Return who is meant by `I`: the one who says so, or the only one who speaks."""
        if normalise_name(name) not in _FIRST_PERSON or self._names.is_abbreviation(name):
            return name
        only = next(iter(self._speakers.values())) if len(self._speakers) == 1 else ""
        return speaker or only or name

    def _find(self, name: str, *, by_number: bool) -> int | None:
        """Return the position of the listed thing that a name means, or a number if things go by numbers."""
        is_amount = not by_number and read_id(name) is not None and not self._ends.is_listed(name)
        return None if is_amount else self._ends.find(name)

    def _end(self, name: str, *, by_number: bool) -> int | None:
        """Return the position of the thing that a name means; one that was not listed is, if it may be, from now on."""
        found = self._find(name, by_number=by_number)
        speaker = self._speakers.get(normalise_name(name))
        if found is not None:
            return found
        is_sentence = len(name) > LONGEST_END or _SENTENCE_END.search(name)
        is_known = self._is_open or speaker is not None
        if not is_known or not name or is_sentence or self._names.reason_to_drop(name):
            return None
        self.mentions.append(Mention(speaker or within_limit(name, self._reply), EntityDef.name))
        self._ends = Ends(self.mentions, mention_labels(self.mentions))
        return len(self.mentions) - 1

    def _qualifiers(self, fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the circumstances of a fact by key, also those that stand beside its parts."""
        given = [*_pairs(first_of(fields, _QUALIFIER_LISTS)), *((key, fields.get(key)) for key in _USUAL)]
        given.append(("time", first_of(fields, _TIMES)))
        found: dict[str, JsonValue] = {}
        for key, value in given:
            name = _key(key)
            words = _words(value, name)
            is_nothing = words == "" and not (isinstance(value, dict | list) and value)
            if is_nothing or found.get(name) == words:
                continue
            if not name or words == "" or name in found or len(found) == QUALIFIERS_KEPT:
                self._reply.drop({str(key): value}, "no qualifier that can be kept")
            elif isinstance(words, str) and self._names.is_copied(words):
                self._reply.drop(f"{name}: {words}", "copied from the prompt")
            else:
                found[name] = words
        return found


def _fields_of(item: JsonValue) -> dict[str, JsonValue]:
    """Return an item's parts by name; `["Ann", "leads", "Basalt"]` is a fact too."""
    if isinstance(item, list) and len(item) in (2, 3):
        return dict(zip(("subject", "predicate", "object"), item, strict=False))
    return folded(item) if isinstance(item, dict) else {}


def _line(value: JsonValue) -> str:
    named = folded(value).get("name") if isinstance(value, dict) else value
    return " ".join(read_text(named).split())


def _sentence(subject: str, predicate: str, target: str) -> str:
    """Return the parts of a fact as a sentence; Chinese has no spaces between them."""
    parts = [subject, predicate.replace("_", " "), *([target] if target and target != subject else [])]
    text = parts[0]
    for before, part in pairwise(parts):
        text += part if _needs_no_space(before[-1:], part[:1]) else f" {part}"
    return text.strip()


def _needs_no_space(before: str, after: str) -> bool:
    sides = [bool(each) and (is_cjk(each) or each.isdigit()) for each in (before, after)]
    return all(sides) and not (before + after).isdigit()


def _is_time(end: str) -> bool:
    """Tell whether an end is words for a time, or a date with its year: numbers alone may count anything."""
    return is_date(end) and _TOLD_TIME.search(end) is not None


def _pairs(value: JsonValue) -> list[tuple[object, JsonValue]]:
    """Read `{"place": "Turin"}`, and lists of `{"key": "place", "value": "Turin"}`, `"place: Turin"` and pairs."""
    value = unquoted(value)
    if isinstance(value, dict):
        return list(value.items())
    pairs: list[tuple[object, JsonValue]] = []
    for item in value if isinstance(value, list) else [value]:
        fields = folded(item) if isinstance(item, dict) else {}
        if "value" in fields:
            pairs.append((first_of(fields, ("key", "name", "type")), fields["value"]))
        elif isinstance(item, list) and len(item) == _PAIR:
            pairs.append((item[0], item[1]))
        elif isinstance(item, str):
            key, mark, words = re.sub("[：=]", ":", item, count=1).partition(":")
            pairs.append((key, words) if mark else ("", item))
        else:
            pairs.extend(fields.items())
    return pairs


def _words(value: JsonValue, name: str) -> JsonValue:
    """Return the value of a qualifier: a number, a truth value, or words; a time is always words, to be computed."""
    if isinstance(value, bool | int | float) and name != "time":
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    parts = [_line(each) for each in value] if isinstance(value, list) else [_line(value)]
    return ", ".join(filter(None, parts))[:_LONGEST_VALUE]


def _key(key: object) -> str:
    """Return a qualifier's key in one form that every store can filter by."""
    name = re.sub(r"[^\w]+", "_", fold_key(key or "")).strip("_")[:_LONGEST_KEY]
    return _KEY_NAMES.get(name, name)
