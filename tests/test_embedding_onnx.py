"""`OnnxEmbedding` with a tiny model made here, and with a real one where a folder is given."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from jiuwen_memory import OnnxEmbedding
from jiuwen_memory.errors import EmbeddingServiceError, InvalidInputError, SetupError
from jiuwen_memory.foundation.ports import Embedding
from jiuwen_memory.integrations.profile import load_profile, open_memory

onnx = pytest.importorskip("onnx")
numpy = pytest.importorskip("numpy")
REAL = "JIUWEN_MEMORY_TEST_ONNX"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "green", "tea", "bus", "query", ":"]
# A store has vectors of at least 32 numbers.
WORDS += [f"word{number}" for number in range(32 - len(WORDS))]
WIDTH = len(WORDS)


def make_encoder(folder: Path, *, output: str = "last_hidden_state", **files: Mapping[str, object]) -> Path:
    """Write an encoder whose token states are one-hot vectors of the words, so that what it gives can be foretold."""
    from onnx import TensorProto, helper
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder.mkdir(parents=True, exist_ok=True)
    table = helper.make_tensor("table", TensorProto.FLOAT, [WIDTH, WIDTH], numpy.eye(WIDTH).flatten())
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["rows", "tokens"])
    mask = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["rows", "tokens"])
    shape: list[str | int | None] = ["rows", "tokens", WIDTH] if output == "last_hidden_state" else ["rows", WIDTH]
    states = helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["gathered"], axis=0)]
    if output == "last_hidden_state":
        nodes.append(helper.make_node("Identity", ["gathered"], [output]))
    else:
        nodes.append(helper.make_node("ReduceMax", ["gathered"], [output], axes=[1], keepdims=0))
    graph = helper.make_graph(nodes, "encoder", [ids, mask], [states], [table])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(folder / "model.onnx"))
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, values in files.items():
        file = folder / {"pooling": "1_Pooling/config.json"}.get(name, f"{name}.json")
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(values), encoding="utf-8")
    return folder


def weights(vector: list[float]) -> dict[str, float]:
    """Return the words that a vector holds, with their weights."""
    return {word: round(value, 3) for word, value in zip(WORDS, vector, strict=True) if value}


async def embedded(folder: Path, *texts: str, **options: object) -> list[dict[str, float]]:
    async with OnnxEmbedding(folder, **options) as embedding:  # type: ignore[arg-type]
        return [weights(vector) for vector in await embedding.embed_documents(texts)]


async def test_tokens_are_averaged_without_padding_and_vectors_have_length_one(tmp_path: Path) -> None:
    folder = make_encoder(tmp_path / "tiny")

    async with OnnxEmbedding(folder) as embedding:
        before = embedding.dimension
        short, long = await embedding.embed_documents(["tea", "red green tea bus"])

        assert (before, embedding.dimension, embedding.model_name) == (None, WIDTH, "tiny")
        assert isinstance(embedding, Embedding)
    third = round(1 / math.sqrt(3), 3)
    assert weights(short) == {"[CLS]": third, "[SEP]": third, "tea": third}
    assert math.hypot(*long) == pytest.approx(1.0)


async def test_each_text_gets_its_own_vector_whatever_the_order_of_the_batch(tmp_path: Path) -> None:
    folder = make_encoder(tmp_path)
    texts = ["tea " * (number % 5 + 1) + "bus " * (number % 3) for number in range(70)]

    async with OnnxEmbedding(folder) as embedding:
        at_once = await embedding.embed_documents(texts, batch_size=70)
        one_by_one = [await embedding.embed_query(text) for text in texts]

    assert [[round(value, 5) for value in vector] for vector in at_once] == [
        [round(value, 5) for value in vector] for vector in one_by_one
    ]


@pytest.mark.parametrize(
    ("pooling", "word"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "[CLS]"),
        ({"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}, "[SEP]"),
        ({"pooling_mode": "cls"}, "[CLS]"),
    ],
    ids=["cls", "last", "named"],
)
async def test_the_folder_says_how_tokens_are_pooled(tmp_path: Path, pooling: Mapping[str, object], word: str) -> None:
    folder = make_encoder(tmp_path, pooling=pooling)

    assert await embedded(folder, "red tea", "tea") == [{word: 1.0}, {word: 1.0}]


async def test_an_argument_wins_over_the_folder(tmp_path: Path) -> None:
    folder = make_encoder(tmp_path, pooling={"pooling_mode_max_tokens": True})

    with pytest.raises(SetupError, match="pooling_mode_max_tokens"):
        await embedded(folder, "tea")
    assert await embedded(folder, "tea", pooling="cls") == [{"[CLS]": 1.0}]


async def test_an_output_that_is_a_sentence_already_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = make_encoder(tmp_path, output="sentence_embedding", pooling={"pooling_mode_cls_token": True})

    [vector] = await embedded(folder, "tea tea tea")

    assert set(vector) == {"[CLS]", "[SEP]", "tea"}


async def test_a_text_longer_than_the_model_reads_is_read_in_pieces(tmp_path: Path) -> None:
    folder = make_encoder(tmp_path, sentence_bert_config={"max_seq_length": 6})

    [vector] = await embedded(folder, "tea tea tea tea bus bus bus bus")

    assert vector["tea"] == vector["bus"] > 0


async def test_queries_and_documents_have_the_prefixes_of_the_folder_or_of_the_caller(tmp_path: Path) -> None:
    folder = make_encoder(tmp_path, config_sentence_transformers={"prompts": {"query": "query: "}})

    async with OnnxEmbedding(folder) as embedding, OnnxEmbedding(folder, query_prefix="red ") as own:
        query, document = await embedding.embed_query("tea"), await embedding.embed_documents(["tea"])
        mine = await own.embed_query("tea")

    assert {"query", ":"} <= set(weights(query))
    assert "query" not in weights(document[0])
    assert "red" in weights(mine) and "query" not in weights(mine)


async def test_it_works_beside_the_event_loop_and_says_that_it_is_closed(tmp_path: Path) -> None:
    async with OnnxEmbedding(make_encoder(tmp_path)) as embedding:
        first, second = await asyncio.gather(embedding.embed_query("tea"), embedding.embed_query("tea"))
        names = {thread.name for thread in threading.enumerate()}
    with pytest.raises(EmbeddingServiceError, match="OnnxEmbedding is closed"):
        await embedding.embed_query("tea")
    async with embedding:
        third = await embedding.embed_query("tea")

    assert first == second == third
    assert any(name.startswith("local-embedding") for name in names)


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
async def test_a_folder_that_lacks_a_file_is_named(tmp_path: Path, missing: str) -> None:
    folder = make_encoder(tmp_path)
    (folder / missing).unlink()

    with pytest.raises(SetupError, match=missing):
        await embedded(folder, "tea")


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n"], ids=["empty", "pointer"])
@pytest.mark.parametrize("damaged", ["model.onnx", "tokenizer.json"])
async def test_a_damaged_file_is_an_error_of_the_encoder_that_is_not_tried_again(
    tmp_path: Path, damaged: str, content: bytes
) -> None:
    folder = make_encoder(tmp_path / "encoder")
    (folder / damaged).write_bytes(content)

    with pytest.raises(EmbeddingServiceError, match=r"'encoder' failed.*get them again") as raised:
        await embedded(folder, "tea")

    assert not raised.value.retryable


async def test_settings_that_are_no_json_are_named(tmp_path: Path) -> None:
    folder = make_encoder(tmp_path)
    (folder / "config.json").write_text("{", encoding="utf-8")

    with pytest.raises(SetupError, match=r"config\.json"):
        await embedded(folder, "tea")


async def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    embedding = OnnxEmbedding(make_encoder(tmp_path))

    with pytest.raises(InvalidInputError):
        await embedding.embed_query(" ")
    with pytest.raises(InvalidInputError, match="batch_size"):
        await embedding.embed_documents(["tea"], batch_size=0)
    for options in ({"threads": 0}, {"max_tokens": 2}, {"pooling": "max"}):
        with pytest.raises(InvalidInputError):
            OnnxEmbedding(tmp_path, **options)
    await embedding.close()


async def test_a_profile_may_name_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    folder = make_encoder(tmp_path / "encoder", sentence_bert_config={"max_seq_length": 64})
    config = tmp_path / "config.toml"
    store = f'[store]\nuri = "{tmp_path / "graph.db"}"\n'
    config.write_text(f'{store}[embedding]\nkind = "onnx"\npath = "{folder}"\nthreads = 2\n', encoding="utf-8")

    async with open_memory(load_profile(config)) as memory:
        found = await memory.search("tea", "ann")
        embedder = memory.embedder

    assert isinstance(embedder, OnnxEmbedding)
    assert (embedder.path, embedder.dimension) == (folder, WIDTH)
    assert not any(found.values())


async def test_a_profile_with_an_unknown_field_of_an_encoder_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[embedding]\nkind = "onnx"\npath = "x"\ncolour = "red"\n', encoding="utf-8")

    with pytest.raises(SetupError, match="colour"):
        async with open_memory(load_profile(config)):
            pass


def test_a_missing_library_is_named_with_the_extra_that_brings_it(tmp_path: Path) -> None:
    make_encoder(tmp_path)
    code = (
        "import asyncio, sys; sys.modules['onnxruntime'] = None\n"
        "from jiuwen_memory import OnnxEmbedding\n"
        "from jiuwen_memory.errors import MissingExtraError\n"
        f"try: asyncio.run(OnnxEmbedding({str(tmp_path)!r}).embed_query('a'))\n"
        "except MissingExtraError as error: print(error.message)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert 'pip install "jiuwen-graph-memory[local]"' in done.stdout


@pytest.mark.skipif(REAL not in os.environ, reason=f"{REAL} names no folder with a MiniLM-class model")
async def test_a_real_encoder_knows_what_a_sentence_is_about() -> None:
    async with OnnxEmbedding(os.environ[REAL]) as embedding:
        question = await embedding.embed_query("Where does Alice work?")
        near, far = await embedding.embed_documents(["Alice is employed by Huawei Cloud.", "A cake needs three eggs."])

    assert sum(map(float.__mul__, question, near)) > sum(map(float.__mul__, question, far)) + 0.2
