"""The best of a run in words, and what is said against a model: with the command that asks a better system."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from noisyir.evaluation.artifacts import STANDINGS
from noisyir.evaluation.pages.advice import against, best_lines, reason, unusable
from noisyir.evaluation.pages.report import _result_tables, conclusion
from noisyir.evaluation.recommendation import recommendation

QUERIES = 60


def standings(seed=0, dev=True, **means: float) -> pa.Table:
    """Values around these means, of 60 queries of each split, the same noise for every system but a little."""
    rows = []
    for split in ("test", "dev") if dev else ("test",):
        shared = np.random.default_rng([seed, split == "dev"]).normal(0, 0.2, QUERIES)
        for number, (system, mean) in enumerate(means.items()):
            own = np.random.default_rng([seed, number, split == "dev"]).normal(0, 0.05, QUERIES)
            own -= own.mean() + shared.mean()
            rows += [
                {"system": system, "split": split, "measure": "nDCG@10", "query_id": f"{split}{n}", "group": f"d{n}",
                 "value": float(mean + shared[n] + own[n])}
                for n in range(QUERIES)
            ]  # fmt: skip
    return pa.Table.from_pylist(rows, STANDINGS.schema)


def found(**means: float):
    return recommendation([standings(**means)])


def test_a_model_below_bm25_is_spoken_against_and_the_best_is_named():
    best = found(bm25=0.71, zero_shot=0.52, zero_shot_hybrid=0.73, dpr=0.52, dpr_hybrid=0.73)
    said = against(best, "dpr", "faq")
    assert best.best == "zero_shot_hybrid" and not best.is_usable("dpr")
    assert said and "noisyir search faq:zero_shot_hybrid 'your question'" in said
    assert said.startswith("dpr is not shown to be better than systems that need no training: nDCG@10 0.520 on 60 dev")
    assert "BM25 0.710 (gain \N{MINUS SIGN}0.190" in said and "the untrained model with BM25 0.730" in said
    case, _, instead = unusable(best, "dpr", "faq").rpartition(" Use ")
    assert instead == "the untrained model with BM25 (0.730) instead: noisyir export faq:zero_shot_hybrid"
    lexical = unusable(found(bm25=0.71, zero_shot=0.52, dpr=0.52), "dpr", "faq")
    assert said.startswith(case) and lexical.endswith("noisyir search faq:bm25 'your question'"), "BM25 has no model"
    assert against(best, "bm25", "faq") is None and against(best, "zero_shot", "faq") is None


def test_a_better_model_is_recommended_with_bm25_where_dev_prefers_that():
    best = found(bm25=0.5, zero_shot=0.3, zero_shot_hybrid=0.52, dpr=0.6, dpr_hybrid=0.65)
    assert best.best == "dpr_hybrid" and best.is_worth("dpr") and against(best, "dpr", "faq") is None
    first, *rest = best_lines(best)
    assert first.startswith("dpr_hybrid (dpr with BM25): nDCG@10 0.650 [") and "60 test queries" in first
    assert any("against BM25 (0.500)" in line for line in rest)


def test_queries_that_no_system_answers_are_counted_for_their_labels_may_be_wrong():
    told = standings(bm25=0.5, dpr=0.6)
    assert recommendation([told]).missed == 0 and "score 0" not in reason(recommendation([told]))
    of_all, of_one = (pc.is_in(told["query_id"], pa.array(names)) for names in (["test3", "test7"], ["test9"]))
    lost = pc.or_(of_all, pc.and_(of_one, pc.equal(told["system"], "dpr")))
    values = pc.if_else(lost, 0.0, told["value"])
    best = recommendation([told.set_column(told.column_names.index("value"), STANDINGS.schema.field("value"), values)])
    assert best.missed == 2
    assert "2 of 60 test queries score 0 with every system, as wrong labels and hard queries do." in reason(best)


def test_a_model_that_helps_bm25_alone_is_kept_but_is_not_asked_alone():
    best = found(bm25=0.7, zero_shot=0.3, zero_shot_hybrid=0.7, dpr=0.5, dpr_hybrid=0.76)
    assert best.best == "dpr_hybrid" and best.is_usable("dpr") and unusable(best, "dpr", "faq") is None
    assert "faq:dpr_hybrid" in against(best, "dpr", "faq") and against(best, "dpr_hybrid", "faq") is None


def test_a_model_as_it_is_wins_by_its_mean_and_nothing_worse_is_used():
    best = found(bm25=0.5, zero_shot=0.3, minilm_as_is=0.6, zero_shot_hybrid=0.5, minilm_as_is_hybrid=0.66,
                 dpr=0.63, dpr_hybrid=0.65)  # fmt: skip
    assert best.best == "minilm_as_is_hybrid" and not best.is_usable("dpr")
    said = unusable(best, "dpr", "faq")
    assert said and "MiniLM as it is, with BM25" in said and "MiniLM as it is 0" not in said
    assert "noisyir export faq:minilm_as_is_hybrid" in said and against(best, "minilm_as_is", "faq") is None
    assert best_lines(best)[0].endswith("no training needed")


def test_a_trained_model_above_a_model_as_it_is_is_used():
    """Chance alone may separate the two: both are as costly to search, so the greater mean decides."""
    best = found(bm25=0.5, zero_shot=0.3, minilm_as_is=0.6, zero_shot_hybrid=0.5, minilm_as_is_hybrid=0.64,
                 dpr=0.55, dpr_hybrid=0.645)  # fmt: skip
    assert best.best == "dpr_hybrid" and best.is_usable("dpr") and unusable(best, "dpr", "faq") is None
    assert "no training needed" not in best_lines(best)[0]


def test_a_gain_within_chance_counts_over_the_start_and_not_over_bm25():
    """The start is as costly to search with as the trained model, and BM25 needs none."""
    better = found(bm25=0.3, zero_shot=0.5, zero_shot_hybrid=0.5, dpr=0.505, dpr_hybrid=0.4)
    assert not better.short_of("dpr") and better.best == "dpr"
    worse = found(bm25=0.3, zero_shot=0.5, zero_shot_hybrid=0.5, dpr=0.495, dpr_hybrid=0.4)
    assert worse.short_of("dpr") == ["zero_shot", "zero_shot_hybrid"] and worse.best.startswith("zero_shot")
    within = found(bm25=0.5, zero_shot=0.3, dpr=0.505)
    assert within.short_of("dpr") == ["bm25"] and within.best == "bm25"


@pytest.mark.parametrize(("found_in", "ends"), [(5, ", 1.000]"), (1, " [0.000, ")])
def test_the_interval_of_a_measure_does_not_leave_its_bounds(found_in: int, ends: str):
    """Of 6 queries, which is few, and one unlike the others: the t-interval alone would leave [0, 1]."""
    rows = [
        {"system": "bm25", "split": split, "measure": "R@10", "query_id": f"{split}{n}", "group": f"d{n}",
         "value": float(n < found_in)}
        for split in ("test", "dev")
        for n in range(6)
    ]  # fmt: skip
    best = recommendation([pa.Table.from_pylist(rows, STANDINGS.schema)])
    assert ends in best_lines(best)[0] and ends in conclusion(best, [])[0]
    assert best.level("bm25").mean == pytest.approx(found_in / 6)


def test_selection_is_by_dev_and_what_is_told_by_test():
    """The best on the test queries alone is not taken, so that the told value is no maximum of chance."""
    test, dev = (standings(bm25=a, zero_shot=b, dev=d) for a, b, d in ((0.6, 0.5, False), (0.4, 0.5, True)))
    mixed = pa.concat_tables([test, dev.filter(pa.compute.equal(dev["split"], "dev"))])
    best = recommendation([mixed])
    assert best.best == "zero_shot" and best.level("zero_shot").mean == pytest.approx(0.5)
    alone = recommendation([standings(bm25=0.6, zero_shot=0.5, dev=False)])
    assert alone.best == "bm25" and "expect a little less" in best_lines(alone)[0]


def test_the_verdict_is_by_dev_and_not_by_the_test_queries_that_are_told():
    """Gains of the other split change nothing, in either direction: a lucky test set recommends no model."""
    parts = [standings(bm25=0.5, zero_shot=0.4, dpr=mean) for mean in (0.6, 0.4)]
    good, bad = ([part.filter(pa.compute.equal(part["split"], split)) for split in ("test", "dev")] for part in parts)
    lucky, unlucky = (
        recommendation([pa.concat_tables([good[0], bad[1]])]),
        recommendation([pa.concat_tables([bad[0], good[1]])]),
    )
    assert lucky.best == "bm25" and not lucky.is_worth("dpr") and lucky.gain("dpr", "bm25").low > 0
    assert unlucky.best == "dpr" and unlucky.is_worth("dpr") and unlucky.gain("dpr", "bm25").high < 0
    said = against(lucky, "dpr", "faq")
    assert "nDCG@10 0.400 on 60 dev queries, BM25 0.500 (gain \N{MINUS SIGN}0.100" in said


def test_seeds_are_counted():
    gains = (0.08, -0.06, 0.07)
    tables = [standings(seed=s, bm25=0.5, zero_shot=0.5, dpr=0.5 + g) for s, g in enumerate(gains)]
    assert recommendation(tables[:1]).is_worth("dpr")  # this very model is better
    several = recommendation(tables)
    assert not several.is_worth("dpr") and several.best == "bm25" and "mean of 3 seeds" in best_lines(several)[0]


def test_one_query_proves_nothing():
    one = standings(bm25=0.1, zero_shot=0.1, dpr=0.9)
    one = one.filter(pa.compute.is_in(one["query_id"], pa.array(["test0", "dev0"])))
    assert not recommendation([one]).is_worth("dpr")


def test_the_reason_names_dev_and_a_system_that_the_test_ranks_higher():
    dev_prefers_dpr = standings(bm25=0.3, zero_shot=0.2, dpr=0.6, dpr_hybrid=0.59).filter(pc.field("split") == "dev")
    test_prefers_hybrid = standings(bm25=0.3, zero_shot=0.2, dpr=0.6, dpr_hybrid=0.61).filter(
        pc.field("split") == "test"
    )
    best = recommendation([pa.concat_tables([test_prefers_hybrid, dev_prefers_dpr])])
    said = reason(best)
    assert best.best == "dpr" and said.startswith("60 dev queries chose it, where it reached 0.600; dpr with BM25 is ")
    assert "on the test queries" in said and "on the test queries" not in reason(
        found(bm25=0.3, dpr=0.6, zero_shot=0.2)
    )


def test_of_equal_systems_the_cheapest_is_recommended_and_one_that_is_equal_within_chance_is_named():
    """Equal by the digits that tables show; a mean above by chance alone is taken, with a word on what is cheaper."""
    equal = found(bm25=0.6, zero_shot=0.3, minilm_as_is=0.6003, minilm_as_is_hybrid=0.6004)
    assert equal.best == "bm25" and equal.cheaper is None and "put it above" not in reason(equal)
    above = found(bm25=0.6, zero_shot=0.3, minilm_as_is=0.5, minilm_as_is_hybrid=0.605)
    assert above.best == "minilm_as_is_hybrid" and above.cheaper == "bm25"
    said = "60 dev queries put it above BM25 (0.600), which is cheaper to search with, but do not tell the two apart"
    assert best_lines(above)[0].endswith(f"; {said}") and reason(above).endswith(f". {said}.")
    static = found(bm25=0.3, zero_shot=0.2, minilm_as_is_hybrid=0.6, dpr_hybrid=0.605)
    assert static.best == "dpr_hybrid" and static.cheaper == "minilm_as_is_hybrid"
    minilm = "MiniLM as it is, with BM25 (0.600), which needs no training, but do not tell the two apart"
    assert reason(static).endswith(f" 60 dev queries put it above {minilm}.")
    both = found(bm25=0.3, zero_shot=0.2, zero_shot_hybrid=0.6, dpr=0.6, dpr_hybrid=0.605)
    assert both.best == "dpr_hybrid" and both.cheaper == "zero_shot_hybrid", "dpr is cheaper, and needs training"
    far = found(bm25=0.5, zero_shot=0.3, dpr=0.7, dpr_hybrid=0.7)
    assert far.best == "dpr" and far.cheaper is None


def test_no_system_is_called_as_good_that_the_test_queries_show_to_be_worse():
    """The sentence on dev queries would contradict the gain that is shown next to it."""
    dev, test = (
        standings(bm25=0.3, zero_shot=0.5, dpr=mean).filter(pc.field("split") == split)
        for mean, split in ((0.505, "dev"), (0.58, "test"))
    )
    within = found(bm25=0.3, zero_shot=0.5, dpr=0.505)
    assert within.best == "dpr" and within.cheaper == "zero_shot"
    shown = recommendation([pa.concat_tables([test, dev])])
    assert shown.best == "dpr" and shown.margin("dpr", "zero_shot").low < 0 < shown.gain("dpr", "zero_shot").low
    assert shown.cheaper is None and "put it above" not in best_lines(shown)[0] + reason(shown)


def test_the_report_marks_the_recommended_row_and_shows_what_dev_said():
    comparison = [
        {"system": name, "split": "test", "measure": "nDCG@10", "mean": mean, "low": mean - 0.1, "high": mean + 0.1}
        for name, mean in (("bm25", 0.3), ("zero_shot", 0.2), ("dpr", 0.6))
    ]
    (table,) = _result_tables(comparison, ["bm25", "zero_shot", "dpr"], found(bm25=0.3, zero_shot=0.2, dpr=0.6))
    first, second, _ = table["figure"]["rows"]
    assert first["system"] == "dpr" and first["chosen"] and first["gain"] is None
    assert first["dev"] == pytest.approx(0.6) and first["low"] < first["mean"] < first["high"] <= 99
    assert second["system"] == "bm25" and not second["chosen"] and second["gain"].mean == pytest.approx(0.3, abs=0.02)
