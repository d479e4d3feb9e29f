"""Tells the life to a memory with a scripted model that answers every question by the truth, in any order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue

from jiuwen_memory import (
    ENTITY_COLLECTION,
    RELATION_COLLECTION,
    AddMemStrategy,
    Entity,
    EpisodeType,
    GraphMemory,
    GraphMemUpdate,
    Relation,
    WeightedRankConfig,
)
from jiuwen_memory.foundation.text import normalise_name
from jiuwen_memory.memory_core.config.graph import RetrievalStrategy
from jiuwen_memory.testing import FakeLLM, FakePrompt, by_name
from tests.life.chapters import CHAPTERS
from tests.life.story import Chapter, Claim, Period
from tests.life.truth import CLAIM, THING, THINGS

USER = "nora"
CLAIM_OF = {telling.sentence: telling.claim for chapter in CHAPTERS for telling in chapter.told}
LINKS = {pair: kind for chapter in CHAPTERS for pair, kind in chapter.links.items()}


def life_strategy(**changes: Any) -> AddMemStrategy:
    """Return a strategy under which everything stored is a candidate: what is tried is the change, not the recall."""
    names = WeightedRankConfig(name_dense=0.7, content_dense=0.1, content_sparse=0.2)
    return AddMemStrategy(
        chinese_entity=False,
        recall_entity=RetrievalStrategy(top_k=60, min_score=-10.0, rank_config=names),
        recall_relation=RetrievalStrategy(top_k=60, min_score=-10.0),
        **changes,
    )


async def tell(memory: GraphMemory, llm: FakeLLM, chapter: Chapter, **options: Any) -> GraphMemUpdate:
    """Add one episode, of which the model says what the script says."""
    known = {name: THING[key].summary for key in chapter.named.values() for name in THING[key].names}
    llm.replies.update(
        {
            "EntityExtraction": {
                "entities": [{"name": name, "type": THING[key].kind} for name, key in chapter.named.items()]
            },
            "RelationExtraction": _facts(chapter),
            "EntitySummaries": by_name(known),
            "EntityDuplication": lambda prompt: _duplicates(prompt, chapter),
            "RelationVerdicts": _verdicts,
        }
    )
    return await memory.add_memory(EpisodeType.DOCUMENT, USER, chapter.text, reference_time=chapter.when, **options)


def _facts(chapter: Chapter) -> JsonValue:
    """Return the answer that states the claims of a text, with the names that it uses."""
    written = {key: name for name, key in chapter.named.items()}
    return {
        "relations": [
            {
                "fact": each.sentence,
                "name": CLAIM[each.claim].predicate,
                "source": written[CLAIM[each.claim].source],
                "target": written[CLAIM[each.claim].target],
                "valid_since": each.since,
                "valid_until": None,
            }
            for each in chapter.told
        ]
    }


def _duplicates(prompt: FakePrompt, chapter: Chapter) -> Mapping[str, object]:
    listed = prompt.lines()
    lines = {number: _described(line, listed) for number, line in listed.items()}
    if " | " in lines.get(1, ""):
        old, _, new = lines[1].partition(" | ")
        return {"1": "same" if _thing(old) == _named(new, chapter) else "different"}
    return {
        "duplicates": [
            {"id": new, "same": [each for each in old if _thing(lines[each]) == _named(lines[new], chapter)]}
            for new, old in _groups(prompt, "duplicates")
        ]
    }


def _verdicts(prompt: FakePrompt) -> Mapping[str, object]:
    claims = {number: _claim(line) for number, line in prompt.lines().items()}
    return {
        "verdicts": [
            {
                "id": new,
                "same": [each for each in old if claims[each] == claims[new]],
                "contradicts": [each for each in old if _exclude_each_other(claims[new], claims[each])],
                "links": [
                    {"id": each, "kind": LINKS[claims[new], claims[each]]}
                    for each in old
                    if (claims[new], claims[each]) in LINKS
                ],
            }
            for new, old in _groups(prompt, "verdicts")
        ]
    }


def _groups(prompt: FakePrompt, key: str) -> list[tuple[int, list[int]]]:
    """Return each new item's number with those of its candidates, which are listed after it."""
    properties: Any = prompt.schema["properties"]
    news = sorted(properties[key]["items"]["properties"]["id"]["enum"])
    numbers = sorted(prompt.lines())
    ends = [*news[1:], numbers[-1] + 1]
    return [(new, [each for each in numbers if new < each < end]) for new, end in zip(news, ends, strict=True)]


def _exclude_each_other(first: str, second: str) -> bool:
    return first != second and CLAIM[first].slot != "" and CLAIM[first].slot == CLAIM[second].slot


def _described(line: str, lines: Mapping[int, str]) -> str:
    """Return the line that describes what this line names; it may point at an earlier one."""
    pointed = re.search(r" = \[(\d+)\]$", line)
    return lines[int(pointed[1])] if pointed else line


def _thing(line: str) -> str:
    """Return the thing that a stored entity's line describes; summaries tell homonyms apart."""
    named = [each for each in THINGS if any(line.startswith(f"{name} (") for name in each.names)]
    return next(each.key for each in named if len(named) == 1 or each.summary in line)


def _named(line: str, chapter: Chapter) -> str:
    return next(key for name, key in chapter.named.items() if line.startswith(f"{name} ("))


def _claim(line: str) -> str:
    fitting = [sentence for sentence in CLAIM_OF if line.startswith(sentence)]
    return CLAIM_OF[max(fitting, key=len)]


def true_things(*, but: Iterable[str] = ()) -> Counter[tuple[frozenset[str], str]]:
    """Return the names and the type of everything there is."""
    left = [each for each in THINGS if each.key not in set(but)]
    return Counter((frozenset(normalise_name(name) for name in each.names), each.kind) for each in left)


async def held_things(memory: GraphMemory) -> Counter[tuple[frozenset[str], str]]:
    """Return the names and the type of every stored entity."""
    return Counter(
        (frozenset(normalise_name(name) for name in (each.name, *each.aliases)), each.obj_type)
        for each in await _entities(memory)
    )


async def held_periods(memory: GraphMemory) -> Counter[Period]:
    """Return every stored fact as a period of the claim that it states, between the ends that the claim has."""
    names = {each.uuid: {each.name, *each.aliases} for each in await _entities(memory)}
    periods: Counter[Period] = Counter()
    for fact in await relations(memory):
        (claim,) = [
            claim
            for claim in CLAIM.values()
            if names[fact.lhs] & set(THING[claim.source].names)
            and names[fact.rhs] & set(THING[claim.target].names)
            and _states(fact.content, claim)
        ]
        since, until = _day(fact.valid_since), _day(fact.valid_until)
        periods[Period(claim.key, since, until, bool(fact.superseded_by), fact.mention_count)] += 1
    return periods


def _states(content: str, claim: Claim) -> bool:
    """Tell whether a fact states a claim; a deletion may have put it in the words of a text that remains."""
    if content in CLAIM_OF:
        return CLAIM_OF[content] == claim.key
    return any(sign.casefold() in content.casefold() for sign in claim.signs)


async def _entities(memory: GraphMemory) -> list[Entity]:
    await memory.db_backend.refresh()
    return [each async for each in memory.objects(ENTITY_COLLECTION, USER) if isinstance(each, Entity)]


async def relations(memory: GraphMemory, *, kind: str = "fact") -> list[Relation]:
    """Return the stored relations of a kind."""
    await memory.db_backend.refresh()
    found = [each async for each in memory.objects(RELATION_COLLECTION, USER) if isinstance(each, Relation)]
    return [each for each in found if each.kind == kind]


def _day(seconds: int | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).date().isoformat()
