"""`add`: files into the memory, with a bar that tells how far it is. Doing it again skips what is in."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from jiuwen_memory.cli.calls import FAILED, OK, Call, command, one_line, plain
from jiuwen_memory.cli.inputs import Form, Found, Unreadable, input_key, read_inputs
from jiuwen_memory.errors import InvalidInputError, JiuwenMemoryError, SetupError
from jiuwen_memory.foundation.text import estimate_tokens
from jiuwen_memory.integrations.moments import parse_moment
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.states import number_of

Status = Literal["added", "skipped", "failed"]
STYLES: Final[Mapping[Status, str]] = {"added": "green", "skipped": "dim", "failed": "red"}
MANY_PARTS: Final = 10
"""From how many parts on it is said beforehand that an input will take long."""
OF_THE_FILE: Final = "file"
"""What `--reference-time` says for "when the file was last changed"."""


@dataclass(frozen=True)
class Given:
    """What the call says of all inputs; what an input says of itself counts more."""

    session: str | None
    source: str | None
    reference_time: str | None
    names: Mapping[str, str]

    def complete(self, found: Found) -> Found:
        """Return an input with what it does not say itself.

        Raises:
            InvalidInputError: the reference time is no moment.
        """
        if isinstance(found, Unreadable):
            return found
        is_of_file = self.reference_time == OF_THE_FILE
        moment = None if is_of_file else parse_moment("--reference-time", self.reference_time)
        return replace(
            found,
            session_id=found.session_id or self.session,
            source=found.source or self.source,
            reference_time=found.reference_time or moment,
            changed_at=found.changed_at if is_of_file else None,
        )


@dataclass(frozen=True)
class Outcome:
    """What became of one input; `episodes` are the ids it has in the memory."""

    place: str
    status: Status
    episodes: list[str] = field(default_factory=list)
    entities: int = 0
    facts: int = 0
    calls: int = 0
    tokens: int = 0
    warnings: list[str] = field(default_factory=list)
    error: str | None = None

    @property
    def told(self) -> str:
        """What people read of it."""
        if self.error:
            return one_line(self.error)
        if self.status == "skipped":
            return "already in the memory"
        return _learnt(self.entities, self.facts)


@command("add")
async def add(
    call: Call,
    files: Annotated[list[str], typer.Argument(help="Files, patterns such as 'notes/**/*.md', or - for stdin.")],
    session: Annotated[str | None, typer.Option(help="The session they belong to.")] = None,
    source: Annotated[str | None, typer.Option(help="Where they come from.")] = None,
    reference_time: Annotated[
        str | None, typer.Option(help="When it was said: ISO 8601, or 'file' for when each file was last changed.")
    ] = None,
    form: Annotated[Form, typer.Option("--as", help="What the files hold.")] = "auto",
    speaker: Annotated[list[str] | None, typer.Option(help="The name of a role: user=Ann. Repeatable.")] = None,
) -> int:
    """Take conversations (JSON, JSON Lines), Markdown, text or JSON into the memory."""
    given = Given(session, source or call.profile.source, reference_time, _names(speaker or ()))
    found = [given.complete(each) for each in read_inputs(files, form=form, stdin=sys.stdin)]
    outcomes: list[Outcome] = []
    started = time.monotonic()
    try:
        async for outcome in _add_all(call, found, names=given.names):
            outcomes.append(outcome)
            if call.as_json:
                call.show_json(outcome)
    except asyncio.CancelledError:
        call.note("Stopped. Run the same command again to go on: what is already in the memory is skipped.")
        raise
    finally:
        if outcomes:
            call.note(_sum(outcomes, time.monotonic() - started))
    return FAILED if any(each.status == "failed" for each in outcomes) else OK


async def _add_all(call: Call, found: Sequence[Found], *, names: Mapping[str, str]) -> AsyncIterator[Outcome]:
    """Add one input after another, and give each outcome while the bar shows it."""
    started, done = time.monotonic(), list[Outcome]()
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[pace]}"), TextColumn("{task.description}"))
    with Progress(*columns, console=call.notes, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("", total=len(found), pace="")
        async with call.memory(with_model=True) as memory:
            for each in found:
                bar.update(task, description=plain(each.place).replace("[", r"\["))
                if told := _told_of_length(each, memory.extraction_strategy.chunk_tokens):
                    bar.console.print(Text(plain(told), "yellow"), soft_wrap=True)
                outcome = await _add(each, memory, user_id=call.user_id, names=names)
                done.append(outcome)
                bar.update(task, advance=1, pace=_pace(done, time.monotonic() - started), description="")
                line = Text(f"{outcome.status:<8} ", STYLES[outcome.status])
                bar.console.print(line.append(plain(f"{outcome.place}: {outcome.told}"), "default"), soft_wrap=True)
                for warning in outcome.warnings:
                    bar.console.print(Text(plain(f"         {one_line(warning)}"), "yellow"), soft_wrap=True)
                yield outcome


async def _add(found: Found, memory: GraphMemory, *, user_id: str, names: Mapping[str, str]) -> Outcome:
    """Add one input; what fails is reported, and does not keep the others waiting.

    Raises:
        SetupError: no input can be added.
    """
    if isinstance(found, Unreadable):
        return Outcome(found.place, "failed", error=found.reason)
    try:
        update = await memory.add_memory(
            found.kind,
            user_id,
            found.content,
            content_fmt_kwargs=names if found.kind.name == "CONVERSATION" else None,
            reference_time=found.reference_time or found.changed_at,
            session_id=found.session_id,
            source=found.source,
            idempotency_key=input_key(found),
        )
    except SetupError:
        raise
    except JiuwenMemoryError as error:
        spent = error.usage
        tokens = spent.input_tokens + spent.output_tokens if spent else 0
        return Outcome(
            found.place, "failed", calls=spent.calls if spent else 0, tokens=tokens, error=one_line(error.message)
        )
    is_repeat = bool(update.duplicate_of) and not update.added_episode
    return Outcome(
        found.place,
        "skipped" if is_repeat else "added",
        episodes=[each.uuid for each in update.added_episode] or [uuid for uuid in (update.duplicate_of,) if uuid],
        entities=len(update.added_entity),
        facts=len(update.added_relation),
        calls=update.usage.calls,
        tokens=update.usage.input_tokens + update.usage.output_tokens,
        warnings=list(update.warnings),
    )


def _told_of_length(found: Found, chunk_tokens: int) -> str | None:
    """Return what to say before a long input is read, which takes its time and costs."""
    if isinstance(found, Unreadable):
        return None
    content = found.content
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
    parts = -(-estimate_tokens(text) // chunk_tokens)
    if parts < MANY_PARTS:
        return None
    return f"{found.place} is long: about {parts} parts, read one after the other, with up to 7 model calls each."


def _names(speakers: Sequence[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in speakers]
    if wrong := [each for each, pair in zip(speakers, pairs, strict=True) if not (pair[0] and pair[2])]:
        raise InvalidInputError(f"--speaker is {wrong[0]!r}; give a role and a name, such as user=Ann.")
    return {role: name for role, _, name in pairs}


def _pace(done: Sequence[Outcome], seconds: float) -> str:
    tokens = sum(each.tokens for each in done)
    return f"{60 * len(done) / max(seconds, 0.001):,.0f} a minute, {tokens:,} tokens"


def _sum(outcomes: Sequence[Outcome], seconds: float) -> str:
    counts = Counter(each.status for each in outcomes)
    states = ", ".join(f"{counts[status]} {status}" for status in STYLES)
    entities, facts, calls, tokens = (
        sum(getattr(each, name) for each in outcomes) for name in ("entities", "facts", "calls", "tokens")
    )
    return f"{states}; {_learnt(entities, facts)}; {calls} model calls, {tokens:,} tokens, {seconds:.1f} s."


def _learnt(entities: int, facts: int) -> str:
    return f"{number_of(entities, 'new entity', 'new entities')}, {number_of(facts, 'new fact', 'new facts')}"
