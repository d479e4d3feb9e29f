"""A user's facts as a table in a file. Reads the store, writes a file; pandas and pyarrow are imported on first use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from jiuwen_memory.errors import InvalidInputError, MissingExtraError
from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.files import new_path
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.triples import Triples

_LISTS: Final = ("sources", "episodes")
_DICTS: Final = ("qualifiers",)
_CSV: Final = (".csv", ".csv.gz")
_PARQUET: Final = (".parquet",)


async def write_triples(memory: GraphMemory, user_id: str, path: str | Path) -> int:
    """Write a user's facts to a `.csv`, `.csv.gz` or `.parquet` file, a column for each field, and return how many.

    The columns are those of `Triples.to_frame()`. Parquet keeps times as times and lists as lists; in CSV times are ISO
    with a zone, and lists are JSON texts. Qualifiers are JSON texts in both.

    Raises:
        InvalidInputError: the name ends otherwise, or the path cannot be written.
        MissingExtraError: pandas, or for Parquet pyarrow, is not installed.
    """
    if not Path(path).name.endswith(_CSV + _PARQUET):
        raise InvalidInputError(
            f"{Path(path).name!r} does not say what to write; end the name in {', '.join(_CSV + _PARQUET)}."
        )
    triples = await memory.triples(user_id)
    await off_loop(None, _write, triples, path)
    return len(triples)


def _write(triples: Triples, path: str | Path) -> None:
    frame = triples.to_frame()
    # A column of dicts is a struct in Parquet, with a field for every key that any fact has.
    for name in _DICTS:
        frame[name] = [_json(value) for value in frame[name]]
    if Path(path).suffix in _PARQUET:
        _require_pyarrow()
        with new_path(path) as unfinished:
            frame.to_parquet(unfinished, engine="pyarrow", index=False)
        return
    for name in _LISTS:
        frame[name] = [_json(list(value)) for value in frame[name]]
    with new_path(path) as unfinished:
        frame.to_csv(unfinished, index=False)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _require_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            'Parquet needs pyarrow, which is not installed: pip install "jiuwen-graph-memory[pandas]"'
        ) from error
