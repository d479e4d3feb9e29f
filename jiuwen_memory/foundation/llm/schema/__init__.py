"""Settings and messages of language models."""

from jiuwen_memory.foundation.llm.schema.config import ModelClientConfig, ModelRequestConfig
from jiuwen_memory.foundation.llm.schema.message import (
    AssistantMessage,
    BaseMessage,
    SystemMessage,
    TokenUsage,
    ToolMessage,
    UserMessage,
)

__all__ = [
    "AssistantMessage",
    "BaseMessage",
    "ModelClientConfig",
    "ModelRequestConfig",
    "SystemMessage",
    "TokenUsage",
    "ToolMessage",
    "UserMessage",
]
