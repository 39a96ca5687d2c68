"""The gate of promotion: a challenger must beat the champion by more than queries, seeds and earlier tries explain.

Among all challengers ever judged by the same promotion queries, the chance that one is promoted whose recipe is no
better is at most `error_rate`, 2.5 % by default.  The i-th comparison spends 6 / (pi i)^2 of it, so frequent tries must
gain more.  The interval counts queries, by document, and seeds of training.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from noisyir.base.errors import ConfigError, suggested
from noisyir.evaluation.settings import PromoteParams
from noisyir.evaluation.significance import Difference, guarded_interval


@dataclass(frozen=True)
class VersionMetrics:
    """A registered version, and its recipe's measurements.

    Attributes:
        command: What repeats its training, without the seed.
        values: One measure's values by seed and query id; empty if it was not measured.
        groups: The document of each query, if several queries share one.
        floors: The measure's means of systems that every model should beat.
    """

    version: str
    command: str
    eval_digest: str | None
    recipe: str | None
    values: Mapping[str, Mapping[str, float]]
    groups: Mapping[str, str] = field(default_factory=dict)
    floors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Numbers:
    """The gate's numbers in the measure's own unit, over the seeds that both recipes have.

    Attributes:
        gain: Challenger minus champion, between `low` and `high`; None without a champion.
        spread: Standard deviation of the gains over seeds; None with one seed.
        p_value: Two-sided.
        look: Number of this comparison among those by the same queries, from 1.
        error_rate: The part of the error rate that it spends.
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
    look: int | None = None
    error_rate: float | None = None


@dataclass(frozen=True)
class Ruling:
    """Whether the challenger becomes champion, and every condition that failed, or every caveat."""

    promoted: bool
    reasons: tuple[str, ...]
    numbers: Numbers | None


def rule(
    challenger: VersionMetrics,
    champion: VersionMetrics | None,
    params: PromoteParams,
    *,
    look: int = 1,
    forced: bool = False,
) -> Ruling:
    """Apply the gate: enough seeds, gain > min_gain, its interval at this look's error rate above 0, floors passed.

    A first champion only needs measurements and to pass the floors; `forced` turns a floor into a warning.
    """
    if not challenger.values:
        return Ruling(False, (_not_measured(challenger, params),), None)
    below, unknown = _floors(challenger, "" if forced else " (--force promotes it nevertheless)")
    if champion is None:
        values = _stacked(challenger, sorted(challenger.values))
        numbers = Numbers(len(values), float(values.mean()), None, None, None, None, None, len(challenger.values))
        failed = () if forced else below
        return Ruling(not failed, failed or ("there was no champion to compare with", *below, *unknown), numbers)
    if reason := _incomparable(challenger, champion, params):
        return Ruling(False, (reason,), None)
    numbers = compared(challenger, champion, params, look)
    failed = (*_failed(numbers, params), *(() if forced else below))
    return Ruling(not failed, failed or (*_caveats(numbers), *below, *unknown), numbers)


def compared(challenger: VersionMetrics, champion: VersionMetrics, params: PromoteParams, look: int) -> Numbers:
    """The numbers over the seeds that both have."""
    seeds = shared_seeds(challenger, champion)
    values, before = _stacked(challenger, seeds), _stacked(champion, seeds)
    names = [challenger.groups.get(query_id, query_id) for query_id in _query_ids(challenger)]
    groups = np.unique(names, return_inverse=True)[1]
    spent = spending(params.error_rate, look)
    found: Difference = guarded_interval(values - before, spent, groups)
    spread = float((values - before).mean(axis=0).std(ddof=1)) if len(seeds) > 1 else None
    means = float(values.mean()), float(before.mean())
    ends = found.mean, found.low, found.high
    return Numbers(len(values), *means, *ends, spread, len(seeds), found.p_value, look, spent)


def spending(error_rate: float, look: int) -> float:
    """The part of the error rate that a comparison spends, by its number from 1: sum over i of 6 / (pi i)^2 = 1.

    Source: Lan and DeMets, Biometrika 1983; Foster and Stine, JRSS B 2008 (the idea).
    """
    return error_rate * 6 / (math.pi * look) ** 2


def shared_seeds(challenger: VersionMetrics, champion: VersionMetrics) -> list[str]:
    """The seeds that both recipes were measured with."""
    return sorted(set(challenger.values) & set(champion.values))


def chosen_measure(names: Sequence[str], wanted: str | None, preferred: str) -> str:
    """The measure to promote by: `wanted`, else the first that begins with `preferred`, else the first.

    Raises:
        ConfigError: If `wanted` was not measured.
    """
    if wanted is None:
        return next((name for name in names if name.startswith(preferred)), names[0])
    if wanted not in names:
        raise ConfigError("evaluation.measure_not_measured", wanted=wanted, others=suggested(wanted, names))
    return wanted


def _query_ids(one: VersionMetrics) -> list[str]:
    return sorted(next(iter(one.values.values())))


def _stacked(one: VersionMetrics, seeds: Sequence[str]) -> np.ndarray:
    """The values by (query, seed), in the order of query ids."""
    query_ids = _query_ids(one)
    return np.array([[one.values[seed][query_id] for seed in seeds] for query_id in query_ids], float)


def _not_measured(one: VersionMetrics, params: PromoteParams) -> str:
    cure = (
        "data.promotion_share=0.5 (half of the dev queries become the gate's own), or give queries of the data the "
        "split promotion"
        if params.split == "promotion"
        else "'score.splits=[dev,test]'"
    )
    return f"v{one.version} has no values of this measure on split {params.split}: {one.command} {cure}"


def _incomparable(challenger: VersionMetrics, champion: VersionMetrics, params: PromoteParams) -> str | None:
    mend = (
        "run the champion's experiment with the challenger's data and score settings: the same bytes keep their "
        "version and get the new measures"
    )
    both = f"v{challenger.version} and the champion v{champion.version}"
    if not champion.values:
        return f"{_not_measured(champion, params)}; it is the champion"
    if challenger.eval_digest != champion.eval_digest:
        digests = " and ".join((one.eval_digest or "unknown")[:12] for one in (challenger, champion))
        return f"{both} were measured by different data ({digests}): {mend}"
    if challenger.recipe is not None and challenger.recipe == champion.recipe:
        return f"{both} have one recipe and differ by their seed alone, which is chance"
    if _query_ids(challenger) != _query_ids(champion):
        shared = set(_query_ids(challenger)) & set(_query_ids(champion))
        counts = f"{len(_query_ids(challenger))} and {len(_query_ids(champion))}"
        return f"{both} were measured on {counts} queries, and share {len(shared)}: {mend}"
    enough = len(shared_seeds(challenger, champion)) >= params.min_seeds
    return None if enough else _too_few_seeds(challenger, champion, params)


def _too_few_seeds(challenger: VersionMetrics, champion: VersionMetrics, params: PromoteParams) -> str:
    known = len(shared_seeds(challenger, champion))
    theirs = " and ".join(f"v{one.version} with {', '.join(sorted(one.values))}" for one in (challenger, champion))
    runs = " and ".join(f"{one.command} seed=N" for one in (challenger, champion))
    return (
        f"min_seeds={params.min_seeds}, and both recipes have {known} in common ({theirs}): "
        f"run both experiments with the same seeds, as {runs}"
    )


def _floors(challenger: VersionMetrics, cure: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sentences on floors that the challenger does not pass, and on floors that were not measured."""
    mean = float(_stacked(challenger, sorted(challenger.values)).mean())
    below = tuple(
        f"it is no better than {name}: {mean:.4f} and {floor:.4f}{cure}"
        for name, floor in challenger.floors.items()
        if not math.isnan(floor) and not mean > floor
    )
    unknown = tuple(
        f"{name} was not measured with it" for name, floor in challenger.floors.items() if math.isnan(floor)
    )
    return below, unknown


def _failed(found: Numbers, params: PromoteParams) -> tuple[str, ...]:
    """Sentences on conditions that do not hold; NaN meets none."""
    assert found.gain is not None and found.low is not None and found.error_rate is not None
    reasons = []
    if not found.gain > params.min_gain:
        reasons.append(f"the gain {found.gain:+.4f} is not above min_gain={params.min_gain:g}")
    if not found.low > 0:
        interval = f"[{found.low:+.4f}, {found.high:+.4f}]"
        over, how = "queries alone", "one seed: the error rate is not kept"
        if found.seeds > 1:
            over = f"queries and {found.seeds} seeds"
            how = f"comparison {found.look} by these queries, at an error rate of {found.error_rate:.3g}"
        reasons.append(f"the gain may be chance: its interval over {over}, {interval}, is not above zero ({how})")
    return tuple(reasons)


def _caveats(found: Numbers) -> tuple[str, ...]:
    """Sentences on the weak points of a promotion."""
    if found.seeds > 1:
        return ()
    return ("one seed: how much the gain varies with the seed of training is unknown, and the error rate is not kept",)
