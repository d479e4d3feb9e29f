"""Talk in the terminal to an assistant that remembers you, also tomorrow.

    python examples/chat.py [NAME]

Before each answer it recalls what it knows about you, afterwards it remembers what was said. The model is the endpoint
that OPENAI_BASE_URL and OPENAI_API_KEY name (OPENAI_MODEL names the model); the embeddings are made in this
process. The memory stays in ./chat_memory.db. An empty line ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime
from uuid import uuid4

from showing import sentence

from jiuwen_memory import (
    ENTITY_COLLECTION,
    RELATION_COLLECTION,
    AddMemStrategy,
    Entity,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    LocalEmbedding,
    Model,
    Relation,
    SearchConfig,
)
from jiuwen_memory.errors import JiuwenMemoryError

NO_ENDPOINT = """\
A chat needs a model. Name an endpoint with OpenAI's protocol, and what it asks for:

  export OPENAI_API_KEY=...                          # OpenAI itself needs only this
  export OPENAI_BASE_URL=http://localhost:11434/v1   # another endpoint, here a local one
  export OPENAI_MODEL=...                              # the model's name there
"""
PERSONA = "You are a friendly assistant with a memory. Answer briefly. Use what you remember where it helps."
EARLIER = 6
"""Earlier messages that are sent along as they are; what is older comes from the memory."""


async def main(name: str) -> None:
    """Chat until an empty line."""
    async with Model() as model, LocalEmbedding() as embedding:
        config = GraphConfig(uri="chat_memory.db", embed_dim=embedding.dimension, embedding_model=embedding)
        strategy = AddMemStrategy(chinese_entity=False)
        async with GraphMemory(config, model, extraction_strategy=strategy, language="en") as memory:
            memory.register_search_strategy("chat", search_relation=SearchConfig(top_k=8))
            await talk(name, model, memory)


async def talk(name: str, model: Model, memory: GraphMemory) -> None:
    """Recall, answer, remember, turn by turn; when one of them fails, say so and go on."""
    print(f"Talking to you as {name}. An empty line ends.")
    session = uuid4().hex
    said: list[dict[str, str]] = []
    while text := await read_line(f"{name}> "):
        question = {"role": "user", "content": text}
        try:
            system = {"role": "system", "content": "\n".join([PERSONA, *await recall(text, name, memory)])}
            reply = await model.invoke([system, *said[-EARLIER:], question])
            print(f"assistant> {reply.content}")
            turn = [question, {"role": "assistant", "content": reply.content}]
            said += turn
            for fact in await remember(turn, name, memory=memory, session=session):
                print(f"  (remembered: {fact})")
        except JiuwenMemoryError as error:
            print(f"  ({error})")


async def read_line(prompt: str) -> str:
    """Return what is typed; at the end of the input, nothing."""
    try:
        return (await asyncio.to_thread(input, prompt)).strip()
    except EOFError:
        return ""


async def recall(text: str, name: str, memory: GraphMemory) -> list[str]:
    """Return the lines about the user and the talk's subject that go into the prompt."""
    found = await memory.search(text, name, "chat", episode=False)
    things = [each for _, each in found[ENTITY_COLLECTION] if isinstance(each, Entity) and each.content]
    facts = [each for _, each in found[RELATION_COLLECTION] if isinstance(each, Relation)]
    return [
        f"It is {datetime.now(UTC):%A, %d %B %Y}. What you remember:",
        *(f"- {thing.name}: {thing.content}" for thing in things),
        *(f"- {sentence(fact)}" for fact in facts),
    ]


async def remember(turn: list[dict[str, str]], name: str, *, memory: GraphMemory, session: str) -> list[str]:
    """Take one turn into the memory and return the facts that are new."""
    update = await memory.add_memory(
        EpisodeType.CONVERSATION,
        name,
        turn,
        content_fmt_kwargs={"user": name, "assistant": "Assistant"},
        session_id=session,
        source="chat",
    )
    return [sentence(fact) for fact in update.added_relation]


if __name__ == "__main__":
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")):
        sys.exit(NO_ENDPOINT)
    try:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else input("Your name: ").strip()))
    except JiuwenMemoryError as error:
        sys.exit(str(error))
    except (EOFError, KeyboardInterrupt):
        print()
