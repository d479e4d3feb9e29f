"""Compares what a graph holds with the truth: precision and recall of entities and of facts. Touches nothing.

- **An entity is right** if one of its names, normalised, is a name of a thing of the episodes read (of a longer name
  a part that is a whole word will do: `Nora` for `Nora Lindqvist`). A second entity for one thing is wrong, and so is a
  fused homonym: it stands for one thing only.
- **A fact is right** if its ends are entities that stand for the ends of a claim of the episodes read, in either
  direction, and its sentence has one of the claim's signs. A second row for one claim counts as right for precision
  if it is another period, as the claims of a slot may have, else as wrong.
- **A fact is right in its words** if its ends only have a name of the claim's ends: what was lost by fusing or doubling
  entities is left out of account.
- **Recall** counts the things and claims found, over those that the episodes read tell of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jiuwen_memory.foundation.text import normalise_name
from tests.life.chapters import CHAPTERS
from tests.life.story import Claim, Thing
from tests.life.truth import CLAIM, THING

SHORTEST_PART = 3


@dataclass(frozen=True)
class Score:
    """Right ones among those held, and found ones among those that are true."""

    what: str
    right: int
    held: int
    found: int
    true: int

    @property
    def precision(self) -> float:
        """Share of what is held that is right."""
        return self.right / self.held if self.held else 0.0

    @property
    def recall(self) -> float:
        """Share of what is true that is held."""
        return self.found / self.true if self.true else 0.0

    def __str__(self) -> str:
        return (
            f"{self.what}: precision {self.precision:.2f} ({self.right} of {self.held}), "
            f"recall {self.recall:.2f} ({self.found} of {self.true})"
        )


def score_graph(held: Mapping[str, Any]) -> tuple[Score, Score, Score]:
    """Return the scores of entities, facts, and facts in their words, of a report that `read_life` has kept."""
    read = CHAPTERS[: held["episodes"]]
    things = [THING[key] for key in dict.fromkeys(key for chapter in read for key in chapter.named.values())]
    claims = [CLAIM[key] for key in dict.fromkeys(each.claim for chapter in read for each in chapter.told)]
    stands_for = _standing(held["entities"], held["facts"], things, claims)
    named = {
        each["uuid"]: {thing.key for thing in things if _is_named(each["names"], thing)} for each in held["entities"]
    }
    standing = {uuid: {key} for uuid, key in stands_for.items()}
    return (
        Score("entities", len(stands_for), len(held["entities"]), len(set(stands_for.values())), len(things)),
        _score_facts("facts", held["facts"], standing, claims),
        _score_facts("facts in their words", held["facts"], named, claims),
    )


def _score_facts(
    what: str, facts: Sequence[Mapping[str, Any]], means: Mapping[str, set[str]], claims: Sequence[Claim]
) -> Score:
    matched = [_claim_of(fact, means, claims) for fact in facts]
    right = {
        (claim.key, fact["since"] if claim.slot else None)
        for fact, claim in zip(facts, matched, strict=True)
        if claim is not None
    }
    return Score(what, len(right), len(facts), len({claim.key for claim in matched if claim}), len(claims))


def _standing(
    entities: Sequence[Mapping[str, Any]],
    facts: Sequence[Mapping[str, Any]],
    things: Sequence[Thing],
    claims: Sequence[Claim],
) -> dict[str, str]:
    """Return what each entity stands for: each thing once, a homonym's by the claims that its facts fit best."""
    stands_for: dict[str, str] = {}
    for thing in things:
        named = [each for each in entities if each["uuid"] not in stands_for and _is_named(each["names"], thing)]
        if named:
            best = max(named, key=lambda each: _fitting(each["uuid"], thing, facts, claims))
            stands_for[best["uuid"]] = thing.key
    return stands_for


def _is_named(names: Sequence[str], thing: Thing) -> bool:
    known = [normalise_name(name) for name in thing.names]
    return any(_is_part(normalise_name(name), whole) for name in names for whole in known)


def _is_part(name: str, whole: str) -> bool:
    return name == whole or (len(name) >= SHORTEST_PART and name in whole.split())


def _fitting(uuid: str, thing: Thing, facts: Sequence[Mapping[str, Any]], claims: Sequence[Claim]) -> int:
    signs = [sign for claim in claims if thing.key in {claim.source, claim.target} for sign in claim.signs]
    own = [fact["content"] for fact in facts if uuid in {fact["lhs"], fact["rhs"]}]
    return sum(_has_sign(content, signs) for content in own)


def _claim_of(fact: Mapping[str, Any], means: Mapping[str, set[str]], claims: Sequence[Claim]) -> Claim | None:
    """Return the claim that a fact states, by the things that its ends may mean and the signs in its sentence."""
    lhs, rhs = means.get(fact["lhs"], set()), means.get(fact["rhs"], set())
    fitting = (
        each
        for each in claims
        if ((each.source in lhs and each.target in rhs) or (each.source in rhs and each.target in lhs))
        and _has_sign(fact["content"], each.signs)
    )
    return next(fitting, None)


def _has_sign(content: str, signs: Sequence[str]) -> bool:
    folded = content.casefold()
    return any(sign.casefold() in folded for sign in signs)
