"""Files that appear whole or not at all, for their owner's eyes only. Touches the file system."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from jiuwen_memory.errors import InvalidInputError

_FOR_ITS_OWNER = 0o600
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def home_path(place: str | Path) -> Path:
    """Return a path in which a `~` at the beginning is written out.

    Raises:
        InvalidInputError: it is the home folder of somebody unknown.
    """
    try:
        return Path(place).expanduser()
    except RuntimeError as error:
        raise InvalidInputError(f"{str(place)!r} lies in a home folder that is not known; write it out.") from error


@contextmanager
def new_path(place: str | Path) -> Iterator[Path]:
    """Lend a path beside the wanted one, which takes its place when the body has ended well.

    Only its owner can read it: what is written here is somebody's memory, and sharing it should be something one does.

    Raises:
        InvalidInputError: it cannot be written there.
    """
    path = home_path(place)
    try:
        # The suffix stays last: it tells some writers what to write.
        unfinished = path.with_name(f".{path.stem}.{uuid4().hex[:8]}{path.suffix}")
        unfinished.touch(_FOR_ITS_OWNER, exist_ok=False)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path} cannot be written ({error}); give a path in a folder that exists.") from error
    try:
        yield unfinished
        _put(unfinished, path)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise InvalidInputError(f"{path} cannot be written ({error.strerror}); make room, or go elsewhere.") from error
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()


def _put(unfinished: Path, path: Path) -> None:
    try:
        unfinished.replace(path)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written ({error.strerror}); give the path of a file.") from error
