"""What stands against stored facts that a text tells again or contradicts. Reads the store, never writes."""

from __future__ import annotations

from collections.abc import Sequence

from jiuwen_memory.foundation.concurrency import together
from jiuwen_memory.foundation.store.graph.constants import EPISODE_COLLECTION, OPEN_END, RELATION_COLLECTION
from jiuwen_memory.foundation.store.graph.graph_object import Episode, Relation
from jiuwen_memory.foundation.store.query import eq, filter_user, in_list, lt
from jiuwen_memory.foundation.tracing import traced
from jiuwen_memory.memory_core.graph.graph_memory.change import Judged, Rivals
from jiuwen_memory.memory_core.graph.graph_memory.services import Services

RIVAL_LIMIT = 200
"""Replaced facts read beside those that a text tells again."""


@traced
async def recall_rivals(judged: Sequence[Judged], user_id: str, services: Services) -> Rivals:
    """Return what replaced the facts a text touches, what they replaced, and when each of all these was told.

    Most texts touch no stored fact, and then nothing is read.
    """
    touched = {fact.uuid: fact for each in judged for fact in (*each.same(), *each.against())}
    if not touched:
        return Rivals()
    told_again = {fact.uuid: fact for each in judged for fact in each.same()}
    replacing = [uuid for fact in touched.values() for uuid in fact.superseded_by if uuid not in touched]
    later, replaced = await together(
        services.store.query(RELATION_COLLECTION, user=filter_user(user_id), ids=replacing, consistency="strong"),
        _replaced_beside(list(told_again.values()), user_id, services),
    )
    facts = {each.uuid: each for each in (*touched.values(), *later, *replaced) if isinstance(each, Relation)}
    is_against = any(each.against() for each in judged) or any(fact.superseded_by for fact in facts.values())
    if len(facts) == len(touched) and not is_against:
        return Rivals()
    ids = [uuid for fact in facts.values() if len(fact.episodes) > 1 for uuid in fact.episodes]
    episodes = await services.store.query(
        EPISODE_COLLECTION,
        user=filter_user(user_id),
        ids=list(dict.fromkeys(ids)),
        output_fields=["uuid", "valid_since", "source"],
        consistency="strong",
    )
    others = tuple(fact for uuid, fact in facts.items() if uuid not in touched)
    return Rivals(others, {each.uuid: each for each in episodes if isinstance(each, Episode)})


async def _replaced_beside(facts: Sequence[Relation], user_id: str, services: Services) -> list[Relation]:
    """Return the replaced facts with the subject and the name, or both ends, of one told again."""
    if not facts:
        return []
    ended = eq("kind", "fact") & lt("expired_at", OPEN_END)
    named = in_list("lhs", [fact.lhs for fact in facts]) & in_list("name_norm", [fact.name_norm for fact in facts])
    between = in_list("lhs", [end for fact in facts for end in (fact.lhs, fact.rhs)]) & in_list(
        "rhs", [end for fact in facts for end in (fact.lhs, fact.rhs)]
    )
    found = await services.store.query(
        RELATION_COLLECTION,
        user=filter_user(user_id),
        expr=ended & (named | between),
        limit=RIVAL_LIMIT,
        consistency="strong",
    )
    ids = {fact.uuid for fact in facts}
    return [each for each in found if isinstance(each, Relation) and not ids.isdisjoint(each.superseded_by)]
