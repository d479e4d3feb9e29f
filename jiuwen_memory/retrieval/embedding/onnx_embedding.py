"""Any sentence encoder exported to ONNX, run in this process; the extra `local` brings what runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jiuwen_memory.errors import InvalidInputError, MissingExtraError, SetupError
from jiuwen_memory.retrieval.embedding.in_process import InProcessEmbedding, mean_row
from jiuwen_memory.retrieval.embedding.onnx_folder import EncoderFolder, Pooling, read_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer

RUN_PIECES: Final = 32
"""Pieces of text in one run of the model."""
_SENTENCE_OUTPUT: Final = "sentence_embedding"
_PAD_TOKENS: Final = ("[PAD]", "<pad>", "<|endoftext|>")


class OnnxEmbedding(InProcessEmbedding):
    """A sentence encoder in a folder, as sentence-transformers exports it: `model.onnx`, `tokenizer.json`, settings.

    The folder says how tokens become a vector (mean, cls or last token), how many it reads at once, and what stands
    before queries and documents; arguments win over it. Vectors have length one. A text that is too long is read in
    pieces, whose vectors are averaged. It loads when first used, and works in a thread of its own.

    Args:
        path: the folder; nothing is downloaded.
        model_file: which file in it, if not `model.onnx` or one of its usual variants.
        model_name: kept with the vectors, which another name makes out of date (default: the folder's name).
        max_tokens: tokens read at once, special ones included.
        pooling: how tokens become one vector, unless the model has an output `sentence_embedding`.
        query_prefix, document_prefix: such as "query: " and "passage: " of the E5 family.
        threads: threads of its matrix products.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        model_file: str | None = None,
        model_name: str | None = None,
        max_tokens: int | None = None,
        pooling: Pooling | None = None,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        threads: int = 1,
    ) -> None:
        super().__init__(threads=threads)
        if max_tokens is not None and max_tokens < 3:
            raise InvalidInputError(f"max_tokens is {max_tokens}; give 3 or more.")
        if pooling not in (None, "mean", "cls", "last"):
            raise InvalidInputError(f"pooling is {pooling!r}; give mean, cls or last.")
        self.path = Path(path)
        self.model_name = model_name or self.path.absolute().name
        self._model_file = model_file
        self._max_tokens = max_tokens
        self._pooling: Pooling | None = pooling
        self._prefixes = {True: query_prefix, False: document_prefix}
        self._encoder: _Encoder | None = None
        self._dimension: int | None = None

    @property
    def dimension(self) -> int | None:
        """Length of each vector, or None before the first use."""
        return self._dimension

    def _encode(self, texts: Sequence[str], *, is_query: bool) -> list[list[float]]:
        encoder = self._loaded()
        given = self._prefixes[is_query]
        own = encoder.folder.query_prefix if is_query else encoder.folder.document_prefix
        prefix = own if given is None else given
        vectors = encoder.encode([prefix + text for text in texts])
        self._dimension = len(vectors[0]) if vectors else self._dimension
        return vectors

    def _release(self) -> None:
        self._encoder = None

    def _loaded(self) -> _Encoder:
        if self._encoder is None:
            folder = read_folder(self.path, model_file=self._model_file, pooling=self._pooling)
            self._encoder = _load(
                folder,
                max_tokens=self._max_tokens or folder.max_tokens,
                threads=self._threads,
            )
        return self._encoder


@dataclass(frozen=True)
class _Encoder:
    folder: EncoderFolder
    session: InferenceSession
    tokenizer: Tokenizer
    inputs: frozenset[str]
    output: str
    pad_id: int

    def encode(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text: the mean over its pieces."""
        groups = [[each, *each.overflowing] for each in self.tokenizer.encode_batch(list(texts))]
        pieces = [piece for group in groups for piece in group]
        rows = iter(self._rows(pieces))
        return [mean_row([next(rows) for _ in group]) for group in groups]

    def _rows(self, pieces: Sequence[Encoding]) -> list[list[float]]:
        """Return one vector per piece, in order; pieces of like length run together, so that little is padded."""
        by_length = sorted(range(len(pieces)), key=lambda place: len(pieces[place]))
        rows: dict[int, list[float]] = {}
        for start in range(0, len(pieces), RUN_PIECES):
            places = by_length[start : start + RUN_PIECES]
            rows |= zip(places, self._run([pieces[place] for place in places]), strict=True)
        return [rows[place] for place in range(len(pieces))]

    def _run(self, pieces: Sequence[Encoding]) -> list[list[float]]:
        import numpy as np

        shape = (len(pieces), max(len(piece) for piece in pieces))
        arrays = {
            "input_ids": np.full(shape, self.pad_id, np.int64),
            "attention_mask": np.zeros(shape, np.int64),
            "token_type_ids": np.zeros(shape, np.int64),
        }
        for row, piece in enumerate(pieces):
            arrays["input_ids"][row, : len(piece)] = piece.ids
            arrays["attention_mask"][row, : len(piece)] = 1
            arrays["token_type_ids"][row, : len(piece)] = piece.type_ids
        fed: Mapping[str, Any] = {name: array for name, array in arrays.items() if name in self.inputs}
        found = np.asarray(self.session.run([self.output], dict(fed))[0], np.float32)
        pooled = found if found.ndim == 2 else _pooled(found, arrays["attention_mask"], self.folder.pooling)
        lengths = np.linalg.norm(pooled, axis=1, keepdims=True)
        rows: list[list[float]] = (pooled / np.maximum(lengths, 1e-12)).tolist()
        return rows


def _pooled(states: NDArray[np.float32], mask: NDArray[np.int64], pooling: Pooling) -> NDArray[np.float32]:
    """Return one vector per row of token states (rows, tokens, width)."""
    import numpy as np

    rows = np.arange(len(states))
    weights = mask[..., None].astype(np.float32)
    pooled: NDArray[np.float32]
    match pooling:
        case "cls":
            pooled = states[rows, 0]
        case "last":
            pooled = states[rows, mask.sum(axis=1) - 1]
        case _:
            pooled = (states * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1.0)
    return pooled


def _load(folder: EncoderFolder, *, max_tokens: int, threads: int) -> _Encoder:
    try:
        import onnxruntime
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f'OnnxEmbedding needs {error.name}, which is not installed: pip install "jiuwen-graph-memory[local]"'
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder.model), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    inputs = frozenset(each.name for each in session.get_inputs())
    if unknown := inputs - {"input_ids", "attention_mask", "token_type_ids"}:
        raise SetupError(f"{folder.model} wants {', '.join(sorted(unknown))}, which no sentence encoder should.")
    outputs = [each.name for each in session.get_outputs()]
    output = _SENTENCE_OUTPUT if _SENTENCE_OUTPUT in outputs else outputs[0]
    pad_id = next(_pad_ids(tokenizer), 0)
    return _Encoder(folder, session, tokenizer, inputs, output, pad_id)


def _pad_ids(tokenizer: Tokenizer) -> Iterator[int]:
    for token in _PAD_TOKENS:
        number = tokenizer.token_to_id(token)
        if number is not None:
            yield number
