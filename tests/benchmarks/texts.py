"""Made-up names, facts and texts, the same in every run. Touches nothing.

A text carries a marker from which the scripted model knows what it is about.
"""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import dataclass
from functools import cache

USER_ID = "bench"
SPEAKER = "Marta Speaker"
HELPER = "Helper"
TWINS = 40
_SYLLABLES = tuple(first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou")
_FIRST_NAMES = 211
_NEW_NAMES = 100_000
_VOCABULARY = 3000
_VERBS = ("works at", "lives near", "was hired by", "sold a boat to", "wrote about", "repaired", "visited", "trusts")
_MARKER = re.compile(r"Case (\d+): E(\d+) R(\d+) G(\d+) M([01])\.")


def word(number: int) -> str:
    """Return a made-up word; different numbers give different words."""
    syllables = ""
    while number or len(syllables) < 4:
        number, place = divmod(number, len(_SYLLABLES))
        syllables += _SYLLABLES[place]
    return syllables


def name(number: int) -> str:
    """Return a name of two words; every 211th shares the first."""
    return f"{word(number % _FIRST_NAMES).title()} {word(5000 + number).title()}"


@cache
def _weights() -> list[float]:
    return list(itertools.accumulate(1 / (rank + 2) for rank in range(_VOCABULARY)))


def words(seed: object, count: int) -> str:
    """Return words of a vocabulary in which few are frequent and most are rare."""
    source = random.Random(repr(seed))
    ranks = source.choices(range(_VOCABULARY), cum_weights=_weights(), k=count)
    return " ".join(word(20_000 + rank) for rank in ranks)


def summary_of(seed: object) -> str:
    """Return a description of 25 words."""
    return f"{words(('summary', seed), 25)}."


def partner(number: int, size: int) -> int:
    """Return the entity that the stored relation of this number leads to."""
    return (number * 7 + 3) % size


def fact(source: str, verb: str, target: str, seed: object, *, count: int = 5) -> str:
    """Return a fact of `count` words beside its ends and verb."""
    return f"{source} {verb} {target} {words(('fact', seed), count)}."


def verb(number: int) -> str:
    """Return the name of a relation."""
    return _VERBS[number % len(_VERBS)]


def twin_names(number: int) -> tuple[str, str]:
    """Return two names that the scripted model calls the same thing."""
    return f"{word(700 + number).title()} Twin", f"{word(700 + number).title()} Twin Works"


@dataclass(frozen=True)
class Case:
    """A text of `entities` names and `facts_count` facts; with `graph` stored entities half of the names are stored.

    The speaker is one of the entities. With `merges`, one new name means two stored entities.
    """

    number: int
    entities: int
    facts_count: int
    graph: int = 0
    merges: bool = False
    length: int = 0

    @classmethod
    def parse(cls, text: str) -> Case:
        """Return the case a prompt is about: the marker of its text is the last one, after those of the history."""
        number, entities, facts, graph, merges = _MARKER.findall(text)[-1]
        return cls(int(number), int(entities), int(facts), int(graph), merges == "1")

    def mentions(self) -> list[tuple[str, str]]:
        """Return names and types; stored entities come in pairs that a stored relation links."""
        names = [(SPEAKER, "Human")]
        if self.merges:
            names.append((f"{twin_names(self.number % TWINS)[0]} Ltd", "Entity"))
        stored = (self.entities - 1) // 2 if self.graph else 0
        for place in range(0, stored, 2):
            first = (self.number * 131 + place * 17) % self.graph
            names += [(name(first), "Entity"), (name(partner(first, self.graph)), "Entity")]
        fresh = _NEW_NAMES + self.number * 20
        names += [(name(fresh + place), "Entity") for place in range(self.entities)]
        return list(dict.fromkeys(names))[: self.entities]

    def facts(self) -> list[tuple[str, str, str, str]]:
        """Return source, verb, target and sentence of each fact; every fifth is about the speaker."""
        names = [each for each, _ in self.mentions()] or [SPEAKER]
        found = []
        for place in range(self.facts_count):
            source = names[0] if place % 5 == 0 else names[place % len(names)]
            target = names[(place + 1) % len(names)]
            said = fact(source, verb(place), target, (self.number, place))
            found.append((source, verb(place), target, said))
        return found

    def text(self) -> str:
        """Return what is said, filled up with small talk to `length` characters."""
        marker = f"Case {self.number}: E{self.entities} R{self.facts_count} G{self.graph} M{int(self.merges)}. "
        body = marker + " ".join(said for *_, said in self.facts())
        filler = words(("talk", self.number), max(0, self.length - len(body)) // 5)
        return f"{body} {filler}"[: self.length] if self.length else body

    def messages(self) -> list[dict[str, str]]:
        """Return the text as a conversation in which the speaker says it all."""
        return [{"role": "user", "name": SPEAKER, "content": self.text()}]

    def answered(self) -> list[dict[str, str]]:
        """Return the conversation with an assistant in it that says nothing worth remembering."""
        return [*self.messages(), {"role": "assistant", "name": HELPER, "content": "Thank you, noted."}]
