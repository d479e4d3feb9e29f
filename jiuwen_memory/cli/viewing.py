"""`view`: a user's graph as a page for the browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from jiuwen_memory.cli.calls import OK, Call, command, plain


@command("view")
async def view(
    call: Call,
    path: Annotated[Path, typer.Argument(help="The page to write.")] = Path("memory.html"),
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    source: Annotated[str | None, typer.Option(help="Only what was learnt from this source.")] = None,
    session: Annotated[str | None, typer.Option(help="Only what was learnt in this session.")] = None,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> int:
    """Write the graph of this user as one page to explore in a browser; only you can read the file."""
    async with call.memory() as memory:
        page = await memory.to_html(path, call.user_id, title=title, source=source, session_id=session)
    told = f"Wrote {page.path} ({page.size / 1e6:.1f} MB): {page.entities} entities, {page.facts} facts."
    call.show(page, Text(plain(told)))
    if browser and not webbrowser.open(page.path.absolute().as_uri()):
        call.note(f"No browser could be opened; open {page.path} in one.", "yellow")
    return OK
