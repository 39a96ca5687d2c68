"""train_dpr: DPR training: the start model, taught by pairs and by in-batch and mined negatives."""

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute

from noisyir.costs.training import bi_encoder_training
from noisyir.engine.stage import Job, Stage
from noisyir.errors import ConfigError
from noisyir.schemas.data import CORPUS, NOISY_PAIRS, QRELS, QUERIES
from noisyir.schemas.noise import NOISE_FLAGS
from noisyir.schemas.training import CURVES, MODEL, NEGATIVES
from noisyir.training.launch import in_processes
from noisyir.training.settings import TrainDprParams

if TYPE_CHECKING:
    from noisyir.models.bi_encoder import BiEncoder
    from noisyir.training.batches import TrainingPairs
    from noisyir.training.examples import Documents
    from noisyir.training.objective import Objective
    from noisyir.training.run import Point
    from noisyir.training.validation import Held

_LARGEST_BETA_OF_DOT = 1e-2


@in_processes
def train_dpr(job: Job[TrainDprParams]) -> None:
    """Train the model on the pairs; write it, and how its loss and its dev MRR@10 went."""
    import torch

    from noisyir.training.objective import Contrastive

    encoder, pairs = start_model(job), training_pairs(job)
    weights = None
    if job.has("flags") and job.params.flagged == "drop":
        pairs = pairs.filter(pairs["is_clean"])
    elif job.has("flags"):
        weights = torch.from_numpy(pairs["p_clean"].to_numpy().copy())
    train, held = read_examples(job, encoder, pairs)
    train_and_write(job, encoder, train, held, Contrastive(weights))


def start_model(job: Job[Any]) -> "BiEncoder":
    """The model that training starts from, on the device that the machine's settings name."""
    import torch

    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.models.compiling import attend_plainly, compile_in_place

    torch.set_num_threads(job.runtime.cpu_threads)
    encoder = load_bi_encoder(job.folder("model"), job.runtime.device)
    attend_plainly(encoder.transformers, encoder.device, job.params.precision)
    if job.runtime.compile:
        compile_in_place(encoder.transformers, encoder.device)
    return encoder


def training_pairs(job: Job[Any]) -> pa.Table:
    """The training pairs, with p_clean and is_clean where flags are given."""
    from noisyir.training.examples import with_flags

    pairs = job.table("pairs")
    pairs = pairs.filter(pa.compute.equal(pairs["split"], "train"))
    return with_flags(pairs, job.table("flags")) if job.has("flags") else pairs


def train_and_write(
    job: Job[Any], encoder: "BiEncoder", pairs: "TrainingPairs", held: "Held | None", objective: "Objective"
) -> None:
    """Run the loop, and write the model and its curves."""
    curves = run_loop(job, encoder, pairs, held, objective)
    encoder.save(job.new_folder("model"))
    write_curves(job, curves)


def run_loop(
    job: Job[Any], encoder: "BiEncoder", pairs: "TrainingPairs", held: "Held | None", objective: "Objective"
) -> "list[Point]":
    """Train the model by the objective, regularised where `ccr.beta` says so; returns the learning curves."""
    import time

    from noisyir.training.run import Surroundings, train

    objective = _regularised(job.params, encoder.similarity, objective)
    around = Surroundings(job.rng, job.work, job.runtime.checkpoint_seconds, job.progress, job.metric, job.note)
    began = time.monotonic()
    curves = train(encoder, pairs, held, job.params, objective, around)
    job.note("training_seconds", round(time.monotonic() - began, 1))
    return curves


def write_curves(job: Job[Any], curves: "list[Point]") -> None:
    """Write the learning curves."""
    rows = [dict(zip(CURVES.columns, point, strict=True)) for point in curves]
    job.write("curves", pa.Table.from_pylist(rows, schema=CURVES.schema))


def _regularised(params: TrainDprParams, similarity: str, objective: "Objective") -> "Objective":
    """The objective, with the regulariser where it is switched on.  ConfigError where it could do no good."""
    from noisyir.training.regularised import Regularised

    ccr = params.ccr
    if ccr.beta == 0.0:
        return objective
    if ccr.from_epoch >= params.epochs:
        raise ConfigError(
            f"ccr.from_epoch={ccr.from_epoch} leaves none of {params.epochs} epochs to the regulariser: set "
            f"{params.epochs - 1} or less, or ccr.beta=0"
        )
    if similarity == "dot" and ccr.beta > _LARGEST_BETA_OF_DOT and not ccr.force:
        raise ConfigError(
            f"train.ccr.beta={ccr.beta:g} with model.similarity=dot: the loss has no lower bound, for negatives are "
            "pushed away however far they are. Usual for dot products is 1e-4 to 1e-3; model.similarity=cosine allows "
            "up to 1. To train all the same: train.ccr.force=true"
        )
    return Regularised(objective, ccr)


def read_examples(job: Job[Any], encoder: "BiEncoder", pairs: pa.Table) -> "tuple[TrainingPairs, Held | None]":
    """Join and tokenise what the pairs and the other inputs name, and note how much that is."""
    from noisyir.training import examples

    pairs, train_queries = examples.training_queries(pairs, job.table("queries"))
    train, held, _ = join_examples(job, encoder, pairs, train_queries, _negatives(job, train_queries))
    return train, held


def join_examples(
    job: Job[Any], encoder: "BiEncoder", pairs: pa.Table, train_queries: pa.Table, negatives: pa.Table
) -> "tuple[TrainingPairs, Held | None, Documents]":
    """Join and tokenise training pairs, their queries, their (query_id, doc_id) negatives and the dev queries."""
    from noisyir.training import examples

    params, queries = job.params, job.table("queries")
    relevance = examples.dev_relevance(job.table("qrels"), queries, params.dev_queries, job.rng("dev_queries"))
    named = [pairs["doc_id"], relevance["doc_id"], negatives["doc_id"]]
    needed = pa.chunked_array([chunk for ids in named for chunk in ids.chunks], pa.string()).unique()
    documents = examples.read_documents(encoder, job.batches("corpus"), needed)
    train = examples.training_pairs(encoder, pairs, train_queries, documents, negatives)
    held = examples.held_out(encoder, relevance, documents, params.dev_documents, job.rng("dev_documents"))
    job.note("training_pairs", len(train))
    job.note("dev_queries", len(held.queries) if held else 0)
    job.note("dev_documents", len(held.pool) if held else 0)
    return train, held, documents


def _negatives(job: Job[Any], train_queries: pa.Table) -> pa.Table:
    """The mined negatives of the training queries; no rows when none are to be used."""
    import pyarrow.compute as pc

    if job.params.hard_negatives == 0:
        return NEGATIVES.schema.empty_table().select(["query_id", "doc_id"])
    if not job.has("negatives"):
        raise ConfigError(f"train.hard_negatives={job.params.hard_negatives} needs mined ones: set mine.per_query")
    negatives = job.table("negatives")
    return negatives.filter(pc.is_in(negatives["query_id"], value_set=train_queries["query_id"]))


TRAINING_READS = {
    "model": MODEL.all(),
    "pairs": NOISY_PAIRS["query_id", "doc_id", "split"],
    "flags": NOISE_FLAGS["query_id", "doc_id", "epoch", "p_clean", "is_clean"].or_none(),
    "queries": QUERIES["query_id", "text", "split"],
    "corpus": CORPUS["doc_id", "title", "text"],
    "qrels": QRELS["query_id", "doc_id", "relevance"],
    "negatives": NEGATIVES["query_id", "doc_id"].or_none(),
}

TRAIN_DPR = Stage(
    name="train_dpr",
    stream="warm_up",
    version=2,
    params=TrainDprParams,
    reads=TRAINING_READS,
    writes={"model": MODEL, "curves": CURVES},
    run=train_dpr,
    seeded=True,
    pool="gpu",
    cost=partial(bi_encoder_training, rate=9e-6),
)
