"""Values that people's judgements correct: measures of pools, what is drawn, and what the intervals hold."""

import ir_measures
import numpy as np
import pytest

from noisyir.evaluation import ruler
from noisyir.evaluation.corrected import Drawing, Pools, calibrated, corrected, draw, outlook, sizes
from noisyir.evaluation.pooled import PooledMeasure
from noisyir.evaluation.significance import Difference

NDCG = PooledMeasure("nDCG", 5)
MEASURES = [PooledMeasure(kind, depth) for kind in ("nDCG", "RR", "R", "P") for depth in (3, 5)]


def world(queries=40, documents=14, systems=3, seed=0, judge=2.0):
    """Pools of systems of rising quality, and what is right; of `judge` 0 the chances tell nothing."""
    rng = np.random.default_rng(seed)
    right = (rng.random((queries, documents)) < rng.beta(1, 2, (queries, 1))).astype(float)
    chance = 1 / (1 + np.exp(-(judge * (right - 0.5) + rng.normal(size=right.shape))))
    scores = [number * right + 2 * rng.random(right.shape) for number in range(systems)]
    heads = np.stack([np.argsort(-score, axis=1)[:, :5] for score in scores], axis=1)
    return Pools(np.ones(right.shape, bool), chance, np.zeros(right.shape, bool), heads), right


def session(pools, right, count, seed, measure=NDCG):
    drawing = draw(sizes(pools, measure), seed)
    judged = drawing.chances(drawing.priority < drawing.end_after(count))
    return corrected(pools, measure, drawing, right, judged, calibrated(pools, judged, right))


@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_a_judged_pool_has_the_usual_measure(measure):
    pools, right = world()
    pools.heads[0, 0, 3:] = -1  # a system that found three documents
    found = measure.values(right, pools.heads)
    qrels = {f"q{q}": {f"d{d}": int(right[q, d]) for d in range(right.shape[1])} for q in range(len(right))}
    for system in range(pools.heads.shape[1]):
        run = {
            f"q{q}": {f"d{d}": -r for r, d in enumerate(pools.heads[q, system]) if d >= 0} for q in range(len(right))
        }
        for metric in ir_measures.iter_calc([ir_measures.parse_measure(str(measure))], qrels, run):
            row = int(metric.query_id[1:])
            assert found[row, system] == pytest.approx(metric.value if right[row].any() else 0.0)


@pytest.mark.parametrize("kind", ["RR", "P"])
def test_the_value_of_chances_is_the_mean_over_worlds(kind):
    pools, _ = world(queries=3)
    measure, rng = PooledMeasure(kind, 5), np.random.default_rng(0)
    worlds = [measure.values((rng.random(pools.chance.shape) < pools.chance) * 1.0, pools.heads) for _ in range(4000)]
    assert measure.values(pools.chance, pools.heads) == pytest.approx(np.mean(worlds, axis=0), abs=0.03)


@pytest.mark.parametrize("judge", [2.0, 0.0, -2.0], ids=["good", "useless", "contrary"])
def test_intervals_hold_and_the_mean_is_right_whatever_the_judge_says(judge):
    pools, right = world(judge=judge)
    truth, means, held = NDCG.values(right, pools.heads).mean(axis=0), [], []
    weights = np.array([-1.0, 0.0, 1.0])
    for seed in range(100):
        found = session(pools, right, 120, seed)
        means.append(found.values.mean(axis=0))
        test = found.interval(weights)
        held.append(test.low <= weights @ truth <= test.high)
    error = np.std(means, axis=0) / np.sqrt(len(means))
    assert (np.abs(np.mean(means, axis=0) - truth) < 4 * error + 0.005).all()
    assert np.mean(held) >= 0.93


def test_all_documents_judged_leave_nothing_to_the_judge():
    pools, right = world(judge=-2.0)
    found = session(pools, right, right.size, 0)
    assert found.judgements == right.size and found.values == pytest.approx(NDCG.values(right, pools.heads))


def test_a_good_judge_makes_intervals_shorter_than_a_useless_one():
    half = {}
    for judge in (3.0, 0.0):
        tests = [session(*world(judge=judge), 100, seed).interval(np.array([0.0, 0.0, 1.0])) for seed in range(20)]
        half[judge] = np.mean([test.high - test.low for test in tests])
    assert half[3.0] < 0.85 * half[0.0]


def test_verdicts_that_are_all_alike_do_not_make_an_interval_of_no_width():
    pools, right = world()
    test = session(pools, np.zeros_like(right), 60, 0).interval(np.array([1.0, 0.0, 0.0]))
    assert test.high - test.low > 0.02


def test_documents_are_drawn_with_the_chances_that_are_told():
    pools, _ = world(queries=20)
    size, counts, told = sizes(pools, NDCG), np.zeros((20, 14)), np.zeros((20, 14))
    for seed in range(1500):
        drawing = draw(size, seed)
        end = drawing.end_after(60)
        counts += drawing.priority < end
        told += drawing.planned(end)
    assert np.abs(counts - told).max() / 1500 < 0.06


def test_what_follows_a_document_without_an_answer_does_not_count():
    drawing = Drawing(np.array([[2.0, 1.0, 0.5, 0.0]]), np.array([[0.1, 0.2, 0.4, np.inf]]))
    chances = drawing.chances(np.array([[True, False, True, True]]))
    assert chances.tolist() == [[0.4, 0.0, 0.0, 0.0]]
    assert drawing.chances(np.ones((1, 4), bool)).tolist() == [[1.0, 1.0, 1.0, 0.0]]  # the last is padding


def test_what_is_known_before_the_drawing_always_counts():
    pools, right = world()
    known = np.zeros(right.shape, bool)
    known[3, 5] = True
    drawing = draw(sizes(pools, NDCG, known), 0)
    judged = drawing.chances(known | (drawing.priority < drawing.end_after(10)))
    assert judged[3, 5] == 1.0


def test_an_unsure_verdict_is_as_the_judge_says():
    pools, right = world(queries=2)
    unsure = np.full(right.shape, np.nan)
    drawing = draw(sizes(pools, PooledMeasure("P", 5)), 0)
    judged, chance = np.ones(right.shape), pools.chance
    found = corrected(pools, PooledMeasure("P", 5), drawing, unsure, judged, chance)
    assert found.values == pytest.approx(PooledMeasure("P", 5).values(chance, pools.heads))


def test_the_outlook_tells_as_many_judgements_as_it_takes():
    pools, right = world(queries=120, judge=4.0)
    drawing = draw(sizes(pools, NDCG), 0)
    far, near = np.array([-1.0, 0.0, 1.0]), np.array([-1.0, 1.0, 0.0])
    told, closer = outlook(pools, NDCG, drawing, far), outlook(pools, NDCG, drawing, near)
    assert told.judgements and (closer.judgements or right.size) > told.judgements
    called = [session(pools, right, told.judgements, seed).interval(far).low > 0 for seed in range(20)]
    assert np.mean(called) > 0.5
    same = Pools(pools.pooled, pools.chance, pools.labelled, pools.heads[:, [0, 0]])
    assert outlook(same, NDCG, draw(sizes(same, NDCG), 0), np.array([-1.0, 1.0])) == (None, None)


def test_values_that_few_verdicts_correct_beyond_a_measures_range_are_shown_within_it():
    assert ruler._level(Difference(1.02, -0.3, 1.4, 0.1)) == ["1.000", "[0.000, 1.000]"]
    assert ruler._level(Difference(0.5, 0.4, 0.6, 0.1)) == ["0.500", "[0.400, 0.600]"]
