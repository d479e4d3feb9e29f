"""Checks whether what is stored adds up, and mends it. Reads the store; writes only through `commit.py`.

What a healthy graph is says `audit_rules.py`; here are the rules that need whole rows: search texts and vectors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from jiuwen_memory.errors import EmbedderNotFoundError, JournalError
from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.store.graph.base import GraphStore, JournalEntry
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    GRAPH_COLLECTIONS,
    JOURNAL_COLLECTION,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.graph_object import (
    OBJECT_TYPES,
    BaseGraphObject,
    Entity,
    Episode,
    Relation,
)
from jiuwen_memory.foundation.store.query import Or, QueryExpr, chain_filters, eq, filter_user, gt, lt, ne
from jiuwen_memory.memory_core.graph.graph_memory.audit_rules import (
    PERIOD,
    REFERENCES,
    Fault,
    Finding,
    FindingKind,
    UserGraph,
    fault,
    resolve_faults,
)
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_update, embedding_key, parse_plan, replay_journal
from jiuwen_memory.memory_core.graph.graph_memory.pending import parse_pending
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate

PAGE: Final = 200
"""Whole rows, vectors included, that are looked at or written at once."""
USERS_PAGE: Final = 10_000
"""Rows read at once to learn whose they are; within what a server gives in one answer."""
FILTER_BYTES: Final = 60_000
FILTER_ROWS: Final = 40
"""Text and rows in one filter; a store may try every row against every condition."""
LINES_SHOWN: Final = 50

_MENTIONS: Final = ("mention_count", "first_mentioned_at", "last_mentioned_at")
_STRUCTURE: Final[Mapping[str, tuple[str, ...]]] = {
    ENTITY_COLLECTION: (*REFERENCES[ENTITY_COLLECTION], *_MENTIONS, "merged_from"),
    RELATION_COLLECTION: (*REFERENCES[RELATION_COLLECTION], *_MENTIONS, *PERIOD, "content"),
    EPISODE_COLLECTION: tuple(REFERENCES[EPISODE_COLLECTION]),
}
_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    ENTITY_COLLECTION: ("name", "aliases", "content"),
    RELATION_COLLECTION: ("name", "content", "qualifiers"),
    EPISODE_COLLECTION: ("content", "valid_since", "offset_since"),
}
Confirm = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class CheckReport:
    """What was found, how many objects of each collection were looked at, and of how many users.

    `first + second` is the report of both.
    """

    findings: tuple[Finding, ...] = ()
    checked: Mapping[str, int] = field(default_factory=dict)
    users: int = 0

    @property
    def is_clean(self) -> bool:
        """Nothing was found; after a repair, `remaining` tells what is still wrong."""
        return not self.findings

    @property
    def counts(self) -> Mapping[FindingKind, int]:
        """How many findings there are of each kind that was found."""
        return dict(sorted(Counter(finding.kind for finding in self.findings).items()))

    @property
    def remaining(self) -> tuple[Finding, ...]:
        """What was found and is not repaired."""
        return tuple(finding for finding in self.findings if not finding.repaired)

    def __add__(self, other: CheckReport) -> CheckReport:
        checked = {name: self.checked.get(name, 0) + other.checked.get(name, 0) for name in GRAPH_COLLECTIONS}
        return CheckReport((*self.findings, *other.findings), checked, self.users + other.users)

    def __str__(self) -> str:
        entities, relations, episodes = (self.checked.get(name, 0) for name in GRAPH_COLLECTIONS)
        looked = f"{entities} entities, {relations} relations and {episodes} episodes of {self.users} users"
        if self.is_clean:
            return f"Checked {looked}: nothing is wrong."
        mended = len(self.findings) - len(self.remaining)
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.counts.items())
        lines = [f"Checked {looked}: {len(self.findings)} findings, {mended} repaired ({kinds})."]
        lines += [f"  {finding}" for finding in self.findings[:LINES_SHOWN]]
        if len(self.findings) > LINES_SHOWN:
            lines.append(f"  ... and {len(self.findings) - LINES_SHOWN} more")
        return "\n".join(lines)


async def check_graph(
    *,
    store: GraphStore,
    embedder: Embedder | None,
    user_id: str | None,
    repair: bool,
    confirm: Confirm | None = None,
) -> CheckReport:
    """Look at everything of one user, or of every user, and tell what does not add up; with `repair`, mend it.

    Repairing asks no language model. It finishes interrupted writes first, then removes what refers to nothing, adds
    what is missing and embeds what has to be embedded, in journalled writes, until nothing more is found. A user with a
    damaged plan in the journal is left alone, for it may be half applied. A damaged add that waits is left as it is and
    keeps nothing else from being mended. Texts of removed facts are in the findings.

    Hold the user's lock while repairing, and while checking where others may write; `confirm` asks whether it is still
    held. Vectors are looked at only with an embedder.

    Raises:
        EmbedderNotFoundError: a repair needs the embedder.
    """
    if repair and embedder is None:
        raise EmbedderNotFoundError("Repairing may have to embed texts anew; call attach_embedder(...) first.")
    report = CheckReport(checked=dict.fromkeys(GRAPH_COLLECTIONS, 0))
    for user in await recall_users(store) if user_id is None else [user_id]:
        if repair and embedder:
            report += await _mend_user(user, store=store, embedder=embedder, confirm=confirm)
        else:
            report += await _check_user(user, store=store, embedder=embedder)
    return report


async def recall_users(store: GraphStore, *, page: int = USERS_PAGE) -> list[str]:
    """Return every user of whom the store or its journal holds anything, reading at most `page` rows at once."""
    users = set(await store.journal.unfinished())
    for collection in GRAPH_COLLECTIONS:
        gaps = [gt("user_id", "")]
        while gaps:
            gap = gaps.pop()
            rows = await store.query(collection, user=gap, limit=page, output_fields=["user_id"], consistency="strong")
            found = sorted({row.user_id for row in rows})
            users.update(found)
            if len(rows) == page:
                gaps += [gap & lt("user_id", found[0]), gap & gt("user_id", found[-1])]
                gaps += [gt("user_id", after) & lt("user_id", before) for after, before in pairwise(found)]
    return sorted(users)


async def _check_user(user_id: str, *, store: GraphStore, embedder: Embedder | None) -> CheckReport:
    journal = await _recall_journal_findings(user_id, store)
    graph = await recall_graph(user_id, store)
    faults = await _recall_faults(graph, store=store, embedder=embedder)
    return _report(graph, [*journal, *(each.finding for each in faults)])


async def _mend_user(user_id: str, *, store: GraphStore, embedder: Embedder, confirm: Confirm | None) -> CheckReport:
    """Mend one user's graph; what is still found after its remedy does not count as repaired."""
    journal = await _recall_journal_findings(user_id, store)
    if any(_damage_of(each) for each in await store.journal.entries(user_id) if each.kind == "header"):
        return await _check_user(user_id, store=store, embedder=embedder)
    await replay_journal(user_id, store=store, embedder=embedder)
    left = await _recall_journal_findings(user_id, store)
    found: dict[Finding, None] = {}
    while True:
        graph = await recall_graph(user_id, store)
        faults = await _recall_faults(graph, store=store, embedder=embedder)
        untried = [each for each in faults if each.finding not in found and each.remedy != "none"]
        found.update((each.finding, None) for each in faults)
        if not untried:
            break
        await _commit_repairs(untried, user_id, store=store, embedder=embedder, confirm=confirm)
    remaining = {each.finding for each in faults}
    mended = [replace(finding, repaired=finding not in left) for finding in journal]
    return _report(graph, [*mended, *(replace(each, repaired=each not in remaining) for each in found)])


def _report(graph: UserGraph, findings: Iterable[Finding]) -> CheckReport:
    checked = {name: len(objects) for name, objects in graph.objects.items()}
    return CheckReport(tuple(findings), checked, users=1)


async def _recall_journal_findings(user_id: str, store: GraphStore) -> list[Finding]:
    def finding(kind: FindingKind, plan_id: str, detail: str) -> Finding:
        return Finding(kind, JOURNAL_COLLECTION, plan_id, user_id, detail)

    findings = []
    for entry in await store.journal.entries(user_id):
        damage = _damage_of(entry)
        if damage:
            findings.append(finding("journal_damaged", entry.plan_id, damage))
        elif entry.kind == "header":
            findings.append(finding("journal_waiting", entry.plan_id, "an interrupted write is to be finished"))
    left = (await store.journal.unfinished(user_id)).get(user_id, 0)
    if left:
        findings.append(finding("journal_unfinished", "", f"{left} rows are left of writes that never counted"))
    return findings


def _damage_of(entry: JournalEntry) -> str:
    """Say why an entry cannot be done, and what can be done about it; nothing if it can."""
    try:
        if entry.kind == "header":
            parse_plan(entry)
        else:
            parse_pending(entry)
    except JournalError as error:
        return error.message
    return ""


async def recall_graph(user_id: str, store: GraphStore) -> UserGraph:
    """Return a user's objects without their texts and vectors, and what they refer to of other users'."""
    entities, relations, episodes = await together(
        *(
            store.query(name, user=filter_user(user_id), output_fields=_STRUCTURE[name], consistency="strong")
            for name in GRAPH_COLLECTIONS
        )
    )
    graph = UserGraph(
        user_id,
        [each for each in entities if isinstance(each, Entity)],
        [each for each in relations if isinstance(each, Relation)],
        [each for each in episodes if isinstance(each, Episode)],
        store.config.db_storage_config,
    )
    foreign: set[str] = set()
    for collection, uuids in graph.unresolved().items():
        found = await store.query(
            collection,
            user=ne("user_id", user_id),
            ids=sorted(uuids),
            output_fields=["user_id"],
            consistency="strong",
        )
        foreign.update(each.uuid for each in found)
    return replace(graph, foreign=foreign)


async def _recall_faults(graph: UserGraph, *, store: GraphStore, embedder: Embedder | None) -> list[Fault]:
    faults = list(resolve_faults(graph))
    for collection, objects in graph.objects.items():
        for page in _pages(list(objects)):
            vectors = ["embedding_key", *OBJECT_TYPES[collection].vectors] if embedder else []
            rows = await store.query(
                collection,
                user=filter_user(graph.user_id),
                ids=page,
                output_fields=[*_TEXTS[collection], *vectors],
                consistency="strong",
            )
            fitting = await _recall_fitting(rows, graph.user_id, store=store)
            for each in rows:
                if each.uuid not in fitting:
                    detail = "its stored search text or normalised name is not what its texts give"
                    faults.append(fault(each, "wrong_derived_text", detail=detail))
                if embedder:
                    faults += _vector_faults(each, embedder)
    return faults


async def _recall_fitting(rows: Sequence[BaseGraphObject], user_id: str, *, store: GraphStore) -> set[str]:
    """Return the ids of the rows whose derived columns hold what they should; these can be filtered by, not read."""
    fitting: set[str] = set()
    for conditions in _batches(rows):
        found = await store.query(
            rows[0].collection,
            user=filter_user(user_id),
            ids=list(conditions),
            expr=Or(tuple(conditions.values())),
            output_fields=["uuid"],
            consistency="strong",
        )
        fitting.update(each.uuid for each in found)
    return fitting


def _batches(rows: Sequence[BaseGraphObject]) -> Iterator[dict[str, QueryExpr]]:
    """Return the conditions that the rows' derived columns should fulfil, so many that one filter can hold them."""
    batch: dict[str, QueryExpr] = {}
    size = 0
    for each in rows:
        row = each.revise(**dict.fromkeys(each.vectors)).to_row()
        derived = {name: str(row[name]) for name in ("search_text", "name_norm") if name in row}
        added = sum(len(text.encode()) for text in derived.values())
        if batch and (size + added > FILTER_BYTES or len(batch) == FILTER_ROWS):
            yield batch
            batch, size = {}, 0
        batch[each.uuid] = chain_filters(eq("uuid", each.uuid), *(eq(name, text) for name, text in derived.items()))
        size += added
    if batch:
        yield batch


def _vector_faults(each: BaseGraphObject, embedder: Embedder) -> Iterator[Fault]:
    for column in each.vectors:
        vector = getattr(each, column)
        if vector is None or len(vector) != embedder.dimension or not all(map(math.isfinite, vector)):
            state = "is missing" if vector is None else f"does not hold {embedder.dimension} finite numbers"
            yield fault(each, "unusable_vector", detail=f"{column} {state}", remedy="embed")
    if each.embedding_key != embedding_key(each, embedder.name):
        detail = f"its vectors were not made of its present texts by {embedder.name!r}"
        yield fault(each, "stale_vector", detail=detail)


async def _commit_repairs(
    faults: Iterable[Fault], user_id: str, *, store: GraphStore, embedder: Embedder, confirm: Confirm | None
) -> None:
    """Apply remedies, so many objects at a time that they fit into memory; each time all or nothing."""
    repairs: dict[str, dict[str, list[Fault]]] = {name: {} for name in GRAPH_COLLECTIONS}
    for each in faults:
        repairs[each.finding.collection].setdefault(each.finding.uuid, []).append(each)
    for collection, repaired in repairs.items():
        for page in _pages(list(repaired)):
            removed = {uuid for uuid in page if any(each.remedy == "remove" for each in repaired[uuid])}
            kept = [uuid for uuid in page if uuid not in removed]
            rows = await store.query(collection, user=filter_user(user_id), ids=kept, consistency="strong")
            update = _update_of([_repaired(each, repaired[each.uuid]) for each in rows], removed, collection)
            await commit_update(update, user_id, store=store, embedder=embedder, confirm=confirm)


def _repaired(each: BaseGraphObject, faults: Sequence[Fault]) -> BaseGraphObject:
    changes: dict[str, object] = {}
    for one in faults:
        changes.update(one.changes)
    if any(one.remedy == "embed" for one in faults):
        # Without its key no stored vector counts as fitting.
        changes["embedding_key"] = ""
    return each.revise(**changes)


def _update_of(objects: Sequence[BaseGraphObject], removed: set[str], collection: str) -> GraphMemUpdate:
    return GraphMemUpdate(
        updated_entity=[each for each in objects if isinstance(each, Entity)],
        updated_relation=[each for each in objects if isinstance(each, Relation)],
        updated_episode=[each for each in objects if isinstance(each, Episode)],
        removed_entity=removed if collection == ENTITY_COLLECTION else set(),
        removed_relation=removed if collection == RELATION_COLLECTION else set(),
        removed_episode=removed if collection == EPISODE_COLLECTION else set(),
    )


def _pages(uuids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(uuids), PAGE):
        yield uuids[start : start + PAGE]
