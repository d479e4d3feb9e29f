"""The memory over MCP, used by the SDK's own client through a real process and a real HTTP server."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from httpx2 import AsyncClient
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from jiuwen_memory import EPISODE_COLLECTION, EpisodeType
from jiuwen_memory.errors import InvalidInputError, SetupError
from jiuwen_memory.integrations.mcp import memory_server, serve_http
from jiuwen_memory.testing import FakeLLM, fake_memory
from tests.memory_support import PORTO, ROTTERDAM, VISIT, moved

ROOT = Path(__file__).resolve().parent.parent
TEXT = "Ann has lived in Rotterdam since 2021."

# A memory on disk with a scripted model, served as the arguments say: the way in, the user, the token.
SERVER = """
import asyncio, sys
from jiuwen_memory import EpisodeType, GraphConfig
from jiuwen_memory.integrations.mcp import memory_server, serve_http, serve_stdio
from jiuwen_memory.testing import fake_memory

way, uri, user, token = sys.argv[1:]
REPLIES = {
    "EntityExtraction": {"entities": [{"name": "Ann", "type": "Human"}, {"name": "Rotterdam", "type": "Entity"}]},
    "RelationExtraction": {"relations": [{
        "fact": "Ann has lived in Rotterdam since 2021.", "name": "lives in", "source": "Ann", "target": "Rotterdam",
        "valid_since": "2021", "valid_until": None,
    }]},
}

async def main():
    async with fake_memory(REPLIES, config=GraphConfig(uri=uri, embed_dim=64)) as memory:
        await memory.add_memory(EpisodeType.DOCUMENT, "ben", "Ben hides the key under the third stone.")
        server = memory_server(memory, user_id=user)
        if way == "stdio":
            await serve_stdio(server)
        else:
            await serve_http(server, port=0, token=token or None)

asyncio.run(main())
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def process_over_stdio(folder: Path, *, user: str = "ann") -> StdioServerParameters:
    arguments = ["-c", SERVER, "stdio", str(folder / "mcp.db"), user, ""]
    return StdioServerParameters(command=sys.executable, args=arguments, env=environment())


@contextmanager
def process_over_http(folder: Path, *, token: str = "") -> Iterator[str]:
    """Run the HTTP server in a process of its own and give its address."""
    command = [sys.executable, "-c", SERVER, "http", str(folder / "mcp.db"), "ann", token]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            address = next(found[0] for line in lines if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
            yield f"{address}/mcp"
        finally:
            process.terminate()
            process.communicate()


async def structured(client: Client, tool: str, **arguments: Any) -> Any:
    """Return what a tool gives back, without the envelope that lists get."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    content = result.structured_content
    return content["result"] if isinstance(content, dict) and set(content) == {"result"} else content


async def lives_through(client: Client) -> None:
    """Remember, search, list, forget: the whole life of a text."""
    remembered = await structured(client, "remember", text=TEXT, session="monday")
    found = await structured(client, "search", query="Where does Ann live?")
    facts = await structured(client, "list_facts", about="rotterdam")
    events = await structured(client, "timeline", since="2020-01-01", until="2022-01-01")
    episode = next(each["id"] for each in found if each["kind"] == "episode")
    forgotten = await structured(client, "forget", id=episode)
    left = await structured(client, "search", query="Where does Ann live?")

    assert (remembered["facts"], remembered["warnings"]) == ([TEXT], [])
    assert [(each["text"], each["since"], each["current"]) for each in facts] == [(TEXT, "2021", True)]
    assert {each["kind"] for each in found} == {"fact", "entity", "episode"}
    assert [each["text"] for each in events] == [TEXT]
    assert (forgotten["residue"], left) == ([], [])


@pytest.mark.slow
async def test_a_text_is_remembered_found_and_forgotten_over_stdio(tmp_path: Path) -> None:
    async with Client(process_over_stdio(tmp_path)) as client:
        await lives_through(client)


@pytest.mark.slow
async def test_a_text_is_remembered_found_and_forgotten_over_http(tmp_path: Path) -> None:
    with process_over_http(tmp_path) as address:
        async with Client(address) as client:
            await lives_through(client)


@pytest.mark.slow
async def test_over_http_a_wrong_token_is_turned_away_and_the_right_one_let_in(tmp_path: Path) -> None:
    with process_over_http(tmp_path, token="open sesame") as address:
        async with (
            AsyncClient(headers={"Authorization": "Bearer open sesame"}) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            wrong = ("Bearer open", "Bearer", "Basic open sesame", "open sesame")
            refused = [await http.post(address, headers={"Authorization": each}, json={}) for each in wrong]
            other_case = await http.post(address, headers={"Authorization": "bearer open sesame"}, json={})
            found = await structured(client, "search", query="anything")

    assert {(each.status_code, each.headers["www-authenticate"]) for each in refused} == {(401, "Bearer")}
    assert other_case.status_code != 401
    assert found == []


@pytest.mark.slow
async def test_another_users_data_cannot_be_reached_whatever_the_model_writes(tmp_path: Path) -> None:
    async with Client(process_over_stdio(tmp_path)) as client:
        shown = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        found = await client.call_tool("search", {"query": "Where is the key?", "user": "ben"})
        forced = await client.call_tool("search", {"query": "Where is the key?", "user_id": ["ben"]})
        events = await client.call_tool("timeline", {"user": "ben"})

    assert all("user" not in schema["properties"] for schema in shown.values())
    for result in (found, forced, events):
        assert "stone" not in str(result)


async def test_an_id_of_another_user_cannot_be_forgotten() -> None:
    memory = fake_memory()
    bens = await memory.add_memory(EpisodeType.DOCUMENT, "ben", "Ben hides the key.")

    async with Client(memory_server(memory, user_id="ann")) as client:
        result = await client.call_tool("forget", {"id": bens.added_episode[0].uuid})

    assert result.is_error
    assert "nothing with the id" in str(result.content)
    assert len(await memory.get(EPISODE_COLLECTION, [bens.added_episode[0].uuid], "ben")) == 1


async def test_a_trusted_agent_may_name_the_user() -> None:
    memory = fake_memory()

    async with Client(memory_server(memory, user_id="ann", allow_other_users=True)) as client:
        await structured(client, "remember", text="Ben keeps bees.", user="ben")
        bens = await structured(client, "search", query="bees", user="ben")
        anns = await structured(client, "search", query="bees")

    assert [each["text"] for each in bens if each["kind"] == "episode"] == ["Ben keeps bees."]
    assert anns == []


async def test_reading_a_text_reports_its_progress() -> None:
    told: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with Client(memory_server(fake_memory(), user_id="ann")) as client:
        await client.call_tool("remember", {"text": TEXT}, progress_callback=note)

    assert (told[0], told[-1]) == ("reading", "done")


async def test_progress_grows_and_names_no_total_that_nobody_knows() -> None:
    told: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    async with Client(memory_server(fake_memory(llm=FakeLLM(latency=0.05)), user_id="ann")) as client:
        await client.call_tool("remember", {"text": TEXT}, progress_callback=note)

    steps = [progress for progress, _ in told]
    assert {total for _, total in told} == {None}
    assert steps == sorted(set(steps))
    assert 0.05 <= steps[-1] < 60


async def test_a_search_may_ask_for_what_held_and_for_what_was_known_at_a_moment() -> None:
    memory = await moved()

    async with Client(memory_server(memory, user_id="ann")) as client:
        now, then, before, unknown = [
            await structured(client, "search", query="Where does Ann live?", limit=50, **moment)
            for moment in ({}, {"as_of": "2015"}, {"as_of": "2005-01-01"}, {"known_at": "2020-01-01"})
        ]
        listed = await structured(client, "list_facts", about="Ann", as_of="2015-06-01")
        unlisted = await structured(client, "list_facts", known_at="2020-01-01")

    facts = [{each["text"]: each["current"] for each in found if each["kind"] == "fact"} for found in (now, then)]
    assert facts == [{PORTO: False, ROTTERDAM: True, VISIT: True}, {PORTO: True}]
    assert [each for each in (*before, *unknown) if each["kind"] == "fact"] == []
    assert ([each["text"] for each in listed], unlisted) == ([PORTO], [])
    await memory.close()


async def test_facts_about_one_thing_are_listed_latest_first_whichever_end_it_stands_at() -> None:
    memory = await moved()

    async with Client(memory_server(memory, user_id="ann")) as client:
        facts = await structured(client, "list_facts", about="Ann", limit=2)
        everything = [await structured(client, "list_facts", about=name) for name in (None, "", " ")]

    assert [each["text"] for each in facts] == [VISIT, ROTTERDAM]
    assert [len(each) for each in everything] == [3, 3, 3]
    await memory.close()


async def test_a_day_at_the_end_of_a_timeline_is_in_it() -> None:
    memory = fake_memory()
    said = datetime(2026, 5, 8, 17, 30, tzinfo=UTC)
    await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Bees hum.", reference_time=said)

    async with Client(memory_server(memory, user_id="ann")) as client:
        within = await structured(client, "timeline", since="2026-05-08", until="2026-05-08")
        before = await structured(client, "timeline", until="2026-05-07")

    assert ([each["text"] for each in within], before) == (["Bees hum."], [])
    await memory.close()


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("search", {"query": " "}, "not blank"),
        ("timeline", {"since": "yesterday"}, "ISO 8601"),
        ("search", {"query": "bees", "as_of": "last May"}, "ISO 8601"),
        ("search", {"query": "bees", "known_at": "2026-13"}, "ISO 8601"),
        ("list_facts", {"as_of": "never"}, "ISO 8601"),
        ("forget", {"id": "unknown"}, "nothing with the id"),
        ("search", {"query": "bees", "limit": 0}, "limit"),
    ],
    ids=["blank", "moment", "as of", "known at", "listed", "id", "limit"],
)
async def test_a_mistake_is_told_to_the_model_in_words_it_can_act_on(
    tool: str, arguments: dict[str, Any], words: str
) -> None:
    async with Client(memory_server(fake_memory(), user_id="ann")) as client:
        result = await client.call_tool(tool, arguments)

    assert result.is_error
    assert words in str(result.content)


async def test_what_deletes_and_what_only_reads_is_marked() -> None:
    async with Client(memory_server(fake_memory(), user_id="ann")) as client:
        hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}

    assert {name for name, each in hints.items() if each and each.destructive_hint} == {"forget"}
    assert {name for name, each in hints.items() if each and each.read_only_hint} == {
        "search",
        "list_facts",
        "timeline",
    }


@pytest.mark.parametrize("user", ["", " ", "x" * 33])
def test_a_user_that_cannot_be_is_refused_when_the_server_is_made(user: str) -> None:
    with pytest.raises(InvalidInputError, match="user_id"):
        memory_server(fake_memory(), user_id=user)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org"])
async def test_an_address_that_others_reach_needs_a_token(host: str) -> None:
    with pytest.raises(SetupError, match="token"):
        await serve_http(memory_server(fake_memory(), user_id="ann"), host=host)


async def test_an_address_that_is_taken_is_a_setup_error_and_ends_no_program() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SetupError, match="cannot be listened on"):
        await serve_http(memory_server(fake_memory(), user_id="ann"), port=taken.getsockname()[1])
