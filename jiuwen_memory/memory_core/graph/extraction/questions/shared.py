"""What several questions need: batches, numbered groups, pairs, careful reading of yes and no. Calls the model."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeVar

from pydantic import JsonValue

from jiuwen_memory.errors import LLMCallError
from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.asking import Asker, Ledger
from jiuwen_memory.memory_core.graph.extraction.base import AnswerForm, MultilingualBaseModel
from jiuwen_memory.memory_core.graph.extraction.reply import Reply, UnusableReplyError, folded, read_id, read_keyed
from jiuwen_memory.memory_core.graph.extraction.values import SourceText

T = TypeVar("T")
R = TypeVar("R")

HISTORY_CHARACTERS: Final = 120
SUSPICIOUS_RUN: Final = 4
"""This many answers that are all alike are a weak model's way of not answering."""

_PAIR_LISTS: Final = ("verdicts", "duplicates", "pairs", "answers")
_YES: Final = frozenset({"same", "conflict", "yes", "true", "1", "duplicate", "contradicts", "contradict", "replaced"})
_YES_IN_CHINESE: Final = frozenset({"相同", "是", "同一", "一样", "冲突", "矛盾", "替换"})
_NO: Final = frozenset({"different", "compatible", "no", "false", "0", "other", "distinct"})
_NO_IN_CHINESE: Final = frozenset({"不同", "否", "不是", "不一样", "兼容", "不冲突", "不矛盾"})


async def at_once(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Await calls beside each other; a single one without a task of its own."""
    return [await calls[0]] if len(calls) == 1 else list(await together(*calls))


async def in_batches(
    items: Sequence[T], size: int, call: Callable[[Sequence[T]], Coroutine[Any, Any, list[R]]]
) -> list[R]:
    """Ask about all items, at most `size` a call, all calls at once; the answers come in order."""
    batches = [items[start : start + max(1, size)] for start in range(0, len(items), max(1, size))]
    return [answer for answers in await at_once([call(batch) for batch in batches]) for answer in answers]


async def or_else(
    call: Coroutine[Any, Any, T],
    fallback: T,
    *,
    ledger: Ledger,
    consequence: str,
    of: type[LLMCallError] = LLMCallError,
) -> T:
    """Return the call's result or, when the model has no usable one, the fallback, with a warning."""
    try:
        return await call
    except of as error:
        ledger.warn(f"The question '{error.question}' got no usable answer; {consequence}. ({error.message})")
        return fallback


def cut_history(source: SourceText) -> list[str]:
    """Return the beginnings of the earlier episodes, each on one line."""
    lines = [" ".join(text.split()) for text in source.history]
    return [line if len(line) <= HISTORY_CHARACTERS else line[:HISTORY_CHARACTERS].rstrip() + "…" for line in lines]


@dataclass(frozen=True, slots=True)
class Numbered:
    """A line of a list in a prompt; `first` is the number of the line that described the same thing."""

    number: int
    text: str
    first: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A new item and its candidates; numbers are unique within a call."""

    number: int
    text: str
    candidates: tuple[Numbered, ...]

    def position(self, number: int) -> int | None:
        """Return which of the candidates a number means, or None."""
        return next((place for place, each in enumerate(self.candidates) if number in (each.number, each.first)), None)


def numbered_groups(cases: Sequence[tuple[str, Sequence[str]]]) -> list[Group]:
    """Number new items and their candidates in one row, each item before its candidates."""
    groups: list[Group] = []
    number = 0
    for text, candidates in cases:
        own = number + 1
        lines = tuple(Numbered(own + place, line) for place, line in enumerate(candidates, start=1))
        number = own + len(lines)
        groups.append(Group(own, text, lines))
    return groups


def is_suspicious(answers: Sequence[Sequence[int]]) -> bool:
    """Tell whether answers run along the diagonal, or whether every item got one; fewer than four never are."""
    if len(answers) < SUSPICIOUS_RUN:
        return False
    if all(answers):
        return True
    run = [each[0] for each in answers if len(each) == 1]
    steps = {later - earlier for earlier, later in pairwise(run)}
    return len(run) >= SUSPICIOUS_RUN and steps == {1}


async def ask_pair(
    prompt: str,
    model: type[MultilingualBaseModel],
    *,
    labels: tuple[str, str],
    variables: Mapping[str, object],
    language: Language,
    asker: Asker,
    again: bool = False,
) -> bool:
    """Ask a two-way question about one pair; `labels` are the yes and the no."""

    def read(reply: Reply) -> bool:
        if not reply.values:
            return _certain(read_yes(reply.text))
        answers = read_keyed(reply, count=1, keys=(*labels, *_PAIR_LISTS), marks=("answer", "verdict"))
        other = next(iter(answers.values()))
        # Under another number than the pair's own, a yes may be copied from the prompt's example.
        return _certain(read_yes(answers[1]) if 1 in answers else read_yes(other) and None)

    # The safe label comes first: weak models favour the one they see first.
    form = AnswerForm(model, keyed={"1": {"type": "string", "enum": list(reversed(labels))}})
    return await asker.ask(prompt, form, language=language, variables=variables, read=read, again=again)


def _certain(answer: bool | None) -> bool:
    if answer is None:
        raise UnusableReplyError("neither yes nor no")
    return answer


def read_yes(value: JsonValue) -> bool | None:
    """Return what an answer to a two-way question says, or None."""
    if isinstance(value, dict):
        fields = folded(value)
        answers = [
            read_yes(fields[key]) for key in ("answer", "verdict", "result", "label", "value", "same") if key in fields
        ]
        return next((answer for answer in answers if answer is not None), None)
    if isinstance(value, list) and value:
        return read_yes(value[0])
    word = str(value).strip().strip(".。!\"'").casefold()
    if word in _YES or word in _YES_IN_CHINESE:
        return True
    return False if word in _NO or word in _NO_IN_CHINESE else None


def read_groups(
    items: Sequence[JsonValue], groups: Sequence[Group], *, reply: Reply
) -> list[tuple[Group, dict[str, JsonValue]]]:
    """Return the answers that belong to a group, each group's first; others are noted and left out."""
    by_number = {group.number: group for group in groups}
    found: dict[int, dict[str, JsonValue]] = {}
    for item in items:
        fields = folded(item) if isinstance(item, dict) else {}
        number = read_id(fields.get("id", fields.get("new")))
        if number is None or number not in by_number:
            reply.drop(item, "unknown id")
        elif number in found:
            reply.drop(item, "answered twice")
        else:
            found[number] = fields
    return [(by_number[number], fields) for number, fields in found.items()]
