"""The episodes that a text becomes: it as it was, whole or by message, and the gists of it. Values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from jiuwen_memory.foundation.store.graph.constants import ARRAY_LIMIT, GIST
from jiuwen_memory.foundation.store.graph.graph_object import Episode, Relation
from jiuwen_memory.foundation.text import normalise_name, query_tokens, search_tokens
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.graph_memory.requests import AddRequest
from jiuwen_memory.memory_core.graph.graph_memory.states import History, Identity


@dataclass(frozen=True)
class Record:
    """The episodes of one text: `verbatim` hold it as it was, `gists` retell all of them."""

    verbatim: tuple[Episode, ...]
    gists: tuple[Episode, ...] = ()

    @property
    def first(self) -> Episode:
        """The episode that stands for the text where it makes no difference which."""
        return self.verbatim[0]

    @property
    def text(self) -> str:
        """The whole text."""
        return "\n".join(each.content for each in self.verbatim)

    def telling(self, words: str, speaker: str = "") -> Episode:
        """Return the verbatim episode that has most of some words; of equals the first, if known of that speaker."""
        if len(self.verbatim) == 1:
            return self.first
        tokens = set(query_tokens(words).split())
        spoken = [each for each in self.verbatim if speaker and speaker in each.speakers]
        return max(spoken or self.verbatim, key=lambda each: len(tokens & self._words[each.uuid]))

    def naming(self, names: Iterable[str]) -> list[Episode]:
        """Return the verbatim episodes that have all words of one of the names, by case, width and ending aside."""
        wanted = [(frozenset(query_tokens(name).split()), normalise_name(name)) for name in names]

        def is_named(episode: Episode) -> bool:
            words, plain = self._words[episode.uuid], self._plain[episode.uuid]
            # Pictures and signs make no words.
            return any(name <= words if name else sign in plain for name, sign in wanted)

        return list(filter(is_named, self.verbatim))

    @cached_property
    def _words(self) -> Mapping[str, frozenset[str]]:
        """The words of each verbatim episode: a talk has as many messages as it tells facts."""
        return {
            each.uuid: frozenset(search_tokens(f"{each.content}\n{self._plain[each.uuid]}").split())
            for each in self.verbatim
        }

    @cached_property
    def _plain(self) -> Mapping[str, str]:
        """The texts without spaces between Chinese characters, which some people write into names."""
        return {each.uuid: normalise_name(each.content) for each in self.verbatim}


def resolve_record(request: AddRequest, history: History, language: Language) -> Record:
    """Return the text as the episodes that are stored of it, without gists."""
    whole = Episode(
        user_id=request.user_id,
        obj_type=request.kind.name,
        language=language,
        content=request.text,
        content_embedding=history.vector,
        valid_since=request.reference.seconds,
        offset_since=request.reference.offset_minutes,
        session_id=request.session_id,
        source=request.source,
        speakers=[speaker.name for speaker in request.speakers[:ARRAY_LIMIT]],
        content_hash=request.content_hash,
        idempotency_key=request.idempotency_key,
        group=request.group,
        part=request.part,
        parts=request.parts,
    )
    if not request.utterances:
        return Record((whole,))
    return Record(
        tuple(
            Episode.model_validate(
                {
                    **whole.model_dump(exclude={"uuid", "content_embedding"}),
                    "content": each.line,
                    "session_id": request.session_id or request.group,
                    "speakers": [each.speaker] if each.speaker else [],
                    "part": number,
                }
            )
            for number, each in enumerate(request.utterances, start=request.part)
        )
    )


def with_gists(record: Record, gists: Sequence[str], *, concatenate: bool, content_bytes: int) -> Record:
    """Return the record with its gists as episodes, each of them or as many in one as it may hold."""
    texts = _joined(gists, content_bytes) if concatenate else gists
    first = record.first
    made = (
        Episode(
            user_id=first.user_id,
            obj_type=GIST,
            language=first.language,
            created_at=first.created_at,
            content=text,
            valid_since=first.valid_since,
            offset_since=first.offset_since,
            session_id=first.session_id,
            source=first.source,
            group=first.group,
            parents=[each.uuid for each in record.verbatim[:ARRAY_LIMIT]],
            part=first.part,
            parts=first.parts,
        )
        for text in texts
    )
    return replace(record, gists=tuple(made))


def _joined(gists: Sequence[str], content_bytes: int) -> list[str]:
    joined: list[str] = []
    for gist in gists:
        longer = f"{joined[-1]} {gist}" if joined else gist
        if joined and len(longer.encode()) <= content_bytes:
            joined[-1] = longer
        else:
            joined.append(gist)
    return joined


def resolve_mentioned(record: Record, identity: Identity, relations: Sequence[Relation]) -> Mapping[str, list[str]]:
    """Return in which verbatim episodes each entity occurs, by name or in a fact; of one that nobody names, the first.

    Gists mention nothing: what they lead to are the facts that list them.
    """
    if len(record.verbatim) == 1:
        return {node.uuid: [record.first.uuid] for node in identity.nodes}
    verbatim = {each.uuid for each in record.verbatim}
    names: dict[str, set[str]] = {}
    for mention, node in zip(identity.mentions, identity.nodes, strict=True):
        names.setdefault(node.uuid, set()).update((mention.name, node.name))
    mentioned = {uuid: {each.uuid for each in record.naming(called)} for uuid, called in names.items()}
    for relation in relations:
        for end in {relation.lhs, relation.rhs} & mentioned.keys():
            mentioned[end].update(verbatim.intersection(relation.episodes))
    order = [each.uuid for each in record.verbatim]
    return {uuid: [each for each in order if each in found] or order[:1] for uuid, found in mentioned.items()}
