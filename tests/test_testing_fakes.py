from __future__ import annotations

import asyncio
import math
import subprocess
import sys

import pytest

from jiuwen_memory.foundation.ports import Embedding, Reranker
from jiuwen_memory.testing.embedder import FakeEmbedder
from jiuwen_memory.testing.reranker import FakeReranker


def _dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def test_the_fakes_have_the_shapes_of_real_models() -> None:
    assert isinstance(FakeEmbedder(), Embedding)
    assert isinstance(FakeReranker(), Reranker)


@pytest.mark.parametrize("text", ["Alice works at Huawei", "张三在华为工作", "", "\ud800"])
async def test_a_vector_has_the_dimension_and_length_one(text: str) -> None:
    embedder = FakeEmbedder(dimension=32)

    vector = await embedder.embed_query(text)

    assert len(vector) == embedder.dimension == 32
    assert math.isclose(_dot(vector, vector), 1.0)


async def test_texts_that_share_characters_are_closer_than_others() -> None:
    embedder = FakeEmbedder()

    vectors = await embedder.embed_documents(
        ["Alice works at Huawei", "ALICE worked at Ｈｕａｗｅｉ", "blue fish jump", "张三在华为工作", "张三在华为上班"]
    )

    assert _dot(vectors[0], vectors[1]) > _dot(vectors[0], vectors[2])
    assert _dot(vectors[3], vectors[4]) > _dot(vectors[3], vectors[2])


def test_another_process_computes_the_same_vector() -> None:
    code = (
        "import asyncio; from jiuwen_memory.testing.embedder import FakeEmbedder; "
        "print(asyncio.run(FakeEmbedder(8).embed_query('张三 likes tea')))"
    )

    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert elsewhere.stdout.strip() == str(asyncio.run(FakeEmbedder(8).embed_query("张三 likes tea")))


async def test_requests_and_texts_are_counted() -> None:
    embedder = FakeEmbedder()

    await embedder.embed_documents(["a", "b", "c"])
    await embedder.embed_query("d")

    assert embedder.calls == 2
    assert embedder.texts == ["a", "b", "c", "d"]


async def test_an_embedder_told_to_fail_recovers_after_that_many_requests() -> None:
    embedder = FakeEmbedder(fail_times=1)

    with pytest.raises(ConnectionError):
        await embedder.embed_query("a")
    vector = await embedder.embed_query("a")

    assert len(vector) == 64
    assert embedder.calls == 2
    assert embedder.texts == ["a"]


async def test_an_embedder_raises_the_error_it_was_given() -> None:
    embedder = FakeEmbedder(fail_times=1, error=TimeoutError("too slow"))

    with pytest.raises(TimeoutError, match="too slow"):
        await embedder.embed_documents(["a"])


async def test_a_reranker_prefers_documents_that_share_words_with_the_query() -> None:
    reranker = FakeReranker()

    scores = await reranker.rerank("Where does Alice work?", ["Alice works at Huawei", "Alice sings", "fish"])

    assert scores == [1.0, 0.5, 0.0]
    assert reranker.calls == 1
