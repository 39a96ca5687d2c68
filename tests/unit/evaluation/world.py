"""A small finished run to report on: data with traps in it, three systems scored and compared by the real stages."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from noisyir.base.artifact import Artifact
from noisyir.base.settings import Params
from noisyir.data.artifacts import CORPUS, EXCLUDED, PAIRS, QRELS, QUERIES
from noisyir.engine.build_stage import Result, run_stage
from noisyir.engine.plan import Plan, resolve
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Job, Stage, Step
from noisyir.engine.store import Store
from noisyir.evaluation.pages.settings import ReportParams
from noisyir.evaluation.settings import CompareParams, ScoreParams
from noisyir.evaluation.stages.compare import COMPARE
from noisyir.evaluation.stages.report import REPORT
from noisyir.evaluation.stages.score import SCORE
from noisyir.models.artifacts import MODEL
from noisyir.retrieval.artifacts import DENSE_RUN
from noisyir.training.artifacts import CURVES

SCRIPT = "<script>alert('x')</script>"
QUERY_IDS = [f"q{number}" for number in range(12)]


class Nothing(Params):
    """A stage without settings."""


class Label(Params):
    """Tells the searches of this world apart."""

    label: str


class Rate(Params):
    """A setting whose value is itself a trap."""

    note: str = SCRIPT


def dataset(job: Job[Any]) -> None:
    """Documents d0..d11, document n relevant to query n; texts that try to break out of the page."""
    numbers = range(12)
    doc_ids = [f"d{n}" for n in numbers]
    rows = pa.array(numbers, pa.int32())
    texts = [f"{SCRIPT} text of {n}" for n in numbers]
    job.write("corpus", pa.table({"doc_id": doc_ids, "doc_row": rows, "title": [SCRIPT] * 12, "text": texts}))
    queries = {"query_id": [*QUERY_IDS, "t"], "text": [f"{SCRIPT} {n}" for n in range(13)]}
    job.write("queries", pa.table({**queries, "split": ["test"] * 12 + ["train"]}))
    job.write("pairs", pa.table({"query_id": ["t"], "doc_id": ["d0"], "split": ["train"], "source": [SCRIPT]}))
    job.write(
        "qrels", pa.table({"query_id": QUERY_IDS, "doc_id": doc_ids, "relevance": pa.array([1] * 12, pa.int32())})
    )
    job.write("excluded", pa.table({"reason": [SCRIPT, SCRIPT], "kind": ["document"] * 2, "id": ["x", SCRIPT]}))
    job.note("source", {"name": SCRIPT})


def search(rank_of: Any) -> Any:
    """A run in which query n finds its document at rank_of(n), or not at all (None)."""

    def rows() -> Iterator[tuple[str, str, int, float]]:
        for number, query_id in enumerate(QUERY_IDS):
            others = [f"d{n}" for n in range(12) if n != number]
            rank = rank_of(number)
            found = others if rank is None else [*others[: rank - 1], f"d{number}", *others[rank - 1 :]]
            yield from ((query_id, doc_id, place, 1 / place) for place, doc_id in enumerate(found, 1))

    def run(job: Job[Any]) -> None:
        columns = zip(*rows(), strict=True)
        job.write("dense_run", pa.table(dict(zip(("query_id", "doc_id", "rank", "score"), columns, strict=True))))

    return run


def train(job: Job[Any]) -> None:
    (job.new_folder("model") / "weights").write_text("weights")
    points = [(name, step, step / 100, 1 / (step + 1)) for name in ("dev_RR@10", "loss") for step in range(400)]
    columns = zip(*points, strict=True)
    job.write("curves", pa.table(dict(zip(("name", "step", "epoch", "value"), columns, strict=True))))


def stage(
    name: str, reads: dict[str, Artifact], writes: list[Artifact], run: Any, params: type[Params] = Nothing
) -> Stage:
    return Stage(name, 1, params, {k: v.all() for k, v in reads.items()}, {a.name: a for a in writes}, run)


INGEST = stage("ingest", {}, [CORPUS, QUERIES, PAIRS, QRELS, EXCLUDED], dataset)
TRAIN_DPR = stage("train_dpr", {"pairs": PAIRS}, [MODEL, CURVES], train, Rate)
RANKS = {"bm25": lambda n: 2, "zero_shot": lambda n: None, "trained": lambda n: 1 if n < 8 else 5}


def plan_report(params: ReportParams, *, curves: bool = True) -> Plan:
    """Ingest and train, search three times, score, compare, report."""
    plan = Plan(7)
    data = plan.add(INGEST, Nothing())
    trained = plan.add(TRAIN_DPR, Rate(), pairs=data["pairs"])
    runs = {}
    for label, rank_of in RANKS.items():
        reads = {"corpus": CORPUS} | ({"model": MODEL} if label == "trained" else {})
        inputs = {"corpus": data["corpus"]} | ({"model": trained["model"]} if label == "trained" else {})
        searching = stage("search", reads, [DENSE_RUN], search(rank_of), Label)
        runs[label] = plan.add(searching, Label(label=label), label, **inputs)["dense_run"]
    truth = {name: data[name] for name in ("qrels", "queries", "corpus")}
    scores = {label: plan.add(SCORE, ScoreParams(), label, run=run, **truth) for label, run in runs.items()}
    metrics = {label: score["metrics"] for label, score in scores.items()}
    comparison = plan.add(COMPARE, CompareParams(), metrics=metrics)["comparison"]
    about = {name: data[name] for name in ("corpus", "queries", "pairs", "qrels", "excluded")}
    given = {"curves": {name: trained["curves"] for name in ("trained", "other")}} if curves else {}
    plan.add(REPORT, params, comparison=comparison, metrics=metrics, runs=runs, **about, **given)
    return plan


def run_plan(plan: Plan, store: Store) -> dict[str, Result]:
    """Run every step; results by step name."""
    done: dict[str, Result] = {}
    for step in plan.steps:
        done[step.name] = run_step(step, plan, store, done)
    return done


def run_step(step: Step, plan: Plan, store: Store, done: dict[str, Result], *, refresh: bool = False) -> Result:
    inputs = resolve(step, plan, store, done)
    return run_stage(step, inputs, store=store, runtime=Runtime(), refresh=refresh)


def report_folder(store: Store, params: ReportParams | None = None, *, curves: bool = True) -> Path:
    """The folder of the report on this world, copied out of the store's reach."""
    result = run_plan(plan_report(params or ReportParams(title="small"), curves=curves), store)["report"]
    folder = Path(store.root).parent / "report"
    shutil.copytree(store.builds.folder(result.meta.ref("report")), folder)
    return folder
