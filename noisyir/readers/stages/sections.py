"""Page sections on distant labels: confidences in the report, and their quality per method in the bench."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.pages.cells import markdown_table
from noisyir.data.artifacts import CORPUS, QUERIES
from noisyir.data.dataset_page import snippet
from noisyir.engine.stage import Job, Stage
from noisyir.evaluation.artifacts import SECTIONS
from noisyir.evaluation.bench import by_cell
from noisyir.readers.artifacts import CONFIDENCE_QUALITY, CONFIDENCES, CONFUSING, GOLD_RUN, SPANS
from noisyir.readers.settings import BenchSectionParams, LabelSectionParams
from noisyir.retrieval.texts import texts_of


def label_section(job: Job[LabelSectionParams]) -> None:
    """Render how well confidences identify correct labels, with the questions in which they move most."""
    from noisyir.readers import confidence_pages as pages

    quality, confusing = job.table("quality"), job.table("confusing")
    found = pages.find_cases(job.table("confidences"), job.table("spans"), job.table("given"), job.params.examples)
    others = {case.query_id: pages.confusing_of(case, confusing) for cases in found for case in cases}
    shown = [one.doc_id for cases in found for case in cases for one in case.instances]
    shown += [doc_id for doc_ids in others.values() for doc_id in doc_ids]
    texts = texts_of(job.batches("corpus"), pa.array(shown, pa.string()))
    gained, lost = ([pages.with_texts(case, texts, others[case.query_id]) for case in cases] for cases in found)
    system = quality["system"][-1].as_py()
    labels = pages.Labels(pages.quality_table(quality), pages.quality_figures(quality), system, gained, lost)
    _write(job, "Distant labels", pages.label_page(labels, _questions(job, others)), "")


def bench_section(job: Job[BenchSectionParams]) -> None:
    """Render how well each method's confidences identify correct labels, over the seeds."""
    from noisyir.readers import confidence_pages as pages

    confidence = by_cell(job.tables("confidence"))
    table = pages.bench_quality(confidence)
    html = pages.bench_page(table, pages.bench_figures(confidence))
    _write(job, "Confidences", html, markdown_table(table.rows, left=table.left))


def _questions(job: Job[LabelSectionParams], query_ids: Iterable[str]) -> dict[str, str]:
    queries = job.table("queries")
    wanted = queries.filter(pc.is_in(queries["query_id"], pa.array(query_ids, pa.string())))
    return dict(zip(wanted["query_id"].to_pylist(), map(snippet, wanted["text"].to_pylist()), strict=True))


def _write(job: Job[Any], heading: str, html: str, markdown: str) -> None:
    row = {"name": "labels", "heading": heading, "html": html, "markdown": markdown}
    job.write("sections", pa.Table.from_pylist([row], schema=SECTIONS.schema))


LABEL_SECTION = Stage(
    name="label_section",
    version=1,
    params=LabelSectionParams,
    reads={
        "quality": CONFIDENCE_QUALITY.all(),
        "confidences": CONFIDENCES.all(),
        "spans": SPANS["query_id", "doc_id", "start", "end", "score"],
        "confusing": CONFUSING["query_id", "doc_id", "confusing", "rank"],
        "given": GOLD_RUN["query_id", "doc_id"],
        "corpus": CORPUS["doc_id", "text"],
        "queries": QUERIES["query_id", "text"],
    },
    writes={"sections": SECTIONS},
    run=label_section,
    pool="driver",
)
BENCH_SECTION = Stage(
    name="bench_section",
    version=1,
    params=BenchSectionParams,
    reads={"confidence": CONFIDENCE_QUALITY.all().each()},
    writes={"sections": SECTIONS},
    run=bench_section,
    pool="driver",
)
