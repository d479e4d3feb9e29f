"""`search`, `triples`, `timeline`, `show` and `stats`: what reads the memory and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from jiuwen_memory.cli.calls import OK, Call, command, one_line, plain, table
from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation
from jiuwen_memory.integrations.findings import (
    COLLECTIONS,
    Finding,
    Kind,
    finding,
    findings,
    has_ended,
    period_words,
)
from jiuwen_memory.integrations.moments import parse_moment
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.evidence import TripleOrder
from jiuwen_memory.memory_core.graph.graph_memory.triples import Triple

SHOWN_TEXT: Final = 300
"""Characters of an episode that a list shows; `show` and `--json` give all of it."""
HIDDEN: Final = frozenset({"content_embedding", "name_embedding", "embedding_key"})
MOMENT_HELP: Final = "ISO 8601, such as 2026-05-08."
AsOfOption = Annotated[str | None, typer.Option(help=f"Only facts that held then. {MOMENT_HELP}")]
KnownAtOption = Annotated[str | None, typer.Option(help=f"Only facts that were known then. {MOMENT_HELP}")]

SourceOption = Annotated[str | None, typer.Option(help="Only what was learnt from this source.")]
SessionOption = Annotated[str | None, typer.Option(help="Only what was learnt in this session.")]
LimitOption = Annotated[int, typer.Option(min=1, help="How many at most.")]


@command("search")
async def search(
    call: Call,
    query: Annotated[str, typer.Argument(help="Words or a question.")],
    kind: Annotated[Kind | None, typer.Option(help="Only this kind.")] = None,
    strategy: Annotated[str, typer.Option(help="The name of a search strategy.")] = "default",
    as_of: AsOfOption = None,
    known_at: KnownAtOption = None,
    source: SourceOption = None,
    session: SessionOption = None,
    limit: LimitOption = 10,
) -> int:
    """Find facts, entities and episodes, best first, the kinds in turn."""
    kinds: Sequence[Kind] = (kind,) if kind else ("fact", "entity", "episode")
    async with call.memory() as memory:
        results = await memory.search(
            query,
            call.user_id,
            strategy,
            entity="entity" in kinds,
            relation="fact" in kinds,
            episode="episode" in kinds,
            source=source,
            session_id=session,
            as_of=parse_moment("--as-of", as_of),
            known_at=parse_moment("--known-at", known_at, is_end=True),
        )
    found = findings(results, kinds, limit=limit)
    rows = [(each.kind, f"{each.score:.2f}", one_line(each.dated_text, SHOWN_TEXT), each.id) for each in found]
    call.show(found, _listed(("kind", "score", "text", "id"), rows, wide="text"))
    return OK


@command("triples")
async def triples(
    call: Call,
    subject: Annotated[str | None, typer.Option(help="A name or an alias.")] = None,
    predicate: Annotated[str | None, typer.Option(help="The short name of the relation.")] = None,
    object_: Annotated[str | None, typer.Option("--object", help="A name or an alias.")] = None,
    as_of: AsOfOption = None,
    known_at: KnownAtOption = None,
    source: SourceOption = None,
    order_by: Annotated[TripleOrder, typer.Option(help="What comes first.")] = "last_mentioned",
    fuzzy: Annotated[bool, typer.Option("--fuzzy", help="Names may also be alike.")] = False,
    limit: LimitOption = 30,
) -> int:
    """List facts as subject, predicate and object, with their dates and counts."""
    async with call.memory() as memory:
        found = await memory.triples(
            call.user_id,
            subject=subject,
            predicate=predicate,
            object=object_,
            as_of=parse_moment("--as-of", as_of),
            known_at=parse_moment("--known-at", known_at, is_end=True),
            source=source,
            order_by=order_by,
            limit=limit,
            fuzzy=fuzzy,
        )
    headings = ("subject", "predicate", "object", "holds", "said", "id")
    call.show(found, _listed(headings, map(_triple_row, found), wide="object"))
    return OK


def _triple_row(each: Triple) -> tuple[object, ...]:
    holds = period_words(each.valid_since, each.valid_until, has_ended=has_ended(each)) or "now"
    return each.subject, each.predicate, each.object, holds, f"{each.mention_count}x", each.relation


@command("timeline")
async def timeline(
    call: Call,
    since: Annotated[str | None, typer.Option(help=f"From when. {MOMENT_HELP}")] = None,
    until: Annotated[str | None, typer.Option(help=f"Until when. {MOMENT_HELP}")] = None,
    source: SourceOption = None,
    session: SessionOption = None,
    limit: LimitOption = 100,
) -> int:
    """List what happened, earliest first: episodes, and facts that begin or end."""
    async with call.memory() as memory:
        events = await memory.timeline(
            call.user_id,
            since=parse_moment("--since", since),
            until=parse_moment("--until", until, is_end=True),
            session_id=session,
            source=source,
        )
    shown = events[:limit]
    rows = [(each.time.format(), each.kind, one_line(each.text, SHOWN_TEXT), each.uuid) for each in shown]
    call.show(shown, _listed(("time", "what", "text", "id"), rows, wide="text"))
    if len(events) > limit:
        call.note(f"{len(events) - limit} more; give a later --since, or a higher --limit.")
    return OK


@command("show")
async def show(call: Call, uuid: Annotated[str, typer.Argument(help="The id that the other commands print.")]) -> int:
    """Show one entity, fact or episode with all that is known of it."""
    async with call.memory() as memory:
        kind, found = await find_object(memory, call.user_id, uuid)
        linked = await _linked(memory, call.user_id, found)
    value = {"kind": kind, **object_fields(found), "linked": linked}
    call.show(value, Group(*_pictured(found, kind), *_linked_lines(linked)))
    return OK


@command("stats")
async def stats(call: Call) -> int:
    """Count what the graph is made of, and what reading it in has cost."""
    async with call.memory() as memory:
        found = await memory.stats(call.user_id)
    call.show(found.as_dict(), Text(plain(str(found))))
    return OK


async def find_object(memory: GraphMemory, user_id: str, uuid: str) -> tuple[Kind, BaseGraphObject]:
    """Return the object with this id, and of which kind it is.

    Raises:
        InvalidInputError: this user has none.
    """
    for kind, collection in COLLECTIONS.items():
        if found := await memory.get(collection, [uuid], user_id):
            return kind, found[0]
    raise InvalidInputError(f"There is nothing with the id {uuid!r} in the memory of {user_id}; search gives the ids.")


def object_fields(found: BaseGraphObject) -> dict[str, object]:
    """Return an object's fields, without vectors."""
    return found.model_dump(mode="json", exclude=set(HIDDEN))


async def _linked(memory: GraphMemory, user_id: str, found: BaseGraphObject) -> list[Finding]:
    """Return an entity's facts, the episodes of a fact with their texts, or the entities of an episode."""
    if isinstance(found, Entity):
        others = await memory.get(RELATION_COLLECTION, found.relations, user_id)
    elif isinstance(found, Relation):
        others = await memory.get(EPISODE_COLLECTION, found.episodes, user_id)
    else:
        named = found.entities if isinstance(found, Episode) else []
        others = await memory.get(ENTITY_COLLECTION, named, user_id)
    return [finding(1.0, each) for each in others]


def _pictured(found: BaseGraphObject, kind: Kind) -> list[RenderableType]:
    short = finding(1.0, found)
    facts = {name: value for name, value in object_fields(found).items() if value not in (None, "", [], {})}
    for name in ("content", "uuid", "user_id", "relations", "episodes", "entities", "content_hash"):
        facts.pop(name, None)
    heading = Text(plain(f"{kind} {found.uuid}"), "bold")
    return [heading, Text(plain(short.dated_text)), table(("", " "), facts.items(), wide=" ")]


def _linked_lines(linked: Sequence[Finding]) -> list[RenderableType]:
    rows = [(each.kind, one_line(each.dated_text, SHOWN_TEXT), each.id) for each in linked]
    return [table(("linked", "text", "id"), rows, wide="text")] if rows else []


def _listed(headings: Sequence[str], rows: Iterable[Iterable[object]], *, wide: str) -> RenderableType:
    listed = list(rows)
    return table(headings, listed, wide=wide) if listed else Text("Nothing found.", "dim")
