"""The lines of an exported graph: a header, an object a line, a trailer that shows a file to be whole. Pure.

Version 1: every line is a JSON object and ends with a line feed, in UTF-8.

- The header: `format`, `version`, `library` (its version), `user_id`, `counts` by collection, `embedder` (the model's
  name), `dimension`, `vectors` (whether they are there).
- An object: `collection`, and `object` with the fields of `Entity`, `Relation` or `Episode`, all but the owner, which
  the header names.
- The trailer: `end`, `counts`, `sha256` of all bytes before it, `graph_sha256` of the object lines.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import BinaryIO, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jiuwen_memory.errors import ExchangeFileError, ExchangeVersionError
from jiuwen_memory.foundation.store.graph.constants import GRAPH_COLLECTIONS
from jiuwen_memory.foundation.store.graph.graph_object import OBJECT_TYPES, BaseGraphObject

FORMAT: Final = "jiuwen-graph-memory"
VERSION: Final = 1
LINE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of one line; the largest object that a store can hold, vectors included, stays far below."""
PAGE: Final = 200
"""Objects that are in memory at once."""

_EDGE = ConfigDict(frozen=True, extra="ignore", strict=True)


class Header(BaseModel):
    """The first line of a file."""

    model_config = _EDGE

    format: Literal["jiuwen-graph-memory"] = FORMAT
    version: int = Field(default=VERSION, ge=1)
    library: str = ""
    user_id: str
    counts: dict[str, int]
    embedder: str = ""
    dimension: int = 0
    vectors: bool = False

    @property
    def total(self) -> int:
        """How many objects follow."""
        return sum(self.counts.values())


class Trailer(BaseModel):
    """The last line of a file."""

    model_config = _EDGE

    end: Literal[True] = True
    counts: dict[str, int]
    sha256: str
    graph_sha256: str


def library_version() -> str:
    """Return the version of this library; nothing where it is not installed."""
    try:
        return version("jiuwen-graph-memory")
    except PackageNotFoundError:
        return ""


class Digest:
    """Counts and hashes lines as they go by."""

    def __init__(self) -> None:
        self._lines = hashlib.sha256()
        self._objects = hashlib.sha256()
        self._counts: Counter[str] = Counter(dict.fromkeys(GRAPH_COLLECTIONS, 0))

    def add_header(self, line: bytes) -> None:
        """Take in the first line."""
        self._lines.update(line)

    def add_object(self, line: bytes, collection: str) -> None:
        """Take in the line of an object."""
        self._lines.update(line)
        self._objects.update(line)
        self._counts[collection] += 1

    def trailer(self) -> Trailer:
        """Return the trailer that belongs to these lines."""
        return Trailer(
            counts=dict(self._counts), sha256=self._lines.hexdigest(), graph_sha256=self._objects.hexdigest()
        )


def model_line(model: BaseModel) -> bytes:
    """Return a header or a trailer as a line."""
    return _line(model.model_dump())


def object_line(each: BaseGraphObject, *, vectors: bool) -> bytes:
    """Return an object as a line."""
    left_out = {"user_id"} if vectors else {"user_id", *each.vectors}
    return _line({"collection": each.collection, "object": each.model_dump(mode="json", exclude=left_out)})


def _line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def read_header(file: BinaryIO) -> Header:
    """Return the header of a file, from its beginning.

    Raises:
        ExchangeVersionError: only a newer version of this library reads it.
        ExchangeFileError: it is no export, or damaged.
    """
    return _parse_header(_read_line(file, 1))


def read_objects(file: BinaryIO, user_id: str) -> Iterator[list[BaseGraphObject]]:
    """Yield the objects of a file page by page, as this user's; the end of the file must fit to what came before.

    Raises:
        ExchangeVersionError, ExchangeFileError: as `read_header`, or the file is damaged or cut off.
    """
    digest = Digest()
    first = _read_line(file, 1)
    header = _parse_header(first)
    digest.add_header(first)
    number, page = 1, list[BaseGraphObject]()
    while True:
        number += 1
        line = _read_line(file, number)
        values = _parse_json(line, number)
        if "end" in values:
            break
        each = _parse_object(values, header, number, user_id=user_id)
        digest.add_object(line, each.collection)
        page.append(each)
        if len(page) == PAGE:
            yield page
            page = []
    _check_end(values, header, digest.trailer(), rest=_read(file, number + 1))
    if page:
        yield page


def verify(file: BinaryIO, user_id: str) -> Header:
    """Read a file from beginning to end and return its header, if it is whole.

    Raises:
        ExchangeVersionError, ExchangeFileError: it is not.
    """
    header = read_header(file)
    file.seek(0)
    seen: set[str] = set()
    for page in read_objects(file, user_id):
        for each in page:
            if each.uuid in seen:
                raise ExchangeFileError(f"The file holds the id {each.uuid} twice; export the graph again.")
            seen.add(each.uuid)
    return header


def _read_line(file: BinaryIO, number: int) -> bytes:
    line = _read(file, number)
    if not line.endswith(b"\n"):
        state = "is missing: the file is empty, or cut off" if not line else "has no end: the file is cut off"
        raise ExchangeFileError(f"Line {number} {state}. Nothing was imported; copy or export it again.")
    return line


def _read(file: BinaryIO, number: int) -> bytes:
    try:
        return file.readline(LINE_LIMIT)
    except (EOFError, OSError, zlib.error) as error:
        raise ExchangeFileError(f"Line {number} cannot be read ({error}); the file is damaged.") from error


def _parse_json(line: bytes, number: int) -> dict[str, object]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ExchangeFileError(f"Line {number} is no JSON; the file is damaged, or no export of a graph.") from error
    if not isinstance(values, dict):
        raise ExchangeFileError(f"Line {number} is a {type(values).__name__}; the file is no export of a graph.")
    return values


def _parse_header(line: bytes) -> Header:
    values = _parse_json(line, 1)
    if values.get("format") != FORMAT:
        raise ExchangeFileError(
            f"The first line does not say that this is a graph: its format is {values.get('format')!r}, not "
            f"{FORMAT!r}. Give a file written by export_graph."
        )
    found = values.get("version")
    if isinstance(found, int) and found > VERSION:
        raise ExchangeVersionError(
            f"The file has version {found} of the format (library {values.get('library')!r}), this library reads "
            f"versions up to {VERSION}. Update jiuwen-graph-memory, or export with the older version."
        )
    try:
        header = Header.model_validate(values)
    except ValidationError as error:
        raise ExchangeFileError(f"The first line is damaged: {_faults(error)}.") from error
    if unknown := header.counts.keys() - set(GRAPH_COLLECTIONS):
        raise ExchangeFileError(f"The first line is damaged: it counts {', '.join(sorted(unknown))}.")
    return header


def _parse_object(values: Mapping[str, object], header: Header, number: int, *, user_id: str) -> BaseGraphObject:
    kind, found = OBJECT_TYPES.get(str(values.get("collection"))), values.get("object")
    if kind is None or not isinstance(found, dict) or not found.get("uuid"):
        raise ExchangeFileError(f"Line {number} holds no object of a graph; the file is damaged.")
    try:
        each = kind.model_validate({**found, "user_id": user_id})
    except ValidationError as error:
        raise ExchangeFileError(f"The object in line {number} cannot be read: {_faults(error)}.") from error
    for column in each.vectors:
        vector: Sequence[float] | None = getattr(each, column)
        if vector is not None and (len(vector) != header.dimension or not all(map(math.isfinite, vector))):
            raise ExchangeFileError(
                f"{column} in line {number} is not {header.dimension} finite numbers; the file is damaged."
            )
    return each


def _check_end(values: Mapping[str, object], header: Header, expected: Trailer, *, rest: bytes) -> None:
    try:
        found = Trailer.model_validate(values)
    except ValidationError as error:
        raise ExchangeFileError(f"The last line is damaged: {_faults(error)}.") from error
    counted = {name: count for name, count in expected.counts.items() if count}
    if any({name: n for name, n in each.counts.items() if n} != counted for each in (header, found)):
        raise ExchangeFileError(
            f"The file holds {counted}; its first line says {header.counts}, its last {found.counts}. It is damaged; "
            "export the graph again."
        )
    if found.sha256 != expected.sha256 or found.graph_sha256 != expected.graph_sha256:
        raise ExchangeFileError(
            "The file does not have the SHA-256 in its last line: it was changed or damaged since it was written. "
            "Copy or export it again."
        )
    if rest:
        raise ExchangeFileError("Something follows the last line; the file is damaged. Export the graph again.")


def _faults(error: ValidationError) -> str:
    """Say what is wrong and where, without the values: they are somebody's memories."""
    listed = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in listed[:3])
