"""Noisy pair correction (Zhang et al., Findings of EMNLP 2023, Algorithm 1) as an objective of the training loop.

Warm-up epochs on all pairs alike; then a teacher is split off, and before each epoch the pairs are scored, the scores
fitted by a mixture, and the pairs flagged.  Flagged pairs keep the consistency loss alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from noisyir.losses.dpr import pair_nll
from noisyir.losses.npc import npc_loss
from noisyir.models.bi_encoder import BiEncoder
from noisyir.noise.combine import Scores
from noisyir.noise.detection import detect
from noisyir.noise.in_batch import InBatch, score_in_batch
from noisyir.noise.settings import TrainNpcParams
from noisyir.noise.synthetic import passages_of_others
from noisyir.training.batches import Batch, TrainingPairs
from noisyir.training.checkpoint import Tensors, load_weights
from noisyir.training.distributed import world
from noisyir.training.objective import Objective, follow, on_device, teacher_of
from noisyir.training.validation import embed_all


@dataclass(frozen=True)
class Detected:
    """One detection during training: what was found of every pair after `epoch` epochs."""

    epoch: int
    score: Float[np.ndarray, " pair"]
    null_score: Float[np.ndarray, " pair"]
    p_clean: Float[np.ndarray, " pair"]
    is_clean: Bool[np.ndarray, " pair"]


_FOUND = [field.name for field in fields(Detected) if field.name != "epoch"]


class NoisyPairCorrection(Objective):
    """is_clean * L_cont + L_cons after the warm-up, with a teacher in single precision.

    given: the flags to use where `npc.detect` is `given`.
    """

    def __init__(
        self,
        encoder: BiEncoder,
        pairs: TrainingPairs,
        params: TrainNpcParams,
        rng: Callable[..., np.random.Generator],
        given: Bool[np.ndarray, " pair"] | None = None,
    ) -> None:
        self.encoder, self.pairs, self.params, self.rng = encoder, pairs, params, rng
        self.teacher: BiEncoder | None = None
        self.history: list[Detected] = []
        self._is_clean = torch.ones(len(pairs), dtype=torch.bool) if given is None else torch.from_numpy(given)

    def start_epoch(self, epoch: int) -> dict[str, float]:
        """Split off the teacher when the warm-up is over; from then on flag the pairs."""
        npc = self.params.npc
        if epoch < npc.warmup_epochs:
            return {}
        first = epoch == npc.warmup_epochs
        if first:
            self.teacher = teacher_of(self.encoder)
        if npc.detect == "each_epoch" or (first and npc.detect == "once"):
            return self._detect(epoch)
        return {}

    def _detect(self, epoch: int) -> dict[str, float]:
        params, rng = self.params, self.rng("detect", epoch)
        how = InBatch(params.batch_size, params.npc.shuffles, params.scale, pair_nll, params.npc.hard_negatives)
        random = passages_of_others(self.pairs.passage, rng)
        everyone = np.arange(len(self.pairs))
        score, null_score = score_in_batch(self.encoder, self.pairs, everyone, how, rng, (random,))
        found = detect(Scores(score, {"random": null_score[:, None]}), params.detection)
        self.history.append(Detected(epoch, score, null_score, found.p_clean, found.is_clean))
        self._is_clean = torch.from_numpy(found.is_clean.copy())  # a checkpoint holds no tensor twice
        return {"flagged_share": 1.0 - float(found.is_clean.mean())}

    def loss(self, batch: Batch, scores: Float[Tensor, "query passage"]) -> Float[Tensor, ""]:
        """The mean of the pair losses: plain during the warm-up, corrected afterwards."""
        positive, ignored = on_device(batch, scores.device)
        if self.teacher is None:
            return pair_nll(scores, positive, ignored).mean()
        npc = self.params.npc
        is_clean = self._is_clean[torch.from_numpy(batch.rows)].to(scores.device)
        return npc_loss(
            scores, self._teacher_scores(batch), positive, ignored, is_clean,
            weight=npc.consistency, direction=npc.kl,
        ).mean()  # fmt: skip

    @torch.no_grad()
    def _teacher_scores(self, batch: Batch) -> Float[Tensor, "query passage"]:
        assert self.teacher is not None
        if self.params.chunk_size is None and world().alone:
            queries, passages = self.teacher.embed_both(batch.queries, batch.passages)
        else:  # memory is short, or others do a part
            queries = embed_all(self.teacher, batch.queries, "query")
            passages = embed_all(self.teacher, batch.passages, "passage")
        return self.params.scale * queries @ passages.T

    def after_step(self) -> None:
        """Let the teacher follow."""
        if self.teacher is not None:
            follow(self.teacher, self.encoder, self.params.npc.teacher_decay)

    def finish(self) -> None:
        """Keep the teacher's weights where they were asked for."""
        if self.params.npc.final == "teacher" and self.teacher is not None:
            load_weights(self.encoder, dict(self.teacher.named_parameters()))

    # Resuming -----------------------------------------------------------------------------------------------

    def state(self) -> Tensors:
        """The teacher, the present flags, and the detections so far."""
        if self.teacher is None:
            return {}
        detected = {
            f"{found.epoch}.{name}": torch.from_numpy(getattr(found, name)) for found in self.history for name in _FOUND
        }
        teacher = dict(self.teacher.named_parameters())
        return {"teacher": teacher, "flags": {"is_clean": self._is_clean}, "detected": detected}

    def load(self, tensors: Tensors, done: int) -> None:
        """Continue from a checkpoint with what `state` returned."""
        if "teacher" not in tensors:
            return
        self._is_clean = tensors["flags"]["is_clean"]
        self.teacher = teacher_of(self.encoder)
        load_weights(self.teacher, tensors["teacher"])
        detected = tensors.get("detected", {})
        self.history = [
            Detected(epoch, **{name: detected[f"{epoch}.{name}"].numpy() for name in _FOUND})
            for epoch in sorted({int(name.split(".")[0]) for name in detected})
        ]
