"""score_reading: exact match and F1 of first answers; score_confidence: how well confidences tell right labels."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import semi_join
from noisyir.errors import DataError
from noisyir.eval.measures import asked_splits, judged, query_groups, with_means
from noisyir.eval.settings import ScoreConfidenceParams, ScoreReadingParams
from noisyir.schemas.data import ANSWERS, QRELS, QUERIES
from noisyir.schemas.reading import CONFIDENCE_QUALITY, CONFIDENCES, GOLD_RUN, PASSAGES, READINGS
from noisyir.schemas.results import METRICS


def score_reading(job: Job[ScoreReadingParams]) -> None:
    """For each set of passages, `EM` and `F1` of every question asked that has answers, and their means.

    The measures are named after the passages: `EM bm25`.  A question that was answered nothing counts 0; one without
    answers, or whose answers are all without a word, is left out and counted in the notes.
    """
    params, queries, answers = job.params, job.table("queries"), job.table("answers")
    aliases = dict(zip(answers["query_id"].to_pylist(), answers["aliases"].to_pylist(), strict=True))
    passages = job.tables("passages")
    if unlike := set(passages) ^ set(readings := job.tables("readings")):
        raise DataError(f"score_reading: {min(unlike)!r} labels passages or readings, but not both")
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
        raise DataError(
            f"score_reading: no question of splits {list(params.splits)} was both read and has answers: read these "
            "splits (reader.score.splits), of data with answers"
        )
    job.note("left_out", dict(left_out))


def _groups(job: Job[ScoreReadingParams], queries: pa.Table) -> dict[str, str]:
    """The document of each question whose relevant documents are known."""
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
    """The values of a split's questions: measure, query_id, value."""
    from noisyir.data.answers import answer_lines
    from noisyir.eval.measures import best_f1, exact_match

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
    """An instance is right where its passage is given as relevant; questions that have none are left out."""
    from noisyir.eval.detection import confidence_quality

    relevant = job.table("given")
    rows = []
    for system, table in job.tables("confidences").items():
        known = table.filter(pc.is_in(table["query_id"], value_set=relevant["query_id"].unique()))
        if not known.num_rows:
            raise DataError(
                f"score_confidence: none of the {table.num_rows} confidences of {system} is of a question with "
                "relevant passages: judgements, or pairs that nobody judged, must name some of training questions"
            )
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
