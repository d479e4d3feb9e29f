"""A scripted language model and short ways to put the extraction questions to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jiuwen_memory.memory_core.config.graph import EpisodeType
from jiuwen_memory.memory_core.graph.extraction.asking import Asker, Ledger
from jiuwen_memory.memory_core.graph.extraction.prompts import PromptLibrary
from jiuwen_memory.memory_core.graph.extraction.values import SourceText

Reply = object
TALK = SourceText(
    content="user: I am Mira Holt and I keep bees at Fern Yard.\nassistant: Lovely, Mira.",
    kind=EpisodeType.CONVERSATION,
    speakers=("user", "assistant"),
)


@dataclass
class Answer:
    """A message as clients return it."""

    content: object
    usage: object = None


@dataclass
class ScriptedModel:
    """Answers in order, or by a function of the messages and the schema; remembers what it was asked."""

    replies: Sequence[Reply] | Callable[[list[dict[str, str]], Mapping[str, Any]], Reply] = ()
    calls: list[dict[str, Any]] = field(default_factory=list)

    async def invoke(
        self,
        *,
        messages: Sequence[dict[str, str]],
        response_format: Mapping[str, object] | None = None,
        **kwargs: object,
    ) -> Any:
        form: dict[str, Any] = dict(response_format or {})
        self.calls.append({"messages": list(messages), "response_format": form, **kwargs})
        if callable(self.replies):
            reply = self.replies(list(messages), form.get("json_schema", {}))
        else:
            reply = self.replies[min(len(self.calls), len(self.replies)) - 1]
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, (str, Answer)):
            return reply if isinstance(reply, Answer) else Answer(reply)
        return Answer(json.dumps(reply, ensure_ascii=False))

    def prompt(self, number: int = 0) -> str:
        """Return all the text of one call."""
        return "\n".join(message["content"] for message in self.calls[number]["messages"])

    def schema(self, number: int = 0) -> dict[str, Any]:
        """Return the schema of one call."""
        schema: dict[str, Any] = self.calls[number]["response_format"]["json_schema"]["schema"]
        return schema


def asker_for(model: Any, *, tries: int = 3, **changes: Any) -> Asker:
    """Return an asker with short pauses."""
    settings: dict[str, Any] = {
        "prompts": PromptLibrary(),
        "ledger": Ledger(),
        "tries": tries,
        "max_concurrent": 4,
        "structured_output": True,
        "extra_kwargs": {},
        "debug": False,
        "base_delay": 0.001,
    }
    return Asker(model, **{**settings, **changes})
