"""A terminal to run commands in: a pseudo-terminal, and a screen that understands what progress bars do to it."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Programs believe these rather than the terminal, and a process that loaded GNU readline hands them on to its children.
SIZES = ("COLUMNS", "LINES")
PIECES = re.compile(r"\x1b\[(?P<number>[0-9;?]*)(?P<kind>[A-Za-z])|(?P<control>[\r\n\x08])|(?P<text>[^\x1b\r\n\x08]+)")
ROWS = 100


@dataclass
class Screen:
    """What stands on the screen; rows that scrolled away are kept."""

    lines: list[str] = field(default_factory=lambda: [""])
    row: int = 0
    column: int = 0

    def write(self, text: str) -> None:
        """Print a text, with the moves that are made in it."""
        for piece in PIECES.finditer(text):
            if piece["text"]:
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + piece["text"] + line[self.column + len(piece["text"]) :]
                self.column += len(piece["text"])
            elif piece["control"]:
                self._control(piece["control"])
            elif piece["kind"] == "A":
                self.row = max(0, self.row - int(piece["number"] or 1))
            elif piece["kind"] == "K":
                kept = "" if piece["number"] == "2" else self.lines[self.row][: self.column]
                self.lines[self.row] = kept

    def _control(self, character: str) -> None:
        if character == "\n":
            self.row += 1
            if self.row == len(self.lines):
                self.lines.append("")
        else:
            self.column = 0 if character == "\r" else max(0, self.column - 1)

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines).strip("\n")


def run_in_terminal(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    typed: Sequence[tuple[str, str]] = (),
    columns: int = 80,
    seconds: float = 120.0,
) -> str:
    """Run a command in a terminal, and return what stands on its screen in the end.

    Args:
        command, folder, environment: what is run, where, with which variables; those
            that tell another terminal's size are left out.
        typed: each time the first text has newly appeared on the screen, the second one is typed, and Enter.
        columns: the width of the terminal.
        seconds: after which the command is ended.

    Raises:
        TimeoutError: it did not end by itself.
    """
    own_size = {name: value for name, value in environment.items() if name not in SIZES}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    process = subprocess.Popen(
        list(command), cwd=folder, env=own_size, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    try:
        printed = _converse(ours, list(typed), until=time.monotonic() + seconds)
        process.wait(timeout=seconds)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    screen = Screen()
    screen.write(printed)
    return str(screen)


def _converse(terminal: int, typed: list[tuple[str, str]], *, until: float) -> str:
    """Read until the other side hangs up, and type meanwhile."""
    printed, answered = b"", 0
    while time.monotonic() < until:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                part = os.read(terminal, 65_536)
            except OSError as error:
                # Linux says so when nobody has the other side open any more.
                if error.errno != errno.EIO:
                    raise
                part = b""
            if not part:
                return printed.decode()
            printed += part
        if typed and typed[0][0].encode() in printed[answered:]:
            answered = len(printed)
            os.write(terminal, f"{typed.pop(0)[1]}\n".encode())
    raise TimeoutError(f"The command did not end; it printed {printed.decode(errors='replace')!r}.")
