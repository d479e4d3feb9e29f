"""`jiuwen-memory mcp http` in a process of its own, used by the SDK's own client."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from httpx2 import AsyncClient
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.cli_support import ROOT, CommandLine, command_line

pytestmark = pytest.mark.slow

FACT = "Ann has lived in Rotterdam since 2010."


@dataclass
class Served:
    """A server that runs, and in the end what it printed on standard output."""

    process: subprocess.Popen[str]
    port: str
    printed: str = ""

    @property
    def address(self) -> str:
        """Where clients of the same machine find it."""
        return f"http://127.0.0.1:{self.port}/mcp"


@contextmanager
def served(line: CommandLine, *arguments: str, more: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Start the command, and end it as a supervisor does."""
    command = [sys.executable, "-m", "jiuwen_memory.cli", "--config", str(line.config), "mcp", "http", "--port", "0"]
    with subprocess.Popen(
        [*command, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **(more or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            port = next(found[1] for each in lines if (found := re.search(r"http://[\d.]+:(\d+)", each)))
            server = Served(process, port)
            yield server
        finally:
            process.terminate()
            printed, _ = process.communicate(timeout=30)
        server.printed = printed


async def test_a_text_is_remembered_and_still_there_after_the_server_was_ended(tmp_path: Path) -> None:
    with command_line(tmp_path, backend="milvus") as line:
        with served(line) as first:
            async with Client(first.address) as client:
                remembered = await client.call_tool("remember", {"text": FACT})
        with served(line) as second:
            async with Client(second.address) as client:
                found = await client.call_tool("list_facts", {"about": "Ann"})

    assert remembered.structured_content is not None
    assert remembered.structured_content["facts"] == [FACT]
    assert FACT in str(found.structured_content)
    assert (first.printed, second.printed) == ("", "")


async def test_an_address_that_others_reach_takes_the_token_of_the_environment(tmp_path: Path) -> None:
    with (
        command_line(tmp_path, backend="milvus") as line,
        served(line, "--host", "0.0.0.0", more={"JIUWEN_MEMORY_MCP_TOKEN": "open sesame"}) as server,
    ):
        address = server.address
        async with (
            AsyncClient(headers={"Authorization": "Bearer open sesame"}) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            refused = [
                await http.post(address, headers={"Authorization": given}, json={}) for given in ("", "Bearer open")
            ]
            found = await client.call_tool("search", {"query": "anything"})

    assert [each.status_code for each in refused] == [401, 401]
    assert not found.is_error


async def test_a_server_that_is_told_to_end_closes_its_memory_while_a_client_holds_on_to_it(tmp_path: Path) -> None:
    with command_line(tmp_path, backend="milvus") as line, served(line) as server:
        async with Client(server.address) as client:
            await client.call_tool("search", {"query": "anything"})
            server.process.terminate()

            ended = server.process.wait(timeout=30)

    # A process that the signal itself had ended would have closed nothing, and its code would be below zero.
    assert ended == 0
