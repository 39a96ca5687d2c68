"""train_ar2: one round of AR2, in which first the ranker and then the retriever learns from freshly mined negatives."""

from typing import TYPE_CHECKING

from noisyir.engine.stage import Job, Stage
from noisyir.schemas.data import QRELS
from noisyir.schemas.training import AR2_STATE, CURVES, MODEL, RANKER
from noisyir.training.job import (
    RANKING_READS,
    dev_relevance,
    held_out,
    pairs_are_there,
    read_lists,
    start_model,
    start_ranker,
    training_context,
    write_curves,
)
from noisyir.training.launch import in_processes
from noisyir.training.settings import TrainAr2Params

if TYPE_CHECKING:
    from noisyir.models.bi_encoder import BiEncoder
    from noisyir.training.ar2 import Material


@in_processes
def train_ar2(job: Job[TrainAr2Params]) -> None:
    """Train both models; write them, their optimisers for the next round, and how losses and dev MRR@10 went."""
    from noisyir.training.ar2 import train_round
    from noisyir.training.learner import load_checkpoint, save_checkpoint

    encoder, ranker = start_model(job), start_ranker(job)
    material = _material(job, encoder)
    earlier = load_checkpoint(job.folder("ar2_state")) if job.has("ar2_state") else None
    curves, state = train_round(encoder, ranker, material, job.params, training_context(job), earlier)
    encoder.save(job.new_folder("model"))
    ranker.save(job.new_folder("ranker"))
    save_checkpoint(job.new_folder("ar2_state"), state)
    write_curves(job, curves)


def _material(job: Job[TrainAr2Params], encoder: "BiEncoder") -> "Material":
    """Lists of texts, the same texts tokenised for the retriever, and the dev queries."""
    from noisyir.training.ar2 import Material
    from noisyir.training.examples import TokenisedDocuments

    relevance = dev_relevance(job, job.table("queries").sort_by("query_id"))
    documents, lists = read_lists(job, job.params.n, relevance["doc_id"], soft=job.params.flagged == "soft")
    passages = encoder.tokenize(documents.texts.to_pylist(), "passage")
    held = held_out(job, encoder, relevance, TokenisedDocuments(documents.numbering, documents.same, passages))
    return Material(lists, encoder.tokenize(lists.queries.to_pylist(), "query"), passages, held)


TRAIN_AR2 = Stage(
    name="train_ar2",
    stream="ar2",
    version=1,
    params=TrainAr2Params,
    reads={
        "model": MODEL.all(),
        "ar2_state": AR2_STATE.all().or_none(),
        "qrels": QRELS["query_id", "doc_id", "relevance"],
        **RANKING_READS,
    },
    writes={"model": MODEL, "ranker": RANKER, "ar2_state": AR2_STATE, "curves": CURVES},
    run=train_ar2,
    seeded=True,
    pool="gpu",
    fits=pairs_are_there,
)
