"""evidence: the training queries paired with the best ranked documents that hold an answer, whatever their pairs say.

Source: DistDR (Zhao et al., EMNLP 2021), the hard E-step.  Its reader, which filters this evidence, is left out.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import DataError
from noisyir.data.artifacts import ANSWERS, CORPUS, PAIRS, QUERIES
from noisyir.engine.stage import Job, Stage
from noisyir.mining import artifacts
from noisyir.mining.settings import EvidenceParams
from noisyir.retrieval.artifacts import BM25_RUN


def evidence(job: Job[EvidenceParams]) -> None:
    """Pair each training query with its evidence; a query without any gets no pair, and held-out pairs stay.

    Raises:
        DataError: If no training query has an answer in its run.
    """
    queries, pairs = job.table("queries"), job.table("pairs")
    training = queries.filter(pc.equal(queries["split"], "train"))["query_id"]
    found = list(_found(job, training))
    if not found:
        raise DataError("mining.no_evidence", queries=len(training))
    job.note("evidence", {"queries": len(training), "with_evidence": len({query for query, _ in found})})
    query, document = zip(*found, strict=True)
    columns = {"query_id": query, "doc_id": document, "split": ["train"] * len(found), "source": [None] * len(found)}
    held_out = pairs.filter(pc.not_equal(pairs["split"], "train"))
    job.write("evidence_pairs", pa.concat_tables([pa.table(columns, schema=held_out.schema), held_out]))


def _found(job: Job[EvidenceParams], training: pa.ChunkedArray) -> Iterator[tuple[str, str]]:
    """Yield (query, document) of the evidence, the best first."""
    from noisyir.data.answers import answers_by_query, token_line
    from noisyir.retrieval.texts import among

    run, answers = job.table("run"), answers_by_query(job.table("answers"))
    run = run.filter(pc.is_in(run["query_id"], value_set=training.combine_chunks()))
    run = run.sort_by([("query_id", "ascending"), ("rank", "ascending")])
    line_of: dict[str, str] = {}
    for some in among(job.batches("corpus"), run["doc_id"].unique()):
        line_of.update(zip(some["doc_id"].to_pylist(), map(token_line, some["text"].to_pylist()), strict=True))
    taken: dict[str, int] = {}
    for query, document in zip(run["query_id"].to_pylist(), run["doc_id"].to_pylist(), strict=True):
        if taken.get(query, 0) < job.params.per_query:
            if any(answer in line_of[document] for answer in answers.get(query, ())):
                taken[query] = taken.get(query, 0) + 1
                yield query, document


EVIDENCE = Stage(
    name="evidence",
    version=1,
    params=EvidenceParams,
    reads={
        "run": BM25_RUN["query_id", "doc_id", "rank"],
        "pairs": PAIRS.all(),
        "queries": QUERIES["query_id", "split"],
        "answers": ANSWERS.all(),
        "corpus": CORPUS["doc_id", "text"],
    },
    writes={"evidence_pairs": artifacts.EVIDENCE_PAIRS},
    run=evidence,
)
