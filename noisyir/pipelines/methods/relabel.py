"""Plain DPR on repaired pairs: the surest wrong ones relabelled, the others dropped."""

from noisyir.engine.plan import Outputs
from noisyir.pipelines.context import Scene
from noisyir.stages.training.train_dpr import WARM_UP


def train(scene: Scene) -> Outputs:
    """The control of `npc_relabel`: the same pairs without a teacher."""
    repaired = scene.repaired()
    pairs, flags = repaired["repaired_pairs"], repaired["repaired_flags"]
    return scene.train(WARM_UP, scene.exp.train, "relabel", pairs=pairs, flags=flags)
