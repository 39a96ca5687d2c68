"""What cleaning by judgements does to labelled pairs: how many it relabels, and how many of those had been right.

    python -m bench.cleaning --data ../shared/data --home .scored            # writes benchmarks/cleaning.json

Samples are drawn as `--judge` draws them and their labels are looked up; of a wrong pair the document that the machine
suggests is named where people call it right for the query.  `noisyir audit --judgements --apply` then decides on all
pairs.  relabelled: of the pairs that nobody judged.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bench.scored_sets import SETS, ScoredPairs, scored
from bench.tables import record
from noisyir.audits.apply import decide
from noisyir.audits.by_hand import judged_by_hand
from noisyir.audits.judging.session import random_order
from noisyir.audits.pairs_to_clean import Fate
from noisyir.detection.judgements import HumanJudgement, Judgements, Pair

_CONFIDENCE, _THRESHOLD = 0.95, 0.5


class Cleaned(NamedTuple):
    """By people: relabelled with a document that they named.  unseen: relabelled without; right: of these."""

    by_people: int
    unseen: int
    right: int
    mended: int


def fates(pairs: ScoredPairs, judged: int, seed: int) -> tuple[Judgements, dict[Pair, Fate]]:
    """The judgements of a session, and the fate of every pair by them."""
    rows, weights = (column[:judged] for column in random_order(pairs.scores, np.random.default_rng(seed)))
    ids = [(str(query), str(document)) for query, document in pairs.ids]
    said: dict[Pair, HumanJudgement] = {}
    for row, weight in zip(rows.tolist(), weights.tolist(), strict=True):
        named = str(pairs.better[row]) if pairs.is_wrong[row] and pairs.is_better_right[row] else None
        said[ids[row]] = HumanJudgement("wrong" if pairs.is_wrong[row] else "clean", weight, named)
    audit, _ = judged_by_hand(
        _unjudged(pairs), said, threshold=_THRESHOLD, confidence=_CONFIDENCE, features=pairs.features
    )
    return said, decide(audit.append_column("reason", pa.array([""] * audit.num_rows)))


def _unjudged(pairs: ScoredPairs) -> pa.Table:
    """As the audit has them before anybody judged, and nothing is assumed."""
    count = len(pairs.ids)
    return pa.table({
        "query_id": pairs.ids[:, 0].tolist(),
        "doc_id": pairs.ids[:, 1].tolist(),
        "score": pairs.scores,
        "verdict": pa.nulls(count, pa.string()),
        "p_clean": pa.nulls(count, pa.float32()),
        "replacement": pa.array([str(one) or None for one in pairs.better], pa.string()),
        "by_hand": [False] * count,
        "rests_on": pa.nulls(count, pa.string()),
    })  # fmt: skip


def cleaned(pairs: ScoredPairs, judged: int, seed: int) -> Cleaned:
    """The pairs that were relabelled in one session."""
    said, met = fates(pairs, judged, seed)
    row_of = {(str(query), str(document)): row for row, (query, document) in enumerate(pairs.ids)}
    relabelled = [pair for pair, fate in met.items() if fate.action == "relabel"]
    unseen = np.array([row_of[pair] for pair in relabelled if pair not in said], np.int64)
    right, mended = ~pairs.is_wrong[unseen], pairs.is_wrong[unseen] & pairs.is_better_right[unseen]
    return Cleaned(len(relabelled) - len(unseen), len(unseen), int(right.sum()), int(mended.sum()))


def main() -> None:
    given = _arguments()
    rows = [["set", "judged", "relabelled by people", "relabelled unseen", "sessions with any", "were right", "share"]]
    by_seed: dict[str, list[Cleaned]] = {}
    for name in given.sets:
        pairs = scored(name, given.data, given.home)
        for judged in given.judged:
            found = by_seed[f"{name} {judged}"] = [cleaned(pairs, judged, seed) for seed in range(given.seeds)]
            unseen, right = sum(one.unseen for one in found), sum(one.right for one in found)
            cells = [f"{np.mean([one.by_people for one in found]):.1f}", f"{unseen / len(found):.1f}",
                     f"{sum(one.unseen > 0 for one in found)} of {len(found)}", str(right),
                     f"{right / unseen:.1%}" if unseen else "-"]  # fmt: skip
            rows.append([name, str(judged), *cells])
            print(" | ".join(rows[-1]), flush=True)
    claim = "Of the pairs that cleaning relabels at most 5 % were right."
    record("cleaning", rows, left=1, claim=claim, seeds=given.seeds, by_seed=by_seed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--home", type=Path, default=Path(".scored"), help="where bench.scored_sets keeps the scores")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["staqc", "nl2bash"])
    parser.add_argument("--judged", type=int, nargs="+", default=[30, 50, 100, 200])
    parser.add_argument("--seeds", type=int, default=20, help="sessions of each set")
    return parser.parse_args()


if __name__ == "__main__":
    main()
