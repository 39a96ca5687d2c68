"""noise_table: all runs of the noise bench in one table with tests, and its page."""

from collections.abc import Mapping
from itertools import chain

import pyarrow as pa

from noisyir.base.errors import DataError
from noisyir.base.pages.cells import sections_in
from noisyir.engine.provenance import lineage
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import with_values
from noisyir.evaluation.artifacts import (
    BENCH_PAGE,
    BENCH_SUMMARY,
    BENCH_VALUES,
    DETECTION,
    LOSS_GROUPS,
    METRICS,
    MINING_QUALITY,
    SECTIONS,
)
from noisyir.evaluation.bench import Cell, by_cell, read_blocks, summarise
from noisyir.evaluation.bench_quality import detection_quality
from noisyir.evaluation.pages.mining import of_bench
from noisyir.evaluation.settings import NoiseTableParams
from noisyir.training.artifacts import CURVES


def noise_table(job: Job[NoiseTableParams]) -> None:
    """Compare the methods under every kind and rate of noise; write values, summary and page.

    A bench that trains nothing measures its candidates and mining alone.
    """
    from noisyir.evaluation.pages.bench import Bench, markdown, render

    params, metrics = job.params, by_cell(job.tables("metrics"), job.params.given)
    mining, losses, curves = (by_cell(job.tables(name)) for name in ("mining", "losses", "sieve_curves"))
    cells = {*metrics, *mining}
    if not cells:
        raise DataError("evaluation.empty_bench")
    summary = summarise(
        read_blocks(metrics), baseline=params.baseline, reference=params.reference, confidence=params.confidence
    )
    _write_values(job, metrics)
    job.write("bench_summary", summary)
    detection = detection_quality(by_cell(job.tables("detection")))
    builds = lineage(job.store, chain.from_iterable(job.refs(name).values() for name in job.step.stage.reads))
    seeds = sorted({cell.seed for cell in cells})
    further = sections_in(job.tables("sections").values())
    bench = Bench(summary, detection, seeds, len(cells), builds, of_bench(mining, losses, curves), further)
    folder = job.new_folder("bench_page")
    (folder / "bench.html").write_text(render(params, bench), encoding="utf-8")
    (folder / "bench.md").write_text(markdown(params, bench), encoding="utf-8")


def _write_values(job: Job[NoiseTableParams], metrics: Mapping[Cell, pa.Table]) -> None:
    """Write every cell's values per query, without the means."""
    with job.writer("bench_values") as out:
        for done, (cell, table) in enumerate(metrics.items(), 1):
            rows = table.filter(pa.compute.is_valid(table["query_id"]))
            names = ("mechanism", "rate", "method", "seed")
            out.append(with_values(rows, **{name: pa.repeat(getattr(cell, name), rows.num_rows) for name in names}))
            job.progress(done, len(metrics), "runs")


NOISE_TABLE = Stage(
    name="noise_table",
    version=7,
    params=NoiseTableParams,
    reads={
        "metrics": METRICS.all().each().or_none(),
        "detection": DETECTION.all().each().or_none(),
        "mining": MINING_QUALITY.all().each().or_none(),
        "losses": LOSS_GROUPS.all().each().or_none(),
        "sieve_curves": CURVES.all().each().or_none(),
        "sections": SECTIONS.all().each().or_none(),
    },
    writes={"bench_values": BENCH_VALUES, "bench_summary": BENCH_SUMMARY, "bench_page": BENCH_PAGE},
    run=noise_table,
    pool="driver",
)
