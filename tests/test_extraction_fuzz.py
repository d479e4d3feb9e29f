"""Whatever a model sends, every question ends in an answer, a warning or the documented error."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jiuwen_memory.errors import LLMAnswerError
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import DEFAULT_ENTITY_TYPES
from jiuwen_memory.memory_core.graph.extraction.questions import (
    ask_entities,
    ask_entity_duplicates,
    ask_relation_filter,
    ask_relation_verdicts,
    ask_relations,
    ask_summaries,
    ask_timezone,
)
from jiuwen_memory.memory_core.graph.extraction.reply import parse_reply
from jiuwen_memory.memory_core.graph.extraction.values import (
    Described,
    DuplicateCase,
    FilterCase,
    Mention,
    SummaryCase,
    VerdictCase,
)
from tests.extraction_support import TALK, ScriptedModel, asker_for

WORDS = st.sampled_from(
    [
        "entities",
        "name",
        "type",
        "relations",
        "fact",
        "source",
        "target",
        "id",
        "same",
        "duplicates",
        "verdicts",
        "contradicts",
        "links",
        "kind",
        "relevant",
        "summaries",
        "summary",
        "attributes",
        "timezone",
        "place",
        "arguments",
        "result",
        "1",
        "2",
        "3",
        "[1]",
        "Human",
        "none",
        "无",
        "+08:00",
        "Mira",
    ]
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2, 9), st.floats(), WORDS, st.text(max_size=4))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=12,
)
REPLIES = st.one_of(
    st.text(max_size=40),
    st.text(alphabet='{}[]",:\\`<think>/1a\n', max_size=60),
    JSON.map(json.dumps),
    st.tuples(JSON.map(json.dumps), st.integers(0, 60)).map(lambda pair: pair[0][: pair[1]]),
)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(reply=REPLIES)
async def test_no_reply_breaks_a_question(reply: str) -> None:
    asker = asker_for(ScriptedModel([reply]), tries=1)
    ann = Described("Ann", "Human")
    questions = (
        ask_entities(TALK, types=DEFAULT_ENTITY_TYPES, language="en", asker=asker),
        ask_timezone(TALK, language="en", asker=asker),
        ask_relations(TALK, mentions=[Mention("Ann", "Human")] * 2, types=(), language="en", asker=asker),
        ask_entity_duplicates(TALK, [DuplicateCase(ann, (ann, ann))], language="en", judge_items=9, asker=asker),
        ask_entity_duplicates(TALK, [DuplicateCase(ann, (ann,))], language="en", judge_items=1, asker=asker),
        ask_summaries(TALK, [SummaryCase("Ann", "Human")] * 2, language="en", batch_items=9, asker=asker),
        ask_relation_verdicts(TALK, [VerdictCase("a", ("b", "c"))], language="en", judge_items=9, asker=asker),
        ask_relation_verdicts(TALK, [VerdictCase("a", ("b",))], language="en", judge_items=1, asker=asker),
        ask_relation_filter([FilterCase("Ann", "", ("a", "b"))], language="en", judge_items=9, asker=asker),
    )

    for question in questions:
        try:
            await question
        except LLMAnswerError as error:
            assert error.question in ("entities", "relations")


def test_endless_brackets_are_no_answer() -> None:
    assert parse_reply("[" * 100_000).values == ()
    assert parse_reply("[" * 20_000 + "]" * 20_000).values == ()
