"""How well each way of extraction does with a real model: `python -m tests.benchmarks.methods --url ... --model ...`.

Each episode is taken in by itself, into an empty graph in this process, and what all ways ask alike (time zone,
summaries) is answered here: what differs is what the model is asked about the text and what it makes of it. After each
episode what was measured is in the file, and a later run goes on from there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from jiuwen_memory import AddMemStrategy, GraphConfig, GraphMemory, Model, ModelClientConfig, ModelRequestConfig
from jiuwen_memory.errors import JiuwenMemoryError
from jiuwen_memory.foundation.llm.model import ChatModel, ChatReply
from jiuwen_memory.foundation.store.graph.graph_object import Relation
from jiuwen_memory.foundation.text import normalise_name
from jiuwen_memory.testing import FakeEmbedder, FakeLLM
from tests.benchmarks.methods_truth import SAMPLES, Sample, Stated, Words

METHODS = ("staged", "openie", "episodic", "episodic_gist", "temporal")
SHARED = frozenset({"TimezonePredictions", "EntitySummaries"})
SAID_AT = datetime(2026, 5, 8, 9, 30, tzinfo=UTC)
USER = "marta"


@dataclass(frozen=True)
class FoundFact:
    """A fact as it was stored: the names of its ends, its short name, its sentence, and what else is known of it."""

    source: str
    name: str
    target: str
    sentence: str
    further: str = ""


@dataclass(frozen=True)
class Measure:
    """What one method made of one episode, and what it cost."""

    method: str
    sample: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    failure: str = ""
    entities: tuple[str, ...] = ()
    facts: tuple[FoundFact, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Score:
    """How much of what was found is right, and how much of the truth was found."""

    right_entities: int
    found_entities: int
    right_facts: int
    found_facts: int


def score(sample: Sample, entities: Sequence[str], facts: Sequence[FoundFact]) -> Score:
    """Return how much of a graph is right, and how much of the truth it holds."""
    known = (*sample.entities, *sample.extra_entities)
    return Score(
        right_entities=sum(any(_is_one_of(each, words) for words in known) for each in entities),
        found_entities=sum(any(_is_one_of(each, words) for each in entities) for words in sample.entities),
        right_facts=sum(any(_states(each, fact) for fact in sample.facts) for each in facts),
        found_facts=sum(any(_states(each, fact) for each in facts) for fact in sample.wanted),
    )


def _is_one_of(name: str, words: Words) -> bool:
    return normalise_name(name) in {normalise_name(each) for each in words}


def _states(found: FoundFact, fact: Stated) -> bool:
    """Tell whether a fact says what it should, at the right ends: words alone could say it of something else."""
    text = normalise_name(f"{found.name} {found.sentence}")
    ends = [normalise_name(found.source), normalise_name(found.target)]
    is_about = any(_has(end, fact.subject) and _has(ends[1 - at], fact.object) for at, end in enumerate(ends))
    is_about_one = ends[0] == ends[1] and _has(ends[0], fact.subject) and _has(text, fact.object)
    return _has(text, fact.predicate) and (is_about or is_about_one)


def _has(text: str, words: Words) -> bool:
    return any(normalise_name(word) in text for word in words)


class OwnQuestions:
    """A model that is asked only what belongs to a way of extraction; the rest is answered with nothing."""

    def __init__(self, model: ChatModel) -> None:
        self.model = model
        self.shared = FakeLLM({"EntitySummaries": lambda prompt: dict.fromkeys(map(str, prompt.lines()), "")})

    async def invoke(
        self, *, messages: Sequence[dict[str, str]], response_format: Mapping[str, Any] | None = None, **kwargs: object
    ) -> ChatReply:
        """Answer one question."""
        question = (response_format or {})["json_schema"]["name"]
        asked: ChatModel = self.shared if question in SHARED else self.model
        return await asked.invoke(messages=messages, response_format=response_format, **kwargs)


async def measure(method: str, sample: Sample, model: ChatModel) -> Measure:
    """Take one episode in by one method, and look at what became of it."""
    strategy = AddMemStrategy.small_model(extraction=method)
    start = time.monotonic()
    config = GraphConfig(uri=f"measure-{uuid4().hex}", backend="memory", embed_dim=64, embedding_model=FakeEmbedder(64))
    async with GraphMemory(config, model, extraction_strategy=strategy, language=sample.language) as memory:
        try:
            update = await memory.add_memory(sample.kind, USER, sample.content, reference_time=SAID_AT)
        except JiuwenMemoryError as error:
            return Measure(method, sample.name, seconds=time.monotonic() - start, failure=str(error)[:200])
    names = {each.uuid: each.name for each in update.added_entity}
    own = [each for name, each in update.usage.questions.items() if name not in ("timezone", "summaries")]
    return Measure(
        method,
        sample.name,
        calls=sum(each.calls for each in own) + update.usage.reasked,
        input_tokens=sum(each.input_tokens for each in own),
        output_tokens=sum(each.output_tokens for each in own),
        seconds=round(time.monotonic() - start, 1),
        entities=tuple(names.values()),
        facts=tuple(
            FoundFact(names[each.lhs], each.name, names[each.rhs], each.content, _further(each))
            for each in update.added_relation
            if each.kind == "fact"
        ),
        warnings=tuple(update.warnings),
    )


def _further(fact: Relation) -> str:
    since = {} if fact.valid_since is None else {"since": fact.valid_since}
    return json.dumps({**since, **fact.qualifiers}, ensure_ascii=False)


def table(measures: Iterable[Measure]) -> str:
    """Return one line a method and language, sums over its episodes, as a table of Markdown."""
    samples = {each.name: each for each in SAMPLES}
    found = list(measures)
    lines = [_HEAD, f"|{'---|' * _HEAD.count(' | ')}---|"]
    for method in METHODS:
        for language in ("en", "cn"):
            mine = [each for each in found if each.method == method and samples[each.sample].language == language]
            if mine:
                lines.append(_line(f"{method}, {language}", mine, [samples[each.sample] for each in mine]))
    return "\n".join(lines)


_HEAD = "| method | episodes | calls | tokens in | out | seconds | entities | P | R | facts | P | R |"


def _line(label: str, measures: Sequence[Measure], samples: Sequence[Sample]) -> str:
    scores = [score(sample, each.entities, each.facts) for each, sample in zip(measures, samples, strict=True)]
    entities, facts = sum(len(each.entities) for each in measures), sum(len(each.facts) for each in measures)
    failed = sum(bool(each.failure) for each in measures)
    cells = [
        label,
        f"{len(measures)}" + (f" ({failed} failed)" if failed else ""),
        f"{sum(each.calls for each in measures)}",
        f"{sum(each.input_tokens for each in measures)}",
        f"{sum(each.output_tokens for each in measures)}",
        f"{sum(each.seconds for each in measures):.0f}",
        f"{entities}",
        _share(sum(each.right_entities for each in scores), entities),
        _share(sum(each.found_entities for each in scores), sum(len(each.entities) for each in samples)),
        f"{facts}",
        _share(sum(each.right_facts for each in scores), facts),
        _share(sum(each.found_facts for each in scores), sum(len(each.wanted) for each in samples)),
    ]
    return f"| {' | '.join(cells)} |"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"


def read_measures(file: Path) -> list[Measure]:
    """Return what earlier runs measured."""
    if not file.is_file():
        return []
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [Measure(**{**row, "facts": tuple(FoundFact(**fact) for fact in row["facts"])}) for row in rows]


async def run(methods: Sequence[str], samples: Sequence[Sample], *, file: Path, url: str, model: str) -> None:
    """Measure what is not in the file yet, and add it there."""
    done = {(each.method, each.sample) for each in read_measures(file)}
    client = ModelClientConfig(api_base=url, api_key="none", timeout=300.0)
    async with Model(ModelRequestConfig(model=model, max_tokens=900), client) as asked:
        for sample in samples:
            for method in methods:
                if (method, sample.name) in done:
                    continue
                found = await measure(method, sample, OwnQuestions(asked))
                line = json.dumps(asdict(found), ensure_ascii=False)
                await asyncio.to_thread(_append, file, line)
                print(f"{method} {sample.name}: {found.seconds} s {found.failure}", flush=True)


def _append(file: Path, line: str) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"{line}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, then print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.methods", description=__doc__)
    parser.add_argument("--url", default="", help="an endpoint with the OpenAI protocol; without it the file is shown")
    parser.add_argument("--model", default="", help="the model's name there")
    parser.add_argument("--methods", default=",".join(METHODS), help="which, such as staged,openie")
    parser.add_argument("--file", type=Path, default=Path("methods.jsonl"), help="where the measures are kept")
    parser.add_argument("--samples", default="", help="which episodes, such as en-work,cn-work; all without it")
    options = parser.parse_args(arguments)
    logging.getLogger("jiuwen_memory").setLevel(logging.ERROR)
    if options.url:
        samples = [each for each in SAMPLES if not options.samples or each.name in options.samples.split(",")]
        asyncio.run(run(options.methods.split(","), samples, file=options.file, url=options.url, model=options.model))
    print(table(read_measures(options.file)))


if __name__ == "__main__":
    main()
