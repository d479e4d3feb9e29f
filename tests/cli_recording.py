"""The recording of docs/cli.md: commands run in a terminal, one after the other, as they print.

python -m tests.cli_recording    run them, and put what they print into docs/cli.md
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.cli_support import PEOPLE, ROOT, CommandLine, command_line, told
from tests.terminal import run_in_terminal

PAGE = ROOT / "docs" / "cli.md"
BLOCK = re.compile(r"```console\n(.*?)```\n", re.DOTALL)
SAID = ("Where have I lived since 2010?", "Kim has lived in Bergen since 2021.", "")
COMMANDS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("doctor", ()),
    ("add 'talks/*.json'", ()),
    ('search "Where does Ann live?" --limit 6', ()),
    ("timeline --until 2014-12-31", ()),
    ("view", ()),
    ("chat", tuple(("ann> ", each) for each in SAID)),
)
COLUMNS = 120
# What differs from run to run, and between machines.
CHANGING = (
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    # Of what took no time, none is told.
    (re.compile(r" \(\d+\.\d s\)"), ""),
    (re.compile(r"\d+\.\d s"), "SECONDS"),
    (re.compile(r"\d+ a minute"), "RATE"),
    (re.compile(r"[\d,]+ tokens"), "TOKENS"),
    (re.compile(r"^ok +versions .*$", re.MULTILINE), "VERSIONS"),
    (re.compile(r" {2,}"), "  "),
)


def record(folder: Path) -> str:
    """Run the commands in an empty folder, and return what the terminal showed."""
    with command_line(folder, backend="milvus") as line:
        line.server.dim = 512
        for number, name in enumerate(PEOPLE, start=1):
            line.write(f"talks/{number:02d}.json", told(number - 1, name))
        config = line.config.read_text(encoding="utf-8").replace(f"{folder}/", "")
        for name in ("scripted-model", "scripted-embedder"):
            config = config.replace('"any"', f'"{name}"', 1)
        line.config.write_text(config, encoding="utf-8")
        return "\n\n".join(_shown(line))


def _shown(line: CommandLine) -> Iterator[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JIUWEN_", "OPENAI_"))}
    own = {"TERM": "xterm", "NO_COLOR": "1", "PYTHONPATH": str(ROOT), "JIUWEN_MEMORY_CONFIG": "config.toml"}
    for arguments, typed in COMMANDS:
        command = [sys.executable, "-m", "jiuwen_memory.cli", *shlex.split(arguments)]
        screen = run_in_terminal(command, folder=line.folder, environment={**kept, **own}, typed=typed, columns=COLUMNS)
        yield f"$ jiuwen-memory {arguments}\n{screen}"


def steady(recording: str) -> str:
    """Return a recording without what changes from run to run."""
    for pattern, name in CHANGING:
        recording = pattern.sub(name, recording)
    return recording


def recorded() -> str:
    """Return the recording that the page shows."""
    [block] = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    return str(block).strip("\n")


def main() -> None:
    """Put a new recording into the page."""
    with tempfile.TemporaryDirectory() as folder:
        shown = record(Path(folder).resolve())
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(BLOCK.sub(lambda _: f"```console\n{shown}\n```\n", page), encoding="utf-8")


if __name__ == "__main__":
    main()
