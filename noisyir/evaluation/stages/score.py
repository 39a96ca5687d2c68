"""score: the measures of one run, for every judged query and on average."""

from collections.abc import Iterator

import pyarrow as pa

from noisyir.base.errors import ConfigError, DataError
from noisyir.base.settings import HELD_OUT
from noisyir.data.answers import answer_match
from noisyir.data.artifacts import ANSWERS, CORPUS, QRELS, QUERIES
from noisyir.data.own_documents import own_documents
from noisyir.engine.stage import Job, SplitCounts, Stage
from noisyir.engine.tables import semi_join
from noisyir.evaluation.artifacts import METRICS, TREC
from noisyir.evaluation.settings import ScoreParams
from noisyir.retrieval.artifacts import DENSE_RUN
from noisyir.retrieval.measures import asked_splits, judged, parse, per_query, query_groups, ranked, ranking, with_means
from noisyir.retrieval.trec import write_qrels, write_run


def score(job: Job[ScoreParams]) -> None:
    """Score the run on each split, by answers alone if it has no judgements; write values and TREC files."""
    params, run, qrels, queries = job.params, job.table("run"), job.table("qrels"), job.table("queries")
    folder, first = job.new_folder("trec"), dict[str, str]()
    own = own_documents(queries, job.batches("corpus") if job.has("corpus") else (), qrels)
    if left_out := int((itself := semi_join(run, own)).sum()):
        run = run.filter(pa.array(~itself))
        job.note("own_hits", left_out)
    with job.writer("metrics") as out:
        for split in asked_splits(params.splits, queries):
            query_ids = queries.filter(pa.compute.equal(queries["split"], split))["query_id"].to_pylist()
            judgements = judged(qrels, query_ids)
            rows = ranked(run, query_ids, ignore_same_id=params.ignore_same_id)
            found = [per_query(rows, judgements, params.measures)] if judgements else []
            found += _answer_match(job, rows, query_ids)
            if not found:
                raise DataError("evaluation.no_judgement_to_score", split=split)
            groups = query_groups(judgements)
            measured = [with_means(values, split, groups) for values in found]
            for values in measured:
                out.append(values)
            means = measured[0].filter(pa.compute.is_null(measured[0]["query_id"]))
            first[split] = f"{means['measure'][0]} {means['value'][0].as_py():.3f}"
            write_run(rows, folder / f"{split}.run")
            write_qrels(judgements, folder / f"{split}.qrels")
            job.note(f"queries_{split}", len(judgements))
    without = f", without {left_out:,} hits that are the query itself" if left_out else ""
    job.note("result", (first.get("test") or next(iter(first.values()))) + without)


def _answer_match(job: Job[ScoreParams], run: pa.Table, query_ids: list[str]) -> Iterator[pa.Table]:
    if not job.params.answer_ranks:
        return
    answers = job.table("answers") if job.has("answers") else ANSWERS.schema.empty_table()
    answers = answers.filter(pa.compute.is_in(answers["query_id"], pa.array(query_ids, pa.string())))
    if not answers.num_rows or not job.has("corpus"):
        raise ConfigError("evaluation.no_answers")
    retrieved = run.filter(pa.compute.less_equal(run["rank"], max(job.params.answer_ranks)))["doc_id"].unique()
    texts: dict[str, str] = {}
    for batch in job.batches("corpus"):
        kept = batch.filter(pa.compute.is_in(batch["doc_id"], retrieved))
        texts.update(zip(kept["doc_id"].to_pylist(), kept["text"].to_pylist(), strict=True))
    aliases = dict(zip(answers["query_id"].to_pylist(), answers["aliases"].to_pylist(), strict=True))
    yield answer_match(dict(ranking(run)), aliases, texts, job.params.answer_ranks)


def measures_are_known(params: ScoreParams) -> None:
    """Check the measures."""
    for name in params.measures:
        parse(name)


def splits_are_there(params: ScoreParams, data: SplitCounts) -> None:
    """Check the splits.

    Raises:
        DataError: If one has no query with a judgement or answers.
    """
    there = [split for split, count in data.queries.items() if count]
    if lacking := [split for split in params.splits if split not in there]:
        instead = [split for split in HELD_OUT if split in there]
        remedy = f"score.splits=[{','.join(instead)}], or give" if instead else "give"
        raise DataError(
            "evaluation.no_query_to_score",
            lacking=lacking[0],
            there=", ".join(sorted(there)) or "no split",
            remedy=remedy,
        )


SCORE = Stage(
    name="score",
    version=2,
    params=ScoreParams,
    reads={
        "run": DENSE_RUN["query_id", "doc_id", "rank", "score"],
        "qrels": QRELS.all(),
        "queries": QUERIES["query_id", "text", "split"],
        "answers": ANSWERS.all().or_none(),
        "corpus": CORPUS["doc_id", "title", "text"].or_none(),
    },
    writes={"metrics": METRICS, "trec": TREC},
    run=score,
    pool="driver",
    ready=measures_are_known,
    fits=splits_are_there,
)
