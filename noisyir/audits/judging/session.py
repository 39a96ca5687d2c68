"""A session of judging: the next pair, the answers, and the knowledge from them."""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from threading import Event, RLock, Thread
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from noisyir.audits.judging.journal import Journal, JournalEntry
from noisyir.audits.judging.learning import Knowledge, OrderLearner
from noisyir.audits.judging.pairs_to_judge import PairsToJudge, Shown
from noisyir.audits.keeping import Keeping
from noisyir.base.errors import DataError, NoisyirError
from noisyir.detection.calibration.sample import strata_by_score
from noisyir.detection.judgements import HumanJudgement, Pair, Verdict, cohens_kappa, given_judgements

Array = np.ndarray

BATCH = 25  # answers after which everything is learnt again
_AHEAD = 12  # pairs chosen ahead of their turn
_READ_AHEAD = 100  # random pairs that share one reading of texts
_STRATA = 10
_ROUNDS = 5  # a weight counts the pairs that one represents after these rounds, which take fifty pairs


class JudgingSession:
    """One judge's thread-safe session over a journal, which may hold other judges' answers, too."""

    def __init__(
        self,
        pairs: PairsToJudge,
        journal: Journal,
        judge: str,
        learner: OrderLearner,
        seed: int = 0,
        order: "RandomOrder | None" = None,
    ) -> None:
        """Go on where the journal ends; ask in this order, or in a random one."""
        self.pairs, self.journal, self.judge, self.learner = pairs, journal, judge, learner
        self.known = Knowledge()
        self._lock, self._wanted, self._ended = RLock(), Event(), False
        self._order = order or random_order(pairs.scores, np.random.default_rng(seed))
        self._weight: dict[int, float] = {}  # of the rows that were drawn
        self._drawn = 0  # how far the random order is used up
        self._queue: list[int] = []
        self._learning = True
        self._answered_at_last_look = 0
        self._own: dict[Pair, JournalEntry] = self._resume()
        self._thread = Thread(target=self._learn_on, daemon=True)

    def start(self) -> None:
        """Read the first texts, and begin to learn from the answers so far."""
        self._plan()
        self.pairs.prepare(self._coming())
        self._wanted.set()
        self._thread.start()

    # Questions -----------------------------------------------------------------------------------------------------

    def next_pairs(self, count: int = 1) -> list[Shown]:
        """The next pairs to judge; none when all are judged."""
        with self._lock:
            self._plan()
            rows = self._queue[:count]
        return [self.pairs.shown(row) for row in rows]

    def skip(self, pair: Pair) -> None:
        """Ask about the pair again after the chosen ones."""
        row = self._row(pair)
        with self._lock:
            if pair not in self._own:
                self._forget(row)
                self._plan()
                self._queue.append(row)

    # Answers -------------------------------------------------------------------------------------------------------

    def answer(self, pair: Pair, verdict: Verdict, replacement: str | None = None) -> None:
        """Take an answer and write it to disk; the same answer again changes nothing.

        Raises:
            DataError: If the pair was not audited.
            StoreError: If the disk takes nothing; the pair stays open.
        """
        row = self._row(pair)
        with self._lock:
            weight, at = self._weight.get(row), self.journal.time()
            replacement = replacement if verdict == "wrong" else None
            with DataError.wrapping("audits.answer_refused", ValueError):
                answer = JournalEntry(*pair, verdict, self.judge, weight, replacement, at)
            if not answer.says_as(self._own.get(pair)):
                self.journal.append(answer)
            self._own.pop(pair, None)
            self._own[pair] = answer
            self._forget(row)
            self._plan()
            if abs(len(self._own) - self._answered_at_last_look) >= BATCH:
                self._ask_to_learn()

    def undo(self, expected: Pair | None = None) -> Shown | None:
        """Take the judge's last answer back and ask about its pair next; None if there is none.

        If another pair than `expected` was answered last, nothing is taken back.
        """
        with self._lock:
            last = next(reversed(self._own.values()), None)
            if last is None or (expected is not None and last.pair != expected):
                return None
            self.journal.append(replace(last, verdict=None, replacement=None, at=self.journal.time()))
            del self._own[last.pair]
            row = self._row(last.pair)
            self._forget(row)
            self._queue.insert(0, row)
        return self.pairs.shown(row)

    def finish(self) -> None:
        """Learn from all answers; the session is over.  A second call does nothing."""
        if self._ended:
            return
        self._ended = True
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join()
        self.known = self._look()

    # Results -------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The state for the page: progress, knowledge, and whether it is about to change."""
        with self._lock:
            last = next(reversed(self._own.values()), None)
            return {
                "at": time.monotonic(),
                "judge": self.judge,
                "judged": len(self._own),
                "pairs": len(self.pairs.ids),
                "batch": BATCH,
                "learning": self._learning,
                "learnt_from": self._answered_at_last_look,
                "last": last and {"query_id": last.query_id, "doc_id": last.doc_id, "verdict": last.verdict},
                "known": self.known.as_json(),
                "agreement": agreement(self.journal.latest()),
            }

    # Choosing ------------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Choose pairs ahead of their turn."""
        while len(self._queue) < _AHEAD and (row := self._draw()) is not None:
            self._queue.append(row)

    def _draw(self) -> int | None:
        """The next pair of the random order; one chosen and answered before counts as drawn from now on."""
        while self._drawn < len(self._order.rows):
            row, weight = (column[self._drawn].item() for column in self._order)
            self._drawn += 1
            if not math.isnan(weight):
                self._weight[row] = weight
            pair = self.pairs.ids[row]
            if (known := self._own.get(pair)) is None:
                if row not in self._queue:
                    return int(row)
            elif known.weight is None and row in self._weight:
                drawn = replace(known, weight=weight, at=self.journal.time())
                self.journal.append(drawn)
                self._own[pair] = drawn
        return None

    def _coming(self) -> list[int]:
        """Rows that will be shown soon."""
        drawn = self._order.rows[self._drawn : self._drawn + _READ_AHEAD].tolist()
        return [*self._queue, *drawn]

    def _resume(self) -> dict[Pair, JournalEntry]:
        said = self.journal.latest()
        if unknown := [pair for own in said.values() for pair in own if pair not in self.pairs.row_of]:
            raise DataError(
                "audits.journal_of_other_pairs", journal=self.journal.path, n_unknown=len(unknown), example=unknown[0]
            )
        self._judged()  # refuses uncountable judgements before the first question
        return dict(said.get(self.judge, {}))

    def _row(self, pair: Pair) -> int:
        if pair not in self.pairs.row_of:
            raise DataError("audits.pair_not_audited", query_id=pair[0], doc_id=pair[1])
        return self.pairs.row_of[pair]

    def _forget(self, row: int) -> None:
        if row in self._queue:
            self._queue.remove(row)

    # Learning ------------------------------------------------------------------------------------------------------

    def _ask_to_learn(self) -> None:
        self._learning = True
        self._answered_at_last_look = len(self._own)
        self._wanted.set()

    def _learn_on(self) -> None:
        while self._wanted.wait() and not self._ended:
            self._wanted.clear()
            try:
                self.known = self._look()
                self.pairs.prepare(self._coming())
            except NoisyirError as error:
                self.known = replace(self.known, advice=f"Nothing was learnt from the last answers: {error}.")
            with self._lock:
                self._learning = self._wanted.is_set()

    def _look(self) -> Knowledge:
        with self._lock:
            judged = self._judged()
            self._answered_at_last_look = len(self._own)
        return self.learner.learn(judged)

    def _judged(self) -> Mapping[int, HumanJudgement]:
        """The verdicts of all judges together, as `noisyir audit --judgements` reads them."""
        if not any(self.journal.latest().values()):
            return {}
        return {self.pairs.row_of[pair]: said for pair, said in given_judgements([str(self.journal.path)]).items()}


class RandomOrder(NamedTuple):
    """Pairs in random order, and the number that each represents, up to a common factor; NaN: not known."""

    rows: Int[Array, " pair"]
    weights: Float[Array, " pair"]


def random_order(scores: Float[Array, " pair"], rng: np.random.Generator) -> RandomOrder:
    """All pairs, in rounds of one random pair from every tenth by score, in random order.

    Wherever a judge stops, the judged pairs of each tenth are a random sample of it.

    Source: Cochran, Sampling Techniques, 1977, chapter 5 (stratified sampling).
    """
    count = len(scores)
    stratum = strata_by_score(scores, min(_STRATA, count))
    shuffled = rng.permutation(count)
    by_stratum = shuffled[np.argsort(stratum[shuffled], kind="stable")]
    sizes = np.bincount(stratum)
    turn = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # the round in which a pair's stratum gives it
    order = np.lexsort((rng.random(count), turn))
    return RandomOrder(by_stratum[order], sizes[stratum[by_stratum[order]]] / _ROUNDS)


def summary(session: JudgingSession, command: str, wrong: float | None = None, *, cleans: bool = True) -> str:
    """The file, what is known now, and the command that uses it.

    command: audits the same pairs by the answers.  wrong: say how many pairs to keep so that at most this share of them
    is wrong.  cleans: whether the pairs may be cleaned by the answers.
    """
    own = session.journal.latest().get(session.judge, {})
    if not own:
        return f"{session.judge} judged nothing."
    known = session.known
    lines = [f"{len(own):,} pairs judged by {session.judge}: {session.journal.path}", *told(known)]
    if wrong is not None:
        lines.append(told_guarantee(Keeping(known.bounds, len(session.pairs.ids)), wrong))
    cleaning = ["To clean the pairs by them, too:", f"  {command} --apply"] if cleans else []
    return "\n".join([*lines, "", "To use the answers:", f"  {command}", *cleaning])


def told(known: Knowledge) -> list[str]:
    """The judgements' message, in lines."""
    lines = []
    if known.rate:
        lines.append(f"wrong pairs    {known.rate} at 95 %, by {known.sampled:,} pairs drawn at random")
    if known.narrower:
        lines.append(f"               {known.narrower}")
    if known.order:
        lines.append(f"order          a wrong pair is above a right one in {known.order} of cases")
    if known.advice:
        lines.append(f"               {known.advice}")
    return lines


def told_guarantee(keeping: Keeping, wrong: float) -> str:
    """How many pairs to keep so that at most the share `wrong` of them is wrong, a line."""
    return f"guarantee      {keeping.told(wrong)}"


def agreement(latest: Mapping[str, Mapping[Pair, JournalEntry]]) -> list[dict[str, Any]]:
    """The names, number of pairs and Cohen's kappa of every two judges with common pairs.

    Args:
        latest: Each judge's last answer on each pair; unclear ones do not count.
    """
    found = []
    for judges in combinations(sorted(latest), 2):
        one, other = (
            {pair: answer.verdict == "wrong" for pair, answer in latest[judge].items() if answer.verdict != "unclear"}
            for judge in judges
        )
        both = [pair for pair in one if pair in other]
        if both:
            kappa = cohens_kappa(np.array([one[pair] for pair in both]), np.array([other[pair] for pair in both]))
            found.append({"judges": judges, "pairs": len(both), "kappa": kappa})
    return found
