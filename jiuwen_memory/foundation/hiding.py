"""Keeping passwords out of what is shown. Touches nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

_USER_INFO: Final = re.compile(r"//[^/@\s]*@")


def without_user_info(text: str) -> str:
    """Return the text with what stands before the @ of its URIs hidden."""
    return _USER_INFO.sub("//***@", text)


def shown_fields(arguments: Iterable[tuple[str | None, Any]]) -> Iterator[tuple[str | None, Any]]:
    """Yield the fields of a pydantic model's repr without the passwords in addresses."""
    for name, value in arguments:
        yield name, without_user_info(value) if isinstance(value, str) else value


def hashed(user_id: str) -> str:
    """Return what stands for a user id in logs and traces: equal for equal ids, and telling nothing else."""
    return hashlib.sha256(user_id.encode("utf-8", "replace")).hexdigest()[:12]
