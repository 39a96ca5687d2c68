"""Verdicts of people in an audit: each decides about its own pair, and a random sample recalibrates the machine."""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from noisyir.audits.columns import FLAGGED
from noisyir.base.artifact import BY_PAIR
from noisyir.base.errors import ConfigError, DataError
from noisyir.base.pages.cells import percent
from noisyir.detection.calibration.fit import guaranteed, judge_all
from noisyir.detection.calibration.logistic import FEWEST, JudgedPairs
from noisyir.detection.calibration.sample import rate_of_sample, recalibrate
from noisyir.detection.judgements import HumanJudgement, Judgements, drawn_at_random, rows_of
from noisyir.detection.rate import Interval, pairs_to_judge
from noisyir.engine.tables import with_values

Array = np.ndarray
Features: TypeAlias = Float[np.ndarray, "pair feature"]

MOST_SUSPECT_FIRST = [("suspicion", "descending"), *BY_PAIR]
_WRONGLY_RELABELLED, _SURELY_RELABELLED = 0.1, 0.95  # largest share of unseen pairs, and the confidence
_LEAST_CHANCE = np.finfo(np.float32).tiny
_LARGEST_CHANCE = np.nextafter(np.float32(1), np.float32(0))

_OWN = "{:,} of the verdicts carry no weight, so they were not drawn at random: they count for their own pairs alone."
_UNKNOWN = (
    "The noise rate stays unknown; 50 pairs drawn at random and judged would tell it (--sample 50 or --judge). "
    "--refit would judge all pairs again by these verdicts, which is biased by how the pairs were chosen."
)
_SELECTED = (
    "All pairs were judged again, also by {:,} verdicts on pairs that were not drawn at random. The most suspicious "
    "pairs are the hardest cases, so the border may lie far off. Compare the number flagged before and now."
)
_FEW = "{} judgements of a random sample tell the rate roughly and set no border: judge at least {}."


@dataclass(frozen=True)
class ByHand:
    """Effects of judgements by hand on an audit.

    Attributes:
        judged: Number of pairs judged wrong or clean.
        unclear: Number of pairs that the judges left open, which do not count.
        agreed: Share of the judged pairs on which the machine had agreed.
        sampled: Number of judged pairs that were drawn at random.
        interval: (rate, low, high) of wrong pairs by the sample, at `confidence`; None without a sample.
        threshold: The highest score of a clean pair, if the judgements set it.
        recomputed: Whether the judgements gave all other pairs their chances.
        notes: Caveats, in sentences.
    """

    judged: int
    unclear: int
    agreed: float
    sampled: int
    interval: tuple[float, float, float] | None
    confidence: float
    threshold: float | None
    recomputed: bool
    flagged: int
    flagged_before: int
    notes: tuple[str, ...]

    def summary(self) -> str:
        """The effects, for a terminal."""
        unclear = f", {self.unclear:,} unclear" if self.unclear else ""
        same = f"; the machine had said the same of {percent(self.agreed)}"
        agreed = same if self.judged and self.flagged_before else ""
        lines = [f"judged      {self.judged:,} pairs{unclear}{agreed}"]
        if self.interval is not None:
            drawn = f"{self.sampled:,} of them were drawn at random"
            lines.append(
                f"noise rate  {Interval(*self.interval)} at {percent(self.confidence)} by the judgements: {drawn}"
            )
        if self.threshold is not None:
            lines.append(f"threshold   a pair is called wrong when its score is above {self.threshold:.3g}")
        lines.append(f"flagged     {self.flagged_before:,} pairs before, {self.flagged:,} now")
        return "\n".join([*lines, *self.notes])


def judged_by_hand(
    pairs: pa.Table,
    judgements: Judgements,
    *,
    threshold: float,
    confidence: float,
    refit: bool = False,
    features: Features | None = None,
) -> tuple[pa.Table, ByHand]:
    """Apply people's verdicts to their pairs, and a random sample's lesson to all others.

    Judged pairs get their verdict, p_clean 0 or 1 and, if a judge named it, the replacement.  All others keep their
    values, unless at least FEWEST judged pairs were drawn at random, or `refit` asks for a border by all verdicts.

    Args:
        pairs: The machine's query_id, doc_id, score, verdict (`suspect` or null), p_clean, replacement, by_hand and
            rests_on.
        threshold: Least p_clean of a clean pair.
        refit: Set the border by all verdicts, random or not.
        features: Features of each pair, from which a model learns in place of the border alone.

    Returns:
        The pairs with the columns of `as_the_machine_says`, and the effects.
    """
    place = rows_of(judgements, pairs)
    by_row = {place[pair]: judged for pair, judged in judgements.items()}
    decided = JudgedPairs.of(by_row)
    before = pc.is_valid(pairs["verdict"]).to_numpy()
    found = _recalibrated(pairs, decided, threshold, confidence, refit, features)
    pairs = as_the_machine_says(found.pairs)
    if found.by_judgements:
        pairs = with_values(pairs, relabel=pa.array(_may_be_relabelled(pairs, by_row)))
    pairs = _with_hands(pairs, by_row)
    return pairs, ByHand(
        judged=len(decided.rows),
        unclear=len(judgements) - len(decided.rows),
        agreed=float((before[decided.rows] == decided.is_wrong).mean()) if len(decided.rows) else 0.0,
        sampled=drawn_at_random(judgements),
        interval=found.interval or _rate(pairs, decided.at_random, confidence),
        confidence=confidence,
        threshold=found.border,
        recomputed=found.by_judgements,
        flagged=int(pc.sum(pc.is_in(pairs["verdict"], value_set=pa.array(FLAGGED))).as_py() or 0),
        flagged_before=int(before.sum()),
        notes=tuple(found.notes),
    )


def as_the_machine_says(pairs: pa.Table) -> pa.Table:
    """The pairs with six columns more, as if no one had judged them.

    These are judged (people's verdict or null), accepted (whether a person named the replacement), relabel (whether it
    may take the document's place), machine_verdict, machine_p_clean and machine_replacement.
    """
    columns = {
        "judged": pa.nulls(pairs.num_rows, pa.string()),
        "accepted": pa.repeat(False, pairs.num_rows),
        "relabel": pa.repeat(False, pairs.num_rows),
        "machine_verdict": pairs["verdict"],
        "machine_p_clean": pairs["p_clean"],
        "machine_replacement": pairs["replacement"],
    }
    return with_values(pairs, **columns)


def with_suspicion(pairs: pa.Table) -> pa.Table:
    """The pairs with `suspicion`: the share of the others that are less suspect, ties half.

    Pairs judged wrong come first and pairs judged clean last; between them the known chance decides, then the score.
    """
    by_hand = pairs["by_hand"].to_numpy(zero_copy_only=False)
    chance = pc.fill_null(pairs["p_clean"], 0.5).to_numpy().astype(np.float64)
    chance = np.where(by_hand, np.where(chance > 0.5, 2.0, -1.0), chance)  # by hand it is 0 or 1
    ordered = np.stack([-chance, pairs["score"].to_numpy().astype(np.float64)], axis=1)
    _, level, size = np.unique(ordered, axis=0, return_inverse=True, return_counts=True)
    below = (np.cumsum(size) - size + (size - 1) / 2)[level.ravel()]
    return pairs.append_column("suspicion", pa.array((below / max(1, len(below) - 1)).astype(np.float32)))


def how_many(rate: float, error: float, confidence: float, pairs: int) -> str:
    """The number of pairs to judge by hand for the noise rate, in words.

    Raises:
        ConfigError: If the confidence is impossible.
    """
    if not 0 < confidence < 1:
        raise ConfigError("audits.confidence_out_of_range", confidence=confidence)
    count = pairs_to_judge(rate, error, confidence, pairs)
    number = f"all {pairs:,} pairs" if count >= pairs else f"{count:,} pairs"
    return f"To know the rate within ± {100 * error:g} points at {100 * confidence:g} %: judge {number}"


def _rate(pairs: pa.Table, sample: JudgedPairs, confidence: float) -> tuple[float, float, float] | None:
    scores = pairs["score"].to_numpy().astype(np.float64)
    return rate_of_sample(scores, sample, confidence) if len(sample.rows) else None


class _Recalibration(NamedTuple):
    """The pairs after recalibration by judgements.

    Attributes:
        border: The score that parts clean from wrong, if one does.
        by_judgements: Whether judgements changed other pairs than their own.
        interval: The rate with its interval, if a model helped to estimate it.
    """

    pairs: pa.Table
    notes: list[str]
    border: float | None = None
    by_judgements: bool = False
    interval: tuple[float, float, float] | None = None


def _recalibrated(
    pairs: pa.Table, decided: JudgedPairs, threshold: float, confidence: float, refit: bool, features: Features | None
) -> _Recalibration:
    """Recalibrate the chances and verdicts of all pairs, if there are enough judgements."""
    sample, scores = decided.at_random, pairs["score"].to_numpy().astype(np.float64)
    chosen = len(decided.rows) - len(sample.rows)
    if refit:
        found = recalibrate(scores, decided.rows, decided.is_wrong, _probability(threshold), confidence)
        notes = [_SELECTED.format(chosen)] if chosen else []
        return _Recalibration(_with_chances(pairs, found.p_wrong(scores), threshold), notes, found.threshold, True)
    notes = []
    if chosen:
        notes.append(_OWN.format(chosen) if len(sample.rows) else f"{_OWN.format(chosen)} {_UNKNOWN}")
    least = min(FEWEST, pairs.num_rows)
    if 0 < len(sample.rows) < least:
        notes.append(_FEW.format(len(sample.rows), least))
    if len(sample.rows) < least:
        return _Recalibration(pairs, notes)
    if features is not None and sample.is_wrong.any() and not sample.is_wrong.all():
        return _taught(pairs, sample, _probability(threshold), confidence, features, notes)
    try:
        weighted = sample.is_wrong, _probability(threshold), confidence, sample.weights
        found = recalibrate(scores, sample.rows, *weighted)
    except DataError as error:
        return _Recalibration(pairs, [*notes, f"The border stays as it was: {error}."])
    return _Recalibration(_with_chances(pairs, found.p_wrong(scores), threshold), notes, found.threshold, True)


def _taught(
    pairs: pa.Table, drawn: JudgedPairs, threshold: float, confidence: float, features: Features, notes: list[str]
) -> _Recalibration:
    """Recalibrate by a model that learns from the judgements."""
    scores = pairs["score"].to_numpy().astype(np.float64)
    _, queries = np.unique(pairs["query_id"].to_numpy(zero_copy_only=False), return_inverse=True)  # as a session does
    found = judge_all(scores, features, queries, drawn, confidence=confidence)
    interval = found.rate and found.rate[:3]
    told = [*notes, found.lesson.advice()]
    return _Recalibration(_with_chances(pairs, found.lesson.p_wrong, threshold), told, None, True, interval)


def _probability(threshold: float) -> float:
    if not 0 < threshold < 1:
        raise ConfigError("audits.threshold_no_probability", threshold=threshold)
    return threshold


def _may_be_relabelled(pairs: pa.Table, by_row: dict[int, HumanJudgement]) -> Array:
    """Mark the least likely pairs; at most a tenth of the marks would give a wrong document or take a right one.

    The random pairs among them set the bound: a replacement is right if a person named the same.  A model that has
    not seen a query's verdicts places its pairs.
    """
    given = pairs["replacement"].to_pylist()
    rows = np.flatnonzero(pc.and_(pc.equal(pairs["verdict"], "wrong"), pc.is_valid(pairs["replacement"])).to_numpy())
    said = [(place, by_row[row], given[row]) for place, row in enumerate(rows.tolist()) if row in by_row]
    drawn = [(place, judged, new) for place, judged, new in said if judged.tells_of_others]
    chance = pairs["p_clean"].to_numpy().astype(np.float64)[rows]
    judged = JudgedPairs(
        np.array([place for place, _, _ in drawn], np.int64),
        np.array([judged.verdict == "clean" or judged.replacement != new for _, judged, new in drawn], bool),
        np.array([judged.weight for _, judged, _ in drawn], np.float64),
    )
    bounds = guaranteed(chance, judged, _SURELY_RELABELLED)
    relabel = np.zeros(pairs.num_rows, bool)
    if bounds and (known := bounds.most(_WRONGLY_RELABELLED)):
        relabel[rows[np.argsort(chance, kind="stable")[: known[0]]]] = True
    return relabel


def _with_chances(pairs: pa.Table, p_wrong: Array, threshold: float) -> pa.Table:
    p_clean = np.clip((1 - p_wrong).astype(np.float32), _LEAST_CHANCE, _LARGEST_CHANCE)
    verdict = pc.if_else(pa.array(p_clean < threshold), "wrong", "clean")
    rests_on = pa.repeat("judgements", pairs.num_rows)
    return with_values(pairs, p_clean=pa.array(p_clean), verdict=verdict, rests_on=rests_on)


def _with_hands(pairs: pa.Table, by_row: dict[int, HumanJudgement]) -> pa.Table:
    """The pairs with people's verdicts and replacements in place of the machine's."""
    names = ("verdict", "p_clean", "replacement", "by_hand", "judged", "accepted", "rests_on", "relabel")
    rows = list(by_row)
    columns = tuple(pairs[name].take(pa.array(rows, pa.int64())).to_pylist() for name in names)
    verdict, p_clean, replacement, by_hand, said, accepted, rests_on, relabel = columns
    for row, judged in enumerate(by_row.values()):
        said[row] = judged.verdict
        if judged.verdict != "unclear":
            verdict[row], p_clean[row], by_hand[row] = judged.verdict, float(judged.verdict == "clean"), True
            rests_on[row], relabel[row] = "hand", relabel[row] and judged.verdict == "wrong"
        if judged.replacement is not None:
            replacement[row], accepted[row], relabel[row] = judged.replacement, True, True
    place = np.arange(pairs.num_rows)
    place[rows] = pairs.num_rows + np.arange(len(rows))
    new = {
        name: pa.chunked_array([*pairs[name].chunks, pa.array(values, pairs[name].type)]).take(pa.array(place))
        for name, values in zip(names, columns, strict=True)
    }
    return with_values(pairs, **new)
