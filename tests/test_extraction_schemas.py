"""Answer models, their schemas in two languages, and the types of entities and relations."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import BaseModel, ConfigDict, Field

from jiuwen_memory.memory_core.config.graph import EpisodeType, Language
from jiuwen_memory.memory_core.graph.extraction.base import MultilingualBaseModel, Words
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import (
    DEFAULT_ENTITY_TYPES,
    EntityDef,
    HumanEntity,
    RelationDef,
    as_entity_def,
    as_relation_def,
)
from jiuwen_memory.memory_core.graph.extraction.extraction_models import (
    EntityDuplication,
    EntityExtraction,
    EntitySummaries,
    RelationExtraction,
    RelationVerdicts,
    RelevantFacts,
    TimezonePredictions,
)
from jiuwen_memory.memory_core.graph.extraction.questions import (
    ask_entities,
    ask_entity_duplicates,
    ask_relations,
    ask_summaries,
)
from jiuwen_memory.memory_core.graph.extraction.values import Described, DuplicateCase, Mention, SourceText, SummaryCase
from tests.extraction_support import TALK, ScriptedModel, asker_for

MODELS: tuple[type[MultilingualBaseModel], ...] = (
    EntityDuplication,
    EntityExtraction,
    EntitySummaries,
    RelationExtraction,
    RelationVerdicts,
    RelevantFacts,
    TimezonePredictions,
)


def objects_in(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [found for part in value for found in objects_in(part)]
    if not isinstance(value, dict):
        return []
    own = [value] if value.get("type") == "object" else []
    return own + [found for part in value.values() for found in objects_in(part)]


@pytest.mark.parametrize("language", ["en", "cn"])
@pytest.mark.parametrize("model", MODELS)
def test_every_schema_is_named_closed_and_without_references(
    model: type[MultilingualBaseModel], language: Language
) -> None:
    form = model.response_format(language)

    assert form["json_schema"]["name"] == model.__name__
    assert "$ref" not in json.dumps(form)
    for schema in objects_in(form["json_schema"]["schema"]):
        assert "additionalProperties" in schema
        assert list(schema.get("properties", {})) == schema.get("required", [])


def test_field_wording_is_in_the_language_asked_for() -> None:
    wording = {
        language: EntityExtraction.multilingual_model_json_schema(language)["properties"]["entities"]["items"][
            "properties"
        ]["name"]["description"]
        for language in ("en", "cn")
    }

    assert wording == {"en": "name as written in the text", "cn": "原文中的名称"}


def test_a_strict_schema_leaves_out_lengths_of_strings() -> None:
    assert "maxLength" in json.dumps(TimezonePredictions.multilingual_model_json_schema("en"))
    assert "maxLength" not in json.dumps(TimezonePredictions.multilingual_model_json_schema("en", strict=True))


def test_a_readable_schema_reads_like_an_example() -> None:
    changes = {"entities[].type": {"enum": ["Human", "AI"]}}

    assert EntityExtraction.readable_schema("cn", changes=changes) == (
        '{"entities": [{"name": 原文中的名称, "type": "Human" | "AI"}, ...]}'
    )


async def test_without_structured_output_the_readable_schema_is_in_the_prompt() -> None:
    model = ScriptedModel([{"entities": []}])

    await ask_entities(TALK, types=DEFAULT_ENTITY_TYPES, language="en", asker=asker_for(model, structured_output=False))

    assert model.calls[0]["response_format"] == {}
    assert '"type": "Entity" | "Human" | "AI"' in model.prompt()


async def test_the_schema_of_a_call_names_its_ids() -> None:
    model = ScriptedModel([{"duplicates": []}])
    cases = [DuplicateCase(Described("A", "Human"), (Described("B", "Human"), Described("C", "Human")))] * 2

    await ask_entity_duplicates(TALK, cases, language="en", judge_items=20, asker=asker_for(model))

    listed = model.schema()["properties"]["duplicates"]
    assert (listed["minItems"], listed["maxItems"]) == (2, 2)
    assert listed["items"]["properties"]["id"]["enum"] == [1, 4]
    assert listed["items"]["properties"]["same"]["items"]["enum"] == [2, 3, 5, 6]


async def test_summaries_are_keyed_and_bounded() -> None:
    model = ScriptedModel([{"1": "a", "2": {"summary": "b", "attributes": {}}}])
    cases = [SummaryCase("A", "Human", target_length=50), SummaryCase("B", "Company", kind=as_entity_def(Company))]

    await ask_summaries(TALK, cases, language="en", batch_items=9, asker=asker_for(model))

    schema = model.schema()
    assert schema["required"] == ["1", "2"]
    assert schema["properties"]["1"] == {"type": "string", "maxLength": 100}
    assert list(schema["properties"]["2"]["properties"]["attributes"]["properties"]) == ["city", "size"]


class Company(BaseModel):
    """A business   firm."""

    city: Annotated[str | None, Words(en="seat", cn="总部")] = None
    size: int | None = Field(default=None, description="people")


class Dog(EntityDef):
    name: ClassVar[str] = "Dog"
    description: ClassVar[Words] = Words(en="a dog", cn="狗")
    attributes: ClassVar[type[BaseModel] | None] = Company
    breed: str | None = None


class Described2(BaseModel):
    model_config = ConfigDict(json_schema_extra={"description": "from the config"})


class WorksAt(RelationDef):
    name: ClassVar[str] = "works_at"
    description: ClassVar[Words] = Words(en="is employed by", cn="受雇于")
    lhs: ClassVar[tuple[str, ...]] = ("Human",)
    rhs: ClassVar[tuple[str, ...]] = ("Company",)
    role: str | None = None


def test_the_default_types_have_descriptions_of_their_own() -> None:
    for language in ("en", "cn"):
        assert len({each.wording(language) for each in DEFAULT_ENTITY_TYPES}) == 3
    assert [each.name for each in DEFAULT_ENTITY_TYPES] == ["Entity", "Human", "AI"]


def test_a_plain_model_is_an_entity_type() -> None:
    company = as_entity_def(Company)

    assert (company.name, company.wording("cn")) == ("Company", "A business firm.")
    assert company.fields("cn") == {"city": "总部", "size": "people"}
    assert as_entity_def(Described2).wording("en") == "from the config"
    assert as_entity_def(HumanEntity) is HumanEntity
    assert as_relation_def(Company).fits("a", "b")


def test_a_type_may_have_fields_of_its_own_and_those_of_a_model() -> None:
    assert Dog.fields("en") == {"city": "seat", "size": "people", "breed": "breed"}
    assert HumanEntity.fields("en") == {}


def test_a_relation_type_tells_which_ends_fit() -> None:
    assert WorksAt.fits("Human", "Company")
    assert not WorksAt.fits("Company", "Human")


async def test_types_of_relations_are_listed_and_their_attributes_read() -> None:
    reply = {"fact": "Ann bakes at Oat Inc", "name": "WORKS_AT", "source": "Ann", "target": "Oat Inc"}
    model = ScriptedModel([{"relations": [{**reply, "attributes": {"role": "baker", "other": 1}}]}])
    mentions = [Mention("Ann", "Human"), Mention("Oat Inc", "Company")]

    (fact,) = await ask_relations(
        SourceText("Ann bakes at Oat Inc", EpisodeType.DOCUMENT),
        mentions=mentions,
        types=[WorksAt],
        language="en",
        asker=asker_for(model),
    )

    assert (fact.name, fact.attributes) == ("works_at", {"role": "baker"})
    assert "works_at (Human -> Company) - is employed by; attributes.role: role" in model.prompt()
    item = model.schema()["properties"]["relations"]["items"]["properties"]
    assert list(item["attributes"]["properties"]) == ["role"]
    assert item["source"]["enum"] == ["Ann", "Oat Inc"]
