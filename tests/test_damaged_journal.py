"""A journal that is damaged: it is told, nobody's input is dropped for it, and whoever can be served is served."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from jiuwen_memory import EpisodeType, GraphMemory
from jiuwen_memory.errors import JournalError, LLMCallError, ModelServiceError
from jiuwen_memory.foundation.store.graph import InMemoryGraphStore, JournalEntry
from jiuwen_memory.foundation.store.graph.constants import JOURNAL_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import Row
from jiuwen_memory.testing import FakeLLM, Script
from tests.memory_support import Taught, all_entities, all_episodes, entities, problems, taught

GONE = ModelServiceError("The endpoint is gone.", retryable=False)
LONG = "The canary zzyzx sang. " + "It rained all day long, and nobody went out. " * 3000
Harm = Callable[[dict[str, Row]], object]


def lose_a_chunk(rows: dict[str, Row]) -> None:
    del rows[next(key for key, row in rows.items() if row["kind"] == "chunk" and row["number"] == 2)]


def change_a_chunk(rows: dict[str, Row]) -> None:
    next(row for row in rows.values() if row["kind"] == "chunk" and row["number"] == 2)["payload"] = "?"


def forget_the_count(rows: dict[str, Row]) -> None:
    next(row for row in rows.values() if row["kind"] != "chunk")["extra"] = {}


def garble_what_a_row_says(rows: dict[str, Row]) -> None:
    next(row for row in rows.values() if row["kind"] != "chunk")["extra"] = "?"


def garble_what_a_chunk_says(rows: dict[str, Row]) -> None:
    next(row for row in rows.values() if row["kind"] == "chunk")["extra"] = None


HARMS = [lose_a_chunk, change_a_chunk, forget_the_count, garble_what_a_row_says, garble_what_a_chunk_says]


def harm(memory: GraphMemory, how: Harm, *, kind: str) -> None:
    """Damage the rows of the only entry of a kind, as no call of a store can."""
    store = memory.db_backend
    assert isinstance(store, InMemoryGraphStore)
    with store._connection.tables() as tables:
        rows = tables[JOURNAL_COLLECTION]
        (plan_id,) = {row["plan_id"] for row in rows.values() if row["kind"] == kind}
        mine = {key: row for key, row in rows.items() if row["plan_id"] == plan_id}
        how(mine)
        for key in [key for key, row in rows.items() if row["plan_id"] == plan_id]:
            del rows[key]
        rows.update(mine)


async def left_of(memory: GraphMemory) -> int:
    """How many characters of journalled texts are stored."""
    store = memory.db_backend
    assert isinstance(store, InMemoryGraphStore)
    with store._connection.tables() as tables:
        return sum(len(row["payload"]) for row in tables[JOURNAL_COLLECTION].values())


async def with_a_waiting_add(text: str = LONG) -> Taught:
    """A memory with an episode, and an add that failed and waits."""
    mind = taught()
    await mind.learn("Tom sings.", types={"Tom": "Human"})
    mind.llm.replies["EntityExtraction"] = Script([GONE])
    with pytest.raises(LLMCallError):
        await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", text)
    mind.llm.replies["EntityExtraction"] = entities({})
    return mind


def plan_of(user: str, plan_id: str = "plan", *, size: int = 1) -> JournalEntry:
    """A plan that does nothing, of any length."""
    payload = json.dumps({"rows": {}, "removals": {}, "filling": "x" * size})
    return JournalEntry(plan_id=plan_id, user_id=user, kind="header", payload=payload, created_at=1)


# --- an add that waits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HARMS, ids=lambda each: each.__name__)
async def test_a_damaged_add_that_waits_is_found_and_never_dropped(how: Harm) -> None:
    mind = await with_a_waiting_add()
    harm(mind.memory, how, kind="pending")
    before = await left_of(mind.memory)

    (finding,) = (await mind.memory.check("ann")).findings
    (same,) = (await mind.memory.check(repair=True)).findings
    (resumed,) = await mind.memory.resume()
    await mind.learn("Ida rows.", types={"Ida": "Human"})
    recovered = await mind.memory.recover()

    assert (finding.kind, finding.collection, same) == ("journal_damaged", JOURNAL_COLLECTION, finding)
    assert "somebody's input" in finding.detail and "journal.remove" in finding.detail
    assert isinstance(resumed.error, JournalError) and resumed.pending is None
    assert recovered.is_clean
    assert await mind.memory.pending("ann") == []
    assert set(await all_entities(mind.memory)) == {"Tom", "Ida"}
    assert await left_of(mind.memory) == before

    await mind.memory.db_backend.journal.remove(finding.uuid, "ann")
    assert (await mind.memory.check()).is_clean
    assert await left_of(mind.memory) == 0


async def test_what_a_damaged_add_keeps_does_not_stop_a_repair_of_the_rest() -> None:
    mind = await with_a_waiting_add()
    harm(mind.memory, lose_a_chunk, kind="pending")
    await mind.memory.db_backend.journal.put(plan_of("ann"))

    report = await mind.memory.check("ann", repair=True)

    assert {each.kind: each.repaired for each in report.findings} == {"journal_waiting": True, "journal_damaged": False}
    assert [each.kind for each in report.remaining] == ["journal_damaged"]


@pytest.mark.parametrize("payload", ["{}", "no JSON", '{"reason": "r", "key": "k", "requests": [7]}'])
async def test_an_add_that_waits_and_cannot_be_read_is_found(payload: str) -> None:
    mind = taught()
    await mind.memory.db_backend.journal.put(JournalEntry("p", "ann", "pending", payload, 1))

    (finding,) = (await mind.memory.check("ann", repair=True)).findings

    assert (finding.kind, finding.uuid, finding.repaired) == ("journal_damaged", "p", False)
    assert "cannot be read" in finding.detail


async def test_an_add_that_waits_for_another_user_is_found() -> None:
    mind = await with_a_waiting_add("Ida rows.")
    (entry,) = await mind.memory.db_backend.journal.entries("ann")
    await mind.memory.db_backend.journal.put(replace(entry, user_id="bob", plan_id="forged"))

    (finding,) = (await mind.memory.check("bob")).findings

    assert (finding.kind, finding.uuid) == ("journal_damaged", "forged")
    assert "another user" in finding.detail
    assert (await mind.memory.check("ann")).is_clean


async def test_what_is_left_of_a_damaged_add_goes_with_the_deletion_of_its_text() -> None:
    mind = await with_a_waiting_add()
    update = await mind.learn("The canary zzyzx sang.", types={})
    harm(mind.memory, lose_a_chunk, kind="pending")

    receipt = await mind.memory.delete_episode("ann", update.added_episode[0].uuid)

    assert len(receipt.removed[JOURNAL_COLLECTION]) == 1
    assert receipt.residue == ()
    assert await left_of(mind.memory) == 0
    assert [each.content for each in await all_episodes(mind.memory)] == ["Tom sings."]


async def test_what_is_left_of_a_damaged_add_is_residue_where_it_tells_of_what_is_deleted() -> None:
    mind = await with_a_waiting_add()
    update = await mind.learn("zzyzx is a canary's name.", types={})
    harm(mind.memory, lose_a_chunk, kind="pending")

    receipt = await mind.memory.delete_episode("ann", update.added_episode[0].uuid)

    (residue,) = receipt.residue
    assert (residue.collection, "zzyzx" in residue.text) == (JOURNAL_COLLECTION, True)
    assert await left_of(mind.memory) > 0


async def test_deleting_a_user_takes_a_damaged_journal_along_and_says_so() -> None:
    mind = await with_a_waiting_add()
    (entry,) = await mind.memory.db_backend.journal.entries("ann")
    harm(mind.memory, garble_what_a_row_says, kind="pending")

    receipt = await mind.memory.delete_user("ann")

    assert receipt.removed[JOURNAL_COLLECTION] == (entry.plan_id,)
    assert receipt.residue == ()
    assert await left_of(mind.memory) == 0


# --- a plan -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HARMS, ids=lambda each: each.__name__)
async def test_a_damaged_plan_bars_its_own_user_alone_until_it_is_removed(how: Harm) -> None:
    mind = taught()
    await mind.learn("Tom sings.", types={"Tom": "Human"})
    await mind.memory.db_backend.journal.put(plan_of("ann", size=150_000))
    harm(mind.memory, how, kind="header")

    with pytest.raises(JournalError, match=r"journal\.remove"):
        await mind.learn("Ida rows.", types={"Ida": "Human"})
    report = await mind.memory.check(repair=True)
    recovered = await mind.memory.recover()
    await mind.learn("Ida rows.", types={"Ida": "Human"}, user="bob")
    (finding,) = report.findings

    assert (finding.kind, finding.uuid, finding.repaired) == ("journal_damaged", "plan", False)
    assert "half applied" in finding.detail
    assert list(recovered.failed) == ["ann"]
    assert set(await all_entities(mind.memory, "bob")) == {"Ida"}

    await mind.memory.db_backend.journal.remove("plan", "ann")
    assert (await mind.memory.check(repair=True)).is_clean
    await mind.learn("Ida rows.", types={"Ida": "Human"})
    assert set(await all_entities(mind.memory)) == {"Tom", "Ida"}
    assert await problems(mind.memory) == []


async def test_an_entry_of_a_kind_that_is_not_known_is_told_and_nothing_is_written_over_it() -> None:
    mind = taught()
    await mind.memory.db_backend.journal.put(plan_of("ann"))
    harm(mind.memory, lambda rows: rows["plan:0"].update(kind="newer"), kind="header")

    with pytest.raises(JournalError, match="'newer'"):
        await mind.learn("Ida rows.", types={"Ida": "Human"})
    (finding,) = (await mind.memory.check()).findings

    assert finding.kind == "journal_damaged"


async def test_of_several_plans_none_is_carried_out_while_one_is_damaged() -> None:
    mind = taught()
    await mind.memory.db_backend.journal.put(plan_of("ann", size=150_000))
    harm(mind.memory, change_a_chunk, kind="header")
    for number in range(2):
        await mind.memory.db_backend.journal.put(replace(plan_of("ann", f"good{number}"), created_at=number * 2))

    report = await mind.memory.check("ann", repair=True)

    assert dict(report.counts) == {"journal_damaged": 1, "journal_waiting": 2}
    assert len(report.remaining) == 3
    assert len(await mind.memory.db_backend.journal.entries("ann")) == 3


async def test_a_model_is_not_asked_while_a_plan_is_damaged() -> None:
    llm = FakeLLM()
    mind = taught(llm=llm)
    await mind.memory.db_backend.journal.put(plan_of("ann", size=150_000))
    harm(mind.memory, lose_a_chunk, kind="header")

    with pytest.raises(JournalError):
        await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "Ida rows.")

    assert llm.calls == 0
