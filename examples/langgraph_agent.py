"""A LangGraph agent that remembers from one conversation to the next: recall, answer, remember.

    pip install '.[langchain,local]'
    python examples/langgraph_agent.py

Two conversations follow each other in separate threads of the graph; the second one knows what the first one said. With
OPENAI_API_KEY or OPENAI_BASE_URL set, that endpoint is the model (OPENAI_MODEL names it); without, a scripted one
answers. The memory stays in ./langgraph_memory.db, so a second run knows it all from the start.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import SecretStr

from jiuwen_memory import AddMemStrategy, EpisodeType, GraphConfig, GraphMemory, LocalEmbedding
from jiuwen_memory.errors import JiuwenMemoryError
from jiuwen_memory.integrations.langchain import GraphMemoryRetriever
from jiuwen_memory.testing import FakeLLM

USER = "mira"
CONVERSATIONS = {
    "monday": "I am Mira. I moved to Lyon in March 2025 and I am allergic to hazelnuts.",
    "friday": "Which sweets could you recommend to me?",
}
SCRIPT = {
    "EntityExtraction": {"entities": [{"name": "Mira", "type": "Human"}, {"name": "Lyon", "type": "Entity"}]},
    "RelationExtraction": {
        "relations": [
            {"fact": "Mira is allergic to hazelnuts.", "name": "allergic to", "source": "Mira", "target": "Mira"},
            {
                "fact": "Mira moved to Lyon.",
                "name": "lives in",
                "source": "Mira",
                "target": "Lyon",
                "valid_since": "March 2025",
            },
        ]
    },
}
ANSWERS = ("Nice to meet you, Mira!", "Nougat without hazelnuts, from a shop in Lyon.")


class State(MessagesState):
    """The conversation, and what the memory knows about its last message."""

    known: list[str]


def agent(memory: GraphMemory, chat: BaseChatModel) -> Any:
    """Return the compiled graph."""
    retriever = GraphMemoryRetriever(memory=memory, user_id=USER, k=6)

    async def recall(state: State) -> dict[str, Any]:
        return {"known": [each.page_content for each in await retriever.ainvoke(str(state["messages"][-1].content))]}

    async def answer(state: State) -> dict[str, Any]:
        known = "\n".join(["Answer briefly. From earlier conversations you know:", *state["known"]])
        return {"messages": [await chat.ainvoke([SystemMessage(known), *state["messages"]])]}

    async def remember(state: State) -> dict[str, Any]:
        turn = state["messages"][-2:]
        await memory.add_memory(EpisodeType.CONVERSATION, USER, turn, {"user": "Mira"}, source="langgraph")
        return {}

    graph = StateGraph(State)
    for name, node in (("recall", recall), ("answer", answer), ("remember", remember)):
        graph.add_node(name, node)
    graph.add_edge(START, "recall")
    graph.add_edge("recall", "answer")
    graph.add_edge("answer", "remember")
    graph.add_edge("remember", END)
    return graph.compile()


def models() -> tuple[BaseChatModel, Any]:
    """Return the model that answers, and the one that reads for the memory."""
    key, address = os.environ.get("OPENAI_API_KEY"), os.environ.get("OPENAI_BASE_URL")
    if key or address:
        from langchain_openai import ChatOpenAI

        # A local endpoint seldom wants a key; LangChain always does.
        name = os.environ.get("OPENAI_MODEL") or "gpt-4.1-mini"
        chat = ChatOpenAI(model=name, base_url=address or None, api_key=SecretStr(key or "none"))
        return chat, chat
    print("No endpoint is set: scripted replies stand in for the model.")
    return GenericFakeChatModel(messages=iter([AIMessage(text) for text in ANSWERS])), FakeLLM(SCRIPT)


async def main() -> None:
    """Hold both conversations."""
    chat, reader = models()
    async with LocalEmbedding() as embedding:
        config = GraphConfig(uri="langgraph_memory.db", embed_dim=embedding.dimension, embedding_model=embedding)
        strategy = AddMemStrategy(chinese_entity=False)
        async with GraphMemory(config, reader, extraction_strategy=strategy, language="en") as memory:
            graph = agent(memory, chat)
            for day, text in CONVERSATIONS.items():
                state = await graph.ainvoke({"messages": [HumanMessage(text)], "known": []})
                print(f"\n{day}> {text}")
                for line in state["known"]:
                    print(f"  (known: {line})")
                print(f"assistant> {state['messages'][-1].content}")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except JiuwenMemoryError as error:
        sys.exit(str(error))
