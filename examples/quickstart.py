"""Remember a conversation and a document, see what was learnt, and ask about it.

    python examples/quickstart.py             the texts below
    python examples/quickstart.py FILE...     your own files; then it answers what you type

With OPENAI_API_KEY or OPENAI_BASE_URL set, that endpoint is the model (OPENAI_MODEL names it). Without one, replies
written for the texts below play the model; pipeline, store and search are the same. The embeddings are computed in this
process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from scripted_replies import quickstart_model
from showing import period, sentence

from jiuwen_memory import (
    ENTITY_COLLECTION,
    RELATION_COLLECTION,
    AddMemStrategy,
    Entity,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    GraphMemUpdate,
    LocalEmbedding,
    Model,
    Relation,
    SearchConfig,
    WeightedRankConfig,
)
from jiuwen_memory.errors import JiuwenMemoryError

USER = "marta"
ROLES = {"user": "Marta", "assistant": "Helper"}
CONVERSATION = [
    {"role": "user", "content": "I started at Solvane Robotics in Turin on Monday. Giulia Ferrero hired me."},
    {"role": "assistant", "content": "Congratulations! What did you do before?"},
    {"role": "user", "content": "I was at Medtrix from March 2021 until April 2026, writing firmware for pumps."},
]
DOCUMENT = (
    "Solvane Robotics builds warehouse robots. Giulia Ferrero founded the company in 2019. "
    "Its first customer is Porto Vecchio, a port operator in Genoa."
)
SAID_AT = datetime(2026, 5, 8, 9, 30, tzinfo=UTC)
QUESTIONS = (
    "Who hired Marta?",
    "Where did Marta work before?",
    "Which port is a customer of the robot maker?",
)
NEXT = """
To have your own texts read, set OPENAI_API_KEY and name them:
  .venv/bin/python examples/quickstart.py FILE..."""
# Scores from 0 to 1, so that a threshold keeps out what only happens to be nearest.
ANSWERS = SearchConfig(top_k=3, min_score=0.5, rank_config=WeightedRankConfig())


@dataclass(frozen=True)
class Input:
    """One thing to remember; `said_at` is when it was said, and what "on Monday" counts from (None: now)."""

    title: str
    kind: EpisodeType
    content: list[dict[str, str]] | str
    roles: dict[str, str] | None = None
    said_at: datetime | None = None


OWN_TEXTS = (
    Input("a conversation", EpisodeType.CONVERSATION, CONVERSATION, ROLES, SAID_AT),
    Input("a document", EpisodeType.DOCUMENT, DOCUMENT, None, SAID_AT),
)


async def main(files: Sequence[str]) -> None:
    """Set the memory up, fill it, show it, ask it."""
    console = Console(highlight=False)
    has_endpoint = bool(os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"))
    if files and not has_endpoint:
        sys.exit("Reading your own files needs a model: set OPENAI_API_KEY or OPENAI_BASE_URL.")
    inputs = read_files(files) if files else OWN_TEXTS
    async with AsyncExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory())
        model = await opened.enter_async_context(Model()) if has_endpoint else None
        console.print(described(model), markup=False)
        if not files:
            show_texts(console)
        embedding = await opened.enter_async_context(LocalEmbedding())
        config = GraphConfig(uri=str(Path(folder) / "memory.db"), embedding_model=embedding)
        strategy = AddMemStrategy(chinese_entity=False)
        memory = await opened.enter_async_context(
            GraphMemory(config, model or quickstart_model(), extraction_strategy=strategy, language="en")
        )
        memory.register_search_strategy("answers", search_relation=ANSWERS)
        await remember_and_show(memory, inputs, console)
        if files:
            await answer_typed(memory, console)
        else:
            for question in QUESTIONS:
                await answer(memory, question, console)
            console.print(NEXT, style="dim")


def described(model: Model | None) -> str:
    """Return a line that says who plays the model."""
    if model is None:
        return "No endpoint is set: scripted replies stand in for the model, the rest is real."
    return f"Model: {model.model_config.model_name} at {model.model_client_config.api_base}"


def read_files(names: Sequence[str]) -> list[Input]:
    """Return files as inputs: a JSON list of messages as a conversation, other JSON as JSON, the rest as documents."""
    inputs = []
    for name in names:
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            sys.exit(f"{name} cannot be read as text: {error}")
        if not text.strip():
            sys.exit(f"{name} is empty.")
        kind: EpisodeType = EpisodeType.DOCUMENT
        content: list[dict[str, str]] | str = text
        if name.endswith(".json"):
            kind = EpisodeType.JSON
            try:
                value = json.loads(text)
            except ValueError as error:
                sys.exit(f"{name} is not valid JSON: {error}")
            if isinstance(value, list) and value and all(isinstance(each, dict) and "role" in each for each in value):
                kind, content = EpisodeType.CONVERSATION, value
        inputs.append(Input(name, kind, content))
    return inputs


def show_texts(console: Console) -> None:
    """Print what will be remembered."""
    console.print(f"\nWhat is said, on {SAID_AT:%A, %d %B %Y}:", style="bold")
    for message in CONVERSATION:
        console.print(f"  {ROLES[message['role']]}: {message['content']}", markup=False)
    console.print(f"  (document) {DOCUMENT}\n", markup=False)


async def remember(memory: GraphMemory, given: Input, console: Console) -> None:
    """Add one input, and print its cost and what could not be used of it."""
    begun = time.perf_counter()
    with progress(f"Remembering {given.title} …", console):
        update = await memory.add_memory(
            src_type=given.kind,
            user_id=USER,
            content=given.content,
            content_fmt_kwargs=given.roles,
            reference_time=given.said_at,
            source=given.title,
        )
    report(given.title, update, seconds=time.perf_counter() - begun, console=console)


@contextmanager
def progress(text: str, console: Console) -> Iterator[None]:
    """Show that something is going on: moving in a terminal, one line elsewhere."""
    if not console.is_terminal:
        console.print(text, markup=False)
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        shown.add_task(text)
        yield


def report(title: str, update: GraphMemUpdate, *, seconds: float, console: Console) -> None:
    """Print what one input added, and what that took."""
    usage = update.usage
    console.print(
        f"Remembered {title}; new entities: {len(update.added_entity)}, new facts: {len(update.added_relation)}",
        markup=False,
    )
    console.print(
        f"  {usage.calls} model calls in {usage.rounds} rounds, "
        f"about {usage.input_tokens} + {usage.output_tokens} tokens, {seconds:.1f} s",
        style="dim",
    )
    for warning in update.warnings:
        console.print(f"  note: {warning}", markup=False, style="dim")


async def remember_and_show(memory: GraphMemory, inputs: Sequence[Input], console: Console) -> None:
    """Add the inputs one by one, and print what the memory holds then."""
    for each in inputs:
        await remember(memory, each, console)
    await show(memory, console)


async def show(memory: GraphMemory, console: Console) -> None:
    """Print the entities and the facts between them."""
    names: dict[str, str] = {}
    entities = Table("Entity", "Type", "Summary", title="\nEntities", title_justify="left", box=box.SIMPLE_HEAD)
    async for each in memory.objects(ENTITY_COLLECTION, USER):
        if isinstance(each, Entity):
            names[each.uuid] = each.name
            entities.add_row(each.name, each.obj_type, each.content)
    facts = Table("From", "Relation", "To", "Since", "Until", title="Facts", title_justify="left", box=box.SIMPLE_HEAD)
    async for each in memory.objects(RELATION_COLLECTION, USER):
        if isinstance(each, Relation):
            facts.add_row(names.get(each.lhs, ""), each.name, names.get(each.rhs, ""), *period(each))
    console.print(entities, facts)


async def answer(memory: GraphMemory, question: str, console: Console) -> None:
    """Print the best facts for a question; facts that no longer hold come last, with their time."""
    found = await memory.search(question, USER, "answers", entity=False, episode=False)
    console.print(question, style="bold")
    for score, fact in found[RELATION_COLLECTION]:
        if isinstance(fact, Relation):
            console.print(f"  {score:.2f}  {sentence(fact)}", markup=False)
    if not found[RELATION_COLLECTION]:
        console.print("  Nothing in the memory is near enough.")


async def answer_typed(memory: GraphMemory, console: Console) -> None:
    """Answer what is typed until an empty line."""
    console.print("Ask something (an empty line ends):")
    while question := (await asyncio.to_thread(sys.stdin.readline)).strip():
        await answer(memory, question, console)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1:]))
    except JiuwenMemoryError as error:
        sys.exit(str(error))
