"""What every command stands on: the options they share, the memory of a profile, output and exit codes.

Prints: results on standard output, everything else on standard error.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sys
import unicodedata
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import cached_property, wraps
from pathlib import Path
from typing import Annotated, Any, Concatenate, Final, ParamSpec

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from jiuwen_memory.cli.entry import version_line
from jiuwen_memory.errors import (
    BackendNotFoundError,
    InvalidInputError,
    JiuwenMemoryError,
    SchemaMismatchError,
    SetupError,
    StoreParameterError,
)
from jiuwen_memory.foundation.text import is_blank
from jiuwen_memory.foundation.timepoint import Timepoint
from jiuwen_memory.integrations.profile import Profile, load_profile, open_memory
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory

P = ParamSpec("P")

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
BY_CALLER: Final = (
    *(InvalidInputError, SetupError),
    *(SchemaMismatchError, StoreParameterError, BackendNotFoundError),
)
"""Errors that whoever typed the command, or wrote the configuration, can mend."""
_UNSAFE: Final = re.compile("[\x7f-\x9f\ud800-\udfff]")
"""What JSON leaves as it is and a terminal may obey, or cannot be sent."""
LEAST_ROOM: Final = 24
"""Columns that a text needs beside others."""
WIDTH: Final = 120
"""Columns of what is printed into a file or a pipe."""

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Configuration file (TOML).", show_default=False, rich_help_panel="Everywhere"),
]
UserOption = Annotated[
    str | None, typer.Option("--user", help="Whose memory it is.", show_default=False, rich_help_panel="Everywhere")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON on standard output.", rich_help_panel="Everywhere")
]


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with doctor, add and search. Exit codes: 0 success, 1 something failed, 2 wrong usage or setup.",
)


@dataclass(frozen=True)
class Call:
    """One call of the command line: the options that all commands share, and what follows from them."""

    config: Path | None = None
    user: str | None = None
    as_json: bool = False

    @cached_property
    def profile(self) -> Profile:
        """What the configuration file and the environment say."""
        return load_profile(self.config)

    @property
    def user_id(self) -> str:
        """Whose memory it is.

        Raises:
            InvalidInputError: the user is blank, as from a variable that is not set; never is another one meant.
        """
        user = self.profile.user if self.user is None else self.user
        if is_blank(user):
            raise InvalidInputError(f"The user is {user!r}; give --user a name, or leave it out.")
        return user

    @asynccontextmanager
    async def memory(self, *, with_model: bool = False) -> AsyncIterator[GraphMemory]:
        """Open the memory; `with_model` for what asks the language model."""
        async with open_memory(self.profile, with_model=with_model) as memory:
            yield memory

    @property
    def out(self) -> Console:
        """Where results go that people read."""
        return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)

    @property
    def notes(self) -> Console:
        """Where everything else goes."""
        return Console(stderr=True, width=None if sys.stderr.isatty() else WIDTH, highlight=False)

    def show(self, value: object, picture: RenderableType) -> None:
        """Print a result: as JSON if that was asked for, otherwise as people read it."""
        if self.as_json:
            self.show_json(value)
        else:
            self.out.print(picture)

    def show_json(self, value: object) -> None:
        """Print one JSON document on one line."""
        text = json.dumps(value, ensure_ascii=False, default=json_value)
        typer.echo(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))

    def note(self, text: str, style: str = "") -> None:
        """Tell something that is no result."""
        self.notes.print(Text(plain(text), style))


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(version_line())
        raise typer.Exit


@app.callback()
def shared(
    context: typer.Context,
    config: ConfigOption = None,
    user: UserOption = None,
    as_json: JsonOption = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Long-term memory as a graph: add texts, then ask what they say about people, things and times."""
    context.obj = Call(config, user, as_json)


def json_value(value: object) -> object:
    """Return what `json.dumps` does not know: times as ISO 8601, a value of ours by its fields.

    Raises:
        TypeError: it is none of these.
    """
    if isinstance(value, Timepoint):
        return value.short_iso()
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def plain(text: str) -> str:
    """Return a text without control characters: what was remembered must not steer the terminal.

    Halves of characters, which names of files may hold, become U+FFFD: no terminal could be sent them.
    """
    blanked = (" " if unicodedata.category(each) == "Cc" and each not in "\n\t" else each for each in text)
    return "".join(blanked).encode("utf-8", "surrogatepass").decode("utf-8", "replace")


@dataclass(frozen=True)
class Listing:
    """A table without lines in which the column `wide` takes the room that the others leave.

    In a terminal where that is too little, each row is a line of the others, and the text below it.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    wide: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        place = self.headings.index(self.wide)
        widths = [max(map(cell_len, column)) for column in zip(self.headings, *self.rows, strict=True)]
        others = sum(widths) - widths[place] + 2 * (len(widths) - 1)
        if options.max_width - others < min(widths[place], LEAST_ROOM):
            for row in self.rows:
                yield Text("  ".join(each for number, each in enumerate(row) if number != place))
                yield Padding(Text(row[place], overflow="fold"), (0, 0, 0, 2))
            return
        drawn = Table(box=None, pad_edge=False)
        for heading in self.headings:
            drawn.add_column(heading, no_wrap=heading != self.wide, overflow="fold")
        for row in self.rows:
            drawn.add_row(*map(Text, row))
        yield drawn


def table(headings: Iterable[str], rows: Iterable[Iterable[object]], *, wide: str) -> Listing:
    """Return a table in which the column `wide` takes the room that the others leave."""
    return Listing(tuple(headings), [tuple(plain(str(each)) for each in row) for row in rows], wide)


Body = Callable[Concatenate[Call, P], "Coroutine[Any, Any, int] | int"]


def command(name: str) -> Callable[[Body[P]], Body[P]]:
    """Register a function as a command: it gets a `Call`, returns the exit code, and may be a coroutine.

    The options that all commands share stand before the command's name or after it.
    """

    def register(function: Body[P]) -> Body[P]:
        @wraps(function)
        def run(context: typer.Context, **given: Any) -> None:
            before = context.find_object(Call) or Call()
            config, user, as_json = (given.pop(each) for each in ("config", "user", "as_json"))
            given_user = before.user if user is None else user
            call = Call(config or before.config, given_user, as_json or before.as_json)
            raise typer.Exit(_exit_code(call, lambda: function(call, **given)))  # type: ignore[call-arg]

        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        parameters = [context, *own, *_shared()]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        app.command(name)(run)
        return function

    return register


def _shared() -> list[inspect.Parameter]:
    kinds: dict[str, tuple[object, object]] = {
        "config": (ConfigOption, None),
        "user": (UserOption, None),
        "as_json": (JsonOption, False),
    }
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=default, annotation=kind) for name, (kind, default) in kinds.items()
    ]


def _exit_code(call: Call, run: Callable[[], Coroutine[Any, Any, int] | int]) -> int:
    """Run a command; what goes wrong becomes one line and an exit code."""
    try:
        outcome = run()
        return outcome if isinstance(outcome, int) else asyncio.run(outcome)
    except BY_CALLER as error:
        complain(call, error)
        return USAGE
    except JiuwenMemoryError as error:
        complain(call, error)
        return FAILED
    except BrokenPipeError:
        # Whoever read has read enough.
        raise
    except OSError as error:
        complain(call, error)
        return FAILED


def complain(call: Call, error: JiuwenMemoryError | OSError) -> None:
    """Tell of an error on one line."""
    told = error.message if isinstance(error, JiuwenMemoryError) else f"Something cannot be read or written: {error}."
    call.notes.print(Text(plain(f"jiuwen-memory: {one_line(told)}"), "red"), soft_wrap=True)


def one_line(text: str, limit: int | None = None) -> str:
    """Return a text on one line, cut to at most `limit` characters."""
    line = " ".join(text.split())
    return line if limit is None or len(line) <= limit else f"{line[: limit - 3]}..."
