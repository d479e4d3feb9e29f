"""`export` and `import`: a user's graph into a file and back, or out of a store of an older package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from jiuwen_memory.cli.calls import OK, Call, command, plain
from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.files import home_path
from jiuwen_memory.integrations.exchange import reports
from jiuwen_memory.integrations.exchange.graphs import FactShape, write_graphml
from jiuwen_memory.integrations.exchange.jsonl import export_graph, import_graph
from jiuwen_memory.integrations.exchange.legacy import import_store
from jiuwen_memory.integrations.exchange.tables import write_triples

LOSSLESS = (".jsonl", ".jsonl.gz")
GRAPHML = (".graphml",)
TABLES = (".csv", ".csv.gz", ".parquet")


@command("export")
async def export(
    call: Call,
    path: Annotated[Path, typer.Argument(help=f"What its name ends in says which: {', '.join(LOSSLESS)} holds all.")],
    vectors: Annotated[bool, typer.Option("--vectors", help="JSON Lines with the vectors too.")] = False,
    episodes: Annotated[bool, typer.Option("--episodes", help="GraphML with the episodes too.")] = False,
    facts: Annotated[
        FactShape, typer.Option(help="GraphML with facts as edges, or as nodes, between which links are edges.")
    ] = "edges",
) -> int:
    """Write the graph of this user into a file: JSON Lines without loss, GraphML, or a table of facts."""
    if not path.name.endswith(LOSSLESS + GRAPHML + TABLES):
        known = ", ".join(LOSSLESS + GRAPHML + TABLES)
        raise InvalidInputError(f"{path.name!r} does not say what to write; end the name in {known}.")
    _refuse_for_others(path, LOSSLESS, {"--vectors": vectors})
    _refuse_for_others(path, GRAPHML, {"--episodes": episodes, "--facts": facts != "edges"})
    async with call.memory() as memory:
        if path.name.endswith(LOSSLESS):
            with _bar(call) as on_progress:
                report = await export_graph(memory, call.user_id, path, vectors=vectors, on_progress=on_progress)
            told = f"{report.total} objects of {report.user_id} are in {path}."
            call.show({"path": str(path), "report": report}, Text(plain(told)))
        elif path.name.endswith(GRAPHML):
            await write_graphml(memory, call.user_id, path, episodes=episodes, facts=facts)
            call.show({"path": str(path)}, Text(plain(f"The graph of {call.user_id} is in {path}.")))
        else:
            count = await write_triples(memory, call.user_id, path)
            call.show(
                {"path": str(path), "facts": count}, Text(plain(f"{count} facts of {call.user_id} are in {path}."))
            )
    return OK


def _refuse_for_others(path: Path, endings: tuple[str, ...], given: Mapping[str, bool]) -> None:
    """Refuse options that only files with these endings have."""
    for option, is_given in given.items():
        if is_given and not path.name.endswith(endings):
            raise InvalidInputError(f"{option} is for {', '.join(endings)}; leave it out, or end the name so.")


@command("import")
async def import_(
    call: Call,
    place: Annotated[str, typer.Argument(help="A file of export, or the path or URI of an older package's store.")],
    replace: Annotated[bool, typer.Option("--replace", help="Objects take the place of those with their id.")] = False,
    new_ids: Annotated[bool, typer.Option("--new-ids", help="Give every object an id of its own.")] = False,
    token: Annotated[str, typer.Option(help="Authentication token of the older store.")] = "",
) -> int:
    """Make a graph of an exported file, or of a store of JiuwenMemory 0.1 or openjiuwen; --user says whose it is."""
    is_store = _is_store(place)
    if is_store and new_ids:
        raise InvalidInputError("A store is imported with its own ids; leave --new-ids out.")
    async with call.memory() as memory:
        with _bar(call) as on_progress:
            if is_store:
                store = await import_store(
                    memory, place, user_id=call.user, token=token, replace=replace, on_progress=on_progress
                )
                found = list(store.users.values())
            else:
                found = [
                    await import_graph(
                        memory, place, user_id=call.user, replace=replace, new_ids=new_ids, on_progress=on_progress
                    )
                ]
    lines = [
        f"{each.user_id}: {each.added} added, {each.replaced} replaced, {each.unchanged} unchanged" for each in found
    ]
    for warning in (warning for each in found for warning in each.warnings):
        call.note(warning, "yellow")
    call.show(found, Text(plain("\n".join(lines) or "There was nothing to import.")))
    return OK


def _is_store(place: str) -> bool:
    """Tell whether a place is a store: a URI, or the folder that Milvus Lite keeps one in."""
    return "://" in place or home_path(place).is_dir()


@contextmanager
def _bar(call: Call) -> Iterator[Callable[[reports.Progress], None]]:
    """Show a bar, and lend what moves it on."""
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("objects"))
    with Progress(*columns, console=call.notes, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("", total=None)
        yield lambda progress: bar.update(task, completed=progress.done, total=progress.total)
