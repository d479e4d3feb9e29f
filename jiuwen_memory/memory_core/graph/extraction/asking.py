"""Asking the language model: a question, its retries, its one repeat, and the record of it all. Calls the model."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from jiuwen_memory.errors import LLMAnswerError, LLMBudgetError, LLMCallError, words_of
from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.model_spans import model_span, tell_content, tell_tokens
from jiuwen_memory.foundation.retry import outcome_of, retrying
from jiuwen_memory.foundation.text import clean_text, estimate_tokens
from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.base import AnswerForm
from jiuwen_memory.memory_core.graph.extraction.prompts import PromptLibrary
from jiuwen_memory.memory_core.graph.extraction.reply import Reply, UnusableReplyError, parse_reply
from jiuwen_memory.memory_core.graph.extraction.usage import QuestionUsage, Usage

if TYPE_CHECKING:
    from jiuwen_memory.foundation.llm.model import ChatModel

T = TypeVar("T")
Messages = list[dict[str, str]]
logger = logging.getLogger("jiuwen_memory")

# Steps of the event loop that calls started beside each other may lie apart.
_SIBLING_STEPS = 3


class Ledger:
    """What one add asked of the model, and what it has to tell the caller."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self._questions: dict[str, QuestionUsage] = {}
        self._rounds = 0
        self._reasked = 0
        self._in_flight = 0

    @property
    def usage(self) -> Usage:
        """The calls and tokens so far."""
        questions = dict(self._questions)
        return Usage(
            calls=sum(each.calls for each in questions.values()),
            rounds=self._rounds,
            input_tokens=sum(each.input_tokens for each in questions.values()),
            output_tokens=sum(each.output_tokens for each in questions.values()),
            reasked=self._reasked,
            questions=questions,
        )

    def warn(self, text: str) -> None:
        """Note something that the caller should know; it may quote the text, so the log has it for debugging only."""
        self.warnings.append(text)
        logger.debug("%s", text)

    @contextmanager
    def asking(self, question: str, *, again: bool = False) -> Iterator[None]:
        """Count a call; it begins a round when nothing else is being asked. Repeats are counted apart."""
        if again:
            self._reasked += 1
        else:
            self._rounds += self._in_flight == 0
            self._count(question, QuestionUsage(calls=1))
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    def count_repeat(self) -> None:
        """Count a question that is put a second time."""
        self._reasked += 1

    def count_tokens(self, question: str, *, input_tokens: int, output_tokens: int) -> None:
        """Add the tokens of one reply."""
        self._count(question, QuestionUsage(input_tokens=input_tokens, output_tokens=output_tokens))

    def _count(self, question: str, more: QuestionUsage) -> None:
        self._questions[question] = self._questions.get(question, QuestionUsage()) + more


@dataclass
class _Tries:
    left: int


class Budget:
    """How many requests and tokens an add may still spend; shared by all of its parts.

    Requests are kept back for the `essential` questions of this part and the following ones, those that an add is made
    of, and for each of them as many tokens as the largest one took so far, or twice those of the question that would
    come before it.
    """

    def __init__(
        self,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        *,
        parts: int = 1,
        essential: frozenset[str] = frozenset(),
    ) -> None:
        self._essential = essential
        self._calls_left = max_calls
        self._tokens_left = max_tokens
        self._parts_to_come = parts
        self._awaited: set[str] = set()
        self._largest = 0
        self.begin_part()

    def begin_part(self) -> None:
        """Note that the next part of the input is worked on now."""
        self._parts_to_come -= 1
        self._awaited = set(self._essential)

    def spend_call(self, question: str, *, tokens: int) -> None:
        """Count a request of about so many tokens, or refuse it.

        Raises:
            LLMBudgetError: nothing is left for it.
        """
        self._awaited.discard(question)
        if not self._allows(question, tokens):
            raise LLMBudgetError(
                question,
                f"The budget of this add leaves nothing for the question '{question}'; "
                "raise AddMemStrategy.max_llm_calls or max_tokens.",
            )
        if self._calls_left is not None:
            self._calls_left -= 1
        if question in self._essential:
            self._largest = max(self._largest, tokens)
        self.spend_tokens(tokens)

    def spend_tokens(self, tokens: int) -> None:
        """Count tokens that were used."""
        if self._tokens_left is not None:
            self._tokens_left -= tokens

    def _allows(self, question: str, tokens: int) -> bool:
        to_come = len(self._awaited) + len(self._essential) * max(0, self._parts_to_come)
        kept = 0 if question in self._essential else to_come
        if self._calls_left is not None and self._calls_left <= kept:
            return False
        return self._tokens_left is None or self._tokens_left >= tokens + kept * max(self._largest, 2 * tokens)


class Asker:
    """Puts questions to a language model; made for one add.

    Args:
        tries: requests per question in all, repeats of an unusable answer included.
        max_concurrent: requests at a time.
        structured_output: send the JSON schema as `response_format`; otherwise its readable form is in the prompt.
        extra_kwargs: further arguments of every request.
        debug: log each prompt's name, input and output.
        base_delay: the first pause before a retry, in seconds.
        budget: what the add may spend.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        prompts: PromptLibrary,
        ledger: Ledger,
        tries: int,
        max_concurrent: int,
        structured_output: bool,
        extra_kwargs: Mapping[str, object],
        debug: bool,
        base_delay: float = 0.5,
        budget: Budget | None = None,
    ) -> None:
        self.model = model
        self.prompts = prompts
        self.ledger = ledger
        self.tries = max(1, tries)
        self.structured_output = structured_output
        self.extra_kwargs = dict(extra_kwargs)
        self.debug = debug
        self.base_delay = base_delay
        self.budget = budget or Budget()
        self._places = asyncio.Semaphore(max(1, max_concurrent))

    async def ask(
        self,
        question: str,
        form: AnswerForm,
        *,
        language: Language,
        variables: Mapping[str, object],
        read: Callable[[Reply], T],
        again: bool = False,
    ) -> T:
        """Return what `read` makes of the model's reply.

        When `read` finds nothing usable, the question is put once more, shorter, within the same number of tries.

        Args:
            question: name of the prompt file.
            read: raises UnusableReplyError, and notes in the reply what it leaves out.
            again: this call repeats an earlier one whose answer is in doubt.

        Raises:
            LLMCallError: the service failed for good.
            LLMAnswerError: it answered, but with nothing usable.
        """
        with self.ledger.asking(question, again=again):
            for _ in range(_SIBLING_STEPS):
                # A model that answers without suspending would else end before the calls beside it begin.
                await asyncio.sleep(0)
            tries = _Tries(self.tries)
            text = await self._request(question, form, language, variables=variables, short=False, tries=tries)
            try:
                return self._accept(form, text, read)
            except UnusableReplyError as error:
                if tries.left < 1:
                    raise LLMAnswerError(question, text) from error
            self.ledger.count_repeat()
            try:
                text = await self._request(question, form, language, variables=variables, short=True, tries=tries)
            except LLMBudgetError as error:
                raise LLMAnswerError(question, text) from error
            try:
                return self._accept(form, text, read)
            except UnusableReplyError as error:
                raise LLMAnswerError(question, text) from error

    def _accept(self, form: AnswerForm, text: str, read: Callable[[Reply], T]) -> T:
        reply = parse_reply(text)
        result = read(reply)
        if reply.is_cut:
            self.ledger.warn(f"The reply to {form.name} was cut off; its complete items are kept.")
        for note in reply.dropped:
            self.ledger.warn(f"Dropped from {form.name}: {note}")
        return result

    async def _request(
        self,
        question: str,
        form: AnswerForm,
        language: Language,
        *,
        variables: Mapping[str, object],
        short: bool,
        tries: _Tries,
    ) -> str:
        if not self.prompts.is_loaded(question, language):
            await off_loop(None, self.prompts.load, question, language)
        schema = "" if self.structured_output else form.readable(language)
        messages = self.prompts.render(question, language, **variables, short=short, schema=schema)
        arguments: dict[str, Any] = dict(self.extra_kwargs)
        if self.structured_output:
            arguments["response_format"] = form.response_format(language)

        tokens = sum(estimate_tokens(message["content"]) for message in messages)

        async def request() -> object:
            self.budget.spend_call(question, tokens=tokens)
            tries.left -= 1
            async with self._places:
                return await self._invoke(question, messages, arguments)

        allowed = tries.left
        answer = await outcome_of(
            retrying(request, tries=tries.left, what=f"the question '{question}'", base_delay=self.base_delay)
        )
        if isinstance(answer, LLMBudgetError) and tries.left == allowed:
            raise answer
        if isinstance(answer, Exception):
            raise LLMCallError(
                question,
                f"The question '{question}' to the language model failed: {words_of(answer)}. "
                "Nothing was written; try again later, or check the model's address and key.",
            ) from answer
        return self._record(question, messages, answer)

    async def _invoke(self, question: str, messages: Messages, arguments: Mapping[str, Any]) -> object:
        with model_span("chat", self.model, {"question": question}, asked=arguments.get("model")) as told:
            answer = await self.model.invoke(messages=messages, **arguments)
            if told.is_told:
                tell_tokens(told, _spent_tokens(messages, answer), is_estimate=_reported_tokens(answer) is None)
                tell_content(told, messages, message_text(answer))
        return answer

    def _record(self, question: str, messages: Messages, answer: object) -> str:
        text = message_text(answer)
        spent = _spent_tokens(messages, answer)
        self.ledger.count_tokens(question, input_tokens=spent[0], output_tokens=spent[1])
        self.budget.spend_tokens(spent[1])
        if self.debug:
            logger.info(
                "Prompt %s\nInput: %s\nOutput: %s", question, messages, text, extra={"memory_question": question}
            )
        return text


def message_text(message: object) -> str:
    """Return the text of a reply: of a message object, a dictionary, a list of content parts, or the text itself."""
    if isinstance(message, Mapping):
        content: object = message.get("content", message.get("text"))
    else:
        content = getattr(message, "content", message)
    if isinstance(content, str):
        return clean_text(content)
    if isinstance(content, Sequence):
        return "".join(message_text(part) for part in content if _is_text_part(part))
    return ""


def _is_text_part(part: object) -> bool:
    """Tell the text of a message from its reasoning, images and tool calls."""
    return not isinstance(part, Mapping) or part.get("type", "text") in ("text", "output_text")


def _spent_tokens(messages: Messages, answer: object) -> tuple[int, int]:
    """Return input and output tokens: as reported, or estimated where nothing is."""
    reported = _reported_tokens(answer)
    if reported is not None:
        return reported
    return sum(estimate_tokens(message["content"]) for message in messages), estimate_tokens(message_text(answer))


def _reported_tokens(message: object) -> tuple[int, int] | None:
    for holder in ("usage", "usage_metadata", "response_metadata"):
        found = _tokens_in(_get(message, holder))
        if found is not None:
            return found
    return None


def _tokens_in(usage: object) -> tuple[int, int] | None:
    for names in (("input_tokens", "output_tokens"), ("prompt_tokens", "completion_tokens")):
        spent = [_get(usage, name) for name in names]
        if all(isinstance(number, int) for number in spent) and any(spent):
            return int(str(spent[0])), int(str(spent[1]))
    nested = _get(usage, "token_usage")
    return _tokens_in(nested) if nested is not None else None


def _get(holder: object, name: str) -> object:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
