"""Graphs to measure on: Milvus Lite, on disk or behind its server, empty or filled straight through the store.

Touches a folder or the server.

A filled graph of N entities has N relations, N / 10 episodes, one speaker, and twins for texts that merge entities.
Beside it lie the rows of 99 other users, a hundredth of it each.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

from jiuwen_memory import (
    AddMemStrategy,
    Entity,
    Episode,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    GraphStore,
    LocalEmbedding,
    Relation,
)
from jiuwen_memory.foundation.llm import ChatModel
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.graph_memory.commit import embedding_key
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate
from tests.benchmarks.fakes import DIM, MarkedModel, WordEmbedder
from tests.benchmarks.texts import (
    SPEAKER,
    TWINS,
    USER_ID,
    Case,
    fact,
    name,
    partner,
    summary_of,
    twin_names,
    verb,
    words,
)
from tests.stores import LiteServer

BATCH = 500
OTHERS = 99
SPEAKER_RELATIONS = 10
STARTED_AT = 1_700_000_000
REFERENCES_KEPT = 100
"""Relations listed at the speaker of a hub; as many as the list holds, or fewer."""


class World:
    """An opened memory with its model and embedder."""

    def __init__(
        self, memory: GraphMemory, model: MarkedModel, embedder: WordEmbedder, *, server: int | None = None
    ) -> None:
        self.memory = memory
        self.model = model
        self.embedder = embedder
        self.server = server

    async def add(self, case: Case, *, user: str = USER_ID, answered: bool = False) -> GraphMemUpdate:
        """Add a case's conversation."""
        messages = case.answered() if answered else case.messages()
        return await self.memory.add_memory(EpisodeType.CONVERSATION, user, messages)


def make_memory(
    uri: str, model: ChatModel, embedder: WordEmbedder, *, name: str = "", language: Language = "en"
) -> GraphMemory:
    """Return a memory on a store, asked in one language throughout; `name` is the database on a server."""
    strategy = AddMemStrategy(chinese_entity=language == "cn")
    config = GraphConfig(uri=uri, name=name, embed_dim=DIM, timeout=120.0)
    memory = GraphMemory(config, model, extraction_strategy=strategy, language=language)
    memory.attach_embedder(embedder)
    return memory


class Worlds:
    """Keeps the filled graphs of a run, each filled once: in one folder, or each in a database of a server."""

    def __init__(self, folder: Path, server: LiteServer | None = None) -> None:
        self._folder = folder
        self._server = server
        self._fresh = 0
        self._filled: set[str] = set()

    @asynccontextmanager
    async def open(
        self,
        size: int = 0,
        *,
        degree: int = SPEAKER_RELATIONS,
        label: str = "times",
        model: MarkedModel | None = None,
        language: Language = "en",
    ) -> AsyncIterator[World]:
        """Open the graph of that many entities, whose speaker has `degree` relations; an empty one is always new.

        What is added stays: lines that would disturb each other use graphs of different labels.
        """
        place = f"{label}_{size}_{degree}"
        if not size:
            self._fresh += 1
            place = f"empty_{self._fresh}"
        model = model or MarkedModel()
        world = self._make(place, model, language)
        embedder = world.embedder
        async with world.memory:
            if size and place not in self._filled:
                print(f"  filling a graph of {size} entities, {degree} relations at the speaker ...", flush=True)
                await fill(world.memory.db_backend, embedder, size=size, degree=degree)
                self._filled.add(place)
            embedder.calls, embedder.texts, embedder.cpu = 0, 0, 0.0
            yield world

    def _make(self, place: str, model: MarkedModel, language: Language) -> World:
        embedder = WordEmbedder()
        if self._server is None:
            uri = str(self._folder / f"{place}.db")
            return World(make_memory(uri, model, embedder, language=language), model, embedder)
        memory = make_memory(self._server.uri, model, embedder, name=place, language=language)
        return World(memory, model, embedder, server=self._server.pid)


async def fill(store: GraphStore, embedder: WordEmbedder | LocalEmbedding, *, size: int, degree: int) -> None:
    """Write a graph straight through the store, and the rows of others."""
    for make in (lambda: _entities(size, degree), lambda: _relations(size, degree), lambda: _episodes(size)):
        for batch in _batches(make()):
            await store.upsert(batch[0].collection, await _embedded(batch, embedder))
            await store.refresh()
        some = await _embedded(list(islice(make(), max(1, size // 100))), embedder)
        for batch in _batches(_of_others(some)):
            await store.upsert(batch[0].collection, batch)
            await store.refresh()


def _of_others(rows: Sequence[BaseGraphObject]) -> Iterator[BaseGraphObject]:
    """Return the rows once more for each of the others; they are in the way, and nobody follows their links."""
    for number in range(1, OTHERS + 1):
        for row in rows:
            yield row.revise(user_id=f"other {number}", uuid=f"{row.uuid[:2]}{number:02x}{row.uuid[4:]}")


async def _embedded(batch: Sequence[BaseGraphObject], embedder: WordEmbedder | LocalEmbedding) -> list[BaseGraphObject]:
    texts = [text for each in batch for text in each.embedded_texts().values()]
    vectors = iter(await embedder.embed_documents(texts))
    return [
        each.revise(
            embedding_key=embedding_key(each, embedder.model_name),
            **{column: next(vectors) for column in each.embedded_texts()},
        )
        for each in batch
    ]


def _batches(objects: Iterator[BaseGraphObject]) -> Iterator[Sequence[BaseGraphObject]]:
    batch: list[BaseGraphObject] = []
    for each in objects:
        batch.append(each)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _entities(size: int, degree: int) -> Iterator[Entity]:
    at_speaker = [_id("r", number) for number in range(min(degree, size))]
    yield _entity("s", 0, SPEAKER, obj_type="Human", relations=at_speaker[-REFERENCES_KEPT:])
    leading_to: dict[int, list[int]] = {}
    for number in range(size):
        leading_to.setdefault(partner(number, size), []).append(number)
    for number in range(size):
        incoming = leading_to.get(number, [])
        own = [number] if number >= degree else []
        yield _entity("e", number, name(number), relations=[_id("r", each) for each in (*own, *incoming)])
    for pair in range(TWINS):
        for place, twin in enumerate(twin_names(pair)):
            yield _entity("t", 2 * pair + place, twin, relations=[_id("u", 2 * pair + place)])


def _entity(kind: str, number: int, label: str, *, obj_type: str = "Entity", relations: list[str]) -> Entity:
    return Entity(
        uuid=_id(kind, number),
        user_id=USER_ID,
        language="en",
        name=label,
        obj_type=obj_type,
        content=summary_of((kind, number)),
        relations=relations,
        episodes=[_id("p", number // 10)],
        first_mentioned_at=STARTED_AT + number,
        last_mentioned_at=STARTED_AT + number,
    )


def _relations(size: int, degree: int) -> Iterator[Relation]:
    """The first `degree` relations begin at the speaker, the others at the entity of their number."""
    for number in range(size):
        lhs, source = (_id("s", 0), SPEAKER) if number < degree else (_id("e", number), name(number))
        other = partner(number, size)
        yield _relation("r", number, lhs, _id("e", other), said=fact(source, verb(number), name(other), number))
    for number in range(2 * TWINS):
        twin = twin_names(number // 2)[number % 2]
        yield _relation(
            "u", number, _id("t", number), _id("e", number), said=fact(twin, "owns", name(number), ("twin", number))
        )


def _relation(kind: str, number: int, lhs: str, rhs: str, *, said: str) -> Relation:
    return Relation(
        uuid=_id(kind, number),
        user_id=USER_ID,
        language="en",
        name=verb(number),
        content=said,
        lhs=lhs,
        rhs=rhs,
        lhs_origin=lhs,
        rhs_origin=rhs,
        episodes=[_id("p", number // 10)],
        valid_since=STARTED_AT + number if number % 2 else None,
        precision_since="day" if number % 2 else None,
        first_mentioned_at=STARTED_AT + number,
        last_mentioned_at=STARTED_AT + number,
    )


def _episodes(size: int) -> Iterator[Episode]:
    for number in range(max(1, size // 10)):
        yield Episode(
            uuid=_id("p", number),
            user_id=USER_ID,
            language="en",
            obj_type="CONVERSATION",
            content=f"{SPEAKER}: {words(('episode', number), 150)}.",
            valid_since=STARTED_AT + number,
            speakers=[SPEAKER],
            entities=[_id("e", each) for each in range(10 * number, min(size, 10 * number + 10))],
        )


def _id(kind: str, number: int) -> str:
    return f"{kind.encode().hex()}{number:030x}"


def queries(count: int, size: int, *, seed: int = 0) -> list[str]:
    """Return questions: the name of a stored entity, stop words, and a few words of the vocabulary."""
    source = random.Random(seed)
    return [
        f"Where did {name(source.randrange(max(1, size)))} go with the {words(('query', seed, number), 4)}?"
        for number in range(count)
    ]
