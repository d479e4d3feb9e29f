"""Adds that failed for good: kept in the journal with their input, to be done again. Writes the journal, no graph."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache

from pydantic import TypeAdapter, ValidationError

from jiuwen_memory.errors import EmbeddingCallError, JiuwenMemoryError, JournalError, LLMCallError, StoreError
from jiuwen_memory.foundation.hiding import hashed
from jiuwen_memory.foundation.store.graph.base import Journal, JournalEntry
from jiuwen_memory.foundation.store.graph.graph_object import new_uuid, now
from jiuwen_memory.memory_core.graph.graph_memory.requests import AddRequest
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate

logger = logging.getLogger("jiuwen_memory")

KEPT = (LLMCallError, EmbeddingCallError)
"""Failures after which the input is kept. After a failure of the store the plan may be in the journal already."""


@dataclass(frozen=True)
class PendingAdd:
    """An add that waits to be done again: why it failed, when, and the parts of its input that are not stored."""

    plan_id: str
    key: str
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
    """What became of a pending add: an update, or the error of this try; `pending` is None if it cannot be read."""

    user_id: str
    pending: PendingAdd | None = None
    update: GraphMemUpdate | None = None
    error: JiuwenMemoryError | None = None


@dataclass(frozen=True)
class _Payload:
    reason: str
    key: str
    requests: tuple[AddRequest, ...]


@cache
def _payloads() -> TypeAdapter[_Payload]:
    return TypeAdapter(_Payload)


@dataclass(frozen=True)
class Place:
    """Where an input waits if it fails: its journal id, and the key by which a later add of the same clears it."""

    plan_id: str
    key: str


def pending_place(parts: Sequence[AddRequest]) -> Place:
    """Return the place of an input.

    One that the caller gave a key or a time is the same when added again, and has one place. Of others nobody can tell
    whether an equal text is a second try or said twice: each failure keeps its own, and a success clears them all.
    """
    first = parts[0]
    given = first.idempotency_key or (str(first.reference.seconds) if first.is_repeatable else "")
    named = [first.user_id, first.kind.name, first.session_id, first.source, given, *(part.text for part in parts)]
    key = hashlib.sha256("\n".join(named).encode()).hexdigest()[:32]
    return Place(key if given else new_uuid(), key)


def resolve_waiting(entries: Iterable[JournalEntry], place: Place) -> list[str]:
    """Return the journal ids of pending adds that a success at this place clears; unreadable ones stay."""
    pending = [each for each in map(readable_pending, entries) if each is not None]
    return [each.plan_id for each in pending if each.plan_id == place.plan_id or each.key == place.key]


async def commit_pending(
    failure: JiuwenMemoryError, rest: Sequence[AddRequest], *, place: Place, journal: Journal
) -> None:
    """Keep the parts that are not stored; when the journal fails too, the error says that the input is not kept."""
    reason = f"{type(failure).__name__}: {failure.message}"
    payload = _payloads().dump_json(_Payload(reason, place.key, tuple(rest))).decode()
    entry = JournalEntry(
        plan_id=place.plan_id, user_id=rest[0].user_id, kind="pending", payload=payload, created_at=now()
    )
    try:
        await journal.put(entry)
    except StoreError as error:
        logger.error("A failed add of user %s could not be kept: %s", hashed(entry.user_id), error)
        failure.add_note(f"The input could not be kept for resume() either: {error}")


def parse_pending(entry: JournalEntry) -> PendingAdd:
    """Return a journal entry as the add it keeps.

    Raises:
        JournalError: the entry is damaged, cannot be read, or is of another user than what it keeps.
    """
    if entry.damage:
        raise JournalError(
            f"The pending add {entry.plan_id} of {entry.user_id!r} is damaged: {entry.damage}. It is somebody's input "
            "and is kept as it is; nothing else depends on it, and `journal.remove` takes it away."
        )
    try:
        payload = _payloads().validate_json(entry.payload)
    except ValidationError as error:
        raise JournalError(
            f"The pending add {entry.plan_id} of {entry.user_id!r} cannot be read: it is damaged, or written by "
            "another version. It is somebody's input and is kept as it is; nothing else depends on it, and "
            "`journal.remove` takes it away."
        ) from error
    if any(request.user_id != entry.user_id for request in payload.requests):
        raise JournalError(
            f"The pending add {entry.plan_id} is of another user than its entry; it is not done. "
            "Nothing else depends on it; `journal.remove` takes it away."
        )
    return PendingAdd(
        plan_id=entry.plan_id,
        key=payload.key,
        user_id=entry.user_id,
        reason=payload.reason,
        failed_at=datetime.fromtimestamp(entry.created_at, UTC),
        requests=tuple(replace(request, is_resumed=True) for request in payload.requests),
    )


def readable_pending(entry: JournalEntry) -> PendingAdd | None:
    """Return a journal entry as the add it keeps, or None, with a line in the log, if it cannot be read."""
    try:
        return parse_pending(entry)
    except JournalError:
        logger.error("The pending add %s of user %s cannot be read.", entry.plan_id, hashed(entry.user_id))
        return None
