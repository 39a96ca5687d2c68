"""spans: distant labels, every place where a question's retrieved passages hold one of its answers."""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.stage import Job, SplitCounts, Stage
from noisyir.errors import DataError
from noisyir.readers.settings import SpansParams
from noisyir.schemas import reading
from noisyir.schemas.data import ANSWERS, CORPUS, QUERIES
from noisyir.schemas.reading import PASSAGES
from noisyir.schemas.retrieval import BM25_RUN

Row = dict[str, Any]
_QUESTIONS_AT_ONCE = 2048
_NOTED = ("questions", "without_answers", "without_tokens", "without_passages", "unmatched", "with_spans", "spans_cut")


def spans(job: Job[SpansParams]) -> None:
    """Match each question's answers in its passages; a passage without one is kept as a negative.

    Counted in the notes: questions without answers, with answers that tokenise to nothing, without passages, and
    those whose answers are in none of their passages; none of these has spans.
    """
    from noisyir.data.answers import answer_lines
    from noisyir.retrieval.texts import texts_of

    questions = _questions(job)
    run = _run(job, questions)
    texts = texts_of(job.batches("corpus"), run["doc_id"])
    answers = job.table("answers")
    aliases = dict(zip(answers["query_id"].to_pylist(), answers["aliases"].to_pylist(), strict=True))
    counts: Counter[str] = Counter()
    if not any(answer_lines(aliases.get(query_id, ())) for query_id in questions):
        raise DataError(
            f"spans: none of {len(questions)} questions in spans.splits={list(job.params.splits)} has an answer with "
            "a word in it: reading needs data with answers, such as data.kind=squad"
        )
    matched = _matched(run, questions, aliases, texts, job.params.max_spans, counts)
    with job.writer("spans") as out, job.writer("passages") as passages:
        while some := [found for _, found in zip(range(_QUESTIONS_AT_ONCE), matched, strict=False)]:
            labelled, read = ([row for rows in kind for row in rows] for kind in zip(*some, strict=True))
            out.append(pa.Table.from_pylist(labelled, schema=reading.SPANS.schema))
            passages.append(pa.Table.from_pylist(read, schema=PASSAGES.schema))
            job.progress(counts["questions"], len(questions), "questions")
    if not counts["with_spans"]:
        raise DataError(
            f"spans: the answers of {counts['questions']} questions are in none of their {passages.rows} passages: "
            "are run, corpus and answers of the same data?"
        )
    job.note("questions", {name: counts[name] for name in _NOTED})


def _questions(job: Job[SpansParams]) -> list[str]:
    """The questions of the splits, by id; some of them drawn, where no more are wanted."""
    from noisyir.retrieval.texts import of_splits

    chosen = of_splits(job.table("queries"), job.params.splits, "spans.splits")
    questions: list[str] = sorted(chosen["query_id"].to_pylist())
    if job.params.max_questions is None or job.params.max_questions >= len(questions):
        return questions
    drawn = job.rng("questions").choice(len(questions), job.params.max_questions, replace=False)
    return [questions[number] for number in sorted(drawn)]


def _run(job: Job[SpansParams], questions: list[str]) -> pa.Table:
    """The first passages of the questions, by question and rank."""
    run = job.table("run")
    asked = pc.is_in(run["query_id"], value_set=pa.array(questions, pa.string()))
    run = run.filter(pc.and_(asked, pc.less_equal(run["rank"], job.params.top_k)))
    return run.sort_by([("query_id", "ascending"), ("rank", "ascending")]).combine_chunks()


def _by_question(run: pa.Table, questions: list[str]) -> Iterator[list[Row]]:
    """The rows of each question in a run that is ordered by question; none where it has none."""
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
    """The spans and the passages of one question after the other; what was found, and what not, is counted."""
    from noisyir.data.answers import answer_lines, token_line
    from noisyir.readers.matching import places_of_lines

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
    """Why a question has no span."""
    if not aliases:
        return "without_answers"
    if not lines:
        return "without_tokens"
    return "unmatched" if passages else "without_passages"


def _fits(params: SpansParams, data: SplitCounts) -> None:
    from noisyir.retrieval.texts import check_splits

    check_splits(data.queries.keys(), params.splits, "spans.splits")


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
    writes={"spans": reading.SPANS, "passages": PASSAGES},
    run=spans,
    seeded=True,
    fits=_fits,
)
