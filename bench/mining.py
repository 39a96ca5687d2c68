"""Mining hard negatives: TriSampler beside SimANS, and noisyir beside sentence-transformers' `mine_hard_negatives`.

    python bench/mining.py samplers            # both samplers on the same candidates
    python bench/mining.py peers               # the same model, texts and filter on all sides

Texts are SQuAD's: sentences are the passages, questions the queries, and the sentence that holds the answer is a
question's positive.  The model is static: its encoding costs least, so what is left is mining.

samplers   times, by turns, weighing and drawing alone (`negatives`); the stage `mine`, from Parquet to Parquet; and the
           build of negatives from vectors on: search, candidates, mine.
peers      times each side from texts to negatives, each turn in a process of its own: 10 of each query's best 100
           that score at most 95 % of its positive.  noisyir runs its stages in a store: encode, index, search,
           candidates, mine, with all they check and write.  The peer has its texts in memory and a batch of 1,024 (its
           default of 32 is slower), and searches by torch, its default, or by FAISS.  Loading model and texts counts
           for nobody's time; the peak of memory is that of the whole process.  CPU seconds (of all threads) tell on a
           busy machine what the clock cannot.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir import schemas
from noisyir.engine.build_stage import Result, run_stage
from noisyir.engine.plan import Plan, resolve
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Job, Stage
from noisyir.engine.store import Store
from noisyir.engine.tables import read_parts
from noisyir.mining.candidates import Candidates
from noisyir.mining.negatives import negatives
from noisyir.mining.settings import MineParams
from noisyir.models.settings import InitModelParams
from noisyir.retrieval.settings import EncodeParams, IndexParams, SearchParams
from noisyir.schemas.data import ANSWERS, CORPUS, PAIRS, QRELS, QUERIES
from noisyir.schemas.training import MODEL
from noisyir.settings import Params
from noisyir.stages.mining.candidates import CANDIDATES
from noisyir.stages.mining.mine import MINE
from noisyir.stages.retrieval.encode import ENCODE
from noisyir.stages.retrieval.index import INDEX
from noisyir.stages.retrieval.search import SEARCH

RUNTIME = Runtime()
SIDES = ("noisyir", "torch", "faiss")
WITH_FILTER = MineParams(rank_to=101, per_query=10, sampler="topk", filters={"relative_margin": 0.05})
SAMPLERS = {
    "simans": {"sampler": {"kind": "simans", "scale": 20.0}},
    "trisampler": {"sampler": {"kind": "trisampler", "scale": 20.0}},
}
PAIR = ("query_id", "doc_id")
READS = {"corpus": CORPUS, "queries": QUERIES, "pairs": PAIRS, "answers": ANSWERS, "qrels": QRELS}


class NoParams(Params):
    pass


# Texts ---------------------------------------------------------------------------------------------------------------


def squad_sentences(folder: Path, passages: int, queries: int) -> dict[str, pa.Table]:
    """The first sentences of SQuAD, and questions that one of them answers, drawn at random."""
    numbers: dict[str, int] = {}
    asked: dict[str, int] = {}
    for name in ("train", "dev"):
        for article in json.loads((folder / f"{name}-v1.1.json").read_text())["data"]:
            for paragraph in article["paragraphs"]:
                found = list(re.finditer(r"\S.*?(?:[.!?](?=\s)|$)", paragraph["context"], re.DOTALL))
                of_text = [numbers.setdefault(sentence.group(), len(numbers)) for sentence in found]
                starts = [sentence.start() for sentence in found]
                for question in paragraph["qas"]:
                    at = np.searchsorted(starts, question["answers"][0]["answer_start"], side="right") - 1
                    asked.setdefault(question["question"], of_text[at])
    known = [(text, number) for text, number in asked.items() if number < passages]
    chosen = [known[row] for row in np.sort(np.random.default_rng(0).permutation(len(known))[:queries])]
    texts = list(numbers)[:passages]
    return {
        "corpus": rows(CORPUS, [(f"d{n}", n, "", text) for n, text in enumerate(texts)]),
        "queries": rows(QUERIES, [(f"q{n}", text, "train") for n, (text, _) in enumerate(chosen)]),
        "pairs": rows(PAIRS, [(f"q{n}", f"d{number}", "train", None) for n, (_, number) in enumerate(chosen)]),
        "answers": ANSWERS.schema.empty_table(),
        "qrels": QRELS.schema.empty_table(),
    }


def rows(artifact: Any, values: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table(list(zip(*values, strict=True)), schema=artifact.schema)


# noisyir's stages ----------------------------------------------------------------------------------------------------


def plan_of(mine: MineParams, tables: dict[str, pa.Table] | None = None) -> Plan:
    """The steps from texts to negatives; `tables` are published by the first, unless the store has them."""

    def publish(job: Job[NoParams]) -> None:
        from noisyir.models.bi_encoder import initial_bi_encoder
        from noisyir.models.weights import locate_weights

        assert tables is not None
        for name, table in tables.items():
            job.write(name, table)
        initial_bi_encoder(locate_weights("minilm"), InitModelParams()).save(job.new_folder("model"))

    plan = Plan(0)
    data = plan.add(Stage("collection", 1, NoParams, {}, {**READS, "model": MODEL}, publish), NoParams())
    texts = {name: data[name] for name in ("corpus", "queries")}
    vectors = plan.add(ENCODE, EncodeParams(splits=("train",)), model=data["model"], **texts)
    index = plan.add(INDEX, IndexParams(), doc_vectors=vectors["doc_vectors"])
    asked, corpus = vectors["query_vectors"], data["corpus"]
    run = plan.add(SEARCH, SearchParams(top_k=mine.rank_to), query_vectors=asked, corpus=corpus, **index)["dense_run"]
    known = {name: data[name] for name in READS}
    found = plan.add(CANDIDATES, mine.candidates(), run=run, **known, **vectors)
    plan.add(MINE, mine, pairs=data["pairs"], **found)
    return plan


def build(plan: Plan, store: Store, fresh: set[str]) -> tuple[dict[str, Result], dict[str, float]]:
    """Run the plan, these stages anew; seconds of each stage."""
    done: dict[str, Result] = {}
    seconds: dict[str, float] = {}
    for step in plan.steps:
        inputs = resolve(step, plan, store, done)
        began = time.perf_counter()
        done[step.name] = run_stage(step, inputs, store=store, runtime=RUNTIME, refresh=step.stage.name in fresh)
        seconds[step.stage.name] = time.perf_counter() - began
    return done, seconds


def read(store: Store, result: Result, artifact: Any) -> pa.Table:
    return read_parts(store.fs, store.parts(result.meta.ref(artifact.name)), list(artifact.columns))


# Samplers ------------------------------------------------------------------------------------------------------------


def samplers(store: Store, tables: dict[str, pa.Table], per_query: int, rounds: int) -> None:
    plans = {name: plan_of(MineParams(per_query=per_query, **given), tables) for name, given in SAMPLERS.items()}
    done, _ = build(plans["simans"], store, set())
    candidates = arrays(read(store, done["candidates"], schemas.CANDIDATES))
    print(f"{per_query} negatives of each of {tables['queries'].num_rows:,} queries, {len(candidates):,} candidates")
    taken: dict[str, dict[str, list[float]]] = {}
    for turn in range(rounds):
        for name, plan in plans.items():
            found = build(plan, store, {"search", "candidates", "mine"})[1]
            drawn = [seconds_of_drawing(candidates, plan.steps[-1].params) for _ in range(3)]
            of = {"negatives": min(drawn), "mine": found["mine"]}
            of["search + candidates + mine"] = sum(found[stage] for stage in ("search", "candidates", "mine"))
            for what, seconds in of.items():
                taken.setdefault(what, {}).setdefault(name, []).append(seconds)
            print(f"turn {turn + 1} {name:>10}: " + ", ".join(f"{k} {v:.3f} s" for k, v in of.items()), flush=True)
    for what, of in taken.items():
        tell(what, of["trisampler"], of["simans"], "trisampler / simans")


def arrays(table: pa.Table) -> Candidates:
    """The candidates in the order of their ids."""
    table = table.sort_by([("query_id", "ascending"), ("doc_id", "ascending")])
    query, document = (pc.rank(table[name], tiebreaker="dense").to_numpy().astype(np.int64) - 1 for name in PAIR)
    scores = {name: table[name].to_numpy() for name, kind in schemas.CANDIDATES.columns.items() if kind == pa.float32()}
    return Candidates(query, document, table["rank"].to_numpy(), **scores)


def seconds_of_drawing(candidates: Candidates, params: Any) -> float:
    began = time.perf_counter()
    negatives(candidates, params, np.random.default_rng(0), np.random.default_rng(1))
    return time.perf_counter() - began


# Peers ---------------------------------------------------------------------------------------------------------------


def peers(store: Store, tables: dict[str, pa.Table], rounds: int) -> None:
    build(plan_of(WITH_FILTER, tables), store, set())
    print(f"{tables['queries'].num_rows:,} queries over {tables['corpus'].num_rows:,} passages")
    taken: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for turn in range(rounds):
        for side in SIDES:
            command = [sys.executable, __file__, "side", side, str(store.root)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            told = json.loads(output.splitlines()[-1])
            taken[side].append(told)
            clock = f"{told['seconds']:.1f} s (CPU {told['cpu_seconds']:.1f})"
            memory = f"peak {told['peak_mb']:,.0f} MB (before mining {told['before_mb']:,.0f})"
            print(f"turn {turn + 1} {side:>8}: {clock}, {memory}, {told['negatives']:,} negatives", flush=True)
            if "stages" in told:
                print(f"       stages, s: {told['stages']}")
    for peer in SIDES[1:]:
        for what in ("seconds", "cpu_seconds", "peak_mb"):
            theirs, ours = ([told[what] for told in taken[side]] for side in (peer, "noisyir"))
            tell(what, theirs, ours, f"{peer} / noisyir")


def side(name: str, root: str) -> None:
    """Mine once, and print what it took as JSON."""
    store = Store(Path(root), home=Path(root).parent)
    mined = ours(store) if name == "noisyir" else theirs(store, faiss=name == "faiss")
    print(json.dumps(mined | {"peak_mb": peak_mb()}))


def ours(store: Store) -> dict[str, Any]:
    import faiss  # noqa: F401 - loading packages is not mining
    import torch  # noqa: F401

    before, cpu, plan = peak_mb(), time.process_time(), plan_of(WITH_FILTER)
    done, seconds = build(plan, store, {step.stage.name for step in plan.steps[1:]})
    return {
        "seconds": sum(seconds.values()),
        "cpu_seconds": time.process_time() - cpu,
        "before_mb": before,
        "negatives": done["mine"].meta.artifacts["negatives"].rows,
        "stages": {name: round(taken, 1) for name, taken in seconds.items()},
    }


def theirs(store: Store, *, faiss: bool) -> dict[str, Any]:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import mine_hard_negatives

    done, _ = build(Plan(0, plan_of(WITH_FILTER).steps[:1]), store, set())
    given = {name: read(store, done["collection"], artifact) for name, artifact in READS.items()}
    corpus = given["corpus"]["text"].to_pylist()
    passage = given["corpus"]["text"].take(pc.index_in(given["pairs"]["doc_id"], value_set=given["corpus"]["doc_id"]))
    pairs = Dataset.from_dict({"query": given["queries"]["text"].to_pylist(), "passage": passage.to_pylist()})
    model = SentenceTransformer(str(store.folder(done["collection"].meta.ref("model"))), device="cpu")
    before, began, cpu = peak_mb(), time.perf_counter(), time.process_time()
    mined = mine_hard_negatives(
        pairs, model, corpus=corpus, range_max=100, relative_margin=0.05, num_negatives=10, output_format="triplet",
        batch_size=1024, use_faiss=faiss, verbose=False,
    )  # fmt: skip
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "before_mb": before,
        "negatives": len(mined),
    }


def peak_mb() -> float:
    """Since this program began; `ru_maxrss` would count what its parent held."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) / 1024


def tell(what: str, above: list[float], below: list[float], names: str) -> None:
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    medians = f"{statistics.median(above):,.3f} and {statistics.median(below):,.3f}"
    print(f"{what}: {names} {statistics.median(ratios):.2f} ({', '.join(f'{r:.2f}' for r in ratios)}); {medians}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["samplers", "peers"])
    parser.add_argument("--squad", type=Path, default=Path("../shared/data/squad"), help="folder of SQuAD v1.1")
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--per-query", type=int, nargs="+", default=[15, 1], help="samplers: negatives of a query")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    tables = squad_sentences(asked.squad, asked.passages, asked.queries)
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(Path(scratch) / "store", home=Path(scratch))
        if asked.what == "peers":
            peers(store, tables, asked.rounds)
        for per_query in asked.per_query if asked.what == "samplers" else ():
            samplers(store, tables, per_query, asked.rounds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["side"]:
        side(*sys.argv[2:])
    else:
        main()
