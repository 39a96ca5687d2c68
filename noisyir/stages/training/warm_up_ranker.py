"""warm_up_ranker: the ranker, taught to tell the right passage of each training query from mined negatives."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.costs.training import ranker_training
from noisyir.engine.stage import Job, Stage
from noisyir.schemas.data import CORPUS, NOISY_PAIRS, QUERIES
from noisyir.schemas.noise import NOISE_FLAGS
from noisyir.schemas.training import CURVES, NEGATIVES, RANKER
from noisyir.stages.training.train_dpr import write_curves
from noisyir.training.launch import in_processes
from noisyir.training.settings import WarmUpRankerParams

if TYPE_CHECKING:
    from noisyir.models.ranker import Ranker
    from noisyir.training.lists import Lists, TrainingTexts
    from noisyir.training.run import Surroundings


@in_processes
def warm_up_ranker(job: Job[WarmUpRankerParams]) -> None:
    """Train the ranker; write it, and how its loss went."""
    from noisyir.training.ranker import warm_up

    ranker = start_ranker(job)
    _, lists = read_lists(job, job.params.n)
    curves = warm_up(ranker, lists, job.params, surroundings(job))
    ranker.save(job.new_folder("ranker"))
    write_curves(job, curves)


def start_ranker(job: Job[Any]) -> "Ranker":
    """The ranker that training starts from, on the device that the machine's settings name."""
    import torch

    from noisyir.models.compiling import attend_plainly, compile_in_place
    from noisyir.models.ranker import load_ranker

    torch.set_num_threads(job.runtime.cpu_threads)
    ranker = load_ranker(job.folder("ranker"), job.runtime.device)
    attend_plainly(ranker.transformers, ranker.device, job.params.precision)
    if job.runtime.compile:
        compile_in_place(ranker.transformers, ranker.device)
    return ranker


def surroundings(job: Job[Any]) -> "Surroundings":
    """What a training run needs of its job."""
    from noisyir.training.run import Surroundings

    return Surroundings(job.rng, job.work, job.runtime.checkpoint_seconds, job.progress, job.metric, job.note)


def read_lists(
    job: Job[Any], n: int, besides: pa.ChunkedArray | None = None, *, soft: bool = False
) -> "tuple[TrainingTexts, Lists]":
    """What lists are drawn from, and the documents' texts, those with an id in `besides` included.

    Flagged pairs are left out; with `soft` they stay, and the lists know of them.  Notes what is left out, and how
    often a random passage stands in for a mined one.
    """
    from noisyir.training.examples import training_queries, with_flags
    from noisyir.training.lists import ranking_lists, read_texts

    pairs, queries = training_queries(job.table("pairs"), job.table("queries"))
    if job.has("flags"):
        pairs = with_flags(pairs, job.table("flags"))
        pairs = pairs if soft else pairs.filter(pairs["is_clean"])
    negatives = job.table("negatives")
    named = [pairs["doc_id"], negatives["doc_id"], *([] if besides is None else [besides])]
    needed = pa.chunked_array([chunk for ids in named for chunk in ids.chunks], pa.string()).unique()
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
    """Training queries, and others with negatives, that no pair gives a document to."""
    queries = job.table("queries")
    training = queries.filter(pc.equal(queries["split"], "train"))["query_id"]
    asked = pa.chunked_array([*training.chunks, *negatives["query_id"].chunks], pa.string()).unique()
    return int(pc.sum(pc.invert(pc.is_in(asked, value_set=pairs["query_id"].unique()))).as_py() or 0)


RANKING_READS = {
    "ranker": RANKER.all(),
    "pairs": NOISY_PAIRS["query_id", "doc_id", "split"],
    "flags": NOISE_FLAGS["query_id", "doc_id", "epoch", "is_clean"].or_none(),
    "queries": QUERIES["query_id", "text", "split"],
    "corpus": CORPUS["doc_id", "title", "text"],
    "negatives": NEGATIVES["query_id", "doc_id"],
}

WARM_UP_RANKER = Stage(
    name="warm_up_ranker",
    version=1,
    params=WarmUpRankerParams,
    reads=RANKING_READS,
    writes={"ranker": RANKER, "curves": CURVES},
    run=warm_up_ranker,
    seeded=True,
    pool="gpu",
    cost=ranker_training,
)
