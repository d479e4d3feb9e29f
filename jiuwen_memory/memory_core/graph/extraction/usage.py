"""What the questions to the model cost; plain values, touching nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class QuestionUsage:
    """Calls and tokens of one kind of question."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: QuestionUsage) -> QuestionUsage:
        return QuestionUsage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls, rounds and tokens of one or more adds.

    `reasked` counts the calls that repeat a question whose answer could not be used or believed; `calls` leaves them
    out, the tokens count them in.
    """

    calls: int = 0
    rounds: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    reasked: int = 0
    questions: Mapping[str, QuestionUsage] = field(default_factory=dict)

    def __add__(self, other: Usage) -> Usage:
        names = [*self.questions, *(name for name in other.questions if name not in self.questions)]
        none = QuestionUsage()
        return Usage(
            calls=self.calls + other.calls,
            rounds=self.rounds + other.rounds,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasked=self.reasked + other.reasked,
            questions={name: self.questions.get(name, none) + other.questions.get(name, none) for name in names},
        )
