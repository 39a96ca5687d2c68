"""`noisyir.NoiseDetector`: verdicts from arbitrary scores of pairs, with the scikit-learn API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from noisyir.base.errors import DataError
from noisyir.base.pages.cells import percent
from noisyir.detection.combine import Scores, combined, robust_z, weights_of
from noisyir.detection.mixture import Components
from noisyir.detection.null import named_null
from noisyir.detection.rate import Interval, rate_range
from noisyir.detection.rate_sentences import NOT_KNOWN, by_each_null
from noisyir.detection.settings import NULLS, Assumed, DetectParams, Null
from noisyir.detection.verdicts import detect, nulls_in

Array: TypeAlias = npt.NDArray[np.float64]
Method = Literal["auto", "null", "gmm", "beta"]

_POOLED = 99  # quantiles that represent made-up scores not assigned to pairs


class NoiseDetector(BaseEstimator):  # type: ignore[misc]
    """Turns scores of pairs, higher meaning more likely wrong, into probabilities of being wrong, without labels.

    Attributes:
        method: `null` uses the scores of made-up pairs, `gmm` and `beta` a mixture of two populations; `auto` is `null`
            if made-up pairs are given, else `gmm`.
        threshold: Minimum probability of being clean of a clean pair.
        min_rate: With made-up pairs, the estimated share of wrong pairs below which none is flagged.
        components: When a mixture is accepted as having two: `dip`, `bic` or `two` (docs/understand/verdicts.md).
        assume: A kind of made-up pairs that wrong ones are assumed to be like, or `best`. Without it, nothing is
            flagged and probabilities are NaN if the scores support no kind. A mixture without made-up pairs is always
            accepted.
        rate_: After `fit`, the knowledge of the share of wrong pairs, which is no number without judgements.
        estimate_: After `fit`, the underlying numbers.
        weights_: After `fit`, the weights of several scores.
        classes_: After `fit`, [0, 1], where 1 is wrong.

    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> scores = np.concatenate([rng.normal(0, 1, 800), rng.normal(5, 1, 200)])     # the last 200 are wrong
    >>> made_up = rng.normal(5, 1, (1000, 10))      # each query with ten documents drawn at random, as scored
    >>> detector = noisyir.NoiseDetector().fit(scores, null=made_up)
    >>> int(detector.predict(scores)[:800].sum()), int(detector.predict(scores)[800:].sum())
    (1, 195)
    >>> detector.predict_proba([[-1.0], [6.0]]).round(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> print(detector.rate_)                       # doctest: +ELLIPSIS
    not known without judgements: ...
      if wrong pairs have random documents: 20 % [13, 23]; the scores agree with that
      ...
    """

    def __init__(
        self,
        method: Method = "auto",
        *,
        threshold: float = 0.5,
        min_rate: float = 0.02,
        components: Components = "dip",
        assume: Assumed = None,
    ) -> None:
        self.method = method
        self.threshold = threshold
        self.min_rate = min_rate
        self.components = components
        self.assume = assume

    def fit(self, X: Any, y: None = None, *, null: Any = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Judge the pairs with these scores.

        Args:
            X: One score per pair, or (pair, detector) for several, which are summed with weights according to how well
                each separates made-up pairs from these.
            y: Ignored.
            null: Scores of made-up pairs. For one detector: (pair, draw), each pair's own query with documents drawn
                from some set; or a flat list, for any queries. For several detectors: (pair, draw, detector). For
                several kinds, a mapping: {"random": ..., "near": ...}.

        Raises:
            ValueError: If an argument does not have such a form.
            DataError: If the scores are invalid.
        """
        scores = validate_data(self, _columns(X), dtype=np.float64)
        nulls = _nulls(null, *scores.shape)
        by_detector = [
            Scores(column, {kind: draws[:, :, number] for kind, draws in nulls.items()})
            for number, column in enumerate(scores.T)
        ]
        several = scores.shape[1] > 1
        self.weights_ = weights_of(by_detector, named_null(self.assume)) if several else np.ones(1)
        self.scores_ = scores
        pairs = combined(by_detector, named_null(self.assume))
        found = detect(pairs, self._settings(bool(nulls)))
        self.estimate_, self.classes_ = found.estimate, np.array([0, 1])
        self.rate_: NoiseRate = assumed_rate(found.estimate if nulls else {}, DetectParams().confidence)
        self.flags_any_ = bool((~found.is_clean).any())
        self.known_scores_, first = np.unique(pairs.observed, return_index=True)
        p_clean = np.full(len(scores), np.nan) if found.p_clean is None else found.p_clean
        self.known_p_clean_ = p_clean[first].astype(np.float64)
        return self

    def predict_proba(self, X: Any) -> Array:  # noqa: N803 - scikit-learn's name
        """(pair, 2): probabilities of being clean and wrong, interpolated for scores between fitted ones."""
        clean = self._p_clean(X)
        return np.column_stack([clean, 1 - clean])

    def predict(self, X: Any) -> npt.NDArray[np.int64]:  # noqa: N803 - scikit-learn's name
        """1 for a pair called wrong, else 0."""
        wrong = self._p_clean(X).astype(np.float32) < np.float32(self.threshold)
        return np.asarray(wrong & self.flags_any_, np.int64)

    def _p_clean(self, X: Any) -> Array:  # noqa: N803
        check_is_fitted(self)
        scores = validate_data(self, _columns(X), dtype=np.float64, reset=False)
        if scores.shape[1] > 1:
            pairs = zip(scores.T, self.scores_.T, strict=True)
            total = np.column_stack([robust_z(column, fitted) for column, fitted in pairs]) @ self.weights_
        else:
            total = scores[:, 0]
        return np.asarray(np.interp(total, self.known_scores_, self.known_p_clean_))

    def _settings(self, has_null: bool) -> DetectParams:
        """Settings for `detect`; without made-up pairs no rate can be estimated, so none is required."""
        method = ("null" if has_null else "gmm") if self.method == "auto" else self.method
        if method == "null" and not has_null:
            raise DataError("detection.method_null_goes_scores")
        least = self.min_rate if has_null else 0.0
        assume = self.assume if has_null else "best"
        said = {"method": method, "threshold": self.threshold, "min_rate": least, "components": self.components}
        return DetectParams.parse({**said, "assume": assume})


def _columns(X: Any) -> Any:  # noqa: N803
    """Turn a flat list of scores into one column; leave everything else for scikit-learn to check."""
    if hasattr(X, "ndim") and X.ndim != 1:
        return X
    values = np.asarray(X) if not hasattr(X, "toarray") else X
    return values.reshape(-1, 1) if values.ndim == 1 else X


def _nulls(null: Any, pairs: int, detectors: int) -> dict[Null, Array]:
    """(pair, draw, detector) of each kind of made-up pair."""
    if null is None:
        return {}
    by_kind = null if isinstance(null, Mapping) else {"random": null}
    if strangers := set(by_kind) - set(NULLS):
        raise DataError("detection.null_no_kind", strangers=min(strangers), nulls=", ".join(NULLS))
    return {kind: _draws(kind, by_kind[kind], pairs, detectors) for kind in NULLS if kind in by_kind}


def _draws(kind: str, values: Any, pairs: int, detectors: int) -> Array:
    draws = np.asarray(values, np.float64)
    if draws.ndim == 1:
        draws = np.quantile(draws, np.linspace(0, 1, _POOLED + 2)[1:-1]) if len(draws) > _POOLED else draws
        draws = np.broadcast_to(draws, (pairs, len(draws)))
    if draws.ndim == 2 and detectors == 1:
        draws = draws[:, :, None]
    if draws.ndim != 3 or draws.shape[::2] != (pairs, detectors) or not draws.shape[1]:
        wanted = f"({pairs}, draws)" if detectors == 1 else f"({pairs}, draws, {detectors})"
        raise DataError("detection.null_shape_must", kind=kind, shape=np.shape(values), wanted=wanted)
    return draws


@dataclass(frozen=True)
class NoiseRate:
    """The share of wrong pairs, as far as it is known.

    Attributes:
        value: Rate as judged by people; None without judgements.
        low: Lower bound of its interval; without judgements, of the range allowed by the kinds of wrong pair in
            `assumed`.
        high: Upper bound, likewise.
        assumed: One line for each kind of wrong pair; the range does not cover wrong pairs of other kinds.
        judged: Number of pairs drawn at random that people judged.
    """

    value: float | None
    low: float
    high: float
    confidence: float
    judged: int
    assumed: tuple[str, ...]

    def __str__(self) -> str:
        """The judged rate with its interval or, if it is not known, the implication of each assumption."""
        if self.value is not None:
            rate = Interval(self.value, self.low, self.high)
            return f"{rate} at {percent(self.confidence)}, by {self.judged} judged"
        return "\n".join([NOT_KNOWN, *(f"  {line}" for line in self.assumed)])


def assumed_rate(estimate: Mapping[str, float], confidence: float) -> NoiseRate:
    """Estimate the rate from made-up pairs, without judgements; any rate is possible if there are none."""
    said = nulls_in(estimate)
    lines = tuple(f"{line.assumed}: {line.rate}" for line in by_each_null(estimate)) if said else ()
    return NoiseRate(None, *rate_range(said), confidence, 0, lines)
