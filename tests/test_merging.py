"""Fusing entities because the user says that they are one: seen before, done all at once, right in every respect."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError
from datetime import timedelta

import pytest

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    GraphConfig,
    RRFRankConfig,
    SearchConfig,
)
from jiuwen_memory.errors import (
    EntityNotFoundError,
    EntityTypesDifferError,
    InvalidInputError,
    ModelServiceError,
)
from jiuwen_memory.testing import fake_memory
from tests.memory_support import MAY, Taught, all_entities, all_episodes, all_relations, problems, taught
from tests.merge_support import difference, portrait


async def two(**options: object) -> Taught:
    """Return a memory that knows Bob and Robert Ek: a fact in common, one of each, and one between them."""
    mind = taught(**options)
    await mind.learn(
        "Bob likes tea and knows Robert Ek.",
        types={"Bob": "Human", "tea": "Entity", "Robert Ek": "Human"},
        said=[
            ("Bob", "likes", "tea", "He likes tea."),
            ("Bob", "knows", "Robert Ek", "Bob knows Robert Ek."),
        ],
        summaries={"Bob": "A drinker of tea.", "Robert Ek": "An acquaintance."},
        source="bob.txt",
        reference_time=MAY,
    )
    await mind.learn(
        "Robert Ek likes tea and plays chess. Rob plays well.",
        types={"Robert Ek": "Human", "tea": "Entity", "chess": "Entity"},
        said=[
            ("Robert Ek", "likes", "tea", "He likes tea.", "2020"),
            ("Robert Ek", "plays", "chess", "Robert Ek plays chess."),
        ],
        same={"Robert Ek": ["Robert Ek"], "tea": ["tea"]},
        summaries={"Robert Ek": "A player."},
        source="robert.txt",
        reference_time=MAY + timedelta(days=1),
    )
    return mind


async def ids_of(mind: Taught, *names: str) -> list[str]:
    found = await all_entities(mind.memory)
    return [found[name].uuid for name in names]


async def everything(mind: Taught, user: str = "ann") -> list[object]:
    collections = (ENTITY_COLLECTION, RELATION_COLLECTION, EPISODE_COLLECTION)
    found: list[object] = []
    for name in collections:
        found += [each async for each in mind.memory.objects(name, user)]
    return found


async def test_a_merge_is_shown_and_not_done_unless_asked_for() -> None:
    mind = await two()
    bob, robert = await ids_of(mind, "Bob", "Robert Ek")
    before, calls = await everything(mind), mind.llm.calls

    preview = await mind.memory.merge("ann", bob, robert)

    assert await everything(mind) == before
    assert mind.llm.calls == calls
    assert await mind.memory.db_backend.journal.entries("ann") == []
    assert [each.uuid for each in preview.fused] == [robert]
    assert sorted(each.content for each in preview.rewired) == ["Bob knows Robert Ek.", "Robert Ek plays chess."]
    assert [(pair.gone.content, pair.into.content) for pair in preview.folded] == [("He likes tea.", "He likes tea.")]
    assert [each.content for each in preview.self_relations] == ["Bob knows Robert Ek."]
    assert (preview.summary_before, preview.summary_after) == ("A drinker of tea.", None)
    assert preview.question == "EntitySummaries"
    assert preview.other_types == ()
    with pytest.raises(FrozenInstanceError):
        preview.question = ""  # type: ignore[misc]


async def test_what_was_shown_is_what_is_done() -> None:
    mind = await two()
    bob, robert = await ids_of(mind, "Bob", "Robert Ek")
    preview = await mind.memory.merge("ann", bob, robert)
    mind.llm.replies["EntitySummaries"] = lambda prompt: {"1": "Drinks tea and plays chess."}

    update = await mind.memory.merge("ann", bob, robert, dry_run=False)

    (kept,) = [each for each in update.updated_entity if each.uuid == bob]
    facts = {each.uuid: each for each in (await all_relations(mind.memory)).values()}
    assert update.removed_entity == {robert}
    assert update.removed_relation == {pair.gone.uuid for pair in preview.folded}
    assert all((facts[each.uuid].lhs, facts[each.uuid].rhs) == (each.lhs, each.rhs) for each in preview.rewired)
    assert kept.content == "Drinks tea and plays chess."
    assert kept.model_dump(exclude={"content", "embedding_key", "merged_from"}) == preview.kept.model_dump(
        exclude={"content", "embedding_key", "merged_from"}
    )


async def test_a_merged_entity_has_the_names_counts_sources_times_and_facts_of_all() -> None:
    mind = await two()
    bob, robert = await ids_of(mind, "Bob", "Robert Ek")

    update = await mind.memory.merge("ann", bob, robert, dry_run=False)

    found = await all_entities(mind.memory)
    facts = await all_relations(mind.memory)
    kept, tea = found["Bob"], facts["He likes tea."]
    assert set(found) == {"Bob", "tea", "chess"}
    assert kept.aliases == ["Robert Ek"]
    assert (kept.mention_count, len(kept.episodes), set(kept.sources)) == (3, 2, {"bob.txt", "robert.txt"})
    assert kept.last_mentioned_at == int((MAY + timedelta(days=1)).timestamp())
    assert (tea.mention_count, len(tea.episodes), set(tea.sources)) == (2, 2, {"bob.txt", "robert.txt"})
    assert tea.valid_since is not None
    assert facts["Bob knows Robert Ek."].obj_type == "EntityFact"
    assert all(set(each.entities) <= {each.uuid for each in found.values()} for each in await all_episodes(mind.memory))
    assert update.usage.calls == 1
    assert (await mind.memory.check("ann")).findings == ()
    assert await problems(mind.memory) == []


async def test_an_alias_that_a_merge_brought_is_found_by_words() -> None:
    mind = await two()
    await mind.learn("Otto slept.", types={"Otto": "Human"})
    only_words = SearchConfig(rank_config=RRFRankConfig(name_dense=False, content_dense=False))
    mind.memory.register_search_strategy("words", search_entity=only_words)
    bob, robert = await ids_of(mind, "Bob", "Robert Ek")

    await mind.memory.merge("ann", bob, robert, dry_run=False)
    found = await mind.memory.search("Robert Ek", "ann", "words", relation=False, episode=False)
    again = await mind.learn("Robert Ek won.", types={"Robert Ek": "Human"}, same={"Robert Ek": ["Bob"]})

    assert bob in [each.uuid for _, each in found["ENTITY_COLLECTION"]]
    assert again.added_entity == []


async def test_without_a_model_the_summaries_are_joined() -> None:
    mind = await two()
    bob, robert = await ids_of(mind, "Bob", "Robert Ek")
    mind.memory.llm_client = None

    preview = await mind.memory.merge("ann", bob, robert)
    await mind.memory.merge("ann", bob, robert, dry_run=False)

    assert (preview.summary_after, preview.question) == ("A drinker of tea. A player.", "")
    assert (await all_entities(mind.memory))["Bob"].content == "A drinker of tea. A player."


async def test_a_model_that_fails_leaves_the_joined_summaries_and_a_warning() -> None:
    mind = await two()
    bob, robert = await ids_of(mind, "Bob", "Robert Ek")
    mind.llm.replies["EntitySummaries"] = ModelServiceError("The endpoint is gone.", retryable=False)

    update = await mind.memory.merge("ann", bob, robert, dry_run=False)

    assert (await all_entities(mind.memory))["Bob"].content == "A drinker of tea. A player."
    assert len(update.warnings) == 1


async def test_several_are_fused_at_once() -> None:
    mind = await two()
    await mind.learn("Rob Ek came.", types={"Rob Ek": "Human"})
    bob, robert, rob = await ids_of(mind, "Bob", "Robert Ek", "Rob Ek")

    update = await mind.memory.merge("ann", bob, robert, rob, dry_run=False)

    assert update.removed_entity == {robert, rob}
    assert (await all_entities(mind.memory))["Bob"].aliases == ["Robert Ek", "Rob Ek"]
    assert (await mind.memory.check("ann")).findings == ()


async def test_other_types_are_fused_only_when_that_is_said_and_then_told() -> None:
    mind = taught()
    await mind.learn("Zibo helps. Zibo sings.", types={"Zibo": "AI", "Zibo Li": "Human"})
    bot, person = await ids_of(mind, "Zibo", "Zibo Li")

    with pytest.raises(EntityTypesDifferError, match="across_types"):
        await mind.memory.merge("ann", bot, person)
    preview = await mind.memory.merge("ann", bot, person, across_types=True)
    update = await mind.memory.merge("ann", bot, person, dry_run=False, across_types=True)

    assert preview.other_types == ("Human",)
    assert [each.obj_type for each in update.updated_entity if each.uuid == bot] == ["AI"]
    assert any("types differ" in each for each in update.warnings)


@pytest.mark.parametrize("dry_run", [True, False])
async def test_ids_that_cannot_be_fused_are_refused(dry_run: bool) -> None:
    mind = await two()
    await mind.learn("Bob sang.", types={"Bob": "Human"}, user="ben")
    bob, robert = await ids_of(mind, "Bob", "Robert Ek")
    (bens,) = (await all_entities(mind.memory, "ben")).values()
    before = await everything(mind)

    with pytest.raises(InvalidInputError, match="nothing to fuse"):
        await mind.memory.merge("ann", bob, dry_run=dry_run)
    for others in ((bob,), (robert, robert)):
        with pytest.raises(InvalidInputError, match="with itself"):
            await mind.memory.merge("ann", bob, *others, dry_run=dry_run)
    for keep, other in ((bob, "0" * 32), (bens.uuid, bob), (bob, bens.uuid)):
        with pytest.raises(EntityNotFoundError, match="no entity with the id"):
            await mind.memory.merge("ann", keep, other, dry_run=dry_run)
    for keep, other in (("", bob), (bob, "")):
        with pytest.raises(InvalidInputError, match="no id"):
            await mind.memory.merge("ann", keep, other, dry_run=dry_run)
    with pytest.raises(InvalidInputError):
        await mind.memory.merge("", bob, robert, dry_run=dry_run)
    assert await everything(mind) == before
    assert len(await everything(mind, "ben")) == 2


async def test_a_merge_waits_for_an_add_of_the_same_user_and_neither_is_lost() -> None:
    mind = await two()
    mind.llm.latency = 0.01
    bob, robert = await ids_of(mind, "Bob", "Robert Ek")

    await asyncio.gather(
        mind.learn(
            "Robert Ek won a cup.", types={"Robert Ek": "Human", "cup": "Entity"}, same={"Robert Ek": ["Robert"]}
        ),
        mind.memory.merge("ann", bob, robert, dry_run=False),
    )

    found = await all_entities(mind.memory)
    assert set(found) == {"Bob", "tea", "chess", "cup"}
    assert found["Bob"].mention_count == 4
    assert (await mind.memory.check("ann")).findings == ()


async def test_lists_that_are_full_keep_the_newest_after_a_merge() -> None:
    base = fake_memory().config.db_storage_config
    config = GraphConfig(
        uri="short-lists",
        backend="memory",
        embed_dim=64,
        db_storage_config=base.model_copy(update={"relations": 3, "episodes": 3}),
    )
    mind = taught(config=config)
    for name in ("Bob", "Robert"):
        for number in range(3):
            await mind.learn(
                f"{name} has toy {number}.",
                types={name: "Human", f"toy {number}": "Entity"},
                said=[(name, "has", f"toy {number}", f"{name} has toy {number}.")],
                same={name: [name], "toy": [f"toy {number}"]},
            )
    bob, robert = await ids_of(mind, "Bob", "Robert")

    await mind.memory.merge("ann", bob, robert, dry_run=False)
    fused = (await all_entities(mind.memory))["Bob"]
    checked = await mind.memory.check("ann")
    await mind.memory.unmerge("ann", bob)

    facts = await all_relations(mind.memory)
    assert (len(fused.relations), len(fused.episodes), fused.mention_count) == (3, 3, 6)
    assert checked.findings == (await mind.memory.check("ann")).findings == ()
    apart = await all_entities(mind.memory)
    assert all(fact.lhs == apart[fact.content.split()[0]].uuid for fact in facts.values())


async def test_merging_back_after_taking_apart_gives_the_same_graph() -> None:
    mind = await two()
    bob, robert = await ids_of(mind, "Bob", "Robert Ek")
    mind.memory.llm_client = None
    await mind.memory.merge("ann", bob, robert, dry_run=False)
    once = await portrait(mind.memory)

    await mind.memory.unmerge("ann", bob)
    await mind.memory.merge("ann", bob, robert, dry_run=False)

    assert [each for each in difference(await portrait(mind.memory), once) if '"merged_from": []' in each] == []
