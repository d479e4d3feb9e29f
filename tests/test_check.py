"""The audit: a graph that the write path made is clean; every kind of damage is found, mended, and then gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    Entity,
    Episode,
    EpisodeType,
    GraphConfig,
    GraphStoreStorageConfig,
    Relation,
)
from jiuwen_memory.errors import EmbedderNotFoundError, LLMCallError, ModelServiceError
from jiuwen_memory.foundation.store.graph import (
    BaseGraphObject,
    GraphStore,
    GraphStoreFactory,
    InMemoryGraphStore,
    JournalEntry,
)
from jiuwen_memory.foundation.store.graph.constants import JOURNAL_COLLECTION
from jiuwen_memory.foundation.store.query import filter_user
from jiuwen_memory.memory_core.graph.graph_memory.audit import CheckReport, check_graph, recall_users
from jiuwen_memory.memory_core.graph.graph_memory.audit_rules import Finding, FindingKind
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder
from jiuwen_memory.testing import FakePrompt
from tests.memory_support import MAY, Taught, all_entities, all_episodes, all_relations, facts, taught

OSLO = ("Ida Lund", "lives in", "Oslo", "Ida Lund lives in Oslo.")
BERGEN = ("Ida Lund", "lives in", "Bergen", "Ida Lund lives in Bergen.")
SKIS = ("Ida Lund", "skis in", "Bergen", "Ida Lund skis near Bergen.")
SINGS = ("Ida Lund", "sings", "Ida Lund", "Ida Lund sings.")
TOM = ("Tom", "knows", "Ida Lund", "Tom knows Ida Lund.")
ORR = ("Thomas Orr", "flies", "Heron", "Thomas Orr flies the Heron.")
IDA = {"Ida Lund": "Human", "Oslo": "Entity", "Bergen": "Entity"}
FUSED = {"Tommy": ["Tom (", "Thomas Orr"]}
NOWHERE = "0" * 32


class DoublingStore(InMemoryGraphStore):
    """Shows rows twice until they are written again, as a server can after two inserts of one id."""

    def __init__(self, config: GraphConfig) -> None:
        super().__init__(config)
        self.doubled: set[str] = set()

    async def upsert(self, collection: str, objects: Sequence[BaseGraphObject]) -> None:
        await super().upsert(collection, objects)
        self.doubled.difference_update(each.uuid for each in objects)

    async def query(self, collection: str, **options: Any) -> list[BaseGraphObject]:
        found = await super().query(collection, **options)
        again = [each for each in found if each.uuid in self.doubled and options.get("ids") is None]
        return [*found, *again]


GraphStoreFactory.register_backend("doubling", DoublingStore, force=True)


@dataclass(frozen=True)
class World:
    """A graph with a supersession, a link, a fact about one thing, two users, and a fusion; and ways to damage it."""

    mind: Taught

    @property
    def store(self) -> GraphStore:
        return self.mind.memory.db_backend

    @property
    def embedder(self) -> Embedder:
        return Embedder(self.mind.embedder, dimension=self.store.config.embed_dim, tries=1, batch_size=10)

    async def check(self, user_id: str | None = "ann", *, repair: bool = False) -> CheckReport:
        return await check_graph(store=self.store, embedder=self.embedder, user_id=user_id, repair=repair)

    async def entity(self, name: str, user: str = "ann") -> Entity:
        return (await all_entities(self.mind.memory, user))[name]

    async def fact(self, content: str) -> Relation:
        return (await all_relations(self.mind.memory))[content]

    async def link(self) -> Relation:
        (link,) = (await all_relations(self.mind.memory, kind="elaborates")).values()
        return link

    async def episode(self, part: str) -> Episode:
        return next(each for each in await all_episodes(self.mind.memory) if part in each.content)

    async def put(self, each: BaseGraphObject, **changes: Any) -> None:
        """Write an object as no commit would, with the vectors that are stored."""
        found = await self.store.query(
            each.collection,
            user=filter_user(each.user_id),
            ids=[each.uuid],
            output_fields=list(each.vectors),
            consistency="strong",
        )
        vectors = {column: getattr(found[0], column) if found else [0.5] * 64 for column in each.vectors}
        await self.store.upsert(each.collection, [each.revise(**vectors).revise(**changes)])

    async def remove(self, each: BaseGraphObject) -> None:
        await self.store.delete(each.collection, [each.uuid], user_id=each.user_id)

    def row(self, each: BaseGraphObject) -> dict[str, Any]:
        """Return a stored row itself, to be damaged as no call of a store can."""
        assert isinstance(self.store, InMemoryGraphStore)
        with self.store._connection.tables() as tables:
            return tables[each.collection][each.uuid]


async def grown(**options: Any) -> World:
    mind = taught(**options)
    told: dict[str, Any] = {"types": IDA, "session_id": "s", "reference_time": MAY}
    await mind.learn("Ida Lund lives in Oslo since 2019.", said=[OSLO], since="2019", **told)
    await mind.learn(
        "Ida Lund now lives in Bergen since 2022. Ida Lund sings.",
        said=[BERGEN, SINGS],
        since="2022",
        contradicts={BERGEN[3]: [OSLO[3]]},
        summaries={"Ida Lund": "A singer in Bergen."},
        **told,
    )
    await mind.learn("Ida Lund sings, again.", said=[SINGS], **told)
    await mind.learn("Tom knows Ida Lund.", types={"Tom": "Human", "Ida Lund": "Human"}, said=[TOM], session_id="s")
    await mind.learn("Thomas Orr flies.", types={"Thomas Orr": "Human", "Heron": "Entity"}, said=[ORR], session_id="s")
    await mind.learn("Tommy landed.", types={"Tommy": "Human"}, same=FUSED, session_id="s")
    await mind.learn("Ben sings.", types={"Ben": "Human"}, said=[("Ben", "sings", "Ben", "Ben sings.")], user="ben")
    mind.llm.replies["RelationVerdicts"] = linked
    mind.llm.replies["RelationExtraction"] = facts(SKIS)
    mind.llm.replies["EntityExtraction"] = {"entities": [{"name": name, "type": IDA[name]} for name in IDA]}
    await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "Ida Lund skis near Bergen.", session_id="s")
    return World(mind)


def linked(prompt: FakePrompt) -> Any:
    """Answer that the skiing elaborates on the living."""
    link = {"id": prompt.number(BERGEN[3]), "kind": "elaborates"}
    return {"verdicts": [{"id": prompt.number(SKIS[3]), "same": [], "contradicts": [], "links": [link]}]}


# --- damage -----------------------------------------------------------------------------------------------------------


async def cut_an_end(world: World) -> None:
    await world.put(await world.fact(TOM[3]), lhs=NOWHERE)


async def remove_an_entity(world: World) -> None:
    await world.remove(await world.entity("Heron"))


async def cut_a_link(world: World) -> None:
    await world.put(await world.link(), rhs=NOWHERE)


async def bring_back_a_fused_end(world: World) -> None:
    (kept,) = [each for each in (await all_entities(world.mind.memory)).values() if each.merged_from]
    (record,) = kept.merged_from
    assert isinstance(record, dict)
    await world.put(await world.fact(TOM[3]), lhs=record["uuid"])


async def list_a_relation_that_is_not(world: World) -> None:
    ida = await world.entity("Ida Lund")
    await world.put(ida, relations=[*ida.relations, NOWHERE])


async def remove_an_episode(world: World) -> None:
    await world.remove(await world.episode("again"))


async def remove_the_superseding_fact(world: World) -> None:
    bergen = await world.fact(BERGEN[3])
    await world.remove(bergen)


async def refer_to_another_users_entity(world: World) -> None:
    await world.put(await world.fact(TOM[3]), rhs=(await world.entity("Ben", "ben")).uuid)


async def list_another_users_entity(world: World) -> None:
    episode = await world.episode("Tommy")
    await world.put(episode, entities=[*episode.entities, (await world.entity("Ben", "ben")).uuid])


async def list_anothers_relation(world: World) -> None:
    oslo = await world.entity("Oslo")
    await world.put(oslo, relations=[*oslo.relations, (await world.fact(TOM[3])).uuid])


async def list_an_episode_twice(world: World) -> None:
    oslo = await world.entity("Oslo")
    await world.put(oslo, episodes=[*oslo.episodes, oslo.episodes[0]])


async def forget_the_relations(world: World) -> None:
    await world.put(await world.entity("Ida Lund"), relations=[])


async def forget_the_episodes(world: World) -> None:
    await world.put(await world.entity("Ida Lund"), episodes=[])


async def forget_the_entities(world: World) -> None:
    await world.put(await world.episode("lives in Oslo"), entities=[])


async def add_a_lonely_entity(world: World) -> None:
    await world.put(Entity(user_id="ann", language="en", name="Nobody", obj_type="Entity"))


async def take_the_evidence(world: World) -> None:
    await world.put(await world.fact(TOM[3]), episodes=[])


async def miscount(world: World) -> None:
    await world.put(await world.fact(SINGS[3]), mention_count=1)


async def count_none(world: World) -> None:
    await world.put(await world.entity("Heron"), mention_count=0)


async def turn_the_mentions(world: World) -> None:
    await world.put(await world.entity("Heron"), first_mentioned_at=9, last_mentioned_at=3)


async def end_before_the_beginning(world: World) -> None:
    await world.put(await world.fact(BERGEN[3]), valid_until=5, stated_until=5)


async def supersede_with_something_older(world: World) -> None:
    old, new = await world.fact(OSLO[3]), await world.fact(BERGEN[3])
    await world.put(new, superseded_by=[old.uuid], expired_at=1)


async def lose_the_end(world: World) -> None:
    await world.put(await world.fact(OSLO[3]), valid_until=None)


async def lose_the_expiry(world: World) -> None:
    await world.put(await world.fact(OSLO[3]), expired_at=None)


async def mark_as_plain(world: World) -> None:
    await world.put(await world.fact(SINGS[3]), obj_type="Relation")


async def mark_as_about_one(world: World) -> None:
    await world.put(await world.link(), obj_type="EntityFact")


async def change_a_text_without_its_vector(world: World) -> None:
    await world.put(await world.entity("Ida Lund"), content="A pilot.")


async def write_a_search_text(world: World) -> None:
    world.row(await world.fact(TOM[3]))["search_text"] = "something else"


async def write_a_normal_name(world: World) -> None:
    world.row(await world.entity("Heron"))["name_norm"] = "hern"


async def lose_a_vector(world: World) -> None:
    world.row(await world.episode("Tommy"))["content_embedding"] = None


async def shorten_a_vector(world: World) -> None:
    world.row(await world.entity("Heron"))["name_embedding"].pop()


async def spoil_a_vector(world: World) -> None:
    world.row(await world.entity("Heron"))["content_embedding"][3] = float("nan")


async def leave_an_interrupted_write(world: World) -> None:
    await world.store.journal.put(JournalEntry("plan", "ann", "header", '{"rows": {}, "removals": {}}', 1))


async def leave_chunks(world: World) -> None:
    await leave_an_interrupted_write(world)
    assert isinstance(world.store, InMemoryGraphStore)
    with world.store._connection.tables() as tables:
        del tables[JOURNAL_COLLECTION]["plan:0"]


Damage = Callable[[World], Awaitable[None]]
DAMAGES: tuple[tuple[Damage, FindingKind], ...] = (
    (cut_an_end, "dangling_end"),
    (remove_an_entity, "dangling_end"),
    (cut_a_link, "dangling_end"),
    (bring_back_a_fused_end, "dangling_end"),
    (list_a_relation_that_is_not, "dangling_reference"),
    (remove_an_episode, "dangling_reference"),
    (remove_the_superseding_fact, "dangling_reference"),
    (refer_to_another_users_entity, "foreign_reference"),
    (list_another_users_entity, "foreign_reference"),
    (list_anothers_relation, "stray_reference"),
    (list_an_episode_twice, "stray_reference"),
    (forget_the_relations, "missing_back_reference"),
    (forget_the_episodes, "missing_back_reference"),
    (forget_the_entities, "missing_back_reference"),
    (add_a_lonely_entity, "orphan"),
    (take_the_evidence, "orphan"),
    (miscount, "wrong_count"),
    (count_none, "wrong_count"),
    (turn_the_mentions, "times_out_of_order"),
    (end_before_the_beginning, "times_out_of_order"),
    (supersede_with_something_older, "times_out_of_order"),
    (lose_the_end, "wrong_end_time"),
    (lose_the_expiry, "wrong_end_time"),
    (mark_as_plain, "wrong_flag"),
    (mark_as_about_one, "wrong_flag"),
    (change_a_text_without_its_vector, "stale_vector"),
    (write_a_search_text, "wrong_derived_text"),
    (write_a_normal_name, "wrong_derived_text"),
    (lose_a_vector, "unusable_vector"),
    (shorten_a_vector, "unusable_vector"),
    (spoil_a_vector, "unusable_vector"),
    (leave_an_interrupted_write, "journal_waiting"),
    (leave_chunks, "journal_unfinished"),
)
ON_DISK = (
    remove_an_entity,
    remove_the_superseding_fact,
    refer_to_another_users_entity,
    change_a_text_without_its_vector,
)


# --- a healthy graph --------------------------------------------------------------------------------------------------


async def test_a_graph_that_grew_by_adding_is_clean_for_one_user_and_for_all() -> None:
    world = await grown()

    one, everyone = await world.check(), await world.check(None)

    assert one.is_clean, str(one)
    assert one.checked == {ENTITY_COLLECTION: 5, RELATION_COLLECTION: 7, EPISODE_COLLECTION: 7}
    assert (everyone.users, everyone.checked[EPISODE_COLLECTION]) == (2, 8)
    assert everyone.is_clean, str(everyone)
    assert str(one) == "Checked 5 entities, 7 relations and 7 episodes of 1 users: nothing is wrong."


async def test_repairing_what_is_whole_embeds_and_writes_nothing() -> None:
    world = await grown()
    before = world.mind.embedder.calls

    report = await world.check(None, repair=True)

    assert report.is_clean
    assert world.mind.embedder.calls == before


async def test_lists_that_overflowed_are_no_finding() -> None:
    limits = GraphStoreStorageConfig(relations=2, episodes=2, entities=2)
    config = GraphConfig(uri="overflow", backend="memory", embed_dim=64, db_storage_config=limits)
    mind = taught(config=config)
    for number in range(5):
        said = [("Ida", "saw", f"Place {number}", f"Ida saw place {number}.")]
        types = {"Ida": "Human", f"Place {number}": "Entity", f"Guide {number}": "Human"}
        await mind.learn(f"Ida saw place {number}.", types=types, said=said, same={"Ida": ["Ida"]})

    report = await World(mind).check()

    assert len((await all_entities(mind.memory))["Ida"].relations) == 2
    assert report.is_clean, str(report)


async def test_a_user_of_whom_nothing_is_stored_is_clean() -> None:
    report = await World(taught()).check("nobody")

    assert report.is_clean
    assert set(report.checked.values()) == {0}


# --- damage is found and mended ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("damage", "kind"), DAMAGES, ids=lambda each: getattr(each, "__name__", each))
async def test_damage_is_found_and_mended(damage: Damage, kind: FindingKind) -> None:
    world = await grown()
    await damage(world)

    found = await world.check()
    mended = await world.check(repair=True)
    after = await world.check(None)

    assert found.counts.get(kind, 0) >= 1, str(found)
    assert not any(finding.repaired for finding in found.findings)
    assert set(found.counts) <= set(mended.counts)
    assert mended.remaining == (), str(mended)
    assert after.is_clean, str(after)


@pytest.mark.parametrize("damage", ON_DISK, ids=lambda each: each.__name__)
async def test_damage_on_disk_is_found_and_mended(damage: Damage, tmp_path: Path) -> None:
    world = await grown(config=GraphConfig(uri=str(tmp_path / "graph.db"), embed_dim=64))
    healthy = await world.check(None)
    await damage(world)

    found = await world.check(None)
    mended = await world.check(None, repair=True)
    after = await world.check(None)
    await world.mind.memory.close()

    assert healthy.is_clean, str(healthy)
    assert not found.is_clean
    assert mended.remaining == (), str(mended)
    assert after.is_clean, str(after)


async def test_two_rows_of_one_id_become_one() -> None:
    world = await grown(config=GraphConfig(uri="doubling", backend="doubling", embed_dim=64))
    assert isinstance(world.store, DoublingStore)
    world.store.doubled.add((await world.episode("Tommy")).uuid)

    found = await world.check()
    mended = await world.check(repair=True)
    after = await world.check()

    assert found.counts == mended.counts == {"duplicate_id": 1}
    assert mended.remaining == ()
    assert after.is_clean


async def test_only_the_damage_is_named() -> None:
    world = await grown()
    tom = await world.fact(TOM[3])
    await world.put(tom, obj_type="EntityFact")

    (finding,) = (await world.check()).findings

    assert (finding.kind, finding.collection, finding.uuid, finding.user_id) == (
        "wrong_flag",
        RELATION_COLLECTION,
        tom.uuid,
        "ann",
    )
    assert str(await world.check()).endswith(f"1 findings, 0 repaired (wrong_flag 1).\n  {finding}")


async def test_a_removed_fact_is_told_and_takes_with_it_what_only_hung_on_it() -> None:
    world = await grown()
    await world.put(await world.fact(BERGEN[3]), rhs=NOWHERE)

    report = await world.check(repair=True)

    told = [finding for finding in report.findings if finding.kind == "dangling_end"]
    oslo = await world.fact(OSLO[3])
    assert any(BERGEN[3] in finding.detail for finding in told)
    assert await all_relations(world.mind.memory, kind="elaborates") == {}
    assert BERGEN[3] not in await all_relations(world.mind.memory)
    assert (oslo.superseded_by, oslo.expired_at, oslo.valid_until) == ([], None, None)


async def test_an_end_that_was_fused_moves_to_its_heir_and_no_fact_is_lost() -> None:
    world = await grown()
    before = await world.fact(TOM[3])
    await bring_back_a_fused_end(world)

    await world.check(repair=True)

    assert (await world.fact(TOM[3])).lhs == before.lhs


async def test_lost_lists_come_back_as_they_were() -> None:
    world = await grown()
    before = await world.entity("Ida Lund")
    await world.put(before, relations=[], episodes=[])

    await world.check(repair=True)

    after = await world.entity("Ida Lund")
    assert set(after.relations) == set(before.relations)
    assert set(after.episodes) == set(before.episodes)


async def test_an_effective_end_comes_back_from_what_supersedes_the_fact() -> None:
    world = await grown()
    before = await world.fact(OSLO[3])
    await world.put(before, valid_until=None, expired_at=None)

    await world.check(repair=True)

    after = await world.fact(OSLO[3])
    assert (after.valid_until, after.precision_until) == (before.valid_until, before.precision_until)
    assert after.expired_at is not None


async def test_only_the_vector_that_does_not_fit_is_embedded_anew() -> None:
    world = await grown()
    await change_a_text_without_its_vector(world)
    world.mind.embedder.texts.clear()

    await world.check(repair=True)

    assert world.mind.embedder.texts == ["A pilot."]


async def test_another_model_makes_every_vector_stale() -> None:
    world = await grown()
    world.mind.embedder.model_name = "another"

    found = await world.check(None)
    mended = await world.check(None, repair=True)

    assert found.counts == {"stale_vector": sum(found.checked.values())}
    assert mended.remaining == ()


async def test_without_an_embedder_vectors_are_not_looked_at_and_nothing_can_be_repaired() -> None:
    world = await grown()
    await spoil_a_vector(world)

    report = await check_graph(store=world.store, embedder=None, user_id="ann", repair=False)

    assert report.is_clean
    with pytest.raises(EmbedderNotFoundError):
        await check_graph(store=world.store, embedder=None, user_id="ann", repair=True)


async def test_texts_longer_than_one_filter_are_compared_all_the_same() -> None:
    world = World(taught())
    episodes = [Episode(user_id="ann", language="en", content=f"{number} word" * 5000) for number in range(3)]
    for each in episodes:
        await world.put(each)
    world.row(episodes[1])["search_text"] = "word"

    report = await world.check()

    wrong = [finding.uuid for finding in report.findings if finding.kind == "wrong_derived_text"]
    assert wrong == [episodes[1].uuid]


async def test_another_users_objects_are_never_touched() -> None:
    world = await grown()
    ben = await world.entity("Ben", "ben")
    await world.put(ben, mention_count=0)
    await refer_to_another_users_entity(world)

    report = await world.check("ann", repair=True)

    assert {finding.user_id for finding in report.findings} == {"ann"}
    assert (await world.entity("Ben", "ben")).mention_count == 0


async def test_an_id_in_two_collections_is_told_and_left() -> None:
    world = await grown()
    tom = await world.fact(TOM[3])
    await world.put(Episode(uuid=tom.uuid, user_id="ann", language="en", content="A copy."))

    found, mended = await world.check(), await world.check(repair=True)

    assert "duplicate_id" in found.counts
    assert [finding.kind for finding in mended.remaining] == ["duplicate_id"]


# --- the journal ------------------------------------------------------------------------------------------------------


async def test_an_interrupted_write_is_finished_before_anything_else() -> None:
    world = await grown()
    oslo, heron = await world.fact(OSLO[3]), await world.entity("Heron")
    await world.put(heron, mention_count=0)
    await world.store.journal.put(
        JournalEntry(
            "p", "ann", "header", f'{{"rows": {{}}, "removals": {{"{RELATION_COLLECTION}": ["{oslo.uuid}"]}}}}', 1
        )
    )

    report = await world.check(repair=True)

    assert {"journal_waiting", "wrong_count", "dangling_reference"} <= set(report.counts)
    assert report.remaining == ()
    assert (await world.check()).is_clean
    assert await world.store.journal.entries("ann") == []


@pytest.mark.parametrize("payload", ['{"rows": 7}', "lost"])
async def test_a_user_with_a_damaged_journal_is_left_alone(payload: str) -> None:
    world = await grown()
    await world.put(await world.entity("Heron"), mention_count=0)
    await world.store.journal.put(JournalEntry("plan", "ann", "header", payload, 1))
    if payload == "lost":
        assert isinstance(world.store, InMemoryGraphStore)
        with world.store._connection.tables() as tables:
            tables[JOURNAL_COLLECTION] = {"plan:0": tables[JOURNAL_COLLECTION]["plan:0"]}

    report = await world.check(None, repair=True)

    assert {"journal_damaged", "wrong_count"} <= set(report.counts)
    assert len(report.remaining) == len(report.findings)
    assert (await world.entity("Heron")).mention_count == 0


async def test_what_waits_to_be_resumed_is_no_finding() -> None:
    world = await grown()
    world.mind.llm.replies["EntityExtraction"] = ModelServiceError("The endpoint is gone.", retryable=False)
    with pytest.raises(LLMCallError):
        await world.mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "Ida sings.")

    report = await world.check()

    assert len(await world.mind.memory.pending("ann")) == 1
    assert report.is_clean


# --- everyone ---------------------------------------------------------------------------------------------------------


async def test_every_user_is_found_a_page_at_a_time() -> None:
    world = World(taught())
    users = ["ann", "Ann", "z", "华为", "🙂", '"quoted\\"', "ann b", "~"]
    for user in users:
        for number in range(4):
            await world.put(Episode(user_id=user, language="en", content=f"{number}"))
    await world.store.journal.put(JournalEntry("p", "only in the journal", "pending", "{}", 1))

    found = await recall_users(world.store, page=3)

    assert found == sorted([*users, "only in the journal"])


def test_reports_add_up_and_long_ones_are_cut() -> None:
    findings = tuple(
        Finding("orphan", ENTITY_COLLECTION, f"{number}", "ann", "alone", repaired=number < 10) for number in range(60)
    )
    first = CheckReport(findings[:30], {ENTITY_COLLECTION: 2}, 1)

    both = first + CheckReport(findings[30:], {ENTITY_COLLECTION: 3, EPISODE_COLLECTION: 1}, 1)

    assert (both.counts, both.users, both.checked[ENTITY_COLLECTION]) == ({"orphan": 60}, 2, 5)
    assert len(both.remaining) == 50
    assert str(both).splitlines()[-1] == "  ... and 10 more"
