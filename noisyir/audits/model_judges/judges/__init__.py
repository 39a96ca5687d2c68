"""Judges that are models, a file each, with their settings as fields; none chooses the pairs."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from noisyir.audits.model_judges.budget import Budget
from noisyir.base.variants import Variant
from noisyir.engine.runtime import Runtime


class Question(NamedTuple):
    """The texts of a pair."""

    query: str
    document: str


class Answer(NamedTuple):
    """A judge's answer on a pair.

    Attributes:
        p_wrong: The judge's probability that the pair is wrong, perhaps not calibrated; None if it gave a word alone.
    """

    verdict: Literal["wrong", "clean", "unclear"]
    p_wrong: float | None
    reason: str = ""

    @classmethod
    def by_chance(cls, p_wrong: float) -> "Answer":
        """The answer of a judge that gives a probability: wrong above a half."""
        return cls("wrong" if p_wrong > 0.5 else "clean", p_wrong, f"probability of being right {1 - p_wrong:.3f}")

    @property
    def surely_wrong(self) -> float:
        """The probability that the pair is wrong; for a word alone 1, 0, or a half if it is unclear."""
        return {"wrong": 1.0, "clean": 0.0, "unclear": 0.5}[self.verdict] if self.p_wrong is None else self.p_wrong


@dataclass(frozen=True)
class QuestionQueue:
    """Questions to a judge, in order.

    Attributes:
        home: A folder for answers that are kept for the next time.
        progress: Called with the questions done, all questions, and the cost in words.
    """

    questions: Sequence[Question]
    budget: Budget
    home: Path
    runtime: Runtime
    progress: Callable[[int, int, str], None]


@dataclass
class JudgeUsage:
    """The cost of asking.

    Attributes:
        calls: Calls sent, failed ones included.
        kept: Answers of an earlier time.
        unmetered: Calls for which the judge reported no tokens.
        left: Questions never sent.
        stopped: Why asking ended early, if it did.
        heard: Whether the judge was reached.
        in_words: Why words were taken in place of a probability, if they were.
        faults: Faults in place of an answer, with their counts.
    """

    calls: int = 0
    kept: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unmetered: int = 0
    left: int = 0
    stopped: str | None = None
    heard: bool = False
    in_words: str | None = None
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def so_far(self) -> str:
        """Calls and tokens, for the line of progress."""
        return f"{self.calls:,} calls, {self.prompt_tokens + self.completion_tokens:,} tokens"


class JudgeAnswers(NamedTuple):
    """An answer to each question, or None, and their cost; judge: `model:NAME@VERSION`."""

    answers: Sequence[Answer | None]
    spent: JudgeUsage
    judge: str


class MachineJudge(Variant):
    """The judge to ask."""

    home: ClassVar[str] = __name__

    def check(self, budget: Budget) -> None:
        """Check before any work that it can answer.

        Raises:
            ConfigError: If a setting is wrong.
            DataError: If its model cannot be read.
            MissingPackageError: If a package is missing.
        """
        raise NotImplementedError

    def expected_tokens(self, question: Question) -> float:
        """An estimate of the tokens that one answer takes."""
        raise NotImplementedError

    def ask(self, asking: QuestionQueue) -> JudgeAnswers:
        """Ask about each pair, within the budget."""
        raise NotImplementedError
