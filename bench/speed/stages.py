"""noisyir's own stages on a row's texts: a collection in a store, and a plan's steps run with the seconds of each."""

import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from bench.speed.texts import Texts
from noisyir.base.settings import Params
from noisyir.data.artifacts import ANSWERS, CORPUS, PAIRS, QRELS, QUERIES
from noisyir.engine.build_stage import Result, run_stage
from noisyir.engine.plan import Plan, resolve
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Job, Stage
from noisyir.engine.store import Store
from noisyir.mining.settings import MineParams
from noisyir.mining.stages.candidates import CANDIDATES
from noisyir.mining.stages.hard_negatives import MINE
from noisyir.models.artifacts import MODEL
from noisyir.models.settings import InitModelParams
from noisyir.retrieval.settings import EncodeParams, IndexParams, SearchParams
from noisyir.retrieval.stages.encode import ENCODE
from noisyir.retrieval.stages.index import INDEX
from noisyir.retrieval.stages.search import SEARCH

READS = {"corpus": CORPUS, "queries": QUERIES, "pairs": PAIRS, "answers": ANSWERS, "qrels": QRELS}
RUNTIME = Runtime()


class NoParams(Params):
    """The stage that publishes a collection has no settings: its tables are given."""


def tables(passages: Sequence[str], pairs: Sequence[tuple[str, int]]) -> dict[str, pa.Table]:
    """A collection of training queries, each with the number of its passage."""
    return {
        "corpus": rows_of(CORPUS, [(f"d{number}", number, "", text) for number, text in enumerate(passages)]),
        "queries": rows_of(QUERIES, [(f"q{number}", text, "train") for number, (text, _) in enumerate(pairs)]),
        "pairs": rows_of(
            PAIRS, [(f"q{number}", f"d{right}", "train", None) for number, (_, right) in enumerate(pairs)]
        ),
        "answers": ANSWERS.schema.empty_table(),
        "qrels": QRELS.schema.empty_table(),
    }


def training_tables(texts: Texts, passages: int, queries: int) -> dict[str, pa.Table]:
    """The first passages, and queries whose passage is among them."""
    known = {query: row for query, row in texts.pairs if row < passages}
    return tables(texts.some_passages(passages), [(texts.queries[q], row) for q, row in list(known.items())[:queries]])


def collection(plan: Plan, given: dict[str, pa.Table] | None = None, model: InitModelParams | None = None) -> Any:
    """The step that publishes these tables and an untrained model, unless the store has them."""

    def publish(job: Job[NoParams]) -> None:
        from noisyir.models.bi_encoder import initial_bi_encoder
        from noisyir.models.weights import locate_weights

        assert given is not None
        for name, table in given.items():
            job.write(name, table)
        initial_bi_encoder(locate_weights("minilm"), model or InitModelParams()).save(job.new_folder("model"))

    return plan.add(Stage("collection", 1, NoParams, {}, {**READS, "model": MODEL}, publish), NoParams())


def from_texts_to_negatives(mine: MineParams, given: dict[str, pa.Table] | None = None) -> Plan:
    """The steps from texts to negatives, by a static model."""
    plan = Plan(0)
    data = collection(plan, given)
    vectors = plan.add(
        ENCODE, EncodeParams(splits=("train",)), model=data["model"], corpus=data["corpus"], queries=data["queries"]
    )
    index = plan.add(INDEX, IndexParams(), doc_vectors=vectors["doc_vectors"])
    asked, corpus = vectors["query_vectors"], data["corpus"]
    run = plan.add(SEARCH, SearchParams(top_k=mine.rank_to), query_vectors=asked, corpus=corpus, **index)["dense_run"]
    known = {name: data[name] for name in READS}
    found = plan.add(CANDIDATES, mine.candidates(), run=run, **known, **vectors)
    plan.add(MINE, mine, pairs=data["pairs"], **found)
    return plan


def load_packages() -> None:
    """Import what the stages import at first use: loading is not timed."""
    ours = "noisyir.models.bi_encoder", "noisyir.retrieval.vector_search"
    for name in ("faiss", "pandas", "safetensors.torch", "scipy.sparse", "tokenizers", "torch", *ours):
        import_module(name)  # pandas is pyarrow's first use: it looks whether what it is given is pandas'


def build(plan: Plan, store: Store, fresh: set[str]) -> tuple[dict[str, Result], dict[str, float]]:
    """Run the plan, these stages anew; processor seconds of each stage."""
    done: dict[str, Result] = {}
    seconds: dict[str, float] = {}
    for step in plan.steps:
        inputs = resolve(step, plan, store, done)
        began = time.process_time()
        done[step.name] = run_stage(step, inputs, store=store, runtime=RUNTIME, refresh=step.stage.name in fresh)
        seconds[step.stage.name] = seconds.get(step.stage.name, 0.0) + time.process_time() - began
    return done, seconds


def read(store: Store, result: Result, artifact: Any) -> pa.Table:
    """A table that a step has written."""
    return store.builds.table(result.meta.ref(artifact.name), list(artifact.columns))


def rows_of(artifact: Any, values: Sequence[tuple[Any, ...]]) -> pa.Table:
    """These rows as an artifact's table."""
    return pa.table(list(zip(*values, strict=True)), schema=artifact.schema)
