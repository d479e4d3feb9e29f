"""A language model for tests: it answers each question by its answer model, from a script. Touches nothing outside.

    llm = FakeLLM({
        "EntityExtraction": {"entities": [{"name": "Ada", "type": "Human"}]},
        "EntitySummaries": by_name({"Ada": "A mathematician."}),
    })

Questions without a script get the answer that changes nothing: no entity, no fact, no duplicate, no verdict.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jiuwen_memory.foundation.llm.schema.message import AssistantMessage, TokenUsage
from jiuwen_memory.foundation.text import estimate_tokens, normalise_name
from jiuwen_memory.testing.answers import smallest_answer


@dataclass(frozen=True)
class FakePrompt:
    """One question as the model gets it: the answer model's name, the whole text, and the schema of the answer."""

    question: str
    text: str
    schema: Mapping[str, object]

    def lines(self) -> dict[int, str]:
        """Return the listed items of the prompt (lines such as `[7] text`) by number."""
        lists = re.findall(r"^<(items|list)>\n(.*?)\n</\1>$", self.text, re.DOTALL | re.MULTILINE)
        listed = lists[-1][1] if lists else ""
        return {int(number): text.strip() for number, text in re.findall(r"^\[(\d+)\](.*)$", listed, re.MULTILINE)}

    def numbers(self, label: str) -> list[int]:
        """Return the numbers of listed items that begin with a label, by case and spacing aside."""
        wanted = normalise_name(label)
        return [number for number, text in self.lines().items() if normalise_name(text).startswith(wanted)]

    def number(self, label: str) -> int:
        """Return the number of the first listed item that begins with a label; if none does, a KeyError lists all."""
        found = self.numbers(label)
        if not found:
            raise KeyError(f"{label!r} is not listed in the question {self.question}: {self.lines()}")
        return found[0]


Answer = Mapping[str, object] | Sequence[object] | str | int | float | bool | None | Exception
"""A JSON value is sent as JSON, a string as it is, an exception is raised."""
Reply = Answer | Callable[[FakePrompt], Answer]


@dataclass
class Script:
    """Replies used one call after the other; afterwards the last one goes on, or nothing is answered."""

    replies: Sequence[Reply]
    repeat_last: bool = False


class FakeLLM:
    """A scripted language model that works as `llm_client`.

    Args:
        replies: by name of the answer model (`EntityExtraction`, `TimezonePredictions`, `RelationExtraction`,
            `EntityDuplication`, `EntitySummaries`, `RelationVerdicts`, `RelevantFacts`, `OpenInformation`,
            `EpisodicFacts`, `TemporalFacts`, `GistExtraction`, `GistFacts`): a reply for every call, or a `Script`. A
            function gets the prompt, which finds the numbers of listed items.
        latency: seconds each answer takes.

    `prompts` keeps what was asked, `calls` how often.
    """

    def __init__(self, replies: Mapping[str, Reply | Script] | None = None, *, latency: float = 0.0) -> None:
        self.replies = dict(replies or {})
        self.latency = latency
        self.prompts: list[FakePrompt] = []
        self._used: dict[str, int] = {}

    @property
    def calls(self) -> int:
        """How many questions were asked."""
        return len(self.prompts)

    def asked(self, question: str) -> list[FakePrompt]:
        """Return the prompts of one kind of question."""
        return [prompt for prompt in self.prompts if prompt.question == question]

    async def invoke(
        self,
        *,
        messages: Sequence[Mapping[str, str]],
        response_format: Mapping[str, object] | None = None,
        **kwargs: object,
    ) -> AssistantMessage:
        """Answer one question from the script."""
        prompt = parse_prompt(messages, response_format)
        self.prompts.append(prompt)
        reply = self._reply(prompt)
        if self.latency:
            await asyncio.sleep(self.latency)
        answer = reply(prompt) if callable(reply) else reply
        if isinstance(answer, Exception):
            raise answer
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        usage = TokenUsage(estimate_tokens(prompt.text), estimate_tokens(text))
        return AssistantMessage(content=text, usage=usage, finish_reason="stop")

    def _reply(self, prompt: FakePrompt) -> Reply:
        nothing: Reply = lambda asked: smallest_answer(asked.schema)  # noqa: E731
        script = self.replies.get(prompt.question, nothing)
        if not isinstance(script, Script):
            return script
        used = self._used.get(prompt.question, 0)
        self._used[prompt.question] = used + 1
        if used < len(script.replies):
            return script.replies[used]
        return script.replies[-1] if script.repeat_last and script.replies else nothing


def parse_prompt(messages: Sequence[Mapping[str, str]], response_format: Mapping[str, object] | None) -> FakePrompt:
    """Return a request to a model as a prompt of ours."""
    form = (response_format or {}).get("json_schema")
    schema = form if isinstance(form, Mapping) else {}
    inner = schema.get("schema")
    text = "\n".join(str(message.get("content", "")) for message in messages)
    return FakePrompt(str(schema.get("name", "")), text, inner if isinstance(inner, Mapping) else {})


def by_name(summaries: Mapping[str, str]) -> Callable[[FakePrompt], Answer]:
    """Answer `EntitySummaries` by the entities' names; entities not named keep what they had."""

    def answer(prompt: FakePrompt) -> Answer:
        listed = dict.fromkeys(prompt.lines(), "")
        for name, summary in summaries.items():
            listed.update(dict.fromkeys(prompt.numbers(name), summary))
        return {str(number): summary for number, summary in listed.items()}

    return answer


def same_as(pairs: Mapping[str, Sequence[str]]) -> Callable[[FakePrompt], Answer]:
    """Answer `EntityDuplication`: each new name, and the stored names that are the same thing."""

    def answer(prompt: FakePrompt) -> Answer:
        if not _new_numbers(prompt):
            return _pair_answer(prompt, pairs)
        return {"duplicates": [{"id": new, "same": same} for new, same in _groups(prompt, pairs)]}

    return answer


def verdicts(
    same: Mapping[str, Sequence[str]] | None = None, contradicts: Mapping[str, Sequence[str]] | None = None
) -> Callable[[FakePrompt], Answer]:
    """Answer `RelationVerdicts`: each new fact, and the stored facts it repeats or contradicts."""

    def answer(prompt: FakePrompt) -> Answer:
        repeated = dict(_groups(prompt, same or {}))
        against = dict(_groups(prompt, contradicts or {}))
        return {
            "verdicts": [
                {"id": new, "same": repeated[new], "contradicts": against[new], "links": []} for new in repeated
            ]
        }

    return answer


def _groups(prompt: FakePrompt, pairs: Mapping[str, Sequence[str]]) -> list[tuple[int, list[int]]]:
    """Return each new item's number and those of the candidates named for it; candidates follow their item."""
    lines = prompt.lines()
    news = _new_numbers(prompt)
    groups: list[tuple[int, list[int]]] = []
    for new, following in zip(news, [*news[1:], max(lines, default=0) + 1], strict=True):
        wanted = [
            normalise_name(label)
            for name, labels in pairs.items()
            if normalise_name(lines[new]).startswith(normalise_name(name))
            for label in labels
        ]
        candidates = [number for number in lines if new < number < following]
        same = [
            number for number in candidates if any(normalise_name(lines[number]).startswith(label) for label in wanted)
        ]
        groups.append((new, same))
    return groups


def _pair_answer(prompt: FakePrompt, pairs: Mapping[str, Sequence[str]]) -> Answer:
    """Answer a question about one pair, `[1] old | new`."""
    old, _, new = (normalise_name(part) for part in prompt.lines()[1].partition("|"))
    is_same = any(
        new.startswith(normalise_name(name)) and any(old.startswith(normalise_name(label)) for label in labels)
        for name, labels in pairs.items()
    )
    return {"1": "same" if is_same else "different"}


def _new_numbers(prompt: FakePrompt) -> list[int]:
    properties = prompt.schema.get("properties")
    for listing in properties.values() if isinstance(properties, Mapping) else ():
        items = listing.get("items")
        ids = items["properties"]["id"].get("enum") if isinstance(items, Mapping) else None
        if ids:
            return sorted(int(number) for number in ids)
    return []
