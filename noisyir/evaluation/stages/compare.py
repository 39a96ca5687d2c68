"""compare: a run's systems with corrected p-values; recommend: the values that choose the best one."""

import logging
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import ConfigError
from noisyir.data.artifacts import QRELS, QUERIES
from noisyir.data.own_documents import without_own_documents
from noisyir.engine.stage import Job, SplitCounts, Stage
from noisyir.engine.tables import with_values
from noisyir.evaluation import comparison as systems
from noisyir.evaluation.artifacts import COMPARISON, METRICS, STANDINGS
from noisyir.evaluation.pages.advice import in_short
from noisyir.evaluation.recommendation import recommendation
from noisyir.evaluation.settings import CompareParams, RecommendParams
from noisyir.retrieval.artifacts import DENSE_RUN
from noisyir.retrieval.measures import judged, per_query, query_groups, ranked, searched_for_dev

log = logging.getLogger("noisyir")


def compare(job: Job[CompareParams]) -> None:
    """Compare every system with the baseline, and the last with every other."""
    job.write(
        "comparison",
        systems.compare(job.tables("metrics"), baseline=job.params.baseline, confidence=job.params.confidence),
    )


COMPARE = Stage(
    name="compare",
    version=3,
    params=CompareParams,
    reads={"metrics": METRICS.all().each()},
    writes={"comparison": COMPARISON},
    run=compare,
    pool="driver",
)


def recommend(job: Job[RecommendParams]) -> None:
    """Write the first measure of each system, on test or else the first scored split, and on dev."""
    queries = job.table("queries")
    dev = judged(job.table("qrels"), queries.filter(pc.equal(queries["split"], "dev"))["query_id"].to_pylist())
    runs, made, rows = job.tables("runs"), job.refs("runs"), []
    if unsearched := [of for of in runs if dev and not searched_for_dev(runs[of], made[of], job.store, dev)]:
        log.warning(
            "%s did not search for the dev queries: the test queries choose the best system that they measure, and a "
            "hybrid weighs BM25 and vectors alike; put dev into encode.splits and bm25.splits", ", ".join(unsearched),
        )  # fmt: skip
        dev = {}
    runs = without_own_documents(job, runs) if dev else runs
    with job.writer("standings") as out:
        for system, metrics in job.tables("metrics").items():
            measure, splits = metrics["measure"][0].as_py(), metrics["split"].unique().to_pylist()
            split = "test" if "test" in splits else splits[0]
            wanted = pc.and_(pc.equal(metrics["measure"], measure), pc.equal(metrics["split"], split))
            rows.append(_rows(system, metrics.filter(pc.and_(wanted, pc.is_valid(metrics["query_id"])))))
            if split != "dev" and (values := _on_dev(runs[system], dev, measure)) is not None:
                rows.append(_rows(system, values))
        for table in rows:
            out.append(table)
    standings = pa.concat_tables(table.cast(STANDINGS.schema) for table in rows)
    job.note("result", in_short(recommendation([standings], job.params.confidence)))


def _on_dev(run: pa.Table, judgements: Mapping[str, Mapping[str, int]], measure: str) -> pa.Table | None:
    """The measure of each judged dev query; None if there are none, or it needs answers."""
    if not judgements:
        return None
    try:
        values = per_query(ranked(run, judgements), judgements, [measure])
    except ConfigError:
        return None
    groups = query_groups(judgements)
    grouped = pa.array([groups[query_id] for query_id in values["query_id"].to_pylist()], pa.string())
    return with_values(values, group=grouped, split=pa.repeat("dev", values.num_rows))


def _rows(system: str, values: pa.Table) -> pa.Table:
    return values.append_column("system", pa.repeat(system, values.num_rows)).select(STANDINGS.schema.names)


def _dev_is_there(params: RecommendParams, data: SplitCounts) -> None:
    if not data.queries.get("dev"):
        log.warning(
            "no dev queries: a hybrid weighs BM25 and vectors alike, and the test queries choose the best system that "
            "they measure; data.hold_out={dev: 0.1} draws some"
        )


RECOMMEND = Stage(
    name="recommend",
    version=3,
    params=RecommendParams,
    reads={
        "metrics": METRICS.all().each(),
        "runs": DENSE_RUN["query_id", "doc_id", "rank"].each(),
        "queries": QUERIES["query_id", "text", "split"],
        "qrels": QRELS["query_id", "doc_id", "relevance"],
    },
    writes={"standings": STANDINGS},
    run=recommend,
    pool="driver",
    fits=_dev_is_there,
)
