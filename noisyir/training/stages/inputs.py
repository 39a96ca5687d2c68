"""Shared parts of training stages: inputs, initial models, the run's context and outputs."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import ConfigError, DataError
from noisyir.data.artifacts import CORPUS, GIVEN_WEIGHTS, NOISY_PAIRS, QRELS, QUERIES
from noisyir.data.own_documents import own_documents
from noisyir.engine.stage import Job, SplitCounts
from noisyir.engine.tables import with_values
from noisyir.models.artifacts import LOWER_STATES, MODEL, RANKER
from noisyir.training.artifacts import CURVES, NEGATIVES, NOISE_FLAGS, TRIAL
from noisyir.training.flags import with_flags, with_weights
from noisyir.training.settings import TrainDprParams

if TYPE_CHECKING:
    from torch import Tensor

    from noisyir.models.bi_encoder import BiEncoder
    from noisyir.models.ranker import Ranker
    from noisyir.training.batches import TrainingPairs
    from noisyir.training.examples import TokenisedDocuments
    from noisyir.training.lists import Lists, TrainingTexts
    from noisyir.training.run import Point, TrainingContext
    from noisyir.training.validation import Held

M = TypeVar("M")
log = logging.getLogger(__name__)
_UNWARRANTED = (
    "no made-up pairs vouch for the detectors' scores of these pairs, so all pairs count alike: judge 20 drawn "
    "at random (noisyir audit --judge), or set detect.assume=best, and the weights rest on nothing"
)
RANKING_READS = {
    "ranker": RANKER.all(),
    "pairs": NOISY_PAIRS["query_id", "doc_id", "split"],
    "flags": NOISE_FLAGS["query_id", "doc_id", "epoch", "is_clean"].or_none(),
    "queries": QUERIES["query_id", "text", "split"],
    "corpus": CORPUS["doc_id", "title", "text"],
    "negatives": NEGATIVES["query_id", "doc_id"],
}
TRAINING_READS = {
    "model": MODEL.all(),
    "pairs": NOISY_PAIRS["query_id", "doc_id", "split"],
    "flags": NOISE_FLAGS["query_id", "doc_id", "epoch", "p_clean", "is_clean"].or_none(),
    "weights": GIVEN_WEIGHTS.all().or_none(),
    "queries": QUERIES["query_id", "text", "split"],
    "corpus": CORPUS["doc_id", "title", "text"],
    "qrels": QRELS["query_id", "doc_id", "relevance"],
    "negatives": NEGATIVES["query_id", "doc_id"].or_none(),
    "trial": TRIAL.all().or_none(),
    "states": LOWER_STATES.all().or_none(),
}


def pairs_are_there(params: Any, data: SplitCounts) -> None:
    """Refuse, with a DataError, data without training pairs."""
    if not data.training_pairs:
        raise DataError("training.no_pairs_to_train_on")


def start_model(job: Job[Any]) -> "BiEncoder":
    """Load the initial bi-encoder on the machine's device, with frozen layers or adapters."""
    from noisyir.models.bi_encoder import load_bi_encoder

    encoder = ready(job, load_bi_encoder, "model")
    if isinstance(job.params, TrainDprParams):
        encoder.limit(job.params.freeze, job.params.lora, int(job.rng("adapters").integers(2**63)))
    if job.has("states"):
        encoder.read_kept(job.folder("states"))
    return encoder


def start_ranker(job: Job[Any]) -> "Ranker":
    """Load the initial ranker on the machine's device."""
    from noisyir.models.ranker import load_ranker

    return ready(job, load_ranker, "ranker")


def ready(job: Job[Any], load: Callable[[Path, str], M], name: str) -> M:
    """Load an input's model onto the device, compiled if the machine's settings say so."""
    import torch

    from noisyir.models.at_once import compile_in_place, tune_for_training

    torch.set_num_threads(job.runtime.cpu_threads)
    model: Any = load(job.folder(name), job.runtime.device)
    tune_for_training(model.transformers, model.device, job.params.precision, compiled=job.runtime.compile)
    if job.runtime.compile:
        compile_in_place(model.transformers, model.device)
    return model  # type: ignore[no-any-return]


def training_pairs(job: Job[Any]) -> pa.Table:
    """Return the training pairs without a trial's, with p_clean and is_clean if there are flags, and given weights.

    If nothing warrants a probability, all pairs are clean.
    """
    pairs = job.table("pairs")
    pairs = without_trial(job, pairs.filter(pc.equal(pairs["split"], "train")))
    if job.has("flags"):
        pairs = with_flags(pairs, job.table("flags"))
        if pairs.num_rows and pairs["p_clean"].null_count == pairs.num_rows:
            log.warning(_UNWARRANTED)
        pairs = with_values(pairs, p_clean=pc.fill_null(pairs["p_clean"], pa.scalar(1.0, pa.float32())))
    return with_weights(pairs, job.table("weights")) if job.has("weights") else pairs


def without_trial(job: Job[Any], pairs: pa.Table) -> pa.Table:
    """Drop pairs of queries that are held out for a trial."""
    if not job.has("trial"):
        return pairs
    return pairs.filter(pc.invert(pc.is_in(pairs["query_id"], value_set=job.table("trial")["query_id"])))


def product(pairs: pa.Table, columns: Sequence[str]) -> "Tensor | None":
    """Multiply these columns for each pair; None without columns."""
    import torch

    return torch.from_numpy(np.prod([pairs[name].to_numpy() for name in columns], axis=0)) if columns else None


def read_examples(job: Job[Any], encoder: "BiEncoder", pairs: pa.Table) -> "tuple[TrainingPairs, Held | None]":
    """Join and tokenise the pairs and the other inputs, and note their sizes."""
    from noisyir.training import examples

    pairs, train_queries = examples.training_queries(pairs, job.table("queries"))
    negatives = mined_negatives(job, train_queries, job.params.hard_negatives, "train.hard_negatives")
    train, held, _ = join_examples(job, encoder, pairs, train_queries, negatives)
    return train, held


def mined_negatives(job: Job[Any], train_queries: pa.Table, count: int, setting: str) -> pa.Table:
    """Return the mined negatives of the training queries; no rows if `count` is 0.

    Raises:
        ConfigError: If `setting` asks for `count` a query, and none were mined.
    """
    if count == 0:
        return NEGATIVES.schema.empty_table().select(["query_id", "doc_id"])
    if not job.has("negatives"):
        raise ConfigError("training.nothing_mined", setting=setting, count=count)
    negatives = job.table("negatives")
    return negatives.filter(pc.is_in(negatives["query_id"], value_set=train_queries["query_id"]))


def join_examples(
    job: Job[Any], encoder: "BiEncoder", pairs: pa.Table, train_queries: pa.Table, negatives: pa.Table
) -> "tuple[TrainingPairs, Held | None, TokenisedDocuments]":
    """Join and tokenise training pairs, their queries, their (query_id, doc_id) negatives and the dev queries."""
    from noisyir.training import examples

    relevance = dev_relevance(job, job.table("queries"))
    if not relevance.num_rows and job.has("trial"):
        relevance = dev_relevance(job, job.table("queries"), job.table("trial"))
    needed = distinct_ids(pairs["doc_id"], relevance["doc_id"], negatives["doc_id"])
    documents = examples.read_documents(encoder, job.batches("corpus"), needed)
    own = own_documents(train_queries, job.batches("corpus"))
    train = examples.training_pairs(encoder, pairs, train_queries, documents, negatives, own)
    job.note("training_pairs", len(train))
    held = held_out(job, encoder, relevance, documents)
    job.note("dev_documents", len(held.pool) if held else 0)
    return train, held, documents


def dev_relevance(job: Job[Any], queries: pa.Table, trial: pa.Table | None = None) -> pa.Table:
    """Return (query_id, text, doc_id) of the relevant documents of dev queries, or of a TRIAL's."""
    from noisyir.training import examples

    qrels = job.table("qrels")
    if trial is not None and trial.num_rows:
        queries = queries.filter(pc.is_in(queries["query_id"], value_set=trial["query_id"]))
        queries = with_values(queries, split=pa.repeat("dev", queries.num_rows))
        qrels = trial.append_column("relevance", pa.array(np.ones(trial.num_rows, np.int32)))
    return examples.dev_relevance(qrels, queries, job.params.dev_queries, job.rng("dev_queries"))


def held_relevance(job: Job[Any], trial: pa.Table) -> pa.Table:
    """Return the relevance of a trial's queries, or of dev's.

    Raises:
        DataError: If there are none.
    """
    relevance = dev_relevance(job, job.table("queries"), trial)
    if not relevance.num_rows:
        raise DataError("training.no_dev_queries")
    return relevance


def searched_documents(job: Job[Any], encoder: "BiEncoder", relevant: pa.ChunkedArray) -> "TokenisedDocuments":
    """Tokenise the `relevant` documents and a random sample of the others, up to `dev_documents`."""
    from noisyir.training import examples

    needed, count = None, job.rows("corpus")
    if count > job.params.dev_documents:
        drawn = job.rng("dev_documents").choice(count, job.params.dev_documents, replace=False)
        every = pa.chunked_array([batch["doc_id"] for batch in job.batches("corpus")])
        needed = distinct_ids(every.take(np.sort(drawn)), relevant)
    return examples.read_documents(encoder, job.batches("corpus"), needed)


def held_out(
    job: Job[Any], encoder: "BiEncoder", relevance: pa.Table, documents: "TokenisedDocuments"
) -> "Held | None":
    """Return the dev queries with their pool, if there are any, and note their number."""
    from noisyir.training import examples

    held = examples.held_out(encoder, relevance, documents, job.params.dev_documents, job.rng("dev_documents"))
    job.note("dev_queries", len(held.queries) if held else 0)
    return held


def write_model(job: Job[Any], encoder: "BiEncoder", curves: "list[Point]") -> None:
    """Write the trained model and its learning curves."""
    encoder.save(job.new_folder("model"))
    write_curves(job, curves)


def read_lists(
    job: Job[Any], n: int, besides: pa.ChunkedArray | None = None, *, soft: bool = False
) -> "tuple[TrainingTexts, Lists]":
    """Return the texts, with the texts of `besides`, and the lists to draw from; note their numbers.

    Flagged pairs are left out unless `soft`: then the lists mark them.
    """
    from noisyir.training.examples import training_queries
    from noisyir.training.lists import ranking_lists, read_texts

    pairs, queries = training_queries(job.table("pairs"), job.table("queries"))
    if job.has("flags"):
        pairs = with_flags(pairs, job.table("flags"))
        pairs = pairs if soft else pairs.filter(pairs["is_clean"])
    negatives = job.table("negatives")
    needed = distinct_ids(pairs["doc_id"], negatives["doc_id"], *([] if besides is None else [besides]))
    documents = read_texts(job.batches("corpus"), needed)
    lists = ranking_lists(pairs, queries, documents, negatives)
    missing = lists.missing(n)
    job.note(
        "lists",
        {
            "queries": len(lists),
            "queries_without_positive": _without_positive(job, pairs, negatives),
            "queries_with_too_few_negatives": int((missing > 0).sum()),
            "random_share_of_negatives": float(np.mean(missing / n)),
        },
    )
    return documents, lists


def _without_positive(job: Job[Any], pairs: pa.Table, negatives: pa.Table) -> int:
    """Count training queries, and others with negatives, without a pair."""
    queries = job.table("queries")
    asked = distinct_ids(queries.filter(pc.equal(queries["split"], "train"))["query_id"], negatives["query_id"])
    return int(pc.sum(pc.invert(pc.is_in(asked, value_set=pairs["query_id"].unique()))).as_py() or 0)


def training_context(job: Job[Any]) -> "TrainingContext":
    """Build the surroundings of a training run from its job."""
    from noisyir.training.run import TrainingContext

    return TrainingContext(
        job.rng, job.work, job.runtime.checkpoint_seconds, job.progress, job.metric, job.note, job.keep
    )


def write_curves(job: Job[Any], curves: "list[Point]") -> None:
    """Write the learning curves."""
    rows = [dict(zip(CURVES.columns, point, strict=True)) for point in curves]
    job.write("curves", pa.Table.from_pylist(rows, schema=CURVES.schema))


def distinct_ids(*ids: pa.ChunkedArray) -> pa.Array:
    """Return every id once, in order of first occurrence."""
    return pa.chunked_array([chunk for some in ids for chunk in some.chunks], pa.string()).unique()
