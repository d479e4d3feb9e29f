"""Remember a conversation and a document, see what was learnt, and ask about it.

    python examples/quickstart.py             the texts below
    python examples/quickstart.py FILE...     your own files; then it answers what you type

With OPENAI_API_KEY or OPENAI_BASE_URL set, that endpoint is the model and the embedder (JIUWEN_MEMORY_MODEL and
JIUWEN_MEMORY_EMBEDDING_MODEL name them). Without, the model's part is played by replies written for the texts below, and
the embeddings come from a small encoder in this process; pipeline, store and search are the same.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from scripted_replies import scripted_model

from jiuwen_memory import (
    ENTITY_COLLECTION,
    RELATION_COLLECTION,
    AddMemStrategy,
    APIEmbedding,
    EmbeddingConfig,
    Entity,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    GraphMemUpdate,
    LocalEmbedding,
    Model,
    Relation,
)
from jiuwen_memory.foundation.timepoint import format_seconds

USER = "marta"
QUESTIONS = (
    "Who hired Marta?",
    "Where did Marta work before?",
    "Which port is a customer of the robot maker?",
)
ROLES = {"user": "Marta", "assistant": "Helper"}
CONVERSATION = [
    {"role": "user", "content": "I started at Solvane Robotics in Turin last Monday. Giulia Ferrero hired me."},
    {"role": "assistant", "content": "Congratulations! What did you do before?"},
    {"role": "user", "content": "I was at Medtrix from March 2021 until April 2026, writing firmware for pumps."},
]
DOCUMENT = (
    "Solvane Robotics builds warehouse robots. Giulia Ferrero founded the company in 2019. "
    "Its first customer is Porto Vecchio, a port operator in Genoa."
)
SAID_AT = datetime(2026, 5, 8, 9, 30, tzinfo=UTC)


@dataclass(frozen=True)
class Input:
    """One thing to remember."""

    title: str
    kind: EpisodeType
    content: list[dict[str, str]] | str


async def main(files: Sequence[str]) -> None:
    """Set the memory up, fill it, show it, ask it."""
    console = Console()
    has_endpoint = bool(os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"))
    if files and not has_endpoint:
        console.print("Reading your own files needs a model: set OPENAI_API_KEY or OPENAI_BASE_URL.")
        return
    console.print(
        "Model and embeddings: the endpoint from the environment."
        if has_endpoint
        else "No endpoint is set: scripted replies stand in for the model; embeddings, store and search are real."
    )
    embedding = APIEmbedding(config=EmbeddingConfig()) if has_endpoint else LocalEmbedding()
    dimension = len(await embedding.embed_query("How long is a vector?"))
    with tempfile.TemporaryDirectory() as folder:
        config = GraphConfig(uri=str(Path(folder) / "memory.db"), embed_dim=dimension, embedding_model=embedding)
        model = Model() if has_endpoint else scripted_model()
        strategy = AddMemStrategy(chinese_entity=False)
        async with GraphMemory(config, model, extraction_strategy=strategy, language="en") as memory:
            await remember(memory, read_files(files) if files else own_texts(), console)
            await show(memory, console)
            if files:
                await answer_typed(memory, console)
            else:
                await answer(memory, QUESTIONS, console)


def own_texts() -> list[Input]:
    """Return the conversation and the document of this example."""
    return [
        Input("a conversation", EpisodeType.CONVERSATION, CONVERSATION),
        Input("a document", EpisodeType.DOCUMENT, DOCUMENT),
    ]


def read_files(names: Sequence[str]) -> list[Input]:
    """Return files as inputs: a JSON list of messages as a conversation, other JSON as JSON, the rest as documents."""
    inputs = []
    for name in names:
        text = Path(name).read_text(encoding="utf-8")
        kind, content = EpisodeType.DOCUMENT, text
        if name.endswith(".json"):
            value = json.loads(text)
            kind = EpisodeType.JSON
            if isinstance(value, list) and all(isinstance(each, dict) and "role" in each for each in value):
                kind, content = EpisodeType.CONVERSATION, value
        inputs.append(Input(name, kind, content))
    return inputs


async def remember(memory: GraphMemory, inputs: Sequence[Input], console: Console) -> None:
    """Add each input, with its cost and what could not be used."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    for each in inputs:
        is_own = each.content is CONVERSATION
        begun = time.perf_counter()
        with Progress(*columns, console=console, transient=True) as progress:
            progress.add_task(f"Remembering {each.title}: entities, relations, summaries …")
            update = await memory.add_memory(
                src_type=each.kind,
                user_id=USER,
                content=each.content,
                content_fmt_kwargs=ROLES if is_own else None,
                reference_time=SAID_AT if is_own or each.content == DOCUMENT else None,
                source=each.title,
            )
        console.print(report(each.title, update, time.perf_counter() - begun))
        for warning in update.warnings:
            console.print(f"  note: {warning}", markup=False, style="dim")


def report(title: str, update: GraphMemUpdate, seconds: float) -> str:
    """Return one line about an add."""
    usage = update.usage
    return (
        f"Remembered {title}: {len(update.added_entity)} new entities, {len(update.added_relation)} new facts, "
        f"{usage.calls} model calls in {usage.rounds} rounds, "
        f"{usage.input_tokens} + {usage.output_tokens} tokens, {seconds:.1f} s"
    )


async def show(memory: GraphMemory, console: Console) -> None:
    """Print the entities and the facts."""
    names: dict[str, str] = {}
    entities = Table("Entity", "Type", "Summary", title="What was learnt")
    async for each in memory.objects(ENTITY_COLLECTION, USER):
        if isinstance(each, Entity):
            names[each.uuid] = each.name
            entities.add_row(each.name, each.obj_type, each.content)
    relations = Table("From", "Fact", "To", "Since", "Until")
    async for each in memory.objects(RELATION_COLLECTION, USER):
        if isinstance(each, Relation):
            relations.add_row(names.get(each.lhs, ""), each.content, names.get(each.rhs, ""), *period(each))
    console.print(entities, relations)


def period(relation: Relation) -> tuple[str, str]:
    """Return since when and until when a fact holds, as far as is known."""
    since = until = ""
    if relation.valid_since is not None:
        since = format_seconds(relation.valid_since, relation.offset_since, relation.precision_since or "second")
    if relation.valid_until is not None:
        until = format_seconds(relation.valid_until, relation.offset_until, relation.precision_until or "second")
    return since, until


async def answer(memory: GraphMemory, questions: Sequence[str], console: Console) -> None:
    """Print the best facts for each question."""
    for question in questions:
        found = await memory.search(question, USER, entity=False, episode=False)
        console.print(f"\n{question}", style="bold")
        for score, fact in found[RELATION_COLLECTION]:
            console.print(f"  {score:.3f}  {fact.content}", markup=False)


async def answer_typed(memory: GraphMemory, console: Console) -> None:
    """Answer what is typed until an empty line."""
    console.print("\nAsk something (an empty line ends):")
    while question := (await asyncio.to_thread(sys.stdin.readline)).strip():
        await answer(memory, [question], console)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
