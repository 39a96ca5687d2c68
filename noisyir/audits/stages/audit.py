"""audit: the training pairs for their owner, the most suspect first, with the evidence."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.audits.artifacts import AUDIT_FILES, AUDIT_JUDGES, AUDIT_NEGATIVES
from noisyir.audits.by_hand import MOST_SUSPECT_FIRST, as_the_machine_says, judged_by_hand, with_suspicion
from noisyir.audits.columns import AUDIT as ROWS
from noisyir.audits.columns import FLAGGED, computed
from noisyir.audits.files import cut, write_csv, write_pairs
from noisyir.audits.keeping import kept_by_judgements, kept_if_assumed
from noisyir.audits.pair_evidence import better_documents, with_reasons
from noisyir.audits.settings import AuditParams
from noisyir.audits.suspects_page import Suspects
from noisyir.audits.texts import PairTexts, read_texts
from noisyir.base.artifact import PAIR_KEY
from noisyir.base.errors import ConfigError, DataError
from noisyir.data.artifacts import CORPUS, PAIRS, QUERIES
from noisyir.detection.artifacts import COMPETITORS, KEPT_BY_NULL, NOISE_ESTIMATE, PAIR_FEATURES
from noisyir.detection.calibration.sample import draw_sample
from noisyir.detection.judgements import Judgements, drawn_at_random, judgements_digest, read_judgements, rows_of
from noisyir.detection.settings import DetectParams, Null
from noisyir.engine.meta import Ref
from noisyir.engine.provenance import lineage
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import aligned, matrix, with_values
from noisyir.training.artifacts import NOISE_FLAGS
from noisyir.training.flags import last_estimate, with_flags

if TYPE_CHECKING:
    from noisyir.audits.page import VerdictProvenance

_CHUNK = 8192  # rows with documents in memory at once, besides the distinct ones


def write_audit(job: Job[AuditParams]) -> None:
    """Judge the training pairs by their last flags and by hand; write the table and the files for people."""
    from noisyir.audits.page import AuditPage, documents_shown, render

    estimate, provenance = last_estimate(job.table("estimate")), _provenance(job)
    pairs, pooled = _flagged(job, provenance.assumed), pa.array([], pa.string())
    bounds = job.table("kept_by_null") if job.has("kept_by_null") else KEPT_BY_NULL.schema.empty_table()
    keeping = kept_if_assumed(bounds, pairs.num_rows, provenance.assumed)
    if job.params.judgement_files:
        judgements, pooled = _judgements(job, pairs)
        keeping = kept_by_judgements(pairs, judgements) if drawn_at_random(judgements) else keeping
        pairs, estimate, provenance = _by_hand(job, judgements, pairs, estimate, provenance)
    else:
        pairs = as_the_machine_says(pairs)
    pairs = _searched(job, with_suspicion(pairs).sort_by(MOST_SUSPECT_FIRST).combine_chunks())
    suspects = _suspects(job)
    on_page = documents_shown(pairs.slice(0, job.params.html_rows), suspects, job.params.better)
    accepted = pairs["replacement"].filter(pairs["accepted"]).combine_chunks()
    wanted = pa.concat_arrays([pairs["doc_id"].combine_chunks(), on_page, accepted, pooled]).unique()
    texts = read_texts(job.batches("corpus", _CHUNK), wanted, pairs["query"].unique().to_pylist())
    _refuse_unknown(pairs["doc_id"], texts.documents["doc_id"], "documents", "the corpus")
    _refuse_unknown(pooled, texts.documents["doc_id"], "judged documents", "the corpus")
    _refuse_unknown(accepted, texts.documents["doc_id"], "accepted replacements", "the corpus")
    folder = job.new_folder("audit_files")
    with job.writer("audit") as out:
        for start in range(0, pairs.num_rows, _CHUNK):
            rows = _explained(pairs.slice(start, _CHUNK), texts)
            out.append(rows)
            job.progress(start + rows.num_rows, pairs.num_rows, "pairs")
    if job.params.sample:
        write_csv([_sample(job, pairs, texts)], folder / "sample.csv")
    if suspects:
        _write_suspects(job, suspects, texts, folder)
    shown = _explained(pairs.slice(0, job.params.html_rows), texts)
    page = render(job.params, AuditPage(pairs, shown, texts, estimate, provenance, keeping, suspects))
    (folder / "audit.html").write_text(page, encoding="utf-8")


def _flagged(job: Job[AuditParams], assumed: Null | None) -> pa.Table:
    """The training pairs with the query's text and the last epoch's flags as verdicts.

    Without judgements a flagged pair is suspect, and has a chance only under an assumption.
    """
    given = job.table("pairs")
    pairs = given.filter(pc.equal(given["split"], "train")).select([*PAIR_KEY, "source"])
    if not pairs.num_rows:
        raise DataError("audits.no_training_pairs")
    pairs = with_flags(pairs, job.table("flags"))
    queries = job.table("queries")
    _refuse_unknown(pairs["query_id"], queries["query_id"], "queries", "the queries")
    return with_values(
        pairs.drop_columns(["is_clean"]),
        verdict=pc.if_else(pairs["is_clean"], pa.scalar(None, pa.string()), "suspect"),
        p_clean=pairs["p_clean"] if assumed else pa.nulls(pairs.num_rows, pa.float32()),
        rests_on=pa.array([assumed] * pairs.num_rows, pa.string()),
        by_hand=pa.repeat(False, pairs.num_rows),
        query=aligned(pairs, queries, ["query_id"])["text"],
    )


def _judgements(job: Job[AuditParams], pairs: pa.Table) -> tuple[Judgements, pa.Array]:
    """Verdicts on audited pairs, and the documents without a label that people judged for held-out queries."""
    queries, split = job.table("queries"), job.params.split
    held = queries["query_id"].filter(pc.equal(queries["split"], split)) if split != "train" else pa.array([])
    said = read_judgements(job.params.judgement_files, pairs, {*held.to_pylist()})
    audited = rows_of(said, pairs)
    others = pa.array([doc for query, doc in said if (query, doc) not in audited], pa.string())
    return {pair: said[pair] for pair in audited}, others


def _by_hand(
    job: Job[AuditParams],
    judgements: Judgements,
    pairs: pa.Table,
    estimate: dict[str, float],
    provenance: "VerdictProvenance",
) -> "tuple[pa.Table, dict[str, float], VerdictProvenance]":
    """The pairs, estimate and provenance after the judgements; the notes keep the changes."""
    detect = provenance.detect or DetectParams()
    limits = {"threshold": detect.threshold, "confidence": detect.confidence}
    pairs, found = judged_by_hand(pairs, judgements, **limits, refit=job.params.refit, features=_features(job, pairs))
    job.note("judgements", {**asdict(found), "summary": found.summary()})
    rates = dict(zip(("rate", "rate_low", "rate_high"), found.interval or (), strict=False))
    hands = replace(provenance, judged=found.judged, sampled=found.sampled, border=found.recomputed)
    return pairs, estimate | rates, replace(hands, detect=detect)


def _features(job: Job[AuditParams], pairs: pa.Table) -> np.ndarray | None:
    """The features of each pair in a row; None if no detector gave any."""
    table = job.table("features") if job.has("features") else None
    if table is None or not table.num_rows:
        return None
    return matrix(aligned(pairs, table, PAIR_KEY)["features"])


def _searched(job: Job[AuditParams], pairs: pa.Table) -> pa.Table:
    """The pairs with rank, similarity and better documents, null and empty without a search."""
    competitors = job.table("competitors") if job.has("competitors") else COMPETITORS.schema.empty_table()
    competitors = aligned(pairs, competitors, PAIR_KEY)
    better, similarities = better_documents(competitors)
    none = pa.scalar(None, pa.string())
    return with_values(
        pairs,
        rank=competitors["rank"],
        similarity=competitors["similarity"],
        better=better,
        better_similarities=similarities,
        replacement=pc.if_else(_is(pairs["verdict"], "clean"), none, pairs["replacement"]),
        machine_replacement=pc.if_else(_is(pairs["machine_verdict"], *FLAGGED), pairs["machine_replacement"], none),
    )


def _is(verdicts: pa.ChunkedArray, *some: str) -> pa.ChunkedArray:
    """Whether each is one of these; null is none."""
    return pc.is_in(verdicts, value_set=pa.array(some))


def _suspects(job: Job[AuditParams]) -> Suspects | None:
    """Candidates for negatives that judges call relevant; None without judges."""
    given = job.has("audit_negatives"), job.has("audit_judges")
    if any(given) and not all(given):
        raise ConfigError("audits.negatives_without_judges")
    return Suspects(job.table("audit_negatives"), job.table("audit_judges")) if all(given) else None


def _write_suspects(job: Job[AuditParams], suspects: Suspects, texts: PairTexts, folder: Path) -> None:
    rows = suspects.rows
    _refuse_unknown(rows["doc_id"], texts.documents["doc_id"], "documents", "the corpus")
    write_csv([cut(rows, job.params.text_chars)], folder / "negatives.csv")
    sure = suspects.sure(job.params.promote)
    if sure.num_rows and job.params.split == "train":  # held-out queries are not trained on
        write_pairs(sure.select([*PAIR_KEY, "query"]), texts.documents, folder / "extra_positives.jsonl")
    job.note("suspects", {"shown": rows.num_rows, "extra_positives": sure.num_rows})


def _refuse_unknown(ids: pa.ChunkedArray, known: pa.ChunkedArray, what: str, where: str) -> None:
    unknown = ids.filter(pc.invert(pc.is_in(ids, value_set=known.combine_chunks()))).unique()
    if len(unknown):
        raise DataError(
            "audits.unknown_pair_ids", n_unknown=len(unknown), what=what, where=where, example=unknown[0].as_py()
        )


def _explained(pairs: pa.Table, texts: PairTexts) -> pa.Table:
    """Rows of the audit: the pairs with document, number of duplicates and reason."""
    return computed(with_reasons(pairs, texts))


def _sample(job: Job[AuditParams], pairs: pa.Table, texts: PairTexts) -> pa.Table:
    """Pairs to judge by hand, with an empty verdict and without the machine's."""
    sample = draw_sample(pairs["score"].to_numpy().astype(np.float64), job.params.sample, job.rng("sample"))
    rows = cut(_explained(pairs.take(sample.rows), texts), job.params.text_chars)
    empty, weight = pa.nulls(len(sample.rows), pa.string()), pa.array(sample.weights, pa.float64())
    return with_values(rows.select([*PAIR_KEY, "query", "document"]), verdict=empty, weight=weight)


def _provenance(job: Job[AuditParams]) -> "VerdictProvenance":
    """The provenance of the verdicts, from the builds behind the flags."""
    from noisyir.audits.page import VerdictProvenance

    settings: dict[str, dict[str, Any]] = {}
    detectors = []
    notes: dict[str, Any] = {}
    flags = job.inputs["flags"]
    assert isinstance(flags, Ref)
    for meta in lineage(job.store, [flags]):
        settings[meta.stage] = dict(meta.params)
        notes |= meta.notes if meta.stage == "ingest" else {}
        detectors += [meta.params["kind"]] if meta.stage == "score_pairs" else []
    source = notes.get("source", {})
    return VerdictProvenance(
        dataset=settings.get("ingest", {}).get("kind"),
        detectors=tuple(detectors),
        detect=DetectParams(**settings["detect"]) if "detect" in settings else None,
        repeated=source.get("repeated_pairs", 0),
        called_wrong=notes.get("called_wrong", 0),
        columns=source.get("columns", {}),
        mapped=bool(settings.get("ingest", {}).get("columns")),
    )


AUDIT = Stage(
    name="audit",
    version=15,
    params=AuditParams,
    reads={
        "corpus": CORPUS["doc_id", "title", "text"],
        "queries": QUERIES["query_id", "text", "split"],
        "pairs": PAIRS.all(),
        "flags": NOISE_FLAGS.all(),
        "estimate": NOISE_ESTIMATE.all(),
        "kept_by_null": KEPT_BY_NULL.all().or_none(),
        "competitors": COMPETITORS.all().or_none(),
        "features": PAIR_FEATURES.all().or_none(),
        "audit_negatives": AUDIT_NEGATIVES.all().or_none(),
        "audit_judges": AUDIT_JUDGES.all().or_none(),
    },
    writes={"audit": ROWS, "audit_files": AUDIT_FILES},
    run=write_audit,
    seeded=True,
    raw={"judgements": lambda params: judgements_digest(params.judgement_files)},
)
