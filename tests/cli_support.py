"""A memory in a folder, an endpoint over HTTP, and the command line used on them: in this process or in its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner, Result

from jiuwen_memory.cli.commands import app
from tests.servers import Body, OpenAIServer, smallest_answer, wanted_form

ROOT = Path(__file__).resolve().parent.parent
PEOPLE = {
    **{"Ann": "Rotterdam", "Ben": "Porto", "Cleo": "Lyon", "Dan": "Graz", "Eve": "Turin"},
    **{"Finn": "Oslo", "Gina": "Bari", "Hugo": "Ghent", "Ida": "Malmo", "Jon": "Cork"},
}
PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120"}


def told(number: int, name: str) -> dict[str, object]:
    """A conversation in which somebody says where they have lived since when."""
    text = f"{name} has lived in {PEOPLE[name]} since {2010 + number}."
    return {
        "session_id": f"talk-{number}",
        "reference_time": f"2026-05-{number + 1:02d}T09:00:00+00:00",
        "messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "Good to know."}],
    }


def understand(body: Body) -> str:
    """Answer as a model does that finds "X has lived in Y since Z." in what is asked about now."""
    name, schema = wanted_form(body)
    messages = body["messages"]
    assert isinstance(messages, list)
    prompt = str(messages[-1]["content"])
    facts = [tuple(map(str, each)) for each in re.findall(r"(\w+) has lived in (\w+) since (\d+)\.", prompt)][-1:]
    if name == "EntityExtraction":
        names = [(each, kind) for fact in facts for each, kind in zip(fact, ("Human", "Entity"), strict=False)]
        return json.dumps({"entities": [{"name": each, "type": kind} for each, kind in names]})
    if name == "RelationExtraction":
        return json.dumps({"relations": [_relation(*fact) for fact in facts]})
    if name == "EntityDuplication":
        new = re.findall(r"New:\n\[(\d+)\]", prompt)
        return json.dumps({"duplicates": [{"id": int(number), "same": []} for number in new]})
    if not schema:
        return _answer(prompt, known=str(messages[0]["content"]), is_told=bool(facts))
    return json.dumps(smallest_answer(schema, schema))


def _answer(prompt: str, *, known: str, is_told: bool) -> str:
    """Answer as an assistant does that knows what stands in its prompt."""
    if is_told:
        return "Good to know."
    if "Rotterdam" in known:
        return "You live in Rotterdam."
    return "Yes." if "yes" in prompt else "I do not know."


def _relation(who: str, where: str, year: str) -> dict[str, object]:
    sentence = f"{who} has lived in {where} since {year}."
    ends = {"source": who, "target": where, "valid_since": year, "valid_until": None}
    return {"fact": sentence, "name": "lives in", **ends}


@dataclass
class CommandLine:
    """The command line with a configuration file in a folder, and the server behind it."""

    folder: Path
    server: OpenAIServer

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.folder / "config.toml"

    def write(self, name: str, value: object) -> str:
        """Write a file: a text as it is, anything else as JSON. Return its path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return str(path)

    def run(self, *arguments: str, typed: str | None = None) -> Result:
        """Run a command in this process."""
        return CliRunner().invoke(app, ["--config", str(self.config), *arguments], input=typed, env=PLAIN)

    def json(self, *arguments: str, typed: str | None = None) -> list[object]:
        """Run a command with `--json` and return the documents on its standard output."""
        result = self.run(*arguments, "--json", typed=typed)
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    def process(self, *arguments: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in a process of its own."""
        return run_python("-m", "jiuwen_memory.cli", "--config", str(self.config), *arguments, typed=typed)


def run_python(
    *arguments: str, typed: str | None = None, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python as a user would, in a terminal that knows nothing."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JIUWEN_", "OPENAI_"))}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**environment, **PLAIN, "PYTHONPATH": str(ROOT), **(more or {})},
        input=typed or "",
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def command_line(folder: Path, *, backend: str, more: Sequence[str] = ()) -> Iterator[CommandLine]:
    """Give a command line over an empty store; `memory` keeps it in this process, `milvus` in the folder."""
    with OpenAIServer(understand, dim=48) as server:
        endpoint = f'model = "any"\napi_key = "test"\n{{}} = "{server.base_url}"'
        sections = [
            'user = "ann"',
            *more,
            f'[store]\nbackend = "{backend}"\nuri = "{folder / "memory.db"}"\nrequest_max_retries = 1',
            f"[llm]\n{endpoint.format('api_base')}",
            f'[embedding]\nkind = "api"\n{endpoint.format("base_url")}',
        ]
        (folder / "config.toml").write_text("\n".join(sections), encoding="utf-8")
        yield CommandLine(folder, server)
