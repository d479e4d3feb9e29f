"""The memory in LangChain's terms: a retriever and tools for an agent. The user is bound here, not by the model."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import cache, wraps
from typing import Any, ParamSpec

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import Field

from jiuwen_memory.errors import InvalidInputError, JiuwenMemoryError
from jiuwen_memory.integrations.findings import Finding, Kind, dated, findings, has_ended, recall_facts
from jiuwen_memory.integrations.moments import AsOf, KnownAt, parse_moment
from jiuwen_memory.integrations.sync import LoopThread
from jiuwen_memory.memory_core.config.graph import EpisodeType
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.requests import parse_user_id

P = ParamSpec("P")
LISTED_FACTS = 50


class GraphMemoryRetriever(BaseRetriever):
    """What a memory knows about a query, as documents: facts, entities and episodes in turn, each kind best first.

    A document's `id` is the object's uuid. Its metadata hold `kind`, `score`, `sources`, `episodes` (uuids of the
    evidence), and what the kind has of `name`, `type`, `since`, `until` (ISO 8601), `current`, `session_id`, `said_at`.

    Args:
        memory: the memory to search; it is not closed by the retriever.
        user_id: whose memories are searched; several users are searched together.
        k: the most documents to return; a strategy with a small `top_k` returns fewer.
        strategy: a registered search strategy.
        kinds: what to search.
        source, session_id: only what was learnt from there.
        as_of: only facts that held at this moment, as far as is known; without a zone it is UTC.
        known_at: only facts that were known at this moment, with the ends that were known then.

    A call may have a `k`, an `as_of` and a `known_at` of its own: `retriever.invoke(query, as_of=...)`.
    """

    memory: GraphMemory
    user_id: str | list[str]
    k: int = Field(default=9, ge=1)
    strategy: str = "default"
    kinds: tuple[Kind, ...] = Field(default=("fact", "entity", "episode"), min_length=1)
    source: str | None = None
    session_id: str | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun | None = None,
        k: int | None = None,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
    ) -> list[Document]:
        limit = self.k if k is None else k
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidInputError(f"k is {limit!r}; give a whole number from 1.")
        found = await self.memory.search(
            query,
            self.user_id,
            self.strategy,
            entity="entity" in self.kinds,
            relation="fact" in self.kinds,
            episode="episode" in self.kinds,
            source=self.source,
            session_id=self.session_id,
            as_of=self.as_of if as_of is None else as_of,
            known_at=self.known_at if known_at is None else known_at,
        )
        return [_document(each) for each in findings(found, self.kinds, limit=limit)]

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
    ) -> list[Document]:
        return _blocking_thread().run(self._aget_relevant_documents(query, k=k, as_of=as_of, known_at=known_at))


def _document(found: Finding) -> Document:
    metadata: dict[str, Any] = {
        "kind": found.kind,
        "score": found.score,
        "sources": list(found.sources),
        "episodes": list(found.episodes),
    }
    since, until = (point and point.iso() for point in (found.since, found.until))
    if found.kind == "episode":
        metadata |= {"session_id": found.session_id, "said_at": since}
    else:
        metadata |= {"name": found.name, "type": found.type}
    if found.kind == "fact":
        metadata |= {"since": since, "until": until, "current": found.current}
    return Document(id=found.id, page_content=found.dated_text, metadata=metadata)


def memory_tools(
    memory: GraphMemory,
    *,
    user_id: str,
    strategy: str = "default",
    source: str | None = None,
    session_id: str | None = None,
    max_tokens: int = 600,
) -> list[BaseTool]:
    """Return the tools `remember`, `search_memory` and `list_facts` for an agent that talks with one user.

    The user is fixed here: no argument of a tool can reach another one's memories. `source` and `session_id` are kept
    on what is remembered; reading is not limited by them. What `search_memory` answers takes at most `max_tokens`. What
    goes wrong is the tool's answer, in the words of our error, so that the agent can do something about it.

    Raises:
        InvalidInputError: there can be no such user.
    """
    parse_user_id(user_id, memory.config.db_storage_config)

    async def remember(text: str) -> str:
        """Keep something for later conversations: facts, wishes and plans, in whole sentences that name everybody."""
        update = await memory.add_memory(EpisodeType.DOCUMENT, user_id, text, source=source, session_id=session_id)
        learnt = [each.content_text for each in (*update.added_relation, *update.updated_relation)]
        return "\n".join(["Remembered.", *(f"- {fact}" for fact in learnt)])

    async def search_memory(query: str, as_of: AsOf = None, known_at: KnownAt = None) -> str:
        """Look up what is known from earlier conversations about a person, a thing or a question."""
        held, known = parse_moment("as_of", as_of), parse_moment("known_at", known_at, is_end=True)
        found = await memory.search(query, user_id, strategy, as_of=held, known_at=known)
        return found.to_prompt(max_tokens) or "Nothing is known about that."

    async def list_facts(about: str, as_of: AsOf = None, known_at: KnownAt = None) -> str:
        """List the latest facts about one person or thing, by its name."""
        held, known = parse_moment("as_of", as_of), parse_moment("known_at", known_at, is_end=True)
        facts = await recall_facts(memory, user_id, about=about, as_of=held, known_at=known, limit=LISTED_FACTS)
        lines = [
            f"- {dated(each.sentence, each.valid_since, each.valid_until, has_ended=not as_of and has_ended(each))}"
            for each in facts
        ]
        return "\n".join(lines) or "No fact about that is known."

    return [_tool(remember), _tool(search_memory), _tool(list_facts)]


def _tool(function: Callable[P, Coroutine[Any, Any, str]]) -> BaseTool:
    @wraps(function)
    async def awaited(*args: P.args, **kwargs: P.kwargs) -> str:
        try:
            return await function(*args, **kwargs)
        except JiuwenMemoryError as error:
            raise ToolException(error.message) from error

    @wraps(function)
    def blocking(*args: P.args, **kwargs: P.kwargs) -> str:
        return _blocking_thread().run(awaited(*args, **kwargs))

    return StructuredTool.from_function(blocking, awaited, handle_tool_error=True, handle_validation_error=str)


@cache
def _blocking_thread() -> LoopThread:
    """Return the one thread in which calls without `await` run."""
    return LoopThread()
