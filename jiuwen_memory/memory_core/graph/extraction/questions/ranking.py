"""Which passages help to answer a question, and which most? Calls the model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from jiuwen_memory.foundation.text import cut_tokens
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.asking import Asker
from jiuwen_memory.memory_core.graph.extraction.base import AnswerForm
from jiuwen_memory.memory_core.graph.extraction.extraction_models import PassageRanking
from jiuwen_memory.memory_core.graph.extraction.questions.shared import Numbered
from jiuwen_memory.memory_core.graph.extraction.reply import Reply, UnusableReplyError, folded, read_ids, read_items

_KEYS: Final = ("ranking", "ranked", "order", "relevant", "ids", "passages")


async def ask_ranking(
    query: str, passages: Sequence[str], *, passage_tokens: int, language: Language, asker: Asker
) -> tuple[int, ...]:
    """Return the places of the passages that help, the most helpful first; there may be none.

    Raises:
        LLMCallError: the service failed for good.
        LLMAnswerError: it answered, but with nothing usable.
    """
    lines = [Numbered(number, cut_tokens(text, passage_tokens)) for number, text in enumerate(passages, start=1)]
    numbers = [line.number for line in lines]
    form = AnswerForm(PassageRanking, {"ranking": {"maxItems": len(lines)}, "ranking[]": {"enum": numbers}})
    variables = {"lines": lines, "query": query}
    read = partial(_read, count=len(lines))
    return await asker.ask("rerank", form, language=language, variables=variables, read=read)


def _read(reply: Reply, *, count: int) -> tuple[int, ...]:
    items = read_items(reply, keys=_KEYS, marks=("id",))
    listed = [number for item in items for number in _numbers(item)]
    known = [number for number in dict.fromkeys(listed) if 1 <= number <= count]
    for number in dict.fromkeys(listed):
        if number not in known:
            reply.drop(str(number), "unknown number")
    if items and not known:
        raise UnusableReplyError("no listed number")
    return tuple(number - 1 for number in known)


def _numbers(item: object) -> list[int]:
    if isinstance(item, dict):
        fields = folded(item)
        return read_ids(next((fields[key] for key in (*_KEYS, "id", "number") if key in fields), None))
    return read_ids(item if isinstance(item, (str, int, float, list)) else None)
