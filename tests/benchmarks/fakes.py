"""The outside world of a benchmark: a model that answers by the text's marker, and an embedder that costs little.

Both keep account of their own CPU, so that it can be told from the memory's. Touches nothing outside.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from jiuwen_memory.foundation.llm.schema.message import AssistantMessage
from jiuwen_memory.testing import FakeLLM, FakePrompt
from jiuwen_memory.testing.llm import Answer
from tests.benchmarks.texts import Case, summary_of

DIM = 384
_ROWS = 8192


class WordEmbedder:
    """Texts that share words get near vectors; `calls` counts calls of the port, `cpu` its seconds."""

    model_name = "bench-words"
    dimension = DIM

    def __init__(self) -> None:
        self.calls = 0
        self.texts = 0
        self.cpu = 0.0
        self._table = numpy.random.default_rng(7).standard_normal((_ROWS, DIM), dtype=numpy.float32)

    def vector(self, text: str) -> list[float]:
        """Return the vector of a text, of length one."""
        places = [zlib.crc32(word.encode()) % _ROWS for word in text.casefold().split()] or [0]
        total = self._table[places].sum(axis=0)
        numbers: list[float] = (total / numpy.linalg.norm(total)).tolist()
        return numbers

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return (await self.embed_documents([text]))[0]

    async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[list[float]]:
        """Return one vector per text, in order."""
        start = time.thread_time()
        self.calls += 1
        self.texts += len(texts)
        vectors = [self.vector(text) for text in texts]
        self.cpu += time.thread_time() - start
        return vectors


class MarkedModel:
    """Answers each question as the marker in the text says (`texts.Case`); forgets prompts unless told to keep them."""

    def __init__(self, *, latency: float = 0.0, keeps_prompts: bool = False) -> None:
        self.cpu = 0.0
        self.calls = 0
        self.keeps_prompts = keeps_prompts
        self._latency = latency
        self.llm = FakeLLM(
            {
                "EntityExtraction": _entities,
                "RelationExtraction": _relations,
                "EntityDuplication": _duplicates,
                "EntitySummaries": _summaries,
                "RelationVerdicts": _verdicts,
                "RelevantFacts": _relevant,
            },
            latency=latency,
        )

    async def invoke(
        self,
        *,
        messages: Sequence[Mapping[str, str]],
        response_format: Mapping[str, object] | None = None,
        **kwargs: object,
    ) -> AssistantMessage:
        """Answer one question."""
        start = time.thread_time()
        self.calls += 1
        answer = await self.llm.invoke(messages=messages, response_format=response_format, **kwargs)
        if not self._latency:
            self.cpu += time.thread_time() - start
        if not self.keeps_prompts:
            self.llm.prompts.clear()
        return answer


def _entities(prompt: FakePrompt) -> Answer:
    case = Case.parse(prompt.text)
    return {"entities": [{"name": name, "type": kind} for name, kind in case.mentions()]}


def _relations(prompt: FakePrompt) -> Answer:
    none = {"valid_since": None, "valid_until": None}
    return {
        "relations": [
            {**none, "fact": fact, "name": name, "source": source, "target": target}
            for source, name, target, fact in Case.parse(prompt.text).facts()
        ]
    }


def _duplicates(prompt: FakePrompt) -> Answer:
    """Answer 'different'; where the entities resemble `texts.twin_names`, both twins are the same as the first one."""
    duplicates: list[Any] = []
    lines = prompt.lines()
    for new, candidates in _groups(prompt):
        twins = [number for number in candidates if " Twin" in lines[number]] if " Twin" in lines[new] else []
        duplicates.append({"id": new, "same": twins})
    return {"duplicates": duplicates}


def _summaries(prompt: FakePrompt) -> Answer:
    properties = prompt.schema["properties"]
    numbers = list(properties) if isinstance(properties, Mapping) else []
    return {number: summary_of(zlib.crc32(f"{number} {len(prompt.text)}".encode())) for number in numbers}


def _verdicts(prompt: FakePrompt) -> Answer:
    """Call every fifth fact a contradiction of its first candidate, and every fifth a repetition."""
    answers: list[Any] = []
    for place, (new, candidates) in enumerate(_groups(prompt)):
        same = candidates[:1] if place % 5 == 1 else []
        against = candidates[:1] if place % 5 == 0 else []
        answers.append({"id": new, "same": same, "contradicts": against, "links": []})
    return {"verdicts": answers}


def _relevant(prompt: FakePrompt) -> Answer:
    return {"relevant": list(prompt.lines())}


def _groups(prompt: FakePrompt) -> list[tuple[int, list[int]]]:
    """Return each new item's number and those of its candidates; candidates follow their item."""
    properties: Any = prompt.schema["properties"]
    (listing,) = properties.values()
    news = sorted(listing["items"]["properties"]["id"]["enum"])
    listed = sorted(prompt.lines())
    ends = [*news[1:], (listed[-1] if listed else 0) + 1]
    return [(new, [each for each in listed if new < each < end]) for new, end in zip(news, ends, strict=True)]
