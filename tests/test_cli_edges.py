"""The command line where input is odd: broken files, strange names, blank users, options that do not go together."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from jiuwen_memory.cli.calls import table
from jiuwen_memory.foundation.settings import SETTINGS
from tests.cli_support import ROOT, CommandLine, command_line, told


@pytest.fixture(autouse=True)
def empty_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in SETTINGS:
        monkeypatch.delenv(setting.name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def line(tmp_path: Path) -> Iterator[CommandLine]:
    with command_line(tmp_path, backend="memory") as given:
        yield given


def outcomes(line: CommandLine, *arguments: str, typed: str | None = None) -> list[Any]:
    return [json.loads(each) for each in line.run("add", *arguments, "--json", typed=typed).stdout.splitlines()]


def shown(line: CommandLine, uuid: str) -> Any:
    return json.loads(line.run("show", uuid, "--json").stdout)


def message(text: str) -> str:
    return json.dumps({"role": "user", "content": text}, ensure_ascii=False)


def test_line_breaks_of_other_kinds_inside_json_lines_end_no_line(line: CommandLine) -> None:
    turns = message("One.\u2028Two.\u0085Three."), message("Four.")
    path = line.write("talk.jsonl", "\r\n".join(turns))

    [outcome] = outcomes(line, path)

    assert outcome["status"] == "added"
    assert "Three." in shown(line, outcome["episodes"][0])["content"]


def test_a_conversation_with_a_broken_line_is_not_taken_for_many_small_ones(line: CommandLine) -> None:
    path = line.write("talk.jsonl", f'{message("One.")}\n{{"role": "assist\n{message("Three.")}')

    [outcome] = outcomes(line, path)

    assert (outcome["status"], outcome["place"]) == ("failed", f"{path}:2")
    assert json.loads(line.run("stats", "--json").stdout)["nodes"] == 0


@pytest.mark.parametrize(
    ("about", "named"),
    [
        ({"reference_time": 1_700_000_000}, "its reference_time is 1700000000"),
        ({"reference_time": "yesterday"}, "its reference_time is 'yesterday'"),
        ({"session_id": 42}, "its session_id is 42"),
        ({"source": ["mail"]}, "its source is ['mail']"),
    ],
    ids=["number", "words", "session", "source"],
)
def test_what_a_conversation_says_of_itself_is_refused_rather_than_passed_over(
    line: CommandLine, about: dict[str, object], named: str
) -> None:
    [outcome] = outcomes(line, line.write("talk.json", {**told(0, "Ann"), **about}))

    assert outcome["status"] == "failed"
    assert outcome["error"].startswith(named)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("**x/*.md", "it is not a valid pattern"), ("~nobody-of-this-name/x.md", "there is no such home folder")],
    ids=["pattern", "home"],
)
def test_a_name_that_can_be_no_file_is_reported_and_the_rest_goes_on(line: CommandLine, name: str, reason: str) -> None:
    found = outcomes(line, name, line.write("note.md", "Bees hum."))

    assert [each["status"] for each in found] == ["failed", "added"]
    assert found[0]["error"].startswith(reason)


def test_a_pattern_leaves_out_hidden_files_unless_it_names_them(line: CommandLine) -> None:
    for name in ("a.md", ".env", ".git/config", "sub/b.md", "sub/.c.md"):
        line.write(f"notes/{name}", f"Bees hum in {name}.")

    def places(pattern: str) -> list[str]:
        notes = line.folder / "notes"
        return [os.path.relpath(each["place"], notes) for each in outcomes(line, str(notes / pattern))]

    assert places("**/*") == ["a.md", "sub/b.md"]
    assert places(".git/*") == [".git/config"]
    assert places("sub/.*") == ["sub/.c.md"]
    assert places("*/../*.md") == ["a.md"]


def test_a_number_of_thousands_of_digits_is_a_file_that_cannot_be_read(line: CommandLine) -> None:
    [outcome] = outcomes(line, line.write("number.json", "1" * 5000))

    assert (outcome["status"], "JSON" in outcome["error"]) == ("failed", True)


def test_names_of_files_that_are_no_text_can_be_printed(line: CommandLine) -> None:
    path = os.fsdecode(os.fsencode(line.folder) + b"/caf\xe9.md")
    Path(path).write_text("Bees hum.", encoding="utf-8")

    plain = line.run("add", path)
    [outcome] = outcomes(line, path)

    assert (plain.exit_code, outcome["status"]) == (0, "skipped")
    assert outcome["place"] == path


def test_json_keeps_control_characters_of_eight_bits_from_the_terminal(line: CommandLine) -> None:
    [outcome] = outcomes(line, line.write("evil.md", "Ann keeps \x9b2J bees."))

    result = line.run("show", outcome["episodes"][0], "--json")

    assert "\x9b" not in result.stdout
    assert json.loads(result.stdout)["content"] == "Ann keeps \x9b2J bees."


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_user_given_blank_is_an_error_and_nobody_elses_memory(line: CommandLine, place: str) -> None:
    added = line.run("add", line.write("note.md", "Bees hum."))
    user = ["--user", ""]

    before, after = (user, []) if place == "before" else ([], user)
    result = line.run(*before, "delete", "--all", "--yes", *after)

    assert (added.exit_code, result.exit_code) == (0, 2)
    assert "The user is ''" in result.stderr
    assert json.loads(line.run("stats", "--json").stdout)["nodes"] > 0


def test_nothing_is_well_or_begun_with_a_blank_user(line: CommandLine) -> None:
    note = line.write("note.md", "Bees hum.")
    calls = [line.run(*command, "--user", " ") for command in (["add", note], ["chat"], ["doctor"], ["stats"])]

    assert [each.exit_code for each in calls] == [2, 2, 1, 2]
    assert all("The user is ' '" in each.output for each in calls)


def test_what_went_with_an_object_deleted_before_it_is_no_error(line: CommandLine) -> None:
    line.run("add", line.write("ann.json", told(0, "Ann")))
    found = json.loads(line.run("triples", "--json").stdout)[0]

    result = line.run("delete", found["subject_id"], found["relation"], found["episodes"][0], "--yes", "--json")

    receipts = [json.loads(each) for each in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert [bool(each["receipt"]) for each in receipts] == [True, False, True]
    assert json.loads(line.run("stats", "--json").stdout)["nodes"] == 0


@pytest.mark.parametrize(
    "arguments",
    [["graph.graphml", "--vectors"], ["graph.jsonl", "--episodes"], ["facts.csv", "--facts", "nodes"]],
    ids=["vectors", "episodes", "facts"],
)
def test_an_option_that_the_file_cannot_follow_is_refused(line: CommandLine, arguments: list[str]) -> None:
    result = line.run("export", *[str(line.folder / arguments[0]), *arguments[1:]])

    assert result.exit_code == 2
    assert f"{arguments[1]} is for" in result.stderr
    assert not (line.folder / arguments[0]).exists()


def test_a_day_given_as_an_end_is_in_and_one_given_as_a_beginning_too(line: CommandLine) -> None:
    line.run("add", line.write("note.md", "Bees hum."), "--reference-time", "2026-05-08T17:30:00+00:00")

    def said(*arguments: str) -> list[str]:
        return [each["text"] for each in json.loads(line.run("timeline", *arguments, "--json").stdout)]

    assert said("--since", "2026-05-08", "--until", "2026-05-08") == ["Bees hum."]
    assert said("--until", "2026-05") == ["Bees hum."]
    assert said("--until", "2026-05-07") == []


def test_facts_that_were_not_known_yet_are_left_out(line: CommandLine) -> None:
    line.run("add", line.write("ann.json", told(0, "Ann")))

    def found(moment: str) -> list[int]:
        ways = (["search", "Ann", "--kind", "fact"], ["triples", "--subject", "Ann"])
        return [len(json.loads(line.run(*way, "--known-at", moment, "--json").stdout)) for way in ways]

    assert found("2020") == [0, 0]
    assert found("9000") == [1, 1]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_ids_and_texts_are_whole_in_a_terminal_of_any_width(width: int) -> None:
    row = ("4 May 2026, 09:00:00 (UTC+00:00)", "episode", "Dan has lived in Graz since 2013, with 许文.", "8" * 32)
    console = Console(width=width, file=io.StringIO(), force_terminal=False)

    console.print(table(("time", "what", "text", "id"), [row], wide="text"))

    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert "8" * 32 in printed
    assert all(word in printed for word in row[2].split())
    assert max(map(cell_len, printed.splitlines())) <= width


def test_a_configuration_with_a_byte_order_mark_is_read(line: CommandLine) -> None:
    line.config.write_text(line.config.read_text(encoding="utf-8"), encoding="utf-8-sig")

    assert line.run("stats").exit_code == 0


def shell(line: CommandLine, script: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the shell in which `"$@"` is the command line."""
    command = [sys.executable, "-m", "jiuwen_memory.cli", "--config", str(line.config)]
    return subprocess.run(
        ["sh", "-c", script, "sh", *command],
        cwd=line.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "told"),
    [
        ('"$@" add - <&-', "content is empty"),
        ('printf "Caf\\351" | "$@" add -', "it is not UTF-8 text"),
        ('"$@" stats --json > /dev/full', "No space left on device"),
        ('ulimit -f 0; "$@" export graph.jsonl', "graph.jsonl cannot be written (File too large)"),
    ],
    ids=["closed", "other encoding", "full", "no room"],
)
def test_a_stream_or_disk_that_cannot_be_used_is_told_on_one_line(line: CommandLine, script: str, told: str) -> None:
    done = shell(line, script, LC_ALL="C")

    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode in {1, 2}
    assert [each.name for each in line.folder.iterdir()] == ["config.toml"]


@pytest.mark.slow
def test_what_goes_into_a_pipe_is_utf8_whatever_the_locale(line: CommandLine) -> None:
    done = shell(line, '"$@" stats --user 许文', PYTHONIOENCODING="cp1252")

    assert "Graph of '许文'" in done.stdout
