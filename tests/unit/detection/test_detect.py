"""`detect` and `score_detection` on tables: joining, epochs, several detectors, replacements, bad input."""

import numpy as np
import pyarrow as pa
import pytest

from noisyir.base.artifact import FLOATS
from noisyir.base.errors import ConfigError, DataError
from noisyir.data.artifacts import NOISE_TRUTH
from noisyir.detection.artifacts import NOISE_ESTIMATE, PAIR_SCORES
from noisyir.detection.combine import Scores, combined
from noisyir.detection.settings import DetectParams
from noisyir.detection.stages.detect import DETECT
from noisyir.engine.tables import listed
from noisyir.evaluation.pages.detection import detection_rows
from noisyir.evaluation.settings import ScoreDetectionParams
from noisyir.evaluation.stages.score_detection import SCORE_DETECTION
from noisyir.training.artifacts import NOISE_FLAGS

PARAMS = DetectParams(method="gmm", assume="best")


def is_wrong(pairs=300):
    return np.random.default_rng(7).random(pairs) < 0.4


def scores_table(pairs=300, seed=0, epoch=1, best=None, factor=1.0, null=None, near=None):
    rng = np.random.default_rng(seed)
    score = factor * np.where(is_wrong(pairs), rng.normal(6, 1, pairs), rng.normal(1, 0.6, pairs))
    return pa.table(
        {
            "query_id": [f"q{n}" for n in range(pairs)],
            "doc_id": [f"d{n % 50}" for n in range(pairs)],
            "epoch": pa.array([epoch] * pairs, pa.int32()),
            "score": pa.array(score, pa.float32()),
            "random_scores": listed(factor * (rng.normal(6, 1, (pairs, 9)) if null is None else null)),
            "near_scores": pa.nulls(pairs, FLOATS) if near is None else listed(factor * near),
            "lexical_scores": pa.nulls(pairs, FLOATS),
            "source_scores": pa.nulls(pairs, FLOATS),
            "best_other": pa.array([best] * pairs, pa.string()),
        },
        schema=PAIR_SCORES.schema,
    )


def truth_table(pairs=300):
    wrong = is_wrong(pairs)
    rows = {"query_id": [f"q{n}" for n in range(pairs)], "doc_id": [f"d{n % 50}" for n in range(pairs)]}
    return pa.table({**rows, "kind": np.where(wrong, "uniform", "clean"), "is_noisy": wrong}, schema=NOISE_TRUTH.schema)


def estimate_of(out, epoch):
    rows = out["noise_estimate"].to_pylist()
    return {row["name"]: row["value"] for row in rows if row["epoch"] == epoch}


def values_of(detection, system, epoch):
    rows = detection.to_pylist()
    return {row["measure"]: row["value"] for row in rows if (row["system"], row["epoch"]) == (system, epoch)}


def test_pairs_are_judged_and_the_build_says_how_many(run_stage_on, store):
    given = scores_table(best="d7")
    out = run_stage_on(DETECT, PARAMS, {"scores": {"pair_nll": given}})
    flags, estimate = out["noise_flags"], estimate_of(out, 1)
    for name in ("query_id", "doc_id", "epoch", "score"):
        assert flags[name].to_pylist() == given[name].to_pylist()
    assert (~flags["is_clean"].to_numpy() == is_wrong()).mean() > 0.98
    assert set(flags["replacement"].to_pylist()) == {"d7"}
    assert estimate["rate_low"] < estimate["rate"] == estimate["random.rate"] < estimate["rate_high"]
    assert estimate["clean_mean"] == pytest.approx(1, abs=0.2) and estimate["noisy_mean"] == pytest.approx(6, abs=0.3)
    (meta,) = [meta for meta in store.builds.all() if meta.stage == "detect"]
    assert meta.notes["detection"]["1"] == {"pairs": 300, **estimate}


def test_every_epoch_is_judged_on_its_own(run_stage_on):
    early, late = scores_table(epoch=1), scores_table(epoch=2, factor=0.1)
    both = run_stage_on(DETECT, PARAMS, {"scores": {"nll": pa.concat_tables([late, early])}})
    alone = run_stage_on(DETECT, PARAMS, {"scores": {"nll": late}})
    assert both["noise_flags"]["epoch"].to_pylist() == [1] * 300 + [2] * 300
    assert both["noise_flags"].slice(300).equals(alone["noise_flags"])
    assert estimate_of(both, 2) == estimate_of(alone, 2)
    assert estimate_of(both, 1)["noisy_mean"] == pytest.approx(10 * estimate_of(both, 2)["noisy_mean"], rel=0.01)


def test_several_detectors_are_judged_as_one_whatever_the_order_of_their_rows(run_stage_on):
    one, other = scores_table(seed=0, epoch=0), scores_table(seed=1, epoch=2, best="d9", factor=50)
    shuffled = other.take(np.random.default_rng(3).permutation(300))
    out = run_stage_on(DETECT, PARAMS, {"scores": {"a": one, "b": other}})
    again = run_stage_on(DETECT, PARAMS, {"scores": {"a": one, "b": shuffled}})
    assert out["noise_flags"].equals(again["noise_flags"])
    flags = out["noise_flags"]
    assert set(flags["epoch"].to_pylist()) == {2} and set(flags["replacement"].to_pylist()) == {"d9"}

    def scores(table):
        return Scores(table["score"].to_numpy(), {"random": np.array(table["random_scores"].to_pylist())})

    np.testing.assert_allclose(
        flags["score"].to_numpy(), combined([scores(one), scores(other)]).observed, rtol=1e-5, atol=1e-6
    )
    assert (~flags["is_clean"].to_numpy() == is_wrong()).mean() > 0.98


def test_the_null_that_fits_is_the_one_that_wrong_pairs_are_like(run_stage_on):
    """Random documents are easier to tell than those that the wrong pairs have."""
    near, wrong = np.random.default_rng(11).normal(6, 1, (3000, 9)), is_wrong(3000)
    table = scores_table(3000, null=near + 1.5, near=near)
    by_null = DetectParams(method="null", assume="near")
    out = run_stage_on(DETECT, by_null, {"scores": {"margin": table}})
    found = estimate_of(out, 1)
    assert found["rate"] == found["near.rate"] == pytest.approx(wrong.mean(), abs=0.03)
    assert found["near.fit"] > 0.05 > found["random.fit"] and found["random.rate"] < 0.2
    assert (found["rate_low"], found["rate_high"]) == (found["near.low"], found["near.high"])  # random is too easy
    assert (~out["noise_flags"]["is_clean"].to_numpy() == wrong).mean() > 0.98


def test_a_rate_by_made_up_pairs_that_are_too_easy_is_not_shown_in_a_range_without_it(run_stage_on):
    """And without noise put in, nobody knows the AUROC: it has no column."""
    near = np.random.default_rng(11).normal(6, 1, (3000, 9))
    table = scores_table(3000, null=near + 1.5, near=near)
    truth = truth_table(3000)
    clean = truth.set_column(truth.column_names.index("is_noisy"), "is_noisy", pa.array([False] * 3000))
    shown = {}
    for assumed in ("near", "random"):
        out = run_stage_on(DETECT, DetectParams(method="null", assume=assumed), {"scores": {"margin": table}})
        given = {"truth": clean, **{name: {"margin": out[f"noise_{name}"]} for name in ("flags", "estimate")}}
        scored = run_stage_on(SCORE_DETECTION, ScoreDetectionParams(), given)["detection"]
        heading, (*_, shown[assumed]) = detection_rows(scored)
        assert heading == ["detector", "epoch", "estimated share wrong"]
        found = estimate_of(out, 1)
    low, high, rate = (f"{100 * found[name]:.1f} %" for name in ("rate_low", "rate_high", "rate"))
    assert found["rate"] < found["rate_low"], "random documents are too easy"
    assert shown["random"] == f"{low} to {high}; made-up pairs that are too easy to count {rate}"
    assert shown["near"].endswith(f" %; all made-up pairs {low} to {high}")


def test_the_first_detector_that_knows_a_better_document_names_the_replacement(run_stage_on):
    none, first, second = scores_table(), scores_table(best="d1"), scores_table(best="d2")
    out = run_stage_on(DETECT, PARAMS, {"scores": {"a": none, "b": first, "c": second}})
    assert set(out["noise_flags"]["replacement"].to_pylist()) == {"d1"}


@pytest.mark.parametrize("pairs", [1, 5])
@pytest.mark.parametrize("method", ["gmm", "beta", "null"])
def test_a_handful_of_pairs_works(run_stage_on, pairs, method):
    given = {"scores": {"nll": scores_table(pairs)}}
    out = run_stage_on(DETECT, PARAMS.model_copy(update={"method": method}), given)
    assert out["noise_flags"].num_rows == pairs


def test_all_scores_equal_flags_nothing(run_stage_on):
    table = scores_table().drop(["score"]).append_column("score", pa.array(np.full(300, 2.0), pa.float32()))
    out = run_stage_on(DETECT, PARAMS, {"scores": {"nll": table.select(PAIR_SCORES.columns)}})
    assert all(out["noise_flags"]["is_clean"].to_pylist())


def test_detectors_of_different_pairs_are_refused(run_stage_on):
    with pytest.raises(DataError, match=r"'a' and 'b' are of different pairs \(300 and 299, 299 in common\)"):
        run_stage_on(DETECT, PARAMS, {"scores": {"a": scores_table(), "b": scores_table().slice(1)}})


def test_detectors_of_different_epochs_are_refused(run_stage_on):
    two = pa.concat_tables([scores_table(epoch=1), scores_table(epoch=2)])
    with pytest.raises(DataError, match=r"'a' are of epochs \[1, 2\], scores 'b' of \[1\]"):
        run_stage_on(DETECT, PARAMS, {"scores": {"a": two, "b": scores_table()}})


def test_no_scores_at_all_are_refused(run_stage_on):
    with pytest.raises(ConfigError, match="no scores"):
        run_stage_on(DETECT, PARAMS, {"scores": {}})
    with pytest.raises(DataError, match=r"\['a'\] have no rows"):
        run_stage_on(DETECT, PARAMS, {"scores": {"a": PAIR_SCORES.schema.empty_table()}})


def test_detection_is_scored_by_system_and_epoch_beside_the_estimated_rate(run_stage_on, store):
    both = pa.concat_tables([scores_table(epoch=1), scores_table(epoch=2, seed=4)])
    found = run_stage_on(DETECT, PARAMS, {"scores": {"nll": both}})
    tables = {name: {"nll": found[f"noise_{name}"]} for name in ("flags", "estimate")}
    detection = run_stage_on(SCORE_DETECTION, ScoreDetectionParams(), {"truth": truth_table(), **tables})["detection"]
    for epoch in (1, 2):
        values = values_of(detection, "nll", epoch)
        assert values["auroc"] > 0.99 and values["f1"] > 0.97 and values["average_precision"] > 0.98
        assert values["true_rate"] == pytest.approx(is_wrong().mean())
        assert values["flagged"] == pytest.approx(values["true_rate"], abs=0.02)
        assert values["rate_low"] <= values["rate"] <= values["rate_high"]
        assert values["rate"] == estimate_of(found, epoch)["rate"]
    (meta,) = [meta for meta in store.builds.all() if meta.stage == "score_detection"]
    assert meta.notes["nll"] == {"pairs": 600, "without_truth": 0}


def test_pairs_that_the_truth_does_not_know_are_left_out_and_counted(run_stage_on, store):
    found = run_stage_on(DETECT, PARAMS, {"scores": {"nll": scores_table()}})
    given = {"truth": truth_table().slice(100), "flags": {"nll": found["noise_flags"]}, "estimate": {}}
    values = values_of(run_stage_on(SCORE_DETECTION, ScoreDetectionParams(), given)["detection"], "nll", 1)
    assert values["true_rate"] == pytest.approx(is_wrong()[100:].mean()) and "rate" not in values
    (meta,) = [meta for meta in store.builds.all() if meta.stage == "score_detection"]
    assert meta.notes["nll"] == {"pairs": 300, "without_truth": 100}


def test_flags_of_other_pairs_are_refused(run_stage_on):
    flags = run_stage_on(DETECT, PARAMS, {"scores": {"nll": scores_table()}})["noise_flags"]
    other = truth_table().set_column(0, "query_id", pa.array([f"x{n}" for n in range(300)]))
    with pytest.raises(DataError, match="none of the 300 pairs flagged by 'nll'"):
        run_stage_on(SCORE_DETECTION, ScoreDetectionParams(), {"truth": other, "flags": {"nll": flags}, "estimate": {}})


def test_without_noise_the_undefined_measures_are_absent(run_stage_on):
    clean = truth_table().set_column(3, "is_noisy", pa.array([False] * 300))
    rows = scores_table()
    flags = pa.table(
        {
            **{name: rows[name] for name in ("query_id", "doc_id", "epoch", "score")},
            "p_clean": pa.array(np.ones(300), pa.float32()),
            "is_clean": [True] * 300,
            "replacement": pa.nulls(300, pa.string()),
        },
        schema=NOISE_FLAGS.schema,
    )
    estimate = pa.table({"epoch": [1], "name": ["rate"], "value": [0.0]}).cast(NOISE_ESTIMATE.schema)
    given = {"truth": clean, "flags": {"nll": flags}, "estimate": {"nll": estimate}}
    values = values_of(run_stage_on(SCORE_DETECTION, ScoreDetectionParams(), given)["detection"], "nll", 1)
    assert values == {"accuracy": 1.0, "flagged": 0.0, "rate": 0.0}
