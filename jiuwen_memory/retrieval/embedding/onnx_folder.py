"""What a folder with a sentence encoder says about itself, as sentence-transformers lays it out. Only reads files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from jiuwen_memory.errors import SetupError

Pooling = Literal["mean", "cls", "last"]

MODEL_FILES: Final = (
    *("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx"),
    *("model_int8.onnx", "onnx/model_int8.onnx", "onnx/model_qint8_avx512.onnx", "onnx/model_fp16.onnx"),
)
LONGEST: Final = 512
"""Tokens a model reads at once, where its folder does not say."""
_POOLING_FLAGS: Final[Mapping[str, Pooling]] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
}
_POOLING_NAMES: Final[Mapping[object, Pooling]] = {"cls": "cls", "mean": "mean", "lasttoken": "last"}
_QUERY_PROMPTS: Final = ("query", "search_query", "s2p_query")
_DOCUMENT_PROMPTS: Final = ("document", "passage", "search_document", "corpus")


@dataclass(frozen=True)
class EncoderFolder:
    """Where the model and its tokenizer lie, and how they are used."""

    model: Path
    tokenizer: Path
    pooling: Pooling
    max_tokens: int
    query_prefix: str
    document_prefix: str


def read_folder(folder: Path, *, model_file: str | None = None, pooling: Pooling | None = None) -> EncoderFolder:
    """Return what the folder holds; what it does not say is mean pooling, 512 tokens and no prefixes.

    Args:
        pooling: what counts in place of what the folder says.

    Raises:
        SetupError: the model or `tokenizer.json` is missing, a file cannot be read, or the pooling is of another kind.
    """
    names = MODEL_FILES if model_file is None else (model_file,)
    model = next((folder / name for name in names if (folder / name).is_file()), None)
    tokenizer = next((each / "tokenizer.json" for each in (folder, folder / "onnx") if _has_tokenizer(each)), None)
    if model is None or tokenizer is None:
        missing = f"no model ({', '.join(names)})" if model is None else "no tokenizer.json"
        raise SetupError(f"There is {missing} in {folder}; give the folder of an encoder exported to ONNX.")
    prompts = _read(folder / "config_sentence_transformers.json").get("prompts")
    named = prompts if isinstance(prompts, Mapping) else {}
    return EncoderFolder(
        model=model,
        tokenizer=tokenizer,
        pooling=pooling or _pooling(folder),
        max_tokens=_max_tokens(folder),
        query_prefix=_prompt(named, _QUERY_PROMPTS),
        document_prefix=_prompt(named, _DOCUMENT_PROMPTS),
    )


def _has_tokenizer(folder: Path) -> bool:
    return (folder / "tokenizer.json").is_file()


def _pooling(folder: Path) -> Pooling:
    config = _read(folder / "1_Pooling" / "config.json")
    named = config.get("pooling_mode")
    modes = [mode for flag, mode in _POOLING_FLAGS.items() if config.get(flag) is True]
    others = [flag for flag, on in config.items() if flag.startswith("pooling_mode_") and on is True]
    if isinstance(named, str) and named in _POOLING_NAMES and not others:
        return _POOLING_NAMES[named]
    if named is None and len(modes) == len(others) <= 1:
        return modes[0] if modes else "mean"
    raise SetupError(
        f"{folder / '1_Pooling'} asks for pooling by {named or ' and '.join(others)}; mean, cls and lasttoken alone "
        "are known. Pass pooling=... if one of them is meant."
    )


def _max_tokens(folder: Path) -> int:
    given = (
        _read(folder / "sentence_bert_config.json").get("max_seq_length"),
        _read(folder / "tokenizer_config.json").get("model_max_length"),
        _read(folder / "config.json").get("max_position_embeddings"),
    )
    # Some tokenizers write a number beyond all bounds for "no limit".
    limits = [each for each in given if isinstance(each, int) and 2 < each < 1_000_000]
    return min(limits, default=LONGEST)


def _prompt(prompts: Mapping[str, object], names: tuple[str, ...]) -> str:
    found = next((prompts[name] for name in names if name in prompts), "")
    return found if isinstance(found, str) else ""


def _read(file: Path) -> Mapping[str, object]:
    if not file.is_file():
        return {}
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SetupError(f"{file} is no JSON: {error}.") from error
    return values if isinstance(values, Mapping) else {}
