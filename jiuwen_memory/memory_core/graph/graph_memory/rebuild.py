"""Reads stored episodes again, one at a time. Reads the store, asks the model, and writes through `commit.py`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from jiuwen_memory.errors import JiuwenMemoryError
from jiuwen_memory.foundation.concurrency import off_loop, tell
from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.graph_object import Episode
from jiuwen_memory.foundation.text import normalise_name
from jiuwen_memory.foundation.timepoint import Timepoint
from jiuwen_memory.memory_core.config.graph import EpisodeType
from jiuwen_memory.memory_core.graph.extraction.attributes import value_schemas
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import AIEntity, HumanEntity, RelationDef
from jiuwen_memory.memory_core.graph.extraction.ontology import Ontology
from jiuwen_memory.memory_core.graph.extraction.prompts import LANGUAGES, QUESTIONS, PromptLibrary
from jiuwen_memory.memory_core.graph.extraction.usage import Usage
from jiuwen_memory.memory_core.graph.extraction.values import Mention
from jiuwen_memory.memory_core.graph.graph_memory.audit import Confirm
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_update
from jiuwen_memory.memory_core.graph.graph_memory.deletions import Graph
from jiuwen_memory.memory_core.graph.graph_memory.forget import recall_graph
from jiuwen_memory.memory_core.graph.graph_memory.overlay import OverlaidStore
from jiuwen_memory.memory_core.graph.graph_memory.pipeline import plan_addition
from jiuwen_memory.memory_core.graph.graph_memory.requests import AddRequest
from jiuwen_memory.memory_core.graph.graph_memory.services import Services
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate
from jiuwen_memory.memory_core.graph.graph_memory.withdrawing import (
    REBUILD,
    resolve_cleared,
    resolve_retold,
    resolve_withdrawal,
)

ASSISTANTS: Final = frozenset({"assistant", "ai"})
"""Names by which a speaker is taken for an assistant where the graph does not say."""


@dataclass(frozen=True)
class RebuildProgress:
    """How far `rebuild` is. `done` counts every episode that was looked at; `failed` and `kept` are among them.

    `kept` were read by this rebuild before, or deleted meanwhile.
    """

    total: int
    done: int = 0
    failed: int = 0
    kept: int = 0
    usage: Usage = field(default_factory=Usage)

    def __str__(self) -> str:
        usage = self.usage
        return (
            f"{self.done}/{self.total} ({self.failed} failed, {self.kept} read before), "
            f"{usage.calls + usage.reasked} calls, {usage.input_tokens} + {usage.output_tokens} tokens"
        )


@dataclass(frozen=True)
class RebuildReport:
    """What `rebuild` did: the sum of it, the error of each episode that keeps its old facts, and all warnings."""

    progress: RebuildProgress
    failed: Mapping[str, JiuwenMemoryError] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """What became of one episode: the change, or the error; neither if there was nothing to do."""

    update: GraphMemUpdate | None = None
    error: JiuwenMemoryError | None = None
    usage: Usage = field(default_factory=Usage)


OnRebuild = Callable[[RebuildProgress], Awaitable[None] | None]
ReadAgain = Callable[[str], Awaitable[Reading]]


async def rebuild_episodes(uuids: Iterable[str], *, read: ReadAgain, on_progress: OnRebuild | None) -> RebuildReport:
    """Read episodes again in this order, and report; one that fails does not keep the others from being read."""
    listed = list(uuids)
    progress = RebuildProgress(total=len(listed))
    failed: dict[str, JiuwenMemoryError] = {}
    warnings: list[str] = []
    for uuid in listed:
        reading = await read(uuid)
        if reading.error is not None:
            failed[uuid] = reading.error
        if reading.update is not None:
            warnings += reading.update.warnings
        progress = replace(
            progress,
            done=progress.done + 1,
            failed=len(failed),
            kept=progress.kept + (reading.update is None and reading.error is None),
            usage=progress.usage + reading.usage,
        )
        await tell(on_progress, progress)
    return RebuildReport(progress, failed, tuple(warnings))


async def recall_verbatim(user_id: str, store: GraphStore) -> list[Episode]:
    """Return a user's episodes that hold an input as it was, in the order of their time."""
    graph, _ = await recall_graph(user_id, store)
    return resolve_verbatim(graph)


def resolve_verbatim(graph: Graph) -> list[Episode]:
    """Return the episodes that hold an input as it was, in the order of their time."""
    verbatim = [each for each in graph.episodes.values() if each.obj_type in EpisodeType.__members__]
    return sorted(verbatim, key=lambda each: (_said(each), each.created_at, each.part, each.uuid))


def _said(episode: Episode) -> int:
    return episode.created_at if episode.valid_since is None else episode.valid_since


def is_read(episode: Episode, run: str) -> bool:
    """Tell whether an episode was read by this rebuild."""
    return _mark(episode).get("run") == run and _mark(episode).get("done") is True


def is_cleared(episode: Episode, run: str) -> bool:
    """Tell whether the facts of an episode were cleared away by this rebuild, and it was not read since."""
    return _mark(episode).get("run") == run and _mark(episode).get("done") is False


def _mark(episode: Episode) -> Mapping[str, JsonValue]:
    mark = episode.extra.get(REBUILD)
    return mark if isinstance(mark, dict) else {}


async def read_again(
    uuid: str, run: str, *, user_id: str, services: Services, confirm: Confirm
) -> GraphMemUpdate | None:
    """Put what an episode says now in place of what was learnt from it, in one write; None if there is nothing to do.

    Call it under the user's lock. Before the write nothing has changed, whatever fails.
    """
    graph, _ = await recall_graph(user_id, services.store)
    episode = graph.episodes.get(uuid)
    if episode is None or is_read(episode, run):
        return None
    storage = services.storage
    withdrawal = await off_loop(None, resolve_withdrawal, graph, uuid, storage=storage, strategy=services.strategy)
    # The links between episodes stay as they are: read anew, parts of one input would change places.
    strategy = services.strategy.model_copy(update={"temporal_spine": False})
    store = OverlaidStore(services.store, withdrawal.update)
    view = replace(services, store=store, strategy=strategy, retold=withdrawal.retold)
    speakers = _speakers(episode, graph)
    planned = await plan_addition(resolve_request(episode, speakers), view)
    ledger = services.asker.ledger
    mark = {"run": run, "done": True, "speakers": _as_json(speakers)}
    update = resolve_retold(withdrawal, planned, mark=mark)
    stored = await commit_update(update, user_id, store=services.store, embedder=services.embedder, confirm=confirm)
    return replace(stored, warnings=[*ledger.warnings, *stored.warnings], usage=ledger.usage)


async def clear_derived(run: str, *, user_id: str, services: Services, confirm: Confirm) -> None:
    """Remove all that was made of a user's episodes, in one write, unless this rebuild did so and is under way.

    Call it under the user's lock.
    """
    graph, _ = await recall_graph(user_id, services.store)
    verbatim = resolve_verbatim(graph)
    if any(is_cleared(each, run) for each in verbatim):
        return
    marks = {each.uuid: {"run": run, "done": False, "speakers": _as_json(_speakers(each, graph))} for each in verbatim}
    update = resolve_cleared(graph, marks)
    await commit_update(update, user_id, store=services.store, embedder=services.embedder, confirm=confirm)


def resolve_request(episode: Episode, speakers: tuple[Mention, ...]) -> AddRequest:
    """Return the input that an episode was stored for."""
    said = Timepoint(_said(episode), episode.offset_since, "second")
    return AddRequest(
        user_id=episode.user_id,
        kind=EpisodeType[episode.obj_type],
        text=episode.content,
        speakers=speakers,
        reference_time=datetime.fromisoformat(said.iso()),
        reference=said,
        is_repeatable=False,
        session_id=episode.session_id,
        source=episode.source,
        idempotency_key=episode.idempotency_key,
        group=episode.group,
        part=episode.part,
        parts=episode.parts,
    )


def _speakers(episode: Episode, graph: Graph) -> tuple[Mention, ...]:
    """Return who speaks in an episode. It keeps their names; whether they are people is told by what it led to."""
    kept = _mark(episode).get("speakers")
    types = dict.fromkeys(map(normalise_name, ASSISTANTS), AIEntity.name)
    types |= {each.name_norm: each.obj_type for each in graph.entities.values()}
    if isinstance(kept, dict):
        types |= {normalise_name(name): str(kind) for name, kind in kept.items()}
    return tuple(
        Mention(name, AIEntity.name if types.get(normalise_name(name)) == AIEntity.name else HumanEntity.name)
        for name in episode.speakers
    )


def _as_json(speakers: tuple[Mention, ...]) -> dict[str, JsonValue]:
    return {each.name: each.type_name for each in speakers}


async def resolve_run(name: str, *, services: Services, prompts: PromptLibrary) -> str:
    """Return what marks a rebuild: its name, and everything of which another answer may come."""
    sources = await off_loop(None, _sources, prompts)
    settings = [name, services.strategy.model_dump_json(), services.language, _types(services.ontology), *sources]
    return hashlib.sha256(json.dumps(settings, ensure_ascii=False).encode()).hexdigest()[:24]


def _types(ontology: Ontology) -> list[object]:
    """Return all that a model is told of the types, in either language, and what it may answer."""
    told: list[object] = [ontology.closed_entities, ontology.closed_relations]
    for kind in (*ontology.entity_types, *ontology.relation_types):
        ends = kind.ends() if issubclass(kind, RelationDef) else ()
        told += [kind.name, *ends]
        for language in LANGUAGES:
            told += [kind.wording(language), kind.fields(language), value_schemas(kind, language)]
    return told


def _sources(prompts: PromptLibrary) -> list[str]:
    return [prompts.source(question, language) for language in LANGUAGES for question in QUESTIONS]
