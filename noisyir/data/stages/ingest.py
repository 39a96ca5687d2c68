"""Raw data of any format as the tables that other stages read, and weights of pairs from files."""

from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import DataError
from noisyir.base.settings import HELD_OUT, PROMOTION, AuditedSplit
from noisyir.data import artifacts
from noisyir.data.formats import Format, FormatOfRows
from noisyir.data.held_out import Pair, hold_out
from noisyir.data.id_texts import text_key
from noisyir.data.ingesting import IngestedRecords
from noisyir.data.passages import is_long
from noisyir.data.row_files import RowFile
from noisyir.data.settings import GivenFileParams, JudgedPairsParams
from noisyir.data.spelt import number_in
from noisyir.data.text_files import watched
from noisyir.engine.provenance import files_digest
from noisyir.engine.stage import Job, Stage, told
from noisyir.engine.tables import aligned, semi_join, with_values


def ingest(job: Job[Format]) -> None:
    """Read, check and write; the corpus passes through in parts."""
    source = job.params.open(job.runtime.threads)
    may_repeat = bool(getattr(source, "repeats_pairs", False))
    checked = IngestedRecords(source.name, job.params, may_repeat=may_repeat)
    texts: dict[str, int] = {}
    long = 0
    with job.writer("corpus") as out, watched() as so_far:
        for part in checked.documents(source.records()):
            out.append(part)
            if bytes_read := so_far():
                done, total = (round(count / 1e6) for count in bytes_read)
                job.progress(done, total, "MB")
            texts |= _texts_by_id(part) if job.params.hold_out else {}
            long += sum(map(is_long, part["text"].to_pylist()))
    tables = checked.tables()
    tables["pairs"] = _relevant(tables["pairs"], tables["qrels"], job.params.min_relevance)
    job.note("called_wrong", _called_wrong(tables["qrels"], tables["queries"], job.params.min_relevance))
    held_out: dict[str, Any] = {}
    if job.params.hold_out:
        wrong = _of_weight_0(job.params)
        tables, held_out = hold_out(tables, texts, job.params.hold_out, job.params.promotion_share, wrong)
    splits = {*tables["queries"]["split"].unique().to_pylist()}
    if job.params.promotion_share and not splits & {"dev", PROMOTION}:
        raise DataError("data.no_dev_to_promote", promotion_share=job.params.promotion_share)
    for name, table in tables.items():
        job.write(name, table)
    counts = {"repeated_pairs": checked.repeated} if may_repeat else {}
    counts |= {"long_documents": long} if long else {}
    job.note("source", {"name": source.name, **source.facts(), **counts, **held_out})
    job.note("excluded", checked.excluded_counts())
    job.note("result", _sizes(tables["pairs"], tables["queries"]))
    if "train" not in tables["pairs"]["split"].unique().to_pylist():
        job.note("training", "no training pairs: this data can be searched and scored, not trained on")
    if not tables["qrels"].num_rows and not {*HELD_OUT} & splits:
        job.note("scoring", "no judgements: this data can be trained on and audited, not scored")


def _of_weight_0(data: Format) -> set[Pair]:
    weights = data.weights() if isinstance(data, FormatOfRows) and data.has_weights else {}
    return {pair for pair, weight in weights.items() if not weight}


def _sizes(pairs: pa.Table, queries: pa.Table) -> str:
    counts = {row["values"]: row["counts"] for row in pc.value_counts(queries["split"]).to_pylist()}
    held = [f"{counts[split]:,} {split}" for split in HELD_OUT if split in counts]
    training = f"{pc.sum(pc.equal(pairs['split'], 'train')).as_py() or 0:,} training pairs"
    return ", ".join([training, *([f"{' and '.join(held)} queries"] if held else [])])


def _called_wrong(qrels: pa.Table, queries: pa.Table, least: int) -> int:
    """Number of training pairs that the data itself judges below `least`."""
    training = pc.equal(aligned(qrels, queries, ["query_id"])["split"], "train")
    return pc.sum(pc.and_(training, pc.less(qrels["relevance"], least))).as_py() or 0


def _texts_by_id(part: pa.Table) -> dict[str, int]:
    """A hash of each document's words, by id."""
    columns = (part[name].to_pylist() for name in ("doc_id", "title", "text"))
    return {doc_id: text_key(f"{title} {text}".casefold()) for doc_id, title, text in zip(*columns, strict=True)}


def _relevant(pairs: pa.Table, qrels: pa.Table, least: int) -> pa.Table:
    """The pairs without training pairs judged below `least`; an unjudged pair stays."""
    below = pa.array(semi_join(pairs, qrels.filter(pc.less(qrels["relevance"], least))))
    return pairs.filter(pc.invert(pc.and_(below, pc.equal(pairs["split"], "train"))))


INGEST = Stage(
    name="ingest",
    version=5,
    params=Format,
    reads={},
    writes={
        "corpus": artifacts.CORPUS,
        "queries": artifacts.QUERIES,
        "answers": artifacts.ANSWERS,
        "pairs": artifacts.PAIRS,
        "qrels": artifacts.QRELS,
        "given_negatives": artifacts.GIVEN_NEGATIVES,
        "excluded": artifacts.EXCLUDED,
    },
    run=ingest,
    raw={"source": Format.digest, "marks": Format.marks},
)


def judged_pairs(job: Job[JudgedPairsParams]) -> None:
    """Write a held-out split's relevant judgements as training pairs, which detectors judge, and its negatives."""
    qrels, pairs, split = job.table("qrels"), job.table("pairs"), job.params.split
    of = aligned(qrels, job.table("queries"), ["query_id"])["split"]
    right = pc.greater_equal(qrels["relevance"], job.params.min_relevance)
    mine = qrels.filter(pc.equal(of, split))
    relevant = mine.filter(pc.greater_equal(mine["relevance"], job.params.min_relevance)).select(["query_id", "doc_id"])
    if not relevant.num_rows:
        there = {*pairs["split"].filter(pc.equal(pairs["split"], "train")).to_pylist(), *of.filter(right).to_pylist()}
        named = ", ".join(name for name in get_args(AuditedSplit) if name in there) or "none"
        raise DataError("data.no_judged_pair", split=split, splits=named)
    source = aligned(relevant, pairs, ["query_id", "doc_id"])["source"]
    job.write("noisy_pairs", with_values(relevant, split=pa.repeat("train", len(relevant)), source=source))
    given = job.table("given_negatives")
    given = given.filter(pc.is_in(given["query_id"], value_set=pc.unique(relevant["query_id"])))
    wrong = mine.filter(pc.less_equal(mine["relevance"], 0)).select(["query_id", "doc_id"])
    wrong = wrong.filter(pa.array(~semi_join(wrong, given)))
    wrong = wrong.filter(pc.is_in(wrong["query_id"], value_set=pc.unique(relevant["query_id"])))
    wrong = wrong.append_column("score", pa.nulls(len(wrong), pa.float32()))
    job.write("given_negatives", pa.concat_tables([given, wrong]))


JUDGED_PAIRS = Stage(
    name="judged_pairs",
    version=1,
    params=JudgedPairsParams,
    reads={
        "qrels": artifacts.QRELS.all(),
        "queries": artifacts.QUERIES["query_id", "split"],
        "pairs": artifacts.PAIRS.all(),
        "given_negatives": artifacts.GIVEN_NEGATIVES.all(),
    },
    writes={"noisy_pairs": artifacts.NOISY_PAIRS, "given_negatives": artifacts.GIVEN_NEGATIVES},
    run=judged_pairs,
)


def given_weights(job: Job[FormatOfRows]) -> None:
    """Write each training pair's weight, 1 if the file gives none."""
    pairs = job.table("pairs")
    training = pairs.filter(pc.equal(pairs["split"], "train"))
    given = job.params.weights()
    ids = zip(training["query_id"].to_pylist(), training["doc_id"].to_pylist(), strict=True)
    weights = np.array([given.get(pair, 1.0) for pair in ids], np.float32)
    table = training.select(["query_id", "doc_id"]).append_column("weight", pa.array(weights))
    job.write("given_weights", table)
    below_half = int((weights < 0.5).sum())
    job.note("weights", {"pairs": len(weights), "mean": float(weights.mean()), "below_half": below_half})


GIVEN = Stage(
    name="given_weights",
    version=2,
    params=FormatOfRows,
    reads={"pairs": artifacts.NOISY_PAIRS["query_id", "doc_id", "split"]},
    writes={"given_weights": artifacts.GIVEN_WEIGHTS},
    run=given_weights,
    raw={"source": Format.digest},
    story=partial(
        told,
        "weights",
        "Weights: by the file {pairs:,} pairs count {mean:.2f} in the mean, {below_half:,} of them below one half.",
    ),
)


def digest_given(params: GivenFileParams) -> str:
    """A hash of the file's bytes."""
    path = Path(params.path or "")
    if not path.is_file():
        raise DataError("data.not_a_file", path=path)
    return files_digest(path.parent, [path])


def weights_of_others(job: Job[GivenFileParams]) -> None:
    """Write the weights of a file; every training pair needs one, not below 0."""
    pairs = job.table("pairs")
    training = pairs.filter(pc.equal(pairs["split"], "train"))
    rows = RowFile.open(str(job.params.path), "weights")
    columns = ("query_id", "doc_id", "weight")
    if lacking := [name for name in columns if name not in rows.columns]:
        raise DataError("data.missing_weight_column", rows=rows.path, lacking=lacking[0])
    given: dict[tuple[str, str], float] = {}
    for number, row in rows.rows(columns):
        given[str(row["query_id"]), str(row["doc_id"])] = _weight(row["weight"], f"{rows.place} {number}")
    ids = list(zip(training["query_id"].to_pylist(), training["doc_id"].to_pylist(), strict=True))
    if lost := [pair for pair in ids if pair not in given]:
        raise DataError("data.missing_weights", rows=rows.path, n_missing=len(lost), n_pairs=len(ids), example=lost[0])
    weights = np.array([given[pair] for pair in ids], np.float32)
    if not weights.any():
        raise DataError("data.all_weights_zero", rows=rows.path)
    job.write("given_weights", training.select(["query_id", "doc_id"]).append_column("weight", pa.array(weights)))


def _weight(value: object, place: str) -> float:
    if (weight := number_in(value)) is None or weight < 0:
        raise DataError("data.wrong_weight", place=place, value=value)
    return weight


WEIGHTS_OF_OTHERS = Stage(
    name="weights_of_others",
    version=1,
    params=GivenFileParams,
    reads={"pairs": artifacts.NOISY_PAIRS["query_id", "doc_id", "split"]},
    writes={"given_weights": artifacts.GIVEN_WEIGHTS},
    run=weights_of_others,
    raw={"source": digest_given},
)
