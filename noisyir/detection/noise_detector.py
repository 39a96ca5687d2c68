"""`noisyir.NoiseDetector`: verdicts from anyone's scores of pairs, in scikit-learn's manners."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from noisyir.base.errors import DataError
from noisyir.detection.combine import Scores, combined, robust_z, weights_of
from noisyir.detection.mixture import Components
from noisyir.detection.null import named_null
from noisyir.detection.rate import rate_range
from noisyir.detection.rates import NOT_KNOWN, by_each_null
from noisyir.detection.settings import NULLS, Assumed, DetectParams, Null
from noisyir.detection.verdicts import detect, nulls_in

Array: TypeAlias = npt.NDArray[np.float64]
Method = Literal["auto", "null", "gmm", "beta"]

_POOLED = 99  # of made-up scores that belong to no pair, so many quantiles stand for all


class NoiseDetector(BaseEstimator):  # type: ignore[misc]
    """From scores of pairs, higher being likelier wrong, to chances of being wrong; no label is needed.

    method: `null` goes by the scores of made-up pairs, `gmm` and `beta` by a mixture of two populations; `auto` is
    `null` where made-up pairs are given, else `gmm`.  threshold: least chance to be clean that a clean pair has.
    min_rate: of made-up pairs, the estimated share of wrong pairs below which none is flagged.
    components: when a mixture is believed to have two: `dip`, `bic` or `two` (docs/understand/verdicts.md).
    assume: a kind of made-up pairs that wrong ones are taken to be like, or `best`.  Without it nothing is flagged, and
    chances are NaN, where the scores warrant no kind.  A mixture without made-up pairs is believed as it is.

    After `fit`: `rate_`, what can be said of the share of wrong pairs, which is no number without judgements;
    `estimate_`, the numbers behind it; `weights_` of several scores; `classes_`, [0, 1], 1 being wrong.

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
        """Judge the pairs of these scores.

        X: a score for each pair, or (pair, detector) of several, which are added up, weighted by how well each tells
        made-up pairs from these.  y is not looked at.
        null: scores of made-up pairs, by one detector of X: (pair, draw), for each pair its own query with documents
        drawn from somewhere; or a flat list, of whatever queries.  Of several detectors (pair, draw, detector).  By
        kind, where there are several kinds: {"random": ..., "near": ...}.
        ValueError, DataError for what is no such scores.
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
        """(pair, 2): the chances of being clean and of being wrong; of scores between those fitted, interpolated."""
        clean = self._p_clean(X)
        return np.column_stack([clean, 1 - clean])

    def predict(self, X: Any) -> npt.NDArray[np.int64]:  # noqa: N803 - scikit-learn's name
        """1 for a pair that is held for wrong, else 0."""
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
        """As `detect` takes them; without made-up pairs no rate can be read, so that none is asked for."""
        method = ("null" if has_null else "gmm") if self.method == "auto" else self.method
        if method == "null" and not has_null:
            raise DataError("detection.method_null_goes_scores")
        least = self.min_rate if has_null else 0.0
        assume = self.assume if has_null else "best"
        said = {"method": method, "threshold": self.threshold, "min_rate": least, "components": self.components}
        return DetectParams.parse({**said, "assume": assume})


def _columns(X: Any) -> Any:  # noqa: N803
    """A flat list of scores as one column; all else as it is, for scikit-learn to check."""
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

    value: as judged by people, with its interval [low, high]; None without judgements: then `low` to `high` is only
    what the kinds of wrong pair in `assumed` would allow, a line each, and wrong pairs of other kinds are not in it.
    judged: pairs drawn at random that people judged.
    """

    value: float | None
    low: float
    high: float
    confidence: float
    judged: int
    assumed: tuple[str, ...]

    def __str__(self) -> str:
        """The judged rate with its interval; without one that it is not known, and what each assumption would mean."""
        if self.value is not None:
            return (
                f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}] at {self.confidence:.0%}, by {self.judged} judged"
            )
        return "\n".join([NOT_KNOWN, *(f"  {line}" for line in self.assumed)])


def assumed_rate(estimate: Mapping[str, float], confidence: float) -> NoiseRate:
    """The rate by made-up pairs, without a judgement; any rate is possible where there are none of them."""
    said = nulls_in(estimate)
    lines = tuple(f"{line.assumed}: {line.rate}" for line in by_each_null(estimate)) if said else ()
    return NoiseRate(None, *rate_range(said), confidence, 0, lines)
