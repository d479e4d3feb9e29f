"""An OpenAI client that remembers: it recalls into each request, and learns from each answer in the background."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeVar

from jiuwen_memory.errors import InvalidInputError, ServiceError, SetupError
from jiuwen_memory.foundation.retry import outcome_of
from jiuwen_memory.integrations.findings import COLLECTIONS, Kind
from jiuwen_memory.integrations.openai_forms import (
    AsyncTee,
    ChatForm,
    Form,
    Heard,
    ResponseForm,
    Tee,
    is_raw,
    parsed,
)
from jiuwen_memory.integrations.sync import SyncGraphMemory
from jiuwen_memory.integrations.turns import Failure, Turn, TurnQueue, turn_key
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.requests import parse_user_id

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

Client = TypeVar("Client", "AsyncOpenAI", "OpenAI")
T = TypeVar("T")
Stage = Literal["recall", "remember"]
Body = dict[str, Any]
METHODS: Final = ("create", "parse")


def remembering(
    client: Client,
    memory: GraphMemory | SyncGraphMemory,
    *,
    user_id: str,
    source: str | None = "openai",
    session_id: str | None = None,
    strategy: str = "default",
    kinds: Sequence[Kind] = ("fact", "entity", "episode"),
    max_tokens: int = 600,
    recall_timeout: float = 5.0,
    queue_size: int = 100,
    on_failure: Callable[[Failure], None] | None = None,
) -> Remembering[Client]:
    """Return the client with a memory; the client that was given stays as it is.

    `create`, `parse` and `stream` of `chat.completions` and `responses` recall what the last thing said is about into
    the system message (or `instructions`) and hand the new turn to a queue, which adds it in the background, in order
    per user. What was recalled is not learnt again, nor is the history that a request repeats. A call never fails
    because of the memory: see `failures`. The answer comes later by one search. (The way of working is that of Memori's
    wrapped clients.)

    Args:
        client: `AsyncOpenAI` or `OpenAI`, or what derives from them.
        memory: a `GraphMemory` for a client that is awaited, a `SyncGraphMemory` for the other.
        user_id: whose memory it is; `for_user` gives the same client for another.
        source, session_id: kept on everything that is learnt.
        strategy: the search strategy of the recall; what it finds takes at most `max_tokens`
            of a prompt, as `SearchResult.to_prompt` writes it.
        kinds: what is recalled; less of it is found sooner.
        recall_timeout: seconds after which a request goes on without what would have been recalled.
        queue_size: turns that may wait; when it is full, a call waits for a place once its answer has come.
        on_failure: told of each failure; it runs in the event loop of the memory, and must not wait for anything. What
            it raises is told by that loop's exception handler, and stops nothing.

    Raises:
        InvalidInputError: client and memory do not go together, there can be no such user, no kind is given or one that
            there is not, or a number is not above zero.
    """
    for name, value in (("max_tokens", max_tokens), ("recall_timeout", recall_timeout)):
        if value <= 0:
            raise InvalidInputError(f"{name} is {value}; give a number above zero.")
    if not kinds or not set(kinds) <= COLLECTIONS.keys():
        raise InvalidInputError(f"kinds is {kinds!r}; give one or more of {', '.join(COLLECTIONS)}.")
    is_awaited = inspect.iscoroutinefunction(client.post)
    if is_awaited != isinstance(memory, GraphMemory):
        wanted = "GraphMemory" if is_awaited else "SyncGraphMemory"
        raise InvalidInputError(f"{type(client).__name__} needs a {wanted}, not {type(memory).__name__}.")
    inner = memory.memory if isinstance(memory, SyncGraphMemory) else memory
    queue = TurnQueue(inner, size=queue_size, on_failure=on_failure)
    mind = Mind(inner, queue, strategy=strategy, kinds=kinds, max_tokens=max_tokens, timeout=recall_timeout)
    blocking = memory if isinstance(memory, SyncGraphMemory) else None
    template = Turn(mind.parse_user_id(user_id), (), source, session_id)
    return Remembering(client, mind, template=template, blocking=blocking)


class Remembering(Generic[Client]):
    """A client with a memory, as `remembering` makes it; what it does not know itself, the client answers."""

    def __init__(self, client: Client, mind: Mind, *, template: Turn, blocking: SyncGraphMemory | None) -> None:
        self.client: Client = client.copy()
        self._plain: Client = client
        self._mind = mind
        self._template = template
        self._blocking = blocking
        self._remember(ChatForm(), self.client.chat.completions)
        self._remember(ResponseForm(), self.client.responses)

    def _remember(self, form: Form, resource: Any) -> None:
        """Let the methods of a resource recall and learn; `stream` is the SDK's own, and calls `create`."""
        for name in METHODS:
            call = Call(form, self._mind, template=self._template, create=getattr(resource, name))
            # Only this one object's methods: the client's type, and what else it can do, stay as they are.
            setattr(resource, name, call.awaited if self._blocking is None else call.blocking(self._blocking))

    def __getattr__(self, name: str) -> Any:
        # Not `self.client`: an object that is being copied has none yet, and would come back here for it.
        return getattr(object.__getattribute__(self, "client"), name)

    @cached_property
    def beta(self) -> Any:
        """The client's `beta`, whose chat remembers too; loading it takes half a second, so it waits to be wanted."""
        self._remember(ChatForm(), self.client.beta.chat.completions)
        return self.client.beta

    def for_user(self, user_id: str, *, session_id: str | None = None) -> Remembering[Client]:
        """Return the same client, with the same queue, for another user or session."""
        template = replace(self._template, user_id=self._mind.parse_user_id(user_id), session_id=session_id)
        return Remembering(self._plain, self._mind, template=template, blocking=self._blocking)

    def with_options(self, **options: Any) -> Remembering[Client]:
        """Return this client with other options, as the client's own `with_options` does; it goes on remembering."""
        plain = self._plain.with_options(**options)
        return Remembering(plain, self._mind, template=self._template, blocking=self._blocking)

    copy = with_options

    @property
    def failures(self) -> Sequence[Failure]:
        """The latest recalls and additions that did not work; a failed addition waits in `memory.pending()` too."""
        return tuple(self._mind.queue.failures)

    @property
    def waiting(self) -> int:
        """Turns that are not in the memory yet."""
        return self._mind.queue.waiting

    async def aclose(self) -> None:
        """Wait until everything said so far is in the memory, or has failed; client and memory are yours to close."""
        await self._mind.queue.drain()

    def close(self) -> None:
        """Do as `aclose` does, for a client that is not awaited.

        Raises:
            InvalidInputError: this client is awaited.
        """
        if self._blocking is None:
            raise InvalidInputError("This client is awaited; use `await aclose()`.")
        self._blocking.run(self._mind.queue.drain())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Mind:
    """What recalls and learns, for all users of one client."""

    def __init__(
        self,
        memory: GraphMemory,
        queue: TurnQueue,
        *,
        strategy: str,
        kinds: Sequence[Kind],
        max_tokens: int,
        timeout: float,
    ) -> None:
        self.queue = queue
        self._memory = memory
        self._strategy = strategy
        self._kinds = frozenset(kinds)
        self._max_tokens = max_tokens
        self._timeout = timeout

    def parse_user_id(self, user_id: str) -> str:
        """Return a user id as it was given, if there can be such a user.

        Raises:
            InvalidInputError: there cannot.
        """
        return parse_user_id(user_id, self._memory.config.db_storage_config)

    async def recall(self, query: str, user_id: str) -> str:
        """Return what goes into the prompt; nothing if nothing is found.

        Raises:
            ServiceError: it took too long; or whatever a model or a store raises.
        """
        try:
            async with asyncio.timeout(self._timeout) as limit:
                results = await self._memory.search(
                    query,
                    user_id,
                    self._strategy,
                    entity="entity" in self._kinds,
                    relation="fact" in self._kinds,
                    episode="episode" in self._kinds,
                )
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ServiceError(f"The recall took longer than {self._timeout} s; the request went on.") from error
        return results.to_prompt(self._max_tokens)


class Call:
    """One of the client's methods, with recall before it and learning after it."""

    def __init__(self, form: Form, mind: Mind, *, template: Turn, create: Callable[..., Any]) -> None:
        self._form = form
        self._mind = mind
        self._template = template
        self._create = create

    async def awaited(self, **body: Any) -> Any:
        """Recall, ask, and learn: when the answer is there, or when its stream has ended."""
        given = self._form.repeatable(body)
        result = await self._create(**await self._with_recalled(given))
        if not given.get("stream"):
            await self._learn(given, lambda: self._form.reply(parsed(result, given)))
            return result
        if is_raw(given):
            return result
        return AsyncTee(result, Heard(self._form.delta), lambda reply: self._learn(given, lambda: reply))

    def blocking(self, memory: SyncGraphMemory) -> Callable[..., Any]:
        """Return the same for a client that is not awaited; the memory's part runs in the memory's thread."""

        def learn(given: Body, reply: Callable[[], str]) -> None:
            self._run(self._learn(given, reply), memory, stage="remember", otherwise=None)

        def create(**body: Any) -> Any:
            given = self._form.repeatable(body)
            recalled = self._run(self._with_recalled(given), memory, stage="recall", otherwise=given)
            result = self._create(**recalled)
            if not given.get("stream"):
                learn(given, lambda: self._form.reply(parsed(result, given)))
                return result
            if is_raw(given):
                return result
            return Tee(result, Heard(self._form.delta), lambda reply: learn(given, lambda: reply))

        return create

    def _run(self, coroutine: Coroutine[Any, Any, T], memory: SyncGraphMemory, *, stage: Stage, otherwise: T) -> T:
        """Run the memory's part in its thread; that it is closed breaks no call either."""
        try:
            return memory.run(coroutine)
        except SetupError as error:
            self._mind.queue.report(Failure(stage, self._template.user_id, error))
            return otherwise

    async def _with_recalled(self, body: Body) -> Body:
        return await self._guarded(self._recalled(body), stage="recall", otherwise=body)

    async def _learn(self, body: Body, reply: Callable[[], str]) -> None:
        await self._guarded(self._put(body, reply), stage="remember", otherwise=None)

    async def _guarded(self, work: Coroutine[Any, Any, T], *, stage: Stage, otherwise: T) -> T:
        """Do the memory's part; whatever goes wrong in it is reported, and the call goes on."""
        outcome = await outcome_of(work, raised=())
        if isinstance(outcome, Exception):
            self._mind.queue.report(Failure(stage, self._template.user_id, outcome))
            return otherwise
        return outcome

    async def _recalled(self, body: Body) -> Body:
        query = self._form.last_said(body)
        recalled = await self._mind.recall(query, self._template.user_id) if query.strip() else ""
        return self._form.with_recalled(body, recalled) if recalled else body

    async def _put(self, body: Body, reply: Callable[[], str]) -> None:
        said, answer = self._form.said(body), reply()
        if not said or not answer.strip():
            return
        where = self._template
        key = turn_key([where.user_id, where.source, where.session_id, self._form.history(body)], answer)
        messages = (*said, {"role": "assistant", "content": answer})
        await self._mind.queue.put(Turn(where.user_id, messages, where.source, where.session_id, key=key))
