"""How a journal entry becomes rows and comes back: its text in chunks, and one row that makes them count. Pure."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final, get_args

from jiuwen_memory.foundation.store.graph.base import JournalEntry, JournalKind
from jiuwen_memory.foundation.store.graph.columns import JOURNAL_DIM, PAYLOAD_LIMIT
from jiuwen_memory.foundation.store.graph.graph_object import Row

CHUNK: Final = "chunk"
_KEY_DIGITS: Final = 16
_Claim = tuple[str, str, str]
"""Owner, plan and hash of the text: what a chunk and the entry it belongs to share."""


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

    An entry whose chunks do not add up comes with what is left of its text, and says what is wrong.
    """
    listed = list(rows)
    chunks: dict[_Claim, dict[int, str]] = defaultdict(dict)
    for row in listed:
        if row["kind"] == CHUNK:
            chunks[_claim(row)][row["number"]] = row["payload"]
    entries = [_entry(row, chunks[_claim(row)]) for row in listed if row["kind"] != CHUNK]
    return sorted(entries, key=lambda entry: (entry.created_at, entry.plan_id))


def unclaimed_keys(rows: Iterable[Row]) -> list[str]:
    """Return the keys of the chunks that no entry claims.

    A chunk of the same plan as an entry that lacks chunks is not among them: it may be one of those.
    """
    listed = list(rows)
    numbers: dict[_Claim, set[int]] = defaultdict(set)
    for row in listed:
        if row["kind"] == CHUNK:
            numbers[_claim(row)].add(row["number"])
    counting = [row for row in listed if row["kind"] != CHUNK]
    claimed = {_claim(row) for row in counting}
    broken = {_claim(row)[:2] for row in counting if _missing_chunks(row, numbers[_claim(row)])}
    return [
        row["key"]
        for row in listed
        if row["kind"] == CHUNK and _claim(row) not in claimed and _claim(row)[:2] not in broken
    ]


def count_unclaimed(rows: Iterable[Row]) -> dict[str, int]:
    """Return how many chunks no entry claims, by owner; an owner without such chunks counts none."""
    listed = list(rows)
    unclaimed = set(unclaimed_keys(listed))
    counts = dict.fromkeys((row["user_id"] for row in listed), 0)
    for row in listed:
        counts[row["user_id"]] += row["key"] in unclaimed
    return counts


def _claim(row: Row) -> _Claim:
    return row["user_id"], row["plan_id"], str(_extra(row).get("sha256", ""))


def _extra(row: Row) -> Mapping[str, object]:
    """Return what a row says about its entry; nothing, where that is no longer an object."""
    return row["extra"] if isinstance(row["extra"], Mapping) else {}


def _entry(row: Row, chunks: Mapping[int, str]) -> JournalEntry:
    payload = "".join(chunks[number] for number in sorted(chunks))
    return JournalEntry(
        plan_id=row["plan_id"],
        user_id=row["user_id"],
        # A kind that is not known is taken for a plan: nothing may be written over what is perhaps half applied.
        kind="pending" if row["kind"] == "pending" else "header",
        payload=payload,
        created_at=row["created_at"],
        damage=_damage(row, chunks, payload),
    )


def _damage(row: Row, chunks: Mapping[int, str], payload: str) -> str:
    """Say what is wrong with an entry; nothing if it adds up."""
    if row["kind"] not in get_args(JournalKind):
        return f"its kind {row['kind']!r} is not known"
    missing = _missing_chunks(row, chunks.keys())
    if missing:
        return missing
    if hashlib.sha256(payload.encode()).hexdigest() != _extra(row).get("sha256"):
        return "its text does not have the hash it was written with"
    return ""


def _missing_chunks(row: Row, numbers: Collection[int]) -> str:
    count = _extra(row).get("count")
    if not isinstance(count, int):
        return "it does not say how many chunks it has"
    if sorted(numbers) != list(range(1, count + 1)):
        return f"of its {count} chunks there are: {', '.join(map(str, sorted(numbers))) or 'none'}"
    return ""


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
