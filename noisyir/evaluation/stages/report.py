"""report: one page with the result, its data, and the way to reproduce it."""

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from noisyir.base.errors import DataError
from noisyir.base.pages.cells import markdown_table, sections_in
from noisyir.data.artifacts import CORPUS, EXCLUDED, PAIRS, QRELS, QUERIES
from noisyir.data.dataset_page import example_pairs, read_corpus
from noisyir.engine.meta import Ref
from noisyir.engine.provenance import lineage
from noisyir.engine.stage import Job, Stage
from noisyir.evaluation.artifacts import (
    COMPARISON,
    DETECTION,
    LOSS_GROUPS,
    METRICS,
    MINING_QUALITY,
    SECTIONS,
    STANDINGS,
    TRIALS,
)
from noisyir.evaluation.artifacts import REPORT as PAGE
from noisyir.evaluation.comparison import values_of
from noisyir.evaluation.pages.advice import named
from noisyir.evaluation.pages.history import Build, name_builds
from noisyir.evaluation.pages.mining import of_run
from noisyir.evaluation.pages.queries import RankChanges, largest_changes
from noisyir.evaluation.pages.settings import ReportParams
from noisyir.evaluation.pages.summary import difference_rows, summary_rows
from noisyir.evaluation.ruler import DRAWING, Drawn, Ruler, answers_in, pooled, pools_digest
from noisyir.retrieval.artifacts import DENSE_RUN
from noisyir.training.artifacts import CURVES


def report(job: Job[ReportParams]) -> None:
    """Write report.html, and the same tables as summary.md and comparison.csv."""
    from noisyir.evaluation.pages.report import Dataset, Results, render, whole_curves

    comparison, queries, pairs, qrels = (job.table(name) for name in ("comparison", "queries", "pairs", "qrels"))
    changes = _changes(job, comparison, qrels)
    examples = example_pairs(pairs, job.params.examples)
    changed = [change.doc_id for change in (changes.all() if changes else ())]
    shown = [doc_id for _, doc_id in examples] + [doc_id for doc_id in changed if doc_id is not None]
    corpus = read_corpus(job.batches("corpus"), shown)
    optional = ("detection", "trials", "mining")
    detection, trials, mining = (job.table(name) if job.has(name) else None for name in optional)
    mined = of_run(mining, job.tables("losses"), job.tables("sieve_curves"))
    further = sections_in(job.tables("sections").values())
    subject = "retrieval" if job.refs("runs") else "reading"
    standings = job.table("standings") if job.has("standings") else None
    corrected, curves = _corrected(job), whole_curves(job.tables("curves"))
    results = Results(comparison, curves, changes, detection, trials, mined, standings, further, subject, corrected)
    dataset = Dataset(corpus, queries, pairs, qrels, job.table("excluded"), examples)
    folder = job.new_folder("report")
    page = render(job.params, results, dataset, _builds(job))
    (folder / "report.html").write_text(page, encoding="utf-8")
    tables = [markdown_table(summary_rows(comparison), left=1), markdown_table(difference_rows(comparison), left=4)]
    tables += [markdown_table(corrected.rows(), left=2)] if corrected else []
    (folder / "summary.md").write_text("\n".join(tables), encoding="utf-8")
    csv.write_csv(comparison, folder / "comparison.csv")


def _changes(job: Job[ReportParams], comparison: pa.Table, qrels: pa.Table) -> RankChanges | None:
    """The queries that the last system changes most against its baseline, on the first measure."""
    first = comparison["split"][0].as_py(), comparison["measure"][0].as_py()
    metrics = job.tables("metrics")
    system = list(metrics)[-1]
    if not job.refs("runs"):  # answers have no ranks
        return None
    tested = pa.compute.and_(
        pa.compute.equal(comparison["system"], system), pa.compute.is_valid(comparison["baseline"])
    )
    if not (tests := comparison.filter(tested)).num_rows:
        return None
    baseline = tests["baseline"][0].as_py()
    values = {name: values_of(metrics[name])[first].by_query for name in (system, baseline)}
    return largest_changes(
        values, job.tables("runs"), qrels, system=system, baseline=baseline, count=job.params.examples
    )


def _corrected(job: Job[ReportParams]) -> Ruler | None:
    """The systems, named in words, by labels and by people's judgements of their pools, if there are any.

    Raises:
        DataError: If the pools are of other systems, hits or labels.
    """
    if job.params.corrected is None:
        return None
    name, folder = job.params.settings.get("name", job.params.title), Path(job.params.corrected)
    scored = {f"{name}:{label}": ref for label, ref in job.refs("metrics").items()}
    drawn, (first, *_, last) = Drawn.read(folder / DRAWING), scored
    pool = drawn.with_others(pooled(job.store, scored, [first, last]))
    if not drawn.is_of(pool):
        others, systems = ", ".join(drawn.systems), ", ".join(scored)
        raise DataError("evaluation.pools_of_other_run", folder=folder, drawn=others, systems=systems)
    words = {system: named(system.removeprefix(f"{name}:")) if system in scored else system for system in pool.systems}
    tops = {words[system]: top for system, top in pool.tops.items()}
    return Ruler(replace(pool, named=[words[first], words[last]], tops=tops), drawn, answers_in(folder))


def _builds(job: Job[Any]) -> list[Build]:
    runs, metrics = job.refs("runs"), job.refs("metrics")
    systems = {label: [ref, runs[label]] if label in runs else [ref] for label, ref in metrics.items()}
    others = [ref for ref in job.inputs.values() if isinstance(ref, Ref)]
    others += chain(*(job.refs(name).values() for name in ("curves", "losses", "sieve_curves", "sections")))
    return name_builds(lineage(job.store, [*chain(*systems.values()), *others]), systems)


REPORT = Stage(
    name="report",
    version=16,
    params=ReportParams,
    reads={
        "comparison": COMPARISON.all(),
        "metrics": METRICS.all().each(),
        "runs": DENSE_RUN["query_id", "doc_id", "rank"].each(),
        "curves": CURVES.all().each().or_none(),
        "detection": DETECTION.all().or_none(),
        "trials": TRIALS.all().or_none(),
        "mining": MINING_QUALITY.all().or_none(),
        "standings": STANDINGS.all().or_none(),
        "losses": LOSS_GROUPS.all().each().or_none(),
        "sieve_curves": CURVES.all().each().or_none(),
        "sections": SECTIONS.all().each().or_none(),
        "corpus": CORPUS["doc_id", "title", "text"],
        "queries": QUERIES.all(),
        "pairs": PAIRS.all(),
        "qrels": QRELS.all(),
        "excluded": EXCLUDED.all(),
    },
    writes={"report": PAGE},
    run=report,
    raw={"corrected": lambda params: pools_digest(params.corrected)},
    pool="driver",
)
