"""Candidates that judges do not keep: in which order, with what evidence, and what is refused."""

import pyarrow as pa
import pytest

from noisyir.audits.settings import SuspectsParams
from noisyir.audits.stages.audit_negatives import AUDIT_NEGATIVES
from noisyir.base.errors import DataError
from tests.refusals import refuses
from tests.unit.stages.suspects_world import COPY, suspect_tables


@pytest.fixture
def run(run_stage_on):
    def run(tables, **params):
        return run_stage_on(AUDIT_NEGATIVES, SuspectsParams(**params), tables)

    return run


def test_what_most_judges_drop_comes_first_with_the_evidence(run):
    copy, *others = run(suspect_tables())["audit_negatives"].to_pylist()
    assert [(row["query_id"], row["doc_id"]) for row in [copy, *others]] == [("q0", COPY), ("q1", "d2"), ("q0", "d2")]
    assert (copy["judges"], copy["kept_by"], copy["positive"]) == (["cross_encoder", "sieve"], [], "d0")
    assert (copy["judge_scores"], copy["judge_bounds"]) == (pytest.approx([0.95, 0.9]), pytest.approx([0.1, 0.5]))
    assert copy["positive_similarity"] == pytest.approx(3.8 / 4) and copy["rank"] == 4
    assert copy["overlap"] == pytest.approx(13 / 15)  # one of the fourteen words of each differs
    assert copy["reason"] == (
        "Scores 0.71, above its positive's 0.64; nearly the same words as the positive (87 % shared); "
        "not kept by cross_encoder (0.95, bound 0.10) and sieve (0.90, bound 0.50)."
    )
    assert copy["query"] == "what is topic0 made of" and copy["document"].startswith("Topic 0\nSome documents")
    split = others[1]
    assert (split["judges"], split["kept_by"]) == (["cross_encoder"], ["sieve"])
    assert split["reason"].endswith("; not kept by cross_encoder (0.30, bound 0.10), kept by sieve.")
    assert "scores 0.50, below its positive's 0.64" in split["reason"].lower()


def test_confidence_is_the_mean_share_of_each_judges_verdicts_that_lie_lower(run):
    found = {(row["query_id"], row["doc_id"]): row for row in run(suspect_tables())["audit_negatives"].to_pylist()}
    # The sieve judged 19: COPY is its highest, q1's d2 the next; the six at 0.2 lie above the five at 0.1.
    assert found["q0", COPY]["confidence"] == pytest.approx((18 / 19 + 3 / 4) / 2)
    assert found["q1", "d2"]["confidence"] == pytest.approx(17 / 19)
    assert found["q0", "d2"]["confidence"] == pytest.approx((5 / 19 + 2 / 4) / 2)


def test_what_training_drew_is_told_and_unknown_without_negatives(run):
    out = run(suspect_tables())
    assert [row["doc_id"] for row in out["audit_negatives"].to_pylist() if row["used"]] == ["d2"]
    assert out["audit_judges"].to_pylist() == [
        {"judge": "cross_encoder", "judged": 4, "against": 2, "used": 0},
        {"judge": "sieve", "judged": 19, "against": 2, "used": 1},
        {"judge": None, "judged": 19, "against": 3, "used": 1},
    ]
    without = run(suspect_tables(drawn=False))
    assert set(without["audit_negatives"]["used"].to_pylist()) == {None}
    assert set(without["audit_judges"]["used"].to_pylist()) == {None}


def test_without_vectors_the_positive_is_the_querys_own_and_the_reason_speaks_of_words(run):
    copy, *_ = run(suspect_tables(scored=False))["audit_negatives"].to_pylist()
    assert (copy["positive"], copy["score"], copy["positive_similarity"]) == ("d0", None, None)
    assert copy["reason"].startswith("Nearly the same words as the positive (87 % shared); not kept by ")


def test_only_so_many_are_shown_and_all_are_counted(run, store):
    out = run(suspect_tables(), negatives=1)
    assert out["audit_negatives"]["doc_id"].to_pylist() == [COPY]
    assert out["audit_judges"]["against"].to_pylist() == [2, 2, 3]
    (meta,) = [meta for meta in store.builds.all() if meta.stage == "audit_negatives"]
    assert meta.notes["suspects"] == {"judged": 19, "against": 3, "used": 1}


def backwards(given):
    return given.take(pa.array(range(given.num_rows)[::-1]))


def test_the_order_of_rows_and_judges_changes_nothing(run):
    tables = suspect_tables()
    expected = run(tables)
    verdicts = {name: backwards(given) for name, given in reversed(tables["verdicts"].items())}
    turned = {name: backwards(given) for name, given in tables.items() if name != "verdicts"}
    found = run(turned | {"verdicts": verdicts})
    assert all(found[name].equals(expected[name]) for name in expected)


def test_judges_that_keep_everything_leave_an_empty_table(run):
    tables = suspect_tables()
    tables["verdicts"] = {
        name: own.set_column(4, "keep", pa.repeat(True, own.num_rows)) for name, own in tables["verdicts"].items()
    }
    out = run(tables)
    assert out["audit_negatives"].num_rows == 0
    assert out["audit_judges"].to_pylist()[-1] == {"judge": None, "judged": 19, "against": 0, "used": 0}


def test_a_vector_of_zeros_is_like_nothing(run):
    tables = suspect_tables()
    tables["candidates"] = tables["candidates"].set_column(9, "norm", pa.array([0.0] * 19, pa.float32()))
    assert set(run(tables)["audit_negatives"]["positive_similarity"].to_pylist()) == {0.0}


def test_what_does_not_fit_together_is_refused(run):
    tables = suspect_tables()
    fewer = tables["candidates"].slice(0, 18)
    with refuses(DataError, "audits.verdicts_of_no_candidates", n_verdicts=2):
        run(tables | {"candidates": fewer})
    with refuses(DataError, "audits.candidates_without_text", n_missing=1, kind="documents"):
        run(tables | {"corpus": tables["corpus"].slice(0, 6)})
    with refuses(DataError, "audits.candidates_without_text", n_missing=1, kind="queries"):
        run(tables | {"queries": tables["queries"].slice(0, 1)})
    with refuses(DataError, "audits.no_judge_verdicts"):
        run(tables | {"verdicts": {}})
