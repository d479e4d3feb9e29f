"""Files of bytes that are written whole or not at all, and files that are read twice. Touches the file system.

A path that ends in `.gz` is compressed.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.files import home_path, new_path

Place = str | Path | BinaryIO


@contextmanager
def new_file(place: Place) -> Iterator[BinaryIO]:
    """Lend a binary file to write to; a path gets it when the body has ended well, and keeps what it had otherwise.

    Raises:
        InvalidInputError: it cannot be written there.
    """
    if not isinstance(place, str | Path):
        _refuse_text(place, how="wb")
        yield place
        return
    with new_path(place) as unfinished, ExitStack() as opened:
        file: BinaryIO = opened.enter_context(unfinished.open("wb"))
        if Path(place).suffix == ".gz":
            # Without a name and a time in it, equal graphs give equal files.
            file = cast(BinaryIO, opened.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)))
        yield file


@contextmanager
def stored_file(place: Place) -> Iterator[BinaryIO]:
    """Lend a binary file to read from, at its beginning; a file object must be seekable, and stays open.

    Raises:
        InvalidInputError: it cannot be read.
    """
    if not isinstance(place, str | Path):
        _refuse_text(place, how="rb")
        if not place.seekable():
            raise InvalidInputError("The file cannot be read twice, which checking it first needs; give a path.")
        place.seek(0)
        yield place
        return
    path = home_path(place)
    with ExitStack() as opened:
        try:
            file: BinaryIO = opened.enter_context(path.open("rb"))
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"{path} cannot be read ({error}); give the path of a file.") from error
        if path.suffix == ".gz":
            file = cast(BinaryIO, opened.enter_context(gzip.GzipFile(fileobj=file)))
        yield file


def _refuse_text(place: object, *, how: str) -> None:
    if isinstance(place, io.TextIOBase) or not hasattr(place, "read" if how == "rb" else "write"):
        raise InvalidInputError(f"A {type(place).__name__} was given; give a path, or a file opened with {how!r}.")
