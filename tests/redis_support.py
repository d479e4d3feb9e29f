"""A Redis for tests, and another process that wants the same locks.

python -m tests.redis_support hold  URL USER LEASE          hold the lock until standard input ends
python -m tests.redis_support write URL USER FILE TIMES     take it TIMES times, all at once, and write FILE under it
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jiuwen_memory.foundation.redis_locks import RedisUserLocks

STORE = "store"


class RedisServer:
    """A `redis-server` on a free port of loopback that keeps nothing on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self.start()

    def start(self) -> None:
        """Start it, empty, and wait until it answers."""
        options = ["--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["redis-server", *options, "--dir", str(self._folder)], stdout=log, stderr=log
            )
        while not self._answers():
            if self._process.poll() is not None:
                raise RuntimeError(f"redis-server ended: {(self._folder / 'redis.log').read_text()[-2000:]}")
            time.sleep(0.02)

    def pause(self) -> None:
        """Let it accept connections and answer nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End a pause."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it without notice."""
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        with socket.socket() as client:
            client.settimeout(1)
            if client.connect_ex(("127.0.0.1", self._port)) != 0:
                return False
            client.sendall(b"PING\r\n")
            return client.recv(7) == b"+PONG\r\n"


@contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    """Run a Redis for a while; without the program, skip the test."""
    if shutil.which("redis-server") is None:
        pytest.skip("there is no redis-server (Debian: apt-get install redis-server)")
    server = RedisServer(folder)
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def other_process(what: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run this module in a process of its own, which has ended afterwards."""
    command = [sys.executable, "-m", "tests.redis_support", what, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    """Wait for the next line that a process writes."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    """Write a line to a process."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


async def come_true(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for something that announces itself in no other way."""
    while True:
        answer = condition()
        if answer if isinstance(answer, bool) else await answer:
            return
        await asyncio.sleep(0.02)


async def write_file(locks: RedisUserLocks, user_id: str, file: Path, *, times: int, name: str) -> None:
    """Want the lock a number of times, all at once; under it, add a line in a way that bears no other writer."""

    async def write_once() -> None:
        async with locks.hold(STORE, user_id) as lease:
            written = _read(file)
            # Longer than a waiting process takes to ask again, as every write to a memory is.
            await asyncio.sleep(0.15)
            await lease.confirm()
            _write(file, f"{written}{name}\n")

    async with asyncio.TaskGroup() as group:
        for _ in range(times):
            group.create_task(write_once())


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _write(file: Path, text: str) -> None:
    file.write_text(text)


async def hold_until_told(url: str, user_id: str, lease: float) -> None:
    """Hold the lock until standard input ends."""
    async with RedisUserLocks(url, lease=lease).hold(STORE, user_id):
        print("held", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    print("released", flush=True)


def main(what: str, url: str, user_id: str, *arguments: str) -> None:
    """Do what the command line says."""
    match what, arguments:
        case "hold", [lease]:
            asyncio.run(hold_until_told(url, user_id, float(lease)))
        case "write", [file, times]:
            locks = RedisUserLocks(url)
            print("ready", flush=True)
            sys.stdin.readline()
            asyncio.run(write_file(locks, user_id, Path(file), times=int(times), name="other"))


if __name__ == "__main__":
    main(*sys.argv[1:])
