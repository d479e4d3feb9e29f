"""Where the command line begins. Imports the commands when one is wanted, and says so if their extra is missing."""

from __future__ import annotations

import importlib.metadata
import io
import sys
from typing import Final

BY_EXTRA: Final = frozenset({"rich", "typer"})
NO_EXTRA: Final = (
    "jiuwen-memory: The command line needs typer and rich, which are not installed: "
    'pip install "jiuwen-graph-memory[cli]"'
)


def main() -> None:
    """Run the command line with the arguments of this process, and exit with its code."""
    _prepare_streams()
    if sys.argv[1:] == ["--version"]:
        print(version_line())
        return
    try:
        from jiuwen_memory.cli.commands import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in BY_EXTRA:
            raise
        print(NO_EXTRA, file=sys.stderr)
        sys.exit(2)
    app(prog_name="jiuwen-memory")


def _prepare_streams() -> None:
    """Let what was remembered be written whatever the locale: files and pipes get UTF-8, a terminal what it can show.

    A standard input that was closed is an empty one.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            encoding = stream.encoding if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="backslashreplace")
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")


def version_line() -> str:
    """Return what `--version` prints."""
    return f"jiuwen-memory {importlib.metadata.version('jiuwen-graph-memory')}"
