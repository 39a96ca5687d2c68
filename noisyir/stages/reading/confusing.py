"""confusing: for each passage with an answer, the passages most like it that hold none (CDS, Eq. 3)."""

from collections.abc import Iterator
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.stage import Job, Stage
from noisyir.readers.settings import ConfusingParams
from noisyir.schemas import reading
from noisyir.schemas.data import ANSWERS, CORPUS
from noisyir.schemas.reading import SPANS
from noisyir.schemas.retrieval import LEXICAL_INDEX

_PASSAGES_AT_ONCE = 4096


def confusing(job: Job[ConfusingParams]) -> None:
    """Ask BM25 with the passage's first words; of the hits keep the first that hold no answer of the question.

    A passage may have fewer than `per_passage`, or none: where all hits hold an answer.  Notes count them.
    """
    from noisyir.retrieval.bm25 import open_lexical_index
    from noisyir.retrieval.texts import texts_of

    params, runtime = job.params, job.runtime
    pairs = job.table("spans").group_by(["query_id", "doc_id"], use_threads=False).aggregate([])
    pairs = pairs.sort_by([("doc_id", "ascending"), ("query_id", "ascending")]).combine_chunks()
    doc_ids = pairs["doc_id"].unique()
    searcher = open_lexical_index(
        job.folder("lexical_index"), k1=params.k1, b=params.b, threads=runtime.cpu_threads, java_heap=runtime.java_heap
    )
    texts = texts_of(job.batches("corpus"), doc_ids)
    parts = []
    for start in range(0, len(doc_ids), _PASSAGES_AT_ONCE):
        some = doc_ids.slice(start, _PASSAGES_AT_ONCE)
        hits = searcher.search([first_words(texts[one], params.terms) for one in some.to_pylist()], params.depth)
        parts.append((some, hits.counts, hits.doc_ids, hits.scores))
        job.progress(start + len(some), len(doc_ids), "passages")
    found = {
        doc_id: [(hit.as_py(), float(score)) for hit, score in zip(hit_ids[low:high], scores[low:high], strict=True)]
        for some, counts, hit_ids, scores in parts
        for doc_id, low, high in zip(some.to_pylist(), np.cumsum(counts) - counts, np.cumsum(counts), strict=True)
    }
    rows = _without_answer(job, pairs, found)
    job.write("confusing", rows)
    given = rows.group_by(["query_id", "doc_id"], use_threads=False).aggregate([([], "count_all")])
    full = int(pc.sum(pc.equal(given["count_all"], params.per_passage)).as_py() or 0)
    job.note("passages", {"asked": len(pairs), "with_all": full, "with_none": len(pairs) - len(given)})


def first_words(text: str, count: int) -> str:
    """The first words of a text; a word is what stands between white space."""
    return " ".join(text.split(maxsplit=count)[:count])


def _without_answer(job: Job[ConfusingParams], pairs: pa.Table, found: dict[str, list[tuple[str, float]]]) -> pa.Table:
    """Rows of CONFUSING for these (question, passage) pairs, from each passage's hits, best first."""
    from noisyir.data.answers import answer_lines, token_line
    from noisyir.retrieval.texts import texts_of

    hit_ids = pa.array([hit for hits in found.values() for hit, _ in hits], pa.string())
    texts = texts_of(job.batches("corpus"), hit_ids)
    line_of = cache(lambda doc_id: token_line(texts[doc_id]))
    answers = job.table("answers")
    lines = {
        query_id: answer_lines(aliases)
        for query_id, aliases in zip(answers["query_id"].to_pylist(), answers["aliases"].to_pylist(), strict=True)
    }

    def kept(query_id: str, doc_id: str) -> Iterator[tuple[str, float]]:
        for hit, score in found[doc_id]:
            if hit != doc_id and not any(answer in line_of(hit) for answer in lines[query_id]):
                yield hit, score

    rows = [
        (query_id, doc_id, hit, rank, score)
        for query_id, doc_id in zip(pairs["query_id"].to_pylist(), pairs["doc_id"].to_pylist(), strict=True)
        for rank, (hit, score) in zip(range(1, job.params.per_passage + 1), kept(query_id, doc_id), strict=False)
    ]
    named = [dict(zip(reading.CONFUSING.columns, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, schema=reading.CONFUSING.schema)


CONFUSING = Stage(
    name="confusing",
    version=1,
    params=ConfusingParams,
    reads={
        "spans": SPANS["query_id", "doc_id"],
        "lexical_index": LEXICAL_INDEX.all(),
        "corpus": CORPUS["doc_id", "text"],
        "answers": ANSWERS.all(),
    },
    writes={"confusing": reading.CONFUSING},
    run=confusing,
)
