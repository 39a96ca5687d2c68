"""The gate of promotion: better than the champion by more than chance, seeds and a threshold explain.

Stated error rate: of two models that are equally good, so that either's value of a query might as well be the other's,
the challenger is promoted with a probability of (1 - confidence) / 2 at most, 2.5 % by default.  The randomisation test
guarantees it at any number of queries; the other conditions can only lower it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from noisyir.errors import ConfigError, did_you_mean
from noisyir.eval.settings import PromoteParams
from noisyir.eval.significance import bootstrap_means, percentile_interval, randomisation_test


@dataclass(frozen=True)
class Measured:
    """A registered version, what it was measured by, and one measure's value by query id; no values: not measured."""

    version: str
    eval_digest: str | None
    values: Mapping[str, float]


@dataclass(frozen=True)
class Numbers:
    """What the gate looked at, in the measure's own unit.

    gain: the mean of the paired differences, challenger minus champion, between `low` and `high`; spread: the standard
    deviation of the means of `seeds` seeds, None where fewer than two are known; p_value: that the gain is chance,
    one-sided.  The champion's and the gain's are None where there was no champion to compare with.
    """

    queries: int
    mean: float
    champion_mean: float | None
    gain: float | None
    low: float | None
    high: float | None
    spread: float | None
    seeds: int
    p_value: float | None = None


@dataclass(frozen=True)
class Ruling:
    """Whether the challenger becomes champion, and why: every condition that failed, or what was not known."""

    promoted: bool
    reasons: tuple[str, ...]
    numbers: Numbers | None


def rule(
    challenger: Measured,
    champion: Measured | None,
    seed_means: Mapping[str, float],
    params: PromoteParams,
    rng: np.random.Generator,
) -> Ruling:
    """Apply the gate: gain > min_gain, low > 0, p within the error rate, and gain > seed spread where that is known.

    seed_means: the measure's mean by seed, of versions that differ from the challenger in nothing but their seed; the
    challenger's own included.  A first champion needs nothing but to have been measured.
    """
    if not challenger.values:
        nothing = f"v{challenger.version} has no values of this measure and split"
        return Ruling(False, (f"{nothing}: run its experiment to the end, with tracking",), None)
    spread = seed_spread(seed_means)
    if champion is None:
        mean = float(np.mean(list(challenger.values.values())))
        numbers = Numbers(len(challenger.values), mean, None, None, None, None, spread, len(seed_means))
        return Ruling(True, ("there was no champion to compare with",), numbers)
    if reason := _incomparable(challenger, champion):
        return Ruling(False, (reason,), None)
    numbers = compared(challenger.values, champion.values, params, rng, spread=spread, seeds=len(seed_means))
    failed = _failed(numbers, params)
    return Ruling(not failed, failed or _caveats(numbers), numbers)


def compared(
    challenger: Mapping[str, float],
    champion: Mapping[str, float],
    params: PromoteParams,
    rng: np.random.Generator,
    *,
    spread: float | None,
    seeds: int,
) -> Numbers:
    """Means, gain, its paired percentile bootstrap interval and p-value over the queries, which both must have."""
    query_ids = sorted(challenger)
    values = np.array([[of[query_id] for query_id in query_ids] for of in (challenger, champion)], float)
    differences = values[0] - values[1]
    drawn = bootstrap_means(differences[:, None], params.resamples, rng)
    low, high = percentile_interval(drawn, params.confidence)[:, 0].tolist()
    mean, champion_mean = values.mean(axis=1).tolist()
    gain = float(differences.mean())
    p_value = randomisation_test(differences, params.resamples, rng)
    return Numbers(len(query_ids), mean, champion_mean, gain, low, high, spread, seeds, p_value)


def seed_spread(means: Mapping[str, float]) -> float | None:
    """The standard deviation (n - 1) of the means by seed; None for fewer than two."""
    return float(np.std(list(means.values()), ddof=1)) if len(means) > 1 else None


def chosen_measure(names: Sequence[str], wanted: str | None, preferred: str) -> str:
    """The measure to promote by: `wanted`, else the first that begins with `preferred`, else the first of `names`.

    ConfigError, with a suggestion, where `wanted` was not measured.
    """
    if wanted is None:
        return next((name for name in names if name.startswith(preferred)), names[0])
    if wanted not in names:
        hint = did_you_mean(wanted, names)
        raise ConfigError(f"measure: {wanted!r} was not measured{hint}; there are {', '.join(names)}")
    return wanted


def _incomparable(challenger: Measured, champion: Measured) -> str | None:
    mend = (
        "run the champion's experiment with the challenger's data and score settings: the same bytes keep their "
        "version and get the new measures"
    )
    both = f"v{challenger.version} and the champion v{champion.version}"
    if not champion.values:
        return f"the champion v{champion.version} has no values of this measure and split: {mend}"
    if challenger.eval_digest != champion.eval_digest:
        digests = " and ".join((one.eval_digest or "unknown")[:12] for one in (challenger, champion))
        return f"{both} were measured by different data ({digests}): {mend}"
    if shared := set(challenger.values) & set(champion.values):
        count = len(shared)
        if count == len(challenger.values) == len(champion.values):
            return None
        return (
            f"v{challenger.version} was measured on {len(challenger.values)} queries and the champion "
            f"v{champion.version} on {len(champion.values)}, of which they share {count}: {mend}"
        )
    return f"{both} share no query: {mend}"


def _failed(found: Numbers, params: PromoteParams) -> tuple[str, ...]:
    """The conditions that do not hold; a NaN holds none."""
    assert found.gain is not None and found.low is not None and found.p_value is not None
    reasons = []
    if not found.gain > params.min_gain:
        reasons.append(f"the gain {found.gain:+.4f} is not above min_gain={params.min_gain:g}")
    if not found.low > 0:
        interval = f"[{found.low:+.4f}, {found.high:+.4f}]"
        reasons.append(f"the {params.confidence:.0%} interval of the gain, {interval}, is not above zero")
    if not found.p_value <= params.error_rate:
        reasons.append(f"the gain may be chance: p {found.p_value:.3g} is above {params.error_rate:.3g}")
    if found.spread is not None and not found.gain > found.spread:
        reasons.append(f"the gain {found.gain:+.4f} is not above the seed spread {found.spread:.4f}")
    if found.seeds < params.min_seeds:
        reasons.append(f"seeds of these settings that are known: {found.seeds}, and min_seeds={params.min_seeds}")
    return tuple(reasons)


def _caveats(found: Numbers) -> tuple[str, ...]:
    """What a promotion rests on less firmly than it should."""
    if found.spread is not None:
        return ()
    return (f"the seed spread is unknown: it takes two seeds of these settings, and {found.seeds} is known",)
