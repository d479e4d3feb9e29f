"""Every import that the specification shows works, and the short import gives the very same objects."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path

import pytest

import jiuwen_memory

LINES = """\
from jiuwen_memory.foundation.llm import Model
from jiuwen_memory.foundation.llm.schema.config import ModelClientConfig, ModelRequestConfig
from jiuwen_memory.foundation.store.graph import GraphConfig, GraphStoreIndexConfig
from jiuwen_memory.foundation.store.graph.index_field import MilvusAUTO
from jiuwen_memory.foundation.store.graph.result_ranking import WeightedRankConfig
from jiuwen_memory.memory_core.config.graph import AddMemStrategy, EpisodeType
from jiuwen_memory.memory_core.config.graph import SearchConfig
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.retrieval.common.config import EmbeddingConfig
from jiuwen_memory.retrieval.embedding.api_embedding import APIEmbedding
""".splitlines()
NAMED = """\
from jiuwen_memory.foundation.store.graph import GraphStore, GraphStoreFactory, Entity, Relation, Episode
from jiuwen_memory.foundation.store.graph.index_field import MilvusHNSW, MilvusFLAT
from jiuwen_memory.foundation.store.graph.result_ranking import RRFRankConfig
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate
""".splitlines()
DEEPER = """\
from jiuwen_memory.foundation.store.graph import MilvusGraphStore
from jiuwen_memory.memory_core.config.graph import DEFAULT_STRATEGY
from jiuwen_memory.memory_core.graph.extraction.base import MultilingualBaseModel
""".splitlines()
MODULES = (
    "jiuwen_memory.memory_core.graph.graph_memory",
    "jiuwen_memory.memory_core.graph.graph_memory.postprocess_graph_objects",
    "jiuwen_memory.memory_core.graph.extraction.extraction_models",
    "jiuwen_memory.foundation.store.graph.milvus",
)
IMPORT = re.compile(r"^\s*from (jiuwen_memory[\w.]*) import (.+)$")


def imported(line: str) -> dict[str, object]:
    """Return what an import line brings in, by name."""
    found = IMPORT.match(line)
    assert found, line
    module = importlib.import_module(found[1])
    return {name: getattr(module, name) for name in re.split(r"\s*,\s*", found[2].strip())}


@pytest.mark.parametrize("line", [*LINES, *NAMED])
def test_a_deep_import_works_and_the_short_one_gives_the_same_object(line: str) -> None:
    deep = imported(line)

    short = {name: getattr(jiuwen_memory, name) for name in deep}

    assert all(short[name] is deep[name] for name in deep)
    assert set(deep) <= set(jiuwen_memory.__all__)


@pytest.mark.parametrize("line", DEEPER)
def test_what_is_rarely_needed_has_its_deep_path(line: str) -> None:
    assert imported(line)


@pytest.mark.parametrize("module", MODULES)
def test_the_modules_that_are_named_exist(module: str) -> None:
    assert importlib.import_module(module).__doc__


def test_every_import_line_of_the_specifications_file_works() -> None:
    path = os.environ.get("JIUWEN_MEMORY_SPEC")
    if not path:
        pytest.skip("JIUWEN_MEMORY_SPEC does not name the specification's file")
    lines = [line for line in Path(path).read_text(encoding="utf-8").splitlines() if IMPORT.match(line)]

    found = {name: thing for line in lines for name, thing in imported(line).items()}

    assert len(lines) >= len(LINES)
    assert all(getattr(jiuwen_memory, name) is thing for name, thing in found.items())
    assert {line.strip() for line in lines} == set(LINES)
