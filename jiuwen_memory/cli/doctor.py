"""`doctor`: what works and what does not, each part looked at by itself. Asks every service one small question."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from rich.text import Text

from jiuwen_memory.cli.calls import FAILED, OK, Call, command, one_line, plain
from jiuwen_memory.errors import (
    InvalidInputError,
    JiuwenMemoryError,
    PromptFilesMissingError,
    SchemaMismatchError,
    SetupError,
)
from jiuwen_memory.foundation.locks import InProcessLocks
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS
from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.foundation.store.graph.factory import GraphStoreFactory
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.integrations.ontology_section import OntologySection
from jiuwen_memory.integrations.profile import (
    Profile,
    make_embedder,
    make_locks,
    make_model,
    make_reranker,
    make_store_config,
    profile_path,
)
from jiuwen_memory.memory_core.graph.extraction.ontology import make_ontology
from jiuwen_memory.memory_core.graph.extraction.prompt_check import check_prompts

Status = Literal["ok", "failed", "skipped"]
STYLES: Final[dict[Status, str]] = {"ok": "green", "failed": "red", "skipped": "yellow"}
LIBRARIES: Final = ("jiuwen-graph-memory", "pymilvus", "milvus-lite", "openai", "mcp", "redis")
SHOWN_SECONDS: Final = 0.05
"""What took less is not worth a figure."""
SAMPLE: Final = "Which dimension has this text?"


@dataclass(frozen=True)
class Finding:
    """What came of one check; of a failed one, what to do about it too."""

    check: str
    status: Status
    told: str
    seconds: float = 0.0


class Skipped(Exception):
    """There is nothing to check, or something else has to work first."""


@command("doctor")
async def doctor(call: Call) -> int:
    """Check versions, configuration, model, embedder, reranker, store, dimension, locks and prompts, each by itself."""
    findings = [await _looked("versions", _versions)]
    try:
        profile, user = call.profile, call.user_id
    except (InvalidInputError, SetupError) as error:
        findings.append(Finding("configuration", "failed", one_line(error.message)))
    else:
        path = profile_path(call.config)
        place = str(path) if path.is_file() else f"defaults, for there is no {path}"
        told = f"{place}; user {user}, language {profile.language}"
        findings.append(Finding("configuration", "ok", told))
        findings += await Examination(profile, user).results()
    if call.as_json:
        call.show_json(findings)
    else:
        call.out.print(_pictured(findings), soft_wrap=True)
    return FAILED if any(each.status == "failed" for each in findings) else OK


class Examination:
    """The checks of a profile's parts, in order; the store is looked at with the dimension that was found."""

    def __init__(self, profile: Profile, user_id: str) -> None:
        self._profile = profile
        self._user_id = user_id
        self._dimension: int | None = None
        self._mismatch: SchemaMismatchError | None = None

    async def results(self) -> list[Finding]:
        """Return what every check found; none keeps another from being done."""
        checks = {
            "model": self._model,
            "embedder": self._embedder,
            "reranker": self._reranker,
            "store": self._store,
            "dimension": self._dimensions,
            "lock": self._lock,
            "prompts": self._prompts,
        }
        if self._profile.ontology != OntologySection():
            checks["ontology"] = self._ontology
        return [await _looked(name, check) for name, check in checks.items()]

    async def _model(self) -> str:
        model = make_model(self._profile)
        async with model:
            reply = await model.invoke("Answer with the word yes.")
        place = f"{model.model_config.model_name} at {model.model_client_config.api_base}"
        return f"{place} answers {one_line(reply.content, 40)!r}"

    async def _embedder(self) -> str:
        embedder = make_embedder(self._profile)
        self._dimension = embedder.dimension
        async with embedder:
            self._dimension = len(await embedder.embed_query(SAMPLE))
        return f"{embedder.model_name} gives vectors of {self._dimension} numbers"

    async def _reranker(self) -> str:
        reranker = make_reranker(self._profile)
        if reranker is None:
            raise Skipped("not configured; you can do without one")
        async with reranker:
            await reranker.rerank("Who keeps bees?", ["Ann keeps bees."])
        return "answers"

    async def _store(self) -> str:
        config = self._store_config()
        store = GraphStoreFactory.from_config(config)
        user = filter_user(self._user_id)
        try:
            async with AsyncExitStack() as stack:
                stack.push_async_callback(store.close)
                await store.open()
                counts = [await store.count(collection, user=user) for collection in GRAPH_COLLECTIONS]
        except SchemaMismatchError as error:
            self._mismatch = error
            raise
        entities, relations, episodes = counts
        counted = f"{entities} entities, {relations} relations, {episodes} episodes of this user"
        return f"{_shown(config.uri)} opens; {counted}"

    def _store_config(self) -> GraphConfig:
        dimension = self._dimension or self._profile.store.get("embed_dim")
        if dimension is None:
            # A store that is made with a guess would have to be thrown away.
            raise Skipped("not opened: the length of its vectors is known once the embedder answers")
        return make_store_config(self._profile, dimension=dimension)

    async def _dimensions(self) -> str:
        if self._dimension is None:
            raise Skipped("unknown: the embedder does not answer")
        if self._mismatch is not None:
            raise self._mismatch
        stated = self._profile.store.get("embed_dim", self._dimension)
        if stated != self._dimension:
            raise SetupError(
                f"[store] says embed_dim = {stated}, but the embedder's vectors have {self._dimension} numbers. "
                "Leave embed_dim out, or name the embedder that the store was made with."
            )
        return f"{self._dimension}, in the embedder and in the store"

    async def _lock(self) -> str:
        locks = make_locks(self._profile)
        async with (locks or InProcessLocks()).hold("doctor", self._user_id) as lease:
            await lease.confirm()
        where = "in this process alone; [locks] redis lets several write" if locks is None else "through Redis"
        return f"taken and released, {where}"

    async def _prompts(self) -> str:
        folder = self._profile.prompts
        if folder is None:
            raise Skipped("no folder of your own is configured; the built-in ones are used")
        if wrong := [str(each) for each in check_prompts(folder) if each.is_error]:
            raise PromptFilesMissingError("; ".join(wrong))
        return f"{folder} can be used"

    async def _ontology(self) -> str:
        own = make_ontology(self._profile.ontology.own_types(), GraphStoreStorageConfig())
        return f"can be used: {', '.join(own.own_names) or 'no types'}"


def _shown(uri: str) -> str:
    """Return a path as seen from here, if it lies below."""
    here = Path.cwd()
    return str(Path(uri).relative_to(here)) if Path(uri).is_relative_to(here) else uri


async def _versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for name in LIBRARIES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


async def _looked(name: str, check: Callable[[], Awaitable[str]]) -> Finding:
    started = time.monotonic()
    try:
        found = Finding(name, "ok", await check())
    except Skipped as reason:
        found = Finding(name, "skipped", str(reason))
    except JiuwenMemoryError as error:
        found = Finding(name, "failed", one_line(error.message))
    return replace(found, seconds=round(time.monotonic() - started, 3))


def _pictured(findings: list[Finding]) -> Text:
    picture = Text()
    for each in findings:
        took = f" ({each.seconds:.1f} s)" if each.seconds >= SHOWN_SECONDS else ""
        picture.append(f"{each.status:<8}", STYLES[each.status])
        picture.append(plain(f"{each.check:<14} {each.told}{took}\n"))
    failed = sum(each.status == "failed" for each in findings)
    picture.append(f"{failed} of {len(findings)} checks failed." if failed else "All checks passed.")
    return picture
