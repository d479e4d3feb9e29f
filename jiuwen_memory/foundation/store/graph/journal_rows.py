"""How a journal entry becomes rows and comes back: its text in chunks, and one row that makes them count. Pure."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from jiuwen_memory.errors import JournalError
from jiuwen_memory.foundation.store.graph.base import JournalEntry
from jiuwen_memory.foundation.store.graph.columns import JOURNAL_DIM, PAYLOAD_LIMIT
from jiuwen_memory.foundation.store.graph.graph_object import Row

CHUNK: Final = "chunk"
_KEY_DIGITS: Final = 16


def entry_rows(entry: JournalEntry) -> tuple[list[Row], Row]:
    """Return the chunks of an entry and the row that makes them count.

    A chunk's key holds a part of the payload's hash, so that writing a plan again never touches the chunks of its
    earlier version before the counting row has changed.
    """
    digest = hashlib.sha256(entry.payload.encode()).hexdigest()
    pieces = cut_payload(entry.payload)
    chunks = [
        _row(entry, f"{entry.plan_id}:{digest[:_KEY_DIGITS]}:{number}", CHUNK, number, piece, {"sha256": digest})
        for number, piece in enumerate(pieces, start=1)
    ]
    extra: dict[str, str | int] = {"sha256": digest, "count": len(pieces)}
    return chunks, _row(entry, counting_key(entry.plan_id), entry.kind, 0, "", extra)


def counting_key(plan_id: str) -> str:
    """Return the key of the row that makes an entry count."""
    return f"{plan_id}:0"


def cut_payload(payload: str, limit: int = PAYLOAD_LIMIT) -> list[str]:
    """Cut a text into pieces of at most `limit` UTF-8 bytes, between characters."""
    encoded = payload.encode()
    pieces: list[str] = []
    start = 0
    while start < len(encoded):
        end = min(start + limit, len(encoded))
        while end < len(encoded) and encoded[end] & 0xC0 == 0x80:
            end -= 1
        pieces.append(encoded[start:end].decode())
        start = end
    return pieces


def assemble_entries(rows: Iterable[Row]) -> list[JournalEntry]:
    """Return the entries that rows make up, oldest first; chunks that no entry claims are passed over.

    A pending entry whose chunks do not add up comes without its text.

    Raises:
        JournalError: the chunks of a header do not add up.
    """
    chunks: dict[tuple[str, str, str], dict[int, str]] = defaultdict(dict)
    counting: list[Row] = []
    for row in rows:
        if row["kind"] == CHUNK:
            chunks[_claim(row)][row["number"]] = row["payload"]
        else:
            counting.append(row)
    entries = [_entry(row, chunks[_claim(row)]) for row in counting]
    return sorted(entries, key=lambda entry: (entry.created_at, entry.plan_id))


def unclaimed_keys(rows: Iterable[Row]) -> list[str]:
    """Return the keys of the chunks that no entry claims."""
    listed = list(rows)
    claimed = {_claim(row) for row in listed if row["kind"] != CHUNK}
    return [row["key"] for row in listed if row["kind"] == CHUNK and _claim(row) not in claimed]


def count_unclaimed(rows: Iterable[Row]) -> dict[str, int]:
    """Return how many chunks no entry claims, by owner; an owner without such chunks counts none."""
    listed = list(rows)
    unclaimed = set(unclaimed_keys(listed))
    counts = dict.fromkeys((row["user_id"] for row in listed), 0)
    for row in listed:
        counts[row["user_id"]] += row["key"] in unclaimed
    return counts


def _claim(row: Row) -> tuple[str, str, str]:
    return row["user_id"], row["plan_id"], row["extra"]["sha256"]


def _entry(row: Row, chunks: Mapping[int, str]) -> JournalEntry:
    payload = "".join(chunks[number] for number in sorted(chunks))
    damage = _damage(row, chunks, payload)
    if damage and row["kind"] == "header":
        _refuse(row, damage)
    if damage:
        # What waits to be done again must not keep its user from writing; without its text it cannot be read.
        payload = ""
    return JournalEntry(
        plan_id=row["plan_id"],
        user_id=row["user_id"],
        kind=row["kind"],
        payload=payload,
        created_at=row["created_at"],
    )


def _damage(row: Row, chunks: Mapping[int, str], payload: str) -> str:
    """Say what is wrong with an entry; nothing if it adds up."""
    count = row["extra"]["count"]
    if sorted(chunks) != list(range(1, count + 1)):
        found = ", ".join(map(str, sorted(chunks))) or "none"
        return f"of its {count} chunks there are: {found}"
    if hashlib.sha256(payload.encode()).hexdigest() != row["extra"]["sha256"]:
        return "its text does not have the hash it was written with"
    return ""


def _refuse(row: Row, reason: str) -> None:
    raise JournalError(
        f"Journal entry {row['plan_id']!r} of user {row['user_id']!r} is damaged: {reason}. Its plan may be "
        "half applied; restore the store from a copy, or remove the entry with `journal.remove` and add the input "
        "again."
    )


def _row(entry: JournalEntry, key: str, kind: str, number: int, payload: str, extra: Mapping[str, str | int]) -> Row:
    return {
        "key": key,
        "plan_id": entry.plan_id,
        "user_id": entry.user_id,
        "kind": kind,
        "payload": payload,
        "number": number,
        "created_at": entry.created_at,
        "extra": dict(extra),
        "placeholder": [0.0] * JOURNAL_DIM,
    }
