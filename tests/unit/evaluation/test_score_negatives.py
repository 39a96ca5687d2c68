"""score_negatives on a world whose relevant candidates are known: who is counted, and what of each judge."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from noisyir.base.errors import DataError
from noisyir.data.artifacts import HIDDEN, QRELS
from noisyir.evaluation.settings import ScoreNegativesParams
from noisyir.evaluation.stages.score_negatives import SCORE_NEGATIVES
from noisyir.mining.artifacts import CANDIDATES, VERDICTS
from noisyir.training.artifacts import NEGATIVES
from tests.refusals import refuses
from tests.world import table

QUERIES, DEPTH = 6, 10
FILTERS = ("max_score", "absolute_margin", "relative_margin", "max_positive_cosine", "triangle_1", "triangle_1.5")


def candidates(*, scored=True):
    """Query n ranks d0 to d9; scores are drawn at random, of vectors of random lengths."""
    rng = np.random.default_rng(0)
    drawn = [[float(rng.uniform(-1, 1)) for _ in range(3)] + [float(rng.uniform(0.5, 2)) for _ in range(3)]
             for _ in range(QUERIES * DEPTH)]  # fmt: skip
    scores = drawn if scored else [[None] * 6] * len(drawn)
    ids = [(f"q{n}", f"d{rank - 1}", rank, "own" if scored else None) for n in range(QUERIES)
           for rank in range(1, DEPTH + 1)]  # fmt: skip
    return table(CANDIDATES, [(*row, *values) for row, values in zip(ids, scores, strict=True)])


def hidden(*pairs):
    return table(HIDDEN, [(*pair, "positives", None) for pair in pairs])


def qrels(*rows):
    return table(QRELS, rows)


def negatives(*pairs):
    return table(NEGATIVES, [(*pair, 0.1, 0) for pair in pairs])


def verdicts(found):
    """A judge that was shown all candidates but those of query 0; its bound is 0.3."""
    rows = [(row["query_id"], row["doc_id"], row["score"]) for row in found.to_pylist() if row["query_id"] != "q0"]
    return table(VERDICTS, [(*pair, score, 0.3, score <= 0.3, "") for *pair, score in rows])


TRUTH = {
    "hidden": hidden(("q0", "d3"), ("q1", "d0"), ("q1", "d9"), ("q2", "elsewhere")),
    "qrels": qrels(("q0", "d4", 1), ("q0", "d5", 0), ("q1", "d0", 0), ("q3", "d7", 2), ("dev", "d1", 1)),
}
RELEVANT = {("q0", "d3"), ("q0", "d4"), ("q1", "d0"), ("q1", "d9"), ("q3", "d7")}


@pytest.fixture
def score(run_stage_on):
    """`score(tables, **params)`: {system: {measure: value}}."""

    def run(tables, **params):
        given = {"verdicts": {}, **TRUTH, **tables}
        rows = run_stage_on(SCORE_NEGATIVES, ScoreNegativesParams(**params), given)["mining_quality"].to_pylist()
        found = {}
        for row in rows:
            found.setdefault(row["system"], {})[row["measure"]] = row["value"]
        return found

    return run


def arrays(found):
    """The columns of the candidates, and which are relevant."""
    columns = {name: found[name].to_numpy() for name in found.column_names}
    keys = zip(columns["query_id"], columns["doc_id"], strict=True)
    return columns, np.array([key in RELEVANT for key in keys])


def test_hidden_and_judged_relevant_candidates_count_and_what_is_hidden_may_be_judged_irrelevant(score):
    found = score({"candidates": candidates()})
    assert found["candidates"] == {"count": 60, "queries": 6, "relevant": 5 / 60}
    assert "mined" not in found and set(found) == {"candidates", *FILTERS, "relative_margin_0.05"}


def test_what_nobody_judged_may_be_left_out_of_every_count(score):
    drawn = negatives(("q0", "d3"), ("q0", "d5"), ("q2", "d2"), ("q3", "d7"))
    given = {"candidates": candidates(), "negatives": drawn, "verdicts": {"sieve": verdicts(candidates())}}
    found = score(given, unjudged="unknown")
    assert found["candidates"] == {"count": 6, "queries": 3, "relevant": 5 / 6}
    assert found["mined"] == {"slots": 3, "false_negative_rate": 2 / 3}
    assert found["max_score"]["count"] == 6 and found["sieve"]["count"] == 3
    assert "AUROC" not in found["sieve"] and "lost" not in found["sieve"]  # nothing that it judged is irrelevant
    assert score(given)["mined"] == {"slots": 4, "false_negative_rate": 2 / 4}


def test_the_least_relevance_is_a_setting(score):
    found = score({"candidates": candidates()}, min_relevance=2)
    assert found["candidates"]["relevant"] == 4 / 60


def test_without_hidden_documents_the_judgements_are_the_truth(run_stage_on):
    given = {"candidates": candidates(), "verdicts": {}, "qrels": TRUTH["qrels"]}
    rows = run_stage_on(SCORE_NEGATIVES, ScoreNegativesParams(), given)["mining_quality"].to_pylist()
    assert [row["value"] for row in rows if row["measure"] == "relevant"] == [2 / 60]


def test_filters_are_ranked_by_their_own_signal(score):
    columns, relevant = arrays(candidates())
    found = score({"candidates": candidates()})
    score_, positive = (columns[name].astype(float) for name in ("score", "positive_score"))
    by_hand = {
        "max_score": score_,
        "absolute_margin": score_ - positive,
        "relative_margin": (score_ - positive) / abs(positive),
        "max_positive_cosine": columns["positive_similarity"] / (columns["positive_norm"] * columns["norm"]),
    }
    for name, signal in by_hand.items():
        assert found[name]["AUROC"] == pytest.approx(roc_auc_score(relevant, signal))
        assert found[name]["AP"] == pytest.approx(average_precision_score(relevant, signal))
        of_query = [average_precision_score(relevant[columns["query_id"] == q], signal[columns["query_id"] == q])
                    for q in ("q0", "q1", "q3")]  # fmt: skip
        assert found[name]["AP_query"] == pytest.approx(np.mean(of_query))
    drops = score_ > positive - 0.05 * abs(positive)
    expected = {"caught": drops[relevant].mean(), "lost": drops[~relevant].mean()}
    assert found["relative_margin_0.05"] == pytest.approx(expected)


def test_a_judge_is_measured_on_what_it_was_shown(score):
    columns, relevant = arrays(candidates())
    shown = columns["query_id"] != "q0"
    found = score({"candidates": candidates(), "verdicts": {"sieve": verdicts(candidates())}})["sieve"]
    values, relevant = columns["score"][shown], relevant[shown]
    assert found["count"] == 50
    assert found["AUROC"] == pytest.approx(roc_auc_score(relevant, values))
    assert found["caught"] == pytest.approx((values > 0.3)[relevant].mean())
    assert found["lost"] == pytest.approx((values > 0.3)[~relevant].mean())


def test_a_judges_bound_moves_its_scores_query_by_query(score):
    given = candidates()
    rows = [(f"q{n}", f"d{rank}", float(n), n + (0.5 if (f"q{n}", f"d{rank}") not in RELEVANT else -0.5), True, "")
            for n in range(QUERIES) for rank in range(DEPTH)]  # fmt: skip
    found = score({"candidates": given, "verdicts": {"sieve": table(VERDICTS, rows)}})["sieve"]
    assert found["AUROC"] == found["AP"] == 1 and found["caught"] == found["lost"] == 0


def test_candidates_without_scores_have_no_filters(score):
    found = score({"candidates": candidates(scored=False), "negatives": negatives(("q1", "d9"))})
    assert set(found) == {"candidates", "mined"} and found["mined"]["false_negative_rate"] == 1


def test_the_order_of_the_rows_does_not_matter(run_stage_on):
    given = {"candidates": candidates(), "verdicts": {"sieve": verdicts(candidates())}, **TRUTH}
    order = np.random.default_rng(1).permutation(QUERIES * DEPTH)
    other = {**given, "candidates": candidates().take(order), "verdicts": {"sieve": verdicts(candidates().take(order))}}
    one, two = (run_stage_on(SCORE_NEGATIVES, ScoreNegativesParams(), tables) for tables in (given, other))
    assert one["mining_quality"].equals(two["mining_quality"])


def test_no_candidates_and_none_relevant_leave_measures_out(score):
    nothing = {"hidden": HIDDEN.schema.empty_table(), "qrels": QRELS.schema.empty_table()}
    found = score({"candidates": candidates(), **nothing})
    assert found["candidates"]["relevant"] == 0 and found["max_score"] == {"count": 60}
    assert found["relative_margin_0.05"].keys() == {"lost"}
    empty = score({"candidates": candidates().slice(0, 0), "negatives": NEGATIVES.schema.empty_table(), **nothing})
    assert empty == {"candidates": {"count": 0, "queries": 0}, "mined": {"slots": 0}}


def test_verdicts_on_other_candidates_are_refused(score):
    strange = table(VERDICTS, [("x", "y", 0.0, 0.0, True, "")])
    with refuses(DataError, "evaluation.no_verdict_on_candidates", verdicts=1, judge="sieve"):
        score({"candidates": candidates(), "verdicts": {"sieve": strange}})
