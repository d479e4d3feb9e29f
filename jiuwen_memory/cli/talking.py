"""`chat`: talk to a model that remembers. It recalls before each answer, and remembers in the background after it."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Final
from uuid import uuid4

import typer
from rich.text import Text

from jiuwen_memory.cli.calls import FAILED, OK, Call, command, complain, plain
from jiuwen_memory.errors import JiuwenMemoryError
from jiuwen_memory.foundation.llm.model import Model
from jiuwen_memory.integrations.profile import make_model
from jiuwen_memory.integrations.sync import LoopThread
from jiuwen_memory.integrations.turns import Turn, TurnQueue
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory

PERSONA: Final = "You are a friendly assistant with a memory. Answer briefly. Use what you remember where it helps."
EARLIER: Final = 6
"""Earlier messages that are sent along as they are; what is older comes from the memory."""


@dataclass
class Talk:
    """One conversation: what was said, and what it is answered and remembered with."""

    user_id: str
    memory: GraphMemory
    model: Model
    queue: TurnQueue
    source: str
    session: str = field(default_factory=lambda: uuid4().hex)
    said: list[dict[str, str]] = field(default_factory=list)

    async def answer(self, text: str) -> str:
        """Return the model's answer, and put the turn where it is remembered."""
        question = {"role": "user", "content": text}
        system = {"role": "system", "content": await self._prompt(text)}
        reply = (await self.model.invoke([system, *self.said[-EARLIER:], question])).content
        turn = [question, {"role": "assistant", "content": reply}]
        self.said += turn
        await self.queue.put(Turn(self.user_id, tuple(turn), self.source, self.session))
        return reply

    async def _prompt(self, text: str) -> str:
        found = await self.memory.search(text, self.user_id)
        today = f"It is {datetime.now(UTC):%A, %d %B %Y}. What you remember of the user, {self.user_id}:"
        return "\n".join([PERSONA, today, found.to_prompt()])


@command("chat")
def chat(
    call: Call, source: Annotated[str, typer.Option(help="Where the turns are said to come from.")] = "chat"
) -> int:
    """Talk to the model, with memory; an empty line ends."""
    # The loop has a thread of its own, so that turns are remembered while this one waits for somebody to type.
    loop = LoopThread()
    stack = AsyncExitStack()
    try:
        talk = loop.run(_open(call, stack, source))
        name = talk.model.model_config.model_name
        call.note(f"{name} answers, and remembers what {talk.user_id} says. An empty line ends.", "dim")
        _converse(call, talk, loop)
        if talk.queue.waiting:
            call.note("Remembering what was said ...", "dim")
        loop.run(talk.queue.drain())
        return FAILED if talk.queue.failures else OK
    finally:
        loop.run(stack.aclose())
        loop.stop()


async def _open(call: Call, stack: AsyncExitStack, source: str) -> Talk:
    memory = await stack.enter_async_context(call.memory(with_model=True))
    model = await stack.enter_async_context(make_model(call.profile))
    queue = TurnQueue(memory, on_failure=lambda failure: call.note(f"(not remembered: {failure.error})", "red"))
    return Talk(call.user_id, memory, model, queue, source)


def _converse(call: Call, talk: Talk, loop: LoopThread) -> None:
    """Read, answer, read, until an empty line; when an answer fails, say so and go on."""
    while text := _read_line(call, talk.user_id):
        try:
            reply = loop.run(talk.answer(text))
        except JiuwenMemoryError as error:
            complain(call, error)
        else:
            call.show({"role": "assistant", "content": reply}, Text(plain(reply)))


def _read_line(call: Call, user_id: str) -> str:
    call.notes.print(Text(plain(f"{user_id}> "), "bold"), end="")
    return sys.stdin.readline().strip()
