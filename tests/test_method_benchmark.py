"""The measure of the ways of extraction: what counts as right, the table, going on where a run ended."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from pathlib import Path

import pytest

from jiuwen_memory.testing import FakeLLM, by_name
from tests.benchmarks import batches, methods
from tests.benchmarks.batches_truth import PORTRAITS
from tests.benchmarks.methods import FoundFact, Measure, OwnQuestions, Score, measure, score
from tests.benchmarks.methods_truth import SAMPLES

BRIDGE, WORK = SAMPLES[0], SAMPLES[1]


def test_the_truth_names_only_what_the_texts_hold() -> None:
    for sample in SAMPLES:
        text = (
            sample.content
            if isinstance(sample.content, str)
            else " ".join(f"{each['name']} {each['content']}" for each in sample.content)
        )

        assert all(any(name in text for name in words) for words in sample.entities), sample.name
    assert [sample.language for sample in SAMPLES].count("en") == len(SAMPLES) / 2 == 5


def test_a_fact_is_right_at_the_right_ends_only() -> None:
    right = FoundFact("Kessel Bridge", "crosses", "Alm", "The Kessel Bridge crosses the Alm.")
    wrong = FoundFact("Alm", "crosses", "Roden", "The Kessel Bridge crosses the Alm.")

    found = score(BRIDGE, ["Kessel Bridge", "alm", "Nobody"], [right, wrong])

    assert found == Score(right_entities=2, found_entities=2, right_facts=1, found_facts=1)


async def test_what_all_ways_ask_alike_is_not_asked_of_the_model_and_not_counted() -> None:
    said = {"subject": "Hanna Wirth", "predicate": "designed", "object": "Kessel Bridge"}
    llm = FakeLLM({"TemporalFacts": {"entities": [], "facts": [{**said, "time": "in 1962"}]}})

    found = await measure("temporal", BRIDGE, OwnQuestions(llm))

    assert [prompt.question for prompt in llm.prompts] == ["TemporalFacts"]
    assert (found.calls, found.failure, found.entities) == (1, "", ("Hanna Wirth", "Kessel Bridge"))
    assert found.facts[0].further == '{"since": -252460800, "time": "1962"}'
    assert score(BRIDGE, found.entities, found.facts).found_facts == 1


def test_the_table_sums_by_method_and_language_and_counts_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fact = FoundFact("Paul", "works at", "Lumet", "Paul works at Lumet.")
    kept = [
        Measure("openie", WORK.name, calls=1, input_tokens=100, entities=("Paul", "Lumet"), facts=(fact,)),
        Measure("openie", BRIDGE.name, seconds=2.0, failure="down"),
    ]
    file = tmp_path / "kept.jsonl"
    file.write_text("\n".join(dumps(asdict(each)) for each in kept), encoding="utf-8")

    methods.main(["--file", str(file)])

    assert capsys.readouterr().out.splitlines()[-1] == (
        "| openie, en | 2 (1 failed) | 1 | 100 | 0 | 2 | 2 | 1.00 | 0.22 | 1 | 1.00 | 0.14 |"
    )


async def test_pairs_are_judged_in_questions_of_the_wanted_size() -> None:
    alone, at_once = [await batches.judge(FakeLLM(), "en", size) for size in (1, 12)]

    assert alone.calls > at_once.calls == 1
    assert alone.outcome == at_once.outcome == "0 of 6 found again, 0 fused wrongly"


async def test_a_description_counts_when_it_tells_its_own_and_is_blamed_for_what_it_tells_of_another() -> None:
    known = {each.name: each.text for each in PORTRAITS["cn"]}
    right = FakeLLM({"EntitySummaries": by_name(known)})
    shifted = FakeLLM({"EntitySummaries": by_name(dict(zip(known, [*known.values()][1:], strict=False)))})

    rows = [await batches.describe(llm, "cn", 4) for llm in (right, shifted)]

    assert [row.outcome for row in rows] == [
        "12 of 12 tell their own, 0 something of another",
        "0 of 12 tell their own, 11 something of another",
    ]
    assert [row.calls for row in rows] == [3, 3]


async def test_a_document_is_read_in_as_many_questions_as_its_pieces() -> None:
    rows = [await batches.read(FakeLLM(), "en", size, "openie") for size in (50, 400)]

    assert rows[0].calls > rows[1].calls == 1
    assert rows[1].outcome == "things right 0/0, found 0/19; facts right 0/0, found 0/15"
