"""The examples run, as a newcomer would run them: in processes of their own, with and without an endpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import OpenAIServer

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
ENTITIES = json.dumps({"entities": [{"name": "Ada", "type": "Human"}, {"name": "Porto", "type": "Entity"}]})
FACTS = json.dumps(
    {"relations": [{"fact": "Ada lives in Porto.", "name": "lives in", "source": "Ada", "target": "Porto"}]}
)
REPLIES = {"EntityExtraction": ENTITIES, "RelationExtraction": FACTS}

pytestmark = pytest.mark.slow


def run(
    name: str, *arguments: str, folder: Path, endpoint: str | None = None, typed: str = "", columns: int = 120
) -> subprocess.CompletedProcess[str]:
    """Run an example in an empty folder, with an endpoint in the environment or with none."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "JIUWEN_MEMORY_"))}
    environment |= {"COLUMNS": str(columns), "PYTHONUTF8": "1"}
    if endpoint:
        environment |= {"OPENAI_BASE_URL": endpoint, "OPENAI_API_KEY": "test"}
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, input=typed, capture_output=True, encoding="utf-8", check=False
    )


def test_the_quickstart_says_who_plays_the_model_and_answers_its_questions(tmp_path: Path) -> None:
    done = run("quickstart.py", folder=tmp_path)

    assert (done.stderr, done.returncode) == ("", 0)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("No endpoint is set: scripted replies stand in for the model")
    for question, answer in {
        "Who hired Marta?": "Giulia Ferrero hired Marta.",
        "Where did Marta work before?": "Marta wrote firmware for pumps at Medtrix. (March 2021 – April 2026)",
        "Which port is a customer of the robot maker?": "Porto Vecchio is the first customer of Solvane Robotics.",
    }.items():
        start = lines.index(question)
        assert any(answer in line for line in lines[start + 1 : start + 4])


def test_the_quickstart_shows_each_entity_once_and_when_facts_hold(tmp_path: Path) -> None:
    done = run("quickstart.py", folder=tmp_path)

    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert [row for row in rows if row.startswith("Solvane Robotics Entity")] == [
        "Solvane Robotics Entity A maker of warehouse robots in Turin, founded in 2019; Marta works there."
    ]
    assert "Marta worked at Medtrix March 2021 April 2026" in rows
    assert "Giulia Ferrero founded Solvane Robotics 2019" in rows
    assert any(row.startswith("Marta works at Solvane Robotics 4 May 2026") for row in rows)


def test_the_quickstart_fits_a_narrow_terminal(tmp_path: Path) -> None:
    done = run("quickstart.py", folder=tmp_path, columns=80)

    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "Marta              worked at     Medtrix            March 2021   April 2026" in done.stdout


def test_the_quickstart_reads_files_and_answers_what_is_typed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Ada lives in Porto.")
    (tmp_path / "talk.json").write_text(json.dumps([{"role": "user", "content": "I am Ada, from Porto."}]))
    with OpenAIServer(REPLIES) as server:
        files = ("notes.txt", "talk.json")
        done = run("quickstart.py", *files, folder=tmp_path, endpoint=server.base_url, typed="Where does Ada live?\n\n")

    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.startswith(f"Model: gpt-4.1-mini at {server.base_url}\n")
    assert "Remembered talk.json" in done.stdout
    assert "Ada lives in Porto." in done.stdout.split("Ask something")[1]


def test_the_quickstart_says_what_a_users_own_files_need(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    without_model = run("quickstart.py", "notes.txt", folder=tmp_path)
    with OpenAIServer() as server:
        without_file = run("quickstart.py", "notes.txt", folder=tmp_path, endpoint=server.base_url)
        empty = run("quickstart.py", "empty.txt", folder=tmp_path, endpoint=server.base_url)

    assert "set OPENAI_API_KEY or OPENAI_BASE_URL" in without_model.stderr
    assert "notes.txt cannot be read" in without_file.stderr
    assert "empty.txt is empty" in empty.stderr
    assert (without_model.returncode, without_file.returncode, empty.returncode) == (1, 1, 1)


def test_the_chinese_example_answers_in_both_languages(tmp_path: Path) -> None:
    done = run("chinese.py", folder=tmp_path)

    assert (done.stderr, done.returncode) == ("", 0)
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[0].endswith("scripted replies stand in for the model.")
    assert "陈雨住在苏州。 (2019年 – 2026年3月)" in lines
    for chinese, english, answer in (
        ("陈雨在哪家书店工作？", "Which bookshop does Chen Yu work at?", "陈雨在望海书店工作。（2026年4月起）"),
        ("她养了什么宠物？", "What pet does she have?", "陈雨养了一只叫小米粒的橘猫。"),
        ("请她吃饭要注意什么？", "Which food must she avoid?", "陈雨对花生过敏。"),
    ):
        assert lines[lines.index(chinese) + 1] == answer
        assert lines[lines.index(english) + 1] == answer


def test_the_ontology_example_shows_what_was_filled_and_what_was_refused(tmp_path: Path) -> None:
    done = run("ontology.py", folder=tmp_path)

    assert (done.stderr, done.returncode) == ("", 0)
    filled, refused = done.stdout.split("\nRefused\n")
    for line in (
        "Boat Havsule: metres=14.5, launched=1934, rig='ketch'",
        "Boat Terna: rig='sloop'",
        "Yard Bellman yard: opened=1931, closed=1987",
        "Yard Fossum yard: no attributes",
        "Human Oskar Lind: trade='rigger'",
        "built by: The Bellman yard built the Alka. crowns=6400",
        "works at: Per Aune worked at the Bellman yard. (since 1946) position='master builder'",
    ):
        assert f"  {line}\n" in filled
    for words in (
        "Skarnes ('Town' is no listed type",
        "Ingrid Bellman hired Per Aune. ('hired' is no listed type",
        "'crowns' of 'The Bellman yard built the Terna.' is refused: \"not known to anybody\"",
        "'metres' of 'Terna' is refused",
        "'launched' of 'Terna' is refused",
        "'rig' of 'Alka' is refused",
        "'people' of 'Bellman yard' is refused",
        "'closed' of 'Fossum yard' is refused",
        "'works at' goes from Human to Yard, not Oskar Lind (Human) -> Havsule (Boat)",
    ):
        assert words in refused
    assert "4 questions to the model, in 3 rounds" in refused


def test_the_chat_remembers_a_turn_and_recalls_it_before_the_next_answer(tmp_path: Path) -> None:
    with OpenAIServer(REPLIES) as server:
        typed = "I live in Porto.\nWhere do I live?\n\n"
        done = run("chat.py", "Ada", folder=tmp_path, endpoint=server.base_url, typed=typed)
        prompts = [str(request.body["messages"]) for request in server.chats if "response_format" not in request.body]

    assert (done.stderr, done.returncode) == ("", 0)
    assert "(remembered: Ada lives in Porto.)" in done.stdout
    assert "- Ada lives in Porto." not in prompts[0]
    assert "- Ada lives in Porto." in prompts[1]


def test_the_chat_still_knows_the_user_in_the_next_process(tmp_path: Path) -> None:
    with OpenAIServer(REPLIES) as server:
        run("chat.py", "Ada", folder=tmp_path, endpoint=server.base_url, typed="I live in Porto.\n")
        run("chat.py", "Ada", folder=tmp_path, endpoint=server.base_url, typed="Where do I live?\n")
        prompts = [str(request.body["messages"]) for request in server.chats if "response_format" not in request.body]

    assert "- Ada lives in Porto." in prompts[-1]


def test_the_chat_says_what_to_set_when_there_is_no_endpoint(tmp_path: Path) -> None:
    done = run("chat.py", folder=tmp_path)

    assert "OPENAI_BASE_URL" in done.stderr
    assert done.returncode == 1


def test_the_langgraph_agent_asks_the_endpoint_that_is_named(tmp_path: Path) -> None:
    with OpenAIServer(REPLIES) as server:
        done = run("langgraph_agent.py", folder=tmp_path, endpoint=server.base_url)
        prompts = [str(request.body["messages"]) for request in server.chats if "response_format" not in request.body]

    # Standard error is left aside: LangChain leaves its connections to the end of the process.
    assert done.returncode == 0
    assert "scripted" not in done.stdout
    assert "Ada lives in Porto." not in prompts[0]
    assert "Ada lives in Porto." in prompts[-1]


def test_the_langgraph_agent_knows_in_the_second_conversation_what_the_first_one_said(tmp_path: Path) -> None:
    done = run("langgraph_agent.py", folder=tmp_path)

    assert (done.stderr, done.returncode) == ("", 0)
    before, after = done.stdout.split("friday> ")
    assert "(known: Mira is allergic to hazelnuts.)" not in before
    assert "(known: Mira is allergic to hazelnuts.)" in after
