"""Adds that failed for good: kept in the journal with their input, to be done again. Writes the journal, no graph."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from jiuwen_memory.errors import EmbeddingCallError, JiuwenMemoryError, JournalError, LLMCallError, StoreError
from jiuwen_memory.foundation.store.graph.base import Journal, JournalEntry
from jiuwen_memory.foundation.store.graph.graph_object import now
from jiuwen_memory.memory_core.graph.graph_memory.requests import AddRequest
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate

logger = logging.getLogger("jiuwen_memory")

KEPT = (LLMCallError, EmbeddingCallError)
"""Failures after which the input is kept. After a failure of the store the plan may be in the journal already."""


@dataclass(frozen=True)
class PendingAdd:
    """An add that waits to be done again: why it failed, when, and the parts of its input that are not stored."""

    plan_id: str
    user_id: str
    reason: str
    failed_at: datetime
    requests: tuple[AddRequest, ...]

    @property
    def age(self) -> float:
        """Seconds since it failed."""
        return (datetime.now(UTC) - self.failed_at).total_seconds()

    @property
    def text(self) -> str:
        """What is still to be remembered."""
        return "".join(request.text for request in self.requests)


@dataclass(frozen=True)
class ResumedAdd:
    """What became of a pending add: an update, or the error of this try."""

    pending: PendingAdd
    update: GraphMemUpdate | None = None
    error: JiuwenMemoryError | None = None


@checked_dataclass(frozen=True)
class _Payload:
    reason: str
    requests: tuple[AddRequest, ...]


@cache
def _payloads() -> TypeAdapter[_Payload]:
    return TypeAdapter(_Payload)


def pending_key(parts: Sequence[AddRequest]) -> str:
    """Return the journal id under which an input waits; the same content of the same user has the same one."""
    text = "".join(part.text for part in parts)
    first = parts[0]
    return hashlib.sha256(f"{first.user_id}\n{first.kind.name}\n{text}".encode()).hexdigest()[:32]


async def keep_pending(failure: JiuwenMemoryError, rest: Sequence[AddRequest], *, key: str, journal: Journal) -> None:
    """Keep the parts that are not stored; when the journal fails too, the error says that the input is not kept."""
    reason = f"{type(failure).__name__}: {failure.message}"
    payload = _payloads().dump_json(_Payload(reason, tuple(rest))).decode()
    entry = JournalEntry(plan_id=key, user_id=rest[0].user_id, kind="pending", payload=payload, created_at=now())
    try:
        await journal.put(entry)
    except StoreError as error:
        logger.error("A failed add could not be kept: %s", error)
        failure.add_note(f"The input could not be kept for resume() either: {error}")


def parse_pending(entry: JournalEntry) -> PendingAdd:
    """Return a journal entry as the add it keeps."""
    try:
        payload = _payloads().validate_json(entry.payload)
    except ValidationError as error:
        raise JournalError(
            f"The pending add {entry.plan_id} cannot be read; it was written by another version. Remove it, or read "
            "its text from the journal."
        ) from error
    if any(request.user_id != entry.user_id for request in payload.requests):
        raise JournalError(f"The pending add {entry.plan_id} is of another user than its entry; it is not done.")
    return PendingAdd(
        plan_id=entry.plan_id,
        user_id=entry.user_id,
        reason=payload.reason,
        failed_at=datetime.fromtimestamp(entry.created_at, UTC),
        requests=tuple(replace(request, is_resumed=True) for request in payload.requests),
    )
