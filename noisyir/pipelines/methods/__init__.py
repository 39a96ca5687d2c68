"""What can be done about wrong labels, one file a method: from a `Context` to a model's outputs; no maths.

A new method is a new file here, and its name in `METHODS`.
"""

from collections.abc import Callable, Mapping

from noisyir.engine.stage import Outputs
from noisyir.pipelines.context import Context
from noisyir.pipelines.methods import (
    ablations,
    ance,
    ar2,
    co_teaching,
    dpr,
    npc,
    npc_relabel,
    oracle,
    relabel,
    rocketqa,
)

Method = Callable[[Context], Outputs]

METHODS: Mapping[str, Method] = {
    "dpr": dpr.train,
    "oracle": oracle.train,
    "npc": npc.train,
    "npc_flags": npc.train_with_flags,
    "npc_relabel": npc_relabel.train,
    "drop": dpr.train_without_flagged,
    "reweight": dpr.train_weighted,
    "relabel": relabel.train,
    "co_teaching": co_teaching.train,
    "ance": ance.train,
    "ar2": ar2.train,
    "ar2_continued": ar2.train_on,
    "rocketqa": rocketqa.train,
    "npc_detection_only": ablations.detection_only,
    "npc_correction_only": ablations.correction_only,
    "npc_detect_once": ablations.detect_once,
    "npc_hard_pair_loss": ablations.hard_pair_loss,
}
