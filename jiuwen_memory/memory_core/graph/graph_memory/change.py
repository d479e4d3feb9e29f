"""What a new fact does to stored ones: tells them again, ends them, opens a new period, links to them. Pure.

A fact that was replaced and is told again later is a fact anew: a second relation with the same ends, for its second
period. What separates the two is known from what replaced the first, so no model is asked. Which of two contradicting
facts is the later one follows from their dates, not from the order in which they were learnt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from jiuwen_memory.foundation.store.graph.constants import ARRAY_LIMIT
from jiuwen_memory.foundation.store.graph.graph_object import Entity, Episode, Relation, RelationKind, new_uuid
from jiuwen_memory.foundation.text import cut_bytes, query_tokens
from jiuwen_memory.memory_core.graph.extraction.values import Verdict
from jiuwen_memory.memory_core.graph.graph_memory.fusing import newest
from jiuwen_memory.memory_core.graph.graph_memory.recall import is_same_fact
from jiuwen_memory.memory_core.graph.graph_memory.states import Draft
from jiuwen_memory.memory_core.graph.graph_memory.tellings import (
    Telling,
    order,
    parted,
    tellings_of,
    told_again,
    with_tellings,
)

CHANGE_WORDS = (
    "now", "no longer", "not any more", "anymore", "moved", "left", "quit", "changed", "switched", "instead",
    "replaced", "used to", "new", "became", "corrected", "actually", "wrong",
    "现在", "不再", "已经", "搬", "换", "改", "离职", "离开", "辞", "新", "其实", "不是", "更正", "变成", "取代",
)  # fmt: skip
NAMED_IN_WARNING = 3
_NO_END: Final[Mapping[str, int | None]] = {
    **{"valid_until": None, "offset_until": 0, "precision_until": None},
    **{"stated_until": None, "stated_offset": 0, "stated_precision": None},
}


@dataclass(frozen=True)
class Rivals:
    """What stored facts told again or contradicted stand against: facts that replaced them or that they replaced.

    `episodes` holds those that told any of these facts, where one was told more than once.
    """

    facts: tuple[Relation, ...] = ()
    episodes: Mapping[str, Episode] = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """A new fact of a text, the stored facts beside it, and what the model made of them."""

    fact: Relation
    candidates: tuple[Relation, ...]
    verdict: Verdict

    def same(self) -> list[Relation]:
        """Return the stored facts that it tells again, in its own words or in others that the model calls the same."""
        ends = {self.fact.lhs, self.fact.rhs}
        called = [self.candidates[number] for number in self.verdict.same]
        exact = [each for each in self.candidates if is_same_fact(each, self.fact)]
        return [*exact, *(each for each in called if each not in exact and {each.lhs, each.rhs} == ends)]

    def against(self) -> list[Relation]:
        """Return the stored facts that it contradicts."""
        return [self.candidates[number] for number in self.verdict.contradicts]


@dataclass(frozen=True)
class Text:
    """What a text is: its episode, and its entities, which say whom a fact is about."""

    episode: Episode
    nodes: tuple[Entity, ...]


def put_changes(draft: Draft, judged: Sequence[Judged], *, rivals: Rivals, text: Text, max_retired: int) -> None:
    """Take in the new facts of a text with all they do to stored ones.

    Contradictions that would retire more than `max_retired` facts in all are refused, with a warning.
    """
    for rival in rivals.facts:
        draft.know(rival)
    for each in within_bound(judged, rivals=rivals, text=text, max_retired=max_retired, warnings=draft.warnings):
        _put_fact(draft, each, rivals=rivals, text=text)


def within_bound(
    judged: Sequence[Judged], *, rivals: Rivals, text: Text, max_retired: int, warnings: list[str]
) -> Sequence[Judged]:
    """Return the facts as judged, without any contradiction if there are more than can be believed."""
    retired = {
        stored.uuid: stored
        for each in judged
        for stored in each.against()
        if not stored.superseded_by
        and _supports_contradiction(stored, each.fact, text=text)
        and parted(tellings_of(stored, rivals.episodes), _telling(each.fact))[0]
    }
    if len(retired) <= max_retired:
        return judged
    named = ", ".join(repr(each.content) for each in list(retired.values())[:NAMED_IN_WARNING])
    warnings.append(
        f"The model would retire {len(retired)} facts at once ({named}, ...), more than max_retired={max_retired}; "
        "all of them stay as they are."
    )
    return [replace(each, verdict=replace(each.verdict, contradicts=())) for each in judged]


def _put_fact(draft: Draft, judged: Judged, *, rivals: Rivals, text: Text) -> None:
    """Store a new fact, or count it as one more telling of a stored one, and apply what was judged."""
    new = judged.fact
    # What the text told before may have parted a fact that it tells again.
    parts = [each for each in draft.all(Relation) if not draft.is_stored(each.uuid) and is_same_fact(each, new)]
    same = [each for each in _newest(draft, [*judged.same(), *parts]) if each.kind == "fact"]
    against = list(_against(draft, same)) if same else []
    home = [each for each in same if _is_home(each, new, rivals=rivals, draft=draft)]
    if home:
        home.sort(key=lambda each: bool(each.superseded_by))
        kept = told_again(home[0], new)
        draft.put(kept)
        for other in home[1:]:
            if not (_ended_before(kept, other) or _ended_before(other, kept)):
                kept = told_again(kept, other)
                draft.fold(kept, other.uuid)
        return
    draft.put(new)
    for each in against:
        _put_against(draft, each.uuid, new.uuid, rivals=rivals)
    for stored in _newest(draft, judged.against()):
        if _supports_contradiction(stored, new, text=text):
            _put_against(draft, stored.uuid, new.uuid, rivals=rivals)
        else:
            draft.warnings.append(
                f"Kept beside each other, nothing shows a change: {stored.content!r}, {new.content!r}"
            )
    for kind, numbers in judged.verdict.links.items():
        for stored in _newest(draft, [judged.candidates[number] for number in numbers]):
            draft.put(link_of(kind, new, stored))


def _newest(draft: Draft, relations: Iterable[Relation]) -> list[Relation]:
    """Return the newest versions of those relations that are still there."""
    found = (draft.get(Relation, each.uuid) for each in relations)
    return [each for each in found if each]


def _telling(new: Relation) -> Telling:
    # Behind the text that tells a new fact come its gists, which tell nothing of their own.
    (only,) = tellings_of(new.revise(episodes=new.episodes[:1]), {})
    return only


def _against(draft: Draft, same: Sequence[Relation]) -> Iterator[Relation]:
    """Return what replaced any period of a fact, or was replaced by one."""
    ids = {each.uuid for each in same}
    replacing = {uuid for each in same for uuid in each.superseded_by}
    for each in draft.all(Relation):
        if each.uuid not in ids and (each.uuid in replacing or not ids.isdisjoint(each.superseded_by)):
            yield each


def _is_home(stored: Relation, new: Relation, *, rivals: Rivals, draft: Draft) -> bool:
    """Tell whether a telling belongs to this period of its fact: nothing that contradicts the fact lies between."""
    telling = _telling(new)
    if _ended_before(stored, new) or _ended_before(new, stored):
        return False
    period = tellings_of(stored, rivals.episodes)
    for rival in _against(draft, [stored]):
        is_later = rival.uuid in stored.superseded_by
        both = sorted([*period, telling], key=lambda each: each.moment)
        for word in tellings_of(rival, rivals.episodes):
            # At the same time, what is learnt now is the later one.
            is_after = order(telling, word) == 0 or telling in parted(both, word)[1]
            if is_after == is_later:
                return False
    return True


def _ended_before(first: Relation, second: Relation) -> bool:
    """Tell whether a fact was said to have ended before another one is said to begin."""
    return first.stated_until is not None and second.valid_since is not None and first.stated_until < second.valid_since


def _put_against(draft: Draft, stored_id: str, new_id: str, *, rivals: Rivals) -> None:
    """Let the later of two contradicting facts end the earlier one; a fact told before and after is parted in two."""
    stored, new = draft.get(Relation, stored_id), draft.get(Relation, new_id)
    if stored is None or new is None:
        return
    before, after = parted(tellings_of(stored, rivals.episodes), _telling(new))
    if before and after:
        later = with_tellings(stored, after, rivals.episodes).revise(
            uuid=new_uuid(), created_at=new.created_at, content_embedding=None, expired_at=None, superseded_by=[]
        )
        if _ended_before(later, later):
            # It is the part before that was said to have ended.
            later = later.revise(**_NO_END)
        stored = with_tellings(stored, before, rivals.episodes)
        draft.put(stored)
        draft.put(later)
        for each in draft.all(Relation):
            if stored.uuid in each.superseded_by:
                _put_superseded(draft, each, later, learnt=new.created_at)
        for each in filter(None, [draft.get(Relation, uuid) for uuid in stored.superseded_by]):
            _put_superseded(draft, draft.get(Relation, later.uuid) or later, each, learnt=new.created_at)
        _put_superseded(draft, new, later, learnt=new.created_at)
    if before or not after:
        _put_superseded(draft, draft.get(Relation, stored.uuid) or stored, new, learnt=new.created_at)
    else:
        _put_superseded(draft, new, stored, learnt=new.created_at)


def _put_superseded(draft: Draft, earlier: Relation, later: Relation, *, learnt: int) -> None:
    """Let one fact end another; what was replaced stays in the graph."""
    times: dict[str, object] = {}
    if later.valid_since is not None and (earlier.valid_until is None or later.valid_since < earlier.valid_until):
        times = {
            "valid_until": later.valid_since,
            "offset_until": later.offset_since,
            "precision_until": later.precision_since,
        }
    draft.put(
        earlier.revise(
            superseded_by=newest([*earlier.superseded_by, later.uuid], ARRAY_LIMIT),
            expired_at=earlier.expired_at or learnt,
            **times,
        )
    )


def _supports_contradiction(stored: Relation, new: Relation, *, text: Text) -> bool:
    """Tell whether anything beside the model's word says that one fact replaces the other.

    They must have the same ends, or the same subject and the same kind of fact: an equal name, a telling word in
    common, or a text that speaks of change.
    """
    if {stored.lhs, stored.rhs} == {new.lhs, new.rhs}:
        return True
    if stored.lhs != new.lhs:
        return False
    subject = next((node.name for node in text.nodes if node.uuid == new.lhs), "")
    about = set(query_tokens(subject).split())
    common = set(query_tokens(stored.search_text).split()) & set(query_tokens(new.search_text).split()) - about
    words = text.episode.content.casefold()
    return bool(common) or stored.name_norm == new.name_norm or any(word in words for word in CHANGE_WORDS)


def link_of(kind: RelationKind, relation: Relation, other: Relation) -> Relation:
    """Return a link between two facts, which rests on the episode of the first."""
    return Relation.model_validate(
        {
            "user_id": relation.user_id,
            "language": relation.language,
            "obj_type": "Link",
            "kind": kind,
            "ends": "relation",
            "name": kind,
            "content": f"{cut_bytes(relation.content, 2000)} → {cut_bytes(other.content, 2000)}",
            "lhs": relation.uuid,
            "rhs": other.uuid,
            "lhs_origin": relation.uuid,
            "rhs_origin": other.uuid,
            "episodes": relation.episodes,
            "sources": relation.sources,
            "first_mentioned_at": relation.first_mentioned_at,
            "last_mentioned_at": relation.last_mentioned_at,
            "created_at": relation.created_at,
        }
    )


def put_co_occurring(draft: Draft, new: Sequence[Relation], *, most: int) -> None:
    """Link the new facts of one text to each other, neighbours in the text first, `most` links at most.

    All pairs would be n² links; with a bound that grows with the text each fact still has its neighbours.
    """
    facts = _newest(draft, new)
    pairs = ((facts[place], facts[place + gap]) for gap in range(1, len(facts)) for place in range(len(facts) - gap))
    for (first, second), _ in zip(pairs, range(most), strict=False):
        draft.put(link_of("co_occurs", first, second))
