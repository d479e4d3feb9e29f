"""What words give away: which names some texts tell of, and which texts hold what is to be forgotten. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from jiuwen_memory.foundation.store.graph.graph_object import Episode
from jiuwen_memory.foundation.text import is_cjk, normalise_name, query_tokens, search_tokens

EXCERPT = 200
"""Characters of a text that are quoted."""
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")


class Evidence:
    """The texts something rests on; they are read as far as a question needs."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = tuple(texts)
        self._unread = list(reversed(self._texts))
        self._words: set[str] = set()

    def tells(self, text: str) -> bool:
        """Tell whether all telling words of a name or a value occur in the texts, by case, width and ending aside."""
        words = set(query_tokens(text).split())
        while self._unread and not words <= self._words:
            self._words.update(search_tokens(self._unread.pop()).split())
        if words:
            return words <= self._words
        # Pictures and signs make no words.
        return any(normalise_name(text) in normalise_name(each) for each in self._texts)


@dataclass(frozen=True)
class Traces:
    """What must not be left anywhere: single words (as search tokens), and phrases (as normalised names)."""

    words: frozenset[str] = frozenset()
    phrases: tuple[str, ...] = ()

    def are_in(self, text: str) -> bool:
        """Tell whether a text holds any of them."""
        if self.words and not self.words.isdisjoint(search_tokens(text).split()):
            return True
        folded = normalise_name(text) if self.phrases else ""
        return any(occurs(phrase, folded) for phrase in self.phrases)

    def quote(self, text: str) -> str:
        """Return the first sentence that holds any of them."""
        return next((each[:EXCERPT] for each in sentences(text) if self.are_in(each)), text[:EXCERPT])

    def without(self, text: str) -> str:
        """Return a text without the words that hold any of them."""
        return " ".join(word for word in text.split() if not self.are_in(word))


def resolve_traces(gone: Iterable[Episode], remaining: Iterable[Episode], *, known: Iterable[str] = ()) -> Traces:
    """Return the words that only deleted episodes hold; words of the `known` texts are no traces either."""
    told = ((*episode_texts([episode]), episode.source) for episode in gone)
    words = {word for texts in told for text in texts for word in query_tokens(text).split()}
    # A letter or a digit gives nothing away.
    words = {word for word in words if len(word) > 1 or not word.isascii()}
    for text in known:
        words.difference_update(search_tokens(text).split())
    for episode in remaining:
        if not words:
            break
        labels = (episode.source, episode.session_id, episode.idempotency_key)
        words.difference_update(search_tokens("\n".join([*episode_texts([episode]), *labels])).split())
    return Traces(frozenset(words))


def episode_texts(episodes: Iterable[Episode]) -> Iterator[str]:
    """Return what was said in episodes, and who spoke."""
    for episode in episodes:
        yield episode.content
        yield from episode.speakers


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text."""
    return [each.strip() for each in _SENTENCE_ENDS.split(text) if each.strip()]


def telling_sentence(fact: str, texts: Iterable[str]) -> str:
    """Return the sentence of the texts that has most words in common with a fact; "" if there is no text."""
    words = set(query_tokens(fact).split())
    found = [each for text in texts for each in sentences(text)]
    return max(found, key=lambda each: len(words & set(search_tokens(each).split())), default="")


def leaves(value: JsonValue, *, numbers: bool = False) -> Iterator[str]:
    """Return every text of a JSON value, and every key; on demand its numbers and truth values too."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from leaves(each, numbers=numbers)
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each, numbers=numbers)
    elif isinstance(value, str) or (numbers and value is not None):
        yield str(value)


def entry_texts(entries: Mapping[str, JsonValue]) -> Iterator[str]:
    """Return the texts of a JSON column: the names of its entries are ours, what they hold is the user's."""
    for value in entries.values():
        yield from leaves(value)


def kept_entries(
    entries: Mapping[str, JsonValue], keep: Callable[[str], bool], *, numbers: bool = True
) -> dict[str, JsonValue]:
    """Return the entries of which `keep` is true for everything in the value."""
    return {
        name: value for name, value in entries.items() if all(keep(text) for text in leaves(value, numbers=numbers))
    }


def occurs(phrase: str, text: str) -> bool:
    """Tell whether a phrase stands in a text as whole words; between Chinese characters there is no telling."""
    start = text.find(phrase)
    while start >= 0:
        end = start + len(phrase)
        if not (_joined(text, start) or _joined(text, end)):
            return True
        start = text.find(phrase, start + 1)
    return False


def _joined(text: str, place: int) -> bool:
    """Tell whether the characters before and after a place belong to one word."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    return before.isalnum() and after.isalnum() and not (is_cjk(before) or is_cjk(after))
