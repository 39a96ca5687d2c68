"""What a backend of encoding costs in nDCG@10: an untrained MiniLM on labelled sets, each backend beside torch in fp32.

    python -m bench.encode_backends FOLDER FOLDER FILE --record      # sets as noisyir reads them

Vectors are made and searched by noisyir's own stages; a query's value is compared with its value under torch's fp32.
"""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.records_by_kind import RecordsByKind
from bench.speed.stages import READS, build, collection, read, rows_of
from bench.tables import record
from noisyir.data.formats import Format
from noisyir.data.recognise import recognise
from noisyir.engine.plan import Plan
from noisyir.engine.store import Store
from noisyir.evaluation.comparison import difference
from noisyir.models.settings import InitModelParams
from noisyir.retrieval.artifacts import DENSE_RUN
from noisyir.retrieval.measures import judged, per_query, ranked
from noisyir.retrieval.settings import EncodeParams, IndexParams, SearchParams
from noisyir.retrieval.stages.encode import ENCODE
from noisyir.retrieval.stages.index import INDEX
from noisyir.retrieval.stages.search import SEARCH

MEASURE, MOST_QUERIES = "nDCG@10", 2000
WAYS: Mapping[str, Mapping[str, str]] = {
    "torch, fp32": {},
    "torch, bf16": {"precision": "bf16"},
    "openvino, bf16": {"backend": "openvino", "precision": "bf16"},
    "openvino-qint8": {"backend": "openvino-qint8"},
    "openvino-qint8, rest in bf16": {"backend": "openvino-qint8", "precision": "bf16"},
}
_HEAD = ["set", "documents", "queries", "backend", MEASURE, "less fp32's", "95 % interval", "in percent of fp32's"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--record", action="store_true", help="write benchmarks/encode_backends.json")
    asked = parser.parse_args()
    rows, means = [_HEAD], {}
    for path in asked.sets:
        found = measured(path)
        name = path.name if path.is_dir() else f"{path.parent.name}/{path.stem}"
        means[name] = {way: float(values.mean()) for way, values in found["values"].items()}
        rows += lines(name, found)
        print(*(" | ".join(row) for row in rows[-len(WAYS) :]), sep="\n", flush=True)
    if asked.record:
        claim = "What encoding by another backend changes in nDCG@10, by query, of an untrained all-MiniLM-L6-v2."
        print(record("encode_backends", rows, left=4, claim=claim, means=means))


def measured(path: Path) -> dict[str, Any]:
    """Each query's nDCG@10 under each way, and how many documents and queries there are."""
    given = tables(path)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store", home=Path(folder))
        values = {name: _values(store, given, EncodeParams(splits=("test",), **way)) for name, way in WAYS.items()}
    return {"values": values, "documents": len(given["corpus"]), "queries": len(given["queries"])}


def tables(path: Path) -> dict[str, pa.Table]:
    """A set's documents, and at most so many of its judged queries that are not for training."""
    data = RecordsByKind(Format.parse(recognise(str(path.resolve()))).open())
    documents = [(one.doc_id, row, one.title, one.text) for row, one in enumerate(data.documents())]
    relevant = [one for one in data.judgements if one.relevance is None or one.relevance >= 1]
    relevant = [one for one in relevant if one.split != "train"] or relevant
    asked = np.unique([one.query_id for one in relevant])
    asked = set(np.random.default_rng(0).permutation(asked)[:MOST_QUERIES].tolist())
    queries = [(one.query_id, one.text, "test") for one in data.queries if one.query_id in asked]
    qrels = [(one.query_id, one.doc_id, one.relevance or 1) for one in relevant if one.query_id in asked]
    known = {"corpus": documents, "queries": queries, "qrels": qrels}
    empty = {name: artifact.schema.empty_table() for name, artifact in READS.items() if name not in known}
    return empty | {name: rows_of(READS[name], rows) for name, rows in known.items()}


def _values(store: Store, given: Mapping[str, pa.Table], params: EncodeParams) -> np.ndarray:
    plan = Plan(0)
    data = collection(plan, given, InitModelParams(backbone="transformer"))
    texts = {name: data[name] for name in ("model", "corpus", "queries")}
    vectors = plan.add(ENCODE, params, **texts)
    index = plan.add(INDEX, IndexParams(), doc_vectors=vectors["doc_vectors"])
    asked = {"query_vectors": vectors["query_vectors"], "corpus": data["corpus"]}
    plan.add(SEARCH, SearchParams(top_k=10), **asked, **index)
    done, _ = build(plan, store, set())
    run = read(store, done["search"], DENSE_RUN)
    judgements = judged(given["qrels"], given["queries"]["query_id"].to_pylist())
    found = per_query(ranked(run, list(judgements)), judgements, [MEASURE])
    return found.sort_by("query_id")["value"].to_numpy()


def lines(name: str, found: Mapping[str, Any]) -> list[list[str]]:
    """A line for each way, the first of them being what the others are compared with."""
    first, *others = found["values"].items()
    about = [name, f"{found['documents']:,}", f"{found['queries']:,}"]
    rows = [[*about, first[0], f"{first[1].mean():.4f}", "", "", ""]]
    for way, values in others:
        tested = difference((values - first[1])[:, None], None, 0.95)
        interval = f"[{tested['difference_low']:+.4f}, {tested['difference_high']:+.4f}]"
        share = f"{100 * tested['difference'] / first[1].mean():+.2f} %"
        rows.append([*about, way, f"{values.mean():.4f}", f"{tested['difference']:+.4f}", interval, share])
    return rows


if __name__ == "__main__":
    main()
