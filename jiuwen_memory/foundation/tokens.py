"""Counting a model's tokens: by a tokenizer where there is one, by an estimate otherwise. May read tiktoken's file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sized
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.text import estimate_tokens

ENCODING: Final = "o200k_base"
CACHE_VARIABLE: Final = "TIKTOKEN_CACHE_DIR"
# Where tiktoken fetches the encoding from; the SHA-1 of the address is the name of the file in its cache.
_ADDRESS: Final = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"


class Tokenizer(Protocol):
    """What cuts a text into tokens: an encoding of tiktoken, a tokenizer of `tokenizers` or `transformers`."""

    def encode(self, text: str, /) -> Sized:
        """Return the tokens of a text."""


def token_counter(tokenizer: Tokenizer | None = None) -> Callable[[str], int]:
    """Return what counts tokens: the tokenizer; without one tiktoken, if its file is at hand; or else an estimate.

    Nothing is ever downloaded: `o200k_base` is used if `TIKTOKEN_CACHE_DIR` names a folder that holds it.

    Raises:
        InvalidInputError: the tokenizer has no method `encode`.
    """
    if tokenizer is None:
        tokenizer = _tiktoken(os.environ.get(CACHE_VARIABLE, ""))
    if tokenizer is None:
        return estimate_tokens
    encode = getattr(tokenizer, "encode", None)
    # The `encode` of a text, such as the name of an encoding, makes bytes.
    if not callable(encode) or isinstance(tokenizer, str):
        raise InvalidInputError(f"A tokenizer needs a method encode(text); {type(tokenizer).__name__} has none.")
    # Words that mean something to the model, such as <|endoftext|>, are text like any other here.
    special = {"disallowed_special": ()} if _is_tiktoken(tokenizer) else {}
    return lambda text: len(encode(text, **special))


def _is_tiktoken(tokenizer: object) -> bool:
    return type(tokenizer).__module__.split(".")[0] == "tiktoken"


@cache
def _tiktoken(folder: str) -> Tokenizer | None:
    if not folder or not (Path(folder) / hashlib.sha1(_ADDRESS.encode(), usedforsecurity=False).hexdigest()).is_file():
        return None
    try:
        import tiktoken
    except ModuleNotFoundError:
        return None
    try:
        encoding: Tokenizer = tiktoken.get_encoding(ENCODING)
    except (OSError, ValueError):
        # The file was damaged, and could not be fetched again.
        return None
    return encoding
