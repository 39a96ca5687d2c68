"""What several processes compute together, to compare with what one computes alone: loss and gradients by case."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import torch
from torch import Tensor, nn

from noisyir.base.errors import NoisyirError
from noisyir.detection.settings import NpcParams, TrainNpcParams
from noisyir.methods.ar2.rounds import RetrieverLearner
from noisyir.methods.distill.objective import Distillation
from noisyir.methods.npc.objective import NoisyPairCorrection
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.settings import LoraParams
from noisyir.models.text_tokenizer import Tokens
from noisyir.training.batches import ListedPairs, TrainingPairs, assemble
from noisyir.training.bi_encoder import BiEncoderLearner, train
from noisyir.training.distributed import World, joined, world
from noisyir.training.learner import Contrastive, Objective
from noisyir.training.ranker import RankerLearner
from noisyir.training.settings import CcrParams, DistillParams, TrainAr2Params, TrainDistillParams, TrainDprParams
from noisyir.training.validation import embed_all
from tests.tiny_models import tiny_encoder
from tests.unit.training.ar2_world import SETTINGS, material, toy_lists, toy_ranker
from tests.unit.training.taught import BOTH, listed_pairs
from tests.unit.training.toy import toy_held, toy_pairs, training_context

Found = dict[str, np.ndarray]
Case = Callable[[Path], Found]


def without_dropout(model: nn.Module) -> nn.Module:
    """The same model, so that a gradient can be compared."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def gradients(model: nn.Module) -> Found:
    """By weight, dense; the sum of a sparse one holds each row once."""
    found = {}
    for name, weight in model.named_parameters():
        gradient: Tensor | None = weight.grad
        if gradient is not None and gradient.is_sparse:
            rows = gradient._indices()[0]
            assert bool((rows[1:] > rows[:-1]).all())
        found[name] = np.zeros(weight.shape) if gradient is None else gradient.to_dense().numpy()
    return found


def plain(encoder: BiEncoder, pairs: TrainingPairs, params: TrainDprParams) -> Objective:
    return Contrastive()


def weighted(encoder: BiEncoder, pairs: TrainingPairs, params: TrainDprParams) -> Objective:
    return Contrastive(torch.linspace(0, 1, len(pairs)))


def corrected(encoder: BiEncoder, pairs: TrainingPairs, params: TrainDprParams) -> Objective:
    """After its warm-up, with a teacher that is not the student, and with flags of its own detection."""
    settings = TrainNpcParams(**dict(params), npc=NpcParams(consistency=1.0))
    objective = NoisyPairCorrection(encoder, pairs, settings, training_context(Path(mkdtemp())).rng)
    objective.start_epoch(1)
    assert objective.teacher is not None
    for weight in objective.teacher.parameters():
        weight.data.mul_(1.1).add_(0.01)
    return objective


def examples_of(objective: Callable[..., Objective], encoder: BiEncoder, negatives: int) -> TrainingPairs:
    return (
        listed_pairs(encoder)
        if objective in (distilled, distilled_and_masked)
        else toy_pairs(encoder, negatives=negatives)
    )


def distilled(encoder: BiEncoder, pairs: ListedPairs, params: TrainDprParams) -> Objective:
    return Distillation(pairs, TrainDistillParams(**dict(params)), None)


def distilled_and_masked(encoder: BiEncoder, pairs: ListedPairs, params: TrainDprParams) -> Objective:
    both = DistillParams(**BOTH, loss="margin", positives="lse_pair", teacher_temperature=1.0)
    weights = torch.linspace(0, 1, len(pairs))
    return Distillation(pairs, TrainDistillParams(**dict(params), distill=both), weights)


def one_step(
    objective: Callable[..., Objective], bert: Path, *, pairs: int = 11, shape: dict[str, object], **params: object
) -> Found:
    """Loss and gradients of one batch of `pairs`; texts embedded here."""
    encoder = tiny_encoder(bert, layers=1, **shape)
    settings = TrainDprParams(**{"batch_size": 8, "hard_negatives": 1, **params})
    encoder.limit(settings.freeze, settings.lora, seed=5)
    without_dropout(encoder)
    examples = examples_of(objective, encoder, 3)
    taught = objective(encoder, examples, settings)
    learner = BiEncoderLearner(encoder, examples, None, settings, taught, training_context(Path(mkdtemp())).rng)
    negatives = examples.draw(settings.hard_negatives, np.random.default_rng(0))
    batch = assemble(examples, np.arange(pairs), negatives[:pairs], settings.pool)
    embedded = np.zeros(())

    def count(tower: nn.Module, texts: tuple[Tokens], vectors: Tensor) -> None:
        embedded[...] += len(texts[0])

    for tower in {encoder.query_tower, encoder.passage_tower}:
        tower.register_forward_hook(count)
    found = {"loss": np.array(learner.descend(batch, seed=1)["train_loss"]), "embedded": embedded, **gradients(encoder)}
    return found


def of_list(model: str, bert: Path, *, backbone: str = "transformer", lists: int = 5, **settings: object) -> Found:
    """A step of AR2's ranker or retriever, whose batch has `lists` lists."""
    encoder, ranker = tiny_encoder(bert, backbone=backbone, layers=1), toy_ranker(bert)
    without_dropout(encoder), without_dropout(ranker)
    params = TrainAr2Params(**{**SETTINGS, **settings})
    rng = training_context(Path(mkdtemp())).rng
    learner = (
        RetrieverLearner(encoder, ranker, material(encoder), params, rng)
        if model == "retriever"
        else RankerLearner(ranker, toy_lists(), params, rng, batch_size=8, learning_rate=0.1, steps=5)
    )
    measured = learner.descend(learner.batches[0].take(np.arange(lists)), seed=1)
    return {**{name: np.array(value) for name, value in measured.items()}, **gradients(learner.model)}


def whole_run(objective: Callable[..., Objective], bert: Path, *, shape: dict[str, object], **params: object) -> Found:
    """Curves and last vectors of a run of several epochs."""
    settings = TrainDprParams(**{"epochs": 3, "batch_size": 7, "learning_rate": 0.01, "hard_negatives": 1, **params})
    encoder = tiny_encoder(bert, layers=1, **shape)
    encoder.limit(settings.freeze, settings.lora, seed=5)
    without_dropout(encoder)
    examples, held = examples_of(objective, encoder, 2), toy_held(encoder)
    context = training_context(Path(mkdtemp()))
    curves = train(encoder, examples, held, settings, objective(encoder, examples, settings), context)
    points = np.array([(step, epoch, value) for _, step, epoch, value in curves])
    return {"curves": points, "vectors": embed_all(encoder, held.pool, "passage").numpy()}


STATIC, TWO_STATIC = {"backbone": "static"}, {"backbone": "static", "shared": False}
BERT, TWO_BERTS = {"backbone": "transformer"}, {"backbone": "transformer", "shared": False}

CASES: dict[str, Case] = {
    "dpr static": partial(one_step, plain, shape=STATIC),
    "dpr static, two towers": partial(one_step, plain, shape=TWO_STATIC),
    "dpr static, chunks": partial(one_step, plain, shape=STATIC, chunk_size=3),
    "dpr static, one pair": partial(one_step, plain, shape=TWO_STATIC, pairs=1),
    "dpr": partial(one_step, plain, shape=BERT),
    "dpr, two towers, chunks": partial(one_step, plain, shape=TWO_BERTS, chunk_size=3),
    "dpr, one pair": partial(one_step, plain, shape=TWO_BERTS, pairs=1),
    "dpr, one pair, chunks": partial(one_step, plain, shape=TWO_BERTS, pairs=1, chunk_size=3),
    "dpr, in-batch negatives alone": partial(one_step, plain, shape=BERT, hard_negatives=0),
    "dpr, pools of their own": partial(one_step, plain, shape=BERT, hard_negatives=3, pool="own"),
    "dpr, weighted pairs": partial(one_step, weighted, shape=BERT),
    "ccr": partial(one_step, plain, shape=BERT, ccr=CcrParams(beta=0.5)),
    "npc": partial(one_step, corrected, shape=BERT),
    "npc static, chunks": partial(one_step, corrected, shape=STATIC, chunk_size=3),
    "adapters": partial(one_step, plain, shape=BERT, lora=LoraParams(rank=4), matryoshka=(8, 16)),
    "npc, adapters": partial(one_step, corrected, shape=BERT, lora=LoraParams(rank=4)),
    "embeddings frozen": partial(one_step, plain, shape=TWO_BERTS, freeze=0, chunk_size=3),
    "static, short vectors": partial(one_step, plain, shape=STATIC, matryoshka=(8, 16)),
    "distillation": partial(one_step, distilled, shape=BERT, hard_negatives=3),
    "distillation static, chunks": partial(one_step, distilled, shape=STATIC, hard_negatives=3, chunk_size=3),
    "distillation, masks and pairs": partial(one_step, distilled_and_masked, shape=BERT, hard_negatives=3),
    "retriever": partial(of_list, "retriever"),
    "retriever, code, chunks": partial(of_list, "retriever", chunk_size=3, variant="code"),
    "retriever static": partial(of_list, "retriever", backbone="static"),
    "retriever, one list": partial(of_list, "retriever", lists=1),
    "ranker": partial(of_list, "ranker"),
    "ranker, some lists at once": partial(of_list, "ranker", lists_at_once=2),
    "ranker, one list": partial(of_list, "ranker", lists=1),
}  # fmt: skip
RUNS: dict[str, Case] = {
    "static run": partial(whole_run, plain, shape=STATIC),
    "transformer run": partial(whole_run, plain, shape=BERT, patience=2),
    "adapters' run": partial(whole_run, plain, shape=BERT, lora=LoraParams(rank=4), matryoshka=(8,)),
    "npc run": partial(whole_run, corrected, shape=STATIC),
    "distillation run": partial(whole_run, distilled_and_masked, shape=STATIC, hard_negatives=3),
}


def compute(rank: int, tell: Callable[[object], None], size: int, bert: Path, meeting: Path) -> None:
    """All cases as one of `size` processes; tells (case, rank, what was found)."""
    torch.set_num_threads(1)
    with joined(World(rank, size), "cpu", meeting, 120.0):
        for name, case in {**CASES, **RUNS}.items():
            tell((name, rank, case(bert)))
        tell(("drift", rank, drifted(rank)))


def drifted(rank: int) -> str:
    """What is said of weights that are not the same."""
    try:
        world().check_agreement([torch.ones(3), torch.tensor([float(rank)])])
    except NoisyirError as error:
        return str(error)
    return ""


def wait_in_vain(rank: int, tell: Callable[[object], None], meeting: Path) -> None:
    """Rank 1 never comes to what rank 0 asks of both."""
    import time

    with joined(World(rank, 2), "cpu", meeting, 1.0):
        if rank == 1:
            time.sleep(600)
        world().total(1.0)
