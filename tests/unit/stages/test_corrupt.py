"""Corruption changes exactly the asked share of training pairs, never to a document that is in truth relevant."""

import pyarrow as pa
import pytest

from noisyir.config import CorruptParams
from noisyir.errors import DataError
from noisyir.stages.corrupt import CORRUPT

PAIRS = 200
NO_ANSWERS = pa.table({"query_id": pa.array([], pa.string()), "aliases": pa.array([], pa.list_(pa.string()))})


def data(answers=NO_ANSWERS):
    """Query n has document n, and documents 2m and 2m + 1 have equal text; the last 20 queries are dev queries."""
    queries, docs = [f"q{n}" for n in range(PAIRS)], [f"d{n}" for n in range(PAIRS)]
    split = ["train"] * (PAIRS - 20) + ["dev"] * 20
    text = [f"word{n // 2} and more" for n in range(PAIRS)]
    also = {"query_id": ["q0"] * 50, "doc_id": docs[100:150], "relevance": [1] * 50}
    return {
        "pairs": pa.table({"query_id": queries, "doc_id": docs, "split": split}),
        "corpus": pa.table({"doc_id": docs, "doc_row": range(PAIRS), "title": [""] * PAIRS, "text": text}),
        "qrels": pa.table({"query_id": queries + also["query_id"], "doc_id": docs + also["doc_id"],
                           "relevance": [1] * PAIRS + also["relevance"]}),
        "answers": answers,
    }  # fmt: skip


def changed(pairs, noisy):
    return [
        (row["query_id"], now["doc_id"])
        for row, now in zip(pairs.to_pylist(), noisy.to_pylist(), strict=True)
        if row != now
    ]


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_exactly_the_asked_share_of_training_pairs_is_wrong(run_stage_on, rate):
    given = data()
    tables = run_stage_on(CORRUPT, CorruptParams(rate=rate), given)
    wrong = changed(given["pairs"], tables["noisy_pairs"])
    assert len(wrong) == round(rate * 180)
    truth = tables["noise_truth"].to_pylist()
    assert len(truth) == 180
    assert [(row["query_id"], row["doc_id"]) for row in truth if row["is_noisy"]] == wrong
    assert {row["kind"] for row in truth if row["is_noisy"]} == {"uniform"}
    pool = {f"d{n}" for n in range(180)}
    for query_id, doc_id in wrong:
        own = int(query_id[1:])
        assert int(doc_id[1:]) // 2 != own // 2, "same text as its own document"
        assert doc_id in pool, "drawn from the training positives"
        assert query_id != "q0" or doc_id not in {f"d{n}" for n in range(100, 150)}, "judged relevant"


def test_rate_0_changes_nothing(run_stage_on):
    given = data()
    tables = run_stage_on(CORRUPT, CorruptParams(rate=0), given)
    assert tables["noisy_pairs"].to_pylist() == given["pairs"].to_pylist()
    assert not any(tables["noise_truth"]["is_noisy"].to_pylist())


def test_the_seed_alone_decides(run_stage_on):
    first, again, other = (
        run_stage_on(CORRUPT, CorruptParams(rate=0.5), data(), seed=seed)["noisy_pairs"] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_document_that_holds_an_answer_is_not_wrong(run_stage_on):
    answers = pa.table({"query_id": [f"q{n}" for n in range(180)], "aliases": [["WORD3", "word4 and"]] * 180})
    tables = run_stage_on(CORRUPT, CorruptParams(rate=1), data(answers))
    assert not {"d6", "d7", "d8", "d9"} & set(tables["noise_truth"]["doc_id"].to_pylist())
    assert {"d60", "d61"} & set(tables["noise_truth"]["doc_id"].to_pylist()), "word30 is another token than word3"


def test_a_query_without_wrong_documents_is_an_error(run_stage_on):
    answers = pa.table({"query_id": ["q7"], "aliases": [["more"]]})
    with pytest.raises(DataError, match=r"lower noise\.rate"):
        run_stage_on(CORRUPT, CorruptParams(rate=1), data(answers))
