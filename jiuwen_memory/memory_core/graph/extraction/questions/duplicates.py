"""Which of the new entities are stored already? Calls the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from jiuwen_memory.errors import LLMAnswerError
from jiuwen_memory.foundation.text import normalise_name
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.asking import Asker
from jiuwen_memory.memory_core.graph.extraction.base import AnswerForm, exactly
from jiuwen_memory.memory_core.graph.extraction.extraction_models import EntityDuplication
from jiuwen_memory.memory_core.graph.extraction.questions.shared import (
    Group,
    Numbered,
    ask_pair,
    at_once,
    in_batches,
    is_suspicious,
    or_else,
)
from jiuwen_memory.memory_core.graph.extraction.reply import (
    Reply,
    UnusableReplyError,
    folded,
    read_id,
    read_ids,
    read_items,
)
from jiuwen_memory.memory_core.graph.extraction.values import Described, DuplicateCase, SourceText

_KEYS: Final = ("duplicates", "duplicated_entities", "duplicate_entities")
_SAME_KEYS: Final = ("same", "duplicate_ids", "duplicates", "same_as", "ids")
_LABELS: Final = ("same", "different")
_DESCRIPTION: Final = 90
_ALIASES: Final = 3
_ASSUMED: Final = "what was assumed holds"


async def ask_entity_duplicates(
    source: SourceText, cases: Sequence[DuplicateCase], *, language: Language, judge_items: int, asker: Asker
) -> list[tuple[int, ...]]:
    """Return, for each case, the positions of the candidates that are the same thing as the new one.

    With `judge_items` of 1 each pair is a question of its own. Without a usable answer, what the case assumes holds,
    with a warning.

    Raises:
        LLMCallError: the service failed for good.
    """
    asked = [index for index, case in enumerate(cases) if case.candidates]
    if not asked:
        return [() for _ in cases]
    ask = _ask_pairs if judge_items == 1 else _ask_batch
    call = partial(ask, source, language=language, asker=asker)
    answers = await in_batches([cases[index] for index in asked], judge_items, call)
    by_index = dict(zip(asked, answers, strict=True))
    return [by_index.get(index, ()) for index in range(len(cases))]


async def _ask_batch(
    source: SourceText, cases: Sequence[DuplicateCase], *, language: Language, asker: Asker
) -> list[tuple[int, ...]]:
    groups = _numbered(cases, source)
    form = AnswerForm(
        EntityDuplication,
        {
            "duplicates": exactly(len(groups)),
            "duplicates[].id": {"enum": [group.number for group in groups]},
            "duplicates[].same": {"maxItems": max(len(group.candidates) for group in groups)},
            "duplicates[].same[]": {"enum": [line.number for group in groups for line in group.candidates]},
        },
    )
    question = asker.ask(
        "entity_duplicates", form, language=language, variables={"groups": groups}, read=partial(_read, groups=groups)
    )
    nothing = _Answers(positions=[None] * len(cases), is_doubtful=False)
    answers = await or_else(question, nothing, ledger=asker.ledger, consequence=_ASSUMED, of=LLMAnswerError)
    missing = answers.positions.count(None)
    if missing > 0 and answers is not nothing:
        asker.ledger.warn(f"EntityDuplication left {missing} of {len(cases)} items without an answer; {_ASSUMED}.")
    settled = [case.assumed if given is None else given for case, given in zip(cases, answers.positions, strict=True)]
    if answers.is_doubtful:
        return await _ask_again(source, cases, answers=settled, language=language, asker=asker)
    return settled


def _numbered(cases: Sequence[DuplicateCase], source: SourceText) -> list[Group]:
    """Number new items and their candidates; a stored one that is listed again only points at its description."""
    described: dict[str, int] = {}
    groups: list[Group] = []
    number = 0
    for case in cases:
        own = number = number + 1
        lines = []
        for each in case.candidates:
            number += 1
            first = described.setdefault(each.uuid or f"[{number}]", number)
            text = describe(each) if first == number else f"{_head(each)} = [{first}]"
            lines.append(Numbered(number, text, first))
        groups.append(Group(own, describe(case.new, source), tuple(lines)))
    return groups


@dataclass(frozen=True, slots=True)
class _Answers:
    """Each item's answer, None where there is none."""

    positions: list[tuple[int, ...] | None]
    is_doubtful: bool


def _read(reply: Reply, *, groups: Sequence[Group]) -> _Answers:
    """Read the reply; a pair may be named from either side."""
    given: dict[int, list[int]] = {}
    found: dict[int, list[int]] = {}
    by_number = {group.number: group for group in groups}
    stored = {line.number for group in groups for line in group.candidates}
    items = read_items(reply, keys=_KEYS, marks=("id", "same", "duplicate_ids"))
    for item in items:
        fields = folded(item) if isinstance(item, dict) else {}
        number = read_id(fields.get("id"))
        others = read_ids(next((fields[key] for key in _SAME_KEYS if fields.get(key) is not None), []))
        if number in by_number:
            found.setdefault(number, [])
            given.setdefault(number, others)
        elif number not in stored:
            reply.drop(item, "unknown id")
            continue
        for other in others:
            group, place = _pair(number, other, by_number=by_number)
            if group is not None:
                found.setdefault(group.number, []).append(place)
            elif other != number:
                reply.drop(f"{number} same as {other}", "not a candidate of it")
    if items and not found:
        raise UnusableReplyError("no answer about a listed item")
    answers = [found.get(group.number) for group in groups]
    return _Answers(
        positions=[None if answer is None else tuple(sorted(set(answer))) for answer in answers],
        is_doubtful=is_suspicious([given.get(group.number, []) for group in groups]),
    )


def _pair(number: int, other: int, *, by_number: dict[int, Group]) -> tuple[Group | None, int]:
    for new, stored in ((number, other), (other, number)):
        group = by_number.get(new)
        place = group.position(stored) if group is not None else None
        if place is not None:
            return group, place
    return None, 0


async def _ask_again(
    source: SourceText,
    cases: Sequence[DuplicateCase],
    *,
    answers: Sequence[tuple[int, ...]],
    language: Language,
    asker: Asker,
) -> list[tuple[int, ...]]:
    """Put each pair that was called the same as a question of its own; 'different' was believed."""
    asker.ledger.warn("EntityDuplication called every item the same as a stored one; each was asked again by itself.")
    doubted = [
        DuplicateCase(
            new=case.new,
            candidates=tuple(case.candidates[place] for place in answer),
            assumed=tuple(index for index, place in enumerate(answer) if place in case.assumed),
        )
        for case, answer in zip(cases, answers, strict=True)
    ]
    confirmed = await _ask_pairs(source, doubted, language=language, asker=asker, again=True)
    return [tuple(answer[place] for place in kept) for answer, kept in zip(answers, confirmed, strict=True)]


async def _ask_pairs(
    source: SourceText, cases: Sequence[DuplicateCase], *, language: Language, asker: Asker, again: bool = False
) -> list[tuple[int, ...]]:
    places = [(index, place) for index, case in enumerate(cases) for place in range(len(case.candidates))]
    if not places:
        return [() for _ in cases]
    calls = [
        _ask_one(source, cases[index], place, language=language, asker=asker, again=again) for index, place in places
    ]
    answers = dict(zip(places, await at_once(calls), strict=True))
    return [
        tuple(place for place in range(len(case.candidates)) if answers[(index, place)])
        for index, case in enumerate(cases)
    ]


async def _ask_one(
    source: SourceText, case: DuplicateCase, place: int, *, language: Language, asker: Asker, again: bool
) -> bool:
    variables = {"old": describe(case.candidates[place]), "new": describe(case.new, source)}
    question = ask_pair(
        "entity_pair",
        EntityDuplication,
        labels=_LABELS,
        variables=variables,
        language=language,
        asker=asker,
        again=again,
    )
    return await or_else(question, place in case.assumed, ledger=asker.ledger, consequence=_ASSUMED, of=LLMAnswerError)


def describe(entity: Described, source: SourceText | None = None) -> str:
    """Return an entity on one line: name, type, other names, and its summary or where the text mentions it."""
    head = _head(entity)
    about = entity.summary or (_surroundings(entity.name, source.content) if source else "")
    about = " ".join(about.split())
    if len(about) > _DESCRIPTION:
        about = about[:_DESCRIPTION].rstrip() + "…"
    return f"{head}: {about}" if about and normalise_name(about) != normalise_name(entity.name) else head


def _head(entity: Described) -> str:
    aliases = [alias for alias in entity.aliases if alias != entity.name][:_ALIASES]
    return f"{entity.name} ({', '.join([entity.type_name, *aliases])})"


def _surroundings(name: str, text: str) -> str:
    found = text.casefold().find(name.casefold())
    if found < 0:
        return ""
    half = max(0, _DESCRIPTION - len(name)) // 2
    start = max(0, found - half)
    line_start = text.rfind("\n", start, found) + 1
    end = text.find("\n", found)
    piece = text[max(start, line_start) : min(found + len(name) + half, end if end >= 0 else len(text))]
    return piece.strip()
