"""Documents that fit better than a pair's own."""

import pyarrow as pa
import pytest

from noisyir.audits.pair_evidence import better_documents, first_of_each
from noisyir.detection.artifacts import COMPETITORS
from tests.world import table


def test_better_documents_are_those_above_the_pairs_own():
    kind = pa.schema([pa.field(name, kind, True) for name, kind in COMPETITORS.columns.items()])
    rows = table(COMPETITORS, [("q", "d", 0.5, 3, ["a", "b", "c"], [0.9, 0.6, 0.5]), ("r", "e", 0.8, 1, ["a"], [0.1])])
    rows = pa.concat_tables([rows.cast(kind), pa.Table.from_pylist([{"query_id": "s"}], schema=kind)])
    ids, similarities = better_documents(rows)
    assert ids.to_pylist() == [["a", "b"], [], []]
    assert [pytest.approx(found) for found in similarities.to_pylist()] == [[0.9, 0.6], [], []]
    assert first_of_each(ids, 1).to_pylist() == [["a"], [], []]
    assert first_of_each(ids.slice(1), 1).to_pylist() == [[], []]
