"""A store of JiuwenMemory 0.1 is taken over: the same ids, our fields derived, links put right, and left as it was."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    Entity,
    Episode,
    EpisodeType,
    Relation,
)
from jiuwen_memory.errors import (
    ExchangeConflictError,
    InvalidInputError,
    SchemaMismatchError,
    StoreError,
    StoreUnavailableError,
)
from jiuwen_memory.foundation.store.graph import BaseGraphObject
from jiuwen_memory.integrations.exchange import import_store
from jiuwen_memory.testing import fake_memory
from tests.exchange_support import empty_memory, everything
from tests.legacy_store import fingerprint, read_store, search_store, write_store

MARCH, APRIL, MAY, NOW = 1_772_442_000, 1_775_586_600, 1_777_597_200, 1_796_000_000
SINCE_2024, IN_2020, END_OF_2022 = 1_714_492_800, 1_577_836_800, 1_672_531_199

ROWS: Mapping[str, list[dict[str, Any]]] = {
    EPISODE_COLLECTION: [
        {
            **{"uuid": "talk1", "obj_type": "CONVERSATION", "created_at": NOW, "valid_since": MARCH},
            **{"content": "Ann: I work at Acme since May 2024 and like hiking.", "entities": ["acme", "ann", "gone"]},
        },
        {
            **{"uuid": "talk2", "obj_type": "DOCUMENT", "created_at": NOW, "valid_since": APRIL},
            **{"content": "Ann lived in Berlin until 2022.", "entities": ["ann", "berlin"]},
        },
        {
            **{"uuid": "talk3", "obj_type": "CONVERSATION", "created_at": NOW, "valid_since": MAY, "user_id": "bo"},
            **{"content": "李明：我在上海工作。", "entities": ["liming", "shanghai"]},
        },
    ],
    ENTITY_COLLECTION: [
        {
            **{"uuid": "ann", "obj_type": "Human", "created_at": MARCH, "name": "Ann", "content": "Ann works at Acme."},
            **{"attributes": {"employer": "Acme"}, "relations": ["lost", "works"], "episodes": ["talk1", "talk9"]},
        },
        {
            **{"uuid": "acme", "obj_type": "Entity", "created_at": MARCH, "name": "Acme", "content": ""},
            **{"relations": [], "episodes": ["talk1"]},
        },
        {
            **{"uuid": "berlin", "obj_type": "Entity", "created_at": APRIL, "name": "Berlin", "content": "A city."},
            **{"relations": ["lived"], "episodes": ["talk2"], "metadata": {"seen": True}},
        },
        {
            **{"uuid": "liming", "obj_type": "Human", "created_at": MAY, "name": "李明", "content": "李明在上海工作。"},
            **{"relations": ["gongzuo"], "episodes": ["talk3"], "user_id": "bo", "language": "cn"},
        },
        {
            **{"uuid": "shanghai", "obj_type": "Entity", "created_at": MAY, "name": "上海", "content": "上海。"},
            **{"relations": ["gongzuo"], "episodes": ["talk3"], "user_id": "bo", "language": "cn"},
        },
    ],
    RELATION_COLLECTION: [
        {
            **{"uuid": "works", "obj_type": "Relation", "created_at": MARCH, "name": "works at", "lhs": "ann"},
            **{"content": "Ann works at Acme.", "rhs": "acme", "valid_since": SINCE_2024, "offset_since": 32},
        },
        {
            **{"uuid": "lived", "obj_type": "Relation", "created_at": APRIL, "name": "lived in", "lhs": "ann"},
            **{"content": "Ann lived in Berlin.", "rhs": "berlin", "valid_since": IN_2020, "valid_until": END_OF_2022},
        },
        {
            **{"uuid": "hikes", "obj_type": "EntityFact", "created_at": MARCH, "name": "likes", "lhs": "ann"},
            **{"content": "Ann likes hiking.", "rhs": "ann", "valid_since": MARCH},
        },
        {
            **{"uuid": "dangling", "obj_type": "Relation", "created_at": MARCH, "name": "knows", "lhs": "ann"},
            **{"content": "Ann knows nobody.", "rhs": "gone", "valid_since": MARCH},
        },
        {
            **{"uuid": "gongzuo", "obj_type": "Relation", "created_at": MAY, "name": "工作于", "lhs": "liming"},
            **{"content": "李明在上海工作。", "rhs": "shanghai", "valid_since": MAY, "user_id": "bo", "language": "cn"},
        },
    ],
}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store of the old package."""
    path = tmp_path / "old.db"
    write_store(path, ROWS)
    return path


async def test_everything_comes_over_with_its_ids_and_the_old_store_stays_as_it_was(old: Path, tmp_path: Path) -> None:
    memory, before = empty_memory(tmp_path, "milvus"), fingerprint(old)

    report = await import_store(memory, old)

    ids = {user: set(await everything(memory, user)) for user in ("ann", "bo")}
    assert ids["ann"] == {"talk1", "talk2", "ann", "acme", "berlin", "works", "lived", "hikes"}
    assert ids["bo"] == {"talk3", "liming", "shanghai", "gongzuo"}
    assert (report.added, set(report.users)) == (12, {"ann", "bo"})
    assert report.warnings == ("1 relations whose ends do not exist were left out.",)
    assert fingerprint(old) == before
    assert (await memory.check()).is_clean
    await memory.close()


async def test_what_the_old_store_does_not_say_is_worked_out(old: Path) -> None:
    memory = fake_memory()

    await import_store(memory, old, user_id="ann")

    found = await everything(memory)
    ann, acme, talk, works = found["ann"], found["acme"], found["talk1"], found["works"]
    assert isinstance(ann, Entity) and isinstance(acme, Entity)
    assert (ann.relations, ann.episodes) == (["hikes", "works", "lived"], ["talk1", "talk2"])
    assert (ann.mention_count, ann.first_mentioned_at, ann.last_mentioned_at) == (2, MARCH, APRIL)
    assert (ann.attributes, ann.obj_type) == ({"employer": "Acme"}, "Human")
    assert acme.relations == ["works"]
    assert isinstance(talk, Episode)
    assert (talk.entities, talk.valid_since, talk.created_at) == (["acme", "ann"], MARCH, NOW)
    assert (talk.part, talk.parts, talk.group) == (1, 1, "talk1")
    assert isinstance(works, Relation)
    assert (works.episodes, works.lhs_origin, works.rhs_origin) == (["talk1"], "ann", "acme")
    assert (works.valid_since, works.offset_since, works.valid_until) == (SINCE_2024, 8 * 60, None)
    await memory.close()


async def test_a_beginning_that_repeats_the_time_of_the_talk_is_unknown(old: Path) -> None:
    memory = fake_memory()

    await import_store(memory, old)

    found = await everything(memory)
    periods = {
        uuid: (each.valid_since, each.valid_until, each.stated_until)
        for uuid, each in found.items()
        if isinstance(each, Relation)
    }
    assert periods["hikes"] == (None, None, None)
    assert periods["lived"] == (IN_2020, END_OF_2022, END_OF_2022)
    assert found["hikes"].obj_type == "EntityFact"
    await memory.close()


async def test_a_search_finds_what_was_taken_over_in_both_languages(old: Path) -> None:
    memory = fake_memory()
    await import_store(memory, old)

    english = await memory.search("Where does Ann work?", "ann")
    chinese = await memory.search("谁在上海工作？", "bo")

    assert english[RELATION_COLLECTION][0][1].uuid == "works"
    assert search_store(old, RELATION_COLLECTION, "Ann works at Acme", user="ann")[0] == "works"
    assert texts(chinese[RELATION_COLLECTION]) == ["李明在上海工作。"]
    assert texts(chinese[EPISODE_COLLECTION]) == ["李明：我在上海工作。"]
    await memory.close()


def texts(found: list[tuple[float, BaseGraphObject]]) -> list[str]:
    return [each.content for _, each in found]


async def test_importing_again_adds_nothing_and_a_repeat_of_an_old_talk_is_recognised(old: Path) -> None:
    memory = fake_memory()
    first = await import_store(memory, old)

    again = await import_store(memory, old)

    assert (again.added, again.unchanged) == (0, first.added)
    talk = (await everything(memory))["talk2"]
    repeat = await memory.add_memory(
        EpisodeType.DOCUMENT, "ann", talk.content, reference_time=datetime.fromtimestamp(APRIL, UTC)
    )
    assert repeat.duplicate_of == "talk2"
    await memory.close()


async def test_what_changed_since_is_not_overwritten_by_accident(old: Path) -> None:
    memory = fake_memory()
    await import_store(memory, old, user_id="ann")
    await memory.delete_relation("ann", "lived")

    with pytest.raises(ExchangeConflictError) as failure:
        await import_store(memory, old, user_id="ann")
    report = await import_store(memory, old, user_id="ann", replace=True)

    assert failure.value.count > 0
    assert report.users["ann"].added == 1
    assert "lived" in await everything(memory)
    await memory.close()


async def test_texts_that_are_longer_than_ours_may_be_are_cut_and_named(tmp_path: Path) -> None:
    path, memory = tmp_path / "old.db", fake_memory()
    long = {"uuid": "long", "obj_type": "Entity", "created_at": MARCH, "name": "名" * 300, "content": "多" * 30_000}
    contrary = {
        **{"uuid": "turned", "obj_type": "EntityFact", "created_at": MARCH, "name": "is", "lhs": "long", "rhs": "long"},
        **{"content": "It is long.", "valid_since": END_OF_2022, "valid_until": IN_2020},
    }
    write_store(path, {ENTITY_COLLECTION: [long], RELATION_COLLECTION: [contrary]})

    report = await import_store(memory, path)

    found = await everything(memory)
    entity, fact = found["long"], found["turned"]
    assert isinstance(entity, Entity) and entity.name == "名" * 166
    assert entity.content == "多" * 21_845
    assert isinstance(fact, Relation) and (fact.valid_since, fact.valid_until) == (None, None)
    assert set(report.warnings) == {
        "1 relations rest on no episode; check(repair=True) removes such.",
        "The name of long was cut to 500 bytes.",
        "The content of long was cut to 65535 bytes.",
        "The period of relation turned ended before it began; it goes.",
    }
    await memory.close()


async def test_a_path_without_a_store_is_refused_and_not_made(tmp_path: Path) -> None:
    memory, path = fake_memory(), tmp_path / "nothing.db"

    with pytest.raises(StoreUnavailableError, match="no store"):
        await import_store(memory, path)

    assert fingerprint(tmp_path) == {} and not path.exists()
    await memory.close()


async def test_a_database_that_is_not_there_is_refused_and_not_made(old: Path) -> None:
    memory, before = fake_memory(), fingerprint(old)

    with pytest.raises(StoreError, match="'elsewhere'"):
        await import_store(memory, old, name="elsewhere")

    assert fingerprint(old) == before
    await memory.close()


async def test_a_store_of_ours_is_no_old_store(tmp_path: Path) -> None:
    ours = empty_memory(tmp_path, "milvus", name="ours.db")
    await ours.add_memory(EpisodeType.DOCUMENT, "ann", "It rained.")
    memory = fake_memory()

    with pytest.raises(SchemaMismatchError, match="export_graph"):
        await import_store(memory, tmp_path / "ours.db")

    await ours.close()
    await memory.close()


async def test_a_user_who_is_not_there_is_named_with_those_who_are(old: Path) -> None:
    memory = fake_memory()

    with pytest.raises(InvalidInputError, match="'ann', 'bo'"):
        await import_store(memory, old, user_id="cleo")

    await memory.close()


@pytest.mark.slow
async def test_a_store_that_the_old_package_wrote_itself_is_taken_over(tmp_path: Path) -> None:
    written = os.environ.get("JIUWEN_MEMORY_LEGACY_STORE")
    if not written:
        pytest.skip("JIUWEN_MEMORY_LEGACY_STORE names no store; tests/write_legacy_store.py says how to make one")
    path = Path(copytree(written, tmp_path / "old.db"))
    before, files, memory = read_store(path), fingerprint(path), empty_memory(tmp_path, "milvus")

    report = await import_store(memory, path)

    assert fingerprint(path) == files
    users = {row["user_id"] for rows in before.values() for row in rows}
    stored = {uuid: each for user in users for uuid, each in (await everything(memory, user)).items()}
    assert set(stored) == {row["uuid"] for rows in before.values() for row in rows}
    assert report.added == len(stored) > 0
    for rows in before.values():
        for row in rows:
            same = ("user_id", "obj_type", "language", "content", "created_at", "metadata")
            assert {name: getattr(stored[row["uuid"]], name) for name in same} == {name: row[name] for name in same}
    for relation in before[RELATION_COLLECTION]:
        found = await memory.search(relation["content"], relation["user_id"])
        found_before = search_store(path, RELATION_COLLECTION, relation["content"], user=relation["user_id"])
        assert relation["uuid"] in [each.uuid for _, each in found[RELATION_COLLECTION]]
        assert relation["uuid"] in found_before
        assert stored[relation["uuid"]].model_dump()["episodes"]
    assert (await memory.check()).is_clean
    await memory.close()
