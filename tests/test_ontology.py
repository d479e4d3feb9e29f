"""Types of one's own: what they let in, what they refuse and how the update says so, and what stays in the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import pytest
from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from jiuwen_memory import (
    AddMemStrategy,
    EntityDef,
    EpisodeType,
    GraphConfig,
    GraphMemUpdate,
    HumanEntity,
    RelationDef,
    TaggedWith,
    Topic,
    Words,
)
from jiuwen_memory.errors import LLMCallError, SetupError
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import End
from jiuwen_memory.testing import FakePrompt, fake_memory
from tests.memory_support import Taught, all_entities, all_relations, entities, taught


class Yard(EntityDef):
    """A boatyard."""

    description: ClassVar[Words] = Words(en="a yard that builds boats", cn="造船厂")

    opened: Annotated[int | None, Words(en="year in which it opened", cn="开业年份")] = None
    closed: int | None = None
    seat: str = ""

    @model_validator(mode="after")
    def in_order(self) -> Self:
        if self.opened and self.closed and self.closed < self.opened:
            raise ValueError("closed before it opened")
        return self


class Sails(StrEnum):
    TAN = "tan"
    WHITE = "white"


class Boat(BaseModel):
    """A boat with a name."""

    metres: float | None = Field(default=None, gt=0)
    rig: Literal["ketch", "sloop"] | None = None
    sound: bool | None = None
    sails: Sails | None = None
    launched: date | None = None
    masts: int | None = None
    owners: list[str] = []


class Skiff(EntityDef):
    """A small boat, of which the length must be known."""

    metres: float
    oars: int = 2


class BuiltBy(RelationDef):
    """A boat was built by a yard."""

    name: ClassVar[str] = "built by"
    lhs: ClassVar[tuple[End, ...] | End] = Boat
    rhs: ClassVar[tuple[End, ...] | End] = "Yard"

    crowns: int | None = None


TYPES: dict[str, Any] = {"entity_types": [Yard, Boat], "relation_types": [BuiltBy]}
THINGS = {"Havsule": "Boat", "Bellman": "Yard"}
BUILT = ("Havsule", "built by", "Bellman", "The Bellman yard built the Havsule.")


def day(number: int) -> datetime:
    return datetime(2026, 5, number, 12, 0, tzinfo=UTC)


async def tell(
    mind: Taught,
    types: Mapping[str, str],
    attributes: Mapping[str, Mapping[str, JsonValue]],
    *,
    said: Sequence[Mapping[str, JsonValue]] = (),
    **options: Any,
) -> GraphMemUpdate:
    """Add a document of which the model says this about things and their attributes."""

    def summaries(prompt: FakePrompt) -> dict[str, JsonValue]:
        listed: dict[str, JsonValue] = dict.fromkeys(map(str, prompt.lines()), "")
        for name, values in attributes.items():
            listed |= {str(number): {"summary": "", "attributes": dict(values)} for number in prompt.numbers(name)}
        return listed

    mind.llm.replies.update(
        {
            "EntityExtraction": entities(types),
            "RelationExtraction": {"relations": [dict(each) for each in said]},
            "EntitySummaries": summaries,
        }
    )
    text = options.pop("text", " ".join(types))
    return await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", text, **options)


# --- attributes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"metres": "14.5"}, {"metres": 14.5}),
        ({"metres": 8, "rig": "sloop"}, {"metres": 8.0, "rig": "sloop"}),
        ({"sound": "yes", "launched": "1961-06-02"}, {"sound": True, "launched": "1961-06-02"}),
        ({"owners": ["Ada", "Bo"]}, {"owners": ["Ada", "Bo"]}),
        ({"rig": None, "owners": [], "metres": "n/a", "colour": "red"}, {}),
    ],
    ids=["a number as text", "two fields", "truth and a date", "a list", "nothing known"],
)
async def test_attributes_are_stored_as_their_fields_have_them(
    given: dict[str, JsonValue], stored: dict[str, JsonValue]
) -> None:
    mind = taught(**TYPES)

    update = await tell(mind, {"Havsule": "Boat"}, {"Havsule": given})

    assert (await all_entities(mind.memory))["Havsule"].attributes == stored
    assert [warning for warning in update.warnings if "refused" in warning] == []


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"metres": "about nine"}, "metres", ["'Havsule'", '"about nine"', "valid number"]),
        ({"metres": -3}, "metres", ["-3", "greater than 0"]),
        ({"metres": "Infinity"}, "metres", ["cannot be stored"]),
        ({"masts": 10**30}, "masts", ["cannot be stored", "64 bits"]),
        ({"rig": "dinghy"}, "rig", ["'ketch' or 'sloop'"]),
        ({"launched": "around the war"}, "launched", ["valid date"]),
        ({"owners": "Ada and Bo"}, "owners", ["valid array"]),
        ({"owners": ["Ada", 3]}, "owners", ["valid string"]),
    ],
    ids=str,
)
async def test_a_value_that_does_not_fit_is_refused_by_name_and_the_rest_kept(
    given: dict[str, JsonValue], field: str, words: list[str]
) -> None:
    mind = taught(**TYPES)

    update = await tell(mind, {"Havsule": "Boat"}, {"Havsule": {"sound": True, **given}})

    (boat,) = update.added_entity
    (warning,) = [each for each in update.warnings if "refused" in each]
    assert boat.attributes == {"sound": True}
    assert all(word in warning for word in (f"'{field}'", *words)), warning


async def test_what_a_type_checks_across_fields_sees_what_is_stored() -> None:
    mind = taught(**TYPES)
    await tell(mind, {"Bellman": "Yard"}, {"Bellman": {"opened": 1931, "seat": "Skarnes"}}, session_id="s")

    update = await tell(mind, {"Bellman": "Yard"}, {"Bellman": {"closed": 1887}}, session_id="s")
    await tell(mind, {"Bellman": "Yard"}, {"Bellman": {"closed": 1987}}, session_id="s")

    assert any("'closed'" in each and "1887" in each and "closed before it opened" in each for each in update.warnings)
    yard = (await all_entities(mind.memory))["Bellman"]
    assert yard.attributes == {"opened": 1931, "closed": 1987, "seat": "Skarnes"}


async def test_a_required_field_may_be_missing_until_somebody_says_it() -> None:
    mind = taught(entity_types=[Skiff])

    first = await tell(mind, {"Pip": "Skiff"}, {"Pip": {"oars": 4}}, session_id="s")
    bad = await tell(mind, {"Pip": "Skiff"}, {"Pip": {"metres": "tiny"}}, session_id="s")
    await tell(mind, {"Pip": "Skiff"}, {"Pip": {"metres": 3.5}}, session_id="s")

    assert first.added_entity[0].attributes == {"oars": 4}
    assert any("'metres' of 'Pip' is refused" in each for each in bad.warnings)
    pip = (await all_entities(mind.memory))["Pip"]
    assert Skiff.model_validate(pip.attributes) == Skiff(metres=3.5, oars=4)


class Odd(BaseModel):
    """A model with everything that could come in the way."""

    model_config = ConfigDict(strict=True, extra="forbid")

    built: date | None = Field(default=None, alias="yearBuilt")
    code: str = ""
    mood: str | None = None
    hook: Callable[[], None] | None = None
    raw: object = None

    @field_validator("mood")
    @classmethod
    def never(cls, value: str) -> None:
        return None

    @field_validator("code")
    @classmethod
    def upper(cls, value: str) -> str:
        return {"ab": "AB"}[value]


class Wrapped(EntityDef):
    """A type whose attributes are those of a model, but for one."""

    attributes: ClassVar[type[BaseModel] | None] = Odd
    raw: int = 0


async def test_aliases_strict_models_and_failing_checks_refuse_or_store_but_never_break_an_add() -> None:
    mind = taught(entity_types=[Wrapped, Odd])

    await tell(mind, {"Fine": "Wrapped"}, {"Fine": {"built": "1961-06-02", "code": "ab", "raw": "7"}})
    update = await tell(mind, {"Poor": "Odd"}, {"Poor": {"code": "zz", "built": "1961-06-02"}})
    moody = await tell(mind, {"Moody": "Odd"}, {"Moody": {"mood": "gay", "hook": "print"}})

    found = await all_entities(mind.memory)
    assert found["Fine"].attributes == {"built": "1961-06-02", "code": "AB", "raw": 7}
    assert found["Poor"].attributes == {}
    assert sum("own check failed" in each for each in update.warnings) == 2
    assert any("'mood' of 'Moody'" in each and "makes nothing of it" in each for each in moody.warnings)
    assert any("'hook' of 'Moody'" in each for each in moody.warnings)


async def test_values_are_asked_for_as_their_fields_take_them() -> None:
    mind = taught(**TYPES)

    await tell(mind, THINGS, {}, said=[])

    schema: Any = mind.llm.asked("EntitySummaries")[0].schema
    number = str(mind.llm.asked("EntitySummaries")[0].number("Havsule"))
    asked = {
        name: each["anyOf"][1]
        for name, each in schema["properties"][number]["properties"]["attributes"]["properties"].items()
    }
    assert asked["metres"] == {"type": "number"}
    assert asked["rig"] == {"enum": ["ketch", "sloop"]}
    assert asked["sound"] == {"type": "boolean"}
    assert asked["sails"] == {"enum": ["tan", "white"]}
    assert asked["launched"]["type"] == "string"
    assert asked["owners"]["items"]["type"] == "string"


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1), (2, 1, 3)], ids=str)
async def test_of_two_values_the_one_said_later_counts_in_whatever_order_they_come(order: tuple[int, ...]) -> None:
    mind = taught(**TYPES)
    told: dict[int, dict[str, JsonValue]] = {
        1: {"seat": "Oslo", "opened": 1931},
        2: {"seat": "Skarnes"},
        3: {"opened": 1931},
    }

    updates = [
        await tell(mind, {"Bellman": "Yard"}, {"Bellman": told[number]}, reference_time=day(number), session_id="s")
        for number in order
    ]

    yard = (await all_entities(mind.memory))["Bellman"]
    assert yard.attributes == {"seat": "Skarnes", "opened": 1931}
    stays = "'seat' of 'Bellman' stays 'Skarnes'"
    assert any(stays in each for update in updates for each in update.warnings) is (order.index(2) < order.index(1))


async def test_a_merge_keeps_the_values_of_the_entity_that_stays_and_fills_its_gaps() -> None:
    mind = taught(**TYPES)
    await tell(mind, {"Bellman": "Yard"}, {"Bellman": {"seat": "Skarnes"}}, session_id="a")
    await tell(mind, {"Bellman": "Yard"}, {}, session_id="a")
    await tell(mind, {"Bellmann": "Yard"}, {"Bellmann": {"seat": "Oslo", "opened": 1931}}, session_id="b")

    await mind.learn(
        "Bellmans is both.", types={"Bellmans": "Yard"}, same={"Bellmans": ["Bellman", "Bellmann"]}, session_id="c"
    )

    (yard,) = (await all_entities(mind.memory)).values()
    assert yard.attributes == {"seat": "Skarnes", "opened": 1931}


async def test_a_number_goes_with_the_only_text_that_told_it() -> None:
    mind = taught(**TYPES)
    first = await tell(
        mind, {"Bellman": "Yard"}, {"Bellman": {"opened": 1931}}, session_id="s", text="Bellman opened in 1931."
    )
    await tell(mind, {"Bellman": "Yard"}, {}, session_id="s", text="Bellman again.")

    await mind.memory.delete_episode("ann", first.added_episode[0].uuid)

    assert (await all_entities(mind.memory))["Bellman"].attributes == {}


# --- open and closed sets ---------------------------------------------------------------------------------------------


async def test_in_an_open_set_unknown_types_are_general_and_unknown_predicates_stay() -> None:
    mind = taught(**TYPES)

    update = await mind.learn(
        "Havsule Skarnes",
        types={"Havsule": "boat", "Skarnes": "Town"},
        said=[("Havsule", "lies at", "Skarnes", "The Havsule lies at Skarnes.")],
    )

    assert {each.name: each.obj_type for each in update.added_entity} == {"Havsule": "Boat", "Skarnes": "Entity"}
    assert [each.name for each in update.added_relation] == ["lies at"]
    assert update.warnings == []


async def test_a_closed_set_leaves_out_what_is_of_no_listed_type_and_says_so() -> None:
    mind = taught(**TYPES, closed_types=True)

    update = await mind.learn(
        "Havsule Bellman Skarnes Ada",
        types={**THINGS, "Skarnes": "Town", "Ada": "Human"},
        said=[BUILT, ("Havsule", "adorns", "Bellman", "The Havsule adorns the yard.")],
    )

    assert {each.name for each in update.added_entity} == {"Havsule", "Bellman"}
    assert [each.content for each in update.added_relation] == [BUILT[3]]
    for words in ("Skarnes ('Town' is no", "Ada ('Human' is no", "adorns the yard. ('adorns' is no"):
        assert any(words in each for each in update.warnings), update.warnings


async def test_a_closed_set_is_told_to_the_model_and_bound_by_the_schema() -> None:
    mind = taught(**TYPES, closed_types=True)

    await mind.learn("Havsule Bellman", types=THINGS)

    things, relations = mind.llm.asked("EntityExtraction")[0], mind.llm.asked("RelationExtraction")[0]
    schemas: list[Any] = [things.schema["properties"], relations.schema["properties"]]
    assert schemas[0]["entities"]["items"]["properties"]["type"]["enum"] == ["Yard", "Boat"]
    assert schemas[1]["relations"]["items"]["properties"]["name"]["enum"] == ["built by"]
    assert "Leave out what is of none of these types." in things.text
    assert "leave out facts of no such type" in relations.text


async def test_the_closed_set_and_descriptions_are_chinese_in_a_chinese_prompt() -> None:
    strategy = AddMemStrategy(chinese_entity=True, chinese_relation=True)
    mind = taught(**TYPES, closed_types=True, language="cn", strategy=strategy)

    await mind.learn("Havsule Bellman", types=THINGS)

    asked = mind.llm.asked("EntityExtraction")[0].text
    assert "Yard：造船厂" in asked
    assert "不属于以上任何类型的事物不要列出" in asked
    assert "不属于这些类型的事实不要列出" in mind.llm.asked("RelationExtraction")[0].text
    assert "字段 opened：开业年份" in mind.llm.asked("EntitySummaries")[0].text


async def test_those_who_speak_are_there_in_a_closed_set_too() -> None:
    mind = taught(**TYPES, closed_types=True)
    mind.llm.replies["EntityExtraction"] = entities({"Ada": "Human", "Havsule": "Boat"})

    update = await mind.memory.add_memory(
        EpisodeType.CONVERSATION,
        "ann",
        [{"role": "user", "content": "I saw the Havsule."}],
        content_fmt_kwargs={"user": "Ada"},
    )

    assert {each.name: each.obj_type for each in update.added_entity} == {"Ada": "Human", "Havsule": "Boat"}
    assert update.warnings == []


async def test_a_closed_set_without_types_of_a_kind_is_open_for_that_kind() -> None:
    mind = taught(entity_types=[Boat, Yard], closed_types=True)

    update = await mind.learn("Havsule Bellman", types=THINGS, said=[BUILT])

    assert [each.name for each in update.added_relation] == ["built by"]


async def test_a_reply_that_only_names_strangers_is_not_asked_for_again() -> None:
    mind = taught(**TYPES, closed_types=True)

    update = await mind.learn(
        "Havsule Bellman", types=THINGS, said=[("Havsule", "adorns", "Bellman", "It adorns the yard.")]
    )

    assert (update.added_relation, update.usage.reasked) == ([], 0)


# --- ends -------------------------------------------------------------------------------------------------------------


async def test_ends_that_fit_the_other_way_round_are_swapped() -> None:
    mind = taught(**TYPES)

    update = await mind.learn("x", types=THINGS, said=[("Bellman", "Built_By", "Havsule", BUILT[3])])

    (fact,) = update.added_relation
    names = {each.uuid: each.name for each in update.added_entity}
    assert (fact.name, names[fact.lhs], names[fact.rhs]) == ("built by", "Havsule", "Bellman")


async def test_a_fact_whose_ends_fit_neither_way_is_left_out_and_the_warning_says_why() -> None:
    mind = taught(**TYPES)

    update = await mind.learn(
        "x", types={**THINGS, "Ada": "Human"}, said=[BUILT, ("Havsule", "built by", "Ada", "Ada built the Havsule.")]
    )

    assert [each.content for each in update.added_relation] == [BUILT[3]]
    (warning,) = update.warnings
    assert "'built by' goes from Boat to Yard, not Havsule (Boat) -> Ada (Human)" in warning
    assert "Boat -> Yard" in mind.llm.asked("RelationExtraction")[0].text


async def test_a_kind_of_an_allowed_type_is_allowed() -> None:
    class Slipway(Yard):
        """A small yard."""

    mind = taught(entity_types=[Yard, Slipway, Boat], relation_types=[BuiltBy])

    update = await mind.learn("x", types={"Havsule": "Boat", "Bellman": "Slipway"}, said=[BUILT])

    assert len(update.added_relation) == 1
    assert update.added_entity[1].obj_type == "Slipway"


async def test_the_type_of_the_stored_entity_counts_at_an_end() -> None:
    mind = taught(**TYPES)
    await mind.learn("Bellman", types={"Bellman": "Yard"}, session_id="s")

    update = await mind.learn("x", types={"Havsule": "Boat", "Bellman": "Entity"}, said=[BUILT], session_id="s")

    assert [each.content for each in update.added_relation] == [BUILT[3]]


async def test_attributes_of_a_fact_are_validated_into_its_qualifiers() -> None:
    mind = taught(**TYPES)
    first: dict[str, JsonValue] = {"fact": BUILT[3], "name": "built by", "source": "Havsule", "target": "Bellman"}
    second: dict[str, JsonValue] = {**first, "source": "Alka", "fact": "The Bellman yard built the Alka."}

    update = await tell(
        mind,
        {**THINGS, "Alka": "Boat"},
        {},
        said=[{**first, "attributes": {"crowns": "6400"}}, {**second, "attributes": {"crowns": "a fortune"}}],
    )

    stored = await all_relations(mind.memory)
    assert stored[BUILT[3]].qualifiers == {"crowns": 6400}
    assert stored["The Bellman yard built the Alka."].qualifiers == {}
    assert any("'crowns' of 'The Bellman yard built the Alka.'" in each for each in update.warnings)


# --- where types are given, and what stays of them --------------------------------------------------------------------


async def test_types_of_one_call_are_used_for_that_call_alone() -> None:
    mind = taught()

    await tell(mind, THINGS, {"Bellman": {"opened": 1931}}, session_id="s", **TYPES)
    asked = mind.llm.asked("EntityExtraction")
    await mind.learn("Alka Bellman", types={"Alka": "Boat", "Bellman": "Entity"}, session_id="s")

    found = await all_entities(mind.memory)
    assert "Boat - A boat with a name." in asked[0].text
    assert "Boat - A boat" not in mind.llm.asked("EntityExtraction")[1].text
    assert found["Alka"].obj_type == "Entity"
    assert (found["Bellman"].obj_type, found["Bellman"].attributes) == ("Yard", {"opened": 1931})
    assert found["Bellman"].mention_count == 2


async def test_a_call_may_close_or_open_the_set_and_leave_the_types_as_they_are() -> None:
    mind = taught(**TYPES)

    closed = await mind.learn("Havsule Oslo", types={"Havsule": "Boat", "Oslo": "Town"}, closed_types=True)
    opened = await mind.learn("Alka Bergen", types={"Alka": "Boat", "Bergen": "Town"})
    general = await mind.learn("Terna", types={"Terna": "Boat"}, entity_types=[], relation_types=[])

    assert [each.name for each in closed.added_entity] == ["Havsule"]
    assert [each.name for each in opened.added_entity] == ["Alka", "Bergen"]
    assert general.added_entity[0].obj_type == "Entity"


async def test_a_stored_thing_of_the_general_type_takes_the_type_a_later_text_has_for_it() -> None:
    mind = taught()
    await mind.learn("Bellman", types={"Bellman": "Entity"}, session_id="s")

    await tell(mind, {"Bellman": "Yard"}, {"Bellman": {"opened": 1931}}, session_id="s", **TYPES)

    (yard,) = (await all_entities(mind.memory)).values()
    assert (yard.obj_type, yard.attributes, yard.mention_count) == ("Yard", {"opened": 1931}, 2)


async def test_a_type_with_a_default_name_takes_the_place_of_that_type() -> None:
    class Sailor(HumanEntity):
        """Somebody who sails."""

        name = "Human"
        rank: str = ""

    mind = taught(entity_types=[Sailor])
    await tell(mind, {"Ada": "Human"}, {"Ada": {"rank": "mate"}})

    assert (await all_entities(mind.memory))["Ada"].attributes == {"rank": "mate"}
    schema: Any = mind.llm.asked("EntityExtraction")[0].schema
    kinds = schema["properties"]["entities"]["items"]["properties"]["type"]["enum"]
    assert kinds == ["Entity", "AI", "Human"]


async def test_types_and_attributes_are_read_back_from_disk_by_a_memory_that_knows_none(tmp_path: Path) -> None:
    config = GraphConfig(uri=str(tmp_path / "graph.db"), embed_dim=64)
    mind = taught(**TYPES, config=config)
    fact: dict[str, JsonValue] = {
        "fact": BUILT[3],
        "name": "built by",
        "source": "Havsule",
        "target": "Bellman",
        "attributes": {"crowns": 6400},
    }
    boat: dict[str, JsonValue] = {"metres": 14.5, "launched": "1961-06-02", "owners": ["Ada"]}
    await tell(mind, THINGS, {"Havsule": boat}, said=[fact], session_id="s")
    await mind.memory.close()

    other = taught(config=config)
    found = await all_entities(other.memory)
    await tell(other, {"Havsule": "Entity"}, {"Havsule": {"metres": "x"}}, text="The Havsule was sold.", session_id="s")
    later = await all_entities(other.memory)

    for each in (found["Havsule"], later["Havsule"]):
        assert (each.obj_type, each.attributes) == ("Boat", boat)
    assert Boat.model_validate(found["Havsule"].attributes).launched == date(1961, 6, 2)
    assert (await all_relations(other.memory))[BUILT[3]].qualifiers == {"crowns": 6400}
    await other.memory.close()


async def test_a_stored_value_that_the_type_no_longer_takes_does_not_keep_others_out() -> None:
    class Berth(EntityDef):
        """A yard, as it was described once."""

        name = "Yard"
        opened: str = ""

    mind = taught()
    await tell(mind, {"Bellman": "Yard"}, {"Bellman": {"opened": "long ago"}}, session_id="s", entity_types=[Berth])

    update = await tell(mind, {"Bellman": "Yard"}, {"Bellman": {"seat": "Skarnes"}}, session_id="s", **TYPES)

    (yard,) = (await all_entities(mind.memory)).values()
    assert yard.attributes == {"opened": "long ago", "seat": "Skarnes"}
    assert update.warnings == []


async def test_types_cost_no_further_question() -> None:
    plain, typed = taught(), taught(**TYPES, closed_types=True)

    before = await plain.learn("x", types=THINGS, said=[BUILT])
    after = await typed.learn("x", types=THINGS, said=[BUILT])

    assert (after.usage.calls, after.usage.rounds) == (before.usage.calls, before.usage.rounds) == (4, 3)


async def test_an_add_that_is_done_again_says_that_its_own_types_are_lost() -> None:
    mind = taught(config=GraphConfig(uri="lost-types", backend="memory", embed_dim=64, request_max_retries=1))
    mind.llm.replies["EntityExtraction"] = ConnectionError("down")
    with pytest.raises(LLMCallError):
        await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "Havsule", **TYPES)
    mind.llm.replies["EntityExtraction"] = entities({"Havsule": "Boat"})

    (done,) = await mind.memory.resume("ann")

    assert done.update is not None
    assert done.update.added_entity[0].obj_type == "Entity"
    assert any("without Yard, Boat, built by" in each for each in done.update.warnings)


class Loose(RelationDef):
    """A relation to something that is not there."""

    rhs: ClassVar[tuple[End, ...] | End] = "Pier"


class Nameless(EntityDef):
    """A type without a name."""

    name: ClassVar[str] = " "


class VeryLongName(RelationDef):
    """A relation with a name that does not fit."""

    name: ClassVar[str] = "x" * 501


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"entity_types": [str]}, "no type for a EntityDef"),
        ({"entity_types": [BuiltBy]}, "no type for a EntityDef"),
        ({"relation_types": [Yard]}, "no type for a RelationDef"),
        ({"entity_types": ["Boat"]}, "no type for a EntityDef"),
        ({"entity_types": "Boat"}, "a list of classes"),
        ({"entity_types": [Yard, Yard]}, "two types called 'Yard'"),
        ({"entity_types": [Nameless]}, "has no name"),
        ({"relation_types": [VeryLongName]}, r"GraphStoreStorageConfig\.name"),
        ({"relation_types": [Loose]}, "wants 'Pier' at an end"),
        ({"relation_types": [BuiltBy]}, "pass it in entity_types too"),
    ],
    ids=["a class", "a relation", "an entity", "a name", "a text", "twice", "blank", "long", "no such", "not given"],
)
async def test_types_that_cannot_be_used_are_refused_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SetupError, match=words):
        fake_memory(**options)

    mind = taught()
    with pytest.raises(SetupError, match=words):
        await mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", "x", **options)
    assert mind.llm.calls == 0


# --- topics -----------------------------------------------------------------------------------------------------------


async def test_topics_are_off_until_their_two_types_are_given() -> None:
    mind = taught()
    await mind.learn("Ada sails.", types={"Ada": "Human"})
    assert "Topic" not in mind.llm.asked("EntityExtraction")[0].text

    update = await mind.learn(
        "Ada sails.",
        types={"Ada": "Human", "sailing": "Topic"},
        said=[("sailing", "tagged with", "Ada", "Ada's talk is about sailing.")],
        entity_types=[Topic],
        relation_types=[TaggedWith],
    )

    assert "Topic - what the text is about" in mind.llm.asked("EntityExtraction")[1].text
    assert "TAGGED_WITH (any -> Topic)" in mind.llm.asked("RelationExtraction")[1].text
    (topic,) = [each for each in update.added_entity if each.obj_type == "Topic"]
    (fact,) = update.added_relation
    assert (fact.name, fact.rhs) == ("TAGGED_WITH", topic.uuid)
    (found,) = await mind.memory.triples("ann", predicate="TAGGED_WITH", object="Sailing")
    assert found.subject == "Ada"
