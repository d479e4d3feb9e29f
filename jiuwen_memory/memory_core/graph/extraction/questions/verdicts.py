"""Which stored facts does a new one repeat, contradict or lead to? Calls the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast, get_args

from pydantic import JsonValue

from jiuwen_memory.foundation.store.graph.graph_object import RelationKind
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.asking import Asker
from jiuwen_memory.memory_core.graph.extraction.base import AnswerForm, exactly
from jiuwen_memory.memory_core.graph.extraction.extraction_models import RelationVerdicts
from jiuwen_memory.memory_core.graph.extraction.questions.shared import (
    SUSPICIOUS_RUN,
    Group,
    ask_pair,
    at_once,
    in_batches,
    is_suspicious,
    numbered_groups,
    or_else,
    read_groups,
)
from jiuwen_memory.memory_core.graph.extraction.reply import (
    Reply,
    UnusableReplyError,
    folded,
    read_id,
    read_ids,
    read_items,
)
from jiuwen_memory.memory_core.graph.extraction.values import SourceText, Verdict, VerdictCase

_KEYS: Final = ("verdicts", "relations", "facts")
_MARKS: Final = ("id", "same", "contradicts")
_SAME_KEYS: Final = ("same", "duplicate_ids", "duplicates")
_CONTRADICTS_KEYS: Final = ("contradicts", "contradicted", "replaced", "replaces")
_KINDS: Final = frozenset(get_args(RelationKind)) - {"fact"}
_SAME_LABELS: Final = ("same", "different")
_CONFLICT_LABELS: Final = ("conflict", "compatible")
_LONGEST_FACT: Final = 240


async def ask_relation_verdicts(
    source: SourceText, cases: Sequence[VerdictCase], *, language: Language, judge_items: int, asker: Asker
) -> list[Verdict]:
    """Return, for each new fact, the positions of the stored ones it repeats, contradicts or links to.

    With `judge_items` of 1 each pair is asked about twice: same or different, then, if different, conflict or
    compatible. A model that fails or gives no usable answer gives no verdict, with a warning. Whether a contradiction
    is plausible is for the caller to check.
    """
    asked = [index for index, case in enumerate(cases) if case.candidates]
    if not asked:
        return [Verdict() for _ in cases]
    ask = _ask_pairs if judge_items == 1 else _ask_batch
    answers = await in_batches(
        [cases[index] for index in asked], judge_items, partial(ask, language=language, asker=asker)
    )
    by_index = dict(zip(asked, answers, strict=True))
    return [by_index.get(index, Verdict()) for index in range(len(cases))]


async def _ask_batch(cases: Sequence[VerdictCase], *, language: Language, asker: Asker) -> list[Verdict]:
    groups = numbered_groups([(_cut(case.fact), [_cut(fact) for fact in case.candidates]) for case in cases])
    question = asker.ask(
        "relation_verdicts",
        _form(groups),
        language=language,
        variables={"groups": groups},
        read=partial(_read, groups=groups),
    )
    nothing = _Answers([Verdict() for _ in cases])
    answers = await or_else(question, nothing, ledger=asker.ledger, consequence="no fact is fused or retired")
    verdicts = answers.verdicts
    if answers.doubts_same or answers.doubts_contradicts:
        asker.ledger.warn("RelationVerdicts answered alike for every fact; each was asked again by itself.")
    confirm = partial(_confirmed, cases, language=language, asker=asker)
    if answers.doubts_same:
        kept = await confirm([verdict.same for verdict in verdicts], prompt="relation_pair")
        verdicts = [replace(verdict, same=same) for verdict, same in zip(verdicts, kept, strict=True)]
    if answers.doubts_contradicts:
        kept = await confirm([verdict.contradicts for verdict in verdicts], prompt="relation_conflict")
        verdicts = [replace(verdict, contradicts=against) for verdict, against in zip(verdicts, kept, strict=True)]
    if answers.doubts_links:
        asker.ledger.warn("RelationVerdicts linked every fact to a stored one; the links are left out.")
        verdicts = [replace(verdict, links={}) for verdict in verdicts]
    return verdicts


@dataclass(frozen=True, slots=True)
class _Answers:
    """A verdict for each fact, and whether they are too much alike to be believed."""

    verdicts: list[Verdict]
    doubts_same: bool = False
    doubts_contradicts: bool = False
    doubts_links: bool = False


def _form(groups: Sequence[Group]) -> AnswerForm:
    ids = {"enum": [line.number for group in groups for line in group.candidates]}
    most = {"maxItems": max(len(group.candidates) for group in groups)}
    return AnswerForm(
        RelationVerdicts,
        {
            "verdicts": exactly(len(groups)),
            "verdicts[].id": {"enum": [group.number for group in groups]},
            "verdicts[].same": most,
            "verdicts[].same[]": ids,
            "verdicts[].contradicts": most,
            "verdicts[].contradicts[]": ids,
            "verdicts[].links": most,
            "verdicts[].links[].id": ids,
        },
    )


def _cut(fact: str) -> str:
    return fact if len(fact) <= _LONGEST_FACT else fact[:_LONGEST_FACT].rstrip() + "…"


def _read(reply: Reply, *, groups: Sequence[Group]) -> _Answers:
    items = read_items(reply, keys=_KEYS, marks=_MARKS)
    answered = read_groups(items, groups, reply=reply)
    if items and not answered:
        raise UnusableReplyError("no verdict on a listed fact")
    verdicts = {group.number: _verdict(fields, group, reply) for group, fields in answered}
    if len(verdicts) < len(groups):
        reply.drop(f"{len(groups) - len(verdicts)} of {len(groups)} facts", "no verdict came")
    given = {group.number: fields for group, fields in answered}
    raw = [given.get(group.number, {}) for group in groups]
    read = [verdicts.get(group.number, Verdict()) for group in groups]
    return _Answers(
        verdicts=read,
        doubts_links=len(read) >= SUSPICIOUS_RUN and all(verdict.links for verdict in read),
        doubts_same=is_suspicious([_listed(fields, _SAME_KEYS) for fields in raw]),
        doubts_contradicts=is_suspicious([_listed(fields, _CONTRADICTS_KEYS) for fields in raw]),
    )


def _verdict(fields: Mapping[str, JsonValue], group: Group, reply: Reply) -> Verdict:
    same = _positions(_listed(fields, _SAME_KEYS), group, reply)
    contradicts = _positions(_listed(fields, _CONTRADICTS_KEYS), group, reply)
    if set(same) & set(contradicts):
        reply.drop(group.text, "called the same and a contradiction at once")
    links: dict[RelationKind, tuple[int, ...]] = {}
    given = fields.get("links")
    for link in given if isinstance(given, list) else []:
        parts = folded(link) if isinstance(link, dict) else {}
        kind, number = str(parts.get("kind")), read_id(parts.get("id"))
        place = group.position(number) if number is not None else None
        if kind not in _KINDS or place is None:
            reply.drop(link, "not a link to a candidate")
        elif place not in same:
            known = cast("RelationKind", kind)
            links[known] = (*links.get(known, ()), place)
    return Verdict(same=same, contradicts=tuple(place for place in contradicts if place not in same), links=links)


def _listed(fields: Mapping[str, JsonValue], keys: Sequence[str]) -> list[int]:
    return read_ids(next((fields[key] for key in keys if fields.get(key) is not None), []))


def _positions(numbers: Sequence[int], group: Group, reply: Reply) -> tuple[int, ...]:
    places = []
    for number in numbers:
        place = group.position(number)
        if place is not None:
            places.append(place)
        elif number not in (0, group.number):
            reply.drop(f"{group.number}: {number}", "not a candidate of it")
    return tuple(sorted(places))


async def _confirmed(
    cases: Sequence[VerdictCase],
    answers: Sequence[tuple[int, ...]],
    *,
    prompt: str,
    language: Language,
    asker: Asker,
) -> list[tuple[int, ...]]:
    """Return those of the answers that hold when each is asked about by itself."""
    pairs = [(index, place) for index, places in enumerate(answers) for place in places]
    held = await _yes_pairs(prompt, cases, pairs, language=language, asker=asker, again=True)
    return [tuple(place for place in places if (index, place) in held) for index, places in enumerate(answers)]


async def _ask_pairs(cases: Sequence[VerdictCase], *, language: Language, asker: Asker) -> list[Verdict]:
    pairs = [(index, place) for index, case in enumerate(cases) for place in range(len(case.candidates))]
    same = await _yes_pairs("relation_pair", cases, pairs, language=language, asker=asker)
    others = [pair for pair in pairs if pair not in same]
    against = await _yes_pairs("relation_conflict", cases, others, language=language, asker=asker)
    return [
        Verdict(
            same=tuple(place for place in range(len(case.candidates)) if (index, place) in same),
            contradicts=tuple(place for place in range(len(case.candidates)) if (index, place) in against),
        )
        for index, case in enumerate(cases)
    ]


async def _yes_pairs(
    prompt: str,
    cases: Sequence[VerdictCase],
    pairs: Sequence[tuple[int, int]],
    *,
    language: Language,
    asker: Asker,
    again: bool = False,
) -> set[tuple[int, int]]:
    """Return the pairs that the model says yes to; no usable answer is a no, with a warning."""
    labels = _SAME_LABELS if prompt == "relation_pair" else _CONFLICT_LABELS
    if not pairs:
        return set()

    async def is_yes(index: int, place: int) -> bool:
        variables = {"old": _cut(cases[index].candidates[place]), "new": _cut(cases[index].fact)}
        question = ask_pair(
            prompt, RelationVerdicts, labels=labels, variables=variables, language=language, asker=asker, again=again
        )
        return await or_else(question, False, ledger=asker.ledger, consequence="the pair is left alone")

    answers = await at_once([is_yes(index, place) for index, place in pairs])
    return {pair for pair, answer in zip(pairs, answers, strict=True) if answer}
