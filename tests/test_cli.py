"""The command line: what its commands do, print and exit with. Most run in this process, some as a user runs them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from typer.testing import CliRunner

from jiuwen_memory.cli.commands import app
from jiuwen_memory.foundation.settings import SETTINGS
from tests.cli_support import PEOPLE, PLAIN, ROOT, CommandLine, command_line, run_python, told, understand
from tests.servers import Body, Fault

FACT = "Ann has lived in Rotterdam since 2010."
COMMANDS = (
    *("add", "search", "triples", "timeline", "show", "stats", "delete"),
    *("check", "pending", "resume", "prompts", "export", "import", "view", "chat", "doctor", "mcp"),
)


@pytest.fixture(autouse=True)
def empty_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in SETTINGS:
        monkeypatch.delenv(setting.name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def line(tmp_path: Path) -> Iterator[CommandLine]:
    with command_line(tmp_path, backend="memory") as given:
        yield given


@pytest.fixture
def full(line: CommandLine) -> CommandLine:
    """A memory in which Ann lives in Rotterdam."""
    assert line.run("add", line.write("ann.json", told(0, "Ann"))).exit_code == 0
    return line


def documents(line: CommandLine, *arguments: str) -> list[Any]:
    """The documents that `--json` prints, whatever the exit code."""
    return [json.loads(each) for each in line.run(*arguments, "--json").stdout.splitlines()]


def found(line: CommandLine, kind: str) -> dict[str, Any]:
    """The best result of a kind for Ann."""
    best: dict[str, Any] = documents(line, "search", "Ann", "--kind", kind)[0][0]
    return best


# What is added


def test_every_form_of_file_is_taken_for_what_it_is(line: CommandLine) -> None:
    talk = told(1, "Ben")
    files = [
        line.write("talk.json", talk),
        line.write("messages.json", talk["messages"]),
        line.write("several.json", [told(2, "Cleo"), told(3, "Dan")]),
        line.write("turns.jsonl", '{"role": "user", "content": "Hello."}\n\n{"role": "assistant", "content": "Hi."}'),
        line.write("talks.jsonl", "\n".join(json.dumps(told(number, "Eve")) for number in (4, 5))),
        line.write("note.md", "# Bees\n\nEve keeps bees."),
        line.write("order.json", {"order": 7, "by": "Dan"}),
        line.write("orders.jsonl", '{"order": 8}\n{"order": 9}'),
    ]

    outcomes = documents(line, "add", *files)
    episodes = [documents(line, "show", each["episodes"][0])[0] for each in outcomes]

    assert {each["status"] for each in outcomes} == {"added"}
    assert [(each["obj_type"], each["session_id"]) for each in episodes] == [
        ("CONVERSATION", "talk-1"),
        ("CONVERSATION", ""),
        ("CONVERSATION", "talk-2"),
        ("CONVERSATION", "talk-3"),
        ("CONVERSATION", ""),
        ("CONVERSATION", "talk-4"),
        ("CONVERSATION", "talk-5"),
        ("DOCUMENT", ""),
        ("JSON", ""),
        ("JSON", ""),
        ("JSON", ""),
    ]


def test_adding_again_skips_what_is_in_and_asks_the_model_nothing(full: CommandLine) -> None:
    before = len(full.server.chats)

    copied = full.write("copied/under another name.json", told(0, "Ann"))
    outcomes = documents(full, "add", str(full.folder / "ann.json"), copied)

    assert [each["status"] for each in outcomes] == ["skipped", "skipped"]
    assert len(full.server.chats) == before


def test_a_file_that_fails_is_reported_and_the_rest_goes_on(line: CommandLine) -> None:
    (line.folder / "binary.txt").write_bytes(b"\xff\xfe\x00")
    files = [
        line.write("broken.json", '{"role": '),
        line.write("lines.jsonl", 'no JSON\n{"order": 8}'),
        str(line.folder / "binary.txt"),
        str(line.folder / "missing.md"),
        str(line.folder / "none" / "*.md"),
        str(line.folder),
        line.write("empty.md", " \n"),
        line.write("good.md", FACT),
    ]

    result = line.run("add", *files, "--json")
    outcomes = [json.loads(each) for each in result.stdout.splitlines()]

    assert result.exit_code == 1
    assert [(each["status"], (each["error"] or "").partition(":")[0]) for each in outcomes] == [
        ("failed", "it is not valid JSON"),
        ("failed", "it is not valid JSON"),
        ("added", ""),
        ("failed", "it is not UTF-8 text; save it as UTF-8"),
        ("failed", "it cannot be read"),
        ("failed", "no file matches it"),
        ("failed", "it is a folder; name its files, as a pattern in quotes"),
        ("failed", "content is empty or shows nothing; give some text to remember."),
        ("added", ""),
    ]


def test_what_a_long_file_will_take_is_said_beforehand(tmp_path: Path) -> None:
    with command_line(tmp_path, backend="memory", more=["[strategy]\nchunk_tokens = 50"]) as line:
        files = [line.write("short.md", FACT), line.write("long.md", "It rained all day long.\n\n" * 100)]

        result = line.run("add", *files)

    assert result.exit_code == 0
    assert re.findall(r"^(\S+) is long: about (\d+) parts", result.stderr, re.MULTILINE) == [(files[1], "13")]


def test_an_input_that_the_model_fails_on_waits_and_is_resumed(line: CommandLine) -> None:
    line.server.refused_fields["messages"] = "no such model"

    added = line.run("add", line.write("ann.json", told(0, "Ann")))
    waiting = documents(line, "pending")[0]
    line.server.refused_fields.clear()
    resumed = documents(line, "resume")[0]

    assert added.exit_code == 1
    assert "1 failed" in added.stderr
    assert [(each["user_id"], FACT in each["text"]) for each in waiting] == [("ann", True)]
    assert [(each["done"], len(each["episodes"])) for each in resumed] == [(True, 1)]
    assert documents(line, "pending") == [[]]


def test_what_is_said_of_all_inputs_counts_where_they_say_nothing(line: CommandLine) -> None:
    own, none = line.write("own.json", told(0, "Ann")), line.write("none.md", FACT)
    options = ["--session", "s", "--source", "notes", "--reference-time", "2020-02-02T10:00:00+00:00"]

    outcomes = documents(line, "add", own, none, *options)
    first, second = (documents(line, "show", each["episodes"][0])[0] for each in outcomes)

    assert (first["session_id"], first["source"], first["valid_since"]) == ("talk-0", "notes", 1777626000)
    assert (second["session_id"], second["source"], second["valid_since"]) == ("s", "notes", 1580637600)


def test_the_time_of_a_file_is_taken_if_asked_for_and_a_copy_of_it_is_the_same_input(line: CommandLine) -> None:
    first, copied = line.write("first.md", FACT), line.write("copied.md", FACT)
    os.utime(first, (1580637600, 1580637600))

    outcomes = documents(line, "add", first, copied, "--reference-time", "file")

    assert [each["status"] for each in outcomes] == ["added", "skipped"]
    assert documents(line, "show", outcomes[0]["episodes"][0])[0]["valid_since"] == 1580637600


@pytest.mark.parametrize(
    ("typed", "kind"),
    [
        pytest.param(FACT, "DOCUMENT", id="text"),
        pytest.param(json.dumps(told(0, "Ann")), "CONVERSATION", id="conversation"),
        pytest.param('{"role": "user", "content": "a"}\n{"role": "user", "content": "b"}', "CONVERSATION", id="lines"),
        pytest.param('{"order": 7}', "JSON", id="json"),
    ],
)
def test_standard_input_is_taken_for_what_it_is(line: CommandLine, typed: str, kind: str) -> None:
    [outcome] = [json.loads(each) for each in line.run("add", "-", "--json", typed=typed).stdout.splitlines()]

    assert documents(line, "show", outcome["episodes"][0])[0]["obj_type"] == kind


def test_a_role_gets_the_name_that_is_given_for_it(line: CommandLine) -> None:
    [outcome] = documents(line, "add", line.write("a.json", told(0, "Ann")), "--speaker", "user=Ann Vermeer")

    assert documents(line, "show", outcome["episodes"][0])[0]["content"].startswith("Ann Vermeer: ")


# What is read


def test_facts_are_found_listed_dated_and_shown(full: CommandLine) -> None:
    fact = found(full, "fact")
    triple = documents(full, "triples", "--subject", "ann", "--as-of", "2015-01-01")[0][0]
    events = documents(full, "timeline", "--until", "2012-01-01")[0]
    shown = documents(full, "show", fact["id"])[0]

    assert (fact["text"], fact["since"], fact["current"]) == (FACT, "2010", True)
    assert (triple["subject"], triple["predicate"], triple["object"]) == ("Ann", "lives in", "Rotterdam")
    assert [(each["time"], each["kind"], each["text"]) for each in events] == [("2010", "begins", FACT)]
    assert (shown["kind"], [each["kind"] for each in shown["linked"]]) == ("fact", ["episode"])
    assert documents(full, "triples", "--as-of", "2005-01-01") == [[]]
    assert documents(full, "search", "Ann", "--kind", "fact", "--as-of", "2005-01-01") == [[]]


def test_people_read_tables(full: CommandLine) -> None:
    searched, listed, entity = (
        full.run("search", "Ann"),
        full.run("timeline"),
        full.run("show", found(full, "entity")["id"]),
    )

    assert FACT in searched.stdout
    assert "begins" in listed.stdout
    assert {"Ann", "Human"} <= set(entity.stdout.replace(":", " ").split())
    assert FACT in entity.stdout


def test_another_user_sees_nothing_of_it(full: CommandLine) -> None:
    uuid = found(full, "fact")["id"]

    shown = full.run("show", uuid, "--user", "ben")

    assert documents(full, "search", "Ann", "--user", "ben") == [[]]
    assert documents(full, "triples", "--user", "ben") == [[]]
    assert shown.exit_code == 2
    assert "memory of ben" in shown.stderr


def test_what_was_remembered_cannot_steer_the_terminal(line: CommandLine) -> None:
    line.run("add", line.write("evil.md", "[bold]Ann[/bold] \x1b[2J\x1b]0;owned\x07 keeps [link=x]bees[/link]."))

    result = line.run("search", "bees")

    assert "\x1b" not in result.stdout
    assert "[bold]Ann[/bold]" in result.stdout


# What is deleted


def test_deleting_asks_first_and_does_nothing_on_a_no(full: CommandLine) -> None:
    uuid = found(full, "episode")["id"]

    refused = full.run("delete", uuid, typed="n\n")
    kept = found(full, "episode")["id"]
    confirmed = full.run("delete", uuid, typed="y\n")

    assert (refused.exit_code, kept) == (1, uuid)
    assert "Nothing was deleted." in refused.stderr
    assert f"To be deleted: episode {uuid}" in refused.stderr
    assert confirmed.exit_code == 0
    assert documents(full, "search", "Ann") == [[]]


@pytest.mark.parametrize("kind", ["episode", "entity", "fact"])
def test_an_object_of_any_kind_is_deleted_by_its_id(full: CommandLine, kind: str) -> None:
    uuid = found(full, kind)["id"]

    [receipt] = documents(full, "delete", uuid, "--yes")

    assert receipt["deleted"].startswith(f"{kind} {uuid}: ")
    assert uuid in [each for ids in receipt["receipt"]["removed"].values() for each in ids]
    assert full.run("show", uuid).exit_code == 2


def test_what_was_said_before_a_moment_is_deleted_and_then_the_rest(full: CommandLine) -> None:
    full.run("add", full.write("ben.json", told(1, "Ben")))

    before = full.run("delete", "--before", "2026-05-02", "--yes")
    left = {each["subject"] for each in documents(full, "triples")[0]}
    everything = full.run("delete", "--all", "--yes")

    assert (before.exit_code, left, everything.exit_code) == (0, {"Ben"}, 0)
    assert documents(full, "triples") == [[]]


@pytest.mark.parametrize("arguments", [[], ["--all", "--before", "2020-01-01"], ["0" * 32, "--all"]])
def test_what_to_delete_is_said_in_one_way(full: CommandLine, arguments: list[str]) -> None:
    result = full.run("delete", *arguments, "--yes")

    assert result.exit_code == 2
    assert "in one way" in result.stderr
    assert documents(full, "triples") != [[]]


def test_if_one_id_is_wrong_nothing_is_deleted(full: CommandLine) -> None:
    result = full.run("delete", found(full, "episode")["id"], "0" * 32, "--yes")

    assert result.exit_code == 2
    assert found(full, "episode")


# What else there is


def test_a_clean_graph_passes_the_check(full: CommandLine) -> None:
    report = documents(full, "check", "--everyone", "--repair")[0]

    assert report["is_clean"]
    assert report["report"]["users"] == 1


def test_a_graph_is_counted(full: CommandLine) -> None:
    numbers = documents(full, "stats")[0]

    assert (numbers["user_id"], numbers["nodes"], numbers["relations"]) == ("ann", 3, {"fact": 1})
    assert "3 nodes" in full.run("stats").stdout


def test_a_graph_goes_into_a_file_and_comes_back_the_same(full: CommandLine) -> None:
    first, second = (str(full.folder / name) for name in ("first.jsonl", "second.jsonl.gz"))

    written = documents(full, "export", first)[0]["report"]
    full.run("delete", "--all", "--yes")
    read = documents(full, "import", first)[0]
    again = documents(full, "export", second)[0]["report"]
    copied = documents(full, "import", first, "--user", "lou", "--new-ids")[0]

    assert [(each["user_id"], each["added"]) for each in (*read, *copied)] == [("ann", 4), ("lou", 4)]
    assert again["graph_sha256"] == written["graph_sha256"]
    assert documents(full, "triples", "--user", "lou")[0][0]["sentence"] == FACT


def test_a_graph_becomes_a_table_or_graphml_by_the_name_of_the_file(full: CommandLine) -> None:
    table, graph = full.folder / "facts.csv", full.folder / "graph.graphml"

    written = documents(full, "export", str(table))[0]
    drawn = full.run("export", str(graph), "--episodes")

    assert written["facts"] == 1
    assert FACT in table.read_text(encoding="utf-8")
    assert drawn.exit_code == 0
    assert FACT in graph.read_text(encoding="utf-8")


def test_the_graph_is_written_as_a_page(full: CommandLine) -> None:
    page = full.folder / "graph.html"

    told = documents(full, "view", str(page))[0]

    assert told["entities"] > 0
    assert told["size"] == page.stat().st_size
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_file_that_is_no_export_is_refused(full: CommandLine) -> None:
    result = full.run("import", full.write("other.jsonl", '{"order": 7}'))

    assert (result.exit_code, result.stdout) == (2, "")


def test_a_folder_of_prompts_is_checked(line: CommandLine) -> None:
    line.write("good/en/timezone.md", (ROOT / "prompts" / "en" / "timezone.md").read_text(encoding="utf-8"))
    line.write("bad/en/timezone.md", "{{ text }}")

    right, wrong = (line.run("prompts", str(line.folder / name)) for name in ("good", "bad"))

    assert (right.exit_code, right.stdout) == (0, "Nothing is wrong.\n")
    assert (wrong.exit_code, documents(line, "prompts", str(line.folder / "bad"))[0][0]["kind"]) == (1, "unreadable")
    assert line.run("prompts", str(line.folder / "none")).exit_code == 2


def test_a_chat_recalls_and_remembers(full: CommandLine) -> None:
    result = full.run("chat", typed="Where do I live?\nBen has lived in Porto since 2011.\n\n")
    subjects = {each["subject"] for each in documents(full, "triples")[0]}

    assert result.exit_code == 0
    assert "You live in Rotterdam." in result.stdout
    assert subjects == {"Ann", "Ben"}


def test_a_chat_goes_on_after_an_answer_that_failed(full: CommandLine) -> None:
    full.server.faults[:] = [Fault("slow", seconds=0.0)] * 2 + [Fault("status", 400, message="no such model")]

    result = full.run("chat", "--json", typed="Where do I live?\nWhere do I live?\n")

    assert "no such model" in result.stderr
    assert [json.loads(each) for each in result.stdout.splitlines()] == [
        {"role": "assistant", "content": "You live in Rotterdam."}
    ]


def test_the_doctor_finds_everything_well(full: CommandLine) -> None:
    result = full.run("doctor", "--json")
    checks = {each["check"]: each for each in json.loads(result.stdout)}

    assert result.exit_code == 0
    assert {name: each["status"] for name, each in checks.items()} == {
        **dict.fromkeys(("versions", "configuration", "model", "embedder", "store", "dimension", "lock"), "ok"),
        **dict.fromkeys(("reranker", "prompts"), "skipped"),
    }
    assert "2 entities, 1 relations, 1 episodes" in checks["store"]["told"]


def statuses(line: CommandLine, wanted: str) -> tuple[int, set[str]]:
    result = line.run("doctor", "--json")
    return result.exit_code, {each["check"] for each in json.loads(result.stdout) if each["status"] == wanted}


def test_the_doctor_looks_at_each_part_by_itself(tmp_path: Path) -> None:
    more = ['[reranker]\nbase_url = "http://127.0.0.1:9/v1"', '[locks]\nredis = "redis://127.0.0.1:9/0"']
    with command_line(tmp_path, backend="memory", more=["", *more]) as line:
        line.server.api_key = "another"

        assert statuses(line, "failed") == (1, {"model", "embedder", "reranker", "lock"})
        assert statuses(line, "skipped") == (1, {"store", "dimension", "prompts"})


def test_the_doctor_tells_of_a_dimension_that_does_not_fit(line: CommandLine) -> None:
    line.config.write_text(line.config.read_text().replace("[store]", "[store]\nembed_dim = 12"))

    code, failed = statuses(line, "failed")

    assert code == 1
    assert "dimension" in failed


def test_a_configuration_that_cannot_be_read_is_the_doctors_finding_and_other_commands_error(line: CommandLine) -> None:
    line.config.write_text("user = ")

    code, failed = statuses(line, "failed")
    searched = line.run("search", "Ann")

    assert (code, failed) == (1, {"configuration"})
    assert (searched.exit_code, searched.stdout) == (2, "")
    assert searched.stderr.startswith("jiuwen-memory: ")
    assert len(searched.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "told_of"),
    [
        pytest.param(["search", "Ann", "--kind", "verb"], "verb", id="kind"),
        pytest.param(["timeline", "--since", "yesterday"], "ISO 8601", id="moment"),
        pytest.param(["add"], "files", id="no file"),
        pytest.param(["add", "-", "--speaker", "Ann"], "user=Ann", id="speaker"),
        pytest.param(["show", "0" * 32], "search gives the ids", id="id"),
        pytest.param(["mcp", "http", "--host", "0.0.0.0"], "give a token", id="host"),
        pytest.param(["mcp", "--user", " "], "The user is ' '", id="served nobody"),
        pytest.param(["search", "Ann", "--strategy", "luck"], "no search strategy 'luck'", id="strategy"),
        pytest.param(["export", "graph.doc"], "does not say what to write", id="suffix"),
        pytest.param(["export", "~nobody-of-this-name/a.jsonl"], "home folder", id="export home"),
        pytest.param(["import", "~nobody-of-this-name/a.jsonl"], "home folder", id="import home"),
        pytest.param(["import", ""], "old store", id="import nothing"),
        pytest.param(["--config", "~nobody-of-this-name/c.toml", "stats"], "home folder", id="config home"),
        pytest.param(["sing"], "sing", id="command"),
    ],
)
def test_a_wrong_call_exits_with_two_and_says_why(line: CommandLine, arguments: list[str], told_of: str) -> None:
    result = line.run(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert told_of in result.stderr
    assert "Traceback" not in result.stderr


def test_a_service_that_fails_exits_with_one(full: CommandLine) -> None:
    full.server.api_key = "another"

    result = full.run("search", "Ann")

    assert result.exit_code == 1
    assert result.stderr.startswith("jiuwen-memory: ")


def test_reading_needs_no_key_for_the_model(full: CommandLine) -> None:
    text = full.config.read_text()
    section = text[text.index("[llm]") : text.index("[embedding]")]
    full.config.write_text(text.replace(section, '[llm]\napi_base = "https://api.openai.com/v1"\n'))

    assert full.run("search", "Ann").exit_code == 0
    assert full.run("add", full.write("ben.json", told(1, "Ben"))).exit_code == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_the_shared_options(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"], env={"TERM": "dumb", "COLUMNS": "120", "NO_COLOR": "1"})

    assert result.exit_code == 0
    assert {"--json", "--config", "--user"} <= set(result.stdout.split())


def test_the_page_on_the_command_line_names_every_command() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    names = [str(each.name) for each in app.registered_commands]

    assert set(COMMANDS) == set(names)
    assert [name for name in names if not re.search(rf"^\|.*`{name}[ `]", text, re.MULTILINE)] == []


# As a user runs it


@pytest.mark.slow
def test_processes_add_find_and_date_ten_conversations_on_milvus_lite(tmp_path: Path) -> None:
    with command_line(tmp_path, backend="milvus") as line:
        for number, name in enumerate(PEOPLE):
            line.write(f"talks/{number}.json", told(number, name))

        added = line.process("add", f"{tmp_path}/talks/*.json")
        again = line.process("add", f"{tmp_path}/talks/*.json", "--json")
        listed = line.process("timeline", "--until", "2020-01-01", "--json")

    assert (added.returncode, added.stdout) == (0, "")
    assert "10/10" in added.stderr
    assert "10 added, 0 skipped, 0 failed" in added.stderr
    assert [json.loads(each)["status"] for each in again.stdout.splitlines()] == ["skipped"] * 10
    assert len(json.loads(listed.stdout)) == 10


@pytest.mark.slow
async def test_an_assistant_is_served_over_stdio(tmp_path: Path) -> None:
    with command_line(tmp_path, backend="milvus") as line:
        arguments = ["-m", "jiuwen_memory.cli", "--config", str(line.config), "mcp"]
        server = StdioServerParameters(
            command=sys.executable, args=arguments, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        async with Client(server) as client:
            result = await client.call_tool("remember", {"text": FACT})

    assert result.structured_content is not None
    assert result.structured_content["facts"] == [FACT]


def test_times_are_iso_8601_in_json_and_no_more_exact_than_known(full: CommandLine) -> None:
    [events] = documents(full, "timeline", "--until", "2026-05-01")

    times = {(each["kind"], each["time"]) for each in events}
    assert times >= {("begins", "2010"), ("episode", "2026-05-01T09:00:00+00:00")}


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """What a shell starts in the background ignores Ctrl-C, and its children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("heeds_interrupts")
def test_what_was_interrupted_goes_on_where_it_stopped(tmp_path: Path) -> None:
    stopped = threading.Event()

    def hesitate(body: Body) -> str:
        """Answer about the first five talks, and about the next one when the command has been stopped."""
        if "since 2015." in str(body["messages"]):
            stopped.wait(60)
        return understand(body)

    with command_line(tmp_path, backend="milvus") as line:
        line.server.replies = hesitate
        for number in range(15):
            line.write(f"talks/{number:02d}.json", told(number, "Ann"))
        arguments = ["-m", "jiuwen_memory.cli", "--config", str(line.config), "add", f"{tmp_path}/talks/*.json"]
        environment = {**os.environ, **PLAIN, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            [sys.executable, *arguments], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            begun = [process.stderr.readline() for _ in range(5)]
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
        stopped.set()
        again = line.process(*arguments[4:], "--json")
        events = json.loads(line.process("timeline", "--since", "2026-05-01", "--json").stdout)

    outcomes = [json.loads(each)["status"] for each in again.stdout.splitlines()]
    stored = sum(each.startswith("added ") for each in begun)
    assert stored > 1
    assert process.returncode == 130
    assert "Stopped. Run the same command again to go on" in rest
    assert "Traceback" not in rest
    assert (outcomes[:stored], outcomes[-1], len(outcomes)) == (["skipped"] * stored, "added", 15)
    assert len([each for each in events if each["kind"] == "episode"]) == 15


@pytest.mark.slow
def test_the_version_is_printed_and_without_the_extra_it_is_named() -> None:
    version = run_python("-m", "jiuwen_memory.cli", "--version")
    missing = run_python("-c", "import sys; sys.modules['typer'] = None; from jiuwen_memory.cli import main; main()")

    assert (version.returncode, version.stdout.split()[0]) == (0, "jiuwen-memory")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert 'pip install "jiuwen-graph-memory[cli]"' in missing.stderr
    assert "Traceback" not in missing.stderr


@pytest.mark.slow
def test_a_shell_completes_the_names_of_commands() -> None:
    asked = {"_JIUWEN_MEMORY_COMPLETE": "complete_bash", "COMP_WORDS": "jiuwen-memory se", "COMP_CWORD": "1"}

    done = run_python("-m", "jiuwen_memory.cli", more=asked)

    assert done.stdout.split() == ["search"]
