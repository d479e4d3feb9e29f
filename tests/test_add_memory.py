"""The write path: what an add leaves in the graph, and what each switch of its strategy does."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, Field, JsonValue

from jiuwen_memory import AddMemStrategy, EntityDef, EpisodeType, GraphConfig, GraphStoreStorageConfig, RelationDef
from jiuwen_memory.errors import (
    EmbedderNotFoundError,
    LanguageError,
    LLMAnswerError,
    LLMCallError,
    ModelNotFoundError,
    PromptFilesMissingError,
    SetupError,
    StoreParameterError,
)
from jiuwen_memory.memory_core.config.graph import EpisodeRetrievalStrategy, RetrievalStrategy
from jiuwen_memory.memory_core.graph.extraction.base import Words
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, Script, fake_memory
from tests.memory_support import (
    ENGLISH,
    MAY,
    all_entities,
    all_episodes,
    all_relations,
    entities,
    facts,
    problems,
    taught,
)

HUNT = ("Ada Hunt", "works at", "Corvid Labs", "Ada Hunt works at Corvid Labs.")
WHO = {"Ada Hunt": "Human", "Corvid Labs": "Entity"}


async def test_a_document_becomes_an_episode_its_entities_and_its_facts() -> None:
    mind = taught()
    text = "Since March 2024 Ada Hunt works at Corvid Labs."

    update = await mind.learn(
        text,
        types=WHO,
        said=[HUNT],
        since="March 2024",
        summaries={"Ada Hunt": "An engineer.", "Corvid Labs": "Ada's employer."},
        reference_time=MAY,
        source="letter.txt",
    )

    (episode,), (fact,) = update.added_episode, update.added_relation
    found = await all_entities(mind.memory)
    assert {each.name: each.obj_type for each in update.added_entity} == WHO
    assert (episode.obj_type, episode.content, episode.valid_since) == ("DOCUMENT", text, int(MAY.timestamp()))
    assert set(episode.entities) == {each.uuid for each in found.values()}
    assert (fact.lhs, fact.rhs) == (found["Ada Hunt"].uuid, found["Corvid Labs"].uuid)
    assert (fact.valid_since, fact.precision_since, fact.valid_until) == (1709251200, "month", None)
    assert found["Ada Hunt"].content == "An engineer."
    assert found["Ada Hunt"].relations == [fact.uuid]
    assert found["Ada Hunt"].episodes == fact.episodes == [episode.uuid]
    assert found["Ada Hunt"].sources == fact.sources == ["letter.txt"]
    assert found["Ada Hunt"].mention_count == fact.mention_count == 1
    assert await problems(mind.memory) == []


async def test_an_update_and_the_store_say_the_same() -> None:
    mind = taught()

    update = await mind.learn(HUNT[3], types=WHO, said=[HUNT], summaries={"Ada Hunt": "An engineer."})

    stored = [*await all_episodes(mind.memory), *(await all_entities(mind.memory)).values()]
    stored += (await all_relations(mind.memory)).values()
    assert {each.uuid: each for each in update.objects()} == {each.uuid: each for each in stored}


async def test_a_text_that_names_nothing_is_still_an_episode_and_can_be_found() -> None:
    mind = taught()

    update = await mind.learn("It rained all day.")

    found = await mind.memory.search("rain", "ann")
    assert (update.added_entity, update.added_relation) == ([], [])
    assert [each.content for _, each in found["EPISODE_COLLECTION"]] == ["It rained all day."]


async def test_a_second_mention_is_counted_and_the_new_description_replaces_the_old() -> None:
    mind = taught()
    await mind.learn(HUNT[3], types=WHO, said=[HUNT], summaries={"Ada Hunt": "An engineer."}, reference_time=MAY)

    update = await mind.learn(
        "Ada Hunt of Corvid Labs moved to Bergen.",
        types={**WHO, "Bergen": "Entity"},
        said=[("Ada Hunt", "moved to", "Bergen", "Ada Hunt moved to Bergen.")],
        summaries={"Ada Hunt": "An engineer in Bergen."},
        reference_time=MAY.replace(day=9),
    )

    ada = (await all_entities(mind.memory))["Ada Hunt"]
    assert [each.name for each in update.added_entity] == ["Bergen"]
    assert {each.name for each in update.updated_entity} == set(WHO)
    assert (ada.mention_count, len(ada.episodes), len(ada.relations)) == (2, 2, 2)
    assert ada.content == "An engineer in Bergen."
    assert ada.last_mentioned_at is not None and ada.first_mentioned_at is not None
    assert ada.last_mentioned_at - ada.first_mentioned_at == 24 * 3600


async def test_an_empty_description_leaves_the_old_one() -> None:
    mind = taught()
    await mind.learn(HUNT[3], types=WHO, said=[HUNT], summaries={"Ada Hunt": "An engineer."})

    await mind.learn(
        "Ada Hunt likes Corvid Labs.", types=WHO, said=[("Ada Hunt", "likes", "Corvid Labs", "Ada Hunt likes it.")]
    )

    assert (await all_entities(mind.memory))["Ada Hunt"].content == "An engineer."


async def test_usage_counts_calls_rounds_and_tokens_by_question() -> None:
    mind = taught()

    update = await mind.learn(HUNT[3], types=WHO, said=[HUNT])

    usage = update.usage
    assert (usage.calls, usage.rounds, usage.reasked) == (4, 3, 0)
    assert usage.calls == mind.llm.calls
    assert {name: each.calls for name, each in usage.questions.items()} == {
        "entities": 1,
        "timezone": 1,
        "relations": 1,
        "summaries": 1,
    }
    assert usage.input_tokens == sum(each.input_tokens for each in usage.questions.values()) > 0


async def test_adding_needs_an_embedder_and_a_model() -> None:
    config = GraphConfig(uri="add-needs", backend="memory", embed_dim=64)
    bare, deaf = GraphMemory(config, FakeLLM()), GraphMemory(config)
    deaf.attach_embedder(FakeEmbedder())

    with pytest.raises(EmbedderNotFoundError, match="attach_embedder") as no_embedder:
        await bare.add_memory(EpisodeType.DOCUMENT, "ann", "A text.")
    with pytest.raises(ModelNotFoundError, match="llm_client"):
        await deaf.add_memory(EpisodeType.DOCUMENT, "ann", "A text.")

    assert no_embedder.value.code == "MEMORY_GRAPH_EMBED_MODEL_NOT_FOUND"


async def test_an_embedder_may_come_with_the_configuration() -> None:
    config = GraphConfig(uri="embedder-inside", backend="memory", embed_dim=64, embedding_model=FakeEmbedder())
    memory = GraphMemory(config, FakeLLM(), language="en")

    update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", "A text.")

    assert len(update.added_episode) == 1


# --- language and prompts ---------------------------------------------------------------------------------------------


def test_a_language_that_is_neither_english_nor_chinese_is_refused() -> None:
    with pytest.raises(LanguageError, match="'cn' or 'en'") as refusal:
        fake_memory(language="de")

    assert refusal.value.code == "MEMORY_GRAPH_LANGUAGE_INVALID"


@pytest.mark.parametrize(
    ("language", "changes", "chinese"),
    [
        ("en", {"chinese_entity": False}, set()),
        ("en", {}, {"EntityExtraction"}),
        ("en", {"chinese_entity": False, "chinese_entity_dedupe": True}, {"EntityDuplication"}),
        ("en", {"chinese_entity": False, "chinese_relation": True}, {"RelationExtraction"}),
        (
            "cn",
            {"chinese_entity": False},
            {"EntityExtraction", "TimezonePredictions", "RelationExtraction", "EntityDuplication", "EntitySummaries"},
        ),
    ],
)
async def test_each_question_is_asked_in_the_language_its_switch_says(
    language: str, changes: dict[str, bool], chinese: set[str]
) -> None:
    mind = taught(language=language, strategy=AddMemStrategy.model_validate(changes))
    await mind.learn(HUNT[3], types=WHO, said=[HUNT])

    await mind.learn("Ada H. left.", types={"Ada H.": "Human"}, said=[("Ada H.", "left", "Ada H.", "Ada H. left.")])

    asked = {
        prompt.question for prompt in mind.llm.prompts if any("\u4e00" <= char <= "\u9fff" for char in prompt.text)
    }
    assert asked == chinese
    assert {each.language for each in await all_episodes(mind.memory)} == {language}


async def test_a_prompt_of_the_users_folder_replaces_ours_and_the_others_stay(tmp_path: Path) -> None:
    (tmp_path / "en").mkdir()
    own = "=== system ===\nName the birds only.\n=== user ===\n{{ text }}\n"
    (tmp_path / "en" / "entities.md").write_text(own, encoding="utf-8")
    mind = taught(prompts=tmp_path)

    await mind.learn("A heron.", types={"Heron": "Entity"})

    assert mind.llm.asked("EntityExtraction")[0].text == "Name the birds only.\nA heron."
    assert "<text>" in mind.llm.asked("RelationExtraction")[0].text


async def test_a_prompt_that_uses_unknown_variables_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "entities.md").write_text("=== user ===\n{{ no_such_thing }}\n", encoding="utf-8")
    mind = taught(prompts=tmp_path)

    with pytest.raises(PromptFilesMissingError, match=r"en/entities\.md"):
        await mind.learn("A heron.")

    assert await all_episodes(mind.memory) == []


async def test_debug_logs_each_question_with_input_and_output(caplog: pytest.LogCaptureFixture) -> None:
    mind = taught(debug=True)

    with caplog.at_level(logging.INFO, logger="jiuwen_memory"):
        await mind.learn("A heron stood there.", types={"Heron": "Entity"})

    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert "Prompt entities" in logged
    assert "A heron stood there." in logged
    assert '"Heron"' in logged


async def test_without_debug_no_text_of_the_user_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    mind = taught()

    with caplog.at_level(logging.DEBUG):
        await mind.learn("A heron stood there.", types={"Heron": "Entity"})

    assert "heron" not in caplog.text.casefold()


async def test_extra_arguments_reach_every_call_of_the_model() -> None:
    class Curious(FakeLLM):
        async def invoke(self, **arguments: object) -> object:  # type: ignore[override]
            self.given = [*getattr(self, "given", []), arguments.get("temperature")]
            return await super().invoke(**arguments)  # type: ignore[arg-type]

    llm = Curious()
    mind = taught(llm=llm, llm_extra_kwargs={"temperature": 0.25})

    await mind.learn(HUNT[3], types=WHO, said=[HUNT])

    assert llm.given == [0.25] * 4


async def test_without_structured_output_the_form_is_in_the_prompt() -> None:
    class Plain(FakeLLM):
        async def invoke(self, **arguments: object) -> object:  # type: ignore[override]
            assert "response_format" not in arguments
            self.texts = [*getattr(self, "texts", []), str(arguments["messages"])]
            answer = type("Answer", (), {"content": json.dumps(entities({})), "usage": None})
            return answer()

    llm = Plain()
    memory = fake_memory(llm=llm, llm_structured_output=False)

    update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", "A text.")

    assert len(update.added_episode) == 1
    assert any("Form: {" in text for text in llm.texts)


# --- switches ---------------------------------------------------------------------------------------------------------


async def test_without_merge_relations_no_verdict_is_asked_and_only_equal_words_are_one() -> None:
    mind = taught(strategy=ENGLISH.model_copy(update={"merge_relations": False}))
    await mind.learn(HUNT[3], types=WHO, said=[HUNT])

    await mind.learn(
        "Ada Hunt is employed by Corvid Labs.",
        types=WHO,
        said=[("Ada Hunt", "employed by", "Corvid Labs", "Ada Hunt is employed by Corvid Labs.")],
        repeats={"Ada Hunt is employed": ["Ada Hunt works"]},
    )

    assert mind.llm.asked("RelationVerdicts") == []
    assert len(await all_relations(mind.memory)) == 2


async def test_the_summary_target_is_told_to_the_model_and_people_may_have_twice_as_much() -> None:
    mind = taught(strategy=ENGLISH.model_copy(update={"summary_target": 80}))

    await mind.learn(HUNT[3], types=WHO, said=[HUNT])

    (prompt,) = mind.llm.asked("EntitySummaries")
    lengths: dict[str, Any] = dict(prompt.schema["properties"])  # type: ignore[call-overload]
    assert "160" in prompt.text
    assert {number: each["maxLength"] for number, each in lengths.items()} == {
        str(prompt.number("Ada Hunt")): 320,
        str(prompt.number("Corvid Labs")): 160,
    }


async def test_items_beyond_a_batch_are_asked_in_calls_of_their_own_at_once() -> None:
    mind = taught(strategy=ENGLISH.model_copy(update={"batch_items": 2}))
    names = [f"Island {letter}" for letter in "ABCDE"]

    update = await mind.learn(" ".join(names), types=dict.fromkeys(names, "Entity"))

    assert len(mind.llm.asked("EntitySummaries")) == 3
    assert update.usage.rounds == 3


async def test_a_small_model_is_asked_one_pair_at_a_time() -> None:
    mind = taught(strategy=AddMemStrategy.small_model(extraction="staged", judge_entities=True))
    await mind.learn(HUNT[3], types=WHO, said=[HUNT])
    mind.llm.replies = {"EntityExtraction": entities({"Ada H.": "Human", "Corvid L.": "Entity"})}

    await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "Ada H. of Corvid L. left.")

    asked = mind.llm.asked("EntityDuplication")
    assert len(asked) >= 2
    assert all(len(prompt.lines()) <= 4 for prompt in asked)


async def test_earlier_episodes_from_after_the_reference_time_are_not_shown_unless_wanted() -> None:
    later = "The heron of Bergen nests in May."
    shown = []
    for exclude in (True, False):
        recall = EpisodeRetrievalStrategy(min_score=0.0, exclude_future_results=exclude)
        mind = taught(strategy=ENGLISH.model_copy(update={"recall_episode": recall}))
        await mind.learn(later, reference_time=MAY)

        await mind.learn("The heron of Bergen came.", reference_time=MAY.replace(year=2020))

        shown.append(later in mind.llm.asked("EntityExtraction")[1].text)
    assert shown == [False, True]


async def test_same_kind_keeps_history_to_episodes_of_one_type() -> None:
    shown = []
    for same_kind in (True, False):
        recall = EpisodeRetrievalStrategy(min_score=0.0, same_kind=same_kind)
        mind = taught(strategy=ENGLISH.model_copy(update={"recall_episode": recall}))
        await mind.memory.add_memory(EpisodeType.JSON, "ann", {"bird": "heron"})

        await mind.learn("The heron came.")

        shown.append('{"bird": "heron"}' in mind.llm.asked("EntityExtraction")[1].text)
    assert shown == [False, True]


async def test_entity_recall_of_the_same_kind_offers_no_candidates_of_another_type() -> None:
    offered = []
    for same_kind in (True, False):
        recall = RetrievalStrategy(min_score=0.0, same_kind=same_kind)
        mind = taught(strategy=ENGLISH.model_copy(update={"recall_entity": recall}))
        await mind.learn("Heron was here.", types={"Heron": "Human"})

        await mind.learn("Herons was here.", types={"Herons": "Entity"})

        offered.append(len(mind.llm.asked("EntityDuplication")))
    assert offered == [0, 1]


async def test_top_k_bounds_the_candidates_of_a_name() -> None:
    mind = taught(strategy=ENGLISH.model_copy(update={"recall_entity": RetrievalStrategy(top_k=2, min_score=0.0)}))
    names = [f"Corvid Labs {place}" for place in ("North", "South", "East", "West")]
    await mind.learn(" ".join(names), types=dict.fromkeys(names, "Entity"))

    await mind.learn("Corvid Lab", types={"Corvid Lab": "Entity"})

    (prompt,) = mind.llm.asked("EntityDuplication")
    assert len(prompt.numbers("Corvid Labs")) == 2


async def test_skip_uuid_dedupe_is_accepted_and_changes_no_result() -> None:
    mind = taught(strategy=ENGLISH.model_copy(update={"skip_uuid_dedupe": True}))

    update = await mind.learn(HUNT[3], types=WHO, said=[HUNT])

    assert (len(update.added_entity), len(update.added_relation)) == (2, 1)


# --- types of one's own -----------------------------------------------------------------------------------------------


class Ship(BaseModel):
    """A vessel with a name."""

    tonnage: str | None = Field(default=None, description="how many tons it carries")


class Harbour(EntityDef):
    name: ClassVar[str] = "Harbour"
    description: ClassVar[Words] = Words(en="a place where ships land", cn="港口")

    depth: str | None = None


class Calls(RelationDef):
    name: ClassVar[str] = "calls_at"
    description: ClassVar[Words] = Words(en="a ship lands in a harbour", cn="船停靠港口")
    lhs: ClassVar[tuple[str, ...]] = ("Ship",)
    rhs: ClassVar[tuple[str, ...]] = ("Harbour",)

    berth: str | None = None


async def test_entity_types_of_ones_own_are_offered_described_and_stored_with_their_attributes() -> None:
    mind = taught(entity_types=[Ship, Harbour])
    mind.llm.replies.update(
        {
            "EntityExtraction": entities({"Aurelia": "Ship", "Narvik": "Harbour"}),
            "EntitySummaries": lambda prompt: {
                str(prompt.number("Aurelia")): {"summary": "A ship.", "attributes": {"tonnage": "900 t"}},
                str(prompt.number("Narvik")): {"summary": "A harbour.", "attributes": {"depth": None}},
            },
        }
    )

    await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "The Aurelia, 900 t, lay in Narvik.")

    found = await all_entities(mind.memory)
    asked = mind.llm.asked("EntityExtraction")[0].text
    assert "Ship - A vessel with a name." in asked
    assert "Harbour - a place where ships land" in asked
    assert "Human - a person" in asked
    assert "how many tons it carries" in mind.llm.asked("EntitySummaries")[0].text
    assert (found["Aurelia"].obj_type, found["Aurelia"].attributes) == ("Ship", {"tonnage": "900 t"})
    assert (found["Narvik"].obj_type, found["Narvik"].attributes) == ("Harbour", {})


async def test_descriptions_of_types_are_in_the_language_of_the_question() -> None:
    mind = taught(entity_types=[Harbour], language="cn")

    await mind.learn("船在纳尔维克。")

    assert "Harbour：港口" in mind.llm.asked("EntityExtraction")[0].text


async def test_relation_types_of_ones_own_keep_their_attributes_as_qualifiers() -> None:
    mind = taught(entity_types=[Ship, Harbour], relation_types=[Calls])
    call: JsonValue = {
        "fact": "The Aurelia lay in Narvik at berth 4.",
        "name": "Calls_At",
        "source": "Aurelia",
        "target": "Narvik",
        "attributes": {"berth": "4"},
    }
    mind.llm.replies["EntityExtraction"] = entities({"Aurelia": "Ship", "Narvik": "Harbour"})
    mind.llm.replies["RelationExtraction"] = {"relations": [call]}

    update = await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "The Aurelia lay in Narvik at berth 4.")

    (fact,) = update.added_relation
    assert "calls_at (Ship -> Harbour) - a ship lands in a harbour" in mind.llm.asked("RelationExtraction")[0].text
    assert (fact.name, fact.qualifiers) == ("calls_at", {"berth": "4"})


def test_a_type_whose_name_does_not_fit_its_field_is_refused_at_once() -> None:
    class AssociationOfHarbourMasters(BaseModel):
        """Those who look after harbours."""

    with pytest.raises(SetupError, match=r"AssociationOfHarbourMasters.*GraphStoreStorageConfig\.obj_type"):
        fake_memory(entity_types=[AssociationOfHarbourMasters])


# --- limits -----------------------------------------------------------------------------------------------------------


async def test_names_and_summaries_are_cut_to_what_the_store_holds_and_the_update_says_so() -> None:
    storage = GraphStoreStorageConfig(name=40, content=2000)
    mind = taught(config=GraphConfig(uri="limits", backend="memory", embed_dim=64, db_storage_config=storage))
    name = "数据平台" * 5
    listed = name[:13]
    fact = (listed, "is", listed, "极" * 400)

    update = await mind.learn(name, types={name: "Entity"}, said=[fact], summaries={listed: "大" * 400})

    (entity,), (relation,) = update.added_entity, update.added_relation
    assert entity.name == listed
    assert entity.content == "大" * 166
    assert relation.content == "极" * 166
    assert len([warning for warning in update.warnings if "cut" in warning]) == 3


async def test_a_row_that_the_store_would_refuse_never_reaches_the_journal() -> None:
    storage = GraphStoreStorageConfig(uuid=8)
    config = GraphConfig(uri="narrow", backend="memory", embed_dim=64, db_storage_config=storage)
    narrow = taught(config=config)

    with pytest.raises(StoreParameterError, match="uuid"):
        await narrow.learn("A text.")

    assert await narrow.memory.db_backend.journal.entries() == []
    assert await all_episodes(narrow.memory) == []


async def test_a_speakers_name_is_cut_to_what_the_store_holds() -> None:
    storage = GraphStoreStorageConfig(name=10)
    mind = taught(config=GraphConfig(uri="refused", backend="memory", embed_dim=64, db_storage_config=storage))
    messages = [{"role": "user", "content": "hello"}]
    long_name = {"user": "é" * 400}

    update = await mind.memory.add_memory(EpisodeType.CONVERSATION, "ann", messages, content_fmt_kwargs=long_name)

    assert update.added_episode[0].speakers == ["é" * 5]
    assert any("speaker" in warning for warning in update.warnings)
    assert await problems(mind.memory) == []


async def test_attributes_that_do_not_fit_are_left_out_with_a_warning() -> None:
    mind = taught(entity_types=[Ship])
    described: JsonValue = {"summary": "A ship.", "attributes": {"tonnage": "9" * 70_000}}
    mind.llm.replies["EntityExtraction"] = entities({"Aurelia": "Ship"})
    mind.llm.replies["EntitySummaries"] = {"1": described}

    update = await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "The Aurelia.")

    (ship,) = update.added_entity
    assert (ship.content, ship.attributes) == ("A ship.", {})
    assert any("attributes" in warning for warning in update.warnings)


async def test_a_hub_keeps_the_newest_references_up_to_the_limit() -> None:
    storage = GraphStoreStorageConfig(relations=3, episodes=3)
    mind = taught(config=GraphConfig(uri="hub", backend="memory", embed_dim=64, db_storage_config=storage))
    for place in ("Oslo", "Bergen", "Narvik", "Bodin", "Molde"):
        await mind.learn(
            f"Ada Hunt saw {place}.",
            types={"Ada Hunt": "Human", place: "Entity"},
            said=[("Ada Hunt", "saw", place, f"Ada Hunt saw {place}.")],
            same={"Ada Hunt": ["Ada Hunt"]},
        )

    ada = (await all_entities(mind.memory))["Ada Hunt"]
    facts_by_text = await all_relations(mind.memory)
    newest = [facts_by_text[f"Ada Hunt saw {place}."].uuid for place in ("Narvik", "Bodin", "Molde")]
    assert ada.mention_count == 5
    assert ada.relations == newest
    assert len(ada.episodes) == 3
    assert len(facts_by_text) == 5


# --- when the model fails ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["EntityExtraction", "RelationExtraction"])
async def test_a_model_that_cannot_extract_fails_the_add_and_nothing_is_stored(question: str) -> None:
    config = GraphConfig(uri=f"failing-{question}", backend="memory", embed_dim=64, request_max_retries=1)
    replies = {"EntityExtraction": entities(WHO), "RelationExtraction": facts(HUNT)}
    memory = fake_memory({**replies, question: ConnectionError("down")}, config=config)

    with pytest.raises(LLMCallError, match="down"):
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", HUNT[3])

    assert await all_episodes(memory) == []
    assert await all_entities(memory) == {}


@pytest.mark.parametrize(
    ("question", "kept"),
    [("TimezonePredictions", "times are read as UTC"), ("EntitySummaries", "the old descriptions stay")],
)
async def test_a_question_that_may_go_unanswered_leaves_a_warning(question: str, kept: str) -> None:
    config = GraphConfig(uri=f"degrading-{question}", backend="memory", embed_dim=64, request_max_retries=1)
    replies = {"EntityExtraction": entities(WHO), "RelationExtraction": facts(HUNT)}
    memory = fake_memory({**replies, question: ConnectionError("down")}, config=config)

    update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", HUNT[3])

    assert len(update.added_relation) == 1
    assert any(kept in warning for warning in update.warnings)


async def test_a_reply_with_nothing_usable_is_asked_for_once_more_with_a_shorter_prompt() -> None:
    llm = FakeLLM({"EntityExtraction": Script(["no idea", entities(WHO)])})
    mind = taught(llm=llm)

    update = await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", HUNT[3])

    first, second = llm.asked("EntityExtraction")
    assert {each.name for each in update.added_entity} == set(WHO)
    assert len(second.text) < len(first.text)
    assert update.usage.reasked == 1


async def test_a_model_that_never_says_anything_usable_fails_with_its_last_reply() -> None:
    memory = fake_memory({"EntityExtraction": "no idea"})

    with pytest.raises(LLMAnswerError) as failure:
        await memory.add_memory(EpisodeType.DOCUMENT, "ann", HUNT[3])

    assert failure.value.reply == "no idea"
    assert await all_episodes(memory) == []


async def test_bad_items_are_dropped_with_warnings_and_good_ones_stay() -> None:
    memory = fake_memory(
        {
            "EntityExtraction": {"entities": [{"name": "Ada Hunt", "type": "Human"}, {"name": None}, {"name": "she"}]},
            "RelationExtraction": {
                "relations": [
                    {"fact": "Ada Hunt is kind.", "name": "is", "source": "Ada Hunt", "target": "Ada Hunt"},
                    {"fact": "Lost.", "name": "is", "source": "Nobody", "target": "Ada Hunt"},
                ]
            },
        }
    )

    update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Ada Hunt is kind.")

    assert [each.name for each in update.added_entity] == ["Ada Hunt"]
    assert [each.content for each in update.added_relation] == ["Ada Hunt is kind."]
    assert len(update.warnings) == 3


async def test_the_model_is_not_asked_about_duplicates_when_there_are_no_candidates() -> None:
    mind = taught()

    await mind.learn(HUNT[3], types=WHO, said=[HUNT])

    assert mind.llm.asked("EntityDuplication") == mind.llm.asked("RelationVerdicts") == []
