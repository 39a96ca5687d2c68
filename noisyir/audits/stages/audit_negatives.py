"""audit_negatives: candidates for hard negatives that judges drop, the likeliest relevant first."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.audits.artifacts import AUDIT_JUDGES
from noisyir.audits.artifacts import AUDIT_NEGATIVES as ROWS
from noisyir.audits.candidate_verdicts import JudgeVerdict, what_judges_say
from noisyir.audits.reasons import suspicion
from noisyir.audits.settings import SuspectsParams
from noisyir.audits.texts import overlap, texts_of
from noisyir.base.artifact import PAIR_KEY
from noisyir.base.errors import DataError
from noisyir.base.settings import Params
from noisyir.data.artifacts import CORPUS, GIVEN_NEGATIVES, NOISY_PAIRS, PAIRS, QUERIES
from noisyir.detection.artifacts import PAIR_SCORES
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import beside, semi_join, with_values
from noisyir.mining.artifacts import CANDIDATES, VERDICTS
from noisyir.training.artifacts import NEGATIVES

Columns = Mapping[str, pa.Array | pa.ChunkedArray]

_EVIDENCE = ["score", "positive_score", "positive_similarity", "overlap", "kept_by"]
_VERDICT = ["judges", "judge_scores", "judge_bounds"]
_REASONS = {True: "fits its query less than the best positive", False: "fits its query as the best positive does"}


def write_suspects(job: Job[SuspectsParams]) -> None:
    """Write the surest suspects with their evidence, and each judge's counts over all candidates."""
    verdicts, candidates = job.tables("verdicts"), job.table("candidates")
    if not verdicts:
        raise DataError("audits.no_judge_verdicts")
    said = what_judges_say(verdicts)
    _refuse_strangers(said.verdicts, candidates)
    suspects = beside(said.against.slice(0, job.params.negatives), candidates, PAIR_KEY)
    columns = {name: suspects[name] for name in (*PAIR_KEY, "rank", "score", "positive_score", "confidence")}
    columns |= _compared(job, suspects)
    columns |= _texts(job, columns)
    columns |= _verdicts(suspects, said)
    columns["reason"] = _reasons(columns)
    job.write("audit_negatives", pa.table({name: columns[name] for name in ROWS.columns}, schema=ROWS.schema))
    judges = _judges(job, said)
    job.write("audit_judges", judges)
    job.note("suspects", {name: judges[name][-1].as_py() for name in ("judged", "against", "used")})


def _refuse_strangers(verdicts: pa.Table, candidates: pa.Table) -> None:
    unknown = verdicts.select([*PAIR_KEY, "judge"]).join(candidates.select(PAIR_KEY), PAIR_KEY, join_type="left anti")
    if unknown.num_rows:
        example = unknown.sort_by([(name, "ascending") for name in (*PAIR_KEY, "judge")]).slice(0, 1).to_pylist()[0]
        raise DataError("audits.verdicts_of_no_candidates", n_verdicts=unknown.num_rows, example=example)


def _compared(job: Job[SuspectsParams], suspects: pa.Table) -> Columns:
    """A positive if the query has one, the cosine to it, and whether training drew the suspect."""
    pairs = job.table("pairs")
    training = pairs.filter(pc.equal(pairs["split"], "train"))
    first = training.group_by("query_id", use_threads=False).aggregate([("doc_id", "min")]).combine_chunks()
    place = pc.index_in(suspects["query_id"], value_set=first["query_id"].combine_chunks())
    norms = pc.multiply(suspects["positive_norm"], suspects["norm"])
    cosine = pc.if_else(pc.greater(norms, 0.0), pc.divide(suspects["positive_similarity"], norms), 0.0)
    drawn = pa.nulls(len(suspects), pa.bool_())
    if job.has("negatives"):
        drawn = pa.array(semi_join(suspects, job.table("negatives")))
    return {
        "positive": pc.coalesce(suspects["positive"], first["doc_id_min"].take(place)),
        "positive_similarity": cosine,
        "used": drawn,
    }


def _texts(job: Job[SuspectsParams], columns: Columns) -> Columns:
    """Texts of queries and documents, and the documents' overlap with their positives."""
    queries = job.table("queries")
    query_of = dict(zip(queries["query_id"].to_pylist(), queries["text"].to_pylist(), strict=True))
    asked, suspects, positives = (columns[name].to_pylist() for name in (*PAIR_KEY, "positive"))
    wanted = sorted({*suspects, *positives} - {None})
    text_of = texts_of(job.batches("corpus"), wanted)
    for kind, ids, known in (("queries", asked, query_of), ("documents", wanted, text_of)):
        if missing := [name for name in ids if name not in known]:
            raise DataError("audits.candidates_without_text", n_missing=len(missing), kind=kind, missing=missing[0])
    both = ((text_of[suspect], text_of.get(positive)) for suspect, positive in zip(suspects, positives, strict=True))
    overlaps = [None if positive is None else overlap(own, positive) for own, positive in both]
    return {
        "query": pa.array([query_of[query_id] for query_id in asked], pa.string()),
        "document": pa.array([text_of[doc_id] for doc_id in suspects], pa.string()),
        "overlap": pa.array(overlaps, pa.float32()),
    }


def _verdicts(suspects: pa.Table, said: JudgeVerdict) -> Columns:
    """The judges that drop each suspect, with score and bound, and the judges that keep it, by name."""
    of_pair: dict[tuple[str, str], list[dict[str, Any]]] = {}
    some = said.verdicts.join(suspects.select(PAIR_KEY), PAIR_KEY, join_type="left semi")
    for row in sorted(some.to_pylist(), key=lambda row: str(row["judge"])):
        of_pair.setdefault((row["query_id"], row["doc_id"]), []).append(row)
    rows = [of_pair[pair] for pair in zip(*(suspects[name].to_pylist() for name in PAIR_KEY), strict=True)]
    against = [[row for row in of_one if not row["keep"]] for of_one in rows]
    kept_by = [[row["judge"] for row in of_one if row["keep"]] for of_one in rows]
    lists = {column: [[row[name] for row in of_one] for of_one in against]
             for column, name in zip(_VERDICT, ("judge", "score", "bound"), strict=True)}  # fmt: skip
    return {name: pa.array(values, ROWS.columns[name]) for name, values in (lists | {"kept_by": kept_by}).items()}


def _reasons(columns: Columns) -> pa.Array:
    evidence = zip(*(columns[name].to_pylist() for name in _EVIDENCE), strict=True)
    verdicts = zip(*(columns[name].to_pylist() for name in _VERDICT), strict=True)
    said = [
        suspicion(score, positive, cosine, share, zip(*against, strict=True), kept_by)
        for (score, positive, cosine, share, kept_by), against in zip(evidence, verdicts, strict=True)
    ]
    return pa.array(said, pa.string())


def _judges(job: Job[SuspectsParams], said: JudgeVerdict) -> pa.Table:
    """Counts of each judge's verdicts and, under null, of all candidates that at least one of them did not keep."""
    drawn = job.table("negatives") if job.has("negatives") else None

    def row(judge: str | None, judged: int, against: pa.Table) -> dict[str, Any]:
        used = None if drawn is None else int(semi_join(against, drawn).sum())
        return {"judge": judge, "judged": judged, "against": against.num_rows, "used": used}

    by_judge = {judge: said.verdicts.filter(pc.equal(said.verdicts["judge"], judge)) for judge in job.refs("verdicts")}
    rows = [row(judge, own.num_rows, own.filter(pc.invert(own["keep"]))) for judge, own in sorted(by_judge.items())]
    return pa.Table.from_pylist([*rows, row(None, said.judged, said.against)], schema=AUDIT_JUDGES.schema)


AUDIT_NEGATIVES = Stage(
    name="audit_negatives",
    version=1,
    params=SuspectsParams,
    reads={
        "candidates": CANDIDATES.all(),
        "verdicts": VERDICTS["query_id", "doc_id", "score", "bound", "keep"].each(),
        "pairs": PAIRS["query_id", "doc_id", "split"],
        "queries": QUERIES["query_id", "text"],
        "corpus": CORPUS["doc_id", "title", "text"],
        "negatives": NEGATIVES["query_id", "doc_id"].or_none(),
    },
    writes={"audit_negatives": ROWS, "audit_judges": AUDIT_JUDGES},
    run=write_suspects,
)


def join_negatives(job: Job[Params]) -> None:
    """Write training pairs of queries with negatives, then the negatives, as one table for a detector."""
    pairs, negatives = job.table("pairs"), job.table("given_negatives")
    with_negatives = pc.is_in(pairs["query_id"], value_set=pc.unique(negatives["query_id"]))
    training = pairs.filter(pc.and_(with_negatives, pc.equal(pairs["split"], "train")))
    of_training = pc.is_in(negatives["query_id"], value_set=pc.unique(training["query_id"]))
    others = negatives.filter(pc.and_(of_training, pa.array(~semi_join(negatives, training)))).select(PAIR_KEY)
    split, source = pa.repeat("train", others.num_rows), pa.nulls(others.num_rows, pa.string())
    others = with_values(others, split=split, source=source)
    job.write("noisy_pairs", pa.concat_tables([training, others.cast(training.schema)]))


def judge_negatives(job: Job[Params]) -> None:
    """Keep a negative that fits its query less than the best positive does, and is no positive itself."""
    pairs, negatives, scores = job.table("pairs"), job.table("given_negatives"), job.table("scores")
    fit = scores.select(PAIR_KEY).append_column("fit", pc.negate(scores["score"]))
    positives = fit.filter(pa.array(semi_join(fit, pairs))).sort_by([("fit", "descending"), ("doc_id", "ascending")])
    first = pc.index_in(negatives["query_id"], value_set=positives["query_id"].combine_chunks())
    best = {"positive": positives["doc_id"].take(first), "bound": positives["fit"].take(first)}
    judged = with_values(negatives.select(PAIR_KEY), **best).filter(pc.is_valid(first))
    judged = judged.join(fit, PAIR_KEY, join_type="inner").sort_by([("query_id", "ascending"), ("fit", "descending")])
    kept = pc.less(judged["fit"], judged["bound"])
    columns = {"score": judged["fit"], "bound": judged["bound"], "keep": kept}
    reasons = pa.array([_REASONS[keep] for keep in kept.to_pylist()], pa.string())
    job.write("verdicts", pa.table({**{name: judged[name] for name in PAIR_KEY}, **columns, "reason": reasons}))
    job.write("candidates", _candidates(judged))
    job.note("given", {"judged": judged.num_rows, "as_good": judged.num_rows - (pc.sum(kept).as_py() or 0)})


def _candidates(judged: pa.Table) -> pa.Table:
    """Each negative with the best positive and its rank for the query, without vectors."""
    query = np.asarray(judged["query_id"].combine_chunks().dictionary_encode().indices, np.int64)
    starts = np.flatnonzero(np.diff(query, prepend=-1))
    rank = np.arange(len(query)) - np.repeat(starts, np.diff(starts, append=len(query))) + 1
    known = {
        **{name: judged[name] for name in PAIR_KEY},
        "rank": pa.array(rank, pa.int32()),
        "positive": judged["positive"],
    }
    columns = {name: known.get(name, pa.nulls(len(rank), kind)) for name, kind in CANDIDATES.columns.items()}
    return pa.table(columns, schema=CANDIDATES.schema)


JOIN_NEGATIVES = Stage(
    name="join_negatives",
    version=1,
    params=Params,
    reads={"pairs": NOISY_PAIRS["query_id", "doc_id", "split", "source"], "given_negatives": GIVEN_NEGATIVES.all()},
    writes={"noisy_pairs": NOISY_PAIRS},
    run=join_negatives,
)
JUDGE_NEGATIVES = Stage(
    name="judge_negatives",
    version=1,
    params=Params,
    reads={
        "pairs": NOISY_PAIRS["query_id", "doc_id"],
        "given_negatives": GIVEN_NEGATIVES.all(),
        "scores": PAIR_SCORES["query_id", "doc_id", "score"],
    },
    writes={"candidates": CANDIDATES, "verdicts": VERDICTS},
    run=judge_negatives,
)
