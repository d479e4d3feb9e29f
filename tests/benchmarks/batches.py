"""How much a real model can be asked at once: `python -m tests.benchmarks.batches --url ... --model ...`.

Three settings of a strategy, each at several sizes: pairs to judge a question (`judge_items`), things to describe a
question (`batch_items`), tokens of text a question (`chunk_tokens`). What a measure is not about is scripted.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from jiuwen_memory import (
    AddMemStrategy,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    Model,
    ModelClientConfig,
    ModelRequestConfig,
)
from jiuwen_memory.foundation.llm.model import ChatModel, ChatReply
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, by_name
from tests.benchmarks.batches_truth import PAIRS, PORTRAITS, Language
from tests.benchmarks.methods import FoundFact, score
from tests.benchmarks.methods_truth import SAMPLES, Sample

SIZES = {"judge": (1, 4, 12), "describe": (1, 4, 12), "read": (50, 100, 400)}
WAYS = ("openie", "temporal")
LANGUAGES: tuple[Language, ...] = ("en", "cn")
USER = "marta"
HEAD = "| asked | size | calls | tokens in | out | seconds | outcome |\n|---|---|---|---|---|---|---|"


@dataclass
class Row:
    """One line of the table; counted are the questions that went to the model."""

    asked: str
    size: int
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    outcome: str = ""

    def __str__(self) -> str:
        cells = (self.asked, self.size, self.calls, self.tokens_in, self.tokens_out, f"{self.seconds:.0f}")
        return f"| {' | '.join(map(str, cells))} | {self.outcome} |"

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the seconds of what is done here."""
        start = time.monotonic()
        yield
        self.seconds += time.monotonic() - start


@dataclass
class Partly:
    """A model that is asked some questions, by their schemas' names, and what it was asked; a script answers others."""

    model: ChatModel
    row: Row
    asked: frozenset[str]
    script: FakeLLM = field(default_factory=FakeLLM)

    async def invoke(
        self, *, messages: Sequence[dict[str, str]], response_format: Mapping[str, Any] | None = None, **kwargs: object
    ) -> ChatReply:
        """Answer one question."""
        if (response_format or {})["json_schema"]["name"] not in self.asked:
            return await self.script.invoke(messages=messages, response_format=response_format, **kwargs)
        reply = await self.model.invoke(messages=messages, response_format=response_format, **kwargs)
        usage = getattr(reply, "usage", None)
        self.row.calls += 1
        self.row.tokens_in += usage.input_tokens if usage else 0
        self.row.tokens_out += usage.output_tokens if usage else 0
        return reply


async def judge(model: ChatModel, language: Language, size: int) -> Row:
    """Store one of each pair, tell of the other, and count how many find their own and no other."""
    pairs = PAIRS[language]
    row = Row(f"pairs to judge, {language}", size)
    partly = Partly(model, row, frozenset({"EntityDuplication"}))
    script = partly.script.replies
    script["EntitySummaries"] = by_name({each.stored: each.known for each in pairs})
    script["EntityExtraction"] = {"entities": [{"name": each.stored, "type": each.type_name} for each in pairs]}
    strategy = AddMemStrategy.small_model(extraction="staged", judge_entities=True, judge_items=size)
    async with _memory(partly, strategy, language) as memory:
        first = await memory.add_memory(EpisodeType.DOCUMENT, USER, "\n".join(each.known for each in pairs))
        script["EntityExtraction"] = {"entities": [{"name": each.told, "type": each.type_name} for each in pairs]}
        with row.timed():
            second = await memory.add_memory(EpisodeType.DOCUMENT, USER, "\n".join(each.text for each in pairs))
    row.outcome = _identities(language, first, second)
    return row


def _identities(language: Language, first: GraphMemUpdate, second: GraphMemUpdate) -> str:
    stored = {each.name: each.uuid for each in first.added_entity}
    found = {alias: each.uuid for each in second.updated_entity for alias in each.aliases}
    same = [pair for pair in PAIRS[language] if pair.is_same]
    right = sum(found.get(pair.told) == stored[pair.stored] for pair in same)
    fused = sum(pair.told in found for pair in PAIRS[language]) - right
    return f"{right} of {len(same)} found again, {fused} fused wrongly"


async def describe(model: ChatModel, language: Language, size: int) -> Row:
    """Describe what one text tells of several things, and count whose description tells its own or another's."""
    portraits = PORTRAITS[language]
    row = Row(f"things to describe, {language}", size)
    partly = Partly(model, row, frozenset({"EntitySummaries"}))
    partly.script.replies["EntityExtraction"] = {
        "entities": [{"name": each.name, "type": each.type_name} for each in portraits]
    }
    strategy = AddMemStrategy.small_model(extraction="staged", batch_items=size)
    async with _memory(partly, strategy, language) as memory:
        with row.timed():
            update = await memory.add_memory(EpisodeType.DOCUMENT, USER, "\n".join(each.text for each in portraits))
    told = {each.name: each.content.casefold() for each in update.added_entity}
    own = sum(each.sign in told.get(each.name, "") for each in portraits)
    mixed = sum(any(each.sign in text for each in portraits if each.name != name) for name, text in told.items())
    row.outcome = f"{own} of {len(portraits)} tell their own, {mixed} something of another"
    return row


async def read(model: ChatModel, language: Language, size: int, way: str) -> Row:
    """Take the five episodes of a language in as one document."""
    sample = _one_document(language)
    row = Row(f"tokens of text, {way}, {language}", size)
    asked = {"OpenInformation", "TemporalFacts", "RelationVerdicts"}
    strategy = AddMemStrategy.small_model(extraction=way, chunk_tokens=size)
    async with _memory(Partly(model, row, frozenset(asked)), strategy, language) as memory:
        with row.timed():
            update = await memory.add_memory(EpisodeType.DOCUMENT, USER, sample.content)
    names = {each.uuid: each.name for each in update.added_entity}
    facts = [
        FoundFact(names[each.lhs], each.name, names[each.rhs], each.content)
        for each in update.added_relation
        if each.kind == "fact"
    ]
    found = score(sample, list(names.values()), facts)
    row.outcome = (
        f"things right {found.right_entities}/{len(names)}, found {found.found_entities}/{len(sample.entities)}; "
        f"facts right {found.right_facts}/{len(facts)}, found {found.found_facts}/{len(sample.wanted)}"
    )
    return row


def _one_document(language: Language) -> Sample:
    samples = [each for each in SAMPLES if each.language == language]
    return Sample(
        name=f"all-{language}",
        language=language,
        kind=EpisodeType.DOCUMENT,
        content="\n\n".join(_as_text(each) for each in samples),
        entities=tuple(words for each in samples for words in each.entities),
        extra_entities=tuple(words for each in samples for words in each.extra_entities),
        facts=tuple(fact for each in samples for fact in each.facts),
    )


def _as_text(sample: Sample) -> str:
    if isinstance(sample.content, str):
        return sample.content
    return "\n".join(f"{each['name']}: {each['content']}" for each in sample.content)


def _memory(model: ChatModel, strategy: AddMemStrategy, language: Language) -> GraphMemory:
    config = GraphConfig(uri=f"batch-{uuid4().hex}", backend="memory", embed_dim=64, embedding_model=FakeEmbedder(64))
    return GraphMemory(config, model, extraction_strategy=strategy, language=language)


async def run(url: str, name: str, kinds: Sequence[str]) -> None:
    """Measure, and print each line as soon as it is known."""
    client = ModelClientConfig(api_base=url, api_key="none", timeout=300.0)
    print(HEAD, flush=True)
    async with Model(ModelRequestConfig(model=name, max_tokens=2000), client) as model:
        for kind in kinds:
            for language in LANGUAGES:
                for size in SIZES[kind]:
                    for call in _calls(kind, model, language, size):
                        print(await call, flush=True)


def _calls(kind: str, model: ChatModel, language: Language, size: int) -> Iterator[Awaitable[Row]]:
    if kind == "read":
        yield from (read(model, language, size, way) for way in WAYS)
    else:
        yield (judge if kind == "judge" else describe)(model, language, size)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.batches", description=__doc__)
    parser.add_argument("--url", required=True, help="an endpoint with the OpenAI protocol")
    parser.add_argument("--model", required=True, help="the model's name there")
    parser.add_argument("--only", default=",".join(SIZES), help="which of judge, describe, read")
    options = parser.parse_args(arguments)
    logging.getLogger("jiuwen_memory").setLevel(logging.ERROR)
    asyncio.run(run(options.url, options.model, options.only.split(",")))


if __name__ == "__main__":
    main()
