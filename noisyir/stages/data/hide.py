"""hide: relevant documents that no pair names, at a known rate, and the truth about them, which only scoring may read.

The names of its tables are those of ingest: what comes after reads either.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.costs.retrieval import per_pair
from noisyir.data.settings import HideParams
from noisyir.engine.stage import Job, Stage
from noisyir.errors import DataError
from noisyir.schemas.data import CORPUS, HIDDEN, PAIRS, QRELS

_BY_IDS = [("query_id", "ascending"), ("doc_id", "ascending")]


class Originals(NamedTuple):
    """The documents that are copied, by id: (title, text); and the ascending text keys of the whole corpus."""

    by_id: dict[str, tuple[str, str]]
    keys: np.ndarray[Any, np.dtype[np.uint64]]


def hide(job: Job[HideParams]) -> None:
    """Take pairs away, or add edited copies of their documents; only training pairs are touched."""
    pairs = job.table("pairs")
    numbered = pairs.append_column("row", pa.array(np.arange(len(pairs))))
    training = numbered.filter(pc.equal(pairs["split"], "train")).sort_by(_BY_IDS)
    copies = CORPUS.schema.empty_table()
    if job.params.mechanism == "positives":
        hidden = _positives(job, training)
        pairs = pairs.take(np.delete(np.arange(len(pairs)), hidden["row"].to_numpy()))
    else:
        copies, hidden = _near_duplicates(job, pairs, training)
    job.write("pairs", pairs)
    job.write("hidden", hidden.append_column("kind", pa.array([job.params.mechanism] * len(hidden), pa.string())))
    with job.writer("corpus") as out:
        for batch in job.batches("corpus"):
            out.append(pa.Table.from_batches([batch]))
        if len(copies):
            out.append(copies)


def _positives(job: Job[HideParams], training: pa.Table) -> pa.Table:
    """The pairs that are hidden: exactly round(rate * n) of the n that stand beside another pair of their query."""
    from noisyir.data.hidden import hideable
    from noisyir.data.noise import choose_pairs

    query = training["query_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    free = np.flatnonzero(hideable(query, job.rng("stays")))
    if job.params.rate and not len(free):
        raise DataError(
            f"hide.mechanism=positives needs training queries with several pairs, and each of the {len(training)} "
            "training pairs is its query's only one: set hide.mechanism=near_duplicates, or hide.rate=0"
        )
    hidden = training.take(free[choose_pairs(len(free), job.params.rate, job.rng("pairs"))])
    counts = {"training_pairs": len(training), "hideable": len(free), "hidden": len(hidden)}
    job.note("hidden", {"mechanism": job.params.mechanism, **counts})
    return hidden.append_column("edit_rate", pa.nulls(len(hidden), pa.float32()))


def _near_duplicates(job: Job[HideParams], pairs: pa.Table, training: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The copies, as rows of the corpus, and each with every training query that a pair gives its original."""
    from noisyir.data.hidden import edited_copies

    params, rng = job.params, job.rng("copies")
    chosen, eligible = _chosen(job, pairs, training)
    originals = _originals(job, chosen) if chosen else Originals({}, np.empty(0, np.uint64))
    texts = [originals.by_id[doc_id][1] for doc_id in chosen]
    copies = list(edited_copies(texts, params.copies, params.edit_rates, originals.keys, rng))
    made = [copy for copy in copies if copy.text is not None]
    doc_ids = pa.array([chosen[copy.original] for copy in made], pa.string())
    names = pa.array([_name(chosen[copy.original], copy.number) for copy in made], pa.string())
    rows = {
        "doc_id": names,
        "doc_row": pa.array(job.rows("corpus") + np.arange(len(made)), pa.int32()),
        "title": pa.array([originals.by_id[chosen[copy.original]][0] for copy in made], pa.string()),
        "text": pa.array([copy.text for copy in made], pa.string()),
    }
    rates = pa.array([copy.edit_rate for copy in made], pa.float32())
    copied = pa.table({"original": doc_ids, "doc_id": names, "edit_rate": rates})
    asked = training.select(["query_id", "doc_id"]).rename_columns(["query_id", "original"])
    hidden = asked.join(copied, "original", join_type="inner").sort_by(_BY_IDS)
    counts = {
        "eligible_documents": eligible,
        "copied_documents": len(chosen),
        "copies": len(made),
        "copies_edited_again": sum(copy.again > 0 for copy in made),
        "copies_given_up": len(copies) - len(made),
        "hidden": len(hidden),
    }
    job.note("hidden", {"mechanism": params.mechanism, **counts})
    return pa.table(rows, CORPUS.schema), hidden


def _chosen(job: Job[HideParams], pairs: pa.Table, training: pa.Table) -> tuple[list[str], int]:
    """The ids of the documents to copy, in order, of how many: those of training pairs that no held-out pair names."""
    from noisyir.data.noise import choose_pairs

    held_out = [pairs.filter(pc.not_equal(pairs["split"], "train"))["doc_id"]]
    if job.has("qrels"):
        qrels = job.table("qrels")
        others = pc.invert(pc.is_in(qrels["query_id"], value_set=training["query_id"].combine_chunks()))
        held_out.append(qrels.filter(pc.and_(others, pc.greater(qrels["relevance"], 0)))["doc_id"])
    named = {name for column in held_out for name in column.to_pylist()}
    eligible = sorted(set(training["doc_id"].to_pylist()) - named)
    if job.params.rate and not eligible:
        raise DataError(
            f"hide.mechanism=near_duplicates copies documents that training pairs name and no dev or test pair does, "
            f"and none of the {len(training)} training pairs names such a one: set hide.mechanism=positives, or "
            "hide.rate=0"
        )
    rows = choose_pairs(len(eligible), job.params.rate, job.rng("documents"))
    return [eligible[row] for row in rows.tolist()], len(eligible)


def _originals(job: Job[HideParams], chosen: list[str]) -> Originals:
    """The texts of these documents, from a stream of all.  DataError: one is missing, or a copy's id is in use."""
    from noisyir.data.hidden import text_key

    wanted = pa.array(chosen, pa.string())
    names = pa.array([_name(doc_id, n) for doc_id in chosen for n in range(1, job.params.copies + 1)], pa.string())
    found: dict[str, tuple[str, str]] = {}
    keys = []
    for batch in job.batches("corpus"):
        ids, texts = batch["doc_id"], batch["text"].to_pylist()
        if len(used := ids.filter(pc.is_in(ids, value_set=names))):
            raise DataError(
                f"the corpus has a document {used[0].as_py()!r} already, which is what hide calls an edited copy of "
                f"{used[0].as_py().rpartition('~')[0]!r}: give the documents ids that do not end so"
            )
        keys.append(np.fromiter(map(text_key, texts), np.uint64, len(texts)))
        for row in np.flatnonzero(pc.is_in(ids, value_set=wanted).to_numpy(zero_copy_only=False)).tolist():
            found[ids[row].as_py()] = batch["title"][row].as_py(), texts[row]
    if missing := [doc_id for doc_id in chosen if doc_id not in found]:
        raise DataError(
            f"the corpus lacks {len(missing)} of the documents that the training pairs name, for example "
            f"{missing[0]!r}: give hide the corpus that the pairs were made with"
        )
    return Originals(found, np.sort(np.concatenate(keys)))


def _name(doc_id: str, number: int) -> str:
    return f"{doc_id}~{number}"


HIDE = Stage(
    name="hide",
    version=1,
    params=HideParams,
    reads={
        "corpus": CORPUS.all(),
        "pairs": PAIRS.all(),
        "qrels": QRELS.all().or_none(),  # for test pairs, which are judgements alone
    },
    writes={"corpus": CORPUS, "pairs": PAIRS, "hidden": HIDDEN},
    run=hide,
    seeded=True,
    cost=partial(per_pair, rate=1e-4),
)
