"""Epochs of noisy pair correction beside those of plain training: the same pairs and settings, static model.

An epoch of NPC is the detection over all pairs (scores, mixture, flags), then steps with teacher and consistency loss.
Each model has its one epoch of plain training behind it before those that are timed.
"""

from typing import Any

from bench.speed.row import Line, Row, Stopwatch, Taken, Work
from bench.speed.texts import Texts
from bench.speed.training import tokenised

_EPOCHS = 4  # timed: two pairs of one epoch with a detection and one without, should the settings leave some out


class NpcEpoch(Row):
    lines = (Line("an epoch of NPC", "npc", "dpr", "own DPR epoch", at_most=1.35, unit="pairs"),)
    size = 20_000
    turns = 3
    grows = True

    def npc(self, work: Work) -> Taken:
        from noisyir.methods.npc.objective import NoisyPairCorrection

        return _epochs(work, NoisyPairCorrection)

    def dpr(self, work: Work) -> Taken:
        from noisyir.training.learner import Contrastive

        return _epochs(work, lambda *_: Contrastive())


def _epochs(work: Work, objective: Any) -> Taken:
    from noisyir.detection.settings import NpcParams, TrainNpcParams
    from noisyir.models.bi_encoder import initial_bi_encoder
    from noisyir.models.settings import InitModelParams
    from noisyir.models.weights import locate_weights
    from noisyir.training.bi_encoder import BiEncoderLearner

    params = TrainNpcParams(
        epochs=1 + _EPOCHS, learning_rate=3e-3, warmup_ratio=0.0, decay="constant", dev_queries=0,
        npc=NpcParams(consistency=1.0),
    )  # fmt: skip
    encoder = initial_bi_encoder(locate_weights("minilm"), InitModelParams())
    pairs = tokenised(encoder, Texts.read(work.texts).some_pairs(work.size))
    learner = BiEncoderLearner(encoder, pairs, None, params, objective(encoder, pairs, params, _rng), _rng)
    _epoch(learner)
    with Stopwatch() as watch:
        for _ in range(_EPOCHS):
            _epoch(learner)
    return watch.taken(items=_EPOCHS * len(pairs))


def _epoch(learner: Any) -> None:
    learner.start_epoch()
    for _ in range(learner.batches.an_epoch):
        learner.step()
    learner.end_epoch()


def _rng(*purpose: object) -> Any:
    import numpy as np

    return np.random.default_rng(list(map(ord, "/".join(map(str, purpose)))))
