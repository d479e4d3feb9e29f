"""`delete`, `check`, `pending`, `resume` and `prompts`: what keeps a memory in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from jiuwen_memory.cli.calls import FAILED, OK, Call, command, one_line, plain, table
from jiuwen_memory.cli.reading import SHOWN_TEXT, find_object
from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.integrations.findings import Kind, finding
from jiuwen_memory.integrations.moments import parse_moment
from jiuwen_memory.memory_core.graph.extraction.prompt_check import check_prompts
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.pending import PendingAdd, ResumedAdd
from jiuwen_memory.memory_core.graph.graph_memory.receipts import DeletionReceipt

Delete = Callable[[], Awaitable[DeletionReceipt]]
EveryoneOption = Annotated[bool, typer.Option("--everyone", help="All users, not one.")]


@command("delete")
async def delete(
    call: Call,
    uuids: Annotated[list[str] | None, typer.Argument(help="Ids of episodes, entities or facts.")] = None,
    before: Annotated[str | None, typer.Option(help="All episodes from before this moment (ISO 8601).")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Everything of this user.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Forget episodes, entities or facts, and what rests on them alone; tell where it can still be read."""
    moment = parse_moment("--before", before)
    if [bool(uuids), moment is not None, everything].count(True) != 1:
        raise InvalidInputError("Say what to delete, in one way: ids, --before a moment, or --all.")
    async with call.memory(with_model=not everything) as memory:
        steps = await _steps(memory, call.user_id, uuids or (), before=moment)
        if not (yes or _is_confirmed(call, [each.told for each in steps])):
            call.note("Nothing was deleted.")
            return FAILED
        gone: set[str] = set()
        for step in steps:
            if step.uuid in gone:
                call.show(
                    {"deleted": step.told, "receipt": None}, Text(plain(f"{step.told}\n  went with those before"))
                )
                continue
            receipt = await step.delete()
            gone.update(uuid for uuids in receipt.removed.values() for uuid in uuids)
            call.show({"deleted": step.told, "receipt": receipt}, _pictured_receipt(step.told, receipt))
    return OK


@dataclass(frozen=True)
class Step:
    """What is to be deleted, in words, and how; `uuid` if it is one object."""

    told: str
    delete: Delete
    uuid: str = ""


async def _steps(memory: GraphMemory, user_id: str, uuids: Sequence[str], *, before: datetime | None) -> list[Step]:
    """Return what is to be deleted; ids that are not there are an error before anything is done."""
    if before is not None:
        told = f"all episodes of {user_id} from before {before.isoformat()}"
        return [Step(told, lambda: memory.delete_before(user_id, before))]
    if not uuids:
        return [Step(f"everything of {user_id}", lambda: memory.delete_user(user_id))]
    found = [await find_object(memory, user_id, uuid) for uuid in dict.fromkeys(uuids)]
    return [
        Step(
            f"{kind} {each.uuid}: {one_line(finding(1.0, each).text, SHOWN_TEXT)}",
            _deletion(memory, kind, user_id=user_id, uuid=each.uuid),
            each.uuid,
        )
        for kind, each in found
    ]


def _deletion(memory: GraphMemory, kind: Kind, *, user_id: str, uuid: str) -> Delete:
    ways = {"episode": memory.delete_episode, "entity": memory.delete_entity, "fact": memory.delete_relation}
    return lambda: ways[kind](user_id, uuid)


def _is_confirmed(call: Call, told: Sequence[str]) -> bool:
    for each in told:
        call.note(f"To be deleted: {each}")
    return typer.confirm("Delete this for good?", err=True)


def _pictured_receipt(told: str, receipt: DeletionReceipt) -> Text:
    lines = [f"{told}", f"  {receipt}"]
    lines += [f"  still told by {each.collection} {each.uuid}: {one_line(each.text, 100)}" for each in receipt.residue]
    return Text(plain("\n".join([*lines, *(f"  {each}" for each in receipt.warnings)])))


@command("check")
async def check(
    call: Call,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what is found.")] = False,
    everyone: EveryoneOption = False,
) -> int:
    """Look for everything in the graph that does not add up."""
    async with call.memory() as memory:
        report = await memory.check(None if everyone else call.user_id, repair=repair)
    call.show({"is_clean": report.is_clean, "report": report}, Text(plain(str(report))))
    return FAILED if report.remaining else OK


@command("pending")
async def pending(call: Call) -> int:
    """List adds that failed for good and wait to be done again."""
    async with call.memory() as memory:
        waiting = await memory.pending(call.user_id)
    rows = [(f"{each.failed_at:%Y-%m-%d %H:%M}", one_line(each.text, 100), one_line(each.reason)) for each in waiting]
    picture = table(("failed", "text", "why"), rows, wide="why") if rows else Text("Nothing waits.", "dim")
    call.show([_pending_value(each) for each in waiting], picture)
    return OK


@command("resume")
async def resume(call: Call, everyone: EveryoneOption = False) -> int:
    """Do failed adds again; one that fails again goes on waiting."""
    async with call.memory(with_model=True) as memory:
        results = await memory.resume(None if everyone else call.user_id)
    lines = [_resumed_line(each) for each in results] or ["Nothing waits."]
    call.show([_resumed_value(each) for each in results], Text(plain("\n".join(lines))))
    return FAILED if any(each.error for each in results) else OK


@command("prompts")
def prompts(
    call: Call, folder: Annotated[Path, typer.Argument(help="A folder of prompts of your own, laid out like ours.")]
) -> int:
    """Check a folder of prompts before a memory uses it."""
    faults = check_prompts(folder)
    lines = [str(each) for each in faults] or ["Nothing is wrong."]
    call.show(faults, Text(plain("\n".join(lines))))
    return FAILED if any(each.is_error for each in faults) else OK


def _pending_value(each: PendingAdd) -> dict[str, object]:
    named = {name: getattr(each, name) for name in ("plan_id", "user_id", "reason", "failed_at", "text")}
    return {**named, "parts": len(each.requests)}


def _resumed_value(each: ResumedAdd) -> dict[str, object]:
    return {
        "user_id": each.user_id,
        "plan_id": each.pending.plan_id if each.pending else None,
        "done": each.error is None,
        "error": each.error.message if each.error else None,
        "episodes": [episode.uuid for episode in each.update.added_episode] if each.update else [],
    }


def _resumed_line(each: ResumedAdd) -> str:
    text = one_line(each.pending.text, 60) if each.pending else "an entry that cannot be read"
    return f"{each.user_id}: {text}: {one_line(each.error.message) if each.error else each.update}"
