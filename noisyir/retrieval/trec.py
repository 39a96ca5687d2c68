"""Runs and judgements as TREC files, in the order of our ranks and with ids free of spaces."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.retrieval.measures import query_sizes

# Ids may hold spaces, which a TREC file cannot: these characters are written as %XX.
_UNSAFE = {ord(char): quote(char) for char in "% \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u2028\u2029"}


def write_run(run: pa.Table, path: Path) -> None:
    """Write `query_id Q0 doc_id rank score noisyir` lines of a run in the order of `measures.ranked`.

    trec_eval ranks by score alone, so equal scores are lowered by the least float32 step to keep our order.
    """
    run = run.combine_chunks()
    scores = pa.array(strictly_falling(run["score"].to_numpy(), query_sizes(run)), pa.float32())
    columns = (_escaped(run["query_id"]), "Q0", _escaped(run["doc_id"]), run["rank"], scores, "noisyir")
    texts = [column if isinstance(column, str) else column.cast(pa.string()) for column in columns]
    lines = pc.binary_join_element_wise(*texts, " ")
    path.write_text("".join(f"{line}\n" for line in lines.to_pylist()), encoding="utf-8", newline="\n")


def write_qrels(judgements: Mapping[str, Mapping[str, int]], path: Path) -> None:
    """Write `query_id 0 doc_id relevance` lines, sorted."""
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for query_id, found in sorted(judgements.items()):
            out.writelines(
                f"{_escape(query_id)} 0 {_escape(doc_id)} {grade}\n" for doc_id, grade in sorted(found.items())
            )


def strictly_falling(scores: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Lower scores (float32) until each falls below its predecessor in the same query.

    `sizes` are rows of each query, in order.  float32 values, taken as integers in their own order, step by one.
    """
    steps = _ordinal(scores.astype(np.float32))
    place = np.arange(len(steps))
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        one = slice(end - size, end)
        steps[one] = np.minimum.accumulate(steps[one] + place[one]) - place[one]
    return _from_ordinal(steps)


def _ordinal(values: np.ndarray) -> np.ndarray:
    bits = (values + np.float32(0)).view(np.int32).astype(np.int64)  # + 0 makes the two zeros one
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _from_ordinal(steps: np.ndarray) -> np.ndarray:
    bits = np.where(steps < 0, (-steps) | 0x80000000, steps)
    return bits.astype(np.uint32).view(np.float32)


def _escape(name: str) -> str:
    return name.translate(_UNSAFE)


def _escaped(column: pa.ChunkedArray) -> pa.Array:
    coded = column.combine_chunks().dictionary_encode()
    names = pa.array([_escape(name) for name in coded.dictionary.to_pylist()], pa.string())
    return names.take(coded.indices)
