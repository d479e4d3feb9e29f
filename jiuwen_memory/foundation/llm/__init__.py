"""Language models and messages."""

from jiuwen_memory.foundation.llm.model import ChatModel, Model, register_provider
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
    "ChatModel",
    "Model",
    "ModelClientConfig",
    "ModelRequestConfig",
    "SystemMessage",
    "TokenUsage",
    "ToolMessage",
    "UserMessage",
    "register_provider",
]
