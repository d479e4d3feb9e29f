"""Files as inputs of a memory: which files are meant, and what is in them. Reads the file system and standard input."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TextIO

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.integrations.moments import parse_moment
from jiuwen_memory.memory_core.config.graph import EpisodeType
from jiuwen_memory.memory_core.graph.graph_memory.requests import Content

Form = Literal["auto", "conversation", "document", "json"]
STDIN: Final = "-"
JSON_SUFFIXES: Final = frozenset({".json"})
LINES_SUFFIXES: Final = frozenset({".jsonl", ".ndjson"})
GLOB: Final = frozenset("*?[")
NOT_UTF8: Final = "it is not UTF-8 text; save it as UTF-8"


@dataclass(frozen=True)
class Input:
    """One thing to be remembered. `place` says where it lies; the rest is what it says of itself."""

    kind: EpisodeType
    content: Content
    place: str
    session_id: str | None = None
    source: str | None = None
    reference_time: datetime | None = None
    changed_at: datetime | None = None


@dataclass(frozen=True)
class Unreadable:
    """Something that cannot be read, and why."""

    place: str
    reason: str


Found = Input | Unreadable


def read_inputs(names: Iterable[str], *, form: Form, stdin: TextIO) -> list[Found]:
    """Return what files hold; `-` is standard input, a name with `*`, `?` or `[` stands for all files it fits."""
    found: list[Found] = []
    for name in dict.fromkeys(names):
        if name == STDIN:
            found += _read_stdin(stdin, form)
        else:
            for path in _files(name):
                found += [path] if isinstance(path, Unreadable) else _read_file(path, form)
    return found


def _read_stdin(stdin: TextIO, form: Form) -> list[Found]:
    try:
        # What is piped in is UTF-8 like a file, whatever the terminal's own encoding.
        text = io.StringIO(stdin.buffer.read().decode("utf-8-sig"), newline=None).read()
    except UnicodeDecodeError:
        return [Unreadable(STDIN, NOT_UTF8)]
    return parse_inputs(STDIN, text, form=form)


def _files(name: str) -> Iterator[Path | Unreadable]:
    try:
        path = Path(name).expanduser()
    except RuntimeError:
        yield Unreadable(name, "there is no such home folder")
        return
    if path.is_dir():
        yield Unreadable(name, f"it is a folder; name its files, as a pattern in quotes: '{path / '**' / '*'}'")
    elif path.exists() or not GLOB & set(name):
        yield path
    else:
        try:
            fitting = Path(path.anchor).glob(str(path.relative_to(path.anchor)))
            paths = sorted(each for each in fitting if each.is_file() and not _is_hidden(each, path))
        except ValueError as error:
            yield Unreadable(name, f"it is not a valid pattern: {error}")
            return
        yield from paths
        if not paths:
            yield Unreadable(name, "no file matches it")


def _is_hidden(path: Path, pattern: Path) -> bool:
    """Tell whether a name on the way begins with a dot where the pattern has none, as shells do: `.env`, `.git`."""
    if any(part.startswith(".") and GLOB & set(part) for part in pattern.parts):
        return False
    return any(part.startswith(".") and part not in pattern.parts for part in path.parts)


def _read_file(path: Path, form: Form) -> list[Found]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        changed_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except UnicodeDecodeError:
        return [Unreadable(str(path), NOT_UTF8)]
    except OSError as error:
        return [Unreadable(str(path), f"it cannot be read: {error.strerror}")]
    return parse_inputs(str(path), text, form=form, changed_at=changed_at)


def parse_inputs(name: str, text: str, *, form: Form, changed_at: datetime | None = None) -> list[Found]:
    """Return what a file's text holds.

    `.json` and `.jsonl` are JSON, standard input is if it can be read as such, anything else is a document. JSON that
    is a list of messages, or has one under `messages`, is a conversation; a list or lines of these are several; lines
    that are messages are one conversation. Any other JSON is remembered as it is.
    """
    if form == "document":
        return [Input(EpisodeType.DOCUMENT, text, name, changed_at=changed_at)]
    suffix = Path(name).suffix.lower()
    if suffix in LINES_SUFFIXES:
        return _of_lines(name, text, form, changed_at)
    if suffix in JSON_SUFFIXES or form == "json":
        value = _json(name, text)
        return [value] if isinstance(value, Unreadable) else _of_value(value, name, form, changed_at)
    if name == STDIN or form == "conversation":
        value = _json(name, text)
        if not isinstance(value, Unreadable):
            return _of_value(value, name, form, changed_at)
        lines = _of_lines(name, text, form, changed_at)
        if len(_lines(text)) > 1 and all(isinstance(each, Input) for each in lines):
            return lines
    kind = EpisodeType.CONVERSATION if form == "conversation" else EpisodeType.DOCUMENT
    return [Input(kind, text, name, changed_at=changed_at)]


def input_key(each: Input) -> str:
    """Return a key under which the same content, with what it says of itself, is remembered once."""
    given = each.reference_time and each.reference_time.isoformat()
    said = json.dumps([each.kind.name, each.content, each.session_id, each.source, given], default=str)
    return f"cli-{hashlib.sha256(said.encode()).hexdigest()}"


def _json(place: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return Unreadable(place, f"it is not valid JSON: {error}")


def _lines(text: str) -> list[tuple[int, str]]:
    """Return the lines of JSON Lines with their numbers; only a line feed ends one, for JSON may hold other breaks."""
    return [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]


def _of_lines(name: str, text: str, form: Form, changed_at: datetime | None) -> list[Found]:
    values = [(f"{name}:{number}", _json(f"{name}:{number}", line)) for number, line in _lines(text)]
    messages = [value for _, value in values if _is_message(value)]
    broken: list[Found] = [value for _, value in values if isinstance(value, Unreadable)]
    if form != "json" and messages and len(messages) + len(broken) == len(values):
        # A conversation with a hole in it is not taken for many small ones.
        return broken or [Input(EpisodeType.CONVERSATION, messages, name, changed_at=changed_at)]
    found: list[Found] = []
    for place, value in values:
        found += [value] if isinstance(value, Unreadable) else _of_value(value, place, form, changed_at)
    return found or [Unreadable(name, "it is empty")]


def _of_value(value: Any, place: str, form: Form, changed_at: datetime | None) -> list[Found]:
    if form != "json":
        conversation = _conversation(value, place, changed_at)
        if conversation is not None:
            return [conversation]
        if isinstance(value, list) and value and (several := _conversations(value, place, changed_at)):
            return several
    if form == "conversation":
        return [Unreadable(place, "it holds no conversation, that is, a list of messages with 'role' and 'content'")]
    return [Input(EpisodeType.JSON, value, place, changed_at=changed_at)]


def _conversations(values: list[Any], place: str, changed_at: datetime | None) -> list[Found]:
    """Return the conversations that a list holds, or none if it holds anything else."""
    found: list[Found] = []
    for number, value in enumerate(values):
        each = _conversation(value, f"{place}[{number}]", changed_at)
        if each is None:
            return []
        found.append(each)
    return found


def _conversation(value: Any, place: str, changed_at: datetime | None) -> Found | None:
    """Return a conversation, if the value is one."""
    about: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    messages = about.get("messages") if about else value
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        return None
    given = {name: about.get(name) for name in ("session_id", "source", "reference_time")}
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            return Unreadable(place, f"its {name} is {value!r}; give a text, or leave it out")
    try:
        reference_time = parse_moment("its reference_time", given["reference_time"])
    except InvalidInputError as error:
        return Unreadable(place, error.message)
    return Input(
        EpisodeType.CONVERSATION,
        messages,
        place,
        session_id=given["session_id"],
        source=given["source"],
        reference_time=reference_time,
        changed_at=changed_at,
    )


def _is_message(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("role"), str)
