"""The bm25 stage against raw Pyserini: the same index, queries and threads, by turns in one process.

    python bench/bm25_vs_pyserini.py ../shared/data/beir/nfcorpus

Pyserini's time is that of `LuceneSearcher.batch_search` alone, which returns Java objects; ours is that of the whole
stage: search, ranks and scores as a table, its checks, Parquet, publication.  Both rankings are compared hit by hit.
CPU seconds (of all threads, Java's too) tell on a busy machine what the clock cannot.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from noisyir.engine.build_stage import run_stage
from noisyir.engine.plan import Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Job, Stage, Step
from noisyir.engine.store import Store
from noisyir.engine.tables import read_parts
from noisyir.retrieval.java import java_class
from noisyir.retrieval.settings import Bm25IndexParams, Bm25Params
from noisyir.schemas.data import CORPUS, QUERIES
from noisyir.settings import Params
from noisyir.stages.retrieval.bm25 import BM25, BM25_INDEX

TOP_K, RUNTIME = 100, Runtime()


class NoParams(Params):
    pass


def read_collection(folder: Path, times: int) -> dict[str, pa.Table]:
    docs = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    asked = {line.split("\t")[0] for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]}
    lines = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    queries = [(f"{q['_id']}-{n}", q["text"], "test") for n in range(times) for q in lines if q["_id"] in asked]
    corpus = [(d["_id"], row, d["title"], d["text"]) for row, d in enumerate(docs)]
    return {
        "corpus": pa.table(list(zip(*corpus, strict=True)), schema=CORPUS.schema),
        "queries": pa.table(list(zip(*queries, strict=True)), schema=QUERIES.schema),
    }


def prepare(plan: Plan, store: Store, tables: dict[str, pa.Table]) -> Step:
    """Index the corpus, and return the bm25 step ready to run."""

    def publish(job: Job[NoParams]) -> None:
        for name, table in tables.items():
            job.write(name, table)

    source = Stage("collection", 1, NoParams, {}, {"corpus": CORPUS, "queries": QUERIES}, publish)
    data = plan.add(source, NoParams())
    lexical = plan.add(BM25_INDEX, Bm25IndexParams(), corpus=data["corpus"])
    plan.add(BM25, Bm25Params(top_k=TOP_K, splits=("test",)), queries=data["queries"], **lexical)
    refs: dict[str, Any] = {}
    for step in plan.steps[:-1]:
        inputs = {name: refs[output.step].ref(name) for name, output in step.inputs.items()}
        refs[step.name] = run_stage(step, inputs, store=store, runtime=RUNTIME).meta
    last = plan.steps[-1]
    given = {name: refs[output.step].ref(name) for name, output in last.inputs.items()}
    return replace(last, inputs=MappingProxyType(given))


def raw_searcher(index: Path) -> Any:
    os.environ.setdefault("OPENAI_API_KEY", "unused")  # pyserini builds a client when it is imported
    from pyserini.search.lucene import LuceneSearcher

    searcher = LuceneSearcher(str(index))
    searcher.set_bm25(Bm25Params().k1, Bm25Params().b)
    return searcher


def seconds(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """(by the clock, of CPU, result)"""
    clock, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - clock, time.process_time() - cpu, result


def same_ranking(table: pa.Table, raw: dict[str, Any], sample: int) -> int:
    """How many of the first `sample` queries' hits were compared; AssertionError where one differs."""
    ours: dict[str, list[tuple[str, float]]] = {}
    for row in table.slice(0, sample * TOP_K).to_pylist():
        ours.setdefault(row["query_id"], []).append((row["doc_id"], row["score"]))
    for query_id in list(ours)[:-1]:  # the slice may cut the last
        assert ours[query_id] == [(hit.docid, hit.score) for hit in raw[query_id]], query_id
    return sum(map(len, ours.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", type=Path, help="a folder in BEIR layout with test qrels")
    parser.add_argument("--times", type=int, default=100, help="how often the test queries are repeated")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    tables = read_collection(given.collection, given.times)
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(Path(scratch) / "store", home=Path(scratch))
        step = prepare(Plan(0), store, tables)
        java_class("java.lang.System", RUNTIME.java_heap)
        raw = raw_searcher(store.folder(step.inputs["lexical_index"]) / "pyserini")
        texts, ids = tables["queries"]["text"].to_pylist(), tables["queries"]["query_id"].to_pylist()

        def ask_pyserini() -> Any:
            return raw.batch_search(texts, ids, k=TOP_K, threads=RUNTIME.cpu_threads)

        def run_ours() -> pa.Table:
            meta = run_stage(step, step.inputs, store=store, runtime=RUNTIME, refresh=True).meta
            return read_parts(store.fs, store.parts(meta.ref("bm25_run")), ["query_id", "doc_id", "rank", "score"])

        raw.batch_search(texts[:3000], ids[:3000], k=TOP_K, threads=RUNTIME.cpu_threads)  # the JIT compiles Lucene
        print(
            f"{len(ids):,} queries, top {TOP_K}, {tables['corpus'].num_rows:,} documents, {RUNTIME.cpu_threads} threads"
        )
        print("round  pyserini s  stage s  ratio   CPU: pyserini s  stage s  ratio")
        by_clock, by_cpu = [], []
        for number in range(given.rounds):
            theirs, their_cpu, hits = seconds(ask_pyserini)
            compared = same_ranking(run_ours(), hits, 2000) if number == 0 else None
            del hits
            ours, our_cpu, _ = seconds(run_ours)
            by_clock.append(ours / theirs)
            by_cpu.append(our_cpu / their_cpu)
            clock = f"{theirs:>11.2f} {ours:>8.2f} {by_clock[-1]:>6.2f}"
            cpu = f"{their_cpu:>16.2f} {our_cpu:>8.2f} {by_cpu[-1]:>6.2f}"
            print(f"{number + 1:>5} {clock} {cpu}", flush=True)
            if compared:
                print(f"      {compared:,} hits compared: same documents, order and scores")
        print(f"median ratio {statistics.median(by_clock):.2f} by the clock, {statistics.median(by_cpu):.2f} by CPU")


if __name__ == "__main__":
    main()
