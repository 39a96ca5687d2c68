"""How many pairs may be kept, in words, and on what that rests."""

import numpy as np
import pyarrow as pa

from noisyir.audits.keeping import Keeping, kept_by_judgements, kept_if_assumed
from noisyir.detection.artifacts import KEPT_BY_NULL
from noisyir.detection.guarantee import Guarantee
from noisyir.detection.judgements import HumanJudgement

BOUNDS = Guarantee(np.array([40, 60, 80, 100]), np.array([0.03, 0.02, 0.08, 0.3]), 0.9, 0)


def test_without_judgements_the_condition_begins_the_sentence():
    table = pa.table({"epoch": [0, 1, 1], "kept": [9, 60, 100], "bound": [0.5, 0.02, 0.3]}).cast(KEPT_BY_NULL.schema)
    keeping = kept_if_assumed(table, 100, "random")
    assert keeping.most(0.05) == 60 and keeping.most(0.01) == 0
    assert keeping.told(0.05) == (
        "if wrong pairs have random documents, keep the 60 of 100 pairs with the lowest score: at most 2.0 % of them "
        "are wrong, with 90 % confidence"
    )
    assert keeping.told(0.01).startswith("if wrong pairs have random documents, no part of the pairs is known to have")
    assert "judged, none" not in keeping.told(0.01)


def test_where_nothing_is_assumed_and_nobody_judged_nothing_is_said():
    keeping = kept_if_assumed(KEPT_BY_NULL.schema.empty_table(), 100, None)
    assert keeping.most(1.0) == 0 and keeping.told(0.05).startswith(
        "nothing can be said with 90 % confidence: judge 50"
    )


def test_by_judgements_there_is_no_condition():
    pairs = pa.table({"query_id": [f"q{n}" for n in range(200)], "doc_id": ["d"] * 200, "score": np.arange(200.0)})
    said = {(f"q{n}", "d"): HumanJudgement("wrong" if n > 150 else "clean", 2.0) for n in range(0, 200, 2)}
    keeping = kept_by_judgements(pairs, said)
    assert 100 < keeping.most(0.05) <= 152 and keeping.condition == ""
    assert keeping.told(0.05).endswith("of them are wrong, with 90 % confidence")
    chosen = {pair: HumanJudgement(judged.verdict) for pair, judged in said.items()}
    assert "nothing can be said" in kept_by_judgements(pairs, chosen).told(0.05)


def test_the_most_is_the_last_within_the_bound():
    assert Keeping(BOUNDS, 100).most(0.05) == 60
