"""Names: which are everywhere in a user's memories, and which a query names. Reads the store, once in a while."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from jiuwen_memory.foundation.stop_words import ENGLISH_STOP_WORDS
from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.constants import ENTITY_COLLECTION, EPISODE_COLLECTION, GIST
from jiuwen_memory.foundation.store.graph.graph_object import Entity, Episode
from jiuwen_memory.foundation.store.query import filter_user, ne
from jiuwen_memory.foundation.text import is_cjk
from jiuwen_memory.foundation.tracing import traced

SAMPLE: Final = 300
"""Episodes in which names are counted; shares need no more."""
LEAST_EPISODES: Final = 20
"""Below this many episodes nothing can be said to be everywhere."""
LEAST_SHARE: Final = 0.05
KEPT_SECONDS: Final = 300.0
FEW_KEPT_SECONDS: Final = 60.0
"""How long it is remembered that there are too few episodes: they may be more in a moment."""
KEPT_USERS: Final = 1000


@dataclass(frozen=True)
class KnownName:
    """A name, the share of the user's episodes that it is in, and whether its bearer speaks in them."""

    name: str
    share: float
    speaks: bool


class NameShares:
    """Names with their shares, kept for a while per user; it may be used from several threads and loops."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[str, ...], tuple[float, tuple[KnownName, ...]]] = OrderedDict()

    async def of(self, users: tuple[str, ...], *, store: GraphStore) -> tuple[KnownName, ...]:
        """Return the names that are in many of these users' episodes; none while there are few episodes."""
        moment = time.monotonic()
        with self._guard:
            until, names = self._kept.get(users, (moment, ()))
        if moment < until:
            return names
        known = await recall_names(users, store=store)
        names = () if known is None else known
        with self._guard:
            self._kept[users] = (moment + (FEW_KEPT_SECONDS if known is None else KEPT_SECONDS), names)
            self._kept.move_to_end(users)
            while len(self._kept) > KEPT_USERS:
                self._kept.popitem(last=False)
        return names


@traced
async def recall_names(users: tuple[str, ...], *, store: GraphStore) -> tuple[KnownName, ...] | None:
    """Return names with the share of a sample of episodes that they are in, or None for too few episodes to tell."""
    user = filter_user(users)
    rows = await store.query(
        # A gist names what its sources name, and nobody speaks in it.
        EPISODE_COLLECTION,
        user=user,
        expr=ne("obj_type", GIST),
        limit=SAMPLE,
        output_fields=["speakers", "entities"],
    )
    episodes = [each for each in rows if isinstance(each, Episode)]
    if len(episodes) < LEAST_EPISODES:
        return None
    least = LEAST_SHARE * len(episodes)
    speakers = Counter(name for each in episodes for name in dict.fromkeys(each.speakers))
    mentioned = Counter(uuid for each in episodes for uuid in dict.fromkeys(each.entities))
    shares = {name: KnownName(name, count / len(episodes), True) for name, count in speakers.items() if count >= least}
    frequent = [uuid for uuid, count in mentioned.most_common(SAMPLE) if count >= least]
    found = await store.query(ENTITY_COLLECTION, user=user, ids=frequent, output_fields=["aliases"]) if frequent else []
    for each in found:
        if isinstance(each, Entity):
            share = mentioned[each.uuid] / len(episodes)
            for name in (each.name, *each.aliases):
                speaks = name in speakers
                shares[name] = KnownName(name, max(share, shares[name].share if name in shares else 0.0), speaks)
    return tuple(shares.values())


def resolve_dense_text(query: str, names: Sequence[KnownName], least_share: float) -> str:
    """Return the query as it is embedded: without names that are in at least this share of the episodes.

    A name that everything shares fills the vector and tells nothing apart. Who speaks says `I` of themselves, so their
    name becomes that; other names go. A query that would lose everything stays as it is.
    """
    text = query
    for each in sorted(names, key=lambda each: -len(each.name)):
        if each.share >= least_share:
            text = _without(text, each)
    text = " ".join(text.split())
    return text if _says_something(text) else query


def names_in(query: str, names: Iterable[str]) -> set[str]:
    """Return which of these names the query names, wholly or by the first of several words."""
    return {name for name in names if any(_pattern(form).search(query) for form in _forms(name))}


def _without(text: str, known: KnownName) -> str:
    for form in _forms(known.name):
        if len(form) == 1 and is_cjk(form):
            # One character of a longer word, more often than a name.
            continue
        # The first word of a person's name is their name; that of a place or a firm may be any word: New York.
        as_written = not known.speaks and form != known.name.strip()
        whole, owned = _replacements(form, speaks=known.speaks)
        text = _pattern(form, owned=True, as_written=as_written).sub(owned, text)
        text = _pattern(form, as_written=as_written).sub(whole, text)
    return text


def _replacements(form: str, *, speaks: bool) -> tuple[str, str]:
    if not speaks:
        return "", ""
    return ("我", "我") if is_cjk(form[0]) else ("I", "my")


def _forms(name: str) -> list[str]:
    words = name.split()
    first = words[:1] if len(words) > 1 and len(words[0]) > 2 else []
    return [each for each in (name.strip(), *first) if each]


def _pattern(form: str, *, owned: bool = False, as_written: bool = False) -> re.Pattern[str]:
    """Return what finds a name in a text, `owned` with its possessive; Chinese has no spaces around a name.

    Case counts if it is wanted `as_written`, or a word of many a question: "What will ..." and "Will ..." do not mean
    Will.
    """
    written = re.escape(form) + ("['\u2019]s" if owned else "")
    if is_cjk(form[0]):
        return re.compile(written)
    if form.casefold() in ENGLISH_STOP_WORDS:
        return re.compile(rf"(?<!\w){'' if owned else '(?<!^)'}{written}(?!\w)")
    return re.compile(rf"(?<!\w){written}(?!\w)", 0 if as_written else re.IGNORECASE)


def _says_something(text: str) -> bool:
    words = re.findall(r"\w+", text.casefold())
    return any(word not in ENGLISH_STOP_WORDS and word != "我" for word in words)
