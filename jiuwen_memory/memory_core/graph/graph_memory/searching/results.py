"""What a search returns: the hits, the paths between them, and why each came back. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject
from jiuwen_memory.foundation.store.graph.result_ranking import Channel
from jiuwen_memory.foundation.tokens import Tokenizer
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.graph_memory.searching.pool import Admission, ChannelHit
from jiuwen_memory.memory_core.graph.graph_memory.searching.prompt_text import render_prompt
from jiuwen_memory.memory_core.graph.graph_memory.searching.times import AskedTime, Period


@dataclass(frozen=True)
class PathNode:
    """A place on a path: an object of a collection; `label` is its name, or the beginning of its text."""

    collection: str
    uuid: str
    label: str


@dataclass(frozen=True)
class PathStep:
    """A way from one node to the next: the kind of link, the fact's name, and whether it leads along the arrow.

    `forward` means from `lhs` to `rhs` of a relation, and from earlier to later between episodes. `relation` is empty
    where the step is no stored relation.
    """

    kind: str
    name: str
    forward: bool
    relation: str = ""


@dataclass(frozen=True)
class Path:
    """How something was reached: nodes in order, and the step between each two of them."""

    nodes: tuple[PathNode, ...]
    steps: tuple[PathStep, ...]

    def __str__(self) -> str:
        written = self.nodes[0].label
        for step, node in zip(self.steps, self.nodes[1:], strict=True):
            arrow = f"-[{step.name}]->" if step.forward else f"<-[{step.name}]-"
            written += f" {arrow} {node.label}"
        return written


@dataclass(frozen=True)
class HitDiagnostics:
    """Why a result is there: where each channel put it, what they gave together, what the graph added."""

    score: float
    fused: float
    channels: Mapping[Channel, ChannelHit]
    signals: Mapping[str, float]
    admitted: Admission


@dataclass(frozen=True)
class CollectionDiagnostics:
    """One collection's search: how many hits each channel brought, how many candidates came in, and each result."""

    found: Mapping[Channel, int]
    admissions: Mapping[Admission, int]
    hits: Mapping[str, HitDiagnostics]


@dataclass(frozen=True)
class SearchDiagnostics:
    """What a search did.

    Args:
        strategy: its name.
        embedded: the texts whose vectors were used; none if no vector was made.
        collections: by name of the collection.
        milliseconds: on the clock, by part of the search; parts may overlap.
        problems: parts that failed and were left out.
        period: the time that words of the query name, if it was looked for and found.
    """

    strategy: str
    embedded: tuple[str, ...] = ()
    collections: Mapping[str, CollectionDiagnostics] = field(default_factory=dict)
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    period: Period | None = None


class SearchResult(dict[str, list[tuple[float, BaseGraphObject]]]):
    """The (score, object) pairs of each collection, best first, with the paths that led there and diagnostics."""

    def __init__(
        self,
        found: Mapping[str, list[tuple[float, BaseGraphObject]]],
        *,
        paths: tuple[Path, ...] = (),
        diagnostics: SearchDiagnostics,
        time: AskedTime | None = None,
        language: Language = "en",
    ) -> None:
        super().__init__(found)
        self.paths = paths
        self.diagnostics = diagnostics
        self.language: Language = language
        self._time = time or AskedTime()
        self._moment = self._time.present

    def is_current(self, found: BaseGraphObject) -> bool:
        """Tell whether a fact holds, as far as is known, at the moment asked about: `as_of`, `known_at`, or the search.

        A fact that only begins later counts as current, and so does everything that is no fact.
        """
        return self._time.is_current(found, self._moment)

    def to_prompt(
        self, max_tokens: int | None = 1000, *, language: Language | None = None, tokenizer: Tokenizer | None = None
    ) -> str:
        """Return what was found as text for an agent's prompt; nothing found is an empty text.

        The most useful comes first: facts that hold, with entities and episodes in turn, then facts that no longer do.
        What listed facts say word for word is not said again. Facts have their dates, and all has its sources. The text
        stands between `<memory>` and `</memory>`, which nothing inside can close. The same result gives the same text.

        Args:
            max_tokens: the longest text; what does not fit is left out (None: no limit).
            language: of headings and dates; that of the memory, if not given.
            tokenizer: what counts tokens: anything with `encode(text)`, such as an encoding of `tiktoken`. Without one,
                `o200k_base` of `tiktoken` if its file lies in `TIKTOKEN_CACHE_DIR`, else an estimate.

        Raises:
            InvalidInputError: `max_tokens` is below 1, or the language is unknown.
        """
        return render_prompt(
            self,
            is_current=self.is_current,
            max_tokens=max_tokens,
            language=language or self.language,
            tokenizer=tokenizer,
        )
