"""`mcp`: the memory as an MCP server, over standard input and output or HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from jiuwen_memory.cli.calls import OK, Call, command
from jiuwen_memory.foundation import settings


@command("mcp")
async def mcp(
    call: Call,
    way: Annotated[Literal["stdio", "http"], typer.Argument(help="How clients talk to it.")] = "stdio",
    host: Annotated[str, typer.Option(help="The address to listen on; other ones than loopback need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any free port.")] = 8765,
    token: Annotated[
        str | None, typer.Option(help=f"Bearer token of clients; {settings.MCP_TOKEN.name} keeps it out of sight.")
    ] = None,
) -> int:
    """Serve the memory of this user to an assistant, over MCP."""
    from jiuwen_memory.integrations.mcp import memory_server, serve_http, serve_stdio

    async with call.memory(with_model=True) as memory:
        server = memory_server(memory, user_id=call.user_id, source=call.profile.source or "mcp")
        if way == "stdio":
            await serve_stdio(server)
        else:
            await serve_http(server, host=host, port=port, token=token or settings.MCP_TOKEN.read() or None)
    return OK
