"""The benchmarks run, and what they count is within budget. Times are theirs to report, not ours to assert."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as benchmarks
from tests.benchmarks import clients, counts, locomo, quality
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


async def test_the_time_to_the_first_token_is_measured_with_a_memory_and_without(setting: Setting) -> None:
    lines = await clients.first_tokens(replace(setting, searches=2))

    assert ["model of 300 ms" in line.what for line in lines] == [True, False, False]
    assert [line.values["failures"] for line in lines] == [0, 0, 0]
    assert all(len(pair) == 2 for line in lines for pair in line.values["seconds"])  # type: ignore[attr-defined]


async def test_scripted_texts_become_the_right_graph(setting: Setting) -> None:
    (line,) = await quality.floor(setting)

    assert line.measured == "16 of 16 right"


def test_a_run_prints_a_table_and_keeps_the_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    benchmarks.main(["--only", "k", "--quick", "--json", str(tmp_path / "out.json")])

    assert "the graph of three scripted texts" in capsys.readouterr().out
    kept = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert kept["lines"][0]["verdict"] == "ok"
    assert kept["surroundings"]["pymilvus"]


def test_recall_is_measured_on_turns_and_questions_in_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = [
        {
            "conversation": name,
            "session": session,
            "turn": turn,
            "turn_id": f"D{session}:{turn}",
            "datetime": f"2023-05-0{session}T10:00:00",
            "speaker": "Mia" if turn % 2 else "Jon",
            "text": f"Word{name}{session}{turn} and nothing else.",
        }
        for name in ("x", "y")
        for session in (1, 2)
        for turn in range(1, 13)
    ]
    questions = [
        {
            "qid": f"{name}-{number}",
            "conversation": name,
            "question": f"Which is word{name}1{number}?",
            "category_name": "adversarial" if number == 5 else "single_hop",
            "evidence": [f"D1:{number}"],
            "evidence_sessions": [1],
        }
        for name in ("x", "y")
        for number in range(1, 6)
    ]
    for name, rows in (("turns", turns), ("questions", questions)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"locomo_{name}.jsonl").write_text(lines, encoding="utf-8")

    for level, store in (("turn", "lite"), ("session", "exact")):
        arguments = ["--data", str(tmp_path), "--level", level, "--json", str(tmp_path / f"{level}.json")]
        locomo.main(
            [
                *arguments,
                "--store",
                store,
                "--embedder",
                "fake",
                "--strategies",
                "lexical",
                "conversation",
                "--chosen-on",
                "x",
            ]
        )

    assert "conversations x, on which settings were chosen: 4 questions" in capsys.readouterr().out
    by_turn, by_session = (json.loads((tmp_path / f"{level}.json").read_text()) for level in ("turn", "session"))
    (row, _) = by_turn["tables"]["all conversations"]
    assert (row["questions"], row["R@1"], row["strangers"], row["empty"]) == (8, 1.0, 0, 0.0)
    assert by_session["tables"]["all conversations"][1]["R@3"] == 1.0


def test_the_interval_of_a_difference_holds_its_mean() -> None:
    mean, low, high = locomo.interval([1.0] * 30 + [0.0] * 10, [0.0] * 40)

    assert low < mean == 0.75 < high
