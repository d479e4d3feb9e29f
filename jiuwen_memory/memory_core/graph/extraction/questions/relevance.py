"""Which facts still make sense after entities were fused? Calls the model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.asking import Asker
from jiuwen_memory.memory_core.graph.extraction.base import AnswerForm
from jiuwen_memory.memory_core.graph.extraction.extraction_models import RelevantFacts
from jiuwen_memory.memory_core.graph.extraction.questions.shared import Group, in_batches, numbered_groups, or_else
from jiuwen_memory.memory_core.graph.extraction.reply import Reply, UnusableReplyError, folded, read_ids, read_items
from jiuwen_memory.memory_core.graph.extraction.values import FilterCase

_KEYS: Final = ("relevant", "relevant_relations", "relevant_facts", "keep", "ids")
_SUMMARY: Final = 160


async def ask_relation_filter(
    cases: Sequence[FilterCase], *, language: Language, judge_items: int, asker: Asker
) -> list[tuple[int, ...]]:
    """Return, for each fused entity, the positions of the facts to keep.

    Nothing is lost, with a warning, when the model fails, gives no usable answer, or would keep no fact of an entity.
    """
    asked = [index for index, case in enumerate(cases) if case.facts]
    if not asked:
        return [() for _ in cases]
    call = partial(_ask_batch, language=language, asker=asker)
    answers = await in_batches([cases[index] for index in asked], judge_items, call)
    by_index = dict(zip(asked, answers, strict=True))
    return [by_index.get(index, ()) for index in range(len(cases))]


async def _ask_batch(cases: Sequence[FilterCase], *, language: Language, asker: Asker) -> list[tuple[int, ...]]:
    groups = numbered_groups([(_described(case), case.facts) for case in cases])
    ids = [line.number for group in groups for line in group.candidates]
    form = AnswerForm(RelevantFacts, {"relevant": {"maxItems": len(ids)}, "relevant[]": {"enum": ids}})
    question = asker.ask(
        "relation_filter", form, language=language, variables={"groups": groups}, read=partial(_read, groups=groups)
    )
    every = [tuple(range(len(case.facts))) for case in cases]
    return await or_else(question, every, ledger=asker.ledger, consequence="all facts are kept")


def _described(case: FilterCase) -> str:
    about = " ".join(case.summary.split())
    return f"{case.name}: {about[:_SUMMARY]}" if about else case.name


def _read(reply: Reply, *, groups: Sequence[Group]) -> list[tuple[int, ...]]:
    items = read_items(reply, keys=_KEYS, marks=("id",))
    listed = [part for item in items for part in _ids_of(item)]
    known = {line.number for group in groups for line in group.candidates}
    for number in dict.fromkeys(listed):
        if number not in known:
            reply.drop(str(number), "unknown id")
    if items and not known & set(listed):
        raise UnusableReplyError("no listed id")
    kept: list[tuple[int, ...]] = []
    for group in groups:
        places = tuple(place for place, line in enumerate(group.candidates) if line.number in listed)
        if not places:
            reply.drop(group.text, "no fact of it was kept, which is not believed: all stay")
        kept.append(places or tuple(range(len(group.candidates))))
    return kept


def _ids_of(item: object) -> list[int]:
    if isinstance(item, dict):
        fields = folded(item)
        return read_ids(next((fields[key] for key in _KEYS if key in fields), fields.get("id")))
    return read_ids(item if isinstance(item, (str, int, float, list)) else None)
