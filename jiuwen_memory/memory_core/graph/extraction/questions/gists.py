"""What is a text about in few words, and which facts does it tell besides? Two questions. Calls the model.

REMem's `episodic_gist` extraction: gists first, then facts with the gists as context. The first question asks for the
named things as well, so that the second can list them and who is who is asked meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pydantic import JsonValue

from jiuwen_memory.foundation.text import estimate_tokens, normalise_name
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.asking import Asker
from jiuwen_memory.memory_core.graph.extraction.base import AnswerForm
from jiuwen_memory.memory_core.graph.extraction.extraction_models import GistExtraction, GistFacts
from jiuwen_memory.memory_core.graph.extraction.ontology import Ontology
from jiuwen_memory.memory_core.graph.extraction.questions.entities import (
    ENTITY_KEYS,
    ENTITY_MARKS,
    NameCheck,
    bare_instructions,
    entity_changes,
    read_mentions,
    text_variables,
)
from jiuwen_memory.memory_core.graph.extraction.questions.fact_reading import FactReader
from jiuwen_memory.memory_core.graph.extraction.questions.relations import mention_labels
from jiuwen_memory.memory_core.graph.extraction.questions.shared import cut_history
from jiuwen_memory.memory_core.graph.extraction.questions.statements import described, fact_changes, fact_items
from jiuwen_memory.memory_core.graph.extraction.reply import (
    Reply,
    UnusableReplyError,
    folded,
    read_named_items,
    read_text,
)
from jiuwen_memory.memory_core.graph.extraction.values import Fact, Mention, Reading, SourceText

GIST_CHARACTERS: Final = 400
_KEYS: Final = ("gists", "gist", "summaries", "paraphrases")
_MARKS: Final = ("gist", "text", "sentence", "summary")


async def ask_gists(source: SourceText, *, ontology: Ontology, language: Language, asker: Asker) -> Reading:
    """Return the gists of a text and its named things, each once; none is a proper answer.

    Raises:
        LLMCallError: the model failed or gave no usable answer.
    """
    types, most = ontology.entity_types, most_gists(source)
    variables = {**text_variables(source, types, language, closed=ontology.closed_entities), "most": most}
    bounds = {"maxItems": most, "items": {"type": "string", "maxLength": GIST_CHARACTERS}}
    form = AnswerForm(GistExtraction, {"gists": bounds, **entity_changes(source, types)})
    instructions = partial(bare_instructions, "gists", variables, language=language, asker=asker)
    read = partial(_read_gists, source=source, ontology=ontology, most=most, instructions=instructions)
    return await asker.ask("gists", form, language=language, variables=variables, read=read)


def most_gists(source: SourceText) -> int:
    """Return how many gists a text may have: two for a short one, one more for each 150 tokens, at most eight."""
    return min(8, 2 + estimate_tokens(source.content) // 150)


def _read_gists(
    reply: Reply, *, source: SourceText, ontology: Ontology, most: int, instructions: Callable[[], str]
) -> Reading:
    names = NameCheck(source, instructions())
    told = read_named_items(reply, keys=_KEYS, marks=_MARKS)
    listed = read_named_items(reply, keys=ENTITY_KEYS, marks=ENTITY_MARKS)
    if told is None and listed is None:
        raise UnusableReplyError("neither gists nor named things")
    gists: dict[str, str] = {}
    for item in told or []:
        gist = _gist(item)
        if not gist or names.is_copied(gist):
            reply.drop(item, "copied from the prompt" if gist else "no gist")
        else:
            gists.setdefault(normalise_name(gist), gist)
    mentions = read_mentions(
        listed or [], names=names, types=ontology.entity_types, closed=ontology.closed_entities, reply=reply
    )
    return Reading(tuple(mentions), gists=tuple(gists.values())[:most])


def _gist(item: JsonValue) -> str:
    fields = folded(item) if isinstance(item, dict) else {}
    words = next((fields[mark] for mark in _MARKS if mark in fields), item)
    return " ".join(read_text(words).split())


async def ask_gist_facts(
    source: SourceText,
    gists: Sequence[str],
    *,
    mentions: Sequence[Mention],
    ontology: Ontology,
    language: Language,
    asker: Asker,
) -> list[Fact]:
    """Return the facts of a text about its named things, each once; the gists say what the text is about.

    Raises:
        LLMCallError: the model failed or gave no usable answer.
    """
    if not mentions:
        return []
    labels = mention_labels(mentions)
    variables: dict[str, object] = {
        "entities": [{"id": number, "label": label} for number, label in enumerate(labels, start=1)],
        "gists": list(gists),
        "predicates": described(ontology.relation_types, language),
        "speakers": list(source.speakers),
        "history": cut_history(source),
        "text": source.content,
    }
    ends = {"enum": list(dict.fromkeys(labels))}
    changes = fact_changes(GistFacts, source, ontology=ontology, language=language)
    form = AnswerForm(GistFacts, {**changes, "facts[].subject": ends, "facts[].object": ends})
    bare = {**variables, "entities": [], "gists": []}
    instructions = partial(bare_instructions, "gist_facts", bare, language=language, asker=asker)
    read = partial(_read_facts, source=source, mentions=mentions, ontology=ontology, instructions=instructions)
    return await asker.ask("gist_facts", form, language=language, variables=variables, read=read)


def _read_facts(
    reply: Reply,
    *,
    source: SourceText,
    mentions: Sequence[Mention],
    ontology: Ontology,
    instructions: Callable[[], str],
) -> list[Fact]:
    names = NameCheck(source, instructions())
    items = fact_items(reply)
    reader = FactReader(mentions, names, source=source, ontology=ontology, reply=reply, is_open=False)
    facts = reader.facts(items)
    if items and not facts and not reader.is_strict:
        raise UnusableReplyError("no item is a fact between listed things")
    return facts
