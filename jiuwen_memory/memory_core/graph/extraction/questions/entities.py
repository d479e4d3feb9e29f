"""Which named things does the text mention? Calls the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from pydantic import JsonValue

from jiuwen_memory.errors import PromptFilesMissingError
from jiuwen_memory.foundation.text import cut_bytes, estimate_tokens, is_cjk, normalise_name
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.asking import Asker
from jiuwen_memory.memory_core.graph.extraction.base import AnswerForm, JsonSchema
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import AIEntity, EntityDef, HumanEntity
from jiuwen_memory.memory_core.graph.extraction.extraction_models import EntityExtraction
from jiuwen_memory.memory_core.graph.extraction.ontology import named_type
from jiuwen_memory.memory_core.graph.extraction.questions.shared import cut_history
from jiuwen_memory.memory_core.graph.extraction.reply import (
    Reply,
    UnusableReplyError,
    folded,
    read_id,
    read_items,
    read_text,
)
from jiuwen_memory.memory_core.graph.extraction.values import Mention, SourceText

NAME_BYTES: Final = 500
ENTITY_KEYS: Final = ("entities", "extracted_entities", "entity_list", "nodes", "names")
ENTITY_MARKS: Final = ("name", "entity", "entity_name", "title")
_TYPE_KEYS: Final = ("type", "entity_type", "entity_type_id", "type_id", "label", "category")
_PRONOUNS_EN: Final = (
    "i|me|my|mine|myself|you|your|yours|he|him|his|she|her|hers|it|its|we|us|our|ours|they|them|their|theirs|this|that|"
    "these|those|someone|somebody|anyone|everyone|nobody|who|speaker"
)
_PRONOUNS_CN: Final = "我|你|您|他|她|它|我们|咱们|你们|他们|她们|它们|自己|大家|这|那|这个|那个|有人|某人|谁|说话人"
_PRONOUNS: Final = re.compile(f"{_PRONOUNS_EN}|{_PRONOUNS_CN}")
_CAPITALS: Final = re.compile(r"(?<!\w)[A-Z]{2,}(?!\w)", re.ASCII)
_MONTHS: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAYS: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_CALLED_LIKE_A_DATE: Final = re.compile(f"{_MONTHS}|{_DAYS}")
_ORDINAL: Final = r"\d{1,2}(?:st|nd|rd|th)?"
_SPAN: Final = r"(?:week|month|year|weekend|spring|summer|autumn|fall|winter)s?"
_DATE_LIKE: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"[\d\s:./,tz+-]*\d[\d\s:./,tz+-]*",
        rf"(?:{_DAYS},?\s+)?(?:{_ORDINAL}\s+(?:of\s+)?)?{_MONTHS}(?:\s+{_ORDINAL})?(?:,?\s+\d{{4}})?",
        rf"(?:(?:last|next|this|every|on)\s+)?{_DAYS}s?|(?:last|next|this|every)\s+{_SPAN}",
        r"today|yesterday|tomorrow|tonight|now|last night|this (?:morning|afternoon|evening)",
        r"\w+ (?:days?|weeks?|months?|years?) ago",
        r"\d{2,4}年(?:\d{1,2}月)?(?:\d{1,2}[日号])?|\d{1,2}月(?:\d{1,2}[日号])?|\d{1,2}[日号]",
        r"今天|昨天|前天|明天|后天|今年|去年|前年|明年|今晚|昨晚|现在",
        r"[上下本这]个?(?:周|星期|月|季度)[一二三四五六日天末]?|(?:周|星期)[一二三四五六日天]",
    )
)


async def ask_entities(
    source: SourceText,
    *,
    types: Sequence[type[EntityDef]],
    language: Language,
    asker: Asker,
    closed: bool = False,
) -> list[Mention]:
    """Return the named things of a text, each once; none is a proper answer.

    What is of no listed type is of the general one; in a `closed` set it is left out, unless it speaks.

    Raises:
        LLMCallError: the model failed or gave no usable answer.
    """
    variables = text_variables(source, types, language, closed=closed)
    form = AnswerForm(EntityExtraction, entity_changes(source, types))
    # Rendered when the reply is read: by then the prompt is loaded, off the event loop.
    instructions = partial(bare_instructions, "entities", variables, language=language, asker=asker)
    read = partial(_read, source=source, types=types, closed=closed, instructions=instructions)
    return await asker.ask("entities", form, language=language, variables=variables, read=read)


def text_variables(
    source: SourceText, types: Sequence[type[EntityDef]], language: Language, *, closed: bool
) -> dict[str, object]:
    """Return what a prompt may say of a text and of the types of things to find in it."""
    return {
        "kind": source.kind.name,
        "source": source.source,
        "types": [{"name": each.name, "description": each.wording(language)} for each in types],
        "closed": closed,
        "speakers": list(source.speakers),
        "history": cut_history(source),
        "text": source.content,
    }


def entity_changes(source: SourceText, types: Sequence[type[EntityDef]]) -> dict[str, JsonSchema]:
    """Return how a schema with named things is narrowed: so many as fit the text, of the listed types."""
    names = [each.name for each in types]
    return {"entities": {"maxItems": most_items(source)}, "entities[].type": {"enum": names}}


def most_items(source: SourceText) -> int:
    """Return the most things or facts that are asked for; a weak model would go on for ever."""
    return max(10, estimate_tokens(source.content) // 8)


def bare_instructions(question: str, variables: Mapping[str, object], *, language: Language, asker: Asker) -> str:
    """Return the words of the prompt that are ours: the same prompt with nothing of the user's in it.

    None, where a file of the user's cannot do without: it is in use already, and what it says is theirs.
    """
    bare = {**variables, "speakers": [], "history": [], "text": "", "source": ""}
    try:
        messages = asker.prompts.render(question, language, **bare, short=False, schema="")
    except PromptFilesMissingError:
        return ""
    return "\n".join(message["content"] for message in messages)


def _read(
    reply: Reply,
    *,
    source: SourceText,
    types: Sequence[type[EntityDef]],
    closed: bool,
    instructions: Callable[[], str],
) -> list[Mention]:
    listed = _grouped_by_type(reply, [each.name for each in types])
    items = listed or read_items(reply, keys=ENTITY_KEYS, marks=ENTITY_MARKS)
    return read_mentions(items, names=NameCheck(source, instructions()), types=types, closed=closed, reply=reply)


def read_mentions(
    items: Sequence[JsonValue], *, names: NameCheck, types: Sequence[type[EntityDef]], closed: bool, reply: Reply
) -> list[Mention]:
    """Return the named things among some items, each once; in a `closed` set those of a listed type, and speakers.

    Raises:
        UnusableReplyError: there are items, and none has a name.
    """
    named = [(item, name, kind) for item in items for name, kind in [_name_and_type(item)] if name]
    if items and not named:
        raise UnusableReplyError("no item has a name")
    mentions: dict[tuple[str, str], Mention] = {}
    for item in items:
        name, kind = _name_and_type(item)
        found = _type_named(kind, types)
        reason = names.reason_to_drop(name, speaks=found is not None and issubclass(found, (HumanEntity, AIEntity)))
        if reason:
            reply.drop(name or item, reason)
            continue
        if found is None and closed:
            if normalise_name(name) not in names.speakers:
                reply.drop(name, f"{read_text(kind)!r} is no listed type of entity")
            continue
        mention = Mention(within_limit(name, reply), found.name if found else EntityDef.name)
        mentions.setdefault((normalise_name(mention.name), mention.type_name), mention)
    return list(mentions.values())


def _grouped_by_type(reply: Reply, types: Sequence[str]) -> list[JsonValue]:
    """Read `{"Human": ["Ann"], "AI": []}`."""
    by_name = {each.casefold(): each for each in types}
    items: list[JsonValue] = []
    for value in reply.values:
        if isinstance(value, dict) and value and all(str(key).casefold() in by_name for key in value):
            for key, names in value.items():
                listed = names if isinstance(names, list) else [names]
                items.extend({**_as_item(name), "type": by_name[str(key).casefold()]} for name in listed if name)
    return items


def _as_item(value: JsonValue) -> dict[str, JsonValue]:
    return folded(value) if isinstance(value, dict) else {"name": value}


def _name_and_type(item: JsonValue) -> tuple[str, JsonValue]:
    fields = _as_item(item)
    name = next((read_text(fields[key]) for key in ENTITY_MARKS if key in fields), "")
    kind = next((fields[key] for key in _TYPE_KEYS if fields.get(key) is not None), None)
    return " ".join(name.split()), kind


def _type_named(kind: JsonValue, types: Sequence[type[EntityDef]]) -> type[EntityDef] | None:
    """Return the type an answer means, by name or by position in the list, or None."""
    named = named_type(kind, types) if isinstance(kind, str) else None
    position = read_id(kind)
    if named is None and position is not None and 0 <= position < len(types):
        return types[position]
    return named


def within_limit(name: str, reply: Reply) -> str:
    """Return a name as long as an entity's may be."""
    if len(name.encode()) <= NAME_BYTES:
        return name
    reply.drop(name, f"name cut to {NAME_BYTES} bytes")
    return cut_bytes(name, NAME_BYTES).rstrip()


class NameCheck:
    """Tells whether a name that a model gave can be one of the text; `example` holds the words of the prompt."""

    def __init__(self, source: SourceText, example: str, *, with_dates: bool = False) -> None:
        self.speakers = {normalise_name(name) for name in source.speakers}
        self.text = normalise_name(" ".join((source.content, *source.speakers, *source.history)))
        # Where everything is in capitals, they tell nothing apart; Chinese has none.
        is_shouted = source.content.isupper() and not any(map(is_cjk, source.content))
        self.capitals = frozenset(() if is_shouted else _CAPITALS.findall(source.content))
        self.unspaced = self.text.replace(" ", "")
        self.example = example
        self.with_dates = with_dates

    def reason_to_drop(self, name: str, *, speaks: bool = False) -> str:
        """Return why a name is none; empty if it may be one. What `speaks`, a person or an AI, may be called April."""
        plain = normalise_name(name)
        if not plain:
            return "no name"
        if plain in self.speakers:
            return ""
        if _PRONOUNS.fullmatch(plain) and not self.is_abbreviation(name):
            return "a pronoun"
        if not self.with_dates and is_date(name) and not (speaks and _CALLED_LIKE_A_DATE.fullmatch(plain)):
            return "a date, not a name"
        return "copied from the prompt" if self.is_copied(name) else ""

    def is_abbreviation(self, name: str) -> bool:
        """Tell whether the text has a name in capitals, as in `the US`, `WHO` and `IT`."""
        return name in self.capitals

    def is_copied(self, words: str) -> bool:
        """Tell whether words stand in the prompt, and not in the text."""
        # Nearly every name is told, and to look for it in the prompt takes a pattern of its own.
        return not self._is_told(words) and _occurs_as_name(words, self.example)

    def _is_told(self, name: str) -> bool:
        """Tell whether a name, or each of its words, occurs in the text; spaces do not matter."""
        plain = normalise_name(name)
        return plain.replace(" ", "") in self.unspaced or all(word in self.text for word in plain.split())


def is_date(name: str) -> bool:
    """Tell whether a name is only a date or words for a time."""
    plain = normalise_name(name)
    return any(pattern.fullmatch(plain) for pattern in _DATE_LIKE)


def _occurs_as_name(name: str, text: str) -> bool:
    if any(is_cjk(char) for char in name):
        return name in text
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None
