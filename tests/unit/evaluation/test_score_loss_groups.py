"""score_loss_groups on vectors whose similarities can be counted by hand."""

import numpy as np
import pytest
import torch

from noisyir.base.errors import DataError
from noisyir.data.artifacts import HIDDEN, NOISY_PAIRS
from noisyir.evaluation.settings import ScoreLossGroupsParams
from noisyir.evaluation.stages.score_loss_groups import SCORE_LOSS_GROUPS
from noisyir.mining.artifacts import CANDIDATES
from tests.refusals import refuses
from tests.tiny_models import static_encoder
from tests.world import pairs_world, table

COUNT = 20


def world():
    """Query n is word n, as is its own document; of its candidates the first is half that word, and is hidden."""
    twins = {f"twin{n}": f"w{n} w{(n + 1) % COUNT}" for n in range(COUNT)}
    candidates = [(f"q{n}", f"twin{(n + by) % COUNT}", rank) for n in range(COUNT) for rank, by in ((1, 0), (2, 5))]
    return pairs_world(
        "queries corpus pairs",
        {**{f"q{n}": f"w{n}" for n in range(COUNT)}, "dev": "w3"},
        {**{f"d{n}": f"w{n}" for n in range(COUNT)}, **twins},
        splits={"dev": "dev"},
        pairs=[*((f"q{n}", f"d{n}") for n in range(COUNT)), ("dev", "d3")],
    ) | {
        "candidates": table(CANDIDATES, candidates),
        "hidden": table(HIDDEN, [(f"q{n}", f"twin{n}", "near_duplicates", 0.5) for n in range(COUNT)]),
    }


@pytest.fixture
def losses(run_stage_on, tmp_path):
    """`losses(tables, **params)`: {(group, measure): value} without the histograms, and the whole table."""
    static_encoder(torch.eye(COUNT)).save(tmp_path / "model")

    def run(tables, *, seed=0, **params):
        given = {"model": tmp_path / "model", **tables}
        out = run_stage_on(SCORE_LOSS_GROUPS, ScoreLossGroupsParams(**params), given, seed=seed)["loss_groups"]
        values = {(r["group"], r["measure"]): r["value"] for r in out.to_pylist() if r["measure"] != "share"}
        return values, out

    return run


def test_losses_are_those_of_the_softmax_over_the_querys_pool(losses):
    found, _ = losses(world(), scale=3.0, in_batch=0)
    pool = np.array([1.0, np.sqrt(0.5), 0.0])  # cosines with its own document, the twin, another's twin
    expected = np.log(np.exp(3 * pool).sum()) - 3 * pool
    for group, value in zip(("positive", "false", "hard"), expected, strict=True):
        assert found[group, "mean"] == pytest.approx(value, rel=1e-5)
        assert found[group, "count"] == COUNT
    assert found["in_batch", "count"] == 0 and ("in_batch", "mean") not in found
    assert found["false", "auroc"] == 1


def test_passages_of_other_queries_are_no_ones_own_or_candidate_and_widen_the_pool(losses):
    found, _ = losses(world(), scale=3.0, in_batch=100)  # more than there are: all of them
    assert found["in_batch", "count"] == COUNT * (COUNT - 1)
    pool = np.array([1.0, np.sqrt(0.5)] + [0.0] * COUNT)
    assert found["positive", "mean"] == pytest.approx(np.log(np.exp(3 * pool).sum()) - 3, rel=1e-5)
    hiding = world()
    hiding["hidden"] = table(HIDDEN, [("q0", f"d{n}", "positives", None) for n in range(1, 8)])
    found, _ = losses(hiding, in_batch=100)
    assert found["in_batch", "count"] == COUNT * (COUNT - 1) - 7


def test_without_hidden_documents_all_candidates_are_hard(losses):
    given = world()
    del given["hidden"]
    found, _ = losses(given, in_batch=3)
    assert (found["hard", "count"], found["false", "count"]) == (2 * COUNT, 0)
    assert ("false", "auroc") not in found and COUNT < found["in_batch", "count"] <= 3 * COUNT


def test_a_pair_of_the_query_is_no_negative_even_if_it_is_a_candidate(losses):
    given = world()
    more = [(f"q{n}", f"twin{(n + 5) % COUNT}", "train", None) for n in range(COUNT)]
    given["pairs"] = table(NOISY_PAIRS, [(f"q{n}", f"d{n}", "train", None) for n in range(COUNT)] + more)
    found, _ = losses(given, in_batch=0)
    assert found["hard", "count"] == 0 and found["positive", "count"] == COUNT


def test_few_queries_are_drawn_by_the_seed_and_not_by_the_order_of_the_rows(losses):
    given, shuffled = world(), {}
    for name, rows in given.items():
        shuffled[name] = rows.take(np.random.default_rng(3).permutation(len(rows)))
    (found, one), (_, two), (_, other) = (
        losses(tables, seed=seed, queries=5, in_batch=4) for tables, seed in ((given, 1), (shuffled, 1), (given, 2))
    )
    assert found["positive", "count"] == 5
    assert one.equals(two) and not one.equals(other)


def test_candidates_of_queries_without_pairs_are_refused(losses):
    given = world()
    given["pairs"] = table(NOISY_PAIRS, [("dev", "d3", "dev", None)])
    with refuses(DataError, "evaluation.no_candidate_with_pair", queries=20):
        losses(given)
