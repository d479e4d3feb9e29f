"""What a memory is put together from, and what is handed to it: anything of the wrong kind is a typed error at once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import HumanMessage

from jiuwen_memory import AddMemStrategy, EpisodeType, GraphConfig, GraphMemory, Model
from jiuwen_memory.errors import InvalidInputError, JiuwenMemoryError, PromptFilesMissingError, StoreParameterError
from jiuwen_memory.foundation.llm import ModelClientConfig
from jiuwen_memory.foundation.locks import InProcessLocks
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, FakeReranker, fake_memory
from tests.memory_support import taught

ZERO_WIDTH = [
    "\u200b",
    "\u200b\ufeff\u2060",
    "\u00ad \u200d",
    "\u3164",
    "\u2800",
    "\ufe0f",
    "\u202e\u2066",
    "\U000e0101",
]


class Broken:
    """An object that has nothing of what is asked of a part."""


def memory_of(**parts: Any) -> GraphMemory:
    config = parts.pop("db_config", GraphConfig(uri=uuid4().hex, backend="memory", embed_dim=64))
    return GraphMemory(config, **parts)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"db_config": None}, "db_config is None; give a GraphConfig"),
        ({"db_config": "memory.db"}, "db_config is a str; give a GraphConfig"),
        ({"db_config": GraphConfig}, "db_config is the class GraphConfig itself"),
        ({"llm_client": "gpt"}, "llm_client is a str; give a Model"),
        ({"llm_client": FakeLLM}, "llm_client is the class FakeLLM itself"),
        ({"llm_client": Broken()}, "llm_client is a Broken; give a Model"),
        ({"llm_client": FakeListLLM(responses=["a"])}, "calls its ainvoke"),
        ({"reranker": Broken()}, "a Broken has none"),
        ({"reranker": FakeReranker}, "the class FakeReranker itself has none"),
        ({"extraction_strategy": None}, "extraction_strategy is None; give an AddMemStrategy"),
        ({"extraction_strategy": {"top_k": 3}}, "extraction_strategy is a dict"),
        ({"extraction_strategy": AddMemStrategy}, "extraction_strategy is the class AddMemStrategy itself"),
        ({"locks": "redis://localhost"}, "locks is a str; give InProcessLocks"),
        ({"locks": InProcessLocks}, "locks is the class InProcessLocks itself"),
        ({"db_kwargs": [1]}, "db_kwargs is a list; give a dict"),
        ({"llm_extra_kwargs": {1: 2}}, "llm_extra_kwargs is a dict; give a dict of keyword"),
        ({"prompts": 7}, "prompts is a int; give the path"),
    ],
    ids=lambda each: each[:40] if isinstance(each, str) else "-".join(each),
)
def test_a_part_of_the_wrong_kind_is_refused_and_the_error_says_what_to_give(parts: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        memory_of(**parts)

    assert says in str(caught.value)


@pytest.mark.parametrize("embedder", [None, "model", Broken(), FakeEmbedder], ids=["none", "text", "broken", "class"])
@pytest.mark.parametrize("backend", ["memory", "milvus"])
def test_what_is_no_embedding_model_is_not_attached(embedder: Any, backend: str, tmp_path: Path) -> None:
    memory = memory_of(db_config=GraphConfig(uri=str(tmp_path / "graph.db"), backend=backend, embed_dim=64))

    with pytest.raises(StoreParameterError, match="give an APIEmbedding, a LocalEmbedding"):
        memory.attach_embedder(embedder)


def test_a_model_of_ours_and_any_object_with_an_async_invoke_will_do() -> None:
    class Own:
        async def invoke(self, *, messages: Any, response_format: Any = None, **kwargs: object) -> str:
            return "{}"

        async def ainvoke(self, text: str) -> str:
            return text

    ours = Model(model_client_config=ModelClientConfig(api_base="http://127.0.0.1:9"))
    for model in (ours, FakeLLM(), Own()):
        assert memory_of(llm_client=model).llm_client is model


# --- a folder of prompts ----------------------------------------------------------------------------------------------


def without_a_folder(folder: Path) -> Path:
    return folder / "nowhere"


def a_file(folder: Path) -> Path:
    file = folder / "prompts.md"
    file.write_text("=== user ===\nHello")
    return file


def no_known_file(folder: Path) -> Path:
    (folder / "en").mkdir()
    (folder / "en" / "entites.md").write_text("=== user ===\nHello")
    (folder / "entities.md").write_text("=== user ===\nHello")
    return folder


@pytest.mark.parametrize("make", [without_a_folder, a_file, no_known_file], ids=lambda each: each.__name__)
def test_a_folder_of_prompts_from_which_nothing_would_be_read_is_refused(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    with pytest.raises(PromptFilesMissingError, match=r"entities.*leave `prompts` out"):
        memory_of(prompts=make(tmp_path))


def test_a_prompt_file_that_nobody_asks_for_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "en").mkdir()
    for name in ("entities", "entites"):
        (tmp_path / "en" / f"{name}.md").write_text("=== user ===\nHello")

    memory_of(prompts=tmp_path)

    (said,) = caplog.messages
    assert "en/entites.md" in said


# --- what is handed to an add -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ZERO_WIDTH, ids=lambda each: "-".join(f"{ord(char):x}" for char in each))
async def test_a_text_that_shows_nothing_is_blank(text: str) -> None:
    mind = taught()
    attempts: list[Callable[[], Coroutine[Any, Any, object]]] = [
        lambda: mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", text),
        lambda: mind.memory.add_memory(EpisodeType.DOCUMENT, "ann", f" {text}\n"),
        lambda: mind.memory.add_memory(EpisodeType.JSON, "ann", f'"{text}"'),
        lambda: mind.memory.add_memory(EpisodeType.CONVERSATION, "ann", [{"role": "user", "content": text}]),
        lambda: mind.memory.add_memory(EpisodeType.DOCUMENT, text, "Tom sings."),
        lambda: mind.memory.search("Tom", text),
        lambda: mind.memory.get("ENTITY_COLLECTION", ["x"], text),
        lambda: mind.memory.triples("ann", subject=text),
        lambda: mind.memory.pending(text),
    ]

    for attempt in attempts:
        with pytest.raises(InvalidInputError):
            await attempt()

    assert mind.llm.calls == mind.embedder.calls == 0


async def test_a_speaker_whose_name_shows_nothing_goes_by_the_role() -> None:
    memory = fake_memory()

    update = await memory.add_memory(
        EpisodeType.CONVERSATION, "ann", [{"role": "user", "name": "\u200b", "content": "I sing."}]
    )

    assert update.added_episode[0].speakers == ["user"]


@pytest.mark.parametrize(
    "reply",
    [
        {"entities": [{"name": "\u200b", "type": "Human"}, {"name": True, "type": "Human"}, {"name": "Tom"}]},
        {"entities": ["Tom", True, False, "\u3164"]},
        {"Human": ["Tom", True], "AI": True},
    ],
    ids=["items", "names", "by-type"],
)
async def test_a_yes_or_no_and_what_shows_nothing_are_no_names(reply: Any) -> None:
    memory = fake_memory({"EntityExtraction": reply})

    update = await memory.add_memory(EpisodeType.DOCUMENT, "ann", "Tom sings.")

    assert [each.name for each in update.added_entity] == ["Tom"]


async def test_a_bare_yes_in_place_of_names_is_no_answer_and_a_bare_no_means_none() -> None:
    yes, no = (
        fake_memory({"EntityExtraction": {"entities": True}}),
        fake_memory({"EntityExtraction": {"entities": False}}),
    )

    with pytest.raises(JiuwenMemoryError, match="nothing usable"):
        await yes.add_memory(EpisodeType.DOCUMENT, "ann", "Tom sings.")
    update = await no.add_memory(EpisodeType.DOCUMENT, "ann", "Tom sings.")

    assert update.added_entity == []


async def test_a_name_for_nobody_in_the_messages_is_told_with_those_that_are_known() -> None:
    memory = fake_memory()
    said = [{"role": "user", "content": "I sing."}, {"role": "user", "name": "kim", "content": "I too."}]

    misspelt = await memory.add_memory(
        EpisodeType.CONVERSATION, "ann", said, content_fmt_kwargs={"usr": "Ann", "kim": "Kim", "assistant": "Bot"}
    )

    (warning,) = [each for each in misspelt.warnings if "content_fmt_kwargs" in each]
    assert "'usr'" in warning and "'kim'" not in warning
    assert "assistant" in warning and "kim" in warning and "user" in warning


async def test_a_role_may_be_named_as_langchain_calls_it() -> None:
    memory = fake_memory()

    update = await memory.add_memory(
        EpisodeType.CONVERSATION, "ann", [HumanMessage("I sing.")], content_fmt_kwargs={"human": "Ann"}
    )

    assert update.added_episode[0].content == "Ann: I sing."
    assert update.warnings == []


@pytest.mark.parametrize("names", [["user"], "user", 7], ids=["list", "text", "number"])
async def test_names_that_are_no_mapping_are_refused(names: Any) -> None:
    with pytest.raises(InvalidInputError, match="content_fmt_kwargs"):
        await fake_memory().add_memory(
            EpisodeType.CONVERSATION, "ann", [{"role": "user", "content": "I sing."}], content_fmt_kwargs=names
        )
