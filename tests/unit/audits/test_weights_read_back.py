"""What `audit --apply` writes, the next verb reads: weights, titles, sources and ids, in every format of rows."""

import pytest

from noisyir.audits.pairs_to_clean import FileOfPairs, PairChanges
from noisyir.data.containers import write_rows
from noisyir.data.formats import Format
from noisyir.data.recognise import recognise
from noisyir.data.stages.ingest import GIVEN, INGEST

SHAPES = {
    "pairs": lambda query, document: {"query": query, "document": document},
    "anchors": lambda query, document: {"anchor": query, "positive": document},
    "sentences": lambda query, document: {"sentence1": query, "sentence2": document},
    "lists": lambda query, document: {"query": query, "pos": [document, f"{document} again"], "neg": ["other"]},
}
ROWS = [(f"what is {n}", f"{n} is a number") for n in range(3)]
OWN = {"title": "A title", "source": "a book"}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_weights_of_a_cleaned_file_are_those_that_training_reads(tmp_path, run_stage_on, shape, suffix):
    nested = shape == "lists"
    if nested and suffix == ".csv":
        pytest.skip("lists in cells are read, and rewritten as JSON")
    own = {} if nested else OWN
    write_rows(tmp_path / f"x{suffix}", iter([SHAPES[shape](*row) | own for row in ROWS]), nested=nested)
    source = Format.parse(recognise(str(tmp_path / f"x{suffix}"))).open()
    numbers = sorted({number for number, _ in FileOfPairs(source).pairs()})
    weights = {number: [0.25 * place, 1.0][: 1 + nested] for place, number in enumerate(numbers)}
    FileOfPairs(source).write(tmp_path / f"x.cleaned{suffix}", PairChanges({}, weights))
    data = Format.parse(recognise(str(tmp_path / f"x.cleaned{suffix}")))
    pairs = run_stage_on(INGEST, data, {})["pairs"]
    assert data.has_weights
    found = run_stage_on(GIVEN, data, {"pairs": pairs.append_column("epoch", pairs["split"])})["given_weights"]
    assert sorted(found["weight"].to_pylist()) == sorted(number for of_row in weights.values() for number in of_row)
    assert set(pairs["source"].to_pylist()) == {None if nested else "a book"}
