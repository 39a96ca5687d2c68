"""The ranker of AR2 by noisy pair correction (Zhang et al., Findings of EMNLP 2023, Eq. 5 to 9, over lists).

The teacher, a moving average of the ranker's weights, ranks every list; the ranker is pulled towards that, and towards
the right passage only where nobody doubts it.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from noisyir.losses.npc import npc_loss
from noisyir.training.checkpoint import Tensors, load_weights
from noisyir.training.lists import ListBatch
from noisyir.training.ranker import RankerLearner, list_scores
from noisyir.training.settings import TrainAr2Params
from noisyir.training.teacher import follow, teacher_of

_TEACHER = "ranker_teacher"


class CorrectedRankerLearner(RankerLearner):
    """is_clean * -log p_phi(d | q; D_q) + KL(teacher || ranker) over each list.

    The teacher goes on from round to round.
    """

    params: TrainAr2Params

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.teacher = teacher_of(self.ranker)

    def losses(self, scores: Float[Tensor, "list passage"], batch: ListBatch) -> Float[Tensor, " list"]:
        """Eq. 9 with a list for the batch's passages."""
        with torch.no_grad():
            taught = list_scores(self.teacher, self.lists, batch, self.params)
        positive = torch.zeros(len(batch), dtype=torch.int64, device=scores.device)
        ignored = torch.zeros_like(scores, dtype=torch.bool)
        is_clean = torch.from_numpy(self.lists.is_clean(batch)).to(scores.device)
        return npc_loss(scores, taught, positive, ignored, is_clean, weight=1.0, direction="teacher_student")

    def after_step(self) -> None:
        """Let the teacher follow."""
        follow(self.teacher, self.ranker, self.params.teacher_decay)

    def optimiser_state(self) -> Tensors:
        """The optimiser and the teacher: what the next round goes on with."""
        return {**super().optimiser_state(), _TEACHER: dict(self.teacher.named_parameters())}

    def load(self, tensors: Tensors, done: int) -> None:
        """As a plain ranker, with the teacher."""
        super().load(tensors, done)
        load_weights(self.teacher, tensors[_TEACHER])
