"""Whatever Python has pairs in becomes the same file, and what cannot be pairs is refused in a line."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, DatasetDict

from noisyir.base.errors import DataError
from noisyir.front.api.given import as_file, as_table, documents_file
from tests.refusals import refuses

ROWS = [("q one", "d one"), ("q two", "d two"), ("q three", "d one")]
COLUMNS = {"query": [query for query, _ in ROWS], "document": [document for _, document in ROWS]}
TABLE = pa.table(COLUMNS)


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        tuple(map(list, ROWS)),
        iter(ROWS),
        TABLE.to_pylist(),
        TABLE,
        pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
        Dataset.from_dict(COLUMNS),
        Dataset.from_dict({name: list(reversed(values)) for name, values in COLUMNS.items()}).select([2, 1, 0]),
        pd.DataFrame(COLUMNS, index=["x", "y", "z"]),
    ],
    ids=["tuples", "lists", "iterator", "dicts", "table", "chunks", "dataset", "selected", "pandas"],
)
def test_equal_rows_are_equal_tables_in_their_order(rows):
    assert as_table(rows, "pairs").to_pylist() == TABLE.to_pylist()


def test_equal_rows_are_one_file_and_others_another(tmp_path):
    first = as_file(ROWS, tmp_path, "pairs")
    assert as_file(TABLE, tmp_path, "pairs") == first == as_file(TABLE.to_pylist(), tmp_path, "pairs")
    assert as_file(ROWS[:2], tmp_path, "pairs") != first
    assert pq.read_table(first).to_pylist() == TABLE.to_pylist()
    assert not list((tmp_path / "given").glob(".writing-*"))


def test_a_path_stays_as_it_is(tmp_path):
    assert as_file(tmp_path / "pairs.csv", tmp_path, "pairs") == str(tmp_path / "pairs.csv")
    assert as_file("demo", tmp_path, "pairs") == "demo"


def test_keys_that_some_dicts_lack_are_empty_there():
    assert as_table([{"query": "a"}, {"query": "b", "weight": 0.5}], "pairs")["weight"].to_pylist() == [None, 0.5]


def test_a_missing_value_of_pandas_is_none():
    frame = pd.DataFrame({"verdict": ["wrong", np.nan, None]})
    assert as_table(frame, "judgements")["verdict"].to_pylist() == ["wrong", None, None]


def test_documents_may_be_a_mapping(tmp_path):
    path = documents_file({"d1": "one", "d2": "two"}, tmp_path)
    assert pq.read_table(path).to_pylist() == [{"doc_id": "d1", "text": "one"}, {"doc_id": "d2", "text": "two"}]
    assert documents_file(None, tmp_path) is None


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "has no rows"),
        (["a", "b"], r"row 0 must be \(query, document\), found 'a'"),
        ([("a", "b"), ("a", "b", "c")], "row 1 must be"),
        ([("a", "b"), {"query": "a"}], "row 1 must be"),
        (5, "a int is no table of pairs"),
        ({"query": ["a"]}, "a dict is no table of pairs"),
        ([("a", "b"), ("c", 3)], "several types"),
        (
            DatasetDict({"train": Dataset.from_dict(COLUMNS)}),
            r"a DatasetDict of train: give one of them, such as \['train",
        ),
    ],
)
def test_what_is_no_table_is_refused_in_a_line(rows, said):
    with pytest.raises(DataError, match=said) as error:
        as_table(rows, "pairs")
    assert "\n" not in str(error.value)


def test_a_list_of_texts_is_no_corpus(tmp_path):
    with refuses(DataError, "front.corpus_without_ids"):
        documents_file(["one", "two"], tmp_path)
