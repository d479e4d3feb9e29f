"""Says what is wrong with the parts that a memory is put together from, before any is used. Touches nothing."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path

from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.foundation.llm.model import ChatModel
from jiuwen_memory.foundation.locks import UserLocks
from jiuwen_memory.foundation.ports import Reranker
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.memory_core.config.graph import AddMemStrategy


def check_config(value: object) -> None:
    """Refuse what is no `GraphConfig`."""
    if not isinstance(value, GraphConfig):
        raise InvalidInputError(
            f'db_config is {_shown(value)}; give a GraphConfig, such as GraphConfig(uri="memory.db").'
        )


def check_strategy(value: object) -> None:
    """Refuse what is no `AddMemStrategy`."""
    if not isinstance(value, AddMemStrategy):
        raise InvalidInputError(f"extraction_strategy is {_shown(value)}; give an AddMemStrategy, or leave it out.")


def check_model(value: object) -> None:
    """Refuse what cannot be asked as a language model is; None is none."""
    if value is None:
        return
    if isinstance(value, type) or not isinstance(value, ChatModel):
        raise InvalidInputError(
            f"llm_client is {_shown(value)}; give a Model, a LangChain chat model, or any object with "
            "an async method invoke(messages=..., response_format=...)."
        )
    if hasattr(value, "ainvoke") and not inspect.iscoroutinefunction(value.invoke):
        raise InvalidInputError(
            f"llm_client is {_shown(value)}, whose invoke cannot be awaited; give a Model, a chat model, or an object "
            "whose async method invoke(messages=..., response_format=...) calls its ainvoke."
        )


def check_reranker(value: object) -> None:
    """Refuse what cannot rerank; None is none."""
    if value is not None and (isinstance(value, type) or not isinstance(value, Reranker)):
        raise InvalidInputError(f"A reranker needs an async method rerank(query, documents); {_shown(value)} has none.")


def check_locks(value: object) -> None:
    """Refuse what cannot keep writers apart; None is the default."""
    if value is not None and (isinstance(value, type) or not isinstance(value, UserLocks)):
        raise InvalidInputError(
            f"locks is {_shown(value)}; give InProcessLocks(), RedisUserLocks(url), or any object with a method "
            "hold(store, user_id) that returns an async context manager."
        )


def check_mapping(name: str, value: object) -> None:
    """Refuse what is no mapping of keyword arguments; None is none."""
    if value is not None and not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
        raise InvalidInputError(f"{name} is {_shown(value)}; give a dict of keyword arguments, or None.")


def check_listener(value: object) -> None:
    """Refuse what cannot be told how far something is; None is nobody."""
    if value is not None and not callable(value):
        raise InvalidInputError(f"on_progress is {_shown(value)}; give a function or a coroutine function, or None.")


def check_prompts(value: object) -> None:
    """Refuse what is no path."""
    if value is not None and not isinstance(value, str | Path):
        raise InvalidInputError(f"prompts is {_shown(value)}; give the path of a folder, or None.")


def _shown(value: object) -> str:
    """Say what something is without showing what is in it, which may be a key."""
    if value is None:
        return "None"
    return f"the class {value.__name__} itself" if isinstance(value, type) else f"a {type(value).__name__}"
