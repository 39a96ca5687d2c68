"""Reader inference and scoring stages.

read: a reader's best spans over all passages of each question.
ensemble: the answers of several readers merged into one ranking.
score_reading: exact match and F1 of the first answers.
score_confidence: how well confidences identify correct labels.
"""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import BY_PAIR
from noisyir.base.errors import DataError
from noisyir.data.artifacts import ANSWERS, CORPUS, QRELS, QUERIES
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import semi_join
from noisyir.evaluation.artifacts import METRICS
from noisyir.readers.artifacts import CONFIDENCE_QUALITY, CONFIDENCES, GOLD_RUN, PASSAGES, READER, READINGS
from noisyir.readers.settings import EnsembleParams, ReadParams, ScoreConfidenceParams, ScoreReadingParams
from noisyir.retrieval.measures import asked_splits, judged, query_groups, with_means

if TYPE_CHECKING:
    from noisyir.readers.model import Reader, SpanChoice

_PLACE = ("doc_id", "start", "end")


def read(job: Job[ReadParams]) -> None:
    """Read every passage of every question in windows; a span's score is its start logit plus its end logit.

    Spans with the same text are merged, keeping the best. A question has no answer if none of its passages has a token.
    """
    import torch

    from noisyir.readers.model import load_reader, ranked
    from noisyir.retrieval.texts import texts_of

    torch.set_num_threads(job.runtime.cpu_threads)
    pairs = job.table("passages").sort_by(BY_PAIR)
    queries = _questions(job, pairs)
    text_of = texts_of(job.batches("corpus"), pairs["doc_id"])
    doc_ids = pa.array(sorted(text_of), pa.string())
    question, passage = (
        np.asarray(pc.index_in(pairs[name], value_set=ids), np.int64)
        for name, ids in (("query_id", queries["query_id"].combine_chunks()), ("doc_id", doc_ids))
    )
    texts = [text_of[doc_id] for doc_id in doc_ids.to_pylist()]
    found = _find(job, load_reader(job.folder("reader"), job.runtime.device), queries, texts, (question, passage))
    kept = ranked(found, question, passage, texts, job.params.n_best)
    job.write("readings", _readings(found, kept, passage, queries, doc_ids, texts))


def _questions(job: Job[ReadParams], pairs: pa.Table) -> pa.Table:
    """Return the questions that the pairs refer to, by id.

    Raises:
        DataError: If a question is unknown.
    """
    queries, asked = job.table("queries"), pairs["query_id"].unique()
    queries = queries.filter(pc.is_in(queries["query_id"], value_set=asked)).sort_by("query_id")
    if queries.num_rows < len(asked):
        unknown = asked.filter(pc.invert(pc.is_in(asked, value_set=queries["query_id"].combine_chunks())))
        raise DataError("readers.questions_passages_unknown_example", n_unknown=len(unknown), as_py=unknown[0].as_py())
    return queries


def _find(
    job: Job[ReadParams], reader: "Reader", queries: pa.Table, texts: list[str], pairs: tuple[np.ndarray, np.ndarray]
) -> "SpanChoice":
    """Find the best spans of all windows and record the number of windows in the notes."""
    from noisyir.models.at_once import inference_tokens
    from noisyir.readers.model import all_windows, find_spans

    params, done = job.params, 0
    questions = reader.tokenizer.questions(queries["text"].to_pylist())
    passages = reader.tokenizer.passages(texts)
    room = reader.tokenizer.room(questions)[pairs[0]]
    windows = all_windows(passages.tokens.lengths[pairs[1]], room, params.stride)
    job.note("windows", len(windows.pair))
    batch_tokens = inference_tokens(job.runtime.batch_tokens)  # not measured: few windows at once anyway

    def progress(count: int) -> None:
        nonlocal done
        done += count
        job.progress(done, len(windows.pair), "windows")

    return find_spans(
        reader, questions, passages, pairs, windows, n_best=params.n_best, max_answer_len=params.max_answer_len,
        bf16=params.precision == "bf16", batch_tokens=batch_tokens, progress=progress,
    )  # fmt: skip


def _readings(
    found: "SpanChoice",
    kept: list[tuple[int, int, int]],
    passage: np.ndarray,
    queries: pa.Table,
    doc_ids: pa.Array,
    texts: list[str],
) -> pa.Table:
    """Return the kept spans as rows of the artifact, with surrounding whitespace trimmed."""
    rows, question, rank = np.array(kept, np.int64).reshape(-1, 3).T
    document = passage[found.pair[rows]]
    spans = zip(document.tolist(), found.start[rows].tolist(), found.end[rows].tolist(), strict=True)
    trimmed = [_trimmed(texts[row], start, end) for row, start, end in spans]
    return pa.table(
        {
            "query_id": queries["query_id"].take(pa.array(question)),
            "rank": pa.array(rank, pa.int32()),
            "doc_id": doc_ids.take(pa.array(document)),
            "start": pa.array([start for start, _, _ in trimmed], pa.int32()),
            "end": pa.array([end for _, end, _ in trimmed], pa.int32()),
            "answer": pa.array([answer for _, _, answer in trimmed], pa.string()),
            "score": pa.array(found.score[rows], pa.float32()),
        }
    )


def _trimmed(text: str, start: int, end: int) -> tuple[int, int, str]:
    """Trim whitespace from both ends of a span; return (start, end, text)."""
    answer = text[start:end].lstrip()
    return end - len(answer), end - len(answer) + len(answer.rstrip()), answer.rstrip()


READ = Stage(
    name="read",
    version=1,
    params=ReadParams,
    reads={
        "reader": READER.all(),
        "passages": PASSAGES["query_id", "doc_id"],
        "queries": QUERIES["query_id", "text"],
        "corpus": CORPUS["doc_id", "text"],
    },
    writes={"readings": READINGS},
    run=read,
    pool="gpu",
)


def ensemble(job: Job[EnsembleParams]) -> None:
    """Sum each answer's softmax share over the readers and keep the highest sums.

    Answers are identified by their text; the position comes from the reader that scores the answer highest. A reader
    contributes nothing to answers outside its own best spans. The score is the mean over readers; ties are ordered by
    text.
    """
    from noisyir.retrieval.texts import places

    tables = job.tables("readings")
    if not tables:
        raise DataError("readers.ensemble_no_readings_name")
    each = pa.concat_tables([table.append_column("share", pa.array(shares(table))) for table in tables.values()])
    answer = [("query_id", "ascending"), ("answer", "ascending")]
    each = each.sort_by([*answer, ("share", "descending"), *((name, "ascending") for name in _PLACE)])
    # rows are ordered by answer, best position first; groups keep this order and are summed in it
    found = each.group_by(["query_id", "answer"], use_threads=False).aggregate(
        [("share", "sum"), *((name, "first") for name in _PLACE)]
    )
    found = found.rename_columns(["query_id", "answer", "share", *_PLACE])
    found = found.sort_by([("query_id", "ascending"), ("share", "descending"), ("answer", "ascending")])
    _, place = places(found)
    kept = found.append_column("rank", pa.array(place + 1, pa.int32())).filter(pa.array(place < job.params.n_best))
    score = pa.array(kept["share"].to_numpy() / len(tables), pa.float32())
    job.write("readings", kept.append_column("score", score))


def shares(readings: pa.Table) -> np.ndarray:
    """Softmax of each row's score over the spans of its question, in float64."""
    question = readings["query_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    scores = readings["score"].to_numpy().astype(np.float64)
    highest = np.full(int(question.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(highest, question, scores)
    masses = np.exp(scores - highest[question])
    return np.asarray(masses / np.bincount(question, masses, len(highest))[question])


ENSEMBLE = Stage(
    name="ensemble",
    version=1,
    params=EnsembleParams,
    reads={"readings": READINGS.all().each()},
    writes={"readings": READINGS},
    run=ensemble,
    pool="driver",
)


def score_reading(job: Job[ScoreReadingParams]) -> None:
    """Compute `EM` and `F1` per question and their means, for each set of passages.

    Measures are named after the passages, such as `EM bm25`. An unanswered question scores 0. Questions without
    answers, or with answers that contain no words, are skipped and counted in the notes.
    """
    params, queries, answers = job.params, job.table("queries"), job.table("answers")
    aliases = dict(zip(answers["query_id"].to_pylist(), answers["aliases"].to_pylist(), strict=True))
    passages = job.tables("passages")
    if unlike := set(passages) ^ set(readings := job.tables("readings")):
        raise DataError("readers.score_reading_labels_passages", unlike=min(unlike))
    left_out: Counter[str] = Counter()
    scored, groups = 0, _groups(job, queries)
    with job.writer("metrics") as out:
        for label, table in readings.items():
            first = table.filter(pc.equal(table["rank"], 1))
            given = dict(zip(first["query_id"].to_pylist(), first["answer"].to_pylist(), strict=True))
            asked = set(passages[label]["query_id"].to_pylist())
            for split in asked_splits(params.splits, queries):
                of_split = queries.filter(pc.equal(queries["split"], split))["query_id"].to_pylist()
                rows = _values(sorted(asked & set(of_split)), given, aliases, label, params, left_out)
                out.append(with_means(rows, split, groups))
                scored += rows.num_rows
    if not scored:
        raise DataError("readers.score_reading_no_question", splits=list(params.splits))
    job.note("left_out", dict(left_out))


def _groups(job: Job[ScoreReadingParams], queries: pa.Table) -> dict[str, str]:
    """Return the document of each question with known relevant documents."""
    if not job.has("qrels"):
        return {}
    return query_groups(judged(job.table("qrels"), queries["query_id"].to_pylist()))


def _values(
    asked: list[str],
    given: dict[str, str],
    aliases: dict[str, list[str]],
    label: str,
    params: ScoreReadingParams,
    left_out: Counter[str],
) -> pa.Table:
    """Return the per-question values of a split: measure, query_id, value."""
    from noisyir.data.answers import answer_lines
    from noisyir.retrieval.answer_measures import best_f1, exact_match

    usable = [query_id for query_id in asked if answer_lines(aliases.get(query_id, ()))]
    left_out[label] += len(asked) - len(usable)
    rows: list[tuple[str, str, float]] = []
    for name, measure in (("EM", exact_match), ("F1", best_f1)):
        values = [measure(given.get(one, ""), aliases[one], params.normalisation) for one in usable]
        about = f"{name} {label}"
        rows += [(about, one, value) for one, value in zip(usable, values, strict=True)]
    schema = pa.schema([("measure", pa.string()), ("query_id", pa.string()), ("value", pa.float64())])
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


SCORE_READING = Stage(
    name="score_reading",
    version=2,
    params=ScoreReadingParams,
    reads={
        "readings": READINGS["query_id", "rank", "answer"].each(),
        "passages": PASSAGES["query_id"].each(),
        "answers": ANSWERS.all(),
        "queries": QUERIES["query_id", "split"],
        "qrels": QRELS["query_id", "doc_id", "relevance"].or_none(),
    },
    writes={"metrics": METRICS},
    run=score_reading,
    pool="driver",
)


def score_confidence(job: Job[ScoreConfidenceParams]) -> None:
    """Score confidences; an instance is correct if its passage is judged relevant.

    Questions without relevant passages are skipped.
    """
    from noisyir.evaluation.detection import confidence_quality

    relevant = job.table("given")
    rows = []
    for system, table in job.tables("confidences").items():
        known = table.filter(pc.is_in(table["query_id"], value_set=relevant["query_id"].unique()))
        if not known.num_rows:
            raise DataError("readers.score_confidence_none_confidences", num_rows=table.num_rows, system=system)
        by_update = known.sort_by([(name, "ascending") for name in ("update", *CONFIDENCES.key[:-1])])
        instances = by_update.filter(pc.equal(by_update["update"], 0)).combine_chunks()
        right = semi_join(instances, relevant)
        question = instances["query_id"].combine_chunks().dictionary_encode().indices.to_numpy()
        values = by_update["value"].to_numpy().reshape(-1, len(instances))
        for update, confidence in enumerate(values):
            for measure, value in confidence_quality(confidence, values[0], right, question).items():
                rows.append({"system": system, "update": update, "measure": measure, "value": value})
    job.write("confidence_quality", pa.Table.from_pylist(rows, schema=CONFIDENCE_QUALITY.schema))


SCORE_CONFIDENCE = Stage(
    name="score_confidence",
    version=2,
    params=ScoreConfidenceParams,
    reads={"confidences": CONFIDENCES.all().each(), "given": GOLD_RUN["query_id", "doc_id"]},
    writes={"confidence_quality": CONFIDENCE_QUALITY},
    run=score_confidence,
    pool="driver",
)
