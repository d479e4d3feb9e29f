"""Turns what a caller hands to `add_memory` into checked values. Touches nothing outside."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.llm.schema.message import ROLES, PlainMessage, plain_messages
from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.foundation.store.graph.graph_object import Episode, new_uuid
from jiuwen_memory.foundation.text import clean_text, cut_bytes, estimate_tokens, is_blank, split_text
from jiuwen_memory.foundation.timepoint import Timepoint, from_datetime
from jiuwen_memory.memory_core.config.graph import EpisodeType
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import AIEntity, HumanEntity
from jiuwen_memory.memory_core.graph.extraction.values import Mention

LABEL_BYTES = 256
SEARCH_TEXT_GROWTH = 4
HUMAN_ROLES = frozenset({"user", "human"})
UNREMEMBERED_ROLES = frozenset({"system", "developer"})
FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp", "Cn"})

Content = Sequence[Any] | Mapping[str, Any] | str
"""Messages of several libraries, JSON values or text; `parse_request` tells them apart."""


@dataclass(frozen=True)
class Utterance:
    """A message as a line of the text, and who speaks in it (empty for a tool)."""

    speaker: str
    line: str


@dataclass(frozen=True)
class AddRequest:
    """One part of an input, checked and formatted: what `plan_update` works on.

    `own_types` names the types that were given for this input alone. `utterances` are its messages, where each becomes
    an episode of its own; `part` is then the number of the first.
    """

    user_id: str
    kind: EpisodeType
    text: str
    speakers: tuple[Mention, ...]
    reference_time: datetime
    reference: Timepoint
    is_repeatable: bool
    session_id: str = ""
    source: str = ""
    idempotency_key: str = ""
    group: str = ""
    part: int = 1
    parts: int = 1
    warnings: tuple[str, ...] = ()
    is_resumed: bool = False
    own_types: tuple[str, ...] = ()
    utterances: tuple[Utterance, ...] = ()

    @property
    def content_hash(self) -> str:
        """What makes two inputs the same content."""
        return hashlib.sha256(f"{self.kind.name}\n{self.text}".encode()).hexdigest()


def parse_request(
    src_type: EpisodeType,
    content: Content,
    *,
    user_id: str,
    storage: GraphStoreStorageConfig,
    content_fmt_kwargs: Mapping[str, str] | None,
    reference_time: datetime | None,
    session_id: str | None,
    source: str | None,
    idempotency_key: str | None,
) -> AddRequest:
    """Return the whole input as one request.

    Raises:
        InvalidInputError: something in it cannot be used; the message names what.
    """
    if not isinstance(src_type, EpisodeType):
        raise InvalidInputError(f"src_type is {src_type!r}; give EpisodeType.CONVERSATION, DOCUMENT or JSON.")
    if reference_time is not None and not isinstance(reference_time, datetime):
        raise InvalidInputError(f"reference_time is a {type(reference_time).__name__}; give a datetime or None.")
    parse_user_id(user_id, storage)
    names = _checked_names(src_type, content, content_fmt_kwargs)
    parsed = parse_content(src_type, content, names=names)
    speakers = _fitting(parsed.speakers, storage)
    cleaned = clean_text(parsed.text)
    if is_blank(cleaned):
        raise InvalidInputError("content is empty or shows nothing; give some text to remember.")
    moment = reference_time or datetime.now(UTC)
    return AddRequest(
        user_id=user_id,
        kind=src_type,
        text=cleaned,
        speakers=speakers,
        reference_time=moment if moment.tzinfo else moment.replace(tzinfo=UTC),
        reference=from_datetime(moment),
        is_repeatable=reference_time is not None,
        session_id=_label("session_id", session_id),
        source=_label("source", source),
        idempotency_key=_label("idempotency_key", idempotency_key),
        group=new_uuid(),
        warnings=(
            *(["Characters that cannot be stored were replaced in the content."] if cleaned != parsed.text else []),
            *(["A speaker's name was cut to what the store can hold."] if speakers != parsed.speakers else []),
            *_unused_names(content, names),
        ),
        utterances=tuple(_fitting_line(each, storage) for each in parsed.utterances),
    )


def split_request(
    request: AddRequest, *, chunk_tokens: int, content_bytes: int, by_message: bool = False
) -> tuple[AddRequest, ...]:
    """Return the request in parts of at most `chunk_tokens` tokens that each fit the content field.

    `by_message` keeps the messages of a conversation whole, as far as they fit into a part, and apart.
    """
    max_bytes = content_bytes // SEARCH_TEXT_GROWTH
    if by_message and request.utterances:
        return _split_by_message(request, chunk_tokens=chunk_tokens, max_bytes=max_bytes)
    texts = split_text(request.text, chunk_tokens, max_bytes=max_bytes)
    texts = [text for text in texts if not is_blank(text)]
    whole = replace(request, utterances=())
    return tuple(
        replace(whole, text=text, part=number, parts=len(texts), warnings=request.warnings if number == 1 else ())
        for number, text in enumerate(texts, start=1)
    )


def _split_by_message(request: AddRequest, *, chunk_tokens: int, max_bytes: int) -> tuple[AddRequest, ...]:
    lines = [
        replace(each, line=piece.strip())
        for each in request.utterances
        for piece in split_text(each.line, chunk_tokens, max_bytes=max_bytes)
        if not is_blank(piece)
    ]
    groups: list[list[Utterance]] = []
    for line in lines:
        text = _joined([*groups[-1], line]) if groups else ""
        if groups and estimate_tokens(text) <= chunk_tokens and len(text.encode()) <= max_bytes:
            groups[-1].append(line)
        else:
            groups.append([line])
    parts: list[AddRequest] = []
    number = 1
    for group in groups:
        text = _joined(group) + ("" if group is groups[-1] else "\n")
        numbered = replace(request, part=number, parts=len(lines), warnings=() if parts else request.warnings)
        parts.append(replace(numbered, text=text, utterances=tuple(group)))
        number += len(group)
    return tuple(parts)


def _joined(utterances: Sequence[Utterance]) -> str:
    return "\n".join(each.line for each in utterances)


def parse_user_id(user_id: object, storage: GraphStoreStorageConfig) -> str:
    """Return the user id, or say why it cannot be one: 1 to `storage.user_id` printable characters, not blank."""
    if not isinstance(user_id, str) or is_blank(user_id):
        raise InvalidInputError(f"user_id is {user_id!r}; give a text that is not blank.")
    if len(user_id) > storage.user_id:
        raise InvalidInputError(
            f"user_id has {len(user_id)} characters, at most {storage.user_id} are allowed; "
            "shorten it or raise GraphStoreStorageConfig.user_id before the store is made."
        )
    for character in user_id:
        if unicodedata.category(character) in FORBIDDEN_CATEGORIES:
            raise InvalidInputError(f"user_id holds the unprintable character {character!r}; leave it out.")
    return user_id


def parse_user_ids(user_id: object, storage: GraphStoreStorageConfig) -> tuple[str, ...]:
    """Return one or several user ids, each checked, without repeats; none at all is an error."""
    if isinstance(user_id, str):
        return (parse_user_id(user_id, storage),)
    if not isinstance(user_id, Sequence) or not user_id:
        raise InvalidInputError(f"user_id is {user_id!r}; give one user id or a list of at least one.")
    return tuple(dict.fromkeys(parse_user_id(each, storage) for each in user_id))


def parse_ids(ids: object) -> list[str]:
    """Return one uuid or several, or say why they cannot be uuids."""
    listed = [ids] if isinstance(ids, str) else ids
    if not isinstance(listed, Sequence | Set) or isinstance(listed, bytes):
        raise InvalidInputError(f"ids is {ids!r}; give a uuid or a list of uuids.")
    for each in listed:
        if not isinstance(each, str):
            raise InvalidInputError(f"{each!r} is no uuid; give texts.")
    return list(listed)


@dataclass(frozen=True)
class ParsedContent:
    """An input as text, who speaks in it, and its messages."""

    text: str
    speakers: tuple[Mention, ...] = ()
    utterances: tuple[Utterance, ...] = ()


def parse_content(src_type: EpisodeType, content: Content, *, names: Mapping[str, str]) -> ParsedContent:
    """Return the content as text, and who speaks in it."""
    if src_type is EpisodeType.JSON:
        return ParsedContent(_json_text(content))
    if isinstance(content, str):
        return ParsedContent(content)
    if src_type is EpisodeType.DOCUMENT or isinstance(content, Mapping | bytes) or not isinstance(content, Sequence):
        raise InvalidInputError(
            f"content of a {src_type.name} is a {type(content).__name__}; give "
            + ("a text." if src_type is EpisodeType.DOCUMENT else "a text or a list of messages.")
        )
    given: Sequence[Any] = content
    messages = [message for message in plain_messages(given) if message.role not in UNREMEMBERED_ROLES]
    spoken = [(_speaker(message, names), message) for message in messages if not is_blank(message.text)]
    utterances = [
        Utterance("" if message.role == "tool" else speaker.name, f"{speaker.name}: {message.text}")
        for speaker, message in spoken
    ]
    speakers = dict.fromkeys(speaker for speaker, message in spoken if message.role != "tool")
    return ParsedContent(_joined(utterances), tuple(speakers), tuple(utterances))


def _speaker(message: PlainMessage, names: Mapping[str, str]) -> Mention:
    own = "" if is_blank(message.name or "") else message.name
    name = names.get(own or "") or own or names.get(message.role) or message.role
    if message.role == "tool":
        return Mention(_one_line(f"tool {own}" if own else name), AIEntity.name)
    return Mention(_one_line(name), HumanEntity.name if message.role in HUMAN_ROLES else AIEntity.name)


def _one_line(name: str) -> str:
    """Return a name without line breaks and control characters: it must not look like another speaker's line."""
    return " ".join("".join(" " if unicodedata.category(char) == "Cc" else char for char in name).split())


def _fitting(speakers: Sequence[Mention], storage: GraphStoreStorageConfig) -> tuple[Mention, ...]:
    cut = (replace(each, name=cut_bytes(clean_text(each.name), storage.name).rstrip()) for each in speakers)
    return tuple(dict.fromkeys(cut))


def _fitting_line(each: Utterance, storage: GraphStoreStorageConfig) -> Utterance:
    return Utterance(cut_bytes(clean_text(each.speaker), storage.name).rstrip(), clean_text(each.line))


def _json_text(content: Content) -> str:
    """Return JSON as text; a value that holds nothing (`{}`, `[]`, `null`, blanks) gives an empty one."""
    if not isinstance(content, str):
        try:
            return json.dumps(content, ensure_ascii=False) if content else ""
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInputError(f"content cannot be written as JSON ({error}); give JSON values only.") from error
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"content is not valid JSON ({error}); mend it, or add it as EpisodeType.DOCUMENT."
        ) from error
    is_nothing = value in ({}, [], None) or (isinstance(value, str) and is_blank(value))
    return "" if is_nothing else content


def _checked_names(src_type: EpisodeType, content: Content, given: Mapping[str, str] | None) -> Mapping[str, str]:
    if given is not None and not isinstance(given, Mapping):
        raise InvalidInputError(
            f'content_fmt_kwargs is a {type(given).__name__}; give a dict such as {{"user": "Alice"}}, or None.'
        )
    if not given:
        return {}
    if src_type is not EpisodeType.CONVERSATION or isinstance(content, str):
        raise InvalidInputError("content_fmt_kwargs names the roles of a list of messages; leave it out otherwise.")
    for role, name in given.items():
        if not isinstance(role, str) or not isinstance(name, str) or is_blank(name):
            raise InvalidInputError(f"content_fmt_kwargs maps {role!r} to {name!r}; map a role to a name.")
    # A caller may call the role as LangChain does.
    return {**{ROLES[role]: name for role, name in given.items() if role in ROLES}, **given}


def _unused_names(content: Content, names: Mapping[str, str]) -> list[str]:
    """Say so if a name is given for something that no message can have been said by: most likely it is misspelt."""
    if not names or isinstance(content, str | Mapping):
        return []
    given: Sequence[Any] = content
    messages = plain_messages(given)
    spoken = {message.role for message in messages} | {message.name for message in messages if message.name}
    known = sorted({*ROLES, *ROLES.values(), *UNREMEMBERED_ROLES, "tool"} | spoken)
    unknown = [role for role in names if role not in known]
    if not unknown:
        return []
    listed = ", ".join(map(repr, unknown))
    return [f"content_fmt_kwargs names {listed}, which nobody in these messages is; known are {', '.join(known)}."]


def _label(field: str, value: str | None) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or clean_text(value) != value:
        raise InvalidInputError(f"{field} is {value!r}; give a text without unprintable characters.")
    if cut_bytes(value, LABEL_BYTES) != value:
        raise InvalidInputError(f"{field} is longer than {LABEL_BYTES} bytes; shorten it.")
    return value


def key_warnings(part: AddRequest, stored: Episode) -> list[str]:
    """Say so if the key of a part is that of other content: the part was not taken in."""
    if not part.idempotency_key or (stored.content_hash, stored.parts) == (part.content_hash, part.parts):
        return []
    return [f"The idempotency_key {part.idempotency_key!r} is that of other content; nothing was added."]
