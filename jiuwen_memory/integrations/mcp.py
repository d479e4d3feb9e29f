"""The memory as an MCP server, over stdio or HTTP. The user is bound by configuration, never chosen by the model."""

from __future__ import annotations

import asyncio
import hmac
import inspect
import ipaddress
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import Field

from jiuwen_memory.errors import InvalidInputError, JiuwenMemoryError, MissingExtraError, SetupError
from jiuwen_memory.foundation.concurrency import beside
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS
from jiuwen_memory.foundation.timepoint import Timepoint
from jiuwen_memory.integrations.findings import Finding, Kind, findings, recall_facts
from jiuwen_memory.integrations.moments import AsOf, KnownAt, Moment, parse_moment
from jiuwen_memory.memory_core.config.graph import EpisodeType
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.requests import parse_user_id

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
except ModuleNotFoundError as error:
    raise MissingExtraError(
        'The MCP server needs the official SDK, which is not installed: pip install "jiuwen-graph-memory[mcp]"'
    ) from error

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

T = TypeVar("T")
Text = Annotated[str, Field(description="whole sentences that name everybody and say when")]
Limit = Annotated[int, Field(ge=1, le=100)]

INSTRUCTIONS = (
    "A long-term memory of one user: entities, facts with the time they hold, and the texts they were said in. Search "
    "it before answering about people, plans or the past; remember what will matter later."
)
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8765
HEARTBEAT = 5.0
"""Seconds between two progress notifications while a text is read."""


@dataclass(frozen=True)
class Found:
    """One thing that a search found; `current` is a matter of the moment asked about, `id` is what `forget` takes."""

    kind: Kind
    text: str
    score: float
    id: str
    since: str | None = None
    until: str | None = None
    current: bool | None = None


@dataclass(frozen=True)
class Fact:
    """One fact, with its dates in words, how often it was said, and whether it holds now."""

    text: str
    id: str
    since: str | None
    until: str | None
    current: bool
    mentions: int
    sources: list[str]


@dataclass(frozen=True)
class Happening:
    """Something on the timeline."""

    time: str
    kind: str
    text: str
    id: str


@dataclass(frozen=True)
class Remembered:
    """What a text added."""

    entities: list[str]
    facts: list[str]
    warnings: list[str]


@dataclass(frozen=True)
class Forgotten:
    """What was removed, and where it can still be read."""

    removed: int
    reopened: int
    residue: list[str]


class MemoryTools:
    """What the tools do, for a user who is given with each call."""

    def __init__(self, memory: GraphMemory, source: str | None) -> None:
        self._memory = memory
        self._source = source

    async def remember(self, user: str, text: str, session: str | None, context: Context) -> Remembered:
        """Take a text into the memory, with a sign of life every few seconds."""
        async with _heartbeat(context):
            update = await self._memory.add_memory(
                EpisodeType.DOCUMENT, user, text, source=self._source, session_id=session
            )
        facts = [*update.added_relation, *update.updated_relation]
        return Remembered(
            entities=[each.name for each in update.added_entity],
            facts=[each.content_text for each in facts],
            warnings=list(update.warnings),
        )

    async def search(
        self, user: str, query: str, limit: int, *, as_of: str | None, known_at: str | None
    ) -> list[Found]:
        """Return the best facts, entities and episodes in turn."""
        held, known = parse_moment("as_of", as_of), parse_moment("known_at", known_at, is_end=True)
        found = await self._memory.search(query, user, as_of=held, known_at=known)
        return [_found(each) for each in findings(found, limit=limit)]

    async def list_facts(
        self, user: str, about: str | None, limit: int, *, as_of: str | None, known_at: str | None
    ) -> list[Fact]:
        """Return facts, the latest said first; `about` keeps to those of one entity, at either end."""
        held, known = parse_moment("as_of", as_of), parse_moment("known_at", known_at, is_end=True)
        facts = await recall_facts(self._memory, user, about=about, as_of=held, known_at=known, limit=limit)
        return [
            Fact(
                text=each.sentence,
                id=each.relation,
                since=_words(each.valid_since),
                until=_words(each.valid_until),
                current=each.is_current,
                mentions=each.mention_count,
                sources=list(each.sources),
            )
            for each in facts
        ]

    async def timeline(self, user: str, since: str | None, until: str | None, limit: int) -> list[Happening]:
        """Return what happened, earliest first."""
        begins, ends = parse_moment("since", since), parse_moment("until", until, is_end=True)
        events = await self._memory.timeline(user, since=begins, until=ends)
        return [Happening(each.time.format(), each.kind, each.text, each.uuid) for each in events[:limit]]

    async def forget(self, user: str, id: str) -> Forgotten:
        """Delete the episode, entity or fact with this id, and what rests on it alone."""
        deletions = zip(
            GRAPH_COLLECTIONS,
            (self._memory.delete_entity, self._memory.delete_relation, self._memory.delete_episode),
            strict=True,
        )
        for collection, delete in deletions:
            if await self._memory.get(collection, [id], user):
                receipt = await delete(user, id)
                return Forgotten(
                    removed=sum(map(len, receipt.removed.values())),
                    reopened=len(receipt.reopened),
                    residue=[f"{each.collection} {each.uuid}: {each.text}" for each in receipt.residue],
                )
        raise InvalidInputError(f"There is nothing with the id {id!r} in this memory; search gives the ids.")


def memory_server(
    memory: GraphMemory, *, user_id: str, source: str | None = "mcp", allow_other_users: bool = False
) -> MCPServer[Any]:
    """Return an MCP server with the tools `remember`, `search`, `list_facts`, `timeline` and `forget`.

    Args:
        memory: the memory behind it; it is not closed by the server.
        user_id: whose memory it is. No argument of a tool can name another user.
        source: kept on everything that is remembered through it.
        allow_other_users: give each tool an argument `user`, for a trusted agent that serves many people.

    Raises:
        InvalidInputError: there can be no such user.
    """
    parse_user_id(user_id, memory.config.db_storage_config)
    server: MCPServer[Any] = MCPServer("jiuwen-memory", instructions=INSTRUCTIONS, log_level="WARNING")
    tools = MemoryTools(memory, source)
    reading = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    writing = ToolAnnotations(destructive_hint=False, open_world_hint=False)
    deleting = ToolAnnotations(destructive_hint=True, open_world_hint=False)

    async def remember(text: Text, context: Context, session: str | None = None, user: str = user_id) -> Remembered:
        """Keep something for later: facts, wishes, plans, decisions."""
        return await _told(tools.remember(user, text, session, context))

    async def search(
        query: str, limit: Limit = 9, as_of: AsOf = None, known_at: KnownAt = None, user: str = user_id
    ) -> list[Found]:
        """Look up what is known about a person, a thing or a question, best first."""
        return await _told(tools.search(user, query, limit, as_of=as_of, known_at=known_at))

    async def list_facts(
        about: str | None = None,
        limit: Limit = 30,
        as_of: AsOf = None,
        known_at: KnownAt = None,
        user: str = user_id,
    ) -> list[Fact]:
        """List facts, the latest first, with the time they hold; `about` is the name of a person or thing."""
        return await _told(tools.list_facts(user, about, limit, as_of=as_of, known_at=known_at))

    async def timeline(
        since: Moment = None, until: Moment = None, limit: Limit = 50, user: str = user_id
    ) -> list[Happening]:
        """List what happened between two moments, earliest first. If as many as `limit` come, ask again from there."""
        return await _told(tools.timeline(user, since, until, limit))

    async def forget(id: str, user: str = user_id) -> Forgotten:
        """Delete one episode, entity or fact for good, by the id that search, list_facts or timeline gave."""
        return await _told(tools.forget(user, id))

    hints: dict[Callable[..., Awaitable[Any]], ToolAnnotations] = {
        remember: writing,
        search: reading,
        list_facts: reading,
        timeline: reading,
        forget: deleting,
    }
    for function, hint in hints.items():
        server.add_tool(function if allow_other_users else _without_user(function), annotations=hint)
    return server


def _without_user(function: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """Return the function without its argument `user`: neither shown to the model nor taken from it."""
    signature = inspect.signature(function, eval_str=True)

    @wraps(function)
    async def bound(**given: Any) -> T:
        given.pop("user", None)
        return await function(**given)

    shown = [each for name, each in signature.parameters.items() if name != "user"]
    bound.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    bound.__annotations__ = {each.name: each.annotation for each in shown}
    return bound


async def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve one client over standard input and output, until it hangs up."""
    await server.run_stdio_async()


async def serve_http(
    server: MCPServer[Any], *, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, token: str | None = None
) -> None:
    """Serve clients over streamable HTTP at `/mcp`, until the process is told to end by a signal.

    SIGTERM makes it return, so that what opened the memory closes it; an interrupt (Ctrl-C) is raised as always.

    Args:
        host: the address to listen on; another one than loopback needs a token.
        port: 0 is any free port.
        token: what clients send as a bearer token.

    Raises:
        SetupError: an address that others can reach was given without a token, or it cannot be listened on.
    """
    import uvicorn

    if not token and not _is_loopback(host):
        raise SetupError(f"{host} can be reached from other machines; give a token, or listen on 127.0.0.1.")
    app: ASGIApp = server.streamable_http_app(host=host)
    guarded = _Guarded(app, token) if token else app
    # Its log of requests goes to standard output, which belongs to whoever started this.
    config = uvicorn.Config(guarded, host=host, port=port, log_level="info", access_log=False)
    try:
        with _outliving_sigterm():
            await uvicorn.Server(config).serve()
    except SystemExit as error:
        raise SetupError(f"{host}, port {port}, cannot be listened on; free it, or give another.") from error


@contextmanager
def _outliving_sigterm() -> Iterator[None]:
    """Keep SIGTERM, which uvicorn obeys and sends again at its end, from ending the process before all is closed."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _Guarded:
    """An application that lets in only who sends the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
            # The name of the scheme may be written in any case (RFC 9110, 11.1).
            if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._expected):
                from starlette.responses import PlainTextResponse

                refusal = PlainTextResponse("A bearer token is needed.", 401, {"WWW-Authenticate": "Bearer"})
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _told(call: Awaitable[T]) -> T:
    """Await a call; what goes wrong is told to the model in the words of our error."""
    try:
        return await call
    except JiuwenMemoryError as error:
        raise ToolError(error.message) from error


@asynccontextmanager
async def _heartbeat(context: Context) -> AsyncIterator[None]:
    """Report the seconds so far at the beginning, every few seconds, and at the end; nobody knows of how many."""
    started = time.monotonic()

    async def beat() -> None:
        while True:
            await context.report_progress(time.monotonic() - started, message="reading")
            await asyncio.sleep(HEARTBEAT)

    async with beside(beat()):
        yield
    await context.report_progress(time.monotonic() - started, message="done")


def _found(each: Finding) -> Found:
    return Found(each.kind, each.text, each.score, each.id, _words(each.since), _words(each.until), each.current)


def _words(point: Timepoint | None) -> str | None:
    return point.format() if point else None
