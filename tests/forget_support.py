"""Deleting from a graph memory in tests, and a model that reads small made-up worlds out of the prompts themselves."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from pydantic import BaseModel, Field, JsonValue

from jiuwen_memory import GraphMemory
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.memory_core.graph.graph_memory.forget import (
    DeletionServices,
    delete_before,
    delete_entities,
    delete_episodes,
    delete_relations,
    delete_user,
)
from jiuwen_memory.memory_core.graph.graph_memory.receipts import DeletionReceipt
from jiuwen_memory.testing import FakeLLM, FakePrompt, same_as, verdicts

Action = Callable[[DeletionServices], Awaitable[DeletionReceipt]]


class Eraser:
    """Deletes as `GraphMemory` does: under the user's lock, after the journal was replayed."""

    def __init__(self, memory: GraphMemory, *, user: str = "ann", with_model: bool = True) -> None:
        self.memory = memory
        self.user = user
        self.with_model = with_model

    async def episode(self, *uuids: str, whole_group: bool = False) -> DeletionReceipt:
        return await self._run(
            lambda services: delete_episodes(uuids, user_id=self.user, services=services, whole_group=whole_group)
        )

    async def entity(self, *uuids: str) -> DeletionReceipt:
        return await self._run(lambda services: delete_entities(uuids, user_id=self.user, services=services))

    async def relation(self, *uuids: str) -> DeletionReceipt:
        return await self._run(lambda services: delete_relations(uuids, user_id=self.user, services=services))

    async def before(self, time: datetime) -> DeletionReceipt:
        return await self._run(lambda services: delete_before(time, user_id=self.user, services=services))

    async def everything(self) -> DeletionReceipt:
        memory = self.memory
        async with memory._locks.hold(memory.db_backend.identity, self.user):
            return await delete_user(self.user, store=memory.db_backend)

    async def _run(self, action: Action) -> DeletionReceipt:
        memory = self.memory
        embedder = memory._embedder()
        async with memory._hold(self.user, embedder) as hold:
            return await action(
                DeletionServices(
                    store=memory.db_backend,
                    embedder=embedder,
                    strategy=memory.extraction_strategy,
                    language=memory.language,
                    ontology=memory.ontology,
                    asker=memory._asker(memory._model()) if self.with_model else None,
                    confirm=hold.lease.confirm,
                )
            )


async def raw_rows(memory: GraphMemory, user: str = "ann") -> list[str]:
    """Return every row of a user, journal included, with all its columns as text."""
    store = memory.db_backend
    rows = [
        json.dumps(each.to_row(), ensure_ascii=False, default=str)
        for name in GRAPH_COLLECTIONS
        for each in await store.query(name, user=filter_user(user), consistency="strong")
    ]
    return [*rows, *(entry.payload for entry in await store.journal.entries(user))]


class Person(BaseModel):
    """A person of the made-up worlds."""

    note: str = Field(default="", description="What was said last")


PEOPLE = ("Ada", "Bob", "Robert", "Cleo")
PLACES = ("Oslo", "Lima", "Acme")
VERBS = ("lives in", "lives in", "likes", "visited")
CHANGING = ("lives in",)
SENTENCE = re.compile(rf"((?:{'|'.join(PEOPLE)})(?: zq\w+)?) ({'|'.join(sorted(set(VERBS)))}) (\w+)([^.]*)\.")


def world_text(source: random.Random, canary: str) -> str:
    """Return what one episode of a made-up world says; the canary may be part of a name, a fact, or neither."""
    lines = []
    for _ in range(source.randint(2, 4)):
        person, verb = source.choice(PEOPLE), source.choice(VERBS)
        target = source.choice(PLACES if verb in CHANGING else (*PLACES, *PEOPLE))
        mark = source.choice((f" {canary}", "", ""))
        tail = source.choice(("", f", says {canary}", " these days"))
        lines.append(f"{person}{mark} {verb} {target}{tail}.")
    if source.random() < 0.3:
        lines.append("Bob is Robert.")
    lines.append(f"It was {canary}.")
    return " ".join(lines)


def _text(prompt: FakePrompt) -> str:
    return prompt.text.rsplit("<text>", 1)[-1].split("</text>")[0].strip()


def _named(prompt: FakePrompt) -> JsonValue:
    text = _text(prompt)
    names = dict.fromkeys(name for found in SENTENCE.finditer(text) for name in (found[1], found[3]))
    if "Bob is Robert" in text:
        names.update(dict.fromkeys(("Bob", "Robert")))
    kinds = {name: "Person" if name.split()[0] in PEOPLE else "Entity" for name in names}
    return {"entities": [{"name": name, "type": kind} for name, kind in kinds.items()]}


def _stated(prompt: FakePrompt) -> JsonValue:
    """State each sentence as a fact; the first one with a word of an earlier episode, as models do that read on."""
    history = prompt.text.rsplit("<text>", 1)[0].rsplit("<history>", 1)[-1]
    earlier = [f" ({word})" for word in re.findall(r"zq\w+", history)[:1]] if "</history>" in history else []
    found = list(SENTENCE.finditer(_text(prompt)))
    return {
        "relations": [
            {"fact": each[0].rstrip(".") + mark, "name": each[2], "source": each[1], "target": each[3]}
            for each, mark in zip(found, [*earlier, *[""] * len(found)], strict=False)
        ]
    }


def _judged_pair(prompt: FakePrompt) -> object:
    """Answer a question about one pair: whether both begin alike."""
    known, new = (side.replace("(", " ").split() for side in prompt.lines()[1].split("|", 1))
    is_conflict = "conflict" in json.dumps(prompt.schema)
    alike = known[:3] == new[:3] if is_conflict else known[0] == new[0]
    return {"1": ("conflict" if alike else "compatible") if is_conflict else ("same" if alike else "different")}


def _same_people(prompt: FakePrompt) -> object:
    if "1" in json.dumps(prompt.schema.get("required")):
        return _judged_pair(prompt)
    pairs: dict[str, Sequence[str]] = {name: [name] for name in (*PEOPLE, *PLACES)}
    if "Bob is Robert" in _text(prompt):
        pairs |= {"Bob": ["Bob", "Robert"], "Robert": ["Robert", "Bob"]}
    return same_as(pairs)(prompt)


def _judged(prompt: FakePrompt) -> object:
    if "1" in json.dumps(prompt.schema.get("required")):
        return _judged_pair(prompt)
    heads = [f"{person} {verb}" for person in PEOPLE for verb in VERBS]
    repeats = {f"{head} {target}": [f"{head} {target}"] for head in heads for target in (*PLACES, *PEOPLE)}
    changes = {head: [head] for head in heads if head.endswith(CHANGING)}
    judged = verdicts(same=repeats, contradicts=changes)(prompt)
    linked = verdicts(same={f"{person} visited": [f"{person} likes"] for person in PEOPLE})(prompt)
    return {
        "verdicts": [
            {**own, "links": [{"id": number, "kind": "elaborates"} for number in other["same"]]}
            for own, other in zip(_items(judged), _items(linked), strict=True)
        ]
    }


def _items(answer: object) -> list[dict[str, list[int]]]:
    return answer["verdicts"] if isinstance(answer, dict) else []


def _described(prompt: FakePrompt) -> JsonValue:
    """Describe each item with everything that the prompt tells, so that what is to be forgotten gets everywhere."""
    text = _text(prompt)
    answers: dict[str, JsonValue] = {}
    for number, item in re.findall(r"\[(\d+)\]([^\[]*)", prompt.text.rsplit("<items>", 1)[-1].split("</items>")[0]):
        told = " ".join(line.split(":", 1)[1].strip() for line in item.splitlines() if ": " in line)
        summary = f"{told} {text}"[:200]
        has_fields = "field note" in item
        answers[number] = {"summary": summary, "attributes": {"note": text[-40:]}} if has_fields else summary
    return answers


def world_model(**options: float) -> FakeLLM:
    """Return a model that understands the made-up worlds."""
    replies: Mapping[str, Callable[[FakePrompt], object]] = {
        "EntityExtraction": _named,
        "RelationExtraction": _stated,
        "EntityDuplication": _same_people,
        "RelationVerdicts": _judged,
        "EntitySummaries": _described,
    }
    return FakeLLM(replies, **options)  # type: ignore[arg-type]
