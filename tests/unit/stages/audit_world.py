"""Tables that the audit stage reads: pairs whose every third document is another query's."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from noisyir.data.artifacts import CORPUS, PAIRS, QUERIES
from noisyir.detection.artifacts import COMPETITORS, NOISE_ESTIMATE
from noisyir.training.artifacts import NOISE_FLAGS
from tests.world import table


def audit_tables(pairs: int, *, spice: str = "", sources: int = 5) -> dict[str, Any]:
    """What the stage is given when nobody judged by hand.

    Pair n is right unless n divides by 3; then its document is the next query's, and its own is the best competitor.

    spice: text put into every query and document.
    """
    numbers = range(pairs)
    wrong = [n % 3 == 0 for n in numbers]
    document = [f"d{(n + 1) % pairs if wrong[n] else n}" for n in numbers]
    scores = np.random.default_rng(3).normal(np.where(wrong, 6.0, 1.0), 0.5)
    ids = [(f"q{n}", document[n]) for n in numbers]
    replacements = [f"d{n}" if wrong[n] else None for n in numbers]
    p_clean = 1 / (1 + np.exp(4 * (scores - 3.5)))
    flags = zip(ids, scores, p_clean, replacements, strict=True)
    mixture = {"clean_weight": 2 / 3, "clean_mean": 1.0, "clean_std": 0.5,
               "noisy_weight": 1 / 3, "noisy_mean": 6.0, "noisy_std": 0.5}  # fmt: skip
    random = {"rate": 1 / 3, "low": 0.32, "high": 0.35, "counted": 200, "tail": 0.5, "fit": 0.9, "auroc": 0.8,
              "pairs": 1200, "beside": 100, "trusted": 0.99}  # fmt: skip
    mixture |= {f"random.{name}": value for name, value in random.items()}
    estimate = {"rate": 1 / 3, "rate_low": 0.32, "rate_high": 0.35, "flagged": 1 / 3, "threshold": 3.5, **mixture}
    return {
        "corpus": table(CORPUS, [(f"d{n}", n, f"Topic {n}", f"{_text(n)} {spice}") for n in numbers]),
        "queries": table(QUERIES, [(f"q{n}", f"what is topic{n} made of {spice}".strip(), "train") for n in numbers]),
        "pairs": table(PAIRS, [(*ids[n], "train", f"source {n % sources}" if sources else None) for n in numbers]),
        "flags": table(NOISE_FLAGS, [(*pair, 1, score, p, p >= 0.5, best) for pair, score, p, best in flags]),
        "estimate": table(NOISE_ESTIMATE, [(1, name, value) for name, value in estimate.items()]),
        "competitors": table(
            COMPETITORS,
            [(*ids[n], 0.2, 40, [f"d{n}"], [0.7]) if wrong[n] else (*ids[n], 0.8, 1, ["d0"], [0.3]) for n in numbers],
        ),
    }


def judged_as(path: Path, rows: Iterable[tuple[str, ...]]) -> str:
    """The path of a csv with these verdicts: query_id, doc_id, verdict, and perhaps weight and at."""
    rows = list(rows)
    names = ("query_id", "doc_id", "verdict", "weight", "at")[: max(map(len, rows))]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return str(path)


def _text(number: int) -> str:
    return f"Some documents are of topic{number} and others talk of nothing else but matter {number * 7919 % 10_007}."
