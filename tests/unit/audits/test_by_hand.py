"""What judgements do to an audit: to their own pairs, and, where they are a random sample, to the others."""

import numpy as np
import pyarrow as pa
import pytest

from noisyir.audits.by_hand import how_many, judged_by_hand, with_suspicion
from noisyir.audits.judging.learning import PairLearner
from noisyir.base.errors import ConfigError, DataError
from noisyir.detection.calibration.logistic import FEWEST
from noisyir.detection.judgements import HumanJudgement
from tests.refusals import refuses


def judged_pairs(scores, threshold=1.5) -> pa.Table:
    """Pairs (q0, d), (q1, d), ... that are suspect above the threshold."""
    return pa.table(
        {
            "query_id": [f"q{n}" for n in range(len(scores))],
            "doc_id": ["d"] * len(scores),
            "score": pa.array(scores, pa.float32()),
            "verdict": pa.array(["suspect" if score > threshold else None for score in scores], pa.string()),
            "p_clean": pa.nulls(len(scores), pa.float32()),
            "rests_on": pa.nulls(len(scores), pa.string()),
            "replacement": pa.array(["r"] * len(scores)),
            "by_hand": np.zeros(len(scores), bool),
        }
    )


def anew(pairs, judgements, **settings):
    return judged_by_hand(pairs, judgements, **{"threshold": 0.5, "confidence": 0.95} | settings)


def sample(verdicts: dict[int, str], weight: float | None = 1.0) -> dict[tuple[str, str], HumanJudgement]:
    """Judgements of the pairs (qN, d)."""
    return {(f"q{n}", "d"): HumanJudgement(verdict, weight) for n, verdict in verdicts.items()}


def noisy_pairs(count: int = 4000) -> tuple[pa.Table, np.ndarray]:
    """Pairs of which the machine flags too few: the log odds of being wrong are 2 s - 1, and it cuts at s = 1.5."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1, count).astype(np.float32)
    return judged_pairs(scores), rng.random(count) < 1 / (1 + np.exp(1 - 2 * scores))


def truly(truth, rows) -> dict[int, str]:
    return {int(n): "wrong" if truth[n] else "clean" for n in rows}


def test_a_random_sample_moves_the_border_and_gives_the_rate():
    pairs, truth = noisy_pairs()
    table, found = anew(pairs, sample(truly(truth, range(1500)) | {1999: "unclear"}))
    rate, low, high = found.interval
    assert found.threshold == pytest.approx(0.5, abs=0.12)
    assert low <= truth.mean() <= high and rate == pytest.approx(truth.mean(), abs=0.03)
    assert (found.judged, found.unclear, found.sampled) == (1500, 1, 1500)
    scores, is_wrong = pairs["score"].to_numpy(), np.array(table["verdict"].to_pylist()) == "wrong"
    assert found.flagged_before == (scores > 1.5).sum() < found.flagged == is_wrong.sum()
    assert found.agreed == pytest.approx(np.mean(truth[:1500] == (scores[:1500] > 1.5)))
    p_clean = table["p_clean"].to_numpy()
    np.testing.assert_array_equal(is_wrong[1500:], p_clean[1500:] < 0.5)
    np.testing.assert_array_equal(is_wrong[1500:], scores[1500:] > found.threshold)
    assert np.all(np.diff(p_clean[1500:][scores[1500:].argsort()]) <= 0)
    text = found.summary()
    assert "judged      1,500 pairs, 1 unclear" in text and "1,500 of them were drawn at random" in text
    assert found.notes == ()


def test_verdicts_without_weights_change_their_own_pairs_to_the_bit():
    pairs, _ = noisy_pairs(400)
    rows = np.argsort(-pairs["score"].to_numpy())[:100]  # the most suspect, as a reader of the page would
    said = sample({int(n): "clean" if n % 3 else "wrong" for n in rows}, weight=None)
    table, found = anew(pairs, said)
    judged = np.isin(np.arange(400), rows)
    for name in pairs.column_names:
        assert table[name].filter(pa.array(~judged)).equals(pairs[name].filter(pa.array(~judged))), name
        assert table[f"machine_{name}"].equals(pairs[name]) if f"machine_{name}" in table.column_names else True
    for row in table.filter(pa.array(judged)).to_pylist():
        verdict = said[row["query_id"], "d"].verdict
        assert (row["verdict"], row["p_clean"], row["judged"]) == (verdict, float(verdict == "clean"), verdict)
        assert row["by_hand"] and not row["accepted"]
    assert (found.interval, found.threshold, found.sampled) == (None, None, 0)
    assert "100 of the verdicts carry no weight" in found.summary() and "--sample 50 or --judge" in found.summary()
    assert "noise rate  " not in found.summary()


def test_verdicts_beside_a_sample_do_not_touch_what_it_says():
    pairs, truth = noisy_pairs(2000)
    drawn = truly(truth, range(100))
    alone, by_sample = anew(pairs, sample(drawn))
    most_suspect = {int(n): "clean" for n in np.argsort(-pairs["score"].to_numpy())[:50] if n >= 100}
    both, found = anew(pairs, sample(drawn) | sample(most_suspect, weight=None))
    assert (found.interval, found.threshold, found.sampled) == (by_sample.interval, by_sample.threshold, 100)
    others = pa.array([n not in most_suspect for n in range(2000)])
    assert both.filter(others).equals(alone.filter(others))
    assert f"{len(most_suspect)} of the verdicts carry no weight" in found.summary()
    assert "stays unknown" not in found.summary()


def test_unequal_weights_count():
    """Of one stratum: of 40 judged, 20 stand for 9 pairs each and are clean, 20 for 1 each and are wrong."""
    pairs = judged_pairs(np.zeros(200))
    said = sample({n: "clean" for n in range(20)}, 9.0) | sample({n: "wrong" for n in range(20, 40)}, 1.0)
    _, found = anew(pairs, said)
    assert found.interval[0] == pytest.approx(0.1)
    narrow = anew(pairs, sample({n: "wrong" if n < 4 else "clean" for n in range(40)}))[1].interval
    assert found.interval[2] - found.interval[1] > narrow[2] - narrow[1], "unequal weights tell less"


def test_a_refit_is_asked_for_and_warned_of():
    pairs, _ = noisy_pairs(400)
    rows = np.argsort(-pairs["score"].to_numpy())[:30]
    said = sample({int(n): "wrong" if place < 20 else "clean" for place, n in enumerate(rows)}, weight=None)
    table, found = anew(pairs, said, refit=True)
    assert found.threshold is not None and found.interval is None, "such verdicts never tell a rate"
    assert not table["p_clean"].equals(pairs["p_clean"])
    assert "All pairs were judged again, also by 30 verdicts on pairs that were not drawn at random" in found.summary()
    with refuses(DataError, "detection.all_judged_pairs_judge", judged=20, kind="wrong"):
        anew(pairs, {pair: judged for pair, judged in said.items() if judged.verdict == "wrong"}, refit=True)


def test_a_sample_of_one_kind_gives_the_rate_and_leaves_the_border():
    pairs, _ = noisy_pairs(400)
    table, found = anew(pairs, sample({n: "clean" for n in range(50)}))
    rate, low, high = found.interval
    assert (rate, low) == (0, 0) and 0 < high < 0.1
    assert found.threshold is None and "all 50 judged pairs are clean" in found.summary()
    assert table["verdict"][50:].equals(pairs["verdict"][50:])


def test_a_sample_that_contradicts_the_scores_leaves_the_border():
    pairs, _ = noisy_pairs(400)
    scores = pairs["score"].to_numpy()
    _, found = anew(pairs, sample({n: "clean" if scores[n] > 0 else "wrong" for n in range(60)}))
    assert found.interval is not None and "wrong pairs do not score higher" in found.summary()


def test_a_few_judgements_of_a_sample_set_no_border():
    pairs, truth = noisy_pairs(400)
    table, found = anew(pairs, sample(truly(truth, range(FEWEST - 1))))
    assert found.interval is not None and found.threshold is None
    assert "set no border: judge at least 20" in found.summary()
    assert table["p_clean"][FEWEST:].equals(pairs["p_clean"][FEWEST:])
    assert anew(pairs, sample(truly(truth, range(FEWEST))))[1].threshold is not None


def test_people_stand_above_the_machine_and_are_marked():
    pairs, truth = noisy_pairs(400)
    said = sample(truly(~truth, (0, 1)) | truly(truth, range(2, 300)) | {300: "unclear"})
    rows = anew(pairs, said)[0].to_pylist()
    for row in rows[:300]:
        verdict = said[row["query_id"], "d"].verdict
        assert (row["verdict"], row["p_clean"], row["by_hand"]) == (verdict, float(verdict == "clean"), True)
    assert not any(row["by_hand"] for row in rows[300:])
    assert [row["judged"] for row in rows[300:302]] == ["unclear", None]


def test_a_replacement_that_a_person_names_stands_above_the_machines():
    said = {("q1", "d"): HumanJudgement("wrong", None, "other"), ("q2", "d"): HumanJudgement("wrong")}
    rows = anew(judged_pairs(np.zeros(4)), said)[0].to_pylist()
    assert [(row["replacement"], row["accepted"]) for row in rows[1:3]] == [("other", True), ("r", False)]
    assert [row["relabel"] for row in rows] == [False, True, False, False]
    assert {row["machine_replacement"] for row in rows} == {"r"}


@pytest.mark.parametrize(("accepted", "some"), [(1.0, True), (0.6, False)])
def test_unseen_pairs_are_relabelled_where_nearly_all_replacements_seen_were_right(accepted, some):
    """The lower end of the chance that the old is wrong and the new is right lies above .9, or none is relabelled."""
    rng = np.random.default_rng(3)
    scores, truth = np.concatenate([rng.normal(0, 1, 600), rng.normal(8, 1, 400)]), np.arange(1000) >= 600
    pairs, drawn = judged_pairs(scores), rng.permutation(1000)[:250]
    said = {
        (f"q{n}", "d"): HumanJudgement(
            "wrong" if truth[n] else "clean", 4.0, "r" if truth[n] and rng.random() < accepted else None
        )
        for n in drawn.tolist()
    }
    table, _ = anew(pairs, said)
    unseen = table["relabel"].to_numpy(zero_copy_only=False) & ~np.isin(np.arange(1000), drawn)
    assert bool(unseen.sum() > 100) is some and (unseen & ~truth).sum() <= 0.05 * unseen.sum()


def test_suspicion_is_the_share_of_pairs_that_are_less_suspect():
    pairs = judged_pairs([1.0, 3.0, 2.0, 2.0, 0.0])
    assert with_suspicion(pairs)["suspicion"].to_pylist() == [0.25, 1.0, 0.625, 0.625, 0.0]
    said = sample({4: "wrong", 1: "clean"}, weight=None)
    assert with_suspicion(anew(pairs, said)[0])["suspicion"].to_pylist() == [0.25, 0.0, 0.625, 0.625, 1.0]


def test_only_people_are_certain():
    """Whatever the scores, so that a table of verdicts tells which of them are people's."""
    pairs = judged_pairs([*np.linspace(0, 1, 100), 1e6, -1e6])
    table, _ = anew(pairs, sample({n: "wrong" if n > 50 else "clean" for n in range(0, 100, 3)}))
    certain = np.isin(table["p_clean"].to_numpy(), [0, 1])
    np.testing.assert_array_equal(certain, table["by_hand"].to_numpy(zero_copy_only=False))
    assert table["verdict"].to_pylist()[-2:] == ["wrong", "clean"]


@pytest.mark.parametrize("threshold", [1e-50, 1 - 1e-12])
def test_a_judged_pair_keeps_its_verdict_at_any_threshold(threshold):
    said = sample({n: "clean" if n < 15 else "wrong" for n in range(30)})
    table, _ = anew(judged_pairs(np.arange(30.0)), said, threshold=threshold)
    assert table["verdict"].to_pylist() == ["clean"] * 15 + ["wrong"] * 15


def test_what_tells_nothing_changes_nothing():
    pairs, truth = noisy_pairs(50)
    table, found = anew(pairs, {("q1", "d"): HumanJudgement("unclear", 1.0)})
    assert table.select(pairs.column_names).equals(pairs) and "judged      0 pairs, 1 unclear\n" in found.summary()
    with refuses(ConfigError, "audits.threshold_no_probability", threshold=1.0):
        anew(pairs, sample(truly(truth, range(30))), threshold=1.0)


def test_how_many_is_said_in_words():
    assert how_many(0.2, 0.02, 0.95, 10**9) == "To know the rate within ± 2 points at 95 %: judge 1,537 pairs"
    assert how_many(0.2, 0.025, 0.9, 5) == "To know the rate within ± 2.5 points at 90 %: judge all 5 pairs"
    with refuses(ConfigError, "audits.confidence_out_of_range"):
        how_many(0.2, 0.02, 95, 100)
    with refuses(ConfigError, "detection.error_noise_rate_must"):
        how_many(0.2, 2, 0.95, 100)


def test_a_judging_session_and_an_audit_in_any_order_learn_the_same_rate_from_the_same_answers():
    pairs, truth = noisy_pairs(400)
    rng = np.random.default_rng(1)
    features = np.column_stack([truth + 0.7 * rng.normal(size=400), rng.normal(size=400)])
    names, rows = pairs["query_id"].to_pylist(), rng.permutation(400)[:60]
    answers = sample(truly(truth, rows))
    by_session = PairLearner(pairs["score"].to_numpy(), features, np.unique(names, return_inverse=True)[1]).learn(
        {int(row): answers[names[row], "d"] for row in rows}
    )
    mixed = rng.permutation(400)
    for order in (np.arange(400), mixed):
        _, found = anew(pairs.take(pa.array(order)), answers, features=features[order])
        assert found.interval == pytest.approx([by_session.rate.value, by_session.rate.low, by_session.rate.high])
