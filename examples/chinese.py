"""记住一段中文对话，再用中文和英文提问。Remember a conversation in Chinese, and ask about it in Chinese and in English.

    python examples/chinese.py

With OPENAI_API_KEY or OPENAI_BASE_URL set, that endpoint is the model (OPENAI_MODEL names it); without, replies
written for this conversation stand in for it. The embeddings come from a small encoder in this process that knows both
languages.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import AsyncExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path

from scripted_replies import chinese_model
from showing import sentence

from jiuwen_memory import (
    ENTITY_COLLECTION,
    RELATION_COLLECTION,
    Entity,
    EpisodeType,
    GraphConfig,
    GraphMemory,
    LocalEmbedding,
    Model,
    Relation,
    SearchConfig,
    WeightedRankConfig,
)
from jiuwen_memory.errors import JiuwenMemoryError

USER = "chenyu"
CONVERSATION = [
    {"role": "user", "content": "我上个月开始在青岛的望海书店上班了。2019年到今年三月，我一直住在苏州。"},
    {"role": "assistant", "content": "恭喜！搬家还顺利吗？"},
    {"role": "user", "content": "顺利，我的橘猫小米粒也一起来了。对了，我对花生过敏，推荐餐厅时请留意。"},
]
SAID_AT = datetime(2026, 5, 8, 20, 15, tzinfo=timezone(timedelta(hours=8)))
QUESTIONS = (
    ("陈雨在哪家书店工作？", "Which bookshop does Chen Yu work at?"),
    ("她养了什么宠物？", "What pet does she have?"),
    ("请她吃饭要注意什么？", "Which food must she avoid?"),
)
# Meaning counts for more than common words here: a question in another language shares none with the fact.
BEST = SearchConfig(top_k=1, min_score=0.0, rank_config=WeightedRankConfig(), language="cn")


async def main() -> None:
    """Remember, show, ask."""
    has_endpoint = bool(os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"))
    print(
        "模型：环境变量指定的端点。Model: the endpoint that the environment names."
        if has_endpoint
        else "没有设置端点：模型的回答由脚本代替。No endpoint is set: scripted replies stand in for the model."
    )
    async with AsyncExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory())
        embedding = await opened.enter_async_context(LocalEmbedding())
        model = await opened.enter_async_context(Model()) if has_endpoint else chinese_model()
        config = GraphConfig(uri=str(Path(folder) / "memory.db"), embedding_model=embedding)
        memory = await opened.enter_async_context(GraphMemory(config, model, language="cn"))
        memory.register_search_strategy("best", search_relation=BEST)
        await memory.add_memory(
            EpisodeType.CONVERSATION,
            USER,
            CONVERSATION,
            content_fmt_kwargs={"user": "陈雨", "assistant": "助手"},
            reference_time=SAID_AT,
        )
        await show(memory)
        for chinese, english in QUESTIONS:
            print(f"\n{chinese}\n  {await answer(chinese, memory)}")
            print(f"{english}\n  {await answer(english, memory)}")


async def show(memory: GraphMemory) -> None:
    """Print the entities and the facts."""
    print("\n记住了这些人和事物 Entities:")
    async for each in memory.objects(ENTITY_COLLECTION, USER):
        if isinstance(each, Entity):
            print(f"  {each.name}：{each.content}")
    print("\n记住了这些事实 Facts:")
    async for each in memory.objects(RELATION_COLLECTION, USER):
        if isinstance(each, Relation):
            print(f"  {sentence(each, 'cn')}")


async def answer(question: str, memory: GraphMemory) -> str:
    """Return the fact that answers a question best."""
    found = await memory.search(question, USER, "best", entity=False, episode=False)
    facts = [fact for _, fact in found[RELATION_COLLECTION] if isinstance(fact, Relation)]
    return sentence(facts[0], "cn") if facts else "没有找到 (nothing found)"


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except JiuwenMemoryError as error:
        sys.exit(str(error))
