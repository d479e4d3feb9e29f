"""The tables of the documentation hold what the code holds: settings, environment variables, errors."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from jiuwen_memory import (
    AddMemStrategy,
    EmbeddingConfig,
    GraphConfig,
    GraphMemory,
    GraphStoreIndexConfig,
    GraphStoreStorageConfig,
    MinMaxRankConfig,
    ModelClientConfig,
    ModelRequestConfig,
    RerankerConfig,
    SearchConfig,
    errors,
)
from jiuwen_memory.foundation.settings import SETTINGS, Setting
from jiuwen_memory.memory_core.graph.extraction.prompts import QUESTIONS
from jiuwen_memory.memory_core.graph.graph_memory.searching.strategies import STRATEGIES

DOCS = Path(__file__).resolve().parent.parent / "docs"
MODELS = (
    *(AddMemStrategy, EmbeddingConfig, GraphConfig, GraphStoreIndexConfig, GraphStoreStorageConfig),
    *(ModelClientConfig, ModelRequestConfig),
)


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """Every table row of a page, as the texts of its cells."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def default_of(setting: Setting) -> str:
    value = setting.falls_back_to.name if setting.falls_back_to else setting.default
    return f"`{value}`" if value else ""


def test_the_table_of_environment_variables_is_that_of_the_settings() -> None:
    table = [row for row in rows(page("configuration")) if re.match(r"`(OPENAI|JIUWEN_MEMORY)_", row[0])]

    assert table == [[f"`{each.name}`", each.meaning, default_of(each)] for each in SETTINGS]


@pytest.mark.parametrize("model", MODELS)
def test_the_page_on_configuration_names_every_setting(model: type[BaseModel]) -> None:
    text = page("configuration")

    assert [name for name in model.model_fields if f"`{name}`" not in text] == []


@pytest.mark.parametrize("model", [GraphConfig, AddMemStrategy])
def test_a_default_in_a_table_is_the_one_in_the_code(model: type[BaseModel]) -> None:
    stated = {row[0].strip("`"): row[1] for row in rows(page("configuration")) if len(row) == 3}
    plain = {
        name: field.default
        for name, field in model.model_fields.items()
        if isinstance(field.default, bool | int | float | str) and not field.is_required()
    }

    assert {name: stated[name] for name in plain} == {
        name: f"`{value!r}`".replace("'", '"') for name, value in plain.items()
    }


def test_the_page_on_search_names_every_setting() -> None:
    text = page("search")

    assert [name for name in SearchConfig.model_fields if f"`{name}`" not in text] == []
    assert "documents_field" in RerankerConfig.model_fields
    assert "documents_field" in text


def test_the_settings_of_the_strategies_are_those_of_the_code() -> None:
    table = {row[0].strip("`"): row[1:] for row in rows(page("search")) if len(row) == 4 and row[0] != "strategy"}
    shared = SearchConfig(top_k=10, min_score=0.1, rank_config=MinMaxRankConfig(), common_names=0.2, speaker=0.2)

    def config(*cells: str) -> SearchConfig:
        given = {name: json.loads(value) for cell in cells for name, value in re.findall(r"`(\w+)=([^`]+)`", cell)}
        return shared.model_copy(update=given)

    for name in STRATEGIES.keys() - {"default", "lexical", "semantic"}:
        every, relations, episodes = table[name]
        ours = STRATEGIES[name]
        assert (ours.entity, ours.relation, ours.episode) == (
            config(every),
            config(every, relations),
            config(every, episodes),
        )


def test_the_page_on_configuration_names_every_argument_of_a_memory() -> None:
    text = page("configuration")
    names = list(inspect.signature(GraphMemory).parameters)

    assert [name for name in names if f"`{name}`" not in text] == []


def test_the_page_on_configuration_names_every_prompt_file() -> None:
    text = page("configuration")

    assert [name for name in QUESTIONS if f"`{name}`" not in text] == []


def error_classes() -> list[type[errors.JiuwenMemoryError]]:
    classes = [each for each in vars(errors).values() if inspect.isclass(each)]
    return [each for each in classes if issubclass(each, errors.JiuwenMemoryError)]


def test_the_tables_of_errors_hold_every_error_with_its_code_and_number() -> None:
    table = {row[0].split("`")[1]: (row[1], row[2]) for row in rows(page("errors")) if row[0].startswith("`")}
    expected = {
        each.__name__: (f"`{each.code}`", "" if each.number is None else str(each.number)) for each in error_classes()
    }

    base = expected.pop("JiuwenMemoryError")
    assert table == expected
    assert f"has the code {base[0]}" in page("errors")


def test_what_a_table_of_errors_says_of_built_in_kinds_is_true() -> None:
    said = dict(re.findall(r"^\| `(\w+)` \(a `(\w+)`\)", page("errors"), re.MULTILINE))
    true = {
        each.__name__: kind.__name__
        for each in error_classes()
        for kind in (ValueError, TypeError)
        if kind in each.__bases__
    }

    assert said == true
