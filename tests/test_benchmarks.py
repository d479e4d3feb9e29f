"""The benchmarks run, and what they count is within budget. Times are theirs to report, not ours to assert."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as benchmarks
from tests.benchmarks import counts, quality
from tests.benchmarks.report import Line
from tests.benchmarks.settings import Setting, make_setting


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    """One small graph, few combinations."""
    return replace(make_setting(tmp_path, sizes=(0, 120), quick=True, growth=1), counts=(0, 20))


def over(lines: list[Line]) -> list[str]:
    return [f"{line.what}: {line.measured}" for line in lines if line.verdict == "over"]


async def test_an_add_asks_the_model_no_more_often_than_its_budget_allows(setting: Setting) -> None:
    lines = await counts.model_calls(setting)

    assert over([line for line in lines if "silent assistant" not in line.what]) == []


async def test_an_add_embeds_in_four_calls_and_a_search_in_one(setting: Setting) -> None:
    lines = await counts.embedder_calls(setting)

    assert over(lines) == []


async def test_prompts_are_counted_in_both_languages(setting: Setting) -> None:
    lines = await counts.prompt_characters(setting)

    assert {line.what.rsplit(" ", 1)[-1] for line in lines} == {"en", "cn"}
    assert all(line.values["by question"] for line in lines)


async def test_scripted_texts_become_the_right_graph(setting: Setting) -> None:
    (line,) = await quality.floor(setting)

    assert line.measured == "16 of 16 right"


def test_a_run_prints_a_table_and_keeps_the_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    benchmarks.main(["--only", "k", "--quick", "--json", str(tmp_path / "out.json")])

    assert "the graph of three scripted texts" in capsys.readouterr().out
    kept = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert kept["lines"][0]["verdict"] == "ok"
    assert kept["surroundings"]["pymilvus"]
