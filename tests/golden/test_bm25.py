"""Lucene's BM25, spelt as arithmetic: Kamphuis et al., ECIR 2020, Table 1, "Lucene (accurate)"."""

from math import log

import pyarrow as pa
import pytest

from noisyir.engine.runtime import Runtime
from noisyir.retrieval.bm25 import build_lexical_index, open_lexical_index
from noisyir.retrieval.settings import Bm25Params

DOCS = ["cat cat dog", "cat bird", "fish fish fish fish bird", "dog"]  # lengths 3, 2, 5, 1: 11 terms in 4 documents


@pytest.mark.parametrize("engine", ["pyserini", "bm25s"])
def test_score_is_idf_times_saturated_frequency(tmp_path, engine):
    batch = pa.record_batch({"doc_id": ["0", "1", "2", "3"], "title": [""] * 4, "text": DOCS})
    build_lexical_index(engine, [batch], tmp_path, Runtime(threads=1))
    hits = open_lexical_index(tmp_path, Bm25Params(k1=1.2, b=0.5), Runtime(threads=1)).search(["cat dog", "bird"], 10)

    cat = dog = bird = log(1 + (4 - 2 + 0.5) / (2 + 0.5))  # each is in 2 of 4 documents
    cat_dog = {
        "0": cat * 2 / (2 + 1.2 * (1 - 0.5 + 0.5 * 3 / 2.75)) + dog * 1 / (1 + 1.2 * (1 - 0.5 + 0.5 * 3 / 2.75)),
        "3": dog * 1 / (1 + 1.2 * (1 - 0.5 + 0.5 * 1 / 2.75)),
        "1": cat * 1 / (1 + 1.2 * (1 - 0.5 + 0.5 * 2 / 2.75)),
    }
    only_bird = {
        "1": bird * 1 / (1 + 1.2 * (1 - 0.5 + 0.5 * 2 / 2.75)),
        "2": bird * 1 / (1 + 1.2 * (1 - 0.5 + 0.5 * 5 / 2.75)),
    }
    assert hits.counts.tolist() == [3, 2]
    assert hits.doc_ids.to_pylist() == [*cat_dog, *only_bird]
    assert hits.scores.tolist() == pytest.approx([*cat_dog.values(), *only_bird.values()], abs=6e-5)  # 4 decimals
