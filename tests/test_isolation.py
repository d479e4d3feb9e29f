"""No row of another user is ever returned, changed or removed, whatever ids and queries look like, on any backend.

Every search mode is tried, and everything that is done with a graph that is there: listing, mending, deleting.

The number of examples is small here; JIUWEN_MEMORY_EXAMPLES raises it. Examples and leaks are printed per backend.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import unicodedata
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jiuwen_memory import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
    AddMemStrategy,
    EpisodeType,
    GraphMemory,
    GraphMemUpdate,
    RRFRankConfig,
    SearchConfig,
    WeightedRankConfig,
)
from jiuwen_memory.errors import (
    InvalidInputError,
    JournalError,
    LLMCallError,
    ModelServiceError,
    QueryExpressionError,
    StoreParameterError,
)
from jiuwen_memory.foundation.store.graph import BaseGraphObject, Entity, GraphStoreFactory, JournalEntry, Relation
from jiuwen_memory.foundation.store.graph.result_ranking import BaseRankConfig
from jiuwen_memory.foundation.store.query import (
    QueryExpr,
    array_contains,
    eq,
    filter_user,
    gte,
    in_list,
    ne,
    starts_with,
)
from jiuwen_memory.foundation.text import is_blank
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_update
from jiuwen_memory.memory_core.graph.graph_memory.services import Embedder
from jiuwen_memory.testing import FakeEmbedder, FakeLLM, FakeReranker, StrictStore
from tests.memory_support import Taught, taught
from tests.stores import BACKENDS, DIM, Backend, entity, lite_server, relation

T = TypeVar("T")
COLLECTIONS = (ENTITY_COLLECTION, RELATION_COLLECTION, EPISODE_COLLECTION)
ASKED = os.environ.get("JIUWEN_MEMORY_EXAMPLES", "")
EXAMPLES = int(ASKED or 0)
FEW = {"memory": 12, "lite": 2, "lite-server": 2, "strict-lite": 2}
LIMIT = 32
CANARY = re.compile("canary[0-9]{6}")
IDLE: Final = '{"rows": {}, "removals": {}}'
"""A plan that changes nothing."""
UNPRINTABLE: Final = ("Cc", "Cs", "Zl", "Zp", "Cn")

FRAGMENTS = [
    *(
        "ann",
        "bob",
        "user_id",
        "null",
        "true",
        "0",
        " ",
        "\u00a0",
        "\u3000",
        "_",
        "%",
        "*",
        "?",
        "#",
        "--",
        "/*",
        "$",
        "`",
    ),
    *(
        '"',
        "'",
        "\\",
        '\\"',
        "\\\\",
        "\\n",
        '" or 1==1',
        '" or "" == "',
        '] or user_id != "',
        '"] or uuid != ""',
        "') or (",
    ),
    *(
        '" and user_id != "',
        "{x}",
        "{{x}}",
        "{% raw %}",
        "[0]",
        "${x}",
        "\\u0022",
        "&quot;",
        "<user>",
        "ａｎｎ",
        "＂",
        "＼",
        "用户",
    ),
    *("\U0001f600", "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f3f3\ufe0f\u200d\U0001f308"),
    *(
        "\u200e",
        "\u200f",
        "\u202e",
        "\u2066",
        "\u200b",
        "\ufeff",
        "\u00ad",
        "e\u0301",
        "é",
        "\u0301",
        "Z\u0351\u036b\u0343",
    ),
    *("ß", "ſ", "İ", "ı", "\ufdfa", "\U0010fffd", "\ue000", "\ud7ff", "\U00020000"),
]


def is_acceptable(user: str) -> bool:
    printable = all(unicodedata.category(character) not in UNPRINTABLE for character in user)
    return not is_blank(user) and len(user) <= LIMIT and printable


def lookalikes(user: str) -> list[str]:
    """Other ids that a careless comparison takes for this one, or that would end a filter early."""
    forms = [unicodedata.normalize(form, user) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    cases = [user.upper(), user.lower(), user.swapcase(), user.casefold()]
    framed = [f"{user} ", f" {user}", user.strip(), user[:-1], user * 2, f"{user}\u200d", user[::-1], f"{user}%"]
    ended = [f'{user}"', f'{user}" or 1==1', f'{user}"] or user_id != "', f"{user}\\", '"', "\\", "a"]
    found = (each[:LIMIT] for each in (*forms, *cases, *framed, *ended))
    return list(dict.fromkeys(each for each in found if is_acceptable(each) and each != user))


characters = st.characters(exclude_categories=UNPRINTABLE)
users = st.one_of(
    st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=6).map(lambda parts: "".join(parts)[:LIMIT]),
    st.text(characters, min_size=1, max_size=LIMIT),
    st.sampled_from(["\U0001f600" * LIMIT, "\U0010fffd" * LIMIT, '"' * LIMIT, "\\" * LIMIT, "名" * LIMIT, "x" * LIMIT]),
).filter(is_acceptable)
pairs = st.one_of(
    users.flatmap(lambda user: st.tuples(st.just(user), st.sampled_from(lookalikes(user)))),
    st.tuples(users, users).filter(lambda pair: pair[0] != pair[1]),
)
texts = st.one_of(
    st.lists(st.sampled_from([*FRAGMENTS, "\n", "\t", "\r", "\0", "\x08", "\x1b", "\u2028", "\ud800"]), min_size=1).map(
        "".join
    ),
    st.text(st.characters(), min_size=1, max_size=200),
).filter(lambda text: bool(text.strip()) and not is_blank(text))


def has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


class ListeningReranker(FakeReranker):
    """Keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    async def rerank(self, query: str, documents: Sequence[str], *, language: str = "en") -> list[float]:
        self.shown.extend(documents)
        return await super().rerank(query, documents, language=language)


@dataclass
class World:
    """One backend with one memory in it that many users share, example after example."""

    backend: Backend
    mind: Taught
    reranker: ListeningReranker
    runner: asyncio.Runner
    owners: dict[str, str] = field(default_factory=dict)
    leaks: list[str] = field(default_factory=list)
    examples: int = 0

    @property
    def memory(self) -> GraphMemory:
        return self.mind.memory

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    def note_foreign(self, text: str, allowed: Iterable[str], *, where: str) -> None:
        """Every canary in a text must be of one of these users."""
        for canary in CANARY.findall(text):
            if self.owners[canary] not in set(allowed):
                self.leaks.append(f"{where}: {canary} of {self.owners[canary]!r}")

    def note_rows(self, rows: Iterable[BaseGraphObject], allowed: Sequence[str], *, where: str) -> None:
        for row in rows:
            if row.user_id not in allowed:
                self.leaks.append(f"{where}: {type(row).__name__} of {row.user_id!r}")
            self.note_foreign(row.model_dump_json(), allowed, where=where)


_canaries = count()


def make_world(kind: str, folder: Path, server_uri: str) -> World:
    backend = Backend(kind, folder, server_uri=server_uri)
    reranker = ListeningReranker()
    if kind == "strict-lite":
        GraphStoreFactory.register_backend("strict-lite", StrictStore, force=True)
    mind = taught(
        config=backend.config(),
        embedder=FakeEmbedder(DIM),
        llm=FakeLLM(),
        reranker=reranker,
        strategy=AddMemStrategy(chinese_entity=False),
    )
    return World(backend, mind, reranker, asyncio.Runner())


@pytest.fixture(scope="module")
def server_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with lite_server(tmp_path_factory.mktemp("server") / "data") as uri:
        yield uri


@pytest.fixture(scope="module", params=BACKENDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    kind: str = request.param
    uri = request.getfixturevalue("server_uri") if kind == "lite-server" else ""
    made = make_world(kind, tmp_path_factory.mktemp("isolation"), uri)
    with made.runner:
        yield made
        made.run(made.memory.close())
    if ASKED:
        with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            print(f"\nisolation, {kind}: {made.examples} examples, {len(made.leaks)} leaks")


def single(**channel: Any) -> dict[str, Any]:
    return {**dict.fromkeys(("name_dense", "content_dense", "content_sparse"), 0), **channel}


def ranks() -> dict[str, BaseRankConfig]:
    channels = ("name_dense", "content_dense", "content_sparse")
    return {
        "weighted": WeightedRankConfig(),
        "rrf": RRFRankConfig(),
        **{f"weighted {each}": WeightedRankConfig(**single(**{each: 1})) for each in channels},
        **{f"rrf {each}": RRFRankConfig(**single(**{each: True})) for each in channels},
    }


def filters(text: str, own: str, other: str, foreign: Sequence[str]) -> dict[str, QueryExpr]:
    """Filters that ask for other people's rows, and filters over hostile values."""
    return {
        "everything": gte("created_at", 0),
        "everyone else": ne("user_id", own),
        "the other": eq("user_id", other),
        "mine or not": eq("user_id", own) | ne("user_id", own),
        "not mine": ~eq("user_id", own),
        "their ids": in_list("uuid", foreign) | in_list("user_id", [own, other]),
        "hostile equal": eq("content", text) | ne("content", text),
        "hostile list": ~in_list("language", [text, own, other]),
        "hostile prefix": starts_with("content", text) | starts_with("content", other),
        "hostile negation": ~(eq("obj_type", text) & starts_with("language", text)),
    }


def modes(text: str, own: str, other: str, foreign: Sequence[str]) -> dict[str, SearchConfig]:
    common: dict[str, Any] = {"top_k": 50, "min_score": 0.0}
    by_rank = {name: SearchConfig(rank_config=rank, **common) for name, rank in ranks().items()}
    by_filter = {
        f"filter {name}": SearchConfig(filter_expr=expr, bfs_depth=number % 2, **common)
        for number, (name, expr) in enumerate(filters(text, own, other, foreign).items())
    }
    return {
        **by_rank,
        **by_filter,
        "bfs": SearchConfig(rank_config=WeightedRankConfig(), bfs_depth=2, bfs_k=20, **common),
        "bfs rrf": SearchConfig(rank_config=RRFRankConfig(), bfs_depth=3, bfs_k=5, top_k=20, min_score=0.01),
        "rerank": SearchConfig(rerank=True, **common),
        "bfs, rerank": SearchConfig(rerank=True, bfs_depth=1, **common),
        "vectors read": SearchConfig(output_fields=["content", "content_embedding", "extra"], bfs_depth=1, **common),
        "nothing read": SearchConfig(output_fields=[], bfs_depth=1, **common),
    }


async def tell(world: World, user: str, text: str) -> tuple[str, set[str]]:
    """Let a user tell something with a canary in it; return the canary and the ids of what was written."""
    canary = f"canary{next(_canaries):06}"
    world.owners[canary] = user
    asked = len(world.mind.llm.prompts)
    update = await world.mind.learn(
        f"{canary} saw the heron. {text}",
        types={"The heron": "Entity", f"Place {canary}": "Entity"},
        said=[("The heron", "lives at", f"Place {canary}", f"The heron lives at {canary}.")],
        summaries={"The heron": f"A bird seen by {canary}."},
        user=user,
    )
    for prompt in world.mind.llm.prompts[asked:]:
        world.note_foreign(prompt.text, [user], where="a prompt")
    world.note_rows(update.objects(), [user], where="an update")
    return canary, {each.uuid for each in update.objects()}


async def look(world: World, text: str, own: str, other: str, foreign: Sequence[str]) -> dict[str, set[str]]:
    """Search in every mode, and return what each found; rows of anyone else are noted as leaks."""
    found: dict[str, set[str]] = {}
    for name, config in modes(text, own, other, foreign).items():
        # Only entities have names.
        rest = None if "name_dense" in name else config
        world.memory.register_search_strategy("mode", config, rest, rest, force=True)
        hits = await world.memory.search(text, own, "mode", relation=rest is not None, episode=rest is not None)
        rows = [row for pairs in hits.values() for _, row in pairs]
        world.note_rows(rows, [own], where=name)
        found[name] = {row.uuid for row in rows}
    return found


async def read_back(world: World, own: str, mine: set[str], foreign: Sequence[str]) -> None:
    """Read by id and page by page: all that is mine, and nothing else, also when asked for by its id."""
    listed: set[str] = set()
    for collection in COLLECTIONS:
        rows = [row async for row in world.memory.objects(collection, own)]
        world.note_rows(rows, [own], where="objects")
        listed |= {row.uuid for row in rows}
        got = await world.memory.get(collection, [*foreign, *mine], own)
        world.note_rows(got, [own], where="get")
        assert {row.uuid for row in got} == {row.uuid for row in rows} & mine
        assert await world.memory.get(collection, list(foreign), own) == []
    assert mine <= listed


async def check_example(world: World, own: str, other: str, text: str) -> None:
    canary, mine = await tell(world, own, text)
    _, theirs = await tell(world, other, text)
    foreign = sorted(theirs - mine)
    world.reranker.shown.clear()

    if has_surrogate(text):
        with pytest.raises(QueryExpressionError):
            await look(world, text, own, other, foreign)
    else:
        found = await look(world, text, own, other, foreign)
        assert found["weighted content_dense"] >= mine - await _cut_off(world, own), canary
        assert found["filter the other"] == found["filter everyone else"] == found["filter not mine"] == set()
    assert await world.memory.get(ENTITY_COLLECTION, [text, own, other], own) == []
    await read_back(world, own, mine, foreign)
    both = await world.memory.search(text, [own, other], "default")
    world.note_rows([row for pairs in both.values() for _, row in pairs], [own, other], where="two users")
    world.note_foreign("\n".join(world.reranker.shown), [own], where="the reranker")
    await tend(world, own, other, mine, foreign)


async def tend(world: World, own: str, other: str, mine: set[str], foreign: Sequence[str]) -> None:
    """Do everything for one user that is done with a graph that is there; of the other's nothing shows or changes."""
    for user in (own, other):
        await leave_undone(world, user)
    before = await everything_of(world, other)

    await ask_for_more(world, own, mine)
    await finish(world, own)
    assert await everything_of(world, other) == before
    await forget(world, own, foreign, untouched=(other, before))

    for user in (own, other):
        await world.memory.recover(user)
        await world.memory.resume(user)
        await world.memory.db_backend.journal.clear(user)


async def leave_undone(world: World, user: str) -> None:
    """Leave a user with an add that failed and a write that was interrupted."""
    canary = f"canary{next(_canaries):06}"
    world.owners[canary] = user
    world.mind.llm.replies["EntityExtraction"] = ModelServiceError("The endpoint is gone.", retryable=False)
    with pytest.raises(LLMCallError):
        await world.memory.add_memory(EpisodeType.DOCUMENT, user, f"{canary} was here.", session_id=canary)
    world.mind.llm.replies["EntityExtraction"] = {"entities": []}
    await world.memory.db_backend.journal.put(JournalEntry(f"plan-{canary}", user, "header", IDLE, 0))


async def everything_of(world: World, user: str) -> tuple[dict[str, str], list[JournalEntry]]:
    """All rows of a user, and their journal."""
    return await rows_of(world, user), await world.memory.db_backend.journal.entries(user)


async def ask_for_more(world: World, own: str, mine: set[str]) -> None:
    """Read in the ways that are no search: facts, events, what waits, and what does not add up."""
    triples = await world.memory.triples(own)
    events = await world.memory.timeline(own)
    waiting = await world.memory.pending(own)
    report = await world.memory.check(own)

    assert len(triples) >= 1 and len(events) >= 1
    for told in (*triples, *events, *waiting, report):
        world.note_foreign(repr(told), [own], where=type(told).__name__)
    ids = {uuid for each in (*triples, *events) for uuid in each.episodes}
    known = {row.uuid for row in await world.memory.get(EPISODE_COLLECTION, sorted(ids), own)}
    assert known == ids
    assert waiting and {each.user_id for each in waiting} == {own}
    assert {request.user_id for each in waiting for request in each.requests} == {own}
    assert report.users == 1 and {each.user_id for each in report.findings} == {own}
    assert "journal_waiting" in report.counts


async def finish(world: World, own: str) -> None:
    """Finish what one user has undone, and mend their graph."""
    recovered = await world.memory.recover(own)
    resumed = await world.memory.resume(own)
    mended = await world.memory.check(own, repair=True)

    assert set(recovered.finished) == {own} and not recovered.failed
    assert resumed and all(each.user_id == own and each.error is None for each in resumed)
    for each in resumed:
        assert each.update is not None
        world.note_rows(each.update.objects(), [own], where="resume")
    assert mended.remaining == ()


async def forget(
    world: World, own: str, foreign: Sequence[str], *, untouched: tuple[str, tuple[dict[str, str], list[JournalEntry]]]
) -> None:
    """Delete in every way: first by the other's ids, which are nobody's here, then all that is one's own."""
    memory = world.memory
    other, before = untouched
    for uuid in foreign:
        for delete in (memory.delete_episode, memory.delete_entity, memory.delete_relation):
            assert (await delete(own, uuid)).is_empty
    rows = {collection: [row async for row in memory.objects(collection, own)] for collection in COLLECTIONS}
    receipts = [
        await memory.delete_relation(own, rows[RELATION_COLLECTION][0].uuid),
        await memory.delete_entity(own, rows[ENTITY_COLLECTION][0].uuid),
        await memory.delete_episode(own, rows[EPISODE_COLLECTION][-1].uuid, whole_group=True),
        await memory.delete_before(own, datetime(9000, 1, 1, tzinfo=UTC)),
        await memory.delete_user(own),
    ]

    for receipt in receipts:
        world.note_foreign(repr(receipt), [own], where="a receipt")
        assert {*foreign}.isdisjoint(uuid for ids in receipt.removed.values() for uuid in ids)
    assert await rows_of(world, own) == {}
    assert await everything_of(world, other) == before


async def _cut_off(world: World, own: str) -> set[str]:
    """What `top_k` may cut off: everything of a user of more rows than that, which only long runs make."""
    ids: set[str] = set()
    for collection in COLLECTIONS:
        rows = [row.uuid async for row in world.memory.objects(collection, own)]
        ids |= set(rows) if len(rows) > 50 else set()
    return ids


def test_no_row_of_another_user_is_ever_returned_changed_or_removed(world: World) -> None:
    @settings(
        max_examples=EXAMPLES or FEW[world.backend.kind],
        deadline=None,
        database=None,
        derandomize=not ASKED,
        suppress_health_check=list(HealthCheck),
    )
    @given(pair=pairs, text=texts)
    @example(pair=('ann" or 1==1', "ann"), text='heron" or user_id != "')
    @example(pair=("a", "ａ"), text="a lone \ud800 surrogate")
    @example(pair=("\U0001f600" * LIMIT, "\U0001f600" * (LIMIT - 1)), text="\0\x08\n\\")
    def check(pair: tuple[str, str], text: str) -> None:
        world.examples += 1
        world.run(check_example(world, *pair, text))
        assert not world.leaks

    check()


unacceptable = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "\u3000 ",
            "\u200b",
            "\u3164\ufe0f",
            "x" * (LIMIT + 1),
            "\U0001f600" * (LIMIT + 1),
            "\ud800",
            "a\udfffb",
            "\0",
        ]
    ),
    st.tuples(
        st.text(characters, max_size=10),
        st.characters(categories=["Cc", "Cs", "Zl", "Zp"]),
        st.text(characters, max_size=10),
    ).map("".join),
    st.text(characters, min_size=LIMIT + 1, max_size=80),
    st.sampled_from([None, 7, b"ann", ["ann"], {"ann": 1}, 1.5, True]),
)


@settings(max_examples=EXAMPLES or 50, deadline=None, database=None, derandomize=not ASKED)
@given(user=unacceptable, text=texts)
async def test_an_id_that_is_none_is_refused_before_anything_is_asked(user: Any, text: str) -> None:
    mind = taught()
    users = user if isinstance(user, list) else [user]

    async def listed() -> None:
        async for _ in mind.memory.objects(ENTITY_COLLECTION, user):
            pass

    with pytest.raises(InvalidInputError):
        await mind.memory.add_memory(EpisodeType.DOCUMENT, user, text)
    with pytest.raises(InvalidInputError):
        await listed()
    if not isinstance(user, list):
        for given_users in (user, ["ann", *users]):
            with pytest.raises(InvalidInputError):
                await mind.memory.search(text, given_users)
            with pytest.raises(InvalidInputError):
                await mind.memory.get(ENTITY_COLLECTION, ["x"], given_users)

    assert mind.llm.calls == mind.embedder.calls == 0


async def damage(world: World, own: str, other: str, theirs: Sequence[BaseGraphObject]) -> list[BaseGraphObject]:
    """Write rows of one user that point at rows of another, as no code of ours does."""
    store = world.memory.db_backend
    ids = [each.uuid for each in theirs]
    nodes = [each.uuid for each in theirs if isinstance(each, Entity)]
    pointing = entity("The kestrel", user=own, content="A kestrel.", relations=ids, episodes=ids, merged_from=ids)
    edges = [
        relation(f"The kestrel knows number {number}.", user=own, lhs=lhs, rhs=rhs, episodes=ids, superseded_by=ids)
        for number, (lhs, rhs) in enumerate(
            [(pointing.uuid, nodes[0]), (nodes[-1], pointing.uuid), (nodes[0], nodes[0])]
        )
    ]
    await store.upsert(ENTITY_COLLECTION, [pointing])
    await store.upsert(RELATION_COLLECTION, edges)
    await store.refresh()
    return [pointing, *edges]


async def rows_of(world: World, user: str) -> dict[str, str]:
    store = world.memory.db_backend
    found = [
        row
        for collection in COLLECTIONS
        for row in await store.query(collection, user=filter_user(user), consistency="strong")
    ]
    return {row.uuid: row.model_dump_json() for row in found}


def test_damage_that_points_at_another_users_rows_does_not_open_them(world: World) -> None:
    own, other = "damaged", 'other" or "'

    async def check() -> None:
        await tell(world, other, "The kestrel is a bird.")
        await world.memory.db_backend.refresh()
        theirs = [row for each in COLLECTIONS for row in [r async for r in world.memory.objects(each, other)]]
        before = await rows_of(world, other)
        broken = await damage(world, own, other, theirs)

        found = await look(world, "The kestrel", own, other, [row.uuid for row in theirs])
        ends = {end for row in broken if isinstance(row, Relation) for end in (row.lhs, row.rhs)}
        for collection in COLLECTIONS:
            got = await world.memory.get(collection, [*ends, *(row.uuid for row in theirs)], own)
            world.note_rows(got, [own], where="get")

        assert broken[0].uuid in found["bfs"]
        asked = len(world.mind.llm.prompts)
        await world.mind.learn(
            "The kestrel and the heron nest.",
            types={"The kestrel": "Entity", "The heron": "Entity"},
            said=[("The kestrel", "nests with", "The heron", "The kestrel nests with the heron.")],
            user=own,
        )
        for prompt in world.mind.llm.prompts[asked:]:
            world.note_foreign(prompt.text, [own], where="a prompt")
        assert await rows_of(world, other) == before

    world.run(check())

    assert not world.leaks


def test_a_journal_entry_that_holds_rows_of_another_user_is_not_carried_out(world: World) -> None:
    stolen = entity("Stolen", user="victim", content="Not theirs to write.")
    rows = {ENTITY_COLLECTION: [stolen.model_dump(exclude=set(stolen.vectors))]}
    payload = json.dumps({"rows": rows, "removals": {}, "settled": []})

    async def check() -> None:
        store = world.memory.db_backend
        await store.journal.put(JournalEntry("forged", "thief", "header", payload, 0))
        try:
            with pytest.raises(JournalError, match="another user"):
                await world.mind.learn("A text.", user="thief")
        finally:
            await store.journal.remove("forged", "thief")
        assert await rows_of(world, "victim") == {}
        await world.mind.learn("A text.", user="thief")

    world.run(check())


async def test_a_write_for_one_user_takes_no_rows_of_another() -> None:
    mind = taught()
    update = GraphMemUpdate(added_entity=[entity("Stolen", user="victim")])
    embedder = Embedder(FakeEmbedder(64), dimension=64, tries=1, batch_size=10)

    with pytest.raises(StoreParameterError, match="another user"):
        await commit_update(update, "thief", store=mind.memory.db_backend, embedder=embedder)


def test_an_id_in_a_list_of_aliases_is_only_text(world: World) -> None:
    async def check() -> None:
        canary, _ = await tell(world, "list", "x")
        for text in ('" or 1==1', "\\", "]", '"] or user_id != "'):
            config = SearchConfig(filter_expr=array_contains("aliases", text), min_score=0.0)
            world.memory.register_search_strategy("mode", search_entity=config, force=True)
            hits = await world.memory.search(canary, "list", "mode", relation=False, episode=False)
            assert hits[ENTITY_COLLECTION] == []

    world.run(check())
