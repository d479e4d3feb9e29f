"""The check of a folder of the user's own prompts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jiuwen_memory.errors import PromptFilesMissingError
from jiuwen_memory.memory_core.graph.extraction.prompt_check import check_prompts, main
from jiuwen_memory.memory_core.graph.extraction.prompts import QUESTIONS, PromptLibrary, used_variables

ROOT = Path(__file__).resolve().parent.parent
PLACE = "=== system ===\nWhere?{% if short %} Short.{% endif %}\n{{ schema }}\n=== user ===\n"
SET_ABOVE = "=== system ===\n{% set who = 'Ann' %}\n"


def write(folder: Path, file: str, text: str) -> None:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_the_built_in_prompts_pass(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "prompts", tmp_path / "mine")

    assert check_prompts(tmp_path / "mine") == []


@pytest.mark.parametrize(
    ("file", "text", "kind", "told"),
    [
        ("en/timezone.md", PLACE + "{{ text }} {{ speakres }}", "unknown_variable", "speakres"),
        ("cn/timezone.md", PLACE + "nothing", "missing_variable", "'text'"),
        ("en/entity_pair.md", PLACE + "{{ old }}", "missing_variable", "'new'"),
        ("en/rerank.md", PLACE + "{{ query }}", "missing_variable", "'lines'"),
        ("en/timezone.md", "{{ text }}", "unreadable", "=== system ==="),
        ("en/timezone.md", PLACE + "{% if %}{{ text }}", "unreadable", "cannot be read"),
        ("en/timezone.md", "=== assistant ===\n" + PLACE + "{{ text }}", "unreadable", "begins with '=== assistant"),
        ("en/timezone.md", PLACE + "{% include 'en/entities.md' %}{{ text }}", "unreadable", "one file"),
        ("en/timezone.md", SET_ABOVE + PLACE + "{{ text }} {{ who }}", "unknown_variable", "who"),
        ("en/timezones.md", PLACE + "{{ text }}", "unknown_file", "never read"),
        ("de/timezone.md", PLACE + "{{ text }}", "unknown_file", "never read"),
        ("en/timezone.txt", PLACE + "{{ text }}", "unknown_file", "never read"),
        ("timezone.md", PLACE + "{{ text }}", "unknown_file", "never read"),
    ],
)
def test_what_would_fail_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, text: str, kind: str, told: str
) -> None:
    write(tmp_path, file, text)

    code = main([str(tmp_path)])

    assert code == 1
    (found,) = [each for each in check_prompts(tmp_path) if each.is_error]
    assert (found.kind, found.file) == (kind, file)
    assert told in found.detail and f"error: {file}" in capsys.readouterr().out


def test_what_ours_uses_and_yours_does_not_is_a_hint(tmp_path: Path) -> None:
    write(tmp_path, "en/timezone.md", "=== user ===\n{{ text }} {{ schema }}")

    found = check_prompts(tmp_path)

    assert [(each.kind, each.is_error) for each in found] == [("unused_variable", False)]
    assert "'short'" in str(found[0])


@pytest.mark.parametrize(
    "text",
    [
        "{% set text = text | trim %}{{ text }}",
        "{% if text %}{% set first, second = text, 1 %}{{ first }}{{ second }}{% endif %}",
        "{% if text %}{% set told %}{{ text }}{% endset %}{{ told }}{% endif %}",
        "{% macro told(words) %}{{ words }}{% endmacro %}{{ told(text) }}",
    ],
    ids=["trimmed", "two at once", "a block", "a macro"],
)
def test_what_a_file_sets_itself_is_no_variable_and_hides_none(tmp_path: Path, text: str) -> None:
    write(tmp_path, "en/timezone.md", PLACE + text)

    assert check_prompts(tmp_path) == []


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "timezone.md").write_bytes(b"\xff\xfe\xff")

    assert [each.kind for each in check_prompts(tmp_path)] == ["unreadable"]


def test_a_folder_that_is_not_there_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(PromptFilesMissingError, match="no folder"):
        check_prompts(tmp_path / "nowhere")

    assert main([str(tmp_path / "nowhere")]) == 2


@pytest.mark.slow
def test_it_runs_as_a_command(tmp_path: Path) -> None:
    write(tmp_path, "en/timezone.md", PLACE + "{{ text }}")

    done = subprocess.run(
        [sys.executable, "-m", "jiuwen_memory.memory_core.graph.extraction.prompt_check", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "0 errors, 0 hints", "")


def test_the_page_on_prompts_names_every_file_with_its_variables() -> None:
    page = (ROOT / "docs" / "prompts.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    stated = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[2])) for row in rows if len(row) == 3}
    library = PromptLibrary()

    assert {name: stated.get(name) for name in QUESTIONS} == {
        name: set(used_variables(library.source(name, "en"), name)) for name in QUESTIONS
    }
