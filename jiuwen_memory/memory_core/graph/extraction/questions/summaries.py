"""What is known of each entity now, in a few words? Calls the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Final

from pydantic import JsonValue

from jiuwen_memory.foundation.text import normalise_name
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.asking import Asker
from jiuwen_memory.memory_core.graph.extraction.attributes import Filled, resolve_attributes, value_schemas
from jiuwen_memory.memory_core.graph.extraction.base import AnswerForm, JsonSchema, closed_object
from jiuwen_memory.memory_core.graph.extraction.extraction_models import EntitySummaries
from jiuwen_memory.memory_core.graph.extraction.questions.shared import in_batches, or_else
from jiuwen_memory.memory_core.graph.extraction.reply import (
    Reply,
    UnusableReplyError,
    folded,
    is_placeholder,
    read_keyed,
    read_text,
)
from jiuwen_memory.memory_core.graph.extraction.values import SourceText, Summary, SummaryCase

_KEYS: Final = ("summaries", "entities", "items")
_TEXT_KEYS: Final = ("summary", "description", "content", "text", "name")
_FACTS: Final = 12
_LONGEST_FACT: Final = 200


async def ask_summaries(
    source: SourceText, cases: Sequence[SummaryCase], *, language: Language, batch_items: int, asker: Asker
) -> list[Summary | None]:
    """Return a new description of each entity, None where the old one stays.

    A model that fails or gives no usable answer leaves all as it is, with a warning.
    """
    if not cases:
        return []
    return await in_batches(cases, batch_items, partial(_ask_batch, source, language=language, asker=asker))


async def _ask_batch(
    source: SourceText, cases: Sequence[SummaryCase], *, language: Language, asker: Asker
) -> list[Summary | None]:
    variables = {
        "items": [_shown(case, number, language) for number, case in enumerate(cases, start=1)],
        "has_fields": any(_fields(case, language) for case in cases),
        "text": source.content,
    }
    keyed = {str(number): _value_schema(case, language) for number, case in enumerate(cases, start=1)}
    form = AnswerForm(EntitySummaries, keyed=keyed)
    question = asker.ask("summaries", form, language=language, variables=variables, read=partial(_read, cases=cases))
    kept: list[Summary | None] = [None] * len(cases)
    return await or_else(question, kept, ledger=asker.ledger, consequence="the old descriptions stay")


def _fields(case: SummaryCase, language: Language) -> dict[str, str]:
    return case.kind.fields(language) if case.kind else {}


def _shown(case: SummaryCase, number: int, language: Language) -> dict[str, object]:
    facts = [
        fact if len(fact) <= _LONGEST_FACT else fact[:_LONGEST_FACT].rstrip() + "…" for fact in case.facts[:_FACTS]
    ]
    return {
        "id": number,
        "name": case.name,
        "type": case.type_name,
        "length": case.target_length,
        "old": "" if is_placeholder(case.summary) else case.summary,
        "absorbed": [text for text in case.absorbed if not is_placeholder(text)],
        "facts": facts,
        "fields": _fields(case, language),
        "attributes": json.dumps(dict(case.attributes), ensure_ascii=False) if case.attributes else "",
    }


def _value_schema(case: SummaryCase, language: Language) -> JsonSchema:
    text: JsonSchema = {"type": "string", "maxLength": 2 * case.target_length}
    if case.kind is None or not _fields(case, language):
        return text
    return closed_object({"summary": text, "attributes": closed_object(value_schemas(case.kind, language))})


def _read(reply: Reply, *, cases: Sequence[SummaryCase]) -> list[Summary | None]:
    answers = read_keyed(reply, count=len(cases), keys=_KEYS, marks=_TEXT_KEYS)
    for number in answers.keys() - set(range(1, len(cases) + 1)):
        reply.drop(str(number), "unknown id")
    if not any(number in answers for number in range(1, len(cases) + 1)):
        raise UnusableReplyError("no description")
    summaries: list[Summary | None] = []
    for number, case in enumerate(cases, start=1):
        if number not in answers:
            reply.drop(case.name, "no description came, the old one stays")
        summaries.append(_summary(answers.get(number), case, reply=reply))
    return summaries


def _summary(answer: JsonValue, case: SummaryCase, *, reply: Reply) -> Summary | None:
    fields = folded(answer) if isinstance(answer, dict) else {"summary": answer}
    text = next((read_text(fields[key]) for key in _TEXT_KEYS if key in fields), "")
    if _only_repeats(text, case):
        text = ""
    given = fields.get("attributes")
    filled = resolve_attributes(case.kind, given, known=case.attributes) if case.kind else Filled()
    for refused in filled.refused:
        reply.drop(refused.told(case.name), refused.reason)
    if not text and not filled.values:
        return None
    return Summary(content=text or case.summary, attributes=filled.values)


def _only_repeats(text: str, case: SummaryCase) -> bool:
    """Tell whether a description is just the item's own line: weak models give it back."""
    rest = normalise_name(text).replace(normalise_name(case.name), "", 1).replace(normalise_name(case.type_name), "", 1)
    return not any(char.isalnum() for char in rest)
