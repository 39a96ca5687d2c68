"""Distant-label stages: gold passages as a run, answer spans, and confusing passages without an answer."""

from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import DataError
from noisyir.data.artifacts import ANSWERS, CORPUS, PAIRS, QRELS, QUERIES
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import semi_join, with_values
from noisyir.readers import artifacts
from noisyir.readers.artifacts import GOLD_RUN, PASSAGES
from noisyir.readers.settings import ConfusingParams, GoldRunParams, SpansParams
from noisyir.retrieval.artifacts import BM25_RUN, LEXICAL_INDEX
from noisyir.retrieval.settings import Bm25Params
from noisyir.retrieval.texts import of_splits, places, splits_fit, texts_of

Row = dict[str, Any]
_QUESTIONS_AT_ONCE = 2048
_NOTED = ("questions", "without_answers", "without_tokens", "without_passages", "unmatched", "with_spans", "spans_cut")
_PASSAGES_AT_ONCE = 4096


def spans(job: Job[SpansParams]) -> None:
    """Match each question's answers in its passages; passages without a match are kept as negatives.

    The notes count questions without spans by cause: no answers, answers that tokenise to nothing, no passages, or no
    passage that contains an answer.
    """
    from noisyir.data.answers import answer_lines

    questions = _questions(job)
    run = _run(job, questions)
    texts = texts_of(job.batches("corpus"), run["doc_id"])
    answers = job.table("answers")
    aliases = dict(zip(answers["query_id"].to_pylist(), answers["aliases"].to_pylist(), strict=True))
    counts: Counter[str] = Counter()
    if not any(answer_lines(aliases.get(query_id, ())) for query_id in questions):
        raise DataError(
            "readers.spans_none_questions_spans", n_questions=len(questions), splits=list(job.params.splits)
        )
    matched = _matched(run, questions, aliases, texts, job.params.max_spans, counts)
    with job.writer("spans") as out, job.writer("passages") as passages:
        while some := [found for _, found in zip(range(_QUESTIONS_AT_ONCE), matched, strict=False)]:
            labelled, read = ([row for rows in kind for row in rows] for kind in zip(*some, strict=True))
            out.append(pa.Table.from_pylist(labelled, schema=artifacts.SPANS.schema))
            passages.append(pa.Table.from_pylist(read, schema=PASSAGES.schema))
            job.progress(counts["questions"], len(questions), "questions")
    if not counts["with_spans"]:
        raise DataError("readers.spans_answers_questions_none", questions=counts["questions"], rows=passages.rows)
    job.note("questions", {name: counts[name] for name in _NOTED})


def _questions(job: Job[SpansParams]) -> list[str]:
    """Return the questions of the splits by id, sampled if a maximum is set."""
    chosen = of_splits(job.table("queries"), job.params.splits, "spans.splits")
    questions: list[str] = sorted(chosen["query_id"].to_pylist())
    if job.params.max_questions is None or job.params.max_questions >= len(questions):
        return questions
    drawn = job.rng("questions").choice(len(questions), job.params.max_questions, replace=False)
    return [questions[number] for number in sorted(drawn)]


def _run(job: Job[SpansParams], questions: list[str]) -> pa.Table:
    """Return the first passages of the questions, ordered by question and rank."""
    run = job.table("run")
    asked = pc.is_in(run["query_id"], value_set=pa.array(questions, pa.string()))
    run = run.filter(pc.and_(asked, pc.less_equal(run["rank"], job.params.top_k)))
    return run.sort_by([("query_id", "ascending"), ("rank", "ascending")]).combine_chunks()


def _by_question(run: pa.Table, questions: list[str]) -> Iterator[list[Row]]:
    """Yield each question's rows of a run ordered by question; empty for questions without rows."""
    number = pc.index_in(run["query_id"], value_set=pa.array(questions, pa.string())).to_numpy()
    ends = np.cumsum(np.bincount(number, minlength=len(questions)))
    for start, end in zip([0, *ends], ends, strict=False):
        yield run.slice(start, end - start).to_pylist()


def _matched(
    run: pa.Table,
    questions: list[str],
    aliases: dict[str, list[str]],
    texts: dict[str, str],
    most: int | None,
    counts: Counter[str],
) -> Iterator[tuple[list[Row], list[Row]]]:
    """Yield each question's spans and passages, and count hits and misses."""
    from noisyir.data.answers import answer_lines, token_line
    from noisyir.readers.answer_spans import places_of_lines

    line_of = cache(lambda doc_id: token_line(texts[doc_id]))
    for query_id, passages in zip(questions, _by_question(run, questions), strict=True):
        lines = answer_lines(aliases.get(query_id, ()))
        found: list[Row] = []
        for passage in passages:
            text, line = texts[passage["doc_id"]], line_of(passage["doc_id"])
            passage["has_answer"] = any(answer in line for answer in lines)
            found += [
                {**passage, "start": start, "end": end, "answer": text[start:end]}
                for start, end in places_of_lines(text, line, lines)
            ]
        kept = found if most is None else found[:most]
        counts["questions"] += 1
        counts["spans_cut"] += len(found) - len(kept)
        if kept:
            counts["with_spans"] += 1
        else:
            counts[_why_none(aliases.get(query_id, []), lines, passages)] += 1
        yield kept, passages


def _why_none(aliases: list[str], lines: list[str], passages: list[Row]) -> str:
    """Explain why a question has no span."""
    if not aliases:
        return "without_answers"
    if not lines:
        return "without_tokens"
    return "unmatched" if passages else "without_passages"


SPANS = Stage(
    name="spans",
    version=1,
    params=SpansParams,
    reads={
        "run": BM25_RUN["query_id", "doc_id", "rank", "score"],
        "queries": QUERIES["query_id", "text", "split"],
        "answers": ANSWERS.all(),
        "corpus": CORPUS["doc_id", "text"],
    },
    writes={"spans": artifacts.SPANS, "passages": PASSAGES},
    run=spans,
    seeded=True,
    fits=partial(splits_fit, "spans.splits"),
)


def gold_run(job: Job[GoldRunParams]) -> None:
    """Rank each query's relevant documents by judgement, ties by id; the score is the judgement.

    Pairs without a judgement, common in training data, count as minimally relevant.
    """
    qrels, pairs, least = job.table("qrels"), job.table("pairs"), job.params.min_relevance
    unjudged = pairs.filter(pa.array(~semi_join(pairs, qrels)))
    relevance = pa.array([least] * len(unjudged), pa.int32())
    added = unjudged.append_column("relevance", relevance).select(QRELS.schema.names).cast(QRELS.schema)
    found = pa.concat_tables([qrels.filter(pc.greater_equal(qrels["relevance"], least)).cast(QRELS.schema), added])
    if not found.num_rows:
        raise DataError("readers.gold_run_none_judgements", num_rows=qrels.num_rows, least=least)
    found = found.sort_by([("query_id", "ascending"), ("relevance", "descending"), ("doc_id", "ascending")])
    _, place = places(found)
    rank, score = pa.array(place + 1, pa.int32()), found["relevance"].cast(pa.float32())
    job.write("gold_run", with_values(found.select(["query_id", "doc_id"]), rank=rank, score=score))


GOLD = Stage(
    name="gold_run",
    version=2,
    params=GoldRunParams,
    reads={"qrels": QRELS.all(), "pairs": PAIRS["query_id", "doc_id"]},
    writes={"gold_run": GOLD_RUN},
    run=gold_run,
    pool="driver",
)


def confusing(job: Job[ConfusingParams]) -> None:
    """Query BM25 with each passage's first words and keep the first hits that contain no answer to the question.

    A passage gets fewer than `per_passage` if its hits contain answers, possibly none; the notes count these.
    """
    from noisyir.retrieval.bm25 import open_lexical_index

    params = job.params
    pairs = job.table("spans").group_by(["query_id", "doc_id"], use_threads=False).aggregate([])
    pairs = pairs.sort_by([("doc_id", "ascending"), ("query_id", "ascending")]).combine_chunks()
    doc_ids = pairs["doc_id"].unique()
    searcher = open_lexical_index(job.folder("lexical_index"), Bm25Params(k1=params.k1, b=params.b), job.runtime)
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
    """Return the first whitespace-separated words of a text."""
    return " ".join(text.split(maxsplit=count)[:count])


def _without_answer(job: Job[ConfusingParams], pairs: pa.Table, found: dict[str, list[tuple[str, float]]]) -> pa.Table:
    """Return rows of CONFUSING for these (question, passage) pairs, from each passage's hits, best first."""
    from noisyir.data.answers import answer_lines, token_line

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
    named = [dict(zip(artifacts.CONFUSING.columns, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, schema=artifacts.CONFUSING.schema)


CONFUSING = Stage(
    name="confusing",
    version=1,
    params=ConfusingParams,
    reads={
        "spans": artifacts.SPANS["query_id", "doc_id"],
        "lexical_index": LEXICAL_INDEX.all(),
        "corpus": CORPUS["doc_id", "text"],
        "answers": ANSWERS.all(),
    },
    writes={"confusing": artifacts.CONFUSING},
    run=confusing,
)
