"""The confidences of all training instances while a reader learns."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from noisyir.reading.confidence import evidence, initial, shares, updated
from noisyir.reading.settings import Confidence
from noisyir.training.batches import Rows

Values = npt.NDArray[np.float64]


class Confidences:
    """Shares of each question's trust, moved at every update towards what the model last said of each instance.

    What it said is taken from the training steps themselves, so that an update costs no pass over the instances.
    history: the values at the start and after each update, in float32; chances: beside them, P(x) of Eq. 2 as it last
    was, NaN where the instance was not read yet.
    """

    def __init__(self, kind: Confidence, decay: float, scores: Values, question: Rows) -> None:
        self.kind, self.decay, self.question = kind, decay, question
        self.values = shares(np.ones(len(scores)), question) if kind == "none" else initial(scores, question)
        self.chance = np.full(len(scores), np.nan)
        self.matched = np.zeros(len(scores), bool)
        self.compared = np.full(len(scores), np.nan)
        self.history = [self.values.astype(np.float32)]
        self.chances = [self.compared.astype(np.float32)]

    def see(self, instances: Rows, chance: Values, matched: npt.NDArray[np.bool_]) -> None:
        """Keep what the model says of some instances: P_start * P_end, and whether its own span is theirs."""
        self.chance[instances], self.matched[instances] = chance, matched

    def compare(self, instances: Rows, chance: Values) -> None:
        """Keep P(x) of some instances, by which counterfactual ones are told."""
        self.compared[instances] = chance

    def update(self) -> None:
        """Eq. 9, once for every instance."""
        z = evidence(self.kind, self.chance, self.matched, self.values, self.question)
        self.values = updated(self.values, z, self.decay)
        self.history.append(self.values.astype(np.float32))
        self.chances.append(self.compared.astype(np.float32))

    def state(self) -> dict[str, Tensor]:
        """Everything that later updates depend on, and what was recorded."""
        held = {"values": self.values, "chance": self.chance, "matched": self.matched, "compared": self.compared}
        recorded = {name: torch.from_numpy(np.stack(getattr(self, name))) for name in ("history", "chances")}
        return recorded | {name: torch.from_numpy(value) for name, value in held.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` returned."""
        held = {name: value.numpy().copy() for name, value in state.items()}
        self.values, self.chance, self.matched = held["values"], held["chance"], held["matched"]
        self.compared = held["compared"]
        self.history, self.chances = list(held["history"]), list(held["chances"])
