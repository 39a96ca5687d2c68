"""Noisy pair correction (Zhang et al., Findings of EMNLP 2023, Algorithm 1) as an objective of the training loop.

Training is plain for `npc.warmup_epochs`.  From then on the pairs are scored before each epoch, a mixture is fitted to
the scores, and pairs are flagged.  A flagged pair keeps `npc.doubt` of its contrastive loss, and by `npc.consistency`
all pairs follow a teacher, the moving average of the model.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from noisyir.detection.combine import Scores
from noisyir.detection.in_batch import InBatch, score_in_batch
from noisyir.detection.settings import TrainNpcParams
from noisyir.detection.synthetic import passages_of_others
from noisyir.detection.verdicts import detect
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.static_tower import StaticTower
from noisyir.training.batches import Batch, TrainingPairs
from noisyir.training.distributed import world
from noisyir.training.learner import Contrastive, Objective, Tensors, follow, load_weights, on_device, teacher_of
from noisyir.training.losses.dpr import pair_nll
from noisyir.training.losses.npc import npc_loss
from noisyir.training.optimisers import put_rows
from noisyir.training.validation import embed_all

_ROWS_AT_ONCE = 512  # rows of a table, few enough for the processor's cache


class MovingAverage:
    """Moves every weight at every step."""

    def __init__(self, student: BiEncoder, decay: float) -> None:
        self.student, self.decay, self.teacher = student, decay, teacher_of(student)

    def follow(self) -> None:
        """Move towards the student after its step."""
        follow(self.teacher, self.student, self.decay)

    def reader_of(self, batch: Batch) -> BiEncoder:
        """The teacher, up to date for this batch."""
        return self.teacher

    def whole(self) -> BiEncoder:
        """The teacher, all its weights up to date."""
        return self.teacher

    def state(self) -> Tensors:
        """The tensors of a checkpoint."""
        return {"teacher": dict(self.teacher.named_parameters())}

    def load(self, tensors: Tensors) -> None:
        """Continue from what `state` returned."""
        load_weights(self.teacher, tensors["teacher"])


class RowAverage(MovingAverage):
    """Moves a static tower's row when it is read, by all the steps since the last time.

    A step of the student moves only the rows of the batch's tokens (`RowAdamW`), which the teacher has just read.
    While a row of the student rests, k steps of Eq. 6 are teacher := student + decay^k (teacher - student).
    """

    def __init__(self, student: BiEncoder, decay: float) -> None:
        super().__init__(student, decay)
        self._behind = {name: torch.zeros(len(weight)) for name, weight in self.teacher.named_parameters()}

    def follow(self) -> None:
        """Count the step."""
        for behind in self._behind.values():
            behind += 1

    def reader_of(self, batch: Batch) -> BiEncoder:
        """The teacher, up to date in the rows of the batch's tokens; call it before the student's step."""
        for name, read in self._read_by(batch).items():
            self._catch_up(name, torch.from_numpy(np.flatnonzero(read)))
        return self.teacher

    def whole(self) -> BiEncoder:
        """The teacher, all its weights up to date."""
        for name, behind in self._behind.items():
            self._catch_up(name, torch.arange(len(behind)))
        return self.teacher

    def _read_by(self, batch: Batch) -> Mapping[str, Bool[np.ndarray, " row"]]:
        """Masks of the rows that the batch's tokens read, by table."""
        read = {}
        for name, weight in self.teacher.named_parameters():
            read[name] = np.zeros(len(weight), bool)
            if weight is self.teacher.query_tower.weight:
                read[name][batch.queries.ids] = True
            if weight is self.teacher.passage_tower.weight:
                read[name][batch.passages.ids] = True
        return read

    @torch.no_grad()
    def _catch_up(self, name: str, rows: Int[Tensor, " moved"]) -> None:
        slow, fast = self.teacher.get_parameter(name), self.student.get_parameter(name)
        left = torch.pow(self.decay, self._behind[name][rows].double()).float()[:, None].to(slow.device)
        self._behind[name][rows] = 0
        parts = (torch.split(values, _ROWS_AT_ONCE) for values in (rows.to(slow.device), left))
        for some, share in zip(*parts, strict=True):
            target = fast.index_select(0, some)
            put_rows(slow, some, slow.index_select(0, some).sub_(target).mul_(share).add_(target))

    def state(self) -> Tensors:
        """The teacher, and the steps by which each row is behind."""
        return {**super().state(), "teacher_behind": self._behind}

    def load(self, tensors: Tensors) -> None:
        """Continue from what `state` returned."""
        super().load(tensors)
        self._behind = dict(tensors["teacher_behind"])


def average_of(student: BiEncoder, decay: float) -> MovingAverage:
    """The average by rows for static models, else of all weights."""
    static = any(isinstance(part, StaticTower) for part in student.modules())
    return (RowAverage if static else MovingAverage)(student, decay)


@dataclass(frozen=True)
class Detected:
    """One detection on all pairs, after `epoch` epochs."""

    epoch: int
    score: Float[np.ndarray, " pair"]
    null_score: Float[np.ndarray, " pair"]
    p_clean: Float[np.ndarray, " pair"]
    is_clean: Bool[np.ndarray, " pair"]


_FOUND = [field.name for field in fields(Detected) if field.name != "epoch"]


class NoisyPairCorrection(Objective):
    """trust * L_cont + weight * L_cons after the warm-up; trust is 1 for a clean pair.

    `weights` multiply L_cont throughout; `given` and `chance` are the flags, and the probabilities of being clean, if
    `npc.detect` is `given`.  `average` is the teacher, in single precision: None during the warm-up, and where neither
    the loss nor the result needs one.
    """

    def __init__(
        self,
        encoder: BiEncoder,
        pairs: TrainingPairs,
        params: TrainNpcParams,
        rng: Callable[..., np.random.Generator],
        given: Bool[np.ndarray, " pair"] | None = None,
        chance: Float[np.ndarray, " pair"] | None = None,
        weights: Float[Tensor, " pair"] | None = None,
    ) -> None:
        self.encoder, self.pairs, self.params, self.rng = encoder, pairs, params, rng
        self.plain = Contrastive(weights)
        self._decay = params.npc.decay(math.ceil(len(pairs) / params.batch_size))
        self.average: MovingAverage | None = None
        self.history: list[Detected] = []
        self._is_warm = False
        is_clean = np.ones(len(pairs), bool) if given is None else given
        self._believe(is_clean, is_clean if chance is None else chance)

    @property
    def teacher(self) -> BiEncoder | None:
        """The teacher, all its weights up to date."""
        return self.average.whole() if self.average else None

    def start_epoch(self, epoch: int) -> dict[str, float]:
        """Flag the pairs once the warm-up is over; copy the teacher when it ends."""
        npc, first = self.params.npc, not self._is_warm
        if epoch < npc.warmup_epochs:
            return {}
        if first:
            self.correct()
        if npc.detect != "each_epoch" and not (first and npc.detect == "once"):
            return {}
        return {"flagged_share": 1.0 - float(self._detect(epoch).is_clean.mean())}

    def correct(self) -> Self:
        """End the warm-up: from now on losses are corrected."""
        npc, self._is_warm = self.params.npc, True
        if npc.consistency or npc.final == "teacher":
            self.average = average_of(self.encoder, self._decay)
        return self

    def _detect(self, epoch: int) -> Detected:
        params, rng = self.params, self.rng("detect", epoch)
        in_batch = InBatch(params.batch_size, params.npc.shuffles, params.scale, pair_nll, params.npc.hard_negatives)
        random = passages_of_others(self.pairs.passage, rng)
        everyone = np.arange(len(self.pairs))
        score, null_score = score_in_batch(self.encoder, self.pairs, everyone, in_batch, rng, (random,))
        found = detect(Scores(score, {"random": null_score[:, None]}), params.detection)
        assert found.p_clean is not None, "the assumption gives chances"
        self.history.append(Detected(epoch, score, null_score, found.p_clean, found.is_clean))
        self._believe(found.is_clean, found.p_clean)
        return self.history[-1]

    def _believe(self, is_clean: Bool[np.ndarray, " pair"], chance: Float[np.ndarray, " pair"]) -> None:
        """Flag the pairs that are not clean; with copies, because a checkpoint holds no tensor twice."""
        doubt = self.params.npc.doubt
        trust = np.where(is_clean, 1.0, chance if doubt == "p_clean" else doubt)
        self._is_clean, self._trust = torch.from_numpy(is_clean.copy()), torch.from_numpy(trust.astype(np.float32))

    def loss(self, batch: Batch, scores: Float[Tensor, "query passage"]) -> Float[Tensor, ""]:
        """The mean pair loss: plain during the warm-up, corrected afterwards."""
        if not self._is_warm:
            return self.plain.loss(batch, scores)
        positive, ignored = on_device(batch, scores.device)
        npc, rows = self.params.npc, torch.from_numpy(batch.rows)
        trust = self._trust[rows].to(scores.device)
        if self.plain.weights is not None:
            trust = trust * self.plain.weights[rows].to(scores.device)
        if self.average is None:
            return (trust * pair_nll(scores, positive, ignored)).mean()
        return npc_loss(
            scores, self.teacher_scores(batch), positive, ignored, trust,
            weight=npc.consistency, direction=npc.kl,
        ).mean()  # fmt: skip

    @torch.no_grad()
    def teacher_scores(self, batch: Batch) -> Float[Tensor, "query passage"]:
        """The teacher's scaled scores of the batch's queries and columns."""
        assert self.average is not None
        teacher = self.average.reader_of(batch)
        if self.params.chunk_size is None and world().alone:
            queries, passages = teacher.embed_both(batch.queries, batch.passages)
        else:  # memory is short, or other processes do a part
            queries = embed_all(teacher, batch.queries, "query")
            passages = embed_all(teacher, batch.passages, "passage")
        return self.params.scale * queries @ passages.T

    def after_step(self) -> None:
        """Let the teacher follow."""
        if self.average is not None:
            self.average.follow()

    def finish(self) -> None:
        """Take over the teacher's weights if `npc.final` says so."""
        if self.params.npc.final == "teacher" and self.average is not None:
            load_weights(self.encoder, dict(self.average.whole().named_parameters()))

    # Resuming -----------------------------------------------------------------------------------------------

    def state(self) -> Tensors:
        """The teacher, the current flags and the detections so far; nothing during the warm-up."""
        detected = {
            f"{found.epoch}.{name}": torch.from_numpy(getattr(found, name)) for found in self.history for name in _FOUND
        }
        if not self._is_warm:
            return {}
        flags = {"is_clean": self._is_clean, "trust": self._trust}
        return {**(self.average.state() if self.average else {}), "flags": flags, "detected": detected}

    def load(self, tensors: Tensors, done: int) -> None:
        """Continue from a checkpoint with what `state` returned."""
        detected = tensors.get("detected", {})
        self.history = [
            Detected(epoch, **{name: detected[f"{epoch}.{name}"].numpy() for name in _FOUND})
            for epoch in sorted({int(name.split(".")[0]) for name in detected})
        ]
        if "flags" in tensors:
            self.correct()
            self._is_clean, self._trust = tensors["flags"]["is_clean"], tensors["flags"]["trust"]
        if self.average:
            self.average.load(tensors)
