"""Judges that are not people, a file each: of given texts each says which pairs are wrong.  None chooses the pairs.

A judge's settings are its fields.  Whatever it answers is a judgement of a model, which is measured against people's.
"""

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

    p_wrong: its own probability that the pair is wrong, which need not be calibrated; None: it gave a word alone.
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
        """How surely it calls the pair wrong: its probability; of a word alone 1, 0, or a half where it is unclear."""
        return {"wrong": 1.0, "clean": 0.0, "unclear": 0.5}[self.verdict] if self.p_wrong is None else self.p_wrong


@dataclass(frozen=True)
class QuestionQueue:
    """Questions to a judge, the first first.

    home: a folder where answers may be kept for the next time.  progress is told how many of how many questions are
    done, and what that took.
    """

    questions: Sequence[Question]
    budget: Budget
    home: Path
    runtime: Runtime
    progress: Callable[[int, int, str], None]


@dataclass
class JudgeUsage:
    """The cost of asking.

    calls: sent, those that failed included; kept: answers of an earlier time that were not asked for again.
    prompt_tokens, completion_tokens: as the judge told; unmetered: calls of which it told none.
    left: questions never sent, for the budget's end or because asking was `stopped`, which says why.
    heard: whether it was reached at all.  in_words: why its words were taken, where a probability was asked for first.
    faults: what came in place of an answer, and how often.
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


class JudgeAnswers(NamedTuple):
    """An answer to each question, None where there is none, and what they took.

    judge: who judged, in the file of judgements: `model:NAME@VERSION`.
    """

    answers: Sequence[Answer | None]
    spent: JudgeUsage
    judge: str


class MachineJudge(Variant):
    """Who is asked."""

    home: ClassVar[str] = __name__

    def check(self, budget: Budget) -> None:
        """ConfigError, DataError or MissingPackageError for what would keep it from answering, before any work."""
        raise NotImplementedError

    def expected_tokens(self, question: Question) -> float:
        """About how many tokens an answer takes, all told."""
        raise NotImplementedError

    def ask(self, asking: QuestionQueue) -> JudgeAnswers:
        """Ask about each pair, within the budget."""
        raise NotImplementedError

    def cost(self, spent: JudgeUsage) -> float | None:
        """The money spent, in the unit of the judge's prices; None where it has none."""
        return None
