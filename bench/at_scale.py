"""How much memory a process takes for many documents, each stage in a process of its own on made-up data.

    python bench/at_scale.py encode 1000000                   # a static model over so many documents of twelve words
    python bench/at_scale.py search 1000000 --dim 128 --whole # exact, in parts, and in one file
    python bench/at_scale.py search 10000000 --dim 128
    python bench/at_scale.py search 10000000 --dim 64 --factory IVF4096,PQ32   # lists that are filled in pieces

Beside the memory that a process has of its own at its peak (RssAnon of /proc) stands how much it maps of files at its
peak, which the kernel takes back when it wants (RssFile: libraries, vectors), looked at every 20 ms.
"""

import argparse
import multiprocessing
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa

from noisyir.base.settings import Params
from noisyir.data.artifacts import CORPUS, QUERIES
from noisyir.engine.build_stage import run_stage
from noisyir.engine.meta import Meta
from noisyir.engine.plan import Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Job, Stage, Step
from noisyir.engine.store import Store
from noisyir.models.artifacts import MODEL
from noisyir.retrieval import index
from noisyir.retrieval.artifacts import DOC_VECTORS, QUERY_VECTORS
from noisyir.retrieval.settings import EncodeParams, IndexParams, SearchParams
from noisyir.retrieval.stages.encode import ENCODE
from noisyir.retrieval.stages.index import INDEX
from noisyir.retrieval.stages.search import SEARCH

_AT_ONCE, _ASKED, _WORDS = 65536, 1000, 20000


class Given(Params):
    """How much is made up."""

    rows: int
    dim: int = 0
    dtype: str = "float32"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["encode", "search"])
    parser.add_argument("rows", type=int)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--dtype", choices=["float32", "float16"], default="float32", help="of the stored vectors")
    parser.add_argument("--factory", default="Flat", help="FAISS's name of the index")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--folder", help="for the store, which is deleted (default: the temporary one)")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="at-scale-", dir=asked.folder))
    try:
        if asked.what == "encode":
            _run(_encode_plan(asked.rows), folder)
        else:
            found = _run(_search_plan(asked), folder)
            if asked.whole:
                print("in one file:")
                again = _run(_search_plan(asked), folder / "whole", rows_a_part=10**12)
                same = found["search"].artifacts["dense_run"] == again["search"].artifacts["dense_run"]
                print("the runs are equal, bit for bit" if same else "THE RUNS DIFFER")
    finally:
        shutil.rmtree(folder)


def _run(plan: Plan, folder: Path, rows_a_part: int = index.ROWS_A_PART) -> dict[str, Meta]:
    """The plan's builds by stage; prints what each took."""
    metas: dict[str, Meta] = {}
    print(f"{'stage':<14}{'rows':>12}{'seconds':>9}{'MB of files':>13}{'MB its own':>12}{'mapped':>9}")
    for step in plan.steps:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(
            target=_build, args=(step, metas, folder, rows_a_part, theirs)
        )
        process.start()
        process.join()
        assert process.exitcode == 0
        (metas[step.name],) = _store(folder).builds.of_key(step.stage.name, step.key)
        meta, (own, mapped) = metas[step.name], ours.recv()
        rows = max((contents.rows or 0 for contents in meta.artifacts.values()), default=0)
        numbers = f"{rows:>12,}{meta.seconds:>9.0f}{meta.size / 1e6:>13,.0f}{own / 1e6:>12,.0f}{mapped / 1e6:>9,.0f}"
        print(f"{step.name:<14}{numbers}", flush=True)
    return metas


def _build(step: Step, metas: dict[str, Meta], folder: Path, rows_a_part: int, tell: Connection) -> None:
    index.ROWS_A_PART = rows_a_part
    inputs = {name: metas[output.step].ref(output.artifact) for name, output in step.inputs.items()}
    peaks = [0, 0]
    threading.Thread(target=_watch, args=(peaks,), daemon=True).start()
    run_stage(step, inputs, store=_store(folder), runtime=Runtime(device="cpu"))
    tell.send(peaks)


def _watch(peaks: list[int]) -> None:
    """Keep the most bytes of its own, and mapped of files, that this process has had."""
    while True:
        lines = Path("/proc/self/status").read_text().splitlines()
        found = {name: int(value.split()[0]) * 1024 for name, _, value in (line.partition(":") for line in lines)
                 if name in ("RssAnon", "RssFile")}  # fmt: skip
        peaks[:] = [max(peaks[0], found["RssAnon"]), max(peaks[1], found["RssFile"])]
        time.sleep(0.02)


def _store(folder: Path) -> Store:
    return Store(folder / "store", home=folder)


def _encode_plan(rows: int) -> Plan:
    plan, given = Plan(0), Given(rows=rows)
    texts = plan.add(_source("texts", {"corpus": CORPUS, "queries": QUERIES}, _texts), given)
    model = plan.add(_source("model", {"model": MODEL}, _model), given)
    plan.add(ENCODE, EncodeParams(), **texts, **model)
    return plan


def _search_plan(asked: argparse.Namespace) -> Plan:
    plan, given = Plan(0), Given(rows=asked.rows, dim=asked.dim, dtype=asked.dtype)
    made = {"doc_vectors": DOC_VECTORS, "query_vectors": QUERY_VECTORS, "corpus": CORPUS}
    vectors = plan.add(_source("vectors", made, _vectors), given)
    index = plan.add(INDEX, IndexParams(factory=asked.factory), doc_vectors=vectors["doc_vectors"])
    others = {name: vectors[name] for name in ("query_vectors", "corpus")}
    plan.add(SEARCH, SearchParams(), **index, **others)
    return plan


def _source(name: str, writes: dict, run) -> Stage:  # noqa: ANN001
    return Stage(name, 1, Given, {}, writes, run)


def _blocks(rows: int) -> Iterator[tuple[int, int]]:
    return ((first, min(_AT_ONCE, rows - first)) for first in range(0, rows, _AT_ONCE))


def _texts(job: Job[Given]) -> None:
    rng = np.random.default_rng(0)
    with job.writer("corpus") as out:
        for first, count in _blocks(job.params.rows):
            out.append(_documents(first, count, [" ".join(f"word{n}" for n in row) for row in _drawn(rng, count)]))
    asked = [" ".join(f"word{n}" for n in row[:3]) for row in _drawn(rng, _ASKED)]
    ids = [f"q{n}" for n in range(_ASKED)]
    job.write("queries", pa.table({"query_id": ids, "text": asked, "split": ["test"] * _ASKED}))


def _drawn(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.integers(0, _WORDS, (count, 12))


def _documents(first: int, count: int, texts: list[str]) -> pa.Table:
    rows = range(first, first + count)
    columns = {"doc_id": [f"d{row}" for row in rows], "doc_row": pa.array(rows, pa.int32())}
    return pa.table({**columns, "title": [""] * count, "text": texts})


def _model(job: Job[Given]) -> None:
    from noisyir.models.bi_encoder import initial_bi_encoder
    from noisyir.models.settings import InitModelParams
    from noisyir.models.weights import locate_weights

    initial_bi_encoder(locate_weights("minilm"), InitModelParams()).save(job.new_folder("model"))


def _vectors(job: Job[Given]) -> None:
    rng = np.random.default_rng(0)
    draw = partial(rng.standard_normal, dtype=np.float32)
    with job.writer("doc_vectors") as out, job.writer("corpus") as corpus:
        for first, count in _blocks(job.params.rows):
            vectors = draw((count, job.params.dim))
            vectors[-count // 8 :] = vectors[: -(-count // 8)]  # equal ones, so that scores are
            rows = pa.array(range(first, first + count), pa.int32())
            out.append(pa.table({"doc_row": rows, "vector": _fixed(vectors.astype(job.params.dtype))}))
            corpus.append(_documents(first, count, [""] * count))
    ids = [f"q{n}" for n in range(_ASKED)]
    job.write("query_vectors", pa.table({"query_id": ids, "vector": _fixed(draw((_ASKED, job.params.dim)))}))


def _fixed(vectors: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])


if __name__ == "__main__":
    main()
